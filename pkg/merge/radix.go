package merge

import "math/bits"

const (
	// radixBits is the width of a digit. More places to write to at a time than 256
	// would miss the first-level cache and its table of pages.
	radixBits = 8
	// insertionKeys is the size up to which insertion sort alone is used.
	insertionKeys = 24
	// cacheKeys is the size up to which keys are sorted from the lowest digit up:
	// most parts are half of it at most, and fit the first-level cache with their
	// scratch. Two digits number the keys and have two bits to spare at the least:
	// one random key in eight is then out of place by one.
	cacheKeys = 1 << 12
)

// RadixSort sorts keys ascending. scratch must be as long as keys at the least, and
// is overwritten.
//
// What does not fit the cache is first cut by its highest digits (MSD); the parts
// are sorted by their two highest digits, the lower one first (LSD), which puts
// random keys almost in order; insertion sort mends the rest. Bits that all keys of a
// part share are skipped, and keys that are not random take all their digits, so
// that the time is linear for any keys.
//
// Most of the time goes to the parts, in the cache; so collecting the writes of the cut by cache line would gain little.
func RadixSort(keys, scratch []uint64) { radixSort(keys, scratch[:len(keys)], 64, false) }

// radixSort sorts from; its keys share all bits from high on. If moved, the result is
// left in to, which has the same length.
func radixSort(from, to []uint64, high int, moved bool) {
	switch n := len(from); {
	case n <= insertionKeys:
		insertionSort(from, n*n)
		if moved {
			copy(to, from)
		}
	case n <= cacheKeys:
		radixPart(from, to, high, moved)
	default:
		radixSplit(from, to, high, moved)
	}
}

// radixShared is radixSort for keys that share more bits than those from high on.
func radixShared(from, to []uint64, moved bool) {
	var differ uint64
	for _, k := range from {
		differ |= k ^ from[0]
	}
	radixSort(from, to, bits.Len64(differ), moved)
}

// radixSplit moves from into to by its highest digit, and sorts the parts.
func radixSplit(from, to []uint64, high int, moved bool) {
	shift := max(0, high-min(radixBits, bits.Len(uint(len(from)/(cacheKeys/2))))) & 63 // so that the compiler sees that it is a shift
	var at [1 << radixBits]int
	for _, k := range from {
		at[uint8(k>>shift)]++
	}
	if shift > 0 && at[uint8(from[0]>>shift)] == len(from) {
		radixShared(from, to, moved)
		return
	}
	sum := 0
	for d, n := range at {
		at[d] = sum
		sum += n
	}
	begin := at
	for _, k := range from {
		d := uint8(k >> shift)
		to[at[d]] = k
		at[d]++
	}
	if shift == 0 {
		if !moved {
			copy(from, to)
		}
		return
	}
	for d, b := range begin {
		if e := at[d]; e > b {
			radixSort(to[b:e], from[b:e], shift, !moved)
		}
	}
}

// radixPart sorts by the two highest digits, which are counted in one pass, and mends.
func radixPart(from, to []uint64, high int, moved bool) {
	low := max(0, high-2*radixBits) & 63
	var lower, upper [1 << radixBits]uint32
	for _, k := range from {
		lower[uint8(k>>low)]++
		upper[uint8(k>>low>>radixBits)]++
	}
	if low > 0 && upper[uint8(from[0]>>low>>radixBits)] == uint32(len(from)) {
		radixShared(from, to, moved)
		return
	}
	var sumLower, sumUpper uint32
	for d := range lower {
		l, u := lower[d], upper[d]
		lower[d], upper[d] = sumLower, sumUpper
		sumLower, sumUpper = sumLower+l, sumUpper+u
	}
	for _, k := range from {
		d := uint8(k >> low)
		to[lower[d]] = k
		lower[d]++
	}
	for _, k := range to {
		d := uint8(k >> low >> radixBits)
		from[upper[d]] = k
		upper[d]++
	}
	sorted, result := from, from
	if low > 0 && !insertionSort(from, len(from)) {
		sorted = radixDigits(from, to, high)
	}
	if moved {
		result = to
	}
	copy(result, sorted)
}

// radixDigits sorts by all bits below high, from the lowest digit up, and returns
// the slice that holds the result.
func radixDigits(a, b []uint64, high int) []uint64 {
	for shift := 0; shift < high; shift += radixBits {
		var at [1 << radixBits]int
		for _, k := range a {
			at[uint8(k>>shift)]++
		}
		if at[uint8(a[0]>>shift)] == len(a) {
			continue
		}
		sum := 0
		for d, n := range at {
			at[d] = sum
			sum += n
		}
		for _, k := range a {
			d := uint8(k >> shift)
			b[at[d]] = k
			at[d]++
		}
		a, b = b, a
	}
	return a
}

// insertionSort sorts keys. It gives up after a bounded number of moves, and returns false.
func insertionSort(keys []uint64, moves int) bool {
	for i := 1; i < len(keys); i++ {
		k := keys[i]
		j := i
		for ; j > 0 && keys[j-1] > k; j-- {
			keys[j] = keys[j-1]
		}
		keys[j] = k
		if moves -= i - j; moves < 0 {
			return false
		}
	}
	return true
}

// Compact removes the repetitions from keys, which ascend, in place.
func Compact(keys []uint64) []uint64 {
	if len(keys) == 0 {
		return keys
	}
	n := 0
	for i := 1; i < len(keys); i++ { // branchless as the kernels are
		keys[n] = keys[i-1]
		n += one(keys[i] != keys[i-1])
	}
	keys[n] = keys[len(keys)-1]
	return keys[:n+1]
}
