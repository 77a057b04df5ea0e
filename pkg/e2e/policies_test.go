package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// policies says how each policy is tried. A name may be followed by what is special.
var policies = map[string]struct {
	driver  string
	config  string   // crawl.toml
	vars    []string // of the driver
	rounds  string   // after which it goes back, and is repeated
	endless bool     // the crawl never ends
	clock   bool     // pages come back when the clock says so, and most have not changed
}{
	"priority":   {driver: "mcrawl", rounds: "4", vars: []string{"NEXT_FLAGS=--per-domain 30"}}, // the same batches come of the same number and share alone
	"dynamic":    {driver: "mercator.mk", rounds: "4"},
	"fifo":       {driver: "mcrawl", rounds: "4"},
	"opic":       {driver: "mcrawl", rounds: "4", config: "[frontier]\ntax = 0.2\nseed = 3\n"},
	"opic again": {driver: "mcrawl", rounds: "6", endless: true, config: "[frontier]\nrefetch = \"0s\"\n[extract]\nduplicates = true\n"},
	"walk":       {driver: "mercator.mk", rounds: "4", endless: true, config: "[frontier]\nwalkers = 50\nseed = 3\n"},
	"revisit":    {driver: "mcrawl", rounds: "8", endless: true, clock: true, config: "[frontier]\nmin_interval = \"1s\"\nmax_interval = \"1s\"\nqueues = 3\nprioritizer = \"depth\"\n"},
}

// Under every policy a crawl goes on after it went back to an earlier checkpoint, is
// repeated from its records, and finds what the oracle knows: all of it if it ends,
// and nothing else on the way.
func TestPolicies(t *testing.T) {
	t.Parallel()
	hosts, pages := 3, 15
	if long {
		hosts, pages = 5, 30
	}
	w := startWeb(t, 9, hosts, pages)
	lines := strings.Split(strings.TrimSpace(output(t, "mfrontier", "policies")), "\n")
	for _, line := range lines {
		policy, _, _ := strings.Cut(line, " ")
		if _, ok := policies[policy]; !ok {
			t.Errorf("mfrontier knows policy %s, this test does not", policy)
		}
	}
	for name, p := range policies {
		policy, _, _ := strings.Cut(name, " ")
		t.Run(name+"/"+p.driver, func(t *testing.T) {
			t.Parallel()
			config := filepath.Join(t.TempDir(), "crawl.toml")
			if err := os.WriteFile(config, []byte(p.config), 0o666); err != nil {
				t.Fatal(err)
			}
			c := newCrawl(t, w, append(p.vars, "POLICY="+policy, "BATCH=40", "CONFIG="+config)...)
			c.finish(t, p.driver, "ROUNDS="+p.rounds)
			before := state(t, c.dir)
			if stat := strings.SplitN(before, "\n", 2)[0]; !strings.HasSuffix(stat, " "+policy) {
				t.Error(stat)
			}
			if long || p.endless {
				output(t, "mckpt", "restore", c.dir, "3")
				c.finish(t, p.driver, "ROUNDS="+p.rounds)
			}
			for rounds := 9; p.clock && rounds <= 20 && !strings.Contains(c.found(t), notModified); rounds++ { // on a fast machine eight rounds end before most pages are due
				c.finish(t, p.driver, fmt.Sprintf("ROUNDS=%d", rounds))
			}
			want := state(t, c.dir)
			if p.endless && !p.clock && want != before { // the same walk; elsewhere what is in a batch depends on how fast hosts were
				t.Errorf("made again, the stores differ: %s", diff(before, want))
			}
			c.checkSoFar(t)
			if name == "opic again" && !strings.Contains(output(t, "mfrontier", "stat", c.dir+"/frontier"), "to come back") {
				t.Error("no page waits for another fetch")
			}
			if p.clock && !strings.Contains(c.found(t), notModified) {
				t.Error("no page came back")
			}
			dir := c.replay(t)
			if got := state(t, dir); got != want {
				t.Errorf("repeated, the stores differ: %s", diff(want, got))
			}
			if !p.endless {
				c.finish(t, p.driver, "BATCH=1000", "NEXT_FLAGS=") // in few rounds
				c.check(t)
			}
			if policy != "walk" {
				return
			}
			if out, err := c.command(t, p.driver).CombinedOutput(); err == nil || !strings.Contains(string(out), "has no end: say how many rounds") {
				t.Errorf("without ROUNDS: %v\n%s", err, tail(out))
			}
		})
	}
}

// notModified is the end of a line of found for a page that was fetched before.
const notModified = "\tnot-modified\t304\n"

// checkSoFar is check for a crawl that is not at its end: what it has found, any
// number of times, the oracle knows.
func (c *crawl) checkSoFar(t *testing.T) {
	t.Helper()
	known := slices.Collect(strings.Lines(c.web.oracle(t)))
	for line := range strings.Lines(c.found(t)) {
		if url, again := strings.CutSuffix(line, notModified); again {
			line = url + "\tfetched\t200\n"
		}
		if _, ok := slices.BinarySearch(known, line); !ok {
			t.Errorf("the oracle does not know: %s", line)
		}
	}
	output(t, "mckpt", "verify", "--quiet", c.dir)
	output(t, "mfrontier", "check", c.dir+"/frontier")
}
