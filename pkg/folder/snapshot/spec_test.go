package snapshot

import (
	"strings"
	"testing"

	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
)

func exampleList() *List {
	sum := func(s string) string { return store.Sum([]byte(s)) }
	return &List{Number: 7, Crawl: sum("crawl"), From: sum("before"), Made: "2026-11-21T10:00:00Z",
		Current: store.Current{Epoch: 1, Checkpoint: 2, Txn: "r1", Stores: map[string]uint64{"fetch": 3}, Last: 2},
		Files: []File{
			{Path: "crawl.toml", Length: 3, Sum: sum("abc"), Modified: 1763719200000000000},
			{Path: "fetch/crawl-000002-1.warc.gz", Open: true, Length: 5, Sum: sum("chain"), Link: sum("link"), Parts: []Part{{2, sum("ab")}, {3, sum("cde")}}},
			{Path: "rounds/r1/epoch.1", Sum: sum("")},
		}}
}

func vectors() []spectest.Vector {
	list := func(edit func(*List)) []byte {
		l := exampleList()
		edit(l)
		b, err := store.Seal(magic, l)
		if err != nil {
			panic(err)
		}
		return b
	}
	bad := func(name, says string, edit func(*List)) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name + ".snapshot", Bytes: list(edit), Class: fault.Corrupt, Says: says}
	}
	good := list(func(*List) {})
	return []spectest.Vector{
		{Name: "good/two-parts.snapshot", Bytes: good, Gives: string(good)},
		bad("R1-number-0", "number: 0", func(l *List) { l.Number = 0 }),
		bad("R2-crawl", `crawl: "1" from`, func(l *List) { l.Crawl = "1" }),
		bad("R2-from", `from "2"`, func(l *List) { l.From = "2" }),
		bad("R3-made", `made: "2026`, func(l *List) { l.Made = "2026-11-21T10:00:00+01:00" }),
		bad("R4-checkpoint", "current: epoch 1, checkpoint 3 of 2", func(l *List) { l.Current.Checkpoint = 3 }),
		bad("R5-order", `file 2: path "rounds/r1/epoch.1", want one after`, func(l *List) { l.Files[1].Path = "s" }),
		bad("R5-up", `path "../a"`, func(l *List) { l.Files[0].Path = "../a" }),
		bad("R5-absolute", `path "/a"`, func(l *List) { l.Files[0].Path = "/a" }),
		bad("R5-current", `path "CURRENT"`, func(l *List) { l.Files[0].Path = "CURRENT" }),
		bad("R5-push", `path "push/ID"`, func(l *List) { l.Files[2].Path = "push/ID" }),
		bad("R6-length", "file 0: length -1", func(l *List) { l.Files[0].Length = -1 }),
		bad("R6-sum", `file 0: length 3, sum "0"`, func(l *List) { l.Files[0].Sum = "0" }),
		bad("R6-link", "file 1: length 5", func(l *List) { l.Files[1].Link = "0" }),
		bad("R7-no-link", "file 1: 2 parts, without a link", func(l *List) { l.Files[1].Link = "" }),
		bad("R7-empty", "file 1: part of length 0", func(l *List) { l.Files[1].Parts[0].Length = 0 }),
		bad("R7-short", "file 1: parts of 2 bytes, want 5", func(l *List) { l.Files[1].Parts = l.Files[1].Parts[:1] }),
		bad("R8-mode", "file 0: mode 01000", func(l *List) { l.Files[0].Mode = 0o1000 }),
		bad("R7-long", "file 1: part of length 4", func(l *List) { l.Files[1].Parts[1].Length = 4 }),
	}
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	var example strings.Builder
	for line := range strings.Lines(string(vectors()[0].Bytes)) {
		example.WriteString("    " + line)
	}
	spectest.Check(t, spectest.Format{
		Vectors: vectors(),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			l, err := decode(name, file)
			if err != nil {
				return "", err
			}
			again, err := store.Seal(magic, l)
			return string(again), err
		},
		Regions: map[string]string{"example": example.String()},
	})
}

func FuzzDecode(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.Bytes)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := decode("fuzz", data)
		if err != nil {
			return
		}
		for name := range l.objects() {
			if strings.HasPrefix(name, "/") || strings.Contains(name, "../") {
				t.Errorf("accepted %q", name)
			}
		}
	})
}
