package fetch

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"time"

	"mercator/pkg/merge"
)

// Of so many hosts without work memory holds what politeness must know; and where there are no more than these, the last contacts of a day,
// by which a longer delay that a person sets counts at once.
const (
	rememberedMax = 1 << 16
	lastMax       = 1 << 14
	keepLast      = micros(24 * time.Hour / time.Microsecond)
)

// contact is what outlives a host's work: when it may be contacted again.
type contact struct {
	next, required micros
	fails          int  // in a row
	hung           int  // as of the host
	copied         bool // from the store of another shard, which keeps it

	ended, took micros     // the last contact: when, and its duration; 0: not known
	asked       micros     // the gap after it that its server asked for
	addr        netip.Addr // and where it was; invalid: not known
}

// recent says whether the last contact is to be remembered where there is room.
func (c contact) recent(now micros) bool { return c.ended > now-keepLast }

// counts reports whether anything of it outlives the batch at an instant.
func (c contact) counts(now micros) bool {
	return c.next > now || c.hung > 0 && c.next > now-keepHung
}

// append appends it and the name of its host.
func (c contact) append(b []byte, name string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(c.next))
	b = binary.BigEndian.AppendUint64(b, uint64(c.required))
	copied := byte(0)
	if c.copied {
		copied = 1
	}
	b = binary.BigEndian.AppendUint64(b, uint64(c.ended))
	b = binary.BigEndian.AppendUint64(b, uint64(c.took))
	b = binary.BigEndian.AppendUint64(b, uint64(c.asked))
	addr := c.addr.AsSlice()
	b = append(append(b, byte(c.hung), byte(min(c.fails, failsMax)), copied, byte(len(addr))), addr...)
	return append(b, name...)
}

func parseContact(b []byte) (c contact, name []byte) {
	c.next, c.required = micros(binary.BigEndian.Uint64(b)), micros(binary.BigEndian.Uint64(b[8:]))
	c.ended, c.took = micros(binary.BigEndian.Uint64(b[16:])), micros(binary.BigEndian.Uint64(b[24:]))
	c.asked, b = micros(binary.BigEndian.Uint64(b[32:])), b[40:]
	c.hung, c.fails, c.copied = int(b[0]), int(b[1]), b[2] == 1
	n := 4 + int(b[3])
	c.addr, _ = netip.AddrFromSlice(b[4:n])
	return c, b[n:]
}

// absent remembers the contacts of hosts without work in this batch. Most are forgotten
// within seconds. Where more than max hosts ask to be left alone, they are on disk. Of
// those that may be contacted it is remembered that they failed while there are few.
type absent struct {
	near  map[string]contact
	max   int
	sweep int    // of this many in near, those that count no more are forgotten
	far   levels // contacts, behind the number of their move to the disk: of one host those of the last count
	moves uint64
	err   error // of the disk: it ends the run
}

func newAbsent() *absent {
	return &absent{near: map[string]contact{}, max: rememberedMax, sweep: 1 << 12, far: levels{kind: "contacts"}}
}

func (a *absent) close() { a.far.close() }

// put remembers a host at an instant, in place of what was known of it.
func (a *absent) put(name string, c contact, now micros) {
	if a.err != nil || !c.counts(now) && !c.recent(now) && c.fails == 0 {
		return // take gives none any more; what may be known of it on disk has passed too
	}
	a.near[name] = c
	if len(a.near) < a.sweep {
		return
	}
	many, full := len(a.near) >= min(lastMax, a.max), len(a.near) >= a.max
	maps.DeleteFunc(a.near, func(_ string, c contact) bool { return !c.counts(now) && (many || c.fails == 0 && !c.recent(now)) })
	if len(a.near) > a.max/2 && full {
		a.err = a.putFar(now)
	}
	a.sweep = min(max(1<<12, 2*len(a.near)), a.max)
}

// putLater is put, unless what is known lies further ahead.
func (a *absent) putLater(name string, c contact, now micros) {
	if known, ok := a.take(name, now); ok && known.next > c.next {
		c = known
	}
	a.put(name, c, now)
}

// putFar moves all that is in memory to the disk.
func (a *absent) putFar(now micros) error {
	a.moves++
	rows := &unsorted{Sorter: merge.NewSorter(sortMemory, a.far.dir)}
	defer rows.Close()
	for name, c := range a.near {
		if err := rows.add(idOf(name), func(b []byte) []byte { return c.append(binary.BigEndian.AppendUint64(b, a.moves), name) }); err != nil {
			return err
		}
	}
	a.far.keep = func(value []byte) bool {
		c, _ := parseContact(value[8:])
		return c.counts(now)
	}
	if err := rows.addTo(&a.far); err != nil {
		return err // the run ends, and near says of none that it may be contacted
	}
	clear(a.near)
	return nil
}

// take returns what is remembered of a host that has work again at an instant.
func (a *absent) take(name string, now micros) (c contact, known bool) {
	if c, known = a.near[name]; known {
		delete(a.near, name)
		return c, true
	}
	if a.err == nil {
		last := uint64(0)
		a.err = a.far.find(idOf(name), func(value []byte) bool {
			if n := binary.BigEndian.Uint64(value); n > last {
				last = n
				c, _ = parseContact(value[8:])
				known = c.counts(now)
			}
			return false
		})
	}
	if a.err != nil { // nobody is contacted before the run ends
		return contact{next: now + us(time.Hour)}, true
	}
	if !known {
		c = contact{}
	}
	return c, known
}

// each calls f with the hosts of which something outlives the batch at an instant, in no order. Of one
// on disk it may be called several times, the last of which counts.
func (a *absent) each(now micros, f func(name string, c contact) error) error {
	err := a.far.each(func(value []byte) error {
		c, name := parseContact(value[8:])
		if !c.counts(now) {
			return nil
		}
		return f(string(name), c)
	})
	for name, c := range a.near {
		if err == nil && (c.counts(now) || c.recent(now)) {
			err = f(name, c)
		}
	}
	return err
}
