package tell

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
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
	none := func(string) bool { return false }
	full := errors.New("no space left on device")
	if err := newFolder(filepath.Join(dir, "a"), none, func(in string) error { return errors.Join(write(in), full) }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	names()
	must.OK(t, os.MkdirAll(filepath.Join(dir, ".a.part", "of one that was killed"), 0o777))
	for _, before := range []func() error{func() error { return nil }, func() error { return os.Mkdir(filepath.Join(dir, "b"), 0o777) }} {
		must.OK(t, before())
		to := filepath.Join(dir, "a")
		if _, err := os.Stat(filepath.Join(dir, "b")); err == nil {
			to = filepath.Join(dir, "b")
		}
		must.OK(t, newFolder(to, none, write))
		if list, err := os.ReadDir(to); err != nil || len(list) != 1 || list[0].Name() != "file" {
			t.Errorf("%v, %v", list, err)
		}
		if err := newFolder(to, none, write); !errors.Is(err, fault.Usage) {
			t.Errorf("a folder with a file in it: %v", err)
		}
	}
	names("a", "b")

	// An older export is replaced, and comes back if that was cut off before the new one had its name.
	a, old := filepath.Join(dir, "a"), filepath.Join(dir, ".a.old")
	other := func(in string) error { return os.WriteFile(filepath.Join(in, "other"), []byte("x"), 0o666) }
	ours := func(name string) bool { return name == "file" || name == "other" }
	must.OK(t, os.Rename(a, old))
	if err := newFolder(a, ours, func(string) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"file", "other"} {
		if list, err := os.ReadDir(a); err != nil || len(list) != 1 || list[0].Name() != want {
			t.Errorf("%v, %v, want %s", list, err, want)
		}
		must.OK(t, newFolder(a, ours, other))
	}
	names("a", "b")

	// It comes back if the new one does not get its name.
	rename = func(string, string) error { return full }
	t.Cleanup(func() { rename = os.Rename })
	if err := newFolder(a, ours, write); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if err := newFolder(filepath.Join(dir, "c"), ours, write); err == nil || err.Error() != full.Error() {
		t.Errorf("got %v", err)
	}
	if list, err := os.ReadDir(a); err != nil || len(list) != 1 || list[0].Name() != "other" {
		t.Errorf("%v, %v, want other", list, err)
	}
	names("a", "b")
}
