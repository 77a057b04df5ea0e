package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
)

// TestMemoryPipe: what is written in pieces of any size is read in others, and no more is held than a pipe may.
func TestMemoryPipe(t *testing.T) {
	p, rnd := NewMemoryPipe(t.Context()), rand.New(rand.NewPCG(7, 7))
	text := make([]byte, 5*pipeHolds)
	for i := range text {
		text[i] = byte(rnd.Uint32())
	}
	sizes := make([]int, 300)
	for i := range sizes {
		sizes[i] = rnd.IntN(3 * pipeHolds >> rnd.IntN(20))
	}
	go func() {
		defer p.WriterDone()
		rest := text
		for i := 0; len(rest) > 0; i++ {
			n, err := p.Write(rest[:min(len(rest), sizes[i%len(sizes)])])
			if rest = rest[n:]; err != nil {
				t.Error(err)
				return
			}
		}
	}()
	var got bytes.Buffer
	for i := 0; ; i++ {
		_, err := io.CopyN(&got, p, int64(sizes[len(sizes)-1-i%len(sizes)]))
		p.mu.Lock()
		holds := len(p.ring)
		p.mu.Unlock()
		if holds > pipeHolds {
			t.Fatalf("%d bytes are held", holds)
		}
		if err != nil {
			break
		}
	}
	if !bytes.Equal(got.Bytes(), text) {
		t.Errorf("%d bytes were read, other than the %d written", got.Len(), len(text))
	}
	drained := NewMemoryPipe(t.Context())
	part, into := make([]byte, 1000), make([]byte, 2000)
	if n := testing.AllocsPerRun(100, func() { drained.Write(part); drained.Read(into) }); n > 0 {
		t.Errorf("%v allocations where all is read each time", n)
	}
	drained.ReaderDone()
	if _, err := drained.Write(part); !errors.Is(err, ErrReaderGone) {
		t.Errorf("to a reader that is gone: %v", err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stopped := NewMemoryPipe(ctx)
	why := errors.New("why")
	stop(why)
	for {
		if _, err := stopped.Write(part); err != nil {
			if err != why {
				t.Error(err)
			}
			break
		}
	}
}

type called struct {
	Common
	run func(ctx context.Context, std *Std) error
}

func (c *called) Run(ctx context.Context, std *Std) error { return c.run(ctx, std) }

// TestCall: a failure has the exit code of the process and what it prints, and needs nobody to hear of warnings.
func TestCall(t *testing.T) {
	ended, stop := context.WithCancelCause(t.Context())
	stop(&fault.Error{Class: fault.Upstream, Found: "the pipe ended"})
	for _, test := range []struct {
		name  string
		ctx   context.Context
		err   error
		code  int
		lines string
	}{
		{"it goes well", t.Context(), nil, 0, ""},
		{"an error without a class", t.Context(), errors.New("broken"), 1, "ma: broken"},
		{"a class and a hint", t.Context(), &fault.Error{Class: fault.Busy, Found: "held", Hint: "wait"}, 5, "ma: held,ma: hint: wait"},
		{"no reader", t.Context(), ErrReaderGone, ExitReaderGone, ""},
		{"cancelled, for a cause", ended, context.Canceled, 4, "ma: the pipe ended"},
		{"cancelled by itself", t.Context(), context.Canceled, 1, "ma: context canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Command{Name: "ma", Grammar: func() any {
				return &called{run: func(_ context.Context, std *Std) error { std.Warn("heard by nobody"); return test.err }}
			}}
			f := c.Call(test.ctx, Call{})
			if test.code == 0 {
				if f != nil {
					t.Error(f)
				}
				return
			}
			if f == nil || f.Code != test.code || strings.Join(f.Lines, ",") != test.lines || f.NamesSetting {
				t.Errorf("%+v, want code %d, %s", f, test.code, test.lines)
			}
		})
	}
}

type (
	reused struct {
		Common
		Verb reusedVerb `cmd:""`
	}
	reusedVerb struct {
		Name string   `arg:""`
		List []string `arg:"" optional:""`
		Flag bool     `short:"f"`
		Size int      `default:"3"`
		own  int
	}
)

func (r *reusedVerb) Run(std *Std) error {
	fmt.Fprintln(std.Out, r.Name, r.List, r.Flag, r.Size, r.own, std.Given("size"))
	r.own++
	return nil
}

// TestCallAgain: nothing of a call is left in the next, which has the same parser.
func TestCallAgain(t *testing.T) {
	c := Command{Name: "again", Grammar: func() any { return new(reused) }}
	say := func(args ...string) string {
		var out bytes.Buffer
		if f := c.Call(t.Context(), Call{Args: append([]string{"verb"}, args...), Out: &out}); f != nil {
			return f.Lines[0]
		}
		return out.String()
	}
	for range 2 {
		for _, test := range []struct{ args, want string }{
			{"", `again: expected "<name>"`},
			{"a b c -f --size 5", "a [b c] true 5 0 true\n"},
			{"d", "d [] false 3 0 false\n"},
		} {
			if got := say(strings.Fields(test.args)...); got != test.want {
				t.Errorf("%q: %q, want %q", test.args, got, test.want)
			}
		}
	}
	if n := len(idle[use{"again", reflect.TypeFor[*reused](), "^$"}]); n != 1 {
		t.Errorf("%d parsers of calls one after the other", n)
	}
}

// A line of standard error that does not end is told in pieces, and nothing of it is lost.
func TestLines(t *testing.T) {
	var got []string
	l := LineWriter{Emit: func(line string) { got = append(got, line) }}
	long := strings.Repeat("x", 3*longestPiece)
	io.WriteString(&l, "a\nb")
	io.WriteString(&l, "c\n\n")
	for i := 0; i < len(long); i += 1000 {
		io.WriteString(&l, long[i:min(i+1000, len(long))])
		if len(l.rest) > longestPiece+1000 {
			t.Fatalf("%d bytes are held", len(l.rest))
		}
	}
	l.End()
	l.End()
	if strings.Join(got[:3], ",") != "a,bc," || strings.Join(got[3:], "") != long || len(got) < 5 {
		t.Errorf("%d lines, %.60q", len(got), got)
	}
}
