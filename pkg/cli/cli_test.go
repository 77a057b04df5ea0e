package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
)

// toy is a command that shows what all commands share.
type toy struct {
	Common
	Copy toyCopy `cmd:"" help:"Copy url records through a store."`
	Fail toyFail `cmd:"" help:"Fail in a chosen way."`
	Wait toyWait `cmd:"" help:"Wait for a signal."`
	Show toyShow `cmd:"" help:"Print the settings."`
	Exec toyExec `cmd:"" help:"Run a shell command."`
	Say  toySay  `cmd:"" help:"Print a line, and overlook what comes of it."`
}

type toyCopy struct {
	Store  string   `arg:""`
	Files  []string `arg:"" optional:""`
	Text   bool
	Strict bool
	TxnFlags
	Output
}

func (c *toyCopy) Run(ctx context.Context, std *Std) error {
	if err := store.Create(c.Store, "toy", 1, nil, store.Options{}); err != nil {
		return err
	}
	st, err := std.OpenStore(c.Store, "toy", 1, c.TxnFlags)
	if err != nil {
		return err
	}
	var in stage.Input[record.URL]
	if IsText(c.Text, c.Files) {
		in, err = OpenText(std, c.Files, c.Strict, func(line string, row *record.URL) error {
			if !strings.HasPrefix(line, "http") {
				return fmt.Errorf("%q is no URL", line)
			}
			row.URL, row.Host = line, "h"
			return nil
		})
	} else {
		in, err = OpenRecords[record.URL](std, c.Files)
	}
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	spec := stage.Spec{Name: "toy", Verb: "copy", Store: st, Txn: c.Txn}
	return RunStage(ctx, std, spec, in, sinks, func(_ context.Context, b *stage.Batch[record.URL, record.URL]) error {
		var row record.URL
		for {
			if err := b.Read(&row); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := b.Pass(&row); err != nil {
				return err
			}
		}
	})
}

type toyFail struct {
	How string `arg:""`
}

func (c *toyFail) Run() error {
	for _, class := range []fault.Class{fault.Usage, fault.Corrupt, fault.Truncated, fault.WrongKind, fault.Version, fault.Upstream, fault.Busy, fault.No, fault.Conflict} {
		if c.How == strings.ReplaceAll(string(class), " ", "-") {
			return &fault.Error{Class: class, File: "file\x1b[31m", Place: "line 3", Found: "this", Want: "that", Hint: "try\nthat"}
		}
	}
	if c.How == "epipe" {
		return fmt.Errorf("rows: %w", &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE})
	}
	if c.How == "epipe-elsewhere" {
		return fmt.Errorf("module: %w", syscall.EPIPE)
	}
	return errors.New("plain failure")
}

type toySay struct{}

func (*toySay) Run(std *Std) error {
	fmt.Fprintln(std.Out, "a line")
	return nil
}

type toyWait struct{}

func (*toyWait) Run(ctx context.Context, std *Std) error {
	fmt.Fprintln(std.Out, "waiting")
	<-ctx.Done()
	return context.Cause(ctx)
}

type toyExec struct {
	Command string `arg:""`
}

func (c *toyExec) Run(std *Std) error {
	cmd := exec.Command("/bin/sh", "-c", c.Command)
	cmd.Stdout, cmd.Stderr = std.Out, std.Err
	return cmd.Run()
}

type toyShow struct {
	Folder     string        `arg:"" optional:""`
	MinDelay   time.Duration `key:"politeness.min_delay"`
	AllowNet   []string      `key:"network.allow_net"`
	ShownAlone string
}

func (c *toyShow) Run(std *Std) error {
	_, err := fmt.Fprintln(std.Out, c.MinDelay, c.AllowNet, std.MemoryLimit())
	return err
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		// The toy goes by a real command's name, so that crawl.toml has settings for it.
		"mfetch": func() {
			os.Exit(Command{Name: "mfetch", About: "A toy.", Memory: 64 << 20, Setting: "memory.fetch", Grammar: func() any { return &toy{} }}.Main(""))
		},
	})
}

func TestScripts(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata/script"}) }

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "512": 512, "64M": 64 << 20, "1GiB": 1 << 30, "2k": 2048, "3kb": 3072} {
		t.Run(text, func(t *testing.T) {
			var s Size
			if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
				t.Errorf("%q: %d, %v; want %d", text, s, err, want)
			}
		})
	}
	for _, text := range []string{"", "M", "-1", "1.5G", "9999999999G", "64X"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken as %d", text, s)
		}
	}
}

func TestPrintable(t *testing.T) {
	if got := Printable("a\x1b[2J\r\nb\u0085\u2028é\t\u202e\u2066"); got != "a\uFFFD[2J\uFFFD\uFFFDb\uFFFD\uFFFDé\t\uFFFD\uFFFD" {
		t.Errorf("%q", got)
	}
}

