package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// credit checks that the credit of all shards is what the seeds brought. It returns how many shards have some.
func (c *crawl) credit(t *testing.T) (some int) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(c.dir, "shard", "*", "frontier"))
	must.OK(t, err)
	var sum uint64
	for _, dir := range dirs {
		var s struct{ Credit struct{ Total uint64 } }
		must.OK(t, json.Unmarshal([]byte(output(t, "mfrontier", "stat", "--json", dir)), &s))
		if sum += s.Credit.Total; s.Credit.Total > 0 {
			some++
		}
	}
	list, err := os.ReadFile(c.web.seeds)
	must.OK(t, err)
	seeds := uint64(strings.Count(string(list), "\n"))
	if sum != seeds<<32 {
		t.Errorf("credit of %d units in the shards, want 2^32 of each of %d seeds", sum, seeds)
	}
	return some
}

// TestShardsOpic: a crawl of three shards under policy opic is killed, and hosts move between its shards. No credit is lost, and it
// finds what one shard finds.
func TestShardsOpic(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 58, 12, 6) // hosts that lie in shards by their ports: in two or more, however these are
	c := newCrawl(t, w, "POLICY=opic", "BATCH=20")
	output(t, "mckpt", "init", "--quiet", "--shards", "3", "--policy", "opic", c.dir)
	c.command(t, "mcrawl")
	rng := rand.New(rand.NewPCG(30, 28))
	kills, moves, most, undone := 0, 0, 0, false
	for {
		s := c.stages(t)
		if s.Empty {
			break
		}
		for _, stage := range s.Stages {
			for _, n := range stage.Left {
				args := []string{"stage", c.dir, stage.Stage, "--round", s.Round, "--shard", fmt.Sprint(n)}
				if stage.Stage != "commit" && kills < 12 && c.kill(t, rng, args...) {
					kills++
				}
				output(t, "mcrawl", args...)
			}
		}
		if c.opened(t) == "r3" && !undone {
			undone = true
			output(t, "mckpt", "abandon", "--quiet", c.dir)
			output(t, "mckpt", "restore", "--quiet", c.dir, "2")
			c.checkFrontiers(t)
		}
		most = max(most, c.credit(t))
		if c.opened(t) == "" && moves < 3 {
			moves++
			output(t, "mcrawl", "move", c.dir, fmt.Sprintf("%d-%d", 700*moves, 700*moves+1400), "--to", fmt.Sprint(moves%3))
			c.checkFrontiers(t)
			c.credit(t)
		}
	}
	output(t, "mcrawl", "reshard", c.dir, "4")
	c.checkFrontiers(t)
	c.credit(t)
	c.sharded(t)
	if kills < 3 || moves < 3 || !undone || most < 2 {
		t.Errorf("%d kills, %d moves, a round undone: %v, %d shards with credit: the test shows little", kills, moves, undone, most)
	}
}
