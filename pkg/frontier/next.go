package frontier

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/trace"
	"mercator/pkg/folder/stage"
)

// MaxCapped is the largest batch with a limit per host or domain: these are counted in memory.
const MaxCapped = 500_000

// maxFor bounds NextOptions.For.
const maxFor = 24 * time.Hour

// NextOptions say what a batch is.
type NextOptions struct {
	N int // URLs at most, at least 1; 0 with For: any number
	// PerHost and PerDomain are the most URLs of one host, and of one registered
	// domain; 0: no limit. URLs beyond are passed over, at most N of them: a frontier
	// that begins with very many URLs of one domain gives a batch of less than N.
	PerHost   int
	PerDomain int
	// For, if not 0, is how long the batch is to take: it has as many URLs of each host
	// as politeness lets its connection (or connections, Politeness.HostConnections) fetch in four fifths of that time, one at least, and as many in
	// all as Politeness.Connections can in all of it: contacts that take longer than expected, or wait
	// for a connection, then make no tail.
	For        time.Duration
	Politeness Politeness // with For
	// HostBytes is how many bytes of bodies a host may have sent before its URLs are refused, as those that Judge refuses; 0: any
	// number, nil: of each host. With For a batch has one URL more than those for which there is room, at the mean size of the host's replies.
	HostBytes func(host string) uint64
	// Judge is asked about each URL that the batch would take. What it refuses leaves the frontier: it is in flight
	// with the batch, and finished by the update. nil: every URL is wanted.
	Judge   Judge
	Refused func(u *record.URL, reason string) error // takes what it refuses, in order of service
	Txn     string                                   // the round, kept with the batch that is in flight; may be ""
	// Always takes a batch, also without a URL: a shard's part of a round, into which new URLs from other shards come.
	Always bool
}

// Judge says which URLs are no longer wanted: *filter.Judge.
type Judge interface {
	// Waiting stores for each URL the ledger's reason to refuse it, such as filter:docs of rule docs; "" if there is none.
	Waiting(ctx context.Context, urls []*record.URL, reasons []string) error
}

// RefusedBytes is the reason to refuse URLs of a host that has sent as many bytes as it may.
const RefusedBytes = "host-bytes"

// byteJudge refuses URLs of such hosts, and those that another judge refuses.
type byteJudge struct {
	Judge // nil: none
	fs    files
	hosts []run
	most  func(host string) uint64
}

func (j byteJudge) Waiting(ctx context.Context, urls []*record.URL, reasons []string) error {
	clear(reasons)
	if j.Judge != nil {
		if err := j.Judge.Waiting(ctx, urls, reasons); err != nil {
			return err
		}
	}
	type of struct {
		key uint64
		n   int // of the URL
	}
	var all []of
	for n, u := range urls {
		all = append(all, of{hostKey(u.Host), n})
	}
	slices.SortFunc(all, func(a, b of) int { return cmp.Compare(a.key, b.key) })
	table := openTable(j.fs, j.hosts)
	defer table.close()
	var group []Host
	for i, o := range all {
		if i == 0 || all[i-1].key != o.key {
			var err error
			if group, err = find(table, o.key, group[:0]); err != nil {
				return err
			}
		}
		for _, h := range group {
			if most := j.most(h.Host); h.Host == urls[o.n].Host && most > 0 && h.Bytes >= most && reasons[o.n] == "" {
				reasons[o.n] = RefusedBytes
			}
		}
	}
	return nil
}

// judgedTogether is how many URLs a judge is asked about at a time, since it may have to ask a program, and
// judgedBytes how many bytes of them.
const (
	judgedTogether = 256
	judgedBytes    = 1 << 20
)

