package fpfile

import (
	"bytes"
	"math"
	"testing"

	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

// TestLookupsBesideDenseBlock: a block of consecutive fingerprints has no low bits, so that the
// bucket of a key far above it passes 2⁶³.
func TestLookupsBesideDenseBlock(t *testing.T) {
	keys := make([]uint64, 0, 4097)
	for k := range uint64(4096) {
		keys = append(keys, k)
	}
	keys = append(keys, math.MaxUint64)
	var file bytes.Buffer
	w := NewWriter(&file, fingerprint.Polynomial)
	must.OK(t, w.AddKeys(keys), w.Finish())
	for _, avx512 := range []bool{useAVX512, false} {
		defer func(was bool) { useAVX512 = was }(useAVX512)
		useAVX512 = avx512
		r, err := open(file.Bytes())
		must.OK(t, err)
		ask := []uint64{0, 4095, 4096, 1 << 62, 1<<63 - 1, 1 << 63, 1<<63 + 100000, 1<<64 - 2, 1<<64 - 1}
		want := []bool{true, true, false, false, false, false, false, false, true}
		seen := make([]bool, len(ask))
		must.OK(t, r.ContainsAll(ask, seen))
		for i, k := range ask {
			one, err := contains(r, k)
			if err != nil || one != want[i] || seen[i] != want[i] {
				t.Errorf("AVX-512 %v, %x: %v, %v (%v), want %v", avx512, k, one, seen[i], err, want[i])
			}
		}
	}
}
