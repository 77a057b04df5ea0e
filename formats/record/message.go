package record

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
)

// Arrow's numbers (format/Message.fbs and Schema.fbs).
const (
	arrowV5 = 4

	headerSchema     = 1
	headerDictionary = 2
	headerBatch      = 3

	arrowInt       = 2
	arrowFloat     = 3
	arrowBinary    = 4
	arrowUTF8      = 5
	arrowBool      = 6
	arrowTimestamp = 10
)

const (
	maxName     = 255  // bytes of a column's name
	maxMetadata = 1024 // entries of the schema's metadata
	maxValue    = 1024 // bytes of a metadata value that we read
)

// message is one Arrow IPC message, taken apart.
type message struct {
	end    bool // the end of stream marker
	header int  // headerSchema or headerBatch
	table  table
	body   []byte
}

// parseMessage takes apart an encapsulated message: FFFFFFFF, the metadata's
// length, the metadata, the body.
func parseMessage(b []byte) (message, error) {
	if len(b) < 8 || binary.LittleEndian.Uint32(b) != 0xFFFFFFFF {
		return message{}, errors.New("no Arrow message in it")
	}
	n := int64(int32(binary.LittleEndian.Uint32(b[4:])))
	if n == 0 {
		if len(b) != 8 {
			return message{}, errors.New("bytes behind the end of stream marker")
		}
		return message{end: true}, nil
	}
	if n < 0 || n%8 != 0 || n > int64(len(b)-8) {
		return message{}, fmt.Errorf("metadata of %d bytes in a message of %d", n, len(b))
	}
	return parseMetadata(b[8:8+n], b[8+n:])
}

func parseMetadata(meta, body []byte) (message, error) {
	f := &flat{b: meta}
	t := f.root()
	version, header, bodyLength := t.i16(0), t.u8(1), t.i64(3)
	m := message{header: header, table: t.table(2), body: body}
	switch {
	case f.err != nil:
		return message{}, f.err
	case version != arrowV5:
		return message{}, fmt.Errorf("Arrow metadata version %d, want %d (V5)", version+1, arrowV5+1)
	case header == headerDictionary:
		return message{}, errors.New("a dictionary: dictionary columns are not part of this format")
	case header != headerSchema && header != headerBatch:
		return message{}, fmt.Errorf("Arrow message of type %d, want a schema or a record batch", header)
	case bodyLength != int64(len(body)):
		return message{}, fmt.Errorf("body of %d bytes, and its metadata says %d", len(body), bodyLength)
	}
	return m, nil
}

// layout is the content of a stream's schema message.
type layout struct {
	schema  Schema
	columns []layoutColumn // in the stream's order
}

// layoutColumn ties a column of the stream to its use.
type layoutColumn struct {
	column
	known int // place in the kind's table; -1 for an unknown column
}

// parseSchema reads the schema message. Its errors are faults without a place.
func parseSchema(m message) (*layout, error) {
	corrupt := func(format string, args ...any) error {
		return &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf(format, args...)}
	}
	if m.header != headerSchema {
		return nil, corrupt("a record batch, want the schema")
	}
	if e := m.table.i16(0); e != 0 {
		return nil, corrupt("big-endian data, want little-endian")
	}
	l := &layout{}
	if err := l.schema.parseMetadata(m.table, corrupt); err != nil {
		return nil, err
	}
	if _, n := m.table.vector(1, 4); n > MaxColumns {
		return nil, corrupt("%d columns, want at most %d", n, MaxColumns)
	}
	if len(m.body) != 0 {
		return nil, corrupt("a schema with a body")
	}
	return l, l.parseColumns(m.table, corrupt)
}

