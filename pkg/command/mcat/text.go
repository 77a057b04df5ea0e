package mcat

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/view/derive"
)

// input is one opened file.
type input struct {
	*bufio.Reader
	file *os.File // nil if it is not one
	opt  record.ReaderOptions
}

func (in *input) close() {
	if in.file != nil {
		in.file.Close()
	}
}

func open(std *cli.Std, name string) (*input, error) {
	in, opt, err := std.Open(name)
	if err != nil {
		return nil, err
	}
	file, _ := in.(*os.File)
	return &input{bufio.NewReaderSize(in, 64<<10), file, opt}, nil
}

// prompt is a reader that flushes the output before it waits for more input.
type prompt struct {
	from io.Reader
	out  *bufio.Writer
}

func (p prompt) Read(b []byte) (int, error) {
	p.out.Flush() // an error is met again by who writes
	return p.from.Read(b)
}

// size of a file that is read from its end; what is its kind.
func (in *input) size(what string) (int64, error) {
	if in.file == nil || in.opt.Pipe {
		return 0, &fault.Error{Class: fault.Usage, File: in.opt.Name, Found: what + " on a pipe", Want: "its name", Hint: "its index stands at its end, so it is read from a file"}
	}
	st, err := in.file.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// fileKind is a kind of file that mcat knows.
type fileKind int

const (
	records fileKind = iota // also any unknown file: record.Open refuses it
	warcs
	fingerprints
	runs
	manifest
)

const manifestMagic = "mercator-store-manifest "

// sniff tells the kind by the first bytes. It waits for no more than the first
// write to a pipe.
func sniff(in *bufio.Reader, name string) fileKind {
	in.Peek(1)
	b, _ := in.Peek(in.Buffered())
	switch {
	case warc.Sniff(b):
		return warcs
	case bytes.HasPrefix(b, []byte("\x89FPS")):
		return fingerprints
	case bytes.HasPrefix(b, []byte("MSORTRUN")):
		return runs
	case bytes.HasPrefix(b, []byte(manifestMagic)):
		return manifest
	case len(b) > 0 && warc.Named(name) && warc.Describe(b) == "":
		return warcs // a WARC file with a damaged beginning
	}
	return records
}

// printer shows files as text.
type printer struct {
	g     *grammar
	std   *cli.Std
	out   *bufio.Writer
	line  []byte
	left  uint64 // rows that may still be shown
	total uint64 // for --count
	kind  record.Kind
	files int // record streams shown so far

	columns []string    // of a table: the columns of its first file
	table   *csv.Writer // makes a line of CSV in cell
	cell    bytes.Buffer

	progress *cli.Progress
	lax      *warc.Tolerance // for archives
}

// full says that --head has been reached.
func (p *printer) full() bool { return p.g.Head > 0 && p.left == 0 }

// put writes one line and counts it against --head.
func (p *printer) put(line []byte) error {
	p.left--
	p.line = append(line, '\n')
	_, err := p.out.Write(p.line)
	return err
}

func (g *grammar) runText(ctx context.Context, std *cli.Std) error {
	p := &printer{g: g, std: std, left: g.Head, progress: g.startProgress(std), lax: std.Tolerance(g.ArchiveFlags, g.Check)}
	defer p.progress.Done()
	err := g.output(std, func(to io.Writer) error {
		p.out = bufio.NewWriterSize(to, 64<<10)
		return p.all(ctx)
	})
	if err != nil {
		return err
	}
	return p.lax.Err() // what could be read is shown
}

// all shows all files. What was read before an error is still printed.
func (p *printer) all(ctx context.Context) error {
	files := p.g.Files
	if len(files) == 0 {
		files = []string{"-"}
	}
	files, err := p.std.RecordFiles(files, p.g.Rows)
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if p.full() {
			break
		}
		in, err := open(p.std, name)
		if err == nil {
			if in.opt.Pipe {
				in.Reader = bufio.NewReaderSize(prompt{in.Reader, p.out}, 64<<10)
			}
			err = p.show(ctx, in)
			in.close()
		}
		if err != nil {
			p.out.Flush()
			return err
		}
	}
	if p.g.Count {
		fmt.Fprintln(p.out, p.total)
	}
	return errors.Join(p.out.Flush(), p.lax.Nothing())
}

