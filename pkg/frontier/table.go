package frontier

import (
	"context"
	"fmt"
	"io"

	"mercator/formats/segment"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// table looks rows of a table up, of hosts or of domains, in ascending order. Runs are
// read forward only, and only where a row that is asked for can be.
type table[T segment.Row] struct {
	runs []*tableRun[T] // newest first
}

// tableRun is a run, or the pieces of one.
type tableRun[T segment.Row] struct {
	fs   files
	left []run // those not yet read to their end, ascending
	file durable.File
	scan *segment.Scanner[T] // of the first of them; nil: not opened
	next uint64              // order of the next row
	any  bool                // there is one, and scan stands before it
}

// openTable opens the table of runs, which stand oldest first.
func openTable[T segment.Row](fs files, runs []run) *table[T] {
	t := &table[T]{}
	for to := len(runs); to > 0; {
		from := to - 1
		for from > 0 && runs[from].Chain != 0 && runs[from-1].Chain == runs[from].Chain {
			from--
		}
		t.runs = append(t.runs, &tableRun[T]{fs: fs, left: runs[from:to]})
		to = from
	}
	return t
}

func (t *table[T]) close() {
	for _, r := range t.runs {
		r.close()
	}
}

func (r *tableRun[T]) close() {
	if r.file != nil {
		r.scan.Stop()
		r.file.Close()
		r.file, r.scan = nil, nil
	}
}

// seek moves to the next row whose order is at least order, if there is one.
func (r *tableRun[T]) seek(order uint64) error {
	for r.any = false; len(r.left) > 0; r.skip() {
		for len(r.left) > 1 && r.left[1].Head <= order {
			r.skip()
		}
		if r.scan == nil {
			in, file, err := openRun[T](r.fs, r.left[0].Path)
			if err != nil {
				return err
			}
			r.file, r.scan = file, in.Scan(r.left[0].From)
			r.scan.ReadAhead()
		}
		var err error
		if r.next, err = r.scan.Pass(order); err != io.EOF {
			r.any = err == nil
			return err
		}
	}
	return nil
}

// skip moves to the next piece.
func (r *tableRun[T]) skip() {
	r.close()
	r.left = r.left[1:]
}

// maxSame bounds the rows of one order: hosts, or domains. More than two are not to be expected, and
// more than a few cannot be made.
const maxSame = 64

func tooManySame(order uint64) error {
	return &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("a table with more than %d rows of order %016x", maxSame, order)}
}

// find appends the rows of that order to group. Orders must ascend
// from call to call.
func (t *table[T]) find(order uint64, group []T) ([]T, error) {
	for _, r := range t.runs {
		if !r.any || r.next < order {
			if err := r.seek(order); err != nil {
				return nil, err
			}
		}
		if !r.any || r.next != order {
			continue
		}
		for r.any && r.next == order {
			if len(group) == maxSame {
				return nil, tooManySame(order)
			}
			group = append(group, *new(T))
			if err := r.take(&group[len(group)-1]); err != nil {
				return nil, err
			}
		}
		break // older runs have older rows
	}
	return group, nil
}

// take gives the row that it stands before and moves on, if the piece has another: the rows of one
// order are in one piece.
func (r *tableRun[T]) take(row *T) error {
	err := r.scan.Next(row)
	if err == nil {
		r.next, err = r.scan.Peek()
	}
	if r.any = err == nil; err == io.EOF {
		r.skip()
		err = nil
	}
	return err
}

// newestRows reads the runs of a table as one.
type newestRows[T segment.Row] struct {
	m     *merger[T]
	group []T
	at    int // in group
}

// next gives the newest state of the next row; io.EOF after the last.
func (g *newestRows[T]) next(row *T) error {
	if g.at == len(g.group) {
		g.at, g.group = 0, g.group[:0]
		var r T
		age := 0
		for {
			if err := g.m.next(&r); err != nil {
				return err
			}
			if g.m.age != age { // a newer run has the order too
				g.group, age = g.group[:0], g.m.age
			}
			if len(g.group) == maxSame {
				return tooManySame(rowKey(&r))
			}
			g.group = append(g.group, r)
			if order, more := g.m.order(); !more || order != rowKey(&r) {
				break
			}
		}
	}
	*row = g.group[g.at]
	g.at++
	return nil
}

// copy gives w what next gives.
func (g *newestRows[T]) copy(w *runWriter[T]) error {
	var row T
	if err := g.next(&row); err != nil {
		return err
	}
	return w.add(&row)
}

// whole reports whether all rows of an order were given.
func (g *newestRows[T]) whole() bool { return g.at == len(g.group) }

// eachNewest calls fn for every row of a table, in its order.
func eachNewest[T segment.Row](ctx context.Context, fs files, runs []run, fn func(*T) error) error {
	m := newMerger[T](fs, runs)
	defer m.close()
	all := newestRows[T]{m: m}
	var t ticker
	for {
		var h T
		err := all.next(&h)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err == nil {
			err = fn(&h)
		}
		if err != nil {
			return err
		}
	}
}
