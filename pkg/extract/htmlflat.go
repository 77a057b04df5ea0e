package extract

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"

	"mercator/pkg/web/markup"
)

// flat reads HTML tag by tag, without a tree. Links mostly do not depend on the tree's
// shape. Where they do, flat either follows as much of tree construction (HTML
// section 13.2.6) as that takes, or declines the page and goes on as well as may be.
// README.md lists both.
type flat struct {
	declined bool // a tree finds other links, or may

	begun     bool         // the body element has begun
	headEnded bool         // by its end tag
	first     bool         // no start tag was read so far
	inert     bool         // the current tag is in a template: its content is inert
	cells     [3]int       // open td, th and caption elements in the innermost one, not less than there are
	foreign   bool         // the current tag is in SVG or MathML
	script    scriptSort   // content type of the current script element
	depth     int          // the reader's within the a element of SVG that was opened last
	styled    bool         // in a style or script element of SVG
	sheet     []byte       // text of an open style element of SVG
	form      bool         // there is a form element that no end tag has closed
	tables    []tableState // open table elements
	inSelect  bool
	inButton  bool          // a button may be open
	inside    []markup.Open // elements that were opened within the a element being collected
}

// tableState says where in a table the document is.
type tableState struct {
	at      markup.Tag // TagTable (or between its parts), TagTr, TagTd, TagTh, TagCaption
	section markup.Tag // the open tbody, thead or tfoot; TagTbody if implied
}

// mostOpen bounds what flat keeps of open elements: beyond it a page is declined.
const mostOpen = 64

func (h *flat) reset() {
	*h = flat{first: true, sheet: h.sheet[:0], tables: h.tables[:0], inside: h.inside[:0]}
}

func (h *flat) decline() { h.declined = true }

// flatHTML finds the links of a document without a tree. It returns false if a tree
// might give other links.
func (f *finder) flatHTML(doc *Document) bool {
	h, r := &f.html.flat, &f.html.reader
	h.reset()
	f.encoding = Open(r, doc, linkAttrs)
	return f.readFlat()
}

// readFlat reads what the reader was opened with.
func (f *finder) readFlat() bool {
	h, r := &f.html.flat, &f.html.reader
	defer r.Close()
	for {
		h.foreign, h.inert, h.styled = r.Foreign(), r.Templates > 0, false
		if h.foreign {
			h.inert, h.styled = r.Inert(), r.Styled()
		}
		r.Texts = f.html.anchor >= 0 && !f.html.label.full || !h.begun || h.styled
		r.Calm = f.html.anchor < 0 && h.begun && !h.foreign && !h.inSelect && h.inFlow()
		tok := r.Next()
		if h.foreign && r.Depth() < h.depth { // the a element of SVG ends with what it stands in
			f.endAnchor()
			h.depth = 0
		}
		if h.styled && tok != markup.TokenText {
			f.endSheet()
		}
		switch tok {
		case markup.TokenStart:
			f.flatStart()
		case markup.TokenClose:
			f.flatEnd()
		case markup.TokenText:
			f.flatText()
		case markup.TokenRaw:
			f.flatRaw()
		case markup.TokenEnd:
			f.endAnchor()
			f.page.Cut = f.page.Cut || r.Long
			return r.XML || !h.declined && !r.Unsure
		}
	}
}

// Open makes a reader read a document of HTML, and returns the encoding in which its queries are written, if that matters.
func Open(r *markup.Reader, doc *Document, wants *markup.Wants) encoding.Encoding {
	text, enc := decode(doc, sortHTML)
	r.Open(text, doc.Body, isXHTML(doc), wants)
	return enc
}

// isXHTML reports whether a document that is read as HTML is XML: its media type says so, or it is no HTML but XML with such a root element.
func isXHTML(doc *Document) bool { return doc.MIME != "text/html" && MediaType(doc) != "text/html" }

// endSheet finds the links of a style element of SVG that has ended.
func (f *finder) endSheet() {
	h := &f.html.flat
	if !h.inert {
		f.css(h.sheet)
	}
	h.sheet = h.sheet[:0]
}

// inFlow reports whether the document is not between the parts of a table.
func (h *flat) inFlow() bool {
	if len(h.tables) == 0 {
		return true
	}
	at := h.tables[len(h.tables)-1].at
	return at != markup.TagTable && at != markup.TagTr
}

