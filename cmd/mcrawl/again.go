package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/driver"
	"mercator/pkg/driver/tell"
	"mercator/pkg/urlset"
	"mercator/pkg/view/history"
)

type againCmd struct {
	Crawl   string   `arg:"" help:"The crawl folder."`
	URLs    []string `arg:"" optional:"" name:"url" help:"URLs to fetch again."`
	Outcome []string `placeholder:"NAME" help:"URLs whose last outcome is one of these."`
	Status  []string `placeholder:"CODE" help:"URLs whose last reply had one of these, such as 404 or 5xx."`
	Older   string   `placeholder:"TIME" help:"URLs whose server was asked longer ago, such as 30d or 12h."`
	Rule    string   `placeholder:"NAME" help:"URLs that this filter rule no longer refuses."`
	Broken  bool     `help:"Pages with broken links, and what these lead to."`
	File    string   `short:"f" placeholder:"FILE" help:"URLs of this file, one a line."`
}

// Help is part of --help.
func (*againCmd) Help() string {
	return `Puts URLs into the queue once more, parked ones too, and without the failures that
they had. One that waits is not queued twice; if one is unknown, none is queued.
A URL must match all of --outcome, --status and --older that are given.

Outcomes:
  fetched            the server answered; cut: the document has no end
  not-modified       the page has not changed: --status 304 has it, and 200
  robots-denied      robots.txt forbids it; robots-unreachable: nobody can say
  dns-failed         no address; connect-failed, tls-failed: no connection
  timeout            no whole reply; disconnected, protocol-error: likewise
  address-refused    a setting refuses it; likewise denied, scheme-unsupported
  refused            by a rule; port-refused: browsers refuse that port, too
  parked, deferred   not tried yet: its host asks for a wait, or time was up

Examples:
  mcrawl again crawl --outcome timeout,address-refused
  mcrawl again crawl --status 404,5xx
  mcrawl again crawl --rule docs        # after the rule was changed
  mcrawl again crawl https://www.example.org/x`
}

func (c *againCmd) Run(ctx context.Context, std *cli.Std) error {
	r := driver.Request{Verb: "again", Outcomes: c.Outcome, Rule: c.Rule, Listed: c.File != "" || c.Broken || len(c.URLs) > 0}
	if n := oneIf(len(c.Outcome)+len(c.Status) > 0 || c.Older != "") + oneIf(c.Rule != "") + oneIf(r.Listed); n != 1 {
		found := "no URLs to fetch again"
		if n > 1 {
			found = "more than one way to choose URLs"
		}
		return &fault.Error{Class: fault.Usage, Found: found, Want: "URLs, -f FILE or --broken, or --rule, or --outcome, --status or --older"}
	}
	outcomes := append(slices.Clone(record.Outcomes), record.OutcomeRefused, history.OutcomeCut)
	for _, name := range c.Outcome {
		if slices.Contains(outcomes, name) {
			continue
		}
		hint := fault.DidYouMean(name, outcomes)
		if _, err := statusOf("", name); err == nil || strings.HasPrefix(name, "redirect-") {
			hint = "--status has the statuses of replies"
		}
		return &fault.Error{Class: fault.Usage, Place: "--outcome", Found: fmt.Sprintf("no outcome %q", name), Want: strings.Join(outcomes, ", "), Hint: hint}
	}
	for _, text := range c.Status {
		status, err := statusOf("--status", text)
		if err != nil {
			return err
		}
		r.Statuses = append(r.Statuses, status)
	}
	if c.Older != "" {
		age, err := ageOf(c.Older)
		if err != nil {
			return err
		}
		r.Before = max(record.TimeOf(std.Now().Add(-age)), 1) // 0: at any time
	}
	d, err := driver.Open(c.Crawl, driverOptions(std))
	if err != nil {
		return err
	}
	var list func() (io.ReadCloser, error)
	var lines func(io.Writer) error
	if r.Listed {
		var urls durable.Temp
		defer urls.Close()
		if err := c.list(ctx, std, d, &urls); err != nil {
			return err
		}
		text := func() io.Reader { return io.NewSectionReader(&urls, 0, urls.Size()) }
		list = func() (io.ReadCloser, error) { return io.NopCloser(text()), nil }
		lines = func(w io.Writer) error { _, err := io.Copy(w, text()); return err }
	}
	given := c.URLs
	if c.File != "" {
		given = append(slices.Clone(given), "-f", c.File)
	}
	if err := d.CheckAgain(r, list, given...); err != nil {
		return err
	}
	told, err := d.Ask(ctx, r, lines)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.Out, told)
	return err
}

// list writes the URLs of the command line, of -f and of broken links to w, one a line.
func (c *againCmd) list(ctx context.Context, std *cli.Std, d *driver.Driver, w io.Writer) error {
	form, err := d.Crawl.Form()
	if err != nil {
		return err
	}
	list := seedList(std, w, form)
	for _, text := range c.URLs {
		if _, assumed, err := urlset.Seed(text, form); err == nil && assumed { // the crawl may know it by http
			e, err := d.Crawl.Explain(ctx, text)
			if err != nil {
				return err
			}
			if e.Known {
				text = e.URL
			}
		}
		if err := list.Add(text); err != nil {
			return err
		}
	}
	if c.Broken {
		refused := ""
		_, err := d.Crawl.Broken(ctx, tell.Broken{}, func(b *history.Broken) error {
			for i, url := range append([]string{b.URL, b.Page}, b.Redirects...) {
				switch _, _, err := form.URL(url); {
				case i == 0 && b.Failure == history.FailureInvalid, i > 1 && i == len(b.Redirects)+1 && (b.Failure == history.FailureLoop || b.Failure == history.FailureLimit):
					// Nothing asks for it, or it comes twice.
				case err == nil:
					if err := list.Add(url); err != nil {
						return err
					}
				case url != "":
					refused = url
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if refused != "" {
			std.Warn("not fetched again, since the settings refuse such URLs now: %s, and others if there are any", cli.Printable(refused))
		}
	}
	if c.File == "" {
		return nil
	}
	in, err := openList(std, c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = list.File(in, c.File)
	return err
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// statusOf reads 404, or 5xx as 5, of a flag.
func statusOf(place, text string) (uint16, error) {
	digits, class := strings.CutSuffix(strings.ToLower(text), "xx")
	n, err := strconv.ParseUint(digits, 10, 16)
	if err == nil && (class && n >= 1 && n <= 5 || !class && n >= 100 && n <= 999) {
		return uint16(n), nil
	}
	e := &fault.Error{Class: fault.Usage, Place: place, Found: fmt.Sprintf("%q", text), Want: "a status such as 404, or a class from 1xx to 5xx"}
	if err != nil {
		e.Hint = fault.DidYouMean(text, []string{"1xx", "2xx", "3xx", "4xx", "5xx"})
	}
	if slices.Contains(record.Outcomes, text) {
		e.Hint = "--outcome has the outcomes that are no replies"
	}
	return 0, e
}

// ageOf reads 30d, or what Go takes for a duration.
func ageOf(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < 0 {
		return 0, &fault.Error{Class: fault.Usage, Place: "--older", Found: fmt.Sprintf("%q", text), Want: "a time such as 30d or 12h"}
	}
	return age, nil
}
