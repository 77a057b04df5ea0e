package fpset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/crawl"
)

// bounded is a set of keys below some number, as a user sees it.
type bounded map[uint64]bool

// contents asks the set of st for all keys below n.
func contents(t *testing.T, st *store.Store, n uint64) bounded {
	t.Helper()
	s, err := LoadCurrent(st, Options{})
	must.OK(t, err)
	defer s.Close()
	must.OK(t, s.Check(nil))
	keys, seen := make([]uint64, n), make([]bool, n)
	for i := range keys {
		keys[i] = spread(uint64(i))
	}
	must.OK(t, s.ContainsAll(keys, seen))
	have := bounded{}
	for i := range keys {
		if seen[i] {
			have[uint64(i)] = true
		}
	}
	if uint64(len(have)) != s.Count() {
		t.Errorf("%d keys found, and a count of %d", len(have), s.Count())
	}
	return have
}

// spread makes keys that share their high bits, among them 0.
func spread(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 >> 8 }

func equal(a, b bounded) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return len(a) == len(b)
}

// TestImplementations runs the same random life of a crawl with every
// implementation: rounds that commit, that die before or after they publish, that are
// abandoned, and restores of any checkpoint. Each time exactly the keys of the lineage
// are seen. (The filter is large enough that none of these keys is a false drop.)
func TestImplementations(t *testing.T) {
	for _, impl := range Impls() {
		for seed := range uint64(2) {
			t.Run(fmt.Sprint(impl, seed), func(t *testing.T) { life(t, impl, rand.New(rand.NewPCG(seed, 7))) })
		}
	}
}

const universe = 3000 // keys

func life(t *testing.T, impl string, rnd *rand.Rand) {
	ctx := context.Background()
	dir := t.TempDir() + "/crawl"
	with := CreateOptions{Impl: impl}
	if impl == Bloom {
		with.Size = 1 << 20
	}
	crawl, err := crawl.Init(dir, []byte("# none\n"), nil, func(string) error {
		return errors.Join(Create(dir+"/content", with, store.Options{}), store.Create(dir+"/frontier", "frontier", 1, nil, store.Options{}))
	}, crawl.Options{})
	must.OK(t, err)
	st, err := store.Open(dir+"/content", Kind, Version, store.Options{})
	must.OK(t, err)
	frontier, err := store.Open(dir+"/frontier", "frontier", 1, store.Options{})
	must.OK(t, err)
	now := bounded{}
	checkpoints := map[uint64]bounded{1: {}}
	var numbers []uint64
	for round := range 20 {
		txn := fmt.Sprintf("r%d", round)
		next := bounded{}
		for k := range now {
			next[k] = true
		}
		tx, done, err := st.Begin(ctx, "mark", txn)
		if err != nil || done != nil {
			t.Fatal(done, err)
		}
		set, err := Load(st, tx.Base(), Options{})
		must.OK(t, err)
		m := NewMarker(set, 0, "")
		for range 1 + rnd.IntN(3) {
			i := make([]uint64, rnd.IntN(400))
			keys, seen := make([]uint64, len(i)), make([]bool, len(i))
			for j := range i {
				i[j] = rnd.Uint64N(universe)
				keys[j] = spread(i[j])
			}
			mark := m.Mark
			if rnd.IntN(2) == 0 {
				mark = m.MarkBatch
			}
			must.OK(t, mark(keys, seen))
			for j := range i {
				if seen[j] != next[i[j]] {
					t.Fatalf("round %d: key %d: seen is %v, want %v", round, i[j], seen[j], next[i[j]])
				}
				next[i[j]] = true
			}
		}
		must.OK(t, m.Commit(tx), m.Close(), set.Close())
		if rnd.IntN(4) == 0 { // it dies before it publishes, and may be run again
			tx.Abort()
			if got := contents(t, st, universe); !equal(got, now) {
				t.Fatalf("round %d: %d keys after a change that did not commit, want %d", round, len(got), len(now))
			}
			continue
		}
		hash := fmt.Sprintf("%032x", 1)
		ledger := record.Ledger{Stages: []record.Stage{
			{Name: "mfpset mark", Store: "content", Txn: txn, Made: []record.Count{{Reason: "test", N: 1}}, Out: 1, OutHash: hash},
			{Name: "mfrontier update", Store: "frontier", Txn: txn, In: 1, InHash: hash, Consumed: 1},
		}}
		_, err = tx.Commit(1, "", ledger)
		must.OK(t, err)
		if got := contents(t, st, universe); !equal(got, next) {
			t.Fatalf("round %d: %d keys, want %d", round, len(got), len(next))
		}
		ftx, _, err := frontier.Begin(ctx, "update", txn)
		must.OK(t, err)
		_, err = ftx.Commit(1, hash, ledger)
		must.OK(t, err)
		if rnd.IntN(4) == 0 {
			if _, err := crawl.Abandon(ctx); err != nil {
				t.Fatal(err)
			}
		} else {
			k, _, err := crawl.Commit(ctx, txn, time.Unix(int64(round), 0), 0)
			must.OK(t, err)
			now = next
			checkpoints[k.Number] = now
			numbers = append(numbers, k.Number)
		}
		if len(numbers) > 0 && rnd.IntN(3) == 0 {
			n := numbers[rnd.IntN(len(numbers))]
			must.OK(t, crawl.Restore(ctx, n))
			now = checkpoints[n]
		}
		if got := contents(t, st, universe); !equal(got, now) {
			t.Fatalf("round %d: %d keys, want %d", round, len(got), len(now))
		}
	}
	if _, err := crawl.Verify(ctx); err != nil {
		t.Error(err)
	}
}

