package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/politeness"
	"mercator/pkg/base/trace"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/localfault"
	"mercator/pkg/folder/bodies"
	"mercator/pkg/web/canon"
)

// portRefused reports whether a host's port is one that browsers refuse.
func portRefused(host string) bool {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") {
		return false
	}
	n, err := strconv.ParseUint(host[i+1:], 10, 16)
	return err != nil || addrguard.PortRefused(uint16(n))
}

// servePage deals with the first URL of a host: again, or if that is nil the first of its queue. settled: there was no contact, go on.
func (r *runner) servePage(ctx context.Context, h *host, row *record.URL, again *led, rest halt, w *worker) (t turn, settled bool, err error) {
	end := func(outcome, detail string, later micros, aside bool) (turn, bool, error) {
		if again != nil { // the batch has its row already
			r.askedAgain(h, again, outcome)
			return turn{}, true, nil
		}
		return turn{}, true, r.settle(ctx, h, row, outcome, detail, later, aside)
	}
	settle := func(outcome, detail string) (turn, bool, error) { return end(outcome, detail, 0, false) }
	refuse := func(outcome, detail string) (turn, bool, error) { return end(outcome, detail, 0, true) }
	scheme, _, _ := canon.Split(row.URL)
	protocol := r.opt.Protocols[scheme]
	rule := r.opt.Deny.Check(row.URL, row.Host)
	switch {
	case rule != "":
		return refuse(record.OutcomeDenied, "denied by "+rule)
	case protocol == nil:
		return refuse(record.OutcomeScheme, scheme)
	case protocol.Check(row.URL) != nil:
		err := protocol.Check(row.URL)
		if f, ok := errors.AsType[*Failure](err); ok {
			return settle(f.Outcome, err.Error())
		}
		return settle(record.OutcomeScheme, err.Error())
	case portRefused(row.Host):
		return settle(record.OutcomePort, "browsers refuse the port of "+row.Host+", and no setting allows it")
	case rest.why == localfault.NoIPv6: // there may never be one: no crawl waits for it
		return refuse(record.OutcomeAddress, rest.why)
	case localfault.Is(rest.why):
		return refuse(record.OutcomeDeferred, rest.why)
	case rest.parked:
		return end(record.OutcomeParked, rest.why, rest.until, false)
	case rest.why != "":
		if why := r.unreachable(h, scheme); why != "" && !rest.host && !h.polite.NoRobots {
			return settle(withoutRobots(why), why) // which needs no contact
		}
		return end(record.OutcomeDeferred, rest.why, rest.until, false)
	}
	var room [4]netip.Addr
	addrs, outcome, detail, err := r.addresses(ctx, h, row, room[:0])
	if err != nil {
		return turn{}, false, err
	}
	switch outcome {
	case "":
	case record.OutcomeDeferred:
		r.deferHost(h, detail)
		return turn{}, true, nil
	case record.OutcomeAddress:
		return refuse(outcome, detail)
	default:
		return settle(outcome, detail)
	}
	if r.opt.Robots != nil && HasRobots(scheme) {
		if may, settled, err := r.heedRobots(h, row, scheme, settle); !may {
			return turn{}, settled, err
		}
	}
	if r.opt.Logins != nil {
		switch step, _, why := r.opt.Logins.Step(row.URL); {
		case why != "":
			r.warnLocal(loginFailed + why)
			return refuse(record.OutcomeDeferred, loginFailed+why)
		case step != "":
			return turn{}, true, r.login(h, row)
		}
	}
	a := r.choose(h, addrs)
	if !r.granted(h, a) {
		return turn{}, false, nil
	}
	page, made := row.ToFetch(), ""
	if again != nil {
		page.Role, made = record.RoleAgain, record.RoleAgain
	}
	w.addrs = len(addrs)
	w.req = Request{Method: r.opt.Method, URL: row.URL, Host: row.Host, Addr: a, ETag: row.ETag, LastModified: row.LastModified}
	sent := r.cookiesSent(row.URL)
	if t, err = r.contact(ctx, h, protocol, w, &page, made, nil); err != nil || t.missed {
		return t, false, err
	}
	if page.Outcome == record.OutcomeDeferred {
		r.afterLocalError(h, a, page.Error)
		return t, false, nil
	}
	number := 0
	if again != nil {
		number = r.askedAgain(h, again, page.Outcome)
	} else if err := r.pop(h); err != nil {
		return t, false, err
	}
	r.noteRedirect(row, &page, sent, w.reload, number)
	return t, false, nil
}

