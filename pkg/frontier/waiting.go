package frontier

import (
	"context"
	"encoding/binary"
	"io"
	"slices"

	"mercator/formats/record"
)

// A row of an add or a raise may have a URL that waits already. No URL may wait twice, so rows are compared with
// waiting URLs: both are sorted together by flightKey. A queue is not sorted by URL, so all waiting URLs are read once.
// A Bloom filter picks the few that may match a row, and only these are sorted. Files with URLs that move
// are then written again without them.

// Reasons under which rows are dropped that are of URLs in the frontier, or of a raise and of none.
const (
	dropWaiting    = "waiting"     // the URL waits already; add: or is in flight
	dropReleased   = "released"    // the URL was parked: it is put back
	dropRaised     = "raised"      // the URL waits, and has got the priority of the row
	dropInFlight   = "in-flight"   // the URL is in the batch
	dropParked     = "parked"      // the URL is parked
	dropNotWaiting = "not-waiting" // the URL has finished, or was never there
)

// purpose is the use that rows are read for.
type purpose uint8

const (
	toAdd   purpose = iota // URLs that are new, as far as the frontier can tell
	toAgain                // URLs that were there before
	toRaise                // URLs that wait
)

// lookup finds the rows of an input that are of URLs in the frontier.
type lookup struct {
	*change
	purpose
	schema *record.Schema // schema of the rows
	number uint64         // number of rows
	all    *sorter        // rows, and then URLs of the frontier, by flightKey: inputRow or standing, each after a byte
	few    []uint64       // keys of rows, while there are fewer than fewRows
	marked marks          // keys of rows; nil while few has them
	runs   []foundRun     // runs that were read
	leave  *sorter        // rows that leave their runs, by foundRun and number
	wanted *sorter        // rows of URLs that are not in the frontier, by number
	raised uint64         // number of raised URLs

	touched map[*[]run]bool // lists that rows leave
}

// foundRun is a run of waiting URLs.
type foundRun struct {
	list
	at int // index in the list
}

// The first byte of a payload in lookup.all.
const (
	isRow     byte = iota // number and byte form
	isWaiting             // number of the foundRun, number of the row in it, key, payload
	isParked              // as isWaiting, for a parked URL
	isFlying              // a payload
)

// runNumber is the bit at which the number of a run begins in a key of lookup.leave.
const runNumber = 40

func (c *change) newLookup(p purpose, schema *record.Schema) *lookup {
	return &lookup{change: c, purpose: p, schema: schema, all: c.sorter(largeSort), leave: c.sorter(smallSort), wanted: c.sorter(smallSort), touched: map[*[]run]bool{}}
}

// seek takes a row.
func (l *lookup) seek(u *record.URL) error {
	l.number++
	l.buf = binary.AppendUvarint(append(l.buf[:0], isRow), l.number)
	l.buf = record.AppendRow(l.buf, u)
	key := flightKey(u.Host, u.URL)
	l.markKey(key)
	return l.all.addPayload(key, l.buf)
}

// fewRows is from how many rows on marks have their full size.
const fewRows = 8192

// markKey notes the key of a row.
func (l *lookup) markKey(key uint64) {
	if l.marked != nil {
		l.marked.set(key)
		return
	}
	if l.few = append(l.few, key); len(l.few) == fewRows {
		l.markFew(maxMarks)
	}
}

// markFew makes marks for n rows, with the few that there are.
func (l *lookup) markFew(n int) {
	l.marked = newMarks(n)
	for _, key := range l.few {
		l.marked.set(key)
	}
	l.few = nil
}

// findWaiting does to the URLs of rows in the frontier what their rows say, once all rows are there, and gives to each the
// others in their order.
func (l *lookup) findWaiting(ctx context.Context, each func(*record.URL) error) error {
	if err := l.waiting(ctx); err != nil {
		return err
	}
	if err := l.join(ctx); err != nil {
		return err
	}
	if err := l.all.Close(); err != nil { // gives its memory back
		return err
	}
	if err := l.remove(ctx); err != nil {
		return err
	}
	var u record.URL
	return l.wanted.each(func(_ uint64, row []byte) error {
		if _, err := record.ParseRow(string(row), &u, l.schema); err != nil {
			return err
		}
		return each(&u)
	})
}

