package record

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unsafe"
)

// AppendRow appends the row's byte form: what rows are kept as outside of record streams, and what the row hash is
// made of (SPEC.md, "The byte form of a row"). Equal rows have equal forms.
func AppendRow[T Row](b []byte, row *T) []byte {
	t := rowTypeOf[T]()
	p := unsafe.Pointer(valid(t, row))
	from := len(b)
	b = t.append(b, p)
	to := len(b)
	return t.endRow(t.extraOf(p).append(t.appendLate(b, p)), from, to)
}

// appendLate appends the late columns in the order of their names, as unknown ones stand, unless they are zero. Flags of their own
// would change the form of all rows that there are, and there is no end to how many columns may come.
func (t *rowType) appendLate(b []byte, row unsafe.Pointer) []byte {
	for i := len(t.formed); i < len(t.fields); i++ {
		f := t.fields[i]
		v := f.get(row)
		if v.num == 0 && v.str == "" {
			continue
		}
		b = append(AppendText(b, t.columns[i].name), byte(f.typ))
		if f.typ == typeUTF8 {
			b = AppendText(b, v.str)
			continue
		}
		for range f.typ.bytes() {
			b = append(b, byte(v.num))
			v.num >>= 8
		}
	}
	return b
}

// parseLate is the reverse of appendLate; false: all are zero.
func (t *rowType) parseLate(p *parser, row unsafe.Pointer) (late bool) {
	for i := len(t.formed); i < len(t.fields); i++ {
		f, name := t.fields[i], t.columns[i].name
		rest, ok := strings.CutPrefix(p.left, string(rune(len(name)))+name+string(rune(f.typ)))
		if !ok {
			continue
		}
		p.left = rest
		var v value
		if f.typ == typeUTF8 {
			v.str = p.text()
		} else {
			v.num = p.word(f.typ.bytes())
		}
		p.bad = p.bad || v.num == 0 && v.str == "" || f.typ == typeBool && v.num > 1
		f.set(row, v)
		late = true
	}
	return late
}

// append appends the fields of a row. The row's text must be valid UTF-8.
func (t *rowType) append(b []byte, row unsafe.Pointer) []byte {
	from := len(b)
	b = append(b, zeros[:t.flagBytes()]...)
	var flags uint32
	for _, f := range t.formed {
		at := f.of(row)
		switch f.typ {
		case typeUTF8:
			s := *(*string)(at)
			if s == "" && f.flag != 0 {
				continue
			}
			b = AppendText(b, s)
		case typeUint64, typeTimeUS:
			n := *(*uint64)(at)
			if n == 0 && f.flag != 0 {
				continue
			}
			b = binary.LittleEndian.AppendUint64(b, n)
		case typeInt64:
			n := *(*int64)(at)
			if n == 0 {
				continue
			}
			b = binary.AppendVarint(b, n)
		case typeFloat32:
			n := *(*uint32)(at)
			if n == 0 {
				continue
			}
			b = binary.LittleEndian.AppendUint32(b, n)
		case typeUint16:
			n := *(*uint16)(at)
			if n == 0 {
				continue
			}
			b = append(b, byte(n), byte(n>>8))
		case typeUint8:
			n := *(*uint8)(at)
			if n == 0 {
				continue
			}
			b = append(b, n)
		case typeBool:
			if !*(*bool)(at) {
				continue
			}
		}
		flags |= f.flag
	}
	for i := range t.flagBytes() {
		b[from+i] = byte(flags >> (8 * i))
	}
	return b
}

// flagBytes is how many bytes of flags a row begins with.
func (t *rowType) flagBytes() int { return (t.flags + 7) / 8 }

// endRow ends the form of the row that begins at from. The bytes behind to are its late and unknown columns.
func (t *rowType) endRow(b []byte, from, to int) []byte {
	if len(b) == to {
		return b
	}
	last := t.flags - 1
	b[from+last/8] |= 1 << (last % 8)
	return append(b, 0)
}

// AppendText appends a length and that many bytes, as text stands in the byte form of a row. CutText reads it.
func AppendText(b []byte, s string) []byte {
	if len(s) < 0x80 { // as most are: one byte of varint
		b = append(b, byte(len(s)))
	} else {
		b = binary.AppendUvarint(b, uint64(len(s)))
	}
	return append(b, s...)
}

// CutText gives the first text of what AppendText made, and the rest. It is for bytes of this process's own, and panics on others.
func CutText[T string | []byte](b T) (text, rest T) {
	n, i := 0, 0
	for ; b[i] >= 0x80; i++ {
		n |= int(b[i]&0x7f) << (7 * i)
	}
	n |= int(b[i]) << (7 * i)
	return b[i+1:][:n], b[i+1+n:]
}

var errForm = errors.New("not the byte form of a row")

