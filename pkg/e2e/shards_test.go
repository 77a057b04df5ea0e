package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

// shards makes the folder of a crawl of so many shards.
func (c *crawl) shards(t *testing.T, n int) {
	t.Helper()
	output(t, "mckpt", "init", "--quiet", "--shards", fmt.Sprint(n), c.dir)
	c.command(t, "mcrawl") // writes crawl.toml
}

// kept are the files of a name of all rounds of all shards.
func (c *crawl) kept(t *testing.T, name string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "shard", "*", "rounds", "r*", name))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s in %s: %v", name, c.dir, err)
	}
	return files
}

// sharded checks a crawl of several shards: outcomes and duplicates are the oracle's, and verify finds all well.
func (c *crawl) sharded(t *testing.T) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(output(t, "mcat", append([]string{"--format", "tsv", "--columns", "url,outcome,status,role"}, c.kept(t, "marked.arrows.zst")...)...)) {
		if row, ok := strings.CutSuffix(line, "\tpage\n"); ok && !strings.Contains(row, "\tdeferred\t") {
			lines = append(lines, row+"\n")
		}
	}
	if got, want := sorted(strings.Join(lines, "")), c.web.oracle(t); got != want {
		t.Errorf("the crawl differs from the oracle:\n%s", diff(want, got))
	}
	output(t, "mckpt", "verify", "--quiet", c.dir)
	var s struct{ Known, Done uint64 }
	must.OK(t, json.Unmarshal([]byte(output(t, "mcrawl", "status", c.dir, "--json")), &s))
	if want := uint64(strings.Count(c.web.oracle(t), "\n")); s.Known != want || s.Done != want {
		t.Errorf("status: %d URLs known, %d done, want %d", s.Known, s.Done, want)
	}
}

// duplicates counts the documents that were seen before.
func duplicates(t *testing.T, files []string) int {
	t.Helper()
	return strings.Count(output(t, "mcat", append([]string{"--format", "tsv", "--columns", "duplicate"}, files...)...), "true\n")
}

// TestShards: a crawl of several shards finds what one does, URLs, outcomes and duplicates, also where most shards have
// nothing to do.
func TestShards(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 51, 6, 30)
	one := newCrawl(t, w)
	one.finish(t, "mcrawl")
	one.check(t)
	want := duplicates(t, one.outcomes(t))
	if want == 0 {
		t.Fatal("the web has no duplicates")
	}
	counts := []int{4}
	if long {
		counts = []int{2, 4, 7}
	}
	for _, n := range counts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := newCrawl(t, w)
			c.shards(t, n)
			c.finish(t, "mcrawl")
			c.sharded(t)
			if got := duplicates(t, c.kept(t, "marked.arrows.zst")); got != want {
				t.Errorf("%d duplicates, want %d", got, want)
			}
			passages := func(dir string) string {
				file := filepath.Join(t.TempDir(), "passages.arrows.zst")
				output(t, "mfocus", "passages", "--query", "archive letters answers", dir, "-o", file)
				return sorted(output(t, "mcat", "--format", "tsv", "--columns", "value", file))
			}
			if got, want := passages(c.dir), passages(one.dir); got != want || strings.Count(want, "\n") < 10 {
				t.Errorf("documents of the shards have other passages:\n%s", diff(want, got))
			}
			empty := 0 // shards without a URL in the first round
			for _, file := range c.kept(t, "batch.arrows.zst") {
				if strings.HasSuffix(filepath.Dir(file), "r1") && output(t, "mcat", file) == "" {
					empty++
				}
			}
			if n > 2 && empty == 0 {
				t.Error("no shard was without a URL: the test shows little")
			}
		})
	}
}

// TestShardsKeepAddressesApart: the hosts of one address are contacted by its owner alone, so that the contacts of all
// shards together keep the gaps.
func TestShardsKeepAddressesApart(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 52, 6, 10, "--one-address")
	w.flags = w.flags[:len(w.flags)-1] // which is none of the oracle's
	c := newCrawl(t, w, "POLITENESS_FLAGS=--min-delay 100ms --delay-factor 0 --addr-delay 40ms")
	c.shards(t, 3)
	c.finish(t, "mcrawl")
	c.sharded(t)
	files := c.kept(t, "fetched.arrows.zst")
	output(t, "mfetch", append([]string{"audit", "--min-delay", "100ms", "--delay-factor", "0", "--addr-delay", "40ms"}, files...)...)
	fetching := map[string]bool{}
	for _, f := range files {
		if strings.Contains(output(t, "mcat", "--format", "tsv", "--columns", "outcome", f), "fetched") {
			fetching[strings.Split(strings.TrimPrefix(f, c.dir), "/")[2]] = true
		}
	}
	if len(fetching) != 1 {
		t.Errorf("one address was contacted by the shards %v", fetching)
	}
}

