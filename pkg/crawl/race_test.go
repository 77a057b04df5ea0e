package crawl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"testing"
	"time"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/shard"
)

// nodeFS is the file system of a machine with locks that hold for nobody. Another one acts before its step number at.
type nodeFS struct {
	durable.FS
	steps, at int
	do        func()
}

type noLock struct{}

func (noLock) Close() error { return nil }

func (n *nodeFS) Lock(string, string) (io.Closer, error) { return noLock{}, nil }

func (n *nodeFS) step() {
	if n.steps++; n.steps == n.at {
		n.do()
	}
}

func (n *nodeFS) OpenFile(name string, flag int, perm fs.FileMode) (durable.File, error) {
	if flag&os.O_CREATE != 0 {
		n.step()
	}
	return n.FS.OpenFile(name, flag, perm)
}

func (n *nodeFS) ReadDir(name string) ([]fs.DirEntry, error) {
	n.step()
	return n.FS.ReadDir(name)
}

func (n *nodeFS) Link(a, b string) error {
	n.step()
	return n.FS.Link(a, b)
}

func (n *nodeFS) Rename(a, b string) error {
	n.step()
	return n.FS.Rename(a, b)
}

func (n *nodeFS) Remove(name string) error {
	n.step()
	return n.FS.Remove(name)
}

// TestTwoMachines: while one machine commits or abandons a round of a crawl of shards, another does at any step, and its locks
// do not hold for the first. Each change happens whole or is refused with "run it again", none is set back, and the crawl goes on.
func TestTwoMachines(t *testing.T) {
	acts := map[string]func(durable.FS) error{"commit": func(fsys durable.FS) error { return commit(fsys, "r2") }, "abandon": abandon}
	base := testShards(t)
	shardRound(t, base, "r1")
	must.OK(t, stagesOfRound(base, 0, "r2"), stagesOfRound(base, 1, "r2"))
	stride := 3 // of the steps that are tried
	if long {
		stride = 1
	}
	for slow, act := range acts {
		for quick, other := range acts {
			t.Run(slow+" and "+quick, func(t *testing.T) {
				t.Parallel()
				lost, won := 0, 0
				for at := 1; ; at += stride {
					fsys := clone(base)
					acted := false
					node := &nodeFS{FS: fsys, at: at, do: func() {
						acted = true
						if err := other(&nodeFS{FS: fsys}); err != nil && (slow == "commit" || quick != "commit" || !errors.Is(err, fault.Conflict)) {
							t.Fatalf("step %d: the quick one: %v", at, err)
						}
						shardRound(t, fsys, "r9") // and goes on
					}}
					before, err := store.ReadCurrent(fsys, "/c")
					must.OK(t, err)
					errSlow := act(node)
					after, err := store.ReadCurrent(fsys, "/c")
					must.OK(t, err)
					if !acted {
						if lost == 0 {
							t.Errorf("no step at which the slow one lost")
						}
						return
					}
					switch {
					case errSlow == nil && slow != "commit" && after.Epoch == before.Epoch:
						t.Fatalf("step %d: %s says that it is done, and is not", at, slow)
					case errSlow == nil:
						won++
					case errors.Is(errSlow, fault.Busy) || errors.Is(errSlow, fault.Conflict) || errors.Is(errSlow, fs.ErrNotExist):
						lost++
						if after.Last == before.Last || after.Txn != "r9" {
							t.Fatalf("step %d: %s and round r9 were set back: %+v", at, quick, after)
						}
					default:
						t.Fatalf("step %d: %v", at, errSlow)
					}
					c, err := Open("/c", Options{FS: fsys})
					must.OK(t, err)
					if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
						t.Fatalf("step %d: %v %v", at, err, v.Problems)
					}
					shardRound(t, fsys, "r10")
				}
			})
		}
	}
}

// TestBeginsAndTidies: the folder of a round that one machine is making stays where it is while another tidies, also before the file that
// names its epoch is there.
func TestBeginsAndTidies(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, newShards(durable.OS, dir, 2))
	c, err := Open(dir, Options{})
	must.OK(t, err)
	must.OK(t, os.MkdirAll(c.part(shard.Name(0)).roundsPath("r1"), 0o777), os.MkdirAll(c.roundsPath("r1"), 0o777))
	for n := range 2 {
		_, _, err := c.BeginShardRound(ctx, 1-n, "r1") // which tidies
		must.OK(t, err)
	}
	_, err = c.TidyRounds(ctx)
	must.OK(t, err)
	for _, part := range []*Crawl{c, c.part(shard.Name(0)), c.part(shard.Name(1))} {
		if undone, err := os.ReadDir(part.roundsPath(undoneDir)); err == nil {
			t.Errorf("%s: %v", part.roundsPath(undoneDir), undone)
		}
		if _, err := os.Stat(part.roundsPath("r1", "epoch.0")); err != nil {
			t.Error(err)
		}
	}
}

