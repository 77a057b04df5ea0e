package process

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"mercator/pkg/base/coprocess"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Bounds of the folder of a program that keeps state.
const (
	MaxStateFiles = 10_000
	MaxStateBytes = 4 << 30
)

// EventTime is how many times the time of one document, or of an answer, the other events get.
const EventTime = 60

// ExecLimits bound a program that works as a module.
type ExecLimits struct {
	Timeout time.Duration // for one document; 0: 10 s
	Output  int           // bytes of standard output for one document; 0: 64 KiB
}

func (l ExecLimits) timeout() time.Duration {
	if l.Timeout > 0 {
		return l.Timeout
	}
	return 10 * time.Second
}

func (l ExecLimits) output() int {
	if l.Output > 0 {
		return l.Output
	}
	return 64 << 10
}

// Exec is a module that runs a program for each document: the body on standard
// input; URL, checksum, media type and charset in the environment as
// MERCATOR_URL, MERCATOR_URL_KEY, MERCATOR_MIME and MERCATOR_CHARSET; one finding
// for each line of output, "KEY<tab>VALUE", or key "line" where there is no tab.
//
// A program that ends with another status than 0, writes more than it may, or takes
// longer, failed. What it started is killed when it has ended, however it did.
//
// # State
//
// MERCATOR_EVENT says what the program is run for: "document". One that is to keep
// state is also run for
//
//	begin     before the first document
//	commit    the batch has ended: on standard input are all findings, in the
//	          order of the documents, a line each, "URL_KEY<tab>KEY<tab>VALUE"; what
//	          the folder holds when the program ends well is the new state
//	abort     the batch is given up; nothing of the folder will be kept
//
// and gets the name of the round, MERCATOR_TXN, and a folder of its own,
// MERCATOR_MODULE_DIR, with what it left there in the round before. For a document
// it gets neither, since its findings must be the same whenever it is asked again.
//
// The folder is a copy. It becomes the store's next generation as one file, a tar
// archive of its files and folders, so that it changes at once or not at all, whatever
// is killed when: a program needs no care of its own. After a kill there is no abort,
// and the copy stays behind in TMPDIR. Begin and commit get sixty times as long as a
// document. A program that fails at either leaves its state as it was before the round,
// which is counted.
//
// # A program that stays
//
// With Stay the program is started once for each thread, and asked for one document after
// another: see resident. The other events start it anew, as they do any other.
type Exec struct {
	ModuleName string
	Command    string // for sh -c
	Stay       bool
	Limits     ExecLimits
	Temp       string // where the copies of its folder are made; "": TMPDIR
}

// Name is the module's name.
func (e *Exec) Name() string { return e.ModuleName }

// Types are none: the settings say what a program sees.
func (e *Exec) Types() []string { return nil }

// New returns an instance.
func (e *Exec) New() Instance {
	if e.Stay {
		return newResident(e)
	}
	return e
}

var errOutput = errors.New("output too long")

// Process runs the program over one document.
func (e *Exec) Process(ctx context.Context, doc *Document, report func(key, value string)) error {
	out, err := e.run(ctx, e.Limits.timeout(), bytes.NewReader(doc.Body), []string{
		"MERCATOR_EVENT=document",
		"MERCATOR_URL=" + noNUL(doc.URL),
		fmt.Sprintf("MERCATOR_URL_KEY=%016x", doc.Key),
		"MERCATOR_MIME=" + noNUL(doc.MIME),
		"MERCATOR_CHARSET=" + noNUL(doc.Charset),
	})
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		if key, value, ok := strings.Cut(line, "\t"); ok {
			report(key, value)
		} else {
			report("line", line)
		}
	}
	return nil
}

