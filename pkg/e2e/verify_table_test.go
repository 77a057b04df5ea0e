package e2e

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
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

var update = flag.Bool("update", false, "write the table of pkg/crawl/VERIFY.md")

// kinds of file of a crawl folder: the pattern of their paths, and which of those it matches is
// damaged, counted from the first, or from the last if it is below 0.
var kinds = []struct {
	name, pattern string
	which         int
}{
	{"`CURRENT`", "CURRENT", 0},
	{"`crawl.toml`", "crawl.toml", 0},
	{"`LOCK`", "urls/LOCK", 0},
	{"`checkpoints/N`, the current", "checkpoints/[0-9]*", -1},
	{"`checkpoints/N`, an earlier", "checkpoints/[0-9]*", 0},
	{"`HEAD`", "*/HEAD", -1},
	{"`JOURNAL-G` of an open round", "fetch/JOURNAL-*", 0},
	{"`MANIFEST-1`", "urls/MANIFEST-000001", 0},
	{"`MANIFEST-G` of an earlier checkpoint", "urls/MANIFEST-*", 1},
	{"`MANIFEST-G`, the newest", "frontier/MANIFEST-*", -1},
	{"names of closed rounds", "*/names/*.names", 0},
	{"kept output of the open round", "frontier/*/*-*.arrows.zst", -1},
	{"`urls`: run", "urls/runs/*.fps", 0},
	{"`content`: Bloom filter", "content/*/*.bloom", 0},
	{"`frontier`: queues, hosts, domains", "frontier/*/*.run", -1},
	{"`dns`: cache", "dns/*/*.run", 0},
	{"`fetch`: WARC file", "fetch/*.warc.gz", 0},
	{"`fetch`: WARC file of an open round", "fetch/*.warc.gz.open", 0},
	{"`fetch`: robots rules", "fetch/robots-*", 0},
	{"`fetch`: contact times", "fetch/contacts-*", -1},
	{"`fetch`: payloads", "fetch/payloads/*.run", 0},
	{"`fetch/BATCH`", "fetch/BATCH", 0},
	{"`modules/NAME`: state", "modules/*/*/*", 0},
	{"`rounds/rN/*.arrows.zst`", "rounds/r1/*.arrows.zst", 0},
	{"`rounds/rN/flags`", "rounds/r*/flags", 0},
	{"`rounds/rN/politeness.*`", "rounds/r*/politeness.*", 0},
	{"`rounds/rN/epoch.E`", "rounds/r*/epoch.*", 0},
	{"`rounds/rN/times.json`", "rounds/r*/times.json", 0},
}

// damages do something to the file at path; sibling is another of its kind. false: nothing to be done.
var damages = []struct {
	name string
	do   func(path, sibling string, whole []byte) (done bool, err error)
}{
	{"cut", func(path, _ string, whole []byte) (bool, error) {
		return len(whole) > 0, os.WriteFile(path, whole[:len(whole)*2/3], 0o666)
	}},
	{"flipped", func(path, _ string, whole []byte) (bool, error) {
		if len(whole) == 0 {
			return false, nil
		}
		b := bytes.Clone(whole)
		b[len(b)*3/5] ^= 1
		return true, os.WriteFile(path, b, 0o666)
	}},
	{"exchanged", func(path, sibling string, whole []byte) (bool, error) {
		if sibling == "" {
			return false, nil
		}
		b, err := os.ReadFile(sibling)
		if err != nil || bytes.Equal(b, whole) {
			return false, err
		}
		return true, errors.Join(os.WriteFile(path, b, 0o666), os.WriteFile(sibling, whole, 0o666))
	}},
	{"deleted", func(path, _ string, _ []byte) (bool, error) { return true, os.Remove(path) }},
	{"emptied", func(path, _ string, whole []byte) (bool, error) {
		return len(whole) > 0, os.WriteFile(path, nil, 0o666)
	}},
	{"a FIFO", func(path, _ string, _ []byte) (bool, error) {
		return true, errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o666))
	}},
}

// sibling is another file of the kind of path that is not the same file, "" if there is none.
func sibling(path string, matches []string) string {
	for _, m := range matches {
		if m != path {
			return m
		}
	}
	// Another store's of the same name.
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(path)), "*", filepath.Base(path)))
	for _, m := range others {
		if m != path {
			return m
		}
	}
	return ""
}

