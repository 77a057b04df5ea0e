package merge

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/fault"
)

// Rows is an input of rows: *record.Reader is one.
type Rows[T record.Row] interface {
	Read(row *T) error // io.EOF only at a verified end
	Schema() *record.Schema
	Trailer() record.Trailer // after io.EOF
}

// Records merges inputs, each in ascending order of one column, into one such
// input. Rows of equal values keep the order of the inputs. It is Rows itself.
type Records[T record.Row] struct {
	by     string
	schema *record.Schema
	heap   streams[T]
	begun  bool
	sum    record.RowHasher[T]
	ends   []record.Trailer // of the inputs, as given
}

// stream is one input and its next row.
type stream[T record.Row] struct {
	rows  Rows[T]
	name  string
	order int
	row   T
	field any // of row, the column that it is ordered by
	at    value
	n     uint64
}

// NewRecords merges one input or more, whose names stand in messages, by a column
// of numbers, times or text. A row below the one before it in its input is an error.
func NewRecords[T record.Row](by string, inputs []Rows[T], names []string) (*Records[T], error) {
	m := &Records[T]{by: by, schema: inputs[0].Schema(), ends: make([]record.Trailer, len(inputs))}
	for i, in := range inputs {
		s := &stream[T]{rows: in, name: names[i], order: i}
		var err error
		if s.field, err = column(&s.row, by); err != nil {
			return nil, err
		}
		if _, ok := valueOf(s.field); !ok {
			return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("column %q has no order", by), Want: "a column of numbers, times or text"}
		}
		m.heap = append(m.heap, s)
	}
	return m, nil
}

// read reads the next row of s; io.EOF after the last.
func (m *Records[T]) read(s *stream[T]) error {
	err := s.rows.Read(&s.row)
	if err == io.EOF {
		m.ends[s.order] = s.rows.Trailer()
	}
	if err != nil {
		return err
	}
	v, _ := valueOf(s.field) // NewRecords knows that it has an order
	if s.n > 0 && v.compare(s.at) < 0 {
		return &fault.Error{Class: fault.Usage, File: s.name, Place: fmt.Sprintf("row %d", s.n), Found: m.by + " descends",
			Want: "rows in its order", Hint: "merge it with --sort"}
	}
	s.at = v
	s.n++
	return nil
}

// Schema is the first input's.
func (m *Records[T]) Schema() *record.Schema { return m.schema }

// Trailer sums up the inputs' trailers, in their order; its hash is of the merged rows.
func (m *Records[T]) Trailer() record.Trailer {
	t := m.ends[0]
	for _, e := range m.ends[1:] {
		t.Ledger = t.Ledger.Merge(e.Ledger)
		t.Verified = t.Verified && e.Verified
		if t.Txn != e.Txn {
			t.Txn = ""
		}
		t.Epoch = record.JoinEpochs(t.Epoch, e.Epoch)
	}
	t.Rows, t.Hash = m.sum.Sum()
	return t
}

// Read gives the next row; io.EOF when all inputs have ended whole.
func (m *Records[T]) Read(row *T) error {
	if !m.begun {
		m.begun = true
		if err := m.begin(); err != nil {
			return err
		}
	} else if len(m.heap) > 0 {
		switch err := m.read(m.heap[0]); {
		case err == io.EOF:
			heap.Pop(&m.heap)
		case err != nil:
			return err
		default:
			heap.Fix(&m.heap, 0)
		}
	}
	if len(m.heap) == 0 {
		return io.EOF
	}
	*row = m.heap[0].row
	m.sum.Add(row)
	return nil
}

func (m *Records[T]) begin() error {
	all := m.heap
	m.heap = nil
	for _, s := range all {
		switch err := m.read(s); {
		case err == nil:
			m.heap = append(m.heap, s)
		case err != io.EOF:
			return err
		}
	}
	heap.Init(&m.heap)
	return nil
}

type streams[T record.Row] []*stream[T]

func (h streams[T]) Len() int { return len(h) }
func (h streams[T]) Less(i, j int) bool {
	c := h[i].at.compare(h[j].at)
	return c < 0 || c == 0 && h[i].order < h[j].order
}
func (h streams[T]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *streams[T]) Push(x any)   { *h = append(*h, x.(*stream[T])) }
func (h *streams[T]) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// sortedRows gives rows back from a Sorter.
type sortedRows[T record.Row] struct {
	sorter *Sorter
	it     *Iter
	from   Rows[T] // read to its end: for schema and trailer
	sum    record.RowHasher[T]
}

func (s *sortedRows[T]) Schema() *record.Schema { return s.from.Schema() }

func (s *sortedRows[T]) Trailer() record.Trailer {
	t := s.from.Trailer()
	t.Rows, t.Hash = s.sum.Sum()
	return t
}

func (s *sortedRows[T]) Read(row *T) error {
	_, payload, err := s.it.Next()
	if err == io.EOF {
		if cerr := s.sorter.Close(); cerr != nil {
			return cerr
		}
	}
	if err != nil {
		return err
	}
	if _, err := record.ParseCanonical(payload[8:], row, s.from.Schema()); err != nil {
		return err
	}
	s.sum.Add(row)
	return nil
}

