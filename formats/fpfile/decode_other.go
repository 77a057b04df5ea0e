//go:build !amd64

package fpfile

func ones(dst *places, high []byte) { onesGo(dst[:], high, 0) }

func (v *block) join(keys []uint64, at []uint16) bool { return v.joinGo(keys, at, 0) }

// useAVX512 is what tests switch where there is assembly.
var useAVX512 bool