// Check refuses options that make no batch.
func (o NextOptions) Check() error {
	switch {
	case o.N < 0 || o.N == 0 && o.For == 0:
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a batch of %d URLs", o.N), Want: "at least 1"}
	case o.PerHost < 0:
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d URLs per host", o.PerHost), Want: "0 (no limit) or more"}
	case o.PerDomain < 0:
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d URLs per domain", o.PerDomain), Want: "0 (no limit) or more"}
	case o.PerHost+o.PerDomain > 0 && o.N > MaxCapped && o.For == 0:
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a batch of %d URLs with a limit per host or domain", o.N), Want: fmt.Sprintf("at most %d", MaxCapped)}
	case o.For < 0 || o.For > maxFor:
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a batch of %v", o.For), Want: fmt.Sprintf("more than 0s, at most %v", maxFor)}
	}
	if o.For > 0 {
		return o.Politeness.Check()
	}
	return nil
}

// Due tells when the next URL may be fetched: 0 for at once. empty: no URL waits, but for
// those that are parked at now.
func (f *Frontier) Due(now record.Time) (due record.Time, empty bool, err error) {
	s, _, err := f.current()
	if err != nil {
		return 0, false, err
	}
	due, empty = s.due(now)
	return due, empty, nil
}

// Awaited is what a frontier waits for while no URL is due.
type Awaited struct {
	Name string // the URL that is due first, or its host, if that has an outage
	Why  string
	Due  record.Time
}

// First is the URL that is due first, of those that wait for a time.
func (f *Frontier) First(ctx context.Context) (*Awaited, error) {
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	later := newMerger(f.st, s.timed())
	defer later.close()
	e := new(Entry)
	if err := later.next(e); err != nil {
		return nil, err
	}
	h, _, err := f.Host(ctx, e.URL.Host)
	if err == nil && h.Failures > 0 && h.ParkedUntil >= e.URL.Due {
		scheme, _, _ := strings.Cut(e.URL.URL, ":")
		return &Awaited{ServedBy(scheme, e.URL.Host), "it has not answered since " + h.LastContact.Go().Format(time.DateTime) + " UTC", e.URL.Due}, nil
	}
	return &Awaited{e.URL.URL, e.waitsFor(), e.URL.Due}, err
}

// ServedBy names what answers for the URLs of a host that have a scheme: each has a port of its own, and one may fail alone.
func ServedBy(scheme, host string) string {
	if scheme == "http" || scheme == "" {
		return host
	}
	return scheme + "://" + host
}

// waitsFor says why a URL waits for its time.
func (e *Entry) waitsFor() string {
	switch {
	case e.URL.Attempt == 1:
		return "it is tried again after 1 failure"
	case e.URL.Attempt > 1:
		return fmt.Sprintf("it is tried again after %d failures", e.URL.Attempt)
	case e.Visit.Visits > 0:
		return "its next visit"
	}
	return "its host is to be left alone until then"
}

// timed are the files of all URLs that wait for a time, by that time.
func (s *state) timed() []run {
	runs := slices.Clone(s.Later)
	for _, parked := range s.Parked {
		runs = append(runs, parked...)
	}
	return runs
}

// gathering is for how long a URL that is due waits for others, so that few of them do not make a round.
const gathering = record.Time(5 * time.Second / time.Microsecond)

// gathered is when enough URLs are due, or the last of those that are due within gathering of the first.
func (f *Frontier) gathered(enough int) (record.Time, error) {
	s, _, err := f.current()
	if err != nil {
		return 0, err
	}
	later := newMerger(f.st, s.timed())
	defer later.close()
	var first, last record.Time
	var e Entry
	for n := range enough {
		key, more := later.key()
		due := record.Time(key)
		if n == 0 {
			first = due
		}
		if !more || due > first+gathering {
			break
		}
		last = due
		if err := later.next(&e); err != nil {
			return 0, err
		}
	}
	return last, nil
}

