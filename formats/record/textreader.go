package record

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/pkg/base/fault"
)

// Forms of rows as text.
const (
	FormJSON = "json" // an object a line
	FormTSV  = "tsv"  // values between tabs, with \t, \n, \r, \\ and \u00XX; the first line names the columns
	FormCSV  = "csv"  // RFC 4180; the first record names the columns
)

// FormOf is the form of rows in a file of that name, in either case; "" for any other, which has no columns.
func FormOf(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return FormCSV
	case ".tsv":
		return FormTSV
	case ".jsonl":
		return FormJSON
	}
	return ""
}

// lineMax bounds a line of text, in bytes: a row with its bytes in base64.
const lineMax = MaxRow * 3 / 2

// TextReader reads rows from text. One goroutine.
type TextReader[T Row] struct {
	form   string
	schema *Schema
	text   *Text[T] // nil until the columns are known
	lines  *bufio.Scanner
	table  *csv.Reader
	window *window
	line   int
}

// NewTextReader reads rows of a form; s as in NewText.
func NewTextReader[T Row](in io.Reader, form string, s *Schema) *TextReader[T] {
	r := &TextReader[T]{form: form, schema: s}
	buf := bufio.NewReader(in)
	if bom, _ := buf.Peek(3); string(bom) == "\xEF\xBB\xBF" {
		buf.Discard(3)
	}
	if form == FormCSV {
		r.window = &window{in: buf}
		r.table = csv.NewReader(r.window)
		r.table.FieldsPerRecord, r.table.ReuseRecord = -1, true
	} else {
		r.lines = bufio.NewScanner(buf)
		r.lines.Buffer(nil, lineMax)
	}
	return r
}

// Line is the number of the line that was read last, or that begins it.
func (r *TextReader[T]) Line() int { return r.line }

// Read fills row. An error bad is of one line, behind which reading can go on; err is io.EOF, or ends it.
func (r *TextReader[T]) Read(row *T) (bad, err error) {
	if r.text == nil {
		if err := r.header(); err != nil {
			return nil, err
		}
	}
	if r.table != nil {
		cells, bad, err := r.record()
		if bad == nil && err == nil {
			bad = r.text.ParseCells(cells, row)
		}
		return bad, err
	}
	line, err := r.next()
	if err != nil {
		return nil, err
	}
	if r.form == FormJSON {
		return r.text.ParseJSON([]byte(line), row), nil
	}
	return r.text.ParseTSV(line, row), nil
}

// header reads the names of the columns, where they stand in the text.
func (r *TextReader[T]) header() error {
	var names []string
	var err, bad error
	switch r.form {
	case FormCSV:
		names, bad, err = r.record()
		err = errors.Join(bad, err)
	case FormTSV:
		var line string
		line, err = r.next()
		names = strings.Split(line, "\t")
	}
	for i, name := range names {
		if err == nil && slices.Contains(names[:i], name) {
			return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("column %q a second time", name), Want: "each column once"}
		}
	}
	if err == nil {
		r.text, err = NewText[T](r.schema, names)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("no line of column names")
	}
	if e := (*fault.Error)(nil); errors.As(err, &e) && e.Hint == "" {
		e.Hint = hintColumn[T](r.schema, names)
	}
	return err
}

// hintColumn tells what the first of the columns may be that rows do not have: a typing error, or a user column.
func hintColumn[T Row](schema *Schema, names []string) string {
	all, err := NewText[T](schema, nil)
	if err != nil {
		return ""
	}
	for _, name := range names {
		if _, ok := all.find(name); ok {
			continue
		}
		hint := fault.DidYouMean(name, slices.Sorted(maps.Keys(all.byName)))
		switch user := userPrefix + name; {
		case !isUserColumn(user) || all.table.find(userColumn) < 0:
			return hint
		case hint == "":
			return fmt.Sprintf("name it %s to carry it with its URL", user)
		default:
			return fmt.Sprintf("%s A column of your own is named %s", hint, user)
		}
	}
	return ""
}

// next is the next line that is not empty.
func (r *TextReader[T]) next() (string, error) {
	for r.lines.Scan() {
		r.line++
		if line := r.lines.Text(); line != "" {
			return line, nil
		}
	}
	if err := r.lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		r.line++
		return "", fmt.Errorf("a line longer than %d bytes", lineMax)
	} else if err != nil {
		return "", err
	}
	return "", io.EOF
}

// record is the next record of a CSV file.
func (r *TextReader[T]) record() (cells []string, bad, err error) {
	r.window.left = lineMax
	cells, err = r.table.Read()
	if e := (*csv.ParseError)(nil); errors.As(err, &e) {
		r.line = e.StartLine
		return nil, fmt.Errorf("%w in line %d", e.Err, e.Line), nil
	}
	if err == nil {
		for i, c := range cells {
			cells[i] = CSVValue(c)
		}
		r.line, _ = r.table.FieldPos(0)
	} else if err != io.EOF {
		r.line++
	}
	return cells, nil, err
}

// CSVCell is a value as it stands in CSV. To spreadsheets a cell that begins with one of "=+-@", a tab or CR is a formula, which may run programs or send
// other cells away; the value may come from a server. Such a cell gets an apostrophe before it, but for a number. One that begins like a cell with apostrophes gets
// one more, so that CSVValue gives back each value.
func CSVCell(value string) string {
	if !isFormula(strings.TrimLeft(value, "'")) {
		return value
	}
	if value[0] != '\'' {
		if _, err := strconv.ParseFloat(value, 64); err == nil {
			return value
		}
	}
	return "'" + value
}

// CSVValue is the value of a cell that CSVCell made.
func CSVValue(cell string) string {
	if strings.HasPrefix(cell, "'") && isFormula(strings.TrimLeft(cell, "'")) {
		return cell[1:]
	}
	return cell
}

func isFormula(s string) bool { return s != "" && strings.IndexByte("=+-@\t\r", s[0]) >= 0 }

// window lets a limited number of bytes through: a quote that is never closed would take all memory.
type window struct {
	in   io.Reader
	left int
}

func (w *window) Read(b []byte) (int, error) {
	if w.left <= 0 {
		return 0, fmt.Errorf("a record longer than %d bytes", lineMax)
	}
	n, err := w.in.Read(b)
	w.left -= n
	return n, err
}
