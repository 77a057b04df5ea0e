package resolve

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/dns-query" || r.Header.Get("Content-Type") != "application/dns-message" {
			http.Error(w, "not a query", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/dns-message")
		w.Write(reply(q, good))
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
	s := r.servers[0].main.(*stream)
	for i := range 5 {
		if got := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i)); got.Status != "" {
			t.Fatalf("%+v", got)
		}
		if len(s.idle) != 1 {
			t.Fatalf("%d idle connections", len(s.idle))
		}
		s.idle[0].Close()
	}
}

func TestServersThatAreNone(t *testing.T) {
	for _, s := range []string{"", "one.two", "127.0.0.1:x", "ftp://127.0.0.1", "tls://", "tls://host/path", "https://user@host/", "tcp://host.test", "127.0.0.1:99999"} {
		if _, err := New(Config{Servers: []string{s}}); err == nil || !strings.Contains(err.Error(), "DNS server") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestRate: questions to one server keep their distance.
func TestRate(t *testing.T) {
	srv, err := parseServer("127.0.0.1:9", &Config{Rate: 50})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for range 6 {
		if err := srv.await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(start); d < 100*time.Millisecond {
		t.Errorf("six questions at 50 a second took %v", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	srv.next = time.Now().Add(time.Hour)
	if srv.await(ctx) == nil {
		t.Error("a cancelled question waited to its turn")
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
