package http1

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/httpmsg"
)

var (
	loopback = netip.MustParseAddr("127.0.0.1")
	allow    = addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
)

// testClient has more time than a good reply needs on any machine.
func testClient(t *testing.T) *Client {
	return &Client{UserAgent: "test", Timeout: time.Minute, BodyMax: 256 << 10, TempDir: t.TempDir(), Guard: allow}
}

// serve answers every connection with handle and returns the server's URL.
func serve(t testing.TB, handle func(c net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
func forever(first, part string, pause time.Duration) func(net.Conn) {
	return func(c net.Conn) {
		say(first)(c)
		for {
			if _, err := io.WriteString(c, part); err != nil {
				return
			}
			time.Sleep(pause)
		}
	}
}

func reset(first string) func(net.Conn) {
	return func(c net.Conn) {
		say(first)(c)
		time.Sleep(20 * time.Millisecond) // let the client take what was sent
		c.(*net.TCPConn).SetLinger(0)
	}
}

func bomb(size int) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(make([]byte, size))
	z.Close()
	return b.String()
}

// Each reply gets its outcome, what is kept of its body, and why not more.
func TestReplies(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	big := strings.Repeat("x", 300<<10)
	for _, c := range []struct {
		name      string
		serve     func(net.Conn)
		outcome   string
		truncated string
		body      string // "…" stands for anything
	}{
		{"length", hold(ok + "Content-Length: 5\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"length in parts", hold(ok+"Content-", "Length: 5\r\n", "\r\nhe", "llo"), record.OutcomeFetched, "", "hello"},
		{"length zero", hold(ok + "Content-Length: 0\r\n\r\n"), record.OutcomeFetched, "", ""},
		{"until close", say(ok+"\r\nhel", "lo"), record.OutcomeFetched, "", "hello"},
		{"chunked", hold(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: v\r\n\r\n"), record.OutcomeFetched, "", "hello!"},
		{"chunked with LF", hold(ok + "Transfer-Encoding: chunked\n\n5 \nhello\n0\n\n"), record.OutcomeFetched, "", "hello"},
		{"chunked byte by byte", hold(strings.Split(ok+"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "")...), record.OutcomeFetched, "", "abc"},
		{"chunked wins over length", hold(ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), record.OutcomeFetched, "", "hello"},
		{"chunked by HTTP/1.0 is not", say("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"HTTP/1.0", say("HTTP/1.0 200 OK\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"ICY", say("ICY 200 OK\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"HTTP/0.9", say("<p>hello"), record.OutcomeFetched, "", "<p>hello"},
		{"LF only", hold("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"), record.OutcomeFetched, "", "hello"},
		{"lower case, no reason", hold("http/1.1 200\r\ncontent-length: 5\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"line ends first", hold("\r\n\r\n" + ok + "Content-Length: 5\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"folded", hold(ok + "Content-Length:\r\n 5\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"line without colon", hold(ok + "nonsense\r\nContent-Length: 5\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"length twice the same", hold(ok + "Content-Length: 5\r\nContent-Length: 5, 5\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"lengths that differ", say(ok + "Content-Length: 5\r\nContent-Length: 3\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"length no number", say(ok + "Content-Length: -5\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"interim", hold("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 5\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"204 has no body", hold("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"), record.OutcomeFetched, "", ""},
		{"304 has no body", hold("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), record.OutcomeFetched, "", ""},
		{"surplus is cut", hold(ok + "Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK"), record.OutcomeFetched, "", "hello"},

		{"length too large, closed", say(ok + "Content-Length: 50\r\n\r\nhello"), record.OutcomeFetched, "disconnect", "hello"},
		{"length too large, silent", hold(ok + "Content-Length: 50\r\n\r\nhello"), record.OutcomeFetched, "time", "hello"},
		{"length beyond all bounds", say(ok + "Content-Length: 9223372036854775807\r\n\r\nhello"), record.OutcomeFetched, "disconnect", "hello"},
		{"length 2^64", say(ok + "Content-Length: 18446744073709551616\r\n\r\nhello"), record.OutcomeFetched, "", "hello"},
		{"reset in the body", reset(ok + "Content-Length: 50\r\n\r\nhello"), record.OutcomeFetched, "disconnect", "hello"},
		{"chunk cut", say(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhel"), record.OutcomeFetched, "disconnect", "hel"},
		{"chunk size overflow", hold(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\nFFFFFFFFFFFFFFFFF\r\nhel"), record.OutcomeFetched, "unspecified", "ab"},
		{"chunk size huge", say(ok + "Transfer-Encoding: chunked\r\n\r\n7FFFFFFFFFFFFFFF\r\nhel"), record.OutcomeFetched, "disconnect", "hel"},
		{"chunk longer than it says", hold(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nabcde\r\n0\r\n\r\n"), record.OutcomeFetched, "unspecified", "ab"},
		{"chunk extension without end", forever(ok+"Transfer-Encoding: chunked\r\n\r\n5;", "xxxxxxxx", 0), record.OutcomeFetched, "unspecified", ""},
		{"trailers without end", forever(ok+"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n", "a: b\r\n", 0), record.OutcomeFetched, "unspecified", "ab"},
		{"chunks without end", forever(ok+"Transfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n", 0), record.OutcomeFetched, "length", "…"},
		{"body without end", forever(ok+"\r\n", strings.Repeat("x", 4096), 0), record.OutcomeFetched, "length", "…"},
		{"body longer than the bound", say(ok + "Content-Length: 307200\r\n\r\n" + big), record.OutcomeFetched, "length", big[:256<<10]},
		{"body as long as the bound", say(ok + "\r\n" + big[:256<<10]), record.OutcomeFetched, "", big[:256<<10]},
		{"slow body", forever(ok+"\r\nabc", "", 10*time.Millisecond), record.OutcomeFetched, "time", "abc"},
		{"drip-fed body", forever(ok+"Content-Length: 100000\r\n\r\n", "x", 10*time.Millisecond), record.OutcomeFetched, "time", "…"},

		{"silent", hold(), record.OutcomeTimeout, "", ""},
		{"slow head", forever(ok, "X: y\r\n", 10*time.Millisecond), record.OutcomeTimeout, "", ""},
		{"head stops", hold(ok + "X: y\r\n"), record.OutcomeTimeout, "", ""},
		{"head without end", forever(ok, "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", 0), record.OutcomeProtocol, "", ""},
		{"status line of 64 KiB", forever("HTTP/1.1 200 ", strings.Repeat("x", 1024), 0), record.OutcomeProtocol, "", ""},
		{"too many lines", hold(ok + strings.Repeat("a:b\n", 600) + "\r\n"), record.OutcomeProtocol, "", ""},
		{"interim without end", forever("", "HTTP/1.1 100 Continue\r\n\r\n", 0), record.OutcomeProtocol, "", ""},
		{"switching protocols", hold("HTTP/1.1 101 Switching Protocols\r\n\r\n"), record.OutcomeProtocol, "", ""},
		{"line ends without end", forever("", "\r\n", 0), record.OutcomeProtocol, "", ""},
		{"NUL in the head", hold(ok + "X: \x00\r\n\r\n"), record.OutcomeProtocol, "", ""},
		{"status no number", hold("HTTP/1.1 abc OK\r\n\r\n"), record.OutcomeProtocol, "", ""},
		{"status of four digits", hold("HTTP/1.1 2000 OK\r\n\r\n"), record.OutcomeProtocol, "", ""},
		{"garbage", hold("\x00\x01\x02\x03"), record.OutcomeProtocol, "", ""},
		{"another protocol", hold("SSH-2.0-OpenSSH_9.2\r\n"), record.OutcomeProtocol, "", ""},
		{"TLS alert", hold("\x15\x03\x01\x00\x02\x02\x46"), record.OutcomeProtocol, "", ""},
		{"closed at once", func(net.Conn) {}, record.OutcomeDisconnect, "", ""},
		{"closed after the request", say(), record.OutcomeDisconnect, "", ""},
		{"closed in the head", say(ok + "X: y"), record.OutcomeDisconnect, "", ""},
		{"reset at once", reset(""), record.OutcomeDisconnect, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := testClient(t)
			late := c.outcome == record.OutcomeTimeout || c.truncated == "time"
			if late {
				client.Timeout = 400 * time.Millisecond
			}
			url := serve(t, c.serve)
			x := client.Do(context.Background(), Request{URL: url, Addr: loopback}, nil)
			// Before its time was over the server may not have had the processor.
			for late && x.Outcome == record.OutcomeTimeout && c.outcome == record.OutcomeFetched && client.Timeout < 30*time.Second {
				x.Close()
				client.Timeout *= 4
				x = client.Do(context.Background(), Request{URL: url, Addr: loopback}, nil)
			}
			defer x.Close()
			if x.Outcome != c.outcome || x.Truncated != c.truncated {
				t.Fatalf("outcome %q, truncated %q (%s), want %q, %q", x.Outcome, x.Truncated, x.Error, c.outcome, c.truncated)
			}
			if c.outcome != record.OutcomeFetched {
				if x.Error == "" || x.Response != nil || x.Head.Status != 0 {
					t.Errorf("error %q, response %v, head %+v", x.Error, x.Response, x.Head)
				}
				return
			}
			if n := x.Response.Len(); n > int64(x.Head.Size)+client.BodyMax {
				t.Errorf("kept %d bytes", n)
			}
			b := x.Body(0)
			defer b.Close()
			got, err := io.ReadAll(b)
			if err != nil || c.body != "…" && string(got) != c.body {
				t.Errorf("body %.80q, %v, want %.80q", got, err, c.body)
			}
			// What is archived reads as what was fetched.
			if x.Truncated == "" {
				x.Response.Seek(0, io.SeekStart)
				m, err := httpmsg.Open(x.Response)
				if err != nil {
					t.Fatal(err)
				}
				stored := httpmsg.NewBody(m.Payload, m.Head.Get("Content-Encoding"), 0)
				again, _ := io.ReadAll(stored)
				if !bytes.Equal(again, got) || stored.Truncated() != "" {
					t.Errorf("stored reply gives %.80q (%s)", again, stored.Truncated())
				}
			}
		})
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
		x := client.Do(context.Background(), Request{URL: url, Addr: loopback}, nil)
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

func TestBombIsBounded(t *testing.T) {
	packed := bomb(64 << 20)
	url := serve(t, say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(packed), packed)))
	x := testClient(t).Do(context.Background(), Request{URL: url, Addr: loopback}, nil)
	defer x.Close()
	b := x.Body(1 << 20)
	defer b.Close()
	n, err := io.Copy(io.Discard, b)
	if n != 1<<20 || err != nil || b.Truncated() != httpmsg.TruncatedLength {
		t.Errorf("%d bytes, %v, truncated %q", n, err, b.Truncated())
	}
}

// Many endless replies at once stay within a fixed amount of memory each.
func TestMemoryIsBounded(t *testing.T) {
	url := serve(t, forever("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 64<<10), 0))
	client := testClient(t)
	client.BodyMax = 4 << 20
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const n = 16
	all := make(chan *Exchange, n)
	for range n {
		go func() { all <- client.Do(context.Background(), Request{URL: url, Addr: loopback}, nil) }()
	}
	var kept []*Exchange
	for range n {
		kept = append(kept, <-all)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for _, x := range kept {
		if x.Truncated != "length" || x.Response.Len() < 4<<20 {
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

func TestNoRoomForTheBody(t *testing.T) {
	url := serve(t, forever("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 64<<10), 0))
	client := testClient(t)
	client.TempDir += "/missing"
	x := client.Do(context.Background(), Request{URL: url, Addr: loopback}, nil)
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
	x := testClient(t).Do(context.Background(), Request{URL: "http://user:pw@" + host + "?a b\r\nX: y#f", Addr: loopback, ETag: "\"e\r\nEvil: 1\"", LastModified: "then"}, nil)
	defer x.Close()
	want := "GET /?a%20b%0D%0AX:%20y HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: test\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n" +
		"If-None-Match: \"eEvil: 1\"\r\nIf-Modified-Since: then\r\n\r\n"
	if sent := <-got; sent != want || string(x.Request) != want {
		t.Errorf("sent %q\nkept %q\nwant %q", sent, x.Request, want)
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
		x := client.Do(context.Background(), Request{URL: c.url, Addr: netip.MustParseAddr(c.addr)}, nil)
		if x.Outcome != c.outcome || x.Request != nil {
			t.Errorf("%s at %s: %q (%s), want %q", c.url, c.addr, x.Outcome, x.Error, c.outcome)
		}
	}
	if x := client.Do(context.Background(), Request{URL: "http://h/"}, nil); x.Outcome != record.OutcomeAddress {
		t.Errorf("without address: %q", x.Outcome)
	}
}

func TestConnectFails(t *testing.T) {
	// Nobody listens at, nor can take, the port of a connection that stands.
	server := strings.TrimSuffix(strings.TrimPrefix(serve(t, hold()), "http://"), "/")
	taken, err := net.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	url := "http://" + taken.LocalAddr().String() + "/"
	client := testClient(t)
	if x := client.Do(context.Background(), Request{URL: url, Addr: loopback}, nil); x.Outcome != record.OutcomeConnect {
		t.Errorf("refused: %q (%s)", x.Outcome, x.Error)
	}
	client.ConnectTimeout = 20 * time.Millisecond
	client.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	if x := client.Do(context.Background(), Request{URL: url, Addr: loopback}, nil); x.Outcome != record.OutcomeTimeout {
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
	start := time.Now()
	if x := testClient(t).Do(ctx, Request{URL: url, Addr: loopback}, nil); x.Outcome != record.OutcomeDeferred || time.Since(start) > 30*time.Second {
		t.Errorf("%q after %v", x.Outcome, time.Since(start))
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
		client.Do(ctx, Request{URL: url, Addr: loopback}, nil).Close()
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
		x := client.Do(context.Background(), Request{URL: server.URL + path, Addr: loopback}, &conn)
		defer x.Close()
		b, _ := io.ReadAll(x.Body(0))
		if x.Outcome != record.OutcomeFetched || string(b) != path || x.Reused != reused || connections.Load() != total {
			t.Errorf("%s: %q %q (%s), reused %v, %d connections, want %v, %d", path, x.Outcome, b, x.Error, x.Reused, connections.Load(), reused, total)
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
	for start := time.Now(); c.Open() && !stale(c.conn, false); time.Sleep(time.Millisecond) {
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
			x := client.Do(context.Background(), Request{URL: url, Addr: loopback}, &conn)
			if x.Outcome != record.OutcomeFetched {
				t.Fatalf("request %d: %q %s", i, x.Outcome, x.Error)
			}
			if b, _ := io.ReadAll(x.Body(0)); string(b) != "ok" || x.Reused {
				t.Errorf("request %d: %q, reused %v", i, b, x.Reused)
			}
			x.Close()
			if url == poisoned {
				awaitStale(t, &conn)
			}
		}
		conn.Close()
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
	do := func(url string) *Exchange {
		return client.Do(context.Background(), Request{URL: url, Addr: loopback}, nil)
	}
	if x := do("https://example.com" + port + "/"); x.Outcome != record.OutcomeTLS || !strings.Contains(x.Error, "certificate") {
		t.Errorf("unknown root: %q %s", x.Outcome, x.Error)
	}
	client.TLS = &tls.Config{RootCAs: roots}
	x := do("https://example.com" + port + "/")
	if b, _ := io.ReadAll(x.Body(0)); x.Outcome != record.OutcomeFetched || string(b) != "example.com 304" {
		t.Errorf("%q %q %s", x.Outcome, b, x.Error)
	}
	x.Close()
	if x := do("https://other.test" + port + "/"); x.Outcome != record.OutcomeTLS {
		t.Errorf("wrong name: %q %s", x.Outcome, x.Error)
	}
	client.InsecureTLS = true
	x = do("https://other.test" + port + "/")
	if x.Outcome != record.OutcomeFetched || x.TLSFault == "" {
		t.Errorf("insecure: %q %s, fault %q", x.Outcome, x.Error, x.TLSFault)
	}
	x.Close()
	x = do("https://example.com" + port + "/")
	if x.Outcome != record.OutcomeFetched || x.TLSFault != "" {
		t.Errorf("insecure with a good certificate: %q %s, fault %q", x.Outcome, x.Error, x.TLSFault)
	}
	x.Close()

	server.TLS.MaxVersion = tls.VersionTLS11
	if x := do("https://example.com" + port + "/"); x.Outcome != record.OutcomeTLS {
		t.Errorf("TLS 1.1: %q", x.Outcome)
	}
}

func TestTLSHostile(t *testing.T) {
	for name, c := range map[string]struct {
		serve   func(net.Conn)
		outcome string
	}{
		"garbage": {func(c net.Conn) { c.Read(make([]byte, 512)); io.WriteString(c, strings.Repeat("garbage", 9)) }, record.OutcomeTLS},
		"http":    {func(c net.Conn) { c.Read(make([]byte, 512)); io.WriteString(c, "HTTP/1.1 400 Bad\r\n\r\n") }, record.OutcomeTLS},
		"closed":  {func(net.Conn) {}, record.OutcomeTLS},
		"stall":   {func(c net.Conn) { io.Copy(io.Discard, c) }, record.OutcomeTimeout},
	} {
		url := strings.Replace(serve(t, c.serve), "http:", "https:", 1)
		client := testClient(t)
		if c.outcome == record.OutcomeTimeout {
			client.Timeout = 400 * time.Millisecond
		}
		if x := client.Do(context.Background(), Request{URL: url, Addr: loopback}, nil); x.Outcome != c.outcome {
			t.Errorf("%s: %q (%s), want %q", name, x.Outcome, x.Error, c.outcome)
		}
	}
}

func BenchmarkKeepAlive(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
	}))
	defer server.Close()
	client := &Client{UserAgent: "test", Guard: allow}
	var conn Conn
	defer conn.Close()
	b.ReportAllocs()
	for b.Loop() {
		client.Do(context.Background(), Request{URL: server.URL, Addr: loopback}, &conn).Close()
	}
}