func (p *printer) show(ctx context.Context, in *input) error {
	kind := sniff(in.Reader, in.opt.Name)
	if p.g.Format == "csv" && kind != records && kind != runs {
		return &fault.Error{Class: fault.WrongKind, File: in.opt.Name, Found: "no rows", Want: "rows for --format csv", Hint: "--format tsv has a line for each of what is in it"}
	}
	switch kind {
	case warcs:
		return p.showWARC(ctx, in)
	case fingerprints:
		return p.showFingerprints(ctx, in)
	case runs:
		return p.showRun(ctx, in)
	case manifest:
		return p.showManifest(in)
	}
	front, _ := in.Peek(min(in.Buffered(), 4<<10))
	front = bytes.Clone(front)
	src, err := record.Open(in, in.opt)
	if err != nil {
		err = cmp.Or(warc.Misfit(front, in.opt.Name, "a file of the toolkit, or WARC or ARC records"), err)
		if p.g.Format == "cdxj" { // of archives
			return p.g.skip(p.lax, err)
		}
		return err
	}
	if p.files++; p.files > 1 && src.Kind() != p.kind && (p.g.Format == "tsv" || p.g.Format == "csv") {
		return &fault.Error{Class: fault.WrongKind, File: in.opt.Name, Found: fmt.Sprintf("rows of kind %s behind rows of kind %s", src.Kind(), p.kind), Want: "one kind in a table"}
	}
	p.kind = src.Kind()
	return record.ByKind(src.Kind(),
		func() error { return showRows[record.URL](ctx, p, src, in.opt.Name) },
		func() error { return showRows[record.Fetch](ctx, p, src, in.opt.Name) },
		func() error { return showRows[record.Link](ctx, p, src, in.opt.Name) },
		func() error { return showRows[record.Module](ctx, p, src, in.opt.Name) })()
}

// cancelEvery is how many rows pass between looks at the context.
const cancelEvery = 4096

func showRows[T record.Row](ctx context.Context, p *printer, src *record.Source, name string) error {
	rows, err := record.Rows[T](src)
	if err != nil {
		return err
	}
	line, err := lineOf[T](p, rows.Schema(), name)
	if err != nil {
		return err
	}
	var row T
	for n := 0; ; n++ {
		if n%cancelEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.full() {
			return nil
		}
		if err := rows.Read(&row); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		p.progress.Add(1)
		if line == nil {
			continue
		}
		b := line(p.line[:0], &row)
		if len(b) == 0 {
			continue
		}
		if err := p.put(b); err != nil {
			return err
		}
	}
	t := rows.Trailer()
	p.total += t.Rows
	if p.g.Trailer {
		return p.showTrailer(rows.Schema(), t, name)
	}
	if !t.Verified && !p.g.Check {
		p.std.Warn("%s: plain Arrow: nothing in it says whether it is whole", name)
	}
	return nil
}

// roundOf returns the round that a file belongs to by its path, rounds/NAME/FILE; else "".
func roundOf(file string) string {
	path, err := filepath.Abs(file)
	dir := filepath.Dir(path)
	if err != nil || file == "-" || filepath.Base(filepath.Dir(dir)) != "rounds" {
		return ""
	}
	return filepath.Base(dir)
}

