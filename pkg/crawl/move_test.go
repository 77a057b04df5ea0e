package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/shard"
)

// testMovers move what a store has: its value "last", and one row for each pair of shards.
func testMovers() (movers []Mover) {
	for _, kind := range shardStores {
		movers = append(movers, Mover{Kind: kind,
			Check: func(*store.Store) error { return nil },
			Move: func(ctx context.Context, s *store.Store, m *shard.Move) error {
				tx, err := m.Begin(ctx, s)
				if tx == nil {
					return err
				}
				defer tx.Abort()
				lots, last := m.NewLots(), tx.Base().State["last"]
				f, err := tx.Create("runs/", ".txt", "run")
				if err != nil {
					return err
				}
				if err := m.Spans(func(_, _ uint64, was, is int) error {
					if was == m.Shard && is != m.Shard {
						lots.To(is).Add("rows", 1, []byte(last))
					}
					if was == m.Shard || is != m.Shard {
						return nil
					}
					_, base, err := m.Base(was)
					if err == nil {
						lots.From(was).Add("rows", 1, []byte(base.State["last"]))
						_, err = fmt.Fprintf(f, "from %d %s;", was, base.State["last"])
					}
					return err
				}); err != nil {
					return err
				}
				tx.SetState("last", last+" moved")
				return m.Commit(s, tx, lots)
			}})
	}
	return movers
}

// testOwners are the owners with two shards, with the buckets that move exchanged.
func testOwners(t *testing.T, moved ...int) []int {
	t.Helper()
	m, err := shard.New(2)
	must.OK(t, err)
	for _, b := range moved {
		m.Owners[b] = 1 - m.Owners[b]
	}
	return m.Owners
}

func move(fsys durable.FS, owners []int) error {
	c, err := Open("/c", Options{FS: fsys})
	if err == nil {
		_, err = c.Move(ctx, owners, testMovers(), time.Unix(0, 0))
	}
	return err
}

// mapState is the map that counts.
func mapState(t *testing.T, fsys durable.FS) string {
	t.Helper()
	m, err := shard.Read(fsys, "/c")
	must.OK(t, err)
	return fmt.Sprint(m.Version, m.Owners)
}

// grownOwners are the owners after two shards have become three.
func grownOwners(t *testing.T) []int {
	owners := testOwners(t, 7)
	owners[8], owners[4000] = 2, 2
	return owners
}

// mapRound runs and commits a round of the shards that count.
func mapRound(t *testing.T, fsys durable.FS, txn string) {
	t.Helper()
	m, err := shard.Read(fsys, "/c")
	must.OK(t, err)
	for n := range m.Shards {
		must.OK(t, stagesOfRound(fsys, n, txn))
	}
	must.OK(t, commit(fsys, txn))
}

// TestCrashMove stops a move at every call of the file system. The old map counts, or the new one with all that moved; the same move
// again ends in the new one, and one that was begun can be given up. So it is with a move to a shard that is made by it.
func TestCrashMove(t *testing.T) {
	t.Run("between shards", func(t *testing.T) {
		t.Parallel()
		crashMove(t, testOwners(t, 7, 8, 4000))
	})
	t.Run("to a new shard", func(t *testing.T) {
		t.Parallel()
		crashMove(t, grownOwners(t))
	})
}

func crashMove(t *testing.T, owners []int) {
	base := testShards(t)
	shardRound(t, base, "r1")
	before, oldMap := crawlState(t, base), mapState(t, base)
	ended := clone(base)
	must.OK(t, move(ended, owners))
	after, newMap := crawlState(t, ended), mapState(t, ended)
	if newMap == oldMap || !strings.Contains(after, "checkpoint 2") || !strings.Contains(after, "from 1 r1") {
		t.Fatalf("%s\n%s", newMap[:20], after)
	}
	verified := func(n int, fsys durable.FS) {
		t.Helper()
		c, err := Open("/c", Options{FS: fsys})
		must.OK(t, err)
		if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
			t.Fatalf("call %d: verify: %v %v", n, err, v)
		}
	}
	for n := 1; ; n++ {
		fsys := clone(base)
		fsys.CrashAt(n)
		err := move(fsys, owners)
		crashed := fsys.Crashed()
		for _, loss := range lossesAt(n) {
			found := fsys.AfterCrash(loss)
			switch is := mapState(t, found); {
			case is == newMap:
				if got := crawlState(t, found); got != after {
					t.Fatalf("call %d, loss %d: the new map, and\n%s\nwant:\n%s", n, loss, got, after)
				}
			case is != oldMap || err == nil:
				t.Fatalf("call %d, loss %d, error %v: map %.20s", n, loss, err, is)
			default:
				if n%8 == 1 && loss == crashtest.LoseAll {
					verified(n, found)
					given := clone(found)
					must.OK(t, abandon(given))
					got, spare, _ := strings.Cut(crawlState(t, given), "\nshard/002/")
					if strings.Contains(spare, "from") { // rows of another shard
						t.Fatalf("call %d: given up: %s", n, spare)
					}
					if strings.TrimPrefix(got, "epoch 1") != strings.TrimPrefix(before, "epoch 0") || mapState(t, given) != oldMap {
						t.Fatalf("call %d: given up:\n%s\nwant:\n%s", n, got, before)
					}
					must.OK(t, move(given, testOwners(t, 9)))
					mapRound(t, given, "r2")
					must.OK(t, gc(given, 1))
					verified(n, given)
					must.OK(t, move(given, owners))
					mapRound(t, given, "r3")
					verified(n, given)
				}
				if err := move(found, owners); err != nil {
					t.Fatalf("call %d, loss %d: run again: %v", n, loss, err)
				}
				if got := crawlState(t, found); got != after || mapState(t, found) != newMap {
					t.Fatalf("call %d, loss %d: run again:\n%s\nwant:\n%s", n, loss, got, after)
				}
			}
			verified(n, found)
			if loss == crashtest.LoseAll {
				mapRound(t, found, "r2")
			}
		}
		if !crashed {
			return
		}
	}
}

