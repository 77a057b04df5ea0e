package fpset

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/FastFilter/xorfilter"
)

// A filter says yes of every key in it, and of few others.
func TestFilter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for name, draw := range map[string]func(i uint64) uint64{
		"random":  func(uint64) uint64 { return rnd.Uint64() },
		"ordered": func(i uint64) uint64 { return i },
		"host":    func(i uint64) uint64 { return i<<48 | 0xabc },
	} {
		const n = 20000
		f := newFilter(n)
		for i := range uint64(n) {
			f.put(draw(2 * i)) // for "random" any key
		}
		yes := 0
		for i := range uint64(n) {
			if name != "random" && !f.has(draw(2*i)) {
				t.Fatalf("%s: no of key %d", name, i)
			}
			if f.has(draw(2*i + 1)) {
				yes++
			}
		}
		if yes > n*3/100 {
			t.Errorf("%s: yes of %d others in %d", name, yes, n)
		}
	}
	if n := filterBytes(1e6); n > 1.26e6 {
		t.Errorf("a filter of 10⁶ keys takes %d bytes", n)
	}
}

// TestUselessFilter: a filter that says yes of everything changes no answer, and
// one that does not fit its share of the memory is not made.
func TestUselessFilter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	st := newStore(t, nil)
	keys := make([]uint64, 5000)
	for i := range keys {
		keys[i] = rnd.Uint64() &^ 1
	}
	if _, err := markAll(st, "", keys, 100, 0, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, share := range []int64{0, 1000, filterBytes(5000)} {
		s, err := LoadCurrent(st, Options{Prefilter: share})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := s.(*runs).list[0]
		for round := range 5 {
			if full := round == 4; full && r.filter != nil {
				r.filter = &filter{make([][8]uint32, 1)}
				for i := range r.filter.blocks[0] {
					r.filter.blocks[0][i] = 1<<32 - 1
				}
			}
			ask := append(slices.Clone(keys), 1, 3, 5, 1<<63+1)
			seen := make([]bool, len(ask))
			if err := s.ContainsAll(ask, seen); err != nil {
				t.Fatal(err)
			}
			if want := append(slices.Repeat([]bool{true}, 5000), false, false, false, false); !slices.Equal(seen, want) {
				t.Errorf("filters of %d bytes, round %d: other answers", share, round)
			}
			if round == 0 && r.filter != nil {
				t.Errorf("filters of %d bytes: made for one pass", share)
			}
		}
		if (r.filter != nil) != (share >= filterBytes(5000)) {
			t.Errorf("filters of %d bytes: made %v", share, r.filter != nil)
		}
	}
}

// BenchmarkFilter compares the filter with a binary fuse filter of 8 bits.
func BenchmarkFilter(b *testing.B) {
	const n = 10e6
	rnd := rand.New(rand.NewPCG(11, 12))
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = rnd.Uint64()
	}
	slices.Sort(keys)
	probes := make([]uint64, 1<<16)
	for i := range probes {
		probes[i] = rnd.Uint64()
	}
	slices.Sort(probes)
	bloom := newFilter(n)
	b.Run("bloom/build", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bloom = newFilter(n)
			for _, k := range keys {
				bloom.put(k)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n/float64(b.N), "ns/key")
	})
	var fuse *xorfilter.BinaryFuse8
	b.Run("fuse/build", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var err error
			if fuse, err = xorfilter.PopulateBinaryFuse8(keys); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n/float64(b.N), "ns/key")
	})
	ask := func(has func(uint64) bool, bytes int) func(b *testing.B) {
		return func(b *testing.B) {
			yes := 0
			for b.Loop() {
				for _, k := range probes {
					if has(k) {
						yes++
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(probes)), "ns/test")
			b.ReportMetric(100*float64(yes)/float64(b.N)/float64(len(probes)), "%false")
			b.ReportMetric(8*float64(bytes)/n, "bits/key")
		}
	}
	b.Run("bloom/ask", ask(bloom.has, 32*len(bloom.blocks)))
	b.Run("fuse/ask", ask(fuse.Contains, len(fuse.Fingerprints)))
}
