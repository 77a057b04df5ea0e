package fetch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
	"mercator/pkg/fetch"
)

// window gives h0.test a window, and so many connections; the clock of a bubble begins at midnight, UTC.
func window(t *testing.T, text string, connections int) func(string, *politeness.Rules) {
	w, err := politeness.ParseWindow(text)
	must.OK(t, err)
	return func(host string, r *politeness.Rules) {
		if host == "h0.test" {
			r.Window, r.HostConnections = w, connections
		}
	}
}

// TestWindow: no contact with a host begins outside of its window, be it for robots.txt; what is left is put off until the window opens, or waited for if
// that is soon. Other hosts go on.
func TestWindow(t *testing.T) {
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, window string
		connections  int
		robots       bool
		addrDelay    time.Duration
		hold         time.Duration // of a contact
		fetched      int           // of the 40 URLs of the host
		until        time.Duration // when the others may be fetched
	}{
		{name: "open", window: "00:00-12:00", fetched: 40},
		{name: "opens soon", window: "00:02-12:00", fetched: 40},
		{name: "opens soon, with robots.txt", window: "00:02-12:00", robots: true, fetched: 40},
		{name: "opens late", window: "22:00-06:00 Etc/GMT+12", fetched: 0, until: 10 * time.Hour},
		{name: "closes", window: "23:00-00:01", fetched: 5, until: 23 * time.Hour}, // a gap of 10 s, and contacts of 2 s
		{name: "closes, with robots.txt", window: "23:00-00:01", robots: true, fetched: 4, until: 23 * time.Hour},
		{name: "closes, over three connections", window: "23:00-00:01", connections: 3, fetched: 15, until: 23 * time.Hour},
		{name: "closes while its address is busy", window: "23:00-00:01", addrDelay: 7 * time.Second, fetched: 4, until: 23 * time.Hour},
		{name: "closes in a contact", window: "23:00-00:01", hold: time.Hour, fetched: 1, until: 23 * time.Hour},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			w := &web{delay: max(c.hold, 2*time.Second)}
			opt := options(newStore(t), w)
			opt.MinDelay, opt.AddrDelay, opt.ContactTime = 10*time.Second, c.addrDelay, 2*time.Hour
			opt.Hosts, opt.HostsLongest = window(t, c.window, c.connections), 10*time.Second
			if !c.robots {
				opt.Robots = nil
			}
			urls := pages(2, 40)
			for i := range urls {
				urls[i].Addr = "127.0.0.1"
			}
			rows := run(t, opt, "r1", urls)
			n := map[string]int{}
			for i := range rows {
				r := &rows[i]
				if n[r.Host+" "+r.Outcome]++; r.Outcome != record.OutcomeDeferred || r.Host != "h0.test" {
					continue
				}
				if got := r.RetryAfter.Go().Sub(midnight); got != c.until || !strings.Contains(r.Error, "outside of its window "+strings.Fields(c.window)[0]) {
					t.Fatalf("put off until %v (%s), want %v", got, r.Error, c.until)
				}
			}
			robots := 0
			if c.robots {
				robots = min(c.fetched, 1)
			}
			if n["h0.test "+record.OutcomeFetched] != c.fetched+robots || n["h1.test "+record.OutcomeFetched] < 40 {
				t.Errorf("rows %v, want %d fetched of h0.test", n, c.fetched)
			}
			of := func(hosts func(string, *politeness.Rules)) *fetch.Audit {
				return auditOf(t, fetch.AuditOptions{Policy: politeness.Policy{Hosts: hosts}, Memory: 8 << 20}, func(add func(*record.Fetch)) {
					for i := range rows {
						add(&rows[i])
					}
				})
			}
			if a := of(opt.Hosts); a.Err() != nil {
				t.Error(a.Err())
			}
			if a := of(window(t, "20:00-20:01", c.connections)); c.fetched > 0 && (a.Outside != uint64(c.fetched+robots) || !strings.Contains(fmt.Sprint(a.Err()), "outside of the windows of their hosts, first with h0.test at 2000-01-01T")) {
				t.Errorf("by another window: %d outside, %v", a.Outside, a.Err())
			}
		})
	}
}
