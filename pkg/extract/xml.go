package extract

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"mercator/pkg/web/canon"
	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
)

// maxElementText bounds the text that is read as a link, in bytes.
const maxElementText = 16 << 10

// xml adds the links of a sitemap or sitemap index with the extensions for images,
// videos and languages (sitemaps.org), of RSS 0.9 to 2.0, RSS 1.0 (RDF) or Atom
// (RFC 4287), and of any other XML if that is a source. The root element says which;
// its name is returned. Damage ends the search. label is the charset that the header
// gives.
func (f *finder) xml(in io.Reader, label string) (root string) {
	return f.xmlTokens(xmlText(in, label), "")
}

// xmlTokens is xml of text that is UTF-8. A root element of no vocabulary known here is
// taken to be of otherwise, if that is not "".
func (f *finder) xmlTokens(in *bufio.Reader, otherwise string) (root string) {
	m := &meter{in: in}
	d := xml.NewDecoder(m)
	d.Strict = false
	d.Entity = xml.HTMLEntity
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // it is UTF-8 by now
	x := xmlFinder{finder: f, item: -1, otherwise: otherwise}
	for {
		// Raw: no stack of open elements that a hostile file could make deep.
		m.endToken()
		tok, err := d.RawToken()
		if err != nil {
			f.page.Cut = f.page.Cut || errors.Is(err, errToken)
			return x.root
		}
		switch t := tok.(type) {
		case xml.Directive:
			if own := declaredEntities(t); own != nil {
				d.Entity = own
			}
		case xml.StartElement:
			if !x.start(t) {
				return x.root
			}
		case xml.CharData:
			if x.collecting != "" && (len(x.text)+len(t) <= maxElementText || x.kind == kindMarkup && len(x.text)+len(t) <= markup.MaxToken) {
				x.text = append(x.text, t...)
			}
		case xml.EndElement:
			x.endElement(strings.ToLower(t.Name.Local))
		}
	}
}

// xmlText is a document of XML as valid UTF-8. Its encoding is known by byte order
// mark, header or declaration, in this order (RFC 7303 section 3), or else is UTF-8.
func xmlText(in io.Reader, label string) *bufio.Reader {
	r := bufio.NewReader(in)
	head, _ := r.Peek(1024) // what there is
	enc, _ := markEncoding(head)
	if enc == nil {
		enc, _ = lookup(label)
	}
	if enc == nil {
		enc, _ = xmlEncoding(head)
	}
	if enc == nil {
		enc = unicode.UTF8
	}
	if bytes.HasPrefix(head, utf8Mark) {
		_, _ = r.Discard(len(utf8Mark)) // they were seen
	}
	return bufio.NewReader(transform.NewReader(r, enc.NewDecoder()))
}

// entityMark stands for an entity that the document declares itself. None is expanded: a
// document may nest them without bounds. A link that has one is refused. It is a
// character that no text has.
const entityMark = "\uFDD0"

// maxEntities bounds the declared entities of one document that can mark their links.
const maxEntities = 1000

