package crawl

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

func repair(fsys durable.FS, to ...uint64) (*Repaired, error) {
	var at *uint64
	if len(to) > 0 {
		at = &to[0]
	}
	return Folder("/c", Options{FS: fsys}).Repair(ctx, at)
}

// pointerDamage are the things that happen to a file.
var pointerDamage = []struct {
	name string
	do   func(fsys *crashtest.FS, path, old string) error
}{
	{"deleted", func(fsys *crashtest.FS, path, _ string) error { return fsys.Remove(path) }},
	{"emptied", func(fsys *crashtest.FS, path, _ string) error { return durable.WriteFile(fsys, path, nil) }},
	{"cut", func(fsys *crashtest.FS, path, _ string) error {
		return durable.WriteFile(fsys, path, []byte("mercator-"))
	}},
	{"of another kind", func(fsys *crashtest.FS, path, _ string) error { return durable.WriteFile(fsys, path, []byte("x\n")) }},
	{"old", func(fsys *crashtest.FS, path, old string) error { return durable.WriteFile(fsys, path, []byte(old)) }},
}

// repairStates are crawls, some in the middle of a round.
func repairStates(t *testing.T) map[string]*crashtest.FS {
	none, shards := testCrawl(t), testShards(t)
	states := map[string]*crashtest.FS{}
	add := func(name string, fsys *crashtest.FS) { states[name] = clone(fsys) }
	for i := 1; i <= 3; i++ {
		wholeRound(t, none, fmt.Sprintf("r%d", i))
		shardRound(t, shards, fmt.Sprintf("r%d", i))
	}
	add("between rounds", none)
	add("shards", shards)
	must.OK(t, change(shards, "/c/shard/000/frontier", "next", "r4"), change(shards, "/c/shard/001/urls", "new", "r4"))
	add("shards, an open round", shards)
	must.OK(t, change(none, "/c/frontier", "next", "r4"), change(none, "/c/urls", "new", "r4"))
	add("an open round", none)
	must.OK(t, abandon(none))
	add("given up", none)
	must.OK(t, change(none, "/c/frontier", "next", "r4"))
	add("an open round after that", none)
	must.OK(t, restore(none, 2))
	add("restored", none)
	must.OK(t, change(none, "/c/frontier", "next", "r3"), change(none, "/c/frontier", "update", "r3"), change(none, "/c/urls", "new", "r3"))
	add("an open round after restore", none)
	must.OK(t, change(none, "/c/modules/tags", "tags", "r3"), commit(none, "r3"))
	add("a checkpoint after restore", none)
	must.OK(t, gc(none, 1))
	add("gc", none)
	empty := testCrawl(t)
	must.OK(t, change(empty, "/c/frontier", "add", "seed"), change(empty, "/c/urls", "new", "seed"))
	add("seeds of an empty crawl", empty)
	return states
}

// TestRepair: CURRENT and HEAD files that are lost, damaged or old are made anew, alone or together: the crawl stands where it stood, an open round is
// open still, and all goes on. Wherever that dies, the same again ends it.
func TestRepair(t *testing.T) {
	t.Parallel()
	for name, whole := range repairStates(t) {
		for _, what := range []string{"CURRENT", "one HEAD", "all"} {
			for _, damage := range pointerDamage {
				if damage.name == "old" && what != "CURRENT" { // an older HEAD does no harm: TestOldHead
					continue
				}
				t.Run(name+"/"+what+" "+damage.name, func(t *testing.T) {
					t.Parallel()
					base := clone(whole)
					want := crawlState(t, base)
					c, err := Open("/c", Options{FS: base})
					must.OK(t, err)
					stores, err := c.Stores()
					must.OK(t, err)
					cur, err := c.current()
					must.OK(t, err)
					old, err := store.Seal("mercator-crawl-current", store.Current{Map: cur.Map})
					must.OK(t, err)
					if what != "one HEAD" {
						must.OK(t, damage.do(base, "/c/CURRENT", string(old)))
					}
					if what != "CURRENT" {
						for _, s := range stores {
							if what == "all" || s == stores[0] {
								must.OK(t, damage.do(base, s.Path("HEAD"), ""))
							}
						}
					}
					if done, err := repair(clone(base)); err == nil && damage.name == "old" && done.Current == "" {
						t.Skip("no store and no checkpoint tells it from a commit that died")
					}
					first := 1
					if !long && name != "an open round" && name != "shards, an open round" {
						first = 1<<20 + 1 // it does not die
					}
					for at, dies := first, true; dies; at++ {
						fsys := clone(base)
						fsys.CrashAt(at)
						_, _ = repair(fsys)
						dies = fsys.Crashed()
						for _, loss := range lossesAt(at) {
							found := fsys.AfterCrash(loss)
							if _, err := repair(found); err != nil {
								t.Fatalf("dead at %d: %v", at, err)
							}
							if is := crawlState(t, found); is != want {
								t.Fatalf("dead at %d:\n%s\nwant:\n%s", at, is, want)
							}
							if done, err := repair(found); err != nil || done.Current != "" || len(done.Heads) > 0 {
								t.Fatalf("repaired again: %+v, %v", done, err)
							}
							c, err := Open("/c", Options{FS: found})
							must.OK(t, err)
							if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
								t.Fatalf("dead at %d: verify says %+v, %v", at, v, err)
							}
						}
					}
					found := clone(base)
					_, err = repair(found)
					must.OK(t, err)
					is, err := c2(found).current()
					must.OK(t, err)
					if is.Last < cur.Last || is.Epoch != cur.Epoch {
						t.Errorf("CURRENT %+v, was %+v", is, cur)
					}
					for _, n := range c2(found).mustNumbers(t, is) { // each can be gone back to
						must.OK(t, restore(found, n))
					}
					must.OK(t, restore(found, 0), gc(found, 5))
				})
			}
		}
	}
}

