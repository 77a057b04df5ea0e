package mfrontier

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
	"mercator/pkg/frontier"
)

// run runs a command, with files as its standard input and output, "" for none.
func run(t *testing.T, stdin, stdout string, args ...string) {
	t.Helper()
	c := exec.Command(args[0], args[1:]...)
	var said bytes.Buffer
	c.Stderr = &said
	if stdin != "" {
		f, err := os.Open(stdin)
		must.OK(t, err)
		defer f.Close()
		c.Stdin = f
	}
	if stdout != "" {
		f, err := os.Create(stdout)
		must.OK(t, err)
		defer f.Close()
		c.Stdout = f
	}
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", args, err, said.Bytes())
	}
}

// within holds a verb to the memory that it is told, the least and that by default, on copies of a store.
func within(t *testing.T, store, verb string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	for _, memory := range []int64{frontier.LeastMemory, frontier.Memory} {
		got := struct {
			Peak int64 `json:"peak_rss_bytes"`
		}{Peak: memory + 1}
		for try := 0; try < 3 && got.Peak > memory; try++ { // where other programs keep the processors from it, Go's collector gives up its limit for a while
			trial, stats := filepath.Join(dir, fmt.Sprint(memory, try)), filepath.Join(dir, "stats.json")
			must.OK(t, os.CopyFS(trial, os.DirFS(store)))
			run(t, "", "", append([]string{"mfrontier", verb, trial, "-q", "--memory", fmt.Sprint(memory), "--stats", stats}, args...)...)
			clitest.JSON(t, stats, &got)
			t.Logf("%d of %d bytes at the peak", got.Peak, memory)
		}
		if got.Peak > memory {
			t.Errorf("%d bytes at the peak, want %d at most", got.Peak, memory)
		}
	}
}

// TestMemory holds "next" to its memory, over frontiers of several shapes.
func TestMemory(t *testing.T) {
	for _, shape := range []struct {
		name       string
		adds, each int // URLs
		url        func(n int) string
	}{
		{"a table of many hosts in many runs", 10, 5000, func(n int) string {
			return fmt.Sprintf("http://www.host%d.example/folder/of/some/length/%d.html", n*7919%20_000, n)
		}},
		{"long URLs", 1, 400, func(n int) string {
			return fmt.Sprintf("http://www.host%d.example/%s", n, strings.Repeat(fmt.Sprintf("%d/", n), 49_000/len(fmt.Sprintf("%d/", n))))
		}},
	} {
		t.Run(shape.name, func(t *testing.T) {
			dir := t.TempDir()
			store, in := filepath.Join(dir, "frontier"), filepath.Join(dir, "in.txt")
			run(t, "", "", "mfrontier", "create", store)
			for i := range shape.adds {
				var text bytes.Buffer
				for n := i * shape.each; n < (i+1)*shape.each; n++ {
					fmt.Fprintln(&text, shape.url(n))
				}
				must.OK(t, os.WriteFile(in, text.Bytes(), 0o600))
				run(t, "", "", "mfrontier", "add", "-q", "--max-url", "65535", store, in)
			}
			within(t, store, "next", "-n", "30000", "-o", filepath.Join(dir, "batch"))
		})
	}
}

// TestUpdateMemory holds "update" to its memory, with new URLs of many hosts, over runs of
// hosts and of waiting URLs that are being merged, and so "raise".
func TestUpdateMemory(t *testing.T) {
	dir := t.TempDir()
	store, in, batch, outcomes := filepath.Join(dir, "frontier"), filepath.Join(dir, "in"), filepath.Join(dir, "batch"), filepath.Join(dir, "outcomes")
	n, score := 0, float32(0)
	urls := func(rows int, txn string) { // url records
		t.Helper()
		f, err := os.Create(in)
		must.OK(t, err)
		defer f.Close()
		w, err := record.NewWriter[record.URL](f, record.WriterOptions{Txn: txn})
		for i := 0; i < rows && err == nil; i++ {
			u := record.URL{Score: score, Host: fmt.Sprintf("www.host%d.example", n*7919%30_000)}
			u.URL = fmt.Sprintf("http://%s/folder/of/some/length/%d.html", u.Host, n)
			u.Key = fingerprint.URLKey(u.Host, u.URL)
			err = w.Write(&u)
			n++
		}
		must.OK(t, err)
		_, hash, err := w.Finish()
		if err == nil {
			made := record.Stage{Name: "test", Txn: txn, Out: uint64(rows), OutHash: hash.String(), Made: []record.Count{{Reason: "test", N: uint64(rows)}}}
			_, err = w.Commit(record.Ledger{Stages: []record.Stage{made}})
		}
		must.OK(t, err)
	}
	run(t, "", "", "mfrontier", "create", store)
	for range 24 { // a merge falls due
		urls(2000, "")
		run(t, "", "", "mfrontier", "add", "-q", store, in)
	}
	run(t, "", "", "mfrontier", "next", store, "-q", "--txn", "r1", "-n", "5000", "-o", batch)
	run(t, batch, outcomes, "outcomes", "r1", "fetched")
	urls(60_000, "r1")
	within(t, store, "update", "--txn", "r1", "--outcomes", outcomes, in)
	n, score = 0, 1
	urls(40_000, "")
	within(t, store, "raise", in)
}
