package record

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Extra holds, for one row, the values of columns that this version does not
// know, so that a stage passes them through. Copy it from the row that was read
// to the row that is written. The zero Extra has none.
type Extra struct {
	batch *extraBatch
	row   int
}

// extraBatch is the unknown columns of one batch; columns[i] belongs to
// schema.extra[i].
type extraBatch struct {
	schema  *Schema
	columns []inColumn
}

// Column is a further column of rows, which the format does not name: numbers, times, or text.
type Column struct {
	Name string
	Time bool
	Text bool
}

// NewSchema is the schema of rows of a kind that have further columns. They travel as
// unknown columns do: each program that does not use them passes them through.
func NewSchema(k Kind, columns ...Column) *Schema {
	s := &Schema{Kind: k}
	for _, c := range columns {
		further := column{name: c.Name, typ: typeUint64, nullable: true}
		switch {
		case c.Time:
			further = column{name: c.Name, typ: typeTimeUS, zone: "UTC", nullable: true}
		case c.Text:
			further = column{name: c.Name, typ: typeUTF8, nullable: true}
		}
		s.extra = append(s.extra, further)
	}
	slices.SortFunc(s.extra, func(a, b column) int { return cmp.Compare(a.name, b.name) })
	return s
}

// Extra makes the values of a row for a schema of NewSchema. A Time is given as its number;
// one of 0 is null.
func (s *Schema) Extra(value func(name string) uint64) Extra {
	b := &extraBatch{schema: s, columns: make([]inColumn, len(s.extra))}
	data := make([]byte, 0, 8*len(s.extra))
	for i, c := range s.extra {
		n := value(c.name)
		data = binary.LittleEndian.AppendUint64(data, n)
		b.columns[i] = inColumn{present: n != 0 || !c.typ.timestamp(), data: data[8*i:]}
	}
	return Extra{batch: b}
}

// Texts makes the values of a row for a schema of NewSchema that has text alone; "" is null.
func (s *Schema) Texts(value func(name string) string) Extra {
	b := &extraBatch{schema: s, columns: make([]inColumn, len(s.extra))}
	for i, c := range s.extra {
		text := value(c.name)
		if b.columns[i] = one(typeUTF8, []byte(text)); text == "" {
			b.columns[i].present = false
		}
	}
	return Extra{batch: b}
}

// WithText is s with one more further column of text. One of that name and of another type gives way to it.
func (s *Schema) WithText(name string) *Schema {
	with := *s
	with.extra = slices.DeleteFunc(slices.Clone(s.extra), func(c column) bool { return c.name == name })
	with.extra = append(with.extra, column{name: name, typ: typeUTF8, nullable: true})
	slices.SortFunc(with.extra, func(a, b column) int { return cmp.Compare(a.name, b.name) })
	return &with
}

// AddText makes the values of a row for a schema of WithText: the values of e, and text in the column name; "" is null.
func (s *Schema) AddText(e Extra, name, text string) Extra {
	b := &extraBatch{schema: s, columns: make([]inColumn, len(s.extra))}
	for i, c := range s.extra {
		if c.name == name {
			if text != "" {
				b.columns[i] = one(typeUTF8, []byte(text))
			}
			continue
		}
		if e.batch == nil {
			continue
		}
		from := e.batch.schema.findExtra(c.name)
		if from < 0 || e.batch.schema.extra[from].typ != c.typ {
			continue
		}
		switch in := &e.batch.columns[from]; {
		case in.null(e.row):
		case c.typ.variable():
			b.columns[i] = one(c.typ, in.binary(e.row))
		case c.typ == typeBool && in.boolean(e.row):
			b.columns[i] = one(c.typ, []byte{1})
		case c.typ == typeBool:
			b.columns[i] = one(c.typ, []byte{0})
		default:
			w := c.typ.width()
			b.columns[i] = one(c.typ, in.data[e.row*w:(e.row+1)*w])
		}
	}
	return Extra{batch: b}
}