func c2(fsys durable.FS) *Crawl { return Folder("/c", Options{FS: fsys}) }

func (c *Crawl) mustNumbers(t *testing.T, cur store.Current) []uint64 {
	t.Helper()
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	must.OK(t, err)
	return numbers
}

// TestOldHead: a HEAD from which no way leads to the newest manifest is refused by changes and told by Verify, and repair makes it anew.
func TestOldHead(t *testing.T) {
	fsys := testCrawl(t)
	wholeRound(t, fsys, "r1")
	s := openStore(t, fsys, "urls")
	old := content(t, fsys, s.Path("HEAD"))
	for i := 2; i < 6; i++ {
		wholeRound(t, fsys, fmt.Sprintf("r%d", i))
	}
	must.OK(t, gc(fsys, 1))
	want := crawlState(t, fsys)
	must.OK(t, durable.WriteFile(fsys, s.Path("HEAD"), []byte(old)))
	for what, err := range map[string]error{"change": change(fsys, "/c/urls", "new", "r6"), "abandon": abandon(clone(fsys)), "gc": gc(clone(fsys), 1)} {
		if !errors.Is(err, fault.Corrupt) || !strings.Contains(fault.HintOf(err), "mckpt repair /c") {
			t.Errorf("%s: %v, hint %q", what, err, fault.HintOf(err))
		}
	}
	if v, err := c2(fsys).Verify(ctx); err != nil || !v.Repair {
		t.Errorf("verify says %+v, %v", v, err)
	}
	done, err := repair(fsys)
	if must.OK(t, err); len(done.Heads) != 1 || done.Heads[0].Store != "urls" {
		t.Errorf("repaired %+v", done)
	}
	if is := crawlState(t, fsys); is != want {
		t.Errorf("%s\nwant:\n%s", is, want)
	}
	wholeRound(t, fsys, "r6")
}

// TestRepairWithoutItsCheckpoint: where the checkpoint is lost, too, on which the stores stand, repair names the newest that is whole, and goes on from there only
// if it is told to.
func TestRepairWithoutItsCheckpoint(t *testing.T) {
	fsys := testCrawl(t)
	for i := 1; i <= 3; i++ {
		wholeRound(t, fsys, fmt.Sprintf("r%d", i))
	}
	must.OK(t, change(fsys, "/c/frontier", "next", "r4"), fsys.Remove("/c/CURRENT"), durable.WriteFile(fsys, checkpointPath("/c", 3), []byte("mercator-checkpoint 1 ")))
	_, err := repair(fsys)
	if !errors.Is(err, fault.Corrupt) || !strings.Contains(fault.HintOf(err), `: mckpt repair /c --checkpoint 2`) {
		t.Fatalf("%v, hint %q", err, fault.HintOf(err))
	}
	if _, err := repair(fsys, 3); !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.Truncated) {
		t.Errorf("to a damaged checkpoint: %v", err)
	}
	if there, _ := durable.Exists(fsys, "/c/CURRENT"); there {
		t.Error("CURRENT was made")
	}
	_, err = repair(fsys, 2)
	must.OK(t, err)
	st, err := c2(fsys).State()
	must.OK(t, err)
	if st.Checkpoint != 2 || len(st.Rounds) > 0 {
		t.Errorf("%+v", st)
	}
	wholeRound(t, fsys, "r3")
	if k, err := c2(fsys).Current(); err != nil || k.Number != 4 { // 3 was used
		t.Errorf("%+v, %v", k, err)
	}
	if _, err := repair(fsys, 1); !errors.Is(err, fault.Usage) {
		t.Errorf("a checkpoint for a sound CURRENT: %v", err)
	}
}

// TestRepairRefuses: a folder that is no crawl, and a CURRENT of another version, stay as they are.
func TestRepairRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		make func(*crashtest.FS) error
		want fault.Class
	}{
		"nothing": {func(*crashtest.FS) error { return nil }, fault.Usage},
		"other files": {func(fsys *crashtest.FS) error {
			return errors.Join(durable.MkdirAll(fsys, "/c"), durable.WriteFile(fsys, "/c/x", nil))
		}, fault.Usage},
		"another version": {func(fsys *crashtest.FS) error {
			return errors.Join(newCrawl(fsys), durable.WriteFile(fsys, "/c/CURRENT", []byte("mercator-crawl-current 9 1 x\n")))
		}, fault.Version},
		"an unfinished pull": {func(fsys *crashtest.FS) error {
			return errors.Join(newCrawl(fsys), durable.MkdirAll(fsys, "/c/push"), durable.WriteFile(fsys, "/c/push/PULL", nil), fsys.Remove("/c/CURRENT"))
		}, fault.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := crashtest.New()
			must.OK(t, test.make(fsys))
			_, err := repair(fsys)
			if fault.ClassOf(err) != test.want {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}
