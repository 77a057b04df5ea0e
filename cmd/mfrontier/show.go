package main

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
	"mercator/pkg/canon"
	"mercator/pkg/cli"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/frontier"
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
	Empty  bool   `help:"Print nothing; exit with 0 if no URL is left but parked ones, which are told, else with 6; with 1 if none was ever fetched."`
	Top    int    `default:"0" help:"Also name the hosts with the most URLs left (reads the host table)."`
	Detail bool   `help:"Also count URLs by depth and by due time (reads all URLs)."`
}

// Help is printed by mfrontier stat --help.
func (*statCmd) Help() string {
	return `Prints totals: what waits in each front queue, what waits for a time, what is in flight, and
how many URLs have which final outcome. In the books of policy walk each visit is a URL of its own:
"finished" are the visits made, and pending or in flight is one for each walker.

Policy revisit also tells how many pages it visits, by their estimated mean time between two changes, how often,
and what share of them it expects to be as they are in the crawl.

Policy opic also tells its credit: 2^32 units for each URL that "add" put in. Of these the lambda page has some, a
virtual page that all pages pay a tax to, and that gives what it has to all URLs; others were given to URLs that
did not wait any more, as a measure of their importance; the rest is of those that wait and are in flight.

"given up" are URLs that were finished because all their attempts had failed ("dead" in JSON).
"retried" is how often URLs were queued again after a failure, "deferred" without one.
"parked" are pending URLs that no crawl waits for, by outcome: see "mfrontier release".
Of policy revisit front queue 0 holds new URLs, and front queue 1 pages whose next visit is due.
"rewritten" is how many waiting URLs were written again, since files are merged; "files" are
those that the frontier has now ("runs" in JSON).

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
	if p := st.Pages; p != nil {
		fmt.Fprintf(t, "to come back\t%s, after a visit\n", cli.Count(st.Visits, "time"))
		fmt.Fprintf(t, "pages to visit\t%d, %s visits a day, room for %s; %.1f %% expected fresh\n", p.Known, rate(p.Visits), rate(p.Room), 100*p.Fresh)
		for _, n := range p.Change {
			if n.Pages > 0 {
				fmt.Fprintf(t, "  change in %s\t%d, visited every %v\n", n.Within, n.Pages, time.Duration(n.IntervalS)*time.Second)
			}
		}
	}
	if k := st.Credit; k != nil {
		fmt.Fprintf(t, "credit\t%d units\n  lambda page\t%d\n  of URLs that did not wait\t%d\n", k.Total, k.Lambda, k.Kept)
	}
	fmt.Fprintf(t, "rewritten\t%s, in %s\n", cli.Count(st.Rewritten, "time"), cli.Count(st.Runs, "file"))
	if w := st.Walk; w != nil {
		fmt.Fprintf(t, "start set\t%d\n", w.Starts)
		fmt.Fprintf(t, "links followed\t%d\n", w.Steps)
		fmt.Fprintf(t, "walks begun\t%d, after %d dead ends\n", w.Restarts, w.DeadEnds)
	}
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
	std.Warn("%d %s parked (%s; such as of %s): \"mfrontier release %s\" puts %s back", n, are, strings.Join(by, ", "), cli.Printable(host), store, back)
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
	return &fault.Error{File: c.Store, Found: fmt.Sprintf("nothing was fetched of %s: %s", cli.Count(all, "URL"), strings.Join(outcomes, ", ")),
		Hint: "why: mcat --format tsv --columns url,outcome,error CRAWL/rounds/r*/marked.arrows.zst"}
}

type hostsCmd struct {
	Store string `arg:"" help:"The frontier."`
	Host  string `arg:"" help:"Host, with :PORT where it is not the scheme's default; or a URL of it."`
}

// Help is printed by mfrontier hosts --help.
func (*hostsCmd) Help() string {
	return `Prints all that the frontier knows of a host, as JSON:

  discovered           its URLs: pending (they wait), in_flight and finished; unfinished are the first two
  fetched, dead        of the finished: those that were had, and those given up after all attempts
  retried, deferred    how often URLs of it were queued again, after a failure and without one
  contacts             with the host, the last at last_contact, with the address addr
  failures_in_a_row    contacts that failed since the last that did not
  mean_duration_us     of a contact; duration_spread_us is how far they are from it, mean_delay_us
                       the time that politeness asked for between two
  parked_until         left alone until then: it asked to be, or is dead
  last_place           by front queue, the place at which the newest of its URLs stands. Hosts take
                       turns by place, the lowest first: two URLs of a host never have the same, so
                       one with many reaches far back. It says nothing under policies walk and opic
  registered_domain    where domains have budgets: how many others link to this one (linked_by), the
                       round up to which its budget is given away, and how much of that round's

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
	Store string   `arg:"" help:"The frontier, whose host table knows how fast hosts are."`
	Files []string `arg:"" optional:"" help:"Files of url records, or of URLs one a line (*.txt, or with --text): the batch to plan, instead of what next would take now (-n, --per-host, --per-domain, --for)."`
	Text  bool     `help:"Read URLs, one a line."`
	batchFlags
	cli.RewriteFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is printed by mfrontier plan --help.
func (*planCmd) Help() string {
	return `Estimates, before anything is fetched, how long a batch will take, and which hosts hold it up.
It changes nothing. The duration is the longest of three:

  slowest host          its contacts, each as long as its last ones were on the mean, and the gaps of
                        politeness between them, or those that it asked for (Crawl-delay)
  slowest address       the gaps between contacts with one address
  all connections busy  all contacts, shared by the connections

A host that was never contacted is taken to need --duration for each contact. A host that was not
contacted for a day is asked for robots.txt first. Where only a part of a host's URLs needed a contact
so far, because robots.txt forbids the others, that goes on. The tail is how much longer the
slowest host takes than the addresses and connections do. The ten slowest hosts are named.

  mfrontier plan crawl/frontier -n 10000
  mfrontier plan crawl/frontier --connections 64 resolved.arrows.zst
  mfrontier plan crawl/frontier urls.txt

All times in JSON are in microseconds:

  urls, hosts, addresses, measured   of the batch; measured are hosts whose speed is on record
  duration_us                        the estimate
  by_host_us, by_addr_us, by_work_us the three
  tail_us                            what the slowest host adds
  slow_hosts                         the ten slowest, each with host, urls, measured and took_us`
}

// check refuses flags that would do nothing. (Those of crawl.toml are of no account where there is a batch.)
func (c *planCmd) check(std *cli.Std) error {
	if len(c.Files) == 0 {
		if c.Text {
			return &fault.Error{Class: fault.Usage, Found: "--text without FILES", Want: "the files of URLs that are to be planned"}
		}
		return nil
	}
	for _, flag := range []string{"number", "per-host", "per-domain", "for"} {
		if std.Given(flag) {
			return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("--%s, and FILES", flag), Want: "one of them: a flag that chooses a batch, or the batch"}
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
	var plan *frontier.Plan
	if len(c.Files) > 0 {
		in, err := urls(std, c.Files, c.Text, false, c.RewriteFlags)
		if err != nil {
			return hinted(err, "the batch is what mfrontier next or mresolve made")
		}
		plan, err = f.Plan(ctx, in.Read, cmp.Or(in.Schema().Now, record.TimeOf(std.Now())), c.politeness())
		if err != nil {
			return err
		}
	} else {
		o, err := c.options("")
		if err != nil {
			return err
		}
		if plan, err = f.PlanNext(ctx, o, record.TimeOf(std.Now()), c.politeness()); err != nil {
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

// rate writes how often something is done: three digits of what is small, whole numbers of what is not.
func rate(perDay float64) string {
	if perDay < 100 {
		return fmt.Sprintf("%.3g", perDay)
	}
	return fmt.Sprintf("%.0f", perDay)
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
