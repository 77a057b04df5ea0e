package main

import (
	"context"
	"encoding/json"
	"path/filepath"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/cli"
	"mercator/pkg/driver/tell"
	"mercator/pkg/folder/shard"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
	"mercator/pkg/urlset"
)

type measureCmd struct {
	Crawl string   `arg:"" help:"The folder of a crawl of policy walk."`
	Sets  []string `arg:"" help:"Crawl folders, stores of URLs, *.fps, or lists of URLs, one a line."`
	Skip  float64  `default:"0.5" range:"0 <1" placeholder:"0.5" help:"Leave out this part of the rounds, at the beginning."`
	JSON  bool     `name:"json" help:"Print JSON."`
}

// Help is part of --help.
func (*measureCmd) Help() string {
	return `Estimates from a random walk which share of a web each set of URLs holds: by quality
(a document counts as much as its PageRank) and by size (each counts the same). The
range has 95 % of resampled walks. A document is a reply with status 200 to 299.

Examples:
  mcrawl new walk --seeds seeds.txt --contact you@example.org --policy walk
  mcrawl run walk --rounds 100
  mcrawl measure walk tuesday index.fps competitor.list
  mcrawl measure walk tuesday/urls --json | jq .sets[0].size.share`
}

func (c *measureCmd) Run(ctx context.Context, std *cli.Std) error {
	d, err := tell.Open(c.Crawl, std.Now, std.Warn)
	if err != nil {
		return err
	}
	var in []*fpset.Input
	var sets []merge.Source
	defer func() { fpset.CloseInputs(in) }()
	for _, name := range c.Sets {
		one, err := openURLs(d, std, name, std.MemoryLimit()/4/int64(len(c.Sets)))
		if err != nil {
			return err
		}
		in = append(in, one...)
		parts, err := fpset.Sources(one)
		if err != nil {
			return err
		}
		sets = append(sets, merge.UnionOf(parts...))
	}
	e, err := d.Measure(ctx, c.Skip, c.Sets, sets)
	if err != nil {
		return err
	}
	if !c.JSON {
		return tell.PrintEstimate(std.Screen(), e)
	}
	out := json.NewEncoder(std.Out)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(e)
}

// setsOf returns the sets of a path: one, or one in each shard of the crawl.
func setsOf(name string) ([]string, error) {
	if !store.IsCrawl(name, store.Options{}) {
		return []string{name}, nil
	}
	now, err := store.ReadCurrent(durable.OS, name)
	if err != nil || now.Map == 0 {
		return []string{name}, err
	}
	m, err := shard.ReadVersion(durable.OS, name, now.Map)
	if err != nil {
		return nil, err
	}
	var all []string
	for n := range m.Shards {
		all = append(all, filepath.Join(name, shard.Name(n), urlset.Kind))
	}
	return all, nil
}

// openURLs opens a set of URL keys, or sorts the keys of a list of URLs, which are made canonical by the crawl's settings.
func openURLs(d *tell.Crawl, std *cli.Std, name string, mem int64) ([]*fpset.Input, error) {
	if filepath.Ext(name) == ".fps" || store.IsCrawl(name, store.Options{}) || fpset.IsSet(name) && filepath.Ext(name) != ".txt" {
		names, err := setsOf(name)
		if err != nil {
			return nil, err
		}
		in, err := fpset.OpenInputs(names, false, fingerprint.Polynomial, std.In, mem)
		if err == nil && in[0].Kind != "" {
			err = in[0].CheckKind(urlset.Kind)
		}
		return in, err
	}
	form, err := d.Form()
	if err != nil {
		return nil, err
	}
	list, err := cli.OpenText(std, []string{name}, false, func(line string, row *record.URL) error { return urlset.ParseLine(line, form, row) })
	if err != nil {
		return nil, err
	}
	in, err := fpset.SortInput(name, merge.KeysOf(func() (uint64, error) {
		var row record.URL
		err := list.Read(&row)
		return form.URLKey(row.Host, row.URL), err
	}), fingerprint.Polynomial, mem)
	if err != nil {
		return nil, err
	}
	if in.Count == 0 {
		err = &fault.Error{Class: fault.Corrupt, File: name, Found: "no URL", Want: "one a line"}
	}
	return []*fpset.Input{in}, err
}
