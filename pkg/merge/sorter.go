package merge

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Limits of a Sorter.
const (
	entryBytes = 32       // of memory for each record beside its payload: the entry, and its place in the radix sort
	runBuffer  = 64 << 10 // read buffer of each run while runs are merged,
	leastRead  = 16 << 10 // where a Sorter has so many that there is no memory for that
	minMemory  = 1 << 20
	maxPayload = 1 << 30
)

// Sorter sorts records of any size by a 64-bit key, and records of one key by
// order of arrival, within bounded memory: what does not fit waits in temporary
// files, which have no name, so that not even kill -9 leaves one behind. It is sorted
// and written in another goroutine, while further records are added.
//
// Call Add for each record, then Sort once, and read the Iter to its end, and Close in any
// case. One goroutine.
type Sorter struct {
	mem     int64
	dir     string
	chunk   // records are added to it
	spare   chunk
	scratch []entry // of the one that is being sorted
	spill   *spill
	flushes chan error // gives the outcome of the flush that goes on; nil: none does
	err     error      // of a flush
}

// chunk is records in order of arrival, until they are sorted.
type chunk struct {
	arena   []byte // payloads, each after its length as uvarint
	entries []entry
}

type entry struct {
	key uint64
	off int // of the payload's length in the arena
}

// NewSorter returns a Sorter that takes about mem bytes (1 MiB at the least, and
// the largest payload) and spills to dir ("": the system's folder for temporary files).
func NewSorter(mem int64, dir string) *Sorter {
	return &Sorter{mem: max(mem, minMemory), dir: dir}
}

