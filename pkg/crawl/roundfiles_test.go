package crawl

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/durable"
)

// keep writes rounds/ROUND/links.arrows.zst with records of an epoch.
func keep(t *testing.T, fsys durable.FS, round, epoch string) {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter[record.Link](&b, record.WriterOptions{Txn: round, Epoch: epoch})
	must(t, err)
	_, err = w.Commit(record.Ledger{})
	must(t, err, durable.MkdirAll(fsys, "/c/rounds/"+round), durable.WriteFile(fsys, "/c/rounds/"+round+"/links.arrows.zst", b.Bytes()))
}

func TestRoundFiles(t *testing.T) {
	fsys := testCrawl(t)
	c, err := Open("/c", Options{FS: fsys})
	must(t, err)
	want := func(when string, rounds ...string) {
		t.Helper()
		var paths []string
		for _, r := range rounds {
			paths = append(paths, "/c/rounds/"+r+"/links.arrows.zst")
		}
		have, err := c.RoundFiles("links")
		if err != nil || !slices.Equal(have, paths) {
			t.Errorf("%s: %q, %v, want %q", when, have, err, paths)
		}
	}
	want("an empty crawl")
	round := func(txn, epoch string) {
		t.Helper()
		must(t, change(fsys, "/c/urls", "new", txn), change(fsys, "/c/frontier", "update", txn))
		_, _, err := c.Commit(ctx, txn, time.Unix(0, 0), 0)
		must(t, err)
		keep(t, fsys, txn, epoch)
	}
	for _, txn := range []string{"seed", "r1", "r2", "add1"} {
		round(txn, "0")
	}
	for n := 3; n <= 10; n++ {
		round(fmt.Sprintf("r%d", n), "0")
	}
	all := []string{"seed", "r1", "r2", "add1", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10"}
	want("rounds of all names", all...)

	keep(t, fsys, "r11", "0")
	want("a round that no store knows of", all...)
	must(t, change(fsys, "/c/frontier", "next", "r11"))
	want("an open round", append(slices.Clone(all), "r11")...)
	must(t, abandon(fsys))
	want("an abandoned round", all...)
	must(t, change(fsys, "/c/frontier", "next", "r11"))
	want("the same again, with the files of the first", all...)
	keep(t, fsys, "r11", "1")
	want("the same again", append(slices.Clone(all), "r11")...)

	must(t, restore(fsys, 2))
	want("a restored crawl", "seed", "r1")
	round("r2", "2")
	keep(t, fsys, "r1", "5")
	want("a round with files that are not its own", "seed", "r2")
	must(t, restore(fsys, 12), fsys.Remove("/c/rounds/r5/links.arrows.zst"))
	keep(t, fsys, "r1", "0")
	want("restored back, files of r2 made again, of r5 gone", "seed", "r1", "add1", "r3", "r4", "r6", "r7", "r8", "r9", "r10")

	// Where checkpoints are forgotten the rounds still count, in their order.
	keep(t, fsys, "r2", "0")
	must(t, gc(fsys, 1))
	want("forgotten checkpoints", "seed", "r1", "r2", "add1", "r3", "r4", "r6", "r7", "r8", "r9", "r10")
}
