package fingerprint

// folding holds what clmul multiplies by. byD folds a register of 128 bits over
// the D bits that follow it: x^(D+63) for its low half, which has the higher
// powers, and x^(D-1) for its high half, both modulo the polynomial. The powers
// are one short because the product of two reflected words comes out times x.
type folding struct {
	by384, by256, by128, _        [2]uint64 // one load: the four lanes of a wide register
	by512, by1024, by1536, by2048 [2]uint64
	barrett                       [2]uint64 // floor(x¹²⁷/P), floor(P/x)
}

func newFolding(p uint64) *folding {
	const maxPower = 2048 + 63
	var power [maxPower + 1]uint64
	power[0] = 1 << 63
	for i := range maxPower {
		power[i+1] = timesX(power[i], p)
	}
	by := func(bits int) [2]uint64 { return [2]uint64{power[bits+63], power[bits-1]} }
	// Long division of x¹²⁷ = x⁶³·x⁶⁴: what overflows x⁶³ is the quotient.
	quotient, rest := uint64(0), power[63]
	for i := range 64 {
		quotient |= rest & 1 << i
		rest = timesX(rest, p)
	}
	return &folding{
		by384: by(384), by256: by(256), by128: by(128),
		by512: by(512), by1024: by(1024), by1536: by(1536), by2048: by(2048),
		barrett: [2]uint64{quotient, p<<1 | 1},
	}
}
