package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// mishap is something that befalls a crawl folder.
type mishap struct {
	name string
	do   func(t *testing.T, dir, path string)
}

var mishaps = []mishap{
	{"deleted", func(t *testing.T, _, path string) { must.OK(t, os.Remove(path)) }},
	{"flipped", func(t *testing.T, _, path string) {
		b, err := os.ReadFile(path)
		must.OK(t, err)
		if len(b) == 0 {
			t.Skip("an empty file")
		}
		b[len(b)*3/5] ^= 1
		must.OK(t, os.WriteFile(path, b, 0o666))
	}},
	{"longer", func(t *testing.T, _, path string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		must.OK(t, err)
		_, err = f.WriteString("bytes after the end")
		must.OK(t, err, f.Close())
	}},
	{"emptied", func(t *testing.T, _, path string) { must.OK(t, os.WriteFile(path, nil, 0o666)) }},
}

// pointers are mishaps of the files that say what counts, and of several files together.
var pointers = []mishap{
	{"CURRENT is one checkpoint old", func(t *testing.T, dir, _ string) { oldCurrent(t, dir, 1) }},
	{"CURRENT is two checkpoints old", func(t *testing.T, dir, _ string) { oldCurrent(t, dir, 2) }},
	{"all HEAD files and CURRENT are gone", func(t *testing.T, dir, _ string) {
		heads, _ := filepath.Glob(filepath.Join(dir, "*", "HEAD"))
		for _, path := range append(heads, filepath.Join(dir, "CURRENT")) {
			must.OK(t, os.Remove(path))
		}
	}},
	{"a HEAD and its newest manifest are gone", func(t *testing.T, dir, _ string) {
		manifests, _ := filepath.Glob(filepath.Join(dir, "frontier", "MANIFEST-*"))
		must.OK(t, os.Remove(filepath.Join(dir, "frontier", "HEAD")), os.Remove(slices.Max(manifests)))
	}},
	{"CURRENT and its checkpoint are gone", func(t *testing.T, dir, _ string) {
		list, _ := filepath.Glob(filepath.Join(dir, "checkpoints", "[0-9]*"))
		must.OK(t, os.Remove(filepath.Join(dir, "CURRENT")), os.Remove(slices.Max(list)))
	}},
	{"the checkpoints are gone", func(t *testing.T, dir, _ string) { must.OK(t, os.RemoveAll(filepath.Join(dir, "checkpoints"))) }},
	{"a store is gone", func(t *testing.T, dir, _ string) { must.OK(t, os.RemoveAll(filepath.Join(dir, "content"))) }},
	{"the rounds are gone", func(t *testing.T, dir, _ string) { must.OK(t, os.RemoveAll(filepath.Join(dir, "rounds"))) }},
	{"unpublished files", func(t *testing.T, dir, _ string) {
		for _, path := range []string{"rounds/r1/.links.arrows.zst.1-1-x.tmp", "urls/.HEAD.1-1-x.tmp", ".CURRENT.1-1-x.tmp", "checkpoints/.000009.1-1-x.tmp"} {
			must.OK(t, os.WriteFile(filepath.Join(dir, path), []byte("cut"), 0o666))
		}
	}},
}

func oldCurrent(t *testing.T, dir string, n int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("kept-%d", n)))
	must.OK(t, err, os.WriteFile(filepath.Join(dir, "CURRENT"), b, 0o666))
}

