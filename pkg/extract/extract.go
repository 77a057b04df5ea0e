// Package extract finds the links of one document.
//
// HTML is read by x/net/html's tokenizer, so that nesting costs nothing: links
// do not depend on the shape of the tree. CSS, sitemaps (XML, text, gzip, index),
// RSS, Atom, robots.txt, listings of FTP and
// menus of Gopher have scanners of their own. Other types have no links.
//
// # Invariants
//
//   - Time is linear in the document, and memory is the links found, at most
//     Options.MaxLinks of them, plus a constant.
//   - Links come in the order of the document, each (kind, reference, nofollow)
//     once.
//   - No document makes it fail: what cannot be read ends the search, and the
//     links before it stay.
//
// References are kept as they are written until the whole document was seen,
// because a base element anywhere counts for all of them. Resolve them against
// Page.Base.
package extract

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"path"
	"strings"

	"golang.org/x/text/encoding"

	"mercator/pkg/canon"
	"mercator/pkg/fingerprint"
)

// Kinds of links, the values of the link records' column link_kind. A link
// element has a kind for each relation of its own: see linkKinds.
const (
	KindA          = "a"
	KindArea       = "area"
	KindAudio      = "audio"
	KindBackground = "background"
	KindCite       = "cite"
	KindCSS        = "css"        // url() in a style sheet, a style element or attribute
	KindCSSImport  = "css-import" // @import
	KindEmbed      = "embed"
	KindFeed       = "feed" // item, channel or enclosure of RSS or Atom
	KindForm       = "form" // action of a form with method GET
	KindFrame      = "frame"
	KindIframe     = "iframe"
	KindImg        = "img" // src, srcset and input type=image
	KindLink       = "link"
	KindListing    = "listing" // file or directory in a listing of FTP
	KindMenu       = "menu"    // item of a Gopher menu
	KindObject     = "object"
	KindOpenGraph  = "og"
	KindPoster     = "poster"
	KindRedirect   = "redirect" // Location header of a reply
	KindRefresh    = "refresh"  // Refresh header, or meta element that stands for it
	KindScript     = "script"
	KindSitemap    = "sitemap"     // a sitemap, named by robots.txt or a sitemap index
	KindSitemapURL = "sitemap-url" // a page, named by a sitemap
	KindSource     = "source"
	KindTrack      = "track"
	KindVideo      = "video"
)

// Reasons under which a candidate is refused, beside those of package canon.
const (
	ReasonNofollow = "nofollow" // the page asks that none of its links be followed
	ReasonRepeated = "repeated" // the page has the same link above
	ReasonTooMany  = "too-many" // the page has more than Options.MaxLinks links
)

// Options are the limits. The zero value has the defaults.
type Options struct {
	Canon          canon.Options
	MaxLinks       int  // links kept of a document; 0: DefaultMaxLinks
	MaxText        int  // bytes kept of an anchor's text; 0: DefaultMaxText
	MaxUnzipped    int  // bytes read of a gzip sitemap; 0: DefaultMaxUnzipped
	IgnoreNofollow bool // find links although the page says nofollow
}

// Defaults of Options.
const (
	DefaultMaxLinks    = 100_000
	DefaultMaxText     = 256
	DefaultMaxUnzipped = 50 << 20 // the limit of the sitemap protocol
)

// maxToken bounds one token, in bytes, which the tokenizers hold as a whole: a tag
// of HTML with its attributes, the text of a script; a text, comment or CDATA
// section of XML; a comment, string or URL of CSS.
const maxToken = 2 << 20

// Document is what links are looked for in.
type Document struct {
	URL    string      // canonical
	Header http.Header // of the reply; may be nil
	MIME   string      // media type, lower case; "" or application/octet-stream: looked for in the body
	// Charset is the charset parameter of Content-Type, or "".
	Charset string
	Body    []byte // decoded
}

// Link is one link as the document has it.
type Link struct {
	Kind     string
	Ref      string // to be resolved against Page.Base
	Nofollow bool   // rel=nofollow stands on it
	Text     string // of an anchor, with single spaces
}

// Page is what was found in one document.
type Page struct {
	Base     *canon.Base // nil if Document.URL has no canonical form
	Links    []Link
	Nofollow bool // the page says that its links are not to be followed, and has none here
	Cut      bool // the search ended at a token that is too long
	// Refused counts what is not in Links, by reason.
	Refused map[string]uint64
}

// finder collects the links of one document.
type finder struct {
	opt      Options
	page     *Page
	seen     map[uint64]struct{} // FP64 of kind, reference and nofollow
	key      []byte              // of seen, reused
	text     bool                // references come from decoded text, not from a header
	encoding encoding.Encoding   // the document's, where queries need it; else nil
}

