package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache writes a file's pages to disk and takes them out of the page cache.
func dropCache(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
