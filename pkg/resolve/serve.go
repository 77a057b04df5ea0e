package resolve

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/netutil"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
)

// Bounds of a Server.
const (
	maxClients = 4096            // over UDP that wait for an answer, the first to ask for it and others apart, in a quarter of memory
	clientSize = 20 << 10        // bytes that one takes, with its goroutine and its message, and garbage
	minClients = 128             // of these, however little memory there is
	maxBusy    = 256             // UDP questions that are worked on at a time, beside those that wait for an answer; more are dropped
	maxConns   = 256             // TCP connections; others wait to be accepted
	writeTime  = 5 * time.Second // for a client to take a reply over TCP
	sendBuffer = 64 << 10        // bytes of replies that the system keeps for a connection, and as much for its own use: by itself it grows to megabytes
	maxFresh   = 4 << 20         // bytes of answers that wait to be saved; then they are dropped
	freshCost  = 256             // of these, what one takes beside its text
	maxWireTTL = 1<<31 - 1       // seconds (RFC 2181, section 8)
	maxPayload = 65535 - 20 - 8  // bytes of a datagram, without the headers of IPv4 and UDP
)

// ServeStats counts the questions to a Server.
type ServeStats struct {
	Questions atomic.Uint64
	Cached    atomic.Uint64 // answered from the store or from memory
	Saved     atomic.Uint64 // answers put into the store
}

// Server answers the questions of other programs from a store's cache, and has a
// Resolver ask for the rest: addresses, with their canonical name, are kept; other
// records are passed through.
type Server struct {
	Stats ServeStats

	st       *store.Store
	resolver *Resolver
	now      func() time.Time
	memory   int64
	many     chan struct{} // has one when there is much to be saved
	busy     chan struct{} // has one for each question over UDP
	patience time.Duration // writeTime, but in tests

	mu     sync.Mutex
	known  *table
	fresh  unsaved
	asking map[subject]*flight
	firsts crowd // the client of each flight who asked first
	others crowd // who asked the same in the meantime
}

// unsaved are answers by name, of as many bytes as maxFresh allows.
type unsaved struct {
	entries map[string]entry
	bytes   int
}

// put takes an answer in, in place of the name's former one. It says false, and takes
// nothing, where there is no room.
func (u *unsaved) put(name string, e entry) bool {
	size := freshCost + itemBytes(name, &e)
	old, again := u.entries[name]
	if again {
		size -= freshCost + itemBytes(name, &old)
	}
	if u.bytes+size > maxFresh {
		return false
	}
	if u.entries == nil {
		u.entries = map[string]entry{}
	}
	u.entries[name] = e
	u.bytes += size
	return true
}

// NewServer loads as much of the store's cache as a quarter of memory (in bytes) holds.
func NewServer(st *store.Store, r *Resolver, memory int64, now func() time.Time) (*Server, error) {
	room := int(min(max(memory/8/clientSize, minClients), maxClients))
	s := &Server{st: st, resolver: r, now: now, memory: memory, many: make(chan struct{}, 1), busy: make(chan struct{}, 2*room+maxBusy), patience: writeTime,
		known: newTable(memory / 4), asking: map[subject]*flight{}, firsts: crowd{room: room}, others: crowd{room: room}}
	c, err := openBase(st, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	slices.Reverse(c) // what has no room is old
	err = c.load(r, now(), nil, func(key uint64, name string, e *entry) error {
		if _, newer := s.known.get(key, name); newer {
			return nil
		}
		if itemBytes(name, e) <= maxItem && !s.known.put(key, name, e) {
			return errFull
		}
		return nil
	})
	if err != nil && err != errFull {
		return nil, err
	}
	return s, nil
}

// errFull ends the loading of a store.
var errFull = errors.New("no room for more")

// Serve answers on a UDP and a TCP socket until ctx ends, and puts what it learns into
// the store each save interval, earlier if it is much, and at the end; never, if save is 0. While a crawl's
// round is open the store takes nothing, and saving is put off; so it is where it fails,
// which warn is told. Only the last time, that is Serve's error.
func (s *Server) Serve(ctx context.Context, pc net.PacketConn, l net.Listener, save time.Duration, warn func(error)) error {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		_, tcp := w.RemoteAddr().(*net.TCPAddr)
		size := dns.MinMsgSize
		if tcp {
			size = dns.MaxMsgSize
		} else {
			select {
			case s.busy <- struct{}{}:
				defer func() { <-s.busy }()
			default: // they would wait for the mutex, any number of them
				return
			}
			if opt := q.IsEdns0(); opt != nil {
				size = min(max(size, int(opt.UDPSize())), maxPayload)
			}
		}
		m, release := s.answer(ctx, q, tcp)
		if m == nil {
			return
		}
		m.Truncate(size)
		wire, err := m.Pack()
		release()
		if err != nil { // a text of the store that is no name
			m.Rcode, m.Answer, m.Ns = dns.RcodeServerFailure, nil, nil
			wire, err = m.Pack()
		}
		if err == nil {
			w.Write(wire) // one who has gone needs no answer
		}
	})
	servers := []*dns.Server{{PacketConn: pc, Handler: handler}, {Listener: netutil.LimitListener(impatient{l, s.patience}, maxConns), Handler: handler}}
	ended := make(chan error, len(servers))
	for _, srv := range servers {
		go func() { ended <- srv.ActivateAndServe() }()
	}
	var tick <-chan time.Time
	var many <-chan struct{}
	if save > 0 {
		t := time.NewTicker(save)
		defer t.Stop()
		tick, many = t.C, s.many
	}
	put := func() {
		if err := s.save(ctx); err != nil && ctx.Err() == nil {
			warn(err)
		}
	}
	var err error
	for running := true; running; {
		select {
		case <-tick:
			put()
		case <-many:
			put()
		case err = <-ended:
			running = false
		case <-ctx.Done():
			running = false
		}
	}
	pc.Close()
	l.Close()
	if err == nil && save > 0 {
		err = s.save(context.WithoutCancel(ctx))
	}
	return err
}

