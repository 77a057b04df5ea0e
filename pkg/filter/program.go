package filter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"mercator/pkg/fault"
)

// execLimits bound what programs may do.
type execLimits struct{ timeout time.Duration }

// Bounds of a program.
const (
	execTimeout   = 10 * time.Second // for an answer, without the line "timeout"
	execAnswerMax = 4 << 10          // bytes of an answer
	execErrorMax  = 4 << 10          // the end of standard error that is kept
	execDeaths    = 3                // without an answer between them
	execDeathsMax = 100
)

// appendQuestion appends the line that a program gets.
func appendQuestion(b []byte, c *Candidate) []byte {
	b = append(b, c.URL...)
	b = append(b, '\t')
	b = append(b, c.Host...)
	b = append(b, '\t')
	b = strconv.AppendUint(b, uint64(c.Depth), 10)
	b = append(b, '\t')
	b = appendField(b, c.Kind)
	b = append(b, '\t')
	b = appendField(b, c.MIME)
	return append(b, '\n')
}

// appendField appends a field, of which tabs and line ends make no new ones.
func appendField(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c < ' ' {
			c = ' '
		}
		b = append(b, c)
	}
	return b
}

// program is the program of an exec test, for one judge.
type program struct {
	command string
	limits  execLimits
	running *process
	deaths  int // all
}

type process struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	lines  *bufio.Reader
	stderr tail
}

// errDied says that a program ended, or closed its output, before it had answered.
var errDied = errors.New("it ended")

// ask asks n questions, a line each, and hands over the answers in order.
func (p *program) ask(ctx context.Context, questions []byte, n int, got func(k int, yes bool, why string)) error {
	fruitless := 0
	for k := 0; k < n; {
		if p.running == nil {
			var err error
			if p.running, err = start(p.command); err != nil {
				return p.fault(err.Error(), "")
			}
		}
		before := k
		err := p.exchange(ctx, questions, n-k, func(yes bool, why string) {
			got(k, yes, why)
			questions = questions[bytes.IndexByte(questions, '\n')+1:]
			k++
		})
		if err == nil {
			return nil
		}
		last := p.running.kill()
		p.running = nil
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		asked, _, _ := bytes.Cut(questions, []byte("\t"))
		if !errors.Is(err, errDied) {
			return p.fault(err.Error()+", asked for "+string(asked), last)
		}
		if k > before {
			fruitless = 0
		}
		fruitless++
		if p.deaths++; fruitless == execDeaths || p.deaths == execDeathsMax {
			return p.fault(fmt.Sprintf("it ended %d times without an answer to all it was asked, in the end for %s", p.deaths, asked), last)
		}
	}
	return nil
}

// exchange writes questions and reads n answers.
func (p *program) exchange(ctx context.Context, questions []byte, n int, got func(yes bool, why string)) error {
	r := p.running
	stop := context.AfterFunc(ctx, func() { r.out.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	questions = bytes.Clone(questions) // those with an answer are cut off while others are written
	var writer sync.WaitGroup
	defer writer.Wait()
	defer r.in.SetWriteDeadline(time.Unix(1, 0))
	r.in.SetWriteDeadline(time.Time{})
	writer.Go(func() { r.in.Write(questions) }) // if it fails, so does the reading
	for range n {
		r.out.SetReadDeadline(time.Now().Add(p.limits.timeout))
		if ctx.Err() != nil { // perhaps stop's function was before that
			r.out.SetReadDeadline(time.Unix(1, 0))
		}
		line, err := r.lines.ReadSlice('\n')
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("no answer for %v", p.limits.timeout)
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("an answer of more than %d bytes", execAnswerMax)
		case err != nil:
			return errDied
		}
		verdict, why, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), "\t")
		if verdict != "yes" && verdict != "no" {
			return fmt.Errorf("answer %q, want yes or no", verdict)
		}
		got(verdict == "yes", why)
	}
	if r.lines.Buffered() > 0 {
		return errors.New("more answers than questions")
	}
	return nil
}

func (p *program) fault(found, stderr string) error {
	e := &fault.Error{Class: "", File: "exec " + p.command, Found: found}
	if stderr != "" {
		e.Hint = "it wrote: " + stderr
	} else if strings.HasPrefix(found, "no answer") {
		e.Hint = "an answer must not wait in a buffer: sed -u, grep --line-buffered, mawk -W interactive"
	}
	return e
}

func start(command string) (*process, error) {
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
	r := &process{cmd: exec.Command("/bin/sh", "-c", command), in: inW, out: outR, lines: bufio.NewReaderSize(outR, execAnswerMax)}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = inR, outW, &r.stderr
	// A group of its own, so that what it starts ends with it.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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

// kill ends the program and returns the last line of its standard error.
func (r *process) kill() string {
	r.in.Close()
	r.out.Close()
	syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	r.cmd.Wait()
	return r.stderr.last()
}

// close ends the program's input and waits for its end.
func (p *program) close() error {
	r := p.running
	if r == nil {
		return nil
	}
	p.running = nil
	r.in.Close()
	r.out.SetReadDeadline(time.Now().Add(p.limits.timeout))
	more, err := io.CopyN(io.Discard, r.lines, 1)
	switch {
	case more > 0:
		return p.fault("more answers than questions", r.kill())
	case !errors.Is(err, io.EOF):
		return p.fault(fmt.Sprintf("no end within %v of its input's", p.limits.timeout), r.kill())
	}
	r.out.Close()
	kill := time.AfterFunc(p.limits.timeout, func() { syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) })
	err = r.cmd.Wait()
	kill.Stop()
	syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) // what it left running; mostly there is none
	if err != nil {
		return p.fault("it ended with "+err.Error(), r.stderr.last())
	}
	return nil
}

// tail keeps the end of what is written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-execErrorMax):]...)
	t.b = t.b[max(0, len(t.b)-execErrorMax):]
	return len(p), nil
}

// last is the last line that is not empty.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.TrimSpace(string(t.b))
	return s[strings.LastIndexByte(s, '\n')+1:]
}
