package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/setup"
)

type setCmd struct {
	Crawl    string   `arg:"" help:"The crawl folder."`
	Settings []string `predictor:"setting" arg:"" optional:"" name:"key=value" help:"Settings; KEY= takes one back, KEY alone prints it."`
}

// Help is part of --help.
func (*setCmd) Help() string {
	return `Several settings are changed together or not at all. They stand in crawl.toml,
where each is explained, and count from the next round, also while a crawl runs.
Without settings, those that crawl.toml has are listed.

Examples:
  mcrawl set crawl fetch.contact=me@example.org politeness.min_delay=2s
  mcrawl set crawl network.allow_net=10.1.0.0/16,10.2.0.0/16
  mcrawl set crawl fetch.timeout=       # as if it had not been set
  mcrawl set crawl`
}

// Unconfigured: it corrects what other commands refuse.
func (*setCmd) Unconfigured() {}

func (c *setCmd) Run(ctx context.Context, std *cli.Std) error {
	folder, err := setup.Open(c.Crawl, crawl.Options{LockWait: setup.LockWait})
	if err != nil {
		return err
	}
	values := 0
	for _, s := range c.Settings {
		if strings.Contains(s, "=") {
			values++
		}
	}
	switch values {
	case 0:
		return c.printSettings(std, folder)
	case len(c.Settings):
		return c.setPairs(ctx, std, folder)
	}
	return &fault.Error{Class: fault.Usage, Found: "settings with values, and settings to print", Want: "KEY=VALUE for all, or KEY for all"}
}

func (c *setCmd) setPairs(ctx context.Context, std *cli.Std, folder *crawl.Crawl) error {
	pairs, err := config.ParsePairs(c.Settings)
	if err != nil {
		return err
	}
	changes, err := setup.Set(ctx, folder, pairs)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		std.Warn("nothing to change: %s says so already; files that it names are read anew for each round", config.Name)
	}
	for _, prefix := range []string{"politeness.", "frontier.", "resolve.", "render."} {
		if !slices.ContainsFunc(changes, func(s setup.Change) bool { return strings.HasPrefix(s.Key, prefix) }) {
			continue
		}
		conf, err := config.Load(filepath.Join(folder.Dir(), config.Name))
		if err != nil {
			std.Warn("still to be corrected: %v", err)
			break
		}
		for _, note := range setup.Notes(conf, prefix) {
			std.Warn("note: %s", note)
		}
	}
	for _, s := range changes {
		if _, err := fmt.Fprintf(std.Out, "%s: %s -> %s\n", s.Key, orNone(s.Was), orNone(s.Is)); err != nil {
			return err
		}
		if slices.Contains([]string{"extract.module_state", "fetch.exec_state", "stages.links", "stages.new", "render.pages", "render.filter"}, s.Key) && s.Is != "" {
			std.Warn("before the next round, make the stores that are missing: %s", fault.Quote("mckpt", "init", c.Crawl))
		}
	}
	return nil
}

func orNone(value string) string {
	if value == "" {
		return "not set"
	}
	return cli.Printable(value)
}

// printSettings prints the settings of crawl.toml as KEY=VALUE, or the values of the settings that the user names.
func (c *setCmd) printSettings(std *cli.Std, folder *crawl.Crawl) error {
	conf, err := config.Load(filepath.Join(folder.Dir(), config.Name))
	if err != nil {
		return err
	}
	for i, name := range c.Settings {
		k, err := config.KeyOf(name)
		if f := (*fault.Error)(nil); errors.As(err, &f) && i == 1 && len(c.Settings) == 2 {
			f.Hint += "; a value stands behind an equals sign: " + fault.Quote("mcrawl", "set", c.Crawl, c.Settings[0]+"="+name)
		}
		if err != nil {
			return err
		}
		if text := conf.Text(k); text == "" {
			std.Warn("%s is not set; default or example: %s; %s", name, k.Like, k.Doc)
		} else if _, err := fmt.Fprintln(std.Out, text); err != nil {
			return err
		}
	}
	if len(c.Settings) > 0 {
		return nil
	}
	for _, k := range config.Keys() {
		if text := conf.Text(k); text != "" {
			if _, err := fmt.Fprintf(std.Out, "%s=%s\n", k.Name, text); err != nil {
				return err
			}
		}
	}
	return nil
}
