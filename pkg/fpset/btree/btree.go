// Package btree is a set of fingerprints in a B-tree on disk (go.etcd.io/bbolt):
// the other way to keep Mercator's sets, behind the interface of package fpset.
//
// # The set on disk
//
// One file of role "run", which all generations share. It grows, and its pages
// are written again in place; so each fingerprint is kept with the number of the
// change that added it (its tag), and the store's state names the tags that count:
//
//	key    fingerprint, 8 bytes, big-endian · tag, 4 bytes, big-endian
//	value  none
//
//	state tags   "1-4,7": those of this generation
//	state count  fingerprints of this generation
//	state sum    of their mixed values, modulo 2⁶⁴
//
// A tag is given once in the life of the file, in the file, before the first key of
// the change. So keys of a change that did not commit, of an abandoned round, and of
// generations after the one that is read are in the file and are not seen, and
// every generation can be gone back to, any number of times.
//
// # What it costs
//
//   - 40 to 60 bytes a fingerprint, and a page written for each that is added,
//     since fingerprints come in no order. Runs cost 5 bytes, and some ten written.
//   - Keys that are not seen any more stay in the file.
//   - Pages are mapped into memory: the resident size grows with what is read,
//     beyond --memory, and reads cannot be counted.
//   - Readers wait while a change is being written, and a change for readers.
//   - Pages carry no checksum. Check compares all fingerprints with the count and the
//     sum; a damaged page that answers from the rest of the file still make sense is
//     not noticed before.
//   - The file is the operating system's, not that of store.Options.FS.
package btree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"mercator/formats/fpfile"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/merge"
)

// Name is that of the implementation.
const Name = "btree"

const (
	roleTree     = "run"
	stateBatches = "batches"
	stateTags    = "tags"
	stateCount   = "count"
	stateSum     = "sum"

	keyBytes = 8 + 4

	// keysPerWrite bounds the pages that one write of the tree holds in memory: a
	// key touches a leaf of its own, of some 10 KiB in memory.
	keysPerWrite = 1000

	// lockWait is how long a file that others have open is waited for.
	lockWait = 70 * time.Second
)

var bucket = []byte("keys")

// Set is one generation of a set. One goroutine.
type Set struct {
	dir   string
	path  string // "" if nothing was ever added
	entry *store.Entry
	poly  uint64
	tags  tags
	count uint64
	sum   uint64
	db    *bbolt.DB // nil until asked
	view  *bbolt.Tx
	tests uint64
}

// Open opens the set that a manifest of the store describes.
func Open(st *store.Store, m *store.Manifest, poly uint64) (*Set, error) {
	s := &Set{dir: st.Dir(), poly: poly}
	for i, e := range m.Files {
		if e.Role == roleTree {
			s.entry, s.path = &m.Files[i], st.Path(e.Path)
		}
	}
	if s.entry == nil {
		return s, nil
	}
	var err error
	if s.tags, err = parseTags(m.State[stateTags]); err != nil {
		return nil, s.corrupt("state tags", err.Error(), "spans such as 1-4,7")
	}
	if s.count, err = strconv.ParseUint(m.State[stateCount], 10, 64); err != nil {
		return nil, s.corrupt("state count", err.Error(), "a number")
	}
	if s.sum, err = strconv.ParseUint(m.State[stateSum], 16, 64); err != nil {
		return nil, s.corrupt("state sum", err.Error(), "a hexadecimal number")
	}
	info, err := os.Stat(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, s.corrupt("", "no file", "the file that the manifest names")
	}
	if err != nil {
		return nil, err
	}
	if info.Size() < s.entry.Length {
		return nil, s.corrupt("", fmt.Sprintf("%d bytes", info.Size()), fmt.Sprintf("%d or more, as in the manifest", s.entry.Length))
	}
	return s, nil
}

func (s *Set) corrupt(place, found, want string) error {
	return &fault.Error{Class: fault.Corrupt, File: s.path, Place: place, Found: found, Want: want, Hint: `go back with "mckpt restore"`}
}

// guard runs fn, and makes an error of what a damaged page leads to: panics of
// the tree's code, and reads outside of the mapped file.
func (s *Set) guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = s.corrupt("", fmt.Sprint(r), "a sound B-tree")
		}
	}()
	return fn()
}

