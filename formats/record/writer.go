package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/zeebo/xxh3"

	"mercator/pkg/base/fault"
)

// Level is how hard frames are compressed.
type Level int

const (
	Stored Level = iota // raw blocks, still checksummed: for pipes
	Fast                // zstd level 1: for files
	Bare                // no container: plain Arrow, and Commit writes no trailer
)

// WriterOptions say how rows are written.
type WriterOptions struct {
	Name       string        // for messages
	Level      Level         // frames' compression
	FlushAfter time.Duration // also cut a batch this long after its first row; 0: by rows and bytes only
	Like       *Schema       // pass this input's unknown columns through; may be nil
	Txn        string        // stands in metadata and trailer
	Now        Time          // the round's clock, metadata "mercator.now"; 0: none
	Epoch      string        // of the crawl folder, metadata "mercator.epoch"; "": none
	Resolver   string        // how names were looked up, metadata "mercator.resolver", at most 1,024 bytes; "": it is not told
	Threads    int           // compression threads, at most maxThreads; 0: 1
}

// Writer writes rows of one kind. One goroutine. Errors stick. There is no
// Close: a Writer that is dropped leaves a stream without trailer, which every
// reader refuses. (With FlushAfter, a batch that has begun is still written when
// its time comes.)
type Writer[T Row] struct {
	*shared[T]
	opt    WriterOptions
	to     io.Writer
	frames *frameWriter
	done   bool // the trailer is written
}

// shared is the part of a Writer that its twins share: a batch is made, and its rows are hashed, once for all of them.
type shared[T Row] struct {
	allFrames []*frameWriter // those that compress stand last: they keep the message
	schema    *arrow.Schema
	arrow     *ipc.Writer
	msg       messageCollector

	mu         sync.Mutex    // against the timer; used with flushAfter only
	flushAfter time.Duration // WriterOptions.FlushAfter of those that have it; 0: none has
	timer      *time.Timer
	timerRuns  bool
	table      *rowType
	out        []outColumn // the batch: one column for each field of the table
	room       int         // rows for which they have it
	row        int         // rows in the batch
	bytes      int         // of values in the batch
	forms      []byte      // of rows, not hashed yet
	extra      extraWriter
	hash       xxh3.Hasher
	rows       uint64 // rows so far
	copied     *Hash  // of all rows, where CopyFrom wrote them
	ended      bool   // Arrow's end of stream is written
	err        error
}

// NewWriter writes the schema at once, so that a reader downstream can open.
func NewWriter[T Row](out io.Writer, opt WriterOptions) (*Writer[T], error) {
	if len(opt.Txn) > maxTxn || !utf8.ValidString(opt.Txn) {
		return nil, &fault.Error{Class: fault.Usage, File: opt.Name, Found: fmt.Sprintf("a transaction name of %d bytes", len(opt.Txn)), Want: fmt.Sprintf("at most %d bytes of UTF-8", maxTxn)}
	}
	w := &Writer[T]{shared: &shared[T]{table: rowTypeOf[T](), flushAfter: opt.FlushAfter}, opt: opt}
	for _, c := range w.table.columns {
		w.out = append(w.out, outColumn{column: c})
	}
	if opt.Like != nil {
		for _, c := range opt.Like.extra {
			if w.table.find(c.name) >= 0 {
				continue // of another kind's rows, where the name meant something else
			}
			c.nullable = true
			w.extra.out = append(w.extra.out, outColumn{column: c})
		}
	}
	var fields []arrow.Field
	w.eachColumn(func(c *outColumn) { c.reset(); fields = append(fields, c.arrow()) })
	keys := []string{metaKind, metaVersion}
	values := []string{string(w.table.kind), formatVersion}
	if opt.Txn != "" {
		keys, values = append(keys, metaTxn), append(values, opt.Txn)
	}
	if opt.Now != 0 {
		keys, values = append(keys, metaNow), append(values, opt.Now.Go().Format(time.RFC3339Nano))
	}
	if opt.Epoch != "" {
		keys, values = append(keys, metaEpoch), append(values, opt.Epoch)
	}
	if opt.Resolver != "" && len(opt.Resolver) <= maxValue {
		keys, values = append(keys, metaResolver), append(values, opt.Resolver)
	}
	md := arrow.NewMetadata(keys, values)
	w.schema = arrow.NewSchema(fields, &md)
	w.arrow = ipc.NewWriterWithPayloadWriter(&w.msg, ipc.WithSchema(w.schema))
	// Arrow writes the schema only before the first batch, so it is given an
	// empty one, which stays here.
	if err := w.collect(0, 0); err != nil {
		return nil, err
	}
	return w, w.writeSchema(out)
}

