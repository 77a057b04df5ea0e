package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
)

// Pull makes a crawl folder of the last snapshot at a remote. The folder must be missing, empty, or left by an
// interrupted pull, which then goes on. The crawl has a new epoch and an identity of its own. prepare is as in crawl.TakeOver.
func Pull(ctx context.Context, spelling, dir string, prepare func(dir, name string, newest uint64) error, opt Options) (*Done, error) {
	fresh, err := empty(dir)
	if err != nil {
		return nil, err
	}
	marker := filepath.Join(dir, ownDir, crawl.PullFile)
	going, err := durable.Exists(durable.OS, marker)
	if err != nil {
		return nil, err
	}
	if !fresh && !going {
		e := &fault.Error{Class: fault.Usage, File: dir, Found: "a folder that holds files", Want: "none, or that of an unfinished pull", Hint: "name another folder"}
		if store.IsCrawl(dir, store.Options{}) {
			e.Found = "a crawl folder"
		}
		return nil, e
	}
	there, err := durable.Exists(durable.OS, dir)
	if err != nil {
		return nil, err
	}
	undo := func() {
		_ = os.RemoveAll(filepath.Join(dir, ownDir))
		if !there { // an empty folder of the user's stays
			_ = os.Remove(dir)
		}
	}
	c, end, err := begin(ctx, dir, spelling, "mckpt pull", opt)
	if err != nil {
		if fresh && !errors.Is(err, fault.Busy) {
			undo()
		}
		return nil, err
	}
	defer end()
	if store.IsCrawl(dir, store.Options{}) { // killed after its last step
		cur, err := store.ReadCurrent(durable.OS, dir)
		if err != nil {
			return nil, err
		}
		c.done.Checkpoint, c.done.Round = cur.Checkpoint, cur.Txn
		if _, _, c.done.Snapshot, err = c.identity(); err != nil {
			return nil, err
		}
	} else if err := c.pull(ctx, prepare); err != nil {
		if there, e := durable.Exists(durable.OS, marker); e == nil && !there { // nothing was begun
			end()
			undo()
		}
		return nil, err
	}
	return c.done, os.Remove(marker)
}

// empty reports whether there is no folder, or one without files but for what a pull leaves that did not begin.
func empty(dir string) (bool, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, &fault.Error{Class: fault.Usage, File: dir, Err: err, Want: "a folder"}
	}
	for _, e := range list {
		if e.Name() != ownDir {
			return false, nil
		}
	}
	there, err := durable.Exists(durable.OS, filepath.Join(dir, ownDir, crawl.PullFile))
	return !there, err
}

