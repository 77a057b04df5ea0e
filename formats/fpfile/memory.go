package fpfile

import (
	"bytes"
	"fmt"
	"math/bits"
	"unsafe"
)

// memory is a file in memory, and what makes its search quick: a table that leads
// to the block of a key; for each block a line of memory that leads to one line of its
// high part, and, by estimate, to the low bits beside it. A search waits for these two.
type memory struct {
	data   []byte
	blocks []resident // and two more, of which first is 1<<64 − 1
	first  uint64
	span   uint64 // values from first to the last fingerprint, 1<<64 − 1 left out
	// starts has, for each range of 2^shift values from first on, the number of
	// blocks that begin before it. There are as many ranges as blocks or up to twice as
	// many: one or two blocks begin in each, unless they are crowded, and then a
	// binary search finds the right one.
	starts []uint32
	shift  uint64
	one    [1]uint64 // of Contains
	some   [together]lookup
	found  [together]uint8
	at     places // to verify a block
	keys   []uint64
}

// lineSize is the unit in which memory comes, and in which the high part is
// searched. Lines are counted from the start of the file.
const lineSize = 64

// resident is what is known of a block, in one line. The bucket of a difference d is
// d>>w. Buckets 1 to inner have a zero before their ones and one after them, and are
// searched quickly. Before a block was verified inner is 0, and what follows has no
// meaning; so it is in a block that is denser than those of 2⁴⁷ random fingerprints.
type resident struct {
	first uint64
	line  int64 // the first with bytes of the high part: its place in the file
	low   int32 // of the low part: bits from the line on; less w for each bit of the line before the high part
	inner uint16
	w     uint8
	known bool // it was verified
	// ranks has the zeros of the high part before each of its lines, and all of them
	// for those that it does not have. In the first line other bytes stand before it: that
	// has minus their zeros, so that zero number z of the high part is number z − rank
	// of its line everywhere.
	ranks [maxLines + 1]uint16
}

// maxLines is what makes a resident 64 bytes.
const maxLines = 19

// lookup is a key that is looked for in a bucket from 1 to inner of a block.
type lookup struct {
	i      int // number of the key among those that are looked for
	d      uint64
	block  int
	line   int // with the zero before the bucket: its place in the file
	zero   int // which of the line's zeros that is
	before int // bits of the high part's lines before it, less the bucket: with a place in the line they give a key's number

	size int // keys in the bucket, or more than a quick search takes
	low  int // where their low bits begin: in the byte at low, or its address, at bit number bit
	bit  int
	w    int
}

// together is the number of lookups that go on at once.
const together = 16

// most is the number of keys in a bucket that is searched quickly. One in a
// hundred has more.
const most = 4

// What a search says of a key.
const (
	no      = 0
	yes     = 1
	unclear = 2 // search the block plainly
)

// OpenBytes is Open for a file that lies in memory, or is mapped into it, and does
// not change. Contains and ContainsAll then search it in place: each block is
// verified, every rule included, when it is first searched. The index takes some 70
// bytes a block, 1 % of the file.
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
	n := int(r.geo.blocks)
	m := &memory{data: data, blocks: make([]resident, n+2)}
	huge(unsafe.Slice((*byte)(unsafe.Pointer(&m.blocks[0])), len(m.blocks)*int(unsafe.Sizeof(resident{}))))
	k := 0
	for p := range r.root {
		firsts, err := r.page(int64(p))
		if err != nil {
			return err
		}
		for _, first := range firsts {
			m.blocks[k].first = first
			k++
		}
	}
	m.blocks[n].first, m.blocks[n+1].first = 1<<64-1, 1<<64-1
	if n > 0 {
		m.first = m.blocks[0].first
		m.shift = uint64(max(0, bits.Len64(r.last-m.first)-bits.Len64(uint64(n))))
		m.starts = make([]uint32, (r.last-m.first)>>m.shift+2)
		for _, b := range m.blocks[:n] {
			m.starts[(b.first-m.first)>>m.shift+1]++
		}
		for i := range m.starts[1:] {
			m.starts[i+1] += m.starts[i]
		}
		m.span = min(r.last, 1<<64-2) + 1 - m.first
	}
	r.mem = m
	return nil
}

