package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/wcharczuk/go-chart/v2"

	"mercator/pkg/stats"
)

// Sizes of a plot, in units of its view box: the page scales it.
const (
	plotWidth  = 720
	plotHeight = 240
	maxBars    = 40
	mostLabels = 14 // of bars, beside each other; of more each second bar has one
)

// classes have the colours of the page, light and dark.
var classes = []string{"line a", "line b"}

// figure is what a plot shows: values over time or, without times, by number from 1; or bins; or spreads.
type figure struct {
	title, note, query string
	counts             bool // values are whole numbers
	times              []time.Time
	series             [][]float64
	bins               []stats.Bin
	label              func(stats.Bin) string
	spreads            []stats.Spread

	// What the axes reach at least, since a plot beside this one does.
	most float64
	last int
	span time.Duration
}

// with has the axes reach as far as those of another.
func (f figure) with(o figure) figure {
	for _, values := range o.series {
		for _, v := range values {
			f.most = max(f.most, v)
		}
		f.last = max(f.last, len(values))
	}
	if len(o.times) > 0 {
		f.span = o.times[len(o.times)-1].Sub(o.times[0])
	}
	bins := slices.Clone(f.bins)
	for _, b := range o.bins {
		f.most = max(f.most, float64(b.N))
		if b.N = 0; !slices.ContainsFunc(f.bins, func(h stats.Bin) bool { return h.From == b.From }) {
			bins = append(bins, b)
		}
	}
	slices.SortFunc(bins, func(a, b stats.Bin) int { return cmp.Compare(a.From, b.From) })
	f.bins = bins
	return f
}

// draw draws nothing for less than two points, or no time between them.
func (f *figure) draw() (template.HTML, error) {
	switch {
	case f.spreads != nil:
		return stacks(f.spreads)
	case f.label != nil:
		return f.bars()
	case len(f.series[0]) < 2:
		return "", nil
	case len(f.times) > 0:
		return f.lines()
	}
	return f.steps()
}

// lines draws values over time.
func (f *figure) lines() (template.HTML, error) {
	first, last := f.times[0], f.times[len(f.times)-1]
	if !last.After(first) {
		return "", nil
	}
	if end := first.Add(f.span); end.After(last) {
		last = end
	}
	format := "15:04:05"
	if span := last.Sub(first); span > 48*time.Hour {
		format = "01-02"
	} else if span > time.Hour {
		format = "02 15:04"
	}
	c := f.frame()
	c.XAxis.ValueFormatter = chart.TimeValueFormatterWithFormat(format)
	c.XAxis.Range = &chart.ContinuousRange{Min: chart.TimeToFloat64(first), Max: chart.TimeToFloat64(last)}
	for i, values := range f.series {
		c.Series = append(c.Series, chart.TimeSeries{Style: chart.Style{ClassName: classes[i]}, XValues: f.times, YValues: values})
	}
	return draw(c)
}

// steps draws values by number.
func (f *figure) steps() (template.HTML, error) {
	numbers := make([]float64, len(f.series[0]))
	for i := range numbers {
		numbers[i] = float64(i + 1)
	}
	c := f.frame()
	last := float64(max(len(numbers), f.last))
	c.XAxis.Range = &chart.ContinuousRange{Min: 1, Max: last}
	for _, t := range ticks(last-1, true) { // 1, and whole steps from there to the last
		if n := t.Value + 1; n < last {
			c.XAxis.Ticks = append(c.XAxis.Ticks, chart.Tick{Value: n, Label: whole(n)})
		}
	}
	c.XAxis.Ticks = append(c.XAxis.Ticks, chart.Tick{Value: last, Label: whole(last)})
	for i, values := range f.series {
		c.Series = append(c.Series, chart.ContinuousSeries{Style: chart.Style{ClassName: classes[i]}, XValues: numbers, YValues: values})
	}
	return draw(c)
}

// ticks are those of an axis from 0 to a value or above, at most seven; of counts only whole numbers.
func ticks(most float64, counts bool) (list []chart.Tick) {
	step := math.Pow(10, math.Floor(math.Log10(max(most, 1e-9)))-1)
	for i := 0; most/step > 6; i++ {
		step *= []float64{2, 2.5, 2}[i%3] // 1, 2, 5, 10
	}
	if counts {
		step = max(step, 1)
	}
	for i := 0.0; ; i++ {
		v := i * step
		list = append(list, chart.Tick{Value: v, Label: whole(v)})
		if v >= most && i > 0 {
			return list
		}
	}
}

