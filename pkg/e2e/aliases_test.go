package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAliases: with resolve.canonical the pages of a host that has two names are fetched once, and hosts of a content network, which share a
// canonical name, lose none: by both drivers, in shards, and where commands are killed. A replay folds the same links.
func TestAliases(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 61, 8, 20, "--aliases")
	asked := newCrawl(t, w)
	asked.finish(t, "mcrawl")
	asked.check(t)
	twice := duplicates(t, asked.outcomes(t))

	w.flags = append(w.flags, "--folded")
	conf := filepath.Join(t.TempDir(), "crawl.toml")
	if err := os.WriteFile(conf, []byte("[resolve]\ncanonical = true\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	c := newCrawl(t, w, "CONFIG="+conf, "BATCH=60")
	for i, end := range []string{"", bin + "mresolve \"$@\" > /dev/null\n"} { // before its first byte, and between commit and output
		canon := wrap(t, "mresolve", "[ \"$1\" = canon ] || exec "+bin+"mresolve \"$@\"\n"+end+"kill -9 $$\n")
		if out, err := c.command(t, "mcrawl", "BIN="+canon).CombinedOutput(); err == nil || !strings.Contains(string(out), "mresolve canon was killed") {
			t.Fatalf("%d: mresolve canon did not die: %v\n%s", i, err, tail(out))
		}
		c.finish(t, "mcrawl", "ROUNDS="+string(rune('1'+i)))
	}
	c.finish(t, "mercator.mk", "ROUNDS=3")
	c.finish(t, "mcrawl")
	c.check(t)
	if once := duplicates(t, c.outcomes(t)); once >= twice {
		t.Errorf("%d duplicates with canonical names, %d without", once, twice)
	}
	output(t, "mcrawl", "set", c.dir, "resolve.canonical=false") // a replay does what each round did
	dir := c.replay(t)
	if got, want := state(t, dir), state(t, c.dir); got != want {
		t.Errorf("repeated, the stores differ: %s", diff(want, got))
	}

	if !long {
		return
	}
	cut := newCrawl(t, w, "CONFIG="+conf)
	cut.shards(t, 2)
	for rng, killed := rand.New(rand.NewPCG(20, 29)), 0; killed < 2 && cut.kill(t, rng, "run", cut.dir); killed++ {
	}
	cut.finish(t, "mcrawl")
	cut.sharded(t)
}
