// Package resolve turns host names into addresses: many questions at a time,
// and a cache on disk (cache.go) that a round looks up by one merge.
//
// Mercator wrote its own resolver because the system's answered one request at
// a time, which was 87 % of a thread's elapsed time (Heydon and Najork 1999,
// section 5.3).
//
// # Invariants
//
//   - Each Lookup returns one Answer, and no error: what went wrong is its Status.
//   - Questions in flight, attempts, the length of a CNAME chain and the number
//     of addresses of an answer are bounded.
//   - An answer counts only if its id and its question are those that were asked.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"mercator/pkg/fault"
)

// Status of an answer, in lower case as it stands in column addr_error.
const (
	StatusOK        = "" // there is at least one address
	StatusNXDomain  = "nxdomain"
	StatusNoAddress = "no-address" // the name exists, without an address
	StatusServFail  = "servfail"
	StatusRefused   = "refused"
	StatusTimeout   = "timeout"
	StatusNetwork   = "network-error"
	StatusBadReply  = "bad-reply"
	StatusChain     = "cname-chain" // longer than MaxChain, or a loop
	StatusBadName   = "bad-name"
	StatusCancelled = "cancelled"
)

// Limits on what a server can make us do.
const (
	MaxChain = 16 // CNAMEs from a name to its addresses
	MaxAddrs = 16 // addresses kept of a name
)

// udpPayload is the EDNS0 size asked for: it avoids fragmentation (RFC 9715).
const udpPayload = 1232

// Config of a Resolver. Zero fields take the defaults.
type Config struct {
	Servers  []string         // ADDR, ADDR:PORT or [ADDR]:PORT; default: those of /etc/resolv.conf
	InFlight int              // questions at a time [1000]
	Timeout  time.Duration    // of the first attempt; each further one waits twice as long [1s]
	Attempts int              // questions asked in all before a name counts as timed out [5]
	MinTTL   time.Duration    // answers are kept at least this long [1m]
	MaxTTL   time.Duration    // and at most this long [24h]
	Family   string           // "any": IPv4 addresses, then IPv6; "4" or "6": only those ["any"]
	Now      func() time.Time // [time.Now]
}

// Negative answers are kept as RFC 2308 says: no-such-name for the SOA's
// minimum, within these bounds; a server's failure briefly (section 7).
const (
	maxNegativeTTL = 3 * time.Hour
	failureTTL     = 30 * time.Second
)

// Answer is what became of a name.
type Answer struct {
	Name    string       // as asked, without port, lower case
	Addrs   []netip.Addr // in order of preference
	CNAME   string       // canonical name, where it differs
	Status  string       // StatusOK or why there is no address
	Expires time.Time
	Server  string // that answered
	RTT     time.Duration
}

// Resolver asks DNS servers. Safe for many goroutines.
type Resolver struct {
	cfg     Config
	servers []string
	slots   chan struct{}
	next    atomic.Uint32

	mu     sync.Mutex
	asking map[string]*question // equal names in flight are asked once
}

type question struct {
	done chan struct{}
	ans  Answer
}

// New makes a resolver. fault.Usage if a server's address is none.
func New(cfg Config) (*Resolver, error) {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	defd := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&cfg.InFlight, 1000)
	def(&cfg.Attempts, 5)
	defd(&cfg.Timeout, time.Second)
	defd(&cfg.MinTTL, time.Minute)
	defd(&cfg.MaxTTL, 24*time.Hour)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	switch cfg.Family {
	case "":
		cfg.Family = "any"
	case "any", "4", "6":
	default:
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("address family %q", cfg.Family), Want: "any, 4 or 6"}
	}
	if cfg.MaxTTL < cfg.MinTTL {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("longest time to live %v", cfg.MaxTTL), Want: fmt.Sprintf("at least the shortest, %v", cfg.MinTTL)}
	}
	r := &Resolver{cfg: cfg, slots: make(chan struct{}, cfg.InFlight), asking: map[string]*question{}}
	servers := cfg.Servers
	if len(servers) == 0 {
		var err error
		if servers, err = systemServers("/etc/resolv.conf"); err != nil {
			return nil, err
		}
	}
	for _, s := range servers {
		ap, err := parseServer(s)
		if err != nil {
			return nil, err
		}
		r.servers = append(r.servers, ap)
	}
	return r, nil
}

