// Command mweb serves a synthetic web, or a saved one, on loopback addresses:
// HTTP, DNS, robots, and the oracle that says what a crawl must find.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"mercator/pkg/cli"
	"mercator/pkg/fault"
	"mercator/pkg/simweb"
)

const about = `Serve a web on loopback addresses to try crawlers on.

The web is synthetic: every page is a function of --seed and its URL, so it needs no disk, is the same each time, and
"mweb oracle" knows without looking which URLs a correct crawl fetches and what comes of each. Or it is a saved crawl:
"mweb serve --warc".

  mweb serve --seed 7 --port 18080 --dns 127.0.0.1:15353     # in one terminal
  mweb seeds --seed 7 --port 18080                           # where to begin
  mweb oracle --seed 7 --port 18080 > want.tsv               # what to find

Nothing here needs root or touches another machine.`

// webFlags describe the web. The same flags describe the same web to every verb.
type webFlags struct {
	Seed     uint64 `default:"1" help:"Number that the whole web is drawn from."`
	Hosts    int    `default:"50" help:"Hosts, h0.mweb.test and so on; the first is the biggest."`
	Pages    int    `default:"3000" help:"HTML pages aimed at, over all hosts; pictures, redirects, traps and mirrors come on top."`
	Size     int    `default:"4096" help:"Median size of a page, in bytes."`
	Degree   int    `default:"8" help:"Median number of random links on a page."`
	Sitemaps bool   `default:"true" negatable:"" help:"Robots files name sitemaps, where some pages are found only. Off for crawlers that read none."`
	Changing bool   `help:"With --hard: pages change at rates of their own, from every 5 minutes to never; see mweb changes."`
	Hard     bool   `help:"Add what depends on time and order: 429 with Retry-After, slow hosts and names, Crawl-delay, robots.txt that fails at first, pages that change, links without end."`
	Rough    bool   `help:"Of each ten hosts one is slow, one dead (it closes connections, and says nothing to who asks for its root), one sends what is no HTTP. The oracle tells what becomes of their URLs where each is tried once, for less than 4 s."`
	Traps    int    `placeholder:"N" help:"Hosts of each ten that have an almanac: pages without end, each of which links to 30 further ones. No crawl comes to its end then; the oracle leaves them out."`
}

func (f *webFlags) web(port int) (*simweb.Web, error) {
	return simweb.New(simweb.Config{Seed: f.Seed, Hosts: f.Hosts, Pages: f.Pages, Size: f.Size, Degree: f.Degree,
		Sitemaps: f.Sitemaps, Hard: f.Hard, Changing: f.Changing, Traps: f.Traps, Rough: f.Rough, Port: port})
}

// portFlag is for the verbs that only print: the port is part of every URL.
type portFlag struct {
	Port int `default:"18080" help:"Port of the URLs, as \"mweb serve\" has it; 80 leaves it out."`
}

type seedsCmd struct {
	webFlags
	portFlag
}

func (seedsCmd) Help() string {
	return `Print the URLs from which everything is reached, one a line.

  mweb seeds --seed 7 > seeds.txt`
}

func (c *seedsCmd) Run(_ context.Context, std *cli.Std) error {
	w, err := c.web(c.Port)
	if err != nil {
		return err
	}
	for _, url := range w.Seeds() {
		if _, err := fmt.Fprintln(std.Out, url); err != nil {
			return err
		}
	}
	return nil
}

type oracleCmd struct {
	webFlags
	portFlag
	JSON       bool `name:"json" help:"Print a JSON object a line instead of tab-separated text."`
	Duplicates bool `help:"Print only how many URLs, documents and duplicate documents there are, as one JSON object."`
}

func (oracleCmd) Help() string {
	return `Print every URL that a correct crawl comes across and what becomes of it, sorted by URL: url, outcome and HTTP status (0: no reply),
between tabs. No network is used, no page is read. The outcomes are those of fetch records: fetched, robots-denied, dns-failed.

A crawl is correct that obeys robots.txt; follows redirects and the links of a, area, iframe, img, script and link elements on
pages of status 200; takes the sitemaps that robots.txt names; and sets no limit. In which order it works makes no difference,
nor whether it skips the links of a page whose content it has seen. With --hard the answer leaves out what --hard adds.

  mweb oracle --seed 7 > want.tsv
  mweb oracle --seed 7 --json | jq -r 'select(.status == 200).url'
  mweb oracle --seed 7 --duplicates

Memory grows with the web here, by about 300 bytes a URL.`
}

