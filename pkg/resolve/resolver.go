// Package resolve turns host names into addresses: many questions at a time, and a cache on disk (cache.go). Resolve (batch.go) is the body
// of mresolve: it asks its table of names, the cache's files, then servers. mfetch calls Lookup when a name's addresses have
// expired: it has a table of its own and does not see the store.
//
// Mercator wrote its own resolver because the system's answered one request at a time, which was 87 % of a thread's elapsed time (Heydon
// and Najork 1999, section 3.7).
//
// # Invariants
//
//   - Each Lookup returns one Answer, and no error: what went wrong is its Status.
//   - Questions in flight, those that wait beyond their first time, attempts, the length
//     of a CNAME chain and the number of addresses of an answer are bounded.
//   - An answer counts only if its id and its question are those that were asked.
package resolve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/fetch/localfault"
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
	// or, where this machine could not ask, what package localfault says; that is not kept
)

// isSilent says that no server answered.
func isSilent(status string) bool {
	return status == StatusTimeout || status == StatusNetwork || localfault.Is(status)
}

// Limits on what a server can make us do.
const (
	MaxChain = 16 // CNAMEs from a name to its addresses
	MaxAddrs = 32 // addresses kept of a name

	maxServers  = 64 // each has sockets of its own
	maxInFlight = 100_000
)

// QuestionSize is the most memory in bytes that a question in flight takes, over UDP or TCP, and with it one that waits beyond its first time.
const QuestionSize = 8 << 10

// Config of a Resolver. Zero fields take the defaults. Those with names in JSON are its Settings.
type Config struct {
	Servers  []string         `json:"servers"`  // see parseServer; default: the servers of /etc/resolv.conf
	Rate     float64          `json:"rate"`     // questions a second to one server, at most; 0: any number
	InFlight int              `json:"-"`        // questions at a time, and as many again that were let wait once [1000]
	Timeout  time.Duration    `json:"timeout"`  // of the first attempt; each further one waits twice as long [1s]
	Attempts int              `json:"attempts"` // questions asked in all before a name counts as timed out [5]
	MinTTL   time.Duration    `json:"min_ttl"`  // answers are kept at least this long [1m]
	MaxTTL   time.Duration    `json:"max_ttl"`  // longest time that answers are kept [24h]
	Family   string           `json:"family"`   // "any": IPv4 addresses, then IPv6; "4" or "6": only those ["any"]
	Now      func() time.Time `json:"-"`        // [time.Now]
	Mute     func()           `json:"-"`        // called once, if a second attempt was in vain before any server replied to anything; may be nil
}

// maxSettings bounds the text of Settings: a record stream's metadata have room for so much.
const maxSettings = 1024

// Settings tells another program how this one asks: ReadSettings makes a Config of it. Servers for which there is no room are left out.
func (r *Resolver) Settings() string {
	cfg := r.cfg
	cfg.Servers = nil
	for _, s := range r.servers {
		cfg.Servers = append(cfg.Servers, s.name)
	}
	for {
		text, err := json.Marshal(cfg)
		if err != nil || len(text) <= maxSettings {
			return string(text)
		}
		cfg.Servers = cfg.Servers[:len(cfg.Servers)-1]
	}
}

// NoSettings is told in their place where a program gives the addresses: nobody else is to be asked.
const NoSettings = "program"

// ReadSettings reads what Settings told. New checks the values, as far as they can harm.
func ReadSettings(text string) (cfg Config, err error) {
	if err := json.Unmarshal([]byte(text), &cfg); err != nil || cfg.Attempts > 100 || cfg.Rate < 0 {
		return Config{}, &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("settings of a resolver %.100q", text), Want: "those that mresolve writes", Err: err}
	}
	return cfg, nil
}

// Negative answers are kept as RFC 2308 says: no-such-name for the SOA's
// minimum, within these bounds; a server's failure briefly (section 7).
const (
	maxNegativeTTL = 3 * time.Hour
	failureTTL     = 30 * time.Second // of RFC 9520's 1 s to 5 minutes (section 3.2)
)

