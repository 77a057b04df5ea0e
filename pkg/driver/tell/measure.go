package tell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/frontier"
	"mercator/pkg/merge"
	"mercator/pkg/view/history"
	"mercator/pkg/view/stats"
)

// Measure estimates from the visits of a walk which share of the reachable documents each set of URL keys has.
// skip is the part of the rounds, from the first on, that does not count.
func (c *Crawl) Measure(ctx context.Context, skip float64, names []string, sets []merge.Source) (e *stats.Estimate, err error) {
	st, err := c.Frontiers.Stat(ctx, frontier.StatOptions{})
	if err != nil {
		return nil, err
	}
	own, walks := st.Own.(*frontier.WalkStat)
	if !walks {
		return nil, &fault.Error{Class: fault.Usage, File: c.Dir(), Found: "a crawl of policy " + st.Policy, Want: "one of policy walk",
			Hint: `make one: mcrawl new walk --seeds seeds.txt --contact you@example.org --policy walk, then mcrawl run walk --rounds 100`}
	}
	restart, err := strconv.ParseFloat(st.Params["restart"], 64)
	if err != nil {
		return nil, err
	}
	kept, err := c.Files()
	if err != nil {
		return nil, err
	}
	visits, err := kept.Closed().Files(c.Outcomes())
	if err != nil {
		return nil, err
	}
	links, err := kept.Closed().Files("links")
	if err != nil {
		return nil, err
	}
	w := stats.NewWalks(restart, own.Starts, HistoryMemory)
	defer func() { err = errors.Join(err, w.Close()) }()
	for i, file := range visits {
		w.Round()
		counts := float64(i) >= skip*float64(len(visits))
		if err := history.Read(file, func(r *record.Fetch) error { return w.Visit(r, counts) }); err != nil {
			return nil, err
		}
	}
	for _, file := range links {
		if err := history.Read(file, func(l *record.Link) error {
			if !frontier.Follows(l.LinkKind) {
				return nil
			}
			return w.Link(l)
		}); err != nil {
			return nil, err
		}
	}
	e, err = w.Estimate(names, sets)
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.File == "" {
		f.File, f.Hint = c.Dir(), fault.Quote("mcrawl", "run", c.Dir(), "--rounds", "100")
	}
	return e, err
}

// PrintEstimate prints a line for each set.
func PrintEstimate(out io.Writer, e *stats.Estimate) error {
	fmt.Fprintf(out, "%d visits of %d documents count, of %d visits in %d walks; %d URLs are known\n\n", e.Counted, e.Documents, e.Visits, e.Walks, e.Known)
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, Paint(out, StyleHeading, "set\tby quality (95 %)\tby size (95 %)"))
	for _, s := range e.Sets {
		fmt.Fprintf(t, "%s\t%.3f (%v to %v)\t%.3f (%v to %v)\n", s.Set, s.Quality.Share, s.Quality.Low, s.Quality.High, s.Size.Share, s.Size.Low, s.Size.High)
	}
	return t.Flush()
}
