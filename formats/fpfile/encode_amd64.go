package fpfile

import "sync"

// packer is the room that pack needs beside a block.
type packer struct {
	at    places
	marks [8 * 1024]byte // one for each bit of the high part; zero between uses
	words [1024 / 8]uint64
}

var packers = sync.Pool{New: func() any { return new(packer) }}

// lanes tells how eight keys of some width come together: byte i of the w bytes
// that they take has bits of byte even[i] of the even lanes, if bit i of evens is
// set, and of byte odd[i] of the odd ones, if bit i of odds is. Lane j was shifted by
// j·w mod 8 before. A byte has bits of two lanes at most if w is at least 7.
type lanes struct {
	even, odd   [64]byte
	evens, odds uint64
}

const minPack, maxPack = 7, 56

var lanesOf = func() (all [maxPack + 1]lanes) {
	for w := minPack; w <= maxPack; w++ {
		l := &all[w]
		for j := range 8 {
			index, set := &l.even, &l.evens
			if j&1 == 1 {
				index, set = &l.odd, &l.odds
			}
			for i := j * w / 8; 8*i < (j+1)*w; i++ {
				index[i] = byte(8*j + i - j*w/8)
				*set |= 1 << i
			}
		}
	}
	return all
}()

// packAVX512 writes the low parts of 8·groups keys, w bytes a group and zeros up to
// byte 64 of the last, and the places of their ones.
//
//go:noescape
func packAVX512(low *byte, at *uint16, keys *uint64, groups, w int, first uint64, l *lanes)

// marksAVX512 makes bits of marks, and zeros of the marks.
//
//go:noescape
func marksAVX512(dst *uint64, marks *byte, words int)

// pack writes the low and the high part of keys to rest, which is zero.
func pack(rest []byte, keys []uint64, first uint64, w int) {
	split := (len(keys)*w + 7) / 8
	high := rest[split:]
	groups := 0
	if len(rest) >= 64 && minPack <= w && w <= maxPack {
		groups = min(len(keys)/8, (len(rest)-64)/w+1)
	}
	if !useAVX512 || groups == 0 || len(high) > len(packer{}.words)*8 {
		packGo(rest, keys, first, w)
		return
	}
	p := packers.Get().(*packer)
	packAVX512(&rest[0], &p.at[0], &keys[0], groups, w, first, &lanesOf[w])
	done := 8 * groups
	packLow(rest[groups*w:], keys[done:], first, w)
	for i, k := range keys[done:] {
		p.at[done+i] = uint16(int((k-first)>>w) + done + i)
	}
	for _, one := range p.at[:len(keys)] {
		p.marks[one&(8*1024-1)] = 1
	}
	words := (len(high) + 7) / 8
	marksAVX512(&p.words[0], &p.marks[0], words)
	for i, x := range p.words[:words] {
		if 8*i+8 <= len(high) {
			le.PutUint64(high[8*i:], x)
			continue
		}
		for j := 8 * i; j < len(high); j++ {
			high[j] = byte(x >> (8 * (j - 8*i)))
		}
	}
	packers.Put(p)
}
