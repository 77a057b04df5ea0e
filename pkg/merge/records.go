package merge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
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
	column record.Field[T]
	schema *record.Schema
	inputs []*stream[T]
	heap   Heap[*stream[T]] // those that have not ended
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
	at    record.Value // of row, in the column that it is ordered by
	n     uint64
}

// NewRecords merges one input or more by a column of numbers, times or text. names
// are the inputs' names for messages. A row below the one before it in its input is an error.
func NewRecords[T record.Row](by string, inputs []Rows[T], names []string) (*Records[T], error) {
	column, err := ordered[T](by)
	if err != nil {
		return nil, err
	}
	m := &Records[T]{by: by, column: column, schema: inputs[0].Schema(), heap: NewHeap(before[T]), ends: make([]record.Trailer, len(inputs))}
	for i, in := range inputs {
		if more := m.schema.Lacks(in.Schema()); len(more) > 0 {
			return nil, &fault.Error{Class: fault.Usage, File: names[i], Found: fmt.Sprintf("column %q", more[0]), Want: "no columns that are not in " + names[0] + " by the same name and type",
				Hint: "give the file that has all columns first"}
		}
		m.inputs = append(m.inputs, &stream[T]{rows: in, name: names[i], order: i})
	}
	return m, nil
}

// ordered finds a column, which must have an order.
func ordered[T record.Row](name string) (record.Field[T], error) {
	c, err := record.FieldOf[T](name)
	if err == nil && !c.Ordered() {
		err = &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("column %q has no order", name), Want: "a column of numbers, times or text"}
	}
	return c, err
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
	v := m.column.Value(&s.row)
	if s.n > 0 && v.Compare(s.at) < 0 {
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
		if err := m.readFirst(); err != nil {
			return err
		}
	} else if m.heap.Len() > 0 {
		switch err := m.read(*m.heap.First()); {
		case err == io.EOF:
			m.heap.Pop()
		case err != nil:
			return err
		default:
			m.heap.Fix()
		}
	}
	if m.heap.Len() == 0 {
		return io.EOF
	}
	*row = (*m.heap.First()).row
	m.sum.Add(row)
	return nil
}

func (m *Records[T]) readFirst() error {
	for _, s := range m.inputs {
		switch err := m.read(s); {
		case err == nil:
			m.heap.Push(s)
		case err != io.EOF:
			return err
		}
	}
	return nil
}

// before compares by value, then by input.
func before[T record.Row](s, t **stream[T]) bool {
	c := (*s).at.Compare((*t).at)
	return c < 0 || c == 0 && (*s).order < (*t).order
}

// sortedRows gives rows back from a Sorter.
type sortedRows[T record.Row] struct {
	sorter *Sorter
	it     *Iter
	text   bool    // payloads begin with the text that they are sorted by
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
	if s.text {
		_, payload = record.CutText(payload)
	}
	if _, err := record.ParseRow(string(payload), row, s.from.Schema()); err != nil {
		return err
	}
	s.sum.Add(row)
	return nil
}

// sorted sorts what is in s, and gives it back as rows of from.
func sorted[T record.Row](s *Sorter, from Rows[T], text bool) (Rows[T], error) {
	it, err := s.Sort()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &sortedRows[T]{sorter: s, it: it, text: text, from: from}, nil
}

