package e2e

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestCrawlWithoutItsSettings: a crawl that is taken up again without --allow-net stops, and no
// URL has an outcome by that. With its flags it goes on, and equals the oracle.
func TestCrawlWithoutItsSettings(t *testing.T) {
	t.Parallel()
	pages := 60
	if long {
		pages = 300
	}
	w := startWeb(t, 3, 12, pages)
	for driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := newCrawl(t, w)
			c.finish(t, driver, "ROUNDS=4", "BATCH=40")
			rounds := output(t, "mckpt", "show", "--next-round", c.dir)
			for range 2 { // again is no better
				cmd := c.command(t, driver, "BATCH=40", "POLITENESS_FLAGS=--min-delay 0 --delay-factor 0 --addr-delay 0", "FETCH_FLAGS=")
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) {
					t.Fatalf("the crawl went on without --allow-net: %v\n%s", err, tail(out))
				}
				for _, want := range []string{"of 40 URLs were not fetched because of settings: address-refused: 127.", "network.allow_net=127.", "fetch.refused_ok=true"} {
					if !strings.Contains(string(out), want) {
						t.Errorf("it does not say %q:\n%s", want, tail(out))
					}
				}
				if now := output(t, "mckpt", "show", "--next-round", c.dir); now != rounds {
					t.Errorf("round %s was committed, want %s next", now, rounds)
				}
			}
			c.finish(t, driver)
			c.check(t)
		})
	}
}
