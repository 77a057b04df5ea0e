package fpfile

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// minFold is the length from which on folding is faster than the standard library.
const minFold = 1024

// checksum is CRC-32C.
func checksum(b []byte) uint32 {
	if len(b) < minFold || !useFold {
		return crc32.Checksum(b, castagnoli)
	}
	var folded [64]byte
	n := len(b) &^ 63
	fold(&folded, b[:n])
	// The first value of the register is in what was folded: go on from zero.
	crc := crc32.Update(^uint32(0), castagnoli, folded[:])
	return crc32.Update(crc, castagnoli, b[n:])
}
