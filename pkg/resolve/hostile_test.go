package resolve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/must"
)

// rawServer is a server on loopback that replies with bytes. A datagram's reply is what
// udp returns, in parts, nothing for silence; tcp gets each connection.
func rawServer(t *testing.T, udp func(q []byte) [][]byte, tcp func(c net.Conn, q []byte)) string {
	t.Helper()
	pc, l := listenBoth(t)
	t.Cleanup(func() { pc.Close(); l.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, m := range udp(append([]byte(nil), buf[:n]...)) {
				pc.WriteTo(m, from)
			}
		}
	}()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				var length [2]byte
				if _, err := io.ReadFull(c, length[:]); err != nil {
					return
				}
				q := make([]byte, binary.BigEndian.Uint16(length[:]))
				if _, err := io.ReadFull(c, q); err == nil && tcp != nil {
					tcp(c, q)
				}
			}()
		}
	}()
	return pc.LocalAddr().String()
}

// reply makes a reply to a packed query, changed.
func reply(q []byte, change func(m *dns.Msg)) []byte {
	in, m := new(dns.Msg), new(dns.Msg)
	if in.Unpack(q) != nil {
		return nil
	}
	m.SetReply(in)
	change(m)
	out, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return out
}

func a(name, addr string, ttl uint32) dns.RR {
	return &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl}, A: net.ParseIP(addr)}
}

func cname(name, target string) dns.RR {
	return &dns.CNAME{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 60}, Target: target}
}

// good answers any name with 127.0.0.1.
func good(m *dns.Msg) { m.Answer = append(m.Answer, a(m.Question[0].Name, "127.0.0.1", 60)) }

// bulky does so in a message of 50,000 bytes.
func bulky(m *dns.Msg) {
	good(m)
	for range 200 {
		m.Answer = append(m.Answer, &dns.TXT{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{strings.Repeat("x", 255)}})
	}
}

// section gives a reply's bytes with the question and a hand-made answer section.
func section(q []byte, answers uint16, body ...byte) []byte {
	m := reply(q, func(*dns.Msg) {})
	binary.BigEndian.PutUint16(m[6:], answers)
	return append(m, body...)
}

