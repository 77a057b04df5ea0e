package sheet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/config"
)

// many has so many sheets, each of a host.
func many(t testing.TB, n int) *Sheets {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "sheet s%d: host h%d.example.org\n politeness.min_delay %ds\n", i, i, i+2)
	}
	s, err := parse("sheets.txt", strings.NewReader(b.String()), nil)
	must.OK(t, err)
	return s
}

// TestIndex: of many sheets, those that may hold are found by the names in their conditions.
func TestIndex(t *testing.T) {
	s := many(t, 10_000)
	if got := s.Politeness(config.Delays{}).HostsLongest; got != 10_001*time.Second {
		t.Errorf("longest gap %v", got)
	}
	if got := s.hosts.of("h9999.example.org"); fmt.Sprint(got) != "[9999]" || len(s.hosts.of("example.org")) > 0 {
		t.Errorf("sheets %v", got)
	}
	var b strings.Builder
	for _, c := range []string{"host a.test b.test", "domain b.test and not host c.b.test", "host a.test or registered-domain d.test", "any", "host a.test:81", "host a.test or not host b.test", "domain .e.test", "not domain a.test"} {
		fmt.Fprintf(&b, "sheet : %s\n fetch.timeout 1s\n", c)
	}
	s, err := parse("sheets.txt", strings.NewReader(b.String()), nil)
	must.OK(t, err)
	for host, want := range map[string][2]string{ // candidates, and what holds
		"a.test": {"[0 2 3 5 7]", "[0 2 3 5]"}, "a.test:81": {"[0 2 3 4 5 7]", "[0 2 3 4 5]"}, "x.b.test": {"[0 1 3 5 7]", "[1 3 5 7]"}, "c.b.test": {"[0 1 3 5 7]", "[3 5 7]"},
		"x.d.test": {"[2 3 5 7]", "[2 3 5 7]"}, "e.test": {"[3 5 6 7]", "[3 5 6 7]"}, "127.0.0.1:80": {"[3 5 7]", "[3 5 7]"}, "[::1]:80": {"[3 5 7]", "[3 5 7]"},
	} {
		t.Run(host, func(t *testing.T) {
			if got := [2]string{fmt.Sprint(s.every.of(host)), fmt.Sprint(s.Of("http://"+host+"/", host))}; got != want {
				t.Errorf("%s: sheets %s, want %s", host, got, want)
			}
		})
	}
}
