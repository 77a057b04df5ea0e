// Package mweb serves a synthetic web, or a saved one, on loopback addresses:
// HTTP, DNS, robots, and the oracle that says what a crawl must find.
package mweb

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/simweb"
)

const about = `Serve a synthetic web, or a saved one, on loopback addresses to try crawlers on.

  mweb serve --seed 7 --port 18080 --dns 127.0.0.1:15353   # in one terminal
  mweb seeds --seed 7 --port 18080                         # where to begin
  mweb oracle --seed 7 --port 18080 > want.tsv             # what to find`

// webFlags describe the web. The same flags describe the same web to every verb.
type webFlags struct {
	Seed     uint64 `group:"The web:" default:"1" help:"Number that the whole web is drawn from."`
	Hosts    int    `group:"The web:" default:"50" help:"Hosts: h0.mweb.test, which is the biggest, and so on."`
	Pages    int    `group:"The web:" default:"3000" help:"About this many HTML pages, over all hosts."`
	Size     int    `group:"The web:" default:"4096" help:"Median size of a page, in bytes."`
	Degree   int    `group:"The web:" default:"8" help:"Median number of random links on a page."`
	Sitemaps bool   `group:"The web:" default:"true" negatable:"" help:"Some pages are found in sitemaps only (default)."`
	Hard     bool   `group:"The web:" help:"Slow hosts, 429, Crawl-delay, pages that change."`
	Changing bool   `group:"The web:" help:"With --hard: pages change at rates of their own."`
	Rough    bool   `group:"The web:" help:"Of ten hosts one is slow, one dead, one not HTTP; dead addresses, cookie walls, traps that end."`
	Traps    int    `group:"The web:" placeholder:"N" help:"Of ten hosts, N have pages without end."`
	Aliases  bool   `group:"The web:" help:"Of ten hosts one is an alias (CNAME) of another, one of a content network."`
	Topics   int    `group:"The web:" placeholder:"N" help:"Pages are about N topics (mweb topics), to try focused crawls on."`
}

func (f *webFlags) web(port int) (*simweb.Web, error) {
	return simweb.New(simweb.Config{Seed: f.Seed, Hosts: f.Hosts, Pages: f.Pages, Size: f.Size, Degree: f.Degree,
		Sitemaps: f.Sitemaps, Hard: f.Hard, Changing: f.Changing, Traps: f.Traps, Topics: f.Topics, Aliases: f.Aliases, Rough: f.Rough, Port: port})
}

// portFlag is for the verbs that only print: the port is part of every URL.
type portFlag struct {
	Port int `group:"The web:" default:"18080" help:"Port in the URLs; 80 is left out."`
}

type seedsCmd struct {
	webFlags
	portFlag
}

// Help is part of --help.
func (seedsCmd) Help() string {
	return `Examples:
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
	JSON       bool `name:"json" help:"Print JSON lines instead of text with tabs."`
	Duplicates bool `help:"Only count URLs, documents and duplicates."`
	Folded     bool `help:"With --aliases: of a crawl with resolve.canonical."`
}

// Help is part of --help.
func (oracleCmd) Help() string {
	return `A line has the URL, its outcome and its HTTP status (0: no reply). With --topics, the
topic of the document follows, if it has one.

Examples:
  mweb oracle --seed 7 > want.tsv
  mweb oracle --seed 7 --json | jq -r 'select(.status == 200).url'`
}

func (c *oracleCmd) Run(_ context.Context, std *cli.Std) error {
	w, err := c.web(c.Port)
	if err != nil {
		return err
	}
	if c.Folded && !c.Aliases {
		return &fault.Error{Class: fault.Usage, Found: "--folded without --aliases", Want: "--aliases: a web has none without it"}
	}
	verdicts := w.Oracle()
	if c.Folded {
		verdicts = w.FoldedOracle()
	}
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
			line := fmt.Sprintf("%s\t%s\t%d", v.URL, v.Outcome, v.Status)
			if c.Topics > 0 {
				line += "\t" + v.Topic
			}
			_, err = fmt.Fprintln(out, line)
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
	At time.Time `placeholder:"TIME" format:"2006-01-02T15:04:05.999999999Z07:00" help:"Time of the web, RFC 3339 (default: now)."`
}

// Help is part of --help.
func (changesCmd) Help() string {
	return `A line has the URL, the mean time between two changes in seconds (0: never), the
time of the last change and of the next.

Examples:
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

type topicsCmd struct {
	webFlags
}

// Help is part of --help.
func (topicsCmd) Help() string {
	return `A line has a word that people ask for, its sense, and the words of that topic: the
form of a dictionary of mfocus. The word mouse has two senses.

Examples:
  mweb topics --topics 20 --seed 7 > words.tsv`
}

func (c *topicsCmd) Run(_ context.Context, std *cli.Std) error {
	w, err := c.web(0)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(std.Out)
	for t := 1; t <= c.Topics; t++ {
		words := w.Vocabulary(t)
		fmt.Fprintf(out, "%s\t%s\t%s\n", words[0], w.Sense(t), strings.Join(words[1:], ", "))
	}
	return out.Flush()
}

type resolveCmd struct {
	webFlags
	Names []string `arg:"" help:"Host names."`
}

// Help is part of --help.
func (resolveCmd) Help() string {
	return `Examples:
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
	Serve      serveCmd   `cmd:"" help:"Serve a web until interrupted, and print its ports and seeds as JSON."`
	Replay     replayCmd  `cmd:"" help:"Serve a saved crawl until interrupted."`
	Seeds      seedsCmd   `cmd:"" help:"Print the URLs to begin with, one a line."`
	Oracle     oracleCmd  `cmd:"" help:"Print every URL that a correct crawl finds, and its outcome."`
	Changes    changesCmd `cmd:"" help:"Print how often pages change."`
	Topics     topicsCmd  `cmd:"" help:"Print the topics of a web and their words."`
	Resolve    resolveCmd `cmd:"" help:"Print what the name server answers for names."`
}

// Command is mweb.
var Command = cli.Command{Name: "mweb", About: about, Memory: 256 << 20, Grammar: func() any { return &grammar{} }}

// listenError names the address that could not be had.
func listenError(flag string, err error) error {
	hint := "give another " + flag + ", or none to take a free one"
	if op, ok := errors.AsType[*net.OpError](err); ok && errors.Is(err, syscall.EADDRINUSE) && op.Addr != nil {
		return &fault.Error{Class: fault.Busy, Place: flag, Found: op.Addr.String() + " is in use", Want: "a free port", Hint: hint, Err: err}
	}
	return &fault.Error{Place: "listen", Found: err.Error(), Err: err, Hint: hint}
}
