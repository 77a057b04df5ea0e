package crawl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/shard"
)

var shardStores = []string{"frontier", "urls"}

// newShards makes a crawl folder of shards at dir.
func newShards(fsys durable.FS, dir string, shards int) error {
	opt := Options{FS: fsys, Shards: shards}
	_, err := Init(dir, []byte("# none\n"), nil, func(dir string) error {
		for _, name := range shardStores {
			if err := store.Create(dir+"/"+name, name, 1, nil, opt.stores()); err != nil {
				return err
			}
		}
		return nil
	}, opt)
	return err
}

// testShards is one of two shards in memory.
func testShards(t *testing.T) *crashtest.FS {
	t.Helper()
	fsys := crashtest.New()
	must.OK(t, newShards(fsys, "/c", 2))
	return fsys
}

// stagesOfRound runs a round's stages in a shard.
func stagesOfRound(fsys durable.FS, n int, txn string) error {
	dir := shard.Dir("/c", n)
	return errors.Join(change(fsys, dir+"/urls", "new", txn), change(fsys, dir+"/frontier", "update", txn))
}

// shardRound runs and commits a round of two shards.
func shardRound(t *testing.T, fsys durable.FS, txn string) {
	t.Helper()
	must.OK(t, stagesOfRound(fsys, 0, txn), stagesOfRound(fsys, 1, txn), commit(fsys, txn))
}

// TestCrashShards: what changes several shards changes all or none, wherever it stops.
func TestCrashShards(t *testing.T) {
	for _, test := range []struct {
		name  string
		run   func(fsys durable.FS) error
		again string
	}{
		{"a checkpoint", func(fsys durable.FS) error { return commit(fsys, "r3") }, "r4"},
		{"abandon", abandon, "r3"},
		{"restore", func(fsys durable.FS) error { return restore(fsys, 1) }, "r2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			base := testShards(t)
			shardRound(t, base, "r1")
			shardRound(t, base, "r2")
			must.OK(t, stagesOfRound(base, 0, "r3"), stagesOfRound(base, 1, "r3"))
			crashEverywhere(t, base, test.name, test.run, test.again)
		})
	}
	t.Run("two checkpoints that CURRENT never named", func(t *testing.T) {
		fsys := testShards(t)
		shardRound(t, fsys, "r1")
		for left := uint64(2); left <= 3; left++ {
			must.OK(t, stagesOfRound(fsys, 0, "r2"), stagesOfRound(fsys, 1, "r2"))
			for n, made := 1, false; !made; n++ {
				dead := clone(fsys)
				dead.CrashAt(n)
				if err := commit(dead, "r2"); err == nil {
					t.Fatal("no commit died between the file of its checkpoint and CURRENT")
				}
				dead = dead.AfterCrash(crashtest.KeepAll)
				if _, err := dead.Stat(checkpointPath("/c", left)); err == nil {
					fsys, made = dead, true
				}
			}
			must.OK(t, abandon(fsys))
		}
		must.OK(t, restore(fsys, 1))
		shardRound(t, fsys, "r2")
		if c, err := Open("/c", Options{FS: fsys}); err != nil {
			t.Fatal(err)
		} else if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 || v.Sound != 4 {
			t.Errorf("verify says %+v, %v", v, err)
		}
	})
}

// TestCrashInitShards: a crawl of shards that has CURRENT is complete, and one that has not can be made again.
func TestCrashInitShards(t *testing.T) {
	for n := 1; ; n++ {
		fsys := crashtest.New()
		fsys.CrashAt(n)
		err := newShards(fsys, "/c", 2)
		for _, loss := range lossesAt(n) {
			found := fsys.AfterCrash(loss)
			c, oerr := Open("/c", Options{FS: found})
			if err == nil && oerr != nil {
				t.Fatalf("call %d, loss %d: %v", n, loss, oerr)
			}
			if oerr == nil {
				if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
					t.Fatalf("call %d, loss %d: %v %v", n, loss, err, v)
				}
			}
			must.OK(t, newShards(found, "/c", 2))
			shardRound(t, found, "r1")
		}
		if !fsys.Crashed() {
			return
		}
	}
}