func (s *state) due(now record.Time) (due record.Time, empty bool) {
	if s.ready() || len(s.Held) > 0 {
		return 0, false
	}
	due, empty = firstOf(s.Later), len(s.Later) == 0
	if !empty && (s.ahead(due, now) || s.setBack(now) > 0) {
		return 0, false
	}
	for _, runs := range s.Parked {
		if t := firstOf(runs); t <= now || !empty {
			due, empty = min(due, t), false
		}
	}
	if empty {
		return 0, true
	}
	return due, false
}

// firstOf is when the first URL of runs by time is due.
func firstOf(runs []run) record.Time {
	first := record.Time(never)
	for _, r := range runs {
		first = min(first, record.Time(r.Head))
	}
	return first
}

// ahead reports whether a time is later than any delay could make it that was ever given: the
// clock jumped.
func (s *state) ahead(due, now record.Time) bool { return s.Longest > 0 && due-now > s.Longest }

// setBackMin is by how much the clock must lie behind the time of an earlier batch to be taken for one that was set back.
const setBackMin = record.Time(2 * time.Second / time.Microsecond)

// setBack is by how much the clock was set back since the latest batch. The next one, which may have no URLs, makes what waits
// due as much earlier: so a URL waits for its delay, and not for the clock, too.
func (s *state) setBack(now record.Time) record.Time {
	if by := s.Clock - now; by > setBackMin && len(s.Later) > 0 {
		return by
	}
	return 0
}

// Jumped returns the due time of the first waiting URL, if it is so late that the clock must have
// been wrong when it was given, or is so now; else 0. Next does not wait for such times: mfetch keeps
// the gaps between contacts.
func (f *Frontier) Jumped(now record.Time) (record.Time, error) {
	s, _, err := f.current()
	if err != nil || len(s.Later) == 0 || !s.ahead(firstOf(s.Later), now) {
		return 0, err
	}
	return firstOf(s.Later), nil
}

// checkNow refuses times before those that URLs can have: an empty batch would mean an empty frontier.
func checkNow(now record.Time) error {
	if now > 0 {
		return nil
	}
	return &fault.Error{Class: fault.Usage, Found: "a round at " + time.UnixMicro(int64(now)).UTC().Format(time.RFC3339), Want: "a time after 1970-01-01T00:00:00Z"}
}

// Wait waits until a URL is due and returns the round's time: now, or the due
// time if that is later. If less than enough URLs are due by then it waits, at most five seconds
// longer, for those that soon will be. sleep waits until due; its error is returned. It
// returns now at once if the frontier is empty.
func (f *Frontier) Wait(ctx context.Context, now record.Time, enough int, sleep func(ctx context.Context, due record.Time) error) (record.Time, error) {
	if err := checkNow(now); err != nil {
		return 0, err
	}
	due, empty, err := f.Due(now)
	if err == nil && !empty && due > 0 && enough > 1 {
		due, err = f.gathered(enough)
	}
	if err != nil || empty || due <= now {
		return now, err
	}
	return due, sleep(ctx, due)
}