// TestLossy: a small filter calls keys seen that are not, at the rate that it
// tells, and never one unseen that is in it. It cannot be listed.
func TestLossy(t *testing.T) {
	dir := t.TempDir() + "/content"
	must.OK(t, Create(dir, CreateOptions{Impl: Bloom, Size: 16 << 10}, store.Options{}))
	st, err := store.Open(dir, Kind, Version, store.Options{})
	must.OK(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	added := make([]uint64, 20_000)
	for i := range added {
		added[i] = rnd.Uint64()
	}
	for _, part := range [][]uint64{added[:5000], added[5000:]} {
		mark(t, st, part)
	}
	s, err := LoadCurrent(st, Options{})
	must.OK(t, err)
	defer s.Close()
	seen := make([]bool, len(added))
	must.OK(t, s.ContainsAll(added, seen))
	for i := range added {
		if !seen[i] {
			t.Fatalf("key %016x was added, and is unseen", added[i])
		}
	}
	const asked = 200_000
	others, seen := make([]uint64, asked), make([]bool, asked)
	for i := range others {
		others[i] = rnd.Uint64()
	}
	must.OK(t, s.ContainsAll(others, seen))
	drops := 0
	for _, yes := range seen {
		if yes {
			drops++
		}
	}
	rates := rateOf(t, s)
	if got := float64(drops) / asked; got < 0.9*rates[0] || got > 1.1*rates[0] || got < 0.9*rates[1] || got > 1.1*rates[1] {
		t.Errorf("rate of false drops %g, expected %g, counted %g", got, rates[0], rates[1])
	}
	if _, err := s.All(); !errors.Is(err, fault.Usage) {
		t.Errorf("listed: %v", err)
	}
}

func mark(t *testing.T, st *store.Store, keys []uint64) {
	t.Helper()
	tx, _, err := st.Begin(context.Background(), "mark", "")
	must.OK(t, err)
	defer tx.Abort()
	set, err := Load(st, tx.Base(), Options{})
	must.OK(t, err)
	defer set.Close()
	m := NewMarker(set, 1<<20, "")
	defer m.Close()
	must.OK(t, m.Mark(keys, make([]bool, len(keys))), m.Commit(tx))
	_, err = tx.Commit(uint64(len(keys)), "", record.Ledger{})
	must.OK(t, err)
}

// rateOf returns the expected and the counted rate of false drops that a filter tells.
func rateOf(t *testing.T, s Set) [2]float64 {
	t.Helper()
	text, err := json.Marshal(s.Detail())
	must.OK(t, err)
	var d struct {
		Expected float64 `json:"false_drop_expected"`
		Counted  float64 `json:"false_drop_counted"`
	}
	must.OK(t, json.Unmarshal(text, &d))
	return [2]float64{d.Expected, d.Counted}
}
