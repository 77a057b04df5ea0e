package driver

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

// shellName is what a person types for a command: its name, or its file if PATH has another one.
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

// Bounds of stopping. The driver ends without commands that need longer after an interrupt.
const (
	afterTerm   = 2 * time.Second
	afterSignal = 300 * time.Millisecond // then a message says what a second signal does
)

// ownCommands are the commands that run in this process, each in goroutines of its own.
var ownCommands = map[string]cli.Command{
	"mfrontier": mfrontier.Command, "mresolve": mresolve.Command, "mfetch": mfetch.Command, "mfpset": mfpset.Command,
	"mfocus": mfocus.Command, "mextract": mextract.Command, "murlset": murlset.Command, "mckpt": mckpt.Command,
}

// CommandsVariable is the environment variable that names a folder of programs. A program with the name of a command runs in its place, as
// a process: with the folder of our own commands all stages are processes.
const CommandsVariable = "MERCATOR_COMMANDS"

// command is what runs a command of a pipe.
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

// runner runs pipes, one at a time.
type runner struct {
	said     func(line string)       // gets each line of a warning, one at a time
	failed   func(line string)       // gets each line of an error; nil: said gets it
	fetching func(p *fetch.Progress) // gets the progress of mfetch; nil: nobody does
	waits    func(w cli.Wait)        // gets what a command waits for; nil: said gets it
	mu       sync.Mutex              // guards said and failed

	spent []stats.Spent // times of the commands of successful pipes, until takeTimes
}

// endedCommand is a command of a pipe that has ended.
type endedCommand struct {
	at    int // place in the pipe; -1: the function that feeds the first command
	words []string
	err   *cli.Failed
	when  time.Time
}

// run runs a pipe and returns what its last command wrote. An error tells which command failed
// first, and has the class of its exit code.
func (p *runner) run(ctx context.Context, pipe Pipe) ([]byte, error) { return p.runFed(ctx, nil, pipe) }

// runFed runs a pipe that reads what feed writes; feed may be nil.
func (p *runner) runFed(ctx context.Context, feed func(ctx context.Context, to *cli.MemoryPipe) error, pipe Pipe) ([]byte, error) {
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
					p.printLine(p.said, line)
				}
			},
			Wait: func(w cli.Wait) {
				reports[i].beginWait(time.Now())
				p.reportWait(words[0], w)
			}}
		if words[0] == "mfetch" || words[0] == "mresolve" {
			call.Report = func(value any) {
				reports[i].keepReport(value, time.Now())
				if f, is := value.(fetch.Progress); is && p.fetching != nil {
					p.fetching(&f)
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
			interrupted, leave = nil, time.After(afterTerm)
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
			p.printLine(p.failed, line)
		}
		return nil, pipeError(first)
	}
	p.keepTimes(pipe, reports, began, endedAt)
	return out.Bytes(), nil
}

// errOther ends the commands of a pipe in which one failed.
var errOther = &fault.Error{Class: fault.Upstream, Found: "another command of the pipe failed"}

func (p *runner) printLine(whom func(line string), line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if whom == nil {
		whom = p.said
	}
	whom(line)
}

func (p *runner) reportWait(command string, w cli.Wait) {
	if p.waits == nil {
		p.printLine(p.said, command+": "+w.Text)
		return
	}
	p.waits(w)
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
		cmd.WaitDelay = afterTerm
		cmd.SysProcAttr = coprocess.EndWithUs()
		cmd.SysProcAttr.Setpgid = true // a terminal's Ctrl-C is for the driver
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
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has started
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

// runCommand runs a command of ours that is no part of a round, such as mweb. said gets each line of its standard error.
func runCommand(ctx context.Context, words []string, in io.Reader, out io.Writer, said func(line string)) error {
	path, err := findProgram(words[0])
	if err != nil {
		return err
	}
	if failed := runProcess(ctx, path, cli.Call{Args: words[1:], In: in, Out: out, Warn: said}); failed != nil {
		return failed.Err
	}
	return nil
}
