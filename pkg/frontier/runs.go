package frontier

import (
	"errors"
	"fmt"
	"io"
	"strings"

	runfile "mercator/formats/run"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/merge"
)

// files opens the files of a store; *store.Store is one.
type files interface {
	OpenFile(path string) (durable.File, error)
}

// kindOf is the kind of the runs in a folder.
func kindOf(path string) string {
	switch folder, _, _ := strings.Cut(path, "/"); folder {
	case "hosts", "dead":
		return KindHosts
	case "domains":
		return KindDomains
	case "known":
		return KindKeys
	}
	return KindQueue
}

// openRun opens the file of a run. The caller closes it.
func openRun(fs files, path string) (*runfile.Reader, durable.File, error) {
	file, err := fs.OpenFile(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil {
		var r *runfile.Reader
		if r, err = runfile.Open(file, info.Size(), file.Name(), kindOf(path)); err == nil {
			return r, file, nil
		}
	}
	file.Close()
	return nil, nil, err
}

// parseRow decodes a row of a file.
func parseRow(r Row, key uint64, payload []byte, path string) error {
	err := r.Parse(key, payload)
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		e.File, e.Place = path, fmt.Sprintf("key %d", key)
	}
	return err
}

// cursor reads a run from its first row left. It opens the file only when that
// row is wanted: runs far back cost nothing.
type cursor struct {
	run   run
	age   int // smaller is older
	fs    files
	file  durable.File
	scan  *runfile.Scanner
	ready bool    // run.Head is the key of the first row left
	feed  *peeker // rows that come from no run; nil: a run
}

// fill looks at the first row left. io.EOF: there is none.
func (c *cursor) fill() error {
	if c.ready {
		return nil
	}
	if c.feed != nil {
		if c.feed.done {
			return io.EOF
		}
		c.run.Head, c.ready = c.feed.key, true
		return nil
	}
	if c.scan == nil {
		r, file, err := openRun(c.fs, c.run.Path)
		if err != nil {
			return err
		}
		c.file, c.scan = file, r.Scan(c.run.From)
	}
	c.run.From = c.scan.Position()
	key, err := c.scan.Peek()
	if err != nil {
		return err
	}
	c.run.Head, c.ready = key, true
	return nil
}

// takeRow gives fn the first row left, and moves on.
func (c *cursor) takeRow(fn func(key uint64, payload []byte) error) error {
	c.ready = false
	if c.feed != nil {
		if err := fn(c.feed.key, c.feed.row); err != nil {
			return err
		}
		return c.feed.takeRow()
	}
	key, payload, err := c.scan.Next()
	if err == nil {
		err = fn(key, payload)
	}
	return err
}

// short is the error of a run with another number of rows than the ledger has.
func (c *cursor) short() error {
	return &fault.Error{Class: fault.Corrupt, File: c.run.Path, Found: fmt.Sprintf("the end of the rows, with %d left by the frontier's ledger", int64(c.run.Rows))}
}

func (c *cursor) close() {
	if c.file != nil {
		c.file.Close()
		c.file, c.scan = nil, nil
	}
}

// merger reads several runs as one, in ascending order; of equal keys the older run's row comes first.
type merger struct {
	heads merge.Heap[mergeHead]
	all   []*cursor
	age   int    // age of the last row's run; larger is newer
	taken uint64 // rows taken
}

// mergeHead is a run with a copy of its next row's key, so that the heap's keys are close in memory.
type mergeHead struct {
	key uint64
	age int
	c   *cursor
}

func (h *mergeHead) below(o *mergeHead) bool {
	return h.key < o.key || h.key == o.key && h.age < o.age
}

// newMerger reads runs, oldest first.
func newMerger(fs files, runs []run) *merger {
	m := &merger{heads: merge.NewHeap((*mergeHead).below)}
	for _, r := range runs {
		m.addCursor(&cursor{run: r, fs: fs})
	}
	return m
}

func (m *merger) addCursor(c *cursor) {
	c.age = len(m.all)
	m.all = append(m.all, c)
	m.heads.Push(mergeHead{c.run.Head, c.age, c})
}

// addFeed adds rows that are not of a run; there is one.
func (m *merger) addFeed(rows *peeker) {
	m.addCursor(&cursor{run: run{Head: rows.key, Rows: 1}, feed: rows})
}

// key returns the key of the next row; false at the end.
func (m *merger) key() (uint64, bool) {
	if m.heads.Len() == 0 {
		return 0, false
	}
	return m.heads.First().key, true
}

// next takes the next row; io.EOF after the last.
func (m *merger) next(r Row) error {
	return m.takeRow(func(path string, key uint64, payload []byte) error { return parseRow(r, key, payload, path) })
}

// takeRow gives fn the next row, of the run at path; io.EOF after the last.
func (m *merger) takeRow(fn func(path string, key uint64, payload []byte) error) error {
	if m.heads.Len() == 0 {
		return io.EOF
	}
	c := m.heads.First().c
	if err := c.fill(); err == io.EOF {
		return c.short()
	} else if err != nil {
		return err
	}
	m.age = c.age
	if err := c.takeRow(func(key uint64, payload []byte) error { return fn(c.run.Path, key, payload) }); err != nil {
		return err
	}
	m.taken++
	if c.feed == nil {
		c.run.Rows--
	}
	switch err := c.fill(); {
	case err == io.EOF:
		if c.feed == nil && c.run.Rows != 0 {
			return c.short()
		}
		m.heads.Pop()
		c.close()
	case err != nil:
		return err
	default:
		m.heads.First().key = c.run.Head
		m.heads.Fix()
	}
	return nil
}

// rest returns what is left of the runs, oldest first, and gives the paths of
// those that are used up to drop.
func (m *merger) rest(drop func(path string)) []run {
	var left []run
	for _, c := range m.all {
		switch {
		case c.feed != nil:
		case c.run.Rows == 0:
			drop(c.run.Path)
		default:
			left = append(left, c.run)
		}
	}
	return left
}

// drainFeeds gives leave what is left of rows that do not come from a run.
func (m *merger) drainFeeds(leave func(*Entry) error) error {
	var e Entry
	for _, c := range m.all {
		for c.feed != nil && !c.feed.done {
			err := c.takeRow(func(key uint64, payload []byte) error {
				if err := e.Parse(key, payload); err != nil {
					return err
				}
				return leave(&e)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *merger) close() {
	for _, c := range m.all {
		c.close()
	}
}

// runWriter writes a run of a new generation.
type runWriter struct {
	file *store.NewFile
	w    *runfile.Writer
	run  run
}

func newRun(tx *store.Tx, folder, role string, tier int) (*runWriter, error) {
	p, err := policyOf(tx.Base())
	if err != nil {
		return nil, err
	}
	file, err := tx.Create(folder, ".run", role)
	if err != nil {
		return nil, err
	}
	w := runfile.NewWriter(file, kindOf(folder))
	w.Blocks(p.blocks())
	return &runWriter{file: file, w: w, run: run{Path: file.Path(), Tier: tier, From: runfile.Start}}, nil
}

func (w *runWriter) addPayload(key uint64, payload []byte) error {
	if w.w.Rows() == 0 {
		w.run.Head = key
	}
	return w.w.Add(key, payload)
}

// finish returns the run; it has rows.
func (w *runWriter) finish() (run, error) {
	if err := w.w.Close(); err != nil {
		return run{}, err
	}
	w.run.Rows = w.w.Rows()
	return w.run, w.file.Close()
}
