package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/must"
)

const second = record.Time(1e6)

// TestOutageWait: the wait doubles with the silence of the host, from the delay of a retry to a quarter of an hour.
func TestOutageWait(t *testing.T) {
	const minute = 60 * second
	of := func(url, _ string) (int, time.Duration) {
		if url == "http://a.test/once" {
			return 1, 0
		}
		return 9, time.Minute
	}
	for _, c := range []struct {
		name    string
		h       Host // last contacted, or silent since, 100 s
		of      func(url, host string) (int, time.Duration)
		url     string
		outcome string
		t, want record.Time // the last try, and when the next is
	}{
		{"at first", Host{Contacts: 9, Failures: 5}, nil, "", record.OutcomeConnect, 104 * second, 113 * second},
		{"then as long as the silence", Host{Contacts: 10, Failures: 6}, nil, "", record.OutcomeConnect, 113 * second, 131 * second},
		{"before its time", Host{Contacts: 10, Failures: 6, ParkedUntil: 140 * second}, nil, "", record.OutcomeConnect, 113 * second, 140 * second},
		{"its server asked for more", Host{Contacts: 10, Failures: 6, ParkedUntil: 9999 * second}, nil, "", record.OutcomeConnect, 113 * second, 131 * second},
		{"at most", Host{Contacts: 10, Failures: 9}, nil, "", record.OutcomeConnect, 100*second + 60*minute, 100*second + 75*minute},
		{"the last", Host{Contacts: 10, Failures: 9}, nil, "", record.OutcomeConnect, 100*second + 120*minute, 100*second + 135*minute},
		{"gone", Host{Contacts: 10, Failures: 9}, nil, "", record.OutcomeConnect, 101*second + 120*minute, 0},
		{"never answered", Host{Contacts: 9, Failures: 9}, nil, "", record.OutcomeConnect, 104 * second, 0},
		{"answered since", Host{Contacts: 9}, nil, "", record.OutcomeConnect, 104 * second, 0},
		{"no name server", Host{Contacts: 9}, nil, "", record.OutcomeDNS, 104 * second, 113 * second},
		{"no name server, and never contacted", Host{}, nil, "", record.OutcomeDNS, 104 * second, 0},
		{"a clock turned back a little", Host{Contacts: 9}, nil, "", record.OutcomeDNS, 90 * second, 95 * second},
		{"a clock turned back by hours", Host{Contacts: 9}, nil, "", record.OutcomeDNS, 99*second - 120*minute, 0},
		{"the delay of the URL", Host{Contacts: 9, Failures: 5}, of, "http://a.test/", record.OutcomeConnect, 104 * second, 168 * second},
		{"one attempt is all", Host{Contacts: 9, Failures: 5}, of, "http://a.test/once", record.OutcomeConnect, 104 * second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Retries{MaxAttempts: 3, Delay: 5 * time.Second, MaxDelay: 24 * time.Hour, Of: c.of}
			c.h.LastContact = 100 * second
			if got := r.outage(&c.h, &outcome{url: c.url, outcome: c.outcome}, c.t); got != c.want {
				t.Errorf("tried again at %d, want %d", got, c.want)
			}
		})
	}
}

// site is a crawl of one host, which answers or not, as mfetch crawls it: a contact a second, and after five failures in a row the rest is put off.
type site struct {
	*bench
	now    record.Time
	rounds []round
}

// round is when a round began, in seconds, and what it got.
type round struct {
	began                     record.Time
	fetched, failed, deferred int
}

// round makes a round at s.now, or later, if no URL is due before.
func (s *site) round(up func(record.Time) bool, o NextOptions) {
	s.t.Helper()
	due, _, err := s.f.Due(s.now)
	must.OK(s.t, err)
	s.now = max(s.now, due)
	o.Txn = fmt.Sprintf("r%d", len(s.rounds)+1)
	batch, err := s.next(s.now, o)
	must.OK(s.t, err)
	var rows []record.Fetch
	r, inARow := round{began: s.now / second}, 0
	for _, u := range batch {
		row := fetchOf(u, record.OutcomeFetched, 200, s.now)
		switch {
		case inARow == 5:
			row = fetchOf(u, record.OutcomeDeferred, 0, 0)
			row.RetryAfter = s.now
			r.deferred++
		case up(s.now):
			inARow, s.now = 0, s.now+second
			r.fetched++
		default:
			row = fetchOf(u, record.OutcomeConnect, 0, s.now)
			inARow, s.now = inARow+1, s.now+second
			r.failed++
		}
		rows = append(rows, row)
	}
	must.OK(s.t, s.updateFrom(o.Txn, recordtest.In[record.URL](o.Txn), UpdateOptions{
		Txn: o.Txn, Retries: Retries{MaxAttempts: 3, Delay: 5 * time.Second, MaxDelay: 24 * time.Hour}, Outcomes: given(o.Txn, rows),
	}))
	s.rounds = append(s.rounds, r)
	s.check()
}

