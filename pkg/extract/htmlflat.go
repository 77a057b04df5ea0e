package extract

import (
	"bytes"
	"strings"
	"unicode/utf8"
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
	key    uint64
	tag    tag
	traits trait
}

// tableState says where in a table the document is.
type tableState struct {
	at      tag // tagTable (or between its parts), tagTr, tagTd, tagTh, tagCaption
	section tag // the open tbody, thead or tfoot; tagTbody if implied
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
	l.open(text, doc.Body)
	defer l.close()
	for {
		l.texts = f.html.anchor >= 0 && !f.html.label.full || !h.begun
		l.calm = f.html.anchor < 0 && h.begun && len(h.foreign) == 0 && !h.inSelect && h.inFlow()
		switch l.next() {
		case tokenStart:
			f.flatStart()
		case tokenClose:
			f.flatEnd()
		case tokenText:
			f.flatText()
		case tokenEnd:
			if !l.fill() {
				f.endAnchor()
				f.page.Cut = f.page.Cut || l.long
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
	return at != tagTable && at != tagTr
}

func (f *finder) flatText() {
	h, l := &f.html.flat, &f.html.lexer
	if !h.begun && len(bytes.TrimLeft(l.text, " \t\r\n\f")) > 0 {
		h.begun = true
	}
	if f.html.anchor < 0 || h.templates > 0 {
		return
	}
	// A tree joins texts between which a tag was dropped, and so halves of a
	// character; and it replaces a NUL byte here and drops it there.
	if !utf8.Valid(l.text) || len(h.foreign) > 0 && bytes.IndexByte(l.text, 0) >= 0 {
		h.decline()
	}
	for text := l.text; len(text) > 0 && !f.html.label.full; {
		part := text
		if len(part) > mostDecoded {
			part = part[:max(wholeText(part[:mostDecoded]), 1)]
		}
		text = text[len(part):]
		if needsDecoding(part) {
			f.html.buf = appendDecoded(f.html.buf[:0], part, false)
			part = f.html.buf
		}
		f.addText(part)
	}
}

// mostDecoded bounds the text that is decoded at once, in bytes.
const mostDecoded = 4 << 10

func (f *finder) flatStart() {
	h, l := &f.html.flat, &f.html.lexer
	e := &l.element
	e.space = spaceHTML
	switch {
	case len(h.foreign) > 0:
		h.foreignStart(e)
		if e.tag == tagA && f.html.anchor >= 0 {
			h.decline() // the one around it goes on behind it
		}
		if l.cdata = len(h.foreign) > 0; h.templates == 0 {
			f.startTag(e)
		}
		return
	case h.templates > 0:
		h.inertStart(e)
	case h.inSelect && e.traits&inSelect == 0:
		h.decline()
	case h.begun && len(h.tables) == 0 && e.isPlain():
	case h.drops(e):
		return
	}
	if e.tag == tagFrameset {
		h.decline()
	}
	if h.templates == 0 {
		if f.html.anchor >= 0 {
			h.insideStart(e, l.inP)
		}
		if e.tag == tagA {
			h.inside = h.inside[:0]
		}
		switch e.tag {
		case tagImage:
			e.tagInfo = imgInfo
		case tagSVG:
			e.space = spaceSVG
		case tagMath:
			e.space = spaceMath
		}
		h.first = false
		if e.has != 0 || f.html.anchor >= 0 {
			f.startTag(e)
		}
		h.track(l)
	}
	switch {
	case e.tag == tagSVG || e.tag == tagMath:
		if !e.selfClosing {
			h.foreign = append(h.foreign[:0], openTag{e.key, e.tag, 0})
			l.cdata = true
		} else if e.slashed {
			h.decline()
		}
	case e.traits&isRaw != 0:
		f.flatRaw()
	}
}

// cell is the index of an element in flat.cells, or -1.
func cell(t tag) int {
	switch t {
	case tagTd:
		return 0
	case tagTh:
		return 1
	case tagCaption:
		return 2
	}
	return -1
}

// inertStart follows a start tag within a template. It declines what a tree does not
// tidy up at the template's end: elements that hide formatting elements before them.
func (h *flat) inertStart(e *element) {
	switch i := cell(e.tag); {
	case e.tag == tagTemplate:
		if h.templates++; h.cells != [3]int{} {
			h.decline()
		}
	case i >= 0:
		h.cells[i]++
	case e.traits&isScope != 0 && e.tag != tagTable && e.tag != tagSelect:
		h.decline()
	}
}

// inertEnd follows an end tag within a template.
func (h *flat) inertEnd(e *element) {
	switch i := cell(e.tag); {
	case e.tag == tagTemplate:
		if h.templates--; h.cells != [3]int{} {
			h.decline()
		}
	case i >= 0 && h.cells[i] > 0:
		h.cells[i]--
	}
}

var imgInfo = lookupTag(nameKey("img"), []byte("img"))

// drops follows the start tags that a tree may drop, and reports whether it does.
func (h *flat) drops(e *element) bool {
	inBody := h.begun
	if !h.begun {
		h.begun = e.traits&inHead == 0 || e.tag == tagBody || e.tag == tagNoscript && h.headEnded
	}
	switch e.tag {
	case tagHTML, tagHead, tagBody:
		// A second one gives its attributes to the first, if to any.
		if e.has != 0 && (e.tag == tagHTML && !h.first || e.tag == tagHead || e.tag == tagBody && inBody) {
			h.decline()
		}
	case tagFrame: // frameset pages were declined
		return !h.declined
	case tagForm:
		if h.form && !h.declined {
			return true
		}
		h.form = true
	case tagTable:
		if !h.inFlow() {
			h.tables = h.tables[:len(h.tables)-1] // which the new one ends
		}
		if len(h.tables) == mostOpen {
			h.decline()
		} else {
			h.tables = append(h.tables, tableState{at: tagTable, section: tagTbody})
		}
		return false
	}
	if n := len(h.tables); n > 0 {
		h.tables[n-1].start(h, e)
	} else if e.traits&isCell != 0 {
		return !h.declined
	}
	return false
}

// start follows a start tag that stands in a table.
func (t *tableState) start(h *flat, e *element) {
	switch e.tag {
	case tagTd, tagTh, tagCaption:
		t.at = e.tag
		if e.tag == tagCaption {
			t.section = tagTbody
		}
	case tagTr:
		t.at = tagTr
	case tagTbody, tagThead, tagTfoot:
		t.at, t.section = tagTable, e.tag
	case tagCol, tagColgroup:
		t.at, t.section = tagTable, tagTbody
	default:
		// Between the parts of a table, other elements move before it.
		if (t.at == tagTable || t.at == tagTr) && e.traits&inTable == 0 && !(e.tag == tagInput && strings.EqualFold(e.get(attrType), "hidden")) {
			h.decline()
		}
	}
}

// tableEnd follows an end tag that stands in a table.
func (h *flat) tableEnd(e *element) {
	n := len(h.tables)
	t := &h.tables[n-1]
	cell := t.at == tagTd || t.at == tagTh
	switch e.tag {
	case tagTable:
		h.tables = h.tables[:n-1]
	case tagTd, tagTh:
		if t.at == e.tag {
			t.at = tagTr
		}
	case tagTr:
		if cell || t.at == tagTr {
			t.at = tagTable
		}
	case tagTbody, tagThead, tagTfoot:
		if t.section == e.tag && t.at != tagCaption {
			t.at, t.section = tagTable, tagTbody
		}
	case tagCaption:
		if t.at == tagCaption {
			t.at = tagTable
		}
	}
}

// track follows what a start tag, one that is not dropped, means for the tags behind it.
func (h *flat) track(l *lexer) {
	e := &l.element
	if e.traits&closesP != 0 {
		l.inP = e.tag == tagP
	}
	switch e.tag {
	case tagTemplate:
		h.templates = 1
	case tagSelect:
		h.inSelect = true
	case tagTable:
		l.inP = true // where a table does not close it
	case tagTd, tagTh, tagCaption:
		l.inP = false
	case tagButton:
		h.inButton, l.inP = true, true
		return
	}
	if e.traits&isScope != 0 && h.inButton {
		h.decline() // its end tag may not be seen
	}
}

// insideStart follows a start tag within an a element whose text is collected. It
// declines where the a element would end, or be cut in two.
func (h *flat) insideStart(e *element, inP bool) {
	switch {
	case e.tag == tagA:
		h.anchorEnd()
		return
	case e.tag == tagHTML || e.tag == tagHead || e.tag == tagBody || e.tag == tagTemplate || e.tag == tagSVG || e.tag == tagMath:
		return
	case e.traits&mayEndA != 0,
		e.traits&isCell != 0,
		e.traits&closesP != 0 && inP,
		e.tag == tagButton && h.inButton,
		isHeading(e.tag) && len(h.inside) > 0 && isHeading(h.inside[len(h.inside)-1].tag),
		len(h.inside) == mostOpen:
		h.decline()
	case e.traits&(isVoid|isRaw) == 0:
		h.inside = append(h.inside, openTag{e.key, e.tag, e.traits})
	}
}

func isHeading(t tag) bool { return tagH1 <= t && t <= tagH6 }

// anchorEnd follows the end of the open a element.
func (h *flat) anchorEnd() {
	for _, o := range h.inside {
		if o.traits&isSpecial != 0 {
			h.decline()
		}
	}
}

// insideEnd follows an end tag within the a element whose text is collected, and
// reports whether it closes the innermost element.
func (h *flat) insideEnd(e *element) bool {
	n := len(h.inside)
	switch {
	case n > 0 && h.inside[n-1].key == e.key:
		h.inside = h.inside[:n-1]
		return true
	case e.tag != tagHTML && e.tag != tagBody && (e.traits&isVoid == 0 || e.tag == tagBr):
		h.decline()
	}
	return false
}

func (f *finder) flatEnd() {
	h, l := &f.html.flat, &f.html.lexer
	e := &l.element
	if len(h.foreign) > 0 {
		if h.foreignEnd(e) && e.tag == tagA && h.templates == 0 {
			f.endAnchor()
		}
		l.cdata = len(h.foreign) > 0
		return
	}
	if h.templates > 0 {
		h.inertEnd(e)
		return
	}
	if e.tag == tagA {
		if f.html.anchor >= 0 {
			h.anchorEnd()
			f.endAnchor()
		}
		return
	}
	if f.html.anchor >= 0 {
		if h.insideEnd(e) && e.traits&isBlock != 0 {
			f.html.label.space = true
		}
	}
	switch e.tag {
	case tagOther:
		if e.traits&isScope != 0 {
			l.inP = true
		}
	case tagHead:
		h.headEnded = true
	case tagBody, tagHTML, tagBr:
		h.begun = true
	case tagForm:
		h.form = false
	case tagP:
		l.inP = false
	case tagButton:
		h.inButton, l.inP = false, true
	case tagSelect:
		h.inSelect, l.inP = false, true
	case tagObject, tagApplet:
		l.inP = true
	case tagTable, tagTbody, tagTd, tagTfoot, tagTh, tagThead, tagTr, tagCaption:
		if h.inSelect {
			h.decline()
		}
		if l.inP = l.inP || e.tag == tagTable; len(h.tables) > 0 {
			h.tableEnd(e)
		}
	}
}

// foreignStart follows a start tag within SVG or MathML, which have elements of
// their own. It declines where HTML begins again within them.
func (h *flat) foreignStart(e *element) {
	if e.space = spaceSVG; h.foreign[0].tag == tagMath {
		e.space = spaceMath
	}
	switch h.foreign[len(h.foreign)-1].tag {
	case tagDesc, tagTitle, tagForeignObject, tagMI, tagMO, tagMN, tagMS, tagMText, tagAnnotationXML:
		h.decline() // which begins here, or may
	}
	switch {
	case e.traits&isBreakout != 0:
		h.decline()
		h.foreign, e.space = h.foreign[:0], spaceHTML
		return
	case e.tag == tagStyle || e.tag == tagScript || e.slashed:
		h.decline() // their content is markup here
	}
	switch {
	case e.selfClosing:
	case len(h.foreign) == mostOpen:
		h.decline()
	default:
		h.foreign = append(h.foreign, openTag{e.key, e.tag, 0})
	}
}

// foreignEnd follows an end tag within SVG or MathML and reports whether it closes
// the innermost element.
func (h *flat) foreignEnd(e *element) bool {
	n := len(h.foreign)
	if h.foreign[n-1].key == e.key {
		h.foreign = h.foreign[:n-1]
		return true
	}
	h.decline()
	for i := n - 1; i >= 0; i-- {
		if h.foreign[i].key == e.key {
			h.foreign = h.foreign[:i]
			return false
		}
	}
	if e.traits != 0 {
		h.foreign = h.foreign[:0] // HTML goes on
	}
	return false
}

// flatRaw reads the content of a raw text element.
func (f *finder) flatRaw() {
	h, l := &f.html.flat, &f.html.lexer
	isStyle := l.tagInfo.tag == tagStyle
	for {
		text, more, unsure := l.raw()
		if more {
			if l.fill() {
				continue
			}
			l.i = len(l.b)
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
	if len(text) > maxToken || bytes.IndexByte(text, '\r') < 0 && bytes.IndexByte(text, 0) < 0 {
		return text
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte{0}, []byte("\uFFFD"))
}
