package resolve

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"crypto/tls"

	"github.com/miekg/dns"
)

// secure starts a server of DNS over HTTPS, whose certificate serves one over TLS, too.
func secure(t *testing.T) (https, overTLS string, roots *x509.CertPool) {
	t.Helper()
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || !slices.Contains([]string{"/dns-query", "/bulky", "/other-id"}, r.URL.Path) || r.Header.Get("Content-Type") != "application/dns-message" {
			http.Error(w, "not a query", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/dns-message")
		if r.URL.Path == "/bulky" {
			w.Write(reply(q, bulky))
			return
		}
		m := reply(q, good)
		if r.URL.Path == "/other-id" {
			m[1] ^= 7
		}
		w.Write(m)
	}))
	web.EnableHTTP2 = true
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // refused certificates are wanted here
	web.StartTLS()
	t.Cleanup(web.Close)
	roots = x509.NewCertPool()
	roots.AddCert(web.Certificate())
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{Listener: l, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		good(m)
		w.WriteMsg(m)
	})}
	var up sync.WaitGroup
	up.Add(1)
	s.NotifyStartedFunc = up.Done
	go s.ActivateAndServe()
	up.Wait()
	t.Cleanup(func() { s.Shutdown() })
	return web.URL, "tls://" + l.Addr().String(), roots
}

func TestTransports(t *testing.T) {
	https, overTLS, roots := secure(t)
	plain := serve(t, func(m *dns.Msg, _ dns.Question, tcp bool) bool {
		if good(m); !tcp {
			m.Rcode = dns.RcodeRefused
		}
		return true
	})
	for _, c := range []struct {
		server string
		roots  *x509.CertPool
		want   string
	}{
		{"tcp://" + plain, nil, "127.0.0.1"},
		{overTLS, roots, "127.0.0.1"},
		{overTLS, x509.NewCertPool(), StatusNetwork},
		{https + "/dns-query", roots, "127.0.0.1"},
		{https + "/dns-query", x509.NewCertPool(), StatusNetwork},
		{https + "/elsewhere", roots, StatusBadReply},
		{https + "/other-id", roots, StatusBadReply},
	} {
		r, err := New(Config{Servers: []string{c.server}, Roots: c.roots, Family: "4", Timeout: patience, Attempts: 2})
		if err != nil {
			t.Fatal(err)
		}
		var names sync.WaitGroup
		for i := range 50 {
			names.Go(func() {
				got := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i))
				if s := FormatAddrs(got.Addrs) + got.Status; s != c.want {
					t.Errorf("%s: %q, want %q", c.server, s, c.want)
				}
			})
		}
		names.Wait()
		if raw := r.Raw(t.Context(), "host.test", dns.TypeA); raw.Protocol != c.server[:strings.Index(c.server, ":")] || raw.Took < raw.RTT {
			t.Errorf("%s: by %s, in %v and %v of these", c.server, raw.Protocol, raw.Took, raw.RTT)
		}
		r.Close()
	}
}

// TestClosedConnectionIsReplaced: a server may close a connection after any answer.
func TestClosedConnectionIsReplaced(t *testing.T) {
	l := serve(t, func(m *dns.Msg, _ dns.Question, _ bool) bool { good(m); return true })
	r, err := New(Config{Servers: []string{"tcp://" + l}, Family: "4", Timeout: patience, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := streamOf(r.servers[0])
	for i := range 5 {
		if got := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i)); got.Status != "" {
			t.Fatalf("%+v", got)
		}
		if len(s.links) != 1 {
			t.Fatalf("%d connections", len(s.links))
		}
		s.links[0].conn.Close()
	}
}

// tcpServer accepts connections, counts them, and has each served.
func tcpServer(t *testing.T, accepted *atomic.Int32, serve func(c net.Conn)) string {
	t.Helper()
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
			accepted.Add(1)
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return "tcp://" + l.Addr().String()
}

func readTCP(c net.Conn) ([]byte, error) { return new(stream).read(c) }

