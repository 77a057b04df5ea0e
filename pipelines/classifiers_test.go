package pipelines

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSiteClassifiers runs each line of site-classifiers.md, on a host of mweb.
func TestSiteClassifiers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("site-classifiers.md")
	if err != nil {
		t.Fatal(err)
	}
	w := startWeb(t, 1, 2, 40)
	var script strings.Builder
	// The servers are on loopback, and need no delays.
	fmt.Fprintf(&script, "PATH=%s:$PATH\nmcrawl() {\n  case $1 in site) set -- \"$@\" --set network.allow_net=127.0.0.0/8 --set resolve.servers=%s --set politeness.min_delay=0s "+
		"--set politeness.delay_factor=0 --set politeness.addr_delay=0s --set frontier.max_attempts=1 ;; esac\n  command mcrawl \"$@\"\n}\n", strings.TrimSuffix(bin, "/"), w.dns)
	host := fmt.Sprintf("http://h0.mweb.test:%d/", w.port)
	lines := 0
	for line := range strings.Lines(string(page)) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			script.WriteString(strings.ReplaceAll(code, "https://www.example.org/", host))
			lines++
		}
	}
	if lines < 20 {
		t.Fatalf("%d lines of code", lines)
	}
	dir := t.TempDir()
	shell := func(text string) string {
		t.Helper()
		cmd := exec.Command("sh", "-eu", "-c", text)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, tail(out))
		}
		return string(out)
	}
	said := shell(script.String())
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
