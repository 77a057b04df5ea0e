// Package store: a folder of immutable files plus generation manifests. SPEC.md.
package store

import (
	"context"
	"io"
	"time"

	"mercator/formats/record"
	"mercator/pkg/durable"
)

// Options of Create and Open.
type Options struct {
	FS       durable.FS    // nil: durable.OS
	LockWait time.Duration // how long a busy lock is awaited; 0: fail at once (commands pass 70 s)
}

// Entry is one file of a generation.
type Entry struct {
	Path   string // relative to the store, slash-separated
	Role   string // the store kind's own word: "run", "queue", "warc", "output", …
	Length int64  // committed length; the file may be longer (Growing)
	Sum    string // xxh3-128 of the committed bytes, hex; "" for Growing files whose owner checks them itself
	// Growing files are appended to between generations; only Length bytes count.
	Growing bool
	// Sticky files never go back: abandon and restore keep the newest (contact times).
	Sticky bool
}

// Done is a committed transaction.
type Done struct {
	Verb, Txn  string
	Generation uint64
	Epoch      uint64
	InRows     uint64
	InHash     string        // rows hash of its input, hex; "" for a source
	Output     string        // path of the kept output; "" for none, or when it is gone
	Ledger     record.Ledger // of its output, or for a sink of what it read, itself last
}

// Manifest is one generation, read-only.
type Manifest struct {
	Kind       string // "urls", "frontier", "fetch", "dns", "content", "module"
	Version    string // of the store's own format, major.minor
	Generation uint64
	Parent     uint64
	Epoch      uint64
	Params     map[string]string // fixed at Create (polynomial, policy)
	State      map[string]string // small values that change with a generation
	Files      []Entry
	Done       []Done // committed transactions, oldest first
}

// Store is an opened store folder. Many goroutines.
type Store struct{}

// Create makes a store. fs.ErrExist if there is one of the same kind and params
// is not an error (idempotent); one of another kind or params is fault.Usage.
func Create(dir, kind, version string, params map[string]string, opt Options) error { panic("seam") }

// Open opens dir, which must hold a store of the kind: fault.Usage with the
// hint which command makes one, fault.WrongKind, fault.Version.
func Open(dir, kind, version string, opt Options) (*Store, error) { panic("seam") }

func (s *Store) Dir() string  { panic("seam") }
func (s *Store) Name() string { panic("seam") } // base name of Dir

// Current returns the manifest that counts now: inside a crawl folder, of a store
// of an older epoch, that of the checkpoint's generation. Readers need no lock.
func (s *Store) Current() (*Manifest, error) { panic("seam") }

// At returns the manifest of a generation that still exists.
func (s *Store) At(generation uint64) (*Manifest, error) { panic("seam") }

// OpenFile opens a file of the store for reading.
func (s *Store) OpenFile(path string) (durable.File, error) { panic("seam") }

// Lookup says what (verb, txn) is to this store now, without the lock.
// found: it has committed; Output may be gone, which is fault.Conflict naming
// the checkpoint. A different open round is fault.Conflict too.
func (s *Store) Lookup(verb, txn string) (done *Done, found bool, err error) { panic("seam") }

// Begin takes the store's lock (waiting LockWait, then fault.Busy naming the
// holder), moves a store of an older epoch to the checkpoint's generation,
// looks (verb, txn) up again, and removes the kept outputs of closed rounds.
// If it has committed meanwhile, Begin returns (nil, done, nil) and holds nothing.
// txn "" is a change of its own: refused while a round is open.
func (s *Store) Begin(ctx context.Context, verb, txn string) (*Tx, *Done, error) { panic("seam") }

// Tx is a change that has begun and holds the lock.
type Tx struct{}

// Base is the generation that the change starts from.
func (t *Tx) Base() *Manifest { panic("seam") }

// Epoch is the crawl's epoch, 0 outside a crawl folder.
func (t *Tx) Epoch() uint64 { panic("seam") }

// Create opens a new file under a name never used before: prefix, the next
// generation's number, a serial number, suffix ("runs/000017-0.fps"). It joins
// the next generation with role when the change commits.
func (t *Tx) Create(prefix, suffix, role string) (*NewFile, error) { panic("seam") }

// Drop leaves a file of Base out of the next generation. It is deleted when no
// generation that a checkpoint or reader needs holds it.
func (t *Tx) Drop(path string) { panic("seam") }

// Put adds or replaces an entry for a file that the caller itself wrote and
// synced (a growing WARC file).
func (t *Tx) Put(e Entry) { panic("seam") }

// SetState changes a small value.
func (t *Tx) SetState(key, value string) { panic("seam") }

// Keep names the file (made with Create, role "output") as this transaction's output.
func (t *Tx) Keep(f *NewFile) { panic("seam") }

// Commit syncs all new files, publishes the next generation, and unlocks.
func (t *Tx) Commit(inRows uint64, inHash string, l record.Ledger) (*Manifest, error) { panic("seam") }

// Abort removes new files and unlocks. After Commit it does nothing.
func (t *Tx) Abort() { panic("seam") }

// NewFile is a file being written; it is a durable.File's writing half.
type NewFile struct{}

func (f *NewFile) Write(p []byte) (int, error)              { panic("seam") }
func (f *NewFile) WriteAt(p []byte, off int64) (int, error) { panic("seam") }
func (f *NewFile) Path() string                             { panic("seam") } // relative to the store
func (f *NewFile) Close() error                             { panic("seam") } // flushes; Commit syncs

var _ io.Writer = (*NewFile)(nil)
