package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
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
	must.OK(t, os.WriteFile(seeds, text.Bytes(), 0o666))
	run("new", crawl, "--quiet", "--shards", "3", "--seeds", seeds, "--contact", "test@example.org")
	for n := range 3 {
		run("stage", crawl, "seed", "--round", "seed", "--shard", fmt.Sprint(n))
	}
	run("stage", crawl, "commit", "--round", "seed")
	run("move", crawl, "0-4095", "--to", "1")
	var peak int64
	for range 3 { // where other programs keep the processors from it, Go's collector gives up its limit for a while
		trial, stats := filepath.Join(t.TempDir(), "crawl"), filepath.Join(dir, "stats.json")
		must.OK(t, os.CopyFS(trial, os.DirFS(crawl)))
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

// TestMemoryOfShards holds a run of eight shards, all of which have large pages, to memory.total.
func TestMemoryOfShards(t *testing.T) {
	const total, shards = 128 << 20, 8
	page := []byte("<a href=/0>0</a><a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>" + strings.Repeat("<p>long <a href=/0>and dull</a></p>\n", 9<<20/36))
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>%s%s</title>", r.Host, r.URL)
		w.Write(page)
	})
	var seeds bytes.Buffer
	for n := range 2 * shards {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:0", 1+n))
		if err != nil {
			needs.Skip(t, "all of 127.0.0.0/8 must be this machine, as on Linux: ", err)
		}
		server := &http.Server{Handler: serve}
		defer server.Close()
		go server.Serve(l)
		fmt.Fprintf(&seeds, "http://%s/\n", l.Addr())
	}
	bin, dir := commands(t), t.TempDir()
	crawl, stats := filepath.Join(dir, "crawl"), filepath.Join(dir, "stats.json")
	file := filepath.Join(dir, "seeds.txt")
	must.OK(t, os.WriteFile(file, seeds.Bytes(), 0o666))
	for _, args := range [][]string{
		{"new", crawl, "--quiet", "--shards", fmt.Sprint(shards), "--seeds", file, "--contact", "test@example.org", "--set", fmt.Sprintf("memory.total=%d", total),
			"--set", "network.allow_net=127.0.0.0/8", "--set", "politeness.min_delay=0s", "--set", "politeness.delay_factor=0", "--set", "politeness.addr_delay=0s"},
		{"run", crawl, "--quiet", "--rounds", "1", "--stats", stats},
	} {
		if out, err := exec.Command(filepath.Join(bin, "mcrawl"), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	var got struct {
		Peak int64 `json:"peak_rss_bytes"`
	}
	clitest.JSON(t, stats, &got)
	if t.Logf("%d MiB at the peak", got.Peak>>20); got.Peak > total {
		t.Errorf("%d bytes at the peak, want at most %d", got.Peak, total)
	}
}
