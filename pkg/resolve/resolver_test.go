package resolve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch/localfault"
)

// serve runs a DNS server on loopback for a test; answer fills in the reply, or
// returns false for silence.
func serve(t *testing.T, answer func(reply *dns.Msg, q dns.Question, tcp bool) bool) string {
	t.Helper()
	pc, l := listenBoth(t)
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(r)
		q := r.Question[0]
		q.Name = strings.ToLower(q.Name)
		if _, tcp := w.RemoteAddr().(*net.TCPAddr); answer(m, q, tcp) {
			if err := w.WriteMsg(m); err != nil {
				t.Logf("reply: %v", err)
			}
		}
	})
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: handler}, {Listener: l, Handler: handler}} {
		var up sync.WaitGroup
		up.Add(1)
		s.NotifyStartedFunc = up.Done
		go s.ActivateAndServe()
		up.Wait()
		t.Cleanup(func() { s.Shutdown() })
	}
	return pc.LocalAddr().String()
}

// listenBoth finds a port that is free in UDP and in TCP.
func listenBoth(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 50 {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		must.OK(t, err)
		l, err := net.Listen("tcp", pc.LocalAddr().String())
		if err == nil {
			return pc, l
		}
		pc.Close()
	}
	t.Fatal("no port is free in both")
	return nil, nil
}

func rr(t testing.TB, s string) dns.RR {
	t.Helper()
	r, err := dns.NewRR(s)
	must.OK(t, err)
	return r
}

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// patience is longer than any answer takes that a test waits for.
const patience = 2 * time.Minute

func resolver(t *testing.T, servers ...string) *Resolver {
	t.Helper()
	r, err := New(Config{Servers: servers, InFlight: 32, Timeout: patience, Attempts: 3, Now: func() time.Time { return testNow }})
	must.OK(t, err)
	return r
}

func TestLookup(t *testing.T) {
	zone := map[string][]string{
		"one.test.":   {"one.test. 300 IN A 127.0.0.1"},
		"two.test.":   {"two.test. 300 IN A 127.0.0.2", "two.test. 7200 IN AAAA ::2"},
		"six.test.":   {"six.test. 300 IN AAAA ::6"},
		"alias.test.": {"alias.test. 120 IN CNAME one.test.", "one.test. 300 IN A 127.0.0.1"},
		"open.test.":  {"open.test. 300 IN CNAME one.test."},
		"loop.test.":  {"loop.test. 300 IN CNAME pool.test."},
		"pool.test.":  {"pool.test. 300 IN CNAME loop.test."},
		"brief.test.": {"brief.test. 1 IN A 127.0.0.3"},
		"long.test.":  {"long.test. 9999999 IN A 127.0.0.4"},
		"evil.test.":  {"other.test. 300 IN A 127.6.6.6"},
		"empty.test.": {},
		"twice.test.": {"twice.test. 300 IN A 127.0.0.1", "twice.test. 300 IN A 127.0.0.1", "twice.test. 300 IN A 127.0.0.2", "twice.test. 300 IN CNAME one.test."},
		// The answer is of as short a life as the alias, whatever the SOA record of no-such-name says.
		"gone.test.":   {"gone.test. 90 IN CNAME nowhere.test."},
		"bare.test.":   {"bare.test. 90 IN CNAME naked.test."},
		"hidden.test.": {"hidden.test. 90 IN CNAME x.Onion."},
		"naked.test.":  {},
	}
	soa := rr(t, "test. 600 IN SOA ns.test. root.test. 1 2 3 4 500")
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		records, ok := zone[strings.ToLower(q.Name)]
		switch {
		case q.Name == "fail.test.":
			m.Rcode = dns.RcodeServerFailure
		case q.Name == "refused.test.":
			m.Rcode = dns.RcodeRefused
		case q.Name == "silent.test.":
			return false
		case !ok:
			m.Rcode = dns.RcodeNameError
			m.Ns = append(m.Ns, soa)
		case strings.HasSuffix(q.Name, "onion."):
			t.Errorf("asked for %s", q.Name)
		case q.Name == "naked.test.":
			m.Ns = append(m.Ns, soa)
		}
		for _, s := range records {
			if r := rr(t, s); r.Header().Rrtype == q.Qtype || r.Header().Rrtype == dns.TypeCNAME {
				m.Answer = append(m.Answer, r)
			}
		}
		return true
	})
	patient, hasty := resolver(t, addr), resolver(t, addr)
	hasty.cfg.Timeout = 10 * time.Millisecond
	for _, c := range []struct {
		name, addrs, status, cname string
		ttl                        time.Duration
	}{
		{"one.test", "127.0.0.1", "", "", 300 * time.Second},
		{"two.test", "127.0.0.2,::2", "", "", 300 * time.Second},
		{"six.test", "::6", "", "", 300 * time.Second},
		{"alias.test", "127.0.0.1", "", "one.test", 120 * time.Second},
		{"open.test", "127.0.0.1", "", "one.test", 300 * time.Second},
		{"loop.test", "", StatusChain, "", failureTTL},
		{"brief.test", "127.0.0.3", "", "", time.Minute},
		{"long.test", "127.0.0.4", "", "", 24 * time.Hour},
		{"evil.test", "", StatusNoAddress, "", time.Minute},
		{"empty.test", "", StatusNoAddress, "", time.Minute},
		{"nowhere.test", "", StatusNXDomain, "", 500 * time.Second},
		{"fail.test", "", StatusServFail, "", failureTTL},
		{"refused.test", "", StatusRefused, "", failureTTL},
		{"silent.test", "", StatusTimeout, "", failureTTL},
		{"", "", StatusBadName, "", failureTTL},
		{strings.Repeat("a", 64) + ".test", "", StatusBadName, "", failureTTL},
		{"127.1.2.3", "127.1.2.3", "", "", 24 * time.Hour},
		{"::1", "::1", "", "", 24 * time.Hour},
		{"localhost", "127.0.0.1,::1", "", "", 24 * time.Hour},
		{"twice.test", "127.0.0.1,127.0.0.2", "", "", 300 * time.Second},
		{"gone.test", "", StatusNXDomain, "", 90 * time.Second},
		{"bare.test", "", StatusNoAddress, "", 90 * time.Second},
		{"hidden.test", "", StatusNXDomain, "", time.Minute},
		{"x.onion", "", StatusNXDomain, "", maxNegativeTTL},
		{"invalid", "", StatusNXDomain, "", maxNegativeTTL},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := patient
			if c.status == StatusTimeout {
				r = hasty
			}
			a := r.Lookup(t.Context(), c.name)
			if got := FormatAddrs(a.Addrs); got != c.addrs || a.Status != c.status || a.CNAME != c.cname || !a.Expires.Equal(testNow.Add(c.ttl)) {
				t.Errorf("%q: %q %q %q for %v; want %q %q %q for %v", c.name, got, a.Status, a.CNAME, a.Expires.Sub(testNow), c.addrs, c.status, c.cname, c.ttl)
			}
		})
	}
}

