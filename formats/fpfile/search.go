package fpfile

import "math/bits"

// Searching a block leaves it encoded. A difference d lies, if anywhere, among
// the ones that follow zero number d>>w of the high part; their low bits are
// compared with d's.

// contains walks the high part to key's bucket.
func (v *block) contains(key uint64) bool {
	if key <= v.first {
		return key == v.first
	}
	high, d := v.high(), key-v.first
	bucket := d >> v.w
	if bucket == 0 {
		return v.bucketHolds(0, 0, d)
	}
	left := bucket - 1 // zeros to pass
	for at := 0; at < len(high); at += 8 {
		gaps := ^word(high, at)
		n := uint64(bits.OnesCount64(gaps))
		if left < n {
			return v.bucketHolds(bucket, 8*at+select64(gaps, int(left))+1, d)
		}
		left -= n
	}
	return false
}

// bucketHolds looks for difference d in its bucket, whose ones begin at place at.
func (v *block) bucketHolds(bucket uint64, at int, d uint64) bool {
	low := d & (1<<v.w - 1)
	for i := at - int(bucket); i < v.n-1 && v.high()[at>>3]>>(at&7)&1 == 1; i++ {
		if x := v.lowBits(i); x >= low {
			return x == low
		}
		at++
	}
	return false
}

// ranks counts, for each word of the high part of a block, the zeros before it.
// What lies beyond the last word is as large as can be.
type ranks [2 * BlockSize / 8]uint16

// rank fills z and returns the number of all zeros, and the largest power of two
// that is not above the number of words.
func (v *block) rank(z *ranks) (zeros, top int) {
	high := v.high()
	words := (len(high) + 7) / 8
	top = 1 << bits.Len(uint(words)) >> 1
	for i := range words {
		z[i] = uint16(zeros)
		zeros += 64 - bits.OnesCount64(word(high, 8*i))
	}
	for i := words; i < 2*top; i++ {
		z[i] = 1<<16 - 1
	}
	return zeros, top
}

// mark sets seen[i] for each keys[i] that is in the block. All keys lie between
// the block's first and the next block's.
func (v *block) mark(keys []uint64, seen []bool, z *ranks) {
	zeros, top := v.rank(z)
	for i, key := range keys {
		d := key - v.first
		bucket := d >> v.w
		if d == 0 {
			seen[i] = true
			continue
		}
		if bucket == 0 {
			if v.bucketHolds(0, 0, d) {
				seen[i] = true
			}
			continue
		}
		if bucket > uint64(zeros) {
			continue
		}
		// The last word with fewer zeros before it than the bucket has.
		word64 := 0
		for step := top; step > 0; step >>= 1 {
			if uint64(z[word64+step]) < bucket {
				word64 += step
			}
		}
		gaps := ^word(v.high(), 8*word64)
		left := int(bucket) - int(z[word64]) - 1
		at := 64*word64 + select64(gaps, left) + 1
		if v.bucketHolds(bucket, at, d) {
			seen[i] = true
		}
	}
}

// select64 returns the place of one number r of x, from 0; 64 or more if x has
// no more than r.
func select64(x uint64, r int) int {
	for ; r > 0; r-- {
		x &= x - 1
	}
	return bits.TrailingZeros64(x)
}
