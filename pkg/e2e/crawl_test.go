// Package e2e holds tests of whole crawls: commands, pipes and make,
// against mweb and its oracle. The long forms run with MERCATOR_LONG=1 (make
// test-long).
package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
	"mercator/pkg/cli"
	"mercator/pkg/command/mcat"
	"mercator/pkg/command/mckpt"
	"mercator/pkg/command/mextract"
	"mercator/pkg/command/mfetch"
	"mercator/pkg/command/mfocus"
	"mercator/pkg/command/mfpset"
	"mercator/pkg/command/mfrontier"
	"mercator/pkg/command/mmerge"
	"mercator/pkg/command/mrender"
	"mercator/pkg/command/mresolve"
	"mercator/pkg/command/msearch"
	"mercator/pkg/command/murlset"
	"mercator/pkg/command/mweb"
	"mercator/pkg/fetch"
)

var (
	bin  string // folder of the commands, with a trailing slash
	long = os.Getenv("MERCATOR_LONG") != ""
)

func TestMain(m *testing.M) {
	if os.Getenv("MERCATOR_EVENT") != "" {
		os.Exit(ownStage())
	}
	os.Exit(run(m))
}

// run takes the commands from the folder MERCATOR_BIN, as make does, or builds them. Tests run in the folder of the pipelines. They wait for webs and
// kills: three a processor run at a time, where -parallel is not given.
func run(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := os.Chdir("../../pipelines"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if bin = os.Getenv("MERCATOR_BIN"); bin != "" {
		bin += "/"
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "mercator-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir + "/"
	build := exec.Command("go", "build", "-o", bin, "../cmd/...")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "go build:", err)
		return 1
	}
	return m.Run()
}

// web is a running mweb.
type web struct {
	flags []string // that describe it
	port  int
	dns   string
	seeds string // file
	log   string // file of the web's requests: start, end, address, host, target, status
}

// startWeb serves a web until the test ends.
func startWeb(t *testing.T, seed, hosts, pages int, more ...string) *web {
	t.Helper()
	w := &web{flags: []string{"--seed", strconv.Itoa(seed), "--hosts", strconv.Itoa(hosts), "--pages", strconv.Itoa(pages)}}
	w.flags = append(w.flags, more...)
	w.log = filepath.Join(t.TempDir(), "requests.tsv")
	cmd := exec.Command(bin+"mweb", append([]string{"serve", "--until-stdin-closes", "--log", w.log}, w.flags...)...)
	cmd.Stderr = os.Stderr
	hold, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		hold.Close()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	must.OK(t, err)
	var ready struct {
		Port  int
		DNS   string
		Seeds []string
	}
	must.OK(t, json.Unmarshal(line, &ready))
	go io.Copy(io.Discard, out)
	w.port, w.dns = ready.Port, ready.DNS
	w.seeds = filepath.Join(t.TempDir(), "seeds.txt")
	must.OK(t, os.WriteFile(w.seeds, []byte(strings.Join(ready.Seeds, "\n")+"\n"), 0o666))
	return w
}

// oracle returns what a correct crawl finds, as sorted lines of URL, outcome, status.
func (w *web) oracle(t *testing.T) string {
	t.Helper()
	return sorted(output(t, "mweb", append([]string{"oracle", "--port", strconv.Itoa(w.port)}, w.flags...)...))
}

