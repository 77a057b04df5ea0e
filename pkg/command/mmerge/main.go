// Package mmerge merges, compares, cuts and checks sets and record streams.
package mmerge

import (
	"context"
	"fmt"
	"io"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/command/sets"
	"mercator/pkg/config"
	"mercator/pkg/folder/stage"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
)

const about = `Merge, compare, cut and check sets of fingerprints, and record streams.

A set is a fingerprint file (*.fps), the folder of a store such as crawl/urls, or text (*.txt) of 16 hexadecimal digits a line.`

type grammar struct {
	cli.Common `embed:""`

	Union     unionCmd     `cmd:"" help:"Write what is in any set."`
	Intersect intersectCmd `cmd:"" help:"Write what is in every set."`
	Diff      diffCmd      `cmd:"" help:"Write what is in the first set and in no other."`
	Records   recordsCmd   `cmd:"" help:"Merge record streams in the order of a column."`
	Join      joinCmd      `cmd:"" help:"Copy columns from one record stream into another, by key."`
	Split     splitCmd     `cmd:"" help:"Cut a set or a record stream into parts by key."`
	Gather    gatherCmd    `cmd:"" help:"Read what all shards of a crawl sent to one."`
	Check     checkCmd     `cmd:"" help:"Read sets and record streams whole and verify them."`
}

// operands are those of the set verbs.
type operands struct {
	Files      []string       `arg:"" help:"Sets; - is text on standard input."`
	Text       bool           `help:"Read and write text."`
	Polynomial cli.Polynomial `placeholder:"HEX" help:"Polynomial of text (default: that of other sets)."`
	Output     string         `short:"o" placeholder:"FILE" help:"Write a fingerprint file, or text if it is *.txt."`
	URLs       bool           `name:"urls" help:"Write URLs, which are taken from the records among the operands."`
}

// run merges all sets by op, and writes nothing unless all of them were good.
func (s *operands) run(std *cli.Std, op merge.Op) error {
	if s.URLs {
		return s.runURLs(std, op)
	}
	in, err := fpset.OpenInputs(s.Files, s.Text, uint64(s.Polynomial), std.In, std.MemoryLimit()/4)
	if err != nil {
		return err
	}
	defer fpset.CloseInputs(in)
	return sets.Write(std, s.Output, s.Text, op, in)
}

type unionCmd struct{ operands }

// Help is part of --help.
func (unionCmd) Help() string {
	return `Each key is written once, in ascending order.

Examples:
  mmerge union -o both.fps monday/urls tuesday/urls
  mmerge union a.fps b.fps | wc -l
  mmerge union --text keys1 keys2 > all           # sort -u keys1 keys2`
}

func (c *unionCmd) Run(std *cli.Std) error {
	return c.run(std, merge.OpUnion)
}

type intersectCmd struct{ operands }

// Help is part of --help.
func (intersectCmd) Help() string {
	return `Examples:
  mmerge intersect -o still-there.fps monday/urls tuesday/urls
  mmerge intersect --text keys1 keys2             # comm -12 keys1 keys2`
}

func (c *intersectCmd) Run(std *cli.Std) error {
	return c.run(std, merge.OpIntersect)
}

type diffCmd struct{ operands }

// Help is part of --help.
func (diffCmd) Help() string {
	return `Examples:
  mmerge diff -o new.fps tuesday/urls monday/urls
  mmerge diff --urls tuesday monday               # URLs that one crawl found
  mmerge diff --text keys1 keys2                  # comm -23 keys1 keys2
  murlset key < seeds.txt | cut -f1 | mmerge diff - crawl/urls`
}

func (c *diffCmd) Run(std *cli.Std) error {
	return c.run(std, merge.OpDiff)
}

type recordsCmd struct {
	By    string   `required:"" placeholder:"COLUMN" help:"Order rows by this column, such as url_key."`
	Sort  bool     `help:"Sort each input first, instead of failing."`
	Files []string `arg:"" help:"Record streams of one kind; - is standard input."`
	cli.Output
}

// Help is part of --help.
func (recordsCmd) Help() string {
	return `Examples:
  mmerge records --by url_key --sort -o all.arrows.zst r*/links.arrows.zst`
}

func (c *recordsCmd) Run(ctx context.Context, std *cli.Std) error {
	if err := stdinOnce(c.Files...); err != nil {
		return err
	}
	var all []*cli.Records
	for _, name := range c.Files {
		src, err := cli.OpenSource(std, []string{name}, cli.Outcomes)
		if err != nil {
			return err
		}
		all = append(all, src)
	}
	return record.ByKind(all[0].Kind(), mergeRecords[record.URL], mergeRecords[record.Fetch], mergeRecords[record.Link], mergeRecords[record.Module])(ctx, std, c, all)
}