// TestPipelining: many questions share a connection and are answered in any order, also by
// servers that bear few of them on one, or that forget some.
func TestPipelining(t *testing.T) {
	const names = maxPipelined
	for _, c := range []struct {
		name        string
		serve       func(c net.Conn)
		connections int32 // at most
		lost        bool
	}{
		{"answers the last question first", func(c net.Conn) {
			for {
				var replies [][]byte
				for len(replies) < maxPipelined/2 {
					m, err := readTCP(c)
					if err != nil {
						return
					}
					replies = append(replies, reply(m, good))
				}
				for i := range replies {
					sendTCP(c, replies[len(replies)-1-i])
				}
			}
		}, 1, false},
		{"closes after three answers", func(c net.Conn) {
			for range 3 {
				if m, err := readTCP(c); err == nil {
					sendTCP(c, reply(m, good))
				}
			}
		}, names, false},
		{"answers each question twice", func(c net.Conn) {
			for {
				m, err := readTCP(c)
				if err != nil {
					return
				}
				sendTCP(c, reply(m, good))
				sendTCP(c, reply(m, good))
			}
		}, names, false},
		{"forgets one question of each connection", func(c net.Conn) {
			for i := 0; ; i++ {
				m, err := readTCP(c)
				if err != nil {
					return
				}
				if i > 0 {
					sendTCP(c, reply(m, good))
				}
			}
		}, names, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var accepted atomic.Int32
			cfg := Config{Servers: []string{tcpServer(t, &accepted, c.serve)}, Family: "4", Timeout: patience, Attempts: 1}
			if c.lost {
				cfg.Timeout = 50 * time.Millisecond
			}
			r, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var wg sync.WaitGroup
			for i := range names {
				wg.Go(func() {
					if a := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i)); a.Status != "" && !(c.lost && a.Status == StatusTimeout) {
						t.Errorf("%+v", a)
					}
				})
			}
			wg.Wait()
			if n := accepted.Load(); n > c.connections {
				t.Errorf("%d connections for %d questions, want %d at most", n, names, c.connections)
			}
		})
	}
}

// brokenPipe is a connection over which three replies are there to be read once a fourth
// question could not be written.
type brokenPipe struct {
	net.Conn // nil: of no other methods
	mu       sync.Mutex
	asked    int
	replies  bytes.Buffer
	broken   chan bool
}

func (c *brokenPipe) Write(m []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked++; c.asked > 3 {
		if c.asked == 4 {
			close(c.broken)
		}
		return 0, syscall.EPIPE
	}
	r := reply(m[2:], good)
	c.replies.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(r))), r...))
	return len(m), nil
}

func (c *brokenPipe) Read(b []byte) (int, error) {
	<-c.broken
	time.Sleep(time.Millisecond) // the writer is ahead
	return c.replies.Read(b)
}

func (c *brokenPipe) SetWriteDeadline(time.Time) error { return nil }
func (c *brokenPipe) Close() error                     { return nil }

// TestAnswersBeforeTheEnd: replies count that came before a connection could not be written
// to any more, and the other questions go over another.
func TestAnswersBeforeTheEnd(t *testing.T) {
	addr := serve(t, func(m *dns.Msg, _ dns.Question, _ bool) bool { good(m); return true })
	r, err := New(Config{Servers: []string{"tcp://" + addr}, Family: "4", Timeout: patience, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := streamOf(r.servers[0])
	dial, first := s.dial, true
	s.dial = func(ctx context.Context) (net.Conn, error) {
		if first {
			first = false
			return &brokenPipe{broken: make(chan bool)}, nil
		}
		return dial(ctx)
	}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			if a := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i)); a.Status != "" {
				t.Errorf("%+v", a)
			}
		})
	}
	wg.Wait()
}