// TestHostileServers: each kind of bad server gives the right status within its time (none
// but the silent ones makes a question wait for its time-out), and a cache in which nothing is
// but that.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	const brief = 20 * time.Millisecond // of the servers from which nothing is to come
	one := func(m []byte) [][]byte { return [][]byte{m} }
	over := make(chan bool)
	for _, c := range []struct {
		kind   string
		udp    func(q []byte) [][]byte
		tcp    func(c net.Conn, q []byte)
		want   string // addresses, or the status
		ttl    time.Duration
		silent bool // no reply counts: the time-outs are brief
		then   func()
	}{
		{kind: "silence", udp: func(q []byte) [][]byte { return nil }, want: StatusTimeout, silent: true},
		{kind: "wrong id", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { good(m); m.Id ^= 1 }))
		}, want: StatusTimeout, silent: true},
		{kind: "wrong id, then the right one", udp: func(q []byte) [][]byte {
			return [][]byte{reply(q, func(m *dns.Msg) { m.Answer = []dns.RR{a(m.Question[0].Name, "6.6.6.6", 60)}; m.Id ^= 1 }), reply(q, good)}
		}, want: "127.0.0.1"},
		{kind: "wrong question", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Question[0].Name = "other.test."; good(m) }))
		}, want: StatusTimeout, silent: true},
		{kind: "wrong type", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { good(m); m.Question[0].Qtype = dns.TypeMX }))
		}, want: StatusTimeout, silent: true},
		{kind: "no question", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { good(m); m.Question = nil }))
		}, want: StatusTimeout, silent: true},
		{kind: "a query for a reply", udp: func(q []byte) [][]byte { return one(q) }, want: StatusTimeout, silent: true},
		{kind: "the reply to an update", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { good(m); m.Opcode = dns.OpcodeUpdate }))
		}, want: StatusTimeout, silent: true},
		{kind: "FORMERR without the question, always", udp: func(q []byte) [][]byte {
			return one([]byte{q[0], q[1], 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0})
		}, want: StatusBadReply},
		{kind: "FORMERR without the question, of another id", udp: func(q []byte) [][]byte {
			return [][]byte{{q[0], q[1] ^ 1, 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0}, reply(q, good)}
		}, want: "127.0.0.1"},
		{kind: "lower case, and TCP", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) {
				m.Question[0].Name = strings.ToLower(m.Question[0].Name)
				m.Answer = []dns.RR{a(m.Question[0].Name, "6.6.6.6", 60)}
			}))
		}, tcp: func(c net.Conn, q []byte) { sendTCP(c, reply(q, good)) }, want: "127.0.0.1"},
		{kind: "lower case in TCP too", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Question[0].Name = strings.ToLower(m.Question[0].Name) }))
		}, tcp: func(c net.Conn, q []byte) {
			sendTCP(c, reply(q, func(m *dns.Msg) { m.Question[0].Name = strings.ToLower(m.Question[0].Name); good(m) }))
		}, want: "127.0.0.1"},
		{kind: "cut, TCP stalls", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Truncated = true }))
		}, tcp: func(c net.Conn, q []byte) {}, want: StatusTimeout, silent: true},
		{kind: "cut, TCP ends early", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Truncated = true }))
		}, tcp: func(c net.Conn, q []byte) { c.Write([]byte{0xff, 0xff, 1, 2, 3}); c.Close() }, want: StatusNetwork},
		{kind: "cut, another's reply by TCP", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Truncated = true }))
		}, tcp: func(c net.Conn, q []byte) {
			sendTCP(c, reply(q, func(m *dns.Msg) { m.Question[0].Name = "other.test."; good(m) }))
		}, want: StatusBadReply},
		{kind: "a name that points to itself", udp: func(q []byte) [][]byte {
			m := section(q, 1)
			at := len(m)
			return one(append(m, 0xc0|byte(at>>8), byte(at), 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1))
		}, want: StatusBadReply},
		{kind: "names that point to each other", udp: func(q []byte) [][]byte {
			m := section(q, 1)
			at := len(m)
			return one(append(m, 1, 'a', 0xc0|byte((at+4)>>8), byte(at+4), 1, 'b', 0xc0|byte(at>>8), byte(at)))
		}, want: StatusBadReply},
		{kind: "more answers than there are", udp: func(q []byte) [][]byte { return one(section(q, 0xffff)) }, want: StatusBadReply},
		{kind: "an address of three bytes", udp: func(q []byte) [][]byte {
			return one(section(q, 1, 0xc0, headerLen, 0, 1, 0, 1, 0, 0, 0, 60, 0, 3, 127, 0, 1))
		}, want: StatusBadReply},
		{kind: "a header alone", udp: func(q []byte) [][]byte { return one(reply(q, good)[:headerLen]) }, want: StatusTimeout, silent: true},
		{kind: "an empty datagram", udp: func(q []byte) [][]byte { return one(nil) }, want: StatusTimeout, silent: true},
		{kind: "CNAME loop", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) {
				m.Answer = []dns.RR{cname(m.Question[0].Name, "b.test."), cname("b.test.", m.Question[0].Name)}
			}))
		}, want: StatusChain},
		{kind: "CNAME to itself", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Answer = []dns.RR{cname(m.Question[0].Name, m.Question[0].Name)} }))
		}, want: StatusChain},
		{kind: "CNAME chain of 50", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) {
				last := m.Question[0].Name
				for i := range 50 {
					next := fmt.Sprintf("c%d.test.", i)
					m.Answer = append(m.Answer, cname(last, next))
					last = next
				}
				m.Answer = append(m.Answer, a(last, "127.0.0.1", 60))
			}))
		}, want: StatusChain},
		{kind: "a new CNAME for each question", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) {
				m.Answer = []dns.RR{cname(m.Question[0].Name, "x"+m.Question[0].Name)}
			}))
		}, want: StatusChain},
		{kind: "answers of others", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) {
				good(m)
				m.Answer = append(m.Answer, a("victim.test.", "6.6.6.6", 3600))
				m.Extra = append(m.Extra, a("victim.test.", "6.6.6.6", 3600))
				m.Ns = append(m.Ns, &dns.NS{Hdr: dns.RR_Header{Name: "test.", Rrtype: dns.TypeNS, Class: dns.ClassINET, Ttl: 3600}, Ns: "victim.test."})
			}))
		}, want: "127.0.0.1"},
		{kind: "giant TXT records beside the answer", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Truncated = true }))
		}, tcp: func(c net.Conn, q []byte) {
			sendTCP(c, reply(q, func(m *dns.Msg) {
				good(m)
				for range 200 {
					m.Extra = append(m.Extra, &dns.TXT{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{strings.Repeat("x", 255)}})
				}
			}))
		}, want: "127.0.0.1"},
		{kind: "time to live of zero", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Answer = []dns.RR{a(m.Question[0].Name, "127.0.0.1", 0)} }))
		}, want: "127.0.0.1", ttl: time.Minute},
		{kind: "time to live of 136 years", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Answer = []dns.RR{a(m.Question[0].Name, "127.0.0.1", 1<<32-1)} }))
		}, want: "127.0.0.1", ttl: 24 * time.Hour},
		{kind: "SERVFAIL", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Rcode = dns.RcodeServerFailure }))
		}, want: StatusServFail, ttl: failureTTL},
		{kind: "REFUSED", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Rcode = dns.RcodeRefused }))
		}, want: StatusRefused, ttl: failureTTL},
		{kind: "NOTIMP", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Rcode = dns.RcodeNotImplemented }))
		}, want: StatusBadReply},
		{kind: "a referral for an answer (lame delegation)", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) {
				m.Ns = append(m.Ns, &dns.NS{Hdr: dns.RR_Header{Name: "test.", Rrtype: dns.TypeNS, Class: dns.ClassINET, Ttl: 3600}, Ns: "ns.test."})
			}))
		}, want: StatusNoAddress, ttl: time.Minute},
		{kind: "NXDOMAIN with an SOA of 68 years", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) {
				m.Rcode = dns.RcodeNameError
				m.Ns = append(m.Ns, &dns.SOA{Hdr: dns.RR_Header{Name: "test.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 1 << 31}, Ns: "ns.test.", Mbox: "m.test.", Minttl: 1 << 31})
			}))
		}, want: StatusNXDomain, ttl: maxNegativeTTL},
		{kind: "a thousand addresses", udp: func(q []byte) [][]byte {
			return one(reply(q, func(m *dns.Msg) { m.Truncated = true }))
		}, tcp: func(c net.Conn, q []byte) {
			sendTCP(c, reply(q, func(m *dns.Msg) {
				for i := range 1000 {
					m.Answer = append(m.Answer, a(m.Question[0].Name, netip.AddrFrom4([4]byte{127, 0, byte(i >> 8), byte(i)}).String(), 60))
				}
			}))
		}, want: strings.TrimSuffix(fmt.Sprintf(strings.Repeat("127.0.0.%d,", MaxAddrs), numbers(MaxAddrs)...), ",")},
		{kind: "a datagram of 60,000 bytes", udp: func(q []byte) [][]byte {
			m := section(q, 3700)
			for range 3700 {
				m = append(m, 0xc0, headerLen, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1)
			}
			return one(m)
		}, want: StatusBadReply},
		{kind: "the same reply a thousand times", udp: func(q []byte) [][]byte {
			var many [][]byte
			for range 1000 {
				many = append(many, reply(q, good))
			}
			return many
		}, want: "127.0.0.1"},
		{kind: "the answer after the time-out", udp: func(q []byte) [][]byte {
			<-over
			return one(reply(q, good))
		}, want: StatusTimeout, silent: true, then: func() { close(over) }},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Servers: []string{rawServer(t, c.udp, c.tcp)}, Family: "4", Timeout: patience, Attempts: 2, Now: func() time.Time { return testNow }}
			if c.silent {
				cfg.Timeout, cfg.Attempts = brief, 1
			}
			r, err := New(cfg)
			must.OK(t, err)
			defer r.Close()
			// Of a name with many letters no question has them all in lower case.
			host := strings.Repeat("h", 40) + ".test"
			fsys := crashtest.New()
			must.OK(t, CreateStore("/dns", store.Options{FS: fsys}))
			st, err := store.Open("/dns", StoreKind, StoreVersion, store.Options{FS: fsys})
			must.OK(t, err)
			began := time.Now()
			rows, _, err := runOn(t, st, "r1", Options{Resolver: r, Now: r.cfg.Now, SilentOK: true}, host)
			if took := time.Since(began); took >= patience {
				t.Errorf("took %v", took)
			}
			if c.then != nil {
				c.then()
			}
			if err != nil || len(rows) != 1 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			ttl := c.ttl
			switch {
			case ttl != 0:
			case rows[0].AddrError != "":
				ttl = failureTTL
			default:
				ttl = time.Minute
			}
			// The cache has the answer, and nothing else that the server said.
			files, err := openBase(st, nil)
			must.OK(t, err)
			defer files.Close()
			kept := merged(t, files)
			if len(kept) != 1 {
				t.Fatalf("the cache holds %+v", kept)
			}
			e := kept[0]
			asked := "" // is known of failures
			if e.AddrError != StatusOK {
				asked = r.asked
			}
			if e.Host != host || e.Addr+e.AddrError != c.want || e.AddrExpires != record.TimeOf(testNow.Add(ttl)) || e.Via != asked {
				t.Errorf("the cache holds %+v; want %q for %v", e, c.want, ttl)
			}
			addrs, err := parseAddrs(e.Addr)
			if err != nil || rows[0].Addr != FormatAddrs(rotated(addrs, rows[0].Key>>48)) || rows[0].AddrError != e.AddrError || rows[0].AddrExpires != e.AddrExpires {
				t.Errorf("row %+v, the cache holds %+v, %v", rows[0], e, err)
			}
		})
	}
}

