package record

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"mercator/pkg/base/fault"
)

// Text turns rows into lines of text and back: JSON objects, values between
// tabs, or cells of a table. Keys and fingerprints are 16 hex digits, times RFC 3339 in UTC (outside the
// years 0 to 9999: @ and the number in the column's unit), bytes base64. No line holds a control character: JSON has \u00XX for it, TSV has \t,
// \n, \r, \\ and \u00XX.
//
// User columns, x_NAME, are columns wherever they are named, and in JSON. In a
// table without named columns, the column x holds them all.
type Text[T Row] struct {
	columns []textColumn
	byName  map[string]textColumn // all columns, for ParseJSON
	schema  *Schema
	table   *rowType
	chosen  bool   // the columns were named
	round   string // the column "round"
}

// textColumn is a column of the output.
type textColumn struct {
	column
	known *field // nil for any but a known column
	extra int    // place in schema.extra
	user  string // of a column x_NAME: the name in the column x; "": any other column
	round bool   // the column of InRound
}

// roundColumn is no column of rows: it says in which round they were made.
const roundColumn = "round"

// hex says that the column's values are keys or fingerprints.
func (c textColumn) hex() bool { return c.known != nil && c.typ == typeUint64 }

// ColumnNames lists the columns of rows of type T as text has them, in order.
func ColumnNames[T Row]() []string {
	t, err := NewText[T](nil, nil)
	if err != nil {
		panic(err) // no column was asked for
	}
	return t.Columns()
}

// NewText makes a Text of the named columns, or of all where none are named. s may be nil: no unknown columns.
func NewText[T Row](s *Schema, columns []string) (*Text[T], error) {
	t := rowTypeOf[T]()
	if s == nil {
		s = &Schema{Kind: t.kind}
	}
	x := &Text[T]{schema: s, byName: map[string]textColumn{}, table: t}
	var all []textColumn
	for i, c := range t.columns {
		all = append(all, textColumn{column: c, known: &t.fields[i]})
	}
	for i, c := range s.extra {
		all = append(all, textColumn{column: c, extra: i})
	}
	x.columns = all
	var names []string
	for _, c := range all {
		x.byName[c.name] = c
		names = append(names, c.name)
	}
	if _, ok := x.byName[roundColumn]; !ok {
		x.byName[roundColumn] = textColumn{column: column{name: roundColumn, typ: typeUTF8}, round: true}
	}
	if columns != nil {
		x.columns, x.chosen = nil, true
		for _, n := range columns {
			c, ok := x.find(n)
			if !ok {
				return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("column %q of %s rows", n, t.kind), Want: "one of " + strings.Join(names, ", ")}
			}
			x.columns = append(x.columns, c)
		}
	}
	return x, nil
}

// find is the column of a name.
func (x *Text[T]) find(name string) (textColumn, bool) {
	c, ok := x.byName[name]
	if !ok && isUserColumn(name) && x.table.find(userColumn) >= 0 {
		return textColumn{column: column{name: name, typ: typeUTF8}, user: name[len(userPrefix):]}, true
	}
	return c, ok
}

// InRound gives the rows that follow a column "round", behind all others unless columns were named.
func (x *Text[T]) InRound(name string) {
	x.round = name
	if c := x.byName[roundColumn]; c.round && !x.chosen && !x.columns[len(x.columns)-1].round {
		x.columns = append(x.columns, c)
	}
}

// user is the row's column x, taken apart.
func (x *Text[T]) user(row *T) map[string]any {
	if i := x.table.find(userColumn); i >= 0 {
		return userValues(x.table.fields[i].get(unsafe.Pointer(row)).str)
	}
	return nil
}

// Columns names the columns, in order.
func (x *Text[T]) Columns() []string {
	var names []string
	for _, c := range x.columns {
		names = append(names, c.name)
	}
	return names
}

