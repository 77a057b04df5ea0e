package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"mercator/pkg/base/fault"
)

// ErrLocked is the error of FS.Lock while another holds the lock.
var ErrLocked = errors.New("locked")

// OS is the real file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := openRegular(name, flag, perm)
	if err != nil {
		return nil, err // not a nil *os.File in an interface
	}
	return f, nil
}

// Open opens a file of a store, a crawl folder or a round for reading. What is no
// regular file is refused: to open a FIFO would wait for a writer.
func Open(name string) (*os.File, error) { return openRegular(name, os.O_RDONLY, 0) }

func openRegular(name string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag|unix.O_NONBLOCK, perm) // does not wait for the other end of a named pipe
	if errors.Is(err, unix.EAGAIN) {
		f, err = os.OpenFile(name, flag, perm) // waits until a file server gives back its lease of a regular file
	}
	look := f.Stat
	if err != nil {
		look = func() (fs.FileInfo, error) { return os.Stat(name) }
	}
	if info, err := look(); err == nil && !info.Mode().IsRegular() {
		f.Close()
		return nil, NotRegular(name, info.Mode())
	}
	return f, err
}

// NotRegular is the error of something that stands where a file of ours belongs.
func NotRegular(name string, is fs.FileMode) error {
	found := "no regular file"
	switch {
	case is.IsDir():
		found = "a folder"
	case is&fs.ModeNamedPipe != 0:
		found = "a named pipe"
	case is&fs.ModeSocket != 0:
		found = "a socket"
	case is&fs.ModeDevice != 0:
		found = "a device"
	}
	return &fault.Error{Class: fault.WrongKind, File: name, Found: found, Want: "a regular file"}
}

func (osFS) Link(oldname, newname string) error           { return os.Link(oldname, newname) }
func (osFS) Rename(oldname, newname string) error         { return os.Rename(oldname, newname) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// gone reports whether no process of this number runs here.
func gone(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// maxOwner bounds what is read of a lock file.
const maxOwner = 256

func (osFS) Lock(name, owner string) (io.Closer, error) {
	f, err := openRegular(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	// flock belongs to the open file: it goes with the last descriptor, so
	// with the process, however that ends.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	// Only a message for the next one: a full disk must not keep a store shut.
	// Of one process after the other it is as long as before: then no block is freed and taken again.
	_, _ = f.WriteAt([]byte(owner), 0)
	if info, err := f.Stat(); err == nil && info.Size() > int64(len(owner)) {
		_ = f.Truncate(int64(len(owner)))
	}
	return f, nil
}

// Locked reports whether somebody holds the lock name, without taking it for longer than it takes to ask.
func Locked(name string) bool {
	f, err := openRegular(name, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Owner returns what the holder of the lock name wrote into it: one line
// without control characters, or "" if there is none to be read.
func Owner(fsys FS, name string) string {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxOwner)) // what was read before an error still helps
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(b), ""))
}

// Free is how many bytes the file system of a folder has left for this user.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * blockLen(&st), nil
}
