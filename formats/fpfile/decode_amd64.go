package fpfile

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// useAVX512 chooses the assembly. Tests force each way.
var useAVX512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VBMI2 &&
	cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VPOPCNTDQ && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

// onesAVX512 writes the places of the ones of the words at high, each xor flip, to
// dst and returns their number; the first bit is at place from. There is a word at
// least. It may write 32 places more.
//
//go:noescape
func onesAVX512(dst *uint16, high *uint64, words int, flip uint64, from int) int

// joinAVX512 puts 8·groups keys together, from 64 bytes of low at w bytes a group,
// and reports whether they increase strictly from first on. w is at most 56.
//
//go:noescape
func joinAVX512(dst *uint64, at *uint16, low *byte, groups, w int, first uint64) bool

// ones lists the places of the ones of high ^ flip in dst, which has room for 32 more.
func ones(dst []uint16, high []byte, flip uint64) {
	if !useAVX512 {
		onesGo(dst, high, flip)
		return
	}
	n, words := 0, len(high)/8
	if words > 0 {
		n = onesAVX512(&dst[0], (*uint64)(unsafe.Pointer(&high[0])), words, flip, 0)
	}
	if left := len(high) & 7; left > 0 {
		last := (word(high, 8*words) ^ flip) & (1<<(8*left) - 1)
		onesAVX512(&dst[n], &last, 1, 0, 64*words)
	}
}

func (v *block) join(keys []uint64, at []uint16) bool {
	groups := 0
	if useAVX512 && v.w <= 56 && len(v.rest) >= 64 {
		groups = len(at) / 8
		if v.w > 0 {
			groups = min(groups, (len(v.rest)-64)/v.w+1)
		}
	}
	if groups > 0 && !joinAVX512(&keys[1], &at[0], &v.rest[0], groups, v.w, v.first) {
		return false
	}
	return v.joinGo(keys, at, 8*groups)
}
