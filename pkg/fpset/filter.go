package fpset

import (
	"io"
	"math/bits"

	"mercator/formats/fpfile"
)

// filter is a split-block Bloom filter (Putze, Sanders and Singler, "Cache-,
// Hash- and Space-Efficient Bloom Filters", 2007) of the keys of one run: a key
// sets one bit in each of the eight words of one block. has may say yes of a key
// that was never put, never no of one that was.
//
// It is made of the run, when enough was read of that, and kept in memory only:
// nothing on disk could be stale or damaged. A binary fuse filter of 8 bits says a
// false yes three times less often in a tenth less memory, but takes 25 bytes a key
// while it is made, more than commands may (BenchmarkFilter).
type filter struct{ blocks [][8]uint32 }

// filterBits is the number of bits of filter for each key.
const filterBits = 10

// filterBytes is the size of a filter of n keys.
func filterBytes(n uint64) int64 { return int64(blocksFor(n)) * 32 }

func blocksFor(n uint64) uint64 { return max(1, (n*filterBits+255)/256) }

// newFilter returns an empty filter of room for n keys.
func newFilter(n uint64) *filter { return &filter{make([][8]uint32, blocksFor(n))} }

// filterOf makes a filter of all keys of r.
func filterOf(r *fpfile.Reader) (*filter, error) {
	f := newFilter(r.Count())
	it := r.All()
	for {
		keys, err := it.Block()
		if err == io.EOF {
			return f, nil
		}
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			f.put(k)
		}
	}
}

// salts make eight bit numbers of one hash: odd, random.
var salts = [8]uint32{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// place returns the block of a key, and the hash that its bits come from. Keys may
// share their high bits; multiplication spreads them, the high half over the
// blocks and the low half over the bits.
func (f *filter) place(key uint64) (block *[8]uint32, hash uint32) {
	h := key * 0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	i, _ := bits.Mul64(h, uint64(len(f.blocks)))
	return &f.blocks[i], uint32(h)
}

func (f *filter) put(key uint64) {
	b, h := f.place(key)
	for i, salt := range salts {
		b[i] |= 1 << (h * salt >> 27)
	}
}

func (f *filter) has(key uint64) bool {
	b, h := f.place(key)
	for i, salt := range salts {
		if b[i]>>(h*salt>>27)&1 == 0 {
			return false
		}
	}
	return true
}

// pass keeps the keys that has says yes of, in place and in order.
func (f *filter) pass(keys []uint64) []uint64 {
	n := 0
	for _, k := range keys {
		if f.has(k) {
			keys[n] = k
			n++
		}
	}
	return keys[:n]
}
