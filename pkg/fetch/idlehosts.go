package fetch

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"time"

	"mercator/pkg/merge"
)

const (
	rememberedMax = 1 << 16                                   // hosts without work in memory; contacts of more are moved to disk
	lastMax       = 1 << 14                                   // up to this many, the last contact is kept although its gap is over: a longer delay set later counts at once
	keepLast      = micros(24 * time.Hour / time.Microsecond) // age of such a contact at most
)

// contact is the state of a host that is kept after its work has ended: when it may be contacted again.
type contact struct {
	next, required micros
	fails          int  // in a row
	timeouts       int  // as party.timeouts
	copied         bool // read from the store of another shard, which keeps it

	ended     micros     // end of the last contact; 0: not known
	took      micros     // duration of the last contact
	serverGap micros     // gap that the server asked for after it
	addr      netip.Addr // address of the last contact; invalid: not known
}

// recent reports whether the last contact is remembered if there is room.
func (c contact) recent(now micros) bool { return c.ended > now-keepLast }

// counts reports whether the contact must outlive the batch, as of now.
func (c contact) counts(now micros) bool {
	return c.next > now || c.timeouts > 0 && c.next > now-keepHung
}

// append appends the contact and the name of its host.
func (c contact) append(b []byte, name string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(c.next))
	b = binary.BigEndian.AppendUint64(b, uint64(c.required))
	copied := byte(0)
	if c.copied {
		copied = 1
	}
	b = binary.BigEndian.AppendUint64(b, uint64(c.ended))
	b = binary.BigEndian.AppendUint64(b, uint64(c.took))
	b = binary.BigEndian.AppendUint64(b, uint64(c.serverGap))
	addr := c.addr.AsSlice()
	b = append(append(b, byte(c.timeouts), byte(min(c.fails, failsMax)), copied, byte(len(addr))), addr...)
	return append(b, name...)
}

func parseContact(b []byte) (c contact, name []byte) {
	c.next, c.required = micros(binary.BigEndian.Uint64(b)), micros(binary.BigEndian.Uint64(b[8:]))
	c.ended, c.took = micros(binary.BigEndian.Uint64(b[16:])), micros(binary.BigEndian.Uint64(b[24:]))
	c.serverGap, b = micros(binary.BigEndian.Uint64(b[32:])), b[40:]
	c.timeouts, c.fails, c.copied = int(b[0]), int(b[1]), b[2] == 1
	n := 4 + int(b[3])
	c.addr, _ = netip.AddrFromSlice(b[4:n])
	return c, b[n:]
}

// idleHosts remembers the contacts of hosts without work in this batch. Most are forgotten
// within seconds. When more than max hosts must be left alone, their contacts are moved to disk.
// Failures of hosts that may be contacted are remembered while there are few hosts.
type idleHosts struct {
	inMemory map[string]contact
	max      int
	sweep    int    // size of inMemory at which contacts that no longer count are forgotten
	onDisk   levels // contacts, each behind the number of its move: the highest number counts for a host
	moves    uint64 // moves to disk so far
	err      error  // of the disk: it ends the run
}

func newIdleHosts() *idleHosts {
	return &idleHosts{inMemory: map[string]contact{}, max: rememberedMax, sweep: 1 << 12, onDisk: levels{kind: "contacts"}}
}

func (a *idleHosts) close() { a.onDisk.close() }

// put remembers a host as of now, and replaces what was known of it.
func (a *idleHosts) put(name string, c contact, now micros) {
	if a.err != nil || !c.counts(now) && !c.recent(now) && c.fails == 0 {
		return // an older contact on disk no longer counts either
	}
	a.inMemory[name] = c
	if len(a.inMemory) < a.sweep {
		return
	}
	many, full := len(a.inMemory) >= min(lastMax, a.max), len(a.inMemory) >= a.max
	maps.DeleteFunc(a.inMemory, func(_ string, c contact) bool { return !c.counts(now) && (many || c.fails == 0 && !c.recent(now)) })
	if len(a.inMemory) > a.max/2 && full {
		a.err = a.moveToDisk(now)
	}
	a.sweep = min(max(1<<12, 2*len(a.inMemory)), a.max)
}

// putLater is put, unless a known contact keeps the host waiting longer.
func (a *idleHosts) putLater(name string, c contact, now micros) {
	if known, ok := a.takeContact(name, now); ok && known.next > c.next {
		c = known
	}
	a.put(name, c, now)
}

// moveToDisk moves all that is in memory to the disk.
func (a *idleHosts) moveToDisk(now micros) error {
	a.moves++
	rows := &unsorted{Sorter: merge.NewSorter(sortMemory, a.onDisk.dir)}
	defer rows.Close()
	for name, c := range a.inMemory {
		if err := rows.addRow(idOf(name), func(b []byte) []byte { return c.append(binary.BigEndian.AppendUint64(b, a.moves), name) }); err != nil {
			return err
		}
	}
	a.onDisk.keep = func(value []byte) bool {
		c, _ := parseContact(value[8:])
		return c.counts(now)
	}
	if err := rows.addRunTo(&a.onDisk); err != nil {
		return err // the run ends, and inMemory still keeps every host waiting
	}
	clear(a.inMemory)
	return nil
}

// takeContact forgets and returns what is remembered of a host, as of now.
func (a *idleHosts) takeContact(name string, now micros) (c contact, known bool) {
	if c, known = a.inMemory[name]; known {
		delete(a.inMemory, name)
		return c, true
	}
	if a.err == nil {
		last := uint64(0)
		a.err = a.onDisk.find(idOf(name), func(value []byte) bool {
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

// each calls f with each contact that counts, in no order. For a host on disk f may be called several
// times; the last call counts.
func (a *idleHosts) each(now micros, f func(name string, c contact) error) error {
	err := a.onDisk.each(func(value []byte) error {
		c, name := parseContact(value[8:])
		if !c.counts(now) {
			return nil
		}
		return f(string(name), c)
	})
	for name, c := range a.inMemory {
		if err == nil && (c.counts(now) || c.recent(now)) {
			err = f(name, c)
		}
	}
	return err
}
