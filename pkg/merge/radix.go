package merge

import "math/bits"

const (
	// radixBits is the width of a digit.
	radixBits = 8
	// insertionKeys is the size up to which insertion sort alone is used.
	insertionKeys = 24
	// cacheKeys is the size up to which keys are sorted from the lowest digit up:
	// they and their scratch stay in the second-level cache.
	cacheKeys = 1 << 12
	// spareBits is by how many bits at the least the digits that are sorted exceed
	// what numbers the keys: one random key in eight is then out of place by one.
	spareBits = 2
)

// RadixSort sorts keys ascending. scratch must be as long as keys at the least, and
// is overwritten.
//
// Bits that all keys share are skipped. What does not fit the cache is first cut
// by its highest digits (MSD); the parts are sorted from the lowest digit up
// (LSD), but only by as many digits as tell their keys apart if they are random;
// insertion sort mends the rest. Keys that are not random take all their digits.
// Eight digits of LSD take up to twice the time, slices.Sort ten to twenty times.
func RadixSort(keys, scratch []uint64) { radixSort(keys, scratch[:len(keys)], false) }

// radixSort sorts from; the result is left in to, of the same length, if moved.
func radixSort(from, to []uint64, moved bool) {
	n := len(from)
	if n > insertionKeys {
		var differ uint64
		for _, k := range from {
			differ |= k ^ from[0]
		}
		high := bits.Len64(differ)
		switch {
		case high == 0: // all are equal
		case n > cacheKeys:
			width := min(radixBits, bits.Len(uint(n/(cacheKeys/2))))
			radixSplit(from, to, max(0, high-width), moved)
			return
		default:
			digits := (bits.Len(uint(n)) + spareBits + radixBits - 1) / radixBits
			low := max(0, high-digits*radixBits)
			sorted, other := radixDigits(from, to, low, high)
			if !insertionSort(sorted, n) {
				sorted, other = radixDigits(sorted, other, 0, high)
			}
			if (&sorted[0] == &to[0]) != moved {
				copy(other, sorted)
			}
			return
		}
	} else {
		insertionSort(from, n*n)
	}
	if moved {
		copy(to, from)
	}
}

// radixSplit moves from into to by the digit at shift, which is the highest in
// which keys differ, and sorts the parts.
func radixSplit(from, to []uint64, shift int, moved bool) {
	var at [1 << radixBits]int
	for _, k := range from {
		at[k>>shift&(1<<radixBits-1)]++
	}
	sum := 0
	for d, n := range at {
		at[d] = sum
		sum += n
	}
	begin := at
	for _, k := range from {
		d := k >> shift & (1<<radixBits - 1)
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
			radixSort(to[b:e], from[b:e], !moved)
		}
	}
}

// radixDigits sorts a by the bits from low to high, and returns the slice that
// holds the result and the other one.
func radixDigits(a, b []uint64, low, high int) (sorted, other []uint64) {
	for shift := low; shift < high; shift += radixBits {
		var at [1 << radixBits]int
		for _, k := range a {
			at[k>>shift&(1<<radixBits-1)]++
		}
		if at[a[0]>>shift&(1<<radixBits-1)] == len(a) {
			continue
		}
		sum := 0
		for d, n := range at {
			at[d] = sum
			sum += n
		}
		for _, k := range a {
			d := k >> shift & (1<<radixBits - 1)
			b[at[d]] = k
			at[d]++
		}
		a, b = b, a
	}
	return a, b
}

// insertionSort sorts keys, and gives up after so many moves; false then.
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
