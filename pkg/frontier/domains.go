package frontier

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/web/canon"
)

// Budgets bound how many new URLs of one registered domain an update lets into the
// queues: Base, and Growth for each other domain that links to it. So whoever makes hosts
// and links by the thousand below one domain gets Base all the same: he would have to buy
// domains (Lee, Leonard, Wang and Loguinov, "IRLbot: scaling to 6 billion pages and
// beyond", WWW 2008, section 5). What is over the budget is not dropped, but held for a later
// round, and judged again then (BEAST, section 6).
//
// Budgets hold where URLs come in, not where they go out: a batch that passed over what exceeds a budget would
// read the same URLs of a farm at the head of the queue round after round. A domain's row lists the domains that link to
// it, MaxSources at most, since more only say that it is popular: that is exact, while whoever chooses
// names by their hashes makes a few count as millions in a sketch.
type Budgets struct {
	Base   uint64  // URLs a round; 0: no budgets
	Growth float64 // for each linking domain, MaxSources at most
}

// maxBudget bounds both numbers, so that sums stay exact.
const maxBudget = 1 << 32

// check refuses budgets that mean nothing, or that a policy has no use for.
func (b Budgets) check(p *policy, links bool) error {
	if b.Base > maxBudget || !(b.Growth >= 0 && b.Growth <= maxBudget) {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a budget of %d URLs a domain, growing by %v", b.Base, b.Growth), Want: fmt.Sprintf("numbers of 0 to %d", uint64(maxBudget))}
	}
	if b.Base == 0 && b.Growth > 0 {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a growth of %v for each linking domain without a budget", b.Growth), Want: "a budget of URLs a domain"}
	}
	if b.Base > 0 && !p.budgets {
		return p.noUseFor("budgets of domains", func(a about) bool { return a.budgets })
	}
	if b.Base > 0 && !links {
		return &fault.Error{Class: fault.Usage, Found: "budgets of domains without links", Want: "the links of the batch, which say how they grow", Hint: "give them with --links"}
	}
	return nil
}

// ofDomain is the budget of a domain.
func (b Budgets) ofDomain(d *Domain) uint64 {
	return b.Base + uint64(b.Growth*float64(d.InDegree()))
}

// gate lets new URLs pass within their domains' budgets.
type gate struct {
	c        *change
	by       Budgets
	arrivals *sorter // new URLs as arrival, by the hostKey of their domain
	released *sorter // held URLs that are due this round, as arrival, by the hostKey of their domain
	links    *sorter // four bytes of the source and the target domain, by the target's hostKey

	src, srcHost, srcDomain string            // source of the last link
	domains                 map[string]string // domains of hosts
	recent                  []domainLink      // links seen lately, by a hash
}

// domainLink is a link between two domains.
type domainLink struct {
	to   uint64
	from uint32
}

const (
	maxNames    = 4096 // hosts in gate.domains
	maxNameSize = 255  // bytes of such a host's name
	recentLinks = 1 << 14
)

// newGate returns nil where there are no budgets.
func newGate(c *change, by Budgets) *gate {
	if by.Base == 0 {
		return nil
	}
	return &gate{c: c, by: by, arrivals: c.sorter(largeSort), links: c.sorter(smallSort), recent: make([]domainLink, recentLinks), domains: map[string]string{}}
}

// domain is the registered domain of a host.
func (g *gate) domain(host string) string {
	if d, ok := g.domains[host]; ok {
		return d
	}
	d := canon.RegisteredDomain(host)
	if len(host) <= maxNameSize {
		if len(g.domains) == maxNames {
			clear(g.domains)
		}
		host = strings.Clone(host)
		d = canon.RegisteredDomain(host) // a part of what is kept
		g.domains[host] = d
	}
	return d
}

// arrive takes in a new URL.
func (g *gate) arrive(host string, row []byte) error {
	return g.arrivals.addPayload(hostKey(g.domain(host)), row)
}

// link counts a link. One that the page does not vouch for (nofollow) does not count.
func (g *gate) link(l *record.Link) error {
	if l.Nofollow || max(len(l.Host), len(l.SrcURL)) > maxString {
		return nil
	}
	if l.SrcURL != g.src {
		g.src = l.SrcURL
		_, g.srcHost, _ = canon.Split(l.SrcURL)
		g.srcDomain = g.domain(g.srcHost)
	}
	if l.Host == g.srcHost {
		return nil
	}
	to := g.domain(l.Host)
	if to == g.srcDomain {
		return nil
	}
	link := domainLink{hostKey(to), sourceOf(g.srcDomain)}
	seen := &g.recent[(link.to^uint64(link.from)*0x9e3779b97f4a7c15)>>32%recentLinks]
	if *seen == link {
		return nil
	}
	*seen = link
	g.c.buf = binary.BigEndian.AppendUint32(g.c.buf[:0], link.from)
	return g.links.addPayload(link.to, append(g.c.buf, to...))
}

