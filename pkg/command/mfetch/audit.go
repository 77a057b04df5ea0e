package mfetch

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"mercator/formats/record"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/fetch"
)

type auditCmd struct {
	Files []string `arg:"" optional:"" help:"Fetch records, in any order; default: standard input."`
	Worst int      `default:"5" range:"0 10000" help:"Print this many of the smallest margins."`
	JSON  bool     `name:"json" help:"Print JSON."`

	config.Delays     `group:"Demanded of all rounds, where given here:"`
	config.SheetsFlag `group:"Demanded of all rounds, where given here:"`
	config.Schemes
	config.LongestWaitFlag `group:"Demanded of all rounds, where given here:"`
}

// Help is part of --help.
func (*auditCmd) Help() string {
	return `Exit code 6 means that a contact came too early. Gaps are compared with what each
record says was required, and with the politeness and the sheets that its round had
(rounds/rN/politeness.toml). Flags demand more of all rounds. Of records that have no
such file beside them, --config crawl/crawl.toml demands what that file says now.
Of hosts that a sheet gives several connections, so many contacts may overlap.

Examples:
  mfetch audit crawl
  mfetch audit --config crawl/crawl.toml fetched.arrows.zst
  mfetch audit --min-delay 1s --addr-delay 500ms fetched.arrows.zst
  mfetch audit --json fetched.arrows.zst | jq .hosts.worst`
}

func (c *auditCmd) Run(ctx context.Context, std *cli.Std) error {
	for flag, d := range map[string]*time.Duration{"min-delay": &c.MinDelay, "addr-delay": &c.AddrDelay} {
		if !std.Has(flag) {
			*d = 0
		}
	}
	if !std.Has("max-delay") {
		c.MaxDelay = math.MaxInt64
	}
	if !std.Has("delay-factor") {
		c.DelayFactor = 0
	}
	files := c.Files
	if len(files) == 0 {
		files = []string{"-"}
	}
	files, err := std.RecordFiles(files, cli.Outcomes)
	if err != nil {
		return err
	}
	opt, err := c.demands()
	if err != nil {
		return err
	}
	opt.Memory, opt.Worst = std.MemoryLimit()/2, c.Worst
	a := fetch.NewAuditor(opt)
	defer a.Close()
	of := rounds{auditCmd: *c, std: std, texts: [][]byte{nil}}
	for _, file := range files {
		if err := of.hold(file, a); err != nil {
			return err
		}
		in, err := cli.OpenRecords[record.Fetch](std, []string{file})
		if err != nil {
			return err
		}
		if err := record.Each(in, func(row *record.Fetch) error { return cmp.Or(context.Cause(ctx), a.Add(row)) }); err != nil {
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
		if err := e.Encode(auditJSON{audit.Rows, audit.Contacts, audit.Robots, audit.Outside, audit.NoRobots, reportJSON(&audit.Hosts), reportJSON(&audit.Addrs)}); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return audit.Err()
	}
	fmt.Fprintf(out, "rows %d, contacts %d (robots %d)\n", audit.Rows, audit.Contacts, audit.Robots)
	if audit.Outside > 0 {
		fmt.Fprintf(out, "outside of windows %d\n", audit.Outside)
	}
	for _, h := range audit.NoRobots {
		fmt.Fprintf(out, "robots.txt ignored: %s, contacts %d\n", cli.Printable(h.Host), h.Contacts)
	}
	if n := audit.NoRobotsHosts - len(audit.NoRobots); n > 0 {
		fmt.Fprintf(out, "robots.txt ignored: %d hosts more\n", n)
	}
	printReport(out, "host", &audit.Hosts)
	printReport(out, "address", &audit.Addrs)
	if err := out.Flush(); err != nil {
		return err
	}
	return audit.Err()
}

// auditJSON is the output of --json; names end in their units.
type auditJSON struct {
	Rows      uint64          `json:"rows"`
	Contacts  uint64          `json:"contacts"`
	Robots    uint64          `json:"robots"`
	Outside   uint64          `json:"outside_of_windows"`
	NoRobots  []fetch.Ignored `json:"robots_ignored,omitempty"` // the hosts with most contacts
	Hosts     partyJSON       `json:"hosts"`
	Addresses partyJSON       `json:"addresses"`
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
