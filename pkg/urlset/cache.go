package urlset

// cacheSize is the number of popular URLs that are remembered, as in the 1999
// paper (section 3.5).
const cacheSize = 1 << 18

// cache remembers keys that occurred lately in this process. It is a CLOCK: a
// hit gives an entry a second chance, the hand takes the first without one.
type cache struct {
	index map[uint64]uint32 // place of each key
	keys  []uint64
	used  []bool
	hand  int
	size  int
	Hits  uint64
}

func newCache(size int) *cache {
	return &cache{index: map[uint64]uint32{}, size: size}
}

// seen reports whether key is remembered, and remembers it.
func (c *cache) seen(key uint64) bool {
	if at, ok := c.index[key]; ok {
		c.used[at] = true
		c.Hits++
		return true
	}
	if len(c.keys) < c.size {
		c.index[key] = uint32(len(c.keys))
		c.keys = append(c.keys, key)
		c.used = append(c.used, false)
		return false
	}
	for c.used[c.hand] {
		c.used[c.hand] = false
		c.hand = (c.hand + 1) % c.size
	}
	delete(c.index, c.keys[c.hand])
	c.index[key] = uint32(c.hand)
	c.keys[c.hand] = key
	c.hand = (c.hand + 1) % c.size
	return false
}
