package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"mercator/pkg/base/coprocess"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// remote is where snapshots are kept. Names are slash-separated.
type remote interface {
	// list returns the lengths of all files; nil where there is no folder.
	list(ctx context.Context) (map[string]int64, error)
	// put copies files of a local folder, in which they may be links, over what is there.
	put(ctx context.Context, dir string, names []string) error
	// get copies files into a local folder, over what is there.
	get(ctx context.Context, names []string, dir string) error
	// remove deletes files; that one is not there is no error.
	remove(ctx context.Context, names []string) error
}

// openRemote chooses by the spelling: rclone:NAME:PATH, HOST:PATH or rsync://…, and else a folder. own is a local folder for
// lists of names; children inherit lock.
func openRemote(spelling, own string, lock *os.File) (remote, error) {
	own, err := filepath.Abs(own) // a relative name may look like an option or a host
	if err != nil {
		return nil, err
	}
	child := children{remote: spelling, own: own, lock: lock}
	if to, ok := strings.CutPrefix(spelling, "rclone:"); ok {
		if !strings.Contains(to, ":") {
			return nil, &fault.Error{Class: fault.Usage, File: spelling, Found: "no path", Want: "rclone:NAME:PATH", Hint: `"rclone listremotes" lists the names`}
		}
		return &rclone{child, to}, nil
	}
	if !IsFolder(spelling) {
		if strings.HasPrefix(spelling, "-") {
			return nil, &fault.Error{Class: fault.Usage, File: spelling, Found: "a host that begins with -", Want: "HOST:PATH", Hint: "for a folder write ./" + spelling}
		}
		return &rsync{child, strings.TrimSuffix(spelling, "/") + "/"}, nil
	}
	return folder(spelling), nil
}

// IsFolder reports whether a remote is spelled as a local folder.
func IsFolder(spelling string) bool {
	host, _, ok := strings.Cut(spelling, ":")
	return !ok || host == "" || strings.Contains(host, "/")
}

// children runs the programs that copy.
type children struct {
	remote, own string
	lock        *os.File
}

var stamp = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d *(ERROR|CRITICAL|Failed) *:? *`)
})

// run runs a program, and returns what it printed. missing reports whether it failed since there is no folder.
func (c *children) run(ctx context.Context, missing func(code int, stderr string) bool, program string, args ...string) (out []byte, found bool, err error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, false, &fault.Error{Class: fault.Usage, File: c.remote, Found: fmt.Sprintf("no program %s", program), Want: "it on PATH", Err: err, Hint: "install " + program + ", or name a folder of a mounted disk"}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &limited{&stderr, 64 << 10}
	cmd.ExtraFiles = []*os.File{c.lock} // a program that outlives this process keeps the lock
	cmd.Cancel = func() error { return coprocess.SignalGroup(cmd.Process, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = coprocess.EndWithUs() // a terminal's Ctrl-C is for this program, which ends it
	runtime.LockOSThread()                  // see there
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	if err == nil {
		return stdout.Bytes(), true, nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && missing != nil && missing(exit.ExitCode(), stderr.String()) {
		return nil, false, nil
	}
	said := ""
	for line := range strings.Lines(stderr.String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "Warning:") && !strings.Contains(line, " NOTICE: ") {
			said = ": " + stamp().ReplaceAllString(line, "")
			break
		}
	}
	if said == "" && program == "rsync" && exit != nil && exit.ExitCode() == 11 {
		// The other side's message is lost when it ends before this side has read it.
		said = ": error in file I/O (a full disk?)"
	}
	hint := "what is there is kept; the same command goes on"
	if daemon := strings.HasPrefix(c.remote, "rsync://") || strings.Contains(c.remote, "::"); daemon && program == "rsync" && exit != nil && exit.ExitCode() == 24 {
		hint = "rsync's daemon finds no named file below a folder of a module with \"use chroot = no\": set yes, or give the copy a module of its own"
	}
	return nil, false, &fault.Error{File: c.remote, Found: fmt.Sprintf("%s: %v%.300s", program, err, said), Err: err, Hint: hint}
}

// limited keeps the first bytes.
type limited struct {
	w    *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), l.left)
	l.left -= keep
	_, _ = l.w.Write(p[:keep])
	return len(p), nil
}

// names writes a list of names to a file.
func (c *children) names(list []string) (string, error) {
	file := filepath.Join(c.own, "names")
	return file, os.WriteFile(file, []byte(strings.Join(list, "\n")+"\n"), 0o666)
}

type rclone struct {
	children
	to string
}

func (r *rclone) list(ctx context.Context) (map[string]int64, error) {
	out, found, err := r.run(ctx, func(code int, _ string) bool { return code == 3 }, "rclone", "lsf", "-R", "--files-only", "--format", "sp", "--separator", "\t", "--", r.to)
	if err != nil || !found {
		return nil, err
	}
	files := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		size, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return nil, &fault.Error{File: r.remote, Found: fmt.Sprintf("rclone lsf printed %.80q", line), Want: "a size and a path"}
		}
		files[name] = n
	}
	return files, nil
}

func (r *rclone) copy(ctx context.Context, names []string, from, to string, flags ...string) error {
	list, err := r.names(names)
	if err == nil {
		_, _, err = r.run(ctx, nil, "rclone", slices.Concat([]string{"copy", "--files-from-raw", list, "--no-traverse", "--ignore-times"}, flags, []string{"--", from, to})...)
	}
	return err
}

func (r *rclone) put(ctx context.Context, dir string, names []string) error {
	return r.copy(ctx, names, dir, r.to, "--copy-links")
}

func (r *rclone) get(ctx context.Context, names []string, dir string) error {
	return r.copy(ctx, names, r.to, dir, "--ignore-checksum") // the names have better ones
}

func (r *rclone) remove(ctx context.Context, names []string) error {
	list, err := r.names(names)
	if err == nil {
		_, _, err = r.run(ctx, nil, "rclone", "delete", "--files-from-raw", list, "--", r.to)
	}
	return err
}

type rsync struct {
	children
	to string // ends in a slash
}

// flags let rsync end where the other side does not answer, or asks for a password.
func (r *rsync) flags() []string {
	flags := []string{"--timeout=300"}
	if _, after, _ := strings.Cut(r.to, ":"); strings.HasPrefix(r.to, "rsync://") || strings.HasPrefix(after, ":") {
		return append(flags, "--contimeout=60")
	}
	if os.Getenv("RSYNC_RSH") == "" {
		flags = append(flags, "-e", "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15")
	}
	return flags
}

// listed is a line of rsync --list-only: mode, size, date, time and path.
var listed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\S{10,11}) +([0-9,.]+) +\S+ +\S+ (.*)$`) })

