package urlset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// clock is the algorithm in its plainest form.
type clock struct {
	keys []uint64
	used []bool
	hand int
	size int
}

func (c *clock) seen(key uint64) bool {
	if at := slices.Index(c.keys, key); at >= 0 {
		c.used[at] = true
		return true
	}
	if len(c.keys) < c.size {
		c.keys, c.used = append(c.keys, key), append(c.used, false)
		return false
	}
	for c.used[c.hand] {
		c.used[c.hand] = false
		c.hand = (c.hand + 1) % c.size
	}
	c.keys[c.hand] = key
	c.hand = (c.hand + 1) % c.size
	return false
}

// TestCache: the cache answers like the plain algorithm, whatever the keys look
// like, and takes no more entries than it may.
func TestCache(t *testing.T) {
	for _, size := range []int{1, 2, 3, 100, 1024} {
		for _, high := range []uint64{0, 0xabcd << 48} {
			t.Run(fmt.Sprintf("%d/%x", size, high), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(1, uint64(size)))
				zipf := rand.NewZipf(rnd, 1.1, 1, uint64(size)*10)
				c, model := newCache(size), &clock{size: size}
				var hits uint64
				for i := range 20_000 {
					k := high | zipf.Uint64() // 0 is a key like others
					got, want := c.seen(k, 0), model.seen(k)
					if got != want {
						t.Fatalf("test %d of key %x: seen is %v, want %v", i, k, got, want)
					}
					if got {
						hits++
					}
				}
				if c.Hits != hits || len(c.keys) > size {
					t.Errorf("%d hits counted of %d, %d entries", c.Hits, hits, len(c.keys))
				}
			})
		}
	}
}

func TestNoCache(t *testing.T) {
	c := newCache(0)
	for range 2 {
		if c.seen(1, 1) || c.Hits != 0 {
			t.Error("a cache of no entries remembers")
		}
	}
}
