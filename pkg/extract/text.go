package extract

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/net/publicsuffix"

	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
	"mercator/pkg/web/pdf"
	"mercator/pkg/web/process"
)

// maxTextURL bounds a URL in plain text or a string of JSON, in bytes.
const maxTextURL = 8 << 10

// plainText adds the URLs in a text: what begins with a scheme and "://" or with
// "www.", up to white space, a quote or an angle bracket, without the punctuation of
// the sentence around it.
func (f *finder) plainText(doc *Document) {
	in, _ := decode(doc, sortText)
	b, ok := doc.Body, true
	if r, is := in.(*bytes.Reader); !is || r.Len() != len(b) {
		b, ok = f.readText(in, len(doc.Body))
	}
	f.page.Cut = f.page.Cut || !ok
	urls := urlFinder{b: b, colon: -1, www: -1}
	for i := 0; i < len(b); {
		start, skip := urls.next(i)
		if start < 0 {
			return
		}
		i = start + skip
		end := i
		for end < len(b) && end-start <= maxTextURL && !endsURL(b[end:]) {
			end++
		}
		ref := trimURL(b[start:end])
		if end-start <= maxTextURL && len(ref) > skip {
			s := string(ref)
			if ref[0]|0x20 == 'w' && !bytes.Contains(ref[:skip], []byte(":")) {
				s = "http://" + s
			}
			f.addLink(linkkind.Text, s, false)
		}
		i = end
	}
}

// readText reads the text that a decoder gives, at most three bytes for each byte of the document.
func (f *finder) readText(in io.Reader, size int) ([]byte, bool) {
	var b bytes.Buffer
	b.Grow(size + size/4)
	n, err := b.ReadFrom(io.LimitReader(in, int64(3*size)+1))
	return b.Bytes(), err == nil && n <= int64(3*size)
}

// urlFinder finds where the URLs of a text begin. What is far off is looked for once,
// however many of the other kind are before it.
type urlFinder struct {
	b          []byte
	colon, www int // where the next "://" and the next word with "www." are, len(b) if nowhere; before the search: not known
}

// next returns where the next URL from i on begins, and how long its beginning is; -1
// if there is none.
func (u *urlFinder) next(i int) (start, skip int) {
	for {
		if bytes.HasPrefix(u.b[i:], []byte("www.")) {
			return i, len("www.")
		}
		if u.colon < i {
			u.colon = indexFrom(u.b, i, "://")
		}
		if u.www < i {
			u.www = indexWWW(u.b, i)
		}
		if u.www < u.colon {
			return u.www, len("www.")
		}
		if u.colon == len(u.b) {
			return -1, 0
		}
		start := u.colon
		for start > i && u.colon-start < 16 && (markup.IsLetter(u.b[start-1]) || strings.IndexByte("0123456789+-.", u.b[start-1]) >= 0) {
			start--
		}
		for start < u.colon && !markup.IsLetter(u.b[start]) {
			start++
		}
		if start < u.colon {
			return start, u.colon + len("://") - start
		}
		i = u.colon + len("://")
	}
}

// indexFrom is the index of s in b from i on, or len(b).
func indexFrom(b []byte, i int, s string) int {
	if at := bytes.Index(b[i:], []byte(s)); at >= 0 {
		return i + at
	}
	return len(b)
}

// indexWWW is the index of a word that begins with "www." in b from i on, or len(b).
func indexWWW(b []byte, i int) int {
	for {
		at := indexFrom(b, i, "www.")
		if at == len(b) || !markup.IsLetter(b[at-1]) && b[at-1] < utf8.RuneSelf && strings.IndexByte("0123456789.-_@/", b[at-1]) < 0 {
			return at
		}
		i = at + len("www.")
	}
}

// endsURL reports whether b begins with what no URL in a text goes on with.
func endsURL(b []byte) bool {
	c := b[0]
	if c <= ' ' || c == 0x7F || strings.IndexByte("\"<>`{}|\\^", c) >= 0 {
		return true
	}
	if c < 0xC2 {
		return false
	}
	switch r, _ := utf8.DecodeRune(b); r {
	case 0xA0, '«', '»', '“', '”', '„', '‘', '’', '…', '。', '、', '，', '）', '」', '』', '】', '》', '　':
		return true
	}
	return false
}

// trimURL takes off the punctuation behind a URL, and a bracket or apostrophe that
// was not opened in it.
func trimURL(b []byte) []byte {
	opened := map[byte]int{')': bytes.Count(b, []byte("(")), ']': bytes.Count(b, []byte("["))}
	closed := map[byte]int{')': bytes.Count(b, []byte(")")), ']': bytes.Count(b, []byte("]"))}
	for len(b) > 0 {
		c := b[len(b)-1]
		switch {
		case strings.IndexByte(".,;:!?'*_~", c) >= 0:
		case (c == ')' || c == ']') && closed[c] > opened[c]:
			closed[c]--
		default:
			return b
		}
		b = b[:len(b)-1]
	}
	return b
}