// run runs the program once and returns what it wrote.
func (e *Exec) run(ctx context.Context, timeoutAfter time.Duration, stdin io.Reader, env []string) (string, error) {
	timeout, stop := context.WithTimeoutCause(ctx, timeoutAfter, fmt.Errorf("no end after %v", timeoutAfter))
	defer stop()
	limited, cancel := context.WithCancelCause(timeout)
	defer cancel(nil)

	cmd := exec.CommandContext(limited, "/bin/sh", "-c", e.Command)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = stdin
	out := &boundedBuffer{limit: e.Limits.output(), full: func() { cancel(errOutput) }}
	cmd.Stdout = out
	var said coprocess.Tail
	cmd.Stderr = &said
	// A group of its own, so that its children end with it. It ends with the thread that starts it, so that a kill of this process ends it.
	cmd.SysProcAttr = coprocess.EndWithUs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Cancel = func() error { return coprocess.SignalGroup(cmd.Process, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second

	err := cmd.Run()
	if cmd.Process != nil {
		_ = cmd.Cancel() // what it left running; mostly there is none
	}
	if limited.Err() != nil {
		return "", context.Cause(limited)
	}
	if why := said.Why(); err != nil && why != "" {
		err = fmt.Errorf("%w: %s", err, why)
	}
	return out.b.String(), err
}

func noNUL(s string) string { return strings.ReplaceAll(s, "\x00", "") }

// boundedBuffer keeps what is written up to a limit, and calls full beyond it.
type boundedBuffer struct {
	b     bytes.Buffer
	limit int
	full  func()
}

func (w *boundedBuffer) Write(p []byte) (int, error) {
	if w.b.Len()+len(p) > w.limit {
		w.full()
		return 0, errOutput
	}
	return w.b.Write(p)
}

// folder is the state of a program: a copy of its folder, and the findings so far.
type folder struct {
	*Exec
	dir, txn string
	findings *os.File // without a name
	out      *bufio.Writer
	written  bool
}

// Begin makes the program's folder from the state so far, and tells it.
func (e *Exec) Begin(ctx context.Context, old io.Reader, txn string) (State, error) {
	return e.beginState(ctx, old, txn, MaxStateFiles)
}

func (e *Exec) beginState(ctx context.Context, old io.Reader, txn string, maxFiles int) (State, error) {
	dir, err := os.MkdirTemp(e.Temp, "mercator-module-"+e.ModuleName+"-")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil { // a program may change its directory
		return nil, err
	}
	f := &folder{Exec: e, dir: dir, txn: txn}
	if f.findings, err = durable.TempFile(""); err == nil {
		f.out = bufio.NewWriter(f.findings)
		err = unpack(dir, old, maxFiles)
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return f, f.tell(ctx, "begin", EventTime, nil)
}

// tell runs the program for an event.
func (f *folder) tell(ctx context.Context, event string, times int, stdin io.Reader) error {
	_, err := f.run(ctx, time.Duration(times)*f.Limits.timeout(), stdin,
		Env(event, f.dir, f.txn))
	if err != nil {
		return fmt.Errorf("%w at %s: %w", ErrFailed, event, err)
	}
	return nil
}

// Env are the variables of an event that has the folder.
func Env(event, dir, txn string) []string {
	return []string{"MERCATOR_EVENT=" + event, "MERCATOR_MODULE_DIR=" + dir, "MERCATOR_TXN=" + txn}
}

var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

func (f *folder) Add(key uint64, one Finding) error {
	_, err := fmt.Fprintf(f.out, "%016x\t%s\t%s\n", key, oneLine.Replace(one.Key), oneLine.Replace(one.Value))
	return err
}

// Write lets the program take the findings in, and writes its folder.
func (f *folder) Write(ctx context.Context, out io.Writer) error {
	if err := f.out.Flush(); err != nil {
		return err
	}
	if _, err := f.findings.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := f.tell(ctx, "commit", EventTime, f.findings); err != nil {
		return err
	}
	f.written = true
	return pack(out, f.dir)
}

func (f *folder) Close(ctx context.Context) {
	if !f.written {
		// The batch is given up, so nobody waits for the answer.
		_ = f.tell(context.WithoutCancel(ctx), "abort", 1, nil)
	}
	f.remove()
}

func (f *folder) remove() {
	if f.findings != nil {
		f.findings.Close()
	}
	_ = RemoveFolder(f.dir)
}

// RemoveFolder removes a program's folder, which may hold folders that the program has locked.
func RemoveFolder(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// pack writes a folder as a tar archive that depends on names, contents and
// executable bits alone.
func pack(out io.Writer, dir string) error {
	w := tar.NewWriter(out)
	files, size := 0, int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // in order of names
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
		if path == dir {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if files++; files > MaxStateFiles {
			return fmt.Errorf("%w: its folder holds more than %d files", ErrFailed, MaxStateFiles)
		}
		h := &tar.Header{Name: filepath.ToSlash(name), Mode: 0o600 | int64(info.Mode()&0o100), Format: tar.FormatPAX, Typeflag: tar.TypeReg, Size: info.Size()}
		switch {
		case d.IsDir():
			h.Typeflag, h.Mode, h.Size = tar.TypeDir, 0o700, 0
			return w.WriteHeader(h)
		case !d.Type().IsRegular():
			return fmt.Errorf("%w: %s in its folder is neither a file nor a folder", ErrFailed, name)
		}
		if size += h.Size; size > MaxStateBytes {
			return fmt.Errorf("%w: its folder holds more than %d bytes", ErrFailed, int64(MaxStateBytes))
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
		defer f.Close()
		n, err := io.Copy(w, io.LimitReader(f, h.Size))
		if err == nil && n < h.Size {
			return fmt.Errorf("%w: %s in its folder shrinks after it ended", ErrFailed, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// unpack makes the files of an archive that pack wrote, and refuses what it does not write, and more than most files.
func unpack(dir string, in io.Reader, maxFiles int) error {
	r := tar.NewReader(in)
	files, size := 0, int64(0)
	for {
		h, err := r.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, in) // a checksum is compared at the end
			return err
		}
		if err != nil {
			return corruptEntry(files+1, err)
		}
		files++
		size += h.Size
		switch bad := (&fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("entry %d of the archive", files)}); {
		case !filepath.IsLocal(h.Name):
			bad.Found, bad.Want = fmt.Sprintf("name %q", h.Name), "one within the folder"
			return bad
		case h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeReg:
			bad.Found, bad.Want = fmt.Sprintf("%q of type %q", h.Name, h.Typeflag), "a file or a folder"
			return bad
		case h.PAXRecords["GNU.sparse.realsize"] != "" || h.PAXRecords["GNU.sparse.size"] != "": // a few bytes that become gigabytes
			bad.Found, bad.Want = fmt.Sprintf("%q with holes", h.Name), "a file or a folder"
			return bad
		case files > maxFiles || size > MaxStateBytes:
			bad.Found, bad.Want = fmt.Sprintf("%d bytes so far", size), fmt.Sprintf("%d files with %d bytes at most", maxFiles, int64(MaxStateBytes))
			return bad
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.Mkdir(path, 0o700); err != nil {
				return corruptEntry(files, err)
			}
			continue
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(h.Mode)&0o700)
		if err != nil {
			return corruptEntry(files, err)
		}
		_, err = io.Copy(f, r)
		if err := errors.Join(err, f.Close()); err != nil {
			return corruptEntry(files, err)
		}
	}
}

// corruptEntry is the error of an entry of an archive that cannot be: one that ends early, or of a name that another has
// or that no file can have. What is wrong with a disk is no fault of the archive.
func corruptEntry(n int, err error) error {
	e := &fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("entry %d of the archive", n), Err: err}
	var path *fs.PathError
	switch {
	case fault.ClassOf(err) != "":
		return err
	case !errors.As(err, &path):
		return e
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL):
		e.Found = fmt.Sprintf("name %q: %v", filepath.Base(path.Path), path.Err) // the folder is a temporary one
		return e
	}
	return err
}
