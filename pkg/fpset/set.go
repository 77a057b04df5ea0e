package fpset

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/fpfile"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
)

// The store of document keys.
const (
	Kind    = "content"
	Version = "1.0" // of a set's store, whatever its kind
)

const (
	roleRun      = "run"
	stateBatches = "batches"
	paramPoly    = "polynomial"
)

// readAhead bounds the buffer of each run while it is read.
const readAhead = 256 << 10

// Create makes an empty set of document keys in a new store.
func Create(dir string, opt store.Options) error { return CreateKind(dir, Kind, opt) }

// CreateKind makes an empty set in a new store of the kind.
func CreateKind(dir, kind string, opt store.Options) error {
	params := map[string]string{paramPoly: fingerprint.Format(fingerprint.Polynomial)}
	return store.Create(dir, kind, Version, params, opt)
}

// Set is one generation of a set, opened for reading. One goroutine.
type Set struct {
	poly uint64
	runs []run // oldest, and as a rule largest, first
}

type run struct {
	entry store.Entry
	file  durable.File
	*fpfile.Reader
}

// Load opens the set that a manifest of the store describes (Tx.Base within a
// change, Store.Current for readers).
func Load(st *store.Store, m *store.Manifest) (*Set, error) {
	poly, err := fingerprint.Parse(m.Params[paramPoly])
	if err != nil {
		return nil, &fault.Error{Class: fault.Corrupt, File: st.Dir(), Place: "parameter polynomial", Err: err}
	}
	s := &Set{poly: poly}
	for _, e := range runsOf(m) {
		if err := s.open(st, e); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// runsOf lists the runs by age. Names hold the generation in six digits or more,
// so that the shorter name is the older.
func runsOf(m *store.Manifest) []store.Entry {
	var runs []store.Entry
	for _, e := range m.Files {
		if e.Role == roleRun {
			runs = append(runs, e)
		}
	}
	slices.SortFunc(runs, func(a, b store.Entry) int {
		if len(a.Path) != len(b.Path) {
			return len(a.Path) - len(b.Path)
		}
		return strings.Compare(a.Path, b.Path)
	})
	return runs
}

func (s *Set) open(st *store.Store, e store.Entry) error {
	f, err := st.OpenFile(e.Path)
	if err != nil {
		return err
	}
	name := st.Path(e.Path)
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if info.Size() != e.Length {
		f.Close()
		return &fault.Error{Class: fault.Corrupt, File: name, Found: fmt.Sprintf("%d bytes", info.Size()),
			Want: fmt.Sprintf("%d, as in the manifest", e.Length), Hint: `go back with "mckpt restore"`}
	}
	r, err := fpfile.Open(f, e.Length, name)
	if err == nil && r.Polynomial() != s.poly {
		err = &fault.Error{Class: fault.WrongKind, File: name, Found: "polynomial " + fingerprint.Format(r.Polynomial()),
			Want: fingerprint.Format(s.poly) + ", as in the store"}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.SetReadAhead(readAhead)
	s.runs = append(s.runs, run{e, f, r})
	return nil
}

// Close closes the files. A nil Set may be closed.
func (s *Set) Close() error {
	if s == nil {
		return nil
	}
	var err error
	for _, r := range s.runs {
		err = errors.Join(err, r.file.Close())
	}
	s.runs = nil
	return err
}

// Polynomial is the one that all fingerprints of the set were made with.
func (s *Set) Polynomial() uint64 { return s.poly }

// Count is the number of fingerprints.
func (s *Set) Count() uint64 {
	var n uint64
	for _, r := range s.runs {
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

// Runs describes the runs, oldest first.
func (s *Set) Runs() []Run {
	list := []Run{}
	for _, r := range s.runs {
		list = append(list, Run{r.entry.Path, r.Count(), r.entry.Length, r.Blocks()})
	}
	return list
}

// Contains reports whether key is in the set, by one read a run at most.
func (s *Set) Contains(key uint64) (bool, error) {
	for _, r := range s.runs {
		if ok, err := r.Contains(key); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// All gives every fingerprint in ascending order.
func (s *Set) All() (merge.Source, error) {
	var sources []merge.Source
	for _, r := range s.runs {
		sources = append(sources, r.All())
	}
	return merge.UnionOf(sources...)
}

// Check reads all runs, and verifies every rule of their format and that no
// fingerprint is in two of them. progress, which may be nil, is told the bytes read.
func (s *Set) Check(progress func(bytes int64)) error {
	for _, r := range s.runs {
		if err := r.Check(progress); err != nil {
			return err
		}
	}
	all, err := s.All()
	if err != nil {
		return err
	}
	var n uint64
	for {
		keys, err := all.Block()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		n += uint64(len(keys))
	}
	if n != s.Count() {
		return &fault.Error{Class: fault.Corrupt, File: s.runs[0].Name(), Found: fmt.Sprintf("%d fingerprints are in two runs", s.Count()-n), Want: "each in one"}
	}
	return nil
}

// Sweep tests keys in ascending order, in one pass over all runs that reads only
// the blocks that may hold one.
type Sweep struct{ iters []*fpfile.Iter }

// Sweep starts a pass.
func (s *Set) Sweep() *Sweep {
	w := &Sweep{}
	for _, r := range s.runs {
		w.add(r.Reader)
	}
	return w
}

func (w *Sweep) add(r *fpfile.Reader) { w.iters = append(w.iters, r.All()) }

// reset starts another pass with the same buffers.
func (w *Sweep) reset() {
	for _, it := range w.iters {
		it.Reset()
	}
}

// Seen reports whether key is in the set. Keys must not descend.
func (w *Sweep) Seen(key uint64) (bool, error) {
	for _, it := range w.iters {
		if ok, err := it.Seek(key); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// Extend puts into tx the set of s, which is tx's base, with the fresh keys, none
// of which is in it: a new run, with which the newest runs are merged by the
// rule of the package.
func (s *Set) Extend(tx *store.Tx, fresh *fpfile.Reader) error {
	if fresh.Count() == 0 {
		return nil
	}
	batches, err := batchesOf(tx.Base())
	if err != nil {
		return err
	}
	batches++
	keep := min(keptRuns(batches), len(s.runs))
	sources := []merge.Source{fresh.All()}
	for _, r := range s.runs[keep:] {
		sources = append(sources, r.All())
		tx.Drop(r.entry.Path)
	}
	f, err := tx.Create("runs/", ".fps", roleRun)
	if err != nil {
		return err
	}
	w := fpfile.NewWriter(f, s.poly)
	if err := merge.Union(w, sources...); err != nil {
		return err
	}
	if err := w.Finish(); err != nil {
		return err
	}
	tx.SetState(stateBatches, strconv.FormatUint(batches, 10))
	return f.Close()
}

// maxBatches keeps the arithmetic of binomialRuns in range.
const maxBatches = 1 << 40

func batchesOf(m *store.Manifest) (uint64, error) {
	text := m.State[stateBatches]
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n >= maxBatches {
		return 0, &fault.Error{Class: fault.Corrupt, Place: "state batches", Found: strconv.Quote(text), Want: "a number below 2⁴⁰"}
	}
	return n, nil
}

// refuse refuses a file of another polynomial.
func (s *Set) refuse(r *fpfile.Reader) error {
	if r.Polynomial() == s.poly {
		return nil
	}
	return &fault.Error{Class: fault.WrongKind, File: r.Name(), Found: "polynomial " + fingerprint.Format(r.Polynomial()),
		Want: fingerprint.Format(s.poly) + ", as in the store", Hint: "fingerprints of different polynomials cannot be compared"}
}
