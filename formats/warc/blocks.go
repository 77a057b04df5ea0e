package warc

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// This file writes blocks of DEFLATE (RFC 1951). It searches for bytes that stood before, as LZ77 does, makes Huffman
// codes for each block, and writes bits.

const (
	matchMin    = 4 // shorter ones are not looked for
	matchMax    = 258
	distanceMax = 32 << 10
	seenBits    = 14 // the table takes 32 KiB: the fastest cache holds it
	literals    = 286
	endOfBlock  = 256
	distances   = 30
	codeMax     = 14 // bits of a code; DEFLATE has 15, but four of these fit beside what a bitWriter holds
	slack       = 16 // a copy, a read or a write may go so many bytes beyond its end
)

// deflater is the memory that compressing takes. What it holds of one record changes nothing in the next.
type deflater struct {
	seen      [1 << seenBits]uint16 // the position where a hash was met last, its low 16 bits
	sequences []sequence            // of a block
	plain     [storedMax + slack]byte
	plainLen  int
	literal   [literals]uint32 // how often each symbol stands in the block
	distance  [distances]uint32
	codes     codes
}

// sequence is some plain bytes, and then a match: bytes that stood distance bytes before, too.
type sequence struct{ plain, match, distance uint16 }

// slotOf is where five bytes of v are entered in seen.
func slotOf(v uint64) uint64 { return v << 24 * 0x9e3779b97f4a7c15 >> (64 - seenBits) }

// search makes sequences of src[begin:end], which is no longer than storedMax. Matches may lie before that.
func (d *deflater) search(src []byte, begin, end int) {
	src = src[:end]
	d.sequences, d.plainLen = d.sequences[:0], 0
	next := begin       // what is before is in sequences
	at := max(begin, 1) // a slot that is empty leads to 0
	last := end - slack // behind this there are no matches
	for at <= last {
		v := binary.LittleEndian.Uint64(src[at:])
		from, found := d.find(src, v, at)
		if !found { // the next but one; more is left out where nothing was found for long
			if at += 2 + (at-next)>>5; at > last {
				break
			}
			v = binary.LittleEndian.Uint64(src[at:])
			if from, found = d.find(src, v, at); !found {
				at++
				continue
			}
		}
		for found {
			a, b, differ := at+matchMin, from+matchMin, uint64(0)
			for a+8 <= end {
				if differ = binary.LittleEndian.Uint64(src[a:]) ^ binary.LittleEndian.Uint64(src[b:]); differ != 0 {
					break
				}
				a += 8
				b += 8
			}
			if differ != 0 {
				a += bits.TrailingZeros64(differ) >> 3
			} else {
				for a < end && src[a] == src[b] {
					a++
					b++
				}
			}
			distance := at - from
			for from > 0 && at > next && src[from-1] == src[at-1] {
				from--
				at--
			}
			d.add(src, next, at, a-at, distance)
			at, next = a, a
			if at > last {
				break
			}
			v = binary.LittleEndian.Uint64(src[at-2:])
			d.seen[slotOf(v)] = uint16(at - 2)
			if from, found = d.find(src, v>>16, at); !found {
				at++
			}
		}
	}
	if next < end {
		d.plainLen += copy(d.plain[d.plainLen:], src[next:])
		d.sequences = append(d.sequences, sequence{plain: uint16(end - next)})
	}
}

// find enters at, where the bytes v stand, and says where four of them stood before.
func (d *deflater) find(src []byte, v uint64, at int) (from int, found bool) {
	slot := &d.seen[slotOf(v)]
	from = at - int(uint16(at)-*slot) // not below 0: what is empty, and what is of this record, is at most at
	*slot = uint16(at)
	return from, uint32(v) == binary.LittleEndian.Uint32(src[from:]) && uint(at-from-1) < distanceMax
}

