package extract

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"mercator/pkg/markup"
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
	templates int          // open template elements, whose content is inert
	cells     [3]int       // open td, th and caption elements in the innermost one, not less than there are
	foreign   []openTag    // open elements from the outermost SVG or MathML one on
	form      bool         // there is a form element that no end tag has closed
	tables    []tableState // open table elements
	inSelect  bool
	inButton  bool      // a button may be open
	inside    []openTag // elements that were opened within the open a element whose text is collected
}

type openTag struct {
	Key    uint64
	Tag    markup.Tag
	Traits markup.Trait
}

// tableState says where in a table the document is.
type tableState struct {
	at      markup.Tag // tagTable (or between its parts), tagTr, tagTd, tagTh, tagCaption
	section markup.Tag // the open tbody, thead or tfoot; tagTbody if implied
}

// mostOpen bounds what flat keeps of open elements: beyond it a page is declined.
const mostOpen = 64

func (h *flat) reset() {
	*h = flat{first: true, foreign: h.foreign[:0], tables: h.tables[:0], inside: h.inside[:0]}
}

func (h *flat) decline() { h.declined = true }

// flatHTML finds the links of a document. It returns false for one of which a tree
// finds other links, or may.
func (f *finder) flatHTML(doc *Document) bool {
	h, l := &f.html.flat, &f.html.lexer
	h.reset()
	text, enc := decode(doc, sortHTML)
	f.encoding = enc
	l.Open(text, doc.Body)
	defer l.Close()
	for {
		l.Texts = f.html.anchor >= 0 && !f.html.label.full || !h.begun
		l.Calm = f.html.anchor < 0 && h.begun && len(h.foreign) == 0 && !h.inSelect && h.inFlow()
		switch l.Next() {
		case markup.TokenStart:
			f.flatStart()
		case markup.TokenClose:
			f.flatEnd()
		case markup.TokenText:
			f.flatText()
		case markup.TokenEnd:
			if !l.Fill() {
				f.endAnchor()
				f.page.Cut = f.page.Cut || l.Long
				return !h.declined
			}
		}
	}
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
	h, l := &f.html.flat, &f.html.lexer
	if !h.begun && len(bytes.TrimLeft(l.Text, " \t\r\n\f")) > 0 {
		h.begun = true
	}
	if f.html.anchor < 0 || h.templates > 0 {
		return
	}
	// A tree joins texts between which a markup.Tag was dropped, and so halves of a
	// character; and it replaces a NUL byte here and drops it there.
	if !utf8.Valid(l.Text) || len(h.foreign) > 0 && bytes.IndexByte(l.Text, 0) >= 0 {
		h.decline()
	}
	for text := l.Text; len(text) > 0 && !f.html.label.full; {
		part := text
		if len(part) > mostDecoded {
			part = part[:max(markup.WholeText(part[:mostDecoded]), 1)]
		}
		text = text[len(part):]
		if markup.NeedsDecoding(part) {
			f.html.buf = markup.AppendDecoded(f.html.buf[:0], part, false)
			part = f.html.buf
		}
		f.addText(part)
	}
}

// mostDecoded bounds the text that is decoded at once, in bytes.
const mostDecoded = 4 << 10

func (f *finder) flatStart() {
	h, l := &f.html.flat, &f.html.lexer
	e := &l.Element
	e.Space = markup.SpaceHTML
	switch {
	case len(h.foreign) > 0:
		h.foreignStart(e)
		if e.Tag == markup.TagA && f.html.anchor >= 0 {
			h.decline() // the one around it goes on behind it
		}
		if l.CDATA = len(h.foreign) > 0; h.templates == 0 {
			f.startTag(e)
		}
		return
	case h.templates > 0:
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
	if h.templates == 0 {
		if f.html.anchor >= 0 {
			h.insideStart(e, l.InP)
		}
		if e.Tag == markup.TagA {
			h.inside = h.inside[:0]
		}
		switch e.Tag {
		case markup.TagImage:
			e.TagInfo = imgInfo
		case markup.TagSVG:
			e.Space = markup.SpaceSVG
		case markup.TagMath:
			e.Space = markup.SpaceMath
		}
		h.first = false
		if e.Has != 0 || f.html.anchor >= 0 {
			f.startTag(e)
		}
		h.track(l)
	}
	switch {
	case e.Tag == markup.TagSVG || e.Tag == markup.TagMath:
		if !e.SelfClosing {
			h.foreign = append(h.foreign[:0], openTag{e.Key, e.Tag, 0})
			l.CDATA = true
		} else if e.Slashed {
			h.decline()
		}
	case e.Traits&markup.IsRaw != 0:
		f.flatRaw()
	}
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
		if h.templates++; h.cells != [3]int{} {
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
		if h.templates--; h.cells != [3]int{} {
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
	case markup.TagTemplate:
		h.templates = 1
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

// insideStart follows a start tag within an a element whose text is collected. It
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
		h.inside = append(h.inside, openTag{e.Key, e.Tag, e.Traits})
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

// insideEnd follows an end tag within the a element whose text is collected, and
// reports whether it closes the innermost element.
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
	h, l := &f.html.flat, &f.html.lexer
	e := &l.Element
	if len(h.foreign) > 0 {
		if h.foreignEnd(e) && e.Tag == markup.TagA && h.templates == 0 {
			f.endAnchor()
		}
		l.CDATA = len(h.foreign) > 0
		return
	}
	if h.templates > 0 {
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
		h.form = false
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
	if e.Space = markup.SpaceSVG; h.foreign[0].Tag == markup.TagMath {
		e.Space = markup.SpaceMath
	}
	switch h.foreign[len(h.foreign)-1].Tag {
	case markup.TagDesc, markup.TagTitle, markup.TagForeignObject, markup.TagMI, markup.TagMO, markup.TagMN, markup.TagMS, markup.TagMText, markup.TagAnnotationXML:
		h.decline() // which begins here, or may
	}
	switch {
	case e.Traits&markup.IsBreakout != 0:
		h.decline()
		h.foreign, e.Space = h.foreign[:0], markup.SpaceHTML
		return
	case e.Tag == markup.TagStyle || e.Tag == markup.TagScript || e.Slashed:
		h.decline() // their content is markup here
	}
	switch {
	case e.SelfClosing:
	case len(h.foreign) == mostOpen:
		h.decline()
	default:
		h.foreign = append(h.foreign, openTag{e.Key, e.Tag, 0})
	}
}

// foreignEnd follows an end tag within SVG or MathML and reports whether it closes
// the innermost element.
func (h *flat) foreignEnd(e *markup.Element) bool {
	n := len(h.foreign)
	if h.foreign[n-1].Key == e.Key {
		h.foreign = h.foreign[:n-1]
		return true
	}
	h.decline()
	for i := n - 1; i >= 0; i-- {
		if h.foreign[i].Key == e.Key {
			h.foreign = h.foreign[:i]
			return false
		}
	}
	if e.Traits != 0 {
		h.foreign = h.foreign[:0] // HTML goes on
	}
	return false
}

// flatRaw reads the content of a raw text element.
func (f *finder) flatRaw() {
	h, l := &f.html.flat, &f.html.lexer
	isStyle := l.TagInfo.Tag == markup.TagStyle
	for {
		text, more, unsure := l.Raw()
		if more {
			if l.Fill() {
				continue
			}
			l.Skip()
			return
		}
		if unsure {
			h.decline()
		}
		if isStyle && h.templates == 0 {
			f.css(plainCSS(text))
		}
		return
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
