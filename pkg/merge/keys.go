package merge

import (
	"io"
	"os"

	"mercator/formats/fpfile"
)

// KeyFile is a fingerprint file without a name: keys that wait on disk until
// they are merged.
type KeyFile struct {
	file *os.File
	w    *fpfile.Writer
}

// NewKeyFile makes one in dir ("": the system's folder for temporary files).
func NewKeyFile(dir string, polynomial uint64) (*KeyFile, error) {
	f, err := TempFile(dir)
	if err != nil {
		return nil, err
	}
	return &KeyFile{file: f, w: fpfile.NewWriter(f, polynomial)}, nil
}

// Add appends key, which must be above the one before it.
func (k *KeyFile) Add(key uint64) error { return k.w.Add(key) }

// Count is the number of keys added.
func (k *KeyFile) Count() uint64 { return k.w.Count() }

// Finish ends the file and opens it for reading.
func (k *KeyFile) Finish() (*fpfile.Reader, error) {
	if err := k.w.Finish(); err != nil {
		return nil, err
	}
	size, err := k.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	return fpfile.Open(k.file, size, "temporary file")
}

// Close gives the space back.
func (k *KeyFile) Close() error { return k.file.Close() }

// SortKeys sorts and deduplicates the keys that next returns, until io.EOF, into
// a KeyFile, within mem bytes of memory.
func SortKeys(next func() (uint64, error), mem int64, dir string, polynomial uint64) (*KeyFile, error) {
	s := NewSorter(mem, dir)
	defer s.Close()
	for {
		key, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := s.Add(key, nil); err != nil {
			return nil, err
		}
	}
	it, err := s.Sort()
	if err != nil {
		return nil, err
	}
	k, err := NewKeyFile(dir, polynomial)
	if err != nil {
		return nil, err
	}
	var last uint64
	for {
		key, _, err := it.Next()
		if err == io.EOF {
			return k, nil
		}
		if err == nil && (k.Count() == 0 || key != last) {
			err = k.Add(key)
		}
		if err != nil {
			k.Close()
			return nil, err
		}
		last = key
	}
}