// brokenOff is a crawl of a small web with checkpoints behind it, killed while a batch was fetched, and its copy of the last checkpoint.
func brokenOff(t *testing.T, w *web) (c *crawl, remote string) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "crawl.toml")
	must.OK(t, os.WriteFile(conf, []byte("batch = 5\n\n[sets]\ncontent = \"bloom\"\nbloom_size = \"64K\"\n\n[extract]\nmodules = [\"tags\"]\nmodule_state = [\"tags\"]\n\n[fetch]\nwarc_size = \"20K\"\n"), 0o666))
	c = newCrawl(t, w, "CONFIG="+conf, "CONTACT=you@example.org")
	remote = filepath.Join(t.TempDir(), "copy")
	c.command(t, "mcrawl")
	for n := 3; n >= 0; n-- {
		output(t, "mcrawl", "run", "--quiet", "--rounds", strconv.Itoa(4-n), c.dir)
		b, err := os.ReadFile(filepath.Join(c.dir, "CURRENT"))
		must.OK(t, err, os.WriteFile(filepath.Join(c.dir, fmt.Sprintf("kept-%d", n)), b, 0o666))
	}
	output(t, "mckpt", "push", "--quiet", c.dir, remote)
	output(t, "mcrawl", "set", "--quiet", c.dir, "politeness.min_delay=2s")
	cmd := exec.Command(bin+"mcrawl", "run", c.dir)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	must.OK(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	for {
		journal, _ := filepath.Glob(filepath.Join(c.dir, "fetch", "JOURNAL-*"))
		kept, _ := filepath.Glob(filepath.Join(c.dir, "frontier", "*", "*-*.arrows.zst"))
		open, _ := filepath.Glob(filepath.Join(c.dir, "fetch", "*.open"))
		if len(kept) > 0 && (len(journal) > 0 || len(open) > 0) {
			break
		}
		select {
		case <-ended:
			t.Fatalf("the crawl ended before it was killed:\n%s", tail(said.Bytes()))
		case <-time.After(time.Millisecond):
		}
	}
	cmd.Process.Kill()
	<-ended
	for len(commandLines(c.dir)) > 0 {
		<-time.After(time.Millisecond)
	}
	output(t, "mcrawl", "set", "--quiet", c.dir, "politeness.min_delay=0s")
	return c, remote
}

var (
	hintCommand = regexp.MustCompile(`(?:^|: )((?:mckpt|mcrawl|mfrontier|rm|truncate|chmod|mv) (?:'[^']*'|\\.|[^;'\\])*)(?:; |$)`) // up to a semicolon of no word
	hintLine    = regexp.MustCompile(`(?m)^m[a-z]+: hint: (.*)$`)
)

// walk follows hints until the crawl ends, and returns them. whole is the folder as it was, for "put it back from a copy".
func (c *crawl) walk(t *testing.T, whole, remote string, damaged []string) (way []string) {
	t.Helper()
	dirs, told := 0, "" // told is the hint of a command that failed
	for range 12 {
		run := exec.Command("timeout", "120", bin+"mcrawl", "run", c.dir)
		out, err := run.CombinedOutput()
		said := string(out)
		if err == nil {
			verify := exec.Command("timeout", "120", bin+"mckpt", "verify", c.dir)
			if out, err = verify.CombinedOutput(); err == nil {
				return way
			}
			said = string(out)
		}
		if strings.Contains(said, "panic") || strings.Contains(said, "goroutine ") {
			t.Fatalf("after %q:\n%s", way, said)
		}
		hints := hintLine.FindAllStringSubmatch(said, -1)
		if len(hints) == 0 {
			t.Fatalf("after %q no hint:\n%s", way, tail(out))
		}
		hint := hints[len(hints)-1][1]
		step := ""
		for _, m := range hintCommand.FindAllStringSubmatch(hint, -1) {
			if command := m[1]; !slices.Contains(way, command) || strings.HasPrefix(command, "mckpt verify") && !slices.Contains(way[max(0, len(way)-1):], command) {
				step = command
				break
			}
		}
		switch {
		case strings.HasPrefix(step, "mckpt verify"):
			way = append(way, step)
			out, err := exec.Command("sh", "-c", "PATH="+bin+":$PATH; exec "+step).CombinedOutput()
			if err == nil {
				t.Fatalf("after %q verify finds nothing, but the crawl does not go on:\n%s", way, said)
			}
			if hints = hintLine.FindAllStringSubmatch(string(out), -1); len(hints) == 0 {
				t.Fatalf("after %q verify has no hint:\n%s", way, out)
			}
			hint = hints[len(hints)-1][1]
			step = untyped(hint, way)
			said += string(out)
		}
		if strings.Contains(step, "REMOTE NEW") {
			dirs++
			next := fmt.Sprintf("%s-%d", c.dir, dirs)
			step = strings.NewReplacer("REMOTE", remote, "NEW", fault.Quote(next)).Replace(step)
			c.dir = next
		}
		if step == "" && strings.Contains(hint, "the crawl goes on without") && !strings.Contains(hint, "needs ") && !slices.Contains(damaged, "rounds") && err != nil && strings.Contains(said, "problems: ") {
			return append(way, "without it")
		}
		if (strings.Contains(hint, "from a copy") || strings.Contains(hint, "a setting is")) && len(damaged) > 0 && step == "" {
			way = append(way, "a copy")
			for _, rel := range damaged {
				copyBack(t, filepath.Join(whole, rel), filepath.Join(c.dir, rel))
			}
			damaged = nil
			continue
		}
		if step == "" && slices.Contains(damaged, "crawl.toml") { // settings are a person's to correct
			way = append(way, "by hand")
			copyBack(t, filepath.Join(whole, "crawl.toml"), filepath.Join(c.dir, "crawl.toml"))
			damaged = nil
			continue
		}
		if step == "" { // the last command failed, and hinted at another
			step = untyped(told, way)
		}
		if step == "" {
			t.Fatalf("after %q the hint names no further command: %s\n%s", way, hint, said)
		}
		way = append(way, step)
		told = ""
		if out, err := exec.Command("sh", "-c", "PATH="+bin+":$PATH; exec "+step).CombinedOutput(); err != nil {
			hints := hintLine.FindAllStringSubmatch(string(out), -1)
			if len(hints) == 0 {
				t.Fatalf("%q of a hint: %v\n%s", step, err, out)
			}
			told = hints[len(hints)-1][1]
		}
	}
	t.Fatalf("hints without end: %q", way)
	return nil
}

