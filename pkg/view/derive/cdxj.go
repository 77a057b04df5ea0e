package derive

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/json"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/extract"
	"mercator/pkg/merge"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/process"
)

// cdx is the JSON of a CDXJ line, names as Common Crawl's index has them.
type cdx struct {
	URL      string `json:"url"`
	MIME     string `json:"mime,omitempty"`
	Status   string `json:"status,omitempty"`
	Digest   string `json:"digest,omitempty"`
	Length   string `json:"length,omitempty"`
	Offset   string `json:"offset"`
	Filename string `json:"filename"`
}

const (
	cdxTime     = "20060102150405"
	mimeRevisit = "warc/revisit"
)

// append appends "key timestamp {json}".
func (c *cdx) append(b []byte, stamp string) []byte {
	b = append(b, canon.CDXKey(c.URL)...)
	b = append(append(append(b, ' '), stamp...), ' ')
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c); err != nil {
		panic(err) // strings only
	}
	return append(b, bytes.TrimSuffix(doc.Bytes(), []byte{'\n'})...)
}

// AppendRowCDXJ appends the index line of a fetch row, without line end; nothing for a
// row that points to no WARC record, or says that the page has not changed (see indexed).
func AppendRowCDXJ(b []byte, r *record.Fetch) []byte {
	if r.WARCFilename == "" || !r.OfPage() {
		return b
	}
	return appendRow(b, r)
}

func appendRow(b []byte, r *record.Fetch) []byte {
	if r.Outcome == record.OutcomeNotModified {
		return b
	}
	c := cdx{URL: r.URL, MIME: r.MIME, Digest: r.PayloadSHA1, Length: strconv.FormatInt(r.WARCLength, 10),
		Offset: strconv.FormatInt(r.WARCOffset, 10), Filename: r.WARCFilename}
	if r.Status != 0 {
		c.Status = strconv.Itoa(int(r.Status))
	}
	return c.append(b, r.FetchTime.Go().Format(cdxTime))
}

// AppendCDXJ appends the index line of the record that r gave last, without line end, and
// reads the record to its end. An index has only replies, revisits, and documents that came without
// HTTP; for other records nothing is appended. If the record of a payload has no digest, one is computed. file is the name in the line.
func AppendCDXJ(b []byte, r *warc.Reader, rec *warc.Record, file string) ([]byte, error) {
	return appendRecord(b, r, rec, file, nil)
}

// indexed reports whether an index has a record. It has no reply 304: pywb would show that reply, which has no document, in place of the page.
func indexed(rec *warc.Record) bool {
	if rec.TargetURI == "" {
		return false
	}
	return rec.Type == warc.TypeResponse || rec.Type == warc.TypeRevisit && rec.Get(warc.FieldProfile) != warc.ProfileNotModified || rec.Type == warc.TypeResource && !strings.HasPrefix(rec.TargetURI, "dns:")
}

// titleBody is how much of a page is read for its title.
const titleBody = 64 << 10

// appendRecord is AppendCDXJ. onPage, which may be nil, gets HTML pages.
func appendRecord(b []byte, r *warc.Reader, rec *warc.Record, file string, onPage func(rec *warc.Record, title string) error) ([]byte, error) {
	if !indexed(rec) {
		return b, nil
	}
	c := cdx{URL: rec.TargetURI, Offset: strconv.FormatInt(rec.Offset, 10), Filename: file,
		Digest: strings.TrimPrefix(rec.Get(warc.FieldPayloadDigest), "sha1:")}
	switch rec.Type {
	case warc.TypeRevisit:
		c.MIME = mimeRevisit
	case warc.TypeResource:
		c.MIME, _ = httpmsg.MediaType(rec.ContentType)
	}
	sum := sha1.New()
	var payload io.Reader // without a digest in the record: of HTTP what comes behind the header, else the block
	if c.Digest == "" && rec.Type != warc.TypeRevisit {
		payload = io.TeeReader(rec.Block, sum)
	}
	var unreadable error // error of a reply that cannot be read: it has no status
	if rec.IsReply() || strings.HasPrefix(strings.ToLower(rec.ContentType), "application/http") {
		if m, err := httpmsg.OpenArchived(rec.Block); err != nil {
			unreadable = err
		} else {
			c.Status = strconv.Itoa(m.Head.Status)
			mime, charset := httpmsg.MediaType(m.Head.Get("Content-Type"))
			if c.MIME == "" {
				c.MIME = mime
			}
			if payload != nil {
				m.Payload = io.TeeReader(m.Payload, sum)
				payload = m.Payload
			}
			if onPage != nil && rec.Type == warc.TypeResponse && m.Head.Status >= 200 && m.Head.Status <= 299 && isHTML(mime) {
				body := httpmsg.NewBody(&m.Head, m.Payload, titleBody)
				front, err := io.ReadAll(body)
				if err == nil {
					err = body.Close()
				}
				if err != nil {
					return b, err
				}
				charset = extract.ModuleCharset(&extract.Document{URL: rec.TargetURI, MIME: mime, Charset: charset, Body: front})
				if err := onPage(rec, process.Title(&process.Document{URL: rec.TargetURI, MIME: mime, Charset: charset, Body: front})); err != nil {
					return b, err
				}
			}
		}
	}
	if payload != nil && unreadable == nil {
		_, _ = io.Copy(io.Discard, payload) // a damaged transfer coding ends it: what came counts
		c.Digest = warc.Base32SHA1([sha1.Size]byte(sum.Sum(nil)))
	}
	if err := r.Finish(); err != nil {
		return b, err
	}
	if rec.IsReply() {
		if err := r.Unreadable(unreadable); err != nil {
			return b, err
		}
	}
	c.Length = strconv.FormatInt(r.Good()-rec.Offset, 10)
	return c.append(b, rec.Date.UTC().Format(cdxTime)), nil
}