func TestTruncatedReplyIsAskedOverTCP(t *testing.T) {
	addr := serve(t, func(m *dns.Msg, q dns.Question, tcp bool) bool {
		if !tcp {
			m.Truncated = true
			return true
		}
		for i := range 40 {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(127, 0, 1, byte(i))})
		}
		return true
	})
	a := resolver(t, addr).Lookup(t.Context(), "big.test")
	if len(a.Addrs) != MaxAddrs || a.Addrs[0] != netip.MustParseAddr("127.0.1.0") {
		t.Errorf("%d addresses %v, want the first %d", len(a.Addrs), a.Addrs, MaxAddrs)
	}
}

func TestForgedRepliesDoNotCount(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	defer pc.Close()
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			q := new(dns.Msg)
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			reply := func(change func(*dns.Msg), a byte) {
				m := new(dns.Msg)
				m.SetReply(q)
				if q.Question[0].Qtype == dns.TypeA {
					m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(127, 0, 0, a)}}
				}
				change(m)
				if b, err := m.Pack(); err == nil {
					pc.WriteTo(b, from)
				}
			}
			reply(func(m *dns.Msg) { m.Id++ }, 66)
			reply(func(m *dns.Msg) { m.Question[0].Name = "other.test." }, 67)
			reply(func(m *dns.Msg) { m.Response = false }, 68)
			reply(func(*dns.Msg) {}, 1)
		}
	}()
	a := resolver(t, pc.LocalAddr().String()).Lookup(t.Context(), "host.test")
	if got := FormatAddrs(a.Addrs); got != "127.0.0.1" {
		t.Errorf("took %q (%s)", got, a.Status)
	}
}

