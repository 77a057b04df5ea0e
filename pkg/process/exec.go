package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// ExecLimits bound a program that works as a module.
type ExecLimits struct {
	Timeout time.Duration // for one document; 0: 10 s
	Output  int           // bytes of standard output; 0: 64 KiB
}

func (l ExecLimits) timeout() time.Duration {
	if l.Timeout > 0 {
		return l.Timeout
	}
	return 10 * time.Second
}

func (l ExecLimits) output() int {
	if l.Output > 0 {
		return l.Output
	}
	return 64 << 10
}

// Exec is a module that runs a program for each document: the body on standard
// input; URL, checksum, media type and charset in the environment as
// MERCATOR_URL, MERCATOR_URL_KEY, MERCATOR_MIME and MERCATOR_CHARSET; one finding
// for each line of output, "KEY<tab>VALUE", or key "line" where there is no tab.
//
// A program that ends with another status than 0, writes more than it may, or takes
// longer, failed. What it starts is killed with it.
type Exec struct {
	ModuleName string
	Command    string // for sh -c
	Limits     ExecLimits
}

// Name is the module's name.
func (e Exec) Name() string { return e.ModuleName }

// Types are none: a program is told what it sees.
func (e Exec) Types() []string { return nil }

// New returns an instance.
func (e Exec) New() Instance { return e }

var errOutput = errors.New("output too long")

// Process runs the program over one document.
func (e Exec) Process(ctx context.Context, doc *Document, report func(key, value string)) error {
	timeout, stop := context.WithTimeoutCause(ctx, e.Limits.timeout(), fmt.Errorf("no end after %v", e.Limits.timeout()))
	defer stop()
	limited, cancel := context.WithCancelCause(timeout)
	defer cancel(nil)

	cmd := exec.CommandContext(limited, "/bin/sh", "-c", e.Command)
	cmd.Env = append(os.Environ(),
		"MERCATOR_URL="+doc.URL,
		fmt.Sprintf("MERCATOR_URL_KEY=%016x", doc.Key),
		"MERCATOR_MIME="+noNUL(doc.MIME),
		"MERCATOR_CHARSET="+noNUL(doc.Charset))
	cmd.Stdin = bytes.NewReader(doc.Body)
	out := &boundedBuffer{limit: e.Limits.output(), full: func() { cancel(errOutput) }}
	cmd.Stdout = out
	// A group of its own, so that its children end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second

	err := cmd.Run()
	if limited.Err() != nil {
		return context.Cause(limited)
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(out.b.String()) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		if key, value, ok := strings.Cut(line, "\t"); ok {
			report(key, value)
		} else {
			report("line", line)
		}
	}
	return nil
}

func noNUL(s string) string { return strings.ReplaceAll(s, "\x00", "") }

// boundedBuffer keeps what is written up to a limit, and calls full beyond it.
type boundedBuffer struct {
	b     bytes.Buffer
	limit int
	full  func()
}

func (w *boundedBuffer) Write(p []byte) (int, error) {
	if w.b.Len()+len(p) > w.limit {
		w.full()
		return 0, errOutput
	}
	return w.b.Write(p)
}
