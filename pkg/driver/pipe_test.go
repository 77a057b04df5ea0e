package driver

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/pkg/fault"
)

// scripts makes commands of a pipe, in a folder of PATH.
func scripts(t *testing.T, text map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range text {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// Of a pipe's failures that is told which caused the others.
func TestCause(t *testing.T) {
	const reads, pass = "cat > /dev/null; echo ${0##*/}: standard input: nothing in it >&2; echo ${0##*/}: hint: see there >&2; ", "exec cat\n"
	for _, test := range []struct {
		name, a, b, c string
		class         fault.Class
		found         string
	}{
		{"the first is damaged", "exit 3", reads + "exit 4", reads + "exit 4", fault.Corrupt, "ma verb ended with exit code 3"},
		{"the middle is busy", "yes 2> /dev/null; exit 141", "exit 5", reads + "exit 4", fault.Busy, "mb ended with exit code 5"},
		{"the last fails by itself", "yes 2> /dev/null", pass, "exit 1", "", "mc ended with exit code 1"},
		{"the middle is killed", "yes 2> /dev/null", "kill -9 $$", reads + "exit 4", "", "mb was killed (signal 9, killed)"},
		{"the pipe ended early, and none knows why", "exit 0", reads + "exit 4", reads + "exit 4", fault.Upstream, "mb ended with exit code 4"},
		{"a program of the user's", pass, "sleep 0.2; exit 7", reads + "exit 4", fault.Program, "mb ended with exit code 7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			scripts(t, map[string]string{"ma": test.a, "mb": test.b, "mc": test.c})
			var said []string
			p := processes{said: func(_, line string) { said = append(said, line) }}
			_, err := p.run(t.Context(), Pipe{{"ma", "verb"}, {"mb"}, {"mc"}})
			if err == nil || err.Error() != test.found || fault.ClassOf(err) != test.class {
				t.Errorf("%v (%s), want %s (%s)", err, fault.ClassOf(err), test.found, test.class)
			}
			// What only followed is not told.
			want := 0
			if test.class == fault.Upstream {
				want = 2
			}
			if len(said) != want {
				t.Errorf("%q, want %d lines", said, want)
			}
		})
	}
}

// What is interrupted ends, also what does not heed SIGTERM, with all that it has started, and says nothing of it.
func TestInterrupted(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	scripts(t, map[string]string{"ma": "trap 'echo stopped >&2' TERM; sleep 100 & echo $! > " + pid + "\nwhile :; do wait; done", "mb": "exec cat"})
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := &fault.Error{Class: fault.Interrupted, Found: "interrupted"}
	go func() {
		for text := ""; text == ""; time.Sleep(10 * time.Millisecond) {
			b, _ := os.ReadFile(pid)
			text = string(b)
		}
		cancel(stop)
	}()
	p := processes{said: func(_, line string) { t.Error(line) }}
	if _, err := p.run(ctx, Pipe{{"ma"}, {"mb"}}); err != stop {
		t.Error(err)
	}
	b, _ := os.ReadFile(pid)
	if err := exec.Command("sh", "-c", "sleep 0.1; ! kill -0 "+string(b)).Run(); err != nil {
		t.Error("a program of a command goes on")
	}
}

// A line of standard error that does not end is told in pieces, and nothing of it is lost.
func TestLines(t *testing.T) {
	var got []string
	l := lines{emit: func(line string) { got = append(got, line) }}
	long := strings.Repeat("x", 3*longestLine)
	io.WriteString(&l, "a\nb")
	io.WriteString(&l, "c\n\n")
	for i := 0; i < len(long); i += 1000 {
		io.WriteString(&l, long[i:min(i+1000, len(long))])
		if len(l.rest) > longestLine+1000 {
			t.Fatalf("%d bytes are held", len(l.rest))
		}
	}
	l.end()
	l.end()
	if strings.Join(got[:3], ",") != "a,bc," || strings.Join(got[3:], "") != long || len(got) < 5 {
		t.Errorf("%d lines, %.60q", len(got), got)
	}
}

func TestQuote(t *testing.T) {
	words := []string{"plain-1.txt", "", "a b", "it's", "$HOME", "`x`", "\"", "\\", "a\nb", "*", "~", "--x=ü"}
	out, err := exec.Command("sh", "-c", "printf '%s\\001' "+fault.Quote(words...)).Output()
	if want := strings.Join(words, "\x01") + "\x01"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
	if !errors.Is(failure(ended{words: []string{"x"}, err: errors.ErrUnsupported}), errors.ErrUnsupported) {
		t.Error("the cause is lost")
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
		folder, rules, err := Site(test.urls, test.scope)
		if _, list, _ := strings.Cut(rules, "include default\n"); err != nil || folder != test.folder || list != test.rules+"default deny\n" {
			t.Errorf("%q: %s, %v\n%s", test.urls, folder, err, rules)
		}
	}
}
