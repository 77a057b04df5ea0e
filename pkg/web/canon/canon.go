// Package canon gives every URL one spelling, so that the URL-seen test may
// compare bytes.
//
// A URL is parsed by the WHATWG URL Standard. Then
//
//   - fragment, user name, password and default port go;
//   - the host is lower-case IDNA ASCII (A-labels) without trailing dot;
//   - dot segments are resolved and an empty path is "/";
//   - percent-encoding has upper-case digits, and encodes no unreserved
//     character (RFC 3986 section 2.3);
//   - bytes that are not UTF-8 are percent-encoded as they stand.
//
// What servers may tell apart stays: letter case of paths, order of queries,
// "www.", an empty query's "?", empty path segments. A crawl may choose Rules that
// take some of that away, from the URLs or from their keys alone.
//
// # Keys
//
// Options.Key is the URL checksum by which the URL-seen test knows a URL (url_key in
// records): the checksum of what Options.KeyRules leave of it. All that make keys in a crawl
// must have the same rules, so these are settings of the crawl. The key's high bits
// come from the host that the rules leave, which depends on the host alone: a host's
// URLs stay in one part of the key space, as sharding and batches want it, and share it
// with the URLs of its "www." namesakes. Where no rule is chosen the key is
// fingerprint.URLKey of host and URL.
//
// # Speed
//
// References as they mostly stand on pages take a fast path (fast.go), which makes
// their canonical form without parsing them; all others the parser of
// nlnwa/whatwg-url. Both give the same, or the fast path declines.
//
// # Invariants
//
//   - The canonical form of a canonical URL is itself, whatever the rules.
//   - Two URLs with the same text for their keys have the same key.
//   - A canonical URL is ASCII without spaces and control characters, and
//     not longer than Options.MaxURL.
//   - Time and memory are linear in the input, and at most 4 × MaxURL
//     bytes of it are read; sorting a query takes n log n.
//
// All functions are safe for many goroutines, and but for a Base, which remembers
// what the parser made of it, pure.
package canon

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	parseerr "github.com/nlnwa/whatwg-url/errors"
	"github.com/nlnwa/whatwg-url/url"
)

// DefaultMaxURL is the length limit, in bytes, of a canonical URL. It is what
// browsers and servers have agreed on in practice for longest.
const DefaultMaxURL = 2083

// Reason says why a string has no canonical form. It is the reason under which
// a stage's ledger count it.
type Reason string

// The reasons.
const (
	ReasonInvalid Reason = "invalid"  // not a URL by the WHATWG standard, or relative without a base
	ReasonScheme  Reason = "scheme"   // a scheme that is not crawled: mailto, javascript, data, …
	ReasonTooLong Reason = "too-long" // longer than Options.MaxURL
)

// Error is the one error type of this package.
type Error struct {
	Reason Reason
	Detail string // for people; may be empty
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return string(e.Reason)
	}
	return string(e.Reason) + ": " + e.Detail
}

// ReasonOf returns the reason in err's chain, or "".
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// Options are the limits, and a crawl's rules. The zero value has the defaults.
type Options struct {
	MaxURL   int      // bytes of a canonical URL; 0: DefaultMaxURL
	Schemes  *Schemes // schemes accepted; nil: http, https, ftp and gopher
	URLRules Rules    // by which the URL itself is rewritten
	KeyRules Rules    // by which Key alone is made
}

// URL returns the canonical form of an absolute URL and its host: lower-case,
// followed by ":port" where that is not the scheme's default. The error is an
// *Error.
func URL(s string) (canonical, host string, err error) { return Options{}.URL(s) }

// URL is the function URL with these limits.
func (o Options) URL(s string) (canonical, host string, err error) { return o.resolve(nil, s) }

// Resolve returns the canonical form of ref as it stands in a document at base
// (RFC 3986 section 5, by WHATWG's rules), with these limits. The error is an *Error.
func (o Options) Resolve(base, ref string) (canonical, host string, err error) {
	b, err := o.Base(base)
	if err != nil {
		return "", "", err
	}
	return b.Resolve(ref)
}

// Base is a document's base URL, read once for all its links.
type Base struct {
	opt Options

	// For the fast path; plain is "" where the base has no canonical form.
	plain string // canonical, before the rules of Options.URLRules
	parts Parts
	dir   int    // behind the last "/" of the path
	port  string // the scheme's default

	// For the parser; made of plain when it is asked for, unless plain was made of it.
	url   *url.Url
	parse sync.Once
}

