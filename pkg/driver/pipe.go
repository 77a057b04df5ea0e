package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mercator/pkg/coprocess"
	"mercator/pkg/crawl"
	"mercator/pkg/fault"
	"mercator/pkg/stats"
)

// Pipe is commands with their arguments: each reads what the one before it writes.
type Pipe [][]string

// String is the pipe as a line for a shell.
func (p Pipe) String() string {
	var commands []string
	for _, words := range p {
		commands = append(commands, fault.Quote(append([]string{shown(words[0])}, words[1:]...)...))
	}
	return strings.Join(commands, " |\n  ")
}

// find is the file of a command of ours: beside this program, as it was called or as it is, or in PATH.
func find(command string) (string, error) {
	called, _ := exec.LookPath(os.Args[0])
	is, _ := os.Executable()
	for _, self := range []string{called, is} {
		if self == "" {
			continue
		}
		if self, err := filepath.Abs(self); err == nil {
			if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), command)); err == nil {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(command)
	if err != nil {
		return "", &fault.Error{Class: fault.Usage, Found: "no command " + command, Want: "it beside mcrawl or in PATH", Err: err}
	}
	return path, nil
}

// shown is how a shell finds the same command: by its name, unless PATH has another one.
func shown(command string) string {
	path, err := find(command)
	if err != nil {
		return command
	}
	if inPath, err := exec.LookPath(command); err == nil {
		a, errA := os.Stat(path)
		if b, errB := os.Stat(inPath); errA == nil && errB == nil && os.SameFile(a, b) {
			return command
		}
	}
	return path
}

// Bounds of stopping a pipe: how long its commands have after one of them failed until they are
// told to end, and then until they are killed.
const (
	afterFailure = 3 * time.Second
	afterTerm    = 2 * time.Second
	afterSignal  = 300 * time.Millisecond // then a message says what a second signal does
)

// afterKill is how long what a driver has started may hold the crawl after that driver was killed.
const afterKill = time.Second

// longestLine bounds a line of standard error, in bytes; a longer one comes in pieces.
const longestLine = 16 << 10

// processes run pipes.
type processes struct {
	lock *os.File                   // inherited by all; may be nil
	in   *os.File                   // standard input of the first command of a pipe; nil: nothing
	out  io.Writer                  // takes what the last one writes; nil: run returns it
	said func(command, line string) // gets each line of standard error, one at a time
	mu   sync.Mutex                 // of said

	spent []stats.Spent // what the commands took of the pipes that went well, until taken

	stopping atomic.Bool // commands are told to end, and what they say to that is of no use
}

// ended is how a command of a pipe did.
type ended struct {
	at    int // its place in the pipe
	words []string
	err   error
	when  time.Time
	held  []string // lines that say that the input ended early, and hint at the command before
	fatal string   // the line of the Go runtime, if that ended it
}

// run runs a pipe and returns what its last command wrote. An error tells which command failed
// first, and has the class of its exit code.
func (p *processes) run(ctx context.Context, pipe Pipe) (out []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread that started a process has to live as long as it: see coprocess.EndWithUs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		out, err = p.runHere(ctx, pipe)
	}()
	<-done
	return out, err
}

func (p *processes) runHere(ctx context.Context, pipe Pipe) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	p.stopping.Store(false)
	commands, held, tells := make([]*exec.Cmd, len(pipe)), make([][]string, len(pipe)), make([]saying, len(pipe))
	fatal := make([]string, len(pipe)) // what the Go runtime said before it ended a command
	for i, words := range pipe {
		tells[i].ahead.Store(int32(i))
		path, err := find(words[0])
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(path, words[1:]...)
		cmd.Stderr = &lines{emit: func(line string) {
			if strings.HasPrefix(line, runtimeFatal) && fatal[i] == "" {
				fatal[i] = line
			}
			const most = 2 // of its error, and its hint
			if early := words[0] + ": standard input: "; len(held[i]) < most && (strings.HasPrefix(line, early) || len(held[i]) > 0) {
				held[i] = append(held[i], line)
				return
			}
			if tells[i].take(words[0], line, time.Now()) && words[0] == "mresolve" {
				return
			}
			p.tell(words[0], line)
		}}
		cmd.WaitDelay = time.Second // a program that a command started may keep its standard error
		if p.lock != nil {
			cmd.ExtraFiles = []*os.File{p.lock} // descriptor 3
			cmd.Env = append(os.Environ(), crawl.LockVariable+"=3")
		}
		cmd.SysProcAttr = coprocess.EndWithUs()
		commands[i] = cmd
	}
	var out bytes.Buffer
	if p.in != nil {
		commands[0].Stdin = p.in
	}
	commands[len(commands)-1].Stdout = &out
	if p.out != nil {
		commands[len(commands)-1].Stdout = p.out
	}
	began := time.Now()
	started, err := start(commands)
	ends := make(chan ended, len(started))
	for i, cmd := range started {
		go func() {
			err := cmd.Wait()
			if errors.Is(err, exec.ErrWaitDelay) {
				err = nil
			}
			cmd.Stderr.(*lines).end()
			for j := range tells[i+1:] {
				tells[i+1+j].ahead.Add(-1)
			}
			ends <- ended{i, pipe[i], err, time.Now(), held[i], fatal[i]}
		}()
	}
	signal := func(s syscall.Signal) {
		if len(started) > 0 {
			_ = syscall.Kill(-started[0].Process.Pid, s) // all may have ended
		}
	}
	stop := func() <-chan time.Time {
		p.stopping.Store(true)
		signal(syscall.SIGTERM)
		return time.After(afterTerm)
	}
	var late, kill <-chan time.Time
	interrupted := ctx.Done()
	if err != nil {
		kill = stop()
	}
	whens := make([]time.Time, len(pipe))
	var failed []ended // in the order in which they ended
	for left := len(started); left > 0; {
		select {
		case e := <-ends:
			whens[e.at] = e.when
			if left--; e.err == nil || !followed(e.err) {
				p.tellAll(e)
			}
			if e.err != nil {
				failed = append(failed, e)
				if len(failed) == 1 {
					late = time.After(afterFailure)
				}
			}
		case <-interrupted:
			interrupted, kill = nil, stop()
		case <-late:
			kill = stop()
		case <-kill:
			signal(syscall.SIGKILL)
		}
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil && len(failed) > 0 {
		first := cause(failed)
		if followed(first.err) {
			p.tellAll(first)
		}
		err = failure(first)
	}
	if err != nil {
		signal(syscall.SIGKILL) // what a command that was killed had started
	}
	if err == nil {
		p.spend(pipe, commands, tells, began, whens)
	}
	return out.Bytes(), err
}