func sorted(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// values are the commands as Go values: all but mcrawl.
var values = []cli.Command{mcat.Command, mckpt.Command, mextract.Command, mfetch.Command, mfocus.Command, mfpset.Command, mfrontier.Command, mmerge.Command, mrender.Command, mresolve.Command,
	msearch.Command, murlset.Command, mweb.Command}

// here runs a command in this process, where it is one of values: the start of a process takes longer than most of them.
func here(t *testing.T, in io.Reader, name string, args ...string) (out, said string, code int) {
	t.Helper()
	var stdout, stderr strings.Builder
	if i := slices.IndexFunc(values, func(c cli.Command) bool { return c.Name == name }); i >= 0 {
		say := func(line string) { fmt.Fprintln(&stderr, line) }
		if failed := values[i].Call(t.Context(), cli.Call{Args: args, In: in, Out: &stdout, Warn: say}); failed != nil {
			code = failed.Code
			stderr.WriteString(strings.Join(append(failed.Lines, ""), "\n"))
		}
		return stdout.String(), stderr.String(), code
	}
	cmd := exec.Command(bin+name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// output runs a command that must succeed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, said, code := here(t, nil, name, args...)
	if code != 0 {
		t.Fatalf("%s %s: exit code %d\n%s", name, strings.Join(args, " "), code, said)
	}
	return out
}

// crawl is one crawl folder and how it is driven.
type crawl struct {
	dir string
	web *web
	env []string
}

func newCrawl(t *testing.T, w *web, env ...string) *crawl {
	return &crawl{dir: filepath.Join(t.TempDir(), "crawl"), web: w, env: env}
}

// drivers are the two ways to run a crawl.
var drivers = map[string][]string{
	"mercator.mk": {"make", "--no-print-directory", "-f", "mercator.mk"},
	"mcrawl":      nil, // see crawl.mcrawl
}

// requests are the lines of the web's log so far.
func (w *web) requests(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(w.log)
	must.OK(t, err)
	return slices.Collect(strings.Lines(string(b)))
}

// flight is a stretch of the web's log: what was asked last before a kill, and
// until all had ended that the kill made end.
type flight struct{ from, to int }

// again counts the page requests that the web has seen beyond one for each URL,
// and lists those with a request before that lies in no flight.
func (w *web) again(t *testing.T, flights []flight) (n int, unexplained []string) {
	t.Helper()
	last := map[string]int{}
	for i, line := range w.requests(t) {
		f := strings.Split(line, "\t")
		if len(f) != 6 {
			t.Fatalf("log line %q", line)
		}
		url := f[3] + f[4]
		if f[4] == `"/robots.txt"` {
			continue // asked for again when a round did not commit its answer
		}
		if before, ok := last[url]; ok {
			n++
			if !slices.ContainsFunc(flights, func(f flight) bool { return f.from <= before && before < f.to }) {
				unexplained = append(unexplained, url)
			}
		}
		last[url] = i
	}
	return n, unexplained
}

// command is the driver's command line, with everything polite turned off.
func (c *crawl) command(t *testing.T, driver string, env ...string) *exec.Cmd {
	t.Helper()
	own := []string{
		"BIN=" + bin, "CRAWL=" + c.dir, "SEEDS=" + c.web.seeds,
		"RESOLVE_FLAGS=--server " + c.web.dns,
		"UPDATE_FLAGS=--max-attempts 1 --retry-delay 1s", // mweb's errors are for good; hosts that fail are left alone for a second
		"POLITENESS_FLAGS=--min-delay 0 --delay-factor 0 --addr-delay 0", "FETCH_FLAGS=--allow-net 127.0.0.0/8"}
	own = append(append(own, c.env...), env...)
	if driver == "mcrawl" {
		return c.mcrawl(t, own)
	}
	words := drivers[driver]
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), own...)
	return cmd
}

// finish runs the driver to the end, which must be a good one.
func (c *crawl) finish(t *testing.T, driver string, env ...string) {
	t.Helper()
	cmd := c.command(t, driver, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", driver, err, tail(out))
	}
}

func tail(b []byte) []byte { return b[max(0, len(b)-4000):] }

// outcomes are the files of what became of each round's batch: of a walk, which has
// no content-seen test, as they were fetched.
func (c *crawl) outcomes(t *testing.T) []string {
	t.Helper()
	name := "marked.arrows.zst"
	if strings.Contains(output(t, "mfrontier", "stat", "--json", c.dir+"/frontier"), `"policy": "walk"`) {
		name = "fetched.arrows.zst"
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "rounds", "r*", name))
	if err != nil || len(files) == 0 {
		t.Fatalf("no finished rounds in %s: %v", c.dir, err)
	}
	return files
}

