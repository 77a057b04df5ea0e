package resolve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"mercator/pkg/base/must"
)

// cutServer answers each datagram with a reply that says it is cut, and over TCP by talk.
func cutServer(t *testing.T, talk func(c net.Conn, q []byte)) string {
	t.Helper()
	return rawServer(t, func(q []byte) [][]byte {
		return [][]byte{reply(q, func(m *dns.Msg) { m.Truncated = true })}
	}, talk)
}

// TestConnectionsAreBounded: however many replies are cut, so many connections are made at a
// time, one for each question; the other questions wait, and each has its answer.
func TestConnectionsAreBounded(t *testing.T) {
	const names, pause = 6 * maxTCP, 20 * time.Millisecond
	var all, open, most atomic.Int32
	addr := cutServer(t, func(c net.Conn, q []byte) {
		all.Add(1)
		n := open.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(pause)
		open.Add(-1)
		sendTCP(c, reply(q, good))
	})
	r, err := New(Config{Servers: []string{addr}, Family: "4", Timeout: patience, Attempts: 1, InFlight: names})
	must.OK(t, err)
	defer r.Close()
	var wg sync.WaitGroup
	for i := range names {
		wg.Go(func() {
			if a := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i)); a.Status != "" {
				t.Errorf("%+v", a)
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n > maxTCP || n < maxTCP/4 {
		t.Errorf("%d connections at a time, want %d at most", n, maxTCP)
	}
	if n := all.Load(); n != names {
		t.Errorf("%d connections for %d questions", n, names)
	}
}

// TestWaitingForAConnection: the time of a question that waits for one has not begun, and it
// gives up when it is told to, and when the resolver is closed.
func TestWaitingForAConnection(t *testing.T) {
	addr := cutServer(t, func(c net.Conn, q []byte) { sendTCP(c, reply(q, good)) })
	r := resolver(t, addr)
	for range maxTCP {
		r.tcp.slots <- struct{}{} // of others
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan Answer, 1), make(chan Answer, 1)
	go func() { first <- r.Lookup(ctx, "host1.test") }()
	go func() { second <- r.Lookup(t.Context(), "host2.test") }()
	select {
	case a := <-first:
		t.Errorf("without a connection: %+v", a)
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	if a := <-first; a.Status != StatusCancelled {
		t.Errorf("cancelled: %+v", a)
	}
	for range maxTCP {
		<-r.tcp.slots
	}
	if a := <-second; a.Status != StatusOK {
		t.Errorf("with a connection: %+v", a)
	}
	for range maxTCP {
		r.tcp.slots <- struct{}{}
	}
	third := make(chan Answer, 1)
	go func() { third <- r.Lookup(t.Context(), "host3.test") }()
	time.Sleep(10 * time.Millisecond)
	r.tcp.close()
	if a := <-third; a.Status != StatusNetwork {
		t.Errorf("closed: %+v", a)
	}
}

// TestSlowTCP: a reply that comes byte by byte is not waited for beyond the question's time,
// nor is one at all when the resolver is closed.
func TestSlowTCP(t *testing.T) {
	ended := make(chan bool, 2)
	addr, err := parseAddr(cutServer(t, func(c net.Conn, q []byte) {
		for err := error(nil); err == nil; _, err = c.Write([]byte{1}) {
			time.Sleep(10 * time.Millisecond)
		}
		ended <- true
	}))
	must.OK(t, err)
	s := newTCP()
	q, err := newQuery("host.test.", dns.TypeA)
	must.OK(t, err)
	if _, err := s.exchange(addr, &q, 60*time.Millisecond); !os.IsTimeout(err) {
		t.Errorf("%v", err)
	}
	time.AfterFunc(30*time.Millisecond, s.close)
	if _, err := s.exchange(addr, &q, patience); err == nil {
		t.Error("a reply")
	}
	for range 2 {
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("the connection lives on")
		}
	}
}

// TestLargeReplies: of messages that take much memory one is parsed at a time, and all serve.
func TestLargeReplies(t *testing.T) {
	const names = 40
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
		{"shorter than a header", StatusBadReply, patience, func(c net.Conn, q []byte) { sendTCP(c, q[:headerLen-1]) }},
		{"a length, and no more", StatusTimeout, 200 * time.Millisecond, func(c net.Conn, q []byte) { c.Write([]byte{255, 255}); io.Copy(io.Discard, c) }},
	} {
		t.Run(c.kind, func(t *testing.T) {
			r, err := New(Config{Servers: []string{cutServer(t, c.talk)}, Family: "4", Timeout: c.timeout, Attempts: 1})
			must.OK(t, err)
			var wg sync.WaitGroup
			r.large.Lock() // another one is parsed
			var parsed atomic.Int32
			for i := range names {
				wg.Go(func() {
					defer parsed.Add(1)
					a := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i))
					if s := FormatAddrs(a.Addrs) + a.Status; s != c.want {
						t.Errorf("%q, want %q", s, c.want)
					}
					res := oneName(t, r, fmt.Sprintf("host%d.test", i), "A")
					if res.Data.Protocol != "tcp" || int64(res.Duration*1e6+0.5) < res.RTT {
						t.Errorf("by %s, in %v s and %v µs of these", res.Data.Protocol, res.Duration, res.RTT)
					}
				})
			}
			time.Sleep(20 * time.Millisecond)
			if n := parsed.Load(); n > 0 && c.want != StatusBadReply { // one of another id is not parsed at all
				t.Errorf("%d are parsed beside another", n)
			}
			r.large.Unlock()
			wg.Wait()
			r.Close()
		})
	}
}

func TestServersThatAreNone(t *testing.T) {
	for _, s := range []string{"", "one.two", "127.0.0.1:x", "ftp://127.0.0.1", "tls://127.0.0.1", "tcp://127.0.0.1", "127.0.0.1:99999", "[::1", "::1]", "[::1]x", "[[::1]]", "[127.0.0.1]:", " ::1", "127.0.0.1:0"} {
		if _, err := New(Config{Servers: []string{s}}); err == nil || !strings.Contains(err.Error(), "DNS server") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestRate: questions to one server keep their distance.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := parseServer("127.0.0.1:9", 50)
		must.OK(t, err)
		for i := range 6 {
			if got, want := srv.wait(), time.Duration(i)*20*time.Millisecond; got != want {
				t.Errorf("question %d at 50 a second waits %v, want %v", i+1, got, want)
			}
		}
	})
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
	must.OK(t, err)
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
