package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/driver/setup"
)

type focusCmd struct {
	Crawl      string   `arg:"" help:"Folder to make."`
	Query      []string `arg:"" help:"What the crawl is about; a URL is a seed."`
	Seeds      []string `sep:"none" placeholder:"FILE" help:"Files of URLs to begin with, as for mcrawl new."`
	Dictionary string   `group:"Focus:" placeholder:"FILE" help:"WordNet's folder, or a file of words."`
	Match      string   `more:"" group:"Focus:" placeholder:"HOW" help:"How words match the dictionary's: exact, stem, edit, trigram."`
	Database   string   `more:"" group:"Focus:" placeholder:"FILE" help:"Database of words to look in first, and to keep."`
	Topic      []string `more:"" group:"Focus:" placeholder:"NAME" help:"Of the query's senses only this; may be given again."`
	Examples   []string `more:"" group:"Focus:" sep:"none" placeholder:"T=SOURCE" help:"Pages about topic T, for mfocus train."`
	Others     []string `more:"" group:"Focus:" sep:"none" placeholder:"SOURCE" help:"Pages about none of the topics."`
	settings
	howFar
}

// Help is part of --help.
func (*focusCmd) Help() string {
	return `The query becomes topics, a topic for each sense of its words, and these a model.
The crawl fetches first what relevant pages and good hubs link to. "mfocus topics",
"mfocus train", "mfocus distill" and "mfocus urls" show each part.
"mcrawl run" goes on, without seeds and dictionary.

Examples:
  mcrawl focus mice "Mouse" --seeds seeds.txt --contact you@example.org
  mcrawl focus mice mouse https://www.example.org/ --topic mouse.n.01
  mfocus urls mice --status fetched -n 20`
}

func (c *focusCmd) Run(ctx context.Context, std *cli.Std) error {
	pairs, err := c.pairs()
	if err != nil {
		return err
	}
	f := setup.Focus{Queries: c.Query, Dictionary: c.Dictionary, Match: c.Match, Database: c.Database, Topics: c.Topic, Examples: c.Examples, Others: c.Others}
	words, urls, err := f.Words(ctx)
	if err != nil {
		return err
	}
	if len(urls)+len(c.Seeds) == 0 {
		return c.hintResume(&fault.Error{Class: fault.Usage, Found: "no URL to begin with", Want: "--seeds FILE, or a URL among the queries"})
	}
	spec := setup.Spec{URLs: urls, Seeds: c.Seeds, In: std.In, Runs: true, Named: true, Config: string(std.Common.Config), Preset: f.Settings(), Set: pairs}
	if spec.Config == "" {
		spec.Preset = append(spec.Preset, config.Pair{Key: "extract.filter", Value: "default"})
	}
	if c.Print {
		return c.printCommands(std, f, words, urls)
	}
	if spec.Files, err = f.Files(ctx, words, std.Warn); err != nil {
		return c.hintResume(err)
	}
	if err := f.Same(c.Crawl, spec.Files); err != nil {
		return err
	}
	if _, err := setup.Make(ctx, c.Crawl, spec, std.Warn); err != nil {
		return err
	}
	return c.runCrawl(ctx, driverOptions(std), std, c.Crawl)
}

// hintResume adds to an error of a query how to continue a crawl that exists already.
func (c *focusCmd) hintResume(err error) error {
	if f := (*fault.Error)(nil); errors.As(err, &f) && store.IsCrawl(c.Crawl, store.Options{}) {
		f.Hint = strings.TrimPrefix(f.Hint+"; go on with the crawl that is there: "+fault.Quote("mcrawl", "run", c.Crawl), "; ")
	}
	return err
}

// printCommands prints shell lines that do what Run does.
func (c *focusCmd) printCommands(std *cli.Std, f setup.Focus, words, urls []string) (err error) {
	line := []string{"mcrawl", "new", c.Crawl}
	if len(urls) > 0 {
		fmt.Fprintln(std.Out, fault.Quote(append([]string{"printf", `%s\n`}, urls...)...), "> urls.txt &&")
		line = append(line, "--seeds", "urls.txt")
	}
	for _, s := range c.Seeds {
		line = append(line, "--seeds", s)
	}
	if file := string(std.Common.Config); file != "" {
		line = append(line, "--config", file)
	}
	if c.Contact != "" {
		line = append(line, "--contact", c.Contact)
	}
	for _, p := range f.Settings() {
		if p.Key == "focus.model" { // of this folder, not of the new one
			if p.Value, err = filepath.Abs(p.Value); err != nil {
				return err
			}
		}
		line = append(line, "--set", p.Key+"="+p.Value)
	}
	for _, s := range c.Set {
		line = append(line, "--set", s)
	}
	_, err = fmt.Fprintf(std.Out, "%s &&\n%s &&\n%s\n", f.Print(words), fault.Quote(line...), fault.Quote("mcrawl", "run", c.Crawl))
	return err
}
