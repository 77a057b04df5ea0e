package frontier

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/stage"
)

// URLs are taken once more by an Add with AddOptions.Again. No row of it makes a URL wait twice: one whose URL waits
// or is in flight is dropped, and so is a second row of one URL. A parked URL is put back in place of its row. All
// others wait like new ones, without the failures that they had; no limit of new URLs drops them. A row says in
// column "was" which outcome its URL had. That is taken back: a URL counts once, however often it is fetched.
//
// The rows are sorted together with those URLs of the frontier that a Bloom filter takes for theirs.

// Reasons under which rows of URLs to be fetched again are dropped.
const (
	dropWaiting  = "waiting"  // the URL waits already, or is in flight
	dropReleased = "released" // the URL was parked: it is put back
)

// addAgain reads the rows, begins the change, and gives it those of URLs that do not wait.
func (c *change) addAgain(ctx context.Context, b *stage.Batch[record.URL, record.URL], o AddOptions) error {
	a := secondAdd{change: c, all: c.sorter(largeSort), marked: newMarks(maxMarks), wanted: c.sorter(smallSort)}
	if err := eachRead(ctx, b.Read, a.row); err != nil {
		return err
	}
	if err := c.beginAdd(ctx, o); err != nil {
		return err
	}
	c.limits = Limits{}
	if err := a.waiting(ctx); err != nil {
		return err
	}
	if err := a.join(ctx); err != nil {
		return err
	}
	left, err := a.wanted.sorted()
	if err != nil {
		return err
	}
	return c.spool(ctx, func(u *record.URL) error {
		if left.done {
			return io.EOF
		}
		if _, err := record.ParseRow(string(left.row), u, b.Schema()); err != nil {
			return err
		}
		if err := left.take(); err != nil {
			return err
		}
		return c.takeBack(u)
	}, o.Prioritizer)
}

// takeBack takes back the outcome that a URL had. One without, or with an outcome that no URL here has, counts as a new one.
func (c *change) takeBack(u *record.URL) error {
	n, was := &c.s.Counts, u.Extra.Text(record.WasColumn)
	if !n.takeBack(was) {
		return nil
	}
	n.Finished--
	n.Discovered--
	const less = math.MaxUint64 // by one
	ev := Host{Key: hostKey(u.Host), Host: u.Host, Discovered: less, Finished: less}
	if was == record.OutcomeFetched || was == record.OutcomeNotModified {
		ev.Fetched = less
	}
	return addRow(c.events, ev.Key, &ev)
}

// secondAdd is what an add knows of URLs that are to be fetched again.
type secondAdd struct {
	*change
	number uint64  // of rows
	all    *sorter // rows, and then URLs of the frontier, by flightKey; the first byte says which
	marked marks   // keys of rows
	wanted *sorter // rows of URLs that do not wait, by number
}

// What the first byte of a payload in secondAdd.all says.
const (
	isRow     byte = iota // its number, URL and byte form
	isWaiting             // a URL
	isParked              // and further ones, for each of parking: a key there, and a payload
)

// row notes a row.
func (a *secondAdd) row(u *record.URL) error {
	if !fits(u) {
		a.b.Drop(dropRange)
		return nil
	}
	u.Attempt, u.Due = 0, 0
	a.number++
	a.buf = appendText(binary.AppendUvarint(append(a.buf[:0], isRow), a.number), u.URL)
	a.buf = record.AppendRow(a.buf, u)
	key := flightKey(u.Host, u.URL)
	a.marked.set(key)
	return a.all.add(key, a.buf)
}

// waiting notes the URLs of the frontier that may be those of rows. Parked ones leave their lists, and join puts them back.
func (a *secondAdd) waiting(ctx context.Context) error {
	s := a.s
	waits := append([][]run{s.InFlight.runs(), s.Later, s.Held}, s.Ready...)
	for _, runs := range waits {
		if err := eachEntry(ctx, a.st, runs, func(e *Entry) error {
			key := flightKey(e.URL.Host, e.URL.URL)
			if !a.marked.has(key) {
				return nil
			}
			a.buf = append(append(a.buf[:0], isWaiting), e.URL.URL...)
			return a.all.add(key, a.buf)
		}); err != nil {
			return err
		}
	}
	for i, runs := range s.Parked {
		if err := eachEntry(ctx, a.st, runs, func(e *Entry) error {
			key := flightKey(e.URL.Host, e.URL.URL)
			if !a.marked.has(key) {
				return a.park(e, i)
			}
			a.buf = binary.AppendUvarint(append(a.buf[:0], isParked+byte(i)), e.Key)
			a.buf = e.Append(a.buf)
			return a.all.add(key, a.buf)
		}); err != nil {
			return err
		}
		for _, r := range runs {
			a.tx.Drop(r.Path)
		}
		s.Parked[i] = nil
	}
	return nil
}

// againRow is a row as join holds it.
type againRow struct {
	number uint64
	url    string
	row    []byte
	done   bool // its URL waits
}

// join gives to wanted the rows of URLs that do not wait, and makes parked URLs of rows due.
func (a *secondAdd) join(ctx context.Context) error {
	all, err := a.all.sorted()
	if err != nil {
		return err
	}
	var t ticker
	var rows []againRow // of one key
	find := func(url string) *againRow {
		i := slices.IndexFunc(rows, func(r againRow) bool { return r.url == url })
		if i < 0 {
			return nil
		}
		return &rows[i]
	}
	for !all.done {
		rows = rows[:0]
		for key := all.key; !all.done && all.key == key; err = all.take() {
			if err == nil {
				err = t.err(ctx)
			}
			if err == nil {
				rows, err = a.one(rows, find, all.row)
			}
			if err != nil {
				return err
			}
		}
		for _, r := range rows {
			if r.done {
				continue
			}
			if err := a.wanted.add(r.number, r.row); err != nil {
				return err
			}
		}
	}
	return err
}

// one takes one payload of a key.
func (a *secondAdd) one(rows []againRow, find func(url string) *againRow, payload []byte) ([]againRow, error) {
	is, payload := payload[0], payload[1:]
	switch is {
	case isRow:
		number, n := binary.Uvarint(payload)
		size, m := binary.Uvarint(payload[n:])
		row := payload[n+m:]
		if url := string(row[:size]); find(url) == nil {
			return append(rows, againRow{number: number, url: url, row: slices.Clone(row[size:])}), nil
		}
		a.b.Drop(dropWaiting)
	case isWaiting:
		if r := find(string(payload)); r != nil && !r.done {
			r.done = true
			a.b.Drop(dropWaiting)
		}
	default:
		var e Entry
		key, n := binary.Uvarint(payload)
		if err := e.Parse(key, payload[n:]); err != nil {
			return rows, err
		}
		r := find(e.URL.URL)
		if r == nil || r.done {
			return rows, a.park(&e, int(is-isParked))
		}
		r.done = true
		a.b.Drop(dropReleased)
		e.URL.Due, e.URL.Attempt = max(a.clock, 1), 0
		return rows, addRow(a.later, uint64(e.URL.Due), &e)
	}
	return rows, nil
}
