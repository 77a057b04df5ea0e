package record

import (
	"cmp"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
)

// typeID is a column type that a stream may hold. Its number is part of a row's byte form.
type typeID uint8

const (
	typeNone typeID = iota
	typeBool
	typeInt8
	typeInt16
	typeInt32
	typeInt64
	typeUint8
	typeUint16
	typeUint32
	typeUint64
	typeFloat32
	typeFloat64
	typeUTF8
	typeBinary
	typeTimeS
	typeTimeMS
	typeTimeUS
	typeTimeNS
)

var typeNames = [...]string{"none", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
	"float32", "float64", "utf8", "binary", "timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]"}

func (t typeID) String() string { return typeNames[t] }

// width is the bytes of a value, 0 for bool and for variable width.
func (t typeID) width() int {
	switch t {
	case typeInt8, typeUint8:
		return 1
	case typeInt16, typeUint16:
		return 2
	case typeInt32, typeUint32, typeFloat32:
		return 4
	case typeInt64, typeUint64, typeFloat64, typeTimeS, typeTimeMS, typeTimeUS, typeTimeNS:
		return 8
	}
	return 0
}

// bytes is the bytes of a value in the byte form of unknown columns, 0 for variable width.
func (t typeID) bytes() int {
	if t == typeBool {
		return 1
	}
	return t.width()
}

func (t typeID) variable() bool { return t == typeUTF8 || t == typeBinary }

func (t typeID) timestamp() bool { return t >= typeTimeS && t <= typeTimeNS }

// column is one column of a schema.
type column struct {
	name     string
	typ      typeID
	zone     string // of timestamps; "" is local time of an unknown place
	nullable bool
	required bool
}

func (c column) arrow() arrow.Field {
	f := arrow.Field{Name: c.name, Nullable: c.nullable}
	switch c.typ {
	case typeBool:
		f.Type = arrow.FixedWidthTypes.Boolean
	case typeInt8:
		f.Type = arrow.PrimitiveTypes.Int8
	case typeInt16:
		f.Type = arrow.PrimitiveTypes.Int16
	case typeInt32:
		f.Type = arrow.PrimitiveTypes.Int32
	case typeInt64:
		f.Type = arrow.PrimitiveTypes.Int64
	case typeUint8:
		f.Type = arrow.PrimitiveTypes.Uint8
	case typeUint16:
		f.Type = arrow.PrimitiveTypes.Uint16
	case typeUint32:
		f.Type = arrow.PrimitiveTypes.Uint32
	case typeUint64:
		f.Type = arrow.PrimitiveTypes.Uint64
	case typeFloat32:
		f.Type = arrow.PrimitiveTypes.Float32
	case typeFloat64:
		f.Type = arrow.PrimitiveTypes.Float64
	case typeUTF8:
		f.Type = arrow.BinaryTypes.String
	case typeBinary:
		f.Type = arrow.BinaryTypes.Binary
	case typeTimeS:
		f.Type = &arrow.TimestampType{Unit: arrow.Second, TimeZone: c.zone}
	case typeTimeMS:
		f.Type = &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: c.zone}
	case typeTimeUS:
		f.Type = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: c.zone}
	case typeTimeNS:
		f.Type = &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: c.zone}
	}
	return f
}

// Schema describes an input's columns and metadata, so that an output can be
// declared with the same unknown columns (WriterOptions.Like).
type Schema struct {
	Kind  Kind
	Now   Time // the round's clock; 0: none
	Txn   string
	Epoch string // epoch of the crawl folder that the rows were made in; "": none

	Resolver string // how names were looked up: mresolve tells mfetch; "": unknown

	extra []column // unknown columns, sorted by name
}

// ExtraColumns names the columns that this version does not know, sorted.
func (s *Schema) ExtraColumns() []string {
	names := make([]string, len(s.extra))
	for i, c := range s.extra {
		names[i] = c.name
	}
	return names
}

// Lacks names the unknown columns of o that s does not have by the same name and
// type, sorted: what rows of o would lose in a stream like s.
func (s *Schema) Lacks(o *Schema) []string {
	var names []string
	for _, c := range o.extra {
		if i := s.findExtra(c.name); i < 0 || s.extra[i].typ != c.typ || s.extra[i].zone != c.zone {
			names = append(names, c.name)
		}
	}
	return names
}

// findExtra returns the place of an unknown column, or -1.
func (s *Schema) findExtra(name string) int {
	i, ok := slices.BinarySearchFunc(s.extra, name, func(c column, n string) int { return cmp.Compare(c.name, n) })
	if !ok {
		return -1
	}
	return i
}
