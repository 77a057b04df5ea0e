package fpset

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"

	"mercator/formats/fpfile"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/merge"
)

const (
	roleRun      = "run"
	stateBatches = "batches"
)

// readAhead bounds the buffer of each run while it is read.
const readAhead = 256 << 10

// mergeMemory bounds the fingerprints in memory while runs are merged.
const mergeMemory = 12 << 20

// sparse is where point reads are cheaper than a sweep: fewer tests than one for
// so many keys of a run. A run has about 1,300 keys a block; a sweep reads several
// blocks in the time of one read of its own.
const sparse = 4000

// runs is the set as sorted runs.
type runs struct {
	poly    uint64
	opt     Options
	batches uint64 // batches that added a fingerprint
	list    []*run // oldest, and as a rule largest, first
	tests   uint64
	keys    []uint64 // room for what one run is asked
	seen    []bool
}

type run struct {
	entry store.Entry
	file  *counted
	*fpfile.Reader
	iter *fpfile.Iter // of the sweep; made by the first
}

// counted is a file that counts its reads.
type counted struct {
	durable.File
	reads, bytes atomic.Uint64
}

// ReadAt implements io.ReaderAt.
func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.File.ReadAt(p, off)
	c.reads.Add(1)
	c.bytes.Add(uint64(n))
	return n, err
}

func openRuns(st *store.Store, m *store.Manifest, poly uint64, opt Options) (*runs, error) {
	batches, err := batchesOf(st, m)
	if err != nil {
		return nil, err
	}
	s := &runs{poly: poly, opt: opt, batches: batches}
	for _, e := range runsOf(m) {
		r, err := openRun(st, e, poly)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.list = append(s.list, r)
	}
	return s, nil
}

// runsOf lists the runs by age, the oldest first.
func runsOf(m *store.Manifest) []store.Entry {
	var list []store.Entry
	for _, e := range m.Files {
		if e.Role == roleRun {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b store.Entry) int {
		switch {
		case store.MadeBefore(a.Path, b.Path):
			return -1
		case store.MadeBefore(b.Path, a.Path):
			return 1
		}
		return 0
	})
	return list
}

