package frontier

import (
	"fmt"
	"slices"
	"strconv"
)

// batchFlags are the flags of mfrontier that made a batch, each with its value. They are
// kept for the last two batches, as their rows are: a round that is repeated gets the batch
// that it had, whatever flags it has now, and its user shall know.
type batchFlags struct {
	Txn   string   `json:"txn"`
	Flags []string `json:"flags"`
}

// flags are those that choose a batch's URLs or their order. Overlap is not among
// them: the batch is taken with it, and given again without.
func (o NextOptions) flags(p *policy) []string {
	var list []string
	add := func(name string, given bool, value any) {
		if given {
			list = append(list, fmt.Sprintf("--%s %v", name, value))
		}
	}
	add("number", o.N > 0, o.N)
	add("per-host", o.PerHost > 0, o.PerHost)
	add("per-domain", o.PerDomain > 0, o.PerDomain)
	add("for", o.For > 0, o.For)
	add("back-queues", o.BackQueues != "", o.BackQueues)
	back, _ := p.backQueues(o.BackQueues, o.Politeness.Connections) // Check has seen it
	timed := o.For > 0 || back > 0
	add("min-delay", timed, o.Politeness.MinDelay)
	add("delay-factor", timed, strconv.FormatFloat(o.Politeness.DelayFactor, 'g', -1, 64))
	add("max-delay", timed, o.Politeness.MaxDelay)
	add("connections", timed, o.Politeness.Connections)
	add("duration", timed, o.Politeness.Duration)
	return list
}

// note keeps the flags of a batch that is taken under a name.
func (s *state) note(o NextOptions) {
	if o.Txn == "" {
		return
	}
	s.Flags = append(s.Flags, batchFlags{o.Txn, o.flags(s.policy)})
	s.Flags = s.Flags[max(0, len(s.Flags)-2):]
}

// Repeats tells how the flags of o differ from those that the batch of o.Txn was taken
// with: had are those that it was not asked for now, has those that it did not have
// then. Both are nil where they are the same, or not known any more.
func (f *Frontier) Repeats(o NextOptions) (had, has []string, err error) {
	s, _, err := f.current()
	if err != nil {
		return nil, nil, err
	}
	for _, b := range s.Flags {
		if b.Txn == o.Txn {
			now := o.flags(s.policy)
			return without(b.Flags, now), without(now, b.Flags), nil
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
