package merge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/formats/run"
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
	field any // of row, the column that it is ordered by
	at    value
	n     uint64
}

// NewRecords merges one input or more, whose names stand in messages, by a column
// of numbers, times or text. A row below the one before it in its input is an error.
func NewRecords[T record.Row](by string, inputs []Rows[T], names []string) (*Records[T], error) {
	m := &Records[T]{by: by, schema: inputs[0].Schema(), heap: NewHeap(before[T]), ends: make([]record.Trailer, len(inputs))}
	for i, in := range inputs {
		if more := m.schema.Lacks(in.Schema()); len(more) > 0 {
			return nil, &fault.Error{Class: fault.Usage, File: names[i], Found: fmt.Sprintf("column %q", more[0]), Want: "no columns that are not in " + names[0] + " by the same name and type",
				Hint: "give the file that has all columns first"}
		}
		s := &stream[T]{rows: in, name: names[i], order: i}
		var err error
		if s.field, err = column(&s.row, by); err != nil {
			return nil, err
		}
		if _, ok := valueOf(s.field); !ok {
			return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("column %q has no order", by), Want: "a column of numbers, times or text"}
		}
		m.inputs = append(m.inputs, s)
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

func (m *Records[T]) begin() error {
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
	c := (*s).at.compare((*t).at)
	return c < 0 || c == 0 && (*s).order < (*t).order
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
	if _, err := record.ParseRow(string(payload[8:]), row, s.from.Schema()); err != nil {
		return err
	}
	s.sum.Add(row)
	return nil
}

// keyColumn returns the field of row that a column stands for, which must have an order.
func keyColumn[T record.Row](row *T, name string) (any, error) {
	p, err := column(row, name)
	if err != nil {
		return nil, err
	}
	if _, ok := valueOf(p); !ok {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("column %q has no order", name), Want: "a column of numbers, times or text"}
	}
	return p, nil
}

// sortInto reads all of in into a Sorter, by what key makes of the column that p is
// of row. Each payload begins with the row's number in 8 bytes.
func sortInto[T record.Row](in Rows[T], row *T, p any, key func(value) uint64, mem int64, dir string) (*Sorter, error) {
	s := NewSorter(mem, dir)
	var b []byte
	for n := uint64(0); ; n++ {
		err := in.Read(row)
		if err == io.EOF {
			return s, nil
		}
		if err == nil {
			v, _ := valueOf(p) // keyColumn knows that it has an order
			b = record.AppendRow(binary.LittleEndian.AppendUint64(b[:0], n), row)
			err = s.Add(key(v), b)
		}
		if err != nil {
			s.Close()
			return nil, err
		}
	}
}

