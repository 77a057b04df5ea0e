package merge

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"mercator/formats/fpfile"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
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

// AddKeys appends keys, which must increase strictly and be above those before.
func (k *KeyFile) AddKeys(keys []uint64) error { return k.w.AddKeys(keys) }

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

// TextKeys returns a function that reads keys from text, one of 16 hexadecimal
// digits a line, until io.EOF. Empty lines and lines that begin with # are
// skipped; any other is fault.Corrupt and named. name stands in messages.
func TextKeys(in io.Reader, name string) func() (uint64, error) {
	lines := bufio.NewScanner(in)
	n := 0
	return func() (uint64, error) {
		for lines.Scan() {
			n++
			text := strings.TrimSpace(lines.Text())
			if text == "" || text[0] == '#' {
				continue
			}
			key, err := fingerprint.Parse(text)
			if err != nil {
				err = lineError(name, n, err)
			}
			return key, err
		}
		if errors.Is(lines.Err(), bufio.ErrTooLong) {
			return 0, lineError(name, n+1, lines.Err())
		}
		if lines.Err() != nil {
			return 0, lines.Err()
		}
		return 0, io.EOF
	}
}

func lineError(name string, line int, err error) error {
	return &fault.Error{Class: fault.Corrupt, File: name, Place: fmt.Sprintf("line %d", line), Err: err}
}

// WriteText writes the keys of src, one of 16 hexadecimal digits a line.
func WriteText(out io.Writer, src Source) error {
	w := bufio.NewWriterSize(out, 64<<10)
	var line []byte
	for {
		keys, err := src.Block()
		if err == io.EOF {
			return w.Flush()
		}
		if err != nil {
			return err
		}
		for _, k := range keys {
			line = append(fingerprint.Append(line[:0], k), '\n')
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
	}
}
