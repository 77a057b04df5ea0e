package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
)

// TestParallel: on the disk syncsAtOnce calls run at a time and all are made. The first error in their order is returned, also if it comes later.
func TestParallel(t *testing.T) {
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
	if err := Parallel(OS, calls); err != first || int(made.Load()) != len(calls) || most.Load() != syncsAtOnce {
		t.Errorf("%v after %d calls, %d at a time", err, made.Load(), most.Load())
	}
}

// A writer that was killed leaves its unpublished file. The next writer of the
// same name takes it away, and no other.
func TestOutputRemovesWhatTheDeadLeft(t *testing.T) {
	dir := t.TempDir()
	dead := exec.Command("true")
	must.OK(t, dead.Run())
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
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
	}
	a, err := CreateOutput(filepath.Join(dir, "out"))
	must.OK(t, err)
	must.OK(t, a.Commit())
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
	must.OK(t, dead.Run(), zombie.Start())
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
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.Gone(); got != tt.gone {
				t.Errorf("%s: gone %v", tt.name, got)
			}
		})
	}
}

// TestWriteBack writes so much that the system is asked to begin putting it on the
// disk, which changes nothing of the file.
func TestWriteBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	a, err := Create(OS, path)
	must.OK(t, err)
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
	must.OK(t, a.Commit())
	got, err := os.ReadFile(path)
	must.OK(t, err)
	if !bytes.Equal(got, bytes.Repeat(piece, 11)) {
		t.Error("the file is not what was written")
	}
}

// TestOutputThroughLinks: a link that the user names stays a link, and what it names is
// written; what leads to a device or to the shell's redirection is refused and stays.
func TestOutputThroughLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, os.WriteFile(at("real"), []byte("old"), 0o666))
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
		must.OK(t, os.Symlink(l.to, at(l.name)))
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
