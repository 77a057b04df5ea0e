package frontier

import (
	"context"
	"encoding/binary"
	"time"

	"mercator/formats/record"
	"mercator/formats/segment"
)

// A batch by time is found by trial: candidates are taken in order of service, and
// those are kept that fit. If connections are still idle then, it is done again
// with more candidates.
const (
	firstCandidates = 1 << 13
	moreCandidates  = 4
	maxCandidates   = 1 << 23
)

// pickFor picks a batch that takes o.For. See pick.
func pickFor(ctx context.Context, fs files, s *state, now record.Time, o NextOptions, leave, take func(*segment.Entry) error) (*picker, error) {
	// What the connections do if no host is slower than assumed.
	n := int(float64(o.For) * float64(o.Politeness.Connections) / float64(o.Politeness.Duration+1))
	most := maxCandidates
	if o.PerHost+o.PerDomain > 0 {
		most = MaxCapped
	}
	for n = max(n, firstCandidates); ; n *= moreCandidates {
		n = min(n, most)
		t, err := tryFor(ctx, fs, s, now, o, n)
		if err != nil {
			return nil, err
		}
		if t.more && t.idle && t.fits >= t.over && n < most {
			t.close()
			continue
		}
		if err := t.finish(leave, take); err != nil {
			t.close()
			return nil, err
		}
		return t.picker, nil
	}
}

// trial is a batch by time that may turn out too small.
type trial struct {
	*picker
	room time.Duration // of all connections
	kept *sorter       // URLs of the batch, by number of service, each after its contact's duration and its order
	rest *sorter       // candidates that are not: by order
	fits int           // candidates that their hosts have time for
	over int           // and that they have not
	more bool          // not all that waits was a candidate
	idle bool          // the batch leaves connections idle
}

func tryFor(ctx context.Context, fs files, s *state, now record.Time, o NextOptions, n int) (*trial, error) {
	p, err := newPicker(ctx, fs, s, now)
	if err != nil {
		return nil, err
	}
	t := &trial{picker: p, room: o.For * time.Duration(o.Politeness.Connections), kept: p.sorter(smallSort), rest: p.sorter(smallSort)}
	if err := t.run(ctx, fs, now, o, n); err != nil {
		p.close()
		return nil, err
	}
	return t, nil
}

func (t *trial) run(ctx context.Context, fs files, now record.Time, o NextOptions, n int) error {
	leave := func(e *segment.Entry) error { return addRow(t.rest, e.Order, e) }
	t.within(o.PerHost)
	candidates := t.sorter(largeSort)
	number := uint64(0)
	var buf []byte
	more, err := t.stream(ctx, o, n, leave, func(e *segment.Entry) error {
		number++
		buf = binary.AppendUvarint(buf[:0], number)
		buf = binary.AppendUvarint(buf, e.Order)
		buf = binary.AppendUvarint(buf, uint64(len(e.URL.Host)))
		buf = append(buf, e.URL.Host...)
		buf = appendRow(&candidates.coders, buf, e)
		return candidates.add(hostOrder(e.URL.Host), buf)
	})
	if err != nil {
		return err
	}
	t.more = more
	if err := t.drain(leave); err != nil {
		return err
	}
	table, err := openHosts(fs, t.s.Hosts)
	if err != nil {
		return err
	}
	defer table.close()
	rows, err := candidates.sorted()
	if err != nil {
		return err
	}
	room := t.room
	var group hostGroup
	var left []int // of each host of the group, contacts that it has time for; -1: not known yet
	var e segment.Entry
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
		number, a := binary.Uvarint(rows.row)
		place, b := binary.Uvarint(rows.row[a:])
		size, c := binary.Uvarint(rows.row[a+b:])
		row := rows.row[a+b+c:]
		h, err := group.host(row[:size])
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
		spent, gap := o.Politeness.pace(h)
		if left[at] < 0 {
			left[at] = contacts(o.For-max(time.Duration(h.ParkedUntil-now)*time.Microsecond, 0), spent, gap)
			if h.Contacts == 0 { // one is for robots.txt
				left[at] = max(left[at]-1, min(left[at], 1))
				room -= spent
			}
		}
		// One is served in any case: an empty batch would mean an empty frontier.
		if left[at] == 0 && number > 1 {
			t.over++
			if err := decodeRow(&candidates.coders, row[size:], place, &e); err != nil {
				return err
			}
			if err := leave(&e); err != nil {
				return err
			}
		} else {
			t.fits++
			left[at] = max(left[at]-1, 0)
			room -= spent
			buf = binary.AppendUvarint(buf[:0], uint64(spent))
			buf = binary.AppendUvarint(buf, place)
			buf = append(buf, row[size:]...)
			if err := t.kept.add(number, buf); err != nil {
				return err
			}
		}
		if err := rows.take(); err != nil {
			return err
		}
	}
	t.idle = room > 0
	return nil
}

// contacts is how many contacts of a duration, with a gap between them, a time has room for.
func contacts(in, duration, gap time.Duration) int {
	if in <= 0 {
		return 0
	}
	return 1 + int(max(in-duration, 0)/max(duration+gap, 1))
}

// finish gives what the connections have time for to take, and all others to leave.
func (t *trial) finish(leave, take func(*segment.Entry) error) error {
	rows, err := t.kept.sorted()
	room := t.room
	var e segment.Entry
	for ; err == nil && !rows.done; err = rows.take() {
		spent, a := binary.Uvarint(rows.row)
		order, b := binary.Uvarint(rows.row[a:])
		if err := decodeRow(&t.kept.coders, rows.row[a+b:], order, &e); err != nil {
			return err
		}
		to := leave
		if room > 0 {
			to = take
		}
		room -= time.Duration(spent)
		if err := to(&e); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return eachRow(t.rest, leave)
}
