package extract

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"

	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
	"mercator/pkg/web/process"
)

// HTML engines, for Options.HTMLEngine. They find the same links; README.md says how,
// and where they do not.
const (
	EngineFast = "fast" // the lexer; the tree for small pages with links that depend on its shape
	EngineXNet = "xnet" // the tree of golang.org/x/net/html for all pages, whatever memory it takes
)

// metaURLs are the names and properties of meta elements that have a URL as value, and
// the kinds of their links.
var metaURLs = map[string]string{
	"og:url": linkkind.OpenGraph, "og:see_also": linkkind.OpenGraph,
	"og:image": linkkind.OpenGraph, "og:image:url": linkkind.OpenGraph, "og:image:secure_url": linkkind.OpenGraph,
	"og:video": linkkind.OpenGraph, "og:video:url": linkkind.OpenGraph, "og:video:secure_url": linkkind.OpenGraph,
	"og:audio": linkkind.OpenGraph, "og:audio:url": linkkind.OpenGraph, "og:audio:secure_url": linkkind.OpenGraph,
	"twitter:image": linkkind.OpenGraph, "twitter:image:src": linkkind.OpenGraph, "twitter:player": linkkind.OpenGraph, "twitter:player:stream": linkkind.OpenGraph,
	"al:web:url": linkkind.Meta, "citation_abstract_html_url": linkkind.Meta, "citation_fulltext_html_url": linkkind.Meta, "citation_pdf_url": linkkind.Meta,
	"msapplication-config": linkkind.Meta, "msapplication-square150x150logo": linkkind.Meta, "msapplication-square310x310logo": linkkind.Meta,
	"msapplication-square70x70logo": linkkind.Meta, "msapplication-tileimage": linkkind.Meta, "msapplication-wide310x150logo": linkkind.Meta,
	"thumbnail": linkkind.Meta,
}

// itemURLs are the properties of microdata that have a URL as value.
var itemURLs = map[string]bool{
	"contenturl": true, "embedurl": true, "image": true, "logo": true, "sameas": true, "thumbnailurl": true, "url": true,
}

// lazy are the attributes in which scripts find what an element shall load later.
const lazy = 1<<markup.AttrDataBackground | 1<<markup.AttrDataBackgroundImage | 1<<markup.AttrDataBg | 1<<markup.AttrDataLazy | 1<<markup.AttrDataLazySrc |
	1<<markup.AttrDataLazySrcset | 1<<markup.AttrDataOriginal | 1<<markup.AttrDataPoster | 1<<markup.AttrDataSrc | 1<<markup.AttrDataSrcset

// presentation are the attributes of SVG that may have a url() as value.
const presentation = 1<<markup.AttrClipPath | 1<<markup.AttrCursor | 1<<markup.AttrFill | 1<<markup.AttrFilter | 1<<markup.AttrMarkerEnd |
	1<<markup.AttrMarkerMid | 1<<markup.AttrMarkerStart | 1<<markup.AttrMask | 1<<markup.AttrStroke

// linkAttrs are the attributes that links come from or depend on.
var linkAttrs = markup.Want(lazy|1<<markup.AttrAction|1<<markup.AttrAlt|1<<markup.AttrArchive|1<<markup.AttrBackground|1<<markup.AttrCite|1<<markup.AttrCode|1<<markup.AttrCodebase|1<<markup.AttrContent|1<<markup.AttrData|1<<markup.AttrFormaction|1<<markup.AttrFormmethod|1<<markup.AttrLongdesc|1<<markup.AttrSrcdoc|1<<markup.AttrHref|1<<markup.AttrHreflang|1<<markup.AttrHTTPEquiv|1<<markup.AttrImageSrcset|1<<markup.AttrItemprop|1<<markup.AttrMethod|1<<markup.AttrName|1<<markup.AttrPoster|1<<markup.AttrProperty|1<<markup.AttrRel|1<<markup.AttrSrc|1<<markup.AttrSrcset|1<<markup.AttrStyle|1<<markup.AttrType|1<<markup.AttrXlinkHref, presentation)

// htmlState is the state that links of an HTML document depend on, beside the current tag.
// Both engines keep it, by the calls of startTag, addText and endAnchor.
type htmlState struct {
	based   bool     // the first base element counts
	posts   bool     // the open form posts
	anchor  int      // the open a element's link, or the one above that it repeats; else -1
	repeats bool     // the open a element repeats a link
	label   label    // the text of the open a element
	alt     label    // of an image
	frames  [][]byte // the documents in srcdoc attributes
	buf     []byte
	reader  markup.Reader
	flat    flat
}

func (h *htmlState) reset() { h.based, h.posts, h.anchor, h.frames = false, false, -1, nil }

