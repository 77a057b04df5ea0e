package fpfile

import "math/bits"

// Searching a block leaves it encoded. A difference d lies, if anywhere, among
// the ones that follow zero number d>>w of the high part; their low bits are
// compared with d's.

// cursor is a word of a block's high part.
type cursor struct {
	at    int    // the byte of the high part where the word begins
	zeros uint64 // zeros before the word
}

// holds looks for difference d, from c on; d is not below the one looked for
// before with c.
func (v *block) holds(d uint64, c *cursor) bool {
	if d == 0 {
		return true
	}
	bucket := d >> v.w
	if bucket == 0 {
		return v.bucketHolds(0, 0, d)
	}
	for high := v.high(); c.at < len(high); c.at += 8 {
		gaps := ^word(high, c.at)
		n := uint64(bits.OnesCount64(gaps))
		if bucket <= c.zeros+n {
			return v.bucketHolds(bucket, 8*c.at+select64(gaps, int(bucket-c.zeros-1))+1, d)
		}
		c.zeros += n
	}
	return false
}

// bucketHolds looks for difference d in its bucket; the bucket's ones begin at bit at.
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

// mark sets seen[i] for each keys[i] that is in the block. All keys lie between
// the block's first and the next block's, and ascend.
func (v *block) mark(keys []uint64, seen []bool, at *places) {
	if zeros := 8*len(v.high()) - (v.n - 1); useAVX512 && zeros <= maxKeys && v.twoMore() && 64*len(keys) > len(v.high()) {
		v.markListed(keys, seen, at, zeros)
		return
	}
	var c cursor
	for i, key := range keys {
		if v.holds(key-v.first, &c) {
			seen[i] = true
		}
	}
}

// oneLoad is the largest width at which eight bytes hold the low bits of a
// difference, wherever they begin.
const oneLoad = 56

// twoMore reports whether the low bits of all differences, and of two more after
// them, can be loaded with one load each.
func (v *block) twoMore() bool { return v.w <= oneLoad && (v.n+1)*v.w>>3+8 <= len(v.rest) }

// markListed is mark by a list of all zeros, so that a bucket's ones are found at
// once. Apart from keys in buckets of three and more it does not branch on what it
// finds, since nobody could foresee such branches.
func (v *block) markListed(keys []uint64, seen []bool, at *places, zeros int) {
	at[0] = 1<<16 - 1 // so that bucket 0 begins at 0
	ones(at[1:], v.high(), 1<<64-1)
	at[zeros+1] = uint16(8 * len(v.high()))
	w, mask := v.w, uint64(1)<<v.w-1
	for i, key := range keys {
		d := key - v.first
		bucket := d >> (w & 63)
		if bucket > uint64(zeros) {
			continue
		}
		start := at[bucket] + 1
		one := (int(start) - int(bucket)) * w
		size := at[bucket+1] - start
		is := v.twoAre(d, one, mask, int(size))
		if size > 2 {
			is = v.bucketHolds(bucket, int(start), d)
		}
		zero := d == 0
		is = is || zero
		was := seen[i]
		seen[i] = was || is
	}
}

// twoAre reports whether d's low bits under mask equal one of the two entries at bit and
// at bit+w. size tells how many of the two there are.
func (v *block) twoAre(d uint64, bit int, mask uint64, size int) bool {
	next := bit + v.w
	is1 := (le.Uint64(v.rest[bit>>3:])>>(bit&7)^d)&mask == 0
	is2 := (le.Uint64(v.rest[next>>3:])>>(next&7)^d)&mask == 0
	has1, has2 := size > 0, size > 1
	is1 = is1 && has1
	is2 = is2 && has2
	return is1 || is2
}

// select64 returns the place of one number r of x, from 0; x has more than r. It
// counts the ones of all bytes at once (Vigna, "Broadword implementation of
// rank/select queries", 2008).
func select64(x uint64, r int) int {
	const each = 0x0101010101010101 // 1 in every byte
	s := x - x>>1&(0x55*each)
	s = s&(0x33*each) + s>>2&(0x33*each)
	s = (s + s>>4) & (0x0f * each) * each // ones up to and in each byte
	at := bits.TrailingZeros64(((s|0x80*each)-uint64(r+1)*each)&(0x80*each)) &^ 7
	r -= int(s << 8 >> at & 0xff)
	return at + int(selectByte[r<<8|int(x>>at&0xff)])
}

// selectByte has the place of one number r of byte c at r<<8 | c.
var selectByte = func() (t [8 << 8]uint8) {
	for c := range 256 {
		r := 0
		for bit := range 8 {
			if c>>bit&1 == 1 {
				t[r<<8|c] = uint8(bit)
				r++
			}
		}
	}
	return t
}()
