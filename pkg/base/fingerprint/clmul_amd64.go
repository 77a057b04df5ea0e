package fingerprint

import (
	"math"

	"golang.org/x/sys/cpu"
)

// clmulMin and wideMin are the lengths in bytes from which carry-less
// multiplication pays, in registers of 128 and of 512 bits.
var clmulMin, wideMin = clmulLengths()

func clmulLengths() (narrow, wide int) {
	narrow, wide = math.MaxInt, math.MaxInt
	if cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSSE3 {
		narrow = 18
		if cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ {
			wide = 256
		}
	}
	return narrow, wide
}

// clmul returns the fingerprint of a+b, where fp is the fingerprint of a, and n, at least
// 16, the length of b. It uses wide registers where wide bytes or more, at least
// 64, are left after the first n mod 16.
//
//go:noescape
func clmul(k *folding, fp uint64, b *byte, n, wide int) uint64