// openTree opens the file, and waits for those who have it open in a way that
// excludes this one.
func (s *Set) openTree(path string, readOnly bool) (db *bbolt.DB, err error) {
	err = s.guard(func() (err error) {
		db, err = bbolt.Open(path, 0o666, &bbolt.Options{ReadOnly: readOnly, Timeout: lockWait, FreelistType: bbolt.FreelistMapType})
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &fault.Error{Class: fault.Busy, File: path, Found: "open in another process", Hint: "wait for it to end"}
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, s.corrupt("", err.Error(), "a B-tree")
	}
	return db, err
}

// cursor starts to read; nil if there is no file.
func (s *Set) cursor() (*bbolt.Cursor, error) {
	if s.path == "" {
		return nil, nil
	}
	if s.db == nil {
		db, err := s.openTree(s.path, true)
		if err != nil {
			return nil, err
		}
		s.db = db
		if s.view, err = db.Begin(false); err != nil {
			return nil, err
		}
	}
	b := s.view.Bucket(bucket)
	if b == nil {
		return nil, s.corrupt("", "no keys", fmt.Sprint(s.count))
	}
	return b.Cursor(), nil
}

// Polynomial is the one that all fingerprints of the set were made with.
func (s *Set) Polynomial() uint64 { return s.poly }

// Count is the number of fingerprints.
func (s *Set) Count() uint64 { return s.count }

// ContainsAll sets seen[i] where keys[i] is in the set.
func (s *Set) ContainsAll(keys []uint64, seen []bool) error {
	s.tests += uint64(len(keys))
	return s.guard(func() error {
		c, err := s.cursor()
		if c == nil || err != nil {
			return err
		}
		var from [keyBytes]byte
		for i, key := range keys {
			binary.BigEndian.PutUint64(from[:], key)
			for k, _ := c.Seek(from[:]); len(k) == keyBytes && bytes.Equal(k[:8], from[:8]); k, _ = c.Next() {
				if s.tags.has(binary.BigEndian.Uint32(k[8:])) {
					seen[i] = true
					break
				}
			}
		}
		return nil
	})
}

// Sweep begins a pass: a B-tree is asked in order like in any other.
func (s *Set) Sweep(uint64) interface {
	Mark(keys []uint64, seen []bool) error
} {
	return sweep{s}
}

type sweep struct{ s *Set }

func (w sweep) Mark(keys []uint64, seen []bool) error { return w.s.ContainsAll(keys, seen) }

// All gives every fingerprint in ascending order.
func (s *Set) All() (merge.Source, error) {
	c, err := s.cursor()
	return &all{s: s, c: c}, err
}

// all reads the fingerprints of the generation in order.
type all struct {
	s     *Set
	c     *bbolt.Cursor
	begun bool
	block []uint64
}

const allBlock = 4096 // keys

// Block returns the next fingerprints; io.EOF after the last.
func (a *all) Block() ([]uint64, error) {
	if a.c == nil {
		return nil, io.EOF
	}
	a.block = a.block[:0]
	err := a.s.guard(func() error {
		for len(a.block) < allBlock {
			k, _ := a.next()
			if k == nil {
				break
			}
			if len(k) != keyBytes {
				return a.s.corrupt("", fmt.Sprintf("a key of %d bytes", len(k)), fmt.Sprint(keyBytes))
			}
			if a.s.tags.has(binary.BigEndian.Uint32(k[8:])) {
				a.block = append(a.block, binary.BigEndian.Uint64(k))
			}
		}
		return nil
	})
	if err == nil && len(a.block) == 0 {
		err = io.EOF
	}
	return a.block, err
}

func (a *all) next() (k, v []byte) {
	if a.begun {
		return a.c.Next()
	}
	a.begun = true
	return a.c.First()
}

// Extend puts into tx, whose base is the set, the set with the fresh keys. They
// are in the file when it returns, and count when tx commits.
func (s *Set) Extend(tx *store.Tx, fresh *fpfile.Reader) error {
	if err := s.Close(); err != nil { // its lock excludes the writer
		return err
	}
	name, path, err := s.file(tx)
	if err != nil {
		return err
	}
	db, err := s.openTree(path, false)
	if err != nil {
		return err
	}
	var tag uint32
	sum := s.sum
	err = s.guard(func() error {
		if tag, err = newTag(db); err != nil {
			return err
		}
		return insert(db, tag, fresh, &sum)
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	tx.Put(store.Entry{Path: name, Role: roleTree, Length: info.Size(), Growing: true})
	tx.SetState(stateTags, s.tags.with(tag).String())
	tx.SetState(stateBatches, strconv.FormatUint(s.tags.number()+1, 10))
	tx.SetState(stateCount, strconv.FormatUint(s.count+fresh.Count(), 10))
	tx.SetState(stateSum, strconv.FormatUint(sum, 16))
	return nil
}

// file returns the tree's name in the store and its path. The first change makes
// it, and finds the one that it made when it is run again after a crash.
func (s *Set) file(tx *store.Tx) (name, path string, err error) {
	if s.entry != nil {
		return s.entry.Path, s.path, nil
	}
	old, err := tx.Journaled()
	if err != nil {
		return "", "", err
	}
	if len(old) > 0 {
		name = old[0]
	} else if name, err = tx.Journal("tree/", ".bolt"); err != nil {
		return "", "", err
	}
	path = filepath.Join(s.dir, filepath.FromSlash(name))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return "", "", err
	}
	return name, path, errors.Join(f.Close(), durable.OS.SyncDir(filepath.Dir(path)))
}

// newTag gives the change a number that no other has had.
func newTag(db *bbolt.DB) (tag uint32, err error) {
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		n, err := b.NextSequence()
		tag = uint32(n)
		if err == nil && uint64(tag) != n {
			err = errors.New("2³² changes, and there are no tags for more")
		}
		return err
	})
	return tag, err
}