// TestConnectionsAreBounded: however many questions there are and however few a server takes
// on a connection, the others wait, and each has its answer.
func TestConnectionsAreBounded(t *testing.T) {
	const names, pause = 6 * maxLinks, 20 * time.Millisecond
	var accepted, open, most atomic.Int32
	addr := tcpServer(t, &accepted, func(c net.Conn) {
		n := open.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		m, err := readTCP(c)
		time.Sleep(pause)
		open.Add(-1)
		if err == nil {
			sendTCP(c, reply(m, good))
		}
	})
	r, err := New(Config{Servers: []string{addr}, Family: "4", Timeout: patience, Attempts: 1, InFlight: names})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	streamOf(r.servers[0]).depth = 1 // as it is found soon
	var wg sync.WaitGroup
	for i := range names {
		wg.Go(func() {
			if a := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i)); a.Status != "" {
				t.Errorf("%+v", a)
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n > maxLinks || n < maxLinks/4 {
		t.Errorf("%d connections at a time, want %d at most", n, maxLinks)
	}
}

// TestWaitingForAConnection: the time of a question that waits for one has not begun. It gives
// up when it is told to, and when the resolver is closed; the place that it has not taken is
// the next one's.
func TestWaitingForAConnection(t *testing.T) {
	var accepted atomic.Int32
	addr := tcpServer(t, &accepted, func(c net.Conn) { io.Copy(io.Discard, c) })
	s := newStream(strings.TrimPrefix(addr, "tcp://"), nil, nil)
	s.open = maxLinks // of others
	waiting := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.queue)
	}
	ask := func(ctx context.Context, timeout time.Duration) <-chan error {
		q, err := newQuery("host.test.", dns.TypeA)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		before := waiting()
		go func() { _, err := s.exchange(ctx, &q, timeout); ended <- err }()
		for waiting() == before {
			time.Sleep(time.Millisecond)
		}
		return ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := ask(ctx, time.Millisecond), ask(t.Context(), patience)
	select {
	case err := <-first:
		t.Errorf("without a connection: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if n := waiting(); n != 1 {
		t.Errorf("%d questions wait", n)
	}
	s.over()
	for waiting() > 0 || accepted.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	s.mu.Lock()
	s.depth = 0
	s.mu.Unlock()
	third := ask(t.Context(), patience)
	s.close()
	for _, ended := range []<-chan error{second, third} {
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	}
	if _, err := s.sit(t.Context(), nil, patience); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after that: %v", err)
	}
}

// TestUnaskedMessages: a connection on which more comes than was asked for is ended, and one
// over which a reply comes byte by byte when the question's time is up.
func TestUnaskedMessages(t *testing.T) {
	for _, c := range []struct {
		name, want string
		timeout    time.Duration
		talk       func(c net.Conn, q []byte) error
	}{
		{"messages without end", StatusBadReply, patience, func(c net.Conn, q []byte) error {
			m := append([]byte{0, byte(len(q))}, q...)
			m[2] ^= 1
			_, err := c.Write(m)
			return err
		}},
		{"a byte now and then", StatusTimeout, 60 * time.Millisecond, func(c net.Conn, q []byte) error {
			time.Sleep(10 * time.Millisecond)
			_, err := c.Write([]byte{1})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var accepted atomic.Int32
			ended := make(chan bool)
			addr := tcpServer(t, &accepted, func(conn net.Conn) {
				m, err := readTCP(conn)
				if err == nil {
					sendTCP(conn, reply(m, good))
					m, err = readTCP(conn)
				}
				for err == nil {
					err = c.talk(conn, m)
				}
				close(ended)
			})
			r, err := New(Config{Servers: []string{addr}, Family: "4", Timeout: c.timeout, Attempts: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			r.Lookup(t.Context(), "one.test")
			if a := r.Lookup(t.Context(), "host.test"); a.Status != c.want {
				t.Errorf("%+v, want %s", a, c.want)
			}
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("the connection lives on")
			}
		})
	}
}

// TestLargeReplies: of messages that take much memory a few are held at a time, whatever
// becomes of them, and in the end none.
func TestLargeReplies(t *testing.T) {
	const names = 40
	overHTTP, _, roots := secure(t)
	for _, c := range []struct {
		kind, want string
		timeout    time.Duration
		talk       func(c net.Conn, q []byte)
	}{
		{"good ones", "127.0.0.1", patience, func(c net.Conn, q []byte) { sendTCP(c, reply(q, bulky)) }},
		{"SERVFAIL", StatusServFail, patience, func(c net.Conn, q []byte) {
			sendTCP(c, reply(q, func(m *dns.Msg) { bulky(m); m.Rcode = dns.RcodeServerFailure }))
		}},
		{"of another id", StatusBadReply, patience, func(c net.Conn, q []byte) {
			sendTCP(c, reply(q, func(m *dns.Msg) { bulky(m); m.Id ^= 1 }))
		}},
		{"records that are none", StatusBadReply, patience, func(c net.Conn, q []byte) {
			sendTCP(c, append(section(q, 9), bytes.Repeat([]byte{0xff}, 1<<14)...))
		}},
		{"a length, and no more", StatusTimeout, 50 * time.Millisecond, func(c net.Conn, q []byte) { c.Write([]byte{255, 255}) }},
		{"over HTTP", "127.0.0.1", patience, nil},
	} {
		t.Run(c.kind, func(t *testing.T) {
			server := overHTTP + "/bulky"
			if c.talk != nil {
				var accepted atomic.Int32
				server = tcpServer(t, &accepted, func(conn net.Conn) {
					for {
						m, err := readTCP(conn)
						if err != nil {
							return
						}
						c.talk(conn, m)
					}
				})
			}
			r, err := New(Config{Servers: []string{server}, Roots: roots, Family: "4", Timeout: c.timeout, Attempts: 1})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for i := range names {
				wg.Go(func() {
					a := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i))
					if s := FormatAddrs(a.Addrs) + a.Status; s != c.want {
						t.Errorf("%q, want %q", s, c.want)
					}
					raw := r.Raw(t.Context(), fmt.Sprintf("host%d.test", i), dns.TypeA)
					raw.Release()
				})
			}
			wg.Wait()
			r.Close()
			for len(r.large) > 0 { // connections that end
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// TestDepthRecovers: that a server once closed a connection early is not held against it for
// ever.
func TestDepthRecovers(t *testing.T) {
	var accepted atomic.Int32
	addr := tcpServer(t, &accepted, func(c net.Conn) {
		for {
			m, err := readTCP(c)
			if err != nil {
				return
			}
			sendTCP(c, reply(m, good))
		}
	})
	r, err := New(Config{Servers: []string{addr}, Family: "4", Timeout: patience, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := streamOf(r.servers[0])
	s.depth = 1
	for i := range 3 * maxPipelined {
		if a := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i)); a.Status != "" {
			t.Fatalf("%+v", a)
		}
	}
	if s.mu.Lock(); s.depth != 4 {
		t.Errorf("%d questions at a time after %d answers", s.depth, 3*maxPipelined)
	}
	s.mu.Unlock()
}

func TestServersThatAreNone(t *testing.T) {
	for _, s := range []string{"", "one.two", "127.0.0.1:x", "ftp://127.0.0.1", "tls://", "tls://host/path", "https://user@host/", "tcp://host.test", "127.0.0.1:99999", "[::1", "::1]", "[::1]x", "[[::1]]", "[127.0.0.1]:", " ::1",
		"127.0.0.1:0", "tcp://127.0.0.1:0", "tls://127.0.0.1:0", "tls://127.0.0.1#dns.test", "https://dns.test/dns-query{?dns}", "https://dns.test/#a"} {
		if _, err := New(Config{Servers: []string{s}}); err == nil || !strings.Contains(err.Error(), "DNS server") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func streamOf(s *server) *stream { return s.main.(*background).exchanger.(*stream) }

// TestRate: questions to one server keep their distance.
func TestRate(t *testing.T) {
	srv, err := parseServer("127.0.0.1:9", &Config{Rate: 50}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wait time.Duration
	for range 6 {
		wait = srv.wait()
	}
	if wait < 60*time.Millisecond || wait > 100*time.Millisecond { // of the time that this took some is gone
		t.Errorf("the sixth question at 50 a second waits %v", wait)
	}
}

// TestOneWhoGivesUp does not take the answer from others that wait for it.
func TestOneWhoGivesUp(t *testing.T) {
	arrived, answer := make(chan bool, 10), make(chan bool)
	addr := serve(t, func(m *dns.Msg, _ dns.Question, _ bool) bool {
		arrived <- true
		<-answer
		good(m)
		return true
	})
	r, err := New(Config{Servers: []string{addr}, Family: "4", Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan Answer), make(chan Answer)
	go func() { first <- r.Lookup(ctx, "host.test") }()
	<-arrived
	go func() { second <- r.Lookup(t.Context(), "host.test") }()
	cancel()
	if a := <-first; a.Status != StatusCancelled {
		t.Errorf("%+v", a)
	}
	close(answer)
	if a := <-second; FormatAddrs(a.Addrs) != "127.0.0.1" {
		t.Errorf("%+v", a)
	}
}
