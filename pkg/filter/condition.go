package filter

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"mercator/pkg/canon"
)

// condition is a node of a parsed condition.
type condition interface{ holds(c *Candidate) bool }

type (
	allOf []condition
	anyOf []condition
	not   struct{ condition }
	test  func(c *Candidate) bool
)

func (a allOf) holds(c *Candidate) bool {
	for _, x := range a {
		if !x.holds(c) {
			return false
		}
	}
	return true
}

func (a anyOf) holds(c *Candidate) bool {
	for _, x := range a {
		if x.holds(c) {
			return true
		}
	}
	return false
}

func (n not) holds(c *Candidate) bool  { return !n.condition.holds(c) }
func (t test) holds(c *Candidate) bool { return t(c) }

// token is a word, a quoted string or a parenthesis.
type token struct {
	text   string
	quoted bool
}

func (t token) is(word string) bool { return !t.quoted && t.text == word }

// ends reports whether the token ends a test's arguments.
func (t token) ends() bool { return t.is("and") || t.is("or") || t.is(")") || t.is("(") || t.is("not") }

// scan cuts a condition into tokens, without its comment.
func scan(s string) ([]token, error) {
	var out []token
	for {
		s = strings.TrimLeft(s, " \t")
		switch {
		case s == "" || s[0] == '#':
			return out, nil
		case s[0] == '(' || s[0] == ')':
			out = append(out, token{text: s[:1]})
			s = s[1:]
		case s[0] == '"':
			var b strings.Builder
			i := 1
			for i < len(s) && s[i] != '"' {
				if s[i] == '\\' && i+1 < len(s) && s[i+1] == '"' {
					i++
				}
				b.WriteByte(s[i])
				i++
			}
			if i == len(s) {
				return nil, fmt.Errorf("a quote that does not end")
			}
			out = append(out, token{b.String(), true})
			s = s[i+1:]
		default:
			end := strings.IndexAny(s, " \t()\"")
			if end < 0 {
				end = len(s)
			}
			out = append(out, token{text: s[:end]})
			s = s[end:]
		}
	}
}

type parser struct {
	tokens  []token
	nesting int
}

func (p *parser) next(word string) bool {
	if len(p.tokens) > 0 && p.tokens[0].is(word) {
		p.tokens = p.tokens[1:]
		return true
	}
	return false
}

func (p *parser) condition() (condition, error) {
	if p.nesting++; p.nesting > maxNesting {
		return nil, fmt.Errorf("more than %d parentheses or nots in one another", maxNesting)
	}
	defer func() { p.nesting-- }()
	var or anyOf
	for {
		var and allOf
		for {
			x, err := p.term()
			if err != nil {
				return nil, err
			}
			and = append(and, x)
			if !p.next("and") {
				break
			}
		}
		or = append(or, and)
		if !p.next("or") {
			return or, nil
		}
	}
}

func (p *parser) term() (condition, error) {
	negated := false
	for p.next("not") {
		negated = !negated
	}
	x, err := p.simple()
	if err == nil && negated {
		x = not{x}
	}
	return x, err
}

func (p *parser) simple() (condition, error) {
	if p.next("(") {
		x, err := p.condition()
		if err == nil && !p.next(")") {
			err = fmt.Errorf("a parenthesis that does not close")
		}
		return x, err
	}
	if len(p.tokens) == 0 {
		return nil, fmt.Errorf("a condition ends where a test should be")
	}
	word := p.tokens[0]
	p.tokens = p.tokens[1:]
	if word.ends() || word.quoted {
		return nil, fmt.Errorf("%q where a test should be", word.text)
	}
	var args []string
	for len(p.tokens) > 0 && !p.tokens[0].ends() {
		args = append(args, p.tokens[0].text)
		p.tokens = p.tokens[1:]
	}
	return newTest(word.text, args)
}

