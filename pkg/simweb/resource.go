package simweb

import (
	"strconv"
	"strings"
)

// kind sorts the resources of a host.
type kind uint8

const (
	kindPage     kind = iota // n: page; 0 is the root
	kindListed               // a page that only a sitemap names
	kindFind                 // a page with a query in a charset; n: page, v: charset
	kindAsset                // n: number; its type follows from n
	kindRedirect             // n: number
	kindMissing              // status 404 or 410
	kindError                // status 500 or 403
	kindGuarded              // what the robots rules are about; n: number, v: index of guards
	kindCalendar             // n: month; 0 and months+1 are missing
	kindSession              // n: page, v: session; the session after the last is missing
	kindSitemap              // n: 0 the index, else a part
	kindNoName               // root of a host without an address; host: which, v: index of unresolved
	kindDeep                 // hard only: n: level, without end
	kindUnknown              // anything else: 404
	kindAlmanac              // with Config.Traps only; n: page of a tree that has no end for a crawl
	kindEndless              // rough only: n: redirect of a chain without end, v: sort
	kindMenu                 // rough only: n: path, see menuNames
	kindWall                 // rough only: n: page behind a cookie, 0 the entrance; v: sort
)

// resource is the meaning of a canonical URL. Resource and canonical URL map one
// to one, kindUnknown aside.
type resource struct {
	host int32
	kind kind
	n, v int32
}

const (
	firstYear    = 2001 // of month 1
	shopPages    = 6    // pages of a shop that puts session ids into URLs
	sessions     = 5    // session ids of such a shop
	fanOut       = 8    // children of a page
	sitemapLines = 4000 // URLs of a sitemap: under 1 MiB
	noNames      = 20   // hosts without an address, of each sort

	almanacDays  = 30      // children of a page of an almanac
	almanacPages = 1 << 30 // of one host
)

// unresolved are the sorts of names that have no address.
var unresolved = [...]string{"nxdomain", "servfail"}

// guards are paths that robots rules (see rules) allow or deny. The verdict is
// written down here, by hand from RFC 9309, and not worked out by a matcher.
var guards = [...]struct {
	before, after string // of the number
	denied        bool
}{
	{"/private/g", ".html", true},
	{"/private/open/g", ".html", false}, // the longer Allow wins
	{"/privateer/g", ".html", false},
	{"/PRIVATE/g", ".html", false}, // paths are case-sensitive
	{"/bin/g", ".cgi", true},
	{"/bin/g", ".cgi2", false}, // $ ends the pattern
	{"/tmp/a/secret", ".html", true},
	{"/tmp/a/public", ".html", false},
	{"/tie/g", ".html", false}, // Allow wins a tie
	{"/~ann/g", ".html", true}, // %7E in the rule
	{"/q?x=g", "", true},       // the query is matched
	{"/q?y=g", "", false},
	{"/caf%C3%A9/secret", ".html", true}, // raw UTF-8 in the rule
}

// extensions are the types of assets.
var extensions = [...]string{"css", "gif", "jpg", "js", "txt", "xml", "pdf", "doc"}

func extension(n int32) string { return extensions[n%int32(len(extensions))] }

var words = [...]string{"about", "news", "archive", "docs", "blog", "people", "topics", "notes", "east", "west", "old", "new"}

// finds holds one word for kindFind per charset, escaped as the WHATWG rules
// for queries want it: by the bytes of the page's charset.
var finds = [...]struct{ raw, escaped string }{
	utf8Charset: {"caf\u00e9", "caf%C3%A9"},
	latin1:      {"na\xefve", "na%EFve"},
	cp1251:      {"\xef\xf0\xe8\xe2\xe5\xf2", "%EF%F0%E8%E2%E5%F2"},
	shiftJIS:    {"\x82\xb3\x82\xad\x82\xe7", "%82%B3%82%AD%82%E7"},
}

// count is how many resources of a kind a host has.
func (w *Web) count(host int32, k kind) int32 {
	pages := w.pages(host)
	pos := position(host)
	if pos == posMirror && k != kindPage && k != kindSitemap {
		return 0
	}
	switch k {
	case kindPage:
		return pages
	case kindListed:
		if w.hasSitemap(host) {
			return pages/20 + 1
		}
	case kindFind, kindMissing:
		return pages/16 + 1
	case kindAsset:
		return pages/4 + 4
	case kindRedirect:
		return pages/8 + 3
	case kindError:
		return pages/64 + 1
	case kindGuarded:
		return pages/64 + 1 // of each sort
	case kindCalendar:
		if pos == posCalendar {
			return w.months() + 2
		}
	case kindSession:
		if pos == posSession {
			return shopPages
		}
	case kindSitemap:
		if w.hasSitemap(host) {
			return 1 + (w.listed(host)+sitemapLines-1)/sitemapLines
		}
	case kindDeep:
		if w.Hard && pos == posDeep {
			return 1 << 30
		}
	case kindAlmanac:
		if pos >= blockSize-w.Traps {
			return almanacPages
		}
	case kindEndless, kindMenu, kindWall:
		return w.roughCount(pos, k)
	}
	return 0
}

