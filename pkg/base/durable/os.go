package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

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
	f, err := os.OpenFile(name, flag|syscall.O_NONBLOCK, perm) // does not wait for the other end of a named pipe
	if errors.Is(err, syscall.EAGAIN) {
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

// maxOwner bounds what is read of a lock file.
const maxOwner = 256

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
