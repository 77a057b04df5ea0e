package replay

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/merge"
)

// TestMatch: each row of a batch is given to the contact of its URL, once, rows of one URL in their
// order; contacts of an earlier epoch, and those that the batch does not have, get none. Memory holds
// none of the rows.
func TestMatch(t *testing.T) {
	const n, twice = 150_000, 1000 // the last ones repeat the URLs of the first
	url := func(i int) string { return fmt.Sprintf("http://h%d.test/%d", i%100, i) }
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	r := &run{epoch: 2, rows: merge.NewSorter(0, ""), pages: merge.NewSorter(0, ""), found: merge.NewSorter(0, "")}
	defer r.rows.Close()
	defer r.pages.Close()
	defer r.found.Close()
	i := 0
	must.OK(t, r.batch(t.Context(), func(row *record.URL) error {
		if i == n+twice {
			return io.EOF
		}
		*row = record.URL{URL: url(i % n), Depth: uint16(i / n)}
		i++
		return nil
	}))
	rnd := rand.New(rand.NewPCG(1, 2))
	saved := func(i int, epoch uint64) {
		c := contact{n: r.n, epoch: epoch}
		r.n++
		must.OK(t, r.pages.Add(fingerprint.SHA256(url(i)), append(c.append(nil), url(i)...)))
	}
	order := append(rnd.Perm(n), rnd.Perm(twice)...)
	for _, i := range order {
		saved(i, 1)
	}
	for _, i := range append(order, n+1, n+2) {
		saved(i, 2)
	}
	must.OK(t, r.match(t.Context()))
	if grown := heap() - before; grown > 6<<20 {
		t.Errorf("%d KiB for %d rows", grown>>10, n)
	}
	found, err := r.found.Sort()
	must.OK(t, err)
	for k, i := range order {
		_, b, err := found.Next()
		must.OK(t, err)
		c, text := parseContact(b)
		var row record.URL
		_, err = record.ParseRow(string(text), &row, nil)
		must.OK(t, err)
		if c.n != uint64(len(order)+k) || c.epoch != 2 || row.URL != url(i) || int(row.Depth) != k/n {
			t.Fatalf("contact %d of epoch %d has %s at depth %d, want %s at %d", c.n, c.epoch, row.URL, row.Depth, url(i), k/n)
		}
	}
	if _, _, err := found.Next(); err != io.EOF {
		t.Errorf("one more: %v", err)
	}
}

// TestMissing: rows for which nothing was saved are told.
func TestMissing(t *testing.T) {
	r := &run{rows: merge.NewSorter(0, ""), pages: merge.NewSorter(0, ""), found: merge.NewSorter(0, "")}
	at := 0
	must.OK(t, r.batch(t.Context(), func(row *record.URL) error {
		if at++; at == 4 {
			return io.EOF
		}
		row.URL = fmt.Sprintf("http://h.test/%d", at)
		return nil
	}))
	c := contact{}
	must.OK(t, r.pages.Add(fingerprint.SHA256("http://h.test/2"), append(c.append(nil), "http://h.test/2"...)))
	if err := r.match(t.Context()); fault.ClassOf(err) != fault.Conflict || !strings.Contains(err.Error(), "and 1 more URLs") {
		t.Error(err)
	}
}
