package http1

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/web/httpmsg"
)

var (
	loopback = netip.MustParseAddr("127.0.0.1")
	allow    = addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
)

// testClient has more time than a good reply needs on any machine.
func testClient(t *testing.T) *Client {
	return &Client{UserAgent: "test", Limits: fetch.Limits{Timeout: time.Minute, BodyMax: 256 << 10, TempDir: t.TempDir(), Guard: allow}}
}

// once makes a contact on a connection of its own.
func (c *Client) once(ctx context.Context, req *fetch.Request) *exchange {
	var conn Conn
	defer conn.Close()
	return c.do(ctx, req, &conn)
}

// payload returns the body without its transfer coding.
func (x *exchange) payload() io.Reader {
	if x.NoBody {
		return bytes.NewReader(nil)
	}
	return httpmsg.NewPayload(&x.head, io.NewSectionReader(x.stream, int64(x.head.Size), x.stream.Len()-int64(x.head.Size)))
}

// body returns the payload without its codings.
func (x *exchange) body() *httpmsg.Body { return httpmsg.NewBody(&x.head, x.payload(), 0) }

// serve answers every connection with handle and returns the server's URL.
func serve(t testing.TB, handle func(c net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

// request reads up to the end of a request.
func request(c net.Conn) {
	var b []byte
	var p [512]byte
	for !bytes.Contains(b, []byte("\r\n\r\n")) {
		n, err := c.Read(p[:])
		if err != nil {
			return
		}
		b = append(b, p[:n]...)
	}
}

// say sends parts, each after the request and a short pause.
func say(parts ...string) func(net.Conn) {
	return func(c net.Conn) {
		request(c)
		for i, p := range parts {
			if i > 0 {
				time.Sleep(time.Millisecond)
			}
			io.WriteString(c, p)
		}
	}
}

// hold is say and then silence.
func hold(parts ...string) func(net.Conn) {
	return func(c net.Conn) {
		say(parts...)(c)
		io.Copy(io.Discard, c)
	}
}

// forever repeats part until the client goes.
func forever(first, part string) func(net.Conn) {
	return func(c net.Conn) {
		say(first)(c)
		for again := []byte(part); ; {
			if _, err := c.Write(again); err != nil {
				return
			}
		}
	}
}

// A reply that is closed at any byte has an outcome and keeps what came.
func TestClosedAtEveryByte(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	const whole = head + "5\r\nhello\r\n0\r\n\r\n"
	var cut atomic.Int64
	url := serve(t, func(c net.Conn) { say(whole[:cut.Load()])(c) })
	client := testClient(t)
	for n := range len(whole) + 1 {
		cut.Store(int64(n))
		x := client.once(context.Background(), &fetch.Request{URL: url, Addr: loopback})
		want, truncated := record.OutcomeFetched, "disconnect"
		switch {
		case n < len(head):
			want, truncated = record.OutcomeDisconnect, ""
		case n == len(whole):
			truncated = ""
		}
		if x.Outcome != want || x.Truncated != truncated {
			t.Errorf("closed at %d: %q, %q (%s), want %q, %q", n, x.Outcome, x.Truncated, x.Error, want, truncated)
		}
		x.Close()
	}
}

// Many endless replies at once stay within a fixed amount of memory each.
func TestMemoryIsBounded(t *testing.T) {
	url := serve(t, forever("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 64<<10)))
	client := testClient(t)
	client.BodyMax = 4 << 20
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const n = 16
	all := make(chan *exchange, n)
	for range n {
		go func() { all <- client.once(context.Background(), &fetch.Request{URL: url, Addr: loopback}) }()
	}
	var kept []*exchange
	for range n {
		kept = append(kept, <-all)
	}
	runtime.GC()
	runtime.GC() // what lies in a sync.Pool lives through one
	runtime.ReadMemStats(&after)
	for _, x := range kept {
		if x.Truncated != "length" || x.Length < 4<<20 {
			t.Errorf("%q %q %s", x.Outcome, x.Truncated, x.Error)
		}
		x.Close()
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > n*256<<10 {
		t.Errorf("heap grew by %d bytes for %d replies of 4 MiB", grown, n)
	}
	if left, _ := os.ReadDir(client.TempDir); len(left) != 0 {
		t.Errorf("%d files left", len(left))
	}
}

func TestReset(t *testing.T) {
	url := serve(t, func(c net.Conn) {
		request(c)
		c.(*net.TCPConn).SetLinger(0)
	})
	x := testClient(t).once(context.Background(), &fetch.Request{URL: url, Addr: loopback})
	if x.Outcome != record.OutcomeDisconnect || !strings.Contains(x.Error, "reset") {
		t.Errorf("%q (%s)", x.Outcome, x.Error)
	}
}

func TestNoRoomForTheBody(t *testing.T) {
	url := serve(t, forever("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 64<<10)))
	client := testClient(t)
	client.BodyMax = 4 << 20 // more than is kept in memory
	client.TempDir += "/missing"
	x := client.once(context.Background(), &fetch.Request{URL: url, Addr: loopback})
	if x.Outcome != record.OutcomeDeferred || !errors.Is(x.Err, os.ErrNotExist) {
		t.Errorf("%q, %v", x.Outcome, x.Err)
	}
}

func TestRequestBytes(t *testing.T) {
	got := make(chan string, 1)
	url := serve(t, func(c net.Conn) {
		b := make([]byte, 4096)
		n, _ := c.Read(b)
		got <- string(b[:n])
		io.WriteString(c, "HTTP/1.1 304 Not Modified\r\n\r\n")
	})
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	x := testClient(t).once(context.Background(), &fetch.Request{URL: "http://user:pw@" + host + "?a b\r\nX: y#f", Addr: loopback, ETag: "\"e\r\nEvil: 1\"", LastModified: "then"})
	defer x.Close()
	want := "GET /?a%20b%0D%0AX:%20y HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: test\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n" +
		"If-None-Match: \"eEvil: 1\"\r\nIf-Modified-Since: then\r\n\r\n"
	if sent := <-got; sent != want || string(x.Sent) != want {
		t.Errorf("sent %q\nkept %q\nwant %q", sent, x.Sent, want)
	}
}

func TestRefusedBeforeContact(t *testing.T) {
	client := testClient(t)
	client.Dial = func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, errors.New("no")
	}
	for _, c := range []struct{ url, addr, outcome string }{
		{"http://h/", "10.0.0.1", record.OutcomeAddress},
		{"http://h/", "::ffff:169.254.169.254", record.OutcomeAddress},
		{"http://h:25/", "1.1.1.1", record.OutcomePort},
		{"ftp://h/", "1.1.1.1", record.OutcomeScheme},
		{"http:///", "1.1.1.1", record.OutcomeScheme},
		{"http://h:99999/", "1.1.1.1", record.OutcomeScheme},
		{"http://h\r\nx/", "1.1.1.1", record.OutcomeScheme},
	} {
		t.Run(c.url+" "+c.addr, func(t *testing.T) {
			x := client.once(context.Background(), &fetch.Request{URL: c.url, Addr: netip.MustParseAddr(c.addr)})
			if x.Outcome != c.outcome || x.Sent != nil {
				t.Errorf("%s at %s: %q (%s), want %q", c.url, c.addr, x.Outcome, x.Error, c.outcome)
			}
		})
	}
	if x := client.once(context.Background(), &fetch.Request{URL: "http://h/"}); x.Outcome != record.OutcomeAddress {
		t.Errorf("without address: %q", x.Outcome)
	}
}

func TestConnectFails(t *testing.T) {
	// Nobody listens at, nor can take, the port of a connection that stands.
	server := strings.TrimSuffix(strings.TrimPrefix(serve(t, hold()), "http://"), "/")
	taken, err := net.Dial("tcp", server)
	must.OK(t, err)
	defer taken.Close()
	url := "http://" + taken.LocalAddr().String() + "/"
	client := testClient(t)
	if x := client.once(context.Background(), &fetch.Request{URL: url, Addr: loopback}); x.Outcome != record.OutcomeConnect {
		t.Errorf("refused: %q (%s)", x.Outcome, x.Error)
	}
	client.ConnectTimeout = 20 * time.Millisecond
	client.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	if x := client.once(context.Background(), &fetch.Request{URL: url, Addr: loopback}); x.Outcome != record.OutcomeConnect {
		t.Errorf("no answer: %q (%s)", x.Outcome, x.Error)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	url := serve(t, func(c net.Conn) {
		say("HTTP/1.1 200 OK\r\n")(c)
		cancel()
		io.Copy(io.Discard, c)
	})
	client := testClient(t)
	client.Timeout = 24 * time.Hour // the server says nothing more: the test ends because it is cancelled
	if x := client.once(ctx, &fetch.Request{URL: url, Addr: loopback}); x.Response != nil {
		t.Errorf("outcome %q with a response, want none", x.Outcome)
	}
}

// closing is a connection that calls a function when it is closed.
type closing struct {
	net.Conn
	then func()
}

func (c *closing) Close() error { c.then(); return c.Conn.Close() }

// A contact may be cancelled while its connection is being closed.
func TestCancelAtTheEnd(t *testing.T) {
	url := serve(t, say("HTTP/1.1 200 OK\r\n\r\nhello"))
	for range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		client := testClient(t)
		client.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &closing{c, cancel}, err
		}
		client.once(ctx, &fetch.Request{URL: url, Addr: loopback}).Close()
		cancel()
	}
}

func TestReuse(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/close":
			w.Header().Set("Connection", "close")
		case "/chunked":
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, r.URL.Path)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client := testClient(t)
	var conn Conn
	defer conn.Close()
	get := func(path string, reused bool, total int64) {
		t.Helper()
		x := client.do(context.Background(), &fetch.Request{URL: server.URL + path, Addr: loopback}, &conn)
		defer x.Close()
		b, _ := io.ReadAll(x.body())
		if x.Outcome != record.OutcomeFetched || string(b) != path || x.reused != reused || connections.Load() != total {
			t.Errorf("%s: %q %q (%s), reused %v, %d connections, want %v, %d", path, x.Outcome, b, x.Error, x.reused, connections.Load(), reused, total)
		}
	}
	get("/a", false, 1)
	get("/chunked", true, 1)
	get("/b", true, 1)
	get("/close", true, 1)
	get("/c", false, 2)
	server.CloseClientConnections()
	awaitStale(t, &conn)
	get("/d", false, 3)
	server.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // another authority
	get("/e", false, 4)
}

// awaitStale waits until the connection holds what the server did to it.
func awaitStale(t *testing.T, c *Conn) {
	t.Helper()
	for start := time.Now(); c.Open() && !c.stale(); time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("the connection is still good after a minute")
		}
	}
}

// A connection that is closed while the request is under way is replaced once,
// and bytes that came unasked are never taken for a reply.
func TestReuseRaces(t *testing.T) {
	var n atomic.Int64
	const reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	closing := serve(t, func(c net.Conn) {
		n.Add(1)
		say(reply)(c)
		if n.Load() == 1 {
			request(c) // takes the second request and closes
		}
	})
	poisoned := serve(t, func(c net.Conn) {
		for range 2 {
			request(c)
			io.WriteString(c, reply)
			time.Sleep(10 * time.Millisecond)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		}
	})
	for _, url := range []string{closing, poisoned} {
		client := testClient(t)
		var conn Conn
		for i := range 2 {
			x := client.do(context.Background(), &fetch.Request{URL: url, Addr: loopback}, &conn)
			if x.Outcome != record.OutcomeFetched {
				t.Fatalf("request %d: %q %s", i, x.Outcome, x.Error)
			}
			if b, _ := io.ReadAll(x.body()); string(b) != "ok" || x.reused {
				t.Errorf("request %d: %q, reused %v", i, b, x.reused)
			}
			x.Close()
			if url == poisoned {
				awaitStale(t, &conn)
			}
		}
		conn.Close()
	}
}

// TestSurplusOverTLS: what came behind a reply is never taken for the next, be it in a
// record that was read with the reply's, or in one that came later.
func TestSurplusOverTLS(t *testing.T) {
	const reply, evil = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	unused := httptest.NewTLSServer(nil)
	defer unused.Close()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for name, c := range map[string]struct {
			pause  time.Duration
			behind string
			reused bool
		}{
			"nothing":        {0, "", true},
			"in one segment": {0, evil, false},
			"later":          {10 * time.Millisecond, evil, false},
		} {
			t.Run(fmt.Sprintf("%s, version %x", name, version), func(t *testing.T) {
				sent := make(chan struct{}, 2)
				url := serve(t, func(plain net.Conn) {
					held := &holding{Conn: plain}
					conn := tls.Server(held, &tls.Config{Certificates: unused.TLS.Certificates, MaxVersion: version})
					for range 2 {
						request(conn)
						held.hold = c.pause == 0
						io.WriteString(conn, reply)
						time.Sleep(c.pause)
						if c.behind != "" {
							io.WriteString(conn, c.behind)
						}
						held.flush()
						sent <- struct{}{}
					}
				})
				client := testClient(t)
				client.InsecureTLS = true
				var conn Conn
				defer conn.Close()
				for i := range 2 {
					x := client.do(context.Background(), &fetch.Request{URL: strings.Replace(url, "http:", "https:", 1), Addr: loopback}, &conn)
					if x.Outcome != record.OutcomeFetched {
						t.Fatalf("request %d: %q %s", i, x.Outcome, x.Error)
					}
					if b, _ := io.ReadAll(x.body()); string(b) != "ok" || x.reused != (c.reused && i > 0) {
						t.Errorf("request %d: %q, reused %v", i, b, x.reused)
					}
					x.Close()
					<-sent
					if !c.reused {
						awaitStale(t, &conn)
					}
				}
			})
		}
	}
}

// holding writes in one go what was written while hold was set.
type holding struct {
	net.Conn
	hold bool
	b    []byte
}

func (h *holding) Write(p []byte) (int, error) {
	if !h.hold {
		return h.Conn.Write(p)
	}
	h.b = append(h.b, p...)
	return len(p), nil
}

func (h *holding) flush() {
	h.Conn.Write(h.b)
	h.b, h.hold = nil, false
}

// TestAmbiguousReplies: a connection is not used again after a reply if its end other
// readers, such as a proxy between, may see elsewhere.
func TestAmbiguousReplies(t *testing.T) {
	for head, reused := range map[string]bool{
		"Content-Length: 2\r\n\r\nok":                                                 true,
		"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":                      true,
		"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n": false,
		"Transfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":             false,
		"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok":                  false,
		"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok":                            false,
		"Content-Length: 2, 2\r\n\r\nok":                                              false,
		"Content-Length : 2\r\n\r\nok":                                                false,
		"Content-Length:\r\n 2\r\n\r\nok":                                             false,
		"X: a\rContent-Length: 9\r\nContent-Length: 2\r\n\r\nok":                      false,
	} {
		t.Run(fmt.Sprintf("%.60s", head), func(t *testing.T) {
			url := serve(t, func(c net.Conn) {
				for range 2 {
					request(c)
					io.WriteString(c, "HTTP/1.1 200 OK\r\n"+head)
				}
			})
			client := testClient(t)
			var conn Conn
			x := client.do(context.Background(), &fetch.Request{URL: url, Addr: loopback}, &conn)
			if b, _ := io.ReadAll(x.body()); string(b) != "ok" || conn.Open() != reused {
				t.Errorf("%q: %q (%s), kept %v, want %v", head, b, x.Error, conn.Open(), reused)
			}
			x.Close()
			conn.Close()
		})
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %x", r.TLS.ServerName, r.TLS.Version)
	}))
	server.Config.ErrorLog = discardLog
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]

	client := testClient(t)
	do := func(url string) *exchange {
		return client.once(context.Background(), &fetch.Request{URL: url, Addr: loopback})
	}
	if x := do("https://example.com" + port + "/"); x.Outcome != record.OutcomeTLS || !strings.Contains(x.Error, "certificate") {
		t.Errorf("unknown root: %q %s", x.Outcome, x.Error)
	}
	client.TLS = &tls.Config{RootCAs: roots}
	x := do("https://example.com" + port + "/")
	if b, _ := io.ReadAll(x.body()); x.Outcome != record.OutcomeFetched || string(b) != "example.com 304" {
		t.Errorf("%q %q %s", x.Outcome, b, x.Error)
	}
	x.Close()
	if x := do("https://other.test" + port + "/"); x.Outcome != record.OutcomeTLS {
		t.Errorf("wrong name: %q %s", x.Outcome, x.Error)
	}
	client.InsecureTLS = true
	x = do("https://other.test" + port + "/")
	if x.Outcome != record.OutcomeFetched || x.Error == "" {
		t.Errorf("insecure: %q %s", x.Outcome, x.Error)
	}
	x.Close()
	x = do("https://example.com" + port + "/")
	if x.Outcome != record.OutcomeFetched || x.Error != "" {
		t.Errorf("insecure with a good certificate: %q %s", x.Outcome, x.Error)
	}
	x.Close()
	for host, want := range map[string]string{"other.test": record.OutcomeTLS, "example.com": record.OutcomeFetched, "more.test": record.OutcomeFetched} {
		client.Logins = &Logins{origins: map[string]login{"https://other.test" + port: {user: "anna"}, "https://example.com" + port: {user: "anna"}}}
		x = do("https://" + host + port + "/")
		if x.Outcome != want {
			t.Errorf("insecure, with a login: %s: %q, want %q: %s", host, x.Outcome, want, x.Error)
		}
		x.Close()
	}

}

