package markup

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// Token is the kind of token that Next has found.
type Token uint8

const (
	TokenEnd   Token = iota // of the input, or of the window
	TokenStart              // a start tag, in Lexer.Element
	TokenClose              // an end tag: its name in Lexer.Element
	TokenText               // Lexer.Text
	TokenRaw                // of a Reader: the content of a raw text element, Lexer.Text
)

// Space is an element's namespace.
type Space uint8

const (
	SpaceHTML Space = iota
	SpaceSVG
	SpaceMath
)

// Element is a start tag, as far as links depend on it. Of attributes given twice
// the first counts (HTML section 13.2.5.33).
type Element struct {
	*TagInfo
	Key         uint64 // of the name, known or not
	start       int    // of the name, in Lexer.b
	end         int    // behind it
	SelfClosing bool   // ends with "/>"
	Slashed     bool   // ends with the "/" of a bare value, which x/net may take for SelfClosing
	Space       Space  // of a Reader
	Closes      bool   // of a Reader, within SVG and MathML: an end tag closes the innermost element
	Plain       bool   // values are decoded; else they are as in the document
	Has         uint64 // a bit for each Attr
	Val         [Attrs][]byte
	buf         []byte // of decoded values
}

// Bytes returns an attribute's value, nil if there is none. It holds until the next tag.
func (e *Element) Bytes(a Attr) []byte {
	if e.Has>>a&1 == 0 {
		return nil
	}
	v := e.Val[a]
	if !e.Plain && NeedsDecoding(v) {
		start := len(e.buf)
		e.buf = AppendDecoded(e.buf, v, true)
		v = e.buf[start:]
	}
	return v
}

// TagName is the name of the tag that was read last, as the document has it.
func (l *Lexer) TagName() []byte { return l.b[l.start:l.end] }

// Attribute is the value of an attribute of the tag that was read last, wanted or not, by its name in lower case; nil if there is none.
// Its character references are not decoded. It holds until the next token.
func (l *Lexer) Attribute(name string) []byte {
	for i := l.end; i < l.i-1; {
		if l.b[i] == '/' || isSpace(l.b[i]) {
			i++
			continue
		}
		value, end, next := l.attribute(i)
		if end-i == len(name) && HasFold(l.b[i:end], name) {
			return value
		}
		i = next
	}
	return nil
}

// Get is Bytes as a string, a view: it changes with the document's buffer.
func (e *Element) Get(a Attr) string { return View(e.Bytes(a)) }

// MaxWindow bounds the window over a document that has to be decoded, and so one tag,
// comment or raw text of it, in bytes.
const MaxWindow = 2 * MaxToken

// Lexer cuts a document into tags and text: the tokenization of HTML section 13.2.5
// as far as links need it. It copies nothing. What holds no links (comments,
// declarations, processing instructions) is passed over.
//
// It works in a window over the document. A tag, comment or raw text that the
// window cuts is not begun: Next returns TokenEnd with i at its start, and is called
// again with a window that has more. The last window ends it as the standard says.
type Lexer struct {
	b     []byte
	i     int       // what comes next
	in    io.Reader // of what is behind the window
	err   error     // of reading
	last  bool      // b ends where the document does
	Long  bool      // the window was too small
	CDATA bool      // within SVG or MathML, where CDATA sections are text
	Texts bool      // report text; else it is passed over
	Calm  bool      // pass over tags without meaning; see TagInfo.IsPlain
	XML   bool      // the document is XHTML: see Reader.Open
	InP   bool      // a p may be open, for the start tags that close one; see flat

	wants   *Wants // the attributes that are kept
	outside *Wants // those outside of SVG and MathML, while it is there

	window []byte // b's memory where the document is decoded

	Element
	Text    []byte
	Literal bool // Text has no character references
}

