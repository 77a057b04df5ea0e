// Package mextract finds the links of fetched documents, and runs processing
// modules over them.
package mextract

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"slices"
	"strings"
	"sync"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/extract"
	"mercator/pkg/focus/classify"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/linkkind"
)

const about = `Find the links of fetched documents, and run processing modules on them.

    mextract --warc crawl/fetch fetched.arrows.zst -o links.arrows.zst
    mextract pages.warc.gz | mcat`

type grammar struct {
	cli.Common `embed:""`

	Links   linksCmd   `cmd:"" default:"withargs" help:"Write the links of documents as link records (the default)."`
	Resolve resolveCmd `cmd:"" help:"Make absolute URLs of the raw links that links --raw writes."`
	Filter  filterCmd  `cmd:"" help:"Ask a program of your own about each link or URL of a stream."`
	State   stateCmd   `cmd:"" help:"Print the state that a module keeps over a crawl."`
	Create  createCmd  `cmd:"" help:"Make an empty store for a module's state."`
	Explain explainCmd `cmd:"" help:"Show the canonical form of a URL, and which filter rule decides on it."`
}

// candidates are the flags that say which URLs become links.
type candidates struct {
	config.FilterFlag
	config.RewriteFlags
}

// load returns nil for a filter that is not given. The caller closes the filter.
func (c *candidates) load(std *cli.Std) (canon.Options, *filter.Filter, error) {
	opt, err := c.Canon()
	if err != nil || c.Filter == "" {
		return opt, nil, err
	}
	rules, err := filter.Load(c.Filter, filter.Options{Memory: std.MemoryLimit() / 4, Schemes: opt.Schemes})
	return opt, rules, err
}

type linksCmd struct {
	cli.Output `embed:""`
	candidates `embed:""`
	cli.ArchiveFlags

	Files []string `arg:"" optional:"" help:"Fetch records or WARC files; default: standard input."`
	WARC  string   `name:"warc" type:"existingdir" placeholder:"STORE" help:"Fetch store with the documents of the records."`
	Txn   string   `placeholder:"NAME" help:"Name of the round."`
	config.Links
	config.UserAgentFlag
	config.MaxBodyFlag
	config.ModelFlag
	MaxLinks    int    `default:"100000" range:"1" help:"Keep at most this many links of a document."`
	HTMLEngine  string `more:"" name:"html-engine" enum:"fast,xnet" default:"fast" placeholder:"fast" help:"fast (a lexer) or xnet (golang.org/x/net/html)."`
	Raw         bool   `help:"Keep links as they are written, for mextract resolve."`
	Refused     string `type:"path" placeholder:"FILE" help:"Write the links that are refused, and why, to this file."`
	moduleFlags `embed:""`
}

// outsideHeap is what the program's text, mostly of parsers, and the runtime take
// at most, in bytes.
const outsideHeap = 30 << 20

// Help is part of --help.
func (*linksCmd) Help() string {
	return `Sources of --from: headers, html, css, sitemap, feed, robots, pdf, office, ftp,
gopher (the default); text, json, xml, script (guesses).

Examples:
  mextract --warc crawl/fetch fetched.arrows.zst -o links.arrows.zst
  mextract pages.warc.gz -o links.arrows.zst --modules found.arrows.zst`
}