// impatient ends a connection whose client does not take a reply in time: it would hold its
// place, and the memory of a large reply, for as long as it likes. Of the system's memory a
// connection takes sendBuffer.
type impatient struct {
	net.Listener
	time time.Duration
}

type impatientConn struct {
	net.Conn
	time time.Duration
}

func (l impatient) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if c, ok := c.(*net.TCPConn); ok {
		_ = c.SetWriteBuffer(sendBuffer) // else it is the system's bound that holds
	}
	return impatientConn{c, l.time}, nil
}

func (c impatientConn) Write(m []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(c.time))
	n, err := c.Conn.Write(m)
	if err != nil {
		c.Close()
	}
	return n, err
}

// answer makes the reply to one message, nil if there is to be none; else release is to be called
// when it is packed.
func (s *Server) answer(ctx context.Context, q *dns.Msg, tcp bool) (m *dns.Msg, release func()) {
	s.Stats.Questions.Add(1)
	m, release = new(dns.Msg), func() {}
	m.SetReply(q)
	m.RecursionAvailable = true
	if opt := q.IsEdns0(); opt != nil {
		m.SetEdns0(udpPayload, false)
		if opt.Version() != 0 {
			m.Rcode = dns.RcodeBadVers // RFC 6891, section 6.1.3
			return m, release
		}
	}
	if q.Opcode != dns.OpcodeQuery {
		m.Rcode = dns.RcodeNotImplemented
		return m, release
	}
	if len(q.Question) != 1 || q.Question[0].Qtype == dns.TypeNone {
		m.Rcode = dns.RcodeFormatError
		return m, release
	}
	question := q.Question[0]
	switch {
	case question.Qclass != dns.ClassINET || isTransfer(question.Qtype):
		m.Rcode = dns.RcodeRefused
	case question.Name != "." && (question.Qtype == dns.TypeA || question.Qtype == dns.TypeAAAA):
		if !s.addresses(ctx, m, question, tcp) {
			return nil, release
		}
	default:
		// Of localhost there are addresses alone (RFC 6761, section 6.3).
		if _, ok := Literal(strings.ToLower(strings.TrimSuffix(question.Name, "."))); ok {
			break
		}
		return s.pass(ctx, m, question, tcp)
	}
	return m, release
}

