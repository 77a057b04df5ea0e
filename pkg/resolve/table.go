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
// length as uvarint, name, addresses, error, canonical name, server and family;
// those at the end that are empty are left out.
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
	for _, s := range [...]*string{&e.Addr, &e.Error, &e.CNAME, &e.Server, &e.Family} {
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
	return itemHead + 6*binary.MaxVarintLen16 + len(name) + len(e.Addr) + len(e.Error) + len(e.CNAME) + len(e.Server) + len(e.Family)
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
	for _, to := range [...]*string{&e.Addr, &e.Error, &e.CNAME, &e.Server, &e.Family} {
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
//
// The index is by FP64, so that a cache file's names fill it from its beginning to its end.
// But names whose FP64 are alike can be made on purpose: if one is too far from where it is
// looked for first, the index is made again, by a hash of this process alone.
type table struct {
	limit  int64    // bytes
	index  []uint64 // a tag of 32 bits, then place + 1 of an item; 0 is empty
	seeded bool     // tags are not of the FP64, but of the process's hash
	names  int
	chunks [][]byte // a place is chunk × chunkSize + offset
	used   int      // chunks that are not empty
	texts  []byte   // of some items, for getAll
}

// maxProbes is how far a name is from where it is looked for first. With tags that are even
// it is a third of that, for 10^6 names.
const maxProbes = 1024

var seed = maphash.MakeSeed()

const chunkSize = 1 << 18

// newTable makes a table of so many bytes, of which places can tell 2 GiB apart.
func newTable(limit int64) *table {
	return &table{limit: min(limit, 1<<31), index: newIndex(1 << 10)}
}

// newIndex makes an index of so many places. Each is written at once: memory that is read
// before it is written costs two page faults, and the second one stops the other processors.
func newIndex(size int) []uint64 {
	index := make([]uint64, size)
	clear(index)
	return index
}

// expect makes room in the index of an empty table for so many names, as far as the limit
// allows.
func (t *table) expect(names int64) {
	size := len(t.index)
	for int64(size)*3 < names*4 && int64(size)*64 <= t.limit {
		size *= 2
	}
	t.index = newIndex(size)
}

func (t *table) at(place uint32) item { return firstItem(t.chunks[place/chunkSize][place%chunkSize:]) }

// tag is what the index has of a name, with its FP64.
func (t *table) tag(key uint64, name string) uint64 {
	if t.seeded {
		return maphash.String(seed, name) >> 32
	}
	return key >> 32
}

// first is where the search for a tag begins: it ascends with the tag.
func (t *table) first(tag uint64) int { return int(tag * uint64(len(t.index)) >> 32) }

// slot finds the place in the index for a name with its tag, and its item, if there is one.
// It gives -1 if that is too far.
func (t *table) slot(name string, tag uint64) (slot int, it item) {
	i := t.first(tag)
	for n := 0; n < maxProbes || t.seeded; n++ {
		if t.index[i] == 0 {
			return i, nil
		}
		if t.index[i]>>32 == tag {
			if it := t.at(uint32(t.index[i]) - 1); string(it.name()) == name {
				return i, it
			}
		}
		i = (i + 1) & (len(t.index) - 1)
	}
	return -1, nil
}

// get finds a name's entry.
func (t *table) get(key uint64, name string) (e entry, ok bool) {
	_, it := t.slot(name, t.tag(key, name))
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
	var tags, heads [together]uint64
	var items [together]item
	for some := range slices.Chunk(names, together) {
		for i, l := range some {
			tags[i] = t.tag(l.key, l.name)
			heads[i] = t.index[t.first(tags[i])]
		}
		for i := range some {
			if items[i] = nil; heads[i] != 0 {
				items[i] = t.at(uint32(heads[i]) - 1)
			}
		}
		t.texts = t.texts[:0]
		for i, l := range some {
			it := items[i]
			if it != nil && !l.known && (heads[i]>>32 != tags[i] || string(it.name()) != l.name) {
				_, it = t.slot(l.name, tags[i])
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
		t.rebuild(2 * len(t.index))
	}
	slot, old := t.slot(name, t.tag(key, name))
	if slot < 0 {
		t.seeded = true
		t.rebuild(len(t.index))
		slot, old = t.slot(name, t.tag(key, name))
	}
	if old == nil {
		t.names++
	}
	c := &t.chunks[t.used-1]
	t.index[slot] = t.tag(key, name)<<32 | uint64((t.used-1)*chunkSize+len(*c)+1)
	*c = appendItem(*c, key, name, e)
	return true
}

// rebuild makes the index again, with so many places.
func (t *table) rebuild(size int) {
	old := t.index
	t.index = newIndex(size)
	for _, e := range old {
		if e == 0 {
			continue
		}
		it := t.at(uint32(e) - 1)
		tag := t.tag(it.key(), string(it.name()))
		i := t.first(tag)
		for n := 1; t.index[i] != 0; n++ {
			if n == maxProbes && !t.seeded {
				t.seeded, t.index = true, old
				t.rebuild(size)
				return
			}
			i = (i + 1) & (size - 1)
		}
		t.index[i] = tag<<32 | e&(1<<32-1)
	}
}

// reset empties the table; it keeps its memory.
func (t *table) reset() {
	clear(t.index)
	t.names, t.used, t.seeded = 0, 0, false
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
