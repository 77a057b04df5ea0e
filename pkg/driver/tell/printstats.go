package tell

import (
	"fmt"
	"io"
	"strings"

	"mercator/pkg/view/stats"
)

// PrintStats writes statistics for people, without what takes a plot to be seen.
func PrintStats(out io.Writer, s *stats.Stats) error {
	w := newPage(out)
	if s.Attempts == 0 {
		fmt.Fprintln(w, "nothing was fetched yet")
		return w.Flush()
	}
	fmt.Fprintf(w, "%d attempts from %s to %s, on %s, and %d for a robots.txt\n", s.Attempts, s.First, s.Last, Count(s.Hosts, "host"), s.Robots)
	fmt.Fprintf(w, "%d documents, %s; %d of them duplicates, %s\n", s.Documents, Size(s.Bytes), s.Duplicates, Size(s.DuplicateBytes))
	printShares(w, "outcome", s.Outcomes, s.Attempts)
	var replies uint64
	for _, c := range s.Statuses {
		replies += c.N
	}
	printShares(w, "status", s.Statuses, replies)
	printTable(w, len(s.Types), "documents", "bytes", "media type")
	for _, t := range s.Types[:min(len(s.Types), printed)] {
		fmt.Fprintf(w, "%12d %12s  %s\n", t.Documents, Size(t.Bytes), nameText(t.Name))
	}
	printMore(w, len(s.Types))
	printTable(w, len(s.Sizes), "documents", "bytes up to", "share")
	for _, b := range s.Sizes {
		fmt.Fprintf(w, "%12d %12s  %s\n", b.N, Size(b.To), strings.Repeat("#", int(50*b.N/s.Documents)))
	}
	printTable(w, len(s.Domains), "servers", "documents", "top-level domain")
	for _, d := range s.Domains[:min(len(s.Domains), printed)] {
		fmt.Fprintf(w, "%12d %12d  %s\n", d.Servers, d.Documents, nameText(d.Name))
	}
	printMore(w, len(s.Domains))
	printTable(w, len(s.Largest), "documents", "bytes", "host")
	for _, h := range s.Largest[:min(len(s.Largest), printed)] {
		fmt.Fprintf(w, "%12d %12s  %s\n", h.Documents, Size(h.Bytes), nameText(h.Name))
	}
	if len(s.Largest) < stats.TopHosts {
		printMore(w, len(s.Largest))
	}
	if len(s.Failing) > 0 {
		printHeading(w, "errors", "", "host: its last error")
	}
	for _, h := range s.Failing[:min(len(s.Failing), printed)] {
		fmt.Fprintf(w, "%12d %12s  %s: %s\n", h.Errors, "", nameText(h.Name), h.Error)
	}
	if len(s.Failing) < stats.TopWorst { // of a table that is full nobody knows how many have no place in it
		printMore(w, len(s.Failing))
	}
	if t := s.Times; t != nil {
		printHeading(w, "seconds", "share", "where the time went, in "+Count(t.Rounds, "round"))
		for _, p := range t.Parts() {
			fmt.Fprintf(w, "%12.2f %10.1f %%  %s\n", p.S, 100*p.S/t.ElapsedS, p.Text())
		}
		fmt.Fprintf(w, "%12.2f %12s  in all", t.ElapsedS, "")
		if t.SpanS > t.ElapsedS {
			fmt.Fprintf(w, ", of %.2f s from the first to the last contact; the rest: interrupted attempts, time between rounds and runs", t.SpanS)
		}
		fmt.Fprintln(w)
		fmt.Fprintf(w, "Names took %.1f %% of this time; they would take %.1f %% if each page waited for its name alone, one page after the other.\n", 100*t.NamesOfElapsed, 100*t.NamesOfThread)
		if t.Without > 0 {
			fmt.Fprintf(w, "not in these times: %s, not ended yet, not made by mcrawl, or the record is lost or damaged\n", Count(t.Without, "round"))
		}
	}
	if f := s.Focus; f != nil {
		fmt.Fprintf(w, "\n%s\n", f)
		printTable(w, len(f.Topics), "relevant", "share", "topic")
		for _, t := range f.Topics[:min(len(f.Topics), printed)] {
			fmt.Fprintf(w, "%12d %10.1f %%  %s\n", t.Documents, 100*float64(t.Documents)/float64(f.Relevant), nameText(t.Name))
		}
		printMore(w, len(f.Topics))
	}
	if c := s.Changes; c != nil {
		fmt.Fprintf(w, "\n%d pages were visited again, %d times: %d times the same, %d changed, %d gone, %d without a document\n", c.Pages, c.Visits, c.Same, c.Changed, c.Gone, c.Failed)
		printTable(w, len(c.Lives), "contents", "median life", "of")
		for _, l := range c.Lives[:min(len(c.Lives), printed)] {
			life := "longer"
			if l.MedianS > 0 {
				life = fmt.Sprintf("%.4g s", l.MedianS)
			}
			name := l.By
			if l.By != "all" {
				name += " " + nameText(l.Name)
			}
			fmt.Fprintf(w, "%12d %12s  %s (the end of %d was seen)\n", l.Ended+l.Censored, life, name, l.Ended)
		}
	}
	return w.Flush()
}
