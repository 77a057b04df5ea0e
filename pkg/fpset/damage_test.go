package fpset

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/merge"
)

// TestDamageIsMet flips a bit in the middle of a run: whatever reads that block
// says so, and what does not read it goes on.
func TestDamageIsMet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	st := newStore(t, nil)
	keys := twoRuns(t, st, rnd)
	slices.Sort(keys)
	sum, err := Describe(st)
	must.OK(t, err)
	run := sum.Runs[1]
	path := st.Path(run.Path)
	b, err := os.ReadFile(path)
	must.OK(t, err)
	b[len(b)/2] ^= 1 << rnd.IntN(8)
	must.OK(t, os.WriteFile(path, b, 0o666))
	low, middle := keys[:100], keys[len(keys)/2-100:len(keys)/2+100]
	reads := map[string]struct {
		damaged bool
		read    func(s Set) error
	}{
		"ContainsAll of the block":  {true, func(s Set) error { return s.ContainsAll(middle, make([]bool, len(middle))) }},
		"ContainsAll of another":    {false, func(s Set) error { return s.ContainsAll(low, make([]bool, len(low))) }},
		"Sweep over the block":      {true, func(s Set) error { return s.Sweep(30000).Mark(middle, make([]bool, len(middle))) }},
		"Sweep over another":        {false, func(s Set) error { return s.Sweep(30000).Mark(low, make([]bool, len(low))) }},
		"Sweep by points":           {true, func(s Set) error { return s.Sweep(1).Mark(middle, make([]bool, len(middle))) }},
		"Check":                     {true, func(s Set) error { return s.Check(nil) }},
		"a change that merges it":   {true, func(s Set) error { return extendBy(t, st, s, 7) }},
		"a change that leaves it":   {false, func(s Set) error { return extendBy(t, st, s, 1) }},
		"the union, as for a merge": {true, func(s Set) error { return drain(s) }},
	}
	for name, r := range reads {
		t.Run(name, func(t *testing.T) {
			s, err := LoadCurrent(st, Options{Workers: 2})
			must.OK(t, err)
			if err := r.read(s); errors.Is(err, fault.Corrupt) != r.damaged || err != nil && !r.damaged {
				t.Errorf("%s: %v", name, err)
			}
			s.Close()
		})
	}
	// Cut short, it is not even opened.
	must.OK(t, os.WriteFile(path, b[:len(b)/2], 0o666))
	if _, err := LoadCurrent(st, Options{}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("cut short: %v", err)
	}
}

// extendBy adds a key to s, which has had two batches, as if it were batch 2 + n:
// the ninth merges all runs. It does not commit.
func extendBy(t *testing.T, st *store.Store, s Set, n int) error {
	t.Helper()
	f, err := (&Marker{set: s}).file(merge.Keys([]uint64{1}))
	must.OK(t, err)
	defer f.file.Close()
	tx, _, err := st.Begin(context.Background(), "add", "")
	must.OK(t, err)
	defer tx.Abort()
	return s.(*runs).extend(tx, f.keys, uint64(2+n))
}

func drain(s Set) error {
	all, err := s.All()
	for err == nil {
		_, err = all.Block()
	}
	return err
}

// Check reads a set of several runs once, and tells so.
func TestCheckReadsOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(23, 24))
	st := newStore(t, nil)
	twoRuns(t, st, rnd)
	sum, err := Describe(st)
	must.OK(t, err)
	s, err := LoadCurrent(st, Options{})
	must.OK(t, err)
	defer s.Close()
	var told int64
	must.OK(t, s.Check(func(n int64) { told += n }))
	_, _, read := s.Reads()
	if len(sum.Runs) != 2 || int64(read) > sum.Bytes*5/4 || told < sum.Bytes*3/4 || told > int64(read) {
		t.Errorf("%d runs of %d bytes: %d were read, and %d told", len(sum.Runs), sum.Bytes, read, told)
	}
}

// twoRuns puts two runs of random keys into a set, and gives the keys of the second.
func twoRuns(t *testing.T, st *store.Store, rnd *rand.Rand) (keys []uint64) {
	t.Helper()
	for range 2 {
		keys = make([]uint64, 30000)
		for i := range keys {
			keys[i] = rnd.Uint64()
		}
		_, err := markAll(st, "", keys, 8192, 1<<20, Options{})
		must.OK(t, err)
	}
	return keys
}
