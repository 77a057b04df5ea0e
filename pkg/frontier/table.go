package frontier

import (
	"context"
	"fmt"
	"io"

	runfile "mercator/formats/run"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// table looks rows of a table up, of hosts or of domains, by ascending keys. Runs are
// read forward only, and only where a row that is asked for can be.
type table struct {
	runs []*tableRun // newest first
}

// tableRun is a run, or the pieces of one.
type tableRun struct {
	fs   files
	left []run // pieces that are not read to their end, ascending
	file durable.File
	scan *runfile.Scanner // scanner of the first piece; nil: not opened
	next uint64           // key of the next row
	any  bool             // there is a next row, and scan is before it
}

// openTable opens the table of runs, given oldest first.
func openTable(fs files, runs []run) *table {
	t := &table{}
	for to := len(runs); to > 0; {
		from := to - 1
		for from > 0 && runs[from].Chain != 0 && runs[from-1].Chain == runs[from].Chain {
			from--
		}
		t.runs = append(t.runs, &tableRun{fs: fs, left: runs[from:to]})
		to = from
	}
	return t
}

func (t *table) close() {
	for _, r := range t.runs {
		r.close()
	}
}

func (r *tableRun) close() {
	if r.file != nil {
		r.scan.Stop()
		r.file.Close()
		r.file, r.scan = nil, nil
	}
}

// seek moves to the next row with at least that key, if there is one.
func (r *tableRun) seek(key uint64) error {
	for r.any = false; len(r.left) > 0; r.skip() {
		for len(r.left) > 1 && r.left[1].Head <= key {
			r.skip()
		}
		if r.scan == nil {
			in, file, err := openRun(r.fs, r.left[0].Path)
			if err != nil {
				return err
			}
			r.file, r.scan = file, in.Scan(r.left[0].From)
			r.scan.ReadAhead()
		}
		var err error
		if r.next, err = r.scan.Pass(key); err != io.EOF {
			r.any = err == nil
			return err
		}
	}
	return nil
}

// skip moves to the next piece.
func (r *tableRun) skip() {
	r.close()
	r.left = r.left[1:]
}

// maxSame bounds the rows of one key: hosts, or domains. More than two are not to be expected, and
// more than a few cannot be made.
const maxSame = 64

func tooManySame(key uint64) error {
	return &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("a table with more than %d rows of key %016x", maxSame, key)}
}

// find appends the rows of that key to group. Keys must ascend from call to call.
func find[T any, P rowOf[T]](t *table, key uint64, group []T) ([]T, error) {
	err := t.each(key, func(path string, payload []byte) error {
		group = append(group, *new(T))
		return parseRow(P(&group[len(group)-1]), key, payload, path)
	})
	return group, err
}

// each gives fn the rows of that key, as find does.
func (t *table) each(key uint64, fn func(path string, payload []byte) error) error {
	for _, r := range t.runs {
		if !r.any || r.next < key {
			if err := r.seek(key); err != nil {
				return err
			}
		}
		if !r.any || r.next != key {
			continue
		}
		for n := 0; r.any && r.next == key; n++ {
			if n == maxSame {
				return tooManySame(key)
			}
			if err := r.takeRow(fn); err != nil {
				return err
			}
		}
		break // older runs have older rows
	}
	return nil
}

// takeRow gives fn the next row, and moves on if the piece has another: the rows of one
// key are in one piece.
func (r *tableRun) takeRow(fn func(path string, payload []byte) error) error {
	_, payload, err := r.scan.Next()
	if err == nil {
		err = fn(r.left[0].Path, payload)
	}
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
type newestRows struct {
	m     *merger
	path  string // file of the group's run
	key   uint64 // key of the group's rows
	group [][]byte
	at    int // index of the next row in group
}

// takeRow gives fn the newest state of the next row; io.EOF after the last.
func (g *newestRows) takeRow(fn func(path string, key uint64, payload []byte) error) error {
	if g.at == len(g.group) {
		g.at, g.group = 0, g.group[:0]
		age := 0
		for more := true; more; {
			err := g.m.takeRow(func(path string, key uint64, payload []byte) error {
				if g.m.age != age { // a newer run has the key too
					g.group, age = g.group[:0], g.m.age
				}
				if len(g.group) == maxSame {
					return tooManySame(key)
				}
				g.path, g.key, g.group = path, key, append(g.group, payload)
				return nil
			})
			if err != nil {
				return err
			}
			next, ok := g.m.key()
			more = ok && next == g.key
		}
	}
	g.at++
	return fn(g.path, g.key, g.group[g.at-1])
}

// whole reports whether all rows of a key were given.
func (g *newestRows) whole() bool { return g.at == len(g.group) }

// eachNewest calls fn for every row of a table, in its order.
func eachNewest[T any, P rowOf[T]](ctx context.Context, fs files, runs []run, fn func(P) error) error {
	m := newMerger(fs, runs)
	defer m.close()
	all := newestRows{m: m}
	var t ticker
	for {
		row := P(new(T))
		err := all.takeRow(func(path string, key uint64, payload []byte) error { return parseRow(row, key, payload, path) })
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err == nil {
			err = fn(row)
		}
		if err != nil {
			return err
		}
	}
}
