package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mercator/pkg/fault"
	"mercator/pkg/needs"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// eachFS runs a test on the real file system and on the one in memory.
func eachFS(t *testing.T, f func(t *testing.T, fsys FS, dir string)) {
	t.Run("OS", func(t *testing.T) { f(t, OS, t.TempDir()) })
	t.Run("CrashFS", func(t *testing.T) {
		c := NewCrashFS()
		must(t, c.MkdirAll("/d", 0o777))
		f(t, c, "/d")
	})
}

func content(t *testing.T, fsys FS, path string) string {
	t.Helper()
	b, err := ReadFile(fsys, path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return "(none)"
	}
	must(t, err)
	return string(b)
}

func TestAtomic(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "a", "b", "f")
		if _, err := Create(fsys, path); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("a missing folder: %v", err)
		}
		a, err := CreateAll(fsys, path)
		must(t, err)
		_, err = a.Write([]byte("hello"))
		must(t, err)
		_, err = a.WriteAt([]byte("J"), 0)
		must(t, err)
		_, err = a.Write([]byte("!"))
		must(t, err)
		if got := content(t, fsys, path); got != "(none)" {
			t.Fatalf("visible before Commit: %q", got)
		}
		must(t, a.Commit())
		a.Abort()
		if got := content(t, fsys, path); got != "Jello!" {
			t.Fatal(got)
		}
		if err := a.Commit(); !errors.Is(err, fs.ErrClosed) {
			t.Fatalf("a second Commit: %v", err)
		}
		// Commit replaces, Link does not.
		must(t, WriteFile(fsys, path, []byte("new")))
		if err := LinkFile(fsys, path, []byte("late")); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("the late writer: %v", err)
		}
		if got := content(t, fsys, path); got != "new" {
			t.Fatal(got)
		}
		b, err := Create(fsys, path)
		must(t, err)
		b.Abort()
		// Show gives the name at once, and Seal or Abort ends the file.
		for _, end := range []func(*Atomic) error{(*Atomic).Seal, func(a *Atomic) error { a.Abort(); return nil }} {
			c, err := Create(fsys, path)
			must(t, err)
			_, err = c.Write([]byte("shown"))
			must(t, err, c.Show())
			if got := content(t, fsys, path); got != "shown" {
				t.Fatal(got)
			}
			if err := c.Show(); !errors.Is(err, fs.ErrClosed) {
				t.Fatalf("a second Show: %v", err)
			}
			must(t, end(c))
			if _, err := c.File().Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
				t.Fatalf("open in the end: %v", err)
			}
		}
		// No unpublished file stays.
		list, err := fsys.ReadDir(filepath.Dir(path))
		if err != nil || len(list) != 1 || IsTemp(list[0].Name()) {
			t.Fatal(list, err)
		}
		if _, err := ReadFile(fsys, path, 2); err == nil {
			t.Fatal("a file beyond the limit was read")
		}
	})
}

// TestTogether: on the disk syncsAtOnce calls run at a time and all are made; on a file system of tests one after the other, up to an error. The
// first error in their order is returned, also if it comes later.
func TestTogether(t *testing.T) {
	first, later := errors.New("first"), errors.New("later")
	var made, running, most atomic.Int32
	full, failed := make(chan bool), make(chan bool)
	var calls []func() error
	for i := range 3 * syncsAtOnce {
		calls = append(calls, func() error {
			made.Add(1)
			now := running.Add(1)
			defer running.Add(-1)
			for was := most.Load(); was < now && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			if now == syncsAtOnce && i < syncsAtOnce {
				close(full)
			}
			select {
			case <-full:
			case <-time.After(5 * time.Minute):
				return fmt.Errorf("%d calls run, want %d", now, syncsAtOnce)
			}
			switch i {
			case 3:
				<-failed
				return first
			case 5:
				close(failed)
				return later
			}
			return nil
		})
	}
	if err := Together(OS, calls); err != first || int(made.Load()) != len(calls) || most.Load() != syncsAtOnce {
		t.Errorf("%v after %d calls, %d at a time", err, made.Load(), most.Load())
	}
	n := 0
	one := func(err error) func() error { return func() error { n++; return err } }
	if err := Together(NewCrashFS(), []func() error{one(nil), one(first), one(later)}); err != first || n != 2 {
		t.Errorf("%v after %d calls", err, n)
	}
}