func TestAnotherServerIsAskedAfterAFailure(t *testing.T) {
	bad := serve(t, func(m *dns.Msg, _ dns.Question, _ bool) bool { m.Rcode = dns.RcodeServerFailure; return true })
	good := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		if q.Qtype == dns.TypeA {
			m.Answer = append(m.Answer, rr(t, q.Name+" 60 IN A 127.0.0.9"))
		}
		return true
	})
	r := resolver(t, bad, good)
	for range 4 { // whichever comes first
		if a := r.Lookup(t.Context(), "host.test"); FormatAddrs(a.Addrs) != "127.0.0.9" {
			t.Fatalf("%+v", a)
		}
	}
}

// TestServersWhereNobodyListens: they take no attempts from one that is slow.
func TestServersWhereNobodyListens(t *testing.T) {
	var asked atomic.Int32
	slow := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		m.Answer = append(m.Answer, rr(t, q.Name+" 60 IN A 127.0.0.9"))
		return asked.Add(1) > 2
	})
	// Ports that nothing is given by chance: one that was just closed may be another test's next socket, which says nothing.
	const nobody, nobodyElse = "127.0.0.1:1", "127.0.0.1:2"
	servers := []string{slow, nobody, nobodyElse}
	for range servers {
		asked.Store(0)
		r, err := New(Config{Servers: servers, InFlight: 32, Timeout: 20 * time.Millisecond, Attempts: 10, Family: "4"})
		must.OK(t, err)
		if a := r.Lookup(t.Context(), "host.test"); FormatAddrs(a.Addrs) != "127.0.0.9" {
			t.Errorf("%+v", a)
		}
		r.Close()
		servers = append(servers[1:], servers[0])
	}
	r := resolver(t, nobody, nobodyElse)
	if a := r.Lookup(t.Context(), "host.test"); a.Status != StatusNetwork {
		t.Errorf("%+v", a)
	}
}

// TestLookupKeepsAnswers: also those that there is no such name, or that no server answered, each
// as long as it is valid, and of any number of names so many.
func TestLookupKeepsAnswers(t *testing.T) {
	now := testNow
	var asked atomic.Int32
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		asked.Add(1)
		switch q.Name[:2] {
		case "ok":
			good(m)
		case "nx":
			m.Rcode = dns.RcodeNameError
			m.Ns = []dns.RR{rr(t, "test. 600 IN SOA ns. root. 1 2 3 4 600")}
		default:
			return false
		}
		return true
	})
	r, err := New(Config{Servers: []string{addr}, Family: "4", Timeout: 100 * time.Millisecond, Attempts: 2, Now: func() time.Time { return now }})
	must.OK(t, err)
	defer r.Close()
	for _, c := range []struct {
		name, want string
		kept       time.Duration
		questions  int32
	}{
		{"ok.test", "", time.Minute, 1},
		{"nx.test", StatusNXDomain, 10 * time.Minute, 1},
		{"mute.test", StatusTimeout, failureTTL, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, step := range []struct {
				wait  time.Duration
				asked int32
			}{{0, c.questions}, {c.kept - time.Second, 0}, {time.Second, c.questions}} {
				now = now.Add(step.wait)
				asked.Store(0)
				if a := r.Lookup(t.Context(), c.name); a.Status != c.want || asked.Load() != step.asked {
					t.Errorf("%s after %v: %q by %d questions, want %q by %d", c.name, step.wait, a.Status, asked.Load(), c.want, step.asked)
				}
			}
		})
	}
	for i := 0; r.known.size() <= maxKnown; i++ {
		n, _ := r.known.find(strconv.Itoa(i))
		r.known.set(n, &answer{addr: strings.Repeat("x", 1000)})
	}
	if r.Lookup(t.Context(), "ok2.test"); len(r.known.places) != 1 {
		t.Errorf("%d answers are kept", len(r.known.places))
	}
}

// TestMachineFault: what this machine could not do is told apart from what a server did, and is
// not kept.
func TestMachineFault(t *testing.T) {
	r := resolver(t, "192.0.2.1")
	r.servers[0].main = inBackground(refusing{&net.OpError{Op: "dial", Net: "udp", Err: syscall.EMFILE}})
	a := r.Lookup(t.Context(), "host.test")
	if a.Status != localfault.NoFile || a.Expires.After(r.cfg.Now()) {
		t.Errorf("%+v", a)
	}
	r.servers[0].main = inBackground(refusing{&net.OpError{Op: "write", Net: "udp", Addr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 53}, Err: syscall.EPERM}})
	if a := r.Lookup(t.Context(), "filtered.test"); a.Status != localfault.Firewall {
		t.Errorf("where a firewall drops questions: %+v", a)
	}
	r.servers[0].main = inBackground(refusing{&net.OpError{Op: "dial", Net: "udp", Err: syscall.EMFILE}})
	if r.servers[0].failures > 0 {
		t.Error("the server is blamed")
	}
	st, err := store.Open(newDNSStore(t), StoreKind, StoreVersion, store.Options{})
	must.OK(t, err)
	rows, _, err := runOn(t, st, "r1", Options{Resolver: r, Now: time.Now, SilentOK: true}, "host.test")
	if err != nil || rows[0].AddrError != localfault.NoFile || len(cached(t, st)) > 0 {
		t.Errorf("%+v, %q in the cache, %v", rows, cached(t, st), err)
	}
	if _, _, err := runOn(t, st, "r2", Options{Resolver: r, Now: time.Now}, "host.test"); !errors.Is(err, fault.No) {
		t.Errorf("%v", err)
	}
}

