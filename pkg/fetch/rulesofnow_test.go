package fetch_test

import (
	"fmt"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/politeness"
	"mercator/pkg/fetch"
)

// TestRulesOfNow: the gap after the last contact of a round before follows the rules that hold now, be they longer or shorter; what a
// server asked for stays, and so does the gap of its address.
func TestRulesOfNow(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name    string
		replies map[string]string
		before  func(*fetch.Options)
		now     func(*fetch.Options)
		second  string        // host of the second round
		pause   time.Duration // between the rounds
		least   time.Duration // from the end of the first round's contact, which takes a second, to the begin of the second's
		defers  bool
	}{
		{name: "longer", now: func(o *fetch.Options) { o.MinDelay = 20 * s }, pause: 5 * s, least: 20 * s},
		{name: "longer by a sheet", now: func(o *fetch.Options) { o.Hosts = func(_ string, r *politeness.Rules) { r.MinDelay = 20 * s } }, pause: 5 * s, least: 20 * s},
		{name: "longer by its duration", now: func(o *fetch.Options) { o.DelayFactor, o.MaxDelay = 15, 60*s }, pause: 5 * s, least: 15 * s},
		{name: "far longer, hours later", now: func(o *fetch.Options) { o.MinDelay = 8 * time.Hour }, pause: 2 * time.Hour, defers: true},
		{name: "shorter", before: func(o *fetch.Options) { o.MinDelay = 100 * s }, now: func(o *fetch.Options) { o.MinDelay = 2 * s }, least: 2 * s},
		{name: "shorter than a server asked for", replies: map[string]string{"http://h0.test/0": "HTTP/1.1 503 x\r\nRetry-After: 40\r\nContent-Length: 0\r\n\r\n"},
			before: func(o *fetch.Options) { o.MinDelay = 100 * s }, now: func(o *fetch.Options) { o.MinDelay = 2 * s }, least: 39 * s},
		{name: "longer than is granted, a host of one's own", replies: map[string]string{"http://h0.test/0": "HTTP/1.1 503 x\r\nRetry-After: 200000\r\nContent-Length: 0\r\n\r\n"},
			now: func(o *fetch.Options) { o.Hosts = func(_ string, r *politeness.Rules) { r.NoRobots = true } }, least: s},
		{name: "of an address", now: func(o *fetch.Options) { o.AddrDelay = 20 * s }, second: "other.test", pause: 5 * s, least: 20 * s},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			w := &web{replies: c.replies, delay: s}
			opt := options(newStore(t), w)
			opt.Robots, opt.MinDelay = nil, s
			if c.before != nil {
				c.before(&opt)
			}
			first := run(t, opt, "r1", pages(1, 1))[0]
			ended := first.FetchTime.Go().Add(time.Duration(first.DurationUS) * time.Microsecond)
			time.Sleep(c.pause)
			opt.MinDelay = s
			c.now(&opt)
			u := pages(1, 1)
			if c.second != "" {
				u = []record.URL{url("http://" + c.second + "/")}
				u[0].Addr = first.Addr
			}
			row := run(t, opt, "r2", u)[0]
			if (row.Outcome == record.OutcomeDeferred) != c.defers {
				t.Fatalf("outcome %s (%s)", row.Outcome, row.Error)
			}
			gap := row.FetchTime.Go().Sub(ended)
			if most := max(c.pause, c.least); !c.defers && (gap < c.least || gap > most+2*s) {
				t.Errorf("contacted %v after the contact before, want %v", gap, c.least)
			}
			if until := row.RetryAfter.Go(); c.defers && until.Sub(ended) != 8*time.Hour {
				t.Errorf("left alone until %v, want %v", until, ended.Add(8*time.Hour))
			}
			if c.defers {
				return
			}
			a := auditOf(t, fetch.AuditOptions{Policy: opt.Policy, AddrDelay: opt.AddrDelay, Memory: 8 << 20}, func(add func(*record.Fetch)) {
				add(&row)
				if c.name != "shorter" {
					add(&first)
				}
			})
			if a.Err() != nil {
				t.Errorf("audit: %v", fmt.Sprintf("%+v", a))
			}
		})
	}
}