// Answer is the result of a look-up of a name.
type Answer struct {
	Addrs   []netip.Addr // in order of preference
	CNAME   string       // canonical name, where it differs
	Status  string       // StatusOK or why there is no address
	Expires time.Time
}

// Resolver asks DNS servers. Safe for many goroutines.
type Resolver struct {
	cfg     Config
	servers []*server
	asked   string        // names the servers: 16 digits that are others where these are
	slots   chan struct{} // a place for each question in flight
	late    chan struct{} // places for questions beyond their first time, while there is room; they free their slot
	tcp     *tcp
	large   sync.Mutex // held while a message longer than maxDatagram is parsed
	next    atomic.Uint32
	heard   atomic.Bool            // a server has replied to a question
	trouble atomic.Pointer[string] // see Trouble
	probing atomic.Bool            // probe was called
	probed  chan struct{}

	arrived chan *question // to be judged; has room for each that is in flight, for probe's, and for the end, nil
	workers sync.WaitGroup

	mu     sync.Mutex
	asking map[string]*lookup // equal names in flight are asked once
	known  *table             // to Lookup, failures too
}

// lookup is a name that is asked for.
type lookup struct {
	ended  chan struct{}
	answer *answer // then
}

// maxKnown bounds the answers that Lookup keeps, in bytes.
const maxKnown = 4 << 20

