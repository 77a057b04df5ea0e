package fpfile

import "golang.org/x/sys/cpu"

// useAVX512 chooses the assembly. Tests force each way.
var useAVX512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VBMI2 &&
	cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

// onesAVX512 writes the places of the ones of the words at high to dst and returns
// their number. It may write 32 places more.
//
//go:noescape
func onesAVX512(dst *uint16, high *byte, words int) int

// joinAVX512 puts 8·groups keys together, from 64 bytes of low at w bytes a group,
// and reports whether they increase strictly from first on. w is at most 56.
//
//go:noescape
func joinAVX512(dst *uint64, at *uint16, low *byte, groups, w int, first uint64) bool

func ones(dst *places, high []byte) {
	n, words := 0, 0
	if useAVX512 && len(high) >= 8 {
		words = len(high) / 8
		n = onesAVX512(&dst[0], &high[0], words)
	}
	onesGo(dst[n:], high[8*words:], 64*words)
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