// refusing is a transport that fails at once.
type refusing struct{ err error }

func (f refusing) exchange(context.Context, *query, time.Duration) ([]byte, error) { return nil, f.err }
func (refusing) close()                                                            {}

// TestSettings: what one program tells another of its resolver is a Config that asks alike.
func TestSettings(t *testing.T) {
	r, err := New(Config{Servers: []string{"192.0.2.53", "[::1]:5353"}, Rate: 12.5, Timeout: 2 * time.Second, Attempts: 3, MinTTL: time.Second, MaxTTL: time.Hour, Family: "6"})
	must.OK(t, err)
	const want = `{"servers":["192.0.2.53:53","[::1]:5353"],"rate":12.5,"timeout":2000000000,"attempts":3,"min_ttl":1000000000,"max_ttl":3600000000000,"family":"6"}`
	if got := r.Settings(); got != want {
		t.Errorf("%s", got)
	}
	cfg, err := ReadSettings(r.Settings())
	must.OK(t, err)
	again, err := New(cfg)
	if err != nil || again.Settings() != want {
		t.Errorf("%s, %v", again.Settings(), err)
	}
	many, err := New(Config{Servers: slices.Repeat([]string{"[2001:db8::1234:5678]:5353"}, maxServers)})
	must.OK(t, err)
	if s := many.Settings(); len(s) > maxSettings || !strings.Contains(s, "5353") {
		t.Errorf("%s", s)
	}
	for _, bad := range []string{"", "x", "[]", `{"rate":-1}`, `{"attempts":1000}`, `{"servers":"x"}`} {
		if _, err := ReadSettings(bad); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// counted is a context that notes once when somebody waits with it.
type counted struct {
	context.Context
	once    sync.Once
	waiting *atomic.Int32
}

func (c *counted) Done() <-chan struct{} {
	c.once.Do(func() { c.waiting.Add(1) })
	return c.Context.Done()
}

// TestEqualNamesAreAskedOnce answers when all are waiting.
func TestEqualNamesAreAskedOnce(t *testing.T) {
	var asked, waiting atomic.Int32
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		asked.Add(1)
		for waiting.Load() < 50 {
			time.Sleep(time.Millisecond)
		}
		if q.Qtype == dns.TypeA {
			m.Answer = append(m.Answer, rr(t, q.Name+" 60 IN A 127.0.0.9"))
		}
		return true
	})
	r, err := New(Config{Servers: []string{addr}, Family: "4", Timeout: patience})
	must.OK(t, err)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if a := r.Lookup(&counted{Context: t.Context(), waiting: &waiting}, "host.test"); len(a.Addrs) != 1 {
				t.Errorf("%+v", a)
			}
		})
	}
	wg.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("%d questions", n)
	}
}

func TestNameOfAHost(t *testing.T) {
	for host, want := range map[string]string{
		"a.test": "a.test", "a.test:8080": "a.test", "[::1]": "::1", "[::1]:80": "::1", "127.0.0.1:81": "127.0.0.1", "A.Test.": "a.test",
	} {
		t.Run(host, func(t *testing.T) {
			if got := Name(host); got != want {
				t.Errorf("Name(%q) = %q, want %q", host, got, want)
			}
		})
	}
}

