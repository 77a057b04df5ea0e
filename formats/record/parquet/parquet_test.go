package parquet

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"

	"mercator/formats/record"
	"mercator/pkg/base/must"
)

// TestRoundTrip reads the values back by another path of the library, over several row groups. That programs of
// others read the files is seen by make interop.
func TestRoundTrip(t *testing.T) {
	const rows = groupRows + 100
	like := record.NewSchema(record.KindFetch, record.Column{Name: "x_id"})
	var out bytes.Buffer
	w, err := NewWriter[record.Fetch](&out, like, nil)
	must.OK(t, err)
	for i := range rows {
		row := record.Fetch{URL: fmt.Sprintf("http://h/%d", i), Host: "h", Key: math.MaxUint64 - uint64(i), Role: record.RolePage, Outcome: record.OutcomeFetched,
			Status: 200, Attempt: uint8(i), Score: 0.5, Duplicate: i%3 == 0, DurationUS: -int64(i), Extra: like.Extra(func(string) uint64 { return uint64(i) })}
		if i%2 == 0 {
			row.FetchTime = record.Time(i)
		}
		must.OK(t, w.Write(&row, "", fmt.Sprintf("r%d", 1+i/1000)))
	}
	if _, err := file.NewParquetReader(bytes.NewReader(out.Bytes())); err == nil {
		t.Error("a file that was not closed is read")
	}
	must.OK(t, w.Close())
	r, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
	must.OK(t, err)
	if r.NumRows() != rows || r.NumRowGroups() < 2 {
		t.Fatalf("%d rows in %d groups", r.NumRows(), r.NumRowGroups())
	}
	at, names := 0, map[string]string{}
	for g := range r.NumRowGroups() {
		group := r.RowGroup(g)
		n := int(group.NumRows())
		for c := range group.NumColumns() {
			d := r.MetaData().Schema.Column(c)
			names[d.Name()] = d.LogicalType().String()
			chunk, err := group.Column(c)
			must.OK(t, err)
			expect := func(i int, got, want any) {
				if got != want {
					t.Fatalf("row %d: %s is %v, want %v", at+i, d.Name(), got, want)
				}
			}
			levels := make([]int16, n)
			switch d.Name() {
			case "url_key", "duration_us", "x_id", "fetch_time":
				values := make([]int64, n)
				for done, set := 0, 0; done < n; {
					total, read, err := chunk.(*file.Int64ColumnChunkReader).ReadBatch(int64(n-done), values[set:], levels[done:], nil)
					if err != nil || total == 0 {
						t.Fatal(total, err)
					}
					done, set = done+int(total), set+read
				}
				for i, set := 0, 0; i < n; i++ {
					switch d.Name() {
					case "url_key":
						expect(i, uint64(values[i]), math.MaxUint64-uint64(at+i))
					case "duration_us":
						expect(i, values[i], -int64(at+i))
					case "x_id":
						expect(i, values[i], int64(at+i))
					default:
						is := (at+i)%2 == 0 && at+i > 0
						expect(i, levels[i] == 1, is)
						if is {
							expect(i, values[set], int64(at+i))
							set++
						}
					}
				}
			case "attempt":
				values := make([]int32, n)
				if _, _, err := chunk.(*file.Int32ColumnChunkReader).ReadBatch(1, values, levels, nil); err != nil {
					t.Fatal(err)
				}
				expect(0, values[0], int32(uint8(at)))
			}
		}
		at += n
	}
	for name, want := range map[string]string{"url_key": "Int(bitWidth=64, isSigned=false)", "attempt": "Int(bitWidth=8, isSigned=false)", "url": "String",
		"round": "String", "fetch_time": "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false)"} {
		if names[name] != want {
			t.Errorf("%s: %s, want %s", name, names[name], want)
		}
	}
}

