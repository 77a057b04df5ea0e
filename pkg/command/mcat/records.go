package mcat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/linkkind"
)

// runRecords makes one record stream, or plain Arrow, of record streams.
func (g *grammar) runRecords(ctx context.Context, std *cli.Std) error {
	in, err := cli.OpenSource(std, g.Files, g.Rows)
	if err != nil {
		return err
	}
	return record.ByKind(in.Kind(),
		func() error { return copyRecords[record.URL](ctx, g, std, in) },
		func() error { return copyRecords[record.Fetch](ctx, g, std, in) },
		func() error { return copyRecords[record.Link](ctx, g, std, in) },
		func() error { return copyRecords[record.Module](ctx, g, std, in) })()
}

func copyRecords[T record.Row](ctx context.Context, g *grammar, std *cli.Std, from *cli.Records) error {
	in, err := cli.RowsOf[T](from)
	if err != nil {
		return err
	}
	return writeRecords(ctx, g, std, in)
}

// writeRecords copies rows to the output, as a stage of its own; rows beyond
// --head are read and dropped, so that the input is known to be whole.
func writeRecords[T record.Row](ctx context.Context, g *grammar, std *cli.Std, in stage.Input[T]) error {
	if g.Bare {
		return writeBare(ctx, g, std, in)
	}
	sinks, err := std.Sinks(cli.Output{Output: g.Output})
	if err != nil {
		return err
	}
	progress := g.startProgress(std)
	defer progress.Done()
	spec := stage.Spec{Name: "mcat", Txn: in.Schema().Txn}
	return cli.RunStage(ctx, std, spec, stage.Input[T](ofNoEpoch[T]{in}), sinks, func(ctx context.Context, b *stage.Batch[T, T]) error {
		var row T
		for n := uint64(0); ; n++ {
			if err := b.Read(&row); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			progress.Add(1)
			if g.Head > 0 && n >= g.Head {
				b.Drop("head")
				continue
			}
			if err := b.Pass(&row); err != nil {
				return err
			}
		}
	})
}

// ofNoEpoch is an input for any crawl: what is made of its rows says of no epoch.
type ofNoEpoch[T record.Row] struct{ stage.Input[T] }

func (in ofNoEpoch[T]) Schema() *record.Schema {
	s := *in.Input.Schema()
	s.Epoch = ""
	return &s
}

// writeBare writes plain Arrow.
func writeBare[T record.Row](ctx context.Context, g *grammar, std *cli.Std, in stage.Input[T]) error {
	progress := g.startProgress(std)
	defer progress.Done()
	if g.Output != "" && g.Output != "-" {
		file, err := durable.CreateOutput(g.Output)
		if err != nil {
			return err
		}
		defer file.Abort()
		if err := copyBare(ctx, g, file, 0, in, progress); err != nil {
			return err
		}
		return file.Commit()
	}
	if err := std.RefuseTerminal("plain Arrow is"); err != nil {
		return err
	}
	return copyBare(ctx, g, std.Out, time.Second, in, progress)
}

// copyBare writes plain Arrow. A row waits for its batch that long at most; 0: any time.
func copyBare[T record.Row](ctx context.Context, g *grammar, out io.Writer, wait time.Duration, in stage.Input[T], progress *cli.Progress) error {
	s := in.Schema()
	w, err := record.NewWriter[T](out, record.WriterOptions{Level: record.Bare, FlushAfter: wait, Like: s, Txn: s.Txn, Now: s.Now})
	if err != nil {
		return err
	}
	var row T
	for n := uint64(0); ; n++ {
		if n%cancelEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := in.Read(&row); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		progress.Add(1)
		if g.Head > 0 && n >= g.Head {
			continue
		}
		if err := w.Write(&row); err != nil {
			return err
		}
	}
	_, _, err = w.Finish()
	return err
}

// runFrom makes a record stream of text.
func (g *grammar) runFrom(ctx context.Context, std *cli.Std) error {
	if g.Format != "json" || g.Columns != nil {
		return usage("--format or --columns with --from", "neither: the output is a record stream")
	}
	like := likeFile{kind: record.Kind(g.Kind), schema: &record.Schema{Kind: record.Kind(g.Kind)}}
	if g.Like != "" {
		if err := like.read(ctx, std, g.Like); err != nil {
			return err
		}
		if kind := record.Kind(g.Kind); kind != "" && kind != like.kind {
			s := like.schema
			like.kind, like.other = kind, true
			like.schema = &record.Schema{Kind: kind, Now: s.Now, Txn: s.Txn, Epoch: s.Epoch}
		}
	}
	if like.kind == "" {
		return usage("--from without --kind", "--kind url, fetch, link or module, or --like FILE")
	}
	return record.ByKind(like.kind,
		func() error { return fromText[record.URL](ctx, g, std, like) },
		func() error { return fromText[record.Fetch](ctx, g, std, like) },
		func() error { return fromText[record.Link](ctx, g, std, like) },
		func() error { return fromText[record.Module](ctx, g, std, like) })()
}

// likeFile is the file of --like: it describes the rows that the text was made from.
type likeFile struct {
	kind    record.Kind
	schema  *record.Schema
	trailer *record.Trailer // nil without --like
	other   bool            // the rows of --like are of another kind than the rows of the text
}

