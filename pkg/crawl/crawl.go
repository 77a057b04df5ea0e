package crawl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/shard"
)

// Options of Init and Open.
type Options struct {
	FS       durable.FS        // nil: durable.OS
	LockWait time.Duration     // as of a store
	Shards   int               // for Init: number of shards; 0: none, or as many as exist
	Progress func(bytes int64) // gets the bytes that Verify and GC read; may be nil
	Warn     func(err error)   // gets a warning of damage that Restore passes by, and of files that Restore and TidyRounds move or Kept.Files misses; may be nil
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
	fs     durable.FS
	dir    string
	opt    Options
	under  string // "shard/007" where it is a part: the view of one shard
	warned string // the last warning of lost files, which is given once
}

// maxConfig bounds the size of a crawl.toml.
const maxConfig = 1 << 20 // as in pkg/config

// Init makes a crawl folder: its stores, by makeStores, its configuration
// (crawl.toml), and last of all CURRENT, so that a folder with CURRENT is complete.
// In a folder that is there already it makes what is missing, but no CURRENT beside
// checkpoints or stores that have changed: fault.Corrupt. A configuration
// other than the one there is fault.Usage; nil keeps that one, or writes preset.
//
// With Options.Shards the crawl has a bucket map, and makeStores is called for the folder of each shard. If the
// folder has another number of shards, Init fails with fault.Usage.
func Init(dir string, config, preset []byte, makeStores func(dir string) error, opt Options) (*Crawl, error) {
	c := &Crawl{fs: opt.fs(), dir: dir, opt: opt}
	if err := cmp.Or(c.notFile(), c.unfinished(), c.lost()); err != nil {
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
	m, err := c.initMap()
	if err != nil {
		return nil, err
	}
	version := uint64(0)
	if m == nil {
		if err := makeStores(dir); err != nil {
			return nil, err
		}
	} else {
		version = m.Version
		for n := range m.Shards {
			if err := makeStores(shard.Dir(dir, n)); err != nil {
				return nil, err
			}
		}
	}
	err = durable.LinkFile(c.fs, c.path(configFile), content)
	if errors.Is(err, fs.ErrExist) && config != nil {
		err = c.notConfigured(config)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := store.CreateCurrent(c.fs, dir, version); err != nil {
		return nil, err
	}
	_, err = c.current()
	return c, err
}

// New has fill make a folder that is not there, or is empty, under a temporary name, so that it is whole or as it was. If
// there are files in it, or somebody else is quicker, taken is true, and fill was in vain. A folder that is there stays, since it may be a
// mount point or a link to a folder: what fill made moves into it, CURRENT last. Where a process was killed, the next one
// removes what was not whole, and else moves the rest: then too taken is true.
func New(ctx context.Context, dir string, fill func(dir string) error) (taken bool, err error) {
	dir = filepath.Clean(dir)
	if err := (&Crawl{fs: durable.OS, dir: dir}).notFile(); err != nil {
		return false, err
	}
	foreign := func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), privatePrefix) }
	list, err := os.ReadDir(dir)
	there := !errors.Is(err, fs.ErrNotExist)
	if there && err != nil {
		return false, err
	}
	if len(list) > 0 && !slices.ContainsFunc(list, func(e os.DirEntry) bool { return !foreign(e) }) {
		return true, nil
	}
	parent, prefix := dir, privatePrefix
	if !there {
		parent, prefix = filepath.Dir(dir), "."+filepath.Base(dir)+privatePrefix
		if err := durable.MkdirAll(durable.OS, parent); err != nil {
			return false, err
		}
	}
	unlock, err := lockNew(ctx, dir, filepath.Join(parent, prefix+"lock"))
	if err != nil {
		return false, err
	}
	defer unlock()
	whole := filepath.Join(dir, wholeName)
	if there {
		if err := moveInto(dir, whole); err != nil {
			return false, err
		}
	}
	if list, err = os.ReadDir(parent); err != nil {
		return false, err
	}
	for _, e := range list { // nobody else is at work here
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			if err := os.RemoveAll(filepath.Join(parent, e.Name())); err != nil {
				return false, err
			}
		}
	}
	if list, err = os.ReadDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if slices.ContainsFunc(list, foreign) {
		return true, nil
	}
	private, err := os.MkdirTemp(parent, prefix+"*")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(private)
	tmp := filepath.Join(private, "crawl") // has the permissions that fill gives it
	if err := fill(tmp); err != nil {
		return false, err
	}
	if !there {
		err = rename(tmp, dir)
	} else if err = rename(tmp, whole); err == nil {
		err = moveInto(dir, whole)
	}
	if errors.Is(err, fs.ErrExist) && !there {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, durable.OS.SyncDir(parent)
}

