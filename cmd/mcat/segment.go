package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"mercator/formats/record"
	"mercator/formats/segment"
	"mercator/pkg/cli"
	"mercator/pkg/fault"
)

// showSegment shows a queue file of a frontier as url rows, or its hosts or
// domains.
func (p *printer) showSegment(ctx context.Context, in *input) error {
	if p.g.Trailer || p.g.Format == "cdxj" {
		return p.reject(in, "a segment")
	}
	size, err := in.size("a segment")
	if err != nil {
		return err
	}
	entries, err := segment.Open[segment.Entry](in.file, size, in.opt.Name)
	if err == nil {
		s := &record.Schema{Kind: record.KindURL}
		p.files++
		line, err := lineOf[record.URL](p, s)
		if err != nil {
			return err
		}
		return scanSegment(ctx, p, entries, func(b []byte, e *segment.Entry) []byte { return line(b, &e.URL) })
	}
	if !errors.Is(err, fault.WrongKind) {
		return err
	}
	if p.g.Columns != nil || p.g.Format == "tsv" {
		return p.reject(in, "a segment of hosts or domains")
	}
	hosts, err := segment.Open[segment.Host](in.file, size, in.opt.Name)
	if err == nil {
		return scanSegment(ctx, p, hosts, func(b []byte, h *segment.Host) []byte { return p.object(b, h.Host, h) })
	}
	if !errors.Is(err, fault.WrongKind) {
		return err
	}
	domains, err := segment.Open[segment.Domain](in.file, size, in.opt.Name)
	if err != nil {
		return err
	}
	return scanSegment(ctx, p, domains, func(b []byte, d *segment.Domain) []byte { return p.object(b, d.Domain, d) })
}

// object shows what has no columns: its name, or all of it as JSON.
func (p *printer) object(b []byte, name string, v json.Marshaler) []byte {
	if p.g.Format == "text" {
		return record.AppendEscaped(b, name)
	}
	doc, err := v.MarshalJSON()
	if err != nil {
		panic(err) // numbers and strings only
	}
	return append(b, cli.Printable(string(doc))...)
}

func scanSegment[T segment.Row](ctx context.Context, p *printer, r *segment.Reader[T], line func([]byte, *T) []byte) error {
	p.total += r.Rows()
	switch {
	case p.g.Check:
		return r.Verify()
	case p.g.Count:
		return nil
	}
	rows := r.Scan(segment.Start)
	var row T
	for n := 0; !p.full(); n++ {
		if n%cancelEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := rows.Next(&row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		p.progress.Add(1)
		if err := p.put(line(p.line[:0], &row)); err != nil {
			return err
		}
	}
	return nil
}