// Twin makes a Writer to which all rows go that w is given, as if they were written to both. It comes before the first row;
// rows are then given to w alone, and Finish of one ends the rows of both. Of opt only Name, Level, FlushAfter (the same for
// all that have it) and Txn (of the trailer) count.
func (w *Writer[T]) Twin(out io.Writer, opt WriterOptions) (*Writer[T], error) {
	if w.rows > 0 || w.ended || w.err != nil { // so no timer runs
		return nil, errors.New("a twin of a record stream that has begun")
	}
	opt.Threads = w.opt.Threads
	t := &Writer[T]{shared: w.shared, opt: opt}
	return t, t.writeSchema(out)
}

// writeSchema writes the schema.
func (w *Writer[T]) writeSchema(out io.Writer) error {
	w.to = out
	w.flushAfter = cmp.Or(w.flushAfter, w.opt.FlushAfter)
	for _, f := range w.allFrames {
		if f.level == w.opt.Level && f.timed == (w.opt.FlushAfter > 0) {
			w.frames = f
			return f.join(output{out, w.opt.Name})
		}
	}
	w.frames = newFrameWriter(output{out, w.opt.Name}, w.opt)
	if w.frames.packs {
		w.allFrames = append(w.allFrames, w.frames)
	} else {
		w.allFrames = slices.Insert(w.allFrames, 0, w.frames)
	}
	_, err := w.frames.write(bytes.Clone(w.msg.schema)) // a frameWriter that packs keeps what it writes, as memory for messages
	return cmp.Or(err, w.frames.drain())
}

func (w *shared[T]) eachColumn(fn func(c *outColumn)) {
	for i := range w.out {
		fn(&w.out[i])
	}
	for i := range w.extra.out {
		fn(&w.extra.out[i])
	}
}

// messageCollector takes messages from Arrow's writer.
type messageCollector struct {
	schema []byte // the first
	batch  []byte // the newest after it, or memory for the next
	body   int    // bytes of the next one's body, at most
}

func (m *messageCollector) Start() error { return nil }
func (m *messageCollector) Close() error { return nil }

func (m *messageCollector) WritePayload(p ipc.Payload) error {
	meta := p.Meta()
	defer meta.Release()
	padded := (meta.Len() + 7) &^ 7
	b := slices.Grow(m.batch[:0], 8+padded+m.body)
	b = binary.LittleEndian.AppendUint32(b, arrowMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(padded))
	b = append(b, meta.Bytes()...)
	b = append(b, zeros[:padded-meta.Len()]...)
	out := appender{b}
	if err := p.SerializeBody(&out); err != nil {
		return err
	}
	if m.schema == nil {
		m.schema = out.b
		return nil
	}
	m.batch = out.b
	return nil
}

// arrowAlign is the largest number of bytes that buffers of a body are padded to a multiple of.
const arrowAlign = 64

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// collect leaves the Arrow message of those rows of the batch in w.msg.batch.
func (w *shared[T]) collect(from, to int) error {
	var arrays []arrow.Array
	w.msg.body = 0
	w.eachColumn(func(c *outColumn) {
		a := c.array(to)
		if from > 0 {
			whole := a
			a = array.NewSlice(whole, int64(from), int64(to))
			whole.Release()
		}
		arrays = append(arrays, a)
		valid, offsets, data := c.parts(to)
		w.msg.body += len(valid) + len(offsets) + len(data) + 3*arrowAlign
	})
	rec := array.NewRecord(w.schema, arrays, int64(to-from))
	err := w.arrow.Write(rec)
	rec.Release()
	for _, a := range arrays {
		a.Release()
	}
	return err
}

func (w *shared[T]) lock() {
	if w.flushAfter > 0 {
		w.mu.Lock()
	}
}

func (w *shared[T]) unlock() {
	if w.flushAfter > 0 {
		w.mu.Unlock()
	}
}

