package resolve

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"sort"

	"mercator/pkg/merge"
)

// entries keeps what is known of names while a command runs, for any number of names: in
// a table, and what does not fit there in sorted runs in temporary files, which have no
// name. Names are looked up in the order of a cache file where that is not much to ask:
// neighbours then cost one read of a run together.
//
// One goroutine.
type entries struct {
	mem  *table
	runs []*run // older before newer
}

// Bounds of the runs.
const (
	fanIn     = 4       // so many runs of one level become one of the next
	blockSize = 8 << 10 // of a run, at the least: what one lookup reads
	maxBlocks = 1 << 16 // of a run: 1 MiB of memory; larger runs have larger blocks
	runBuffer = 64 << 10
)

// newEntries makes an empty set that takes about so many bytes of memory.
func newEntries(memory int64) *entries { return &entries{mem: newTable(memory)} }

// put takes an entry in, in place of the name's former one. One without measure is left
// out: no answer is, and that of a store that somebody else wrote costs a question.
func (s *entries) put(key uint64, name string, e *entry) error {
	if itemBytes(name, e) > maxItem || s.mem.put(key, name, e) {
		return nil
	}
	if err := s.spill(); err != nil {
		return err
	}
	s.mem.put(key, name, e)
	return nil
}

// getAll finds the entries of names that are not known, where they are.
func (s *entries) getAll(names []*lookup) (err error) {
	s.mem.getAll(names)
	if !s.onDisk() {
		return nil
	}
	for _, l := range names {
		if l.known {
			continue
		}
		if l.entry, l.known, err = s.getOld(l.key, l.name); err != nil {
			return err
		}
	}
	return nil
}

// get finds a name's entry.
func (s *entries) get(key uint64, name string) (e entry, ok bool, err error) {
	if e, ok = s.mem.get(key, name); ok {
		return e, true, nil
	}
	return s.getOld(key, name)
}

// getOld finds a name's entry on disk.
func (s *entries) getOld(key uint64, name string) (e entry, ok bool, err error) {
	for i := len(s.runs) - 1; i >= 0; i-- {
		if e, ok, err = s.runs[i].get(key, name); ok || err != nil {
			return e, ok, err
		}
	}
	return e, false, nil
}

// spill writes the table as a run, or behind the last one if that ends before it, as it does
// while a cache file is read. Then runs of one level are merged.
func (s *entries) spill() error {
	items := s.mem.sorted()
	if len(items) == 0 {
		return nil
	}
	n := len(s.runs)
	if n == 0 || s.runs[n-1].last.compare(items[0].key(), items[0].name()) >= 0 {
		r, err := newRun(0)
		if err != nil {
			return err
		}
		s.runs = append(s.runs, r)
		n++
	}
	w := s.runs[n-1].extend()
	for _, it := range items {
		if err := w.add(it); err != nil {
			return err
		}
	}
	s.mem.reset()
	if err := w.end(); err != nil {
		return err
	}
	return s.compact()
}

// compact merges the newest runs while there are fanIn of one level: a name is written once
// a level, and is looked for in less than fanIn runs a level.
func (s *entries) compact() error {
	for n := len(s.runs); n >= fanIn && s.runs[n-fanIn].level == s.runs[n-1].level; n = len(s.runs) {
		old := s.runs[n-fanIn:]
		merged, err := newRun(old[0].level + 1)
		if err != nil {
			return err
		}
		w := merged.extend()
		if err := mergeItems(old, nil, w.add); err != nil {
			return err
		}
		if err := w.end(); err != nil {
			return err
		}
		for _, r := range old {
			r.file.Close()
		}
		s.runs = append(s.runs[:n-fanIn], merged)
	}
	return nil
}

// each calls fn for each name's item in the order of a cache file, each valid for that call.
func (s *entries) each(fn func(item) error) error { return mergeItems(s.runs, s.mem.sorted(), fn) }

func (s *entries) empty() bool { return s.mem.names == 0 && len(s.runs) == 0 }

// size is what the items take, in bytes.
func (s *entries) size() (n int64) {
	for _, c := range s.mem.chunks {
		n += int64(len(c))
	}
	for _, r := range s.runs {
		n += r.length
	}
	return n
}

// onDisk says whether lookups may have to read.
func (s *entries) onDisk() bool { return len(s.runs) > 0 }

// flush leaves nothing in memory, if anything is on disk.
func (s *entries) flush() error {
	if !s.onDisk() {
		return nil
	}
	if err := s.spill(); err != nil {
		return err
	}
	s.mem = newTable(0)
	return nil
}

// Close gives back the disk.
func (s *entries) Close() {
	for _, r := range s.runs {
		r.file.Close()
	}
	s.runs = nil
}

