package extract

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// ogProperties are the Open Graph and Twitter properties whose value is a URL.
var ogProperties = map[string]bool{
	"og:url": true, "og:see_also": true,
	"og:image": true, "og:image:url": true, "og:image:secure_url": true,
	"og:video": true, "og:video:url": true, "og:video:secure_url": true,
	"og:audio": true, "og:audio:url": true, "og:audio:secure_url": true,
	"twitter:image": true, "twitter:image:src": true, "twitter:player": true, "twitter:player:stream": true,
}

// element is the part of a start tag that links depend on. Of attributes given
// twice the first counts, as in HTML.
type element struct {
	name atom.Atom
	attr map[string]string // by name, reused from tag to tag
}

// wanted are the attributes that are kept of a tag; the others cost no memory.
var wanted = map[string]bool{
	"action": true, "alt": true, "background": true, "cite": true, "content": true, "data": true, "href": true,
	"hreflang": true, "http-equiv": true, "imagesrcset": true, "method": true, "name": true, "poster": true,
	"property": true, "rel": true, "src": true, "srcset": true, "style": true, "type": true,
}

func (e *element) read(z *html.Tokenizer) {
	clear(e.attr)
	name, more := z.TagName()
	e.name = atom.Lookup(name)
	for more {
		var key, val []byte
		key, val, more = z.TagAttr()
		if wanted[string(key)] {
			if _, twice := e.attr[string(key)]; !twice {
				e.attr[string(key)] = string(val)
			}
		}
	}
}

