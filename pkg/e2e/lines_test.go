package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
)

// A step is a piece of a page that a reader types: an indented block, or a command of a block that has "$ " before each. Lines below such a command
// are all that it prints. In them … stands for what differs from one time to the next, and for any number of lines if it has a line of its own.
type step struct {
	line    int    // of the page
	command string // without the indentation
	shows   bool   // the page says what is printed
	want    string
	needs   string // a program that the step's heading names: "## A stage in Python (needs python3)"
}

var needsProgram = regexp.MustCompile(`\(needs ([a-z0-9]+)\)$`)

// pageSteps reads the steps of a page in their order.
func pageSteps(t *testing.T, name string) []step {
	t.Helper()
	b, err := os.ReadFile(name)
	must.OK(t, err)
	var steps []step
	var needs string
	block, shown, open := false, false, false // in a block; it shows output; its last command goes on
	blank := ""
	for i, line := range strings.Split(string(b), "\n") {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case line == "" && block:
			blank += "\n"
			continue
		case !indented:
			block, blank = false, ""
			if strings.HasPrefix(line, "#") {
				needs = ""
				if m := needsProgram.FindStringSubmatch(line); m != nil {
					needs = m[1]
				}
			}
			continue
		}
		command, prompt := strings.CutPrefix(code, "$ ")
		if !block || blank != "" && prompt {
			shown = prompt
		}
		switch last := len(steps) - 1; {
		case !block || shown && prompt:
			steps = append(steps, step{line: i + 1, command: command + "\n", shows: shown, needs: needs})
			open = shown && goesOn(command)
		case !shown || open:
			steps[last].command += blank + code + "\n"
			open = shown && goesOn(code)
		default:
			steps[last].want += blank + code + "\n"
		}
		block, blank = true, ""
	}
	return steps
}

// goesOn reports whether a line of shell needs another one.
func goesOn(line string) bool {
	return strings.HasSuffix(line, "\\") || strings.HasSuffix(line, "|") || strings.HasSuffix(line, "&&")
}

// has lists the programs that pages need and this machine has, besides a shell and its usual companions: "make pages" names them.
var has = strings.Fields(os.Getenv("MERCATOR_PAGES"))

// progress matches the lines that a run prints every ten seconds, which come only on a slow machine.
var progress = regexp.MustCompile(`(?m)^r[0-9]+: [0-9,]+ of [0-9,]+ URLs done, .*\n`)

// headReadsOn is a shell function head that reads its input to the end. Without it the writer would be killed, and with pipefail the pipe would fail.
const headReadsOn = "head() { command head \"$@\" && cat > /dev/null; }\n"

// runSteps runs steps in one shell, in a folder. A pipe fails if one of its commands does. Of the pairs in swap the first is what the page has, the second what stands for it here. It returns
// all that was printed, in the page's words.
func runSteps(t *testing.T, steps []step, dir, prelude string, swap ...string) string {
	t.Helper()
	back := slices.Clone(swap)
	for i := 0; i+1 < len(back); i += 2 {
		back[i], back[i+1] = back[i+1], back[i]
	}
	here, page := strings.NewReplacer(swap...), strings.NewReplacer(back...)
	const mark = "\x1e"
	var script strings.Builder
	fmt.Fprintf(&script, "PATH=%s:$PATH\n%s%s\n", strings.TrimSuffix(bin, "/"), headReadsOn, prelude)
	steps = slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.needs != "" && !slices.Contains(has, s.needs) })
	for _, s := range steps {
		fmt.Fprintf(&script, "printf '%s'\n%s", mark, here.Replace(s.command))
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	must.OK(t, err)
	defer out.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if _, err := exec.LookPath("bash"); err != nil {
		needs.Skip(t, err)
	}
	cmd := exec.CommandContext(ctx, "bash", "-eu", "-o", "pipefail", "-c", script.String()) // dash has no pipefail
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = end
	ended := cmd.Run()
	end() // what still runs in the background
	b, err := os.ReadFile(out.Name())
	must.OK(t, err)
	_, text, _ := strings.Cut(page.Replace(string(b)), mark)
	said := strings.Split(text, mark)
	if ended != nil {
		t.Fatalf("line %d: %v\n%s%s", steps[min(len(said), len(steps))-1].line, ended, steps[min(len(said), len(steps))-1].command, tail([]byte(said[len(said)-1])))
	}
	if len(said) != len(steps) {
		t.Fatalf("%d of %d steps were run", len(said), len(steps))
	}
	for i, s := range steps {
		said[i] = progress.ReplaceAllString(said[i], "")
		if s.shows && !masked(s.want).MatchString(said[i]) {
			t.Errorf("line %d: %sprinted\n%swant\n%s", s.line, s.command, said[i], s.want)
		}
	}
	return strings.Join(said, "")
}

