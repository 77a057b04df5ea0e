package resolve

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"mercator/pkg/base/must"
)

// FuzzBrief: what is read of a reply by brief is what the library reads.
func FuzzBrief(f *testing.F) {
	qa, _ := newQuery("host.test.", dns.TypeA)
	q6, _ := newQuery("host.test.", dns.TypeAAAA)
	r := &Resolver{cfg: Config{MinTTL: time.Second, MaxTTL: 24 * time.Hour}}
	soa := "test. 90 IN SOA ns.test. root.test. 1 2 3 4 60"
	for _, q := range []*query{&qa, &q6} {
		for _, change := range []func(m *dns.Msg){
			good,
			func(m *dns.Msg) { good(m); good(m); m.Answer[0].Header().Ttl = 1 << 31 },
			func(m *dns.Msg) { m.Answer = append(m.Answer, rr(f, "host.test. 9 IN AAAA 2001:db8::1")) },
			func(m *dns.Msg) { m.Ns = append(m.Ns, rr(f, soa)); m.Rcode = dns.RcodeNameError },
			func(m *dns.Msg) { m.Ns = append(m.Ns, rr(f, soa)); m.SetEdns0(1232, false) },
			func(m *dns.Msg) { m.Extra = append(m.Extra, rr(f, soa)) },
			func(m *dns.Msg) { m.SetEdns0(1232, false); m.Rcode = dns.RcodeBadVers },
			func(m *dns.Msg) { m.Answer = append(m.Answer, cname("host.test.", "other.test.")) },
			func(m *dns.Msg) { m.Rcode = dns.RcodeServerFailure },
		} {
			m := reply(q.wire, func(m *dns.Msg) { change(m); m.Compress = true })
			f.Add(q == &q6, m[q.end:], m[3], m[7], m[9], m[11])
		}
	}
	f.Fuzz(func(t *testing.T, six bool, body []byte, flags, answers, authority, more byte) {
		q := &qa
		if six {
			q = &q6
		}
		m := append(slices.Clone(q.wire[:q.end]), body...)
		m[2], m[3], m[5], m[7], m[9], m[11] = 0x81, flags, 1, answers, authority, more
		b, ok := q.brief(m)
		whole, err := q.unpack(m)
		if !ok || err != nil {
			return
		}
		ttl := 24 * time.Hour * 365 * 200
		addrs, alias := answersOf(whole, "host.test.", &ttl)
		if !slices.Equal(addrs, b.addrs) || alias != "" || whole.Rcode != b.rcode || len(addrs) > 0 && ttl != seconds(b.ttl) {
			t.Errorf("%+v, the library reads %v %q %v %d", b, addrs, alias, ttl, whole.Rcode)
		}
		if x, y := (&question{r: r, brief: b}).negative(), (&question{r: r, reply: whole}).negative(); len(addrs) == 0 && x != y {
			t.Errorf("kept for %v, by the library %v", x, y)
		}
	})
}

// TestBriefIsUsed: replies as name servers write them need no library.
func TestBriefIsUsed(t *testing.T) {
	q, err := newQuery("host.test.", dns.TypeA)
	must.OK(t, err)
	for want, change := range map[string]func(m *dns.Msg){
		"[127.0.0.1] 0 60 false 0s": func(m *dns.Msg) { good(m); m.SetEdns0(1232, false) },
		"[] 3 0 true 30s":           func(m *dns.Msg) { m.Rcode = 3; m.Ns = append(m.Ns, rr(t, "test. 90 IN SOA a. b. 1 2 3 4 30")) },
		"[] 0 0 false 0s":           func(*dns.Msg) {},
	} {
		t.Run(want, func(t *testing.T) {
			b, ok := q.brief(reply(q.wire, func(m *dns.Msg) { change(m); m.Compress = true }))
			if got := fmt.Sprintf("%v %d %v %v %v", b.addrs, b.rcode, b.ttl, b.soa, b.minimum); !ok || got != want {
				t.Errorf("%s %v, want %s", got, ok, want)
			}
		})
	}
	for why, change := range map[string]func(m *dns.Msg){
		"two lives":        func(m *dns.Msg) { good(m); m.Answer = append(m.Answer, a(m.Question[0].Name, "127.0.0.9", 9)) },
		"an address twice": func(m *dns.Msg) { good(m); good(m) },
	} {
		if b, ok := q.brief(reply(q.wire, func(m *dns.Msg) { change(m); m.Compress = true })); ok {
			t.Errorf("%s: %+v, want none", why, b)
		}
	}
}

