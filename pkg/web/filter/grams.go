package filter

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// grams are facts of a URL that rule out most contains and regex tests at a glance: pairs of neighbouring bytes, letters in lower case, as a set
// in which some share a bit, and the longest run of letters and digits.
type grams struct {
	pairs   [1 << gramBits / 64]uint64
	run     int
	foreign bool // the URL is not ASCII
}

const gramBits = 10

// gram is the bit of a pair.
func gram(a, b byte) uint16 { return (uint16(a)<<5 ^ uint16(b)) & (1<<gramBits - 1) }

// lower is a table of letters in lower case, and alnum of letters and digits.
var lower, alnum = func() (to [256]byte, is [256]bool) {
	for i := range to {
		to[i] = byte(i)
		if c := byte(i) | 0x20; 'a' <= c && c <= 'z' && i < 0x80 {
			to[i], is[i] = c, true
		}
		is[i] = is[i] || '0' <= i && i <= '9'
	}
	return to, is
}()

func (g *grams) reset(url string) {
	*g = grams{}
	var before, all byte
	from := 0 // where the run began
	for i := range len(url) {
		c := url[i]
		all |= c
		if !alnum[c] {
			g.run, from = max(g.run, i-from), i+1
		}
		c = lower[c]
		bit := gram(before, c)
		g.pairs[bit/64] |= 1 << (bit % 64)
		before = c
	}
	g.run, g.foreign = max(g.run, len(url)-from), all >= 0x80
}

// mostPairs of a text are looked for.
const mostPairs = 16

// literal is a text that may be in a URL, by its pairs; nil: it has none.
type literal []uint16

func newLiteral(s string) (l literal) {
	for i := 1; i < min(len(s), mostPairs); i++ {
		l = append(l, gram(lower[s[i-1]], lower[s[i]]))
	}
	return l
}

// mayHave reports whether a literal may be in the URL, in small letters or capitals.
func (g *grams) mayHave(l literal) bool {
	for _, bit := range l {
		if g.pairs[bit/64]>>(bit%64)&1 == 0 {
			return false
		}
	}
	return true
}

// expression is a regular expression with what an ASCII text must have to match it, as RE2's prefilter finds it.
type expression struct {
	*regexp.Regexp
	once  sync.Once
	marks []byte      // in this order, others between them
	needs [][]literal // one of each
	run   int         // least length of a run of letters and digits
}

func newExpression(re *regexp.Regexp) *expression { return &expression{Regexp: re} }

// derive finds what it needs, when it is first used: most URLs do not come to most expressions.
func (e *expression) derive() {
	if tree, err := syntax.Parse(e.String(), syntax.Perl); err == nil {
		e.close(e.walk(tree))
	}
}

// mayMatch reports whether a URL may match.
func (e *expression) mayMatch(url string, g *grams) bool {
	if e.once.Do(e.derive); g.foreign {
		return true
	}
	if g.run < e.run {
		return false
	}
	for _, mark := range e.marks {
		i := strings.IndexByte(url, mark)
		if i < 0 {
			return false
		}
		url = url[i+1:]
	}
	for _, some := range e.needs {
		if !slices.ContainsFunc(some, g.mayHave) {
			return false
		}
	}
	return true
}

// mostTexts bounds how many texts a part of an expression is taken apart into.
const mostTexts = 64

// close makes a need of texts: every match has at least one of them. nil: no such texts are known.
func (e *expression) close(texts []string) {
	if len(texts) == 1 && len(texts[0]) == 1 && !alnum[texts[0][0]] {
		e.marks = append(e.marks, texts[0][0])
	} else if need := literals(texts); need != nil {
		e.needs = append(e.needs, need)
	}
}

// literals returns the literals of texts; nil if one is too short.
func literals(texts []string) (all []literal) {
	for _, s := range texts {
		l := newLiteral(s)
		if l == nil {
			return nil
		}
		all = append(all, l)
	}
	return all
}

// walk returns all texts that re matches, and if these are many or not known, nil, with the needs of its parts noted.
func (e *expression) walk(re *syntax.Regexp) (texts []string) {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return []string{""}
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			for c := re.Rune[i]; c <= re.Rune[i+1] && c < 0x80; c++ {
				if len(texts) == mostTexts {
					return nil
				}
				texts = append(texts, string(rune(lower[c])))
			}
		}
		return compact(texts)
	case syntax.OpCapture:
		return e.walk(re.Sub[0])
	case syntax.OpPlus, syntax.OpRepeat:
		if re.Op == syntax.OpPlus || re.Min > 0 {
			if re.Op == syntax.OpRepeat && isAlnum(re.Sub[0]) {
				e.run = max(e.run, re.Min)
			}
			e.close(e.walk(re.Sub[0]))
		}
	case syntax.OpQuest:
		var apart expression // what its parts need is not needed
		if texts = apart.walk(re.Sub[0]); texts != nil {
			texts = compact(append(texts, ""))
		}
	case syntax.OpAlternate:
		var need []literal // of each branch
		known, needed := true, true
		for _, sub := range re.Sub {
			var part expression
			some := part.walk(sub)
			known, texts = known && some != nil, append(texts, some...)
			of := literals(some)
			if some == nil && len(part.needs) > 0 {
				of = part.needs[0]
			}
			needed, need = needed && of != nil, append(need, of...)
		}
		if known && len(texts) <= mostTexts {
			return compact(texts)
		}
		if needed && len(need) <= mostTexts {
			e.needs = append(e.needs, need)
		}
		return nil
	case syntax.OpConcat:
		texts = []string{""}
		whole := true
		for _, sub := range re.Sub {
			var part expression
			next := part.walk(sub)
			if next != nil && len(texts)*len(next) <= mostTexts {
				texts = product(texts, next)
				continue
			}
			e.close(texts)
			e.marks, e.needs, e.run = append(e.marks, part.marks...), append(e.needs, part.needs...), max(e.run, part.run)
			whole = false
			if texts = next; next == nil {
				texts = []string{""}
			}
		}
		if !whole {
			e.close(texts)
			return nil
		}
	}
	return texts
}

// isAlnum reports whether re is one letter or digit.
func isAlnum(re *syntax.Regexp) bool {
	if re.Op != syntax.OpCharClass {
		return false
	}
	for i := 0; i < len(re.Rune); i += 2 {
		for c := re.Rune[i]; c <= re.Rune[i+1] && c < 0x80; c++ {
			if !alnum[c] {
				return false
			}
		}
	}
	return true
}

func compact(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// product are the texts of a, each with each of b behind it.
func product(a, b []string) (all []string) {
	for _, x := range a {
		for _, y := range b {
			all = append(all, x+y)
		}
	}
	return all
}