// one is a column of one value.
func one(t typeID, value []byte) inColumn {
	c := inColumn{present: true, data: value}
	if t.variable() {
		c.offsets = binary.LittleEndian.AppendUint32(make([]byte, 4, 8), uint32(len(value)))
	}
	if t == typeUTF8 {
		c.chars = stringOf(value)
	}
	return c
}

// Text is the value of a further column of text; "" if it is null, not there, or of another type.
func (e Extra) Text(name string) string {
	if e.batch == nil {
		return ""
	}
	i := e.batch.schema.findExtra(name)
	if i < 0 || e.batch.schema.extra[i].typ != typeUTF8 {
		return ""
	}
	return e.batch.columns[i].text(e.row)
}

// Number is the value of a further column of u64 or time[us]; ok is false if it is null,
// not there, or of another type.
func (e Extra) Number(name string) (n uint64, ok bool) {
	if e.batch == nil {
		return 0, false
	}
	i := e.batch.schema.findExtra(name)
	if i < 0 || e.batch.schema.extra[i].typ != typeUint64 && e.batch.schema.extra[i].typ != typeTimeUS || e.batch.columns[i].null(e.row) {
		return 0, false
	}
	return e.batch.columns[i].u64(e.row), true
}

// append appends each unknown value that is not null, in order of name, to the byte form of a row.
func (e Extra) append(b []byte) []byte {
	if e.batch != nil {
		for i := range e.batch.schema.extra {
			b = appendExtra(b, &e.batch.schema.extra[i], &e.batch.columns[i], e.row)
		}
	}
	return b
}

// appendExtra appends name, type and value of an unknown column.
func appendExtra(b []byte, c *column, in *inColumn, row int) []byte {
	if in.null(row) {
		return b
	}
	b = append(AppendText(b, c.name), byte(c.typ))
	switch {
	case c.typ.variable():
		return AppendText(b, stringOf(in.binary(row)))
	case c.typ == typeBool:
		if in.boolean(row) {
			return append(b, 1)
		}
		return append(b, 0)
	}
	w := c.typ.width()
	return append(b, in.data[row*w:(row+1)*w]...)
}

// extraWriter copies the unknown columns of rows to an output.
type extraWriter struct {
	out   []outColumn
	batch *extraBatch // batch that from maps columns of
	from  []int       // for each column of out its place in batch, or -1
}

// write appends the row's values to the output's columns, and those that are not null to the byte form of the row;
// it returns the form, and how many bytes the columns take.
func (x *extraWriter) write(b []byte, e Extra, outRow int) (form []byte, bytes int) {
	if e.batch != x.batch || len(x.from) < len(x.out) {
		x.batch, x.from = e.batch, x.from[:0]
		for i := range x.out {
			from := -1
			if e.batch != nil {
				from = e.batch.schema.findExtra(x.out[i].name)
				if from >= 0 && e.batch.schema.extra[from].typ != x.out[i].typ {
					from = -1
				}
			}
			x.from = append(x.from, from)
		}
	}
	for i := range x.out {
		o := &x.out[i]
		var in *inColumn
		if x.from[i] >= 0 {
			in = &e.batch.columns[x.from[i]]
		}
		bytes += o.appendExtra(in, e.row, outRow)
		if in != nil {
			b = appendExtra(b, &o.column, in, e.row)
		}
	}
	return b, bytes
}

var zeros [8]byte

// appendExtra appends one value of an unknown column; in may be nil (null).
func (c *outColumn) appendExtra(in *inColumn, inRow, outRow int) (bytes int) {
	null := in == nil || in.null(inRow)
	c.appendValid(outRow, !null)
	switch {
	case c.typ.variable():
		var b []byte
		if !null {
			b = in.binary(inRow)
		}
		c.appendBinary(b)
		return 4 + len(b)
	case c.typ == typeBool:
		c.appendBool(outRow, !null && in.boolean(inRow))
		return 1
	}
	w := c.typ.width()
	value := zeros[:w]
	if !null {
		value = in.data[inRow*w : (inRow+1)*w]
	}
	c.data = append(c.data, value...)
	return w
}
