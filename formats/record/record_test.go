package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"mercator/pkg/fault"
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
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(testLedger(len(rows))); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	var row URL
	if err := r.Read(&row); err != nil || row.URL != "http://a.test/" {
		t.Fatalf("%q, %v: a row must come without a flush", row.URL, err)
	}
}
