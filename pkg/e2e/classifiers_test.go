package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestSiteClassifiers runs each line of site-classifiers.md, on a host of mweb.
func TestSiteClassifiers(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 1, 2, 40)
	host := fmt.Sprintf("http://h0.mweb.test:%d/", w.port)
	dir := t.TempDir()
	said := runSteps(t, pageSteps(t, "site-classifiers.md"), dir, polite("resolve.servers="+w.dns), "https://www.example.org/", host)
	for _, part := range []string{" index\n", "refused            filter:calendar", "filter:pictures", "filter:styles"} {
		if !strings.Contains(said, part) {
			t.Errorf("the lines did not print %q:\n%s", part, said)
		}
	}
	// Each HTML page of the site has its labels, and no other host was asked.
	var htmls, labelled, index int
	for line := range strings.Lines(output(t, "mcat", "--format", "tsv", "--columns", "role,outcome,status,mime,duplicate,url", dir+"/site")) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if cells[0] != "page" {
			continue
		}
		if !strings.HasPrefix(cells[5], host) {
			t.Errorf("fetched %s", cells[5])
		}
		if cells[1] == "fetched" && cells[2] == "200" && cells[3] == "text/html" && cells[4] == "false" {
			htmls++
		}
	}
	for line := range strings.Lines(output(t, "mcat", "--format", "tsv", "--columns", "key,value", "--rows", "modules", dir+"/site")) {
		if strings.HasPrefix(line, "class\t") {
			labelled++
			if line == "class\tindex\n" {
				index++
			}
		}
	}
	if htmls == 0 || labelled != htmls || index == 0 {
		t.Errorf("%d HTML pages, %d with a class, %d of class index", htmls, labelled, index)
	}
	if list, err := os.ReadFile(dir + "/index.txt"); err != nil || len(list) == 0 {
		t.Errorf("index.txt: %v, %d bytes", err, len(list))
	}
}
