package fpfile

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// joinGap is how many slots between two wanted ones are read with them rather
	// than skipped: a read of its own costs as much, from memory or from a disk.
	joinGap = 4
	// parallelReads bounds the reads of Mark and ContainsAll under way at once.
	parallelReads = 16
	// denseBy: a block is decoded for keys that are at least one to this many of its
	// own, and otherwise searched for each.
	denseBy = 2
)

// Mark sets seen[i] for each keys[i] that is in the file, and clears none. Keys
// must ascend. Blocks that cannot hold one of them are not read, and the others
// are searched as they are encoded; reading goes on meanwhile, so that Mark holds
// two buffers of the size of SetReadAhead. It does not move the iterator.
func (it *Iter) Mark(keys []uint64, seen []bool) error {
	if it.marker == nil {
		it.marker = &marker{r: it.r}
	}
	return it.marker.mark(keys, seen)
}

// ContainsAll sets seen[i] for each keys[i] that is in the file, and clears none.
// Keys may come in any order. Each block that may hold one is read once, several at
// a time.
func (r *Reader) ContainsAll(keys []uint64, seen []bool) error {
	if r.count == 0 {
		return nil
	}
	if r.all == nil {
		r.all = &sorted{marker: marker{r: r}}
	}
	for len(keys) > 0 {
		n := min(len(keys), sortAtMost)
		if err := r.all.mark(keys[:n], seen[:n]); err != nil {
			return err
		}
		keys, seen = keys[n:], seen[n:]
	}
	return nil
}

// sortAtMost bounds the keys that ContainsAll sorts: they take 1.6 MB.
const sortAtMost = 1 << 16

// sorted marks keys of any order by those that are sorted.
type sorted struct {
	marker
	order []int
	keys  []uint64
	seen  []bool
}

