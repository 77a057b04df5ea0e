package main

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/rogpeppe/go-internal/testscript"
	"net"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mresolve": main})
}

// TestScripts runs testdata/script with a name server on loopback, whose
// address is in $DNS: aN.test has the address 127.0.0.N, anything else does not
// exist.
func TestScripts(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		name := strings.ToLower(q.Question[0].Name)
		if len(name) == len("a1.test.") && name[0] == 'a' && name[2:] == ".test." {
			if q.Question[0].Qtype == dns.TypeA {
				m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: net.IPv4(127, 0, 0, name[1]-'0')}}
			}
		} else {
			m.Rcode = dns.RcodeNameError
		}
		if err := w.WriteMsg(m); err != nil {
			t.Log(err)
		}
	})}
	go s.ActivateAndServe()
	t.Cleanup(func() { s.Shutdown() })
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: func(e *testscript.Env) error { e.Setenv("DNS", pc.LocalAddr().String()); return nil },
	})
}