// New makes a resolver. fault.Usage if a server's address is none.
func New(cfg Config) (*Resolver, error) {
	cfg.InFlight = min(positive(cfg.InFlight, 1000), maxInFlight)
	cfg.Attempts = positive(cfg.Attempts, 5)
	cfg.Timeout = positive(cfg.Timeout, time.Second)
	cfg.MinTTL = positive(cfg.MinTTL, time.Minute)
	cfg.MaxTTL = positive(cfg.MaxTTL, 24*time.Hour)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Mute == nil {
		cfg.Mute = func() {}
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
	r := &Resolver{cfg: cfg, slots: make(chan struct{}, cfg.InFlight), late: make(chan struct{}, cfg.InFlight), tcp: newTCP(),
		arrived: make(chan *question, 2*cfg.InFlight+2), probed: make(chan struct{}), asking: map[string]*lookup{}, known: newTable()}
	servers := cfg.Servers
	if len(servers) == 0 {
		var err error
		if servers, err = systemServers("/etc/resolv.conf"); err != nil {
			return nil, err
		}
	}
	if len(servers) > maxServers {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d DNS servers", len(servers)), Want: fmt.Sprintf("%d at most", maxServers)}
	}
	for _, s := range servers {
		srv, err := parseServer(s, cfg.Rate)
		if err != nil {
			return nil, err
		}
		r.servers = append(r.servers, srv)
	}
	r.asked = askedOf(r.servers)
	for range runtime.GOMAXPROCS(0) {
		r.workers.Go(r.work)
	}
	return r, nil
}

// askedOf is the FP64 of the servers' addresses, in any order.
func askedOf(servers []*server) string {
	var names []string
	for _, s := range servers {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return fingerprint.Format(fingerprint.OfString(strings.Join(slices.Compact(names), " ")))
}

// positive is v, or else its default.
func positive[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// Trouble says which server could not be reached last, and why, as long as none has replied to anything. It is "" if that did not happen.
func (r *Resolver) Trouble() string {
	if trouble := r.trouble.Load(); trouble != nil && !r.heard.Load() {
		return *trouble
	}
	return ""
}

// Close ends the connections to servers. No Lookup may be under way.
func (r *Resolver) Close() {
	r.tcp.close()
	for _, s := range r.servers {
		s.main.close()
	}
	r.arrived <- nil
	r.workers.Wait()
}

// systemServers reads the servers of resolv.conf(5). Its search list and options are for programs that ask with the system's own resolver.
func systemServers(path string) ([]string, error) {
	conf, err := dns.ClientConfigFromFile(path)
	found := "no nameserver"
	switch {
	case errors.Is(err, os.ErrNotExist):
		conf, found = new(dns.ClientConfig), "no such file"
	case err != nil:
		return nil, err
	}
	var out []string
	for _, s := range conf.Servers {
		if _, err := netip.ParseAddr(s); err == nil { // others are passed over, as the system's own resolver does
			out = append(out, net.JoinHostPort(s, conf.Port))
		}
	}
	if len(out) == 0 {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: found, Hint: "name a DNS server with --server"}
	}
	return out, nil
}

// Literal answers names that need no server: IP addresses, and localhost with all below it (RFC 6761, section 6.3).
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

// Lookup resolves a name (see Name). It waits for a free slot. An answer is kept as long as it
// is valid, one that says that there is no address as well (RFC 2308, RFC 9520).
func (r *Resolver) Lookup(ctx context.Context, name string) Answer {
	now := r.cfg.Now()
	if a, ok := r.literal(name, now); ok {
		return a.public()
	}
	r.mu.Lock()
	n, _ := r.known.within(maxKnown).find(name) // what was there is asked for again then
	if r.known.known(n) {
		if a := r.known.answer(n); a.expires.Go().After(now) {
			r.mu.Unlock()
			return a.public()
		}
	}
	l := r.asking[name]
	if l == nil {
		l = &lookup{ended: make(chan struct{})}
		r.asking[name] = l
		go r.ask(name, l)
	}
	r.mu.Unlock()
	select {
	case <-l.ended:
		return l.answer.public()
	case <-ctx.Done():
		return Answer{Status: StatusCancelled}
	}
}

// ask has a name looked up as soon as there is a slot.
func (r *Resolver) ask(name string, l *lookup) {
	r.slots <- struct{}{}
	r.startLookup(name, func(a *answer) {
		r.mu.Lock()
		n, _ := r.known.find(name)
		r.known.set(n, a)
		delete(r.asking, name)
		r.mu.Unlock()
		l.answer = a
		close(l.ended)
	})
}

// reserved says that no server is to be asked for a name: one of the Tor network (RFC 7686,
// section 2), or one that never exists (RFC 6761, section 6.4).
func reserved(name string) bool {
	name = strings.TrimSuffix(name, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	return strings.EqualFold(last, "onion") || strings.EqualFold(last, "invalid")
}

// literal answers what costs no question: addresses, localhost, what is reserved or no name.
func (r *Resolver) literal(name string, now time.Time) (a *answer, ok bool) {
	addrs, ok := Literal(name)
	_, isName := dns.IsDomainName(name)
	switch {
	case ok:
		status := StatusOK
		if addrs = r.wanted(addrs); len(addrs) == 0 {
			status = StatusNoAddress
		}
		return newAnswer(addrs, status, "", now.Add(r.cfg.MaxTTL)), true
	case !isName:
		return newAnswer(nil, StatusBadName, "", now.Add(failureTTL)), true
	case reserved(name):
		return newAnswer(nil, StatusNXDomain, "", now.Add(maxNegativeTTL)), true
	}
	return nil, false
}

// family is 4 or 6 where only those addresses are wanted.
func (r *Resolver) family() uint8 {
	if r.cfg.Family == "any" {
		return 0
	}
	return r.cfg.Family[0] - '0'
}

// wanted leaves the addresses of the family wanted.
func (r *Resolver) wanted(addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(addrs, func(a netip.Addr) bool { return a.Is4() && r.family() == 6 || a.Is6() && r.family() == 4 })
}

// resolution is a name in the course of its questions.
type resolution struct {
	walks []walk       // one for each family
	left  atomic.Int32 // walks that have not ended
	done  func(*answer)
}

// startLookup asks for a name, in a slot that the caller has taken. done is called once, from
// another goroutine or before startLookup returns, and must not block: all questions wait for it.
func (r *Resolver) startLookup(name string, done func(*answer)) {
	types := []uint16{dns.TypeA, dns.TypeAAAA}
	switch r.cfg.Family {
	case "4":
		types = types[:1]
	case "6":
		types = types[1:]
	}
	res := &resolution{walks: make([]walk, len(types)), done: done}
	res.left.Store(int32(len(types)))
	for i, t := range types {
		w := &res.walks[i]
		*w = walk{res: res, qtype: t, target: dns.Fqdn(name), life: r.cfg.MaxTTL}
		w.r, w.place, w.over = r, r.slots, w.step
	}
	if len(types) > 1 {
		// Both at once, if there is another slot; else the second in the first one's place.
		select {
		case r.slots <- struct{}{}:
			res.walks[1].askTarget()
		default:
			res.walks[0].then = &res.walks[1]
		}
	}
	res.walks[0].askTarget()
}

// answer makes one of what the walks found.
func (r *Resolver) answer(walks []walk) *answer {
	var addrs []netip.Addr
	cname, ttl := "", r.cfg.MaxTTL
	for i := range walks {
		w := &walks[i]
		kept := 0 // for the other family: half, or as many as that has
		if len(walks) > 1 {
			kept = min(len(walks[1-i].addrs), MaxAddrs/2)
		}
		addrs = append(addrs, w.addrs[:min(len(w.addrs), MaxAddrs-kept)]...)
		if len(w.addrs) > 0 {
			cname, ttl = w.cname, min(ttl, w.life)
		}
	}
	if len(addrs) > 0 {
		return newAnswer(addrs, StatusOK, cname, r.cfg.Now().Add(max(ttl, r.cfg.MinTTL)))
	}
	// The first family's failure stands for both, unless only it has none.
	w := &walks[0]
	if w.status == StatusNoAddress && len(walks) > 1 {
		w = &walks[1]
	}
	return newAnswer(nil, w.status, "", r.cfg.Now().Add(w.life))
}

// walk asks for one type and follows the CNAME chain, asking again where the server left it
// open. At its end, addrs or status say what was found.
type walk struct {
	question
	res    *resolution
	qtype  uint16
	target string        // name asked for
	seen   []string      // targets before that
	cname  string        // canonical name, where it differs
	life   time.Duration // how long all that was used holds
	then   *walk         // is to be asked for in this one's place
}

func (w *walk) askTarget() { w.ask(w.target, w.qtype) }

// step follows the reply as far as it leads.
func (w *walk) step() {
	if !w.arrives() {
		w.askTarget()
		return
	}
	w.query, w.reply = query{}, nil
	if w.res.left.Add(-1) == 0 {
		w.res.done(w.r.answer(w.res.walks))
	}
	if w.then != nil {
		w.then.place = w.place
		w.then.askTarget()
	} else {
		w.leave()
	}
}

// arrives says that the chain's end is found, or target is to be asked for.
func (w *walk) arrives() bool {
	if w.status != StatusOK {
		w.life = w.lifetime()
		return true
	}
	addrs, cname := w.addrs, ""
	if w.reply != nil {
		addrs, cname = answersOf(w.reply, w.reply.Question[0].Name, &w.life)
	} else if len(addrs) > 0 {
		w.life = min(w.life, seconds(w.ttl))
	}
	moved := false
	for cname != "" && len(addrs) == 0 {
		w.seen = append(w.seen, w.target)
		w.target, moved = cname, true
		if slices.Contains(w.seen, w.target) || len(w.seen) > MaxChain {
			w.status, w.life = StatusChain, failureTTL
			return true
		}
		addrs, cname = answersOf(w.reply, w.target, &w.life)
	}
	w.addrs = addrs
	switch {
	case len(addrs) > 0:
		if len(w.seen) > 0 {
			w.cname = strings.TrimSuffix(w.target, ".")
		}
		return true
	case w.rcode == dns.RcodeNameError, !moved:
		w.status = StatusNoAddress
		if w.rcode == dns.RcodeNameError {
			w.status = StatusNXDomain
		}
		w.life = min(w.negative(), max(w.life, w.r.cfg.MinTTL)) // then an alias may lead elsewhere
		return true
	}
	return false
}

// answersOf finds what a reply says of one name: addresses of the type asked for, or
// the name that it stands for. ttl sinks to the least of what was used.
func answersOf(reply *dns.Msg, name string, ttl *time.Duration) (addrs []netip.Addr, cname string) {
	qtype := reply.Question[0].Qtype
	for _, rr := range reply.Answer {
		h := rr.Header()
		if h.Class != dns.ClassINET || h.Rrtype != qtype && h.Rrtype != dns.TypeCNAME || !strings.EqualFold(h.Name, name) {
			continue
		}
		switch rr := rr.(type) {
		case *dns.CNAME:
			cname = strings.ToLower(rr.Target)
		case *dns.A:
			addrs = withAddr(addrs, rr.A.To4())
		case *dns.AAAA:
			addrs = withAddr(addrs, rr.AAAA)
		}
		*ttl = min(*ttl, seconds(h.Ttl))
	}
	return addrs, cname
}

// withAddr adds an address that is not there yet (RFC 2181, section 5), while there is room.
func withAddr(addrs []netip.Addr, data []byte) []netip.Addr {
	a, ok := netip.AddrFromSlice(data)
	if !ok || len(addrs) == MaxAddrs || slices.Contains(addrs, a) {
		return addrs
	}
	return append(addrs, a)
}

// seconds reads a time to live; the upper half of its range is no special case (RFC 8767, section 4).
func seconds(ttl uint32) time.Duration { return time.Duration(ttl) * time.Second }

// negative tells how long there is no such name or address (RFC 2308, section 5: the lesser of the SOA's own TTL and its minimum field).
func (q *question) negative() time.Duration {
	minimum, ok := q.minimum, q.soa
	if q.reply != nil {
		for _, rr := range q.reply.Ns {
			if s, is := rr.(*dns.SOA); is {
				minimum, ok = min(seconds(s.Hdr.Ttl), seconds(s.Minttl)), true
				break
			}
		}
	}
	if !ok {
		return q.r.cfg.MinTTL
	}
	return min(max(minimum, q.r.cfg.MinTTL), maxNegativeTTL, q.r.cfg.MaxTTL)
}

// reachable reports whether any server has replied to any question. If none has, it waits for what comes of probe.
func (r *Resolver) reachable(ctx context.Context) bool {
	if r.heard.Load() {
		return true
	}
	r.probe()
	select {
	case <-r.probed:
	case <-ctx.Done():
	}
	return r.heard.Load()
}

// probe asks for the root's name servers, once, and reports whether this was the time: a server that works says
// something to that, if only that it refuses. It takes no slot, since names without an answer may hold all.
func (r *Resolver) probe() bool {
	if r.probing.Swap(true) {
		return false
	}
	q := &question{r: r, place: make(chan struct{}), over: func() { close(r.probed) }}
	q.ask(".", dns.TypeNS)
	return true
}

// pick chooses the server for a turn: the next that is not paused, if there is one.
func (r *Resolver) pick(turn uint32) *server {
	n := uint32(len(r.servers))
	first := r.servers[turn%n]
	now := time.Now()
	for i := range n {
		if s := r.servers[(turn+i)%n]; !s.paused(now) {
			return s
		}
	}
	return first
}

func statusOf(rcode int) string {
	switch rcode {
	case dns.RcodeSuccess, dns.RcodeNameError:
		return ""
	case dns.RcodeServerFailure:
		return StatusServFail
	case dns.RcodeRefused:
		return StatusRefused
	}
	return StatusBadReply
}

func rcodeName(rcode int) string {
	if rcode == dns.RcodeBadVers {
		return "BADVERS" // the library has the name that this number has in TSIG records
	}
	if name := dns.RcodeToString[rcode]; name != "" {
		return name
	}
	return fmt.Sprintf("RCODE%d", rcode)
}

// FormatAddrs writes addresses as column addr holds them.
func FormatAddrs(addrs []netip.Addr) string {
	s := make([]string, len(addrs))
	for i, a := range addrs {
		s[i] = a.String()
	}
	return strings.Join(s, ",")
}

// rotated changes the order of a name's addresses of one family by its hash, so
// that the hosts behind one set of addresses spread over them.
func rotated(addrs []netip.Addr, hash uint64) []netip.Addr {
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
