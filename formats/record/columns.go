package record

import (
	"cmp"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
)

// typeID is a column type that a stream may hold. Its number is part of the
// canonical encoding of unknown columns, so it never changes.
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

func must(name string, t typeID) column { return column{name: name, typ: t, required: true} }
func col(name string, t typeID) column  { return column{name: name, typ: t} }
func when(name string) column {
	return column{name: name, typ: typeTimeUS, zone: "UTC", nullable: true}
}

// The columns of each kind, in the order of the row encoders in rowcodec.go.
var (
	urlColumns = []column{
		must("url", typeUTF8), must("url_key", typeUint64), must("host", typeUTF8),
		col("priority", typeUint8), col("score", typeFloat32), col("depth", typeUint16), col("attempt", typeUint8),
		col("via", typeUTF8), when("discovered"), when("due"),
		col("addr", typeUTF8), when("addr_expires"), col("addr_error", typeUTF8),
		col("etag", typeUTF8), col("last_modified", typeUTF8), col("last_content_fp", typeUint64),
	}
	fetchColumns = []column{
		must("url", typeUTF8), must("url_key", typeUint64), must("host", typeUTF8),
		col("priority", typeUint8), col("score", typeFloat32), col("depth", typeUint16), col("attempt", typeUint8),
		col("via", typeUTF8), when("discovered"),
		col("addr", typeUTF8), col("etag", typeUTF8), col("last_modified", typeUTF8), col("last_content_fp", typeUint64),
		must("role", typeUTF8), when("fetch_time"), col("duration_us", typeInt64), col("required_delay_us", typeInt64),
		must("outcome", typeUTF8), col("status", typeUint16), col("mime", typeUTF8), col("charset", typeUTF8),
		col("body_length", typeInt64), col("truncated", typeUTF8), col("content_fp", typeUint64),
		col("payload_sha1", typeUTF8), col("duplicate", typeBool), col("redirect_url", typeUTF8), when("retry_after"),
		col("error", typeUTF8), col("warc_filename", typeUTF8), col("warc_record_offset", typeInt64), col("warc_record_length", typeInt64),
		when(joined),
	}
	linkColumns = []column{
		col("src_url", typeUTF8), col("src_key", typeUint64),
		must("url", typeUTF8), must("url_key", typeUint64), must("host", typeUTF8),
		col("link_kind", typeUTF8), col("nofollow", typeBool), col("text", typeUTF8), col("depth", typeUint16),
		col("score", typeFloat32), when("discovered"),
	}
	moduleColumns = []column{
		must("url_key", typeUint64), must("module", typeUTF8), must("key", typeUTF8), must("value", typeUTF8),
	}
	bodyColumn = column{name: "body", typ: typeBinary, nullable: true}
)

// joined is the column that fetch rows have since version 1.1. In the canonical encoding
// it stands as an unknown column does, by its name and only where it is set: so a
// program that does not know it finds the same row hash, and rows without it have the hash
// that they had before (SPEC.md, "Row hash").
const joined = "fresh_until"

// versionOf is the first version of the format that has all known columns of a kind.
func versionOf(k Kind) string {
	if k == KindFetch {
		return "1.1"
	}
	return "1.0"
}

// columnsOf returns the known columns of a kind, body aside; nil for an unknown kind.
func columnsOf(k Kind) []column {
	switch k {
	case KindURL:
		return urlColumns
	case KindFetch:
		return fetchColumns
	case KindLink:
		return linkColumns
	case KindModule:
		return moduleColumns
	}
	return nil
}

// kindOf returns the kind of a row type.
func kindOf[T Row]() Kind {
	switch any((*T)(nil)).(type) {
	case *URL:
		return KindURL
	case *Fetch:
		return KindFetch
	case *Link:
		return KindLink
	}
	return KindModule
}

// Schema describes an input's columns and metadata, so that an output can be
// declared with the same unknown columns (WriterOptions.Like).
type Schema struct {
	Kind    Kind
	Version string // major.minor; "" where the input did not say
	Now     Time   // the round's clock; 0: none
	Txn     string
	Epoch   string // of the crawl in whose folder the rows were made; "": none
	HasBody bool   // a fetch stream with the body column

	Resolver string // how names were looked up, as mresolve tells mfetch; "": nobody said

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
