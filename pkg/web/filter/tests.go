package filter

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/linkkind"
)

// test makes the test of a word with its arguments.
func (p *parser) test(l *leaf, word token, tokens []token) error {
	args := make([]string, len(tokens))
	for i, t := range tokens {
		args[i] = t.text
	}
	// bad is an error at argument i.
	bad := func(i int, want string) error {
		return p.bad(tokens[i].at, fmt.Sprintf("%s %q", word.text, args[i]), want)
	}
	if p.words != nil && !slices.Contains(p.words, word.text) {
		return p.bad(word.at, fmt.Sprintf("%q", word.text), "a test: "+setting.Or(p.words))
	}
	switch word.text {
	case "any", "query", "same-host", "repeated-menu", "requisite":
		if len(args) > 0 {
			return p.bad(tokens[0].at, fmt.Sprintf("%q", args[0]), word.text+" without an argument")
		}
		switch word.text {
		case "any":
			l.test = func(*view) bool { return true }
		case "query":
			l.test = func(v *view) bool { return v.query() }
		case "same-host":
			l.test = func(v *view) bool { return v.From == "" || v.From == v.Host }
			l.value = func(v *view) string { return v.From }
		case "repeated-menu":
			l.test = func(v *view) bool { return v.Menu }
		case "requisite":
			l.test = func(v *view) bool { v.askedPart = v.askedPart || v.part; return v.part }
		}
		return nil
	case "url-length", "path-depth", "repeated-segments", "repeated-parameters", "depth":
		compare, limit, ok := comparison(args)
		if !ok {
			return p.bad(word.at, fmt.Sprintf("%s %q", word.text, strings.Join(args, " ")), "a comparison such as > 12")
		}
		of := numbers[word.text]
		l.test = func(v *view) bool { return compare(of(v), limit) }
		l.value = func(v *view) string { return strconv.Itoa(of(v)) }
		return nil
	}
	make, ok := argumentTests[word.text]
	if !ok {
		return p.bad(word.at, fmt.Sprintf("%q", word.text), "a test: "+testNames)
	}
	if len(args) == 0 {
		return p.bad(word.end, word.text+" without an argument", "one or more")
	}
	return make(p, l, args, bad)
}

// testNames are all words of tests.
const testNames = "any, scheme, host, domain, registered-domain, port, url, prefix, path, suffix, contains, regex, linked-from, extension, query, same-host, kind, requisite, " +
	"url-length, path-depth, repeated-segments, repeated-parameters, repeated-menu, depth, mime or exec"

// argumentTests make the tests that have words as arguments. bad makes an error of an argument.
var argumentTests map[string]func(*parser, *leaf, []string, badArg) error

func init() {
	argumentTests = map[string]func(*parser, *leaf, []string, badArg) error{
		"scheme": schemeTest, "port": portTest, "kind": kindTest, "regex": regexTest, "linked-from": linkedTest, "extension": extensionTest, "mime": mimeTest, "exec": execTest,
		"host": hostTest, "domain": domainTest, "registered-domain": registeredTest, "url": urlTest, "prefix": prefixTest, "path": pathTest,
		"suffix": suffixTest, "contains": containsTest,
	}
}

type badArg = func(i int, want string) error

func schemeTest(p *parser, l *leaf, args []string, bad badArg) error {
	for i, a := range args {
		a = strings.ToLower(a)
		args[i] = a
		if canon.DefaultPort(a) == "" && (p.schemes == nil || !p.schemes.Has(a)) {
			return bad(i, "http, https, ftp, gopher or another that is crawled")
		}
	}
	l.test = func(v *view) bool { return slices.Contains(args, v.scheme) }
	l.value = func(v *view) string { return v.scheme }
	return nil
}

func portTest(_ *parser, l *leaf, args []string, bad badArg) error {
	for i, a := range args {
		n, err := strconv.ParseUint(a, 10, 16)
		if err != nil || strconv.FormatUint(n, 10) != a {
			return bad(i, "a number up to 65535")
		}
	}
	l.test = func(v *view) bool { return slices.Contains(args, v.portNumber()) }
	l.value = (*view).portNumber
	return nil
}

