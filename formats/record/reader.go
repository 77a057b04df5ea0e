package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/zeebo/xxh3"

	"mercator/pkg/base/fault"
)

// ReaderOptions say what is read.
type ReaderOptions struct {
	Name  string // file name for messages; "standard input" for a pipe
	Pipe  bool   // a missing trailer is fault.Upstream (exit 4) and not fault.Truncated (exit 3)
	Ahead bool   // another goroutine unpacks the next batch while the rows of one are used; it may still read from the input when the Reader is not used any more
}

// Source is an opened input: its kind is known, its rows are not read yet.
type Source struct {
	opt    ReaderOptions
	frames framer
	layout *layout // of the current stream
	schema []byte  // message of the first
	first  *Schema // of the first
	rows   uint64  // in the batches of all streams so far
	bare   bool
}

// ErrNoStream is in the error for what begins as no record stream does.
var ErrNoStream = errors.New("no record stream")

// Open reads the head and the schema of a record stream.
func Open(in io.Reader, opt ReaderOptions) (*Source, error) {
	s := &Source{opt: opt}
	s.frames.in = bufio.NewReaderSize(in, 16<<10) // what is longer is read past it
	magic, err := s.frames.beginFrame()
	switch {
	case err == io.EOF:
		return nil, s.cut("nothing in it, not even a schema")
	case err == errCut && partOfMagic(s.frames.buf):
		return nil, s.cut("only a part of a record stream's first four bytes")
	case err == errCut, err == nil && magic != zstdMagic && magic != arrowMagic:
		if found, hint := fault.Packed(string(s.frames.buf), opt.Name); found != "" {
			return nil, &fault.Error{Class: fault.WrongKind, File: opt.Name, Found: found, Want: "a record stream", Hint: hint, Err: ErrNoStream}
		}
		return nil, &fault.Error{Class: fault.WrongKind, File: opt.Name, Found: fmt.Sprintf("it begins with %q", s.frames.buf), Want: "a record stream", Err: ErrNoStream,
			Hint: "mcat shows what a file is; text becomes records with mcat --from json"}
	case err != nil:
		return nil, s.fail(err)
	}
	s.bare = magic == arrowMagic
	s.frames.bare = s.bare
	if err := s.readSchema(); err != nil {
		return nil, err
	}
	s.first = &s.layout.schema
	return s, nil
}

func partOfMagic(b []byte) bool {
	zs := []byte{0x28, 0xB5, 0x2F, 0xFD}
	ar := []byte{0xFF, 0xFF, 0xFF, 0xFF}
	return string(b) == string(zs[:len(b)]) || string(b) == string(ar[:len(b)])
}

// Kind of the rows.
func (s *Source) Kind() Kind { return s.first.Kind }

// Schema of the input's first stream.
func (s *Source) Schema() *Schema { return s.first }

// cut is the error of an input that ended too early.
func (s *Source) cut(found string) error {
	e := &fault.Error{Class: fault.Truncated, File: s.opt.Name, Found: found}
	if s.frames.off > 0 {
		e.Place = s.frames.place()
	}
	if s.opt.Pipe {
		e.Class = fault.Upstream
		e.Hint = "the command before this one did not finish; its own message says why"
	}
	return e
}

// fail gives an error of the current frame its place.
func (s *Source) fail(err error) error {
	e := &fault.Error{Class: fault.Corrupt, File: s.opt.Name, Place: s.frames.place(), Found: err.Error(), Err: err}
	var bad *checksumError
	var have *fault.Error
	var read *readError
	switch {
	case err == errCut:
		return s.cut(fmt.Sprintf("the stream ends %d bytes into this frame (%d rows read)", len(s.frames.buf), s.rows))
	case errors.As(err, &read):
		e.Class, e.Err = "", read.err
	case errors.As(err, &bad):
		e.Want = fmt.Sprintf("%08x", bad.want)
	case errors.As(err, &have):
		e.Class, e.Found, e.Want, e.Hint, e.Err = have.Class, have.Found, have.Want, have.Hint, have.Err
	}
	return e
}

// content reads the message of the frame that has begun, and returns its bytes too.
func (s *Source) content(limit int) (m message, b []byte, err error) {
	if s.bare {
		b, err = s.frames.arrow(limit)
	} else {
		b, err = s.frames.message(limit)
	}
	if err == nil {
		m, err = parseMessage(b)
	}
	if err != nil {
		return message{}, nil, s.fail(err)
	}
	return m, b, nil
}

func (s *Source) readSchema() error {
	s.frames.wire.Reset()
	m, b, err := s.content(MaxSchema)
	if err != nil {
		return err
	}
	if m.end {
		return s.fail(errors.New("the end of stream, want the schema"))
	}
	if s.layout, err = parseSchema(m); err != nil {
		return s.fail(err)
	}
	if s.first == nil {
		s.schema = b
		return nil
	}
	// A later stream of "cat a b": it must fit the first.
	if s.layout.schema.Kind != s.first.Kind {
		return s.fail(&fault.Error{Class: fault.WrongKind, Found: fmt.Sprintf("rows of kind %s behind rows of kind %s", s.layout.schema.Kind, s.first.Kind), Want: "one kind"})
	}
	for _, c := range s.layout.schema.extra {
		if i := s.first.findExtra(c.name); i < 0 || s.first.extra[i].typ != c.typ || s.first.extra[i].zone != c.zone {
			return s.fail(&fault.Error{Class: fault.WrongKind, Found: fmt.Sprintf("column %q (%s), which the stream before does not have", c.name, c.typeString()), Want: "the same columns",
				Hint: "read the files one by one, or put the one with more columns first"})
		}
	}
	return nil
}

