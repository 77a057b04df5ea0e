package mresolve

import (
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/config"
)

func TestCheckAnswer(t *testing.T) {
	const now = record.Time(1_000_000_000)
	ttl := &config.Lifetimes{}
	ttl.MinTTL, ttl.MaxTTL = time.Second, time.Minute
	for name, test := range map[string]struct{ in, want record.URL }{
		"mapped":     {record.URL{Addr: "::ffff:127.0.0.1,2001:0DB8::1", AddrExpires: now + 2e6}, record.URL{Addr: "127.0.0.1,2001:db8::1", AddrExpires: now + 2e6}},
		"no expiry":  {record.URL{Addr: "127.0.0.1"}, record.URL{Addr: "127.0.0.1", AddrExpires: now + 1e6}},
		"too early":  {record.URL{AddrError: "nxdomain", AddrExpires: now - 5}, record.URL{AddrError: "nxdomain", AddrExpires: now + 1e6}},
		"too late":   {record.URL{Addr: "127.0.0.1", AddrExpires: now + 600e6}, record.URL{Addr: "127.0.0.1", AddrExpires: now + 60e6}},
		"for ever":   {record.URL{Addr: "127.0.0.1", AddrExpires: 1<<63 - 1}, record.URL{Addr: "127.0.0.1", AddrExpires: now + 60e6}},
		"long since": {record.URL{Addr: "127.0.0.1", AddrExpires: -1 << 62}, record.URL{Addr: "127.0.0.1", AddrExpires: now + 1e6}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := checkAnswer(&test.in, now, ttl); err != nil || test.in != test.want {
				t.Errorf("%v, %+v, want %+v", err, test.in, test.want)
			}
		})
	}
	for name, test := range map[string]struct {
		in   record.URL
		says string
	}{
		"zone":      {record.URL{Addr: "fe80::1%eth0"}, "without zones"},
		"name":      {record.URL{Addr: "127.0.0.1,host.test"}, "want IP addresses"},
		"space":     {record.URL{Addr: "127.0.0.1, 127.0.0.2"}, "want IP addresses"},
		"neither":   {record.URL{}, "without addr or addr_error"},
		"both":      {record.URL{Addr: "127.0.0.1", AddrError: "no"}, "or with both"},
		"line ends": {record.URL{AddrError: "a\nb"}, "without control characters"},
		"escape":    {record.URL{AddrError: "\u009b31m"}, "without control characters"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := checkAnswer(&test.in, now, ttl); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
}
