// Package filter decides which URLs a crawl wants: Mercator's URL filter as a
// file of rules, of which the first that matches decides.
//
//	# what we want of two sites
//	deny  calendar:  path-depth > 12 or regex "/calendar/[0-9]{4}/"
//	allow docs:      domain example.org and not extension zip exe
//	allow tools:     host tools.example.com:8080
//	deny  the-rest:  any
//
// A line is a verdict, a name, a colon and a condition; "#" begins a comment; a
// name left out is "line-N". "default allow" or "default deny" says what becomes
// of a URL that no rule matches; allow, if the line is missing.
//
// A condition is made of tests with and, or, not and parentheses; not binds
// closest and or loosest. A test is a word and its arguments, of which one must
// hold. Arguments with spaces, parentheses or "#" stand in double quotes, in which
// \" is a quote, and \ before anything else is itself.
//
//	any                     every URL
//	scheme S…               http, https, ftp, gopher
//	host H…                 exactly, in canonical form (lower case, IDNA), with ":port" where it is not the default
//	domain D…               the host is D or ends in ".D", on any port; ".D" is as good
//	registered-domain D…    D is the domain that the host is registered under
//	port N…                 default ports included
//	prefix P…, suffix S…    of the canonical URL
//	regex R…                found anywhere in the canonical URL (RE2)
//	extension E…            of the last path segment; dot and case do not matter
//	query                   there is a query, the empty one included
//	kind K…                 link kind, such as a, img, redirect; empty for seeds
//	url-length OP N         bytes of the canonical URL
//	path-depth OP N         path segments that are not empty
//	repeated-segments OP N  how often the most frequent path segment occurs
//	depth OP N              links from a seed
//
// OP is one of <, <=, =, >=, >. Rules are pure functions of a Candidate and safe for
// many goroutines. Time is linear in the URL and the rules.
package filter

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"mercator/pkg/canon"
	"mercator/pkg/fault"
)

// MaxLine bounds a line of a rule file, in bytes.
const MaxLine = 1 << 20

// maxNesting bounds parentheses and chains of not.
const maxNesting = 100

// Candidate is a URL that is to be judged.
type Candidate struct {
	URL   string // canonical
	Host  string // with ":port" where it is not the default
	Depth uint16
	Kind  string // link kind; "" for a seed

	parts *parts // what tests derive from the URL, once
}

// parts are derived from the URL when a test first asks for them.
type parts struct {
	scheme, name, port, path string
	query                    bool
}

func (c *Candidate) split() *parts {
	if c.parts != nil {
		return c.parts
	}
	p := &parts{}
	scheme, host, rest := canon.Split(c.URL)
	p.scheme = scheme
	p.name, p.port = canon.SplitPort(host)
	if p.port == "" {
		p.port = canon.DefaultPort(scheme)
	}
	p.path, _, p.query = strings.Cut(rest, "?")
	c.parts = p
	return p
}

// Rule is one line of a filter.
type Rule struct {
	Name  string
	Allow bool
	Line  int    // in its file
	Text  string // the condition as written
	cond  condition
}

// Filter is a list of rules. The zero value allows everything.
type Filter struct {
	Rules       []Rule
	DefaultDeny bool
}

// Decide judges a URL. rule is nil if no rule matched and the default decided.
func (f *Filter) Decide(c *Candidate) (allow bool, rule *Rule) {
	for i := range f.Rules {
		if f.Rules[i].Matches(c) {
			return f.Rules[i].Allow, &f.Rules[i]
		}
	}
	return !f.DefaultDeny, nil
}

// Matches reports whether the rule's condition holds.
func (r *Rule) Matches(c *Candidate) bool { return r.cond.holds(c) }

// Reason is how a stage's books name the refusals of a rule, nil for the default.
func Reason(rule *Rule) string {
	if rule == nil {
		return "filter:default"
	}
	return "filter:" + rule.Name
}

// Parse reads a rule file; name is for messages. Errors are fault.Usage with the line.
func Parse(name string, in io.Reader) (*Filter, error) {
	f := &Filter{}
	names := make(map[string]int)
	hasDefault := false
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, MaxLine)
	line := 0
	bad := func(found, want string) error {
		return &fault.Error{Class: fault.Usage, File: name, Place: fmt.Sprintf("line %d", line), Found: found, Want: want}
	}
	for sc.Scan() {
		line++
		text := strings.TrimSpace(sc.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		verdict, rest := text, ""
		if i := strings.IndexAny(text, " \t"); i > 0 {
			verdict, rest = text[:i], strings.TrimSpace(text[i:])
		}
		switch verdict {
		case "default":
			rest, _, _ = strings.Cut(rest, "#")
			rest = strings.TrimSpace(rest)
			if rest != "allow" && rest != "deny" {
				return nil, bad(fmt.Sprintf("default %q", rest), "allow or deny")
			}
			if hasDefault {
				return nil, bad("a second default", "one")
			}
			hasDefault = true
			f.DefaultDeny = rest == "deny"
			continue
		case "allow", "deny":
		default:
			if before, _, ok := strings.Cut(verdict, ":"); ok && (before == "allow" || before == "deny") {
				rest = strings.TrimSpace(text[len(before):])
				verdict = before
				break
			}
			return nil, bad(fmt.Sprintf("%q", verdict), "allow, deny or default")
		}
		ruleName, condText, ok := strings.Cut(rest, ":")
		if !ok || strings.ContainsAny(strings.TrimSpace(ruleName), " \t\"()") {
			return nil, bad("no colon after the rule's name", `"`+verdict+` NAME: CONDITION"`)
		}
		ruleName = strings.TrimSpace(ruleName)
		if ruleName == "" {
			ruleName = fmt.Sprintf("line-%d", line)
		}
		if ruleName == "default" {
			return nil, bad(`rule name "default", which the books have for URLs that no rule matches`, "another")
		}
		if before, ok := names[ruleName]; ok {
			return nil, bad(fmt.Sprintf("rule name %q, which line %d has", ruleName, before), "another")
		}
		names[ruleName] = line
		tokens, err := scan(condText)
		if err != nil {
			return nil, bad(err.Error(), "")
		}
		p := parser{tokens: tokens}
		cond, err := p.condition()
		if err == nil && len(p.tokens) > 0 {
			err = fmt.Errorf("%q after the condition", p.tokens[0].text)
		}
		if err != nil {
			return nil, bad(err.Error(), "")
		}
		f.Rules = append(f.Rules, Rule{Name: ruleName, Allow: verdict == "allow", Line: line, Text: strings.TrimSpace(condText), cond: cond})
	}
	if err := sc.Err(); err != nil {
		line++
		return nil, &fault.Error{Class: fault.Usage, File: name, Place: fmt.Sprintf("line %d", line), Err: err}
	}
	return f, nil
}
