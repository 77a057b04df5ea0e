package fetch

import (
	"context"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/fetch/localfault"
	"mercator/pkg/web/canon"
)

// serveRobots asks for a robots.txt, or goes one hop along its redirects.
// settled: there was no contact, go on. row is the host's first URL; row.URL is
// "" if it has none.
func (r *runner) serveRobots(ctx context.Context, h *host, e *robotsRequest, row *record.URL, rest halt, w *worker) (t turn, settled bool, err error) {
	conclude := func(v verdict, why string) (turn, bool, error) {
		r.conclude(h, e, v, why, nil, r.now())
		return turn{}, true, nil
	}
	if row.URL == "" {
		row = nil
	}
	switch saved, ok, err := r.archive.saved.takeContact(record.RoleRobots, e.url); {
	case err != nil:
		return turn{}, false, err
	case ok:
		g, text, err := r.archive.load(saved)
		if err != nil {
			return turn{}, false, err
		}
		if r.now()-ended(&g.Row) >= us(robotsKeep) {
			break
		}
		return turn{}, true, r.follow(h, e, &g.Row, text)
	}
	scheme, _, _ := canon.Split(e.url)
	protocol := r.opt.Protocols[scheme]
	rule := r.opt.Deny.Check(e.url, e.host)
	switch {
	case rest.host && (localfault.Is(rest.why) || rest.why == ofAnotherShard):
		r.deferHost(e.from, rest.why)
		return conclude(unknown, "")
	case rest.ahead && !rest.parked && rest.why != hostFailed:
		r.putOffWith(e.from, h, rest.why)
		return conclude(unknown, "")
	case rest.host && rest.why != "":
		return conclude(unreachable, rest.why)
	case rest.why != "":
		return conclude(unknown, "")
	case rule != "":
		return conclude(unreachable, robotsDenied+rule)
	case protocol == nil || !HasRobots(scheme) || portRefused(e.host):
		return conclude(unreachable, "robots.txt: redirected to "+e.url)
	}
	addrs, outcome, detail, err := r.addresses(ctx, h, row, nil)
	if err != nil {
		return turn{}, false, err
	}
	if outcome == record.OutcomeDeferred {
		r.deferHost(h, detail)
		return turn{}, true, nil
	}
	if outcome != "" {
		return conclude(unreachable, "robots.txt: "+outcome+": "+detail)
	}
	a := r.choose(h, addrs)
	if !r.granted(h, a) {
		return turn{}, false, nil
	}
	robots := &record.Fetch{URL: e.url, Key: r.opt.Canon.URLKey(e.host, e.url), Host: e.host, Role: record.RoleRobots, Sitemap: e.sitemap, Requisite: e.requisite}
	text := &limited{max: robotsTextMax}
	w.req, w.addrs = Request{URL: e.url, Host: e.host, Addr: a}, len(addrs)
	t, err = r.contact(ctx, h, protocol, w, robots, record.RoleRobots, text)
	if err != nil || t.missed {
		return t, false, err
	}
	if robots.Outcome == record.OutcomeDeferred {
		r.afterLocalError(h, a, robots.Error)
		return t, false, nil
	}
	if err := r.follow(h, e, robots, text.Bytes()); err != nil {
		return t, false, err
	}
	// A Crawl-delay holds from this contact on.
	r.mu.Lock()
	t.required = max(t.required, h.crawlDelay)
	r.mu.Unlock()
	return t, false, nil
}

// follow draws the consequence of a robots row.
func (r *runner) follow(h *host, e *robotsRequest, row *record.Fetch, text []byte) error {
	v, why, next := robotsRow(row)
	if v != asking {
		r.conclude(h, e, v, whyOf(e.name, row, why), robotsText(row, text), ended(row))
		return nil
	}
	url, name, err := canon.URL(next)
	if err != nil || e.hops >= robotsHopsMax { // RFC 9309 section 2.3.1.2
		r.conclude(h, e, allowAll, "", nil, ended(row))
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h.robotsRequests = h.robotsRequests[1:]
	now := r.now()
	to := r.s.host(name, now)
	to.robotsRequests = append(to.robotsRequests, &robotsRequest{auth: e.auth, name: e.name, from: e.from, url: url, host: name, hops: e.hops + 1, sitemap: e.sitemap, requisite: e.requisite})
	r.s.schedule(to, now)
	r.stir()
	return nil
}

// login queues the login that a page of a host waits for.
func (r *runner) login(h *host, row *record.URL) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.blocked++
	h.robotsRequests = append(h.robotsRequests, &robotsRequest{from: h.first(), url: row.URL, host: row.Host, sitemap: row.Sitemap, requisite: row.Requisite})
	return r.sp.unclaim(h)
}

