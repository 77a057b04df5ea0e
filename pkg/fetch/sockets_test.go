package fetch_test

import (
	"context"
	"fmt"
	"io"
	"log"
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
	"mercator/pkg/folder/stage"
)

// server is a web server on loopback.
type server struct{ *httptest.Server }

func newServer(t testing.TB, handler http.HandlerFunc, secure bool) *server {
	s := &server{httptest.NewUnstartedServer(handler)}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// dialer counts connections.
type dialer struct {
	mu              sync.Mutex
	made, open, top int
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	d.made++
	d.open++
	d.top = max(d.top, d.open)
	d.mu.Unlock()
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &counted{c.(*net.TCPConn), d}, err
}

type counted struct {
	*net.TCPConn
	d *dialer
}

func (c *counted) Close() error {
	c.d.mu.Lock()
	c.d.open--
	c.d.mu.Unlock()
	return c.TCPConn.Close()
}

// at returns a row for a path of a host name that this server answers for.
func (s *server) at(host, path string) record.URL {
	scheme, addr, _ := strings.Cut(s.URL, "://")
	_, port, _ := net.SplitHostPort(addr)
	u := url(scheme + "://" + host + ":" + port + path)
	u.Addr = "127.0.0.1"
	return u
}

func loopback(t testing.TB) *http1.Client {
	return &http1.Client{UserAgent: "mercator", Limits: fetch.Limits{TempDir: t.TempDir(), Timeout: time.Minute,
		Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}
}

// ended tells when an input has been read to its end.
type ended struct {
	stage.Input[record.URL]
	read chan struct{}
}

func (e ended) Read(row *record.URL) error {
	err := e.Input.Read(row)
	if err == io.EOF {
		close(e.read)
	}
	return err
}

func TestConnectionsAreKept(t *testing.T) {
	const hosts, each = 10, 20
	for _, connections := range []int{1, 3, hosts} {
		t.Run(fmt.Sprint(connections, " connections"), func(t *testing.T) {
			// First all rows are read: a host of which all is fetched before its next row is
			// read is done with, and gets another connection.
			read := make(chan struct{})
			s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					<-read
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
			d := &dialer{}
			web := loopback(t)
			web.Dial = d.dial
			opt := options(newStore(t), web)
			opt.Connections = connections
			in := stream(t, "r1", urls)
			opt.Txn, opt.Schema = "r1", in.Schema()
			rows := runBody(t, opt.Store, "r1", ended{in, read}, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
				return fetch.Run(ctx, b, opt)
			})
			for u, o := range outcomes(t, rows, urls) {
				if o != record.OutcomeFetched {
					t.Errorf("%s: %s", u, o)
				}
			}
			// A host's URLs stand together in the batch, so each host needs one connection.
			if d.made != hosts {
				t.Errorf("%d connections made for %d hosts with %d URLs each", d.made, hosts, each)
			}
			if d.top > connections || d.open != 0 {
				t.Errorf("%d connections at a time and %d at the end, want at most %d and none", d.top, d.open, connections)
			}
		})
	}
}

// TestTLSInsecure: a certificate that nobody vouches for is an outcome, or with
// the option a remark.
func TestTLSInsecure(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "secret") }, true)
	for insecure, want := range map[bool]string{false: record.OutcomeTLS, true: record.OutcomeFetched} {
		web := loopback(t)
		web.InsecureTLS = insecure
		opt := options(newStore(t), web)
		opt.Protocols = map[string]fetch.Protocol{"https": web}
		opt.Robots = nil
		rows := run(t, opt, "r1", []record.URL{s.at("h.test", "/")})
		if rows[0].Outcome != want || !strings.Contains(rows[0].Error, "certificate") {
			t.Errorf("insecure %v: outcome %s (%s), want %s and what was wrong", insecure, rows[0].Outcome, rows[0].Error, want)
		}
	}
}
