// Package run reads and writes sorted runs: rows of a 64-bit key and a payload of bytes, in
// ascending order of key, in checksummed, compressed blocks with an index.
//
// It knows nothing of what the payloads are. A run's kind, a short name in its header, says so,
// and the package that writes a kind has the codec. The layout is SPEC.md beside this file.
//
// A run is written once, from its first row to its last, and never changed. It is read from its
// start, from any position that a Scanner told, or from the first row of a key (Seek).
//
// # Invariants
//
//   - Keys ascend; rows of one key stand as they were added.
//   - A file without a whole, valid trailer is never read.
//   - A row is given out only from a block with a valid checksum.
//   - A Scanner's memory is one block (two if it reads ahead) and one page of the index, whatever
//     the file's size. A block is 64 KiB as a rule; only one with a large payload is larger.
//   - A payload shares its block's memory, which is not used again (but for Scanner.Reuse): it is valid as long as it is
//     referenced, keeps its block in memory, and must not be changed.
//
// Readers, Scanners and Writers serve one goroutine.
//
// # Why so
//
// A row stands whole, key beside payload, although columns compress numbers better: by columns a host took 12.9 bytes, and takes
// up to 19; a URL of a queue takes no more (26.2 bytes, 27.0 by columns). In return merging rows is copying bytes, a search
// passes over rows without decoding them, and one codec serves runs and everything else that holds rows.
//
// Blocks of 64 KiB hold some 600 URLs. Larger ones compress better (2,400 URLs a block: 7 %), but
// a merge holds one of each run.
//
// zstd stands at its fastest level: packing is the dearest part of a row, and a row is packed
// up to four times in its life. The default level gains 4 to 6 %.
package run

import (
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Limits. A writer keeps them, a reader refuses what breaks them.
const (
	MaxKind    = 16      // characters of a kind
	MaxPayload = 1 << 30 // bytes
	MaxPacked  = 1 << 20 // bytes of rows of a block that is compressed; larger ones are stored
	maxStored  = MaxPayload + MaxPacked
)

// Where a writer ends a block, if nothing else is said (Writer.Blocks).
const (
	BlockTarget    = 64 << 10  // bytes of rows
	MaxBlockTarget = 512 << 10 // the most that can be asked for
)

// A file, see SPEC.md:
//
//	| header 32 | block … (up to 256) | page | block … | page | directory | trailer 56 |
const (
	headerSize  = 32
	blockHead   = 40 // magic, codec, stored, raw, count, first, last, checksum
	pageHead    = 8  // magic, count
	entrySize   = 16 // offset, first key
	pageEntries = 256
	trailerSize = 56

	headerMagic  = "MSORTRUN"
	trailerMagic = "MRUNDONE"
	blockMagic   = "MBLK"
	pageMagic    = "MPAG"
	dirMagic     = "MDIR"

	version = 1

	leastRow    = 2   // bytes
	leastPacked = 512 // bytes of rows below which a block is stored
	codecStored = 0
	codecZstd   = 1
)

// Position is a place between rows: before row Row of the block at byte Offset.
type Position struct {
	Offset uint64 `json:"offset"`
	Row    uint32 `json:"row"`
}

// Start is the position before the first row of every run.
var Start = Position{Offset: headerSize}

// validKind reports whether a kind can stand in a header: 1 to 16 lower-case letters and hyphens.
func validKind(kind string) bool {
	for _, c := range []byte(kind) {
		if c != '-' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return kind != "" && len(kind) <= MaxKind
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The codecs are shared: EncodeAll and DecodeAll are safe for many goroutines. Each works on two
// blocks at a time, since a merge goes on beside other writing.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(MaxPacked), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxPacked))
		if err != nil {
			panic(err)
		}
		return d
	})
)