// start starts commands, each writing to the next. It returns those that it could start.
func start(commands []*exec.Cmd) (started []*exec.Cmd, err error) {
	for i, cmd := range commands {
		var r, w *os.File
		if i < len(commands)-1 {
			if r, w, err = os.Pipe(); err != nil {
				return started, err
			}
			cmd.Stdout, commands[i+1].Stdin = w, r
		}
		cmd.SysProcAttr.Setpgid = true // a terminal's Ctrl-C is for the driver
		if i > 0 {
			cmd.SysProcAttr.Pgid = started[0].Process.Pid
		}
		err = cmd.Start()
		if in, ok := cmd.Stdin.(*os.File); ok && i > 0 {
			in.Close()
		}
		if w != nil {
			w.Close()
		}
		if err != nil {
			if r != nil {
				r.Close()
			}
			return started, err
		}
		started = append(started, cmd)
	}
	return started, nil
}

func (p *processes) tell(command, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopping.Load() {
		p.said(command, line)
	}
}

// tellAll passes on what was held back of a command's words.
func (p *processes) tellAll(e ended) {
	for _, line := range e.held {
		p.tell(e.words[0], line)
	}
}

// cause is the command that failed first by itself. The others fail because their input ends
// early or nobody reads their output: what they say of that helps nobody, and is not told.
// If all do, it is the first of the pipe whose input ended early.
func cause(failed []ended) ended {
	first := failed[0]
	for _, e := range failed {
		if !followed(e.err) {
			return e
		}
		if e.at < first.at && len(e.held) > 0 {
			first = e
		}
	}
	return first
}

// followed reports whether a command may have failed only because another did.
func followed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	return exit.ExitCode() == fault.Upstream.ExitCode() || exit.ExitCode() == 128+int(syscall.SIGPIPE) ||
		status.Signaled() && status.Signal() == syscall.SIGPIPE
}

// classes of exit codes.
var classes = []fault.Class{fault.Usage, fault.Corrupt, fault.Upstream, fault.Busy, fault.No, fault.Program, fault.Superseded, fault.Interrupted}

// runtimeFatal begins the line with which the Go runtime ends a process that it cannot keep, such as one that the system gives no memory. Its
// exit code is 2, which is none of ours then.
const runtimeFatal = "fatal error: "

func failure(e ended) error {
	var exit *exec.ExitError
	if !errors.As(e.err, &exit) {
		return fmt.Errorf("%s: %w", e.words[0], e.err)
	}
	if e.fatal != "" && exit.ExitCode() == fault.Usage.ExitCode() {
		return &fault.Error{Found: fmt.Sprintf("%s was ended by the Go runtime: %s", verb(e.words), strings.TrimPrefix(e.fatal, runtimeFatal)), Err: e.err,
			Hint: "it had no memory or no threads: \"ulimit -a\" shows the limits; raise them (-v by 2 GB), and run the same command again"}
	}
	f := &fault.Error{Found: fmt.Sprintf("%s ended with exit code %d", verb(e.words), exit.ExitCode()), Err: e.err}
	if status, _ := exit.Sys().(syscall.WaitStatus); status.Signaled() {
		f.Found = fmt.Sprintf("%s was killed (signal %d, %s)", verb(e.words), status.Signal(), status.Signal())
		return f
	}
	for _, c := range classes {
		if c.ExitCode() == exit.ExitCode() {
			f.Class = c
		}
	}
	return f
}

// verb is a command with its verb, if it has one.
func verb(words []string) string {
	if len(words) > 1 && words[1] != "" && strings.Trim(words[1], "abcdefghijklmnopqrstuvwxyz") == "" {
		return words[0] + " " + words[1]
	}
	return words[0]
}

// lines gives each line that is written to it to a function.
type lines struct {
	emit func(line string)
	mu   sync.Mutex // end may come while a write goes on
	rest []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		switch {
		case i >= 0:
			l.emit(string(l.rest[:i]))
			l.rest = l.rest[i+1:]
		case len(l.rest) > longestLine:
			l.emit(string(l.rest))
			l.rest = nil
		default:
			l.rest = bytes.Clone(l.rest) // the start of the buffer goes
			return len(b), nil
		}
	}
}

// end gives the last line, which may lack its end.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.emit(string(l.rest))
		l.rest = nil
	}
}
