package frontier

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"mercator/formats/record"
	"mercator/formats/segment"
)

// A batch that must know its hosts is found by trial: candidates are taken in order
// of service and joined with the host table, and those are kept that fit. If that
// are too few, it is done again with more candidates.
const (
	firstCandidates = 1 << 13
	moreCandidates  = 4
	maxCandidates   = 1 << 23
)

// outlets are where the URLs go that a batch has taken from the queues.
type outlets struct {
	take  func(*segment.Entry) error // into the batch, in order
	leave func(*segment.Entry) error // back, in any order
	wait  func(*segment.Entry) error // its host is parked until URL.Due, in any order
}

// pickKnown picks a batch that takes o.For, or one without URLs of parked hosts.
func pickKnown(ctx context.Context, fs files, s *state, now record.Time, o NextOptions, out outlets) (*picker, error) {
	n, most := o.N, maxCandidates
	if o.For > 0 {
		// What the connections do if no host is slower than assumed.
		n = int(float64(o.For) * float64(o.Politeness.Connections) / float64(o.Politeness.Duration+1))
	}
	if o.PerHost+o.PerDomain > 0 {
		most = MaxCapped
	}
	n = min(max(n, firstCandidates), most)
	for whole := o.PerHost == 0; ; {
		t, err := try(ctx, fs, s, now, o, n, whole)
		switch {
		case err != nil:
			return nil, err
		case t.fits == 0 && !whole:
			whole = true // others may stand behind hosts that are parked
		case t.more && n < most && t.small():
			n = min(n+t.further(n), most)
		default:
			if err := t.finish(out); err != nil {
				t.close()
				return nil, err
			}
			return t.picker, nil
		}
		t.close()
	}
}

// trial is a batch that may turn out too small.
type trial struct {
	*picker
	o    NextOptions
	now  record.Time
	room time.Duration // of all connections
	kept *sorter       // URLs of the batch, by number of service, each after its contact's duration and its order
	rest *sorter       // candidates that are not: by order
	late *sorter       // URLs of parked hosts, by the time until when
	all  int           // candidates
	fits int           // those that their hosts have time for
	over int           // and that they have not
	more bool          // not all that waits was a candidate
	idle bool          // the batch leaves connections idle
	buf  []byte
}

// small reports whether more candidates may make a better batch.
func (t *trial) small() bool {
	if t.o.For > 0 {
		return t.idle && t.fits >= t.over
	}
	return t.fits < t.o.N
}

// further is how many candidates there are to be beside the n of this trial. All that
// will be in no batch is written again, so these are not more than it takes.
func (t *trial) further(n int) int {
	if t.o.For > 0 || t.all < n { // limits passed over the others
		return n * (moreCandidates - 1)
	}
	return min(n, t.over) * (moreCandidates - 1)
}

// try takes n candidates: of the whole frontier, or of the places that picker.within
// leaves.
func try(ctx context.Context, fs files, s *state, now record.Time, o NextOptions, n int, whole bool) (*trial, error) {
	p, err := newPicker(ctx, fs, s, now)
	if err != nil {
		return nil, err
	}
	t := &trial{picker: p, o: o, now: now, room: o.For * time.Duration(o.Politeness.Connections)}
	t.kept, t.rest, t.late = p.sorter(smallSort), p.sorter(smallSort), p.sorter(smallSort)
	if !whole {
		t.within(o.PerHost)
	}
	if err := t.run(ctx, fs, n); err != nil {
		p.close()
		return nil, err
	}
	return t, nil
}

// candidate is a URL and what must be known of it to decide about it.
type candidate struct {
	number uint64 // in order of service, from 1
	order  uint64
	host   []byte
	row    []byte // as appendRow gives it
}

func (c *candidate) append(b []byte) []byte {
	b = binary.AppendUvarint(b, c.number)
	b = binary.AppendUvarint(b, c.order)
	b = binary.AppendUvarint(b, uint64(len(c.host)))
	return append(append(b, c.host...), c.row...)
}

// decodeCandidate is the reverse of append, for bytes that this process wrote.
func decodeCandidate(b []byte) (c candidate) {
	var n int
	c.number, n = binary.Uvarint(b)
	b = b[n:]
	c.order, n = binary.Uvarint(b)
	b = b[n:]
	size, n := binary.Uvarint(b)
	b = b[n:]
	c.host, c.row = b[:size], b[size:]
	return c
}