func isHTML(mime string) bool { return mime == "text/html" || mime == "application/xhtml+xml" }

// Index is the lines of a CDXJ index on their way into order. Memory is what NewIndex was
// given; the rest waits in temporary files without a name.
type Index struct {
	sorter *merge.Sorter
	lines  uint64
	line   []byte // reused
}

// NewIndex makes an empty index. Temporary files stand in dir ("": the system's folder for them).
func NewIndex(mem int64, dir string) *Index {
	s := merge.NewSorter(mem, dir)
	s.Ties = bytes.Compare
	return &Index{sorter: s}
}

// Add adds a line, without line end.
func (x *Index) Add(line []byte) error {
	var front [8]byte // of the line: lines ascend as their first bytes do
	copy(front[:], line)
	x.lines++
	return x.sorter.Add(binary.BigEndian.Uint64(front[:]), line)
}

// Part adds the lines of a WARC file. They name it by its last name, without ".open".
func (x *Index) Part(ctx context.Context, part warc.Part, progress func(int64)) error {
	return x.part(ctx, part, progress, nil)
}

func (x *Index) part(ctx context.Context, part warc.Part, progress func(int64), onPage func(*warc.Record, string) error) error {
	f, length, err := part.Open()
	if err != nil {
		return err
	}
	defer f.Close() // was read only
	r := warc.NewReader(io.NewSectionReader(f, 0, length), warc.ReaderOptions{Name: part.Path})
	defer r.Close()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rec, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			x.line, err = appendRecord(x.line[:0], r, rec, partName(part), onPage)
		}
		if err == nil && len(x.line) > 0 {
			err = x.Add(x.line)
		}
		if err != nil {
			return err
		}
		if progress != nil {
			progress(1)
		}
	}
}

// partName returns the name of a WARC file in an index.
func partName(p warc.Part) string { return strings.TrimSuffix(filepath.Base(p.Path), ".open") }

// Lines gives all lines in the order of their bytes, each with its line end. Nothing can be
// added any more.
func (x *Index) Lines(each func(line []byte) error) error {
	rows, err := x.sorter.Sort()
	if err != nil {
		return err
	}
	return rows.Each(func(_ uint64, line []byte) error {
		x.line = append(append(x.line[:0], line...), '\n')
		return each(x.line)
	})
}

// Close gives memory and disk back.
func (x *Index) Close() error { return x.sorter.Close() }

// CDXJ writes the sorted index of WARC files. One without a line is ErrNoReply.
func CDXJ(ctx context.Context, out io.Writer, parts []warc.Part, mem int64, progress func(int64)) error {
	x := NewIndex(mem, "")
	defer x.Close()
	for _, p := range parts {
		if err := x.Part(ctx, p, progress); err != nil {
			return err
		}
	}
	if x.lines == 0 {
		return ErrNoReply
	}
	return x.Lines(func(line []byte) error {
		_, err := out.Write(line)
		return err
	})
}

// ErrNoReply is of an archive that has nothing to index.
var ErrNoReply error = &fault.Error{Class: fault.Conflict, Found: "no reply in the archive", Want: "a crawl in which something was fetched"}
