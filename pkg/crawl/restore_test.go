package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// rounds runs and commits n rounds in the test's crawl.
func rounds(t *testing.T, fsys durable.FS, from, to int, interval time.Duration) {
	t.Helper()
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	for i := from; i <= to; i++ {
		txn := fmt.Sprintf("r%d", i)
		must.OK(t, change(fsys, "/c/urls", "new", txn), change(fsys, "/c/frontier", "update", txn))
		_, _, err = c.Commit(ctx, txn, time.Unix(int64(60*i), 0), interval)
		must.OK(t, err)
	}
}

// TestRestoreRefusesFirst: a checkpoint with a damaged or missing manifest or file is
// refused while the crawl still stands where it stood.
func TestRestoreRefusesFirst(t *testing.T) {
	for what, damage := range map[string]func(*crashtest.FS, string) error{
		"deleted": func(fsys *crashtest.FS, path string) error { return fsys.Remove(path) },
		"cut":     func(fsys *crashtest.FS, path string) error { return durable.WriteFile(fsys, path, []byte("merc")) },
	} {
		for _, of := range []string{"manifest", "file", "current", "checkpoint"} {
			fsys := testCrawl(t)
			rounds(t, fsys, 1, 3, 0)
			k, err := readCheckpoint(fsys, "/c", 1)
			must.OK(t, err)
			s := openStore(t, fsys, "urls")
			m, err := s.At(k.of("urls").Generation)
			must.OK(t, err)
			path, number := s.ManifestPath(m.Generation), uint64(1)
			switch of {
			case "file":
				path = s.Path(m.WithRole("run")[0].Path)
			case "current": // abandon and restore go back to it
				k, err = readCheckpoint(fsys, "/c", 3)
				must.OK(t, err)
				path, number = s.ManifestPath(k.of("urls").Generation), 3
			case "checkpoint":
				path = checkpointPath("/c", 1)
			}
			must.OK(t, damage(fsys, path))
			before := content(t, fsys, "/c/CURRENT")
			if err := restore(fsys, number); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s %s: restore says %v, want %s named", of, what, err, path)
			}
			switch of {
			case "current":
				if err := abandon(fsys); err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("%s %s: abandon says %v, want %s named", of, what, err, path)
				}
			case "manifest", "checkpoint": // others are whole
				must.OK(t, restore(fsys, 2), restore(fsys, 3), restore(fsys, 2))
				before = content(t, fsys, "/c/CURRENT")
				if err := restore(fsys, 1); err == nil {
					t.Errorf("%s %s: restored", of, what)
				}
			}
			if after := content(t, fsys, "/c/CURRENT"); after != before {
				t.Errorf("%s %s: CURRENT changed from %q to %q", of, what, before, after)
			}
			c, err := Open("/c", Options{FS: fsys})
			must.OK(t, err)
			if v, err := c.Verify(ctx); err != nil || len(v.Problems) == 0 {
				t.Errorf("%s %s: verify says %+v, %v", of, what, v, err)
			}
		}
	}
}

// TestRestorePastDamage: a newest manifest that is damaged or gone, and that the checkpoint does not bind, keeps
// nobody from going back, wherever that dies; its number is not used again, and gc takes it away.
func TestRestorePastDamage(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		what   string
		damage func(*crashtest.FS, string) error
	}{
		{"deleted", func(fsys *crashtest.FS, path string) error { return fsys.Remove(path) }},
		{"cut", func(fsys *crashtest.FS, path string) error { return durable.WriteFile(fsys, path, []byte("merc")) }},
		{"another", func(fsys *crashtest.FS, path string) error { return durable.WriteFile(fsys, path, []byte("x\n")) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			what, damage := c.what, c.damage
			for _, number := range []uint64{0, 1, 2} {
				first := 1
				if number != uint64(i) && !long {
					first = 1<<20 + 1 // it does not die: each damage, and each number, is with deaths once
				}
				whole := testCrawl(t)
				rounds(t, whole, 1, 2, 0)
				must.OK(t, change(whole, "/c/urls", "new", "r3"))
				s := openStore(t, whole, "urls")
				newest, err := s.Newest()
				must.OK(t, err)
				must.OK(t, damage(whole, s.ManifestPath(newest.Generation)))
				for at, dies := first, true; dies; at++ {
					for _, loss := range lossesAt(at) {
						fsys := clone(whole)
						fsys.CrashAt(at)
						_ = restore(fsys, number)
						dies = fsys.Crashed()
						fsys = fsys.AfterCrash(loss)
						warned := 0
						c, err := Open("/c", Options{FS: fsys, Warn: func(error) { warned++ }})
						must.OK(t, err)
						must.OK(t, c.Restore(ctx, number))
						if dies && loss == crashtest.LoseAll && at == 1 && warned != 1 {
							t.Errorf("%s, to %d: %d warnings, want 1", what, number, warned)
						}
						st, err := c.State()
						must.OK(t, err)
						if st.Checkpoint != number || len(st.Changed) > 0 || len(st.Rounds) > 0 {
							t.Fatalf("%s, to %d, dead at %d: %+v", what, number, at, st)
						}
						must.OK(t, change(fsys, "/c/urls", "new", "r9"), change(fsys, "/c/frontier", "update", "r9"), commit(fsys, "r9"))
						s := openStore(t, fsys, "urls")
						if m, err := s.Newest(); err != nil || m.Generation <= newest.Generation+1 {
							t.Fatalf("%s: newest %+v, %v", what, m, err)
						}
						must.OK(t, gc(fsys, 5))
						if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
							t.Fatalf("%s, to %d, dead at %d: verify says %+v, %v", what, number, at, v, err)
						}
					}
				}
			}
		})
	}
}

