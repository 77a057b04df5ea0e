package main

import (
	"context"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/driver/setup"
)

// settings are those that people give a new crawl.
type settings struct {
	Contact string   `group:"Settings:" placeholder:"ADDRESS" help:"E-mail address or URL of the operator, for the User-Agent."`
	Set     []string `predictor:"setting" group:"Settings:" sep:"none" placeholder:"KEY=VALUE" help:"Another setting of crawl.toml, such as fetch.timeout=20s."`
}

func (s *settings) pairs() ([]config.Pair, error) {
	pairs, err := config.ParsePairs(s.Set)
	if s.Contact != "" {
		pairs = append(pairs, config.Pair{Key: "fetch.contact", Value: s.Contact})
	}
	return pairs, err
}

type newCmd struct {
	Crawl  string   `arg:"" help:"Folder to make."`
	Seeds  []string `sep:"none" placeholder:"FILE" help:"Files of URLs to begin with, one a line, or rows of a .csv, .tsv or .jsonl; - is standard input, one a line."`
	Policy string   `predictor:"policy" group:"Settings:" placeholder:"NAME" help:"Order of the frontier; see \"mfrontier policies\"."`
	settings
	Shards *int `range:"1 512" placeholder:"N" help:"Cut the crawl into N shards, at most 512, which run side by side."`
	Print  bool `help:"Print the shell lines that do the same, and make nothing."`
}

// Help is part of --help.
func (*newCmd) Help() string {
	return `All settings are written into crawl.toml, so a run needs no flags. --config gives a
crawl.toml to start from. What fails makes nothing. Links are followed to any host
("mcrawl site" stays on the seeds' own), but those that look like traps (mextract
explain --print-default); --set extract.filter= follows these, too.

Examples:
  mcrawl new crawl --seeds seeds.txt --contact you@example.org
  mcrawl new crawl --seeds seeds.txt --policy opic --set extract.filter=my.rules`
}

func (c *newCmd) Run(ctx context.Context, std *cli.Std) error {
	shards := 0
	if c.Shards != nil {
		shards = *c.Shards
	}
	pairs, err := c.pairs()
	if err != nil {
		return err
	}
	if c.Policy != "" {
		pairs = append(pairs, config.Pair{Key: "frontier.policy", Value: c.Policy})
	}
	spec := setup.Spec{Seeds: c.Seeds, In: std.In, Config: string(std.Common.Config), Set: pairs, Shards: shards, Named: true}
	if spec.Config == "" {
		spec.Preset = []config.Pair{{Key: "extract.filter", Value: "default"}}
	}
	if c.Print {
		return setup.PrintMake(std.Out, c.Crawl, spec, std.Warn)
	}
	made, err := setup.Make(ctx, c.Crawl, spec, std.Warn)
	if err != nil {
		return err
	}
	format := "%s is there already; go on: %s"
	if made {
		format = "%s is ready; begin: %s"
	}
	std.Warn(format, c.Crawl, fault.Quote("mcrawl", "run", c.Crawl))
	return nil
}
