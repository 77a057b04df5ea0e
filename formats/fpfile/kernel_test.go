package fpfile

import (
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
)

// bothWays runs f with the assembly, where there is some, and without.
func bothWays(f func(way string)) {
	with, folding := useAVX512, useFold
	defer func() { useAVX512, useFold = with, folding }()
	f("as detected")
	useAVX512, useFold = false, false
	f("go")
}

// blockOf encodes keys as one block with slack bytes of padding.
func blockOf(keys []uint64, slack int) []byte {
	n := len(keys)
	b := make([]byte, bestBytes(n, keys[n-1]-keys[0])+slack)
	encodeBlock(b, keys)
	return b
}

// spread returns n keys with differences below 2^bits.
func spread(rnd *rand.Rand, n, bits int) []uint64 {
	keys := make([]uint64, n)
	k := rnd.Uint64() >> 1
	for i := range keys {
		keys[i] = k
		k += 1 + rnd.Uint64()>>(64-bits)
	}
	return keys
}

// TestWidths has blocks of every width and of many sizes, encoded and decoded
// both ways, at the end of their room and with padding.
func TestWidths(t *testing.T) {
	rnd := rand.New(rand.NewPCG(23, 24))
	widths := map[int]bool{}
	for bits := 1; bits <= 63; bits++ {
		for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 17, 63, 64, 65, 66, 200, 1000} {
			if bits > 53 && n > 1<<(63-bits) {
				continue // would pass 2⁶⁴
			}
			keys := spread(rnd, n, bits)
			widths[bestWidth(n, keys[n-1]-keys[0])] = true
			var first []byte
			for _, slack := range []int{0, 1, 9, 100} {
				bothWays(func(way string) {
					b := blockOf(keys, slack)
					if first == nil {
						first = b
					}
					if !slices.Equal(b[4:len(first)], first[4:]) {
						t.Fatalf("%s: %d keys of %d bits, slack %d: another encoding", way, n, bits, slack)
					}
					v, bad := parseBlock(b)
					if bad != nil {
						t.Fatalf("%s: %d keys of %d bits: %v", way, n, bits, *bad)
					}
					got, bad := v.appendKeys(nil, new(places))
					if bad != nil || !slices.Equal(got, keys) {
						t.Fatalf("%s: %d keys of %d bits, slack %d: come back otherwise, %v", way, n, bits, slack, bad)
					}
				})
			}
		}
	}
	for w := range maxLow {
		if !widths[w] {
			t.Errorf("no block of width %d", w)
		}
	}
}

// TestFill compares the search for a block's end, and the choice of its width,
// with trying all.
func TestFill(t *testing.T) {
	rnd := rand.New(rand.NewPCG(25, 26))
	least := func(n int, span uint64) int {
		size := blockBytes(n, span, 0)
		for w := range maxLow + 1 {
			size = min(size, blockBytes(n, span, w))
		}
		return size
	}
	sets := shapes()
	for range 200 {
		keys := spread(rnd, 1+rnd.IntN(5000), 1+rnd.IntN(50))
		keys[len(keys)-1] |= 1 << (63 - rnd.IntN(20)) // at times far away
		if slices.IsSorted(keys) {
			sets[string(rune(len(sets)))] = keys
		}
	}
	for name, keys := range sets {
		for len(keys) > 0 {
			room := capacity(int64(rnd.IntN(2)))
			want := 1
			for want < min(len(keys), maxKeys) && least(want+1, keys[want]-keys[0]) <= room {
				want++
			}
			if got := fill(keys, room, rnd.IntN(5000)); got != want {
				t.Fatalf("%q: %d keys to a block, want %d", name, got, want)
			}
			if span := keys[want-1] - keys[0]; bestBytes(want, span) != least(want, span) {
				t.Fatalf("%q: %d bytes, want %d", name, bestBytes(want, span), least(want, span))
			}
			keys = keys[want:]
		}
	}
}

// TestChecksum compares with the standard library.
func TestChecksum(t *testing.T) {
	rnd := rand.New(rand.NewPCG(33, 34))
	b := make([]byte, 10000)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	for n := range 2100 {
		for _, part := range [][]byte{b[:n], b[len(b)-n:], b[n : n+BlockSize-n/2]} {
			if got, want := checksum(part), crc32.Checksum(part, castagnoli); got != want {
				t.Fatalf("%d bytes: %08x, want %08x", len(part), got, want)
			}
		}
	}
}