func (r *rsync) list(ctx context.Context) (map[string]int64, error) {
	missing := func(code int, stderr string) bool {
		return code == 23 && strings.Contains(stderr, "No such file or directory")
	}
	out, found, err := r.run(ctx, missing, "rsync", append(r.flags(), "-r", "-8", "--no-h", "--list-only", "--", r.to)...)
	if err != nil || !found {
		return nil, err
	}
	files := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		m := listed().FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil || m[1][0] != '-' { // a folder, or a greeting
			continue
		}
		n, err := strconv.ParseInt(strings.NewReplacer(",", "", ".", "").Replace(m[2]), 10, 64)
		if err != nil {
			return nil, &fault.Error{File: r.remote, Found: fmt.Sprintf("rsync printed %.80q", line), Want: "a size and a path"}
		}
		files[m[3]] = n
	}
	return files, nil
}

func (r *rsync) copy(ctx context.Context, names []string, from, to string, flags ...string) error {
	var plain []string
	for _, name := range names {
		plain = append(plain, "./"+name) // a line that begins with # or ; is a comment
	}
	list, err := r.names(plain)
	if err == nil {
		_, _, err = r.run(ctx, nil, "rsync", slices.Concat(r.flags(), []string{"--files-from=" + list, "--ignore-times"}, flags, []string{"--", from, to})...)
	}
	return err
}

func (r *rsync) put(ctx context.Context, dir string, names []string) error {
	return r.copy(ctx, names, dir+"/", r.to, "--copy-links", "--whole-file")
}

func (r *rsync) get(ctx context.Context, names []string, dir string) error {
	return r.copy(ctx, names, r.to, dir+"/", "--whole-file")
}

// remove names files that are missing in an empty folder.
func (r *rsync) remove(ctx context.Context, names []string) error {
	empty := filepath.Join(r.own, "empty")
	if err := os.MkdirAll(empty, 0o777); err != nil {
		return err
	}
	return r.copy(ctx, names, empty+"/", r.to, "--delete-missing-args")
}

// folder is a local one, perhaps of a mounted disk. The folder around it must be there, so that a disk that is not mounted is noticed.
type folder string

func (r folder) path(name string) string { return filepath.Join(string(r), filepath.FromSlash(name)) }

func (r folder) list(ctx context.Context) (map[string]int64, error) {
	files := map[string]int64{}
	err := filepath.WalkDir(string(r), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return errors.Join(err, context.Cause(ctx))
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(string(r), path)
		files[filepath.ToSlash(rel)] = info.Size()
		return err
	})
	if _, gone := os.Stat(string(r)); errors.Is(gone, fs.ErrNotExist) {
		return nil, nil
	}
	return files, err
}

func (r folder) put(ctx context.Context, dir string, names []string) error {
	if err := os.Mkdir(string(r), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		if errors.Is(err, fs.ErrNotExist) {
			return &fault.Error{Class: fault.Usage, File: string(r), Found: "no folder " + filepath.Dir(string(r)), Want: "the folder around it", Err: err, Hint: "mount the disk, or make the folder"}
		}
		return err
	}
	folders := map[string]bool{}
	for _, name := range names {
		to := r.path(name)
		folders[filepath.Dir(to)] = true
		out, err := durable.CreateAll(durable.OS, to)
		if err == nil {
			from := filepath.Join(dir, filepath.FromSlash(name))
			if err = copyFile(ctx, from, out); err == nil {
				err = out.Place()
			}
			if st, statErr := os.Stat(from); err == nil && statErr == nil && st.Mode().Perm()&0o077 == 0 {
				err = os.Chmod(to, st.Mode().Perm())
			}
			out.Abort()
		}
		if err != nil {
			return r.failed(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		if err := durable.OS.SyncDir(name); err != nil {
			return r.failed(err)
		}
	}
	return nil
}

func (r folder) failed(err error) error {
	return &fault.Error{File: string(r), Found: err.Error(), Err: err, Hint: "what is there is kept; the same command goes on"}
}

func (r folder) get(ctx context.Context, names []string, dir string) error {
	for _, name := range names {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		out, err := os.Create(to)
		if err != nil {
			return err
		}
		err = copyFile(ctx, r.path(name), out)
		if err := errors.Join(err, out.Close()); err != nil {
			return r.failed(err)
		}
	}
	return nil
}

func copyFile(ctx context.Context, from string, out io.Writer) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(out, ctxReader{ctx, in})
	return err
}

func (r folder) remove(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := os.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return context.Cause(ctx)
}

// ctxReader is a reader that ends with ctx.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (r ctxReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
