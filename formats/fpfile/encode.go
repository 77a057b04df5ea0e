package fpfile

// encodeBlock writes the block of keys into b, which must be zero and of
// bestBytes length or longer; what is longer stays zero.
func encodeBlock(b []byte, keys []uint64) {
	n, first := len(keys), keys[0]
	w := bestWidth(n, keys[n-1]-first)
	le.PutUint16(b[4:], uint16(n))
	b[6] = byte(w)
	le.PutUint64(b[8:], first)
	pack(b[blockHeader:], keys[1:], first, w)
	le.PutUint32(b, checksum(b[4:]))
}

// packGo writes the low and the high part of keys to rest, which is zero.
func packGo(rest []byte, keys []uint64, first uint64, w int) {
	packLow(rest, keys, first, w)
	high := rest[(len(keys)*w+7)/8:]
	for i, k := range keys {
		one := int((k-first)>>w) + i
		high[one>>3] |= 1 << (one & 7)
	}
}

// packLow writes the low w bits of each key's difference from first, and may
// write zeros after them.
func packLow(low []byte, keys []uint64, first uint64, w int) {
	mask := uint64(1)<<w - 1
	var acc uint64 // the bits that are not yet written
	fill, at := 0, 0
	if w <= 56 {
		for len(keys) > 0 && at+8 <= len(low) {
			// Whole bytes go out after each key: at most 7, since 7+56 bits fit.
			acc |= ((keys[0] - first) & mask) << (fill & 63)
			le.PutUint64(low[at:], acc)
			fill += w
			at += fill >> 3
			acc >>= fill &^ 7 & 63
			fill &= 7
			keys = keys[1:]
		}
	}
	for _, k := range keys {
		for v, left := (k-first)&mask, w; left > 0; {
			acc |= v << fill
			step := min(left, 8-fill)
			v >>= step
			left -= step
			low[at] = byte(acc)
			if fill += step; fill == 8 {
				acc, fill, at = 0, 0, at+1
			} else {
				acc &= 1<<fill - 1
			}
		}
	}
}
