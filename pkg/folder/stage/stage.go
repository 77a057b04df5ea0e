// Package stage runs one command over one batch in the one order that keeps
// every promise of a transaction:
//
//	read all input and its trailer → publish the store → publish the copies → write own trailer
//
// so that a command commits only what its whole upstream committed, and a pipe
// that died anywhere is repaired by running it again.
//
// A stage has one of four shapes, which say when the store is locked and when rows go out:
//
//   - Filter: the store is locked first, and rows go out as they are made. mresolve, mfetch,
//     mfpset mark and murlset new --mode online, which pass rows on while they work; without
//     a store mextract, mcat and mmerge.
//   - Source: no input. The store is locked first, and rows go out when it has committed, so that
//     the stages behind cannot take rows that were never given: mfrontier next. Without a
//     store rows go out as they are made: mfrontier export.
//   - Gate: all input is read, then the body takes the lock (Batch.Begin), and rows go out
//     when the store has committed: murlset new and mresolve canon. A gate that reads for hours
//     locks its store for seconds, and it repeats or refuses before it writes a row.
//   - Sink: like Gate, but no rows go out: mfrontier add, raise, update and release, murlset add.
//
// Rows that wait are in the transaction's kept output, or else in a temporary file.
//
// # Invariants
//
//   - No sink gets a trailer before the store has committed.
//   - A body that fails, a cancelled context, a truncated input or an unbalanced
//     ledger leaves the store and every sink file as they were.
//   - Repeating a committed transaction changes nothing: its input is drained
//     and compared with what was committed, then the kept output is emitted.
package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/trace"
)

// Input is where rows come from: a *record.Reader, or text (package cli). One that reads rows
// in batches also has a method Buffered (see Batch).
type Input[T record.Row] interface {
	Read(row *T) error // io.EOF only at a verified end
	Schema() *record.Schema
	Trailer() record.Trailer // after io.EOF
}

// Output is one place where rows go.
type Output interface {
	io.Writer
	Options() record.WriterOptions // level, flush, body, name
	Publish() error                // after the trailer: fsync and rename of a file; nothing for a pipe
	Abort()                        // nothing of it stays; after Publish it does nothing
}

// Shape says when a stage locks its store, and when its rows go out. See the package's comment.
type Shape int

// The shapes. A Source has no input, a Sink no outputs.
const (
	Filter Shape = iota
	Source
	Gate
	Sink
)

// Spec describes a stage to run.
type Spec struct {
	Name     string // in the ledger: "mresolve", "murlset new"
	Shape    Shape
	Verb     string         // of the transaction: "new"
	Store    *store.Store   // nil: nothing is committed
	Stores   []string       // further stores that the body commits to once its input has ended (record.Stage.Stores)
	Txn      string         // "": commits at once, keeps no output; without a store, the input's if all of it has one
	Now      record.Time    // the round's clock; 0: the input's
	Threads  int            // for compression
	Resolver string         // how names were looked up (record.WriterOptions.Resolver)
	Like     *record.Schema // further columns of the output, where they are not those of an input of its kind (mfrontier export)
}

// locksLate: the body takes the lock itself, by Batch.Begin.
func (s *Spec) locksLate() bool { return s.Shape == Gate || s.Shape == Sink }

// holdsRows: rows go out when the store has committed and is unlocked.
func (s *Spec) holdsRows() bool { return s.Shape == Gate || s.Shape == Source && s.Store != nil }

// Unchanged is returned by a body that found nothing to do: nothing is
// committed, no transaction is recorded, and the empty output ends whole.
var Unchanged = errors.New("nothing to do")

// errRepeated tells Run that Begin found the transaction committed by another
// process while this one read its input.
var errRepeated error = &fault.Error{Class: fault.Busy, Found: "another process has committed this meanwhile", Hint: "run the command again: it repeats what was committed"}

