package durable

import (
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"mercator/pkg/base/must"
)

// TestLease: a file on which a file server has a lease is opened when the server gives that back.
func TestLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(path, nil, 0o666))
	server, err := os.Open(path)
	must.OK(t, err)
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
	must.OK(t, err)
	f.Close()
}
