package urlset

import (
	"math/rand/v2"
	"testing"
)

// TestCache: it never calls a key seen that did not come before, and keeps the
// popular ones.
func TestCache(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	c := newCache(100)
	came := map[uint64]bool{}
	var popular, hits int
	for i := range 50000 {
		k := 1000 + rnd.Uint64N(100000)
		if i%4 == 0 {
			k = rnd.Uint64N(20)
			popular++
		}
		seen := c.seen(k)
		if seen && !came[k] {
			t.Fatalf("key %d is new, and called seen", k)
		}
		if seen && k < 20 {
			hits++
		}
		came[k] = true
		if len(c.index) > 100 || len(c.keys) > 100 {
			t.Fatalf("%d entries", len(c.index))
		}
	}
	if hits < popular*3/4 {
		t.Errorf("%d of %d popular keys were hits", hits, popular)
	}
}
