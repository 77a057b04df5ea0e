// Package shard says which shard of a crawl owns a key.
//
// A crawl folder may hold several shards. Each has stores of its own in shard/NNN and owns a part of the hosts, of
// the documents and of the addresses. A key has 64 bits, and the top twelve say which of 4,096 buckets it is in. The
// bucket map says which shard owns a bucket:
//
//   - of hosts: by the url_key of a row, since all URLs of a host share its top 16 bits. These buckets move
//   - of addresses, by addressKey: as the first map of a crawl with that number of shards says
//   - of documents, by content_fp: as the map says with which the crawl was made; it never changes
//
// Only hosts make shards uneven, since each is as large as it is; documents and addresses are small and evenly spread. If they
// moved with the hosts, whoever gives hosts away would fetch less than the others.
//
// The map is the file MAP-V of the crawl folder; CURRENT says which version V counts. The layout is SPEC.md beside
// this file, version 2. If CURRENT names no map, the crawl has no shards.
package shard

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
)

const (
	bucketBits = 12

	// Buckets is how many buckets the keys are in.
	Buckets = 1 << bucketBits
	// Max is the largest number of shards.
	Max = store.MaxShards

	magic = "mercator-map"
)

// Map is a bucket map.
type Map struct {
	Version uint64 `json:"version"`
	Shards  int    `json:"shards"`
	Owners  []int  `json:"owners"` // of each bucket, in order
	// Documents is how many shards own documents, the first ones: those that the crawl was made with. 0: all.
	Documents int `json:"documents,omitempty"`
}

// New is the first map of a crawl: ranges of buckets of equal width, or nearly so, as "mmerge split --buckets" cuts.
func New(shards int) (*Map, error) {
	if shards < 1 || shards > Max {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d shards", shards), Want: fmt.Sprintf("1 to %d", Max)}
	}
	m := &Map{Version: 1, Shards: shards, Owners: make([]int, Buckets)}
	for b := range m.Owners {
		m.Owners[b] = first(uint64(b), shards)
	}
	return m, nil
}

// first is the owner of a bucket in the first map of so many shards.
func first(bucket uint64, shards int) int { return int(bucket) * shards / Buckets }

// Next is the map of other owners, without a version. It has more shards if owners names some that the map lacks: these own no documents.
func (m *Map) Next(owners []int) *Map {
	next := &Map{Shards: max(m.Shards, slices.Max(owners)+1), Owners: owners, Documents: m.Documents}
	if next.Shards > m.Shards {
		next.Documents = cmp.Or(m.Documents, m.Shards)
	}
	return next
}

// Grow gives new shards, up to a number of shards, an equal share of the buckets: each shard that there is gives the same part of its own, spread over them.
func (m *Map) Grow(shards int) (owners []int) {
	owners = slices.Clone(m.Owners)
	order := make([]int, Buckets)
	for b := range order {
		order[b] = b
	}
	slices.SortStableFunc(order, func(a, b int) int { return m.Owners[a] - m.Owners[b] })
	more, given := shards-m.Shards, 0
	for i, b := range order {
		if (i+1)*more/shards > i*more/shards {
			owners[b] = m.Shards + given%more
			given++
		}
	}
	return owners
}

// Bucket is the bucket of a key.
func Bucket(key uint64) int { return int(key >> (64 - bucketBits)) }

// Count is the number of shards; 1 of a crawl that has no map.
func (m *Map) Count() int {
	if m == nil {
		return 1
	}
	return m.Shards
}

// Of is the shard that owns the host of a key.
func (m *Map) Of(key uint64) int { return m.Owners[Bucket(key)] }

// OfDocument is the shard that owns a document, by its content_fp.
func (m *Map) OfDocument(key uint64) int {
	return first(key>>(64-bucketBits), cmp.Or(m.Documents, m.Shards))
}

// OfAddress is the shard that owns an address, which is written as in a row's column addr.
func (m *Map) OfAddress(addr string) int {
	return first(addressKey(addr)>>(64-bucketBits), m.Shards)
}

// addressKey is the key of an address: the xxh3-64 of its text. Fingerprints would not spread addresses: their top bits
// depend on the last characters of the text alone, which are digits.
func addressKey(addr string) uint64 { return xxh3.HashString(addr) }

// Encode gives the content of the map's file.
func (m *Map) Encode() ([]byte, error) {
	version := 1 // which releases before shards could be added read
	if m.Documents != 0 {
		version = 2
	}
	return store.SealAs(magic, version, m)
}