// lineOf returns the function that makes a line of a row of a file; nil if none is shown.
func lineOf[T record.Row](p *printer, s *record.Schema, file string) (func([]byte, *T) []byte, error) {
	g := p.g
	if g.Count || g.Check || g.Trailer {
		return nil, nil
	}
	columns := g.Columns
	if table := g.Format == "tsv" || g.Format == "csv"; table && p.files > 1 {
		columns = p.columns
	}
	x, err := record.NewText[T](s, columns)
	if err != nil {
		return nil, err
	}
	if round := roundOf(file); round != "" && !g.Canonical {
		x.InRound(round)
	}
	if p.files == 1 {
		p.columns = x.Columns()
	}
	switch {
	case g.Canonical:
		return func(b []byte, row *T) []byte { return x.AppendJSON(b, row, true) }, nil
	case g.Format == "json":
		return func(b []byte, row *T) []byte { return x.AppendJSON(b, row, false) }, nil
	case g.Format == "tsv":
		if p.files == 1 {
			if _, err := fmt.Fprintln(p.out, strings.Join(x.Columns(), "\t")); err != nil {
				return nil, err
			}
		}
		return x.AppendTSV, nil
	case g.Format == "csv":
		return lineOfCSV(p, x)
	case g.Format == "cdxj":
		if s.Kind != record.KindFetch {
			return nil, &fault.Error{Class: fault.WrongKind, Found: fmt.Sprintf("%s rows", s.Kind), Want: "fetch rows or WARC files for --format cdxj"}
		}
		return func(b []byte, row *T) []byte { return printable(derive.AppendRowCDXJ(b, any(row).(*record.Fetch))) }, nil
	}
	return func(b []byte, row *T) []byte {
		switch r := any(row).(type) {
		case *record.URL:
			return record.AppendEscaped(b, r.URL)
		case *record.Fetch:
			return record.AppendEscaped(b, r.URL)
		case *record.Link:
			return record.AppendEscaped(b, r.URL)
		case *record.Module:
			return record.AppendEscaped(b, r.Value)
		}
		return b
	}, nil
}

// lineOfCSV writes the names of the columns, and returns what makes a record of a row. On a terminal it
// has no control characters.
func lineOfCSV[T record.Row](p *printer, x *record.Text[T]) (func([]byte, *T) []byte, error) {
	if p.table == nil {
		p.table = csv.NewWriter(&p.cell)
	}
	shown := (p.g.Output == "" || p.g.Output == "-") && p.std.OnTerminal()
	line := func(cells []string) []byte {
		for i := range cells {
			if shown {
				cells[i] = cli.Printable(cells[i])
			}
			cells[i] = record.CSVCell(cells[i])
		}
		p.cell.Reset()
		p.table.Write(cells) // to memory
		p.table.Flush()
		return bytes.TrimSuffix(p.cell.Bytes(), []byte("\n"))
	}
	if p.files == 1 {
		if _, err := fmt.Fprintf(p.out, "%s\n", line(x.Columns())); err != nil {
			return nil, err
		}
	}
	var cells []string
	return func(b []byte, row *T) []byte {
		cells = x.AppendCells(cells[:0], row)
		return append(b, line(cells)...)
	}, nil
}

// trailerText is the output of --trailer.
type trailerText struct {
	File     string        `json:"file"`
	Kind     record.Kind   `json:"kind"`
	Verified bool          `json:"verified"`
	Rows     uint64        `json:"rows"`
	Hash     string        `json:"hash"`
	Txn      string        `json:"txn,omitempty"`
	Now      string        `json:"now,omitempty"` // the round's clock
	Balanced bool          `json:"balanced"`
	Gap      string        `json:"gap,omitempty"`
	Ledger   record.Ledger `json:"ledger"`
}

func (p *printer) showTrailer(s *record.Schema, t record.Trailer, name string) error {
	text := trailerText{File: name, Kind: s.Kind, Verified: t.Verified, Rows: t.Rows, Hash: t.Hash.String(), Txn: t.Txn, Balanced: true, Ledger: t.Ledger}
	if s.Now != 0 {
		text.Now = s.Now.Go().Format(time.RFC3339Nano)
	}
	if err := t.Ledger.Balance(); err != nil {
		text.Balanced, text.Gap = false, err.Error()
	}
	return p.putJSON(text)
}

