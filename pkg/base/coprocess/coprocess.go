// Package coprocess asks a program: a line to its standard input, a line back
// from its standard output, for as long as there is something to ask.
//
// The program is a command for sh, and inherits the environment. It starts with
// the first question and ends when its input does. Questions come in batches; it
// must answer each line without waiting for the next, so an answer must not stay
// in a buffer. Or a question is a line and a document behind it.
//
// # Invariants
//
//   - There is exactly one answer to each question, in their order. More is an error,
//     and so is an answer before the whole question was read.
//   - Time for an answer and its length are bounded, and so is what is kept of
//     standard error. The line of it that says why (Tail.Why) is the hint of the error.
//   - A program runs in a process group of its own, which is killed when it has
//     ended, however it did: nothing that it started is left.
//   - What goes wrong is one error of class fault.Program, which names the command
//     and what was asked.
//
// A Program serves one goroutine.
package coprocess

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"mercator/pkg/base/fault"
)

// Bounds of a program.
const (
	DefaultTimeout = 10 * time.Second // for an answer
	DefaultAnswer  = 4 << 10          // bytes of an answer
	Fruitless      = 3                // deaths of a program that is started again, without an answer between them
)

// Program is a program that answers questions.
type Program struct {
	Command string        // for sh -c
	Timeout time.Duration // for an answer, and for its end; 0: DefaultTimeout
	Answer  int           // bytes of an answer; 0: DefaultAnswer
	Env     []string      // further variables of its environment
	// Deaths, if more than 0, starts a program that ended early again, and asks it what
	// it has not answered, until it ended so often, or Fruitless times in a row without an
	// answer. That suits programs with answers that depend on the question alone.
	Deaths int

	running *process
	deaths  int // all
}

type process struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	lines  *bufio.Reader
	stderr Tail
}

// errDied says that a program ended, or closed its output, before it had answered.
var errDied = errors.New("it ended")

var errTooMany = errors.New("more answers than questions")

func (p *Program) timeout() time.Duration {
	if p.Timeout > 0 {
		return p.Timeout
	}
	return DefaultTimeout
}

func (p *Program) answer() int {
	if p.Answer > 0 {
		return p.Answer
	}
	return DefaultAnswer
}

// Ask asks n questions, a line each, and hands over the answers in order, without
// their line ends. An error of got says what is wrong with an answer. name names
// the k-th question in an error.
func (p *Program) Ask(ctx context.Context, questions []byte, n int, name func(k int) string, got func(k int, answer string) error) error {
	return p.ask(ctx, questions, nil, n, name, got)
}

// AskAbout asks one question: a line, and a document behind it.
func (p *Program) AskAbout(ctx context.Context, line, document []byte, name string, got func(answer string) error) error {
	return p.ask(ctx, line, document, 1, func(int) string { return name }, func(_ int, answer string) error { return got(answer) })
}

func (p *Program) ask(ctx context.Context, questions, document []byte, n int, name func(k int) string, got func(k int, answer string) error) error {
	fruitless := 0
	for k := 0; k < n; {
		if p.running == nil {
			var err error
			if p.running, err = p.start(); err != nil {
				return p.fault(err.Error(), "")
			}
		}
		before := k
		err := p.exchange(ctx, questions, document, n-k, func(answer string) error {
			if err := got(k, answer); err != nil {
				return err
			}
			questions = questions[bytes.IndexByte(questions, '\n')+1:]
			k++
			return nil
		})
		if err == nil {
			return nil
		}
		last := p.running.kill()
		p.running = nil
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !errors.Is(err, errDied) {
			return p.fault(fmt.Sprintf("%v, asked for %s", err, name(min(k, n-1))), last)
		}
		p.deaths++
		if p.Deaths == 0 {
			return p.fault("it ended without an answer, asked for "+name(k), last)
		}
		if k > before {
			fruitless = 0
		}
		if fruitless++; fruitless == Fruitless || p.deaths >= p.Deaths {
			return p.fault(fmt.Sprintf("it ended %d times without an answer to all it was asked, in the end for %s", p.deaths, name(k)), last)
		}
	}
	return nil
}