// ParseRow reads one row from the front of b and returns how many bytes that took. Nothing is copied: the row's text
// is part of b. Unknown columns come back where s has them by the same name and type; s may be nil. A row that is taken
// with all its columns has no other form than the one that was read, if its text is UTF-8, which is not checked.
func ParseRow[T Row](b string, row *T, s *Schema) (n int, err error) {
	*row = *new(T)
	t, p := rowTypeOf[T](), &parser{left: b}
	if more := t.parse(p, unsafe.Pointer(row)); more {
		late := t.parseLate(p, unsafe.Pointer(row))
		*t.extraOf(unsafe.Pointer(row)) = p.extra(s, late, t.columns[len(t.formed):])
	}
	if p.bad {
		return 0, errForm
	}
	return len(b) - len(p.left), nil
}

// ViewRow is ParseRow of bytes that stay as they are for as long as the row is used.
func ViewRow[T Row](b []byte, row *T, s *Schema) (n int, err error) {
	return ParseRow(stringOf(b), row, s)
}

// parse fills the fields of a row of zeros; more says that unknown columns follow.
func (t *rowType) parse(p *parser, row unsafe.Pointer) (more bool) {
	flags := uint32(p.word(t.flagBytes()))
	for _, f := range t.formed {
		if f.flag != 0 && flags&f.flag == 0 {
			continue
		}
		at := f.of(row)
		zero := false
		switch f.typ {
		case typeUTF8:
			s := p.text()
			*(*string)(at), zero = s, s == ""
		case typeUint64, typeTimeUS:
			n := p.word8()
			*(*uint64)(at), zero = n, n == 0
		case typeInt64:
			u := p.varint()
			n := int64(u>>1) ^ -int64(u&1)
			*(*int64)(at), zero = n, n == 0
		case typeFloat32:
			n := p.word(4)
			*(*uint32)(at), zero = uint32(n), n == 0
		case typeUint16:
			n := p.word(2)
			*(*uint16)(at), zero = uint16(n), n == 0
		case typeUint8:
			n := p.word(1)
			*(*uint8)(at), zero = uint8(n), n == 0
		case typeBool:
			*(*bool)(at) = true
		}
		if zero && f.flag != 0 {
			p.bad = true
		}
	}
	if flags>>t.flags != 0 {
		p.bad = true
	}
	return flags>>(t.flags-1) != 0
}

// parser takes values from the front of what is left.
type parser struct {
	left string
	bad  bool // left ended too early, or holds what AppendRow would not have written
}

// takeBytes takes n bytes.
func (p *parser) takeBytes(n uint64) string {
	if n > uint64(len(p.left)) {
		p.bad = true
		return ""
	}
	s := p.left[:n]
	p.left = p.left[n:]
	return s
}

// word takes a number of n bytes.
func (p *parser) word(n int) (v uint64) {
	s := p.takeBytes(uint64(n))
	for i := len(s) - 1; i >= 0; i-- {
		v = v<<8 | uint64(s[i])
	}
	return v
}

// word8 is word(8), in one load.
func (p *parser) word8() uint64 {
	s := p.left
	if len(s) < 8 {
		p.bad = true
		return 0
	}
	p.left = s[8:]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// varint takes a varint (LEB128), which must be as short as can be.
func (p *parser) varint() uint64 {
	if len(p.left) > 0 && p.left[0] < 0x80 {
		return p.word(1)
	}
	v, n := binary.Uvarint(unsafe.Slice(unsafe.StringData(p.left), len(p.left)))
	if n <= 0 || p.left[n-1] == 0 {
		p.bad = true
		return 0
	}
	p.left = p.left[n:]
	return v
}

// text takes a length and that many bytes.
func (p *parser) text() string { return p.takeBytes(p.varint()) }

// extra takes the unknown columns of a row: one at least, unless there was a late one. None has the name of one of taken.
func (p *parser) extra(s *Schema, late bool, taken []column) (e Extra) {
	for last := ""; ; {
		name := p.text()
		if name <= last { // in order, and one at least; the end is the empty name
			p.bad = p.bad || name != "" || last == "" && !late
			return e
		}
		last = name
		p.bad = p.bad || slices.ContainsFunc(taken, func(c column) bool { return c.name == name })
		typ := typeID(p.word(1))
		if typ == typeNone || int(typ) >= len(typeNames) {
			p.bad = true
		}
		if p.bad {
			return e
		}
		var v string
		switch {
		case typ.variable():
			v = p.text()
		case typ == typeBool:
			v = p.takeBytes(1)
			p.bad = p.bad || v > "\x01"
		default:
			v = p.takeBytes(uint64(typ.width()))
		}
		if p.bad || s == nil {
			continue
		}
		if i := s.findExtra(name); i >= 0 && s.extra[i].typ == typ {
			if e.batch == nil {
				e.batch = &extraBatch{schema: s, columns: make([]inColumn, len(s.extra))}
			}
			e.batch.columns[i] = oneValue(typ, v)
		}
	}
}

// oneValue is a column of one row.
func oneValue(typ typeID, v string) inColumn {
	c := inColumn{present: true, data: []byte(v)}
	if typ.variable() {
		c.offsets = binary.LittleEndian.AppendUint32(make([]byte, 4), uint32(len(v)))
		c.chars = v
	}
	return c
}
