package fetch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/stage"
)

// TestHostsAreServedInTime: 10,000 hosts on 10,000 connections. Each is served as
// often as delay and duration allow, to one part in a hundred, and none early: by
// the servers' own log and by the audit. MERCATOR_LONG=1 takes half a minute of the
// virtual clock instead of four seconds, MERCATOR_LONG=5m five (in up to ten of the real one), or any
// other time.
func TestHostsAreServedInTime(t *testing.T) {
	const hosts, delay, heapMax = 10_000, time.Second, 512
	span := 4 * time.Second
	if long := os.Getenv("MERCATOR_LONG"); long != "" {
		var err error
		if span, err = time.ParseDuration(long); err != nil {
			span = 30 * time.Second
		}
	}
	w := &witness{delay: delay, seen: map[string]*visits{}}
	var got *fetch.Audit
	peak := peakHeap(func() {
		synctest.Test(t, func(t *testing.T) {
			audit := fetch.NewAuditor(fetch.AuditOptions{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: delay}}, AddrDelay: delay / 2, Memory: 32 << 20})
			defer audit.Close()
			opt := options(newStore(t), w)
			opt.Connections, opt.MinDelay, opt.MaxDelay, opt.AddrDelay, opt.Deadline = hosts, delay, delay, delay/2, span
			opt.Codec = warc.None
			opt.OnRow = func(row *record.Fetch) {
				if err := audit.Add(row); err != nil {
					t.Error(err)
				}
			}
			f, err := os.Create(filepath.Join(t.TempDir(), "batch"))
			must.OK(t, err)
			defer f.Close()
			in := streamOf(t, f, "", func(yield func(record.URL) bool) {
				for i := range hosts * int(1+span/delay) {
					if !yield(url(fmt.Sprintf("http://h%d.test/%d", i%hosts, i))) {
						return
					}
				}
			})
			opt.Schema = in.Schema()
			_, err = stage.Run(t.Context(), stage.Spec{Name: "mfetch", Verb: "fetch", Store: opt.Store}, in, nil, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
				return fetch.Run(ctx, b, opt)
			})
			if err == nil {
				got, err = audit.Report(t.Context())
			}
			must.OK(t, err)
		})
	})
	for host, v := range w.seen {
		if want := 0.99 * float64(span) / float64(delay+w.duration(host)); float64(v.n) < want {
			t.Fatalf("%s was served %d times, want %.1f", host, v.n, want)
		}
	}
	if got.Err() != nil || w.early != "" || len(w.seen) != hosts || got.Hosts.Names != hosts || got.Addrs.Names != hosts {
		t.Errorf("audit %+v: %v; the servers' log: %d hosts, %s", got, got.Err(), len(w.seen), w.early)
	}
	if peak > heapMax {
		t.Errorf("memory grew to %d MiB, want at most %d", peak, heapMax)
	}
	t.Logf("%d contacts with %d hosts in %s, %d MiB of heap and stacks", got.Contacts, hosts, span, peak)
}

// witness answers each host after a time of its own, and keeps the servers' log.
type witness struct {
	delay time.Duration
	mu    sync.Mutex
	seen  map[string]*visits
	early string // what came early
}

// visits are the visits to one host.
type visits struct {
	n   int
	end time.Time // of the last; zero while one is under way
}

func (w *witness) duration(host string) time.Duration {
	return time.Duration(20+fingerprint.OfString(host)%100) * time.Millisecond
}

func (*witness) Check(string) error { return nil }