const (
	privatePrefix = ".new."      // begins the names that New gives to what is not a crawl yet
	wholeName     = ".new.whole" // the folder of a whole crawl that moves into the one around it
	newWait       = time.Minute  // bounds the wait for another process that makes the same crawl
)

var rename = os.Rename // tests kill the process here

// lockNew takes the lock of whoever makes the crawl dir. The file goes with the lock, so that a start that fails leaves nothing.
func lockNew(ctx context.Context, dir, file string) (unlock func(), err error) {
	for {
		lock, err := store.Lock(ctx, durable.OS, file, "new", newWait)
		if errors.Is(err, fault.Busy) {
			return nil, &fault.Error{Class: fault.Busy, File: dir, Found: "being made by " + cmp.Or(durable.Owner(durable.OS, file), "another process"), Hint: "wait for it to end"}
		}
		if err != nil {
			return nil, err
		}
		have, err := lock.(*os.File).Stat()
		if at, atErr := os.Stat(file); err == nil && atErr == nil && os.SameFile(have, at) {
			return func() { _ = os.Remove(file); _ = lock.Close() }, nil // a lock file that stays is in nobody's way
		}
		_ = lock.Close() // of a file that its last holder removed
	}
}

// moveInto moves what is in from, if that is there, into the folder dir, and may be called again after a kill. CURRENT, which
// says that a crawl is whole, comes last.
func moveInto(dir, from string) error {
	list, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	last := func(e os.DirEntry) bool { return e.Name() == "CURRENT" }
	if at := slices.IndexFunc(list, last); at >= 0 {
		end := len(list) - 1
		list[at], list[end] = list[end], list[at]
	}
	for _, e := range list {
		if last(e) {
			if err := durable.OS.SyncDir(dir); err != nil {
				return err
			}
		}
		to := filepath.Join(dir, e.Name())
		if _, err := os.Lstat(to); err == nil {
			return &fault.Error{Class: fault.Usage, File: to, Found: "a file beside a crawl that is being made", Want: "none", Hint: "move it elsewhere"}
		}
		if err := rename(filepath.Join(from, e.Name()), to); err != nil {
			return err
		}
	}
	if err := durable.OS.SyncDir(dir); err != nil {
		return err
	}
	return os.Remove(from)
}

// Whole is New, and has fill complete a folder that there is already.
func Whole(ctx context.Context, dir string, fill func(dir string) error) error {
	taken, err := New(ctx, dir, fill)
	if taken {
		return fill(filepath.Clean(dir))
	}
	return err
}

// notConfigured is fault.Usage if the folder has another configuration.
func (c *Crawl) notConfigured(config []byte) error {
	have, err := durable.ReadFile(c.fs, c.path(configFile), maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !bytes.Equal(have, config):
		return &fault.Error{Class: fault.Usage, File: c.path(configFile), Found: "another configuration than the one given",
			Hint: "another crawl needs another folder; the settings of that crawl, which the same command changes: " + fault.Quote("mcrawl", "set", c.dir)}
	}
	return err
}

func (c *Crawl) notFile() error {
	if st, err := c.fs.Stat(c.dir); err == nil && !st.IsDir() {
		return &fault.Error{Class: fault.Usage, File: c.dir, Found: "a file", Want: "a crawl folder"}
	}
	return nil
}

// Folder is the crawl in dir without a look at it: for Repair alone.
func Folder(dir string, opt Options) *Crawl { return &Crawl{fs: opt.fs(), dir: dir, opt: opt} }

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

const notCrawl = "not a crawl folder"

// lost refuses a folder that has lost its CURRENT: with a new one it would stand at the empty crawl, and abandon would
// delete what its checkpoints hold.
func (c *Crawl) lost() error {
	if err := store.MissingCurrent(c.fs, c.dir); err != nil {
		return err
	}
	if made, err := durable.Exists(c.fs, c.path(configFile)); !made || err != nil {
		return nil // stores outside of a crawl
	}
	under, _ := c.storesOfShards()
	stores, _ := c.foldersUnder(under)
	for _, s := range stores {
		if list, err := s.Generations(); err == nil && len(list) > 0 && list[len(list)-1] > 1 && !store.IsCrawl(c.dir, c.opt.stores()) { // another process may have made CURRENT
			return store.NoCurrent(c.dir, fmt.Sprintf("generation %d of %s", list[len(list)-1], s.NameInCrawl()))
		}
	}
	return nil
}

