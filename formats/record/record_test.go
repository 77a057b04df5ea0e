package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// randomRow fills every field but Extra; about one in four stays zero.
func randomRow[T Row](rng *rand.Rand) T {
	var row T
	v := reflect.ValueOf(&row).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if v.Type().Field(i).Name == "Extra" || v.Type().Field(i).Name == "Body" || rng.IntN(4) == 0 {
			continue
		}
		if v.Type().Field(i).Name == "X" {
			f.SetString(fmt.Sprintf(`{"id":"é%d","n":%d}`, rng.IntN(9), rng.IntN(9)))
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString(strings.Repeat([]string{"a", "é", "http://", "日"}[rng.IntN(4)], rng.IntN(9)))
		case reflect.Bool:
			f.SetBool(rng.IntN(2) == 0)
		case reflect.Slice:
			f.SetBytes([]byte(fmt.Sprint(rng.Uint64())))
		case reflect.Float32:
			f.SetFloat(float64(rng.Float32()))
		case reflect.Int64:
			f.SetInt(rng.Int64() - rng.Int64())
		default:
			f.SetUint(rng.Uint64() >> (64 - f.Type().Bits()))
		}
	}
	return row
}

func randomRows[T Row](n int, seed uint64) []T {
	rng := rand.New(rand.NewPCG(seed, 1))
	rows := make([]T, n)
	for i := range rows {
		rows[i] = randomRow[T](rng)
	}
	return rows
}

func testLedger(rows int) Ledger {
	n := uint64(rows)
	return Ledger{Stages: []Stage{{Name: "mfrontier next", Store: "frontier", Txn: "r1", Made: []Count{{"queue", n}}, Out: n}}}
}

// encode writes rows as one stream.
func encode[T Row](t testing.TB, rows []T, opt WriterOptions) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter[T](&out, opt)
	must.OK(t, err)
	for i := range rows {
		must.OK(t, w.Write(&rows[i]))
	}
	_, err = w.Commit(testLedger(len(rows)))
	must.OK(t, err)
	return out.Bytes()
}

func decode[T Row](b []byte) ([]T, Trailer, error) {
	r, err := NewReader[T](bytes.NewReader(b), ReaderOptions{Name: "x.arrows.zst"})
	if err != nil {
		return nil, Trailer{}, err
	}
	var rows []T
	for {
		var row T
		if err := r.Read(&row); err == io.EOF {
			return rows, r.Trailer(), nil
		} else if err != nil {
			return rows, Trailer{}, err
		}
		rows = append(rows, row)
	}
}

func testRoundTrip[T Row](t *testing.T) {
	for _, level := range []Level{Stored, Fast} {
		for _, n := range []int{0, 1, batchRows - 1, batchRows, batchRows + 1, 3*batchRows + 7} {
			rows := randomRows[T](n, uint64(n))
			opt := WriterOptions{Level: level, Txn: "r1", Now: 1234567}
			b := encode(t, rows, opt)
			got, tr, err := decode[T](b)
			if err != nil {
				t.Fatalf("%d rows: %v", n, err)
			}
			if n == 0 {
				rows = nil
			}
			if !reflect.DeepEqual(got, rows) {
				t.Fatalf("%d rows at level %d: other rows came back", n, level)
			}
			var h RowHasher[T]
			for i := range rows {
				h.Add(&rows[i])
			}
			wantRows, wantHash := h.Sum()
			if tr.Rows != wantRows || tr.Hash != wantHash || !tr.Verified || tr.Txn != "r1" || !reflect.DeepEqual(tr.Ledger, testLedger(n)) {
				t.Fatalf("%d rows: trailer %+v, want %d rows with hash %v", n, tr, wantRows, wantHash)
			}
		}
	}
}

func TestRoundTrip(t *testing.T) {
	t.Run("url", testRoundTrip[URL])
	t.Run("fetch", testRoundTrip[Fetch])
	t.Run("link", testRoundTrip[Link])
	t.Run("module", testRoundTrip[Module])
}

// Wherever a pipe is cut, the command before it is to blame. (TestSpec cuts and flips what is in files.)
func TestCutPipe(t *testing.T) {
	for _, level := range []Level{Stored, Fast} {
		b := encode(t, randomRows[URL](10, 1), WriterOptions{Level: level, Txn: "r1"})
		for n := range b {
			r, err := NewReader[URL](bytes.NewReader(b[:n]), ReaderOptions{Pipe: true})
			for err == nil {
				err = r.Read(new(URL))
			}
			if !errors.Is(err, fault.Upstream) {
				t.Fatalf("pipe cut at %d of %d: %v", n, len(b), err)
			}
		}
	}
}

func TestFlushAfter(t *testing.T) {
	pr, pw := io.Pipe()
	go func() {
		w, err := NewWriter[URL](pw, WriterOptions{FlushAfter: time.Millisecond})
		if err == nil {
			err = w.Write(&URL{URL: "http://a.test/"})
		}
		if err != nil {
			pw.CloseWithError(err)
		}
	}()
	r, err := NewReader[URL](pr, ReaderOptions{})
	must.OK(t, err)
	var row URL
	if err := r.Read(&row); err != nil || row.URL != "http://a.test/" {
		t.Fatalf("%q, %v: a row must come without a flush", row.URL, err)
	}
}

