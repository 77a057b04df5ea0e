package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/driver/setup"
	"mercator/pkg/render"
)

type siteCmd struct {
	URLs   []string `arg:"" name:"url" help:"Where to begin."`
	Into   string   `placeholder:"FOLDER" help:"The crawl folder (default: name of the first host)."`
	Domain bool     `xor:"scope" help:"Stay on the domains of the URLs, not on their hosts."`
	Prefix bool     `xor:"scope" help:"Stay below the folders of the URLs."`

	Requisites bool `default:"true" negatable:"" help:"Fetch parts of pages, such as pictures, anywhere."`

	Render bool `help:"Run the scripts of empty pages (needs Chromium)."`

	HostConnections int `placeholder:"N" help:"Connections at a time to these hosts of yours."`
	settings
	howFar
}

// Help is part of --help.
func (*siteCmd) Help() string {
	return `The crawl stays on the hosts of the URLs, and leaves out what looks like a trap. Parts
of pages come from any host. Run it again to go on. Which links it follows is in
the folder's filter.txt. To leave out a section, put a line at its top:

  deny blog: path /blog/

A URL without a scheme is taken as https, or http where https fails.

Examples:
  mcrawl site https://www.example.org/ --contact you@example.org
  mcrawl site www.example.org/docs/ --prefix --into docs --for 2h`
}

func (c *siteCmd) Run(ctx context.Context, std *cli.Std) error {
	pairs, err := c.pairs()
	if err != nil {
		return err
	}
	if err := refuseKey("extract.filter", string(std.Common.Config), pairs, "none: site writes its own rules to "+setup.FilterFile, "edit that, or make the crawl with mcrawl new"); err != nil {
		return err
	}
	if c.Render {
		pairs = append(pairs, config.Pair{Key: "render.pages", Value: render.Auto})
	}
	sheets := ""
	if c.HostConnections != 0 {
		if sheets, err = setup.HostConnections(c.URLs, c.HostConnections); err != nil {
			return err
		}
		if err := refuseKey("sheets", string(std.Common.Config), pairs, "none beside --host-connections, which writes "+setup.SheetsFile, "put the connections into that file: politeness.connections"); err != nil {
			return err
		}
		pairs = append(pairs, config.Pair{Key: "sheets", Value: setup.SheetsFile})
	}
	scope := setup.Hosts
	switch {
	case c.Domain:
		scope = setup.Domains
	case c.Prefix:
		scope = setup.Prefixes
	}
	folder, rules, err := setup.Site(c.URLs, scope, c.Requisites)
	if err != nil {
		return err
	}
	var others []string
	for _, other := range []setup.Scope{setup.Hosts, setup.Domains, setup.Prefixes} {
		for _, parts := range []bool{true, false} {
			_, would, err := setup.Site(c.URLs, other, parts)
			if err != nil {
				return err
			}
			others = append(others, would)
		}
	}
	if c.Into != "" {
		folder = c.Into
	}
	spec := setup.Spec{URLs: c.URLs, Scoped: scope != setup.Hosts, Runs: true, Named: true, Config: string(std.Common.Config), Files: map[string]string{setup.FilterFile: rules}, Others: others,
		Preset: slices.Clone(setup.SitePreset), Set: append(pairs, config.Pair{Key: "extract.filter", Value: setup.FilterFile})}
	if sheets != "" {
		spec.Files[setup.SheetsFile] = sheets
	}
	if bare := setup.BareSeeds(c.URLs); len(bare) > 0 {
		list, err := json.Marshal(bare) // TOML, too
		if err != nil {
			return err
		}
		spec.Preset = append(spec.Preset, config.Pair{Key: "bare_seeds", Value: string(list)}, setup.BarePreset)
	}
	if c.Print {
		if err := setup.PrintMake(std.Out, folder, spec, std.Warn); err != nil {
			return err
		}
		_, err = fmt.Fprintln(std.Out, fault.Quote("mcrawl", "run", folder)) // --print shows the rounds of this run
		return err
	}
	if _, err := setup.Make(ctx, folder, spec, std.Warn); err != nil {
		return err
	}
	return c.runCrawl(ctx, driverOptions(std), std, folder)
}

// refuseKey refuses a setting that names a file, if site writes that file itself.
func refuseKey(key, file string, pairs []config.Pair, want, hint string) error {
	refused := &fault.Error{Class: fault.Usage, File: file, Found: "the setting " + key, Want: want, Hint: hint}
	if file != "" {
		conf, err := config.Load(file)
		if err != nil {
			return err
		}
		values, err := conf.Setting(key)
		if err != nil {
			return err
		}
		if len(values) > 0 {
			return refused
		}
	}
	if slices.ContainsFunc(pairs, func(p config.Pair) bool { return p.Key == key }) {
		refused.File = ""
		return refused
	}
	return nil
}
