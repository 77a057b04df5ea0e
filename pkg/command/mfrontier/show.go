package mfrontier

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/frontier"
	"mercator/pkg/web/canon"
)

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func printPolicies(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, p := range frontier.Policies() {
		fmt.Fprintf(t, "%s\t%s\n", p.Name, p.About)
	}
	return t.Flush()
}

type statCmd struct {
	Store  string `arg:"" help:"The frontier."`
	JSON   bool   `name:"json" help:"Print JSON."`
	Empty  bool   `help:"Exit with 0 if nothing is left to fetch, else with 6."`
	Top    int    `default:"0" range:"0" placeholder:"N" help:"Name the N hosts with the most URLs left."`
	Detail bool   `help:"Count URLs by depth and due time (reads all)."`
}

// Help is part of --help.
func (*statCmd) Help() string {
	return `Examples:
  mfrontier stat crawl/frontier --top 10
  mfrontier stat crawl/frontier --json --detail | jq .detail.depth
  mfrontier stat --empty crawl/frontier && echo 'nothing is left to fetch'`
}

func (c *statCmd) Run(ctx context.Context, std *cli.Std) error {
	f, err := open(std, c.Store, cli.TxnFlags{})
	if err != nil {
		return err
	}
	if c.Empty {
		empty, err := f.Empty(record.TimeOf(std.Now()))
		if err == nil && !empty {
			err = fault.No // the exit code is the answer
		}
		if err != nil {
			return err
		}
		if err := warnParked(std, f, c.Store); err != nil {
			return err
		}
		return c.fetchedNothing(ctx, f)
	}
	st, err := f.Stat(ctx, frontier.StatOptions{Top: c.Top, Detail: c.Detail, Now: record.TimeOf(std.Now())})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(std.Out, st)
	}
	t := tabwriter.NewWriter(std.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "policy\t%s\n", st.Policy)
	for _, name := range slices.Sorted(maps.Keys(st.Params)) {
		fmt.Fprintf(t, "  %s\t%s\n", name, st.Params[name])
	}
	fmt.Fprintf(t, "discovered\t%d\n", st.Discovered)
	fmt.Fprintf(t, "pending\t%d\n", st.Pending)
	for level, n := range st.Ready {
		fmt.Fprintf(t, "  front queue %d\t%d\n", level, n)
	}
	fmt.Fprintf(t, "  waiting for a time\t%d\n", st.Waiting)
	if st.Held > 0 {
		fmt.Fprintf(t, "  held, over their domain's budget\t%d\n", st.Held)
	}
	for _, p := range st.Parked {
		due := ""
		if p.Due != "" {
			due = ", until " + p.Due + " or later"
		}
		fmt.Fprintf(t, "  parked, %s\t%d%s\n", p.Outcome, p.URLs, due)
	}
	if st.NextDue != "" {
		fmt.Fprintf(t, "  first due\t%s\n", st.NextDue)
	}
	fmt.Fprintf(t, "in flight\t%d\n", st.InFlight)
	if b := st.Batch; b != nil {
		fmt.Fprintf(t, "  %s\t%d, since %s\n", cmp.Or(cli.Printable(b.Txn), "(without a name)"), b.URLs, b.Now)
	}
	fmt.Fprintf(t, "finished\t%d\n", st.Finished)
	for _, o := range st.Outcomes {
		fmt.Fprintf(t, "  %s\t%d\n", cli.Printable(o.Reason), o.N)
	}
	fmt.Fprintf(t, "retried\t%d\n", st.Retried)
	fmt.Fprintf(t, "deferred\t%d\n", st.Deferred)
	fmt.Fprintf(t, "given up\t%d\n", st.Dead)
	if st.Visits > 0 {
		fmt.Fprintf(t, "to come back\t%s, after a visit\n", cli.Count(st.Visits, "time"))
	}
	if st.Own != nil {
		_, lines := st.Own.Lines()
		for _, l := range lines {
			fmt.Fprintf(t, "%s\t%s\n", l[0], l[1])
		}
	}
	fmt.Fprintf(t, "rewritten\t%s, in %s\n", cli.Count(st.Rewritten, "time"), cli.Count(st.Runs, "file"))
	if st.Detail != nil {
		for depth, n := range st.Detail.Depth {
			switch {
			case n > 0 && depth == len(st.Detail.Depth)-1:
				fmt.Fprintf(t, "depth %d or more\t%d\n", depth, n)
			case n > 0:
				fmt.Fprintf(t, "depth %d\t%d\n", depth, n)
			}
		}
		for _, d := range st.Detail.Due {
			fmt.Fprintf(t, "waiting, due %s\t%d\n", d.Within, d.URLs)
		}
	}
	for _, h := range st.Top {
		fmt.Fprintf(t, "%s\t%d of %d left\n", cli.Printable(h.Host), h.Pending+h.InFlight, h.Discovered)
	}
	return t.Flush()
}