// Find finds the links of a document.
func Find(doc *Document, opt Options) Page {
	if opt.MaxLinks <= 0 {
		opt.MaxLinks = DefaultMaxLinks
	}
	if opt.MaxText <= 0 {
		opt.MaxText = DefaultMaxText
	}
	if opt.MaxUnzipped <= 0 {
		opt.MaxUnzipped = DefaultMaxUnzipped
	}
	var page Page
	base, err := opt.Canon.Base(doc.URL)
	if err != nil {
		page.refuse(string(canon.ReasonOf(err)), 1)
		return page
	}
	page.Base = base
	f := &finder{opt: opt, page: &page, seen: make(map[uint64]struct{})}
	f.header(doc.Header)
	f.text = true
	switch classify(doc) {
	case sortHTML:
		f.html(doc)
	case sortCSS:
		text, _ := decode(doc, false)
		c := sheet{finder: f}
		c.read(text, len(doc.Body))
	case sortXML:
		f.xml(bytes.NewReader(doc.Body))
	case sortText:
		f.textSitemap(bytes.NewReader(doc.Body))
	case sortGzip:
		f.gzip(doc)
	case sortListing:
		f.listing(doc.Body)
	case sortMenu:
		f.menu(doc.Body)
	}
	if page.Nofollow && !opt.IgnoreNofollow {
		page.refuse(ReasonNofollow, uint64(len(page.Links)))
		page.Links = nil
	}
	return page
}

// Robots finds the sitemaps that a robots.txt names.
func Robots(doc *Document, opt Options) Page {
	if opt.MaxLinks <= 0 {
		opt.MaxLinks = DefaultMaxLinks
	}
	var page Page
	base, err := opt.Canon.Base(doc.URL)
	if err != nil {
		page.refuse(string(canon.ReasonOf(err)), 1)
		return page
	}
	page.Base = base
	f := &finder{opt: opt, page: &page, seen: make(map[uint64]struct{})}
	body := bytes.TrimPrefix(doc.Body, []byte("\xef\xbb\xbf"))
	for len(body) > 0 {
		end := bytes.IndexAny(body, "\r\n")
		line := body
		if end >= 0 {
			line, body = body[:end], body[end+1:]
		} else {
			body = nil
		}
		key, value, ok := bytes.Cut(line, []byte(":"))
		if ok && strings.EqualFold(string(bytes.TrimSpace(key)), "sitemap") {
			value, _, _ = bytes.Cut(value, []byte(" #"))
			f.add(KindSitemap, strings.TrimSpace(string(value)), false)
		}
	}
	return page
}

func (p *Page) refuse(reason string, n uint64) {
	if n == 0 {
		return
	}
	if p.Refused == nil {
		p.Refused = make(map[string]uint64)
	}
	p.Refused[reason] += n
}

// add keeps a link unless it is there already, and returns its index in
// page.Links, or -1.
func (f *finder) add(kind, ref string, nofollow bool) int {
	if err := f.opt.Canon.Precheck(ref); err != nil {
		f.page.refuse(string(canon.ReasonOf(err)), 1)
		return -1
	}
	if f.text {
		ref = f.encodeQuery(validText(ref))
	}
	f.key = append(append(append(f.key[:0], kind...), 0), ref...)
	if nofollow {
		f.key = append(f.key, 0)
	}
	key := fingerprint.Of(f.key)
	if _, ok := f.seen[key]; ok {
		f.page.refuse(ReasonRepeated, 1)
		return -1
	}
	if len(f.page.Links) >= f.opt.MaxLinks {
		f.page.refuse(ReasonTooMany, 1)
		return -1
	}
	f.seen[key] = struct{}{}
	f.page.Links = append(f.page.Links, Link{Kind: kind, Ref: strings.Clone(ref), Nofollow: nofollow})
	return len(f.page.Links) - 1
}

// isSitemapName reports whether the last segment of a URL's path says sitemap. A
// text of URLs has no other mark.
func isSitemapName(u string) bool {
	_, _, rest := canon.Split(u)
	p, _, _ := strings.Cut(rest, "?")
	return strings.Contains(strings.ToLower(path.Base(p)), "sitemap")
}

// gzip reads a compressed sitemap, as far as MaxUnzipped.
func (f *finder) gzip(doc *Document) {
	z, err := gzip.NewReader(bytes.NewReader(doc.Body))
	if err != nil {
		return
	}
	in := io.LimitReader(z, int64(f.opt.MaxUnzipped))
	head := make([]byte, 512)
	n, _ := io.ReadFull(in, head) // less than 512 bytes, or damage: what there is decides
	all := io.MultiReader(bytes.NewReader(head[:n]), in)
	switch t := bytes.TrimLeft(bytes.TrimPrefix(head[:n], []byte("\xef\xbb\xbf")), " \t\r\n"); {
	case len(t) > 0 && t[0] == '<':
		f.xml(all)
	case isSitemapName(doc.URL):
		f.textSitemap(all)
	}
}