// found returns what the crawl fetched, as the oracle prints it. A URL with two
// outcomes is two lines, so equality means exactly one outcome each. What was put off has none yet. A page that was asked again because of cookies
// has the outcome of its last contact.
func (c *crawl) found(t *testing.T) string {
	t.Helper()
	out := output(t, "mcat", append([]string{"--format", "tsv", "--columns", "role,url,outcome,status,fetch_time"}, c.outcomes(t)...)...)
	var lines []string
	again := map[string][]string{} // by URL: its last contact, of those that cookies caused
	var pages [][]string
	for line := range strings.Lines(out) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case row[2] == "deferred":
		case row[0] == "page":
			pages = append(pages, row)
		case row[0] == "again" && (again[row[1]] == nil || row[4] >= again[row[1]][4]):
			again[row[1]] = row
		}
	}
	for _, row := range pages {
		if last := again[row[1]]; last != nil {
			row = last
		}
		lines = append(lines, strings.Join(row[1:4], "\t"))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// check compares with the oracle and verifies the ledger.
func (c *crawl) check(t *testing.T) {
	t.Helper()
	if got, want := c.found(t), c.web.oracle(t); got != want {
		t.Errorf("the crawl differs from the oracle:\n%s", diff(want, got))
	}
	output(t, "mckpt", "verify", "--quiet", c.dir)
	output(t, "mfrontier", "check", c.dir+"/frontier")
	output(t, "mfrontier", "stat", "--empty", c.dir+"/frontier")
}

// diff lists the first lines that only one side has.
func diff(want, got string) string {
	in := func(s string) map[string]int {
		m := map[string]int{}
		for l := range strings.Lines(s) {
			m[l]++
		}
		return m
	}
	w, g := in(want), in(got)
	var b strings.Builder
	n := 0
	for l := range strings.Lines(want) {
		if g[l] != w[l] && n < 10 {
			n++
			fmt.Fprintf(&b, "%d wanted, %d found: %s", w[l], g[l], l)
		}
	}
	for l := range strings.Lines(got) {
		if w[l] == 0 && n < 20 {
			n++
			fmt.Fprintf(&b, "not wanted: %s", l)
		}
	}
	return b.String()
}

func TestCrawlEqualsOracle(t *testing.T) {
	t.Parallel()
	seeds, pages := []int{1}, 300
	if long {
		seeds, pages = []int{1, 2, 3}, 1000
	}
	for _, seed := range seeds {
		w := startWeb(t, seed, 12, pages)
		for _, connections := range []int{1, 2, 64} {
			for driver := range drivers {
				if !long && (driver == "mercator.mk") != (connections == 2) {
					continue
				}
				t.Run(fmt.Sprintf("seed %d/%d connections/%s", seed, connections, driver), func(t *testing.T) {
					t.Parallel()
					c := newCrawl(t, w)
					c.finish(t, driver, "POLITENESS_FLAGS=--min-delay 0 --delay-factor 0 --addr-delay 0", fmt.Sprintf("FETCH_FLAGS=--connections %d --allow-net 127.0.0.0/8", connections))
					c.check(t)
				})
			}
		}
	}
}

// menuRules is a file with those shipped rules that end menus of pages without end: the oracle knows of no other.
func menuRules(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../pkg/web/filter/default.rules")
	must.OK(t, err)
	rules := ""
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "deny repeated-menu:") || strings.HasPrefix(line, "deny repeated-segments:") {
			rules += line
		}
	}
	name := filepath.Join(t.TempDir(), "menus.rules")
	must.OK(t, os.WriteFile(name, []byte(rules), 0o666))
	return name
}

// TestRoughHosts: hosts that are slow, dead or hostile, some addresses of which are dead, with redirects and menus without end, and with pages
// behind cookies, have the outcomes that the oracle tells, and all others theirs.
func TestRoughHosts(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 13, 24, 30, "--rough")
	oracle := w.oracle(t)
	for _, part := range []string{"\ttimeout\t", "\tdisconnected\t", "\tprotocol-error\t", "\trobots-unreachable\t",
		"/endless/location/20\tfetched\t302", "/endless/meta/20\tfetched\t200", "/endless/field/20\tfetched\t200",
		"/menu/about/about/news/\tfetched\t200", "/wall/self/3\tfetched\t200", "/wall/via/3\tfetched\t200", "/wall/reload/3\tfetched\t200"} {
		if !strings.Contains(oracle, part) {
			t.Errorf("the oracle knows no URL with %q", part)
		}
	}
	if strings.Contains(oracle, "/21\tfetched") || strings.Contains(oracle, "/menu/about/news/docs/") {
		t.Error("the oracle goes on where a crawl ends")
	}
	c := newCrawl(t, w)
	c.finish(t, "mcrawl", "POLITENESS_FLAGS=--min-delay 0 --delay-factor 0 --addr-delay 0", "FETCH_FLAGS=--allow-net 127.0.0.0/8,::1/128 --timeout 2s", "EXTRACT_FLAGS=--filter "+menuRules(t))
	c.check(t)
}

