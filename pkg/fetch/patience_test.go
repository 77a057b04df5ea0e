package fetch_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/fetch"
)

// chained is a web with a good host, where each page links to the next, and others.
type chained struct {
	mu    sync.Mutex
	at    map[string][]time.Time // of the contacts, by host
	robot string                 // robots.txt of hosts slowN.test
	page  time.Duration          // how long their pages take
	limit time.Duration          // time-out of contacts; 0: a minute
	hang  string                 // what never comes from hosts hangN.test: a path, or "" for all
}

func (*chained) Check(string) error { return nil }

func (w *chained) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	w.mu.Lock()
	w.at[req.Host] = append(w.at[req.Host], time.Now())
	w.mu.Unlock()
	wait, limit := 20*time.Millisecond, cmp.Or(w.limit, time.Minute)
	raw := page("text of " + req.URL)
	robots := strings.HasSuffix(req.URL, "/robots.txt")
	switch {
	case strings.HasPrefix(req.Host, "hang") && strings.Contains(req.URL, w.hang):
		wait = limit
	case strings.HasPrefix(req.Host, "moved") && robots:
		raw = "HTTP/1.1 301 Moved\r\nLocation: http://hang0.test/robots.txt\r\nContent-Length: 0\r\n\r\n"
	case strings.HasPrefix(req.Host, "lead") && robots:
		raw = "HTTP/1.1 301 Moved\r\nLocation: http://slow0.test/robots.txt\r\nContent-Length: 0\r\n\r\n"
	case strings.HasPrefix(req.Host, "slow") && robots:
		raw = text(w.robot)
	case strings.HasPrefix(req.Host, "slow"):
		wait = max(wait, w.page)
	case robots:
		raw = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
	}
	select {
	case <-ctx.Done():
		return &fetch.Reply{Outcome: record.OutcomeDeferred}
	case <-time.After(wait):
	}
	if wait == limit {
		return &fetch.Reply{Outcome: record.OutcomeTimeout, Error: "no reply"}
	}
	return &fetch.Reply{Outcome: record.OutcomeFetched, Sent: []byte("GET " + req.URL + "\r\n\r\n"),
		Response: strings.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
}

// roundCost is the time that a round takes beside its contacts.
const roundCost = 300 * time.Millisecond

// crawlChain crawls from the first page of the chain and the pages of other hosts until the chain has
// so many pages, or nothing is left. It returns how long the chain took, and all last outcomes.
func crawlChain(t *testing.T, opt fetch.Options, pages int, others []record.URL) (took time.Duration, last map[string]record.Fetch) {
	t.Helper()
	began := time.Now()
	waiting := map[string]record.URL{}
	add := func(u record.URL) { waiting[u.URL] = u }
	if pages > 0 {
		add(url("http://good.test/1"))
	}
	for _, u := range others {
		add(u)
	}
	last = map[string]record.Fetch{}
	for round := 1; len(waiting) > 0; round++ {
		time.Sleep(roundCost)
		now := record.TimeOf(time.Now())
		var batch []record.URL
		first := record.Time(1 << 62)
		for _, name := range slices.Sorted(maps.Keys(waiting)) {
			u := waiting[name]
			first = min(first, u.Due)
			if u.Due <= now {
				batch = append(batch, u)
			}
		}
		if len(batch) == 0 {
			time.Sleep(first.Go().Sub(now.Go()))
			continue
		}
		for _, row := range run(t, opt, fmt.Sprint("r", round), batch) {
			if row.Role != record.RolePage {
				continue
			}
			u := waiting[row.URL]
			last[row.URL] = row
			delete(waiting, row.URL)
			var n int
			switch {
			case row.Outcome == record.OutcomeDeferred:
				u.Due = row.RetryAfter
				add(u)
			case row.Host == "good.test":
				if fmt.Sscanf(row.URL, "http://good.test/%d", &n); n == pages {
					return time.Since(began), last
				}
				add(url(fmt.Sprintf("http://good.test/%d", n+1)))
			}
		}
	}
	return time.Since(began), last
}

func polite(t *testing.T, w fetch.Protocol) fetch.Options {
	opt := options(newStore(t), w)
	opt.MinDelay, opt.DelayFactor, opt.MaxDelay, opt.AddrDelay = time.Second, 10, 30*time.Second, 500*time.Millisecond
	opt.Deadline, opt.Patience = 45*time.Second, true
	return opt
}