func (s *sorted) mark(keys []uint64, seen []bool) error {
	s.order, s.keys = grow(s.order[:0], len(keys)), grow(s.keys[:0], len(keys))
	s.seen = grow(s.seen[:0], len(keys))
	clear(s.seen)
	for i := range s.order {
		s.order[i] = i
	}
	slices.SortFunc(s.order, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	for i, j := range s.order {
		s.keys[i] = keys[j]
	}
	err := s.marker.mark(s.keys, s.seen)
	for i, j := range s.order {
		seen[j] = seen[j] || s.seen[i]
	}
	return err
}

// marker tests ascending keys in windows of the file: while one is searched, the
// next is read.
type marker struct {
	r       *Reader
	windows [2]window
	at      places
	block   []uint64 // a decoded one

	page   int64 // index page in firsts
	firsts []uint64
	entry  int // of firsts, where the next key is looked for
}

// window is a part of the file: blocks that some of the keys may be in.
type window struct {
	hits  []hit
	reads []extent
	buf   []byte
}

// hit says that keys lo to hi−1 may be in block k. first is its first fingerprint by
// the index, buf[at:end] its bytes.
type hit struct {
	k       int64
	first   uint64
	lo, hi  int
	at, end int
}

// extent is read at once, from byte off of the file to buf[at:end].
type extent struct {
	off     int64
	at, end int
}

func (m *marker) mark(keys []uint64, seen []bool) error {
	first, ok := m.r.First()
	if !ok {
		return nil
	}
	keys = keys[:upper(keys, m.r.last)]
	now, then := &m.windows[0], &m.windows[1]
	next, err := m.plan(now, keys, lowerFrom(keys, first))
	if err == nil {
		err = now.read(m.r)
	}
	for err == nil && len(now.hits) > 0 {
		if next, err = m.plan(then, keys, next); err != nil {
			break
		}
		if len(then.hits) == 0 {
			return m.search(now, keys, seen)
		}
		read := make(chan error, 1)
		go func() { read <- then.read(m.r) }()
		err = m.search(now, keys, seen)
		if readErr := <-read; err == nil {
			err = readErr
		}
		now, then = then, now
	}
	return err
}

// plan makes w the blocks that keys[from:] may be in, as many as a window holds,
// and returns the number of the first key after them.
func (m *marker) plan(w *window, keys []uint64, from int) (int, error) {
	w.hits, w.reads = w.hits[:0], w.reads[:0]
	for from < len(keys) {
		k, first, err := m.find(keys[from])
		if err != nil {
			return 0, err
		}
		off, n := m.r.geo.block(k)
		at, ok := w.addRead(off, int(n), int(m.r.aheadMax*BlockSize))
		if !ok {
			break
		}
		hi := len(keys)
		if end, ok := m.nextFirst(); ok {
			hi = from + lowerFrom(keys[from:], end)
		}
		w.hits = append(w.hits, hit{k, first, from, hi, at, at + int(n)})
		from = hi
	}
	return from, nil
}

// find returns the block that may hold key, which is not below the file's first
// nor the key asked for before in the same batch, and the block's first.
func (m *marker) find(key uint64) (k int64, first uint64, err error) {
	root := m.r.root
	if m.firsts == nil || key < m.firsts[0] || m.page+1 < int64(len(root)) && key >= root[m.page+1] {
		m.page, m.entry = int64(upper(root, key)-1), 0
		if m.firsts, err = m.r.page(m.page); err != nil {
			return 0, 0, err
		}
	}
	if key < m.firsts[m.entry] {
		m.entry = 0
	}
	m.entry += upperFrom(m.firsts[m.entry:], key) - 1
	return m.page*pageBlocks + int64(m.entry), m.firsts[m.entry], nil
}

// nextFirst is the first fingerprint after the block that find returned; false after
// the last block.
func (m *marker) nextFirst() (uint64, bool) {
	switch {
	case m.entry+1 < len(m.firsts):
		return m.firsts[m.entry+1], true
	case m.page+1 < int64(len(m.r.root)):
		return m.r.root[m.page+1], true
	}
	return 0, false
}

// addRead makes room for n bytes from off on, which is not below those taken before,
// and returns their place in the buffer; false if they do not go into room bytes.
func (w *window) addRead(off int64, n, room int) (at int, ok bool) {
	if last := len(w.reads) - 1; last >= 0 {
		e := &w.reads[last]
		at = e.end
		if gap := off - e.off - int64(e.end-e.at); gap <= joinGap*BlockSize {
			at += int(gap)
			if at+n > room {
				return 0, false
			}
			e.end = at + n
			return at, true
		}
		if at+n > room {
			return 0, false
		}
	}
	w.reads = append(w.reads, extent{off, at, at + n})
	return at, true
}

// read reads the window, many extents at a time.
func (w *window) read(r *Reader) error {
	if len(w.reads) == 0 {
		return nil
	}
	w.buf = grow(w.buf[:0], w.reads[len(w.reads)-1].end)
	if len(w.reads) == 1 {
		return r.read(w.buf, w.reads[0].off)
	}
	var next atomic.Int64
	errs := make([]error, len(w.reads))
	var readers sync.WaitGroup
	for range min(parallelReads, len(w.reads)) {
		readers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(w.reads); i = int(next.Add(1)) - 1 {
				e := w.reads[i]
				errs[i] = r.read(w.buf[e.at:e.end], e.off)
			}
		})
	}
	readers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// search tests the keys of a window that has been read.
func (m *marker) search(w *window, keys []uint64, seen []bool) error {
	for _, h := range w.hits {
		v, err := m.r.parse(h.k, h.first, w.buf[h.at:h.end])
		if err != nil {
			return err
		}
		keys, seen := keys[h.lo:h.hi], seen[h.lo:h.hi]
		if denseBy*len(keys) < v.n {
			v.mark(keys, seen, &m.at)
			continue
		}
		block, bad := v.appendKeys(m.block[:0], &m.at)
		if bad != nil {
			return m.r.flawed(h.k, bad)
		}
		m.block = block
		markBoth(keys, block, seen)
	}
	return nil
}

// markBoth sets seen[i] for each keys[i] that is in block; both ascend. It has no
// branches that depend on them.
func markBoth(keys, block []uint64, seen []bool) {
	for i, j := 0, 0; i < len(keys) && j < len(block) && i < len(seen); {
		a, b := keys[i], block[j]
		seen[i] = seen[i] || a == b
		up, down := 0, 0
		if a <= b {
			up = 1
		}
		if b < a {
			down = 1
		}
		i, j = i+up, j+down
	}
}
