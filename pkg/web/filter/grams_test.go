package filter

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// randomExpression is one of a few letters and marks, in which anything stands in anything.
func randomExpression(r *rand.Rand, depth int) string {
	if depth == 0 {
		return []string{"a", "B", "s", "k", "[?]", "=", "/", "[^/]", "[ab]", "[a-z]", "[^?]*", ".", "^", "$", `\b`, "1", "[0-9]", "ab", "é", "ſ", ""}[r.IntN(21)]
	}
	sub := func() string { return randomExpression(r, depth-1) }
	switch r.IntN(9) {
	case 0:
		return "(" + sub() + "|" + sub() + "|" + sub() + ")"
	case 1:
		return "(?:" + sub() + ")" + []string{"?", "*", "+", "{2}", "{0,3}", "{3,}", "+?"}[r.IntN(7)]
	case 2:
		return "(?i:" + sub() + ")"
	case 3:
		return "(" + sub() + ")"
	}
	return sub() + sub()
}

// What matches is never ruled out.
func TestExpressionsRuleOutNoMatch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const letters = "aAbBsSkKé?=/1ſ"
	all := []rune(letters)
	matched, out := 0, 0
	for range 5_000 {
		re, err := regexp.Compile(randomExpression(r, 4))
		if err != nil {
			continue // such as a repetition of repetitions
		}
		e := newExpression(re)
		for range 20 {
			var text strings.Builder
			for range r.IntN(14) {
				text.WriteRune(all[r.IntN(len(all))])
			}
			var g grams
			g.reset(text.String())
			may, is := e.mayMatch(text.String(), &g), e.MatchString(text.String())
			if is && !may {
				t.Fatalf("%q is ruled out for %q: marks %q, needs %v, run %d", text.String(), re, e.marks, e.needs, e.run)
			}
			if is {
				matched++
			} else if !may {
				out++
			}
		}
	}
	if matched < 1000 || out < 1000 {
		t.Errorf("%d texts match and %d are ruled out, want many", matched, out)
	}
}

// Most of what does not match is.
func TestExpressionsRuleOut(t *testing.T) {
	const url = "http://www.example.org/docs/chapter-7.html?f=12&t=34"
	for _, c := range []struct {
		name, expression, url string
		may                   bool
	}{
		{"text", "calendar", url, false},
		{"text in capitals", "(?i)/DOCS/", url, true},
		{"branches", "[?&](cal_?)?(year|yr)=[0-9]", url, false},
		{"a branch", "[?&](cal_?)?(year|t)=[0-9]", url, true},
		{"a branch that repeats", "[?&](month|yea[a-z]*r)=", url, false},
		{"marks in order", "[?][^?]*=[^?]*[?]", url, false},
		{"marks in another order", "=[^?]*[?]", url, false},
		{"a long run", "/[0-9a-f]{32}/", url, false},
		{"what may be missing", "(calendar)?[?]", url, true},
		{"not ASCII", "calendar", "http://é/", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g grams
			g.reset(c.url)
			e := newExpression(regexp.MustCompile(c.expression))
			if got := e.mayMatch(c.url, &g); got != c.may {
				t.Errorf("%q may match %q: %v, want %v", c.url, c.expression, got, c.may)
			}
		})
	}
}