// hostPages are n pages of each of so many hosts.
func hostPages(name string, hosts, n int) (rows []record.URL) {
	for i := range hosts * n {
		rows = append(rows, url(fmt.Sprintf("http://%s%d.test/%d", name, i%hosts, i)))
	}
	return rows
}

// TestSlowHostsHoldNobodyUp: a chain of pages, each found on the one before, gets 95 % of what
// politeness allows it, whatever is beside it, and all else is served, too.
func TestSlowHostsHoldNobodyUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		web    *chained
		others []record.URL
		least  int // contacts with each other host in a minute
	}{
		{"alone", &chained{}, nil, 0},
		{"Crawl-delay", &chained{robot: "User-agent: *\nCrawl-delay: 20\n"}, hostPages("slow", 1, 40), 3},
		{"ten times Crawl-delay", &chained{robot: "User-agent: *\nCrawl-delay: 20\n"}, hostPages("slow", 10, 40), 3},
		{"pages of 800 ms", &chained{page: 800 * time.Millisecond}, hostPages("slow", 3, 40), 5},
		{"pages of 3 s", &chained{page: 3 * time.Second}, hostPages("slow", 1, 40), 1},
		{"no replies", &chained{}, hostPages("hang", 5, 3), 2},
		{"no robots.txt", &chained{hang: "/robots.txt"}, hostPages("hang", 1, 3), 2},
	} {
		for _, pages := range []int{12, 60} {
			inBubble(t, fmt.Sprintf("%s, %d pages", c.name, pages), func(t *testing.T) {
				w := &chained{robot: c.web.robot, page: c.web.page, hang: c.web.hang}
				w.at = map[string][]time.Time{}
				took, last := crawlChain(t, polite(t, w), pages, c.others)
				allowed := time.Duration(pages) * (1020 * time.Millisecond)
				t.Logf("%v for %d pages: %.1f %%", took, pages, 100*float64(allowed)/float64(took))
				if float64(allowed) < 0.95*float64(took-roundCost-1020*time.Millisecond) { // before the first page is robots.txt
					t.Errorf("%d pages took %v, politeness allows %v", pages, took, allowed)
				}
				for _, u := range c.others {
					if n := len(w.at[u.Host]); pages == 60 && n < c.least {
						t.Errorf("%s was contacted %d times, want %d", u.Host, n, c.least)
					}
				}
				for name, row := range last {
					if o := row.Outcome; strings.HasPrefix(row.Host, "hang") && o != record.OutcomeDeferred {
						t.Errorf("%s is %s: it was not waited for long enough for that", name, o)
					}
				}
			})
		}
	}
}

// TestSlowHostsAlone: where no quick host waits, slow ones are served at their own pace, and no contact is broken off.
func TestSlowHostsAlone(t *testing.T) {
	for _, hosts := range []int{1, 2} {
		for _, page := range []time.Duration{3 * time.Second, 20 * time.Second} {
			inBubble(t, fmt.Sprintf("%d of %v", hosts, page), func(t *testing.T) {
				w := &chained{page: page, at: map[string][]time.Time{}}
				opt := polite(t, w)
				opt.DelayFactor, opt.Deadline = 0, 0
				took, _ := crawlChain(t, opt, 0, hostPages("slow", hosts, 10))
				if allowed := 10*(page+opt.MinDelay) + 2*time.Second; took > allowed || len(w.at["slow0.test"]) != 11 {
					t.Errorf("%d contacts of a host in %v, want 11 in %v", len(w.at["slow0.test"]), took, allowed)
				}
			})
		}
	}
}

// uneven is a web of hosts without end: replies of host hN take a time of their own, and each page half of it to twice.
type uneven struct {
	mu    sync.Mutex
	spent map[string]time.Duration // of the time of each host: contacts, and the gaps after them
	until time.Time                // counts no later
}

func (*uneven) Check(string) error { return nil }

// mean is how long replies of a host take: 20 ms to 2 s.
func (*uneven) mean(host string) time.Duration {
	var h int
	fmt.Sscanf(host, "h%d.test", &h)
	return time.Duration(float64(20*time.Millisecond) * math.Pow(100, float64(h*37%100)/100))
}

func (w *uneven) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	took := time.Duration(float64(w.mean(req.Host)) * math.Pow(4, float64(fingerprint.OfString(req.URL)%1000)/1000-0.5))
	w.mu.Lock()
	allowed := took + min(max(10*took, time.Second), 30*time.Second)
	w.spent[req.Host] += min(allowed, max(time.Until(w.until), 0))
	w.mu.Unlock()
	raw := page("text of " + req.URL)
	select {
	case <-ctx.Done():
		return &fetch.Reply{Outcome: record.OutcomeDeferred}
	case <-time.After(took):
	}
	return &fetch.Reply{Outcome: record.OutcomeFetched, Sent: []byte("GET " + req.URL + "\\r\\n\\r\\n"),
		Response: strings.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
}