// TestOldTLS: a server that knows old cipher suites or versions alone is asked once more, and
// the exchange says so. Its certificate is verified as ever.
func TestOldTLS(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"example.com"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must.OK(t, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	for _, c := range []struct {
		name   string
		tls    *tls.Config // nil: the defaults
		host   string      // "": example.com
		login  bool
		fault  string // "": none, or the contact fails
		failed string
		dials  int
	}{
		{name: "new", dials: 1},
		{name: "RSA key exchange", tls: &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}},
			fault: "old TLS: TLS 1.2 with TLS_RSA_WITH_AES_128_GCM_SHA256, after ", dials: 2},
		{name: "3DES", tls: &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA}},
			fault: "TLS_RSA_WITH_3DES_EDE_CBC_SHA", dials: 2},
		{name: "TLS 1.1", tls: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, fault: "old TLS: TLS 1.1 with ", dials: 2},
		{name: "TLS 1.0", tls: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, fault: "old TLS: TLS 1.0 with ", dials: 2},
		{name: "another name", tls: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, host: "other.test", failed: "certificate", dials: 2},
		{name: "a new server of another name", host: "other.test", failed: "certificate", dials: 1},
		{name: "a client certificate is wanted", tls: &tls.Config{MaxVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert}, failed: "remote error", dials: 2},
		{name: "a password would be sent", tls: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, login: true, failed: "version", dials: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := c.tls
			if config == nil {
				config = &tls.Config{}
			}
			config.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
			url := serve(t, func(plain net.Conn) {
				conn := tls.Server(plain, config)
				if conn.Handshake() == nil {
					request(conn)
					io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			origin := "https://" + cmp.Or(c.host, "example.com") + url[strings.LastIndexByte(strings.TrimSuffix(url, "/"), ':'):]
			client := testClient(t)
			client.TLS = &tls.Config{RootCAs: roots}
			dials := 0
			var first *told
			client.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dials++; first != nil && !first.closed.Load() {
					t.Error("two connections at a time")
				}
				conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				first = &told{Conn: conn}
				return first, err
			}
			if c.login {
				client.Logins = &Logins{origins: map[string]login{strings.TrimSuffix(origin, "/"): {user: "anna"}}}
			}
			x := client.once(context.Background(), &fetch.Request{URL: origin, Addr: loopback})
			outcome := record.OutcomeFetched
			if c.failed != "" {
				outcome = record.OutcomeTLS
			}
			if x.Outcome != outcome || !strings.Contains(x.Error, c.failed) || !strings.Contains(x.Error, c.fault) || c.fault+c.failed == "" && x.Error != "" {
				t.Errorf("%s (%s)", x.Outcome, x.Error)
			}
			if dials != c.dials {
				t.Errorf("%d connections, want %d", dials, c.dials)
			}
			x.Close()
		})
	}
}

// told is a connection that tells whether it was closed.
type told struct {
	net.Conn
	closed atomic.Bool
}

func (c *told) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// TestEntityTags: a tag that Apache made for a compressed page is asked for without that, too.
func TestEntityTags(t *testing.T) {
	for tag, want := range map[string]string{
		`"a-gzip"`: `"a-gzip", "a"`, `W/"a-br"`: `W/"a-br", W/"a"`, `"a-zstd"`: `"a-zstd", "a"`,
		`"a"`: `"a"`, `a-gzip`: `a-gzip`, `"-gzip-x"`: `"-gzip-x"`, ``: ``,
	} {
		t.Run(tag, func(t *testing.T) {
			if got := entityTags(tag); got != want {
				t.Errorf("%s: %s, want %s", tag, got, want)
			}
		})
	}
}
