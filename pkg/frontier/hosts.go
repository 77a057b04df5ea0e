package frontier

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
)

// hostGroup are the hosts of one hostKey, which is one as a rule.
type hostGroup []Host

// host returns the state of the host of that name, a new one if there is none.
func (g *hostGroup) host(name []byte) (*Host, error) {
	for i := range *g {
		if (*g)[i].Host == string(name) {
			return &(*g)[i], nil
		}
	}
	h := Host{Host: string(name)}
	h.Key = hostKey(h.Host)
	if len(*g) == maxSame {
		return nil, tooManySame(h.Key)
	}
	*g = append(*g, h)
	return &(*g)[len(*g)-1], nil
}

// hosts updates the host table with events and new URLs, and gives the
// new URLs their virtual times. If a host changed, all hosts of its key are written, so that
// the newest run with a key has all of them. It returns the new run, without rows
// if nothing changed.
func (c *change) hosts(ctx context.Context) (run, error) {
	events, err := c.events.sorted()
	if err != nil {
		return run{}, err
	}
	arrivals, err := c.fresh.sorted()
	if err != nil || arrivals.done && events.done {
		return run{}, err
	}
	table := openTable(c.st, c.s.Hosts)
	defer table.close()
	w, err := newRun(c.tx, "hosts/", "hosts", 0)
	if err != nil {
		return run{}, err
	}
	var group, was hostGroup
	var ev Host
	var a arrival // one for all: policies get a pointer, and keep none
	var name []byte
	fresh := true
	for !events.done || !arrivals.done {
		if err := context.Cause(ctx); err != nil {
			return run{}, err
		}
		order := events.key
		if events.done || !arrivals.done && arrivals.key < order {
			order = arrivals.key
		}
		if group, err = find(table, order, group[:0]); err != nil {
			return run{}, err
		}
		was = append(was[:0], group...)
		gaps, waited := uint64(0), 0 // the longest gap, and contacts that had one before them
		ended := record.Time(0)      // of the last contact
		for !events.done && events.key == order {
			if err := ev.Parse(order, events.row); err != nil {
				return run{}, err
			}
			name = append(name[:0], ev.Host...)
			h, err := group.host(name)
			if err != nil {
				return run{}, err
			}
			absorb(h, &ev)
			ended = max(ended, ev.LastContact)
			if ev.DelayUS > 0 {
				gaps, waited = max(gaps, ev.DelayUS), waited+1
			}
			if int64(h.Finished) < 0 {
				return run{}, &fault.Error{Class: fault.Conflict, Found: "URLs of host " + h.Host + " that had an outcome, to be fetched again", Want: "no more than the frontier finished"}
			}
			if err := events.takeRow(); err != nil {
				return run{}, err
			}
		}
		for !arrivals.done && arrivals.key == order {
			a = decodeArrival(arrivals.row)
			h, err := group.host(a.host)
			if err != nil {
				return run{}, err
			}
			if err := c.queueArrival(h, &a); err != nil {
				return run{}, err
			}
			if err := arrivals.takeRow(); err != nil {
				return run{}, err
			}
		}
		slices.SortFunc(group, func(a, b Host) int { return strings.Compare(a.Host, b.Host) })
		for i := range group {
			h, before := &group[i], Host{}
			if at := slices.IndexFunc(was, func(b Host) bool { return b.Host == h.Host }); at >= 0 {
				before = was[at]
			}
			shortenGap(h, &before, gaps, waited)
			c.dead.rest(h, &before, ended)
			fresh = fresh && !hasHistory(h)
			c.buf = h.Append(c.buf[:0])
			if err := w.addPayload(order, c.buf); err != nil {
				return run{}, err
			}
			if err := c.noteDead(h, &before); err != nil {
				return run{}, err
			}
		}
	}
	r, err := w.finish()
	r.Fresh = fresh
	return r, err
}

// dead reports whether a host is taken to be dead.
func (d *Dead) dead(h *Host) bool { return d.After > 0 && h.Failures >= uint64(d.After) }

// rest leaves a host alone that is dead and was contacted again, the last time until ended: for Delay, and as long
// as it has been silent. before is its state before that.
func (d *Dead) rest(h, before *Host, ended record.Time) {
	if d.dead(h) && h.Contacts > before.Contacts {
		wait := record.Time(d.Delay.Microseconds()) + ended - h.LastContact
		h.ParkedUntil = max(h.ParkedUntil, ended+min(wait, record.Time(d.MaxDelay.Microseconds())))
	}
}

