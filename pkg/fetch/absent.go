package fetch

import (
	"maps"
	"time"
)

// rememberedMax is of how many hosts without work memory holds what politeness must know.
const rememberedMax = 1 << 16

// contact is what outlives a host's work: when it may be contacted again.
type contact struct {
	next, required micros
	fails          int // in a row
	hung           int // as of the host
}

// counts reports whether anything of it outlives the batch at an instant.
func (c contact) counts(now micros) bool {
	return c.next > now || c.hung > 0 && c.next > now-keepHung
}

// absent remembers the contacts of hosts without work in this batch. Most are forgotten
// within seconds. Where more than max hosts ask to be left alone, they are on disk. Of
// those that may be contacted it is remembered that they failed while there are few.
type absent struct {
	near  map[string]contact
	max   int
	sweep int // of this many in near, those that count no more are forgotten
	far   table
	names *spool // of the hosts in far; nil: there are none
	err   error  // of the disk: it ends the run
}

func newAbsent() *absent {
	return &absent{near: map[string]contact{}, max: rememberedMax, sweep: 1 << 12}
}

func (a *absent) close() {
	a.far.close()
	if a.names != nil {
		a.names.close()
	}
}

// put remembers a host at an instant, in place of what was known of it.
func (a *absent) put(name string, c contact, now micros) {
	if a.err != nil || !c.counts(now) && c.fails == 0 {
		return // take gives none any more; what may be known of it on disk has passed too
	}
	a.near[name] = c
	if len(a.near) < a.sweep {
		return
	}
	many := len(a.near) >= a.max
	maps.DeleteFunc(a.near, func(_ string, c contact) bool { return !c.counts(now) && (c.fails == 0 || many) })
	if len(a.near) > a.max/2 && many {
		a.putFar(now)
	}
	a.sweep = min(max(1<<12, 2*len(a.near)), a.max)
}

// putFar moves all that is in memory to the disk.
func (a *absent) putFar(now micros) {
	if a.names == nil {
		a.names, a.err = newSpool(a.far.dir, nil)
	}
	a.far.stale = func(v nums) bool { return !farContact(v).counts(now) }
	for name, c := range a.near {
		if a.err != nil {
			return
		}
		i := idOf(name)
		var v nums
		if v, a.err = a.far.get(i); a.err == nil && v == (nums{}) {
			var at int64
			at, a.err = a.names.blob([]byte(name))
			v[2] = at<<24 | int64(len(name)) // no record has 16 MiB
		}
		if v[0], v[1] = c.next, c.required<<8|micros(c.hung<<4|min(c.fails, failsMax)); a.err == nil {
			a.err = a.far.put(i, v)
		}
	}
	clear(a.near)
}

func farContact(v nums) contact {
	return contact{next: v[0], required: v[1] >> 8, fails: int(v[1] & 0xf), hung: int(v[1] >> 4 & 0xf)}
}

// take returns what is remembered of a host that has work again at an instant.
func (a *absent) take(name string, now micros) (c contact, known bool) {
	if c, known = a.near[name]; known {
		delete(a.near, name)
		return c, true
	}
	var v nums
	if a.err == nil {
		v, a.err = a.far.get(idOf(name))
	}
	switch {
	case a.err != nil: // nobody is contacted before the run ends
		return contact{next: now + us(time.Hour)}, true
	case !farContact(v).counts(now):
		return c, false
	}
	return farContact(v), true
}

// each calls f with the hosts of which something outlives the batch at an instant, in no order. Of
// one on disk that was contacted since it is called for both times.
func (a *absent) each(now micros, f func(name string, c contact) error) error {
	for name, c := range a.near {
		if c.counts(now) {
			if err := f(name, c); err != nil {
				return err
			}
		}
	}
	return a.far.each(func(_ id, v nums) error {
		if !farContact(v).counts(now) {
			return nil
		}
		name := make([]byte, v[2]&(1<<24-1))
		if err := a.names.readAt(name, v[2]>>24); err != nil {
			return err
		}
		return f(string(name), farContact(v))
	})
}
