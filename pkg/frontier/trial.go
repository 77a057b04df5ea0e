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

// pickKnown picks a batch that takes o.For, or one without URLs of parked hosts, or
// one that goes through back queues.
func pickKnown(ctx context.Context, fs files, s *state, now record.Time, o NextOptions, back int, out outlets) (*picker, error) {
	n, most := o.N, maxCandidates
	if o.For == 0 && len(s.Parked) == 0 { // each candidate fits
		t, err := try(ctx, fs, s, now, o, back, n, o.PerHost == 0)
		if err != nil {
			return nil, err
		}
		return t.finish(out)
	}
	if o.For > 0 {
		// What the connections do if no host is slower than assumed.
		n = int(float64(o.For) * float64(o.Politeness.Connections) / float64(o.Politeness.Duration+1))
	}
	if o.PerHost+o.PerDomain > 0 {
		most = MaxCapped
	}
	n = min(max(n, firstCandidates), most)
	if len(o.away) > 0 {
		n = min(n, MaxCapped)
		most = n // all that is passed over is written again: no more than one batch's worth
	}
	for whole := o.PerHost == 0; ; {
		t, err := try(ctx, fs, s, now, o, back, n, whole)
		switch {
		case err != nil:
			return nil, err
		case t.fits == 0 && !whole:
			whole = true // others may stand behind hosts that are parked
		case t.more && n < most && t.small():
			n = min(n+t.further(n), most)
		default:
			return t.finish(out)
		}
		t.close()
	}
}

