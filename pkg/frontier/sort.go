package frontier

import (
	"encoding/binary"
	"fmt"
	"io"

	"mercator/formats/segment"
	"mercator/pkg/fault"
	"mercator/pkg/merge"
)

// What a sorter holds before it writes to its temporary file, of Memory. At most two of the
// large kind and three of the small one are full at a time.
const (
	largeSort = 8 << 20 // all new URLs of a change
	smallSort = 3 << 20
)

// Memory is what a command takes at the most, in bytes, resident, and LeastMemory the
// least that it can be told to do with. What is not for sorters is for the program itself
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

// coders encode and decode rows of both kinds.
type coders struct {
	entry segment.RowCoder[Entry]
	host  segment.RowCoder[Host]
}

func appendRow[T segment.Row](c *coders, b []byte, row *T) []byte {
	switch r := any(row).(type) {
	case *Entry:
		order, place := r.Key, r.Place
		b = binary.AppendUvarint(b, place)
		r.Key, r.Place = 0, 0 // the key tells it, and this stands before all others
		b = c.entry.Append(b, r)
		r.Key, r.Place = order, place
		return b
	case *Host:
		return c.host.Append(b, r)
	}
	return b
}

// decodeRow decodes what appendRow gave; the row's order is key.
func decodeRow[T segment.Row](c *coders, b []byte, key uint64, row *T) (err error) {
	switch r := any(row).(type) {
	case *Entry:
		place, n := binary.Uvarint(b)
		err = c.entry.Decode(b[n:], r)
		r.Key, r.Place = key, place
	case *Host:
		err = c.host.Decode(b, r)
		r.Key = key
	}
	return err
}

// sorter sorts rows of a segment, or bytes, by a 64-bit key; rows of one key keep
// their order of arrival.
type sorter struct {
	*merge.Sorter
	coders
	buf  []byte
	rows int
}

func newSorter(memory int64) *sorter { return &sorter{Sorter: merge.NewSorter(memory, "")} }

func (s *sorter) add(key uint64, row []byte) error {
	s.rows++
	return s.Add(key, row)
}

// addRow adds a row whose order is to be key.
func addRow[T segment.Row](s *sorter, key uint64, row *T) error {
	s.buf = appendRow(&s.coders, s.buf[:0], row)
	return s.add(key, s.buf)
}

// addPlaced adds what appendRow gave of an Entry, with another Place.
func (s *sorter) addPlaced(key uint64, row []byte, place uint64) error {
	_, n := binary.Uvarint(row)
	s.buf = append(binary.AppendUvarint(s.buf[:0], place), row[n:]...)
	return s.add(key, s.buf)
}

// sorted ends the adding and gives the rows.
func (s *sorter) sorted() (*peeker, error) {
	it, err := s.Sort()
	if err != nil {
		return nil, err
	}
	p := &peeker{it: it}
	return p, p.take()
}

// peeker reads sorted rows with one row of foresight, which stays valid until take.
type peeker struct {
	it   *merge.Iter
	key  uint64
	row  []byte
	done bool
}

// take moves to the next row; done is set after the last.
func (p *peeker) take() error {
	var err error
	p.key, p.row, err = p.it.Next()
	if err == io.EOF {
		p.done, err = true, nil
	}
	return err
}

// eachRow decodes what a sorter holds, in order. The row is fn's until it returns.
func eachRow[T segment.Row](s *sorter, fn func(*T) error) error {
	p, err := s.sorted()
	var row T
	for err == nil && !p.done {
		if err = decodeRow(&s.coders, p.row, p.key, &row); err == nil {
			if err = fn(&row); err == nil {
				err = p.take()
			}
		}
	}
	return err
}

// eachCoded gives fn the URLs that a sorter holds, in order, as they stand there.
func eachCoded(s *sorter, fn func(order, place uint64, row []byte) error) error {
	p, err := s.sorted()
	for err == nil && !p.done {
		place, n := binary.Uvarint(p.row)
		if err = fn(p.key, place, p.row[n:]); err == nil {
			err = p.take()
		}
	}
	return err
}