func systemServers(path string) ([]string, error) {
	conf, err := dns.ClientConfigFromFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = &fault.Error{Class: fault.Usage, File: path, Found: "no such file", Hint: "name a DNS server with --server"}
		}
		return nil, err
	}
	if len(conf.Servers) == 0 {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "no nameserver", Hint: "name a DNS server with --server"}
	}
	var out []string
	for _, s := range conf.Servers {
		out = append(out, net.JoinHostPort(s, conf.Port))
	}
	return out, nil
}

func parseServer(s string) (string, error) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return netip.AddrPortFrom(a, 53).String(), nil
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return "", &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("DNS server %q", s), Want: "an IP address, with :PORT or without"}
	}
	return ap.String(), nil
}

// Literal answers names that need no server: IP addresses, and localhost with
// all below it (RFC 6761, section 6.3).
func Literal(host string) ([]netip.Addr, bool) {
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return []netip.Addr{a.Unmap()}, true
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, true
	}
	return nil, false
}

// Name is the name in a row's host: without port, brackets and trailing dot.
func Name(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") && strings.Count(host[i:], "]") == 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// Lookup resolves a name (see Name). It waits for a free slot.
func (r *Resolver) Lookup(ctx context.Context, name string) Answer {
	if addrs, ok := Literal(name); ok {
		return r.end(r.wanted(Answer{Name: name, Addrs: addrs}), r.cfg.MaxTTL)
	}
	if _, ok := dns.IsDomainName(name); !ok || name == "" || len(name) > 253 {
		return r.end(Answer{Name: name, Status: StatusBadName}, failureTTL)
	}
	r.mu.Lock()
	if q := r.asking[name]; q != nil {
		r.mu.Unlock()
		select {
		case <-q.done:
			return q.ans
		case <-ctx.Done():
			return Answer{Name: name, Status: StatusCancelled}
		}
	}
	q := &question{done: make(chan struct{})}
	r.asking[name] = q
	r.mu.Unlock()
	q.ans = r.resolve(ctx, name)
	r.mu.Lock()
	delete(r.asking, name)
	r.mu.Unlock()
	close(q.done)
	return q.ans
}

// family keeps the addresses wanted, IPv4 before IPv6.
func (r *Resolver) family(addrs []netip.Addr) []netip.Addr {
	var four, six []netip.Addr
	for _, a := range addrs {
		if a.Is4() {
			four = append(four, a)
		} else {
			six = append(six, a)
		}
	}
	switch r.cfg.Family {
	case "4":
		return four
	case "6":
		return six
	}
	return append(four, six...)
}

// wanted leaves an answer the addresses of the family wanted.
func (r *Resolver) wanted(a Answer) Answer {
	if a.Addrs = r.family(a.Addrs); a.Status == StatusOK && len(a.Addrs) == 0 {
		a.Status = StatusNoAddress
	}
	return a
}

func (r *Resolver) end(a Answer, ttl time.Duration) Answer {
	a.Expires = r.cfg.Now().Add(ttl)
	return a
}

// found is what one question type gave.
type found struct {
	addrs  []netip.Addr
	cname  string
	status string
	ttl    time.Duration
	server string
	rtt    time.Duration
}

// resolve asks for both address families at once and joins what comes.
func (r *Resolver) resolve(ctx context.Context, name string) Answer {
	types := []uint16{dns.TypeA, dns.TypeAAAA}
	switch r.cfg.Family {
	case "4":
		types = types[:1]
	case "6":
		types = types[1:]
	}
	got := make([]found, len(types))
	var wg sync.WaitGroup
	if len(types) > 1 {
		wg.Go(func() { got[1] = r.follow(ctx, name, types[1]) })
	}
	got[0] = r.follow(ctx, name, types[0])
	wg.Wait()
	a := Answer{Name: name, Server: got[0].server, RTT: got[0].rtt}
	ttl := r.cfg.MaxTTL
	for _, f := range got {
		a.Addrs = append(a.Addrs, f.addrs...)
		if len(f.addrs) > 0 {
			ttl = min(ttl, f.ttl)
			a.CNAME = f.cname
		}
	}
	if len(a.Addrs) > 0 {
		a.Addrs = a.Addrs[:min(len(a.Addrs), MaxAddrs)]
		return r.end(a, max(ttl, r.cfg.MinTTL))
	}
	// The first family's failure stands for both, unless only it has none.
	f := got[0]
	if f.status == StatusNoAddress && len(got) > 1 {
		f = got[1]
	}
	a.Status = f.status
	return r.end(a, f.ttl)
}