// serveLogin makes the next contact of a login. settled: there was none, go on.
func (r *runner) serveLogin(ctx context.Context, h *host, e *robotsRequest, row *record.URL, rest halt, w *worker) (t turn, settled bool, err error) {
	step, page, _ := r.opt.Logins.Step(e.url)
	if step == "" || rest.why != "" { // its pages know what follows
		r.mu.Lock()
		defer r.mu.Unlock()
		h.robotsRequests = h.robotsRequests[1:]
		e.from.blocked--
		return turn{}, true, nil
	}
	fail := func(why string) (turn, bool, error) {
		r.opt.Logins.Failed(e.url, why, true)
		return turn{}, true, nil
	}
	scheme, _, _ := canon.Split(e.url)
	if rule := r.opt.Deny.Check(step, e.host); rule != "" {
		return fail("denied by " + rule)
	}
	if row.URL == "" {
		row = nil
	}
	addrs, outcome, detail, err := r.addresses(ctx, h, row, nil)
	switch {
	case err != nil:
		return turn{}, false, err
	case outcome == record.OutcomeDeferred:
		r.deferHost(h, detail)
		return turn{}, true, nil
	case outcome != "":
		return fail(outcome + ": " + detail)
	}
	a := r.choose(h, addrs)
	if !r.granted(h, a) {
		return turn{}, false, nil
	}
	login := &record.Fetch{URL: page, Key: r.opt.Canon.URLKey(e.host, page), Host: e.host, Role: record.RoleLogin, Sitemap: e.sitemap, Requisite: e.requisite}
	w.req, w.addrs = Request{URL: step, Host: e.host, Addr: a, Login: true}, len(addrs)
	t, err = r.contact(ctx, h, r.opt.Protocols[scheme], w, login, record.RoleLogin, nil)
	switch {
	case err != nil || t.missed:
	case login.Outcome == record.OutcomeDeferred:
		r.afterLocalError(h, a, login.Error)
	case login.Outcome != record.OutcomeFetched:
		r.opt.Logins.Failed(e.url, login.Outcome+": "+login.Error, false)
	}
	return t, false, err
}

// conclude ends a robots.txt request with a verdict of that instant. The pages that waited for it
// may go on.
func (r *runner) conclude(h *host, e *robotsRequest, v verdict, why string, text []byte, at micros) {
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
	if v == byRules && !e.from.polite.NoRobots {
		r.s.applyCrawlDelay(e.from, us(rules.CrawlDelay()), now)
	}
	h.robotsRequests = h.robotsRequests[1:]
	e.from.blocked--
	if e.from != h {
		r.s.schedule(e.from, now)
		r.stir()
	}
}

// authority returns the entry of the robots rules for a host and scheme.
func (r *runner) authority(h *host, scheme string) (*authority, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(withRobots[:], scheme)
	var err error
	if h.rules[i] == nil {
		h.rules[i], err = r.robots.use(scheme + "://" + h.name)
	}
	return h.rules[i], err
}

// unreachable says why a host's robots.txt could not be had in this batch; "" if it could, or was not asked for.
func (r *runner) unreachable(h *host, scheme string) string {
	if i := slices.Index(withRobots[:], scheme); i >= 0 && h.rules[i] != nil {
		if v, why := r.verdict(h.rules[i]); v == unreachable {
			return why
		}
	}
	return ""
}

// verdict returns the verdict that holds for an authority now. Rules that are too old are asked
// for again.
func (r *runner) verdict(a *authority) (verdict, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if (a.verdict == allowAll || a.verdict == byRules) && r.now()-a.fetched > us(robotsKeep) {
		a.verdict = unknown
	}
	return a.verdict, a.why
}
