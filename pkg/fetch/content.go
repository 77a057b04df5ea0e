package fetch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
)

const (
	valueMax = 1 << 10 // bytes kept of a header value or a message
	retryMax = 366 * 24 * time.Hour
)

// scales compute digests and sizes of a body for its row. Pooled.
type scales struct {
	sha hash.Hash
	fp  hash.Hash // the first 64 bits of this digest are content_fp
	sum [sha256.Size]byte
	buf [16 << 10]byte
}

// describe fills in what a response says: status, media type, digests, redirect.
// keep, if not nil, is given the decoded body. end is when the contact ended.
// decoders bounds what content decoders hold, among all connections. form says which
// redirects can be followed; weigh has the scales.
func describe(ctx context.Context, row *record.Fetch, reply *Reply, bodyMax int64, end time.Time, keep io.Writer, decoders *semaphore.Weighted, form canon.Options, weigh *sync.Pool) error {
	row.Outcome, row.Error, row.Truncated = reply.Outcome, clean(reply.Error), reply.Truncated
	if reply.spoken() {
		return describeDocument(row, reply, bodyMax, keep, form, weigh)
	}
	if reply.Response == nil {
		return nil
	}
	h, payload, err := open(reply)
	if err != nil {
		if row.Outcome == record.OutcomeFetched {
			row.Outcome, row.Error = record.OutcomeProtocol, clean(err.Error())
		}
		return toStart(reply)
	}
	if h.Status == http.StatusNotModified && (row.ETag != "" || row.LastModified != "") {
		row.Outcome, row.ContentFP = record.OutcomeNotModified, row.LastContentFP
	}
	row.Status = uint16(h.Status)
	row.MIME, row.Charset = httpmsg.MediaType(h.Get("Content-Type"))
	row.MIME, row.Charset = clean(row.MIME), clean(row.Charset)
	if h.Status >= 300 && h.Status < 400 {
		redirect(row, h.Get("Location"), form)
	}
	row.RetryAfter = retryAfter(h.Get("Retry-After"), end)
	row.FreshUntil = FreshUntil(h, row.FetchTime.Go(), end)
	defer validators(row, clean(h.Get("ETag")), clean(h.Get("Last-Modified")))
	if reply.NoBody || row.Outcome == record.OutcomeNotModified {
		return toStart(reply)
	}

	s := weigh.Get().(*scales)
	defer weigh.Put(s)
	s.sha.Reset()
	s.fp.Reset()
	if why := h.WrongLength(); why != "" {
		also(row, why)
	}
	codings := h.Codings()
	if codings == "" {
		err = s.plain(row, payload, bodyMax, keep)
	} else {
		var window int64
		if window, err = take(ctx, decoders, decoderWeight(codings), decodersMax); err != nil {
			return err
		}
		swollen := swollenMax(reply.Length)
		err = s.coded(row, h, payload, min(bodyMax, swollen), keep)
		decoders.Release(window)
		if row.Truncated == httpmsg.TruncatedLength && row.BodyLength == swollen && swollen < bodyMax {
			also(row, Swollen)
		}
	}
	if err != nil {
		return err
	}
	s.enter(row)
	return toStart(reply)
}

// EnterCut counts a page with an incomplete body in the ledger, by the reason in the column truncated.
func EnterCut(b *stage.Batch[record.URL, record.Fetch], row *record.Fetch) {
	if row.OfPage() && row.Truncated != "" {
		b.Refuse("cut-"+row.Truncated, 1)
	}
}

// validators sets what the next request for the URL may refer to. A reply that has
// the document replaces what was known, also by nothing; one that says that it is the
// same may renew it; every other says nothing of it, and what it carries is its own.
func validators(row *record.Fetch, etag, modified string) {
	switch {
	case row.Status >= 200 && row.Status < 300:
		row.ETag, row.LastModified = etag, modified
		if row.Truncated != "" && row.Truncated != httpmsg.TruncatedLength {
			row.ETag, row.LastModified = "", "" // the rest is still to be had
		}
	case row.Outcome == record.OutcomeNotModified:
		if httpmsg.PlainTag(row.ETag) != etag { // else it is of the same, and the longer one stands for both
			row.ETag = cmp.Or(etag, row.ETag)
		}
		row.LastModified = cmp.Or(modified, row.LastModified)
	}
}

