package frontier

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"mercator/formats/record"
	"mercator/formats/segment"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/stage"
)

// dropTooLong is the reason under which rows are dropped that no segment can hold.
const dropTooLong = "record-too-long"

// Add is the body of stage "mfrontier add": every row of the input becomes a
// waiting URL. A row with a due time waits for it; others get a place at the end
// of their host's queue.
func (f *Frontier) Add(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
	c := newChange(f.st)
	defer c.close()
	if err := c.spool(ctx, b); err != nil {
		return err
	}
	if err := c.begin(ctx, b); err != nil {
		return err
	}
	return c.finish(ctx)
}

// UpdateOptions are the inputs of Update besides its main input.
type UpdateOptions struct {
	Txn string // the round; "" where rounds have no names
	// Outcomes opens the fetch records of the batch in flight, Links the link
	// records found in it. They are opened after the main input's end, and read to
	// theirs. Links may be nil: the policy does not need them.
	Outcomes func() (stage.Input[record.Fetch], error)
	Links    func() (stage.Input[record.Link], error)
	Retries  Retries
}

// Update is the body of stage "mfrontier update": it ends the batch that is in
// flight with one outcome for each of its URLs, and adds the rows of its input.
func (f *Frontier) Update(ctx context.Context, b *stage.Batch[record.URL, record.URL], o UpdateOptions) error {
	if o.Retries.MaxAttempts < 1 || o.Retries.MaxAttempts > 255 || o.Retries.Delay < 0 || o.Retries.MaxDelay < 0 {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d attempts, delay %v, at most %v", o.Retries.MaxAttempts, o.Retries.Delay, o.Retries.MaxDelay), Want: "1 to 255 attempts and no negative delay"}
	}
	c := newChange(f.st)
	defer c.close()
	if err := c.spool(ctx, b); err != nil {
		return err
	}
	outcomes := c.sorter()
	pages, err := c.readOutcomes(ctx, o, b.Now(), outcomes)
	if err != nil {
		return err
	}
	if o.Links != nil {
		if err := drainLinks(ctx, o); err != nil {
			return err
		}
	}
	s, _, err := f.current()
	if err != nil {
		return err
	}
	if s.InFlight == nil && pages == 0 && c.added == 0 {
		return stage.Unchanged // the round of an empty frontier
	}
	if err := c.begin(ctx, b); err != nil {
		return err
	}
	if c.s.InFlight == nil {
		return &fault.Error{Class: fault.Conflict, Found: "no URL is in flight", Want: "a batch of \"mfrontier next\" first"}
	}
	if c.s.InFlight.Txn != o.Txn {
		return inFlight(c.s.InFlight)
	}
	if err := c.land(ctx, outcomes); err != nil {
		return err
	}
	return c.finish(ctx)
}

// change is what one add or update does to a frontier.
type change struct {
	st     *store.Store
	tx     *store.Tx
	s      *state
	sorts  []*sorter
	fresh  *sorter // new URLs, by host
	events *sorter // what happened to hosts, by host and time
	queue  *sorter // URLs with a place, by order
	later  *sorter // URLs that wait for a time
	added  uint64
}

func newChange(st *store.Store) *change {
	c := &change{st: st}
	c.fresh, c.events, c.queue, c.later = c.sorter(), c.sorter(), c.sorter(), c.sorter()
	return c
}

func (c *change) sorter() *sorter {
	s := newSorter()
	c.sorts = append(c.sorts, s)
	return s
}

func (c *change) close() {
	for _, s := range c.sorts {
		s.close()
	}
}

// spool reads the main input to its verified end, without the lock.
func (c *change) spool(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
	var t ticker
	for {
		var e segment.Entry
		err := b.Read(&e.URL)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
		if !segment.Fits(&e.URL) || e.URL.Due < 0 {
			b.Drop(dropTooLong)
			continue
		}
		b.Consume()
		c.added++
		e.Order = fingerprint.OfString(e.URL.Host)
		if err := c.fresh.add(key{e.Order, 0}, func(b []byte) []byte { return segment.AppendRow(b, &e) }); err != nil {
			return err
		}
	}
}

func (c *change) begin(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
	tx, err := b.Begin(ctx)
	if err != nil {
		return err
	}
	c.tx = tx
	c.s, err = load(tx.Base())
	return err
}