func (c *linksCmd) Run(ctx context.Context, std *cli.Std) error {
	std.BoundHeap(outsideHeap)
	opt, rules, err := c.load(std)
	if err != nil {
		return err
	}
	if rules != nil {
		defer rules.Close()
	}
	from, err := extract.ParseSources(c.From)
	if err != nil {
		return err
	}
	if c.WARC == "" && len(c.Files) == 1 && c.Files[0] != "-" && store.IsCrawl(c.Files[0], store.Options{}) {
		c.WARC = c.Files[0]
	}
	if c.WARC != "" {
		c.WARC = store.Within(c.WARC, "fetch", store.Options{})
	}
	settings := extract.Settings{
		Links:  extract.Options{Canon: opt, Sources: from, MaxLinks: c.MaxLinks, IgnoreNofollow: c.IgnoreNofollow, Agent: c.UserAgent, HTMLEngine: c.HTMLEngine},
		Filter: rules, Duplicates: c.Duplicates, Archive: c.WARC, MaxBody: int64(c.MaxBody), Threads: std.Threads(), Alone: std.Alone(), Raw: c.Raw,
	}
	in, err := c.input(std, opt, &settings)
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	m, err := c.openModules(ctx, std, in.Schema())
	if err != nil {
		abort(sinks)
		return err
	}
	defer m.close(ctx)
	refused, err := c.openRefused(std, in.Schema())
	if err != nil {
		abort(sinks)
		return err
	}
	defer refused.Abort()
	if c.Model != "" {
		model, err := classify.Read(c.Model)
		if err != nil {
			abort(sinks)
			return err
		}
		// What a round has learned is there when its first document is.
		fit := sync.OnceValues(func() (*classify.Fitted, error) { return classify.FitIn(model, c.WARC, c.ModuleStores) })
		settings.Score = func() (func(float32, string) float32, error) {
			f, err := fit()
			if err != nil {
				return nil, err
			}
			return classify.NewScorer(f).Link, nil
		}
	}
	if refused != nil {
		settings.Refused = func(row *record.Link) error { return refused.Write(row.Extra.Text("refused"), row) }
	}
	settings.Modules = m.selected
	settings.Failing = func(name string, report extract.Report) {
		std.Warn("module %s fails, so far on %s", name, failures(name, report))
	}
	settings.Finding = func(row *record.Module) error { return m.write(ctx, row) }
	progress := std.StartProgress("documents", 0)
	defer progress.Done()
	settings.Done = func() { progress.Add(1) }

	// Few threads compress: each takes 3 MiB of what documents need, and pages are searched beside them.
	spec := stage.Spec{Name: "mextract", Txn: c.Txn, Stores: m.stores(), Threads: (std.Threads() + 3) / 4}
	if c.Raw {
		spec.Like = extract.BaseColumn
	}
	err = cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[record.Fetch, record.Link]) error {
		report, err := extract.Batch(ctx, b, settings)
		if err != nil {
			return err
		}
		std.Stat("extract", report)
		if n := report.Cut[extract.CutMaxBody]; n > 0 {
			std.Warn("%s searched only up to %d bytes, the limit of --max-body", cli.Count(n, "document"), c.MaxBody)
		}
		t := in.Trailer()
		if settings.WARC != nil && t.Rows == 0 {
			std.Warn("no reply in it, and so no link: WET and WAT files have none")
		}
		if err := refused.Publish(record.Stage{Name: "mextract refused", In: t.Rows, InHash: t.Hash.String(), Consumed: t.Rows}, t.Ledger); err != nil {
			return err
		}
		return m.publish(ctx, std, report, t)
	})
	if err == nil && settings.WARC != nil {
		err = settings.WARC.Damage() // what could be read is written
	}
	return err
}

// openRefused makes the file of --refused; nil without it.
func (c *linksCmd) openRefused(std *cli.Std, in *record.Schema) (*cli.Side[record.Link], error) {
	if c.Refused == "" {
		return nil, nil
	}
	o := c.sideOptions(in)
	o.Like = extract.RefusedColumn
	return cli.CreateSide[record.Link](std, c.Refused, o)
}

// sideOptions returns the writer options of a file beside the links, for the same round.
func (c *linksCmd) sideOptions(in *record.Schema) record.WriterOptions {
	return record.WriterOptions{Txn: cmp.Or(c.Txn, in.Txn), Now: in.Now, Epoch: in.Epoch}
}

// isArchive reports whether a regular file is an archive, by its first bytes and its name.
func isArchive(name string) (front []byte, is bool) {
	if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
		return nil, false
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, false
	}
	defer f.Close() // was read only
	front, _ = bufio.NewReaderSize(f, 4<<10).Peek(4 << 10)
	return front, warc.Sniff(front) || warc.Named(name) && warc.Describe(front) == ""
}

// input opens the files as fetch records or as WARC files: if the first is one, or is nothing that is known and another is one.
func (c *linksCmd) input(std *cli.Std, opt canon.Options, s *extract.Settings) (stage.Input[record.Fetch], error) {
	files := c.Files
	if len(files) == 0 {
		files = []string{"-"}
	}
	isWARC, isPipe := false, false
	var front []byte
	if files[0] == "-" {
		front = std.PeekIn()
		isWARC = warc.Sniff(front)
	} else if st, err := os.Stat(files[0]); err != nil || !st.Mode().IsRegular() { // OpenRecords says what is wrong; a named pipe, which can be read once, has records
		isPipe = err == nil && !st.IsDir()
	} else if f, err := os.Open(files[0]); err == nil {
		f.Close()
		if front, isWARC = isArchive(files[0]); !isWARC {
			_, err := record.Open(bytes.NewReader(front), record.ReaderOptions{})
			isWARC = errors.Is(err, record.ErrNoStream) && slices.ContainsFunc(files[1:], func(name string) bool { _, is := isArchive(name); return is })
		}
	}
	if !isWARC {
		in, err := cli.OpenRecords[record.Fetch](std, files)
		if e := (*fault.Error)(nil); isPipe && errors.Is(err, record.ErrNoStream) && errors.As(err, &e) {
			e.Hint = "a pipe with WARC records is given as standard input: mextract < " + files[0]
		} else if err != nil {
			if misfit := warc.Misfit(front, fileName(files[0]), "fetch records or WARC files"); misfit != nil {
				return nil, misfit
			}
		}
		return in, err
	}
	in := extract.NewWARCInput(files, func(name string) (io.ReadCloser, error) {
		if name == "-" {
			return io.NopCloser(std.In), nil
		}
		return os.Open(name)
	}, opt, int64(c.MaxBody), std.Tolerance(c.ArchiveFlags, false))
	s.WARC = in
	return in, nil
}

