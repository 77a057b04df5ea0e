package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/driver/tell"
)

type changesCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	From  string `arg:"" optional:"" help:"A round (r3), a checkpoint (4) or another crawl folder (default: before the last mcrawl again)."`
	To    string `arg:"" optional:"" help:"A later round or checkpoint (default: now)."`
	Diff  bool   `help:"Print a unified diff of the text of each changed page in place of its line."`
	URL   string `name:"url" placeholder:"URL" help:"Only this page."`
	asRows
}

// Help is part of --help.
func (*changesCmd) Help() string {
	return `Prints the pages that differ from FROM to TO: a line has what happened, the URL,
and its outcome before and now, with tabs between.

  new      there is a document, and was none
  changed  there is another content
  gone     the server says so or redirects, or it is not in this crawl
  failed   no document for another reason, such as a timeout, which may pass

What was fetched last, up to each of the two, counts. The diff is of the text that
"mcrawl export --wet" has.

Examples:
  mcrawl again crawl --older 0s && mcrawl run crawl && mcrawl changes crawl
  mcrawl changes crawl r3 r7 --csv
  mcrawl changes tuesday monday --diff`
}

func (c *changesCmd) Run(std *cli.Std) error {
	if c.Diff && (c.JSON || c.CSV) {
		return &fault.Error{Class: fault.Usage, Found: "--diff with --json or --csv", Want: "one of them"}
	}
	d, err := tell.Open(c.Crawl, std.Now, std.Warn)
	if err != nil {
		return err
	}
	changes, err := c.compare(d, std)
	if err != nil {
		return err
	}
	out, err := c.openRows(std, "what", "url", "before", "now", "fetched", "refetched", "redirect", "bytes_were", "bytes")
	if err != nil {
		return err
	}
	counts := map[string]uint64{}
	err = changes.Each(c.URL, func(ch *tell.PageChange) error {
		counts[ch.What]++
		switch {
		case c.CSV:
			return out.printRow(ch, ch.What, ch.URL, ch.Before, ch.Now, timeText(ch.Fetched), timeText(ch.Refetched), ch.Moved, strconv.FormatInt(ch.BytesWere, 10), strconv.FormatInt(ch.Bytes, 10))
		case !c.Diff, ch.What != "changed" && c.URL == "":
			return out.printRow(ch, ch.What, ch.URL, ch.Before, ch.Now)
		}
		text, err := changes.Diff(ch)
		for line := range strings.Lines(text) {
			if err == nil {
				err = out.printRow(nil, strings.TrimSuffix(line, "\n"))
			}
		}
		return err
	})
	if err == nil {
		err = out.flush()
	}
	if err != nil {
		return err
	}
	if changes.Unknown {
		std.Warn("%s is unknown: no row of a fetch has it; see where it is: %s", c.URL, fault.Quote("mcrawl", "explain", c.Crawl, c.URL))
		return nil
	}
	std.Warn("%d new, %d changed, %d gone, %d failed", counts["new"], counts["changed"], counts["gone"], counts["failed"])
	return nil
}

// compare chooses what is compared.
func (c *changesCmd) compare(d *tell.Crawl, std *cli.Std) (*tell.Changes, error) {
	if info, err := os.Stat(c.From); c.From == "" || err != nil || !info.IsDir() {
		return d.Changes(c.From, c.To)
	}
	if c.To != "" {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%q after %q, which is a folder", c.To, c.From), Want: "two crawls, or one crawl and two of its rounds"}
	}
	before, err := tell.Open(c.From, std.Now, std.Warn)
	if err != nil {
		return nil, err
	}
	return d.ChangesSince(before)
}

// timeText is a time in CSV; "" for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}
