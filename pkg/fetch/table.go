package fetch

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"

	"mercator/pkg/merge"
)

// id stands for a URL or the name of a host. FP64 would not do: people can make two of
// one fingerprint.
type id [16]byte

func idOf(text string) id {
	sum := sha256.Sum256([]byte(text))
	return id(sum[:16])
}

// table keeps numbers by id on disk, so that memory holds none of them, however many there
// are: a hash table with linear probing, in which the first bits of an id say where it
// stands. The file has no name: nothing stays of it, whatever happens.
//
// One goroutine at a time.
type table struct {
	dir   string
	file  *os.File        // nil: nothing was put
	bits  int             // there are 1<<bits places, and behind them room for what overflows the last
	n     int64           // ids
	stale func(nums) bool // what may be left out when the table grows; nil: nothing
}

// nums is what is kept of an id.
type nums [3]int64

const (
	entryBytes = 16 + 3*8 // the id, zero where there is none (nobody finds a text for that); nums, little-endian
	leastBits  = 12
	probed     = 8 // entries that are read at a time
)

func (t *table) close() {
	if t.file != nil {
		t.file.Close()
	}
}

// get returns what was put under an id, or zeros.
func (t *table) get(i id) (v nums, err error) {
	if t.file == nil {
		return v, nil
	}
	_, v, _, err = t.find(i)
	return v, err
}

// put keeps v under an id, in place of what was there.
func (t *table) put(i id, v nums) error {
	if t.file == nil || t.n >= 1<<t.bits/2 {
		if err := t.grow(); err != nil {
			return err
		}
	}
	at, _, known, err := t.find(i)
	if err != nil {
		return err
	}
	if !known {
		t.n++
	}
	var b [entryBytes]byte
	copy(b[:], i[:])
	for k, x := range v {
		binary.LittleEndian.PutUint64(b[16+8*k:], uint64(x))
	}
	_, err = t.file.WriteAt(b[:], at)
	return err
}

// find returns where an id stands and what is kept of it, or the place for it.
func (t *table) find(i id) (at int64, v nums, known bool, err error) {
	at = int64(binary.BigEndian.Uint64(i[:])>>(64-t.bits)) * entryBytes
	var b [probed * entryBytes]byte
	for {
		n, err := t.file.ReadAt(b[:], at)
		if err != nil && err != io.EOF {
			return 0, v, false, err
		}
		clear(b[n:]) // behind the end of the file there is nothing yet
		for e := b[:]; len(e) > 0; e = e[entryBytes:] {
			switch id(e) {
			case i:
				return at, decodeNums(e), true, nil
			case id{}:
				return at, v, false, nil
			}
			at += entryBytes
		}
	}
}

// each calls f with all that is not stale.
func (t *table) each(f func(i id, v nums) error) error {
	if t.file == nil {
		return nil
	}
	in := bufio.NewReaderSize(io.NewSectionReader(t.file, 0, 1<<62), 64<<10)
	var b [entryBytes]byte
	for {
		if _, err := io.ReadFull(in, b[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		v := decodeNums(b[:])
		if id(b[:]) == (id{}) || t.stale != nil && t.stale(v) {
			continue
		}
		if err := f(id(b[:]), v); err != nil {
			return err
		}
	}
}

func decodeNums(entry []byte) (v nums) {
	for k := range v {
		v[k] = int64(binary.LittleEndian.Uint64(entry[16+8*k:]))
	}
	return v
}

// grow moves what is not stale to a file of twice the places.
func (t *table) grow() error {
	file, err := merge.TempFile(t.dir)
	if err != nil {
		return err
	}
	next := table{dir: t.dir, file: file, bits: max(leastBits, t.bits+1), stale: t.stale}
	if err := t.each(next.put); err != nil {
		file.Close()
		return err
	}
	t.close()
	*t = next
	return nil
}
