package merge

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// simple are the kernels as one would first write them.
func simpleUnion(dst, a, b []uint64) []uint64 {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			dst, a = append(dst, a[0]), a[1:]
		case a[0] > b[0]:
			dst, b = append(dst, b[0]), b[1:]
		default:
			dst, a, b = append(dst, a[0]), a[1:], b[1:]
		}
	}
	return append(append(dst, a...), b...)
}

func simpleIntersect(dst, a, b []uint64) []uint64 {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			dst, a, b = append(dst, a[0]), a[1:], b[1:]
		}
	}
	return dst
}

func simpleDiff(dst, a, b []uint64) []uint64 {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			dst, a = append(dst, a[0]), a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return append(dst, a...)
}

var kernelPairs = []struct {
	name         string
	fast, simple func(dst, a, b []uint64) []uint64
}{
	{"union", UnionKeys, simpleUnion},
	{"intersect", IntersectKeys, simpleIntersect},
	{"diff", DiffKeys, simpleDiff},
}

// randomKeys are about n keys; with clusters, in crowded places with holes between.
func randomKeys(rnd *rand.Rand, n int, clusters bool) []uint64 {
	keys := make([]uint64, 0, n+2)
	var base, width uint64
	for range n {
		if clusters && rnd.IntN(max(1, n/5)) == 0 || width == 0 {
			base, width = rnd.Uint64N(64)<<58, 1<<(10+rnd.IntN(40))
		}
		if clusters {
			keys = append(keys, base+rnd.Uint64N(width))
		} else {
			keys = append(keys, rnd.Uint64())
		}
	}
	if rnd.IntN(3) == 0 {
		keys = append(keys, 0, 1<<64-1)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func TestKernels(t *testing.T) {
	t.Run("this machine's", testKernels)
	for _, k := range []*kernel{&unionKernel, &intersectKernel, &diffKernel} {
		steps := k.steps
		k.steps = nil
		defer func() { k.steps = steps }()
	}
	t.Run("any machine's", testKernels)
}

func testKernels(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 2, 31, 63, 64, 65, 1000, chunkKeys - 1, chunkKeys, chunkKeys + 1, 3*chunkKeys + 7}
	for _, na := range sizes {
		for _, nb := range sizes {
			for _, clusters := range []bool{false, true} {
				a, b := randomKeys(rnd, na, clusters), randomKeys(rnd, nb, clusters)
				if share := rnd.IntN(4); share > 0 { // some, most or all keys of the smaller are in both
					for i := range min(len(a), len(b)) {
						if share == 3 || rnd.IntN(5) < share {
							b[i] = a[i]
						}
					}
					slices.Sort(b)
					b = slices.Compact(b)
				}
				compareKernels(t, a, b)
			}
		}
	}
}

func compareKernels(t *testing.T, a, b []uint64) {
	t.Helper()
	keptA, keptB := slices.Clone(a), slices.Clone(b)
	for _, k := range kernelPairs {
		got := k.fast([]uint64{7}, a, b)
		want := k.simple([]uint64{7}, a, b)
		if !slices.Equal(got, want) {
			t.Fatalf("%s of %d and %d keys: %d keys, want %d", k.name, len(a), len(b), len(got), len(want))
		}
		if !slices.Equal(a, keptA) || !slices.Equal(b, keptB) {
			t.Fatalf("%s changed what it read", k.name)
		}
	}
}

func FuzzKernels(f *testing.F) {
	f.Add([]byte("a set"), []byte("another"), uint8(3), uint8(0))
	f.Add(make([]byte, 3000), []byte{0xff, 1, 2}, uint8(60), uint8(1))
	f.Fuzz(func(t *testing.T, a, b []byte, shift, repeat uint8) {
		// Each byte is a distance to the key before; long inputs by repetition.
		set := func(steps []byte) (keys []uint64) {
			var k uint64
			for r := range 1 + int(repeat)*8 {
				for _, s := range steps {
					next := k + (uint64(s)+uint64(r&1))<<(shift%64)
					if next < k {
						return Compact(keys)
					}
					k = next
					keys = append(keys, k)
				}
			}
			return Compact(keys)
		}
		compareKernels(t, set(a), set(b))
	})
}

func TestRadixSort(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	shapes := map[string]func(i int) uint64{
		"random":     func(int) uint64 { return rnd.Uint64() },
		"equal":      func(int) uint64 { return 42 },
		"few":        func(int) uint64 { return rnd.Uint64N(3) << 50 },
		"ascending":  func(i int) uint64 { return uint64(i) },
		"descending": func(i int) uint64 { return -uint64(i) },
		"two ranges": func(i int) uint64 { return uint64(i&1)<<63 | rnd.Uint64N(1000) },
		"hosts":      func(int) uint64 { return rnd.Uint64N(5)*0x9e37<<48 | rnd.Uint64()>>16 },
		"low":        func(int) uint64 { return rnd.Uint64N(1 << 20) },
		"outlier":    func(i int) uint64 { return rnd.Uint64N(1<<20) | uint64(one(i == 7))<<63 },
	}
	for name, key := range shapes {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{0, 1, 2, insertionKeys, insertionKeys + 1, 1000, cacheKeys, cacheKeys + 1, 300_000} {
				keys := make([]uint64, n)
				for i := range keys {
					keys[i] = key(i)
				}
				want := slices.Clone(keys)
				slices.Sort(want)
				RadixSort(keys, make([]uint64, n+3))
				if !slices.Equal(keys, want) {
					t.Fatalf("%s: %d keys are not in order", name, n)
				}
				if got, want := Compact(keys), slices.Compact(want); !slices.Equal(got, want) {
					t.Fatalf("%s: %d keys without repetitions, want %d", name, len(got), len(want))
				}
			}
		})
	}
}

func FuzzRadixSort(f *testing.F) {
	f.Add([]byte("01234567012345670000000012345678"), uint8(0), uint8(9))
	f.Fuzz(func(t *testing.T, b []byte, drop, repeat uint8) {
		var keys []uint64
		for r := range 1 + uint64(repeat) {
			for i := 0; i+8 <= len(b); i += 8 {
				keys = append(keys, (binary.LittleEndian.Uint64(b[i:])*(2*r+1))>>(drop%64))
			}
		}
		want := slices.Clone(keys)
		slices.Sort(want)
		RadixSort(keys, make([]uint64, len(keys)))
		if !slices.Equal(keys, want) {
			t.Fatal("not in order")
		}
	})
}
