// Package bench holds the test of its page of results. The benchmarks are scripts, and commands in
// folders of their own.
package bench

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSummary: each line of RESULTS.md's summary has figures of the section that it names, as that
// has them, and each section is named.
func TestSummary(t *testing.T) {
	page, err := os.ReadFile("RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	summary, rest, found := strings.Cut(string(page), "\n## Summary\n")
	if !found {
		t.Fatal("RESULTS.md has no summary")
	}
	summary, rest, _ = strings.Cut(rest, "\n## ")
	rest = "\n## " + rest
	heads := regexp.MustCompile(`\n##+ (.+)\n`).FindAllStringSubmatchIndex(rest, -1)
	sections := map[string]string{} // by anchor; one that has others begins with all of theirs
	for i, h := range heads {
		end := len(rest)
		for _, next := range heads[i+1:] {
			if !strings.HasPrefix(rest[next[0]:], "\n###") || strings.HasPrefix(rest[h[0]:], "\n###") {
				end = next[0]
				break
			}
		}
		sections[anchor(rest[h[2]:h[3]])] = rest[h[0]:end]
	}
	number := regexp.MustCompile(`\d[\d,.]*\d|\d`)
	named := map[string]bool{}
	section := ""
	for line := range strings.Lines(summary) {
		for _, link := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(line, -1) {
			if section = link[1]; sections[section] == "" {
				t.Errorf("the summary names %q, which is no section", section)
			}
			named[section] = true
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 5 || !strings.HasPrefix(line, "|") || cells[2] == "measured" {
			continue
		}
		for _, n := range number.FindAllString(cells[2], -1) {
			if !regexp.MustCompile(`(^|[^\d.,])` + regexp.QuoteMeta(n) + `($|[^\d.,]|[.,]\D)`).MatchString(sections[section]) {
				t.Errorf("section %q does not have %s: %s", section, n, line)
			}
		}
	}
	for name, text := range sections {
		if !named[name] && !strings.Contains(text, "\n### ") {
			t.Errorf("the summary does not name %q", name)
		}
	}
}

// anchor is what links to a heading have, as GitHub makes it.
func anchor(head string) string {
	head = regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(head), "")
	return strings.ReplaceAll(head, " ", "-")
}

// TestScripts: RESULTS.md names each script and command of this folder, and no other.
func TestScripts(t *testing.T) {
	page, err := os.ReadFile("RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
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
