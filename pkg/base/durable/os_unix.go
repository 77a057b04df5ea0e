//go:build unix

package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Gone reports whether no process of this number runs here.
func Gone(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

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

// Free is how many bytes the file system of a folder has left for this user.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * blockLen(&st), nil
}

// UserOf is the user who owns a file, where the system knows one.
func UserOf(st fs.FileInfo) (uid uint32, known bool) {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, true
}

// TempFile creates a file in dir ("": the system's folder for temporary files)
// and removes its name at once: the space is given back when it is closed, or
// when the process ends in whatever way.
func TempFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".mercator-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
