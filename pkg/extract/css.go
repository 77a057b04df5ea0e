package extract

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
)

// css adds the url() and @import references of a style element or attribute.
func (f *finder) css(s []byte) {
	c := sheet{finder: f}
	c.scan(s, 0, true)
}

// StyleURLs calls found with the url() and @import references of a style sheet, in their order.
func StyleURLs(s []byte, found func(ref string)) {
	c := sheet{take: found}
	c.scan(s, 0, true)
}

// sheet is a scanner of CSS for the few tokens that matter (CSS Syntax section 4):
// comments, strings, names with escapes, url(), image-set(), @import and @namespace
// (its URL is no link).
type sheet struct {
	*finder
	take      func(ref string) // if not nil, gets the references instead of finder
	importing bool             // after @import, before its reference
	namespace bool             // after @namespace, before its end
	depth     int              // of open parentheses
	set       int              // depth inside of image-set( where strings are references, or 0
}

// read scans a style sheet, of about size bytes, with a window of two tokens.
func (c *sheet) read(in io.Reader, size int) {
	b := make([]byte, 0, min(size+1, 2*markup.MaxToken))
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
// longer than markup.MaxToken.
func (c *sheet) scan(s []byte, from int, last bool) (int, bool) {
	for i := from; i < len(s); {
		if !last && len(s)-i < markup.MaxToken {
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
				c.ref(linkkind.CSSImport, ref)
			} else if ok && c.set > 0 && c.set == c.depth {
				c.ref(linkkind.CSS, ref)
			}
			c.importing = false
			i += n
		case b == '@':
			n, escaped := cssName(s[i+1:])
			c.importing = isName(s[i+1:i+1+n], escaped, "import")
			c.namespace = isName(s[i+1:i+1+n], escaped, "namespace")
			i += 1 + n
		case b == '#':
			n, _ := cssName(s[i+1:])
			c.importing = false
			i += 1 + n
		case isNameByte(b) || b == '\\':
			n, escaped := cssName(s[i:])
			name := s[i : i+n]
			i += max(n, 1) // an escaped line end is no name
			if i >= len(s) || s[i] != '(' {
				c.importing = false
				break
			}
			i++
			if !isName(name, escaped, "url") {
				c.depth++
				if isName(name, escaped, "image-set") || isName(name, escaped, "-webkit-image-set") {
					c.set = c.depth
				}
				c.importing = false
				break
			}
			ref, n, ok := cssURL(s[i:])
			switch {
			case !ok || c.namespace:
			case c.importing:
				c.ref(linkkind.CSSImport, ref)
			default:
				c.ref(linkkind.CSS, ref)
			}
			c.importing = false
			i += n
		default:
			switch b {
			case '(':
				c.depth++
			case ')':
				c.depth = max(c.depth-1, 0)
			case ';', '{', '}':
				c.depth, c.namespace = 0, false
			}
			if c.depth < c.set {
				c.set = 0
			}
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
	if ref == "" || ref[0] == '#' { // #x names a part of this document
		return
	}
	if c.take != nil {
		c.take(ref)
	} else {
		c.addLink(kind, ref, false)
	}
}

func isNameByte(c byte) bool {
	return markup.IsLetter(c) || '0' <= c && c <= '9' || c == '-' || c == '_' || c >= utf8.RuneSelf
}

// cssName is the length of the name that s begins with, and whether escapes are in it.
func cssName(s []byte) (n int, escaped bool) {
	for n < len(s) {
		switch {
		case isNameByte(s[n]):
			n++
		case s[n] == '\\' && n+1 < len(s) && strings.IndexByte("\n\r\f", s[n+1]) < 0:
			n += cssEscape(nil, s[n:])
			escaped = true
		default:
			return n, escaped
		}
	}
	return n, escaped
}

// isName reports whether a name is this one, in any case, written with escapes or
// without.
func isName(name []byte, escaped bool, want string) bool {
	if !escaped {
		return len(name) == len(want) && markup.HasFold(name, want)
	}
	if len(name) > 8*len(want) {
		return false
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		if name[i] == '\\' {
			i += cssEscape(&b, name[i:])
		} else {
			b.WriteByte(name[i])
			i++
		}
	}
	return strings.EqualFold(b.String(), want)
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

// cssEscape writes the character that an escape stands for, unless b is nil, and
// returns the escape's length.
func cssEscape(b *strings.Builder, s []byte) int {
	if b == nil {
		b = new(strings.Builder)
	}
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
			i += spaceLen(s[i:])
		}
	case len(s) == 1:
		return 1
	case s[1] == '\n' || s[1] == '\r' || s[1] == '\f':
		return 1 + spaceLen(s[1:]) // a line that goes on
	default:
		b.WriteByte(s[1])
		return 2
	}
	return i
}

// spaceLen is the length of the white space character that s begins with: CR LF is one.
func spaceLen(s []byte) int {
	if bytes.HasPrefix(s, []byte("\r\n")) {
		return 2
	}
	return 1
}
