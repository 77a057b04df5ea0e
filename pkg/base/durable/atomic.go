package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"mercator/pkg/base/fault"
)

// TempSuffix ends the name of every file that is not published yet. Such a
// name begins with a dot. A file of this shape that no process is writing is
// left over from a crash and may be removed.
const TempSuffix = ".tmp"

// IsTemp reports whether name, without folder, names an unpublished file.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, TempSuffix)
}

var tempSerial atomic.Uint64

// Atomic is a file that appears under its name complete or not at all.
// It serves one goroutine.
type Atomic struct {
	fs   FS
	f    File
	path string
	temp string
	err  error // the first error of Write or WriteAt: nothing is published after it
	shut bool  // f is closed
	done bool
	// Bytes that Write appended, and how many of these are on their way to disk.
	written, begun int64
}

// writeBack is how many bytes Write collects before it has the system begin to put
// them on the disk. The disk then works while the next are made, and little is left
// for the sync in Commit: of 300 MB, 0.01 s where it was 0.14 s.
const writeBack = 8 << 20

// Create begins a file that Commit or Link will show as path. Its bytes go to a
// temporary name in the same folder. What is no regular file (a device such as
// /dev/null, a folder) is refused, since Commit would replace it.
func Create(fsys FS, path string) (*Atomic, error) {
	if info, err := fsys.Stat(path); err == nil && info.IsDir() {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "a folder", Want: "a name for a file"}
	} else if err == nil && !info.Mode().IsRegular() {
		return nil, notAFile(path)
	}
	dir, base := filepath.Split(path)
	for {
		// Process, serial number and machine keep writers of the same path apart;
		// O_EXCL notices a leftover of an earlier process of that number.
		temp := fmt.Sprintf("%s.%s.%d-%d-%s%s", dir, base, os.Getpid(), tempSerial.Add(1), hostTag(), TempSuffix)
		f, err := fsys.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &Atomic{fs: fsys, f: f, path: path, temp: temp}, nil
	}
}

// CreateAll is Create, and makes missing folders.
func CreateAll(fsys FS, path string) (*Atomic, error) {
	if err := MkdirAll(fsys, filepath.Dir(path)); err != nil {
		return nil, err
	}
	return Create(fsys, path)
}

// CreateOutput is CreateAll on the real file system, for a file that the user
// named. A symbolic link stays, and the file that it names is made or replaced; a
// name that leads into /dev or /proc is refused, where "a regular file" is
// what the shell has redirected to. CreateOutput first removes what writers of the same path
// left there when they were killed: unpublished files of processes that have ended on this machine.
func CreateOutput(path string) (*Atomic, error) {
	target, err := follow(path)
	if err != nil {
		return nil, err
	}
	_, base := filepath.Split(target)
	RemoveLeftovers(target, func(name string) bool { return name == base })
	return CreateAll(OS, target)
}

// WriteOutput makes path with data as CreateOutput does, complete or not at all.
func WriteOutput(path string, data []byte) error {
	return WriteOutputBy(path, func(out io.Writer) error { _, err := out.Write(data); return err })
}

// WriteOutputBy makes path with what write writes, complete or not at all.
func WriteOutputBy(path string, write func(io.Writer) error) error {
	a, err := CreateOutput(path)
	if err != nil {
		return err
	}
	defer a.Abort()
	out := bufio.NewWriterSize(a, 64<<10)
	if err := write(out); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return a.Commit()
}

// maxLinks is how many symbolic links a name may lead through, as in Linux.
const maxLinks = 40

// follow returns the name of the file that path stands for: path itself unless it is a
// symbolic link. The file need not exist.
func follow(path string) (string, error) {
	target := path
	for range maxLinks {
		abs, err := filepath.Abs(target)
		if err != nil {
			return "", err
		}
		if (strings.HasPrefix(abs, "/dev/") && !strings.HasPrefix(abs, "/dev/shm/")) || strings.HasPrefix(abs, "/proc/") {
			return "", notAFile(path)
		}
		next, err := os.Readlink(target)
		if err != nil {
			return target, nil // no link, or nothing there yet
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(target), next)
		}
		target = next
	}
	return "", &fault.Error{Class: fault.Usage, File: path, Found: "too many symbolic links", Want: "a name for a file"}
}

