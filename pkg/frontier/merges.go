package frontier

import (
	"cmp"
	"context"
	"io"
	"slices"

	runfile "mercator/formats/run"
	"mercator/formats/store"
)

// Runs are merged step by step: all at once, one update in 24 would copy what 24 brought, and one in 576 what 576 did.
// Files do not change, so each step writes a file of its own, a piece; a batch opens pieces when it reaches them, and
// still reads one block of each sequence. A source that is left alone stays as it is, so the far end of
// a very big host is not copied where nothing else lies so far back.
// layout says how runs are merged, and what there is memory for. Tests make it small.
type layout struct {
	queueFan int     // how many sequences of a tier a merge of queues takes
	hostFan  int     // how many sequences of a tier a merge of hosts takes; fewer, since a look-up reads all
	step     uint64  // rows that a change may copy, however few it writes itself
	sort     float64 // each sorter has this part of its size
}

var layoutDefault = layout{queueFan: 24, hostFan: 8, step: 1 << 16, sort: 1}

// blocks are the blocks of a frontier's runs: as many URLs as its buffer has room for. A batch
// has a block of every sequence of every front queue in memory; where these are many, blocks are smaller.
func (p *policy) blocks() (bytes, rows int) {
	if p.buffer > 0 {
		return runfile.MaxBlockTarget, p.buffer
	}
	const queues = 4 // up to so many queues have blocks of full size
	return runfile.BlockTarget * queues / max(p.queues(), queues), maxBuffer
}

// sequence is the number of the merge that a run belongs to, as a source or as a
// piece of what it wrote; 0: none. Neighbours of one number count as one run:
// pieces in ascending order, then the sources, with no row below a piece's rows.
func (r *run) sequence() uint64 {
	if r.Merge != 0 {
		return r.Merge
	}
	return r.Chain
}

// sequenceStart returns where the sequence begins that ends before runs[to].
func sequenceStart(runs []run, to int) int {
	from := to - 1
	for n := runs[from].sequence(); n != 0 && from > 0 && runs[from-1].sequence() == n; {
		from--
	}
	return from
}

// fullTier finds the last range of at least fan neighbouring sequences of one tier.
// Runs are listed oldest first, so tiers never rise along them and a tier's
// sequences are neighbours.
func fullTier(runs []run, fan int) (from, to int) {
	for to = len(runs); to > 0; to = from {
		n := 0
		for from = to; from > 0 && runs[from-1].Tier == runs[to-1].Tier; n++ {
			from = sequenceStart(runs, from)
		}
		if n >= fan {
			return from, to
		}
	}
	return 0, 0
}

// A list is one of the frontier's lists of runs, and says how it is merged.
type list struct {
	runs         *[]run
	folder, role string
	fan          int
	read         func(*merger) reading
}

// reading gives the rows that a merge keeps. whole reports whether the merge
// may end before the next row.
type reading interface {
	takeRow(fn func(path string, key uint64, payload []byte) error) error // gives the next row; io.EOF after the last
	whole() bool
}

func every(m *merger) reading  { return allRows{m} }        // all URLs
func newest(m *merger) reading { return &newestRows{m: m} } // the newest state of each row of a table

type allRows struct{ *merger }

func (allRows) whole() bool { return true }

// merging is a run of mergeBeside, in a goroutine beside the change.
type merging struct {
	steps []*step
	stop  func() // ends the copying; must be called
	done  chan struct{}
	err   error // error of the copying, after done
}

