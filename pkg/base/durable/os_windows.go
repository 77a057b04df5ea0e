package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"

	"mercator/pkg/base/fault"
)

// SyncDir does nothing: names of files cannot be waited for here.
func (osFS) SyncDir(string) error { return nil }

// Gone is false: of other processes nothing is asked here.
func Gone(int) bool { return false }

// Lock refuses: a crawl folder lives by locks that end with their holder, and by renames of files that others read.
func (osFS) Lock(name, _ string) (io.Closer, error) {
	return nil, &fault.Error{Class: fault.Usage, File: name, Found: "Windows", Want: "Linux, macOS or another Unix: Windows has no locks and renames as a crawl folder needs", Hint: "all commands run in WSL, the Windows Subsystem for Linux"}
}

// Locked is false: nobody holds a lock here.
func Locked(string) bool { return false }

// Free is how many bytes the file system of a folder has left for this user.
func Free(dir string) (int64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	var free uint64
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	}
	if err != nil {
		return 0, &fs.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return int64(free), nil
}

// UserOf knows no user: an owner is no number here.
func UserOf(fs.FileInfo) (uid uint32, known bool) { return 0, false }

// TempFile creates a file in dir ("": the system's folder for temporary files). The system deletes it when it is closed, or when the
// process ends in whatever way.
func TempFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".mercator-*")
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	name := f.Name()
	if f, err = os.OpenFile(name, os.O_RDWR|windows.FILE_FLAG_DELETE_ON_CLOSE, 0o600); err != nil {
		return nil, errors.Join(err, os.Remove(name))
	}
	return f, nil
}