// TestManyAddresses: if a name has more addresses than are kept, addresses of both families are kept.
func TestManyAddresses(t *testing.T) {
	for _, c := range []struct{ four, six, wantFour, wantSix int }{
		{40, 40, 16, 16}, {40, 3, 29, 3}, {2, 40, 2, 30}, {40, 0, 32, 0}, {0, 40, 0, 32}, {3, 4, 3, 4},
	} {
		t.Run(fmt.Sprint(c.four, " and ", c.six), func(t *testing.T) {
			addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
				for i := range map[uint16]int{dns.TypeA: c.four, dns.TypeAAAA: c.six}[q.Qtype] {
					m.Answer = append(m.Answer, rr(t, fmt.Sprintf("%s 60 IN %s", q.Name, map[uint16]string{dns.TypeA: fmt.Sprintf("A 192.0.2.%d", i), dns.TypeAAAA: fmt.Sprintf("AAAA 2001:db8::%d", i)}[q.Qtype])))
				}
				return true
			})
			four, six := 0, 0
			for _, a := range resolver(t, addr).Lookup(t.Context(), "host.test").Addrs {
				if a.Is4() {
					four++
				} else {
					six++
				}
			}
			if four != c.wantFour || six != c.wantSix {
				t.Errorf("%d and %d addresses: kept %d and %d, want %d and %d", c.four, c.six, four, six, c.wantFour, c.wantSix)
			}
		})
	}
}

// TestSystemServers: of resolv.conf(5) the addresses of servers count, those of a link too;
// what is none is passed over.
func TestSystemServers(t *testing.T) {
	for _, c := range []struct{ conf, want string }{
		{"nameserver 192.0.2.1\nnameserver 2001:db8::1\nsearch a.test b.test\noptions ndots:3 timeout:9 attempts:1\n", "192.0.2.1:53 [2001:db8::1]:53"},
		{"# none\n;\nnameserver fe80::1%lo\nnameserver\nnameserver one.test\nnameserver ::1 # that\n", "[fe80::1%lo]:53 [::1]:53"},
		{"nameserver one.test\n", "no nameserver"},
		{"", "no nameserver"},
	} {
		t.Run(fmt.Sprintf("%.60s", c.conf), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "resolv.conf")
			must.OK(t, os.WriteFile(path, []byte(c.conf), 0o666))
			servers, err := systemServers(path)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
					t.Errorf("%q: %v, want %s", c.conf, err, c.want)
				}
				return
			}
			var names []string
			for _, s := range servers {
				srv, err := parseServer(s, 0)
				must.OK(t, err)
				names = append(names, srv.name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%q: %s, want %s", c.conf, got, c.want)
			}
		})
	}
	if _, err := systemServers(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fault.Usage) {
		t.Errorf("%v", err)
	}
}

func TestRotateKeepsFamiliesInOrder(t *testing.T) {
	var in []netip.Addr
	for _, s := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "::1", "::2"} {
		in = append(in, netip.MustParseAddr(s))
	}
	if got := FormatAddrs(rotated(in, 1)); got != "127.0.0.2,127.0.0.3,127.0.0.1,::1,::2" {
		t.Error(got)
	}
	if got := rotated(nil, 7); len(got) != 0 {
		t.Error(got)
	}
}

// oneName is the result of Names for one.
func oneName(t *testing.T, r *Resolver, name, recordType string) (res NameResult) {
	t.Helper()
	var out bytes.Buffer
	_, err := Names(t.Context(), r, recordType, time.Now, strings.NewReader(name+"\n"), &out)
	must.OK(t, err)
	must.OK(t, json.Unmarshal(out.Bytes(), &res))
	return res
}

// NameResult is one line of Names.
type NameResult struct {
	Name      string    `json:"name"`
	Class     string    `json:"class"`
	Type      string    `json:"type"`
	Status    string    `json:"status"`
	Error     string    `json:"error,omitempty"`
	Timestamp time.Time `json:"timestamp"`
	Duration  float64   `json:"duration"`
	RTT       int64     `json:"rtt_us"`
	Data      struct {
		Answers  []NameAnswer `json:"answers"`
		Protocol string       `json:"protocol"`
		Resolver string       `json:"resolver"`
	} `json:"data"`
}

type NameAnswer struct {
	Name    string `json:"name"`
	Class   string `json:"class"`
	Type    string `json:"type"`
	TTL     uint32 `json:"ttl"`
	Answer  string `json:"answer"`
	Special string `json:"special,omitempty"`
}

// named is a server of that name.
func named(name string) *server { return &server{name: name} }

