package canon

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Rules take away from canonical URLs what often makes no difference to the server.
// They guess, and so are chosen by a crawl: for the URL itself, which is then fetched as
// the rules leave it, or for its key, where it is fetched as it was found first and the
// URL-seen test alone takes URLs for one. They may be combined.
//
// The host that they leave depends on the host alone, so that the URLs of a host stay
// together in the order of keys, beside the URLs of its "www." namesake.
type Rules uint8

// The rules. Arguments of a query stand between "&", parameters of a path behind ";".
// Names count in any case of letters.
const (
	// SessionIDs drops the arguments and parameters jsessionid, phpsessid and
	// aspsessionid…, an argument sid of 32 letters and digits, and the arguments cfid
	// and cftoken where both are there. Heritrix's rules StripSessionIDs and
	// StripSessionCFIDs mean the same ones, but by pieces of text instead of whole
	// arguments, and jsessionid and phpsessid of 32 characters only.
	SessionIDs Rules = 1 << iota
	// WWW drops "www.", with digits too (www2.), as long as a dot is left in the host.
	WWW
	// QueryOrder puts the arguments of the query in the order of their names, then of
	// their values.
	QueryOrder
	// Tracking drops arguments by which senders of links recognise visitors: those
	// that Trackers lists.
	Tracking
	// TrailingSlash drops "/" at the end of a path, but the path "/".
	TrailingSlash

	AllRules = SessionIDs | WWW | QueryOrder | Tracking | TrailingSlash
)

// ruleNames are in the order of the constants.
var ruleNames = []string{"session-ids", "www", "query-order", "tracking", "trailing-slash"}

// ParseRules reads a list of rules by name: session-ids, www, query-order, tracking,
// trailing-slash.
func ParseRules(names []string) (Rules, error) {
	var r Rules
	for _, name := range names {
		i := slices.Index(ruleNames, name)
		if i < 0 {
			return 0, fmt.Errorf("%q, want %s", name, strings.Join(ruleNames, ", "))
		}
		r |= 1 << i
	}
	return r, nil
}

