// Package bench holds the test of its page of results. The benchmarks are scripts, and commands in
// folders of their own.
package bench

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// TestRows: each row of RESULTS.md that has a target says whether it was met, and why not where
// it was missed; and the page stays short enough to read.
func TestRows(t *testing.T) {
	page, err := os.ReadFile("RESULTS.md")
	must.OK(t, err)
	if n := len(strings.Fields(string(page))); n > 2600 {
		t.Errorf("RESULTS.md has %d words, want at most 2600: its history is in git", n)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			t.Errorf("%d cells, want what, measured, wanted, verdict: %s", len(cells), line)
			continue
		}
		measured, wanted, verdict := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])
		if measured == "measured" || measured == "---" {
			continue
		}
		rows++
		switch reason, missed := strings.CutPrefix(verdict, "missed"); {
		case measured == "":
			t.Errorf("nothing measured: %s", line)
		case wanted == "none":
		case missed && len(reason) < 10:
			t.Errorf("missed, and no reason: %s", line)
		case !missed && !strings.HasPrefix(verdict, "met"):
			t.Errorf("neither met nor missed: %s", line)
		}
	}
	if rows == 0 {
		t.Error("no rows")
	}
}

// TestScripts: RESULTS.md names each script and command of this folder, and no other.
func TestScripts(t *testing.T) {
	page, err := os.ReadFile("RESULTS.md")
	must.OK(t, err)
	var there []string
	for _, pattern := range []string{"*.sh", "*/main.go"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			there = append(there, "bench/"+strings.TrimSuffix(f, "/main.go"))
		}
	}
	named := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bbench/[\w./-]*\w`).FindAllString(string(page), -1) {
		if named[name] = true; name != "bench/RESULTS.md" {
			if _, err := os.Stat(strings.TrimPrefix(name, "bench/")); err != nil {
				t.Errorf("RESULTS.md names %s: %v", name, err)
			}
		}
	}
	for _, name := range there {
		if !named[name] {
			t.Errorf("RESULTS.md does not name %s", name)
		}
	}
}