// SortRows reads all of in, and returns its rows in ascending order of a column of
// numbers, times or text, equal ones in order of arrival. About mem bytes of memory
// are used, and files in dir ("": the system's folder for temporary files).
func SortRows[T record.Row](in Rows[T], by string, mem int64, dir string) (Rows[T], error) {
	row := new(T)
	p, err := keyColumn(row, by)
	if err != nil {
		return nil, err
	}
	if !isNumber(p) {
		return sortText(in, row, p.(*string), by, mem, dir)
	}
	s, err := sortInto(in, row, p, func(v value) uint64 { return v.n }, mem, dir)
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

// textSorter sorts rows by a column of text: runs that fit memory go to a file, and
// are merged as record streams are.
type textSorter[T record.Row] struct {
	from  Rows[T]
	by    string
	mem   int64
	spill *spill
	items []textItem
	arena []byte
}

// textItem is a row in memory: its text, and its canonical encoding in the arena.
type textItem struct {
	text    string
	off, to int
}

// textItemBytes is what an item takes beside its text and its arena.
const textItemBytes = 64

func sortText[T record.Row](in Rows[T], row *T, text *string, by string, mem int64, dir string) (Rows[T], error) {
	mem = max(mem, minMemory)
	s := &textSorter[T]{from: in, by: by, mem: mem, spill: &spill{dir: dir}}
	fail := func(err error) (Rows[T], error) { return nil, errors.Join(err, s.spill.close()) }
	var used int64
	for {
		err := in.Read(row)
		if err == io.EOF {
			break
		}
		if err != nil {
			return fail(err)
		}
		off := len(s.arena)
		s.arena = record.AppendRow(s.arena, row)
		s.items = append(s.items, textItem{*text, off, len(s.arena)})
		if used += int64(len(*text)+len(s.arena)-off) + textItemBytes; used > mem/2 {
			if err := s.flush(); err != nil {
				return fail(err)
			}
			used = 0
		}
	}
	if err := s.flush(); err != nil {
		return fail(err)
	}
	s.items, s.arena = nil, nil
	for fan := int(max(2, mem/2/runBlock)); len(s.spill.runs) > fan; {
		if err := s.pass(fan); err != nil {
			return fail(err)
		}
	}
	merged, err := s.merge(s.spill, s.spill.runs)
	if err != nil {
		return fail(err)
	}
	return &sortedText[T]{Records: merged, sorter: s}, nil
}

// flush writes what is in memory as a run.
func (s *textSorter[T]) flush() error {
	if len(s.items) == 0 {
		return nil
	}
	slices.SortStableFunc(s.items, func(a, b textItem) int { return strings.Compare(a.text, b.text) })
	left := s.items
	err := s.spill.write(func() (uint64, []byte, error) {
		if len(left) == 0 {
			return 0, nil, io.EOF
		}
		i := left[0]
		left = left[1:]
		return 0, s.arena[i.off:i.to], nil
	})
	s.items, s.arena = s.items[:0], s.arena[:0]
	return err
}

// merge opens runs of p, which arrived in this order.
func (s *textSorter[T]) merge(p *spill, runs []section) (*Records[T], error) {
	rows := []Rows[T]{&textRun[T]{schema: s.from.Schema()}} // that no run be no case of its own
	names := []string{"temporary file"}
	for _, r := range runs {
		in, err := p.open(r)
		if err != nil {
			return nil, err
		}
		rows = append(rows, &textRun[T]{in, s.from.Schema()})
		names = append(names, names[0])
	}
	return NewRecords(s.by, rows, names)
}

// pass merges neighbouring runs, fan at a time, into a new file.
func (s *textSorter[T]) pass(fan int) error {
	old, next := s.spill, &spill{dir: s.spill.dir}
	s.spill = next
	var row T
	var b []byte
	for runs := old.runs; len(runs) > 0; {
		n := min(fan, len(runs))
		in, err := s.merge(old, runs[:n])
		if err == nil {
			err = next.write(func() (uint64, []byte, error) {
				if err := in.Read(&row); err != nil {
					return 0, nil, err
				}
				b = record.AppendRow(b[:0], &row)
				return 0, b, nil
			})
		}
		if err != nil {
			return errors.Join(err, old.close())
		}
		runs = runs[n:]
	}
	return old.close()
}

// textRun is a run as rows; without a reader it is empty.
type textRun[T record.Row] struct {
	in     *run.Scanner
	schema *record.Schema
}

func (r *textRun[T]) Read(row *T) error {
	if r.in == nil {
		return io.EOF
	}
	_, payload, err := r.in.Next()
	if err != nil {
		return err
	}
	_, err = record.ParseRow(string(payload), row, r.schema)
	return err
}

func (r *textRun[T]) Schema() *record.Schema  { return r.schema }
func (r *textRun[T]) Trailer() record.Trailer { return record.Trailer{} }

// sortedText gives rows back from a textSorter.
type sortedText[T record.Row] struct {
	*Records[T]
	sorter *textSorter[T]
}

func (s *sortedText[T]) Trailer() record.Trailer {
	t := s.sorter.from.Trailer()
	t.Rows, t.Hash = s.sum.Sum()
	return t
}

func (s *sortedText[T]) Read(row *T) error {
	err := s.Records.Read(row)
	if err == io.EOF {
		if cerr := s.sorter.spill.close(); cerr != nil {
			return cerr
		}
	}
	return err
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
	lkey, err := keyColumn(&l, leftBy)
	if err != nil {
		return nil, err
	}
	rkey, err := keyColumn(&r, rightBy)
	if err != nil {
		return nil, err
	}
	if isNumber(lkey) != isNumber(rkey) {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("columns %s and %s are of different types", leftBy, rightBy), Want: "columns of one type"}
	}
	// Text is joined by a hash, and compared where hashes are equal. Its seed is
	// random, so that nobody can choose texts of one hash; the result has the
	// order of left, whatever the hashes.
	seed := maphash.MakeSeed()
	hash := func(v value) uint64 {
		if isNumber(lkey) {
			return v.n
		}
		return maphash.String(seed, v.s)
	}
	mem := spec.Memory / 3
	rs, err := sortInto(right, &r, rkey, hash, mem, spec.Dir)
	if err != nil {
		return nil, err
	}
	defer rs.Close()
	ls, err := sortInto(left, &l, lkey, hash, mem, spec.Dir)
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
	at, rrow, rerr := rit.Next()
	held := map[value][]byte{} // of one hash: the last row of each value
	var heldHash uint64
	var b []byte
	for {
		h, payload, err := lit.Next()
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
		for ; rerr == nil && at <= h; at, rrow, rerr = rit.Next() {
			if at == h {
				if _, err := record.ParseRow(string(rrow[8:]), &r, nil); err != nil {
					return fail(err)
				}
				v, _ := valueOf(rkey)
				held[v] = append(held[v][:0], rrow[8:]...)
			}
		}
		if rerr != nil && rerr != io.EOF {
			return fail(rerr)
		}
		if _, err := record.ParseRow(string(payload[8:]), &l, left.Schema()); err != nil {
			return fail(err)
		}
		v, _ := valueOf(lkey)
		if row, ok := held[v]; ok {
			if _, err := record.ParseRow(string(row), &r, nil); err != nil {
				return fail(err)
			}
			for _, p := range pairs {
				assign(p.to, p.from)
			}
		}
		b = record.AppendRow(append(b[:0], payload[:8]...), &l)
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
