package simweb

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Request has the parts of a request that a reply depends on.
type Request struct {
	Method      string     // GET or HEAD; others get 405
	Host        string     // Host header: name, with or without a port
	Target      string     // path and query as sent
	AcceptGzip  bool       // Accept-Encoding names gzip
	IfNoneMatch string     // entity tags, verbatim
	IfModified  string     // If-Modified-Since, verbatim
	Cookie      string     // verbatim
	Local       netip.Addr // where it came to; see Config.Rough
	Variant     uint64     // state of a changing page; 0 is the first, and the only one without Config.Hard

	// What a page of a web with Config.Changing says of its changes.
	NoETag    bool
	Modified  time.Time // the last one; zero: not told
	Freshness string    // header lines that say how long it stays, each with its line end
}

// Response is a reply before it is framed.
type Response struct {
	Status   int
	Type     string // Content-Type
	Encoding string // Content-Encoding; "gzip" or empty
	Location string
	ETag     string
	Body     []byte // content coding applied; nil for HEAD and 304
	Length   int    // of the body that GET would bring
	Chunked  bool   // HTTP/1.1 replies come in chunks

	LastModified string
	Freshness    string // header lines, each with its line end
	RetryAfter   int    // seconds; 0 is none
	Fields       []byte // further header lines, each with its line end
	Raw          []byte // not nil: sent as it is, and the connection closed
}

// Respond makes the reply. It appends the body to scratch, which may be nil,
// so that a caller can use one buffer again and again.
func (w *Web) Respond(scratch []byte, q *Request) Response {
	body := scratch[len(scratch):]
	plain := func(status int, kind string, text string) Response {
		p := Response{Status: status, Type: kind, Body: append(body, text...), Length: len(text)}
		if q.Method == "HEAD" {
			p.Body = nil
		}
		return p
	}
	if q.Method != "GET" && q.Method != "HEAD" {
		return plain(405, "text/plain", "Only GET and HEAD are understood.\n")
	}
	host, ok := w.parseHost(q.Host)
	if !ok {
		return plain(421, "text/plain", "There is no such host here.\n")
	}
	if w.Rough && (w.unreachable(host) || slices.Contains(closingAddrs, q.Local)) {
		return Response{Raw: []byte{}}
	}
	switch q.Target {
	case "/robots.txt":
		switch w.policy(host) {
		case robotsMissing:
			return plain(404, "text/html", "<html><body>No robots here.</body></html>\n")
		case robotsForbidden:
			return plain(403, "text/html", "<html><body>Not for you.</body></html>\n")
		case robotsMoved:
			p := plain(301, "text/plain", "moved\n")
			p.Location = robotsMovedTo
			return p
		}
		return plain(200, "text/plain; charset=utf-8", w.robotsText(host))
	case robotsMovedTo:
		if w.policy(host) == robotsMoved {
			return plain(200, "text/plain", w.robotsText(host))
		}
	}

	r := w.resolve(host, q.Target)
	if w.rough(r) != "" {
		return Response{Raw: roughly(r)}
	}
	if p, ok := w.gate(body, r, q); ok {
		return p
	}
	p := Response{Status: w.status(r), Type: w.contentType(r)}
	d := w.dice(saltReply, r)
	if r.kind == kindRedirect {
		to, _ := w.redirection(r)
		p.Location = w.location(r, to, &d)
	}
	if p.Status == 200 {
		p.Freshness = q.Freshness
		if !q.Modified.IsZero() {
			p.LastModified = q.Modified.UTC().Format(http.TimeFormat)
		}
		p.ETag = "\"" + string(appendHex(nil, d.roll()^q.Variant)) + "\""
		same := q.IfNoneMatch != "" && strings.Contains(q.IfNoneMatch, p.ETag)
		if q.NoETag {
			p.ETag, same = "", false
		}
		if q.IfNoneMatch == "" && p.LastModified != "" { // RFC 9110 section 13.2.2
			same = q.IfModified == p.LastModified
		}
		if same {
			p.Status = 304
			return p
		}
	}
	p.Body = w.appendBody(body, r, q.Variant)
	x := d.below(16)
	if q.AcceptGzip && x < 4 && r.kind != kindSitemap {
		p.Encoding, p.Body = "gzip", gzipped(p.Body)
	}
	p.Chunked = x&3 == 0
	p.Length = len(p.Body)
	if q.Method == "HEAD" {
		p.Body = nil
	}
	return p
}

// location spells the target of a redirect.
func (w *Web) location(from, to resource, d *dice) string {
	switch x := d.below(8); {
	case from.host == to.host && to.kind != kindNoName && x < 3:
		return string(w.appendTarget(nil, to))
	case from.host == to.host && to.kind != kindNoName && x == 3: // relative to /r/
		return ".." + string(w.appendTarget(nil, to))
	case x == 4:
		return string(w.appendURL(nil, to)) + "#part"
	}
	return string(w.appendURL(nil, to))
}

// chunkSize is the length of the chunks of a chunked reply; the last is shorter.
const chunkSize = 1000

// AppendHTTP appends the reply as HTTP/1.1, or as HTTP/1.0 without chunks.
func (p *Response) AppendHTTP(b []byte, http10, closing, head bool) []byte {
	field := func(name, value string) {
		b = append(b, name...)
		b = append(b, value...)
		b = append(b, '\r', '\n')
	}
	if p.Status == 200 {
		b = append(b, "HTTP/1.1 200 OK\r\n"...)
	} else {
		b = append(b, "HTTP/1.1 "...)
		b = strconv.AppendInt(b, int64(p.Status), 10)
		b = append(b, ' ')
		field(http.StatusText(p.Status), "")
	}
	if b = append(b, p.Fields...); len(p.Fields) == 0 {
		field("Server: mweb", "")
	}
	if p.Type != "" {
		field("Content-Type: ", p.Type)
	}
	if p.Encoding != "" {
		field("Content-Encoding: ", p.Encoding)
	}
	if p.Location != "" {
		field("Location: ", p.Location)
	}
	if p.ETag != "" {
		field("ETag: ", p.ETag)
	}
	if p.LastModified != "" {
		field("Last-Modified: ", p.LastModified)
	}
	b = append(b, p.Freshness...)
	if p.RetryAfter > 0 {
		field("Retry-After: ", strconv.Itoa(p.RetryAfter))
	}
	if closing {
		field("Connection: close", "")
	} else if http10 {
		field("Connection: keep-alive", "")
	}
	if p.Status == 304 {
		return append(b, '\r', '\n')
	}
	if !p.Chunked || http10 {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(p.Length), 10)
		b = append(b, "\r\n\r\n"...)
		return append(b, p.Body...)
	}
	b = append(b, "Transfer-Encoding: chunked\r\n\r\n"...)
	if head {
		return b
	}
	for rest := p.Body; len(rest) > 0; {
		n := min(len(rest), chunkSize)
		b = strconv.AppendInt(b, int64(n), 16)
		b = append(b, "\r\n"...)
		b = append(b, rest[:n]...)
		b = append(b, "\r\n"...)
		rest = rest[n:]
	}
	return append(b, "0\r\n\r\n"...)
}
