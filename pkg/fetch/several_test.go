package fetch_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
	"mercator/pkg/fetch"
)

// counting is a protocol module that counts the contacts that are under way with each host.
type counting struct {
	took   time.Duration
	slower time.Duration                          // by so much each contact is than the one before
	answer func(req *fetch.Request, n int) string // n: of the host's contacts, from 1 on; "": a page

	mu    sync.Mutex
	open  map[string]int
	most  map[string]int
	n     map[string]int
	asked []asked
}

// asked is a contact.
type asked struct {
	url        string
	start, end time.Time
}

func (*counting) Check(string) error { return nil }

func (c *counting) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	c.mu.Lock()
	if c.open == nil {
		c.open, c.most, c.n = map[string]int{}, map[string]int{}, map[string]int{}
	}
	c.open[req.Host]++
	c.n[req.Host]++
	n, start := c.n[req.Host], time.Now()
	c.most[req.Host] = max(c.most[req.Host], c.open[req.Host])
	c.mu.Unlock()
	raw := ""
	if c.answer != nil {
		raw = c.answer(req, n)
	}
	if raw == "" {
		raw = page("text of " + req.URL)
		if strings.HasSuffix(req.URL, "/robots.txt") {
			raw = text("User-agent: *\nDisallow: /private\n")
		}
	}
	sleep(ctx, c.took+time.Duration(n)*c.slower)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[req.Host]--
	c.asked = append(c.asked, asked{req.URL, start, time.Now()})
	return &fetch.Reply{Outcome: record.OutcomeFetched, Sent: []byte("GET " + req.URL + "\r\n\r\n"), Response: strings.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
}

// siteURLs are n URLs of each host.
func siteURLs(n int, hosts ...string) (urls []record.URL) {
	for i := range n {
		for _, host := range hosts {
			urls = append(urls, url(fmt.Sprintf("http://%s/%d", host, i)))
		}
	}
	return urls
}

// TestSeveralConnections: a host that is named is asked over so many connections, which keep their gaps, and no other.
func TestSeveralConnections(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name        string
		allowed     int
		connections int
		static      bool
		gap         time.Duration
		most        int           // with a gap perhaps one less: the first connection waits for it after robots.txt
		took        time.Duration // of the batch: robots.txt, and 80 URLs of 10 ms
	}{
		{"one", 1, 20, false, 0, 1, 810 * ms},
		{"eight without a gap", 8, 20, false, 0, 8, 110 * ms},
		{"eight with a gap each", 8, 20, false, 90 * ms, 8, (10 + 90 + 10*100 - 90) * ms},
		{"bounded by the connections", 8, 4, false, 0, 4, 0},
		{"assigned", 4, 20, true, 0, 4, 210 * ms},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			w := &counting{took: 10 * ms}
			opt := options(newStore(t), w)
			opt.MinDelay, opt.MaxDelay, opt.Connections, opt.Static = c.gap, c.gap, c.connections, c.static
			opt.AddrDelay = 7 * ms // nothing to the host that is named
			opt.Hosts = overHosts(map[string]int{"many.test": c.allowed})
			if c.allowed == 1 {
				opt.AddrDelay = 0
			}
			urls := append(siteURLs(80, "many.test"), siteURLs(3, "one.test", "two.test")...)
			began := time.Now()
			rows := run(t, opt, "r1", urls)
			took := time.Since(began)
			outcomes(t, rows, urls)
			if most := w.most["many.test"]; most != c.most && (c.gap == 0 || most != c.most-1) || w.most["one.test"] != 1 || w.most["two.test"] != 1 {
				t.Errorf("contacts at a time: %v, want %d with many.test and 1 with others", w.most, c.most)
			}
			if first := w.asked[slices.IndexFunc(w.asked, func(a asked) bool { return strings.Contains(a.url, "many") })]; first.url != "http://many.test/robots.txt" {
				t.Errorf("asked first: %s", first.url)
			}
			for _, a := range w.asked {
				if robots := w.asked[slices.IndexFunc(w.asked, func(a asked) bool { return a.url == "http://many.test/robots.txt" })]; strings.Contains(a.url, "many.test/") && a.url != robots.url && a.start.Before(robots.end) {
					t.Errorf("%s is asked for before robots.txt came", a.url)
				}
			}
			if c.took > 0 && took > c.took+c.gap {
				t.Errorf("took %v, want %v", took, c.took)
			}
			if n := w.n["many.test"]; n != 81 {
				t.Errorf("%d contacts, want 81", n)
			}
			audits(t, rows, opt, 0)
			opt.Hosts = nil
			if c.most > 1 {
				audits(t, rows, opt, 1) // whoever was not named
			}
		})
	}
}