// stdinOnce refuses standard input twice.
func stdinOnce(names ...string) error {
	if i := slices.Index(names, "-"); i >= 0 && slices.Contains(names[i+1:], "-") {
		return &fault.Error{Class: fault.Usage, Found: "standard input twice", Want: "it once: the second would be empty"}
	}
	return nil
}

func mergeRecords[T record.Row](ctx context.Context, std *cli.Std, c *recordsCmd, all []*cli.Records) error {
	var inputs []merge.Rows[T]
	for _, src := range all {
		in, err := cli.RowsOf[T](src)
		if err != nil {
			return err
		}
		var rows merge.Rows[T] = in
		if c.Sort {
			mem := std.MemoryLimit() / 4 / int64(len(all))
			if rows, err = merge.SortRows(rows, c.By, mem, ""); err != nil {
				return err
			}
		}
		inputs = append(inputs, rows)
	}
	merged, err := merge.NewRecords(c.By, inputs, c.Files)
	if err != nil {
		return err
	}
	return passAll(ctx, std, "mmerge records", merged, c.Output)
}

// passAll writes all rows of in.
func passAll[T record.Row](ctx context.Context, std *cli.Std, name string, in stage.Input[T], out cli.Output) error {
	sinks, err := std.Sinks(out)
	if err != nil {
		return err
	}
	progress := std.StartProgress("rows", 0)
	defer progress.Done()
	return cli.RunStage(ctx, std, stage.Spec{Name: name}, in, sinks, stage.PassAll[T](progress.Add))
}

type joinCmd struct {
	By      string   `required:"" placeholder:"COLUMN" help:"Key of both, such as url_key; or LEFT=RIGHT."`
	Columns []string `predictor:"columns" required:"" placeholder:"COLUMN" help:"Columns to copy; LEFT=RIGHT if names differ."`
	Left    string   `arg:"" help:"Record stream to write; - is standard input."`
	Right   string   `arg:"" help:"Record stream to copy columns from, of any kind."`
	cli.Output
}

// Help is part of --help.
func (joinCmd) Help() string {
	return `Each row of LEFT takes the columns from the last row of RIGHT with the same key.

Examples:
  mmerge join --by url_key --columns last_content_fp=content_fp,etag \
    urls.arrows.zst fetched.arrows.zst`
}

func (c *joinCmd) Run(ctx context.Context, std *cli.Std) error {
	if err := stdinOnce(c.Left, c.Right); err != nil {
		return err
	}
	src, err := cli.OpenSource(std, []string{c.Left}, cli.Outcomes)
	if err != nil {
		return err
	}
	return record.ByKind(src.Kind(), joinLeft[record.URL], joinLeft[record.Fetch], joinLeft[record.Link], joinLeft[record.Module])(ctx, std, c, src)
}

func joinLeft[L record.Row](ctx context.Context, std *cli.Std, c *joinCmd, src *cli.Records) error {
	left, err := cli.RowsOf[L](src)
	if err != nil {
		return err
	}
	right, err := cli.OpenSource(std, []string{c.Right}, cli.Outcomes)
	if err != nil {
		return err
	}
	return record.ByKind(right.Kind(), join[L, record.URL], join[L, record.Fetch], join[L, record.Link], join[L, record.Module])(ctx, std, c, left, right)
}

func join[L, R record.Row](ctx context.Context, std *cli.Std, c *joinCmd, left stage.Input[L], src *cli.Records) error {
	right, err := cli.RowsOf[R](src)
	if err != nil {
		return err
	}
	spec := merge.JoinSpec{By: c.By, Columns: c.Columns, Memory: std.MemoryLimit() / 3}
	joined, err := merge.Join[L, R](left, right, spec)
	if err != nil {
		return err
	}
	return passAll(ctx, std, "mmerge join", joined, c.Output)
}

type splitCmd struct {
	Buckets    *int           `range:"1 4096" placeholder:"N" help:"Number of parts, 1 to 4096."`
	File       string         `arg:"" help:"A set, or a record stream."`
	Prefix     string         `short:"o" name:"output" required:"" placeholder:"PREFIX" help:"Name parts PREFIX-000.fps and so on. With --map, the folder of the exchange."`
	Text       bool           `help:"The input is text."`
	Polynomial cli.Polynomial `placeholder:"HEX" help:"Polynomial of text (default: Mercator's)."`
	exchangeFlags
	config.AllowNetFlag `group:"Between the shards of a crawl:"`
}