func TestBatchSizeMakesNoDifference(t *testing.T) {
	t.Parallel()
	batches := []string{"7", "1000000"}
	pages := 20
	if long {
		batches, pages = []string{"1", "7", "1000000"}, 80
	}
	w := startWeb(t, 3, 4, pages)
	for _, batch := range batches {
		t.Run(batch, func(t *testing.T) {
			t.Parallel()
			c := newCrawl(t, w, "BATCH="+batch)
			c.finish(t, "mcrawl")
			c.check(t)
		})
	}
}

func TestRobotsEngines(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 4, 4, 40)
	c := newCrawl(t, w)
	c.finish(t, "mcrawl", "POLITENESS_FLAGS=--min-delay 0 --delay-factor 0 --addr-delay 0", "FETCH_FLAGS=--robots-engine temoto --allow-net 127.0.0.0/8")
	// The engines differ on wildcards and ties; both must finish with a balanced ledger.
	output(t, "mckpt", "verify", "--quiet", c.dir)
	output(t, "mfrontier", "stat", "--empty", c.dir+"/frontier")
}

// process is a running command of ours.
type process struct {
	pid  int
	name string
}

// children lists the commands of ours among a driver and all that it has started.
func children(driver int) (all []process) {
	procs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	parents, names := map[int]int{}, map[int]string{}
	for _, p := range procs {
		b, err := os.ReadFile(p)
		if err != nil {
			continue // it has ended
		}
		// pid (comm) state ppid …; comm may hold anything but the last ")".
		open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
		if open < 0 || end < open {
			continue
		}
		f := strings.Fields(string(b[end+1:]))
		if len(f) < 2 || f[0] == "Z" {
			continue
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:open])))
		parents[pid], _ = strconv.Atoi(f[1])
		names[pid] = string(b[open+1 : end])
	}
	for pid, name := range names {
		root := pid
		for root > 1 && root != driver {
			root = parents[root]
		}
		if root == driver && strings.HasPrefix(name, "m") && name != "make" {
			all = append(all, process{pid, name})
		}
	}
	slices.SortFunc(all, func(a, b process) int { return a.pid - b.pid })
	return all
}

// TestKill ends random commands at random moments with SIGKILL, and runs the
// same line again each time. In the end every URL has exactly one outcome, and
// the server was asked twice only for what was in flight at a kill.
func TestKill(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		needs.Skip(t, "needs /proc to find the commands of a pipe")
	}
	kills, pages := 4, 80
	if long {
		kills, pages = 12, 1000
	}
	for driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(20, 26))
			// A crawl may end before its kills have come, or none of them hit mfetch: then
			// another one follows.
			done, ended := 0, 0
			for crawls := 0; done < kills || ended == 0; crawls++ {
				if crawls == 20 {
					t.Fatalf("%d kills in %d crawls, %d of them ended mfetch", done, crawls, ended)
				}
				d, e := killedCrawl(t, rng, driver, kills, pages)
				done, ended = done+d, ended+e
			}
		})
	}
}

