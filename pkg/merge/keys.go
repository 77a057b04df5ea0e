package merge

import (
	"errors"
	"io"

	"mercator/formats/fpfile"
	"mercator/pkg/base/durable"
)

// KeyFile is a fingerprint file without a name: keys that wait on disk, if they are many, until
// they are merged.
type KeyFile struct {
	file *durable.Temp
	w    *fpfile.Writer
	r    *fpfile.Reader // of Finish
}

// NewKeyFile makes one in dir ("": the system's folder for temporary files).
func NewKeyFile(dir string, polynomial uint64) *KeyFile {
	f := &durable.Temp{Dir: dir}
	return &KeyFile{file: f, w: fpfile.NewWriter(f, polynomial)}
}

// Add appends key, which must be above the one before it.
func (k *KeyFile) Add(key uint64) error { return k.w.Add(key) }

// AddKeys appends keys, which must increase strictly and be above those before.
func (k *KeyFile) AddKeys(keys []uint64) error { return k.w.AddKeys(keys) }

// Count is the number of keys added.
func (k *KeyFile) Count() uint64 { return k.w.Count() }

// Finish ends the file, gives the writer's memory back, and opens it for reading.
// Another call returns the same Reader.
func (k *KeyFile) Finish() (*fpfile.Reader, error) {
	if k.r != nil {
		return k.r, nil
	}
	if err := k.w.Finish(); err != nil {
		return nil, err
	}
	var err error
	k.r, err = fpfile.Open(k.file, k.file.Size(), "temporary file")
	return k.r, err
}

// Close gives the space back.
func (k *KeyFile) Close() error { return k.file.Close() }

const (
	// sortRuns is how many runs of SortKeys are merged at a time.
	sortRuns = 64
	// minSortKeys is the least number of keys that SortKeys sorts at a time.
	minSortKeys = 1 << 12
)

// KeyReader gives keys in any order. Read fills a part of dst at the least, and
// returns their number, or 0 and io.EOF after the last. *Text is one.
type KeyReader interface {
	Read(dst []uint64) (int, error)
}

// KeysOf reads the keys that next returns until io.EOF, after which it is not called.
func KeysOf(next func() (uint64, error)) KeyReader { return &keyFunc{next: next} }

type keyFunc struct {
	next func() (uint64, error)
	over bool
}

func (f *keyFunc) Read(dst []uint64) (n int, err error) {
	for ; n < len(dst) && !f.over; n++ {
		if dst[n], err = f.next(); err == io.EOF {
			f.over = true
			break
		} else if err != nil {
			return 0, err
		}
	}
	if n == 0 && f.over {
		return 0, io.EOF
	}
	return n, nil
}

// SortKeys sorts and deduplicates the keys of in into a KeyFile, within about mem
// bytes of memory, and up to 8 MiB of read buffers while sorted runs are merged. Keys
// that ascend already are not sorted again.
func SortKeys(in KeyReader, mem int64, dir string, polynomial uint64) (*KeyFile, error) {
	s := &keySorter{mem: mem, dir: dir, polynomial: polynomial}
	defer s.close()
	// A chunk, as much again for sorting it; the rest for the file's blocks.
	chunk := make([]uint64, max(minSortKeys, mem*3/4/16))
	var scratch []uint64
	for n := 0; ; {
		got, err := in.Read(chunk[n:])
		if err != nil && err != io.EOF {
			return nil, err
		}
		if n += got; n == len(chunk) || err == io.EOF {
			keys := chunk[:n]
			if !ascend(keys) {
				if scratch == nil {
					scratch = make([]uint64, len(chunk))
				}
				RadixSort(keys, scratch)
			}
			if err := s.addKeys(Compact(keys)); err != nil {
				return nil, err
			}
			n = 0
		}
		if err == io.EOF {
			chunk, scratch = nil, nil // space for the merger
			return s.mergeRuns()
		}
	}
}

func ascend(keys []uint64) bool {
	for i := 1; i < len(keys); i++ {
		if keys[i] < keys[i-1] {
			return false
		}
	}
	return true
}

// keySorter collects sorted runs. Each run of levels[i] was merged from sortRuns
// runs of the level below; the last run of levels[0] is still open. The others
// were finished: a writer's memory for each would be more than that for sorting.
type keySorter struct {
	mem        int64
	dir        string
	polynomial uint64
	levels     [][]*KeyFile
	last       uint64 // of the open run
}

// addKeys adds keys, which ascend strictly, to the open run if they go on where it
// ends, or else to a new one.
func (s *keySorter) addKeys(keys []uint64) error {
	if len(keys) == 0 {
		return nil
	}
	if len(s.levels) == 0 {
		s.levels = [][]*KeyFile{nil}
	}
	if n := len(s.levels[0]); n == 0 || keys[0] <= s.last {
		if n > 0 {
			if _, err := s.levels[0][n-1].Finish(); err != nil {
				return err
			}
		}
		for i := 0; i < len(s.levels) && len(s.levels[i]) == sortRuns; i++ {
			merged, err := s.merge(s.levels[i])
			s.levels[i] = nil
			if err != nil {
				return err
			}
			if i+1 == len(s.levels) {
				s.levels = append(s.levels, nil)
			}
			s.levels[i+1] = append(s.levels[i+1], merged)
			if _, err := merged.Finish(); err != nil {
				return err
			}
		}
		f := NewKeyFile(s.dir, s.polynomial)
		s.levels[0] = append(s.levels[0], f)
	}
	s.last = keys[len(keys)-1]
	return s.levels[0][len(s.levels[0])-1].AddKeys(keys)
}

// mergeRuns returns all runs as one.
func (s *keySorter) mergeRuns() (*KeyFile, error) {
	var all []*KeyFile
	for _, l := range s.levels {
		all = append(all, l...)
	}
	s.levels = nil
	switch len(all) {
	case 0:
		return NewKeyFile(s.dir, s.polynomial), nil
	case 1:
		return all[0], nil
	}
	return s.merge(all)
}

// merge makes one run of several, and closes them.
func (s *keySorter) merge(runs []*KeyFile) (*KeyFile, error) {
	defer closeAll(runs)
	var set Set
	for _, f := range runs {
		r, err := f.Finish()
		if err != nil {
			return nil, err
		}
		set = append(set, r)
	}
	f := NewKeyFile(s.dir, s.polynomial)
	if err := Files(f, OpUnion, []Set{set}, Options{Memory: s.mem / 2}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *keySorter) close() {
	for _, l := range s.levels {
		closeAll(l)
	}
}

// closeAll gives back the space of files that are not needed any more.
func closeAll(files []*KeyFile) {
	for _, f := range files {
		_ = f.Close()
	}
}
