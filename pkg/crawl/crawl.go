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
	"strings"
	"time"

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
const maxConfig = 1 << 20 // as in pkg/config

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

// Config returns the folder's crawl.toml.
func (c *Crawl) Config() ([]byte, error) {
	return durable.ReadFile(c.fs, c.path(configFile), maxConfig)
}
