package fetch

import (
	"bufio"
	"encoding/binary"
	"math"
	"os"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// spool keeps the rows of the batch on disk, chained by host, so that memory
// holds hosts and not URLs. Layout: per row the offset of the host's next row
// (8 bytes, filled in when that arrives), the length of the row (4 bytes), the
// row. The file has no name: nothing stays of it, whatever happens.
//
// One goroutine at a time.
type spool struct {
	f    *os.File
	w    *bufio.Writer
	end  int64 // offset of the next row
	done int64 // bytes that have reached the file
	buf  []byte
	like *record.Schema // of the rows
}

const (
	none       = int64(-1)
	spoolHead  = 12
	spoolWrite = 64 << 10
)

// queue is one host's chain of rows.
type queue struct {
	head, tail int64
	n          int
}

func newSpool(dir string, like *record.Schema) (*spool, error) {
	f, err := merge.TempFile(dir)
	if err != nil {
		return nil, err
	}
	return &spool{f: f, w: bufio.NewWriterSize(f, spoolWrite), like: like}, nil
}

func (s *spool) close() error { return s.f.Close() }

// push appends a row to q.
func (s *spool) push(q *queue, row *record.URL) error {
	at := s.end
	if q.n > 0 {
		if err := s.flushTo(q.tail + 8); err != nil {
			return err
		}
		var next [8]byte
		binary.LittleEndian.PutUint64(next[:], uint64(at))
		if _, err := s.f.WriteAt(next[:], q.tail); err != nil {
			return err
		}
	}
	b := append(s.buf[:0], make([]byte, spoolHead)...)
	b = record.AppendCanonical(b, row)
	binary.LittleEndian.PutUint64(b, uint64(math.MaxUint64)) // none
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)-spoolHead))
	s.buf = b
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	s.end += int64(len(b))
	if q.n == 0 {
		q.head = at
	}
	q.tail = at
	q.n++
	return nil
}

// blob appends bytes that stand outside the chains and returns their offset.
func (s *spool) blob(parts ...[]byte) (int64, error) {
	at := s.end
	for _, b := range parts {
		if _, err := s.w.Write(b); err != nil {
			return 0, err
		}
		s.end += int64(len(b))
	}
	return at, nil
}

func (s *spool) readAt(b []byte, at int64) error {
	if err := s.flushTo(at + int64(len(b))); err != nil {
		return err
	}
	_, err := s.f.ReadAt(b, at)
	return err
}

func (s *spool) flushTo(end int64) error {
	if end <= s.done {
		return nil
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	s.done = s.end
	return nil
}

// peek fills row with the first row of q, which is not empty.
func (s *spool) peek(q *queue, row *record.URL) error { return s.readRow(q.head, row) }

// readRow fills row with the row at an offset.
func (s *spool) readRow(at int64, row *record.URL) error {
	var head [spoolHead]byte
	if err := s.readAt(head[:], at); err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint32(head[8:]))
	s.buf = slices.Grow(s.buf[:0], n)[:n]
	if err := s.readAt(s.buf, at+spoolHead); err != nil {
		return err
	}
	_, err := record.ParseCanonical(s.buf, row, s.like)
	return err
}

// pop takes the first row of q away.
func (s *spool) pop(q *queue) error {
	q.n--
	if q.n == 0 {
		q.head, q.tail = none, none
		return nil
	}
	var next [8]byte
	if err := s.readAt(next[:], q.head); err != nil {
		return err
	}
	q.head = int64(binary.LittleEndian.Uint64(next[:]))
	return nil
}
