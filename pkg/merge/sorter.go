package merge

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Limits of a Sorter.
const (
	entryBytes = 32       // of memory for each record beside its payload: the entry, and its place in the radix sort
	runBuffer  = 64 << 10 // read buffer of each run while runs are merged
	minMemory  = 1 << 20
	maxPayload = 1 << 30
)

// Sorter sorts records of any size by a 64-bit key, and records of one key by
// order of arrival, within bounded memory: what does not fit waits in temporary
// files, which have no name, so that not even kill -9 leaves one behind.
//
// Call Add for each record, then Sort once, and read the Iter to its end. One
// goroutine.
type Sorter struct {
	mem     int64
	dir     string
	arena   []byte  // payloads, each after its length as uvarint
	entries []entry // in order of arrival
	scratch []entry
	spill   *spill
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
	// Growing doubles, so that what is in use is at least half of what is held.
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
func (s *Sorter) payload(off int) []byte {
	n, w := binary.Uvarint(s.arena[off:])
	return s.arena[off+w:][:n]
}

// flush sorts what is in memory and writes it as a run.
func (s *Sorter) flush() error {
	s.radix()
	if s.spill == nil {
		s.spill = &spill{dir: s.dir}
	}
	w, err := s.spill.begin()
	if err != nil {
		return err
	}
	for _, e := range s.entries {
		if err := w.add(e.key, s.payload(e.off)); err != nil {
			return err
		}
	}
	s.entries, s.arena = s.entries[:0], s.arena[:0]
	return w.end()
}

// radix sorts the entries by key, least significant byte first: it is stable, and
// skips the bytes that all keys share.
func (s *Sorter) radix() {
	if cap(s.scratch) < len(s.entries) {
		s.scratch = make([]entry, cap(s.entries))
	}
	a, b := s.entries, s.scratch[:len(s.entries)]
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
	s.entries, s.scratch = a, b[:cap(b)]
}

// Sort ends the input. The Sorter must not be used any more but to Close it.
func (s *Sorter) Sort() (*Iter, error) {
	if s.spill == nil {
		s.radix()
		return &Iter{sorter: s}, nil
	}
	if len(s.entries) > 0 {
		if err := s.flush(); err != nil {
			return nil, err
		}
	}
	s.entries, s.scratch, s.arena = nil, nil, nil
	fan := int(max(2, s.mem/2/runBuffer))
	for len(s.spill.runs) > fan {
		if err := s.pass(fan); err != nil {
			return nil, err
		}
	}
	return s.spill.merge(s.spill.runs)
}

// pass merges neighbouring runs, fan at a time, into a new file.
func (s *Sorter) pass(fan int) error {
	old := s.spill
	next := &spill{dir: s.dir}
	for runs := old.runs; len(runs) > 0; {
		n := min(fan, len(runs))
		if err := old.mergeTo(next, runs[:n]); err != nil {
			return errors.Join(err, next.close())
		}
		runs = runs[n:]
	}
	s.spill = next
	return old.close()
}

// Close gives back memory and disk. It may be called at any time, and twice.
func (s *Sorter) Close() error {
	s.entries, s.scratch, s.arena = nil, nil, nil
	if s.spill == nil {
		return nil
	}
	err := s.spill.close()
	s.spill = nil
	return err
}

// Iter gives records in order.
type Iter struct {
	sorter *Sorter // in memory
	next   int
	runs   runHeap // spilled
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
		switch err := it.runs[0].read(); {
		case err == io.EOF:
			heap.Pop(&it.runs)
		case err != nil:
			return 0, nil, err
		default:
			heap.Fix(&it.runs, 0)
		}
	}
	it.begun = true
	if len(it.runs) == 0 {
		return 0, nil, io.EOF
	}
	return it.runs[0].key, it.runs[0].payload, nil
}

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

// merge opens runs, which arrived in this order.
func (p *spill) merge(runs []section) (*Iter, error) {
	it := &Iter{}
	for i, r := range runs {
		rd := &runReader{order: i, in: bufio.NewReaderSize(io.NewSectionReader(p.file, r.off, r.length), runBuffer)}
		if err := rd.read(); err != nil {
			return nil, err
		}
		it.runs = append(it.runs, rd)
	}
	heap.Init(&it.runs)
	return it, nil
}

// mergeTo writes the merger of runs as one run of next.
func (p *spill) mergeTo(next *spill, runs []section) error {
	it, err := p.merge(runs)
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

type runReader struct {
	order   int
	in      *bufio.Reader
	key     uint64
	payload []byte
}

func (r *runReader) read() error {
	var head [8]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return err
	}
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	r.key = binary.LittleEndian.Uint64(head[:])
	if int(n) > cap(r.payload) {
		r.payload = make([]byte, n)
	}
	r.payload = r.payload[:n]
	if _, err := io.ReadFull(r.in, r.payload); err != nil {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// runHeap orders runs by their next key, then by arrival.
type runHeap []*runReader

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	return h[i].key < h[j].key || h[i].key == h[j].key && h[i].order < h[j].order
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*runReader)) }
func (h *runHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
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
