package canon

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// SURT returns the Sort-friendly URI Reordering Transform of a canonical URL, in the
// form of Heritrix: the host's labels in reverse order, so that a domain's URLs lie
// together, and lists of prefixes say what a crawl is of.
// "http://www.example.com:8080/a?b" gives "http://(com,example,www,:8080)/a?b". An
// IPv4 address is not reversed. Heritrix goes on to put all in lower case; this does
// not, for paths that differ in case are different pages.
func SURT(canonical string) string {
	scheme, host, rest := Split(canonical)
	name, port := SplitPort(host)
	if port != "" {
		port = ":" + port
	}
	if strings.HasPrefix(name, "[") || !isAddr(name) {
		name = reversed(name) + ","
	}
	return scheme + "://(" + name + port + ")" + rest
}

func reversed(host string) string {
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ",")
}

// CDXKey returns the key by which CDX and CDXJ indexes have a URL: what the Python
// package surt 0.3 makes of it, which pywb, cdxj-indexer and Common Crawl use.
// "https://www.Example.com/A/?b&a" gives "com,example)/a?a&b".
//
// It takes away more than the canonical form does, so that those who ask need not know
// the URL exactly: the scheme, "www.", session ids, the case of letters, the order of
// arguments, empty segments, the last "/", escapes of escapes. Here and there it goes
// by pieces of text, not by arguments and segments; that is kept, or look-ups would
// miss. URLs of other schemes are taken as URLs of http; where no authority is, scheme and rest are kept, in lower
// case (mailto:someone@example.com). "" gives "-".
func CDXKey(s string) string {
	u, host, err := Options{MaxURL: 4*len(s) + DefaultMaxURL}.URL(s)
	if err != nil {
		return otherKey(s)
	}
	p := PartsOf(u)
	name, port := SplitPort(host)
	if i := strings.IndexByte(name, '.'); i >= 0 && strings.HasPrefix(name, "www") && strings.Trim(name[3:i], "0123456789") == "" {
		name = name[i+1:]
	}
	if port != "" {
		port = ":" + port
	}
	path := cdxPath(unescapeAll(u[p.Path:p.Query]))
	query := ""
	if p.Query < len(u) {
		query = cdxQuery(unescapeAll(u[p.Query+1:]))
	}
	return reversed(strings.Trim(name, "[]")) + port + ")" + path + query
}

// otherKey is CDXKey of what is no URL of a scheme that is crawled.
func otherKey(s string) string {
	s = strings.TrimSpace(s)
	scheme, rest, ok := strings.Cut(s, ":")
	switch {
	case s == "":
		return "-"
	case strings.HasPrefix(s, "filedesc"):
		return strings.ReplaceAll(s, " ", "%20") // a line's parts stand between spaces
	case ok && strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///") && !strings.EqualFold(scheme, "http"):
		if _, _, err := (Options{MaxURL: 4*len(s) + DefaultMaxURL}).URL("http:" + rest); err == nil {
			return CDXKey("http:" + rest)
		}
	}
	if strings.HasPrefix(rest, "//") {
		s = scheme + ":/" + strings.TrimLeft(rest, "/")
	}
	s, _, _ = strings.Cut(s, "#")
	return strings.TrimSuffix(cdxEscape(unescapeAll(s)), "/")
}

// unescapeAll decodes escapes until there are none, also those that decoding makes. An
// escape begins with the only "%" in it, so that the order makes no difference.
func unescapeAll(s string) []byte {
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		b = append(b, s[i])
		for n := len(b) - 3; n >= 0 && b[n] == '%'; n = len(b) - 3 {
			v := unhex(b[n+1])<<4 | unhex(b[n+2])
			if v < 0 {
				break
			}
			b = append(b[:n], byte(v))
		}
	}
	return b
}

// cdxEscape escapes what does not print, space, "%" and "#", and puts all in lower case.
func cdxEscape(b []byte) string {
	const hex = "0123456789abcdef"
	var out strings.Builder
	for _, c := range b {
		switch {
		case c <= ' ' || c >= 0x7f || c == '%' || c == '#':
			out.WriteByte('%')
			out.WriteByte(hex[c>>4])
			out.WriteByte(hex[c&15])
		case 'A' <= c && c <= 'Z':
			out.WriteByte(c | 0x20)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// aspSession is a segment in which ASP.NET keeps a session id.
var aspSession = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(.*/)\((?:[0-9a-z]{24}|(?:[a-z]\([0-9a-z]{24}\))+)\)/([^?]+\.aspx.*)$`)
})

func cdxPath(path []byte) string {
	var kept [][]byte
	segments := bytes.Split(path[1:], []byte("/"))
	for i, s := range segments {
		switch {
		case string(s) == "..":
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			} else {
				kept = append(kept, s)
			}
		case string(s) == ".", len(s) == 0 && i < len(segments)-1:
		default:
			kept = append(kept, s)
		}
	}
	out := cdxEscape(append([]byte("/"), bytes.Join(kept, []byte("/"))...))
	if m := aspSession().FindStringSubmatch(out); m != nil {
		out = m[1] + m[2]
	}
	if len(out) > 1 {
		out = strings.TrimSuffix(out, "/")
	}
	return out
}

// cdxSessions match session ids in a query. The last match is cut out with the "&"
// behind it. A match need not be a whole argument: "xsid=…" leaves an "x".
var cdxSessions = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`(?is)^(.*)jsessionid=[0-9a-z]{32}(?:&(.*))?$`),
		regexp.MustCompile(`(?is)^(.*)phpsessid=[0-9a-z]{32}(?:&(.*))?$`),
		regexp.MustCompile(`(?is)^(.*)sid=[0-9a-z]{32}(?:&(.*))?$`),
		regexp.MustCompile(`(?is)^(.*)aspsessionid[a-z]{8}=[a-z]{24}(?:&(.*))?$`),
		regexp.MustCompile(`(?is)^(.*)cfid=[^&]+&cftoken=[^&]+(?:&(.*))?$`),
	}
})

// cdxQuery returns the query with its "?", or nothing.
func cdxQuery(query []byte) string {
	q := cdxEscape(query)
	for _, session := range cdxSessions() {
		if m := session.FindStringSubmatch(q); m != nil {
			q = m[1] + m[2]
		}
	}
	if q == "" {
		return ""
	}
	sorted := []byte(q)
	sortArguments(sorted)
	return "?" + string(sorted)
}
