package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// Options of Init and Open.
type Options struct {
	FS       durable.FS        // nil: durable.OS
	LockWait time.Duration     // as of a store
	Progress func(bytes int64) // is told what Verify reads; may be nil
	Warn     func(err error)   // is told of damage that Restore passes by; may be nil
}

func (o Options) fs() durable.FS {
	if o.FS == nil {
		return durable.OS
	}
	return o.FS
}

func (o Options) stores() store.Options { return store.Options{FS: o.FS, LockWait: o.LockWait} }

// Crawl is a crawl folder: stores, CURRENT, and checkpoints. It holds nothing
// open. Its changes take the lock of the folder; those that must not meet a
// store's writer take every store's lock too.
type Crawl struct {
	fs  durable.FS
	dir string
	opt Options
}

// maxConfig bounds the size of a crawl.toml.
const maxConfig = 16 << 20

// Init makes a crawl folder: its stores, by makeStores, its configuration
// (crawl.toml), and last of all CURRENT, so that a folder with CURRENT is complete.
// In a folder that is there already it makes what is missing. A configuration
// other than the one there is fault.Usage; nil keeps that one, or writes preset.
func Init(dir string, config, preset []byte, makeStores func() error, opt Options) (*Crawl, error) {
	c := &Crawl{fs: opt.fs(), dir: dir, opt: opt}
	if err := c.notFile(); err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(c.fs, c.path(checkpointsDir)); err != nil {
		return nil, err
	}
	content := config
	if config == nil {
		content = preset
	} else if err := c.notConfigured(config); err != nil {
		return nil, err
	}
	if err := makeStores(); err != nil {
		return nil, err
	}
	err := durable.LinkFile(c.fs, c.path(configFile), content)
	if errors.Is(err, fs.ErrExist) && config != nil {
		err = c.notConfigured(config)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := store.CreateCurrent(c.fs, dir); err != nil {
		return nil, err
	}
	_, err = c.current()
	return c, err
}

// notConfigured is fault.Usage if the folder has another configuration.
func (c *Crawl) notConfigured(config []byte) error {
	have, err := durable.ReadFile(c.fs, c.path(configFile), maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !bytes.Equal(have, config):
		return &fault.Error{Class: fault.Usage, File: c.path(configFile), Found: "another configuration than the one given",
			Hint: "edit that file to change the crawl, or make a crawl in another folder"}
	}
	return err
}

func (c *Crawl) notFile() error {
	if st, err := c.fs.Stat(c.dir); err == nil && !st.IsDir() {
		return &fault.Error{Class: fault.Usage, File: c.dir, Found: "a file", Want: "a crawl folder"}
	}
	return nil
}

// Open opens a crawl folder: fault.Usage if dir is none.
func Open(dir string, opt Options) (*Crawl, error) {
	c := &Crawl{fs: opt.fs(), dir: dir, opt: opt}
	if err := c.notFile(); err != nil {
		return nil, err
	}
	_, err := c.current()
	return c, err
}

// folder is the store of a name, of any kind, without a look at it.
func (c *Crawl) folder(name string) *store.Store {
	return store.Folder(c.path(filepath.FromSlash(name)), c.opt.stores())
}

func (c *Crawl) path(rel string) string { return filepath.Join(c.dir, rel) }

// Dir is the folder, as given.
func (c *Crawl) Dir() string { return c.dir }

func (c *Crawl) current() (store.Current, error) {
	cur, err := store.ReadCurrent(c.fs, c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = &fault.Error{Class: fault.Usage, File: c.dir, Found: "not a crawl folder", Want: "a folder with a file CURRENT", Err: err,
			Hint: fmt.Sprintf("make one with %q", "mckpt init "+c.dir)}
	}
	return cur, err
}

// Stores lists all stores of the folder, in order of name.
func (c *Crawl) Stores() ([]*store.Store, error) {
	folders, err := c.folders()
	if err != nil {
		return nil, err
	}
	var stores []*store.Store
	for _, s := range folders {
		made, err := s.Made()
		if err != nil {
			return nil, err
		}
		if made {
			stores = append(stores, s)
		}
	}
	return stores, nil
}

// folders lists those that hold a store, whole or not, in order of name.
func (c *Crawl) folders() ([]*store.Store, error) {
	var stores []*store.Store
	for _, under := range []string{"", store.ModulesDir} {
		list, err := c.fs.ReadDir(c.path(under))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			s := c.folder(filepath.Join(under, e.Name()))
			// A store may be a link to a folder on another disk.
			if st, err := c.fs.Stat(s.Dir()); err != nil || !st.IsDir() {
				continue
			}
			list, err := s.Generations()
			if err != nil {
				return nil, err
			}
			made, err := s.Made()
			if made || err != nil || len(list) > 0 {
				stores = append(stores, s)
			}
		}
	}
	slices.SortFunc(stores, func(a, b *store.Store) int { return strings.Compare(a.NameInCrawl(), b.NameInCrawl()) })
	return stores, nil
}

