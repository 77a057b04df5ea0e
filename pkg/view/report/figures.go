package report

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/pkg/view/stats"
)

// maxBars is how many bars the rounds of a crawl have at most: neighbours share one.
const maxBars = 40

// series are the values of one line, or of one part of each bar. Color is a color of the page's style.
type series struct {
	Name   string    `json:"name"`
	Color  string    `json:"color"`
	Values []float64 `json:"values"`
}

// figure is a figure for page.js to draw: lines over time or by number, or bars. The axes reach from XMin to XMax and from 0 to YMax.
type figure struct {
	Title   string `json:"-"`
	Note    string `json:"-"`
	Command string `json:"-"` // command that gives these values

	XTitle string   `json:"xtitle"`
	YTitle string   `json:"ytitle"`
	Unit   string   `json:"unit"`
	Time   bool     `json:"time"`  // X are seconds since 1970
	Whole  bool     `json:"whole"` // values are whole numbers
	Bar    float64  `json:"bar"`   // how far a bar reaches on the axis; 0: lines
	Labels []string `json:"labels,omitempty"`

	X      []float64 `json:"x"` // rising
	XMin   float64   `json:"xmin"`
	XMax   float64   `json:"xmax"`
	YMax   float64   `json:"ymax"`
	Series []series  `json:"series"`

	label func(float64) string // of a bar; nil: its number
}

// reach has the axes reach as far as the axes of another crawl's figure.
func (f *figure) reach(o *figure) {
	if f.Time {
		f.XMax = max(f.XMax, f.XMin+o.XMax-o.XMin)
	} else {
		f.XMin, f.XMax = min(f.XMin, o.XMin), max(f.XMax, o.XMax)
	}
	f.YMax = max(f.YMax, o.YMax)
}

// figures returns the figures of a crawl, with the axes of all crawls on the page. A figure with too few values is left out.
func figures(c *Crawl, shown []*Crawl) (list []*figure) {
	rounds := 0
	for _, c := range shown {
		if c.Times != nil {
			rounds = max(rounds, len(c.Times.ByRound))
		}
	}
	list = figuresOf(c, rounds)
	for _, other := range shown {
		if other == c {
			continue
		}
		for _, o := range figuresOf(other, rounds) {
			if i := slices.IndexFunc(list, func(f *figure) bool { return f.Title == o.Title }); i >= 0 {
				list[i].reach(o)
			}
		}
	}
	for _, f := range list {
		f.Command = "mcrawl stats " + c.Folder + " --json | jq " + f.Command
		for x := f.XMin; f.label != nil && x <= f.XMax; x++ {
			f.Labels = append(f.Labels, f.label(x))
		}
	}
	return list
}

