// Package bloom is a lossy set of fingerprints: a Bloom filter (formats/bloom), as
// the Internet Archive's crawler of 1997 kept for each site, behind the interface of
// package fpset.
//
// # What is promised
//
//   - A fingerprint of the set is always seen.
//   - One that is not in it is seen, falsely, at a rate that Detail tells: expected
//     from the number of fingerprints, and counted from the bits. A URL that is falsely
//     seen is never crawled. The rate grows with the set: the filter keeps its size.
//   - Transactions, abandoned rounds and restores are as in any other store: a
//     change writes a new file of role "run".
//
// # What it costs
//
//   - The filter's size, given once: 12 bits a fingerprint are expected to give 0.41 % of
//     false drops, 16 bits 0.10 %, 24 bits 0.012 %. Each change writes all of it, and
//     each checkpoint that is kept keeps one.
//   - One read of 8 KiB a test; tests that come together read each page once.
//   - Fingerprints cannot be listed: dump, and commands that merge sets, refuse it.
package bloom

import (
	"errors"
	"fmt"
	"strconv"

	"mercator/formats/bloom"
	"mercator/formats/fpfile"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/merge"
)

// Name names this implementation.
const Name = "bloom"

// DefaultSize is the size of a filter, in bytes, unless its maker says otherwise:
// 12 bits each for 44 million fingerprints.
const DefaultSize = 64 << 20

const (
	// ParamPages is the store's parameter that holds the number of pages.
	ParamPages = "pages"

	roleFilter   = "run"
	stateBatches = "batches"
)

// sortMemory is the memory in which a change sorts its fingerprints, in bytes.
const sortMemory = 8 << 20

// Params returns the parameters of a new store for a filter of about size bytes.
func Params(size int64) map[string]string {
	return map[string]string{ParamPages: strconv.FormatInt(bloom.PagesFor(size), 10)}
}

// Set is one generation of a filter. One goroutine.
type Set struct {
	dir     string
	poly    uint64
	pages   int64
	batches uint64
	path    string // in the store; "" if nothing was ever added
	length  int64
	file    *counted
	filter  *bloom.Reader
	tests   uint64
}

// counted is a file that counts its reads.
type counted struct {
	durable.File
	reads, bytes uint64
}

// ReadAt implements io.ReaderAt.
func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.File.ReadAt(p, off)
	c.reads++
	c.bytes += uint64(n)
	return n, err
}

// Open opens the filter that a manifest of the store describes.
func Open(st *store.Store, m *store.Manifest, poly uint64) (*Set, error) {
	s := &Set{dir: st.Dir(), poly: poly}
	var err error
	if s.pages, err = strconv.ParseInt(m.Params[ParamPages], 10, 64); err != nil || s.pages < 1 || s.pages > bloom.MaxPages {
		return nil, &fault.Error{Class: fault.Corrupt, File: s.dir, Place: "parameter pages", Found: strconv.Quote(m.Params[ParamPages]), Want: fmt.Sprintf("1 to %d", bloom.MaxPages)}
	}
	if text := m.State[stateBatches]; text != "" {
		if s.batches, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, &fault.Error{Class: fault.Corrupt, File: s.dir, Place: "state batches", Err: err}
		}
	}
	for _, e := range m.Files {
		if e.Role != roleFilter {
			continue
		}
		s.path, s.length = e.Path, e.Length
		f, err := st.OpenFile(e.Path)
		if err != nil {
			return nil, err
		}
		s.file = &counted{File: f}
		if s.filter, err = open(s.file, e.Length, st.Path(e.Path), poly, s.pages); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return s, nil
}

func open(f durable.File, length int64, name string, poly uint64, pages int64) (*bloom.Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != length {
		return nil, &fault.Error{Class: fault.Corrupt, File: name, Found: fmt.Sprintf("%d bytes", info.Size()),
			Want: fmt.Sprintf("%d, as in the manifest", length)}
	}
	r, err := bloom.Open(f, length, name)
	if err == nil && (r.Polynomial != poly || r.Pages != pages) {
		err = &fault.Error{Class: fault.WrongKind, File: name, Found: fmt.Sprintf("polynomial %016x, %d pages", r.Polynomial, r.Pages),
			Want: fmt.Sprintf("%016x and %d, as in the store", poly, pages)}
	}
	return r, err
}