// TestDamagedHead: verify names a store's HEAD that is damaged or gone, and restore refuses; both name repair.
func TestDamagedHead(t *testing.T) {
	whole := testCrawl(t)
	rounds(t, whole, 1, 2, 0)
	head := openStore(t, whole, "urls").Path(store.HeadFile)
	for what, damage := range map[string]func(*crashtest.FS) error{
		"deleted": func(fsys *crashtest.FS) error { return fsys.Remove(head) },
		"cut":     func(fsys *crashtest.FS) error { return durable.WriteFile(fsys, head, []byte("merc")) },
	} {
		fsys := clone(whole)
		must.OK(t, damage(fsys))
		c, err := Open("/c", Options{FS: fsys})
		must.OK(t, err)
		if v, err := c.Verify(ctx); err != nil || len(v.Problems) != 1 || !v.Repair {
			t.Errorf("%s: verify says %+v, %v", what, v, err)
		}
		if err := c.Restore(ctx, 1); err == nil || !strings.Contains(err.Error(), head) || fault.HintOf(err) != "make it anew: mckpt repair /c" {
			t.Errorf("%s: restore says %v", what, err)
		}
	}
}

// TestPowerCutAfterRestore: what restore has done past a damaged manifest stays done, also where another process holds the store, so that
// HEAD on the disk still names that manifest.
func TestPowerCutAfterRestore(t *testing.T) {
	fsys := testCrawl(t)
	rounds(t, fsys, 1, 2, 0)
	must.OK(t, change(fsys, "/c/urls", "new", "r3"))
	s := openStore(t, fsys, "urls")
	m, err := s.Newest()
	must.OK(t, err, durable.WriteFile(fsys, s.ManifestPath(m.Generation), []byte("merc")))
	_, err = fsys.Lock(s.Path(store.LockFile), "another")
	must.OK(t, err, restore(fsys, 2))
	must.OK(t, change(fsys.AfterCrash(crashtest.LoseAll), "/c/urls", "new", "r9"))
}

