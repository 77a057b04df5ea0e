package crawl

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/record"
	"mercator/pkg/base/must"
)

// TestTotals: a checkpoint has the totals of all rounds that led to it, also where theirs are forgotten, and none of
// rounds that were undone.
func TestTotals(t *testing.T) {
	fsys := testCrawl(t)
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	want := func(rounds uint64) {
		t.Helper()
		k, err := c.Current()
		must.OK(t, err)
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
		must.OK(t, change(fsys, "/c/urls", "new", txn), change(fsys, "/c/frontier", "update", txn))
		_, _, err := c.Commit(ctx, txn, time.Unix(int64(i), 0), time.Hour) // all but the first and the last are forgotten
		must.OK(t, err)
		want(uint64(i + 1))
	}
	must.OK(t, restore(fsys, 1))
	want(1)
	must.OK(t, change(fsys, "/c/urls", "new", "r2"), change(fsys, "/c/frontier", "update", "r2"))
	_, _, err = c.Commit(ctx, "r2", time.Unix(9, 0), 0)
	must.OK(t, err)
	want(2)
}

// TestTotalsOfShards: what one stage made may go two ways, in two ledgers; it counts once. What two shards did counts twice.
func TestTotalsOfShards(t *testing.T) {
	stage := func(shard string) record.Stage {
		return record.Stage{Name: "mextract", Store: shard, Txn: "r1", In: 2, InHash: "1", Passed: 2, Out: 2, OutHash: "2"}
	}
	one, other := record.Ledger{Stages: []record.Stage{stage("shard/000/x"), {Name: "mmerge split", In: 2, InHash: "2", Consumed: 2}}}, record.Ledger{Stages: []record.Stage{stage("shard/001/x")}}
	got := Totals{}.with(one, record.Ledger{Joined: []record.Ledger{one}}, other)
	if len(got.Stages) != 2 || got.Rounds != 1 || got.Stages[0].In != 4 || got.Stages[1].In != 2 {
		t.Errorf("%+v", got)
	}
}