// run is a file of items in a cache file's order. Its index has the first key of each block
// of items.
type run struct {
	file   *os.File
	level  int
	size   int64 // of a block, at the least
	blocks []runBlock
	length int64
	last   item // a copy

	loaded int    // block that is in buf; -1 for none
	buf    []byte // what was read last
}

type runBlock struct {
	key uint64
	at  int64
}

func newRun(level int) (*run, error) {
	f, err := merge.TempFile("")
	if err != nil {
		return nil, err
	}
	return &run{file: f, level: level, size: blockSize, loaded: -1}, nil
}

// runWriter puts items behind those of a run. They are found once it has ended.
type runWriter struct {
	run *run
	out *bufio.Writer
}

func (r *run) extend() *runWriter {
	r.loaded = -1
	return &runWriter{r, bufio.NewWriterSize(io.NewOffsetWriter(r.file, r.length), runBuffer)}
}

func (w *runWriter) add(it item) error {
	r := w.run
	if n := len(r.blocks); n == 0 || r.length >= r.blocks[n-1].at+r.size {
		if n == maxBlocks { // from now on, each block is two
			for i := range n / 2 {
				r.blocks[i] = r.blocks[2*i]
			}
			r.blocks = r.blocks[:n/2]
			r.size *= 2
		}
		r.blocks = append(r.blocks, runBlock{it.key(), r.length})
	}
	r.last = append(r.last[:0], it...)
	r.length += int64(len(it))
	_, err := w.out.Write(it)
	return err
}

func (w *runWriter) end() error { return w.out.Flush() }

// get finds a name's entry.
func (r *run) get(key uint64, name string) (e entry, ok bool, err error) {
	want := []byte(name)
	after := sort.Search(len(r.blocks), func(i int) bool {
		if r.blocks[i].key != key || err != nil {
			return r.blocks[i].key > key
		}
		// Names whose FP64 are alike can be made on purpose, any number of them.
		err = r.load(i)
		return err == nil && firstItem(r.buf).compare(key, want) > 0
	})
	if err != nil || after == 0 {
		return e, false, err
	}
	if err := r.load(after - 1); err != nil {
		return e, false, err
	}
	for b := r.buf; len(b) > 0; {
		it := firstItem(b)
		if d := it.compare(key, want); d == 0 {
			return it.entry(), true, nil
		} else if d > 0 {
			break
		}
		b = b[len(it):]
	}
	return e, false, nil
}

// load reads a block.
func (r *run) load(i int) error {
	if i == r.loaded {
		return nil
	}
	end := r.length
	if i+1 < len(r.blocks) {
		end = r.blocks[i+1].at
	}
	r.loaded = -1
	r.buf = slices.Grow(r.buf[:0], int(end-r.blocks[i].at))[:end-r.blocks[i].at]
	if _, err := r.file.ReadAt(r.buf, r.blocks[i].at); err != nil {
		return err
	}
	r.loaded = i
	return nil
}

// cursor walks the items of a run, or some in memory.
type cursor struct {
	head item // nil at the end
	in   *bufio.Reader
	more []item
}

func (c *cursor) next() error {
	if c.in == nil {
		if c.head = nil; len(c.more) > 0 {
			c.head, c.more = c.more[0], c.more[1:]
		}
		return nil
	}
	if _, err := c.in.Discard(len(c.head)); err != nil {
		return err
	}
	size, err := c.in.Peek(2)
	if err == io.EOF {
		c.head = nil
		return nil
	}
	if err == nil {
		c.head, err = c.in.Peek(int(binary.LittleEndian.Uint16(size)))
	}
	return err
}

// mergeItems calls fn for the items of runs, and those of a table, in order. Of one name the
// newest counts.
func mergeItems(runs []*run, newest []item, fn func(item) error) error {
	cursors := make([]cursor, 0, len(runs)+1)
	for _, r := range runs {
		cursors = append(cursors, cursor{in: bufio.NewReaderSize(io.NewSectionReader(r.file, 0, r.length), runBuffer)})
	}
	cursors = append(cursors, cursor{more: newest})
	for i := range cursors {
		if err := cursors[i].next(); err != nil {
			return err
		}
	}
	for {
		least := -1
		for i := range cursors {
			if c := &cursors[i]; c.head != nil && (least < 0 || c.head.compare(cursors[least].head.key(), cursors[least].head.name()) <= 0) {
				least = i
			}
		}
		if least < 0 {
			return nil
		}
		it := cursors[least].head
		if err := fn(it); err != nil {
			return err
		}
		for i := range cursors {
			if c := &cursors[i]; i != least && c.head != nil && c.head.compare(it.key(), it.name()) == 0 {
				if err := c.next(); err != nil {
					return err
				}
			}
		}
		if err := cursors[least].next(); err != nil {
			return err
		}
	}
}