// TestRestoreMovesRoundFiles: after a restore to and fro, the files under rounds/ belong to the rounds that count, wherever the
// restore died: the same one again, or TidyRounds, ends it, and Verify has said so.
func TestRestoreMovesRoundFiles(t *testing.T) {
	base := testCrawl(t)
	round := func(fsys durable.FS, txn, epoch string) {
		t.Helper()
		must.OK(t, change(fsys, "/c/urls", "new", txn), change(fsys, "/c/frontier", "update", txn))
		keep(t, fsys, txn, epoch)
		must.OK(t, commit(fsys, txn))
	}
	for _, txn := range []string{"seed", "r1", "add1", "r2", "r3"} {
		round(base, txn, "0")
	}
	must.OK(t, restore(base, 1))
	round(base, "r1", "1")
	round(base, "r2", "1")
	open := func(fsys durable.FS, opt Options) *Crawl {
		t.Helper()
		opt.FS = fsys
		c, err := Open("/c", opt)
		must.OK(t, err)
		return c
	}
	whole := func(fsys durable.FS, what string, rounds ...string) {
		t.Helper()
		var want []string
		for _, r := range rounds {
			want = append(want, "/c/rounds/"+r+"/links.arrows.zst")
		}
		c := open(fsys, Options{})
		have, err := c.RoundFiles("links")
		if err != nil || !slices.Equal(have, want) {
			t.Fatalf("%s: %q, %v, want %q", what, have, err, want)
		}
		if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
			t.Fatalf("%s: verify says %+v, %v", what, v, err)
		}
	}
	whole(base, "before", "seed", "r1", "r2")
	finish := []func(fsys durable.FS, number uint64) error{restore, func(fsys durable.FS, number uint64) error {
		_, err := open(fsys, Options{}).TidyRounds(ctx)
		return err
	}}
	for _, to := range []struct {
		number uint64
		rounds []string
	}{{5, []string{"seed", "r1", "add1", "r2", "r3"}}, {2, []string{"seed", "r1"}}, {0, nil}, {7, []string{"seed", "r1", "r2"}}} {
		told := 0                                       // by Verify
		for at, dies := 1, to.number == 5; dies; at++ { // to 5 moves files in both directions
			for i, loss := range []crashtest.Loss{crashtest.LoseAll, crashtest.KeepAll} {
				what := fmt.Sprintf("to %d, dead at %d, loss %d", to.number, at, loss)
				fsys := clone(base)
				fsys.CrashAt(at)
				_ = restore(fsys, to.number)
				dies = fsys.Crashed()
				fsys = fsys.AfterCrash(loss)
				st, err := open(fsys, Options{}).State()
				must.OK(t, err)
				if st.Checkpoint != to.number && !dies {
					t.Fatalf("%s: stands at %d", what, st.Checkpoint)
				}
				v, err := open(fsys, Options{}).Verify(ctx)
				if err != nil || len(v.Problems) > 0 && len(v.Aside) == 0 || len(v.Lost) > 0 || !dies && len(v.Problems) > 0 {
					t.Fatalf("%s: verify says %+v, %v", what, v, err)
				}
				told += len(v.Aside)
				if st.Checkpoint == to.number {
					must.OK(t, finish[(at+i)%2](fsys, to.number))
				} else {
					must.OK(t, restore(fsys, to.number))
				}
				whole(fsys, what, to.rounds...)
			}
		}
		if to.number == 5 && told == 0 {
			t.Errorf("verify never told of rounds that were set aside")
		}
		var said []string
		must.OK(t, open(base, Options{Warn: func(err error) { said = append(said, err.Error()) }}).Restore(ctx, to.number))
		whole(base, "after", to.rounds...)
		want := map[uint64][]string{
			5: {"/c/rounds: files that do not count were moved to rounds/undone: 2 rounds (r1 to r2)", "/c/rounds: files that count again were moved back from rounds/undone: 4 rounds (r1 to r3, add1)"},
			2: {"/c/rounds: files that do not count were moved to rounds/undone: 3 rounds (r2 to r3, add1)"},
			0: {"/c/rounds: files that do not count were moved to rounds/undone: 2 rounds (r1, seed)"},
			7: {"/c/rounds: files that count again were moved back from rounds/undone: 3 rounds (r1 to r2, seed)"},
		}[to.number]
		if !slices.Equal(said, want) {
			t.Errorf("to %d: said %q, want %q", to.number, said, want)
		}
	}
}

func content(t *testing.T, fsys durable.FS, path string) string {
	t.Helper()
	b, err := durable.ReadFile(fsys, path, 1<<20)
	must.OK(t, err)
	return string(b)
}

