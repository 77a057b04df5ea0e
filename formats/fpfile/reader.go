package fpfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
)

// cachedPages bounds the index pages that a Reader keeps (8 KiB each); together
// they cover 256 MiB of file. They take no more than the read-ahead does.
const cachedPages = 32

// readAhead bounds what one read of an Iter fetches unless SetReadAhead says otherwise.
const readAhead = 256 << 10

// Reader reads a fingerprint file.
type Reader struct {
	in         io.ReaderAt
	name       string
	polynomial uint64
	count      uint64
	last       uint64
	geo        geometry
	root       []uint64 // first fingerprint of each index page
	pages      map[int64][]uint64
	aheadMax   int64   // slots that one read of an Iter fetches at most
	all        *sorted // of ContainsAll
}

// Open verifies the header and the trailer of a file of size bytes; name stands
// in messages. A file that is cut short is fault.Truncated, one of another kind
// fault.WrongKind, one of another version fault.Version, anything else that is
// wrong fault.Corrupt.
func Open(in io.ReaderAt, size int64, name string) (*Reader, error) {
	r := &Reader{in: in, name: name, pages: map[int64][]uint64{}, aheadMax: readAhead / BlockSize}
	head := make([]byte, min(size, headerSize))
	if err := r.read(head, 0); err != nil {
		return nil, err
	}
	if n := min(len(head), len(headMagic)); string(head[:n]) != headMagic[:n] {
		return nil, &fault.Error{Class: fault.WrongKind, File: name, Place: "byte 0", Found: "not a fingerprint file"}
	}
	if size < headerSize+footerSize {
		return nil, r.truncated(size)
	}
	if v := le.Uint32(head[8:]); v != version {
		return nil, &fault.Error{Class: fault.Version, File: name, Place: "byte 8",
			Found: fmt.Sprintf("format version %d", v), Want: fmt.Sprint(version),
			Hint: release.Reader(release.Fingerprints, uint64(v))}
	}
	if got, want := checksum(head[:28]), le.Uint32(head[28:]); got != want {
		return nil, r.corrupt("header", hex32(got), fmt.Sprintf("%08x", want))
	}
	if v := le.Uint32(head[12:]); v != 0 {
		return nil, r.corrupt("byte 12", fmt.Sprintf("reserved bytes %08x", v), "00000000")
	}
	if v := le.Uint32(head[24:]); v != 0 {
		return nil, r.corrupt("header", fmt.Sprintf("reserved bytes %08x", v), "00000000")
	}
	r.polynomial = le.Uint64(head[16:])
	return r, r.openTrailer(size)
}

// openTrailer reads the footer and the root. The sizes that the footer claims are
// compared with the file's own before anything is allocated by them.
func (r *Reader) openTrailer(size int64) error {
	at := size - footerSize
	var f [footerSize]byte
	if err := r.read(f[:], at); err != nil {
		return err
	}
	if string(f[40:]) != footMagic {
		return r.truncated(size)
	}
	place := fmt.Sprintf("footer at byte %d", at)
	if got, want := checksum(f[:36]), le.Uint32(f[36:]); got != want {
		return r.corrupt(place, hex32(got), fmt.Sprintf("%08x", want))
	}
	if v := le.Uint32(f[32:]); v != 0 {
		return r.corrupt(place, fmt.Sprintf("reserved bytes %08x", v), "00000000")
	}
	r.count, r.last = le.Uint64(f[0:]), le.Uint64(f[16:])
	blocks, lastLen := le.Uint64(f[8:]), le.Uint32(f[24:])
	if blocks > maxBlocks {
		return r.corrupt(place, fmt.Sprintf("%d blocks", blocks), fmt.Sprintf("at most %d", maxBlocks))
	}
	r.geo = geometry{int64(blocks), int64(lastLen)}
	switch {
	case blocks == 0 && (r.count != 0 || r.last != 0 || lastLen != 0):
		return r.corrupt(place, "an empty file with fingerprints", "count, last and length of the last block 0")
	case blocks > 0 && (r.count < blocks || r.count > blocks*maxKeys):
		return r.corrupt(place, fmt.Sprintf("count %d", r.count), fmt.Sprintf("%d to %d in %d blocks", blocks, blocks*maxKeys, blocks))
	case blocks > 0 && (lastLen < blockHeader || int(lastLen) > capacity(int64(blocks)-1)):
		return r.corrupt(place, fmt.Sprintf("a last block of %d bytes", lastLen), fmt.Sprintf("%d to %d", blockHeader, capacity(int64(blocks)-1)))
	}
	if want := r.geo.size(); size != want {
		return r.corrupt(place, fmt.Sprintf("%d bytes of file", size), fmt.Sprintf("%d for %d blocks", want, blocks))
	}
	off, n := r.geo.root()
	b := make([]byte, n)
	if err := r.read(b, off); err != nil {
		return err
	}
	place = fmt.Sprintf("root at byte %d", off)
	if got, want := checksum(b), le.Uint32(f[28:]); got != want {
		return r.corrupt(place, hex32(got), fmt.Sprintf("%08x", want))
	}
	r.root = words(b)
	return r.increasing(place, r.root)
}

