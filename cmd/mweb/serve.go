package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"sync"
	"time"

	"mercator/pkg/cli"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/simweb"
)

type serveCmd struct {
	webFlags
	Port             int       `default:"0" help:"TCP port of all hosts; it is part of every URL. 0 takes a free one."`
	DNS              string    `name:"dns" default:"127.0.0.1:0" placeholder:"ADDR:PORT" help:"Where the name server listens, in UDP and TCP. Port 0 takes a free one."`
	OneAddress       bool      `help:"All hosts share 127.0.0.1 and are told apart by the Host header. Always so except on Linux, where each host has an address of its own."`
	IPv6             bool      `name:"ipv6" help:"Every second host has the address ::1 too."`
	Ready            string    `placeholder:"FILE" help:"Also write the line about ports and seeds to this file, once requests are taken. The file appears complete or not at all."`
	Log              string    `placeholder:"FILE" help:"Append a line for each request: when its head was read, when the reply was written, address, host, target, status."`
	WARC             []string  `name:"warc" sep:"none" placeholder:"FILE" help:"Serve what these WARC files hold instead of a synthetic web."`
	Files            []string  `arg:"" optional:"" help:"Further files for --warc."`
	Clock            time.Time `placeholder:"TIME" format:"2006-01-02T15:04:05.999999999Z07:00" help:"With --hard: the web's time when it starts, RFC 3339 (default: the clock)."`
	Speed            float64   `default:"1" help:"With --hard: how many times as fast as the clock the web's time runs, so that pages change while one watches. How long replies are held back stays what it is."`
	UntilStdinCloses bool      `help:"Stop when standard input ends, so that the web dies with the script that started it."`
}

func (serveCmd) Help() string {
	return `Serve until SIGINT or SIGTERM. Once all is ready one line of JSON appears on standard output, and in --ready FILE:

  {"seed":7,"port":18080,"dns":"127.0.0.1:15353","one_address":false,"seeds":["http://h0.mweb.test:18080/"]}

Each host has its own loopback address (Linux) and all have one port. Point a resolver or a crawler at the name server, or go by hand:

  mweb serve --seed 7 --port 18080 --dns 127.0.0.1:15353 &
  dig +short @127.0.0.1 -p 15353 h3.mweb.test
  curl --resolve h3.mweb.test:18080:127.1.0.4 http://h3.mweb.test:18080/robots.txt

In a script, with the web ending when the script does:

  mkfifo hold; mweb serve --ready web.json --until-stdin-closes < hold > /dev/null & exec 9> hold

A saved crawl as a web, for other crawlers to be pointed at. Its URLs have ports of their own, so use it as a proxy for http, or give
the URLs this port; a request is answered with the saved reply to the http URL, or else to the https one:

  mweb serve --port 18080 --warc crawl/fetch/*.warc.gz* &
  http_proxy=http://127.0.0.1:18080 wget -r http://www.example.org/`
}

// check finds what is wrong with the flags before anything is opened.
func (c *serveCmd) check() error {
	switch {
	case len(c.Files) > 0 && len(c.WARC) == 0:
		return &fault.Error{Class: fault.Usage, Found: "unexpected argument " + c.Files[0], Hint: "a saved crawl is served with --warc FILE..."}
	case !c.Hard && (c.Speed != 1 || !c.Clock.IsZero()):
		return &fault.Error{Class: fault.Usage, Found: "--clock or --speed for a web without time", Want: "--hard"}
	case !(c.Speed > 0 && c.Speed <= 1e9):
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("--speed %v", c.Speed), Want: "more than 0, at most 1e9"}
	case len(c.WARC) > 0 && c.Hard:
		return &fault.Error{Class: fault.Usage, Found: "--hard with --warc", Want: "one of them: a saved web does not change"}
	}
	if _, err := netip.ParseAddrPort(c.DNS); err != nil {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("--dns %q", c.DNS), Want: "ADDR:PORT, such as 127.0.0.1:5353; port 0 takes a free one"}
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

// readyLine is what serve prints once it takes requests.
type readyLine struct {
	Seed       uint64   `json:"seed"` // 0 with --warc
	Port       int      `json:"port"`
	DNS        string   `json:"dns"`
	OneAddress bool     `json:"one_address"`
	Seeds      []string `json:"seeds"`
}

func (c *serveCmd) Run(ctx context.Context, std *cli.Std) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	listeners, one, err := simweb.Listen(c.Port, c.OneAddress, c.IPv6)
	if err != nil {
		return listenError("--port", err)
	}
	server := &simweb.Server{}
	defer server.Close()
	port := simweb.Port(listeners[0])
	ready := readyLine{Seed: c.Seed, Port: port, OneAddress: one.IsValid()}
	options := simweb.NameOptions{One: one, IPv6: c.IPv6}
	if len(c.WARC) > 0 {
		archive, err := simweb.OpenArchive(append(c.WARC, c.Files...), port)
		if err != nil {
			return err
		}
		defer archive.Close()
		server.Respond, options.Lookup = archive.Respond, archive.Lookup
		ready.Seed, ready.Seeds = 0, []string{archive.First}
	} else {
		web, err := c.web(port)
		if err != nil {
			return err
		}
		server.Respond, options.Lookup = web.Calm(), web.Lookup
		if c.Hard {
			server.Respond, options.Delay = web.NewHard().Clocked(c.clock(std.Now)), web.NameDelay
		}
		ready.Seeds = web.Seeds()
	}
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