// heedRobots reports whether robots.txt lets a URL be fetched now. If not, it has settled it, asks for the file, or leaves the URL in the queue of its host.
func (r *runner) heedRobots(h *host, row *record.URL, scheme string, settle func(outcome, detail string) (turn, bool, error)) (may, settled bool, err error) {
	stop := func(outcome, detail string) (bool, bool, error) {
		_, settled, err := settle(outcome, detail)
		return false, settled, err
	}
	auth, err := r.authority(h, scheme)
	if err != nil {
		return false, false, err
	}
	switch v, why := r.verdict(auth); {
	case h.polite.NoRobots && (v == unreachable || v == allowAll || v == byRules):
		if trace.On(row.URL) {
			trace.Say("mfetch", row.URL, "robots.txt of %s://%s is ignored, as its sheet says", scheme, h.name)
		}
	case v == unreachable:
		return stop(withoutRobots(why), why)
	case v == allowAll:
		if trace.On(row.URL) {
			trace.Say("mfetch", row.URL, "robots.txt of %s://%s: there is none, all is allowed", scheme, h.name)
		}
	case v == byRules:
		rules, err := r.robots.rules(auth)
		if err != nil {
			return false, false, err
		}
		allowed := rules.Allowed(row.URL)
		if trace.On(row.URL) {
			trace.Say("mfetch", row.URL, "robots.txt of %s://%s: allowed %v, Crawl-delay %v", scheme, h.name, allowed, rules.CrawlDelay())
		}
		if !allowed {
			return stop(record.OutcomeRobotsDenied, "")
		}
		r.mu.Lock()
		early := r.s.applyCrawlDelay(h, us(rules.CrawlDelay()), r.now())
		r.mu.Unlock()
		if early {
			return false, false, nil
		}
	case v == unknown:
		r.mu.Lock()
		defer r.mu.Unlock()
		if auth.verdict != unknown { // another connection was faster
			return false, true, nil
		}
		auth.verdict = asking
		h.blocked++
		name := scheme + "://" + h.name
		h.robotsRequests = append(h.robotsRequests, &robotsRequest{auth: auth, name: name, from: h.first(), url: name + "/robots.txt", host: row.Host, sitemap: row.Sitemap, requisite: row.Requisite})
		return false, true, r.sp.unclaim(h)
	case v == asking: // over another connection
		return false, false, nil
	}
	return true, false, nil
}

// settle emits the row of a URL for which nothing is contacted, or puts it aside, and takes
// the URL off its host's queue.
func (r *runner) settle(ctx context.Context, h *host, row *record.URL, outcome, detail string, later micros, aside bool) error {
	page := row.ToFetch()
	page.FetchTime = record.TimeOf(r.opt.Now())
	page.Outcome, page.Error = outcome, clean(detail)
	page.RetryAfter = record.Time(later)
	var err error
	if aside {
		err = r.holdRefusal(h, &page)
	} else {
		err = r.emit(ctx, &page, nil, "", 0, bodies.Place{})
	}
	if err != nil {
		return err
	}
	return r.pop(h)
}

func (r *runner) pop(h *host) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sp.pop(h.pending())
}

// granted reports whether the host's turn is for this address. If not, the host
// waits for the turn of the right one.
func (r *runner) granted(h *host, a netip.Addr) bool {
	if h.conns != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return h.may(r.now()) // another connection may have learnt of a wait
	}
	if r.opt.AddrDelay == 0 || h.slot.addr == a {
		return true
	}
	r.mu.Lock()
	h.addr = a
	r.mu.Unlock()
	return false
}

