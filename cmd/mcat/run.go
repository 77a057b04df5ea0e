package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/pkg/cli"
	"mercator/pkg/fault"
	"mercator/pkg/frontier"
)

// showRun shows a run: a queue of a frontier as url rows, its hosts and domains as JSON, keys and
// payloads of other kinds in hex.
func (p *printer) showRun(ctx context.Context, in *input) error {
	if p.g.Trailer || p.g.Format == "cdxj" {
		return p.reject(in, "a run")
	}
	size, err := in.size("a run")
	if err != nil {
		return err
	}
	r, err := run.Open(in.file, size, in.opt.Name, "")
	if err != nil {
		return err
	}
	if r.Kind() != frontier.KindQueue && (p.g.Columns != nil || p.g.Format == "tsv") {
		return p.reject(in, "a run of "+r.Kind())
	}
	p.total += r.Rows()
	switch {
	case p.g.Count:
		return nil
	case p.g.Check:
		if err := r.Verify(); err != nil {
			return err
		}
	}
	show, err := p.rowLine(r.Kind())
	if err != nil {
		return err
	}
	rows, row := r.Scan(run.Start), frontier.NewRow(r.Kind())
	for n := 0; p.g.Check || !p.full(); n++ {
		if n%cancelEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		key, payload, err := rows.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil && row != nil {
			err = row.Parse(key, payload)
		}
		if e, ok := err.(*fault.Error); ok && e.File == "" {
			e.File, e.Place = in.opt.Name, fmt.Sprintf("row %d", n)
		}
		if err != nil {
			return err
		}
		p.progress.Add(1)
		if p.g.Check {
			continue
		}
		if err := p.put(show(p.line[:0], row, key, payload)); err != nil {
			return err
		}
	}
	return nil
}

// rowLine returns what appends a row of a kind as a line; row is nil where the frontier does not know the kind.
func (p *printer) rowLine(kind string) (func(b []byte, row frontier.Row, key uint64, payload []byte) []byte, error) {
	var url func([]byte, *record.URL) []byte
	if kind == frontier.KindQueue && !p.g.Check {
		var err error
		p.files++
		if url, err = lineOf[record.URL](p, &record.Schema{Kind: record.KindURL}); err != nil {
			return nil, err
		}
	}
	return func(b []byte, row frontier.Row, key uint64, payload []byte) []byte {
		switch r := row.(type) {
		case *frontier.Entry:
			return url(b, &r.URL)
		case *frontier.Host:
			return p.object(b, r.Host, r)
		case *frontier.Domain:
			return p.object(b, r.Domain, r)
		}
		if p.g.Format == "text" {
			return fmt.Appendf(b, "%016x %x", key, payload)
		}
		return fmt.Appendf(b, `{"key":"%016x","payload":"%x"}`, key, payload)
	}, nil
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
