package markup

import (
	"bytes"
	"io"
)

// Open is an element of a Reader that no end tag has closed.
type Open struct {
	Key    uint64 // key of the element's name
	Tag    Tag
	Traits Trait
	Space  Space
	point  bool // HTML begins within it: an integration point (HTML section 13.2.6)
	shown  shown
}

// shown is how far text in an element is for readers.
type shown uint8

const (
	shows  shown = iota
	draws        // SVG: text within its text elements is
	hides        // nor is any below it
	drafts       // nor is it a part of the document: a template
)

// mostOpen bounds the elements that are kept of SVG or MathML. Those nested deeper are read as if they stood beside each other.
const mostOpen = 256

// Reader cuts a document into tokens as the parser of a browser without scripts sees them: what a tag is depends on where it stands. It
// keeps no tree: of open elements, those of SVG and MathML alone. Its memory is the Lexer's.
//
// An HTML end tag closes the SVG and MathML inside its element, if that element is open. The reader does not know which HTML elements are
// open: it takes every element to be that HTML defines, or that has a dash in its name.
type Reader struct {
	Lexer
	Templates int  // open template elements; their content is inert
	Unsure    bool // in a browser's tree SVG or MathML may end elsewhere

	open    []Open // open elements from the outermost SVG or MathML one on
	decoded []byte // memory of Decoded
	raw     bool   // content of a raw text element comes next
	rest    bool   // plaintext: all that comes is text
}

// Open makes the reader read a document's text, which is the end of body itself or has to be decoded. XHTML (xml) has no
// raw text but sections of CDATA, any of its elements may be closed by "/>", and none is ended by another.
func (r *Reader) Open(text io.Reader, body []byte, xml bool, wants *Wants) {
	r.Lexer.wants, r.Lexer.outside = wants, nil
	r.Lexer.Open(text, body)
	r.XML, r.Lexer.CDATA = xml, xml
	r.Templates, r.Unsure, r.open, r.raw, r.rest = 0, false, r.open[:0], false, false
}

// Next finds the next token. Behind the start tag of an HTML element of raw text comes a TokenRaw with its content, up to and with its end tag.
func (r *Reader) Next() Token {
	for {
		if r.raw {
			if tok := r.content(); tok != TokenEnd {
				return tok
			}
			continue
		}
		switch tok := r.Lexer.Next(); tok {
		case TokenStart:
			r.Space = SpaceHTML
			if r.Traits&(IsRaw|isPlaced) != 0 || len(r.open) > 0 {
				r.start()
			}
			return tok
		case TokenClose:
			r.Space = SpaceHTML
			if r.Templates > 0 || len(r.open) > 0 {
				r.end()
			}
			return tok
		case TokenText:
			return tok
		case TokenEnd:
			if !r.Fill() {
				return tok
			}
		}
	}
}

// content is what a raw text element has. TokenEnd: nothing, look on.
func (r *Reader) content() Token {
	if r.rest {
		part := r.b[r.i:]
		if !r.last {
			part = part[:WholeText(part)]
		}
		r.i += len(part)
		r.Text, r.Literal = part, true
		if len(part) == 0 && !r.Fill() {
			r.raw = false
			return TokenEnd
		}
		return TokenRaw
	}
	text, more := r.rawText()
	for more {
		if !r.Fill() {
			r.Skip()
			break
		}
		text, more = r.rawText()
	}
	r.raw = false
	r.Text, r.Literal = text, !r.XML && r.TagInfo.Tag != TagTitle && r.TagInfo.Tag != TagTextarea
	return TokenRaw
}

// Foreign reports whether the document is within SVG or MathML, or HTML within these.
func (r *Reader) Foreign() bool { return len(r.open) > 0 }

// Depth is how many elements are open from the outermost SVG or MathML one on.
func (r *Reader) Depth() int { return len(r.open) }

// Within is the SVG or MathML element, or HTML element within these, that is open; TagOther outside of them.
func (r *Reader) Within() (Tag, Space) {
	if n := len(r.open); n > 0 {
		return r.open[n-1].Tag, r.open[n-1].Space
	}
	return TagOther, SpaceHTML
}

