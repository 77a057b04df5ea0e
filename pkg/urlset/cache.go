package urlset

// CacheSize is the number of popular URLs that are remembered unless the caller
// says otherwise, as in the 1999 paper (section 3.5).
const CacheSize = 1 << 18

// cache remembers keys that occurred lately in this process. It is a CLOCK: a
// hit gives an entry a second chance, the hand takes the first without one. An
// entry costs 17 bytes, and 4 more where rows have scores.
type cache struct {
	keys  []uint64
	used  []bool
	best  []float32 // highest score of each key; nil until a row has one
	hand  int
	table []uint32 // place of each key, plus one; 0 is free; linear probing, at most half full
	shift uint     // hash bits above those that number a slot
	size  int
	Hits  uint64
}

// newCache makes a cache of size entries; none if size is 0 or less. Its table grows with what is in it.
func newCache(size int) *cache {
	const first = 8 // bits
	return &cache{size: max(size, 0), shift: 64 - first, table: make([]uint32, 1<<first)}
}

// home is the slot that a key is looked for from. Keys of a host share their high
// bits, which multiplication spreads.
func (c *cache) home(key uint64) int { return int(key * 0x9e3779b97f4a7c15 >> c.shift) }

// seen reports whether key is remembered with so high a score, and remembers it.
func (c *cache) seen(key uint64, score float32) bool {
	if c.size == 0 {
		return false
	}
	if score != 0 && c.best == nil {
		c.best = make([]float32, c.size)
	}
	mask := len(c.table) - 1
	slot := c.home(key)
	for ; c.table[slot] != 0; slot = (slot + 1) & mask {
		if at := c.table[slot] - 1; c.keys[at] == key {
			c.used[at] = true
			if c.best != nil && score > c.best[at] {
				c.best[at] = score
				return false
			}
			c.Hits++
			return true
		}
	}
	if len(c.keys) < c.size {
		c.keys = append(c.keys, key)
		c.used = append(c.used, false)
		c.table[slot] = uint32(len(c.keys))
		c.note(len(c.keys)-1, score)
		if 2*len(c.keys) > len(c.table) {
			c.grow()
		}
		return false
	}
	for c.used[c.hand] {
		c.used[c.hand] = false
		c.advance()
	}
	c.forget(c.keys[c.hand])
	for slot = c.home(key); c.table[slot] != 0; slot = (slot + 1) & mask { // forget may have moved the free one
	}
	c.keys[c.hand] = key
	c.table[slot] = uint32(c.hand + 1)
	c.note(c.hand, score)
	c.advance()
	return false
}

// grow doubles the table.
func (c *cache) grow() {
	c.shift--
	c.table = make([]uint32, 2*len(c.table))
	for i, key := range c.keys {
		slot := c.home(key)
		for c.table[slot] != 0 {
			slot = (slot + 1) & (len(c.table) - 1)
		}
		c.table[slot] = uint32(i + 1)
	}
}

// note keeps the score of a new entry.
func (c *cache) note(at int, score float32) {
	if c.best != nil {
		c.best[at] = score
	}
}

func (c *cache) advance() {
	if c.hand++; c.hand == c.size {
		c.hand = 0
	}
}

// forget takes a key out of the table, and moves those behind it up, so that no
// search meets a gap (Knuth, volume 3, section 6.4, algorithm R).
func (c *cache) forget(key uint64) {
	mask := len(c.table) - 1
	gap := c.home(key)
	for c.keys[c.table[gap]-1] != key {
		gap = (gap + 1) & mask
	}
	for next := gap; ; {
		next = (next + 1) & mask
		if c.table[next] == 0 {
			break
		}
		home := c.home(c.keys[c.table[next]-1])
		if (next-home)&mask >= (next-gap)&mask { // its home is not behind the gap
			c.table[gap] = c.table[next]
			gap = next
		}
	}
	c.table[gap] = 0
}
