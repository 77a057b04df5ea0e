package filter

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/web/canon"
)

// Bounds of rule files, those that are included counted in.
const (
	MaxLine      = 1 << 20 // bytes of a line
	maxNesting   = 100     // parentheses in one another
	maxInclude   = 8       // files that include one another
	maxRules     = 10_000
	maxTests     = 100_000
	maxRegex     = 16 << 10 // bytes of a regular expression
	maxTimeout   = time.Hour
	maxExecTests = 16
)

// DefaultMemory is the default bound of the memory of lists, in bytes.
const DefaultMemory = 16 << 20

// Shipped are rules against traps: what a site makes without end. They are included as
// "include default".
//
//go:embed default.rules
var Shipped string

// Options say how a rule file is read. The zero value has the defaults.
type Options struct {
	Memory  int64          // bytes for all lists in memory, and as many for the sieves of lists on disk; 0: DefaultMemory
	Schemes *canon.Schemes // schemes crawled; nil: http, https, ftp and gopher
}

// Load reads the rule file at path, or the rules that are shipped if path is "default".
// Errors are fault.Usage with file, line and column. A file without any rule is an error, too, also where another file includes it. The filter keeps files open: Close it.
func Load(path string, opt Options) (*Filter, error) {
	if path == "default" {
		return parse("default", strings.NewReader(Shipped), opt)
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: pathError(err), Want: "a file of filter rules, or default", Err: err}
	}
	defer in.Close()
	if st, err := in.Stat(); err == nil && st.IsDir() {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "a folder", Want: "a file of filter rules, or default"}
	}
	f, err := parse(path, in, opt)
	if err != nil {
		return nil, err
	}
	f.Files = slices.Insert(f.Files, 0, path)
	return f, nil
}

// Parse reads rules; name is for messages, and says relative to which folder files are that
// they name.
func Parse(name string, in io.Reader) (*Filter, error) { return parse(name, in, Options{}) }

func parse(name string, in io.Reader, opt Options) (*Filter, error) {
	l := newLoader(opt)
	f := l.Filter
	if err := l.file(name, in, nil); err != nil {
		f.Close()
		return nil, err
	}
	if !l.says { // a file that lost its rules must not open a crawl to all URLs
		f.Close()
		return nil, &fault.Error{Class: fault.Usage, File: name, Found: "no rule", Want: "rules, or the line \"default allow\" for all URLs"}
	}
	if f.All && l.hasDefault {
		f.Close()
		return nil, &fault.Error{Class: fault.Usage, File: name, Found: "default with match all", Want: "one of them: with match all, a URL must match every rule"}
	}
	return f, nil
}

func (o Options) memory() int64 {
	if o.Memory <= 0 {
		return DefaultMemory
	}
	return o.Memory
}

func newLoader(opt Options) *loader {
	memory := opt.memory()
	return &loader{Filter: &Filter{}, memory: memory, sieves: min(sievesMax, memory), schemes: opt.Schemes, names: make(map[string]string), lists: make(map[listKey]*list)}
}

// loader reads a rule file and those that it includes.
type loader struct {
	*Filter
	memory, sieves                   int64 // left for lists, and for the sieves of those on disk
	schemes                          *canon.Schemes
	names                            map[string]string // of rules, with their places
	lists                            map[listKey]*list
	tests, settings                  int
	words                            []string // tests that a condition may have; nil: all
	hasDefault, hasMatch, hasTimeout bool
	says                             bool // there is a rule, an include, or a default
}

type listKey struct {
	name string
	kind entryKind
}

// place is where the reader is.
type place struct {
	*loader
	name string // of the file
	line int
	text string // of the line
}

// bad is an error at a byte of the line.
func (p *place) bad(at int, found, want string) error {
	return &fault.Error{Class: fault.Usage, File: p.name, Place: fmt.Sprintf("line %d, column %d", p.line, at+1), Found: found, Want: want}
}

// file reads the rules of one file. outer are the names of the files that include it.
func (l *loader) file(name string, in io.Reader, outer []string) error {
	p := &place{loader: l, name: name}
	return p.lines(in, func(at int) error { return p.read(at, outer) })
}

// lines calls read for each line but empty ones and comments; at is where its text begins.
func (p *place) lines(in io.Reader, read func(at int) error) error {
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, MaxLine)
	for sc.Scan() {
		p.line++
		p.text = sc.Text()
		if p.line == 1 {
			p.text = strings.TrimPrefix(p.text, "\ufeff")
		}
		at := len(p.text) - len(strings.TrimLeft(p.text, " \t"))
		if at == len(p.text) || p.text[at] == '#' {
			continue
		}
		if err := read(at); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil {
		p.line++
		return &fault.Error{Class: fault.Usage, File: p.name, Place: fmt.Sprintf("line %d", p.line), Found: err.Error(), Want: fmt.Sprintf("text, at most %d bytes a line", MaxLine), Err: err}
	}
	return nil
}