func sendTCP(c net.Conn, m []byte) {
	c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...))
}

// TestWrongSource: what comes from another address than the one asked does not count.
func TestWrongSource(t *testing.T) {
	other, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	defer other.Close()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	defer pc.Close()
	go func() {
		buf := make([]byte, 1<<12)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			forged := reply(buf[:n], func(m *dns.Msg) { m.Answer = []dns.RR{a(m.Question[0].Name, "6.6.6.6", 60)} })
			other.WriteTo(forged, from)
			pc.WriteTo(reply(buf[:n], good), from)
		}
	}()
	r, err := New(Config{Servers: []string{pc.LocalAddr().String()}, Family: "4", Timeout: patience})
	must.OK(t, err)
	defer r.Close()
	if got := r.Lookup(t.Context(), "host.test"); FormatAddrs(got.Addrs) != "127.0.0.1" {
		t.Errorf("%+v", got)
	}
}

// TestNobodyListens: the system says so at once, and the other server answers.
func TestNobodyListens(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	dead := pc.LocalAddr().String()
	pc.Close()
	alone, err := New(Config{Servers: []string{dead}, Family: "4", Timeout: patience})
	must.OK(t, err)
	defer alone.Close()
	if got := alone.Lookup(t.Context(), "host.test"); got.Status != StatusNetwork {
		t.Errorf("%+v", got)
	}
	beside, err := New(Config{Servers: []string{dead, rawServer(t, func(q []byte) [][]byte { return [][]byte{reply(q, good)} }, nil)}, Family: "4", Timeout: patience})
	must.OK(t, err)
	defer beside.Close()
	for i := range 50 {
		if got := beside.Lookup(t.Context(), fmt.Sprintf("host%d.test", i)); FormatAddrs(got.Addrs) != "127.0.0.1" {
			t.Fatalf("%d: %+v", i, got)
		}
	}
}

