package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// pipe runs a line of shell in which the commands are found, and which must
// succeed.
func pipe(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", line)
	cmd.Env = append(os.Environ(), "BIN="+bin, "PATH="+strings.TrimSuffix(bin, "/")+":.:"+os.Getenv("PATH"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, stderr.String())
	}
	return string(out)
}

// TestOwnStage replaces what stands between mextract and murlset by awk. The
// ledger balances when the stage has a name, and mckpt verify names the gap when
// it has none.
func TestOwnStage(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{true, false} {
		dir := inRound2(t)
		saved := goldenCrawl + "/rounds/r2/"
		stage := "stage-awk.sh img a"
		if !named {
			stage = `mcat --format tsv | awk 'NR == 1 || !/mweb.test.*[?]/' | mcat --from tsv --kind link`
		}
		out := pipe(t, strings.NewReplacer("D", dir, "S/", saved, "F", goldenCrawl+"/fetch").Replace(`
			mresolve -q D/dns --txn r2 --replay F S/batch.arrows.zst |
			mfetch -q D/fetch --txn r2 --replay F |
			mfpset mark -q D/content --txn r2 --copy D/marked |
			mextract -q --warc F --txn r2 --copy D/links | `)+stage+strings.ReplaceAll(` |
			tee D/fewer | murlset new -q D/urls --txn r2 --copy D/new |
			mfrontier update -q D/frontier --txn r2 --outcomes D/marked --links D/links
			mckpt commit -q D --txn r2
			mcat --count D/links
			mcat --format tsv --columns link_kind D/links | grep -c -x -e img -e a
			mcat --count D/fewer
			mcat --format tsv --columns link_kind D/fewer | grep -c -x -e img -e a || true`, "D", dir))
		verify := exec.Command(bin+"mckpt", "verify", dir)
		text, err := verify.CombinedOutput()
		if named {
			var links, taken, left, missed int
			if _, err := fmt.Sscan(out, &links, &taken, &left, &missed); err != nil || taken == 0 || left == 0 || links-taken != left || missed != 0 {
				t.Errorf("links, those of the kinds, links left, those of the kinds: %q, %v", out, err)
			}
			if err != nil {
				t.Errorf("a named stage: %v\n%s", err, text)
			}
			if got := output(t, "mcat", "--trailer", dir+"/new"); !strings.Contains(got, `"drops":[{"reason":"kinds"`) || !strings.Contains(got, `"balanced":true`) {
				t.Errorf("the ledger of the stage: %s", got)
			}
		} else if err == nil || !strings.Contains(string(text), "gap") && !strings.Contains(string(text), "keeps no ledger") {
			t.Errorf("an unnamed stage: %v\n%s", err, text)
		}
	}
}

// A crawl with priorities by a program, and with budgets for domains: the priorities
// of a page's links depend on the score that it gave the page, the ledger balances, and the
// crawl is repeated from its records.
func TestOwnPrioritizer(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 9, 3, 15)
	program, err := filepath.Abs("prioritize-awk.sh")
	must.OK(t, err)
	toml := filepath.Join(t.TempDir(), "crawl.toml")
	must.OK(t, os.WriteFile(toml, []byte("[frontier]\nprioritizer = \""+program+"\"\nmax_depth = 5\ndomain_budget = 40\n"), 0o666))
	c := newCrawl(t, w, "CONFIG="+toml, "BATCH=1000")
	c.finish(t, "mcrawl")
	of := map[string]struct{ priority, score float64 }{} // of each URL, as it was fetched
	parent := map[string]string{}
	fetched, err := filepath.Glob(c.dir + "/rounds/*/marked.arrows.zst")
	must.OK(t, err)
	for _, path := range fetched {
		for line := range strings.Lines(output(t, "mcat", path)) {
			var u struct {
				URL, Via, Role         string
				Priority, Depth, Score float64
			}
			must.OK(t, json.Unmarshal([]byte(line), &u))
			if u.Role != "page" {
				continue
			}
			of[u.URL] = struct{ priority, score float64 }{u.Priority, u.Score}
			parent[u.URL] = u.Via
			near, want := u.Depth < 2, 1.0
			if near {
				want = 0
			}
			if strings.Contains(u.URL, "?") {
				want = 2
			}
			if u.Priority != want {
				t.Errorf("%s at depth %v: priority %v, want %v", u.URL, u.Depth, u.Priority, want)
			}
		}
	}
	halved := 0
	for url, via := range parent {
		if p, ok := of[via]; ok && p.score > 0 {
			if s := of[url].score - p.score/2; math.Abs(s) > 1e-4 && math.Abs(s-1) > 1e-4 {
				t.Errorf("%s: score %v, found on a page of score %v", url, of[url].score, p.score)
			}
			halved++
		}
	}
	if halved < 20 {
		t.Errorf("%d URLs were found on pages with a score", halved)
	}
	output(t, "mckpt", "verify", c.dir)
	dir := c.replay(t)
	if want, got := state(t, c.dir), state(t, dir); got != want {
		t.Errorf("repeated, the stores differ: %s", diff(want, got))
	}
}
