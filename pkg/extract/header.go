package extract

import (
	"iter"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"mercator/pkg/web/canon"
	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
	"mercator/pkg/web/process"
)

// linkKinds are the relations of a link element (HTML section 4.6.7) that have a
// kind of their own, the most telling first. An element with several relations has
// the first kind of this list. alternate with hreflang is link-hreflang.
var linkKinds = []string{
	linkkind.LinkStylesheet, linkkind.Canonical, linkkind.LinkAlternate, linkkind.LinkNext, linkkind.LinkPrev, linkkind.LinkIcon,
	linkkind.LinkManifest, linkkind.LinkAMPHTML, linkkind.LinkShortlink, linkkind.LinkSearch, linkkind.LinkLicense, linkkind.LinkAuthor,
	linkkind.LinkHelp, linkkind.LinkModulepreload, linkkind.LinkPreload, linkkind.LinkPrefetch, linkkind.LinkPrerender,
}

// sameRelation are names that browsers take for another relation.
var sameRelation = map[string]string{"previous": "prev", "apple-touch-icon": "icon", "apple-touch-icon-precomposed": "icon", "mask-icon": "icon"}

// header adds the links of a reply's header fields. A base element does not count
// for them. The Location of a redirect is not among them: that is the fetcher's to
// judge, and has a column of its own.
func (f *finder) header(h http.Header) {
	var asks process.Directives
	asks.AddHeader(h, f.opt.Agent)
	f.page.Nofollow = f.page.Nofollow || asks.NoFollow
	if !f.opt.Sources.has(FromHeaders) {
		return
	}
	for _, v := range h.Values("Location") {
		f.addAbsolute(linkkind.Location, v, false)
	}
	for _, v := range h.Values("Content-Location") {
		f.addAbsolute(linkkind.ContentLocation, v, false)
	}
	for _, v := range h.Values("Link") {
		f.linkHeader(v)
	}
	for _, v := range h.Values("Refresh") {
		if ref, _ := markup.Refresh(v); ref != "" {
			f.addAbsolute(linkkind.Refresh, ref, false)
		}
	}
}

// addAbsolute is add of a reference that is not relative to Page.Base as it will be
// at the end of the search, but as it is.
func (f *finder) addAbsolute(kind, ref string, nofollow bool) int {
	u, _, err := f.page.Base.Resolve(strings.TrimSpace(ref))
	if err != nil {
		f.refuse(kind, ref, string(canon.ReasonOf(err)))
		return -1
	}
	return f.addLink(kind, u, nofollow)
}

// linkHeader adds the links of a Link header field (RFC 8288 section 3). The text of
// one is its title. One without a relation is a link, too; one about another page
// (its anchor) is no more than that.
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
		first := make(map[string]string) // of parameters given twice the first counts
		for params != "" && len(first) < maxParams {
			var p string
			p, params = cutUnquoted(params, ';')
			name, value, _ := strings.Cut(p, "=")
			name = strings.ToLower(strings.TrimSpace(name))
			if _, twice := first[name]; !twice {
				first[name] = unquote(strings.TrimSpace(value))
			}
		}
		rel := first["rel"]
		kind := relKind(rel, first["hreflang"])
		if anchor := first["anchor"]; kind != "" && anchor != "" && !strings.HasPrefix(anchor, "#") {
			kind = linkkind.Link
		}
		if kind == "" {
			continue
		}
		title := first["title"]
		if t, ok := extValue(first["title*"]); ok {
			title = t
		}
		if i := f.addAbsolute(kind, ref, hasToken(rel, "nofollow")); i >= 0 {
			f.setText(i, title)
		}
	}
}

// maxParams bounds the parameters that are read of one link of a header.
const maxParams = 64

// setText gives a link its text, if there is room.
func (f *finder) setText(link int, text string) {
	var l label
	l.addText([]byte(text), f.opt.MaxText)
	f.found.setText(link, l.b)
}

// unquote gives the value of a token or quoted string (RFC 9110 section 5.6.4).
func unquote(s string) string {
	quoted, ok := strings.CutPrefix(s, `"`)
	if !ok {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(quoted) && quoted[i] != '"'; i++ {
		if quoted[i] == '\\' && i+1 < len(quoted) {
			i++
		}
		b.WriteByte(quoted[i])
	}
	return b.String()
}

// extValue decodes a value such as UTF-8'en'%e2%82%ac (RFC 8187 section 3.2).
func extValue(s string) (string, bool) {
	label, rest, ok := strings.Cut(s, "'")
	_, value, ok2 := strings.Cut(rest, "'")
	if !ok || !ok2 || !strings.EqualFold(label, "utf-8") {
		return "", false
	}
	value, err := url.PathUnescape(value)
	return value, err == nil && utf8.ValidString(value)
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
	best, names := len(linkKinds), true
	for token := range words(rel) {
		if other := sameRelation[strings.ToLower(token)]; other != "" {
			token = other
		}
		for i, k := range linkKinds[:best] {
			if strings.EqualFold(token, k[len(linkkind.Link)+1:]) {
				best = i
				break
			}
		}
		if strings.EqualFold(token, "preconnect") || strings.EqualFold(token, "dns-prefetch") {
			names = false // a host, and no document
		}
	}
	switch {
	case best < len(linkKinds) && linkKinds[best] == linkkind.LinkAlternate && strings.TrimSpace(hreflang) != "":
		return linkkind.LinkHreflang
	case best < len(linkKinds):
		return linkKinds[best]
	case names:
		return linkkind.Link
	}
	return ""
}

// words are the parts of s between white space.
func words(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			s = strings.TrimLeft(s, htmlSpace)
			if s == "" {
				return
			}
			end := strings.IndexAny(s, htmlSpace)
			if end < 0 {
				end = len(s)
			}
			if !yield(s[:end]) {
				return
			}
			s = s[end:]
		}
	}
}

func (f *finder) robotsDirectives(content string) {
	var asks process.Directives
	asks.Add(content)
	f.page.Nofollow = f.page.Nofollow || asks.NoFollow
}
