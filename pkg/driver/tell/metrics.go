package tell

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
)

// MetricsSuffix ends the names of files that Prometheus' node exporter reads (--collector.textfile.directory).
const MetricsSuffix = ".prom"

// WriteMetrics replaces a file with the status of the crawl in dir, for Prometheus.
func WriteMetrics(ctx context.Context, dir, file string, now time.Time) error {
	if !strings.HasSuffix(file, MetricsSuffix) {
		return &fault.Error{Class: fault.Usage, Place: "--metrics", Found: fmt.Sprintf("%q", file), Want: "a name that ends in " + MetricsSuffix + ", as node exporters read no other"}
	}
	s, err := ReadStatus(ctx, dir, now)
	if err != nil {
		return err
	}
	return replaceBytes(file, s.Metrics(now))
}

// Metrics is the status in Prometheus' text format, version 0.0.4. The manual has the list of names.
func (s *Status) Metrics(now time.Time) []byte {
	abs, err := filepath.Abs(s.Crawl)
	if err != nil {
		abs = s.Crawl // the folder that we are in is gone
	}
	m := &metrics{crawl: abs}
	live := cmp.Or(s.Running, &Status{})
	m.gauge("info", "The release that wrote this file, and the crawl's policy.", 1, "version", release.Version, "policy", s.Policy)
	running := 0.0
	if s.Driver != "" {
		running = 1
	}
	m.gauge("running", "Whether mcrawl works on the crawl.", running)
	m.gauge("checkpoint", "Number of the checkpoint.", float64(s.Checkpoint))
	m.time("checkpoint_timestamp_seconds", "When it was made.", s.Made)
	m.gauge("rounds", "Rounds that were closed and fetched.", float64(s.Batches))
	for _, u := range []struct {
		state string
		n     uint64
	}{{"known", s.Known}, {"done", s.Done}, {"pending", s.Pending}, {"in_flight", s.InFlight}, {"waiting", s.Waiting}, {"held", s.Held}, {"parked", s.parked()}} {
		m.gauge("urls", "URLs by state: known = done + pending + in_flight; waiting (for a time), held (over a budget) and parked are of the pending.", float64(u.n), "state", u.state)
	}
	for _, c := range s.Outcomes {
		m.gauge("outcomes", "URLs by final outcome.", float64(c.N), "outcome", c.Reason)
	}
	for _, c := range s.Settings {
		m.gauge("refused_by_settings", "URLs that a setting refused, by outcome.", float64(c.N), "outcome", c.Reason)
	}
	m.gauge("visits", "Contacts after which the URL waits for the next (policies that fetch again).", float64(s.Visits))
	m.gauge("retries", "Times that a URL was tried again after a failure.", float64(s.Retried))
	m.gauge("deferrals", "Times that a URL was put off untried.", float64(s.Deferred))
	m.gauge("duplicates", "Documents that were there before.", float64(s.Equal))
	m.gauge("robots_contacts", "Contacts for a robots.txt.", float64(s.Robots))
	m.gauge("archived_bytes", "Size of the WARC files.", float64(s.Archived))
	m.gauge("inbox_requests", "Requests of mcrawl add and again that wait for the next round.", float64(s.Inbox))
	m.gauge("hosts_waiting", "Hosts with URLs that are due now.", float64(s.HostsLeft))
	m.gauge("left_seconds", "Estimate for the URLs known.", s.Left)
	lag := 0.0
	if due, err := time.Parse(time.RFC3339Nano, s.NextDue); err == nil {
		lag = max(0, now.Sub(due).Seconds())
	}
	m.gauge("lag_seconds", "By how much the URL is late that was due first: of recrawls and retries.", lag)
	m.gauge("active_hosts", "Hosts of the batch with URLs left.", float64(live.Active))
	m.gauge("connections", "Open connections.", float64(live.Connections))
	m.gauge("replies_per_second", "Replies in the last minute.", live.PerS)
	m.counter("replies_total", "Replies of this run.", float64(live.Replies))
	m.counter("received_bytes_total", "Bytes of replies of this run.", float64(live.Received))
	return m.Bytes()
}

func (s *Status) parked() (n uint64) {
	for _, p := range s.Parked {
		n += p.URLs
	}
	return n
}

// metrics are lines of Prometheus' text format. Lines of one name follow each other.
type metrics struct {
	bytes.Buffer
	crawl string
	last  string
}

func (m *metrics) gauge(name, help string, value float64, labels ...string) {
	m.addSample("gauge", name, help, value, labels)
}

func (m *metrics) counter(name, help string, value float64) {
	m.addSample("counter", name, help, value, nil)
}

// time adds a time in RFC 3339, if there is one.
func (m *metrics) time(name, help, value string) {
	if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
		m.gauge(name, help, float64(t.UnixMilli())/1000)
	}
}

// labelEscapes escapes the value of a label.
var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (m *metrics) addSample(kind, name, help string, value float64, labels []string) {
	name = "mercator_" + name
	if name != m.last {
		fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		m.last = name
	}
	m.WriteString(name)
	begin := byte('{')
	for pair := range slices.Chunk(append([]string{"crawl", m.crawl}, labels...), 2) {
		fmt.Fprintf(m, `%c%s="%s"`, begin, pair[0], labelEscapes.Replace(strings.ToValidUTF8(pair[1], "\uFFFD")))
		begin = ','
	}
	fmt.Fprintf(m, "} %s\n", strconv.FormatFloat(value, 'g', -1, 64))
}
