package mmerge

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
	"mercator/pkg/merge"
)

// makeSet writes n keys: random, or one behind the other from a random one on,
// which is as many to a block as there can be.
func makeSet(path string, rnd *rand.Rand, n int, dense bool) error {
	keys := make([]uint64, n)
	first := rnd.Uint64() >> 1
	for i := range keys {
		if keys[i] = rnd.Uint64(); dense {
			keys[i] = first + uint64(i)
		}
	}
	merge.RadixSort(keys, make([]uint64, n))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := fpfile.NewWriter(f, fingerprint.Polynomial)
	err = w.AddKeys(merge.Compact(keys))
	return errors.Join(err, w.Finish(), f.Close())
}

// writeSet is makeSet in a test.
func writeSet(t *testing.T, path string, rnd *rand.Rand, n int, dense bool) {
	t.Helper()
	must.OK(t, makeSet(path, rnd, n, dense))
}

// TestMemory holds mmerge to 64 MiB with 256 inputs, some of which are large, some
// dense, on unsorted text and on record streams. The output does not depend on the number of threads.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(1, 2))
	var sets []string
	for i := range 256 {
		sets = append(sets, filepath.Join(dir, fmt.Sprintf("%d.fps", i)))
		n := 10_000
		if i%64 == 0 {
			n = 400_000
		}
		writeSet(t, sets[i], rnd, n, i%4 == 1 || i == 64)
	}
	text := filepath.Join(dir, "keys.txt")
	f, err := os.Create(text)
	must.OK(t, err)
	w := merge.NewTextWriter(f)
	for range 1_500_000 {
		must.OK(t, w.AddKeys([]uint64{rnd.Uint64()}))
	}
	must.OK(t, w.Flush())
	f.Close()
	rows := filepath.Join(dir, "urls.arrows.zst")
	must.OK(t, makeURLs(rows, rnd, 100_000))
	for _, args := range [][]string{
		{"records", "--sort", "--by", "url", rows, rows}, {"records", "--sort", "--by", "url_key", rows, rows},
		{"join", "--by", "url", "--columns", "etag", rows, rows}, {"split", "--buckets", "3", rows},
	} {
		peak(t, append(args, "-o", filepath.Join(dir, "rows.arrows.zst"))...)
	}
	// There are 512 shards. One sends many rows, and one receives from all.
	const most = 512
	crawl := filepath.Join(dir, "crawl")
	must.OK(t, makeShards(crawl, most))
	side := func(shard int) []string {
		return []string{"--by", "host", "--map", crawl, "--round", "r1", "--exchange", "x", "--shard", fmt.Sprint(shard)}
	}
	peak(t, append([]string{"split", rows, "-o", filepath.Join(crawl, "x")}, side(0)...)...)
	others(t, filepath.Join(crawl, "x"), rnd, most)
	peak(t, append([]string{"gather", filepath.Join(crawl, "x"), "-o", filepath.Join(dir, "gathered.arrows.zst")}, side(7)...)...)
	for _, c := range []struct {
		verb string
		in   []string
	}{{"union", sets}, {"diff", sets}, {"intersect", sets}, {"union", []string{text}}, {"diff", []string{sets[0], text}}, {"check", sets}} {
		t.Run(fmt.Sprint(c.verb, " ", len(c.in)), func(t *testing.T) {
			var last []byte
			for _, threads := range []string{"1", "7"} {
				out := filepath.Join(dir, "out.fps")
				args := append([]string{c.verb, "-@", threads}, c.in...)
				if c.verb != "check" {
					args = append(args, "-o", out)
				}
				peak(t, args...)
				if c.verb == "check" {
					break
				}
				set, err := os.ReadFile(out)
				must.OK(t, err)
				if last != nil && !bytes.Equal(set, last) {
					t.Errorf("%s of %d files: another file on %s threads", c.verb, len(c.in), threads)
				}
				last = set
			}
		})
	}
}

// peak runs mmerge, and fails the test if it took 64 MiB or more three times: where other
// programs keep the processors from it, Go's collector gives up its limit for a while
// (it believes to have used the time that it waited).
func peak(t *testing.T, args ...string) {
	t.Helper()
	var got struct {
		Peak int64 `json:"peak_rss_bytes"`
	}
	for range 3 {
		stats := filepath.Join(t.TempDir(), "stats.json")
		if out, err := exec.Command("mmerge", append(args, "--stats", stats)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
		clitest.JSON(t, stats, &got)
		t.Logf("%s, %d arguments: %d MiB at the peak", args[:3], len(args), got.Peak>>20)
		if got.Peak > 0 && got.Peak < 64<<20 {
			return
		}
	}
	t.Errorf("%s, %d arguments: %d bytes at the peak, want below 64 MiB", args[:3], len(args), got.Peak)
}

// others sends rows of all shards but the first to shard 7.
func others(t *testing.T, dir string, rnd *rand.Rand, shards int) {
	t.Helper()
	m, err := shard.New(shards)
	must.OK(t, err)
	for from := 1; from < shards; from++ {
		var rows bytes.Buffer
		w, err := record.NewWriter[record.URL](&rows, record.WriterOptions{Txn: "r1", Epoch: "2"})
		for i := 0; i < 2000 && err == nil; i++ {
			const bucket = 1 << 52 // keys; of 4,096 buckets each of 512 shards has 8
			err = w.Write(&record.URL{Key: 7*8*bucket + rnd.Uint64N(8*bucket), Host: "h.test", URL: fmt.Sprintf("http://h.test/%x", rnd.Uint64())})
		}
		if err == nil {
			_, err = w.Commit(record.Ledger{})
		}
		must.OK(t, err)
		in, err := record.NewReader[record.URL](&rows, record.ReaderOptions{})
		must.OK(t, err)
		id := exchange.ID{Exchange: "x", Round: "r1", Epoch: 2, Map: 1, Shards: shards, By: exchange.ByHost}
		_, err = exchange.Run(t.Context(), exchange.Split{FS: durable.OS, Dir: dir, ID: id, From: from, Map: m, Memory: 1 << 20}, in)
		must.OK(t, err)
	}
}

// makeURLs writes n url rows of some 250 bytes each.
func makeURLs(path string, rnd *rand.Rand, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := record.NewWriter[record.URL](f, record.WriterOptions{Level: record.Fast})
	for i := 0; i < n && err == nil; i++ {
		err = w.Write(&record.URL{Key: rnd.Uint64(), Host: "h.test", URL: fmt.Sprintf("http://h.test/%x/%s", rnd.Uint64(), strings.Repeat("p", rnd.IntN(400)))})
	}
	if err != nil {
		return err
	}
	sum, hash, err := w.Finish()
	if err != nil {
		return err
	}
	_, err = w.Commit(record.Ledger{Stages: []record.Stage{{Name: "test", Out: sum, OutHash: hash.String(), Made: []record.Count{{Reason: "test", N: sum}}}}})
	return errors.Join(err, f.Close())
}