// newest is current, and refuses a CURRENT from before checkpoints that are there, as an old copy brings it back: what they hold would count as
// given up, and be deleted. A file above the last that goes on from a later checkpoint cannot be of a commit that died.
func (c *Crawl) newest() (store.Current, error) {
	numbers, err := store.CheckpointFiles(c.fs, c.dir) // before CURRENT: another machine may commit
	if err != nil {
		return store.Current{}, err
	}
	cur, err := c.current()
	for _, n := range slices.Backward(numbers) {
		if err != nil || n <= cur.Last {
			break
		}
		k, e := readCheckpoint(c.fs, c.dir, n)
		if e != nil && fault.ClassOf(e) == "" && !errors.Is(e, fs.ErrNotExist) {
			return cur, e
		}
		if e == nil && k.Parent > cur.Last { // else no whole one
			return cur, &fault.Error{Class: fault.Corrupt, File: c.path(store.CurrentFile), Found: fmt.Sprintf("last checkpoint %d", cur.Last), Want: fmt.Sprintf("%d or later: %s goes on from it", k.Parent, checkpointPath(c.dir, n)),
				Hint: store.HintCurrent(c.dir)}
		}
	}
	return cur, err
}

func (c *Crawl) current() (store.Current, error) {
	cur, err := store.ReadCurrent(c.fs, c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if e := c.unfinished(); e != nil {
			return cur, e
		}
		e := &fault.Error{Class: fault.Usage, File: c.dir, Found: notCrawl, Want: "a folder with a file CURRENT", Err: err,
			Hint: "make one: " + fault.Quote("mckpt", "init", c.dir)}
		is, hint := c.elsewhere()
		if is == "" || is == notCrawl {
			if e := c.lost(); e != nil {
				return cur, e
			}
		}
		if is != "" {
			e.Found, e.Hint, e.Err = is, hint, nil // nobody is to make a crawl here
		}
		return cur, e
	}
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Class != fault.Version && f.Class.ExitCode() == fault.Corrupt.ExitCode() && f.Hint == "" {
		f.Hint = store.HintCurrent(c.dir)
	}
	return cur, err
}

// elsewhere says what a folder is that belongs to a crawl and is none, and what to do; "" of another.
func (c *Crawl) elsewhere() (is, hint string) {
	if dir, _, ok := store.ShardAt(c.dir); ok && store.IsCrawl(dir, c.opt.stores()) {
		return "the folder of a shard", "name the crawl folder: " + dir
	}
	s := c.folder("")
	if made, err := s.Made(); made && err == nil && s.CrawlDir() != "" {
		return "the folder of a store", "name the crawl folder: " + s.CrawlDir()
	}
	list, _ := c.fs.ReadDir(c.dir) // where it cannot be read, it is none of these
	if slices.ContainsFunc(list, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "SNAPSHOT-") }) {
		remote := c.dir
		if abs, err := filepath.Abs(c.dir); err == nil {
			remote = abs
		}
		return "a copy that mckpt push has made", "make a crawl of it: " + fault.Quote("mckpt", "pull", c.dir, "NEW") + "; or read it back and send again what is damaged, from its crawl: " + fault.Quote("mckpt", "push", "CRAWL", remote, "--check")
	}
	if len(list) == 0 || slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == "crawl.toml" }) { // of a crawl to be made
		return "", ""
	}
	for _, e := range list {
		if dir := filepath.Join(c.dir, e.Name()); e.IsDir() && store.IsCrawl(dir, c.opt.stores()) {
			return notCrawl, "name the crawl folder, such as " + dir
		}
	}
	return notCrawl, "it has other files: name a crawl folder, or make one beside them: " + fault.Quote("mcrawl", "new", filepath.Join(c.dir, "crawl"), "--seeds", "seeds.txt")
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
	under, err := c.storesUnder()
	if err != nil {
		return nil, err
	}
	return c.foldersUnder(under)
}

