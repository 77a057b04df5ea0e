package merge

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// links is a record stream of links with the given keys, as a stage called name writes it.
func links(t *testing.T, name, txn string, keys ...uint64) Rows[record.Link] {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter[record.Link](&b, record.WriterOptions{Txn: txn})
	must.OK(t, err)
	for _, k := range keys {
		must.OK(t, w.Write(&record.Link{Key: k}))
	}
	n := uint64(len(keys))
	_, err = w.Commit(record.Ledger{Stages: []record.Stage{{Name: name, Txn: txn, Made: []record.Count{{Reason: "test", N: n}}, Out: n}}})
	must.OK(t, err)
	r, err := record.NewReader[record.Link](&b, record.ReaderOptions{})
	must.OK(t, err)
	return r
}

// The ledgers of all inputs come through, whichever ends first.
func TestMergeKeepsAllBooks(t *testing.T) {
	for name, c := range map[string]struct {
		a, b []uint64
		txn  string // of the second
		want string
	}{
		"the first ends last":  {[]uint64{1, 9}, []uint64{2}, "r1", "r1"},
		"the second ends last": {[]uint64{1}, []uint64{2, 9}, "r1", "r1"},
		"two rounds":           {[]uint64{1, 9}, []uint64{2}, "r2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := NewRecords("url_key", []Rows[record.Link]{links(t, "a", "r1", c.a...), links(t, "b", c.txn, c.b...)}, []string{"a", "b"})
			must.OK(t, err)
			var row record.Link
			for err == nil {
				err = m.Read(&row)
			}
			if err != io.EOF {
				t.Fatal(err)
			}
			tr := m.Trailer()
			tr.Ledger.Stages = append(tr.Ledger.Stages, record.Stage{Name: "end", In: tr.Rows, Consumed: tr.Rows})
			if err := tr.Ledger.Balance(); err != nil || len(tr.Ledger.Joined) != 2 || tr.Txn != c.want {
				t.Errorf("%s: %v; %+v", name, err, tr)
			}
		})
	}
}

// What would be lost is refused by name.
func TestRefusesWhatItDoesNotKeep(t *testing.T) {
	want := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want a refusal of %s", err, what)
		}
	}
	open := func(name string) Rows[record.URL] {
		b, err := os.ReadFile("../../formats/record/testdata/good/" + name)
		must.OK(t, err)
		r, err := record.NewReader[record.URL](bytes.NewReader(b), record.ReaderOptions{Name: name})
		must.OK(t, err)
		return r
	}
	more, plain := open("extra-column.arrows.zst"), open("url.arrows.zst")
	if _, err := NewRecords("url_key", []Rows[record.URL]{more, plain}, []string{"more", "plain"}); err != nil {
		t.Error(err)
	}
	_, err := NewRecords("url_key", []Rows[record.URL]{plain, more}, []string{"plain", "more"})
	want(`more: column "`+more.Schema().ExtraColumns()[0]+`"`, err)
}

// TestSortText sorts by text, in memory and with more runs than are merged at a time.
func TestSortText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	var want []record.URL
	for i := range 30_000 {
		want = append(want, record.URL{Key: uint64(i), Host: strings.Repeat("h", rnd.IntN(300)), URL: "http://h.test/"})
	}
	recordtest.Write(t, &b, record.WriterOptions{}, want...)
	slices.SortStableFunc(want, func(a, b record.URL) int { return strings.Compare(a.Host, b.Host) })
	for _, mem := range []int64{0, 1 << 30} { // 30 runs, merged 8 at a time; one run
		rows, err := SortRows[record.URL](recordtest.Reader[record.URL](t, bytes.NewReader(b.Bytes())), "host", mem, t.TempDir())
		must.OK(t, err)
		var row record.URL
		for i := range want {
			if err := rows.Read(&row); err != nil || row.Key != want[i].Key {
				t.Fatalf("row %d is %d, %v; want %d", i, row.Key, err, want[i].Key)
			}
		}
		if err := rows.Read(&row); err != io.EOF {
			t.Errorf("%v at the end", err)
		}
		if got := rows.Trailer(); got.Rows != uint64(len(want)) {
			t.Errorf("%d rows in the trailer", got.Rows)
		}
	}
}

// Parts are ranges that cover all keys, for every number of them.
func TestPartRanges(t *testing.T) {
	for n := 1; n <= maxParts; n += 1 + n/3 {
		p, err := NewParts("x", n)
		must.OK(t, err)
		next := uint64(0)
		for i := range n {
			if last := p.last(i); p.part(next) != i || p.part(last) != i {
				t.Fatalf("part %d of %d: its keys %016x to %016x are of %d and %d", i, n, next, last, p.part(next), p.part(last))
			} else {
				next = last + 1
			}
		}
		if next != 0 {
			t.Errorf("%d parts end below %016x", n, next)
		}
	}
}
