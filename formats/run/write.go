package run

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"mercator/pkg/base/fault"
)

// Writer writes a run. Errors stick; a file that Close did not end is refused by every reader.
// Blocks are packed in another goroutine, one at a time, while the rows of the next are
// added; out is written to by the caller's own.
type Writer struct {
	out     io.Writer
	t       trailer
	off     uint64
	open    []byte      // the open block: room for its head, and its rows
	count   uint32      // rows of the open block
	first   uint64      // key of the open block's first row
	last    uint64      // key of the last row
	page    []byte      // entries of the open page
	dir     []byte      // entries of the directory
	idle    []byte      // memory for the next block
	spare   []byte      // memory for packing
	packs   chan packed // gives the block that is being packed; nil: none is
	target  int
	maxRows uint32
	plain   bool
	err     error
}

// NewWriter starts a run of a kind on out: 1 to 16 lower-case letters and hyphens.
func NewWriter(out io.Writer, kind string) *Writer {
	w := &Writer{out: out, target: BlockTarget, maxRows: 1<<32 - 1}
	if !validKind(kind) {
		w.err = &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a run of kind %q", kind), Want: fmt.Sprintf("1 to %d lower-case letters and hyphens", MaxKind)}
	}
	h := append(make([]byte, 0, headerSize), headerMagic...)
	h = binary.LittleEndian.AppendUint32(h, version)
	h = append(h, kind...)
	h = append(h, make([]byte, max(0, headerSize-4-len(h)))...)
	w.write(seal(h))
	return w
}

// Blocks makes blocks end at that number of bytes of rows, 1 to MaxBlockTarget, or at that number of rows.
// A block is gathered before it is written, and is read at once.
func (w *Writer) Blocks(bytes, rows int) {
	w.target, w.maxRows = min(max(bytes, 1), MaxBlockTarget), uint32(min(max(rows, 1), 1<<31))
}

// Plain makes blocks be stored as they are: for files that live too shortly to be worth packing.
func (w *Writer) Plain() { w.plain = true }

// seal appends the checksum of b to it.
func seal(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
	w.off += uint64(len(b))
}

// Add appends a row. key must not be below the key of the row before it. Add copies payload.
func (w *Writer) Add(key uint64, payload []byte) error {
	switch {
	case w.err != nil:
		return w.err
	case key < w.last:
		w.err = &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("a row of key %d after one of %d", key, w.last), Want: "ascending keys"}
		return w.err
	case len(payload) > MaxPayload:
		w.err = &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a payload of %d bytes", len(payload)), Want: fmt.Sprintf("at most %d", MaxPayload)}
		return w.err
	}
	if w.count == 0 {
		w.open = append(w.open[:0], noHead[:]...)
		w.first, w.last = key, key
	}
	w.open = binary.AppendUvarint(w.open, key-w.last)
	w.open = binary.AppendUvarint(w.open, uint64(len(payload)))
	w.open = append(w.open, payload...)
	w.last = key
	w.count++
	if len(w.open)-blockHead >= w.target || w.count >= w.maxRows {
		w.endBlock()
	}
	return w.err
}

var noHead [blockHead]byte

// packed is a block ready to be written.
type packed struct {
	block []byte // with its head
	first uint64
	plain []byte // block before compression
	spare []byte // memory for packing
}

// endBlock has the open block packed, beside the rows of the next one.
func (w *Writer) endBlock() {
	w.writeBlock()
	if w.t.blocks == 0 {
		w.t.first = w.first
	}
	w.t.last = w.last
	w.t.blocks++
	w.t.rows += uint64(w.count)
	b := packed{plain: w.open, first: w.first, spare: w.spare}
	count, last, packs := w.count, w.last, make(chan packed, 1)
	if w.packs = packs; w.plain {
		packs <- b.pack(count, last, false)
	} else {
		go func() { packs <- b.pack(count, last, true) }()
	}
	w.open, w.count = w.idle, 0
}

// pack makes the block of its rows.
func (b packed) pack(count uint32, last uint64, compress bool) packed {
	rows := b.plain[blockHead:]
	codec := uint32(codecStored)
	b.block = b.plain
	if compress && len(rows) >= leastPacked && len(rows) <= MaxPacked {
		b.spare = encoder().EncodeAll(rows, append(b.spare[:0], noHead[:]...))
		if len(b.spare) < len(b.plain) {
			codec, b.block = codecZstd, b.spare
		}
	}
	h := append(b.block[:0], blockMagic...)
	h = binary.LittleEndian.AppendUint32(h, codec)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(b.block)-blockHead))
	h = binary.LittleEndian.AppendUint32(h, uint32(len(rows)))
	h = binary.LittleEndian.AppendUint32(h, count)
	h = binary.LittleEndian.AppendUint64(h, b.first)
	h = binary.LittleEndian.AppendUint64(h, last)
	binary.LittleEndian.AppendUint32(h, crc32.Update(crc32.Checksum(h, castagnoli), castagnoli, b.block[blockHead:]))
	return b
}

// writeBlock writes the block that is being packed, if there is one.
func (w *Writer) writeBlock() {
	if w.packs == nil {
		return
	}
	b := <-w.packs
	w.packs, w.idle, w.spare = nil, b.plain, b.spare
	if cap(w.idle) > 2*MaxBlockTarget { // a large payload was in it
		w.idle = nil
	}
	w.page = appendEntry(w.page, w.off, b.first)
	w.write(b.block)
	w.t.sum = crc32.Update(w.t.sum, castagnoli, b.block[blockHead-4:blockHead])
	if len(w.page) == pageEntries*entrySize {
		w.endPage()
	}
}

func appendEntry(b []byte, offset, first uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, offset)
	return binary.LittleEndian.AppendUint64(b, first)
}

func (w *Writer) endPage() {
	if len(w.page) == 0 {
		return
	}
	w.dir = appendEntry(w.dir, w.off, entryFirst(w.page, 0))
	w.write(table(pageMagic, w.page))
	w.page = w.page[:0]
}

// table frames entries as a page or the directory.
func table(magic string, entries []byte) []byte {
	b := append(make([]byte, 0, pageHead+len(entries)+4), magic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(entries)/entrySize))
	return seal(append(b, entries...))
}

// Close ends the run with its directory and trailer. The caller syncs and closes what it gave to NewWriter.
func (w *Writer) Close() error {
	if w.err == nil && w.count > 0 {
		w.endBlock()
	}
	w.writeBlock()
	w.endPage()
	w.t.directory = w.off
	w.write(table(dirMagic, w.dir))
	w.write(w.t.encode())
	return w.err
}

// Rows is the number of rows added.
func (w *Writer) Rows() uint64 { return w.t.rows + uint64(w.count) }

// Size is the number of bytes written; after Close, the file's length.
func (w *Writer) Size() int64 { return int64(w.off) }

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
	return seal(binary.LittleEndian.AppendUint32(b, t.sum))
}

func (t *trailer) decode(b []byte) {
	for i, x := range []*uint64{&t.blocks, &t.rows, &t.directory, &t.first, &t.last} {
		*x = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	t.sum = binary.LittleEndian.Uint32(b[48:])
}
