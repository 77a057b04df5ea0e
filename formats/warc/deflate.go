package warc

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// Each record is a gzip member of its own, and most are no longer than a page. A general library spends a third of its
// time there on Huffman codes and on copying. The encoder in blocks.go does less of both, for the same length.
//
// Each page also has a request and a metadata record of a few hundred bytes. Huffman codes of their own would save
// little there: they are compressed by the fixed codes of DEFLATE.
//
// Images, archives and replies that came compressed shrink by nothing: they are stored, in a twentieth of the time.

const (
	shortMax  = 2 << 10   // length of the records for which fixed codes are used
	storedMax = 1<<16 - 1 // of a stored block, RFC 1951 section 3.2.4; each other block is of no more
)

// The bytes of a body that are counted to tell noise.
const (
	noiseMin  = 1 << 10 // shorter bodies are compressed
	noiseLook = 256     // in the middle,
	noisePart = 128     // and then in each of some places,
	noiseMost = 32      // at most
)

// noise says whether b is what a compressor made, by its looks: all values of bytes are equally frequent.
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

// appendShort appends a gzip member (RFC 1952) that holds src, which is not longer
// than shortMax.
func (d *deflater) appendShort(dst, src []byte) []byte {
	w := beginMember(dst)
	d.fixed(&w, src, 1)
	return endMember(w.align(), crc32.ChecksumIEEE(src), len(src))
}

// appendStored appends a gzip member that holds the parts in turn. The first, which is not longer than
// shortMax, is compressed.
func (d *deflater) appendStored(dst, first []byte, parts ...[]byte) []byte {
	size := len(first)
	for _, p := range parts {
		size += len(p)
	}
	w := beginMember(slices.Grow(dst, size+size/16+64))
	d.fixed(&w, first, 0)
	sum := crc32.ChecksumIEEE(first)
	for _, p := range parts {
		sum = crc32.Update(sum, crc32.IEEETable, p)
		for len(p) > 0 {
			n := min(len(p), storedMax)
			w.stored(p[:n], 0)
			p = p[n:]
		}
	}
	w.stored(nil, 1)
	return endMember(w.align(), sum, size)
}

// appendMember appends a gzip member that holds src.
func (d *deflater) appendMember(dst, src []byte) []byte {
	w := beginMember(dst)
	clear(d.seen[:])
	for at, last := 0, uint32(0); last == 0; at += storedMax {
		end := min(at+storedMax, len(src))
		if end == len(src) {
			last = 1
		}
		d.search(src, at, end)
		d.dynamic(&w, src[at:end], last)
	}
	return endMember(w.align(), crc32.ChecksumIEEE(src), len(src))
}

// beginMember appends the head of a member.
func beginMember(dst []byte) bitWriter {
	const unknown = 255 // operating system
	dst = append(dst, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, unknown)
	return bitWriter{b: dst[:cap(dst)], n: len(dst)}
}

func endMember(dst []byte, sum uint32, size int) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, sum)
	return binary.LittleEndian.AppendUint32(dst, uint32(size))
}
