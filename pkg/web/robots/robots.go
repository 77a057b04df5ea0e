// Package robots answers whether a crawler may fetch a URL: the Robots Exclusion
// Protocol, RFC 9309, and where that is silent, what Google's parser does, since
// authors of robots.txt test against it.
//
// # Rules
//
//   - The groups with the agent's product token, in any case, are merged;
//     if there are none, the groups of "*" are.
//   - The longest pattern that matches decides, "allow" on a tie. "*" stands for
//     any bytes, "$" at a pattern's end for the end of the path. No match allows.
//   - Paths are compared as canonical URLs have them: percent-encoded, hex digits
//     in upper case. Patterns are brought into that form. Where RFC 9309 section
//     2.2.2 also decodes unreserved characters ("%7E" is "~"), Google's parser
//     does not; here a Disallow holds for both spellings, an Allow for its own.
//   - /robots.txt itself is always allowed.
//   - The first 500 KiB count. Of a longer file the line that is cut is left out.
//   - From Google: byte order marks, misspelt keys, a space for the colon, product
//     tokens that end at the first other character, and "/index.html" allowing
//     its folder.
//
// Parsing takes time linear in the file; matching a path takes time linear in the
// group's patterns.
//
// # Engines
//
// temoto/robotstxt can be chosen to compare. It is not the default, since it gives 488 of 545 verdicts of Google's parser:
// one error in a file drops the whole file, paths are not percent-encoded, and an Allow as long as a Disallow does not
// win. The tests ask it for a second opinion and name each way in which it differs; a difference without a name fails.
package robots

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BodyMax is how much of a robots.txt counts, in bytes (RFC 9309 section 2.5 asks
// for at least that).
const BodyMax = 500 << 10

// lineMax is where a line is cut, as Google's parser does it: eight times the
// longest URL that old browsers took.
const lineMax = 8 * 2083

// Rules is a whole robots.txt. It is read-only and safe for many goroutines.
type Rules struct {
	groups []group
	rules  []rule // of all groups

	// While parsing.
	open     bool            // the last group takes more user-agent lines
	size     int             // of the file
	patterns strings.Builder // those that are not as written, one after the other
}

// group is consecutive user-agent lines and what follows them.
type group struct {
	agents   []string // product tokens as written; "*" for all
	from, to int      // the rules of the group
	delay    time.Duration
}

// rule is one line. Its pattern is normalised; its length decides.
type rule struct {
	allow   bool
	pattern string
}

// Group is the part of a robots.txt that holds for one agent. It is read-only and
// safe for many goroutines.
type Group struct {
	rules []rule // longest first, allow before disallow
	delay time.Duration
}

// Parse reads a robots.txt. There are no errors: what cannot be understood does
// not count.
func Parse(body []byte) *Rules {
	if len(body) > BodyMax {
		body = body[:BodyMax]
		body = body[:bytes.LastIndexAny(body, "\r\n")+1]
	}
	most := 1 + bytes.Count(body, []byte{'\n'})
	if bytes.IndexByte(body, '%') >= 0 {
		most *= 2 // a rule may count in two spellings
	}
	r := &Rules{size: len(body), rules: make([]rule, 0, most)}
	for text := string(skipBOM(body)); text != ""; {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		for i := strings.IndexByte(line, '\r'); i >= 0; i = strings.IndexByte(line, '\r') {
			r.line(line[:i])
			line = line[i+1:]
		}
		r.line(line)
	}
	return r
}

// line takes one line in.
func (r *Rules) line(line string) {
	key, value, ok := directive(line)
	if !ok {
		return
	}
	kind := kindOf(key)
	if kind == keyAgent {
		if !r.open {
			r.groups = append(r.groups, group{from: len(r.rules), to: len(r.rules)})
			r.open = true
		}
		g := &r.groups[len(r.groups)-1]
		g.agents = append(g.agents, productToken(value))
		return
	}
	if len(r.groups) == 0 {
		return // before any user-agent: belongs to nobody
	}
	g := &r.groups[len(r.groups)-1]
	switch kind {
	case keyDelay:
		g.delay = max(g.delay, seconds(value))
	case keyAllow, keyDisallow:
		r.open = false
		if value != "" { // an empty pattern matches nothing
			r.add(kind == keyAllow, r.encode(value))
			g.to = len(r.rules)
		}
	}
}

// add puts a rule into the last group.
func (r *Rules) add(allow bool, pattern string) {
	r.rules = append(r.rules, rule{allow, pattern})
	if !allow {
		if bare, ok := r.decodeUnreserved(pattern); ok {
			r.rules = append(r.rules, rule{false, bare})
		}
		return
	}
	if i := strings.LastIndexByte(pattern, '/'); i >= 0 && strings.HasPrefix(pattern[i:], "/index.htm") {
		r.rules = append(r.rules, rule{true, pattern[:i+1] + "$"})
	}
}

// skipBOM drops a UTF-8 byte order mark, or the part of one that is there.
func skipBOM(b []byte) []byte {
	for _, c := range []byte("\xef\xbb\xbf") {
		if len(b) == 0 || b[0] != c {
			break
		}
		b = b[1:]
	}
	return b
}

// directive splits a line into key and value: at the colon, or where there is
// none, between its only two words.
func directive(line string) (key, value string, ok bool) {
	if len(line) > lineMax {
		line = line[:lineMax]
	}
	if i := strings.IndexByte(line, '#'); i >= 0 {
		line = line[:i]
	}
	line = trim(line)
	if key, value, ok = strings.Cut(line, ":"); !ok {
		i := strings.IndexAny(line, " \t")
		if i < 0 {
			return "", "", false
		}
		key, value = line[:i], trim(line[i:])
		if strings.ContainsAny(value, " \t") {
			return "", "", false
		}
	}
	key = trim(key)
	return key, trim(value), key != ""
}

// trim removes ASCII white space; a NUL counts as such.
func trim(s string) string {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == 0 }

type keyKind uint8

const (
	keyOther keyKind = iota
	keyAgent
	keyAllow
	keyDisallow
	keyDelay
)

// keys by how they begin: Google's parser takes "disallowed" for "disallow", and
// these misspellings.
var keys = []struct {
	begin string
	kind  keyKind
}{
	{"user-agent", keyAgent}, {"useragent", keyAgent}, {"user agent", keyAgent},
	{"allow", keyAllow},
	{"disallow", keyDisallow}, {"dissallow", keyDisallow}, {"dissalow", keyDisallow}, {"disalow", keyDisallow}, {"diasllow", keyDisallow}, {"disallaw", keyDisallow},
	{"crawl-delay", keyDelay},
}

func kindOf(key string) keyKind {
	for _, k := range keys {
		if k.begin[0] == key[0]|0x20 && len(key) >= len(k.begin) && strings.EqualFold(key[:len(k.begin)], k.begin) {
			return k.kind
		}
	}
	return keyOther
}

// productToken is the part of a user-agent value that counts: "*" alone or before
// a space, or letters, "-" and "_" (RFC 9309 section 2.2.1).
func productToken(s string) string {
	if s == "*" || strings.HasPrefix(s, "* ") || strings.HasPrefix(s, "*\t") {
		return "*"
	}
	for i := 0; i < len(s); i++ {
		if c := s[i] | 0x20; (c < 'a' || c > 'z') && s[i] != '-' && s[i] != '_' {
			return s[:i]
		}
	}
	return s
}

func seconds(s string) time.Duration {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0) {
		return 0
	}
	const most = 365 * 24 * 3600
	return time.Duration(min(f, most) * float64(time.Second))
}

