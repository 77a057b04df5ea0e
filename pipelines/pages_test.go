package pipelines

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the project's own, but for bench/RESULTS.md, which has a test of its own.
func pages(t *testing.T) map[string]string {
	t.Helper()
	text := map[string]string{}
	for _, pattern := range []string{"README.md", "*/README.md", "*/*/README.md", "*/*/SPEC.md"} {
		names, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text[name] = string(b)
		}
	}
	return text
}

// TestPagesLead: what a page links to is there, and the page of pipelines lists its scripts.
func TestPagesLead(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for name, text := range all {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	text := all["../pipelines/README.md"]
	for _, pattern := range []string{"*.sh", "*.mk", "*.py"} {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("README.md does not tell of %s", name)
			}
		}
	}
	for _, m := range regexp.MustCompile("`([a-z-]+\\.(?:sh|mk|py))`").FindAllStringSubmatch(text, -1) {
		_, here := os.Stat(m[1])
		if _, bench := os.Stat("../bench/" + m[1]); here != nil && bench != nil {
			t.Errorf("README.md tells of %s, which is not there", m[1])
		}
	}
}

// TestPagesNameWhatIsThere: the verbs and flags of commands on the pages are those of the commands.
func TestPagesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	help := func(args ...string) string {
		out, err := exec.Command(filepath.Join(bin, args[0]), append(args[1:], "--help")...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return string(out)
	}
	verbs, flags := map[string]bool{}, map[string]bool{}
	listed := regexp.MustCompile(`(?m)^  ([a-z]+) `)
	flag := regexp.MustCompile(`--[a-z][a-z-]*[a-z]`)
	take := func(text string) {
		for _, f := range flag.FindAllString(strings.ReplaceAll(text, "--[no-]", "--"), -1) {
			flags[f] = true
		}
	}
	commands := []string{"mfrontier", "mresolve", "mfetch", "mfpset", "mextract", "murlset", "mmerge", "mcat", "mckpt", "mweb"}
	for _, c := range commands {
		text := help(c)
		take(text)
		_, list, _ := strings.Cut(text, "\nCommands:\n")
		for _, m := range listed.FindAllStringSubmatch(list, -1) {
			verbs[c+" "+m[1]] = true
			take(help(c, m[1]))
		}
	}
	// Command lines stand indented, or between backquotes.
	code := regexp.MustCompile("(?m)^ {4}.*$|`[^`\n]+`")
	called := regexp.MustCompile(`\b(` + strings.Join(commands, "|") + `) ([a-z]+)([ |]|$)`)
	for name, text := range pages(t) {
		for _, line := range code.FindAllString(text, -1) {
			for _, m := range called.FindAllStringSubmatch(strings.Trim(line, "`"), -1) {
				if !verbs[m[1]+" "+m[2]] {
					t.Errorf("%s: %s has no %s: %s", name, m[1], m[2], line)
				}
			}
			if !called.MatchString(line) && !strings.HasPrefix(line, "`--") {
				continue // flags of other programs
			}
			for _, f := range flag.FindAllString(line, -1) {
				if !flags[f] {
					t.Errorf("%s: no command has %s: %s", name, f, line)
				}
			}
		}
	}
}
