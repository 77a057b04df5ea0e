package fetch

import (
	"encoding/binary"
	"math"
	"os"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
)

// spool keeps the rows of the batch on disk, chained by host, so that memory
// holds hosts and not URLs. Layout: per row the offset of the host's next row
// (8 bytes, filled in when that arrives), the length of the row (4 bytes), the
// row. The file has no name: nothing stays of it, whatever happens.
//
// One goroutine at a time.
type spool struct {
	f    *os.File
	tail []byte // the end of the spool, which has not been written to the file
	done int64  // where that begins
	row  []byte
	like *record.Schema // of the rows
}

const (
	none       = int64(-1)
	spoolHead  = 12
	spoolWrite = 64 << 10
	spoolGuess = 512 // bytes that most rows fit into
)

// queue is one host's chain of rows.
type queue struct {
	head, tail int64
	second     int64 // the row after head, if it is known; none: it is to be looked up
	n          int
}

var noRows = queue{head: none, tail: none, second: none}

func newSpool(dir string, like *record.Schema) (*spool, error) {
	f, err := durable.TempFile(dir)
	if err != nil {
		return nil, err
	}
	return &spool{f: f, like: like}, nil
}

func (s *spool) close() error { return s.f.Close() }

// size is the offset of the next row.
func (s *spool) size() int64 { return s.done + int64(len(s.tail)) }

// push appends a row to q.
func (s *spool) push(q *queue, row *record.URL) error {
	at := s.size()
	if q.n > 0 {
		if err := s.link(q.tail, at); err != nil {
			return err
		}
	}
	b := append(s.row[:0], make([]byte, spoolHead)...)
	b = record.AppendRow(b, row)
	binary.LittleEndian.PutUint64(b, uint64(math.MaxUint64)) // none
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)-spoolHead))
	s.row = b
	if err := s.write(b); err != nil {
		return err
	}
	if q.n == 0 {
		q.head = at
	}
	q.tail = at
	q.n++
	return nil
}

// link notes in the row at an offset where the next one stands.
func (s *spool) link(row, next int64) error {
	if row >= s.done {
		binary.LittleEndian.PutUint64(s.tail[row-s.done:], uint64(next))
		return nil
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(next))
	_, err := s.f.WriteAt(b[:], row)
	return err
}

// blob appends bytes that stand outside the chains and returns their offset.
func (s *spool) blob(parts ...[]byte) (int64, error) {
	at := s.size()
	for _, b := range parts {
		if err := s.write(b); err != nil {
			return 0, err
		}
	}
	return at, nil
}

func (s *spool) write(b []byte) error {
	s.tail = append(s.tail, b...)
	if len(s.tail) < spoolWrite {
		return nil
	}
	return s.flush()
}

func (s *spool) flush() error {
	if _, err := s.f.WriteAt(s.tail, s.done); err != nil {
		return err
	}
	s.done += int64(len(s.tail))
	s.tail = s.tail[:0]
	return nil
}

func (s *spool) readAt(b []byte, at int64) error {
	if at >= s.done && at+int64(len(b)) <= s.size() {
		copy(b, s.tail[at-s.done:])
		return nil
	}
	if at+int64(len(b)) > s.done {
		if err := s.flush(); err != nil {
			return err
		}
	}
	_, err := s.f.ReadAt(b, at)
	return err
}

// peek fills row with the first row of q, which is not empty.
func (s *spool) peek(q *queue, row *record.URL) error {
	n := int(min(spoolGuess, s.size()-q.head))
	s.row = slices.Grow(s.row[:0], n)[:n]
	if err := s.readAt(s.row, q.head); err != nil {
		return err
	}
	q.second = int64(binary.LittleEndian.Uint64(s.row))
	if whole := spoolHead + int(binary.LittleEndian.Uint32(s.row[8:])); whole <= n {
		s.row = s.row[:whole]
	} else {
		s.row = slices.Grow(s.row, whole-n)[:whole]
		if err := s.readAt(s.row[n:], q.head+int64(n)); err != nil {
			return err
		}
	}
	_, err := record.ParseRow(string(s.row[spoolHead:]), row, s.like)
	return err
}

// pop takes the first row of q away.
func (s *spool) pop(q *queue) error {
	q.n--
	if q.n == 0 {
		*q = noRows
		return nil
	}
	if q.second == none { // it came after the first had been looked at
		var next [8]byte
		if err := s.readAt(next[:], q.head); err != nil {
			return err
		}
		q.second = int64(binary.LittleEndian.Uint64(next[:]))
	}
	q.head, q.second = q.second, none
	return nil
}