// Next is the body of stage "mfrontier next": it takes a batch, in the order in
// which its URLs should be started, and puts it in flight. From an empty frontier
// it makes no row; without a name to commit that under it returns stage.Unchanged.
func (f *Frontier) Next(ctx context.Context, b *stage.Batch[record.URL, record.URL], o NextOptions) error {
	if err := o.Check(); err != nil {
		return err
	}
	if err := checkNow(b.Now()); err != nil {
		return err
	}
	tx := b.Tx()
	s, err := f.load(tx.Base())
	if err != nil {
		return err
	}
	if s.InFlight != nil {
		return inFlight(f.st, s.InFlight)
	}
	due, empty := s.due(b.Now())
	switch {
	case o.Always:
	case empty && o.Txn != "":
		return nil // an empty batch, which a round of its name can be closed with
	case empty || due > b.Now():
		return stage.Unchanged
	}
	left, late, batch := s.layout.sorter(smallSort), s.layout.sorter(smallSort), s.layout.sorter(smallSort)
	defer left.Close()
	defer late.Close()
	defer batch.Close()
	taken := make([]uint64, len(s.Ready)) // of each front queue
	var out outlets
	out.leave = func(e *Entry) error { return addRow(left, e.Key, e) }
	parked := s.layout.sorter(smallSort)
	defer parked.Close()
	out.wait = func(e *Entry) error {
		if s.ahead(e.URL.Due, b.Now()) { // its server asked for it
			return addRow(parked, uint64(e.URL.Due), e)
		}
		return addRow(late, uint64(e.URL.Due), e)
	}
	out.take = func(e *Entry, row []byte) error {
		taken[levelOf(e.Key)]++
		if o.Always && s.policy.links == withLinks { // Give will want the credit
			s.policy.export(queueReady, e)
		}
		if err := b.Make("scheduled", &e.URL); err != nil {
			return err
		}
		s.policy.served(s, e)
		order := flightKey(e.URL.Host, e.URL.URL)
		if row == nil {
			return addRow(batch, order, e)
		}
		return batch.addTaken(order, row, e.VirtualTime)
	}
	refused := s.layout.sorter(smallSort)
	defer refused.Close()
	out.refuse = func(e *Entry, reason string) error {
		if trace.On(e.URL.URL) {
			trace.Say("mfrontier next", e.URL.URL, "refused: %s", reason)
		}
		b.Refuse(reason, 1)
		if err := o.Refused(&e.URL, reason); err != nil {
			return err
		}
		s.policy.served(s, e)
		return addRow(refused, flightKey(e.URL.Host, e.URL.URL), e)
	}
	p, err := pick(ctx, f.st, s, b.Now(), o, out)
	if err != nil {
		return err
	}
	defer p.close()
	s.Draws = p.draws
	for k, lane := range p.lanes {
		s.Ready[k] = lane.rest(tx.Drop)
	}
	s.Later, s.Held = p.later.rest(tx.Drop), p.held.rest(tx.Drop)
	for i := range s.Parked {
		s.Parked[i] = p.parked[i].rest(tx.Drop)
	}
	if err := p.earlier.each(late.addPayload); err != nil {
		return err
	}
	s.Clock = b.Now()
	s.Rewritten += uint64(left.rows + late.rows + parked.rows)
	if parked.rows > 0 {
		lists := [len(parking)]*sorter{asParked: parked}
		if err := s.addParked(tx, lists[:]); err != nil {
			return err
		}
	}
	if late.rows > 0 {
		r, err := writeRun(tx, late, "later/", "later")
		if err != nil {
			return err
		}
		s.Later = append(s.Later, r)
	}
	q := newQueueWriter(tx)
	if err := left.each(q.addPayload); err != nil {
		return err
	}
	if err := q.finish(s); err != nil {
		return err
	}
	flying, err := writeRun(tx, batch, "inflight/", "inflight")
	if err != nil {
		return err
	}
	s.InFlight = &flight{Path: flying.Path, Rows: flying.Rows, Txn: o.Txn, Now: b.Now(), Head: flying.Head}
	if refused.rows > 0 {
		r, err := writeRun(tx, refused, "inflight/", "inflight")
		if err != nil {
			return err
		}
		s.InFlight.Refused = []run{r}
	}
	limit := uint64(o.N)
	if o.For > 0 {
		limit = 0
	}
	s.policy.taken(s, b.Now(), taken, limit)
	if batch.rows == 0 && refused.rows > 0 {
		if err := s.policy.allRefused(ctx, f.st, o.Judge); err != nil {
			return err
		}
	}
	s.Counts.Pending -= s.InFlight.all()
	s.Counts.InFlight += s.InFlight.all()
	return s.save(tx)
}

