package mfocus

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/focus/classify"
	"mercator/pkg/focus/distill"
	"mercator/pkg/focus/urldb"
)

type urlsCmd struct {
	CrawlArg
	SQLite string `name:"sqlite" placeholder:"FILE" help:"The database (default: CRAWL/focus/urls.sqlite)."`
	Sense  string `placeholder:"TOPIC" help:"Only URLs of this sense."`
	Status string `enum:",waiting,failed,redirect,fetched" default:"" placeholder:"STATUS" help:"Only waiting, failed, redirect or fetched URLs."`
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
	folder, err := c.Scored(ctx, std, distill.Options{})
	if err != nil {
		return err
	}
	model, err := c.model(std)
	if err != nil {
		return err
	}
	path := c.SQLite
	if path == "" {
		path = filepath.Join(c.Crawl, Dir, "urls.sqlite")
	}
	current, err := urldb.Current(path, folder)
	if err == nil && !current {
		err = urldb.Make(ctx, path, folder)
	}
	if err != nil || c.Make {
		return err
	}
	out := bufio.NewWriter(std.Out)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	some := false
	err = urldb.Each(ctx, path, urldb.Query{Sense: c.Sense, Status: c.Status, By: c.By, Most: c.Number}, func(r *urldb.Row) error {
		some = true
		for _, text := range []*string{&r.URL, &r.Sense, &r.FoundOn} {
			*text = cli.Printable(*text)
		}
		if !c.TSV {
			return e.Encode(r)
		}
		_, err := fmt.Fprintf(out, "%s\t%s\t%.4f\t%.6f\t%.6f\t%s\t%d\t%s\n", r.URL, r.Sense, r.Relevance, r.Hub, r.Authority, r.FoundOn, r.Depth, r.Status)
		return err
	})
	if err == nil && !some && c.Sense != "" {
		err = c.known(ctx, path, model)
	}
	return errors.Join(err, out.Flush())
}

// model returns the crawl's model; nil, with a note, if it has none.
func (c *urlsCmd) model(std *cli.Std) (*classify.Model, error) {
	conf, err := config.Load(filepath.Join(c.Crawl, config.Name))
	if err != nil {
		return nil, err
	}
	file := conf.File.Focus.Model
	if file == "" {
		std.Warn("note: %s has no model (focus.model): no URL has a sense, a relevance or scores", c.Crawl)
		return nil, nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(c.Crawl, file)
	}
	m, err := classify.Read(file)
	if errors.Is(err, fs.ErrNotExist) { // what was scored has its senses
		return nil, nil
	}
	return m, err
}

// known refuses a sense that neither the model nor a URL has.
func (c *urlsCmd) known(ctx context.Context, path string, model *classify.Model) error {
	senses, err := urldb.Senses(ctx, path)
	if model != nil {
		senses = append(senses, model.Names()...)
	}
	slices.Sort(senses)
	senses = slices.Compact(senses)
	if err != nil || slices.Contains(senses, c.Sense) {
		return err
	}
	want := "no sense: the crawl has none"
	if len(senses) > 0 {
		want = "one of " + cli.Printable(strings.Join(senses, ", "))
	}
	return &fault.Error{Class: fault.Usage, Place: "--sense", Found: fmt.Sprintf("%q", c.Sense), Want: want, Hint: fault.DidYouMean(c.Sense, senses)}
}
