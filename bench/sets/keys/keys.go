// Package keys makes sets of 64-bit keys from a seed, in ascending order and in
// constant memory, whatever their size.
//
// # How order comes without sorting
//
// The smallest of m independent uniform values on [0, R] lies at R·(1 − U^(1/m)),
// U uniform on (0, 1]; given it, the other m − 1 are uniform above it (Bentley and
// Saxe, "Generating sorted lists of random numbers", 1980). So each key follows
// from the one before it. Values are drawn from a range that is n shorter and the
// i-th is raised by i, which makes all of them distinct.
//
// # The Zipf web
//
// Host number h of H has a share of the URLs in proportion to h^−s. Its keys begin
// with the 16 high bits of the fingerprint of its name, h1.example, h2.example …,
// as a URL checksum does; the 48 others are uniform. Hosts that share their 16
// bits share one range.
package keys

import (
	"math"
	"math/rand/v2"
	"sort"
	"strconv"

	"mercator/pkg/base/fingerprint"
)

// Source gives the next key; false after the last.
type Source func() (uint64, bool)

// random of the seed; what tells streams of one seed apart.
func random(seed, what uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, what)) }

// between gives n distinct keys of [base, base + size], ascending. size + 1 must
// not be less than n.
func between(rng *rand.Rand, base, size, n uint64) Source {
	var y, i uint64
	top := size - n + 1
	if n == 0 {
		top = 0
	}
	return func() (uint64, bool) {
		if i == n {
			return 0, false
		}
		gap := float64(top-y) * -math.Expm1(-rng.ExpFloat64()/float64(n-i))
		if g := uint64(gap); g < top-y {
			y += g
		} else {
			y = top
		}
		i++
		return base + y + i - 1, true
	}
}

// Uniform gives n distinct uniform keys, ascending.
func Uniform(seed, n uint64) Source { return between(random(seed, 1), 0, math.MaxUint64, n) }

// Web is a Zipf web.
type Web struct {
	seed  uint64
	share []float64 // share[h-1]: of the hosts up to h together
}

// NewWeb makes a web of hosts. The share of host h falls as h^-s.
func NewWeb(seed uint64, hosts int, s float64) *Web {
	w := &Web{seed: seed, share: make([]float64, hosts)}
	sum := 0.0
	for h := range w.share {
		sum += math.Pow(float64(h+1), -s)
		w.share[h] = sum
	}
	for h := range w.share {
		w.share[h] /= sum
	}
	return w
}

// name of host h, from 1.
func name(h int) string { return "h" + strconv.Itoa(h) + ".example" }

// Buckets is how many of n URLs have each value of the 16 high bits.
func (w *Web) Buckets(n uint64) []uint64 {
	counts := make([]uint64, 1<<fingerprint.HostBits)
	var before uint64
	for h, share := range w.share {
		upTo := uint64(math.Round(share * float64(n)))
		if h == len(w.share)-1 {
			upTo = n
		}
		counts[fingerprint.OfString(name(h+1))>>(64-fingerprint.HostBits)] += upTo - before
		before = upTo
	}
	return counts
}

// Checksums gives the distinct checksums of n URLs, ascending.
func (w *Web) Checksums(n uint64) Source {
	const low = 64 - fingerprint.HostBits
	counts := w.Buckets(n)
	rng := random(w.seed, 2)
	bucket := -1
	next := between(rng, 0, 0, 0)
	return func() (uint64, bool) {
		for {
			if key, ok := next(); ok {
				return key, true
			}
			if bucket++; bucket == len(counts) {
				bucket--
				return 0, false
			}
			next = between(rng, uint64(bucket)<<low, 1<<low-1, counts[bucket])
		}
	}
}

// URLs gives URLs of the web in order of arrival, as a crawl meets links: host by
// share, page uniform among those that the host has when n URLs are known, so that
// many come again.
func (w *Web) URLs(n uint64) func() string {
	rng := random(w.seed, 3)
	return func() string {
		u := rng.Float64()
		h := min(sort.SearchFloat64s(w.share, u), len(w.share)-1)
		size := w.share[h]
		if h > 0 {
			size -= w.share[h-1]
		}
		pages := max(1, uint64(size*float64(n)))
		return "http://" + name(h+1) + "/p" + strconv.FormatUint(rng.Uint64N(pages), 36)
	}
}

// Arrivals gives n uniform keys in no order; each but the first is, with
// probability again, one of those before it.
func Arrivals(seed, n uint64, again float64) Source {
	rng := random(seed, 4)
	var i, distinct uint64
	return func() (uint64, bool) {
		if i == n {
			return 0, false
		}
		i++
		if distinct > 0 && rng.Float64() < again {
			return Mix(seed, rng.Uint64N(distinct)), true
		}
		distinct++
		return Mix(seed, distinct-1), true
	}
}

// Mix maps i one to one to a key that looks random (the finalizer of splitmix64).
func Mix(seed, i uint64) uint64 {
	z := i*0x9e3779b97f4a7c15 + seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Pair deals the a+b−both keys of src into set A of a keys and set B of b, both of
// them in both, each way of doing so equally likely.
func Pair(seed, a, b, both uint64, src Source) func() (key uint64, inA, inB, ok bool) {
	rng := random(seed, 5)
	onlyA, onlyB := a-both, b-both
	return func() (uint64, bool, bool, bool) {
		key, ok := src()
		if !ok {
			return 0, false, false, false
		}
		switch r := rng.Uint64N(onlyA + onlyB + both); {
		case r < onlyA:
			onlyA--
			return key, true, false, true
		case r < onlyA+onlyB:
			onlyB--
			return key, false, true, true
		}
		both--
		return key, true, true, true
	}
}