func (w *witness) Fetch(_ context.Context, req *fetch.Request) *fetch.Reply {
	w.mu.Lock()
	v := w.seen[req.Host]
	if v == nil {
		v = &visits{}
		w.seen[req.Host] = v
	} else if v.end.IsZero() || time.Since(v.end) < w.delay {
		w.early = fmt.Sprintf("%s came %s after the one before", req.URL, time.Since(v.end))
	}
	v.n++
	v.end = time.Time{}
	w.mu.Unlock()
	time.Sleep(w.duration(req.Host))
	w.mu.Lock()
	v.end = time.Now()
	w.mu.Unlock()
	const raw = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	return &fetch.Reply{Outcome: record.OutcomeFetched, Response: strings.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
}

// clocked is a protocol module of one host that notes when it was asked for what.
type clocked struct {
	answer func(n int, req *fetch.Request) string // raw; n counts from 0
	mu     sync.Mutex                             // hosts at one instant are asked side by side
	at     []time.Time
	asked  []fetch.Request
}

func (*clocked) Check(string) error { return nil }

func (c *clocked) Fetch(_ context.Context, req *fetch.Request) *fetch.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.asked = append(c.at, time.Now()), append(c.asked, *req)
	raw := c.answer(len(c.at)-1, req)
	return &fetch.Reply{Outcome: record.OutcomeFetched, Response: strings.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
}

// gaps are the times between contacts.
func (c *clocked) gaps() (list []time.Duration) {
	for i := 1; i < len(c.at); i++ {
		list = append(list, c.at[i].Sub(c.at[i-1]))
	}
	return list
}

// TestServersAreHeard: what 429 and 503 do to the times of the next contacts.
func TestServersAreHeard(t *testing.T) {
	const s = time.Second
	busy := func(status int, fields string) string {
		return fmt.Sprintf("HTTP/1.1 %d Busy\r\n%sContent-Length: 0\r\n\r\n", status, fields)
	}
	in := func(d time.Duration) string {
		return "Retry-After: " + time.Now().Add(d).UTC().Format(http.TimeFormat) + "\r\n"
	}
	for _, c := range []struct {
		name     string
		answer   func(n int, req *fetch.Request) string
		gaps     []time.Duration // of the contacts that are made
		deferred int             // of six URLs
	}{
		{"retry-after in seconds", func(n int, _ *fetch.Request) string {
			if n == 1 {
				return busy(503, "Retry-After: 70\r\n")
			}
			return page("x")
		}, []time.Duration{s, 70 * s, s, s, s}, 0},
		{"retry-after as a date", func(n int, _ *fetch.Request) string {
			if n == 1 {
				return busy(429, in(90*s))
			}
			return page("x")
		}, []time.Duration{s, 90 * s, s, s, s}, 0},
		{"a date gone by", func(n int, _ *fetch.Request) string {
			if n == 1 {
				return busy(429, in(-90*s))
			}
			return page("x")
		}, []time.Duration{s, s, s, s, s}, 0},
		{"back-off starts again after a success", func(n int, _ *fetch.Request) string {
			if n != 3 {
				return busy(503, "")
			}
			return page("x")
		}, []time.Duration{s, 2 * s, 4 * s, s, s}, 0},
		{"five in a row", func(int, *fetch.Request) string { return busy(429, "") }, []time.Duration{s, 2 * s, 4 * s, 8 * s}, 1},
		{"five minutes", func(n int, _ *fetch.Request) string { return busy(503, "Retry-After: 300\r\n") }, []time.Duration{300 * s, 300 * s, 300 * s, 300 * s}, 1},
		{"more than that", func(n int, _ *fetch.Request) string { return busy(503, "Retry-After: 301\r\n") }, nil, 5},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			w := &clocked{answer: c.answer}
			opt := options(newStore(t), w)
			opt.Robots, opt.MinDelay, opt.MaxDelay = nil, s, s
			urls := pages(1, 6)
			// A date is in whole seconds; the clock of the test starts at one.
			rows := run(t, opt, "r1", urls)
			deferred := 0
			for _, o := range outcomes(t, rows, urls) {
				if o == record.OutcomeDeferred {
					deferred++
				}
			}
			if got := w.gaps(); !slices.Equal(got, c.gaps) || deferred != c.deferred {
				t.Errorf("gaps %v and %d deferred, want %v and %d", got, deferred, c.gaps, c.deferred)
			}
			if c.deferred == 5 {
				for _, row := range rows {
					if until := w.at[0].Add(301 * s); row.Outcome == record.OutcomeDeferred && row.RetryAfter != record.TimeOf(until) {
						t.Errorf("deferred until %v, want %v", row.RetryAfter.Go(), until)
					}
				}
			}
		})
	}
}