func words(b []byte) []uint64 {
	v := make([]uint64, len(b)/8)
	for i := range v {
		v[i] = le.Uint64(b[8*i:])
	}
	return v
}

// increasing refuses first fingerprints that do not increase or are above the last of all.
func (r *Reader) increasing(place string, first []uint64) error {
	for i, k := range first {
		if k > r.last || i > 0 && k <= first[i-1] {
			return r.corrupt(place, fmt.Sprintf("entry %d is %016x", i, k), "strictly increasing entries up to the last fingerprint")
		}
	}
	return nil
}

func (r *Reader) corrupt(place, found, want string) error {
	return &fault.Error{Class: fault.Corrupt, File: r.name, Place: place, Found: found, Want: want}
}

func (r *Reader) truncated(size int64) error {
	return &fault.Error{Class: fault.Truncated, File: r.name, Place: fmt.Sprintf("byte %d", size), Found: "no trailer",
		Hint: "the file was cut short or is still being written"}
}

// read fills b from off.
func (r *Reader) read(b []byte, off int64) error {
	if n, err := r.in.ReadAt(b, off); n < len(b) {
		if errors.Is(err, io.EOF) {
			return r.truncated(off + int64(n))
		}
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

// Name is the file's, for messages.
func (r *Reader) Name() string { return r.name }

// SetReadAhead bounds the bytes that each Iter made from now on buffers, and the bytes of
// the index that the Reader keeps: 256 KiB unless set, one block at the least.
func (r *Reader) SetReadAhead(bytes int64) { r.aheadMax = max(1, bytes/BlockSize) }

// Polynomial is the polynomial that the fingerprints were made with.
func (r *Reader) Polynomial() uint64 { return r.polynomial }

// Count is the number of fingerprints.
func (r *Reader) Count() uint64 { return r.count }

// Size is the file's, in bytes.
func (r *Reader) Size() int64 { return r.geo.size() }

// Blocks is the number of blocks.
func (r *Reader) Blocks() int64 { return r.geo.blocks }

// First returns the smallest fingerprint; false if there is none.
func (r *Reader) First() (uint64, bool) {
	if r.count == 0 {
		return 0, false
	}
	return r.root[0], true
}

// Last returns the largest fingerprint; false if there is none.
func (r *Reader) Last() (uint64, bool) { return r.last, r.count > 0 }

// page returns the first fingerprints of the blocks of index page p.
func (r *Reader) page(p int64) ([]uint64, error) {
	if v, ok := r.pages[p]; ok {
		return v, nil
	}
	off, n := r.geo.page(p)
	b := make([]byte, n)
	if err := r.read(b, off); err != nil {
		return nil, err
	}
	place := fmt.Sprintf("index page %d at byte %d", p, off)
	if got, want := checksum(b[4:]), le.Uint32(b); got != want {
		return nil, r.corrupt(place, hex32(got), fmt.Sprintf("%08x", want))
	}
	if v := le.Uint32(b[4:]); v != uint32(p) {
		return nil, r.corrupt(place, fmt.Sprintf("page number %d", v), fmt.Sprint(p))
	}
	v := words(b[pageHeader:])
	if v[0] != r.root[p] {
		return nil, r.corrupt(place, fmt.Sprintf("first fingerprint %016x", v[0]), fmt.Sprintf("%016x, as in the root", r.root[p]))
	}
	if err := r.increasing(place, v); err != nil {
		return nil, err
	}
	if p+1 < int64(len(r.root)) && v[len(v)-1] >= r.root[p+1] {
		return nil, r.corrupt(place, fmt.Sprintf("last entry %016x", v[len(v)-1]), fmt.Sprintf("below %016x, as in the root", r.root[p+1]))
	}
	if int64(len(r.pages)) >= min(cachedPages, r.aheadMax) {
		clear(r.pages)
	}
	r.pages[p] = v
	return v, nil
}

// first returns the first fingerprint of block k, from the index.
func (r *Reader) first(k int64) (uint64, error) {
	v, err := r.page(k / pageBlocks)
	if err != nil {
		return 0, err
	}
	return v[k%pageBlocks], nil
}

// find returns the only block that can hold key: the last block with a first
// fingerprint not above it, or -1.
func (r *Reader) find(key uint64) (int64, error) {
	p := upper(r.root, key) - 1
	if p < 0 {
		return -1, nil
	}
	v, err := r.page(int64(p))
	if err != nil {
		return 0, err
	}
	return int64(p)*pageBlocks + int64(upper(v, key)) - 1, nil
}

// upper returns the number of values not above key.
func upper(v []uint64, key uint64) int {
	return sort.Search(len(v), func(i int) bool { return v[i] > key })
}

// parse verifies block k. b is its bytes, first its first fingerprint by the
// index.
func (r *Reader) parse(k int64, first uint64, b []byte) (block, error) {
	v, bad := parseBlock(b)
	if bad == nil && v.first != first {
		bad = &flaw{fmt.Sprintf("first fingerprint %016x", v.first), fmt.Sprintf("%016x, as in the index", first)}
	}
	return v, r.flawed(k, bad)
}

func (r *Reader) flawed(k int64, bad *flaw) error {
	if bad == nil {
		return nil
	}
	off, _ := r.geo.block(k)
	return r.corrupt(blockPlace(k, off), bad.found, bad.want)
}

// Iter reads fingerprints in ascending order.
type Iter struct {
	r      *Reader
	next   int64    // block after the one in keys
	keys   []uint64 // decoded and not yet given out
	hi     uint64   // largest fingerprint wanted
	space  []uint64 // what keys is cut from
	prev   uint64   // last of the block before, if any was read
	begun  bool
	at     places
	buf    []byte // bytes of the file from bufOff on
	off    int64
	marker *marker // of Mark
	ahead  int64   // slots to read at once: grows while reading is sequential
}

// All returns an iterator over the whole file.
func (r *Reader) All() *Iter { return &Iter{r: r, hi: r.last, ahead: 1} }

// Range returns an iterator over the fingerprints from lo to hi, both included.
func (r *Reader) Range(lo, hi uint64) (*Iter, error) {
	it := &Iter{r: r, hi: min(hi, r.last), ahead: 1}
	if lo > it.hi {
		it.next = r.geo.blocks
		return it, nil
	}
	k, err := r.find(lo)
	if err != nil {
		return nil, err
	}
	it.next = max(0, k)
	if err := it.load(); err != nil && err != io.EOF {
		return nil, err
	}
	it.keys = it.keys[lowerFrom(it.keys, lo):]
	return it, nil
}

// Reset goes back to the start of the file and keeps the buffers.
func (it *Iter) Reset() {
	it.next, it.keys, it.prev, it.begun, it.hi = 0, nil, 0, false, it.r.last
}

// load decodes the next block; io.EOF after the last.
func (it *Iter) load() error {
	keys, err := it.decode(it.space[:0])
	if err == nil {
		it.space, it.keys = keys, keys
	}
	return err
}

// decode appends the next block to dst; io.EOF after the last.
func (it *Iter) decode(dst []uint64) ([]uint64, error) {
	r := it.r
	if it.next == r.geo.blocks {
		return dst, io.EOF
	}
	k := it.next
	b, err := it.bytes(k)
	if err != nil {
		return dst, err
	}
	first, err := r.first(k)
	if err != nil {
		return dst, err
	}
	v, err := r.parse(k, first, b)
	if err != nil {
		return dst, err
	}
	all, bad := v.appendKeys(dst, &it.at)
	if bad == nil {
		bad = it.fits(k, all[len(dst):])
	}
	if bad != nil {
		return dst, r.flawed(k, bad)
	}
	it.prev, it.begun = all[len(all)-1], true
	it.next++
	if it.prev > it.hi {
		all = all[:len(dst)+upper(all[len(dst):], it.hi)]
		it.next = r.geo.blocks
		if len(all) == len(dst) {
			return all, io.EOF
		}
	}
	return all, nil
}

// fits compares a block with its neighbours: the one read before it, and the last
// fingerprint that the footer names.
func (it *Iter) fits(k int64, keys []uint64) *flaw {
	last := keys[len(keys)-1]
	if it.begun && keys[0] <= it.prev {
		return &flaw{fmt.Sprintf("first fingerprint %016x", keys[0]), fmt.Sprintf("above %016x, the last of a block before", it.prev)}
	}
	if end := k == it.r.geo.blocks-1; end && last != it.r.last || last > it.r.last {
		return &flaw{fmt.Sprintf("last fingerprint %016x", last), fmt.Sprintf("%016x, as in the footer", it.r.last)}
	}
	return nil
}

// bytes returns the encoded block k.
func (it *Iter) bytes(k int64) ([]byte, error) {
	off, n := it.r.geo.block(k)
	if off < it.off || off+n > it.off+int64(len(it.buf)) {
		if off != it.off+int64(len(it.buf)) {
			it.ahead = 1 // a jump: the blocks between were not wanted
		}
		end := min((off/BlockSize+it.ahead)*BlockSize, it.r.geo.dataEnd())
		want := end - off
		it.buf = slices.Grow(it.buf[:0], int(want))[:want]
		if err := it.r.read(it.buf, off); err != nil {
			it.buf = it.buf[:0]
			return nil, err
		}
		it.off = off
		it.ahead = min(2*it.ahead, it.r.aheadMax)
	}
	return it.buf[off-it.off:][:n], nil
}

// Next returns the next fingerprint; io.EOF after the last.
func (it *Iter) Next() (uint64, error) {
	if len(it.keys) == 0 {
		if err := it.load(); err != nil {
			return 0, err
		}
	}
	k := it.keys[0]
	it.keys = it.keys[1:]
	return k, nil
}

// Block returns all fingerprints that remain of the current block, or else those
// of the next; io.EOF after the last. They are valid until the next call.
func (it *Iter) Block() ([]uint64, error) {
	if len(it.keys) == 0 {
		if err := it.load(); err != nil {
			return nil, err
		}
	}
	keys := it.keys
	it.keys = nil
	return keys, nil
}

// AppendBlock is Block, but appends to dst.
func (it *Iter) AppendBlock(dst []uint64) ([]uint64, error) {
	if len(it.keys) == 0 {
		return it.decode(dst)
	}
	dst = append(dst, it.keys...)
	it.keys, it.space = nil, nil // the next blocks take no room here
	return dst, nil
}

// upperFrom returns the number of values not above key. Like lowerFrom, it gallops.
func upperFrom(v []uint64, key uint64) int {
	if key == 1<<64-1 {
		return len(v)
	}
	return lowerFrom(v, key+1)
}

// lowerFrom returns the number of values below key. It gallops from the start,
// because keys that are sought in order lie close together.
func lowerFrom(v []uint64, key uint64) int {
	step := 1
	for step < len(v) && v[step-1] < key {
		step *= 2
	}
	lo := step / 2
	n, _ := slices.BinarySearch(v[lo:min(step, len(v))], key)
	return lo + n
}

// Check reads the whole file, the index included, and verifies every rule of
// SPEC.md that Open does not. progress, which may be nil, is called with the
// bytes of each block.
func (r *Reader) Check(progress func(bytes int64)) error {
	it := r.All()
	var n uint64
	for {
		k := it.next
		keys, err := it.Block()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		n += uint64(len(keys))
		if progress != nil {
			_, length := r.geo.block(k)
			progress(length)
		}
	}
	if n != r.count {
		return r.corrupt("footer", fmt.Sprintf("count %d", r.count), fmt.Sprintf("%d, as the blocks hold", n))
	}
	return nil
}
