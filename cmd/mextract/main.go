// Command mextract finds the links of fetched documents, and runs processing
// modules over them.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"runtime/debug"

	"mercator/formats/record"
	"mercator/pkg/canon"
	"mercator/pkg/cli"
	"mercator/pkg/extract"
	"mercator/pkg/fault"
	"mercator/pkg/filter"
	"mercator/pkg/stage"
)

const about = `Find the links of fetched documents, as link records in order of arrival.

    mextract --warc crawl/fetch fetched.arrows.zst -o links.arrows.zst
    mextract pages.warc.gz | mcat

"mextract links --help" explains all of it.`

type grammar struct {
	cli.Common `embed:""`

	Links   linksCmd   `cmd:"" default:"withargs" help:"Read fetch records or WARC files, write link records (the default)."`
	State   stateCmd   `cmd:"" help:"Print what a module has kept over a crawl."`
	Create  createCmd  `cmd:"" help:"Make an empty store for a module's state."`
	Explain explainCmd `cmd:"" help:"Say what becomes of a URL: its canonical form, and the filter rule that decides."`
}

// candidates are the flags that say which URLs become links.
type candidates struct {
	Filter string `placeholder:"FILE" help:"Rules that say which URLs and documents are wanted (\"mextract explain --help\"), or default: those that are shipped, against traps."`
	cli.RewriteFlags
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

	Files          []string `arg:"" optional:"" help:"Fetch records, or WARC files; - or none: standard input, either of them."`
	WARC           string   `name:"warc" type:"existingdir" placeholder:"STORE" help:"Fetch store whose WARC files hold the documents of the records."`
	Txn            string   `placeholder:"NAME" help:"Name of the round, passed on to the commands behind."`
	IgnoreNofollow bool     `help:"Find links although the page (meta robots, X-Robots-Tag) says nofollow."`
	Duplicates     bool     `help:"Search all documents that are marked duplicate, not only style sheets."`
	MaxBody        cli.Size `default:"10M" placeholder:"SIZE" help:"Search so much of a document (10M, for which the default of --memory is enough)."`
	MaxLinks       int      `default:"100000" placeholder:"N" help:"Keep so many links of a document (100000)."`
	From           []string `default:"default" placeholder:"SOURCE" help:"What links are taken from, of headers, html, css, sitemap, feed, robots, pdf, ftp, gopher; text, json, xml; default (all before the semicolon), all."`
	HTMLEngine     string   `name:"html-engine" enum:"fast,xnet" default:"fast" placeholder:"NAME" help:"What reads HTML: fast, a lexer that leaves odd pages to the other, or xnet, the tree of golang.org/x/net/html (fast)."`
	moduleFlags    `embed:""`
}

// outsideHeap is what the program's text, mostly of parsers, and the runtime take
// at most, in bytes.
const outsideHeap = 30 << 20