// fill adds all rows of in to s. Each payload is what key appends to b, and the row's byte form behind it.
func fill[T record.Row](s *Sorter, in Rows[T], key func(row *T, n uint64, b []byte) (uint64, []byte)) error {
	var b []byte
	n := uint64(0)
	if err := record.Each(in, func(row *T) error {
		var k uint64
		k, b = key(row, n, b[:0])
		n++
		b = record.AppendRow(b, row)
		return s.Add(k, b)
	}); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// SortRows reads all of in, and returns its rows in ascending order of a column of
// numbers, times or text, equal ones in order of arrival. About mem bytes of memory
// are used, and files in dir ("": the system's folder for temporary files).
func SortRows[T record.Row](in Rows[T], by string, mem int64, dir string) (Rows[T], error) {
	column, err := ordered[T](by)
	if err != nil {
		return nil, err
	}
	s := NewSorter(mem, dir)
	key := func(row *T, _ uint64, b []byte) (uint64, []byte) { return column.Value(row).Num, b }
	if column.IsText() {
		// By the text's first bytes, and rows that have the same ones by all of it.
		s.Ties = compareTexts
		key = func(row *T, _ uint64, b []byte) (uint64, []byte) {
			text := column.Value(row).Text
			var first [8]byte
			copy(first[:], text)
			return binary.BigEndian.Uint64(first[:]), record.AppendText(b, text)
		}
	}
	if err := fill(s, in, key); err != nil {
		return nil, err
	}
	return sorted(s, in, column.IsText())
}

func compareTexts(a, b []byte) int {
	s, _ := record.CutText(a)
	t, _ := record.CutText(b)
	return bytes.Compare(s, t)
}

// JoinSpec says how two inputs are joined.
type JoinSpec struct {
	By      string   // column of both, of numbers, times or text; or LEFT=RIGHT
	Columns []string // to take over from the right; or LEFT=RIGHT
	Memory  int64
	Dir     string // for temporary files; "": the system's
}

// Join returns the rows of left, in order of arrival, with columns taken over
// from the row of right that has the same key: the last such row, if there are several.
// Rows without one stay as they are. Neither input need be sorted.
func Join[L, R record.Row](left Rows[L], right Rows[R], spec JoinSpec) (Rows[L], error) {
	type pair struct {
		to   record.Field[L]
		from record.Field[R]
	}
	columns := func(s string, fits func(p pair) bool) (p pair, err error) {
		to, from := sides(s)
		if p.to, err = record.FieldOf[L](to); err != nil {
			return p, err
		}
		if p.from, err = record.FieldOf[R](from); err == nil && !fits(p) {
			err = &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("columns %s and %s are of different types", to, from), Want: "columns of one type"}
		}
		return p, err
	}
	var taken []pair
	for _, c := range spec.Columns {
		p, err := columns(c, func(p pair) bool { return record.SameType(p.to, p.from) })
		if err != nil {
			return nil, err
		}
		taken = append(taken, p)
	}
	by, err := columns(spec.By, func(p pair) bool { return p.to.IsText() == p.from.IsText() })
	if err != nil {
		return nil, err
	}
	leftBy, rightBy := sides(spec.By)
	if _, err := ordered[L](leftBy); err != nil {
		return nil, err
	}
	if _, err := ordered[R](rightBy); err != nil {
		return nil, err
	}
	// Text is joined by a hash, and compared where hashes are equal. Its seed is
	// random, so that nobody can choose texts of one hash; the result has the
	// order of left, whatever the hashes.
	seed := maphash.MakeSeed()
	hash := func(v record.Value) uint64 {
		if by.to.IsText() {
			return maphash.String(seed, v.Text)
		}
		return v.Num
	}
	mem := spec.Memory / 3
	rs, ls := NewSorter(mem, spec.Dir), NewSorter(mem, spec.Dir)
	defer rs.Close()
	defer ls.Close()
	if err := fill(rs, right, func(row *R, _ uint64, b []byte) (uint64, []byte) { return hash(by.from.Value(row)), b }); err != nil {
		return nil, err
	}
	err = fill(ls, left, func(row *L, n uint64, b []byte) (uint64, []byte) {
		return hash(by.to.Value(row)), binary.LittleEndian.AppendUint64(b, n)
	})
	if err != nil {
		return nil, err
	}
	lit, err := ls.Sort()
	if err != nil {
		return nil, err
	}
	rit, err := rs.Sort()
	if err != nil {
		return nil, err
	}
	out := NewSorter(mem, spec.Dir)
	fail := func(err error) (Rows[L], error) { return nil, errors.Join(err, out.Close()) }
	var l L
	var r R
	at, payload, rerr := rit.Next()
	held := map[record.Value]R{} // of one hash: the last row of each value
	var heldHash uint64
	var b []byte
	for {
		h, lrow, err := lit.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fail(err)
		}
		if h != heldHash {
			clear(held)
			heldHash = h
		}
		for ; rerr == nil && at <= h; at, payload, rerr = rit.Next() {
			if at == h {
				if _, err := record.ParseRow(string(payload), &r, nil); err != nil {
					return fail(err)
				}
				held[by.from.Value(&r)] = r
			}
		}
		if rerr != nil && rerr != io.EOF {
			return fail(rerr)
		}
		if _, err := record.ViewRow(lrow[8:], &l, left.Schema()); err != nil {
			return fail(err)
		}
		if r, ok := held[by.to.Value(&l)]; ok {
			for _, p := range taken {
				p.to.Set(&l, p.from.Value(&r))
			}
		}
		b = record.AppendRow(b[:0], &l)
		if err := out.Add(binary.LittleEndian.Uint64(lrow), b); err != nil {
			return fail(err)
		}
	}
	return sorted(out, left, false)
}

// sides splits LEFT=RIGHT; one name stands for both.
func sides(s string) (left, right string) {
	left, right, ok := strings.Cut(s, "=")
	if !ok {
		right = left
	}
	return left, right
}
