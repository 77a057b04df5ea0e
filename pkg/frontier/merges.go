package frontier

import (
	"context"
	"io"
	"slices"

	"mercator/formats/segment"
	"mercator/formats/store"
)

// layout says how runs are merged, and what there is memory for. Tests make it small.
type layout struct {
	queueFan int     // sequences of one tier that are merged
	hostFan  int     // the same of hosts, which are looked for in all of them
	step     uint64  // rows that a change may copy, however few it writes itself
	sort     float64 // the part of each sorter's size that it has
}

var layoutDefault = layout{queueFan: 24, hostFan: 8, step: 1 << 16, sort: 1}

// blocks are the blocks of a frontier's runs: as many URLs as its buffer has room for. A batch
// has a block of every sequence of every front queue in memory; where these are many, blocks are smaller.
func (p *policy) blocks() (bytes, rows int) {
	if p.buffer > 0 {
		return segment.MaxBlockTarget, p.buffer
	}
	const queues = 4 // whose blocks are of full size
	return segment.BlockTarget * queues / max(p.queues, queues), segment.MaxBlockRows
}

// sequence is the number of the merge that a run belongs to, as a source or as a
// piece of what it wrote; 0: none. Neighbours of one number count as one run:
// pieces in ascending order, then the sources, in which no row is below those of the pieces.
func (r *run) sequence() uint64 {
	if r.Merge != 0 {
		return r.Merge
	}
	return r.Chain
}

// begin returns where the sequence begins that ends before runs[to].
func begin(runs []run, to int) int {
	from := to - 1
	for n := runs[from].sequence(); n != 0 && from > 0 && runs[from-1].sequence() == n; {
		from--
	}
	return from
}

// full finds the last range of at least fan neighbouring sequences of one tier.
// Runs stand oldest first, so tiers never rise along them and a tier's
// sequences are neighbours.
func full(runs []run, fan int) (from, to int) {
	for to = len(runs); to > 0; to = from {
		n := 0
		for from = to; from > 0 && runs[from-1].Tier == runs[to-1].Tier; n++ {
			from = begin(runs, from)
		}
		if n >= fan {
			return from, to
		}
	}
	return 0, 0
}

// A list is one of the frontier's lists of runs, and what a merge writes for it.
type list[T segment.Row] struct {
	runs         *[]run
	folder, role string
	fan          int
	read         func(*merger[T]) reading[T]
}

// reading gives the rows that a merge keeps. After a row, whole tells whether the
// merge may end before the next one.
type reading[T segment.Row] interface {
	next(*T) error
	whole() bool
}

func every(m *merger[segment.Entry]) reading[segment.Entry] { return m }                    // all URLs
func newest[T segment.Row](m *merger[T]) reading[T]         { return &newestRows[T]{m: m} } // of each row of a table the newest state

// mergeRuns begins the merges that are due in lists, and goes on with those that have
// begun, the lowest tier first, by as many rows as the change writes itself (own) for each tier that
// there is: so all of them are done when the next are due, and no change copies much more than another.
// It returns how many rows it copied.
func mergeRuns[T segment.Row](ctx context.Context, fs files, tx *store.Tx, s *state, own, step uint64, lists ...list[T]) (copied uint64, err error) {
	top := 0
	for _, l := range lists {
		s.begin(l.runs, l.fan)
		for _, r := range *l.runs {
			top = max(top, r.Tier)
		}
	}
	budget := max(own*uint64(top), step)
	for tier := 1; tier <= top; tier++ {
		for _, l := range lists {
			for copied < budget {
				at := slices.IndexFunc(*l.runs, func(r run) bool { return r.Merge != 0 && r.Tier == tier })
				if at < 0 {
					break
				}
				n, err := l.step(ctx, fs, tx, (*l.runs)[at].Merge, budget-copied)
				if err != nil {
					return 0, err
				}
				copied += n
			}
		}
	}
	return copied, nil
}

// begin makes sources of all runs of each tier that is full. What is left of a merge
// that has not ended is a source like others.
func (s *state) begin(runs *[]run, fan int) {
	for from, to := full(*runs, fan); from < to; from, to = full(*runs, fan) {
		*runs = slices.Clone(*runs)
		s.Merges++
		for i := range (*runs)[from:to] {
			r := &(*runs)[from+i]
			r.Merge, r.Tier = s.Merges, r.Tier+1
		}
	}
}

// step goes on with a merge by at most budget rows, or few more, and returns how many it wrote.
func (l *list[T]) step(ctx context.Context, fs files, tx *store.Tx, merge, budget uint64) (uint64, error) {
	*l.runs = slices.Clone(*l.runs)
	runs := *l.runs
	source := func(r run) bool { return r.Merge == merge }
	from := slices.IndexFunc(runs, source)
	to := from
	for to < len(runs) && source(runs[to]) {
		to++
	}
	if one(runs[from:to]) { // nothing to merge it with: it stays as it is, the end of what was written
		for i := range runs[from:to] {
			runs[from+i].Chain, runs[from+i].Merge = merge, 0
		}
		return 0, nil
	}
	m := newMerger[T](fs, runs[from:to])
	defer m.close()
	w, err := newRun[T](tx, l.folder, l.role, runs[from].Tier)
	if err != nil {
		return 0, err
	}
	rows := l.read(m)
	var t ticker
	var row T
	for w.w.Rows() < budget || !rows.whole() {
		err := rows.next(&row)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err == nil {
			err = w.add(&row)
		}
		if err != nil {
			return 0, err
		}
	}
	piece, err := w.finish()
	if err != nil {
		return 0, err
	}
	piece.Chain = merge
	*l.runs = slices.Concat(runs[:from], []run{piece}, m.rest(tx.Drop), runs[to:])
	return piece.Rows, nil
}

// one reports whether runs are a single run, or pieces of one.
func one(runs []run) bool {
	for i := range runs {
		if i > 0 && (runs[i].Chain == 0 || runs[i].Chain != runs[0].Chain) {
			return false
		}
	}
	return true
}