func kindTest(p *parser, l *leaf, args []string, bad badArg) error {
	p.kindAt = p.at()
	var kinds []string
	for i, a := range args {
		of := linkkind.Named(a)
		if of == nil {
			return bad(i, "a kind: "+strings.Join(linkkind.Names(), ", ")+", or one of your own that begins with "+linkkind.Own)
		}
		kinds = append(kinds, of...)
	}
	for _, k := range kinds {
		if !slices.Contains(p.kinds, k) {
			p.kinds = append(p.kinds, k)
		}
	}
	l.test = func(v *view) bool { return slices.Contains(kinds, v.Kind) }
	l.value = func(v *view) string { return v.Kind }
	return nil
}

func suffixTest(_ *parser, l *leaf, args []string, _ badArg) error {
	l.test = func(v *view) bool {
		return slices.ContainsFunc(args, func(a string) bool { return strings.HasSuffix(v.URL, a) })
	}
	return nil
}

func containsTest(_ *parser, l *leaf, args []string, _ badArg) error {
	literals := make([]literal, len(args))
	for i, a := range args {
		literals[i] = newLiteral(a)
	}
	l.test = func(v *view) bool {
		g := v.grams()
		for i, a := range args {
			if g.mayHave(literals[i]) && strings.Contains(v.URL, a) {
				return true
			}
		}
		return false
	}
	return nil
}

func regexTest(_ *parser, l *leaf, args []string, bad badArg) error {
	all, err := expressions(args, bad)
	if err != nil {
		return err
	}
	apart := make([]*expression, len(all))
	for i, re := range all {
		apart[i] = newExpression(re)
	}
	l.test = func(v *view) bool {
		g := v.grams()
		for _, e := range apart {
			if e.mayMatch(v.URL, g) && e.MatchString(v.URL) {
				return true
			}
		}
		return false
	}
	return nil
}

// linkedTest is regexTest of the page that links to the URL. It holds, too, where no page is known.
func linkedTest(_ *parser, l *leaf, args []string, bad badArg) error {
	all, err := expressions(args, bad)
	if err != nil {
		return err
	}
	l.test = func(v *view) bool { return v.Via == "" || anyMatches(all, v.Via) }
	l.value = func(v *view) string { return v.Via }
	return nil
}

func anyMatches(all []*regexp.Regexp, url string) bool {
	for _, re := range all {
		if re.MatchString(url) {
			return true
		}
	}
	return false
}

