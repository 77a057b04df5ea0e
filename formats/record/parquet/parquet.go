// Package parquet writes rows of a record stream as a Parquet file, for DuckDB, pandas, Spark and the like.
//
// Columns have the names and types of the record stream (formats/record), and there is one more, "round": the
// transaction in which the row was made. What is text or a number there is never null; a time that is not set is.
// A Table puts columns of other names and types before these, or instead of some. A reader sees
//
//	url_key, content_fp, other 64-bit hashes   UINT_64            UBIGINT in DuckDB
//	times                                      TIMESTAMP, µs, UTC TIMESTAMP WITH TIME ZONE
//	text                                       STRING             VARCHAR
//	numbers, flags                             INT, FLOAT, BOOLEAN
//
// # Invariants
//
//   - Memory is one row group of at most about 4 MiB of rows, and what encoding it takes. Only the file's own
//     list of row groups grows with it.
//   - A file has no footer until its Writer is closed: every reader refuses it till then.
//
// A Writer serves one goroutine. Files are not read back here.
package parquet

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// A row group ends with groupRows rows, or when groupBytes of them are encoded as Arrow.
const (
	groupRows  = 64 << 10
	groupBytes = 4 << 20
)

// pageBytes is about the size of a page before it is compressed.
const pageBytes = 256 << 10

// roundColumn is the column that a record stream does not have.
const roundColumn = "round"

// Table says which columns come first in a file. The others of the record stream follow.
type Table[T record.Row] struct {
	Columns []Column
	Instead []string                         // columns of the record stream that these replace
	Only    func(row *T) (bool, error)       // says which rows are written; nil: all
	Row     func(row *T, path, round string) // sets the values of Columns for a row of a record file; path may be ""
}

// Column is a column of a Table. If rows have a column of its name, it is that one, with its type. (So it can come from a
// stage that adds columns to rows.) Otherwise it has the value that Row sets: one of Text, Int16 and Int32.
type Column struct {
	Name     string
	Text     *string
	Int16    *int16
	Int32    *int32
	Required bool // the column is never null; in other columns "" and 0 are null
}

// made is a column that rows do not have.
type made struct {
	Column
	values array.Builder // of the row group
}

func newMade(c Column) *made {
	m := &made{Column: c}
	m.values = array.NewBuilder(memory.DefaultAllocator, m.field().Type)
	return m
}

func (m *made) field() arrow.Field {
	f := arrow.Field{Name: m.Name, Type: arrow.BinaryTypes.String, Nullable: !m.Required}
	switch {
	case m.Int16 != nil:
		f.Type = arrow.PrimitiveTypes.Int16
	case m.Int32 != nil:
		f.Type = arrow.PrimitiveTypes.Int32
	}
	return f
}

// append takes the value of a row.
func (m *made) append() {
	switch to := m.values.(type) {
	case *array.Int16Builder:
		appendValue(to, m.Required, *m.Int16)
	case *array.Int32Builder:
		appendValue(to, m.Required, *m.Int32)
	case *array.StringBuilder:
		appendValue(to, m.Required, *m.Text)
	}
}

func appendValue[V comparable](to interface {
	Append(V)
	AppendNull()
}, required bool, v V) {
	var zero V
	if v == zero && !required {
		to.AppendNull()
	} else {
		to.Append(v)
	}
}

// Writer writes rows of one kind. Errors stick.
type Writer[T record.Row] struct {
	out   io.Writer
	like  *record.Schema
	table Table[T]
	made  []*made // the columns that rows do not have, "round" last
	round string
	file  *file.Writer
	order []source // of the file's columns
	group bytes.Buffer
	rows  *record.Writer[T] // of the group, as plain Arrow
	count int               // rows of the group
	space scratch
	err   error
}

// source is where a column of the file comes from.
type source struct {
	made   *made // column that rows do not have; nil: it is a column of the rows
	column int   // the place in the rows
}

