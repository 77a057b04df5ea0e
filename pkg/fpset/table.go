package fpset

import "slices"

// table is a flat hash set of keys with linear probing, at most three quarters
// full: 10.7 to 21 bytes a key.
type table struct {
	slots []uint64 // 0 is empty
	n     int      // keys, zero not counted
	zero  bool     // whether the key 0 is in the set
}

const minSlots = 1024 // a power of two

func (t *table) len() int {
	if t.zero {
		return t.n + 1
	}
	return t.n
}

// slot returns where key is, or where it would go. Keys may share their high
// bits (URL checksums do) or be chosen; multiplication spreads both.
func (t *table) slot(key uint64) int {
	mask := uint64(len(t.slots) - 1)
	h := key * 0x9e3779b97f4a7c15
	for i := (h ^ h>>32) & mask; ; i = (i + 1) & mask {
		if t.slots[i] == key || t.slots[i] == 0 {
			return int(i)
		}
	}
}

func (t *table) has(key uint64) bool {
	if key == 0 {
		return t.zero
	}
	return len(t.slots) > 0 && t.slots[t.slot(key)] == key
}

// put adds key, and reports whether it was not there.
func (t *table) put(key uint64) bool {
	if key == 0 {
		fresh := !t.zero
		t.zero = true
		return fresh
	}
	if 4*(t.n+1) > 3*len(t.slots) {
		t.grow()
	}
	i := t.slot(key)
	if t.slots[i] == key {
		return false
	}
	t.slots[i] = key
	t.n++
	return true
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]uint64, max(minSlots, 2*len(old)))
	for _, k := range old {
		if k != 0 {
			t.slots[t.slot(k)] = k
		}
	}
}

// reset empties the set and keeps its room.
func (t *table) reset() {
	clear(t.slots)
	t.n, t.zero = 0, false
}

// drain returns all keys in ascending order and empties the set. The result is
// valid until the next put.
func (t *table) drain() []uint64 {
	keys := t.slots[:0]
	for _, k := range t.slots {
		if k != 0 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	if t.zero {
		keys = slices.Insert(keys, 0, 0)
	}
	*t = table{}
	return keys
}
