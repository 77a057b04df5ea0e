package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestRandomPolynomial: a crawl with a random polynomial for its sets finds
// what the oracle says, and is repeated from its records with the same sets.
func TestRandomPolynomial(t *testing.T) {
	t.Parallel()
	toml := filepath.Join(t.TempDir(), "my.toml")
	if err := os.WriteFile(toml, []byte("[sets]\npolynomial = \"random\"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	hosts, pages := 3, 15
	if long {
		hosts, pages = 4, 40
	}
	c := newCrawl(t, startWeb(t, 5, hosts, pages), "CONFIG="+toml)
	c.finish(t, "mcrawl")
	c.check(t)
	urls, content := polynomial(t, "murlset", c.dir+"/urls"), polynomial(t, "mfpset", c.dir+"/content")
	if urls != content || urls == "911498ae0e66bad6" {
		t.Errorf("the polynomials are %s and %s, want a random one in both sets", urls, content)
	}
	dir := c.replay(t)
	if want, got := state(t, c.dir), state(t, dir); got != want {
		t.Errorf("repeated, the stores differ: %s", diff(want, got))
	}
}

// polynomial returns the polynomial of a set.
func polynomial(t *testing.T, command, store string) string {
	t.Helper()
	m := regexp.MustCompile(`"polynomial": "(\w+)"`).FindStringSubmatch(output(t, command, "stat", store))
	if m == nil {
		t.Fatalf("%s tells no polynomial", store)
	}
	return m[1]
}
