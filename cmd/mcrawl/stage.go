package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/driver"
)

type stageCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	Stage string `arg:"" help:"Its name, as \"mcrawl stages\" shows."`
	Round string `required:"" placeholder:"NAME" help:"The round, such as r12."`
	Shard int    `default:"0" placeholder:"N" help:"In a crawl of several shards: this one, from 0."`
	Print bool   `help:"Print the commands, and run none."`
}

// Help is part of --help.
func (*stageCmd) Help() string {
	return `A round runs stage by stage, by a batch system or by hand. The command ends with 0 only
when the stage is done. Whatever is killed, the same command goes on; a stage that is
done does nothing.

Example:
  mcrawl stage crawl fetch --round r12`
}

func (c *stageCmd) Run(ctx context.Context, std *cli.Std) error {
	d, err := driver.Open(c.Crawl, driverOptions(std))
	if errors.Is(err, fs.ErrNotExist) {
		node, _ := os.Hostname() // it is part of a message
		return &fault.Error{Class: fault.Usage, File: c.Crawl, Found: "no crawl folder on " + node, Want: "the folder that all machines share", Err: err}
	}
	if err != nil {
		return err
	}
	if c.Print {
		return d.PrintStage(std.Out, c.Stage, c.Round, c.Shard)
	}
	return d.Stage(ctx, c.Stage, c.Round, c.Shard)
}

type stagesCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	Round string `placeholder:"NAME" help:"A round (default: the one that comes next, or is open)."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// Help is part of --help.
func (*stagesCmd) Help() string {
	return `A stage is done, ready to be run, or waits for the one before it.

Example:
  mcrawl stages crawl`
}

func (c *stagesCmd) Run(ctx context.Context, std *cli.Std) error {
	d, err := driver.Open(c.Crawl, driverOptions(std))
	if err != nil {
		return err
	}
	r, err := d.Stages(c.Round)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(std.Out).Encode(r)
	}
	return r.Print(std.Screen(), c.Crawl)
}