// TestTable makes columns of rows, over several row groups. A column that rows have goes before one that is made.
func TestTable(t *testing.T) {
	const rows = groupRows + 100
	var text, none string
	var small int16
	var large int32
	table := &Table[record.Fetch]{
		Columns: []Column{{Name: "made", Text: &text}, {Name: "url"}, {Name: "status_is", Int16: &small, Required: true}, {Name: "port", Int32: &large}, {Name: "language", Text: &none}},
		Instead: []string{"status"},
		Row: func(row *record.Fetch, path, round string) {
			text, small, large = "", int16(row.Status), int32(row.Status%3)
			if row.Status%2 == 0 {
				text = path + round
			}
		},
	}
	language := (&record.Schema{Kind: record.KindFetch}).WithText("language")
	var out bytes.Buffer
	w, err := NewWriter(&out, language, table)
	must.OK(t, err)
	for i := range rows {
		row := record.Fetch{URL: "http://h/", Host: "h", Role: record.RolePage, Outcome: record.OutcomeFetched, Status: uint16(i % 1000),
			Extra: language.AddText(record.Extra{}, "language", fmt.Sprint(i))}
		must.OK(t, w.Write(&row, "f/", "r1"))
	}
	must.OK(t, w.Close())
	r, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
	must.OK(t, err)
	var names []string
	for i := range r.MetaData().Schema.NumColumns() {
		d := r.MetaData().Schema.Column(i)
		names = append(names, fmt.Sprint(d.Name(), " ", d.PhysicalType(), " ", d.LogicalType(), " ", d.MaxDefinitionLevel()))
	}
	for i, want := range []string{"made BYTE_ARRAY String 1", "url BYTE_ARRAY String 0", "status_is INT32 Int(bitWidth=16, isSigned=true) 0", "port INT32 Int(bitWidth=32, isSigned=true) 1",
		"language BYTE_ARRAY String 1", "url_key INT64 Int(bitWidth=64, isSigned=false) 0"} {
		if names[i] != want {
			t.Errorf("column %d: %s, want %s", i, names[i], want)
		}
	}
	if last := names[len(names)-1]; last != "round BYTE_ARRAY String 0" || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "status ") }) {
		t.Error(names)
	}
	at := 0
	for g := range r.NumRowGroups() {
		group := r.RowGroup(g)
		n := int(group.NumRows())
		made, smalls, larges, languages := textOf(t, group, 0), int32sOf(t, group, 2), int32sOf(t, group, 3), textOf(t, group, 4)
		for i := range n {
			status := (at + i) % 1000
			text := ""
			if status%2 == 0 {
				text = "f/r1"
			}
			if made[i] != text || smalls[i] != int32(status) || larges[i] != int32(status%3) || languages[i] != fmt.Sprint(at+i) {
				t.Fatalf("row %d: %q %d %d %q", at+i, made[i], smalls[i], larges[i], languages[i])
			}
		}
		at += n
	}
	if at != rows || r.NumRowGroups() < 2 {
		t.Errorf("%d rows in %d groups", at, r.NumRowGroups())
	}
}

// textOf reads a column of text, "" for null.
func textOf(t *testing.T, group *file.RowGroupReader, column int) (all []string) {
	t.Helper()
	chunk, err := group.Column(column)
	must.OK(t, err)
	read := chunk.(*file.ByteArrayColumnChunkReader)
	for int64(len(all)) < group.NumRows() {
		values, levels := make([]parquet.ByteArray, 1000), make([]int16, 1000)
		total, _, err := read.ReadBatch(1000, values, levels, nil)
		if err != nil || total == 0 {
			t.Fatal(total, err)
		}
		for i := range total {
			text := ""
			if levels[i] == read.Descriptor().MaxDefinitionLevel() {
				text, values = string(values[0]), values[1:]
			}
			all = append(all, text)
		}
	}
	return all
}

// int32sOf reads a column of numbers, 0 for null.
func int32sOf(t *testing.T, group *file.RowGroupReader, column int) (all []int32) {
	t.Helper()
	chunk, err := group.Column(column)
	must.OK(t, err)
	read := chunk.(*file.Int32ColumnChunkReader)
	for int64(len(all)) < group.NumRows() {
		values, levels := make([]int32, 1000), make([]int16, 1000)
		total, _, err := read.ReadBatch(1000, values, levels, nil)
		if err != nil || total == 0 {
			t.Fatal(total, err)
		}
		for i := range total {
			n := int32(0)
			if levels[i] == read.Descriptor().MaxDefinitionLevel() {
				n, values = values[0], values[1:]
			}
			all = append(all, n)
		}
	}
	return all
}
