package main

import (
	"context"

	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/driver"
)

type tryCmd struct {
	Crawl  string   `arg:"" optional:"" default:"crawl" help:"The crawl folder (default: crawl)."`
	Seed   uint64   `group:"The web:" default:"1" help:"Number that the whole web is drawn from."`
	Hosts  int      `group:"The web:" default:"50" help:"Hosts."`
	Pages  int      `group:"The web:" default:"3000" help:"About this many pages."`
	Policy string   `predictor:"policy" group:"Settings:" placeholder:"NAME" help:"Order of the frontier; see \"mfrontier policies\"."`
	Set    []string `predictor:"setting" group:"Settings:" sep:"none" placeholder:"KEY=VALUE" help:"Another setting of crawl.toml."`
	Rounds uint64   `placeholder:"N" help:"Stop after round N."`
	Print  bool     `help:"Print the shell lines that do the same, and make nothing."`
}

// Help is part of --help.
func (*tryCmd) Help() string {
	return `Serves a small web on loopback, crawls it, and compares what was found with what there
is. After an interruption the same command goes on.

Examples:
  mcrawl try
  mcrawl try other --seed 7 --policy opic`
}

func (c *tryCmd) Run(ctx context.Context, std *cli.Std) error {
	pairs, err := config.ParsePairs(c.Set)
	if err != nil {
		return err
	}
	if c.Policy != "" {
		pairs = append(pairs, config.Pair{Key: "frontier.policy", Value: c.Policy})
	}
	opt := driverOptions(std)
	opt.Rounds = c.Rounds
	return driver.Try(ctx, c.Crawl, driver.Web{Seed: c.Seed, Hosts: c.Hosts, Pages: c.Pages}, pairs, opt, c.Print, std.Out)
}