// TestOutage crawls a site of 60 URLs, 50 a batch, that goes away: no URL is lost or has an attempt less, unless the site is gone.
//
// The first of five failures is at 1010 s, the last 4 s later. 5 s and those 4 s after it the first try is due, at 1023 s. Each later try comes 5 s
// and the silence so far after the one before: 18 s, 36 s, 72 s, and so on, at most 900 s. After two hours the site is gone.
func TestOutage(t *testing.T) {
	forGood := record.Time(1e9)
	for _, c := range []struct {
		name     string
		from, to record.Time   // the site does not answer from then to then
		tries    []record.Time // when one URL tries whether it answers again
		failed   int           // in the rounds after those: each URL for itself
		counts   Counts
	}{
		{"a minute", 1010, 1070, []record.Time{1023, 1041, 1077}, 0, Counts{}},
		{"five minutes", 1010, 1310, []record.Time{1023, 1041, 1077, 1149, 1293, 1581}, 0, Counts{}},
		{"for good", 1010, forGood, []record.Time{1023, 1041, 1077, 1149, 1293, 1581, 2157, 3057, 3957, 4857, 5757, 6657, 7557}, 3 * 50, Counts{Retried: 2 * 50, Dead: 50}},
		{"never there", 0, forGood, nil, 3 * 60, Counts{Retried: 2 * 60, Dead: 60}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := open(t, crashtest.New(), Params{})
			s := &site{bench: b, now: 1000 * second}
			var urls []record.URL
			for i := range 60 {
				urls = append(urls, newURL("a.test", fmt.Sprint(i), 0))
			}
			must.OK(t, b.add("seed", urls...))
			for empty := false; !empty; {
				s.round(func(now record.Time) bool { return now < c.from*second || now >= c.to*second },
					NextOptions{N: 50, For: 30 * time.Minute, Politeness: Politeness{Connections: 1, Duration: time.Second}})
				var err error
				empty, err = b.f.Empty(s.now)
				must.OK(t, err)
			}
			want := []round{}
			if c.tries != nil { // one of the ten URLs that wait for no time is tried at once, as the batch would be empty
				want = []round{{1000, 10, 5, 35}, {1015, 0, 1, 0}}
			}
			for _, at := range c.tries {
				if at < c.to { // the 49 URLs beside it are due, too: again one of them is tried
					want = append(want, round{at, 0, 1, 0}, round{at + 1, 0, 1, 0})
				} else {
					want = append(want, round{at, 1, 0, 0}, round{at + 1, 49, 0, 0})
				}
			}
			n := min(len(want), len(s.rounds))
			if d := cmp.Diff(want, s.rounds[:n], cmp.AllowUnexported(round{})); d != "" {
				t.Error(d)
			}
			failed := 0
			for _, r := range s.rounds[n:] {
				failed += r.failed
			}
			got := b.counts()
			c.counts.Discovered, c.counts.Finished = 60, 60
			if got.Outcomes, got.Deferred = nil, 0; failed != c.failed || fmt.Sprint(got) != fmt.Sprint(c.counts) {
				t.Errorf("%d failures after the outage, %+v; want %d, %+v", failed, got, c.failed, c.counts)
			}
		})
	}
}

// TestNoOutage: where a host answers after a failure, or fails otherwise than to be connected to, the URL has failed. Where its robots.txt
// cannot be had since nothing connects, it has not.
func TestNoOutage(t *testing.T) {
	for _, c := range []struct {
		name     string
		outcomes []string // of a batch, in a row
		robots   string   // outcome of a contact for robots.txt behind them
		retried  uint64
	}{
		{"answers again", []string{record.OutcomeFetched, record.OutcomeConnect, record.OutcomeFetched}, "", 1},
		{"answers no more", []string{record.OutcomeFetched, record.OutcomeFetched, record.OutcomeConnect}, "", 0},
		{"deferred before", []string{record.OutcomeDeferred, record.OutcomeConnect, record.OutcomeFetched, record.OutcomeConnect}, "", 0},
		{"a slow page", []string{record.OutcomeFetched, record.OutcomeTimeout, record.OutcomeDeferred}, "", 1},
		{"no robots.txt", []string{record.OutcomeFetched, record.OutcomeRobotsUnreachable, record.OutcomeRobotsUnreachable}, record.OutcomeConnect, 0},
		{"robots.txt of status 503", []string{record.OutcomeFetched, record.OutcomeRobotsUnreachable, record.OutcomeRobotsUnreachable}, record.OutcomeFetched, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := open(t, crashtest.New(), Params{})
			var urls []record.URL
			for i := range c.outcomes {
				urls = append(urls, newURL("a.test", fmt.Sprint(i), 0))
			}
			must.OK(t, b.add("seed", urls...))
			batch, err := b.next(second, NextOptions{N: 9, Txn: "r1"})
			must.OK(t, err)
			var rows []record.Fetch
			for i, u := range batch {
				row := fetchOf(u, c.outcomes[i], 200, second*record.Time(i+1))
				if row.Outcome == record.OutcomeDeferred || row.Outcome == record.OutcomeRobotsUnreachable {
					row.Addr = ""
				}
				rows = append(rows, row)
			}
			if c.robots != "" {
				row := fetchOf(urls[0], c.robots, 503, 9*second)
				row.Role = record.RoleRobots
				rows = append(rows, row)
			}
			must.OK(t, b.update("r1", second, rows))
			b.check()
			if n := b.counts(); n.Retried != c.retried {
				t.Errorf("%d attempts, want %d: %+v", n.Retried, c.retried, n)
			}
		})
	}
}