// sourceOf is the number of a linking domain in a domain's row.
func sourceOf(domain string) uint32 {
	h := sha256.Sum256([]byte(domain))
	return binary.BigEndian.Uint32(h[len(h)-4:])
}

// admit lets URLs into the queues: new ones, and held ones that are due this round.
func (c *change) admit(ctx context.Context) error {
	if c.gate == nil && len(c.s.Held) == 0 {
		return nil
	}
	c.s.Round++
	if err := c.release(ctx); err != nil || c.gate == nil {
		return err
	}
	return c.gate.judged(ctx)
}

// release takes out the held URLs that are due this round. If nothing else can
// be fetched, the next round comes at once. Without budgets they are queued
// with the new URLs.
func (c *change) release(ctx context.Context) error {
	s := c.s
	m := newMerger(c.st, s.Held)
	defer m.close()
	if first, ok := m.key(); ok && c.added == 0 && c.queue.rows == 0 && !s.ready() {
		s.Round = max(s.Round, first)
	}
	to := c.fresh
	if c.gate != nil {
		c.gate.released = c.sorter(smallSort)
		to = c.gate.released
	}
	var t ticker
	var e Entry
	for n := uint64(0); ; n++ {
		if round, ok := m.key(); !ok || round > s.Round {
			break
		}
		err := m.next(&e)
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
		s.Rewritten++
		c.host = append(c.host[:0], e.URL.Host...)
		c.row = e.Append(c.row[:0])
		a := arrival{priority: e.URL.Priority, number: n, known: true, host: c.host, row: c.row}
		c.buf = a.append(c.buf[:0])
		order := hostKey(e.URL.Host)
		if c.gate != nil {
			order = hostKey(c.gate.domain(e.URL.Host))
		}
		if err := to.addPayload(order, c.buf); err != nil {
			return err
		}
	}
	s.Held = m.rest(c.tx.Drop)
	return nil
}

// ready reports whether a front queue has a URL.
func (s *state) ready() bool {
	return slices.ContainsFunc(s.Ready, func(runs []run) bool { return len(runs) > 0 })
}

// judged decides about new and released URLs, and updates the table of
// domains. If a domain changed, all domains of its key are written.
func (g *gate) judged(ctx context.Context) error {
	c := g.c
	var in [3]*peeker // in this order: links count at once, and who has waited comes first
	for i, s := range []*sorter{g.links, g.released, g.arrivals} {
		var err error
		if in[i], err = s.sorted(); err != nil {
			return err
		}
	}
	table := openTable(c.st, c.s.Domains)
	defer table.close()
	var w *runWriter
	var group []Domain
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		order, more := lowest(in[:])
		if !more {
			break
		}
		var err error
		if group, err = find(table, order, group[:0]); err != nil {
			return err
		}
		all := domainGroup{rows: group, given: make([]uint64, len(group))}
		for i, rows := range in {
			for !rows.done && rows.key == order {
				if i == 0 {
					err = all.link(order, rows.row)
				} else {
					err = g.decide(&all, order, rows.row)
				}
				if err == nil {
					err = rows.takeRow()
				}
				if err != nil {
					return err
				}
			}
		}
		group = all.rows
		if !all.changed {
			continue
		}
		if w == nil {
			if w, err = newRun(c.tx, "domains/", "domains", 0); err != nil {
				return err
			}
		}
		slices.SortFunc(group, func(a, b Domain) int { return strings.Compare(a.Domain, b.Domain) })
		for i := range group {
			c.buf = group[i].Append(c.buf[:0])
			if err := w.addPayload(order, c.buf); err != nil {
				return err
			}
		}
	}
	for _, s := range []*sorter{g.links, g.released, g.arrivals} {
		s.Close() // others need the memory
	}
	if w == nil {
		return nil
	}
	r, err := w.finish()
	if err != nil {
		return err
	}
	if err := mergeRuns(ctx, c.st, c.tx, c.s, r.Rows, c.s.layout.step, tableList(c, &c.s.Domains, "domains")); err != nil {
		return err
	}
	c.s.Domains = append(c.s.Domains, r)
	return nil
}

