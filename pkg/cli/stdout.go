package cli

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// stdout is standard output. It keeps the first error of a write, so that a command
// which overlooks that does not end as if all had been written.
type stdout struct {
	f *os.File

	mu    sync.Mutex // guards what follows: a command that does not stop may write when it is asked
	err   error
	wrote bool
}

// Write writes p, unless a write has failed before.
func (s *stdout) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	s.wrote = s.wrote || len(p) > 0
	n, err := s.f.Write(p)
	s.err = err
	return n, err
}

// failed is the first error of a write.
func (s *stdout) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// lost says whether what was written went nowhere because standard output may have been
// closed when the process began. Go then has put /dev/null in its place, open for reading
// too. Python and Node do the same for whoever wants no output, so it is no error.
func (s *stdout) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wrote {
		return false
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	is, err := s.f.Stat()
	if err != nil || !os.SameFile(null, is) {
		return false
	}
	mode, err := unix.FcntlInt(s.f.Fd(), unix.F_GETFL, 0)
	return err == nil && mode&unix.O_ACCMODE == unix.O_RDWR
}

// fileOf is the file behind what a command reads or writes, if there is one.
func fileOf(f any) (*os.File, bool) {
	switch f := f.(type) {
	case *os.File:
		return f, true
	case *stdout:
		return f.f, true
	case peeked:
		return fileOf(f.from)
	}
	return nil, false
}
