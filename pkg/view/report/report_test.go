package report

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/view/history"
	"mercator/pkg/view/stats"
)

const hostile = `"><script>alert(1)</script><img src=http://192.0.2.1/x onerror=alert(2)>{{.}}</script>`

// everywhere has a hostile text wherever a server, a user or a file can put one.
func everywhere(text string) *Crawl {
	host := stats.Host{Name: text, Attempts: 3, Errors: 1, Error: text, ErrorURL: "javascript:" + text, MeanUS: 12}
	return &Crawl{Name: text, Policy: text, Round: text, Made: text, Left: text, Known: 12345, Drops: []record.Count{{Reason: text, N: 1}},
		Shards: []Shard{{Name: text}},
		Stats: &stats.Stats{First: "2026-01-01T00:00:00Z", Last: "2026-01-01T00:01:00Z", Attempts: 3,
			Outcomes: []record.Count{{Reason: text, N: 3}}, Statuses: []record.Count{{Reason: text, N: 2}}, Documents: 2, Bytes: 1 << 40,
			Types: []stats.Type{{Name: text, Documents: 2}}, Domains: []stats.Domain{{Name: text, Servers: 1}},
			Sizes: []stats.Bin{{From: 1, To: 1, N: 1}, {From: 1 << 20, To: 1<<21 - 1, N: 1}}, Durations: []stats.Bin{{From: 0, To: 0, N: 2}}, Depths: make([]stats.Bin, 60),
			Largest: []stats.Host{host}, Failing: []stats.Host{host}, Slowest: []stats.Host{host},
			Timeline: []stats.Slot{{Start: "2026-01-01T00:00:00Z"}, {Start: "2026-01-01T00:00:30Z", Replies: 2, Bytes: 5}}, SlotS: 30,
			Growth: []stats.Growth{{Round: text, Made: "2026-01-01T00:00:00Z", Known: 1}, {Round: text, Made: "2026-01-01T00:01:00Z", Known: 9, Taken: 4}},
			Times:  &stats.Times{Rounds: 2, Spread: stats.Spread{ElapsedS: 2, NamesS: 1, FetchingS: 1, NamesOfElapsed: 0.5}, ByRound: []stats.Spread{{Round: text, ElapsedS: 1, NamesS: 1}, {Round: text, ElapsedS: 1, FetchingS: 1}}},
			Focus: &stats.Focus{Yield: stats.Yield{Fetched: 4, Relevant: 1, Harvest: 0.25}, Topics: []stats.Topic{{Name: text, Documents: 1}},
				ByRound: []stats.Yield{{Round: text, Fetched: 2}, {Round: text, Fetched: 2, Relevant: 1, Harvest: 0.5}}},
			Changes: &stats.Changes{Pages: 1, Lives: []stats.Lives{{By: "type", Name: text, Ended: 1, MedianS: 3}}},
		},
		Broken: &Broken{Links: 1, Unchecked: text, First: []history.Broken{{Page: text, Kind: text, Text: text, URL: text, Redirects: []string{text}, Failure: text}}},
		Documented: &stats.Pages{WithoutTitle: stats.Lack{N: 1, URLs: []string{text}}, Shared: []stats.Title{{Title: text, N: 2, URLs: []string{text}}},
			Slowest: []stats.Page{{URL: text, MIME: text}}, Largest: []stats.Page{{URL: text, MIME: text}}}}
}