// TestDeadServerIsPassedOver: after a few time-outs the questions go to the others, and
// no name is lost.
func TestDeadServerIsPassedOver(t *testing.T) {
	live := func() string {
		return rawServer(t, func(q []byte) [][]byte { return [][]byte{reply(q, good)} }, nil)
	}
	r, err := New(Config{Servers: []string{"127.0.0.1", live(), live()}, Family: "4", Timeout: patience})
	must.OK(t, err)
	defer r.Close()
	dead := &deaf{}
	r.servers[0].main = inBackground(dead)
	for i := range 500 {
		if got := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i)); FormatAddrs(got.Addrs) != "127.0.0.1" {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	// It is asked again when its pause has ended, which a slow machine may see some times.
	if n := dead.asked.Load(); n < tolerance || n > 100 {
		t.Errorf("the dead server was asked %d times", n)
	}
}

// deaf is a server that has no time to answer.
type deaf struct{ asked atomic.Int32 }

func (d *deaf) exchange(context.Context, *query, time.Duration) ([]byte, error) {
	d.asked.Add(1)
	return nil, os.ErrDeadlineExceeded
}

func (*deaf) close() {}

// TestSockets: questions come from a few ports, whatever their number.
func TestSockets(t *testing.T) {
	ports := map[int]bool{}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	served := make(chan bool)
	go func() {
		defer close(served)
		buf := make([]byte, 1<<12)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			ports[from.(*net.UDPAddr).Port] = true
			pc.WriteTo(reply(buf[:n], good), from)
		}
	}()
	r, err := New(Config{Servers: []string{pc.LocalAddr().String()}, Family: "4", Timeout: patience})
	must.OK(t, err)
	defer r.Close()
	for i := range 200 {
		r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i))
	}
	pc.Close()
	<-served
	if len(ports) != udpSockets {
		t.Errorf("%d ports for 200 questions", len(ports))
	}
}