// TestServerWithoutEDNS: a server that does not know EDNS is asked again without its record. Some such
// servers repeat only the id of the query.
func TestServerWithoutEDNS(t *testing.T) {
	header := func(q []byte, rcode byte) []byte {
		return []byte{q[0], q[1], 0x81, 0x80 | rcode, 0, 0, 0, 0, 0, 0, 0, 0}
	}
	code := func(q []byte, rcode int) []byte { return reply(q, func(m *dns.Msg) { m.Rcode = rcode }) }
	for _, c := range []struct {
		kind string
		says func(q []byte) []byte
	}{
		{"FORMERR", func(q []byte) []byte { return code(q, dns.RcodeFormatError) }},
		{"NOTIMP", func(q []byte) []byte { return code(q, dns.RcodeNotImplemented) }},
		{"BADVERS", func(q []byte) []byte {
			return reply(q, func(m *dns.Msg) { m.SetEdns0(1232, false); m.Rcode = dns.RcodeBadVers })
		}},
		{"FORMERR alone", func(q []byte) []byte { return header(q, dns.RcodeFormatError) }},
		{"NOTIMP alone", func(q []byte) []byte { return header(q, dns.RcodeNotImplemented) }},
	} {
		t.Run(c.kind, func(t *testing.T) {
			answer := func(q []byte) []byte {
				if q[11] != 0 { // there is an additional record
					return c.says(q)
				}
				return reply(q, good)
			}
			for _, addr := range []string{cutServer(t, func(c net.Conn, q []byte) { sendTCP(c, answer(q)) }), rawServer(t, func(q []byte) [][]byte { return [][]byte{answer(q)} }, nil)} {
				r, err := New(Config{Servers: []string{addr}, Family: "4", Timeout: patience})
				must.OK(t, err)
				if a := r.Lookup(t.Context(), "host.test"); FormatAddrs(a.Addrs) != "127.0.0.1" {
					t.Errorf("%s: %+v", addr, a)
				}
				if res := oneName(t, r, "host.test", "TXT"); res.Status != "NOERROR" {
					t.Errorf("%s: %+v", addr, res)
				}
				r.Close()
			}
		})
	}
}

// TestServerThatReadsNothing costs nobody the answer of another, whether it takes offence at EDNS
// or not, and is one that answers.
func TestServerThatReadsNothing(t *testing.T) {
	for _, alone := range []bool{true, false} {
		bad := rawServer(t, func(q []byte) [][]byte {
			if alone {
				return [][]byte{{q[0], q[1], 0x81, 0x80 | dns.RcodeFormatError, 0, 0, 0, 0, 0, 0, 0, 0}}
			}
			return [][]byte{reply(q, func(m *dns.Msg) { m.Rcode = dns.RcodeFormatError })}
		}, nil)
		other := rawServer(t, func(q []byte) [][]byte { return [][]byte{reply(q, good)} }, nil)
		r, err := New(Config{Servers: []string{bad, other}, Family: "4", Timeout: patience})
		must.OK(t, err)
		for i := range 4 { // each server is the first twice
			if a := r.Lookup(t.Context(), fmt.Sprintf("host%d.test", i)); FormatAddrs(a.Addrs) != "127.0.0.1" {
				t.Errorf("%+v", a)
			}
		}
		r.Close()
		r, err = New(Config{Servers: []string{bad}, Timeout: patience})
		must.OK(t, err)
		if !r.reachable(t.Context()) {
			t.Error("a server that answers is taken for none")
		}
		r.Close()
	}
}
