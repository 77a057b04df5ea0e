package frontier

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"mercator/formats/record"
)

// A batch that depends on its hosts is made by trial: candidates are taken in order
// of service and joined with the host table, and the fitting ones are kept. If these
// are too few, it is made again with more candidates.
const (
	firstCandidates = 1 << 13
	moreCandidates  = 4
	maxCandidates   = 1 << 23
)

// outlets get the URLs that a batch has taken from the queues.
type outlets struct {
	take   func(e *Entry, row []byte) error  // puts a URL into the batch, in order; row is its payload, or nil
	leave  func(*Entry) error                // puts a URL back, in any order
	wait   func(*Entry) error                // lets a URL wait until URL.Due, since its host is dead or put off; in any order
	refuse func(e *Entry, rule string) error // takes a URL out of the frontier, in order of service
}

// pickKnown picks a batch that will take o.For, or a batch without URLs of dead hosts.
func pickKnown(ctx context.Context, fs files, s *state, now record.Time, o NextOptions, out outlets) (*picker, error) {
	n, most := o.N, maxCandidates
	if o.For > 0 {
		// What the connections do if no host is slower than assumed.
		n = int(min(float64(o.For)*float64(o.Politeness.Connections)/float64(o.Politeness.Duration+1), maxCandidates))
		if o.N > 0 {
			n = min(n, o.N)
		}
	}
	if o.PerHost+o.PerDomain > 0 {
		most = MaxCapped
	}
	n = min(max(n, firstCandidates), most)
	for whole := o.PerHost == 0; ; {
		t, err := tryBatch(ctx, fs, s, now, o, n, whole)
		switch {
		case err != nil:
			return nil, err
		case t.fits == 0 && !whole:
			whole = true // others may be queued behind dead hosts
		case t.more && n < most && t.tooSmall():
			n = min(n+t.extraCandidates(n), most)
		default:
			return t.finish(out)
		}
		t.close()
	}
}

// timedBatch is a batch that may turn out too small. Only a few columns of its candidates
// go through the join, by host; the rows themselves stay in order of service.
type timedBatch struct {
	*picker
	o         NextOptions
	now       record.Time
	room      time.Duration // time of all connections together
	rows      *sorter       // candidates, by number: key and payload
	decisions *sorter       // decisions about candidates, by number
	rest      *sorter       // URLs that are no candidates
	refused   *sorter       // URLs that a rule refuses: key, rule and payload, in order of service
	all       int           // number of candidates
	fits      int           // number of candidates that fit
	over      int           // number of candidates that do not fit
	more      bool          // there are URLs that are no candidates
	idle      bool          // the batch leaves connections idle
	buf       []byte
}

// tooSmall reports whether more candidates may make a better batch.
func (t *timedBatch) tooSmall() bool {
	if t.o.For > 0 { // as long as what is passed over, and written again, is no more than some batches
		return t.idle && (t.o.N == 0 || t.fits < t.o.N) && 8*t.fits >= t.over
	}
	return t.fits < t.o.N
}

// extraCandidates is how many candidates the next attempt has beside the n of this one. Candidates
// outside the batch are written again, so there are no more than it needs.
func (t *timedBatch) extraCandidates(n int) int {
	if t.o.For > 0 || t.all < n { // limits passed over the others
		return n * (moreCandidates - 1)
	}
	return min(n, t.over) * (moreCandidates - 1)
}

// tryBatch takes n candidates: of the whole frontier, or of the virtual times that picker.within
// admits.
func tryBatch(ctx context.Context, fs files, s *state, now record.Time, o NextOptions, n int, whole bool) (*timedBatch, error) {
	p, err := newPicker(ctx, fs, s, now)
	if err != nil {
		return nil, err
	}
	t := &timedBatch{picker: p, o: o, now: now, room: o.For * time.Duration(o.Politeness.Connections)}
	t.rows, t.decisions, t.rest, t.refused = p.sorter(smallSort), p.sorter(smallSort), p.sorter(smallSort), p.sorter(smallSort)
	if !whole {
		t.within(o.PerHost)
	}
	if err := t.judgeHosts(ctx, fs, n); err != nil {
		p.close()
		return nil, err
	}
	return t, nil
}

// decision is the decision whether a candidate fits into the batch.
type decision struct {
	fits    bool          // the batch has it, unless the batch is full
	until   record.Time   // if it does not fit: when its host may be contacted again; 0: at any time
	latest  time.Duration // when its contact must begin at the latest, so that its host ends in time
	contact time.Duration // time that its contact takes
}

func (d *decision) append(b []byte) []byte {
	if !d.fits {
		return binary.AppendUvarint(append(b, 0), uint64(d.until))
	}
	b = binary.AppendUvarint(append(b, 1), uint64(d.latest))
	return binary.AppendUvarint(b, uint64(d.contact))
}