// Open makes the lexer read a document's text, which is the end of body itself or
// has to be decoded.
func (l *Lexer) Open(text io.Reader, body []byte) {
	l.i, l.Long, l.CDATA, l.Texts, l.Calm, l.InP, l.XML, l.Literal = 0, false, false, false, false, false, false, false
	l.err = nil
	if l.wants == nil {
		l.wants = noWants
	}
	if whole, ok := text.(*bytes.Reader); ok && whole.Len() <= len(body) {
		l.b, l.in, l.last = body[len(body)-whole.Len():], nil, true
		return
	}
	l.b, l.in, l.last = l.window[:0], text, false
}

// Close lets go of the document.
func (l *Lexer) Close() {
	if l.in != nil && cap(l.b) <= idleWindow {
		l.window = l.b
	}
	buf := l.buf
	if cap(buf) > idleWindow {
		buf = nil
	}
	l.b, l.in, l.Text, l.Element = nil, nil, nil, Element{buf: buf}
}

// idleWindow bounds the window that is kept from one document for the next.
const idleWindow = 256 << 10

// Fill moves the window on. False: the document is over, or the window too small.
func (l *Lexer) Fill() bool {
	if l.last {
		return false
	}
	rest := copy(l.b, l.b[l.i:])
	l.b, l.i = l.b[:rest], 0
	if rest == cap(l.b) {
		if rest >= MaxWindow {
			l.Long, l.last = true, true
			return false
		}
		l.b = slices.Grow(l.b, max(rest, 64<<10))
	}
	n, err := io.ReadFull(l.in, l.b[rest:cap(l.b)])
	l.b = l.b[:rest+n]
	l.last = err != nil // an error is the end, or what the decoder cannot read
	if l.last && err != io.EOF && err != io.ErrUnexpectedEOF {
		l.err = err
	}
	return true
}

// Err is why the document's text could not be read to its end.
func (l *Lexer) Err() error { return l.err }

// Bytes by what they mean within a tag's or an attribute's name: 0 where they end
// it, else what they stand for in NameKey.
var tagByte, attrByte [256]byte

func init() {
	for i := range tagByte {
		c := byte(i)
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		tagByte[i], attrByte[i] = c, c
	}
	tagByte[0], attrByte[0] = 1, 1 // no name has it
	for _, c := range []byte(" \t\r\n\f/>") {
		tagByte[c], attrByte[c] = 0, 0
	}
	attrByte['='] = 0
}

// Eight bytes are looked at together where most of what is sought is near: tags,
// values and the text between tags are short.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// zeros has the top bit of each byte of x that is zero, up to the first one exactly.
func zeros(x uint64) uint64 { return (x - ones) &^ x & tops }

// nameEnd returns the index of the first of eight bytes that may end a tag's or an
// attribute's name: one below "0", "=" or ">". 8: none does.
func nameEnd(x uint64) int {
	below := (x - ones*'0') &^ x & tops
	return bits.TrailingZeros64(below|zeros(x^ones*'=')|zeros(x^ones*'>')) / 8
}

