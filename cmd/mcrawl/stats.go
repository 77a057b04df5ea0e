package main

import (
	"encoding/json"

	"mercator/pkg/cli"
	"mercator/pkg/driver/tell"
)

type statsCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	Pages bool   `help:"Count pages instead: without a title, description or language, with the same title; the slowest, the largest."`
	JSON  bool   `name:"json" help:"Print all of it as JSON: also the timeline, the growth by checkpoint, and 1,000 hosts."`
}

// Help is part of --help.
func (*statsCmd) Help() string {
	return `Counts the record files of all rounds, also while the crawl runs: outcomes, status codes,
media types, sizes, servers by top-level domain, hosts, duplicates, where the time went,
and how pages changed between visits. --pages reads up to 100,000 HTML documents in the
archive. "mcrawl status" is quick, and says what is left to do.

Examples:
  mcrawl stats crawl
  mcrawl stats crawl --pages
  mcrawl stats crawl --json | jq '.types[:5]'
  mcrawl stats crawl --json | jq -r '.host_table[] | [.host, .bytes] | @tsv'`
}

func (c *statsCmd) Run(std *cli.Std) error {
	d, err := tell.Open(c.Crawl, std.Now, std.Warn)
	if err != nil {
		return err
	}
	e := json.NewEncoder(std.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if c.Pages {
		p, err := d.Pages()
		switch {
		case err != nil:
			return err
		case c.JSON:
			return e.Encode(p)
		}
		return tell.PrintPages(std.Screen(), p)
	}
	s, err := d.Stats()
	switch {
	case err != nil:
		return err
	case c.JSON:
		return e.Encode(s)
	}
	return tell.PrintStats(std.Screen(), s)
}
