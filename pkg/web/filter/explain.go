package filter

import "context"

// Outcome of a test in an explanation.
type Outcome string

// The outcomes.
const (
	Yes       Outcome = "yes"
	No        Outcome = "no"
	NotNeeded Outcome = "not needed" // the tests before it had decided
)

// TestTrace is a test of a rule, and how it came out.
type TestTrace struct {
	Test    string  `json:"test"` // as written
	Outcome Outcome `json:"outcome"`
	Value   string  `json:"value,omitempty"` // what it looked at where that is not the URL; a program's why
}

// RuleTrace is a rule that was tried.
type RuleTrace struct {
	Rule    *Rule
	Holds   bool
	Decides bool
	Tests   []TestTrace
}

// Explain judges a candidate, as a document if document is set, and tells what each rule
// down to the one that decides made of it.
func (j *Judge) Explain(ctx context.Context, c Candidate, document bool) ([]RuleTrace, Verdict, error) {
	judge := j.URLs
	if document {
		judge = func(ctx context.Context, c []Candidate, v []Verdict) (err error) {
			v[0], err = j.Document(ctx, c[0])
			return err
		}
	}
	v := &j.view
	traced := make(map[*leaf]TestTrace)
	v.trace = func(l *leaf, yes bool) {
		t := TestTrace{Test: l.text, Outcome: No}
		if yes {
			t.Outcome = Yes
		}
		if l.value != nil {
			t.Value = l.value(v)
		}
		traced[l] = t
	}
	defer func() { v.trace = nil }()
	cs, vs := []Candidate{c}, []Verdict{{}}
	if err := judge(ctx, cs, vs); err != nil {
		return nil, Verdict{}, err
	}
	var out []RuleTrace
	for i := range j.filter.Rules {
		r := &j.filter.Rules[i]
		if r.Document != document {
			continue
		}
		t := RuleTrace{Rule: r, Decides: r == vs[0].Rule}
		for _, l := range r.tests {
			test, ok := traced[l]
			if !ok {
				test = TestTrace{Test: l.text, Outcome: NotNeeded}
			}
			t.Tests = append(t.Tests, test)
		}
		// Under "match first" the rule that decides is the one that holds; under "match all" a
		// rule that does not decide said what it should.
		t.Holds = t.Decides
		if j.filter.All {
			t.Holds = r.Allow != t.Decides
		}
		out = append(out, t)
		if t.Decides {
			break
		}
	}
	return out, vs[0], nil
}
