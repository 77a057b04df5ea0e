package extract

import (
	"strings"
	"unicode/utf8"
)

// css adds the url() and @import references of a style sheet or a style
// attribute. It is a scanner for the few tokens that matter (CSS Syntax section
// 4): comments, strings, escapes, url( and @import.
func (f *finder) css(s string) {
	importing := false // after @import, before its reference
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '/' && strings.HasPrefix(s[i:], "/*"):
			end := strings.Index(s[i+2:], "*/")
			if end < 0 {
				return
			}
			i += 2 + end + 2
		case c == '"' || c == '\'':
			ref, n, ok := cssString(s[i:])
			if ok && importing {
				f.cssRef(KindCSSImport, ref)
			}
			importing = false
			i += n
		case c|0x20 == 'u' && hasFold(s[i:], "url(") && !cssName(s, i):
			ref, n, ok := cssURL(s[i+4:])
			if ok {
				kind := KindCSS
				if importing {
					kind = KindCSSImport
				}
				f.cssRef(kind, ref)
			}
			importing = false
			i += 4 + n
		case c == '@':
			importing = hasFold(s[i:], "@import")
			if importing {
				i += len("@import")
			} else {
				i++
			}
		case c == '\\':
			i += 2
		default:
			if c > ' ' {
				importing = false
			}
			i++
		}
	}
}

func (f *finder) cssRef(kind, ref string) {
	ref = strings.TrimSpace(ref)
	if ref != "" && ref[0] != '#' { // #x names a part of this document
		f.add(kind, ref, false)
	}
}

// cssName reports whether what stands before s[i] makes it the rest of a longer name.
func cssName(s string, i int) bool {
	if i == 0 {
		return false
	}
	c := s[i-1]
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c >= utf8.RuneSelf
}

// cssString reads a string token with its quotes: its value, its length, and
// whether it ended. A newline ends a bad one.
func cssString(s string) (value string, n int, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); {
		switch c := s[i]; {
		case c == s[0]:
			return b.String(), i + 1, true
		case c == '\n' || c == '\r' || c == '\f':
			return "", i, false
		case c == '\\':
			i += cssEscape(&b, s[i:])
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String(), len(s), true // the end of the sheet ends a string, too
}

// cssURL reads what follows "url(", with the closing parenthesis.
func cssURL(s string) (value string, n int, ok bool) {
	i := len(s) - len(strings.TrimLeft(s, " \t\r\n\f"))
	if i < len(s) && (s[i] == '"' || s[i] == '\'') {
		value, n, ok = cssString(s[i:])
		i += n
		if end := len(s[i:]) - len(strings.TrimLeft(s[i:], " \t\r\n\f")); i+end < len(s) && s[i+end] == ')' {
			i += end + 1
		}
		return value, i, ok
	}
	var b strings.Builder
	for i < len(s) {
		switch c := s[i]; {
		case c == ')':
			return b.String(), i + 1, true
		case c == '\\':
			i += cssEscape(&b, s[i:])
		case c == '"' || c == '\'' || c == '(':
			return "", i, false // a bad URL; what follows is looked at again
		case c <= ' ':
			end := i + len(s[i:]) - len(strings.TrimLeft(s[i:], " \t\r\n\f"))
			if end < len(s) && s[end] == ')' {
				return b.String(), end + 1, true
			}
			return "", max(end, i+1), false
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String(), len(s), true
}

// cssEscape writes the character that an escape stands for and returns the
// escape's length.
func cssEscape(b *strings.Builder, s string) int {
	var v rune
	i := 1
	for i < len(s) && i <= 6 {
		d := strings.IndexByte("0123456789abcdef", s[i]|0x20)
		if d < 0 || s[i] < '0' {
			break
		}
		v = v<<4 | rune(d)
		i++
	}
	switch {
	case i > 1:
		if v == 0 || v > utf8.MaxRune {
			v = utf8.RuneError
		}
		b.WriteRune(v)
		if i < len(s) && strings.IndexByte(" \t\r\n\f", s[i]) >= 0 {
			i++
		}
	case len(s) == 1:
		return 1
	case s[1] == '\n' || s[1] == '\r' || s[1] == '\f':
		return 2 // a line that goes on
	default:
		b.WriteByte(s[1])
		return 2
	}
	return i
}

func hasFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
