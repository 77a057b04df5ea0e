package durable

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestBlockLen: free room is counted in fragments where the file system says how long these are.
func TestBlockLen(t *testing.T) {
	if n := blockLen(&unix.Statfs_t{Bsize: 1 << 20, Frsize: 512}); n != 512 {
		t.Errorf("blocks of %d bytes, want 512", n)
	}
	if n := blockLen(&unix.Statfs_t{Bsize: 4096}); n != 4096 {
		t.Errorf("blocks of %d bytes, want 4096", n)
	}
}
