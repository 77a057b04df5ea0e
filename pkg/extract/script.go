package extract

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
)

// scriptSort is the kind of a script element's content.
type scriptSort uint8

const (
	scriptData   scriptSort = iota // templates, shaders: no script
	scriptSource                   // JavaScript
	scriptLD                       // JSON-LD
)

// scriptOf returns the kind of content of a script element, by the type in its start tag.
func scriptOf(e *markup.Element) scriptSort {
	if e.Has>>markup.AttrType&1 == 0 {
		return scriptSource
	}
	t, _, _ := strings.Cut(e.Get(markup.AttrType), ";")
	t = strings.ToLower(strings.TrimSpace(t))
	switch {
	case t == "application/ld+json":
		return scriptLD
	case t == "" || t == "module" || strings.HasSuffix(t, "javascript") || strings.HasSuffix(t, "ecmascript"):
		return scriptSource
	}
	return scriptData
}

// IsScript reports whether a browser runs the content of a script element. The element has to be read with its type attribute.
func IsScript(e *markup.Element) bool { return scriptOf(e) == scriptSource }

// scriptElement adds the links in the text of a script element.
func (f *finder) scriptElement(sort scriptSort, text []byte) {
	switch {
	case sort == scriptLD:
		f.jsonLD(text)
	case sort == scriptSource && f.opt.Sources.has(FromScripts):
		f.script(text, true)
	}
}

// jsonLD adds the URLs of JSON-LD: the strings under the names that are URLs in microdata, too, alone or in an array. The @id of a thing
// is a name, which is none of a document unless url has it as well.
func (f *finder) jsonLD(b []byte) {
	named, list := false, false
	for {
		at := bytes.IndexByte(b, '"')
		if at < 0 {
			return
		}
		between := bytes.TrimSpace(b[:at])
		if named {
			list = list || bytes.IndexByte(between, '[') >= 0
			named = len(bytes.Trim(between, " \t\r\n:[,")) == 0 && (list || bytes.IndexByte(between, ',') < 0)
		}
		b = b[at+1:]
		s, n, ok := jsonString(b)
		b = b[n:]
		if rest := bytes.TrimLeft(b[:min(len(b), 64)], " \t\r\n"); len(rest) > 0 && rest[0] == ':' {
			named, list = itemURLs[strings.ToLower(s)], false
			continue
		}
		if s = strings.TrimSpace(s); ok && named && s != "" && s[0] != '#' && !strings.ContainsAny(s, htmlSpace) {
			f.addLink(linkkind.JSONLD, s, false)
		}
	}
}

// script adds what looks like a reference in the strings of JavaScript, and the links of HTML in them, as document.write has it. It knows
// strings, comments and regular expressions, and takes no expression apart: a string that is added to another is none. A bare name, such as
// "page.html", counts in the script of a page: in a file it stands for a module, or is relative to whatever page loads the file.
func (f *finder) script(b []byte, bare bool) {
	was := f.guess
	f.guess = true
	defer func() { f.guess = was }()
	var text []byte
	before := byte(0) // the last character that is not white space
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '"' || c == '\'' || c == '`':
			var n int
			var whole bool
			text, n, whole = scriptString(text[:0], b[i:])
			next := bytes.TrimLeft(b[min(i+n, len(b)):min(i+n+16, len(b))], " \t\r\n")
			if whole && before != '+' && (len(next) == 0 || next[0] != '+') || bytes.IndexByte(text, '<') >= 0 {
				f.scriptText(text, bare)
			}
			i += n - 1
		case c == '/' && i+1 < len(b) && b[i+1] == '/':
			end := bytes.IndexByte(b[i:], '\n')
			if end < 0 {
				return
			}
			i += end
			continue
		case c == '/' && i+1 < len(b) && b[i+1] == '*':
			end := bytes.Index(b[i+2:], []byte("*/"))
			if end < 0 {
				return
			}
			i += 2 + end + 1
			continue
		case c == '/' && strings.IndexByte("\x00(,=:[!&|?{};+", before) >= 0:
			i += regexpLen(b[i:]) - 1
		case c <= ' ':
			continue
		}
		before = c
	}
}

// regexpLen is the length of a regular expression up to its last slash, or 1 if there is none on the line.
func regexpLen(b []byte) int {
	class := false
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\n':
			return 1
		case '\\':
			i++
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if !class {
				return i + 1
			}
		}
	}
	return 1
}