// find returns the block of key, which lies between the first and the last
// fingerprint and is not 1<<64 − 1: the last block that does not begin above it.
func (m *memory) find(key uint64) int {
	x := (key - m.first) >> (m.shift & 63)
	// It begins in the key's range, or is the one before those.
	lo, hi := int(m.starts[x]), int(m.starts[x+1])
	for hi-lo > 2 {
		if mid := (lo + hi) / 2; m.blocks[mid].first > key {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	// One or two are left, or none; those after hi begin above key.
	return lo - 1 + notAbove(m.blocks[lo].first, key) + notAbove(m.blocks[lo+1].first, key)
}

// notAbove is 1 if first ≤ key, else 0. No branch depends on it.
func notAbove(first, key uint64) (n int) {
	if first <= key {
		n = 1
	}
	return n
}

// verify verifies block k by every rule, and keeps what a search needs.
func (r *Reader) verify(k int) error {
	m, e := r.mem, &r.mem.blocks[k]
	off, n := r.geo.block(int64(k))
	v, err := r.parse(int64(k), e.first, m.data[off:off+n])
	if err != nil {
		return err
	}
	keys, bad := v.appendKeys(m.keys[:0], &m.at)
	if bad != nil {
		return r.flawed(int64(k), bad)
	}
	m.keys = keys
	last := keys[len(keys)-1]
	end := k+1 == int(r.geo.blocks)
	if next := m.blocks[k+1].first; !end && last >= next {
		bad = &flaw{fmt.Sprintf("last fingerprint %016x", last), fmt.Sprintf("below %016x, the first of the next block", next)}
	}
	if end && last != r.last {
		bad = &flaw{fmt.Sprintf("last fingerprint %016x", last), fmt.Sprintf("%016x, as in the footer", r.last)}
	}
	if bad != nil {
		return r.flawed(int64(k), bad)
	}
	e.set(m.data[:off+n], off, &v)
	return nil
}

// set makes e that of the verified block v, which lies in data from off to the end.
func (e *resident) set(data []byte, off int64, v *block) {
	e.known = true
	zeros := func(part []byte) int { return 8*len(part) - countOnes(part) }
	end := int64(len(data))
	high := end - int64(len(v.high()))
	line := high &^ (lineSize - 1)
	all := zeros(data[high:])
	if v.w > oneLoad || all < 2 || end-line > maxLines*lineSize {
		return
	}
	e.inner, e.w, e.line = uint16(all-1), uint8(v.w), line
	e.low = int32(8*(off+blockHeader-line) - 8*(high-line)*int64(v.w))
	for i := range e.ranks {
		to := min(line+int64(i)*lineSize, end)
		e.ranks[i] = uint16(zeros(data[line:to]) - zeros(data[line:high]))
	}
}

// searchGo looks for some keys, at most together, in three steps, each for all of
// them: a step asks for the memory that the next needs, and that comes for all at once.
func (m *memory) searchGo(keys []uint64, found *[together]uint8) {
	n := 0
	for i, key := range keys {
		found[i] = unclear
		if key-m.first >= m.span {
			continue
		}
		k := m.find(key)
		e := &m.blocks[k]
		d := key - e.first
		bucket := int(d >> (e.w & 63))
		if uint(bucket-1) >= uint(e.inner) {
			continue
		}
		part := 0 // the last line with a rank below bucket
		for _, half := range [...]int{10, 5, 2, 1, 1} {
			part += half & ((int(e.ranks[part+half]) - bucket) >> (bits.UintSize - 1))
		}
		l := &m.some[n]
		l.i, l.d, l.block = i, d, k
		l.line = int(e.line) + part*lineSize
		l.zero = bucket - 1 - int(int16(e.ranks[part]))
		l.before = 8*part*lineSize - bucket
		fetch(&m.data[l.line])
		n++
	}
	for i := range m.some[:n] {
		l := &m.some[i]
		e := &m.blocks[l.block]
		line := (*[lineSize]byte)(m.data[l.line:])
		word, before, zeros := 0, 0, 0
		for at := 0; at < lineSize; at += 8 {
			zeros += 64 - bits.OnesCount64(le.Uint64(line[at:]))
			more := (zeros - l.zero - 1) >> (bits.UintSize - 1) // −1 if the zero comes after this word
			before += (zeros - before) & more
			word += 8 & more
		}
		// The bucket begins after the zero, and ends before the next.
		place := 8*word + select64(^le.Uint64(line[word&56:]), l.zero-before) + 1
		at := min(place/8, lineSize-8)
		l.size = bits.TrailingZeros64(^(le.Uint64(line[at&63:]) >> ((place - 8*at) & 63)))
		if place+l.size >= 8*lineSize {
			l.size = most + 1 // it may go on in the next line
		}
		l.w = int(e.w)
		bit := int(e.low) + (l.before+place)*l.w
		l.low, l.bit = int(e.line)+bit>>3, bit&7
		fetch(&m.data[l.low])
	}
	for i := range m.some[:n] {
		l := &m.some[i]
		if l.size > most {
			continue
		}
		is := l.has(m.data, 0) | l.has(m.data, 1)
		if l.size > 2 {
			is |= l.has(m.data, 2) | l.has(m.data, 3)
		}
		found[l.i] = is
	}
}

// has is yes if key i of the bucket is the one that is looked for. No branch
// depends on it.
func (l *lookup) has(data []byte, i int) (is uint8) {
	bit := l.bit + i*l.w
	differ := (le.Uint64(data[l.low+bit>>3:])>>(bit&7) ^ l.d) & (1<<(l.w&63) - 1)
	same, there := differ == 0, i < l.size
	if same = same && there; same {
		is = yes
	}
	return is
}

// plainly looks for key without haste, and verifies its block if that was not
// done before.
func (r *Reader) plainly(key uint64) (bool, error) {
	m := r.mem
	if r.count == 0 || key < m.first || key > r.last {
		return false, nil
	}
	k := int(r.geo.blocks) - 1 // 1<<64 − 1 could be nowhere else
	if key < m.blocks[k].first {
		k = m.find(key)
	}
	if !m.blocks[k].known {
		if err := r.verify(k); err != nil {
			return false, err
		}
	}
	off, n := r.geo.block(int64(k))
	v := view(m.data[off : off+n])
	return v.contains(key), nil
}

// searchOneGo is searchGo of one key.
func (m *memory) searchOneGo(key uint64) uint8 {
	m.one[0] = key
	m.searchGo(m.one[:], &m.found)
	return m.found[0]
}

// containsMem is Contains of a file in memory.
func (r *Reader) containsMem(key uint64) (bool, error) {
	found := r.mem.searchOne(key)
	if found == unclear {
		return r.plainly(key)
	}
	return found == yes, nil
}

// containsAllMem is ContainsAll of a file in memory.
func (r *Reader) containsAllMem(keys []uint64, seen []bool) error {
	m := r.mem
	for len(keys) > 0 {
		n := min(len(keys), together)
		m.search(keys[:n], &m.found)
		for i, found := range m.found[:n] {
			is := found == yes
			if found == unclear {
				var err error
				if is, err = r.plainly(keys[i]); err != nil {
					return err
				}
			}
			was := seen[i]
			seen[i] = was || is
		}
		keys, seen = keys[n:], seen[n:]
	}
	return nil
}