// Base reads a base URL: an absolute URL of any scheme, not longer than
// 4 × MaxURL. The error is an *Error.
func (o Options) Base(s string) (*Base, error) {
	var room [256]byte
	if plain, p, ok := o.appendFast(room[:0], nil, bytesOf(s)); ok {
		return o.plainBase(plain, p), nil
	}
	u, err := o.parse(nil, s)
	if err != nil {
		return nil, err
	}
	return o.parsedBase(u), nil
}

func (o *Options) plainBase(canonical []byte, p Parts) *Base {
	b := &Base{opt: *o, plain: string(canonical), parts: p}
	b.dir = strings.LastIndexByte(b.plain[:p.Query], '/') + 1
	b.port = o.schemes().ports[b.plain[:p.Host-len("://")]]
	return b
}

func (o *Options) parsedBase(u *url.Url) *Base {
	b := &Base{opt: *o}
	if o.accepts(u.Scheme()) {
		if plain, p, err := o.print(nil, u); err == nil {
			b = o.plainBase(plain, p)
		}
	}
	b.url = u
	return b
}

// String is the base as a URL that Options.Base reads as the same base.
func (b *Base) String() string {
	if b.plain != "" {
		return b.plain
	}
	return b.parsed().Href(true)
}

// parsed returns the parser's form of the base. It is made from the canonical URL: references resolve as with the URL
// itself, except for what canonical form drops anyway.
func (b *Base) parsed() *url.Url {
	b.parse.Do(func() {
		if b.url != nil {
			return
		}
		u, err := b.opt.schemes().parser.Parse(b.plain)
		if err != nil {
			panic(fmt.Sprintf("canonical URL %q: %v", b.plain, err))
		}
		b.url = u
	})
	return b.url
}

// Base returns the base that a document at b gets by declaring href as its base
// (HTML's base element). A data or javascript URL cannot be one.
func (b *Base) Base(href string) (*Base, error) {
	u, err := b.opt.parse(b.parsed(), href)
	if err != nil {
		return nil, err
	}
	if u.Scheme() == "data" || u.Scheme() == "javascript" {
		return nil, &Error{ReasonScheme, u.Scheme()}
	}
	return b.opt.parsedBase(u), nil
}

// Resolve returns the canonical form and the host of ref as it stands in a
// document with this base. The error is an *Error.
func (b *Base) Resolve(ref string) (canonical, host string, err error) {
	return b.opt.resolve(b, ref)
}

// AppendResolve appends to dst the canonical form of ref as it stands in a
// document with this base, and says where its parts begin. Most references cost
// no allocation, if dst has room. If there is an error, an *Error, dst comes back as it was.
func (b *Base) AppendResolve(dst, ref []byte) ([]byte, Parts, error) {
	return b.opt.appendResolve(dst, b, ref)
}

func (o Options) maxURL() int {
	if o.MaxURL > 0 {
		return o.MaxURL
	}
	return DefaultMaxURL
}

func (o Options) schemes() *Schemes {
	if o.Schemes == nil {
		return usual
	}
	return o.Schemes
}

// accepts reports whether URLs of the scheme, lower-case, are crawled.
func (o Options) accepts(scheme string) bool { return o.Schemes.Has(scheme) }

// Precheck refuses, at a glance and without a base, what Resolve would refuse
// for its scheme or for its length: a page may hold megabytes in data URLs that
// are not worth keeping. The error is an *Error.
func (o Options) Precheck(ref string) error { return o.precheck(bytesOf(ref)) }

func (o *Options) precheck(ref []byte) error {
	ref = trim(ref)
	if n := schemeLen(ref[:min(len(ref), 64)]); n > 0 && o.schemes().ports[string(ref[:n])] == "" {
		if err := often[string(ref[:n])]; err != nil {
			return err
		}
		if scheme := strings.ToLower(string(ref[:n])); !o.accepts(scheme) {
			return &Error{ReasonScheme, scheme}
		}
	}
	if i := bytes.IndexByte(ref, '#'); i >= 0 {
		ref = ref[:i]
	}
	if len(ref) > 4*o.maxURL() {
		return errTooLong
	}
	return nil
}

// The errors that pages are full of cost nothing.
var (
	errTooLong = &Error{Reason: ReasonTooLong}
	often      = make(map[string]*Error)
)

func init() {
	for _, scheme := range []string{"javascript", "mailto", "data", "tel", "about"} {
		often[scheme] = &Error{ReasonScheme, scheme}
	}
}

