package parquet

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/parquet/file"

	"mercator/formats/record"
)

// TestRoundTrip reads the values back by another path of the library, over several row groups. That programs of
// others read the files is seen by make interop.
func TestRoundTrip(t *testing.T) {
	const rows = groupRows + 100
	like := record.NewSchema(record.KindFetch, record.Column{Name: "x_id"})
	var out bytes.Buffer
	w, err := NewWriter[record.Fetch](&out, like)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		row := record.Fetch{URL: fmt.Sprintf("http://h/%d", i), Host: "h", Key: math.MaxUint64 - uint64(i), Role: record.RolePage, Outcome: record.OutcomeFetched,
			Status: 200, Attempt: uint8(i), Score: 0.5, Duplicate: i%3 == 0, DurationUS: -int64(i), Extra: like.Extra(func(string) uint64 { return uint64(i) })}
		if i%2 == 0 {
			row.FetchTime = record.Time(i)
		}
		if err := w.Write(&row, fmt.Sprintf("r%d", 1+i/1000)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := file.NewParquetReader(bytes.NewReader(out.Bytes())); err == nil {
		t.Error("a file that was not closed is read")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
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