func (t *trial) run(ctx context.Context, fs files, n int) error {
	leave := func(e *segment.Entry) error { return addRow(t.rest, e.Order, e) }
	candidates := t.sorter(largeSort)
	c := candidate{}
	var buf []byte
	more, err := t.stream(ctx, t.o, n, leave, func(e *segment.Entry) error {
		c.number++
		c.order = e.Order
		c.host = append(c.host[:0], e.URL.Host...)
		c.row = appendRow(&candidates.coders, c.row[:0], e)
		buf = c.append(buf[:0])
		return candidates.add(hostOrder(e.URL.Host), buf)
	})
	if err != nil {
		return err
	}
	t.more, t.all = more, int(c.number)
	if err := t.drain(leave); err != nil {
		return err
	}
	hosts := t.s.Hosts
	if t.o.For == 0 {
		hosts = t.s.Parked
	}
	table := openHosts(fs, hosts)
	defer table.close()
	rows, err := candidates.sorted()
	if err != nil {
		return err
	}
	var group hostGroup
	var left []int         // of each host of the group, contacts that it has time for; -1: not known yet
	var spare []byte       // the first candidate
	var parked record.Time // until when its host is
	room := t.room
	for order, any := uint64(0), false; !rows.done; {
		if !any || rows.key != order {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			order, any = rows.key, true
			if group, err = table.find(order, group[:0]); err != nil {
				return err
			}
			left = left[:0]
		}
		c := decodeCandidate(rows.row)
		h, err := group.host(c.host)
		if err != nil {
			return err
		}
		for len(left) < len(group) {
			left = append(left, -1)
		}
		at := 0
		for &group[at] != h {
			at++
		}
		spent, gap := t.o.Politeness.pace(h)
		if left[at] < 0 {
			left[at] = t.contacts(h, spent, gap)
			if left[at] > 0 && h.Contacts == 0 {
				room -= spent // for robots.txt
			}
		}
		switch {
		case left[at] > 0:
			t.fits++
			left[at]--
			room -= spent
			err = t.keep(&c, spent)
		case c.number == 1: // is decided about when all others are
			spare, parked = append(spare, rows.row...), h.ParkedUntil
		default:
			err = t.pass(&c, h.ParkedUntil)
		}
		if err == nil {
			err = rows.take()
		}
		if err != nil {
			return err
		}
	}
	t.idle = room > 0
	if spare == nil {
		return nil
	}
	c = decodeCandidate(spare)
	if t.fits == 0 {
		return t.keep(&c, 0) // an empty batch would mean an empty frontier
	}
	return t.pass(&c, parked)
}

// keep puts a candidate into the batch.
func (t *trial) keep(c *candidate, spent time.Duration) error {
	t.buf = binary.AppendUvarint(t.buf[:0], uint64(spent))
	t.buf = binary.AppendUvarint(t.buf, c.order)
	t.buf = append(t.buf, c.row...)
	return t.kept.add(c.number, t.buf)
}

// pass does not: it goes back to its place, or waits if its host is parked.
func (t *trial) pass(c *candidate, parked record.Time) error {
	t.over++
	if parked > t.now {
		return t.late.add(uint64(parked), c.row)
	}
	return t.rest.add(c.order, c.row)
}

// contacts is how many URLs of a host may be in the batch.
func (t *trial) contacts(h *segment.Host, duration, gap time.Duration) int {
	switch {
	case h.ParkedUntil > t.now && (t.o.For == 0 || h.Failures > 0):
		return 0 // mfetch waits as a server asks (Retry-After), but does not know of dead hosts
	case t.o.For == 0:
		return math.MaxInt
	}
	in := t.o.For - max(time.Duration(h.ParkedUntil-t.now)*time.Microsecond, 0)
	if in <= 0 {
		return 0
	}
	n := 1 + int(max(in-duration, 0)/max(duration+gap, 1))
	if h.Contacts == 0 {
		n = max(n-1, 1) // one is for robots.txt
	}
	return n
}

// finish gives to out what the batch has taken from the queues.
func (t *trial) finish(out outlets) error {
	rows, err := t.kept.sorted()
	room := t.room
	var e segment.Entry
	for n := 0; err == nil && !rows.done; n++ {
		spent, a := binary.Uvarint(rows.row)
		order, b := binary.Uvarint(rows.row[a:])
		if err := decodeRow(&t.kept.coders, rows.row[a+b:], order, &e); err != nil {
			return err
		}
		to := out.leave
		if t.o.For > 0 && room > 0 || t.o.For == 0 && n < t.o.N {
			to = out.take
		}
		room -= time.Duration(spent)
		if err := to(&e); err != nil {
			return err
		}
		err = rows.take()
	}
	if err != nil {
		return err
	}
	if err := eachRow(t.late, func(e *segment.Entry) error {
		e.URL.Due = record.Time(e.Order)
		return out.wait(e)
	}); err != nil {
		return err
	}
	return eachRow(t.rest, out.leave)
}
