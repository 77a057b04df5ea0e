package http1

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
	"mercator/pkg/fetch"
)

// newTwo serves handler over HTTP/2 alone, unless protocols are given, and returns its URL and a client that trusts it.
func newTwo(t *testing.T, handler http.HandlerFunc, protocols ...string) (string, *Client) {
	s := httptest.NewUnstartedServer(handler)
	if len(protocols) == 0 {
		protocols = []string{"h2"}
	}
	s.EnableHTTP2 = true
	// crypto/tls lets a client that offers http/1.1 alone go on without a protocol, where h2 is served.
	s.TLS = &tls.Config{NextProtos: protocols, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Equal(hello.SupportedProtos, []string{"http/1.1"}) && !slices.Contains(protocols, "http/1.1") {
			other := s.TLS.Clone()
			other.NextProtos, other.GetConfigForClient = []string{"other"}, nil
			return other, nil
		}
		return nil, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	client := testClient(t)
	client.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	client.TLS.RootCAs.AddCert(s.Certificate())
	return s.URL, client
}

// TestHTTP2: a server that refuses HTTP/1.1 is asked over HTTP/2 in the same contact. What comes is a reply as HTTP/1.1 has it.
func TestHTTP2(t *testing.T) {
	old := func(w http.ResponseWriter, r *http.Request, status int) bool {
		if r.ProtoMajor == 1 {
			http.Error(w, "not so", status)
		}
		return r.ProtoMajor == 1
	}
	both := []string{"h2", "http/1.1"}
	for _, test := range []struct {
		name      string
		protocols []string
		serve     http.HandlerFunc
		want      string // the reply, CRLF as "|"
		truncated string
		status    int // where only that is wanted
		requests  int // that two contacts make
		method    string
	}{
		{name: "alert", requests: 2, want: "HTTP/1.1 200 OK|Content-Length: 5|Content-Type: text/plain|X-Path: /a%2Fb;c?d=%20e||hello",
			serve: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				w.Header().Set("X-Path", r.RequestURI)
				io.WriteString(w, "hello")
			}},
		{name: "505", protocols: both, status: 200, requests: 3, serve: func(w http.ResponseWriter, r *http.Request) { old(w, r, 505) }},
		{name: "421", protocols: both, status: 200, requests: 3, serve: func(w http.ResponseWriter, r *http.Request) { old(w, r, 421) }},
		{name: "505 over both", protocols: both, status: 505, requests: 3, serve: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(505) }},
		{name: "505 over HTTP/1.1 alone", protocols: both[1:], status: 505, requests: 3, serve: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(505) }},
		{name: "other statuses", protocols: both, status: 426, requests: 2, serve: func(w http.ResponseWriter, r *http.Request) { old(w, r, 426) }},
		{name: "no body", method: http.MethodHead, status: 200, requests: 2, serve: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "70") }},
		{name: "304", status: 304, requests: 2, serve: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(304) }},
		{name: "a body that is cut", status: 200, truncated: "disconnect", requests: 2, serve: func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, strings.Repeat("x", 10000))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
		{name: "a body above the limit", status: 200, truncated: "length", requests: 2, serve: func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, strings.Repeat("x", 1<<20))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var requests atomic.Int32
			url, client := newTwo(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				w.Header()["Date"] = nil
				w.Header().Set("Keep-Alive", "timeout=5")
				test.serve(w, r)
			}, test.protocols...)
			// The URL has no port, as on the web.
			client.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr != "127.0.0.1:443" {
					t.Errorf("connects to %s", addr)
				}
				return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(url, "https://"))
			}
			var conn Conn
			defer conn.Close()
			for range 2 {
				x := client.do(t.Context(), &fetch.Request{URL: "https://127.0.0.1/a%2Fb;c?d=%20e", Addr: loopback, Method: test.method}, &conn)
				if x.Outcome != record.OutcomeFetched {
					t.Fatal(x.Outcome, x.Error)
				}
				if test.status == 0 {
					all, err := io.ReadAll(x.Response)
					if got := strings.ReplaceAll(string(all), "\r\n", "|"); err != nil || got != test.want {
						t.Errorf("got %s, %v\nwant %s", got, err, test.want)
					}
				} else if x.head.Status != test.status || x.Truncated != test.truncated {
					t.Errorf("status %d, truncated %q; want %d, %q", x.head.Status, x.Truncated, test.status, test.truncated)
				}
				if want := len(test.protocols) == 0 || test.status == 200 || test.name == "505 over both"; (x.Protocol == "h2") != want {
					t.Errorf("protocol %q", x.Protocol)
				}
				if sent := string(x.Sent); !strings.HasPrefix(sent, "GET /a%2Fb;c?d=%20e HTTP/1.1\r\nHost: 127.0.0.1\r\n") && test.method == "" {
					t.Errorf("sent %q", sent)
				}
				x.Close()
			}
			if n := requests.Load(); n != int32(test.requests) {
				t.Errorf("%d requests, want %d", n, test.requests)
			}
		})
	}
}