// Help is the long text of --help.
func (*linksCmd) Help() string {
	return `Bodies come from the WARC files of the fetch store, or from the records where
they carry them; WARC files given as arguments (of any program, compressed or
not) are read as they are. Links come from redirects and from what --from names:

    headers   Link, Refresh, Content-Location, and Location of replies that are no redirects
    html css  pages, with their style elements and attributes; style sheets
    sitemap   XML or text, compressed or not, with images, videos and languages
    feed      RSS and Atom: links, enclosures, comments, images
    robots    Sitemap lines of robots.txt
    pdf       link annotations
    ftp       listings
    gopher    menus
    text      not by default, as the two below, since they are guesses: URLs in plain text
    json      strings that are URLs, or have a key such as "url"
    xml       the same in elements and attributes of any other vocabulary

Of equal documents the first is searched, as in Mercator; the others are counted as
"duplicate". Links that are relative, and lead elsewhere from another folder, are lost
then. Style sheets are searched at each place, and with --duplicates all documents.

Only those of the --scheme URLs are kept. Each is canonical; what is not wanted is
counted by reason in the stream's ledger. The type of a document is what its header
says, but what its body says where the header has no type, application/octet-stream,
text/plain for binary data, text/html for a feed, or text for what is compressed;
"X-Content-Type-Options: nosniff" is obeyed. Its encoding is that of a byte order mark,
the header, a meta element or declaration, or else guessed from its bytes.

    mextract --warc crawl/fetch fetched.arrows.zst -o links.arrows.zst
    mextract pages.warc.gz | mcat --format tsv
    mextract < pages.warc.gz | mcat | jq -r 'select(.link_kind == "a").url'
    mextract --from default,text pages.warc.gz | mcat --format tsv
    mextract --warc crawl/fetch --filter rules.txt --txn r12 < fetched.arrows.zst | murlset new crawl/urls --txn r12

Modules report on documents by media type: page (title, description, language),
tags (elements counted), image (format, size, frames), forms (action, method, fields),
simhash (near-duplicates differ in few bits), text (of HTML, PDF, DOCX, ODT and plain
text). A command is one, too: it reads the document and writes "KEY<tab>VALUE" lines.
It finds MERCATOR_URL, MERCATOR_URL_KEY, MERCATOR_MIME and MERCATOR_CHARSET in its
environment. One that fails or hangs costs its findings of that document, is counted, and
hurts nothing else; a finding with the key "error" has its exit status and the first line
of its standard error.

    mextract pages.warc.gz -o links.arrows.zst --modules found.arrows.zst --module page --module 'words=text/html,text/plain:wc -w'

Findings name their document by url_key. Its URL stands in the fetch record, or, for
WARC files, is found by the key (the shell is bash):

    urls() { mcat pages.warc.gz | jq -r 'select(.type == "response").target_uri' | murlset key | sort -u; }
    join -t $'\t' <(urls) <(mcat --format tsv --columns url_key,key,value found.arrows.zst | sort)

The modules tags and image, and every command, can keep a state over a whole crawl, in
a store of its own that changes with the round and goes back with the crawl: totals, or
a folder that the command is told to bring up to date ("mextract create --help").
"mextract state" prints it.

    mextract --warc crawl/fetch --txn r12 --module tags --module-state tags < fetched.arrows.zst > links.arrows.zst
    mextract state crawl/modules/tags | sort -t "$(printf '\t')" -k3nr | head`
}

func (c *linksCmd) Run(ctx context.Context, std *cli.Std) error {
	debug.SetMemoryLimit(max(std.MemoryLimit()-outsideHeap, std.MemoryLimit()/4))
	opt, rules, err := c.load(std)
	if err != nil {
		return err
	}
	if rules != nil {
		defer rules.Close()
	}
	if c.MaxBody < 1 || c.MaxLinks < 1 {
		return &fault.Error{Class: fault.Usage, Found: "--max-body or --max-links below 1", Want: "at least 1"}
	}
	from, err := extract.ParseSources(c.From)
	if err != nil {
		return &fault.Error{Class: fault.Usage, File: "--from", Err: err}
	}
	settings := extract.Settings{
		Links:  extract.Options{Canon: opt, Sources: from, MaxLinks: c.MaxLinks, IgnoreNofollow: c.IgnoreNofollow, HTMLEngine: c.HTMLEngine},
		Filter: rules, Duplicates: c.Duplicates, Archive: c.WARC, MaxBody: int64(c.MaxBody), Threads: std.Threads(),
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
	settings.Modules = m.selected
	settings.Finding = func(row *record.Module) error { return m.write(ctx, row) }
	progress := std.StartProgress("documents", 0)
	defer progress.Done()
	settings.Done = func() { progress.Add(1) }

	spec := stage.Spec{Name: "mextract", Txn: c.Txn, Stores: m.stores(), Threads: std.Threads()}
	return cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[record.Fetch, record.Link]) error {
		report, err := extract.Batch(ctx, b, settings)
		if err != nil {
			return err
		}
		std.Stat("extract", report)
		if n := report.Cut[extract.CutMaxBody]; n > 0 {
			std.Warn("%d documents were not searched to their end, since they are longer than --max-body, or fetch.max_body in crawl.toml, allows", n)
		}
		return m.publish(ctx, std, report, in.Trailer())
	})
}