// What servers send is data: it opens no tag and ends no script, and the figures in the page are the crawl's.
func TestHostileNames(t *testing.T) {
	a := everywhere(hostile)
	var b bytes.Buffer
	must.OK(t, Write(&b, a, Options{Now: time.Unix(0, 0), Other: everywhere(hostile), Between: &stats.Comparison{Examples: []stats.Difference{{What: "new", URL: hostile, Here: hostile}}}}))
	page := b.String()
	for _, bad := range []string{"<script>alert", "<img", "{{", "href=", "src="} {
		rest := strings.ReplaceAll(page, `src=http://192.0.2.1/x onerror`, "") // as text, behind an escaped "<"
		if i := strings.Index(rest, bad); i >= 0 && bad != "{{" {
			t.Errorf("the page has %q: %s", bad, rest[max(0, i-40):i+40])
		}
	}
	if n := strings.Count(page, "<script"); n != 23 {
		t.Errorf("%d scripts, want the page's own, the statistics of two crawls, and 10 figures of each", n)
	}
	if a, b := strings.Count(page, "<script"), strings.Count(page, "</script"); a != b {
		t.Errorf("%d scripts begin, %d end", a, b)
	}
	if n := len(plots(t, page)); n != 20 {
		t.Errorf("%d plots, want 10 of each crawl", n)
	}
	if !strings.Contains(page, "Permission is hereby granted, free of charge") {
		t.Error("uPlot without its licence")
	}
	figures := regexp.MustCompile(`(?s)<script type="application/json" class="figures">(.*?)</script>`).FindStringSubmatch(page)
	if figures == nil {
		t.Fatal("no figures")
	}
	got := new(stats.Stats)
	must.OK(t, json.Unmarshal([]byte(figures[1]), got))
	was, err := json.Marshal(a.Stats)
	must.OK(t, err)
	is, err := json.Marshal(got)
	must.OK(t, err)
	if !bytes.Equal(was, is) {
		t.Errorf("figures %s, want %s", is, was)
	}
}

