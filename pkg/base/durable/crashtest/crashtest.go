// Package crashtest is a file system in memory that can stop at every call, and can lose whatever was not synced. Tests and benchmarks alone
// import it.
package crashtest

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"mercator/pkg/base/durable"
)

// ErrCrashed is the error of every call from the crash on.
var ErrCrashed = errors.New("the machine has crashed")

// FS is a durable.FS in memory for tests of crash safety. It keeps apart
// what programs see and what is on the disk:
//
//   - the bytes of a file reach the disk with File.Sync, never with Close;
//   - a created, linked, renamed or removed name reaches it with SyncDir of its folder;
//   - CrashAt stops it at a call, AfterCrash gives what a machine would find
//     after the restart: whatever was not on the disk may be there, in part, or not;
//   - SetSpace makes the disk full after some bytes.
//
// Many goroutines may use it. Paths are absolute, slash-separated.
type FS struct {
	mu      sync.Mutex
	root    *inode
	calls   int
	crashAt int // 0: never
	crashed bool
	space   int64 // bytes that may still be written; <0: no limit
	locks   map[*inode]bool
	pending []nameOp // changes of names since the start, not yet on the disk
}

// inode is a file or a folder.
type inode struct {
	dir      bool
	names    map[string]*inode // folder: as programs see it
	onDisk   map[string]*inode // folder: as the disk has it
	data     []byte            // file: as programs see it
	diskData []byte            // file: as the disk has it
}

// nameOp is one change of names, which the disk takes whole or not at all: a
// rename changes two entries.
type nameOp struct {
	edits []edit
}

type edit struct {
	dir  *inode
	name string
	node *inode // nil: removed
}

func newDir() *inode {
	return &inode{dir: true, names: map[string]*inode{}, onDisk: map[string]*inode{}}
}

// New returns an empty file system that holds only "/".
func New() *FS {
	return &FS{root: newDir(), space: -1, locks: map[*inode]bool{}}
}

// CrashAt lets the n-th changing call from now on (1 is the next one) fail, and
// every call after it. A write that is stopped has written its first half.
func (c *FS) CrashAt(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls, c.crashAt = 0, n
}

// Calls returns the number of changing calls since CrashAt or the start.
func (c *FS) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// Crashed reports whether the crash has happened.
func (c *FS) Crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crashed
}

// SetSpace leaves room for n more bytes; negative: without limit. A write
// beyond it writes what fits and fails with ENOSPC.
func (c *FS) SetSpace(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.space = n
}

// Loss says what becomes of changes that were not synced.
type Loss uint64

// LoseAll loses them; KeepAll keeps them, as when a process is killed but the
// machine runs on. Every other value is the seed of a mixture: some of the new
// bytes of each file, some of the changes of names.
const (
	LoseAll Loss = iota
	KeepAll
)

// AfterCrash returns the file system that a restart would find. Open files and
// locks are gone. The receiver is not changed; it can be asked again with
// another Loss.
func (c *FS) AfterCrash(loss Loss) *FS {
	c.mu.Lock()
	defer c.mu.Unlock()
	rng := rand.New(rand.NewPCG(uint64(loss), 0x6d65726361746f72))
	dirs := map[*inode]map[string]*inode{}
	entries := func(dir *inode) map[string]*inode {
		if dirs[dir] == nil {
			dirs[dir] = map[string]*inode{}
			for name, node := range dir.onDisk {
				dirs[dir][name] = node
			}
		}
		return dirs[dir]
	}
	if loss != LoseAll {
		// Changes of one folder reach the disk in order, as a journal keeps
		// it; each folder stops at its own place.
		stopped := map[*inode]bool{}
		for _, op := range c.pending {
			keep := loss == KeepAll || rng.IntN(4) > 0
			for _, e := range op.edits {
				keep = keep && !stopped[e.dir]
			}
			for _, e := range op.edits {
				if !keep {
					stopped[e.dir] = true
				} else if e.node == nil {
					delete(entries(e.dir), e.name)
				} else {
					entries(e.dir)[e.name] = e.node
				}
			}
		}
	}
	after := New()
	made := map[*inode]*inode{}
	var clone func(n *inode) *inode
	clone = func(n *inode) *inode {
		if m := made[n]; m != nil {
			return m
		}
		m := &inode{dir: n.dir}
		made[n] = m
		if !n.dir {
			m.data = n.afterCrash(loss, rng)
			m.diskData = append([]byte(nil), m.data...)
			return m
		}
		m.names, m.onDisk = map[string]*inode{}, map[string]*inode{}
		kept := entries(n)
		for _, name := range sortedNames(kept) { // in order, so that a seed decides alone
			k := clone(kept[name])
			m.names[name], m.onDisk[name] = k, k
		}
		return m
	}
	after.root = clone(c.root)
	return after
}

