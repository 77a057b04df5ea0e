package filter

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"mercator/pkg/base/fault"
)

// Setting is a line of a section.
type Setting struct {
	Name, Value string
	Line        int
}

// Sections reads a file in which conditions have settings instead of a verdict:
//
//	WORD NAME: CONDITION
//	    SETTING VALUE
//
// It returns the conditions as rules, and the settings of each. Comments, quotes and names are as in rules. tests are the tests that a
// condition may use; none of them runs a program. A list must fit into the memory of opt, so that judging cannot fail. Errors are
// fault.Usage with file, line and column.
func Sections(name string, in io.Reader, word string, tests []string, opt Options) (*Filter, [][]Setting, error) {
	l := newLoader(opt)
	l.words = tests
	p := &place{loader: l, name: name}
	var all [][]Setting
	err := p.lines(in, func(at int) error {
		if at == 0 {
			end := len(p.text)
			if i := strings.IndexAny(p.text, " \t:"); i >= 0 {
				end = i
			}
			if p.text[:end] != word {
				return p.bad(0, fmt.Sprintf("%q", p.text[:end]), fmt.Sprintf("\"%s NAME: CONDITION\", or spaces before a setting", word))
			}
			if n := len(all); n > 0 && len(all[n-1]) == 0 {
				return p.bad(0, fmt.Sprintf("%s %s without a setting", word, l.Rules[n-1].Name), "one or more, on lines that begin with spaces")
			}
			all = append(all, nil)
			return p.rule(true, end, fmt.Sprintf("\"%s NAME: CONDITION\"", word))
		}
		words, err := p.scan(at)
		if err != nil {
			return err
		}
		n := len(all)
		if n == 0 {
			return p.bad(at, fmt.Sprintf("%q before the first %s", words[0].text, word), fmt.Sprintf("\"%s NAME: CONDITION\" before it", word))
		}
		if len(words) != 2 {
			return p.bad(at, fmt.Sprintf("%q with %d values", words[0].text, len(words)-1), "one value, in quotes if it has spaces")
		}
		if p.settings++; p.settings > maxTests {
			return p.bad(at, "one setting more", fmt.Sprintf("at most %d", maxTests))
		}
		all[n-1] = append(all[n-1], Setting{words[0].text, words[1].text, p.line})
		return nil
	})
	n := len(all)
	switch {
	case err != nil:
	case n == 0: // a file that lost its sections must not take back what they say
		err = &fault.Error{Class: fault.Usage, File: name, Place: fmt.Sprintf("line %d", max(p.line, 1)), Found: "no " + word, Want: fmt.Sprintf("\"%s NAME: CONDITION\", and settings on lines that begin with spaces", word)}
	case len(all[n-1]) == 0:
		err = &fault.Error{Class: fault.Usage, File: name, Place: fmt.Sprintf("line %d", l.Rules[n-1].Line), Found: fmt.Sprintf("%s %s without a setting", word, l.Rules[n-1].Name), Want: "one or more, on lines that begin with spaces"}
	case len(l.files) > 0:
		err = &fault.Error{Class: fault.Usage, File: name, Found: "lists that are too long", Want: fmt.Sprintf("at most %d bytes in memory", opt.memory())}
	}
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return l.Filter, all, nil
}

// Tests are the words of a rule's tests.
func (r *Rule) Tests() (words []string) {
	for _, l := range r.tests {
		words = append(words, l.word)
	}
	return words
}

// NamesHosts reports whether a rule holds for hosts alone that tests with these words name: host, domain, registered-domain. A public suffix,
// such as com, is no domain of anybody.
func (r *Rule) NamesHosts(words ...string) bool { return namesHosts(r.cond, words) }

func namesHosts(c condition, words []string) bool {
	is := func(x condition) bool { return namesHosts(x, words) }
	switch c := c.(type) {
	case allOf:
		return slices.ContainsFunc(c, is)
	case anyOf:
		return !slices.ContainsFunc(c, func(x condition) bool { return !is(x) })
	case *leaf:
		return slices.Contains(words, c.word) && !c.suffix
	}
	return false
}

// Names are hosts and domains such that a rule holds for no host that is not one of them or below one; false: there are none.
func (r *Rule) Names() ([]string, bool) { return namesOf(r.cond) }

func namesOf(c condition) (all []string, ok bool) {
	switch c := c.(type) {
	case allOf:
		for _, x := range c {
			if all, ok := namesOf(x); ok {
				return all, true
			}
		}
	case anyOf:
		for _, x := range c {
			some, ok := namesOf(x)
			if !ok {
				return nil, false
			}
			all = append(all, some...)
		}
		return all, true
	case *leaf:
		return c.names, len(c.names) > 0
	}
	return nil, false
}

// Holding returns the numbers of the given rules that hold for a URL. It is for the rules that Sections returns.
func (j *Judge) Holding(c *Candidate, rules []int) (holding []int) {
	v := &j.view
	v.resetAnswers(1, 0)
	v.reset(0, c, false)
	for _, i := range rules {
		if j.filter.Rules[i].cond.holds(v) {
			holding = append(holding, i)
		}
	}
	return holding
}
