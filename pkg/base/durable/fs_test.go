package durable_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/must"
)

// eachFS runs a test on the real file system and on the one in memory.
func eachFS(t *testing.T, f func(t *testing.T, fsys durable.FS, dir string)) {
	t.Run("OS", func(t *testing.T) { f(t, durable.OS, t.TempDir()) })
	t.Run("crashtest", func(t *testing.T) {
		c := crashtest.New()
		must.OK(t, c.MkdirAll("/d", 0o777))
		f(t, c, "/d")
	})
}

func content(t *testing.T, fsys durable.FS, path string) string {
	t.Helper()
	b, err := durable.ReadFile(fsys, path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return "(none)"
	}
	must.OK(t, err)
	return string(b)
}

func TestAtomic(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys durable.FS, dir string) {
		path := filepath.Join(dir, "a", "b", "f")
		if _, err := durable.Create(fsys, path); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("a missing folder: %v", err)
		}
		a, err := durable.CreateAll(fsys, path)
		must.OK(t, err)
		_, err = a.Write([]byte("hello"))
		must.OK(t, err)
		_, err = a.WriteAt([]byte("J"), 0)
		must.OK(t, err)
		_, err = a.Write([]byte("!"))
		must.OK(t, err)
		if got := content(t, fsys, path); got != "(none)" {
			t.Fatalf("visible before Commit: %q", got)
		}
		must.OK(t, a.Commit())
		a.Abort()
		if got := content(t, fsys, path); got != "Jello!" {
			t.Fatal(got)
		}
		if err := a.Commit(); !errors.Is(err, fs.ErrClosed) {
			t.Fatalf("a second Commit: %v", err)
		}
		// Commit replaces, Link does not.
		must.OK(t, durable.WriteFile(fsys, path, []byte("new")))
		if err := durable.LinkFile(fsys, path, []byte("late")); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("the late writer: %v", err)
		}
		if got := content(t, fsys, path); got != "new" {
			t.Fatal(got)
		}
		b, err := durable.Create(fsys, path)
		must.OK(t, err)
		b.Abort()
		// Show gives the name at once, and Seal or Abort ends the file.
		for _, end := range []func(*durable.Atomic) error{(*durable.Atomic).Seal, func(a *durable.Atomic) error { a.Abort(); return nil }} {
			c, err := durable.Create(fsys, path)
			must.OK(t, err)
			_, err = c.Write([]byte("shown"))
			must.OK(t, err, c.Show())
			if got := content(t, fsys, path); got != "shown" {
				t.Fatal(got)
			}
			if err := c.Show(); !errors.Is(err, fs.ErrClosed) {
				t.Fatalf("a second Show: %v", err)
			}
			must.OK(t, end(c))
			if _, err := c.File().Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
				t.Fatalf("open in the end: %v", err)
			}
		}
		// No unpublished file stays.
		list, err := fsys.ReadDir(filepath.Dir(path))
		if err != nil || len(list) != 1 || durable.IsTemp(list[0].Name()) {
			t.Fatal(list, err)
		}
		if _, err := durable.ReadFile(fsys, path, 2); err == nil {
			t.Fatal("a file beyond the limit was read")
		}
	})
}

func TestLock(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys durable.FS, dir string) {
		path := filepath.Join(dir, "LOCK")
		first, err := fsys.Lock(path, "somebody with a long name")
		must.OK(t, err)
		if _, err := fsys.Lock(path, "another"); !errors.Is(err, durable.ErrLocked) {
			t.Fatalf("locked twice: %v", err)
		}
		if o := durable.Owner(fsys, path); o != "somebody with a long name" {
			t.Fatalf("owner %q", o)
		}
		must.OK(t, first.Close())
		second, err := fsys.Lock(path, "x\x1b[31m\n")
		must.OK(t, err)
		if o := durable.Owner(fsys, path); o != "x[31m" {
			t.Fatalf("owner %q", o)
		}
		must.OK(t, second.Close())
	})
}