// putJSON writes a value as one line, without control characters.
func (p *printer) putJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return p.put([]byte(cli.Printable(strings.TrimSuffix(b.String(), "\n"))))
}

// printable takes control characters out of a line.
func printable(line []byte) []byte { return []byte(cli.Printable(string(line))) }

// reject refuses what a kind of file cannot give.
func (p *printer) reject(in *input, what string) error {
	return &fault.Error{Class: fault.WrongKind, File: in.opt.Name, Found: what, Want: "a record stream for this option"}
}

func (p *printer) showFingerprints(ctx context.Context, in *input) error {
	if p.g.Trailer || p.g.Columns != nil || p.g.Format == "cdxj" {
		return p.reject(in, "a fingerprint file")
	}
	size, err := in.size("a fingerprint file")
	if err != nil {
		return err
	}
	r, err := fpfile.Open(in.file, size, in.opt.Name)
	if err != nil {
		return err
	}
	p.total += r.Count()
	switch {
	case p.g.Check:
		return r.Check(nil)
	case p.g.Count:
		return nil
	}
	for it := r.All(); !p.full(); {
		keys, err := it.Block()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.progress.Add(int64(len(keys)))
		for _, k := range keys {
			if p.full() {
				break
			}
			line := fmt.Appendf(p.line[:0], "%016x", k)
			if p.g.Format == "json" && !p.g.Canonical {
				line = fmt.Appendf(p.line[:0], `{"fp":"%016x"}`, k)
			}
			if err := p.put(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// manifestMax bounds a manifest's file, in bytes; formats/store has a tighter bound.
const manifestMax = 256 << 20

func (p *printer) showManifest(in *input) error {
	if p.g.Trailer || p.g.Columns != nil || p.g.Format == "cdxj" {
		return p.reject(in, "a store manifest")
	}
	data, err := io.ReadAll(io.LimitReader(in, manifestMax))
	if err != nil {
		return err
	}
	m, err := store.DecodeManifest(in.opt.Name, data)
	if err != nil {
		return err
	}
	p.total += uint64(len(m.Files))
	if p.g.Count || p.g.Check {
		return nil
	}
	if p.g.Format == "json" {
		return p.putJSON(m)
	}
	for _, f := range m.Files {
		if p.full() {
			break
		}
		line := record.AppendEscaped(p.line[:0], f.Path)
		if p.g.Format == "tsv" {
			line = fmt.Appendf(line, "\t%s\t%d\t%s", f.Role, f.Length, f.Sum)
		}
		if err := p.put(line); err != nil {
			return err
		}
	}
	return nil
}

// warcText is a WARC record's line.
type warcText struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Date      string `json:"date"`
	TargetURI string `json:"target_uri,omitempty"`
	MediaType string `json:"content_type,omitempty"`
	Length    int64  `json:"content_length"`
	Offset    int64  `json:"offset"`
	Filename  string `json:"filename"`
}

func (p *printer) showWARC(ctx context.Context, in *input) error {
	if p.g.Trailer || p.g.Columns != nil {
		return p.reject(in, "a WARC file")
	}
	r := warc.NewReader(in, warc.ReaderOptions{Name: in.opt.Name, Verify: true, Tolerance: p.lax})
	defer r.Close()
	for !p.full() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rec, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return p.lax.Skip(err)
		}
		if p.g.Check {
			err = r.CheckPayload()
		}
		if err == nil && p.g.Format != "cdxj" { // which reads it
			err = r.Finish()
		}
		if err == nil && !p.g.Count && !p.g.Check {
			err = p.showWARCRecord(r, rec, in.opt.Name)
		}
		if err == nil {
			err = r.Finish()
		}
		if r.Damaged(err) {
			continue
		}
		if err != nil {
			return err
		}
		p.total++
		p.progress.Add(1)
	}
	return nil
}
