package durable

import (
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLease: a file on which a file server has a lease is opened when the server gives that back.
func TestLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	server, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	lease := func(kind int) error { _, err := unix.FcntlInt(server.Fd(), unix.F_SETLEASE, kind); return err }
	if err := lease(unix.F_RDLCK); err != nil {
		t.Skipf("the file system has no leases: %v", err)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGIO)
	defer signal.Stop(asked)
	go func() { <-asked; lease(unix.F_UNLCK) }()
	f, err := OS.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