// TestForgottenCheckpoints: a checkpoint that gc or commit forgot is none that was deleted,
// and gc takes the file of one that died with it.
func TestForgottenCheckpoints(t *testing.T) {
	fsys := testCrawl(t)
	rounds(t, fsys, 1, 5, 90*time.Second) // every second one stays
	must.OK(t, gc(fsys, 2))
	rounds(t, fsys, 6, 6, 0)
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	problems := func() int {
		v, err := c.Verify(ctx)
		must.OK(t, err)
		return len(v.Problems)
	}
	cur, err := c.current()
	must.OK(t, err)
	if problems() != 0 || cur.Forgotten == "" {
		t.Errorf("CURRENT %+v, %d problems; want forgotten checkpoints, and none missed", cur, problems())
	}
	forgotten := uint64(0)
	cur.Forgotten.Each(func(first, last uint64) bool { forgotten = first; return false })
	if _, err := c.Checkpoint(forgotten); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "forgotten") {
		t.Errorf("a forgotten checkpoint: %v", err)
	}
	left := checkpointPath("/c", forgotten)
	must.OK(t, durable.WriteFile(fsys, left, []byte("of a gc that died")))
	if problems() != 0 {
		t.Error("the file of a forgotten checkpoint is a problem")
	}
	must.OK(t, gc(fsys, 2))
	if _, err := fsys.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after gc the file of a forgotten checkpoint is still there: %v", err)
	}
	numbers, err := checkpointNumbers(fsys, "/c", cur)
	must.OK(t, err)
	must.OK(t, fsys.Remove(checkpointPath("/c", numbers[0])))
	if problems() != 1 {
		t.Error("verify does not miss a checkpoint that was deleted")
	}
	if err := restore(fsys, numbers[0]); !errors.Is(err, fault.Corrupt) {
		t.Errorf("restore to a checkpoint that was deleted: %v", err)
	}
}

// TestObsoleteManifest: damage of a generation that only readers of a moment ago may need is
// told by verify, and gc takes it away.
func TestObsoleteManifest(t *testing.T) {
	fsys := testCrawl(t)
	rounds(t, fsys, 1, 2, 0)
	must.OK(t, change(fsys, "/c/urls", "new", "r3"), change(fsys, "/c/urls", "again", "r3"))
	s := openStore(t, fsys, "urls")
	m, err := s.Newest()
	must.OK(t, err)
	must.OK(t, durable.WriteFile(fsys, s.ManifestPath(m.Generation-1), []byte("merc")))
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	if v, err := c.Verify(ctx); err != nil || len(v.Problems) != 1 {
		t.Errorf("verify says %+v, %v; want one problem", v, err)
	}
	must.OK(t, change(fsys, "/c/frontier", "update", "r3"), commit(fsys, "r3"), gc(fsys, 3))
	if v, err := c.Verify(ctx); err != nil || len(v.Problems) != 0 {
		t.Errorf("after gc verify says %+v, %v", v, err)
	}
}

// TestOlderCurrent: beside a CURRENT from before two checkpoints or more, as an old copy brings it back, no change begins, and Verify says so:
// it would give up what these checkpoints hold.
func TestOlderCurrent(t *testing.T) {
	shards := testShards(t)
	for _, test := range []struct {
		name  string
		fsys  *crashtest.FS
		round func(*testing.T, durable.FS, string)
	}{{"no shards", testCrawl(t), wholeRound}, {"two shards", shards, shardRound}} {
		test.round(t, test.fsys, "r1")
		old := content(t, test.fsys, "/c/CURRENT")
		test.round(t, test.fsys, "r2")
		test.round(t, test.fsys, "r3")
		c, err := Open("/c", Options{FS: test.fsys})
		must.OK(t, err, durable.WriteFile(test.fsys, "/c/CURRENT", []byte(old)))
		const says = "/c/CURRENT: last checkpoint 1, want 2 or later: /c/checkpoints/000003 goes on from it"
		for what, change := range map[string]func() error{
			"commit":  func() error { return commit(test.fsys, "r3") },
			"abandon": func() error { return abandon(test.fsys) },
			"restore": func() error { return restore(test.fsys, 1) },
			"gc":      func() error { return gc(test.fsys, 1) },
			"rounds":  func() error { _, err := c.TidyRounds(ctx); return err },
		} {
			if err := change(); !errors.Is(err, fault.Corrupt) || !strings.HasPrefix(err.Error(), says) {
				t.Errorf("%s: %s: %v", test.name, what, err)
			}
		}
		if v, err := c.Verify(ctx); err != nil || !slices.Contains(v.Problems, says) {
			t.Errorf("%s: verify says %+v, %v", test.name, v, err)
		}
		// Checkpoint 2 alone may be of a commit that died, but the stores have gone on from it.
		must.OK(t, test.fsys.Remove(checkpointPath("/c", 3)))
		if err := abandon(test.fsys); !errors.Is(err, fault.Corrupt) || !strings.HasPrefix(err.Error(), "/c/CURRENT: generation ") {
			t.Errorf("%s: abandon: %v", test.name, err)
		}
	}
}
