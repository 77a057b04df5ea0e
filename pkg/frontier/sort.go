package frontier

import (
	"io"

	"mercator/formats/segment"
	"mercator/pkg/merge"
)

// sortMemory is what one sorter holds before it writes to its temporary file.
// At most six are open at a time.
const sortMemory = 3 << 20

// sorter sorts rows of a segment, or bytes, by a 64-bit key; rows of one key keep
// their order of arrival.
type sorter struct {
	*merge.Sorter
	buf  []byte
	rows int
}

func newSorter() *sorter { return &sorter{Sorter: merge.NewSorter(sortMemory, "")} }

func (s *sorter) add(key uint64, row []byte) error {
	s.rows++
	return s.Add(key, row)
}

func addRow[T segment.Row](s *sorter, key uint64, row *T) error {
	s.buf = segment.AppendRow(s.buf[:0], row)
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

// eachRow decodes what a sorter holds, in order.
func eachRow[T segment.Row](s *sorter, fn func(*T) error) error {
	p, err := s.sorted()
	for err == nil && !p.done {
		var row T
		if err = segment.DecodeRow(p.row, &row); err == nil {
			if err = fn(&row); err == nil {
				err = p.take()
			}
		}
	}
	return err
}