// add appends a sequence: what is plain is src[next:at].
func (d *deflater) add(src []byte, next, at, match, distance int) {
	n := at - next
	if n <= slack {
		*(*[slack]byte)(d.plain[d.plainLen:]) = [slack]byte(src[next:])
	} else {
		copy(d.plain[d.plainLen:], src[next:at])
	}
	d.plainLen += n
	d.sequences = append(d.sequences, sequence{uint16(n), uint16(match), uint16(distance)})
}

// part is how much of a match of n bytes the next code stands for.
func part(n int) int {
	if n > matchMax && n < matchMax+3 {
		return matchMax - 3 // else less than 3 would be left
	}
	return min(n, matchMax)
}

// count counts the symbols of the sequences.
func (d *deflater) count() {
	var seen [4][256]uint32 // four, since adding twice to one place in a row takes time
	plain := d.plain[:d.plainLen]
	for ; len(plain) >= 4; plain = plain[4:] {
		seen[0][plain[0]]++
		seen[1][plain[1]]++
		seen[2][plain[2]]++
		seen[3][plain[3]]++
	}
	for _, c := range plain {
		seen[0][c]++
	}
	for c := range seen[0] {
		d.literal[c] = seen[0][c] + seen[1][c] + seen[2][c] + seen[3][c]
	}
	clear(d.literal[endOfBlock:])
	clear(d.distance[:])
	d.literal[endOfBlock] = 1
	for i := range d.sequences {
		s := &d.sequences[i]
		symbol, _ := distanceOf(s.distance)
		for left := int(s.match); left > 0; {
			n := part(left)
			d.literal[lengths[n].symbol]++
			d.distance[symbol]++
			left -= n
		}
	}
	if d.distance == [distances]uint32{} {
		d.distance[0] = 1 // a code there must be
	}
}

// bitCode is at most 24 bits, the first one lowest, and above them how many they are.
type bitCode uint32

func codeOf(bits uint32, n uint8) bitCode { return bitCode(bits | uint32(n)<<24) }

func (c bitCode) bits() uint64 { return uint64(c & (1<<24 - 1)) }
func (c bitCode) n() uint      { return uint(c >> 24) }

// lengths are of each length of a match the symbol and the extra bits (section 3.2.5).
var lengths [matchMax + 1]struct {
	symbol uint16
	extra  bitCode
}

// distanceOf returns the symbol of a distance and its extra bits.
func distanceOf(distance uint16) (symbol uint16, extra bitCode) {
	d := distance - 1
	if d < 4 {
		return d, 0
	}
	n := uint16(bits.Len16(d)) - 2
	return 2*n + d>>n, codeOf(uint32(d&(1<<n-1)), uint8(n))
}

// codes are the codes of a block.
type codes struct {
	literal  [literals + 2]bitCode // bytes, the end, lengths without extra bits; two are never used
	length   [matchMax + 1]bitCode // with extra bits
	distance [distances + 2]bitCode
}

// fixedCodes are those of section 3.2.6.
var fixedCodes codes

func init() {
	n := 3
	for s := 257; s < 285; s++ {
		extra := max(0, (s-257)/4-1)
		for i := range 1 << extra {
			lengths[n].symbol, lengths[n].extra = uint16(s), codeOf(uint32(i), uint8(extra))
			n++
		}
	}
	lengths[matchMax].symbol, lengths[matchMax].extra = 285, 0
	literal := slices.Concat(slices.Repeat([]uint8{8}, 144), slices.Repeat([]uint8{9}, 112), slices.Repeat([]uint8{7}, 24), slices.Repeat([]uint8{8}, 8))
	fixedCodes.set(literal, slices.Repeat([]uint8{5}, distances+2))
}

// set makes codes of their lengths (section 3.2.2).
func (c *codes) set(literal, distance []uint8) {
	assign(c.literal[:], literal)
	assign(c.distance[:], distance)
	for n := 3; n <= matchMax; n++ {
		l, code := &lengths[n], c.literal[lengths[n].symbol]
		c.length[n] = code + l.extra&^(1<<24-1) | bitCode(l.extra.bits()<<code.n())
	}
}