// Add copies payload, which may be empty.
func (s *Sorter) Add(key uint64, payload []byte) error {
	if len(payload) > maxPayload {
		return fmt.Errorf("merge: a record of %d bytes, want at most %d", len(payload), maxPayload)
	}
	// Half of the memory: the other half is for growing, and then for the chunk that is being flushed.
	used := int64(len(s.arena)) + int64(len(payload)) + entryBytes*int64(len(s.entries)+1)
	if used > s.mem/2 && len(s.entries) > 0 {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.entries = append(s.entries, entry{key, len(s.arena)})
	s.arena = binary.AppendUvarint(s.arena, uint64(len(payload)))
	s.arena = append(s.arena, payload...)
	return nil
}

// payload returns the payload at off in the arena.
func (c *chunk) payload(off int) []byte {
	n, w := binary.Uvarint(c.arena[off:])
	return c.arena[off+w:][:n]
}

// flush has what is in memory sorted and written as a run, beside the adding of further records.
func (s *Sorter) flush() error {
	if err := s.flushed(); err != nil {
		return err
	}
	if s.spill == nil {
		s.spill = &spill{dir: s.dir}
		s.spare = chunk{make([]byte, 0, len(s.arena)+len(s.arena)/16), make([]entry, 0, len(s.entries)+len(s.entries)/16)}
	}
	full := s.chunk
	s.chunk, s.spare = chunk{s.spare.arena[:0], s.spare.entries[:0]}, full
	s.flushes = make(chan error, 1)
	go func() { s.flushes <- s.write() }()
	return nil
}

// flushed waits for the flush that goes on, if one does.
func (s *Sorter) flushed() error {
	if s.flushes != nil {
		s.err = <-s.flushes
		s.flushes = nil
	}
	return s.err
}

// write sorts the spare chunk, which is full, and writes it as a run.
func (s *Sorter) write() error {
	s.spare.entries, s.scratch = radix(s.spare.entries, s.scratch)
	w, err := s.spill.begin()
	if err != nil {
		return err
	}
	for _, e := range s.spare.entries {
		if err := w.add(e.key, s.spare.payload(e.off)); err != nil {
			return err
		}
	}
	return w.end()
}

// radix sorts entries by key, least significant byte first: it is stable, and
// skips the bytes that all keys share. It returns them, and the memory that is free then.
func radix(entries, scratch []entry) (sorted, free []entry) {
	if cap(scratch) < len(entries) {
		scratch = make([]entry, cap(entries))
	}
	a, b := entries, scratch[:len(entries)]
	var counts [8][256]int
	for _, e := range a {
		for d := range counts {
			counts[d][byte(e.key>>(8*d))]++
		}
	}
	for d := range counts {
		if len(a) == 0 || counts[d][byte(a[0].key>>(8*d))] == len(a) {
			continue
		}
		var at [256]int
		sum := 0
		for v, n := range counts[d] {
			at[v] = sum
			sum += n
		}
		for _, e := range a {
			v := byte(e.key >> (8 * d))
			b[at[v]] = e
			at[v]++
		}
		a, b = b, a
	}
	return a, b[:cap(b)]
}

// Sort ends the input. The Sorter must not be used any more but to Close it.
func (s *Sorter) Sort() (*Iter, error) {
	if s.spill == nil {
		s.entries, s.scratch = radix(s.entries, s.scratch)
		return &Iter{sorter: s}, nil
	}
	if len(s.entries) > 0 {
		if err := s.flush(); err != nil {
			return nil, err
		}
	}
	if err := s.flushed(); err != nil {
		return nil, err
	}
	s.free()
	fan := int(max(2, s.mem/2/leastRead))
	for len(s.spill.runs) > fan {
		if err := s.pass(fan); err != nil {
			return nil, err
		}
	}
	return s.spill.merge(s.spill.runs, s.mem/2)
}

// pass merges neighbouring runs, fan at a time, into a new file.
func (s *Sorter) pass(fan int) error {
	old := s.spill
	next := &spill{dir: s.dir}
	for runs := old.runs; len(runs) > 0; {
		n := min(fan, len(runs))
		if err := old.mergeTo(next, runs[:n], s.mem/2); err != nil {
			return errors.Join(err, next.close())
		}
		runs = runs[n:]
	}
	s.spill = next
	return old.close()
}

// Close gives back memory and disk. It may be called at any time, and twice.
func (s *Sorter) Close() error {
	s.flushed() // an error was returned by whoever had to know
	s.free()
	if s.spill == nil {
		return nil
	}
	err := s.spill.close()
	s.spill = nil
	return err
}

// free gives back the memory of the records.
func (s *Sorter) free() { s.chunk, s.spare, s.scratch = chunk{}, chunk{}, nil }

// Iter gives records in order.
type Iter struct {
	sorter *Sorter // in memory
	next   int
	runs   Heap[head] // spilled
	begun  bool
}

// Next returns the next record; io.EOF after the last. The payload is valid until
// the next call.
func (it *Iter) Next() (key uint64, payload []byte, err error) {
	if it.sorter != nil {
		if it.next == len(it.sorter.entries) {
			return 0, nil, io.EOF
		}
		e := it.sorter.entries[it.next]
		it.next++
		return e.key, it.sorter.payload(e.off), nil
	}
	if it.begun {
		top := it.runs.First()
		switch err := top.run.read(); {
		case err == io.EOF:
			it.runs.Pop()
		case err != nil:
			return 0, nil, err
		default:
			top.key = top.run.key
			it.runs.Fix()
		}
	}
	it.begun = true
	if it.runs.Len() == 0 {
		return 0, nil, io.EOF
	}
	top := it.runs.First()
	return top.key, top.run.payload, nil
}

// head is a run and its next key, which stands here to be near to the others'.
type head struct {
	key   uint64
	order int // of the runs, by arrival
	run   *runReader
}

func (h *head) below(o *head) bool { return h.key < o.key || h.key == o.key && h.order < o.order }

// spill is a file without name that holds sorted runs, one behind the other: for
// each record the key in 8 little-endian bytes, the payload's length as uvarint,
// the payload.
type spill struct {
	dir  string
	file *os.File
	runs []section
	end  int64
}

type section struct{ off, length int64 }

// begin starts a run at the end of the file.
func (p *spill) begin() (*runWriter, error) {
	if p.file == nil {
		f, err := TempFile(p.dir)
		if err != nil {
			return nil, err
		}
		p.file = f
	}
	return &runWriter{spill: p, out: bufio.NewWriterSize(io.NewOffsetWriter(p.file, p.end), runBuffer)}, nil
}

func (p *spill) close() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file = nil
	return err
}

