package e2e

import (
	"bufio"
	"fmt"
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
)

// papers are the scripts of the systems that Mercator's papers compare with, and where their fetch records are.
var papers = map[string]string{
	"google98.sh":  "rounds/r*/fetched-*",
	"archive97.sh": "crawlers/*/rounds/r*/marked.*",
}

// paper is a command of one of them, with everything polite turned off.
func paper(w *web, script, dir, filter string) *exec.Cmd {
	cmd := exec.Command("./"+script, dir, w.seeds)
	cmd.Env = append(os.Environ(), "BIN="+bin, "FILTER="+filter, "CRAWLERS=3", "SITES=3", "BLOOM=64K", "BATCH=100",
		"POLITENESS_FLAGS=--min-delay 0 --delay-factor 0 --addr-delay 0", "RESOLVE_FLAGS=--server "+w.dns, "FETCH_FLAGS=--allow-net 127.0.0.0/8", "UPDATE_FLAGS=--max-attempts 1",
		"SET=politeness.min_delay=0s politeness.delay_factor=0 politeness.addr_delay=0s network.allow_net=127.0.0.0/8 frontier.max_attempts=1 resolve.servers="+w.dns)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// TestPapers: google98.sh and archive97.sh are killed with all their processes, at random moments, and run again.
// In the end each URL that a correct crawl finds has exactly one outcome.
func TestPapers(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 1, 6, 40)
	filter := filepath.Join(t.TempDir(), "rules")
	must.OK(t, os.WriteFile(filter, []byte("deny calendar: contains /cal/\nallow rest: any\n"), 0o666))
	var lines []string
	for line := range strings.Lines(w.oracle(t)) {
		if !strings.Contains(line, "/cal/") {
			lines = append(lines, line)
		}
	}
	want := strings.Join(lines, "")
	for script, records := range papers {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "crawl")
			rng := rand.New(rand.NewPCG(98, 97))
			kills := 0
			for ends := false; !ends; {
				cmd := paper(w, script, dir, filter)
				var said strings.Builder
				cmd.Stderr = &said
				must.OK(t, cmd.Start())
				if kills == 3 {
					if err := cmd.Wait(); err != nil {
						t.Fatalf("%v\n%s", err, said.String())
					}
					break
				}
				timer := time.AfterFunc(time.Duration(100+rng.IntN(700))*time.Millisecond, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
				err := cmd.Wait()
				if ends = timer.Stop(); ends && err != nil {
					t.Fatalf("%v\n%s", err, said.String())
				}
				kills++
			}
			files, _ := filepath.Glob(filepath.Join(dir, records))
			var rows []string
			hosts := map[string]map[string]bool{} // by crawler
			for _, f := range files {
				for line := range strings.Lines(output(t, "mcat", "--format", "tsv", "--columns", "url,outcome,status,role,host", f)) {
					cells := strings.Split(strings.TrimSpace(line), "\t")
					if cells[3] != "page" || cells[1] == "deferred" {
						continue
					}
					rows = append(rows, strings.Join(cells[:3], "\t")+"\n")
					crawler := filepath.Base(f)
					if script == "archive97.sh" {
						crawler = filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(f))))
					}
					if hosts[crawler] == nil {
						hosts[crawler] = map[string]bool{}
					}
					hosts[crawler][cells[4]] = true
				}
			}
			slices.Sort(rows)
			if got := strings.Join(rows, ""); got != want {
				t.Errorf("after %d kills the crawl differs from the oracle:\n%s", kills, diff(want, got))
			}
			// No host has two crawlers, and in the archive's way none more than its share.
			owner := map[string]string{}
			for crawler, own := range hosts {
				for h := range own {
					if owner[h] != "" {
						t.Errorf("%s was crawled by %s and %s", h, owner[h], crawler)
					}
					owner[h] = crawler
				}
				if script == "archive97.sh" && len(own) > 3 {
					t.Errorf("crawler %s has the sites %v, want at most 3", crawler, own)
				}
			}
			if len(hosts) < 3 {
				t.Errorf("%d crawlers, want 3 or more", len(hosts))
			}
			if out, err := paper(w, script, dir, filter).CombinedOutput(); err != nil || !strings.Contains(string(out), ": not read: "+w.seeds) {
				t.Errorf("seeds for a crawl that has some: %v\n%s", err, out)
			}
			again := paper(w, script, dir, filter)
			again.Env = append(again.Env, "CRAWLERS=4", "SITES=4")
			if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "=4\n"+script+": hint: ") {
				t.Errorf("another number: %v\n%s", err, out)
			}
		})
	}
}

