package durable

import (
	"bytes"
	"errors"
	"os"
)

// tempMin is how many bytes of a Temp stay in memory.
const tempMin = 8 << 10

// Temp is a TempFile that is made when it grows beyond 8 KiB: most rounds are small, and to make a file and to delete it costs more than
// to write it. The zero Temp is one in the system's folder. Calls of ReadAt may run at the same time.
type Temp struct {
	Dir string // as of TempFile

	data []byte   // all of it, unless there is a file
	file *os.File // nil: not yet
	size int64
}

// Size is the length in bytes.
func (t *Temp) Size() int64 { return t.size }

// Write appends p.
func (t *Temp) Write(p []byte) (n int, err error) {
	if t.file == nil && len(t.data)+len(p) > tempMin {
		f, err := TempFile(t.Dir)
		if err != nil {
			return 0, err
		}
		if _, err := f.Write(t.data); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		t.file, t.data = f, nil
	}
	if t.file != nil {
		n, err = t.file.Write(p)
	} else {
		t.data, n = append(t.data, p...), len(p)
	}
	t.size += int64(n)
	return n, err
}

// ReadAt implements io.ReaderAt.
func (t *Temp) ReadAt(p []byte, off int64) (int, error) {
	if t.file != nil {
		return t.file.ReadAt(p, off)
	}
	return bytes.NewReader(t.data).ReadAt(p, off)
}

// Close gives the space back.
func (t *Temp) Close() error {
	if t.data = nil; t.file == nil {
		return nil
	}
	return t.file.Close()
}
