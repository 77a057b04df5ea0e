package merge

import (
	"bytes"
	"io"
	"testing"

	"mercator/formats/record"
)

// links is a record stream of links with the given keys, as a stage called name writes it.
func links(t *testing.T, name, txn string, keys ...uint64) Rows[record.Link] {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter[record.Link](&b, record.WriterOptions{Txn: txn})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := w.Write(&record.Link{Key: k}); err != nil {
			t.Fatal(err)
		}
	}
	n := uint64(len(keys))
	if _, err := w.Commit(record.Ledger{Stages: []record.Stage{{Name: name, Txn: txn, Made: []record.Count{{Reason: "test", N: n}}, Out: n}}}); err != nil {
		t.Fatal(err)
	}
	r, err := record.NewReader[record.Link](&b, record.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The books of every input come through, whichever ends first.
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
		m, err := NewRecords("url_key", []Rows[record.Link]{links(t, "a", "r1", c.a...), links(t, "b", c.txn, c.b...)}, []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
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
	}
}
