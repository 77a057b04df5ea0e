package record

import (
	"fmt"
	"slices"

	"mercator/pkg/base/fault"
)

// Count is a number by reason.
type Count struct {
	Reason string `json:"reason"`
	N      uint64 `json:"n"`
}

// Stage is one stage's counts: In = Passed + Consumed + sum(Drops),
// Out = Passed + sum(Made).
type Stage struct {
	Name  string `json:"name"`            // "mfetch", "murlset new"
	Store string `json:"store,omitempty"` // base name of the store that the stage commits to; "" for none
	// Stores lists further stores that the stage commits to, those of processing modules, by
	// their folders in the crawl: "modules/tags". Sorted.
	Stores   []string `json:"stores,omitempty"`
	Txn      string   `json:"txn,omitempty"`
	In       uint64   `json:"in"`
	InHash   string   `json:"in_hash,omitempty"` // of the rows read; absent for a source
	Passed   uint64   `json:"passed"`
	Consumed uint64   `json:"consumed"`
	Drops    []Count  `json:"drops,omitempty"`   // sorted by reason
	Made     []Count  `json:"made,omitempty"`    // sorted by reason
	Refused  []Count  `json:"refused,omitempty"` // candidates that never became rows (links refused by a filter), sorted by reason
	Out      uint64   `json:"out"`
	OutHash  string   `json:"out_hash,omitempty"` // of the rows written; absent for a sink
}

// Ledger is the ledger of this stage (last) and of each before it. Where streams
// of different history were joined, Joined holds their ledgers.
type Ledger struct {
	Stages []Stage  `json:"stages"`
	Joined []Ledger `json:"joined,omitempty"`
}

func sum(counts []Count) (n uint64) {
	for _, c := range counts {
		n += c.N
	}
	return n
}

// Balance checks every stage's sums and that each stage's out is the next one's
// in, in number and, where both are known, in hash; the error (fault.No) names the first gap.
// The ledgers in Joined come before the first stage: their outs together are its in. If
// the first stage read rows that no ledger counts, that is a gap too.
func (l Ledger) Balance() error {
	var before uint64 // rows that the first stage must have read
	for _, j := range l.Joined {
		if err := j.Balance(); err != nil {
			return err
		}
		before += j.out()
	}
	for i, s := range l.Stages {
		if want := s.Passed + s.Consumed + sum(s.Drops); s.In != want {
			return gap("%s: %d rows in, and %d passed + %d consumed + %d dropped", s.Name, s.In, s.Passed, s.Consumed, sum(s.Drops))
		}
		if want := s.Passed + sum(s.Made); s.Out != want {
			return gap("%s: %d rows out, and %d passed + %d made", s.Name, s.Out, s.Passed, sum(s.Made))
		}
		switch {
		case i > 0:
			p := l.Stages[i-1]
			if p.Out != s.In {
				return gap("between %s and %s: %d rows out, %d rows in", p.Name, s.Name, p.Out, s.In)
			}
			if p.OutHash != "" && s.InHash != "" && p.OutHash != s.InHash {
				return gap("between %s and %s: %d rows with hash %s out, %s in", p.Name, s.Name, p.Out, p.OutHash, s.InHash)
			}
		case len(l.Joined) > 0 && before != s.In:
			return gap("before %s: %d rows out of %d joined streams, %d rows in", s.Name, before, len(l.Joined), s.In)
		case len(l.Joined) == 0 && s.In > 0:
			return gap("before %s: %d rows in, from a program that keeps no ledger", s.Name, s.In)
		}
	}
	return nil
}

func gap(format string, args ...any) error {
	return &fault.Error{Class: fault.No, Place: "ledger", Found: fmt.Sprintf(format, args...)}
}

// out is how many rows the ledger's stream has.
func (l Ledger) out() uint64 {
	if n := len(l.Stages); n > 0 {
		return l.Stages[n-1].Out
	}
	var n uint64
	for _, j := range l.Joined {
		n += j.out()
	}
	return n
}

// Merge joins the ledger of two streams that were concatenated. Where the same
// stages (name, store and transaction) made both, their numbers are added, and the
// hashes, which cannot be, are dropped. Otherwise both stand side by side in Joined.
func (l Ledger) Merge(o Ledger) Ledger {
	if l.sameChain(o) {
		return l.plus(o)
	}
	joined := append([]Ledger(nil), l.parts()...)
next:
	for _, p := range o.parts() {
		for i, j := range joined {
			if j.sameChain(p) {
				joined[i] = j.plus(p)
				continue next
			}
		}
		joined = append(joined, p)
	}
	return Ledger{Joined: joined}
}

// parts are the ledgers that l is joined from, or l itself.
func (l Ledger) parts() []Ledger {
	if len(l.Stages) == 0 && len(l.Joined) > 0 {
		return l.Joined
	}
	return []Ledger{l}
}

func (l Ledger) sameChain(o Ledger) bool {
	if len(l.Stages) != len(o.Stages) || len(l.Joined) != len(o.Joined) {
		return false
	}
	for i, s := range l.Stages {
		p := o.Stages[i]
		if s.Name != p.Name || s.Store != p.Store || s.Txn != p.Txn {
			return false
		}
	}
	for i, j := range l.Joined {
		if !j.sameChain(o.Joined[i]) {
			return false
		}
	}
	return true
}

// plus sums two ledgers of the same chain.
func (l Ledger) plus(o Ledger) Ledger {
	var out Ledger
	for i, s := range l.Stages {
		out.Stages = append(out.Stages, s.Plus(o.Stages[i]))
	}
	for i, j := range l.Joined {
		out.Joined = append(out.Joined, j.plus(o.Joined[i]))
	}
	return out
}

// Plus sums two runs of a stage. What is of one run alone, the hashes, is left out.
func (s Stage) Plus(o Stage) Stage {
	s.Stores = slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Stores, o.Stores))))
	s.In += o.In
	s.Passed += o.Passed
	s.Consumed += o.Consumed
	s.Out += o.Out
	s.Drops = addCounts(s.Drops, o.Drops)
	s.Made = addCounts(s.Made, o.Made)
	s.Refused = addCounts(s.Refused, o.Refused)
	s.InHash, s.OutHash = "", ""
	return s
}

// addCounts merges two lists that are sorted by reason.
func addCounts(a, b []Count) []Count {
	var out []Count
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Reason < b[0].Reason:
			out, a = append(out, a[0]), a[1:]
		case a[0].Reason > b[0].Reason:
			out, b = append(out, b[0]), b[1:]
		default:
			out = append(out, Count{a[0].Reason, a[0].N + b[0].N})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}
