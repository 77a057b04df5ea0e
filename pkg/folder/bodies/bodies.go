// Package bodies hands documents from mfetch to the commands behind it in a round, so
// that these need not inflate what mfetch has just deflated.
//
// mfetch leaves the head and the decoded body of each document in a file of the fetch store. The file is
// a cache: its bytes are in the archive too, and a reader that does not find a document reads the archive. Nothing
// syncs it, no manifest names it, and it is deleted when the round is committed or another one fetches.
//
// # Layout
//
// The file has a table, and behind it a ring of bytes. Byte order is little-endian.
//
//	table   16,384 buckets of 4 entries of 32 bytes
//	        key       8 bytes   hash of the row, with its place in the archive
//	        sum       8 bytes   hash of head and body, xor key
//	        at        8 bytes   where these stand in the file
//	        head      4 bytes   length of the head
//	        body      4 bytes   length of the body
//	ring    at most 256 MiB: heads, each with its body. Where it is full, it begins anew.
//
// # Invariants
//
//   - A Reader returns what the Writer was given for the same row, or nothing: the file may be cut, damaged,
//     of another attempt, or overwritten while it is read.
//   - The file takes at most 258 MiB, and at most an eighth of the free room. The shards of a crawl, which may share
//     a disk, divide this eighth evenly.
//   - A Writer fails in silence: an error ends it and deletes the file.
//
// A Writer serves many goroutines, a Reader one.
package bodies

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/web/httpmsg"
)

// File is the name in the fetch store. It is the name of an unpublished file, so that the next change of the store, and gc, delete it.
const File = ".bodies" + durable.TempSuffix

// BodyMax is the longest body that Put takes, in bytes; longer ones are few. mfetch leaves out shorter ones, too, if they came
// coded and swell more than most.
const BodyMax = 2 << 20

const (
	entryLen  = 32
	ways      = 4 // entries of a bucket
	buckets   = 1 << 14
	tableLen  = buckets * ways * entryLen
	ringMax   = 256 << 20
	ringMin   = 8 << 20 // with less there is no file
	roomShare = 8       // the file takes at most one part in this many of what is free
	lengthMax = httpmsg.HeadMax + BodyMax
)

// entry is a line of the table.
type entry struct {
	key, sum   uint64
	at         int64
	head, body uint32
}

func (e *entry) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.key)
	b = binary.LittleEndian.AppendUint64(b, e.sum)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.at))
	b = binary.LittleEndian.AppendUint32(b, e.head)
	return binary.LittleEndian.AppendUint32(b, e.body)
}

func parse(b []byte) entry {
	return entry{
		key: binary.LittleEndian.Uint64(b), sum: binary.LittleEndian.Uint64(b[8:]), at: int64(binary.LittleEndian.Uint64(b[16:])),
		head: binary.LittleEndian.Uint32(b[24:]), body: binary.LittleEndian.Uint32(b[28:]),
	}
}

// keyOf hashes what names the contact and the record of a row.
func keyOf(row *record.Fetch) uint64 {
	var room [512]byte
	b := room[:0]
	for _, n := range [...]int64{int64(row.FetchTime), row.WARCOffset, row.WARCLength, row.BodyLength} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	for _, s := range [...]string{row.WARCFilename, row.PayloadSHA1, row.URL} {
		b = append(append(b, s...), 0)
	}
	return xxh3.Hash(b)
}

// sumOf hashes a document; its first head bytes are the head.
func sumOf(b []byte, head uint32) uint64 { return xxh3.HashSeed(b, uint64(head)) }

// Place is where a document was put. The zero Place is none.
type Place struct{ entry }

// Writer fills the file.
type Writer struct {
	fs   durable.FS
	path string
	f    durable.File
	ring int64
	bad  atomic.Bool

	mu   sync.Mutex
	next int64 // in the ring
	turn [buckets]uint8
}

