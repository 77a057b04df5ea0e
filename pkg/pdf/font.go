package pdf

import (
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

const (
	maxCodes   = 1 << 16 // in the maps of all fonts of a file
	maxTarget  = 32      // bytes of the text of one code
	usualWidth = 0.5     // em, of a glyph whose width is not given
)

// font turns codes into characters and widths.
type font struct {
	wide     bool // two bytes a code
	unicode  map[uint32]string
	encoding *charmap.Charmap // of a simple font without ToUnicode
	names    map[uint32]string
	widths   map[uint32]float64 // em
	usual    float64
}

// entry allows one more entry in a map of a font.
func (d *Document) entry() bool {
	if d.entries++; d.entries > maxCodes {
		d.cut = true
		return false
	}
	return d.spend(entryCost)
}

// fontOf finds a font of the resources by name, and decodes each but once.
func (w *writer) fontOf(resources dict, n name) *font {
	v := w.d.dict(resources["Font"])[n]
	r, isRef := v.(ref)
	if isRef {
		if f, ok := w.fonts[r]; ok {
			return f
		}
	}
	d := w.d.dict(v)
	if d == nil {
		return nil
	}
	f := w.d.font(d)
	if isRef && len(w.fonts) < maxFonts {
		w.fonts[r] = f
	}
	return f
}

func (d *Document) font(v dict) *font {
	f := &font{usual: usualWidth, widths: make(map[uint32]float64)}
	f.wide = d.resolve(v["Subtype"]) == name("Type0")
	if s, ok := d.resolve(v["ToUnicode"]).(stream); ok {
		f.unicode = d.unicodeMap(d.inflate(0, s))
	}
	if f.wide {
		if a := d.array(v["DescendantFonts"]); len(a) > 0 {
			d.wideWidths(f, d.dict(a[0]))
		}
		return f
	}
	f.encoding = charmap.Windows1252
	base := d.resolve(v["Encoding"])
	if e, ok := base.(dict); ok {
		base = d.resolve(e["BaseEncoding"])
		f.names = d.differences(d.array(e["Differences"]))
	}
	if base == name("MacRomanEncoding") {
		f.encoding = charmap.Macintosh
	}
	first := d.int(v["FirstChar"])
	for i, width := range d.array(v["Widths"]) {
		if i > 255 {
			break
		}
		if width, ok := d.resolve(width).(float64); ok && width > 0 && d.entry() {
			f.widths[uint32(first+i)] = width / 1000
		}
	}
	return f
}

// wideWidths reads the widths of a CIDFont (ISO 32000-1, 9.7.4.3): "first [w w …]"
// and "first last w". Codes are taken for glyph numbers, as Identity-H has them.
func (d *Document) wideWidths(f *font, v dict) {
	f.usual = 1
	if w, ok := d.resolve(v["DW"]).(float64); ok {
		f.usual = w / 1000
	}
	a := d.array(v["W"])
	for i := 0; i+1 < len(a); {
		first := d.int(a[i])
		if list := d.array(a[i+1]); list != nil {
			for j, w := range list {
				if w, ok := d.resolve(w).(float64); ok && d.entry() {
					f.widths[uint32(first+j)] = w / 1000
				}
			}
			i += 2
			continue
		}
		if i+2 >= len(a) {
			return
		}
		last, w := d.int(a[i+1]), float64(d.int(a[i+2]))/1000
		for c := first; c <= last && d.entry(); c++ {
			f.widths[uint32(c)] = w
		}
		i += 3
	}
}

// differences maps codes to characters by glyph names.
func (d *Document) differences(a []any) map[uint32]string {
	m := make(map[uint32]string)
	code := 0
	for _, v := range a {
		switch v := d.resolve(v).(type) {
		case float64:
			code = int(v)
		case name:
			if code >= 0 && code < 256 && d.entry() {
				m[uint32(code)] = glyph(string(v))
			}
			code++
		}
	}
	return m
}

// unicodeMap reads a ToUnicode CMap (ISO 32000-1, 9.10.3).
func (d *Document) unicodeMap(b []byte) map[uint32]string {
	m := make(map[uint32]string)
	set := func(code uint32, s string) {
		if d.entry() {
			m[code] = s[:min(len(s), maxTarget)]
		}
	}
	p := d.parser(b)
	var args []any
	for {
		switch v := p.value(0).(type) {
		case end:
			return m
		case operator:
			switch v {
			case "endbfchar":
				for i := 0; i+1 < len(args); i += 2 {
					from, _ := args[i].(text)
					to, _ := args[i+1].(text)
					set(codeOf(from), utf16BE(string(to[:min(len(to), maxTarget)])))
				}
			case "endbfrange":
				for i := 0; i+2 < len(args); i += 3 {
					low, _ := args[i].(text)
					high, _ := args[i+1].(text)
					d.bfrange(codeOf(low), codeOf(high), args[i+2], set)
				}
			}
			clear(args)
			args, p.nodes = args[:0], 0
		default:
			args = append(args, v)
		}
	}
}

func (d *Document) bfrange(low, high uint32, to any, set func(uint32, string)) {
	switch to := to.(type) {
	case []any:
		for i, v := range to {
			if s, ok := v.(text); ok && low+uint32(i) <= high {
				set(low+uint32(i), utf16BE(string(s[:min(len(s), maxTarget)])))
			}
		}
	case text:
		to = to[:min(len(to), maxTarget)]
		if len(to) < 2 {
			return
		}
		head, lastUnit := string(to[:len(to)-2]), uint32(to[len(to)-2])<<8|uint32(to[len(to)-1])
		for c := low; c <= high && c-low < maxCodes && d.spend(entryCost); c++ {
			u := lastUnit + c - low
			set(c, utf16BE(head+string([]byte{byte(u >> 8), byte(u)})))
		}
	}
}

func codeOf(s text) (c uint32) {
	for i := range min(len(s), 4) {
		c = c<<8 | uint32(s[i])
	}
	return c
}

// codes cuts a string into codes.
func (f *font) codes(s text) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		step := 1
		if f.wide {
			step = 2
		}
		for i := 0; i+step <= len(s); i += step {
			if !yield(codeOf(s[i : i+step])) {
				return
			}
		}
	}
}

