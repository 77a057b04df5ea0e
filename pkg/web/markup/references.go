package markup

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/net/html"
)

// View is b as a string without a copy: it changes when b does.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// NeedsDecoding reports whether v may stand for something else than itself: it has a
// character reference, a carriage return or a NUL byte.
func NeedsDecoding(v []byte) bool {
	i := 0
	for ; i+8 <= len(v); i += 8 {
		x := binary.LittleEndian.Uint64(v[i:])
		if zeros(x)|zeros(x^ones*'&')|zeros(x^ones*'\r') != 0 {
			return true
		}
	}
	for ; i < len(v); i++ {
		if v[i] == '&' || v[i] == '\r' || v[i] == 0 {
			return true
		}
	}
	return false
}

// AppendDecoded appends v with its character references decoded and its newlines
// normalized. A NUL byte becomes U+FFFD in an attribute's value, and goes in text.
func AppendDecoded(dst, v []byte, isAttr bool) []byte {
	for i := 0; i < len(v); {
		switch c := v[i]; c {
		case '&':
			var n int
			dst, n = appendReference(dst, v[i:], isAttr)
			i += n
		case '\r':
			dst = append(dst, '\n')
			if i++; i < len(v) && v[i] == '\n' {
				i++
			}
		case 0:
			if isAttr {
				dst = utf8.AppendRune(dst, utf8.RuneError)
			}
			i++
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// windows1252 has the characters of the numeric references 0x80 to 0x9F.
const windows1252 = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ"

var windows1252Runes = []rune(windows1252)

// appendReference decodes the character reference at the start of s, which begins
// with "&" (HTML section 13.2.5.72), and returns how long it is.
func appendReference(dst, s []byte, isAttr bool) ([]byte, int) {
	if len(s) > 1 && s[1] == '#' {
		return appendNumeric(dst, s)
	}
	i := 1
	for i < len(s) && (IsLetter(s[i]) || '0' <= s[i] && s[i] <= '9') {
		i++
	}
	ends := i < len(s) && s[i] == ';'
	if ends {
		i++
	}
	name := s[:i]
	switch string(name) { // as nearly all are written
	case "&":
		return append(dst, '&'), 1
	case "&amp;":
		return append(dst, '&'), i
	case "&lt;":
		return append(dst, '<'), i
	case "&gt;":
		return append(dst, '>'), i
	case "&quot;":
		return append(dst, '"'), i
	case "&nbsp;":
		return append(dst, "\u00a0"...), i
	}
	// No name is as long as this; but text may begin with one that has no semicolon.
	const longest = len("&CounterClockwiseContourIntegral;")
	if isAttr && (len(name) > longest || !ends && i < len(s) && s[i] == '=') {
		return append(dst, name...), i
	}
	head, tail := name, name[:0]
	if len(name) > longest {
		head, tail = name[:longest], name[longest:]
	}
	decoded := html.UnescapeString(string(head))
	if isAttr && len(decoded) > 1 && decoded[len(decoded)-1] == head[len(head)-1] {
		decoded = string(head) // a part of it is a reference, or nothing
	}
	return append(append(dst, decoded...), tail...), i
}

func appendNumeric(dst, s []byte) ([]byte, int) {
	i, base := 2, rune(10)
	if i < len(s) && s[i]|0x20 == 'x' {
		i, base = 3, 16
	}
	first := i
	var r rune
	for ; i < len(s); i++ {
		d := Unhex(s[i])
		if d < 0 || d >= base {
			break
		}
		if r <= utf8.MaxRune {
			r = r*base + d
		}
	}
	if i == first {
		return append(dst, '&'), 1
	}
	if i < len(s) && s[i] == ';' {
		i++
	}
	switch {
	case 0x80 <= r && r <= 0x9F:
		r = windows1252Runes[r-0x80]
	case r == 0:
		r = utf8.RuneError
	}
	return utf8.AppendRune(dst, r), i // which replaces surrogates and what is too large
}

// Unhex is the value of a hexadecimal digit, or -1.
func Unhex(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return -1
}

// IsLetter reports whether c is one of ASCII.
func IsLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// HasFold reports whether s begins with prefix, whatever the case.
func HasFold(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(string(s[:len(prefix)]), prefix)
}

// MaxToken bounds one token, in bytes, that is held as a whole: a tag with its attributes, the text of a script.
const MaxToken = 2 << 20

// Refresh reads a refresh value, "5; url='x'" (HTML section 4.2.5.3). ref is "" where the document itself is to be loaded again.
func Refresh(v string) (ref string, ok bool) {
	const space = " \t\r\n\f"
	v = strings.TrimLeft(v, space)
	rest := strings.TrimLeft(v, "0123456789.")
	if rest == v {
		return "", false
	}
	trimmed := strings.TrimLeft(rest, space)
	if trimmed == "" {
		return "", true
	}
	if trimmed == rest && rest[0] != ';' && rest[0] != ',' {
		return "", false
	}
	rest = trimmed
	if rest[0] == ';' || rest[0] == ',' {
		rest = strings.TrimLeft(rest[1:], space)
	}
	if len(rest) >= 3 && strings.EqualFold(rest[:3], "url") {
		if r := strings.TrimLeft(rest[3:], space); strings.HasPrefix(r, "=") {
			rest = strings.TrimLeft(r[1:], space)
		}
	}
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		rest, _, _ = strings.Cut(rest[1:], rest[:1])
	}
	return strings.TrimSpace(rest), true
}