// nextBatch returns the next batch with rows, or the trailer of the stream.
func (s *Source) nextBatch() (b batch, t *Trailer, err error) {
	for {
		if err := s.nextFrame(); err != nil {
			return b, nil, err
		}
		m, _, err := s.content(MaxMessage)
		if err != nil {
			return b, nil, err
		}
		if m.end {
			t, err := s.readTrailer()
			return b, t, err
		}
		if b, err = parseBatch(m, s.layout, s.first); err != nil {
			return b, nil, s.fail(err)
		}
		if b.rows > 0 {
			s.rows += uint64(b.rows)
			return b, nil, nil
		}
	}
}

// nextFrame begins the next frame of a stream that has not ended.
func (s *Source) nextFrame() error {
	magic, err := s.frames.beginFrame()
	switch {
	case err == io.EOF:
		return s.cut(fmt.Sprintf("no %s (%d rows read)", s.ending(), s.rows))
	case err != nil:
		return s.fail(err)
	case magic != s.magic():
		return s.fail(fmt.Errorf("a frame that begins with %08x, want %08x", magic, s.magic()))
	}
	return nil
}

// magic returns the first word of each frame except the trailer.
func (s *Source) magic() uint32 {
	if s.bare {
		return arrowMagic
	}
	return zstdMagic
}

// ending names the end that closes a stream.
func (s *Source) ending() string {
	if s.bare {
		return "end of stream"
	}
	return "trailer"
}

// readTrailer reads what follows Arrow's end of stream: the trailer, or nothing for bare
// Arrow. It compares the trailer's hash of the wire with the bytes read.
func (s *Source) readTrailer() (*Trailer, error) {
	if s.bare {
		if _, err := s.frames.beginFrame(); err != io.EOF {
			if err == nil || err == errCut {
				err = errors.New("bytes behind Arrow's end of stream")
			}
			return nil, s.fail(err)
		}
		return &Trailer{}, nil
	}
	wire := sum128(&s.frames.wire)
	magic, err := s.frames.beginFrame()
	switch {
	case err == io.EOF:
		return nil, s.cut(fmt.Sprintf("no trailer (%d rows read)", s.rows))
	case err != nil:
		return nil, s.fail(err)
	case magic != trailerFrame:
		return nil, s.fail(fmt.Errorf("a frame that begins with %08x, want the trailer (%08x)", magic, uint32(trailerFrame)))
	}
	b, err := s.frames.trailer()
	if err != nil {
		return nil, s.fail(err)
	}
	t, want, err := decodeTrailer(b)
	if err != nil {
		return nil, s.fail(err)
	}
	if wire != want {
		return nil, s.fail(&fault.Error{Class: fault.Corrupt, Found: "hash " + wire.String() + " of the bytes before the trailer", Want: want.String()})
	}
	return &t, nil
}

// nextStream begins the stream behind a trailer; io.EOF if there is none.
func (s *Source) nextStream() error {
	magic, err := s.frames.beginFrame()
	switch {
	case err == io.EOF:
		return io.EOF
	case err == errCut && partOfMagic(s.frames.buf):
		return s.cut(fmt.Sprintf("only a part of a stream's first four bytes behind a trailer (%d rows read)", s.rows))
	case err == errCut, err == nil && magic != zstdMagic:
		return s.fail(fmt.Errorf("it begins with %q, want another record stream or the end", s.frames.buf))
	case err != nil:
		return s.fail(err)
	}
	return s.readSchema()
}

// Reader reads rows of one kind. One goroutine.
type Reader[T Row] struct {
	src    *Source
	table  *rowType
	batch  batch
	ahead  chan next // has what follows the batch, once it is there; nil: nobody reads that
	row    int
	forms  []byte       // of rows, not hashed yet
	form   []byte       // of the row that was read last
	hash   xxh3.Hasher  // of the current stream
	all    *xxh3.Hasher // of all streams, from the second on
	rows   uint64       // of the current stream
	total  Trailer
	n      int   // streams that have ended
	sticky error // io.EOF when all is read
}

// Rows starts reading; fault.WrongKind ("link records, want url records") if the kinds differ.
func Rows[T Row](s *Source) (*Reader[T], error) {
	t := rowTypeOf[T]()
	if s.Kind() != t.kind {
		return nil, &fault.Error{Class: fault.WrongKind, File: s.opt.Name, Found: fmt.Sprintf("%s records", s.Kind()), Want: fmt.Sprintf("%s records", t.kind)}
	}
	return &Reader[T]{src: s, table: t}, nil
}

