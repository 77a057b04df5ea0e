package cli

import (
	"os"
	"sync"
)

// stdout is standard output. It keeps the first error of a write, so that a command
// which overlooks that does not end as if all had been written.
type stdout struct {
	f *os.File

	mu  sync.Mutex // guards err: a command that does not stop may write when it is asked
	err error
}

// Write writes p, unless a write has failed before.
func (s *stdout) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
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