// trial is a batch that may turn out too small.
type trial struct {
	*picker
	o    NextOptions
	back int // queues
	now  record.Time
	room time.Duration // of all connections
	kept *sorter       // URLs of the batch, by number of service, as kept.append gives them
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
	if t.o.For > 0 { // as long as what is passed over, and written again, is no more than some batches
		return t.idle && 8*t.fits >= t.over
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
func try(ctx context.Context, fs files, s *state, now record.Time, o NextOptions, back, n int, whole bool) (*trial, error) {
	p, err := newPicker(ctx, fs, s, now)
	if err != nil {
		return nil, err
	}
	t := &trial{picker: p, o: o, back: back, now: now, room: o.For * time.Duration(o.Politeness.Connections)}
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
	candidates, sizes := t.sorter(largeSort), t.sorter(smallSort)
	c := candidate{}
	var buf []byte
	more, err := t.stream(ctx, t.o, n, leave, func(e *segment.Entry) error {
		c.number++
		c.order = e.Order
		c.host = append(c.host[:0], e.URL.Host...)
		c.row = appendRow(&candidates.coders, c.row[:0], e)
		buf = c.append(buf[:0])
		host := hostOrder(e.URL.Host)
		if err := sizes.add(host, nil); err != nil {
			return err
		}
		return candidates.add(host, buf)
	})
	if err != nil {
		return err
	}
	t.more, t.all = more, int(c.number)
	if err := t.drain(leave); err != nil {
		return err
	}
	hosts := t.s.Hosts
	if t.o.For == 0 && t.back == 0 {
		hosts = t.s.Parked
	}
	table := openTable[segment.Host](fs, hosts)
	defer table.close()
	rows, err := candidates.sorted()
	if err != nil {
		return err
	}
	counts, err := sizes.sorted()
	if err != nil {
		return err
	}
	var group hostGroup
	size := 0              // candidates of the group
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
			for size = 0; !counts.done && counts.key == order; size++ {
				if err := counts.take(); err != nil {
					return err
				}
			}
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
		p := t.o.Politeness.pace(h, t.now)
		k := kept{pace: p, order: c.order, host: c.host, row: c.row}
		if left[at] < 0 {
			left[at] = min(t.contacts(h, p), size)
			if h.Contacts == 0 { // robots.txt comes first
				k.contact, k.gap = 2*p.contact, 2*p.gap
			}
		}
		switch {
		case left[at] > 0:
			t.fits++
			k.latest = p.latest(left[at], t.o.For)
			left[at]--
			room -= k.contact
			err = t.keep(c.number, &k)
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
	if t.fits == 0 && len(t.o.away) == 0 {
		return t.keep(c.number, &kept{order: c.order, host: c.host, row: c.row}) // an empty batch would mean an empty frontier
	}
	return t.pass(&c, parked)
}

// kept is a candidate that is in the batch.
type kept struct {
	pace
	latest time.Duration // when it must be begun, so that its host is done in time
	order  uint64
	host   []byte
	row    []byte
}

func (k *kept) append(b []byte) []byte {
	for _, d := range [...]time.Duration{k.contact, k.gap, k.wait, k.latest} {
		b = binary.AppendUvarint(b, uint64(d))
	}
	b = binary.AppendUvarint(b, k.order)
	b = binary.AppendUvarint(b, uint64(len(k.host)))
	return append(append(b, k.host...), k.row...)
}

// decodeKept is the reverse of append, for bytes that this process wrote.
func decodeKept(b []byte) (k kept) {
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	for _, d := range [...]*time.Duration{&k.contact, &k.gap, &k.wait, &k.latest} {
		*d = time.Duration(number())
	}
	k.order = number()
	size := number()
	k.host, k.row = b[:size], b[size:]
	return k
}

// keep puts a candidate into the batch.
func (t *trial) keep(number uint64, k *kept) error {
	t.buf = k.append(t.buf[:0])
	return t.kept.add(number, t.buf)
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
func (t *trial) contacts(h *segment.Host, p pace) int {
	switch {
	case h.ParkedUntil > t.now && h.Failures > 0 && (t.o.For > 0 || len(t.s.Parked) > 0):
		return 0 // mfetch waits as a server asks (Retry-After), but does not know of dead hosts
	case t.o.For == 0:
		return math.MaxInt
	}
	in := t.o.For*4/5 - p.wait // the rest is for what the estimates miss
	if in <= 0 {
		return 0
	}
	n := 1 + int(max(in-p.contact, 0)/max(p.contact+p.gap, 1))
	if h.Contacts == 0 {
		n = max(n-1, 1) // one is for robots.txt
	}
	return n
}

// finish gives to out what the batch has taken from the queues, and closes the trial
// if that fails.
func (t *trial) finish(out outlets) (*picker, error) {
	err := t.serve(out)
	if err == nil {
		err = eachRow(t.late, func(e *segment.Entry) error {
			e.URL.Due = record.Time(e.Order)
			return out.wait(e)
		})
	}
	if err == nil {
		err = eachRow(t.rest, out.leave)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t.picker, nil
}

// serve takes the batch in the order of service: as the URLs were drawn; or, if it has
// a time, those first whose hosts would else not be done in it, so that hosts with
// much to do begin at once, and those with little fill the end. Either order goes through
// the back queues, if there are any.
func (t *trial) serve(out outlets) error {
	rows, err := t.kept.sorted()
	if err != nil {
		return err
	}
	var e segment.Entry
	give := func(to func(*segment.Entry) error, b []byte) error {
		k := decodeKept(b)
		if err := decodeRow(&t.kept.coders, k.row, k.order, &e); err != nil {
			return err
		}
		return to(&e)
	}
	leave := func(rows *peeker) error {
		for !rows.done {
			if err := give(out.leave, rows.row); err != nil {
				return err
			}
			if err := rows.take(); err != nil {
				return err
			}
		}
		return nil
	}
	n := t.o.N
	if t.o.For > 0 {
		timed := t.sorter(smallSort)
		room := t.room
		for n = 0; !rows.done && room > 0; n++ {
			k := decodeKept(rows.row)
			room -= k.contact
			key := uint64(k.latest)
			if t.s.policy.workers > 0 { // first in, first out
				key = uint64(n)
			}
			if err := timed.add(key, rows.row); err != nil {
				return err
			}
			if err := rows.take(); err != nil {
				return err
			}
		}
		if err := leave(rows); err != nil {
			return err
		}
		if rows, err = timed.sorted(); err != nil {
			return err
		}
	}
	draw := func() (d drawn, more bool, err error) {
		if n == 0 || rows.done {
			return d, false, nil
		}
		n--
		t.buf = append(t.buf[:0], rows.row...)
		k := decodeKept(t.buf)
		return drawn{k.pace, k.host, t.buf}, true, rows.take()
	}
	if t.back > 0 {
		queues := newBackQueues(t.back, t.o.Politeness.Connections, draw)
		draw = queues.next
	}
	for {
		d, more, err := draw()
		if err == nil && more {
			err = give(out.take, d.row)
		}
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	return leave(rows)
}
