package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

const (
	CurrentFile = "CURRENT"
	// CheckpointsDir is the folder of checkpoints in a crawl folder. Its files are named by number.
	CheckpointsDir = "checkpoints"
	// ModulesDir is the folder of modules' stores in a crawl folder. They belong to the crawl.
	ModulesDir = "modules"
	// ShardsDir is a folder of a crawl folder of several shards, which are folders in it, named by three digits. Their
	// stores belong to the crawl folder.
	ShardsDir = "shard"
	// MaxShards is how many shards such a name can tell apart.
	MaxShards = 512
)

// Current is the content of CURRENT, which alone decides what generations of the stores of a
// crawl folder count. A store reads it; package crawl writes it, each time by one rename.
type Current struct {
	Epoch      uint64            `json:"epoch"`               // raised when the crawl goes back
	Checkpoint uint64            `json:"checkpoint"`          // checkpoint that the crawl goes on from; 0 is the empty crawl
	Txn        string            `json:"txn,omitempty"`       // the name that this checkpoint closed
	Stores     map[string]uint64 `json:"stores,omitempty"`    // generation of each store in it, by folder: "urls", "modules/NAME", "shard/007/urls"
	Last       uint64            `json:"last"`                // the highest number that a checkpoint ever had
	Forgotten  Spans             `json:"forgotten,omitempty"` // checkpoints that were deleted; every other up to last has a file
	Map        uint64            `json:"map,omitempty"`       // version of the bucket map; 0: the crawl has no shards

	sum string // of the file that it was read from
}

// base is the generation that the checkpoint holds of a store: the first if it holds none.
func (c *Current) base(store string) uint64 { return max(c.Stores[store], 1) }

// ReadCurrent reads the CURRENT of a crawl folder; fs.ErrNotExist if dir is none.
func ReadCurrent(fsys durable.FS, dir string) (Current, error) {
	file := filepath.Join(dir, CurrentFile)
	data, err := durable.ReadFile(fsys, file, MaxFile)
	if err != nil {
		return Current{}, err
	}
	if last := lastCurrent.Load(); last != nil && bytes.Equal(last.data, data) {
		c := last.c
		c.Stores = maps.Clone(c.Stores)
		return c, nil
	}
	c, err := decodeCurrent(file, data)
	if c.sum = Sum(data); err == nil {
		kept := c
		kept.Stores = maps.Clone(c.Stores)
		lastCurrent.Store(&readCurrent{data, kept})
	}
	return c, err
}

// readCurrent is a CURRENT that was read, with its bytes: a round of a small crawl reads the same a hundred times.
type readCurrent struct {
	data []byte
	c    Current
}

var lastCurrent atomic.Pointer[readCurrent]

// CreateCurrent makes dir a crawl folder at the empty crawl, if it is none yet, with that version of a bucket map.
func CreateCurrent(fsys durable.FS, dir string, mapVersion uint64) error {
	data, err := Seal(magicCurrent, Current{Map: mapVersion})
	if err != nil {
		return err
	}
	if err := durable.LinkFile(fsys, filepath.Join(dir, CurrentFile), data); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// WriteCurrent replaces the CURRENT of a crawl folder. The caller holds its lock. In a crawl of several shards other machines
// may hold a lock of their own, so WriteCurrent fails with fault.Busy if CURRENT has changed since ReadCurrent returned the
// value that c was made from. It first calls syncs, which make durable what c names.
func WriteCurrent(fsys durable.FS, dir string, c Current, syncs ...func() error) error {
	data, err := Seal(magicCurrent, c)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, CurrentFile)
	if c.Map == 0 || c.sum == "" {
		a, err := durable.Create(fsys, file)
		if err != nil {
			return err
		}
		defer a.Abort()
		if _, err := a.Write(data); err != nil {
			return err
		}
		if err := durable.Parallel(fsys, append(syncs, a.Seal)); err != nil {
			return err
		}
		return a.Commit()
	}
	if err := durable.Parallel(fsys, syncs); err != nil {
		return err
	}
	err = durable.Swap(fsys, file, func(old []byte) bool { return Sum(old) == c.sum }, MaxFile, data)
	if errors.Is(err, durable.ErrChanged) {
		return CurrentChanged(dir, err)
	}
	return err
}

// CurrentChanged is the error of a change of a crawl that another process came before; err, which may be nil, is how that showed.
func CurrentChanged(dir string, err error) error {
	return &fault.Error{Class: fault.Busy, File: dir, Found: "another process changed the crawl meanwhile", Err: err, Hint: "run the command again"}
}

func decodeCurrent(file string, data []byte) (Current, error) {
	var c Current
	if err := Unseal(file, magicCurrent, data, &c); err != nil {
		return c, err
	}
	bad := func(place, found, want string) (Current, error) {
		return c, &fault.Error{Class: fault.Corrupt, File: file, Place: place, Found: found, Want: want}
	}
	if c.Map > MaxGeneration {
		return bad("map", strconv.FormatUint(c.Map, 10), fmt.Sprintf("at most %d", uint64(MaxGeneration)))
	}
	if c.Epoch > MaxGeneration || c.Checkpoint > c.Last || c.Last > MaxGeneration {
		return bad("checkpoint", fmt.Sprintf("epoch %d, checkpoint %d of %d", c.Epoch, c.Checkpoint, c.Last),
			fmt.Sprintf("at most %d, and checkpoint at most the last", uint64(MaxGeneration)))
	}
	if end := uint64(0); !c.Forgotten.Each(func(_, last uint64) bool { end = last; return true }) || end > c.Last || c.Checkpoint > 0 && c.Forgotten.Has(c.Checkpoint) {
		return bad("forgotten", strconv.Quote(clip(string(c.Forgotten))), "numbers of checkpoints in order, without the current one")
	}
	for name, generation := range c.Stores {
		if !CheckPath(name) || generation == 0 || generation > MaxGeneration {
			return bad("stores", fmt.Sprintf("%q: %d", clip(name), generation), "folders inside the crawl, each with a generation")
		}
	}
	return c, nil
}

