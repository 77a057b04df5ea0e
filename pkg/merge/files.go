package merge

import (
	"cmp"
	"io"
	"slices"
	"sync"

	"mercator/formats/fpfile"
)

// Set is a set on disk: the union of its files.
type Set []*fpfile.Reader

// count is the number of fingerprints, those counted twice that are in two files.
func (s Set) count() (n uint64) {
	for _, r := range s {
		n += r.Count()
	}
	return n
}

// span is the range of the fingerprints; lo > hi if there are none.
func (s Set) span() (lo, hi uint64) {
	lo = 1<<64 - 1
	for _, r := range s {
		if first, ok := r.First(); ok {
			last, _ := r.Last()
			lo, hi = min(lo, first), max(hi, last)
		}
	}
	return lo, hi
}

// Op is an operation on sets.
type Op int

// The operations.
const (
	OpUnion     Op = iota // keys in any set
	OpIntersect           // keys in every set
	OpDiff                // keys in the first set and in no other
)

// Options of Files.
type Options struct {
	Threads  int           // workers; 1 at the least
	Memory   int64         // bytes for fingerprints; read buffers take up to 8 MiB beside them
	Progress func(n int64) // called with the number of fingerprints read; may be nil; from many goroutines
}

const (
	// rangeBlocks is the number of blocks that one worker merges at a time; their
	// fingerprints and the result fit the third-level cache.
	rangeBlocks = 96
	// rangeMin is the number of blocks below which fewer workers are better.
	rangeMin = 8
	// sparseRatio is the ratio of sizes from which on the larger set is asked for
	// the keys of the smaller, and not decoded.
	sparseRatio = 64
	// sharedReadAhead is how many bytes the read buffers of all files take together, and
	// maxReadAhead how many one takes at most: more makes nothing faster.
	sharedReadAhead = 8 << 20
	maxReadAhead    = 256 << 10
	// blockKeys is the most that a block holds.
	blockKeys = 4096
)

// Files adds to dst the result of an operation on one or more sets.
// The key space is cut into ranges of about equally many blocks, by the
// files' indexes; workers decode a range and combine it while others do the same
// with the next ones, and results are added in order. So dst gets the same keys
// for any Options, though in slices of other lengths.
//
// The Readers must not be used otherwise until Files returns.
func Files(dst Dest, op Op, sets []Set, opt Options) error {
	m := &merger{op: op, dst: dst, opt: opt}
	m.ended.L = &m.mu
	lo, hi := sets[0].span()
	for _, s := range sets[1:] {
		first, last := s.span()
		switch op {
		case OpUnion:
			lo, hi = min(lo, first), max(hi, last)
		case OpIntersect:
			lo, hi = max(lo, first), min(hi, last)
		}
	}
	if lo > hi {
		return nil
	}
	if op == OpIntersect { // from the smallest on
		sets = slices.Clone(sets)
		slices.SortStableFunc(sets, func(a, b Set) int { return cmp.Compare(a.count(), b.count()) })
	}
	files := 0
	for _, s := range sets {
		files += len(s)
	}
	for i, s := range sets {
		o := operand{sparse: op != OpUnion && s.count()/sparseRatio > sets[0].count()}
		for _, r := range s {
			r.SetReadAhead(min(maxReadAhead, sharedReadAhead/int64(files)))
			it, err := r.Range(lo, hi)
			if err != nil {
				return err
			}
			o.files = append(o.files, &input{it: it})
			if !o.sparse {
				if err := m.plan.addFile(r, lo); err != nil {
					return err
				}
			}
		}
		if i == 0 && op != OpUnion {
			m.first = o
		} else {
			m.others = append(m.others, o)
		}
	}
	m.plan.hi = hi
	threads := m.plan.size(max(1, opt.Threads), opt.Memory)
	var workers sync.WaitGroup
	for range threads {
		workers.Go(func() { (&worker{merger: m}).run() })
	}
	workers.Wait()
	return m.err
}

// plan cuts the key space. One goroutine at a time.
type plan struct {
	inputs []planned
	blocks int    // to a range
	hi     uint64 // the end of the last range
	over   bool
	// bytes of fingerprints, decoded, that one block of each file may hold.
	cost int64
}

// planned is an input of the plan: the index, and the first fingerprint of the
// next block.
type planned struct {
	index *fpfile.Index
	first uint64
}

// addFile makes r, from the block of key lo on, a part of the plan.
func (p *plan) addFile(r *fpfile.Reader, lo uint64) error {
	if r.Count() == 0 {
		return nil
	}
	in := planned{index: r.Index()}
	if err := in.index.Seek(lo); err != nil {
		return err
	}
	first, err := in.index.Next()
	if err != nil {
		return err
	}
	in.first = first
	p.inputs = append(p.inputs, in)
	// Twice the mean, since some blocks hold more than others.
	p.cost += 8 * min(blockKeys, 2*int64(r.Count())/r.Blocks()+1)
	return nil
}

// size chooses the number of blocks in a range and returns the number of workers. Each
// worker holds a range, with keys of every file from a block that began before the range,
// and makes results in two other places.
func (p *plan) size(threads int, memory int64) int {
	if len(p.inputs) == 0 {
		p.blocks = 1
		return 1
	}
	block := p.cost / int64(len(p.inputs))
	threads = int(min(int64(threads), max(1, memory/(3*(p.cost+rangeMin*block)))))
	p.blocks = int(max(1, min(rangeBlocks, (memory/int64(3*threads)-p.cost)/block)))
	return threads
}