func (c *copier) pull(ctx context.Context, prepare func(dir, name string, newest uint64) error) (err error) {
	if err := c.listRemote(ctx); err != nil {
		return err
	}
	l, _, err := c.newest(ctx)
	if err != nil {
		return err
	}
	if l == nil {
		return &fault.Error{Class: fault.Usage, File: c.name, Found: "no snapshot", Want: "what mckpt push has made", Hint: "look at the spelling, and whether the disk is mounted"}
	}
	if err := durable.WriteFile(durable.OS, filepath.Join(c.own, crawl.PullFile), fmt.Appendf(nil, "%s %d\n", c.name, l.Number)); err != nil {
		return err
	}
	if err := c.clear(l); err != nil {
		return err
	}
	lacking := map[string]*File{} // by name at the remote
	lengths := map[string]int64{}
	for i := range l.Files {
		if err := c.lacks(ctx, &l.Files[i], func(name string, p Part) {
			lacking[name], lengths[name] = &l.Files[i], p.Length
		}); err != nil {
			return err
		}
	}
	// Parts of a file come in their order: one after the other is added.
	var names []string
	for i := range l.Files {
		for _, p := range l.Files[i].parts() {
			if name := object(l.Files[i].Path, p); lacking[name] != nil {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		if size, ok := c.have[name]; !ok || size != lengths[name] {
			found := "missing"
			if ok {
				found = fmt.Sprintf("%d bytes", size)
			}
			return c.broken(name, found, fmt.Sprintf("%d bytes", lengths[name]))
		}
	}
	err = c.receive(ctx, names, lengths, func(name string, whole bool) error {
		if !whole {
			return c.broken(name, "other bytes than were sent", "those whose checksum is in the name")
		}
		c.done.Copied++
		c.done.CopiedSize += lengths[name]
		return c.place(ctx, lacking[name], name)
	})
	if err != nil {
		return err
	}
	if err := c.syncFolders(l); err != nil {
		return err
	}
	if _, err := newIdentity(c.own, l.Crawl, l.Number); err != nil {
		return err
	}
	c.sent = map[string][]published{}
	if err := c.writeSent(l); err != nil {
		return err
	}
	c.done.Snapshot, c.done.Checkpoint, c.done.Round, c.done.Files = l.Number, l.Current.Checkpoint, l.Current.Txn, len(l.Files)
	for _, f := range l.Files {
		c.done.Bytes += f.Length
	}
	if c.opt.Arrived != nil {
		if err := c.opt.Arrived(); err != nil {
			return err
		}
	}
	_, err = crawl.TakeOver(c.dir, l.Current, prepare, crawl.Options{})
	return err
}

func (c *copier) broken(name, found, want string) error {
	return &fault.Error{Class: fault.Corrupt, File: c.name + "/" + name, Found: found, Want: want,
		Hint: "what was pulled is kept; where the crawl is still there, mend it: " + fault.Quote("mckpt", "push", "--check", "CRAWL", c.name)}
}

// disk is where a file is to be.
func (c *copier) disk(f *File) string {
	if f.Open {
		return c.local(f.Path) + store.OpenSuffix
	}
	return c.local(f.Path)
}

// clear deletes what an earlier, interrupted pull has left of an older snapshot.
func (c *copier) clear(l *List) error {
	keep := map[string]bool{}
	for i := range l.Files {
		keep[c.disk(&l.Files[i])] = true
	}
	return filepath.WalkDir(c.dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == c.own:
			return filepath.SkipDir
		case e.IsDir() || keep[path]:
			return nil
		}
		return os.Remove(path)
	})
}

// lacks calls each for the parts of a file that are not here yet. Of a file with several it keeps those that are whole.
func (c *copier) lacks(ctx context.Context, f *File, each func(name string, p Part)) error {
	path := c.disk(f)
	if f.Length == 0 {
		out, err := durable.CreateAll(durable.OS, path)
		if err != nil {
			return err
		}
		defer out.Abort()
		if err := out.Commit(); err != nil || f.Mode == 0 {
			return err
		}
		return os.Chmod(path, os.FileMode(f.Mode)|0o600)
	}
	parts := f.parts()
	here := 0
	in, err := os.Open(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		defer in.Close()
		var at int64
		for _, p := range parts {
			hash := xxh3.New()
			n, err := io.Copy(hash, io.NewSectionReader(in, at, p.Length))
			if err := cmp.Or(err, context.Cause(ctx)); err != nil {
				return err
			}
			if n != p.Length || store.HexSum(hash) != p.Sum {
				break
			}
			at += p.Length
			here++
		}
		if here == 0 {
			err = os.Remove(path)
		} else {
			err = os.Truncate(path, at)
		}
		if err != nil {
			return err
		}
	}
	for _, p := range parts[here:] {
		each(object(f.Path, p), p)
	}
	return nil
}

// place moves a received part to its file, or adds it there.
func (c *copier) place(ctx context.Context, f *File, name string) error {
	path, from := c.disk(f), c.staging(name)
	if err := durable.MkdirAll(durable.OS, filepath.Dir(path)); err != nil {
		return err
	}
	in, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := in.Sync(); err != nil {
			return err
		}
		if f.Mode != 0 {
			if err := in.Chmod(os.FileMode(f.Mode) | 0o600); err != nil {
				return err
			}
		}
		return os.Rename(from, path)
	} else if err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, ctxReader{ctx, in}); err != nil {
		return err
	}
	return out.Sync()
}

// syncFolders makes the names of all files durable.
func (c *copier) syncFolders(l *List) error {
	folders := map[string]bool{c.dir: true}
	for i := range l.Files {
		for dir := filepath.Dir(c.disk(&l.Files[i])); !folders[dir]; dir = filepath.Dir(dir) {
			folders[dir] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		if err := durable.OS.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