func notAFile(path string) error {
	return &fault.Error{Class: fault.Usage, File: path, Found: "not a regular file", Want: "a name for a file",
		Hint: "to write to a device or a pipe, use the shell: > " + path}
}

// RemoveLeftovers removes unpublished files from the folder of path, if is accepts their final name and the process of
// this machine that began them has ended.
func RemoveLeftovers(path string, is func(name string) bool) {
	dir, _ := filepath.Split(path)
	list, _ := OS.ReadDir(filepath.Clean(dir)) // no folder yet: nothing to remove
	for _, e := range list {
		if base, pid, tag, ok := writerOf(e.Name()); ok && is(base) && tag == hostTag() && Gone(pid) {
			_ = OS.Remove(dir + e.Name()) // a leftover costs nothing but room
		}
	}
}

// writerOf takes the name of an unpublished file apart: the name that it is meant to
// have, the process that writes it, and the tag of its machine.
func writerOf(name string) (base string, pid int, tag string, ok bool) {
	rest, ok := strings.CutSuffix(name, TempSuffix)
	at := strings.LastIndexByte(rest, '.')
	if !ok || at < 2 || rest[0] != '.' {
		return "", 0, "", false
	}
	by := strings.Split(rest[at+1:], "-")
	if len(by) != 3 {
		return "", 0, "", false
	}
	pid, err := strconv.Atoi(by[0])
	_, errSerial := strconv.ParseUint(by[1], 10, 64)
	return rest[1:at], pid, by[2], err == nil && errSerial == nil && pid > 0
}

// TempOf returns the final name of the unpublished file name, without folder; "" if name is no such file.
func TempOf(name string) string {
	base, _, _, _ := writerOf(name)
	return base
}

