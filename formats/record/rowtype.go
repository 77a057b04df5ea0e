package record

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"mercator/pkg/base/fault"
)

// rowType is the table of a kind's columns, made from the tags of its Go type. All that handles rows goes by it:
// reading, writing, the byte form, text, and order.
type rowType struct {
	kind    Kind
	columns []column // in the order of the Go type
	fields  []field  // where a row has each column
	texts   []field  // fields of text
	extra   uintptr  // offset of the field Extra
	width   int      // bytes of a row in a batch, without text
	formed  []field  // the fields that stand in the byte form by order, with a flag or without: all but late ones, which follow by name
	flags   int      // flags in the byte form; the flag of the unknown columns is the last
}

// field is where a row has the value of a column, and what loops over rows need to know of that.
type field struct {
	typ    typeID
	offset uint16
	flag   uint32 // in the byte form: set where the value is not zero; 0 for required columns, which have no flag
}

var (
	urlType    = newRowType(KindURL, reflect.TypeFor[URL]())
	fetchType  = newRowType(KindFetch, reflect.TypeFor[Fetch]())
	linkType   = newRowType(KindLink, reflect.TypeFor[Link]())
	moduleType = newRowType(KindModule, reflect.TypeFor[Module]())
)

func newRowType(kind Kind, row reflect.Type) *rowType {
	t := &rowType{kind: kind}
	for i := range row.NumField() {
		f := row.Field(i)
		if f.Name == "Extra" {
			t.extra = f.Offset
		}
		name, option, _ := strings.Cut(f.Tag.Get("col"), ",")
		if name == "" {
			continue
		}
		c := columnFor(f.Type)
		c.name, c.required = name, option == "required"
		at := field{typ: c.typ, offset: uint16(f.Offset)}
		late := option == "late"
		if !c.required && !late {
			at.flag = 1 << t.flags
			t.flags++
		}
		t.columns, t.fields = append(t.columns, c), append(t.fields, at)
		if !late {
			t.formed = t.fields
		}
		t.width += max(c.typ.width(), 1)
		if c.typ == typeUTF8 {
			t.width += 4 - 1
			t.texts = append(t.texts, at)
		}
	}
	t.flags++
	return t
}

// columnFor is a nameless column for values of a Go type.
func columnFor(t reflect.Type) column {
	if t == reflect.TypeFor[Time]() {
		return column{typ: typeTimeUS, zone: "UTC", nullable: true}
	}
	return column{typ: map[reflect.Kind]typeID{reflect.Bool: typeBool, reflect.Uint8: typeUint8, reflect.Uint16: typeUint16, reflect.Uint64: typeUint64,
		reflect.Int64: typeInt64, reflect.Float32: typeFloat32, reflect.String: typeUTF8}[t.Kind()]}
}

// rowTypeOf is the table of a row's Go type.
func rowTypeOf[T Row]() *rowType {
	switch any((*T)(nil)).(type) {
	case *URL:
		return urlType
	case *Fetch:
		return fetchType
	case *Link:
		return linkType
	}
	return moduleType
}

// rowTypeOfKind is the table of a kind; nil for an unknown one.
func rowTypeOfKind(k Kind) *rowType {
	for _, t := range []*rowType{urlType, fetchType, linkType, moduleType} {
		if t.kind == k {
			return t
		}
	}
	return nil
}

// find returns the place of a column, or -1.
func (t *rowType) find(name string) int {
	return slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
}

// extraOf returns the place of a row's unknown columns.
func (t *rowType) extraOf(row unsafe.Pointer) *Extra { return (*Extra)(unsafe.Add(row, t.extra)) }

// read fills the row's fields from row i of a batch.
func (t *rowType) read(row unsafe.Pointer, in []inColumn, i int) {
	in = in[:len(t.fields)]
	for k, f := range t.fields {
		c := &in[k]
		at := f.of(row)
		switch f.typ {
		case typeUTF8:
			*(*string)(at) = c.text(i)
		case typeUint64, typeInt64, typeTimeUS:
			*(*uint64)(at) = c.u64(i)
		case typeFloat32:
			*(*uint32)(at) = c.u32(i)
		case typeUint16:
			*(*uint16)(at) = c.u16(i)
		case typeUint8:
			*(*uint8)(at) = c.u8(i)
		case typeBool:
			*(*bool)(at) = c.boolean(i)
		}
	}
}

// write writes the row's fields to the columns of a batch, as its row i. Text must be valid UTF-8, and the columns must have
// zeros as room for the row. It returns how many bytes the row takes there.
func (t *rowType) write(row unsafe.Pointer, out []outColumn, i int) (bytes int) {
	out = out[:len(t.fields)]
	bytes = t.width
	for k, f := range t.fields {
		c := &out[k]
		at := f.of(row)
		switch f.typ {
		case typeUTF8:
			s := *(*string)(at)
			if s != "" {
				c.data = append(c.data, s...)
				bytes += len(s)
			}
			binary.LittleEndian.PutUint32(c.offsets[4*i+4:], uint32(len(c.data)))
		case typeUint64, typeInt64:
			if n := *(*uint64)(at); n != 0 {
				binary.LittleEndian.PutUint64(c.data[8*i:], n)
			}
		case typeTimeUS:
			if n := *(*uint64)(at); n != 0 {
				binary.LittleEndian.PutUint64(c.data[8*i:], n)
				c.valid[i>>3] |= 1 << (i & 7)
			} else {
				c.nulls++
			}
		case typeFloat32:
			if n := *(*uint32)(at); n != 0 {
				binary.LittleEndian.PutUint32(c.data[4*i:], n)
			}
		case typeUint16:
			if n := *(*uint16)(at); n != 0 {
				binary.LittleEndian.PutUint16(c.data[2*i:], n)
			}
		case typeUint8:
			c.data[i] = *(*uint8)(at)
		case typeBool:
			if *(*bool)(at) {
				c.data[i>>3] |= 1 << (i & 7)
			}
		}
	}
	return bytes
}