// indexByte is bytes.IndexByte, faster where c is among the next 16 bytes.
func indexByte(b []byte, c byte) int {
	if len(b) >= 16 {
		if z := zeros(binary.LittleEndian.Uint64(b) ^ ones*uint64(c)); z != 0 {
			return bits.TrailingZeros64(z) / 8
		}
		if z := zeros(binary.LittleEndian.Uint64(b[8:]) ^ ones*uint64(c)); z != 0 {
			return 8 + bits.TrailingZeros64(z)/8
		}
	}
	return bytes.IndexByte(b, c)
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

// Next finds the next token.
func (l *Lexer) Next() Token {
	b := l.b
	l.Literal = false
	for {
		start := l.i
		if start >= len(b) {
			return TokenEnd
		}
		if b[start] != '<' {
			n := indexByte(b[start:], '<')
			if n < 0 {
				n = len(b) - start
				if !l.last && l.Texts {
					n = WholeText(b[start:])
				}
			}
			l.i = start + n
			if l.Texts && n > 0 {
				l.Text = b[start:l.i]
				return TokenText
			}
			if l.i == start {
				return TokenEnd
			}
			continue
		}
		if start+1 == len(b) {
			return l.tail(start)
		}
		c := b[start+1]
		switch {
		case IsLetter(c):
			if !l.readTag(start+1, true) {
				return l.cut(start)
			}
			if l.Calm && l.Has == 0 && l.TagInfo.IsPlain() {
				if l.Traits&ClosesP != 0 {
					l.InP = l.TagInfo.Tag == TagP
				}
				continue
			}
			return TokenStart
		case c == '/':
			switch {
			case start+2 == len(b):
				return l.tail(start)
			case IsLetter(b[start+2]):
				if l.Calm && l.skipEnd(start+2) {
					continue
				}
				if !l.readTag(start+2, false) {
					return l.cut(start)
				}
				if l.Calm && l.TagInfo.IsPlain() {
					l.InP = l.InP && l.TagInfo.Tag != TagP
					continue
				}
				return TokenClose
			case !l.skipPast(start+2, '>'):
				return l.cut(start)
			}
		case c == '!':
			if tok := l.declaration(start); tok != TokenStart {
				return tok
			}
		case c == '?':
			if !l.skipPast(start+2, '>') {
				return l.cut(start)
			}
		default: // a "<" that is text
			l.i = start + 1
			if l.Texts {
				l.Text = b[start:l.i]
				return TokenText
			}
		}
	}
}

// WholeText is how much of a text has neither a character reference nor a character
// that the window may have cut.
func WholeText(b []byte) int {
	const longest = 64 // of a reference; longer ones are cut
	if i := bytes.LastIndexByte(b[max(0, len(b)-longest):], '&'); i >= 0 {
		return max(0, len(b)-longest) + i
	}
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// tail is the text "<" or "</" at the end.
func (l *Lexer) tail(start int) Token {
	if !l.last {
		return TokenEnd
	}
	l.i = len(l.b)
	if !l.Texts {
		return TokenEnd
	}
	l.Text = l.b[start:]
	return TokenText
}

// cut ends the search: the document is over within a tag or comment, which is then
// none, or the window must have more.
func (l *Lexer) cut(start int) Token {
	if l.last {
		start = len(l.b)
	}
	l.i = start
	return TokenEnd
}

// Offset is where the next token begins, in a document that is read without a decoder.
func (l *Lexer) Offset() int { return l.i }

// Skip passes over the rest of the window.
func (l *Lexer) Skip() { l.i = len(l.b) }

func (l *Lexer) skipPast(from int, c byte) bool {
	n := bytes.IndexByte(l.b[from:], c)
	if n < 0 {
		return false
	}
	l.i = from + n + 1
	return true
}

// declaration passes over what begins with "<!" (HTML section 13.2.5.42) and
// returns TokenStart, or else what Next shall return.
func (l *Lexer) declaration(start int) Token {
	rest := l.b[start+2:]
	switch {
	case !l.last && len(rest) < len("[CDATA["):
		return TokenEnd
	case bytes.HasPrefix(rest, []byte("--")):
		n := commentEnd(rest[2:])
		if n < 0 {
			return l.cut(start)
		}
		l.i = start + 4 + n
	case l.CDATA && bytes.HasPrefix(rest, []byte("[CDATA[")):
		text := start + 2 + len("[CDATA[")
		end := bytes.Index(l.b[text:], []byte("]]>"))
		if end < 0 {
			if !l.last {
				return TokenEnd
			}
			l.i = len(l.b)
			l.Text = l.b[text:]
		} else {
			l.Text = l.b[text : text+end]
			l.i = text + end + 3
		}
		if l.Literal = l.Texts; l.Texts {
			return TokenText
		}
	case !l.skipPast(start+2, '>'):
		return l.cut(start)
	}
	return TokenStart
}

// commentEnd returns the index behind a comment's end, -1 if it has none. b begins
// behind "<!--".
func commentEnd(b []byte) int {
	switch {
	case bytes.HasPrefix(b, []byte(">")):
		return 1
	case bytes.HasPrefix(b, []byte("->")):
		return 2
	}
	for i := 0; ; {
		n := bytes.Index(b[i:], []byte("--"))
		if n < 0 {
			return -1
		}
		i += n + 2
		for i < len(b) && b[i] == '-' {
			i++
		}
		switch {
		case bytes.HasPrefix(b[i:], []byte(">")):
			return i + 1
		case bytes.HasPrefix(b[i:], []byte("!>")):
			return i + 2
		}
	}
}

// skipEnd passes over an end tag without meaning, from its name on, if it is written as nearly all are.
func (l *Lexer) skipEnd(i int) bool {
	if len(l.b)-i < 8 {
		return false
	}
	x := binary.LittleEndian.Uint64(l.b[i:])
	n := nameEnd(x)
	if n == 8 || byte(x>>(n*8)) != '>' {
		return false
	}
	info := LookupTag((x|0x20*ones)&(1<<(n*8)-1), l.b[i:i+n])
	if !info.IsPlain() {
		return false
	}
	l.i = i + n + 1
	l.InP = l.InP && info.Tag != TagP
	return true
}

// readTag reads a tag from its name on, and an end tag's attributes without keeping
// them. False: it does not end.
func (l *Lexer) readTag(i int, keep bool) bool {
	b := l.b
	start := i
	var key uint64
	if len(b)-i > 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		n := nameEnd(x)
		if n < 8 && tagByte[byte(x>>(n*8))] == 0 { // few names have other bytes below "0"
			i, key = i+n, (x|0x20*ones)&(1<<(n*8)-1)
		}
	}
	if i == start {
		for ; i < len(b) && tagByte[b[i]] != 0; i++ {
			key ^= uint64(tagByte[b[i]]) << ((i - start) % 8 * 8)
		}
		if i == len(b) {
			return false
		}
	}
	e, wants := &l.Element, l.wants
	e.Key, e.start, e.end, e.TagInfo = key, start, i, LookupTag(key, b[start:i])
	e.Has, e.SelfClosing, e.Slashed, e.buf = 0, false, false, e.buf[:0]
	for {
		c := b[i]
		if c == '>' {
			e.SelfClosing = b[i-1] == '/' && e.SelfClosing
			l.i = i + 1
			return true
		}
		if c == '/' || isSpace(c) {
			e.SelfClosing = c == '/'
			if i++; i == len(b) {
				return false
			}
			continue
		}
		name, end := i, i
		if len(b)-i > 16 {
			end += nameEnd(binary.LittleEndian.Uint64(b[i:]))
		}
		var value []byte
		if end > name && b[end] == '=' && b[end+1] == '"' { // as nearly all are written
			i = end + 2
			n := 8
			if len(b)-i >= 8 {
				n = bits.TrailingZeros64(zeros(binary.LittleEndian.Uint64(b[i:])^ones*'"')) / 8
			}
			if n == 8 {
				if n = indexByte(b[i:], '"'); n < 0 {
					return false
				}
			}
			value = b[i : i+n]
			if i += n + 1; i == len(b) {
				return false
			}
		} else if value, end, i = l.attribute(i); i == len(b) {
			return false
		}
		e.SelfClosing = false
		if !keep || wants.lengths[b[name]]>>uint(end-name)&1 == 0 {
			continue
		}
		if a, ok := LookupAttr(b[name:end]); ok && (e.Has|^wants.set)>>a&1 == 0 {
			e.Has |= 1 << a
			if l.Long = l.Long || len(value) > MaxToken; len(value) > MaxToken {
				value = nil
			}
			e.Val[a] = value
		}
	}
}

// attribute reads an attribute from its name on, and returns its value, where its
// name ends, and what comes next; len(l.b) if it does not end.
func (l *Lexer) attribute(i int) (value []byte, nameEnd, next int) {
	b := l.b
	for i++; i < len(b) && attrByte[b[i]] != 0; i++ { // the first byte may be "="
	}
	nameEnd = i
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	if i == len(b) || b[i] != '=' {
		return nil, nameEnd, i
	}
	for i++; i < len(b) && isSpace(b[i]); i++ {
	}
	if i == len(b) || b[i] == '>' {
		return nil, nameEnd, i
	}
	if q := b[i]; q == '"' || q == '\'' {
		i++
		n := bytes.IndexByte(b[i:], q)
		if n < 0 {
			return nil, nameEnd, len(b)
		}
		return b[i : i+n], nameEnd, i + n + 1
	}
	first := i
	for i++; i < len(b) && b[i] != '>' && !isSpace(b[i]); i++ {
	}
	l.Slashed = b[i-1] == '/'
	return b[first:i], nameEnd, i
}

// rawText reads the content and the end tag of a raw text element (HTML section 13.2.5.3
// and others). The last token was its start tag. more: call it again when the window has
// more.
func (l *Lexer) rawText() (text []byte, more bool) {
	b := l.b[l.i:]
	info, content := l.TagInfo, l.i
	n := 0
	switch {
	case info.Tag == TagScript && !l.XML:
		n = scriptEnd(b)
	case l.XML:
		n = endTag(b, info.Name, true)
	default:
		n = endTag(b, info.Name, false)
	}
	if n < 0 { // no end tag
		if !l.last {
			return nil, true
		}
		l.i = len(l.b)
		return b, false
	}
	if !l.readTag(content+n+2, false) { // it may have attributes
		if !l.last {
			return nil, true
		}
		l.i = len(l.b)
	}
	l.TagInfo = info
	return l.b[content : content+n], false
}

// endTag is where the end tag of a name begins in b, -1 if nowhere. One in a CDATA section, where there are any, is none.
func endTag(b []byte, name string, cdata bool) int {
	section := len(b)
	if cdata {
		section = indexFrom(b, 0, cdataStart)
	}
	for i := 0; ; i += 2 {
		i = indexFrom(b, i, "</")
		for section < i {
			end := indexFrom(b, section, "]]>")
			section = indexFrom(b, end, cdataStart)
			if end > i {
				i = indexFrom(b, end, "</")
			}
		}
		if i == len(b) {
			return -1
		}
		if isEndTag(b[i:], name) {
			return i
		}
	}
}

const cdataStart = "<![CDATA["

func indexFrom(b []byte, from int, s string) int {
	if n := bytes.Index(b[from:], []byte(s)); n >= 0 {
		return from + n
	}
	return len(b)
}

// isEndTag reports whether b, which begins with "<", goes on with "/", a name and what ends a name.
func isEndTag(b []byte, name string) bool {
	return len(b) > 2+len(name) && b[1] == '/' && tagByte[b[2+len(name)]] == 0 && HasFold(b[2:], name)
}

// scriptEnd is endTag of a script, which may hide end tags in comments (HTML sections 13.2.5.15 to 31).
func scriptEnd(b []byte) int {
	const script = "script"
	const (
		data    = iota
		escaped // behind "<!--"
		double  // behind "<script" in it
	)
	state := data
	for i := 0; i < len(b); i++ {
		if state == data {
			n := bytes.IndexByte(b[i:], '<')
			if n < 0 {
				return -1
			}
			i += n
		}
		switch rest := b[i:]; {
		case rest[0] == '-' && state != data && bytes.HasPrefix(rest, []byte("-->")):
			state = data
			i += 2
		case rest[0] != '<':
		case isEndTag(rest, script):
			if state != double {
				return i
			}
			state = escaped
		case state == data && bytes.HasPrefix(rest, []byte("<!--")):
			state = escaped
			i++ // its dashes may be those of its end
		case state == escaped && len(rest) > 1+len(script) && tagByte[rest[1+len(script)]] == 0 && HasFold(rest[1:], script):
			state = double
		}
	}
	return -1
}