// locked runs f under the lock of the crawl folder.
func (c *Crawl) locked(ctx context.Context, what string, f func(store.Current) error) error {
	lock, err := store.Lock(ctx, c.fs, c.path(store.LockFile), what, c.opt.LockWait)
	if err != nil {
		return err
	}
	defer lock.Close()
	cur, err := c.current()
	if err != nil {
		return err
	}
	return f(cur)
}

// Hold takes the lock of the crawl's driver, which says who runs its rounds, waiting at
// most wait: then fault.Busy, naming the holder. Changes of the crawl and of stores do not
// need it. The lock goes with the last process that inherited the file.
func (c *Crawl) Hold(ctx context.Context, what string, wait time.Duration) (*os.File, error) {
	lock, err := store.Lock(ctx, durable.OS, c.path(DriverFile), what, wait)
	if err != nil {
		return nil, err
	}
	return lock.(*os.File), nil
}

// lockStores takes the locks of all stores.
func (c *Crawl) lockStores(ctx context.Context, what string) ([]*store.Store, func(), error) {
	stores, err := c.Stores()
	if err != nil {
		return nil, nil, err
	}
	var locks []io.Closer
	unlock := func() {
		for _, l := range locks {
			_ = l.Close()
		}
	}
	for _, s := range stores {
		l, err := s.Lock(ctx, what)
		if err != nil {
			unlock()
			return nil, nil, err
		}
		locks = append(locks, l)
	}
	return stores, unlock, nil
}

// roundEnd finds the frontier's transaction that ends a round, whose ledger holds the
// books of the whole round: the update, or the add or release where no batch was taken. Without one it
// says what there is not.
func roundEnd(m *store.Manifest, txn string) (end *store.Done, missing string) {
	missing = fmt.Sprintf("no update or add of %q", txn)
	batch := false
	for i := range m.Done {
		d := &m.Done[i]
		if d.Txn != txn {
			continue
		}
		switch d.Verb {
		case "update":
			return d, ""
		case "add", "release":
			end = d
		case "next":
			batch = true
		}
	}
	if batch { // closed now, it could never land
		return nil, fmt.Sprintf("no update of %q, whose batch is out", txn)
	}
	return end, missing
}

// Commit closes the round txn by a checkpoint: every store's generation, and the
// round's books. It refuses (fault.Conflict) unless the frontier committed update
// of that name, or add or release if it took no batch, and every store in its ledger committed the round. Made is
// false if the round was closed before; k then holds its name, and its number if
// that checkpoint is not forgotten.
//
// With interval, the checkpoint before the new one is forgotten if it was made
// less than that after the one before it; the first checkpoint stays.
func (c *Crawl) Commit(ctx context.Context, txn string, now time.Time, interval time.Duration) (k *Checkpoint, made bool, err error) {
	if err := store.CheckTxn(txn); err != nil {
		return nil, false, err
	}
	err = c.locked(ctx, "mckpt commit "+txn, func(cur store.Current) error {
		stores, unlock, err := c.lockStores(ctx, "mckpt commit "+txn)
		if err != nil {
			return err
		}
		defer unlock()
		k, made, err = c.commit(cur, stores, txn, now)
		if err != nil || !made {
			return err
		}
		next := store.Current{Epoch: cur.Epoch, Checkpoint: k.Number, Txn: k.Txn, Stores: k.generations(), Last: k.Number, Forgotten: cur.Forgotten}
		thin, err := c.thin(cur, k, interval)
		if err != nil {
			return err
		}
		if thin {
			next.Forgotten = next.Forgotten.With(k.Parent)
		}
		if err = store.WriteCurrent(c.fs, c.dir, next); err == nil && thin {
			err = c.fs.Remove(checkpointPath(c.dir, k.Parent))
		}
		return err
	})
	return k, made, err
}