// TestShardsOutliveAddresses: addresses that have expired when a shard begins to fetch are contacted all the same: a new
// answer of DNS may be an address of another shard.
func TestShardsOutliveAddresses(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 55, 4, 6, "--ipv6")
	w.flags = w.flags[:len(w.flags)-1] // which is none of the oracle's
	c := newCrawl(t, w, "RESOLVE_FLAGS=--server "+w.dns+" --min-ttl 1ms --max-ttl 1ms", "FETCH_FLAGS=--allow-net 127.0.0.0/8,::1/128")
	c.shards(t, 4)
	c.finish(t, "mcrawl")
	c.sharded(t)
}

// TestShardsAreKilled runs a crawl of several shards stage by stage. A task, and mcrawl run, are killed at random moments
// with SIGKILL and run again. Rounds are abandoned and checkpoints restored between.
func TestShardsAreKilled(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 53, 5, 20)
	c := newCrawl(t, w)
	c.shards(t, 3)
	rng := rand.New(rand.NewPCG(20, 28))
	killed := map[string]int{}
	undone := false
	for {
		s := c.stages(t)
		if s.Empty {
			break
		}
		if !long && undone && killed["run"] == 3 { // all that dies has died
			c.finish(t, "mcrawl")
			break
		}
		for _, stage := range s.Stages {
			if stage.State != "ready" {
				continue
			}
			for _, n := range stage.Left {
				args := []string{"stage", c.dir, stage.Stage, "--round", s.Round, "--shard", fmt.Sprint(n)}
				for killed[stage.Stage] < 2 && stage.Stage != "commit" {
					if !c.kill(t, rng, args...) {
						break
					}
					killed[stage.Stage]++
				}
				output(t, "mcrawl", args...)
				if long || s.Round == "r1" {
					output(t, "mcrawl", args...) // done, it does nothing
				}
			}
			if s.Round == "r2" && stage.Stage == "mark" && !undone {
				undone = true
				output(t, "mckpt", "abandon", "--quiet", c.dir)
				output(t, "mckpt", "restore", "--quiet", c.dir, "1")
			}
		}
		if undone && killed["update"] >= 2 && killed["run"] < 3 && c.kill(t, rng, "run", c.dir) {
			killed["run"]++
		}
	}
	if len(killed) < 2 || !undone { // which stages are hit, and how often, is chance
		t.Errorf("kills that hit a stage: %v, abandoned: %v", killed, undone)
	}
	output(t, "mckpt", "verify", "--quiet", c.dir)
	c.sharded(t)
}

// kill runs mcrawl and kills it after a while; false if it ended before, well.
func (c *crawl) kill(t *testing.T, rng *rand.Rand, args ...string) bool {
	t.Helper()
	cmd := exec.Command(bin+"mcrawl", args...)
	must.OK(t, cmd.Start())
	timer := time.AfterFunc(time.Duration(5+rng.IntN(150))*time.Millisecond, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !timer.Stop() && err != nil {
		time.Sleep(50 * time.Millisecond) // what it started ends with it
		return true
	}
	if err != nil {
		t.Fatalf("mcrawl %s: %v", strings.Join(args, " "), err)
	}
	return false
}

// TestShardsMissAPart: a part of an exchange that is missing or of another round is named, with exit code 3, and made
// again by its sender's stage. Then the crawl goes back to each checkpoint.
func TestShardsMissAPart(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 54, 4, 8)
	c := newCrawl(t, w)
	c.shards(t, 2)
	stage := func(name, round string, n int) {
		t.Helper()
		output(t, "mcrawl", "stage", c.dir, name, "--round", round, "--shard", fmt.Sprint(n))
	}
	fails := func(code int, want string, words ...string) {
		t.Helper()
		cmd := exec.Command(bin+words[0], words[1:]...)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), want) {
			t.Errorf("%v, want exit code %d and %q:\n%s", err, code, want, out)
		}
	}
	for _, n := range []int{0, 1} {
		stage("seed", "seed", n)
	}
	stage("commit", "seed", 0)
	for _, name := range []string{"batch", "fetch", "mark", "extract", "update"} {
		for _, n := range []int{0, 1} {
			stage(name, "r1", n)
		}
	}
	doc := filepath.Join(c.dir, "rounds", "r1", "doc")
	must.OK(t, os.Rename(doc, c.dir+".doc"))
	fails(3, "rounds/r1/doc: no manifests", "mckpt", "commit", c.dir, "--txn", "r1")
	must.OK(t, os.Rename(c.dir+".doc", doc))
	part := func(round string) string { return filepath.Join(c.dir, "rounds", round, "addr", "001.run") }
	old, err := os.ReadFile(part("r1"))
	must.OK(t, err)
	stage("commit", "r1", 0)
	if _, err := os.Stat(part("r1")); err == nil {
		t.Error("a part is left when its round is closed")
	}
	stage("batch", "r2", 0)
	fails(1, "round r2: stage batch is not done in shard 1: run it before stage fetch", "mcrawl", "stage", c.dir, "fetch", "--round", "r2")
	stage("batch", "r2", 1)
	must.OK(t, os.Remove(part("r2")))
	fails(3, "001.run: missing", "mcrawl", "stage", c.dir, "fetch", "--round", "r2")
	must.OK(t, os.WriteFile(part("r2"), old, 0o666))
	fails(3, fmt.Sprintf("hint: remove it: rm %s; then see which stage sends them again: mcrawl stages %s", part("r2"), c.dir), "mcrawl", "stage", c.dir, "fetch", "--round", "r2")
	must.OK(t, os.Remove(part("r2")))
	stage("batch", "r2", 1)
	stage("fetch", "r2", 0)
	c.finish(t, "mcrawl")
	c.sharded(t)

	// The crawl goes back to each of its checkpoints, and on from some: the web has a chain of pages, one a round.
	last := strings.Count(output(t, "mckpt", "list", "--json", c.dir), "\n")
	if last < 5 {
		t.Fatalf("%d checkpoints", last)
	}
	for k := last - 1; k >= 0; k-- {
		output(t, "mckpt", "restore", "--quiet", c.dir, fmt.Sprint(k))
		if long || k == last-1 || k == last-4 {
			c.finish(t, "mcrawl")
			c.sharded(t)
		}
	}
	output(t, "mckpt", "verify", "--quiet", c.dir)
}