func urlFile(t *testing.T, path, txn string, urls ...string) {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter[record.URL](&b, record.WriterOptions{Txn: txn})
	must.OK(t, err)
	for _, u := range urls {
		must.OK(t, w.Write(&record.URL{URL: u, Host: "h"}))
	}
	_, err = w.Commit(record.Ledger{})
	must.OK(t, err, os.WriteFile(path, b.Bytes(), 0o666))
}

// What a line of text quotes may be of any length, and the reason stands behind it.
func TestLongMessages(t *testing.T) {
	for _, n := range []int{longestLine - 7, longestLine - 6, 2 << 20} {
		var out bytes.Buffer
		s := &Std{Name: "toy", Err: &out, Common: &Common{}}
		s.fail(&fault.Error{File: "f", Found: strings.Repeat("ä", n/2) + "x"[:n%2], Want: "end"})
		if s.Warn("%s", strings.Repeat("€", n/3)); !utf8.Valid(out.Bytes()) {
			t.Error(n, "not UTF-8")
		}
		for i, line := range strings.Split(out.String(), "\n") {
			if len(line) > longestLine+20 || i == 0 && !strings.HasSuffix(line, ", want end") {
				t.Errorf("%d: %d bytes: %.20q … %q", n, len(line), line, line[max(0, len(line)-20):])
			}
		}
	}
}

// A file that cannot be opened or read is named once, before the reason, whoever met it.
func TestFileErrors(t *testing.T) {
	dir := t.TempDir()
	_, missing := os.ReadFile(filepath.Join(dir, "missing"))
	_, folder := os.ReadFile(dir)
	t.Setenv("TMPDIR", dir)
	for _, c := range []struct {
		err  error
		want string
	}{
		{missing, dir + "/missing: no such file or directory"},
		{&fault.Error{Class: fault.Usage, Err: missing}, dir + "/missing: no such file or directory"},
		{&fault.Error{Class: fault.Usage, File: dir + "/missing", Err: missing}, dir + "/missing: no such file or directory"},
		{fmt.Errorf("names: %w", missing), "names: " + dir + "/missing: no such file or directory"},
		{folder, dir + ": is a directory"},
		{&fault.Error{File: dir, Place: "line 1", Err: folder}, dir + ": line 1: " + dir + ": is a directory"},
		{&fs.PathError{Op: "write", Path: "a/.b.html.17-1-4049c22c.tmp", Err: syscall.ENOSPC}, "a/b.html: no space left on device\ntoy: hint: make room on that disk, and run the same command again: df -h shows the disks"},
		{&fs.PathError{Op: "mkdir", Path: dir + "/mcrawl-17", Err: syscall.EROFS}, dir + "/mcrawl-17: read-only file system\ntoy: hint: temporary files go to the folder that TMPDIR names: name one that can be written to and has room, such as export TMPDIR=/var/tmp"},
		{&fs.PathError{Op: "open", Path: dir + "/mercator-17/x.csv", Err: syscall.ENOENT}, dir + "/mercator-17/x.csv: no such file or directory"},
		{&fs.PathError{Op: "open", Path: "a", Err: syscall.EMFILE}, "a: too many open files\ntoy: hint: the hard limit of open files is too low: ulimit -Hn shows it, and the machine's administrator raises it"},
	} {
		var out bytes.Buffer
		(&Std{Name: "toy", Err: &out, Common: &Common{}}).fail(c.err)
		if out.String() != "toy: "+c.want+"\n" {
			t.Errorf("%v: %q, want %q", c.err, out.String(), c.want)
		}
	}
}

// Several files read as one input give the rows, the count and the hash of one
// file with all the rows.
func TestSeveralFilesAreOneInput(t *testing.T) {
	dir := t.TempDir()
	a, b, ab := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "ab")
	urlFile(t, a, "r1", "http://h/1", "http://h/2")
	urlFile(t, b, "r1", "http://h/3")
	urlFile(t, ab, "r1", "http://h/1", "http://h/2", "http://h/3")
	read := func(files ...string) record.Trailer {
		std := &Std{Name: "toy", Err: io.Discard, Common: &Common{}}
		in, err := OpenRecords[record.URL](std, files)
		must.OK(t, err)
		var row record.URL
		for err == nil {
			err = in.Read(&row)
		}
		if err != io.EOF {
			t.Fatal(err)
		}
		return in.Trailer()
	}
	two, one := read(a, b), read(ab)
	if two.Rows != 3 || two.Hash != one.Hash || two.Txn != "r1" || !two.Verified {
		t.Errorf("%+v, want %+v", two, one)
	}
	skip := func(files ...string) (record.Trailer, error) {
		in, err := OpenRecords[record.URL](&Std{Common: &Common{}}, files)
		must.OK(t, err)
		err = in.(interface{ Skip(context.Context) error }).Skip(t.Context())
		return in.Trailer(), err
	}
	other := filepath.Join(dir, "other")
	urlFile(t, other, "r2", "http://h/4")
	for txn, files := range map[string][]string{"r1": {a, b, ab}, "r2": {other}, "": {b, other}} {
		t.Run(txn, func(t *testing.T) {
			if end, err := skip(files...); err != nil || end.Txn != txn || !end.Verified {
				t.Errorf("%q skipped: %+v, %v", files, end, err)
			}
		})
	}
	cut, err := os.ReadFile(a)
	must.OK(t, err)
	must.OK(t, os.WriteFile(a, cut[:len(cut)-3], 0o666))
	in, err := OpenRecords[record.URL](&Std{Common: &Common{}}, []string{a, b})
	var row record.URL
	for err == nil {
		err = in.Read(&row)
	}
	if !errors.Is(err, fault.Truncated) || !strings.Contains(err.Error(), a) {
		t.Errorf("a cut first file: %v", err)
	}
	// The trailer is the one of the files that ended.
	if end, err := skip(b, a); !errors.Is(err, fault.Truncated) || !strings.Contains(err.Error(), a) || end.Txn != "r1" || end.Rows != 1 {
		t.Errorf("a cut second file, skipped: %+v, %v", end, err)
	}
}