// plots are the figures of a page, as page.js reads them.
func plots(t *testing.T, page string) (list []figure) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?s)<figure><script type="application/json">(.*?)</script>`).FindAllStringSubmatch(page, -1) {
		var f figure
		if err := json.Unmarshal([]byte(m[1]), &f); err != nil {
			t.Fatalf("%v: %s", err, m[1])
		}
		for _, s := range f.Series {
			if len(s.Values) != len(f.X) || !slices.IsSorted(f.X) || f.XTitle == "" || f.YTitle == "" || slices.Max(s.Values) > f.YMax+1e-9 || f.X[0] < f.XMin || f.X[len(f.X)-1] > f.XMax {
				t.Errorf("a figure that cannot be drawn: %s", m[1])
			}
		}
		list = append(list, f)
	}
	return list
}

// write writes a page.
func write(t *testing.T, c *Crawl, opt Options) string {
	t.Helper()
	var b strings.Builder
	must.OK(t, Write(&b, c, opt))
	return b.String()
}

// One is no plural.
func TestFew(t *testing.T) {
	page := write(t, &Crawl{Name: "few", Stats: &stats.Stats{Documents: 1, Duplicates: 1, Servers: 2, Hosts: 1}}, Options{})
	for _, want := range []string{"</b>document, ", "</b>duplicate, ", "</b>servers of 1 host<"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
}

// A crawl that has fetched nothing, or only once, has a page without plots.
func TestWithoutFigures(t *testing.T) {
	for _, s := range []*stats.Stats{{}, {Attempts: 1, Timeline: []stats.Slot{{Start: "2026-01-01T00:00:00Z", Replies: 1}}, SlotS: 1, Growth: []stats.Growth{{Made: "2026-01-01T00:00:00Z"}}}} {
		page := write(t, &Crawl{Name: "empty", Stats: s}, Options{Refresh: 10 * time.Second})
		if len(plots(t, page)) > 0 || !strings.Contains(page, `content="10"`) {
			t.Errorf("plots of nothing, or no refresh: %s", page)
		}
	}
}

func TestUnits(t *testing.T) {
	for got, want := range map[string]string{
		countText(1234567): "1\u202f234\u202f567", countText(999): "999", bytesText(0): "0 B", bytesText(13129379): "13.1 MB",
		seconds(0.0000025): "2.5 µs", seconds(90): "90 s", seconds(3600): "1h0m0s", seconds(864000): "10 days", share(1, 3): "33.3 %", share(0, 0): "",
		power(0): "0", power(512): "512", power(1 << 11): "2K", power(1 << 29): "512M",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWords: a figure names the command that gives it, by the crawl's quoted name.
func TestWords(t *testing.T) {
	c := everywhere("r1")
	c.Folder, c.Running, c.Made = "'my crawl'", true, "2026-01-01T00:01:00Z"
	page := write(t, c, Options{})
	for _, want := range []string{"mcrawl stats &#39;my crawl&#39; --json | jq .timeline", "Figures as of round r1, closed 2026-01-01 00:01:00. The crawl runs: "} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// TestFigures: what the figures of a small crawl say.
func TestFigures(t *testing.T) {
	s := &stats.Stats{SlotS: 30, Timeline: []stats.Slot{{Start: "1970-01-01T00:00:00Z", Replies: 60, Errors: 3, Bytes: 6e7}, {Start: "1970-01-01T00:00:30Z"}},
		Sizes: []stats.Bin{{From: 0, N: 1}, {From: 1, To: 1, N: 5}, {From: 1024, To: 2047, N: 2}}, Depths: []stats.Bin{{From: 0, N: 1}, {From: 9, To: 9, N: 2}}, Times: &stats.Times{}}
	for range 50 {
		s.Times.ByRound = append(s.Times.ByRound, stats.Spread{ElapsedS: 4, NamesS: 1, FetchingS: 3, NamesOfElapsed: 0.25})
	}
	list := plots(t, write(t, &Crawl{Name: "small", Stats: s}, Options{}))
	if len(list) != 6 {
		t.Fatalf("%d figures", len(list))
	}
	pages, bytes, sizes, depth, stack, names := list[0], list[1], list[2], list[3], list[4], list[5]
	for got, want := range map[string][]float64{
		"pages": {pages.X[1], pages.Series[0].Values[0], pages.Series[1].Values[0], pages.YMax}, "bytes": {bytes.Series[0].Values[0]},
		"sizes": sizes.X, "documents": sizes.Series[0].Values, "depth": {depth.XMin, depth.XMax, depth.Bar},
		"stack": {float64(len(stack.X)), stack.X[1], stack.Bar, stack.Series[0].Values[24], stack.Series[1].Values[0], stack.YMax}, "names": {float64(len(names.X)), names.Series[0].Values[49]},
	} {
		if is := map[string][]float64{"pages": {30, 2, 0.1, 2}, "bytes": {2}, "sizes": {0, 1, 11}, "documents": {1, 5, 2}, "depth": {0, 9, 1},
			"stack": {25, 3, 2, 25, 75, 100}, "names": {50, 25}}[got]; !slices.Equal(is, want) {
			t.Errorf("%s: %v, want %v", got, want, is)
		}
	}
	if got := strings.Join(sizes.Labels, " "); got != "0 1 2 4 8 16 32 64 128 256 512 1K" {
		t.Errorf("bars without documents are left out: %s", got)
	}
}

// Of two crawls beside each other each plot has one axis: as many rounds, as long a time, as many bins, values up to the same number.
func TestOneAxis(t *testing.T) {
	crawl := func(n int) *Crawl {
		s := &stats.Stats{SlotS: 1, Sizes: []stats.Bin{{From: 1 << n, To: 2<<n - 1, N: uint64(n)}}, Times: &stats.Times{ByRound: slices.Repeat([]stats.Spread{{ElapsedS: 1, NamesS: 1}}, 20*n)}}
		for i := range n {
			at := time.Date(2026, 1, n, 0, 0, 10*i, 0, time.UTC).Format(time.RFC3339)
			s.Timeline = append(s.Timeline, stats.Slot{Start: at, Replies: uint64(100 * n)})
			s.Growth = append(s.Growth, stats.Growth{Made: at, Known: uint64(1000 * n)})
		}
		return &Crawl{Stats: s}
	}
	small, large := crawl(2), crawl(5)
	both := write(t, small, Options{Other: large})
	list := plots(t, both)
	if len(list) != 14 {
		t.Fatalf("%d figures", len(list))
	}
	for i, f := range list[:7] {
		o := list[i+7]
		if f.XMax-f.XMin != o.XMax-o.XMin || !f.Time && f.XMin != o.XMin || f.YMax != o.YMax || f.Bar != o.Bar || !slices.Equal(f.Labels, o.Labels) {
			t.Errorf("%s over %s: %v to %v, %v, %q and %v to %v, %v, %q", f.YTitle, f.XTitle, f.XMin, f.XMax, f.YMax, f.Labels, o.XMin, o.XMax, o.YMax, o.Labels)
		}
	}
	if alone := plots(t, write(t, small, Options{})); alone[0].YMax == list[0].YMax || alone[5].XMax == list[5].XMax {
		t.Error("a crawl alone has the axes of two")
	}
}