// read reads a line, which begins at at.
func (p *place) read(at int, outer []string) error {
	end := at + len(p.text[at:])
	if i := strings.IndexAny(p.text[at:], " \t:"); i >= 0 {
		end = at + i
	}
	word := p.text[at:end]
	p.says = p.says || word != "match" && word != "timeout"
	if word == "allow" || word == "deny" {
		return p.rule(word == "allow", end, `"allow NAME: CONDITION" or "deny NAME: CONDITION"`)
	}
	words, err := p.scan(end)
	if err != nil {
		return err
	}
	if slices.Contains([]string{"default", "match", "timeout"}, word) && len(outer) > 0 {
		return p.bad(at, fmt.Sprintf("%q in an included file", word), "allow, deny or include")
	}
	switch word {
	case "default":
		return p.setting(at, word, words, &p.hasDefault, func(s string) bool {
			p.DefaultDeny = s == "deny"
			return s == "allow" || s == "deny"
		}, "allow or deny")
	case "match":
		return p.setting(at, word, words, &p.hasMatch, func(s string) bool {
			p.All = s == "all"
			return s == "first" || s == "all"
		}, "first or all")
	case "timeout":
		return p.setting(at, word, words, &p.hasTimeout, func(s string) bool {
			d, err := time.ParseDuration(s)
			p.timeout = d
			return err == nil && d > 0 && d <= maxTimeout
		}, "a time such as 30s, up to 1h")
	case "include":
		return p.include(at, words, outer)
	}
	return p.bad(at, fmt.Sprintf("%q", word), "allow, deny, default, match, include or timeout")
}

// setting reads a line of one word, which stands once in a file.
func (p *place) setting(at int, word string, args []token, has *bool, set func(string) bool, want string) error {
	if *has {
		return p.bad(at, "a second "+word, "one")
	}
	*has = true
	var all []string
	for _, a := range args {
		all = append(all, a.text)
	}
	if len(args) != 1 || !set(args[0].text) {
		return p.bad(at, fmt.Sprintf("%s %q", word, strings.Join(all, " ")), want)
	}
	return nil
}

func (p *place) include(at int, words []token, outer []string) error {
	if len(words) == 0 {
		return p.bad(at, "include without a file", "include FILE")
	}
	if len(outer)+1 >= maxInclude {
		return p.bad(at, "an include", fmt.Sprintf("at most %d files in one another", maxInclude))
	}
	without := make(map[string]token)
	if len(words) > 1 {
		if !words[1].is("without") || len(words) == 2 {
			return p.bad(words[1].at, fmt.Sprintf("%q", words[1].text), "include FILE without NAME…, or nothing")
		}
		for _, w := range words[2:] {
			without[w.text] = w
		}
	}
	name, in := "default", io.Reader(strings.NewReader(Shipped))
	if !words[0].is("default") {
		name = p.relative(words[0].text)
		f, err := os.Open(name)
		if err != nil {
			return p.bad(words[0].at, fmt.Sprintf("%q: %s", name, pathError(err)), "a file of rules, or default")
		}
		defer f.Close()
		in = f
		p.Files = append(p.Files, name)
	}
	outer = append(slices.Clone(outer), p.name)
	if slices.Contains(outer, name) {
		return p.bad(words[0].at, fmt.Sprintf("%q, which includes this file", name), "another")
	}
	from := len(p.Rules)
	if err := p.file(name, in, outer); err != nil {
		return err
	}
	if len(p.Rules) == from { // as Load refuses a file that lost its rules
		return p.bad(words[0].at, fmt.Sprintf("%q, which has no rule", name), "a file of rules, or no include")
	}
	kept := p.Rules[:from]
	for _, r := range p.Rules[from:] {
		if _, ok := without[r.Name]; ok {
			delete(without, r.Name)
			delete(p.names, r.Name)
			continue
		}
		kept = append(kept, r)
	}
	p.Rules = kept
	for _, w := range words[min(2, len(words)):] {
		if _, ok := without[w.text]; ok {
			return p.bad(w.at, fmt.Sprintf("%q", w.text), "the name of a rule of "+name)
		}
	}
	return nil
}

// relative is the path of a file that a line names.
func (p *place) relative(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(p.name), name)
}