// Result is the result of a stage.
type Result struct {
	Stage    record.Stage  // this stage's ledger
	Ledger   record.Ledger // with all before it
	Repeated bool          // the transaction had committed before; its kept output was emitted
}

// Batch is one run over one batch. One goroutine calls Read, one (it may be
// another) calls Pass, Make, Drop, Consume and Refuse.
type Batch[In, Out record.Row] struct {
	spec  Spec
	in    Input[In]
	sinks []Output
	tx    *store.Tx
	done  *store.Done // of a repeated transaction
	eof   bool
	read  uint64

	batches interface{ Buffered() int } // in, if it has that

	writers []*record.Writer[Out]
	kept    *store.NewFile
	keptW   *record.Writer[Out]
	spool   *os.File // rows that wait, without a kept output or before Begin
	spoolW  *record.Writer[Out]

	passed, consumed     uint64
	drops, made, refused map[string]uint64
}

// Tx is the store's transaction; nil without a store, and in a Gate or Sink before Begin.
func (b *Batch[In, Out]) Tx() *store.Tx { return b.tx }

// Now is the round's clock: Spec.Now, or what the input's metadata says, or 0.
func (b *Batch[In, Out]) Now() record.Time {
	if b.spec.Now != 0 || b.in == nil {
		return b.spec.Now
	}
	return b.in.Schema().Now
}

// Schema is the input's.
func (b *Batch[In, Out]) Schema() *record.Schema { return b.in.Schema() }

// Begin takes the store's lock, for the body of a Gate or Sink. If the transaction
// has committed meanwhile, its error must be returned by the body as it is.
func (b *Batch[In, Out]) Begin(ctx context.Context) (*store.Tx, error) {
	tx, done, err := b.spec.Store.Begin(ctx, b.spec.Verb, b.spec.Txn)
	if err != nil {
		return nil, err
	}
	if done != nil {
		b.done = done
		return nil, errRepeated
	}
	b.tx = tx
	if b.in != nil {
		if err := b.OfEpoch("input", b.in.Schema().Epoch); err != nil {
			return nil, err
		}
		if err := b.OfEpoch("input", b.in.Trailer().Epoch); b.eof && err != nil {
			return nil, err
		}
	}
	if b.spec.Txn != "" && b.spec.Shape != Sink {
		if b.kept, err = tx.Create("outputs/"+b.spec.Verb+"-", ".arrows.zst", "output"); err != nil {
			return nil, err
		}
		if b.keptW, err = record.NewWriter[Out](b.kept, b.fileOptions(b.kept.Path())); err != nil {
			return nil, err
		}
		if err := b.keepSpooled(); err != nil {
			return nil, err
		}
	}
	return tx, nil
}

// keepSpooled takes what was passed before Begin into the kept output.
func (b *Batch[In, Out]) keepSpooled() error {
	if b.spool == nil {
		return nil
	}
	if _, err := b.spoolW.Commit(record.Ledger{}); err != nil {
		return err
	}
	if _, err := b.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	rows, err := record.NewReader[Out](b.spool, record.ReaderOptions{Name: "temporary file"})
	if err != nil {
		return err
	}
	if err := record.Each(rows, b.keptW.Write); err != nil {
		return err
	}
	err = b.spool.Close()
	b.spool, b.spoolW = nil, nil
	return err
}

// OfEpoch refuses rows that were made in another epoch of the crawl than the one
// in which this transaction changes the store: abandon or restore has undone the
// round that they are of. file names them in the message.
func (b *Batch[In, Out]) OfEpoch(file, epoch string) error {
	now, ok := b.tx.Epoch(), b.tx.InCrawl()
	if !ok || epoch == "" || epoch == strconv.FormatUint(now, 10) {
		return nil
	}
	return &fault.Error{Class: fault.Conflict, File: file, Found: "records of epoch " + epoch + " of the crawl", Want: fmt.Sprintf("epoch %d", now),
		Hint: "abandon or restore has undone the round that made them: make the file again. For records of another crawl: mcat --format arrow"}
}

