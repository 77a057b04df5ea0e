package resolve

import (
	"errors"
	"os"
	"syscall"

	"mercator/pkg/merge"
)

// maxSpill bounds what waits on disk behind a row whose name is slow to come: millions of rows,
// at the full rate what is asked for in half a minute, which is what all attempts for a dead
// name take by default.
const maxSpill = 256 << 20 // bytes

// spill is a temporary file without a name in which blocks wait. It is filled once, and begun
// again when none waits there.
type spill struct {
	size    int64 // bytes at most
	file    *os.File
	end     int64
	waiting int  // blocks
	full    bool // the disk is, until a block has gone out
}

// Close gives back the disk.
func (s *spill) Close() {
	if s.file != nil {
		s.file.Close()
	}
}

// put writes a block's rows to disk, if there is room. Where the disk is full they stay in memory.
func (s *spill) put(w *block) (err error) {
	if s.waiting == 0 {
		s.end = 0
	}
	if s.full || s.end >= s.size {
		return nil
	}
	if s.file == nil {
		s.file, err = merge.TempFile("")
	}
	if err == nil {
		_, err = s.file.WriteAt([]byte(w.rows), s.end)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		s.full = true
		return nil
	}
	if err != nil {
		return err
	}
	w.at, w.length, w.rows = s.end, len(w.rows), ""
	s.end += int64(w.length)
	s.waiting++
	return nil
}

// back brings a block's rows back into memory.
func (s *spill) back(w *block) error {
	s.waiting--
	rows := make([]byte, w.length)
	_, err := s.file.ReadAt(rows, w.at)
	w.rows = string(rows)
	return err
}