// TestHostsOfTheirOwn: a host may have other delays than the rest. The audit holds to them, and after an unclean stop nobody is contacted
// before the longest of them is over.
func TestHostsOfTheirOwn(t *testing.T) {
	const s = time.Second
	rules := func(host string, r *politeness.Rules) {
		switch host {
		case "h0.test":
			*r = politeness.Rules{MinDelay: 7 * s, MaxDelay: 3 * s, DelayFactor: 1}
		case "h1.test":
			*r = politeness.Rules{}
		}
	}
	inBubble(t, "gaps", func(t *testing.T) {
		opt := options(newStore(t), &web{})
		opt.Robots, opt.MinDelay, opt.Hosts, opt.HostsLongest = nil, 2*s, rules, 7*s
		rows := run(t, opt, "r1", pages(3, 4))
		gaps := map[string][]int64{}
		for _, row := range rows {
			gaps[row.Host] = append(gaps[row.Host], row.RequiredDelayUS/1e6)
		}
		if got := fmt.Sprint(gaps); got != "map[h0.test:[0 7 7 7] h1.test:[0 0 0 0] h2.test:[0 2 2 2]]" {
			t.Errorf("gaps %s", got)
		}
		for _, c := range []struct {
			name  string
			rules func(string, *politeness.Rules)
			early uint64
		}{
			{"as they were", rules, 0},
			{"the same for all", nil, 3},
			{"longer for one", func(_ string, r *politeness.Rules) { r.MinDelay = 8 * s }, 9},
		} {
			got := auditOf(t, fetch.AuditOptions{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: 2 * s}, Hosts: c.rules}, Memory: 8 << 20}, func(add func(*record.Fetch)) {
				for i := range rows {
					add(&rows[i])
				}
			})
			if got.Hosts.Violations != c.early {
				t.Errorf("%s: %d contacts came early, want %d", c.name, got.Hosts.Violations, c.early)
			}
		}
	})
	inBubble(t, "an unclean stop", func(t *testing.T) {
		opt := options(newStore(t), &web{})
		opt.MinDelay, opt.Hosts, opt.HostsLongest = 2*s, rules, 7*s
		interrupted(t, opt, "r1", pages(3, 4))
		begun, first := time.Now(), time.Duration(0)
		opt.Protocols = map[string]fetch.Protocol{"http": &web{onFetch: func(string) {
			if first == 0 {
				first = time.Since(begun)
			}
		}}}
		opt.Connections = 1
		run(t, opt, "r1", pages(3, 4))
		if first < 7*s {
			t.Errorf("the first contact came after %v", first)
		}
	})
}

// TestAddressesExpire: the address of a row serves until it expires, then the
// resolver's until that does.
func TestAddressesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &clocked{answer: func(int, *fetch.Request) string { return page("x") }}
		opt := options(newStore(t), w)
		opt.Robots, opt.MinDelay, opt.MaxDelay = nil, time.Minute, time.Minute
		opt.Resolver = &changing{}
		urls := pages(1, 6)
		for i := range urls {
			urls[i].Addr, urls[i].AddrExpires = "127.0.0.9", record.TimeOf(time.Now().Add(90*time.Second))
		}
		outcomes(t, run(t, opt, "r1", urls), urls)
		var got []string
		for _, req := range w.asked {
			got = append(got, req.Addr.String())
		}
		if want := []string{"127.0.0.9", "127.0.0.9", "127.0.1.1", "127.0.1.1", "127.0.1.2", "127.0.1.2"}; !slices.Equal(got, want) {
			t.Errorf("asked at %v, want %v", got, want)
		}
	})
}

// deaf is a resolver that says nothing of hosts called dead for 31 s, and then that.
type deaf struct {
	failure string
	mu      sync.Mutex
	asked   map[string]int
}

