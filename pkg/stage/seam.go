// Package stage runs one command over one batch in the one order that keeps
// every promise of a transaction:
//
//	read all input and its trailer → publish the store → publish the copies → write own trailer
//
// so that a command commits only what its whole upstream committed, and a pipe
// that died anywhere is repaired by running it again.
package stage

import (
	"context"
	"io"

	"mercator/formats/record"
	"mercator/formats/store"
)

// Input is where rows come from: a *record.Reader, or text (package cli).
type Input[T record.Row] interface {
	Read(row *T) error // io.EOF only at a verified end
	Schema() *record.Schema
	Trailer() record.Trailer // after io.EOF
}

// Sink is one place where the output goes.
type Sink interface {
	io.Writer
	Options() record.WriterOptions // level, flush, body, name
	Publish() error                // after the trailer: fsync and rename of a file; nothing for a pipe
	Abort()                        // nothing of it stays; after Publish it does nothing
}

// Spec says what is run.
type Spec struct {
	Name     string       // in the ledger: "mresolve", "murlset new"
	Verb     string       // of the transaction: "new"
	Store    *store.Store // nil: nothing is committed
	Txn      string       // "": commits at once, keeps no output
	Now      record.Time  // the round's clock; 0: the input's
	NoOutput bool         // a sink: writes no rows (mfrontier update)
	// Spooled: rows reach the sinks only after the store's commit and unlock
	// (mfrontier next, murlset new). Otherwise rows stream as they are made.
	Spooled bool
	// LateLock: the body calls Batch.Begin itself, once its inputs have ended
	// (mfrontier update, murlset new). Otherwise the lock is taken before the body.
	LateLock bool
}

// Batch is one run over one batch. One goroutine calls Read, one (it may be
// another) calls Pass, Make, Drop, Consume and Refuse.
type Batch[In, Out record.Row] struct{}

// Tx is the store's transaction; nil before Begin with LateLock, or without store.
func (b *Batch[In, Out]) Tx() *store.Tx { panic("seam") }

// Begin takes the lock (LateLock).
func (b *Batch[In, Out]) Begin(ctx context.Context) (*store.Tx, error) { panic("seam") }

// Now is the round's clock: Spec.Now, or what the input's metadata says, or 0.
func (b *Batch[In, Out]) Now() record.Time { panic("seam") }

// Read counts a row in. io.EOF: the input ended whole.
func (b *Batch[In, Out]) Read(row *In) error { panic("seam") }

// Pass writes the row that an input row became.
func (b *Batch[In, Out]) Pass(row *Out) error { panic("seam") }

// Make writes a row that no input row became (robots rows, links), by reason.
func (b *Batch[In, Out]) Make(reason string, row *Out) error { panic("seam") }

// Drop accounts for an input row that goes no further, by reason.
func (b *Batch[In, Out]) Drop(reason string) { panic("seam") }

// Consume accounts for an input row that was used up (a page whose links were made).
func (b *Batch[In, Out]) Consume() { panic("seam") }

// Refuse counts candidates that never became rows, by reason.
func (b *Batch[In, Out]) Refuse(reason string, n uint64) { panic("seam") }

// Result tells what was done.
type Result struct {
	Stage    record.Stage  // this stage's books
	Ledger   record.Ledger // with all before it
	Repeated bool          // the transaction had committed before; its kept output was emitted
}

// Run runs body over the batch, unless (Verb, Txn) has committed: then it drains
// the input, refuses another one than it was (fault.Conflict), and emits the
// kept output. The body must read until io.EOF and account for each row that it
// read exactly once (Pass, Drop or Consume); Run refuses unbalanced books. For a
// source in is nil. An error of body, a cancelled ctx or a truncated input leaves
// the store and all sinks as they were.
func Run[In, Out record.Row](ctx context.Context, spec Spec, in Input[In], sinks []Sink, body func(ctx context.Context, b *Batch[In, Out]) error) (Result, error) {
	panic("seam")
}
