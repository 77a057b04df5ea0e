package simweb

import (
	"bytes"
	"strings"
)

// Charsets of pages, by their index in charsetNames.
const (
	utf8Charset = iota
	latin1
	cp1251
	shiftJIS
)

var charsetNames = [...]string{"utf-8", "iso-8859-1", "windows-1251", "shift_jis"}

// sentences are the filler, in each charset. None holds markup.
var sentences = [...][]string{
	utf8Charset: {
		"The quick survey of the valley took three days, and the map took three years. ",
		"Le café du port ouvre à six heures et ferme quand le dernier bateau est rentré. ",
		"Most of what is written about the old bridge was written by people who never crossed it. ",
		"Größere Städte haben längere Straßen, aber selten bessere Bäcker. ",
		"A list of lists is still a list, and somebody has to keep it in order. ",
	},
	latin1: {
		"Le caf\xe9 du port ouvre \xe0 six heures et ferme quand le dernier bateau est rentr\xe9. ",
		"Gr\xf6\xdfere St\xe4dte haben l\xe4ngere Stra\xdfen, aber selten bessere B\xe4cker. ",
		"The museum keeps its clocks five minutes slow, so that nobody arrives late. ",
	},
	cp1251: {
		"\xcf\xf0\xe8\xe2\xe5\xf2 \xe8\xe7 \xe3\xee\xf0\xee\xe4\xe0, \xe3\xe4\xe5 \xf0\xe5\xea\xe0 \xf2\xe5\xf7\xe5\xf2 \xed\xe0 \xf1\xe5\xe2\xe5\xf0. ",
		"The archive holds nine hundred letters, and eight hundred answers. ",
	},
	shiftJIS: {
		"\x82\xb3\x82\xad\x82\xe7\x82\xcc\x82\xcd\x82\xc8\x82\xaa\x82\xb3\x82\xad\x81B ",
		"The ferry goes twice a day, except when it does not. ",
	},
}

// charset is the charset a document is written in.
func (w *Web) charset(r resource) int {
	switch r.kind {
	case kindFind:
		return int(r.v)
	case kindPage:
		d := w.dice(saltText, resource{host: origin(r.host), n: r.n})
		if x := d.below(10); x < 3 {
			return latin1 + x
		}
	}
	return utf8Charset
}

// declaration is where a page says what its charset is.
type declaration uint8

const (
	inHeader declaration = iota // charset parameter of Content-Type
	inMeta                      // <meta charset>
	inEquiv                     // <meta http-equiv>
	inBOM                       // UTF-8 only
)

func (w *Web) declaration(r resource) declaration {
	d := w.dice(saltText, resource{host: origin(r.host), kind: r.kind, n: r.n, v: 1})
	x := declaration(d.below(4))
	if x == inBOM && w.charset(r) != utf8Charset {
		return inHeader
	}
	return x
}

// page has the facts that the spelling of a link depends on.
type page struct {
	host     int32 // of the base URL
	depth    int   // folders in the path of the base URL
	absolute bool  // every link must name its host
	charset  int
}