func (f *finder) flatText() {
	h, l := &f.html.flat, &f.html.reader
	if !h.begun && len(bytes.TrimLeft(l.Text, " \t\r\n\f")) > 0 {
		h.begun = true
	}
	if h.styled {
		if tag, _ := l.Within(); tag == markup.TagStyle && len(h.sheet)+len(l.Text) <= markup.MaxToken {
			h.sheet = append(h.sheet, l.Decoded()...)
		}
		return
	}
	if f.html.anchor < 0 || h.inert {
		return
	}
	// A tree joins texts between which a tag was dropped, and so halves of a
	// character; and it replaces a NUL byte here and drops it there.
	if !utf8.Valid(l.Text) || h.foreign && bytes.ContainsAny(l.Text, "\x00&") && (l.Literal || bytes.IndexByte(l.Text, 0) >= 0) {
		h.decline()
	}
	for text := l.Text; len(text) > 0 && !f.html.label.full; {
		part := text
		if len(part) > mostDecoded {
			part = part[:max(markup.WholeText(part[:mostDecoded]), 1)]
		}
		text = text[len(part):]
		if !l.Literal && markup.NeedsDecoding(part) {
			f.html.buf = markup.AppendDecoded(f.html.buf[:0], part, false)
			part = f.html.buf
		}
		f.addText(part)
	}
}

// mostDecoded bounds the text that is decoded at once, in bytes.
const mostDecoded = 4 << 10

func (f *finder) flatStart() {
	h, l := &f.html.flat, &f.html.reader
	e := &l.Element
	switch {
	case l.XML:
		h.begun = true
		if !h.inert {
			if e.Tag == markup.TagScript && e.Space == markup.SpaceHTML {
				h.script = scriptOf(e)
			}
			if f.startTag(e); e.Tag == markup.TagA && e.SelfClosing {
				f.endAnchor()
			}
		}
		return
	case h.foreign && (l.Foreign() || e.Space != markup.SpaceHTML):
		h.foreignStart(e)
		if e.Tag == markup.TagA && f.html.anchor >= 0 {
			h.decline() // the one around it goes on behind it
		}
		if !h.inert {
			if f.startTag(e); e.Tag == markup.TagA {
				if h.depth = l.Depth(); e.SelfClosing && e.Space != markup.SpaceHTML {
					f.endAnchor()
				}
			}
		}
		return
	case h.foreign: // which ends here
		h.decline()
	}
	switch {
	case h.inert:
		h.inertStart(e)
	case h.inSelect && e.Traits&markup.InSelect == 0:
		h.decline()
	case h.begun && len(h.tables) == 0 && e.IsPlain():
	case h.drops(e):
		return
	}
	if e.Tag == markup.TagFrameset {
		h.decline()
	}
	if h.inert {
		return
	}
	if f.html.anchor >= 0 {
		h.insideStart(e, l.InP)
	}
	if e.Tag == markup.TagA {
		h.inside = h.inside[:0]
	}
	switch e.Tag {
	case markup.TagScript:
		h.script = scriptOf(e)
	case markup.TagImage:
		e.TagInfo = imgInfo
	case markup.TagSVG, markup.TagMath:
		if e.SelfClosing && e.Slashed {
			h.decline()
		}
	}
	h.first = false
	if e.Has != 0 || f.html.anchor >= 0 {
		f.startTag(e)
	}
	h.track(&l.Lexer)
}

// cell is the index of an element in flat.cells, or -1.
func cell(t markup.Tag) int {
	switch t {
	case markup.TagTd:
		return 0
	case markup.TagTh:
		return 1
	case markup.TagCaption:
		return 2
	}
	return -1
}

// inertStart follows a start tag within a template. It declines what a tree does not
// tidy up at the template's end: elements that hide formatting elements before them.
func (h *flat) inertStart(e *markup.Element) {
	switch i := cell(e.Tag); {
	case e.Tag == markup.TagTemplate:
		if h.cells != [3]int{} {
			h.decline()
		}
	case i >= 0:
		h.cells[i]++
	case e.Traits&markup.IsScope != 0 && e.Tag != markup.TagTable && e.Tag != markup.TagSelect:
		h.decline()
	}
}

// inertEnd follows an end tag within a template.
func (h *flat) inertEnd(e *markup.Element) {
	switch i := cell(e.Tag); {
	case e.Tag == markup.TagTemplate:
		if h.cells != [3]int{} {
			h.decline()
		}
	case i >= 0 && h.cells[i] > 0:
		h.cells[i]--
	}
}

var imgInfo = markup.LookupTag(markup.NameKey("img"), []byte("img"))

