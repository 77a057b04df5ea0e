package stats

import (
	"fmt"
	"math"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/costtest"
	"mercator/pkg/base/must"
)

// at is a command that ended s seconds after the start of its round.
func at(command string, s, elapsed, own float64) Spent {
	end := time.Unix(1000, 0).Add(seconds(s))
	return Spent{Command: command, Began: end.Add(-seconds(elapsed)), ElapsedS: elapsed, OwnS: own}
}

// The parts of a round add up to its time: of one pipe, of shards that work at the same time, and with a day between two stages.
func TestSpread(t *testing.T) {
	waits := at("mfetch", 5, 5, 3)
	waits.WaitedS = 2
	later := at("mckpt commit", 86400, 1, 1)
	for name, c := range map[string]struct {
		spent []Spent
		want  Spread
	}{
		"pipe": {[]Spent{at("mfrontier next", 1, 1, 1), at("mresolve", 2, 2, 1), waits, at("mfpset mark", 5, 5, 0), at("mextract", 6, 6, 1), later},
			Spread{ElapsedS: 7, FrontierS: 1, NamesS: 1, WaitingS: 2, FetchingS: 1, ExtractingS: 1, CheckpointS: 1}},
		"two shards": {[]Spent{at("mresolve", 4, 4, 4), at("mfetch", 4, 2, 2), at("wait", 6, 2, 2), at("murlset new", 6, 2, 2), at("mmerge split", 7, 1, 1)},
			Spread{ElapsedS: 7, NamesS: 3, FetchingS: 1, WaitingS: 1, SetsS: 1, ExchangeS: 1}},
		"canonical names": {[]Spent{at("mextract", 1, 1, 1), at("mresolve canon", 3, 3, 2), at("murlset new", 4, 4, 1), at("mckpt push", 5, 1, 1), at("anything", 7, 2, 2)},
			Spread{ElapsedS: 7, ExtractingS: 1, NamesS: 2, SetsS: 1, CheckpointS: 1, OtherS: 2}},
		"nothing": {[]Spent{at("mfetch", 1, 1, 0)}, Spread{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := spread(c.spent)
			sum := 0.0
			for _, p := range got.Parts() {
				sum += p.S
			}
			if got != c.want || math.Abs(sum-got.ElapsedS) > 1e-9 {
				t.Errorf("%s: %+v, want %+v; the parts are %g", name, got, c.want, sum)
			}
		})
	}
}

// Of any number of commands that work at the same time the parts are told at once.
func TestManyCommands(t *testing.T) {
	costtest.Linear(t, 15_000, func(n int) func() {
		var all []Spent
		for i := range n { // each begins a millisecond after the one before it, and all end together
			own := 200 - float64(i)/1000
			all = append(all, at("murlset new", 200, own, own))
		}
		return func() {
			if s := spread(all); math.Abs(s.ElapsedS-200) > 1e-6 || math.Abs(s.SetsS-200) > 1e-6 {
				t.Errorf("%+v, want 200 s of sets", s)
			}
		}
	})
}

// However many rounds there are, the list is bounded, and what it says adds up.
func TestManyRounds(t *testing.T) {
	for _, n := range []int{1, maxSpreads, maxSpreads + 1, 5*maxSpreads + 3} {
		c := New(0)
		c.Topic = func(r *record.Fetch) (string, bool) { return "mouse", r.Depth == 0 }
		for i := range n {
			one := at("mresolve", 1, 1, 1)
			one.LookupsS = 1
			c.Round(fmt.Sprint("r", i+1), []Spent{one})
			for depth := range uint16(2) {
				r := row("a.example", i, start)
				r.Depth, r.DurationUS = depth, 1_500_000
				must.OK(t, c.Add(&r))
			}
		}
		s, err := c.End(nil)
		must.OK(t, err)
		if s.Times.Rounds != uint64(n) || s.Times.NamesS != float64(n) || s.Times.NamesOfElapsed != 1 || s.Times.NamesOfThread != 0.25 || s.Focus.Harvest != 0.5 || s.Focus.Topics[0] != (Topic{"mouse", uint64(n)}) {
			t.Errorf("%d rounds: %+v, %+v", n, s.Times.Spread, s.Focus.Yield)
		}
		sum, fetched := 0.0, uint64(0)
		for i := range s.Times.ByRound {
			sum += s.Times.ByRound[i].NamesS
			fetched += s.Focus.ByRound[i].Fetched
		}
		if len(s.Times.ByRound) > maxSpreads || len(s.Times.ByRound) < min(n, maxSpreads/2) || sum != float64(n) || fetched != uint64(2*n) || s.Times.ByRound[0].Round != "r1" {
			t.Errorf("%d rounds in %d places, which add up to %g, %d", n, len(s.Times.ByRound), sum, fetched)
		}
	}
}

// A round without recorded times is counted as such, and without any there are no times.
func TestRoundsWithoutTimes(t *testing.T) {
	c := New(0)
	c.Round("r1", nil)
	c.Round("r1", []Spent{at("mfetch", 1, 1, 1)}) // of another shard
	c.Round("r2", nil)
	for _, at := range []int64{0, 240} {
		r := row("a.example", 1, start+record.Time(at*1e6))
		r.DurationUS = 5e6
		must.OK(t, c.Add(&r))
	}
	s, err := c.End(nil)
	if err != nil || s.Times.Rounds != 1 || s.Times.Without != 1 || s.Times.SpanS != 245 {
		t.Errorf("%+v, %v", s.Times, err)
	}
	c = New(0)
	c.Round("r1", nil)
	if s, err := c.End(nil); err != nil || s.Times != nil || s.Focus != nil {
		t.Errorf("%+v, %+v, %v", s.Times, s.Focus, err)
	}
}