// TestVerifyTable makes a crawl that has every kind of file, damages one of each in every way,
// and holds the table of pkg/crawl/VERIFY.md to what mckpt verify says.
func TestVerifyTable(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 5, 4, 60)
	conf := filepath.Join(t.TempDir(), "crawl.toml")
	must.OK(t, os.WriteFile(conf, []byte("batch = 20\n\n[sets]\ncontent = \"bloom\"\nbloom_size = \"64K\"\n\n[extract]\nmodules = [\"tags\"]\nmodule_state = [\"tags\"]\n"), 0o666))
	c := newCrawl(t, w, "INIT_FLAGS=--config "+conf, "BATCH=20")
	cmd := c.command(t, "mercator.mk", "ROUNDS=3", "POLITENESS_FLAGS=--min-delay 0s --delay-factor 0 --addr-delay 0s", "FETCH_FLAGS=--dedup --warc-size 20K --allow-net 127.0.0.0/8 --contact you@example.org")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, tail(out))
	}
	for i, round := range []string{"r1", "r2"} { // mcrawl writes these
		must.OK(t, os.WriteFile(filepath.Join(c.dir, "rounds", round, "times.json"), fmt.Appendf(nil, `{"version":1,"commands":[{"command":"mfetch","began":"2026-01-01T00:00:0%dZ"}]}`, i), 0o666))
	}
	// An open round after its mfetch died.
	batch := filepath.Join(t.TempDir(), "batch.arrows.zst")
	output(t, "mfrontier", "next", "--quiet", c.dir+"/frontier", "--txn", "r4", "-o", batch)
	fetch := exec.Command(bin+"mfetch", c.dir+"/fetch", "--txn", "r4", "--dedup", "--warc-size", "20K", "--server", w.dns, "--allow-net", "127.0.0.0/8",
		"--contact", "you@example.org", "--min-delay", "2s", batch)
	must.OK(t, fetch.Start())
	for { // the first contact waits for the delay, too: the hosts were contacted before
		open, _ := filepath.Glob(c.dir + "/fetch/*.open")
		if len(open) == 1 {
			journal, _ := filepath.Glob(c.dir + "/fetch/JOURNAL-*")
			if info, err := os.Stat(open[0]); err == nil && info.Size() > 0 && len(journal) > 0 {
				break
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	fetch.Process.Kill()
	fetch.Wait()
	if said, code := verify(t, c.dir); code != 0 {
		t.Fatalf("the crawl is not whole to begin with:\n%s", said)
	}
	var noticed []string // names of files
	var table strings.Builder
	table.WriteString("| file |")
	for _, d := range damages {
		table.WriteString(" " + d.name + " |")
	}
	table.WriteString("\n|---|" + strings.Repeat("---|", len(damages)) + "\n")
	for _, k := range kinds {
		matches, err := filepath.Glob(filepath.Join(c.dir, k.pattern))
		if err != nil || len(matches) == 0 {
			t.Errorf("%s: no file %s, %v", k.name, k.pattern, err)
			continue
		}
		slices.Sort(matches)
		path := matches[(k.which+len(matches))%len(matches)]
		other := sibling(path, matches)
		whole, err := os.ReadFile(path)
		must.OK(t, err)
		row := "| " + k.name + " |"
		for _, d := range damages {
			var kept []byte
			if other != "" {
				kept, err = os.ReadFile(other)
				must.OK(t, err)
			}
			done, err := d.do(path, other, whole)
			must.OK(t, err)
			cell := "–"
			if done {
				said, code := verify(t, c.dir)
				switch {
				case code == 0:
					cell = "no"
				case strings.Contains(said, strings.TrimSuffix(filepath.Base(path), ".open")):
					cell = "yes"
				default:
					t.Errorf("%s %s: exit code %d, and %s is not named:\n%s", path, d.name, code, filepath.Base(path), said)
				}
				if code != 0 && code != 3 && code != 6 && !(code == 2 && (k.pattern == "CURRENT" || k.pattern == "crawl.toml")) {
					t.Errorf("%s %s: exit code %d:\n%s", path, d.name, code, said)
				}
			}
			row += " " + cell + " |"
			os.Remove(path) // a FIFO is not written to
			must.OK(t, os.WriteFile(path, whole, 0o666))
			if other != "" {
				must.OK(t, os.WriteFile(other, kept, 0o666))
			}
		}
		if strings.Contains(row, "| no |") {
			table.WriteString(row + "\n")
		} else {
			noticed = append(noticed, k.name)
		}
	}
	want := "Noticed, whatever the damage: " + strings.Join(noticed, "; ") + ".\n\nOf the others:\n\n" + table.String()
	if said, code := verify(t, c.dir); code != 0 {
		t.Errorf("the crawl is not whole in the end:\n%s", said)
	}
	const page = "../pkg/crawl/VERIFY.md"
	text, err := os.ReadFile(page)
	must.OK(t, err)
	before, rest, ok1 := strings.Cut(string(text), "<!-- table -->\n")
	had, after, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok1 || !ok2 {
		t.Fatalf("%s has no table", page)
	}
	if had == want {
		return
	}
	if !*update {
		t.Fatalf("the table in %s is not what verify does (go test -update writes it):\n%s", page, diff(had, want))
	}
	must.OK(t, os.WriteFile(page, []byte(before+"<!-- table -->\n"+want+"<!-- end -->"+after), 0o666))
}

// verify runs mckpt verify, which must not hang.
func verify(t *testing.T, dir string) (said string, code int) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var out string
		out, said, code = here(t, nil, "mckpt", "verify", dir)
		said += out
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("mckpt verify hangs")
	}
	return said, code
}