// TestBetweenRounds: while one machine cleans a crawl of shards up, goes back or moves buckets, another does. None sees more than
// "run it again", what CURRENT names is there, and the crawl goes on.
func TestBetweenRounds(t *testing.T) {
	acts := map[string]func(durable.FS) error{
		"gc":      func(fsys durable.FS) error { return gc(fsys, 1) },
		"restore": func(fsys durable.FS) error { return restore(fsys, 2) },
		"move":    func(fsys durable.FS) error { return move(fsys, testOwners(t, 7, 8, 4000)) },
	}
	base := testShards(t)
	shardRound(t, base, "r1")
	shardRound(t, base, "r2")
	stride := 6 // of the steps that are tried
	if long {
		stride = 3
	}
	for slow, act := range acts {
		for quick, other := range acts {
			t.Run(slow+" and "+quick, func(t *testing.T) {
				t.Parallel()
				for at := stride; ; at += stride {
					fsys := clone(base)
					acted := false
					node := &nodeFS{FS: fsys, at: at, do: func() {
						acted = true
						if err := other(&nodeFS{FS: fsys}); err != nil && !errors.Is(err, fault.Conflict) {
							t.Fatalf("step %d: the quick one: %v", at, err)
						}
					}}
					if err := act(node); err != nil && !errors.Is(err, fault.Busy) && !errors.Is(err, fault.Conflict) && !errors.Is(err, fault.Superseded) {
						t.Fatalf("step %d: %v", at, err)
					}
					if !acted {
						return
					}
					c, err := Open("/c", Options{FS: fsys})
					must.OK(t, err)
					if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
						t.Fatalf("step %d: %v %v", at, err, v.Problems)
					}
					begun, err := c.Moving()
					must.OK(t, err)
					if begun != nil {
						_, err := c.FinishMove(ctx, begun, testMovers(), time.Unix(0, 0))
						must.OK(t, err)
					}
					shardRound(t, fsys, "r10")
				}
			})
		}
	}
}

// readFS is a nodeFS on which another acts before files are opened, too.
type readFS struct{ *nodeFS }

func (r readFS) OpenFile(name string, flag int, perm fs.FileMode) (durable.File, error) {
	r.step()
	return r.FS.OpenFile(name, flag, perm)
}

// TestVerifyMeanwhile: whatever is done to a crawl at any step of Verify, which takes no lock, is no problem.
func TestVerifyMeanwhile(t *testing.T) {
	round := func(fsys durable.FS, i int) error {
		txn := fmt.Sprintf("r%d", i)
		c, err := Open("/c", Options{FS: fsys})
		must.OK(t, err, change(fsys, "/c/urls", "new", txn), change(fsys, "/c/frontier", "next", txn), change(fsys, "/c/frontier", "more", txn), change(fsys, "/c/frontier", "update", txn))
		keep(t, fsys, txn, "0")
		_, _, err = c.Commit(ctx, txn, time.Unix(int64(60*i), 0), 90*time.Second) // forgets every second checkpoint
		return err
	}
	for _, test := range []struct {
		what   string
		rounds int
		do     func(durable.FS) error
	}{
		{"rounds", 4, func(fsys durable.FS) error { return errors.Join(round(fsys, 5), round(fsys, 6)) }},
		{"gc", 3, func(fsys durable.FS) error { return errors.Join(round(fsys, 5), round(fsys, 6), gc(fsys, 1)) }},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			base := testCrawl(t)
			for i := 1; i <= test.rounds; i++ {
				must.OK(t, round(base, i))
			}
			must.OK(t, change(base, "/c/urls", "new", "r5"), change(base, "/c/frontier", "next", "r5"))
			for at, acted := 1, true; acted; at += 3 {
				acted = false
				fsys := clone(base)
				node := &nodeFS{FS: fsys, at: at, do: func() {
					acted = true
					must.OK(t, test.do(fsys))
				}}
				c, err := Open("/c", Options{FS: readFS{node}, Progress: func(int64) { node.step() }})
				must.OK(t, err)
				if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
					t.Fatalf("step %d: %v %+v", at, err, v)
				}
			}
		})
	}
}
