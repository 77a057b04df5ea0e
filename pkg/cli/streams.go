package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
	"mercator/pkg/folder/ownstage"
	"mercator/pkg/folder/stage"
)

const stdinName = "standard input"

// pipeFlush is how long a row may wait for its batch on a pipe.
const pipeFlush = time.Second

func isPipe(f any) bool {
	if p, ok := f.(peeked); ok {
		f = p.from
	}
	if _, ok := f.(*MemoryPipe); ok {
		return true
	}
	file, ok := fileOf(f)
	if !ok {
		return false
	}
	st, err := file.Stat()
	return err == nil && st.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0
}

// peeked is standard input after a look at its first bytes.
type peeked struct {
	*bufio.Reader
	from io.Reader
}

// PeekIn returns the first bytes of standard input, as many as one write to it
// brought and at most 64 KiB, and leaves them to be read; nil if it is a terminal.
func (s *Std) PeekIn() []byte {
	if isTerminal(s.In) {
		return nil
	}
	p, ok := s.In.(peeked)
	if !ok {
		widenPipe(s.In)
		p = peeked{bufio.NewReaderSize(s.In, 64<<10), s.In}
		s.In = p
	}
	p.Peek(1) // an error is met again by who reads
	head, _ := p.Peek(p.Buffered())
	return head
}

// Open opens one input; "-" is standard input, and no *os.File.
func (s *Std) Open(name string) (io.ReadCloser, record.ReaderOptions, error) {
	if name != "-" {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) && strings.Contains(name, "://") {
			return nil, record.ReaderOptions{}, &fault.Error{Class: fault.Usage, File: name, Found: "no such file", Want: "the name of a file",
				Hint: "a URL is given as a line of text: echo URL | …, with --text where a command has it", Err: err}
		}
		if err != nil {
			return nil, record.ReaderOptions{}, err
		}
		if err := RefuseFolder(f); err != nil {
			f.Close()
			return nil, record.ReaderOptions{}, err
		}
		return f, record.ReaderOptions{Name: name, Pipe: isPipe(f)}, nil
	}
	if isTerminal(s.In) {
		return nil, record.ReaderOptions{}, &fault.Error{
			Class: fault.Usage, File: stdinName, Found: "a terminal", Want: "a file or a pipe",
			Hint: "name input files, or pipe into it; see: " + s.Name + " --help",
		}
	}
	widenPipe(s.In)
	return io.NopCloser(s.In), record.ReaderOptions{Name: stdinName, Pipe: isPipe(s.In)}, nil
}

// RefuseFolder returns a fault if an input is a folder. A crawl that has lost CURRENT is one.
func RefuseFolder(f *os.File) error {
	if st, err := f.Stat(); err != nil || !st.IsDir() {
		return err
	}
	if err := store.MissingCurrent(durable.OS, f.Name()); err != nil {
		return err
	}
	e := &fault.Error{Class: fault.Usage, File: f.Name(), Found: "a folder", Want: "a file"}
	if crawl := filepath.Dir(filepath.Clean(f.Name())); store.IsCrawl(crawl, store.Options{}) {
		e.Hint = "name the crawl folder: " + crawl
		if by := map[string]string{"urls": "murlset dump", "content": "mfpset dump"}[filepath.Base(f.Name())]; by != "" {
			e.Hint += "; print this set: " + fault.Quote(append(strings.Fields(by), f.Name())...)
		}
	}
	return e
}

// Rows says which rows are meant where a crawl folder stands for the record files of its rounds.
type Rows string

// The rows that rounds keep.
const (
	Outcomes Rows = "outcomes" // what became of each URL
	Links    Rows = "links"    // links found and followed
	Refused  Rows = "refused"  // links that a rule refused
	New      Rows = "urls"     // URLs that were new to the set, where a round keeps them: seeds
	Findings Rows = "modules"  // of processing modules
)

// roundFiles are the names under which rounds keep rows.
var roundFiles = map[Rows]string{Outcomes: "marked", Links: "links", Refused: "refused", New: "new", Findings: "modules"}

// rowsOf are the rows of a kind.
func rowsOf[T record.Row]() Rows {
	switch any((*T)(nil)).(type) {
	case *record.URL:
		return New
	case *record.Link:
		return Links
	case *record.Module:
		return Findings
	}
	return Outcomes
}