// killedCrawl crawls a web to the end with so many kills or, if it ends sooner,
// fewer. It returns their number and how many of them ended mfetch.
func killedCrawl(t *testing.T, rng *rand.Rand, driver string, kills, pages int, env ...string) (done, ended int) {
	// In flight at a kill: one request a connection, and what had ended but was not
	// yet in the archive.
	const connections = 8
	const inFlight = connections + fetch.Unwritten
	w := startWeb(t, 2, 8, pages)
	c := newCrawl(t, w, append(env, "BATCH="+strconv.Itoa(max(pages/5, 40)))...)
	// The kills are spread over the first six tenths of the requests, however fast
	// the machine is; half of them come up to 300 ms later: other stages run then.
	step := strings.Count(w.oracle(t), "\n") * 6 / 10 / kills
	due, after := time.Time{}, 1+rng.IntN(step)
	var flights []flight
	for whole := false; done < kills && !whole; {
		cmd := c.command(t, driver, "POLITENESS_FLAGS=--min-delay 2ms --delay-factor 0 --addr-delay 0", fmt.Sprintf("FETCH_FLAGS=--connections %d --allow-net 127.0.0.0/8", connections))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		must.OK(t, cmd.Start())
		exited := make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
		first := len(flights)
		// A kill may come too late to matter: then the driver goes on, and so do we.
		running := true
		for running {
			select {
			case err := <-exited:
				running, whole = false, err == nil
			case <-time.After(5 * time.Millisecond):
			}
			switch {
			case !running || done == kills:
			case due.IsZero():
				if len(w.requests(t)) >= after {
					due = time.Now().Add(time.Duration(max(0, rng.IntN(600)-300)) * time.Millisecond)
				}
			case time.Now().After(due):
				all := children(cmd.Process.Pid)
				if len(all) == 0 {
					break
				}
				victim := all[rng.IntN(len(all))]
				if syscall.Kill(victim.pid, syscall.SIGKILL) != nil {
					break
				}
				done++
				due, after = time.Time{}, done*step+1+rng.IntN(step)
				if driver == "mcrawl" || victim.name == "mfetch" { // in a pipe mfetch ends with its reader
					flights = append(flights, flight{from: len(w.requests(t)) - inFlight})
				}
			}
		}
		for i := range flights[first:] {
			// The web may write its line of a request after its client has ended.
			flights[first+i].to = len(w.requests(t)) + connections
		}
		if bytes.Contains(out.Bytes(), []byte("panic")) {
			t.Fatalf("%s", tail(out.Bytes()))
		}
	}
	c.finish(t, driver)
	c.check(t)
	again, unexplained := w.again(t, flights)
	t.Logf("%d kills, %d of them ended mfetch; %d URLs asked for again", done, len(flights), again)
	if again > len(flights)*inFlight || len(unexplained) > 0 {
		t.Errorf("%d URLs were asked for again, want at most %d; not in flight at a kill: %q", again, len(flights)*inFlight, unexplained)
	}
	return done, len(flights)
}

// wrap makes a folder of commands in which one is replaced by a shell script.
func wrap(t *testing.T, command, script string, more ...string) string {
	t.Helper()
	scripts := map[string]string{command: script}
	for i := 0; i < len(more); i += 2 {
		scripts[more[i]] = more[i+1]
	}
	dir := t.TempDir()
	entries, err := os.ReadDir(bin)
	must.OK(t, err)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if script, own := scripts[e.Name()]; own {
			err = os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o777)
		} else {
			err = os.Symlink(bin+e.Name(), path)
		}
		must.OK(t, err)
	}
	return dir + "/"
}