// addresses answers from the cache, or asks; false: there is to be no answer.
func (s *Server) addresses(ctx context.Context, m *dns.Msg, q dns.Question, tcp bool) bool {
	name := strings.ToLower(strings.TrimSuffix(q.Name, "."))
	now := s.now()
	s.mu.Lock()
	e, ok := s.known.get(fingerprint.OfString(name), name)
	s.mu.Unlock()
	if ok && e.valid(q.Qtype, now) {
		s.Stats.Cached.Add(1)
	} else if a, ok := s.resolver.literal(name, now); ok {
		e = s.resolver.entryOf(&a)
	} else {
		in := s.inquire(ctx, subject{name: name}, tcp)
		if in == nil {
			return false
		}
		e = in.entry
		s.part(in)
		now = s.now() // of the time that is left
	}
	ttl := uint32(min(max(e.Expires.Sub(now)/time.Second, 1), maxWireTTL))
	switch e.Error {
	case StatusOK:
	case StatusNoAddress:
		m.Ns = soa(e.Zone, ttl)
		return true
	case StatusNXDomain:
		m.Rcode, m.Ns = dns.RcodeNameError, soa(e.Zone, ttl)
		return true
	default:
		m.Rcode = dns.RcodeServerFailure
		return true
	}
	h := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: ttl}
	if e.CNAME != "" {
		alias := h
		alias.Rrtype = dns.TypeCNAME
		h.Name = dns.Fqdn(e.CNAME)
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: alias, Target: h.Name})
	}
	for list := e.Addr; list != ""; {
		var one string
		one, list, _ = strings.Cut(list, ",")
		addr, err := netip.ParseAddr(one)
		switch {
		case err != nil:
		case addr.Is4() && q.Qtype == dns.TypeA:
			m.Answer = append(m.Answer, &dns.A{Hdr: h, A: addr.AsSlice()})
		case !addr.Is4() && q.Qtype == dns.TypeAAAA:
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: h, AAAA: addr.AsSlice()})
		}
	}
	if len(m.Answer) == 0 || m.Answer[len(m.Answer)-1].Header().Rrtype != q.Qtype {
		if e.Failed != "" {
			m.Rcode, m.Answer = dns.RcodeServerFailure, nil
			return true
		}
		if until, err := e.absent(); err == nil {
			ttl = uint32(min(max(until.Sub(now)/time.Second, 1), maxWireTTL))
		}
		m.Ns = soa(e.Zone, ttl)
	}
	return true
}

// valid says that an entry tells what there is of a type.
func (e *entry) valid(qtype uint16, now time.Time) bool {
	until := e.Expires
	if e.Error == StatusOK && !(qtype == dns.TypeA && strings.Contains(e.Addr, ".") || qtype == dns.TypeAAAA && strings.Contains(e.Addr, ":")) {
		var err error
		if until, err = e.absent(); err != nil {
			return false
		}
	}
	return until.After(now) && e.Expires.After(now)
}

// soa is the record by which a client keeps the answer that there is nothing (RFC 2308,
// section 3): of the fields that only the zone's own servers need, it tells none.
func soa(zone string, ttl uint32) []dns.RR {
	if zone == "" {
		return nil
	}
	return []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl}, Ns: ".", Mbox: ".", Minttl: ttl}}
}

// learn keeps an answer, which is to be saved.
func (s *Server) learn(name string, e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fingerprint.OfString(name)
	if !s.known.put(key, name, &e) {
		s.known.reset()
		s.known.put(key, name, &e)
	}
	before := s.fresh.bytes
	if !s.fresh.put(name, e) {
		s.fresh = unsaved{}
		s.fresh.put(name, e)
	}
	if before <= maxFresh/2 && s.fresh.bytes > maxFresh/2 {
		signal(s.many)
	}
}

// pass passes a question of another type on, and its answer back, as answer.
func (s *Server) pass(ctx context.Context, m *dns.Msg, q dns.Question, tcp bool) (reply *dns.Msg, release func()) {
	in := s.inquire(ctx, subject{strings.ToLower(q.Name), q.Qtype}, tcp)
	if in == nil {
		return nil, nil
	}
	in.mu.Lock()
	release = func() { in.mu.Unlock(); s.part(in) }
	got := in.raw.Msg
	if got == nil {
		m.Rcode = dns.RcodeServerFailure
		return m, release
	}
	m.Rcode, m.Answer, m.Ns = got.Rcode, got.Answer, got.Ns
	if m.Rcode > 0xf { // of the extended ones, which this exchange may not have
		m.Rcode = dns.RcodeServerFailure
	}
	for _, rr := range m.Answer {
		if h := rr.Header(); strings.EqualFold(h.Name, q.Name) {
			h.Name = q.Name // the resolver's own question has letters of random case
		}
	}
	return m, release
}

// subject is what a flight is about.
type subject struct {
	name  string // in small letters
	qtype uint16 // 0: addresses
}

// flight is a question that the Resolver is asked once, for all clients who ask it meanwhile.
type flight struct {
	over   chan struct{} // closed when what follows is known
	status string
	entry  entry    // if addresses were asked for
	raw    RawReply // else

	mu      sync.Mutex // the records of raw are one client's at a time
	clients int        // the Server's mutex's: who may read raw yet; the last releases it
}

