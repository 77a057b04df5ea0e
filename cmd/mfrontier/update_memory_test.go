package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/fingerprint"
	"mercator/pkg/frontier"
)

// TestUpdateMemory holds "update" to the memory that it is told, with new URLs of many hosts, over runs of
// hosts and of waiting URLs that are being merged.
func TestUpdateMemory(t *testing.T) {
	dir := t.TempDir()
	store, in, batch, outcomes, stats := filepath.Join(dir, "frontier"), filepath.Join(dir, "in"), filepath.Join(dir, "batch"), filepath.Join(dir, "outcomes"), filepath.Join(dir, "stats.json")
	run := func(stdin, stdout string, args ...string) {
		t.Helper()
		c := exec.Command(args[0], args[1:]...)
		var errors bytes.Buffer
		c.Stderr = &errors
		if stdin != "" {
			f, err := os.Open(stdin)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			c.Stdin = f
		}
		if stdout != "" {
			f, err := os.Create(stdout)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			c.Stdout = f
		}
		if err := c.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, errors.Bytes())
		}
	}
	n := 0
	urls := func(rows int, txn string) { // url records
		t.Helper()
		f, err := os.Create(in)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w, err := record.NewWriter[record.URL](f, record.WriterOptions{Txn: txn})
		for i := 0; i < rows && err == nil; i++ {
			u := record.URL{Host: fmt.Sprintf("www.host%d.example", n*7919%30_000)}
			u.URL = fmt.Sprintf("http://%s/folder/of/some/length/%d.html", u.Host, n)
			u.Key = fingerprint.URLKey(u.Host, u.URL)
			err = w.Write(&u)
			n++
		}
		if err != nil {
			t.Fatal(err)
		}
		_, hash, err := w.Finish()
		if err == nil {
			made := record.Stage{Name: "test", Txn: txn, Out: uint64(rows), OutHash: hash.String(), Made: []record.Count{{Reason: "test", N: uint64(rows)}}}
			_, err = w.Commit(record.Ledger{Stages: []record.Stage{made}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run("", "", "mfrontier", "create", store)
	for range 24 { // a merge falls due
		urls(2000, "")
		run("", "", "mfrontier", "add", "-q", store, in)
	}
	run("", "", "mfrontier", "next", store, "-q", "--txn", "r1", "-n", "5000", "-o", batch)
	run(batch, outcomes, "outcomes", "r1", "fetched")
	urls(60_000, "r1")
	for _, memory := range []int64{frontier.LeastMemory, frontier.Memory} {
		got := struct {
			Peak int64 `json:"peak_rss_bytes"`
		}{Peak: memory + 1}
		for try := 0; try < 3 && got.Peak > memory; try++ { // where other programs keep the processors from it, Go's collector gives up its limit for a while
			trial := filepath.Join(dir, fmt.Sprint(memory, try))
			if err := os.CopyFS(trial, os.DirFS(store)); err != nil {
				t.Fatal(err)
			}
			run("", "", "mfrontier", "update", trial, "-q", "--txn", "r1", "--outcomes", outcomes, "--memory", fmt.Sprint(memory), "--stats", stats, in)
			b, err := os.ReadFile(stats)
			if err == nil {
				err = json.Unmarshal(b, &got)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d of %d bytes at the peak", got.Peak, memory)
		}
		if got.Peak > memory {
			t.Errorf("%d bytes at the peak, want %d at most", got.Peak, memory)
		}
	}
}