// MkdirAll makes dir and its missing parents, and syncs each folder that got a
// new entry.
func MkdirAll(fsys FS, dir string) error {
	var grown []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := fsys.Stat(d); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		grown = append(grown, filepath.Dir(d))
	}
	if len(grown) == 0 {
		return nil
	}
	if err := fsys.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, d := range grown {
		if err := fsys.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// syncsAtOnce bounds the calls of Parallel that run at a time.
const syncsAtOnce = 16

// Parallel makes calls that wait for the disk at the same time: one flush of the disk serves them all. It returns the first
// error, in their order. On a file system of tests it makes one after the other, up to the first error, so that the n-th
// call is the same each time.
func Parallel(fsys FS, calls []func() error) error {
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	slots := make(chan struct{}, syncsAtOnce)
	for i, call := range calls {
		if _, disk := fsys.(osFS); !disk {
			if err := call(); err != nil {
				return err
			}
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = call()
			<-slots
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Name is the path under which the file will appear.
func (a *Atomic) Name() string { return a.path }

// File is the unpublished file, for reading back what was written.
func (a *Atomic) File() File { return a.f }

// Write appends p.
func (a *Atomic) Write(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.f.Write(p)
	a.err = err
	if a.written += int64(n); a.written-a.begun >= writeBack {
		beginWriteBack(a.f, a.begun, a.written-a.begun)
		a.begun = a.written
	}
	return n, err
}

// WriteAt overwrites bytes at an offset, and leaves the place of the next Write alone.
func (a *Atomic) WriteAt(p []byte, off int64) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.f.WriteAt(p, off)
	a.err = err
	return n, err
}

// Sync makes what was written so far durable, still unpublished.
func (a *Atomic) Sync() error {
	if a.err == nil {
		a.err = a.f.Sync()
	}
	return a.err
}

// Seal syncs and closes the file, still unpublished. Many files can then wait to
// be placed together, and none is open.
func (a *Atomic) Seal() error {
	if a.shut {
		return a.err
	}
	a.shut = true
	err := a.Sync()
	if e := a.f.Close(); err == nil {
		a.err = e
	}
	return a.err
}

// Commit syncs and closes the file, renames it to its name, replacing what was
// there, and syncs the folder. On an error before the rename nothing of the file stays.
func (a *Atomic) Commit() error {
	if err := a.publish(a.fs.Rename); err != nil {
		return err
	}
	return a.fs.SyncDir(filepath.Dir(a.path))
}

// Place is Commit without the sync of the folder, for many files of one folder:
// the caller syncs that once before it tells anyone of them.
func (a *Atomic) Place() error { return a.publish(a.fs.Rename) }

// Show gives the file its name before it is synced, which Seal then does: for a name that nobody reads before the caller has called
// Seal. A crash may leave any content under it. If Show fails, nothing of the file stays; if Seal then fails, path stays,
// for the caller to remove, or to write over where it counts for nothing yet.
func (a *Atomic) Show() error {
	if a.done {
		return closed(a.path)
	}
	a.done = true
	err := a.fs.Rename(a.temp, a.path)
	if err != nil {
		_ = a.fs.Remove(a.temp) // the first error is the one to tell
	}
	return err
}

func closed(path string) error { return &fs.PathError{Op: "commit", Path: path, Err: fs.ErrClosed} }

// Link is Commit that never replaces: it fails with fs.ErrExist if the name is
// taken, so that the later of two writers loses.
func (a *Atomic) Link() error {
	err := a.publish(func(temp, path string) error {
		if err := a.fs.Link(temp, path); err != nil {
			return err
		}
		_ = a.fs.Remove(temp) // the file is published; a leftover name costs nothing
		return nil
	})
	if err != nil {
		return err
	}
	return a.fs.SyncDir(filepath.Dir(a.path))
}

func (a *Atomic) publish(place func(temp, path string) error) error {
	if a.done {
		return closed(a.path)
	}
	err := a.Seal()
	a.done = true
	if err == nil {
		err = place(a.temp, a.path)
	}
	if err != nil {
		_ = a.fs.Remove(a.temp) // the first error is the one to tell
		return err
	}
	return nil
}

// Abort removes the unpublished file. After Commit or Link it does nothing, after Show it only closes the file.
func (a *Atomic) Abort() {
	if !a.shut {
		a.shut = true
		_ = a.f.Close()
	}
	if a.done {
		return
	}
	a.done = true
	_ = a.fs.Remove(a.temp)
}

// ErrChanged is the error of Swap where another process was quicker.
var ErrChanged = errors.New("changed by another process")

// Swap replaces the file path by data if same says that it is as the caller knows it, else it fails with ErrChanged. Of
// writers that all use Swap at most one replaces what they know, also where no lock holds for them all: each makes its
// temporary file, then removes the temporary files of the others, and only then looks at the file. The rename of who is too late finds
// its temporary file gone. It is possible that neither of two succeeds.
func Swap(fsys FS, path string, same func(old []byte) bool, maxSize int64, data []byte) error {
	a, err := Create(fsys, path)
	if err != nil {
		return err
	}
	defer a.Abort()
	if _, err := a.Write(data); err != nil {
		return err
	}
	if err := a.Seal(); err != nil {
		return err
	}
	dir, base := filepath.Split(path)
	list, err := fsys.ReadDir(filepath.Clean(dir))
	if err != nil {
		return err
	}
	for _, e := range list {
		if temp := dir + e.Name(); TempOf(e.Name()) == base && temp != a.temp {
			if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	old, err := ReadFile(fsys, path, maxSize)
	if err == nil && !same(old) {
		err = ErrChanged
	}
	if err == nil {
		err = a.Commit()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrChanged
	}
	return err
}

// Exists reports whether path is there.
func Exists(fsys FS, path string) (bool, error) {
	_, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// WriteFile publishes data as path, replacing what was there.
func WriteFile(fsys FS, path string, data []byte) error {
	return writeFile(fsys, path, data, (*Atomic).Commit)
}

// LinkFile publishes data as path, or fails with fs.ErrExist if the name is taken.
func LinkFile(fsys FS, path string, data []byte) error {
	return writeFile(fsys, path, data, (*Atomic).Link)
}

func writeFile(fsys FS, path string, data []byte, publish func(*Atomic) error) error {
	a, err := Create(fsys, path)
	if err != nil {
		return err
	}
	if _, err := a.Write(data); err != nil {
		a.Abort()
		return err
	}
	return publish(a)
}

// ReadFile reads a whole file of at most limit bytes; a longer one is fault.Corrupt.
func ReadFile(fsys FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > limit {
		return nil, &fault.Error{Class: fault.Corrupt, File: path, Found: fmt.Sprintf("%d bytes", st.Size()), Want: fmt.Sprintf("at most %d", limit)}
	}
	b := make([]byte, st.Size())
	n, err := f.ReadAt(b, 0)
	if n == len(b) {
		return b, nil
	}
	return nil, err
}