// merge opens runs, which arrived in this order, to be read with about memory bytes.
func (p *spill) merge(runs []section, memory int64) (*Iter, error) {
	it := &Iter{runs: NewHeap((*head).below)}
	buffer := max(leastRead, min(runBuffer, memory/int64(len(runs))))
	for i, r := range runs {
		rd := p.open(r, int(buffer))
		if err := rd.read(); err != nil {
			return nil, err
		}
		it.runs.Push(head{rd.key, i, rd})
	}
	return it, nil
}

// mergeTo writes the merger of runs as one run of next.
func (p *spill) mergeTo(next *spill, runs []section, memory int64) error {
	it, err := p.merge(runs, memory)
	if err != nil {
		return err
	}
	w, err := next.begin()
	if err != nil {
		return err
	}
	for {
		key, payload, err := it.Next()
		if err == io.EOF {
			return w.end()
		}
		if err != nil {
			return err
		}
		if err := w.add(key, payload); err != nil {
			return err
		}
	}
}

type runWriter struct {
	spill  *spill
	out    *bufio.Writer
	length int64
}

func (w *runWriter) add(key uint64, payload []byte) error {
	var head [8 + binary.MaxVarintLen64]byte
	binary.LittleEndian.PutUint64(head[:], key)
	h := binary.AppendUvarint(head[:8], uint64(len(payload)))
	w.out.Write(h) // the buffer's error sticks
	n, err := w.out.Write(payload)
	w.length += int64(len(h) + n)
	return err
}

func (w *runWriter) end() error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	w.spill.runs = append(w.spill.runs, section{w.spill.end, w.length})
	w.spill.end += w.length
	return nil
}

// open opens a run, to be read buffer bytes at a time.
func (p *spill) open(r section, buffer int) *runReader {
	return &runReader{file: p.file, at: r.off, end: r.off + r.length, buffer: buffer}
}

// runReader reads a run.
type runReader struct {
	file    *os.File
	at, end int64 // what is not in the buffer yet
	buffer  int
	buf     []byte // of that size, or larger for a record that is
	left    []byte // of buf: what was not read yet
	key     uint64
	payload []byte // in buf
}

// read sets key and payload; io.EOF after the last record.
func (r *runReader) read() error {
	if len(r.left) == 0 && r.at == r.end {
		return io.EOF
	}
	for {
		if len(r.left) > 8 {
			if n, w := binary.Uvarint(r.left[8:]); w > 0 && uint64(len(r.left)-8-w) >= n {
				r.key = binary.LittleEndian.Uint64(r.left)
				r.payload, r.left = r.left[8+w:][:n], r.left[8+w+int(n):]
				return nil
			}
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
}

// fill reads on, because what is left does not hold a record.
func (r *runReader) fill() error {
	if r.at == r.end {
		return io.ErrUnexpectedEOF
	}
	if len(r.left) == cap(r.buf) { // none of it was read
		r.buf = make([]byte, max(r.buffer, 2*len(r.left)))
	}
	n := copy(r.buf, r.left)
	more := r.buf[n:]
	more = more[:min(int64(len(more)), r.end-r.at)]
	if _, err := r.file.ReadAt(more, r.at); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	r.at += int64(len(more))
	r.left = r.buf[:n+len(more)]
	return nil
}

// TempFile creates a file in dir ("": the system's folder for temporary files)
// and removes its name at once: the space is given back when it is closed, or
// when the process ends in whatever way.
func TempFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".mercator-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
