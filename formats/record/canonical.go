package record

import (
	"encoding/binary"
	"errors"
)

// AppendCanonical appends the row's canonical encoding: what the row hash is
// made of (SPEC.md, "Row hash"). It holds all of a row but its body.
func AppendCanonical[T Row](b []byte, row *T) []byte {
	c := rowCodec{canon: b}
	visit(&c, row)
	return extraOf(row).appendCanonical(c.canon, c.joined)
}

var errCanonical = errors.New("not the canonical encoding of a row")

// ParseCanonical reads one row from the front of b and returns how many bytes
// that took, so that rows can be kept in a file of their own (a spool) and come
// back whole. The row shares no memory with b. Unknown columns come back where s
// has them by the same name and type; s may be nil.
func ParseCanonical[T Row](b []byte, row *T, s *Schema) (n int, err error) {
	c := rowCodec{mode: parsing, src: b}
	visit(&c, row)
	e := extraOf(row)
	*e = Extra{}
	for !c.bad {
		name := c.takeText()
		if len(name) == 0 {
			break
		}
		typ := typeID(c.take(1)[0])
		var value []byte
		switch {
		case typ == typeNone || int(typ) >= len(typeNames):
			c.bad = true
		case typ.variable():
			value = c.takeText()
		case typ == typeBool:
			value = c.take(1)
		default:
			value = c.take(typ.width())
		}
		if !c.bad && c.at != nil && typ == typeTimeUS && string(name) == joined {
			*c.at = Time(binary.LittleEndian.Uint64(value))
			continue
		}
		if c.bad || s == nil {
			continue
		}
		i := s.findExtra(string(name))
		if i < 0 || s.extra[i].typ != typ {
			continue
		}
		if e.batch == nil {
			e.batch = &extraBatch{schema: s, columns: make([]inColumn, len(s.extra))}
		}
		e.batch.columns[i] = oneValue(typ, value)
	}
	if c.bad {
		return 0, errCanonical
	}
	return len(b) - len(c.src), nil
}

// oneValue is a column of one row, with memory of its own.
func oneValue(typ typeID, value []byte) inColumn {
	c := inColumn{present: true, data: append([]byte(nil), value...)}
	if typ.variable() {
		c.offsets = binary.LittleEndian.AppendUint32(make([]byte, 4), uint32(len(value)))
		c.chars = stringOf(c.data)
	}
	return c
}
