package frontier

import (
	"fmt"
	"slices"
	"testing"
	"time"

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
	rounds []string // when each began, and what it got
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
	began, fetched, failed, deferred, inARow := s.now, 0, 0, 0, 0
	for _, u := range batch {
		row := fetchOf(u, record.OutcomeFetched, 200, s.now)
		switch {
		case inARow == 5:
			row = fetchOf(u, record.OutcomeDeferred, 0, 0)
			row.RetryAfter = s.now
			deferred++
		case up(s.now):
			inARow, s.now = 0, s.now+second
			fetched++
		default:
			row = fetchOf(u, record.OutcomeConnect, 0, s.now)
			inARow, s.now = inARow+1, s.now+second
			failed++
		}
		rows = append(rows, row)
	}
	must.OK(s.t, s.updateFrom(o.Txn, recordtest.In[record.URL](o.Txn), UpdateOptions{
		Txn: o.Txn, Retries: Retries{MaxAttempts: 3, Delay: 5 * time.Second, MaxDelay: 24 * time.Hour}, Outcomes: given(o.Txn, rows),
	}))
	s.rounds = append(s.rounds, fmt.Sprintf("%d: %d fetched, %d failed, %d deferred", began/second, fetched, failed, deferred))
	s.check()
}

// TestOutage crawls a site that goes away: one try a round, few rounds, and no URL is lost or has an attempt less, unless the site is gone.
func TestOutage(t *testing.T) {
	forGood := record.Time(1e9)
	for _, c := range []struct {
		name     string
		from, to record.Time // the site does not answer from then to then
		rounds   []string    // when each began, and what it got; nil: any
		all      int         // rounds
		counts   Counts
	}{
		{"a minute", 1010, 1070, []string{
			"1000: 10 fetched, 5 failed, 35 deferred",
			"1015: 0 fetched, 1 failed, 0 deferred",
			"1023: 0 fetched, 1 failed, 0 deferred",
			"1024: 0 fetched, 1 failed, 0 deferred",
			"1041: 0 fetched, 1 failed, 0 deferred",
			"1042: 0 fetched, 1 failed, 0 deferred",
			"1077: 1 fetched, 0 failed, 0 deferred",
			"1078: 49 fetched, 0 failed, 0 deferred",
		}, 8, Counts{Discovered: 60, Finished: 60, Deferred: 45}},
		{"five minutes", 1010, 1310, nil, 14, Counts{Discovered: 60, Finished: 60, Deferred: 51}},
		{"for good", 1010, forGood, nil, 68, Counts{Discovered: 60, Finished: 60, Retried: 100, Dead: 50}},
		{"never there", 0, forGood, nil, 47, Counts{Discovered: 60, Finished: 60, Retried: 120, Dead: 60}},
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
			got := b.counts()
			got.Outcomes = nil
			if c.counts.Deferred == 0 {
				got.Deferred = 0
			}
			if len(s.rounds) != c.all || fmt.Sprint(got) != fmt.Sprint(c.counts) {
				t.Errorf("%d rounds, %+v; want %d, %+v", len(s.rounds), got, c.all, c.counts)
			}
			if c.rounds != nil && !slices.Equal(s.rounds, c.rounds) {
				t.Errorf("%q, want %q", s.rounds, c.rounds)
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