// waiting notes the URLs of the frontier that may match a row.
func (l *lookup) waiting(ctx context.Context) error {
	if l.marked == nil {
		l.markFew(len(l.few))
	}
	note := func(e *Entry, is byte, numbers ...uint64) error {
		key := flightKey(e.URL.Host, e.URL.URL)
		if !l.marked.has(key) {
			return nil
		}
		l.buf = append(l.buf[:0], is)
		for _, n := range numbers {
			l.buf = binary.AppendUvarint(l.buf, n)
		}
		l.buf = e.Append(l.buf)
		return l.all.addPayload(key, l.buf)
	}
	if err := eachEntry(ctx, l.st, l.s.InFlight.runs(), func(e *Entry) error { return note(e, isFlying) }); err != nil {
		return err
	}
	for _, q := range l.s.queues() {
		is := isWaiting
		if q.role == "parked" {
			is = isParked
		}
		for at, r := range *q.runs {
			n := uint64(0)
			if err := eachEntry(ctx, l.st, []run{r}, func(e *Entry) error {
				n++
				return note(e, is, uint64(len(l.runs)), n, e.Key)
			}); err != nil {
				return err
			}
			l.runs = append(l.runs, foundRun{q, at})
		}
	}
	return nil
}

// inputRow is a row as join holds it.
type inputRow struct {
	number uint64
	url    record.URL
	done   bool // the row's URL is in the frontier
}

// join compares rows and URLs of the frontier.
func (l *lookup) join(ctx context.Context) error {
	all, err := l.all.sorted()
	var t ticker
	var rows []inputRow // of one key
	for err == nil && !all.done {
		rows = rows[:0]
		for key := all.key; err == nil && !all.done && all.key == key; {
			if err = t.err(ctx); err == nil {
				rows, err = l.compare(rows, all.row)
			}
			if err == nil {
				err = all.takeRow()
			}
		}
		for i := 0; err == nil && i < len(rows); i++ {
			switch r := &rows[i]; {
			case r.done:
			case l.purpose == toRaise:
				l.b.Drop(dropNotWaiting)
			default:
				l.buf = record.AppendRow(l.buf[:0], &r.url)
				err = l.wanted.addPayload(r.number, l.buf)
			}
		}
	}
	return err
}

// compare takes one payload of a key, and compares it with the rows of the key before it. Rows come before URLs of the frontier.
func (l *lookup) compare(rows []inputRow, payload []byte) ([]inputRow, error) {
	is, payload := payload[0], payload[1:]
	number := func() uint64 {
		x, n := binary.Uvarint(payload)
		payload = payload[n:]
		return x
	}
	of := func(u *record.URL) *inputRow {
		i := slices.IndexFunc(rows, func(r inputRow) bool { return r.url.URL == u.URL && r.url.Host == u.Host })
		if i < 0 {
			return nil
		}
		return &rows[i]
	}
	if is == isRow {
		row := inputRow{number: number()}
		if _, err := record.ParseRow(string(payload), &row.url, l.schema); err != nil {
			return rows, err
		}
		r := of(&row.url)
		if r == nil {
			return append(rows, row), nil
		}
		better(&r.url, &row.url)
		l.b.Drop(dropWaiting)
		return rows, nil
	}
	var run, at, key uint64
	if is != isFlying {
		run, at, key = number(), number(), number()
	}
	var e Entry
	if err := e.Parse(key, payload); err != nil {
		return rows, err
	}
	r := of(&e.URL)
	if r == nil || r.done {
		return rows, nil
	}
	r.done = true
	had := e.URL.Priority
	raises := l.purpose != toAgain && l.policy.ranks && is == isWaiting && better(&e.URL, &r.url)
	switch {
	case is == isFlying && l.purpose == toRaise:
		l.b.Drop(dropInFlight)
	case is == isParked && l.purpose != toAgain:
		l.b.Drop(dropParked)
	case is != isParked && !raises:
		l.b.Drop(dropWaiting)
	default:
		if err := l.leave.addPayload(run<<runNumber|at, nil); err != nil {
			return rows, err
		}
		l.touched[l.runs[run].runs] = true
		if is == isParked {
			l.b.Drop(dropReleased)
			e.URL.Due, e.URL.Attempt = max(l.clock, 1), 0
			return rows, addRow(l.later, uint64(e.URL.Due), &e)
		}
		l.raised++
		if l.purpose == toRaise {
			l.b.Consume()
		} else {
			l.b.Drop(dropRaised)
		}
		l.policy.raised(&e, had)
		return rows, l.raise(&e, l.runs[run].role)
	}
	return rows, nil
}

