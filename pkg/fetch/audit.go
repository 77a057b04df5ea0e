package fetch

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/politeness"
	"mercator/pkg/merge"
)

// AuditOptions say what is demanded beyond what the rows themselves claim.
type AuditOptions struct {
	politeness.Policy               // of the gaps to hosts; of hosts with several connections see lanes, and no gaps at addresses are demanded
	AddrDelay         time.Duration // gap between contacts with one address; 0: not checked
	LongestWait       time.Duration // what servers asked for counts up to this; 0: any
	Memory            int64         // for sorting
	Worst             int           // how many of the smallest margins are kept
}

// Gap is the time between two contacts in a row with one host or address.
type Gap struct {
	Name     string // host or address
	At       time.Time
	Gap      time.Duration // from the end of the one to the start of the other; negative: they overlapped
	Required time.Duration
}

// Margin is how much longer than required a gap was.
func (g Gap) Margin() time.Duration { return g.Gap - g.Required }

// Bucket counts margins from From up to twice that (the first: below 1 ms).
type Bucket struct {
	From time.Duration
	N    uint64
}

// AuditReport is the result of an audit for hosts, or for addresses.
type AuditReport struct {
	Names      uint64 // hosts, addresses
	Gaps       uint64
	Violations uint64
	Worst      []Gap    // smallest margin first
	Margins    []Bucket // by powers of two
}

// Audit is the result of an audit of the records of some rounds.
type Audit struct {
	Rows, Contacts, Robots uint64
	Outside                uint64 // contacts that began outside of their host's window
	OutsideHost            string // host of the first such contact
	OutsideAt              time.Time
	NoRobots               []Ignored // hosts with contacts on which robots.txt was ignored, most contacts first, at most ignoredMax
	NoRobotsHosts          int       // all of them
	Hosts, Addrs           AuditReport
}

// Ignored is a host on which robots.txt was ignored.
type Ignored struct {
	Host     string `json:"host"`
	Contacts uint64 `json:"contacts"`
}

const ignoredMax = 100

// Err is fault.No if a contact came early.
func (a *Audit) Err() error {
	var found []string
	if n := a.Hosts.Violations + a.Addrs.Violations; n > 0 {
		found = append(found, fmt.Sprintf("%d contacts came early", n))
	}
	if a.Outside > 0 {
		found = append(found, fmt.Sprintf("%d contacts outside of the windows of their hosts, first with %s at %s", a.Outside, clean(a.OutsideHost), a.OutsideAt.Format(time.RFC3339)))
	}
	if len(found) == 0 {
		return nil
	}
	return &fault.Error{Class: fault.No, Found: strings.Join(found, ", ")}
}

// Auditor collects the contacts of fetch rows, in any order, within bounded
// memory: they are sorted by time, and that by host and by address.
type Auditor struct {
	opt    AuditOptions
	all    []AuditOptions // demands that differ: the first are opt
	held   int            // rows are held to these of all
	audit  Audit
	byTime *merge.Sorter
	buf    []byte
}

// NewAuditor returns an Auditor. Close it.
func NewAuditor(opt AuditOptions) *Auditor {
	return &Auditor{opt: opt, all: []AuditOptions{opt}, byTime: merge.NewSorter(opt.Memory/4, "")}
}

// Demand holds the rows that are added from now on to d. The gap before a contact is what the contact's own demands say.
func (a *Auditor) Demand(d AuditOptions) {
	a.held = len(a.all)
	a.all = append(a.all, d)
}

// Hold checks the rows that follow against the demands of number n: 0 is NewAuditor's, 1 the first Demand's.
func (a *Auditor) Hold(n int) { a.held = n }

// Close gives back memory and disk.
func (a *Auditor) Close() error { return a.byTime.Close() }

// Add takes a row into account. Rows without an address were no contacts.
func (a *Auditor) Add(row *record.Fetch) error {
	a.audit.Rows++
	if row.Addr == "" {
		return nil
	}
	a.audit.Contacts++
	if row.Role == record.RoleRobots {
		a.audit.Robots++
	}
	c := contactSpan{start: int64(row.FetchTime), end: int64(row.FetchTime) + row.DurationUS, required: row.RequiredDelayUS, held: int64(a.held), host: row.Host, addr: row.Addr}
	if row.RetryAfter != 0 && row.Status >= 400 {
		c.asked = max(0, int64(row.RetryAfter)-c.end)
	}
	if longest := us(a.all[a.held].LongestWait); longest > 0 {
		c.asked, c.required = min(c.asked, longest), min(c.required, longest)
	}
	a.buf = c.append(a.buf[:0])
	return a.byTime.Add(uint64(c.start), a.buf)
}