// redirect enters where a reply leads to; ref may be "".
func redirect(row *record.Fetch, ref string, form canon.Options) {
	if ref == "" {
		return
	}
	url, _, err := form.Resolve(row.URL, ref)
	if err != nil {
		also(row, record.RedirectError+err.Error())
		return
	}
	row.RedirectURL = url
}

// also adds to the row's error, which may tell of another already.
func also(row *record.Fetch, text string) {
	if row.Error != "" {
		text = row.Error + "; " + text
	}
	row.Error = clean(text)
}

// describeDocument is describe for a reply that is no HTTP.
func describeDocument(row *record.Fetch, reply *Reply, bodyMax int64, keep io.Writer, form canon.Options, weigh *sync.Pool) error {
	row.Status = uint16(reply.Status)
	redirect(row, reply.Redirect, form)
	defer validators(row, clean(reply.ETag), clean(reply.LastModified))
	if row.Outcome == record.OutcomeNotModified {
		row.ContentFP = row.LastContentFP
	}
	if reply.Response == nil {
		return nil
	}
	if row.Status == 0 {
		row.Status = http.StatusOK
	}
	row.MIME, row.Charset = httpmsg.MediaType(reply.Media)
	row.MIME, row.Charset = clean(row.MIME), clean(row.Charset)
	s := weigh.Get().(*scales)
	defer weigh.Put(s)
	s.sha.Reset()
	s.fp.Reset()
	if err := s.plain(row, reply.Response, bodyMax, keep); err != nil {
		return err
	}
	s.enter(row)
	return toStart(reply)
}

// enter puts a body's digests into its row.
func (s *scales) enter(row *record.Fetch) {
	if row.BodyLength > 0 {
		row.ContentFP = binary.BigEndian.Uint64(s.fp.Sum(s.sum[:0]))
	}
	row.PayloadSHA1 = warc.Base32SHA1([sha1.Size]byte(s.sha.Sum(s.sum[:0])))
}

// open returns the head of a reply and its body without transfer coding.
func open(reply *Reply) (*httpmsg.Head, io.Reader, error) {
	if reply.Head == nil {
		if err := toStart(reply); err != nil {
			return nil, nil, err
		}
		m, err := httpmsg.Open(reply.Response)
		if err != nil {
			return nil, nil, err
		}
		return &m.Head, m.Payload, nil
	}
	if _, err := reply.Response.Seek(int64(reply.Head.Size), io.SeekStart); err != nil {
		return nil, nil, err
	}
	return reply.Head, httpmsg.NewPayload(reply.Head, reply.Response), nil
}

// plain weighs a body that has no content coding. A payload that ends early has
// been noticed by the protocol.
func (s *scales) plain(row *record.Fetch, payload io.Reader, limit int64, keep io.Writer) error {
	for {
		n, err := payload.Read(s.buf[:])
		p := s.buf[:n]
		s.sha.Write(p)
		if room := limit - row.BodyLength; int64(n) > room {
			p = p[:room]
			if row.Truncated == "" {
				row.Truncated = httpmsg.TruncatedLength
			}
		}
		row.BodyLength += int64(len(p))
		s.fp.Write(p)
		if keep != nil {
			if _, err := keep.Write(p); err != nil {
				return err
			}
		}
		if err != nil {
			if err != io.EOF && row.Truncated == "" {
				row.Truncated = httpmsg.TruncatedDisconnect
			}
			return nil
		}
	}
}