// epoch returns the epoch for the output's schema.
func (b *Batch[In, Out]) epoch() string {
	switch {
	case b.tx != nil && b.tx.InCrawl():
		return strconv.FormatUint(b.tx.Epoch(), 10)
	case b.in != nil:
		return b.in.Schema().Epoch
	}
	return ""
}

func (b *Batch[In, Out]) fileOptions(name string) record.WriterOptions {
	return b.declare(record.WriterOptions{Name: name, Level: record.Fast})
}

// declare completes a sink's options with what the whole stage shares.
func (b *Batch[In, Out]) declare(o record.WriterOptions) record.WriterOptions {
	o.Now, o.Epoch = b.Now(), b.epoch()
	o.Txn = b.spec.Txn
	o.Threads = b.spec.Threads
	if b.in != nil && b.in.Schema().Kind == kindOf[Out]() {
		o.Like, o.Resolver = b.in.Schema(), b.in.Schema().Resolver
	}
	if b.spec.Like != nil {
		o.Like = b.spec.Like
	}
	if b.spec.Resolver != "" {
		o.Resolver = b.spec.Resolver
	}
	return o
}

func kindOf[T record.Row]() record.Kind {
	var row T
	switch any(row).(type) {
	case record.URL:
		return record.KindURL
	case record.Fetch:
		return record.KindFetch
	case record.Link:
		return record.KindLink
	}
	return record.KindModule
}

// openSinks starts a stream in every sink. All streams of the stage have the same rows, which are made once.
func (b *Batch[In, Out]) openSinks() error {
	first := b.keptW
	for _, s := range b.sinks {
		open := record.NewWriter[Out]
		if first != nil {
			open = first.Twin
		}
		w, err := open(s, b.declare(s.Options()))
		if err != nil {
			return err
		}
		b.writers = append(b.writers, w)
		first = cmp.Or(first, w)
	}
	return nil
}

// Read counts a row in. io.EOF: the input ended whole.
func (b *Batch[In, Out]) Read(row *In) error {
	err := b.in.Read(row)
	switch {
	case err == nil:
		b.read++
		if trace.Started() {
			b.traceIn(row)
		}
	case err == io.EOF:
		b.eof = true
		if b.tx != nil {
			if err := b.OfEpoch("input", b.in.Trailer().Epoch); err != nil {
				return err
			}
		}
		if other, found := b.otherTxn(); found {
			if b.spec.Store != nil {
				return b.refuse(other)
			}
			b.spec.Txn = ""
			for _, w := range b.writers {
				w.Nameless()
			}
		}
	}
	return err
}

// Buffered is how many rows Read gives without waiting, at least.
func (b *Batch[In, Out]) Buffered() int {
	if b.batches == nil {
		return 0
	}
	return b.batches.Buffered()
}

// otherTxn looks in the input's trailers for a transaction that is not this one:
// of "cat a b" the schema names the first only.
func (b *Batch[In, Out]) otherTxn() (txn string, found bool) {
	t := b.in.Trailer()
	if first := b.in.Schema().Txn; first != "" && t.Verified && t.Txn != first {
		return "", true // the streams have no name in common
	}
	for _, j := range t.Ledger.Joined {
		if n := len(j.Stages); n > 0 && len(t.Ledger.Stages) == 0 {
			if txn := j.Stages[n-1].Txn; txn != "" && b.spec.Txn != "" && txn != b.spec.Txn {
				return txn, true
			}
		}
	}
	return "", false
}

func (b *Batch[In, Out]) refuse(txn string) error {
	e := &fault.Error{Class: fault.Conflict, File: "input", Found: fmt.Sprintf("records of transaction %q", txn), Want: fmt.Sprintf("%q", b.spec.Txn),
		Hint: "give all stages of a round the --txn of its mfrontier next"}
	if txn == "" {
		e.Found = "records of several transactions"
	}
	return e
}

