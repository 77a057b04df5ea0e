// Package derive makes of WARC files what other programs read beside them.
//
//	WET    conversion records with text/plain, one for each page with text
//	WAT    metadata records with application/json, one for each record
//	CDXJ   an index: a sorted line for each reply, for pywb and others that replay
//	WACZ   a ZIP file of WARC files, their index and their pages
//
// And it makes Parquet of fetch rows, with the columns of Common Crawl's index (Outcomes).
//
// WET and WAT, as Common Crawl publishes them, begin with a warcinfo record, are WARC 1.1, and have a gzip member a record.
// Field names are those of Common Crawl's files (ia-web-commons). What differs:
//
//   - A record has the date of the one that it was made of, so that the same
//     archive gives the same files.
//   - WET has the text of SVG, PDF, office documents, EPUB and plain text besides that of HTML, and
//     pages of status 2xx only; revisits have none, since their originals do.
//   - Headers that come more than once are an array.
//   - Lists are bounded (MaxItems), and marked "Truncated" where they were.
//
// # Invariants
//
//   - Memory is bodies of at most twice Options.MaxBody bytes, and what is made of them.
//     An index is sorted in the memory that is granted, and on disk.
//   - No page makes it fail; damage of the archive does.
package derive

import (
	"bytes"
	"context"
	"crypto/sha1"
	"hash"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/extract"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/process"
)

// Format is a format of derived files.
type Format string

// The formats.
const (
	WET Format = "wet"
	WAT Format = "wat"
)

// MediaJSON is the media type of a WAT record's block.
const MediaJSON = "application/json"

// typeConversion is the WARC-Type of text (ISO 28500 section 6.6).
const typeConversion = "conversion"

// Fields of derived records.
const (
	fieldLanguage = "WARC-Identified-Content-Language"
)

// Options say what is derived.
type Options struct {
	Format   Format
	MaxBody  int64         // bytes of a decoded body that are looked at; 0: extract.DefaultMaxBody
	Threads  int           // documents that are worked on at a time; 0: 1
	Software string        // for the warcinfo record
	Progress func(n int64) // gets the number of records read; may be nil

	Tolerance *warc.Tolerance // for archives of other programs; nil: damage ends File
}

// Writer writes one derived file. One goroutine.
type Writer struct {
	out     io.Writer
	opt     Options
	encoder warc.Encoder
	started bool
	left    uint64 // records that may still be written
	replies bool
	queue   []*made // being made, in their order
	held    int64   // bytes of their bodies

	unreadable error // why the current record's reply cannot be read
}

// made is a derived record, which a goroutine of its own makes.
type made struct {
	done   chan struct{}
	member []byte // empty: there is none
	err    error
	body   int64
}

// NewWriter writes to out. Most records, the warcinfo record aside: head; 0: no bound.
func NewWriter(out io.Writer, head uint64, opt Options) *Writer {
	if opt.MaxBody <= 0 {
		opt.MaxBody = extract.DefaultMaxBody
	}
	opt.Threads = max(opt.Threads, 1)
	if head == 0 {
		head = math.MaxUint64
	}
	return &Writer{out: out, opt: opt, encoder: warc.Encoder{BlockDigest: true}, left: head}
}

// Tolerate sets Options.Tolerance for the files that follow.
func (w *Writer) Tolerate(t *warc.Tolerance) { w.opt.Tolerance = t }

// File derives from one WARC file, which is not empty. name is that by which derived
// records tell it.
func (w *Writer) File(ctx context.Context, in io.Reader, name string) (err error) {
	defer func() {
		for len(w.queue) > 0 {
			if e := w.put(); err == nil {
				err = e
			}
		}
	}()
	r := warc.NewReader(in, warc.ReaderOptions{Name: name, CRC: w.opt.Format == WAT, Tolerance: w.opt.Tolerance})
	defer r.Close()
	for {
		for len(w.queue) > 0 && (uint64(len(w.queue)) >= w.left || len(w.queue) >= 2*w.opt.Threads || w.held > w.opt.MaxBody) {
			if err := w.put(); err != nil {
				return err
			}
		}
		if w.left == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rec, err := r.Next()
		if err == io.EOF {
			if r.Number() == 0 {
				return w.opt.Tolerance.Skip(&fault.Error{Class: fault.Truncated, File: name, Found: "an empty file", Want: "a WARC record"})
			}
			return nil
		}
		if err != nil {
			return w.opt.Tolerance.Skip(err)
		}
		if !w.started {
			w.started = true
			if err := w.info(rec); err != nil {
				return err
			}
		}
		if w.opt.Progress != nil {
			w.opt.Progress(1)
		}
		w.replies = w.replies || indexed(rec)
		w.unreadable = nil
		derive, body, err := w.derive(r, rec, filepath.Base(name))
		if err == nil {
			err = r.Finish()
		}
		if err == nil {
			err = r.Unreadable(w.unreadable)
		}
		if r.Damaged(err) {
			continue
		}
		if err != nil {
			return err
		}
		if derive == nil {
			continue
		}
		m := &made{done: make(chan struct{}), body: body}
		w.queue, w.held = append(w.queue, m), w.held+body
		go func() {
			defer close(m.done)
			if rec := derive(); rec != nil {
				m.member, m.err = w.encoder.Append(nil, rec)
			}
		}()
	}
}

// Replies reports whether a record was read that an index has.
func (w *Writer) Replies() bool { return w.replies }

// put writes the first of the queue.
func (w *Writer) put() error {
	m := w.queue[0]
	<-m.done
	w.queue, w.held = w.queue[1:], w.held-m.body
	if m.err != nil || len(m.member) == 0 {
		return m.err
	}
	w.left--
	_, err := w.out.Write(m.member)
	return err
}