// Writers of the same rows write what each would write alone. Where rows go out before a batch is full, the batches
// of a file beside that are what they are without it.
func TestTwins(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	like := &Schema{Kind: KindFetch, extra: []column{{name: "flag", typ: typeBool, nullable: true}, {name: "note", typ: typeUTF8, nullable: true}, {name: "seen", typ: typeTimeUS, zone: "UTC", nullable: true}}}
	var rows []Fetch
	for i := range 3 * batchRows / 2 {
		if i >= 300 {
			rows = append(rows, rows[i%300])
			continue
		}
		row := randomRow[Fetch](rng)
		if rng.IntN(3) > 0 {
			row.Extra = Extra{batch: &extraBatch{schema: like, columns: []inColumn{one(typeBool, []byte{byte(rng.IntN(2))}), one(typeUTF8, []byte("é")), {}}}}
		}
		rows = append(rows, row)
	}
	for _, threads := range []int{1, 3} {
		var alone, kept, file, pipe bytes.Buffer
		options := func(level Level, wait time.Duration) WriterOptions {
			return WriterOptions{Level: level, FlushAfter: wait, Like: like, Txn: "r1", Threads: threads}
		}
		write := func(out io.Writer, twins func(w *Writer[Fetch]) []*Writer[Fetch]) {
			w, err := NewWriter[Fetch](out, options(Fast, 0))
			must.OK(t, err)
			all := append(twins(w), w)
			for i := range rows {
				must.OK(t, w.Write(&rows[i]))
				if rng.IntN(1000) == 0 { // as the timer does
					w.lock()
					err := w.send(true)
					w.unlock()
					must.OK(t, err)
				}
			}
			if _, err := w.Twin(io.Discard, options(Fast, 0)); err == nil {
				t.Error("a twin behind the first row")
			}
			for _, w := range all {
				if _, err := w.Commit(Ledger{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(&alone, func(*Writer[Fetch]) []*Writer[Fetch] { return nil })
		write(&kept, func(w *Writer[Fetch]) (twins []*Writer[Fetch]) {
			for out, opt := range map[*bytes.Buffer]WriterOptions{&file: options(Fast, 0), &pipe: options(Stored, time.Hour)} {
				twin, err := w.Twin(out, opt)
				must.OK(t, err)
				twins = append(twins, twin)
			}
			return twins
		})
		if !bytes.Equal(alone.Bytes(), kept.Bytes()) || !bytes.Equal(alone.Bytes(), file.Bytes()) {
			t.Errorf("%d threads: files of %d and %d bytes, and one written alone has %d", threads, kept.Len(), file.Len(), alone.Len())
		}
		want, end := rowsOf[Fetch](t, &alone)
		got, pipeEnd := rowsOf[Fetch](t, &pipe)
		if len(got) != len(rows) || !reflect.DeepEqual(pipeEnd, end) {
			t.Fatalf("%d rows, %+v; want %+v", len(got), pipeEnd, end)
		}
		for i := range got {
			if form := AppendRow(nil, &got[i]); !bytes.Equal(form, AppendRow(nil, &want[i])) || !bytes.Equal(form, AppendRow(nil, &rows[i])) {
				t.Fatalf("row %d is %+v, want %+v", i, got[i], rows[i])
			}
		}
	}
}

// TestTwinsPack: two writers that compress beside the rows, the one timed and the other not, share no memory: batches as small as
// the message of the schema come out as they went in.
func TestTwinsPack(t *testing.T) {
	var file, pipe bytes.Buffer
	w, err := NewWriter[URL](&file, WriterOptions{Level: Fast, Threads: 3})
	must.OK(t, err)
	twin, err := w.Twin(&pipe, WriterOptions{Level: Fast, FlushAfter: time.Hour})
	must.OK(t, err)
	const n = 2000
	for i := range n {
		must.OK(t, w.Write(&URL{URL: strconv.Itoa(i)}))
		w.lock()
		err := w.flush()
		w.unlock()
		must.OK(t, err)
	}
	for _, w := range []*Writer[URL]{w, twin} {
		if _, err := w.Commit(Ledger{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, out := range []*bytes.Buffer{&file, &pipe} {
		rows, _ := rowsOf[URL](t, out)
		for i := range rows {
			if rows[i].URL != strconv.Itoa(i) {
				t.Fatalf("row %d is %q", i, rows[i].URL)
			}
		}
		if len(rows) != n {
			t.Errorf("%d rows, want %d", len(rows), n)
		}
	}
}

func rowsOf[T Row](t *testing.T, in io.Reader) (rows []T, end Trailer) {
	t.Helper()
	r, err := NewReader[T](in, ReaderOptions{Name: "test"})
	must.OK(t, err)
	must.OK(t, Each(r, func(row *T) error { rows = append(rows, *row); return nil }))
	return rows, r.Trailer()
}
