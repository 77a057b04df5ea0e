package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"mercator/pkg/fault"
)

// Call is one run of a command inside this process, in the place of a process of its own. Neither signals nor limits of the
// process are its own: who calls has them.
type Call struct {
	Args   []string
	In     io.Reader         // standard input; nil: it is empty
	Out    io.Writer         // standard output; nil: nobody reads it
	Warn   func(line string) // gets each line of a warning, with the command's name
	Report func(value any)   // gets each second what --progress json prints; nil: nobody wants it
	Wait   func(w Wait)      // gets what the command waits for
}

// Failed is why a Call failed.
type Failed struct {
	Err   error
	Code  int      // exit code of the command as a process
	Lines []string // what the process prints of it: the error, and a hint if there is one
	// NamesSetting: the hint is the command that changes a setting of the crawl.
	NamesSetting bool
}

func (f *Failed) Error() string { return f.Err.Error() }
func (f *Failed) Unwrap() error { return f.Err }

// Followed reports whether the command may have failed only because one beside it in the pipe did: its input ended early, or nobody
// reads its output.
func (f *Failed) Followed() bool {
	return f.Code == fault.Upstream.ExitCode() || f.Code == exitReaderGone
}

// Call runs the command, and returns a *Failed if that fails. A command that is cancelled returns when it has cleaned up.
func (c Command) Call(ctx context.Context, call Call) error {
	said := &lineWriter{emit: call.Warn}
	in, out := call.In, call.Out
	if in == nil {
		in = strings.NewReader("")
	}
	if out == nil {
		out = io.Discard
	}
	std := &Std{Name: c.Name, In: in, Out: out, Err: said, Now: time.Now, args: call.Args, defaultMemory: c.Memory, call: &call}
	kctx, code := c.parse(std, c.Grammar(), io.Discard)
	if kctx == nil && code == 0 {
		return nil
	}
	err := std.parsed
	if kctx != nil {
		err = std.runHere(ctx, kctx)
	}
	if err == nil {
		return nil
	}
	failed := &Failed{Err: err}
	said.emit = func(line string) { failed.Lines = append(failed.Lines, line) }
	failed.Code = std.fail(err)
	last := failed.Lines[max(0, len(failed.Lines)-1):]
	failed.NamesSetting = len(last) > 0 && strings.HasPrefix(last[0], c.Name+": hint: ") && strings.Contains(last[0], "\"mcrawl set ")
	return failed
}

// lineWriter gives each line that is written to it to a function. All of a line comes in one write.
type lineWriter struct{ emit func(line string) }

func (w *lineWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w.emit(strings.TrimSuffix(line, "\n"))
	}
	return len(p), nil
}

// Wait is what a command waits for before it can go on.
type Wait struct {
	Text  string    // all of it, for a person
	URL   string    // that is due first; "": it waits for something else
	Until time.Time // with URL
	Why   string    // with URL
}

// Wait says what the command waits for.
func (s *Std) Wait(w Wait) {
	if s.call != nil && s.call.Wait != nil {
		s.call.Wait(w)
		return
	}
	s.Warn("%s", w.Text)
}