// lowest is the lowest key that one of the inputs is at.
func lowest(in []*peeker) (key uint64, more bool) {
	key = math.MaxUint64
	for _, p := range in {
		if !p.done {
			key, more = min(key, p.key), true
		}
	}
	return key, more
}

// domainGroup are the domains of one order, which is one as a rule.
type domainGroup struct {
	rows    []Domain
	given   []uint64 // for each domain in rows, the URLs that this round has let in
	changed bool
}

// at returns the place of a domain, which is new if it is not there.
func (g *domainGroup) at(order uint64, name string) (int, error) {
	i := slices.IndexFunc(g.rows, func(d Domain) bool { return d.Domain == name })
	if i >= 0 {
		return i, nil
	}
	if len(g.rows) == maxSame {
		return 0, tooManySame(order)
	}
	g.rows = append(g.rows, Domain{Key: order, Domain: strings.Clone(name)})
	g.given = append(g.given, 0)
	return len(g.rows) - 1, nil
}

// link counts a link to a domain, as gate.link has it.
func (g *domainGroup) link(order uint64, row []byte) error {
	i, err := g.at(order, string(row[4:]))
	if err != nil {
		return err
	}
	d := &g.rows[i]
	from := binary.BigEndian.Uint32(row)
	at, found := slices.BinarySearch(d.Sources, from)
	if found || d.Many {
		return nil
	}
	g.changed = true
	d.Sources = slices.Insert(d.Sources, at, from)
	if len(d.Sources) == MaxSources {
		d.Sources, d.Many = nil, true
	}
	return nil
}

// decide lets a URL into the queues, or holds it.
func (g *gate) decide(all *domainGroup, order uint64, row []byte) error {
	a := decodeArrival(row)
	i, err := all.at(order, g.domain(string(a.host)))
	if err != nil {
		return err
	}
	d := &all.rows[i]
	budget := g.by.ofDomain(d)
	if all.given[i] < budget {
		all.given[i]++
		return g.c.fresh.addPayload(hostKey(string(a.host)), row)
	}
	all.changed = true
	round := chargeBudget(d, g.c.s.Round, budget)
	if a.known {
		return g.c.holdRow(round, a.row)
	}
	a.hold = round // its host counts it
	g.c.buf = a.append(g.c.buf[:0])
	return g.c.fresh.addPayload(hostKey(string(a.host)), g.c.buf)
}

// leastHorizon is how many rounds ahead a budget is given away at the least.
const leastHorizon = 16

// chargeBudget takes one URL from the domain's budget and returns the round with that budget. The
// round is never further ahead than rounds have been: the budget
// may have grown by then. So a URL is judged again log2(rounds) times.
func chargeBudget(d *Domain, now, budget uint64) uint64 {
	if d.Round <= now {
		d.Round, d.Used = now+1, 0
	}
	if d.Used >= budget {
		d.Round, d.Used = d.Round+1, 0
	}
	if most := now + max(now, leastHorizon); d.Round > most {
		d.Round, d.Used = most, budget
		return most
	}
	d.Used++
	return d.Round
}

// holdRow holds a URL until a round.
func (c *change) holdRow(round uint64, row []byte) error {
	if c.held == nil {
		c.held = c.sorter(smallSort)
	}
	return c.held.addPayload(round, row)
}

// writeHeld writes the URLs that were held as a run.
func (c *change) writeHeld() error {
	if c.held == nil {
		return nil
	}
	r, err := writeRun(c.tx, c.held, "held/", "held")
	if err == nil {
		c.s.Held = append(c.s.Held, r)
	}
	return err
}

// unhold takes one held URL where nothing else is there to be fetched: an empty batch would
// mean an empty frontier.
func (p *picker) unhold(to func(*Entry) error) error {
	var e Entry
	switch err := p.held.next(&e); err {
	case io.EOF:
		return nil
	case nil:
		return to(&e)
	default:
		return err
	}
}

// Domain returns the state of a host's registered domain; found is false where no
// other domain links to it and its budget was never exceeded.
func (f *Frontier) Domain(host string) (d Domain, found bool, err error) {
	s, _, err := f.current()
	if err != nil {
		return d, false, err
	}
	table := openTable(f.st, s.Domains)
	defer table.close()
	return domainOf(table, host)
}

// domainOf finds the registered domain of a host.
func domainOf(table *table, host string) (d Domain, found bool, err error) {
	name := canon.RegisteredDomain(host)
	group, err := find[Domain](table, hostKey(name), nil)
	for _, d := range group {
		if d.Domain == name {
			return d, true, nil
		}
	}
	return d, false, err
}
