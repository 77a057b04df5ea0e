package crawl

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/record"
)

// TestTotals: a checkpoint has the totals of all rounds that led to it, also where theirs are forgotten, and none of
// rounds that were undone.
func TestTotals(t *testing.T) {
	fsys := testCrawl(t)
	c, err := Open("/c", Options{FS: fsys})
	must(t, err)
	want := func(rounds uint64) {
		t.Helper()
		k, err := c.Current()
		must(t, err)
		n := 3 * rounds
		if d := cmp.Diff(Totals{Rounds: rounds, Stages: []record.Stage{
			{Name: "mfrontier update", In: n, Consumed: n},
			{Name: "murlset new", Made: []record.Count{{Reason: "text", N: n}}, Out: n},
		}}, k.Totals); d != "" {
			t.Errorf("after %d rounds: %s", rounds, d)
		}
	}
	if k, err := c.Current(); k != nil || err != nil {
		t.Errorf("an empty crawl has checkpoint %v, %v", k, err)
	}
	for i, txn := range []string{"r1", "r2", "r3", "r4"} {
		must(t, change(fsys, "/c/urls", "new", txn), change(fsys, "/c/frontier", "update", txn))
		_, _, err := c.Commit(ctx, txn, time.Unix(int64(i), 0), time.Hour) // all but the first and the last are forgotten
		must(t, err)
		want(uint64(i + 1))
	}
	must(t, restore(fsys, 1))
	want(1)
	must(t, change(fsys, "/c/urls", "new", "r2"), change(fsys, "/c/frontier", "update", "r2"))
	_, _, err = c.Commit(ctx, "r2", time.Unix(9, 0), 0)
	must(t, err)
	want(2)
}
