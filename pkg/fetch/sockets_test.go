package fetch_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/http1"
)

// server is a web server on loopback that counts its connections.
type server struct {
	*httptest.Server
	mu              sync.Mutex
	made, open, top int
}

func newServer(t testing.TB, handler http.HandlerFunc, secure bool) *server {
	s := &server{Server: httptest.NewUnstartedServer(handler)}
	s.Config.ErrorLog = nil
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch state {
		case http.StateNew:
			s.made++
			s.open++
			s.top = max(s.top, s.open)
		case http.StateClosed:
			s.open--
		}
	}
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// at returns a row for a path of a host name that this server answers for.
func (s *server) at(host, path string) record.URL {
	scheme, addr, _ := strings.Cut(s.URL, "://")
	_, port, _ := net.SplitHostPort(addr)
	u := url(scheme + "://" + host + ":" + port + path)
	u.Addr = "127.0.0.1"
	return u
}

func loopback(t testing.TB) fetch.HTTP {
	return fetch.HTTP{Client: &http1.Client{UserAgent: "mercator", TempDir: t.TempDir(), Timeout: 5 * time.Second,
		Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}
}

func TestConnectionsAreKept(t *testing.T) {
	const hosts, each = 10, 20
	for _, connections := range []int{1, 3, hosts} {
		t.Run(fmt.Sprint(connections, " connections"), func(t *testing.T) {
			s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					w.WriteHeader(404)
				}
				io.WriteString(w, "text of "+r.Host+r.URL.Path)
			}, false)
			var urls []record.URL
			for i := range hosts {
				for j := range each {
					urls = append(urls, s.at(fmt.Sprintf("h%d.test", i), fmt.Sprintf("/%d", j)))
				}
			}
			opt := options(newStore(t), loopback(t))
			opt.Connections = connections
			for u, o := range outcomes(t, run(t, opt, "r1", urls), urls) {
				if o != record.OutcomeFetched {
					t.Errorf("%s: %s", u, o)
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			// A host's URLs stand together in the batch, so each host needs one connection.
			if s.made != hosts {
				t.Errorf("%d connections made for %d hosts with %d URLs each", s.made, hosts, each)
			}
			if s.top > connections+1 { // the server hears of a close a little late
				t.Errorf("%d connections at a time, want at most %d", s.top, connections)
			}
		})
	}
}