// variants is how many values of v a kind has.
func variants(k kind) int32 {
	switch k {
	case kindFind:
		return int32(len(finds))
	case kindGuarded:
		return int32(len(guards))
	case kindSession:
		return sessions + 1
	case kindEndless:
		return int32(len(endlessNames))
	case kindWall:
		return int32(len(wallNames))
	}
	return 1
}

// appendHost appends the name of the resource's host, without the port.
func (w *Web) appendHost(b []byte, r resource) []byte {
	if r.kind == kindNoName {
		b = append(b, unresolved[r.v]...)
	} else {
		if position(r.host) == posIDN {
			b = append(b, "xn--bcher-kva."...) // bücher
		}
		b = append(b, 'h')
	}
	b = strconv.AppendInt(b, int64(r.host), 10)
	return append(b, Suffix...)
}

func (w *Web) appendPort(b []byte) []byte {
	if w.Port == 0 || w.Port == 80 {
		return b
	}
	return strconv.AppendInt(append(b, ':'), int64(w.Port), 10)
}

// appendURL appends the canonical URL.
func (w *Web) appendURL(b []byte, r resource) []byte {
	b = append(b, "http://"...)
	b = w.appendPort(w.appendHost(b, r))
	return w.appendTarget(b, r)
}

// appendTarget appends path and query of the canonical URL.
func (w *Web) appendTarget(b []byte, r resource) []byte {
	number := func(before string, n int32, after string) []byte {
		b = append(b, before...)
		b = strconv.AppendInt(b, int64(n), 10)
		return append(b, after...)
	}
	switch r.kind {
	case kindPage:
		if r.n == 0 {
			return append(b, '/')
		}
		shape := w.dice(saltShape, resource{host: origin(r.host), n: r.n})
		word := words[shape.below(len(words))]
		switch shape.below(8) {
		case 0:
			return number("/"+word+"/p", r.n, ".html")
		case 1:
			return number("/"+word+"/"+words[shape.below(len(words))]+"/p", r.n, ".html")
		case 2:
			return number("/caf%C3%A9/p", r.n, ".html")
		case 3:
			return number("/p", r.n, "/")
		case 4:
			return number("/list?p=", r.n, "&s="+word)
		}
		return number("/p", r.n, ".html")
	case kindListed:
		return number("/listed/", r.n, ".html")
	case kindFind:
		return number("/find?q="+finds[r.v].escaped+"&n=", r.n, "")
	case kindAsset:
		if w.Topics > 0 {
			return number("/a/"+w.fileWord(r)+"-", r.n, "."+extension(r.n))
		}
		return number("/a/", r.n, "."+extension(r.n))
	case kindRedirect:
		return number("/r/", r.n, "")
	case kindMissing:
		return number("/gone/", r.n, ".html")
	case kindError:
		return number("/error/", r.n, "")
	case kindGuarded:
		g := guards[r.v]
		return number(g.before, r.n, g.after)
	case kindCalendar:
		month := r.n + 11 // months since January of the year before the first
		b = number("/cal/", firstYear-1+month/12, "/")
		return append(b, byte('0'+(month%12+1)/10), byte('0'+(month%12+1)%10))
	case kindSession:
		b = number("/shop/", r.n, "?sid=")
		return append(b, w.sessionID(r.host, r.v)...)
	case kindSitemap:
		switch {
		case r.n == 0:
			return append(b, "/sitemap.xml"...)
		case r.n%2 == 0:
			return number("/sitemap-", r.n, ".xml")
		}
		return number("/sitemap-", r.n, ".xml.gz")
	case kindDeep:
		return number("/deep/", r.n, "/")
	case kindAlmanac:
		return number("/almanac/", r.n, ".html")
	case kindEndless:
		return number("/endless/"+endlessNames[r.v]+"/", r.n, "")
	case kindMenu:
		return appendMenuPath(append(b, menuRoot...), r.n)
	case kindWall:
		return number("/wall/"+wallNames[r.v]+"/", r.n, "")
	}
	return append(b, '/')
}

// sessionID is 16 hex digits.
func (w *Web) sessionID(host, v int32) string {
	d := w.dice(saltSession, resource{host: host, v: v})
	s := strconv.FormatUint(d.roll(), 16)
	return "0000000000000000"[len(s):] + s
}

