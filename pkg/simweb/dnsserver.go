package simweb

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// ttl of all records, in seconds.
const ttl = 3600

// NameServer answers DNS queries over UDP and TCP.
type NameServer struct {
	Addr netip.AddrPort // where it listens

	opts NameOptions
	udp  *dns.Server
	tcp  *dns.Server
	wait sync.WaitGroup
}

// NameOptions say what a name server answers.
type NameOptions struct {
	Lookup func(name string) Answer        // Lookup of a Web or an Archive
	Delay  func(name string) time.Duration // how long an answer is held back; nil is not at all
	One    netip.Addr                      // if valid, the address of every host, instead of one each
	IPv6   bool                            // hosts with an even number also have the address ::1
}

// ServeNames starts a name server on address, such as "127.0.0.1:0"; port 0
// takes one that is free in both UDP and TCP.
func ServeNames(address string, opts NameOptions) (*NameServer, error) {
	var conn net.PacketConn
	var listener net.Listener
	var err error
	for range 10 { // the port that UDP found free may be taken in TCP
		if conn, err = net.ListenPacket("udp", address); err != nil {
			return nil, err
		}
		if listener, err = net.Listen("tcp", conn.LocalAddr().String()); err == nil {
			break
		}
		conn.Close()
	}
	if err != nil {
		return nil, err
	}
	s := &NameServer{opts: opts, Addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	s.udp = &dns.Server{PacketConn: conn, Handler: s}
	s.tcp = &dns.Server{Listener: listener, Handler: s, IdleTimeout: func() time.Duration { return 10 * time.Second }}
	for _, server := range []*dns.Server{s.udp, s.tcp} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		s.wait.Go(func() {
			// It ends with the error of its closed socket.
			server.ActivateAndServe()
		})
		<-started
	}
	return s, nil
}

// Close stops the server and waits for it.
func (s *NameServer) Close() error {
	err := s.udp.Shutdown()
	if e := s.tcp.Shutdown(); err == nil {
		err = e
	}
	s.wait.Wait()
	return err
}

// ServeDNS implements dns.Handler.
func (s *NameServer) ServeDNS(to dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	m.Authoritative, m.RecursionAvailable = true, true
	if q.Opcode != dns.OpcodeQuery || len(q.Question) != 1 || q.Question[0].Qclass != dns.ClassINET {
		m.Rcode = dns.RcodeNotImplemented
		to.WriteMsg(m)
		return
	}
	question := q.Question[0]
	if s.opts.Delay != nil {
		time.Sleep(s.opts.Delay(question.Name))
	}
	a := s.opts.Lookup(question.Name)
	m.Rcode = a.Rcode
	owner := question.Name
	header := func(t uint16) dns.RR_Header {
		return dns.RR_Header{Name: owner, Rrtype: t, Class: dns.ClassINET, Ttl: ttl}
	}
	if a.Alias != "" {
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: header(dns.TypeCNAME), Target: dns.Fqdn(a.Alias)})
		owner = dns.Fqdn(a.Alias)
	}
	switch {
	case !a.Addr.IsValid():
	case question.Qtype == dns.TypeA:
		if s.opts.One.IsValid() { // all others are dead
			a.Addr, a.Dead = s.opts.One, nil
		}
		for _, addr := range a.all() {
			if addr.Is4() {
				m.Answer = append(m.Answer, &dns.A{Hdr: header(dns.TypeA), A: addr.AsSlice()})
			}
		}
	case question.Qtype == dns.TypeAAAA && (s.opts.IPv6 && a.Addr.As4()[3]%2 == 1 || !s.opts.IPv6 && !s.opts.One.IsValid() && slices.Contains(a.Dead, refusingAddr)):
		m.Answer = append(m.Answer, &dns.AAAA{Hdr: header(dns.TypeAAAA), AAAA: net.IPv6loopback})
	}
	if len(m.Answer) == 0 && a.Rcode != dns.RcodeServerFailure { // how long the absence may be remembered (RFC 2308)
		m.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: Suffix[1:] + ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
			Ns: "ns" + Suffix + ".", Mbox: "admin" + Suffix + ".", Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, Minttl: ttl}}
	}
	to.WriteMsg(m)
}