func inFlight(st *store.Store, fl *flight) *fault.Error {
	e := &fault.Error{Class: fault.Conflict, Found: fmt.Sprintf("%d URLs are in flight", fl.all()), Want: "an update with their outcomes first"}
	if fl.all() == 1 {
		e.Found, e.Want = "1 URL is in flight", "an update with its outcome first"
	}
	by := "finish that round with mfrontier update"
	if fl.Txn != "" {
		e.Found += fmt.Sprintf(", since transaction %q", fl.Txn)
		by += " " + fault.Quote("--txn", fl.Txn)
	}
	if e.Hint = by; st.CrawlDir() != "" {
		e.Hint += "; or give it up: " + fault.Quote("mckpt", "abandon", st.Root())
	}
	return e
}

// picker reads a frontier in the order of service.
type picker struct {
	s       *state
	lanes   []*merger // for each front queue, its URLs
	later   *merger
	held    *merger
	parked  [len(parking)]*merger
	draws   uint64
	end     []uint64 // of each front queue, the virtual time that the batch must not reach; nil: any
	sorts   []*sorter
	earlier *sorter  // later since the clock was set back, with new due times
	asked   []Entry  // URLs that the judge was asked about; kept as memory for the next time
	judged  []*Entry // wanted URLs of asked, the next to come
	gone    bool     // the judge refused some since the last call of within
}

// newPicker opens the frontier of s as of now: what waited for a time and is due
// gets a virtual time behind V by the number of such URLs of its fairness group, and is served with the rest.
func newPicker(ctx context.Context, fs files, s *state, now record.Time) (*picker, error) {
	p := &picker{s: s, later: newMerger(fs, s.Later), held: newMerger(fs, s.Held), draws: s.Draws}
	for _, runs := range s.Ready {
		p.lanes = append(p.lanes, newMerger(fs, runs))
	}
	for i, runs := range s.Parked {
		p.parked[i] = newMerger(fs, runs)
	}
	if err := p.promote(ctx, now); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *picker) sorter(memory int64) *sorter {
	s := p.s.layout.sorter(memory)
	p.sorts = append(p.sorts, s)
	return s
}

func (p *picker) promote(ctx context.Context, now record.Time) error {
	byGroup := p.sorter(smallSort)
	p.earlier = p.sorter(smallSort)
	by := p.s.setBack(now)
	byLevel := make([]*sorter, len(p.lanes))
	var t ticker
	var e Entry
	wait := func(m *merger, now record.Time) bool {
		due, ok := m.key()
		return !ok || record.Time(due) > now && (m != p.later || by == 0 && !p.s.ahead(record.Time(due), now))
	}
	for _, m := range append(p.parked[:], p.later) {
		for !wait(m, now) {
			err := m.next(&e)
			if err == nil {
				err = t.err(ctx)
			}
			if m == p.later && by > 0 {
				e.URL.Due = max(e.URL.Due-by, 1)
			}
			switch {
			case err != nil:
			case e.URL.Due > now && m == p.later && !p.s.ahead(e.URL.Due, now):
				err = addRow(p.earlier, uint64(e.URL.Due), &e)
			default:
				err = addRow(byGroup, p.s.policy.fairnessGroup(e.URL.Host), &e)
			}
			if err != nil {
				return err
			}
		}
	}
	if byGroup.rows == 0 && !p.s.ready() {
		if err := p.unhold(func(e *Entry) error { return addRow(byGroup, p.s.policy.fairnessGroup(e.URL.Host), e) }); err != nil {
			return err
		}
	}
	var group uint64
	behind := map[uint8]uint64{} // such URLs of this group so far, by front queue
	err := eachRow(byGroup, func(e *Entry) error {
		if e.Key != group {
			group = e.Key
			clear(behind)
		}
		p.s.policy.due(p.s, e, behind)
		level := levelOf(e.Key)
		if byLevel[level] == nil {
			byLevel[level] = p.sorter(smallSort / int64(len(p.lanes)))
		}
		return addRow(byLevel[level], e.Key, e)
	})
	if err != nil {
		return err
	}
	for level, rows := range byLevel {
		if rows == nil {
			continue
		}
		feed, err := rows.sorted()
		if err != nil {
			return err
		}
		p.lanes[level].addFeed(feed)
	}
	return nil
}

