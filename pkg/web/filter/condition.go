package filter

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mercator/pkg/web/canon"
)

// condition is a node of a parsed condition.
type condition interface{ holds(v *view) bool }

type (
	allOf []condition
	anyOf []condition
	not   struct{ condition }
)

func (a allOf) holds(v *view) bool {
	for _, x := range a {
		if !x.holds(v) {
			return false
		}
	}
	return true
}

func (a anyOf) holds(v *view) bool {
	for _, x := range a {
		if x.holds(v) {
			return true
		}
	}
	return false
}

func (n not) holds(v *view) bool { return !n.condition.holds(v) }

// leaf is a test.
type leaf struct {
	word   string
	suffix bool     // an argument is a public suffix
	names  []string // of a test of hosts without lists: it holds for these, or for what lies below
	text   string
	value  func(*view) string // text that the test looked at, for messages; nil: the URL
	test   func(*view) bool
}

func (l *leaf) holds(v *view) bool {
	yes := l.test(v)
	if v.trace != nil && v.asks < 0 && v.err == nil {
		v.trace(l, yes)
	}
	return yes
}

// answer of a program to a question.
type answer byte

const (
	unasked answer = iota
	answerWanted
	answerNo
	answerYes
)

// view is a candidate with what tests derive from it, each thing once.
type view struct {
	*Candidate
	document  bool
	part      bool // as Requisite has it, or as if it were none
	askedPart bool // a test saw that it is one
	asks      int  // program that has not answered yet, or -1
	programs  int
	answers   []answer // by candidate, then program
	mine      []answer // the answers for this candidate
	whys      []string // of programs, for explain
	err       error    // of a list
	trace     func(l *leaf, yes bool)

	scheme string
	rest   string // path and query

	// Of scheme and host: as long as they repeat, nothing is derived again.
	origin           string // scheme://host
	host             string
	name, port       string // without, and what stands behind the colon
	suffixes         []suffix
	registeredDomain string
	memo             []memo // by set

	glance   grams // of the URL, once they are known
	glanced  bool
	repeats  int // segments that repeat one; -1: not yet counted
	segments []string

	read  []byte // of a list
	known []known
}

// suffix is a domain that a name lies in.
type suffix struct {
	at   int // where in the name it begins
	hash uint64
}

// resetAnswers makes room for the answers of n candidates.
func (v *view) resetAnswers(n, programs int) {
	v.programs = programs
	v.answers = slices.Grow(v.answers[:0], n*programs)[:n*programs]
	clear(v.answers)
	v.whys = slices.Grow(v.whys[:0], programs)[:programs]
}

// reset looks at candidate i of those that view.begin got.
func (v *view) reset(i int, c *Candidate, document bool) {
	v.Candidate, v.document, v.asks, v.err, v.repeats = c, document, -1, nil, -1
	v.glanced = false
	v.part, v.askedPart = c.Requisite, false
	v.mine = v.answers[i*v.programs : (i+1)*v.programs]
	at := len(v.origin)
	if len(c.URL) <= at || c.URL[at] != '/' || c.URL[:at] != v.origin || len(c.Host) != len(v.host) {
		at = v.resetOrigin()
	}
	v.rest = c.URL[at:]
}

// grams returns the grams of the URL.
func (v *view) grams() *grams {
	if !v.glanced {
		v.glanced = true
		v.glance.reset(v.URL)
	}
	return &v.glance
}

// query reports whether there is a query.
func (v *view) query() bool { return strings.IndexByte(v.rest, '?') >= 0 }

// path is the path, without the query.
func (v *view) path() string {
	p, _, _ := strings.Cut(v.rest, "?")
	return p
}

// resetOrigin looks at another scheme or host, and returns the length of both.
func (v *view) resetOrigin() int {
	c := v.Candidate
	colon := strings.IndexByte(c.URL, ':')
	at := colon + len("://") + len(c.Host)
	if colon < 0 || at > len(c.URL) {
		colon, at = 0, len(c.URL) // not a canonical URL
	}
	v.origin, v.scheme = c.URL[:at], c.URL[:colon]
	clear(v.memo)
	if c.Host != v.host {
		v.host = c.Host
		v.name, v.port = splitPort(c.Host)
		v.suffixes, v.registeredDomain = v.suffixes[:0], ""
	}
	return at
}

// splitPort is canon.SplitPort for hosts that mostly have no port.
func splitPort(host string) (name, port string) {
	if n := len(host); n > 0 && host[n-1] > '9' {
		return host, ""
	}
	return canon.SplitPort(host)
}