// parseMetadata reads the metadata of a schema message: the kind of its rows, and what else there is.
func (s *Schema) parseMetadata(schema table, corrupt func(string, ...any) error) error {
	version, now := "", ""
	if _, n := schema.vector(2, 4); n > maxMetadata {
		return corrupt("%d entries of schema metadata, want at most %d", n, maxMetadata)
	}
	schema.tables(2, func(_ int, kv table) {
		_, nk := kv.vector(0, 1)
		_, nv := kv.vector(1, 1)
		if nk > maxName || nv > maxValue {
			return
		}
		switch kv.string(0) {
		case metaKind:
			s.Kind = Kind(kv.string(1))
		case metaVersion:
			version = kv.string(1)
		case metaTxn:
			s.Txn = kv.string(1)
		case metaNow:
			now = kv.string(1)
		case metaEpoch:
			s.Epoch = kv.string(1)
		case metaResolver:
			s.Resolver = kv.string(1)
		}
	})
	if schema.f.err != nil {
		return corrupt("%v", schema.f.err)
	}
	if s.Kind == "" {
		return &fault.Error{Class: fault.WrongKind, Found: "an Arrow stream without " + metaKind + " in its schema's metadata",
			Want: "url, fetch, link or module", Hint: "make a record stream of JSON lines: mcat --from json --kind url"}
	}
	if version != "" && version != formatVersion {
		n, _ := strconv.ParseUint(version, 10, 64)
		return otherVersion("version "+version+" of the record format", n)
	}
	if rowTypeOfKind(s.Kind) == nil {
		return &fault.Error{Class: fault.Version, Found: fmt.Sprintf("rows of kind %q", s.Kind), Want: "url, fetch, link or module"}
	}
	if now != "" {
		t, err := time.Parse(time.RFC3339Nano, now)
		if err != nil {
			return corrupt("%s %q, want RFC 3339", metaNow, now)
		}
		s.Now = TimeOf(t)
	}
	return nil
}

// parseColumns reads the columns of a schema message, whose metadata l has.
func (l *layout) parseColumns(schema table, corrupt func(string, ...any) error) error {
	known := rowTypeOfKind(l.schema.Kind)
	var problem error
	seen := make(map[string]bool)
	schema.tables(1, func(i int, t table) {
		if problem != nil {
			return
		}
		c, err := parseField(t)
		if err == nil && seen[c.name] {
			err = fmt.Errorf("column %q twice", c.name)
		}
		if err != nil {
			problem = corrupt("column %d: %v", i+1, err)
			return
		}
		seen[c.name] = true
		lc := layoutColumn{column: c, known: known.find(c.name)}
		want := c
		if lc.known >= 0 {
			want = known.columns[lc.known]
		} else {
			l.schema.extra = append(l.schema.extra, c)
		}
		if c.typ != want.typ || c.typ == typeTimeUS && lc.known >= 0 && c.zone == "" {
			problem = corrupt("column %q is %s, want %s", c.name, c.typeString(), want.typeString())
			return
		}
		l.columns = append(l.columns, lc)
	})
	if schema.f.err != nil {
		return corrupt("%v", schema.f.err)
	}
	if problem != nil {
		return problem
	}
	for _, c := range known.columns {
		if c.required && !seen[c.name] {
			return corrupt("no column %q, which each stream of kind %s has", c.name, l.schema.Kind)
		}
	}
	slices.SortFunc(l.schema.extra, func(a, b column) int { return cmp.Compare(a.name, b.name) })
	return nil
}

func (c column) typeString() string {
	if c.typ.timestamp() && c.zone != "" {
		return strings.TrimSuffix(c.typ.String(), "]") + ", " + strconv.Quote(c.zone) + "]"
	}
	return c.typ.String()
}

// otherVersion refuses what another version of the format wrote.
func otherVersion(found string, version uint64) error {
	return &fault.Error{Class: fault.Version, Found: found, Want: formatVersion, Hint: release.Reader(release.Records, version)}
}