// commit makes the checkpoint's file; it is one when CURRENT names it.
func (c *Crawl) commit(cur store.Current, stores []*store.Store, txn string, now time.Time) (*Checkpoint, bool, error) {
	k := &Checkpoint{Number: cur.Last + 1, Parent: cur.Checkpoint, Epoch: cur.Epoch, Txn: txn, Made: now.UTC().Format(time.RFC3339)}
	refuse := func(s *store.Store, found, hint string) error {
		return &fault.Error{Class: fault.Conflict, File: s.Dir(), Found: found, Want: fmt.Sprintf("round %q committed", txn), Hint: hint}
	}
	committed := map[string]bool{} // stores that committed the round
	byName := map[string]*store.Store{}
	var open, closed bool // the round, in some store; in the frontier
	var end *store.Done
	var missing string // if there is no end
	var frontier *store.Store
	for _, s := range stores {
		v, err := s.Settle()
		if err != nil {
			return nil, false, err
		}
		name := s.NameInCrawl()
		byName[name] = s
		if v.Newest.Kind == "frontier" {
			frontier = s
		}
		switch round := v.Open(); round {
		case txn:
			open = true
		case "":
		default:
			return nil, false, refuse(s, fmt.Sprintf("round %q is open", round), fmt.Sprintf("commit %q, or give it up with %q", round, "mckpt abandon "+c.dir))
		}
		for i := range v.Counts.Done {
			if v.Counts.Done[i].Txn == txn {
				committed[name] = true
			}
		}
		if v.Newest.Kind == "frontier" {
			end, missing = roundEnd(v.Counts, txn)
			_, before, err := s.FindName(v.Counts, txn)
			if err != nil {
				return nil, false, err
			}
			closed = before || end != nil && end.Generation <= v.Base
		}
		sum, err := s.ManifestSum(v.Counts.Generation)
		if err != nil {
			return nil, false, err
		}
		k.Stores = append(k.Stores, CheckpointStore{Name: s.NameInCrawl(), Kind: v.Newest.Kind, Generation: v.Counts.Generation, Sum: sum})
	}
	if !open && closed {
		return &Checkpoint{Number: findCheckpoint(c.fs, c.dir, cur.Checkpoint, txn), Txn: txn}, false, nil
	}
	again := fmt.Sprintf("run the round's commands again with --txn %s; those that committed only repeat their output", txn)
	if frontier == nil {
		return nil, false, &fault.Error{Class: fault.Conflict, File: c.dir, Found: "no frontier store", Hint: fmt.Sprintf("make it with %q", "mckpt init "+c.dir)}
	}
	if end == nil {
		return nil, false, refuse(frontier, missing, again)
	}
	for _, name := range ledgerStores(end.Ledger) {
		switch s := byName[name]; {
		case s == nil:
			return nil, false, &fault.Error{Class: fault.Conflict, File: c.dir, Found: fmt.Sprintf("no store %q, which the ledger of round %q names", name, txn),
				Hint: "a crawl's stores lie in its own folder"}
		case !committed[name]:
			return nil, false, refuse(s, fmt.Sprintf("round %q is not committed here", txn), again)
		}
	}
	k.Ledger = end.Ledger
	var err error
	if k.Files, err = c.roundFiles(txn); err != nil {
		return nil, false, err
	}
	data, err := store.Seal(magic, k)
	if err != nil {
		return nil, false, err
	}
	// A file of this number can only be of a commit that died before CURRENT
	// named it: it never was a checkpoint.
	if err := durable.WriteFile(c.fs, checkpointPath(c.dir, k.Number), data); err != nil {
		return nil, false, err
	}
	return k, true, nil
}

