package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/zeebo/xxh3"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// OpenFile opens a file of the store for reading. A growing file is found under
// NAME or NAME.open. One that is missing is fault.Corrupt.
func (s *Store) OpenFile(path string) (durable.File, error) {
	if !CheckPath(path) {
		return nil, &fault.Error{Class: fault.Corrupt, File: s.dir, Found: "path " + strconv.Quote(clip(path)), Want: "a path inside the store"}
	}
	// The owner may rename NAME.open to NAME between the first two tries.
	var first error
	for _, name := range []string{path, path + OpenSuffix, path} {
		f, err := s.fs.OpenFile(s.Path(name), os.O_RDONLY, 0)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, &fault.Error{Class: fault.Corrupt, File: s.Path(path), Found: "no file", Want: "the file that the manifest names", Err: first,
		Hint: "run the command again; if it is missing still, " + s.HintMissing()}
}

// OpenSummed opens a file of a manifest to be read from its first byte to its last. Where it ends it refuses one that is
// not as the manifest says: fault.Truncated, or fault.Corrupt. It is not for growing files.
func (s *Store) OpenSummed(e Entry) (io.ReadCloser, error) {
	f, err := s.OpenFile(e.Path)
	if err != nil {
		return nil, err
	}
	return &summed{file: f, path: s.Path(e.Path), want: e, hash: xxh3.New(), hint: s.HintMissing}, nil
}

type summed struct {
	file   durable.File
	path   string
	want   Entry
	hash   *xxh3.Hasher
	length int64
	hint   func() string
}

func (r *summed) Read(b []byte) (int, error) {
	n, err := r.file.ReadAt(b[:min(int64(len(b)), r.want.Length-r.length)], r.length)
	r.length += int64(n)
	_, _ = r.hash.Write(b[:n]) // never fails
	switch {
	case r.length < r.want.Length && err == io.EOF:
		return n, r.refuse(fault.Truncated, fmt.Sprintf("byte %d", r.length), "its end", fmt.Sprintf("%d bytes", r.want.Length))
	case r.length < r.want.Length:
		return n, err
	}
	if more, _ := r.file.ReadAt(make([]byte, 1), r.length); more > 0 {
		return n, r.refuse(fault.Corrupt, fmt.Sprintf("byte %d", r.length), "more bytes", fmt.Sprintf("%d", r.want.Length))
	}
	if have := HexSum(r.hash); have != r.want.Sum {
		return n, r.refuse(fault.Corrupt, "whole file", "checksum "+have, r.want.Sum)
	}
	return n, io.EOF
}

func (r *summed) refuse(class fault.Class, place, found, want string) error {
	return &fault.Error{Class: class, File: r.path, Place: place, Found: found, Want: want + ", as in the manifest", Hint: r.hint()}
}

func (r *summed) Close() error { return r.file.Close() }

// Spent reports whether a file of the generation m is a kept output that is gone, as it may: it
// served until the next round only, and a checkpoint that is gone back to does not bring it back.
func (s *Store) Spent(m *Manifest, e Entry) bool {
	if e.Role != RoleOutput {
		return false
	}
	ok, err := durable.Exists(s.fs, s.Path(e.Path))
	return err == nil && !ok
}

// CheckFile reads a file of a generation whole, and compares it with what the manifest
// says of it: fault.Corrupt if it is another or missing. It is for files that do not grow.
func (s *Store) CheckFile(e Entry) error {
	f, err := s.OpenFile(e.Path)
	if e.Secret && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	hash := xxh3.New()
	n, err := io.Copy(hash, f)
	switch {
	case err != nil:
		return err
	case n != e.Length:
		return &fault.Error{Class: fault.Corrupt, File: s.Path(e.Path), Found: fmt.Sprintf("%d bytes", n), Want: strconv.FormatInt(e.Length, 10)}
	case HexSum(hash) != e.Sum:
		return &fault.Error{Class: fault.Corrupt, File: s.Path(e.Path), Found: "checksum " + HexSum(hash), Want: e.Sum}
	}
	return nil
}

// PresentAll is Present for each file of a generation that is not spent.
func (s *Store) PresentAll(m *Manifest) error {
	for _, e := range m.Files {
		if s.Spent(m, e) {
			continue
		}
		if err := s.Present(e); err != nil {
			return err
		}
	}
	return nil
}

// Present refuses a file of a generation that is not there, cannot be read or is not as long as it should.
func (s *Store) Present(e Entry) error {
	f, err := s.OpenFile(e.Path)
	if e.Secret && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() < e.Length || !e.Growing && st.Size() != e.Length {
		return &fault.Error{Class: fault.Corrupt, File: s.Path(e.Path), Found: fmt.Sprintf("%d bytes", st.Size()), Want: strconv.FormatInt(e.Length, 10)}
	}
	return nil
}
