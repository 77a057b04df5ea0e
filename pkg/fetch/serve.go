package fetch

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/pkg/canon"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/localfault"
)

// portRefused says whether a host's port is one that browsers refuse.
func portRefused(host string) bool {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") {
		return false
	}
	n, err := strconv.ParseUint(host[i+1:], 10, 16)
	return err != nil || addrguard.PortRefused(uint16(n))
}

// parseLiteral reads a host name that is an address. Names that cannot be one cost
// nothing.
func parseLiteral(name string) (a netip.Addr, ok bool) {
	if name == "" || strings.IndexByte(name, ':') < 0 && (name[len(name)-1] < '0' || name[len(name)-1] > '9') {
		return a, false
	}
	a, err := netip.ParseAddr(name)
	return a, err == nil
}

// address finds the address for the host's next contact: what is tried again is tried at the
// next. outcome is not "" if there is none.
func (r *runner) address(ctx context.Context, h *host, row *record.URL) (a netip.Addr, outcome, detail string, err error) {
	var room [4]netip.Addr
	addrs, outcome, detail, err := r.addresses(ctx, h, row, room[:0])
	if err != nil || outcome != "" {
		return a, outcome, detail, err
	}
	n := h.dead
	if row != nil {
		n += int(row.Attempt)
	}
	return addrs[n%len(addrs)], "", "", nil
}

// addresses appends to room those of the host that may be contacted. outcome is not "" if there
// are none.
func (r *runner) addresses(ctx context.Context, h *host, row *record.URL, room []netip.Addr) (allowed []netip.Addr, outcome, detail string, err error) {
	addrs, outcome, detail, err := r.lookup(ctx, h, row, room)
	if err != nil || outcome != "" || r.opt.Guard == nil {
		return addrs, outcome, detail, err
	}
	allowed = addrs[:0]
	for _, a := range addrs {
		refused, err := r.opt.Guard(a)
		switch {
		case err != nil:
			return nil, "", "", err
		case refused == "":
			allowed = append(allowed, a)
		case detail == "":
			detail = a.String() + " is refused: " + refused
		}
	}
	if len(allowed) == 0 {
		return nil, record.OutcomeAddress, detail, nil
	}
	return allowed, "", "", nil
}

// lookup appends the host's addresses to room: those of row, until they expire, or else the
// resolver's, if it has any: what was good when the batch was resolved is better than none.
// outcome is not "" if there are none. The error is errUnnamed if the resolver is to be asked.
func (r *runner) lookup(ctx context.Context, h *host, row *record.URL, room []netip.Addr) (addrs []netip.Addr, outcome, detail string, err error) {
	name := hostname(h.name)
	now := r.now()
	switch literal, isLiteral := parseLiteral(name); {
	case isLiteral:
		return append(room, literal.Unmap()), "", "", nil
	case row != nil && localfault.Is(row.AddrError):
		return nil, record.OutcomeDeferred, row.AddrError, nil
	case row != nil && row.AddrError != "":
		return nil, record.OutcomeDNS, row.AddrError, nil
	case len(h.resolved) > 0 && h.expires > now && !given(row, now):
		return append(room, h.resolved...), "", "", nil
	case given(row, now), given(row, 0) && (h.nameless != "" || r.opt.Resolver == nil):
		for text := range strings.SplitSeq(row.Addr, ",") {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return nil, record.OutcomeDNS, "not an address: " + text, nil
			}
			room = append(room, a.Unmap())
		}
		return room, "", "", nil
	case r.opt.Resolver == nil:
		return nil, record.OutcomeDNS, "no address, and no resolver", nil
	case h.nameless != "" && h.expires > now && localfault.Is(h.nameless):
		return nil, record.OutcomeDeferred, h.nameless, nil
	case h.nameless != "" && h.expires > now:
		return nil, record.OutcomeDNS, h.nameless, nil
	}
	return nil, "", "", errUnnamed
}

// given says whether a row carries addresses that are valid at a time; 0: at any.
func given(row *record.URL, now micros) bool {
	return row != nil && row.Addr != "" && (row.AddrExpires == 0 || int64(row.AddrExpires) > now || now == 0)
}

// errUnnamed: the host waits for its addresses, and nobody waits for the host.
var errUnnamed = errors.New("the name is to be looked up")