func (l *likeFile) read(ctx context.Context, std *cli.Std, name string) error {
	in, err := cli.OpenSource(std, []string{name}, cli.Outcomes)
	if err != nil {
		return err
	}
	l.kind = in.Kind()
	return record.ByKind(l.kind,
		func() error { return drain[record.URL](ctx, l, in) },
		func() error { return drain[record.Fetch](ctx, l, in) },
		func() error { return drain[record.Link](ctx, l, in) },
		func() error { return drain[record.Module](ctx, l, in) })()
}

func drain[T record.Row](ctx context.Context, l *likeFile, from *cli.Records) error {
	in, err := cli.RowsOf[T](from)
	if err != nil {
		return err
	}
	if err := record.Each(in, func(*T) error { return nil }); err != nil {
		return err
	}
	t := in.Trailer()
	l.schema, l.trailer = in.Schema(), &t
	return ctx.Err()
}

func fromText[T record.Row](ctx context.Context, g *grammar, std *cli.Std, like likeFile) error {
	s := *like.schema
	form, err := g.Canon()
	if err != nil {
		return err
	}
	t := &textRows[T]{g: g, std: std, like: like, schema: &s, files: g.Files, form: form}
	if len(t.files) == 0 {
		t.files = []string{"-"}
	}
	defer t.close()
	return writeRecords[T](ctx, g, std, t)
}

// textRows is a stage.Input of rows as text.
type textRows[T record.Row] struct {
	g      *grammar
	std    *cli.Std
	like   likeFile
	schema *record.Schema
	files  []string
	form   canon.Options
	in     *input
	text   *record.TextReader[T]
	sum    record.RowHasher[T]
}

func (t *textRows[T]) Schema() *record.Schema { return t.schema }

func (t *textRows[T]) close() {
	if t.in != nil {
		t.in.close()
		t.in = nil
	}
}

// next opens the next file.
func (t *textRows[T]) next() error {
	if len(t.files) == 0 {
		return io.EOF
	}
	in, err := open(t.std, t.files[0])
	if err != nil {
		return err
	}
	t.in, t.files = in, t.files[1:]
	t.text = record.NewTextReader[T](in, t.g.From, t.schema)
	return nil
}

func (t *textRows[T]) bad(err error) error {
	bad := &fault.Error{Class: fault.Corrupt, File: t.in.opt.Name, Place: fmt.Sprintf("line %d", t.text.Line()), Found: err.Error(), Err: err}
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		bad.Hint = e.Hint
	}
	return bad
}

func (t *textRows[T]) Read(row *T) error {
	for {
		if t.in == nil {
			if err := t.next(); err != nil {
				return err
			}
		}
		bad, err := t.text.Read(row)
		if err == io.EOF {
			t.close()
			continue
		}
		if err = errors.Join(bad, err); err == nil {
			err = complete(row, t.form)
		}
		if err != nil {
			return t.bad(err)
		}
		t.sum.Add(row)
		return nil
	}
}

// complete makes the columns that follow from the URL where a line lacks them.
func complete[T record.Row](row *T, form canon.Options) error {
	fetched := form
	fetched.URLRules = 0 // what was fetched is not rewritten: links are relative to it
	switch r := any(row).(type) {
	case *record.URL:
		return completeURL(&r.URL, &r.Host, &r.Key, form)
	case *record.Fetch:
		return completeURL(&r.URL, &r.Host, &r.Key, fetched)
	case *record.Link:
		if r.SrcURL != "" && r.SrcKey == 0 {
			var host string
			if err := completeURL(&r.SrcURL, &host, &r.SrcKey, fetched); err != nil {
				return err
			}
		}
		if r.LinkKind == linkkind.Redirect && r.SrcURL != "" && r.Key == 0 {
			u, host, key, err := form.Redirect(r.SrcURL, r.URL)
			if err != nil {
				return fmt.Errorf("url %q: %w", r.URL, err)
			}
			r.URL, r.Host, r.Key = u, host, key
			return nil
		}
		return completeURL(&r.URL, &r.Host, &r.Key, form)
	}
	return nil
}

func completeURL(url, host *string, key *uint64, form canon.Options) error {
	if *host != "" && *key != 0 {
		return nil
	}
	c, h, err := form.URL(*url)
	if err != nil {
		return fmt.Errorf("url %q: %w", *url, err)
	}
	*url, *host, *key = c, h, form.URLKey(h, c)
	return nil
}

// Trailer says what is known of the rows: with --stage, that a program of that
// name made them, of the rows of --like if that was given.
func (t *textRows[T]) Trailer() record.Trailer {
	rows, hash := t.sum.Sum()
	end := record.Trailer{Verified: true, Rows: rows, Hash: hash, Txn: t.schema.Txn}
	if t.g.Stage == "" {
		return end
	}
	s := record.Stage{Name: t.g.Stage, Txn: t.schema.Txn, Out: rows, OutHash: hash.String()}
	if before := t.like.trailer; before != nil {
		end.Ledger = before.Ledger
		s.In, s.InHash = before.Rows, before.Hash.String()
		if t.like.other {
			s.Consumed = s.In
		} else {
			s.Passed = min(s.In, rows)
		}
		if n := s.In - s.Passed - s.Consumed; n > 0 {
			s.Drops = []record.Count{{Reason: t.g.Stage, N: n}}
		}
	}
	if n := rows - s.Passed; n > 0 {
		s.Made = []record.Count{{Reason: t.g.Stage, N: n}}
	}
	end.Ledger.Stages = append(append([]record.Stage(nil), end.Ledger.Stages...), s)
	return end
}