// TestHTTP2Frames: a server that agrees to no protocol, and then speaks HTTP/2 or closes, as nghttpd does, is asked over HTTP/2; one
// that speaks it without TLS is not.
func TestHTTP2Frames(t *testing.T) {
	settings := func(c net.Conn) {
		request(c)
		c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})
	}
	for name, first := range map[string]func(net.Conn){"frames": settings, "closes": func(c net.Conn) { request(c) }} {
		t.Run(name, func(t *testing.T) {
			two, client := newTwo(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
			plain := httptest.NewTLSServer(nil) // all servers of httptest have one certificate
			defer plain.Close()
			var conns atomic.Int32
			url := serve(t, func(c net.Conn) {
				if conns.Add(1) == 1 {
					secure := tls.Server(c, &tls.Config{Certificates: plain.TLS.Certificates})
					first(secure)
					secure.Close()
				} else if far, err := net.Dial("tcp", strings.TrimPrefix(two, "https://")); err == nil {
					splice(c, far)
				}
			})
			for i := range 2 {
				x := client.once(t.Context(), &fetch.Request{URL: strings.Replace(url, "http:", "https:", 1), Addr: loopback})
				if x.Outcome != record.OutcomeFetched {
					t.Fatal(x.Outcome, x.Error)
				}
				if body, err := io.ReadAll(x.body()); err != nil || string(body) != "HTTP/2.0" || conns.Load() != int32(i+2) {
					t.Errorf("%q, %v, %d connections", body, err, conns.Load())
				}
				x.Close()
			}
		})
	}
	x := testClient(t).once(t.Context(), &fetch.Request{URL: serve(t, settings), Addr: loopback})
	if x.Outcome != record.OutcomeProtocol || !strings.Contains(x.Error, errTwo.Error()) {
		t.Errorf("without TLS: %s %s", x.Outcome, x.Error)
	}
	x.Close()
}

// TestHTTP2Fails: a stream that fails is its page's own failure, and others go on over HTTP/2. Where connections fail, a reply over
// HTTP/1.1 that asks for HTTP/2 is kept and says why; such a host is not asked for ever.
func TestHTTP2Fails(t *testing.T) {
	abort := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	longHead := func(w http.ResponseWriter) {
		for i := range 2000 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
		}
	}
	for _, status := range []int{505, 421} {
		for _, test := range []struct {
			name, paths string // of contacts
			fail        func(http.ResponseWriter)
			want        string // outcomes, and connections that failed
			reason      string
		}{
			{"stream", "/bad /good /bad", abort, "disconnected fetched 200 h2 disconnected", "stream error: "},
			{"stream later", "/good /bad /good", abort, "fetched 200 h2 disconnected fetched 200 h2", "stream error: "},
			{"connection", "/bad /bad /good /bad", longHead, "fetched STATUS fetched STATUS fetched 200 h2 protocol-error", "connection error: "},
			{"connections", "/bad /bad /bad /good", longHead, "fetched STATUS fetched STATUS fetched STATUS fetched STATUS", "connection error: "},
		} {
			t.Run(fmt.Sprint(test.name, " ", status), func(t *testing.T) {
				url, client := newTwo(t, func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.ProtoMajor == 1:
						w.Header().Set("X-First", "yes")
						http.Error(w, "not so", status)
					case r.URL.Path == "/bad":
						test.fail(w)
					}
				}, "h2", "http/1.1")
				var got []string
				for path := range strings.FieldsSeq(test.paths) {
					x := client.once(t.Context(), &fetch.Request{URL: url + path, Addr: loopback})
					got = append(got, x.Outcome)
					if x.Outcome == record.OutcomeFetched {
						got = append(got, strings.Fields(fmt.Sprint(x.head.Status, " ", x.Protocol))...)
					}
					if failed := x.Outcome != record.OutcomeFetched || x.head.Status == status; strings.Contains(x.Error, test.reason) != failed || x.Unreached {
						t.Errorf("%s: %q, unreached: %v", path, x.Error, x.Unreached)
					}
					if x.Outcome == record.OutcomeFetched && x.head.Status == status {
						if body, err := io.ReadAll(x.body()); err != nil || string(body) != "not so\n" || x.head.Get("X-First") != "yes" {
							t.Errorf("%q, %v, %v", body, err, x.head.Fields)
						}
					}
					x.Close()
				}
				if got, want := strings.Join(got, " "), strings.ReplaceAll(test.want, "STATUS", fmt.Sprint(status)); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		}
	}
}

