package fpfile

import (
	"fmt"
	"math"
	"math/bits"
)

// A block holds n keys k₀ < k₁ < … as k₀ and, for i ≥ 1, the differences
// dᵢ = kᵢ − k₀ in Elias–Fano form (Elias 1974, Fano 1971) with low-bit width w:
//
//	| checksum u32 | n u16 | w u8 | 0 u8 | k₀ u64 | (n−1)·w low bits | high bits … end of block |
//
// The low part is the low w bits of each difference in turn, from bit 0 of the
// first byte upwards. The high part has, for i = 1 … n−1, a one at bit
// (dᵢ >> w) + i − 1, and is zero elsewhere.

// blockBytes is the size of a block of n keys whose last difference is span,
// with width w; it is huge when the high part alone cannot fit.
func blockBytes(n int, span uint64, w int) int {
	m := n - 1
	if m == 0 {
		return blockHeader
	}
	high := span >> w
	if high > 8*BlockSize {
		return math.MaxInt
	}
	return blockHeader + (m*w+7)/8 + (m+int(high)+7)/8
}

// bestWidth is the width that makes the smallest block; of several the widest,
// whose high part is the shortest to decode. Widths cost m·w + span/2^w bits,
// which is convex with its least value near log₂(span/m).
func bestWidth(n int, span uint64) int {
	if n == 1 {
		return 0
	}
	mid := bits.Len64(span/uint64(n-1)) - 1
	best := max(0, mid-1)
	for w := best + 1; w <= min(maxLow, mid+2); w++ {
		if blockBytes(n, span, w) <= blockBytes(n, span, best) {
			best = w
		}
	}
	return best
}

// encodeBlock writes the block of keys into b, which must be zero and of
// blockBytes length or longer; what is longer stays zero.
func encodeBlock(b []byte, keys []uint64) {
	n, first := len(keys), keys[0]
	w := bestWidth(n, keys[n-1]-first)
	le.PutUint16(b[4:], uint16(n))
	b[6] = byte(w)
	le.PutUint64(b[8:], first)
	low := b[blockHeader:]
	high := low[((n-1)*w+7)/8:]
	mask := uint64(1)<<w - 1
	for i, k := range keys[1:] {
		d := k - first
		one := int(d>>w) + i
		high[one>>3] |= 1 << (one & 7)
		for at, v, left := i*w, d&mask, w; left > 0; {
			low[at>>3] |= byte(v << (at & 7))
			step := min(left, 8-at&7)
			v >>= step
			at += step
			left -= step
		}
	}
	le.PutUint32(b, checksum(b[4:]))
}

// block is a view of an encoded block.
type block struct {
	n, w      int
	first     uint64
	low, high []byte
}

// flaw says what is wrong with a block.
type flaw struct{ found, want string }

// parseBlock verifies the checksum and the bounds.
func parseBlock(b []byte) (block, *flaw) {
	if got, want := checksum(b[4:]), le.Uint32(b); got != want {
		return block{}, &flaw{hex32(got), fmt.Sprintf("%08x", want)}
	}
	v := block{n: int(le.Uint16(b[4:])), w: int(b[6]), first: le.Uint64(b[8:])}
	if v.n == 0 || v.n > maxKeys {
		return block{}, &flaw{fmt.Sprintf("%d fingerprints", v.n), fmt.Sprintf("1 to %d", maxKeys)}
	}
	if v.w > maxLow {
		return block{}, &flaw{fmt.Sprintf("low-bit width %d", v.w), fmt.Sprintf("at most %d", maxLow)}
	}
	if b[7] != 0 {
		return block{}, &flaw{fmt.Sprintf("reserved byte %02x", b[7]), "00"}
	}
	rest := b[blockHeader:]
	lowBits := (v.n - 1) * v.w
	if lowBytes := (lowBits + 7) / 8; lowBytes <= len(rest) {
		v.low, v.high = rest[:lowBytes], rest[lowBytes:]
	} else {
		return block{}, &flaw{fmt.Sprintf("%d bytes of low bits", lowBytes), fmt.Sprintf("at most %d", len(rest))}
	}
	if used := lowBits & 7; used != 0 && v.low[len(v.low)-1]>>used != 0 {
		return block{}, &flaw{"stray low bits", "zero bits up to the high part"}
	}
	return v, nil
}

// word loads up to eight bytes of b from i on, little-endian, zero beyond the end.
func word(b []byte, i int) uint64 {
	if i+8 <= len(b) {
		return le.Uint64(b[i:])
	}
	var v uint64
	for j, c := range b[min(i, len(b)):] {
		v |= uint64(c) << (8 * j)
	}
	return v
}

// lowBits returns the low bits of difference i, counted from 0.
func (v *block) lowBits(i int) uint64 {
	at := i * v.w
	x := word(v.low, at>>3) >> (at & 7)
	if v.w+at&7 > 64 {
		x |= word(v.low, at>>3+8) << (64 - at&7)
	}
	return x & (1<<v.w - 1)
}

// appendKeys decodes all keys and verifies that they increase.
func (v *block) appendKeys(dst []uint64) ([]uint64, *flaw) {
	dst = append(dst, v.first)
	prev := v.first
	i := 0
	for at := 0; at < len(v.high); at += 8 {
		for x := word(v.high, at); x != 0; x &= x - 1 {
			if i == v.n-1 {
				return nil, &flaw{"stray high bits", fmt.Sprintf("%d ones", v.n-1)}
			}
			high := uint64(at*8 + bits.TrailingZeros64(x) - i)
			d := high<<v.w | v.lowBits(i)
			k := v.first + d
			if high<<v.w>>v.w != high || k < d || k <= prev {
				return nil, &flaw{fmt.Sprintf("fingerprint %d is not above the one before it", i+1), "strictly increasing fingerprints"}
			}
			dst = append(dst, k)
			prev = k
			i++
		}
	}
	if i != v.n-1 {
		return nil, &flaw{fmt.Sprintf("%d ones in the high bits", i), fmt.Sprint(v.n - 1)}
	}
	return dst, nil
}

// contains looks for key without decoding the block: it walks the high part to
// the keys that share key's high bits and compares their low bits.
func (v *block) contains(key uint64) bool {
	if key <= v.first {
		return key == v.first
	}
	d := key - v.first
	bucket := d >> v.w
	if bucket > uint64(8*len(v.high)) {
		return false
	}
	// Skip to the bit after the zero that ends bucket−1, that is, past `zeros` zeros.
	zeros := int(bucket)
	at := 0
	for ; zeros > 0 && at < 8*len(v.high); at += 64 {
		n := 64 - bits.OnesCount64(word(v.high, at>>3))
		if n >= zeros {
			break
		}
		zeros -= n
	}
	for ; zeros > 0 && at < 8*len(v.high); at++ {
		if v.high[at>>3]>>(at&7)&1 == 0 {
			zeros--
		}
	}
	low := d & (1<<v.w - 1)
	for ; at < 8*len(v.high) && v.high[at>>3]>>(at&7)&1 == 1; at++ {
		i := at - int(bucket)
		if i >= v.n-1 {
			return false
		}
		if x := v.lowBits(i); x >= low {
			return x == low
		}
	}
	return false
}
