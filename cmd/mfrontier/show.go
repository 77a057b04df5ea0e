package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"mercator/formats/record"
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
	Empty  bool   `help:"Print nothing; exit with 0 if no URL waits and none is in flight, else with 6."`
	Top    int    `default:"0" help:"Also name the hosts with the most URLs left (reads the host table)."`
	Detail bool   `help:"Also count URLs by depth and by due time (reads all URLs)."`
}

// Help is printed by mfrontier stat --help.
func (*statCmd) Help() string {
	return `Prints totals: what waits in each front queue, what waits for a time, what is in flight, and
how many URLs have which final outcome.

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
		empty, err := f.Empty()
		if err == nil && !empty {
			err = fault.No // the exit code is the answer
		}
		return err
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
	if st.NextDue != "" {
		fmt.Fprintf(t, "  first due\t%s\n", st.NextDue)
	}
	fmt.Fprintf(t, "in flight\t%d\n", st.InFlight)
	fmt.Fprintf(t, "finished\t%d\n", st.Finished)
	for _, o := range st.Outcomes {
		fmt.Fprintf(t, "  %s\t%d\n", cli.Printable(o.Reason), o.N)
	}
	fmt.Fprintf(t, "retried\t%d\n", st.Retried)
	fmt.Fprintf(t, "deferred\t%d\n", st.Deferred)
	fmt.Fprintf(t, "given up\t%d\n", st.Dead)
	if st.Detail != nil {
		for depth, n := range st.Detail.Depth {
			if n > 0 {
				fmt.Fprintf(t, "depth %d\t%d\n", depth, n)
			}
		}
		for _, d := range st.Detail.Due {
			fmt.Fprintf(t, "due %s\t%d\n", d.Within, d.URLs)
		}
	}
	for _, h := range st.Top {
		fmt.Fprintf(t, "%s\t%d of %d left\n", cli.Printable(h.Host), h.Pending, h.Discovered)
	}
	return t.Flush()
}

type hostsCmd struct {
	Store string `arg:"" help:"The frontier."`
	Host  string `arg:"" help:"Host, with :PORT where it is not the scheme's default."`
}

// Help is printed by mfrontier hosts --help.
func (*hostsCmd) Help() string {
	return `Prints all that the frontier knows of a host, as JSON: its URLs by state, contacts, failures in
a row, speed, and the time that it asked to be left alone until.

  mfrontier hosts crawl/frontier example.org`
}

func (c *hostsCmd) Run(std *cli.Std) error {
	f, err := open(std, c.Store, cli.TxnFlags{})
	if err != nil {
		return err
	}
	h, found, err := f.Host(c.Host)
	if err != nil {
		return err
	}
	if !found {
		return &fault.Error{Class: fault.No, File: c.Store, Found: fmt.Sprintf("no URL of host %q was ever added", c.Host)}
	}
	return printJSON(std.Out, &h)
}

type planCmd struct {
	Store string   `arg:"" help:"The frontier, whose host table knows how fast hosts are."`
	Files []string `arg:"" optional:"" help:"Files of url records: the batch to plan (default: what next would take now)."`
	batchFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is printed by mfrontier plan --help.
func (*planCmd) Help() string {
	return `Says, before anything is fetched, how long a batch will take and which hosts hold it up: a host's
contacts come one after the other with the delay of politeness between them, at the speed that
earlier rounds measured. The prediction is the longest of the slowest host, the slowest address,
and all contacts shared by the connections. It changes nothing.

  mfrontier plan crawl/frontier -n 10000
  mfrontier plan crawl/frontier --connections 64 resolved.arrows.zst`
}

func (c *planCmd) Run(ctx context.Context, std *cli.Std) error {
	f, err := open(std, c.Store, cli.TxnFlags{})
	if err != nil {
		return err
	}
	p := c.politeness()
	var plan *frontier.Plan
	if len(c.Files) > 0 {
		in, err := cli.OpenRecords[record.URL](std, c.Files)
		if err != nil {
			return err
		}
		plan, err = f.PlanRecords(ctx, in.Read, p)
		if err != nil {
			return err
		}
	} else if plan, err = f.PlanNext(ctx, c.options(""), record.TimeOf(std.Now()), p); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(std.Out, plan)
	}
	t := tabwriter.NewWriter(std.Out, 0, 8, 2, ' ', 0)
	short := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	fmt.Fprintf(t, "URLs\t%d\n", plan.URLs)
	fmt.Fprintf(t, "hosts\t%d, %d with measured speed\n", plan.Hosts, plan.Measured)
	fmt.Fprintf(t, "duration\t%v\n", short(plan.Duration))
	fmt.Fprintf(t, "  slowest host\t%v\n", short(plan.ByHost))
	fmt.Fprintf(t, "  slowest address\t%v\n", short(plan.ByAddr))
	fmt.Fprintf(t, "  all connections busy\t%v\n", short(plan.ByWork))
	fmt.Fprintf(t, "tail\t%v with fewer hosts than connections\n", short(plan.Tail))
	for _, h := range plan.Slow {
		fmt.Fprintf(t, "%s\t%d URLs, %v\n", cli.Printable(h.Host), h.URLs, short(h.Took))
	}
	return t.Flush()
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
	err := f.EachURL(ctx, func(u *record.URL) error {
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
