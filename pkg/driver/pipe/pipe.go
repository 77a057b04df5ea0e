// Package pipe runs the commands of a round in this process. Each command runs in goroutines of its own, and a pipe in memory connects
// it with the next. The commands make the same files as a pipe of processes.
//
//   - What a command has to say comes as values: errors, reports, what it waits for.
//   - Programs of users, and those in CommandsVariable, are processes. None outlives this process where the system can see to that (Linux).
package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mercator/pkg/base/coprocess"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/command/mckpt"
	"mercator/pkg/command/mextract"
	"mercator/pkg/command/mfetch"
	"mercator/pkg/command/mfocus"
	"mercator/pkg/command/mfpset"
	"mercator/pkg/command/mfrontier"
	"mercator/pkg/command/mresolve"
	"mercator/pkg/command/murlset"
	"mercator/pkg/fetch"
	"mercator/pkg/resolve"
	"mercator/pkg/view/stats"
)

// Pipe is commands with their arguments: each reads what the one before it writes.
type Pipe [][]string

// String is the pipe as a line for a shell.
func (p Pipe) String() string {
	var commands []string
	for _, words := range p {
		commands = append(commands, fault.Quote(append([]string{shellName(words[0])}, words[1:]...)...))
	}
	return strings.Join(commands, " |\n  ")
}

// Path joins names to a path that a command takes as one: it is no flag of a command, nor a verb such as fetch.
func Path(names ...string) string {
	path := filepath.Join(names...)
	if strings.HasPrefix(path, "-") || len(names) > 1 && !strings.Contains(path, "/") {
		path = "./" + path
	}
	return path
}

