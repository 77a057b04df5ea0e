// Package extract finds the links of one document.
//
// HTML is read by a lexer of this package, and where links depend on the shape of the
// tree by x/net/html's parser: see README.md. CSS, sitemaps (XML, text, gzip, index),
// RSS, Atom, robots.txt, PDF, listings of FTP and menus of Gopher have scanners of
// their own; plain text, JSON and other XML, too, if Options.Sources names them. What
// a document is, MediaType says; in which encoding, its byte order mark, the header,
// the document itself, or else its bytes.
//
// # Invariants
//
//   - Time is linear in the document, and memory is the links found, at most
//     Options.MaxLinks of them and as many further texts, with 8 MiB of text or as much as the document has,
//     plus a constant.
//   - Links come in the order of the document, each (kind, reference, nofollow)
//     once, and once more for a further text.
//   - No document makes it fail: what cannot be read ends the search, and the
//     links before it stay.
//
// References are kept as they are written until the whole document was seen,
// because a base element anywhere counts for all of them. Resolve them against
// Page.Base.
package extract

import (
	"bufio"
	"bytes"
	"math"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"

	"mercator/pkg/web/canon"
	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
)

// MaxHops bounds the redirects in a row from one link. Browsers stop at 20, too.
const MaxHops = 20

// hopOf reports whether links of a kind lead from a URL to another one for the same document. Such a hop costs no depth, but is counted, and
// a link of any other kind begins a new count.
func hopOf(kind string) bool {
	return kind == linkkind.Redirect || kind == linkkind.Refresh || kind == linkkind.Canonical
}

// Reasons why a candidate is refused, beside the reasons of package canon.
const (
	ReasonNofollow = "nofollow"       // the page asks that none of its links be followed
	ReasonRepeated = "repeated"       // the page has the same link above, with the same text or none
	ReasonHops     = "redirect-limit" // the candidate is redirect MaxHops + 1 in a row
	ReasonEntity   = "entity"         // the link has an entity that the document declares itself
	ReasonTooMany  = "too-many"       // the page has more than Options.MaxLinks links, or more text in them than is kept
)

// Reasons for which the links of a document were not found at all. Each counts once a document.
const (
	ReasonUndecodable = "undecodable" // its coding is damaged or unknown, or it is not of the type that it says
	ReasonEncrypted   = "encrypted"   // a PDF file that asks for a password
)

// Options are the limits. The zero value has the defaults.
type Options struct {
	Canon          canon.Options
	Sources        Sources // what links are taken from; 0: DefaultSources
	MaxLinks       int     // links kept of a document; 0: DefaultMaxLinks
	MaxText        int     // bytes kept of an anchor's text; 0: DefaultMaxText
	MaxUnzipped    int     // bytes read of a gzip sitemap; 0: DefaultMaxUnzipped
	IgnoreNofollow bool    // find links although the page says nofollow
	Agent          string  // product name, for directives that are for it; "": process.DefaultAgent
	HTMLEngine     string  // EngineFast, EngineXNet; "": EngineFast
}

// Defaults of Options.
const (
	DefaultMaxLinks    = 100_000
	DefaultMaxText     = 256
	DefaultMaxUnzipped = 50 << 20 // the limit of the sitemap protocol
)

// maxReferences bounds the references of a document's links and their texts, in bytes,
// unless the document itself is more than twice as long. What is packed, or has an
// xml:base, may have many times as much as its body.
const maxReferences = 8 << 20

// Document is a document to find links in.
type Document struct {
	URL    string      // canonical
	Header http.Header // of the reply; may be nil
	MIME   string      // media type, lower case; "" or application/octet-stream: looked for in the body
	// Charset is the charset parameter of Content-Type, or "".
	Charset string
	Body    []byte // decoded
	// Sitemap: a robots.txt or a sitemap index names it as a sitemap.
	Sitemap bool
}

// Link is one link as the document has it.
type Link struct {
	Kind     string
	Ref      string // to be resolved against Page.Base
	Nofollow bool   // rel=nofollow stands on it
	Text     string // of an anchor, or an image's alt, with single spaces
}