// next returns the end of the next range: it is just below the block that comes
// after so many others.
func (p *plan) next() (hi uint64, err error) {
	var last uint64
	for n := 0; len(p.inputs) > 0; n++ {
		least := 0
		for i := range p.inputs {
			if p.inputs[i].first < p.inputs[least].first {
				least = i
			}
		}
		in := &p.inputs[least]
		if in.first > p.hi {
			break
		}
		if n >= p.blocks && in.first > last {
			return in.first - 1, nil
		}
		last = in.first
		switch in.first, err = in.index.Next(); {
		case err == io.EOF:
			p.inputs = slices.Delete(p.inputs, least, least+1)
		case err != nil:
			return 0, err
		}
	}
	p.over = true
	return p.hi, nil
}

// operand is one of the sets.
type operand struct {
	files  []*input
	sparse bool // ask it for keys, do not decode it
}

// input is one file, which the workers read in turn.
type input struct {
	mu   sync.Mutex
	it   *fpfile.Iter
	rest []uint64 // keys read, and above those taken
}

// takeKeys appends the keys up to hi to dst.
func (f *input) takeKeys(dst []uint64, hi uint64) ([]uint64, error) {
	n := notAbove(f.rest, hi)
	dst = append(dst, f.rest[:n]...)
	f.rest = f.rest[:copy(f.rest, f.rest[n:])]
	for len(f.rest) == 0 {
		begin := len(dst)
		var err error
		if dst, err = f.it.AppendBlock(dst); err == io.EOF {
			return dst, nil
		} else if err != nil {
			return dst, err
		}
		end := begin + notAbove(dst[begin:], hi)
		f.rest = append(f.rest, dst[end:]...)
		dst = dst[:end]
	}
	return dst, nil
}

// merger is one operation under way.
type merger struct {
	op     Op
	opt    Options
	first  operand   // of OpIntersect and OpDiff
	others []operand // of OpUnion all

	planning sync.Mutex
	plan     plan
	begun    int // ranges

	mu    sync.Mutex
	ended sync.Cond // a range, or all by an error
	done  int       // ranges
	dst   Dest
	err   error
}

func (m *merger) failed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err != nil
}

// endRange says that a range is done, or by what error all of it ends.
func (m *merger) endRange(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
	if m.err == nil {
		m.err = err
	}
	m.ended.Broadcast()
}

// wait returns when all ranges before n are done, or by an error; false then.
func (m *merger) wait(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.done < n && m.err == nil {
		m.ended.Wait()
	}
	return m.err == nil
}

// worker merges one range after the other, in memory of its own.
type worker struct {
	*merger
	joiner
	base []uint64 // keys of the first set
	in   []uint64 // keys of the other sets, file by file
	ends []int    // of the files' keys in the slice that is being filled
	out  []uint64
	seen []bool
}

func (w *worker) run() {
	for {
		w.planning.Lock()
		if w.plan.over || w.failed() {
			w.planning.Unlock()
			return
		}
		n := w.begun
		w.begun++
		err := w.read()
		if err == nil {
			keys := w.combine()
			if !w.wait(n) {
				return
			}
			err = w.dst.AddKeys(keys)
		}
		w.endRange(err)
	}
}

// read plans the next range and reads it. The caller has locked planning. Files are
// gone through in one order, and each is locked before the one before it is let go,
// so that ranges cannot overtake each other.
func (w *worker) read() error {
	held := &w.planning
	defer func() { held.Unlock() }()
	hi, err := w.plan.next()
	if err != nil {
		return err
	}
	each := func(o operand, use func(f *input) error) error {
		for _, f := range o.files {
			f.mu.Lock()
			held.Unlock()
			held = &f.mu
			if err := use(f); err != nil {
				return err
			}
		}
		return nil
	}
	take := func(buf *[]uint64) func(f *input) error {
		*buf, w.ends = (*buf)[:0], w.ends[:0]
		return func(f *input) (err error) {
			*buf, err = f.takeKeys(*buf, hi)
			w.ends = append(w.ends, len(*buf))
			return err
		}
	}
	if err := each(w.first, take(&w.base)); err != nil {
		return err
	}
	if len(w.first.files) > 1 {
		w.base = append(w.base[:0], w.union(cut(w.base, w.ends))...)
	}
	n := len(w.base)
	takeIn := take(&w.in)
	for _, o := range w.others {
		if !o.sparse {
			if err := each(o, takeIn); err != nil {
				return err
			}
			continue
		}
		w.seen = slices.Grow(w.seen[:0], len(w.base))[:len(w.base)]
		clear(w.seen)
		if err := each(o, func(f *input) error { return f.it.Mark(w.base, w.seen) }); err != nil {
			return err
		}
		w.base = keep(w.base, w.seen, w.op == OpIntersect)
	}
	if w.opt.Progress != nil {
		w.opt.Progress(int64(n + len(w.in)))
	}
	return nil
}

// combine makes the result of what was read.
func (w *worker) combine() []uint64 {
	runs := cut(w.in, w.ends)
	switch w.op {
	case OpUnion:
		return w.union(runs)
	case OpDiff:
		w.out = DiffKeys(w.out[:0], w.base, w.union(runs))
		return w.out
	}
	for _, o := range w.others {
		if !o.sparse {
			w.out = IntersectKeys(w.out[:0], w.base, w.union(runs[:len(o.files)]))
			w.base, w.out = w.out, w.base
			runs = runs[len(o.files):]
		}
	}
	return w.base
}

// keep removes from keys, in place, all keys with another mark than wanted.
func keep(keys []uint64, seen []bool, wanted bool) []uint64 {
	n := 0
	for i, k := range keys {
		keys[n] = k
		n += one(seen[i] == wanted)
	}
	return keys[:n]
}