// memo is an answer of a set about scheme and host.
type memo byte

const (
	memoUnknown memo = iota
	memoNo
	memoYes
)

// remembered is the answer that a set gives about the host, kept as long as it repeats.
func (v *view) remembered(id int, test func(*view) bool) bool {
	if v.memo[id] == memoUnknown {
		v.memo[id] = memoNo
		if test(v) {
			v.memo[id] = memoYes
		}
	}
	return v.memo[id] == memoYes
}

// portNumber is the port, the scheme's default included.
func (v *view) portNumber() string {
	if v.port != "" {
		return v.port
	}
	return canon.DefaultPort(v.scheme)
}

func (v *view) registered() string {
	if v.registeredDomain == "" {
		v.registeredDomain = canon.RegisteredDomain(v.host)
	}
	return v.registeredDomain
}

// domains returns the domains that the host lies in, from the top.
func (v *view) domains() []suffix {
	if len(v.suffixes) == 0 {
		v.suffixes = appendDomains(v.suffixes, v.name)
	}
	return v.suffixes
}

func appendDomains(all []suffix, name string) []suffix {
	h := seed
	for end := len(name); end >= 0; {
		h, end = label(h, name, end)
		all = append(all, suffix{end + 1, h})
	}
	return all
}

// hostHash is sum of the host.
func (v *view) hostHash() uint64 {
	if v.port != "" {
		return sum(v.host)
	}
	s := v.domains()
	return s[len(s)-1].hash
}

func (v *view) extension() string {
	ext := path.Ext(v.path())
	if ext == "" {
		return ""
	}
	return ext[1:]
}

// pathDepth counts the segments that are not empty.
func (v *view) pathDepth() int {
	n, p := 0, v.path()
	for i := 1; i < len(p); i++ {
		if p[i-1] == '/' && p[i] != '/' {
			n++
		}
	}
	return n
}

// repeated is how many path segments stand in the path already.
func (v *view) repeated() int {
	if v.repeats < 0 {
		v.repeats = v.again(v.path(), "/", "")
	}
	return v.repeats
}

// repeatedParameters is how many parameters, with their values, stand in the query already.
func (v *view) repeatedParameters() int {
	_, query, _ := strings.Cut(v.rest, "?")
	return v.again(query, "&;?", "=")
}

// again is how many of the parts between separators are as one before; empty ones do not count, nor those without a mark.
func (v *view) again(text, separators, mark string) int {
	all := v.segments[:0]
	for text != "" {
		s := text
		if i := strings.IndexAny(text, separators); i >= 0 {
			s, text = text[:i], text[i+1:]
		} else {
			text = ""
		}
		if s != "" && strings.Contains(s, mark) {
			all = append(all, s)
		}
	}
	v.segments = all
	slices.Sort(all)
	n := 0
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			n++
		}
	}
	return n
}

// answerOf is the answer of a program; without one, the view asks.
func (v *view) answerOf(program int) bool {
	switch v.mine[program] {
	case answerYes:
		return true
	case answerNo:
		return false
	}
	if v.asks < 0 {
		v.asks = program
		v.mine[program] = answerWanted
	}
	return false
}

// numbers are the values that numeric tests compare.
var numbers = map[string]func(*view) int{
	"url-length":          func(v *view) int { return len(v.URL) },
	"path-depth":          (*view).pathDepth,
	"repeated-segments":   (*view).repeated,
	"repeated-parameters": (*view).repeatedParameters,
	"depth":               func(v *view) int { return int(v.Depth) },
}

// comparisons by their signs.
var comparisons = map[string]func(v, limit int) bool{
	"<":  func(v, limit int) bool { return v < limit },
	"<=": func(v, limit int) bool { return v <= limit },
	"=":  func(v, limit int) bool { return v == limit },
	">=": func(v, limit int) bool { return v >= limit },
	">":  func(v, limit int) bool { return v > limit },
}

// comparison reads "> 12" or ">12".
func comparison(args []string) (compare func(v, limit int) bool, limit int, ok bool) {
	s := strings.Join(args, " ")
	op := s[:len(s)-len(strings.TrimLeft(s, "<>="))]
	n, err := strconv.ParseUint(strings.TrimPrefix(s[len(op):], " "), 10, 31)
	compare, ok = comparisons[op]
	return compare, int(n), ok && err == nil
}
