//go:build !amd64 && !arm64

package fingerprint

import "math"

const clmulMin, wideMin = math.MaxInt, math.MaxInt

func clmul(*folding, uint64, *byte, int, int) uint64 {
	panic("fingerprint: no carry-less multiplication")
}