// untyped returns the first command of a hint that is not yet on the way.
func untyped(hint string, way []string) string {
	for _, m := range hintCommand.FindAllStringSubmatch(hint, -1) {
		if !slices.Contains(way, m[1]) {
			return m[1]
		}
	}
	return ""
}

func copyBack(t *testing.T, from, to string) {
	t.Helper()
	steps := [][2]string{{from, to}}
	if info, err := os.Stat(from); err == nil && !info.IsDir() {
		os.RemoveAll(to)
	} else if err == nil { // what was made since stays, also in the place of what the copy has
		must.OK(t, os.MkdirAll(to, 0o777))
		since := t.TempDir()
		steps = [][2]string{{to + "/.", since}, {from + "/.", to}, {since + "/.", to}}
	}
	for _, s := range steps {
		if out, err := exec.Command("cp", "-Rp", s[0], s[1]).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// TestHints makes a crawl that has every kind of file and was killed, damages one file in each way, and then does what the hints say, word
// by word, until the crawl has ended. It must hold what the web has. The files that nobody can make anew are put back from a copy where the hint
// asks for one.
func TestHints(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 5, 2, 8)
	c, remote := brokenOff(t, w)
	want := w.oracle(t)
	if said, code := verify(t, c.dir); code != 0 {
		t.Fatalf("the crawl is not whole to begin with:\n%s", said)
	}
	type try struct {
		mishap
		path string
	}
	var tries []try
	for _, p := range pointers {
		tries = append(tries, try{p, ""})
	}
	for i, k := range kinds {
		matches, _ := filepath.Glob(filepath.Join(c.dir, k.pattern))
		if len(matches) == 0 {
			continue
		}
		slices.Sort(matches)
		rel, err := filepath.Rel(c.dir, matches[(k.which+len(matches))%len(matches)])
		must.OK(t, err)
		for j, m := range mishaps {
			if !long && (i%2 > 0 || j != i/2%len(mishaps)) {
				continue
			}
			tries = append(tries, try{m, rel})
		}
	}
	var copies atomic.Int32
	t.Cleanup(func() { t.Logf("%d of %d ways used a copy", copies.Load(), len(tries)) })
	for _, try := range tries {
		t.Run(strings.TrimSpace(try.path+" "+try.name), func(t *testing.T) {
			t.Parallel()
			mine := &crawl{dir: filepath.Join(t.TempDir(), "it's a crawl"), web: w, env: c.env} // a shell needs quotes
			copyBack(t, c.dir, mine.dir)
			try.do(t, mine.dir, filepath.Join(mine.dir, try.path))
			damaged := []string{try.path}
			switch {
			case try.path != "":
			case strings.HasPrefix(try.name, "the checkpoints"):
				damaged = []string{"checkpoints"}
			case strings.HasPrefix(try.name, "a store"):
				damaged = []string{"content"}
			case strings.HasPrefix(try.name, "the rounds"):
				damaged = []string{"rounds"}
			default:
				damaged = nil
			}
			way := mine.walk(t, c.dir, remote, damaged)
			if slices.Contains(way, "a copy") {
				copies.Add(1)
			}
			t.Logf("%s", strconv.Quote(strings.Join(way, "; ")))
			if got := mine.found(t); got != want {
				t.Errorf("by way of %q the crawl differs from the oracle:\n%s", way, diff(want, got))
			}
		})
	}
}