// NewWriter begins a file of rows that have the columns of their kind and the further ones of like, which may be nil. table may be nil, too.
func NewWriter[T record.Row](out io.Writer, like *record.Schema, table *Table[T]) (*Writer[T], error) {
	w := &Writer[T]{out: out, like: like}
	if table != nil {
		w.table = *table
	}
	has := record.ColumnNames[T]()
	if like != nil {
		has = append(has, like.ExtraColumns()...)
	}
	for _, c := range slices.Concat(w.table.Columns, []Column{{Name: roundColumn, Text: &w.round, Required: true}}) {
		if !slices.Contains(has, c.Name) {
			w.made = append(w.made, newMade(c))
		}
	}
	w.beginGroup()
	return w, w.err
}

// Write appends a row of the record file path that was made in a round.
func (w *Writer[T]) Write(row *T, path, round string) error {
	if w.err != nil {
		return w.err
	}
	if w.table.Only != nil {
		var wanted bool
		if wanted, w.err = w.table.Only(row); !wanted || w.err != nil {
			return w.err
		}
	}
	if w.err = w.rows.Write(row); w.err != nil {
		return w.err
	}
	w.round = round
	if w.table.Row != nil {
		w.table.Row(row, path, round)
	}
	for _, m := range w.made {
		m.append()
	}
	if w.count++; w.count >= groupRows || w.group.Len() >= groupBytes {
		w.flush()
		w.beginGroup()
	}
	return w.err
}

// Close writes the footer, but does not close the file below.
func (w *Writer[T]) Close() error {
	if w.err == nil {
		w.flush()
	}
	if w.err == nil {
		w.err = w.file.Close()
	}
	return w.err
}

// beginGroup starts a row group.
func (w *Writer[T]) beginGroup() {
	if w.err != nil {
		return
	}
	w.group.Reset()
	w.count = 0
	w.rows, w.err = record.NewWriter[T](&w.group, record.WriterOptions{Level: record.Bare, Like: w.like})
}

// flush writes the row group, column by column.
func (w *Writer[T]) flush() {
	if _, _, w.err = w.rows.Finish(); w.err != nil {
		return
	}
	in, err := ipc.NewReader(&w.group)
	if err != nil {
		w.err = err
		return
	}
	defer in.Release()
	if w.file == nil {
		if w.err = w.open(in.Schema()); w.err != nil {
			return
		}
	}
	var batches []arrow.Record
	for in.Next() {
		b := in.Record()
		b.Retain()
		defer b.Release()
		batches = append(batches, b)
	}
	if w.err = in.Err(); w.err != nil || w.count == 0 {
		return
	}
	to := w.file.AppendRowGroup()
	for _, from := range w.order {
		var column []arrow.Array
		if from.made != nil {
			values := from.made.values.NewArray()
			defer values.Release()
			column = append(column, values)
		} else {
			for _, b := range batches {
				column = append(column, b.Column(from.column))
			}
		}
		if w.err = w.next(to, func(c file.ColumnChunkWriter) error { return w.space.write(c, column) }); w.err != nil {
			return
		}
	}
	w.err = to.Close()
}

// next writes the next column of a row group.
func (w *Writer[T]) next(to file.SerialRowGroupWriter, write func(file.ColumnChunkWriter) error) error {
	c, err := to.NextColumn()
	if err != nil {
		return err
	}
	if err := write(c); err != nil {
		return err
	}
	return c.Close()
}

// open begins the file of rows that have this schema.
func (w *Writer[T]) open(s *arrow.Schema) error {
	var nodes schema.FieldList
	add := func(f arrow.Field, from source) error {
		n, err := nodeOf(f)
		nodes, w.order = append(nodes, n), append(w.order, from)
		return err
	}
	placed := slices.Clone(w.table.Instead)
	for _, c := range w.table.Columns {
		placed = append(placed, c.Name)
		var err error
		if i := slices.IndexFunc(w.made, func(m *made) bool { return m.Name == c.Name }); i >= 0 {
			err = add(w.made[i].field(), source{made: w.made[i]})
		} else {
			i = s.FieldIndices(c.Name)[0] // rows have it, or it would be made
			err = add(s.Field(i), source{column: i})
		}
		if err != nil {
			return err
		}
	}
	for i, f := range s.Fields() {
		if slices.Contains(placed, f.Name) {
			continue
		}
		if err := add(f, source{column: i}); err != nil {
			return err
		}
	}
	if n := len(w.made); n > 0 && w.made[n-1].Text == &w.round {
		if err := add(w.made[n-1].field(), source{made: w.made[n-1]}); err != nil {
			return err
		}
	}
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, nodes, -1)
	if err != nil {
		return err
	}
	// Snappy takes less than half of the memory and time of zstd here, for files that are two thirds larger.
	w.file = file.NewParquetWriter(w.out, root, file.WithWriterProps(parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Snappy), parquet.WithDataPageSize(pageBytes), parquet.WithDictionaryPageSizeLimit(pageBytes), parquet.WithCreatedBy("mercator"))))
	return nil
}