// mergeBeside begins the merges that are due in lists, and continues the open ones,
// the lowest tier first, by as many rows as the change writes itself (own) for each
// tier: so all are done when the next are due, and no change reads much more than another.
//
// It copies in a goroutine of its own. The extent of each step and the name of its file are known before:
// so they do not depend on timing. Until endMerges, nobody else may write to lists.
func mergeBeside(ctx context.Context, fs files, tx *store.Tx, s *state, own, least uint64, lists ...list) (*merging, error) {
	m := &merging{done: make(chan struct{})}
	under, budget := underWay(s, own, least, lists)
	for _, u := range under {
		if budget == 0 {
			break
		}
		t, err := u.list.start(tx, u.number, budget)
		if err != nil {
			return nil, err
		}
		if t != nil {
			m.steps = append(m.steps, t)
			budget -= t.maxRows()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	m.stop = func() {
		cancel()
		<-m.done
	}
	go func() {
		defer close(m.done)
		for _, t := range m.steps {
			if m.err = t.copy(ctx, fs); m.err != nil {
				return
			}
		}
	}()
	return m, nil
}

// endMerges waits for the steps, and puts what they wrote into the lists. It returns how many rows they copied.
func (m *merging) endMerges(tx *store.Tx) (copied uint64, err error) {
	if <-m.done; m.err != nil {
		return 0, m.err
	}
	for _, t := range m.steps {
		copied += t.publishPiece(tx)
	}
	return copied, nil
}

// mergeRuns is mergeBeside with nothing beside it.
func mergeRuns(ctx context.Context, fs files, tx *store.Tx, s *state, own, least uint64, lists ...list) error {
	m, err := mergeBeside(ctx, fs, tx, s, own, least, lists...)
	if err != nil {
		return err
	}
	defer m.stop()
	_, err = m.endMerges(tx)
	return err
}

// begun is a merge that has begun.
type begun struct {
	list   *list
	number uint64
	tier   int
}

// underWay begins the merges that are due. It returns all open merges, the lowest tier first,
// and how many rows of their sources a change may take.
func underWay(s *state, own, least uint64, lists []list) (under []begun, budget uint64) {
	top := 0
	for i := range lists {
		l := &lists[i]
		s.beginMerges(l.runs, l.fan)
		for at, r := range *l.runs {
			top = max(top, r.Tier)
			if r.Merge != 0 && (at == 0 || (*l.runs)[at-1].Merge != r.Merge) {
				under = append(under, begun{l, r.Merge, r.Tier})
			}
		}
	}
	slices.SortStableFunc(under, func(a, b begun) int { return cmp.Compare(a.tier, b.tier) })
	return under, max(own*uint64(top), least)
}

// beginMerges makes sources of all runs of each tier that is full. What is left of a merge
// that has not ended is a source like others.
func (s *state) beginMerges(runs *[]run, fan int) {
	for from, to := fullTier(*runs, fan); from < to; from, to = fullTier(*runs, fan) {
		*runs = slices.Clone(*runs)
		s.Merges++
		for i := range (*runs)[from:to] {
			r := &(*runs)[from+i]
			r.Merge, r.Tier = s.Merges, r.Tier+1
		}
	}
}

// sources returns the range of a merge's sources in the list.
func (l *list) sources(merge uint64) (from, to int) {
	source := func(r run) bool { return r.Merge == merge }
	from = slices.IndexFunc(*l.runs, source)
	for to = from; to < len(*l.runs) && source((*l.runs)[to]); {
		to++
	}
	return from, to
}

// step is the part of one merge that a change does.
type step struct {
	list    *list
	merge   uint64
	budget  uint64 // rows of the sources, or few more
	sources []run
	w       *runWriter
	piece   run // once it is written
	left    []run
	used    []string // paths of sources without rows left
}

// start begins the next step of a merge; nil if there is nothing to do but to note that it has ended.
func (l *list) start(tx *store.Tx, merge, budget uint64) (*step, error) {
	from, to := l.sources(merge)
	sources := slices.Clone((*l.runs)[from:to])
	if isSingle(sources) { // nothing to merge it with: it stays as it is, the end of what was written
		*l.runs = slices.Clone(*l.runs)
		for i := range (*l.runs)[from:to] {
			r := &(*l.runs)[from+i]
			r.Chain, r.Merge = merge, 0
		}
		return nil, nil
	}
	w, err := newRun(tx, l.folder, l.role, sources[0].Tier)
	return &step{list: l, merge: merge, budget: budget, sources: sources, w: w}, err
}

// maxRows is how many rows of the sources the step takes.
func (t *step) maxRows() (rows uint64) {
	for _, r := range t.sources {
		rows += min(r.Rows, t.budget-rows)
	}
	return rows
}

// copy writes the piece. It touches nothing but files.
func (t *step) copy(ctx context.Context, fs files) error {
	m := newMerger(fs, t.sources)
	defer m.close()
	rows := t.list.read(m)
	var tick ticker
	for m.taken < t.budget || !rows.whole() {
		err := rows.takeRow(func(_ string, key uint64, payload []byte) error { return t.w.addPayload(key, payload) })
		if err == io.EOF {
			break
		}
		if err == nil {
			err = tick.err(ctx)
		}
		if err != nil {
			return err
		}
	}
	var err error
	if t.piece, err = t.w.finish(); err != nil {
		return err
	}
	t.piece.Chain = t.merge
	t.piece.Fresh = !slices.ContainsFunc(t.sources, func(r run) bool { return !r.Fresh })
	t.left = m.rest(func(path string) { t.used = append(t.used, path) })
	return nil
}

// publishPiece puts the piece into the list, and returns its rows.
func (t *step) publishPiece(tx *store.Tx) uint64 {
	for _, path := range t.used {
		tx.Drop(path)
	}
	from, to := t.list.sources(t.merge)
	runs := *t.list.runs
	*t.list.runs = slices.Concat(runs[:from], []run{t.piece}, t.left, runs[to:])
	return t.piece.Rows
}

// isSingle reports whether runs are a single run, or pieces of one.
func isSingle(runs []run) bool {
	for i := range runs {
		if i > 0 && (runs[i].Chain == 0 || runs[i].Chain != runs[0].Chain) {
			return false
		}
	}
	return true
}