func assign(codes []bitCode, lens []uint8) {
	var next [codeMax + 2]uint16 // code of each length
	for _, n := range lens {
		next[n+1]++
	}
	next[1] = 0 // of no length
	for n := 2; n < len(next); n++ {
		next[n] = (next[n] + next[n-1]) << 1
	}
	for i, n := range lens {
		codes[i] = codeOf(uint32(bits.Reverse16(next[n]<<(16-n))), n)
		next[n]++
	}
}

// codeLengths puts into lens how long the Huffman code of each symbol is, at most most bits, when it stands count times;
// those that do not stand there have none. It is the method of Moffat and Katajainen ("In-Place Calculation of
// Minimum-Redundancy Codes", 1995), and where a code is too long others are made longer until all fit.
func codeLengths(lens []uint8, count []uint32, most int) {
	var sorted, other [literals]uint32 // count, symbol
	n := 0
	for s, c := range count {
		lens[s] = 0
		if c > 0 {
			sorted[n] = min(c, 1<<16-1)<<16 | uint32(s)
			n++
		}
	}
	if n < 2 {
		lens[sorted[0]&0xffff] = 1
		return
	}
	sortCounts(other[:n], sorted[:n], 16)
	sortCounts(sorted[:n], other[:n], 24)

	// First a[i] is a weight, of a leaf or of a node within; then a node's parent; then its depth; then that of a leaf.
	a := other[:n]
	for i := range a {
		a[i] = sorted[i] >> 16
	}
	leaf, node := 0, 0
	lighter := func(i int) (weight uint32) {
		if leaf >= n || node < i && a[node] < a[leaf] {
			weight, a[node] = a[node], uint32(i)
			node++
			return weight
		}
		leaf++
		return a[leaf-1]
	}
	for i := range n - 1 {
		weight := lighter(i)
		a[i] = weight + lighter(i)
	}
	a[n-2] = 0
	for i := n - 3; i >= 0; i-- {
		a[i] = a[a[i]] + 1
	}
	var leaves [literals]int // of each depth, that of codes which are too long at most
	node = n - 2
	for depth, places, left := uint32(0), 1, n; left > 0; depth++ {
		inner := 0
		for node >= 0 && a[node] == depth {
			inner++
			node--
		}
		leaves[min(int(depth), most)] += places - inner
		left -= places - inner
		places = 2 * inner
	}

	over := -1 << most // how many codes of most bits there are too many
	for l := 1; l <= most; l++ {
		over += leaves[l] << (most - l)
	}
	for ; over > 0; over-- { // one of them goes below the longest code that is shorter
		l := most - 1
		for leaves[l] == 0 {
			l--
		}
		leaves[l]--
		leaves[l+1] += 2
		leaves[most]--
	}
	i := n
	for l := 1; l <= most; l++ {
		for range leaves[l] {
			i--
			lens[sorted[i]&0xffff] = uint8(l)
		}
	}
}

// sortCounts sorts by eight bits, and leaves the order where these are the same.
func sortCounts(to, from []uint32, shift uint) {
	var at [257]uint16
	for _, v := range from {
		at[v>>shift&0xff+1]++
	}
	for i := 1; i < 256; i++ {
		at[i] += at[i-1]
	}
	for _, v := range from {
		to[at[v>>shift&0xff]] = v
		at[v>>shift&0xff]++
	}
}

// The symbols of code lengths, and the order in which their own code lengths stand (section 3.2.7).
const (
	repeated   = 16 // the one before, 3 to 6 times
	zeros      = 17 // 3 to 10
	manyZeros  = 18 // 11 to 138
	lenSymbols = 19
)

