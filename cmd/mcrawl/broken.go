package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
	"mercator/pkg/cli"
	"mercator/pkg/driver/tell"
	"mercator/pkg/view/history"
)

type brokenCmd struct {
	Crawl  string   `arg:"" help:"The crawl folder."`
	Since  string   `placeholder:"ROUND" help:"Leave out links that were broken after this round or checkpoint, too."`
	Accept []string `placeholder:"NAME" help:"What is no failure: statuses such as 403 or 5xx, or other failures by name."`
	SoFar  bool     `help:"Take an unfinished crawl as it is: exit with 0 unless a link is broken."`
	asRows
}

// Help is part of --help.
func (*brokenCmd) Help() string {
	return `Prints each link whose target failed: a status from 400 on, no such host, no
connection, a certificate that does not verify, a timeout, a reply without its end,
redirects that end nowhere; and each link that is no URL, such as one with port
99999. A scheme that the crawl does not know, such as mailto or htp, is no failure.
A line has the failure, the URL with what it is redirected to, the page that the
link stands on, its kind and its text, with tabs between. A seed has no page.
A terminal shows three links to a URL, and how many more there are.
Exit code 6 if there are any, for CI; 0 if there are none, but 1 if URLs
wait that were never tried (--so-far: 0).

Only URLs that the crawl fetched are checked; standard error counts the others. Of
equal pages only the first is read for links; it counts copies in other folders, too.

Examples:
  mcrawl broken crawl
  mcrawl again crawl --broken && mcrawl run crawl && mcrawl broken crawl
  mcrawl broken crawl --json | jq -r 'select(.failure == "404") | .page'`
}

func (c *brokenCmd) Run(ctx context.Context, std *cli.Std) error {
	q := tell.Broken{Since: c.Since}
	for _, text := range c.Accept {
		if slices.Contains(history.Failures, text) {
			q.Except = append(q.Except, text)
			continue
		}
		status, err := statusOf("--accept", text)
		if err != nil {
			return &fault.Error{Class: fault.Usage, Place: "--accept", Found: fmt.Sprintf("%q", text), Want: "a status such as 404, a class such as 5xx, or " + setting.Or(history.Failures),
				Hint: fault.DidYouMean(text, history.Failures)}
		}
		q.Accept = append(q.Accept, status)
	}
	d, err := tell.Open(c.Crawl, std.Now, std.Warn)
	if err != nil {
		return err
	}
	out, err := c.openRows(std, "failure", "url", "redirects", "page", "kind", "text", "error", "checked")
	if err != nil {
		return err
	}
	if std.OnTerminal() && !c.JSON && !c.CSV {
		q.Most = 3
	}
	sum, err := d.Broken(ctx, q, func(b *history.Broken) error {
		if !c.CSV {
			err := out.printRow(b, b.Failure, strings.Join(append([]string{b.URL}, b.Redirects...), " -> "), b.Page, b.Kind, b.Text)
			if err == nil && b.Links > q.Most {
				err = out.printRow(nil, b.Failure, b.URL, "and "+tell.Count(b.Links-q.Most, "more link"))
			}
			return err
		}
		return out.printRow(b, b.Failure, b.URL, strings.Join(b.Redirects, " "), b.Page, b.Kind, b.Text, b.Error, timeText(b.Checked))
	})
	if err == nil {
		err = out.flush()
	}
	if err != nil {
		return err
	}
	if text := sum.Text(); text != "" {
		std.Warn("URLs not checked: %s", text)
	}
	if sum.Waiting > 0 {
		std.Warn("the crawl is not finished: %d URLs were never tried", sum.Waiting)
	}
	switch {
	case sum.Links > 0:
	case sum.Waiting > 0 && !c.SoFar:
		return &fault.Error{File: c.Crawl, Found: "no link is broken so far", Want: "a crawl at its end",
			Hint: "--so-far takes the crawl as it is; to go on: " + fault.Quote("mcrawl", "run", c.Crawl)}
	default:
		if c.Since != "" {
			std.Warn("no link broke since %s", c.Since)
		} else {
			std.Warn("no link is broken")
		}
		return nil
	}
	return &fault.Error{Class: fault.No, File: c.Crawl, Found: sum.String(), Want: "none",
		Hint: "once they are mended, check them again: " + fault.Quote("mcrawl", "again", c.Crawl, "--broken") + " && " + fault.Quote("mcrawl", "run", c.Crawl)}
}