// masked matches output, as a page shows it.
func masked(want string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.Lines(want) {
		if line == "…\n" {
			b.WriteString(`(?:.*\n)*`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(line, "\n")), "…", ".*") + ` *\n`)
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// TestSteps: the pages' lines are read as their readers read them, and what they print is compared.
func TestSteps(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "page.md")
	page := "# Page\n\ntext\n\n    cat > f <<'END'\n    a\n\n    b\n    END\n\nmore\n\n    true\n\n    $ cat f |\n      wc -l\n    3\n    $ false | true || echo failed\n    failed\n    $ seq 99999 | head -n 3\n    1\n    …\n\n## Later (needs nothing9)\n\n    exit 1\n\n## Last\n\n    $ echo in 7.5 s\n    in … s\n"
	must.OK(t, os.WriteFile(name, []byte(page), 0o666))
	want := []step{
		{5, "cat > f <<'END'\na\n\nb\nEND\n", false, "", ""},
		{13, "true\n", false, "", ""},
		{15, "cat f |\n  wc -l\n", true, "3\n", ""},
		{18, "false | true || echo failed\n", true, "failed\n", ""},
		{20, "seq 99999 | head -n 3\n", true, "1\n…\n", ""},
		{26, "exit 1\n", false, "", "nothing9"},
		{30, "echo in 7.5 s\n", true, "in … s\n", ""},
	}
	got := pageSteps(t, name)
	if !slices.Equal(got, want) {
		t.Fatalf("%+v\nwant\n%+v", got, want)
	}
	if said := runSteps(t, got, t.TempDir(), "", "7.5", "8.5"); said != "3\nfailed\n1\n2\n3\nin 7.5 s\n" {
		t.Errorf("%q", said)
	}
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"", "", true}, {"", "x\n", false}, {"a … b\n", "a 1 2 b\n", true}, {"a … b\n", "a 1\n b\n", false},
		{"a\n…\n", "a\nb\nc\n", true}, {"a\n…\n", "a\n", true}, {"a.\n", "ab\n", false}, {"…\nc\n", "a\nb\nd\n", false},
	} {
		t.Run(fmt.Sprintf("%q %q", c.want, c.got), func(t *testing.T) {
			if masked(c.want).MatchString(c.got) != c.same {
				t.Errorf("%q shows %q: want %v", c.want, c.got, c.same)
			}
		})
	}
}

// polite is a shell function mcrawl that gives new crawls what they need on loopback. Its servers need no delays. A setting that the line gives stays.
func polite(more ...string) string {
	sets := append(more, "network.allow_net=127.0.0.0/8", "politeness.min_delay=0s", "politeness.delay_factor=0", "politeness.addr_delay=0s", "frontier.max_attempts=1")
	return "mcrawl() {\n  case $1 in new | site | focus) for set in " + strings.Join(sets, " ") + "; do\n" +
		"    case \"$*\" in *\" ${set%%=*}=\"*) ;; *) set -- \"$@\" --set \"$set\" ;; esac\n  done ;; esac\n  command mcrawl \"$@\"\n}\n"
}

// portsGiven are the ports of freePorts, each for one test.
var portsGiven sync.Map

// freePorts finds ports for servers that a page starts. They are none of those that a system gives to who asks for any, which tests that run
// at the same time do.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range 1000 {
		if len(ports) == n {
			return ports
		}
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if _, taken := portsGiven.LoadOrStore(port, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			ports = append(ports, port)
		}
	}
	t.Fatal("no free ports")
	return nil
}