// figuresOf are the figures of one crawl. Its rounds share bars as if it had as many as rounds.
func figuresOf(c *Crawl, rounds int) (list []*figure) {
	add := func(f *figure) {
		if len(f.X) == 0 || len(f.Series) == 0 || f.Bar == 0 && f.X[0] >= f.X[len(f.X)-1] {
			return
		}
		f.XMin, f.XMax = f.X[0], f.X[len(f.X)-1]
		for _, s := range f.Series {
			f.YMax = max(f.YMax, slices.Max(s.Values))
		}
		list = append(list, f)
	}
	times := func(n int, text func(int) string) (x []float64, at []int) {
		for i := range n {
			if t, err := time.Parse(time.RFC3339, text(i)); err == nil {
				x, at = append(x, float64(t.UnixNano())/1e9), append(at, i)
			}
		}
		return x, at
	}
	values := func(at []int, value func(int) float64) (list []float64) {
		for _, i := range at {
			list = append(list, value(i))
		}
		return list
	}
	x, at := times(len(c.Timeline), func(i int) string { return c.Timeline[i].Start })
	if slot := c.SlotS; slot > 0 {
		add(&figure{Title: "Pages a second", Note: "replies, and attempts without a reply", Command: ".timeline", XTitle: "time (UTC)", YTitle: "pages / s", Time: true, X: x, Series: []series{
			{"replies", "a", values(at, func(i int) float64 { return float64(c.Timeline[i].Replies) / slot })},
			{"no reply", "b", values(at, func(i int) float64 { return float64(c.Timeline[i].Errors) / slot })}}})
		add(&figure{Title: "Megabytes a second", Note: "decoded bodies of documents", Command: ".timeline", XTitle: "time (UTC)", YTitle: "MB / s", Unit: " MB/s", Time: true, X: x, Series: []series{
			{"bytes", "a", values(at, func(i int) float64 { return float64(c.Timeline[i].Bytes) / slot / 1e6 })}}})
	}
	x, at = times(len(c.Growth), func(i int) string { return c.Growth[i].Made })
	known := values(at, func(i int) float64 { return float64(c.Growth[i].Known) })
	add(&figure{Title: "The URL space over time", Note: "URLs known, and URLs taken into batches, each as often as it was taken", Command: ".growth", XTitle: "time (UTC)", YTitle: "URLs", Whole: true, Time: true, X: x, Series: []series{
		{"known", "a", known}, {"taken", "b", values(at, func(i int) float64 { return float64(c.Growth[i].Taken) })}}})
	add(&figure{Title: "The URL space by round", Note: "URLs known after each", Command: ".growth", XTitle: "round", YTitle: "URLs", Whole: true, X: numbers(len(known)), Series: []series{{"known", "a", known}}})

	bins := func(title, note, command, xtitle, ytitle string, bins []stats.Bin, x func(int64) float64, label func(float64) string) {
		f := &figure{Title: title, Note: note, Command: command, XTitle: xtitle, YTitle: ytitle, Whole: true, Bar: 1, Series: []series{{ytitle, "a", nil}}, label: label}
		for _, b := range bins {
			f.X = append(f.X, x(b.From))
			f.Series[0].Values = append(f.Series[0].Values, float64(b.N))
		}
		add(f)
	}
	octave := func(from int64) float64 { return float64(bits.Len64(uint64(from))) }
	first := func(octave float64) int64 { return 1 << int(octave) >> 1 } // 0, 1, 2, 4, 8
	bins("Sizes of documents", "decoded bytes, in powers of two", ".sizes", "bytes, from", "documents", c.Sizes, octave, func(x float64) string { return power(first(x)) })
	bins("Durations of contacts", "in powers of two", ".durations_us", "duration, from", "contacts", c.Durations, octave, func(x float64) string { return strings.ReplaceAll(seconds(float64(first(x))/1e6), " ", "") })
	bins("Depth", "documents by links from a seed", ".depths", "links from a seed", "documents", c.Depths, func(from int64) float64 { return float64(from) }, nil)

	if t := c.Times; t != nil {
		step := max(1, (rounds+maxBars-1)/maxBars)
		stack := &figure{Title: "Where the time went, by round", Note: "shares of each round's time", Command: ".times", XTitle: "round", YTitle: "% of the time", Unit: " %", Bar: float64(step)}
		if step > 1 {
			stack.XTitle = "round, " + strconv.Itoa(step) + " a bar, from"
		}
		var sums []stats.Spread
		for from := 0; from < len(t.ByRound); from += step {
			stack.X = append(stack.X, float64(from+1))
			sums = append(sums, stats.Sum(t.ByRound[from:min(from+step, len(t.ByRound))]))
		}
		for _, part := range stats.Sum(t.ByRound).Parts() {
			s := series{part.Name, part.Name, make([]float64, len(sums))}
			for i, sum := range sums {
				all := 0.0
				for _, p := range sum.Parts() {
					all += p.S
				}
				for _, p := range sum.Parts() {
					if p.Name == part.Name {
						s.Values[i] = 100 * p.S / all
					}
				}
			}
			stack.Series = append(stack.Series, s)
		}
		add(stack)
		stack.YMax = 100
		names := &figure{Title: "Share of names, by round", Note: "of the time of the round, and what it would be if each page waited for its name alone, one page after the other", Command: ".times", XTitle: "round", YTitle: "% of the time", Unit: " %", X: numbers(len(t.ByRound)), Series: []series{{"of the round", "a", nil}, {"one after the other", "b", nil}}}
		for _, s := range t.ByRound {
			names.Series[0].Values = append(names.Series[0].Values, 100*s.NamesOfElapsed)
			names.Series[1].Values = append(names.Series[1].Values, 100*s.NamesOfThread)
		}
		add(names)
	}
	if f := c.Focus; f != nil {
		harvest := &figure{Title: "Harvest, by round", Note: "relevant documents of those fetched", Command: ".focus", XTitle: "round", YTitle: "% of documents", Unit: " %", X: numbers(len(f.ByRound)), Series: []series{{"relevant", "a", nil}}}
		for _, y := range f.ByRound {
			harvest.Series[0].Values = append(harvest.Series[0].Values, 100*y.Harvest)
		}
		add(harvest)
	}
	return list
}

// numbers are 1 to n.
func numbers(n int) (list []float64) {
	for i := range n {
		list = append(list, float64(i+1))
	}
	return list
}
