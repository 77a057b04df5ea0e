package frontier

import (
	"fmt"
	"slices"
	"strconv"
)

// given are the flags of mfrontier with which a transaction was made, each with its value. They are
// kept of the last two of each verb: one that is repeated is what it was, whatever flags it has now,
// and its user shall know.
type given struct {
	Verb  string   `json:"verb,omitempty"` // "": next
	Txn   string   `json:"txn"`
	Flags []string `json:"flags"`
}

// Options are those of a verb: NextOptions, AddOptions, UpdateOptions and ReleaseOptions.
type Options interface {
	given() given
}

// flagList is a list of flags, each with its value.
type flagList []string

func (l *flagList) add(name string, given bool, value any) {
	if given {
		*l = append(*l, fmt.Sprintf("--%s %v", name, value))
	}
}

// given has the flags that choose a batch's URLs or their order.
func (o NextOptions) given() given {
	var l flagList
	l.add("number", o.N > 0, o.N)
	l.add("per-host", o.PerHost > 0, o.PerHost)
	l.add("per-domain", o.PerDomain > 0, o.PerDomain)
	l.add("for", o.For > 0, o.For)
	timed := o.For > 0
	l.add("min-delay", timed, o.Politeness.MinDelay)
	l.add("delay-factor", timed, strconv.FormatFloat(o.Politeness.DelayFactor, 'g', -1, 64))
	l.add("max-delay", timed, o.Politeness.MaxDelay)
	l.add("connections", timed, o.Politeness.Connections)
	l.add("duration", timed, o.Politeness.Duration)
	return given{Txn: o.Txn, Flags: l}
}

func (o AddOptions) given() given {
	var l flagList
	l.arrivals(o.Limits, o.Prioritizer)
	return given{"add", o.Txn, l}
}

func (o UpdateOptions) given() given {
	var l flagList
	l.add("max-attempts", true, o.Retries.MaxAttempts)
	l.add("retry-delay", true, o.Retries.Delay)
	l.add("max-retry-delay", true, o.Retries.MaxDelay)
	l.add("longest-wait", o.Retries.LongestWait > 0, o.Retries.LongestWait)
	l.add("dead-after", o.Dead.After > 0, o.Dead.After)
	l.add("dead-delay", o.Dead.After > 0, o.Dead.Delay)
	l.add("max-dead-delay", o.Dead.After > 0, o.Dead.MaxDelay)
	l.arrivals(o.Limits, o.Prioritizer)
	l.add("domain-budget", o.Budgets.Base > 0, o.Budgets.Base)
	l.add("domain-growth", o.Budgets.Base > 0, strconv.FormatFloat(o.Budgets.Growth, 'g', -1, 64))
	return given{"update", o.Txn, l}
}

func (o ReleaseOptions) given() given {
	var l flagList
	l.add("outcome", o.Outcome != "", o.Outcome)
	l.add("host", o.Host != "", o.Host)
	return given{"release", o.Txn, l}
}

// arrivals adds the flags that say what becomes of new URLs.
func (l *flagList) arrivals(limits Limits, p Prioritizer) {
	l.add("max-depth", limits.Depth > 0, limits.Depth)
	l.add("max-host-urls", limits.HostURLs > 0, limits.HostURLs)
	l.add("prioritizer", p.Command != "", strconv.Quote(p.Command))
}

// note keeps the flags of a transaction that has a name.
func (s *state) note(o Options) {
	g := o.given()
	if g.Txn == "" {
		return
	}
	same := func(kept given) bool { return kept.Verb == g.Verb }
	before := slices.IndexFunc(s.Given, same)
	if before >= 0 && slices.ContainsFunc(s.Given[before+1:], same) {
		s.Given = slices.Delete(s.Given, before, before+1)
	}
	s.Given = append(s.Given, g)
}

// Repeats tells how the flags of o differ from those with which its transaction was made: had
// are those that it was not asked for now, has those that it did not have then. Both are nil
// where they are the same, or not known any more.
func (f *Frontier) Repeats(o Options) (had, has []string, err error) {
	s, _, err := f.current()
	if err != nil {
		return nil, nil, err
	}
	now := o.given()
	for _, was := range s.Given {
		if was.Verb == now.Verb && was.Txn == now.Txn {
			return without(was.Flags, now.Flags), without(now.Flags, was.Flags), nil
		}
	}
	return nil, nil, nil
}

// without are the elements of a that are not in b.
func without(a, b []string) (out []string) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
