package resolve

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"
)

// An item is a name with its entry, as tables and runs hold it: its length in 2 bytes, the
// name's FP64 and the expiry (µs) in 8 bytes each, all little-endian; then, each after its
// length as uvarint, name, addresses, error, canonical name, server, family, zone, absent and
// failed; those at the end that are empty are left out.
type item []byte

// Limits of an item. The text of an answer takes some 2 KiB at most.
const (
	itemHead = 2 + 8 + 8
	maxItem  = 1<<16 - 1
)

func appendItem(b []byte, key uint64, name string, e *entry) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(append(b, 0, 0), key)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Expires.UnixMicro()))
	texts := [...]string{name, e.Addr, e.Error, e.CNAME, e.Server, e.Family, e.Zone, e.Absent, e.Failed}
	n := len(texts)
	for n > 1 && texts[n-1] == "" {
		n--
	}
	for _, s := range texts[:n] {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	binary.LittleEndian.PutUint16(b[at:], uint16(len(b)-at))
	return b
}

// itemBytes is what an item takes at most.
func itemBytes(name string, e *entry) int {
	return itemHead + 9*binary.MaxVarintLen16 + len(name) + len(e.Addr) + len(e.Error) + len(e.CNAME) + len(e.Server) + len(e.Family) + len(e.Zone) + len(e.Absent) + len(e.Failed)
}

// firstItem is the item that bytes begin with.
func firstItem(b []byte) item { return b[:binary.LittleEndian.Uint16(b)] }

func (it item) key() uint64 { return binary.LittleEndian.Uint64(it[2:]) }

func (it item) name() []byte {
	name, _ := cutText(it[itemHead:])
	return name
}

// cutText takes one text off an item's rest.
func cutText(b []byte) (text, rest []byte) {
	n, w := binary.Uvarint(b)
	return b[w : w+int(n)], b[w+int(n):]
}

// entry reads the item's entry, in memory of its own: one string for all texts.
func (it item) entry() entry {
	e := entry{Expires: time.UnixMicro(int64(binary.LittleEndian.Uint64(it[10:]))).UTC()}
	_, b := cutText(it[itemHead:])
	rest := string(b)
	for _, to := range [...]*string{&e.Addr, &e.Error, &e.CNAME, &e.Server, &e.Family, &e.Zone, &e.Absent, &e.Failed} {
		if len(b) == 0 {
			break
		}
		n, w := binary.Uvarint(b)
		*to = rest[w : w+int(n)]
		b, rest = b[w+int(n):], rest[w+int(n):]
	}
	return e
}

// compare orders items as a cache file has them: by key, then by name.
func (it item) compare(key uint64, name []byte) int {
	switch k := it.key(); {
	case k < key:
		return -1
	case k > key:
		return 1
	}
	return bytes.Compare(it.name(), name)
}

// table keeps items in memory, without pointers that the garbage collector would have
// to follow: at 10^5 names these would be most of its work.
type table struct {
	limit  int64 // bytes
	seed   maphash.Seed
	index  []uint64 // by hash of the name: 32 bits of that, then place + 1 of an item; 0 is empty
	names  int
	chunks [][]byte // a place is chunk × chunkSize + offset
	used   int      // chunks that are not empty
}

const chunkSize = 1 << 18

// newTable makes a table of so many bytes, of which places can tell 2 GiB apart.
func newTable(limit int64) *table {
	return &table{limit: min(limit, 1<<31), seed: maphash.MakeSeed(), index: make([]uint64, 1<<10)}
}

func (t *table) at(place uint32) item { return firstItem(t.chunks[place/chunkSize][place%chunkSize:]) }

// slot finds the place in the index for a name, its hash's part there, and its item, if there
// is one. The hash is the table's own: names whose FP64 are alike can be made on purpose.
func (t *table) slot(name string) (slot int, tag uint64, it item) {
	tag = t.tag(name)
	for i := t.first(tag); ; i = (i + 1) & (len(t.index) - 1) {
		if t.index[i] == 0 {
			return i, tag, nil
		}
		if t.index[i]>>32 != tag {
			continue
		}
		if it := t.at(uint32(t.index[i]) - 1); string(it.name()) == name {
			return i, tag, it
		}
	}
}

func (t *table) tag(name string) uint64 { return maphash.String(t.seed, name) >> 32 }

// first is where the search for a hash begins.
func (t *table) first(tag uint64) int { return int(tag) & (len(t.index) - 1) }

// get finds a name's entry.
func (t *table) get(name string) (e entry, ok bool) {
	_, _, it := t.slot(name)
	if it == nil {
		return e, false
	}
	return it.entry(), true
}

// together is how many names getAll looks up side by side.
const together = 16

// getAll finds the entries of names that are not known, where they are. In a large table
// each lookup waits for memory twice; those of several names wait at the same time, and
// that is half of what a batch from the cache does of its own.
func (t *table) getAll(names []*lookup) {
	if t.names == 0 {
		return
	}
	var tags, heads [together]uint64
	var items [together]item
	for some := range slices.Chunk(names, together) {
		for i, l := range some {
			tags[i] = t.tag(l.name)
		}
		for i := range some {
			heads[i] = t.index[t.first(tags[i])]
		}
		for i := range some {
			if items[i] = nil; heads[i] != 0 {
				items[i] = t.at(uint32(heads[i]) - 1)
			}
		}
		for i, l := range some {
			if it := items[i]; l.known || it == nil {
				continue
			} else if heads[i]>>32 == tags[i] && string(it.name()) == l.name {
				l.entry, l.known = it.entry(), true
			} else {
				l.entry, l.known = t.get(l.name)
			}
		}
	}
}

// put takes an entry in, in place of the name's former one. It says false, and takes
// nothing, where there is no room.
func (t *table) put(key uint64, name string, e *entry) bool {
	if t.used == 0 || len(t.chunks[t.used-1])+itemBytes(name, e) > chunkSize {
		if t.used > 0 && int64(t.used+1)*chunkSize+int64(len(t.index))*8 > t.limit {
			return false
		}
		if t.used == len(t.chunks) {
			t.chunks = append(t.chunks, make([]byte, 0, chunkSize))
		}
		t.used++
	}
	if t.names*4 >= len(t.index)*3 {
		t.grow()
	}
	slot, tag, old := t.slot(name)
	if old == nil {
		t.names++
	}
	c := &t.chunks[t.used-1]
	t.index[slot] = tag<<32 | uint64((t.used-1)*chunkSize+len(*c)+1)
	*c = appendItem(*c, key, name, e)
	return true
}

// grow doubles the index.
func (t *table) grow() {
	old := t.index
	t.index = make([]uint64, 2*len(old))
	for _, e := range old {
		if e == 0 {
			continue
		}
		i := t.first(e >> 32)
		for t.index[i] != 0 {
			i = (i + 1) & (len(t.index) - 1)
		}
		t.index[i] = e
	}
}

// reset empties the table; it keeps its memory.
func (t *table) reset() {
	clear(t.index)
	t.names, t.used = 0, 0
	for i := range t.chunks {
		t.chunks[i] = t.chunks[i][:0]
	}
}

// sorted gives the items in a cache file's order.
func (t *table) sorted() []item {
	items := make([]item, 0, t.names)
	for _, e := range t.index {
		if e != 0 {
			items = append(items, t.at(uint32(e)-1))
		}
	}
	slices.SortFunc(items, func(a, b item) int { return a.compare(b.key(), b.name()) })
	return items
}
