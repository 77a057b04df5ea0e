package mcat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/fetch"
	"mercator/pkg/frontier"
	"mercator/pkg/render"
	"mercator/pkg/resolve"
)

// showRun shows a run: a queue of a frontier as url rows; its hosts and domains, answers of name servers, payloads that mfetch knows, and
// what mrender keeps, as JSON; keys and payloads of other kinds in hex.
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
	if r.Kind() != frontier.KindQueue && (p.g.Columns != nil || p.g.Format == "tsv" || p.g.Format == "csv") {
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
	rows, row := r.Scan(run.Start), newRow(r.Kind())
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

// parser is a row that is read from a key and its payload.
type parser interface {
	Parse(key uint64, payload []byte) error
}

// newRow returns a row for runs of a kind, nil for a kind that is not known.
func newRow(kind string) parser {
	switch kind {
	case resolve.KindAnswers:
		return new(answer)
	case fetch.KindPayloads:
		return new(fetch.Payload)
	case render.KindParts:
		return new(render.Part)
	case render.KindPages:
		return new(render.Waiting)
	}
	if row := frontier.NewRow(kind); row != nil {
		return row
	}
	return nil
}

// answer is the saved answer for a name.
type answer struct {
	Host    string `json:"host"`
	Addr    string `json:"addr"`
	Failure string `json:"addr_error"`
	Expires int64  `json:"addr_expires"` // microseconds since 1970
	CNAME   string `json:"canonical"`    // the name that it is an alias of
	Family  uint8  `json:"family"`       // 4 or 6 where only such addresses were asked for
}

// Parse implements parser.
func (a *answer) Parse(_ uint64, payload []byte) error {
	var u record.URL
	if n, err := record.ViewRow(payload, &u, nil); err != nil || n != len(payload) {
		return &fault.Error{Class: fault.Corrupt, Found: "an answer that does not decode"}
	}
	*a = answer{u.Host, u.Addr, u.AddrError, int64(u.AddrExpires), u.Via, u.Priority}
	return nil
}

// rowLine returns what appends a row of a kind as a line; row is nil for a kind that is not known.
func (p *printer) rowLine(kind string) (func(b []byte, row parser, key uint64, payload []byte) []byte, error) {
	var url func([]byte, *record.URL) []byte
	if kind == frontier.KindQueue && !p.g.Check {
		var err error
		p.files++
		if url, err = lineOf[record.URL](p, &record.Schema{Kind: record.KindURL}, "-"); err != nil {
			return nil, err
		}
	}
	return func(b []byte, row parser, key uint64, payload []byte) []byte {
		switch r := row.(type) {
		case *frontier.Entry:
			return url(b, &r.URL)
		case *frontier.Host:
			return p.object(b, r.Host, r)
		case *frontier.Domain:
			return p.object(b, r.Domain, r)
		case *answer:
			return p.object(b, r.Host, r)
		case *fetch.Payload:
			return p.object(b, r.URL, r)
		case *render.Part:
			return p.object(b, r.File, r)
		case *render.Waiting:
			return p.object(b, cmp.Or(r.URL, r.Host), r)
		}
		if p.g.Format == "text" {
			return fmt.Appendf(b, "%016x %x", key, payload)
		}
		return fmt.Appendf(b, `{"key":"%016x","payload":"%x"}`, key, payload)
	}, nil
}

// object shows what has no columns: its name, or all of it as JSON.
func (p *printer) object(b []byte, name string, v any) []byte {
	if p.g.Format == "text" {
		return record.AppendEscaped(b, name)
	}
	var doc bytes.Buffer
	to := json.NewEncoder(&doc)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil {
		panic(err) // numbers and strings only
	}
	return append(b, cli.Printable(string(bytes.TrimSpace(doc.Bytes())))...)
}
