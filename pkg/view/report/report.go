// Package report writes what a crawl found as one HTML page that opens without a network.
//
// The page is made of the figures of pkg/view/stats and of where the crawl stands, so its memory is bounded as theirs
// is. uPlot draws the figures from JSON in the page. Tables can be searched and sorted, and show without
// JavaScript. Names, URLs and types come from servers: they are data everywhere (html/template), figures have
// numbers and dates only, and the page's policy lets it load nothing.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"time"

	"mercator/formats/record"
	"mercator/pkg/view/history"
	"mercator/pkg/view/stats"
)

// Crawl holds the facts of one crawl that a page shows.
type Crawl struct {
	Name   string // name of the crawl's folder
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

// Broken are links to a target that failed.
type Broken struct {
	Links, Pages uint64
	Unchecked    string // URLs that nobody asked for, by reason
	First        []history.Broken
}

// Shard holds the figures of one shard.
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

// source is the page; pages the tables that are about single pages; script draws figures and sorts tables. uPlot draws, under the MIT
// licence, which the page repeats.
var (
	//go:embed page.html
	source string
	//go:embed pages.html
	pages string
	//go:embed page.js
	script string
	//go:embed uplot/uPlot.iife.min.js
	uPlot string
	//go:embed uplot/uPlot.min.css
	uPlotStyle string
	//go:embed uplot/LICENSE
	uPlotLicense string
)

// Write writes the page.
func Write(out io.Writer, c *Crawl, opt Options) error {
	page, err := template.New("page").Funcs(template.FuncMap{
		"bytes": bytesText, "count": countText, "share": share, "seconds": seconds, "micro": func(us float64) string { return seconds(us / 1e6) },
		"when": when, "name": nameText, "rate": rate, "figures": figures, "max": largestCount, "width": width, "percent": percent, "part": partOf, "wide": wide,
		"micro64": func(us int64) string { return seconds(float64(us) / 1e6) },
		"style":   func() template.CSS { return template.CSS(uPlotStyle) },
		"script":  func() template.JS { return template.JS("/*\n" + uPlotLicense + "*/\n" + uPlot + script) },
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

// largestCount is the largest number of a list, which has the longest bar.
func largestCount(list any) (largest uint64) {
	switch list := list.(type) {
	case []record.Count:
		for _, c := range list {
			largest = max(largest, c.N)
		}
	case []stats.Type:
		for _, t := range list {
			largest = max(largest, t.Documents)
		}
	case []stats.Domain:
		for _, d := range list {
			largest = max(largest, d.Servers)
		}
	}
	return largest
}

// width is the width of a bar, in percent.
func width(n, largest uint64) template.CSS {
	return template.CSS(strconv.FormatFloat(100*float64(n)/float64(max(largest, 1)), 'f', 1, 64) + "%")
}