// TestMove: a checkpoint holds the map that it was made under; a move is closed by its own command alone, and what left one store must
// have come to the other.
func TestMove(t *testing.T) {
	fsys := testShards(t)
	owners := testOwners(t, 7)
	refused := func(err error, says string) {
		t.Helper()
		if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	refused(move(fsys, owners), "/c: the empty crawl, want a crawl between two rounds")
	shardRound(t, fsys, "r1")
	must.OK(t, change(fsys, "/c/shard/001/urls", "new", "r2"))
	refused(move(fsys, owners), `/c: round "r2" is open`)
	must.OK(t, abandon(fsys), change(fsys, "/c/shard/001/urls", "add", ""))
	refused(move(fsys, owners), "/c: shard/001/urls, which was changed without a round")
	must.OK(t, abandon(fsys))

	first := mapState(t, fsys)
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	before, err := c.Current()
	must.OK(t, err)
	must.OK(t, move(fsys, owners))
	second := mapState(t, fsys)
	k, err := c.Current()
	must.OK(t, err)
	if k.Txn != "move1" || k.Map != 2 || k.Totals.Rounds != before.Totals.Rounds || len(k.Totals.Stages) != len(before.Totals.Stages) {
		t.Errorf("%+v", k)
	}
	must.OK(t, restore(fsys, 1))
	if got := mapState(t, fsys); got != first {
		t.Errorf("before the move: map %.20s", got)
	}
	shardRound(t, fsys, "r2") // after the move no round had this name
	must.OK(t, move(fsys, testOwners(t, 7, 8)))
	third := mapState(t, fsys)
	if !strings.HasPrefix(third, "3 ") {
		t.Errorf("a version twice: %.20s", third)
	}
	must.OK(t, restore(fsys, 2))
	if got := mapState(t, fsys); got != second {
		t.Errorf("after the move: map %.20s", got)
	}
	verify := func(want ...string) {
		t.Helper()
		v, err := c.Verify(ctx)
		must.OK(t, err)
		if len(v.Problems) != len(want) {
			t.Errorf("%q, want %q", v.Problems, want)
		}
		for _, w := range want {
			if !slices.ContainsFunc(v.Problems, func(p string) bool { return strings.Contains(p, w) }) {
				t.Errorf("%q, want %q", v.Problems, w)
			}
		}
	}
	verify()

	// gc keeps the maps of the checkpoints that stay.
	must.OK(t, gc(fsys, 4))
	if list, err := c.mapVersions(); err != nil || !slices.Equal(list, []uint64{1, 2, 3}) {
		t.Error(list, err)
	}
	must.OK(t, gc(fsys, 1))
	if list, err := c.mapVersions(); err != nil || !slices.Equal(list, []uint64{2, 3}) {
		t.Error(list, err)
	}
	verify()

	// One that was begun goes on by itself alone.
	half := testMovers()[:1]
	begun, err := c.beginMove(ctx, testOwners(t), half)
	must.OK(t, err)
	if _, err := c.FinishMove(ctx, begun, []Mover{{Kind: "frontier", Move: half[0].Move}, {Kind: "urls", Move: func(context.Context, *store.Store, *shard.Move) error { return context.Canceled }}}, time.Unix(0, 0)); err == nil {
		t.Fatal("no error")
	}
	refused(move(fsys, testOwners(t, 1, 2)), `"move2", which was begun, moves other buckets`)
	refused(commit(fsys, "move2"), `"move2" moves buckets between shards`)
	_, _, err = c.GC(ctx, 1)
	refused(err, `round "move2" is open`)
	if hint := fault.HintOf(err); hint != "finish it: mcrawl run /c; or give it up: mckpt abandon /c" {
		t.Error(hint)
	}
	if now, err := c.Moving(); err != nil || now == nil || now.Txn != "move2" || now.Map.Version != begun.Map.Version {
		t.Errorf("%+v, %v", now, err)
	}
	lost := clone(fsys)
	must.OK(t, lost.Remove(shard.File("/c", begun.Map.Version)))
	if err := move(lost, owners); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), `no bucket map of "move2"`) {
		t.Error(err)
	}
	must.OK(t, move(fsys, testOwners(t)))
	verify()
	must.OK(t, fsys.Remove(shard.File("/c", 3)))
	verify("/c/MAP-000003: missing, want version 3")

	// A store that took other rows than were given.
	bad := testMovers()
	give := bad[1].Move
	bad[1].Move = func(ctx context.Context, s *store.Store, m *shard.Move) error {
		base := m.Base
		m.Base = func(n int) (*store.Store, *store.Manifest, error) {
			s, b, err := base(n)
			if err == nil {
				other := *b
				other.State = map[string]string{"last": "another"}
				b = &other
			}
			return s, b, err
		}
		return give(ctx, s, m)
	}
	_, err = c.Move(ctx, testOwners(t, 5), bad, time.Unix(0, 0))
	if !errors.Is(err, fault.No) || !strings.Contains(err.Error(), "that came to shard/001/urls") {
		t.Error(err)
	}
}

