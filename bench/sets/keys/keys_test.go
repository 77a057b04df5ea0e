package keys

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"mercator/pkg/base/fingerprint"
)

func all(src Source) (list []uint64) {
	for key, ok := src(); ok; key, ok = src() {
		list = append(list, key)
	}
	return list
}

func ascend(list []uint64) bool {
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			return false
		}
	}
	return true
}

func TestOrderAndNumber(t *testing.T) {
	web := NewWeb(1, 1000, 1.1)
	for _, n := range []uint64{0, 1, 2, 3, 1000, 100_000} {
		for name, src := range map[string]Source{"uniform": Uniform(1, n), "zipf": web.Checksums(n)} {
			if list := all(src); uint64(len(list)) != n || !ascend(list) {
				t.Errorf("%s: %d keys, ascending %v; want %d, ascending", name, len(list), ascend(list), n)
			}
		}
	}
	// As many keys as there is room for.
	if list := all(between(random(1, 1), 5, 99, 100)); !ascend(list) || list[0] != 5 || list[99] != 104 {
		t.Errorf("100 keys of [5, 104]: %v", list)
	}
	if list := all(between(random(1, 1), math.MaxUint64-9, 9, 10)); !ascend(list) || list[9] != math.MaxUint64 {
		t.Errorf("the ten largest keys: %x", list)
	}
	if a, b := all(Uniform(1, 1000)), all(Uniform(1, 1000)); !slices.Equal(a, b) {
		t.Error("one seed gave two sets")
	}
	if a, b := all(Uniform(1, 1000)), all(Uniform(2, 1000)); slices.Equal(a, b) {
		t.Error("two seeds gave one set")
	}
}

// A 256th of uniform keys falls into each 256th of the range: χ² with 255 degrees
// of freedom, 99.99 % of it below 347.
func TestUniform(t *testing.T) {
	const n = 1 << 16
	var count [256]float64
	for _, key := range all(Uniform(3, n)) {
		count[key>>56]++
	}
	sum := 0.0
	for _, c := range count {
		sum += (c - n/256) * (c - n/256) / (n / 256)
	}
	if sum > 347 || sum < 180 {
		t.Errorf("χ² = %.0f, want about 255", sum)
	}
}

func TestZipf(t *testing.T) {
	const n, hosts = 200_000, 1000
	web := NewWeb(1, hosts, 1.1)
	counts := make(map[uint64]float64)
	for _, key := range all(web.Checksums(n)) {
		counts[key>>48]++
	}
	sum := 0.0
	for h := 1; h <= hosts; h++ {
		sum += math.Pow(float64(h), -1.1)
	}
	for _, h := range []int{1, 2, 10, 100} {
		got, want := counts[fingerprint.OfString(name(h))>>48], n*math.Pow(float64(h), -1.1)/sum
		if got < want-1 || got > want*1.1+1000 { // hosts that share their bits add to it
			t.Errorf("host %d has %.0f keys, want %.0f", h, got, want)
		}
	}
	next := web.URLs(n)
	seen := make(map[string]bool)
	first := 0
	for range 10_000 {
		url := next()
		seen[url] = true
		if len(url) > 19 && url[:19] == "http://h1.example/p" {
			first++
		}
	}
	if want := 10_000 / sum; math.Abs(float64(first)-want) > want/5 {
		t.Errorf("%d of 10,000 URLs are of the first host, want %.0f", first, want)
	}
	if len(seen) == 10_000 || len(seen) < 5000 {
		t.Errorf("%d distinct URLs of 10,000", len(seen))
	}
}

func TestPair(t *testing.T) {
	for _, c := range []struct{ a, b, both uint64 }{{0, 0, 0}, {10, 0, 0}, {0, 10, 0}, {10, 10, 10}, {5000, 70, 30}} {
		t.Run(fmt.Sprint(c.a, " ", c.b), func(t *testing.T) {
			var a, b, both uint64
			next := Pair(1, c.a, c.b, c.both, Uniform(1, c.a+c.b-c.both))
			for {
				_, inA, inB, ok := next()
				if !ok {
					break
				}
				if inA {
					a++
				}
				if inB {
					b++
				}
				if inA && inB {
					both++
				}
			}
			if a != c.a || b != c.b || both != c.both {
				t.Errorf("%+v: got %d, %d, %d", c, a, b, both)
			}
		})
	}
}

func TestArrivals(t *testing.T) {
	list := all(Arrivals(1, 100_000, 0.3))
	slices.Sort(list)
	if distinct := len(slices.Compact(list)); len(list) != 100_000 || distinct < 69_000 || distinct > 71_000 {
		t.Errorf("%d keys, %d distinct; want 100,000 and about 70,000", len(list), distinct)
	}
}
