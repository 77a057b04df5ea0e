// Package mcat shows what is in the toolkit's files, and makes record streams of text.
package mcat

import (
	"context"
	"io"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/view/derive"
)

const about = `Show what is in a file: record streams, fingerprint files, queues, WARC files, store manifests. Or make record streams from text.`

type grammar struct {
	cli.Common
	Output  string   `group:"Rows:" short:"o" placeholder:"FILE" help:"Write to this file instead of standard output."`
	Format  string   `group:"Rows:" enum:"json,tsv,csv,text,arrow,parquet,cdxj" default:"json" placeholder:"json" help:"json, tsv, csv, text, arrow, parquet or cdxj."`
	Columns []string `predictor:"columns" group:"Rows:" placeholder:"NAME" help:"Only these columns, in this order (json, tsv, csv)."`
	Head    uint64   `group:"Rows:" placeholder:"N" help:"Only the first N rows."`
	Rows    cli.Rows `group:"Rows:" enum:"outcomes,links,refused,urls,modules" default:"outcomes" placeholder:"outcomes" help:"Of a crawl: outcomes, links, refused, urls, modules."`

	Count     bool `group:"Instead of rows:" xor:"mode" help:"Print the number of rows of all files."`
	Check     bool `group:"Instead of rows:" xor:"mode" help:"Exit with 3 if a file is damaged or truncated."`
	Canonical bool `more:"" group:"Instead of rows:" xor:"mode" help:"Print JSON that is the same for the same rows."`
	Trailer   bool `more:"" group:"Instead of rows:" xor:"mode" help:"Print the trailer: rows, hash, transaction, ledger."`
	Bare      bool `more:"" group:"Instead of rows:" xor:"mode" help:"Write plain Arrow, without checksums and trailer."`

	WET bool `more:"" group:"Instead of rows:" name:"wet" xor:"mode" help:"Write a WET file: the text of pages in WARC files."`
	WAT bool `more:"" group:"Instead of rows:" name:"wat" xor:"mode" help:"Write a WAT file: their metadata and links."`

	From  string `group:"Rows:" enum:",json,tsv,csv" default:"" placeholder:"FORMAT" help:"Read json lines, or tsv or csv with a line of names."`
	Kind  string `group:"Rows:" enum:",url,fetch,link,module" default:"" placeholder:"KIND" help:"url, fetch, link or module (default: as --like)."`
	Like  string `more:"" group:"Rows:" placeholder:"FILE" help:"Record stream that the text was made from."`
	Stage string `more:"" group:"Rows:" placeholder:"NAME" help:"Your program's name in the ledger."`
	config.RewriteFlags
	cli.ArchiveFlags

	Files []string `arg:"" optional:"" help:"Files or crawl folders; default: standard input."`
}

// Help is part of --help.
func (*grammar) Help() string {
	return `Examples:
  mcat --format csv --columns url,status crawl > outcomes.csv
  mcat batch.arrows.zst | jq -c 'select(.depth < 3)' |
    mcat --from json --kind url -o shallow.arrows.zst`
}

func (g *grammar) Run(ctx context.Context, std *cli.Std) error {
	if g.Columns != nil && strings.Join(g.Columns, "") == "" {
		return usage("--columns without a name", "names of columns, such as url,status")
	}
	if g.From != "" {
		if g.Count || g.Check || g.Canonical || g.Trailer || g.Bare || g.WET || g.WAT {
			return usage("--from with an option that shows files", "--from alone: its output is a record stream")
		}
		return g.runFrom(ctx, std)
	}
	if g.Kind != "" || g.Like != "" || g.Stage != "" {
		return usage("--kind, --like and --stage without --from", "--from json, tsv or csv")
	}
	if g.Head > 0 && (g.Count || g.Check || g.Trailer) {
		return usage("--head with --count, --check or --trailer, which read everything", "one of them")
	}
	if g.WET || g.WAT {
		if g.Columns != nil || g.Format != "json" {
			return usage("--format or --columns with --wet or --wat, which write WARC files", "neither")
		}
		if g.WET {
			return g.runDerive(ctx, std, derive.WET)
		}
		return g.runDerive(ctx, std, derive.WAT)
	}
	if g.Format == "parquet" {
		return g.runParquet(ctx, std)
	}
	if g.Format == "arrow" || g.Bare {
		if g.Columns != nil {
			return usage("--columns with a record stream, which has all columns", "--format json or tsv")
		}
		return g.runRecords(ctx, std)
	}
	if g.Format == "cdxj" && g.isArchive() && !g.Count && !g.Check && !g.Trailer {
		return g.output(std, func(to io.Writer) error { return g.index(ctx, std, to) })
	}
	return g.runText(ctx, std)
}

// startProgress counts what is read. Where rows go to a terminal a bar would be in their way.
func (g *grammar) startProgress(std *cli.Std) *cli.Progress {
	if g.Progress == "auto" && (g.Output == "" || g.Output == "-") && std.OnTerminal() {
		return nil
	}
	return std.StartProgress("records", 0)
}

func usage(found, want string) error {
	return &fault.Error{Class: fault.Usage, Found: found, Want: want}
}

// Command is mcat.
var Command = cli.Command{Name: "mcat", About: about, Memory: 64 << 20, Grammar: func() any { return &grammar{} }}