// TestCaseIsRandom: the letters of equal names differ from question to question.
func TestCaseIsRandom(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		q, err := newQuery("abcdefgh.ijklmnop.test.", dns.TypeA)
		must.OK(t, err)
		seen[string(q.wire[headerLen:q.end])] = true
		if q.compare(append([]byte{0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0}, q.wire[headerLen:q.end]...)) != nil {
			t.Fatal("a query is not like itself")
		}
	}
	if len(seen) < 90 {
		t.Errorf("%d spellings of 100", len(seen))
	}
}

func FuzzCompare(f *testing.F) {
	q, err := newQuery("host.example.test.", dns.TypeAAAA)
	must.OK(f, err)
	f.Add(reply(q.wire, good))
	f.Add(q.wire[:q.end])
	f.Fuzz(func(t *testing.T, m []byte) {
		if err := q.compare(m); errors.Is(err, errBadReply) {
			return
		}
		var in dns.Msg
		if in.Unpack(m) != nil {
			return
		}
		if !in.Response || len(in.Question) != 1 || !strings.EqualFold(in.Question[0].Name, "host.example.test.") || in.Question[0].Qtype != dns.TypeAAAA {
			t.Errorf("taken for a reply: %v", in.Question)
		}
		var ttl time.Duration = time.Hour
		answersOf(&in, "host.example.test.", &ttl)
	})
}

// numbers are those from 0 to n-1.
func numbers(n int) (list []any) {
	for i := range n {
		list = append(list, i)
	}
	return list
}