// noteDead tells batches that a host is dead, or that it is so no more. before is its
// state before.
func (c *change) noteDead(h, before *Host) (err error) {
	told := c.dead.dead(before) && before.ParkedUntil > c.now
	if dead := c.dead.dead(h); dead && h.ParkedUntil <= c.now || !dead && !told {
		return nil
	}
	if c.deads == nil {
		if c.deads, err = newRun(c.tx, "dead/", "dead", 0); err != nil {
			return err
		}
	}
	c.s.DeadUntil = max(c.s.DeadUntil, h.ParkedUntil)
	return c.deads.addPayload(h.Key, h.Append(nil))
}

// arrival is a new URL, with the columns that its virtual time depends on.
type arrival struct {
	priority uint8
	due      record.Time
	number   uint64 // in order of arrival
	hold     uint64 // round until which the URL is held; 0: it is queued
	known    bool   // the URL waited before, so that its host has counted it
	host     []byte
	row      []byte // the payload of the URL's row
}

func (a *arrival) append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, a.priority), uint64(a.due))
	b = binary.AppendUvarint(b, a.number)
	hold := a.hold << 1
	if a.known {
		hold |= 1
	}
	b = binary.AppendUvarint(b, hold)
	b = binary.AppendUvarint(b, uint64(len(a.host)))
	return append(append(b, a.host...), a.row...)
}

// decodeArrival is the reverse of append, for bytes that this process wrote.
func decodeArrival(b []byte) (a arrival) {
	a.priority = b[0]
	due, n := binary.Uvarint(b[1:])
	b = b[1+n:]
	a.due = record.Time(due)
	a.number, n = binary.Uvarint(b)
	b = b[n:]
	hold, n := binary.Uvarint(b)
	a.hold, a.known = hold>>1, hold&1 == 1
	size, m := binary.Uvarint(b[n:])
	b = b[n+m:]
	a.host, a.row = b[:size], b[size:]
	return a
}

// queueArrival queues a new URL of host h, if the host may have one more.
func (c *change) queueArrival(h *Host, a *arrival) error {
	if !a.known {
		if c.limits.full(h) {
			c.b.Drop(dropHost)
			return nil
		}
		if c.policy.links != onlyLinks {
			c.b.Consume()
		}
		h.Discovered++
		c.s.Counts.Discovered++
		c.s.Counts.Pending++
	}
	if a.hold > 0 {
		return c.holdRow(a.hold, a.row)
	}
	if a.due != 0 {
		c.s.Longest = max(c.s.Longest, a.due-c.clock)
	}
	return c.policy.arrive(c, h, a)
}

// lately is how many contacts the means of a host are about: each counts one n-th of n
// contacts, and one sixty-fourth from then on. Were it an eighth, as TCP smooths round-trip times
// (RFC 6298), the first would be most of what is known for long, and a mean would always stray by a
// quarter of the spread.
const lately = 64

// longest bounds what is taken for a duration or a gap, in µs: an hour.
const longest = 3600_000_000

// smooth is the mean of n measurements; newest is the last, and mean is the mean before it.
func smooth(mean, newest, n uint64) uint64 {
	n = min(max(n, 1), lately)
	return ((n-1)*min(mean, longest) + min(newest, longest) + n/2) / n
}

// widen is the standard deviation of n measurements; newest is the last, spread and mean are
// of the measurements before it.
func widen(spread, mean, newest, n uint64) uint64 {
	w := 1 / float64(min(max(n, 1), lately))
	s, d := float64(min(spread, longest)), float64(min(newest, longest))-float64(min(mean, longest))
	return uint64(math.Round(math.Sqrt((1 - w) * (float64(s*s) + float64(w*d*d))))) // the same bits on every machine
}