func openRun(st *store.Store, e store.Entry, poly uint64) (*run, error) {
	f, err := st.OpenFile(e.Path)
	if err != nil {
		return nil, err
	}
	name := st.Path(e.Path)
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if info.Size() != e.Length {
		return nil, errors.Join(&fault.Error{Class: fault.Corrupt, File: name, Found: fmt.Sprintf("%d bytes", info.Size()),
			Want: fmt.Sprintf("%d, as in the manifest", e.Length)}, f.Close())
	}
	c := &counted{File: f}
	r, err := fpfile.Open(c, e.Length, name)
	if err == nil && r.Polynomial() != poly {
		err = OtherPolynomial(name, r.Polynomial(), poly)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.SetReadAhead(readAhead)
	c.reads.Store(0) // what follows is the cost of tests
	c.bytes.Store(0)
	return &run{entry: e, file: c, Reader: r}, nil
}

// OtherPolynomial refuses the fingerprints of a file that were made with another
// polynomial than the set's.
func OtherPolynomial(name string, found, want uint64) error {
	return &fault.Error{Class: fault.WrongKind, File: name, Found: "polynomial " + fingerprint.Format(found),
		Want: fingerprint.Format(want) + ", as in the store", Hint: "fingerprints of different polynomials cannot be compared"}
}

func (s *runs) Close() error {
	var err error
	for _, r := range s.list {
		err = errors.Join(err, r.file.Close())
	}
	s.list = nil
	return err
}

func (s *runs) Polynomial() uint64 { return s.poly }

func (s *runs) Count() uint64 {
	var n uint64
	for _, r := range s.list {
		n += r.Count()
	}
	return n
}

// Run describes one run.
type Run struct {
	Path   string `json:"path"`
	Count  uint64 `json:"count"`
	Bytes  int64  `json:"bytes"`
	Blocks int64  `json:"blocks"`
}

// Detail lists the runs, oldest first.
func (s *runs) Detail() any {
	list := []Run{}
	for _, r := range s.list {
		list = append(list, Run{r.entry.Path, r.Count(), r.entry.Length, r.Blocks()})
	}
	return list
}

func (s *runs) Reads() (tests, reads, bytes uint64) {
	for _, r := range s.list {
		reads += r.file.reads.Load()
		bytes += r.file.bytes.Load()
	}
	return s.tests, reads, bytes
}

func (s *runs) ContainsAll(keys []uint64, seen []bool) error {
	s.tests += uint64(len(keys))
	for _, r := range s.list {
		if err := s.ask(keys, seen, r.ContainsAll); err != nil {
			return err
		}
	}
	return nil
}

func (s *runs) Sweep(n uint64) Sweep {
	w := &runSweep{set: s}
	for _, r := range s.list {
		ask := r.ContainsAll
		if n >= r.Count()/sparse {
			if r.iter == nil {
				r.iter = r.Reader.All()
			} else {
				r.iter.Reset()
			}
			ask = r.iter.Mark
		}
		w.asks = append(w.asks, ask)
	}
	return w
}

// question is ContainsAll, or Mark of an iterator.
type question func(keys []uint64, seen []bool) error

// runSweep is a pass over runs; asks has the question for each.
type runSweep struct {
	set  *runs
	asks []question
}

func (w *runSweep) Mark(keys []uint64, seen []bool) error {
	w.set.tests += uint64(len(keys))
	for _, ask := range w.asks {
		if err := w.set.ask(keys, seen, ask); err != nil {
			return err
		}
	}
	return nil
}

// ask asks one run for the keys that are not seen yet, since no key is in two runs.
func (s *runs) ask(keys []uint64, seen []bool, ask question) error {
	s.keys = slices.Grow(s.keys[:0], len(keys))[:len(keys)]
	n := 0
	for i, k := range keys {
		s.keys[n] = k // overwritten by the next if this one is not asked for
		if !seen[i] {
			n++
		}
	}
	picked := s.keys[:n]
	if len(picked) == len(keys) {
		return ask(keys, seen)
	}
	if len(picked) == 0 {
		return nil
	}
	s.seen = slices.Grow(s.seen[:0], len(picked))[:len(picked)]
	answers := s.seen
	clear(answers)
	if err := ask(picked, answers); err != nil {
		return err
	}
	// Both lists are in the same order: the next picked key is the next answer.
	for i, k := range keys {
		if len(picked) == 0 {
			break
		}
		if !seen[i] && k == picked[0] {
			seen[i], picked, answers = answers[0], picked[1:], answers[1:]
		}
	}
	return nil
}

func (s *runs) All() (merge.Source, error) {
	var sources []merge.Source
	for _, r := range s.list {
		sources = append(sources, r.Reader.All())
	}
	return merge.UnionOf(sources...), nil
}

// Check verifies each run by its format, and that no fingerprint is in two, in one
// pass over all runs.
func (s *runs) Check(progress func(bytes int64)) error {
	if progress == nil {
		progress = func(int64) {}
	}
	var sources []merge.Source
	for _, r := range s.list {
		sources = append(sources, &checked{run: r, all: r.Reader.All(), progress: progress})
	}
	union := merge.UnionOf(sources...)
	var n uint64
	for {
		keys, err := union.Block()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		n += uint64(len(keys))
	}
	if n != s.Count() {
		return &fault.Error{Class: fault.Corrupt, File: s.list[0].Name(), Found: fmt.Sprintf("%d fingerprints are in two runs", s.Count()-n), Want: "each in one"}
	}
	return nil
}

// checked gives all fingerprints of a run, and compares their number at the end.
// Its blocks are verified as they are read.
type checked struct {
	run      *run
	all      *fpfile.Iter
	n        uint64
	progress func(bytes int64)
}

func (c *checked) Block() ([]uint64, error) {
	before := c.run.file.bytes.Load()
	keys, err := c.all.Block()
	c.n += uint64(len(keys))
	c.progress(int64(c.run.file.bytes.Load() - before))
	if err == io.EOF && c.n != c.run.Count() {
		return nil, &fault.Error{Class: fault.Corrupt, File: c.run.Name(), Found: fmt.Sprintf("%d fingerprints", c.n), Want: fmt.Sprintf("%d, as its end says", c.run.Count())}
	}
	return keys, err
}

// Extend makes a run of the fresh keys, and of the newest runs by the rule of the
// package.
func (s *runs) Extend(tx *store.Tx, fresh *fpfile.Reader) error {
	return s.extend(tx, fresh, s.batches+1)
}

// extend is Extend, as batch number n.
func (s *runs) extend(tx *store.Tx, fresh *fpfile.Reader, n uint64) error {
	keep := min(keptRuns(n), len(s.list))
	merged := merge.Set{fresh}
	for _, r := range s.list[keep:] {
		merged = append(merged, r.Reader)
		tx.Drop(r.entry.Path)
	}
	f, err := tx.Create("runs/", ".fps", roleRun)
	if err != nil {
		return err
	}
	w := fpfile.NewWriter(f, s.poly)
	w.SetWorkers(s.opt.Workers)
	if err := merge.Files(w, merge.OpUnion, []merge.Set{merged}, merge.Options{Threads: s.opt.Workers, Memory: mergeMemory}); err != nil {
		return err
	}
	if err := w.Finish(); err != nil {
		return err
	}
	tx.SetState(stateBatches, strconv.FormatUint(n, 10))
	return f.Close()
}

// maxBatches keeps the arithmetic of binomialRuns in range.
const maxBatches = 1 << 40

func batchesOf(st *store.Store, m *store.Manifest) (uint64, error) {
	text := m.State[stateBatches]
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n >= maxBatches {
		return 0, &fault.Error{Class: fault.Corrupt, File: st.Dir(), Place: "state batches", Found: strconv.Quote(text), Want: "a number below 2⁴⁰"}
	}
	return n, nil
}
