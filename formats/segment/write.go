package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"mercator/pkg/fault"
)

// A file, see SPEC.md:
//
//	| header 16 | block … (up to 256) | page | block … | page | directory | trailer 64 |
const (
	headerSize  = 16
	blockHead   = 40 // magic, codec, stored, raw, count, first, last, checksum
	pageHead    = 8  // magic, count
	entrySize   = 16 // offset, first order
	pageEntries = 256
	trailerSize = 64

	headerMagic  = "MSEGMENT"
	trailerMagic = "MSEGDONE"
	blockMagic   = "MBLK"
	pageMagic    = "MPAG"
	dirMagic     = "MDIR"

	major = 1

	minPacked   = 512 // bytes of columns below which a block is stored
	codecStored = 0
	codecZstd   = 1
)

// Writer writes a segment. Errors stick; a file that Finish did not end is
// refused by every reader. Blocks are packed in another goroutine, one at a time, while the
// rows of the next are added; out is written to by the caller's own.
type Writer[T Row] struct {
	out    io.Writer
	name   string
	c      coder
	t      trailer
	off    uint64
	last   uint64      // order of the last row
	count  uint32      // rows in the open block
	first  uint64      // order of the open block's first row
	page   []byte      // entries of the open page
	dir    []byte      // entries of the directory
	raw    []byte      // columns of the block that is being packed
	spare  []byte      // for packing
	packs  chan packed // gives that block; nil: none is being packed
	target int         // bytes of columns that end a block
	most   uint32      // rows that do
	row    T           // of Copy and AddCoded
	err    error
}

// NewWriter starts a segment on out, which has these features, no more than its
// kind may have. name is for messages.
func NewWriter[T Row](out io.Writer, name string, features Features) *Writer[T] {
	kind, columns := kindOf[T]()
	w := &Writer[T]{out: out, name: name, target: BlockTarget, most: MaxBlockRows}
	if !features.known(kind) {
		w.err = &fault.Error{Class: fault.Usage, File: name, Found: fmt.Sprintf("features %02x for a %s", features, kindName(kind))}
	}
	var minor byte
	switch {
	case features&Promises != 0:
		minor = 2
	case features != 0 || kind == 4:
		minor = 1
	}
	columns += features.columns()
	w.c = coder{feat: features, cols: make([][]byte, columns), prev: make([]uint64, columns)}
	h := append(make([]byte, 0, headerSize), headerMagic...)
	h = append(h, major, minor, kind, byte(features))
	w.write(seal(h))
	return w
}

// Blocks makes blocks end at so many bytes of columns, 1 to MaxBlockTarget, or so many
// rows, 1 to MaxBlockRows. They are what is gathered before it is written, and what is
// read at once.
func (w *Writer[T]) Blocks(bytes, rows int) {
	w.target, w.most = min(max(bytes, 1), MaxBlockTarget), uint32(min(max(rows, 1), MaxBlockRows))
}

// seal appends the checksum of b to it.
func seal(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (w *Writer[T]) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
	w.off += uint64(len(b))
}

// Add appends a row, whose order must not be below that of the row before it.
// It keeps no reference to row.
func (w *Writer[T]) Add(row *T) error {
	if w.err != nil {
		return w.err
	}
	r := fieldsOf(row)
	if err := w.ascend(r.order()); err != nil {
		return err
	}
	if err := check(row, w.c.feat); err != nil {
		w.err = err
		return err
	}
	w.c.i = 0
	r.fields(&w.c)
	return w.added()
}

// ascend begins a row.
func (w *Writer[T]) ascend(order uint64) error {
	if w.t.rows+uint64(w.count) > 0 && order < w.last {
		w.err = &fault.Error{Class: fault.Corrupt, File: w.name, Found: fmt.Sprintf("a row of order %d after one of %d", order, w.last), Want: "ascending order"}
		return w.err
	}
	if w.count == 0 {
		w.first = order
	}
	w.last = order
	return nil
}

// added ends a row, whose columns are written.
func (w *Writer[T]) added() error {
	w.count++
	size := 0
	for _, col := range w.c.cols {
		size += len(col)
	}
	if size >= w.target || w.count >= w.most {
		w.endBlock()
	}
	return w.err
}

// check refuses a row that a reader would refuse, or that would lose something.
func check[T Row](row *T, features Features) error {
	switch r := any(row).(type) {
	case *Entry:
		if features&Visits == 0 && r.Visit != (Visit{}) || features&Promises == 0 && (r.Visit.Until != 0 || r.Visit.Broken != 0) {
			return &fault.Error{Class: fault.Usage, Found: "a URL that was visited", Want: "a segment with the features for what its visits told"}
		}
		if !Fits(&r.URL) {
			return &fault.Error{Class: fault.Usage, Found: "a URL record with a text of more than 65535 bytes"}
		}
	case *Host:
		if features != Spreads && r.SpreadUS != 0 {
			return &fault.Error{Class: fault.Usage, Found: "a host with a spread of durations", Want: "a segment with the feature for spreads"}
		}
		if len(r.Host) > MaxString || len(r.Addr) > MaxString || len(r.Last) > MaxLevels {
			return &fault.Error{Class: fault.Usage, Found: "a host record beyond the limits of a segment"}
		}
	case *Domain:
		if len(r.Domain) > MaxString || len(r.Sources) >= MaxSources || r.Many && r.Sources != nil || !ascending(r.Sources) {
			return &fault.Error{Class: fault.Usage, Found: "a domain record beyond the limits of a segment"}
		}
	}
	return nil
}