// findHTML finds the links of an HTML document.
func (f *finder) findHTML(doc *Document) {
	f.html.reset()
	if f.opt.HTMLEngine != EngineXNet || isXHTML(doc) { // no parser of HTML makes its tree
		if f.flatHTML(doc) || len(doc.Body) > maxTree {
			f.innerFrames()
			return
		}
		oneTree.Lock()
		defer oneTree.Unlock()
	}
	f.again(doc)
	if !f.treeHTML(doc) {
		f.again(doc)
		f.flatHTML(doc)
	}
	f.innerFrames()
}

// mostInner bounds documents within documents: a document in srcdoc, which may have one itself; HTML in the text of a feed.
const mostInner = 4

// innerFrames finds the links of documents in srcdoc attributes; their references count as the page's.
func (f *finder) innerFrames() {
	for _, frame := range f.html.frames {
		f.inline(frame)
	}
}

// inline finds the links of HTML that stands within another document, and has neither a base of its own nor a say about robots.
func (f *finder) inline(text []byte) {
	if f.inner == mostInner {
		return
	}
	f.inner++
	outer := f.html
	f.html = htmlState{}
	f.html.reset()
	f.html.based = true
	f.html.flat.reset()
	f.html.reader.Open(bytes.NewReader(text), text, false, linkAttrs)
	f.readFlat()
	f.innerFrames()
	f.html = outer
	f.inner--
}

// maxTree bounds a page, in bytes, that is left to a tree. A tree makes every formatting
// element that is open again in each block, so that its nodes grow with the square of the
// page: at most some 2 MB for a page of this size, beside what else is searched.
const maxTree = 1 << 10

// oneTree is held while there is a tree of a page that the lexer declined.
var oneTree sync.Mutex

// again forgets all but the links of the header.
func (f *finder) again(doc *Document) {
	f.beginDocument(doc, f.opt)
	f.header(doc.Header)
	f.text = true
	f.html.reset()
}

// startTag adds the links of a start tag.
func (f *finder) startTag(e *markup.Element) {
	if f.html.anchor >= 0 && e.Traits&markup.IsBlock != 0 && e.Space == markup.SpaceHTML {
		f.html.label.space = true
	}
	if e.Tag == markup.TagA {
		f.endAnchor()
	}
	if e.Has == 0 {
		return
	}
	switch e.Space {
	case markup.SpaceHTML:
		f.element(e)
	case markup.SpaceSVG:
		f.svgElement(e)
	}
	if e.Has>>markup.AttrStyle&1 != 0 {
		f.css(e.Bytes(markup.AttrStyle))
	}
	if e.Has&presentation != 0 && e.Space == markup.SpaceSVG {
		for a := range markup.Attrs {
			if presentation&e.Has>>a&1 != 0 {
				f.css(e.Bytes(a))
			}
		}
	}
	if e.Has&lazy != 0 {
		f.lazy(e)
	}
}

// endAnchor ends the text of the open a element.
func (f *finder) endAnchor() {
	h := &f.html
	if h.anchor >= 0 {
		f.texted(h.anchor, h.repeats, h.label.b)
		h.anchor = -1
	}
}

// openAnchor begins the text of the a element of the link that add was given last, unless that is none.
func (f *finder) openAnchor() {
	f.html.anchor, f.html.repeats = f.last, f.repeats
	f.html.label.reset()
}

// addText adds to the text of the open a element.
func (f *finder) addText(text []byte) {
	f.html.label.addText(text, f.opt.MaxText)
}

