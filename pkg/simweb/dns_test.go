package simweb

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"mercator/pkg/base/must"
)

func TestNameServer(t *testing.T) {
	w := mustNew(t, small)
	s, err := ServeNames("127.0.0.1:0", NameOptions{Lookup: w.Lookup, IPv6: true})
	must.OK(t, err)
	defer s.Close()
	for _, c := range []struct {
		name  string
		qtype uint16
		rcode int
		want  []string
	}{
		{"h0.mweb.test.", dns.TypeA, dns.RcodeSuccess, []string{"127.1.0.1"}},
		{"H3.Mweb.TEST.", dns.TypeA, dns.RcodeSuccess, []string{"127.1.0.4"}},
		{"xn--bcher-kva.h5.mweb.test.", dns.TypeA, dns.RcodeSuccess, []string{"127.1.0.6"}},
		{"h6.mweb.test.", dns.TypeA, dns.RcodeSuccess, []string{"real.h6.mweb.test.", "127.1.0.7"}},
		{"real.h6.mweb.test.", dns.TypeA, dns.RcodeSuccess, []string{"127.1.0.7"}},
		{"h6.mweb.test.", dns.TypeAAAA, dns.RcodeSuccess, []string{"real.h6.mweb.test.", "::1"}},
		{"h2.mweb.test.", dns.TypeAAAA, dns.RcodeSuccess, []string{"::1"}},
		{"h3.mweb.test.", dns.TypeAAAA, dns.RcodeSuccess, nil},
		{"h3.mweb.test.", dns.TypeMX, dns.RcodeSuccess, nil},
		{"real.h3.mweb.test.", dns.TypeA, dns.RcodeNameError, nil},
		{"h5.mweb.test.", dns.TypeA, dns.RcodeNameError, nil},
		{"h24.mweb.test.", dns.TypeA, dns.RcodeNameError, nil},
		{"h-1.mweb.test.", dns.TypeA, dns.RcodeNameError, nil},
		{"nxdomain1.mweb.test.", dns.TypeA, dns.RcodeNameError, nil},
		{"servfail1.mweb.test.", dns.TypeA, dns.RcodeServerFailure, nil},
		{"www.example.org.", dns.TypeA, dns.RcodeNameError, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, network := range []string{"udp", "tcp"} {
				q := new(dns.Msg).SetQuestion(c.name, c.qtype)
				a, _, err := (&dns.Client{Net: network, Timeout: time.Minute}).Exchange(q, s.Addr.String())
				if err != nil {
					t.Fatalf("%s over %s: %v", c.name, network, err)
				}
				var got []string
				for _, rr := range a.Answer {
					switch rr := rr.(type) {
					case *dns.A:
						got = append(got, rr.A.String())
					case *dns.AAAA:
						got = append(got, rr.AAAA.String())
					case *dns.CNAME:
						got = append(got, rr.Target)
					}
				}
				if a.Rcode != c.rcode || len(got) != len(c.want) || len(got) > 0 && got[len(got)-1] != c.want[len(c.want)-1] {
					t.Errorf("%s %s over %s: %s %v, want %s %v", c.name, dns.TypeToString[c.qtype], network,
						dns.RcodeToString[a.Rcode], got, dns.RcodeToString[c.rcode], c.want)
				}
			}
		})
	}
}

// Addresses of hosts differ, and none ends in 0 or 255.
func TestHostAddr(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for h := range 1_000_000 {
		a := HostAddr(h)
		if last := a.As4()[3]; seen[a] || !a.IsLoopback() || last == 0 || last == 255 {
			t.Fatalf("host %d has address %v", h, a)
		}
		seen[a] = true
	}
}

// Listen takes connections to the address of any host, where it can.
func TestListen(t *testing.T) {
	listeners, one, err := Listen(0, false, false)
	must.OK(t, err)
	w := mustNew(t, small)
	s := &Server{Respond: w.Calm()}
	go s.Serve(listeners[0])
	defer s.Close()
	for h := range 3 {
		addr := HostAddr(h * 100_000)
		if one.IsValid() {
			addr = one
		}
		conn, err := net.Dial("tcp", netip.AddrPortFrom(addr, uint16(Port(listeners[0]))).String())
		must.OK(t, err)
		conn.Close()
	}
}