// audits audits rows by the settings. An early above 0 wants contacts that came early.
func audits(t *testing.T, rows []record.Fetch, opt fetch.Options, early uint64) {
	t.Helper()
	got := auditOf(t, fetch.AuditOptions{Policy: opt.Policy, AddrDelay: opt.AddrDelay, Memory: 8 << 20, Worst: 3}, func(add func(*record.Fetch)) {
		for i := range rows {
			add(&rows[i])
		}
	})
	if (got.Hosts.Violations > 0) != (early > 0) || early == 0 && got.Addrs.Violations > 0 {
		t.Errorf("audit %+v, want early: %v", got, early > 0)
	}
}

// TestSeveralConnectionsHearTheServer: what a server asks for holds for all connections.
func TestSeveralConnectionsHearTheServer(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	robots := func(lines string) func(*fetch.Request, int) string {
		return func(req *fetch.Request, _ int) string {
			if strings.HasSuffix(req.URL, "/robots.txt") {
				return text("User-agent: *\n" + lines)
			}
			return ""
		}
	}
	busy := func(fields string, at ...int) func(*fetch.Request, int) string {
		return func(_ *fetch.Request, n int) string {
			if slices.Contains(at, n) {
				return "HTTP/1.1 503 Busy\r\n" + fields + "Content-Length: 0\r\n\r\n"
			}
			return ""
		}
	}
	for _, c := range []struct {
		name   string
		answer func(*fetch.Request, int) string
		most   int
		starts []time.Duration // of contacts with 21 URLs, over four connections, of 101 ms, 102 ms, and so on
	}{
		{"nothing", nil, 4, []time.Duration{0, 101 * ms, 101 * ms, 101 * ms, 101 * ms, 203 * ms, 204 * ms, 205 * ms}},
		{"a Crawl-delay", robots("Crawl-delay: 3\n"), 1, []time.Duration{0, 3101 * ms, 6203 * ms, 9306 * ms, 12410 * ms, 15515 * ms}},
		{"Retry-After", busy("Retry-After: 60\r\n", 4), 4, []time.Duration{0, 101 * ms, 101 * ms, 101 * ms, 101 * ms, 203 * ms, 204 * ms, 60*s + 205*ms, 60*s + 205*ms, 60*s + 205*ms, 60*s + 205*ms, 60*s + 313*ms}},
		{"Retry-After twice", busy("Retry-After: 60\r\n", 3, 6), 4, []time.Duration{0, 101 * ms, 101 * ms, 101 * ms, 101 * ms, 203 * ms, 60*s + 309*ms, 60*s + 309*ms, 60*s + 309*ms, 60*s + 309*ms, 60*s + 416*ms}},
		{"too many requests", busy("", 5), 4, []time.Duration{0, 101 * ms, 101 * ms, 101 * ms, 101 * ms, 203 * ms, 204 * ms, 205 * ms, 1206 * ms, 1206 * ms, 1206 * ms, 1206 * ms, 1315 * ms}},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			w := &counting{took: 100 * ms, slower: ms, answer: c.answer}
			opt := options(newStore(t), w)
			opt.Hosts = overHosts(map[string]int{"many.test": 4})
			urls := siteURLs(21, "many.test")
			began := time.Now()
			rows := run(t, opt, "r1", urls)
			outcomes(t, rows, urls)
			var starts []time.Duration
			for _, a := range w.asked {
				starts = append(starts, a.start.Sub(began))
			}
			slices.Sort(starts)
			if got := starts[:len(c.starts)]; !slices.Equal(got, c.starts) || w.most["many.test"] != c.most {
				t.Errorf("contacts at %v, %d at a time, want %v, %d", got, w.most["many.test"], c.starts, c.most)
			}
			audits(t, rows, opt, 0)
		})
	}
}

