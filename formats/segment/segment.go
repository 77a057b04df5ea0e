// Package segment reads and writes the frontier's files: queues of URLs and
// tables of hosts and domains, as sorted runs of checksummed, compressed blocks.
//
// The layout is SPEC.md beside this file, version 1.2. A segment is written
// once, from its first row to its last, and never changed. It is read from any
// position that a Scanner told, or from the first row of an order (Seek).
//
// # Invariants
//
//   - Rows stand in ascending order of their 64-bit Order; rows of equal order
//     stand as they were written.
//   - A file without a whole, valid trailer is never read.
//   - A row is given out only from a block whose checksum held.
//   - A Scanner's memory is one block (at most 1 MiB, as a rule 64 KiB), two if it
//     reads ahead, and one page of the index, whatever the file's size.
//
// Readers, Scanners and Writers serve one goroutine.
package segment

import (
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"

	"mercator/formats/record"
	"mercator/pkg/fault"
)

// ErrCorrupt is what errors.Is finds in the error of a damaged segment.
var ErrCorrupt error = fault.Corrupt

// Limits. A writer keeps them, a reader refuses what breaks them.
const (
	MaxString    = 1<<16 - 1 // bytes of one string
	MaxBlockRaw  = 1 << 20   // bytes of a block's columns before compression
	MaxBlockRows = 1 << 13
	MaxLevels    = 256 // front queues of one host
	MaxSources   = 256 // domains that link to one, and are told apart
)

// Where a writer ends a block, if nothing else is said (Writer.Blocks): large enough
// to compress, small enough that a merge of a hundred segments stays within its memory.
const (
	BlockTarget    = 64 << 10  // bytes of columns
	MaxBlockTarget = 512 << 10 // so that MaxBlockRaw is not passed, whatever the last row is
)

// Entry is a URL in a queue.
type Entry struct {
	Key   uint64 // what the segment is sorted by; the queue says what it is
	Place uint64 // the row's place in the queue that it came from; 0 where that is Order
	URL   record.URL
	Visit Visit // kept by segments with the feature Visits only
}

// Visit is what earlier visits of a URL told about its page, for schedules that
// come back to it. What the numbers are good for is the frontier's business.
type Visit struct {
	Visits     uint32      // that found the page, changed or not
	Changes    uint32      // of the page that were seen
	ObservedUS uint64      // time in which those were seen, in µs
	Last       record.Time // start of the last visit that found the page
	Gone       uint8       // visits in a row that did not find it

	// Kept by segments with the feature Promises too.
	Until  record.Time // until when the page was to stay as it is, as the last of these visits was told; 0: not told
	Broken uint8       // how far such promises are not to be believed
}

// LevelPlace is the last place that a host was given in one front queue.
type LevelPlace struct {
	Level uint8
	Place uint64
}

// Host is a host's state. Counts are of URLs unless said otherwise.
type Host struct {
	Key         uint64 // the first eight bytes of SHA-256 of Host
	Host        string
	Discovered  uint64 // ever put into the frontier
	Finished    uint64 // with a final outcome
	Fetched     uint64 // of these, with a reply (outcome "fetched")
	Retried     uint64 // attempts that failed and were queued again
	Deferred    uint64 // times that a URL was put off untried
	Dead        uint64 // finished because no attempt was left
	Contacts    uint64 // with the server, robots.txt included
	Failures    uint64 // contacts that failed since the last that did not
	DurationUS  uint64 // mean duration of a contact
	SpreadUS    uint64 // standard deviation of that; kept by segments with the feature Spreads only
	DelayUS     uint64 // mean gap that politeness demanded before a contact
	LastContact record.Time
	ParkedUntil record.Time // latest time that the server asked for (Retry-After)
	Addr        string      // last contacted
	Last        []LevelPlace
}

