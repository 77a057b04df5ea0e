// Package report writes what a crawl found as one HTML page that opens without a network.
//
// The page is made of the figures of pkg/stats and of where the crawl stands, so its memory is bounded as theirs
// is. Plots are SVG; tables can be searched and sorted. Names, URLs and types come from servers: they are data
// everywhere (html/template), plots have numbers and dates only, and the page's policy lets it load nothing.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/history"
	"mercator/pkg/stats"
)

// Crawl is what a page shows of one crawl.
type Crawl struct {
	Name   string // of its folder
	Folder string // as it was named, quoted for a shell
	Policy string
	Round  string // the last that was closed; "": none
	Made   string // when that was

	Known, Done, Waiting uint64 // URLs
	Running              bool   // a driver works
	Left                 string // about how long the rest takes; "": unknown, or nothing is left

	Drops  []record.Count // URLs and links left out, by stage and reason
	Shards []Shard        // of a crawl of several
	*stats.Stats

	Broken     *Broken      // nil: nobody looked for broken links
	Documented *stats.Pages // nil: nobody read the documents
}

// Broken are links whose target failed.
type Broken struct {
	Links, Pages uint64
	Unchecked    string // URLs that nobody asked for, by reason
	First        []history.Broken
}

// Shard is what one shard did.
type Shard struct {
	Name                  string
	Known, Taken, Fetched uint64 // in the last round: URLs that the URL-seen test let through; taken into the batch; rows of mfetch
}

// Options are how the page is written.
type Options struct {
	Now     time.Time
	Refresh time.Duration // the page loads itself again after this time; 0: never
	Other   *Crawl        // shown beside
	Between *stats.Comparison
}

// source is the page; pages the tables that are about single pages.
var (
	//go:embed page.html
	source string
	//go:embed pages.html
	pages string
)

// Write writes the page.
func Write(out io.Writer, c *Crawl, opt Options) error {
	page, err := template.New("page").Funcs(template.FuncMap{
		"bytes": bytesText, "count": countText, "share": share, "seconds": seconds, "micro": func(us float64) string { return seconds(us / 1e6) },
		"when": when, "name": nameText, "rate": rate, "plots": plots, "max": mostOf, "width": width, "percent": percent, "part": partOf, "wide": wide,
		"micro64": func(us int64) string { return seconds(float64(us) / 1e6) },
	}).Parse(pages)
	if err == nil {
		page, err = page.Parse(source)
	}
	if err != nil {
		return err
	}
	crawls := []*Crawl{c}
	if opt.Other != nil {
		crawls = append(crawls, opt.Other)
	}
	return page.Execute(out, struct {
		Options
		Crawls []*Crawl
	}{opt, crawls})
}