// bytesOf returns the bytes of s, which must not be written to, without copying them.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// cut drops outer spaces and the fragment's text, and applies the input limit.
func (o *Options) cut(s string) (string, error) {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	// The first # begins the fragment in whatever state the parser is. It stays,
	// or the parser would trim the spaces before it.
	if i := strings.IndexByte(s, '#'); i >= 0 {
		s = s[:i+1]
	}
	if len(s) > 4*o.maxURL()+1 {
		return "", errTooLong
	}
	return s, nil
}

// parse applies the input limit and then WHATWG's parser. The fragment is gone
// afterwards.
func (o Options) parse(base *url.Url, s string) (*url.Url, error) {
	s, err := o.cut(s)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(s, "\t\n\r") { // which the parser skips, anywhere
		s = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
	}
	authority, err := checkAuthority(s)
	if err != nil {
		return nil, err
	}
	s = escapeInvalid(s)
	parser := o.schemes().parser
	var u *url.Url
	if base == nil {
		u, err = parser.Parse(s)
	} else {
		u, err = parser.BasicParser(s, base, nil, url.NoState)
	}
	if err != nil {
		return nil, &Error{ReasonInvalid, detailOf(err)}
	}
	if u.IsIPv4() && authority != "" && signed(parser, u, authority) {
		return nil, &Error{ReasonInvalid, "a bad IPv4 address"}
	}
	return u, nil
}

// signed reports whether there is a sign in the host that the parser took for u's IPv4
// address: it reads "-0" and "+0" as numbers, the standard does not. A sign may be escaped,
// or a character that IDNA makes "-" or "+"; before a name it is left as it is. Where
// authority is not where the address came from, but part of a path, the answer is no.
func signed(parser url.Parser, u *url.Url, authority string) bool {
	host, _ := SplitPort(authority)
	if v, err := parser.Parse("http://" + host); err != nil || v.Hostname() != u.Hostname() {
		return false
	}
	v, err := parser.Parse("http://" + strings.TrimRight(host, ".\u3002\uff0e\uff61") + ".name")
	return err != nil || strings.ContainsAny(v.Hostname(), "-+")
}

// checkAuthority refuses what the parser and Punycode take quadratic time for, and no
// server has: long user names, and labels of the host that cannot be in the DNS. It
// returns host and port, "" if s begins with a path.
func checkAuthority(s string) (authority string, err error) {
	n := schemeLen(bytesOf(s))
	if n > 0 {
		n++
	}
	rest := strings.TrimLeft(s[n:], `/\`)
	if n == 0 && len(s)-len(rest) < 2 {
		return "", nil // a path
	}
	if i := strings.IndexAny(rest, `/\?#`); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, '@'); i > 255 {
		return "", &Error{ReasonInvalid, "a user name longer than 255 bytes"}
	} else if i >= 0 {
		rest = rest[i+1:]
	}
	authority = rest
	if strings.IndexByte(rest, '%') >= 0 && len(rest) > 512 {
		return "", &Error{ReasonInvalid, "a host that is no domain name"}
	}
	for len(rest) > 63 {
		i := strings.IndexAny(rest, ".\u3002\uff0e\uff61") // the dots of IDNA
		label := rest
		if i >= 0 {
			label = rest[:i]
		}
		if runes := utf8.RuneCountInString(label); runes > 63 && runes < len(label) {
			return "", &Error{ReasonInvalid, "a host that is no domain name"}
		}
		if i < 0 {
			break
		}
		rest = rest[i+1:]
	}
	return authority, nil
}

// parseErrors says shortly what the parser says at length. Kinds of the same part
// of a URL that are not here are named after the part.
var parseErrors = map[parseerr.ErrorType]string{
	parseerr.MissingSchemeNonRelativeURL: "no scheme such as http:",
	parseerr.HostMissing:                 "no host",
	parseerr.InvalidCredentials:          "no host behind the user name",
	parseerr.PortOutOfRange:              "a port above 65535",
	parseerr.PortInvalid:                 "a port that is no number",
	parseerr.DomainInvalidCodePoint:      "a character in the host that no host has",
	parseerr.DomainToASCII:               "a host that is no domain name",
	parseerr.IPv4TooManyParts:            "a bad IPv4 address",
	parseerr.IPv4NonNumericPart:          "a bad IPv4 address",
	parseerr.IPv4OutOfRangePart:          "a bad IPv4 address",
	parseerr.IPv6Unclosed:                "an IPv6 address without ]",
}