// IsCrawl reports whether dir is a crawl folder, whole or damaged.
func IsCrawl(dir string, opt Options) bool {
	ok, err := durable.Exists(opt.fs(), filepath.Join(dir, CurrentFile))
	return ok && err == nil
}

// CheckpointFile is the name of a checkpoint's file in CheckpointsDir.
func CheckpointFile(number uint64) string { return fmt.Sprintf("%06d", number) }

// CheckpointFiles lists the numbers of the files of checkpoints in a crawl folder, in order, whatever CURRENT says of them.
func CheckpointFiles(fsys durable.FS, dir string) ([]uint64, error) {
	list, err := fsys.ReadDir(filepath.Join(dir, CheckpointsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range list {
		if n, err := strconv.ParseUint(e.Name(), 10, 64); err == nil && n > 0 && n <= MaxGeneration && e.Name() == CheckpointFile(n) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// HintCurrent returns the hint for a lost or damaged CURRENT.
func HintCurrent(dir string) string {
	return "make the file anew from checkpoints and manifests: " + fault.Quote("mckpt", "repair", dir)
}

// NoCurrent is the error of a crawl folder that has lost CURRENT, but has something else.
func NoCurrent(dir, has string) error {
	return &fault.Error{Class: fault.Corrupt, File: filepath.Join(dir, CurrentFile), Found: "missing, but " + has + " is there", Hint: HintCurrent(dir)}
}

// MissingCurrent refuses a folder with checkpoints and without CURRENT. Its stores would count as outside of a crawl, and delete
// what the checkpoints hold. Other programs have files of such names, too: one must begin as a checkpoint does.
func MissingCurrent(fsys durable.FS, dir string) error {
	numbers, _ := CheckpointFiles(fsys, dir) // a folder that cannot be read has no checkpoints of ours
	for _, n := range slices.Backward(numbers) {
		if !begins(fsys, filepath.Join(dir, CheckpointsDir, CheckpointFile(n)), MagicCheckpoint) {
			continue
		}
		if IsCrawl(dir, Options{FS: fsys}) { // looks for CURRENT last: another process may be making it
			return nil
		}
		return NoCurrent(dir, "checkpoint "+strconv.FormatUint(n, 10))
	}
	return nil
}

// begins reports whether a file begins with magic; a folder, or a file that cannot be read, does not.
func begins(fsys durable.FS, file, magic string) bool {
	f, err := fsys.OpenFile(file, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == magic
}

// crawlDir is the folder of the crawl that the store would belong to: the one above, or for modules/NAME the one
// above that; where this is the folder of a shard, the crawl folder that holds it.
func (s *Store) crawlDir() string {
	up, shard := s.shard()
	if shard != "" {
		return filepath.Dir(filepath.Dir(up))
	}
	return up
}

// shard returns the folder that the store is in, or for modules/NAME the folder above; name is "007" if that is a shard's.
func (s *Store) shard() (up, name string) {
	up = filepath.Dir(s.abs)
	if filepath.Base(up) == ModulesDir {
		up = filepath.Dir(up)
	}
	if _, _, ok := ShardAt(up); ok && !IsCrawl(up, Options{FS: s.fs}) {
		return up, filepath.Base(up)
	}
	return up, ""
}

// Shard is the folder in the crawl of the shard that the store lies in, "shard/007"; "" outside of one.
func (s *Store) Shard() string {
	if _, name := s.shard(); name != "" && s.CrawlDir() != "" {
		return ShardsDir + "/" + name
	}
	return ""
}

// ShardAt takes the path of a shard's folder apart: CRAWL/shard/007. It looks at the name alone.
func ShardAt(dir string) (crawl string, n int, ok bool) {
	dir = absolute(dir)
	shards, name := filepath.Split(dir)
	n, err := strconv.Atoi(name)
	ok = err == nil && n >= 0 && n < MaxShards && len(name) == 3 && filepath.Base(shards) == ShardsDir
	return filepath.Dir(filepath.Clean(shards)), n, ok
}

// Root is crawlDir as a user wrote it who named the store.
func (s *Store) Root() string {
	up, err := filepath.Rel(s.abs, s.crawlDir()) // "..", or more of them
	if err != nil {
		return s.crawlDir()
	}
	return filepath.Join(s.dir, up)
}

// current reads the state of the crawl that the store belongs to; outside is true
// if it belongs to none. A crawl that has lost CURRENT is fault.Corrupt.
func (s *Store) current() (c Current, outside bool, err error) {
	c, err = ReadCurrent(s.fs, s.crawlDir())
	if errors.Is(err, fs.ErrNotExist) {
		return Current{}, true, MissingCurrent(s.fs, s.Root())
	}
	return c, false, err
}

// CrawlDir is the folder of the crawl that the store lies in, or "".
func (s *Store) CrawlDir() string {
	if dir := s.crawlDir(); IsCrawl(dir, Options{FS: s.fs}) {
		return dir
	}
	return ""
}

// NameInCrawl returns the store's name in CURRENT: "urls", "modules/NAME", "shard/007/urls".
func (s *Store) NameInCrawl() string {
	rel, err := filepath.Rel(s.crawlDir(), s.abs)
	if err != nil {
		return s.Name()
	}
	return filepath.ToSlash(rel)
}