// FuzzNameResult: a result is written as encoding/json writes it.
func FuzzNameResult(f *testing.F) {
	f.Add("host.test", "network-error", "127.0.0.1:53", "192.0.2.1", uint32(60), byte(2))
	f.Add("h\u00e9c\"\\<&>\u2028\xff", "bad-reply", "https://a.test/?a&b", "\"x\" \x7f", uint32(1<<31), byte(1))
	f.Add("", "", "", "", uint32(0), byte(0))
	f.Fuzz(func(t *testing.T, name, why, server, answer string, ttl uint32, answers byte) {
		for _, text := range []string{name, server, answer} {
			if want, err := marshal(text); err != nil || !bytes.Equal(appendJSON(nil, text), want) {
				t.Fatalf("%s, want %s, %v", appendJSON(nil, text), want, err)
			}
		}
		name, why, server, answer = strings.ToValidUTF8(name, ""), strings.ToValidUTF8(why, ""), strings.ToValidUTF8(server, ""), strings.ToValidUTF8(answer, "")
		n, asked := &names{kind: "A"}, named(server)
		q := &question{status: why, server: asked, began: time.Now(), rtt: time.Duration(ttl), reply: &dns.Msg{Question: []dns.Question{{Name: name}}}}
		for i := range answers % 4 {
			h := dns.RR_Header{Name: name, Class: dns.ClassINET, Ttl: ttl}
			if i%2 == 0 {
				q.reply.Answer = append(q.reply.Answer, &dns.CNAME{Hdr: h, Target: answer})
			} else {
				q.reply.Answer = append(q.reply.Answer, &dns.A{Hdr: h, A: net.IPv4(127, 0, 0, i)})
			}
		}
		if answers > 128 {
			q.reply = nil
		}
		status, got := n.result(name, q, testNow.Add(time.Duration(ttl)))
		var res NameResult
		if err := json.Unmarshal(got, &res); err != nil || res.Status != status {
			t.Fatalf("%s, %v", got, err)
		}
		if want, err := marshal(res); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s\nwant %s, %v", got, want, err)
		}
	})
}

func TestNames(t *testing.T) {
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		if strings.HasPrefix(q.Name, "slow") {
			time.Sleep(30 * time.Millisecond)
		}
		m.Answer = append(m.Answer, rr(t, q.Name+" 60 IN TXT \"x y\""))
		return true
	})
	var out bytes.Buffer
	in := strings.NewReader("slow.test\nfast.test\n\nbad..name\n{\"rank\": 7, \"text\": \"<&>\", \"name\": \"json.test\", \"status\": 1}\n{\n{\"name\": null}\n" + strings.Repeat("x", MaxLine+1) + "\nhttp://url.test/\nport.test:80\n0/25.2.0.192.in-addr.ARPA.\nlast.test")
	stats, err := Names(t.Context(), resolver(t, addr), "txt", time.Now, in, &out)
	if err != nil || stats != (NameStats{Names: 11, Failed: 6, TooLong: 1, Illegal: 5, First: `line 4: "bad..name"`}) {
		t.Fatalf("%+v, %v", stats, err)
	}
	if !strings.Contains(out.String(), `"rank":7`) || !strings.Contains(out.String(), `"text":"<&>"`) {
		t.Error("a field of the input was lost")
	}
	var names []string // as they were known, slow.test the last
	d := json.NewDecoder(&out)
	for d.More() {
		var r NameResult
		must.OK(t, d.Decode(&r))
		names = append(names, r.Name+" "+r.Status)
	}
	slices.Sort(names)
	if got := strings.Join(names, ", "); got != " ILLEGAL_INPUT, 0/25.2.0.192.in-addr.ARPA. NOERROR, bad..name ILLEGAL_INPUT, fast.test NOERROR, http://url.test/ ILLEGAL_INPUT, json.test NOERROR, last.test NOERROR, port.test:80 ILLEGAL_INPUT, slow.test NOERROR, "+strings.Repeat("x", longHead)+" ILLEGAL_INPUT, { ILLEGAL_INPUT" {
		t.Error(got)
	}
	if _, err := Names(t.Context(), resolver(t, addr), "nosuch", time.Now, in, &out); err == nil {
		t.Error("an unknown type was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Names(ctx, resolver(t, addr), "A", time.Now, strings.NewReader("a.test\n"), &out); err == nil {
		t.Error("a cancelled run reported success")
	}
}

// TestLongestLine: a line has MaxLine bytes at most, without its newline.
func TestLongestLine(t *testing.T) {
	for _, end := range []string{"", "\n", "\nlast"} {
		for size, long := range map[int]bool{MaxLine - 1: false, MaxLine: false, MaxLine + 1: true, 3 * MaxLine: true} {
			lines := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", size)+end), lineRoom)
			text, tooLong, _ := readLine(lines)
			if want := map[bool]int{false: size, true: longHead}[long]; tooLong != long || len(text) != want {
				t.Errorf("%d bytes and %q: %d are told, too long: %t", size, end, len(text), tooLong)
			}
			if rest, _, _ := readLine(lines); rest != strings.TrimPrefix(end, "\n") {
				t.Errorf("%d bytes and %q: then %q", size, end, rest)
			}
		}
	}
}

