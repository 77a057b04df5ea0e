package frontier

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// sortMemory is what one sorter holds before it writes to its temporary file;
// sortFan is how many of its sorted pieces are read at once.
const (
	sortMemory = 4 << 20
	sortFan    = 32
)

// key is what a sorter sorts by; rows of equal key keep the order of arrival.
type key struct{ a, b uint64 }

func (k key) compare(o key) int { return cmp.Or(cmp.Compare(k.a, o.a), cmp.Compare(k.b, o.b)) }

// sorter sorts any number of rows in bounded memory. What does not fit goes to
// a temporary file without a name, so that nothing is left whatever happens.
type sorter struct {
	memory int
	arena  []byte
	items  []sortItem
	file   *os.File
	end    int64
	pieces []piece // in order of arrival; later ones are of a lower or equal tier
}

type sortItem struct {
	key
	from, to uint32 // in the arena
}

// piece is a sorted part of the temporary file.
type piece struct {
	from, to int64
	tier     int
}

func newSorter() *sorter { return &sorter{memory: sortMemory} }

// add takes a row; encode appends it to a buffer.
func (s *sorter) add(k key, encode func([]byte) []byte) error {
	from := len(s.arena)
	s.arena = encode(s.arena)
	s.items = append(s.items, sortItem{k, uint32(from), uint32(len(s.arena))})
	if len(s.arena)+len(s.items)*24 >= s.memory {
		return s.spill()
	}
	return nil
}

func (s *sorter) sortItems() {
	slices.SortStableFunc(s.items, func(x, y sortItem) int { return x.key.compare(y.key) })
}

// spill writes what is held as a piece, and merges pieces when they are many.
func (s *sorter) spill() error {
	if s.file == nil {
		f, err := os.CreateTemp("", "mfrontier-sort-*")
		if err != nil {
			return err
		}
		if err := os.Remove(f.Name()); err != nil {
			return errors.Join(err, f.Close())
		}
		s.file = f
	}
	s.sortItems()
	mem := &inMemory{s: s}
	if err := s.write(mem, 0); err != nil {
		return err
	}
	s.arena, s.items = s.arena[:0], s.items[:0]
	for n := len(s.pieces); n >= sortFan && s.pieces[n-sortFan].tier == s.pieces[n-1].tier; n = len(s.pieces) {
		m, err := s.merge(s.pieces[n-sortFan:])
		if err != nil {
			return err
		}
		tier := s.pieces[n-1].tier + 1
		s.pieces = s.pieces[:n-sortFan]
		if err := s.write(m, tier); err != nil {
			return err
		}
	}
	return nil
}

// write appends what rows gives as a piece.
func (s *sorter) write(rows sortedRows, tier int) error {
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, s.end), 64<<10)
	p := piece{from: s.end, tier: tier}
	head := make([]byte, 20)
	for {
		k, row, err := rows.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(head, k.a)
		binary.LittleEndian.PutUint64(head[8:], k.b)
		binary.LittleEndian.PutUint32(head[16:], uint32(len(row)))
		w.Write(head) // errors stick in w
		w.Write(row)
		s.end += int64(len(head) + len(row))
	}
	p.to = s.end
	s.pieces = append(s.pieces, p)
	return w.Flush()
}

// sortedRows gives rows in ascending order of key, io.EOF after the last. The
// row is valid until the next call.
type sortedRows interface {
	next() (key, []byte, error)
}

// sorted ends the adding. The result is read once; then the sorter is closed.
func (s *sorter) sorted() (*peeker, error) {
	s.sortItems()
	if len(s.pieces) == 0 {
		return newPeeker(&inMemory{s: s})
	}
	m, err := s.merge(s.pieces)
	if err != nil {
		return nil, err
	}
	m.add(&inMemory{s: s})
	if m.err != nil {
		return nil, m.err
	}
	return newPeeker(m)
}

// close gives the temporary file back.
func (s *sorter) close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
	s.arena, s.items = nil, nil
}

// inMemory reads the items that are held.
type inMemory struct {
	s *sorter
	i int
}

func (m *inMemory) next() (key, []byte, error) {
	if m.i == len(m.s.items) {
		return key{}, nil, io.EOF
	}
	it := m.s.items[m.i]
	m.i++
	return it.key, m.s.arena[it.from:it.to], nil
}

// pieceReader reads a piece.
type pieceReader struct {
	in  *bufio.Reader
	row []byte
}

func (p *pieceReader) next() (key, []byte, error) {
	var head [20]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		if err != io.EOF {
			err = fmt.Errorf("temporary file: %w", err)
		}
		return key{}, nil, err
	}
	n := int(binary.LittleEndian.Uint32(head[16:]))
	p.row = slices.Grow(p.row[:0], n)[:n]
	if _, err := io.ReadFull(p.in, p.row); err != nil {
		return key{}, nil, fmt.Errorf("temporary file: %v", err)
	}
	return key{binary.LittleEndian.Uint64(head[:]), binary.LittleEndian.Uint64(head[8:])}, p.row, nil
}

// merged reads several sortedRows as one; of equal keys the earlier one's rows come first.
type merged struct {
	heads []sortHead
	stale bool // heads[0] was given out: it must advance before the next row
	n     int
	err   error
}

type sortHead struct {
	key
	age  int
	row  []byte
	rows sortedRows
}

func (s *sorter) merge(pieces []piece) (*merged, error) {
	m := &merged{}
	for _, p := range pieces {
		m.add(&pieceReader{in: bufio.NewReaderSize(io.NewSectionReader(s.file, p.from, p.to-p.from), 32<<10)})
	}
	return m, m.err
}

func (m *merged) add(rows sortedRows) {
	k, row, err := rows.next()
	switch {
	case err == nil:
		heap.Push(m, sortHead{k, m.n, row, rows})
	case err != io.EOF:
		m.err = errors.Join(m.err, err)
	}
	m.n++
}

func (m *merged) next() (key, []byte, error) {
	if m.stale {
		h := &m.heads[0]
		k, row, err := h.rows.next()
		switch {
		case err == io.EOF:
			heap.Pop(m)
		case err != nil:
			return key{}, nil, err
		default:
			h.key, h.row = k, row
			heap.Fix(m, 0)
		}
		m.stale = false
	}
	if len(m.heads) == 0 {
		return key{}, nil, io.EOF
	}
	m.stale = true
	return m.heads[0].key, m.heads[0].row, nil
}

func (m *merged) Len() int      { return len(m.heads) }
func (m *merged) Swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *merged) Push(x any)    { m.heads = append(m.heads, x.(sortHead)) }
func (m *merged) Pop() any {
	x := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return x
}
func (m *merged) Less(i, j int) bool {
	return cmp.Or(m.heads[i].key.compare(m.heads[j].key), cmp.Compare(m.heads[i].age, m.heads[j].age)) < 0
}

// peeker is sortedRows with one row of foresight. Its row stays valid until take.
type peeker struct {
	rows sortedRows
	key  key
	row  []byte
	done bool
}

func newPeeker(rows sortedRows) (*peeker, error) {
	p := &peeker{rows: rows}
	return p, p.take()
}

// take moves to the next row; done is set after the last.
func (p *peeker) take() error {
	var err error
	p.key, p.row, err = p.rows.next()
	if err == io.EOF {
		p.done, err = true, nil
	}
	return err
}