func (d *deaf) Resolve(_ context.Context, name string) ([]netip.Addr, time.Time, string) {
	d.mu.Lock()
	d.asked[name]++
	d.mu.Unlock()
	if strings.HasPrefix(name, "dead") {
		time.Sleep(31 * time.Second)
		return nil, time.Now().Add(30 * time.Second), d.failure
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, time.Now().Add(time.Hour), ""
}

// TestNamesHoldNoConnection: a host with a name that nobody answers for takes the time of one look-up,
// however many URLs it has, and meanwhile no connection: there is one, and the other hosts have it.
func TestNamesHoldNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var last time.Duration
		w := &clocked{answer: func(int, *fetch.Request) string {
			time.Sleep(time.Millisecond) // of the bubble: all rows are read before the first contact ends, and no host is done with early
			last = time.Since(began)
			return page("x")
		}}
		opt := options(newStore(t), w)
		resolver := &deaf{failure: "timeout", asked: map[string]int{}}
		opt.Robots, opt.Connections, opt.Resolver = nil, 1, resolver
		var urls []record.URL
		for i := range 3 {
			for _, host := range []string{"dead1.test", "dead2.test", "live1.test", "live2.test"} {
				u := url(fmt.Sprintf("http://%s/%d", host, i))
				u.Addr = ""
				urls = append(urls, u)
			}
		}
		for u, o := range outcomes(t, run(t, opt, "r1", urls), urls) {
			if want := strings.Contains(u, "live"); (o == record.OutcomeFetched) != want || !want && o != record.OutcomeDNS {
				t.Errorf("%s: %s", u, o)
			}
		}
		if took := time.Since(began); took != 31*time.Second || last >= time.Second {
			t.Errorf("in %v, the pages in %v", took, last)
		}
		for name, n := range resolver.asked {
			if n != 1 {
				t.Errorf("%s is asked for %d times", name, n)
			}
		}
	})
}

// TestManyDeadNames: beyond the names that are looked up at a time others wait, and what is
// stopped waits for none.
func TestManyDeadNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		opt := options(newStore(t), &clocked{answer: func(int, *fetch.Request) string { return page("x") }})
		resolver := &deaf{failure: "timeout", asked: map[string]int{}}
		opt.Robots, opt.Resolver, opt.Deadline = nil, resolver, 40*time.Second
		var urls []record.URL
		for i := range 600 {
			u := url(fmt.Sprintf("http://dead%d.test/", i))
			u.Addr = ""
			urls = append(urls, u)
		}
		n := map[string]int{}
		for _, o := range outcomes(t, run(t, opt, "r1", urls), urls) {
			n[o]++
		}
		if n[record.OutcomeDNS] != 256 || n[record.OutcomeDeferred] != 344 || len(resolver.asked) != 512 {
			t.Errorf("%v, %d names asked for", n, len(resolver.asked))
		}
		if took := time.Since(began); took < 40*time.Second || took > 63*time.Second {
			t.Errorf("in %v", took)
		}
	})
}

// TestExpiredAddresses: what was good when the batch was resolved is better than none. A round
// that goes on later has addresses that have expired; where the resolver knows nothing, or says
// that there is no such name, it is contacted there.
func TestExpiredAddresses(t *testing.T) {
	for _, failure := range []string{"nxdomain", "timeout", "this machine: no network", ""} {
		synctest.Test(t, func(t *testing.T) {
			w := &clocked{answer: func(int, *fetch.Request) string { return page("x") }}
			opt := options(newStore(t), w)
			resolver := &deaf{failure: failure, asked: map[string]int{}}
			if opt.Robots = nil; failure != "" {
				opt.Resolver = resolver
			}
			var urls []record.URL
			for i := range 6 {
				u := url(fmt.Sprintf("http://dead%d.test/%d", i%2, i))
				u.Addr, u.AddrExpires = "127.0.0.9", record.TimeOf(time.Now().Add(-90*time.Second))
				urls = append(urls, u)
			}
			for u, o := range outcomes(t, run(t, opt, "r1", urls), urls) {
				if o != record.OutcomeFetched {
					t.Errorf("%s: %s", u, o)
				}
			}
			for _, req := range w.asked {
				if req.Addr.String() != "127.0.0.9" {
					t.Errorf("asked at %v", req.Addr)
				}
			}
			for name, n := range resolver.asked {
				if n != 1 {
					t.Errorf("%s is asked for %d times", name, n)
				}
			}
		})
	}
}

// TestMachineCannotAsk: a name that this machine could not ask for costs its URLs nothing.
func TestMachineCannotAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := options(newStore(t), &clocked{answer: func(int, *fetch.Request) string { return page("x") }})
		opt.Robots, opt.Resolver = nil, &deaf{failure: "this machine: no network", asked: map[string]int{}}
		live, dead := url("http://live.test/"), url("http://dead.test/")
		live.Addr, dead.Addr = "", ""
		urls := []record.URL{live, dead}
		if got := outcomes(t, run(t, opt, "r1", urls), urls); got[live.URL] != record.OutcomeFetched || got[dead.URL] != record.OutcomeDeferred {
			t.Errorf("%v", got)
		}
	})
}

