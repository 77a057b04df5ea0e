package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/driver/tell"
	"mercator/pkg/view/report"
)

type reportCmd struct {
	Crawl   string `arg:"" help:"The crawl folder."`
	Output  string `short:"o" placeholder:"FILE" help:"Where the page goes; - is standard output (default: CRAWL-report.html)."`
	Compare string `placeholder:"CRAWL" help:"Show another crawl beside it, and which URLs differ."`
}

// Help is part of --help.
func (*reportCmd) Help() string {
	return `One HTML page that opens without a network, made from the records of a crawl that is done or
goes on: plots of pages and URLs over time, outcomes, types, sizes, hosts, errors, changes,
broken links, and pages that lack a title, are slow or large.
"mcrawl stats --json" has the same figures; each plot names the command that gives its own.

Examples:
  mcrawl report crawl                                      # crawl-report.html
  mcrawl report tuesday --compare monday -o changes.html`
}

func (c *reportCmd) Run(ctx context.Context, std *cli.Std) error {
	page, err := pageOf(ctx, std, c.Crawl, c.Compare, 0)
	if err != nil {
		return err
	}
	if c.Output == "-" {
		_, err := std.Out.Write(page)
		return err
	}
	to, err := outputPath(c.Crawl, c.Output, "-report.html")
	if err != nil {
		return err
	}
	there, err := replacesOwn(to, aPage())
	if err != nil {
		return err
	}
	err = durable.WriteOutput(to, page)
	if errors.Is(err, fs.ErrPermission) && c.Output == "" {
		return &fault.Error{Err: err, Hint: "-o FILE writes it elsewhere"}
	}
	if err != nil {
		return err
	}
	did := "wrote"
	if there {
		did = "replaced"
	}
	std.Warn("%s %s", did, to)
	return nil
}

// aPage is how a page of mcrawl report begins.
var aPage = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^<!doctype html>`) })

// pageOf makes the page. Its size is bounded, as the tables of its figures are. One that loads itself again, as refresh says, may be of
// a crawl that is about to fetch.
func pageOf(ctx context.Context, std *cli.Std, crawl, compare string, refresh time.Duration) ([]byte, error) {
	d, err := tell.Open(crawl, std.Now, std.Warn)
	if err != nil {
		return nil, err
	}
	now := std.Now()
	shown, err := d.Report(ctx, now)
	if err == nil && refresh == 0 {
		if err = d.Fetched(shown); err == nil {
			err = d.ReportPages(ctx, shown)
		}
	}
	if err != nil {
		return nil, err
	}
	opt := report.Options{Now: now, Refresh: refresh}
	if compare != "" {
		other, err := tell.Open(compare, std.Now, std.Warn)
		if err != nil {
			return nil, err
		}
		if opt.Other, err = other.Report(ctx, now); err == nil {
			err = other.Fetched(opt.Other)
		}
		if err == nil {
			err = other.ReportPages(ctx, opt.Other)
		}
		if err != nil {
			return nil, err
		}
		if opt.Between, err = d.Compare(other); err != nil {
			return nil, err
		}
	}
	var b strings.Builder
	err = report.Write(&b, shown, opt)
	return []byte(b.String()), err
}

// writeTimeout bounds how long a reader of the page may take.
const writeTimeout = time.Minute

// watchConnections is how many may be open at a time; others wait.
const watchConnections = 32

// namesLoopback reports whether a Host header names this machine by localhost or by a loopback address.
func namesLoopback(host string) bool {
	u := url.URL{Host: host}
	name := strings.TrimSuffix(u.Hostname(), ".")
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

type watchCmd struct {
	Crawl   string        `arg:"" help:"The crawl folder."`
	Listen  string        `default:"127.0.0.1:8100" placeholder:"ADDR" help:"Loopback address and port; port 0 takes any."`
	Every   time.Duration `default:"10s" placeholder:"TIME" help:"The page loads itself again this often, and is not made more often."`
	Metrics string        `placeholder:"FILE.prom" help:"Write this file as often, for Prometheus' node exporter (textfile collector)."`
}

// Help is part of --help.
func (*watchCmd) Help() string {
	return `Serves the page of "mcrawl report" while the crawl runs. It only reads the crawl. The page is made
when somebody asks for it, by the address that the command prints: its token keeps other
users of this machine out. Ctrl-C ends it.

