package record

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/klauspost/compress/zstd"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// unzstd returns the bytes that "zstd -dc" prints.
func unzstd(t *testing.T, b []byte) []byte {
	t.Helper()
	d, err := zstd.NewReader(nil)
	must.OK(t, err)
	defer d.Close()
	out, err := d.DecodeAll(b, nil)
	must.OK(t, err)
	return out
}

// Arrow's own reader finds the same values behind zstd -dc, and our reader finds
// what Arrow's own writer wrote.
func TestArrowReadsUs(t *testing.T) {
	rows := randomRows[Fetch](batchRows+100, 5)
	for _, level := range []Level{Stored, Fast, Bare} {
		b := encode(t, rows, WriterOptions{Level: level, Txn: "r1", Now: 1763719200000000})
		if level != Bare {
			b = unzstd(t, b)
		}
		r, err := ipc.NewReader(bytes.NewReader(b))
		must.OK(t, err)
		md := r.Schema().Metadata()
		for k, want := range map[string]string{metaKind: "fetch", metaVersion: formatVersion, metaTxn: "r1", metaNow: "2025-11-21T10:00:00Z"} {
			if i := md.FindKey(k); i < 0 || md.Values()[i] != want {
				t.Errorf("metadata %s: %v, want %s", k, md, want)
			}
		}
		n := 0
		for r.Next() {
			rec := r.Record()
			url := rec.Column(0).(*array.String)
			key := rec.Column(1).(*array.Uint64)
			found := rec.Column(8).(*array.Timestamp)
			dup := rec.Column(25).(*array.Boolean)
			fresh := rec.Column(32).(*array.Timestamp)
			for i := range int(rec.NumRows()) {
				w := rows[n]
				if url.Value(i) != w.URL || key.Value(i) != w.Key || dup.Value(i) != w.Duplicate || found.IsNull(i) != (w.Discovered == 0) ||
					int64(found.Value(i)) != int64(w.Discovered) || fresh.IsNull(i) != (w.FreshUntil == 0) || int64(fresh.Value(i)) != int64(w.FreshUntil) {
					t.Fatalf("level %d, row %d differs", level, n)
				}
				n++
			}
		}
		if r.Err() != nil || n != len(rows) {
			t.Fatalf("level %d: %d rows, %v", level, n, r.Err())
		}
		if level == Bare {
			if got, tr, err := decode[Fetch](b); err != nil || tr.Verified || !reflect.DeepEqual(got, rows) {
				t.Fatalf("plain Arrow: verified %v, %v", tr.Verified, err)
			}
		}
	}
}

