package record

import (
	"encoding/binary"
	"fmt"
)

// flat is a flatbuffer that checks every access against its end. It is the only reader
// of Arrow's metadata: right checksums do not make a file harmless, and generated
// flatbuffer code trusts every offset.
type flat struct {
	b   []byte
	err error // the first offset that led outside
}

func (f *flat) fail(what string, at int) {
	if f.err == nil {
		f.err = fmt.Errorf("metadata: %s at byte %d lies outside", what, at)
	}
}

func (f *flat) span(at, n int, what string) []byte {
	if f.err != nil || at < 0 || n < 0 || at > len(f.b)-n {
		f.fail(what, at)
		return zeros[:min(n, len(zeros))]
	}
	return f.b[at : at+n]
}

func (f *flat) u16(at int) int   { return int(binary.LittleEndian.Uint16(f.span(at, 2, "value"))) }
func (f *flat) i32(at int) int   { return int(int32(binary.LittleEndian.Uint32(f.span(at, 4, "value")))) }
func (f *flat) i64(at int) int64 { return int64(binary.LittleEndian.Uint64(f.span(at, 8, "value"))) }

// table is a flatbuffer table: where it begins, and its vtable.
type table struct {
	f              *flat
	at, vtab, slot int // slot: bytes of the vtable
}

func (f *flat) root() table { return f.tableAt(f.i32(0)) }

func (f *flat) tableAt(at int) table {
	t := table{f: f, at: at}
	t.vtab = at - f.i32(at)
	t.slot = f.u16(t.vtab)
	if f.err == nil && t.slot < 4 {
		f.fail("vtable", t.vtab)
	}
	f.span(t.vtab, t.slot, "vtable")
	return t
}

// field returns where a field's value is, or 0 if it has its default.
func (t table) field(id int) int {
	if t.f.err != nil || 4+2*id+2 > t.slot {
		return 0
	}
	o := t.f.u16(t.vtab + 4 + 2*id)
	if o == 0 {
		return 0
	}
	return t.at + o
}

func (t table) u8(id int) int {
	if at := t.field(id); at != 0 {
		return int(t.f.span(at, 1, "value")[0])
	}
	return 0
}

func (t table) i16(id int) int {
	if at := t.field(id); at != 0 {
		return int(int16(t.f.u16(at)))
	}
	return 0
}

func (t table) i32(id int) int {
	if at := t.field(id); at != 0 {
		return t.f.i32(at)
	}
	return 0
}

func (t table) i64(id int) int64 {
	if at := t.field(id); at != 0 {
		return t.f.i64(at)
	}
	return 0
}

func (t table) has(id int) bool { return t.field(id) != 0 }

func (t table) table(id int) table {
	at := t.field(id)
	if at == 0 {
		t.f.fail("table that must be there", t.at)
		return table{f: t.f}
	}
	return t.f.tableAt(at + t.f.i32(at))
}

// vector returns where the elements are and how many; size is an element's.
func (t table) vector(id, size int) (at, n int) {
	p := t.field(id)
	if p == 0 {
		return 0, 0
	}
	at = p + t.f.i32(p)
	n = t.f.i32(at)
	at += 4
	if n < 0 || n > len(t.f.b)/size {
		t.f.fail("vector", at)
		return 0, 0
	}
	t.f.span(at, n*size, "vector")
	if t.f.err != nil {
		return 0, 0
	}
	return at, n
}

func (t table) string(id int) string {
	at, n := t.vector(id, 1)
	return string(t.f.b[at : at+n])
}

// tables calls fn with each table of a vector of tables.
func (t table) tables(id int, fn func(i int, e table)) {
	at, n := t.vector(id, 4)
	for i := 0; i < n && t.f.err == nil; i++ {
		p := at + 4*i
		fn(i, t.f.tableAt(p+t.f.i32(p)))
	}
}