// Group returns the rules for an agent, a product token such as "mercator".
func (r *Rules) Group(agent string) *Group {
	g := &Group{}
	parts, found := r.merge(g, agent)
	if !found {
		parts, _ = r.merge(g, "*")
	}
	g.rules = slices.Compact(sorted(parts))
	return g
}

// sorted returns rules by falling length, allow before disallow, else as they came.
// It counts, since hostile files have many rules.
func sorted(parts [][]rule) []rule {
	longest, n := 0, 0
	for _, rules := range parts {
		n += len(rules)
		for i := range rules {
			longest = max(longest, len(rules[i].pattern))
		}
	}
	rank := func(r *rule) int {
		n := 2 * (longest - len(r.pattern))
		if !r.allow {
			n++
		}
		return n
	}
	place := make([]int, 2*longest+3) // by rank: where its next rule goes
	for _, rules := range parts {
		for i := range rules {
			place[rank(&rules[i])+1]++
		}
	}
	for i := range place[1:] {
		place[i+1] += place[i]
	}
	all := make([]rule, n)
	for _, rules := range parts {
		for i := range rules {
			k := rank(&rules[i])
			all[place[k]] = rules[i]
			place[k]++
		}
	}
	return all
}

// merge returns the rules of the groups of an agent, and puts what else they say
// into the Group.
func (r *Rules) merge(into *Group, agent string) (parts [][]rule, found bool) {
	for i := range r.groups {
		g := &r.groups[i]
		if agent != "" && slices.ContainsFunc(g.agents, func(a string) bool { return strings.EqualFold(a, agent) }) {
			found = true
			parts = append(parts, r.rules[g.from:g.to])
			into.delay = max(into.delay, g.delay)
		}
	}
	return parts, found
}

// CrawlDelay returns the longest Crawl-delay of the agent's groups, 0 for none.
func (g *Group) CrawlDelay() time.Duration { return g.delay }

