package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"mercator/bench/sets/keys"
	"mercator/formats/fpfile"
	"mercator/pkg/fingerprint"
)

// encode makes a fingerprint file in memory.
func encode(list []uint64) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(6 * len(list))
	w := fpfile.NewWriter(&out, fingerprint.Polynomial)
	if err := w.AddKeys(list); err != nil {
		return nil, err
	}
	err := w.Finish()
	return out.Bytes(), err
}

// point asks for keys in no order, half of which are there.
func point(b *bench) error {
	raw := fill(b.n, keys.Uniform(b.seed, b.n))
	data, err := encode(raw)
	if err != nil {
		return err
	}
	r, err := fpfile.Open(bytes.NewReader(data), int64(len(data)), "memory")
	if err != nil {
		return err
	}
	if err := r.Load(); err != nil { // on Linux into huge pages
		return err
	}
	data = nil
	// Blocks are verified when they are first searched: here, before the clock starts.
	for at := 0; at < len(raw); at += 64 {
		if _, err := r.Contains(raw[at]); err != nil {
			return err
		}
	}
	huge, err := hugePages(len(raw))
	if err != nil {
		return err
	}
	copy(huge, raw)
	rng := rand.New(rand.NewPCG(b.seed, 6))
	queries := make([]uint64, 1<<20)
	hits := 0
	for i := range queries {
		queries[i] = rng.Uint64()
		if i%2 == 0 {
			queries[i] = raw[rng.IntN(len(raw))]
			hits++
		}
	}
	count := func(ask func() (int, error)) func() error {
		return func() error {
			found, err := ask()
			if err == nil && (found < hits || found > hits+1) { // one of the others may be there by chance
				err = fmt.Errorf("%d hits, want %d", found, hits)
			}
			return err
		}
	}
	const width = 16
	took, err := b.turns(
		contender{"one", nil, count(func() (found int, err error) {
			for _, q := range queries {
				ok, err := r.Contains(q)
				if err != nil {
					return 0, err
				}
				if ok {
					found++
				}
			}
			return found, nil
		})},
		contender{"16", nil, count(func() (found int, err error) {
			var seen [width]bool
			for at := 0; at < len(queries); at += width {
				clear(seen[:])
				if err := r.ContainsAll(queries[at:at+width], seen[:]); err != nil {
					return 0, err
				}
				for _, s := range seen {
					if s {
						found++
					}
				}
			}
			return found, nil
		})},
		contender{"binary search", nil, count(func() (found int, err error) {
			for _, q := range queries {
				if _, ok := slices.BinarySearch(raw, q); ok {
					found++
				}
			}
			return found, nil
		})},
		contender{"binary search in huge pages", nil, count(func() (found int, err error) {
			for _, q := range queries {
				if _, ok := slices.BinarySearch(huge, q); ok {
					found++
				}
			}
			return found, nil
		})},
	)
	if err != nil {
		return err
	}
	each := float64(len(queries))
	ns := func(i int) string { return fmt.Sprintf("%.3g ns a test", took[i].clock.Seconds()/each*1e9) }
	head()
	b.row("one at a time: "+ns(0), took[0], each, "tests", "slices.BinarySearch on raw keys: "+ns(2), took[2], "≥ 6", 6)
	b.row("16 at a time: "+ns(1), took[1], each, "tests", "the same", took[2], "≥ 12", 12)
	b.row("one at a time", took[0], each, "tests", "slices.BinarySearch, raw keys in huge pages as well: "+ns(3), took[3], "≥ 6", 6)
	b.row("16 at a time", took[1], each, "tests", "the same", took[3], "≥ 12", 12)
	return nil
}
