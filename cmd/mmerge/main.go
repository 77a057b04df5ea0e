// Command mmerge merges, compares, cuts and checks sets and record streams.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/cli"
	"mercator/pkg/fault"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
	"mercator/pkg/stage"
)

const about = `Merge, compare, cut and check sets of fingerprints, and record streams.

A set is a fingerprint file (*.fps), the folder of a store such as crawl/urls, or text: 16 hexadecimal digits a line,
in any order (*.txt, or --text; "-" is standard input). Stores of URLs and stores of documents are not merged with each
other; files do not say which they are of. Sets are merged on all processors (-@), in memory that does not
grow with them; the output is the same for any number of threads.

For those who come from sort, comm and join (with LC_ALL=C, on lines of 16 lower-case hexadecimal digits):

  sort -u a b            mmerge union --text a b
  sort -mu a b           mmerge union --text a b         # sorted text is noticed, and not sorted again
  comm -12 a b           mmerge intersect --text a b
  comm -23 a b           mmerge diff --text a b
  comm -13 a b           mmerge diff --text b a
  sort -mu a b -o c      mmerge union -o c.fps a.fps b.fps
  sort -cu a             mmerge check a.fps
  join a b               mmerge join --by url_key --columns etag a.arrows.zst b.arrows.zst`

type grammar struct {
	cli.Common `embed:""`

	Union     unionCmd     `cmd:"" help:"Write what is in any set."`
	Intersect intersectCmd `cmd:"" help:"Write what is in every set."`
	Diff      diffCmd      `cmd:"" help:"Write what is in the first set and in no other."`
	Records   recordsCmd   `cmd:"" help:"Merge record streams in the order of a column."`
	Join      joinCmd      `cmd:"" help:"Take columns over from one record stream into another, by key."`
	Split     splitCmd     `cmd:"" help:"Cut a set or a record stream into parts by key."`
	Check     checkCmd     `cmd:"" help:"Read sets and record streams whole and verify them."`
}

// sets are the operands of the set verbs.
type sets struct {
	Files      []string       `arg:"" help:"Sets: *.fps, folders of stores, *.txt, or - for text on standard input."`
	Text       bool           `help:"Read and write text, whatever the files' names."`
	Polynomial cli.Polynomial `placeholder:"HEX" help:"That of the sets: text does not name its own (default: that of the other sets, or Mercator's)."`
	Output     string         `short:"o" placeholder:"FILE" help:"Write a fingerprint file, which appears complete or not at all, instead of text on standard output; text if it is named *.txt. Missing folders are made."`
}

// run merges all sets by op, and writes nothing unless all of them were good.
func (s *sets) run(std *cli.Std, op merge.Op) error {
	in, err := fpset.OpenInputs(s.Files, s.Text, uint64(s.Polynomial), std.In, std.MemoryLimit()/4)
	if err != nil {
		return err
	}
	defer fpset.CloseInputs(in)
	return std.WriteSet(s.Output, s.Text, op, in)
}

type unionCmd struct{ sets }

// Help is the long text of --help.
func (unionCmd) Help() string {
	return `Writes the fingerprints that are in any of the sets, ascending, each once. All of
them are read: damage is exit code 3, and nothing is written. Sets of different
polynomials are refused.

  mmerge union -o both.fps monday/urls tuesday/urls
  mmerge union a.fps b.fps | wc -l
  mmerge union --text keys1 keys2 > all           # sort -u keys1 keys2`
}

func (c *unionCmd) Run(std *cli.Std) error {
	return c.run(std, merge.OpUnion)
}

type intersectCmd struct{ sets }

// Help is the long text of --help.
func (intersectCmd) Help() string {
	return `Writes the fingerprints that are in all of the sets, ascending.

Only what the answer needs is read, and damage found there is exit code 3, with nothing
written; damage elsewhere is not met. "mmerge check" reads all.

  mmerge intersect -o still-there.fps monday/urls tuesday/urls
  mmerge intersect --text keys1 keys2             # comm -12 keys1 keys2`
}

func (c *intersectCmd) Run(std *cli.Std) error {
	return c.run(std, merge.OpIntersect)
}

type diffCmd struct{ sets }

// Help is the long text of --help.
func (diffCmd) Help() string {
	return `Writes the fingerprints that are in the first set and in none of the others, ascending.

Only what the answer needs is read, and damage found there is exit code 3, with nothing
written; damage elsewhere is not met. "mmerge check" reads all.

  mmerge diff -o new.fps tuesday/urls monday/urls
  mmerge diff --text keys1 keys2                  # comm -23 keys1 keys2
  murlset key < seeds.txt | cut -f1 | mmerge diff - crawl/urls`
}

func (c *diffCmd) Run(std *cli.Std) error {
	return c.run(std, merge.OpDiff)
}

type recordsCmd struct {
	By    string   `required:"" placeholder:"COLUMN" help:"Column that orders the rows, such as url_key or fetch_time."`
	Sort  bool     `help:"Sort each input first; without it an input out of order is an error."`
	Files []string `arg:"" help:"Record streams of one kind; - is standard input."`
	cli.Output
}

// Help is the long text of --help.
func (recordsCmd) Help() string {
	return `Merges record streams of one kind into one that ascends by a column. Rows of equal values
keep the order of the files, and in a file their order. Columns that this version does
not know are kept if the first file has them, and refused by name otherwise; so are bodies.

  mmerge records --by url_key --sort -o all.arrows.zst r1/links.arrows.zst r2/links.arrows.zst`
}

