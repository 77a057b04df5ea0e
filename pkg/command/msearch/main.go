// Package msearch keeps a full-text index of a crawl's pages and answers queries from it.
package msearch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/config/sheet"
	"mercator/pkg/crawl"
	"mercator/pkg/extract"
	"mercator/pkg/frontier"
	"mercator/pkg/search"
)

const about = `Keep a full-text index of the pages of a crawl, and search it.`

type grammar struct {
	cli.Common `embed:""`

	Update updateCmd `cmd:"" help:"Bring the index up to date with the crawl."`
	Query  queryCmd  `cmd:"" help:"Find pages by words."`
	Stat   statCmd   `cmd:"" help:"Print the size of the index, and what is not in it yet."`
}

// Memory: beside Go's is SQLite's. A thread that reads documents may have one of 10 MiB at a time.
const defaultMemory, beside, perThread = 128 << 20, 64 << 20, 24 << 20

// Command is msearch.
var Command = cli.Command{Name: "msearch", About: about, Memory: defaultMemory, Grammar: func() any { return &grammar{} }}

// wait is how long a database that others write or read is waited for.
const wait = 70 * time.Second

// crawlArg is the crawl folder of a verb.
type crawlArg struct {
	Crawl string `arg:"" help:"The crawl folder."`
}

// open opens the crawl's index.
func (c crawlArg) open(ctx context.Context, create bool) (*search.Index, error) {
	if _, err := crawl.Open(c.Crawl, crawl.Options{}); err != nil {
		return nil, err
	}
	return search.Open(ctx, filepath.Join(c.Crawl, crawl.SearchFile), create, wait)
}

// files lists the record files of closed rounds, of all shards.
func (c crawlArg) files(std *cli.Std) (files []search.File, err error) {
	in, err := crawl.Open(c.Crawl, crawl.Options{Warn: func(err error) { std.Warn("%v", err) }})
	if err != nil {
		return nil, err
	}
	kept, err := in.Files()
	if err != nil {
		return nil, err
	}
	kept = kept.Closed()
	outcomes, err := kept.Outcomes()
	if err != nil {
		return nil, err
	}
	paths, err := kept.Files("dropped", outcomes)
	for _, path := range paths {
		files = append(files, search.File{Path: path, Dropped: strings.HasPrefix(filepath.Base(path), "dropped.")})
	}
	return files, err
}

type updateCmd struct{ crawlArg }

// Help is part of --help.
func (updateCmd) Help() string {
	return `Reads the record files of rounds that were closed since the last update. New and
changed pages are put in. Pages leave that are gone, redirect, are refused, or ask
not to be indexed (noindex); the archive keeps them.
The index is CRAWL/search.db; it can be removed at any time. Queries may run at
the same time. A killed update loses only the round that it was at.

Examples:
  msearch update crawl
  mcrawl run crawl && msearch update crawl`
}

func (c *updateCmd) Run(ctx context.Context, std *cli.Std) error {
	files, err := c.files(std)
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(max(std.MemoryLimit()-beside, std.MemoryLimit()/4))
	conf, err := config.Load(filepath.Join(c.Crawl, config.Name))
	if err != nil {
		return err
	}
	settings := search.Settings{Retries: frontier.DefaultRetries, Agent: conf.File.Fetch.UserAgent, MaxBody: int64(conf.File.Fetch.MaxBody)}
	room := int64(perThread) + max(settings.MaxBody-extract.DefaultMaxBody, 0)
	settings.Threads = max(1, min(std.Threads(), int((std.MemoryLimit()-beside)/room)))
	if n := conf.File.Frontier.MaxAttempts; n > 0 {
		settings.Retries.MaxAttempts = n
	}
	sheets, err := sheet.OfCrawl(conf)
	if err != nil {
		return err
	}
	settings.Retries.Of = sheets.Attempts(conf.File.Frontier.Failures)
	x, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	progress := std.StartLong("URLs")
	settings.Progress = progress.Add
	report, err := x.Update(ctx, files, settings)
	progress.Done()
	std.Stat("update", report)
	if report.Anew {
		std.Warn("%s: it had pages of rounds that are no part of the crawl any more, and was made anew", filepath.Join(c.Crawl, crawl.SearchFile))
	}
	if err == nil {
		_, err = fmt.Fprintf(std.Out, "%d new, %d changed, %d as before, %d gone\n", report.New, report.Changed, report.Same, report.Gone)
	}
	return errors.Join(err, x.Close())
}

