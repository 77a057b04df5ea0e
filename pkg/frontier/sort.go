package frontier

import (
	"fmt"
	"io"

	"mercator/pkg/base/fault"
	"mercator/pkg/merge"
)

// What a sorter holds before it writes to its temporary file, of Memory. At most two of the
// large kind and four of the small one are full at a time.
const (
	largeSort = 8 << 20 // all new URLs of a change
	smallSort = 3 << 20
)

// Memory is the resident memory that a command takes at most, in bytes, and LeastMemory the
// lowest limit that a user can set. notSorters bytes are for the program itself
// and a block of every sequence of runs.
const (
	Memory      = 64 << 20
	LeastMemory = 32 << 20
	notSorters  = 24 << 20
)

// SetMemory makes the sorters smaller where bytes is less than Memory: they write to
// temporary files sooner. Less than LeastMemory is fault.Usage.
func (f *Frontier) SetMemory(bytes int64) error {
	if bytes < LeastMemory {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("memory of %d bytes", bytes), Want: fmt.Sprintf("at least %d MiB", LeastMemory>>20)}
	}
	f.layout.sort = min(float64(bytes-notSorters)/(Memory-notSorters), 1)
	return nil
}

// sorter returns a sorter of a size, or of the part of it that there is memory for.
func (l *layout) sorter(size int64) *sorter { return newSorter(int64(l.sort * float64(size))) }

// sorter sorts payloads of rows, or other bytes, by a 64-bit key; payloads of one key keep
// their order of arrival.
type sorter struct {
	*merge.Sorter
	buf  []byte
	rows int
}

func newSorter(memory int64) *sorter { return &sorter{Sorter: merge.NewSorter(memory, "")} }

func (s *sorter) addPayload(key uint64, payload []byte) error {
	s.rows++
	return s.Add(key, payload)
}

// addRow adds a row under a key.
func addRow(s *sorter, key uint64, r Row) error {
	s.buf = r.Append(s.buf[:0])
	return s.addPayload(key, s.buf)
}

// addTaken adds the payload of an Entry, with another VirtualTime.
func (s *sorter) addTaken(key uint64, payload []byte, time uint64) error {
	s.buf = replace(s.buf[:0], payload, time)
	return s.addPayload(key, s.buf)
}

// sorted ends the adding and gives the rows.
func (s *sorter) sorted() (*peeker, error) {
	it, err := s.Sort()
	if err != nil {
		return nil, err
	}
	p := &peeker{it: it}
	return p, p.takeRow()
}

// each gives fn what the sorter holds, in order.
func (s *sorter) each(fn func(key uint64, payload []byte) error) error {
	p, err := s.sorted()
	for err == nil && !p.done {
		if err = fn(p.key, p.row); err == nil {
			err = p.takeRow()
		}
	}
	return err
}

// peeker reads sorted rows with one row of foresight, which stays valid until take.
type peeker struct {
	it   *merge.Iter
	key  uint64
	row  []byte
	done bool
}

// takeRow moves to the next row; done is set after the last.
func (p *peeker) takeRow() error {
	var err error
	p.key, p.row, err = p.it.Next()
	if err == io.EOF {
		p.done, err = true, nil
	}
	return err
}

// eachRow decodes what a sorter holds, in order. The row is fn's until it returns.
func eachRow[T any, P rowOf[T]](s *sorter, fn func(P) error) error {
	row := P(new(T))
	return s.each(func(key uint64, payload []byte) error {
		if err := row.Parse(key, payload); err != nil {
			return err
		}
		return fn(row)
	})
}