// appendPage appends an HTML document: its links, each followed by text, and
// text up to its size. variant is not 0 for later states of a changing page.
func (w *Web) appendPage(b []byte, r resource, variant uint64) []byte {
	r.host = origin(r.host) // a mirror serves the same bytes
	var array [64]link
	links := w.appendLinks(array[:0], r)
	d := w.dice(saltText, r)
	size := min(d.logNormal(w.Size, 23), 256<<10)
	start := len(b)

	var urlArray [160]byte
	url := w.appendURL(urlArray[:0], r)
	p := page{host: r.host, depth: folders(url), absolute: position(r.host) == posMirrored, charset: w.charset(r)}
	switch w.declaration(r) {
	case inBOM:
		b = append(b, "\xef\xbb\xbf<!DOCTYPE html>\n<html><head>"...)
	case inMeta:
		b = append(b, "<!DOCTYPE html>\n<html><head><meta charset=\""...)
		b = append(b, charsetNames[p.charset]...)
		b = append(b, "\">"...)
	case inEquiv:
		b = append(b, "<HTML><HEAD><META HTTP-EQUIV=Content-Type CONTENT='text/html; charset="...)
		b = append(b, charsetNames[p.charset]...)
		b = append(b, "'>"...)
	default:
		b = append(b, "<!DOCTYPE html>\n<html><head>"...)
	}
	b = append(b, "<title>"...)
	if w.Topics > 0 {
		b = append(w.appendLabel(b, r), ' ')
	}
	b = appendEscaped(b, url)
	b = append(b, "</title>"...)
	if r.kind == kindPage && !p.absolute && r.n != 0 && d.below(8) == 0 {
		b, p = w.appendBase(b, p, &d)
	} else if !p.absolute {
		b = append(b, "<link rel=\"bookmark\" href=\"#top\">"...)
	}
	b = append(b, "</head>\n<body>\n"...)
	if variant != 0 {
		b = append(b, "<p>State "...)
		b = appendHex(b, variant)
		b = append(b, "</p>\n"...)
	}
	text := sentences[p.charset]
	for _, l := range links {
		b = w.appendLink(b, p, l, &d)
		if w.Topics > 0 {
			b = w.appendTalk(b, w.topic(r), &d)
			continue
		}
		b = append(b, text[d.below(len(text))]...)
	}
	if d.below(4) == 0 { // not links of a crawl
		b = append(b, "<!-- <a href=\"/comment\">no</a> --><a href=\"mailto:ann@example.org\">mail</a> <a href=\"javascript:void(0)\">run</a> <a name=top>"...)
	}
	for len(b)-start < size {
		x := d.roll()
		b = append(b, "\n<p>"...)
		if w.Topics > 0 {
			b = w.appendTalk(b, w.topic(r), &d)
			continue
		}
		for range 8 {
			b = append(b, text[x%uint64(len(text))]...)
			x /= 8
		}
	}
	return append(b, "\n</body></html>\n"...)
}

// appendBase appends a base element. Its URL is nothing that can be fetched,
// and so are the relative links of the page without it.
func (w *Web) appendBase(b []byte, p page, d *dice) ([]byte, page) {
	b = append(b, "<base href=\""...)
	switch d.below(3) {
	case 0:
		p.depth = 2
		b = append(b, "/base/of/x"...)
	case 1:
		p.depth = 1
		b = append(b, "/base/"...)
	default: // of another host
		h := d.skewed(int32(w.Hosts))
		p.host, p.depth = h, 1
		b = append(b, "http://"...)
		b = w.appendPort(w.appendHost(b, resource{host: h}))
		b = append(b, "/base/"...)
	}
	return append(b, "\">"...), p
}

// folders counts the folders in the path of a URL.
func folders(url []byte) int {
	url = url[len("http://"):]
	if i := bytes.IndexByte(url, '?'); i >= 0 {
		url = url[:i]
	}
	return bytes.Count(url, []byte{'/'}) - 1
}

func (w *Web) appendLink(b []byte, p page, l link, d *dice) []byte {
	var array [256]byte
	href := w.appendHref(array[:0], p, l.to, d)
	quote := "\""
	switch d.below(8) {
	case 0:
		quote = "'"
	case 1:
		if !bytes.ContainsAny(href, " \t\n\r\"'=<>`") && href[len(href)-1] != '/' {
			quote = ""
		}
	}
	open, end := `<a href=`, `>x</a> `
	switch l.elem {
	case elemArea:
		open, end = `<map name=m><area href=`, ` ></map> `
	case elemFrame:
		open, end = `<iframe src=`, ` ></iframe> `
	case elemImage:
		open, end = `<img alt="" src=`, ` > `
		if w.Topics > 0 {
			open = `<img src=`
		}
	case elemScript:
		open, end = `<script src=`, ` ></script> `
	case elemStyle:
		open, end = `<link rel=stylesheet href=`, ` > `
	case elemNofollow:
		open = `<a rel="nofollow" href=`
	default:
		if d.below(8) == 0 {
			open, end = "<A\n Class=x HREF = ", " >x</A> "
		}
	}
	b = append(b, open...)
	b = append(b, quote...)
	b = append(b, href...)
	b = append(b, quote...)
	if w.Topics > 0 { // a text for the reader of the page
		before, after, _ := strings.Cut(end, "x")
		switch {
		case after != "":
			b = w.appendLabel(append(b, before...), l.to)
			end = after
		case l.elem == elemImage:
			b = append(w.appendLabel(append(b, ` alt="`...), l.to), '"')
		}
	}
	return append(b, end...)
}

