package fpfile

import "golang.org/x/sys/cpu"

// useFold chooses the assembly. It takes half the time of the standard library's
// checksum, which was most of what is done to a block that is only searched.
var useFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ

// foldAVX512 makes 64 bytes at dst that have, from a register of zero, the checksum
// that the 4·quads + more times 64 bytes at b have from a register of ones; there are two
// quads at least. It multiplies what was read by a power of x, without carry, and
// adds what comes so much later (Gopal et al., "Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ Instruction", Intel 2009).
//
//go:noescape
func foldAVX512(dst *[64]byte, b *byte, quads, more int, k *[4]uint64)

// fold takes a multiple of 64 bytes, minFold at least.
func fold(dst *[64]byte, b []byte) {
	foldAVX512(dst, &b[0], len(b)/256, len(b)%256/64, &foldBy)
}

// foldBy are the powers by which 256 bytes and 64 bytes are passed: for the first
// and the second half of 16 bytes.
var foldBy = [4]uint64{power(8*256 + 32), power(8*256 - 32), power(8*64 + 32), power(8*64 - 32)}

// power returns xⁿ modulo the polynomial of CRC-32C, reflected, and shifted because
// the product of reflected numbers is.
func power(n int) uint64 {
	r := uint32(1) << 31 // x⁰
	for range n {
		r = r>>1 ^ 0x82f63b78&-(r&1)
	}
	return uint64(r) << 1
}