// contact makes one contact, archives it and emits its row.
func (r *runner) contact(ctx context.Context, h *host, p Protocol, w *worker, row *record.Fetch, made string, keep *limited) (turn, error) {
	req := &w.req
	if err := r.mark(); err != nil {
		return turn{}, err
	}
	if err := r.lease.await(w.ctx); err != nil {
		return turn{}, err
	}
	start := r.opt.Now()
	if w := h.polite.Window; w != nil && w.Opens(start).After(start) {
		return turn{}, errShut
	}
	r.mu.Lock()
	session, surplus := r.conns.beginContact(h)
	row.RequiredDelayUS = h.required
	left := r.s.reaches.left(h.name, w.addrs)
	r.mu.Unlock()
	closeSession(surplus)
	if scheme, _, _ := strings.Cut(req.URL, ":"); scheme != h.lastScheme {
		closeSession(session) // another module's
		h.lastScheme, session = strings.Clone(scheme), nil
	}
	req.Session = session
	if trace.On(req.URL) {
		trace.Say("mfetch", req.URL, "contact: %s, the gap before it was to be %v", req.Addr, time.Duration(h.required)*time.Microsecond)
	}
	row.FetchTime, row.Addr = record.TimeOf(start), h.addrText(req.Addr)
	hurried := w.ctx
	if left > 0 {
		hurried = context.WithValue(w.ctx, hurryKey{}, true)
	}
	reply := p.Fetch(hurried, req)
	end := r.opt.Now()
	if w.ctx.Err() != nil {
		reply.Err = context.Cause(w.ctx) // an interrupted contact has no outcome
	}
	if reply.Err != nil {
		closeSession(reply.Session)
		reply.release()
		if text, ok := localfault.Of(reply.Err); ok {
			return r.localError(ctx, h, row, text, len(reply.Sent) > 0 || reply.Wire > 0, end)
		}
		return turn{}, reply.Err
	}
	h.localErrors, h.took = 0, end.Sub(start).Microseconds()
	t := turn{made: true, end: end.UnixMicro(), session: reply.Session}
	row.DurationUS = t.end - int64(row.FetchTime)
	if w.addrs > 1 && r.missed(h, row, reply, req.Addr, w.addrs, &t) {
		reply.release()
		return t, nil
	}
	if t.missed = reply.LoggedOut; t.missed {
		row.Role, made = record.RoleLogin, record.RoleLogin
	}
	var plain *plainDoc // for the commands behind; nil: they read the archive
	if keep == nil && r.bodies != nil {
		if plain = plainOf(reply); plain != nil && plain.given == nil {
			keep = &plain.limited
		}
	}
	looks := r.opt.Cookies != nil && made != record.RoleRobots && !reply.spoken()
	if looks && keep == nil && plain == nil {
		w.begin.Reset()
		w.begin.max = reloadMax
		keep = &w.begin
	}
	w.reload = ""
	weight, err := take(ctx, r.replies, replyWeight(reply.Length)+keptMax(reply, keep), repliesMax)
	if err != nil {
		reply.release()
		return t, err
	}
	var copied io.Writer
	if keep != nil {
		keep.Grow(int(min(reply.Length, int64(keep.max)))) // all that most need
		copied = keep
	}
	err = describe(ctx, row, reply, r.opt.BodyMax, end, copied, r.decoders, r.opt.Canon, r.weigh)
	if looks && err == nil && row.Status/100 == 2 && reply.Head != nil {
		begin := w.begin.Bytes()
		if plain != nil {
			begin = plain.body()
		}
		w.reload = reloadOf(row, reply.Head.Get("Refresh"), begin, r.opt.Canon)
	}
	var place bodies.Place
	if plain != nil && err == nil {
		place = plain.put(r.bodies, row)
	}
	if keep != nil { // most bodies need less than they might
		needed := replyWeight(reply.Length)
		if plain == nil {
			needed += int64(keep.Cap())
		}
		needed = min(weight, needed)
		r.replies.Release(weight - needed)
		weight = needed
	}
	if plain != nil {
		plain.free()
	}
	if err != nil {
		reply.release()
		return t, err
	}
	r.mu.Lock()
	if h.fails = failsAfter(row, h.fails); h.fails >= failsMax && h.deferred == "" {
		h.deferred = hostFailed
	}
	t.required, t.serverGap = r.gap(h.polite, row, h.crawlDelay, h.fails)
	h.timeouts = min(h.timeouts, fitting(row.DurationUS))
	r.wire += reply.Wire
	over := r.opt.BytesMax > 0 && r.wire >= r.opt.BytesMax
	r.mu.Unlock()
	if over {
		r.stopBatch("max-bytes")
	}
	return t, r.emit(ctx, row, reply, made, weight, place)
}

