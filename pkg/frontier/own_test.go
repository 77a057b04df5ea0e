package frontier

import (
	"testing"
	"time"

	"mercator/formats/record"
)

// TestOwnRetries: a URL may have other attempts and another first wait than the rest.
func TestOwnRetries(t *testing.T) {
	r := DefaultRetries
	r.Of = func(url, host string) (int, time.Duration) {
		if url == "http://own.test/x" && host == "own.test" {
			return 5, 10 * time.Second
		}
		return r.MaxAttempts, r.Delay
	}
	for _, c := range []struct {
		name, url string
		attempt   uint8
		final     bool
		wait      time.Duration
	}{
		{"the last of all", "http://own.test/", 2, true, 0},
		{"one of more", "http://own.test/x", 2, false, 2 * time.Minute},
		{"the last of more", "http://own.test/x", 4, true, 0},
		{"a shorter wait", "http://own.test/x", 0, false, 10 * time.Second},
		{"the wait of all", "http://own.test/", 0, false, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			const now = record.Time(1e12)
			row := &record.Fetch{URL: c.url, Host: "own.test", Outcome: record.OutcomeTimeout, FetchTime: now, Attempt: c.attempt}
			v, due := r.judge(row, c.attempt, now)
			if v.final() != c.final || !c.final && due != now+record.Time(c.wait.Microseconds()) || r.Final(row) != c.final {
				t.Errorf("final %v, due after %v; want %v, %v", v.final(), time.Duration(due-now)*time.Microsecond, c.final, c.wait)
			}
		})
	}
}

// TestOwnLimits: a URL may have another depth, and a host another number of URLs.
func TestOwnLimits(t *testing.T) {
	l := Limits{Depth: 2, HostURLs: 10, DepthOf: func(url, _ string) int { return map[string]int{"deep": 9, "any": 0}[url] }, HostURLsOf: func(host string) uint64 { return map[string]uint64{"big": 90}[host] }}
	all := Limits{Depth: 2, HostURLs: 10}
	for _, c := range []struct {
		name string
		got  bool
		want bool
	}{
		{"deeper", l.deep("deep", "h", 10), true}, {"as deep", l.deep("deep", "h", 9), false}, {"any depth", l.deep("any", "h", 99), false}, {"the depth of all", all.deep("deep", "h", 3), true},
		{"full", l.full(&Host{Host: "big", Discovered: 90}), true}, {"room", l.full(&Host{Host: "big", Discovered: 89}), false},
		{"any number", l.full(&Host{Host: "small", Discovered: 99}), false}, {"the number of all", all.full(&Host{Host: "big", Discovered: 10}), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("%v, want %v", c.got, c.want)
			}
		})
	}
}
