package crawl

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/must"
)

// keep writes rounds/ROUND/links.arrows.zst with records of an epoch.
func keep(t *testing.T, fsys durable.FS, round, epoch string) {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter[record.Link](&b, record.WriterOptions{Txn: round, Epoch: epoch})
	must.OK(t, err)
	_, hash, err := w.Finish()
	must.OK(t, err)
	_, err = w.Commit(record.Ledger{Stages: []record.Stage{{Name: "mextract", Txn: round, OutHash: hash.String()}}})
	must.OK(t, err, durable.MkdirAll(fsys, "/c/rounds/"+round), durable.WriteFile(fsys, "/c/rounds/"+round+"/links.arrows.zst", b.Bytes()))
}

func TestRoundFiles(t *testing.T) {
	fsys := testCrawl(t)
	var warned []string
	c, err := Open("/c", Options{FS: fsys, Warn: func(err error) { warned = append(warned, err.Error()) }})
	must.OK(t, err)
	warning := func(rounds string) {
		t.Helper()
		if len(warned) != 1 || !strings.Contains(warned[0], "files of "+rounds+" are missing, or of a round that was undone") {
			t.Errorf("warned %q, want %s", warned, rounds)
		}
		warned = nil
	}
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
		must.OK(t, change(fsys, "/c/urls", "new", txn), change(fsys, "/c/frontier", "update", txn))
		_, _, err := c.Commit(ctx, txn, time.Unix(0, 0), 0)
		must.OK(t, err)
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
	must.OK(t, change(fsys, "/c/frontier", "next", "r11"))
	want("an open round", append(slices.Clone(all), "r11")...)
	must.OK(t, abandon(fsys))
	want("an abandoned round", all...)
	must.OK(t, change(fsys, "/c/frontier", "next", "r11"))
	want("the same again, with the files of the first", all...)
	if warned != nil {
		t.Errorf("warned %q: none of the files is of a closed round", warned)
	}
	keep(t, fsys, "r11", "1")
	want("the same again", append(slices.Clone(all), "r11")...)

	must.OK(t, restore(fsys, 2))
	want("a restored crawl", "seed", "r1")
	round("r2", "2")
	keep(t, fsys, "r1", "5")
	want("a round with files that are not its own", "seed", "r2")
	want("the same again is not told again", "seed", "r2")
	warning("r1")
	must.OK(t, restore(fsys, 12), fsys.Remove("/c/rounds/r5/links.arrows.zst"))
	keep(t, fsys, "r1", "0")
	want("restored back", "seed", "r1", "r2", "add1", "r3", "r4", "r6", "r7", "r8", "r9", "r10")
	keep(t, fsys, "r2", "2")
	want("restored back, files of r2 made again, of r5 gone", "seed", "r1", "add1", "r3", "r4", "r6", "r7", "r8", "r9", "r10")
	warning("r2")

	// Where checkpoints are forgotten the rounds still count, in their order.
	keep(t, fsys, "r2", "0")
	must.OK(t, gc(fsys, 1))
	want("forgotten checkpoints", "seed", "r1", "r2", "add1", "r3", "r4", "r6", "r7", "r8", "r9", "r10")

	// Nor are files of an undone round taken for theirs: all of these rounds were closed in epoch 0.
	keep(t, fsys, "r2", "2")
	want("files of the r2 that was undone", "seed", "r1", "add1", "r3", "r4", "r6", "r7", "r8", "r9", "r10")
	keep(t, fsys, "r11", "3")
	must.OK(t, change(fsys, "/c/urls", "new", "r11"), change(fsys, "/c/frontier", "update", "r11"))
	before, err := c.Files()
	must.OK(t, err)
	k, _, err := c.Commit(ctx, "r11", time.Unix(0, 0), 0)
	must.OK(t, err)
	if len(k.Files) != 1 {
		t.Fatalf("checkpoint %d names %v", k.Number, k.Files)
	}
	// One look is the same whatever closes after it.
	open, err := before.Files("links")
	closed, closedErr := before.Closed().Files("links")
	if must.OK(t, err, closedErr); !slices.Equal(open, append(closed, "/c/rounds/r11/links.arrows.zst")) {
		t.Errorf("with an open round %q, without %q", open, closed)
	}
	must.OK(t, fsys.Remove("/c/rounds/r11/links.arrows.zst"))
	want("files gone that a checkpoint names", "seed", "r1", "add1", "r3", "r4", "r6", "r7", "r8", "r9", "r10")
	warning("r2, r11")
}