// RecordFiles puts the record files of its rounds in the place of each crawl folder, in their order. It warns of those
// that are lost. Rows of several kinds stand one kind after the other.
func (s *Std) RecordFiles(files []string, rows ...Rows) (list []string, err error) {
	for _, f := range files {
		if f == "-" || !store.IsCrawl(f, store.Options{}) {
			list = append(list, f)
			continue
		}
		c, err := crawl.Open(f, crawl.Options{Warn: func(err error) { s.Warn("%v", err) }})
		if err != nil {
			return nil, err
		}
		kept, err := c.Files()
		if err != nil {
			return nil, err
		}
		var found []string
		for _, kind := range rows {
			name := roundFiles[kind]
			if kind == Outcomes {
				if name, err = kept.Outcomes(); err != nil {
					return nil, err
				}
			}
			files, err := kept.Files(name)
			if err != nil {
				return nil, err
			}
			found = append(found, files...)
		}
		if len(found) == 0 {
			kind := rows[len(rows)-1]
			return nil, &fault.Error{Class: fault.Usage, File: f, Found: fmt.Sprintf("a crawl folder without %s", kind),
				Want: fmt.Sprintf("a file rounds/*/%s of a round that counts", roundFiles[kind]+".arrows.zst")}
		}
		list = append(list, found...)
	}
	return list, nil
}

func orStdin(files []string) []string {
	if len(files) == 0 {
		return []string{"-"}
	}
	return files
}

// Records is an input of record streams of one kind, not read yet.
type Records struct {
	std   *Std
	first *record.Source
	in    io.Closer
	rest  []string
}

// OpenSource opens files ("-" or none: standard input) as record streams of any
// kind, which the caller then looks up. A crawl folder stands for its rows.
func OpenSource(s *Std, files []string, rows Rows) (*Records, error) {
	files, err := s.RecordFiles(orStdin(files), rows)
	if err != nil {
		return nil, err
	}
	in, opt, err := s.Open(files[0])
	if err != nil {
		return nil, err
	}
	src, err := record.Open(in, opt)
	if err != nil {
		in.Close()
		return nil, err
	}
	return &Records{std: s, first: src, in: in, rest: files[1:]}, nil
}

// Kind of the first stream.
func (r *Records) Kind() record.Kind { return r.first.Kind() }

// RowsOf reads the records as rows of one kind.
func RowsOf[T record.Row](r *Records) (stage.Input[T], error) {
	rows, err := record.Rows[T](r.first)
	if err != nil {
		return nil, err
	}
	return &chain[T]{std: r.std, cur: rows, in: r.in, schema: rows.Schema(), rest: r.rest}, nil
}

// OpenRecords opens files ("-" or none: standard input) as one input of rows. A crawl folder
// stands for the files of its rounds that have such rows.
func OpenRecords[T record.Row](s *Std, files []string) (stage.Input[T], error) {
	r, err := OpenSource(s, files, rowsOf[T]())
	if err != nil {
		return nil, err
	}
	return RowsOf[T](r)
}

// chain reads several files as one input. Each must end whole.
type chain[T record.Row] struct {
	std    *Std
	cur    *record.Reader[T]
	in     io.Closer
	schema *record.Schema
	rest   []string
	sum    record.RowHasher[T] // over all rows, where there are several files
	multi  bool
	before *record.Trailer // of the files that ended
	end    record.Trailer
}

func (c *chain[T]) Schema() *record.Schema  { return c.schema }
func (c *chain[T]) Trailer() record.Trailer { return c.end }
func (c *chain[T]) Buffered() int           { return c.cur.Buffered() }

func (c *chain[T]) Read(row *T) error {
	for {
		err := c.cur.Read(row)
		if err == nil && (c.multi || len(c.rest) > 0) {
			c.multi = true
			c.sum.Add(row)
		}
		if err != io.EOF {
			return err
		}
		if err := c.closeFile(); err != nil {
			return err
		}
		if len(c.rest) == 0 {
			return io.EOF
		}
		if err := c.openNext(); err != nil {
			return err
		}
	}
}

// Skip reads to the end for the trailer alone (record.Reader.Skip). Of several files it has neither number nor hash of rows.
func (c *chain[T]) Skip(ctx context.Context) error {
	for {
		if err := c.cur.Skip(ctx); err != nil {
			return err
		}
		if err := c.closeFile(); err != nil || len(c.rest) == 0 {
			return err
		}
		if err := c.openNext(); err != nil {
			return err
		}
	}
}

