package report

import (
	"bytes"
	"encoding/json"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/history"
	"mercator/pkg/stats"
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

// What servers send is data: it opens no tag and ends no script, and the figures in the page are those of the crawl.
func TestHostileNames(t *testing.T) {
	a := everywhere(hostile)
	var b bytes.Buffer
	if err := Write(&b, a, Options{Now: time.Unix(0, 0), Other: everywhere(hostile), Between: &stats.Comparison{Examples: []stats.Difference{{What: "appeared", URL: hostile, Here: hostile}}}}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, bad := range []string{"<script>alert", "<img", "{{", "href=", "src="} {
		rest := strings.ReplaceAll(page, `src=http://192.0.2.1/x onerror`, "") // as text, behind an escaped "<"
		if i := strings.Index(rest, bad); i >= 0 && bad != "{{" {
			t.Errorf("the page has %q: %s", bad, rest[max(0, i-40):i+40])
		}
	}
	if n := strings.Count(page, "<script"); n != 3 {
		t.Errorf("%d scripts, want the page's own and the figures of two crawls", n)
	}
	if n := strings.Count(page, "<svg"); n != 20 {
		t.Errorf("%d plots, want 10 of each crawl", n)
	}
	if strings.Contains(page, "922337203685477") {
		t.Error("an axis out of sight")
	}
	if n := strings.Count(page, `class="line `); n != 18 {
		t.Errorf("%d lines, want 9 of each crawl: two of pages, one of bytes, two of the URL space over time, one by round, two of names, one of the harvest", n)
	}
	figures := regexp.MustCompile(`(?s)<script type="application/json" class="figures">(.*?)</script>`).FindStringSubmatch(page)
	if figures == nil {
		t.Fatal("no figures")
	}
	got := new(stats.Stats)
	if err := json.Unmarshal([]byte(figures[1]), got); err != nil {
		t.Fatal(err)
	}
	was, err := json.Marshal(a.Stats)
	if err != nil {
		t.Fatal(err)
	}
	is, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(was, is) {
		t.Errorf("figures %s, want %s", is, was)
	}
}

// One is no plural, and of many bars each second one has a label.
func TestFewAndMany(t *testing.T) {
	s := &stats.Stats{Documents: 1, Duplicates: 1, Servers: 2, Hosts: 1}
	for i := range 16 {
		s.Sizes = append(s.Sizes, stats.Bin{From: 1 << i, To: 2<<i - 1, N: 1})
	}
	var b bytes.Buffer
	if err := Write(&b, &Crawl{Name: "few", Stats: s}, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"</b>document, ", "</b>duplicate, ", "</b>servers of 1 host<", ">1K</text>", ">16K</text>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(b.String(), ">32K</text>") || strings.Contains(b.String(), ">2K</text>") {
		t.Error("each bar has a label")
	}
}

// A crawl that has fetched nothing, or only once, has a page without plots.
func TestWithoutFigures(t *testing.T) {
	for _, s := range []*stats.Stats{{}, {Attempts: 1, Timeline: []stats.Slot{{Start: "2026-01-01T00:00:00Z", Replies: 1}}, SlotS: 1, Growth: []stats.Growth{{Made: "2026-01-01T00:00:00Z"}}}} {
		var b bytes.Buffer
		if err := Write(&b, &Crawl{Name: "empty", Stats: s}, Options{Refresh: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "<svg") || !strings.Contains(b.String(), `content="10"`) {
			t.Errorf("plots of nothing, or no refresh: %s", b.String())
		}
	}
}

func TestUnits(t *testing.T) {
	for got, want := range map[string]string{
		countText(1234567): "1\u202f234\u202f567", countText(999): "999", bytesText(0): "0 B", bytesText(13129379): "13.1 MB",
		seconds(0.0000025): "2.5 µs", seconds(90): "90 s", seconds(3600): "1h0m0s", seconds(864000): "10 days", share(1, 3): "33.3 %", share(0, 0): "",
		power(0): "0", power(512): "512", power(1 << 11): "2K", power(1 << 29): "512M",
		whole(2880.4): "2880", whole(0.25): "0.25", whole(1.5e6): "1.5M",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTicks: labels of counts and rounds are whole numbers, each once, and reach the largest value.
func TestTicks(t *testing.T) {
	for most, want := range map[float64]string{1: "0 1", 3: "0 1 2 3", 4: "0 1 2 3 4", 15: "0 5 10 15", 63: "0 20 40 60 80", 1e6: "0 200k 400k 600k 800k 1M"} {
		var got []string
		for _, tick := range ticks(most, true) {
			got = append(got, tick.Label)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%v: %s, want %s", most, text, want)
		}
	}
	svg, err := (&figure{counts: true, series: [][]float64{{1, 2, 3}}}).steps()
	if err != nil || strings.Count(string(svg), ">2</text>") != 2 || strings.Count(string(svg), ">1</text>") != 2 {
		t.Errorf("rounds 1 to 3 and counts 0 to 3: %v, %s", err, svg)
	}
	var b bytes.Buffer
	c := everywhere("r1")
	c.Folder, c.Running, c.Made = "'my crawl'", true, "2026-01-01T00:01:00Z"
	if err := Write(&b, c, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mcrawl stats &#39;my crawl&#39; --json | jq .timeline", "Figures as of round r1, closed 2026-01-01 00:01:00. The crawl runs: "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// Of two crawls beside each other each plot has one axis: as many rounds, as long a time, as many bins, values up to the same number.
func TestOneAxis(t *testing.T) {
	crawl := func(n int) *Crawl {
		s := &stats.Stats{SlotS: 1, Sizes: []stats.Bin{{From: 1 << n, To: 2<<n - 1, N: uint64(n)}}}
		for i := range n {
			at := time.Date(2026, 1, n, 0, 0, 10*i, 0, time.UTC).Format(time.RFC3339)
			s.Timeline = append(s.Timeline, stats.Slot{Start: at, Replies: uint64(100 * n)})
			s.Growth = append(s.Growth, stats.Growth{Made: at, Known: uint64(1000 * n)})
		}
		return &Crawl{Stats: s}
	}
	small, large := crawl(2), crawl(5)
	label := regexp.MustCompile(`>([^<>]+)</text>`)
	labels := func(svg template.HTML) (list []string) {
		for _, m := range label.FindAllStringSubmatch(string(svg), -1) {
			list = append(list, m[1])
		}
		return list
	}
	both := []*Crawl{small, large}
	a, err := plots(small, both)
	if err != nil {
		t.Fatal(err)
	}
	b, err := plots(large, both)
	if err != nil {
		t.Fatal(err)
	}
	if len(a) != 5 || len(b) != 5 {
		t.Fatalf("%d and %d plots", len(a), len(b))
	}
	for i := range a {
		if got, want := labels(a[i].SVG), labels(b[i].SVG); len(want) < 3 || !slices.Equal(got, want) {
			t.Errorf("%s: axes %q and %q", a[i].Title, got, want)
		}
	}
}