// TestSeveralConnectionsEnd: a host that fails, parks or hangs does so with all connections, and no URL is lost or had twice.
func TestSeveralConnectionsEnd(t *testing.T) {
	down := func(*fetch.Request, int) string {
		return "HTTP/1.1 503 Busy\r\nRetry-After: 90000\r\nContent-Length: 0\r\n\r\n"
	}
	failing := func(*fetch.Request, int) string {
		return "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"
	}
	for _, c := range []struct {
		name   string
		answer func(*fetch.Request, int) string
		change func(*fetch.Options)
		least  map[string]int // outcomes of 40 URLs
	}{
		{"asks for a day and more", down, nil, map[string]int{record.OutcomeFetched: 1, record.OutcomeParked: 36}},
		{"fails", failing, nil, map[string]int{record.OutcomeFetched: 5, record.OutcomeDeferred: 32}},
		{"the batch ends", nil, func(o *fetch.Options) { o.Deadline = 250 * time.Millisecond }, map[string]int{record.OutcomeFetched: 12, record.OutcomeDeferred: 28}},
		{"bytes", nil, func(o *fetch.Options) { o.BytesMax = 1000 }, map[string]int{record.OutcomeFetched: 4, record.OutcomeDeferred: 20}},
		{"an error in the name", nil, func(o *fetch.Options) { o.Resolver = &deaf{failure: "nxdomain", asked: map[string]int{}} }, map[string]int{record.OutcomeDNS: 40}},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			opt := options(newStore(t), &counting{took: 100 * time.Millisecond, answer: c.answer})
			opt.Robots, opt.Hosts = nil, overHosts(map[string]int{"dead.test": 4})
			if c.change != nil {
				c.change(&opt)
			}
			urls := siteURLs(40, "dead.test")
			if opt.Resolver != nil {
				for i := range urls {
					urls[i].Addr = ""
				}
			}
			got := map[string]int{}
			for _, o := range outcomes(t, run(t, opt, "r1", urls), urls) {
				got[o]++
			}
			for o, least := range c.least {
				if got[o] < least {
					t.Errorf("outcomes %v, want at least %v", got, c.least)
				}
			}
		})
	}
}

// TestSeveralConnectionsGoOn: after an interruption, and after each round, gaps hold over all connections; the archive gives the same rows again.
func TestSeveralConnectionsGoOn(t *testing.T) {
	for name, stop := range map[string]func(testing.TB, fetch.Options, string, []record.URL){"killed": interrupted, "stopped": stopped} {
		inBubble(t, name, func(t *testing.T) {
			w := &counting{took: 10 * time.Millisecond}
			opt := options(newStore(t), w)
			opt.Hosts = overHosts(map[string]int{"many.test": 6})
			opt.MinDelay, opt.MaxDelay = 50*time.Millisecond, 50*time.Millisecond
			urls := siteURLs(60, "many.test", "one.test")
			stop(t, opt, "r1", urls)
			first := w.asked
			w.asked = nil
			rows := run(t, opt, "r1", urls)
			outcomes(t, rows, urls)
			end := time.Time{}
			for _, a := range first {
				end = latest(end, a.end)
			}
			for _, a := range w.asked {
				if gap := a.start.Sub(end); gap < opt.MinDelay {
					t.Fatalf("%s is asked for %v after the end of the run before, want %v", a.url, gap, opt.MinDelay)
				}
			}
			times := map[string]int{}
			for _, a := range slices.Concat(first, w.asked) {
				times[a.url]++
			}
			again := 0
			for _, n := range times {
				again += n - 1
			}
			if again > opt.Connections+fetch.Unwritten {
				t.Errorf("%d contacts made again", again)
			}
			sameAgain(t, opt.Store, urls, rows)
			more := run(t, opt, "r2", siteURLs(20, "many.test/again"))
			audits(t, append(rows, more...), opt, 0)
		})
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// TestSeveralConnectionsAndDeadAddresses: visits over several connections to a host with a dead address find the live one.
func TestSeveralConnectionsAndDeadAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &halfDead{counting: counting{took: 10 * time.Millisecond}, dead: netip.MustParseAddr("127.0.0.1")}
		opt := options(newStore(t), w)
		opt.Hosts = overHosts(map[string]int{"many.test": 5})
		urls := siteURLs(50, "many.test")
		for i := range urls {
			urls[i].Addr = "127.0.0.1,127.0.0.2"
		}
		got := outcomes(t, run(t, opt, "r1", urls), urls)
		for u, o := range got {
			if o != record.OutcomeFetched {
				t.Errorf("%s: %s", u, o)
			}
		}
	})
}