// parseField reads one Field table of the schema.
func parseField(t table) (column, error) {
	f := t.f
	_, n := t.vector(0, 1)
	if n == 0 || n > maxName {
		return column{}, fmt.Errorf("a name of %d bytes, want 1 to %d", n, maxName)
	}
	c := column{name: t.string(0), nullable: t.u8(1) != 0}
	if !utf8.ValidString(c.name) {
		return column{}, fmt.Errorf("name %q is not UTF-8", c.name)
	}
	kind, typ := t.u8(2), t.table(3)
	_, children := t.vector(5, 4)
	switch {
	case f.err != nil:
		return column{}, f.err
	case t.has(4):
		return column{}, fmt.Errorf("%q is a dictionary, want a plain column", c.name)
	case children != 0:
		return column{}, fmt.Errorf("%q is nested, want a plain column", c.name)
	}
	switch kind {
	case arrowBool:
		c.typ = typeBool
	case arrowUTF8:
		c.typ = typeUTF8
	case arrowBinary:
		c.typ = typeBinary
	case arrowInt:
		base := typeUint8
		if typ.u8(1) != 0 {
			base = typeInt8
		}
		switch typ.i32(0) {
		case 8:
			c.typ = base
		case 16:
			c.typ = base + 1
		case 32:
			c.typ = base + 2
		case 64:
			c.typ = base + 3
		}
	case arrowFloat:
		switch typ.i16(0) {
		case 1:
			c.typ = typeFloat32
		case 2:
			c.typ = typeFloat64
		}
	case arrowTimestamp:
		if u := typ.i16(0); u >= 0 && u <= 3 {
			c.typ = typeTimeS + typeID(u)
		}
		if _, n := typ.vector(1, 1); n > maxName {
			return column{}, fmt.Errorf("%q has a time zone of %d bytes", c.name, n)
		}
		c.zone = typ.string(1)
	}
	if f.err != nil {
		return column{}, f.err
	}
	if c.typ == typeNone || !utf8.ValidString(c.zone) {
		return column{}, fmt.Errorf("%q has Arrow type %d, which is not part of this format", c.name, kind)
	}
	return c, nil
}

// batch is a decoded record batch: parts of the message, nothing copied.
type batch struct {
	rows  int
	known []inColumn  // in table order; absent columns are not present
	extra *extraBatch // nil if the stream has no unknown columns
}

// parseBatch checks the layout of a record batch and finds its columns. first is
// the schema that unknown columns are ordered by: of the input's first stream.
func parseBatch(m message, l *layout, first *Schema) (batch, error) {
	if m.header != headerBatch {
		return batch{}, errors.New("a second schema, want a record batch")
	}
	t := m.table
	f := t.f
	rows := t.i64(0)
	if t.has(3) {
		return batch{}, errors.New("compressed buffers: this format compresses whole messages only")
	}
	if t.has(4) {
		if _, n := t.vector(4, 8); n != 0 {
			return batch{}, errors.New("variadic buffers are not part of this format")
		}
	}
	nodes, n := t.vector(1, 16)
	buffers, nb := t.vector(2, 16)
	want := 0
	for _, c := range l.columns {
		want += 2
		if c.typ.variable() {
			want++
		}
	}
	switch {
	case f.err != nil:
		return batch{}, f.err
	case rows < 0 || rows > MaxMessage:
		return batch{}, fmt.Errorf("a batch of %d rows", rows)
	case n != len(l.columns):
		return batch{}, fmt.Errorf("%d columns, and the schema has %d", n, len(l.columns))
	case nb != want:
		return batch{}, fmt.Errorf("%d buffers, want %d", nb, want)
	}
	b := batch{rows: int(rows), known: make([]inColumn, len(rowTypeOfKind(l.schema.Kind).fields))}
	if len(first.extra) > 0 {
		b.extra = &extraBatch{schema: first, columns: make([]inColumn, len(first.extra))}
	}
	end := int64(0) // of the buffer before
	take := func() ([]byte, error) {
		offset, length := f.i64(buffers), f.i64(buffers+8)
		buffers += 16
		if length == 0 && offset >= 0 && offset <= int64(len(m.body)) {
			return nil, nil
		}
		if offset%8 != 0 || offset < end || length < 0 || offset > int64(len(m.body)) || length > int64(len(m.body))-offset {
			return nil, fmt.Errorf("a buffer of %d bytes at %d, behind %d in a body of %d", length, offset, end, len(m.body))
		}
		end = offset + length
		return m.body[offset:end:end], nil
	}
	for i, lc := range l.columns {
		c, err := parseColumn(lc.column, int(rows), f.i64(nodes+16*i), f.i64(nodes+16*i+8), take)
		if err != nil {
			return batch{}, fmt.Errorf("column %q: %w", lc.name, err)
		}
		if lc.known >= 0 {
			b.known[lc.known] = c
		} else {
			b.extra.columns[first.findExtra(lc.name)] = c
		}
	}
	return b, f.err
}