// afterCrash returns a file's bytes after a restart.
func (n *inode) afterCrash(loss Loss, rng *rand.Rand) []byte {
	old, new := n.diskData, n.data
	switch loss {
	case LoseAll:
		return append([]byte(nil), old...)
	case KeepAll:
		return append([]byte(nil), new...)
	}
	b := append([]byte(nil), new...)
	switch rng.IntN(4) {
	case 0: // the old bytes
		b = append([]byte(nil), old...)
	case 1: // some of the new bytes, the length cut
		if len(new) > len(old) {
			b = b[:len(old)+rng.IntN(len(new)-len(old))]
		}
	case 2: // the new length, the bytes still zero
		for i := len(old); i < len(b); i++ {
			b[i] = 0
		}
	}
	return b
}

func sortedNames(m map[string]*inode) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// change counts a changing call. The lock is held.
func (c *FS) change() error {
	if c.crashed {
		return ErrCrashed
	}
	c.calls++
	if c.crashAt > 0 && c.calls >= c.crashAt {
		c.crashed = true
		return ErrCrashed
	}
	return nil
}

// look finds a path. The lock is held.
func (c *FS) look(op, name string) (*inode, error) {
	if c.crashed {
		return nil, &fs.PathError{Op: op, Path: name, Err: ErrCrashed}
	}
	n := c.root
	for _, part := range strings.Split(strings.Trim(filepath.ToSlash(filepath.Clean(name)), "/"), "/") {
		if part == "" {
			continue
		}
		if !n.dir {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
		}
		if n = n.names[part]; n == nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
		}
	}
	return n, nil
}

// parent finds the folder of a path, and the name in it. The lock is held.
func (c *FS) parent(op, name string) (*inode, string, error) {
	d, err := c.look(op, filepath.Dir(filepath.Clean(name)))
	if err != nil {
		return nil, "", err
	}
	if !d.dir {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
	}
	return d, filepath.Base(filepath.Clean(name)), nil
}

// apply makes edits visible and remembers that the disk lacks them.
func (c *FS) apply(edits ...edit) {
	for _, e := range edits {
		if e.node == nil {
			delete(e.dir.names, e.name)
		} else {
			e.dir.names[e.name] = e.node
		}
	}
	c.pending = append(c.pending, nameOp{edits})
}

// OpenFile opens or makes a file.
func (c *FS) OpenFile(name string, flag int, perm fs.FileMode) (durable.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.look("open", name)
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || flag&os.O_CREATE == 0) {
		return nil, err
	}
	writes := flag&(os.O_WRONLY|os.O_RDWR) != 0
	switch {
	case n == nil:
		d, base, err := c.parent("open", name)
		if err != nil {
			return nil, err
		}
		if err := c.change(); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		n = &inode{}
		c.apply(edit{d, base, n})
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EEXIST}
	case n.dir && writes:
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case flag&os.O_TRUNC != 0 && writes:
		if err := c.change(); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		n.data = nil
	}
	return &crashFile{c: c, n: n, name: name, writes: writes, appends: flag&os.O_APPEND != 0}, nil
}