// TestNamesTellWhy: a status of ERROR has its reason.
func TestNamesTellWhy(t *testing.T) {
	pc, l := listenBoth(t)
	defer l.Close()
	pc.Close() // so that nobody listens there
	var out bytes.Buffer
	_, err := Names(t.Context(), resolver(t, pc.LocalAddr().String()), "A", time.Now, strings.NewReader("a.test\n"), &out)
	must.OK(t, err)
	var r NameResult
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Status != "ERROR" || r.Error != StatusNetwork {
		t.Errorf("%s %v", out.Bytes(), err)
	}
}

// TestNamesInFlightAreBounded: of long lines, only as many are taken as memory is meant for.
func TestNamesInFlightAreBounded(t *testing.T) {
	r, s := scripted(t, 100, "4")
	in := &lineByLine{end: make(chan bool)}
	const lines = 2 * maxLines / MaxLine
	for i := range lines {
		in.lines = append(in.lines, fmt.Sprintf("{\"name\":\"dead%d.test\",\"x\":\"%s\"}\n", i, strings.Repeat("x", MaxLine-100)))
	}
	go func() {
		for now := int32(0); now < lines/2-4; now, _ = s.exchanges.read() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
		if _, most := s.exchanges.read(); most > lines/2 {
			t.Errorf("%d lines of %d bytes at a time", most, MaxLine)
		}
		close(s.release)
	}()
	stats, err := Names(t.Context(), r, "A", time.Now, in, io.Discard)
	if err != nil || stats.Names != lines {
		t.Errorf("%+v, %v", stats, err)
	}
}

// wholeLines fails a test where a write ends within a line.
type wholeLines struct {
	t     *testing.T
	lines int
}

func (w *wholeLines) Write(p []byte) (int, error) {
	if !bytes.HasSuffix(p, []byte("\n")) {
		w.t.Errorf("a write of %d bytes ends within a line", len(p))
	}
	w.lines += bytes.Count(p, []byte("\n"))
	return len(p), nil
}

// TestWholeLines: whoever stops reading, or interrupts, has no part of a line.
func TestWholeLines(t *testing.T) {
	r, _ := scripted(t, 100, "4")
	var in strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&in, "live%d.test\n", i)
	}
	out := &wholeLines{t: t}
	if _, err := Names(t.Context(), r, "A", time.Now, strings.NewReader(in.String()), out); err != nil || out.lines != 1000 {
		t.Errorf("%d lines, %v", out.lines, err)
	}
}