// element adds the links of one HTML element.
func (f *finder) element(e *markup.Element) {
	switch e.Tag {
	case markup.TagA:
		f.last = -1
		f.anchor(linkkind.A, e)
		f.openAnchor()
	case markup.TagArea:
		f.last = -1
		f.anchor(linkkind.Area, e)
		f.alt(e)
	case markup.TagBase:
		if e.Has>>markup.AttrHref&1 != 0 && !f.html.based {
			f.html.based = true
			if b, err := f.page.Base.Base(strings.Clone(e.Get(markup.AttrHref))); err == nil {
				f.page.Base = b
			}
		}
	case markup.TagLink:
		f.linkElement(e)
	case markup.TagImg:
		if f.html.anchor >= 0 {
			f.addText(e.Bytes(markup.AttrAlt))
		}
		f.last = -1
		f.attr(linkkind.Img, e, markup.AttrSrc)
		f.alt(e)
		f.srcset(linkkind.Img, e.Get(markup.AttrSrcset))
		f.attr(linkkind.Longdesc, e, markup.AttrLongdesc)
	case markup.TagInput:
		f.button(e)
		if strings.EqualFold(strings.TrimSpace(e.Get(markup.AttrType)), "image") {
			f.last = -1
			f.attr(linkkind.Img, e, markup.AttrSrc)
			f.alt(e)
		}
	case markup.TagButton:
		f.button(e)
	case markup.TagIframe:
		f.attr(linkkind.Iframe, e, markup.AttrSrc)
		f.attr(linkkind.Longdesc, e, markup.AttrLongdesc)
		if e.Has>>markup.AttrSrcdoc&1 != 0 {
			f.html.frames = append(f.html.frames, bytes.Clone(e.Bytes(markup.AttrSrcdoc)))
		}
	case markup.TagFrame:
		f.attr(linkkind.Frame, e, markup.AttrSrc)
		f.attr(linkkind.Longdesc, e, markup.AttrLongdesc)
	case markup.TagEmbed:
		f.attr(linkkind.Embed, e, markup.AttrSrc)
	case markup.TagObject:
		f.attr(linkkind.Object, e, markup.AttrData)
	case markup.TagApplet:
		f.applet(e)
	case markup.TagScript:
		f.attr(linkkind.Script, e, markup.AttrSrc)
	case markup.TagVideo:
		f.attr(linkkind.Video, e, markup.AttrSrc)
		f.attr(linkkind.Poster, e, markup.AttrPoster)
	case markup.TagAudio:
		f.attr(linkkind.Audio, e, markup.AttrSrc)
	case markup.TagSource:
		f.attr(linkkind.Source, e, markup.AttrSrc)
		f.srcset(linkkind.Img, e.Get(markup.AttrSrcset))
	case markup.TagTrack:
		f.attr(linkkind.Track, e, markup.AttrSrc)
	case markup.TagForm:
		// A form that posts changes something: its action is not a link.
		f.html.posts = isPost(e.Get(markup.AttrMethod))
		if action := e.Get(markup.AttrAction); !f.html.posts && strings.TrimSpace(action) != "" {
			f.addLink(linkkind.Form, action, hasToken(e.Get(markup.AttrRel), "nofollow"))
		}
	case markup.TagBlockquote, markup.TagQ, markup.TagIns, markup.TagDel:
		f.attr(linkkind.Cite, e, markup.AttrCite)
	case markup.TagBody, markup.TagTable, markup.TagTd, markup.TagTh, markup.TagTr, markup.TagThead, markup.TagTbody, markup.TagTfoot:
		f.attr(linkkind.Background, e, markup.AttrBackground)
	case markup.TagMeta:
		f.meta(e)
	}
}

// isPost reports whether a form's method is another than GET.
func isPost(method string) bool {
	method = strings.TrimSpace(method)
	return strings.EqualFold(method, "post") || strings.EqualFold(method, "dialog")
}

// button adds where a button of a form leads that has an address of its own.
func (f *finder) button(e *markup.Element) {
	if e.Has>>markup.AttrFormaction&1 == 0 {
		return
	}
	posts := f.html.posts
	if e.Has>>markup.AttrFormmethod&1 != 0 {
		posts = isPost(e.Get(markup.AttrFormmethod))
	}
	if !posts {
		f.attr(linkkind.Form, e, markup.AttrFormaction)
	}
}

// svgElement adds the link of one SVG element. What it names of its own document is none.
func (f *finder) svgElement(e *markup.Element) {
	a := markup.AttrHref // before XLink's, in SVG 2
	if e.Has>>markup.AttrHref&1 == 0 {
		a = markup.AttrXlinkHref
	}
	if ref := e.Get(a); e.Tag == markup.TagA && e.Has>>a&1 != 0 {
		f.addLink(linkkind.SVGA, ref, hasToken(e.Get(markup.AttrRel), "nofollow"))
		f.openAnchor()
	} else if ref = strings.TrimSpace(ref); ref != "" && ref[0] != '#' {
		f.addLink(linkkind.SVG, ref, false)
	}
}

// anchor adds a hyperlink, for which an empty reference is the page itself.
func (f *finder) anchor(kind string, e *markup.Element) {
	if e.Has>>markup.AttrHref&1 != 0 {
		f.addLink(kind, e.Get(markup.AttrHref), hasToken(e.Get(markup.AttrRel), "nofollow"))
	}
}

// alt gives the link of an image, which add was given last, the text that stands for it.
func (f *finder) alt(e *markup.Element) {
	if f.last >= 0 && e.Has>>markup.AttrAlt&1 != 0 {
		l := &f.html.alt
		l.reset()
		l.addText(e.Bytes(markup.AttrAlt), f.opt.MaxText)
		f.texted(f.last, f.repeats, l.b)
	}
}

// attr adds an embedded resource, for which an empty reference is none.
func (f *finder) attr(kind string, e *markup.Element, name markup.Attr) {
	if ref := e.Get(name); strings.TrimSpace(ref) != "" {
		f.addLink(kind, ref, false)
	}
}