// Page is the links and facts found in one document.
type Page struct {
	Base     *canon.Base // nil if Document.URL has no canonical form
	Links    []Link
	Nofollow bool // the page says that its links are not to be followed, and has none here
	Cut      bool // the search ended at a token that is too long
	// Refused counts what is not in Links, by reason.
	Refused map[string]uint64
}

// finder collects the links of one document after the other. Its memory is reused.
type finder struct {
	opt        Options
	page       Page // without Links, which are in found
	found      linkSet
	repeated   uint64       // links refused as such
	last       int          // the link that add was given last, or the one above that it repeats; -1: it was refused
	repeats    bool         // it repeats one
	refused    []refusedRef // references that have no canonical form, or found no room; see keepRefused
	refusedSet map[refusedRef]bool
	keep       bool              // references that are refused are kept in refused
	barred     bool              // the page says nofollow: what was found is refused
	encoding   encoding.Encoding // the document's, where queries need it; else nil
	inner      int               // documents that the one at hand stands in: see inline
	base       *canon.Base       // base to resolve references against at once, if it is not Page.Base; else nil
	guess      bool              // links found are guesses, of kind linkkind.ScriptGuess
	text       bool              // references come from decoded text, not from a header
	html       htmlState
}

var finders = sync.Pool{New: func() any { return new(finder) }}

// Find finds the links of a document.
func Find(doc *Document, opt Options) Page {
	f := finders.Get().(*finder)
	defer finders.Put(f)
	f.find(doc, opt)
	page := f.page
	if !f.barred {
		page.Links = f.found.links()
	}
	return page
}

// beginDocument starts a document. False: its URL has no canonical form.
func (f *finder) beginDocument(doc *Document, opt Options) bool {
	if opt.Sources == 0 {
		opt.Sources = DefaultSources
	}
	if opt.MaxLinks <= 0 {
		opt.MaxLinks = DefaultMaxLinks
	}
	if opt.MaxText <= 0 {
		opt.MaxText = DefaultMaxText
	}
	if opt.MaxUnzipped <= 0 {
		opt.MaxUnzipped = DefaultMaxUnzipped
	}
	f.opt, f.page, f.encoding, f.text, f.repeated = opt, Page{}, nil, false, 0
	f.refused, f.refusedSet, f.barred = nil, nil, false
	f.inner, f.base, f.guess = 0, nil, false
	f.found.reset()
	f.found.room = min(max(len(doc.Body)/2, maxReferences), math.MaxInt32)
	base, err := opt.Canon.Base(doc.URL)
	if err != nil {
		f.page.refuse(string(canon.ReasonOf(err)), 1)
		return false
	}
	f.page.Base = base
	return true
}

// find finds the links of a document, which are in f.found then, and what else
// there is to say in f.page.
func (f *finder) find(doc *Document, opt Options) {
	if !f.beginDocument(doc, opt) {
		return
	}
	f.header(doc.Header)
	f.text = true
	from := f.opt.Sources
	switch sort := classify(doc); {
	case doc.Sitemap && from.has(FromSitemaps) && f.sitemap(doc):
	case sort == sortHTML && from.has(FromHTML):
		f.findHTML(doc)
	case sort == sortCSS && from.has(FromCSS):
		text, _ := decode(doc, sortCSS)
		c := sheet{finder: f}
		c.read(text, len(doc.Body))
	case sort == sortXML:
		root := f.xml(bytes.NewReader(doc.Body), doc.Charset)
		if (root == "html" || root == "svg") && from.has(FromHTML) {
			f.findHTML(doc) // which takes the namespaces of XML for granted
		}
	case sort == sortText && from.has(FromSitemaps) && isSitemapName(doc.URL):
		f.textSitemap(bufio.NewReader(bytes.NewReader(doc.Body)), false)
	case sort == sortText && from.has(FromText):
		f.plainText(doc)
	case sort == sortJSON && from.has(FromJSON):
		f.json(doc.Body)
	case sort == sortScript && from.has(FromScripts):
		text, _ := decode(doc, sortText)
		if b, ok := f.readText(text, len(doc.Body)); ok {
			f.script(b, false)
		}
	case sort == sortGzip:
		f.gzip(doc)
	case sort == sortPDF && from.has(FromPDF):
		f.pdf(doc.Body)
	case sort == sortOffice && from.has(FromOffice):
		f.office(doc)
	case sort == sortListing && from.has(FromFTP):
		f.listing(doc.Body)
	case sort == sortMenu && from.has(FromGopher):
		f.menu(doc.Body)
	}
	f.page.refuse(ReasonRepeated, f.repeated)
	if f.page.Nofollow && !f.opt.IgnoreNofollow {
		f.page.refuse(ReasonNofollow, uint64(len(f.found.all)))
		f.barred = true
	}
}

