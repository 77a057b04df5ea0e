package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// run20 are 20 minutes of a crawl at 100 pages/s in rounds of 600, on a machine of which other processes take nothing.
func run20() (points []point) {
	for n := range 21 {
		m := float64(n)
		points = append(points, point{at: time.Unix(int64(60*n), 0), pages: 6000 * m, known: 24000 * m, rounds: 10 * m, ended: time.Unix(int64(60*n), 0), files: 200 * m,
			bytes: map[string]float64{"fetch": 12e6 * m, "rounds": 3e6 * m}, rss: map[string]float64{"mfetch": 100, "mextract": 60}, ours: 30 * m, web: 10 * m})
	}
	return points
}

// half leaves half of what is done after minute 15, and returns how many minutes that is.
func half(n int, p *point) float64 {
	late := float64(max(0, n-15))
	p.pages, p.files, p.rounds = p.pages-3000*late, p.files-100*late, p.rounds-5*late
	p.bytes["fetch"], p.bytes["rounds"] = p.bytes["fetch"]-6e6*late, p.bytes["rounds"]-1.5e6*late
	return late
}

// TestJudge: a flat run passes, and each figure that is not flat is named.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(n int, p *point)
	}{
		{"flat", "", func(int, *point) {}},
		{"pages", "pages/s", func(n int, p *point) { half(n, p) }},
		{"slowed second quarter", "no verdict", func(n int, p *point) {
			late := float64(min(max(0, n-5), 5))
			p.pages, p.bytes["fetch"], p.bytes["rounds"] = p.pages-3000*late, p.bytes["fetch"]-6e6*late, p.bytes["rounds"]-1.5e6*late
		}},
		{"busy machine", "", func(n int, p *point) { p.others += 60 * 0.5 * half(n, p) * cores }},
		{"bytes", "bytes on disk", func(n int, p *point) { p.bytes["fetch"] += 4e6 * float64(max(0, n-15)) }},
		{"files", "files a round", func(n int, p *point) { p.files += 50 * float64(max(0, n-15)) }},
		{"memory", "mextract took 65 MiB", func(n int, p *point) {
			if n == 12 {
				p.rss["mextract"] = 65
			}
		}},
		{"memory of mfetch", "mfetch took 129 MiB", func(n int, p *point) { p.rss["mfetch"] = 129 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			points := run20()
			for n := range points {
				c.change(n, &points[n])
			}
			var out bytes.Buffer
			flat := judge(&out, options{name: c.name, minutes: 20}, points, nil, nil)
			_, said, _ := strings.Cut(out.String(), "WRONG: ")
			if flat != (c.want == "") || !strings.HasPrefix(said, c.want) || strings.Count(said, "WRONG") > 0 {
				t.Errorf("%s: flat %v, %q, want %q", c.name, flat, said, c.want)
			}
		})
	}
	if judge(new(bytes.Buffer), options{minutes: 20}, run20(), map[string][2]float64{"mckpt verify": {1, 70}}, nil) {
		t.Error("mckpt verify of 70 MiB passes")
	}
	if judge(new(bytes.Buffer), options{minutes: 20}, run20(), nil, []string{"1 URLs were deferred"}) {
		t.Error("a deferred URL passes")
	}
}

// TestFiles: a run leaves a table with a row for each minute, and plots.
func TestFiles(t *testing.T) {
	o := options{out: t.TempDir(), name: "small", minutes: 20}
	if err := write(o, run20()); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(o.out, "small.csv"))
	if err != nil || strings.Count(string(table), "\n") != 21 {
		t.Errorf("%s, %v: want a head and 20 rows", table, err)
	}
	plots, err := os.ReadFile(filepath.Join(o.out, "small.svg"))
	if err != nil || !strings.HasSuffix(string(plots), "</svg>\n") || strings.Count(string(plots), "<text") < 6 || strings.Contains(string(plots), "922337203685477") {
		t.Errorf("%d bytes, %v: want six plots, without an axis out of sight", len(plots), err)
	}
}

// TestRoom: a run that will not fit on the disk ends early, but not in its first tenth.
func TestRoom(t *testing.T) {
	points := run20()
	for n := range points {
		points[n].bytes["fetch"] *= 1e9
	}
	o, end := options{dir: t.TempDir(), minutes: 20}, time.Now().Add(time.Hour)
	if err := room(o, points, end); err == nil || !strings.Contains(err.Error(), "GB are free") {
		t.Errorf("%v, want an error that says how much is free", err)
	}
	if err := room(o, points[:2], end); err != nil {
		t.Error(err)
	}
	if err := room(o, run20(), end); err != nil {
		t.Error(err)
	}
}