// Link gives a file a second name.
func (c *FS) Link(oldname, newname string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	fail := func(err error) error {
		return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: cause(err)}
	}
	n, err := c.look("link", oldname)
	if err != nil {
		return fail(err)
	}
	d, base, err := c.parent("link", newname)
	if err != nil {
		return fail(err)
	}
	if d.names[base] != nil {
		return fail(syscall.EEXIST)
	}
	if err := c.change(); err != nil {
		return fail(err)
	}
	c.apply(edit{d, base, n})
	return nil
}

// Rename moves a name, replacing a file of the new one.
func (c *FS) Rename(oldname, newname string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	fail := func(err error) error {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: cause(err)}
	}
	n, err := c.look("rename", oldname)
	if err != nil {
		return fail(err)
	}
	od, obase, err := c.parent("rename", oldname)
	if err != nil {
		return fail(err)
	}
	nd, nbase, err := c.parent("rename", newname)
	if err != nil {
		return fail(err)
	}
	if to := nd.names[nbase]; to != nil && to.dir != n.dir {
		return fail(syscall.EISDIR)
	} else if to != nil && to.dir && len(to.names) > 0 {
		return fail(syscall.ENOTEMPTY)
	}
	if err := c.change(); err != nil {
		return fail(err)
	}
	c.apply(edit{od, obase, nil}, edit{nd, nbase, n})
	return nil
}

// cause strips a path error for a link error.
func cause(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// Remove removes a file or an empty folder.
func (c *FS) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.look("remove", name)
	if err != nil {
		return err
	}
	if n.dir && len(n.names) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	d, base, err := c.parent("remove", name)
	if err != nil {
		return err
	}
	if err := c.change(); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	c.apply(edit{d, base, nil})
	return nil
}

// MkdirAll makes a folder and its missing parents, one change each.
func (c *FS) MkdirAll(name string, perm fs.FileMode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crashed {
		return &fs.PathError{Op: "mkdir", Path: name, Err: ErrCrashed}
	}
	n := c.root
	for _, part := range strings.Split(strings.Trim(filepath.ToSlash(filepath.Clean(name)), "/"), "/") {
		if part == "" {
			continue
		}
		next := n.names[part]
		if next == nil {
			if err := c.change(); err != nil {
				return &fs.PathError{Op: "mkdir", Path: name, Err: err}
			}
			next = newDir()
			c.apply(edit{n, part, next})
		}
		if !next.dir {
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
		n = next
	}
	return nil
}

// ReadDir lists a folder by name.
func (c *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, err := c.look("readdir", name)
	if err != nil {
		return nil, err
	}
	if !d.dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	var list []fs.DirEntry
	for _, base := range sortedNames(d.names) {
		list = append(list, fs.FileInfoToDirEntry(d.names[base].info(base)))
	}
	return list, nil
}

// Stat describes a file or folder.
func (c *FS) Stat(name string) (fs.FileInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.look("stat", name)
	if err != nil {
		return nil, err
	}
	return n.info(filepath.Base(name)), nil
}

// SyncDir brings the names of a folder to the disk.
func (c *FS) SyncDir(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, err := c.look("sync", name)
	if err != nil {
		return err
	}
	if err := c.change(); err != nil {
		return &fs.PathError{Op: "sync", Path: name, Err: err}
	}
	var rest []nameOp
	for _, op := range c.pending {
		touches := false
		for _, e := range op.edits {
			touches = touches || e.dir == d
		}
		if !touches {
			rest = append(rest, op)
			continue
		}
		for _, e := range op.edits {
			if e.node == nil {
				delete(e.dir.onDisk, e.name)
			} else {
				e.dir.onDisk[e.name] = e.node
			}
		}
	}
	c.pending = rest
	return nil
}

// Lock takes the lock name. It is free again after AfterCrash.
func (c *FS) Lock(name, owner string) (io.Closer, error) {
	f, err := c.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	n := f.(*crashFile).n
	c.mu.Lock()
	if c.locks[n] {
		c.mu.Unlock()
		return nil, &fs.PathError{Op: "lock", Path: name, Err: durable.ErrLocked}
	}
	c.locks[n] = true
	c.mu.Unlock()
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(owner), 0)
	}
	return crashLock{c, n}, nil
}

type crashLock struct {
	c *FS
	n *inode
}