func parseColumn(c column, rows int, length, nulls int64, take func() ([]byte, error)) (inColumn, error) {
	in := inColumn{present: true}
	if length != int64(rows) || nulls < 0 || nulls > length {
		return in, fmt.Errorf("%d values, %d of them null, in a batch of %d rows", length, nulls, rows)
	}
	valid, err := take()
	if err != nil {
		return in, err
	}
	if nulls > 0 || len(valid) > 0 {
		if len(valid) < (rows+7)/8 {
			return in, fmt.Errorf("%d bytes of validity for %d rows", len(valid), rows)
		}
		if n := rows - ones(valid, rows); int64(n) != nulls {
			return in, fmt.Errorf("%d nulls, and its metadata says %d", n, nulls)
		}
	}
	if nulls > 0 {
		in.valid = valid
	}
	if c.typ.variable() {
		if in.offsets, err = take(); err != nil {
			return in, err
		}
	}
	if in.data, err = take(); err != nil {
		return in, err
	}
	if !c.typ.variable() {
		need := rows * c.typ.width()
		if c.typ == typeBool {
			need = (rows + 7) / 8
		}
		if len(in.data) < need {
			return in, fmt.Errorf("%d bytes for %d rows of %s", len(in.data), rows, c.typ)
		}
		return in, nil
	}
	if rows == 0 {
		return in, nil
	}
	if len(in.offsets) < 4*(rows+1) {
		return in, fmt.Errorf("%d bytes of offsets for %d rows", len(in.offsets), rows)
	}
	if c.typ == typeUTF8 {
		in.chars = stringOf(in.data)
	}
	return in, checkOffsets(&in, rows, c.typ == typeUTF8)
}

// checkOffsets wants offsets that rise within the data and, for text, cut no
// character and hold only UTF-8.
func checkOffsets(in *inColumn, rows int, text bool) error {
	last := binary.LittleEndian.Uint32(in.offsets)
	for i := 1; i <= rows; i++ {
		o := binary.LittleEndian.Uint32(in.offsets[4*i:])
		if o < last {
			return fmt.Errorf("offset %d of row %d behind %d", o, i, last)
		}
		last = o
	}
	if uint64(last) > uint64(len(in.data)) {
		return fmt.Errorf("offset %d in %d bytes of data", last, len(in.data))
	}
	if !text {
		return nil
	}
	first := binary.LittleEndian.Uint32(in.offsets)
	used := in.chars[first:last]
	if ascii(used) {
		return nil
	}
	if !utf8.ValidString(used) {
		return errors.New("text that is not UTF-8")
	}
	for i := 1; i < rows; i++ {
		if o := binary.LittleEndian.Uint32(in.offsets[4*i:]); o < last && !utf8.RuneStart(in.data[o]) {
			return fmt.Errorf("row %d begins inside a character", i+1)
		}
	}
	return nil
}

func ascii(s string) bool {
	const high = 0x8080808080808080
	word := func(at int) uint64 { return binary.LittleEndian.Uint64([]byte(s[at : at+8])) }
	n := len(s)
	if n < 8 {
		for i := range n {
			if s[i] >= 0x80 {
				return false
			}
		}
		return true
	}
	at := 0
	for ; at+32 <= n; at += 32 {
		if (word(at)|word(at+8)|word(at+16)|word(at+24))&high != 0 {
			return false
		}
	}
	for ; at+8 <= n; at += 8 {
		if word(at)&high != 0 {
			return false
		}
	}
	return word(n-8)&high == 0 // some of them again
}