// Decode reads the content of the file of a name, and checks it.
func Decode(name string, data []byte) (*Map, error) {
	m := new(Map)
	version, err := store.UnsealAs(release.Map, name, magic, 2, data, m)
	if err != nil {
		return nil, err
	}
	bad := func(place, found, want string) (*Map, error) {
		return nil, &fault.Error{Class: fault.Corrupt, File: name, Place: place, Found: found, Want: want}
	}
	if m.Version == 0 || m.Version > store.MaxGeneration {
		return bad("version", strconv.FormatUint(m.Version, 10), "1 or more")
	}
	if m.Shards < 1 || m.Shards > Max {
		return bad("shards", strconv.Itoa(m.Shards), fmt.Sprintf("1 to %d", Max))
	}
	if len(m.Owners) != Buckets {
		return bad("owners", fmt.Sprintf("%d buckets", len(m.Owners)), strconv.Itoa(Buckets))
	}
	for b, n := range m.Owners {
		if n < 0 || n >= m.Shards {
			return bad(fmt.Sprintf("bucket %d", b), fmt.Sprintf("shard %d", n), fmt.Sprintf("0 to %d", m.Shards-1))
		}
	}
	switch {
	case version == 1 && m.Documents != 0:
		return bad("documents", strconv.Itoa(m.Documents), "none in version 1")
	case version == 2 && (m.Documents < 1 || m.Documents >= m.Shards):
		return bad("documents", strconv.Itoa(m.Documents), fmt.Sprintf("1 to %d", m.Shards-1))
	}
	return m, nil
}

// File is the place of a version of a crawl's map.
func File(crawlDir string, version uint64) string {
	return filepath.Join(crawlDir, fmt.Sprintf("MAP-%06d", version))
}

// Read reads the map that a crawl folder's CURRENT names; nil if the crawl has no shards.
func Read(fsys durable.FS, crawlDir string) (*Map, error) {
	cur, err := store.ReadCurrent(fsys, crawlDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Class: fault.Usage, File: crawlDir, Found: "not a crawl folder", Want: "a folder with a file CURRENT", Err: err}
	}
	if err != nil || cur.Map == 0 {
		return nil, err
	}
	return ReadVersion(fsys, crawlDir, cur.Map)
}

// ReadVersion reads a version of a crawl's map. Others get the same one: it is not to be changed.
func ReadVersion(fsys durable.FS, crawlDir string, version uint64) (*Map, error) {
	file := File(crawlDir, version)
	data, err := durable.ReadFile(fsys, file, store.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Class: fault.Corrupt, File: file, Found: "missing", Want: fmt.Sprintf("version %d of the bucket map", version), Err: err,
			Hint: "put it back from a copy: it says which shard owns which hosts"}
	}
	if err != nil {
		return nil, err
	}
	kept := &lastMaps[version%2]
	if last := kept.Load(); last != nil && last.m.Version == version && bytes.Equal(last.data, data) {
		return last.m, nil
	}
	m, err := Decode(file, data)
	if err == nil && m.Version != version {
		return nil, &fault.Error{Class: fault.Corrupt, File: file, Place: "version", Found: strconv.FormatUint(m.Version, 10), Want: strconv.FormatUint(version, 10)}
	}
	if err == nil {
		kept.Store(&readMap{data, m})
	}
	return m, err
}

// readMap is a map that was read, with its bytes: each stage of each shard reads the same, and a move reads the new one beside the old.
type readMap struct {
	data []byte
	m    *Map
}

var lastMaps [2]atomic.Pointer[readMap]

// Name is the folder of a shard in its crawl folder: "shard/007".
func Name(n int) string { return fmt.Sprintf("%s/%03d", store.ShardsDir, n) }

// Dir is the folder of a shard.
func Dir(crawlDir string, n int) string { return filepath.Join(crawlDir, filepath.FromSlash(Name(n))) }

// Dirs are the folders that hold a crawl's stores: the crawl folder, or the folder of each shard.
func Dirs(fsys durable.FS, crawlDir string) ([]string, error) {
	m, err := Read(fsys, crawlDir)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return []string{crawlDir}, nil
	}
	var dirs []string
	for n := range m.Shards {
		dirs = append(dirs, Dir(crawlDir, n))
	}
	return dirs, nil
}

// At returns the number of the shard with the folder dir, or with a store in dir; ok is false if there is none.
func At(dir string) (n int, ok bool) {
	if _, _, is := store.ShardAt(dir); is {
		dir = filepath.Join(dir, "any")
	}
	_, number := path.Split(store.Folder(dir, store.Options{}).Shard())
	n, err := strconv.Atoi(number)
	return n, err == nil
}