// html finds the links of an HTML document.
func (f *finder) html(doc *Document) {
	text, enc := decode(doc, true)
	f.encoding = enc
	z := html.NewTokenizer(text)
	z.SetMaxBuf(maxToken)
	e := element{attr: make(map[string]string)}
	based := false    // the first base element counts
	var raw atom.Atom // script or style, whose text is not for readers
	anchor := -1      // the open a element's link, or -1
	var label label   // its text
	endAnchor := func() {
		if anchor >= 0 {
			f.page.Links[anchor].Text = label.take()
		}
		anchor = -1
	}
	for {
		switch z.Next() {
		case html.ErrorToken:
			endAnchor()
			f.page.Cut = z.Err() == html.ErrBufferExceeded
			return
		case html.TextToken:
			switch {
			case raw == atom.Style:
				f.css(z.Raw()) // has no character references
			case raw == 0 && anchor >= 0:
				label.add(z.Text(), f.opt.MaxText)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			e.read(z)
			raw = 0
			if e.name == atom.Style || e.name == atom.Script {
				raw = e.name
			}
			switch e.name {
			case atom.Noscript:
				z.NextIsNotRawText() // we are who runs no scripts
			case atom.Base:
				href, ok := e.attr["href"]
				if ok && !based {
					based = true
					if b, err := f.page.Base.Base(href); err == nil {
						f.page.Base = b
					}
				}
			case atom.A:
				endAnchor()
				anchor = f.anchor(KindA, &e)
				label.reset()
			case atom.Img:
				if anchor >= 0 {
					label.add([]byte(e.attr["alt"]), f.opt.MaxText)
				}
				f.element(&e)
			default:
				f.element(&e)
			}
			if s, ok := e.attr["style"]; ok {
				f.css([]byte(s))
			}
		case html.EndTagToken:
			raw = 0
			if name, _ := z.TagName(); atom.Lookup(name) == atom.A {
				endAnchor()
			}
		}
	}
}

// element adds the links of one start tag.
func (f *finder) element(e *element) {
	switch e.name {
	case atom.Area:
		f.anchor(KindArea, e)
	case atom.Link:
		f.linkElement(e)
	case atom.Img:
		f.attr(KindImg, e, "src")
		f.srcset(KindImg, e.attr["srcset"])
	case atom.Input:
		if strings.EqualFold(strings.TrimSpace(e.attr["type"]), "image") {
			f.attr(KindImg, e, "src")
		}
	case atom.Iframe:
		f.attr(KindIframe, e, "src")
	case atom.Frame:
		f.attr(KindFrame, e, "src")
	case atom.Embed:
		f.attr(KindEmbed, e, "src")
	case atom.Object:
		f.attr(KindObject, e, "data")
	case atom.Script:
		f.attr(KindScript, e, "src")
	case atom.Video:
		f.attr(KindVideo, e, "src")
		f.attr(KindPoster, e, "poster")
	case atom.Audio:
		f.attr(KindAudio, e, "src")
	case atom.Source:
		f.attr(KindSource, e, "src")
		f.srcset(KindImg, e.attr["srcset"])
	case atom.Track:
		f.attr(KindTrack, e, "src")
	case atom.Form:
		// A form that posts changes something: its action is not a link.
		method := strings.TrimSpace(e.attr["method"])
		if !strings.EqualFold(method, "post") && !strings.EqualFold(method, "dialog") && strings.TrimSpace(e.attr["action"]) != "" {
			f.add(KindForm, e.attr["action"], hasToken(e.attr["rel"], "nofollow"))
		}
	case atom.Blockquote, atom.Q, atom.Ins, atom.Del:
		f.attr(KindCite, e, "cite")
	case atom.Body, atom.Table, atom.Td, atom.Th, atom.Tr, atom.Thead, atom.Tbody, atom.Tfoot:
		f.attr(KindBackground, e, "background")
	case atom.Meta:
		f.meta(e)
	}
}

// anchor adds a hyperlink, for which an empty reference is the page itself.
func (f *finder) anchor(kind string, e *element) int {
	href, ok := e.attr["href"]
	if !ok {
		return -1
	}
	return f.add(kind, href, hasToken(e.attr["rel"], "nofollow"))
}

// attr adds an embedded resource, for which an empty reference is none.
func (f *finder) attr(kind string, e *element, name string) {
	if ref := e.attr[name]; strings.TrimSpace(ref) != "" {
		f.add(kind, ref, false)
	}
}

func (f *finder) linkElement(e *element) {
	href := e.attr["href"]
	if strings.TrimSpace(href) != "" {
		if kind := relKind(e.attr["rel"], e.attr["hreflang"]); kind != "" {
			f.add(kind, href, hasToken(e.attr["rel"], "nofollow"))
		}
	}
	f.srcset(KindImg, e.attr["imagesrcset"])
}

func (f *finder) meta(e *element) {
	content := e.attr["content"]
	switch {
	case strings.EqualFold(strings.TrimSpace(e.attr["http-equiv"]), "refresh"):
		if ref, ok := refreshRef(content); ok {
			f.add(KindRefresh, ref, false)
		}
	case strings.EqualFold(strings.TrimSpace(e.attr["name"]), "robots"):
		f.robotsDirectives(content)
	default:
		property := strings.ToLower(strings.TrimSpace(e.attr["property"]))
		if property == "" {
			property = strings.ToLower(strings.TrimSpace(e.attr["name"]))
		}
		if ogProperties[property] && strings.TrimSpace(content) != "" {
			f.add(KindOpenGraph, content, false)
		}
	}
}

// srcset adds the candidates of a srcset attribute (HTML section 4.8.4.2.2).
func (f *finder) srcset(kind, s string) {
	for {
		s = strings.TrimLeft(s, " \t\r\n\f,")
		if s == "" {
			return
		}
		end := strings.IndexAny(s, " \t\r\n\f")
		if end < 0 {
			end = len(s)
		}
		ref := s[:end]
		s = s[end:]
		if bare := strings.TrimRight(ref, ","); bare != ref {
			ref = bare // the commas end the candidate
		} else {
			s = skipDescriptors(s)
		}
		f.add(kind, ref, false)
	}
}

// skipDescriptors skips to the comma that ends a candidate, outside parentheses.
func skipDescriptors(s string) string {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth = max(depth-1, 0)
		case ',':
			if depth == 0 {
				return s[i+1:]
			}
		}
	}
	return ""
}

func hasToken(list, token string) bool {
	for _, t := range strings.Fields(list) {
		if strings.EqualFold(t, token) {
			return true
		}
	}
	return false
}

// label collects an anchor's text with single spaces, bounded.
type label struct {
	b     []byte
	space bool // one is due before the next word
	full  bool
}

func (l *label) reset() { *l = label{b: l.b[:0]} }

func (l *label) take() string { return string(l.b) }

func (l *label) add(text []byte, limit int) {
	for i := 0; i < len(text) && !l.full; {
		r, n := utf8.DecodeRune(text[i:])
		i += n
		if r <= ' ' || r == 0xA0 || r == 0x7F {
			l.space = true
			continue
		}
		if len(l.b) == 0 {
			l.space = false
		}
		need := utf8.RuneLen(r)
		if l.space {
			need++
		}
		if len(l.b)+need > limit {
			l.full = true
			return
		}
		if l.space {
			l.b = append(l.b, ' ')
		}
		l.b, l.space = utf8.AppendRune(l.b, r), false
	}
}