func (c *chain[T]) closeFile() error {
	t := c.cur.Trailer()
	if c.before != nil {
		t.Ledger = c.before.Ledger.Merge(t.Ledger)
		t.Verified = t.Verified && c.before.Verified
		if t.Txn != c.before.Txn {
			t.Txn = ""
		}
		t.Rows, t.Hash = c.sum.Sum()
		t.Epoch = record.JoinEpochs(c.before.Epoch, t.Epoch)
	}
	c.before, c.end = &t, t
	return c.in.Close()
}

func (c *chain[T]) openNext() error {
	in, opt, err := c.std.Open(c.rest[0])
	if err != nil {
		return err
	}
	c.rest = c.rest[1:]
	c.multi = true
	c.in = in
	c.cur, err = record.NewReader[T](in, opt)
	return err
}

// IsText reports whether files are to be read as text: --text, or all named as text.
func IsText(text bool, files []string) bool {
	if text || len(files) == 0 {
		return text
	}
	for _, f := range files {
		if !strings.HasSuffix(f, ".txt") && record.FormOf(f) == "" {
			return false
		}
	}
	return true
}

// maxLine bounds a line of text, in bytes. Longer ones are bad lines.
const maxLine = 64 << 10

// OpenText reads text as url rows: a URL a line or, of files named *.csv, *.tsv or *.jsonl, rows with
// further columns. Convert makes a row of a URL. A line that it refuses, or that is too long, is named
// on standard error, counted and skipped; with strict it is an error, and so it is if no line is good. Empty lines and, where a line is
// a URL, those that begin with # are skipped. The ledger's stage "text" holds the counts.
func OpenText(s *Std, files []string, strict bool, convert func(line string, row *record.URL) error) (stage.Input[record.URL], error) {
	return &text{std: s, files: orStdin(files), strict: strict, convert: convert}, nil
}

// Unsummed spares the hash of what OpenText opened. Its Trailer must not be asked for then: no stage may read it.
func Unsummed(in stage.Input[record.URL]) stage.Input[record.URL] {
	in.(*text).unsummed = true
	return in
}

type text struct {
	std     *Std
	files   []string
	strict  bool
	convert func(string, *record.URL) error
	in      io.Closer
	lines   *bufio.Reader                  // nil: a file is to be opened
	rows    *record.TextReader[record.URL] // rows of the open file, if it has rows
	name    string
	line    int
	good    uint64
	bad     uint64
	sum     record.RowHasher[record.URL]

	unsummed bool
}

func (t *text) Schema() *record.Schema { return &record.Schema{Kind: record.KindURL} }

func (t *text) Read(row *record.URL) error {
	for {
		if t.lines == nil {
			if len(t.files) == 0 {
				return t.ended()
			}
			if err := t.open(); err != nil {
				return err
			}
		}
		said, bad, err := t.read(row)
		if err == io.EOF {
			t.lines, t.rows = nil, nil
			t.in.Close()
			continue
		}
		if err != nil {
			return err
		}
		if bad == nil {
			if t.good++; !t.unsummed {
				t.sum.Add(row)
			}
			return nil
		}
		if err := t.skip(said, bad); err != nil {
			return err
		}
	}
}

func (t *text) open() error {
	in, opt, err := t.std.Open(t.files[0])
	if err != nil {
		return err
	}
	form := record.FormOf(t.files[0])
	t.files = t.files[1:]
	t.in, t.name, t.line = in, opt.Name, 0
	t.lines = bufio.NewReaderSize(in, maxLine)
	if err := refuseBinary(t.lines, t.name); err != nil {
		in.Close()
		return err
	}
	if form != "" {
		t.rows = record.NewTextReader[record.URL](t.lines, form, nil)
	}
	return nil
}

// ended is the end of the last file.
func (t *text) ended() error {
	// A change of that name would be done with nothing in it, and the corrected file refused.
	if t.good == 0 && (t.strict || t.bad > 0) {
		return &fault.Error{Class: fault.Corrupt, File: t.name, Found: "no URL", Want: "one a line, such as https://www.example.org/"}
	}
	if t.bad > 0 {
		t.std.Warn("bad lines skipped: %d", t.bad)
		t.std.Stat("bad_lines", t.bad)
	}
	return io.EOF
}