Examples:
  mcrawl watch crawl
  mcrawl watch crawl --listen 127.0.0.1:0 --every 1m
  mcrawl watch crawl --metrics /var/lib/node_exporter/crawl.prom`
}

func (c *watchCmd) Run(ctx context.Context, std *cli.Std) error {
	host, _, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return &fault.Error{Class: fault.Usage, Place: "--listen", Found: fmt.Sprintf("%q", c.Listen), Want: "a loopback address and a port, such as 127.0.0.1:8100",
			Hint: "others may see it through ssh -L 8100:127.0.0.1:8100"}
	}
	if c.Every < time.Second {
		return &fault.Error{Class: fault.Usage, Place: "--every", Found: c.Every.String(), Want: "1s or more"}
	}
	log := std.LogsJSON() // is read by others: no token goes there, and without one nobody gets the page
	if log && c.Metrics == "" {
		return &fault.Error{Class: fault.Usage, Place: "MERCATOR_LOG", Found: "json, for a page with a token in its address, which no log gets", Want: "none, or --metrics FILE.prom",
			Hint: fault.Quote("env", "-u", "MERCATOR_LOG", "mcrawl", "watch", c.Crawl)}
	}
	var page []byte
	if !log {
		page, err = pageOf(ctx, std, c.Crawl, "", c.Every)
	}
	if err == nil && c.Metrics != "" {
		err = tell.WriteMetrics(ctx, c.Crawl, c.Metrics, std.Now())
	}
	if err != nil {
		return err
	}
	if log {
		std.Warn("%s is written every %v; no page is served, since no log gets its token", c.Metrics, c.Every)
		c.keepMetrics(ctx, std)
		return nil
	}
	listener, err := net.Listen("tcp", c.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return &fault.Error{Class: fault.Busy, Place: "--listen", Found: c.Listen + " is in use", Want: "a free port", Hint: fault.Quote("mcrawl", "watch", c.Crawl, "--listen", net.JoinHostPort(host, "0")), Err: err}
	}
	if err != nil {
		return err
	}
	made := std.Now()
	turn := make(chan struct{}, 1) // one page is made at a time
	latest := func(asked context.Context) ([]byte, error) {
		select {
		case turn <- struct{}{}:
		case <-asked.Done():
			return nil, asked.Err()
		}
		defer func() { <-turn }()
		if std.Now().Sub(made) >= c.Every {
			fresh, err := pageOf(ctx, std, c.Crawl, "", c.Every)
			if err != nil {
				return nil, err
			}
			page, made = fresh, std.Now()
		}
		return page, nil
	}
	token := rand.Text()
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: writeTimeout, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 1 << 14, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A page of another site that has a name for 127.0.0.1 must not read this one.
		if !namesLoopback(r.Host) {
			http.Error(w, "ask for it by its address", http.StatusForbidden)
			return
		}
		// Other users of this machine reach the port, too.
		if subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(token)) == 0 {
			http.Error(w, "open the address that mcrawl watch has printed, with its token", http.StatusForbidden)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the page can be read alone", http.StatusMethodNotAllowed)
			return
		}
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		latest, err := latest(r.Context())
		_ = http.NewResponseController(w).SetWriteDeadline(std.Now().Add(writeTimeout)) // making it may have taken longer
		if err != nil {
			w.Header().Set("Refresh", strconv.Itoa(int(c.Every.Seconds())))
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer") // the address holds the token
		_, _ = w.Write(latest)
	})}
	fmt.Fprintf(std.Err, "mcrawl: http://%s/?token=%s shows %s; Ctrl-C ends it\n", listener.Addr(), token, cli.Printable(c.Crawl))
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if c.Metrics != "" {
		go c.keepMetrics(ctx, std)
	}
	if err := server.Serve(netutil.LimitListener(listener, watchConnections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// keepMetrics writes the file of metrics until the command ends. It reports the first of a row of failures; the file's age shows them, too.
func (c *watchCmd) keepMetrics(ctx context.Context, std *cli.Std) {
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.Every):
		}
		err := tell.WriteMetrics(ctx, c.Crawl, c.Metrics, std.Now())
		if err == nil || ctx.Err() != nil {
			told = ""
		} else if err.Error() != told {
			told = err.Error()
			std.Warn("--metrics: %v", err)
		}
	}
}