// insert adds the keys of r, and their mixed values to sum.
func insert(db *bbolt.DB, tag uint32, r *fpfile.Reader, sum *uint64) error {
	it := r.All()
	for {
		keys, err := it.Block()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for len(keys) > 0 {
			part := keys[:min(keysPerWrite, len(keys))]
			keys = keys[len(part):]
			err := db.Update(func(tx *bbolt.Tx) error {
				b := tx.Bucket(bucket)
				for _, key := range part {
					k := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, key), tag)
					if err := b.Put(k, nil); err != nil {
						return err
					}
					*sum += mix(key)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
}

// mix is a bijection that spreads every bit of x (the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Check reads all fingerprints, and compares their order, number and sum.
func (s *Set) Check(progress func(bytes int64)) error {
	src, err := s.All()
	if err != nil {
		return err
	}
	var n, sum, last uint64
	for {
		keys, err := src.Block()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for _, k := range keys {
			if n > 0 && k <= last {
				return s.corrupt("", fmt.Sprintf("fingerprint %016x behind %016x", k, last), "ascending ones")
			}
			last = k
			n++
			sum += mix(k)
		}
		if progress != nil {
			progress(int64(len(keys)) * keyBytes)
		}
	}
	if n != s.count || sum != s.sum {
		return s.corrupt("", fmt.Sprintf("%d fingerprints of sum %x", n, sum), fmt.Sprintf("%d of sum %x", s.count, s.sum))
	}
	return nil
}

// Reads is how many tests there were. Reads of a mapped file cannot be counted.
func (s *Set) Reads() (tests, reads, bytes uint64) { return s.tests, 0, 0 }

// Detail is what the verb stat prints.
func (s *Set) Detail() any {
	d := struct {
		File string `json:"file,omitempty"`
		Size int64  `json:"bytes"` // of the file as this generation left it, other generations' keys included
		Tags string `json:"tags"`  // of the changes that count
	}{Tags: s.tags.String()}
	if s.entry != nil {
		d.File, d.Size = s.entry.Path, s.entry.Length
	}
	return d
}

// Close lets go of the file. A Set that is asked again opens it again.
func (s *Set) Close() error {
	if s.db == nil {
		return nil
	}
	var err error
	if s.view != nil {
		err = s.view.Rollback()
	}
	err = errors.Join(err, s.db.Close())
	s.db, s.view = nil, nil
	return err
}

// tags are numbers of changes, as spans in ascending order.
type tags []span

type span struct{ first, last uint32 }

func (t tags) has(tag uint32) bool {
	for _, s := range t {
		if s.first <= tag && tag <= s.last {
			return true
		}
	}
	return false
}

func (t tags) number() (n uint64) {
	for _, s := range t {
		n += uint64(s.last-s.first) + 1
	}
	return n
}

// with adds a tag above all others.
func (t tags) with(tag uint32) tags {
	if n := len(t); n > 0 && t[n-1].last+1 == tag {
		return append(append(tags(nil), t[:n-1]...), span{t[n-1].first, tag})
	}
	return append(append(tags(nil), t...), span{tag, tag})
}

func (t tags) String() string {
	var parts []string
	for _, s := range t {
		if s.first == s.last {
			parts = append(parts, fmt.Sprint(s.first))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", s.first, s.last))
		}
	}
	return strings.Join(parts, ",")
}

func parseTags(text string) (t tags, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, found := strings.Cut(part, "-")
		if !found {
			last = first
		}
		a, err := strconv.ParseUint(first, 10, 32)
		if err != nil {
			return nil, err
		}
		b, err := strconv.ParseUint(last, 10, 32)
		if err != nil {
			return nil, err
		}
		if a > b || len(t) > 0 && a <= uint64(t[len(t)-1].last) {
			return nil, fmt.Errorf("tags %q", text)
		}
		t = append(t, span{uint32(a), uint32(b)})
	}
	return t, nil
}