// Write appends a row; it keeps no reference to it. Text that is not UTF-8 is
// stored, and hashed, with U+FFFD for each run of bad bytes. A row with more than MaxRow
// bytes of values is an error.
func (w *Writer[T]) Write(row *T) error {
	w.lock()
	defer w.unlock()
	if w.err != nil {
		return w.err
	}
	if w.ended {
		return w.stick(errors.New("write to a record stream that has ended"))
	}
	t, p := w.table, unsafe.Pointer(valid(w.table, row))
	from := len(w.forms)
	w.forms = t.append(w.forms, p)
	if w.row == w.room {
		w.room = min(max(2*w.room, leastRoom), batchRows)
		for i := range w.out {
			w.out[i].grow(w.room)
		}
	}
	bytes := t.write(p, w.out, w.row)
	to := len(w.forms)
	w.forms = t.appendLate(w.forms, p)
	if len(w.extra.out) > 0 {
		more := 0
		w.forms, more = w.extra.write(w.forms, *t.extraOf(p), w.row)
		bytes += more
	}
	w.forms = t.endRow(w.forms, from, to)
	if bytes > MaxRow {
		return w.stick(&fault.Error{Class: fault.Usage, File: w.opt.Name, Place: fmt.Sprintf("row %d", w.rows+1), Found: fmt.Sprintf("%d bytes in one row", bytes), Want: fmt.Sprintf("at most %d", MaxRow)})
	}
	if len(w.forms) >= hashBlock {
		w.flushHash()
	}
	w.rows++
	w.row++
	w.bytes += bytes
	if w.row == batchRows || w.bytes >= batchBytes {
		return w.flush()
	}
	if w.flushAfter > 0 && !w.timerRuns {
		w.startTimer()
	}
	return nil
}

// leastRoom is how many rows a batch has room for at first.
const leastRoom = 64

func (w *shared[T]) startTimer() {
	w.timerRuns = true
	if w.timer != nil {
		w.timer.Reset(w.flushAfter)
		return
	}
	w.timer = time.AfterFunc(w.flushAfter, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timerRuns = false
		if w.err == nil && !w.ended {
			w.send(true)
		}
	})
}

func (w *shared[T]) stick(err error) error {
	w.err = err
	return err
}

func (w *shared[T]) flushHash() {
	w.hash.Write(w.forms)
	w.forms = w.forms[:0]
}

// flush ends the batch; the caller holds the lock.
func (w *shared[T]) flush() error {
	if w.row == 0 {
		return nil
	}
	if w.timerRuns {
		w.timer.Stop()
		w.timerRuns = false
	}
	if err := w.send(false); err != nil {
		return err
	}
	for i := range w.out {
		w.out[i].clear(w.row)
	}
	for i := range w.extra.out {
		w.extra.out[i].reset()
	}
	for _, f := range w.allFrames {
		f.sent = 0
	}
	w.row, w.bytes = 0, 0
	return nil
}

// send writes what has not been written of the batch, or only to where rows do not wait for it to be full. So the batches of
// a file do not depend on how fast rows come, whatever pipe stands beside it.
func (w *shared[T]) send(timed bool) error {
	from := -1 // of the message that is there
	for _, f := range w.allFrames {
		if timed && !f.timed || f.sent == w.row {
			continue
		}
		if from != f.sent {
			if err := w.collect(f.sent, w.row); err != nil {
				return w.stick(err)
			}
			from = f.sent
		}
		if f.packs {
			from = -1 // it keeps the message
		}
		var err error
		if w.msg.batch, err = f.write(w.msg.batch); err == nil && timed {
			err = f.drain()
		}
		if err != nil {
			return w.stick(err)
		}
		f.sent = w.row
	}
	return nil
}

// Flush ends the batch and writes it.
func (w *shared[T]) Flush() error {
	w.lock()
	defer w.unlock()
	if w.err != nil {
		return w.err
	}
	return w.flushAll()
}

// flushAll puts on the wire all that was written.
func (w *shared[T]) flushAll() error {
	if err := w.flush(); err != nil {
		return err
	}
	for _, f := range w.allFrames {
		if err := f.drain(); err != nil {
			return w.stick(err)
		}
	}
	return nil
}

// Nameless leaves the transaction out of the trailer: the rows turned out to be of
// several. The schema, written long before, keeps the first one's name.
func (w *Writer[T]) Nameless() { w.opt.Txn = "" }

var endOfStream = []byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}

// Finish flushes, writes Arrow's end of stream and returns what the trailer will say,
// without writing it. (A file's bytes can be made durable in between.)
func (w *Writer[T]) Finish() (rows uint64, hash Hash, err error) {
	w.lock()
	defer w.unlock()
	if w.err != nil {
		return 0, Hash{}, w.err
	}
	if !w.ended {
		if err := w.flush(); err != nil {
			return 0, Hash{}, err
		}
		for _, f := range w.allFrames {
			if _, err := f.write(bytes.Clone(endOfStream)); err != nil {
				return 0, Hash{}, w.stick(err)
			}
		}
		if err := w.flushAll(); err != nil {
			return 0, Hash{}, err
		}
		w.flushHash()
		w.ended = true
	}
	if w.copied != nil {
		return w.rows, *w.copied, nil
	}
	return w.rows, sum128(&w.hash), nil
}

// Commit is Finish, if that was not called, and then the trailer. A second
// Commit is an error.
func (w *Writer[T]) Commit(l Ledger) (Trailer, error) {
	rows, hash, err := w.Finish()
	if err != nil {
		return Trailer{}, err
	}
	if w.done {
		return Trailer{}, w.stick(errors.New("a second commit of a record stream"))
	}
	w.done = true
	t := Trailer{Verified: !w.frames.bare, Rows: rows, Hash: hash, Txn: w.opt.Txn, Ledger: l}
	if w.frames.bare {
		return t, nil
	}
	b, err := encodeTrailer(t, sum128(&w.frames.wire))
	if err == nil {
		_, err = w.to.Write(b)
	}
	if err != nil {
		return Trailer{}, w.stick(named(w.opt.Name, err))
	}
	return t, nil
}

// named gives an error the name of the output.
func named(name string, err error) error {
	if name == "" {
		return err
	}
	return &fault.Error{File: name, Err: err}
}

// frameWriter makes one zstd frame of each message, for all outputs that have the same frames. With several threads,
// frames are compressed side by side and written in order.
type frameWriter struct {
	outs    []output
	level   Level
	timed   bool // rows wait for a time only, not until the batch is full
	sent    int  // rows of the batch that are on the wire
	wire    xxh3.Hasher
	head    []byte // the frame of the schema
	bare    bool
	packs   bool // frames are compressed
	stored  []byte
	threads int
	busy    []*frameJob // oldest first
	idle    []*frameJob
}

// output is where frames go, and its name for messages.
type output struct {
	io.Writer
	name string
}

// maxThreads bounds a Writer's compression threads: each costs some 3 MiB. One
// goroutine makes the rows, and three compressors keep pace with it (2.5 against 0.83
// million rows a second), so that more would take memory for nothing.
const maxThreads = 3

// frameJob is one message on its way.
type frameJob struct {
	in, out []byte
	done    chan struct{}
}

func newFrameWriter(out output, opt WriterOptions) *frameWriter {
	return &frameWriter{outs: []output{out}, level: opt.Level, timed: opt.FlushAfter > 0, threads: min(max(opt.Threads, 1), maxThreads), bare: opt.Level == Bare, packs: opt.Level == Fast}
}

// join has frames written to a further output. No frame but the schema's was written yet.
func (f *frameWriter) join(out output) error {
	f.outs = append(f.outs, out)
	_, err := out.Write(f.head)
	if err != nil {
		return named(out.name, err)
	}
	return nil
}

// write takes msg and gives memory for the next one; with several threads it is on the wire
// after drain only.
func (f *frameWriter) write(msg []byte) (next []byte, err error) {
	if f.bare {
		return msg, f.emit(msg)
	}
	if !f.packs {
		f.stored = appendStored(f.stored[:0], msg)
		return msg, f.emit(f.stored)
	}
	job := &frameJob{done: make(chan struct{}, 1)}
	if n := len(f.idle); n > 0 {
		job, f.idle = f.idle[n-1], f.idle[:n-1]
	}
	f.busy = append(f.busy, job)
	if f.threads == 1 {
		job.out = appendPacked(job.out[:0], msg)
		job.done <- struct{}{}
		return msg, f.drain()
	}
	next, job.in = job.in, msg
	go func() {
		job.out = appendPacked(job.out[:0], job.in)
		job.done <- struct{}{}
	}()
	if len(f.busy) < f.threads {
		return next, nil
	}
	return next, f.emitOldest()
}

func (f *frameWriter) emitOldest() error {
	job := f.busy[0]
	f.busy = f.busy[1:]
	<-job.done
	err := f.emit(job.out)
	f.idle = append(f.idle, job)
	return err
}

func (f *frameWriter) emit(frame []byte) error {
	if f.head == nil {
		f.head = bytes.Clone(frame)
	}
	f.wire.Write(frame)
	for _, out := range f.outs {
		if _, err := out.Write(frame); err != nil {
			return named(out.name, err)
		}
	}
	return nil
}

// drain writes the frames that are still being compressed.
func (f *frameWriter) drain() error {
	for len(f.busy) > 0 {
		if err := f.emitOldest(); err != nil {
			return err
		}
	}
	return nil
}
