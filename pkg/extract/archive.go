package extract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/bodies"
	"mercator/pkg/web/httpmsg"
)

// openFiles is how many WARC files an archive keeps open. Rows of a batch lie in
// one file or two.
const openFiles = 4

// archive reads the replies that fetch rows point to. One goroutine.
type archive struct {
	dir      string       // a fetch store, or a crawl folder of several shards
	files    []*os.File   // the last one used is last
	reader   *warc.Reader // nil before the first row
	original *warc.Reader // of what a revisit refers to; nil before the first
	sharded  *bool        // dir has shards; nil: not looked at yet
	body     []byte       // memory of the reply read last

	bodies *bodies.Reader // bodies that mfetch has left for the round; nil: none
	asked  bool           // whether there is something
	head   httpmsg.Head   // memory of the one read last
}

func (a *archive) close() {
	for _, r := range []*warc.Reader{a.reader, a.original} {
		if r != nil {
			r.Close()
		}
	}
	for _, f := range a.files {
		f.Close() // was read only
	}
	a.files = nil
	if a.bodies != nil {
		a.bodies.Close()
	}
}

// open returns a WARC file of the store: under its name, or with ".open" while it
// still grows.
func (a *archive) open(name string) (*os.File, error) {
	if !filepath.IsLocal(name) {
		return nil, &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("WARC file name %q", name), Want: "one inside the fetch store"}
	}
	path := filepath.Join(a.dir, name)
	if _, shard := warc.ParseName(name); shard != "" {
		if a.sharded == nil {
			_, err := os.Stat(filepath.Join(a.dir, store.ShardsDir))
			a.sharded = new(err == nil)
		}
		if *a.sharded {
			path = filepath.Join(a.dir, store.ShardsDir, shard, "fetch", name)
		}
	}
	for i, f := range a.files {
		if f.Name() == path || f.Name() == path+".open" {
			a.files = append(append(a.files[:i:i], a.files[i+1:]...), f)
			return f, nil
		}
	}
	f, err := durable.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = durable.Open(path + ".open"); errors.Is(err, fs.ErrNotExist) {
			// It may have been completed between the two calls.
			f, err = durable.Open(path)
		}
	}
	if fault.ClassOf(err) != "" {
		return nil, err
	}
	if err != nil {
		return nil, &fault.Error{File: path, Found: "no such WARC file", Hint: "give the fetch store that the rows came from as --warc", Err: err}
	}
	if len(a.files) == openFiles {
		a.files[0].Close()
		a.files = a.files[1:]
	}
	a.files = append(a.files, f)
	return f, nil
}

// record returns the record at offset of a file, by one of the two readers.
func (a *archive) record(r **warc.Reader, f *os.File, offset, length int64) (*warc.Record, error) {
	if *r == nil {
		*r = warc.NewReader(nil, warc.ReaderOptions{})
	}
	return (*r).At(f, f.Name(), offset, length)
}

// reply is a stored reply: its header, and its body decoded.
type reply struct {
	status uint16
	header http.Header
	body   []byte
	cut    string // why body is not all of it, as the column truncated; ""
	// undecodable says why the body cannot be had, although the WARC is sound.
	undecodable error
}

