package fpfile

// searchAVX512 is searchGo of n keys, from 1 to together.
//
//go:noescape
func searchAVX512(m *memory, keys *uint64, n int, found *[together]uint8)

func (m *memory) search(keys []uint64, found *[together]uint8) {
	if useAVX512 {
		searchAVX512(m, &keys[0], len(keys), found)
	} else {
		m.searchGo(keys, found)
	}
}

// fetch asks for a line of memory without waiting for it.
//
//go:noescape
func fetch(a *byte)

// containsAVX512 is searchGo of one key.
//
//go:noescape
func containsAVX512(m *memory, key uint64) uint8

func (m *memory) searchOne(key uint64) uint8 {
	if useAVX512 {
		return containsAVX512(m, key)
	}
	return m.searchOneGo(key)
}
