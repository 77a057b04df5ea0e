// Package cpuid stands in for github.com/klauspost/cpuid/v2, by a replace directive in go.mod. The hashes of xxh3 alone ask it, for three
// features of the processor. The whole of it is found out at each start, by instructions that are slow in virtual machines: 0.5 ms. Go's own
// packages ask for these three anyway.
package cpuid

import "golang.org/x/sys/cpu"

// FeatureID is a feature of a processor.
type FeatureID int

const (
	SSE2 FeatureID = iota
	AVX2
	AVX512F
)

// CPU is the processor.
var CPU processor

type processor struct{}

// Has reports whether the processor has a feature, and the system keeps its registers.
func (processor) Has(f FeatureID) bool {
	switch f {
	case SSE2:
		return cpu.X86.HasSSE2
	case AVX2:
		return cpu.X86.HasAVX2
	}
	return cpu.X86.HasAVX512F
}