// coded weighs a body that is decoded.
func (s *scales) coded(row *record.Fetch, h *httpmsg.Head, payload io.Reader, limit int64, keep io.Writer) (err error) {
	cut := row.Truncated != ""
	payload = io.TeeReader(payload, s.sha)
	body := httpmsg.NewBody(h, payload, limit)
	defer body.Close()
	var w io.Writer = s.fp
	if keep != nil {
		w = io.MultiWriter(s.fp, keep)
	}
	if row.BodyLength, err = io.CopyBuffer(w, onlyReader{body}, s.buf[:]); err != nil {
		return err
	}
	// What the decoder left of the payload belongs to its digest.
	_, err = io.CopyBuffer(io.Discard, onlyReader{payload}, s.buf[:])
	if err != nil && row.Truncated == "" && body.Truncated() == "" {
		row.Truncated = httpmsg.TruncatedDisconnect
	}
	if row.Truncated == "" {
		row.Truncated = body.Truncated()
	}
	// Where the reply was cut, its coding ends early, too: that says nothing more.
	if err := body.Err(); err != nil && (!cut || body.Truncated() != httpmsg.TruncatedDisconnect) {
		also(row, err.Error())
	}
	return nil
}

// Swollen is in the error of a row whose body was cut by swollenMax, and not by Limits.BodyMax. No setting raises it.
const Swollen = "decoded up to 256 times its size"

// IsSwollen reports whether a body was cut by swollenMax.
func IsSwollen(truncated, why string) bool {
	return truncated == httpmsg.TruncatedLength && strings.Contains(why, Swollen)
}

// swollenMax is how far a reply of n encoded bytes is decoded: beyond its first MiB
// to 256 times its size. Pages shrink to a tenth, the emptiest to a hundredth.
func swollenMax(n int64) int64 { return 1<<20 + 256*n }

// decodersMax bounds the windows of content decoders: one of brotli's longest.
const decodersMax = 24 << 20

// decoderWeight is the most memory that the decoders of a body's codings hold: the longest
// window that a stream can demand (RFC 7932 section 9.1, RFC 8878 section 3.1.1.1.2
// with the limit of package httpmsg), and for gzip and deflate the decoder.
func decoderWeight(codings string) (n int64) {
	for coding := range strings.SplitSeq(codings, ",") {
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "", "identity":
		case "br":
			n += 16 << 20
		case "zstd":
			n += 8 << 20
		default:
			n += 64 << 10
		}
	}
	return n
}

type onlyReader struct{ io.Reader }

func toStart(reply *Reply) error {
	_, err := reply.Response.Seek(0, io.SeekStart)
	return err
}

// limited keeps the first bytes that are written to it.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.max - l.Len(); len(p) > room {
		l.Buffer.Write(p[:room])
	} else {
		l.Buffer.Write(p)
	}
	return len(p), nil
}

// clean makes text from a server fit for a column: valid UTF-8 without control
// characters, trimmed, of bounded length.
func clean(s string) string {
	s = cut(s) // for the cost; what is invalid grows below
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.TrimSpace(cut(s))
}

