package driver

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
)

// toy is the grammar of a command that tests make.
type toy struct {
	cli.Common
	run func(ctx context.Context, std *cli.Std) error
}

func (c *toy) Run(ctx context.Context, std *cli.Std) error { return c.run(ctx, std) }

// toys are commands of a pipe for a test.
func toys(t *testing.T, run map[string]func(ctx context.Context, std *cli.Std) error) {
	t.Helper()
	was := ownCommands
	t.Cleanup(func() { ownCommands = was })
	ownCommands = map[string]cli.Command{}
	for name, run := range run {
		ownCommands[name] = cli.Command{Name: name, Grammar: func() any { return &toy{run: run} }}
	}
}

// What commands of a pipe do.
var (
	pass = func(_ context.Context, std *cli.Std) error { _, err := io.Copy(std.Out, std.In); return err }
	yes  = func(_ context.Context, std *cli.Std) error {
		for {
			if _, err := std.Out.Write(make([]byte, 1000)); err != nil {
				return err
			}
		}
	}
	short = func(_ context.Context, std *cli.Std) error {
		io.Copy(io.Discard, std.In)
		return &fault.Error{Class: fault.Upstream, File: "standard input", Found: "nothing in it", Hint: "see there"}
	}
)

func fails(class fault.Class) func(context.Context, *cli.Std) error {
	return func(context.Context, *cli.Std) error { return &fault.Error{Class: class, Found: "broken"} }
}

// A pipe's error is the failure that caused the others.
func TestCause(t *testing.T) {
	for _, test := range []struct {
		name    string
		a, b, c func(context.Context, *cli.Std) error
		class   fault.Class
		found   string
		said    string
	}{
		{"the first is damaged", fails(fault.Corrupt), short, short, fault.Corrupt, "ma ended with exit code 3", "ma: broken"},
		{"the middle is busy", yes, fails(fault.Busy), short, fault.Busy, "mb ended with exit code 5", "mb: broken"},
		{"the last fails by itself", yes, pass, fails(""), "", "mc ended with exit code 1", "mc: broken"},
		{"the pipe ended early, and none knows why", func(context.Context, *cli.Std) error { return nil }, short, short, fault.Upstream, "mb ended with exit code 4",
			"mb: standard input: nothing in it,mb: hint: see there"},
		{"a program of the user's", pass, func(ctx context.Context, std *cli.Std) error { short(ctx, std); return fails(fault.Program)(ctx, std) }, short, fault.Program, "mb ended with exit code 7", "mb: broken"},
		{"the last is cut, and the first only waits", func(ctx context.Context, _ *cli.Std) error { <-ctx.Done(); return context.Cause(ctx) },
			func(context.Context, *cli.Std) error { return nil }, short, fault.Upstream, "mc ended with exit code 4", "mc: standard input: nothing in it,mc: hint: see there"},
		{"one that says only that it was cancelled", func(ctx context.Context, std *cli.Std) error { <-ctx.Done(); std.Warn("stopping"); return ctx.Err() },
			fails(fault.Busy), short, fault.Busy, "mb ended with exit code 5", "mb: broken"},
		{"one that reads half", yes, func(context.Context, *cli.Std) error { return nil }, pass, "", "ma could not write on: the command after it ended before it had read all", ""},
		{"one that does not notice", func(ctx context.Context, _ *cli.Std) error { <-ctx.Done(); return context.Cause(ctx) }, fails(fault.Busy), short, fault.Busy, "mb ended with exit code 5", "mb: broken"},
	} {
		t.Run(test.name, func(t *testing.T) {
			toys(t, map[string]func(context.Context, *cli.Std) error{"ma": test.a, "mb": test.b, "mc": test.c})
			var said []string
			p := runner{said: func(line string) { said = append(said, line) }}
			_, err := p.run(t.Context(), Pipe{{"ma"}, {"mb"}, {"mc"}})
			if err == nil || err.Error() != test.found || fault.ClassOf(err) != test.class {
				t.Errorf("%v (%s), want %s (%s)", err, fault.ClassOf(err), test.found, test.class)
			}
			if got := strings.Join(said, ","); got != test.said {
				t.Errorf("said %q, want %q", got, test.said)
			}
		})
	}
}

// TestFed: a pipe that is fed ends with what feeds it, and the error of that is the pipe's.
func TestFed(t *testing.T) {
	broken := &fault.Error{Class: fault.Corrupt, Found: "a part that is damaged"}
	missing := &fault.Error{Class: fault.Upstream, Found: "a part that is missing"}
	for _, test := range []struct {
		name  string
		feed  func(to *cli.MemoryPipe) error
		a     func(context.Context, *cli.Std) error
		class fault.Class
		found string
		said  string
	}{
		{"it is read whole", func(to *cli.MemoryPipe) error { _, err := io.WriteString(to, "rows"); return err }, pass, "", "", ""},
		{"it fails", func(to *cli.MemoryPipe) error { io.WriteString(to, "ro"); return broken }, short, fault.Corrupt, broken.Found, ""},
		{"it fails, as it waits for others", func(*cli.MemoryPipe) error { return missing }, short, fault.Upstream, missing.Found, ""},
		{"the command fails", func(to *cli.MemoryPipe) error {
			for {
				if _, err := to.Write(make([]byte, 1000)); err != nil {
					return err
				}
			}
		}, fails(fault.Busy), fault.Busy, "ma ended with exit code 5", "ma: broken"},
	} {
		t.Run(test.name, func(t *testing.T) {
			toys(t, map[string]func(context.Context, *cli.Std) error{"ma": test.a})
			var said []string
			p := runner{said: func(line string) { said = append(said, line) }}
			out, err := p.runFed(t.Context(), func(_ context.Context, to *cli.MemoryPipe) error { return test.feed(to) }, Pipe{{"ma"}})
			if test.found == "" && (err != nil || string(out) != "rows") || test.found != "" && (err == nil || err.Error() != test.found || fault.ClassOf(err) != test.class) {
				t.Errorf("%q, %v (%s), want %s (%s)", out, err, fault.ClassOf(err), test.found, test.class)
			}
			if got := strings.Join(said, ","); got != test.said {
				t.Errorf("said %q, want %q", got, test.said)
			}
		})
	}
}

