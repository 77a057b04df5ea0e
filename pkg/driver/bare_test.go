package driver

import (
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/web/canon"
)

func TestBareSeed(t *testing.T) {
	for text, want := range map[string][3]string{
		"ex.test":           {"https://ex.test/", "http://ex.test/", "ex.test"},
		"//ex.test/a?b":     {"https://ex.test/a?b", "http://ex.test/a?b", "ex.test"},
		"ex.test:8080/a/":   {"https://ex.test:8080/a/", "http://ex.test:8080/a/", "ex.test:8080"},
		"ex.test:80":        {"https://ex.test:80/", "http://ex.test/", "ex.test:80"},
		"ex.test:443/x":     {"https://ex.test/x", "http://ex.test:443/x", "ex.test"},
		"127.0.0.1:99":      {"https://127.0.0.1:99/", "http://127.0.0.1:99/", "127.0.0.1:99"},
		"https://ex.test/":  {},
		"http://ex.test/":   {},
		"no URL":            {},
		"mailto:me@ex.test": {},
	} {
		t.Run(text, func(t *testing.T) {
			var got [3]string
			if s := bareSeedOf(text, canon.Options{}); s != nil {
				got = [3]string{s.https, s.http, s.host}
			}
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestSettleBareSeed: http is tried where no reply came by https, and connections failed as if nobody spoke TLS.
func TestSettleBareSeed(t *testing.T) {
	page := func(url, outcome string, status uint16, why string) record.Fetch {
		host := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(url, "https://"), "http://"), "/robots.txt")
		return record.Fetch{URL: url, Host: host, Outcome: outcome, Status: status, Error: why}
	}
	const robots = "https://ex.test/robots.txt"
	for _, c := range []struct {
		name    string
		rows    []record.Fetch
		queued  string
		why     string
		settled bool
	}{
		{"refused", []record.Fetch{page(robots, record.OutcomeConnect, 0, "connection refused")}, "", "connect-failed: connection refused", false},
		{"silent", []record.Fetch{page(robots, record.OutcomeTimeout, 0, "")}, "", "timeout", false},
		{"plain http at the port", []record.Fetch{page(robots, record.OutcomeTLS, 0, "tls: first record does not look like a TLS handshake")}, "", "tls-failed: tls: first record does not look like a TLS handshake", false},
		{"closed at once", []record.Fetch{page(robots, record.OutcomeTLS, 0, "EOF")}, "", "tls-failed: EOF", false},
		{"a wrong certificate", []record.Fetch{page(robots, record.OutcomeTLS, 0, "tls: failed to verify certificate: x509: certificate is valid for other.test, not ex.test")}, "", "", false},
		{"an alert", []record.Fetch{page(robots, record.OutcomeTLS, 0, "remote error: tls: handshake failure")}, "", "", false},
		{"no name", []record.Fetch{page("https://ex.test", record.OutcomeDNS, 0, "nxdomain")}, "", "", false},
		{"address refused by settings", []record.Fetch{page("https://ex.test", record.OutcomeAddress, 0, "loopback")}, "", "", false},
		{"a reply", []record.Fetch{page(robots, record.OutcomeFetched, 404, "")}, "", "", true},
		{"a reply later", []record.Fetch{page(robots, record.OutcomeConnect, 0, "x"), page(robots, record.OutcomeFetched, 503, "")}, "", "connect-failed: x", true},
		{"another host", []record.Fetch{page("https://other.test/robots.txt", record.OutcomeConnect, 0, "x")}, "", "", false},
		{"failed by http", []record.Fetch{page("http://ex.test/robots.txt", record.OutcomeConnect, 0, "x")}, "", "", false},
		{"in the queue", []record.Fetch{page(robots, record.OutcomeConnect, 0, "x")}, "http://ex.test/", "connect-failed: x", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := bareSeedOf("ex.test", canon.Options{})
			settleQueued([]*bareSeed{s}, &record.URL{URL: c.queued})
			for i := range c.rows {
				settleFetched([]*bareSeed{s}, &c.rows[i])
			}
			if s.why != c.why || s.settled != c.settled {
				t.Errorf("%q, settled %v; want %q, %v", s.why, s.settled, c.why, c.settled)
			}
		})
	}
}
