// Package bloom reads and writes Bloom filters of 64-bit fingerprints (.bloom).
//
// A filter answers "seen before?" in a few bits a fingerprint, and is wrong at a
// known rate: always in one direction, a fingerprint that was never added may be
// called seen (a false drop). It is blocked (Putze, Sanders and Singler, "Cache-,
// hash- and space-efficient Bloom filters", 2007): all bits of a fingerprint lie in one
// block of 64 bytes, so that a test reads one page. The layout is SPEC.md beside this
// file, version 2.
//
// # Invariants
//
//   - A fingerprint that was added is never called unseen.
//   - One set of fingerprints has one encoding for a number of pages.
//   - A page's bytes are used only after their checksum was verified.
//   - Memory is two pages, whatever the file's size.
//
// A Reader serves one goroutine.
//
// # Why so
//
//   - Blocks: a test reads one page, and a batch that is sorted by place reads each page once. A filter with its bits
//     anywhere has fewer false drops: 2.2 % at 8 bits a fingerprint (here 2.5 %), 0.046 % at 16 (here 0.099 %).
//   - Seven bits are 63 bits of one hash. It is the best number at 10 bits a fingerprint, and near it from 8 to 16.
//   - The size is fixed: filters of different sizes cannot be joined, and growing would need the fingerprints.
//   - Each change writes the whole file again, so that a generation never changes and can be returned to.
package bloom

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
)

// The layout:
//
//	+--------+--------+--------+---
//	| header | page 0 | page 1 | …      a page: 127 blocks of 64 bytes,
//	| 64     | 8192   | 8192   |        44 zero bytes, ones, number, checksum
//	+--------+--------+--------+---
const (
	PageSize = 8192 // bytes

	version = 2

	headerSize = 64
	blockBytes = 64
	blockBits  = 8 * blockBytes
	pageBlocks = 127
	onesAt     = PageSize - 20 // u64: bits set in the page
	numberAt   = PageSize - 12 // u64
	sumAt      = PageSize - 4

	// PageBits is the number of bits that fingerprints may set in a page.
	PageBits = pageBlocks * blockBits

	// Bits is the number of bits that a fingerprint sets.
	Bits = 7

	// MaxPages bounds a filter: 8 TiB.
	MaxPages = 1 << 30
)

const magic = "\x89BLM\r\n\x1a\n"

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Place is where a fingerprint stands in the order of a filter: fingerprints of
// ascending places lie in ascending blocks, whatever the number of pages. It is a
// bijection that spreads fingerprints which share their high bits (URL checksums do).
func Place(key uint64) uint64 { return mix(key) }

// mix is the finalizer of MurmurHash3.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// locate returns the block of a place, and what says which of its bits.
func locate(place uint64, blocks int64) (block int64, which uint64) {
	hi, _ := bits.Mul64(place, uint64(blocks))
	return int64(hi), mix(place + 0x9e3779b97f4a7c15)
}

// set sets the bits of a fingerprint in its block.
func set(block []byte, which uint64) {
	for range Bits {
		block[which%blockBits>>3] |= 1 << (which & 7)
		which >>= 9
	}
}

// has reports whether all bits of a fingerprint are set in its block.
func has(block []byte, which uint64) bool {
	for range Bits {
		if block[which%blockBits>>3]&(1<<(which&7)) == 0 {
			return false
		}
		which >>= 9
	}
	return true
}

// PagesFor is the number of pages of a filter of about that size in bytes, at least one.
func PagesFor(bytes int64) int64 { return min(max(1, bytes/PageSize), MaxPages) }

// Expected is the rate of false drops that a filter of pages is expected to have
// with n fingerprints in it: the probability that a fingerprint that was not
// added is called seen. The number of fingerprints in a block is as Poisson's.
func Expected(n uint64, pages int64) float64 {
	mean := float64(n) / float64(pages*pageBlocks)
	rate, p := 0.0, math.Exp(-mean) // p: of a block with i fingerprints
	if p == 0 {
		return dropRate(mean) // too many for the spread to matter
	}
	for i := 0.0; i < mean+20*math.Sqrt(mean)+20; i++ {
		rate += p * dropRate(i)
		p *= mean / (i + 1)
	}
	return rate
}

// dropRate is the rate for a block with n fingerprints in it.
func dropRate(n float64) float64 {
	return math.Pow(1-math.Pow(1-1.0/blockBits, Bits*n), Bits)
}

// Header describes a filter.
type Header struct {
	Polynomial uint64 // polynomial of the fingerprints
	Keys       uint64 // keys added
	Pages      int64
	Ones       uint64  // bits that are set
	Rate       float64 // of false drops, counted from the bits: the mean of (set bits ÷ 512)⁷ over blocks
}

func (h *Header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	le.PutUint32(b[8:], version)
	le.PutUint64(b[16:], h.Polynomial)
	le.PutUint64(b[24:], h.Keys)
	le.PutUint64(b[32:], uint64(h.Pages))
	le.PutUint64(b[40:], h.Ones)
	le.PutUint64(b[48:], math.Float64bits(h.Rate))
	le.PutUint32(b[60:], checksum(b[:60]))
	return b
}

// decodeHeader reads the header of a file of size bytes.
func decodeHeader(b []byte, size int64, name string) (h Header, err error) {
	corrupt := func(found, want string) error {
		return &fault.Error{Class: fault.Corrupt, File: name, Place: "header", Found: found, Want: want}
	}
	if n := min(len(b), len(magic)); string(b[:n]) != magic[:n] {
		return h, &fault.Error{Class: fault.WrongKind, File: name, Place: "byte 0", Found: "not a Bloom filter"}
	}
	if len(b) < headerSize {
		return h, truncated(name, size, "a header of 64")
	}
	if v := le.Uint32(b[8:]); v != version {
		return h, &fault.Error{Class: fault.Version, File: name, Place: "header", Found: fmt.Sprintf("format version %d", v), Want: fmt.Sprint(version), Hint: release.Reader(release.Bloom, uint64(v))}
	}
	if got, want := checksum(b[:60]), le.Uint32(b[60:]); got != want {
		return h, corrupt(fmt.Sprintf("checksum %08x", got), fmt.Sprintf("%08x", want))
	}
	pages := le.Uint64(b[32:])
	if pages == 0 || pages > MaxPages {
		return h, corrupt(fmt.Sprintf("%d pages", pages), fmt.Sprintf("1 to %d", MaxPages))
	}
	h = Header{le.Uint64(b[16:]), le.Uint64(b[24:]), int64(pages), le.Uint64(b[40:]), math.Float64frombits(le.Uint64(b[48:]))}
	if le.Uint32(b[12:]) != 0 || le.Uint32(b[56:]) != 0 || !(h.Rate >= 0 && h.Rate <= 1) {
		return h, corrupt("reserved bytes, or a rate out of range", "zero bytes, and a rate of 0 to 1")
	}
	switch want := headerSize + h.Pages*PageSize; {
	case size < want:
		return h, truncated(name, size, fmt.Sprintf("%d bytes for %d pages", want, pages))
	case size > want:
		return h, corrupt(fmt.Sprintf("%d bytes of file", size), fmt.Sprintf("%d for %d pages", want, pages))
	}
	return h, nil
}

func truncated(name string, size int64, want string) error {
	return &fault.Error{Class: fault.Truncated, File: name, Place: fmt.Sprintf("byte %d", size), Found: "the end", Want: want,
		Hint: "the file was cut short"}
}