// TestNextAddress: after a contact that failed the host's next address is contacted, and one that
// may not be contacted gives way to the others.
func TestNextAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &clocked{answer: func(int, *fetch.Request) string { return page("x") }}
		opt := options(newStore(t), breaking{w})
		opt.Robots = nil
		opt.Guard = notPrivate
		opt.Resolver = several{"127.0.0.5", "10.0.0.5", "127.0.0.6"}
		urls := pages(1, 9)
		for i := range urls[:6] {
			urls[i].Addr = "127.0.0.3,10.0.0.1,::ffff:127.0.0.1"
			if i%2 == 0 {
				urls[i].Addr = "127.0.0.1,10.0.0.1,127.0.0.3,::ffff:127.0.0.1"
			}
		}
		urls[6].Addr = "10.0.0.1,10.0.0.2"
		urls[7].Addr = "127.0.0.1"
		urls[8].Addr = ""
		got := outcomes(t, run(t, opt, "r1", urls), urls)
		for i, u := range urls {
			want := record.OutcomeFetched
			switch i {
			case 1, 2:
				want = record.OutcomeProtocol
			case 6:
				want = record.OutcomeAddress
			}
			if got[u.URL] != want {
				t.Errorf("%s: %s, want %s", u.URL, got[u.URL], want)
			}
		}
		var asked []string
		for _, req := range w.asked {
			asked = append(asked, req.Addr.String())
		}
		if want := []string{"127.0.0.1", "127.0.0.3", "127.0.0.1", "127.0.0.3", "127.0.0.3", "127.0.0.3", "127.0.0.1", "127.0.0.5"}; !slices.Equal(asked, want) {
			t.Errorf("asked at %v, want %v", asked, want)
		}
	})
}

// breaking breaks the protocol in the second contact and the third.
type breaking struct{ *clocked }

func (b breaking) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	reply := b.clocked.Fetch(ctx, req)
	if n := len(b.asked); n == 2 || n == 3 {
		return &fetch.Reply{Outcome: record.OutcomeProtocol}
	}
	return reply
}

func notPrivate(a netip.Addr) (string, error) {
	if a.IsPrivate() {
		return "private use", nil
	}
	return "", nil
}

// TestDeadAddress: where nobody listens at an address of a host, the next is tried at once, for robots.txt and for pages, as
// long as there is one that was not tried, and pages go where the last contact did.
func TestDeadAddress(t *testing.T) {
	const robots = "http://h0.test/robots.txt"
	for _, c := range []struct {
		name, addr string
		obey       bool
		outcomes   []string // of three pages
		asked      []string // robots.txt, unless it is not obeyed, and pages: the last number of their address
	}{
		{"first", "127.0.0.9,127.0.0.1,127.0.0.2", true, []string{"fetched", "fetched", "fetched"}, []string{"9", "1", "1", "1", "1"}},
		{"two of three", "127.0.0.8,127.0.0.9,127.0.0.2", true, []string{"fetched", "fetched", "fetched"}, []string{"8", "9", "2", "2", "2", "2"}},
		{"all", "127.0.0.9,127.0.0.8", true, []string{"robots-unreachable", "robots-unreachable", "robots-unreachable"}, []string{"9", "8"}},
		{"two, beside one that is refused", "10.0.0.1,127.0.0.9,127.0.0.8", true, []string{"robots-unreachable", "robots-unreachable", "robots-unreachable"}, []string{"9", "8"}},
		{"the only one", "127.0.0.9", true, []string{"robots-unreachable", "robots-unreachable", "robots-unreachable"}, []string{"9"}},
		{"first, without robots.txt", "127.0.0.9,127.0.0.1", false, []string{"fetched", "fetched", "fetched"}, []string{"9", "1", "1", "1"}},
		{"of a resolver", "", true, []string{"fetched", "fetched", "fetched"}, []string{"9", "1", "1", "1", "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &clocked{answer: func(_ int, req *fetch.Request) string {
					if req.URL == robots {
						return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
					}
					return page("x")
				}}
				opt := options(newStore(t), listening{w})
				if !c.obey {
					opt.Robots = nil
				}
				opt.MinDelay, opt.MaxDelay = time.Second, time.Second
				opt.Guard = notPrivate
				opt.Resolver = several{"127.0.0.9", "127.0.0.1"}
				urls := pages(1, 3)
				for i := range urls {
					urls[i].Addr = c.addr
				}
				got := outcomes(t, run(t, opt, "r1", urls), urls)
				for i, u := range urls {
					if got[u.URL] != c.outcomes[i] {
						t.Errorf("%s: %s, want %s", u.URL, got[u.URL], c.outcomes[i])
					}
				}
				var asked []string
				for _, req := range w.asked {
					asked = append(asked, strings.TrimPrefix(req.Addr.String(), "127.0.0."))
				}
				if !slices.Equal(asked, c.asked) {
					t.Errorf("asked at %v, want %v", asked, c.asked)
				}
				for i, gap := range w.gaps() {
					dead := c.asked[i] == "8" || c.asked[i] == "9"
					if dead && gap != 0 || !dead && gap < opt.MinDelay {
						t.Errorf("contact %d came %v after the one before", i+1, gap)
					}
				}
			})
		})
	}
}