// absorb adds an event to a host's state. Events come in the
// order of the contacts, as outcomes do.
func absorb(h, ev *Host) {
	h.Discovered += ev.Discovered
	h.Finished += ev.Finished
	h.Fetched = min(h.Fetched+ev.Fetched, h.Finished)
	h.Retried += ev.Retried
	h.Deferred += ev.Deferred
	h.Dead += ev.Dead
	h.Bytes = min(h.Bytes+ev.Bytes, math.MaxInt64)
	h.ParkedUntil = max(h.ParkedUntil, ev.ParkedUntil)
	if ev.Contacts == 0 {
		return
	}
	h.Contacts += ev.Contacts
	h.SpreadUS = widen(h.SpreadUS, h.DurationUS, ev.DurationUS, h.Contacts)
	h.DurationUS = smooth(h.DurationUS, ev.DurationUS, h.Contacts)
	switch { // the first contact had no gap before it, and that before a second for robots.txt is not told
	case ev.DelayUS == 0:
	case h.DelayUS == 0:
		h.DelayUS = ev.DelayUS
	default:
		h.DelayUS = smooth(h.DelayUS, ev.DelayUS, h.Contacts)
	}
	if ev.Failures == 0 || h.Failures == 0 {
		h.LastContact = max(h.LastContact, ev.LastContact)
	} else { // the first of the failures, also by a clock that was turned back since
		h.LastContact = min(h.LastContact, ev.LastContact)
	}
	h.Addr = ev.Addr
	switch {
	case ev.Failures > 0:
		h.Failures += ev.Failures
	case h.Failures > 0:
		h.Failures, h.ParkedUntil = 0, ev.ParkedUntil // if it was dead, it is so no more
	}
}

// shortenGap makes the mean gap of a host smaller after a batch that shows it to be too long. before is the host's state before the batch;
// waited contacts of the batch had a gap before them, and gap is the longest. If none had, the last gap had passed when the batch
// began: without this rule a host that was slow once, and then gets one URL a batch, would stay slow. If several had, a mean
// above the longest comes from a politeness that was lowered since, or from a wait that the server no longer asks for: it would
// make batches smaller for many rounds.
func shortenGap(h, before *Host, gap uint64, waited int) {
	switch {
	case h.Contacts == before.Contacts || before.Contacts == 0:
	case waited == 0:
		h.DelayUS = smooth(h.DelayUS, 0, h.Contacts)
	case waited > 1:
		h.DelayUS = min(h.DelayUS, gap)
	}
}

// hasHistory reports whether a host's state says when it may be contacted, and for how long.
func hasHistory(h *Host) bool {
	return h.Contacts > 0 || h.Failures > 0 || h.DurationUS > 0 || h.SpreadUS > 0 || h.DelayUS > 0 || h.LastContact != 0 || h.ParkedUntil != 0 || h.Addr != ""
}

// speeds are the runs of a host table that may have hosts with a history. A host outside them is
// like a new one, except for counts and virtual times.
func speeds(runs []run) []run {
	return slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.Fresh })
}

// HostStat is the frontier's record of a host: Discovered = Pending + InFlight + Finished.
type HostStat struct {
	Host
	Pending  uint64
	InFlight uint64
	Domain   *Domain // nil: nothing is known of its registered domain
}

// MarshalJSON shows it to people and programs, as Host is shown.
func (h *HostStat) MarshalJSON() ([]byte, error) {
	host, err := json.Marshal(&h.Host)
	if err != nil {
		return nil, err
	}
	more, err := json.Marshal(struct {
		Pending  uint64  `json:"pending"`
		InFlight uint64  `json:"in_flight"`
		Domain   *Domain `json:"registered_domain,omitempty"`
	}{h.Pending, h.InFlight, h.Domain})
	if err != nil {
		return nil, err
	}
	return append(append(host[:len(host)-1], ','), more[1:]...), nil
}

// Host returns the state of a host; found is false if the frontier never had a
// URL of it. It reads the batches that are in flight.
func (f *Frontier) Host(ctx context.Context, host string) (h HostStat, found bool, err error) {
	s, _, err := f.current()
	if err != nil {
		return h, false, err
	}
	table := openTable(f.st, s.Hosts)
	defer table.close()
	group, err := find[Host](table, hostKey(host), nil)
	i := slices.IndexFunc(group, func(h Host) bool { return h.Host == host })
	if err != nil || i < 0 {
		return h, false, err
	}
	h.Host = group[i]
	flying := map[string]uint64{host: 0}
	if err := f.flying(ctx, s, flying); err != nil {
		return h, false, err
	}
	h.InFlight = flying[host]
	h.Pending = h.Discovered - h.Finished - h.InFlight
	domains := openTable(f.st, s.Domains)
	defer domains.close()
	d, known, err := domainOf(domains, host)
	if known {
		h.Domain = &d
	}
	return h, err == nil, err
}

// flying adds to the hosts of count what they have in flight.
func (f *Frontier) flying(ctx context.Context, s *state, count map[string]uint64) error {
	return eachEntry(ctx, f.st, s.InFlight.runs(), func(e *Entry) error {
		if n, ok := count[e.URL.Host]; ok {
			count[e.URL.Host] = n + 1
		}
		return nil
	})
}