// Help is part of --help.
func (splitCmd) Help() string {
	return `All URLs of a host are in one part.

With --map, one shard of a crawl sends rows to all: a file with a part for each,
and a manifest, which appears last. They wait for "mmerge gather".

Examples:
  mmerge split --buckets 16 -o parts/urls crawl/urls
  mmerge split --by host --map crawl --round r12 --exchange links --shard 7 \
    -o crawl/rounds/r12/links links.arrows.zst`
}

func (c *splitCmd) Run(ctx context.Context, std *cli.Std) error {
	if c.Map != "" {
		return c.send(ctx, std)
	}
	if c.exchangeFlags != (exchangeFlags{Shard: noShard}) || c.Buckets == nil {
		return &fault.Error{Class: fault.Usage, Found: "neither --buckets alone nor --map", Want: "one of them"}
	}
	parts, err := merge.NewParts(c.Prefix, *c.Buckets)
	if err != nil {
		return err
	}
	defer parts.Abort()
	if c.Text || fpset.IsSet(c.File) {
		in, err := fpset.OpenInputs([]string{c.File}, c.Text, uint64(c.Polynomial), std.In, std.MemoryLimit()/4)
		if err != nil {
			return err
		}
		defer fpset.CloseInputs(in)
		src, err := in[0].Source()
		if err != nil {
			return err
		}
		progress := std.StartProgress("fingerprints", int64(in[0].Count))
		defer progress.Done()
		std.Stat("keys", in[0].Count)
		return parts.Keys(src, in[0].Polynomial, std.Threads(), progress.Add)
	}
	src, err := cli.OpenSource(std, []string{c.File}, cli.Outcomes)
	if err != nil {
		return err
	}
	switch src.Kind() {
	case record.KindURL:
		return splitRows(std, src, parts, func(r *record.URL) uint64 { return r.Key })
	case record.KindFetch:
		return splitRows(std, src, parts, func(r *record.Fetch) uint64 { return r.Key })
	case record.KindLink:
		return splitRows(std, src, parts, func(r *record.Link) uint64 { return r.Key })
	}
	return splitRows(std, src, parts, func(r *record.Module) uint64 { return r.Key })
}

func splitRows[T record.Row](std *cli.Std, src *cli.Records, parts *merge.Parts, key func(*T) uint64) error {
	in, err := cli.RowsOf[T](src)
	if err != nil {
		return err
	}
	progress := std.StartProgress("rows", 0)
	defer progress.Done()
	if err := merge.SplitRows(parts, in, key, std.MemoryLimit()/4, progress.Add); err != nil {
		return err
	}
	std.Stat("rows", in.Trailer().Rows)
	return nil
}

type checkCmd struct {
	Files []string `arg:"" help:"Sets and record streams."`
}

// Help is part of --help.
func (checkCmd) Help() string {
	return `The first damaged one ends the command with exit code 3.

Examples:
  mmerge check *.fps crawl/urls links.arrows.zst`
}

func (c *checkCmd) Run(std *cli.Std) error {
	progress := std.StartProgress("bytes", 0)
	defer progress.Done()
	for _, name := range c.Files {
		line, err := c.check(std, name, progress)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(std.Out, "%s: %s\n", cli.Printable(name), line); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkCmd) check(std *cli.Std, name string, progress *cli.Progress) (string, error) {
	if fpset.IsSet(name) {
		in, err := fpset.OpenInputs([]string{name}, false, 0, std.In, std.MemoryLimit()/4)
		if err != nil {
			return "", err
		}
		defer fpset.CloseInputs(in)
		return fmt.Sprintf("good, %d fingerprints", in[0].Count), in[0].Check(progress.Add)
	}
	src, err := cli.OpenSource(std, []string{name}, cli.Outcomes)
	if err != nil {
		return "", err
	}
	return record.ByKind(src.Kind(), readAll[record.URL], readAll[record.Fetch], readAll[record.Link], readAll[record.Module])(src)
}

func readAll[T record.Row](src *cli.Records) (string, error) {
	in, err := cli.RowsOf[T](src)
	if err != nil {
		return "", err
	}
	var row T
	for err == nil {
		err = in.Read(&row)
	}
	if err != io.EOF {
		return "", err
	}
	t := in.Trailer()
	word := "good"
	if !t.Verified {
		word = "without checksums (bare Arrow)"
	}
	return fmt.Sprintf("%s, %d %s rows", word, t.Rows, src.Kind()), nil
}

// Command is mmerge.
var Command = cli.Command{Name: "mmerge", About: about, Memory: 64 << 20, Grammar: func() any { return &grammar{} }}