// halfDead does not serve at one address, after the robots.txt.
type halfDead struct {
	counting
	dead netip.Addr
}

func (w *halfDead) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	if req.Addr == w.dead && !strings.HasSuffix(req.URL, "/robots.txt") {
		sleep(ctx, w.took)
		return &fetch.Reply{Outcome: record.OutcomeConnect, Error: "connection refused"}
	}
	return w.counting.Fetch(ctx, req)
}

// TestAuditOfSeveralConnections: what is more than is allowed is found, and what is not said of one host.
func TestAuditOfSeveralConnections(t *testing.T) {
	const second = 1_000_000
	type span struct{ start, took, required int }
	for _, c := range []struct {
		name     string
		contacts []span
		delay    time.Duration
		retry    int // which contact is answered with Retry-After: 10
		want     uint64
	}{
		{"two at a time", []span{{0, 5, 0}, {1, 5, 0}, {6, 5, 0}, {6, 5, 0}}, 0, -1, 0},
		{"three at a time", []span{{0, 5, 0}, {1, 5, 0}, {2, 5, 0}}, 0, -1, 1},
		{"gaps each", []span{{0, 1, 0}, {1, 1, 0}, {3, 1, 2}, {4, 1, 2}}, 2 * time.Second, -1, 0},
		{"one gap too short", []span{{0, 1, 0}, {1, 1, 0}, {3, 1, 2}, {3, 1, 2}}, 2 * time.Second, -1, 1},
		{"the record's gap too short", []span{{0, 1, 0}, {1, 1, 0}, {3, 1, 2}, {3, 1, 2}}, 0, -1, 1},
		{"a short gap after a long one", []span{{0, 1, 0}, {0, 9, 0}, {10, 1, 1}, {11, 1, 9}}, 0, -1, 0}, // the second goes on after the first, not after the last
		{"Retry-After", []span{{0, 1, 0}, {0, 1, 0}, {11, 1, 10}, {11, 1, 0}}, 0, 0, 0},
		{"Retry-After, one on its way", []span{{0, 1, 0}, {0, 1, 0}, {2, 1, 0}, {11, 1, 0}}, 0, 0, 0},
		{"Retry-After, two on their way", []span{{0, 1, 0}, {0, 1, 0}, {2, 1, 0}, {4, 1, 0}}, 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for named, want := range map[bool]uint64{true: c.want, false: 1} {
				opt := fetch.AuditOptions{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: c.delay}}, AddrDelay: time.Millisecond, Memory: 1 << 20, Worst: 3}
				if named {
					opt.Hosts = overHosts(map[string]int{"many.test": 2})
				}
				got := auditOf(t, opt, func(add func(*record.Fetch)) {
					for i, s := range c.contacts {
						row := record.Fetch{Host: "many.test", Addr: "127.0.0.1", FetchTime: record.Time((100 + s.start) * second), DurationUS: int64(s.took) * second, RequiredDelayUS: int64(s.required) * second, Status: 200}
						if i == c.retry {
							row.Status, row.RetryAfter = 503, row.FetchTime+record.Time(row.DurationUS+10*second)
						}
						add(&row)
					}
					add(&record.Fetch{Host: "other.test", Addr: "127.0.0.1", FetchTime: 100 * second, DurationUS: second}) // which has the address, too
				})
				if n := got.Hosts.Violations; named && n != want || !named && n < want {
					t.Errorf("named %v: %d early, want %d: %+v", named, n, want, got.Hosts)
				}
				if n := got.Addrs.Violations; named && n != 0 {
					t.Errorf("%d early at addresses, want none", n)
				}
			}
			if got := auditOf(t, fetch.AuditOptions{Memory: 1 << 20, Policy: politeness.Policy{Hosts: overHosts(map[string]int{"many.test": 2})}}, func(add func(*record.Fetch)) {
				for range 2 {
					add(&record.Fetch{Host: "other.test", Addr: "127.0.0.1", FetchTime: 100 * second, DurationUS: second})
				}
			}); got.Hosts.Violations != 1 {
				t.Errorf("two contacts at a time with another host: %+v", got.Hosts)
			}
		})
	}
}

