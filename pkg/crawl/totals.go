package crawl

import (
	"slices"
	"strings"

	"mercator/formats/record"
)

// Totals sum up the ledgers of the rounds from the empty crawl to a checkpoint, the seeds and all
// other changes that a checkpoint closed among them. So nobody has to read as many checkpoints
// as there are rounds, and what a forgotten one said still counts.
type Totals struct {
	Rounds uint64         `json:"rounds"`
	Stages []record.Stage `json:"stages,omitempty"` // by name; without what is of one round: stores, transaction, hashes
}

// with are the totals after a further round, of several shards with a ledger of each.
func (t Totals) with(ledgers ...record.Ledger) Totals {
	t.Rounds++
	t.Stages = slices.Clone(t.Stages)
	var seen map[string]bool
	if len(ledgers) > 1 { // what a stage made may go two ways
		seen = map[string]bool{}
	}
	for _, l := range ledgers {
		t.addLedger(l, seen)
	}
	return t
}

// addLedger adds the stages of a ledger that are not in seen, unless that is nil.
func (t *Totals) addLedger(l record.Ledger, seen map[string]bool) {
	for _, j := range l.Joined {
		t.addLedger(j, seen)
	}
	for _, s := range l.Stages {
		if key := s.Name + " " + s.Store + " " + s.Txn + " " + s.InHash + " " + s.OutHash; seen != nil && s.InHash+s.OutHash != "" {
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		s.Store, s.Stores, s.Txn, s.InHash, s.OutHash = "", nil, "", "", ""
		i, found := slices.BinarySearchFunc(t.Stages, s.Name, func(a record.Stage, name string) int { return strings.Compare(a.Name, name) })
		if found {
			t.Stages[i] = t.Stages[i].Plus(s)
		} else {
			t.Stages = slices.Insert(t.Stages, i, s)
		}
	}
}
