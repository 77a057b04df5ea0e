package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"mercator/pkg/base/fault"
)

// Call is one run of a command inside this process, in the place of a process of its own. Neither signals nor limits of the
// process are its own: who calls has them.
type Call struct {
	Args   []string
	In     io.Reader         // standard input; nil: it is empty
	Out    io.Writer         // standard output; nil: nobody reads it
	Warn   func(line string) // gets each line of a warning, with the command's name; nil: nobody
	Report func(value any)   // gets each second what --progress json prints; nil: nobody wants it
	Wait   func(w Wait)      // gets what the command waits for
}

// Failed is why a Call failed.
type Failed struct {
	Err   error
	Code  int      // exit code of the command as a process
	Lines []string // lines that the process prints: the error, and a hint if there is one

	NamesSetting bool // the hint is the command that changes a setting of the crawl
}

func (f *Failed) Error() string { return f.Err.Error() }
func (f *Failed) Unwrap() error { return f.Err }

// FailedBy makes the failure of a command from an error that has not been printed.
func FailedBy(err error) *Failed {
	if errors.Is(err, ErrReaderGone) {
		return &Failed{Err: err, Code: ExitReaderGone}
	}
	return &Failed{Err: err, Code: fault.ClassOf(err).ExitCode()}
}

// Followed reports whether the command may have failed only because one beside it in the pipe did: its input ended early, or nobody
// reads its output.
func (f *Failed) Followed() bool {
	return f.Code == fault.Upstream.ExitCode() || f.Code == ExitReaderGone
}

// Call runs the command; nil: it went well. A command that is cancelled returns when it has cleaned up.
func (c Command) Call(ctx context.Context, call Call) *Failed {
	said := &LineWriter{Emit: call.Warn}
	in, out := call.In, call.Out
	if in == nil {
		in = strings.NewReader("")
	}
	if out == nil {
		out = io.Discard
	}
	if call.Warn == nil {
		said.Emit = func(string) {}
	}
	std := &Std{Name: c.Name, In: in, Out: out, Err: said, Now: time.Now, args: call.Args, defaultMemory: c.Memory, call: &call}
	kctx, _ := c.parse(std, io.Discard)
	err := std.parsed
	if kctx != nil {
		err = std.runHere(ctx, kctx)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	if err == nil {
		std.parser.release()
		return nil
	}
	failed := FailedBy(err)
	if failed.Code != ExitReaderGone {
		said.Emit = func(line string) { failed.Lines = append(failed.Lines, line) }
		std.fail(err)
		failed.NamesSetting = std.hintSets
	}
	return failed
}

// LineWriter gives each line that is written to it to a function.
type LineWriter struct {
	Emit func(line string)
	mu   sync.Mutex // End may come while a write goes on
	rest []byte
}

// longestPiece bounds a line that a LineWriter gives, in bytes; a longer one comes in pieces.
const longestPiece = 16 << 10

func (l *LineWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		switch {
		case i >= 0:
			l.Emit(string(l.rest[:i]))
			l.rest = l.rest[i+1:]
		case len(l.rest) > longestPiece:
			l.Emit(string(l.rest))
			l.rest = nil
		default:
			l.rest = bytes.Clone(l.rest) // the start of the buffer goes
			return len(b), nil
		}
	}
}

// End gives the last line, which may lack its end.
func (l *LineWriter) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.Emit(string(l.rest))
		l.rest = nil
	}
}

// Wait is the reason why a command waits before it can go on.
type Wait struct {
	Text  string    // all of it, for a person
	URL   string    // URL that is due first, or its host, if that does not answer; "": it waits for something else
	Until time.Time // with URL
	Why   string    // with URL
}

// Wait reports the reason why the command waits.
func (s *Std) Wait(w Wait) {
	if s.call != nil && s.call.Wait != nil {
		s.call.Wait(w)
		return
	}
	s.Warn("%s", w.Text)
}
