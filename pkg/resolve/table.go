package resolve

import (
	"encoding/binary"
	"time"
)

// table keeps answers in memory, without pointers that the garbage collector would
// have to follow: at 10^5 names these would be most of its work. When it is full it is
// emptied: a name that is looked up again costs a read or a question.
type table struct {
	limit  int64            // bytes
	at     map[uint64]int32 // by FP64 of the name: chunk × chunkSize + offset
	chunks [][]byte
}

const (
	chunkSize  = 1 << 18
	maxEntry   = 1 << 12 // of a chunk; a name is 253 bytes, and MaxAddrs addresses are 640
	indexBytes = 32      // what an entry costs in at, on average while that doubles
)

// newTable makes a table of so many bytes, which at cannot tell apart beyond 2 GiB.
func newTable(limit int64) *table { return &table{limit: min(limit, 1<<31), at: map[uint64]int32{}} }

// get finds a name's answer.
func (t *table) get(key uint64, name string) (a told, ok bool) {
	at, ok := t.at[key]
	if !ok {
		return a, false
	}
	e := t.chunks[at/chunkSize][at%chunkSize:]
	found, e := field(e)
	a.addrs, e = field(e)
	a.status, e = field(e)
	a.cname, e = field(e)
	a.expires = time.UnixMicro(int64(binary.LittleEndian.Uint64(e))).UTC()
	return a, found == name // the fingerprints of two names may be alike
}

func field(e []byte) (string, []byte) {
	n := int(binary.LittleEndian.Uint16(e))
	return string(e[2 : 2+n]), e[2+n:]
}

// hasRoom says whether another chunk may be taken.
func (t *table) hasRoom() bool {
	return int64(len(t.chunks)+1)*chunkSize+int64(len(t.at))*indexBytes <= t.limit
}

// put takes an answer in. It says false if the table had to be emptied for it.
func (t *table) put(key uint64, name string, a told) (hadRoom bool) {
	size := len(name) + len(a.addrs) + len(a.status) + len(a.cname) + 4*2 + 8
	if size > maxEntry {
		return true // from a store that somebody else wrote
	}
	n := len(t.chunks)
	hadRoom = true
	if n == 0 || len(t.chunks[n-1])+size > chunkSize {
		if !t.hasRoom() {
			t.chunks, t.at, hadRoom = t.chunks[:0], map[uint64]int32{}, false
		}
		t.chunks = append(t.chunks, make([]byte, 0, chunkSize))
		n = len(t.chunks)
	}
	c := &t.chunks[n-1]
	t.at[key] = int32((n-1)*chunkSize + len(*c))
	for _, s := range []string{name, a.addrs, a.status, a.cname} {
		*c = append(binary.LittleEndian.AppendUint16(*c, uint16(len(s))), s...)
	}
	*c = binary.LittleEndian.AppendUint64(*c, uint64(a.expires.UnixMicro()))
	return hadRoom
}
