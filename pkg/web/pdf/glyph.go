package pdf

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// accents are the ends of the names of composed glyphs, as combining characters.
var accents = []struct{ suffix, mark string }{
	{"acute", "\u0301"}, {"grave", "\u0300"}, {"dieresis", "\u0308"}, {"circumflex", "\u0302"}, {"tilde", "\u0303"},
	{"caron", "\u030C"}, {"cedilla", "\u0327"}, {"ring", "\u030A"}, {"ogonek", "\u0328"}, {"macron", "\u0304"},
	{"breve", "\u0306"}, {"dotaccent", "\u0307"}, {"hungarumlaut", "\u030B"}, {"commaaccent", "\u0327"},
	{"tonos", "\u0301"},
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
	"Scommaaccent": "Ș", "scommaaccent": "ș", "dcroat": "đ", "dmacron": "đ", "Dcroat": "Đ", "hbar": "ħ", "Hbar": "Ħ",
	"tbar": "ŧ", "Tbar": "Ŧ", "Ldot": "Ŀ", "ldot": "ŀ", "IJ": "Ĳ", "ij": "ĳ", "Eng": "Ŋ", "eng": "ŋ", "longs": "ſ",
	"kgreenlandic": "ĸ", "napostrophe": "ŉ", "florin": "ƒ", "schwa": "ə", "ordfeminine": "ª", "ordmasculine": "º",
	"brokenbar": "¦", "macron": "¯", "cedilla": "¸", "acute": "´", "dieresis": "¨", "sfthyphen": "\u00AD", "softhyphen": "\u00AD",
	"theta1": "ϑ", "phi1": "ϕ", "omega1": "ϖ", "Upsilon1": "ϒ", "colonmonetary": "₡", "lira": "₤", "peseta": "₧",
	"franc": "₣", "estimated": "℮", "weierstrass": "℘", "Rfractur": "ℜ", "Ifractur": "ℑ", "aleph": "ℵ", "minute": "′",
	"second": "″", "approxequal": "≈", "summation": "∑", "product": "∏", "integral": "∫", "radical": "√",
	"partialdiff": "∂", "lozenge": "◊", "element": "∈", "notelement": "∉", "suchthat": "∋", "intersection": "∩",
	"union": "∪", "emptyset": "∅", "therefore": "∴", "because": "∵", "existential": "∃", "universal": "∀",
	"propersubset": "⊂", "propersuperset": "⊃", "notsubset": "⊄", "reflexsubset": "⊆", "reflexsuperset": "⊇",
	"perpendicular": "⊥", "angle": "∠", "gradient": "∇", "proportional": "∝", "equivalence": "≡", "similar": "∼",
	"congruent": "≅", "circleplus": "⊕", "circlemultiply": "⊗", "logicaland": "∧", "logicalor": "∨", "dotmath": "⋅",
	"asteriskmath": "∗", "arrowup": "↑", "arrowdown": "↓", "arrowboth": "↔", "arrowdblright": "⇒", "arrowdblleft": "⇐",
	"arrowdblboth": "⇔", "arrowdblup": "⇑", "arrowdbldown": "⇓", "spade": "♠", "club": "♣", "heart": "♥",
	"diamond": "♦", "angleleft": "〈", "angleright": "〉", "oneeighth": "⅛", "threeeighths": "⅜", "fiveeighths": "⅝",
	"seveneighths": "⅞", "onethird": "⅓", "twothirds": "⅔", "H18533": "■", "filledbox": "■", "circle": "○",
}

// greek are the names of the small Greek letters in the order of Unicode, from U+03B1. The capitals
// begin 32 before, without one for sigma1.
var greek = strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma1 sigma tau upsilon phi chi psi omega")

// afii are runs of glyph numbers of the Association for Font Information Interchange, as the
// Adobe Glyph List has them: the first number, and the characters from there on.
var afii = []struct {
	first int
	chars string
}{
	{10017, "АБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯҐЂЃЄЅІЇЈЉЊЋЌЎ"},
	{10065, "абвгдеёжзийклмнопрстуфхцчшщъыьэюяґђѓєѕіїјљњћќў"},
	{10145, "ЏѢѲѴ"}, {10193, "џѣѳѵ"}, {61352, "№"}, {208, "―"}, {10846, "ә"},
	{57388, "،"}, {57392, "٠١٢٣٤٥٦٧٨٩"}, {57403, "؛"}, {57407, "؟"},
	{57409, "ءآأؤإئابةتثجحخدذرزسشصضطظعغ"}, {57440, "ـفقكلمن"}, {57448, "وىيًٌٍَُِّْ"}, {57470, "ه"},
	{57664, "אבגדהוזחטיךכלםמןנסעףפץצקרשת"},
}

// glyph is the text that a glyph's name stands for, "" if it is not known (Adobe Glyph List
// Specification, section 2).
func glyph(n string) string {
	n, _, _ = strings.Cut(n, ".") // "a.sc": a variant of a
	var all strings.Builder
	for part := range strings.SplitSeq(n, "_") { // "f_i": a ligature
		s := component(part)
		if s == "" || all.Len() > maxTarget {
			return ""
		}
		all.WriteString(s)
	}
	return all.String()
}

func component(n string) string {
	if s, ok := glyphs[n]; ok {
		return s
	}
	if len(n) == 1 {
		return n
	}
	if i := slices.Index(greek, strings.ToLower(n)); i >= 0 {
		switch {
		case n == greek[i]:
			return string(rune(0x3B1 + i))
		case n[1:] == greek[i][1:] && n != "Sigma1":
			return string(rune(0x391 + i))
		}
	}
	for _, a := range accents {
		if base, ok := strings.CutSuffix(n, a.suffix); ok && base != "" {
			if s := component(base); len(base) == 1 || s != "" && s != base {
				return norm.NFC.String(s + a.mark)
			}
		}
	}
	if digits, ok := strings.CutPrefix(n, "afii"); ok {
		number, err := strconv.Atoi(digits)
		for _, run := range afii {
			if chars := []rune(run.chars); err == nil && number >= run.first && number < run.first+len(chars) {
				return string(chars[number-run.first])
			}
		}
		return ""
	}
	if hex, ok := strings.CutPrefix(n, "uni"); ok && len(hex) >= 4 && len(hex)%4 == 0 {
		var s strings.Builder
		for ; hex != ""; hex = hex[4:] {
			v, err := strconv.ParseUint(hex[:4], 16, 32)
			if err != nil || !utf8.ValidRune(rune(v)) {
				return ""
			}
			s.WriteRune(rune(v))
		}
		return clean(s.String())
	}
	if hex, ok := strings.CutPrefix(n, "u"); ok && len(hex) >= 4 && len(hex) <= 6 {
		if v, err := strconv.ParseUint(hex, 16, 32); err == nil && utf8.ValidRune(rune(v)) {
			return clean(string(rune(v)))
		}
	}
	return ""
}
