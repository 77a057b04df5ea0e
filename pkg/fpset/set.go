package fpset

import (
	"cmp"
	"maps"

	"mercator/formats/fpfile"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/fpset/bloom"
	"mercator/pkg/merge"
)

// The store of document keys.
const (
	Kind    = "content"
	Version = 1 // of a set's store, whatever its kind
)

const paramPoly = "polynomial"

// paramHash names the function that made content_fp of the documents; a store without it has defaultHash. Keys of one
// document by different functions differ.
const (
	paramHash   = "content_hash"
	defaultHash = "fp64"
)

func hashOf(m *store.Manifest) string { return cmp.Or(m.Params[paramHash], defaultHash) }

// HashOf is the function that made content_fp of the documents in st, a set of their keys.
func HashOf(st *store.Store) (string, error) {
	m, err := st.Current()
	if err != nil {
		return "", err
	}
	return hashOf(m), nil
}

// Set is one generation of a set, opened. One goroutine.
type Set interface {
	// Polynomial is the one that all fingerprints of the set were made with.
	Polynomial() uint64
	// Count is the number of fingerprints.
	Count() uint64
	// ContainsAll sets seen[i] where keys[i] is in the set, and clears none. Keys
	// may come in any order, and more than once.
	ContainsAll(keys []uint64, seen []bool) error
	// Sweep begins a pass of n tests, about, in ascending order of keys, and ends
	// the pass before it.
	Sweep(n uint64) Sweep
	// All gives every fingerprint in ascending order.
	All() (merge.Source, error)
	// Extend puts the set with the fresh keys into tx. The set is the base of tx.
	// There is at least one fresh key, and the set has none of them. The Set itself
	// does not change.
	Extend(tx *store.Tx, fresh *fpfile.Reader) error
	// Check reads every byte, and verifies every rule. progress, which may be
	// nil, gets the bytes read.
	Check(progress func(bytes int64)) error
	// Reads counts, since the set was opened, the keys that it was asked about, the reads of its
	// files for them, and the bytes of these reads.
	Reads() (tests, reads, bytes uint64)
	// Detail returns the implementation's part of the output of the verb stat: a JSON value.
	Detail() any
	// Close closes the files.
	Close() error
}

// Sweep is a pass over a set.
type Sweep = interface {
	// Mark sets seen[i] where keys[i] is in the set, and clears none. Keys must
	// ascend strictly, within a call and from call to call.
	Mark(keys []uint64, seen []bool) error
}

// CreateOptions are the options that a set is created with and keeps.
type CreateOptions struct {
	Polynomial uint64 // 0: fingerprint.Polynomial
	Impl       string // one of Impls; "": Sorted
	Size       int64  // of a Bloom filter, in bytes; 0: bloom.DefaultSize

	ContentHash string // function that makes content_fp (pkg/fetch); "": fp64
}

// PolynomialOf is the polynomial of the set in st.
func PolynomialOf(st *store.Store) (uint64, error) {
	m, err := st.Current()
	if err != nil {
		return 0, err
	}
	return polynomialOf(st, m)
}

func polynomialOf(st *store.Store, m *store.Manifest) (uint64, error) {
	p, err := fingerprint.Parse(m.Params[paramPoly])
	if err != nil {
		return 0, &fault.Error{Class: fault.Corrupt, File: st.Dir(), Place: "parameter polynomial", Err: err}
	}
	return p, nil
}

// Create makes an empty set of document keys in a new store.
func Create(dir string, with CreateOptions, opt store.Options) error {
	return CreateKind(dir, Kind, with, opt)
}

// CreateKind makes an empty set in a new store of the kind.
func CreateKind(dir, kind string, with CreateOptions, opt store.Options) error {
	if with.Polynomial == 0 {
		with.Polynomial = fingerprint.Polynomial
	}
	params := map[string]string{paramPoly: fingerprint.Format(with.Polynomial)}
	if with.Impl != "" && with.Impl != Sorted {
		if err := checkImpl(with.Impl); err != nil {
			return err
		}
		params[paramImpl] = with.Impl
	}
	if with.ContentHash != "" && with.ContentHash != defaultHash {
		params[paramHash] = with.ContentHash
	}
	switch {
	case with.Impl == Bloom:
		if with.Size == 0 {
			with.Size = bloom.DefaultSize
		}
		maps.Copy(params, bloom.Params(with.Size))
	case with.Size != 0:
		return &fault.Error{Class: fault.Usage, Place: "--bloom-size", Found: "a set that is no Bloom filter", Want: "--impl bloom with it"}
	}
	return store.Create(dir, kind, Version, params, opt)
}

// Options of a set that is opened.
type Options struct {
	Workers int // goroutines that merge runs; 1 unless set
}

// Load opens the set that a manifest of the store describes (Tx.Base within a
// change, Store.Current for readers).
func Load(st *store.Store, m *store.Manifest, opt Options) (Set, error) {
	poly, err := polynomialOf(st, m)
	if err != nil {
		return nil, err
	}
	return openImpl(st, m, poly, opt)
}

// LoadCurrent opens the set of st as it is now, without the lock.
func LoadCurrent(st *store.Store, opt Options) (Set, error) {
	m, err := st.Current()
	if err != nil {
		return nil, err
	}
	return Load(st, m, opt)
}

// Usage counts the tests of a set and their cost, for statistics.
type Usage struct {
	Tests   uint64  `json:"tests"`          // of a key
	Reads   uint64  `json:"reads"`          // of the set's files
	Bytes   uint64  `json:"bytes_read"`     //
	PerTest float64 `json:"reads_per_test"` // 0 without tests
}

// UsageOf sums up s.
func UsageOf(s Set) Usage {
	var u Usage
	u.Tests, u.Reads, u.Bytes = s.Reads()
	if u.Tests > 0 {
		u.PerTest = float64(u.Reads) / float64(u.Tests)
	}
	return u
}

// Summary is the output of the verb stat for a set.
type Summary struct {
	Store      string `json:"store"`
	Kind       string `json:"kind"`
	Generation uint64 `json:"generation"`
	Polynomial string `json:"polynomial"`
	Impl       string `json:"impl"`
	Count      uint64 `json:"count"`
	Bytes      int64  `json:"bytes"`
	Batches    uint64 `json:"batches"`
	Runs       []Run  `json:"runs,omitempty"`   // of a sorted set, oldest first
	Detail     any    `json:"detail,omitempty"` // of any other

	ContentHash string `json:"content_hash,omitempty"` // of documents, unless it is fp64
}

// FileSummary is the output of the verb stat for a fingerprint file.
type FileSummary struct {
	Polynomial string `json:"polynomial"`
	Run
}

// Describe sums up the set of st.
func Describe(st *store.Store) (*Summary, error) {
	m, err := st.Current()
	if err != nil {
		return nil, err
	}
	s, err := Load(st, m, Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	batches, err := batchesOf(st, m)
	if err != nil {
		return nil, err
	}
	sum := &Summary{Store: st.Dir(), Kind: m.Kind, Generation: m.Generation, Polynomial: fingerprint.Format(s.Polynomial()),
		Count: s.Count(), Batches: batches, ContentHash: m.Params[paramHash]}
	if sum.Impl = m.Params[paramImpl]; sum.Impl == "" {
		sum.Impl = Sorted
	}
	detail, ok := s.Detail(), false
	if sum.Runs, ok = detail.([]Run); !ok {
		sum.Detail = detail
	}
	for _, e := range m.Files {
		if e.Role == roleRun {
			sum.Bytes += e.Length
		}
	}
	return sum, nil
}
