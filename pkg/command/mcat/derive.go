package mcat

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/fetch"
	"mercator/pkg/view/derive"
)

// runDerive writes a WET or WAT file of WARC files, fetch stores and crawl folders.
func (g *grammar) runDerive(ctx context.Context, std *cli.Std, format derive.Format) error {
	if g.Output == "" || g.Output == "-" {
		if err := std.RefuseTerminal("WARC files are"); err != nil {
			return err
		}
	}
	lax := std.Tolerance(g.ArchiveFlags, false)
	if err := g.output(std, func(to io.Writer) error { return g.derive(ctx, std, to, format, lax) }); err != nil {
		return err
	}
	return lax.Err() // what could be read is written
}

// output gives write standard output, or the file of -o, which appears complete or not at all.
func (g *grammar) output(std *cli.Std, write func(io.Writer) error) error {
	if g.Output == "" || g.Output == "-" {
		return write(std.Out)
	}
	return durable.WriteOutputBy(g.Output, write)
}

func (g *grammar) derive(ctx context.Context, std *cli.Std, to io.Writer, format derive.Format, lax *warc.Tolerance) error {
	progress := g.startProgress(std)
	defer progress.Done()
	out := bufio.NewWriterSize(to, 64<<10)
	opt := derive.Options{Format: format, Software: "mercator", Threads: std.Threads(), Progress: progress.Add}
	w := derive.NewWriter(out, g.Head, opt)
	files := g.Files
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		if name == "-" {
			in := bufio.NewReaderSize(std.In, 64<<10)
			if err := refuseOurs(in, "standard input"); err != nil {
				if err := g.skip(lax, err); err != nil {
					return err
				}
				continue
			}
			w.Tolerate(lax)
			if err := w.File(ctx, in, "standard input"); err != nil {
				return err
			}
			continue
		}
		parts, err := fetch.Saved([]string{name}, store.Options{})
		if err != nil {
			return err
		}
		for _, part := range parts {
			of := lax
			if part.Length >= 0 {
				of = nil // a store's
			}
			w.Tolerate(of)
			if err := g.derivePart(ctx, w, part, of); err != nil {
				return err
			}
		}
	}
	if err := lax.Nothing(); err != nil {
		return err
	}
	if !w.Replies() {
		std.Warn("no reply in it, and so no page: WET and WAT files have none")
	}
	return out.Flush()
}

// isArchive reports whether all files are crawl folders or fetch stores. For these
// --format cdxj is the sorted index of what is committed.
func (g *grammar) isArchive() bool {
	for _, name := range g.Files {
		if st, err := os.Stat(name); err != nil || !st.IsDir() {
			return false
		}
	}
	return len(g.Files) > 0
}

// index writes the sorted index of an archive.
func (g *grammar) index(ctx context.Context, std *cli.Std, to io.Writer) error {
	progress := g.startProgress(std)
	defer progress.Done()
	parts, err := fetch.Saved(g.Files, store.Options{})
	if err != nil {
		return err
	}
	x := derive.NewIndex(std.MemoryLimit()/2, "")
	defer x.Close()
	for _, part := range parts {
		if err := x.Part(ctx, part, progress.Add); err != nil {
			return err
		}
	}
	out := bufio.NewWriterSize(to, 64<<10)
	lines := uint64(0)
	err = x.Lines(func(line []byte) error {
		if lines++; g.Head > 0 && lines > g.Head {
			return nil
		}
		_, err := out.Write(append(printable(bytes.TrimSuffix(line, []byte("\n"))), '\n'))
		return err
	})
	return errors.Join(err, out.Flush())
}

// skip counts a file that is no archive among several. It returns the error if that is to end reading.
func (g *grammar) skip(lax *warc.Tolerance, err error) error {
	if len(g.Files) < 2 {
		return err
	}
	return lax.Skip(err)
}

func (g *grammar) derivePart(ctx context.Context, w *derive.Writer, part warc.Part, lax *warc.Tolerance) error {
	f, length, err := part.Open()
	if err != nil {
		return err
	}
	defer f.Close() // was read only
	if part.Length == 0 {
		return nil // a store's, without committed bytes
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, length), 64<<10)
	if err := refuseOurs(in, part.Path); err != nil {
		return g.skip(lax, err)
	}
	return w.File(ctx, in, strings.TrimSuffix(part.Path, ".open"))
}

// refuseOurs returns a fault for a file of the toolkit that is no WARC file.
func refuseOurs(in *bufio.Reader, name string) error {
	kind := sniff(in, name)
	if kind == warcs {
		return nil
	}
	head, _ := in.Peek(in.Buffered())
	if kind == records { // or what is not known, which the reader of WARC files judges
		if _, err := record.Open(bytes.NewReader(head), record.ReaderOptions{Name: name}); err != nil {
			return warc.Misfit(head, name, "WARC files, a fetch store or a crawl folder")
		}
	}
	return &fault.Error{Class: fault.WrongKind, File: name, Found: "no WARC file", Want: "WARC files, a fetch store or a crawl folder"}
}