// TestCommitShards: a round is closed in all shards by one checkpoint, when it is over in each.
func TestCommitShards(t *testing.T) {
	fsys := testShards(t)
	refused := func(file, says string) {
		t.Helper()
		if err := commit(fsys, "r1"); !errors.Is(err, fault.Conflict) || !strings.HasPrefix(err.Error(), file) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s: %s", err, file, says)
		}
	}
	must.OK(t, stagesOfRound(fsys, 0, "r1"))
	refused("/c/shard/001/frontier", `no update or add of "r1"`)
	must.OK(t, change(fsys, "/c/shard/001/frontier", "update", "r1"))
	refused("/c/shard/001/urls", `round "r1" is not committed here`)
	must.OK(t, change(fsys, "/c/shard/001/urls", "new", "r1"), store.Create("/c/shard/002/urls", "urls", 1, nil, store.Options{FS: fsys}))
	refused("/c/shard/002/urls", "a store that belongs to no shard, want 2 shards")
	must.OK(t, removeAll(fsys, "/c/shard/002"), commit(fsys, "r1"))

	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	k, err := c.Current()
	must.OK(t, err)
	if !reflect.DeepEqual(k.Ledgers(), []record.Ledger{ledgerOf("shard/000", "r1"), ledgerOf("shard/001", "r1")}) || k.Map != 1 || len(k.Stores) != 4 {
		t.Errorf("%+v", k)
	}
	if k.Totals.Rounds != 1 || k.Totals.Stages[0].In != 6 || k.Totals.Stages[1].Out != 6 {
		t.Errorf("totals: %+v", k.Totals)
	}
	cur, err := c.current()
	must.OK(t, err)
	if cur.Map != 1 || len(cur.Stores) != 4 || cur.Stores["shard/001/urls"] != 2 {
		t.Errorf("%+v", cur)
	}
	must.OK(t, commit(fsys, "r1"))
	if again, err := c.Current(); err != nil || again.Number != 1 {
		t.Errorf("closed twice: %+v, %v", again, err)
	}

	// Another round, open in one shard.
	must.OK(t, stagesOfRound(fsys, 0, "r2"), change(fsys, "/c/shard/001/urls", "new", "r3"))
	if err := commit(fsys, "r2"); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `/c/shard/001/urls: round "r3" is open`) {
		t.Error(err)
	}
	must.OK(t, abandon(fsys))
	shardRound(t, fsys, "r2")
	must.OK(t, restore(fsys, 1))
	if next, err := c.NextRound(); err != nil || next != 2 {
		t.Errorf("round %d, %v", next, err)
	}
	must.OK(t, restore(fsys, 0))
	shardRound(t, fsys, "r1")
	must.OK(t, gc(fsys, 1))
	if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
		t.Errorf("%v, %+v", err, v)
	}
}