// missed notes whether the address of a contact served, and reports whether the visit goes on at the host's next of so many. Then
// the contact gives no row, and t is the turn.
func (r *runner) missed(h *host, row *record.Fetch, reply *Reply, addr netip.Addr, addrs int, t *turn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	unconnected := reply.Outcome == record.OutcomeConnect
	if !unconnected && !reply.Unreached || reply.Forwarded {
		h.lastMiss = miss{}
		switch {
		case reply.Forwarded:
		case failed(reply.Outcome), reply.Head != nil && reply.Head.Status == http.StatusMisdirectedRequest: // what is tried again is tried at the next
			r.s.reaches.skip(h.name, addr, t.end)
		default:
			r.s.reaches.serve(h.name, addr, t.end)
		}
		return false
	}
	if r.s.reaches.miss(h.name, addr, addrs, t.end) == 0 {
		if h.lastMiss.outcome != "" && reply.Outcome == record.OutcomeTLS { // which is final
			reply.Outcome, reply.Error = h.lastMiss.outcome, h.lastMiss.why+"; "+addr.String()+": "+reply.Error
		}
		reply.Error += fmt.Sprintf(" (none of %d addresses served)", min(addrs, triesMax))
		h.lastMiss = miss{}
		return false
	}
	if reply.Outcome != record.OutcomeTLS {
		h.lastMiss = miss{reply.Outcome, addr.String() + ": " + reply.Error}
	}
	t.missed = true
	if unconnected {
		t.made = false
		r.conns.endContact(h, nil, 0)
		return true
	}
	row.Outcome = reply.Outcome
	t.required, t.serverGap = r.gap(h.polite, row, h.crawlDelay, h.fails)
	return true
}

// miss is how an address did not serve.
type miss struct{ outcome, why string }

// Merge returns the row that a saved one gives in a batch that holds u: what
// became of the URL as it was saved, what the frontier says of it as it is in u.
func Merge(u *record.URL, saved *record.Fetch) record.Fetch {
	row := *saved
	u.Into(&row)
	row.Addr, row.ETag, row.LastModified = saved.Addr, saved.ETag, saved.LastModified
	return row
}

// addrText is addr as a row has it.
func (h *host) addrText(addr netip.Addr) string {
	if h.lastAddr != addr {
		h.lastAddr, h.lastAddrText = addr, addr.String()
	}
	return h.lastAddrText
}

// ended is when a contact ended.
func ended(row *record.Fetch) micros { return int64(row.FetchTime) + row.DurationUS }

// gap is the delay that politeness demands after a contact with a host that asks
// for a Crawl-delay and has failed so many times in a row. wide is what the server asked for: that much holds over any connection.
func (r *runner) gap(own *politeness.Rules, row *record.Fetch, asked micros, fails int) (gap, wide micros) {
	wide = asked
	switch {
	case row.RetryAfter != 0 && row.Status >= 400:
		wide = max(wide, micros(row.RetryAfter)-ended(row))
	case overloaded(row):
		wide = max(wide, backoffMin<<min(fails-1, 20))
	}
	return max(own.After(row.DurationUS), wide), wide
}

// backoffMin is the gap after a first reply that says "too many requests" and
// not for how long; it doubles with each in a row.
const backoffMin = micros(time.Second / time.Microsecond)

// failsAfter is how many contacts in a row have failed with one that had failed so many
// times before.
func failsAfter(row *record.Fetch, before int) int {
	if failed(row.Outcome) || overloaded(row) {
		return before + 1
	}
	return 0
}

// overloaded reports whether a server asks to be asked less.
func overloaded(row *record.Fetch) bool { return row.Status == 429 || row.Status == 503 }
