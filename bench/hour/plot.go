package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/wcharczuk/go-chart/v2"
)

const plotWidth, plotHeight = 900, 260

// plot writes one SVG file with a plot for each figure over time. The first tenth of a run is left out: a web is dear at its beginning.
func plot(name string, points []point) error {
	start := points[0].at
	points = points[len(points)/10:]
	var minutes []float64
	for _, p := range points[1:] {
		minutes = append(minutes, p.at.Sub(start).Minutes())
	}
	by := func(value func(a, b point) float64) (values []float64) {
		for i, b := range points[1:] {
			values = append(values, value(points[i], b))
		}
		return values
	}
	plots := []struct {
		title  string
		names  []string
		series [][]float64
	}{
		{title: "pages/s; of the time that other processes left (here and below without the first tenth of the run)", names: []string{"pages/s", "alone"},
			series: [][]float64{by(func(a, b point) float64 { return between(a, b).rate }), by(func(a, b point) float64 { return between(a, b).left })}},
		{title: "URLs", names: []string{"known", "waiting"}, series: [][]float64{by(func(_, b point) float64 { return b.known }), by(func(_, b point) float64 { return b.waiting })}},
		{title: "seconds a round", names: []string{"s"}, series: [][]float64{by(func(a, b point) float64 { return between(a, b).round })}},
		{title: "bytes on disk a page, from the start"},
		{title: "files", names: []string{"files"}, series: [][]float64{by(func(_, b point) float64 { return b.files })}},
		{title: "peak resident memory, MiB"},
	}
	for _, f := range folders {
		plots[3].names = append(plots[3].names, f)
		plots[3].series = append(plots[3].series, by(func(_, b point) float64 { return b.bytes[f] / max(1, b.pages) }))
	}
	rss := map[string]bool{}
	for _, p := range points {
		for c := range p.rss {
			rss[c] = true
		}
	}
	for _, c := range slices.Sorted(maps.Keys(rss)) {
		if strings.HasPrefix(c, "mckpt") || strings.HasSuffix(c, " add") {
			continue // once, at the beginning
		}
		last := 0.0 // of a command that did not end since the point before
		plots[5].names = append(plots[5].names, c)
		plots[5].series = append(plots[5].series, by(func(_, b point) float64 { last = cmp.Or(b.rss[c], last); return last }))
	}

	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif"><rect width="100%%" height="100%%" fill="white"/>`+"\n", plotWidth, len(plots)*(plotHeight+30))
	for i, p := range plots {
		most := 1e-9
		c := chart.Chart{Width: plotWidth, Height: plotHeight, Background: chart.Style{Padding: chart.Box{Top: 10, Left: 170, Right: 60, Bottom: 10}},
			XAxis: chart.XAxis{ValueFormatter: func(v any) string { return fmt.Sprintf("%.3g min", v) }}, YAxis: chart.YAxis{ValueFormatter: func(v any) string { return fmt.Sprintf("%.4g", v) }},
			YAxisSecondary: chart.HideYAxis()}
		for n, values := range p.series {
			most = max(most, slices.Max(values))
			c.Series = append(c.Series, chart.ContinuousSeries{Name: p.names[n], XValues: minutes, YValues: values})
		}
		c.YAxis.Range = &chart.ContinuousRange{Min: 0, Max: most * 1.05}
		c.Elements = []chart.Renderable{chart.LegendLeft(&c)}
		fmt.Fprintf(&svg, `<text x="10" y="%d" font-size="14">%s</text><svg y="%d" width="%d" height="%d">`, i*(plotHeight+30)+20, p.title, i*(plotHeight+30)+26, plotWidth, plotHeight)
		if err := c.Render(chart.SVG, &svg); err != nil {
			return fmt.Errorf("a plot: %w", err)
		}
		svg.WriteString("</svg>\n")
	}
	svg.WriteString("</svg>\n")
	return os.WriteFile(name, svg.Bytes(), 0o644)
}