// overHosts are the connections of hosts that are named; others have one.
func overHosts(hosts map[string]int) func(string, *politeness.Rules) {
	return func(host string, r *politeness.Rules) { r.HostConnections = max(1, hosts[host]) }
}

// TestAuditOfRounds: each round is held to its own rules, also where another has other connections.
func TestAuditOfRounds(t *testing.T) {
	const second = 1_000_000
	of := func(connections int, least time.Duration) fetch.AuditOptions {
		return fetch.AuditOptions{Memory: 1 << 20, Policy: politeness.Policy{Rules: politeness.Rules{HostConnections: connections, MinDelay: least}}}
	}
	type contact struct{ round, start, end int64 }
	for _, c := range []struct {
		name     string
		rounds   []fetch.AuditOptions
		contacts []contact
		early    uint64
	}{
		{"a longer delay from the second round on", []fetch.AuditOptions{of(1, time.Second), of(1, 5*time.Second)}, []contact{{0, 0, 1}, {0, 2, 3}, {1, 8, 9}, {1, 14, 15}}, 0},
		{"which counts in it", []fetch.AuditOptions{of(1, time.Second), of(1, 5*time.Second)}, []contact{{0, 0, 1}, {1, 6, 7}, {1, 8, 9}}, 1},
		{"several connections from the second round on", []fetch.AuditOptions{of(1, 0), of(2, 0)}, []contact{{0, 0, 1}, {0, 1, 2}, {1, 3, 9}, {1, 4, 6}}, 0},
		{"and not in the first", []fetch.AuditOptions{of(1, 0), of(2, 0)}, []contact{{0, 0, 3}, {0, 1, 2}, {1, 3, 9}}, 1},
		{"one connection from the second round on", []fetch.AuditOptions{of(3, 0), of(1, 0)}, []contact{{0, 0, 9}, {0, 1, 2}, {0, 3, 8}, {1, 9, 10}, {1, 9, 11}}, 1},
		{"fewer connections", []fetch.AuditOptions{of(3, 0), of(2, 0)}, []contact{{0, 0, 9}, {0, 1, 8}, {0, 2, 7}, {1, 7, 8}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := fetch.NewAuditor(c.rounds[0])
			defer a.Close()
			a.Demand(c.rounds[1])
			for _, of := range slices.Backward(c.contacts) {
				a.Hold(int(of.round))
				row := record.Fetch{Host: "a.test", Addr: "192.0.2.1", FetchTime: record.Time(of.start * second), DurationUS: (of.end - of.start) * second}
				must.OK(t, a.Add(&row))
			}
			got, err := a.Report(t.Context())
			must.OK(t, err)
			if got.Hosts.Violations != c.early {
				t.Errorf("%d early, want %d: %+v", got.Hosts.Violations, c.early, got.Hosts.Worst)
			}
		})
	}
}
