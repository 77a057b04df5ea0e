package driver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mercator/pkg/fault"
)

// TestNewFolder: a folder of an export appears whole, in the place of none or an empty one, or not at all.
func TestNewFolder(t *testing.T) {
	dir := t.TempDir()
	names := func(want ...string) {
		t.Helper()
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != len(want) {
			t.Fatalf("%v, %v; want %v", list, err, want)
		}
		for i, e := range list {
			if e.Name() != want[i] {
				t.Errorf("%s, want %s", e.Name(), want[i])
			}
		}
	}
	write := func(in string) error { return os.WriteFile(filepath.Join(in, "file"), []byte("x"), 0o666) }
	full := errors.New("no space left on device")
	if err := newFolder(filepath.Join(dir, "a"), func(in string) error { return errors.Join(write(in), full) }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	names()
	if err := os.MkdirAll(filepath.Join(dir, ".a.part", "of one that was killed"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, before := range []func() error{func() error { return nil }, func() error { return os.Mkdir(filepath.Join(dir, "b"), 0o777) }} {
		if err := before(); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, "a")
		if _, err := os.Stat(filepath.Join(dir, "b")); err == nil {
			to = filepath.Join(dir, "b")
		}
		if err := newFolder(to, write); err != nil {
			t.Fatal(err)
		}
		if list, err := os.ReadDir(to); err != nil || len(list) != 1 || list[0].Name() != "file" {
			t.Errorf("%v, %v", list, err)
		}
		if err := newFolder(to, write); !errors.Is(err, fault.Usage) {
			t.Errorf("a folder with a file in it: %v", err)
		}
	}
	names("a", "b")
}
