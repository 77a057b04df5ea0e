package main

import (
	"fmt"
	"slices"

	"mercator/bench/sets/keys"
	"mercator/pkg/merge"
)

// fill reads n keys.
func fill(n uint64, src keys.Source) []uint64 {
	list := make([]uint64, 0, n)
	for key, ok := src(); ok; key, ok = src() {
		list = append(list, key)
	}
	return list
}

// pair makes two sets of n keys, half of each in the other.
func (b *bench) pair() (left, right []uint64) {
	both := b.n / 2
	left, right = make([]uint64, 0, b.n), make([]uint64, 0, b.n)
	next := keys.Pair(b.seed, b.n, b.n, both, keys.Uniform(b.seed, 2*b.n-both))
	for {
		key, inLeft, inRight, ok := next()
		if !ok {
			return left, right
		}
		if inLeft {
			left = append(left, key)
		}
		if inRight {
			right = append(right, key)
		}
	}
}

func memory(b *bench) error {
	both := b.n / 2
	if err := b.gen("-n %d -m %d -both %d -a a.txt -b b.txt", b.n, b.n, both); err != nil {
		return err
	}
	left, right := b.pair()
	out := make([]uint64, 0, 2*b.n)
	scratch := make([]uint64, 2*b.n-both)
	head()
	for _, op := range []struct {
		name, peer string
		run        func(dst, a, b []uint64) []uint64
		keys       uint64 // that must come out
		atLeast    float64
	}{
		{"union", "sort -m -u a.txt b.txt | cat > /dev/null", merge.UnionKeys, 2*b.n - both, 30},
		{"difference", "comm -23 a.txt b.txt | cat > /dev/null", merge.DiffKeys, b.n - both, 28},
		{"intersection", "comm -12 a.txt b.txt | cat > /dev/null", merge.IntersectKeys, both, 28},
	} {
		ours := contender{name: op.name, run: func() error {
			if out = op.run(out[:0], left, right); uint64(len(out)) != op.keys {
				return fmt.Errorf("%d keys, want %d", len(out), op.keys)
			}
			return nil
		}}
		list := []contender{ours, b.line(op.peer)}
		if op.name == "union" {
			list = append(list, contender{name: "copy", run: func() error { copy(scratch, out); return nil }})
		}
		took, err := b.turns(list...)
		if err != nil {
			return err
		}
		b.row(op.name+" in memory", took[0], float64(2*b.n), "keys", "`"+op.peer+"`", took[1], fmt.Sprintf("≥ %g", op.atLeast), op.atLeast)
		if len(took) > 2 {
			b.atMost("union in memory", took[0], "copying the output", took[2], 3.5)
		}
	}
	left, right, out, scratch = nil, nil, nil, nil
	return b.sorting()
}

// sorting sorts and deduplicates a batch.
func (b *bench) sorting() error {
	if err := b.gen("-kind arrivals -n %d -a batch.txt", b.n); err != nil {
		return err
	}
	batch := fill(b.n, keys.Arrivals(b.seed, b.n, 0.3))
	work := make([]uint64, len(batch))
	scratch := make([]uint64, len(batch))
	load := func() error { copy(work, batch); return nil }
	var distinct, want int
	const peer = "sort -u --parallel=2 batch.txt | cat > /dev/null"
	took, err := b.turns(
		contender{"ours", load, func() error {
			merge.RadixSort(work, scratch)
			distinct = len(merge.Compact(work))
			return nil
		}},
		b.line(peer),
		contender{"slices.Sort", load, func() error { slices.Sort(work); want = len(slices.Compact(work)); return nil }},
	)
	if err != nil {
		return err
	}
	if distinct != want {
		return fmt.Errorf("%d distinct keys, want %d", distinct, want)
	}
	b.row("sort and deduplicate, 30 % again", took[0], float64(b.n), "keys", "`"+peer+"`", took[1], "≥ 50", 50)
	b.row("sort and deduplicate, 30 % again", took[0], float64(b.n), "keys", "slices.Sort, slices.Compact", took[2], "≥ 7", 7)
	return nil
}