// warnParked tells how many URLs are parked, if any are.
func warnParked(std *cli.Std, f *frontier.Frontier, store string) error {
	parked, host, err := f.Parked()
	if err != nil || len(parked) == 0 {
		return err
	}
	var n uint64
	var by []string
	for _, p := range parked {
		n += p.URLs
		by = append(by, fmt.Sprintf("%s %d", p.Outcome, p.URLs))
	}
	are, back := "URLs are", "them"
	if n == 1 {
		are, back = "URL is", "it"
	}
	std.Warn("%d %s parked (%s; such as of %s); put %s back: %s", n, are, strings.Join(by, ", "), cli.Printable(host), back, fault.Quote("mfrontier", "release", store))
	return nil
}

// fetchedNothing is an error if URLs are finished or parked and none was ever fetched.
func (c *statCmd) fetchedNothing(ctx context.Context, f *frontier.Frontier) error {
	st, err := f.Stat(ctx, frontier.StatOptions{})
	if err != nil {
		return err
	}
	var outcomes []string
	for _, o := range st.Outcomes {
		if o.Reason == record.OutcomeFetched || o.Reason == record.OutcomeNotModified {
			return nil
		}
		outcomes = append(outcomes, fmt.Sprintf("%s %d", cli.Printable(o.Reason), o.N))
	}
	all := st.Finished
	for _, p := range st.Parked {
		all += p.URLs
		outcomes = append(outcomes, fmt.Sprintf("%s %d", p.Outcome, p.URLs))
	}
	if all == 0 || st.Visits > 0 {
		return nil
	}
	e := &fault.Error{File: c.Store, Found: fmt.Sprintf("nothing was fetched of %s: %s", cli.Count(all, "URL"), strings.Join(outcomes, ", "))}
	if crawl := f.Store().CrawlDir(); crawl != "" {
		e.Hint = "see why: " + fault.Quote("mcat", "--format", "tsv", "--columns", "url,outcome,error", crawl)
		if len(outcomes) == 1 && strings.HasPrefix(outcomes[0], "refused ") { // no fetch has a row
			e.Hint = "see by which rules: " + fault.Quote("mcrawl", "refused", crawl)
		}
	}
	return e
}

type hostsCmd struct {
	Store string `arg:"" help:"The frontier."`
	Host  string `arg:"" help:"Host, HOST:PORT, or a URL."`
}

// Help is part of --help.
func (*hostsCmd) Help() string {
	return `Examples:
  mfrontier hosts crawl/frontier example.org`
}

func (c *hostsCmd) Run(ctx context.Context, std *cli.Std) error {
	f, err := open(std, c.Store, cli.TxnFlags{})
	if err != nil {
		return err
	}
	host := hostOf(c.Host)
	h, found, err := f.Host(ctx, host)
	if err != nil {
		return err
	}
	if !found {
		return &fault.Error{Class: fault.No, File: c.Store, Found: fmt.Sprintf("no URL of host %q was ever added", host)}
	}
	return printJSON(std.Out, &h)
}

// hostOf is the host that a user means by its name, in whatever form, or by a URL.
func hostOf(text string) string {
	url := text
	if !strings.Contains(text, "://") {
		url = "http://" + text + "/"
	}
	if _, host, err := (canon.Options{}).URL(url); err == nil {
		return host
	}
	return text
}