// Styled reports whether the reader is in a style or script element of SVG: readers never see its text.
func (r *Reader) Styled() bool {
	tag, space := r.Within()
	return space == SpaceSVG && (tag == TagStyle || tag == TagScript)
}

// Inert reports whether the reader is in a template.
func (r *Reader) Inert() bool {
	return r.Templates > 0 || len(r.open) > 0 && r.open[len(r.open)-1].shown == drafts
}

// Shown reports whether text here is for readers, as far as SVG, MathML and templates decide.
func (r *Reader) Shown() bool {
	return r.Templates == 0 && (len(r.open) == 0 || r.open[len(r.open)-1].shown == shows)
}

// Close lets go of the document.
func (r *Reader) Close() {
	if cap(r.decoded) > idleWindow {
		r.decoded = nil
	}
	r.Lexer.Close()
}

// start places a start tag.
func (r *Reader) start() {
	e := &r.Element
	if len(r.open) > 0 && !r.foreignStart() {
		return
	}
	switch {
	case e.Tag == TagSVG:
		e.Space = SpaceSVG
		r.push(draws)
	case e.Tag == TagMath:
		e.Space = SpaceMath
		r.push(shows)
	case r.isRaw():
		r.raw, r.rest = true, e.Tag == TagPlaintext
	case len(r.open) > 0:
		if e.Traits&IsCell != 0 && !r.XML && !r.inTable() { // of a table around SVG and MathML, which ends them
			r.Unsure = true
			r.cut(0)
		} else if e.Traits&IsVoid == 0 {
			r.imply()
			r.push(shows)
		}
	case e.Tag == TagTemplate && !(r.XML && e.SelfClosing):
		r.Templates++
	}
}

// isRaw reports whether the content of an HTML element is text. In XHTML it is so for those that nobody puts elements into: that reads
// scripts, too, for which their authors forgot the sections of CDATA.
func (r *Reader) isRaw() bool {
	e := &r.Element
	return e.Traits&IsRaw != 0 && (!r.XML || !e.SelfClosing && e.Tag != TagPlaintext && e.Tag != TagXmp)
}

// push opens an element of the reader's tag.
func (r *Reader) push(s shown) {
	e := &r.Element
	n := len(r.open)
	if e.SelfClosing && (e.Space != SpaceHTML || r.XML) {
		return
	}
	if n == mostOpen {
		r.Unsure = true
		return
	}
	o := Open{Key: e.Key, Tag: e.Tag, Traits: e.Traits, Space: e.Space}
	if n > 0 {
		o.shown = r.open[n-1].shown
	}
	switch o.Space {
	case SpaceHTML:
		if o.Tag == TagTemplate {
			o.shown = drafts
		}
	case SpaceSVG:
		o.point = o.Tag == TagForeignObject || o.Tag == TagDesc || o.Tag == TagTitle
		switch {
		case o.shown >= hides:
		case o.Tag == TagSVG:
			o.shown = s
		case o.Tag == TagText || o.Tag == TagForeignObject:
			o.shown = shows
		case o.Tag == TagTitle || o.Tag == TagDesc || o.Tag == TagMetadata || o.Tag == TagStyle || o.Tag == TagScript:
			o.shown = hides
		}
	case SpaceMath:
		switch o.Tag {
		case TagMath:
			o.shown = max(o.shown, s)
			if o.shown == draws {
				o.shown = shows
			}
		case TagAnnotationXML:
			v := e.Bytes(AttrEncoding)
			o.point = equalFold(v, "text/html") || equalFold(v, "application/xhtml+xml")
			o.shown = max(o.shown, hides)
		case TagAnnotation:
			o.shown = max(o.shown, hides)
		}
	}
	r.open = append(r.open, o)
	r.place()
}

func equalFold(b []byte, s string) bool { return len(b) == len(s) && HasFold(b, s) }

// cut closes the open elements from an index on.
func (r *Reader) cut(from int) {
	r.open = r.open[:from]
	r.place()
}

// place tells the lexer where the document is.
func (r *Reader) place() {
	n := len(r.open)
	r.CDATA = r.XML || n > 0 && r.open[n-1].Space != SpaceHTML
	if set := r.wants.foreign; n > 0 && set != nil && r.outside == nil {
		r.wants, r.outside = set, r.wants
	} else if n == 0 && r.outside != nil {
		r.wants, r.outside = r.outside, nil
	}
}

