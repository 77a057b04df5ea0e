package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mercator/pkg/base/must"
)

// checkFrontiers compares the counts of each shard's frontier with what it holds.
func (c *crawl) checkFrontiers(t *testing.T) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(c.dir, "shard", "*", "frontier"))
	if err != nil || len(dirs) == 0 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		output(t, "mfrontier", "check", dir)
	}
	output(t, "mckpt", "verify", "--quiet", c.dir)
}

// waiting is what the shards have, as mcrawl balance tells.
func (c *crawl) waiting(t *testing.T) (waiting []uint64, sum uint64, moves int) {
	t.Helper()
	var b struct {
		Shards []struct{ Waiting, After uint64 }
		Moves  []any
	}
	must.OK(t, json.Unmarshal([]byte(output(t, "mcrawl", "balance", c.dir, "--json")), &b))
	for _, s := range b.Shards {
		waiting, sum = append(waiting, s.Waiting), sum+s.Waiting
	}
	return waiting, sum, len(b.Moves)
}

// politeOfMoves are the delays of halfway's crawl.
var politeOfMoves = []string{"--min-delay", "20ms", "--delay-factor", "0", "--addr-delay", "0"}

// halfway is a crawl in shards after two rounds, with how many URLs wait, and the duplicates that a crawl without shards finds.
func halfway(t *testing.T, w *web, shards int) (c *crawl, before uint64, want int) {
	t.Helper()
	one := newCrawl(t, w)
	one.finish(t, "mcrawl")
	c = newCrawl(t, w, "BATCH=50", "POLITENESS_FLAGS="+strings.Join(politeOfMoves, " "))
	c.shards(t, shards)
	c.command(t, "mcrawl")
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "2")
	if _, before, _ = c.waiting(t); before == 0 {
		t.Fatal("nothing waits: the test shows little")
	}
	return c, before, duplicates(t, one.outcomes(t))
}

// TestShardsMove moves hosts between shards in mid-crawl, and kills the moves. The crawl goes back to before a move and after it, and
// ends as the oracle does, with its duplicates, with each gap between contacts kept.
func TestShardsMove(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 51, 6, 20)
	c, before, want := halfway(t, w, 3)

	// All hosts of two shards go to the third.
	rng := rand.New(rand.NewPCG(4, 18))
	kills, tries := 0, 4
	if long {
		tries = 12
	}
	for range tries {
		if c.kill(t, rng, "move", c.dir, "0-4095", "--to", "2") {
			kills++
			if c.opened(t) == "move1" {
				c.fails(t, 1, `"move1", which was begun, moves other buckets`, "mcrawl", "move", c.dir, "0-7", "--to", "1")
			}
		}
	}
	output(t, "mcrawl", "move", c.dir, "0-4095", "--to", "2")
	if out := output(t, "mcrawl", "move", c.dir, "0-4095", "--to", "2"); !strings.HasPrefix(out, "nothing to do") {
		t.Error(out)
	}
	c.checkFrontiers(t)
	shards, after, _ := c.waiting(t)
	if after != before || shards[2] != before {
		t.Errorf("%v URLs wait, want all of %d in shard 2", shards, before)
	}
	t.Logf("%d kills of the move", kills)

	// Back to before the move, a round, and the same part of the crawl once more with the move undone.
	var k struct{ Checkpoint uint64 }
	show := func() uint64 {
		t.Helper()
		must.OK(t, json.Unmarshal([]byte(output(t, "mckpt", "show", "--json", c.dir)), &k))
		return k.Checkpoint
	}
	moved := show()
	output(t, "mckpt", "restore", "--quiet", c.dir, fmt.Sprint(moved-1))
	c.checkFrontiers(t)
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "3")
	output(t, "mcrawl", "move", c.dir, "0-100,2000", "--to", "1")
	c.checkFrontiers(t)
	output(t, "mckpt", "restore", "--quiet", c.dir, fmt.Sprint(moved))
	c.checkFrontiers(t)
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "3")

	// Balance spreads the hosts again. A round finishes a move that was killed.
	if _, _, moves := c.waiting(t); moves == 0 {
		t.Error("no moves are proposed where one shard has all")
	}
	for range tries / 2 {
		if c.kill(t, rng, "balance", c.dir, "--do") {
			kills++
		}
	}
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "4")
	output(t, "mcrawl", "balance", c.dir, "--do")
	c.checkFrontiers(t)
	if got, _, _ := c.waiting(t); got[0]+got[1] == 0 {
		t.Errorf("%v URLs wait after a balance", got)
	}
	output(t, "mckpt", "gc", "--quiet", "--keep", "2", c.dir)
	c.finish(t, "mcrawl")
	c.sharded(t)
	c.checkFrontiers(t)
	if got := duplicates(t, c.kept(t, "marked.arrows.zst")); got != want {
		t.Errorf("%d duplicates, want %d", got, want)
	}
	output(t, "mfetch", append(append([]string{"audit"}, politeOfMoves...), c.kept(t, "fetched.arrows.zst")...)...)
}