type planCmd struct {
	Store string   `arg:"" help:"The frontier; it knows how fast hosts are."`
	Files []string `arg:"" optional:"" help:"The batch; default: what \"next\" would take."`
	Text  bool     `help:"The input is text, one URL a line."`
	batchFlags
	config.RobotsKeepFlag
	config.RewriteFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// check refuses flags that would do nothing. (Those of crawl.toml are of no account where there is a batch.)
func (c *planCmd) check(std *cli.Std) error {
	if len(c.Files) == 0 {
		if c.Text {
			return &fault.Error{Class: fault.Usage, Found: "--text without FILES", Want: "files of URLs to plan"}
		}
		return nil
	}
	for _, flag := range []string{"number", "per-host", "per-domain", "for", "filter"} {
		if std.Given(flag) {
			return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("--%s, and FILES", flag), Want: "one of them: a flag that chooses a batch, or the batch itself"}
		}
	}
	return nil
}

func (c *planCmd) Run(ctx context.Context, std *cli.Std) error {
	if err := c.check(std); err != nil {
		return err
	}
	f, err := open(std, c.Store, cli.TxnFlags{})
	if err != nil {
		return err
	}
	polite, _, err := c.politeness(c.Scheme)
	if err != nil {
		return err
	}
	polite.KeepRobots = c.RobotsKeep
	var plan *frontier.Plan
	if len(c.Files) > 0 {
		in, err := urls(std, c.Files, c.Text, false, c.RewriteFlags)
		if err != nil {
			return hinted(err, "the batch is what mfrontier next or mresolve made")
		}
		plan, err = f.Plan(ctx, in.Read, cmp.Or(in.Schema().Now, record.TimeOf(std.Now())), polite)
		if err != nil {
			return err
		}
	} else {
		o, err := c.options("", c.Scheme)
		if err != nil {
			return err
		}
		end, err := c.judge(std, f, c.Scheme, &o)
		if err != nil {
			return err
		}
		plan, err = f.PlanNext(ctx, o, record.TimeOf(std.Now()), polite)
		if err := cmp.Or(err, end()); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(std.Out, plan)
	}
	t := tabwriter.NewWriter(std.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "URLs\t%d\n", plan.URLs)
	fmt.Fprintf(t, "hosts\t%d, %d with measured speed\n", plan.Hosts, plan.Measured)
	fmt.Fprintf(t, "duration\t%v\n", short(plan.Duration))
	fmt.Fprintf(t, "  slowest host\t%v\n", short(plan.ByHost))
	fmt.Fprintf(t, "  slowest address\t%v\n", short(plan.ByAddr))
	fmt.Fprintf(t, "  all connections busy\t%v\n", short(plan.ByWork))
	fmt.Fprintf(t, "tail\t%v of the slowest host alone\n", short(plan.Tail))
	for _, h := range plan.Slow {
		fmt.Fprintf(t, "%s\t%s, %v\n", cli.Printable(h.Host), cli.Count(h.URLs, "URL"), short(h.Took))
	}
	return t.Flush()
}

// hinted gives an error a hint, if it has none.
func hinted(err error, hint string) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Hint != "" {
		return err
	}
	with := *e
	with.Hint = hint
	return &with
}

// short leaves of a time what a reader wants.
func short(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}

// exportText writes URLs, one a line, to standard output, or to -o and --copy,
// which appear complete or not at all.
func exportText(ctx context.Context, std *cli.Std, f *frontier.Frontier, o cli.Output) error {
	paths := o.Copy
	if o.Output != "" && o.Output != "-" {
		paths = append(paths, o.Output)
	}
	var files []*durable.Atomic
	var to []io.Writer
	for _, path := range paths {
		a, err := durable.CreateOutput(path)
		if err != nil {
			return err
		}
		defer a.Abort()
		files, to = append(files, a), append(to, a)
	}
	if len(files) == len(o.Copy) {
		to = append(to, std.Out)
	}
	w := bufio.NewWriterSize(io.MultiWriter(to...), 64<<10)
	err := f.EachExported(ctx, func(u *record.URL) error {
		w.WriteString(u.URL) // errors stick in w
		return w.WriteByte('\n')
	})
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, a := range files {
		if err := a.Commit(); err != nil {
			return err
		}
	}
	return nil
}