// extraValue is the value of an unknown column.
func (x *Text[T]) extraValue(c textColumn, e Extra) value {
	if e.batch == nil {
		return value{null: true}
	}
	i := c.extra
	if e.batch.schema != x.schema {
		i = e.batch.schema.findExtra(c.name)
	}
	if i < 0 || e.batch.schema.extra[i].typ != c.typ || e.batch.columns[i].null(e.row) {
		return value{null: true}
	}
	in := &e.batch.columns[i]
	switch c.typ {
	case typeUTF8:
		return value{str: in.text(e.row)}
	case typeBinary:
		return value{str: string(in.binary(e.row))}
	case typeBool:
		if in.boolean(e.row) {
			return value{num: 1}
		}
		return value{}
	}
	switch c.typ.width() {
	case 1:
		return value{num: uint64(in.u8(e.row))}
	case 2:
		return value{num: uint64(in.u16(e.row))}
	case 4:
		return value{num: uint64(in.u32(e.row))}
	}
	return value{num: in.u64(e.row)}
}

// value is the row's value of a column; text is valid.
func (x *Text[T]) value(c textColumn, row *T) value {
	p := unsafe.Pointer(row)
	switch {
	case c.user != "":
		v, ok := x.user(row)[c.user]
		return value{str: userString(v), null: !ok}
	case c.round:
		return value{str: x.round, null: x.round == ""}
	case c.known == nil:
		return x.extraValue(c, *x.table.extraOf(p))
	}
	v := c.known.get(p)
	v.str = strings.ToValidUTF8(v.str, "\uFFFD")
	return v
}