func TestLock(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "LOCK")
		first, err := fsys.Lock(path, "somebody with a long name")
		must(t, err)
		if _, err := fsys.Lock(path, "another"); !errors.Is(err, ErrLocked) {
			t.Fatalf("locked twice: %v", err)
		}
		if o := Owner(fsys, path); o != "somebody with a long name" {
			t.Fatalf("owner %q", o)
		}
		must(t, first.Close())
		second, err := fsys.Lock(path, "x\x1b[31m\n")
		must(t, err)
		if o := Owner(fsys, path); o != "x[31m" {
			t.Fatalf("owner %q", o)
		}
		must(t, second.Close())
	})
}

// TestCrashFSFiles runs the same calls on both file systems: they agree.
func TestCrashFSFiles(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := func(s string) string { return filepath.Join(dir, s) }
		f, err := fsys.OpenFile(name("f"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		must(t, err)
		_, err = f.Write([]byte("0123456789"))
		must(t, err)
		_, err = f.Seek(-3, io.SeekEnd)
		must(t, err)
		b := make([]byte, 8)
		if n, err := f.Read(b); n != 3 || err != nil || string(b[:3]) != "789" {
			t.Fatal(n, err)
		}
		if n, err := f.Read(b); n != 0 || err != io.EOF {
			t.Fatal(n, err)
		}
		must(t, f.Truncate(4))
		if n, err := f.ReadAt(b, 2); n != 2 || err != io.EOF {
			t.Fatal(n, err)
		}
		_, err = f.WriteAt([]byte("x"), 6)
		must(t, err, f.Sync(), f.Close())
		if got := content(t, fsys, name("f")); got != "0123\x00\x00x" {
			t.Fatalf("%q", got)
		}
		a, err := fsys.OpenFile(name("f"), os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		_, err = a.Write([]byte("+"))
		must(t, err, a.Close())
		must(t, fsys.MkdirAll(name("d/e"), 0o777), fsys.Link(name("f"), name("d/g")), fsys.Rename(name("f"), name("d/e/h")))
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

// TestCrashFSLoss: what was synced stays, what was not may go, and Close syncs nothing.
func TestCrashFSLoss(t *testing.T) {
	c := NewCrashFS()
	must(t, c.MkdirAll("/d", 0o777), c.SyncDir("/"))
	write := func(name, text string, sync bool) {
		f, err := c.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
		must(t, err)
		_, err = f.Write([]byte(text))
		must(t, err)
		if sync {
			must(t, f.Sync())
		}
		must(t, f.Close())
	}
	write("/d/both", "old", true)
	write("/d/named", "lost", false)
	must(t, c.SyncDir("/d"))
	write("/d/both", "newer", false)
	write("/d/synced", "unnamed", true)
	must(t, c.Rename("/d/named", "/d/renamed"))
	lose := c.AfterCrash(LoseAll)
	keep := c.AfterCrash(KeepAll)
	for _, test := range []struct{ name, lost, kept string }{
		{"/d/both", "old", "newer"},
		{"/d/named", "", "(none)"},
		{"/d/renamed", "(none)", "lost"},
		{"/d/synced", "(none)", "unnamed"},
	} {
		if got := content(t, lose, test.name); got != test.lost {
			t.Errorf("%s after losing all: %q, want %q", test.name, got, test.lost)
		}
		if got := content(t, keep, test.name); got != test.kept {
			t.Errorf("%s after losing nothing: %q, want %q", test.name, got, test.kept)
		}
	}
	seen := map[string]bool{}
	for loss := Loss(2); loss < 60; loss++ {
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
	c := NewCrashFS()
	must(t, WriteFile(c, "/f", []byte("old")))
	calls := c.Calls()
	for n := 1; n <= calls; n++ {
		d := c.AfterCrash(KeepAll)
		d.CrashAt(n)
		if err := WriteFile(d, "/f", []byte("new")); !errors.Is(err, ErrCrashed) || !d.Crashed() {
			t.Fatalf("call %d: %v", n, err)
		}
		if _, err := d.Stat("/f"); !errors.Is(err, ErrCrashed) {
			t.Fatalf("after the crash: %v", err)
		}
		for loss := LoseAll; loss < 20; loss++ {
			if got := content(t, d.AfterCrash(loss), "/f"); got != "old" && got != "new" {
				t.Fatalf("call %d, loss %d: %q", n, loss, got)
			}
		}
	}
}

func TestSpace(t *testing.T) {
	c := NewCrashFS()
	must(t, WriteFile(c, "/f", []byte("old")))
	c.SetSpace(4)
	if err := WriteFile(c, "/f", []byte("longer")); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if got := content(t, c, "/f"); got != "old" {
		t.Fatal(got)
	}
	if list, _ := c.ReadDir("/"); len(list) != 1 || strings.HasPrefix(list[0].Name(), ".") {
		t.Fatalf("the unpublished file stays: %v", list)
	}
}

// A writer that was killed leaves its unpublished file. The next writer of the
// same name takes it away, and no other.
func TestOutputRemovesWhatTheDeadLeft(t *testing.T) {
	dir := t.TempDir()
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	left := fmt.Sprintf(".out.%d-1-%s.tmp", dead.Process.Pid, hostTag())
	stay := []string{
		fmt.Sprintf(".out.%d-77-%s.tmp", os.Getpid(), hostTag()),       // being written
		fmt.Sprintf(".out.%d-1-00000000.tmp", dead.Process.Pid),        // another machine's
		fmt.Sprintf(".other.%d-1-%s.tmp", dead.Process.Pid, hostTag()), // another name's
		fmt.Sprintf(".out.x.%d-1-%s.tmp", dead.Process.Pid, hostTag()), // another name's
		fmt.Sprintf("out.%d-1-%s.tmp", dead.Process.Pid, hostTag()),    // a user's
		".out.tmp", ".out.-1.tmp", ".out.12.tmp", ".out.-5-1.tmp", // no shape of ours
	}
	for _, name := range append(stay, left) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	a, err := CreateOutput(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, left)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
	for _, name := range append(stay, "out") {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestGone: a process is known to have ended only by what its own machine says.
func TestGone(t *testing.T) {
	self := Self()
	if self.Boot == "" {
		needs.Skip(t, "this system does not tell its starts apart")
	}
	dead, zombie := exec.Command("true"), exec.Command("true")
	if err := errors.Join(dead.Run(), zombie.Start()); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	unasked := self
	unasked.PID = zombie.Process.Pid
	for deadline := time.Now().Add(time.Minute); !unasked.Gone(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a process that has ended, and was not waited for, counts as running")
		}
	}
	ended, reused, elsewhere, unknown := self, self, self, self
	ended.PID = dead.Process.Pid
	reused.Start = "1"
	elsewhere.PID, elsewhere.Boot = ended.PID, "another"
	unknown.PID, unknown.Boot = ended.PID, ""
	for _, tt := range []struct {
		name string
		p    Process
		gone bool
	}{{"self", self, false}, {"ended", ended, true}, {"number in use again", reused, true}, {"of another machine", elsewhere, false}, {"not known where", unknown, false}} {
		if got := tt.p.Gone(); got != tt.gone {
			t.Errorf("%s: gone %v", tt.name, got)
		}
	}
}

// TestWriteBack writes so much that the system is asked to begin putting it on the
// disk, which changes nothing of the file.
func TestWriteBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	a, err := Create(OS, path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Abort()
	piece := bytes.Repeat([]byte("mercator"), writeBack/8/4)
	for range 11 {
		if _, err := a.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if want := int64(2 * writeBack); a.begun != want {
		t.Errorf("begun %d bytes, want %d", a.begun, want)
	}
	if err := a.Commit(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, bytes.Repeat(piece, 11)) {
		t.Error("the file is not what was written")
	}
}

// TestOutputThroughLinks: a link that the user names stays a link, and what it names is
// written; what leads to a device or to the shell's redirection is refused and stays.
func TestOutputThroughLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("real"), []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	links := []struct{ name, to, file string }{
		{"relative", "real", "real"},
		{"absolute", at("real"), "real"},
		{"twice", "relative", "real"},
		{"dangling", "new", "new"},
		{"loop", "loop", ""},
		{"device", "/dev/null", ""},
		{"stdout", "/proc/self/fd/1", ""},
	}
	for _, l := range links {
		if err := os.Symlink(l.to, at(l.name)); err != nil {
			t.Fatal(err)
		}
		err := WriteOutput(at(l.name), []byte(l.name))
		if to, lerr := os.Readlink(at(l.name)); lerr != nil || to != l.to {
			t.Errorf("%s: the link is now %q, %v", l.name, to, lerr)
		}
		if l.file == "" {
			if !errors.Is(err, fault.Usage) {
				t.Errorf("%s: got %v, want it refused", l.name, err)
			}
			continue
		}
		if b, rerr := os.ReadFile(at(l.file)); err != nil || string(b) != l.name {
			t.Errorf("%s: %v; the file holds %q, %v", l.name, err, b, rerr)
		}
	}
	if err := WriteOutput("/dev/stdout", nil); !errors.Is(err, fault.Usage) {
		t.Errorf("/dev/stdout: got %v, want it refused", err)
	}
}