// decodeDecision is the reverse of append, for bytes that this process wrote.
func decodeDecision(b []byte) (d decision) {
	first, n := binary.Uvarint(b[1:])
	if b[0] == 0 {
		d.until = record.Time(first)
		return d
	}
	contact, _ := binary.Uvarint(b[1+n:])
	return decision{fits: true, latest: time.Duration(first), contact: time.Duration(contact)}
}

// decide keeps the decision about a candidate.
func (t *timedBatch) decide(number uint64, d decision) error {
	if !d.fits {
		t.over++
		if d.until <= t.now {
			d.until = 0
		}
	}
	t.buf = d.append(t.buf[:0])
	return t.decisions.addPayload(number, t.buf)
}

// timedHost is the host that the join has reached.
type timedHost struct {
	pace
	left   int  // contacts that the host still has time for
	robots bool // robots.txt of the host is fetched first
}

func (t *timedBatch) judgeHosts(ctx context.Context, fs files, n int) error {
	leave := func(e *Entry) error { return addRow(t.rest, e.Key, e) }
	byHost, sizes := t.sorter(largeSort), t.sorter(smallSort)
	number := uint64(0) // in order of service, from 1
	refuse := func(e *Entry, rule string) error {
		t.buf = record.AppendText(binary.AppendUvarint(t.buf[:0], e.Key), rule)
		return t.refused.addPayload(uint64(t.refused.rows), e.Append(t.buf))
	}
	more, err := t.stream(ctx, t.o, n, outlets{leave: leave, refuse: refuse, take: func(e *Entry, _ []byte) error {
		number++
		t.buf = e.Append(binary.AppendUvarint(t.buf[:0], e.Key))
		if err := t.rows.addPayload(number, t.buf); err != nil {
			return err
		}
		host := hostKey(e.URL.Host)
		if t.o.For > 0 {
			if err := sizes.addPayload(host, nil); err != nil {
				return err
			}
		}
		t.buf = append(binary.AppendUvarint(t.buf[:0], number), e.URL.Host...)
		return byHost.addPayload(host, t.buf)
	}})
	if err != nil {
		return err
	}
	t.more, t.all = more, int(number)
	if err := t.drain(leave); err != nil {
		return err
	}
	table := openTable(fs, speeds(t.s.Hosts))
	if t.o.For == 0 {
		table = openTable(fs, t.s.Dead)
	}
	defer table.close()
	rows, err := byHost.sorted()
	if err != nil {
		return err
	}
	counts, err := sizes.sorted()
	if err != nil {
		return err
	}
	var group hostGroup
	var turns []timedHost // of the group's hosts
	size := 0             // candidates of the group
	first := decision{}   // on the first candidate, if it does not fit: given when all others are
	passed := false       // the first candidate does not fit
	room := t.room
	for order := uint64(0); !rows.done; {
		if len(turns) == 0 || rows.key != order {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			order, turns = rows.key, turns[:0]
			if group, err = find(table, order, group[:0]); err != nil {
				return err
			}
			for size = 0; !counts.done && counts.key == order; size++ {
				if err := counts.takeRow(); err != nil {
					return err
				}
			}
		}
		number, n := binary.Uvarint(rows.row)
		h, err := group.host(rows.row[n:])
		if err != nil {
			return err
		}
		for i := len(turns); i < len(group); i++ {
			p := t.o.Politeness.pace(&group[i], t.now)
			turns = append(turns, timedHost{p, t.contacts(&group[i], p), group[i].Contacts == 0})
			if t.o.For > 0 {
				turns[i].left = min(turns[i].left, size)
			}
		}
		at := 0
		for &group[at] != h {
			at++
		}
		switch turn := &turns[at]; {
		case turn.left > 0:
			t.fits++
			v := decision{fits: true, latest: turn.latest(turn.left, t.o.For), contact: turn.contact}
			if turn.robots {
				v.contact = times(2, v.contact)
				turn.robots = false
			}
			turn.left--
			room = max(room-v.contact, 0)
			err = t.decide(number, v)
		case number == 1:
			first.until, passed = max(h.ParkedUntil, turn.opens), true
		default:
			err = t.decide(number, decision{until: max(h.ParkedUntil, turn.opens)})
		}
		if err == nil {
			err = rows.takeRow()
		}
		if err != nil {
			return err
		}
	}
	t.idle = room > 0
	if err := errors.Join(byHost.Close(), sizes.Close()); err != nil || !passed {
		return err
	}
	first.fits = t.fits == 0 // an empty batch would mean an empty frontier
	return t.decide(1, first)
}