// scriptString reads a string literal with its quotes: its value, at most maxToken bytes, how long the literal is, and whether that is all
// of it: no line end cuts it, and no expression stands in it.
func scriptString(dst, b []byte) (value []byte, n int, whole bool) {
	quote := b[0]
	whole = true
	for i := 1; i < len(b); i++ {
		c := b[i]
		switch {
		case c == quote:
			return dst, i + 1, whole
		case c == '\n' && quote != '`':
			return dst, i, false
		case c == '$' && quote == '`' && i+1 < len(b) && b[i+1] == '{':
			whole = false
		case c == '\\' && i+1 < len(b):
			i++
			switch c = b[i]; c {
			case 'n', 'r', 't':
				c = ' '
			case '\n':
				continue
			case 'x':
				if i+2 < len(b) {
					if high, low := markup.Unhex(b[i+1]), markup.Unhex(b[i+2]); high >= 0 && low >= 0 {
						dst = utf8.AppendRune(dst, high<<4|low)
						i += 2
						continue
					}
				}
			case 'u':
				r, used := jsonRune(b[i+1:])
				dst = utf8.AppendRune(dst, r)
				i += used
				continue
			}
		}
		if len(dst) < markup.MaxToken {
			dst = append(dst, c)
		}
	}
	return dst, len(b), false
}

// scriptText adds a string of a script if it is a reference, or its links if it is HTML.
func (f *finder) scriptText(s []byte, bare bool) {
	switch {
	case bytes.IndexByte(s, '<') >= 0:
		if bytes.IndexByte(s, '=') >= 0 {
			f.inline(bytes.Clone(s))
		}
	case isScriptRef(s, bare):
		f.addLink(linkkind.ScriptGuess, string(s), false)
	}
}

// isScriptRef reports whether a string of a script is a reference, as far as its looks say: an absolute URL, or a path that has the
// ending of a file's name, or begins with a slash and has another, or a slash at its end.
func isScriptRef(s []byte, bare bool) bool {
	if len(s) < 4 || len(s) > maxTextURL {
		return false
	}
	for _, c := range s {
		if c <= ' ' || c == 0x7F || strings.IndexByte("\"'<>`{}|\\^$*[]();,!", c) >= 0 {
			return false
		}
	}
	ref := string(s)
	if scheme, rest, ok := strings.Cut(ref, "://"); ok {
		return (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) && isHost(rest) && !isNamespace(rest)
	}
	if rest, ok := strings.CutPrefix(ref, "//"); ok {
		return isHost(rest)
	}
	path, query, hasQuery := strings.Cut(ref, "?")
	path, _, _ = strings.Cut(path, "#")
	if path == "" || strings.ContainsAny(path, ":&=%+@~") || strings.Contains(path, "//") {
		return false
	}
	if !bare && path[0] != '/' && path[0] != '.' {
		return false
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && scriptExtensions[strings.ToLower(name[dot+1:])] {
		return true
	}
	return path[0] == '/' && (strings.Count(path, "/") > 1 && (name == "" || isWord(name)) || hasQuery && query != "" && isWord(name))
}

// isHost reports whether what stands behind "//" begins with a host's name that has a dot.
func isHost(s string) bool {
	host, _, _ := strings.Cut(s, "/")
	host, _, _ = strings.Cut(host, "?")
	host, _, _ = strings.Cut(host, ":")
	dot := strings.LastIndexByte(host, '.')
	return dot > 0 && dot < len(host)-1 && !strings.ContainsAny(host, "@_%=&+~#")
}

// isNamespace reports whether what stands behind "//" is the name of a namespace of W3C, as scripts that draw have it.
func isNamespace(s string) bool {
	rest, ok := strings.CutPrefix(s, "www.w3.org/")
	return ok && len(rest) > 4 && (rest[:2] == "19" || rest[:2] == "20") && rest[4] == '/'
}

// isTemplate reports whether a reference has a place that a script or a server fills.
func isTemplate(ref string) bool {
	return strings.Contains(ref, "${") || strings.Contains(ref, "{{") || strings.Contains(ref, "<%")
}

func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; !markup.IsLetter(c) && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return s != ""
}

// scriptExtensions are the endings of names that scripts load or go to.
var scriptExtensions = func() map[string]bool {
	m := map[string]bool{}
	for _, e := range strings.Fields("html htm xhtml shtml php asp aspx jsp cgi do js mjs css json xml svg png jpg jpeg gif webp avif ico pdf txt zip gz woff woff2 ttf mp3 mp4 webm ogg wasm csv rss atom") {
		m[e] = true
	}
	return m
}()