// TestStageDies lets each stage of a round die at three places: before its
// first byte, between its commit and its trailer, and after its last byte. The
// same pipe run again ends in the same state: after the round that follows, and
// in the long form at the crawl's end.
func TestStageDies(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 5, 4, 20)
	until := "ROUNDS=2"
	if long {
		until = "ROUNDS=0"
	}
	begun := newCrawl(t, w) // round 1 of each
	begun.finish(t, "mcrawl", "ROUNDS=1")
	reference := newCrawl(t, w)
	reference.finish(t, "mcrawl", until)
	want := reference.found(t)
	blocked := filepath.Join(t.TempDir(), "blocked")
	must.OK(t, os.MkdirAll(filepath.Join(blocked, "full"), 0o777))
	for _, s := range []struct{ command, verb string }{
		{"mfrontier", "next"}, {"mresolve", ""}, {"mfetch", ""}, {"mfpset", "mark"}, {"mextract", ""}, {"murlset", "new"}, {"mfrontier", "update"},
	} {
		real := bin + s.command
		only := "" // a script that applies to this verb alone
		if s.verb != "" {
			only = fmt.Sprintf("[ \"$1\" = %s ] || exec %s \"$@\"\n", s.verb, real)
		}
		deaths := map[string]string{
			"before its first byte": only + "kill -9 $$\n",
			"after its last byte":   only + real + " \"$@\"\nkill -9 $$\n",
		}
		if s.verb != "update" {
			// Copies are published after the commit and before the trailer: one that
			// cannot be, since a full folder has its name, is a death between the two.
			deaths["between commit and trailer"] = only + "exec " + real + " \"$@\" --copy " + blocked + "\n"
		}
		for place, script := range deaths {
			t.Run(s.command+" "+s.verb+" "+place, func(t *testing.T) {
				t.Parallel()
				c := newCrawl(t, w)
				must.OK(t, os.CopyFS(c.dir, os.DirFS(begun.dir)))
				cmd := c.command(t, "mcrawl", "ROUNDS=2", "BIN="+wrap(t, s.command, script))
				out, err := cmd.CombinedOutput()
				// A stage that died after its last byte had done its work, and the rest of
				// the pipe may say so.
				if err == nil && !strings.HasPrefix(place, "after") {
					t.Fatalf("the pipe reported success\n%s", tail(out))
				}
				c.finish(t, "mcrawl", until)
				if got := c.found(t); got != want {
					t.Errorf("%s", diff(want, got))
				}
				output(t, "mckpt", "verify", "--quiet", c.dir)
				output(t, "mfrontier", "check", c.dir+"/frontier")
				if long {
					c.check(t)
				}
			})
		}
	}
}

// TestRoundOfAnEmptyFrontier: one more round than there is work for, as one does
// by hand, can be closed like any other.
func TestRoundOfAnEmptyFrontier(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 8, 2, 10)
	c := newCrawl(t, w)
	c.finish(t, "mcrawl")
	want := c.found(t)
	n := strings.TrimSpace(output(t, "mckpt", "show", "--next-round", c.dir))
	pipe := fmt.Sprintf(`set -e; cd %s; d=rounds/r%s
		%[3]smfrontier next frontier --txn r%[2]s | %[3]smresolve dns --server %[4]s --txn r%[2]s | %[3]smfetch ./fetch --txn r%[2]s |
		%[3]smfpset mark content --txn r%[2]s --copy $d/marked.arrows.zst | %[3]smextract --warc ./fetch --txn r%[2]s --copy $d/links.arrows.zst |
		%[3]smurlset new urls --txn r%[2]s | %[3]smfrontier update frontier --txn r%[2]s --outcomes $d/marked.arrows.zst --links $d/links.arrows.zst
		%[3]smckpt commit . --txn r%[2]s`, c.dir, n, bin, w.dns)
	for range 2 { // a closed round repeated ends well too
		if out, err := exec.Command("sh", "-c", pipe).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, tail(out))
		}
	}
	c.check(t)
	if got := c.found(t); got != want {
		t.Error(diff(want, got))
	}
}

func TestRestoreAndAbandon(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 6, 4, 60)
	c := newCrawl(t, w, "BATCH=25")
	c.finish(t, "mcrawl")
	c.check(t)
	want := c.found(t)
	last := len(c.outcomes(t))
	steps := []int{last / 2, last}
	if long {
		steps = nil
		for i := 1; i <= last+1; i++ {
			steps = append(steps, i)
		}
		steps = append(steps, last/2, last/2, 1, last)
	}
	for i, n := range steps {
		if i == len(steps)-1 { // as far as the crawl had come at first
			output(t, "mckpt", "restore", c.dir, strconv.Itoa(last+1))
			c.finish(t, "mcrawl")
			output(t, "mckpt", "verify", "--quiet", c.dir)
			if got := c.found(t); got != want {
				t.Errorf("the files of the first rounds did not come back: %s", diff(want, got))
			}
		}
		output(t, "mckpt", "restore", c.dir, strconv.Itoa(n))
		driver := []string{"mcrawl", "mercator.mk"}[i%2]
		c.finish(t, driver)
		c.check(t)
		if got := c.found(t); got != want {
			t.Errorf("after going back to checkpoint %d: %s", n, diff(want, got))
		}
	}
}