func (b *Batch[In, Out]) write(row *Out) error {
	if trace.Started() {
		b.trace("out", row)
	}
	switch {
	case b.keptW != nil:
		return b.keptW.Write(row)
	case b.spec.holdsRows():
		return b.spoolRow(row)
	case len(b.writers) > 0:
		return b.writers[0].Write(row)
	}
	return nil
}

func (b *Batch[In, Out]) spoolRow(row *Out) error {
	if err := b.openSpool(); err != nil {
		return err
	}
	return b.spoolW.Write(row)
}

// openSpool makes the temporary file that stands in for the kept output. It
// has no name, so that nothing stays of it whatever happens.
func (b *Batch[In, Out]) openSpool() error {
	if b.spool != nil {
		return nil
	}
	f, err := durable.TempFile("")
	if err != nil {
		return err
	}
	b.spool = f
	o := b.fileOptions("temporary file")
	o.Level = record.Stored // it is read once, and goes down a pipe as it is
	b.spoolW, err = record.NewWriter[Out](f, o)
	return err
}

// Pass writes the row that an input row became.
func (b *Batch[In, Out]) Pass(row *Out) error {
	b.passed++
	return b.write(row)
}

// Make writes a row that no input row became (robots rows, links), by reason.
func (b *Batch[In, Out]) Make(reason string, row *Out) error {
	Enter(b.made, reason, 1)
	return b.write(row)
}

// Drop accounts for an input row that goes no further, by reason.
func (b *Batch[In, Out]) Drop(reason string) { b.DropAll(reason, 1) }

// DropAll is Drop of n rows.
func (b *Batch[In, Out]) DropAll(reason string, n uint64) {
	if n > 0 {
		Enter(b.drops, reason, n)
	}
}

// Dropped is how many rows were dropped so far, by reason. It is read only.
func (b *Batch[In, Out]) Dropped() map[string]uint64 { return b.drops }

// Consume accounts for an input row that was used up (a page that was turned into links).
func (b *Batch[In, Out]) Consume() { b.consumed++ }

// PassAll is the body of a stage that passes on all rows as they are. progress gets the number of rows.
func PassAll[T record.Row](progress func(n int64)) func(ctx context.Context, b *Batch[T, T]) error {
	return func(ctx context.Context, b *Batch[T, T]) error {
		return record.Each(b, func(row *T) error {
			progress(1)
			return cmp.Or(b.Pass(row), context.Cause(ctx))
		})
	}
}

// Refuse counts candidates that never became rows, by reason.
func (b *Batch[In, Out]) Refuse(reason string, n uint64) {
	if n > 0 {
		Enter(b.refused, reason, n)
	}
}

// What the ledger of a stage tells apart: this many reasons, of this many bytes, each of what was
// dropped, made and refused. A filter may have more rules than a ledger holds, and rows of
// other programs may say anything; what is beyond counts together, as ReasonOther.
const (
	maxReasons = 1000
	maxReason  = 256
)

// ReasonOther is the reason of all that the ledger does not tell apart.
const ReasonOther = "other"

// Enter counts n more of a reason, as far as a ledger holds it.
func Enter(m map[string]uint64, reason string, n uint64) {
	if _, ok := m[reason]; !ok {
		if len(m) >= maxReasons || len(reason) > maxReason {
			reason = ReasonOther
		}
		reason = strings.Clone(reason) // a reason in a row's memory would keep the row's batch alive
	}
	m[reason] += n
}

// Counts lists what Enter counted, by reason.
func Counts(m map[string]uint64) (list []record.Count) {
	for _, reason := range slices.Sorted(maps.Keys(m)) {
		list = append(list, record.Count{Reason: reason, N: m[reason]})
	}
	return list
}