// However short the work, --progress json and plain report it.
func TestProgressReportsTheEnd(t *testing.T) {
	for mode, want := range map[string]string{"json": `{"command":"toy","unit":"URLs","n":3,`, "plain": "toy: 3 URLs, ", "off": "", "auto": ""} {
		t.Run(mode, func(t *testing.T) {
			var out bytes.Buffer
			std := &Std{Name: "toy", Err: &out, Common: &Common{Progress: mode}}
			p := std.StartProgress("URLs", 0)
			p.Add(3)
			p.Done()
			p.Done()
			if got := out.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != min(len(want), 1) {
				t.Errorf("--progress %s: %q, want one line that begins with %q", mode, got, want)
			}
		})
	}
}

// Files of lines are opened when their turn comes; a last line without an end gets
// one, and no other line is added.
func TestLinesOfManyFiles(t *testing.T) {
	dir := t.TempDir()
	a, b, later := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "later")
	for name, text := range map[string]string{a: "1\n2", b: "3\n"} {
		must.OK(t, os.WriteFile(name, []byte(text), 0o666))
	}
	in, err := (&Std{Common: &Common{}}).OpenLines([]string{a, b, later, filepath.Join(dir, "missing")})
	must.OK(t, err)
	defer in.Close()
	must.OK(t, os.WriteFile(later, []byte("4"), 0o666))
	got, err := io.ReadAll(in)
	if string(got) != "1\n2\n3\n4\n" || err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := (&Std{Common: &Common{}}).OpenLines([]string{later + "r", a}); err == nil {
		t.Error("a first file that is not there")
	}
}

// The bar of a terminal is one line that is written anew, and nothing of it stays.
func TestBar(t *testing.T) {
	var out strings.Builder
	std := &Std{Name: "mtest", Err: &out}
	for _, c := range []struct {
		n, total int64
		want     string
	}{
		{0, 100, "mtest: [                    ] 0 of 100 URLs, 0/s"},
		{50, 100, "mtest: [==========          ] 50 of 100 URLs, "},
		{100, 100, "mtest: [====================] 100 of 100 URLs, "},
		{300, 100, "mtest: [====================] 300 of 100 URLs, "},
		{7, 0, "mtest: 7 URLs, "},
	} {
		t.Run(c.want, func(t *testing.T) {
			out.Reset()
			p := &Progress{std: std, mode: "bar", unit: "URLs", total: c.total, started: time.Now(), stop: make(chan struct{})}
			p.Add(c.n)
			p.report()
			if got := out.String(); !strings.HasPrefix(got, "\r\033[K"+c.want) || strings.Contains(got, "\n") {
				t.Errorf("%d of %d: %q, want %q", c.n, c.total, got, c.want)
			}
			out.Reset()
			p.Done()
			if got := out.String(); got != "\r\033[K" {
				t.Errorf("at its end the bar wrote %q", got)
			}
		})
	}
	if got := clip("mtest: 7 URLs", 5); got != "mtest" {
		t.Errorf("clipped to 5: %q", got)
	}
}

// TestPermissionHint: who owns what is closed is told to open it, also where that is a folder above.
func TestPermissionHint(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "crawl.toml")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct{ name, path, want string }{
		{"a file", file, "chmod u+rw " + file},
		{"a folder", dir, "chmod u+rwx " + dir},
		{"below a folder that nobody can look into", filepath.Join(dir, "a", "b"), "chmod u+rwx " + dir},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := &fs.PathError{Op: "open", Path: c.path, Err: syscall.EACCES}
			if got := systemHint(err); !strings.HasSuffix(got, ": "+c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got := usage(err, nil); got != error(err) || exitCode(got) != 1 {
				t.Errorf("of the arguments: %v, exit code %d", got, exitCode(got))
			}
		})
	}
}
