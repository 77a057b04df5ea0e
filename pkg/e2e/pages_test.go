package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"mercator/pkg/base/must"
	"mercator/pkg/config"
)

// pages are the project's own, but for bench/RESULTS.md, which has a test of its own.
func pages(t *testing.T) map[string]string {
	t.Helper()
	text := map[string]string{}
	for _, pattern := range []string{"README.md", "*/README.md", "formats/GLOSSARY.md", "pipelines/[a-z]*.md", "pipelines/recipes/*.md", "*/*/README.md", "*/*/*/README.md", "*/*/SPEC.md", "*/*/*/SPEC.md", "*/*/manual.md"} {
		names, err := filepath.Glob(filepath.Join("..", pattern))
		must.OK(t, err)
		for _, name := range names {
			b, err := os.ReadFile(name)
			must.OK(t, err)
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

// TestPagesNameWhatIsThere: the commands have the verbs and flags that the pages name.
func TestPagesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	all, err := helps()
	must.OK(t, err)
	// Command lines stand indented, or between backquotes.
	code := regexp.MustCompile("(?m)^ {4}.*$|`[^`\n]+`")
	called := regexp.MustCompile(`\b(` + strings.Join(commands, "|") + `) ([a-z]+)([ |]|$)`)
	for name, text := range pages(t) {
		for _, line := range code.FindAllString(text, -1) {
			for _, m := range called.FindAllStringSubmatch(strings.Trim(line, "`"), -1) {
				if all[m[1]+" "+m[2]] == "" {
					t.Errorf("%s: %s has no %s: %s", name, m[1], m[2], line)
				}
			}
			if !called.MatchString(line) && !strings.HasPrefix(line, "`--") {
				continue // flags of other programs
			}
			line = ofEngines.ReplaceAllString(line, "")
			for _, f := range anyFlag.FindAllString(line, -1) {
				if !hasFlag(all, "", f) {
					t.Errorf("%s: no command has %s: %s", name, f, line)
				}
			}
		}
	}
}

var (
	commands = []string{"mcrawl", "mfrontier", "mresolve", "mfetch", "mfpset", "mextract", "mrender", "murlset", "mmerge", "mcat", "mckpt", "mweb", "mfocus", "msearch"}
	// What sbatch and pyspark are given.
	ofEngines = regexp.MustCompile(`(--)?engine[.-]args=("[^"]*"|\S*)`)
	anyFlag   = regexp.MustCompile(`--[a-z][a-z-]*[a-z]`)
)

// helps has what --help prints, of "command" and of "command verb".
var helps = sync.OnceValues(func() (map[string]string, error) {
	all := map[string]string{}
	help := func(args ...string) (string, error) {
		out, err := exec.Command(filepath.Join(bin, args[0]), append(args[1:], "--help")...).Output()
		all[strings.Join(args, " ")] = string(out)
		return string(out), err
	}
	listed := regexp.MustCompile(`(?m)^  ([a-z]+) `)
	for _, c := range commands {
		text, err := help(c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c, err)
		}
		_, list, _ := strings.Cut(text, "\nCommands:\n")
		for _, m := range listed.FindAllStringSubmatch(list, -1) {
			if _, err := help(c, m[1]); err != nil {
				return nil, fmt.Errorf("%s %s: %w", c, m[1], err)
			}
		}
	}
	return all, nil
})

// hasFlag reports whether a verb has a flag, or one with a name that begins with it.
func hasFlag(all map[string]string, verb, flag string) bool {
	command, _, _ := strings.Cut(verb, " ") // its help has the flags of all verbs
	for name, text := range all {
		if !strings.HasPrefix(name, verb) && name != command {
			continue
		}
		if slices.Contains(moreFlags(text), flag) {
			return true
		}
		for _, m := range shownFlag.FindAllStringSubmatch(text, -1) {
			if flag == "--"+m[2] || m[1] != "" && flag == "--no-"+m[2] {
				return true
			}
		}
	}
	return false
}

var shownFlag = regexp.MustCompile(`(?m)^ +(?:-., )?--(\[no-\])?([a-z-]+)`)

// moreFlags are the flags that a help only names.
func moreFlags(help string) []string {
	_, list, _ := strings.Cut(help, "\nMore flags, explained in the manual:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	return strings.Fields(list)
}

// TestSurface: what a person has to learn does not grow unseen. Whoever raises a number adds behind it for which user.
func TestSurface(t *testing.T) {
	t.Parallel()
	most := map[string]int{
		"commands": 14,
		"verbs":    115, // reshard: who crawls on a cluster that grows; mfrontier give: who crawls by importance on many machines
		"flags":    270, // --broken: who has mended links has their targets alone fetched again; --warc-prefix: who keeps several crawls in one collection
		"settings": 117,
	}
	all, err := helps()
	must.OK(t, err)
	flags, verbs := map[string]bool{}, 0
	for name, text := range all {
		if strings.Contains(name, " ") {
			verbs++
		}
		for _, f := range moreFlags(text) {
			flags[f] = true
		}
		for _, m := range shownFlag.FindAllStringSubmatch(text, -1) {
			flags["--"+m[2]] = true
		}
	}
	for what, n := range map[string]int{"commands": len(commands), "verbs": verbs, "flags": len(flags), "settings": len(config.Keys())} {
		if n != most[what] {
			t.Errorf("%d %s, want %d", n, what, most[what])
		}
	}
}

// TestNames: a command goes by its own name and by links of other names, whichever program it is part of.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, command := range commands {
		t.Run(command, func(t *testing.T) {
			link := filepath.Join(t.TempDir(), "link")
			file, err := filepath.Abs(bin + command)
			if err == nil {
				err = os.Symlink(file, link)
			}
			must.OK(t, err)
			for _, path := range []string{file, link} {
				if out, err := exec.Command(path, "--version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), command+" ") {
					t.Errorf("%s --version: %v: %s", path, err, out)
				}
			}
		})
	}
}

