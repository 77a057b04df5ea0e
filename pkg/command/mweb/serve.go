package mweb

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/fetch"
	"mercator/pkg/simweb"
)

// serverFlags say where a web is served.
type serverFlags struct {
	Port             int    `default:"0" placeholder:"PORT" help:"TCP port of all hosts (default: a free one)."`
	DNS              string `name:"dns" default:"127.0.0.1:0" placeholder:"ADDR:PORT" help:"Name server (default: a free port of 127.0.0.1)."`
	OneAddress       bool   `help:"All hosts share 127.0.0.1."`
	IPv6             bool   `name:"ipv6" help:"Every second host has the address ::1 too."`
	Ready            string `placeholder:"FILE" help:"Write the line of JSON to this file too."`
	Log              string `placeholder:"FILE" help:"Append a line for each request to this file."`
	UntilStdinCloses bool   `help:"Stop when standard input ends."`
}

type serveCmd struct {
	webFlags
	serverFlags
	Clock time.Time `placeholder:"TIME" format:"2006-01-02T15:04:05.999999999Z07:00" help:"With --hard: time of the web at its start."`
	Speed float64   `default:"1" help:"With --hard: the web's time runs this fast."`
}

// Help is part of --help.
func (serveCmd) Help() string {
	return `Examples:
  mweb serve --seed 7 --port 18080 --dns 127.0.0.1:15353
  mcrawl set crawl resolve.servers=127.0.0.1:15353 network.allow_net=127.0.0.0/8`
}

// check finds what is wrong with the flags before anything is opened.
func (c *serveCmd) check() error {
	switch {
	case !c.Hard && (c.Speed != 1 || !c.Clock.IsZero()):
		return &fault.Error{Class: fault.Usage, Found: "--clock or --speed without --hard", Want: "--hard"}
	case !(c.Speed > 0 && c.Speed <= 1e9):
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("--speed %v", c.Speed), Want: "more than 0, at most 1e9"}
	}
	_, err := c.web(c.Port)
	return err
}

// clock is the web's: it starts at --clock and runs --speed times as fast as now.
func (c *serveCmd) clock(now func() time.Time) func() time.Time {
	start := now()
	from := c.Clock
	if from.IsZero() {
		from = start
	}
	return func() time.Time {
		passed := min(float64(now().Sub(start))*c.Speed, math.MaxInt64/2) // 146 years
		return from.Add(time.Duration(passed))
	}
}

// readyLine is the line that serve prints once it takes requests.
type readyLine struct {
	Seed       uint64   `json:"seed"` // 0 of a saved crawl
	Port       int      `json:"port"`
	DNS        string   `json:"dns"`
	OneAddress bool     `json:"one_address"`
	Seeds      []string `json:"seeds"`
}

func (c *serveCmd) Run(ctx context.Context, std *cli.Std) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.serve(ctx, std, func(port int) (*served, error) {
		web, err := c.web(port)
		if err != nil {
			return nil, err
		}
		s := &served{respond: web.Calm(), lookup: web.Lookup, seed: c.Seed, seeds: web.Seeds(), dead: c.Rough}
		if c.Hard {
			s.respond, s.delay = web.NewHard().Clocked(c.clock(std.Now)), web.NameDelay
		}
		return s, nil
	})
}

type replayCmd struct {
	Saved []string `arg:"" help:"Crawl folders, fetch stores or WARC files."`
	At    string   `placeholder:"DATE" help:"The reply saved nearest to this day or time."`
	serverFlags
	cli.ArchiveFlags
}

// Help is part of --help.
func (replayCmd) Help() string {
	return `Each URL gets the reply that was saved last, or with --at the nearest; one that
was not saved gets 404.
Use it as a proxy, or with --port the port of its URLs.

Examples:
  mweb replay crawl --port 18080 &
  http_proxy=http://127.0.0.1:18080 wget http://www.example.org/
  mcrawl set again fetch.proxy=http://127.0.0.1:18080`
}

func (c *replayCmd) Run(ctx context.Context, std *cli.Std) error {
	at, err := c.time()
	if err != nil {
		return err
	}
	parts, err := fetch.Saved(c.Saved, store.Options{})
	if err != nil {
		return err
	}
	return c.serve(ctx, std, func(port int) (*served, error) {
		lax := std.Tolerance(c.ArchiveFlags, false)
		a, err := simweb.OpenArchive(parts, port, at, lax)
		if err != nil {
			return nil, err
		}
		if err := lax.Err(); err != nil {
			std.WarnAlways("%v", err)
		}
		return &served{respond: a.Respond, lookup: a.Lookup, seeds: []string{a.First}, close: a.Close}, nil
	})
}