// NewReader is Open and Rows in one.
func NewReader[T Row](in io.Reader, opt ReaderOptions) (*Reader[T], error) {
	s, err := Open(in, opt)
	if err != nil {
		return nil, err
	}
	return Rows[T](s)
}

// Schema of the input's first stream.
func (r *Reader[T]) Schema() *Schema { return r.src.first }

// Each calls take for the rows that in gives, to its end. A row is take's until it returns.
func Each[T any](in interface{ Read(row *T) error }, take func(row *T) error) error {
	var row T
	for {
		err := in.Read(&row)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = take(&row)
		}
		if err != nil {
			return err
		}
	}
}

// Read fills row. io.EOF itself (never wrapped) comes only after every stream
// of the input ended with a valid trailer (or, for bare Arrow, its end of stream).
// Errors stick.
func (r *Reader[T]) Read(row *T) error {
	for r.row == r.batch.rows {
		if r.sticky == nil {
			r.sticky = r.advance()
		}
		if r.sticky != nil {
			return r.sticky
		}
	}
	t, p := r.table, unsafe.Pointer(row)
	t.read(p, r.batch.known, r.row)
	from := len(r.forms)
	r.forms = t.append(r.forms, p)
	to := len(r.forms)
	r.forms = t.appendLate(r.forms, p)
	e := t.extraOf(p)
	if *e = (Extra{}); r.batch.extra != nil {
		*e = Extra{batch: r.batch.extra, row: r.row}
		r.forms = e.append(r.forms)
	}
	r.forms = t.endRow(r.forms, from, to)
	r.form = r.forms[from:]
	if len(r.forms) >= hashBlock {
		r.flushHash()
	}
	r.row++
	r.rows++
	return nil
}

// Form is the byte form of the row that Read gave last, until the next Read.
func (r *Reader[T]) Form() []byte { return r.form }

// Buffered is how many rows Read gives without reading another batch from the input.
func (r *Reader[T]) Buffered() int { return r.batch.rows - r.row }

func (r *Reader[T]) flushHash() {
	r.hash.Write(r.forms)
	if r.all != nil {
		r.all.Write(r.forms)
	}
	r.forms = r.forms[:0]
}

// advance makes the next batch the current one, over the end of a stream if need be.
func (r *Reader[T]) advance() error {
	r.batch, r.row = batch{}, 0 // lets go of its memory
	for {
		b, t, err := r.next()
		if err != nil {
			return err
		}
		if t == nil {
			r.batch = b
			if r.src.opt.Ahead {
				r.lookAhead()
			}
			return nil
		}
		if err := r.endStream(t); err != nil {
			return err
		}
		if r.src.bare {
			return io.EOF
		}
		if err := r.src.nextStream(); err != nil {
			return err
		}
		all := r.hash
		if r.all == nil {
			r.all = &all
		}
		r.hash.Reset()
		r.rows = 0
	}
}

// next is a result of Source.nextBatch.
type next struct {
	batch   batch
	trailer *Trailer
	err     error
}

// lookAhead has the next batch read. It ends by itself, when that is there.
func (r *Reader[T]) lookAhead() {
	ahead := make(chan next, 1)
	r.ahead = ahead
	go func() {
		b, t, err := r.src.nextBatch()
		ahead <- next{b, t, err}
	}()
}

// next gives the next batch with rows, or the trailer of the stream.
func (r *Reader[T]) next() (batch, *Trailer, error) {
	if r.ahead == nil {
		return r.src.nextBatch()
	}
	n := <-r.ahead
	r.ahead = nil
	return n.batch, n.trailer, n.err
}

// endStream compares the trailer with what was read and adds it to the total.
func (r *Reader[T]) endStream(t *Trailer) error {
	r.flushHash()
	hash := sum128(&r.hash)
	if t.Verified && t.Rows != r.rows {
		return r.src.fail(fmt.Errorf("%d rows read, and the trailer says %d", r.rows, t.Rows))
	}
	if t.Verified && t.Hash != hash {
		return r.src.fail(&fault.Error{Class: fault.Corrupt, Found: "row hash " + hash.String(), Want: t.Hash.String()})
	}
	if r.all != nil {
		hash = sum128(r.all)
	}
	t.Rows = r.rows
	r.join(t, hash)
	return nil
}

// join adds a stream's trailer to the total; hash covers all rows so far.
func (r *Reader[T]) join(t *Trailer, hash Hash) {
	r.n++
	if r.n == 1 {
		r.total = *t
		r.total.Hash, r.total.Epoch = hash, r.src.layout.schema.Epoch
		return
	}
	r.total.Epoch = JoinEpochs(r.total.Epoch, r.src.layout.schema.Epoch)
	r.total.Rows += t.Rows
	r.total.Hash = hash
	if r.total.Txn != t.Txn {
		r.total.Txn = ""
	}
	r.total.Ledger = r.total.Ledger.Merge(t.Ledger)
}

// Trailer of the whole input, after Read returned io.EOF. For several streams
// in a row: the sum of their rows, the hash of all rows in order, their common
// transaction or "", and their ledgers merged.
func (r *Reader[T]) Trailer() Trailer { return r.total }