// TestHelp: a verb's help fits on a screen, the manual has a section of each and explains the flags that
// the help only names, and the flags that either tells of are the verb's, or those of a command that the line runs.
func TestHelp(t *testing.T) {
	t.Parallel()
	const most, columns = 40, 80
	called := regexp.MustCompile(`\b(` + strings.Join(commands, "|") + `)( [a-z]+)?\b`)
	foreign := []string{"--unbuffered", "--resolve", "--files-from"} // of jq, curl, rsync
	all, err := helps()
	must.OK(t, err)
	for name, text := range all {
		command, _, _ := strings.Cut(name, " ")
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > most {
			t.Errorf("%s --help has %d lines, want at most %d", name, len(lines), most)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > columns {
				t.Errorf("%s --help: a line of more than %d columns: %s", name, columns, line)
			}
		}
		page, err := os.ReadFile(filepath.Join("..", "cmd", command, "manual.md"))
		must.OK(t, err)
		_, section, found := strings.Cut(string(page), "\n## "+name+"\n")
		if !found && name != command {
			t.Errorf("%s/manual.md has no section %q", command, name)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for _, f := range moreFlags(text) {
			if !strings.Contains(string(page), "`"+f) {
				t.Errorf("%s/manual.md does not explain %s, which %s --help only names", command, f, name)
			}
		}
		_, examples, _ := strings.Cut(text, "\nExamples:\n")
		for _, line := range strings.Split(section+"\n"+examples, "\n") {
			line = ofEngines.ReplaceAllString(line, "")
			verbs := []string{name}
			for _, m := range called.FindAllStringSubmatch(line, -1) {
				if all[m[0]] == "" {
					m[0] = m[1] // its default verb
				}
				verbs = append(verbs, m[0])
			}
			for _, f := range anyFlag.FindAllString(line, -1) {
				if !slices.Contains(foreign, f) && !slices.ContainsFunc(verbs, func(v string) bool { return hasFlag(all, v, f) }) {
					t.Errorf("%s has no %s: %s", name, f, line)
				}
			}
		}
	}
}