func total(m map[string]uint64) (n uint64) {
	for _, c := range m {
		n += c
	}
	return n
}

// account closes the stage's account, which must balance, whatever the body did.
func (b *Batch[In, Out]) account() (record.Stage, error) {
	s := record.Stage{
		Name: b.spec.Name, Stores: b.spec.Stores, Txn: b.spec.Txn,
		In: b.read, Passed: b.passed, Consumed: b.consumed,
		Drops: Counts(b.drops), Made: Counts(b.made), Refused: Counts(b.refused),
		Out: b.passed + total(b.made),
	}
	if b.spec.Store != nil {
		s.Store = b.spec.Store.Name()
		if name := b.spec.Store.NameInCrawl(); strings.HasPrefix(name, store.ModulesDir+"/") {
			s.Store = name
		}
	}
	if got := s.Passed + s.Consumed + total(b.drops); got != s.In {
		return s, fmt.Errorf("%s: %d rows read, but %d accounted for", s.Name, s.In, got)
	}
	return s, nil
}

// Run runs body over the batch, unless (Verb, Txn) has committed: then it drains
// the input, refuses another one than it was (fault.Conflict), and emits the
// kept output. The body must read until io.EOF and account for each row that it
// read exactly once (Pass, Drop or Consume); Run refuses an unbalanced ledger. For a
// source in is nil. An error of body, a cancelled ctx or a truncated input leaves
// the store and all sinks as they were.
//
// In a store of a shard another process may take the work over: then the error says so, whatever fails by that.
func Run[In, Out record.Row](ctx context.Context, spec Spec, in Input[In], sinks []Output, body func(ctx context.Context, b *Batch[In, Out]) error) (r Result, err error) {
	if spec.Txn == "" && spec.Store == nil && in != nil {
		spec.Txn = in.Schema().Txn // a stage without state belongs to its input's round
	}
	b := &Batch[In, Out]{
		spec: spec, in: in, sinks: sinks,
		drops: map[string]uint64{}, made: map[string]uint64{}, refused: map[string]uint64{},
	}
	b.batches, _ = in.(interface{ Buffered() int })
	defer b.release()
	defer func() {
		if b.tx != nil {
			err = b.tx.Because(err)
		}
	}()
	if spec.Shape == Source && in != nil || spec.Shape == Sink && len(sinks) > 0 {
		return Result{}, fmt.Errorf("%s: a source with an input, or a sink with outputs", spec.Name)
	}
	if spec.Txn != "" && in != nil {
		if t := in.Schema().Txn; t != "" && t != spec.Txn {
			return Result{}, b.refuse(t)
		}
	}
	if spec.Store != nil {
		var done *store.Done
		found := false
		if spec.Txn != "" {
			done, found, err = spec.Store.Lookup(spec.Verb, spec.Txn)
		}
		if err == nil && !found && !spec.locksLate() {
			_, err = b.Begin(ctx)
			done, found = b.done, errors.Is(err, errRepeated)
		}
		if found {
			return b.repeat(ctx, done)
		}
		if err != nil {
			return Result{}, err
		}
	}
	if !spec.holdsRows() {
		if err := b.openSinks(); err != nil {
			return Result{}, err
		}
	}
	err = body(ctx, b)
	switch {
	case errors.Is(err, errRepeated): // a body may have joined it with others
		return b.repeat(ctx, b.done)
	case err == Unchanged:
		return b.unchanged()
	case err != nil:
		return Result{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	if in != nil && !b.eof {
		return Result{}, fmt.Errorf("%s: stopped before its input ended", spec.Name)
	}
	if spec.Store != nil && b.tx == nil {
		return Result{}, fmt.Errorf("%s: ended without Begin", spec.Name)
	}
	return b.finish(ctx)
}

// release undoes whatever was not committed. After a commit it has no effect.
func (b *Batch[In, Out]) release() {
	if b.tx != nil {
		b.tx.Abort()
	}
	if b.spool != nil {
		b.spool.Close()
	}
	for _, s := range b.sinks {
		s.Abort()
	}
}

// ledgerBefore returns the ledger of the stages before this one, from the input's trailer.
func (b *Batch[In, Out]) ledgerBefore() (l record.Ledger, inHash string) {
	if b.in == nil {
		return record.Ledger{}, ""
	}
	t := b.in.Trailer()
	return t.Ledger, t.Hash.String()
}

// finish commits the store and ends the sinks, in that order.
func (b *Batch[In, Out]) finish(ctx context.Context) (Result, error) {
	s, err := b.account()
	if err != nil {
		return Result{}, err
	}
	before, inHash := b.ledgerBefore()
	s.InHash = inHash
	if b.spec.holdsRows() && b.keptW == nil {
		if err := b.openSpool(); err != nil { // no row was written
			return Result{}, err
		}
	}
	for _, w := range b.all() {
		rows, hash, err := w.Finish()
		if err != nil {
			return Result{}, err
		}
		if rows != s.Out {
			return Result{}, fmt.Errorf("%s: %d rows written, but %d accounted for", s.Name, rows, s.Out)
		}
		s.OutHash = hash.String()
	}
	if b.spoolW != nil { // a full disk must show before the store commits
		if _, err := b.spoolW.Commit(record.Ledger{}); err != nil {
			return Result{}, err
		}
	}
	ledger := before
	ledger.Stages = append(append([]record.Stage(nil), before.Stages...), s)
	if b.tx != nil {
		if b.keptW != nil {
			if _, err := b.keptW.Commit(ledger); err != nil {
				return Result{}, err
			}
			if err := b.kept.Close(); err != nil {
				return Result{}, err
			}
			b.tx.Keep(b.kept)
		}
		if _, err := b.tx.Commit(s.In, inHash, ledger); err != nil {
			return Result{}, err
		}
	}
	if b.spec.holdsRows() {
		if err := b.emitSpooled(ctx); err != nil {
			return Result{}, err
		}
	}
	return Result{Stage: s, Ledger: ledger}, b.publish(ledger)
}

// all are the writers that saw every row.
func (b *Batch[In, Out]) all() []*record.Writer[Out] {
	ws := append([]*record.Writer[Out](nil), b.writers...)
	if b.keptW != nil {
		ws = append(ws, b.keptW)
	}
	if b.spoolW != nil {
		ws = append(ws, b.spoolW)
	}
	return ws
}

// publish writes the trailers: files before the pipe, so that whoever sees the
// pipe end well finds the files in place.
func (b *Batch[In, Out]) publish(l record.Ledger) error {
	for i, w := range b.writers {
		if _, err := w.Commit(l); err != nil {
			return err
		}
		if err := b.sinks[i].Publish(); err != nil {
			return err
		}
	}
	return nil
}

// emitSpooled copies the spooled rows to the sinks, after commit and unlock.
func (b *Batch[In, Out]) emitSpooled(ctx context.Context) error {
	if b.kept != nil {
		return b.emitKept(ctx, b.kept.Path())
	}
	_, err := b.emit(ctx, b.spool, "temporary file")
	return err
}

func (b *Batch[In, Out]) emitKept(ctx context.Context, path string) error {
	f, err := b.spec.Store.OpenFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = b.emit(ctx, f, path)
	return err
}

// emit opens the sinks and copies a whole stream of rows into each.
func (b *Batch[In, Out]) emit(ctx context.Context, from io.ReadSeeker, name string) (l record.Ledger, err error) {
	for _, s := range b.sinks {
		if _, err := from.Seek(0, io.SeekStart); err != nil {
			return l, err
		}
		src, err := record.Open(&interruptible{from, ctx}, record.ReaderOptions{Name: name})
		if err != nil {
			return l, err
		}
		if b.spec.Now == 0 {
			b.spec.Now = src.Schema().Now
		}
		o := b.declare(s.Options())
		o.Like, o.Epoch, o.Resolver = src.Schema(), src.Schema().Epoch, src.Schema().Resolver
		if b.done != nil && o.Epoch != "" {
			o.Epoch = strconv.FormatUint(b.done.Epoch, 10)
		}
		w, err := record.NewWriter[Out](s, o)
		if err != nil {
			return l, err
		}
		b.writers = append(b.writers, w)
		if l, err = copyRows(w, src); err != nil {
			return l, err
		}
	}
	return l, nil
}

// copyRows copies a whole stream, and returns its ledger.
func copyRows[T record.Row](w *record.Writer[T], src *record.Source) (record.Ledger, error) {
	// As a rule the schemas are the same, and the rows need not be taken apart.
	if t, ok, err := w.CopyFrom(src); ok || err != nil {
		return t.Ledger, err
	}
	r, err := record.Rows[T](src)
	if err != nil {
		return record.Ledger{}, err
	}
	if err := record.Each(r, w.Write); err != nil {
		return record.Ledger{}, err
	}
	return r.Trailer().Ledger, nil
}

// interruptible is a reader that fails once ctx has ended.
type interruptible struct {
	io.Reader
	ctx context.Context
}

func (r *interruptible) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// unchanged ends an empty output whole, and leaves the store as it was.
func (b *Batch[In, Out]) unchanged() (Result, error) {
	if b.tx != nil {
		b.tx.Abort()
	}
	s, err := b.account()
	if err != nil {
		return Result{}, err
	}
	before, inHash := b.ledgerBefore()
	s.InHash = inHash
	s.Store = "" // it commits to none
	b.keptW, b.kept = nil, nil
	if b.spec.holdsRows() {
		if err := b.openSinks(); err != nil {
			return Result{}, err
		}
	}
	for _, w := range b.writers {
		_, hash, err := w.Finish()
		if err != nil {
			return Result{}, err
		}
		s.OutHash = hash.String()
	}
	ledger := before
	ledger.Stages = append(append([]record.Stage(nil), before.Stages...), s)
	return Result{Stage: s, Ledger: ledger}, b.publish(ledger)
}

// repeat drains the input of a committed transaction, compares it with what was
// committed, and emits the kept output.
func (b *Batch[In, Out]) repeat(ctx context.Context, done *store.Done) (Result, error) {
	b.done = done
	if b.in != nil && !b.eof {
		if err := record.Each(b, func(*In) error { return context.Cause(ctx) }); err != nil {
			return Result{}, err
		}
	}
	if _, inHash := b.ledgerBefore(); inHash != done.InHash {
		hint := "give other input another --txn name"
		if dir := b.spec.Store.CrawlDir(); dir != "" {
			hint = "if a setting has changed since the round began, set it back; or drop the round and make it again: " + fault.Quote("mckpt", "abandon", dir)
		}
		return Result{}, &fault.Error{
			Class: fault.Conflict, File: "input",
			Found: fmt.Sprintf("rows %d, hash %s", b.read, inHash),
			Want:  fmt.Sprintf("rows %d, hash %s, which transaction %q of %s has committed", done.InRows, done.InHash, done.Txn, b.spec.Store.Dir()),
			Hint:  hint,
		}
	}
	ledger := done.Ledger
	if b.spec.Shape != Sink {
		b.spec.Now = 0
		if err := b.emitKept(ctx, done.Output); err != nil {
			return Result{}, err
		}
	}
	if len(ledger.Stages) == 0 {
		return Result{}, &fault.Error{Class: fault.Corrupt, File: b.spec.Store.Dir(), Place: "transaction " + done.Txn, Found: "no ledger"}
	}
	return Result{Stage: ledger.Stages[len(ledger.Stages)-1], Ledger: ledger, Repeated: true}, b.publish(ledger)
}
