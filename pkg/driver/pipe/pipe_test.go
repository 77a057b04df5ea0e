package pipe

import (
	"context"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/cli"
	"mercator/pkg/fetch"
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
			p := Runner{Said: func(line string) { said = append(said, line) }}
			_, err := p.Run(t.Context(), Pipe{{"ma"}, {"mb"}, {"mc"}})
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
			p := Runner{Said: func(line string) { said = append(said, line) }}
			out, err := p.RunFed(t.Context(), func(_ context.Context, to *cli.MemoryPipe) error { return test.feed(to) }, Pipe{{"ma"}})
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
			must.OK(t, os.WriteFile(filepath.Join(dir, "mb"), []byte("#!/bin/sh\n"+test.script+"\n"), 0o777))
			p := Runner{Said: func(line string) { t.Error(line) }}
			pipe := Pipe{{"ma"}, {"mb"}, {"mc"}}
			if test.found == "" {
				pipe = pipe[1:]
			}
			out, err := p.Run(t.Context(), pipe)
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
	p := Runner{Said: func(line string) { t.Error(line) }}
	if _, err := p.Run(ctx, Pipe{{"ma"}, {"mb"}}); err != stop {
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

// What mfetch waited while commands before it in the pipe worked is not in its end, whenever it tells of it.
func TestWaitedAtTheEnd(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	for name, c := range map[string]struct {
		says [][2]float64 // seconds, and how many of them were bound by politeness
		want float64
	}{
		"as it ends":   {[][2]float64{{2, 2}, {4, 4}, {6, 5}}, 1},
		"between":      {[][2]float64{{3, 2}, {5, 4}, {6, 5}}, 2},
		"only at last": {[][2]float64{{6, 3}}, 1},
		"before alone": {[][2]float64{{3, 3}, {6, 3}}, 0},
		"nothing":      {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var p Runner
			said := make([]commandReports, 2)
			said[1].ahead.Store(1)
			for _, s := range c.says {
				if s[0] > 4 { // mresolve has ended
					said[1].ahead.Store(0)
				}
				said[1].keepReport(fetch.Progress{Bound: s[1]}, at(s[0]))
			}
			p.keepTimes(Pipe{{"mresolve", "dns"}, {"mfetch", "fetch"}}, said, began, []time.Time{at(4), at(6)})
			if s := p.Spent[1]; s.OwnS != 2 || math.Abs(s.WaitedS-c.want) > 1e-9 {
				t.Errorf("%s: waited %g s of %g, want %g", name, s.WaitedS, s.OwnS, c.want)
			}
		})
	}
}
