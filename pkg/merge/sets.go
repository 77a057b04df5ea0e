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
	AddKeys(keys []uint64) error // ascending strictly, and above those before; it keeps none
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

// cursor is a place in a Source.
type cursor struct {
	src  Source
	keys []uint64 // read and not yet taken
	over bool
}

// fill reads the next keys if all were taken; it leaves none at the end.
func (c *cursor) fill() error {
	if len(c.keys) > 0 || c.over {
		return nil
	}
	var err error
	if c.keys, err = c.src.Block(); err == io.EOF {
		c.keys, c.over = nil, true
		return nil
	}
	return err
}

// joiner makes unions of any number of sets, in memory of its own.
type joiner struct{ pair [2][]uint64 }

// union merges neighbours until one run is left, and returns it: valid until the
// next call. It overwrites runs, though not their keys.
func (j *joiner) union(runs [][]uint64) []uint64 {
	for len(runs) > 1 {
		j.pair[0], j.pair[1] = j.pair[1], j.pair[0]
		dst := j.pair[0][:0]
		n := 0
		for i := 0; i < len(runs); i += 2 {
			begin := len(dst)
			if i+1 < len(runs) {
				dst = UnionKeys(dst, runs[i], runs[i+1])
			} else {
				dst = append(dst, runs[i]...)
			}
			runs[n] = dst[begin:]
			n++
		}
		runs, j.pair[0] = runs[:n], dst
	}
	if len(runs) == 0 {
		return nil
	}
	return runs[0]
}

// cut returns the runs of keys that end at ends.
func cut(keys []uint64, ends []int) [][]uint64 {
	runs := make([][]uint64, len(ends))
	begin := 0
	for i, end := range ends {
		runs[i] = keys[begin:end]
		begin = end
	}
	return runs
}

// UnionOf returns the union of sources as a Source.
func UnionOf(sources ...Source) Source {
	u := &union{}
	for _, s := range sources {
		u.cursors = append(u.cursors, &cursor{src: s})
	}
	return u
}

// union merges what its cursors have read, up to where all of them have.
type union struct {
	cursors []*cursor
	joiner  joiner
	in      []uint64
	ends    []int
}

func (u *union) Block() ([]uint64, error) {
	hi := uint64(1<<64 - 1)
	left := u.cursors[:0]
	for _, c := range u.cursors {
		if err := c.fill(); err != nil {
			return nil, err
		}
		if !c.over {
			hi = min(hi, c.keys[len(c.keys)-1])
			left = append(left, c)
		}
	}
	u.cursors = left
	switch len(left) {
	case 0:
		return nil, io.EOF
	case 1:
		keys := left[0].keys
		left[0].keys = nil
		return keys, nil
	}
	u.in, u.ends = u.in[:0], u.ends[:0]
	for _, c := range left {
		n := notAbove(c.keys, hi)
		u.in = append(u.in, c.keys[:n]...)
		u.ends = append(u.ends, len(u.in))
		c.keys = c.keys[n:]
	}
	return u.joiner.union(cut(u.in, u.ends)), nil
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
		if err := dst.AddKeys(keys); err != nil {
			return err
		}
	}
}

// Union adds to dst every key that is in some source. Of sources without keys
// the union is empty, and so it is of none.
func Union(dst Dest, sources ...Source) error {
	return Copy(dst, UnionOf(sources...))
}