// drops follows the start tags that a tree may drop, and reports whether it does.
func (h *flat) drops(e *markup.Element) bool {
	inBody := h.begun
	if !h.begun {
		h.begun = e.Traits&markup.InHead == 0 || e.Tag == markup.TagBody || e.Tag == markup.TagNoscript && h.headEnded
	}
	switch e.Tag {
	case markup.TagHTML, markup.TagHead, markup.TagBody:
		// A second one gives its attributes to the first, if to any.
		if e.Has != 0 && (e.Tag == markup.TagHTML && !h.first || e.Tag == markup.TagHead || e.Tag == markup.TagBody && inBody) {
			h.decline()
		}
	case markup.TagFrame: // frameset pages were declined
		return !h.declined
	case markup.TagForm:
		if h.form && !h.declined {
			return true
		}
		h.form = true
	case markup.TagTable:
		if !h.inFlow() {
			h.tables = h.tables[:len(h.tables)-1] // which the new one ends
		}
		if len(h.tables) == mostOpen {
			h.decline()
		} else {
			h.tables = append(h.tables, tableState{at: markup.TagTable, section: markup.TagTbody})
		}
		return false
	}
	if n := len(h.tables); n > 0 {
		h.tables[n-1].start(h, e)
	} else if e.Traits&markup.IsCell != 0 {
		return !h.declined
	}
	return false
}

// start follows a start tag that stands in a table.
func (t *tableState) start(h *flat, e *markup.Element) {
	switch e.Tag {
	case markup.TagTd, markup.TagTh, markup.TagCaption:
		t.at = e.Tag
		if e.Tag == markup.TagCaption {
			t.section = markup.TagTbody
		}
	case markup.TagTr:
		t.at = markup.TagTr
	case markup.TagTbody, markup.TagThead, markup.TagTfoot:
		t.at, t.section = markup.TagTable, e.Tag
	case markup.TagCol, markup.TagColgroup:
		t.at, t.section = markup.TagTable, markup.TagTbody
	default:
		// Between the parts of a table, other elements move before it.
		if (t.at == markup.TagTable || t.at == markup.TagTr) && e.Traits&markup.InTable == 0 && !(e.Tag == markup.TagInput && strings.EqualFold(e.Get(markup.AttrType), "hidden")) {
			h.decline()
		}
	}
}

// tableEnd follows an end tag that stands in a table.
func (h *flat) tableEnd(e *markup.Element) {
	n := len(h.tables)
	t := &h.tables[n-1]
	cell := t.at == markup.TagTd || t.at == markup.TagTh
	switch e.Tag {
	case markup.TagTable:
		h.tables = h.tables[:n-1]
	case markup.TagTd, markup.TagTh:
		if t.at == e.Tag {
			t.at = markup.TagTr
		}
	case markup.TagTr:
		if cell || t.at == markup.TagTr {
			t.at = markup.TagTable
		}
	case markup.TagTbody, markup.TagThead, markup.TagTfoot:
		if t.section == e.Tag && t.at != markup.TagCaption {
			t.at, t.section = markup.TagTable, markup.TagTbody
		}
	case markup.TagCaption:
		if t.at == markup.TagCaption {
			t.at = markup.TagTable
		}
	}
}

// track follows what a start tag, one that is not dropped, means for the tags behind it.
func (h *flat) track(l *markup.Lexer) {
	e := &l.Element
	if e.Traits&markup.ClosesP != 0 {
		l.InP = e.Tag == markup.TagP
	}
	switch e.Tag {
	case markup.TagSelect:
		h.inSelect = true
	case markup.TagTable:
		l.InP = true // where a table does not close it
	case markup.TagTd, markup.TagTh, markup.TagCaption:
		l.InP = false
	case markup.TagButton:
		h.inButton, l.InP = true, true
		return
	}
	if e.Traits&markup.IsScope != 0 && h.inButton {
		h.decline() // its end tag may not be seen
	}
}

// insideStart follows a start tag within an a element while its text is collected. It
// declines where the a element would end, or be cut in two.
func (h *flat) insideStart(e *markup.Element, inP bool) {
	switch {
	case e.Tag == markup.TagA:
		h.anchorEnd()
		return
	case e.Tag == markup.TagHTML || e.Tag == markup.TagHead || e.Tag == markup.TagBody || e.Tag == markup.TagTemplate || e.Tag == markup.TagSVG || e.Tag == markup.TagMath:
		return
	case e.Traits&markup.MayEndA != 0,
		e.Traits&markup.IsCell != 0,
		e.Traits&markup.ClosesP != 0 && inP,
		e.Tag == markup.TagButton && h.inButton,
		isHeading(e.Tag) && len(h.inside) > 0 && isHeading(h.inside[len(h.inside)-1].Tag),
		len(h.inside) == mostOpen:
		h.decline()
	case e.Traits&(markup.IsVoid|markup.IsRaw) == 0:
		h.inside = append(h.inside, markup.Open{Key: e.Key, Tag: e.Tag, Traits: e.Traits})
	}
}

