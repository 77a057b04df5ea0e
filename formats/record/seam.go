package record

import (
	"io"
	"time"
)

// Extra holds, for one row, the values of columns that this version does not
// know, so that a stage passes them through. Copy it from the row that was read
// to the row that is written. The zero Extra has none.
type Extra struct {
	batch *extraBatch
	row   int
}
type extraBatch struct{}

// Schema describes an input's columns and metadata, so that an output can be
// declared with the same unknown columns (WriterOptions.Like).
type Schema struct {
	Kind    Kind
	Version string
	Now     Time
	Txn     string
	HasBody bool
}

// ReaderOptions say what is read.
type ReaderOptions struct {
	Name string // file name for messages; "standard input" for a pipe
	Pipe bool   // a missing trailer is fault.Upstream (exit 4) and not fault.Truncated (exit 3)
}

// Source is an opened input whose kind is known and whose rows are not read yet.
type Source struct{}

// Open reads the head and the schema of a record stream.
func Open(in io.Reader, opt ReaderOptions) (*Source, error) { panic("seam") }

// Kind, Schema of the first stream.
func (s *Source) Kind() Kind      { panic("seam") }
func (s *Source) Schema() *Schema { panic("seam") }

// Reader reads rows of one kind. One goroutine.
type Reader[T Row] struct{}

// Rows starts reading; fault.WrongKind ("expected url, got link") if the kinds differ.
func Rows[T Row](s *Source) (*Reader[T], error) { panic("seam") }

// NewReader is Open and Rows in one.
func NewReader[T Row](in io.Reader, opt ReaderOptions) (*Reader[T], error) { panic("seam") }

// Read fills row. io.EOF itself (never wrapped) comes only after every stream
// of the input ended with a valid trailer (or, for bare Arrow, its end of stream).
func (r *Reader[T]) Read(row *T) error { panic("seam") }

// Schema of the input.
func (r *Reader[T]) Schema() *Schema { panic("seam") }

// Trailer of the whole input, after Read returned io.EOF: for several streams
// in a row their sums (see Ledger.Merge).
func (r *Reader[T]) Trailer() Trailer { panic("seam") }

// Compression of frames.
type Level int

const (
	Stored Level = iota // raw blocks, still checksummed: for pipes
	Fast                // zstd level 1: for files
)

// WriterOptions say how rows are written.
type WriterOptions struct {
	Name       string        // for messages
	Level      Level         // frames' compression
	FlushAfter time.Duration // also cut a batch this long after its first row; 0: by rows and bytes only
	Body       bool          // fetch only: with the body column
	Like       *Schema       // pass this input's unknown columns through; may be nil
	Txn        string        // stands in metadata and trailer
	Now        Time          // the round's clock, metadata "mercator.now"; 0: none
	Threads    int           // compression threads; 0: 1
}

// Writer writes rows of one kind. One goroutine. Errors stick. There is no
// Close: a Writer that is dropped leaves a stream without trailer, which every
// reader refuses.
type Writer[T Row] struct{}

// NewWriter writes the schema at once, so that a reader downstream can open.
func NewWriter[T Row](out io.Writer, opt WriterOptions) (*Writer[T], error) { panic("seam") }

// Write appends a row; it keeps no reference to it.
func (w *Writer[T]) Write(row *T) error { panic("seam") }

// Flush ends the batch and writes it.
func (w *Writer[T]) Flush() error { panic("seam") }

// Finish flushes, writes Arrow's end of stream and returns what the trailer will say,
// without writing it. (A file's bytes can be made durable in between.)
func (w *Writer[T]) Finish() (rows uint64, hash Hash, err error) { panic("seam") }

// Commit is Finish, if that was not called, and then the trailer.
func (w *Writer[T]) Commit(l Ledger) (Trailer, error) { panic("seam") }

// Hash is the hash of a stream's rows in their canonical encoding, blind to
// batch cuts, codec and the body column. Text form: 32 hex digits.
type Hash [16]byte

func (h Hash) String() string { panic("seam") }

// Trailer is what stands after Arrow's end of stream, on success only.
type Trailer struct {
	Verified bool // false for bare Arrow
	Rows     uint64
	Hash     Hash
	Txn      string
	Ledger   Ledger
}

// Count is a number by reason.
type Count struct {
	Reason string `json:"reason"`
	N      uint64 `json:"n"`
}

// Stage is one stage's books: In = Passed + Consumed + sum(Drops),
// Out = Passed + sum(Made).
type Stage struct {
	Name     string  `json:"name"`            // "mfetch", "murlset new"
	Store    string  `json:"store,omitempty"` // base name of the store that the stage commits to; "" for none
	Txn      string  `json:"txn,omitempty"`
	In       uint64  `json:"in"`
	InHash   string  `json:"in_hash,omitempty"` // of the rows read; absent for a source
	Passed   uint64  `json:"passed"`
	Consumed uint64  `json:"consumed"`
	Drops    []Count `json:"drops,omitempty"`   // sorted by reason
	Made     []Count `json:"made,omitempty"`    // sorted by reason
	Refused  []Count `json:"refused,omitempty"` // candidates that never became rows (links refused by a filter), sorted by reason
	Out      uint64  `json:"out"`
	OutHash  string  `json:"out_hash,omitempty"` // of the rows written; absent for a sink
}

// Ledger is the books of this stage (last) and of each before it. Where streams
// of different history were joined, Joined holds their ledgers.
type Ledger struct {
	Stages []Stage  `json:"stages"`
	Joined []Ledger `json:"joined,omitempty"`
}

// Balance checks every stage's sums and that each stage's out is the next one's
// in, in number and in hash; the error names the first gap.
func (l Ledger) Balance() error { panic("seam") }

// Merge joins the books of two streams that were concatenated.
func (l Ledger) Merge(o Ledger) Ledger { panic("seam") }

// RowHasher computes the Hash of rows that do not come from a record stream
// (text). The zero value is ready.
type RowHasher[T Row] struct{}

func (h *RowHasher[T]) Add(row *T)          { panic("seam") }
func (h *RowHasher[T]) Sum() (uint64, Hash) { panic("seam") } // rows, hash
