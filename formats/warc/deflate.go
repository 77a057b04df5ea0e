package warc

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"
)

// Most records are short: of each page a response, and a request and a metadata record
// of a few hundred bytes. For those the library spends most of its time on making
// Huffman codes, which save little. This file compresses them by the fixed codes of
// DEFLATE, in a quarter of the time, to a fifth more bytes.
//
// Images, archives and replies that came compressed shrink by nothing: they are stored, in a twentieth of the time.

const (
	shortMax  = 2 << 10 // length of the records for which that is done
	seenBits  = 10
	matchMax  = 258       // RFC 1951 section 3.2.5
	storedMax = 1<<16 - 1 // of a stored block, section 3.2.4
)

// The bytes of a body that are counted to tell noise.
const (
	noiseMin  = 1 << 10 // shorter bodies are compressed
	noiseLook = 256     // bytes looked at in the middle
	noisePart = 128     // bytes looked at in each of some other places
	noiseMost = 32      // at most
)

// noise reports whether b is what a compressor made, by its looks: all values of bytes are equally frequent.
func noise(b []byte) bool {
	if len(b) < noiseMin {
		return false
	}
	var count [256]int
	for _, c := range b[len(b)/2-noiseLook/2:][:noiseLook] {
		count[c]++
	}
	if pairs(&count) > 2*noiseLook { // by chance noiseLook, less one; of text sixteen times that
		return false
	}
	clear(count[:])
	parts := min(len(b)/noisePart, noiseMost)
	step := (len(b) - noisePart) / (parts - 1) // at least noisePart
	for i := range parts {
		for _, c := range b[i*step:][:noisePart] {
			count[c]++
		}
	}
	// By chance n*n/256 pairs are the same, and seldom more than n/3 above that. A twentieth more is let pass.
	n := parts * noisePart
	return pairs(&count) < n*n/256*21/20+n/3
}

// pairs is in how many ways two of the bytes that were counted are the same.
func pairs(count *[256]int) (n int) {
	for _, c := range count {
		n += c * (c - 1)
	}
	return n
}

// bitCode is bits, the first one lowest, and how many they are.
type bitCode struct {
	bits uint32
	n    uint8
}

// The codes of RFC 1951 section 3.2.6: of literals, of the end of a block, of lengths
// and of distances less 1 with their extra bits.
var (
	literalCodes  [256]bitCode
	endCode       = fixedCode(256)
	lengthCodes   [matchMax + 1]bitCode
	distanceCodes [shortMax]bitCode
)

func init() {
	for s := range literalCodes {
		literalCodes[s] = fixedCode(s)
	}
	n := 3
	for s := 257; s < 285; s++ {
		extra := max(0, (s-257)/4-1)
		for i := range 1 << extra {
			c := fixedCode(s)
			lengthCodes[n] = bitCode{c.bits | uint32(i)<<c.n, c.n + uint8(extra)}
			n++
		}
	}
	lengthCodes[matchMax] = fixedCode(285)
	d := 0
	for s := 0; d < shortMax; s++ {
		extra := max(0, s/2-1)
		for i := 0; i < 1<<extra && d < shortMax; i++ {
			distanceCodes[d] = bitCode{uint32(bits.Reverse8(uint8(s))>>3) | uint32(i)<<5, uint8(5 + extra)}
			d++
		}
	}
}

// fixedCode is the code of a literal, the end of a block or a length.
func fixedCode(symbol int) bitCode {
	code, n := symbol+0x30, 8
	switch {
	case symbol >= 280:
		code = symbol - 280 + 0xc0
	case symbol >= 256:
		code, n = symbol-256, 7
	case symbol >= 144:
		code, n = symbol-144+0x190, 9
	}
	return bitCode{uint32(bits.Reverse16(uint16(code)) >> (16 - n)), uint8(n)}
}

// appendShort appends a gzip member (RFC 1952) that holds src, which is not longer
// than shortMax.
func appendShort(dst, src []byte) []byte {
	w := beginMember(dst, len(src))
	w.fixed(src, true)
	return endMember(w.b[:w.n], crc32.ChecksumIEEE(src), len(src))
}

// appendStored appends a gzip member that holds the parts in turn. The first, which is not longer than
// shortMax, is compressed.
func appendStored(dst, first []byte, parts ...[]byte) []byte {
	size := len(first)
	for _, p := range parts {
		size += len(p)
	}
	w := beginMember(slices.Grow(dst, size+size/16+64), len(first))
	w.fixed(first, false)
	dst = append(w.b[:w.n], 0, 0, 0xff, 0xff) // an empty stored block; fixed wrote its header
	sum := crc32.ChecksumIEEE(first)
	for _, p := range parts {
		sum = crc32.Update(sum, crc32.IEEETable, p)
		for len(p) > 0 {
			n := min(len(p), storedMax)
			dst = append(dst, 0, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
			dst = append(dst, p[:n]...)
			p = p[n:]
		}
	}
	dst = append(dst, 1, 0, 0, 0xff, 0xff) // the last block is empty
	return endMember(dst, sum, size)
}

// beginMember appends the head of a member, with room for n bytes in fixed codes.
func beginMember(dst []byte, n int) bitWriter {
	const unknown = 255 // operating system
	dst = append(dst, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, unknown)
	dst = slices.Grow(dst, n*9/8+24)
	return bitWriter{b: dst[:cap(dst)], n: len(dst)}
}

func endMember(dst []byte, sum uint32, size int) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, sum)
	return binary.LittleEndian.AppendUint32(dst, uint32(size))
}

// fixed writes src as a block of fixed codes, and zeros to the end of the byte: after the last block padding, else
// the three bits of a stored block's header and padding.
func (w *bitWriter) fixed(src []byte, last bool) {
	header := bitCode{1 << 1, 3}
	if last {
		header.bits |= 1
	}
	w.put(header)
	var seen [1 << seenBits]uint16 // position where a hash was met last
	at := 0
	for at+8 <= len(src) {
		next := binary.LittleEndian.Uint64(src[at:])
		slot := &seen[uint32(next)*0x9e3779b1>>(32-seenBits)]
		from := int(*slot)
		*slot = uint16(at)
		same := next ^ binary.LittleEndian.Uint64(src[from:])
		if uint32(same) != 0 || from == at {
			w.put(literalCodes[byte(next)])
			at++
			continue
		}
		n := bits.TrailingZeros64(same) >> 3
		if same == 0 {
			for n < matchMax && at+n < len(src) && src[from+n] == src[at+n] {
				n++
			}
		}
		w.put(lengthCodes[n])
		w.put(distanceCodes[at-from-1])
		at += n
	}
	for _, c := range src[at:] {
		w.put(literalCodes[c])
	}
	w.put(endCode)
	if !last {
		w.put(bitCode{0, 3})
	}
	w.put(bitCode{0, uint8(-w.held & 7)})
}

// bitWriter writes bits, the lowest first, into b[n:], which must have room.
type bitWriter struct {
	b    []byte
	n    int
	acc  uint64
	held uint // bits in acc, at most 7
}

func (w *bitWriter) put(c bitCode) {
	w.acc |= uint64(c.bits) << (w.held & 63)
	w.held += uint(c.n)
	binary.LittleEndian.PutUint64(w.b[w.n:], w.acc)
	w.n += int(w.held >> 3)
	w.acc >>= w.held & 56
	w.held &= 7
}
