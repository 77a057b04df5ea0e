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
	b = appendText(b, name)
	empty := 0 // texts that are left out unless another follows
	for _, s := range [...]*string{&e.Addr, &e.Error, &e.CNAME, &e.Server, &e.Family, &e.Zone, &e.Absent, &e.Failed} {
		if *s == "" {
			empty++
			continue
		}
		for ; empty > 0; empty-- {
			b = append(b, 0)
		}
		b = appendText(b, *s)
	}
	binary.LittleEndian.PutUint16(b[at:], uint16(len(b)-at))
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// itemBytes is what an item takes at most.
func itemBytes(name string, e *entry) int {
	return itemHead + 9*binary.MaxVarintLen16 + len(name) + len(e.Addr) + len(e.Error) + len(e.CNAME) + len(e.Server) + len(e.Family) + len(e.Zone) + len(e.Absent) + len(e.Failed)
}

// firstItem is the item that bytes begin with.
func firstItem(b []byte) item { return b[:binary.LittleEndian.Uint16(b)] }

func (it item) key() uint64 { return binary.LittleEndian.Uint64(it[2:]) }

func (it item) name() []byte {
	name, _ := it.cut()
	return name
}

// cut gives the item's name, and its other texts.
func (it item) cut() (name, rest []byte) {
	n, w := binary.Uvarint(it[itemHead:])
	end := itemHead + w + int(n)
	return it[itemHead+w : end], it[end:]
}

// entry reads the item's entry, in memory of its own: one string for all texts.
func (it item) entry() (e entry) {
	_, rest := it.cut()
	it.read(&e, string(rest))
	return e
}

// read reads the entry, whose texts are a copy of those behind the name.
func (it item) read(e *entry, texts string) {
	_, b := it.cut()
	*e = entry{Expires: time.UnixMicro(int64(binary.LittleEndian.Uint64(it[10:]))).UTC()}
	for _, to := range [...]*string{&e.Addr, &e.Error, &e.CNAME, &e.Server, &e.Family, &e.Zone, &e.Absent, &e.Failed} {
		if len(b) == 0 {
			break
		}
		n, w := binary.Uvarint(b)
		*to = texts[w : w+int(n)]
		b, texts = b[w+int(n):], texts[w+int(n):]
	}
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
	limit  int64    // bytes
	index  []uint64 // by hash of the name: 32 bits of that, then place + 1 of an item; 0 is empty
	names  int
	chunks [][]byte // a place is chunk × chunkSize + offset
	used   int      // chunks that are not empty
	texts  []byte   // of some items, for getAll
}

// seed is of the hashes of all tables. They are of this process alone: names whose FP64 are
// alike can be made on purpose.
var seed = maphash.MakeSeed()

// tagOf is a name's hash, as an index has it.
func tagOf(name string) uint64 { return maphash.String(seed, name) >> 32 }

const chunkSize = 1 << 18

// newTable makes a table of so many bytes, of which places can tell 2 GiB apart.
func newTable(limit int64) *table {
	return &table{limit: min(limit, 1<<31), index: make([]uint64, 1<<10)}
}

// expect makes room in the index of an empty table for so many names, as far as the limit
// allows.
func (t *table) expect(names int64) {
	size := len(t.index)
	for int64(size)*3 < names*4 && int64(size)*64 <= t.limit {
		size *= 2
	}
	t.index = make([]uint64, size)
}

func (t *table) at(place uint32) item { return firstItem(t.chunks[place/chunkSize][place%chunkSize:]) }

// slot finds the place in the index for a name with its tag, and its item, if there is one.
func (t *table) slot(name string, tag uint64) (slot int, it item) {
	for i := t.first(tag); ; i = (i + 1) & (len(t.index) - 1) {
		if t.index[i] == 0 {
			return i, nil
		}
		if t.index[i]>>32 != tag {
			continue
		}
		if it := t.at(uint32(t.index[i]) - 1); string(it.name()) == name {
			return i, it
		}
	}
}

// first is where the search for a tag begins.
func (t *table) first(tag uint64) int { return int(tag) & (len(t.index) - 1) }

// get finds a name's entry.
func (t *table) get(name string) (e entry, ok bool) {
	_, it := t.slot(name, tagOf(name))
	if it == nil {
		return e, false
	}
	return it.entry(), true
}

// together is how many names are looked up side by side. In a large table each lookup waits
// for memory twice; those of several names wait at the same time, and that is half of what
// a batch from the cache does of its own.
const together = 16

// getAll finds the entries of names that are not known, where they are.
func (t *table) getAll(names []*lookup) {
	if t.names == 0 {
		return
	}
	var heads [together]uint64
	var items [together]item
	for some := range slices.Chunk(names, together) {
		for i, l := range some {
			heads[i] = t.index[t.first(l.tag)]
		}
		for i := range some {
			if items[i] = nil; heads[i] != 0 {
				items[i] = t.at(uint32(heads[i]) - 1)
			}
		}
		t.texts = t.texts[:0]
		for i, l := range some {
			it := items[i]
			if it != nil && !l.known && (heads[i]>>32 != l.tag || string(it.name()) != l.name) {
				_, it = t.slot(l.name, l.tag)
			}
			if items[i] = it; it == nil || l.known {
				items[i] = nil
				continue
			}
			_, rest := it.cut()
			t.texts = append(t.texts, rest...)
		}
		texts := string(t.texts) // one for all
		for i, l := range some {
			if it := items[i]; it != nil {
				_, rest := it.cut()
				it.read(&l.entry, texts[:len(rest)])
				l.known, texts = true, texts[len(rest):]
			}
		}
	}
}

// put takes an entry in, in place of the name's former one. It says false, and takes
// nothing, where there is no room.
func (t *table) put(key uint64, name string, e *entry) bool {
	return t.putTagged(tagOf(name), key, name, e)
}

// putAll is put of several names. It takes as many as there is room for, and returns the rest.
func (t *table) putAll(names []lookup) (rest []lookup) {
	var heads [together]uint64
	for len(names) > 0 {
		some := names[:min(together, len(names))]
		for i := range some {
			some[i].tag = tagOf(some[i].name)
			heads[i] = t.index[t.first(some[i].tag)] // which is then at hand
		}
		for i := range some {
			if l := &some[i]; !t.putTagged(l.tag, l.key, l.name, &l.entry) {
				return names[i:]
			}
		}
		names = names[len(some):]
	}
	return nil
}

func (t *table) putTagged(tag, key uint64, name string, e *entry) bool {
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
	slot, old := t.slot(name, tag)
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