var entityDeclaration = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<!ENTITY\s+([^\s%"'<>]+)\s`) })

// declaredEntities are those of HTML, since feeds have them undeclared, and the marks of
// those that a document type declares; nil: it declares none.
func declaredEntities(doctype []byte) map[string]string {
	names := entityDeclaration().FindAllSubmatch(doctype, maxEntities)
	if len(names) == 0 {
		return nil
	}
	entities := maps.Clone(xml.HTMLEntity)
	for _, n := range names {
		entities[string(n[1])] = entityMark
	}
	return entities
}

// maxBases bounds the xml:base attributes in force at a time.
const maxBases = 64

// xmlFinder is the state of a search through XML.
type xmlFinder struct {
	*finder
	root, prefix string // of the root element
	otherwise    string // vocabulary of a root element that is of none
	vocabulary   string // the root of a vocabulary that is a source, or "": any XML
	of           string // element of a sitemap that was opened last and not closed: url, sitemap, image or video
	depth        int    // of open elements

	collecting string // local name of the open element that holds a link or title as text, or ""
	kind       string // kind of the link being collected; "" for a title
	text       []byte
	resolved   []byte // memory of a reference and what it resolves to

	bases []xmlBase // xml:base attributes in force, outermost first

	item  int    // index of the first link of the open item or entry, or -1
	title string // title of the open item
}

type xmlBase struct {
	depth int
	base  *canon.Base
}

// start takes a start tag; false if nothing more is to be found.
func (x *xmlFinder) start(t xml.StartElement) bool {
	name := strings.ToLower(t.Name.Local)
	x.depth++
	if x.root == "" {
		x.root, x.prefix = name, t.Name.Space
		from := x.opt.Sources
		switch name {
		case "html":
			return false // for the engines of HTML
		case "svg":
			if from.has(FromHTML) {
				return false // the same
			}
		case "urlset", "sitemapindex":
			if from.has(FromSitemaps) {
				x.vocabulary = name
			}
		case "rss", "rdf", "feed", "opml":
			if from.has(FromFeeds) {
				x.vocabulary = name
			}
		default:
			x.vocabulary = x.otherwise
		}
		if x.vocabulary == "" && !from.has(FromXML) {
			return false
		}
	}
	for _, a := range t.Attr {
		if a.Name.Space == "xml" && a.Name.Local == "base" && len(x.bases) < maxBases {
			if b, err := x.base().Base(strings.TrimSpace(a.Value)); err == nil {
				x.bases = append(x.bases, xmlBase{x.depth, b})
			}
		}
	}
	if name == "item" || name == "entry" {
		x.item, x.title = len(x.found.all), ""
	}
	switch name {
	case "url", "sitemap", "image", "video":
		x.of = name
	}
	x.collecting, x.text = "", x.text[:0]
	x.kind = x.element(name, &t)
	if x.kind != "" || x.item >= 0 && name == "title" {
		x.collecting = name
	}
	return true
}

func (x *xmlFinder) endElement(name string) {
	if x.collecting == name {
		text := strings.TrimSpace(string(x.text))
		switch {
		case x.kind == "":
			x.title = strings.ReplaceAll(text, "\uFEFF", "")
		case x.kind == kindMarkup:
			x.markup()
		case (name == "sitemap" || name == "url" && x.vocabulary == "urlset") && !isAbsolute(text): // what stands in it is no URL, but elements
		case x.kind == linkkind.XML && !isAbsolute(text):
		// A guid is a permanent link by default, and by habit often none.
		case text != "" && (name != "guid" || strings.Contains(text, "://")):
			x.link(x.kind, text)
		}
	}
	x.collecting = ""
	if name == "image" || name == "video" {
		x.of = "url"
	}
	if name == "item" || name == "entry" {
		x.titleLinks()
		x.item = -1
	}
	for len(x.bases) > 0 && x.bases[len(x.bases)-1].depth >= x.depth {
		x.bases = x.bases[:len(x.bases)-1]
	}
	x.depth--
}

// kindMarkup is the kind of an element with text that is, or may be, HTML.
const kindMarkup = "\x00markup"

// markup adds the links of the open element's text, which is HTML.
func (x *xmlFinder) markup() {
	if bytes.IndexByte(x.text, '<') < 0 {
		return
	}
	if len(x.bases) > 0 {
		x.finder.base = x.base()
	}
	x.inline(x.text)
	x.finder.base = nil
}

// titleLinks gives the links of an item its title for a text, which they share.
func (x *xmlFinder) titleLinks() {
	if x.item < 0 || x.title == "" {
		return
	}
	first, feed := -1, x.found.kind(linkkind.Feed)
	for i := x.item; i < len(x.found.all); i++ {
		switch l := &x.found.all[i]; {
		case l.kind != feed:
		case first < 0:
			x.setText(i, x.title)
			first = i
		default:
			l.anchor = x.found.all[first].anchor
		}
	}
}

func (x *xmlFinder) base() *canon.Base {
	if n := len(x.bases); n > 0 {
		return x.bases[n-1].base
	}
	return x.page.Base
}

// link adds a reference as it stands, or resolved where an xml:base is in force.
func (x *xmlFinder) link(kind, ref string) {
	if strings.Contains(ref, entityMark) {
		x.refuse(kind, strings.ReplaceAll(ref, entityMark, "\ufffd"), ReasonEntity)
		return
	}
	if kind == linkkind.Sitemap || kind == linkkind.SitemapURL {
		ref = x.withScheme(ref)
	}
	if len(x.bases) > 0 {
		b := append(x.resolved[:0], ref...)
		b, _, err := x.base().AppendResolve(b, b)
		if err != nil {
			x.refuse(kind, ref, string(canon.ReasonOf(err)))
			return
		}
		x.resolved, ref = b, markup.View(b[len(ref):])
	}
	x.addLink(kind, ref, false)
}

// isAbsolute reports whether a text is one URL, with a scheme and host.
func isAbsolute(s string) bool {
	scheme, rest, ok := strings.Cut(s, "://")
	return ok && scheme != "" && rest != "" && isScheme(scheme) && !strings.ContainsAny(s, htmlSpace)
}

func isScheme(s string) bool {
	for i := 0; i < len(s); i++ {
		if !markup.IsLetter(s[i]) && (i == 0 || strings.IndexByte("0123456789+-.", s[i]) < 0) {
			return false
		}
	}
	return true
}

// maxTag bounds a tag of XML, in bytes: its attributes cost many times as much.
const maxTag = 64 << 10

var errToken = errors.New("token too long")

// meter bounds the tokens of an XML decoder: it reads byte by byte, and so knows
// where a token begins.
type meter struct {
	in    *bufio.Reader
	n     int  // bytes of the token
	limit int  // 0: its kind is not known yet
	last  byte // last byte read
}

// endToken says that a token ended. If it was a text, the < behind it was read.
func (m *meter) endToken() {
	m.n, m.limit = 0, 0
	if m.last != '<' {
		m.last = 0
	}
}

// ReadByte gives the next byte, or errToken.
func (m *meter) ReadByte() (byte, error) {
	c, err := m.in.ReadByte()
	if err != nil {
		return 0, err
	}
	switch {
	case m.limit != 0 || m.last == 0 && c == '<':
	case m.last == '<' && c != '!':
		m.limit = maxTag
	default:
		m.limit = markup.MaxToken
	}
	m.last = c
	if m.n++; m.limit != 0 && m.n > m.limit {
		return 0, errToken
	}
	if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
		c = ' ' // no character of XML, and no reason to stop
	}
	return c, nil
}

// Read makes it a reader for those who ask no further.
func (m *meter) Read(p []byte) (int, error) { return m.in.Read(p) }

// attrOf is an attribute of an element, or "".
func attrOf(t *xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if strings.EqualFold(a.Name.Local, name) {
			return strings.TrimSpace(a.Value)
		}
	}
	return ""
}