func expressions(args []string, bad badArg) (all []*regexp.Regexp, err error) {
	for i, a := range args {
		if len(a) > maxRegex {
			return nil, bad(i, fmt.Sprintf("at most %d bytes", maxRegex))
		}
		re, err := regexp.Compile(a)
		if err != nil {
			return nil, bad(i, "a regular expression (RE2): "+strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		if strings.HasPrefix(a, "^/") {
			return nil, withHint(bad(i, beginning), fmt.Sprintf("regex \"^[^/]+//[^/]+%s\" begins behind the host", a[1:]))
		}
		all = append(all, re)
	}
	return all, nil
}

func extensionTest(_ *parser, l *leaf, args []string, _ badArg) error {
	longest := 0
	set := make(map[string]bool)
	for _, a := range args {
		a = strings.ToLower(strings.TrimPrefix(a, "."))
		set[a] = true
		longest = max(longest, len(a))
	}
	l.test = func(v *view) bool {
		ext := v.extension()
		if ext == "" || len(ext) > longest {
			return false
		}
		v.read = append(v.read[:0], ext...)
		for i, c := range v.read {
			if 'A' <= c && c <= 'Z' {
				v.read[i] = c + 'a' - 'A'
			}
		}
		return set[string(v.read)]
	}
	l.value = (*view).extension
	return nil
}

// mimeTest makes the rule one for documents.
func mimeTest(p *parser, l *leaf, args []string, bad badArg) error {
	p.rule.Document = true
	for i, a := range args {
		a = strings.ToLower(a)
		main, sub, ok := strings.Cut(a, "/")
		if !ok || main == "" || sub == "" || main == "*" && sub != "*" || strings.ContainsAny(a, "; ") {
			return bad(i, "a media type such as text/html, image/* or */*")
		}
		args[i] = a
	}
	l.test = func(v *view) bool {
		for _, a := range args {
			if a == v.MIME || a == "*/*" || strings.HasSuffix(a, "/*") && strings.HasPrefix(v.MIME, a[:len(a)-1]) {
				return true
			}
		}
		return false
	}
	l.value = func(v *view) string { return v.MIME }
	return nil
}

func execTest(p *parser, l *leaf, args []string, bad badArg) error {
	if len(args) > 1 {
		return bad(1, `one command, in double quotes if it has spaces: exec "judge -v"`)
	}
	n := slices.Index(p.programs, args[0])
	if n < 0 {
		if n = len(p.programs); n == maxExecTests {
			return bad(0, fmt.Sprintf("at most %d programs", maxExecTests))
		}
		p.programs = append(p.programs, args[0])
	}
	l.test = func(v *view) bool { return v.answerOf(n) }
	l.value = func(v *view) string { return v.whys[n] }
	return nil
}

func hostTest(p *parser, l *leaf, args []string, bad badArg) error {
	s, err := p.nameSet(l, entryHost, args, bad)
	if err != nil {
		return err
	}
	l.test = func(v *view) bool { return v.remembered(s.id, s.hasHost) }
	l.value = func(v *view) string { return v.host }
	return nil
}

func domainTest(p *parser, l *leaf, args []string, bad badArg) error {
	s, err := p.nameSet(l, entryDomain, args, bad)
	if err != nil {
		return err
	}
	l.suffix = slices.ContainsFunc(args, isWide)
	l.test = func(v *view) bool { return v.remembered(s.id, s.hasDomain) }
	l.value = func(v *view) string { return v.name }
	return nil
}

// isWide reports whether a domain is a public suffix, or a list of domains, which may have one.
func isWide(domain string) bool {
	if strings.HasPrefix(domain, "@") {
		return true
	}
	below := "x." + strings.TrimPrefix(domain, ".")
	return canon.RegisteredDomain(below) == below
}

func registeredTest(p *parser, l *leaf, args []string, bad badArg) error {
	for i, a := range args {
		if d := canon.RegisteredDomain(a); d != a && !strings.HasPrefix(a, "@") {
			return bad(i, fmt.Sprintf("%q, under which it is registered", d))
		}
	}
	s, err := p.nameSet(l, entryDomain, args, bad)
	if err != nil {
		return err
	}
	l.suffix = slices.ContainsFunc(args, isWide)
	has := func(v *view) bool { return s.has(v, v.registered()) }
	l.test = func(v *view) bool { return v.remembered(s.id, has) }
	l.value = (*view).registered
	return nil
}

func urlTest(p *parser, l *leaf, args []string, bad badArg) error {
	var urls []string
	lists, err := p.listArgs(args, entryURL, bad, func(i int, a string) error {
		urls = append(urls, a)
		if want := entryURL.check(a, p.schemes); want != "" {
			return bad(i, want)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s := newSet(p.nextSet(), urls, lists)
	l.test = func(v *view) bool { return s.has(v, v.URL) }
	return nil
}

func prefixTest(p *parser, l *leaf, args []string, bad badArg) error {
	var all []string
	lists, err := p.listArgs(args, entryPrefix, bad, func(i int, a string) error {
		all = append(all, a)
		if p.beginsURL(a) {
			return nil
		}
		if a[:min(1, len(a))] == "/" {
			return withHint(bad(i, beginning), fmt.Sprintf("\"path %s\" is the test of paths that begin so", a))
		}
		return bad(i, beginning)
	})
	if err != nil {
		return err
	}
	l.test = newPrefixes(p.nextSet(), all, lists).match
	return nil
}

// beginning describes a prefix in messages.
const beginning = "the beginning of a URL, with its scheme, such as https://www.example.org/blog/"

// beginsURL reports whether a URL of a known scheme can begin so.
func (p *parser) beginsURL(a string) bool {
	schemes := []string{"http", "https", "ftp", "gopher"}
	if p.schemes != nil {
		schemes = append(schemes, p.schemes.Names()...)
	}
	return slices.ContainsFunc(schemes, func(s string) bool {
		s += "://"
		return strings.HasPrefix(a, s) || strings.HasPrefix(s, a)
	})
}

func withHint(err error, hint string) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		f.Hint = hint
	}
	return err
}

func pathTest(p *parser, l *leaf, args []string, bad badArg) error {
	const origin = "http://host.test"
	for i, a := range args {
		if !strings.HasPrefix(a, "/") {
			return bad(i, "the beginning of a path, such as /blog/")
		}
		u, _, err := canon.URL(origin + a)
		if err != nil {
			return bad(i, "a path in canonical form: "+err.Error())
		}
		if path := u[len(origin):]; path != a {
			return bad(i, fmt.Sprintf("%q, its canonical form", path))
		}
	}
	l.test = func(v *view) bool {
		return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(v.rest, a) })
	}
	l.value = func(v *view) string { return v.rest }
	return nil
}

// nameSet makes a set of hosts or domains, which must be canonical: others would match nothing.
func (p *parser) nameSet(leaf *leaf, kind entryKind, args []string, bad badArg) (*set, error) {
	var names []string
	lists, err := p.listArgs(args, kind, bad, func(i int, a string) error {
		if kind == entryDomain {
			a = strings.TrimPrefix(a, ".")
		}
		if want := kind.check(a, p.schemes); want != "" {
			return bad(i, want)
		}
		names = append(names, a)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(lists) == 0 {
		leaf.names = names
	}
	return newSet(p.nextSet(), names, lists), nil
}

// nextSet counts sets.
func (p *parser) nextSet() int {
	p.sets++
	return p.sets - 1
}

// listArgs opens the lists among the arguments and hands the others on.
func (p *parser) listArgs(args []string, kind entryKind, bad badArg, word func(i int, a string) error) ([]*list, error) {
	var lists []*list
	for i, a := range args {
		file, ok := strings.CutPrefix(a, "@")
		if !ok {
			if err := word(i, a); err != nil {
				return nil, err
			}
			continue
		}
		if file == "" {
			return nil, bad(i, "the name of a file behind @")
		}
		l, err := p.list(p.relative(file), kind)
		if err != nil {
			return nil, err
		}
		lists = append(lists, l)
	}
	return lists, nil
}

// list opens a list, once.
func (p *parser) list(name string, kind entryKind) (*list, error) {
	key := listKey{name, kind}
	if l := p.lists[key]; l != nil {
		return l, nil
	}
	l, cost, err := openList(name, kind, p.memory, p.sieves, p.schemes)
	if err != nil {
		return nil, err
	}
	if l.file != nil {
		p.sieves -= cost
		p.files = append(p.files, l.file)
	} else {
		p.memory -= cost
	}
	p.lists[key] = l
	p.Files = append(p.Files, name)
	return l, nil
}

// canonicalHost is a host, with its port or without, as candidates have it.
func canonicalHost(s string) (string, error) {
	name, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		name, port = s[:i], s[i:]
		n, err := strconv.ParseUint(port[1:], 10, 16)
		if err != nil || n == 0 {
			return "", fmt.Errorf("want a port from 1 to 65535 behind the colon")
		}
		port = fmt.Sprint(":", n)
	}
	_, host, err := canon.URL("http://" + name + "/")
	if err != nil {
		return "", err
	}
	return host + port, nil
}