func (c *oracleCmd) Run(_ context.Context, std *cli.Std) error {
	w, err := c.web(c.Port)
	if err != nil {
		return err
	}
	verdicts := w.Oracle()
	out := bufio.NewWriter(std.Out)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if c.Duplicates {
		documents, duplicates := w.Duplicates(verdicts)
		err = encoder.Encode(struct {
			URLs       int `json:"urls"`
			Documents  int `json:"documents"`
			Duplicates int `json:"duplicates"`
		}{len(verdicts), documents, duplicates})
		verdicts = nil
	}
	for _, v := range verdicts {
		if c.JSON {
			err = encoder.Encode(v)
		} else {
			_, err = fmt.Fprintf(out, "%s\t%s\t%d\n", v.URL, v.Outcome, v.Status)
		}
		if err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

type changesCmd struct {
	webFlags
	portFlag
	At time.Time `placeholder:"TIME" format:"2006-01-02T15:04:05.999999999Z07:00" help:"RFC 3339 (default: the clock)."`
}

func (changesCmd) Help() string {
	return `Print, sorted by URL and between tabs, the pages of a web with --hard --changing; the mean time between two changes of each in seconds
(0: it never changes); and the times of the last change up to --at and of the next one, empty if there is none. Pages change from 1970 to 2200. Changes come as a Poisson process,
drawn from the seed: at the same time a page is the same to everybody. Of the pages, a quarter each tells ETag, Last-Modified, both, or neither;
one in four tells truly how long it stays as it is, by Cache-Control or Expires; one in ten falsely: a year if it changes, no time if it never does. Pages of h3, h13 and so on change every second.

  mweb changes --seed 7 --hard --changing --at 2026-11-01T00:00:00Z`
}

func (c *changesCmd) Run(_ context.Context, std *cli.Std) error {
	c.Hard, c.Changing = true, true
	w, err := c.web(c.Port)
	if err != nil {
		return err
	}
	if c.At.IsZero() {
		c.At = std.Now()
	}
	out := bufio.NewWriter(std.Out)
	for _, v := range w.Oracle() {
		host, target, _ := strings.Cut(strings.TrimPrefix(v.URL, "http://"), "/")
		if ch, ok := w.Change(host, "/"+target, c.At); ok {
			fmt.Fprintf(out, "%s\t%d\t%s\t%s\n", v.URL, int(ch.Mean.Seconds()), instant(ch.Last), instant(ch.Next))
		}
	}
	return out.Flush()
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

type resolveCmd struct {
	webFlags
	Names []string `arg:"" help:"Host names."`
}

func (resolveCmd) Help() string {
	return `Print what the built-in name server answers for names: the address, the alias it is behind, or the error. For use by hand and in scripts
that fill a hosts file.

  mweb resolve h0.mweb.test h6.mweb.test nxdomain0.mweb.test`
}

func (c *resolveCmd) Run(_ context.Context, std *cli.Std) error {
	w, err := c.web(0)
	if err != nil {
		return err
	}
	for _, name := range c.Names {
		if _, err := fmt.Fprintf(std.Out, "%s\t%s\n", name, w.Lookup(name)); err != nil {
			return err
		}
	}
	return nil
}

type grammar struct {
	cli.Common `embed:""`
	Serve      serveCmd   `cmd:"" help:"Serve a web until interrupted."`
	Seeds      seedsCmd   `cmd:"" help:"Print the seed URLs."`
	Oracle     oracleCmd  `cmd:"" help:"Print what a correct crawl finds."`
	Changes    changesCmd `cmd:"" help:"Print how often pages change."`
	Resolve    resolveCmd `cmd:"" help:"Print the addresses of names."`
}

func main() { os.Exit(cli.Main("mweb", about, &grammar{}, 256<<20)) }

// listenError names the address that could not be had.
func listenError(flag string, err error) error {
	hint := "choose another with " + flag + ", or leave it out and take a free one"
	return &fault.Error{Place: "listen", Found: err.Error(), Err: err, Hint: hint}
}
