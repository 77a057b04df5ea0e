package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
	"mercator/pkg/config"
	pipes "mercator/pkg/driver/pipe"
)

// mcrawl is the command line of "mcrawl run" for a crawl with the variables of mercator.mk, the later ones
// winning: its settings are written into crawl.toml, of a new crawl or of the one that is there.
func (c *crawl) mcrawl(t *testing.T, env []string) *exec.Cmd {
	t.Helper()
	vars := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	var text []byte
	if file := vars["CONFIG"]; file != "" {
		var err error
		text, err = os.ReadFile(file)
		must.OK(t, err)
	}
	pairs := []config.Pair{{Key: "seeds", Value: vars["SEEDS"]}, {Key: "batch", Value: vars["BATCH"]},
		{Key: "fetch.contact", Value: vars["CONTACT"]}, {Key: "frontier.policy", Value: vars["POLICY"]}}
	for _, of := range []struct{ vars, verb string }{
		{"POLITENESS_FLAGS", "mfetch fetch"}, {"RESOLVE_FLAGS", "mresolve resolve"}, {"FETCH_FLAGS", "mfetch fetch"},
		{"NEXT_FLAGS", "mfrontier next"}, {"EXTRACT_FLAGS", "mextract links"}, {"UPDATE_FLAGS", "mfrontier update"},
	} {
		words := strings.Fields(vars[of.vars])
		for ; len(words) > 0; words = words[2:] {
			key := keysOf()[of.verb][strings.TrimPrefix(words[0], "--")]
			if key == "" || len(words) == 1 {
				t.Fatalf("no setting for %s of %s", words[0], of.verb)
			}
			pairs = append(pairs, config.Pair{Key: key, Value: words[1]})
		}
	}
	pairs = slices.DeleteFunc(pairs, func(p config.Pair) bool { return p.Value == "" })
	text, err := config.SetAll(text, pairs)
	must.OK(t, err, os.MkdirAll(c.dir, 0o777), os.WriteFile(filepath.Join(c.dir, "crawl.toml"), text, 0o666))
	if _, err := os.Stat(filepath.Join(c.dir, "CURRENT")); err != nil {
		output(t, "mckpt", "init", "--quiet", c.dir)
	}
	words := []string{"run", c.dir}
	if n := vars["ROUNDS"]; n != "" && n != "0" {
		words = append(words, "--rounds", n)
	}
	cmd := exec.Command(vars["BIN"]+"mcrawl", words...)
	if vars["BIN"] != bin { // commands of the test's own, as processes
		cmd.Env = append(os.Environ(), pipes.CommandsVariable+"="+vars["BIN"])
	}
	return cmd
}

// TestMcrawlIsKilled kills mcrawl at random moments with SIGKILL, and then, where the commands of a round are processes, it and each of them in
// turn. No process is left behind, the error names the command that was killed, and the same command goes on.
func TestMcrawlIsKilled(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		needs.Skip(t, "needs /proc to find processes")
	}
	begin := func() *crawl {
		return newCrawl(t, startWeb(t, 6, 4, 60), "BATCH=20", "POLITENESS_FLAGS=--min-delay 50ms --delay-factor 0 --addr-delay 0")
	}
	c := begin()
	c.command(t, "mcrawl") // makes the folder
	for rng, n := rand.New(rand.NewPCG(31, 1)), 0; n < 12; {
		if c.kill(t, rng, "run", c.dir) {
			n++
			continue
		}
		c.check(t)
		c = begin()
		c.command(t, "mcrawl")
	}
	for _, victim := range []string{"mcrawl", "mfrontier", "mresolve", "mfetch", "mfpset", "mextract", "murlset"} {
		killed := false
		for try := 0; !killed; try++ {
			if try == 5 {
				t.Fatalf("%s was not met in %d runs", victim, try)
			}
			cmd := c.command(t, "mcrawl")
			cmd.Env = append(os.Environ(), pipes.CommandsVariable+"="+bin)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			must.OK(t, cmd.Start())
			exited := make(chan error, 1)
			go func() { exited <- cmd.Wait() }()
			var err error
			for running := true; running; {
				select {
				case err = <-exited:
					running = false
				case <-time.After(5 * time.Millisecond):
				}
				for _, p := range children(cmd.Process.Pid) {
					if running && !killed && p.name == victim && (victim != "mcrawl" || len(children(cmd.Process.Pid)) > 4) {
						killed = kill(p.pid)
					}
				}
			}
			if killed && (err == nil || victim != "mcrawl" && !strings.Contains(out.String(), victim)) {
				t.Errorf("%s was killed: %v\n%s", victim, err, tail(out.Bytes()))
			}
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				left := commandLines(c.dir)
				if len(left) == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s was killed, and left behind: %q", victim, left)
				}
			}
			if err == nil && !killed { // the crawl has ended, on a busy machine before anybody saw the victim: another one
				c.check(t)
				c = begin()
			}
		}
	}
	c.finish(t, "mcrawl", "POLITENESS_FLAGS=--min-delay 0 --delay-factor 0 --addr-delay 0")
	c.check(t)
}

