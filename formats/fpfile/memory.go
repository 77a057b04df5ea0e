package fpfile

import (
	"bytes"
	"fmt"
	"math/bits"
	"unsafe"
)

// memory is a file in memory, and what makes its search quick: the whole index,
// a table that leads to the right entry of it, and for each block that was used
// before some ranks of its high part. A search then waits for the high part and
// for the low part of one block, and for both at once.
type memory struct {
	data   []byte
	blocks []resident
	// starts has, for each range of 2^shift values from the first fingerprint on,
	// the number of blocks that begin before it. There are as many ranges as blocks
	// or up to twice as many: one or two blocks begin in each, unless they are
	// crowded, and then a binary search finds the right one.
	starts []uint32
	shift  int
	at     places // to verify a block
	keys   []uint64
}

// resident is a block: n is 0 until it was verified.
type resident struct {
	first    uint64
	n, split uint16 // as in block
	stride   uint16 // bytes of the high part from rank to rank
	w        uint8
	ranks    [8]uint16 // zeros before byte i·stride of the high part; beyond its end, all
}

// OpenBytes is Open for a file that lies in memory, or is mapped into it, and does
// not change. Contains and ContainsAll then search it in place: each block is
// verified, every rule included, when it is first searched. The index takes 37
// bytes a block.
func OpenBytes(data []byte, name string) (*Reader, error) {
	r, err := Open(bytes.NewReader(data), int64(len(data)), name)
	if err != nil {
		return nil, err
	}
	return r, r.keep(data)
}

// Load reads the whole file into memory, after which r is as one of OpenBytes. On
// Linux it asks for huge pages.
func (r *Reader) Load() error {
	if r.mem != nil {
		return nil
	}
	data := make([]byte, r.geo.size())
	huge(data)
	for at := 0; at < len(data); at += 1 << 20 {
		if err := r.read(data[at:min(at+1<<20, len(data))], int64(at)); err != nil {
			return err
		}
	}
	return r.keep(data)
}

// keep makes r search data, which is the file.
func (r *Reader) keep(data []byte) error {
	m := &memory{data: data, blocks: make([]resident, 0, r.geo.blocks)}
	for p := range r.root {
		firsts, err := r.page(int64(p))
		if err != nil {
			return err
		}
		for _, first := range firsts {
			m.blocks = append(m.blocks, resident{first: first})
		}
	}
	if r.geo.blocks > 0 {
		m.shift = max(0, bits.Len64(r.last-r.root[0])-bits.Len64(uint64(r.geo.blocks)))
		m.starts = make([]uint32, (r.last-r.root[0])>>m.shift+2)
		for _, b := range m.blocks {
			m.starts[(b.first-r.root[0])>>m.shift+1]++
		}
		for i := range m.starts[1:] {
			m.starts[i+1] += m.starts[i]
		}
	}
	r.mem = m
	return nil
}

// span is a number of blocks: the one that may hold a key is the last of them that
// does not begin above the key, or else the one before them.
type span struct{ lo, hi uint32 }

// span leads to the block of key, which lies between the first and the last fingerprint.
func (m *memory) span(key uint64) span {
	x := (key - m.blocks[0].first) >> m.shift
	return span{m.starts[x], m.starts[x+1]}
}

