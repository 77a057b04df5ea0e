package fpfile

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"mercator/pkg/base/fault"
)

// batchSlots is the number of slots that a Writer encodes and writes at once, for
// each worker.
const batchSlots = 32

// Writer writes a fingerprint file. Errors stick. There is no Close: a Writer
// that is dropped leaves a file without trailer, which every reader refuses.
type Writer struct {
	out     io.Writer
	err     error
	workers int
	count   uint64
	last    uint64
	keys    []uint64 // keys of the open block, at most maxKeys
	full    int      // keys of the last block that was cut
	geo     geometry // of the blocks cut so far
	page    []byte   // index page being filled
	root    []byte
	batch   []byte // the slots that are written next; its blocks are
	cuts    []cut  // not yet encoded
}

// cut is a block to be encoded into batch from byte at to end.
type cut struct {
	keys    []uint64
	at, end int
}

// NewWriter writes the header of a set of fingerprints by the polynomial (see
// fingerprint.Polynomial) and returns a writer for them. It writes whole blocks,
// many at once, so out need not be buffered.
func NewWriter(out io.Writer, polynomial uint64) *Writer {
	w := &Writer{out: out, workers: 1, page: make([]byte, pageHeader, BlockSize)}
	var h [headerSize]byte
	copy(h[:], headMagic)
	le.PutUint32(h[8:], version)
	le.PutUint64(h[16:], polynomial)
	le.PutUint32(h[28:], checksum(h[:28]))
	w.write(h[:])
	return w
}

// SetWorkers bounds the goroutines that AddKeys encodes blocks with: 1 unless
// set. The file is the same for any number.
func (w *Writer) SetWorkers(n int) { w.workers = max(1, n) }

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
		return w.refuse(key)
	}
	w.keys = append(w.keys, key)
	w.last = key
	w.count++
	if len(w.keys) > maxKeys {
		w.keys = w.keys[:copy(w.keys, w.put(w.keys, false))]
	}
	return w.err
}

// AddKeys appends keys, which must increase strictly and be above those before.
// It keeps none of them.
func (w *Writer) AddKeys(keys []uint64) error {
	if len(keys) == 0 || w.err != nil {
		return w.err
	}
	if w.count > 0 && keys[0] <= w.last {
		return w.refuse(keys[0])
	}
	last := keys[0]
	for i, key := range keys[1:] {
		if key <= last {
			w.count, w.last = w.count+uint64(i)+1, last
			return w.refuse(key)
		}
		last = key
	}
	w.count, w.last = w.count+uint64(len(keys)), last
	if len(w.keys) > 0 {
		n := min(len(keys), maxKeys+1)
		w.keys = append(w.keys, keys[:n]...)
		if len(w.keys) <= maxKeys {
			return w.err
		}
		rest := w.put(w.keys, false) // at most maxKeys: if n is above, none of those that waited
		if n <= maxKeys || w.err != nil {
			w.keys = w.keys[:copy(w.keys, rest)]
			return w.err
		}
		keys = keys[n-len(rest):]
	}
	if len(keys) > maxKeys {
		if keys = w.put(keys, false); w.err != nil {
			return w.err
		}
	}
	w.keys = append(w.keys[:0], keys...)
	return w.err
}

func (w *Writer) refuse(key uint64) error {
	if w.err == nil {
		w.err = &fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("fingerprint %d", w.count),
			Found: fmt.Sprintf("%016x after %016x", key, w.last), Want: "strictly increasing fingerprints"}
	}
	return w.err
}

// put cuts keys into blocks, writes them, and returns the keys of the block that
// may go on after them; at the end of the set there is none.
func (w *Writer) put(keys []uint64, end bool) []uint64 {
	for len(keys) > 0 && w.err == nil {
		room := capacity(w.geo.blocks)
		n := fill(keys, room, w.full)
		if n == len(keys) {
			if !end {
				break
			}
			room = bestBytes(n, keys[n-1]-keys[0])
		}
		w.cut(keys[:n], room)
		w.full, keys = n, keys[n:]
	}
	w.flush()
	return keys
}

// cut makes keys the next block, of size bytes, after the index page of the
// blocks before it if that is full.
func (w *Writer) cut(keys []uint64, size int) {
	if w.geo.blocks == maxBlocks {
		w.err = &fault.Error{Class: fault.Usage, Found: "more than 8 TiB of fingerprints", Want: "several files"}
		return
	}
	if len(w.batch) >= w.workers*batchSlots*BlockSize {
		w.flush()
	}
	if len(w.page) == BlockSize {
		w.endPage()
	}
	at := len(w.batch)
	w.batch = grow(w.batch, size)
	clear(w.batch[at:])
	w.cuts = append(w.cuts, cut{keys, at, at + size})
	if len(w.page) == pageHeader {
		w.root = le.AppendUint64(w.root, keys[0])
	}
	w.page = le.AppendUint64(w.page, keys[0])
	w.geo = geometry{w.geo.blocks + 1, int64(size)}
}

// endPage appends the index page to the batch.
func (w *Writer) endPage() {
	le.PutUint32(w.page[4:], uint32(w.geo.pages()-1))
	le.PutUint32(w.page, checksum(w.page[4:]))
	w.batch = append(w.batch, w.page...)
	w.page = w.page[:pageHeader]
}

// flush encodes the blocks of the batch and writes it.
func (w *Writer) flush() {
	var next atomic.Int64
	encode := func() {
		for i := next.Add(1) - 1; i < int64(len(w.cuts)); i = next.Add(1) - 1 {
			c := w.cuts[i]
			encodeBlock(w.batch[c.at:c.end:c.end], c.keys)
		}
	}
	var others sync.WaitGroup
	for range min(w.workers, len(w.cuts)) - 1 {
		others.Go(encode)
	}
	encode()
	others.Wait()
	if len(w.batch) > 0 {
		w.write(w.batch)
	}
	w.batch, w.cuts = w.batch[:0], w.cuts[:0]
}

// Finish writes the last block and the trailer, and lets go of the Writer's memory.
// The file is complete when the caller has synced it.
func (w *Writer) Finish() error {
	w.put(w.keys, true)
	if w.err != nil {
		return w.err
	}
	if len(w.page) > pageHeader {
		w.endPage()
	}
	b := append(w.batch, w.root...)
	var f [footerSize]byte
	le.PutUint64(f[0:], w.count)
	le.PutUint64(f[8:], uint64(w.geo.blocks))
	le.PutUint64(f[16:], w.last)
	le.PutUint32(f[24:], uint32(w.geo.lastLen))
	le.PutUint32(f[28:], checksum(w.root))
	le.PutUint32(f[36:], checksum(f[:36]))
	copy(f[40:], footMagic)
	w.write(append(b, f[:]...))
	if w.err == nil {
		w.err = errFinished
		w.keys, w.page, w.root, w.batch, w.cuts = nil, nil, nil, nil, nil
		return nil
	}
	return w.err
}

var errFinished = fmt.Errorf("fpfile: the writer has finished")
