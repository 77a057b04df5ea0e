package mcat

import (
	"bufio"
	"context"
	"io"

	"mercator/formats/record"
	"mercator/formats/record/parquet"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/view/derive"
)

// runParquet makes one Parquet file of record files.
func (g *grammar) runParquet(ctx context.Context, std *cli.Std) error {
	if g.Columns != nil || g.Head > 0 || g.Count || g.Check || g.Canonical || g.Trailer || g.Bare {
		return usage("--format parquet with an option for rows", "--format parquet alone: a Parquet file has all rows and columns")
	}
	if len(g.Files) == 0 {
		return usage("--format parquet of standard input", "names of files, which are read twice")
	}
	files, err := std.RecordFiles(g.Files, g.Rows)
	if err != nil {
		return err
	}
	in, err := open(std, files[0])
	if err != nil {
		return err
	}
	if sniff(in.Reader, in.opt.Name) == warcs {
		in.close()
		return &fault.Error{Class: fault.WrongKind, File: in.opt.Name, Found: "an archive", Want: "fetch records, or the crawl folder: a Parquet file has a crawl's outcomes",
			Hint: "its index: " + fault.Quote("mcat", "--format", "cdxj", in.opt.Name) + "; its links: " + fault.Quote("mextract", in.opt.Name, "-o", "links.arrows.zst") +
				" && mcat --format parquet -o links.parquet links.arrows.zst"}
	}
	src, err := record.Open(in, in.opt)
	in.close()
	if err != nil {
		return err
	}
	progress := g.startProgress(std)
	defer progress.Done()
	write := func(to io.Writer) error {
		out := bufio.NewWriterSize(to, 1<<20)
		err := record.ByKind(src.Kind(),
			func() error { return parquet.Files[record.URL](ctx, out, files, nil, progress.Add) },
			func() error {
				return derive.Outcomes(ctx, out, files, derive.OfAll, nil, nil, std.MemoryLimit()/4, progress.Add)
			},
			func() error { return parquet.Files[record.Link](ctx, out, files, nil, progress.Add) },
			func() error { return parquet.Files[record.Module](ctx, out, files, nil, progress.Add) })()
		if err != nil {
			return err
		}
		return out.Flush()
	}
	if g.Output == "" || g.Output == "-" {
		if err := std.RefuseTerminal("Parquet files are"); err != nil {
			return err
		}
	}
	return g.output(std, write)
}