// listening fails to connect to 127.0.0.8 and 127.0.0.9.
type listening struct{ *clocked }

func (l listening) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	reply := l.clocked.Fetch(ctx, req)
	if a := req.Addr.As4(); a[3] >= 8 {
		return &fetch.Reply{Outcome: record.OutcomeConnect, Error: "nobody listens"}
	}
	return reply
}

// several is a resolver that has the same addresses for each name.
type several []string

func (s several) Resolve(context.Context, string) (addrs []netip.Addr, expires time.Time, failure string) {
	for _, a := range s {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, time.Now().Add(time.Hour), ""
}

// changing is a resolver that has another answer each time, good for 100 s.
type changing struct{ n byte }

func (c *changing) Resolve(context.Context, string) ([]netip.Addr, time.Time, string) {
	c.n++
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 1, c.n})}, time.Now().Add(100 * time.Second), ""
}

// TestRulesAreADayOld: robots rules are asked for again after 24 hours, in the
// middle of a batch and between two.
func TestRulesAreADayOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden := false
		w := &clocked{answer: func(_ int, req *fetch.Request) string {
			switch {
			case !strings.HasSuffix(req.URL, "/robots.txt"):
				return page("x")
			case forbidden:
				return text("User-agent: *\nDisallow: /\n")
			}
			return text("User-agent: *\nAllow: /\n")
		}}
		opt := options(newStore(t), w)
		opt.MinDelay, opt.MaxDelay = 4*time.Minute, 4*time.Minute
		urls := pages(1, 361) // a day and four minutes
		got := outcomes(t, run(t, opt, "r1", urls), urls)
		if len(w.at) != len(urls)+2 || got[urls[360].URL] != record.OutcomeFetched {
			t.Errorf("%d contacts, want %d pages and two for rules", len(w.at), len(urls))
		}
		forbidden = true
		for i, hours := range []time.Duration{0, 23, 1} {
			time.Sleep(hours * time.Hour)
			want := record.OutcomeFetched
			if i == 2 {
				want = record.OutcomeRobotsDenied
			}
			txn := fmt.Sprint("r", 2+i)
			one := []record.URL{url("http://h0.test/" + txn)}
			if got := outcomes(t, run(t, opt, txn, one), one); got[one[0].URL] != want {
				t.Errorf("round %s: %v, want %s", txn, got, want)
			}
		}
		// They hold as long as the options say, and no longer.
		forbidden = false
		for i, keep := range []time.Duration{30 * time.Minute, time.Minute} {
			time.Sleep((2 - time.Duration(i)) * time.Minute)
			opt.MinDelay, opt.KeepRobots = 0, keep
			txn, want := fmt.Sprint("r", 5+i), []string{record.OutcomeRobotsDenied, record.OutcomeFetched}[i]
			one := []record.URL{url("http://h0.test/" + txn)}
			if got := outcomes(t, run(t, opt, txn, one), one); got[one[0].URL] != want {
				t.Errorf("rules that hold for %v: %v, want %s", keep, got, want)
			}
		}
	})
}