const (
	namingMax = 256         // names that are looked up at a time
	namedMin  = time.Second // that an answer of the resolver serves at least
)

// name has the resolver asked for a host's addresses. A worker has the host, and gives it back.
func (r *runner) name(ctx context.Context, h *host) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reason != "" {
		return // it needs none
	}
	h.naming = true
	r.unnamed = append(r.unnamed, h)
	if r.naming < namingMax {
		r.naming++
		r.namers.Go(func() { r.nameAll(ctx) })
	}
}

// nameAll looks names up while there are any.
func (r *runner) nameAll(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.unnamed) > 0 && ctx.Err() == nil {
		h := r.unnamed[0]
		r.unnamed = r.unnamed[1:]
		r.mu.Unlock()
		addrs, expires, failure := r.opt.Resolver.Resolve(ctx, hostname(h.name))
		r.mu.Lock()
		if ctx.Err() != nil || !h.naming {
			continue
		}
		now := r.now()
		h.naming, h.nameless, h.expires = false, "", max(expires.UnixMicro(), now+us(namedMin))
		switch {
		case (failure != "" || len(addrs) == 0) && len(h.resolved) > 0: // those of before serve on
		case failure != "":
			h.nameless = failure
		case len(addrs) == 0:
			h.nameless = "no address"
		default:
			h.resolved = make([]netip.Addr, 0, len(addrs))
			for _, a := range addrs {
				h.resolved = append(h.resolved, a.Unmap())
			}
		}
		r.s.schedule(h, now)
		r.stir()
	}
	r.naming--
}

// elsewhere says whether a robots contact is to be made again, at the host's next address:
// it has one that was not tried, and nobody listens at the last. row may be nil.
func (r *runner) elsewhere(ctx context.Context, h *host, e *errand, robots *record.Fetch, row *record.URL) (bool, error) {
	if robots.Outcome != record.OutcomeConnect {
		return false, nil
	}
	h.dead++
	e.tried++
	addrs, _, _, err := r.addresses(ctx, h, row, nil)
	return e.tried < len(addrs), err
}

// serveErrand asks for a robots.txt, or goes one hop along its redirects.
// settled: there was no contact, go on. row is the host's first URL; row.URL is
// "" if it has none.
func (r *runner) serveErrand(ctx context.Context, h *host, e *errand, row *record.URL, rest halt, w *worker) (t turn, settled bool, err error) {
	conclude := func(v verdict, why string) (turn, bool, error) {
		r.conclude(h, e, v, why, nil, r.now())
		return turn{}, true, nil
	}
	if row.URL == "" {
		row = nil
	}
	switch saved, ok, err := r.archive.saved.take(record.RoleRobots, e.url, 0); {
	case err != nil:
		return turn{}, false, err
	case ok:
		g, text, err := r.archive.load(saved)
		if err != nil {
			return turn{}, false, err
		}
		if r.now()-ended(&g.Row) < us(robotsKeep) {
			if again, err := r.elsewhere(ctx, h, e, &g.Row, row); err != nil || again {
				return turn{}, true, err
			}
			return turn{}, true, r.follow(h, e, &g.Row, text)
		}
	}
	scheme, _, _ := canon.Split(e.url)
	protocol := r.opt.Protocols[scheme]
	rule := r.opt.Deny.Check(e.url, e.host)
	switch {
	case rest.host && localfault.Is(rest.why):
		r.leave(e.from, rest.why)
		return conclude(unknown, "")
	case h.hung > 0 && !rest.parked && rest.why != hostFailed && (rest.host || rest.until > 0):
		r.putOffWith(e.from, h, rest.why)
		return conclude(unknown, "")
	case rest.host && rest.why != "":
		return conclude(unreachable, rest.why)
	case rest.why != "":
		return conclude(unknown, "")
	case rule != "":
		return conclude(unreachable, "robots.txt: denied by "+rule)
	case protocol == nil || !hasRobots(scheme) || portRefused(e.host):
		return conclude(unreachable, "robots.txt: redirected to "+e.url)
	}
	a, outcome, detail, err := r.address(ctx, h, row)
	if err != nil {
		return turn{}, false, err
	}
	if outcome == record.OutcomeDeferred {
		r.leave(h, detail)
		return turn{}, true, nil
	}
	if outcome != "" {
		return conclude(unreachable, "robots.txt: "+outcome+": "+detail)
	}
	if !r.granted(h, a) {
		return turn{}, false, nil
	}
	robots := &record.Fetch{URL: e.url, Key: r.opt.Canon.URLKey(e.host, e.url), Host: e.host, Role: record.RoleRobots}
	text := &limited{max: robotsTextMax}
	w.req = Request{URL: e.url, Host: e.host, Addr: a}
	t, err = r.contact(ctx, h, protocol, w, robots, record.RoleRobots, text)
	if err != nil {
		return t, false, err
	}
	if robots.Outcome == record.OutcomeDeferred {
		return t, false, r.forgo(ctx, h, row, robots.Error)
	}
	if again, err := r.elsewhere(ctx, h, e, robots, row); err != nil || again {
		return t, false, err
	}
	if err := r.follow(h, e, robots, text.Bytes()); err != nil {
		return t, false, err
	}
	// A Crawl-delay holds from this contact on.
	r.mu.Lock()
	t.required = max(t.required, h.asked)
	r.mu.Unlock()
	return t, false, nil
}

