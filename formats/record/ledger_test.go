package record

import (
	"reflect"
	"testing"
)

func chain() Ledger {
	return Ledger{Stages: []Stage{
		{Name: "mfrontier next", Store: "frontier", Txn: "r1", Made: []Count{{"queue", 10}}, Out: 10, OutHash: "aa"},
		{Name: "mfetch", Store: "fetch", Txn: "r1", In: 10, InHash: "aa", Passed: 8, Drops: []Count{{"denied", 2}}, Made: []Count{{"robots", 3}}, Out: 11, OutHash: "bb"},
		{Name: "mextract", Txn: "r1", In: 11, InHash: "bb", Consumed: 9, Drops: []Count{{"duplicate", 1}, {"not-2xx", 1}}, Made: []Count{{"link", 50}}, Out: 50, OutHash: "cc"},
	}}
}

func TestBalance(t *testing.T) {
	for _, c := range []struct {
		name string
		want string
		edit func(l *Ledger)
	}{
		{"whole", "", func(*Ledger) {}},
		{"empty", "", func(l *Ledger) { *l = Ledger{} }},
		{"in", "ledger: mfetch: 11 rows in, and 8 passed + 0 consumed + 2 dropped", func(l *Ledger) { l.Stages[1].In++ }},
		{"out", "ledger: mextract: 51 rows out, and 0 passed + 50 made", func(l *Ledger) { l.Stages[2].Out++ }},
		{"between", "ledger: between mfetch and mextract: 11 rows out, 10 rows in", func(l *Ledger) { l.Stages[2].In--; l.Stages[2].Consumed-- }},
		{"hash", "ledger: between mfrontier next and mfetch: 10 rows with hash aa out, dd in", func(l *Ledger) { l.Stages[1].InHash = "dd" }},
		{"stage gone", "ledger: between mfrontier next and mextract: 10 rows out, 11 rows in", func(l *Ledger) { l.Stages = append(l.Stages[:1:1], l.Stages[2]) }},
		{"no ledger before", "ledger: before mfetch: 10 rows in, from a program that keeps no ledger", func(l *Ledger) { l.Stages = l.Stages[1:] }},
		{"joined", "ledger: before mfetch: 9 rows out of 2 joined streams, 10 rows in", func(l *Ledger) {
			l.Stages = l.Stages[1:]
			l.Joined = []Ledger{{Stages: []Stage{{Name: "a", Made: []Count{{"x", 4}}, Out: 4}}}, {Stages: []Stage{{Name: "b", Made: []Count{{"x", 5}}, Out: 5}}}}
		}},
		{"inside joined", "ledger: a: 5 rows out, and 0 passed + 4 made", func(l *Ledger) {
			l.Stages = l.Stages[1:]
			l.Joined = []Ledger{{Stages: []Stage{{Name: "a", Made: []Count{{"x", 4}}, Out: 5}}}, {Stages: []Stage{{Name: "b", Made: []Count{{"x", 5}}, Out: 5}}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := chain()
			c.edit(&l)
			got := ""
			if err := l.Balance(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	two := chain().Merge(chain())
	if len(two.Joined) != 0 || two.Stages[2].Out != 100 || two.Stages[1].InHash != "" || two.Stages[2].Drops[1] != (Count{"not-2xx", 2}) {
		t.Errorf("the same stages: %+v", two)
	}
	if err := two.Balance(); err != nil {
		t.Error(err)
	}
	other := chain()
	for i := range other.Stages {
		other.Stages[i].Txn = "r2"
	}
	both := chain().Merge(other)
	if len(both.Joined) != 2 || len(both.Stages) != 0 || both.out() != 100 {
		t.Errorf("two rounds: %+v", both)
	}
	if three := both.Merge(other); len(three.Joined) != 2 || three.Joined[1].out() != 100 || !reflect.DeepEqual(three.Joined[0], chain()) {
		t.Errorf("and once more the second: %+v", three)
	}
	both.Stages = []Stage{{Name: "murlset new", In: 100, Passed: 100, Out: 100}}
	if err := both.Balance(); err != nil {
		t.Error(err)
	}
	if got := both.Merge(both); len(got.Joined) != 2 || got.Stages[0].Out != 200 || got.Balance() != nil {
		t.Errorf("twice the same join: %+v", got)
	}
	l := chain()
	before := chain()
	l.Merge(chain())
	l.Merge(other)
	if !reflect.DeepEqual(l, before) {
		t.Error("Merge changed its receiver")
	}
	if got := addCounts([]Count{{"a", 1}, {"c", 1}}, []Count{{"b", 2}, {"c", 3}, {"d", 4}}); !reflect.DeepEqual(got, []Count{{"a", 1}, {"b", 2}, {"c", 4}, {"d", 4}}) {
		t.Errorf("%v", got)
	}
}