// TestCrashTestFiles runs the same calls on both file systems: they agree.
func TestCrashTestFiles(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys durable.FS, dir string) {
		name := func(s string) string { return filepath.Join(dir, s) }
		f, err := fsys.OpenFile(name("f"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		must.OK(t, err)
		_, err = f.Write([]byte("0123456789"))
		must.OK(t, err)
		_, err = f.Seek(-3, io.SeekEnd)
		must.OK(t, err)
		b := make([]byte, 8)
		if n, err := f.Read(b); n != 3 || err != nil || string(b[:3]) != "789" {
			t.Fatal(n, err)
		}
		if n, err := f.Read(b); n != 0 || err != io.EOF {
			t.Fatal(n, err)
		}
		must.OK(t, f.Truncate(4))
		if n, err := f.ReadAt(b, 2); n != 2 || err != io.EOF {
			t.Fatal(n, err)
		}
		_, err = f.WriteAt([]byte("x"), 6)
		must.OK(t, err, f.Sync(), f.Close())
		if got := content(t, fsys, name("f")); got != "0123\x00\x00x" {
			t.Fatalf("%q", got)
		}
		a, err := fsys.OpenFile(name("f"), os.O_WRONLY|os.O_APPEND, 0)
		must.OK(t, err)
		_, err = a.Write([]byte("+"))
		must.OK(t, err, a.Close())
		must.OK(t, fsys.MkdirAll(name("d/e"), 0o777), fsys.Link(name("f"), name("d/g")), fsys.Rename(name("f"), name("d/e/h")))
		if got := content(t, fsys, name("d/g")); got != "0123\x00\x00x+" {
			t.Fatalf("%q", got)
		}
		for what, err := range map[string]error{
			"exist":     fsys.Link(name("d/g"), name("d/e/h")),
			"not exist": fsys.Rename(name("f"), name("i")),
			"not empty": fsys.Remove(name("d")),
		} {
			want := map[string]error{"exist": fs.ErrExist, "not exist": fs.ErrNotExist, "not empty": syscall.ENOTEMPTY}[what]
			if !errors.Is(err, want) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := fsys.OpenFile(name("d/e/h"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		list, err := fsys.ReadDir(name("d"))
		if err != nil || len(list) != 2 || !list[0].IsDir() || list[1].Name() != "g" {
			t.Fatal(list, err)
		}
	})
}

// TestCrashTestLoss: what was synced stays, what was not may go, and Close syncs nothing.
func TestCrashTestLoss(t *testing.T) {
	c := crashtest.New()
	must.OK(t, c.MkdirAll("/d", 0o777), c.SyncDir("/"))
	write := func(name, text string, sync bool) {
		f, err := c.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
		must.OK(t, err)
		_, err = f.Write([]byte(text))
		must.OK(t, err)
		if sync {
			must.OK(t, f.Sync())
		}
		must.OK(t, f.Close())
	}
	write("/d/both", "old", true)
	write("/d/named", "lost", false)
	must.OK(t, c.SyncDir("/d"))
	write("/d/both", "newer", false)
	write("/d/synced", "unnamed", true)
	must.OK(t, c.Rename("/d/named", "/d/renamed"))
	lose := c.AfterCrash(crashtest.LoseAll)
	keep := c.AfterCrash(crashtest.KeepAll)
	for _, test := range []struct{ name, lost, kept string }{
		{"/d/both", "old", "newer"},
		{"/d/named", "", "(none)"},
		{"/d/renamed", "(none)", "lost"},
		{"/d/synced", "(none)", "unnamed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := content(t, lose, test.name); got != test.lost {
				t.Errorf("%s after losing all: %q, want %q", test.name, got, test.lost)
			}
			if got := content(t, keep, test.name); got != test.kept {
				t.Errorf("%s after losing nothing: %q, want %q", test.name, got, test.kept)
			}
		})
	}
	seen := map[string]bool{}
	for loss := crashtest.Loss(2); loss < 60; loss++ {
		after := c.AfterCrash(loss)
		seen[content(t, after, "/d/both")] = true
		seen["renamed "+content(t, after, "/d/renamed")] = true
		if a, b := content(t, after, "/d/both"), content(t, c.AfterCrash(loss), "/d/both"); a != b {
			t.Fatalf("loss %d is not always the same: %q, %q", loss, a, b)
		}
	}
	for _, want := range []string{"old", "newer", "renamed (none)", "renamed lost"} {
		if !seen[want] {
			t.Errorf("no mixture gives %q: %v", want, seen)
		}
	}
}

func TestCrashAt(t *testing.T) {
	c := crashtest.New()
	must.OK(t, durable.WriteFile(c, "/f", []byte("old")))
	calls := c.Calls()
	for n := 1; n <= calls; n++ {
		d := c.AfterCrash(crashtest.KeepAll)
		d.CrashAt(n)
		if err := durable.WriteFile(d, "/f", []byte("new")); !errors.Is(err, crashtest.ErrCrashed) || !d.Crashed() {
			t.Fatalf("call %d: %v", n, err)
		}
		if _, err := d.Stat("/f"); !errors.Is(err, crashtest.ErrCrashed) {
			t.Fatalf("after the crash: %v", err)
		}
		for loss := crashtest.LoseAll; loss < 20; loss++ {
			if got := content(t, d.AfterCrash(loss), "/f"); got != "old" && got != "new" {
				t.Fatalf("call %d, loss %d: %q", n, loss, got)
			}
		}
	}
}

func TestSpace(t *testing.T) {
	c := crashtest.New()
	must.OK(t, durable.WriteFile(c, "/f", []byte("old")))
	c.SetSpace(4)
	if err := durable.WriteFile(c, "/f", []byte("longer")); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if got := content(t, c, "/f"); got != "old" {
		t.Fatal(got)
	}
	if list, _ := c.ReadDir("/"); len(list) != 1 || strings.HasPrefix(list[0].Name(), ".") {
		t.Fatalf("the unpublished file stays: %v", list)
	}
}

// TestParallelInTests: on a file system of tests calls are made one after the other, up to an error.
func TestParallelInTests(t *testing.T) {
	first, later := errors.New("first"), errors.New("later")
	n := 0
	one := func(err error) func() error { return func() error { n++; return err } }
	if err := durable.Parallel(crashtest.New(), []func() error{one(nil), one(first), one(later)}); err != first || n != 2 {
		t.Errorf("%v after %d calls, want %v after 2", err, n, first)
	}
}