// parseHost reads a Host header or name, in any case, with or without a port.
// It accepts any port: behind one address a port says nothing.
func (w *Web) parseHost(s string) (int32, bool) {
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		s = s[:i]
	}
	if len(s) <= len(Suffix) || !strings.EqualFold(s[len(s)-len(Suffix):], Suffix) {
		return 0, false
	}
	s = s[:len(s)-len(Suffix)]
	const idn = "xn--bcher-kva."
	long := len(s) > len(idn) && strings.EqualFold(s[:len(idn)], idn)
	if long {
		s = s[len(idn):]
	}
	if s == "" || s[0]|0x20 != 'h' {
		return 0, false
	}
	n, ok := number(s[1:])
	if !ok || n >= w.Hosts || long != (position(int32(n)) == posIDN) {
		return 0, false
	}
	return int32(n), true
}

// number reads a decimal without leading zeros, below 2^31.
func number(s string) (int, bool) {
	if s == "" || len(s) > 10 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	n := int64(0)
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return int(n), n < 1<<31
}

// resolve finds what a request target means. It guesses from the shape, then
// holds the guess against the one true spelling, so that a target which is not
// canonical is a 404.
func (w *Web) resolve(host int32, target string) resource {
	r := w.guess(host, target)
	if r.kind != kindUnknown && r.n < w.count(host, r.kind) && r.v < variants(r.kind) {
		var spelled [128]byte
		if string(w.appendTarget(spelled[:0], r)) == target {
			return r
		}
	}
	return resource{host: host, kind: kindUnknown}
}

func (w *Web) guess(host int32, target string) resource {
	r := resource{host: host, kind: kindUnknown}
	// digits takes the number after the last occurrence of before.
	digits := func(before string) int32 {
		i := strings.LastIndex(target, before)
		if i < 0 {
			return 0
		}
		s := target[i+len(before):]
		end := 0
		for end < len(s) && s[end] >= '0' && s[end] <= '9' {
			end++
		}
		n, ok := number(s[:end])
		if !ok {
			return 1<<31 - 1
		}
		return int32(n)
	}
	is := func(prefix string) bool { return strings.HasPrefix(target, prefix) }
	switch {
	case target == "/":
		r.kind = kindPage
	case is("/listed/"):
		r.kind, r.n = kindListed, digits("/")
	case is("/find?q="):
		r.kind, r.n = kindFind, digits("&n=")
		for v := range finds {
			if strings.HasPrefix(target[len("/find?q="):], finds[v].escaped) {
				r.v = int32(v)
			}
		}
	case is("/a/"):
		r.kind, r.n = kindAsset, digits("/")
		if w.Topics > 0 {
			r.n = digits("-")
		}
	case is("/r/"):
		r.kind, r.n = kindRedirect, digits("/")
	case is("/gone/"):
		r.kind, r.n = kindMissing, digits("/")
	case is("/error/"):
		r.kind, r.n = kindError, digits("/")
	case is("/cal/"):
		if len(target) == len("/cal/2001/01") {
			year, _ := number(target[5:9])
			month := int(target[10]-'0')*10 + int(target[11]-'0')
			r.kind, r.n = kindCalendar, int32(max(0, (year-firstYear)*12+month))
		}
	case is("/shop/"):
		r.kind, r.n = kindSession, digits("/shop/")
		for v := range int32(sessions + 1) {
			if strings.HasSuffix(target, w.sessionID(host, v)) {
				r.v = v
			}
		}
	case is("/sitemap.xml"):
		r.kind = kindSitemap
	case is("/sitemap-"):
		r.kind, r.n = kindSitemap, digits("-")
	case is("/deep/"):
		r.kind, r.n = kindDeep, digits("/deep/")
	case is("/almanac/"):
		r.kind, r.n = kindAlmanac, digits("/almanac/")
	case is("/endless/"):
		r.kind, r.n, r.v = kindEndless, digits("/"), variant(target, endlessNames[:])
	case is("/wall/"):
		r.kind, r.n, r.v = kindWall, digits("/"), variant(target, wallNames[:])
	case is(menuRoot):
		r.kind, r.n = kindMenu, menuNumber(target)
	default:
		for v, g := range guards {
			if is(g.before) && strings.HasSuffix(target, g.after) {
				n, ok := number(target[len(g.before) : len(target)-len(g.after)])
				if ok {
					return resource{host: host, kind: kindGuarded, n: int32(n), v: int32(v)}
				}
			}
		}
		r.kind = kindPage
		if is("/list?") {
			r.n = digits("?p=")
		} else {
			r.n = digits("/p")
		}
	}
	return r
}
