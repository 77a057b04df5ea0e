package pdf

import (
	"iter"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// Bounds of one CMap.
const (
	maxSpaces = 256 // code spaces
	maxWide   = 64  // wide ranges
	wideRange = 512 // codes: a range of more is kept as one
)

// cmap cuts the strings of a Type0 font into codes (ISO 32000-1, 9.7.5 and 9.7.6). Of a
// predefined CMap it knows what the name says: the charset of the codes. It does not know
// the glyph numbers.
type cmap struct {
	spaces  []codespace
	charset encoding.Encoding // of a predefined CMap; nil: ToUnicode alone gives characters
	plane   byte              // set in each byte of a code before charset decodes it
	unicode bool              // the charset is a form of Unicode
	glyphs  map[uint32]uint32 // of an embedded CMap; nil: a code is a glyph number
}

// codespace is the range of the codes of one length.
type codespace struct {
	length    int // bytes, 1 to 4
	low, high uint32
}

// holds reports whether each byte of a code lies in the range of that byte.
func (s codespace) holds(code uint32) bool {
	for shift := 0; shift < 8*s.length; shift += 8 {
		if c := byte(code >> shift); c < byte(s.low>>shift) || c > byte(s.high>>shift) {
			return false
		}
	}
	return true
}

var (
	twoBytes   = codespace{2, 0, 0xFFFF}
	utf8Codes  = []codespace{{1, 0, 0x7F}, {2, 0xC280, 0xDFBF}, {3, 0xE08080, 0xEFBFBF}, {4, 0xF0808080, 0xF4BFBFBF}}
	utf16Codes = []codespace{{2, 0, 0xD7FF}, {2, 0xE000, 0xFFFF}, {4, 0xD800DC00, 0xDBFFDFFF}}
	ascii      = codespace{1, 0, 0x80}
	doubles    = codespace{2, 0x8130, 0xFEFE}
	shiftJIS   = []codespace{ascii, {1, 0xA0, 0xDF}, {2, 0x8140, 0x9FFC}, {2, 0xE040, 0xFCFC}}
	eucJP      = []codespace{ascii, {2, 0x8EA0, 0x8EDF}, {2, 0xA1A1, 0xFEFE}}
	gb18030    = []codespace{ascii, {4, 0x81308130, 0xFE39FE39}, {2, 0x8140, 0xFEFE}}
	bothBytes  = []codespace{ascii, doubles}
)

// charsets are the charsets of predefined CMaps, by what stands in their names (ISO
// 32000-1, table 118). The first that fits counts.
var charsets = []struct {
	part string
	cmap
}{
	{"UCS2", cmap{spaces: []codespace{twoBytes}, charset: unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), unicode: true}},
	{"UTF16", cmap{spaces: utf16Codes, charset: unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), unicode: true}},
	{"UTF8", cmap{spaces: utf8Codes, charset: unicode.UTF8, unicode: true}},
	{"UTF32", cmap{spaces: []codespace{{4, 0, 0x10FFFF}}, charset: utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM), unicode: true}},
	{"GBK2K", cmap{spaces: gb18030, charset: simplifiedchinese.GB18030}},
	{"GB", cmap{spaces: bothBytes, charset: simplifiedchinese.GBK}},
	{"B5", cmap{spaces: bothBytes, charset: traditionalchinese.Big5}},
	{"RKSJ", cmap{spaces: shiftJIS, charset: japanese.ShiftJIS}},
	{"KSC", cmap{spaces: bothBytes, charset: korean.EUCKR}},
	{"EUC", cmap{spaces: eucJP, charset: japanese.EUCJP}},
}

// jis is the CMap H, and V: JIS X 0208, as EUC-JP has it but for the high bits.
var jis = &cmap{spaces: []codespace{twoBytes}, charset: japanese.EUCJP, plane: 0x80}

