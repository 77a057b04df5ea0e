package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/driver"
	"mercator/pkg/urlset"
	"mercator/pkg/web/canon"
)

type addCmd struct {
	Crawl string   `arg:"" help:"The crawl folder."`
	URLs  []string `arg:"" optional:"" name:"url" help:"URLs to add."`
	File  []string `short:"f" sep:"none" placeholder:"FILE" help:"Add the URLs of this file, one a line, or of a .csv, .tsv or .jsonl; - is standard input, one a line."`
}

// Help is part of --help.
func (*addCmd) Help() string {
	return `URLs that the crawl knows are not fetched a second time (see mcrawl again). While
the crawl runs they are taken in between two rounds. A URL without a scheme is taken
as https, or on the command line as http where the crawl knows its host by http alone.

Examples:
  mcrawl add crawl https://www.example.org/new/
  mcrawl add crawl -f more.txt`
}

func (c *addCmd) Run(ctx context.Context, std *cli.Std) error {
	if len(c.URLs)+len(c.File) == 0 {
		return &fault.Error{Class: fault.Usage, Found: "no URLs", Want: "some, or -f FILE"}
	}
	d, err := driver.Open(c.Crawl, driverOptions(std))
	if err != nil {
		return err
	}
	form, err := d.Crawl.Form()
	if err != nil {
		return err
	}
	rows := slices.ContainsFunc(c.File, func(name string) bool { return record.FormOf(name) != "" })
	told, err := d.Ask(ctx, driver.Request{Verb: "add", Listed: true, Rows: rows}, func(w io.Writer) error {
		list := seedList(std, w, form)
		list.Rows = rows
		list.Assumed = func(text, url string) {
			std.Warn("%s is taken as %s; by http: %s", text, url, fault.Quote("mcrawl", "add", c.Crawl, "http"+strings.TrimPrefix(url, "https")))
		}
		for _, text := range c.URLs {
			if url, assumed, err := urlset.Seed(text, form); err == nil && assumed {
				known, err := d.Crawl.ByHTTP(url, form)
				if err != nil {
					return err
				}
				if known {
					url = "http" + strings.TrimPrefix(url, "https")
					std.Warn("%s is taken as %s: the crawl knows the host by http", text, url)
					text = url
				}
			}
			if err := list.Add(text); err != nil {
				return err
			}
		}
		list.Assumed = seedList(std, w, form).Assumed // a hint for each line would be many
		for _, name := range c.File {
			in, err := openList(std, name)
			if err != nil {
				return err
			}
			_, err = list.File(in, name)
			in.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.Out, told)
	return err
}

// seedList writes URLs that a person gives.
func seedList(std *cli.Std, w io.Writer, form canon.Options) *urlset.Seeds {
	return &urlset.Seeds{W: w, Form: form, Assumed: func(text, url string) { std.Warn("%s is taken as %s", text, url) }}
}

// openList opens a file of URLs; - is standard input.
func openList(std *cli.Std, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(std.In), nil
	}
	in, err := os.Open(name)
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: name, Want: "a file of URLs, one a line", Err: err}
	}
	if err := cli.RefuseFolder(in); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// takeCmd is for mercator.mk, which holds the crawl as its driver.
type takeCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
}

func (c *takeCmd) Run(ctx context.Context, std *cli.Std) error {
	d, err := driver.Open(c.Crawl, driverOptions(std))
	if err != nil {
		return err
	}
	said, err := d.Take(ctx)
	for _, line := range said {
		fmt.Fprintln(std.Err, "mcrawl:", line)
	}
	return err
}