// appendHref appends one of the spellings of a URL, for use in an attribute.
// All have the same canonical URL: lower-case host, no user name, no default
// port, no fragment, no dot segments, unreserved characters not escaped.
func (w *Web) appendHref(b []byte, p page, to resource, d *dice) []byte {
	style := d.below(32)
	if style == 0 { // white space around
		b = append(b, " \n\t"...)
		b = w.appendHref(b, p, to, d)
		return append(b, " \r\n"...)
	}
	var array [160]byte
	target := w.appendTarget(array[:0], to)
	b, target = w.appendStart(b, p, to, target, d)
	switch style {
	case 1:
		if len(target) > 1 && target[0] == '/' {
			b = append(b, "/x/.."...)
		}
	case 2:
		if len(target) > 1 && target[0] == '/' {
			b = append(b, "/%2e"...)
		}
	case 3:
		if len(target) > 1 && target[0] == '/' { // an unreserved character, escaped
			b = append(b, "/%"...)
			b = append(b, "0123456789abcdef"[target[1]>>4], "0123456789abcdef"[target[1]&15])
			target = target[2:]
		}
	case 4:
		if len(target) > 1 && target[0] == '/' {
			b = append(b, "&#47;"...)
			target = target[1:]
		}
	case 5:
		if len(target) > 1 && target[0] == '/' {
			b = append(b, "/\t"...)
			target = target[1:]
		}
	case 6:
		if len(target) > 1 && target[0] == '/' {
			b = append(b, '\\')
			target = target[1:]
		}
	}
	b = appendEscaped(b, w.respell(target, p.charset, style))
	if style == 7 {
		b = append(b, "#part"...)
	}
	return b
}

// respell writes escapes of target in lower case, or raw in the page's
// charset, or leaves them.
func (w *Web) respell(target []byte, charset, style int) []byte {
	if bytes.IndexByte(target, '%') < 0 {
		return target
	}
	s := string(target)
	const accent = "%C3%A9"
	switch {
	case style&1 == 0 && strings.Contains(s, "?q="+finds[charset].escaped+"&"):
		return []byte(strings.Replace(s, finds[charset].escaped, finds[charset].raw, 1))
	case strings.Contains(s, "?q="):
		return target // escapes in a query stay as they are
	case style < 16 && charset == utf8Charset:
		return []byte(strings.Replace(s, accent, "\u00e9", 1))
	case style < 16 && charset == latin1:
		return []byte(strings.Replace(s, accent, "\xe9", 1))
	case style < 24:
		return []byte(strings.Replace(s, accent, "%c3%a9", 1))
	}
	return target
}

// appendStart appends what goes before the path, and returns what is left of
// the target.
func (w *Web) appendStart(b []byte, p page, to resource, target []byte, d *dice) ([]byte, []byte) {
	if to.host == p.host && to.kind != kindNoName && !p.absolute {
		switch d.below(4) {
		case 0, 1:
			return b, target
		case 2: // relative to the folder of the base
			if p.depth == 0 {
				b = append(b, "./"...)
			}
			for range p.depth {
				b = append(b, "../"...)
			}
			return b, target[1:]
		}
	}
	scheme, name := "http://", to
	switch d.below(16) {
	case 0:
		scheme = "HTTP://"
	case 1:
		scheme = "//"
	case 2:
		scheme = "http://ann:secret@"
	case 3:
		scheme = "http:\\\\"
	}
	b = append(b, scheme...)
	start := len(b)
	b = w.appendHost(b, name)
	switch d.below(8) {
	case 0:
		copy(b[start:], bytes.ToUpper(b[start:]))
	case 1:
		const idn = "xn--bcher-kva."
		if p.charset == utf8Charset && bytes.HasPrefix(b[start:], []byte(idn)) {
			rest := string(b[start+len(idn):])
			b = append(b[:start], "B\u00dcCHER."...)
			b = append(b, rest...)
		}
	}
	if (w.Port == 0 || w.Port == 80) && d.below(8) == 0 {
		return append(b, ":80"...), target
	}
	return w.appendPort(b), target
}

// appendEscaped appends s with & as an entity.
func appendEscaped(b, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '&')
		if i < 0 {
			return append(b, s...)
		}
		b = append(b, s[:i]...)
		b = append(b, "&amp;"...)
		s = s[i+1:]
	}
}

func appendHex(b []byte, x uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[x>>shift&15])
	}
	return b
}