// input opens the files as fetch records or, if the first is one, as WARC files.
func (c *linksCmd) input(std *cli.Std, opt canon.Options, s *extract.Settings) (stage.Input[record.Fetch], error) {
	files := c.Files
	if len(files) == 0 {
		files = []string{"-"}
	}
	isWARC := false
	if files[0] == "-" {
		isWARC = extract.IsWARC(bytes.NewReader(std.PeekIn()))
	} else if f, err := os.Open(files[0]); err == nil { // else OpenRecords says what is wrong
		isWARC = extract.IsWARC(f)
		f.Close()
	}
	if !isWARC {
		return cli.OpenRecords[record.Fetch](std, files)
	}
	in := extract.NewWARCInput(files, func(name string) (io.ReadCloser, error) {
		if name == "-" {
			return io.NopCloser(std.In), nil
		}
		return os.Open(name)
	}, opt, int64(c.MaxBody))
	s.Header, s.Recycle = in.Header, in.Recycle
	return in, nil
}

func abort(sinks []stage.Sink) {
	for _, s := range sinks {
		s.Abort()
	}
}

type explainCmd struct {
	candidates `embed:""`

	Base         string   `placeholder:"URL" help:"Resolve the URLs as links of this page."`
	Kind         string   `default:"a" help:"Link kind that the rules see."`
	Depth        uint16   `default:"1" help:"Depth that the rules see."`
	MIME         string   `name:"mime" placeholder:"TYPE" help:"Explain what becomes of a document of this media type, too."`
	JSON         bool     `name:"json" help:"Write a JSON object a URL, one a line."`
	PrintDefault bool     `help:"Print the rules that are shipped, and nothing else."`
	ListFiles    bool     `help:"Print the files that the filter is made of, relative to the folder of the first, and nothing else."`
	URLs         []string `arg:"" optional:"" name:"url" help:"What is to be explained; lines of standard input if there is none, or -."`
}

// Help is the long text of --help.
func (*explainCmd) Help() string {
	return `Prints the canonical form, host, URL checksum and what else rules look at, then
each rule down to the one that decides, with its tests: yes, no, or not needed where
those before it had decided, and what was looked at. Exit code 6 if a URL is refused.

A rule file has one rule a line: allow or deny, a name, a colon, a condition.

    include default
    deny  trap:    path-depth > 12 or repeated-segments > 3 or regex "/calendar/[0-9]"
    deny  blocked: domain @blocked.txt
    allow docs:    domain example.org and not extension zip exe
    allow pics:    kind img and (host img.example.org:8080 or prefix http://example.net/i/)
    deny  films:   mime video/*
    default deny

The first rule whose condition holds decides, else "default allow" or "default deny".
After the line "match all" a URL must meet every allow and no deny instead.
"include FILE" stands for the rules of another file, "include default" for those that
are shipped (--print-default), against traps; "include default without NAME" leaves some out.

Tests with one or more words, of which one must hold: scheme, host, domain,
registered-domain, port, url, prefix, suffix, contains, regex (RE2), extension, kind, mime.
Tests with <, <=, =, >= or > and a number: url-length, path-depth, repeated-segments,
depth (links from a seed). Without anything: any, query. A host without a port is meant on any.

For host, domain, registered-domain, url and prefix, @FILE stands for the lines of a file
sorted by LC_ALL=C sort -u, of any length: what does not fit into a quarter of --memory
is searched on disk. Both are exact.

A rule with mime judges documents when they have been fetched (--mime TYPE), and no URLs: what
it denies is not searched for links, and dropped as filter:NAME. All other rules judge URLs.

exec "COMMAND" asks a program that reads lines URL<tab>HOST<tab>DEPTH<tab>KIND<tab>MIME and
writes "yes" or "no" for each, with its reason behind a tab if it likes. Its answer must depend
on the line alone. It has 10 s for an answer, or what a line "timeout 30s" says.

    mextract explain 'http://Example.com:80/a/../b#top'
    mextract explain --filter rules.txt --base http://example.org/docs/ ../img/logo.png --kind img
    mextract explain --filter default --json < urls.txt | jq -r 'select(.wanted).canonical'`
}

func (c *explainCmd) Run(ctx context.Context, std *cli.Std) error {
	if c.PrintDefault {
		_, err := io.WriteString(std.Out, filter.Shipped)
		return err
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

func main() { os.Exit(cli.Main("mextract", about, &grammar{}, 64<<20)) }