// TestLinesWaitAsText: the fields of a line that is an object take much more than its text,
// which alone is bounded.
func TestLinesWaitAsText(t *testing.T) {
	r, s := scripted(t, 100, "4")
	var in strings.Builder
	const lines = maxLines / MaxLine / 2
	for i := range lines {
		fmt.Fprintf(&in, `{"name":"dead%d.test"`, i)
		for field := range 6000 {
			fmt.Fprintf(&in, `,"%x":1`, field)
		}
		in.WriteString("}\n")
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	ended := make(chan NameStats)
	go func() {
		stats, err := Names(t.Context(), r, "A", time.Now, strings.NewReader(in.String()), io.Discard)
		if err != nil {
			t.Error(err)
		}
		ended <- stats
	}()
	for now := int32(0); now < lines; now, _ = s.exchanges.read() {
		time.Sleep(time.Millisecond)
	}
	if took := heap() - before; took > 2*maxLines {
		t.Errorf("lines of %d bytes take %d", in.Len(), took)
	}
	close(s.release)
	if stats := <-ended; stats.Names != lines || stats.Silent != stats.Names {
		t.Errorf("%+v", stats)
	}
}

func TestLiteralOfTheOtherFamily(t *testing.T) {
	for family, want := range map[string][2]string{"any": {"", ""}, "4": {"", StatusNoAddress}, "6": {StatusNoAddress, ""}} {
		t.Run(family, func(t *testing.T) {
			r, err := New(Config{Servers: []string{"127.0.0.1"}, Family: family})
			must.OK(t, err)
			for i, name := range []string{"192.0.2.1", "2001:db8::1"} {
				a := r.Lookup(t.Context(), name)
				if a.Status != want[i] || (len(a.Addrs) == 0) != (a.Status != StatusOK) {
					t.Errorf("family %s: %s: %+v, want status %q", family, name, a, want[i])
				}
			}
		})
	}
}

// Hosts of URLs may hold characters that zone files escape, and replies spell so.
func TestNamesWithEscapedCharacters(t *testing.T) {
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 9)})
		return q.Qtype == dns.TypeA
	})
	for _, name := range []string{"a'b.test", "a;b(c).test", "a_b.test", "-a-.test", "a*.test"} {
		r, err := New(Config{Servers: []string{addr}, Timeout: patience, Attempts: 1, Family: "4"})
		must.OK(t, err)
		if a := r.Lookup(t.Context(), name); FormatAddrs(a.Addrs) != "192.0.2.9" {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestLongNames: a name of 255 bytes in a message is asked for, one of more is none.
func TestLongNames(t *testing.T) {
	addr := rawServer(t, func(q []byte) [][]byte { return [][]byte{reply(q, good)} }, nil)
	r, err := New(Config{Servers: []string{addr}, Timeout: patience, Family: "4"})
	must.OK(t, err)
	defer r.Close()
	long := strings.Repeat("a", 63) + "."
	for _, c := range []struct{ name, names, lookup string }{
		{strings.Repeat(long, 3) + long[2:], "NOERROR", ""}, // 253 letters and dots, with the last dot 254
		{strings.Repeat(long, 3) + long[2:63], "NOERROR", ""},
		{strings.Repeat(long, 3) + long[1:63], "ILLEGAL_INPUT", StatusBadName},
		{strings.Repeat(long, 3) + long, "ILLEGAL_INPUT", StatusBadName},
		{"a" + long + "test", "ILLEGAL_INPUT", StatusBadName},
	} {
		t.Run(fmt.Sprint(len(c.name), " ", c.names), func(t *testing.T) {
			if res := oneName(t, r, c.name, "A"); res.Status != c.names || res.Error != "" {
				t.Errorf("%d bytes: %s %s, want %s", len(c.name), res.Status, res.Error, c.names)
			}
			if a := r.Lookup(t.Context(), Name(c.name)); a.Status != c.lookup {
				t.Errorf("lookup of %d bytes: %q, want %q", len(c.name), a.Status, c.lookup)
			}
		})
	}
}

// TestAnswersOfAllTypes: records are told as zone files have them, the root's name too, and
// those of types that have no name.
func TestAnswersOfAllTypes(t *testing.T) {
	zone := map[uint16]string{
		dns.TypeMX: "0 .", dns.TypeSRV: "0 0 0 .", dns.TypeHTTPS: `1 . alpn="h2,h3"`, dns.TypeCAA: `0 issue "ca.test; x=y"`,
		dns.TypeTXT: `"a\"b" "\255\000."`, dns.TypeNS: ".", dns.TypeSOA: "ns.test. root.test. 1 2 3 4 5", 65280: `\# 4 0a000001`,
	}
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		if q.Qtype == dns.TypeNULL {
			m.SetEdns0(1232, false)
			m.Rcode = dns.RcodeBadVers
			return true
		}
		m.Answer = append(m.Answer, rr(t, m.Question[0].Name+" 60 IN "+dns.Type(q.Qtype).String()+" "+zone[q.Qtype]))
		return true
	})
	r := resolver(t, addr)
	for qtype, want := range zone {
		t.Run(dns.Type(qtype).String(), func(t *testing.T) {
			kind := dns.Type(qtype).String()
			for _, name := range []string{"host.test", "two words.test."} {
				var out bytes.Buffer
				_, err := Names(t.Context(), r, strings.ToLower(kind), time.Now, strings.NewReader(name), &out)
				must.OK(t, err)
				var res NameResult
				must.OK(t, json.Unmarshal(out.Bytes(), &res))
				if a := (NameAnswer{Name: name, Class: "IN", Type: kind, TTL: 60, Answer: want}); res.Type != kind || len(res.Data.Answers) != 1 || res.Data.Answers[0] != a {
					t.Errorf("%+v, want %+v", res, a)
				}
			}
		})
	}
	if res := oneName(t, r, "host.test", "NULL"); res.Status != "BADVERS" {
		t.Errorf("%s, want BADVERS", res.Status)
	}
	for _, s := range []string{"", "TYPE", "TYPE0", "TYPE65536", "TYPE-1", "TYPE252", "NOSUCH", "axfr"} {
		if _, err := Names(t.Context(), r, s, time.Now, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("type %q was taken", s)
		}
	}
}
