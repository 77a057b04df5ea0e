package frontier

import (
	"testing"
	"time"

	"mercator/formats/record"
)

func TestJudge(t *testing.T) {
	const sec = 1_000_000
	r := Retries{MaxAttempts: 3, Delay: time.Minute, MaxDelay: 90 * time.Second}
	now := record.Time(1000 * sec)
	for _, c := range []struct {
		name    string
		row     record.Fetch
		attempt uint8
		want    verdict
		due     record.Time
	}{
		{"fetched", record.Fetch{Outcome: record.OutcomeFetched, Status: 200}, 0, finish, 0},
		{"cut by its server", record.Fetch{Outcome: record.OutcomeFetched, Status: 200, Truncated: "disconnect", FetchTime: 10 * sec}, 0, again, 70 * sec},
		{"cut for the last time", record.Fetch{Outcome: record.OutcomeFetched, Status: 200, Truncated: "disconnect"}, 2, giveUp, 0},
		{"without an end", record.Fetch{Outcome: record.OutcomeFetched, Status: 200, Truncated: "time"}, 0, finish, 0},
		{"cut redirect", record.Fetch{Outcome: record.OutcomeFetched, Status: 301, Truncated: "disconnect"}, 0, finish, 0},
		{"cut text of an error", record.Fetch{Outcome: record.OutcomeFetched, Status: 404, Truncated: "time"}, 0, finish, 0},
		{"longer than what is kept", record.Fetch{Outcome: record.OutcomeFetched, Status: 200, Truncated: "length"}, 0, finish, 0},
		{"redirect", record.Fetch{Outcome: record.OutcomeFetched, Status: 301}, 0, finish, 0},
		{"not found", record.Fetch{Outcome: record.OutcomeFetched, Status: 404}, 0, finish, 0},
		{"denied by robots", record.Fetch{Outcome: record.OutcomeRobotsDenied}, 0, finish, 0},
		{"denied", record.Fetch{Outcome: record.OutcomeDenied}, 0, park, 0},
		{"denied to keep a login", record.Fetch{Outcome: record.OutcomeDenied, Error: record.EndsLogin}, 0, finish, 0},
		{"address", record.Fetch{Outcome: record.OutcomeAddress}, 2, park, 0},
		{"port", record.Fetch{Outcome: record.OutcomePort}, 0, finish, 0},
		{"scheme without a module", record.Fetch{URL: "gopher://h/", Outcome: record.OutcomeScheme, Error: "gopher"}, 0, park, 0},
		{"scheme whose module cannot ask", record.Fetch{URL: "gopher://h/", Outcome: record.OutcomeScheme, Error: "gopher: a tab"}, 0, finish, 0},
		{"TLS", record.Fetch{Outcome: record.OutcomeTLS}, 0, finish, 0},
		{"protocol", record.Fetch{Outcome: record.OutcomeProtocol}, 0, finish, 0},
		{"no such name", record.Fetch{Outcome: record.OutcomeDNS, Error: "nxdomain"}, 0, finish, 0},
		{"no address", record.Fetch{Outcome: record.OutcomeDNS, Error: "no-address"}, 0, finish, 0},
		{"name server failed", record.Fetch{Outcome: record.OutcomeDNS, Error: "servfail"}, 0, again, now + 60*sec},
		{"name server silent", record.Fetch{Outcome: record.OutcomeDNS, Error: "timeout"}, 0, again, now + 60*sec},
		{"connect", record.Fetch{Outcome: record.OutcomeConnect, FetchTime: 10 * sec, DurationUS: sec}, 0, again, 71 * sec},
		{"second failure, limit", record.Fetch{Outcome: record.OutcomeTimeout, FetchTime: 10 * sec}, 1, again, 100 * sec},
		{"third failure", record.Fetch{Outcome: record.OutcomeTimeout, FetchTime: 10 * sec}, 2, giveUp, 0},
		{"disconnected", record.Fetch{Outcome: record.OutcomeDisconnect, FetchTime: 10 * sec}, 0, again, 70 * sec},
		{"robots.txt", record.Fetch{Outcome: record.OutcomeRobotsUnreachable}, 0, again, now + 60*sec},
		{"robots.txt over plain HTTP", record.Fetch{Outcome: record.OutcomeRobotsUnreachable, Error: "tls-failed: plain HTTP at a port for TLS: tls: first record"}, 0, again, now + 60*sec},
		{"408", record.Fetch{Outcome: record.OutcomeFetched, Status: 408, FetchTime: 10 * sec}, 0, again, 70 * sec},
		{"421", record.Fetch{Outcome: record.OutcomeFetched, Status: 421, FetchTime: 10 * sec}, 0, again, 70 * sec},
		{"425 with Retry-After", record.Fetch{Outcome: record.OutcomeFetched, Status: 425, FetchTime: 10 * sec, RetryAfter: 500 * sec}, 0, again, 500 * sec},
		{"423", record.Fetch{Outcome: record.OutcomeFetched, Status: 423}, 0, finish, 0},
		{"429", record.Fetch{Outcome: record.OutcomeFetched, Status: 429, FetchTime: 10 * sec}, 0, again, 70 * sec},
		{"503 with Retry-After", record.Fetch{Outcome: record.OutcomeFetched, Status: 503, FetchTime: 10 * sec, RetryAfter: 500 * sec}, 0, again, 500 * sec},
		{"503 with early Retry-After", record.Fetch{Outcome: record.OutcomeFetched, Status: 503, FetchTime: 10 * sec, RetryAfter: 11 * sec}, 0, again, 70 * sec},
		{"503 that asks for years", record.Fetch{Outcome: record.OutcomeFetched, Status: 503, FetchTime: 10 * sec, RetryAfter: 1 << 60}, 0, park, 1 << 60},
		{"deferred for years", record.Fetch{Outcome: record.OutcomeDeferred, FetchTime: 10 * sec, RetryAfter: 1 << 60}, 0, park, 1 << 60},
		{"503 for the last time", record.Fetch{Outcome: record.OutcomeFetched, Status: 503}, 2, giveUp, 0},
		{"deferred", record.Fetch{Outcome: record.OutcomeDeferred}, 2, putOff, 0},
		{"parked", record.Fetch{Outcome: record.OutcomeParked, RetryAfter: 500 * sec}, 2, park, 500 * sec},
		{"deferred to a time", record.Fetch{Outcome: record.OutcomeDeferred, RetryAfter: 500 * sec}, 2, putOff, 500 * sec},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, due := r.judge(&c.row, c.attempt, now)
			if got != c.want || due != c.due {
				t.Errorf("%s: verdict %d due %d, want %d due %d", c.name, got, due, c.want, c.due)
			}
		})
	}
	for _, c := range []struct {
		name  string
		delay time.Duration
		want  []time.Duration // before each further attempt
	}{
		{"none", 0, []time.Duration{0, 0, 0}},
		{"seconds, then minutes", 5 * time.Second, []time.Duration{5 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}},
		{"nearly a minute", 50 * time.Second, []time.Duration{50 * time.Second, 100 * time.Second, 200 * time.Second}},
		{"minutes", time.Minute, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Retries{MaxAttempts: 255, Delay: c.delay, MaxDelay: 24 * time.Hour}
			for attempt, want := range c.want {
				if _, due := r.judge(&record.Fetch{Outcome: record.OutcomeTimeout, FetchTime: 1}, uint8(attempt), 0); due != 1+record.Time(want.Microseconds()) {
					t.Errorf("attempt %d: due %d, want after %v", attempt, due, want)
				}
			}
		})
	}
	// However long the back-off grows, it stays within its limit.
	long := Retries{MaxAttempts: 255, Delay: time.Hour, MaxDelay: 24 * time.Hour}
	for attempt := range uint8(254) {
		_, due := long.judge(&record.Fetch{Outcome: record.OutcomeTimeout, FetchTime: 1}, attempt, 0)
		if due < 3600*sec || due > 24*3600*sec+1 {
			t.Fatalf("attempt %d due %d", attempt, due)
		}
	}
}