func (p *picker) close() {
	for _, lane := range p.lanes {
		lane.close()
	}
	p.later.close()
	p.held.close()
	for _, m := range p.parked {
		m.close()
	}
	for _, s := range p.sorts {
		s.Close()
	}
}

// ready reports whether a front queue has a URL that the batch may take.
func (p *picker) ready(queue int) bool {
	order, ok := p.lanes[queue].key()
	return ok && (p.end == nil || virtualTimeOf(order) < p.end[queue])
}

// next takes the next URL in order of service; io.EOF if there is none.
func (p *picker) next(e *Entry) error {
	k := p.s.policy.choose(p.draws, p.ready)
	if k < 0 {
		return io.EOF
	}
	p.draws++
	return p.lanes[k].next(e)
}

// wanted takes the next URL in order of service that o.Judge does not refuse, and looks for it among most at most
// before it asks; io.EOF if there is none. What is refused goes to refuse.
func (p *picker) wanted(ctx context.Context, o *NextOptions, most int, e *Entry, refuse func(*Entry, string) error) error {
	if o.Judge == nil {
		return p.next(e)
	}
	for len(p.judged) == 0 {
		if err := p.judge(ctx, o, most, refuse); err != nil {
			return err
		}
	}
	*e, p.judged = *p.judged[0], p.judged[1:]
	return nil
}

// judged takes up to n URLs from next into all, and tells the rule that refuses each.
func judged(ctx context.Context, judge Judge, n int, all []Entry, next func(*Entry) error) (_ []Entry, rules []string, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	for size := 0; len(all) < n && size < judgedBytes; {
		all = append(all, Entry{})
		e := &all[len(all)-1]
		err := next(e)
		if err == io.EOF {
			all = all[:len(all)-1]
			break
		}
		if err != nil {
			return nil, nil, err
		}
		size += len(e.URL.URL) + len(e.URL.Via)
	}
	if len(all) == 0 {
		return nil, nil, nil
	}
	rules = make([]string, len(all))
	urls := make([]*record.URL, len(all))
	for i := range all {
		urls[i] = &all[i].URL
	}
	return all, rules, judge.Waiting(ctx, urls, rules)
}

// judge has the next URLs judged; io.EOF if there are none.
func (p *picker) judge(ctx context.Context, o *NextOptions, most int, refuse func(*Entry, string) error) error {
	all, rules, err := judged(ctx, o.Judge, min(most, judgedTogether), p.asked[:0], p.next)
	if err != nil {
		return err
	}
	p.asked = all
	if len(all) == 0 {
		if !p.gone {
			return io.EOF
		}
		p.within(o.PerHost) // places that refused URLs had do not count
		return nil
	}
	p.judged = p.judged[:0]
	for i, rule := range rules {
		if rule == "" {
			p.judged = append(p.judged, &all[i])
			continue
		}
		p.gone = true
		if err := refuse(&all[i], rule); err != nil {
			return err
		}
	}
	return nil
}

// within ends the batch so far behind V that a host with turns of up to three places
// has perHost URLs before the end. So the later URLs of a very large host are not even
// read, and none of them is passed over more than twice.
func (p *picker) within(perHost int) {
	p.gone = false
	if perHost == 0 || !p.s.policy.virtualTime {
		return
	}
	p.end = make([]uint64, len(p.lanes))
	for k, lane := range p.lanes {
		order, _ := lane.key()
		p.end[k] = max(p.s.V[k], virtualTimeOf(order)) + 3*uint64(perHost)
	}
}

