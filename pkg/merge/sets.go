package merge

import "io"

// Source gives the fingerprints of a set in ascending order, some at a time.
// *fpfile.Iter is one.
type Source interface {
	// Block returns at least one fingerprint, or io.EOF after the last. They
	// are valid until the next call.
	Block() ([]uint64, error)
}

// Dest takes fingerprints in ascending order. *fpfile.Writer is one.
type Dest interface {
	Add(key uint64) error
}

// Keys returns keys, which must ascend strictly, as a Source.
func Keys(keys []uint64) Source { return &memory{keys} }

type memory struct{ keys []uint64 }

func (m *memory) Block() ([]uint64, error) {
	if len(m.keys) == 0 {
		return nil, io.EOF
	}
	keys := m.keys
	m.keys = nil
	return keys, nil
}

// cursor reads a Source one key at a time.
type cursor struct {
	src  Source
	keys []uint64 // not yet used; empty only at the end
}

// open reads the first block.
func open(src Source) (*cursor, error) {
	c := &cursor{src: src}
	return c, c.fill()
}

func openAll(sources []Source) ([]*cursor, error) {
	var all []*cursor
	for _, s := range sources {
		c, err := open(s)
		if err != nil {
			return nil, err
		}
		if !c.done() {
			all = append(all, c)
		}
	}
	return all, nil
}

func (c *cursor) done() bool { return len(c.keys) == 0 }

func (c *cursor) fill() error {
	keys, err := c.src.Block()
	if err == io.EOF {
		keys, err = nil, nil
	}
	c.keys = keys
	return err
}

// skip uses up n keys of the block.
func (c *cursor) skip(n int) error {
	c.keys = c.keys[n:]
	if len(c.keys) == 0 {
		return c.fill()
	}
	return nil
}

// seek uses up the keys below key.
func (c *cursor) seek(key uint64) error {
	for !c.done() && c.keys[len(c.keys)-1] < key {
		if err := c.fill(); err != nil {
			return err
		}
	}
	if c.done() {
		return nil
	}
	return c.skip(below(c.keys, key))
}

// UnionOf returns the union of sources as a Source.
func UnionOf(sources ...Source) (Source, error) {
	cursors, err := openAll(sources)
	if err != nil {
		return nil, err
	}
	u := &union{heap: cursors}
	for i := len(cursors)/2 - 1; i >= 0; i-- {
		u.down(i)
	}
	return u, nil
}

// union merges with a heap ordered by each cursor's first key.
type union struct {
	heap []*cursor
	out  []uint64
	last uint64 // of what was given out, if begun
	any  bool
}

// unionBlock is the number of keys that a union gives out at a time.
const unionBlock = 4096

func (u *union) down(i int) {
	for {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(u.heap) && u.heap[c].keys[0] < u.heap[least].keys[0] {
				least = c
			}
		}
		if least == i {
			return
		}
		u.heap[i], u.heap[least] = u.heap[least], u.heap[i]
		i = least
	}
}

// second returns the least first key of the other cursors; false if there are none.
func (u *union) second() (uint64, bool) {
	switch len(u.heap) {
	case 1:
		return 0, false
	case 2:
		return u.heap[1].keys[0], true
	}
	return min(u.heap[1].keys[0], u.heap[2].keys[0]), true
}

func (u *union) Block() ([]uint64, error) {
	u.out = u.out[:0]
	for len(u.out) < unionBlock && len(u.heap) > 0 {
		top := u.heap[0]
		n := min(len(top.keys), unionBlock-len(u.out))
		if limit, ok := u.second(); ok {
			// At least the first key, which may equal that of another.
			n = max(1, below(top.keys[:n], limit))
		}
		keys := top.keys[:n]
		if u.any && keys[0] == u.last {
			keys = keys[1:]
		}
		u.out = append(u.out, keys...)
		u.last, u.any = top.keys[n-1], true
		if err := top.skip(n); err != nil {
			return nil, err
		}
		if top.done() {
			end := len(u.heap) - 1
			u.heap[0] = u.heap[end]
			u.heap = u.heap[:end]
		}
		u.down(0)
	}
	if len(u.out) == 0 {
		return nil, io.EOF
	}
	return u.out, nil
}

// Copy adds all of src to dst.
func Copy(dst Dest, src Source) error {
	for {
		keys, err := src.Block()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := dst.Add(k); err != nil {
				return err
			}
		}
	}
}

// Union adds to dst every key that is in some source. Of sources without keys
// the union is empty, and so it is of none.
func Union(dst Dest, sources ...Source) error {
	u, err := UnionOf(sources...)
	if err != nil {
		return err
	}
	return Copy(dst, u)
}

// Intersect adds to dst the keys that are in every source. It needs one at least.
func Intersect(dst Dest, sources ...Source) error {
	cursors, err := openAll(sources)
	if err != nil || len(cursors) < len(sources) || len(cursors) == 0 {
		return err // an empty source
	}
	// Leapfrog: each cursor in turn jumps to the largest key seen; when all
	// stand on it, it is in all.
	key, agreed := cursors[0].keys[0], 0
	for i := 0; ; i = (i + 1) % len(cursors) {
		c := cursors[i]
		if err := c.seek(key); err != nil {
			return err
		}
		if c.done() {
			return nil
		}
		if c.keys[0] > key {
			key, agreed = c.keys[0], 0
		}
		if agreed++; agreed < len(cursors) {
			continue
		}
		if err := dst.Add(key); err != nil {
			return err
		}
		if err := c.skip(1); err != nil {
			return err
		}
		if c.done() {
			return nil
		}
		key, agreed = c.keys[0], 1
	}
}

// Diff adds to dst the keys of from that are in none of the others.
func Diff(dst Dest, from Source, others ...Source) error {
	o, err := UnionOf(others...)
	if err != nil {
		return err
	}
	without, err := open(o)
	if err != nil {
		return err
	}
	c, err := open(from)
	for ; err == nil && !c.done(); err = c.skip(1) {
		key := c.keys[0]
		if err := without.seek(key); err != nil {
			return err
		}
		if !without.done() && without.keys[0] == key {
			continue
		}
		if err := dst.Add(key); err != nil {
			return err
		}
	}
	return err
}