// TestMoreShards: a crawl that has got a shard goes back to before and on again, and what the shard had meanwhile does not count.
func TestMoreShards(t *testing.T) {
	fsys := testShards(t)
	mapRound(t, fsys, "r1")
	must.OK(t, move(fsys, grownOwners(t)))
	mapRound(t, fsys, "r2")
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	shards := func(want int) {
		t.Helper()
		if n, err := c.Shards(); err != nil || n != want {
			t.Fatalf("%d shards, %v, want %d", n, err, want)
		}
		if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
			t.Errorf("%v, %q", err, v.Problems)
		}
	}
	shards(3)
	kept, err := c.Files()
	must.OK(t, err)
	var names []string
	for _, r := range kept.rounds {
		names = append(names, r.in.under+" "+r.name)
	}
	if want := []string{"shard/000 r1", "shard/001 r1", "shard/000 move1", "shard/001 move1", "shard/002 move1", "shard/000 r2", "shard/001 r2", "shard/002 r2"}; !slices.Equal(names, want) {
		t.Errorf("rounds %q, want %q", names, want)
	}
	must.OK(t, commit(fsys, "r1")) // closed before, by two shards
	if k, err := c.Current(); err != nil || k.Number != 3 || len(k.Shards) != 3 {
		t.Errorf("%+v, %v", k, err)
	}
	inv, err := c.FilesOf(ctx, 1)
	must.OK(t, err)
	if slices.ContainsFunc(inv.Files, func(f CrawlFile) bool { return strings.HasPrefix(f.Path, "shard/002") }) {
		t.Error("a checkpoint of two shards needs files of the third")
	}

	must.OK(t, restore(fsys, 1))
	shards(2)
	if _, err := c.FilesOf(ctx, 3); err != nil {
		t.Error(err)
	}
	mapRound(t, fsys, "r2")
	must.OK(t, move(fsys, testOwners(t, 9)))
	shards(2)
	must.OK(t, restore(fsys, 3))
	shards(3)
	mapRound(t, fsys, "r3")
	must.OK(t, restore(fsys, 5))
	mapRound(t, fsys, "r3")
	must.OK(t, gc(fsys, 1))
	shards(2)
	mapRound(t, fsys, "r4") // the folder of the third shard is in nobody's way
	must.OK(t, move(fsys, grownOwners(t)))
	shards(3)
	for _, store := range shardStores {
		state, err := storeState(fsys, "shard/002/"+store)
		must.OK(t, err)
		if strings.Count(state, "from") != 2 {
			t.Errorf("%s of the new shard: %s, want what the other two gave", store, state)
		}
	}
	mapRound(t, fsys, "r5")
	shards(3)

	// Another number for Init.
	for shards, hint := range map[int]string{2: "name another folder", 4: "name another folder, or add shards: mcrawl reshard /c 4"} {
		if err := newShards(fsys, "/c", shards); !errors.Is(err, fault.Usage) || fault.HintOf(err) != hint {
			t.Errorf("%v, hint %q", err, fault.HintOf(err))
		}
	}
	must.OK(t, newShards(fsys, "/c", 3))
}