// contacts is how many URLs of a host may be in the batch.
func (t *timedBatch) contacts(h *Host, p pace) int {
	switch {
	case h.ParkedUntil > t.now && h.Failures > 0 && (t.o.For > 0 || len(t.s.Dead) > 0):
		return 0 // mfetch waits as a server asks (Retry-After), but does not know of dead hosts
	case t.o.For == 0 && p.opens > t.now:
		return 0
	case t.o.For == 0:
		return math.MaxInt
	}
	in := t.o.For*4/5 - p.wait // the rest is for what the estimates miss
	switch {
	case in <= 0:
		return 0
	case h.onTrial(t.now):
		return 1
	}
	n := 1 + int(min(max(in-p.contact, 0)/max(p.contact+p.gap, 1), maxCandidates))
	if h.Contacts == 0 {
		n = max(n-1, 1) // one is for robots.txt
	}
	n *= int(max(p.over, 1))
	if t.o.HostBytes != nil {
		if most := t.o.HostBytes(h.Host); most > 0 { // what has sent too much already is refused
			each := float64(h.Bytes+replyBytes) / float64(h.Contacts+1)
			n = min(n, 1+int(min(float64(most-min(h.Bytes, most))/each, maxCandidates)))
		}
	}
	return n
}

// replyBytes is the size of a reply of which nothing is known.
const replyBytes = 100_000

// finish gives to out what the batch has taken from the queues, and closes the trial
// if that fails.
func (t *timedBatch) finish(out outlets) (*picker, error) {
	err := t.serve(out)
	if err == nil {
		err = eachRow(t.rest, out.leave)
	}
	if err == nil {
		err = t.giveUp(out)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t.picker, nil
}

// giveUp gives to out what a rule refuses.
func (t *timedBatch) giveUp(out outlets) error {
	var e Entry
	return t.refused.each(func(_ uint64, row []byte) error {
		key, n := binary.Uvarint(row)
		size, m := binary.Uvarint(row[n:])
		row = row[n+m:]
		if err := e.Parse(key, row[size:]); err != nil {
			return err
		}
		return out.refuse(&e, string(row[:size]))
	})
}

// drawn is a URL of the batch. Its bytes are the taker's until it takes the next.
type drawn struct {
	latest time.Duration // the latest of the URL's decision
	row    []byte        // the row in timedBatch.rows
}

// fitting draws the candidates that go into the batch, in order of service, and gives
// all others to out.
func (t *timedBatch) fitting(out outlets) (func() (drawn, bool, error), error) {
	rows, err := t.rows.sorted()
	if err != nil {
		return nil, err
	}
	decisions, err := t.decisions.sorted()
	if err != nil {
		return nil, err
	}
	var e Entry
	left, room, held := t.o.N, t.room, false
	return func() (d drawn, more bool, err error) {
		for {
			if held { // what was given is the taker's no more
				if err = rows.takeRow(); err == nil {
					err = decisions.takeRow()
				}
			}
			if held = true; err != nil || rows.done {
				return d, false, err
			}
			v := decodeDecision(decisions.row)
			if v.fits && (t.o.N == 0 || left > 0) && (t.o.For == 0 || room > 0) {
				left--
				room -= v.contact
				return drawn{v.latest, rows.row}, true, nil
			}
			if err = t.decode(rows.row, &e); err != nil {
				return d, false, err
			}
			to := out.leave
			if v.until > 0 {
				e.URL.Due = v.until
				to = out.wait
			}
			if err = to(&e); err != nil {
				return d, false, err
			}
		}
	}, nil
}

// decode decodes a candidate.
func (t *timedBatch) decode(row []byte, e *Entry) error {
	order, n := binary.Uvarint(row)
	return e.Parse(order, row[n:])
}

// timed draws the same URLs in another order. URLs of hosts that need most of the batch's time
// come first: hosts with much to do begin at once, and hosts with little fill the end.
func (t *timedBatch) timed(draw func() (drawn, bool, error)) (func() (drawn, bool, error), error) {
	byTime := t.sorter(smallSort)
	for n := uint64(0); ; n++ {
		d, more, err := draw()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		key := uint64(d.latest)
		if t.s.policy.inOrder {
			key = n
		}
		if err := byTime.addPayload(key, d.row); err != nil {
			return nil, err
		}
	}
	rows, err := byTime.sorted()
	if err != nil {
		return nil, err
	}
	held := false
	return func() (d drawn, more bool, err error) {
		if held {
			err = rows.takeRow()
		}
		if held = true; err != nil || rows.done {
			return d, false, err
		}
		return drawn{row: rows.row}, true, nil
	}, nil
}

// serve takes the batch in the order of service: as the URLs were drawn or, if it has a
// time, as that asks for.
func (t *timedBatch) serve(out outlets) error {
	draw, err := t.fitting(out)
	if err == nil && t.o.For > 0 {
		draw, err = t.timed(draw)
	}
	if err != nil {
		return err
	}
	var e Entry
	for {
		d, more, err := draw()
		if err != nil || !more {
			return err
		}
		if err := t.decode(d.row, &e); err != nil {
			return err
		}
		_, n := binary.Uvarint(d.row)
		if err := out.take(&e, d.row[n:]); err != nil {
			return err
		}
	}
}
