package pdf

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

const (
	maxCodes   = 1 << 16 // in the maps of all fonts of a file
	maxTarget  = 32      // bytes of the text of one code
	usualWidth = 0.5     // em, of a glyph without a given width
)

// font turns codes into characters and widths.
type font struct {
	cmap     *cmap // of a Type0 font; nil: a code is one byte
	unicode  *unicodes
	encoding *charmap.Charmap // of a simple font without ToUnicode
	names    map[uint32]string
	ascii    bool               // glyph numbers 1 to 95 are those of U+0020 to U+007E
	widths   map[uint32]float64 // em, by code or, of a Type0 font, by glyph number
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
	if s, ok := d.resolve(v["ToUnicode"]).(stream); ok {
		f.unicode = d.unicodes(d.inflate(0, s))
	}
	if d.resolve(v["Subtype"]) == name("Type0") {
		f.cmap = d.cmap(v["Encoding"])
		if a := d.array(v["DescendantFonts"]); len(a) > 0 {
			below := d.dict(a[0])
			d.wideWidths(f, below)
			order, _ := d.resolve(d.dict(below["CIDSystemInfo"])["Ordering"]).(text)
			f.ascii = slices.Contains(asciiOrderings, string(order))
		}
		return f
	}
	d.simpleEncoding(f, v)
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

// asciiOrderings are Adobe's character collections with ASCII as glyphs 1 to 95.
var asciiOrderings = []string{"Japan1", "GB1", "CNS1", "Korea1"}

// simpleEncoding reads what the codes of a simple font mean (ISO 32000-1, 9.6.6).
func (d *Document) simpleEncoding(f *font, v dict) {
	f.encoding = charmap.Windows1252
	base := d.resolve(v["Encoding"])
	type3 := d.resolve(v["Subtype"]) == name("Type3")
	var differences []any
	if e, ok := base.(dict); ok {
		base, differences = d.resolve(e["BaseEncoding"]), d.array(e["Differences"])
	}
	f.names = make(map[uint32]string)
	switch n, _ := d.resolve(v["BaseFont"]).(name); {
	case base == name("MacRomanEncoding"):
		f.encoding = charmap.Macintosh
	case base != nil: // WinAnsiEncoding, or one that differs from it in what is rare
	case strings.HasSuffix(string(n), "Symbol"):
		d.letters(f.names, 'A', symbolCapitals)
		d.letters(f.names, 'a', symbolSmall)
	default:
		if s, ok := d.resolve(d.dict(v["FontDescriptor"])["FontFile"]).(stream); ok {
			d.builtin(f.names, d.inflate(0, s))
		}
	}
	d.differences(f.names, differences, type3)
}

// The letters of the built-in encoding of Symbol (ISO 32000-1, D.5).
const (
	symbolCapitals = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"
	symbolSmall    = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
)

// letters maps codes that follow each other.
func (d *Document) letters(m map[uint32]string, first uint32, letters string) {
	for _, r := range letters {
		if d.entry() {
			m[first] = string(r)
		}
		first++
	}
}

// builtin reads the encoding in the clear part of a Type 1 font program: "dup 65 /A put".
func (d *Document) builtin(m map[uint32]string, program []byte) {
	_, program, ok := bytes.Cut(program, []byte("/Encoding"))
	program, _, more := bytes.Cut(program, []byte("eexec"))
	if !ok || !more {
		return
	}
	d.operations(program, func(op operator, args []any) {
		if op != "put" || len(args) < 2 {
			return
		}
		code, _ := args[len(args)-2].(float64)
		n, _ := args[len(args)-1].(name)
		if code >= 0 && code <= 255 && n != ".notdef" && d.entry() {
			m[uint32(code)] = glyph(string(n))
		}
	})
}

// wideWidths reads the widths of a CIDFont (ISO 32000-1, 9.7.4.3): "first [w w …]"
// and "first last w", by glyph number.
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

// differences maps codes to characters by glyph names. The glyphs of Type 3 fonts that TeX
// makes are named by their codes: "a65". Ghostscript keeps the codes of bitmap fonts that have
// no names, and makes some up: codes with gaps between them are those of the text then, and
// codes without gaps were drawn in turn.
func (d *Document) differences(m map[uint32]string, a []any, type3 bool) {
	code, runs := 0, 0
	for _, v := range a {
		if _, ok := d.resolve(v).(float64); ok {
			runs++
		}
	}
	for _, v := range a {
		switch v := d.resolve(v).(type) {
		case float64:
			code = int(v)
		case name:
			if code >= 0 && code < 256 && d.entry() {
				s := glyph(string(v))
				if s == "" && type3 && code > ' ' && code < 0x7F && (runs > 2 || len(v) > 1 && string(v[1:]) == strconv.Itoa(code)) {
					s = string(rune(code))
				}
				m[uint32(code)] = s
			}
			code++
		}
	}
}

// clean replaces what is no text, and letters in the form of a place in a word (ligatures, Arabic
// presentation forms) by the letters.
func clean(s string) string {
	shaped := false
	s = strings.Map(func(r rune) rune {
		switch {
		case r == 0xFEFF:
			return -1
		case r < ' ' || r == utf8.RuneError || r == 0x7F:
			return ' '
		}
		shaped = shaped || r >= 0xFB00 && r <= 0xFDFF || r >= 0xFE70 && r < 0xFEFF
		return r
	}, s)
	if shaped {
		s = norm.NFKC.String(s)
	}
	return s
}
