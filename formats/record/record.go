// Package record reads and writes record streams (.arrows.zst): Arrow IPC
// streams of four kinds of rows, in a container that notices damage. The layout
// is SPEC.md beside this file, version 3.
//
// # Invariants
//
//   - Read returns io.EOF only after each stream of the input ended with a valid
//     trailer: rows, row hash and wire hash agree with what was read.
//   - A Writer that was not committed leaves a stream that every Reader refuses.
//   - No message is larger than MaxMessage, and memory does not grow with what an
//     input claims: sizes are checked before anything is allocated, and the layout
//     of each message is checked before a value of it is used.
//   - The row hash depends on the rows alone: not on batch cuts, compression, or on
//     how rows were spread over concatenated streams.
//
// # One table
//
// A kind's columns stand once, as tags of its Go type (rows.go). Package reflect makes a table of them when the program
// starts (rowtype.go), and every way to handle a row is one loop over that table: Arrow, the byte form, text, order, what a row
// gives to one of another kind (carry.go), the archive's copy of fetch rows. A column is added by a field with a tag, late: rows without
// it have zero there, and older readers pass it on as an unknown column. A new Version is for what they would misread (package release).
//
// # Why so
//
//   - The container: Arrow's own framing notices neither a cut between batches nor a flipped bit.
//   - The wire hash beside the frames' checksums: zstd's decoder ignores some bits.
//   - The byte form has fixed widths for keys, hashes and times, which are seldom small, and leaves out what is zero:
//     half of a URL's columns, most of a robots contact's.
//   - No column of bodies: they are in the WARC files, where readers find them after any accident. Fetch.Body is for
//     readers of WARC files within a program.
//
// Errors are *fault.Error with the frame's number (the schema's is 1) and offset.
// A Reader or Writer serves one goroutine.
package record

// Limits of the format.
const (
	MaxMessage = 16 << 20 // bytes of one Arrow message, uncompressed
	MaxRow     = 14 << 20 // bytes of all values of one row
	MaxSchema  = 1 << 20  // bytes of the schema message
	MaxColumns = 1024
	MaxLedger  = 1 << 20 // bytes of a trailer's JSON
	MaxObjects = 4096    // JSON objects in a trailer

	batchRows  = 8192    // a batch is cut at this many rows
	batchBytes = 1 << 20 // bytes of values that fill a batch, too
)

// Version of the format, the only one that is read.
const (
	Version       = 3
	formatVersion = "3"
)

// Keys of the schema's metadata.
const (
	metaKind     = "mercator.kind"
	metaVersion  = "mercator.version"
	metaTxn      = "mercator.txn"
	metaNow      = "mercator.now"
	metaEpoch    = "mercator.epoch"
	metaResolver = "mercator.resolver"
)

// maxTxn bounds the name of a transaction, in bytes.
const maxTxn = 255
