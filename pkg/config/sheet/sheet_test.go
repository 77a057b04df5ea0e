package sheet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/config"
)

// TestSheets: all sheets that hold count, in their order; the later one wins, and headers add up.
func TestSheets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sheets.txt")
	text := `sheet all: any
	politeness.min_delay 2s
	fetch.headers "X-A: 1"
sheet slow: domain slow.test and not host quick.slow.test
	politeness.min_delay 9s
	politeness.max_delay 1m
sheet port: host port.test:8080
	politeness.delay_factor 3
sheet api: path /api/
	fetch.headers "X-B: 2, 3"
	fetch.timeout 5s
	fetch.timeout 6s
	frontier.max_attempts 7
sheet own: registered-domain own.test
	fetch.tls_insecure true
	frontier.retry_delay 2s
	frontier.max_depth 1
	frontier.max_host_urls 50
sheet more: (domain own.test or host o.test) and any
	politeness.connections 4
`
	must.OK(t, os.WriteFile(path, []byte(text), 0o666))
	s, err := Load(path, nil)
	must.OK(t, err)
	for _, c := range []struct{ url, host, delays, fetch string }{
		{"http://a.test/", "a.test", "2s 10 30s", "[X: 0 X-A: 1] 1m0s false"},
		{"http://slow.test/api/x?y", "slow.test", "9s 10 1m0s", "[X: 0 X-A: 1 X-B: 2, 3] 6s false"},
		{"https://b.slow.test:444/", "b.slow.test:444", "9s 10 1m0s", "[X: 0 X-A: 1] 1m0s false"},
		{"http://quick.slow.test/", "quick.slow.test", "2s 10 30s", "[X: 0 X-A: 1] 1m0s false"},
		{"http://port.test/", "port.test", "2s 10 30s", "[X: 0 X-A: 1] 1m0s false"},
		{"http://port.test:8080/", "port.test:8080", "2s 3 30s", "[X: 0 X-A: 1] 1m0s false"},
		{"https://www.own.test/robots.txt", "www.own.test", "2s 10 30s", "[X: 0 X-A: 1] 1m0s true"},
	} {
		t.Run(c.url, func(t *testing.T) {
			d := config.Delays{MinDelay: time.Second, DelayFactor: 10, MaxDelay: 30 * time.Second}
			s.Host(c.host, &d)
			if got := fmt.Sprint(d.MinDelay, d.DelayFactor, d.MaxDelay); got != c.delays {
				t.Errorf("delays %s, want %s", got, c.delays)
			}
			f := config.Fetch{Timeout: time.Minute, Header: make([]string, 1, 10)}
			f.Header[0] = "X: 0"
			other := append(f.Header, "of another URL")
			s.Apply(s.Of(c.url, c.host), &f)
			if got := fmt.Sprint(f.Header, f.Timeout, f.TLSInsecure); got != c.fetch || other[1] != "of another URL" {
				t.Errorf("fetch %s, want %s; %s", got, c.fetch, other)
			}
		})
	}
	attempts := s.Attempts(config.Failures{MaxAttempts: 3, RetryDelay: time.Minute})
	depth, urls := s.Limits(config.NewURLs{MaxDepth: 4})
	for url, want := range map[string]string{"http://a.test/api/x": "7 1m0s 4 0", "http://a.test/": "3 1m0s 4 0", "http://own.test/": "3 2s 1 50"} {
		t.Run(url, func(t *testing.T) {
			host := strings.Split(url, "/")[2]
			most, delay := attempts(url, host)
			if got := fmt.Sprint(most, delay, depth(url, host), urls(host)); got != want {
				t.Errorf("%s: attempts, delay, depth, URLs %s, want %s", url, got, want)
			}
		})
	}
	polite := s.Politeness(config.Delays{MinDelay: time.Second})
	for host, want := range map[string]int{"own.test": 4, "b.own.test:81": 4, "a.test": 0} {
		t.Run(host, func(t *testing.T) {
			if got := polite.Of(host).HostConnections; got != want {
				t.Errorf("%d connections to %s, want %d", got, host, want)
			}
		})
	}
	var none *Sheets
	none.Host("a.test", nil)
	if none.Of("http://a.test/", "a.test") != nil {
		t.Error("sheets without a file")
	}
}

// TestOwnByList: a list names hosts that are one's own, but no domains: one of them may be a public suffix.
func TestOwnByList(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sheets.txt")
	for condition, good := range map[string]bool{"host @l.txt": true, "domain @l.txt": false, "registered-domain @l.txt": false, "domain a.test": true, "domain github.io": false} {
		t.Run(condition, func(t *testing.T) {
			for name, text := range map[string]string{"l.txt": "a.test\n", "sheets.txt": "sheet x: " + condition + "\n\tpoliteness.connections 8\n"} {
				must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
			}
			if _, err := Load(path, nil); (err == nil) != good {
				t.Error(err)
			}
		})
	}
}

// TestAudited: the file that is kept of a round gives hosts the same politeness, by lists of its own, and no header.
func TestAudited(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666))
		return path
	}
	write("lists/a b.txt", "one.test\n")
	other := write("other.txt", "two.test\n")
	from := write("crawl/sheets.txt", `sheet all: any
    politeness.min_delay 3s
sheet api: host one.test and path /api/
    fetch.headers "X-Api-Key: secret"
sheet: domain "@../lists/a b.txt" or (host @`+other+` three.test) or host @`+other+`
    fetch.headers "X-Api-Key: secret"
    politeness.window "22:00-06:00 Europe/Berlin"
    robots.policy obey
`)
	if _, err := Load(from, nil); err == nil {
		t.Fatal("robots.policy of a domain")
	}
	text, _ := os.ReadFile(from)
	from = write("crawl/sheets.txt", strings.Replace(string(text), "    robots.policy obey\n", "", 1))
	s, err := Load(from, nil)
	must.OK(t, err)
	kept, err := s.Audited(func(n int, text []byte) (string, error) {
		name := fmt.Sprintf("p.list-%d", n)
		write("round/"+name, string(text))
		return name, nil
	})
	must.OK(t, err)
	if strings.Contains(string(kept), "secret") {
		t.Errorf("with a header: %s", kept)
	}
	again, err := Load(write("round/p.sheets", string(kept)), nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, kept)
	}
	if len(again.Files) != 3 {
		t.Errorf("files %q, want the sheets and two lists", again.Files)
	}
	var all config.Delays
	was, is := s.Politeness(all), again.Politeness(all)
	for _, host := range []string{"one.test", "www.one.test", "two.test", "three.test", "four.test"} {
		if a, b := was.Of(host), is.Of(host); a.MinDelay != b.MinDelay || (a.Window == nil) != (b.Window == nil) || (a.Window == nil) != (host == "four.test") {
			t.Errorf("%s: %+v, want %+v", host, b, a)
		}
	}
	if none, err := (*Sheets)(nil).Audited(nil); none != nil || err != nil {
		t.Errorf("of no sheets: %q, %v", none, err)
	}
}
