// Package httpmsg reads HTTP/1 replies as they came over the wire or stand in a
// WARC record: the head, the body without its transfer coding (the payload), and
// the payload without its content coding (RFC 9110, RFC 9112).
//
// It is as tolerant as browsers are, and bounded: see ParseHead, Chunked and Body
// for what is accepted, and Limits for the bounds. It does no I/O of its own.
package httpmsg

import (
	"bytes"
	"strconv"
	"strings"

	"mercator/pkg/base/fault"
)

// HeadMax is the most bytes that a reply's head may have.
const HeadMax = 64 << 10

// FieldsMax is the most header lines that a head may have.
const FieldsMax = 512

// Bounds of heads in archives: other programs save what their HTTP library took. Header lines beyond the bound are
// left out, except a few of those by which the body is read.
const (
	ArchivedHeadMax   = 4 << 20
	ArchivedFieldsMax = 4096
	lateFieldsMax     = 16
)

// Field is one header line.
type Field struct{ Name, Value string }

// Head is the status line and the header of a reply.
type Head struct {
	Major, Minor int // version; 0.9 for a reply without a status line
	Status       int
	Reason       string
	Fields       []Field
	Size         int // bytes, the blank line included

	odd bool // it has lines that readers take in different ways
}

// NotNow reports whether a status of 4xx says that the same request may be answered at another time: 408 (RFC 9110 section
// 15.5.9), 421 (on another connection, section 15.5.20), 425 (RFC 8470 section 5.2), 429 (RFC 6585 section 4).
func NotNow(status uint16) bool {
	return status == 408 || status == 421 || status == 425 || status == 429
}

// Get returns the value of the first field of that name, in any case, or "".
func (h *Head) Get(name string) string {
	for i := range h.Fields {
		if strings.EqualFold(h.Fields[i].Name, name) {
			return h.Fields[i].Value
		}
	}
	return ""
}

// Values returns all values of that name.
func (h *Head) Values(name string) []string {
	var all []string
	for i := range h.Fields {
		if strings.EqualFold(h.Fields[i].Name, name) {
			all = append(all, h.Fields[i].Value)
		}
	}
	return all
}