// char is the text of a code, "" if the file does not say.
func (f *font) char(code uint32) string {
	if s, ok := f.unicode[code]; ok {
		return clean(s)
	}
	if s, ok := f.names[code]; ok {
		return s
	}
	if f.wide || code > 255 || f.encoding == nil {
		return ""
	}
	if r := f.encoding.DecodeByte(byte(code)); r >= ' ' && r != utf8.RuneError {
		return string(r)
	}
	return ""
}

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError || r == 0x7F {
			return ' '
		}
		return r
	}, s)
}

func (f *font) width(code uint32) float64 {
	if w, ok := f.widths[code]; ok {
		return w
	}
	return f.usual
}

// accents are the ends of the names of composed glyphs, as combining characters.
var accents = []struct{ suffix, mark string }{
	{"acute", "\u0301"}, {"grave", "\u0300"}, {"dieresis", "\u0308"}, {"circumflex", "\u0302"}, {"tilde", "\u0303"},
	{"caron", "\u030C"}, {"cedilla", "\u0327"}, {"ring", "\u030A"}, {"ogonek", "\u0328"}, {"macron", "\u0304"},
	{"breve", "\u0306"}, {"dotaccent", "\u0307"}, {"hungarumlaut", "\u030B"}, {"commaaccent", "\u0327"},
}

// glyphs are names of characters that are neither letters nor composed of them
// (Adobe Glyph List, those of Latin text).
var glyphs = map[string]string{
	"space": " ", "nbspace": " ", "exclam": "!", "quotedbl": "\"", "numbersign": "#", "dollar": "$", "percent": "%",
	"ampersand": "&", "quotesingle": "'", "parenleft": "(", "parenright": ")", "asterisk": "*", "plus": "+", "comma": ",",
	"hyphen": "-", "minus": "−", "period": ".", "slash": "/", "zero": "0", "one": "1", "two": "2", "three": "3",
	"four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "colon": ":", "semicolon": ";",
	"less": "<", "equal": "=", "greater": ">", "question": "?", "at": "@", "bracketleft": "[", "backslash": "\\",
	"bracketright": "]", "asciicircum": "^", "underscore": "_", "grave": "`", "braceleft": "{", "bar": "|",
	"braceright": "}", "asciitilde": "~", "exclamdown": "¡", "cent": "¢", "sterling": "£", "currency": "¤", "yen": "¥",
	"section": "§", "copyright": "©", "registered": "®", "trademark": "™", "degree": "°", "plusminus": "±", "mu": "µ",
	"paragraph": "¶", "periodcentered": "·", "guillemotleft": "«", "guillemotright": "»", "guilsinglleft": "‹",
	"guilsinglright": "›", "questiondown": "¿", "AE": "Æ", "ae": "æ", "OE": "Œ", "oe": "œ", "Oslash": "Ø",
	"oslash": "ø", "germandbls": "ß", "Thorn": "Þ", "thorn": "þ", "Eth": "Ð", "eth": "ð", "Lslash": "Ł",
	"lslash": "ł", "dotlessi": "ı", "multiply": "×", "divide": "÷", "endash": "–", "emdash": "—", "quoteleft": "‘",
	"quoteright": "’", "quotesinglbase": "‚", "quotedblleft": "“", "quotedblright": "”", "quotedblbase": "„",
	"dagger": "†", "daggerdbl": "‡", "bullet": "•", "ellipsis": "…", "perthousand": "‰", "fraction": "⁄", "Euro": "€",
	"ff": "ff", "fi": "fi", "fl": "fl", "ffi": "ffi", "ffl": "ffl", "arrowright": "→", "arrowleft": "←",
	"logicalnot": "¬", "onehalf": "½", "onequarter": "¼", "threequarters": "¾", "onesuperior": "¹", "twosuperior": "²",
	"threesuperior": "³", "infinity": "∞", "notequal": "≠", "lessequal": "≤", "greaterequal": "≥",
	"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "lambda": "λ", "pi": "π", "sigma": "σ",
	"tau": "τ", "phi": "φ", "omega": "ω", "Delta": "Δ", "Omega": "Ω", "Sigma": "Σ",
}

// glyph is the character that a glyph's name stands for, "" if it is not known.
func glyph(n string) string {
	n, _, _ = strings.Cut(n, ".") // "a.sc": a variant of a
	if s, ok := glyphs[n]; ok {
		return s
	}
	if len(n) == 1 {
		return n
	}
	for _, a := range accents {
		if base, ok := strings.CutSuffix(n, a.suffix); ok && len(base) == 1 {
			return norm.NFC.String(base + a.mark)
		}
	}
	hex, ok := strings.CutPrefix(n, "uni")
	if !ok {
		hex, ok = strings.CutPrefix(n, "u")
	}
	if v, err := strconv.ParseUint(hex, 16, 32); ok && err == nil && len(hex) >= 4 && utf8.ValidRune(rune(v)) {
		return clean(string(rune(v)))
	}
	return ""
}