// TestShardsRevisit: a crawl of three shards that visits pages again is killed, and hosts move between its shards. It finds what one
// shard finds, which the oracle knows, and status counts the pages of all.
func TestShardsRevisit(t *testing.T) {
	t.Parallel() // it waits for pages to be due
	w := startWeb(t, 56, 5, 12)
	rng := rand.New(rand.NewPCG(11, 29))
	make := func(words ...string) *crawl {
		c := newCrawl(t, w)
		words = append([]string{"new", c.dir, "--quiet", "--policy", "revisit", "--seeds", w.seeds, "--contact", "test@example.org"}, words...)
		for _, set := range []string{"frontier.min_interval=1s", "frontier.max_interval=1s", "frontier.max_attempts=1", "resolve.servers=" + w.dns, "network.allow_net=127.0.0.0/8",
			"politeness.min_delay=0s", "politeness.delay_factor=0", "politeness.addr_delay=0s"} {
			words = append(words, "--set", set)
		}
		output(t, "mcrawl", words...)
		return c
	}
	pages := func(c *crawl) (known, sum uint64) {
		t.Helper()
		type counts struct{ Pages struct{ Known uint64 } }
		var whole counts
		must.OK(t, json.Unmarshal([]byte(output(t, "mcrawl", "status", c.dir, "--json")), &whole))
		dirs, err := filepath.Glob(filepath.Join(c.dir, "shard", "*", "frontier"))
		must.OK(t, err)
		for _, dir := range dirs {
			var part counts
			must.OK(t, json.Unmarshal([]byte(output(t, "mfrontier", "stat", "--json", dir)), &part))
			sum += part.Pages.Known
		}
		return whole.Pages.Known, sum
	}
	oracle := w.oracle(t)
	// found are the outcomes of a crawl, each once. The oracle knows them.
	found := func(c *crawl, files ...string) string {
		t.Helper()
		rows, err := filepath.Glob(filepath.Join(append([]string{c.dir}, files...)...))
		must.OK(t, err)
		var lines []string
		for line := range strings.Lines(output(t, "mcat", append([]string{"--format", "tsv", "--columns", "role,url,outcome,status"}, rows...)...)) {
			line, page := strings.CutPrefix(line, "page\t")
			if !page || strings.Contains(line, "\tdeferred\t") {
				continue
			}
			if url, same := strings.CutSuffix(line, notModified); same {
				line = url + "\tfetched\t200\n"
			}
			if lines = append(lines, line); !strings.Contains(oracle, line) {
				t.Fatalf("the oracle does not know: %s", line)
			}
		}
		slices.Sort(lines)
		if all := len(lines); all == len(slices.Compact(lines)) {
			t.Error("no page came back")
		}
		return strings.Join(slices.Compact(lines), "")
	}
	one := make()
	output(t, "mcrawl", "run", "--quiet", one.dir, "--rounds", "8")
	c := make("--shards", "3")
	for rounds := 2; rounds < 6; rounds++ {
		c.kill(t, rng, "run", "--quiet", c.dir, "--rounds", fmt.Sprint(rounds))
	}
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "5")
	before, _ := pages(c)
	for range 2 {
		c.kill(t, rng, "move", c.dir, "0-2047", "--to", "2")
	}
	output(t, "mcrawl", "move", c.dir, "0-2047", "--to", "2")
	if after, sum := pages(c); after != before || sum != before || before == 0 {
		t.Errorf("%d pages after the move, %d in the shards, %d before", after, sum, before)
	}
	c.checkFrontiers(t)
	output(t, "mcrawl", "run", "--quiet", c.dir, "--rounds", "9")
	c.checkFrontiers(t)
	if got, want := found(c, "shard", "*", "rounds", "r*", "marked.arrows.zst"), found(one, "rounds", "r*", "marked.arrows.zst"); got != want {
		t.Errorf("other URLs than in one shard:\n%s", diff(want, got))
	}
	want, _ := pages(one)
	if got, sum := pages(c); got != want || sum != want {
		t.Errorf("%d pages to visit, %d in the shards, want %d", got, sum, want)
	}
}
