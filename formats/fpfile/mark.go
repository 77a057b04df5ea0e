package fpfile

import "io"

// Mark sets seen[i] for each keys[i] that is in the file, and clears none. Keys
// must ascend within a call and from call to call. Blocks that cannot hold one of
// them are not read.
func (it *Iter) Mark(keys []uint64, seen []bool) error {
	for i, k := range keys {
		ok, err := it.Seek(k)
		if err != nil {
			return err
		}
		if ok {
			seen[i] = true
		}
	}
	return nil
}

// ContainsAll sets seen[i] for each keys[i] that is in the file, and clears none.
// Keys may come in any order.
func (r *Reader) ContainsAll(keys []uint64, seen []bool) error {
	for i, k := range keys {
		ok, err := r.Contains(k)
		if err != nil {
			return err
		}
		if ok {
			seen[i] = true
		}
	}
	return nil
}

// AppendRange appends the fingerprints from lo to hi, both included, to dst.
func (r *Reader) AppendRange(dst []uint64, lo, hi uint64) ([]uint64, error) {
	it, err := r.Range(lo, hi)
	if err != nil {
		return dst, err
	}
	for {
		keys, err := it.Block()
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		dst = append(dst, keys...)
	}
}
