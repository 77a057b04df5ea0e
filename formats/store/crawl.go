package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// Files of a crawl folder.
const (
	currentFile    = "CURRENT"
	DriverFile     = "DRIVER" // the lock of the one driver of the crawl, see Hold
	configFile     = "crawl.toml"
	checkpointsDir = "checkpoints"
	modulesDir     = "modules"
	roundsDir      = "rounds"
)

// current is the content of a crawl's CURRENT, which alone decides what counts:
// commit, abandon and restore are one rename of it.
type current struct {
	Epoch      uint64 `json:"epoch"`               // raised by abandon and restore; 0 at first
	Checkpoint uint64 `json:"checkpoint"`          // that the crawl goes on from; 0 is the empty crawl
	Last       uint64 `json:"last"`                // the highest number that a checkpoint ever had
	Forgotten  spans  `json:"forgotten,omitempty"` // by gc and commit; every other up to last has a file
}

// readCurrent reads it; fs.ErrNotExist if dir is no crawl folder.
func readCurrent(fsys durable.FS, dir string) (current, error) {
	file := filepath.Join(dir, currentFile)
	data, err := durable.ReadFile(fsys, file, maxHeader+maxBody)
	if err != nil {
		return current{}, err
	}
	return decodeCurrent(file, data)
}

func decodeCurrent(file string, data []byte) (current, error) {
	var c current
	if err := unseal(file, magicCurrent, data, &c); err != nil {
		return c, err
	}
	if c.Epoch > maxGeneration || c.Checkpoint > c.Last || c.Last > maxGeneration {
		return c, &fault.Error{Class: fault.Corrupt, File: file, Place: "checkpoint", Found: fmt.Sprintf("epoch %d, checkpoint %d of %d", c.Epoch, c.Checkpoint, c.Last),
			Want: fmt.Sprintf("at most %d, and checkpoint at most the last", uint64(maxGeneration))}
	}
	if end := uint64(0); !c.Forgotten.each(func(_, last uint64) bool { end = last; return true }) || end > c.Last || c.Checkpoint > 0 && c.Forgotten.has(c.Checkpoint) {
		return c, &fault.Error{Class: fault.Corrupt, File: file, Place: "forgotten", Found: strconv.Quote(clip(string(c.Forgotten))), Want: "numbers of checkpoints in order, without the current one"}
	}
	return c, nil
}

// generation is the one that the current checkpoint holds of a store: the first
// if it holds none.
func (c current) generation(fsys durable.FS, dir, store string) (uint64, error) {
	if c.Checkpoint == 0 {
		return 1, nil
	}
	k, err := readCheckpoint(fsys, dir, c.Checkpoint)
	if err != nil {
		return 0, err
	}
	if s := k.store(store); s != nil {
		return s.Generation, nil
	}
	return 1, nil
}

// Checkpoint binds together the generations of all stores of a crawl.
type Checkpoint struct {
	Number uint64            `json:"number"`
	Parent uint64            `json:"parent"` // that the crawl went on from; 0 is the empty crawl
	Epoch  uint64            `json:"epoch"`
	Txn    string            `json:"txn"`  // the round that it closed
	Made   string            `json:"made"` // RFC 3339, UTC
	Stores []CheckpointStore `json:"stores"`
	Ledger record.Ledger     `json:"ledger"`          // the round's books, from mfrontier update or add
	Files  []RoundFile       `json:"files,omitempty"` // of rounds/TXN when the round was closed
}

// CheckpointStore is one store's generation in a checkpoint.
type CheckpointStore struct {
	Name       string `json:"name"` // folder in the crawl: "urls", "modules/NAME"
	Kind       string `json:"kind"`
	Generation uint64 `json:"generation"`
	Sum        string `json:"sum"` // xxh3-128 of the manifest's file
}

// RoundFile is a file that a pipeline keeps of a round.
type RoundFile struct {
	Name   string `json:"name"` // in rounds/TXN
	Length int64  `json:"length"`
	Sum    string `json:"sum"` // xxh3-128
}

func (k *Checkpoint) store(name string) *CheckpointStore {
	for i := range k.Stores {
		if k.Stores[i].Name == name {
			return &k.Stores[i]
		}
	}
	return nil
}

