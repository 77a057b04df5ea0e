package pipelines

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// policies says how each policy is tried. One without rounds comes to an end, and
// has then found what the oracle knows; one with rounds has no end, and finds
// nothing else.
var policies = map[string]struct {
	driver string
	config string   // crawl.toml
	rounds string   // after which the crawl is compared; "": it ends by itself
	vars   []string // of the driver
	clock  bool     // pages come back when the clock says so, and most have not changed
}{
	"priority": {driver: "stream.sh", vars: []string{"NEXT_FLAGS=--per-domain 30"}}, // the same batches come of the same number and share alone
	"dynamic":  {driver: "mercator.mk"},
	"fifo":     {driver: "stream.sh"},
	"walk":     {driver: "mercator.mk", rounds: "6", config: "[frontier]\nwalkers = 50\nseed = 3\n"},
	"revisit":  {driver: "stream.sh", rounds: "6", config: "[frontier]\nmin_interval = \"1s\"\nmax_interval = \"2s\"\n", clock: true},
}

// Under every policy a crawl finds what the oracle knows, goes on after it went back
// to an earlier checkpoint, and is repeated from its records.
func TestPolicies(t *testing.T) {
	w := startWeb(t, 9, 5, 30)
	lines := strings.Split(strings.TrimSpace(output(t, "mfrontier", "policies")), "\n")
	if len(lines) != len(policies) {
		t.Errorf("mfrontier knows %d policies, this test %d", len(lines), len(policies))
	}
	for _, line := range lines {
		policy, _, _ := strings.Cut(line, " ")
		p := policies[policy]
		t.Run(policy+"/"+p.driver, func(t *testing.T) {
			t.Parallel()
			config := filepath.Join(t.TempDir(), "crawl.toml")
			if err := os.WriteFile(config, []byte(p.config), 0o666); err != nil {
				t.Fatal(err)
			}
			c := newCrawl(t, w, append(p.vars, "POLICY="+policy, "BATCH=40", "CONFIG="+config)...)
			finish := func() string {
				t.Helper()
				c.finish(t, p.driver, "ROUNDS="+p.rounds)
				if p.rounds == "" {
					c.check(t)
				} else {
					c.checkSoFar(t)
				}
				return state(t, c.dir)
			}
			want := finish()
			if stat := strings.SplitN(want, "\n", 2)[0]; !strings.HasSuffix(stat, " "+policy) {
				t.Error(stat)
			}
			output(t, "mckpt", "restore", c.dir, "3")
			if got := finish(); p.rounds != "" && !p.clock && got != want { // what a server says at once or later is the same here
				t.Errorf("made again, the stores differ: %s", diff(want, got))
			} else {
				want = got
			}
			if p.clock && !strings.Contains(c.found(t), notModified) {
				t.Error("no page came back")
			}
			dir, out, err := c.replay(t)
			if err != nil {
				t.Fatalf("%v\n%s", err, tail(out))
			}
			if got := state(t, dir); got != want {
				t.Errorf("repeated, the stores differ: %s", diff(want, got))
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
