package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"mercator/pkg/cli"
	"mercator/pkg/driver"
	"mercator/pkg/history"
)

type refusedCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	Rule  string `placeholder:"NAME" help:"Only URLs that this rule refused."`
	Count bool   `help:"Print how many URLs each rule refused, and nothing else."`
	JSON  bool   `name:"json" help:"Print JSON lines."`
}

// Help is part of --help.
func (*refusedCmd) Help() string {
	return `Each URL that was found and not followed stands there once: the URL, the rule of
the filter or another reason, and the first page with a link to it, with tabs
between. What was fetched before a rule refused it is not among them.

Examples:
  mcrawl refused crawl --count
  mcrawl refused crawl --rule docs`
}

func (c *refusedCmd) Run(std *cli.Std) error {
	d, err := driver.Open(c.Crawl, options(std))
	if err != nil {
		return err
	}
	if c.Rule != "" {
		if err := d.CheckRule(c.Rule); err != nil {
			return err
		}
	}
	to := std.Out
	if !c.JSON {
		to = std.Screen()
	}
	return printRefused(d, c, bufio.NewWriter(to))
}

// printRefused prints what was refused, or how much of it.
func printRefused(d *driver.Driver, c *refusedCmd, out *bufio.Writer) error {
	counts := map[string]uint64{}
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	err := d.Refusals(c.Rule, func(r *history.Refusal) error {
		switch {
		case c.Count:
			counts[r.Rule]++
			return nil
		case c.JSON:
			return lines.Encode(r)
		}
		_, err := fmt.Fprintf(out, "%s\t%s\t%s\n", cli.Printable(r.URL), r.Rule, cli.Printable(r.Found))
		return err
	})
	if err != nil {
		return err
	}
	for _, rule := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) }) {
		if c.JSON {
			err = lines.Encode(struct {
				Rule string `json:"rule"`
				URLs uint64 `json:"urls"`
			}{rule, counts[rule]})
		} else {
			_, err = fmt.Fprintf(out, "%9d %s\n", counts[rule], rule)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}
