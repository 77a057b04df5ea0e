//go:build !amd64

package fpfile

// ones lists the places of the ones of high ^ flip in dst, which has room for 7 more.
func ones(dst []uint16, high []byte, flip uint64) { onesGo(dst, high, flip) }

func (v *block) join(keys []uint64, at []uint16) bool { return v.joinGo(keys, at, 0) }

// useAVX512 is for tests, which switch it where there is assembly.
var useAVX512 bool

func pack(rest []byte, keys []uint64, first uint64, w int) { packGo(rest, keys, first, w) }

// useFold is false: the standard library has the checksum.
var useFold bool

func fold(*[64]byte, []byte) { panic("fpfile: no fold here") }