// batch has of each of some hosts what it does in four fifths of half a minute, as mfrontier next gives it, or fewer; from is where its URLs begin.
func (w *uneven) batch(hosts, few int, from map[int]int) (rows []record.URL) {
	for h := range hosts {
		name := fmt.Sprintf("h%d.test", h)
		took := w.mean(name)
		n := 1 + int((24*time.Second-took)/(took+min(max(10*took, time.Second), 30*time.Second)))
		if h >= few {
			n = 1
		}
		for range n {
			rows = append(rows, url(fmt.Sprintf("http://%s/%d", name, from[h])))
			from[h]++
		}
	}
	return rows
}

// TestUnevenHosts: hosts of all speeds get most of what politeness allows them, though the last of a batch are slow; and so do few hosts
// with much beside others with a page a round.
func TestUnevenHosts(t *testing.T) {
	for _, c := range []struct {
		name  string
		few   int     // hosts that have URLs without end
		least float64 // of what politeness allows them
	}{
		{"all have many URLs", 100, 0.95},
		{"five have many URLs", 5, 0.95},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			const lasts = 4 * time.Minute
			w := &uneven{spent: map[string]time.Duration{}, until: time.Now().Add(lasts)}
			opt := polite(t, w)
			opt.AddrDelay, opt.Connections, opt.Robots = 0, 100, nil
			from, rounds := map[int]int{}, 0
			for ; time.Now().Before(w.until); rounds++ {
				time.Sleep(roundCost)
				run(t, opt, fmt.Sprint("r", rounds), w.batch(100, c.few, from)) // what is deferred has no place in the next: there is enough
			}
			share := 0.0
			for h := range c.few {
				share += w.spent[fmt.Sprintf("h%d.test", h)].Seconds() / lasts.Seconds() / float64(c.few)
			}
			t.Logf("%.1f %% of what politeness allows, in %d rounds", 100*share, rounds)
			if share < c.least {
				t.Errorf("hosts got %.1f %% of what politeness allows, want %.1f %%", 100*share, 100*c.least)
			}
		})
	}
}

// TestConnectionsThatHangAreTakenBack: hosts that never answer do not keep all connections from others.
func TestConnectionsThatHangAreTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &chained{at: map[string][]time.Time{}}
		took, _ := crawlChain(t, polite(t, w), 30, hostPages("hang", 30, 3))
		if took > 90*time.Second { // a minute for each eight of them without
			t.Errorf("30 pages took %v", took)
		}
	})
}

// TestAHangingHostMeetsItsTimeout: a host that never answers has its attempt in the end, though others have work.
func TestAHangingHostMeetsItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &chained{at: map[string][]time.Time{}, limit: 7 * time.Second}
		others := hostPages("hang", 1, 1)
		took, last := crawlChain(t, polite(t, w), 300, others)
		if last[others[0].URL].Outcome != record.OutcomeTimeout && last[others[0].URL].Outcome != record.OutcomeRobotsUnreachable {
			t.Errorf("after %v: %v", took, last[others[0].URL])
		}
		if n := len(w.at["hang0.test"]); n < 4 || n > 5 {
			t.Errorf("%d contacts with a host that hangs, want some doublings of a second up to 7 s", n)
		}
		if allowed := 300 * 1020 * time.Millisecond; float64(allowed) < 0.94*float64(took) {
			t.Errorf("300 pages took %v, politeness allows %v", took, allowed)
		}
	})
}

// TestWhoWasPutOffIsNotParked: the host did not ask for the time that it is put off, which the
// longest wait bounds, too.
func TestWhoWasPutOffIsNotParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := polite(t, &chained{at: map[string][]time.Time{}})
		opt.LongestWait = 30 * time.Second
		others := hostPages("hang", 1, 3)
		_, last := crawlChain(t, opt, 60, others)
		for _, u := range others {
			if row := last[u.URL]; row.Outcome != record.OutcomeDeferred || time.Until(row.RetryAfter.Go()) > 30*time.Second {
				t.Errorf("%s is %s until %v: %s", row.URL, row.Outcome, row.RetryAfter.Go(), row.Error)
			}
		}
	})
}

