// Command mcat shows what is in the toolkit's files, and makes record streams of text.
package main

import (
	"context"
	"os"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/cli"
	"mercator/pkg/derive"
	"mercator/pkg/fault"
)

const about = `Show what is in a file, whatever its kind: record streams, fingerprint files, queue segments, WARC files, store
manifests. The kind is
told by the first bytes; several files are read one after the other. Nothing that reaches the output holds a control
character.

  mcat r12/links.arrows.zst | head               # rows as JSON lines
  mcat --format tsv --columns url,status r12/fetched.arrows.zst
  mfrontier export crawl/frontier | mcat --format text    # URLs, one a line
  mcat --count r12/*.arrows.zst                  # how many rows
  mcat --check r12/*.arrows.zst && echo whole    # exit 3 and one line if not
  mcat --trailer r12/new.arrows.zst              # the ledger: who dropped what, and why
  mcat --format cdxj crawl/fetch/*.warc.gz*      # an index of saved pages

What Common Crawl offers beside its WARC files, mcat makes of any: a WET file has the text of each page, a WAT file the
metadata of each record and the links of each page, as JSON. A crawl folder stands for what it has committed.

  mcat --wet crawl -o crawl.warc.wet.gz
  mcat --wat pages.warc.gz -o pages.warc.wat.gz

Two crawls are the same if their rows are, however they were cut and compressed:

  cmp <(mcat --canonical a.arrows.zst) <(mcat --canonical b.arrows.zst)

With --format arrow the output is a record stream: one, with one trailer, made of all input. With --bare it is plain
Arrow, for programs that do not know the container. And with --from it is made of text, so that a line of awk, jq or
Python can stand in for a stage. Columns that a line lacks are zero; url_key and host are made from the url, with --config
by the rules of a crawl:

  mcat batch.arrows.zst | jq -c 'select(.depth < 3)' | mcat --from json --kind url -o shallow.arrows.zst

Such a program keeps no books, so the ledger shows a gap there. To keep the chain, name the program, and the file that
it read:

  mcat new.arrows.zst | jq -c 'select(.depth < 3)' | mcat --from json --kind url --stage shallow --like new.arrows.zst

The rows that came in less are then booked as dropped by "shallow", and columns that only that file has may be used.
A program that makes rows of another kind, such as a fetcher of your own, says so with --kind:

  mcat batch.arrows.zst | fetcher | mcat --from json --kind fetch --stage fetcher --like batch.arrows.zst -o fetched.arrows.zst`

type grammar struct {
	cli.Common
	Output  string   `short:"o" placeholder:"FILE" help:"Write to this file, which appears complete or not at all, instead of standard output. Missing folders are made."`
	Format  string   `enum:"json,tsv,text,arrow,cdxj" default:"json" help:"json: an object a line; tsv: with a line of names; text: URLs, or fingerprints, one a line; arrow: one record stream; cdxj: an index of fetch rows or WARC files."`
	Columns []string `placeholder:"NAMES" help:"Only these columns, in this order (json, tsv). The column body must be named to be seen."`
	Head    uint64   `placeholder:"N" help:"Only the first N rows."`

	Count     bool `xor:"mode" help:"Print the number of rows, records or fingerprints of all files."`
	Check     bool `xor:"mode" help:"Print nothing; exit 3 if a file is damaged or not whole."`
	Canonical bool `xor:"mode" help:"Print rows as JSON without empty values: the same rows give the same bytes, however they were stored. Bodies are left out."`
	Trailer   bool `xor:"mode" help:"Print what the end of each record stream says, as JSON: rows, hash, transaction, the round's clock, ledger, and whether the ledger balances."`
	Bare      bool `xor:"mode" help:"Write plain Arrow, without container, checksums and trailer."`

	WET bool `name:"wet" xor:"mode" help:"Write a WET file, the text of pages, as Common Crawl has it, of WARC files, fetch stores or crawl folders."`
	WAT bool `name:"wat" xor:"mode" help:"Write a WAT file, metadata and links as JSON, of the same."`

	From  string `enum:",json,tsv" default:"" help:"Read text and write a record stream: json lines, or tsv with a line of names."`
	Kind  string `enum:",url,fetch,link,module" default:"" help:"Kind of the rows (--from): url, fetch, link or module; default: that of --like."`
	Like  string `placeholder:"FILE" help:"Record stream that the text was made from (--from): the round's name and clock are taken over, and its unknown columns unless --kind is another."`
	Stage string `placeholder:"NAME" help:"Name in the ledger of the program that made the text (--from)."`
	cli.RewriteFlags

	Files []string `arg:"" optional:"" help:"Files; - or none: standard input."`
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
		return usage("--kind, --like and --stage without --from", "--from json or --from tsv")
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
	if g.Format == "arrow" || g.Bare {
		if g.Columns != nil {
			return usage("--columns with a record stream, which has all columns", "--format json or tsv")
		}
		return g.runRecords(ctx, std)
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

// byKind calls the function for a kind of rows.
func byKind(k record.Kind, url, fetch, link, module func() error) error {
	switch k {
	case record.KindURL:
		return url()
	case record.KindFetch:
		return fetch()
	case record.KindLink:
		return link()
	}
	return module()
}

func main() { os.Exit(cli.Main("mcat", about, &grammar{}, 64<<20)) }