// valid returns the row, or a copy of it in which text is UTF-8: an Arrow utf8 column must hold nothing else, and a
// server may put anything into a header.
func valid[T Row](t *rowType, row *T) *T {
	for _, f := range t.texts {
		if s := *(*string)(f.of(unsafe.Pointer(row))); !ascii(s) && !utf8.ValidString(s) {
			fixed := *row
			for _, f := range t.texts {
				s := (*string)(f.of(unsafe.Pointer(&fixed)))
				*s = strings.ToValidUTF8(*s, "\uFFFD")
			}
			return &fixed
		}
	}
	return row
}

// of is where a row has the field.
func (f field) of(row unsafe.Pointer) unsafe.Pointer { return unsafe.Add(row, f.offset) }

// value is one value of a row, known or not: numbers and times in num (floats as their bits), text and bytes in str.
type value struct {
	num  uint64
	str  string
	null bool
}

// get reads the field of a row. It does not check text.
func (f field) get(row unsafe.Pointer) (v value) {
	at := f.of(row)
	switch f.typ {
	case typeUTF8:
		v.str = *(*string)(at)
	case typeUint64, typeInt64:
		v.num = *(*uint64)(at)
	case typeTimeUS:
		v.num = *(*uint64)(at)
		v.null = v.num == 0
	case typeFloat32:
		v.num = uint64(*(*uint32)(at))
	case typeUint16:
		v.num = uint64(*(*uint16)(at))
	case typeUint8, typeBool:
		v.num = uint64(*(*uint8)(at))
	}
	return v
}

// set is the reverse of get.
func (f field) set(row unsafe.Pointer, v value) {
	at := f.of(row)
	switch f.typ {
	case typeUTF8:
		*(*string)(at) = v.str
	case typeUint64, typeInt64, typeTimeUS:
		*(*uint64)(at) = v.num
	case typeFloat32:
		*(*uint32)(at) = uint32(v.num)
	case typeUint16:
		*(*uint16)(at) = uint16(v.num)
	case typeUint8:
		*(*uint8)(at) = uint8(v.num)
	case typeBool:
		*(*bool)(at) = v.num != 0
	}
}

// Field is a column of rows of T that the format knows.
type Field[T Row] struct {
	Name string
	f    field
}

// Fields are all columns of rows of T, in order.
func Fields[T Row]() (all []Field[T]) {
	t := rowTypeOf[T]()
	for i, c := range t.columns {
		all = append(all, Field[T]{c.name, t.fields[i]})
	}
	return all
}

// FieldOf finds a column by name; fault.Usage if there is none.
func FieldOf[T Row](name string) (Field[T], error) {
	t := rowTypeOf[T]()
	if i := t.find(name); i >= 0 {
		return Field[T]{name, t.fields[i]}, nil
	}
	var names []string
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return Field[T]{}, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("no column %q", name), Want: "one of " + strings.Join(names, ", ")}
}

// Ordered reports whether the column has an order: it holds numbers, times or text.
func (c Field[T]) Ordered() bool { return c.f.typ != typeBool && c.f.typ != typeFloat32 }

// IsText reports whether the column holds text.
func (c Field[T]) IsText() bool { return c.f.typ == typeUTF8 }

// SameType reports whether the values of two columns can be copied from one to the other.
func SameType[T, U Row](a Field[T], b Field[U]) bool { return a.f.typ == b.f.typ }

// Value is one value of a row: text, or a number or time that ascends as Num does.
type Value struct {
	Num  uint64
	Text string
}

// Compare orders two values of one column.
func (v Value) Compare(o Value) int {
	return cmp.Or(cmp.Compare(v.Num, o.Num), strings.Compare(v.Text, o.Text))
}

// sign makes signed numbers ascend as unsigned ones.
func (c Field[T]) sign() uint64 {
	if c.f.typ == typeInt64 || c.f.typ == typeTimeUS {
		return 1 << 63
	}
	return 0
}

// In is where a row has the column: a *string, *uint64, *int64, *Time, *float32, *uint16, *uint8 or *bool.
func (c Field[T]) In(row *T) any {
	at := c.f.of(unsafe.Pointer(row))
	switch c.f.typ {
	case typeUTF8:
		return (*string)(at)
	case typeUint64:
		return (*uint64)(at)
	case typeInt64:
		return (*int64)(at)
	case typeTimeUS:
		return (*Time)(at)
	case typeFloat32:
		return (*float32)(at)
	case typeUint16:
		return (*uint16)(at)
	case typeUint8:
		return (*uint8)(at)
	}
	return (*bool)(at)
}

// Value is the row's value of the column.
func (c Field[T]) Value(row *T) Value {
	v := c.f.get(unsafe.Pointer(row))
	return Value{v.num ^ c.sign(), v.str}
}

// Set gives the row a value of a column of the same type.
func (c Field[T]) Set(row *T, v Value) {
	c.f.set(unsafe.Pointer(row), value{num: v.Num ^ c.sign(), str: v.Text})
}