// TestRobotsOfAHostThatWasPutOff: where robots.txt is at a host that was put off, its pages wait as
// long, at no cost.
func TestRobotsOfAHostThatWasPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &chained{at: map[string][]time.Time{}}
		opt := polite(t, w)
		opt.Resolver = several{"127.0.0.7"}
		others := hostPages("moved", 1, 3)
		_, last := crawlChain(t, opt, 500, others)
		for _, u := range others {
			if row := last[u.URL]; row.Outcome != record.OutcomeDeferred {
				t.Errorf("%s is %s: %s", row.URL, row.Outcome, row.Error)
			}
		}
		if n := len(w.at["moved0.test"]); n > 10 {
			t.Errorf("%d contacts with the host that leads there", n)
		}
		if n := len(w.at["hang0.test"]); n < 2 || n > 5 {
			t.Errorf("%d contacts with the host that hangs, want some, less and less often", n)
		}
	})
}

// TestRobotsOfASlowHost: where robots.txt is at a host that has to wait, by its Crawl-delay, its
// pages wait as long, and it is not asked for again in every round.
func TestRobotsOfASlowHost(t *testing.T) {
	for _, delay := range []string{"60", "400"} { // more than the five minutes that a batch waits at most, too
		synctest.Test(t, func(t *testing.T) {
			w := &chained{at: map[string][]time.Time{}, robot: "User-agent: *\nCrawl-delay: " + delay + "\n"}
			opt := polite(t, w)
			opt.Resolver = several{"127.0.0.7"}
			_, last := crawlChain(t, opt, 150, append(hostPages("slow", 1, 100), hostPages("lead", 1, 3)...))
			slow, lead := len(w.at["slow0.test"]), len(w.at["lead0.test"])
			if lead > slow+4 { // each with one of the other, and its pages
				t.Errorf("Crawl-delay %s: %d contacts with the host that leads there, %d with that", delay, lead, slow)
			}
			for i := range 3 {
				if row := last[fmt.Sprintf("http://lead0.test/%d", i)]; row.Outcome != record.OutcomeDeferred && row.Outcome != record.OutcomeFetched {
					t.Errorf("Crawl-delay %s: %s is %s: %s", delay, row.URL, row.Outcome, row.Error)
				}
			}
		})
	}
}

// TestBackQueues: what is told of the back queues while a batch waits, and before the rest is deferred.
func TestBackQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &chained{at: map[string][]time.Time{}, robot: "User-agent: *\nCrawl-delay: 20\n"}
		opt := polite(t, w)
		var all []fetch.BackQueues
		opt.OnQueues = func(q fetch.BackQueues) { all = append(all, q) }
		began := time.Now()
		run(t, opt, "r1", append(hostPages("slow", 3, 30), hostPages("hang", 1, 1)...))
		at := all[9] // ten seconds after the begin, robots.txt has come
		if at.Opened != 4 || at.Most != 4 || at.Open != 4 || at.Busy != 1 || at.Waiting != 3 || at.Due != 0 {
			t.Errorf("while it waits: %+v", at)
		}
		if wait := at.Next.Sub(began); wait < 20*time.Second || wait > 22*time.Second {
			t.Errorf("the next contact is after %v", wait)
		}
		if at.Read != 91 || at.Bound < 9 || at.Bound > 10 {
			t.Errorf("while it waits: %d URLs read, %v s bound by politeness", at.Read, at.Bound)
		}
		if len(at.Longest) != 3 || at.Longest[0].Left != 30 || at.Longest[0].Gap != 20 || at.Longest[0].End < 29*20 || at.Longest[0].End > 30*20 {
			t.Errorf("while it waits, the longest are %+v", at.Longest)
		}
		rest, last := all[len(all)-2], all[len(all)-1]
		if rest.Open != 4 && rest.Open != 3 || last.Open != 0 || last.Most != 4 {
			t.Errorf("before the end %+v, then %+v", rest, last)
		}
	})
}

// TestSlowHostsAloneAreOneBatch: where no other host has work, a batch goes on to its deadline.
func TestSlowHostsAloneAreOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &chained{at: map[string][]time.Time{}, robot: "User-agent: *\nCrawl-delay: 20\n"}
		urls := hostPages("slow", 2, 10)
		n := map[string]int{}
		for _, o := range outcomes(t, run(t, polite(t, w), "r1", urls), urls) {
			n[o]++
		}
		if n[record.OutcomeFetched] != 4 || n[record.OutcomeDeferred] != 16 {
			t.Errorf("%v, want two pages of each host", n)
		}
	})
}