// TestVerifyShards: what is wrong with the shards of a crawl is told, each with its place.
func TestVerifyShards(t *testing.T) {
	base := testShards(t)
	shardRound(t, base, "r1")
	swap := func(fsys *crashtest.FS, a, b string) error {
		return errors.Join(fsys.Rename(a, "/c/swap"), fsys.Rename(b, a), fsys.Rename("/c/swap", b))
	}
	for _, test := range []struct {
		name   string
		damage func(fsys *crashtest.FS) error
		says   string
	}{
		{"a store missing", func(fsys *crashtest.FS) error { return removeAll(fsys, "/c/shard/001/urls") }, "/c/shard/001/urls: missing, want a store, as other shards have"},
		{"a shard missing", func(fsys *crashtest.FS) error { return removeAll(fsys, "/c/shard/001") }, "/c/shard/001/frontier: missing"},
		{"a generation of another shard", func(fsys *crashtest.FS) error {
			return swap(fsys, "/c/shard/000/urls/MANIFEST-000002", "/c/shard/001/urls/MANIFEST-000002")
		}, "/c/shard/000/urls/MANIFEST-000002: checksum"},
		{"two shards exchanged", func(fsys *crashtest.FS) error { return swap(fsys, "/c/shard/000", "/c/shard/001") }, "MANIFEST-000002: checksum"},
		{"no map", func(fsys *crashtest.FS) error { return fsys.Remove("/c/MAP-000001") }, "/c/MAP-000001: missing, want version 1 of the bucket map"},
		{"a map of another version", func(fsys *crashtest.FS) error {
			m, err := shard.New(2)
			m.Version = 2
			return errors.Join(err, writeMap(fsys, "/c/MAP-000001", m))
		}, "/c/MAP-000001: version: 2, want 1"},
		{"another map counts", func(fsys *crashtest.FS) error {
			cur, err := store.ReadCurrent(fsys, "/c")
			m, merr := shard.New(2)
			m.Version, cur.Map = 2, 2
			return errors.Join(err, merr, writeMap(fsys, "/c/MAP-000002", m), store.WriteCurrent(fsys, "/c", cur))
		}, "/c/CURRENT: map: version 2, want 1, as checkpoint 1 says"},
		{"a map of more shards", func(fsys *crashtest.FS) error {
			m, err := shard.New(3)
			return errors.Join(err, writeMap(fsys, "/c/MAP-000001", m))
		}, "/c/shard/002/frontier: missing"},
		{"a shard too many", func(fsys *crashtest.FS) error { return durable.MkdirAll(fsys, "/c/shard/002") }, "/c/shard/002: the folder of a shard, want 2 shards, as version 1"},
		{"a store beside the shards", func(fsys *crashtest.FS) error {
			return store.Create("/c/urls", "urls", 1, nil, store.Options{FS: fsys})
		}, "/c/urls: a store that belongs to no shard"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fsys := clone(base)
			must.OK(t, test.damage(fsys))
			c, err := Open("/c", Options{FS: fsys})
			must.OK(t, err)
			v, err := c.Verify(ctx)
			if err != nil || !slices.ContainsFunc(v.Problems, func(p string) bool { return strings.Contains(p, test.says) }) {
				t.Errorf("%s: %v, %q, want %q", test.name, err, v.Problems, test.says)
			}
		})
	}
	c, err := Open("/c", Options{FS: base})
	must.OK(t, err)
	if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 || v.Ledgers != 2 {
		t.Errorf("%v, %+v", err, v)
	}
	// Without its map a crawl does not go back.
	must.OK(t, base.Remove("/c/MAP-000001"))
	for _, back := range []func(durable.FS) error{abandon, func(fsys durable.FS) error { return restore(fsys, 1) }} {
		if err := back(base); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "MAP-000001") {
			t.Error(err)
		}
	}
}

func writeMap(fsys durable.FS, file string, m *shard.Map) error {
	data, err := m.Encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(fsys, file, data)
}

func removeAll(fsys durable.FS, dir string) error {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = removeAll(fsys, path)
		} else {
			err = fsys.Remove(path)
		}
		if err != nil {
			return err
		}
	}
	return fsys.Remove(dir)
}

