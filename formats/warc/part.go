package warc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Part is a WARC file, or the front of one: what a store has committed of a file
// that may have grown since.
type Part struct {
	Path   string
	Length int64 // bytes that count; negative: all
}

// Open opens the file and returns how many bytes of it count.
func (p Part) Open() (f *os.File, length int64, err error) {
	f, err = durable.Open(p.Path)
	if name, open := strings.CutSuffix(p.Path, ".open"); open && errors.Is(err, fs.ErrNotExist) {
		f, err = durable.Open(name) // it was completed since
	}
	if fault.ClassOf(err) != "" {
		return nil, 0, err
	} else if err != nil {
		return nil, 0, &fault.Error{Class: fault.Usage, Err: err}
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	if p.Length < 0 {
		return f, fi.Size(), nil
	}
	if fi.Size() < p.Length {
		f.Close()
		return nil, 0, &fault.Error{Class: fault.Truncated, File: p.Path, Found: fmt.Sprintf("%d bytes", fi.Size()), Want: fmt.Sprintf("at least %d", p.Length)}
	}
	return f, p.Length, nil
}