// state returns what the stores know, as text: the sets, the frontier and its counts.
func (c *crawl) state(t *testing.T) string {
	t.Helper()
	return output(t, "murlset", "dump", c.dir+"/urls") + output(t, "mfpset", "dump", c.dir+"/content") +
		output(t, "mfrontier", "export", "--text", c.dir+"/frontier") + output(t, "mfrontier", "stat", "--json", "--detail", c.dir+"/frontier")
}

// TestAbandonAtEveryStage stops a round after each of its stages, abandons it,
// and goes on.
func TestAbandonAtEveryStage(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 7, 4, 60)
	c := newCrawl(t, w, "BATCH=20")
	c.finish(t, "mercator.mk", "ROUNDS=1")
	before := c.state(t)
	for _, s := range []string{"mresolve", "mfetch", "mfpset", "mextract", "murlset", "mfrontier update", "mckpt"} {
		command, verb, _ := strings.Cut(s, " ")
		script := "kill -9 $$\n"
		switch {
		case verb != "":
			script = fmt.Sprintf("[ \"$1\" = %s ] || exec %s \"$@\"\n%s", verb, bin+command, script)
		case command == "mckpt":
			script = fmt.Sprintf("[ \"$1\" = commit ] || exec %s \"$@\"\n%s", bin+command, script)
		}
		if out, err := c.command(t, "mercator.mk", "ROUNDS=2", "BIN="+wrap(t, command, script)).CombinedOutput(); err == nil {
			t.Fatalf("%s did not die\n%s", s, tail(out))
		}
		output(t, "mckpt", "abandon", c.dir)
		output(t, "mckpt", "verify", "--quiet", c.dir)
		if after := c.state(t); after != before {
			t.Errorf("abandoning after %s left a trace:\n%s", s, diff(before, after))
		}
	}
	c.finish(t, "mercator.mk")
	c.check(t)
}

// TestHard crawls a web that pushes back: 429 with Retry-After, slow hosts,
// Crawl-delay, pages that change. What it finds depends on time, so that only what
// always holds is checked: one outcome a URL and round, a balanced ledger, no contact
// that came early.
func TestHard(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 10, 20, 120, "--hard") // with fewer hosts none says 429
	c := newCrawl(t, w, "BATCH=60")
	outcomes, asked := 0, 0
	// A slow machine needs more rounds to be told that it is too fast.
	for rounds := 3; rounds <= 12 && (outcomes < 50 || asked == 0); rounds++ {
		c.finish(t, "mercator.mk", fmt.Sprintf("ROUNDS=%d", rounds), "POLITENESS_FLAGS=--min-delay 5ms --delay-factor 1 --addr-delay 5ms", "FETCH_FLAGS=--allow-net 127.0.0.0/8 --timeout 2s --deadline 2s")
		outcomes, asked = 0, 0
		for _, file := range c.outcomes(t) {
			seen := map[string]bool{}
			for line := range strings.Lines(output(t, "mcat", "--format", "tsv", "--columns", "role,url,status", file)) {
				if url, ok := strings.CutPrefix(line, "page\t"); ok {
					url, status, _ := strings.Cut(strings.TrimSpace(url), "\t")
					if status == "429" {
						asked++
					}
					if seen[url] {
						t.Errorf("%s: two outcomes of %s", file, url)
					}
					seen[url] = true
					outcomes++
				}
			}
		}
	}
	t.Logf("%d outcomes, %d of status 429", outcomes, asked)
	if outcomes < 50 || asked == 0 {
		t.Errorf("%d outcomes, %d of status 429: the web is too easy to say something", outcomes, asked)
	}
	output(t, "mfetch", append([]string{"audit", "--min-delay", "5ms", "--addr-delay", "5ms"}, c.outcomes(t)...)...)
	output(t, "mckpt", "verify", "--quiet", c.dir)
	output(t, "mfrontier", "check", c.dir+"/frontier")
}
