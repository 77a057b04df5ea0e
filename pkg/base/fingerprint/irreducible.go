package fingerprint

import "math/bits"

// Irreducible reports whether x⁶⁴ + p, p written as Polynomial is, has no
// divisor over GF(2) but itself and one. It is Rabin's test ("Probabilistic
// algorithms in finite fields", 1980) for degree 64, which has only the prime divisor 2.
func Irreducible(p uint64) bool {
	if p>>63 == 0 || bits.OnesCount64(p)%2 != 0 {
		return false // divisible by x, or by x+1: three of four need no more than this
	}
	r := ring(bits.Reverse64(p))
	const x = 2
	half := uint64(x)
	for range 32 {
		half = r.mul(half, half)
	}
	full := half
	for range 32 {
		full = r.mul(full, full)
	}
	if full != x {
		return false // some factor's degree does not divide 64, or a factor repeats
	}
	// No factor's degree divides 32 if x^(2³²) − x is invertible. By the line
	// above every unit's order divides 2⁶⁴ − 1.
	return r.pow(half^x, 1<<64-1) == 1
}

// ring is GF(2)[x] modulo x⁶⁴ + r, with the coefficient of xⁱ in bit i.
type ring uint64

func (r ring) mul(a, b uint64) uint64 {
	var sum uint64
	for ; b != 0; b >>= 1 {
		sum ^= a & -(b & 1)
		a = a<<1 ^ uint64(r)&-(a>>63)
	}
	return sum
}

func (r ring) pow(a, n uint64) uint64 {
	product := uint64(1)
	for ; n != 0; n >>= 1 {
		if n&1 != 0 {
			product = r.mul(product, a)
		}
		a = r.mul(a, a)
	}
	return product
}