// follow asks for one type and walks the CNAME chain, asking again where the
// server left it open.
func (r *Resolver) follow(ctx context.Context, name string, qtype uint16) found {
	target := wireName(name)
	ttl := r.cfg.MaxTTL
	seen := map[string]bool{target: true}
	for {
		reply, server, rtt, status := r.ask(ctx, target, qtype)
		f := found{status: status, ttl: failureTTL, server: server, rtt: rtt}
		if status != "" {
			return f
		}
		cnames := map[string]*dns.CNAME{}
		addrs := map[string][]netip.Addr{}
		for _, rr := range reply.Answer {
			owner := strings.ToLower(rr.Header().Name)
			switch rr := rr.(type) {
			case *dns.CNAME:
				cnames[owner] = rr
			case *dns.A:
				if a, ok := netip.AddrFromSlice(rr.A.To4()); ok && qtype == dns.TypeA {
					addrs[owner] = append(addrs[owner], a)
					ttl = min(ttl, seconds(rr.Hdr.Ttl))
				}
			case *dns.AAAA:
				if a, ok := netip.AddrFromSlice(rr.AAAA); ok && qtype == dns.TypeAAAA {
					addrs[owner] = append(addrs[owner], a)
					ttl = min(ttl, seconds(rr.Hdr.Ttl))
				}
			}
		}
		moved := false
		for cnames[target] != nil && len(addrs[target]) == 0 {
			ttl = min(ttl, seconds(cnames[target].Hdr.Ttl))
			target = strings.ToLower(cnames[target].Target)
			moved = true
			if seen[target] || len(seen) > MaxChain {
				f.status = StatusChain
				return f
			}
			seen[target] = true
		}
		if len(addrs[target]) > 0 {
			f.addrs, f.ttl = addrs[target], ttl
			if c := strings.TrimSuffix(target, "."); c != name {
				f.cname = c
			}
			return f
		}
		if reply.Rcode == dns.RcodeNameError {
			f.status, f.ttl = StatusNXDomain, r.negativeTTL(reply)
			return f
		}
		if !moved || ctx.Err() != nil {
			f.status, f.ttl = StatusNoAddress, r.negativeTTL(reply)
			return f
		}
	}
}

func seconds(ttl uint32) time.Duration { return time.Duration(ttl) * time.Second }

// negativeTTL is RFC 2308, section 5: the lesser of the SOA's own TTL and its
// minimum field.
func (r *Resolver) negativeTTL(m *dns.Msg) time.Duration {
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			ttl := seconds(min(soa.Hdr.Ttl, soa.Minttl))
			return min(max(ttl, r.cfg.MinTTL), maxNegativeTTL, r.cfg.MaxTTL)
		}
	}
	return r.cfg.MinTTL
}

// ask sends one question, to one server after another, until a reply comes that
// says something. status is "" for NOERROR and NXDOMAIN.
func (r *Resolver) ask(ctx context.Context, name string, qtype uint16) (reply *dns.Msg, server string, rtt time.Duration, status string) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, "", 0, StatusCancelled
	}
	timeout := r.cfg.Timeout
	status = StatusTimeout
	first := int(r.next.Add(1))
	for i := range r.cfg.Attempts {
		server = r.servers[(first+i)%len(r.servers)]
		m, d, err := exchange(ctx, server, name, qtype, timeout)
		rtt = d
		switch {
		case ctx.Err() != nil:
			return nil, server, d, StatusCancelled
		case err == nil:
			switch m.Rcode {
			case dns.RcodeSuccess, dns.RcodeNameError:
				return m, server, d, ""
			case dns.RcodeServerFailure:
				status = StatusServFail
			case dns.RcodeRefused:
				status = StatusRefused
			default:
				status = StatusBadReply
			}
			// Another server may do better; asking the same again rarely does.
			if i+1 >= len(r.servers) {
				return nil, server, d, status
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			status = StatusTimeout
			timeout *= 2
		case errors.Is(err, errBadReply):
			status = StatusBadReply
		default:
			status = StatusNetwork
			if i+1 >= 2*len(r.servers) {
				return nil, server, d, status
			}
		}
	}
	return nil, server, rtt, status
}