// TestOutageAndTheClock: a clock that is turned back in an outage makes it no longer than two hours.
func TestOutageAndTheClock(t *testing.T) {
	h := Host{Contacts: 9, Failures: 5, LastContact: 1e6 * second}
	absorb(&h, &Host{Contacts: 1, Failures: 1, LastContact: 1000 * second})
	r := Retries{MaxAttempts: 3, Delay: 5 * time.Second, MaxDelay: 24 * time.Hour}
	for at, want := range map[record.Time]record.Time{1000 * second: 1005 * second, 8201 * second: 0} {
		if got := r.outage(&h, &outcome{outcome: record.OutcomeConnect}, at); got != want {
			t.Errorf("tried at %d and again at %d, want %d", at, got, want)
		}
	}
}

// TestAnswerWithoutTLS: a port that answers an https URL in plain HTTP has no outage. The URL is tried again by itself, and others of the host do not wait.
func TestAnswerWithoutTLS(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	secure := newURL("a.test:8090", "x", 0)
	secure.URL = "https://a.test:8090/x"
	must.OK(t, b.add("seed", newURL("a.test:8090", "y", 0), secure))
	batch, err := b.next(second, NextOptions{N: 2, Txn: "r1"})
	must.OK(t, err)
	rows := []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, second)}
	robots := fetchOf(batch[1], record.OutcomeTLS, 0, 3*second)
	robots.Role = record.RoleRobots
	failed := fetchOf(batch[1], record.OutcomeRobotsUnreachable, 0, 0)
	failed.Error = "tls-failed: plain HTTP at a port for TLS: tls: first record does not look like a TLS handshake"
	must.OK(t, b.update("r1", second, append(rows, robots, failed)))
	if c := b.counts(); c.Finished != 1 || c.Retried != 1 || c.Deferred+c.Dead != 0 {
		t.Errorf("%+v", c)
	}
	if h, found, err := b.f.Host(t.Context(), "a.test:8090"); h.Failures != 0 || h.Contacts != 2 || !found || err != nil {
		t.Errorf("%+v, %v, %v", h, found, err)
	}
}

// TestSilentPort: what does not answer is named with its scheme, unless that is http: the host's other ports may.
func TestSilentPort(t *testing.T) {
	for scheme, want := range map[string]string{"http": "a.test", "ftp": "ftp://a.test"} {
		t.Run(scheme, func(t *testing.T) {
			b := open(t, crashtest.New(), Params{})
			other := newURL("a.test", "x", 0)
			other.URL = scheme + "://a.test/x"
			must.OK(t, b.add("seed", newURL("a.test", "y", 0), other))
			now := second
			batch, err := b.next(now, NextOptions{N: 2, Txn: "r0"})
			must.OK(t, err)
			rows := []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, now), fetchOf(batch[1], record.OutcomeConnect, 0, 2*now)}
			must.OK(t, b.update("r0", now, rows))
			for _, txn := range []string{"r1", "r2"} {
				now, _, err = b.f.Due(now)
				must.OK(t, err)
				batch, err = b.next(now, NextOptions{N: 1, Txn: txn})
				must.OK(t, err)
				must.OK(t, b.update(txn, now, []record.Fetch{fetchOf(batch[0], record.OutcomeConnect, 0, now)}))
			}
			first, err := b.f.First(t.Context())
			if err != nil || first.Name != want {
				t.Errorf("waits for %+v, %v; want %s", first, err, want)
			}
			plan, err := b.f.PlanRest(t.Context(), now, Politeness{Connections: 1, Duration: time.Second})
			if err != nil || len(plan.Slow) != 1 || ServedBy(plan.Slow[0].Scheme, plan.Slow[0].Host) != want {
				t.Errorf("%+v, %v; want %s", plan, err, want)
			}
		})
	}
}