// countText is a number with a thin space between thousands.
func countText(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// bytesText is a number of bytes in a unit of 1,000.
func bytesText(n int64) string {
	v := float64(n)
	for _, unit := range []string{"B", "kB", "MB", "GB", "TB"} {
		if v < 1000 || unit == "TB" {
			return strconv.FormatFloat(v, 'g', 3, 64) + " " + unit
		}
		v /= 1000
	}
	return ""
}

// power is a power of two in the unit of 1,024 that reads best.
func power(n int64) string {
	unit := 0
	for ; n >= 1024 && unit < 4; unit++ {
		n /= 1024
	}
	return strconv.FormatInt(n, 10) + []string{"", "K", "M", "G", "T"}[unit]
}

// percent is a share of 1.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

// partOf is the share of a part, and wide the width of its bar.
func partOf(s, all float64) float64 { return s / max(all, 1e-9) }

func wide(s, all float64) template.CSS {
	return template.CSS(strconv.FormatFloat(100*partOf(s, all), 'f', 1, 64) + "%")
}

func share(n, of uint64) string {
	if of == 0 {
		return ""
	}
	return strconv.FormatFloat(100*float64(n)/float64(of), 'f', 1, 64) + " %"
}

// seconds is a time in the unit that reads best.
func seconds(s float64) string {
	switch {
	case s == 0:
		return "0"
	case s < 1e-3:
		return strconv.FormatFloat(s*1e6, 'g', 3, 64) + " µs"
	case s < 1:
		return strconv.FormatFloat(s*1e3, 'g', 3, 64) + " ms"
	case s < 120:
		return strconv.FormatFloat(s, 'g', 3, 64) + " s"
	case s < 2*86400:
		return time.Duration(s * 1e9).Round(time.Second).String()
	}
	return strconv.FormatFloat(s/86400, 'g', 3, 64) + " days"
}

// when is a time of a record, without its fraction of a second.
func when(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func nameText(name string) string {
	if name == "" {
		return "(none)"
	}
	return name
}

// rate is replies a second over the whole crawl.
func rate(c *Crawl) string {
	first, err := time.Parse(time.RFC3339, c.First)
	last, err2 := time.Parse(time.RFC3339, c.Last)
	if err != nil || err2 != nil || !last.After(first) {
		return ""
	}
	var replies uint64
	for _, s := range c.Statuses {
		replies += s.N
	}
	return strconv.FormatFloat(float64(replies)/last.Sub(first).Seconds(), 'g', 3, 64)
}

// mostOf is the largest number of a list, which has the longest bar.
func mostOf(list any) (most uint64) {
	switch list := list.(type) {
	case []record.Count:
		for _, c := range list {
			most = max(most, c.N)
		}
	case []stats.Type:
		for _, t := range list {
			most = max(most, t.Documents)
		}
	case []stats.Domain:
		for _, d := range list {
			most = max(most, d.Servers)
		}
	}
	return most
}

// width is the width of a bar, in percent.
func width(n, most uint64) template.CSS {
	return template.CSS(strconv.FormatFloat(100*float64(n)/float64(max(most, 1)), 'f', 1, 64) + "%")
}

// plot is a picture with what it shows.
type plot struct {
	Title, Note, Command string
	SVG                  template.HTML
}

// plots draws the plots of a crawl with the axes of both crawls that the page shows. One with too few figures yet is left out.
func plots(c *Crawl, shown []*Crawl) (list []plot, err error) {
	var beside []figure
	for _, other := range shown {
		if other != c {
			beside = figures(other)
		}
	}
	for _, f := range figures(c) {
		for _, o := range beside {
			if o.title == f.title {
				f = f.with(o)
			}
		}
		svg, err := f.draw()
		if err != nil {
			return nil, err
		}
		if svg != "" {
			list = append(list, plot{f.title, f.note, "mcrawl stats " + c.Folder + " --json | jq " + f.query, svg})
		}
	}
	return list, nil
}

// figures are those of the plots of a crawl.
func figures(c *Crawl) (list []figure) {
	slot := c.SlotS
	var times []time.Time
	var replies, errors, bytes []float64
	for _, s := range c.Timeline {
		t, e := time.Parse(time.RFC3339, s.Start)
		if e != nil || slot <= 0 {
			continue
		}
		times = append(times, t)
		replies = append(replies, float64(s.Replies)/slot)
		errors = append(errors, float64(s.Errors)/slot)
		bytes = append(bytes, float64(s.Bytes)/slot/1e6)
	}
	list = append(list, figure{title: "Pages a second", note: "replies (solid) and attempts without a reply (dotted)", query: ".timeline", times: times, series: [][]float64{replies, errors}},
		figure{title: "Megabytes a second", note: "decoded bodies of documents", query: ".timeline", times: times, series: [][]float64{bytes}})
	times = nil
	var known, taken []float64
	for _, g := range c.Growth {
		t, e := time.Parse(time.RFC3339, g.Made)
		if e != nil {
			continue
		}
		times = append(times, t)
		known = append(known, float64(g.Known))
		taken = append(taken, float64(g.Taken))
	}
	list = append(list, figure{title: "The URL space over time", note: "URLs known (solid), URLs taken into batches, each as often as it was taken (dotted)", query: ".growth", counts: true, times: times, series: [][]float64{known, taken}},
		figure{title: "The URL space by round", note: "URLs known after each", query: ".growth", counts: true, series: [][]float64{known}},
		figure{title: "Sizes of documents", note: "documents by decoded bytes, in powers of two", query: ".sizes", bins: c.Sizes, label: func(b stats.Bin) string { return power(b.From) }},
		figure{title: "Durations of contacts", note: "contacts by duration, in powers of two", query: ".durations_us", bins: c.Durations, label: func(b stats.Bin) string { return strings.ReplaceAll(seconds(float64(b.From)/1e6), " ", "") }},
		figure{title: "Depth", note: "documents by links from a seed", query: ".depths", bins: c.Depths, label: func(b stats.Bin) string { return strconv.FormatInt(b.From, 10) }})
	if t := c.Times; t != nil {
		var elapsed, thread []float64
		for _, s := range t.ByRound {
			elapsed, thread = append(elapsed, 100*s.NamesOfElapsed), append(thread, 100*s.NamesOfThread)
		}
		list = append(list, figure{title: "Where the time went, by round", note: "shares of each round's time, in the colours of the table; many rounds share a bar", query: ".times", spreads: t.ByRound},
			figure{title: "Share of names, by round", note: "percent of the time of the round (solid), and what it would be if each page waited for its name alone, one page after the other (dotted)", query: ".times", series: [][]float64{elapsed, thread}})
	}
	if f := c.Focus; f != nil {
		var harvest []float64
		for _, y := range f.ByRound {
			harvest = append(harvest, 100*y.Harvest)
		}
		list = append(list, figure{title: "Harvest, by round", note: "relevant documents, percent of those fetched", query: ".focus", series: [][]float64{harvest}})
	}
	return list
}