// cmap reads the Encoding of a Type0 font. Without one that it knows, codes are two bytes,
// as with Identity-H.
func (d *Document) cmap(v any) *cmap {
	identity := &cmap{spaces: []codespace{twoBytes}}
	switch v := d.resolve(v).(type) {
	case name:
		switch {
		case strings.HasPrefix(string(v), "CNS"): // no charset of package encoding
			return identity
		case v == "H", v == "V":
			return jis
		}
		for i := range charsets {
			if c := &charsets[i]; strings.Contains(string(v), c.part) {
				return &c.cmap
			}
		}
	case stream:
		if c := d.embedded(d.inflate(0, v)); len(c.spaces) > 0 {
			return c
		}
		if base, ok := d.resolve(v.dict["UseCMap"]).(name); ok {
			return d.cmap(base)
		}
	}
	return identity
}

// operations runs a CMap: it calls do for each operator with what stands before it.
func (d *Document) operations(b []byte, do func(op operator, args []any)) {
	p := d.parser(b)
	var args []any
	for {
		switch v := p.value(0).(type) {
		case end:
			return
		case operator:
			do(v, args)
			clear(args)
			args, p.nodes = args[:0], 0
		default:
			args = append(args, v)
		}
	}
}

// embedded reads a CMap of the file: its code spaces, and the glyph numbers of its codes.
func (d *Document) embedded(b []byte) *cmap {
	c := &cmap{glyphs: make(map[uint32]uint32)}
	set := func(code uint32, glyph int) bool {
		ok := d.entry()
		if ok {
			c.glyphs[code] = uint32(glyph)
		}
		return ok
	}
	d.operations(b, func(op operator, args []any) {
		step := map[operator]int{"endcodespacerange": 2, "endcidchar": 2, "endcidrange": 3}[op]
		for ; step > 0 && len(args) >= step; args = args[step:] {
			low, _ := args[0].(text)
			high, _ := args[1].(text)
			switch {
			case op == "endcidchar":
				set(codeOf(low), d.int(args[1]))
			case op == "endcidrange":
				first := codeOf(low)
				for code := first; code <= codeOf(high) && code >= first; code++ {
					if !set(code, d.int(args[2])+int(code-first)) {
						return
					}
				}
			case len(low) > 0 && len(low) <= 4 && len(low) == len(high) && len(c.spaces) < maxSpaces:
				c.spaces = append(c.spaces, codespace{len(low), codeOf(low), codeOf(high)})
			}
		}
	})
	return c
}

// unicodes are the characters that a ToUnicode CMap gives codes.
type unicodes struct {
	chars map[uint32]string
	wide  []bfrange // what a range of very many codes says; the last one that holds a code counts
}

// bfrange maps a range of codes to characters that follow each other in their last unit.
type bfrange struct {
	low, high uint32
	head      string // UTF-16BE before the last unit
	last      uint32
}

func (r bfrange) char(code uint32) string {
	u := r.last + code - r.low
	return utf16BE(r.head + string([]byte{byte(u >> 8), byte(u)}))
}

func (u *unicodes) char(code uint32) (s string, ok bool) {
	if u == nil {
		return "", false
	}
	if s, ok = u.chars[code]; ok {
		return s, true
	}
	for i := len(u.wide) - 1; i >= 0; i-- {
		if r := u.wide[i]; r.low <= code && code <= r.high {
			return r.char(code), true
		}
	}
	return "", false
}

// unicodes reads a ToUnicode CMap (ISO 32000-1, 9.10.3).
func (d *Document) unicodes(b []byte) *unicodes {
	u := &unicodes{chars: make(map[uint32]string)}
	set := func(code uint32, s string) {
		if d.entry() {
			u.chars[code] = s[:min(len(s), maxTarget)]
		}
	}
	d.operations(b, func(op operator, args []any) {
		switch op {
		case "endbfchar":
			for i := 0; i+1 < len(args); i += 2 {
				from, _ := args[i].(text)
				to, _ := args[i+1].(text)
				set(codeOf(from), utf16BE(string(to[:min(len(to), maxTarget)])))
			}
		case "endbfrange":
			for ; len(args) >= 3; args = args[3:] {
				low, _ := args[0].(text)
				high, _ := args[1].(text)
				d.bfrange(u, codeOf(low), codeOf(high), args[2], set)
			}
		}
	})
	return u
}

