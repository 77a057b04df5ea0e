package fetch

import (
	"bytes"
	"crypto/sha1"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/canon"
	"mercator/pkg/fingerprint"
	"mercator/pkg/httpmsg"
)

const (
	bodyOnPipe = 1 << 20 // longer bodies do not travel in a row: mextract reads them from the WARC
	valueMax   = 1 << 10 // bytes kept of a header value or a message
	retryMax   = 366 * 24 * time.Hour
)

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

// describe fills in what a response says: status, media type, digests, redirect.
// keep, if not nil, is given the decoded body. end is when the contact ended.
// decoders bounds what content decoders hold, among all connections.
func describe(row *record.Fetch, reply *Reply, bodyMax int64, end time.Time, keep io.Writer, decoders *weight) error {
	row.Outcome, row.Error, row.Truncated = reply.Outcome, clean(reply.Error), reply.Truncated
	if reply.Response == nil {
		return nil
	}
	m, err := httpmsg.Open(reply.Response)
	if err != nil {
		if row.Outcome == record.OutcomeFetched {
			row.Outcome, row.Error = record.OutcomeProtocol, clean(err.Error())
		}
		return rewind(reply)
	}
	h := &m.Head
	row.Status = uint16(h.Status)
	row.MIME, row.Charset = httpmsg.MediaType(h.Get("Content-Type"))
	row.MIME, row.Charset = clean(row.MIME), clean(row.Charset)
	if v := clean(h.Get("ETag")); v != "" {
		row.ETag = v
	}
	if v := clean(h.Get("Last-Modified")); v != "" {
		row.LastModified = v
	}
	if h.Status >= 300 && h.Status < 400 {
		if ref := h.Get("Location"); ref != "" {
			if url, _, err := canon.Resolve(row.URL, ref); err == nil {
				row.RedirectURL = url
			} else {
				row.Error = clean("redirect: " + err.Error())
			}
		}
	}
	row.RetryAfter = retryAfter(h.Get("Retry-After"), end)

	digest := sha1.New()
	payload := io.TeeReader(m.Payload, digest)
	codings := strings.Join(h.Values("Content-Encoding"), ",")
	window := decoders.acquire(decoderWeight(codings))
	defer decoders.release(window)
	if codings != "" {
		bodyMax = min(bodyMax, swollenMax(reply.Length))
	}
	body := httpmsg.NewBody(payload, codings, bodyMax)
	defer body.Close()
	fp := fingerprint.New()
	var w io.Writer = fp
	if keep != nil {
		w = io.MultiWriter(fp, keep)
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	if row.BodyLength, err = io.CopyBuffer(w, onlyReader{body}, *buf); err != nil {
		return err
	}
	// What the decoder left of the payload belongs to its digest. A payload that
	// ends early has been noticed by the protocol.
	_, err = io.CopyBuffer(io.Discard, onlyReader{payload}, *buf)
	if err != nil && row.Truncated == "" && body.Truncated() == "" {
		row.Truncated = httpmsg.TruncatedDisconnect
	}
	if row.Truncated == "" {
		row.Truncated = body.Truncated()
	}
	if err := body.Err(); err != nil && row.Error == "" {
		row.Error = clean(err.Error())
	}
	if row.BodyLength > 0 {
		row.ContentFP = fp.Sum64()
	}
	row.PayloadSHA1 = warc.Base32SHA1([sha1.Size]byte(digest.Sum(nil)))
	return rewind(reply)
}

// swollenMax is how far a reply of n encoded bytes is decoded: beyond its first MiB
// to 256 times its size. Pages shrink to a tenth, the emptiest to a hundredth.
func swollenMax(n int64) int64 { return 1<<20 + 256*n }

// decodersMax bounds the windows of content decoders: one of brotli's longest.
const decodersMax = 24 << 20

// decoderWeight is the most that decoders of these codings hold: the longest
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

func rewind(reply *Reply) error {
	_, err := reply.Response.Seek(0, io.SeekStart)
	return err
}

// limited keeps the first bytes that are written to it and notes when there were more.
type limited struct {
	bytes.Buffer
	max  int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.max - l.Len(); len(p) > room {
		l.over = true
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
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if n, err := strconv.ParseUint(value, 10, 32); err == nil {
		return record.TimeOf(now.Add(min(time.Duration(n)*time.Second, retryMax)))
	}
	t, err := http.ParseTime(value)
	if err != nil || t.Before(now) {
		return 0
	}
	if t.After(now.Add(retryMax)) {
		t = now.Add(retryMax)
	}
	return record.TimeOf(t)
}

// groups holds buffers for the records of a contact.
var groups = sync.Pool{New: func() any { return new([]byte) }}

// freeGroup takes back what encodeGroup returned.
func freeGroup(b []byte) {
	if cap(b) <= groupKeep {
		groups.Put(&b)
	}
}

const groupKeep = 256 << 10 // larger buffers are not kept

// encodeGroup makes the records of one contact: response, request, metadata.
// length is that of the response, which comes first (0: there is none).
func encodeGroup(enc warc.Encoder, round warc.Round, row *record.Fetch, reply *Reply) (b []byte, length int64, err error) {
	b = (*groups.Get().(*[]byte))[:0]
	date := row.FetchTime.Go()
	if reply != nil && reply.Response != nil {
		rec := &warc.Record{Type: warc.TypeResponse, Date: date, TargetURI: row.URL, ContentType: warc.MediaResponse, Block: reply.Response, Length: reply.Length}
		rec.Add(warc.FieldIPAddress, row.Addr)
		if row.PayloadSHA1 != "" {
			rec.Add(warc.FieldPayloadDigest, "sha1:"+row.PayloadSHA1)
		}
		rec.Add(warc.FieldTruncated, reply.Truncated)
		if b, err = enc.Append(b, rec); err != nil {
			return nil, 0, err
		}
		length = int64(len(b))
		if len(reply.Sent) > 0 {
			req := &warc.Record{Type: warc.TypeRequest, Date: date, TargetURI: row.URL, ContentType: warc.MediaRequest, Block: bytes.NewReader(reply.Sent), Length: int64(len(reply.Sent))}
			req.Add(warc.FieldIPAddress, row.Addr)
			req.Add(warc.FieldConcurrentTo, "<"+rec.ID+">")
			if b, err = enc.Append(b, req); err != nil {
				return nil, 0, err
			}
		}
		meta := warc.NewOutcome(round, row)
		meta.Add(warc.FieldConcurrentTo, "<"+rec.ID+">")
		b, err = enc.Append(b, meta)
		return b, length, err
	}
	b, err = enc.Append(b, warc.NewOutcome(round, row))
	return b, 0, err
}