// check is the list of rules that SPEC.md gives for a checkpoint's body.
func (k *Checkpoint) check(name string) error {
	bad := func(place, found, want string) error {
		return &fault.Error{Class: fault.Corrupt, File: name, Place: place, Found: found, Want: want}
	}
	if k.Number == 0 || k.Number > maxGeneration || k.Parent >= k.Number || k.Epoch > maxGeneration {
		return bad("number", fmt.Sprintf("%d after %d", k.Number, k.Parent), "a number above its parent's")
	}
	if !txnShape.MatchString(k.Txn) {
		return bad("txn", strconv.Quote(clip(k.Txn)), "a transaction's name")
	}
	if t, err := time.Parse(time.RFC3339, k.Made); err != nil || t.UTC().Format(time.RFC3339) != k.Made {
		return bad("made", strconv.Quote(clip(k.Made)), "a time, RFC 3339 in UTC")
	}
	for i, s := range k.Stores {
		place := fmt.Sprintf("store %d", i)
		switch {
		case !checkPath(s.Name):
			return bad(place, "name "+strconv.Quote(clip(s.Name)), "a folder inside the crawl")
		case i > 0 && k.Stores[i-1].Name >= s.Name:
			return bad(place, "name "+strconv.Quote(s.Name), "a name after "+strconv.Quote(k.Stores[i-1].Name))
		case s.Generation == 0 || s.Generation > maxGeneration:
			return bad(place, fmt.Sprintf("generation %d", s.Generation), "1 or more")
		case !isSum(s.Sum):
			return bad(place, "sum "+strconv.Quote(clip(s.Sum)), "32 hex digits")
		}
	}
	for i, f := range k.Files {
		place := fmt.Sprintf("file %d", i)
		switch {
		case !checkPath(f.Name) || strings.Contains(f.Name, "/"):
			return bad(place, "name "+strconv.Quote(clip(f.Name)), "a name in the round's folder")
		case i > 0 && k.Files[i-1].Name >= f.Name:
			return bad(place, "name "+strconv.Quote(f.Name), "one that follows "+strconv.Quote(k.Files[i-1].Name))
		case f.Length < 0 || !isSum(f.Sum):
			return bad(place, fmt.Sprintf("length %d, sum %s", f.Length, strconv.Quote(clip(f.Sum))), "0 or more, and a checksum")
		}
	}
	return nil
}

func checkpointPath(dir string, number uint64) string {
	return filepath.Join(dir, checkpointsDir, fmt.Sprintf("%06d", number))
}

func readCheckpoint(fsys durable.FS, dir string, number uint64) (*Checkpoint, error) {
	file := checkpointPath(dir, number)
	data, err := durable.ReadFile(fsys, file, maxHeader+maxBody)
	if err != nil {
		return nil, err
	}
	k, err := decodeCheckpoint(file, data)
	if err != nil {
		return nil, err
	}
	if k.Number != number {
		return nil, &fault.Error{Class: fault.Corrupt, File: file, Place: "number", Found: strconv.FormatUint(k.Number, 10), Want: strconv.FormatUint(number, 10)}
	}
	return k, nil
}

func decodeCheckpoint(file string, data []byte) (*Checkpoint, error) {
	k := new(Checkpoint)
	if err := unseal(file, magicCheckpoint, data, k); err != nil {
		return nil, err
	}
	return k, k.check(file)
}

// checkpointNumbers lists the checkpoints that exist, in order. A file of a number above
// the last belongs to a commit that died, one of a forgotten number to a gc that died.
func checkpointNumbers(fsys durable.FS, dir string, cur current) ([]uint64, error) {
	list, err := fsys.ReadDir(filepath.Join(dir, checkpointsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range list {
		n, err := strconv.ParseUint(e.Name(), 10, 64)
		if err == nil && n > 0 && n <= cur.Last && !cur.Forgotten.has(n) && e.Name() == filepath.Base(checkpointPath(dir, n)) {
			numbers = append(numbers, n)
		}
	}
	return sorted(numbers), nil
}

// findCheckpoint returns the checkpoint that closed a round, searching from
// number towards the first; 0 if it has been forgotten.
func findCheckpoint(fsys durable.FS, dir string, number uint64, txn string) uint64 {
	for number > 0 {
		k, err := readCheckpoint(fsys, dir, number)
		if err != nil {
			return 0 // only a message's detail; verify reports damage
		}
		if k.Txn == txn {
			return number
		}
		number = k.Parent
	}
	return 0
}