func (f *finder) linkElement(e *markup.Element) {
	rel := e.Get(markup.AttrRel)
	if href := e.Get(markup.AttrHref); strings.TrimSpace(href) != "" {
		if kind := relKind(rel, e.Get(markup.AttrHreflang)); kind != "" {
			f.addLink(kind, href, hasToken(rel, "nofollow"))
		}
	}
	f.srcset(linkkind.Img, e.Get(markup.AttrImageSrcset))
}

// applet adds a Java applet's archives and class, which stand below its codebase.
func (f *finder) applet(e *markup.Element) {
	below := strings.TrimSpace(e.Get(markup.AttrCodebase))
	if below != "" && !strings.HasSuffix(below, "/") {
		below += "/"
	}
	for _, ref := range strings.Split(e.Get(markup.AttrArchive)+","+e.Get(markup.AttrCode), ",") {
		if ref = strings.TrimSpace(ref); ref != "" {
			f.addLink(linkkind.Applet, below+ref, false)
		}
	}
}

// lazy adds the URLs that attributes name for scripts to load later. No standard says what these
// attributes are: a value that has neither a slash nor a dot, or has white space
// where none belongs, is no reference.
func (f *finder) lazy(e *markup.Element) {
	kind := linkkind.Lazy
	if e.Tag == markup.TagIframe {
		kind = linkkind.Iframe
	}
	for a := range markup.Attrs {
		if lazy&e.Has>>a&1 == 0 {
			continue
		}
		switch v := strings.TrimSpace(e.Get(a)); {
		case !strings.ContainsAny(v, "/."):
		case a == markup.AttrDataSrcset || a == markup.AttrDataLazySrcset:
			f.srcset(kind, v)
		case !strings.ContainsAny(v, " \t\r\n\f<>{}\"'()"):
			f.addLink(kind, v, false)
		}
	}
}

func (f *finder) meta(e *markup.Element) {
	content := e.Get(markup.AttrContent)
	equiv, name := strings.TrimSpace(e.Get(markup.AttrHTTPEquiv)), strings.TrimSpace(e.Get(markup.AttrName))
	switch {
	case f.inner > 0 && (strings.EqualFold(equiv, "refresh") || process.Addresses(name, f.opt.Agent)):
		return
	case strings.EqualFold(equiv, "refresh"):
		if ref, _ := markup.Refresh(content); ref != "" {
			f.addLink(linkkind.Refresh, ref, false)
		}
		return
	case process.Addresses(name, f.opt.Agent):
		f.robotsDirectives(content)
		return
	case strings.TrimSpace(content) == "":
		return
	}
	if property := strings.TrimSpace(e.Get(markup.AttrProperty)); property != "" {
		name = property
	}
	if kind := metaURLs[strings.ToLower(name)]; kind != "" {
		f.addLink(kind, content, false)
	} else if itemURLs[strings.ToLower(strings.TrimSpace(e.Get(markup.AttrItemprop)))] {
		f.addLink(linkkind.Meta, content, false)
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
		f.addLink(kind, ref, false)
	}
}

// skipDescriptors skips to the comma that ends a candidate, outside parentheses,
// which do not nest.
func skipDescriptors(s string) string {
	inParens := false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			inParens = true
		case ')':
			inParens = false
		case ',':
			if !inParens {
				return s[i+1:]
			}
		}
	}
	return ""
}

// hasToken reports whether a list of words, separated by white space, has a word.
func hasToken(list, token string) bool {
	for word := range words(list) {
		if strings.EqualFold(word, token) {
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

func (l *label) addText(text []byte, limit int) {
	for i := 0; i < len(text) && !l.full; {
		word := i
		for i < len(text) && isGraph[text[i]] {
			i++
		}
		if i > word {
			l.put(text[word:i], limit)
			continue
		}
		if text[i] < utf8.RuneSelf { // white space or a control character
			l.space = true
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if i += n; r == 0xA0 {
			l.space = true
			continue
		}
		if r == 0xFEFF { // a byte order mark is no text
			continue
		}
		var b [utf8.UTFMax]byte
		l.put(utf8.AppendRune(b[:0], r), limit)
	}
}

// put adds one character, or as many of ASCII as fit.
func (l *label) put(part []byte, limit int) {
	free := limit - len(l.b)
	if l.space && len(l.b) > 0 {
		free--
	}
	if l.full = len(part) > free; l.full {
		if free <= 0 || part[0] >= utf8.RuneSelf {
			return
		}
		part = part[:free]
	}
	if l.space && len(l.b) > 0 {
		l.b = append(l.b, ' ')
	}
	l.b, l.space = append(l.b, part...), false
}

// isGraph are the characters of ASCII that show.
var isGraph = func() (t [256]bool) {
	for c := '!'; c <= '~'; c++ {
		t[c] = true
	}
	return t
}()