// attrLink adds the link in an attribute, unless kind is "", and reports whether there is one.
func (x *xmlFinder) attrLink(t *xml.StartElement, kind, name string) bool {
	ref := attrOf(t, name)
	if ref != "" && kind != "" {
		x.link(kind, ref)
	}
	return ref != ""
}

// element adds the links in an element's attributes, and returns the kind of link
// that its text is, or "".
func (x *xmlFinder) element(name string, t *xml.StartElement) (kind string) {
	switch x.vocabulary {
	case "sitemapindex", "urlset":
		return x.ofSitemap(name, t)
	case "rss", "rdf":
		return x.ofRSS(name, t)
	case "feed":
		return x.ofAtom(name, t)
	case "opml":
		if name == "outline" {
			x.attrLink(t, linkkind.OPML, "xmlUrl")
			x.attrLink(t, linkkind.OPML, "htmlUrl")
			x.attrLink(t, linkkind.OPML, "url")
		}
		return ""
	}
	for _, a := range t.Attr {
		if a.Name.Space == "xmlns" || a.Name.Local == "xmlns" || a.Name.Space == "xml" {
			continue
		}
		v := strings.TrimSpace(a.Value)
		switch strings.ToLower(a.Name.Local) {
		case "href", "src", "url":
			if v != "" && v[0] != '#' {
				x.link(linkkind.XML, v)
			}
		default:
			if isAbsolute(v) {
				x.link(linkkind.XML, v)
			}
		}
	}
	return linkkind.XML
}

