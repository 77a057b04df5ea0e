package crawl

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"

	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// nodeFS is the file system of a machine whose locks hold for nobody. Another one acts before its step number at.
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
	must(t, stagesOfRound(base, 0, "r2"), stagesOfRound(base, 1, "r2"))
	for slow, act := range acts {
		for quick, other := range acts {
			t.Run(slow+" and "+quick, func(t *testing.T) {
				t.Parallel()
				lost, won := 0, 0
				for at := 1; ; at++ {
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
					must(t, err)
					errSlow := act(node)
					after, err := store.ReadCurrent(fsys, "/c")
					must(t, err)
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
					must(t, err)
					if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
						t.Fatalf("step %d: %v %v", at, err, v.Problems)
					}
					shardRound(t, fsys, "r10")
				}
			})
		}
	}
}
