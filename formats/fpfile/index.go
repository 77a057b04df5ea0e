package fpfile

import "io"

// Index gives the first fingerprint of each block in order, without reading the
// blocks. It keeps one page of 8 KiB, and may be used beside its Reader.
type Index struct {
	r    Reader // a copy with pages of its own
	next int64
}

// Index returns an Index that stands before the first block.
func (r *Reader) Index() *Index {
	x := &Index{r: *r}
	x.r.pages = map[int64][]uint64{}
	return x
}

// Next returns the first fingerprint of the next block; io.EOF after the last.
func (x *Index) Next() (uint64, error) {
	if x.next == x.r.geo.blocks {
		return 0, io.EOF
	}
	if x.next%pageBlocks == 0 {
		clear(x.r.pages)
	}
	first, err := x.r.first(x.next)
	x.next++
	return first, err
}

// Seek moves to the block that holds key if any does; its first fingerprint
// comes next.
func (x *Index) Seek(key uint64) error {
	k, err := x.r.find(key)
	x.next = max(0, k)
	return err
}
