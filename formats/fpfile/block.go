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

// blockBytes is the size of a block of n keys, with span from first to last and
// width w. It is huge when the high part alone cannot fit.
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

// bestWidth is the width that makes the smallest block. A tie goes to the widest:
// its high part is the fastest to decode. A width costs m·w + span/2^w bits,
// which is convex with its minimum near log₂(span/m).
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

// bestBytes is the size of a block of n keys with the best width.
func bestBytes(n int, span uint64) int { return blockBytes(n, span, bestWidth(n, span)) }

// fill returns how many of keys the first block of at most room bytes takes: all
// that fit, at most maxKeys. Only the number of keys, the first and the last
// count, so it searches; it begins at guess, which is best the last answer.
func fill(keys []uint64, room, guess int) int {
	fits := func(n int) bool { return bestBytes(n, keys[n-1]-keys[0]) <= room }
	most := min(len(keys), maxKeys)
	lo, hi := 1, most+1 // lo fits, hi does not
	for at, step := min(max(guess, 1), most), 8; hi-lo > 1; step *= 2 {
		if fits(at) {
			lo, at = at, at+step
		} else {
			hi, at = at, at-step
		}
		if at <= lo || at >= hi {
			at = lo + (hi-lo)/2
		}
	}
	return lo
}

// block is a view of an encoded block.
type block struct {
	n, w  int
	first uint64
	rest  []byte // low part and high part
	split int    // bytes of the low part
}

func (v *block) high() []byte { return v.rest[v.split:] }

// view is the block of b as its header has it.
func view(b []byte) block {
	v := block{n: int(le.Uint16(b[4:])), w: int(b[6]), first: le.Uint64(b[8:]), rest: b[blockHeader:]}
	v.split = ((v.n-1)*v.w + 7) / 8
	return v
}

// flaw is an error in a block: the value found, and the value wanted.
type flaw struct{ found, want string }

// parseBlock verifies the checksum, the bounds, and the number of ones: all
// rules but the order of the keys. What it accepts can be searched and decoded
// without leaving b.
func parseBlock(b []byte) (block, *flaw) {
	if got, want := checksum(b[4:]), le.Uint32(b); got != want {
		return block{}, &flaw{hex32(got), fmt.Sprintf("%08x", want)}
	}
	v := view(b)
	if v.n == 0 || v.n > maxKeys {
		return block{}, &flaw{fmt.Sprintf("%d fingerprints", v.n), fmt.Sprintf("1 to %d", maxKeys)}
	}
	if v.w > maxLow {
		return block{}, &flaw{fmt.Sprintf("low-bit width %d", v.w), fmt.Sprintf("at most %d", maxLow)}
	}
	if b[7] != 0 {
		return block{}, &flaw{fmt.Sprintf("reserved byte %02x", b[7]), "00"}
	}
	if v.split > len(v.rest) {
		return block{}, &flaw{fmt.Sprintf("%d bytes of low bits", v.split), fmt.Sprintf("at most %d", len(v.rest))}
	}
	if used := (v.n - 1) * v.w & 7; used != 0 && v.rest[v.split-1]>>used != 0 {
		return block{}, &flaw{"stray low bits", "zero bits up to the high part"}
	}
	if ones := countOnes(v.high()); ones != v.n-1 {
		return block{}, &flaw{fmt.Sprintf("%d ones in the high bits", ones), fmt.Sprint(v.n - 1)}
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

func countOnes(b []byte) (n int) {
	for ; len(b) >= 8; b = b[8:] {
		n += bits.OnesCount64(le.Uint64(b))
	}
	return n + bits.OnesCount64(word(b, 0))
}

// lowBits returns the low bits of difference i, counted from 0.
func (v *block) lowBits(i int) uint64 {
	at := i * v.w
	x := word(v.rest, at>>3) >> (at & 7)
	if v.w+at&7 > 64 {
		x |= word(v.rest, at>>3+8) << (64 - at&7)
	}
	return x & (1<<v.w - 1)
}
