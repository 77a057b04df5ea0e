package frontier

import (
	"context"
	"fmt"
	"io"

	"mercator/formats/record"
	"mercator/formats/segment"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/stage"
)

// MaxCapped is the largest batch with a limit per host: the hosts of the batch
// are counted in memory.
const MaxCapped = 500_000

// NextOptions say what a batch is.
type NextOptions struct {
	N int // URLs, at least 1
	// PerHost is the most URLs of one host; 0: no limit. URLs of a host that has
	// its share are passed over, at most N of them: a frontier that begins with
	// very many URLs of few hosts gives a batch of less than N.
	PerHost int
	Txn     string // the round, kept with the batch that is in flight; may be ""
}

// Check refuses options that make no batch.
func (o NextOptions) Check() error {
	switch {
	case o.N < 1:
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a batch of %d URLs", o.N), Want: "at least 1"}
	case o.PerHost < 0:
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d URLs per host", o.PerHost), Want: "0 (no limit) or more"}
	case o.PerHost > 0 && o.N > MaxCapped:
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a batch of %d URLs with a limit per host", o.N), Want: fmt.Sprintf("at most %d", MaxCapped)}
	}
	return nil
}

// Due tells when the next URL may be fetched: 0 for at once. empty: no URL waits.
func (f *Frontier) Due() (due record.Time, empty bool, err error) {
	s, _, err := f.current()
	if err != nil {
		return 0, false, err
	}
	due, empty = s.due()
	return due, empty, nil
}

func (s *state) due() (due record.Time, empty bool) {
	for _, runs := range s.Ready {
		if len(runs) > 0 {
			return 0, false
		}
	}
	for i, r := range s.Later {
		if t := record.Time(r.Head); i == 0 || t < due {
			due = t
		}
	}
	return due, len(s.Later) == 0
}

// Wait waits until a URL is due and returns the round's time: now, or the due
// time if that is later. sleep waits until due; its error is returned. It
// returns now at once if the frontier is empty.
func (f *Frontier) Wait(ctx context.Context, now record.Time, sleep func(ctx context.Context, due record.Time) error) (record.Time, error) {
	due, empty, err := f.Due()
	if err != nil || empty || due <= now {
		return now, err
	}
	return due, sleep(ctx, due)
}

// Next is the body of stage "mfrontier next": it takes a batch, in the order in
// which its URLs should be started, and puts it in flight. From an empty frontier
// it makes no row; without a name to commit that under it returns stage.Unchanged.
func (f *Frontier) Next(ctx context.Context, b *stage.Batch[record.URL, record.URL], o NextOptions) error {
	if err := o.Check(); err != nil {
		return err
	}
	tx := b.Tx()
	s, err := load(tx.Base())
	if err != nil {
		return err
	}
	if s.InFlight != nil {
		return inFlight(s.InFlight)
	}
	due, empty := s.due()
	if empty && o.Txn != "" {
		return nil // an empty batch, which a round of its name can be closed with
	}
	if empty || due > b.Now() {
		return stage.Unchanged
	}
	left := newQueueWriter(tx)
	p, err := newPicker(ctx, f.st, s, b.Now())
	if err != nil {
		return err
	}
	defer p.close()
	batch := newSorter()
	defer batch.Close()
	err = p.pick(ctx, o, left.add, func(e *segment.Entry) error {
		level := levelOf(e.Order)
		s.V[level] = max(s.V[level], placeOf(e.Order))
		if err := b.Make("scheduled", &e.URL); err != nil {
			return err
		}
		e.Place, e.Order = e.Order, flightOrder(e.URL.Host, e.URL.URL)
		return addRow(batch, e.Order, e)
	})
	if err != nil {
		return err
	}
	s.Ready = make([][]run, len(s.Ready))
	for _, r := range p.ready.rest(tx.Drop) {
		s.Ready[levelOf(r.Head)] = append(s.Ready[levelOf(r.Head)], r)
	}
	s.Later = p.later.rest(tx.Drop)
	if err := left.finish(s); err != nil {
		return err
	}
	flying, err := writeRun[segment.Entry](tx, batch, "inflight/", "inflight")
	if err != nil {
		return err
	}
	s.InFlight = &flight{Path: flying.Path, Rows: flying.Rows, Txn: o.Txn, Now: b.Now()}
	s.Counts.Pending -= flying.Rows
	s.Counts.InFlight = flying.Rows
	return s.save(tx)
}

func inFlight(fl *flight) error {
	e := &fault.Error{Class: fault.Conflict, Found: fmt.Sprintf("%d URLs are in flight", fl.Rows), Want: "an update with their outcomes first"}
	if fl.Txn != "" {
		e.Found += fmt.Sprintf(", since transaction %q", fl.Txn)
		e.Hint = fmt.Sprintf("finish that round with \"mfrontier update --txn %s\"", fl.Txn)
	}
	return e
}

