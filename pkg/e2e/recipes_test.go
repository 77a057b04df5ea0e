package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// recipes are the pages of the folder, and the files that their lines make, each with the fewest and the most lines that it may have.
var recipes = map[string]map[string][2]int{
	"new-filter.md":     {"more.txt": {5, 50}, "no-link.txt": {1, 20}},
	"three-machines.md": {"all.txt": {50, 150}, "both.txt": {5, 50}, "only-first.txt": {5, 50}, "fetched.txt": {30, 100}, "waiting.txt": {10, 100}},
	"reproduce.md":      {},
	"prioritizer.md":    {},
	"csv.md":            {"seeds.tsv": {2, 2}},
	"parquet.md":        {},
	"common-crawl.md":   {"titles.tsv": {20, 50}, "index.cdxj": {40, 60}, "have.txt": {40, 60}, "missing.txt": {5, 50}},
	"wet-wat.md":        {},
	"name-cache.md":     {"unbound.conf": {10, 15}},
	"sample.md":         {"sample.txt": {170, 230}, "hosts.txt": {100, 300}, "sample.jsonl": {7, 43}}, // five standard deviations: the keys depend on the port
}

// TestRecipes runs each line of the recipes, each in a folder with what its page begins with.
func TestRecipes(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 1, 3, 40)
	site := fmt.Sprintf("http://h0.mweb.test:%d", w.port)
	given, mcrawl := t.TempDir(), polite("resolve.servers="+w.dns)
	runSteps(t, []step{{command: "mcrawl site " + site + "/ --into crawl --contact you@example.org\ncat crawl/fetch/*.warc.gz > CC-MAIN.warc.gz\n"}}, given, mcrawl)
	var seeds, urls strings.Builder
	for i := range 3 {
		fmt.Fprintf(&seeds, "%s/\n", strings.Replace(site, "h0", fmt.Sprint("h", i), 1))
	}
	for i := range 20000 {
		fmt.Fprintf(&urls, "https://h%d.example/%d\n", i%2000, i)
	}
	for name, text := range map[string]string{"seeds.txt": seeds.String(), "urls.txt": urls.String()} {
		must.OK(t, os.WriteFile(filepath.Join(given, name), []byte(text), 0o666))
	}
	names, err := filepath.Glob("recipes/*.md")
	must.OK(t, err)
	if len(names) != len(recipes)+1 {
		t.Errorf("recipes/ has %d pages, want README.md and those %d with a check", len(names), len(recipes))
	}
	index, err := os.ReadFile("recipes/README.md")
	must.OK(t, err)
	for name := range recipes {
		if !strings.Contains(string(index), "("+name+")") {
			t.Errorf("recipes/README.md does not list %s", name)
		}
	}
	here, err := os.Getwd()
	must.OK(t, err)
	for name, made := range recipes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if out, err := exec.Command("cp", "-R", given+"/.", dir).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			b, err := os.ReadFile(filepath.Join("recipes", name))
			must.OK(t, err)
			if n := len(strings.Fields(string(b))); n > 400 {
				t.Errorf("%d words, want at most 400", n)
			}
			if strings.Contains(string(b), " mcrawl new crawl ") {
				os.RemoveAll(filepath.Join(dir, "crawl"))
			}
			p := freePorts(t, 3)
			mcrawl, tried := mcrawl, "http://h0.mweb.test:"+p[2]+"/" // nobody listens there
			if name == "three-machines.md" {
				mcrawl = polite("resolve.servers="+w.dns, "frontier.max_attempts=3", "frontier.retry_delay=0s") // one more than the rounds of a machine
				must.OK(t, os.WriteFile(filepath.Join(dir, "seeds.txt"), []byte(seeds.String()+tried+"\n"), 0o666))
			}
			said := runSteps(t, pageSteps(t, filepath.Join("recipes", name)), dir, mcrawl, "https://www.example.org", site, "/usr/local/share/mercator/pipelines", here,
				"18080", p[0], "15353", p[1], "192.0.2.53", strings.Replace(w.dns, ":", "#", 1), "0([01]|2[0-8])", "[0-7]") // of 50 pages a half, not 1 %
			for file, lines := range made {
				b, err := os.ReadFile(filepath.Join(dir, file))
				if n := bytes.Count(b, []byte("\n")); err != nil || n < lines[0] || n > lines[1] {
					t.Errorf("%s: %v, %d lines, want %d to %d\n%s", file, err, n, lines[0], lines[1], said)
				}
				if file == "waiting.txt" && !strings.Contains(string(b), tried+"\n") {
					t.Errorf("%s waits to be tried again, and is not among those of %s\n%s", tried, file, b)
				}
			}
		})
	}
}
