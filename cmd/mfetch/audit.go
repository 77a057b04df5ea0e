package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"mercator/formats/record"
	"mercator/pkg/cli"
	"mercator/pkg/fetch"
)

type auditCmd struct {
	Files       []string      `arg:"" optional:"" help:"Files of fetch records, in any order (default: standard input)."`
	MinDelay    time.Duration `help:"Demand this gap from the end of a contact to the next with the same host, besides what the records say was required."`
	DelayFactor float64       `placeholder:"N" help:"Demand the gap to be so many times the duration of the contact before,"`
	MaxDelay    time.Duration `help:"but not more than this (0: no limit)."`
	AddrDelay   time.Duration `help:"Demand this gap between contacts with one address; 0: not checked."`
	LongestWait time.Duration `default:"24h" help:"What servers asked for counts up to this, as mfetch --longest-wait."`
	Worst       int           `default:"5" help:"Print so many of the smallest margins, at most 10000."`
	JSON        bool          `name:"json" help:"Print JSON."`
}

// Help is printed by mfetch audit --help.
func (*auditCmd) Help() string {
	return `Reads the fetch records of one or more rounds and checks, contact by contact, that no
two contacts with one host overlapped and that the gap before each was at least what
politeness required of it (column required_delay_us), and what the server asked for
before (Retry-After with a status of 400 or above). With the other flags the gaps are
checked against your own demands too. Prints how much longer than required the
gaps were: how many gaps had a margin from so long up to twice that, and the worst.
Exit code 6 if a contact came early. Memory is bounded (--memory), whatever the number
of records: they are sorted on disk.

  mfetch audit crawl/rounds/r*/fetched.arrows.zst
  mfetch audit --min-delay 1s --addr-delay 500ms crawl/rounds/r*/fetched.arrows.zst
  mfetch audit --json crawl/rounds/r*/fetched.arrows.zst | jq .hosts.worst`
}

func (c *auditCmd) Run(ctx context.Context, std *cli.Std) error {
	if err := checkDelays(c.MinDelay, c.DelayFactor, c.MaxDelay, c.AddrDelay); err != nil {
		return err
	}
	if c.LongestWait <= 0 {
		return wrong("--longest-wait", c.LongestWait.String(), "more than 0s")
	}
	if c.Worst < 0 || c.Worst > 10_000 {
		return wrong("--worst", fmt.Sprint(c.Worst), "0 to 10000")
	}
	in, err := cli.OpenRecords[record.Fetch](std, c.Files)
	if err != nil {
		return err
	}
	a := fetch.NewAuditor(fetch.AuditOptions{
		MinDelay: c.MinDelay, DelayFactor: c.DelayFactor, MaxDelay: c.MaxDelay, AddrDelay: c.AddrDelay, LongestWait: c.LongestWait,
		Memory: std.MemoryLimit() / 2, Worst: c.Worst,
	})
	defer a.Close()
	for {
		var row record.Fetch
		err := in.Read(&row)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = a.Add(&row)
		}
		if err != nil {
			return err
		}
	}
	audit, err := a.Report(ctx)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(std.Out)
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(auditJSON{audit.Rows, audit.Contacts, audit.Robots, reportJSON(&audit.Hosts), reportJSON(&audit.Addrs)}); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return audit.Err()
	}
	fmt.Fprintf(out, "rows %d, contacts %d (robots %d)\n", audit.Rows, audit.Contacts, audit.Robots)
	printReport(out, "host", &audit.Hosts)
	printReport(out, "address", &audit.Addrs)
	if err := out.Flush(); err != nil {
		return err
	}
	return audit.Err()
}

// auditJSON is what --json prints; names end in their units.
type auditJSON struct {
	Rows      uint64    `json:"rows"`
	Contacts  uint64    `json:"contacts"`
	Robots    uint64    `json:"robots"`
	Hosts     partyJSON `json:"hosts"`
	Addresses partyJSON `json:"addresses"`
}

type partyJSON struct {
	Names   uint64       `json:"names"`
	Gaps    uint64       `json:"gaps"`
	Early   uint64       `json:"early"`
	Margins []marginJSON `json:"margins"`
	Worst   []gapJSON    `json:"worst"`
}

type marginJSON struct {
	From int64  `json:"from_us"`
	N    uint64 `json:"n"`
}

type gapJSON struct {
	Name     string    `json:"name"`
	At       time.Time `json:"at"`
	Gap      int64     `json:"gap_us"`
	Required int64     `json:"required_us"`
}

func reportJSON(r *fetch.AuditReport) partyJSON {
	p := partyJSON{Names: r.Names, Gaps: r.Gaps, Early: r.Violations, Margins: []marginJSON{}, Worst: []gapJSON{}}
	for _, b := range r.Margins {
		p.Margins = append(p.Margins, marginJSON{b.From.Microseconds(), b.N})
	}
	for _, g := range r.Worst {
		p.Worst = append(p.Worst, gapJSON{g.Name, g.At, g.Gap.Microseconds(), g.Required.Microseconds()})
	}
	return p
}

func printReport(out io.Writer, what string, r *fetch.AuditReport) {
	fmt.Fprintf(out, "%s: names %d, gaps checked %d, early %d\n", what, r.Names, r.Gaps, r.Violations)
	for _, b := range r.Margins {
		fmt.Fprintf(out, "%s: margin from %s: %d\n", what, b.From, b.N)
	}
	for _, g := range r.Worst {
		fmt.Fprintf(out, "%s: worst %s at %s: gap %s, required %s\n", what, cli.Printable(g.Name), g.At.Format(time.RFC3339Nano), g.Gap, g.Required)
	}
}