var lenOrder = [lenSymbols]uint8{repeated, zeros, manyZeros, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// run is a symbol of code lengths, and how often it is meant beyond the least.
type run struct{ symbol, more uint8 }

// appendRuns appends lens as runs.
func appendRuns(runs []run, lens []uint8) []run {
	for len(lens) > 0 {
		l, n := lens[0], 1
		for n < len(lens) && lens[n] == l {
			n++
		}
		lens = lens[n:]
		if l > 0 {
			runs = append(runs, run{symbol: l})
			n--
		}
		for n >= 3 {
			var k int
			switch {
			case l > 0:
				k = min(n, 6)
				runs = append(runs, run{repeated, uint8(k - 3)})
			case n > 10:
				k = min(n, 138)
				runs = append(runs, run{manyZeros, uint8(k - 11)})
			default:
				k = n
				runs = append(runs, run{zeros, uint8(k - 3)})
			}
			n -= k
		}
		for range n {
			runs = append(runs, run{symbol: l})
		}
	}
	return runs
}

// headerMax is more bits than a block has before its data.
const headerMax = 3 + 14 + 3*lenSymbols + (literals+distances)*(7+7)

// dynamic writes a block, the sequences of src, with codes of its own, or as it is if that is shorter. last is 1 for the last block.
func (d *deflater) dynamic(w *bitWriter, src []byte, last uint32) {
	d.count()
	var literal [literals]uint8
	var distance [distances]uint8
	codeLengths(literal[:], d.literal[:], codeMax)
	codeLengths(distance[:], d.distance[:], codeMax)
	d.codes.set(literal[:], distance[:])
	size := headerMax
	for s, n := range d.literal {
		size += int(n) * int(literal[s])
	}
	for s, n := range d.distance {
		size += int(n) * (int(distance[s]) + max(0, s/2-1))
	}
	for s := 265; s < 285; s++ {
		size += int(d.literal[s]) * ((s-257)/4 - 1)
	}
	if size/8 > len(src) {
		w.stored(src, last)
		return
	}
	w.room(size/8 + slack)

	nl, nd := literals, distances
	for literal[nl-1] == 0 {
		nl--
	}
	for distance[nd-1] == 0 {
		nd--
	}
	var memory [literals + distances]run
	runs := appendRuns(appendRuns(memory[:0], literal[:nl]), distance[:nd])
	var count [lenSymbols]uint32
	for _, r := range runs {
		count[r.symbol]++
	}
	var lens [lenSymbols]uint8
	var lenCodes [lenSymbols]bitCode
	codeLengths(lens[:], count[:], 7)
	assign(lenCodes[:], lens[:])
	n := lenSymbols
	for lens[lenOrder[n-1]] == 0 {
		n--
	}
	w.put(codeOf(last|2<<1, 3))
	w.put(codeOf(uint32(nl-257)|uint32(nd-1)<<5|uint32(n-4)<<10, 14))
	for _, s := range lenOrder[:n] {
		w.put(codeOf(uint32(lens[s]), 3))
	}
	for _, r := range runs {
		w.put(lenCodes[r.symbol])
		switch r.symbol {
		case repeated:
			w.put(codeOf(uint32(r.more), 2))
		case zeros:
			w.put(codeOf(uint32(r.more), 3))
		case manyZeros:
			w.put(codeOf(uint32(r.more), 7))
		}
	}
	d.emit(w, &d.codes)
}

// fixed writes src, which is not longer than shortMax, as a block of fixed codes.
func (d *deflater) fixed(w *bitWriter, src []byte, last uint32) {
	clear(d.seen[:])
	d.search(src, 0, len(src))
	w.room(len(src)*9/8 + slack)
	w.put(codeOf(last|1<<1, 3))
	d.emit(w, &fixedCodes)
}

// keep keeps the first n of three codes.
var keep = [4][3]bitCode{{}, {^bitCode(0)}, {^bitCode(0), ^bitCode(0)}, {^bitCode(0), ^bitCode(0), ^bitCode(0)}}

// emit writes the sequences and the block's end.
func (d *deflater) emit(w *bitWriter, c *codes) {
	b, n, acc, held := w.b, w.n, w.acc, w.held // of w, in registers
	at := 0
	for i := range d.sequences {
		s := &d.sequences[i]
		end := at + int(s.plain)
		for ; at+4 <= end; at += 4 {
			v := binary.LittleEndian.Uint32(d.plain[at:])
			c0, c1, c2, c3 := c.literal[v&0xff], c.literal[v>>8&0xff], c.literal[v>>16&0xff], c.literal[v>>24]
			acc |= c0.bits() << (held & 63)
			held += c0.n()
			acc |= c1.bits() << (held & 63)
			held += c1.n()
			acc |= c2.bits() << (held & 63)
			held += c2.n()
			acc |= c3.bits() << (held & 63)
			held += c3.n()
			binary.LittleEndian.PutUint64(b[n:], acc)
			n += int(held >> 3)
			acc >>= held & 56
			held &= 7
		}
		// How many are left cannot be foretold: a loop would cost more than three codes.
		v, k := binary.LittleEndian.Uint32(d.plain[at:]), &keep[(end-at)&3]
		c0, c1, c2 := c.literal[v&0xff]&k[0], c.literal[v>>8&0xff]&k[1], c.literal[v>>16&0xff]&k[2]
		acc |= c0.bits() << (held & 63)
		held += c0.n()
		acc |= c1.bits() << (held & 63)
		held += c1.n()
		acc |= c2.bits() << (held & 63)
		held += c2.n()
		at = end
		binary.LittleEndian.PutUint64(b[n:], acc)
		n += int(held >> 3)
		acc >>= held & 56
		held &= 7
		symbol, extra := distanceOf(s.distance)
		distance := c.distance[symbol&31]
		far, farN := distance.bits()|extra.bits()<<(distance.n()&63), distance.n()+extra.n()
		for left := uint(s.match); left > 0; {
			k := min(left, matchMax)
			if left-k-1 < 2 {
				k -= 3 // a length is at least 3
			}
			left -= k
			length := c.length[k]
			acc |= length.bits() << (held & 63)
			held += length.n()
			acc |= far << (held & 63)
			held += farN
			binary.LittleEndian.PutUint64(b[n:], acc)
			n += int(held >> 3)
			acc >>= held & 56
			held &= 7
		}
	}
	w.n, w.acc, w.held = n, acc, held
	w.put(c.literal[endOfBlock])
}

// bitWriter writes bits, the lowest first, into b[n:], which must have room.
type bitWriter struct {
	b    []byte
	n    int
	acc  uint64
	held uint // bits in acc, at most 7
}

// room makes room for n bytes.
func (w *bitWriter) room(n int) {
	w.b = slices.Grow(w.b[:w.n], n)
	w.b = w.b[:cap(w.b)]
}

func (w *bitWriter) put(c bitCode) {
	w.acc |= c.bits() << (w.held & 63)
	w.held += c.n()
	binary.LittleEndian.PutUint64(w.b[w.n:], w.acc)
	w.n += int(w.held >> 3)
	w.acc >>= w.held & 56
	w.held &= 7
}

// align writes zeros to the end of the byte and returns all that was written.
func (w *bitWriter) align() []byte {
	w.put(codeOf(0, uint8(-w.held&7)))
	return w.b[:w.n]
}

// stored writes p, not longer than storedMax, as it is.
func (w *bitWriter) stored(p []byte, last uint32) {
	w.room(len(p) + slack)
	w.put(codeOf(last, 3))
	n := uint16(len(p))
	w.b = append(binary.LittleEndian.AppendUint32(w.align(), uint32(n)|uint32(^n)<<16), p...)
	w.n = len(w.b)
	w.room(slack)
}