// roundFiles lists what a pipeline keeps of a round.
func (c *Crawl) roundFiles(txn string) (files []RoundFile, err error) {
	dir := c.path(filepath.Join(roundsDir, txn))
	list, err := c.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.Type().IsRegular() && store.CheckPath(e.Name()) { // no unpublished file, which begins with a dot
			f, err := roundFile(c.fs, filepath.Join(dir, e.Name()), func(in io.Reader) io.Reader { return in })
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b RoundFile) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// roundFile reads a file, by way of read, for its length and sum.
func roundFile(fsys durable.FS, path string, read func(io.Reader) io.Reader) (RoundFile, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return RoundFile{}, err
	}
	defer f.Close()
	hash := xxh3.New()
	n, err := io.Copy(hash, read(f))
	return RoundFile{Name: filepath.Base(path), Length: n, Sum: store.HexSum(hash)}, err
}

// ledgerStores lists the stores that a ledger names, each once, in order.
func ledgerStores(l record.Ledger) []string {
	var names []string
	var add func(l record.Ledger)
	add = func(l record.Ledger) {
		for _, j := range l.Joined {
			add(j)
		}
		for _, st := range l.Stages {
			for _, name := range append([]string{st.Store}, st.Stores...) {
				if name != "" && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	add(l)
	return names
}

// thin says whether k's parent goes: it was made less than interval after the checkpoint
// kept before it. One that has none before it stays.
func (c *Crawl) thin(cur store.Current, k *Checkpoint, interval time.Duration) (bool, error) {
	if interval <= 0 {
		return false, nil
	}
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return false, err
	}
	i, ok := slices.BinarySearch(numbers, k.Parent)
	if !ok || i == 0 {
		return false, nil
	}
	parent, err := readCheckpoint(c.fs, c.dir, k.Parent)
	if err != nil {
		return false, err
	}
	before, err := readCheckpoint(c.fs, c.dir, numbers[i-1])
	if err != nil {
		return false, err
	}
	return parent.time().Sub(before.time()) < interval, nil
}

func (k *Checkpoint) time() time.Time {
	t, _ := time.Parse(time.RFC3339, k.Made) // check has seen its shape
	return t
}

// Abandon gives up what was done since the current checkpoint: the open round,
// and changes without a name. Contact times stay. It returns what the crawl stood at.
func (c *Crawl) Abandon(ctx context.Context) (before *State, err error) {
	err = c.locked(ctx, "mckpt abandon", func(cur store.Current) error {
		if before, err = c.State(); err != nil {
			return err
		}
		if err := c.complete(cur.Checkpoint, nil, nil); err != nil {
			return err
		}
		cur.Epoch++
		if err := store.WriteCurrent(c.fs, c.dir, cur); err != nil {
			return err
		}
		c.tidy(ctx, cur)
		return nil
	})
	return before, err
}

// tidy lets the stores follow at once after abandon or restore, and deletes what that left without a use. It is
// done as far as may be: a store that another process holds, or that is damaged, follows at its next change, and
// keeps its garbage until gc.
func (c *Crawl) tidy(ctx context.Context, cur store.Current) {
	stores, err := c.Stores()
	if err != nil {
		return
	}
	bound, err := c.bound(cur)
	if err != nil {
		return
	}
	for _, s := range stores {
		lock, err := store.Lock(ctx, c.fs, s.Path(store.LockFile), "mckpt", 0)
		if err != nil {
			continue
		}
		if v, err := s.Settle(); err == nil {
			_, _ = s.Collect(v, bound[s.NameInCrawl()])
		}
		_ = lock.Close() // nothing was written through it
	}
}

// bound lists the generations of each store that checkpoints bind.
func (c *Crawl) bound(cur store.Current) (map[string][]uint64, error) {
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return nil, err
	}
	all := map[string][]uint64{}
	for _, n := range numbers {
		k, err := readCheckpoint(c.fs, c.dir, n)
		if err != nil {
			return nil, err
		}
		for _, s := range k.Stores {
			all[s.Name] = append(all[s.Name], s.Generation)
		}
	}
	return all, nil
}

// Restore lets the crawl go on from a checkpoint, 0 being the empty crawl. What
// was done since is given up, but for contact times; later checkpoints stay and
// can be restored too. A checkpoint that is not complete is refused.
//
// A newest generation that is damaged is no hindrance: its number stays used, and the checkpoint's
// content is published above it, with the checkpoint's own sticky files. Options.Warn is told.
func (c *Crawl) Restore(ctx context.Context, number uint64) error {
	return c.locked(ctx, "mckpt restore", func(cur store.Current) error {
		var k *Checkpoint
		if number > 0 {
			var err error
			if k, err = c.checkpoint(cur, number); err != nil {
				return err
			}
		}
		over := map[*store.Store]*store.Manifest{}
		if err := c.complete(number, k, func(s *store.Store, m *store.Manifest, damage error) error {
			above, err := s.Unused()
			if err != nil {
				return err
			}
			next := *m
			next.Parent, next.Base = m.Generation, m.Generation
			next.Generation = above
			next.Epoch = cur.Epoch + 1
			over[s] = &next
			if c.opt.Warn != nil {
				c.opt.Warn(damage)
			}
			return nil
		}); err != nil {
			return err
		}
		cur.Epoch++
		cur.Checkpoint, cur.Txn, cur.Stores = number, "", nil
		if k != nil {
			cur.Txn, cur.Stores = k.Txn, k.generations()
		}
		if err := store.WriteCurrent(c.fs, c.dir, cur); err != nil {
			return err
		}
		// Until this is done, the store is refused, and restore can be run again.
		for s, m := range over {
			if err := s.Publish(m); err != nil {
				return err
			}
		}
		c.tidy(ctx, cur)
		return nil
	})
}

// complete refuses a checkpoint from which the crawl could not go on: each store's manifest must be
// the one that it binds, and each file of it be there, be readable and have its length. What
// is in the files Verify reads. k is the checkpoint of the number, nil if it was not read yet. damaged, if
// not nil, is told of a newest generation that is damaged, and of the store's manifest at the checkpoint.
func (c *Crawl) complete(number uint64, k *Checkpoint, damaged func(s *store.Store, m *store.Manifest, err error) error) (err error) {
	if number > 0 && k == nil {
		if k, err = readCheckpoint(c.fs, c.dir, number); err != nil {
			return err
		}
	}
	stores, err := c.folders()
	if err != nil {
		return err
	}
	if k != nil {
		for _, ks := range k.Stores {
			if _, err := bound(c.folder(ks.Name), ks, number); err != nil {
				return err
			}
		}
	}
	for _, s := range stores {
		newest, lost := s.Newest()
		if errors.Is(lost, fs.ErrNotExist) {
			if made, e := s.Made(); e == nil && !made && (k == nil || k.of(s.NameInCrawl()) == nil) {
				continue // one that is being made
			}
		}
		if lost != nil && (damaged == nil || !errors.Is(lost, fault.Corrupt) && !errors.Is(lost, fault.Truncated) && !errors.Is(lost, fault.WrongKind)) {
			return lost
		}
		generation := uint64(1)
		if k != nil && k.of(s.NameInCrawl()) != nil {
			generation = k.of(s.NameInCrawl()).Generation
		}
		m, err := s.At(generation)
		if err != nil {
			return err
		}
		if lost == nil {
			m = m.WithSticky(newest)
		} else if err := damaged(s, m, lost); err != nil {
			return err
		}
		for _, e := range m.Files {
			if s.Spent(m, e) {
				continue
			}
			if err := s.Present(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// bound is the manifest that a checkpoint binds.
func bound(s *store.Store, ks CheckpointStore, number uint64) (*store.Manifest, error) {
	sum, err := s.ManifestSum(ks.Generation)
	if err != nil {
		return nil, err
	}
	if sum != ks.Sum {
		return nil, &fault.Error{Class: fault.Corrupt, File: s.ManifestPath(ks.Generation), Found: "checksum " + sum, Want: fmt.Sprintf("%s, as checkpoint %d says", ks.Sum, number)}
	}
	return s.At(ks.Generation)
}

// Checkpoint reads one; a forgotten one, or one that never was, is fault.Usage.
func (c *Crawl) Checkpoint(number uint64) (*Checkpoint, error) {
	cur, err := c.current()
	if err != nil {
		return nil, err
	}
	return c.checkpoint(cur, number)
}

func (c *Crawl) checkpoint(cur store.Current, number uint64) (*Checkpoint, error) {
	if number > 0 && number <= cur.Last && !cur.Forgotten.Has(number) {
		k, err := readCheckpoint(c.fs, c.dir, number)
		if errors.Is(err, fs.ErrNotExist) {
			err = c.deleted(number, number)
		}
		return k, err
	}
	e := &fault.Error{Class: fault.Usage, File: c.dir, Found: fmt.Sprintf("there is no checkpoint %d", number), Err: fs.ErrNotExist}
	if number > 0 && number <= cur.Last {
		e.Found = fmt.Sprintf("checkpoint %d has been forgotten", number)
	}
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return nil, err
	}
	e.Hint = fmt.Sprintf("%q shows those that can be restored: %s", "mckpt list "+c.dir, strings.ReplaceAll(strings.TrimSuffix("0,"+string(store.SpansOf(numbers)), ","), ",", ", "))
	return nil, e
}

// deleted is the error of checkpoints that have no file and were not forgotten.
func (c *Crawl) deleted(first, last uint64) error {
	found := "missing"
	if last > first {
		found = fmt.Sprintf("missing, with all to %d", last)
	}
	return &fault.Error{Class: fault.Corrupt, File: checkpointPath(c.dir, first), Found: found, Want: "a file of each checkpoint that gc has not forgotten", Err: fs.ErrNotExist,
		Hint: "put it back from a copy, or go on without: it is needed to go back to it alone"}
}

// List reads all checkpoints that exist, in order of number, one at a time.
func (c *Crawl) List(each func(*Checkpoint) error) error {
	cur, err := c.current()
	if err != nil {
		return err
	}
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		k, err := readCheckpoint(c.fs, c.dir, n)
		if err != nil {
			return err
		}
		if err := each(k); err != nil {
			return err
		}
	}
	return nil
}

// State is what a crawl folder stands at.
type State struct {
	Epoch      uint64       `json:"epoch"`
	Checkpoint uint64       `json:"checkpoint"`        // that it goes on from; 0: the empty crawl
	Txn        string       `json:"txn,omitempty"`     // the round that this one closed
	Rounds     []string     `json:"rounds,omitempty"`  // open rounds: one, unless commands ran with different names
	Changed    []string     `json:"changed,omitempty"` // stores that changed since the checkpoint, with a round or without a name
	Stores     []StoreState `json:"stores"`
}

// StoreState is one store in it.
type StoreState struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind"`
	Generation uint64   `json:"generation"` // that counts
	Files      int      `json:"files"`
	Bytes      int64    `json:"bytes"`
	Round      string   `json:"round,omitempty"`     // open in this store
	Committed  []string `json:"committed,omitempty"` // its verbs
}

// State reads it without a lock.
func (c *Crawl) State() (*State, error) {
	cur, err := c.current()
	if err != nil {
		return nil, err
	}
	st := &State{Epoch: cur.Epoch, Checkpoint: cur.Checkpoint}
	if cur.Checkpoint > 0 {
		k, err := readCheckpoint(c.fs, c.dir, cur.Checkpoint)
		if err != nil {
			return nil, err
		}
		st.Txn = k.Txn
	}
	stores, err := c.Stores()
	if err != nil {
		return nil, err
	}
	for _, s := range stores {
		v, err := s.Look()
		if err != nil {
			return nil, err
		}
		one := StoreState{Name: s.NameInCrawl(), Kind: v.Counts.Kind, Generation: v.Counts.Generation, Files: len(v.Counts.Files)}
		for _, e := range v.Counts.Files {
			one.Bytes += e.Length
		}
		changed, err := s.Changed(v)
		if err != nil {
			return nil, err
		}
		if changed {
			st.Changed = append(st.Changed, one.Name)
		}
		one.Round = v.Open()
		for _, d := range v.Counts.Done {
			if d.Txn == one.Round {
				one.Committed = append(one.Committed, d.Verb)
			}
		}
		if one.Round != "" && !slices.Contains(st.Rounds, one.Round) {
			st.Rounds = append(st.Rounds, one.Round)
		}
		st.Stores = append(st.Stores, one)
	}
	return st, nil
}

// GC forgets all but the newest keep checkpoints, and the current one, and
// deletes what no generation left needs. It refuses while a round is open.
func (c *Crawl) GC(ctx context.Context, keep int) (forgotten []uint64, freed store.Freed, err error) {
	if keep < 1 {
		return nil, freed, &fault.Error{Class: fault.Usage, Place: "--keep", Found: fmt.Sprint(keep), Want: "1 or more"}
	}
	err = c.locked(ctx, "mckpt gc", func(cur store.Current) error {
		stores, unlock, err := c.lockStores(ctx, "mckpt gc")
		if err != nil {
			return err
		}
		defer unlock()
		views := make([]*store.View, len(stores))
		for i, s := range stores {
			if views[i], err = s.Settle(); err != nil {
				return err
			}
			if round := views[i].Open(); round != "" {
				return s.RoundOpen("gc", round)
			}
		}
		numbers, err := checkpointNumbers(c.fs, c.dir, cur)
		if err != nil {
			return err
		}
		// A checkpoint goes before what it needs.
		for i, n := range numbers {
			if i < len(numbers)-keep && n != cur.Checkpoint {
				cur.Forgotten = cur.Forgotten.With(n)
				forgotten = append(forgotten, n)
			}
		}
		if len(forgotten) > 0 {
			if err := store.WriteCurrent(c.fs, c.dir, cur); err != nil {
				return err
			}
			for _, v := range views {
				v.Current = cur
			}
		}
		bound, err := c.bound(cur)
		if err != nil {
			return err
		}
		for i, s := range stores {
			f, err := s.Collect(views[i], bound[s.NameInCrawl()])
			if err != nil {
				return err
			}
			freed.Files += f.Files
			freed.Bytes += f.Bytes
		}
		return c.removeLeftovers(cur, &freed)
	})
	return forgotten, freed, err
}

// removeLeftovers deletes forgotten checkpoints, and unpublished files of CURRENT and of checkpoints,
// which are of commands that were killed: others hold the lock for them.
func (c *Crawl) removeLeftovers(cur store.Current, freed *store.Freed) error {
	for _, under := range []string{"", checkpointsDir} {
		list, err := c.fs.ReadDir(c.path(under))
		if err != nil {
			return err
		}
		for _, e := range list {
			unpublished := durable.IsTemp(e.Name()) && (under != "" || strings.HasPrefix(e.Name(), ".CURRENT.")) // others may be of an output that is being written
			n, err := strconv.ParseUint(e.Name(), 10, 64)
			gone := under != "" && err == nil && cur.Forgotten.Has(n)
			if !unpublished && !gone {
				continue
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if err := c.fs.Remove(c.path(filepath.Join(under, e.Name()))); err != nil {
				return err
			}
			if unpublished {
				freed.Files++
				freed.Bytes += info.Size()
			}
		}
	}
	return nil
}

// NextRound is the number of the round that comes after the current checkpoint,
// where rounds are named r1, r2, … and "seed" counts as r0; 0 if no checkpoint
// holds the seeds yet. Other names are passed over.
func (c *Crawl) NextRound() (uint64, error) {
	cur, err := c.current()
	if err != nil {
		return 0, err
	}
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return 0, err
	}
	for at := cur.Checkpoint; at > 0; {
		k, err := readCheckpoint(c.fs, c.dir, at)
		if errors.Is(err, fs.ErrNotExist) {
			// A forgotten one: the one before it by number.
			i := sort.Search(len(numbers), func(i int) bool { return numbers[i] >= at })
			if i == 0 {
				break
			}
			at = numbers[i-1]
			continue
		}
		if err != nil {
			return 0, err
		}
		if k.Txn == "seed" {
			return 1, nil
		}
		if digits, ok := strings.CutPrefix(k.Txn, "r"); ok {
			if n, err := strconv.ParseUint(digits, 10, 53); err == nil {
				return n + 1, nil
			}
		}
		at = k.Parent
	}
	if cur.Checkpoint > 0 {
		return 1, nil
	}
	return 0, nil
}

// Config returns the folder's crawl.toml.
func (c *Crawl) Config() ([]byte, error) {
	return durable.ReadFile(c.fs, c.path(configFile), maxConfig)
}