// has reports whether a comma-separated field contains the token, in any case.
func (h *Head) has(name, token string) bool {
	for i := range h.Fields {
		if !strings.EqualFold(h.Fields[i].Name, name) {
			continue
		}
		for part := range strings.SplitSeq(h.Fields[i].Value, ",") {
			part, _, _ = strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// KeepAlive reports whether the server lets the connection be used again.
func (h *Head) KeepAlive() bool {
	if h.has("Connection", "close") || h.has("Proxy-Connection", "close") {
		return false
	}
	return h.Major == 1 && h.Minor >= 1 || h.has("Connection", "keep-alive")
}

// Certain reports whether every reader sees the reply end at the same place: it has one
// Content-Length or the one coding chunked, and none of the lines that are taken in
// different ways. RFC 9112 section 6.3 says what to suspect otherwise.
func (h *Head) Certain() bool {
	n := 0
	for i := range h.Fields {
		switch name, value := h.Fields[i].Name, h.Fields[i].Value; {
		case strings.EqualFold(name, "Content-Length"):
			n++
			if strings.Contains(value, ",") || h.Status == 204 && value != "0" {
				return false
			}
		case strings.EqualFold(name, "Transfer-Encoding"):
			n++
			if !strings.EqualFold(value, "chunked") || h.Status == 204 {
				return false
			}
		}
	}
	return n <= 1 && !h.odd
}

// Framing is how the end of a body is known.
type Framing uint8

const (
	NoBody     Framing = iota // the status has none
	ByLength                  // Content-Length
	ByChunks                  // chunked transfer coding
	UntilClose                // the end of the connection
)

// Framing says how the body ends and, for ByLength, how long it is. As browsers
// do, chunked wins over Content-Length and counts from HTTP/1.1 on only; a
// Content-Length that is no number, or several that differ, count as none
// (WrongLength tells).
func (h *Head) Framing() (Framing, int64) {
	if h.Status < 200 || h.Status == 204 || h.Status == 304 {
		return NoBody, 0
	}
	if h.transferCoded() && h.has("Transfer-Encoding", "chunked") {
		return ByChunks, 0
	}
	length, wrong := h.length()
	if length < 0 || wrong != "" {
		return UntilClose, 0
	}
	return ByLength, length
}

// length is the Content-Length, -1 if there is none, and what is wrong with it.
func (h *Head) length() (length int64, wrong string) {
	length = -1
	for i := range h.Fields {
		if !strings.EqualFold(h.Fields[i].Name, "Content-Length") {
			continue
		}
		for part := range strings.SplitSeq(h.Fields[i].Value, ",") {
			part = strings.TrimSpace(part)
			n, err := strconv.ParseUint(part, 10, 63)
			switch {
			case err != nil:
				return length, "Content-Length " + strconv.Quote(part[:min(len(part), 40)])
			case length >= 0 && length != int64(n):
				return length, "Content-Length " + strconv.FormatInt(length, 10) + " and " + part[:min(len(part), 40)]
			}
			length = int64(n)
		}
	}
	return length, ""
}

// WrongLength says what is wrong with the Content-Length of a body that ends with the
// connection for that reason; "" of any other.
func (h *Head) WrongLength() string {
	if framing, _ := h.Framing(); framing != UntilClose {
		return ""
	}
	_, wrong := h.length()
	return wrong
}

// Codings lists what a payload was coded with, first to last, as Content-Encoding
// does: content codings, then the codings of Transfer-Encoding beside chunked that RFC 9112
// section 7 has. "": nothing.
func (h *Head) Codings() string {
	all := ""
	add := func(coding string) {
		if coding = strings.TrimSpace(coding); all != "" {
			coding = ", " + coding
		}
		all += coding
	}
	for i := range h.Fields {
		if strings.EqualFold(h.Fields[i].Name, "Content-Encoding") {
			add(h.Fields[i].Value)
		}
	}
	for i := range h.Fields {
		if !h.transferCoded() || !strings.EqualFold(h.Fields[i].Name, "Transfer-Encoding") {
			continue
		}
		for part := range strings.SplitSeq(h.Fields[i].Value, ",") {
			switch part = strings.ToLower(strings.TrimSpace(part)); part {
			case "gzip", "x-gzip", "deflate":
				add(part)
			}
		}
	}
	return all
}

// transferCoded reports whether Transfer-Encoding counts: it does from HTTP/1.1 on.
func (h *Head) transferCoded() bool { return h.Major > 1 || h.Major == 1 && h.Minor >= 1 }

// HeadEnd returns the length of the head at the start of b, its blank line
// included, or -1 if that has not come yet. from says how far b was searched before.
func HeadEnd(b []byte, from int) int {
	start := 0 // line ends before the status line do not count
	for start < len(b) && (b[start] == '\r' || b[start] == '\n') {
		start++
	}
	for i := max(start, from-3); ; {
		n := bytes.IndexByte(b[min(i, len(b)):], '\n')
		if n < 0 {
			return -1
		}
		i += n + 1
		switch {
		case i < len(b) && b[i] == '\n':
			return i + 1
		case i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n':
			return i + 2
		}
	}
}

// Bare reports whether b, the first bytes of a reply, begins a document without a
// head, as HTTP/0.9 servers send it: its first byte is '<'.
func Bare(b []byte) bool { return len(b) > 0 && b[0] == '<' }

// Plausible reports whether b can be the first bytes of a head. It is false as soon
// as what came can be no HTTP, so that nobody waits for the rest of it.
func Plausible(b []byte) bool {
	rest := bytes.TrimLeft(b, "\r\n")
	return len(b)-len(rest) <= leadMax && (hasPrefixFold(rest, "HTTP/") || hasPrefixFold(rest, "ICY "))
}

// leadMax is how many bytes of line ends are waited through before a status line. Whoever
// sends them one by one has each looked at again with each that follows.
const leadMax = 1 << 10

// hasPrefixFold compares as far as b goes.
func hasPrefixFold(b []byte, prefix string) bool {
	n := min(len(b), len(prefix))
	return strings.EqualFold(string(b[:n]), prefix[:n])
}

// ParseHead reads a whole head, as HeadEnd found it. It accepts "ICY" for
// "HTTP/1.0", versions in any case, line ends before the status line, a status
// line without reason, LF for CRLF, folded lines, and lines without a colon
// (left out). It refuses NUL, more than HeadMax bytes or FieldsMax lines, and
// what has no status.
func ParseHead(b []byte) (Head, error) {
	var h Head
	err := h.Parse(b)
	return h, err
}

// Parse is ParseHead into h, and reuses the memory of h.Fields. After an error h must not
// be used.
func (h *Head) Parse(b []byte) error { return h.parse(b, false) }

// ParseArchived is Parse for a head that any program archived. The status line is taken as archivedLine has it,
// a NUL counts as white space, and the bounds are ArchivedHeadMax and ArchivedFieldsMax.
func (h *Head) ParseArchived(b []byte) error {
	if bytes.IndexByte(b, 0) >= 0 {
		b = bytes.ReplaceAll(b, []byte{0}, []byte{' '})
	}
	return h.parse(b, true)
}

func (h *Head) parse(b []byte, archived bool) error {
	statusLine, most, fields := h.statusLine, HeadMax, FieldsMax
	if archived {
		statusLine, most, fields = h.archivedLine, ArchivedHeadMax, ArchivedFieldsMax
	}
	if len(b) > most {
		return tooLong(most)
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return refuse("a NUL in the head", "text")
	}
	*h = Head{Size: len(b), Fields: h.Fields[:0]}
	rest := strings.TrimLeft(string(b), "\r\n")
	line, rest := cutLine(rest)
	if err := statusLine(line); err != nil {
		return err
	}
	if h.Fields == nil {
		h.Fields = make([]Field, 0, 16)
	}
	for rest != "" {
		line, rest = cutLine(rest)
		if strings.Trim(line, "\r") == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		h.odd = h.odd || isFolded(rest) || strings.IndexByte(line, '\r') >= 0
		value, rest = unfold(value, rest)
		trimmed := strings.TrimRight(name, " \t")
		h.odd = h.odd || !ok || trimmed != name
		if name = trimmed; !ok || name == "" || isFolded(line) {
			continue
		}
		switch {
		case len(h.Fields) < fields:
		case !archived:
			return refuse("more than "+strconv.Itoa(fields)+" header lines", "fewer")
		case len(h.Fields) == fields+lateFieldsMax || !ofBody(name):
			continue
		}
		h.Fields = append(h.Fields, Field{name, clean(value)})
	}
	return nil
}

// ofBody reports whether a body cannot be read without the field.
func ofBody(name string) bool {
	for _, n := range [...]string{"Content-Type", "Content-Encoding", "Content-Length", "Transfer-Encoding"} {
		if strings.EqualFold(name, n) {
			return true
		}
	}
	return false
}

func tooLong(limit int) error {
	return refuse("a head longer than "+strconv.Itoa(limit)+" bytes", "a shorter one")
}

// unfold adds to a value the folded lines that rest begins with.
func unfold(value, rest string) (whole, after string) {
	if !isFolded(rest) {
		return value, rest
	}
	var b strings.Builder
	b.WriteString(clean(value))
	for isFolded(rest) {
		value, rest = cutLine(rest)
		if value = clean(value); value != "" {
			b.WriteByte(' ')
			b.WriteString(value)
		}
	}
	return b.String(), rest
}

func isFolded(line string) bool { return line != "" && (line[0] == ' ' || line[0] == '\t') }

func (h *Head) statusLine(line string) error {
	proto, rest, _ := strings.Cut(line, " ")
	switch {
	case strings.EqualFold(proto, "ICY"):
		h.Major, h.Minor = 1, 0
	case len(proto) >= 8 && strings.EqualFold(proto[:5], "HTTP/") && proto[6] == '.' && isDigit(proto[5]) && isDigit(proto[7]) && !strings.Contains(proto, "\t"): // archivedLine would end it there
		h.Major, h.Minor = int(proto[5]-'0'), int(proto[7]-'0')
	default:
		return refuse("status line "+strconv.Quote(line[:min(len(line), 60)]), `"HTTP/1.1 200 OK"`)
	}
	rest = strings.TrimLeft(rest, " \t")
	if len(rest) < 3 || !isDigit(rest[0]) || !isDigit(rest[1]) || !isDigit(rest[2]) || len(rest) > 3 && isDigit(rest[3]) || rest[0] == '0' {
		return refuse("status line "+strconv.Quote(line[:min(len(line), 60)]), "a status of three digits")
	}
	h.Status, _ = strconv.Atoi(rest[:3])
	h.Reason = clean(rest[3:])
	return nil
}

// archivedLine reads a status line of an archive: three digits after the first blank are the status, where the line begins with HTTP or ICY. Programs that archive HTTP/2
// and 3 write "HTTP/2 200", "HTTP/3 200" or "HTTP/1 200"; others wrote "HTTP 200 OK", in lower case, or behind blanks.
func (h *Head) archivedLine(line string) error {
	line = strings.TrimLeft(line, " \t\r")
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		end = len(line)
	}
	proto, rest := line[:end], strings.TrimLeft(line[end:], " \t")
	name, version, _ := strings.Cut(proto, "/")
	isHTTP := hasPrefixFold([]byte(name), "HTTP") && len(name) >= len("HTTP")
	if !isHTTP && !strings.EqualFold(proto, "ICY") {
		return refuse("status line "+strconv.Quote(line[:min(len(line), 60)]), `"HTTP/1.1 200 OK"`)
	}
	if len(rest) < 3 || !isDigit(rest[0]) || !isDigit(rest[1]) || !isDigit(rest[2]) || len(rest) > 3 && isDigit(rest[3]) || rest[0] == '0' {
		return refuse("status line "+strconv.Quote(line[:min(len(line), 60)]), "a status of three digits")
	}
	h.Major, h.Minor = 1, 0
	if isHTTP {
		h.Minor = 1 // where none is said
		major, minor, both := strings.Cut(version, ".")
		if len(major) == 1 && isDigit(major[0]) {
			if h.Major = int(major[0] - '0'); h.Major > 1 {
				h.Minor = 0
			}
			if both && len(minor) == 1 && isDigit(minor[0]) {
				h.Minor = int(minor[0] - '0')
			}
		}
	}
	h.Status, _ = strconv.Atoi(rest[:3])
	h.Reason = clean(rest[3:])
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// clean trims a value; a carriage return inside it is white space.
func clean(s string) string {
	s = strings.Trim(s, " \t\r")
	if strings.IndexByte(s, '\r') >= 0 {
		s = strings.ReplaceAll(s, "\r", " ")
	}
	return s
}

func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

func refuse(found, want string) error {
	return &fault.Error{Class: fault.Corrupt, Found: found, Want: want}
}

// MediaType splits a Content-Type value into media type and charset, both in
// lower case, as far as it can be read.
func MediaType(value string) (mime, charset string) {
	mime, params, _ := strings.Cut(value, ";")
	mime = strings.ToLower(strings.TrimSpace(mime))
	if !strings.Contains(mime, "/") || strings.ContainsFunc(mime, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ',' || r == '"' }) {
		mime = ""
	}
	for p := range strings.SplitSeq(params, ";") {
		name, v, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "charset") && charset == "" {
			charset = strings.ToLower(strings.Trim(strings.TrimSpace(v), `"'`))
		}
	}
	return mime, charset
}

// PlainTag is an entity tag without the suffix by which a server tells a coded page from the
// page itself.
func PlainTag(tag string) string {
	for _, suffix := range [...]string{`-gzip"`, `-br"`, `-zstd"`} {
		if plain, ok := strings.CutSuffix(tag, suffix); ok {
			return plain + `"`
		}
	}
	return tag
}
