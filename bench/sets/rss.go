package main

import (
	"fmt"
	"sort"
	"strings"
)

// rss runs every command that handles sets, at two sizes of set. Text and rows do
// not grow with it beyond some size, or a run of 10⁹ would take hours.
func rss(b *bench) error {
	lines := []string{
		"mfpset build --text -o built.fps batch.txt",
		"mfpset build -o built.fps a.fps",
		"mfpset create c && mfpset add c a.fps",
		"mfpset add c b.fps",
		"mfpset create t && mfpset add --text t batch.txt",
		"mfpset test c --quiet few.txt > out; test $? = 6",
		"mfpset dump c > out",
		"mfpset dump c -o out.fps",
		"mfpset stat c > out",
		"mfpset check c",
		"mfpset mark c -o out.arrows.zst fetch.arrows.zst",
		"murlset create u && murlset add u urls.txt",
		"murlset add u b.fps",
		"murlset new u -o out.arrows.zst more.txt",
		"murlset test u urls.txt > out",
		"murlset build -o urls.fps urls.txt",
		"murlset dump u > out",
		"murlset check u",
		"murlset key < urls.txt > out",
		"mmerge union -o out.fps a.fps b.fps",
		"mmerge union -o out.fps -@ 2 a.fps b.fps",
		"mmerge union --text a.txt b.txt > out",
		"mmerge intersect -o out.fps a.fps b.fps",
		"mmerge diff -o out.fps a.fps b.fps",
		"mmerge split --buckets 16 -o part a.fps",
		"mmerge union -o out.fps part-*.fps",
		"mmerge check a.fps c u",
		"mmerge records --by url_key --sort -o out.arrows.zst fetch.arrows.zst fetch.arrows.zst",
		"mmerge join --by url_key --columns etag -o out.arrows.zst fetch.arrows.zst fetch.arrows.zst",
	}
	ns := []uint64{b.n / 100, b.n}
	peaks := map[string][2]int64{}
	for i, n := range ns {
		rows, text := min(n/10, 1e6), min(n, 1e7)
		for _, args := range []string{
			fmt.Sprintf("-n %d -m %d -both %d -a a.fps -b b.fps", n, n, n/2),
			fmt.Sprintf("-n %d -m %d -both %d -a a.txt -b b.txt", text, text, text/2),
			fmt.Sprintf("-kind arrivals -n %d -a batch.txt", text),
			fmt.Sprintf("-kind arrivals -n %d -a few.txt", rows),
			fmt.Sprintf("-kind urls -n %d -a urls.txt", rows),
			fmt.Sprintf("-seed %d -kind urls -n %d -a more.txt", b.seed+1, rows),
			fmt.Sprintf("-kind fetch -n %d -a fetch.arrows.zst", rows),
		} {
			if err := b.gen("%s", args); err != nil {
				return err
			}
		}
		for _, line := range lines {
			peak, err := b.shell(line)
			if err != nil {
				return err
			}
			p := peaks[line]
			p[i] = peak
			peaks[line] = p
		}
		if _, err := b.shell("rm -rf *"); err != nil {
			return err
		}
	}
	sort.SliceStable(lines, func(i, j int) bool { return peaks[lines[i]][1] > peaks[lines[j]][1] })
	fmt.Printf("Default bounds, no --memory. a.fps and b.fps hold n keys each, half of them common; a.txt, b.txt and\nbatch.txt (in no order) n lines, 10⁷ at most; the others n / 10 lines or rows, 10⁶ at most.\n\n")
	fmt.Printf("| command | peak RSS, MiB, n = %s | n = %s | wanted | |\n|---|--:|--:|--:|---|\n", power(ns[0]), power(ns[1]))
	for _, line := range lines {
		p := peaks[line]
		word := "met"
		if max(p[0], p[1]) > 64<<20 {
			word = "missed"
		}
		fmt.Printf("| `%s` | %.1f | %.1f | ≤ 64 | %s |\n", strings.ReplaceAll(line, "|", "\\|"), float64(p[0])/(1<<20), float64(p[1])/(1<<20), word)
	}
	return nil
}
