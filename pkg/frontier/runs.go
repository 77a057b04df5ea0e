package frontier

import (
	"fmt"
	"io"

	"mercator/formats/segment"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/merge"
)

// files opens the files of a store; *store.Store is one.
type files interface {
	OpenFile(path string) (durable.File, error)
}

// openRun opens the segment of a run. The caller closes the file.
func openRun[T segment.Row](fs files, path string) (*segment.Reader[T], durable.File, error) {
	file, err := fs.OpenFile(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil {
		var r *segment.Reader[T]
		if r, err = segment.Open[T](file, info.Size(), file.Name()); err == nil {
			return r, file, nil
		}
	}
	file.Close()
	return nil, nil, err
}

// cursor reads a run from its first row left. It opens the file only when that
// row is wanted: what lies far back costs nothing.
type cursor[T segment.Row] struct {
	run   run
	age   int // smaller is older
	fs    files
	file  durable.File
	scan  *segment.Scanner[T]
	ready bool                               // run.Head is the order of the first row left
	row   T                                  // of a feed: that row
	feed  func(*T) (order uint64, err error) // rows that do not come from a run, or nil
}

// fill looks at the first row left. io.EOF: there is none.
func (c *cursor[T]) fill() error {
	if c.ready {
		return nil
	}
	if c.feed == nil && c.scan == nil {
		r, file, err := openRun[T](c.fs, c.run.Path)
		if err != nil {
			return err
		}
		c.file, c.scan = file, r.Scan(c.run.From)
	}
	var order uint64
	var err error
	if c.feed != nil {
		order, err = c.feed(&c.row)
	} else {
		c.run.From = c.scan.Position()
		order, err = c.scan.Peek()
	}
	if err != nil {
		return err
	}
	c.run.Head, c.ready = order, true
	return nil
}

func rowKey[T segment.Row](row *T) uint64 {
	switch r := any(row).(type) {
	case *Entry:
		return r.Key
	case *Host:
		return r.Key
	case *Domain:
		return r.Key
	}
	return 0
}

// short is the error of a run that has other than its number of rows.
func (c *cursor[T]) short() error {
	return &fault.Error{Class: fault.Corrupt, File: c.run.Path, Found: fmt.Sprintf("the end of the rows, with %d left by the frontier's books", int64(c.run.Rows))}
}

func (c *cursor[T]) close() {
	if c.file != nil {
		c.file.Close()
		c.file, c.scan = nil, nil
	}
}

// merger reads several runs as one, in ascending order; of equal orders the older run's come first.
type merger[T segment.Row] struct {
	heads merge.Heap[mergeHead[T]]
	all   []*cursor[T]
	age   int    // of the run that the last row came from; larger is newer
	taken uint64 // rows
}

// mergeHead is a run and the order of its next row, which stands here to be near to the others'.
type mergeHead[T segment.Row] struct {
	order uint64
	age   int
	c     *cursor[T]
}

func (h *mergeHead[T]) below(o *mergeHead[T]) bool {
	return h.order < o.order || h.order == o.order && h.age < o.age
}

// newMerger reads runs, oldest first.
func newMerger[T segment.Row](fs files, runs []run) *merger[T] {
	m := &merger[T]{heads: merge.NewHeap((*mergeHead[T]).below)}
	for _, r := range runs {
		m.add(&cursor[T]{run: r, fs: fs})
	}
	return m
}

func (m *merger[T]) add(c *cursor[T]) {
	c.age = len(m.all)
	m.all = append(m.all, c)
	m.heads.Push(mergeHead[T]{c.run.Head, c.age, c})
}

// addFeed adds rows that are not of a run. first is the order of the first one.
func (m *merger[T]) addFeed(first uint64, feed func(*T) (uint64, error)) {
	m.add(&cursor[T]{run: run{Head: first, Rows: 1}, feed: feed})
}

// order returns the order of the next row; false at the end.
func (m *merger[T]) order() (uint64, bool) {
	if m.heads.Len() == 0 {
		return 0, false
	}
	return m.heads.First().order, true
}

// next takes the next row; io.EOF after the last.
func (m *merger[T]) next(row *T) error {
	return m.take(func(c *cursor[T]) error {
		if c.feed != nil {
			*row = c.row
			return nil
		}
		return c.scan.Next(row)
	})
}

// copy takes the next row, which must be of a run, to w; io.EOF after the last.
func (m *merger[T]) copy(w *runWriter[T]) error {
	return m.take(func(c *cursor[T]) error { return w.copy(c.scan) })
}

// take gives read the cursor that has the next row, and moves on; io.EOF after the last.
func (m *merger[T]) take(read func(*cursor[T]) error) error {
	if m.heads.Len() == 0 {
		return io.EOF
	}
	c := m.heads.First().c
	if err := c.fill(); err == io.EOF {
		return c.short()
	} else if err != nil {
		return err
	}
	if err := read(c); err != nil {
		return err
	}
	c.ready, m.age = false, c.age
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
		m.heads.First().order = c.run.Head
		m.heads.Fix()
	}
	return nil
}