// Polynomial is the one that all fingerprints were made with.
func (s *Set) Polynomial() uint64 { return s.poly }

// Count is the number of fingerprints that were added: those that were falsely
// called seen are not among them.
func (s *Set) Count() uint64 {
	if s.filter == nil {
		return 0
	}
	return s.filter.Keys
}

// ContainsAll sets seen[i] where keys[i] is in the set, or seems to be.
func (s *Set) ContainsAll(keys []uint64, seen []bool) error {
	s.tests += uint64(len(keys))
	if s.filter == nil {
		return nil
	}
	return s.filter.ContainsAll(keys, seen)
}

// Sweep begins a pass; each call of Mark reads each page that it needs once.
func (s *Set) Sweep(uint64) interface {
	Mark(keys []uint64, seen []bool) error
} {
	return sweep{s}
}

type sweep struct{ s *Set }

func (w sweep) Mark(keys []uint64, seen []bool) error { return w.s.ContainsAll(keys, seen) }

// All is refused (fault.Usage): a filter does not know what is in it.
func (s *Set) All() (merge.Source, error) {
	return nil, &fault.Error{Class: fault.Usage, File: s.dir, Found: "a Bloom filter, which cannot list its fingerprints", Want: "a sorted set"}
}

// Extend puts the filter with the fresh keys into tx. The set is the base of tx.
func (s *Set) Extend(tx *store.Tx, fresh *fpfile.Reader) error {
	places, err := sortPlaces(fresh)
	if err != nil {
		return err
	}
	defer places.Close()
	sorted, err := places.Finish()
	if err != nil {
		return err
	}
	f, err := tx.Create("filter/", ".bloom", roleFilter)
	if err != nil {
		return err
	}
	if _, err := bloom.Write(f, s.poly, s.pages, s.filter, sorted.All().Next); err != nil {
		return err
	}
	if s.path != "" {
		tx.Drop(s.path)
	}
	tx.SetState(stateBatches, strconv.FormatUint(s.batches+1, 10))
	return f.Close()
}

// sortPlaces sorts keys by their places in the filter.
func sortPlaces(keys *fpfile.Reader) (*merge.KeyFile, error) {
	it := keys.All()
	next := func() (uint64, error) {
		key, err := it.Next()
		return bloom.Place(key), err
	}
	return merge.SortKeys(merge.KeysOf(next), sortMemory, "", keys.Polynomial())
}

// Check reads the whole filter.
func (s *Set) Check(progress func(bytes int64)) error {
	if s.filter == nil {
		return nil
	}
	return s.filter.Check(progress)
}

// Reads counts the tests of the filter, and their cost.
func (s *Set) Reads() (tests, reads, bytes uint64) {
	if s.file == nil {
		return s.tests, 0, 0
	}
	return s.tests, s.file.reads, s.file.bytes
}

// Detail returns the filter's part of the output of the verb stat.
func (s *Set) Detail() any {
	d := struct {
		File     string  `json:"file,omitempty"`
		Size     int64   `json:"bytes"`
		BitsKey  float64 `json:"bits_per_key"`
		Fill     float64 `json:"fill"`                // bits that are set
		Expected float64 `json:"false_drop_expected"` // rate, for this number of fingerprints
		Counted  float64 `json:"false_drop_counted"`  // rate, from the bits
	}{File: s.path, Size: s.length}
	if s.filter != nil {
		bits := float64(s.pages * bloom.PageBits)
		d.BitsKey = bits / float64(s.filter.Keys)
		d.Fill = float64(s.filter.Ones) / bits
		d.Expected = bloom.Expected(s.filter.Keys, s.pages)
		d.Counted = s.filter.Rate
	}
	return d
}

// Close closes the file.
func (s *Set) Close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}
