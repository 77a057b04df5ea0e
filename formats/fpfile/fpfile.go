// Package fpfile reads and writes sorted fingerprint files (.fps).
//
// A file holds strictly increasing 64-bit fingerprints in checksummed
// Elias–Fano blocks of 8 KiB, closed by a trailer. The layout is SPEC.md beside
// this file, version 1.
//
// # Invariants
//
//   - Add refuses a fingerprint not above the one before it.
//   - One set of fingerprints has one encoding: equal sets are equal files.
//   - A file without a valid trailer is never read as complete.
//   - A block's bytes are used only after their checksum was verified.
//   - Memory is a few blocks, and 8 bytes for each 8 MiB of file.
//
// # Which call
//
// Everything in order: Reader.All or Range, and Iter.Block. A few keys anywhere:
// Contains or ContainsAll, which read a block for each at most. Keys in order, many or
// few: Iter.Mark, which reads the blocks between the first and the last at most once.
// Writing: AddKeys, of some ten thousand keys at a time; SetWorkers if there are
// processors to spare.
//
// # Why so
//
//   - Elias–Fano: n fingerprints drawn from 2⁶⁴ cannot take less than 64 − log₂ n + 1.443 bits each. This form takes
//     0.5 bits more, headers and padding 0.2 %, the index 0.1 %: 42.79 bits at 10⁷ (1.014 of the bound), 36.17 at 10⁹
//     (1.018). Byte-wise differences miss it by more than 5 %. Golomb–Rice codes come closest, and decode four times slower.
//   - A width for each block: URL checksums begin with 16 bits of their host's fingerprint, and are crowded where a host
//     is large. (So they take less room: 33.84 bits at 10⁸ URLs of 10⁶ hosts.)
//   - Slots: a block's place follows from its number, so the index holds first fingerprints only, reads are aligned, and
//     blocks can be copied from file to file.
//   - Index pages among the blocks: a writer and a reader hold one page, whatever the size of the set.
//   - At most 4,096 in a block: a decoded block stays below 32 KiB, also in a set of consecutive numbers.
//   - The last fingerprint in the footer: with the root it tells a file's range, so that files outside it are not read.
//   - Where a block ends depends on its first and last fingerprint and their number: a writer finds the ends by binary
//     search, and encodes blocks in parallel.
//
// # Assembly
//
// Decoding, encoding and checksums have a version for AVX-512 (with VBMI2 and
// VPCLMULQDQ), chosen at run time, which is two to six times as fast as the one in
// Go that every machine has. Tests and fuzzing compare them.
//
// A Reader with its Iters, or a Writer, serves one goroutine; many Readers may share
// an io.ReaderAt, which Mark and ContainsAll read from several places at once.
package fpfile

import (
	"encoding/binary"
	"fmt"
)

// The layout. A slot is 8 KiB of file; each holds one block, but every 1,024th
// holds the index page of the 1,023 blocks before it:
//
//	+--------+---------+---------+---+------------+--------+---+------------+------+--------+
//	| header | block 0 | block 1 | … | index page | block  | … | index page | root | footer |
//	| 32     |         |         |   | of 0–1022  | 1023   |   | of the rest|      | 48     |
//	+--------+---------+---------+---+------------+--------+---+------------+------+--------+
//	^ slot 0           ^ slot 1      ^ slot 1023  ^ slot 1024  ^ at once after the last block
const (
	BlockSize = 8192 // bytes of a slot, and the most that a block takes

	version = 1

	headerSize  = 32
	footerSize  = 48
	blockHeader = 16
	pageHeader  = 8
	pageBlocks  = (BlockSize - pageHeader) / 8 // blocks to an index page
	maxBlocks   = 1 << 30                      // 8 TiB of file, some 10¹² fingerprints
	maxKeys     = 4096                         // to a block: 32 KiB decoded
	maxLow      = 63                           // bits
)

const (
	headMagic = "\x89FPS\r\n\x1a\n"
	footMagic = "FPS.end\n"
)

var le = binary.LittleEndian

// geometry says where the parts of a file with some number of blocks lie.
type geometry struct {
	blocks  int64
	lastLen int64 // bytes of the last block
}

func (g geometry) pages() int64 { return (g.blocks + pageBlocks - 1) / pageBlocks }

// block returns the place of block k.
func (g geometry) block(k int64) (off, length int64) {
	slot := k + k/pageBlocks
	off = slot * BlockSize
	if slot == 0 {
		off = headerSize
	}
	if k == g.blocks-1 {
		return off, g.lastLen
	}
	return off, (slot+1)*BlockSize - off
}

// dataEnd is the place after the last block.
func (g geometry) dataEnd() int64 {
	if g.blocks == 0 {
		return headerSize
	}
	off, n := g.block(g.blocks - 1)
	return off + n
}

// page returns the place of index page p.
func (g geometry) page(p int64) (off, length int64) {
	length = pageHeader + 8*min(pageBlocks, g.blocks-p*pageBlocks)
	if p == g.pages()-1 {
		return g.dataEnd(), length
	}
	return ((p+1)*(pageBlocks+1) - 1) * BlockSize, length
}

// root returns the place of the root.
func (g geometry) root() (off, length int64) {
	if g.blocks == 0 {
		return headerSize, 0
	}
	off, length = g.page(g.pages() - 1)
	return off + length, 8 * g.pages()
}

// size is the whole file's.
func (g geometry) size() int64 {
	off, length := g.root()
	return off + length + footerSize
}

// capacity is the number of bytes that block k may take.
func capacity(k int64) int {
	if k == 0 {
		return BlockSize - headerSize
	}
	return BlockSize
}

func blockPlace(k, off int64) string { return fmt.Sprintf("block %d at byte %d", k, off) }

func hex32(v uint32) string { return fmt.Sprintf("checksum %08x", v) }