// rest returns what is left of the runs, oldest first, and gives the paths of
// those that are used up to drop.
func (m *merger[T]) rest(drop func(path string)) []run {
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
func (m *merger[T]) drainFeeds(leave func(*T) error) error {
	for _, c := range m.all {
		if c.feed == nil {
			continue
		}
		for {
			if err := c.fill(); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
			c.ready = false
			if err := leave(&c.row); err != nil {
				return err
			}
		}
	}
	return nil
}

// whole is what reading asks: a merge may end after any row.
func (m *merger[T]) whole() bool { return true }

func (m *merger[T]) close() {
	for _, c := range m.all {
		c.close()
	}
}

// runWriter writes a run of a new generation.
type runWriter[T segment.Row] struct {
	file *store.NewFile
	w    *segment.Writer[T]
	run  run
}

func newRun[T segment.Row](tx *store.Tx, folder, role string, tier int) (*runWriter[T], error) {
	p, err := policyOf(tx.Base())
	if err != nil {
		return nil, err
	}
	file, err := tx.Create(folder, ".seg", role)
	if err != nil {
		return nil, err
	}
	w := segment.NewWriter[T](file, file.Path(), features[T](p))
	w.Blocks(p.blocks())
	_, fresh := any(new(T)).(*Host)
	return &runWriter[T]{file: file, w: w, run: run{Path: file.Path(), Tier: tier, From: segment.Start, Fresh: fresh}}, nil
}

func (w *runWriter[T]) add(row *T) error {
	if h, ok := any(row).(*Host); ok && known(h) {
		w.run.Fresh = false
	}
	if w.w.Rows() == 0 {
		w.run.Head = rowKey(row)
	}
	return w.w.Add(row)
}

// addCoded adds a URL as appendRow gives it, but for its place.
func (w *runWriter[T]) addCoded(order, place uint64, row []byte) error {
	if w.w.Rows() == 0 {
		w.run.Head = order
	}
	return w.w.AddCoded(order, place, row)
}

// copy adds the next row of from as it stands there.
func (w *runWriter[T]) copy(from *segment.Scanner[T]) error {
	w.run.Fresh = false // its row is not looked at
	if w.w.Rows() == 0 {
		head, err := from.Peek()
		if err != nil {
			return err
		}
		w.run.Head = head
	}
	return w.w.Copy(from)
}

// finish returns the run; it has rows.
func (w *runWriter[T]) finish() (run, error) {
	rows, err := w.w.Finish()
	if err != nil {
		return run{}, err
	}
	w.run.Rows = rows
	return w.run, w.file.Close()
}

// features are what segments of T have besides the columns of all.
func features[T segment.Row](p *policy) segment.Features {
	switch any((*T)(nil)).(type) {
	case *Entry:
		if _, ok := p.hooks.(*revisitPolicy); ok {
			return segment.Visits | segment.Promises
		}
	case *Host:
		return segment.Spreads
	}
	return 0
}