// pick picks a batch. The picker tells what is left in the queues, and must be closed.
func pick(ctx context.Context, fs files, s *state, now record.Time, o NextOptions, out outlets) (*picker, error) {
	o.PerHost, o.PerDomain = min(o.PerHost, MaxCapped), min(o.PerDomain, MaxCapped) // no batch with a limit has more
	if o.HostBytes != nil {
		if s.policy.endless {
			return nil, &fault.Error{Class: fault.Usage, Found: "a limit of bytes per host for policy " + s.policy.name, Want: "none: it fetches a page any number of times"}
		}
		o.Judge = byteJudge{o.Judge, fs, s.Hosts, o.HostBytes}
	}
	if o.For > 0 || len(s.Dead) > 0 {
		return pickKnown(ctx, fs, s, now, o, out)
	}
	p, err := newPicker(ctx, fs, s, now)
	if err != nil {
		return nil, err
	}
	p.within(o.PerHost)
	if _, err = p.stream(ctx, o, o.N, out); err == nil {
		err = p.drain(out.leave)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// stream takes n URLs within the limits, and leaves at most n others, or as many as
// a reserve holds. more: there are further ones.
func (p *picker) stream(ctx context.Context, o NextOptions, n int, out outlets) (more bool, err error) {
	l := newLimits(o)
	aside := p.reserve(o, n)
	var t ticker
	var e Entry
	taken, passed := 0, 0
	for more = true; taken < n && passed < n && !aside.full(); {
		err := p.wanted(ctx, &o, n-taken, &e, out.refuse)
		if err == io.EOF {
			more = false
			break
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return false, err
		}
		switch {
		case aside.wants(e.URL.Host):
			err = aside.keep(&e)
		case l.admit(e.URL.Host):
			taken++
			err = out.take(&e, nil)
		default:
			passed++
			err = out.leave(&e)
		}
		if err != nil {
			return false, err
		}
	}
	for _, e := range p.judged { // the limits were reached before
		if err := out.leave(e); err != nil {
			return false, err
		}
	}
	p.judged = nil
	return more, aside.each(func(e *Entry) error {
		if taken < n && l.admit(e.URL.Host) {
			taken++
			return out.take(e, nil)
		}
		return out.leave(e)
	})
}

// drain leaves what was due and is not in the batch: it has places now.
func (p *picker) drain(leave func(*Entry) error) error {
	for _, lane := range p.lanes {
		if err := lane.drainFeeds(leave); err != nil {
			return err
		}
	}
	return nil
}

// queueWriter writes ready URLs, which come in ascending order, as one run for
// each front queue.
type queueWriter struct {
	tx   *store.Tx
	w    *runWriter
	runs []run
}

func newQueueWriter(tx *store.Tx) *queueWriter { return &queueWriter{tx: tx} }

// addPayload adds a row that a sorter held.
func (q *queueWriter) addPayload(order uint64, payload []byte) error {
	if q.w != nil && levelOf(q.w.run.Head) != levelOf(order) {
		if err := q.endRun(); err != nil {
			return err
		}
	}
	if q.w == nil {
		w, err := newRun(q.tx, fmt.Sprintf("ready/%d-", levelOf(order)), "ready", 0)
		if err != nil {
			return err
		}
		q.w = w
	}
	return q.w.addPayload(order, payload)
}

func (q *queueWriter) endRun() error {
	if q.w == nil {
		return nil
	}
	r, err := q.w.finish()
	q.w = nil
	q.runs = append(q.runs, r)
	return err
}

// finish puts the runs into s, as the newest of their front queues.
func (q *queueWriter) finish(s *state) error {
	if err := q.endRun(); err != nil {
		return err
	}
	for _, r := range q.runs {
		level := levelOf(r.Head)
		s.Ready[level] = append(s.Ready[level], r)
	}
	return nil
}

// writeRun writes what a sorter holds, in its order, as a new run; one of no rows if it holds none.
func writeRun(tx *store.Tx, s *sorter, folder, role string) (run, error) {
	w, err := newRun(tx, folder, role, 0)
	if err != nil {
		return run{}, err
	}
	if err := s.each(w.addPayload); err != nil {
		return run{}, err
	}
	return w.finish()
}
