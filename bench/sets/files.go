package main

import (
	"fmt"
	"os"
)

// files measures whole commands, from files in the page cache to synced files.
func files(b *bench) error {
	both := b.n / 2
	if err := b.gen("-n %d -m %d -both %d -a a.fps,a.txt -b b.fps,b.txt", b.n, b.n, both); err != nil {
		return err
	}
	fmt.Printf("Inputs in the page cache. \"Disk\" reads the inputs and writes and syncs as many bytes as came out, and does nothing else.\n\n")
	head()
	for _, op := range []struct {
		verb, peer string
		atLeast    float64
	}{
		{"union", "sort -m -u a.txt b.txt -o sorted.txt", 20},
		{"diff", "sh -c 'comm -23 a.txt b.txt > sorted.txt'", 0},
		{"intersect", "sh -c 'comm -12 a.txt b.txt > sorted.txt'", 0},
	} {
		command := "mmerge " + op.verb + " --quiet -o out.fps a.fps b.fps"
		size := int64(0)
		took, err := b.turns(
			b.line(pinned(command+" -@ 1")),
			b.line(command+" -@ 2"),
			b.line(pinned(op.peer)),
			contender{"disk", func() error {
				info, err := os.Stat(b.path("out.fps"))
				if err == nil {
					size = info.Size()
				}
				return err
			}, func() error {
				if err := readThrough(b.path("a.fps"), b.path("b.fps")); err != nil {
					return err
				}
				return writeThrough(b.path("disk"), size)
			}},
			b.line(pinned("mmerge "+op.verb+" --quiet --text a.txt b.txt -@ 1 -o ours.txt")),
		)
		if err != nil {
			return err
		}
		if _, err := b.shell("cmp sorted.txt ours.txt && mmerge union out.fps | cmp - sorted.txt"); err != nil {
			return err
		}
		want := ""
		if op.atLeast > 0 {
			want = fmt.Sprintf("≥ %g, or disk", op.atLeast)
		}
		keys := float64(2 * b.n)
		b.row("`"+command+" -@ 1`, one core", took[0], keys, "keys", "`"+op.peer+"`, one core", took[2], want, op.atLeast)
		b.row("`"+command+" -@ 2`", took[1], keys, "keys", "the same", took[2], want, op.atLeast)
		share := "≥ 0.8, or 20 × sort"
		if op.verb != "union" {
			share = ""
		}
		b.row("one core", took[0], keys, "keys", "disk", took[3], share, 0.8)
		b.row("-@ 2", took[1], keys, "keys", "disk", took[3], share, 0.8)
		b.row("`mmerge "+op.verb+" --text a.txt b.txt -o ours.txt`, one core", took[4], keys, "keys", "`"+op.peer+"`", took[2], "", 0)
	}
	return nil
}