// ofSitemap is element for sitemaps. What is around a loc says what it names. Its prefix does not: many declare it wrongly.
func (x *xmlFinder) ofSitemap(name string, t *xml.StartElement) (kind string) {
	switch name {
	case "url":
		return linkkind.SitemapURL // its text is the URL where nobody wrote loc
	case "sitemap":
		return linkkind.Sitemap // the same
	case "loc":
		switch {
		case x.of == "image" || x.of == "video":
			return linkkind.Img
		case x.of == "sitemap" || x.of == "" && x.vocabulary == "sitemapindex":
			return linkkind.Sitemap
		}
		return linkkind.SitemapURL
	case "thumbnail_loc":
		return linkkind.Img
	case "content_loc", "player_loc":
		return linkkind.Video
	case "link": // xhtml:link
		x.attrLink(t, relKind(attrOf(t, "rel"), attrOf(t, "hreflang")), "href")
	}
	return ""
}

// ofRSS is element for RSS in all its versions.
func (x *xmlFinder) ofRSS(name string, t *xml.StartElement) (kind string) {
	switch name {
	case "link":
		if x.attrLink(t, linkkind.Feed, "href") { // atom:link
			return ""
		}
		return linkkind.Feed
	case "description", "encoded", "summary": // content:encoded, itunes:summary
		return kindMarkup
	case "a": // of a description that is not escaped
		x.attrLink(t, linkkind.A, "href")
	case "img":
		x.attrLink(t, linkkind.Img, "src")
	case "image": // itunes:image
		x.attrLink(t, linkkind.Img, "href")
	case "enclosure", "source", "content": // content: media:content
		x.attrLink(t, linkkind.Feed, "url")
	case "thumbnail": // media:thumbnail
		x.attrLink(t, linkkind.Img, "url")
	case "guid":
		if p := attrOf(t, "isPermaLink"); x.vocabulary == "rss" && (p == "" || strings.EqualFold(p, "true")) {
			return linkkind.Feed
		}
	case "url": // of image
		return linkkind.Img
	case "comments":
		if t.Name.Space == x.prefix {
			return linkkind.Feed // slash:comments is a number
		}
	}
	return ""
}

// ofAtom is element for Atom.
func (x *xmlFinder) ofAtom(name string, t *xml.StartElement) (kind string) {
	switch name {
	case "link":
		switch rel := strings.ToLower(attrOf(t, "rel")); rel {
		case "", "alternate", "enclosure", "related", "replies", "via":
			x.attrLink(t, linkkind.Feed, "href")
		default:
			x.attrLink(t, relKind(rel, attrOf(t, "hreflang")), "href")
		}
	case "content", "summary":
		x.attrLink(t, linkkind.Feed, "src")
		if strings.EqualFold(attrOf(t, "type"), "html") || strings.EqualFold(attrOf(t, "type"), "text/html") {
			return kindMarkup
		}
	case "a": // of XHTML
		x.attrLink(t, linkkind.A, "href")
	case "img":
		x.attrLink(t, linkkind.Img, "src")
	case "icon", "logo":
		return linkkind.Img
	}
	return ""
}