// find returns the block of key.
func (m *memory) find(key uint64, s span) int {
	lo, hi := int(s.lo), int(s.hi)
	for hi-lo > 2 {
		if mid := (lo + hi) / 2; m.blocks[mid].first > key {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	// One or two are left, or none; the blocks after hi begin above key.
	last := len(m.blocks) - 1
	return lo - 1 + notAbove(m.blocks[min(lo, last)].first, key, lo <= last) + notAbove(m.blocks[min(lo+1, last)].first, key, lo < last)
}

// notAbove is 1 if first ≤ key, and such a block is, else 0. No branch depends on it.
func notAbove(first, key uint64, is bool) (n int) {
	not := first <= key
	if not = not && is; not {
		n = 1
	}
	return n
}

// use makes v block k, which it verifies if that was not done before. It does not
// return v, since copying it costs a tenth of a lookup.
func (r *Reader) use(k int, v *block) (*resident, error) {
	m := r.mem
	off, n := r.geo.block(int64(k))
	b := m.data[off : off+n]
	e := &m.blocks[k]
	if e.n == 0 {
		if err := r.verify(k, b); err != nil {
			return nil, err
		}
	}
	v.n, v.w, v.first, v.split, v.rest = int(e.n), int(e.w), e.first, int(e.split), b[blockHeader:]
	return e, nil
}

// verify verifies block k, whose bytes are b, by every rule.
func (r *Reader) verify(k int, b []byte) error {
	m, e := r.mem, &r.mem.blocks[k]
	v, err := r.parse(int64(k), e.first, b)
	if err != nil {
		return err
	}
	keys, bad := v.appendKeys(m.keys[:0], &m.at)
	if bad != nil {
		return r.flawed(int64(k), bad)
	}
	m.keys = keys
	last := keys[len(keys)-1]
	if k+1 < len(m.blocks) && last >= m.blocks[k+1].first {
		bad = &flaw{fmt.Sprintf("last fingerprint %016x", last), fmt.Sprintf("below %016x, the first of the next block", m.blocks[k+1].first)}
	}
	if k+1 == len(m.blocks) && last != r.last {
		bad = &flaw{fmt.Sprintf("last fingerprint %016x", last), fmt.Sprintf("%016x, as in the footer", r.last)}
	}
	if bad != nil {
		return r.flawed(int64(k), bad)
	}
	e.n, e.split, e.w = uint16(v.n), uint16(v.split), uint8(v.w)
	e.setRanks(v.high())
	return nil
}

func (e *resident) setRanks(high []byte) {
	parts := len(e.ranks) - 1
	stride := ((len(high)+parts-1)/parts + 7) &^ 7
	e.stride = uint16(stride)
	for i := range parts {
		part := high[min(i*stride, len(high)):min((i+1)*stride, len(high))]
		e.ranks[i+1] = e.ranks[i] + uint16(8*len(part)-countOnes(part))
	}
}

// start returns from where the bucket is looked for, and about how many
// differences lie before it. The high part has high bytes.
func (e *resident) start(bucket uint64, high int) (c cursor, about int) {
	i := 0
	for _, zeros := range e.ranks[1:] {
		i += int((int64(zeros) - int64(bucket)) >> 63 & 1)
	}
	c = cursor{i * int(e.stride), uint64(e.ranks[i])}
	about = 8*c.at - int(c.zeros)
	if i+1 < len(e.ranks) { // the part's keys lie evenly, more or less
		zeros := max(1, int(e.ranks[i+1]-e.ranks[i]))
		ones := 8*min(int(e.stride), high-c.at) - zeros
		about += int(uint32(bucket-c.zeros) * uint32(ones) / uint32(zeros))
	}
	return c, about
}

// lookup is one of the searches that go on together.
type lookup struct {
	key   uint64
	i     int // of the key among those that are looked for
	span  span
	v     block
	c     cursor
	words int // from c on that the bucket is in
}

// begin finds the block of l.key, and asks for those lines of it that will be read,
// so that they come together, and those of several lookups at once.
func (r *Reader) begin(l *lookup) error {
	e, err := r.use(r.mem.find(l.key, l.span), &l.v)
	if err != nil {
		return err
	}
	var about int
	l.c, about = e.start((l.key-l.v.first)>>(l.v.w&63), len(l.v.rest)-l.v.split)
	l.words = int(e.stride) / 8
	if end := len(l.v.rest) - 1; end >= 0 {
		high, low := l.v.split+l.c.at, about*l.v.w>>3
		fetch(&l.v.rest[min(high, end)], &l.v.rest[min(high+int(e.stride)-1, end)],
			&l.v.rest[max(0, min(low-32, end))], &l.v.rest[max(0, min(low+32, end))])
	}
	return nil
}

// finish searches the part of the high part that begin chose. It goes through all
// of it, because a branch out of the loop could not be foreseen.
func (l *lookup) finish() bool {
	v, high := &l.v, l.v.high()
	d := l.key - v.first
	bucket := int(d >> (v.w & 63))
	if d>>(v.w&63) == 0 || l.c.at+8*l.words > len(high) || !v.twoMore() {
		return v.holds(d, &l.c)
	}
	at, before, zeros := l.c.at, int(l.c.zeros), int(l.c.zeros)
	for part := high[l.c.at:][:8*l.words]; len(part) >= 8; part = part[8:] {
		n := 64 - bits.OnesCount64(le.Uint64(part))
		zeros += n
		more := (zeros - bucket) >> 63 // −1 if the bucket begins after this word
		before += n & more
		at += 8 & more
	}
	return v.bucketHas(bucket, 8*at+select64(^word(high, at), bucket-before-1)+1, d)
}

// containsMem is Contains of a file in memory.
func (r *Reader) containsMem(key uint64) (bool, error) {
	if key < r.mem.blocks[0].first {
		return false, nil
	}
	l := lookup{key: key, span: r.mem.span(key)}
	if err := r.begin(&l); err != nil {
		return false, err
	}
	return l.finish(), nil
}

// together is the number of lookups that go on at once.
const together = 16

// containsAllMem is ContainsAll of a file in memory. What each lookup needs next
// is asked for, for all of them, before the first waits for it.
func (r *Reader) containsAllMem(keys []uint64, seen []bool) error {
	m := r.mem
	first := m.blocks[0].first
	var some [together]lookup
	for i := 0; i < len(keys); {
		n := 0
		for ; i < len(keys) && n < together; i++ {
			if key := keys[i]; first <= key && key <= r.last {
				some[n].key, some[n].i, some[n].span = key, i, m.span(key)
				n++
			}
		}
		for j := range n {
			block := (*byte)(unsafe.Pointer(&m.blocks[max(1, some[j].span.lo)-1]))
			fetch(block, block, block, block)
		}
		for j := range n {
			if err := r.begin(&some[j]); err != nil {
				return err
			}
		}
		for j := range n {
			if some[j].finish() {
				seen[some[j].i] = true
			}
		}
	}
	return nil
}