// Robots finds the sitemaps that a robots.txt names.
func Robots(doc *Document, opt Options) Page {
	f := finders.Get().(*finder)
	defer finders.Put(f)
	f.findRobots(doc, opt)
	page := f.page
	page.Links = f.found.links()
	return page
}

func (f *finder) findRobots(doc *Document, opt Options) {
	if f.beginDocument(doc, opt) && f.opt.Sources.has(FromRobots) {
		f.robots(doc.Body)
		f.page.refuse(ReasonRepeated, f.repeated)
	}
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

// addLink keeps a link unless it is there already, and returns its index in f.found,
// or -1. It keeps no part of ref. One that is there already may have a text of its own: see texted.
func (f *finder) addLink(kind, ref string, nofollow bool) int {
	if f.text && !isASCII(ref) && (f.encoding != nil || !utf8.ValidString(ref)) && f.opt.Canon.Precheck(ref) == nil {
		ref = f.encodeQuery(validText(ref))
	}
	if f.guess {
		if f.last = -1; isTemplate(ref) {
			return -1
		}
		kind = linkkind.ScriptGuess
	}
	if f.base != nil {
		b, _, err := f.base.AppendResolve(nil, []byte(ref))
		if err != nil {
			f.last = -1
			f.refuse(kind, ref, string(canon.ReasonOf(err)))
			return -1
		}
		ref = markup.View(b)
	}
	index, hash, slot := f.found.find(kind, ref, nofollow)
	f.last, f.repeats = index, index >= 0
	if index >= 0 {
		f.repeated++
		return -1
	}
	if err := f.opt.Canon.Precheck(ref); err != nil {
		f.refuse(kind, ref, string(canon.ReasonOf(err)))
		return -1
	}
	if f.found.different() >= f.opt.MaxLinks || !f.found.fits(len(ref)) {
		f.refuse(kind, ref, ReasonTooMany)
		return -1
	}
	f.last = f.found.put(kind, ref, nofollow, hash, slot)
	return f.last
}

// texted gives a link its text. One that repeats a link above is kept if it has another text, as many as a page may have links.
func (f *finder) texted(link int, repeats bool, text []byte) {
	switch {
	case !repeats:
		f.found.setText(link, text)
	case len(text) > 0 && f.found.again < f.opt.MaxLinks && f.found.fits(len(text)) && !f.found.hasText(link, text):
		f.repeated--
		f.found.putAgain(link, text)
	}
}

// refusedRef is a reference that was refused as it stood in the page.
type refusedRef struct{ kind, ref, reason string }

// References that are no links: at most this many are kept of a page, each once, and this many bytes of each. The ledger counts all.
const (
	maxRefused    = 1000
	maxRefusedRef = 1000
)

// refuse counts a reference that is no link, and keeps it if that is wanted.
func (f *finder) refuse(kind, ref, reason string) {
	f.page.refuse(reason, 1)
	f.keepRefused(kind, ref, reason)
}

func (f *finder) keepRefused(kind, ref, reason string) {
	if !f.keep || len(f.refused) == maxRefused {
		return
	}
	r := refusedRef{kind, ref[:min(len(ref), maxRefusedRef)], reason}
	if f.refusedSet[r] {
		return
	}
	r.ref = strings.Clone(r.ref)
	if f.refusedSet == nil {
		f.refusedSet = map[refusedRef]bool{}
	}
	f.refusedSet[r] = true
	f.refused = append(f.refused, refusedRef{kind, strings.ToValidUTF8(r.ref, "\ufffd"), reason})
}
