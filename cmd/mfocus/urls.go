package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"mercator/pkg/cli"
	"mercator/pkg/focus/distill"
	"mercator/pkg/focus/urldb"
)

type urlsCmd struct {
	crawlArg
	SQLite string `name:"sqlite" placeholder:"FILE" help:"The database (default: CRAWL/focus/urls.sqlite)."`
	Sense  string `placeholder:"TOPIC" help:"Only URLs of this sense."`
	Status string `enum:",waiting,failed,fetched" default:"" placeholder:"STATUS" help:"Only waiting, failed or fetched URLs."`
	By     string `enum:"relevance,hub,authority,url" default:"relevance" help:"Order: relevance, hub, authority (highest first) or url."`
	Number int    `short:"n" placeholder:"N" help:"Print at most N URLs (default: all)."`
	TSV    bool   `name:"tsv" help:"Print text with tabs instead of JSON lines."`
	Make   bool   `help:"Only make the database: print nothing."`
}

// Help is part of --help.
func (urlsCmd) Help() string {
	return `The database has each URL that the crawl met: its sense and relevance, hub and authority scores,
where it was found, and whether it was fetched. It is made again if the crawl went on since.

Examples:
  mfocus urls crawl --sense mouse.rodent -n 20
  mfocus urls crawl --by hub -n 20 --tsv
  sqlite3 crawl/focus/urls.sqlite "SELECT count(*) FROM urls WHERE hub > 0"`
}

func (c *urlsCmd) Run(ctx context.Context, std *cli.Std) error {
	folder, err := c.scored(ctx, std, distill.Options{})
	if err != nil {
		return err
	}
	path := c.SQLite
	if path == "" {
		path = filepath.Join(c.Crawl, focusDir, "urls.sqlite")
	}
	current, err := urldb.Current(path, folder)
	if err == nil && !current {
		err = urldb.Make(ctx, path, folder)
	}
	if err != nil || c.Make {
		return err
	}
	out := bufio.NewWriter(std.Out)
	e := encoder(out)
	err = urldb.Each(ctx, path, urldb.Query{Sense: c.Sense, Status: c.Status, By: c.By, Most: c.Number}, func(r *urldb.Row) error {
		for _, text := range []*string{&r.URL, &r.Sense, &r.FoundOn} {
			*text = cli.Printable(*text)
		}
		if !c.TSV {
			return e.Encode(r)
		}
		_, err := fmt.Fprintf(out, "%s\t%s\t%.4f\t%.6f\t%.6f\t%s\t%d\t%s\n", r.URL, r.Sense, r.Relevance, r.Hub, r.Authority, r.FoundOn, r.Depth, r.Status)
		return err
	})
	return errors.Join(err, out.Flush())
}