// better gives a URL the priority and the score of another, as far as they are higher; a lower number is a higher
// priority, and NaN is above nothing. It reports whether one is.
func better(u, other *record.URL) bool {
	higher := other.Priority < u.Priority
	u.Priority = min(u.Priority, other.Priority)
	if other.Score > u.Score {
		u.Score, higher = other.Score, true
	}
	return higher
}

// raise puts back a URL that has got a higher priority, into a better front queue if there is one: behind the others of
// its host there. If not, it keeps its key.
func (l *lookup) raise(e *Entry, role string) error {
	switch {
	case role == "later":
		return addRow(l.later, e.Key, e)
	case role == "held":
		return l.holdRow(e.Key, e.Append(nil))
	case l.policy.level(e) >= levelOf(e.Key):
		return addRow(l.queue, e.Key, e)
	}
	l.host = append(l.host[:0], e.URL.Host...)
	l.row = e.Append(l.row[:0])
	a := arrival{priority: e.URL.Priority, number: l.raised, known: true, host: l.host, row: l.row}
	l.buf = a.append(l.buf[:0])
	return l.fresh.addPayload(hostKey(e.URL.Host), l.buf)
}

// remove writes runs again without the rows that leave them. What it writes cannot be read before the commit, so merges go on
// in other lists only. One from which every change takes a row would never be merged: it becomes one run when it has many.
func (l *lookup) remove(ctx context.Context) error {
	gone, err := l.leave.sorted()
	if err != nil || gone.done {
		return err
	}
	touched := func(q list) bool { return l.touched[q.runs] }
	others := slices.DeleteFunc(l.s.queues(), touched)
	if l.merges, err = mergeBeside(ctx, l.st, l.tx, l.s, l.number, l.s.layout.step, others...); err != nil {
		return err
	}
	for !gone.done {
		number := gone.key >> runNumber
		f := l.runs[number]
		runs := slices.Clone(*f.runs)
		if len(runs) < 2*f.fan {
			runs[f.at], err = l.without(ctx, f, gone)
		} else {
			runs, err = l.squeezed(ctx, f, number-uint64(f.at), gone)
		}
		if err != nil {
			return err
		}
		*f.runs = runs
	}
	for _, q := range slices.DeleteFunc(l.s.queues(), func(q list) bool { return !touched(q) }) {
		*q.runs = slices.DeleteFunc(*q.runs, func(r run) bool { return r.Rows == 0 })
	}
	return nil
}

// without writes a run again without the rows of it that are gone; it has no rows if none is left.
func (l *lookup) without(ctx context.Context, f foundRun, gone *peeker) (run, error) {
	was := (*f.runs)[f.at]
	left := l.rewritten(f)
	if err := l.stay(ctx, gone.key>>runNumber, was, gone, left.addPayload); err != nil {
		return run{}, err
	}
	var all []run
	if err := left.finish(&all); err != nil || len(all) == 0 {
		return run{}, err
	}
	all[0].Chain, all[0].Merge = was.Chain, was.Merge
	return all[0], nil
}

// squeezed writes all runs of a list as one, without the rows that are gone. first is the number of the first.
func (l *lookup) squeezed(ctx context.Context, f foundRun, first uint64, gone *peeker) (all []run, err error) {
	rows := l.sorter(smallSort)
	for at, r := range *f.runs {
		if err := l.stay(ctx, first+uint64(at), r, gone, rows.addPayload); err != nil {
			return nil, err
		}
	}
	left := l.rewritten(f)
	if err := rows.each(left.addPayload); err != nil {
		return nil, err
	}
	if err := rows.Close(); err != nil { // gives its memory back
		return nil, err
	}
	return all, left.finish(&all)
}

// rewritten is a new run that replaces a list's runs from f on.
func (l *lookup) rewritten(f foundRun) *lazyRun {
	return &lazyRun{tx: l.tx, l: &section{folder: f.folder}, tier: (*f.runs)[f.at].Tier}
}

// stay drops a run, and gives keep its rows that are not gone.
func (l *lookup) stay(ctx context.Context, number uint64, r run, gone *peeker, keep func(key uint64, payload []byte) error) error {
	l.tx.Drop(r.Path)
	var t ticker
	m := newMerger(l.st, []run{r})
	defer m.close()
	for at := uint64(1); ; at++ {
		err := m.takeRow(func(_ string, key uint64, payload []byte) error {
			if !gone.done && gone.key == number<<runNumber|at {
				return gone.takeRow()
			}
			l.s.Rewritten++
			return keep(key, payload)
		})
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
	}
}
