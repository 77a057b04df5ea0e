package replay

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"mercator/formats/record"
)

// TestBatch: each row of a batch is found by its URL once, rows of one URL in their order, and
// memory holds none of them.
func TestBatch(t *testing.T) {
	const n, twice = 150_000, 1000 // the last ones repeat the URLs of the first
	url := func(i int) string { return fmt.Sprintf("http://h%d.test/%d", i%100, i) }
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	i := 0
	b, err := readBatch(t.Context(), func(row *record.URL) error {
		if i == n+twice {
			return io.EOF
		}
		*row = record.URL{URL: url(i % n), Depth: uint16(i / n)}
		i++
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("%d KiB for %d rows", grown>>10, n)
	}
	var row record.URL
	for k, i := range rand.New(rand.NewPCG(1, 2)).Perm(n)[:20*twice] {
		times := 1
		if i < twice {
			times = 2
		}
		for turn := range times + 1 {
			found, err := b.take(url(i), &row)
			if err != nil || found != (turn < times) || found && (row.URL != url(i) || int(row.Depth) != turn) {
				t.Fatalf("%d: row %d, time %d: %v, %v, %s at depth %d", k, i, turn, found, err, row.URL, row.Depth)
			}
		}
	}
	left := b.left
	if err := b.untaken(&row); err != nil {
		t.Fatal(err)
	}
	if found, err := b.take(row.URL, &row); !found || err != nil || b.left != left-1 {
		t.Errorf("a row that was not taken: %v, %v, %d left of %d", found, err, b.left, left)
	}
}
