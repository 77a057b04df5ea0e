package merge

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"mercator/formats/run"
	"mercator/pkg/base/durable"
)

// Limits of a Sorter.
const (
	entryBytes = 32       // of memory for each record beside its payload: the entry, and its place in the radix sort
	runBlock   = 32 << 10 // bytes of a spilled run that are in memory while runs are merged
	minMemory  = 1 << 20

	runKind = "spill"
)

// Sorter sorts records of any size by a 64-bit key, and records of one key by
// order of arrival, within bounded memory: what does not fit waits in temporary
// files, which have no name, so that not even kill -9 leaves one behind. It is sorted
// and written in another goroutine, while further records are added.
//
// Call Add for each record, then Sort once, and read the Iter to its end, and Close in any
// case. One goroutine.
type Sorter struct {
	// Ties, if it is set before the first Add, orders records of one key by their payloads. Those that it finds equal
	// stay in order of arrival.
	Ties func(a, b []byte) int

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
	if len(payload) > run.MaxPayload {
		return fmt.Errorf("merge: a record of %d bytes, want at most %d", len(payload), run.MaxPayload)
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
	s.order(&s.spare)
	rows := Iter{chunk: &s.spare}
	return s.spill.write(rows.Next)
}

// order sorts a chunk.
func (s *Sorter) order(c *chunk) {
	c.entries, s.scratch = radix(c.entries, s.scratch)
	if s.Ties == nil {
		return
	}
	for rest := c.entries; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(e entry) bool { return e.key != rest[0].key })
		if n < 0 {
			n = len(rest)
		}
		slices.SortStableFunc(rest[:n], func(a, b entry) int { return s.Ties(c.payload(a.off), c.payload(b.off)) })
		rest = rest[n:]
	}
}

// radix sorts entries by key, least significant byte first: it is stable, and
// skips the bytes that all keys share. It returns them, and the memory that is free then.
func radix(entries, scratch []entry) (sorted, free []entry) {
	if slices.IsSortedFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) }) {
		return entries, scratch // as rows that are kept in order of arrival
	}
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
		s.order(&s.chunk)
		return &Iter{chunk: &s.chunk}, nil
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
	for s.fit(s.spill.runs) < len(s.spill.runs) {
		if err := s.pass(); err != nil {
			return nil, err
		}
	}
	return s.spill.merge(s.spill.runs, s.Ties)
}

// fit is how many of the runs, from the first on, are merged at a time: as many as the memory holds a block of, and two
// at the least.
func (s *Sorter) fit(runs []section) int {
	n := 0
	for room := s.mem / 2; n < len(runs); n++ {
		if room -= runs[n].block; room < 0 && n >= 2 {
			break
		}
	}
	return n
}

// pass merges neighbouring runs, as many as fit at a time, into a new file.
func (s *Sorter) pass() error {
	old := s.spill
	next := &spill{dir: s.dir}
	for runs := old.runs; len(runs) > 0; {
		n := s.fit(runs)
		it, err := old.merge(runs[:n], s.Ties)
		if err == nil {
			err = next.write(it.Next)
		}
		if err != nil {
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
	chunk    *chunk // in memory, sorted; nil: in runs
	next     int
	runs     []*run.Scanner
	payloads [][]byte // of the next row of each run
	heads    Heap[head]
	given    bool // the first of them was
}

// head is a run's next row. (It has no pointer: what the heap moves would cost more while memory is collected.)
type head struct {
	key uint64
	run int // number of the run, in order of arrival
}

// Runs merges sorted runs: rows of one key come in the order of ties, which may be nil, and else of the runs.
func Runs(runs []*run.Scanner, ties func(a, b []byte) int) (*Iter, error) {
	it := &Iter{runs: runs, payloads: make([][]byte, len(runs))}
	it.heads = NewHeap(func(h, o *head) bool {
		if h.key != o.key {
			return h.key < o.key
		}
		if ties != nil {
			if c := ties(it.payloads[h.run], it.payloads[o.run]); c != 0 {
				return c < 0
			}
		}
		return h.run < o.run
	})
	for i, rows := range runs {
		rows.Reuse()
		switch key, payload, err := rows.Next(); err {
		case nil:
			it.payloads[i] = payload
			it.heads.Push(head{key, i})
		case io.EOF:
		default:
			return nil, err
		}
	}
	return it, nil
}

// Next returns the next record; io.EOF after the last. The payload is valid until
// the next call.
func (it *Iter) Next() (key uint64, payload []byte, err error) {
	if it.chunk != nil {
		if it.next == len(it.chunk.entries) {
			return 0, nil, io.EOF
		}
		e := it.chunk.entries[it.next]
		it.next++
		return e.key, it.chunk.payload(e.off), nil
	}
	if it.given {
		top := it.heads.First()
		switch top.key, it.payloads[top.run], err = it.runs[top.run].Next(); err {
		case nil:
			it.heads.Fix()
		case io.EOF:
			it.heads.Pop()
		default:
			return 0, nil, err
		}
	}
	if it.given = it.heads.Len() > 0; !it.given {
		return 0, nil, io.EOF
	}
	top := it.heads.First()
	return top.key, it.payloads[top.run], nil
}

// Each calls take for the records, to the last. A payload is valid until take returns.
func (it *Iter) Each(take func(key uint64, payload []byte) error) error {
	for {
		key, payload, err := it.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = take(key, payload)
		}
		if err != nil {
			return err
		}
	}
}

// From says which of the runs the last record came from.
func (it *Iter) From() int { return it.heads.First().run }

// spill is a file without name that holds sorted runs, one behind the other.
type spill struct {
	dir  string
	file *os.File
	runs []section
	end  int64
}

type section struct {
	off, length int64
	block       int64 // bytes that the largest block takes, at most
}

// write appends the rows that next gives, in order, as a run.
func (p *spill) write(next func() (key uint64, payload []byte, err error)) error {
	if p.file == nil {
		f, err := durable.TempFile(p.dir)
		if err != nil {
			return err
		}
		p.file = f
	}
	out := io.NewOffsetWriter(p.file, p.end)
	w := run.NewWriter(out, runKind)
	w.Plain()
	w.Blocks(runBlock, math.MaxInt)
	largest := 0
	for {
		key, payload, err := next()
		if err == io.EOF {
			break
		}
		if err == nil {
			largest = max(largest, len(payload))
			err = w.Add(key, payload)
		}
		if err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	length, _ := out.Seek(0, io.SeekCurrent)
	p.runs = append(p.runs, section{p.end, length, int64(runBlock + largest)})
	p.end += length
	return nil
}

func (p *spill) close() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file = nil
	return err
}

// open opens a run.
func (p *spill) open(s section) (*run.Scanner, error) {
	r, err := run.Open(io.NewSectionReader(p.file, s.off, s.length), s.length, "temporary file", runKind)
	if err != nil {
		return nil, err
	}
	return r.Scan(run.Start), nil
}

// merge opens runs, which arrived in this order.
func (p *spill) merge(runs []section, ties func(a, b []byte) int) (*Iter, error) {
	var all []*run.Scanner
	for _, s := range runs {
		rows, err := p.open(s)
		if err != nil {
			return nil, err
		}
		all = append(all, rows)
	}
	return Runs(all, ties)
}