// exchange writes questions and a document, and reads n answers.
func (p *Program) exchange(ctx context.Context, questions, document []byte, n int, got func(answer string) error) error {
	r := p.running
	if r.speaks() {
		return errTooMany
	}
	stop := context.AfterFunc(ctx, func() { r.out.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var writer sync.WaitGroup
	defer writer.Wait()
	defer r.in.SetWriteDeadline(time.Unix(1, 0))
	r.in.SetWriteDeadline(time.Time{})
	written := false
	writer.Go(func() {
		_, err := r.in.Write(questions)
		if err == nil && len(document) > 0 {
			_, err = r.in.Write(document)
		}
		written = err == nil
	})
	for range n {
		r.out.SetReadDeadline(time.Now().Add(p.timeout()))
		if ctx.Err() != nil { // perhaps stop's function was before that
			r.out.SetReadDeadline(time.Unix(1, 0))
		}
		line, err := r.lines.ReadSlice('\n')
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("no answer for %v", p.timeout())
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("an answer of more than %d bytes", p.answer())
		case err != nil:
			return errDied
		}
		if err := got(strings.TrimRight(string(line), "\r\n")); err != nil {
			return err
		}
	}
	if r.lines.Buffered() > 0 {
		return errTooMany
	}
	r.in.SetWriteDeadline(time.Now().Add(p.timeout()))
	if writer.Wait(); !written {
		return errors.New("an answer before it had read all of the question")
	}
	return nil
}

func (p *Program) fault(found, stderr string) error {
	e := &fault.Error{Class: fault.Program, File: "exec " + p.Command, Found: found}
	if stderr != "" {
		e.Hint = "it wrote: " + stderr
	} else if strings.HasPrefix(found, "no answer") {
		e.Hint = "an answer must not wait in a buffer: sed -u, grep --line-buffered, jq --unbuffered, mawk -W interactive, print(…, flush=True)"
	}
	return e
}

func (p *Program) start() (*process, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	r := &process{cmd: exec.Command("/bin/sh", "-c", p.Command), in: inW, out: outR, lines: bufio.NewReaderSize(outR, p.answer())}
	if len(p.Env) > 0 {
		r.cmd.Env = append(os.Environ(), p.Env...)
	}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = inR, outW, &r.stderr
	// A group of its own, so that what it starts ends with it.
	r.cmd.SysProcAttr = Apart()
	r.cmd.WaitDelay = time.Second
	err = r.cmd.Start()
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, err
	}
	return r, nil
}

// speaks reports whether the program has written what it was not asked for.
func (r *process) speaks() (yes bool) {
	r.out.SetReadDeadline(time.Time{})
	c, err := r.out.SyscallConn()
	if err != nil {
		return false
	}
	_ = c.Read(func(fd uintptr) bool {
		var b [1]byte
		yes = readNow(fd, b[:]) > 0
		return true
	})
	return yes
}

// kill ends the program and returns what its standard error says of it.
func (r *process) kill() string {
	r.in.Close()
	r.out.Close()
	SignalGroup(r.cmd.Process, syscall.SIGKILL)
	r.cmd.Wait()
	return r.stderr.Why()
}

// Close ends the program's input and waits for its end. An error says that it
// failed in the end, or wrote more answers than it was asked for: what it said is
// not to be trusted. A program that never started, or is closed, is no error.
func (p *Program) Close() error {
	r := p.running
	if r == nil {
		return nil
	}
	p.running = nil
	r.in.Close()
	r.out.SetReadDeadline(time.Now().Add(p.timeout()))
	more, err := io.CopyN(io.Discard, r.lines, 1)
	switch {
	case more > 0:
		return p.fault(errTooMany.Error(), r.kill())
	case !errors.Is(err, io.EOF):
		return p.fault(fmt.Sprintf("no end within %v of its input's", p.timeout()), r.kill())
	}
	r.out.Close()
	kill := time.AfterFunc(p.timeout(), func() { SignalGroup(r.cmd.Process, syscall.SIGKILL) })
	err = r.cmd.Wait()
	kill.Stop()
	SignalGroup(r.cmd.Process, syscall.SIGKILL) // what it left running; mostly there is none
	if err != nil {
		return p.fault("it ended with "+err.Error(), r.stderr.Why())
	}
	return nil
}

// Kill ends the program at once, where its answers are of no use any more.
func (p *Program) Kill() {
	if p.running != nil {
		p.running.kill()
		p.running = nil
	}
}