// TestRoundsOfShards: each shard keeps files of a round, and the crawl what they exchange. A commit binds those of the
// shards; after abandon and restore they follow.
func TestRoundsOfShards(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, newShards(durable.OS, dir, 2))
	c, err := Open(dir, Options{})
	must.OK(t, err)
	round := func(txn string) {
		t.Helper()
		for n := range 2 {
			ofShard, ofCrawl, err := c.BeginShardRound(ctx, n, txn)
			must.OK(t, err)
			if ofShard != filepath.Join(shard.Dir(dir, n), "rounds", txn) || ofCrawl != filepath.Join(dir, "rounds", txn) {
				t.Fatalf("%s, %s", ofShard, ofCrawl)
			}
			keepLinks(t, ofShard, c, n, txn)
			for _, s := range shardStores {
				st, err := store.Open(filepath.Join(shard.Dir(dir, n), s), s, 1, store.Options{})
				must.OK(t, err)
				must.OK(t, changeStore(st, map[string]string{"frontier": "update", "urls": "new"}[s], txn))
			}
		}
	}
	files := func() (names []string) {
		t.Helper()
		_, err := c.TidyRounds(ctx)
		must.OK(t, err)
		list, err := c.RoundFiles("links")
		must.OK(t, err)
		for _, f := range list {
			rel, err := filepath.Rel(dir, f)
			must.OK(t, err)
			names = append(names, filepath.Dir(rel))
		}
		return names
	}
	commit := func(txn string) {
		t.Helper()
		if _, made, err := c.Commit(ctx, txn, time.Unix(0, 0), 0); err != nil || !made {
			t.Fatal(made, err)
		}
	}
	want := func(names ...string) {
		t.Helper()
		if got := files(); !slices.Equal(got, names) {
			t.Fatalf("%q, want %q", got, names)
		}
	}
	round("r1")
	commit("r1")
	round("r2")
	r1 := []string{"shard/000/rounds/r1", "shard/001/rounds/r1"}
	r2 := []string{"shard/000/rounds/r2", "shard/001/rounds/r2"}
	want(append(r1, r2...)...)
	k, err := c.Current()
	must.OK(t, err)
	if f := k.filesOf("shard/001"); len(f) != 2 || f[1].Name != "links.arrows.zst" || len(k.Files) > 0 {
		t.Errorf("%+v", k.Shards)
	}
	_, err = c.Abandon(ctx)
	must.OK(t, err)
	want(r1...)
	for _, gone := range []string{"shard/000/rounds/undone/r2.0", "shard/001/rounds/undone/r2.0", "rounds/undone/r2.0"} {
		if _, err := os.Stat(filepath.Join(dir, gone)); err != nil {
			t.Error(err)
		}
	}
	round("r2")
	commit("r2")
	want(append(r1, r2...)...)
	verify := func() []string {
		t.Helper()
		v, err := c.Verify(ctx)
		must.OK(t, err)
		return v.Problems
	}
	if p := verify(); len(p) > 0 {
		t.Error(p)
	}
	must.OK(t, c.Restore(ctx, 1))
	want(r1...)
	must.OK(t, c.Restore(ctx, 2))
	want(append(r1, r2...)...)
	if p := verify(); len(p) > 0 {
		t.Error(p)
	}
	must.OK(t, os.Remove(filepath.Join(dir, "shard/001/rounds/r2/links.arrows.zst")))
	if p := verify(); len(p) != 1 || !strings.Contains(p[0], "shard/001/rounds/r2/links.arrows.zst: missing") {
		t.Error(p)
	}
}

// keepLinks writes the links of a round that a shard keeps.
func keepLinks(t *testing.T, dir string, c *Crawl, n int, txn string) {
	t.Helper()
	cur, err := c.current()
	must.OK(t, err)
	f, err := os.Create(filepath.Join(dir, "links.arrows.zst"))
	must.OK(t, err)
	defer f.Close()
	w, err := record.NewWriter[record.Link](f, record.WriterOptions{Txn: txn, Epoch: epochText(cur.Epoch)})
	must.OK(t, err)
	_, hash, err := w.Finish()
	must.OK(t, err)
	_, err = w.Commit(record.Ledger{Stages: []record.Stage{{Name: fmt.Sprintf("mextract %d", n), Txn: txn, OutHash: hash.String()}}})
	must.OK(t, err)
}
