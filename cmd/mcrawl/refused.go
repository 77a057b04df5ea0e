package main

import (
	"context"
	"fmt"
	"strconv"

	"mercator/pkg/cli"
	"mercator/pkg/driver/tell"
	"mercator/pkg/view/history"
	"mercator/pkg/view/stats"
)

type refusedCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	Rule  string `placeholder:"NAME" help:"Only URLs that this rule refused."`
	Count bool   `help:"Print how many URLs each rule refused, and nothing else."`
	asRows
}

// Help is part of --help.
func (*refusedCmd) Help() string {
	return `Each URL that was found and not followed stands there once: the URL, the rule of
the filter or another reason, and the first page with a link to it, with tabs
between. It leaves out what was fetched before a rule refused it, and what robots.txt
forbids (the last example lists that). Limits (too-deep, host-full) and stages.new
(filtered) count as rules; a|b means that it was one of the two. The third example
fetches such URLs in spite of the limits.

Examples:
  mcrawl refused crawl --count
  mcrawl refused crawl --rule docs
  mcrawl refused crawl --rule too-deep | cut -f 1 | mcrawl again crawl -f -
  mcat --format tsv --columns outcome,url,via crawl | grep ^robots-denied`
}

func (c *refusedCmd) Run(ctx context.Context, std *cli.Std) error {
	d, err := tell.Open(c.Crawl, std.Now, std.Warn)
	if err != nil {
		return err
	}
	if err := d.CheckRule(c.Rule); c.Rule != "" && err != nil {
		return err
	}
	names := []string{"url", "rule", "found_on"}
	if c.Count {
		names = []string{"rule", "urls"}
	}
	out, err := c.openRows(std, names...)
	if err != nil {
		return err
	}
	counts := map[string]uint64{}
	err = d.Refusals(ctx, c.Rule, func(r *history.Refusal) error {
		if c.Count {
			counts[r.Rule]++
			return nil
		}
		return out.printRow(r, r.URL, r.Rule, r.Found)
	})
	if err != nil {
		return err
	}
	for _, n := range stats.Counts(counts) {
		cells := []string{n.Reason, strconv.FormatUint(n.N, 10)}
		if !c.CSV {
			cells = []string{fmt.Sprintf("%9d %s", n.N, n.Reason)}
		}
		err := out.printRow(struct {
			Rule string `json:"rule"`
			URLs uint64 `json:"urls"`
		}{n.Reason, n.N}, cells...)
		if err != nil {
			return err
		}
	}
	return out.flush()
}