func (d *Document) bfrange(u *unicodes, low, high uint32, to any, set func(uint32, string)) {
	switch to := to.(type) {
	case []any:
		for i, v := range to {
			if s, ok := v.(text); ok && low+uint32(i) <= high {
				set(low+uint32(i), utf16BE(string(s[:min(len(s), maxTarget)])))
			}
		}
	case text:
		to = to[:min(len(to), maxTarget)]
		if len(to) < 2 || high < low {
			return
		}
		r := bfrange{low, high, string(to[:len(to)-2]), uint32(to[len(to)-2])<<8 | uint32(to[len(to)-1])}
		if high-low >= wideRange {
			if len(u.wide) < maxWide && d.entry() {
				u.wide = append(u.wide, r)
			}
			return
		}
		for c := low; c-low <= high-low && d.spend(entryCost); c++ {
			set(c, r.char(c))
		}
	}
}

func codeOf(s text) (c uint32) {
	for i := range min(len(s), 4) {
		c = c<<8 | uint32(s[i])
	}
	return c
}

// code is one character code of a string, with its length in bytes.
type code struct {
	value  uint32
	length int
}

// codes cuts a string into codes. What no code space holds has the length of the first.
func (f *font) codes(s text) iter.Seq[code] {
	return func(yield func(code) bool) {
		for len(s) > 0 {
			next := code{uint32(s[0]), 1}
			if f.cmap != nil {
				next = f.cmap.next(s)
			}
			if next.length > len(s) || !yield(next) {
				return
			}
			s = s[next.length:]
		}
	}
}

func (c *cmap) next(s text) code {
	for _, space := range c.spaces {
		if v := codeOf(s[:min(space.length, len(s))]); space.length <= len(s) && space.holds(v) {
			return code{v, space.length}
		}
	}
	n := c.spaces[0].length
	return code{codeOf(s[:min(n, len(s))]), n}
}

// char is the text of a code, "" if the file does not say.
func (f *font) char(c code) string {
	if s, ok := f.unicode.char(c.value); ok {
		return clean(s)
	}
	if s, ok := f.names[c.value]; ok {
		return s
	}
	switch {
	case f.cmap == nil:
		if r := f.encoding.DecodeByte(byte(c.value)); r >= ' ' && r != utf8.RuneError {
			return string(r)
		}
	case f.cmap.charset != nil:
		b := make([]byte, c.length)
		for i := range b {
			b[i] = byte(c.value>>(8*(c.length-1-i))) | f.cmap.plane
		}
		s, err := f.cmap.charset.NewDecoder().Bytes(b)
		if err == nil {
			return clean(string(s))
		}
	case f.ascii:
		if g := f.glyph(c); g >= 1 && g <= 95 {
			return string(rune(g - 1 + ' '))
		}
	}
	return ""
}

// glyph is the glyph number of a code of a Type0 font, where it is known.
func (f *font) glyph(c code) uint32 {
	if f.cmap == nil || f.cmap.glyphs == nil {
		return c.value
	}
	return f.cmap.glyphs[c.value]
}

// width is how far a code moves the pen, in em. Glyph numbers of predefined CMaps are not known: of
// two columns a code of one byte takes one.
func (f *font) width(c code) float64 {
	if f.cmap != nil && f.cmap.charset != nil {
		if c.length == 1 || f.cmap.unicode && c.value < 0x80 {
			return f.usual / 2
		}
		return f.usual
	}
	if w, ok := f.widths[f.glyph(c)]; ok {
		return w
	}
	return f.usual
}