// watched remembers the error of the WARC below a reply, so that damage of the
// archive is told from a server's nonsense inside a sound one.
type watched struct {
	io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// plain reads a reply from the documents that mfetch has left of the round.
func (a *archive) plain(row *record.Fetch, max int64) (p reply, ok bool) {
	if !a.asked {
		a.asked, a.bodies = true, bodies.Open(a.dir)
	}
	if a.bodies == nil {
		return p, false
	}
	head, body, ok := a.bodies.Read(row, a.body)
	if !ok || len(head) > 0 && a.head.Parse(head) != nil {
		return p, false
	}
	a.body = nil
	if cap(body) <= idleBody {
		a.body = head[:0]
	}
	if p.status = http.StatusOK; len(head) > 0 {
		p.status, p.header = uint16(a.head.Status), headerOf(a.head.Fields)
	}
	if p.body = body; int64(len(body)) > max {
		p.body, p.cut = body[:max], httpmsg.TruncatedLength
	}
	return p, true
}

// read reads the reply that a row points to. With headOnly the body is left
// alone: the row carries it. An error is damage of the archive.
func (a *archive) read(row *record.Fetch, max int64, headOnly bool) (reply, error) {
	if !headOnly {
		if p, ok := a.plain(row, max); ok {
			return p, nil
		}
	}
	f, err := a.open(row.WARCFilename)
	if err != nil {
		return reply{}, err
	}
	rec, err := a.record(&a.reader, f, row.WARCOffset, row.WARCLength)
	if err != nil {
		return reply{}, err
	}
	if rec.TargetURI != row.URL {
		return reply{}, &fault.Error{
			Class: fault.Corrupt, File: f.Name(), Place: fmt.Sprintf("record at byte %d", row.WARCOffset),
			Found: fmt.Sprintf("a record of %q", rec.TargetURI), Want: fmt.Sprintf("%q", row.URL),
			Hint: "the rows and the WARC files are of different crawls",
		}
	}
	var payload io.Reader
	if file, offset, ok := rec.Original(); ok && !headOnly {
		first, err := a.open(file)
		if err != nil {
			return reply{}, err
		}
		original, err := a.record(&a.original, first, offset, 0)
		if err != nil {
			return reply{}, err
		}
		if original.Type != warc.TypeResponse || original.Get(warc.FieldPayloadDigest) != rec.Get(warc.FieldPayloadDigest) {
			return reply{}, &fault.Error{
				Class: fault.Corrupt, File: first.Name(), Place: fmt.Sprintf("record at byte %d", offset),
				Found: fmt.Sprintf("a %s record with payload %s", original.Type, original.Get(warc.FieldPayloadDigest)), Want: "the response with " + rec.Get(warc.FieldPayloadDigest),
			}
		}
		m, err := httpmsg.OpenArchived(original.Block)
		if err != nil {
			return reply{}, err
		}
		payload = m.Payload
	}
	p, err := readReply(rec, payload, row.BodyLength, max, headOnly, a.body)
	if a.body = nil; cap(p.body) <= idleBody {
		a.body = p.body
	}
	if err == nil && !headOnly {
		err = a.reader.Finish()
	}
	if err == nil && payload != nil { // its checksum stands behind it
		err = a.original.Finish()
	}
	return p, err
}

// readReply reads a response or resource record, or a revisit record with the payload
// that it refers to; others give an empty reply. The body's length is a guess, and buf
// its memory if that is enough.
func readReply(rec *warc.Record, payload io.Reader, length, limit int64, headOnly bool, buf []byte) (reply, error) {
	w := &watched{Reader: rec.Block}
	var p reply
	kind := rec.Type
	if kind == warc.TypeRevisit && headOnly || payload != nil { // it has the head of its reply, as that of 304 has
		kind = warc.TypeResponse
	}
	switch kind {
	case warc.TypeResponse:
		m, err := httpmsg.OpenArchived(w)
		if w.err != nil {
			return p, w.err
		}
		if err != nil {
			p.undecodable = err
			return p, nil
		}
		p.status = uint16(m.Head.Status)
		p.header = headerOf(m.Head.Fields)
		if headOnly {
			return p, nil
		}
		if payload == nil {
			payload = m.Payload
		} else {
			w = &watched{Reader: payload}
			payload = w
		}
		body := httpmsg.NewBody(&m.Head, payload, limit)
		p.body, err = readAll(buf, body, length, limit)
		if err == nil {
			err = body.Close()
		}
		p.cut = body.Truncated()
		if len(p.body) == 0 && body.Truncated() == httpmsg.TruncatedUnspecified {
			p.undecodable = body.Err()
		}
		if w.err != nil {
			err = w.err
		}
		return p, err
	case warc.TypeResource:
		if headOnly {
			return p, nil
		}
		b, err := readAll(buf, io.LimitReader(w, limit+1), length, limit+1)
		if int64(len(b)) > limit {
			b, p.cut = b[:limit], httpmsg.TruncatedLength
		}
		p.status, p.body = 200, b
		return p, err
	}
	return p, nil
}

func headerOf(fields []httpmsg.Field) http.Header {
	h := make(http.Header, len(fields))
	values := make([]string, len(fields)) // one piece of memory for all but repeated ones
	for i, f := range fields {
		if name := http.CanonicalHeaderKey(f.Name); h[name] == nil {
			values[i] = f.Value
			h[name] = values[i : i+1 : i+1]
		} else {
			h[name] = append(h[name], f.Value)
		}
	}
	return h
}

// idleBody bounds the memory that is kept from one body for the next.
const idleBody = 1 << 18

// readAll is io.ReadAll of at most limit bytes, with a guess of how many, into b where
// that is enough.
func readAll(b []byte, in io.Reader, guess, limit int64) ([]byte, error) {
	guess = max(min(guess, limit), 0)
	if b = b[:0]; int64(cap(b)) < guess+bytes.MinRead {
		b = make([]byte, 0, guess+bytes.MinRead)
	}
	for {
		n, err := in.Read(b[len(b):cap(b)])
		if b = b[:len(b)+n]; err != nil {
			if err == io.EOF {
				err = nil
			}
			return b, err
		}
		if len(b) == cap(b) {
			more := make([]byte, len(b), min(int64(2*cap(b)), limit+bytes.MinRead))
			copy(more, b)
			b = more
		}
	}
}
