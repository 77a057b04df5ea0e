package fingerprint

import (
	"math"

	"golang.org/x/sys/cpu"
)

// clmulMin is the length in bytes from which carry-less multiplication is used: what
// was measured on amd64. There are no wide registers.
var clmulMin, wideMin = clmulLength(), math.MaxInt

func clmulLength() int {
	if cpu.ARM64.HasPMULL {
		return 18
	}
	return math.MaxInt
}

// clmul returns the fingerprint of a+b, where fp is the fingerprint of a, and n, at least
// 16, the length of b. There is nothing that wide could choose. On other machines,
//
//	GOARCH=arm64 go test -exec "qemu-aarch64-static -cpu max" ./pkg/base/fingerprint
//
// tests it.
//
//go:noescape
func clmul(k *folding, fp uint64, b *byte, n, wide int) uint64
