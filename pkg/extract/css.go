package extract

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// css adds the url() and @import references of a style element or attribute.
func (f *finder) css(s []byte) {
	c := sheet{finder: f}
	c.scan(s, 0, true)
}

// sheet is a scanner of CSS for the few tokens that matter (CSS Syntax section 4):
// comments, strings, escapes, url( and @import.
type sheet struct {
	*finder
	importing bool // after @import, before its reference
}

// read scans a style sheet, of about size bytes, with a window of two tokens.
func (c *sheet) read(in io.Reader, size int) {
	b := make([]byte, 0, min(size+1, 2*maxToken))
	for from := 0; ; {
		if len(b) == cap(b) {
			b = slices.Grow(b, len(b))
		}
		n, err := io.ReadFull(in, b[len(b):cap(b)])
		b = b[:len(b)+n]
		end, ok := c.scan(b, from, err != nil) // an error is the end, or what the decoder cannot read
		if err != nil || !ok {
			return
		}
		keep := max(end-1, 0) // url( must not be the rest of a longer name
		from = end - keep
		b = b[:copy(b, b[keep:])]
	}
}

// scan goes through s from an index on. Unless s is the last of the sheet it stops
// where a token may end behind s, and returns that index; false if a token is
// longer than maxToken.
func (c *sheet) scan(s []byte, from int, last bool) (int, bool) {
	for i := from; i < len(s); {
		if !last && len(s)-i < maxToken {
			return i, true
		}
		switch b := s[i]; {
		case b == '/' && bytes.HasPrefix(s[i:], []byte("/*")):
			end := bytes.Index(s[i+2:], []byte("*/"))
			if end < 0 {
				i = len(s)
			} else {
				i += 2 + end + 2
			}
		case b == '"' || b == '\'':
			ref, n, ok := cssString(s[i:])
			if ok && c.importing {
				c.ref(KindCSSImport, ref)
			}
			c.importing = false
			i += n
		case b|0x20 == 'u' && hasFold(s[i:], "url(") && !cssName(s, i):
			ref, n, ok := cssURL(s[i+4:])
			if ok {
				kind := KindCSS
				if c.importing {
					kind = KindCSSImport
				}
				c.ref(kind, ref)
			}
			c.importing = false
			i += 4 + n
		case b == '@':
			c.importing = hasFold(s[i:], "@import")
			if c.importing {
				i += len("@import")
			} else {
				i++
			}
		case b == '\\':
			i += 2
		default:
			if b > ' ' {
				c.importing = false
			}
			i++
		}
		if !last && i >= len(s) {
			c.page.Cut = true
			return i, false
		}
	}
	return len(s), true
}

func (c *sheet) ref(kind, ref string) {
	ref = strings.TrimSpace(ref)
	if ref != "" && ref[0] != '#' { // #x names a part of this document
		c.add(kind, ref, false)
	}
}

// cssName reports whether what stands before s[i] makes it the rest of a longer name.
func cssName(s []byte, i int) bool {
	if i == 0 {
		return false
	}
	c := s[i-1]
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c >= utf8.RuneSelf
}

// cssString reads a string token with its quotes: its value, its length, and
// whether it ended. A newline ends a bad one.
func cssString(s []byte) (value string, n int, ok bool) {
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
func cssURL(s []byte) (value string, n int, ok bool) {
	i := len(s) - len(bytes.TrimLeft(s, " \t\r\n\f"))
	if i < len(s) && (s[i] == '"' || s[i] == '\'') {
		value, n, ok = cssString(s[i:])
		i += n
		if end := len(s[i:]) - len(bytes.TrimLeft(s[i:], " \t\r\n\f")); i+end < len(s) && s[i+end] == ')' {
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
			end := i + len(s[i:]) - len(bytes.TrimLeft(s[i:], " \t\r\n\f"))
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
func cssEscape(b *strings.Builder, s []byte) int {
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

func hasFold(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(string(s[:len(prefix)]), prefix)
}
