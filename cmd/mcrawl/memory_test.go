package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/cli/clitest"
)

// TestMemory holds "balance --do" to 64 MiB, where one shard has everything: long URLs of many hosts, and of one.
func TestMemory(t *testing.T) {
	bin, dir := commands(t), t.TempDir()
	crawl, seeds := filepath.Join(dir, "crawl"), filepath.Join(dir, "seeds.txt")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(filepath.Join(bin, "mcrawl"), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	var text bytes.Buffer
	for n := range 12_000 {
		host := "big.example"
		if n%2 == 0 {
			host = fmt.Sprintf("www.host%d.example", n*7919%3_000)
		}
		fmt.Fprintf(&text, "http://%s/%s/%d\n", host, strings.Repeat(fmt.Sprintf("%d/", n), 120), n)
	}
	if err := os.WriteFile(seeds, text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	run("new", crawl, "--quiet", "--shards", "3", "--seeds", seeds, "--contact", "test@example.org")
	for n := range 3 {
		run("stage", crawl, "seed", "--round", "seed", "--shard", fmt.Sprint(n))
	}
	run("stage", crawl, "commit", "--round", "seed")
	run("move", crawl, "0-4095", "--to", "1")
	var peak int64
	for range 3 { // where other programs keep the processors from it, Go's collector gives up its limit for a while
		trial, stats := filepath.Join(t.TempDir(), "crawl"), filepath.Join(dir, "stats.json")
		if err := os.CopyFS(trial, os.DirFS(crawl)); err != nil {
			t.Fatal(err)
		}
		run("balance", trial, "--do", "--stats", stats)
		var got struct {
			Peak int64 `json:"peak_rss_bytes"`
		}
		clitest.JSON(t, stats, &got)
		peak = got.Peak
		t.Logf("%d MiB at the peak", peak>>20)
		if peak > 0 && peak < 64<<20 {
			return
		}
	}
	t.Errorf("%d bytes at the peak, want below 64 MiB", peak)
}
