package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

// TestFencing crawls in shards, on a machine with locks that hold for nobody (strace has each flock succeed, as where it is local to
// a node). Each shard's fetching is begun, suspended with all its processes in the middle of a batch, and begun
// again elsewhere; the first wakes while the second waits, or fetches, or when it has ended. Stages are also begun twice at once. The crawl is
// the oracle's all the same, with no more requests than were under way, the audit is clean, and every WARC file is whole.
// It needs strace, and for WARCIO a python3 that has it: make fencing.
func TestFencing(t *testing.T) {
	if os.Getenv("MERCATOR_FENCING") == "" {
		t.Skip("make fencing runs it")
	}
	w := startWeb(t, 61, 6, 40)
	const connections = 4
	polite := []string{"--min-delay", "30ms", "--delay-factor", "0", "--addr-delay", "0"}
	c := newCrawl(t, w, "POLITENESS_FLAGS="+strings.Join(polite, " "), "BATCH=60",
		fmt.Sprintf("FETCH_FLAGS=--allow-net 127.0.0.0/8 --timeout 2s --dedup true --connections %d", connections))
	c.shards(t, 2)
	before := len(w.requests(t))
	taken, atOnce := 0, 0
	codes := map[string]int{}
	for taken < 4 || atOnce < 6 {
		s := c.stages(t)
		if s.Empty {
			break
		}
		for _, stage := range s.Stages {
			if stage.State != "ready" {
				continue
			}
			for _, n := range stage.Left {
				args := []string{"stage", c.dir, stage.Stage, "--round", s.Round, "--shard", fmt.Sprint(n)}
				switch {
				case stage.Stage == "fetch" && taken < 4:
					if code, hit := c.suspend(t, n, taken, args); hit {
						taken++
						codes["suspended "+code]++
						t.Logf("%s, shard %d: suspended, taken over, woken: exit code %s", s.Round, n, code)
					}
				case stage.Stage != "fetch" && atOnce < 6 && s.Round != "seed":
					atOnce++
					a, b := unlocked(args...), unlocked(args...)
					must.OK(t, a.Start(), b.Start())
					codes["at once "+stage.Stage+" "+ended(t, a)+" "+ended(t, b)]++
				}
				output(t, "mcrawl", args...)
			}
		}
	}
	t.Logf("taken over %d times, begun twice %d times; exit codes %v", taken, atOnce, codes)
	if taken < 3 || atOnce == 0 {
		t.Error("the test shows little")
	}
	c.finish(t, "mcrawl")
	c.sharded(t)
	fetched := c.kept(t, "fetched.arrows.zst")
	output(t, "mfetch", append(append([]string{"audit"}, polite...), fetched...)...)
	rows := strings.Count(output(t, "mcat", append([]string{"--format", "tsv", "--columns", "url,outcome"}, fetched...)...), "\n")
	if made := len(w.requests(t)) - before; made > rows+taken*2*connections {
		t.Errorf("%d requests for %d rows, taken over %d times", made, rows, taken)
	}
	output(t, "mcrawl", "seal", c.dir)
	var archive []string
	for n := range 2 {
		store := filepath.Join(c.dir, "shard", fmt.Sprintf("%03d", n), "fetch")
		if open, err := filepath.Glob(filepath.Join(store, "*.open")); err != nil || len(open) > 0 {
			t.Errorf("%v still grow: %v", open, err)
		}
		files, err := filepath.Glob(filepath.Join(store, "*.warc.gz"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%v %v", files, err)
		}
		output(t, "mcat", append([]string{"--format", "cdxj"}, files...)...)
		archive = append(archive, files...)
	}
	if python := os.Getenv("WARCIO"); python != "" {
		if out, err := exec.Command(python, append([]string{"../pkg/e2e/interop.py", "warc"}, archive...)...).CombinedOutput(); err != nil {
			t.Errorf("interop.py warc: %v\n%s", err, tail(out))
		}
	}
	output(t, "mckpt", "verify", "--quiet", c.dir)
}

// unlocked is mcrawl on a machine with locks that hold for nobody.
func unlocked(args ...string) *exec.Cmd {
	cmd := exec.Command("strace", append([]string{"-f", "-qq", "-o", os.DevNull, "-e", "trace=flock", "-e", "inject=flock:retval=0", bin + "mcrawl"}, args...)...)
	cmd.Stderr = new(bytes.Buffer)
	return cmd
}

// ended is the exit code of a stage that was begun twice: 0, or what says that another has it.
func ended(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 8 && exit.ExitCode() != 5) {
		t.Errorf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, tail(cmd.Stderr.(*bytes.Buffer).Bytes()))
	}
	return strconv.Itoa(cmd.ProcessState.ExitCode())
}

// suspend begins a fetch stage, suspends it when it has written some, begins it again, and wakes the first in one of three ways.
func (c *crawl) suspend(t *testing.T, shard, way int, args []string) (code string, hit bool) {
	t.Helper()
	length := func() (n int64) {
		files, _ := filepath.Glob(filepath.Join(c.dir, "shard", fmt.Sprintf("%03d", shard), "fetch", "*.warc.gz*"))
		for _, f := range files {
			if fi, err := os.Stat(f); err == nil {
				n += fi.Size()
			}
		}
		return n
	}
	first := unlocked(args...)
	was := length()
	must.OK(t, first.Start())
	for deadline := time.Now().Add(20 * time.Second); length() < was+8_000 && time.Now().Before(deadline); {
		if len(children(first.Process.Pid)) == 0 && length() > was {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	asleep := children(first.Process.Pid)
	for _, p := range asleep {
		_ = syscall.Kill(p.pid, syscall.SIGSTOP) // it may have ended
	}
	wake := func() {
		for _, p := range asleep {
			_ = syscall.Kill(p.pid, syscall.SIGCONT)
		}
	}
	defer wake()
	second := unlocked(args...)
	must.OK(t, second.Start())
	switch way % 3 {
	case 0:
		time.Sleep(2 * time.Second)
		wake()
	case 1:
		time.Sleep(6 * time.Second)
		wake()
	}
	if err := second.Wait(); err != nil {
		t.Errorf("the second: %v\n%s", err, tail(second.Stderr.(*bytes.Buffer).Bytes()))
	}
	said := second.Stderr.(*bytes.Buffer).String()
	wake()
	code = ended(t, first)
	hit = strings.Contains(said, "may still contact servers")
	if hit && !strings.Contains(said, " on ") {
		t.Errorf("it said %q", said)
	}
	return code, hit
}