func (c *recordsCmd) Run(ctx context.Context, std *cli.Std) error {
	if err := stdinOnce(c.Files...); err != nil {
		return err
	}
	var all []*cli.Records
	for _, name := range c.Files {
		src, err := cli.OpenSource(std, []string{name})
		if err != nil {
			return err
		}
		all = append(all, src)
	}
	switch all[0].Kind() {
	case record.KindURL:
		return mergeRecords[record.URL](ctx, std, c, all)
	case record.KindFetch:
		return mergeRecords[record.Fetch](ctx, std, c, all)
	case record.KindLink:
		return mergeRecords[record.Link](ctx, std, c, all)
	}
	return mergeRecords[record.Module](ctx, std, c, all)
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
	return cli.RunStage(ctx, std, stage.Spec{Name: name}, in, sinks, func(ctx context.Context, b *stage.Batch[T, T]) error {
		var row T
		for {
			err := b.Read(&row)
			if err == io.EOF {
				return nil
			}
			if err == nil {
				progress.Add(1)
				err = b.Pass(&row)
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
		}
	})
}

type joinCmd struct {
	By      string   `required:"" placeholder:"COLUMN" help:"Key of both streams, of numbers, times or text, such as url_key or host; LEFT=RIGHT where the names differ."`
	Columns []string `required:"" placeholder:"COLUMN" help:"Columns to take over, comma-separated; LEFT=RIGHT where the names differ."`
	Left    string   `arg:"" help:"Record stream whose rows go on; - is standard input."`
	Right   string   `arg:"" help:"Record stream that columns are taken from, of any kind."`
	cli.Output
}

// Help is the long text of --help.
func (joinCmd) Help() string {
	return `Writes the rows of LEFT, in their order, with columns taken over from the row of RIGHT
that has the same key: the last such row, if there are several. Rows without one stay as
they are. Neither stream need be sorted; the rows of both wait on disk, within --memory.
Rows that carry bodies are refused.

  mmerge join --by url_key --columns last_content_fp=content_fp,etag urls.arrows.zst fetched.arrows.zst`
}

func (c *joinCmd) Run(ctx context.Context, std *cli.Std) error {
	if err := stdinOnce(c.Left, c.Right); err != nil {
		return err
	}
	src, err := cli.OpenSource(std, []string{c.Left})
	if err != nil {
		return err
	}
	switch src.Kind() {
	case record.KindURL:
		return joinLeft[record.URL](ctx, std, c, src)
	case record.KindFetch:
		return joinLeft[record.Fetch](ctx, std, c, src)
	case record.KindLink:
		return joinLeft[record.Link](ctx, std, c, src)
	}
	return joinLeft[record.Module](ctx, std, c, src)
}

func joinLeft[L record.Row](ctx context.Context, std *cli.Std, c *joinCmd, src *cli.Records) error {
	left, err := cli.RowsOf[L](src)
	if err != nil {
		return err
	}
	right, err := cli.OpenSource(std, []string{c.Right})
	if err != nil {
		return err
	}
	switch right.Kind() {
	case record.KindURL:
		return join[L, record.URL](ctx, std, c, left, right)
	case record.KindFetch:
		return join[L, record.Fetch](ctx, std, c, left, right)
	case record.KindLink:
		return join[L, record.Link](ctx, std, c, left, right)
	}
	return join[L, record.Module](ctx, std, c, left, right)
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
	Buckets    int            `required:"" placeholder:"N" help:"Number of parts, 1 to 4096."`
	File       string         `arg:"" help:"A set, or a record stream."`
	Prefix     string         `short:"o" name:"output" required:"" placeholder:"PREFIX" help:"Parts are named PREFIX-000.fps or PREFIX-000.arrows.zst, and so on. Missing folders are made."`
	Text       bool           `help:"Read a set as text."`
	Polynomial cli.Polynomial `placeholder:"HEX" help:"That of a set which is text (default: Mercator's)."`
}

// Help is the long text of --help.
func (splitCmd) Help() string {
	return `Cuts by the top 12 bits of the key: of a set, of url_key, or of a link's target. All URLs
of one host are in one part, and part i of one file belongs to part i of another cut into
as many, unless a set has a polynomial of its own, by which url_key is not made. Parts of
sets are joined again with union. No part appears before all are written, and part 000
appears last: where it is, all are. Parts of another cut that would stay beside them are
refused, so that no pattern such as PREFIX-* can mix the two.

  mmerge split --buckets 16 -o parts/urls crawl/urls`
}

func (c *splitCmd) Run(std *cli.Std) error {
	parts, err := merge.NewParts(c.Prefix, c.Buckets)
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
	src, err := cli.OpenSource(std, []string{c.File})
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

// Help is the long text of --help.
func (checkCmd) Help() string {
	return `Reads each file whole: every checksum, order, index, count and trailer. Prints a line for
each good one. The first bad one ends it with exit code 3 and the place of the damage.

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
	src, err := cli.OpenSource(std, []string{name})
	if err != nil {
		return "", err
	}
	switch src.Kind() {
	case record.KindURL:
		return readAll[record.URL](src)
	case record.KindFetch:
		return readAll[record.Fetch](src)
	case record.KindLink:
		return readAll[record.Link](src)
	}
	return readAll[record.Module](src)
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

func main() { os.Exit(cli.Main("mmerge", about, &grammar{}, 64<<20)) }