// An outcome travels through its sorter as verdict byte, due time, outcome and
// URL with their lengths, and the host event.
func appendOutcome(b []byte, v verdict, due record.Time, o *record.Fetch, ev *segment.Host) []byte {
	b = append(b, byte(v))
	b = binary.AppendUvarint(b, uint64(due))
	for _, s := range []string{o.Outcome, o.URL} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return segment.AppendRow(b, ev)
}

type outcome struct {
	verdict verdict
	due     record.Time
	outcome string
	url     string
	event   segment.Host
}

func decodeOutcome(b []byte, o *outcome) error {
	o.verdict = verdict(b[0])
	due, n := binary.Uvarint(b[1:])
	b = b[1+n:]
	o.due = record.Time(due)
	for _, s := range []*string{&o.outcome, &o.url} {
		size, n := binary.Uvarint(b)
		*s = string(b[n:][:size])
		b = b[n+int(size):]
	}
	return segment.DecodeRow(b, &o.event)
}

// readOutcomes reads the outcomes to their verified end. Page rows go to pages,
// judged; what robots rows tell about hosts goes to the events at once.
func (c *change) readOutcomes(ctx context.Context, o UpdateOptions, now record.Time, pages *sorter) (n uint64, err error) {
	in, err := o.Outcomes()
	if err != nil {
		return 0, err
	}
	var t ticker
	for {
		var row record.Fetch
		err := in.Read(&row)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return 0, err
		}
		if len(row.URL) > segment.MaxString || len(row.Host) > segment.MaxString || len(row.Addr) > segment.MaxString {
			return 0, &fault.Error{Class: fault.Conflict, File: "outcomes", Found: "a URL of more than 65535 bytes", Want: "URLs of the batch in flight"}
		}
		ev := contact(&row)
		if row.Role == record.RoleRobots {
			if err := c.event(&ev); err != nil {
				return 0, err
			}
			continue
		}
		v, due := o.Retries.judge(&row, row.Attempt, now)
		n++
		if err := pages.add(flightKey(row.Key, row.URL), func(b []byte) []byte { return appendOutcome(b, v, max(due, 0), &row, &ev) }); err != nil {
			return 0, err
		}
	}
	return n, ofRound("outcomes", in.Trailer(), o.Txn)
}

// ofRound refuses a side input of another round, or whose books have a gap.
func ofRound(name string, t record.Trailer, txn string) error {
	if !t.Verified {
		return &fault.Error{Class: fault.Conflict, File: name, Found: "a stream without trailer", Want: "one that a stage of this round ended"}
	}
	if t.Txn != txn {
		return &fault.Error{Class: fault.Conflict, File: name, Found: fmt.Sprintf("records of transaction %q", t.Txn), Want: fmt.Sprintf("%q", txn)}
	}
	return t.Ledger.Balance()
}