// TestHTTP2TimeIsUp: time that is up over HTTP/2 is the request's own failure only with a host that speaks it. Others keep their reply over HTTP/1.1.
func TestHTTP2TimeIsUp(t *testing.T) {
	f := &fetch.Failure{Outcome: record.OutcomeTimeout, Err: context.DeadlineExceeded}
	if isOwn(f, false) || !isOwn(f, true) {
		t.Error("own with a host that is not known to speak HTTP/2, or not with one that does")
	}
}

// TestHTTP2Hostile: what a server does over HTTP/2 ends within the limits of a contact.
func TestHTTP2Hostile(t *testing.T) {
	for _, test := range []struct {
		name, outcome string
		serve         http.HandlerFunc
	}{
		{"long head", record.OutcomeProtocol, func(w http.ResponseWriter, r *http.Request) {
			for i := range 2000 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
			}
		}},
		{"no reply", record.OutcomeTimeout, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"an end without a reply", record.OutcomeDisconnect, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked atomic.Bool
			url, client := newTwo(t, func(w http.ResponseWriter, r *http.Request) {
				asked.Store(r.ProtoMajor == 2)
				test.serve(w, r)
			})
			if test.outcome == record.OutcomeTimeout {
				client.Timeout = 50 * time.Millisecond
			}
			for !asked.Load() { // it timed out on the way: the machine is busy
				client.Timeout *= 2
				x := client.once(t.Context(), &fetch.Request{URL: url, Addr: loopback})
				if x.Outcome != test.outcome {
					t.Fatalf("%s %s", x.Outcome, x.Error)
				}
				x.Close()
			}
		})
	}
}

// TestTwoHosts: as many hosts are remembered as there is room for, and what one has answered is not forgotten for failures.
func TestTwoHosts(t *testing.T) {
	var hosts twoHosts
	for i := range 3 * twoMax {
		hosts.answered(fmt.Sprint(i))
		hosts.dismiss(fmt.Sprint(i))
		if h := hosts.of(fmt.Sprint(i)); !h.speaks || h.failed > 0 || len(hosts.hosts) > twoMax {
			t.Fatal(i, h, len(hosts.hosts))
		}
	}
}

// TestShare: clients of a batch know the same hosts that want HTTP/2.
func TestShare(t *testing.T) {
	var all, one, other Client
	one.Share(&all)
	other.Share(&all)
	if one.two().answered("a.test"); !other.two().of("a.test").speaks || !all.two().of("a.test").speaks {
		t.Error("a host that one client knows, another does not")
	}
}

// TestNghttpd: a server of HTTP/2 alone that nobody here wrote.
func TestNghttpd(t *testing.T) {
	nghttpd, err := exec.LookPath("nghttpd")
	if err != nil {
		needs.Skip(t, err)
	}
	dir := t.TempDir()
	leaf := newAuthority(t).issue(func(*x509.Certificate) {})
	key, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	must.OK(t, err)
	page := strings.Repeat("a page\n", 20_000)
	for name, text := range map[string]string{
		"cert.pem":   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]})),
		"key.pem":    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"index.html": page,
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	client := testClient(t)
	client.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	client.TLS.RootCAs.AddCert(leaf.Leaf)
	port := serveProgram(t, dir, nghttpd, "-a 127.0.0.1 -d . PORT key.pem cert.pem")
	for path, status := range map[string]int{"index.html": 200, "no.html": 404, "100%?a%zz": 404} {
		t.Run(path, func(t *testing.T) {
			x := client.once(t.Context(), &fetch.Request{URL: "https://example.com:" + port + "/" + path, Addr: loopback})
			if x.Outcome != record.OutcomeFetched || x.head.Status != status || x.Protocol != "h2" || x.Truncated != "" || status == 200 && body(x) != page {
				t.Errorf("%s: %s %d %s %s", path, x.Outcome, x.head.Status, x.Error, x.Truncated)
			}
			x.Close()
		})
	}
}
