package fpset

import (
	"slices"

	"mercator/pkg/merge"
)

// asker asks a set for keys in order of arrival: it sorts them, and sweeps.
type asker struct {
	sweep   func(n uint64) Sweep
	sorted  []uint64
	scratch []uint64
	seen    []bool
}

// ask returns the distinct keys in ascending order, and which of them are in the
// set. Both are valid until the next call.
func (a *asker) ask(keys []uint64) (distinct []uint64, seen []bool, err error) {
	a.sorted = append(a.sorted[:0], keys...)
	a.scratch = slices.Grow(a.scratch[:0], len(keys))[:len(keys)]
	merge.RadixSort(a.sorted, a.scratch)
	a.sorted = merge.Compact(a.sorted)
	a.seen = slices.Grow(a.seen[:0], len(a.sorted))[:len(a.sorted)]
	clear(a.seen)
	if len(a.sorted) == 0 {
		return nil, nil, nil
	}
	err = a.sweep(uint64(len(a.sorted))).Mark(a.sorted, a.seen)
	return a.sorted, a.seen, err
}
