package fpset

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/shard"
	"mercator/pkg/merge"
)

// addAll adds keys to a set as a batch.
func addAll(t *testing.T, st *store.Store, keys []uint64) {
	t.Helper()
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	tx, _, err := st.Begin(t.Context(), "add", "")
	must.OK(t, err)
	defer tx.Abort()
	set, err := Load(st, tx.Base(), Options{})
	if err == nil {
		defer set.Close()
		_, err = extend(t.Context(), set, tx, merge.Keys(keys), uint64(len(keys)))
	}
	if err == nil {
		_, err = tx.Commit(0, "", record.Ledger{})
	}
	must.OK(t, err)
}

// allKeys checks a set and returns its keys.
func allKeys(t *testing.T, st *store.Store) (keys []uint64) {
	t.Helper()
	set, err := LoadCurrent(st, Options{})
	must.OK(t, err)
	defer set.Close()
	must.OK(t, set.Check(nil))
	all, err := set.All()
	for err == nil {
		var block []uint64
		if block, err = all.Block(); err == nil {
			keys = append(keys, block...)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return keys
}

// TestMove: after any move every key is in the set of its owner, and in no other; and sets grow on.
func TestMove(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 18))
	const shards = 3
	dir := t.TempDir()
	var sets []*store.Store
	for n := range shards {
		at := filepath.Join(dir, "shard", fmt.Sprintf("%03d", n), "urls")
		must.OK(t, CreateKind(at, "urls", CreateOptions{}, store.Options{}))
		st, err := store.Open(at, "urls", Version, store.Options{})
		must.OK(t, err)
		sets = append(sets, st)
	}
	now, err := shard.New(shards)
	must.OK(t, err)
	var known []uint64
	grow := func() {
		t.Helper()
		for range 3 {
			parts := make([][]uint64, shards)
			for range 1 + rng.IntN(5000) {
				key := rng.Uint64()
				if rng.IntN(3) == 0 {
					key |= 0xfff << 52 // a large bucket
				}
				known = append(known, key)
				parts[now.Of(key)] = append(parts[now.Of(key)], key)
			}
			for n, keys := range parts {
				if len(keys) > 0 {
					addAll(t, sets[n], keys)
				}
			}
		}
	}
	grow()
	for round, change := range []func(b int) int{
		func(b int) int { return map[bool]int{true: 0, false: now.Owners[b]}[b == shard.Buckets-1] }, // the large one
		func(b int) int { return map[bool]int{true: 1, false: now.Owners[b]}[b%2 == 0] },             // many spans of both others
		func(b int) int { return rng.IntN(shards) },
		func(b int) int { return 2 }, // all
		func(b int) int { return b * shards / shard.Buckets },
	} {
		next := &shard.Map{Version: now.Version + 1, Shards: shards, Owners: slices.Clone(now.Owners)}
		for b := range next.Owners {
			next.Owners[b] = change(b)
		}
		var base [shards]*store.Manifest
		for n, st := range sets {
			base[n], err = st.Current()
			must.OK(t, err)
		}
		var ledgers []record.Ledger
		for n, st := range sets {
			m := &shard.Move{Old: now, New: next, Shard: n, Txn: fmt.Sprint("move", round), Base: func(n int) (*store.Store, *store.Manifest, error) { return sets[n], base[n], nil }}
			for range 2 { // again it does nothing
				must.OK(t, Move(t.Context(), st, m, Options{Workers: 1 + rng.IntN(2)}))
			}
			is, err := st.Current()
			must.OK(t, err)
			ledgers = append(ledgers, is.Done[len(is.Done)-1].Ledger)
		}
		if err := shard.CheckMoved(ledgers); err != nil {
			t.Error(err)
		}
		now = next
		var all []uint64
		for n, st := range sets {
			keys := allKeys(t, st)
			if i := slices.IndexFunc(keys, func(k uint64) bool { return now.Of(k) != n }); i >= 0 {
				t.Fatalf("move %d: key %016x in shard %d", round, keys[i], n)
			}
			all = append(all, keys...)
		}
		slices.Sort(all)
		if want := slices.Compact(slices.Sorted(slices.Values(known))); !slices.Equal(all, want) {
			t.Fatalf("move %d: %d keys, want %d", round, len(all), len(want))
		}
		grow()
	}
}

// TestMoveRefused: sets with keys that do not tell their bucket.
func TestMoveRefused(t *testing.T) {
	for _, c := range []struct {
		with CreateOptions
		says string
	}{
		{CreateOptions{Impl: Bloom, Size: 1 << 20}, "a set of kind bloom, which cannot list its keys, want one of sorted runs"},
		{CreateOptions{Polynomial: 0xb8a5b2f0a6b1c3d5}, "a set with polynomial b8a5b2f0a6b1c3d5, whose keys are in other buckets"},
	} {
		at := filepath.Join(t.TempDir(), "urls")
		must.OK(t, CreateKind(at, "urls", c.with, store.Options{}))
		st, err := store.Open(at, "urls", Version, store.Options{})
		must.OK(t, err)
		if err := Move(t.Context(), st, nil, Options{}); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %s", err, c.says)
		}
	}
}