// kill ends a process with SIGKILL and reports whether the signal ended it: the process is stopped first, as
// one that is about to exit by itself takes the signal and still exits with its own status.
func kill(pid int) bool {
	for ; syscall.Kill(pid, syscall.SIGSTOP) == nil; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		switch state := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[0]; state {
		case "T":
			return syscall.Kill(pid, syscall.SIGKILL) == nil
		case "Z", "X":
			return false
		}
	}
	return false
}

// commandLines returns the command lines of processes that name a folder.
func commandLines(dir string) (all []string) {
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(dir)) {
			all = append(all, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return all
}

// TestTwoOfMcrawl: the second mcrawl on a crawl says who is there and exits with 5. Interrupted, the first
// exits with 130, and the same command goes on.
func TestTwoOfMcrawl(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 6, 4, 60)
	c := newCrawl(t, w, "POLITENESS_FLAGS=--min-delay 200ms --delay-factor 0 --addr-delay 0")
	first := c.command(t, "mcrawl")
	var out bytes.Buffer
	first.Stderr = &out
	must.OK(t, first.Start())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(c.dir, "rounds", "r2")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no second round")
		}
	}
	var exit *exec.ExitError
	told, err := exec.Command(bin+"mcrawl", "run", c.dir).CombinedOutput()
	if want := fmt.Sprintf("held by process %d on ", first.Process.Pid); !errors.As(err, &exit) || exit.ExitCode() != 5 || !bytes.Contains(told, []byte(want)) {
		t.Errorf("%v, want exit code 5 and %q\n%s", err, want, told)
	}
	must.OK(t, first.Process.Signal(syscall.SIGTERM))
	if err := first.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || strings.Count(out.String(), "interrupted") != 1 {
		t.Errorf("interrupted: %v\n%s", err, out.String())
	}
	if left := commandLines(c.dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	c.finish(t, "mcrawl", "POLITENESS_FLAGS=--min-delay 0 --delay-factor 0 --addr-delay 0")
	c.check(t)
}

// TestAgainCountsURLs: however often its URLs are fetched again, a crawl tells as many as the oracle knows, each with its last
// outcome: after kills, in a replay, and after a restore, from which it goes on.
func TestAgainCountsURLs(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 9, 4, 20)
	c := newCrawl(t, w, "BATCH=100", "POLITENESS_FLAGS=--min-delay 5ms --delay-factor 0 --addr-delay 0")
	want := map[string]uint64{}
	var urls uint64
	for line := range strings.Lines(w.oracle(t)) {
		want[strings.Split(line, "\t")[1]]++
		urls++
	}
	told := func(dir string, waiting uint64) {
		t.Helper()
		var s struct {
			Known, Done, Pending uint64
			Outcomes             []struct {
				Reason string
				N      uint64
			}
		}
		must.OK(t, json.Unmarshal([]byte(output(t, "mcrawl", "status", "--json", dir)), &s))
		got, sum := map[string]uint64{}, uint64(0)
		for _, o := range s.Outcomes {
			if o.Reason == "not-modified" {
				o.Reason = "fetched"
			}
			got[o.Reason] += o.N
			sum += o.N
		}
		if s.Known != urls || s.Pending != waiting || s.Done != urls-waiting || sum != s.Done || waiting == 0 && !maps.Equal(got, want) {
			t.Errorf("%d URLs known, %d done, %d wait, outcomes %v; want %d, %d waiting, %v", s.Known, s.Done, s.Pending, got, urls, waiting, want)
		}
		output(t, "mfrontier", "check", dir+"/frontier")
	}
	again := func(flags ...string) (n uint64) {
		t.Helper()
		said := output(t, "mcrawl", append([]string{"again", c.dir}, flags...)...)
		if _, err := fmt.Sscanf(said[strings.Index(said, ":")+1:], "%d into the queue", &n); err != nil || n == 0 {
			t.Fatalf("mcrawl again %s: %s", flags, said)
		}
		return n
	}
	c.finish(t, "mcrawl")
	told(c.dir, 0)
	n := again("--older", "0s")
	told(c.dir, n)
	checkpoint := checkpointOf(t, c.dir)
	for range 3 {
		cmd := c.command(t, "mcrawl")
		must.OK(t, cmd.Start())
		time.AfterFunc(300*time.Millisecond, func() { cmd.Process.Kill() })
		cmd.Wait()
	}
	c.finish(t, "mcrawl")
	told(c.dir, 0)
	again("--status", "404,5xx")
	c.finish(t, "mcrawl")
	told(c.dir, 0)
	replay := c.replay(t)
	told(replay, 0)
	output(t, "mckpt", "restore", c.dir, checkpoint)
	told(c.dir, n)
	c.finish(t, "mcrawl")
	told(c.dir, 0)
	output(t, "mckpt", "verify", "--quiet", c.dir)
}

// checkpointOf is the number of a crawl's checkpoint.
func checkpointOf(t *testing.T, dir string) string {
	t.Helper()
	var s struct{ Checkpoint uint64 }
	must.OK(t, json.Unmarshal([]byte(output(t, "mcrawl", "status", "--json", dir)), &s))
	return fmt.Sprint(s.Checkpoint)
}
