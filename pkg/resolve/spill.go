package resolve

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"syscall"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// maxSpill bounds what waits on disk behind a row whose name is slow to come: a million rows
// or so, at the full rate what is asked for in half a minute, which is what all attempts for
// a dead name take by default.
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

// away is where a block's rows are: each its length as uvarint and its canonical encoding.
type away struct {
	at, length int64
	rows       int
}

// Close gives back the disk.
func (s *spill) Close() {
	if s.file != nil {
		s.file.Close()
	}
}

// refused takes note of a full disk: blocks stay in memory then. Any other error is one.
func (s *spill) refused(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		s.full = true
		return nil
	}
	return err
}

// putAway writes a block to disk, if there is room.
func (r *batch[R]) putAway(w *block[R]) (err error) {
	s := &r.spill
	if s.waiting == 0 {
		s.end = 0
	}
	if s.full || s.end >= s.size {
		return nil
	}
	if s.file == nil {
		if s.file, err = merge.TempFile(""); err != nil {
			return s.refused(err)
		}
	}
	on := away{at: s.end, rows: len(w.rows)}
	out := bufio.NewWriterSize(io.NewOffsetWriter(s.file, s.end), runBuffer)
	var row, length []byte
	for i := range w.rows {
		row = record.AppendRow(row[:0], &w.rows[i])
		length = binary.AppendUvarint(length[:0], uint64(len(row)))
		on.length += int64(len(length) + len(row))
		out.Write(length) // an error of which stays, and Flush tells it
		out.Write(row)
	}
	if err := out.Flush(); err != nil {
		return s.refused(err)
	}
	s.end += on.length
	s.waiting++
	*w = block[R]{away: on}
	return nil
}

// fetch brings a block back into memory. Its names have been asked for when it came first.
func (r *batch[R]) fetch(w *block[R]) (err error) {
	if w.rows, err = r.readBack(w); err != nil {
		return err
	}
	for i := range w.rows {
		w.size += r.use.size(&w.rows[i])
	}
	return r.find(w, false)
}

// readBack reads a block's rows.
func (r *batch[R]) readBack(w *block[R]) ([]R, error) {
	r.spill.waiting--
	b := make([]byte, w.away.length)
	if _, err := r.spill.file.ReadAt(b, w.away.at); err != nil {
		return nil, err
	}
	rows := make([]R, w.away.rows)
	for i := range rows {
		n, used := binary.Uvarint(b)
		end := used + int(n)
		if _, err := record.ParseRow(string(b[used:end]), &rows[i], r.like); err != nil {
			return nil, err
		}
		b = b[end:]
	}
	return rows, nil
}
