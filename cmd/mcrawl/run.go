package main

import (
	"context"
	"time"

	"mercator/pkg/cli"
	"mercator/pkg/driver"
)

// howFar bounds a run.
type howFar struct {
	Rounds    *uint64        `range:"1" group:"How far:" placeholder:"N" help:"Stop after round N (default: rounds in crawl.toml)."`
	For       *time.Duration `range:">0s" group:"How far:" placeholder:"TIME" help:"Begin no round after this time, such as 2h. A run ends earlier if no URL is due before then."`
	UntilSize *cli.Size      `range:"1" group:"How far:" placeholder:"SIZE" help:"Begin no round when WARC files have SIZE, such as 10G."`
	Print     bool           `help:"Print the shell lines of the next round only."`
}

type runCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	howFar
	On         string `group:"Where:" placeholder:"ENGINE" help:"Of a crawl of several shards: run their tasks on local, slurm or spark (default: engine.on in crawl.toml)."`
	EngineArgs string `group:"Where:" placeholder:"OPTIONS" help:"Options of sbatch or pyspark, such as --engine-args=\"--partition=internet --time=60\" (default: engine.args)."`
}

// Help is part of --help.
func (*runCmd) Help() string {
	return `Settings are those of crawl.toml. Whatever is killed, the same command goes on.

Examples:
  mcrawl run crawl
  mcrawl run crawl --for 2h --until-size 10G
  mcrawl run crawl --print | sh    # one round, without mcrawl
  mcrawl run crawl --on slurm --engine-args=--partition=internet`
}

func (c *runCmd) Run(ctx context.Context, std *cli.Std) error {
	opt := driverOptions(std)
	opt.Engine = driver.EngineOptions{On: c.On, Args: c.EngineArgs}
	return c.runCrawl(ctx, opt, std, c.Crawl)
}

// runCrawl goes on with the crawl in dir, or prints how.
func (h *howFar) runCrawl(ctx context.Context, opt driver.Options, std *cli.Std, dir string) error {
	if h.Rounds != nil {
		opt.Rounds = *h.Rounds
	}
	if h.UntilSize != nil {
		opt.UntilSize = int64(*h.UntilSize)
	}
	if h.For != nil {
		opt.For = *h.For
	}
	d, err := driver.Open(dir, opt)
	if err != nil {
		return err
	}
	if h.Print {
		return d.Print(std.Out)
	}
	hint := d.AtOnce()
	std.AtOnce.Store(&hint)
	return d.Run(ctx)
}