// frame is a chart whose y axis begins at 0.
func (f *figure) frame() chart.Chart {
	most := f.most
	for _, values := range f.series {
		most = max(most, slices.Max(values))
	}
	if most == 0 {
		most = 1
	}
	yTicks := ticks(most, f.counts)
	return chart.Chart{
		Width: plotWidth, Height: plotHeight,
		Background: chart.Style{ClassName: "back", Padding: chart.Box{Top: 12, Left: 12, Right: 12, Bottom: 12}},
		Canvas:     chart.Style{ClassName: "canvas"},
		XAxis:      chart.XAxis{Style: chart.Style{ClassName: "axis"}},
		YAxis: chart.YAxis{Style: chart.Style{ClassName: "axis"}, Ticks: yTicks, Range: &chart.ContinuousRange{Max: yTicks[len(yTicks)-1].Value},
			GridMajorStyle: chart.Style{ClassName: "grid", StrokeWidth: 1}},
		YAxisSecondary: chart.HideYAxis(),
	}
}

// bars draws a histogram. Bins between that have nothing are drawn too, and the last of too many in one.
func (f *figure) bars() (template.HTML, error) {
	if len(f.bins) == 0 {
		return "", nil
	}
	c := chart.BarChart{
		Width: plotWidth, Height: plotHeight, BarSpacing: 4,
		Background: chart.Style{ClassName: "back", Padding: chart.Box{Top: 12, Left: 12, Right: 12, Bottom: 12}},
		Canvas:     chart.Style{ClassName: "canvas"},
		XAxis:      chart.Style{ClassName: "axis", FontSize: 7},
		YAxis:      chart.YAxis{Style: chart.Style{ClassName: "axis"}},
	}
	most := max(f.most, 1)
	for i, b := range f.bins {
		text := f.label(b)
		if i == maxBars {
			text += "+"
		}
		if i > maxBars {
			c.Bars[maxBars].Value += float64(b.N)
		} else {
			c.Bars = append(c.Bars, chart.Value{Style: chart.Style{ClassName: "bar"}, Label: text, Value: float64(b.N)})
		}
		most = max(most, c.Bars[min(i, maxBars)].Value)
	}
	if len(c.Bars) > mostLabels {
		for i := 1; i < len(c.Bars); i += 2 {
			c.Bars[i].Label = ""
		}
	}
	c.BarWidth = max((plotWidth-110)/len(c.Bars)-c.BarSpacing, 4)
	c.YAxis.Ticks = ticks(most, true)
	c.YAxis.Range = &chart.ContinuousRange{Min: 0, Max: c.YAxis.Ticks[len(c.YAxis.Ticks)-1].Value}
	return draw(c)
}

// stacks draws of each spread which shares its parts have. Neighbours of too many are joined.
func stacks(list []stats.Spread) (template.HTML, error) {
	if len(list) == 0 {
		return "", nil
	}
	c := chart.StackedBarChart{
		Width: plotWidth, Height: plotHeight, BarSpacing: 4,
		Background: chart.Style{ClassName: "back", Padding: chart.Box{Top: 12, Left: 12, Right: 12, Bottom: 12}},
		Canvas:     chart.Style{ClassName: "canvas"},
		XAxis:      chart.Style{ClassName: "axis", FontSize: 7},
		YAxis:      chart.Style{ClassName: "axis"},
	}
	step := (len(list) + maxBars - 1) / maxBars
	width := max((plotWidth-110)/((len(list)+step-1)/step)-c.BarSpacing, 4)
	for from := 0; from < len(list); from += step {
		group := list[from:min(from+step, len(list))]
		bar := chart.StackedBar{Width: min(width, 60)}
		if bars := (len(list) + step - 1) / step; bars <= mostLabels || from/step%(1+bars/mostLabels) == 0 {
			bar.Name = strconv.Itoa(from + 1)
		}
		for _, part := range stats.Sum(group).Parts() {
			bar.Values = append(bar.Values, chart.Value{Style: chart.Style{ClassName: "part " + part.Name}, Value: part.S})
		}
		c.Bars = append(c.Bars, bar)
	}
	return draw(c)
}

// whole writes a number on an axis.
func whole(v any) string {
	f, _ := v.(float64)
	switch {
	case f >= 1e9:
		return strconv.FormatFloat(f/1e9, 'g', 3, 64) + "G"
	case f >= 1e6:
		return strconv.FormatFloat(f/1e6, 'g', 3, 64) + "M"
	case f >= 1e4:
		return strconv.FormatFloat(f/1e3, 'g', 3, 64) + "k"
	}
	if f >= 100 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// draw returns the picture as SVG with classes, which the page's style gives colours.
func draw(c interface {
	Render(chart.RendererProvider, io.Writer) error
}) (template.HTML, error) {
	var b bytes.Buffer
	if err := c.Render(chart.SVG, &b); err != nil {
		return "", fmt.Errorf("a plot: %w", err)
	}
	return template.HTML(b.String()), nil
}
