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
	Port             int       `default:"0" placeholder:"PORT" help:"TCP port of all hosts (default: a free one)."`
	DNS              string    `name:"dns" default:"127.0.0.1:0" placeholder:"ADDR:PORT" help:"Name server (default: a free port of 127.0.0.1)."`
	OneAddress       bool      `help:"All hosts share 127.0.0.1."`
	IPv6             bool      `name:"ipv6" help:"Every second host has the address ::1 too."`
	Ready            string    `placeholder:"FILE" help:"Write the line of JSON to this file too."`
	Log              string    `placeholder:"FILE" help:"Append a line for each request to this file."`
	WARC             []string  `name:"warc" sep:"none" placeholder:"FILE" help:"Serve these WARC files, not a synthetic web."`
	Files            []string  `arg:"" optional:"" help:"Further files for --warc."`
	Clock            time.Time `placeholder:"TIME" format:"2006-01-02T15:04:05.999999999Z07:00" help:"With --hard: time of the web at its start."`
	Speed            float64   `default:"1" help:"With --hard: the web's time runs this fast."`
	UntilStdinCloses bool      `help:"Stop when standard input ends."`
}

// Help is part of --help.
func (serveCmd) Help() string {
	return `Examples:
  mweb serve --seed 7 --port 18080 --dns 127.0.0.1:15353 &
  mweb serve --port 18080 --warc crawl/fetch/*.warc.gz*`
}

// check finds what is wrong with the flags before anything is opened.
func (c *serveCmd) check() error {
	switch {
	case len(c.Files) > 0 && len(c.WARC) == 0:
		return &fault.Error{Class: fault.Usage, Found: "unexpected argument " + c.Files[0], Hint: "serve a saved crawl with --warc FILE"}
	case !c.Hard && (c.Speed != 1 || !c.Clock.IsZero()):
		return &fault.Error{Class: fault.Usage, Found: "--clock or --speed without --hard", Want: "--hard"}
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
