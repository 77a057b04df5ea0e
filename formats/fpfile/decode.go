package fpfile

import (
	"fmt"
	"math/bits"
)

// Decoding is done in two passes without branches that depend on the keys: ones
// lists the places of the ones of the high part, and join puts each place and
// its low bits together. Both have a version in AVX-512 (decode_amd64.s), which
// takes most of the work, and the one here, which takes the rest or all.

// places is the room for the places of a block's ones, or of as many zeros, one
// before and one after them, and the 32 that ones may write too many.
type places [maxKeys + 34]uint16

// appendKeys decodes all keys and verifies that they increase.
func (v *block) appendKeys(dst []uint64, at *places) ([]uint64, *flaw) {
	m := v.n - 1
	start := len(dst)
	dst = grow(dst, v.n)
	keys := dst[start:]
	keys[0] = v.first
	if m == 0 {
		return dst, nil
	}
	ones(at[:], v.high(), 0)
	// Places increase, so if the last fits into 64 bits then all do.
	top := uint64(int(at[m-1]) - (m - 1))
	if ordered := v.join(keys, at[:m]); ordered && top<<v.w>>v.w == top {
		return dst, nil
	}
	i := 1
	for i < m && keys[i] > keys[i-1] {
		i++
	}
	return nil, &flaw{fmt.Sprintf("fingerprint %d is not above the one before it", i), "strictly increasing fingerprints"}
}

// grow makes dst n longer; the new elements have any value.
func grow[T any](dst []T, n int) []T {
	if len(dst)+n > cap(dst) {
		bigger := make([]T, len(dst), max(2*cap(dst), len(dst)+n))
		copy(bigger, dst)
		dst = bigger
	}
	return dst[:len(dst)+n]
}

// onesGo lists the places of the ones of high ^ flip. It writes eight at a time: up
// to seven more than there are.
func onesGo(dst []uint16, high []byte, flip uint64) {
	for i := 0; i < len(high); i += 8 {
		x := word(high, i) ^ flip
		if left := len(high) - i; left < 8 {
			x &= 1<<(8*left) - 1
		}
		n := bits.OnesCount64(x)
		for at := 0; at < n; at += 8 {
			eight := (*[8]uint16)(dst[at:])
			for j := range eight {
				eight[j] = uint16(8*i + bits.TrailingZeros64(x))
				x &= x - 1
			}
		}
		dst = dst[n:]
	}
}

// joinGo puts keys[i+1] together from the place at[i] of its one and its low
// bits, for i from on, and reports whether the keys increase strictly from
// keys[from] on. It may be wrong where first plus a difference passes 2⁶⁴ after
// keys that do not increase; then it was false before.
func (v *block) joinGo(keys []uint64, at []uint16, from int) bool {
	prev, first := keys[from], v.first
	ordered := true
	w, rest := v.w, v.rest
	mask := uint64(1)<<w - 1
	keys = keys[1:][:len(at)]
	i := from
	if w <= 56 {
		for bit := i * w; i < len(at) && bit>>3+8 <= len(rest); bit += w {
			low := le.Uint64(rest[bit>>3:]) >> (bit & 7) & mask
			k := first + (uint64(int(at[i])-i)<<(w&63) | low)
			if k <= prev {
				ordered = false
			}
			keys[i], prev = k, k
			i++
		}
	}
	for ; i < len(at); i++ {
		k := first + (uint64(int(at[i])-i)<<w | v.lowBits(i))
		if k <= prev {
			ordered = false
		}
		keys[i], prev = k, k
	}
	return ordered
}