// read takes the next line: said is its text, bad what is wrong with it. It passes over empty ones.
func (t *text) read(row *record.URL) (said string, bad, err error) {
	if t.rows != nil {
		bad, err := t.rows.Read(row)
		t.line = t.rows.Line()
		if err != nil && err != io.EOF {
			err = &fault.Error{Class: fault.Corrupt, File: t.name, Place: fmt.Sprintf("line %d", max(t.line, 1)), Err: err}
		}
		if bad != nil || err != nil {
			return "", bad, err
		}
		given := *row
		if err := t.convert(given.URL, row); err != nil {
			return given.URL, err, nil
		}
		given.URL, given.Host, given.Key = row.URL, row.Host, row.Key
		*row = given
		return "", nil, nil
	}
	for {
		line, tooLong, err := readLine(t.lines)
		if err != nil {
			return "", nil, err
		}
		t.line++
		if tooLong {
			return "", fmt.Errorf("line longer than %d bytes", maxLine), nil
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.Contains(line, "\r") { // or they would be one URL
			return line, errors.New("a carriage return within a line"), nil
		}
		*row = record.URL{}
		return line, t.convert(line, row), nil
	}
}

// skip names a bad line, or with strict makes it an error.
func (t *text) skip(said string, bad error) error {
	if said != "" {
		const most = 100
		bad = fmt.Errorf("%.*q: %w", most, said, bad)
	}
	e := &fault.Error{Class: fault.Corrupt, File: t.name, Place: fmt.Sprintf("line %d", t.line), Err: bad}
	if t.strict {
		return e
	}
	t.bad++
	const named = 20
	if t.bad <= named {
		t.std.Warn("%s (skipped)", e)
	} else if t.bad == named+1 {
		t.std.Warn("further bad lines are counted only")
	}
	return nil
}

// refuseBinary returns a fault if text input begins like records or compressed data:
// one message instead of an error for each line.
func refuseBinary(r *bufio.Reader, name string) error {
	head, _ := r.Peek(6) // an error is met again by who reads
	e := &fault.Error{Class: fault.WrongKind, File: name, Want: "text, one entry a line"}
	switch {
	case bytes.HasPrefix(head, []byte{0x28, 0xB5, 0x2F, 0xFD}), bytes.HasPrefix(head, []byte{0xFF, 0xFF, 0xFF, 0xFF}):
		e.Found = "a record stream, or other zstd or Arrow data"
		e.Hint = "records are read without --text, and become text with: mcat --format tsv --columns url"
	default:
		if e.Found, e.Hint = fault.Packed(string(head), name); e.Found == "" {
			return nil
		}
	}
	return e
}

// readLine reads a line without its end. Of a line longer than the buffer it
// keeps nothing and says so.
func readLine(r *bufio.Reader) (line string, tooLong bool, err error) {
	b, err := r.ReadSlice('\n')
	for err == bufio.ErrBufferFull {
		tooLong = true
		b, err = r.ReadSlice('\n')
	}
	if err == io.EOF && (len(b) > 0 || tooLong) {
		err = nil
	}
	if tooLong {
		b = nil
	}
	return strings.TrimRight(string(b), "\r\n"), tooLong, err
}

func (t *text) Trailer() record.Trailer {
	rows, hash := t.sum.Sum()
	st := record.Stage{Name: "text", Out: rows, OutHash: hash.String()}
	if rows > 0 {
		st.Made = []record.Count{{Reason: "line", N: rows}}
	}
	if t.bad > 0 {
		st.Refused = []record.Count{{Reason: "bad-line", N: t.bad}}
	}
	return record.Trailer{Verified: true, Rows: rows, Hash: hash, Ledger: record.Ledger{Stages: []record.Stage{st}}}
}

// OpenLines reads files of text ("-" or none: standard input) one after another,
// each opened when its turn comes: any number of them takes one file descriptor.
// The first is opened at once. Each ends in a line end, its own or one added.
func (s *Std) OpenLines(files []string) (io.ReadCloser, error) {
	l := &lines{std: s, names: orStdin(files)}
	if err := l.next(); err != nil {
		return nil, err
	}
	return l, nil
}

type lines struct {
	std   *Std
	names []string      // still to come
	file  io.ReadCloser // the open file, or nil
	buf   *bufio.Reader // reads the open file
	cut   bool          // the last byte read was no line end
}

func (l *lines) next() error {
	f, opt, err := l.std.Open(l.names[0])
	if err != nil {
		return err
	}
	l.names = l.names[1:]
	l.file, l.buf = f, bufio.NewReader(f)
	if err := refuseBinary(l.buf, opt.Name); err != nil {
		l.Close()
		return err
	}
	return nil
}

func (l *lines) Read(p []byte) (int, error) {
	for {
		switch {
		case l.file != nil:
		case l.cut && len(p) > 0: // the file's last line gets its end
			p[0], l.cut = '\n', false
			return 1, nil
		case len(l.names) == 0:
			return 0, io.EOF
		default:
			if err := l.next(); err != nil {
				return 0, err
			}
		}
		n, err := l.buf.Read(p)
		if n > 0 {
			l.cut = p[n-1] != '\n'
		}
		if err == io.EOF {
			err = l.Close()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (l *lines) Close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// Sinks opens the places where rows go: the copies, then -o FILE or standard
// output (refused if it is a terminal).
func (s *Std) Sinks(o Output) ([]stage.Output, error) {
	var sinks []stage.Output
	add := func(path string) error {
		a, err := durable.CreateOutput(path)
		if err != nil {
			return err
		}
		sinks = append(sinks, &fileSink{Atomic: a, path: path})
		return nil
	}
	fail := func(err error) ([]stage.Output, error) {
		for _, k := range sinks {
			k.Abort()
		}
		return nil, err
	}
	for _, path := range o.Copy {
		if err := add(path); err != nil {
			return fail(err)
		}
	}
	if o.Output != "" && o.Output != "-" {
		if err := add(o.Output); err != nil {
			return fail(err)
		}
		return sinks, nil
	}
	if err := s.RefuseTerminal("records are"); err != nil {
		return fail(err)
	}
	widenPipe(s.Out)
	return append(sinks, pipeSink{s.Out, isPipe(s.Out)}), nil
}

// OnTerminal reports whether standard output is a terminal.
func (s *Std) OnTerminal() bool { return isTerminal(s.Out) }

// RefuseTerminal is an error (fault.Usage) if standard output is a terminal; what
// says what is binary ("records are").
func (s *Std) RefuseTerminal(what string) error {
	if !s.OnTerminal() {
		return nil
	}
	return &fault.Error{
		Class: fault.Usage, File: "standard output", Found: "a terminal", Want: "a file or a pipe, since " + what + " binary",
		Hint: "write to a file with -o FILE, or read it with: … | mcat",
	}
}

// fileSink is a file that appears complete or not at all.
type fileSink struct {
	*durable.Atomic
	path string
}

func (f *fileSink) Options() record.WriterOptions {
	return record.WriterOptions{Name: f.path, Level: record.Fast}
}
func (f *fileSink) Publish() error { return f.Commit() }

// pipeSink is standard output: a pipe, or a file that the shell opened.
type pipeSink struct {
	io.Writer
	pipe bool
}

func (p pipeSink) Options() record.WriterOptions {
	if !p.pipe {
		return record.WriterOptions{Name: "standard output", Level: record.Fast}
	}
	return record.WriterOptions{Name: "standard output", Level: record.Stored, FlushAfter: pipeFlush}
}
func (p pipeSink) Publish() error { return nil }
func (p pipeSink) Abort()         {}

// OpenStore opens a store with the flags' lock wait.
func (s *Std) OpenStore(dir, kind string, version int, f TxnFlags) (*store.Store, error) {
	st, err := store.Open(dir, kind, version, s.StoreOptions(f))
	return st, ownstage.Explain(dir, kind, err)
}

// StoreOptions are those by which the command opens stores of its own kind.
func (s *Std) StoreOptions(f TxnFlags) store.Options {
	return store.Options{LockWait: f.LockWait, Maker: s.Name + " create"}
}

// RunStage is stage.Run with the ledger put into --stats.
func RunStage[In, Out record.Row](ctx context.Context, s *Std, spec stage.Spec, in stage.Input[In], sinks []stage.Output, body func(ctx context.Context, b *stage.Batch[In, Out]) error) error {
	if spec.Threads == 0 {
		spec.Threads = s.Threads()
	}
	res, err := stage.Run(ctx, spec, in, sinks, body)
	if err != nil {
		return err
	}
	s.Stat("stage", res.Stage)
	s.Stat("repeated", res.Repeated)
	return nil
}
