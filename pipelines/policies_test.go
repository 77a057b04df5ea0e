package pipelines

import (
	"strings"
	"testing"
)

// Under every policy a crawl finds what the oracle knows, goes on after it went back
// to an earlier checkpoint, and is repeated from its records.
func TestPolicies(t *testing.T) {
	w := startWeb(t, 9, 5, 30)
	lines := strings.Split(strings.TrimSpace(output(t, "mfrontier", "policies")), "\n")
	if len(lines) < 3 {
		t.Fatalf("%d policies", len(lines))
	}
	for i, line := range lines {
		policy, _, _ := strings.Cut(line, " ")
		driver := "mercator.mk"
		if i%2 == 0 {
			driver = "stream.sh"
		}
		t.Run(policy+"/"+driver, func(t *testing.T) {
			t.Parallel()
			vars := []string{"POLICY=" + policy, "BATCH=40"}
			if i == 0 { // the same batches come of the same number and share alone
				vars = append(vars, "NEXT_FLAGS=--per-domain 30")
			}
			c := newCrawl(t, w, vars...)
			c.finish(t, driver)
			c.check(t)
			if stat := output(t, "mfrontier", "stat", c.dir+"/frontier"); !strings.Contains(strings.SplitN(stat, "\n", 2)[0], policy) {
				t.Error(stat)
			}
			output(t, "mckpt", "restore", c.dir, "3")
			c.finish(t, driver)
			c.check(t)
			dir, out, err := c.replay(t)
			if err != nil {
				t.Fatalf("%v\n%s", err, tail(out))
			}
			if want, got := state(t, c.dir), state(t, dir); got != want {
				t.Errorf("repeated, the stores differ: %s", diff(want, got))
			}
		})
	}
}