// nodeOf is the Parquet column of an Arrow column.
func nodeOf(f arrow.Field) (schema.Node, error) {
	repetition := parquet.Repetitions.Required
	if f.Nullable {
		repetition = parquet.Repetitions.Optional
	}
	typ, logical := parquet.Types.Int32, schema.LogicalType(schema.NoLogicalType{})
	switch t := f.Type.(type) {
	case *arrow.BooleanType:
		typ = parquet.Types.Boolean
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type:
		logical = schema.NewIntLogicalType(int8(t.(arrow.FixedWidthDataType).BitWidth()), true)
	case *arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type:
		logical = schema.NewIntLogicalType(int8(t.(arrow.FixedWidthDataType).BitWidth()), false)
	case *arrow.Int64Type:
		typ = parquet.Types.Int64
	case *arrow.Uint64Type:
		typ, logical = parquet.Types.Int64, schema.NewIntLogicalType(64, false)
	case *arrow.Float32Type:
		typ = parquet.Types.Float
	case *arrow.Float64Type:
		typ = parquet.Types.Double
	case *arrow.StringType:
		typ, logical = parquet.Types.ByteArray, schema.StringLogicalType{}
	case *arrow.BinaryType:
		typ = parquet.Types.ByteArray
	case *arrow.TimestampType:
		unit := map[arrow.TimeUnit]schema.TimeUnitType{arrow.Second: schema.TimeUnitMillis, arrow.Millisecond: schema.TimeUnitMillis,
			arrow.Microsecond: schema.TimeUnitMicros, arrow.Nanosecond: schema.TimeUnitNanos}[t.Unit]
		typ, logical = parquet.Types.Int64, schema.NewTimestampLogicalType(t.TimeZone != "", unit)
	default:
		return nil, fmt.Errorf("parquet: column %s has type %s, which a record stream cannot have", f.Name, f.Type)
	}
	return schema.NewPrimitiveNodeLogical(f.Name, repetition, logical, typ, -1, -1)
}

// scratch is the memory of columns while they are written, one after the other.
type scratch struct {
	levels []int16 // 1 where a value is
	flags  []bool
	int32s []int32
	int64s []int64
	floats []float32
	double []float64
	texts  []parquet.ByteArray
}

