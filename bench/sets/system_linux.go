package main

import (
	"os"
	"unsafe"

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

// hugePages returns n keys of zero in memory for which huge pages were asked, where
// the system grants them.
func hugePages(n int) ([]uint64, error) {
	b, err := unix.Mmap(-1, 0, 8*n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	if err := unix.Madvise(b, unix.MADV_HUGEPAGE); err != nil {
		return nil, err
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), n), nil
}