// findProgram returns the file of one of our commands: beside this program (as it was called, then as it is), else in PATH.
func findProgram(command string) (string, error) {
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

// shellName returns the word that a user would type for a command: its name, or its file if PATH has another one.
func shellName(command string) string {
	path, err := findProgram(command)
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

// AfterTerm is how long commands may take to stop. The process ends without those that need longer after an interrupt.
const AfterTerm = 2 * time.Second

// ownCommands are the commands that run in this process, each in goroutines of its own.
var ownCommands = map[string]cli.Command{
	"mfrontier": mfrontier.Command, "mresolve": mresolve.Command, "mfetch": mfetch.Command, "mfpset": mfpset.Command,
	"mfocus": mfocus.Command, "mextract": mextract.Command, "murlset": murlset.Command, "mckpt": mckpt.Command,
}

// CommandsVariable is the environment variable that names a folder of programs. A program with the name of a command runs in its place, as
// a process: with the folder of our own commands all stages are processes.
const CommandsVariable = "MERCATOR_COMMANDS"

// command returns the function that runs a command of a pipe.
func command(name string) (run func(context.Context, cli.Call) *cli.Failed, err error) {
	if dir := os.Getenv(CommandsVariable); dir != "" {
		path, err := exec.LookPath(filepath.Join(dir, name))
		if err == nil {
			return func(ctx context.Context, c cli.Call) *cli.Failed { return runProcess(ctx, path, c) }, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, &fault.Error{Class: fault.Usage, Place: CommandsVariable, Found: err.Error(), Want: "a folder of programs"}
		}
	}
	own, found := ownCommands[name]
	if name == "mrender" { // what speaks to a browser stays out of this program
		path, err := findProgram(name)
		return func(ctx context.Context, c cli.Call) *cli.Failed { return runProcess(ctx, path, c) }, err
	}
	if !found {
		return nil, fmt.Errorf("%s is no command of a pipe", name)
	}
	return own.Call, nil
}

// Runner runs pipes, one at a time.
type Runner struct {
	Said     func(line string)       // gets each line of a warning, one at a time
	Failed   func(line string)       // gets each line of an error; nil: Said gets it
	Fetching func(p *fetch.Progress) // gets the progress of mfetch; nil: nobody does
	Waits    func(w cli.Wait)        // gets what a command waits for; nil: Said gets it
	mu       sync.Mutex              // held while Said or Failed works

	Spent []stats.Spent // times of the commands of successful pipes, until TakeTimes
}

// endedCommand is a command of a pipe that has ended.
type endedCommand struct {
	at    int // place in the pipe; -1: the function that feeds the first command
	words []string
	err   *cli.Failed
	when  time.Time
}

// Run runs a pipe and returns what its last command wrote. An error tells which command failed
// first, and has the class of its exit code.
func (p *Runner) Run(ctx context.Context, pipe Pipe) ([]byte, error) { return p.RunFed(ctx, nil, pipe) }

// RunFed runs a pipe that reads what feed writes; feed may be nil.
func (p *Runner) RunFed(ctx context.Context, feed func(ctx context.Context, to *cli.MemoryPipe) error, pipe Pipe) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	commands, reports := make([]func(context.Context, cli.Call) *cli.Failed, len(pipe)), make([]commandReports, len(pipe))
	for i, words := range pipe {
		var err error
		if commands[i], err = command(words[0]); err != nil {
			return nil, err
		}
		reports[i].ahead.Store(int32(i))
	}
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var out bytes.Buffer
	left, ends := len(pipe), make(chan endedCommand, len(pipe)+1)
	began, in := time.Now(), (*cli.MemoryPipe)(nil)
	if feed != nil {
		to := cli.NewMemoryPipe(within)
		left, in = left+1, to
		go func() {
			e := endedCommand{at: -1}
			if err := feed(within, to); err != nil {
				e.err = cli.FailedBy(err)
			}
			ends <- e // before the others can see that the pipe has ended
			to.WriterDone()
		}()
	}
	for i, words := range pipe {
		from, to := in, (*cli.MemoryPipe)(nil)
		call := cli.Call{Args: words[1:], Out: &out,
			Warn: func(line string) {
				if within.Err() == nil { // else it is of the end
					p.printLine(p.Said, line)
				}
			},
			Wait: func(w cli.Wait) {
				reports[i].beginWait(time.Now())
				p.reportWait(words[0], w)
			}}
		if words[0] == "mfetch" || words[0] == "mresolve" {
			call.Report = func(value any) {
				reports[i].keepReport(value, time.Now())
				if f, is := value.(fetch.Progress); is && p.Fetching != nil {
					p.Fetching(&f)
				}
			}
		}
		if from != nil {
			call.In = from
		}
		if i < len(pipe)-1 {
			to = cli.NewMemoryPipe(within)
			call.Out = to
		}
		in = to
		go func() {
			err := commands[i](within, call)
			for j := range reports[i+1:] {
				reports[i+1+j].ahead.Add(-1)
			}
			ends <- endedCommand{at: i, words: words, err: err, when: time.Now()}
			if to != nil {
				to.WriterDone()
			}
			if from != nil {
				from.ReaderDone()
			}
		}()
	}
	var leave <-chan time.Time
	interrupted := ctx.Done()
	endedAt := make([]time.Time, len(pipe))
	var failed []endedCommand // in the order in which they ended
	for left > 0 {
		select {
		case e := <-ends:
			left--
			if e.at >= 0 {
				endedAt[e.at] = e.when
			}
			if e.err != nil {
				failed = append(failed, e)
				stop(errOther)
			}
		case <-interrupted:
			interrupted, leave = nil, time.After(AfterTerm)
		case <-leave: // the process ends, and what is not committed with it
			return nil, context.Cause(ctx)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(failed) > 0 {
		first := firstCause(failed)
		if first.at < 0 {
			return nil, first.err.Err
		}
		for _, line := range first.err.Lines {
			p.printLine(p.Failed, line)
		}
		return nil, pipeError(first)
	}
	p.keepTimes(pipe, reports, began, endedAt)
	return out.Bytes(), nil
}

// errOther ends the commands of a pipe in which one failed.
var errOther = &fault.Error{Class: fault.Upstream, Found: "another command of the pipe failed"}

func (p *Runner) printLine(whom func(line string), line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if whom == nil {
		whom = p.Said
	}
	whom(line)
}

func (p *Runner) reportWait(command string, w cli.Wait) {
	if p.Waits == nil {
		p.printLine(p.Said, command+": "+w.Text)
		return
	}
	p.Waits(w)
}

// firstCause returns the command that failed first by itself. The others failed because their input ended
// early or nobody read their output: their errors help nobody, and are not printed.
// If all failed so, it is the first command of the pipe with an input that ended early.
func firstCause(failed []endedCommand) endedCommand {
	first := failed[0]
	for _, e := range failed {
		if !e.err.Followed() {
			return e
		}
		if e.at < first.at && fault.ClassOf(e.err) == fault.Upstream && !errors.Is(e.err, errOther) {
			first = e
		}
	}
	return first
}

func pipeError(e endedCommand) error {
	f := &fault.Error{Class: fault.ClassOf(e.err), Found: fmt.Sprintf("%s ended with exit code %d", verb(e.words), e.err.Code), Err: e.err}
	if e.err.Code == cli.ExitReaderGone {
		f.Found = verb(e.words) + " could not write on: the command after it ended before it had read all"
	} else if exit := (*exec.ExitError)(nil); errors.As(e.err, &exit) {
		if status, _ := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			f.Found = fmt.Sprintf("%s was killed (signal %d, %s)", verb(e.words), status.Signal(), status.Signal())
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

// runProcess runs a program as a Call. The program ends at the latest with this process.
func runProcess(ctx context.Context, path string, c cli.Call) *cli.Failed {
	done, err := make(chan struct{}), error(nil)
	go func() {
		defer close(done)
		// The thread that started a process has to live as long as it: see coprocess.EndWithUs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(ctx, path, c.Args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = AfterTerm
		cmd.SysProcAttr = coprocess.EndWithUs() // a terminal's Ctrl-C is for the driver
		if file, is := c.In.(*os.File); is {
			cmd.Stdin = file
		} else if c.In != nil {
			var to io.WriteCloser
			if to, err = cmd.StdinPipe(); err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(to, c.In) // the program may have read enough
				to.Close()
			}()
		}
		text := &cli.LineWriter{Emit: c.Warn}
		cmd.Stdout, cmd.Stderr = c.Out, text
		err = cmd.Run()
		text.End()
		if cmd.Process != nil {
			_ = coprocess.SignalGroup(cmd.Process, syscall.SIGKILL) // what it has started
		}
	}()
	<-done
	if errors.Is(err, exec.ErrWaitDelay) { // it ended well, and what it had started held its standard error
		err = nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	exit, name := (*exec.ExitError)(nil), filepath.Base(path)
	if !errors.As(err, &exit) {
		failed := cli.FailedBy(err)
		failed.Lines = []string{name + ": " + err.Error()}
		return failed
	}
	code := exit.ExitCode()
	if status, _ := exit.Sys().(syscall.WaitStatus); status.Signaled() && status.Signal() == syscall.SIGPIPE {
		code = cli.ExitReaderGone
	}
	return &cli.Failed{Err: &fault.Error{Class: fault.OfExitCode(code), Found: name + " ended with " + exit.String(), Err: exit}, Code: code}
}

// RunCommand runs a command of ours that is no part of a round, such as mweb. said gets each line of its standard error.
func RunCommand(ctx context.Context, words []string, in io.Reader, out io.Writer, said func(line string)) error {
	path, err := findProgram(words[0])
	if err != nil {
		return err
	}
	if failed := runProcess(ctx, path, cli.Call{Args: words[1:], In: in, Out: out, Warn: said}); failed != nil {
		return failed.Err
	}
	return nil
}

// commandReports are the reports of a command so far.
type commandReports struct {
	ahead atomic.Int32 // commands before it in the pipe that still work

	mu      sync.Mutex    // guards the fields below
	waiting time.Time     // since when the command waits for a due URL; zero: it does not
	then    commandReport // the last report while a command before it worked
	next    commandReport // the first report after then
	last    commandReport // the last report
}

// commandReport is a report of a command.
type commandReport struct {
	value any
	at    time.Time
}

// bound is the time in seconds for which politeness had bound mfetch at a moment between the reports then and next.
func (t *commandReports) bound(began, at time.Time) float64 {
	from, to := t.then.bound(), t.next.bound()
	if t.then.value != nil {
		began = t.then.at
	}
	if gap := t.next.at.Sub(began); gap > 0 {
		return from + (to-from)*min(max(at.Sub(began).Seconds()/gap.Seconds(), 0), 1)
	}
	return from
}

func (h commandReport) bound() float64 {
	p, _ := h.value.(fetch.Progress) // without a report it is 0
	return p.Bound
}

// beginWait is called when the command waits.
func (t *commandReports) beginWait(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting.IsZero() {
		t.waiting = now
	}
}

// keepReport keeps a report.
func (t *commandReports) keepReport(value any, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = commandReport{value, now}
	switch {
	case t.ahead.Load() > 0:
		t.then = t.last
	case t.next.value == nil:
		t.next = t.last
	}
}

// keepTimes keeps the times of a successful pipe's commands, after their end.
func (p *Runner) keepTimes(pipe Pipe, said []commandReports, began time.Time, ends []time.Time) {
	before := began // of the commands before it, the end of the last
	for i, words := range pipe {
		s := stats.Spent{Command: verb(words), Began: began.UTC(), ElapsedS: ends[i].Sub(began).Seconds(), OwnS: max(ends[i].Sub(before).Seconds(), 0)}
		t := &said[i]
		if !t.waiting.IsZero() && words[0] == "mfrontier" {
			s.WaitedS = min(ends[i].Sub(t.waiting).Seconds(), s.OwnS)
		}
		switch last := t.last.value.(type) {
		case fetch.Progress:
			s.WaitedS, s.LookupsS = min(max(last.Bound-t.bound(began, before), 0), s.OwnS), last.Names
		case cli.Counted:
			found, _ := last.Found.(resolve.Stats) // of mresolve
			s.LookupsS = found.LookupsS
		}
		p.Spent = append(p.Spent, s)
		if before.Before(ends[i]) {
			before = ends[i]
		}
	}
}

// TakeTimes returns the times since its last call.
func (p *Runner) TakeTimes() []stats.Spent {
	spent := p.Spent
	p.Spent = nil
	return spent
}
