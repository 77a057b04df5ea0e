package fetch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch"
)

// gate lets in by three steps at in.test, never at out.test, and at hung.test until two logins had no reply.
type gate struct {
	mu    sync.Mutex
	step  int
	hung  int
	ended bool // the session ended once
	began map[string][]time.Time
}

func (g *gate) Check(string) error { return nil }

func (g *gate) Step(url string) (step, page, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	host := strings.Split(url, "/")[2]
	page = "http://" + host + "/login"
	switch {
	case host == "in.test" && g.step < 3:
		return fmt.Sprintf("http://in.test/secret-%d", g.step), page, ""
	case host == "out.test", host == "hung.test" && g.hung == 2:
		return "", page, "wrong password"
	case host == "hung.test":
		return "http://hung.test/secret", page, ""
	}
	return "", "", ""
}

func (g *gate) Failed(url, why string, final bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if final || why != "timeout: silence" {
		panic(url + " " + why)
	}
	g.hung++
}

func (g *gate) Fetch(_ context.Context, req *fetch.Request) *fetch.Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.began[req.Host] = append(g.began[req.Host], time.Now())
	switch {
	case req.Login != strings.Contains(req.URL, "/secret"):
		panic(req.URL)
	case req.Login && req.Host == "hung.test":
		return &fetch.Reply{Outcome: record.OutcomeTimeout, Error: "silence"}
	case req.Login:
		g.step++
		return &fetch.Reply{Outcome: record.OutcomeFetched, Status: 200}
	case req.URL == "http://in.test/4" && !g.ended:
		g.ended, g.step = true, 0
		return &fetch.Reply{Outcome: record.OutcomeFetched, Status: 302, LoggedOut: true}
	}
	raw := page(req.URL)
	if strings.HasSuffix(req.URL, "/robots.txt") {
		raw = text("")
	}
	return &fetch.Reply{Outcome: record.OutcomeFetched, Sent: []byte("GET " + req.URL + "\r\n\r\n"), Response: strings.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
}

// TestLogins: the contacts of logins keep a host's delays, have rows of their own and no place in the archive. Where a login fails, the pages are put off.
func TestLogins(t *testing.T) {
	for _, connections := range []int{1, 3} {
		t.Run(fmt.Sprint(connections), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gate{began: map[string][]time.Time{}}
				opt := options(newStore(t), g)
				opt.Logins, opt.MinDelay, opt.MaxDelay = g, time.Second, time.Second
				if connections > 1 {
					opt.Policy.HostConnections = connections
				}
				urls := []record.URL{url("http://out.test/1"), url("http://hung.test/1"), url("http://free.test/1")}
				for i := range 8 {
					urls = append(urls, url(fmt.Sprint("http://in.test/", i)))
				}
				rows := run(t, opt, "r1", urls)
				var logins []string
				for i := range rows {
					row := &rows[i]
					if strings.Contains(row.URL, "secret") {
						t.Errorf("a row has %s", row.URL)
					}
					if row.Role == record.RoleLogin {
						logins = append(logins, row.URL)
						if row.WARCFilename != "" || row.Addr == "" {
							t.Errorf("%+v", row)
						}
					}
				}
				slices.Sort(logins)
				in := slices.Repeat([]string{"http://in.test/login"}, 6)
				if want := append(append([]string{"http://hung.test/login", "http://hung.test/login"}, "http://in.test/4"), in...); !slices.Equal(logins, want) {
					t.Errorf("rows of logins %q, want %q", logins, want)
				}
				for url, outcome := range outcomes(t, rows, urls) {
					want := record.OutcomeFetched
					if strings.Contains(url, "out.test") || strings.Contains(url, "hung.test") {
						want = record.OutcomeDeferred
					}
					if outcome != want {
						t.Errorf("%s: %s, want %s", url, outcome, want)
					}
				}
				audits(t, rows, opt, 0)
				if connections == 1 {
					for host, at := range g.began {
						for i := 1; i < len(at); i++ {
							if at[i].Sub(at[i-1]) < time.Second {
								t.Errorf("%s was contacted after %v", host, at[i].Sub(at[i-1]))
							}
						}
					}
				}
			})
		})
	}
}