func (c *Crawl) foldersUnder(under []string) ([]*store.Store, error) {
	var stores []*store.Store
	for _, under := range under {
		list, err := c.fs.ReadDir(c.path(under))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if under == "" && (e.Name() == roundsDir || e.Name() == checkpointsDir) {
				continue // they grow by each round
			}
			s := c.folder(filepath.Join(under, e.Name()))
			// A store may be a link to a folder on another disk.
			if st, err := c.fs.Stat(s.Dir()); err != nil || !st.IsDir() {
				continue
			}
			made, err := s.Made()
			if !made && err == nil { // lists a long folder only where no pointer tells
				list, err := s.Generations()
				if err != nil {
					return nil, err
				}
				made = len(list) > 0
			}
			if made || err != nil {
				stores = append(stores, s)
			}
		}
	}
	slices.SortFunc(stores, func(a, b *store.Store) int { return strings.Compare(a.NameInCrawl(), b.NameInCrawl()) })
	return stores, nil
}

// locked runs f under the lock of the crawl folder, unless its CURRENT is an old one.
func (c *Crawl) locked(ctx context.Context, what string, f func(store.Current) error) error {
	lock, err := store.Lock(ctx, c.fs, c.path(store.LockFile), what, c.opt.LockWait)
	if err != nil {
		return err
	}
	defer lock.Close()
	cur, err := c.newest()
	if err == nil {
		err = f(cur)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &fault.Error{Err: err, Hint: fmt.Sprintf("make room on that disk (df -h shows the disks), and run the same command again; if nothing else can go, move folders of older rounds from %s elsewhere, and back afterwards", c.path(roundsDir))}
	}
	return err
}

// Hold takes the lock of the crawl's driver, which says who runs its rounds, waiting at
// most wait: then fault.Busy, naming the holder. Changes of the crawl and of stores do not
// need it. The lock goes with the last process that inherited the file.
func (c *Crawl) Hold(ctx context.Context, what string, wait time.Duration) (*os.File, error) {
	lock, err := store.Lock(ctx, durable.OS, c.path(DriverFile), what, wait)
	if errors.Is(err, fault.Busy) {
		return nil, &fault.Error{Class: fault.Busy, Err: err, Hint: "wait for it to end" + stillRunning(c.path(DriverFile))}
	}
	if err != nil {
		return nil, err
	}
	return lock.(*os.File), nil
}

// Driven says who holds the lock of the crawl's driver; "" if nobody does.
func (c *Crawl) Driven() string {
	if !durable.Locked(c.path(DriverFile)) {
		return ""
	}
	return cmp.Or(durable.Owner(durable.OS, c.path(DriverFile)), "another process")
}

// stillRunning names the processes of this machine that have a file open, where the system tells.
func stillRunning(file string) string {
	want, err := os.Stat(file)
	if err != nil {
		return ""
	}
	const most = 8
	var list []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
		open, _ := filepath.Glob(proc + "/fd/*")
		for _, fd := range open {
			if is, err := os.Stat(fd); err != nil || !os.SameFile(want, is) {
				continue
			}
			name, _ := os.ReadFile(proc + "/comm") // it may have ended
			list = append(list, filepath.Base(proc)+" "+strings.TrimSpace(string(name)))
			break
		}
		if len(list) == most {
			break
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "; these processes of " + durable.Self().Host + " hold the crawl: " + strings.Join(list, ", ")
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

// Config returns the folder's crawl.toml.
func (c *Crawl) Config() ([]byte, error) {
	return durable.ReadFile(c.fs, c.path(configFile), maxConfig)
}

// Configure changes the folder's crawl.toml: edit returns the new text of the one there. It is
// replaced whole, under the lock of the folder, and counts for commands that begin afterwards.
func (c *Crawl) Configure(ctx context.Context, edit func(old []byte) ([]byte, error)) error {
	return c.locked(ctx, "set", func(store.Current) error {
		old, err := c.Config()
		if err != nil {
			return err
		}
		text, err := edit(old)
		if err != nil || bytes.Equal(text, old) {
			return err
		}
		return c.replaceConfig(text)
	})
}

// replaceConfig replaces crawl.toml by a file with the same permissions.
func (c *Crawl) replaceConfig(text []byte) error {
	old, err := c.fs.Stat(c.path(configFile))
	if err != nil {
		return err
	}
	a, err := durable.Create(c.fs, c.path(configFile))
	if err != nil {
		return err
	}
	defer a.Abort()
	if f, ok := a.File().(*os.File); ok { // else a file system of tests
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	if _, err := a.Write(text); err != nil {
		return err
	}
	return a.Commit()
}