// cut shortens s to valueMax bytes, between two characters.
func cut(s string) string {
	if len(s) <= valueMax {
		return s
	}
	n := valueMax
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// retryAfter reads both forms of the header (RFC 9110 section 10.2.3).
func retryAfter(value string, now time.Time) record.Time {
	if value = strings.TrimSpace(value); value == "" { // as most replies have it
		return 0
	}
	wait, ok := deltaSeconds(value)
	if !ok {
		t, err := http.ParseTime(value)
		if err != nil || t.Before(now) {
			return 0
		}
		wait = t.Sub(now)
	}
	return record.TimeOf(now.Add(min(wait, retryMax)))
}

// group is the records of one contact, and what encoding them takes. Pooled.
type group struct {
	b      []byte // encoded
	length int64  // of the response, which is first; 0: there is none
	plain  bool   // the response is warc.Record.Plain

	rec    warc.Record
	fields [7]warc.Field
	reader bytes.Reader
	block  []byte
	head   []byte
}

var groups = sync.Pool{New: func() any { return new(group) }}

const groupKeep = 256 << 10 // larger buffers are not kept

func (g *group) free() {
	if cap(g.b) <= groupKeep {
		groups.Put(g)
	}
}

// beginRecord makes g.rec a record about row.
func (g *group) beginRecord(kind, media string, row *record.Fetch) {
	g.rec = warc.Record{Type: kind, Date: row.FetchTime.Go(), TargetURI: row.URL, ContentType: media, Fields: g.fields[:0]}
}

// endRecord appends g.rec with the block b.
func (g *group) endRecord(enc warc.Encoder, b []byte) (err error) {
	g.reader.Reset(b)
	g.rec.Block, g.rec.Length = &g.reader, int64(len(b))
	g.b, err = enc.Append(g.b, &g.rec)
	return err
}

// refer makes g.rec a revisit that refers to the payload's first record.
func (g *group) refer(reply *Reply, first *payload) error {
	h, _, err := open(reply)
	if err != nil {
		return err
	}
	if err := toStart(reply); err != nil {
		return err
	}
	g.head = append(g.head[:0], make([]byte, h.Size)...)
	if _, err := io.ReadFull(reply.Response, g.head); err != nil {
		return err
	}
	g.reader.Reset(g.head)
	g.rec.Type, g.rec.Block, g.rec.Length = warc.TypeRevisit, &g.reader, int64(h.Size)
	g.rec.Add(warc.FieldProfile, warc.ProfileIdenticalPayload)
	g.rec.Add(warc.FieldRefersToTargetURI, first.url)
	g.rec.Add(warc.FieldRefersToDate, warc.FormatDate(first.date.Go()))
	g.rec.Add(warc.FieldRefersToFilename, first.file)
	g.rec.Add(warc.FieldRefersToOffset, strconv.FormatInt(first.offset, 10))
	return nil
}

// encodeGroup makes the records of one contact: response, revisit or resource; then
// request, or metadata with what was said over a control connection; and metadata
// with the row. first, if not nil, is where the payload stands already: the record is
// a revisit then, with the reply's head alone. To be freed.
func encodeGroup(enc warc.Encoder, round warc.Round, row *record.Fetch, reply *Reply, first *payload) (*group, error) {
	g := groups.Get().(*group)
	g.b, g.length = g.b[:0], 0
	server := row.Addr
	if reply != nil && reply.Forwarded {
		server = ""
	}
	concurrent := ""
	if reply != nil && reply.Response != nil {
		g.beginRecord(warc.TypeResponse, warc.MediaResponse, row)
		if reply.Media != "" {
			g.rec.Type, g.rec.ContentType = warc.TypeResource, clean(reply.Media)
		}
		if row.Outcome == record.OutcomeNotModified {
			g.rec.Type = warc.TypeRevisit
			g.rec.Add(warc.FieldProfile, warc.ProfileNotModified)
		}
		g.rec.Block, g.rec.Length = reply.Response, reply.Length
		if first != nil {
			if err := g.refer(reply, first); err != nil {
				return nil, err
			}
		}
		g.rec.Add(warc.FieldIPAddress, server)
		if row.PayloadSHA1 != "" {
			g.rec.Add(warc.FieldPayloadDigest, "sha1:"+row.PayloadSHA1)
		}
		g.rec.Add(warc.FieldTruncated, reply.Truncated)
		g.rec.Add(warc.FieldProtocol, reply.Protocol)
		var err error
		if g.b, err = enc.Append(g.b, &g.rec); err != nil {
			return nil, err
		}
		g.plain = g.rec.Plain()
		g.length, concurrent = int64(len(g.b)), "<"+g.rec.ID+">"
	}
	if reply != nil && len(reply.Sent) > 0 && (reply.Response != nil || reply.spoken()) {
		if reply.spoken() {
			g.beginRecord(warc.TypeMetadata, warc.MediaControl, row)
		} else {
			g.beginRecord(warc.TypeRequest, warc.MediaRequest, row)
			g.rec.Add(warc.FieldProtocol, reply.Protocol)
		}
		g.rec.Add(warc.FieldIPAddress, server)
		g.rec.Add(warc.FieldConcurrentTo, concurrent)
		if err := g.endRecord(enc, reply.Sent); err != nil {
			return nil, err
		}
	}
	g.beginRecord(warc.TypeMetadata, warc.MediaFields, row)
	g.rec.Add(warc.FieldConcurrentTo, concurrent)
	g.block = warc.AppendOutcome(g.block[:0], round, row)
	return g, g.endRecord(enc, g.block)
}