// A stream of another program: few columns, in another order, with nulls and an
// unknown column, no version.
func TestForeignArrow(t *testing.T) {
	md := arrow.MetadataFrom(map[string]string{metaKind: "url"})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "host", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "rank", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "url_key", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		{Name: "depth", Type: arrow.PrimitiveTypes.Uint16, Nullable: true},
		{Name: "url", Type: arrow.BinaryTypes.String},
	}, &md)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	b.Field(0).(*array.StringBuilder).AppendValues([]string{"a.test", ""}, []bool{true, false})
	b.Field(1).(*array.Float64Builder).AppendValues([]float64{0.5, 0}, []bool{true, false})
	b.Field(2).(*array.Uint64Builder).AppendValues([]uint64{7, 9}, []bool{true, false})
	b.Field(3).(*array.Uint16Builder).AppendValues([]uint16{3, 9}, []bool{true, false})
	b.Field(4).(*array.StringBuilder).AppendValues([]string{"http://a.test/", "http://b.test/"}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	must.OK(t, w.Write(b.NewRecord()), w.Close())
	r, err := NewReader[URL](&out, ReaderOptions{})
	must.OK(t, err)
	x := NewTextOrFatal[URL](t, r.Schema(), []string{"url", "url_key", "host", "depth", "rank"})
	var got []string
	for {
		var row URL
		if err := r.Read(&row); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(x.AppendTSV(nil, &row)))
	}
	want := []string{"http://a.test/\t0000000000000007\ta.test\t3\t0.5", "http://b.test/\t0000000000000000\t\t0\t"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Unknown columns go through a stage unchanged, and through a spool.
func TestExtraColumns(t *testing.T) {
	rows := make([]URL, 3*batchRows)
	for i := range rows {
		rows[i] = URL{URL: "http://a.test/", Key: uint64(i), Host: "a.test"}
	}
	schema := withExtra(rows)
	first := encode(t, rows, WriterOptions{Like: schema})
	r, err := NewReader[URL](bytes.NewReader(first), ReaderOptions{})
	must.OK(t, err)
	if got := r.Schema().ExtraColumns(); !reflect.DeepEqual(got, []string{"flag", "n", "note"}) {
		t.Fatalf("unknown columns %v", got)
	}
	var direct, spooled bytes.Buffer
	w, err := NewWriter[URL](&direct, WriterOptions{Like: r.Schema()})
	must.OK(t, err)
	v, err := NewWriter[URL](&spooled, WriterOptions{Like: r.Schema()})
	must.OK(t, err)
	for {
		var row, back URL
		if err := r.Read(&row); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		b := AppendRow(nil, &row)
		n, err := ParseRow(string(b)+"rest", &back, r.Schema())
		if err != nil || n != len(b) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
		for i := range b {
			if _, err := ParseRow(string(b[:i]), new(URL), r.Schema()); err == nil {
				t.Fatalf("%d of %d bytes were taken for a row", i, len(b))
			}
		}
		must.OK(t, w.Write(&row), v.Write(&back))
	}
	a, err := w.Commit(testLedger(len(rows)))
	must.OK(t, err)
	if b, err := v.Commit(testLedger(len(rows))); err != nil || b.Hash != a.Hash || a.Hash != r.Trailer().Hash {
		t.Fatalf("hashes %v, %v, %v: %v", r.Trailer().Hash, a.Hash, b.Hash, err)
	}
	if !bytes.Equal(direct.Bytes(), first) || !bytes.Equal(spooled.Bytes(), first) {
		t.Error("the copies have other bytes than the first stream")
	}
}

// Row hash and rows do not depend on batch cuts, threads, bodies, level, or on the
// number of streams.
func TestHashIsBlindToCuts(t *testing.T) {
	rows := randomRows[Fetch](2*batchRows+10, 9)
	_, want, err := decode[Fetch](encode(t, rows, WriterOptions{}))
	must.OK(t, err)
	check := func(name string, b []byte) {
		t.Helper()
		got, tr, err := decode[Fetch](b)
		if err != nil || tr.Hash != want.Hash || tr.Rows != want.Rows || len(got) != len(rows) {
			t.Errorf("%s: %d rows with hash %v, want %d with %v; %v", name, tr.Rows, tr.Hash, want.Rows, want.Hash, err)
		}
	}
	check("level 1", encode(t, rows, WriterOptions{Level: Fast, Txn: "x"}))
	check("three threads", encode(t, rows, WriterOptions{Level: Fast, Threads: 3}))
	for i := range rows {
		rows[i].Body = []byte("in no stream")
	}
	check("bodies", encode(t, rows, WriterOptions{}))
	var b bytes.Buffer
	w, err := NewWriter[Fetch](&b, WriterOptions{})
	must.OK(t, err)
	for i := range rows {
		err := w.Write(&rows[i])
		if i%1000 == 0 {
			err = errors.Join(err, w.Flush(), w.Flush())
		}
		must.OK(t, err)
	}
	_, err = w.Commit(Ledger{})
	must.OK(t, err)
	check("flushes", b.Bytes())
	var parts []byte
	for _, cut := range [][2]int{{0, 1}, {1, 1}, {1, batchRows + 5}, {batchRows + 5, len(rows)}} {
		parts = append(parts, encode(t, rows[cut[0]:cut[1]], WriterOptions{})...)
	}
	check("four streams", parts)
}

func TestThreadsKeepOrderAndBytes(t *testing.T) {
	rows := randomRows[URL](10*batchRows, 4)
	one := encode(t, rows, WriterOptions{Level: Fast})
	if many := encode(t, rows, WriterOptions{Level: Fast, Threads: 4}); !bytes.Equal(one, many) {
		t.Error("four threads write other bytes than one")
	}
}

func TestFlushOfNothingWritesNothing(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter[URL](&b, WriterOptions{})
	must.OK(t, err)
	n := b.Len()
	if err := w.Flush(); err != nil || b.Len() != n {
		t.Errorf("%d bytes more, %v", b.Len()-n, err)
	}
}

func TestWriterErrorsStick(t *testing.T) {
	gone := errors.New("no space left on device")
	if _, err := NewWriter[URL](failing{gone}, WriterOptions{Name: "o"}); !errors.Is(err, gone) || err.Error() != "o: no space left on device" {
		t.Errorf("schema: %v", err)
	}
	out := &failsAfter{n: 1, err: gone}
	w, err := NewWriter[URL](out, WriterOptions{})
	must.OK(t, err)
	must.OK(t, w.Write(&URL{}))
	if err := w.Flush(); !errors.Is(err, gone) {
		t.Fatalf("flush: %v", err)
	}
	out.n = 100
	if err := w.Write(&URL{}); !errors.Is(err, gone) {
		t.Errorf("write after an error: %v", err)
	}
	if _, err := w.Commit(Ledger{}); !errors.Is(err, gone) {
		t.Errorf("commit after an error: %v", err)
	}
}

type failsAfter struct {
	n   int
	err error
}

func (f *failsAfter) Write(p []byte) (int, error) {
	if f.n == 0 {
		return 0, f.err
	}
	f.n--
	return len(p), nil
}

func TestWriterLimits(t *testing.T) {
	w, err := NewWriter[Fetch](io.Discard, WriterOptions{Name: "o"})
	must.OK(t, err)
	if err := w.Write(&Fetch{Error: strings.Repeat("e", MaxRow-1000)}); err != nil {
		t.Fatalf("a row below the limit: %v", err)
	}
	err = w.Write(&Fetch{Error: strings.Repeat("e", MaxRow)})
	if !errors.Is(err, fault.Usage) || !strings.HasPrefix(err.Error(), "o: row 2: 14680") {
		t.Fatalf("a row above the limit: %v", err)
	}
	if _, err := NewWriter[URL](io.Discard, WriterOptions{Txn: strings.Repeat("x", 256)}); !errors.Is(err, fault.Usage) {
		t.Errorf("a long name: %v", err)
	}
	v, err := NewWriter[URL](io.Discard, WriterOptions{})
	must.OK(t, err)
	if _, err := v.Commit(Ledger{Stages: make([]Stage, MaxObjects+1)}); err == nil {
		t.Error("a ledger that no reader would take was written")
	}
	u, err := NewWriter[URL](io.Discard, WriterOptions{})
	must.OK(t, err)
	_, err = u.Commit(Ledger{})
	must.OK(t, err)
	if err := u.Write(&URL{}); err == nil {
		t.Error("a row behind the trailer")
	}
	if _, err := u.Commit(Ledger{}); err == nil {
		t.Error("a second trailer")
	}
}

func TestFinishThenCommit(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter[URL](&b, WriterOptions{})
	must.OK(t, err)
	must.OK(t, w.Write(&URL{URL: "http://a.test/"}))
	rows, hash, err := w.Finish()
	if err != nil || rows != 1 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	if _, _, err := decode[URL](b.Bytes()); !errors.Is(err, fault.Truncated) {
		t.Errorf("before the trailer: %v", err)
	}
	tr, err := w.Commit(Ledger{})
	if err != nil || tr.Hash != hash || tr.Rows != 1 {
		t.Errorf("%+v, %v", tr, err)
	}
	if _, got, err := decode[URL](b.Bytes()); err != nil || got.Hash != hash {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRowsOutliveTheirBatch(t *testing.T) {
	in := randomRows[URL](4*batchRows, 6)
	got, _, err := decode[URL](encode(t, in, WriterOptions{})) // keeps every row until the end
	if err != nil || !reflect.DeepEqual(got, in) {
		t.Errorf("rows changed after they were read; %v", err)
	}
}

// TestReadAhead: whoever lets another goroutine read ahead finds the same rows, and the same damage; rows stay as they
// were read.
func TestReadAhead(t *testing.T) {
	rows := randomRows[Module](60, 7)
	var in bytes.Buffer
	for _, level := range []Level{Stored, Fast} { // two streams in a row
		w, err := NewWriter[Module](&in, WriterOptions{Level: level})
		must.OK(t, err)
		for i := range rows[:30] {
			must.OK(t, w.Write(&rows[i+30*int(level)]))
			if i%5 == 4 { // a batch
				must.OK(t, w.Flush())
			}
		}
		if _, err := w.Commit(testLedger(30)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(b []byte, opt ReaderOptions) (n int, sum string) {
		r, err := NewReader[Module](bytes.NewReader(b), opt)
		if err != nil {
			return 0, err.Error()
		}
		var got []Module
		for {
			var row Module
			if err := r.Read(&row); err == io.EOF {
				return len(got), r.Trailer().Hash.String()
			} else if err != nil {
				return len(got), err.Error()
			}
			got = append(got, row)
			for i := range got {
				if !reflect.DeepEqual(got[i], rows[i]) {
					t.Fatalf("%+v: row %d changed when row %d was read", opt, i, len(got)-1)
				}
			}
		}
	}
	for cut := in.Len(); cut >= 0; cut -= 13 {
		want, sum := read(in.Bytes()[:cut], ReaderOptions{})
		if n, s := read(in.Bytes()[:cut], ReaderOptions{Ahead: true}); n != want || s != sum {
			t.Fatalf("%d bytes: %d rows, %s; want %d, %s", cut, n, s, want, sum)
		}
	}
}
