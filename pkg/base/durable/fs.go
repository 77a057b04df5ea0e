// Package durable puts bytes on disk so that a crash leaves the old file or
// the new one, never a third.
//
// All state of the toolkit is written through FS. OS is the real file system;
// crashtest.FS, for tests, is one in memory that can stop at every call and can
// lose whatever was not synced.
//
// # Rules
//
//   - A file becomes visible under its name only complete: temporary name,
//     write, fsync, rename or link, fsync of the folder (Atomic). One that counts only
//     when another file names it may be renamed before the fsync (Atomic.Show): both, and
//     the folder, are synced before that other file is published.
//   - Close never syncs. What was not synced is lost by crashtest.FS.
//   - An error from Write or Sync is final: the file is not published.
package durable

import (
	"io"
	"io/fs"
)

// File is an open file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Seeker
	io.Closer
	Name() string
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// FS is the part of a file system that the toolkit uses. Paths are as in
// the operating system. Errors are *fs.PathError or *os.LinkError, so
// errors.Is with fs.ErrNotExist and fs.ErrExist works.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Link(oldname, newname string) error // fails with fs.ErrExist: fences a late writer
	Rename(oldname, newname string) error
	Remove(name string) error
	MkdirAll(name string, perm fs.FileMode) error
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	SyncDir(name string) error
	// Lock takes an exclusive advisory lock (flock) on name, creating the
	// file if need be, without waiting. It fails with ErrLocked while
	// another open lock holds it. Closing the returned value unlocks; the
	// end of the process does too. owner is written into the file, for the
	// message of the one who finds it locked.
	Lock(name, owner string) (io.Closer, error)
}