func ascending(list []uint32) bool {
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			return false
		}
	}
	return true
}

// packed is a block ready to be written.
type packed struct {
	head  [blockHead]byte
	body  []byte
	spare []byte // for packing the next one
	first uint64
}

// endBlock has the open block packed, beside the rows of the next one.
func (w *Writer[T]) endBlock() {
	w.writeBlock()
	w.raw = w.raw[:0]
	for i, col := range w.c.cols {
		w.raw = binary.AppendUvarint(w.raw, uint64(len(col)))
		w.raw = append(w.raw, col...)
		w.c.cols[i] = col[:0]
		w.c.prev[i] = 0
	}
	if w.t.blocks == 0 {
		w.t.first = w.first
	}
	w.t.last = w.last
	w.t.blocks++
	w.t.rows += uint64(w.count)
	w.packs = make(chan packed, 1)
	go pack(w.packs, w.raw, w.spare, w.count, w.first, w.last)
	w.count = 0
}

// pack makes a block of columns; spare is memory that it may use.
func pack(to chan<- packed, columns, spare []byte, count uint32, first, last uint64) {
	b := packed{body: columns, first: first, spare: spare}
	codec := uint32(codecStored)
	if len(columns) >= minPacked {
		b.spare = encoder().EncodeAll(columns, spare[:0])
		if len(b.spare) < len(columns) {
			codec, b.body = codecZstd, b.spare
		}
	}
	h := append(b.head[:0], blockMagic...)
	h = binary.LittleEndian.AppendUint32(h, codec)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(b.body)))
	h = binary.LittleEndian.AppendUint32(h, uint32(len(columns)))
	h = binary.LittleEndian.AppendUint32(h, count)
	h = binary.LittleEndian.AppendUint64(h, first)
	h = binary.LittleEndian.AppendUint64(h, last)
	binary.LittleEndian.AppendUint32(h, crc32.Update(crc32.Checksum(h, castagnoli), castagnoli, b.body))
	to <- b
}

// writeBlock writes the block that is being packed, if there is one.
func (w *Writer[T]) writeBlock() {
	if w.packs == nil {
		return
	}
	b := <-w.packs
	w.packs, w.spare = nil, b.spare
	w.page = appendEntry(w.page, w.off, b.first)
	w.write(b.head[:])
	w.write(b.body)
	w.t.sum = crc32.Update(w.t.sum, castagnoli, b.head[blockHead-4:])
	if len(w.page) == pageEntries*entrySize {
		w.endPage()
	}
}

func appendEntry(b []byte, offset, first uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, offset)
	return binary.LittleEndian.AppendUint64(b, first)
}

func (w *Writer[T]) endPage() {
	if len(w.page) == 0 {
		return
	}
	w.dir = appendEntry(w.dir, w.off, binary.LittleEndian.Uint64(w.page[8:]))
	w.write(table(pageMagic, w.page))
	w.page = w.page[:0]
}

// table frames entries as a page or the directory.
func table(magic string, entries []byte) []byte {
	b := append(make([]byte, 0, pageHead+len(entries)+4), magic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(entries)/entrySize))
	return seal(append(b, entries...))
}

// Finish ends the file with its directory and trailer and returns the number of
// rows. The caller syncs and closes what it gave to NewWriter.
func (w *Writer[T]) Finish() (rows uint64, err error) {
	if w.err == nil && w.count > 0 {
		w.endBlock()
	}
	w.writeBlock()
	w.endPage()
	w.t.directory = w.off
	w.write(table(dirMagic, w.dir))
	w.write(w.t.encode())
	return w.t.rows, w.err
}

// Rows returns the number of rows added.
func (w *Writer[T]) Rows() uint64 { return w.t.rows + uint64(w.count) }

// trailer is the end of a file.
type trailer struct {
	blocks, rows, directory, first, last uint64
	sum                                  uint32 // of the blocks' checksums, in order
}

func (t *trailer) encode() []byte {
	b := append(make([]byte, 0, trailerSize), trailerMagic...)
	for _, x := range []uint64{t.blocks, t.rows, t.directory, t.first, t.last} {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	b = binary.LittleEndian.AppendUint32(b, t.sum)
	b = append(b, make([]byte, trailerSize-4-len(b))...)
	return seal(b)
}

func (t *trailer) decode(b []byte) {
	for i, x := range []*uint64{&t.blocks, &t.rows, &t.directory, &t.first, &t.last} {
		*x = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	t.sum = binary.LittleEndian.Uint32(b[48:])
}
