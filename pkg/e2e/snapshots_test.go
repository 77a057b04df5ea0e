package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

// TestSnapshots is the drill for a machine that is lost: a crawl is copied elsewhere after each round, killed, and its folder
// deleted. Another machine pulls the copy and goes on, and is lost too. The third ends the crawl, which is equal to the oracle. What the
// last snapshot had is not fetched again, and over all machines no host is contacted early.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{0, 2} {
		if shards > 0 && !long { // cmd/mckpt has a quick test of them
			continue
		}
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			w := startWeb(t, 61+shards, 5, 12)
			c := newCrawl(t, w, "BATCH=8", "POLITENESS_FLAGS=--min-delay 100ms --delay-factor 0 --addr-delay 0")
			if shards > 0 {
				c.shards(t, shards)
			}
			c.command(t, "mcrawl") // makes the crawl
			remote := filepath.Join(t.TempDir(), "copy")
			output(t, "mcrawl", "set", "--quiet", c.dir, "push="+remote)
			var check []func()
			for machine := 2; machine <= 3; machine++ {
				c.lose(t, remote)
				lost := len(w.requests(t))
				c.dir = filepath.Join(t.TempDir(), fmt.Sprintf("machine%d", machine))
				output(t, "mckpt", "pull", "--quiet", remote, c.dir)
				had := c.pages(t)
				asked := map[string]bool{}
				for _, line := range w.requests(t)[:lost] {
					if f := strings.Split(line, "\t"); had[f[3]+" "+f[4]] {
						asked[f[3]+f[4]] = true
					}
				}
				if len(had) == 0 || len(asked) != len(had) {
					t.Errorf("the snapshot has %d pages, of which %d were asked for", len(had), len(asked))
				}
				check = append(check, func() {
					for _, line := range w.requests(t)[lost:] {
						if f := strings.Split(line, "\t"); had[f[3]+" "+f[4]] {
							t.Errorf("fetched again, though snapshot %d has it: %s", machine, line)
						}
					}
				})
			}
			output(t, "mcrawl", "set", "--quiet", c.dir, "push=")
			output(t, "mcrawl", "run", "--quiet", c.dir)
			for _, f := range check {
				f()
			}
			if shards > 0 {
				c.sharded(t)
			} else {
				c.check(t)
			}
			w.polite(t, 100*time.Millisecond)
		})
	}
}

// lose runs the crawl, kills it in a round after a further snapshot, and deletes its folder.
func (c *crawl) lose(t *testing.T, remote string) {
	t.Helper()
	snapshot := func() string {
		list, _ := filepath.Glob(filepath.Join(remote, "SNAPSHOT-*"))
		return strings.Join(list[max(0, len(list)-1):], "")
	}
	cmd := exec.Command(bin+"mcrawl", "run", c.dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.OK(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	stop := func() {
		cmd.Process.Kill()
		<-ended
	}
	// Two snapshots more. The second has a whole round of this run.
	last, seen, asked := snapshot(), 0, 0
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			t.Fatalf("the crawl ended before it was killed\n%s", tail(out.Bytes()))
		default:
		}
		if now := snapshot(); now != last {
			last, seen, asked = now, seen+1, len(c.web.requests(t))
		}
		if seen >= 2 && len(c.web.requests(t)) >= asked+2 {
			break
		}
		if time.Now().After(deadline) {
			stop()
			t.Fatalf("no snapshot within a minute\n%s", tail(out.Bytes()))
		}
	}
	stop()
	for deadline := time.Now().Add(10 * time.Second); len(commandLines(c.dir)) > 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	must.OK(t, os.RemoveAll(c.dir))
}

// pages are the hosts and targets of the pages that the crawl has outcomes of, as in the log of the web.
func (c *crawl) pages(t *testing.T) map[string]bool {
	t.Helper()
	pages := map[string]bool{}
	for line := range strings.Lines(output(t, "mcat", "--format", "tsv", "--columns", "role,outcome,url", c.dir)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[0] != "page" || f[1] != "fetched" {
			continue
		}
		host, target, _ := strings.Cut(strings.TrimPrefix(f[2], "http://"), "/")
		pages[fmt.Sprintf("%q %q", host, "/"+target)] = true
	}
	return pages
}

// polite checks the web's own log, since records of machines that were lost are lost: between two requests to a host lies the gap.
func (w *web) polite(t *testing.T, gap time.Duration) {
	t.Helper()
	const clocks = 5 * time.Millisecond // the log has the time of day, which may be adjusted while mfetch waits by a clock that is not
	last := map[string]time.Time{}
	n := 0
	for _, line := range w.requests(t) {
		f := strings.Split(line, "\t")
		start, err := time.Parse(time.RFC3339Nano, f[0])
		if err != nil {
			t.Fatalf("log line %q", line)
		}
		if before, ok := last[f[3]]; ok {
			n++
			if start.Sub(before) < gap-clocks {
				t.Errorf("%s was contacted %v after the contact before: %s", f[3], start.Sub(before), line)
			}
		}
		last[f[3]] = start
	}
	if n < 20 {
		t.Errorf("%d gaps seen: the web's log is not read as it is", n)
	}
}
