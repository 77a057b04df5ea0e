package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/driver"
	"mercator/pkg/driver/tell"
)

type statusCmd struct {
	Crawl string        `arg:"" help:"The crawl folder."`
	Watch bool          `help:"Show it again each --every, until Ctrl-C or the end of the run."`
	Every time.Duration `default:"2s" range:">0s" help:"With --watch: time between two."`
	JSON  bool          `name:"json" help:"Print JSON."`
	Line  bool          `help:"Print one line, as a run does."`
}

// Help is part of --help.
func (*statusCmd) Help() string {
	return `Rounds, URLs by outcome, what was left out and why, what waits, and the next command to
type; also while the crawl runs. The time to go is an estimate for the URLs known: those
that each host has left, at the pace of that host. Links yet to be found and further
retries are not in it.

Examples:
  mcrawl status crawl
  mcrawl status crawl --watch
  mcrawl status crawl --json | jq .outcomes`
}

// Unconfigured says that it shows the state where crawl.toml cannot be read, too.
func (*statusCmd) Unconfigured() {}

func (c *statusCmd) Run(ctx context.Context, std *cli.Std) error {
	for {
		s, err := tell.ReadStatus(ctx, c.Crawl, std.Now())
		if err == nil {
			s.Stages = driver.ShardStages(c.Crawl, std.Now())
			err = c.printStatus(std, s)
		}
		if err == nil {
			c.warnOfDamage(std, s)
		}
		if err != nil || !c.Watch || s.Driver == "" {
			return err
		}
		select {
		case <-time.After(max(c.Every, 100*time.Millisecond)):
		case <-ctx.Done(): // the way to end a watch
			return nil
		}
	}
}

// warnOfDamage warns of damage that prevents a run.
func (c *statusCmd) warnOfDamage(std *cli.Std, s *tell.Status) {
	warn := func(err error, after string) {
		std.Warn("%v%s", err, after)
		if hint := fault.HintOf(err); hint != "" {
			std.Warn("hint: %s", hint)
		}
	}
	for _, err := range s.Lost {
		warn(err, "")
	}
	if s.Config != nil {
		warn(s.Config, ": no run begins before that is mended")
	}
}

func (c *statusCmd) printStatus(std *cli.Std, s *tell.Status) error {
	switch {
	case c.JSON:
		e := json.NewEncoder(std.Out)
		if !c.Watch {
			e.SetIndent("", "  ")
		}
		return e.Encode(s)
	case c.Line:
		_, err := fmt.Fprintln(std.Out, s.Line())
		return err
	}
	if c.Watch && std.Width() > 0 {
		fmt.Fprint(std.Out, "\x1b[H\x1b[2J")
	}
	return s.Print(std.Screen())
}