func detailOf(err error) string {
	t := parseerr.Type(err)
	if d, ok := parseErrors[t]; ok {
		return d
	}
	if strings.Contains(string(t), "IPv6 address") {
		return "a bad IPv6 address"
	}
	return "not a URL"
}

func (o Options) resolve(base *Base, ref string) (canonical, host string, err error) {
	var room [256]byte
	out, p, err := o.appendResolve(room[:0], base, bytesOf(ref))
	if err != nil {
		return "", "", err
	}
	canonical = string(out)
	return canonical, canonical[p.Host:p.Path], nil
}

func (o *Options) appendResolve(dst []byte, base *Base, ref []byte) ([]byte, Parts, error) {
	start := len(dst)
	out, p, ok := o.appendFast(dst, base, ref)
	if !ok {
		err := o.precheck(ref)
		if err != nil {
			return dst, Parts{}, err
		}
		if out, p, err = o.appendParsed(dst, base, string(ref)); err != nil {
			return dst, Parts{}, err
		}
	}
	if o.URLRules != 0 {
		var short []byte
		short, p = o.URLRules.reduce(out[start:], p)
		out = out[:start+len(short)]
	}
	if len(out)-start > o.maxURL() {
		return dst, Parts{}, errTooLong
	}
	return out, p, nil
}

// appendParsed is appendFast by the parser: it takes whatever has a canonical form,
// however long.
func (o *Options) appendParsed(dst []byte, base *Base, ref string) ([]byte, Parts, error) {
	var on *url.Url
	if base != nil {
		on = base.parsed()
	}
	u, err := o.parse(on, ref)
	if err != nil {
		return dst, Parts{}, err
	}
	if !o.accepts(u.Scheme()) {
		return dst, Parts{}, &Error{ReasonScheme, u.Scheme()}
	}
	return o.print(dst, u)
}

// print appends the canonical form of what the parser read, before the rules of
// URLRules, and takes user name and password from u.
func (o *Options) print(dst []byte, u *url.Url) ([]byte, Parts, error) {
	u.SetUsername("")
	u.SetPassword("")
	rest := u.Href(true)[len(u.Scheme())+len("://")+len(u.Host()):] // path and query
	host := strings.TrimSuffix(u.Hostname(), ".")
	if host == "" || host[0] == '.' || strings.Contains(host, "..") || host[len(host)-1] == '.' {
		return dst, Parts{}, &Error{ReasonInvalid, "the host has an empty label"}
	}
	start := len(dst)
	dst = append(append(dst, u.Scheme()...), "://"...)
	p := Parts{Host: len(dst) - start}
	dst = append(dst, host...)
	if port := u.Port(); port != "" {
		dst = append(append(dst, ':'), port...)
	}
	p.Path = len(dst) - start
	path, query, _ := strings.Cut(rest, "?")
	// The standard escapes "^" in paths since 2023, the parser does not yet.
	dst = append(dst, normalizeEscapes(strings.ReplaceAll(path, "^", "%5E"))...)
	p.Query = len(dst) - start
	if len(path) < len(rest) {
		dst = append(append(dst, '?'), normalizeEscapes(query)...)
	}
	return dst, p, nil
}

const upperHex = "0123456789ABCDEF"

// escapeInvalid percent-encodes the bytes of s that are not UTF-8, so that the
// server is sent the bytes that stood in the document.
func escapeInvalid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteByte('%')
			b.WriteByte(upperHex[s[i]>>4])
			b.WriteByte(upperHex[s[i]&15])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// normalizeEscapes gives escapes upper-case digits, and decodes the escapes of
// unreserved characters. A stray "%" stays as it is. A digit behind one is not
// decoded, where that would make a new escape ("%2%45" is not "%2E"), or the
// canonical form would have another canonical form. What is not a digit ends its
// reach, so that segments and arguments do not depend on their neighbours.
func normalizeEscapes(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	stray := -3 // where in b the last stray "%" is
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '%' {
			b = append(b, c)
			continue
		}
		if i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0 {
			stray = len(b)
			b = append(b, c)
			continue
		}
		v := byte(unhex(s[i+1])<<4 | unhex(s[i+2]))
		i += 2
		gap := len(b) - stray
		if unhex(v) >= 0 && (gap == 1 || gap == 2 && unhex(b[stray+1]) >= 0) {
			b = append(b, '%', upperHex[v>>4], upperHex[v&15])
		} else {
			b = appendEscape(b, v)
		}
	}
	return string(b)
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}
