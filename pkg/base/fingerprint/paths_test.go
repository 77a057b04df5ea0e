package fingerprint

import (
	"hash/crc64"
	"math"
	"math/rand/v2"
	"testing"
)

// paths are the ways to compute extend on this machine, with the shortest
// length that each can be given.
func paths() map[string]struct {
	min    int
	extend func(f *Poly, fp uint64, b []byte) uint64
} {
	type way = struct {
		min    int
		extend func(f *Poly, fp uint64, b []byte) uint64
	}
	all := map[string]way{"chosen": {0, (*Poly).extend}, "slices": {0, (*Poly).slice}}
	for name, wide := range map[string]int{"narrow": math.MaxInt, "wide": 64} {
		if clmulMin == math.MaxInt || name == "wide" && wideMin == math.MaxInt {
			continue
		}
		all[name] = way{16, func(f *Poly, fp uint64, b []byte) uint64 { return clmul(f.fold, fp, &b[0], len(b), wide) }}
	}
	return all
}

// TestPaths compares every path with hash/crc64, which applies the polynomial in
// the same bit order and inverts before and after.
func TestPaths(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 1200)
	for i := range buf {
		buf[i] = byte(rnd.Uint32())
	}
	for _, f := range []*Poly{mercator, RandomPoly(rnd.Uint64), RandomPoly(rnd.Uint64)} {
		table := crc64.MakeTable(f.p)
		for name, path := range paths() {
			for n := path.min; n <= 1100; n++ {
				off, fp := rnd.IntN(64), rnd.Uint64()
				b := buf[off : off+n]
				if got, want := path.extend(f, fp, b), ^crc64.Update(^fp, table, b); got != want {
					t.Fatalf("%s, polynomial %016x, %d bytes, misaligned by %d: %016x, by CRC %016x", name, f.p, n, off, got, want)
				}
			}
		}
	}
}

// TestZeros: nothing but the fingerprint's own bits are folded, the longest way.
func TestZeros(t *testing.T) {
	zeros := make([]byte, 1<<16)
	for name, path := range paths() {
		if got, want := path.extend(mercator, 1<<63, zeros), mercator.slice(1<<63, zeros); got != want {
			t.Errorf("%s: %016x, want %016x", name, got, want)
		}
	}
}

func FuzzPaths(f *testing.F) {
	rnd := rand.New(rand.NewPCG(5, 6))
	polys := []*Poly{mercator}
	for len(polys) < 16 {
		polys = append(polys, RandomPoly(rnd.Uint64))
	}
	f.Add([]byte("http://www.example.com/"), uint64(Polynomial), uint8(0))
	f.Add(make([]byte, 1100), uint64(0), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, fp uint64, which uint8) {
		poly := polys[which%16]
		want := ^crc64.Update(^fp, crc64.MakeTable(poly.p), b)
		for name, path := range paths() {
			if len(b) < path.min {
				continue
			}
			if got := path.extend(poly, fp, b); got != want {
				t.Fatalf("%s: %016x, want %016x", name, got, want)
			}
		}
	})
}
