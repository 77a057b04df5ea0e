package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mercator/pkg/cli"
	"mercator/pkg/driver/tell"
)

type explainCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	URL   string `arg:"" name:"url" help:"The URL; one without a scheme is taken as https, or http if the crawl knows that."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// Help is part of --help.
func (*explainCmd) Help() string {
	return `Prints what the crawl decides of one URL: the filter rule, the sheets that hold and
their settings, what robots.txt says, whether the URL waits, what became of it, and
when it may be fetched. Nothing is contacted. "mextract explain" shows all tests of
a filter.

Examples:
  mcrawl explain crawl https://www.example.org/docs/
  mcrawl explain crawl https://www.example.org/docs/ --json | jq -r .why`
}

func (c *explainCmd) Run(ctx context.Context, std *cli.Std) error {
	d, err := tell.Open(c.Crawl, std.Now, std.Warn)
	if err != nil {
		return err
	}
	e, err := d.Explain(ctx, c.URL)
	if err != nil {
		return err
	}
	if c.JSON {
		out := json.NewEncoder(std.Out)
		out.SetEscapeHTML(false) // & is common in URLs
		out.SetIndent("", "  ")
		return out.Encode(e)
	}
	out := bufio.NewWriter(std.Screen())
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-7s %s\n", name, cli.Printable(fmt.Sprintf(format, args...)))
	}
	line("url", "%s", e.URL)
	line("key", "%s", e.Key)
	if e.Shard != nil {
		line("shard", "%d", *e.Shard)
	}
	verdict := map[bool]string{true: "allow", false: "deny"}
	switch f := e.Filter; {
	case f == nil:
		line("filter", "none: every URL is allowed")
	case f.Line == 0:
		line("filter", "%s, by default%s", verdict[f.Allow], strings.TrimSuffix(" ("+f.File+")", " (default)"))
	default:
		line("filter", "%s, by rule %s (%s:%d): %s", verdict[f.Allow], f.Rule, f.File, f.Line, f.Condition)
	}
	for _, s := range e.Sheets {
		line("sheet", "%s (%s:%d): %s", s.Name, s.File, s.Line, s.Condition)
		for _, v := range s.Settings {
			line("", "  %s %s", v.Key, cmp.Or(v.Value, `""`))
		}
	}
	robots := e.Robots.Verdict
	if e.Robots.At.IsZero() {
		robots += ": no robots.txt is kept"
	} else {
		robots += ", by that of " + e.Robots.At.UTC().Format(time.RFC3339)
	}
	if e.Robots.Old {
		robots += ", too old: it is asked for again"
	}
	if e.Robots.Ignored {
		robots += "; ignored, as its sheet says"
	}
	if e.Robots.Delay > 0 {
		robots += fmt.Sprintf(", Crawl-delay %vs", e.Robots.Delay)
	}
	line("robots", "%s", robots)
	login := strings.Join(e.Logins, "; ")
	if e.Login != nil {
		login += "; its last contact: " + e.Login.Text()
	}
	if login != "" {
		line("login", "%s", login)
	}
	state := e.State
	if e.Parked != "" {
		state += " as " + e.Parked
	}
	if e.Via != "" {
		state += ", found on " + e.Via
	}
	if e.Depth != nil {
		state += fmt.Sprintf(", depth %d", *e.Depth)
	}
	line("state", "%s", state)
	if e.Last != nil {
		line("last", "%s", e.Last.Text())
	}
	next := "never: "
	switch {
	case !e.Next.IsZero():
		next = "after " + e.Next.Format(time.RFC3339) + ": "
	case e.Ever:
		next = "now: "
	}
	line("next", "%s%s", next, e.Why)
	return out.Flush()
}