// picker reads a frontier in the order of service.
type picker struct {
	ready *merger[segment.Entry]
	later *merger[segment.Entry]
	sorts []*sorter
}

// newPicker opens the frontier of s as of now: what waited for a time and is due
// gets places, as many behind V as its host has such URLs, and is served with the rest.
func newPicker(ctx context.Context, fs files, s *state, now record.Time) (*picker, error) {
	var runs []run
	for _, level := range s.Ready {
		runs = append(runs, level...)
	}
	p := &picker{ready: newMerger[segment.Entry](fs, runs), later: newMerger[segment.Entry](fs, s.Later)}
	if err := p.promote(ctx, s, now); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *picker) promote(ctx context.Context, s *state, now record.Time) error {
	byHost, byPlace := newSorter(), newSorter()
	p.sorts = append(p.sorts, byHost, byPlace)
	var t ticker
	for {
		due, ok := p.later.order()
		if !ok || record.Time(due) > now {
			break
		}
		var e segment.Entry
		err := p.later.next(&e)
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
		if err := addRow(byHost, fingerprint.OfString(e.URL.Host), &e); err != nil {
			return err
		}
	}
	var host string
	behind := map[uint8]uint64{} // URLs of this host before, by front queue
	err := eachRow(byHost, func(e *segment.Entry) error {
		if e.URL.Host != host {
			host = e.URL.Host
			clear(behind)
		}
		level := s.level(e.URL.Priority)
		e.Order, e.Place = orderOf(level, s.V[level]+behind[level]), 0
		behind[level]++
		return addRow(byPlace, e.Order, e)
	})
	if err != nil {
		return err
	}
	places, err := byPlace.sorted()
	if err != nil || places.done {
		return err
	}
	p.ready.addFeed(places.key, func(e *segment.Entry) (uint64, error) {
		if places.done {
			return 0, io.EOF
		}
		if err := segment.DecodeRow(places.row, e); err != nil {
			return 0, err
		}
		return e.Order, places.take()
	})
	return nil
}

func (p *picker) close() {
	p.ready.close()
	p.later.close()
	for _, s := range p.sorts {
		s.Close()
	}
}

// pick gives the batch to take, in order, and what it took from the queues but
// leaves in the frontier to leave, in order.
func (p *picker) pick(ctx context.Context, o NextOptions, leave, take func(*segment.Entry) error) error {
	taken, passed := 0, 0
	perHost := map[uint64]int{}
	var t ticker
	var e segment.Entry
	for taken < o.N && passed < o.N {
		err := p.ready.next(&e)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
		if o.PerHost > 0 {
			host := fingerprint.OfString(e.URL.Host)
			if perHost[host] == o.PerHost {
				passed++
				if err := leave(&e); err != nil {
					return err
				}
				continue
			}
			perHost[host]++
		}
		taken++
		if err := take(&e); err != nil {
			return err
		}
	}
	return p.ready.drainFeeds(leave)
}

// queueWriter writes ready URLs, which come in ascending order, as one run for
// each front queue.
type queueWriter struct {
	tx   *store.Tx
	w    *runWriter[segment.Entry]
	runs []run
}

func newQueueWriter(tx *store.Tx) *queueWriter { return &queueWriter{tx: tx} }

func (q *queueWriter) add(e *segment.Entry) error {
	if q.w != nil && levelOf(q.w.run.Head) != levelOf(e.Order) {
		if err := q.end(); err != nil {
			return err
		}
	}
	if q.w == nil {
		w, err := newRun[segment.Entry](q.tx, fmt.Sprintf("ready/%d-", levelOf(e.Order)), "ready", 0)
		if err != nil {
			return err
		}
		q.w = w
	}
	return q.w.add(e)
}

func (q *queueWriter) end() error {
	if q.w == nil {
		return nil
	}
	r, err := q.w.finish()
	q.w = nil
	q.runs = append(q.runs, r)
	return err
}

// finish puts the runs into s, as the newest of their front queues.
func (q *queueWriter) finish(s *state) error {
	if err := q.end(); err != nil {
		return err
	}
	for _, r := range q.runs {
		level := levelOf(r.Head)
		s.Ready[level] = append(s.Ready[level], r)
	}
	return nil
}

// writeRun writes what a sorter holds, in its order, as a new run; one of no rows if it holds none.
func writeRun[T segment.Row](tx *store.Tx, s *sorter, folder, role string) (run, error) {
	w, err := newRun[T](tx, folder, role, 0)
	if err != nil {
		return run{}, err
	}
	err = eachRow(s, w.add)
	if err != nil {
		return run{}, err
	}
	return w.finish()
}
