package bloom

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"mercator/pkg/base/fault"
)

// Reader reads a filter.
type Reader struct {
	Header
	in     io.ReaderAt
	name   string
	number int64 // of the page in memory; -1: none
	page   []byte
	asked  []asked
}

type asked struct {
	place uint64
	at    int // in the question
}

// Open verifies the header of a file of size bytes; name stands in messages. A
// file that is cut short is fault.Truncated, one of another kind fault.WrongKind, one
// of another version fault.Version, anything else that is wrong fault.Corrupt.
func Open(in io.ReaderAt, size int64, name string) (*Reader, error) {
	b := make([]byte, min(size, headerSize))
	if _, err := in.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	h, err := decodeHeader(b, size, name)
	if err != nil {
		return nil, err
	}
	return &Reader{Header: h, in: in, name: name, number: -1, page: make([]byte, PageSize)}, nil
}

// load makes page k the one in memory.
func (r *Reader) load(k int64) error {
	if k == r.number {
		return nil
	}
	r.number = -1
	off := headerSize + k*PageSize
	if _, err := r.in.ReadAt(r.page, off); err != nil {
		if errors.Is(err, io.EOF) {
			return truncated(r.name, off, fmt.Sprintf("page %d", k))
		}
		return fmt.Errorf("%s: %w", r.name, err)
	}
	corrupt := func(found, want string) error {
		return &fault.Error{Class: fault.Corrupt, File: r.name, Place: fmt.Sprintf("page %d at byte %d", k, off), Found: found, Want: want}
	}
	if got, want := checksum(r.page[:sumAt]), le.Uint32(r.page[sumAt:]); got != want {
		return corrupt(fmt.Sprintf("checksum %08x", got), fmt.Sprintf("%08x", want))
	}
	if n := le.Uint64(r.page[numberAt:]); n != uint64(k) {
		return corrupt(fmt.Sprintf("page number %d", n), fmt.Sprint(k))
	}
	for _, b := range r.page[pageBlocks*blockBytes : onesAt] {
		if b != 0 {
			return corrupt("bits outside of the blocks", "zero bytes")
		}
	}
	r.number = k
	return nil
}

// block returns a block, from the page in memory or by one read.
func (r *Reader) block(block int64) ([]byte, error) {
	if err := r.load(block / pageBlocks); err != nil {
		return nil, err
	}
	return r.page[block%pageBlocks*blockBytes:][:blockBytes], nil
}

// ContainsAll sets seen[i] where keys[i] was added, or seems to have been. Keys may
// come in any order. Each page that is asked for is read once.
func (r *Reader) ContainsAll(keys []uint64, seen []bool) error {
	r.asked = r.asked[:0]
	for i, key := range keys {
		r.asked = append(r.asked, asked{Place(key), i})
	}
	slices.SortFunc(r.asked, func(a, b asked) int { return cmp.Compare(a.place, b.place) })
	for _, a := range r.asked {
		block, which := locate(a.place, r.Pages*pageBlocks)
		b, err := r.block(block)
		if err != nil {
			return err
		}
		if has(b, which) {
			seen[a.at] = true
		}
	}
	return nil
}

// Check reads all pages, and verifies every rule of the format. progress, which may
// be nil, gets the bytes read.
func (r *Reader) Check(progress func(bytes int64)) error {
	var c count
	for k := range r.Pages {
		if err := r.load(k); err != nil {
			return err
		}
		before := c.ones
		c.addPage(r.page)
		if ones := le.Uint64(r.page[onesAt:]); ones != c.ones-before {
			return &fault.Error{Class: fault.Corrupt, File: r.name, Place: fmt.Sprintf("page %d", k), Found: fmt.Sprintf("%d bits set", c.ones-before), Want: fmt.Sprint(ones)}
		}
		if progress != nil {
			progress(PageSize)
		}
	}
	if c.ones != r.Ones || c.rate(r.Pages) != r.Rate {
		return &fault.Error{Class: fault.Corrupt, File: r.name, Place: "header", Found: fmt.Sprintf("%d bits, rate %g", r.Ones, r.Rate),
			Want: fmt.Sprintf("%d and %g, as counted", c.ones, c.rate(r.Pages))}
	}
	return nil
}

// count has the header's counts of bits.
type count struct {
	ones   uint64
	blocks [blockBits + 1]uint64 // by the number of their bits
}

func (c *count) addPage(page []byte) {
	for i := range pageBlocks {
		n := 0
		for b := page[i*blockBytes:][:blockBytes]; len(b) > 0; b = b[8:] {
			n += bits.OnesCount64(le.Uint64(b))
		}
		c.ones += uint64(n)
		c.blocks[n]++
	}
}

// rate is the mean of (bits ÷ 512)⁷ over all blocks: in whole numbers up to the last
// division, so that every machine counts the same.
func (c *count) rate(pages int64) float64 {
	var high, low uint64 // the sum of bits⁷
	for n, blocks := range c.blocks {
		power := uint64(1)
		for range Bits {
			power *= uint64(n) // 512⁷ = 2⁶³
		}
		h, l := bits.Mul64(power, blocks)
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry)
	}
	return (float64(high)*(1<<64) + float64(low)) / (float64(pages*pageBlocks) * (1 << 63))
}

// Output is a file being written.
type Output interface {
	io.Writer
	io.WriterAt
}

// Write writes to out the filter of old, or an empty one with that number of pages where old
// is nil, with more fingerprints: next returns their places (see Place), ascending, until
// io.EOF. The fingerprints were made with polynomial.
func Write(out Output, polynomial uint64, pages int64, old *Reader, next func() (place uint64, err error)) (Header, error) {
	h := Header{Polynomial: polynomial, Pages: pages}
	if old != nil {
		h = old.Header
	}
	h.Ones = 0
	if _, err := out.Write(make([]byte, headerSize)); err != nil {
		return h, err
	}
	var c count
	page := make([]byte, PageSize)
	place, end := next()
	for k := range h.Pages {
		clear(page)
		if old != nil {
			if err := old.load(k); err != nil {
				return h, err
			}
			copy(page, old.page[:pageBlocks*blockBytes])
		}
		for ; end == nil; place, end = next() {
			block, which := locate(place, h.Pages*pageBlocks)
			if block/pageBlocks < k {
				return h, fmt.Errorf("bloom: place %016x comes behind a larger one", place)
			}
			if block/pageBlocks > k {
				break
			}
			set(page[block%pageBlocks*blockBytes:][:blockBytes], which)
			h.Keys++
		}
		if end != nil && end != io.EOF {
			return h, end
		}
		before := c.ones
		c.addPage(page)
		le.PutUint64(page[onesAt:], c.ones-before)
		le.PutUint64(page[numberAt:], uint64(k))
		le.PutUint32(page[sumAt:], checksum(page[:sumAt]))
		if _, err := out.Write(page); err != nil {
			return h, err
		}
	}
	h.Ones, h.Rate = c.ones, c.rate(h.Pages)
	_, err := out.WriteAt(h.encode(), 0)
	return h, err
}
