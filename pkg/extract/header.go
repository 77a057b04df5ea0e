package extract

import (
	"net/http"
	"strings"
)

// linkKinds are the relations of a link element (HTML section 4.6.7) that have a
// kind of their own, the most telling first. An element with several relations has
// the first kind of this list. alternate with hreflang is link-hreflang.
var linkKinds = []string{
	"stylesheet", "canonical", "alternate", "next", "prev", "icon", "manifest", "amphtml",
	"shortlink", "search", "license", "author", "help", "modulepreload", "preload", "prefetch", "prerender",
}

// connectionHints are relations that name a host and no document.
var connectionHints = map[string]bool{"preconnect": true, "dns-prefetch": true}

// header adds the links of a reply's header fields. Location is not among them: a
// redirect is the fetcher's to judge, and has a column of its own.
func (f *finder) header(h http.Header) {
	for _, v := range h.Values("X-Robots-Tag") {
		// "botname: directives" is for that robot alone.
		if name, _, ok := strings.Cut(v, ":"); !ok || strings.ContainsAny(strings.TrimSpace(name), ", ") {
			f.robotsDirectives(v)
		}
	}
	for _, v := range h.Values("Link") {
		f.linkHeader(v)
	}
	for _, v := range h.Values("Refresh") {
		if ref, ok := refreshRef(v); ok {
			f.add(KindRefresh, ref, false)
		}
	}
}

// linkHeader adds the links of a Link header field (RFC 8288 section 3).
func (f *finder) linkHeader(v string) {
	for {
		start := strings.IndexByte(v, '<')
		if start < 0 {
			return
		}
		end := strings.IndexByte(v[start:], '>')
		if end < 0 {
			return
		}
		ref := v[start+1 : start+end]
		v = v[start+end+1:]
		var params string
		params, v = cutUnquoted(v, ',')
		var rel, hreflang string
		for params != "" {
			var p string
			p, params = cutUnquoted(params, ';')
			name, value, _ := strings.Cut(p, "=")
			value = strings.ReplaceAll(strings.Trim(strings.TrimSpace(value), `"`), `\`, "")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "rel":
				if rel == "" {
					rel = value
				}
			case "hreflang":
				hreflang = value
			}
		}
		if kind := relKind(rel, hreflang); kind != "" {
			f.add(kind, ref, hasToken(rel, "nofollow"))
		}
	}
}

// cutUnquoted cuts s at the first sep outside double quotes.
func cutUnquoted(s string, sep byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == sep && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// relKind is the kind of a link with these relations, or "" if it names no document.
func relKind(rel, hreflang string) string {
	tokens := strings.Fields(strings.ToLower(rel))
	for _, k := range linkKinds {
		for _, t := range tokens {
			if t == "previous" {
				t = "prev"
			}
			if t != k {
				continue
			}
			if k == "alternate" && strings.TrimSpace(hreflang) != "" {
				return KindLink + "-hreflang"
			}
			return KindLink + "-" + k
		}
	}
	for _, t := range tokens {
		if connectionHints[t] {
			return ""
		}
	}
	return KindLink
}

func (f *finder) robotsDirectives(content string) {
	for _, d := range strings.FieldsFunc(strings.ToLower(content), func(r rune) bool { return r == ',' || r == ';' || r <= ' ' }) {
		if d == "nofollow" || d == "none" {
			f.page.Nofollow = true
		}
	}
}

// refreshRef returns the reference of a refresh value, "5; url='x'" (HTML section
// 4.2.5.3). One without a reference loads the page itself again, and is no link.
func refreshRef(v string) (string, bool) {
	const space = " \t\r\n\f"
	v = strings.TrimLeft(v, space)
	rest := strings.TrimLeft(v, "0123456789.")
	if rest == v {
		return "", false
	}
	trimmed := strings.TrimLeft(rest, space)
	if trimmed == "" || trimmed == rest && rest[0] != ';' && rest[0] != ',' {
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
	return rest, strings.TrimSpace(rest) != ""
}