// contactSpan is a contact as the sorter holds it.
type contactSpan struct {
	start, end, required micros
	asked                micros // by Retry-After, from its end on
	held                 int64  // of Auditor.all
	host, addr           string
}

func (c *contactSpan) append(b []byte) []byte {
	for _, n := range [...]micros{c.start, c.end, c.required, c.asked, c.held} {
		b = binary.AppendVarint(b, n)
	}
	b = binary.AppendUvarint(b, uint64(len(c.host)))
	return append(append(b, c.host...), c.addr...)
}

func (c *contactSpan) parse(b []byte) {
	for _, p := range [...]*micros{&c.start, &c.end, &c.required, &c.asked, &c.held} {
		n, size := binary.Varint(b)
		*p, b = n, b[size:]
	}
	n, size := binary.Uvarint(b)
	c.host, c.addr = string(b[size:size+int(n)]), string(b[size+int(n):])
}

// Report sorts what was added and checks it.
func (a *Auditor) Report(ctx context.Context) (*Audit, error) {
	hosts, addrs := merge.NewSorter(a.opt.Memory/4, ""), merge.NewSorter(a.opt.Memory/4, "")
	defer hosts.Close()
	defer addrs.Close()
	ignored := map[string]uint64{} // sheets name them one by one
	var last struct {              // contacts with a host come in a row
		host string
		held int64
	}
	var own politeness.Rules
	rules := func(c *contactSpan) politeness.Rules {
		if c.host != last.host || c.held != last.held {
			last.host, last.held = c.host, c.held
			own = a.all[c.held].Of(c.host)
		}
		return own
	}
	it, err := a.byTime.Sort()
	if err != nil {
		return nil, err
	}
	if err := it.Each(func(_ uint64, payload []byte) error {
		var c contactSpan
		c.parse(payload)
		// Names of one FP64, which people can make, would come mixed and hide each other.
		err := cmp.Or(context.Cause(ctx), hosts.Add(fingerprint.SHA256(c.host), payload))
		own := rules(&c)
		if start := time.UnixMicro(c.start).UTC(); own.Window != nil && own.Window.Opens(start).After(start) {
			if a.audit.Outside++; a.audit.Outside == 1 {
				a.audit.OutsideHost, a.audit.OutsideAt = c.host, start
			}
		}
		if own.NoRobots {
			ignored[c.host]++
		}
		if err == nil && own.HostConnections < 2 {
			err = addrs.Add(fingerprint.SHA256(c.addr), payload)
		}
		return err
	}); err != nil {
		return nil, err
	}
	for host, n := range ignored {
		a.audit.NoRobots = append(a.audit.NoRobots, Ignored{host, n})
	}
	slices.SortFunc(a.audit.NoRobots, func(x, y Ignored) int {
		return cmp.Or(cmp.Compare(y.Contacts, x.Contacts), cmp.Compare(x.Host, y.Host))
	})
	a.audit.NoRobotsHosts, a.audit.NoRobots = len(ignored), a.audit.NoRobots[:min(len(ignored), ignoredMax)]
	err = a.audit.Hosts.check(ctx, hosts, a.opt.Worst, func(c *contactSpan) string { return c.host }, func(c *contactSpan) int { return max(1, rules(c).HostConnections) }, func(before, c *contactSpan) (micros, bool) {
		own, asked := rules(c), before.asked
		if own.NoRobots && asked >= us(cmp.Or(a.all[c.held].LongestWait, politeness.LongestWait)) {
			asked = 0 // a host of one's own: see scheduler.loadFrom
		}
		return max(c.required, own.After(before.end-before.start), asked), true
	})
	if err != nil {
		return nil, err
	}
	err = a.audit.Addrs.check(ctx, addrs, a.opt.Worst, func(c *contactSpan) string { return c.addr }, func(*contactSpan) int { return 1 }, func(_, c *contactSpan) (micros, bool) {
		delay := a.all[c.held].AddrDelay
		return us(delay), delay > 0
	})
	return &a.audit, err
}