// newTest makes the test of a word with its arguments.
func newTest(word string, args []string) (condition, error) {
	switch word {
	case "any", "query":
		if len(args) > 0 {
			return nil, fmt.Errorf("%s takes no argument, but has %q", word, args[0])
		}
		if word == "any" {
			return test(func(*Candidate) bool { return true }), nil
		}
		return test(func(c *Candidate) bool { return c.split().query }), nil
	case "url-length", "path-depth", "repeated-segments", "depth":
		compare, err := comparison(word, args)
		if err != nil {
			return nil, err
		}
		return test(func(c *Candidate) bool { return compare(number(word, c)) }), nil
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("%s without an argument, or no test", word)
	}
	set := make(map[string]bool)
	for _, a := range args {
		if word == "domain" || word == "extension" {
			a = strings.TrimPrefix(a, ".")
		}
		set[strings.ToLower(a)] = true
	}
	switch word {
	case "scheme":
		for _, a := range args {
			if canon.DefaultPort(strings.ToLower(a)) == "" {
				return nil, fmt.Errorf("scheme %q, want http, https, ftp or gopher", a)
			}
		}
		return test(func(c *Candidate) bool { return set[c.split().scheme] }), nil
	case "host":
		for _, a := range args {
			if want, err := canonicalHost(a); err != nil {
				return nil, err
			} else if a != want {
				return nil, fmt.Errorf("host %q, which no URL has: its canonical form is %q", a, want)
			}
		}
		// A host without a port is meant on any.
		return test(func(c *Candidate) bool { return set[c.Host] || set[c.split().name] }), nil
	case "domain":
		return test(func(c *Candidate) bool { return inDomains(set, c.split().name) }), nil
	case "registered-domain":
		return test(func(c *Candidate) bool { return set[canon.RegisteredDomain(c.Host)] }), nil
	case "port":
		for _, a := range args {
			if _, err := strconv.ParseUint(a, 10, 16); err != nil {
				return nil, fmt.Errorf("port %q, want a number up to 65535", a)
			}
		}
		return test(func(c *Candidate) bool { return set[c.split().port] }), nil
	case "prefix":
		return anyArg(args, func(c *Candidate, a string) bool { return strings.HasPrefix(c.URL, a) }), nil
	case "suffix":
		return anyArg(args, func(c *Candidate, a string) bool { return strings.HasSuffix(c.URL, a) }), nil
	case "kind":
		return anyArg(args, func(c *Candidate, a string) bool { return c.Kind == a }), nil
	case "extension":
		return test(func(c *Candidate) bool {
			ext := path.Ext(c.split().path)
			return ext != "" && set[strings.ToLower(ext[1:])]
		}), nil
	case "regex":
		var res []*regexp.Regexp
		for _, a := range args {
			re, err := regexp.Compile(a)
			if err != nil {
				return nil, err
			}
			res = append(res, re)
		}
		return test(func(c *Candidate) bool {
			for _, re := range res {
				if re.MatchString(c.URL) {
					return true
				}
			}
			return false
		}), nil
	}
	return nil, fmt.Errorf("%q, which is not a test", word)
}

func anyArg(args []string, match func(c *Candidate, arg string) bool) condition {
	return test(func(c *Candidate) bool {
		for _, a := range args {
			if match(c, a) {
				return true
			}
		}
		return false
	})
}

// inDomains reports whether name or a domain above it is in the set.
func inDomains(set map[string]bool, name string) bool {
	for {
		if set[name] {
			return true
		}
		_, rest, ok := strings.Cut(name, ".")
		if !ok {
			return false
		}
		name = rest
	}
}

// number is what a numeric test compares.
func number(word string, c *Candidate) int {
	switch word {
	case "url-length":
		return len(c.URL)
	case "depth":
		return int(c.Depth)
	}
	depth, most := 0, 0
	times := make(map[string]int)
	for segment := range strings.SplitSeq(c.split().path, "/") {
		if segment != "" {
			depth++
			times[segment]++
			most = max(most, times[segment])
		}
	}
	if word == "path-depth" {
		return depth
	}
	return most
}

// comparison reads "> 12" or ">12".
func comparison(word string, args []string) (func(int) bool, error) {
	s := strings.Join(args, " ")
	op := s[:len(s)-len(strings.TrimLeft(s, "<>="))]
	n, err := strconv.ParseUint(strings.TrimPrefix(s[len(op):], " "), 10, 31)
	limit := int(n)
	if err == nil {
		switch op {
		case "<":
			return func(v int) bool { return v < limit }, nil
		case "<=":
			return func(v int) bool { return v <= limit }, nil
		case "=":
			return func(v int) bool { return v == limit }, nil
		case ">=":
			return func(v int) bool { return v >= limit }, nil
		case ">":
			return func(v int) bool { return v > limit }, nil
		}
	}
	return nil, fmt.Errorf("%s %q, want a comparison such as > 12", word, strings.Join(args, " "))
}

// canonicalHost is a host, with its port or without, as candidates have it.
func canonicalHost(s string) (string, error) {
	name, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		name, port = s[:i], s[i:]
		if n, err := strconv.ParseUint(port[1:], 10, 16); err != nil || n == 0 {
			return "", fmt.Errorf("host %q, want a port from 1 to 65535 behind the colon", s)
		} else {
			port = fmt.Sprint(":", n)
		}
	}
	_, host, err := canon.URL("http://" + name + "/")
	if err != nil {
		return "", fmt.Errorf("host %q: %w", s, err)
	}
	return host + port, nil
}