// jsonNames are the keys that may have a relative reference as their value.
var jsonNames = map[string]bool{"href": true, "link": true, "src": true, "uri": true, "url": true}

// json adds strings that are absolute URLs, and references under a key such as "url".
// It looks at strings alone: the document may be incomplete, or hold many values, one a
// line.
func (f *finder) json(b []byte) {
	named := false // the key before the string says that it is a reference
	for {
		at := bytes.IndexByte(b, '"')
		if at < 0 {
			return
		}
		named = named && len(bytes.Trim(b[:at], " \t\r\n:[")) == 0
		b = b[at+1:]
		s, n, ok := jsonString(b)
		b = b[n:]
		if rest := bytes.TrimLeft(b[:min(len(b), 64)], " \t\r\n"); len(rest) > 0 && rest[0] == ':' {
			named = jsonNames[strings.ToLower(s)]
			continue
		}
		if s = strings.TrimSpace(s); ok && (isAbsolute(s) || named && s != "" && s[0] != '#' && !strings.ContainsAny(s, htmlSpace)) {
			f.addLink(linkkind.JSON, s, false)
		}
	}
}

// jsonString reads a string behind its first quote: its value, how long it is with
// the last quote, and whether it is of a length that a URL may have.
func jsonString(b []byte) (s string, n int, ok bool) {
	var out []byte
	for n < len(b) && b[n] != '"' {
		c := b[n]
		n++
		if c != '\\' || n >= len(b) {
			if len(out) <= maxTextURL {
				out = append(out, c)
			}
			continue
		}
		c = b[n]
		n++
		var r rune
		switch c {
		case 'b', 'f', 'n', 'r', 't':
			r = ' '
		case 'u':
			var used int
			r, used = jsonRune(b[n:])
			n += used
		default:
			r = rune(c)
		}
		if len(out) <= maxTextURL {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out), min(n+1, len(b)), len(out) <= maxTextURL
}

// jsonRune reads what follows \u, and the other half of a surrogate pair.
func jsonRune(b []byte) (rune, int) {
	r, ok := hex4(b)
	if !ok {
		return utf8.RuneError, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 4
	}
	if len(b) >= 10 && b[4] == '\\' && b[5] == 'u' {
		if low, ok := hex4(b[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 10
			}
		}
	}
	return utf8.RuneError, 4
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

// viewed is a URI of a PDF file as viewers take it: "www.example.org/a" begins with a host, and has the scheme http, while "example.org/a" is a
// path. Unlike theirs, a name that ends in no public suffix, such as "report.v2.pdf", is no host.
func viewed(uri string) string {
	name := uri
	if i := strings.IndexAny(uri, "/?#"); i >= 0 {
		name = uri[:i]
	}
	host, port, _ := strings.Cut(strings.ToLower(name), ":")
	if strings.Count(host, ".") < 2 || !hostName().MatchString(host) || strings.Trim(port, "0123456789") != "" {
		return uri
	}
	if suffix, registry := publicsuffix.PublicSuffix(host); !registry && !strings.Contains(suffix, ".") {
		return uri
	}
	return "http://" + uri
}

// pdf adds the URI annotations of a PDF file.
func (f *finder) pdf(b []byte) {
	doc, err := pdf.Open(b)
	if err != nil {
		reason := ReasonUndecodable
		if errors.Is(err, pdf.ErrEncrypted) {
			reason = ReasonEncrypted
		}
		f.page.refuse(reason, 1)
		return
	}
	if base := doc.Base(); base != "" {
		if b, err := f.page.Base.Base(base); err == nil {
			f.page.Base = b
		}
	}
	for uri := range doc.Links() {
		f.addLink(linkkind.PDF, viewed(strings.TrimSpace(uri)), false)
		if f.found.different() >= f.opt.MaxLinks {
			break
		}
	}
	f.page.Cut = f.page.Cut || doc.Cut()
}

// office adds the references of an office document or book.
func (f *finder) office(doc *Document) {
	err := process.OfficeLinks(&process.Document{MIME: MediaType(doc), Body: doc.Body}, func(ref string) {
		if f.found.different() < f.opt.MaxLinks {
			f.addLink(linkkind.Office, ref, false)
		}
	})
	if err != nil {
		f.page.refuse(ReasonUndecodable, 1)
	}
}