// Allowed reports whether the agent may fetch url: an absolute canonical URL, or its
// path and query.
func (g *Group) Allowed(url string) bool {
	path := pathOf(url)
	if path == "/robots.txt" {
		return true
	}
	for i := range g.rules {
		if matches(g.rules[i].pattern, path) {
			return g.rules[i].allow
		}
	}
	return true
}

// pathOf returns path and query of a URL, "/" if it has none.
func pathOf(url string) string {
	url, _, _ = strings.Cut(url, "#")
	if i := strings.Index(url, "://"); i >= 0 && !strings.ContainsAny(url[:i], "/?;") {
		url = url[i+3:]
	} else if strings.HasPrefix(url, "//") {
		url = url[2:]
	} else if strings.HasPrefix(url, "/") {
		return url
	}
	i := strings.IndexAny(url, "/?;")
	switch {
	case i < 0:
		return "/"
	case url[i] != '/':
		return "/" + url[i:]
	}
	return url[i:]
}

// matches reports whether the pattern matches the path from its start. Pieces
// between stars are taken at the first place where they fit, which finds a match
// if there is one, in time linear in the path.
func matches(pattern, path string) bool {
	anchored := strings.HasSuffix(pattern, "$")
	if anchored {
		pattern = pattern[:len(pattern)-1]
	}
	piece, rest, star := strings.Cut(pattern, "*")
	if !strings.HasPrefix(path, piece) {
		return false
	}
	path = path[len(piece):]
	for star {
		piece, rest, star = strings.Cut(rest, "*")
		if !star && anchored { // the last piece stands at the end
			return strings.HasSuffix(path, piece)
		}
		i := strings.Index(path, piece)
		if i < 0 {
			return false
		}
		path = path[i+len(piece):]
	}
	return !anchored || path == ""
}

const hexUpper = "0123456789ABCDEF"

// encode brings a pattern into the form of canonical URLs: bytes outside ASCII
// percent-encoded, hex digits in upper case.
func (r *Rules) encode(s string) string {
	i := 0
	for i < len(s) && s[i] < 0x80 {
		if s[i] == '%' {
			if hi, lo, ok := escape(s[i:]); ok && (s[i+1] != hexUpper[hi] || s[i+2] != hexUpper[lo]) {
				break
			}
		}
		i++
	}
	if i == len(s) {
		return s
	}
	out := append(make([]byte, 0, 256), s[:i]...)
	for ; i < len(s); i++ {
		c := s[i]
		if c >= 0x80 {
			out = append(out, '%', hexUpper[c>>4], hexUpper[c&15])
			continue
		}
		out = append(out, c)
		if c == '%' {
			if hi, lo, ok := escape(s[i:]); ok {
				out = append(out, hexUpper[hi], hexUpper[lo])
				i += 2
			}
		}
	}
	return r.keep(out)
}

// keep returns a pattern that was made, without memory of its own: a hostile file
// has very many.
func (r *Rules) keep(pattern []byte) string {
	if r.patterns.Cap() == 0 {
		r.patterns.Grow(r.size)
	}
	start := r.patterns.Len()
	r.patterns.Write(pattern)
	return r.patterns.String()[start:]
}

// decodeUnreserved makes encoded unreserved characters (RFC 3986 section 2.3) bare.
// It is not ok where there are none, nor where that makes another ("%4%31").
func (r *Rules) decodeUnreserved(s string) (bare string, ok bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, false
	}
	out := make([]byte, 0, 256)
	loose := false // a '%' that encodes nothing
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			hi, lo, encoded := escape(s[i:])
			loose = loose || !encoded
			if encoded && unreserved(hi<<4|lo) {
				c, ok = hi<<4|lo, true
				i += 2
			}
		}
		out = append(out, c)
	}
	if !ok || loose && hidesUnreserved(out) {
		return s, false
	}
	return r.keep(out), true
}

func hidesUnreserved(b []byte) bool {
	for i := range b {
		if hi, lo, ok := escape(string(b[i:min(i+3, len(b))])); ok && unreserved(hi<<4|lo) {
			return true
		}
	}
	return false
}

// escape reads the percent-encoded byte that s begins with.
func escape(s string) (hi, lo byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, 0, false
	}
	hi, lo = unhex(s[1]), unhex(s[2])
	return hi, lo, hi < 16 && lo < 16
}

func unhex(c byte) byte { return hexValue[c] }

// hexValue is the value of each hex digit, 16 for other bytes.
var hexValue = func() (t [256]byte) {
	for i := range t {
		t[i] = 16
	}
	for i := range hexUpper {
		t[hexUpper[i]], t[hexUpper[i]|0x20] = byte(i), byte(i)
	}
	return t
}()

func unreserved(c byte) bool { return isUnreserved[c] }

var isUnreserved = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") {
		t[c] = true
	}
	return t
}()