// write writes a column of a row group. Its parts stand in one batch of Arrow each.
func (s *scratch) write(to file.ColumnChunkWriter, parts []arrow.Array) (err error) {
	for _, a := range parts {
		var levels []int16
		if to.Descr().MaxDefinitionLevel() > 0 {
			s.levels = s.levels[:0]
			for i := range a.Len() {
				level := int16(0)
				if a.IsValid(i) {
					level = 1
				}
				s.levels = append(s.levels, level)
			}
			levels = s.levels
		}
		switch to := to.(type) {
		case *file.BooleanColumnChunkWriter:
			_, err = to.WriteBatch(valuesOf(&s.flags, a, a.(*array.Boolean).Value), levels, nil)
		case *file.Int32ColumnChunkWriter:
			_, err = to.WriteBatch(valuesOf(&s.int32s, a, int32Of(a)), levels, nil)
		case *file.Int64ColumnChunkWriter:
			_, err = to.WriteBatch(valuesOf(&s.int64s, a, int64Of(a)), levels, nil)
		case *file.Float32ColumnChunkWriter:
			_, err = to.WriteBatch(valuesOf(&s.floats, a, a.(*array.Float32).Value), levels, nil)
		case *file.Float64ColumnChunkWriter:
			_, err = to.WriteBatch(valuesOf(&s.double, a, a.(*array.Float64).Value), levels, nil)
		case *file.ByteArrayColumnChunkWriter:
			_, err = to.WriteBatch(valuesOf(&s.texts, a, bytesOf(a)), levels, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// valuesOf lists the values of a column that are not null.
func valuesOf[V any](space *[]V, a arrow.Array, value func(int) V) []V {
	values := (*space)[:0]
	for i := range a.Len() {
		if a.IsValid(i) {
			values = append(values, value(i))
		}
	}
	*space = values
	return values
}

func int32Of(a arrow.Array) func(int) int32 {
	switch a := a.(type) {
	case *array.Int8:
		return func(i int) int32 { return int32(a.Value(i)) }
	case *array.Int16:
		return func(i int) int32 { return int32(a.Value(i)) }
	case *array.Uint8:
		return func(i int) int32 { return int32(a.Value(i)) }
	case *array.Uint16:
		return func(i int) int32 { return int32(a.Value(i)) }
	case *array.Uint32:
		return func(i int) int32 { return int32(a.Value(i)) }
	}
	return a.(*array.Int32).Value
}

func int64Of(a arrow.Array) func(int) int64 {
	switch a := a.(type) {
	case *array.Uint64:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Timestamp:
		scale := int64(1) // Parquet has no seconds
		if a.DataType().(*arrow.TimestampType).Unit == arrow.Second {
			scale = 1000
		}
		return func(i int) int64 { return int64(a.Value(i)) * scale }
	}
	return a.(*array.Int64).Value
}

func bytesOf(a arrow.Array) func(int) parquet.ByteArray {
	if s, ok := a.(*array.String); ok {
		return func(i int) parquet.ByteArray { // of the column: it is not changed
			text := s.Value(i)
			if text == "" {
				return parquet.ByteArray{} // nil has no least and greatest
			}
			return unsafe.Slice(unsafe.StringData(text), len(text))
		}
	}
	return func(i int) parquet.ByteArray { return a.(*array.Binary).Value(i) }
}

// Copy writes all rows of the record stream path, as made in the round that the stream names.
func Copy[T record.Row](ctx context.Context, w *Writer[T], in *record.Reader[T], path string, progress func(n int64)) error {
	round := in.Schema().Txn
	var row T
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := in.Read(&row); err == io.EOF {
			if t := in.Trailer(); t.Verified && t.Txn != round {
				return &fault.Error{Class: fault.Conflict, Found: "rows of several rounds in one stream", Want: "a file for each round, or the crawl folder"}
			}
			return nil
		} else if err != nil {
			return err
		}
		if err := w.Write(&row, path, round); err != nil {
			return err
		}
		if progress != nil {
			progress(1)
		}
	}
}

// Files writes record files of one kind as one Parquet file. Of columns that the format does not know it has those
// of the file with most of them. table may be nil.
func Files[T record.Row](ctx context.Context, out io.Writer, files []string, table *Table[T], progress func(n int64)) error {
	open := func(path string, use func(*record.Reader[T]) error) error {
		f, err := durable.Open(path)
		if err != nil {
			return err
		}
		defer f.Close() // was read only
		r, err := record.NewReader[T](bufio.NewReaderSize(f, 64<<10), record.ReaderOptions{Name: path})
		if err != nil {
			return err
		}
		return use(r)
	}
	var like *record.Schema
	for _, path := range files {
		err := open(path, func(r *record.Reader[T]) error {
			if s := r.Schema(); like == nil || len(s.ExtraColumns()) > len(like.ExtraColumns()) {
				like = s
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	w, err := NewWriter(out, like, table)
	if err != nil {
		return err
	}
	for _, path := range files {
		if err := open(path, func(r *record.Reader[T]) error { return Copy(ctx, w, r, path, progress) }); err != nil {
			return err
		}
	}
	return w.Close()
}