// Create replaces the file of a fetch store. sharing is how many stores may do so on the same disk, this one included.
// nil: there is too little room for a file, and commands read the archive.
func Create(fsys durable.FS, dir string, sharing int) *Writer {
	w := &Writer{fs: fsys, path: filepath.Join(dir, File)}
	if err := fsys.Remove(w.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	free, err := durable.Free(dir)
	if w.ring = ringLen(free, sharing); err != nil || w.ring < ringMin {
		return nil
	}
	if w.f, err = fsys.OpenFile(w.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
		return nil
	}
	return w
}

// ringLen is the length of the ring where so many bytes are free.
func ringLen(free int64, sharing int) int64 {
	return min(free/roomShare/int64(sharing)-tableLen, ringMax)
}

// Put writes document b; its first head bytes are the head. Enter has to follow.
func (w *Writer) Put(b []byte, head int) Place {
	n := int64(len(b))
	if n == 0 || head > httpmsg.HeadMax || n-int64(head) > BodyMax || n > w.ring || w.bad.Load() {
		return Place{}
	}
	w.mu.Lock()
	if w.next+n > w.ring {
		w.next = 0
	}
	at := tableLen + w.next
	w.next += n
	w.mu.Unlock()
	if _, err := w.f.WriteAt(b, at); err != nil {
		w.Drop()
		return Place{}
	}
	return Place{entry{sum: sumOf(b, uint32(head)), at: at, head: uint32(head), body: uint32(len(b) - head)}}
}

// Enter makes a document known under its row, which has its place in the archive by now.
func (w *Writer) Enter(row *record.Fetch, p Place) {
	if p.at == 0 || w.bad.Load() {
		return
	}
	p.key = keyOf(row)
	p.sum ^= p.key // so that no part of another entry goes with this key
	bucket := p.key % buckets
	w.mu.Lock()
	turn := w.turn[bucket] % ways
	w.turn[bucket]++
	w.mu.Unlock()
	var room [entryLen]byte
	if _, err := w.f.WriteAt(p.append(room[:0]), int64(bucket*ways+uint64(turn))*entryLen); err != nil {
		w.Drop()
	}
}

// Drop deletes the file: its disk is full, or may be. Later calls of Put and Enter do nothing.
func (w *Writer) Drop() {
	if !w.bad.Swap(true) {
		_ = w.f.Truncate(0) // readers then find nothing, with or without it
		_ = w.fs.Remove(w.path)
	}
}

// Close leaves the file to its readers.
func (w *Writer) Close() error { return w.f.Close() }

// Remove deletes the file of a fetch store, if there is one.
func Remove(fsys durable.FS, dir string) error {
	err := fsys.Remove(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Reader finds documents in the file.
type Reader struct {
	f      *os.File
	bucket [ways * entryLen]byte
}

// Open opens the file of a fetch store; nil if there is none that can be read.
func Open(dir string) *Reader {
	f, err := durable.Open(filepath.Join(dir, File))
	if err != nil {
		return nil
	}
	return &Reader{f: f}
}

// Read returns head and body of a row's document, in buf if that is large enough. ok is false where the
// archive has to be read.
func (r *Reader) Read(row *record.Fetch, buf []byte) (head, body []byte, ok bool) {
	key := keyOf(row)
	if _, err := r.f.ReadAt(r.bucket[:], int64(key%buckets)*ways*entryLen); err != nil {
		return nil, nil, false
	}
	for b := r.bucket[:]; len(b) > 0; b = b[entryLen:] {
		e := parse(b)
		n := int64(e.head) + int64(e.body)
		if e.key != key || e.at < tableLen || n > lengthMax || int64(e.body) != row.BodyLength {
			continue
		}
		if int64(cap(buf)) < n {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		if _, err := r.f.ReadAt(buf, e.at); err == nil && sumOf(buf, e.head)^e.key == e.sum {
			return buf[:e.head], buf[e.head:], true
		}
	}
	return nil, nil, false
}

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }
