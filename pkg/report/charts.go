package report

import (
	"bytes"
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

// lines draws values over time. It draws nothing for less than two points, or no time between them.
func lines(counts bool, times []time.Time, series ...[]float64) (template.HTML, error) {
	if len(times) < 2 || !times[len(times)-1].After(times[0]) {
		return "", nil
	}
	format := "15:04:05"
	if span := times[len(times)-1].Sub(times[0]); span > 48*time.Hour {
		format = "01-02"
	} else if span > time.Hour {
		format = "02 15:04"
	}
	c := frame(counts, series...)
	c.XAxis.ValueFormatter = chart.TimeValueFormatterWithFormat(format)
	for i, values := range series {
		c.Series = append(c.Series, chart.TimeSeries{Style: chart.Style{ClassName: classes[i]}, XValues: times, YValues: values})
	}
	return draw(c)
}

// steps draws values by number, from 1.
func steps(counts bool, series ...[]float64) (template.HTML, error) {
	if len(series[0]) < 2 {
		return "", nil
	}
	numbers := make([]float64, len(series[0]))
	for i := range numbers {
		numbers[i] = float64(i + 1)
	}
	c := frame(counts, series...)
	last := float64(len(numbers))
	for _, t := range ticks(last-1, true) { // 1, and whole steps from there to the last
		if n := t.Value + 1; n < last {
			c.XAxis.Ticks = append(c.XAxis.Ticks, chart.Tick{Value: n, Label: whole(n)})
		}
	}
	c.XAxis.Ticks = append(c.XAxis.Ticks, chart.Tick{Value: last, Label: whole(last)})
	for i, values := range series {
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
func frame(counts bool, series ...[]float64) chart.Chart {
	most := 0.0
	for _, values := range series {
		most = max(most, slices.Max(values))
	}
	if most == 0 {
		most = 1
	}
	return chart.Chart{
		Width: plotWidth, Height: plotHeight,
		Background: chart.Style{ClassName: "back", Padding: chart.Box{Top: 12, Left: 12, Right: 12, Bottom: 12}},
		Canvas:     chart.Style{ClassName: "canvas"},
		XAxis:      chart.XAxis{Style: chart.Style{ClassName: "axis"}},
		YAxis: chart.YAxis{Style: chart.Style{ClassName: "axis"}, Ticks: ticks(most, counts),
			GridMajorStyle: chart.Style{ClassName: "grid", StrokeWidth: 1}},
		YAxisSecondary: chart.HideYAxis(),
	}
}

// bars draws a histogram. Bins between that have nothing are drawn too, and the last of too many in one.
func bars(bins []stats.Bin, label func(stats.Bin) string) (template.HTML, error) {
	if len(bins) == 0 {
		return "", nil
	}
	c := chart.BarChart{
		Width: plotWidth, Height: plotHeight, BarSpacing: 4,
		Background: chart.Style{ClassName: "back", Padding: chart.Box{Top: 12, Left: 12, Right: 12, Bottom: 12}},
		Canvas:     chart.Style{ClassName: "canvas"},
		XAxis:      chart.Style{ClassName: "axis", FontSize: 7},
		YAxis:      chart.YAxis{Style: chart.Style{ClassName: "axis"}},
	}
	most := 1.0
	for i, b := range bins {
		text := label(b)
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