// check reads contacts sorted by name, then time. several says how many connections the name of a contact may have then, and required what the gap
// before a contact had to be, and whether anything was demanded.
func (r *AuditReport) check(ctx context.Context, s *merge.Sorter, worst int, name func(*contactSpan) string, several func(*contactSpan) int, required func(before, c *contactSpan) (micros, bool)) error {
	it, err := s.Sort()
	if err != nil {
		return err
	}
	var margins [64]uint64
	var before contactSpan
	latest := micros(0) // end of the contacts so far, which may overlap
	var lanes lanes
	if err := it.Each(func(_ uint64, payload []byte) error {
		var c contactSpan
		c.parse(payload)
		if name(&c) != name(&before) {
			r.Names++
			before, latest = c, c.end
			if lanes.reset(several(&c)); lanes.max > 1 {
				lanes.check(&c, required)
			}
			return nil
		}
		if n := several(&c); n != lanes.max { // a later round has another sheet
			if lanes.max == 1 {
				before.end = latest
				lanes.ended = append(lanes.ended, before)
			}
			slices.SortFunc(lanes.ended, func(x, y contactSpan) int { return cmp.Compare(y.end, x.end) })
			lanes.max, lanes.ended = n, lanes.ended[:min(n, len(lanes.ended))]
			if n == 1 {
				lanes.ended = lanes.ended[:0]
			}
		}
		need, demanded := required(&before, &c)
		gap := c.start - latest
		if lanes.max > 1 {
			gap, need, demanded = lanes.check(&c, required)
		}
		before, latest = c, max(latest, c.end)
		if !demanded {
			return nil
		}
		r.Gaps++
		margin := gap - need
		if margin < 0 {
			r.Violations++
		} else {
			margins[bits.Len64(uint64(margin)/1000)]++
		}
		r.keep(Gap{Name: name(&c), At: time.UnixMicro(c.start).UTC(), Gap: time.Duration(gap) * time.Microsecond, Required: time.Duration(need) * time.Microsecond}, worst)
		return context.Cause(ctx)
	}); err != nil {
		return err
	}
	for i, n := range margins {
		if n == 0 {
			continue
		}
		from := time.Duration(0)
		if i > 0 {
			from = time.Millisecond << (i - 1)
		}
		r.Margins = append(r.Margins, Bucket{From: from, N: n})
	}
	return nil
}

// lanes are the connections of a host that may have several. Records do not say which connection made a contact, so it is
// checked that the contacts, in order of time, can be shared among so many connections so that each keeps its gaps.
// Among the connections that may make a contact, the one that ended last is taken: this leaves the most to later contacts.
// (If a later contact needs that one, the two can be exchanged.)
//
// A Retry-After holds for all connections. Before its end each other connection may begin at most one contact, which was
// under way already.
type lanes struct {
	max   int
	ended []contactSpan // the last of each connection
	asked contactSpan   // the contact with the latest end of Retry-After
	after int           // contacts that began after asked and before its Retry-After ended
}

func (l *lanes) reset(n int) { *l = lanes{max: n, ended: l.ended[:0]} }

// check takes in a contact. It returns the gap that lay before it over its connection, and what that had to be.
func (l *lanes) check(c *contactSpan, required func(before, c *contactSpan) (micros, bool)) (gap, need micros, demanded bool) {
	found, first := -1, 0
	for i := range l.ended {
		before := &l.ended[i]
		need, _ := required(before, c)
		if before.end+need <= c.start && (found < 0 || before.end > l.ended[found].end) {
			found = i
		}
		if before.end < l.ended[first].end {
			first = i
		}
	}
	asked := l.asked
	if c.end+c.asked > asked.end+asked.asked && c.asked > 0 {
		l.asked, l.after = *c, 0
	}
	if asked.asked > 0 && asked.end <= c.start && c.start < asked.end+asked.asked {
		if l.after++; l.after >= l.max {
			gap, need, demanded = c.start-asked.end, asked.asked, true
		}
	}
	if found < 0 && len(l.ended) < l.max {
		l.ended = append(l.ended, *c)
		return gap, need, demanded
	}
	if found < 0 {
		found = first // the least of faults
	}
	before := l.ended[found]
	l.ended[found] = *c
	if !demanded {
		gap = c.start - before.end
		need, demanded = required(&before, c)
	}
	return gap, need, demanded
}

// keep notes a gap if it is among the worst.
func (r *AuditReport) keep(g Gap, worst int) {
	i := len(r.Worst)
	for i > 0 && g.Margin() < r.Worst[i-1].Margin() {
		i--
	}
	if i >= worst {
		return
	}
	r.Worst = append(r.Worst, Gap{})
	copy(r.Worst[i+1:], r.Worst[i:])
	r.Worst[i] = g
	r.Worst = r.Worst[:min(len(r.Worst), worst)]
}