func drainLinks(ctx context.Context, o UpdateOptions) error {
	in, err := o.Links()
	if err != nil {
		return err
	}
	var t ticker
	var row record.Link
	for {
		err := in.Read(&row)
		if err == io.EOF {
			return ofRound("links", in.Trailer(), o.Txn)
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// contact is what a row tells about its host.
func contact(o *record.Fetch) segment.Host {
	ev := segment.Host{Order: fingerprint.OfString(o.Host), Host: o.Host, ParkedUntil: max(o.RetryAfter, 0)}
	if o.Addr == "" || o.FetchTime <= 0 {
		return ev
	}
	ev.Contacts, ev.Addr = 1, o.Addr
	ev.DurationUS, ev.DelayUS = uint64(max(o.DurationUS, 0)), uint64(max(o.RequiredDelayUS, 0))
	ev.LastContact = o.FetchTime + record.Time(ev.DurationUS)
	if o.Outcome != record.OutcomeFetched {
		ev.Failures = 1
	}
	return ev
}

func (c *change) event(ev *segment.Host) error {
	return c.events.add(key{ev.Order, uint64(ev.LastContact)}, func(b []byte) []byte { return segment.AppendRow(b, ev) })
}

// land gives each URL in flight its outcome. Both sides come in one order, so
// that the first difference shows.
func (c *change) land(ctx context.Context, outcomes *sorter) error {
	fl := c.s.InFlight
	r, file, err := openRun[segment.Entry](c.st, fl.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	rows, err := outcomes.sorted()
	if err != nil {
		return err
	}
	scan := r.Scan(segment.Start)
	var t ticker
	for {
		var e segment.Entry
		err := scan.Next(&e)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
		if rows.done || rows.key.compare(flightKey(e.URL.Key, e.URL.URL)) > 0 {
			return notTheBatch(fmt.Sprintf("no outcome for %s", e.URL.URL))
		}
		var o outcome
		if err := decodeOutcome(rows.row, &o); err != nil {
			return err
		}
		if o.url != e.URL.URL || o.event.Host != e.URL.Host {
			return notTheBatch(fmt.Sprintf("an outcome for %s, which is not in flight", o.url))
		}
		if err := c.apply(&e, &o); err != nil {
			return err
		}
		if err := rows.take(); err != nil {
			return err
		}
	}
	if !rows.done {
		var o outcome
		if err := decodeOutcome(rows.row, &o); err != nil {
			return err
		}
		return notTheBatch(fmt.Sprintf("an outcome for %s, which is not in flight or has one already", o.url))
	}
	c.tx.Drop(fl.Path)
	c.s.Counts.InFlight, c.s.InFlight = 0, nil
	return nil
}

func notTheBatch(found string) error {
	return &fault.Error{Class: fault.Conflict, File: "outcomes", Found: found, Want: "exactly one outcome for each URL in flight"}
}

// apply does what an outcome means.
func (c *change) apply(e *segment.Entry, o *outcome) error {
	n := &c.s.Counts
	switch o.verdict {
	case finish, giveUp:
		n.Finished++
		n.outcome(o.outcome)
		o.event.Finished = 1
		if o.outcome == record.OutcomeFetched {
			o.event.Fetched = 1
		}
		if o.verdict == giveUp {
			n.Dead++
			o.event.Dead = 1
		}
	case again:
		n.Retried++
		n.Pending++
		o.event.Retried = 1
		e.URL.Attempt++
		e.URL.Due = o.due
	case putOff:
		n.Deferred++
		n.Pending++
		o.event.Deferred = 1
		e.URL.Due = o.due
	}
	if err := c.event(&o.event); err != nil {
		return err
	}
	switch {
	case o.verdict == finish || o.verdict == giveUp:
		return nil
	case e.URL.Due == 0:
		e.Order, e.Place = e.Place, 0
		return c.enqueue(c.queue, e)
	}
	return c.wait(e)
}

func (c *change) enqueue(s *sorter, e *segment.Entry) error {
	return s.add(key{e.Order, 0}, func(b []byte) []byte { return segment.AppendRow(b, e) })
}

// wait puts a URL that has a due time into the queue by time.
func (c *change) wait(e *segment.Entry) error {
	e.Order, e.Place = uint64(e.URL.Due), 0
	return c.enqueue(c.later, e)
}

// finish gives new URLs their places, writes the new runs and the new state.
func (c *change) finish(ctx context.Context) error {
	s := c.s
	old := s.Hosts // what compaction makes cannot be read before the commit
	var err error
	for level := range s.Ready {
		if s.Ready[level], err = compact[segment.Entry](ctx, c.st, c.tx, s.Ready[level], fmt.Sprintf("ready/%d-", level), "ready", queueFan, false); err != nil {
			return err
		}
	}
	if s.Later, err = compact[segment.Entry](ctx, c.st, c.tx, s.Later, "later/", "later", queueFan, false); err != nil {
		return err
	}
	if s.Hosts, err = compact[segment.Host](ctx, c.st, c.tx, s.Hosts, "hosts/", "hosts", hostFan, true); err != nil {
		return err
	}
	if err := c.hosts(ctx, old); err != nil {
		return err
	}
	q := newQueueWriter(c.tx)
	rows, err := c.queue.sorted()
	for err == nil && !rows.done {
		var e segment.Entry
		if err = segment.DecodeRow(rows.row, &e); err == nil {
			if err = q.add(&e); err == nil {
				err = rows.take()
			}
		}
	}
	if err == nil {
		err = q.finish(s)
	}
	if err != nil {
		return err
	}
	if len(c.later.items)+len(c.later.pieces) > 0 {
		r, err := writeRun[segment.Entry](c.tx, c.later, "later/", "later")
		if err != nil {
			return err
		}
		s.Later = append(s.Later, r)
	}
	return s.save(c.tx)
}