// opened is the open round, or "".
func (c *crawl) opened(t *testing.T) string {
	t.Helper()
	var s struct{ Rounds []string }
	must.OK(t, json.Unmarshal([]byte(output(t, "mckpt", "show", "--json", c.dir)), &s))
	return strings.Join(s.Rounds, ",")
}

// fails runs a command that must end with this exit code, and say so.
func (c *crawl) fails(t *testing.T, code int, want string, words ...string) {
	t.Helper()
	cmd := exec.Command(bin+words[0], words[1:]...)
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), want) {
		t.Errorf("%v, want exit code %d and %q:\n%s", err, code, want, out)
	}
}

// TestShardsGrow makes three shards of two in mid-crawl, and kills that. The crawl goes back to two shards and on with three, and ends as
// the oracle does, with its duplicates, with each gap between contacts kept. Then it becomes one of five.
func TestShardsGrow(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 57, 24, 20) // with so many hosts each shard has some, whichever port they get
	c, before, want := halfway(t, w, 2)
	checkpoint := func() (k struct{ Checkpoint uint64 }) {
		t.Helper()
		must.OK(t, json.Unmarshal([]byte(output(t, "mckpt", "show", "--json", c.dir)), &k))
		return k
	}
	two := checkpoint().Checkpoint

	lock, err := os.OpenFile(filepath.Join(c.dir, "DRIVER"), os.O_RDWR, 0)
	must.OK(t, err)
	must.OK(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	c.fails(t, 5, "held by", "mcrawl", "reshard", c.dir, "3")
	must.OK(t, lock.Close())
	rng := rand.New(rand.NewPCG(6, 7))
	kills, tries := 0, 4
	if long {
		tries = 12
	}
	for range tries {
		if c.kill(t, rng, "reshard", c.dir, "3") {
			kills++
			output(t, "mckpt", "verify", "--quiet", c.dir)
		}
	}
	output(t, "mcrawl", "reshard", c.dir, "3")
	if out := output(t, "mcrawl", "reshard", c.dir, "3"); !strings.HasPrefix(out, "nothing to do") {
		t.Error(out)
	}
	c.checkFrontiers(t)
	shards, after, _ := c.waiting(t)
	if after != before || len(shards) != 3 || shards[2] == 0 {
		t.Errorf("%v URLs wait in the shards, want all of %d in three", shards, before)
	}
	t.Logf("%d kills; %v URLs wait in the shards", kills, shards)
	three := checkpoint().Checkpoint
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "4")

	// Back to two shards, a round with them, and on with three.
	output(t, "mckpt", "restore", "--quiet", c.dir, fmt.Sprint(two))
	if shards, _, _ := c.waiting(t); len(shards) != 2 {
		t.Errorf("%d shards, want 2", len(shards))
	}
	output(t, "mckpt", "verify", "--quiet", c.dir)
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "3")
	output(t, "mckpt", "verify", "--quiet", c.dir)
	output(t, "mcrawl", "reshard", c.dir, "4")
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "4")
	c.checkFrontiers(t)
	output(t, "mckpt", "restore", "--quiet", c.dir, fmt.Sprint(three))
	output(t, "mckpt", "verify", "--quiet", c.dir)
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "4")

	// A run finishes what was killed.
	for range tries / 2 {
		if c.kill(t, rng, "reshard", c.dir, "5") {
			kills++
		}
	}
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "5")
	output(t, "mcrawl", "reshard", c.dir, "5")
	output(t, "mckpt", "gc", "--quiet", "--keep", "2", c.dir)
	c.finish(t, "mcrawl")
	c.sharded(t)
	c.checkFrontiers(t)
	if got := duplicates(t, c.kept(t, "marked.arrows.zst")); got != want {
		t.Errorf("%d duplicates, want %d", got, want)
	}
	fetching := map[string]bool{}
	for _, f := range c.kept(t, "fetched.arrows.zst") {
		if strings.Contains(output(t, "mcat", "--format", "tsv", "--columns", "outcome", f), "fetched") {
			fetching[strings.Split(strings.TrimPrefix(f, c.dir), "/")[2]] = true
		}
	}
	if len(fetching) < 3 {
		t.Errorf("only the shards %v have fetched", fetching)
	}
	output(t, "mfetch", append(append([]string{"audit"}, politeOfMoves...), c.kept(t, "fetched.arrows.zst")...)...)
}
