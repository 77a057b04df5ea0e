package resolve

import (
	"container/list"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"mercator/formats/store"
	"mercator/pkg/fingerprint"
)

// serving starts a Server on a store; end stops it, and returns its error.
func serving(t *testing.T, dir string, upstream string, now func() time.Time) (s *Server, addr string, end func() error) {
	t.Helper()
	return servingWith(t, dir, Config{Servers: []string{upstream}, Timeout: patience, Attempts: 2, Now: now})
}

func servingWith(t *testing.T, dir string, cfg Config) (s *Server, addr string, end func() error) {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = NewServer(st, r, 16<<20, r.cfg.Now); err != nil {
		t.Fatal(err)
	}
	pc, l := listenBoth(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, pc, l, time.Hour, func(err error) { t.Error(err) }) }()
	return s, pc.LocalAddr().String(), func() error {
		cancel()
		defer r.Close()
		return <-ended
	}
}

// dig asks over UDP, and over TCP if the answer was cut.
func dig(t *testing.T, addr, name string, qtype uint16) string {
	t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(name, qtype)
	c := dns.Client{Timeout: patience}
	m, _, err := c.Exchange(q, addr)
	if err == nil && m.Truncated {
		c.Net = "tcp"
		m, _, err = c.Exchange(q, addr)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	s := []string{dns.RcodeToString[m.Rcode]}
	for _, rr := range append(m.Answer, m.Ns...) {
		s = append(s, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	return strings.Join(s, "; ")
}

func TestServe(t *testing.T) {
	var asked atomic.Int32
	up := serve(t, func(m *dns.Msg, q dns.Question, tcp bool) bool {
		asked.Add(1)
		switch {
		case q.Name == "long.test.":
			if m.Truncated = !tcp; tcp {
				text := func(n int) dns.RR { return rr(t, m.Question[0].Name+` 60 IN TXT "`+strings.Repeat("x", n)+`"`) }
				m.Answer = append(slices.Repeat([]dns.RR{text(255)}, 244), text(77)) // 65,520 bytes
				m.Compress = true
			}
		case q.Name == "nowhere.test.":
			m.Rcode = dns.RcodeNameError
			m.Ns = append(m.Ns, rr(t, "test. 600 IN SOA ns.test. root.test. 1 2 3 4 500"))
		case q.Name == "foreign.test.":
			m.Rcode = dns.RcodeNameError
			m.Ns = append(m.Ns, rr(t, "other. 600 IN SOA ns.test. root.test. 1 2 3 4 500"))
		case q.Name == "fail.test.":
			m.Rcode = dns.RcodeServerFailure
		case q.Qtype == dns.TypeTXT:
			m.Answer = append(m.Answer, rr(t, m.Question[0].Name+` 60 IN TXT "a b"`))
		case q.Name == "alias.test.":
			m.Answer = append(m.Answer, cname(m.Question[0].Name, "host.test."))
			if q.Qtype == dns.TypeA {
				m.Answer = append(m.Answer, a("host.test.", "192.0.2.1", 300))
			}
		case q.Name == "many.test." && q.Qtype == dns.TypeAAAA:
			for i := range MaxAddrs {
				m.Answer = append(m.Answer, rr(t, fmt.Sprintf("many.test. 300 IN AAAA 2001:db8::%x", i)))
			}
		case q.Name == ".":
			m.Ns = append(m.Ns, rr(t, ". 60 IN SOA ns.test. root.test. 1 2 3 4 500"))
		case q.Qtype == dns.TypeA:
			m.Answer = append(m.Answer, a(m.Question[0].Name, "192.0.2.1", 300))
		default:
			m.Ns = append(m.Ns, rr(t, "test. 200 IN SOA ns.test. root.test. 1 2 3 4 500"))
		}
		return true
	})
	var later atomic.Int64
	now := func() time.Time { return testNow.Add(time.Duration(later.Load())) }
	dir := newDNSStore(t)
	s, addr, end := serving(t, dir, up, now)
	for _, c := range []struct {
		name  string
		qtype uint16
		want  string
	}{
		{"host.test.", dns.TypeA, "NOERROR; host.test. 300 IN A 192.0.2.1"},
		{"HOST.test.", dns.TypeA, "NOERROR; HOST.test. 300 IN A 192.0.2.1"},
		{"host.test.", dns.TypeAAAA, "NOERROR; test. 200 IN SOA . . 0 0 0 0 200"},
		{"alias.test.", dns.TypeA, "NOERROR; alias.test. 60 IN CNAME host.test.; host.test. 60 IN A 192.0.2.1"},
		{"nowhere.test.", dns.TypeA, "NXDOMAIN; test. 500 IN SOA . . 0 0 0 0 500"},
		{"foreign.test.", dns.TypeA, "NXDOMAIN"},
		{".", dns.TypeA, "NOERROR; . 60 IN SOA ns.test. root.test. 1 2 3 4 500"},
		{"fail.test.", dns.TypeA, "SERVFAIL"},
		{"host.test.", dns.TypeTXT, `NOERROR; host.test. 60 IN TXT "a b"`},
		{"localhost.", dns.TypeAAAA, "NOERROR; localhost. 86400 IN AAAA ::1"},
		{"a.LOCALHOST.", dns.TypeTXT, "NOERROR"},
		{"x.onion.", dns.TypeA, "NXDOMAIN"},
		{"x.ONION.", dns.TypeTXT, "NXDOMAIN"},
	} {
		if got := dig(t, addr, c.name, c.qtype); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	s.mu.Lock()
	s.known.put(fingerprint.OfString("odd.test"), "odd.test", &entry{Addr: "192.0.2.1", CNAME: "a..b", Expires: testNow.Add(time.Hour)})
	s.mu.Unlock()
	if got := dig(t, addr, "odd.test.", dns.TypeA); got != "SERVFAIL" {
		t.Errorf("a canonical name that is none: %s", got)
	}
	long := new(dns.Msg).SetQuestion("long.test.", dns.TypeTXT).SetEdns0(dns.MaxMsgSize, false)
	if m, _, err := (&dns.Client{Timeout: patience}).Exchange(long, addr); err != nil || !m.Truncated {
		t.Errorf("a reply that no datagram holds: truncated %t, %v", m != nil && m.Truncated, err)
	}
	if got := dig(t, addr, "many.test.", dns.TypeAAAA); strings.Count(got, "AAAA") != MaxAddrs-1 { // the first is an IPv4 address
		t.Errorf("many addresses: %s", got)
	}
	q := new(dns.Msg)
	q.SetQuestion("host.test.", dns.TypeA)
	q.Opcode = dns.OpcodeUpdate
	if m, _ := s.answer(t.Context(), q, false); m.Rcode != dns.RcodeNotImplemented {
		t.Errorf("an update: %s", dns.RcodeToString[m.Rcode])
	}
	q.Opcode = dns.OpcodeQuery
	q.SetEdns0(1232, false)
	q.IsEdns0().SetVersion(1)
	if m, _ := s.answer(t.Context(), q, false); m.Rcode != dns.RcodeBadVers {
		t.Errorf("EDNS of a later version: %s", dns.RcodeToString[m.Rcode])
	}
	q.SetQuestion("test.", dns.TypeAXFR)
	q.Extra = nil
	if m, _ := s.answer(t.Context(), q, false); m.Rcode != dns.RcodeRefused {
		t.Errorf("a transfer: %s", dns.RcodeToString[m.Rcode])
	}
	q.SetQuestion("test.", dns.TypeNone)
	if m, _ := s.answer(t.Context(), q, false); m.Rcode != dns.RcodeFormatError {
		t.Errorf("a question of type 0: %s", dns.RcodeToString[m.Rcode])
	}
	if _, ok := s.known.get(fingerprint.OfString("test."), "test."); ok {
		t.Error("a question of type 0 was taken for one for addresses, of another name")
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}

	// What was learnt is in the store, until it expires.
	before := asked.Load()
	_, addr, end = serving(t, dir, up, now)
	if got := dig(t, addr, "alias.test.", dns.TypeA); got != "NOERROR; alias.test. 60 IN CNAME host.test.; host.test. 60 IN A 192.0.2.1" || asked.Load() != before {
		t.Errorf("%s, %d questions", got, asked.Load()-before)
	}
	later.Store(int64(time.Hour))
	if got := dig(t, addr, "host.test.", dns.TypeA); got != "NOERROR; host.test. 300 IN A 192.0.2.1" || asked.Load() == before {
		t.Errorf("%s, %d questions", got, asked.Load()-before)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// TestServeLongest: a time that no message can tell is told as the longest.
func TestServeLongest(t *testing.T) {
	now := func() time.Time { return testNow }
	r, err := New(Config{Servers: []string{"127.0.0.1"}, MaxTTL: math.MaxInt64, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(newDNSStore(t), StoreKind, StoreVersion, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(st, r, 16<<20, now)
	if err != nil {
		t.Fatal(err)
	}
	q := new(dns.Msg)
	q.SetQuestion("localhost.", dns.TypeA)
	if m, _ := s.answer(t.Context(), q, false); len(m.Answer) != 1 || m.Answer[0].Header().Ttl != maxWireTTL {
		t.Errorf("%v", m.Answer)
	}
}

// TestServeSlowAnswer: the time that an upstream server takes is not told as time to live.
func TestServeSlowAnswer(t *testing.T) {
	var offset atomic.Int64
	up := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		if q.Qtype == dns.TypeA {
			offset.Store(int64(10 * time.Second))
			m.Answer = []dns.RR{a(m.Question[0].Name, "127.0.0.1", 3600)}
		}
		return true
	})
	_, addr, end := serving(t, newDNSStore(t), up, func() time.Time { return testNow.Add(time.Duration(offset.Load())) })
	if got, want := dig(t, addr, "host.test.", dns.TypeA), "NOERROR; host.test. 3600 IN A 127.0.0.1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// until waits for what is to come.
func until(t *testing.T, what string, come func() bool) {
	t.Helper()
	for began := time.Now(); !come(); time.Sleep(100 * time.Microsecond) {
		if time.Since(began) > patience {
			t.Fatal("no end of waiting: " + what)
		}
	}
}

// held is a server that answers no name that begins with "dead" before open is called; asked
// counts the questions for these.
func held(t *testing.T) (up string, asked *atomic.Int32, open func()) {
	release := make(chan bool)
	open, asked = sync.OnceFunc(func() { close(release) }), new(atomic.Int32)
	up = serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		if strings.HasPrefix(q.Name, "dead") {
			asked.Add(1)
			<-release
		}
		if q.Qtype == dns.TypeTXT {
			m.Answer = []dns.RR{rr(t, m.Question[0].Name+` 60 IN TXT "text"`)}
			return true
		}
		good(m)
		return true
	})
	t.Cleanup(open) // before the upstream server is shut down
	return up, asked, open
}

// TestServeFlood: where as many questions are asked as may be in flight, what is known is answered
// all the same; another question over UDP gets no answer, which its client takes for a lost
// one, and over TCP it waits for the others.
func TestServeFlood(t *testing.T) {
	const n = 8
	up, _, open := held(t)
	s, addr, end := servingWith(t, newDNSStore(t), Config{Servers: []string{up}, Family: "4", InFlight: n, Timeout: patience, Attempts: 2})
	c, err := dns.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dig(t, addr, "known.test.", dns.TypeA)
	for i := range n {
		q := new(dns.Msg)
		q.SetQuestion(fmt.Sprintf("dead%d.test.", i), dns.TypeA)
		if err := c.WriteMsg(q); err != nil {
			t.Fatal(err)
		}
		until(t, "a question is asked", func() bool { return len(s.resolver.slots) == i+1 })
	}
	if got := dig(t, addr, "known.test.", dns.TypeA); !strings.HasPrefix(got, "NOERROR; known.test. ") {
		t.Errorf("what is known, without room: %s", got)
	}
	more := new(dns.Msg)
	more.SetQuestion("more.test.", dns.TypeTXT)
	for _, qtype := range []uint16{dns.TypeA, dns.TypeTXT} {
		more.Question[0].Qtype = qtype
		if m, _, err := (&dns.Client{Timeout: 50 * time.Millisecond}).Exchange(more, addr); err == nil {
			t.Errorf("without room: %v", m)
		}
	}
	overTCP := make(chan error)
	go func() {
		m, _, err := (&dns.Client{Net: "tcp", Timeout: patience}).Exchange(more, addr)
		if err == nil && m.Rcode != dns.RcodeSuccess {
			err = fmt.Errorf("over TCP: %v", m)
		}
		overTCP <- err
	}()
	open()
	if err := <-overTCP; err != nil {
		t.Error(err)
	}
	until(t, "all are answered", func() bool { return len(s.resolver.slots) == 0 })
	if got := dig(t, addr, "more.test.", dns.TypeA); !strings.HasPrefix(got, "NOERROR; more.test. ") {
		t.Errorf("with room: %s", got)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// TestServeBusy: where as many questions over UDP are worked on as may be, another is dropped.
func TestServeBusy(t *testing.T) {
	up, _, _ := held(t)
	s, addr, end := serving(t, newDNSStore(t), up, time.Now)
	for range cap(s.busy) {
		s.busy <- struct{}{}
	}
	q := new(dns.Msg).SetQuestion("live.test.", dns.TypeA)
	if m, _, err := (&dns.Client{Timeout: 50 * time.Millisecond}).Exchange(q, addr); err == nil {
		t.Errorf("without room: %v", m)
	}
	if m, _, err := (&dns.Client{Net: "tcp", Timeout: patience}).Exchange(q, addr); err != nil || len(m.Answer) != 1 {
		t.Errorf("over TCP: %v, %v", m, err)
	}
	for range cap(s.busy) {
		<-s.busy
	}
	if got := dig(t, addr, "live.test.", dns.TypeA); !strings.HasPrefix(got, "NOERROR; live.test. ") {
		t.Errorf("with room: %s", got)
	}
	until(t, "nothing is worked on", func() bool { return len(s.busy) == 0 })
	if n := s.Stats.Questions.Load(); n != 2 {
		t.Errorf("%d questions were worked on, want those two that were answered", n)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// TestServeEqualQuestions: what many clients ask at a time is asked once, in one place, and each
// gets the answer in its own letters.
func TestServeEqualQuestions(t *testing.T) {
	const clients = 90 // of each type: more than places, and no more than may wait
	up, asked, open := held(t)
	s, addr, end := servingWith(t, newDNSStore(t), Config{Servers: []string{up}, Family: "4", InFlight: 3, Timeout: patience, Attempts: 2})
	var wg sync.WaitGroup
	names := []string{"dead.test.", "Dead.test.", "DEAD.test."}
	for i := range clients {
		name := names[i%len(names)]
		network := []string{"udp", "udp", "tcp"}[i/len(names)%3]
		for _, qtype := range []uint16{dns.TypeA, dns.TypeTXT} {
			wg.Go(func() {
				q := new(dns.Msg)
				q.SetQuestion(name, qtype)
				m, _, err := (&dns.Client{Net: network, Timeout: patience}).Exchange(q, addr)
				if err != nil || len(m.Answer) != 1 || m.Answer[0].Header().Name != name || m.Answer[0].Header().Rrtype != qtype {
					t.Errorf("%s: %v, %v", name, m, err)
				}
			})
		}
	}
	until(t, "all have asked", func() bool { return s.Stats.Questions.Load() == 2*clients })
	until(t, "both are asked", func() bool { return asked.Load() == 2 })
	if got := dig(t, addr, "live.test.", dns.TypeA); !strings.HasPrefix(got, "NOERROR; live.test. ") {
		t.Errorf("beside them: %s", got)
	}
	open()
	wg.Wait()
	if asked.Load() != 2 {
		t.Errorf("asked %d times, want 2", asked.Load())
	}
	until(t, "nobody waits any more", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.asking)+s.firsts.waiting.Len()+s.others.waiting.Len() == 0
	})
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// TestServeDeadNames: names without an answer, however many are asked for, leave their places to
// others when their first time is up; what is given up for that is not learnt.
func TestServeDeadNames(t *testing.T) {
	const n = 4
	up, _, _ := held(t)
	s, addr, end := servingWith(t, newDNSStore(t), Config{Servers: []string{up}, InFlight: n, Timeout: 50 * time.Millisecond, Attempts: 12, GiveUp: true})
	c, err := dns.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q, dead := new(dns.Msg), 0
	for ; len(s.resolver.late) < n || dead < 10*n; dead++ {
		until(t, "there is a place for another", func() bool { return len(s.resolver.slots) < n })
		if err := c.WriteMsg(q.SetQuestion(fmt.Sprintf("dead%d.test.", dead), dns.TypeA)); err != nil {
			t.Fatal(err)
		}
	}
	live := new(dns.Msg).SetQuestion("live.test.", dns.TypeA)
	until(t, "one that lives is answered", func() bool {
		m, _, err := (&dns.Client{Timeout: 200 * time.Millisecond}).Exchange(live, addr)
		return err == nil && len(m.Answer) == 1
	})
	s.mu.Lock()
	for i := range dead {
		name := fmt.Sprintf("dead%d.test", i)
		if _, ok := s.known.get(fingerprint.OfString(name), name); ok {
			t.Errorf("%s is given up, and known", name)
		}
	}
	s.mu.Unlock()
	more := new(dns.Msg)
	more.SetQuestion("dead.test.", dns.TypeA)
	if m, _, err := (&dns.Client{Net: "tcp", Timeout: patience}).Exchange(more, addr); err != nil || m.Rcode != dns.RcodeServerFailure {
		t.Errorf("over TCP: %v, %v", m, err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// TestCrowd: where there is no room, who came first is to go.
func TestCrowd(t *testing.T) {
	c := crowd{room: 2}
	gone := func(e *list.Element) bool {
		select {
		case <-e.Value.(chan struct{}):
			return true
		default:
			return false
		}
	}
	one, two := c.enter(), c.enter()
	c.leave(one)
	three := c.enter()
	if gone(one) || gone(two) || gone(three) {
		t.Error("one had to go where there was room")
	}
	four := c.enter()
	if !gone(two) || gone(three) || gone(four) {
		t.Errorf("gone: %t, %t, %t, want the first alone", gone(two), gone(three), gone(four))
	}
	c.leave(two)
	if c.waiting.Len() != 2 {
		t.Errorf("%d wait, want 2", c.waiting.Len())
	}
}

// TestServeOneWhoReadsNothing: a client that asks over TCP and takes no replies holds neither its
// connection nor the memory of a reply for long.
func TestServeOneWhoReadsNothing(t *testing.T) {
	up := serve(t, func(m *dns.Msg, _ dns.Question, tcp bool) bool {
		if m.Truncated = !tcp; tcp {
			bulky(m)
		}
		return true
	})
	r, err := New(Config{Servers: []string{up}, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	st, err := store.Open(newDNSStore(t), StoreKind, StoreVersion, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(st, r, 16<<20, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.patience = 20 * time.Millisecond
	pc, l := listenBoth(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, pc, l, 0, nil) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).SetReadBuffer(1 << 12)
	q, err := newQuery("host.test.", dns.TypeTXT)
	if err != nil {
		t.Fatal(err)
	}
	began, questions := time.Now(), 0
	for ; err == nil && time.Since(began) < patience/5; questions++ { // until the connection has ended
		if questions < 120 { // of more on one the library answers none
			_, err = c.Write(q.append(binary.BigEndian.AppendUint16(nil, uint16(len(q.wire))), 0))
			continue
		}
		time.Sleep(time.Millisecond)
		_, err = c.Write([]byte{0})
	}
	if err == nil {
		t.Error("the connection lives on")
	}
	if n := s.Stats.Questions.Load(); n > 16 {
		t.Errorf("%d replies of 50 KB were made that nobody reads", n)
	}
	c.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for len(r.slots) > 0 || len(r.large) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestServeBesideARound: while a round is open the store is left alone, and nothing is lost.
func TestServeBesideARound(t *testing.T) {
	up := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool { good(m); return true })
	dir := newDNSStore(t)
	now := func() time.Time { return testNow }
	st, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, addr, end := serving(t, dir, up, now)
	tx, _, err := st.Begin(t.Context(), "resolve", "")
	if err != nil {
		t.Fatal(err)
	}
	dig(t, addr, "host.test.", dns.TypeA)
	if err := s.save(t.Context()); err != nil || s.Stats.Saved.Load() != 0 || len(s.fresh.entries) != 1 {
		t.Errorf("saved %d beside a change, %d wait, %v", s.Stats.Saved.Load(), len(s.fresh.entries), err)
	}
	tx.Abort()
	if err := end(); err != nil || s.Stats.Saved.Load() != 1 {
		t.Errorf("saved %d in the end, %v", s.Stats.Saved.Load(), err)
	}
}

// TestAbsentFamily: that a name has no addresses of one family is kept and told for a time of
// its own (RFC 2308, section 5), in memory and in the store; those that it has, for theirs.
func TestAbsentFamily(t *testing.T) {
	var asked atomic.Int32
	up := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		if q.Qtype == dns.TypeAAAA {
			asked.Add(1)
			m.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: "test.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 3600}, Ns: "ns.test.", Mbox: "m.test.", Minttl: 300}}
			return true
		}
		m.Answer = []dns.RR{a(m.Question[0].Name, "127.0.0.1", 3600)}
		return true
	})
	var offset atomic.Int64
	now := func() time.Time { return testNow.Add(time.Duration(offset.Load())) }
	dir := newDNSStore(t)
	_, addr, end := serving(t, dir, up, now)
	check := func(at time.Duration, wantAsked int32, wantA, wantNone uint32) {
		t.Helper()
		offset.Store(int64(at))
		none := dig(t, addr, "host.test.", dns.TypeAAAA)
		there := dig(t, addr, "host.test.", dns.TypeA)
		if want := fmt.Sprintf("NOERROR; test. %d IN SOA ", wantNone); !strings.HasPrefix(none, want) {
			t.Errorf("after %v AAAA: %s, want %s", at, none, want)
		}
		if want := fmt.Sprintf("NOERROR; host.test. %d IN A 127.0.0.1", wantA); there != want {
			t.Errorf("after %v A: %s, want %s", at, there, want)
		}
		if asked.Load() != wantAsked {
			t.Errorf("after %v AAAA was asked for %d times, want %d", at, asked.Load(), wantAsked)
		}
	}
	check(0, 1, 3600, 300)
	check(200*time.Second, 1, 3400, 100)
	check(300*time.Second, 2, 3600, 300)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	_, addr, end = serving(t, dir, up, now)
	check(400*time.Second, 2, 3500, 200)
	offset.Store(int64(601 * time.Second)) // addresses are valid for longer
	if dig(t, addr, "host.test.", dns.TypeA); asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}

	// Who wants but the family that there is not finds that in the store for as long.
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{599 * time.Second, true}, {600 * time.Second, false}} {
		r, err := New(Config{Servers: []string{up}, Family: "6"})
		if err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		offset.Store(int64(c.at))
		s, err := NewServer(st, r, 16<<20, now)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.known.get(fingerprint.OfString("host.test"), "host.test"); ok != c.want {
			t.Errorf("after %v there is an entry: %t", c.at, ok)
		}
		r.Close()
	}
}

// TestFailedFamily: where the question for addresses of one family fails, those of the other
// are told; but not that there are none of the one, in memory, in the store or in a batch. It
// is asked for again when the failure is old (RFC 2308, section 7).
func TestFailedFamily(t *testing.T) {
	var rcode, asked atomic.Int32
	up := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		if q.Qtype == dns.TypeAAAA {
			asked.Add(1)
			m.Rcode = int(rcode.Load())
			return true
		}
		m.Answer = []dns.RR{cname(m.Question[0].Name, "host.test."), a("host.test.", "127.0.0.1", 3600)}
		return true
	})
	for _, c := range []struct {
		name   string
		rcode  int32
		told   string
		status string
	}{
		{"servfail", dns.RcodeServerFailure, "SERVFAIL", StatusServFail},
		{"refused", dns.RcodeRefused, "SERVFAIL", StatusRefused},
		{"a reply of no use", dns.RcodeNotImplemented, "SERVFAIL", StatusBadReply},
		{"no such name", dns.RcodeNameError, "NOERROR; alias.test. 60 IN CNAME host.test.", StatusNoAddress},
	} {
		rcode.Store(c.rcode)
		var offset atomic.Int64
		now := func() time.Time { return testNow.Add(time.Duration(offset.Load())) }
		dir := newDNSStore(t)
		for _, part := range []string{"asked", "from the store"} {
			_, addr, end := serving(t, dir, up, now)
			for range 2 { // the second is from memory
				if got := dig(t, addr, "alias.test.", dns.TypeAAAA); got != c.told {
					t.Errorf("%s, %s: AAAA %s, want %s", c.name, part, got, c.told)
				}
				if got := dig(t, addr, "alias.test.", dns.TypeA); !strings.HasSuffix(got, " IN A 127.0.0.1") {
					t.Errorf("%s, %s: A %s", c.name, part, got)
				}
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
		}
		before := asked.Load()
		r, err := New(Config{Servers: []string{up}, Family: "6", Now: now})
		if err != nil {
			t.Fatal(err)
		}
		rows, _, err := runBatch(t, dir, "", Options{Resolver: r, Now: now}, "alias.test")
		if err != nil || rows[0].Addr != "" || rows[0].AddrError != c.status || asked.Load() != before {
			t.Errorf("%s: a batch: %+v, %v, asked %d times; want %s, never asked", c.name, rows, err, asked.Load()-before, c.status)
		}
		offset.Store(int64(failureTTL))
		if c.rcode != dns.RcodeNameError {
			_, addr, end := serving(t, dir, up, now)
			rcode.Store(dns.RcodeSuccess)
			if got := dig(t, addr, "alias.test.", dns.TypeAAAA); !strings.HasPrefix(got, "NOERROR") {
				t.Errorf("%s, later: %s", c.name, got)
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
		}
		r.Close()
	}
}

// TestUnsaved: answers that wait to be saved are bounded by their bytes, of which those that
// are replaced are given back; half of that is a reason to save.
func TestUnsaved(t *testing.T) {
	long := entry{Addr: strings.Repeat("2001:db8::1,", MaxAddrs), CNAME: strings.Repeat("x", 253)}
	var u unsaved
	n, bytes := 0, 0
	for ; u.put(fmt.Sprintf("host%d.test", n), long); n++ {
		bytes += len(long.Addr) + len(long.CNAME)
	}
	if bytes > maxFresh || bytes < maxFresh/2 || len(u.entries) != n || u.bytes > maxFresh {
		t.Errorf("%d answers of %d bytes, counted as %d", n, bytes, u.bytes)
	}
	for i := range n {
		if !u.put(fmt.Sprintf("host%d.test", i), entry{}) {
			t.Fatalf("no room for a shorter answer of name %d", i)
		}
	}
	if least := n * freshCost; u.bytes < least || u.bytes > 2*least {
		t.Errorf("%d bytes of %d empty answers", u.bytes, n)
	}

	r, err := New(Config{Servers: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{resolver: r, now: time.Now, known: newTable(1 << 20), many: make(chan struct{}, 1)}
	for i := range 3 * n {
		before := len(s.many)
		s.learn(fmt.Sprintf("host%d.test", i), long)
		if s.fresh.bytes > maxFresh || before == 0 && len(s.many) > 0 && s.fresh.bytes < maxFresh/2 {
			t.Fatalf("%d bytes wait, a save is due: %d", s.fresh.bytes, len(s.many))
		}
	}
	if len(s.many) != 1 {
		t.Error("nobody is told to save")
	}
}

// TestServeCannotSave: a save that fails is told, is tried again, and loses nothing.
func TestServeCannotSave(t *testing.T) {
	up := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool { good(m); return true })
	dir := newDNSStore(t)
	s, addr, end := serving(t, dir, up, func() time.Time { return testNow })
	dig(t, addr, "host.test.", dns.TypeA)
	away := dir + "-away"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	if err := s.save(t.Context()); err == nil || len(s.fresh.entries) != 1 {
		t.Errorf("%v, %d answers wait", err, len(s.fresh.entries))
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil || s.Stats.Saved.Load() != 1 {
		t.Errorf("saved %d in the end, %v", s.Stats.Saved.Load(), err)
	}
}

// TestServeUnderRestore: a server goes on when the crawl goes back. Its answers are as true
// as before, the store holds what it held, and takes what is learnt from then on.
func TestServeUnderRestore(t *testing.T) {
	up := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool { good(m); return true })
	dir := filepath.Join(t.TempDir(), "crawl")
	folder := filepath.Join(dir, "dns")
	crawl, err := store.InitCrawl(dir, nil, nil, func() error { return CreateStore(folder, store.Options{}) }, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, addr, end := serving(t, folder, up, func() time.Time { return testNow })
	held := func() (names string) {
		for _, row := range cached(t, s.st) {
			name, _, _ := strings.Cut(row, " ")
			names += name + " "
		}
		return names
	}
	before := dig(t, addr, "undone.test.", dns.TypeA)
	if err := s.save(t.Context()); err != nil || held() != "undone.test " {
		t.Fatalf("the store holds %q, %v", held(), err)
	}
	dig(t, addr, "waits.test.", dns.TypeA)
	if err := crawl.Restore(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if held() != "" {
		t.Errorf("after the restore the store holds %q", held())
	}
	if got := dig(t, addr, "undone.test.", dns.TypeA); got != before || s.Stats.Cached.Load() != 1 {
		t.Errorf("%q, before %q; %d from the cache", got, before, s.Stats.Cached.Load())
	}
	if err := end(); err != nil || held() != "waits.test " {
		t.Errorf("in the end the store holds %q, %v", held(), err)
	}
}