// inquire asks, unless somebody has, and waits for the answer; nil: there will be none. One that
// is not nil is to be parted with.
//
// The Resolver has a place for each question, which one without an answer in its first time
// leaves to others. A question over UDP for which there is none, or which is given up, gets no
// answer: who asks it will ask again, while SERVFAIL would be taken for the name's. So it is with
// clients: of too many that wait the one who came first gets no answer, where those who repeat
// what is asked already do not count among those who do not. TCP connections are few, and wait.
func (s *Server) inquire(ctx context.Context, about subject, tcp bool) *flight {
	r := s.resolver
	s.mu.Lock()
	in, asked := s.asking[about]
	entered := !asked && r.tryEnter()
	if !asked && !entered && !tcp {
		s.mu.Unlock()
		return nil
	}
	crowd := &s.others
	if !asked {
		crowd = &s.firsts
		in = &flight{over: make(chan struct{}), clients: 1} // until there is an answer
		s.asking[about] = in
	}
	in.clients++
	var gone chan struct{}
	if !tcp {
		place := crowd.enter()
		gone = place.Value.(chan struct{})
		defer func() {
			s.mu.Lock()
			crowd.leave(place)
			s.mu.Unlock()
		}()
	}
	s.mu.Unlock()
	if !asked {
		if !entered && !r.enter(ctx) {
			return nil
		}
		s.begin(in, about)
	}
	select {
	case <-in.over:
		if tcp || in.status != StatusCancelled {
			return in
		}
	case <-gone:
	case <-ctx.Done():
	}
	s.part(in)
	return nil
}

// begin asks for what a flight is about, in a slot of the Resolver.
func (s *Server) begin(in *flight, about subject) {
	end := func() {
		s.mu.Lock()
		delete(s.asking, about)
		s.mu.Unlock()
		close(in.over)
		s.part(in)
	}
	if about.qtype != 0 {
		s.resolver.raw(wireName(about.name), about.qtype, true, func(raw RawReply) {
			in.raw, in.status = raw, raw.Why
			end()
		})
		return
	}
	s.resolver.begin(about.name, func(a *Answer) {
		if in.entry, in.status = s.resolver.entryOf(a), a.Status; a.Status != StatusCancelled {
			s.learn(about.name, in.entry)
		}
		end()
	})
}

// part ends a part in a flight.
func (s *Server) part(in *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.clients--; in.clients == 0 {
		in.raw.Release()
	}
}

// crowd is of clients that wait.
type crowd struct {
	room    int
	waiting list.List // of channels, one for each in order of arrival, which is closed for who is to go
}

// enter adds one, for whom the one who came first goes where there is no room.
func (c *crowd) enter() *list.Element {
	if c.waiting.Len() == c.room {
		close(c.waiting.Remove(c.waiting.Front()).(chan struct{}))
	}
	return c.waiting.PushBack(make(chan struct{}))
}

// leave is for one who has waited enough, and may have had to go.
func (c *crowd) leave(place *list.Element) { c.waiting.Remove(place) }

// save commits what was learnt. Where that fails it is put off; that a round is open in the
// store, or somebody changes it, is no error.
func (s *Server) save(ctx context.Context) error {
	s.mu.Lock()
	fresh := s.fresh
	s.fresh = unsaved{}
	s.mu.Unlock()
	if len(fresh.entries) == 0 {
		return nil
	}
	err := s.commit(ctx, fresh.entries)
	if err == nil {
		s.Stats.Saved.Add(uint64(len(fresh.entries)))
		return nil
	}
	s.mu.Lock()
	for name, e := range fresh.entries {
		if _, newer := s.fresh.entries[name]; !newer {
			s.fresh.put(name, e)
		}
	}
	s.mu.Unlock()
	if errors.Is(err, fault.Busy) || errors.Is(err, fault.Conflict) {
		return nil
	}
	return err
}

func (s *Server) commit(ctx context.Context, fresh map[string]entry) error {
	known := newEntries(s.memory / 16)
	defer known.Close()
	for name, e := range fresh {
		if err := known.put(fingerprint.OfString(name), name, &e); err != nil {
			return err
		}
	}
	tx, _, err := s.st.Begin(ctx, "serve", "")
	if err != nil {
		return err
	}
	defer tx.Abort()
	if err := commit(tx, known, func() (cacheFiles, error) { return openBase(s.st, tx) }, s.now()); err != nil {
		return err
	}
	_, err = tx.Commit(0, "", record.Ledger{})
	return err
}
