package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"

	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/cli"
	"mercator/pkg/derive"
	"mercator/pkg/durable"
	"mercator/pkg/fetch"
)

// runDerive writes a WET or WAT file of WARC files, fetch stores and crawl folders.
func (g *grammar) runDerive(ctx context.Context, std *cli.Std, format derive.Format) error {
	if g.Output == "" || g.Output == "-" {
		if err := std.RefuseTerminal("WARC files are"); err != nil {
			return err
		}
		return g.derive(ctx, std, std.Out, format)
	}
	file, err := durable.CreateOutput(g.Output)
	if err != nil {
		return err
	}
	defer file.Abort()
	if err := g.derive(ctx, std, file, format); err != nil {
		return err
	}
	return file.Commit()
}

func (g *grammar) derive(ctx context.Context, std *cli.Std, to io.Writer, format derive.Format) error {
	out := bufio.NewWriterSize(to, 64<<10)
	w := derive.NewWriter(out, g.Head, derive.Options{Format: format, Software: "mercator"})
	files := g.Files
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		if name == "-" {
			if err := w.File(ctx, std.In, "standard input"); err != nil {
				return err
			}
			continue
		}
		if store.IsCrawl(name, store.Options{}) {
			name = filepath.Join(name, "fetch")
		}
		parts, err := fetch.Saved([]string{name}, store.Options{})
		if err != nil {
			return err
		}
		for _, part := range parts {
			if err := derivePart(ctx, w, part); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

func derivePart(ctx context.Context, w *derive.Writer, part warc.Part) error {
	f, length, err := part.Open()
	if err != nil {
		return err
	}
	defer f.Close() // was read only
	return w.File(ctx, io.NewSectionReader(f, 0, length), strings.TrimSuffix(part.Path, ".open"))
}