func (l crashLock) Close() error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	delete(l.c.locks, l.n)
	return nil
}

// crashFile is an open file of a FS.
type crashFile struct {
	c               *FS
	n               *inode
	name            string
	off             int64
	writes, appends bool
	closed          bool
}

// use checks that the file is open and the machine up. The lock is held.
func (f *crashFile) use(op string, change bool) error {
	var err error
	switch {
	case f.closed:
		err = fs.ErrClosed
	case f.n.dir, change && !f.writes && op != "sync":
		err = syscall.EBADF
	case change:
		err = f.c.change()
	case f.c.crashed:
		err = ErrCrashed
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: f.name, Err: err}
	}
	return nil
}

func (f *crashFile) Name() string { return f.name }

func (f *crashFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.off)
	f.off += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (f *crashFile) ReadAt(p []byte, off int64) (int, error) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if err := f.use("read", false); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *crashFile) Write(p []byte) (int, error) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.appends {
		f.off = int64(len(f.n.data))
	}
	n, err := f.write(p, f.off)
	f.off += int64(n)
	return n, err
}

func (f *crashFile) WriteAt(p []byte, off int64) (int, error) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.write(p, off)
}

// write puts p at off, or half of it at a crash, or what fits on a full disk.
func (f *crashFile) write(p []byte, off int64) (int, error) {
	running := !f.c.crashed
	err := f.use("write", true)
	if err != nil {
		if !running || !f.c.crashed {
			return 0, err
		}
		p = p[:len(p)/2]
	}
	grow := off + int64(len(p)) - int64(len(f.n.data))
	if f.c.space >= 0 && grow > f.c.space {
		p = p[:max(0, int64(len(p))-(grow-f.c.space))]
		grow = f.c.space
		if err == nil {
			err = &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
		}
	}
	if end := off + int64(len(p)); end > int64(len(f.n.data)) && len(p) > 0 {
		f.n.data = append(f.n.data, make([]byte, end-int64(len(f.n.data)))...)
	}
	if grow > 0 && f.c.space >= 0 {
		f.c.space -= grow
	}
	if len(p) > 0 {
		copy(f.n.data[off:], p)
	}
	return len(p), err
}

func (f *crashFile) Seek(offset int64, whence int) (int64, error) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if err := f.use("seek", false); err != nil {
		return 0, err
	}
	switch whence {
	case io.SeekCurrent:
		offset += f.off
	case io.SeekEnd:
		offset += int64(len(f.n.data))
	}
	if offset < 0 {
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: syscall.EINVAL}
	}
	f.off = offset
	return offset, nil
}

func (f *crashFile) Truncate(size int64) error {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if err := f.use("truncate", true); err != nil {
		return err
	}
	if have := int64(len(f.n.data)); size <= have {
		f.n.data = append([]byte(nil), f.n.data[:size]...)
	} else {
		f.n.data = append(f.n.data, make([]byte, size-have)...)
	}
	return nil
}

func (f *crashFile) Sync() error {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if err := f.use("sync", true); err != nil {
		return err
	}
	f.n.diskData = append([]byte(nil), f.n.data...)
	return nil
}

func (f *crashFile) Stat() (fs.FileInfo, error) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.closed || f.c.crashed {
		return nil, f.use("stat", false)
	}
	return f.n.info(filepath.Base(f.name)), nil
}

func (f *crashFile) Close() error {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.closed {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	f.closed = true
	return nil
}

// info describes the inode as it is now. The lock is held.
func (n *inode) info(name string) fs.FileInfo {
	return nodeInfo{name: name, size: int64(len(n.data)), dir: n.dir}
}

type nodeInfo struct {
	name string
	size int64
	dir  bool
}

func (i nodeInfo) Name() string { return i.name }
func (i nodeInfo) Size() int64  { return i.size }
func (i nodeInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o777
	}
	return 0o666
}
func (i nodeInfo) ModTime() time.Time { return time.Time{} }
func (i nodeInfo) IsDir() bool        { return i.dir }
func (i nodeInfo) Sys() any           { return nil }