func isHeading(t markup.Tag) bool { return markup.TagH1 <= t && t <= markup.TagH6 }

// anchorEnd follows the end of the open a element.
func (h *flat) anchorEnd() {
	for _, o := range h.inside {
		if o.Traits&markup.IsSpecial != 0 {
			h.decline()
		}
	}
}

// insideEnd follows an end tag within an a element while its text is collected. It
// reports whether the tag closes the innermost element.
func (h *flat) insideEnd(e *markup.Element) bool {
	n := len(h.inside)
	switch {
	case n > 0 && h.inside[n-1].Key == e.Key:
		h.inside = h.inside[:n-1]
		return true
	case e.Tag != markup.TagHTML && e.Tag != markup.TagBody && (e.Traits&markup.IsVoid == 0 || e.Tag == markup.TagBr):
		h.decline()
	}
	return false
}

func (f *finder) flatEnd() {
	h, l := &f.html.flat, &f.html.reader
	e := &l.Element
	switch {
	case l.XML:
		if e.Tag == markup.TagForm {
			f.html.posts = false
		}
		if e.Tag == markup.TagA && !h.inert {
			f.endAnchor()
		} else if f.html.anchor >= 0 && e.Traits&markup.IsBlock != 0 {
			f.html.label.space = true
		}
		return
	case h.foreign && (l.Foreign() || e.Space != markup.SpaceHTML):
		if !e.Closes {
			h.decline()
		} else if e.Tag == markup.TagA && !h.inert {
			f.endAnchor()
		}
		return
	case h.inert:
		h.inertEnd(e)
		return
	}
	if e.Tag == markup.TagA {
		if f.html.anchor >= 0 {
			h.anchorEnd()
			f.endAnchor()
		}
		return
	}
	if f.html.anchor >= 0 {
		if h.insideEnd(e) && e.Traits&markup.IsBlock != 0 {
			f.html.label.space = true
		}
	}
	switch e.Tag {
	case markup.TagOther:
		if e.Traits&markup.IsScope != 0 {
			l.InP = true
		}
	case markup.TagHead:
		h.headEnded = true
	case markup.TagBody, markup.TagHTML, markup.TagBr:
		h.begun = true
	case markup.TagForm:
		h.form, f.html.posts = false, false
	case markup.TagP:
		l.InP = false
	case markup.TagButton:
		h.inButton, l.InP = false, true
	case markup.TagSelect:
		h.inSelect, l.InP = false, true
	case markup.TagObject, markup.TagApplet:
		l.InP = true
	case markup.TagTable, markup.TagTbody, markup.TagTd, markup.TagTfoot, markup.TagTh, markup.TagThead, markup.TagTr, markup.TagCaption:
		if h.inSelect {
			h.decline()
		}
		if l.InP = l.InP || e.Tag == markup.TagTable; len(h.tables) > 0 {
			h.tableEnd(e)
		}
	}
}

// foreignStart follows a start tag within SVG or MathML, which have elements of
// their own. It declines where HTML begins again within them.
func (h *flat) foreignStart(e *markup.Element) {
	if e.Space == markup.SpaceHTML || e.Slashed || h.styled {
		h.decline()
	}
}

// flatRaw reads the content of a raw text element.
func (f *finder) flatRaw() {
	h, l := &f.html.flat, &f.html.reader
	if h.inert {
		return
	}
	switch l.TagInfo.Tag {
	case markup.TagScript:
		text := l.Text
		if l.XML {
			text = l.Decoded()
		}
		f.scriptElement(h.script, text)
	case markup.TagStyle:
		if text := l.Text; l.XML {
			f.css(l.Decoded())
		} else {
			f.css(plainCSS(text))
		}
	}
}

// plainCSS is a style element's text as a tree has it.
func plainCSS(text []byte) []byte {
	if len(text) > markup.MaxToken || bytes.IndexByte(text, '\r') < 0 && bytes.IndexByte(text, 0) < 0 {
		return text
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte{0}, []byte("\uFFFD"))
}
