package fpfile

import (
	"fmt"
	"io"

	"mercator/pkg/fault"
)

// Writer writes a fingerprint file. Errors stick. There is no Close: a Writer
// that is dropped leaves a file without trailer, which every reader refuses.
type Writer struct {
	out  io.Writer
	err  error
	keys []uint64 // of the open block
	// width last found best for the open block; recomputed only when the block
	// seems full with it.
	width   int
	count   uint64
	last    uint64
	geo     geometry // of the blocks written so far
	page    []byte   // index page being filled
	root    []byte
	buf     [BlockSize]byte
	workers int
}

// NewWriter writes the header of a set of fingerprints by the polynomial (see
// fingerprint.Polynomial) and returns a writer for them. It makes few writes, of
// a block each, so out need not be buffered.
func NewWriter(out io.Writer, polynomial uint64) *Writer {
	w := &Writer{out: out, page: make([]byte, pageHeader, BlockSize)}
	var h [headerSize]byte
	copy(h[:], headMagic)
	le.PutUint16(h[8:], major)
	le.PutUint16(h[10:], minor)
	le.PutUint64(h[16:], polynomial)
	le.PutUint32(h[28:], checksum(h[:28]))
	w.write(h[:])
	return w
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
}

// Count is the number of fingerprints added.
func (w *Writer) Count() uint64 { return w.count }

// Add appends key, which must be above the one before it.
func (w *Writer) Add(key uint64) error {
	if w.err != nil {
		return w.err
	}
	if w.count > 0 && key <= w.last {
		w.err = &fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("fingerprint %d", w.count),
			Found: fmt.Sprintf("%016x after %016x", key, w.last), Want: "strictly increasing fingerprints"}
		return w.err
	}
	if n := len(w.keys) + 1; n > 1 {
		span, room := key-w.keys[0], capacity(w.geo.blocks)
		if blockBytes(n, span, w.width) > room {
			w.width = bestWidth(n, span)
		}
		if blockBytes(n, span, w.width) > room || n > maxKeys {
			w.flush(room)
		}
	}
	w.keys = append(w.keys, key)
	w.last = key
	w.count++
	return w.err
}

// flush writes the open block, padded to room, after the index page of the
// blocks before it if that is full.
func (w *Writer) flush(room int) {
	if w.geo.blocks == maxBlocks {
		w.err = &fault.Error{Class: fault.Usage, Found: "more than 8 TiB of fingerprints", Want: "several files"}
		return
	}
	if len(w.page) == BlockSize {
		w.flushPage()
	}
	clear(w.buf[:room])
	encodeBlock(w.buf[:room], w.keys)
	w.write(w.buf[:room])
	if len(w.page) == pageHeader {
		w.root = le.AppendUint64(w.root, w.keys[0])
	}
	w.page = le.AppendUint64(w.page, w.keys[0])
	w.geo = geometry{w.geo.blocks + 1, int64(room)}
	w.keys = w.keys[:0]
	w.width = 0
}

func (w *Writer) flushPage() {
	le.PutUint32(w.page[4:], uint32(w.geo.pages()-1))
	le.PutUint32(w.page, checksum(w.page[4:]))
	w.write(w.page)
	w.page = w.page[:pageHeader]
}

// Finish writes the last block and the trailer. The file is complete when the
// caller has synced it.
func (w *Writer) Finish() error {
	if w.err != nil {
		return w.err
	}
	if n := len(w.keys); n > 0 {
		span := w.keys[n-1] - w.keys[0]
		w.flush(blockBytes(n, span, bestWidth(n, span)))
	}
	if len(w.page) > pageHeader {
		w.flushPage()
	}
	w.write(w.root)
	var f [footerSize]byte
	le.PutUint64(f[0:], w.count)
	le.PutUint64(f[8:], uint64(w.geo.blocks))
	le.PutUint64(f[16:], w.last)
	le.PutUint32(f[24:], uint32(w.geo.lastLen))
	le.PutUint32(f[28:], checksum(w.root))
	le.PutUint32(f[36:], checksum(f[:36]))
	copy(f[40:], footMagic)
	w.write(f[:])
	if w.err == nil {
		w.err = errFinished
		return nil
	}
	return w.err
}

var errFinished = fmt.Errorf("fpfile: the writer has finished")

// AddKeys appends keys, which must increase strictly and be above those before.
func (w *Writer) AddKeys(keys []uint64) error {
	for _, k := range keys {
		if err := w.Add(k); err != nil {
			return err
		}
	}
	return w.err
}

// SetWorkers bounds the goroutines that encode blocks: 1 unless set. The file is
// the same for any number.
func (w *Writer) SetWorkers(n int) { w.workers = max(1, n) }