// TestPapersStart: the mistakes of a first start have messages, and the corrected command works.
func TestPapersStart(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 2, 1, 3)
	bad := filepath.Join(t.TempDir(), "bad.txt")
	must.OK(t, os.WriteFile(bad, []byte("www.example.org\n"), 0o666))
	for script := range papers {
		dir := filepath.Join(t.TempDir(), "crawl")
		for says, change := range map[string]func(*exec.Cmd){
			"no folder, want a folder and files of seed URLs\n" + script + ": hint: ": func(c *exec.Cmd) { c.Args = c.Args[:1] },
			"no crawl yet and no seeds": func(c *exec.Cmd) { c.Args = c.Args[:2] },
			"=0, want ":                 func(c *exec.Cmd) { c.Env = append(c.Env, "CRAWLERS=0", "SITES=0") },
			"bad.txt: line 1: ":         func(c *exec.Cmd) { c.Args[2] = bad },
		} {
			cmd := paper(w, script, dir, "")
			change(cmd)
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), says) {
				t.Errorf("%s: %v, want an error with %q\n%s", script, err, says, out)
			}
		}
		if script == "google98.sh" { // the StoreServer takes no page above a quarter of its memory
			small := paper(w, script, dir, "")
			small.Env = append(small.Env, "COPY_FLAGS=--memory 400", "ROUNDS=1")
			if out, err := small.CombinedOutput(); err == nil || !strings.Contains(string(out), "want at most 100, a quarter of --memory") {
				t.Errorf("%s with little memory: %v\n%s", script, err, out)
			}
		}
		right := paper(w, script, dir, "")
		right.Env = append(right.Env, "ROUNDS=1", "PERIODS=1")
		if out, err := right.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
		missing := paper(w, script, dir, "")
		missing.Args[2] = "nowhere.txt"
		missing.Env = append(missing.Env, "ROUNDS=1", "PERIODS=1")
		if out, err := missing.CombinedOutput(); err != nil || !strings.Contains(string(out), script+": nowhere.txt: no such file\n") {
			t.Errorf("%s again, with seeds that are not there: %v\n%s", script, err, out)
		}
		if out, err := exec.Command("./"+script, "--help").Output(); err != nil || !strings.HasPrefix(string(out), "A crawl as ") || strings.Contains(string(out), "set -eu") {
			t.Errorf("%s --help: %v\n%s", script, err, out)
		}
		other := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(other, "crawl.toml"), nil, 0o666))
		if out, err := paper(w, script, other, "").CombinedOutput(); err == nil || !strings.Contains(string(out), ": a crawl of mcrawl, want a new folder or one of "+script) {
			t.Errorf("%s into a crawl of mcrawl: %v\n%s", script, err, out)
		}
	}
}

// TestManyCrawlers: archive97.sh writes the seeds of more crawlers than it may have files open. Its commands are
// replaced: mcat gives 100 sites, two URLs each, and the others do nothing.
func TestManyCrawlers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"mcat":    `echo host url | tr ' ' '\t'; for k in 1 2; do i=0; while [ $i -lt 100 ]; do printf 'h%d\thttp://h%d/%d\n' $i $i $k; i=$((i + 1)); done; done`,
		"murlset": `while [ $# -gt 1 ]; do shift; done; : > "$1"`,
		"mcrawl":  ``,
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o777))
	}
	cmd := exec.Command("sh", "-c", `ulimit -n 32; exec ./archive97.sh "$0/archive" seeds.txt`, dir)
	cmd.Env = append(os.Environ(), "BIN="+dir+"/", "SITES=1", "PERIODS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "archive/periods/1/seeds-*.txt"))
	if len(files) != 100 {
		t.Errorf("seeds of %d crawlers, want 100", len(files))
	}
	for i, f := range files {
		if got, err := os.ReadFile(f); err != nil || string(got) != fmt.Sprintf("http://h%d/1\nhttp://h%[1]d/2\n", i) {
			t.Errorf("%s: %q, %v", f, got, err)
		}
	}
}

// TestNothingFetched: a crawl that fetched nothing is a failure. google98.sh goes on from there with corrected flags, and says
// what it waits for.
func TestNothingFetched(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 3, 1, 3)
	none := filepath.Join(t.TempDir(), "none.txt")
	must.OK(t, os.WriteFile(none, []byte("http://127.0.0.1:1/\n"), 0o666))
	archive := paper(w, "archive97.sh", filepath.Join(t.TempDir(), "crawl"), "")
	archive.Args[2] = none
	out, err := archive.CombinedOutput()
	if archive.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "nothing was fetched\narchive97.sh: hint: ") {
		t.Errorf("archive97.sh: %v, want exit code 1\n%s", err, out)
	}

	dir := filepath.Join(t.TempDir(), "crawl")
	google := func(more ...string) (string, error) {
		cmd := paper(w, "google98.sh", dir, "")
		cmd.Env = append(cmd.Env, more...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	hint := "google98.sh: hint: correct RESOLVE_FLAGS or FETCH_FLAGS"
	wrong := "RESOLVE_FLAGS=--server 127.0.0.1:1 --timeout 10ms --silent-ok" // where no name server is
	if out, err := google(wrong, "UPDATE_FLAGS=--max-attempts 2 --retry-delay 1ms"); err == nil || !strings.Contains(out, hint) {
		t.Errorf("google98.sh with wrong flags: %v\n%s", err, out)
	}
	if out, err := google(wrong); err == nil || !strings.Contains(out, hint) {
		t.Errorf("google98.sh with wrong flags again: %v\n%s", err, out)
	}
	if out, err := google("ROUNDS=0"); err != nil || !strings.Contains(out, "the seeds are tried once more") {
		t.Errorf("google98.sh with corrected flags: %v\n%s", err, out)
	}
}

// TestPaperWaits: a crawl with one URL, to be tried again later, says what it waits for.
func TestPaperWaits(t *testing.T) {
	t.Parallel()
	cmd := paper(startWeb(t, 3, 1, 3), "google98.sh", filepath.Join(t.TempDir(), "crawl"), "")
	cmd.Env = append(cmd.Env, "RESOLVE_FLAGS=--server 127.0.0.1:1 --timeout 10ms --silent-ok", "UPDATE_FLAGS=--max-attempts 2 --retry-delay 1h")
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	defer func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	}()
	var all strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); all.WriteString(lines.Text() + "\n") {
		if strings.Contains(lines.Text(), ": waiting for http://h0.mweb.test") {
			return
		}
	}
	t.Errorf("it ended, and waited for nothing:\n%s", all.String())
}