// TestWhoAsksForTooLongIsParked: delays that a server asks for are bounded, and its URLs say so.
func TestWhoAsksForTooLongIsParked(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		robots, retry string
		want          string
		until         time.Duration // from the last contact
	}{
		"Crawl-delay of a day":           {"86400", "", record.OutcomeParked, day},
		"of a second less":               {"86399", "", record.OutcomeDeferred, day - time.Second},
		"of a second more":               {"86401", "", record.OutcomeParked, day + time.Second},
		"of years":                       {"99999999", "", record.OutcomeParked, 365 * day},
		"of more than there is":          {"99999999999999999999999", "", record.OutcomeParked, 365 * day},
		"negative":                       {"-5", "", record.OutcomeFetched, 0},
		"Retry-After of a day":           {"", "86400", record.OutcomeDeferred, day},
		"Retry-After of a second more":   {"", "86401", record.OutcomeParked, day + time.Second},
		"Retry-After of years":           {"", "99999999999999999999", record.OutcomeParked, 366 * day},
		"Retry-After in the year 9999":   {"", "Fri, 31 Dec 9999 23:59:59 GMT", record.OutcomeParked, 366 * day},
		"Retry-After of less than zero":  {"", "-99", record.OutcomeFetched, 0},
		"Retry-After a while ago":        {"", "Fri, 31 Dec 1999 23:59:59 GMT", record.OutcomeFetched, 0},
		"Retry-After that is not a time": {"", "soon", record.OutcomeFetched, 0},
	} {
		inBubble(t, name, func(t *testing.T) {
			busy := "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nRetry-After: " + c.retry + "\r\n\r\n"
			w := &web{replies: map[string]string{"http://a.test/1": page("x")}}
			if c.robots != "" {
				w.replies["http://a.test/robots.txt"] = text("User-agent: *\nCrawl-delay: " + c.robots + "\n")
			} else {
				w.replies["http://a.test/1"] = busy
			}
			opt := polite(t, w)
			urls := []record.URL{url("http://a.test/1"), url("http://a.test/2"), url("http://a.test/3")}
			rows := run(t, opt, "r1", urls)
			check := func(rows []record.Fetch, ago time.Duration) {
				t.Helper()
				got := 0
				for _, row := range rows {
					if row.Role == record.RolePage && row.Outcome == c.want && row.URL != urls[0].URL {
						got++
						if until := time.Now().Add(c.until - ago); c.until > 0 && (row.RetryAfter.Go().Sub(until).Abs() > 5*time.Second) {
							t.Errorf("%s until %v, want %v", row.Outcome, row.RetryAfter.Go(), until)
						}
					}
				}
				if got != 2 {
					t.Errorf("%d URLs are %s, want 2: %v", got, c.want, rows)
				}
			}
			check(rows, 0)
			if c.want == record.OutcomeFetched {
				return
			}
			// The next round knows it.
			time.Sleep(time.Hour)
			n := len(w.log)
			check(run(t, opt, "r2", urls[1:]), time.Hour)
			if len(w.log) != n {
				t.Errorf("%v was asked for", w.log[n:])
			}
			// And a day later the host has another chance.
			time.Sleep(day)
			run(t, opt, "r3", urls[1:])
			if len(w.log) == n {
				t.Error("nothing was asked for after the longest wait")
			}
		})
	}
}

// TestTheClockJumped: contact times of a clock that was ahead make nobody wait for longer than the gap.
func TestTheClockJumped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := polite(t, &chained{at: map[string][]time.Time{}, robot: "User-agent: *\nCrawl-delay: 20\n"})
		ahead := opt
		ahead.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
		first := hostPages("slow", 2, 1)
		run(t, ahead, "r1", first)
		var told []string
		opt.Warn = func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
		began := time.Now()
		second := []record.URL{url("http://slow0.test/a"), url("http://slow1.test/a")}
		for u, o := range outcomes(t, run(t, opt, "r2", second), second) {
			if o != record.OutcomeFetched {
				t.Errorf("%s is %s", u, o)
			}
		}
		if took := time.Since(began); took < 20*time.Second || took > 45*time.Second {
			t.Errorf("the second round took %v, want one gap of 20 s and no more for robots.txt", took)
		}
		if len(told) == 0 || !strings.Contains(told[0], "the clock jumped") {
			t.Errorf("told %q", told)
		}
	})
}