// numberColumn returns the field of row that holds a number or a time.
func numberColumn[T record.Row](row *T, name string) (any, error) {
	p, err := column(row, name)
	if err != nil {
		return nil, err
	}
	if _, ok := valueOf(p); !ok || !isNumber(p) {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("column %q", name), Want: "a column of integers or times, such as url_key"}
	}
	return p, nil
}

// sortInto reads all of in into a Sorter, by a column of integers or times. Each payload
// begins with the row's number in 8 bytes.
func sortInto[T record.Row](in Rows[T], by string, mem int64, dir string) (*Sorter, error) {
	var row T
	p, err := numberColumn(&row, by)
	if err != nil {
		return nil, err
	}
	s := NewSorter(mem, dir)
	var b []byte
	for n := uint64(0); ; n++ {
		err := in.Read(&row)
		if err == io.EOF {
			return s, nil
		}
		if err == nil {
			v, _ := valueOf(p) // numberColumn knows that it has an order
			b = record.AppendCanonical(binary.LittleEndian.AppendUint64(b[:0], n), &row)
			err = s.Add(v.n, b)
		}
		if err != nil {
			s.Close()
			return nil, err
		}
	}
}

// SortRows reads all of in, and returns its rows in ascending order of a column of
// integers or times, equal ones in order of arrival. About mem bytes of memory are
// used, and files in dir ("": the system's folder for temporary files). Bodies are
// not kept.
func SortRows[T record.Row](in Rows[T], by string, mem int64, dir string) (Rows[T], error) {
	s, err := sortInto(in, by, mem, dir)
	if err != nil {
		return nil, err
	}
	it, err := s.Sort()
	if err != nil {
		s.Close()
		return nil, err
	}
	return &sortedRows[T]{sorter: s, it: it, from: in}, nil
}

// JoinSpec says how two inputs are joined.
type JoinSpec struct {
	By      string   // column of both, of integers or times; or LEFT=RIGHT
	Columns []string // to take over from the right; or LEFT=RIGHT
	Memory  int64
	Dir     string // for temporary files; "": the system's
}

// Join returns the rows of left, in order of arrival, with columns taken over
// from the row of right that has the same key: the last such row, if there are several.
// Rows without one stay as they are. Neither input need be sorted.
func Join[L, R record.Row](left Rows[L], right Rows[R], spec JoinSpec) (Rows[L], error) {
	var l L
	var r R
	type pair struct{ to, from any }
	var pairs []pair
	for _, c := range spec.Columns {
		to, from := sides(c)
		lp, err := column(&l, to)
		if err != nil {
			return nil, err
		}
		rp, err := column(&r, from)
		if err != nil {
			return nil, err
		}
		if !assign(lp, rp) {
			return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("columns %s and %s are of different types", to, from), Want: "columns of one type"}
		}
		pairs = append(pairs, pair{lp, rp})
	}
	leftBy, rightBy := sides(spec.By)
	mem := spec.Memory / 3
	rs, err := sortInto(right, rightBy, mem, spec.Dir)
	if err != nil {
		return nil, err
	}
	defer rs.Close()
	ls, err := sortInto(left, leftBy, mem, spec.Dir)
	if err != nil {
		return nil, err
	}
	defer ls.Close()
	lit, err := ls.Sort()
	if err != nil {
		return nil, err
	}
	rit, err := rs.Sort()
	if err != nil {
		return nil, err
	}
	out := NewSorter(mem, spec.Dir)
	fail := func(err error) (Rows[L], error) {
		out.Close()
		return nil, err
	}
	rkey, rrow, rerr := rit.Next()
	var have bool // r holds the row of key held
	var held uint64
	var b []byte
	for {
		key, payload, err := lit.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fail(err)
		}
		for ; rerr == nil && rkey <= key; rkey, rrow, rerr = rit.Next() {
			if rkey == key { // of equal ones the last stays
				if _, err := record.ParseCanonical(rrow[8:], &r, nil); err != nil {
					return fail(err)
				}
				have, held = true, key
			}
		}
		if rerr != nil && rerr != io.EOF {
			return fail(rerr)
		}
		if _, err := record.ParseCanonical(payload[8:], &l, left.Schema()); err != nil {
			return fail(err)
		}
		if have && held == key {
			for _, p := range pairs {
				assign(p.to, p.from)
			}
		}
		b = record.AppendCanonical(append(b[:0], payload[:8]...), &l)
		if err := out.Add(binary.LittleEndian.Uint64(payload), b); err != nil {
			return fail(err)
		}
	}
	it, err := out.Sort()
	if err != nil {
		return fail(err)
	}
	return &sortedRows[L]{sorter: out, it: it, from: left}, nil
}

// sides splits LEFT=RIGHT; one name stands for both.
func sides(s string) (left, right string) {
	left, right, ok := strings.Cut(s, "=")
	if !ok {
		right = left
	}
	return left, right
}