// info writes the warcinfo record.
func (w *Writer) info(first *warc.Record) error {
	block := string(warc.FormatFields([]warc.Field{
		{Name: "software", Value: w.opt.Software},
		{Name: "format", Value: "WARC File Format 1.1"},
		{Name: "conformsTo", Value: "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
		{Name: "description", Value: map[Format]string{WET: "text of pages (WET)", WAT: "metadata of records (WAT)"}[w.opt.Format]},
	}))
	b, err := w.encoder.Append(nil, &warc.Record{Type: warc.TypeInfo, Date: first.Date, ContentType: warc.MediaFields, Block: strings.NewReader(block), Length: int64(len(block))})
	if err == nil {
		_, err = w.out.Write(b)
	}
	return err
}

// derive reads a record. It returns what makes the derived one in another goroutine, nil where there is none, and how much that holds.
func (w *Writer) derive(r *warc.Reader, rec *warc.Record, file string) (func() *warc.Record, int64, error) {
	out := &warc.Record{Date: rec.Date, TargetURI: rec.TargetURI}
	if rec.ID != "" {
		out.Add(warc.FieldRefersTo, "<"+rec.ID+">")
	}
	if w.opt.Format == WET {
		if rec.Type != warc.TypeResponse && rec.Type != warc.TypeResource {
			return nil, 0, nil
		}
		m, err := w.read(rec)
		if err != nil || m.doc == nil || m.head != nil && (m.head.Status < 200 || m.head.Status > 299) {
			return nil, 0, err
		}
		return func() *warc.Record {
			text, err := process.Text(m.document(), 0)
			if err != nil || text == "" {
				return nil // a page without text, or one that nobody can read
			}
			out.Type, out.ContentType = typeConversion, "text/plain"
			out.Add(fieldLanguage, language(text))
			out.Block, out.Length = strings.NewReader(text), int64(len(text))
			return out
		}, m.size(), nil
	}
	envelope, m, err := w.envelope(r, rec, file)
	if err != nil {
		return nil, 0, err
	}
	return func() *warc.Record {
		block := append(envelope().append(nil), '\n')
		out.Type, out.ContentType = warc.TypeMetadata, MediaJSON
		out.Block, out.Length = bytes.NewReader(block), int64(len(block))
		return out
	}, m.size(), nil
}

// message is a record's block, taken apart.
type message struct {
	head         *httpmsg.Head // nil if there is none
	doc          *extract.Document
	block        [sha1.Size]byte
	entity       [sha1.Size]byte
	blockLength  int64
	entityLength int64
	unreadable   error // the block is no HTTP reply, whatever it says
}

// size is how much memory it holds.
func (m *message) size() int64 {
	if m.doc == nil {
		return 0
	}
	return int64(cap(m.doc.Body))
}

func (m *message) document() *process.Document {
	return &process.Document{URL: m.doc.URL, Header: m.doc.Header, MIME: extract.MediaType(m.doc), Charset: extract.ModuleCharset(m.doc), Body: m.doc.Body}
}

// counted hashes and counts what is read through it.
type counted struct {
	in io.Reader
	h  hash.Hash // nil: it only counts
	n  int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if c.h != nil {
		c.h.Write(p[:n])
	}
	c.n += int64(n)
	return n, err
}

// read is readMessage, which notes what cannot be read.
func (w *Writer) read(rec *warc.Record) (*message, error) {
	m, err := readMessage(rec, w.opt.MaxBody, w.opt.Format == WAT)
	if err == nil {
		w.unreadable = m.unreadable
	}
	return m, err
}

// readMessage reads a record to its end, with digests if they are asked for. An error is damage of the archive.
func readMessage(rec *warc.Record, max int64, digests bool) (*message, error) {
	block, entity := &counted{in: rec.Block}, &counted{}
	if digests {
		block.h, entity.h = sha1.New(), sha1.New()
	}
	m := &message{}
	var body []byte
	switch {
	case rec.IsReply():
		msg, err := httpmsg.OpenArchived(block)
		if err != nil {
			m.unreadable = err
			break
		}
		m.head = &msg.Head
		entity.in = msg.Payload
		decoded := httpmsg.NewBody(&msg.Head, entity, max)
		if body, err = io.ReadAll(decoded); err == nil {
			err = decoded.Close()
		}
		if err != nil {
			return nil, err
		}
		header := make(http.Header, len(msg.Head.Fields))
		for _, f := range msg.Head.Fields {
			header.Add(f.Name, f.Value)
		}
		m.doc = &extract.Document{URL: rec.TargetURI, Header: header, Body: body}
		m.doc.MIME, m.doc.Charset = httpmsg.MediaType(msg.Head.Get("Content-Type"))
	case rec.Type == warc.TypeResource:
		var err error
		if body, err = io.ReadAll(io.LimitReader(block, max)); err != nil {
			return nil, err
		}
		m.doc = &extract.Document{URL: rec.TargetURI, Body: body}
		m.doc.MIME, m.doc.Charset = httpmsg.MediaType(rec.ContentType)
	}
	if entity.in != nil {
		// A damaged transfer coding ends the payload early: the bytes before count.
		_, _ = io.Copy(io.Discard, entity)
	}
	if _, err := io.Copy(io.Discard, block); err != nil {
		return nil, err
	}
	if digests {
		m.block, m.entity = [sha1.Size]byte(block.h.Sum(nil)), [sha1.Size]byte(entity.h.Sum(nil))
	}
	m.blockLength, m.entityLength = block.n, entity.n
	return m, nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
