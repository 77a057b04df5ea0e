//go:build unix

package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// TestCreateKeepsFolders: what is no regular file is not replaced.
func TestCreateKeepsFolders(t *testing.T) {
	if _, err := Create(OS, t.TempDir()); !errors.Is(err, fault.Usage) {
		t.Errorf("a folder: %v, want fault.Usage", err)
	}
}

// TestNoRegularFile: what stands in place of a file of ours is refused by name; none waits.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	must.OK(t, unix.Mkfifo(fifo, 0o666))
	for path, found := range map[string]string{fifo: "a named pipe", dir: "a folder", "/dev/null": "a device"} {
		t.Run(found, func(t *testing.T) {
			opens := map[string]func() error{
				"OpenFile": func() error { _, err := OS.OpenFile(path, os.O_RDONLY, 0); return err },
				"Open":     func() error { _, err := Open(path); return err },
				"ReadFile": func() error { _, err := ReadFile(OS, path, 1); return err },
				"Lock":     func() error { _, err := OS.Lock(path, "nobody"); return err },
			}
			for name, open := range opens {
				err := open()
				var bad *fault.Error
				if !errors.Is(err, fault.WrongKind) || !errors.As(err, &bad) || bad.File != path || bad.Found != found {
					t.Errorf("%s of %s: %v, want it refused as %s", name, path, err, found)
				}
			}
			if owner := Owner(OS, path); owner != "" {
				t.Errorf("owner of %s: %q", path, owner)
			}
		})
	}
}