func fileName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

func abort(sinks []stage.Output) {
	for _, s := range sinks {
		s.Abort()
	}
}

type explainCmd struct {
	candidates `embed:""`

	Base         string   `placeholder:"URL" help:"Resolve the URLs as links of this page."`
	Kind         string   `default:"a" placeholder:"a" help:"Link kind that rules see; sitemap: of robots.txt."`
	Depth        uint16   `default:"1" help:"Depth that the rules see."`
	MIME         string   `name:"mime" placeholder:"TYPE" help:"Explain rules for documents of this media type too."`
	JSON         bool     `name:"json" help:"Print JSON lines."`
	PrintDefault bool     `help:"Print the rules of \"default\", and nothing else."`
	PrintKinds   bool     `more:"" help:"Print the kinds of links, and nothing else."`
	ListFiles    bool     `help:"Print the files of the filter, and nothing else."`
	URLs         []string `arg:"" optional:"" name:"url" help:"URLs to explain; default: lines of standard input."`
}

// Help is part of --help.
func (*explainCmd) Help() string {
	return `Exit code 6: a URL is refused. In a rule file the first matching rule decides:

  include default
  deny  blog:    path /blog/ /news/archive/
  deny  trap:    path-depth > 12 or repeated-segments > 3
  deny  blocked: domain @blocked.txt
  allow docs:    domain example.org and not extension zip exe
  default deny

Tests, joined by and, or, not and parentheses (the manual explains them):
scheme, host, domain, registered-domain, port, url, prefix, suffix, contains,
regex, linked-from, path, extension, any, query, same-host, url-length,
path-depth, repeated-segments, repeated-parameters, repeated-menu, depth, kind
(--print-kinds), requisite, mime, exec. @FILE holds words, one a line.

Examples:
  mextract explain 'http://Example.com:80/a/../b#top'
  mextract explain --filter rules.txt --base http://example.org/docs/ ../a.html`
}

func (c *explainCmd) Run(ctx context.Context, std *cli.Std) error {
	if c.PrintDefault {
		_, err := io.WriteString(std.Out, filter.Shipped)
		return err
	}
	if c.PrintKinds {
		_, err := io.WriteString(std.Out, linkkind.Table())
		return err
	}
	if c.Kind != "" && linkkind.Named(c.Kind) == nil {
		return &fault.Error{Class: fault.Usage, Place: "--kind", Found: fmt.Sprintf("%q", c.Kind), Want: "one of " + strings.Join(linkkind.Names(), ", ")}
	}
	opt, rules, err := c.load(std)
	if err != nil {
		return err
	}
	if rules == nil {
		rules = &filter.Filter{}
	}
	defer rules.Close()
	if c.ListFiles {
		return listFiles(std.Out, rules)
	}
	x := explainer{explainCmd: c, opt: opt, judge: rules.NewJudge(), out: bufio.NewWriter(std.Out)}
	if c.Base != "" {
		if x.base, err = opt.Base(c.Base); err != nil {
			return &fault.Error{Class: fault.Usage, Place: "--base", Found: fmt.Sprintf("%q", c.Base), Want: "a URL", Err: err}
		}
		if x.via, x.from, err = x.base.Resolve(""); err != nil { // a base that is not crawled
			x.via, x.from = "", ""
		}
	}
	if c.MIME != "" {
		if c.MIME, _, err = mime.ParseMediaType(c.MIME); err != nil {
			return &fault.Error{Class: fault.Usage, Place: "--mime", Want: "a media type such as text/html", Err: err}
		}
	}
	if err := errors.Join(x.all(ctx, std), x.judge.Close(), x.out.Flush()); err != nil {
		return err
	}
	if x.refused > 0 {
		return &fault.Error{Class: fault.No, Found: fmt.Sprintf("%d of %d URLs refused", x.refused, x.n)}
	}
	return nil
}

// Command is mextract.
var Command = cli.Command{Name: "mextract", About: about, Memory: 64 << 20, Setting: "memory.stages", Grammar: func() any { return &grammar{} }}
