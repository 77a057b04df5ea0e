package fpfile

import "math/bits"

// contains looks for key without decoding the block: it walks the high part to
// the keys that share key's high bits and compares their low bits.
func (v *block) contains(key uint64) bool {
	if key <= v.first {
		return key == v.first
	}
	d := key - v.first
	high := v.high()
	bucket := d >> v.w
	if bucket > uint64(8*len(high)) {
		return false
	}
	// Skip past the zeros of the buckets before.
	at, zeros := 0, int(bucket)
	for ; zeros > 0 && at < 8*len(high); at += 64 {
		n := 64 - bits.OnesCount64(word(high, at>>3))
		if n >= zeros {
			at += select64(^word(high, at>>3), zeros-1) + 1
			break
		}
		zeros -= n
	}
	if at >= 8*len(high) {
		return false
	}
	return v.bucketHolds(at, at-int(bucket), d&(1<<v.w-1))
}

// bucketHolds looks for low among the keys of the bucket whose ones begin at bit
// at of the high part, of which the first is difference i.
func (v *block) bucketHolds(at, i int, low uint64) bool {
	high := v.high()
	for ; i < v.n-1 && high[at>>3]>>(at&7)&1 == 1; at++ {
		if x := v.lowBits(i); x >= low {
			return x == low
		}
		i++
	}
	return false
}

// select64 returns the place of one number r of x, from 0; x has more than r.
func select64(x uint64, r int) int {
	for ; r > 0; r-- {
		x &= x - 1
	}
	return bits.TrailingZeros64(x)
}
