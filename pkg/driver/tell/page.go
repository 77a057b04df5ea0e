package tell

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/view/stats"
)

// Styles of text for people, by the names that cli.Screen has for them.
const (
	StyleHeading = "heading"
	styleGood    = "good"
	styleBad     = "bad"
	styleNote    = "note"
	styleCommand = "command"
)

// Paint is text in a style, if w shows styles, as cli.Screen does on a terminal.
func Paint(w io.Writer, style, text string) string {
	if p, ok := w.(interface {
		Paint(style, text string) string
	}); ok {
		return p.Paint(style, text)
	}
	return text
}

// page holds text for people until Flush. It has the styles of what it writes to.
type page struct {
	*bufio.Writer
	to io.Writer
}

func newPage(to io.Writer) page { return page{bufio.NewWriter(to), to} }

// Paint makes a page one of the writers that show styles.
func (p page) Paint(style, text string) string { return Paint(p.to, style, text) }

// counts are numbers by reason.
type counts map[string]uint64

func (c counts) list() []record.Count { return stats.Counts(c) }

func printCounts(w io.Writer, heading string, list []record.Count) {
	if len(list) > 0 && heading != "" {
		fmt.Fprintln(w, Paint(w, StyleHeading, heading))
	}
	for _, c := range list {
		fmt.Fprintf(w, "%12s %s\n", Grouped(c.N), c.Reason)
	}
}

func sumCounts(list []record.Count) (n uint64) {
	for _, c := range list {
		n += c.N
	}
	return n
}

// pace is a gap in seconds as people say it.
func pace(gap float64) string {
	switch {
	case gap < 0.1:
		return fmt.Sprintf("%.0f a second", 1/max(gap, 1e-6))
	case gap < 0.95:
		return fmt.Sprintf("%.1f a second", 1/gap)
	case gap <= 1.05:
		return "1 a second"
	}
	return "one every " + span(gap)
}

// span is a time in seconds as people say it.
func span(s float64) string {
	switch {
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 120*60:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%.1f h", s/3600)
	}
	return fmt.Sprintf("%.1f days", s/86400)
}

// Size is a number of bytes as people say it.
func Size(n int64) string {
	f := float64(n)
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if f < 1000 {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + " " + unit
		}
		f /= 1000
	}
	return fmt.Sprintf("%.1f TB", f)
}

// Count is a number and what it counts.
func Count(n uint64, what string) string {
	if n != 1 {
		what += "s"
	}
	return Grouped(n) + " " + what
}

// column is a count with blanks before it: the numbers of all lines end in one column.
func column(n uint64, what string) string {
	return strings.Repeat(" ", max(0, 12-len(Grouped(n)))) + Count(n, what)
}

// Grouped is a number with commas between thousands.
func Grouped(n uint64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// printed is how many rows of a table people see.
const printed = 10

func printHeading(w io.Writer, first, second, name string) {
	fmt.Fprintf(w, "\n%s\n", Paint(w, StyleHeading, fmt.Sprintf("%12s %12s  %s", first, second, name)))
}

// printTable heads a table, unless it has no rows.
func printTable(w io.Writer, rows int, first, second, name string) {
	if rows > 0 {
		printHeading(w, first, second, name)
	}
}

func printMore(w io.Writer, all int) {
	if all > printed {
		fmt.Fprintf(w, "%12s %12s  and %d more\n", "", "", all-printed)
	}
}

func printShares(w io.Writer, name string, list []record.Count, of uint64) {
	if len(list) == 0 {
		return
	}
	printHeading(w, "pages", "share", name)
	for _, c := range list[:min(len(list), 2*printed)] {
		line := fmt.Sprintf("%12d %10.1f %%  %s", c.N, 100*float64(c.N)/float64(of), c.Reason)
		if name == "outcome" && isError(c.Reason) || name == "status" && c.Reason >= "400" {
			line = Paint(w, styleBad, line)
		}
		fmt.Fprintln(w, line)
	}
}

// nameText is a name that a server chose, as it can be shown.
func nameText(name string) string {
	if name == "" {
		return "(none)"
	}
	return strings.Trim(strconv.Quote(name), `"`)
}