// time returns the time of --at; zero without it.
func (c *replayCmd) time() (at time.Time, err error) {
	if c.At == "" {
		return at, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339, "20060102150405"} { // the last layout is CDXJ's
		if at, err = time.Parse(layout, c.At); err == nil && !at.IsZero() {
			return at, nil
		}
	}
	return at, &fault.Error{Class: fault.Usage, Place: "--at", Found: strconv.Quote(c.At), Want: "a day such as 2026-11-29, or a time such as 2026-11-29T04:30:00Z", Hint: "mweb replay " + fault.Quote(c.Saved...) + " --at 2026-11-29"}
}

// served is a web.
type served struct {
	respond simweb.Responder
	lookup  func(name string) simweb.Answer
	delay   func(name string) time.Duration // of a name's answer; nil: none
	seed    uint64
	seeds   []string
	dead    bool         // some addresses are
	close   func() error // nil: there is nothing to close
}

// serve serves the web that open makes for a port.
func (c *serverFlags) serve(ctx context.Context, std *cli.Std, open func(port int) (*served, error)) (err error) {
	if _, err := netip.ParseAddrPort(c.DNS); err != nil {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("--dns %q", c.DNS), Want: "ADDR:PORT, such as 127.0.0.1:5353; port 0 takes a free one"}
	}
	listeners, one, err := simweb.Listen(c.Port, c.OneAddress, c.IPv6)
	if err != nil {
		return listenError("--port", err)
	}
	server := &simweb.Server{}
	defer server.Close()
	port := simweb.Port(listeners[0])
	web, err := open(port)
	if err != nil {
		return err
	}
	if web.close != nil {
		defer web.close()
	}
	if web.dead && !one.IsValid() {
		held, err := simweb.HoldDead(listeners[0])
		if err != nil {
			return listenError("--port", err)
		}
		defer held.Close()
	}
	server.Respond = web.respond
	ready := readyLine{Seed: web.seed, Port: port, OneAddress: one.IsValid(), Seeds: web.seeds}
	options := simweb.NameOptions{One: one, IPv6: c.IPv6, Lookup: web.lookup, Delay: web.delay}
	if c.Log != "" {
		log, openErr := openLog(c.Log)
		if openErr != nil {
			return openErr
		}
		defer func() {
			server.Close() // no request is logged after this
			if closeErr := log.close(); err == nil {
				err = closeErr
			}
		}()
		server.Log = log.contact
	}
	names, err := simweb.ServeNames(c.DNS, options)
	if err != nil {
		return listenError("--dns", err)
	}
	defer names.Close()

	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- server.Serve(l) }()
	}
	ready.DNS = names.Addr.String()
	line, err := json.Marshal(ready)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := std.Out.Write(line); err != nil {
		return err
	}
	if c.Ready != "" {
		if err := durable.WriteOutput(c.Ready, line); err != nil {
			return err
		}
	}

	closed := make(chan struct{})
	if c.UntilStdinCloses {
		go func() {
			io.Copy(io.Discard, std.In) // however it ends, it has ended
			close(closed)
		}()
	}
	select {
	case <-ctx.Done():
	case <-closed:
	case err = <-failed:
	}
	std.Stat("requests", server.Requests())
	return err
}

// contactLog writes one line a request. Its first error is kept for the end:
// the web goes on.
type contactLog struct {
	mu   sync.Mutex
	file *os.File
	line []byte
	err  error
}

func openLog(path string) (*contactLog, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, &fault.Error{File: path, Found: err.Error(), Err: err}
	}
	return &contactLog{file: f}, nil
}

func (l *contactLog) contact(c simweb.Contact) {
	const layout = "2006-01-02T15:04:05.000000Z"
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = fmt.Appendf(l.line[:0], "%s\t%s\t%s\t%q\t%q\t%d\n", c.Start.UTC().Format(layout), c.End.UTC().Format(layout), c.Local, c.Host, c.Target, c.Status)
	if _, err := l.file.Write(l.line); err != nil && l.err == nil {
		l.err = &fault.Error{File: l.file.Name(), Found: err.Error(), Err: err}
	}
}

func (l *contactLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.file.Close(); err != nil && l.err == nil {
		l.err = err
	}
	return l.err
}