// isText reports whether HTML begins with any tag in it but two: a MathML text integration point.
func (o *Open) isText() bool {
	switch o.Tag {
	case TagMI, TagMO, TagMN, TagMS, TagMText:
		return o.Space == SpaceMath
	}
	return false
}

// isScope reports whether an open element keeps those around it from what stands in it: "in scope" of HTML section 13.2.4.2.
func (o *Open) isScope() bool {
	if o.Space != SpaceHTML {
		return o.point || o.isText() || o.Space == SpaceMath && o.Tag == TagAnnotationXML
	}
	switch o.Tag {
	case TagTd, TagTh, TagCaption, TagTemplate:
		return true
	case TagSelect:
		return false
	}
	return o.Traits&IsScope != 0
}

// foreignStart places a start tag within SVG or MathML, as far as it is an element of these. True: it is one of HTML.
func (r *Reader) foreignStart() bool {
	e := &r.Element
	top := &r.open[len(r.open)-1]
	switch {
	case top.Space == SpaceHTML || top.point,
		top.isText() && e.Tag != TagMglyph && e.Tag != TagMalignmark,
		top.Tag == TagAnnotationXML && top.Space == SpaceMath && e.Tag == TagSVG:
		return true
	case !r.XML && e.Traits&IsBreakout != 0 && (e.Tag != TagFont || e.Has&(1<<AttrColor|1<<AttrFace|1<<AttrSize) != 0):
		r.breakOut()
		return true
	}
	e.Space = top.Space
	r.push(draws)
	return false
}

// breakOut closes the elements of SVG or MathML up to one that HTML may stand in.
func (r *Reader) breakOut() {
	n := len(r.open)
	for n > 0 && r.open[n-1].Space != SpaceHTML && !r.open[n-1].point && !r.open[n-1].isText() {
		n--
	}
	r.cut(n)
}

// imply closes what a start tag of HTML ends that stands within SVG or MathML.
func (r *Reader) imply() {
	e := &r.Element
	if r.XML {
		return
	}
	if e.Traits&ClosesP != 0 || e.Tag == TagTable {
		r.closeIn(func(o *Open) bool { return o.Tag == TagP }, nil)
	}
	switch e.Name {
	case "li", "dd", "dt":
		r.closeIn(func(o *Open) bool {
			return o.Key == e.Key || e.Name[0] == 'd' && o.Traits == e.Traits && o.Key != liKey
		},
			func(o *Open) bool {
				return o.Traits&IsSpecial != 0 && o.Tag != TagP && o.Key != divKey && o.Key != addressKey
			})
	case "option", "optgroup":
		if n := len(r.open) - 1; r.open[n].Key == optionKey {
			r.cut(n)
		}
	case "td", "th":
		r.closeIn(func(o *Open) bool { return o.Tag == TagTd || o.Tag == TagTh }, isTable)
	case "tr":
		r.closeIn(func(o *Open) bool { return o.Tag == TagTr }, isTable)
	case "tbody", "thead", "tfoot":
		r.closeIn(func(o *Open) bool { return o.Tag == TagTbody || o.Tag == TagThead || o.Tag == TagTfoot }, isTable)
	}
}

// inTable reports whether a table is open within SVG or MathML.
func (r *Reader) inTable() bool {
	for i := range r.open {
		if r.open[i].Space == SpaceHTML && r.open[i].Tag == TagTable {
			return true
		}
	}
	return false
}

func isTable(o *Open) bool { return o.Tag == TagTable || o.Space != SpaceHTML }

var liKey, divKey, addressKey, optionKey = NameKey("li"), NameKey("div"), NameKey("address"), NameKey("option")

// closeIn closes the innermost HTML element that is wanted, if stop, or by default a scope, is not before it.
func (r *Reader) closeIn(want, stop func(*Open) bool) {
	if stop == nil {
		stop = (*Open).isScope
	}
	for i := len(r.open) - 1; i >= 0; i-- {
		o := &r.open[i]
		if o.Space == SpaceHTML && want(o) {
			r.cut(i)
			return
		}
		if stop(o) {
			return
		}
	}
}