// Domain is a registered domain's state.
type Domain struct {
	Key    uint64 // the first eight bytes of SHA-256 of Domain
	Domain string
	// Sources are the other domains that link to it, MaxSources-1 at most: the last four
	// bytes of SHA-256 of each, ascending. Many: there are more, and they are not listed.
	Sources []uint32
	Many    bool
	Round   uint64 // of updates, up to which its budget is given away
	Used    uint64 // of the budget of that round
}

// InDegree is the number of other domains that link to it; MaxSources is that many or more.
func (d *Domain) InDegree() int {
	if d.Many {
		return MaxSources
	}
	return len(d.Sources)
}

// Row is what a segment holds.
type Row interface{ Entry | Host | Domain }

// Features are the bits of a segment's header that say what its rows have more
// than those of other segments of its kind.
type Features uint8

const (
	Visits   Features = 1 // of a queue of URLs whose rows have an Entry.Visit
	Spreads  Features = 2 // of a table of hosts whose rows have a Host.SpreadUS
	Promises Features = 4 // with Visits, of one where these have all fields
)

// known are the features that a kind may have.
func (f Features) known(kind byte) bool {
	return f == 0 || kind == 1 && (f == Visits || f == Visits|Promises) || kind == 2 && f == Spreads
}

// columns is how many there are beside those that all segments of the kind have.
func (f Features) columns() int {
	switch f {
	case Visits:
		return 5
	case Visits | Promises:
		return 7
	case Spreads:
		return 1
	}
	return 0
}

// fielder is what *Entry, *Host and *Domain are.
type fielder interface {
	fields(*coder)
	order() uint64
}

func (e *Entry) order() uint64  { return e.Key }
func (h *Host) order() uint64   { return h.Key }
func (d *Domain) order() uint64 { return d.Key }

func fieldsOf[T Row](row *T) fielder { return any(row).(fielder) }

// kindOf returns the kind byte of a segment of T, and the number of its columns
// where it has no features.
func kindOf[T Row]() (kind byte, columns int) {
	var row T
	switch any(&row).(type) {
	case *Entry:
		return 1, 26
	case *Host:
		return 2, 20
	default:
		return 4, 7
	}
}

func kindName(k byte) string {
	switch k {
	case 1:
		return "queue of URLs"
	case 2:
		return "table of hosts"
	case 4:
		return "table of domains"
	}
	return fmt.Sprintf("kind %d", k)
}

// RowCoder encodes and decodes rows by themselves, outside of a block, for files
// that live within one process. Its zero value is ready; it serves one goroutine.
type RowCoder[T Row] struct {
	c    coder
	buf  [1][]byte
	left [1]string
}

// Append appends row's encoding to b.
func (r *RowCoder[T]) Append(b []byte, row *T) []byte {
	r.buf[0] = b
	r.c = coder{byRow: true, cols: r.buf[:]}
	fieldsOf(row).fields(&r.c)
	return r.buf[0]
}

// Decode is the reverse of Append. b must hold one row, to which row keeps no reference.
func (r *RowCoder[T]) Decode(b []byte, row *T) error {
	*row = *new(T)
	r.left[0] = string(b)
	r.c = coder{byRow: true, reading: true, left: r.left[:]}
	fieldsOf(row).fields(&r.c)
	if r.c.bad || len(r.left[0]) != 0 {
		return undecodedRow()
	}
	return nil
}

func undecodedRow() error {
	return &fault.Error{Class: fault.Corrupt, Found: "a row that does not decode"}
}

// Fits reports whether an Entry of u keeps the limits of the format.
func Fits(u *record.URL) bool {
	for _, s := range []string{u.URL, u.Host, u.Via, u.Addr, u.AddrError, u.ETag, u.LastModified} {
		if len(s) > MaxString {
			return false
		}
	}
	return true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The codecs are shared: EncodeAll and DecodeAll are safe for many goroutines. Each packs two
// blocks at a time: a merge goes on beside the rest of an update.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(MaxBlockRaw), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxBlockRaw))
		if err != nil {
			panic(err)
		}
		return d
	})
)
