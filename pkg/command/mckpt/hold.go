package mckpt

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/crawl"
)

type holdCmd struct {
	Crawl   string   `arg:"" help:"The crawl folder."`
	Command []string `arg:"" passthrough:"" help:"The program and its arguments."`
	lockFlag
}

// Help is part of --help.
func (*holdCmd) Help() string {
	return `Examples:
  mckpt hold crawl make -f my-crawl.mk`
}

func (c *holdCmd) Run(ctx context.Context, std *cli.Std) error {
	folder, err := crawl.Open(c.Crawl, crawl.Options{})
	if err != nil {
		return err
	}
	if c.Command[0] == "--" { // as people separate a program from what stands before it
		c.Command = c.Command[1:]
	}
	if len(c.Command) == 0 {
		return &fault.Error{Class: fault.Usage, Found: "no program behind --", Want: "one", Hint: "see: mckpt hold --help"}
	}
	program, err := exec.LookPath(c.Command[0])
	if err != nil {
		return &fault.Error{Class: fault.Usage, Err: err}
	}
	lock, err := folder.Hold(ctx, strings.Join(c.Command, " "), 0)
	if errors.Is(err, fault.Busy) && c.LockWait > 0 {
		std.Warn("%v; waiting up to %v", err, c.LockWait)
		lock, err = folder.Hold(ctx, strings.Join(c.Command, " "), c.LockWait)
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", program, become(program, c.Command, lock))
}