var errBadReply = errors.New("not an answer to the question")

// exchange asks one server once, over UDP from a port and with an id that are
// random, and over TCP where the reply was cut.
func exchange(ctx context.Context, server, name string, qtype uint16, timeout time.Duration) (*dns.Msg, time.Duration, error) {
	q := new(dns.Msg)
	q.SetQuestion(name, qtype)
	q.SetEdns0(udpPayload, false)
	m, rtt, err := exchangeOver(ctx, "udp", server, q, timeout)
	if err == nil && m.Truncated {
		m, rtt, err = exchangeOver(ctx, "tcp", server, q, timeout)
	}
	return m, rtt, err
}

func exchangeOver(ctx context.Context, network, server string, q *dns.Msg, timeout time.Duration) (*dns.Msg, time.Duration, error) {
	start := time.Now()
	deadline := start.Add(timeout)
	d := net.Dialer{Deadline: deadline}
	c, err := d.DialContext(ctx, network, server)
	if err != nil {
		return nil, 0, err
	}
	conn := &dns.Conn{Conn: c, UDPSize: udpPayload}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.SetDeadline(deadline); err != nil {
		return nil, 0, err
	}
	if err := conn.WriteMsg(q); err != nil {
		return nil, time.Since(start), err
	}
	for {
		m, err := conn.ReadMsg()
		if err == nil && answers(m, q) {
			return m, time.Since(start), nil
		}
		var ne net.Error
		if err != nil && (network == "tcp" || errors.As(err, &ne) || errors.Is(err, net.ErrClosed)) {
			return nil, time.Since(start), err
		}
		if network == "tcp" {
			return nil, time.Since(start), errBadReply
		}
		// A datagram that is no answer may be forged: wait on for the true one.
	}
}

// wireName is a name as a reply spells it: absolute, and with characters escaped
// that have a meaning in zone files, which hosts of URLs may hold.
func wireName(name string) string {
	name = dns.Fqdn(name)
	buf := make([]byte, 256) // RFC 1035, section 2.3.4: 255 at most
	if _, err := dns.PackDomainName(name, buf, 0, nil, false); err != nil {
		return name
	}
	if wire, _, err := dns.UnpackDomainName(buf, 0); err == nil {
		return wire
	}
	return name
}

// answers says whether m is a reply to q: id and question alike (RFC 5452).
func answers(m, q *dns.Msg) bool {
	return m.Id == q.Id && m.Response && len(m.Question) == 1 &&
		m.Question[0].Qtype == q.Question[0].Qtype && m.Question[0].Qclass == q.Question[0].Qclass &&
		strings.EqualFold(m.Question[0].Name, q.Question[0].Name)
}

// Raw asks for any record type and returns the reply as it came, for tools. The
// status is that of dns.RcodeToString, or "TIMEOUT" or "ERROR".
func (r *Resolver) Raw(ctx context.Context, name string, qtype uint16) (reply *dns.Msg, server string, rtt time.Duration, status string) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, "", 0, "ERROR"
	}
	timeout := r.cfg.Timeout
	first := int(r.next.Add(1))
	status = "TIMEOUT"
	for i := range r.cfg.Attempts {
		server = r.servers[(first+i)%len(r.servers)]
		m, d, err := exchange(ctx, server, wireName(name), qtype, timeout)
		if err == nil {
			return m, server, d, dns.RcodeToString[m.Rcode]
		}
		rtt = d
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			status = "ERROR"
		}
		timeout *= 2
	}
	return nil, server, rtt, status
}

// FormatAddrs writes addresses as column addr holds them.
func FormatAddrs(addrs []netip.Addr) string {
	s := make([]string, len(addrs))
	for i, a := range addrs {
		s[i] = a.String()
	}
	return strings.Join(s, ",")
}

// Rotate changes the order of a name's addresses of one family by its hash, so
// that the hosts behind one set of addresses spread over them.
func Rotate(addrs []netip.Addr, hash uint64) []netip.Addr {
	n := 0
	for n < len(addrs) && addrs[n].Is4() == addrs[0].Is4() {
		n++
	}
	if n < 2 {
		return addrs
	}
	k := int(hash % uint64(n))
	return slices.Concat(addrs[k:n], addrs[:k], addrs[n:])
}