// TestProgramInPlace: a program that ends well has done so, though what it started holds its standard error; one that reads half is named.
func TestProgramInPlace(t *testing.T) {
	toys(t, map[string]func(context.Context, *cli.Std) error{"ma": yes, "mc": pass})
	dir := t.TempDir()
	t.Setenv(CommandsVariable, dir)
	for _, test := range []struct{ name, script, out, found string }{
		{"a child holds its standard error", "echo done; sleep 99 > /dev/null & exit 0", "done\n", ""},
		{"it reads half", "head -c 5000; exit 0", "", "ma could not write on: the command after it ended before it had read all"},
		{"it fails", "exit 7", "", "mb ended with exit code 7"},
		{"it is killed", "kill -9 $$", "", "mb was killed (signal 9, killed)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, "mb"), []byte("#!/bin/sh\n"+test.script+"\n"), 0o777); err != nil {
				t.Fatal(err)
			}
			p := runner{said: func(line string) { t.Error(line) }}
			pipe := Pipe{{"ma"}, {"mb"}, {"mc"}}
			if test.found == "" {
				pipe = pipe[1:]
			}
			out, err := p.run(t.Context(), pipe)
			if string(out) != test.out || (err == nil) != (test.found == "") || err != nil && err.Error() != test.found {
				t.Errorf("%q, %v, want %q, %s", out, err, test.out, test.found)
			}
		})
	}
}

// What is interrupted ends, also what does not heed it, and says nothing of it.
func TestInterrupted(t *testing.T) {
	began, never := make(chan bool), make(chan bool)
	defer close(never)
	toys(t, map[string]func(context.Context, *cli.Std) error{"ma": func(context.Context, *cli.Std) error { close(began); <-never; return nil }, "mb": pass})
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := &fault.Error{Class: fault.Interrupted, Found: "interrupted"}
	go func() {
		<-began
		cancel(stop)
	}()
	p := runner{said: func(line string) { t.Error(line) }}
	if _, err := p.run(ctx, Pipe{{"ma"}, {"mb"}}); err != stop {
		t.Error(err)
	}
}

func TestQuote(t *testing.T) {
	words := []string{"plain-1.txt", "", "a b", "it's", "$HOME", "`x`", "\"", "\\", "a\nb", "*", "~", "--x=ü"}
	out, err := exec.Command("sh", "-c", "printf '%s\\001' "+fault.Quote(words...)).Output()
	if want := strings.Join(words, "\x01") + "\x01"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}

func TestBytesLeft(t *testing.T) {
	const G, M = 1 << 30, 1 << 20
	for _, test := range []struct {
		name        string
		until, have int64
		tasks       int
		want        int64
	}{
		{"at the begin", 10 * G, 0, 1, 10 * G},
		{"near the end", 16 * G, 16*G - 1, 1, G},
		{"of four shards", 8 * G, 4 * G, 4, G},
		{"more than that", 16 * M, 99 * M, 4, M},
		{"one byte", 1, 0, 1, M},
	} {
		if got := bytesLeft(test.until, test.have, test.tasks); got != test.want {
			t.Errorf("%s: %d bytes, want %d", test.name, got, test.want)
		}
	}
}

func TestSite(t *testing.T) {
	for _, test := range []struct {
		urls          []string
		scope         Scope
		folder, rules string
	}{
		{[]string{"https://www.Example.org/a"}, Hosts, "www.example.org", "allow site: host example.org www.example.org\n"},
		{[]string{"b.example.org:81", "http://[::1]:8080/x", "b.example.org:81/2"}, Hosts, "b.example.org_81", "allow site: host [::1]:8080 b.example.org:81 www.b.example.org:81\n"},
		{[]string{"http://[::1]:8080/x"}, Hosts, "__1_8080", "allow site: host [::1]:8080\n"},
		{[]string{"https://127.0.0.1/x", "http://localhost/", "www.co.uk/"}, Hosts, "127.0.0.1", "allow site: host 127.0.0.1 localhost www.co.uk\n"},
		{[]string{"a.b.example.co.uk"}, Domains, "a.b.example.co.uk", "allow site: domain example.co.uk\n"},
		{[]string{"www.example.org/docs/a?x=/y"}, Prefixes, "www.example.org",
			"allow site: prefix \"http://example.org/docs/\" \"http://www.example.org/docs/\" \"https://example.org/docs/\" \"https://www.example.org/docs/\"\n"},
		{[]string{"https://127.0.0.1:8443/docs"}, Prefixes, "127.0.0.1_8443", "allow site: prefix \"https://127.0.0.1:8443/\"\n"},
	} {
		for _, parts := range []bool{false, true} {
			folder, rules, err := Site(test.urls, test.scope, parts)
			if strings.Contains(rules, "\n"+partsRule) != parts {
				t.Errorf("%q: parts %t\n%s", test.urls, parts, rules)
			}
			if _, list, _ := strings.Cut(rules, "include default\n"); err != nil || folder != test.folder || !parts && list != test.rules+"default deny\n" || !strings.HasPrefix(list, test.rules) {
				t.Errorf("%q: %s, %v\n%s", test.urls, folder, err, rules)
			}
		}
	}
}
