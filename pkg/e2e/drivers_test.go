package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"mercator/pkg/base/must"
)

// TestHelperIsKilled kills each command that tells mercator.mk what to do, one in each run. The
// driver ends with a message, and the same command again does the rounds that crawl.toml asks
// for, as a walk: a driver that missed an answer would go on without end, or take the other branch.
func TestHelperIsKilled(t *testing.T) {
	if !long {
		t.Skip("mercator.mk makes some rounds for each helper: MERCATOR_LONG=1")
	}
	t.Parallel()
	w := startWeb(t, 9, 2, 20)
	config := filepath.Join(t.TempDir(), "crawl.toml")
	must.OK(t, os.WriteFile(config, []byte("rounds = 1\n[frontier]\npolicy = \"walk\"\nwalkers = 3\n"), 0o666))
	// Each helper call leaves its name in calls; the one of number victim is killed.
	dir := t.TempDir()
	calls, victim := filepath.Join(dir, "calls"), filepath.Join(dir, "victim")
	folder := wrap(t, "mckpt", "")
	for _, name := range []string{"mckpt", "mfrontier"} {
		script := fmt.Sprintf("#!/bin/sh\ncase %s,$1 in mckpt,*|mfrontier,stat) echo \"%s $*\" >> %s\n"+
			"[ \"$(wc -l < %[3]s)\" -ne \"$(cat %s)\" ] || kill -9 $$ ;; esac\nexec %s \"$@\"\n", name, name, calls, victim, bin+name)
		os.Remove(folder + name)
		must.OK(t, os.WriteFile(folder+name, []byte(script), 0o777))
	}
	said := regexp.MustCompile(`exit status 137|Error 137|Killed|was killed`)
	for n := 1; ; n++ {
		c := newCrawl(t, w, "CONFIG="+config, "BIN="+folder)
		for file, text := range map[string]string{calls: "", victim: fmt.Sprint(n)} {
			must.OK(t, os.WriteFile(file, []byte(text), 0o666))
		}
		out, err := c.command(t, "mercator.mk").CombinedOutput()
		made, _ := os.ReadFile(calls)
		lines := strings.Split(strings.TrimSpace(string(made)), "\n")
		if len(lines) < n {
			if err != nil || n < 10 {
				t.Fatalf("%d helpers, %v\n%s", len(lines), err, tail(out))
			}
			break
		}
		killed := lines[n-1]
		// "mckpt hold" becomes the driver, which says nothing when it is killed.
		if err == nil || !said.Match(out) && !strings.HasPrefix(killed, "mckpt hold") {
			t.Errorf("%q was killed: %v\n%s", killed, err, tail(out))
		}
		c.finish(t, "mercator.mk")
		if left := c.outcomes(t); len(left) != 1 || !strings.HasSuffix(left[0], "fetched.arrows.zst") {
			t.Errorf("%q was killed: the walk of one round left %q", killed, left)
		}
		if out := output(t, "mckpt", "show", "--next-round", c.dir); out != "2\n" {
			t.Errorf("%q was killed: after one round comes %s", killed, out)
		}
		output(t, "mckpt", "verify", "--quiet", c.dir)
	}
}

// TestDriverIsKilled kills the driver alone while a command of its runs. The same command
// again says who still runs, waits for it, and goes on.
func TestDriverIsKilled(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 11, 2, 20)
	for driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := newCrawl(t, w)
			begun := filepath.Join(t.TempDir(), "begun")
			must.OK(t, syscall.Mkfifo(begun, 0o600))
			slow := wrap(t, "mfetch", fmt.Sprintf(": > %s; sleep 2; exec %smfetch \"$@\"\n", begun, bin))
			first := c.command(t, driver, "BIN="+slow, "ROUNDS=1")
			first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the test's own signals do not reach it
			must.OK(t, first.Start())
			if _, err := os.ReadFile(begun); err != nil { // waits for mfetch
				t.Fatal(err)
			}
			must.OK(t, first.Process.Kill())
			first.Wait()
			out, err := c.command(t, driver, "ROUNDS=1").CombinedOutput()
			// Commands that mcrawl has started end with it, where the system sees to that.
			if told := bytes.Contains(out, []byte(": held by process ")); err != nil || !told && (driver != "mcrawl" || runtime.GOOS != "linux") {
				t.Errorf("%v\n%s", err, tail(out))
			}
			if rounds := c.outcomes(t); len(rounds) != 1 {
				t.Errorf("one round left %q", rounds)
			}
			output(t, "mckpt", "verify", "--quiet", c.dir)
		})
	}
}

// TestFailedStart makes the mistakes of a first start, one after the other in the same folder: each
// is told, and the corrected command works. No message tells to remove a folder.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 12, 2, 10)
	dir := t.TempDir()
	for name, text := range map[string]string{"bare.txt": "www.example.org\n", "empty.txt": "# none yet\n", "dead.txt": "http://127.0.0.77:9/\n"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	// What mcrawl says is told by its own scripts (cmd/mcrawl/testdata/script/new.txtar, run.txtar).
	c := newCrawl(t, w, "POLICY=fifo")
	run := func(env ...string) (string, error) {
		out, err := c.command(t, "mercator.mk", env...).CombinedOutput()
		if strings.Contains(string(out), "remove") {
			t.Errorf("%q tells to remove something:\n%s", env, out)
		}
		return string(out), err
	}
	fails := func(says string, env ...string) {
		if out, err := run(env...); err == nil || !strings.Contains(out, says) {
			t.Errorf("%q: %v, want an error with %q\n%s", env, err, says, out)
		}
	}
	fails("no file of seed URLs here", "SEEDS=typo.txt")
	if _, err := os.Stat(c.dir); err == nil {
		t.Errorf("SEEDS=typo.txt left a folder")
	}
	fails("bare.txt: line 1: ", "SEEDS="+dir+"/bare.txt")
	fails("empty.txt: no URL, want one a line", "SEEDS="+dir+"/empty.txt")
	fails("typo.txt: no ", "SEEDS="+dir+"/typo.txt "+dir+"/bare.txt", "SEED_FLAGS=--quiet")
	if out, err := run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.check(t)
	c.dir += "-dead"
	fails("nothing was fetched of 1 URL: port-refused 1", "SEEDS="+dir+"/dead.txt")
}
