package record

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// inColumn is a column of the batch being read. Its fields point into the message;
// decodeBatch has checked the layout.
type inColumn struct {
	present bool   // false: every value is zero
	valid   []byte // validity bits; nil: no nulls
	offsets []byte // variable width: int32 each
	data    []byte
	chars   string // data of a utf8 column
}

func bit(b []byte, i int) bool { return b[i>>3]>>(i&7)&1 != 0 }

func (c *inColumn) null(i int) bool {
	return !c.present || c.valid != nil && !bit(c.valid, i)
}

func (c *inColumn) span(i int) (from, to uint32) {
	o := c.offsets[4*i : 4*i+8]
	return binary.LittleEndian.Uint32(o), binary.LittleEndian.Uint32(o[4:])
}

func (c *inColumn) text(i int) string {
	if c.null(i) {
		return ""
	}
	from, to := c.span(i)
	return c.chars[from:to]
}

// binary returns nil for null, and never nil otherwise.
func (c *inColumn) binary(i int) []byte {
	if c.null(i) {
		return nil
	}
	from, to := c.span(i)
	return c.data[from:to:to]
}

func (c *inColumn) u64(i int) uint64 {
	if c.null(i) {
		return 0
	}
	return binary.LittleEndian.Uint64(c.data[8*i:])
}

func (c *inColumn) u32(i int) uint32 {
	if c.null(i) {
		return 0
	}
	return binary.LittleEndian.Uint32(c.data[4*i:])
}

func (c *inColumn) u16(i int) uint16 {
	if c.null(i) {
		return 0
	}
	return binary.LittleEndian.Uint16(c.data[2*i:])
}

func (c *inColumn) u8(i int) uint8 {
	if c.null(i) {
		return 0
	}
	return c.data[i]
}

func (c *inColumn) boolean(i int) bool { return !c.null(i) && bit(c.data, i) }

// stringOf shares b's memory; b must not change afterwards.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// outColumn is a column of the batch that is being written. Known ones have room for rows of zeros; to others values are
// appended.
type outColumn struct {
	column
	valid   []byte // nullable columns
	nulls   int
	offsets []byte
	data    []byte
}

func (c *outColumn) reset() {
	c.valid, c.nulls, c.data = c.valid[:0], 0, c.data[:0]
	if c.typ.variable() {
		c.offsets = append(c.offsets[:0], 0, 0, 0, 0)
	}
}

// grow gives the column room for that number of rows.
func (c *outColumn) grow(rows int) {
	grown := func(b []byte, n int) []byte { return append(b, make([]byte, n-len(b))...) }
	switch {
	case c.typ.variable():
		c.offsets = grown(c.offsets, 4*(rows+1))
	case c.typ == typeBool:
		c.data = grown(c.data, (rows+7)/8)
	default:
		c.data = grown(c.data, rows*c.typ.width())
	}
	if c.nullable {
		c.valid = grown(c.valid, (rows+7)/8)
	}
}

// clear sets the room of the rows that were written to zeros.
func (c *outColumn) clear(rows int) {
	valid, _, data := c.parts(rows)
	clear(valid)
	if c.nulls = 0; c.typ.variable() {
		c.data = c.data[:0]
	} else {
		clear(data)
	}
}

// parts are the memory of that number of rows.
func (c *outColumn) parts(rows int) (valid, offsets, data []byte) {
	if c.nullable {
		valid = c.valid[:(rows+7)/8]
	}
	switch {
	case c.typ.variable():
		return valid, c.offsets[:4*(rows+1)], c.data
	case c.typ == typeBool:
		return valid, nil, c.data[:(rows+7)/8]
	}
	return valid, nil, c.data[:rows*c.typ.width()]
}

func appendBit(b []byte, i int, v bool) []byte {
	if i&7 == 0 {
		b = append(b, 0)
	}
	if v {
		b[i>>3] |= 1 << (i & 7)
	}
	return b
}

func (c *outColumn) appendValid(row int, valid bool) {
	c.valid = appendBit(c.valid, row, valid)
	if !valid {
		c.nulls++
	}
}

func (c *outColumn) appendBool(row int, v bool) { c.data = appendBit(c.data, row, v) }

func (c *outColumn) appendText(s string) {
	c.data = append(c.data, s...)
	c.offsets = binary.LittleEndian.AppendUint32(c.offsets, uint32(len(c.data)))
}

func (c *outColumn) appendBinary(b []byte) { c.appendText(stringOf(b)) }

// array wraps the column's memory for Arrow, which copies nothing.
func (c *outColumn) array(rows int) arrow.Array {
	bits, offsets, values := c.parts(rows)
	var valid *memory.Buffer
	if c.nulls > 0 {
		valid = memory.NewBufferBytes(bits)
	}
	buffers := []*memory.Buffer{valid, memory.NewBufferBytes(values)}
	if c.typ.variable() {
		buffers = []*memory.Buffer{valid, memory.NewBufferBytes(offsets), memory.NewBufferBytes(values)}
	}
	data := array.NewData(c.arrow().Type, rows, buffers, nil, c.nulls, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// ones counts the set bits among the first n.
func ones(b []byte, n int) int {
	count := 0
	for ; n >= 64; n -= 64 {
		count += bits.OnesCount64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for i := range n {
		if bit(b, i) {
			count++
		}
	}
	return count
}