// rule reads what stands behind a verdict; want is the form of the line.
func (p *place) rule(allow bool, at int, want string) error {
	colon := strings.IndexByte(p.text[at:], ':')
	name := ""
	if colon >= 0 {
		name = strings.TrimSpace(p.text[at : at+colon])
	}
	if colon < 0 || strings.ContainsAny(name, " \t\"()#") {
		return p.bad(at, "no colon after the rule's name", want)
	}
	nameAt := at + strings.Index(p.text[at:], name)
	if name == "" {
		name = fmt.Sprintf("line-%d", p.line)
	}
	if name == "default" {
		return p.bad(nameAt, `rule name "default", which the ledger uses for URLs that no rule decides`, "another")
	}
	if before, ok := p.names[name]; ok {
		return p.bad(nameAt, fmt.Sprintf("rule name %q, which %s has", name, before), "another")
	}
	if len(p.Rules) == maxRules {
		return p.bad(at, "one rule more", fmt.Sprintf("at most %d; lists of names or prefixes belong into files, as in domain @FILE", maxRules))
	}
	p.names[name] = fmt.Sprintf("line %d of %s", p.line, p.name)
	at += colon + 1
	tokens, err := p.scan(at)
	if err != nil {
		return err
	}
	r := Rule{Name: name, Allow: allow, File: p.name, Line: p.line, Text: p.textOf(at, tokens)}
	c := &parser{place: p, rule: &r, tokens: tokens, kindAt: -1}
	if r.cond, err = c.condition(); err != nil {
		return err
	}
	if len(c.tokens) > 0 {
		return p.bad(c.tokens[0].at, fmt.Sprintf("%q after the condition", c.tokens[0].text), "and, or, or the end of the line")
	}
	if r.Document && c.kindAt >= 0 {
		return p.bad(c.kindAt, "kind beside mime", "another test: a document has no link kind")
	}
	p.Rules = append(p.Rules, r)
	p.documents = p.documents || r.Document
	return nil
}

// textOf is the line from at to the end of the last token.
func (p *place) textOf(at int, tokens []token) string {
	if len(tokens) == 0 {
		return ""
	}
	return strings.TrimSpace(p.text[at:tokens[len(tokens)-1].end])
}

// token is a word, a quoted string or a parenthesis.
type token struct {
	text    string
	quoted  bool
	at, end int // in the line
}

func (t token) is(word string) bool { return !t.quoted && t.text == word }

// ends reports whether the token ends a test's arguments.
func (t token) ends() bool {
	return t.is("and") || t.is("or") || t.is(")") || t.is("(") || t.is("not")
}

// scan cuts the line from at into tokens, without its comment.
func (p *place) scan(at int) ([]token, error) {
	var out []token
	for {
		s := strings.TrimLeft(p.text[at:], " \t")
		at = len(p.text) - len(s)
		switch {
		case s == "" || s[0] == '#':
			return out, nil
		case s[0] == '(' || s[0] == ')':
			out = append(out, token{s[:1], false, at, at + 1})
			at++
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
				return nil, p.bad(at, "a quote that does not end", `"`)
			}
			out = append(out, token{b.String(), true, at, at + i + 1})
			at += i + 1
		default:
			end := strings.IndexAny(s, " \t()\"")
			if end < 0 {
				end = len(s)
			}
			out = append(out, token{s[:end], false, at, at + end})
			at += end
		}
	}
}

// parser reads a condition.
type parser struct {
	*place
	rule    *Rule
	tokens  []token
	nesting int
	kindAt  int
}

// at is where the next token stands, or would.
func (p *parser) at() int {
	if len(p.tokens) > 0 {
		return p.tokens[0].at
	}
	return len(p.text)
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
		return nil, p.bad(p.at(), fmt.Sprintf("more than %d parentheses in one another", maxNesting), "less")
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
		if len(and) == 1 {
			or = append(or, and[0])
		} else {
			or = append(or, and)
		}
		if !p.next("or") {
			break
		}
	}
	if len(or) == 1 {
		return or[0], nil
	}
	return or, nil
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
	if open := p.at(); p.next("(") {
		x, err := p.condition()
		if err == nil && !p.next(")") {
			err = p.bad(open, "a parenthesis that does not close", ")")
		}
		return x, err
	}
	if len(p.tokens) == 0 {
		return nil, p.bad(len(p.text), "the end of the line", "a test")
	}
	word := p.tokens[0]
	p.tokens = p.tokens[1:]
	if word.ends() || word.quoted {
		return nil, p.bad(word.at, fmt.Sprintf("%q", word.text), "a test")
	}
	end := word.end
	var args []token
	for len(p.tokens) > 0 && !p.tokens[0].ends() {
		args = append(args, p.tokens[0])
		end = p.tokens[0].end
		p.tokens = p.tokens[1:]
	}
	if p.tests++; p.tests > maxTests {
		return nil, p.bad(word.at, "one test more", fmt.Sprintf("at most %d", maxTests))
	}
	leaf := &leaf{word: word.text, text: p.text[word.at:end]}
	if err := p.test(leaf, word, args); err != nil {
		return nil, err
	}
	p.rule.tests = append(p.rule.tests, leaf)
	return leaf, nil
}