type queryCmd struct {
	crawlArg
	Words  []string `arg:"" help:"What to look for."`
	Number int      `short:"n" range:"1 1000" default:"10" help:"Results to print, at most 1000."`
	Site   string   `placeholder:"HOST" help:"Only pages of this host and of those below it."`
	JSON   bool     `name:"json" help:"Print JSON lines."`
}

// Help is part of --help.
func (queryCmd) Help() string {
	return `Prints the pages that have all words, the best first (BM25; a word of the title
counts four times). Words in double quotes follow each other. A word with * at its
end begins so. Pages with a word after - are left out: put -- before the crawl.
Everything else is text. No page found is exit code 6.

Examples:
  msearch query crawl holiday forms
  msearch query crawl '"expense report" trave*' -n 3
  msearch query --site hr.example.org --json -- crawl 'holiday -2019'`
}

func (c *queryCmd) Run(ctx context.Context, std *cli.Std) error {
	x, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer x.Close()
	words := strings.Join(c.Words, " ")
	results, total, err := x.Find(ctx, search.Query{Words: words, Site: c.Site, Most: c.Number, Also: 3})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(std.Out)
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		for _, r := range results {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
	} else {
		for _, r := range results {
			show(out, &r)
		}
		if more := total - int64(len(results)); more > 0 && len(results) > 0 {
			fmt.Fprintf(out, "%d more\n", more)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if total == 0 {
		return &fault.Error{Class: fault.No, Found: "no page has all of: " + words, Hint: "try fewer words; " + fault.Quote("msearch", "stat", c.Crawl) + " says how many pages the index has"}
	}
	return nil
}

// show prints a result for people: words that were found are between asterisks.
func show(out *bufio.Writer, r *search.Result) {
	title := r.Title
	if title == "" {
		title = "(no title)"
	}
	fmt.Fprintf(out, "%d. %s\n   %s\n", r.Rank, cli.Printable(title), cli.Printable(r.URL))
	if r.Snippet != "" {
		fmt.Fprintf(out, "   %s\n", cli.Printable(r.Marked("*", "*")))
	}
	for _, url := range r.Also {
		fmt.Fprintf(out, "   also %s\n", cli.Printable(url))
	}
	if r.More > 0 {
		fmt.Fprintf(out, "   and %d more URLs\n", r.More)
	}
	fmt.Fprintln(out)
}

type statCmd struct {
	crawlArg
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is part of --help.
func (statCmd) Help() string {
	return `Examples:
  msearch stat crawl`
}

func (c *statCmd) Run(ctx context.Context, std *cli.Std) error {
	files, err := c.files(std)
	if err != nil {
		return err
	}
	x, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer x.Close()
	var s struct {
		search.Stat
		Unread int  `json:"unread"` // record files that the next update reads
		Anew   bool `json:"anew"`   // it makes the index anew
	}
	if s.Stat, err = x.Stat(ctx); err != nil {
		return err
	}
	if s.Unread, s.Anew, err = x.Behind(ctx, files); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(std.Out).Encode(s)
	}
	next := "up to date"
	if s.Anew {
		next = "made anew by the next update: the crawl went back to a checkpoint"
	} else if s.Unread > 0 {
		next = fmt.Sprintf("%d record files for the next update", s.Unread)
	}
	_, err = fmt.Fprintf(std.Out, "%d documents of %d URLs, %d URLs gone, %d without text, %d bytes\n%d record files read, %s\n", s.Documents, s.URLs, s.Gone, s.Textless, s.Bytes, s.Files, next)
	return err
}
