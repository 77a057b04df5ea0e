package crawl

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
)

// Files of a crawl folder.
const (
	DriverFile     = "DRIVER"   // the lock of the one driver of the crawl, see Hold
	ProgressFile   = "PROGRESS" // what a driver tells while it holds the lock
	LogsDir        = "logs"     // a driver's, of no use elsewhere
	configFile     = "crawl.toml"
	checkpointsDir = store.CheckpointsDir
	roundsDir      = "rounds"
)

const magic = store.MagicCheckpoint

// Checkpoint binds together the generations of all stores of a crawl.
type Checkpoint struct {
	Number uint64            `json:"number"`
	Parent uint64            `json:"parent"` // checkpoint that the crawl went on from; 0 is the empty crawl
	Epoch  uint64            `json:"epoch"`
	Txn    string            `json:"txn"`  // the round that it closed
	Made   string            `json:"made"` // RFC 3339, UTC
	Stores []CheckpointStore `json:"stores"`
	Ledger record.Ledger     `json:"ledger,omitzero"` // the round's ledger, from mfrontier update or add; with shards each has its own
	Totals Totals            `json:"totals"`          // of all rounds that led here
	Files  []RoundFile       `json:"files,omitempty"` // of rounds/TXN when the round was closed
	Map    uint64            `json:"map,omitempty"`   // version of the bucket map; 0: the crawl has no shards
	Shards []ShardRound      `json:"shards,omitempty"`
	// Exchanges are the exchanges between shards in the round, by name.
	Exchanges []exchange.Bound `json:"exchanges,omitempty"`
}

// ShardRound is one shard's part in a round.
type ShardRound struct {
	Shard  int           `json:"shard"`
	Ledger record.Ledger `json:"ledger"`
	Files  []RoundFile   `json:"files,omitempty"` // in rounds/TXN of the shard
}

// Ledgers returns the round's ledgers: one, or one for each shard in order.
func (k *Checkpoint) Ledgers() []record.Ledger {
	if k.Map == 0 {
		return []record.Ledger{k.Ledger}
	}
	var all []record.Ledger
	for _, s := range k.Shards {
		all = append(all, s.Ledger)
	}
	return all
}

// filesOf returns the round's files in a shard; "" is the crawl without shards.
func (k *Checkpoint) filesOf(under string) []RoundFile {
	if under == "" {
		return k.Files
	}
	for _, s := range k.Shards {
		if shard.Name(s.Shard) == under {
			return s.Files
		}
	}
	return nil
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

// generations returns the generations that CURRENT has when it names the checkpoint.
func (k *Checkpoint) generations() map[string]uint64 {
	g := map[string]uint64{}
	for _, s := range k.Stores {
		g[s.Name] = s.Generation
	}
	return g
}

func (k *Checkpoint) of(name string) *CheckpointStore {
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
	if k.Number == 0 || k.Number > store.MaxGeneration || k.Parent >= k.Number || k.Epoch > store.MaxGeneration {
		return bad("number", fmt.Sprintf("%d after %d", k.Number, k.Parent), "a number above its parent's")
	}
	if !store.IsTxn(k.Txn) {
		return bad("txn", fmt.Sprintf("%.80q", k.Txn), "a transaction's name")
	}
	if t, err := time.Parse(time.RFC3339, k.Made); err != nil || t.UTC().Format(time.RFC3339) != k.Made {
		return bad("made", fmt.Sprintf("%.80q", k.Made), "a time, RFC 3339 in UTC")
	}
	for i, s := range k.Stores {
		place := fmt.Sprintf("store %d", i)
		switch {
		case !store.CheckPath(s.Name):
			return bad(place, "name "+fmt.Sprintf("%.80q", s.Name), "a folder inside the crawl")
		case i > 0 && k.Stores[i-1].Name >= s.Name:
			return bad(place, "name "+strconv.Quote(s.Name), "a name after "+strconv.Quote(k.Stores[i-1].Name))
		case s.Generation == 0 || s.Generation > store.MaxGeneration:
			return bad(place, fmt.Sprintf("generation %d", s.Generation), "1 or more")
		case !store.IsSum(s.Sum):
			return bad(place, "sum "+fmt.Sprintf("%.80q", s.Sum), "32 hex digits")
		}
	}
	if !slices.IsSortedFunc(k.Totals.Stages, func(a, b record.Stage) int { return cmp.Or(strings.Compare(a.Name, b.Name), -1) }) {
		return bad("totals", "stages out of order", "each once, in order of name")
	}
	if sharded := k.Map > 0; sharded != (len(k.Shards) > 0) || k.Map > store.MaxGeneration || sharded && (len(k.Files) > 0 || len(k.Ledger.Stages)+len(k.Ledger.Joined) > 0) || !sharded && len(k.Exchanges) > 0 {
		return bad("shards", fmt.Sprintf("%d, with version %d of the bucket map", len(k.Shards), k.Map), "shards with a map and all files, ledgers and exchanges, or none of it")
	}
	for i, s := range k.Shards {
		if s.Shard != i || i >= shard.Max {
			return bad("shards", fmt.Sprintf("shard %d", s.Shard), fmt.Sprintf("shard %d of at most %d", i, shard.Max))
		}
		if err := checkFiles(s.Files, func(place, found, want string) error { return bad(shard.Name(i)+": "+place, found, want) }); err != nil {
			return err
		}
	}
	if err := exchange.CheckBound(name, k.Exchanges, len(k.Shards)); err != nil {
		return err
	}
	return checkFiles(k.Files, bad)
}

func checkFiles(files []RoundFile, bad func(place, found, want string) error) error {
	for i, f := range files {
		place := fmt.Sprintf("file %d", i)
		switch {
		case !store.CheckPath(f.Name) || strings.Contains(f.Name, "/"):
			return bad(place, "name "+fmt.Sprintf("%.80q", f.Name), "a name in the round's folder")
		case i > 0 && files[i-1].Name >= f.Name:
			return bad(place, "name "+strconv.Quote(f.Name), "one that follows "+strconv.Quote(files[i-1].Name))
		case f.Length < 0 || !store.IsSum(f.Sum):
			return bad(place, fmt.Sprintf("length %d, sum %s", f.Length, fmt.Sprintf("%.80q", f.Sum)), "0 or more, and a checksum")
		}
	}
	return nil
}

func checkpointPath(dir string, number uint64) string {
	return filepath.Join(dir, checkpointsDir, store.CheckpointFile(number))
}

func readCheckpoint(fsys durable.FS, dir string, number uint64) (*Checkpoint, error) {
	file := checkpointPath(dir, number)
	data, err := durable.ReadFile(fsys, file, store.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Class: fault.Corrupt, File: file, Found: "missing", Want: "the file of each checkpoint that gc has kept", Err: fs.ErrNotExist,
			Hint: "put it back from a copy; see all that is missing or damaged: " + fault.Quote("mckpt", "verify", dir)}
	}
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
	if err := store.Unseal(file, magic, data, k); err != nil {
		return nil, err
	}
	return k, k.check(file)
}

// checkpointNumbers lists the checkpoints that exist, in order. A file of a number above
// the last belongs to a commit that died, one of a forgotten number to a gc that died.
func checkpointNumbers(fsys durable.FS, dir string, cur store.Current) ([]uint64, error) {
	numbers, err := store.CheckpointFiles(fsys, dir)
	return slices.DeleteFunc(numbers, func(n uint64) bool { return n > cur.Last || cur.Forgotten.Has(n) }), err
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