// follow draws the consequence of a robots row.
func (r *runner) follow(h *host, e *errand, row *record.Fetch, text []byte) error {
	v, why, next := robotsRow(row)
	switch {
	case v != asking:
		r.conclude(h, e, v, why, robotsText(row, text), ended(row))
		return nil
	case e.hops >= robotsHopsMax: // RFC 9309 section 2.3.1.2
		r.conclude(h, e, allowAll, "", nil, ended(row))
		return nil
	}
	url, name, err := canon.URL(next)
	if err != nil {
		r.conclude(h, e, allowAll, "", nil, ended(row))
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h.errands = h.errands[1:]
	now := r.now()
	to := r.s.host(name, now)
	to.errands = append(to.errands, &errand{auth: e.auth, name: e.name, from: e.from, url: url, host: name, hops: e.hops + 1})
	r.s.schedule(to, now)
	r.stir()
	return nil
}

// conclude ends an errand, by what was learnt at an instant: the pages that waited for it
// may go on.
func (r *runner) conclude(h *host, e *errand, v verdict, why string, text []byte, at micros) {
	var rules Rules
	if v == byRules {
		rules = r.opt.Robots(text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if err := r.robots.conclude(e.auth, e.name, v, why, text, at); err != nil {
		r.cancel(err)
		return
	}
	if v == byRules {
		r.s.ask(e.from, us(rules.CrawlDelay()), now)
	}
	h.errands = h.errands[1:]
	e.from.blocked--
	if e.from != h {
		r.s.schedule(e.from, now)
		r.stir()
	}
}

// weight bounds bytes of memory that many goroutines hold.
type weight struct {
	mu   sync.Mutex
	free sync.Cond
	max  int64
	held int64
	off  bool // the run has failed: nobody waits any more
}

const (
	repliesMax = 24 << 20 // of replies that are encoded or wait for the writer,
	replyBase  = 8 << 10  // and of a small one
)

// replyWeight is what a reply of n bytes takes: raw, compressed and as a row.
func replyWeight(n int64) int64 { return replyBase + 3*n }

// keptMax is the most that keep (nil: nothing) takes of a reply's body, decoded.
func keptMax(reply *Reply, keep *limited) int64 {
	switch {
	case keep == nil:
		return 0
	case reply.spoken() || reply.Head != nil && reply.Head.Codings() == "":
		return min(reply.Length, int64(keep.max))
	}
	return min(swollenMax(reply.Length), int64(keep.max))
}

func newWeight(max int64) *weight {
	w := &weight{max: max}
	w.free.L = &w.mu
	return w
}

// acquire waits until n more bytes may be held, and returns n. What is more than
// all that is allowed goes alone.
func (w *weight) acquire(n int64) int64 {
	if n == 0 {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.off && w.held > 0 && w.held+n > w.max {
		w.free.Wait()
	}
	w.held += n
	return n
}

func (w *weight) close() {
	w.mu.Lock()
	w.off = true
	w.free.Broadcast()
	w.mu.Unlock()
}

func (w *weight) release(n int64) {
	if n == 0 {
		return
	}
	w.mu.Lock()
	w.held -= n
	w.free.Broadcast()
	w.mu.Unlock()
}