// end places an end tag.
func (r *Reader) end() {
	e := &r.Element
	e.Closes = false
	n := len(r.open)
	if n == 0 {
		if e.Tag == TagTemplate && r.Templates > 0 {
			r.Templates--
		}
		return
	}
	if !r.XML && (e.Tag == TagP || e.Tag == TagBr) && r.open[n-1].Space != SpaceHTML {
		r.Unsure = true
		r.breakOut()
		n = len(r.open)
	}
	for i := n - 1; i >= 0; i-- {
		o := &r.open[i]
		if o.Space == SpaceHTML && !r.XML {
			r.htmlClose()
			return
		}
		if o.Key == e.Key {
			e.Space, e.Closes = o.Space, i == n-1
			r.cut(i)
			return
		}
	}
	r.Unsure = true
	switch {
	case e.Tag == TagTemplate && r.Templates > 0:
		r.Templates--
	case e.TagInfo == &other && bytes.IndexByte(r.TagName(), '-') < 0 || e.Traits&isQuiet != 0 && e.Tag != TagFont:
		return
	case e.Tag == TagSVG || e.Tag == TagMath || e.Tag == TagDesc || e.Tag == TagForeignObject || e.Tag == TagAnnotationXML || e.Tag == TagImage || e.Tag == TagTitle ||
		e.Tag >= TagMI && e.Tag <= TagMText:
		return
	}
	r.cut(0) // HTML goes on
	e.Closes = true
}

// htmlClose places an end tag of HTML within SVG or MathML.
func (r *Reader) htmlClose() {
	e := &r.Element
	special := e.Traits&IsSpecial != 0
	block := -1
	for i := len(r.open) - 1; i >= 0; i-- {
		o := &r.open[i]
		switch {
		case o.Space == SpaceHTML && o.Key == e.Key:
			if e.Closes = i == len(r.open)-1; special || block < 0 {
				r.cut(i)
			} else { // a formatting element around a block that goes on
				r.open = append(r.open[:i], r.open[i+1:]...)
			}
			return
		case o.isScope() && e.Tag != TagTemplate && !(e.Tag == TagTable && o.Space == SpaceHTML && o.Tag != TagTemplate):
			return
		case !special && o.Space == SpaceHTML && o.Traits&IsSpecial != 0:
			if !isFormatting(e) {
				return
			}
			block = i
		}
	}
	if e.Tag == TagTemplate && r.Templates > 0 {
		r.cut(0)
		r.Templates--
		e.Closes = true
	}
}

// isFormatting reports whether a name is one of the formatting elements, which blocks may outlive.
func isFormatting(e *Element) bool {
	switch e.Name {
	case "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u":
		return true
	}
	return false
}

// Decoded is Text with its character references decoded: of XHTML's raw text, without its comments, and the text of its sections of CDATA as
// it is. It holds until the next tag.
func (r *Reader) Decoded() []byte {
	text := r.Text
	switch {
	case r.Literal || !r.XML && !NeedsDecoding(text):
		return text
	case !r.XML || bytes.IndexByte(text, '<') < 0:
		r.decoded = AppendDecoded(r.decoded[:0], text, false)
		return r.decoded
	}
	r.decoded = r.decoded[:0]
	for len(text) > 0 {
		n := bytes.Index(text, []byte("<!"))
		if n < 0 {
			n = len(text)
		}
		r.decoded = AppendDecoded(r.decoded, text[:n], false)
		text = text[n:]
		var rest []byte
		switch {
		case bytes.HasPrefix(text, []byte(cdataStart)):
			var part []byte
			part, rest, _ = bytes.Cut(text[len(cdataStart):], []byte("]]>"))
			r.decoded = append(r.decoded, part...)
		case bytes.HasPrefix(text, []byte("<!--")):
			_, rest, _ = bytes.Cut(text[len("<!--"):], []byte("-->"))
		case len(text) > 0:
			r.decoded = append(r.decoded, '<')
			rest = text[1:]
		}
		text = rest
	}
	return r.decoded
}