// AppendJSON appends the row as one JSON object, without a line end. Sparse
// leaves out what is empty, zero or null, so that equal rows give equal text
// whatever columns their stream had.
func (x *Text[T]) AppendJSON(dst []byte, row *T, sparse bool) []byte {
	dst = append(dst, '{')
	first := true
	for _, c := range x.columns {
		if c.name == userColumn && !x.chosen {
			user := x.user(row)
			if user != nil || c.known.get(unsafe.Pointer(row)).str == "" {
				for _, name := range slices.Sorted(maps.Keys(user)) {
					if !first {
						dst = append(dst, ',')
					}
					first = false
					dst = append(appendJSONString(dst, userPrefix+name), ':')
					dst = appendUser(dst, user[name])
				}
				continue
			}
		}
		v := x.value(c, row)
		if sparse && (v.null || c.known != nil && v.num == 0 && v.str == "") {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendJSONString(dst, c.name)
		dst = append(dst, ':')
		if v.null {
			dst = append(dst, "null"...)
			continue
		}
		switch {
		case c.user != "":
			dst = appendUser(dst, x.user(row)[c.user])
		case c.typ == typeUTF8:
			dst = appendJSONString(dst, v.str)
		case c.typ == typeBinary, c.hex(), c.typ.timestamp(), !c.finite(v):
			dst = append(c.appendPlain(append(dst, '"'), v), '"')
		default:
			dst = c.appendPlain(dst, v)
		}
	}
	return append(dst, '}')
}

// finite is false for the floats that JSON has no number for.
func (c textColumn) finite(v value) bool {
	f := 0.0
	switch c.typ {
	case typeFloat32:
		f = float64(math.Float32frombits(uint32(v.num)))
	case typeFloat64:
		f = math.Float64frombits(v.num)
	}
	return !math.IsNaN(f) && !math.IsInf(f, 0)
}

// AppendTSV appends the row's values between tabs, without a line end. Null is
// the empty string.
func (x *Text[T]) AppendTSV(dst []byte, row *T) []byte {
	for i, c := range x.columns {
		if i > 0 {
			dst = append(dst, '\t')
		}
		switch v := x.value(c, row); {
		case v.null:
		case c.typ == typeUTF8:
			dst = AppendEscaped(dst, v.str)
		default:
			dst = c.appendPlain(dst, v)
		}
	}
	return dst
}

// AppendCells appends the row's values as they are, control characters too, for a table. Null is the empty string.
func (x *Text[T]) AppendCells(dst []string, row *T) []string {
	for _, c := range x.columns {
		switch v := x.value(c, row); {
		case v.null:
			dst = append(dst, "")
		case c.typ == typeUTF8:
			dst = append(dst, v.str)
		default:
			dst = append(dst, string(c.appendPlain(nil, v)))
		}
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendPlain appends a value that is not text, in a form without quotes.
func (c textColumn) appendPlain(dst []byte, v value) []byte {
	switch c.typ {
	case typeBool:
		return strconv.AppendBool(dst, v.num != 0)
	case typeFloat32:
		return strconv.AppendFloat(dst, float64(math.Float32frombits(uint32(v.num))), 'g', -1, 32)
	case typeFloat64:
		return strconv.AppendFloat(dst, math.Float64frombits(v.num), 'g', -1, 64)
	case typeBinary:
		return base64.StdEncoding.AppendEncode(dst, []byte(v.str))
	case typeInt8:
		return strconv.AppendInt(dst, int64(int8(v.num)), 10)
	case typeInt16:
		return strconv.AppendInt(dst, int64(int16(v.num)), 10)
	case typeInt32:
		return strconv.AppendInt(dst, int64(int32(v.num)), 10)
	case typeInt64:
		return strconv.AppendInt(dst, int64(v.num), 10)
	case typeTimeS, typeTimeMS, typeTimeUS, typeTimeNS:
		t := timeOf(c.typ, int64(v.num))
		if y := t.Year(); y < 0 || y > 9999 { // RFC 3339 has no such years
			return strconv.AppendInt(append(dst, '@'), int64(v.num), 10)
		}
		return t.AppendFormat(dst, time.RFC3339Nano)
	}
	if c.hex() {
		for shift := 60; shift >= 0; shift -= 4 {
			dst = append(dst, hexDigits[v.num>>shift&15])
		}
		return dst
	}
	return strconv.AppendUint(dst, v.num, 10)
}

func timeOf(typ typeID, n int64) time.Time {
	switch typ {
	case typeTimeS:
		return time.Unix(n, 0).UTC()
	case typeTimeMS:
		return time.UnixMilli(n).UTC()
	case typeTimeUS:
		return time.UnixMicro(n).UTC()
	}
	return time.Unix(n/1e9, n%1e9).UTC()
}

// control reports whether r must not reach a terminal.
func control(r rune) bool {
	return r < ' ' || r >= 0x7F && r < 0xA0 || r == 0x2028 || r == 0x2029
}

func appendUnicodeEscape(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case control(r):
			dst = appendUnicodeEscape(dst, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// AppendEscaped appends s as it stands in TSV: backslash and control characters
// as \\, \t, \n, \r or \u00XX.
func AppendEscaped(dst []byte, s string) []byte {
	for _, r := range s {
		switch {
		case r == '\\':
			dst = append(dst, `\\`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case control(r):
			dst = appendUnicodeEscape(dst, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch {
		case i < len(s) && s[i] == '\\':
			b.WriteByte('\\')
		case i < len(s) && s[i] == 't':
			b.WriteByte('\t')
		case i < len(s) && s[i] == 'n':
			b.WriteByte('\n')
		case i < len(s) && s[i] == 'r':
			b.WriteByte('\r')
		case i+4 < len(s) && s[i] == 'u':
			n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", fmt.Errorf("escape %q", s[i-1:i+5])
			}
			b.WriteRune(rune(n))
			i += 4
		default:
			return "", fmt.Errorf("a backslash that begins no escape in %q", s)
		}
	}
	return b.String(), nil
}

// ParseJSON reads one JSON object. Its names must be columns; missing columns and
// null are zero. Numbers may also be written as strings.
func (x *Text[T]) ParseJSON(line []byte, row *T) error {
	return x.parseJSON(line, row, filler[T]{x: x}, false)
}

// SetJSON sets the columns that one JSON object names, which are some of those that x was made with, and leaves the
// others of the row as they are. A row that is refused stays as it was. A column that stands twice is refused.
func (x *Text[T]) SetJSON(line []byte, row *T) error {
	if name := twice(line); name != "" {
		return fmt.Errorf("column %q stands twice", name)
	}
	return x.parseJSON(line, row, filler[T]{x: x, row: *row}, true)
}

// twice is the first name that a JSON object has had before; "": none, or it is no object.
func twice(line []byte) string {
	d := json.NewDecoder(bytes.NewReader(line))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	var names []string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return ""
		}
		var value json.RawMessage
		if text, ok := name.(string); !ok || d.Decode(&value) != nil {
			return ""
		} else if slices.Contains(names, text) {
			return text
		} else {
			names = append(names, text)
		}
	}
	return ""
}

func (x *Text[T]) parseJSON(line []byte, row *T, fill filler[T], chosen bool) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var obj map[string]any
	if err := d.Decode(&obj); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more than one JSON object in a line")
	}
	names := make([]string, 0, len(obj))
	for n := range obj {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		c, ok := x.find(n)
		if !ok {
			return x.noColumn(n)
		}
		if chosen && !slices.Contains(x.Columns(), n) {
			return fmt.Errorf("column %q cannot be changed here, want one of %s", n, strings.Join(x.Columns(), ", "))
		}
		if c.user != "" {
			if err := fill.user(c.user, obj[n]); err != nil {
				return err
			}
			continue
		}
		var s string
		switch v := obj[n].(type) {
		case nil:
			if !chosen {
				continue
			}
			return fmt.Errorf("column %q: null, want a value", n)
		case string:
			s = v
		case bool:
			s = strconv.FormatBool(v)
		case json.Number:
			s = v.String()
		default:
			return fmt.Errorf("column %q: an object or a list, want one value", n)
		}
		if v, err := c.parse(s); chosen && err == nil && !c.finite(v) {
			return fmt.Errorf("column %q: %q, want a finite number", n, s)
		}
		if err := fill.set(c, s); err != nil {
			return err
		}
	}
	return fill.endRow(row)
}

// noColumn says that rows have no column of a name.
func (x *Text[T]) noColumn(name string) error {
	err := fmt.Errorf("column %q is not one of %s rows", name, x.table.kind)
	if user := userPrefix + name; isUserColumn(user) && x.table.find(userColumn) >= 0 {
		err = fmt.Errorf("%w; as a column of your own it would be named %s", err, user)
	}
	return err
}

// ParseTSV reads one line of values in the order of Columns. Empty values are
// null, or zero.
func (x *Text[T]) ParseTSV(line string, row *T) error {
	values := strings.Split(line, "\t")
	for i, s := range values {
		var err error
		if values[i], err = unescape(s); err != nil && i < len(x.columns) {
			return fmt.Errorf("column %q: %w", x.columns[i].name, err)
		}
	}
	return x.ParseCells(values, row)
}

// ParseCells reads values in the order of Columns. Empty values are null, or zero.
func (x *Text[T]) ParseCells(values []string, row *T) error {
	fill := filler[T]{x: x}
	if len(values) != len(x.columns) {
		return fmt.Errorf("%d values, want %d", len(values), len(x.columns))
	}
	for i, c := range x.columns {
		if values[i] == "" {
			continue
		}
		if !utf8.ValidString(values[i]) {
			return fmt.Errorf("column %q: %.80q, want UTF-8", c.name, values[i])
		}
		if err := fill.set(c, values[i]); err != nil {
			return err
		}
	}
	return fill.endRow(row)
}

// filler collects a row's values.
type filler[T Row] struct {
	x      *Text[T]
	row    T
	values map[string]any // of the column x
}

// user takes a value of the column x.
func (f *filler[T]) user(name string, v any) error {
	switch v.(type) {
	case nil:
		return nil
	case string, json.Number, bool:
	default:
		return fmt.Errorf("column %q: an object or a list, want one value", userPrefix+name)
	}
	if f.values == nil {
		f.values = map[string]any{}
	}
	f.values[name] = v
	return nil
}

// endRow gives the row.
func (f *filler[T]) endRow(row *T) error {
	if f.values != nil {
		user, err := userText(f.values)
		if err != nil {
			return err
		}
		f.x.byName[userColumn].known.set(unsafe.Pointer(&f.row), value{str: user})
	}
	*row = f.row
	return nil
}

func (f *filler[T]) set(c textColumn, s string) error {
	switch {
	case c.round:
		return nil
	case c.user != "":
		return f.user(c.user, s)
	case c.name == userColumn && c.known != nil && s != "":
		values := userValues(s)
		if values == nil {
			return fmt.Errorf("column %q: %.80q, want %w", c.name, s, errUser)
		}
		for name, v := range values {
			if err := f.user(name, v); err != nil {
				return err
			}
		}
		return nil
	}
	v, err := c.parse(s)
	if err != nil {
		return fmt.Errorf("column %q: %q, want %s", c.name, s, err)
	}
	p := unsafe.Pointer(&f.row)
	if c.known != nil {
		c.known.set(p, v)
		return nil
	}
	e := f.x.table.extraOf(p)
	if e.batch == nil {
		e.batch = &extraBatch{schema: f.x.schema, columns: make([]inColumn, len(f.x.schema.extra))}
	}
	if !c.typ.variable() {
		v.str = string(binary.LittleEndian.AppendUint64(nil, v.num)[:max(c.typ.width(), 1)])
	}
	e.batch.columns[c.extra] = oneValue(c.typ, v.str)
	return nil
}

// wanted is an error that describes the value expected.
type wanted string

func (w wanted) Error() string { return string(w) }

// parse reads a value; the error says what was wanted.
func (c textColumn) parse(s string) (value, error) {
	switch c.typ {
	case typeUTF8:
		return value{str: s}, nil
	case typeBinary:
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return value{}, wanted("base64")
		}
		return value{str: string(b)}, nil
	case typeBool:
		switch s {
		case "true", "1":
			return value{num: 1}, nil
		case "false", "0":
			return value{}, nil
		}
		return value{}, wanted("true or false")
	case typeFloat32:
		f, err := strconv.ParseFloat(s, 32)
		if err != nil {
			return value{}, wanted("a number")
		}
		return value{num: uint64(math.Float32bits(float32(f)))}, nil
	case typeFloat64:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return value{}, wanted("a number")
		}
		return value{num: math.Float64bits(f)}, nil
	case typeTimeS, typeTimeMS, typeTimeUS, typeTimeNS:
		if at, ok := strings.CutPrefix(s, "@"); ok {
			if n, err := strconv.ParseInt(at, 10, 64); err == nil {
				return value{num: uint64(n)}, nil
			}
		}
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return value{}, wanted("a time such as 2026-11-21T10:00:00Z")
		}
		n := map[typeID]int64{typeTimeS: t.Unix(), typeTimeMS: t.UnixMilli(), typeTimeUS: t.UnixMicro(), typeTimeNS: t.UnixNano()}[c.typ]
		return value{num: uint64(n)}, nil
	case typeInt8, typeInt16, typeInt32, typeInt64:
		n, err := strconv.ParseInt(s, 10, 8*c.typ.width())
		if err != nil {
			return value{}, wanted(c.typ.String())
		}
		return value{num: uint64(n)}, nil
	}
	if c.hex() {
		n, err := strconv.ParseUint(s, 16, 64)
		if err != nil || len(s) != 16 {
			return value{}, wanted("16 hex digits")
		}
		return value{num: n}, nil
	}
	n, err := strconv.ParseUint(s, 10, 8*c.typ.width())
	if err != nil {
		return value{}, wanted(c.typ.String())
	}
	return value{num: n}, nil
}