// String lists the rules by name, with commas between.
func (r Rules) String() string {
	var names []string
	for i, name := range ruleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Trackers are the names of arguments that the rule Tracking drops, in lower case and in
// order. One that ends with "*" stands for all that begin like it.
var Trackers = []string{
	"__hsfp", "__hssc", "__hstc", "_ga", "_gl", "_hsenc", "_hsmi", "_openstat",
	"dclid", "epik", "fbclid", "gbraid", "gclid", "gclsrc", "hsctatracking", "igsh", "igshid",
	"li_fat_id", "mc_cid", "mc_eid", "mkt_tok", "ml_subscriber", "ml_subscriber_hash",
	"msclkid", "mtm_*", "oly_anon_id", "oly_enc_id", "pk_campaign", "pk_keyword", "pk_kwd",
	"rb_clickid", "s_cid", "srsltid", "ttclid", "twclid", "utm_*", "vero_conv", "vero_id",
	"wbraid", "wickedid", "yclid", "ysclid",
}

// reduce applies the rules to a canonical URL, in place: no rule makes it longer, so
// that what is written never overtakes what is read.
func (r Rules) reduce(u []byte, p Parts) ([]byte, Parts) {
	if r == 0 {
		return u, p
	}
	host, path, query := u[p.Host:p.Path], u[p.Path:p.Query], u[p.Query:]
	out := u[:p.Host]
	if r&WWW != 0 {
		host = withoutWWW(host)
	}
	out = append(out, host...)
	p.Path = len(out)
	if r&SessionIDs != 0 && bytes.IndexByte(path, ';') >= 0 {
		out = appendPathWithoutSessions(out, path)
	} else {
		out = append(out, path...)
	}
	for r&TrailingSlash != 0 && len(out) > p.Path+1 && out[len(out)-1] == '/' {
		out = out[:len(out)-1]
	}
	p.Query = len(out)
	if r&(SessionIDs|Tracking) != 0 && len(query) > 0 {
		out = r.appendQuery(out, query)
	} else {
		out = append(out, query...)
	}
	if r&QueryOrder != 0 && len(out) > p.Query {
		sortArguments(out[p.Query+1:])
	}
	return out, p
}

func withoutWWW(host []byte) []byte {
	for bytes.HasPrefix(host, []byte("www")) {
		rest := bytes.TrimLeft(host[3:], "0123456789")
		if len(rest) == 0 || rest[0] != '.' || bytes.IndexByte(rest[1:], '.') < 0 {
			break
		}
		host = rest[1:]
	}
	return host
}

// appendPathWithoutSessions appends the path without session ids.
func appendPathWithoutSessions(out, path []byte) []byte {
	path = path[1:]
	for more := true; more; {
		var segment []byte
		segment, path, more = bytes.Cut(path, []byte("/"))
		out = append(out, '/')
		name, params, found := bytes.Cut(segment, []byte(";"))
		if string(name) == "." || string(name) == ".." {
			out = append(out, segment...) // alone the name would be a dot segment
			continue
		}
		out = append(out, name...)
		for found {
			var param []byte
			param, params, found = bytes.Cut(params, []byte(";"))
			if !isSession(param) {
				out = append(append(out, ';'), param...)
			}
		}
	}
	return out
}

// appendQuery appends the query, its "?" included, without the arguments that the
// rules drop. If none is left the "?" goes too.
func (r Rules) appendQuery(out, query []byte) []byte {
	coldFusion := r&SessionIDs != 0 && hasArgument(query[1:], "cfid") && hasArgument(query[1:], "cftoken")
	next, rest := byte('?'), query[1:]
	for more := true; more; {
		var arg []byte
		switch arg, rest, more = bytes.Cut(rest, []byte("&")); {
		case r&SessionIDs != 0 && isSession(arg):
		case coldFusion && (named(arg, "cfid") || named(arg, "cftoken")):
		case r&Tracking != 0 && isTracker(arg):
		default:
			out = append(append(out, next), arg...)
			next = '&'
		}
	}
	return out
}

// sortArguments sorts the arguments of a query, without its "?", in place.
func sortArguments(query []byte) {
	type span struct{ from, to int }
	var room [32]span
	args := room[:0]
	for from := 0; from <= len(query); {
		n := bytes.IndexByte(query[from:], '&')
		if n < 0 {
			n = len(query) - from
		}
		args = append(args, span{from, from + n})
		from += n + 1
	}
	order := func(a, b span) int { return compareArguments(query[a.from:a.to], query[b.from:b.to]) }
	if slices.IsSortedFunc(args, order) {
		return
	}
	slices.SortFunc(args, order)
	sorted := make([]byte, 0, len(query)+1)
	for _, a := range args {
		sorted = append(append(sorted, query[a.from:a.to]...), '&')
	}
	copy(query, sorted)
}

// compareArguments compares by name, then by value; no value comes before an empty one.
func compareArguments(a, b []byte) int {
	nameA, _, _ := bytes.Cut(a, []byte("="))
	nameB, _, _ := bytes.Cut(b, []byte("="))
	if c := bytes.Compare(nameA, nameB); c != 0 {
		return c
	}
	return bytes.Compare(a[len(nameA):], b[len(nameB):])
}

// named reports whether an argument has that name, in lower case.
func named(arg []byte, want string) bool {
	return len(arg) >= len(want) && (len(arg) == len(want) || arg[len(want)] == '=') &&
		bytes.EqualFold(arg[:len(want)], []byte(want))
}

func hasArgument(query []byte, want string) bool {
	for more := true; more; {
		var arg []byte
		arg, query, more = bytes.Cut(query, []byte("&"))
		if named(arg, want) {
			return true
		}
	}
	return false
}

func isSession(arg []byte) bool {
	const asp = "aspsessionid" // and letters by which the server tells its applications apart
	return named(arg, "jsessionid") || named(arg, "phpsessid") ||
		len(arg) >= len(asp) && bytes.EqualFold(arg[:len(asp)], []byte(asp)) ||
		named(arg, "sid") && isHash(arg[len("sid"):])
}

// isHash reports whether value is "=" and 32 letters and digits.
func isHash(value []byte) bool {
	if len(value) != 33 {
		return false
	}
	for _, c := range value[1:] {
		if !unreserved(c) || bytes.IndexByte([]byte("-._~"), c) >= 0 {
			return false
		}
	}
	return true
}

// trackers are the names of Trackers, and trackerPrefixes what is before "*".
var trackers, trackerPrefixes = func() (map[string]bool, []string) {
	names, prefixes := make(map[string]bool), []string(nil)
	for _, t := range Trackers {
		if prefix, ok := strings.CutSuffix(t, "*"); ok {
			prefixes = append(prefixes, prefix)
		} else {
			names[t] = true
		}
	}
	return names, prefixes
}()

func isTracker(arg []byte) bool {
	var room [24]byte // longer than any name of Trackers: a truncated name then matches none
	name := room[:0]
	for _, c := range arg[:min(len(arg), len(room))] {
		if c == '=' {
			break
		}
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		name = append(name, c)
	}
	return trackers[string(name)] ||
		slices.ContainsFunc(trackerPrefixes, func(p string) bool { return bytes.HasPrefix(name, []byte(p)) })
}
