package frontier

import (
	"context"
	"fmt"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/trace"
	"mercator/pkg/folder/stage"
)

// Reasons under which rows are dropped.
const (
	dropRange = "out-of-range" // no row can hold it: a text of more than 65,535 bytes, or a due time before 1970
	dropDepth = "too-deep"     // Limits.Depth
	dropHost  = "host-full"    // Limits.HostURLs
)

// LimitDrops are the reasons of rows that Limits drop.
var LimitDrops = []string{dropDepth, dropHost}

// AddOptions say how Add treats its rows.
type AddOptions struct {
	Txn         string // the transaction; may be ""
	Limits      Limits
	Prioritizer Prioritizer
	Again       bool // the rows are URLs that the frontier had before: see again.go
}

// Add is the body of stage "mfrontier add": every row of the input becomes a
// waiting URL. A row with a due time waits for it; others are queued at the end
// of their host's queue.
func (f *Frontier) Add(ctx context.Context, b *stage.Batch[record.URL, record.URL], o AddOptions) error {
	s, err := f.checkAdd(o)
	if err != nil {
		return err
	}
	c := newChange(f, b, s.policy)
	defer c.close()
	c.limits, c.adds, c.clock = o.Limits, true, b.Now()
	switch {
	case s.policy.links == onlyLinks: // adds to its start set, once each
		if err = c.spool(ctx, b.Read, o.Prioritizer, c.found); err == nil {
			err = c.beginAdd(ctx, o.Txn, "add")
		}
	case o.Again:
		err = c.addAgain(ctx, b, o)
	default:
		err = c.addNew(ctx, b, o)
	}
	if err != nil {
		return err
	}
	if err := c.policy.outcomesApplied(ctx, c); err != nil {
		return err
	}
	return c.finish(ctx)
}

// CheckAdd refuses options that mean nothing to a frontier of this policy. Add does, too, but a
// transaction that was committed is repeated without it.
func (f *Frontier) CheckAdd(o AddOptions) error {
	_, err := f.checkAdd(o)
	return err
}

func (f *Frontier) checkAdd(o AddOptions) (*state, error) {
	if err := o.Limits.check(); err != nil {
		return nil, err
	}
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	if err := o.Limits.checkPolicy(s.policy); err != nil {
		return nil, err
	}
	if o.Again && s.policy.links == onlyLinks {
		return nil, &fault.Error{Class: fault.Usage, Found: "URLs to be fetched again, for policy " + s.policy.name, Want: "another policy: a " + s.policy.name + " visits its URLs again and again"}
	}
	return s, o.Prioritizer.check(s.policy)
}

// beginAdd begins an add, or a raise. Outside a crawl folder the commit of another name would close the
// round of the batch in flight, and no update could apply its outcomes any more.
func (c *change) beginAdd(ctx context.Context, txn, verb string) error {
	if err := c.beginChange(ctx); err != nil {
		return err
	}
	return c.s.beside(c.st, c.tx, txn, verb)
}

// beside refuses a change that has another name than the round and would close the round with its commit.
func (s *state) beside(st *store.Store, tx *store.Tx, txn, verb string) error {
	fl := s.InFlight
	if txn == "" || fl == nil || fl.Txn == "" || fl.Txn == txn || tx.InCrawl() {
		return nil
	}
	e := inFlight(st, fl)
	e.Hint += ", or " + verb + " without --txn"
	return e
}

// UpdateOptions are the inputs of Update besides its main input.
type UpdateOptions struct {
	Txn string // the round; "" where rounds have no names
	// Outcomes opens the fetch records of the batch in flight. They are opened after the main
	// input's end, and read to their own.
	Outcomes func() (stage.Input[record.Fetch], error)
	// Links opens the link records of the batch, likewise; nil if the policy does not need them.
	Links   func() (stage.Input[record.Link], error)
	Retries Retries
	Limits  Limits
	Dead    Dead

	Prioritizer Prioritizer // gives new URLs their priority
	Budgets     Budgets     // budgets of domains; they need Links
}

// Dead says when a host is taken to be dead. It is left alone then, which means that no
// batch has URLs of it while another host has any.
type Dead struct {
	After    int           // a host is dead after so many failed contacts in a row; 0: never
	Delay    time.Duration // how long a dead host is left alone; doubles each time
	MaxDelay time.Duration // bound of Delay
}

// Limits say which new URLs are dropped. The URL set has them by then, so no page brings them
// again: raising a limit later brings none of them back.
type Limits struct {
	Depth    int    // drop URLs that are more links from a seed; 0: none
	HostURLs uint64 // drop URLs of hosts that had so many before, finished ones included; 0: none

	// DepthOf is the Depth of a URL; nil: all have the same.
	DepthOf func(url, host string) int
	// HostURLsOf is the HostURLs of a host; nil: all have the same.
	HostURLsOf func(host string) uint64
}

// deep reports whether a URL is too many links from a seed.
func (l *Limits) deep(url, host string, depth int) bool {
	most := l.Depth
	if l.DepthOf != nil {
		most = l.DepthOf(url, host)
	}
	return most > 0 && depth > most
}

// full reports whether a host has as many URLs as it may.
func (l *Limits) full(h *Host) bool {
	most := l.HostURLs
	if l.HostURLsOf != nil {
		most = l.HostURLsOf(h.Host)
	}
	return most > 0 && h.Discovered >= most
}

func (l Limits) check() error {
	if l.Depth < 0 {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a depth of %d", l.Depth), Want: "0 (any) or more"}
	}
	return nil
}

// checkPolicy refuses limits that mean nothing to a policy that makes its URLs from links.
func (l Limits) checkPolicy(p *policy) error {
	if (l.HostURLs > 0 || l.HostURLsOf != nil) && p.links == onlyLinks {
		return &fault.Error{Class: fault.Usage, Found: "a limit of URLs per host for policy " + p.name, Want: "none: it visits a URL any number of times"}
	}
	return nil
}

// Update is the body of stage "mfrontier update": it ends the batch that is in
// flight with one outcome for each of its URLs, and adds the rows of its input.
func (f *Frontier) Update(ctx context.Context, b *stage.Batch[record.URL, record.URL], o UpdateOptions) error {
	s, err := f.checkUpdate(o)
	if err != nil {
		return err
	}
	if s.policy.links == onlyLinks {
		return &fault.Error{Class: fault.Usage, Found: "new URLs for policy " + s.policy.name, Want: "the links of the batch"}
	}
	c := newChange(f, b, s.policy)
	defer c.close()
	c.limits, c.gate, c.byScore = o.Limits, newGate(c, o.Budgets), o.Prioritizer.Command == ByScore
	if err := c.spool(ctx, b.Read, o.Prioritizer, c.found); err != nil {
		return err
	}
	return c.update(ctx, f, o)
}

// UpdateFromLinks is Update for a policy that makes its URLs from links (FromLinks): all that were found in
// the batch in flight are the input, and o.Links must be nil.
func (f *Frontier) UpdateFromLinks(ctx context.Context, b *stage.Batch[record.Link, record.URL], o UpdateOptions) error {
	s, err := f.checkUpdate(o)
	if err != nil {
		return err
	}
	c := newChange(f, b, s.policy)
	defer c.close()
	c.limits = o.Limits
	err = eachRead(ctx, b.Read, func(l *record.Link) error {
		c.added++
		return c.policy.link(c, l)
	})
	if err != nil {
		return err
	}
	return c.update(ctx, f, o)
}

// FromLinks reports whether the frontier's policy makes its URLs from links.
func (f *Frontier) FromLinks() (bool, error) {
	s, _, err := f.current()
	return err == nil && s.policy.links == onlyLinks, err
}

// OwnScores reports whether the policy gives pages scores of its own, by their links: relevance does not count then.
func (f *Frontier) OwnScores() (bool, error) {
	s, _, err := f.current()
	return err == nil && s.policy.links != noLinks, err
}

// CheckUpdate refuses options that mean nothing to a frontier of this policy. Update does, too, but
// a transaction that was committed is repeated without them.
func (f *Frontier) CheckUpdate(o UpdateOptions) error {
	_, err := f.checkUpdate(o)
	return err
}

func (f *Frontier) checkUpdate(o UpdateOptions) (*state, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	switch {
	case s.policy.links == withLinks && o.Links == nil:
		return nil, &fault.Error{Class: fault.Usage, Found: "policy " + s.policy.name + " without links", Want: "the links of the batch", Hint: "give them with --links"}
	case s.policy.links == onlyLinks && o.Links != nil:
		return nil, &fault.Error{Class: fault.Usage, Found: "links as a second input for policy " + s.policy.name, Want: "them as the input"}
	}
	if err := o.Limits.checkPolicy(s.policy); err != nil {
		return nil, err
	}
	if err := o.Budgets.check(s.policy, o.Links != nil); err != nil {
		return nil, err
	}
	return s, o.Prioritizer.check(s.policy)
}

// check refuses options that mean nothing.
func (o *UpdateOptions) check() error {
	if o.Dead.After < 0 || o.Dead.Delay < 0 || o.Dead.MaxDelay < 0 {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("hosts dead after %d failures, for %v, at most %v", o.Dead.After, o.Dead.Delay, o.Dead.MaxDelay), Want: "no negative number"}
	}
	if err := o.Limits.check(); err != nil {
		return err
	}
	if o.Retries.MaxAttempts < 1 || o.Retries.MaxAttempts > 255 || o.Retries.Delay < 0 || o.Retries.MaxDelay < 0 {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d attempts, delay %v, at most %v", o.Retries.MaxAttempts, o.Retries.Delay, o.Retries.MaxDelay), Want: "1 to 255 attempts and no negative delay"}
	}
	if o.Retries.Delay > o.Retries.MaxDelay {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a first wait of %v after a failure", o.Retries.Delay), Want: fmt.Sprintf("at most %v", o.Retries.MaxDelay)}
	}
	if o.Dead.After > 0 && o.Dead.Delay > o.Dead.MaxDelay {
		return &fault.Error{Class: fault.Usage, Place: "--dead-delay", Found: fmt.Sprintf("a host left alone for %v at first", o.Dead.Delay), Want: fmt.Sprintf("at most %v", o.Dead.MaxDelay),
			Hint: "shorten it, such as to a day: --dead-delay 24h"}
	}
	return nil
}

// update makes the change, once the main input has ended.
func (c *change) update(ctx context.Context, f *Frontier, o UpdateOptions) error {
	c.dead = o.Dead
	s, _, err := f.current()
	if err != nil {
		return err
	}
	var now record.Time // of the round; a batch in flight of another round is refused below
	if s.InFlight != nil {
		now = s.InFlight.Now
	}
	c.now, c.clock = now, now
	outcomes, byHost := c.sorter(smallSort), c.sorter(smallSort)
	pages, outcomesEpoch, err := c.readOutcomes(ctx, o, now, outcomes, byHost)
	if err != nil {
		return err
	}
	linksEpoch := ""
	if o.Links != nil {
		if linksEpoch, err = c.readLinks(ctx, o); err != nil {
			return err
		}
	}
	// The round of an empty frontier. One that has a name is committed like any
	// other, so that the crawl can close it.
	nothing := s.InFlight == nil && pages == 0 && c.added == 0
	if nothing && o.Txn == "" {
		return stage.Unchanged
	}
	if err := c.beginChange(ctx); err != nil {
		return err
	}
	if err := c.b.OfEpoch("outcomes", outcomesEpoch); err != nil {
		return err
	}
	if err := c.b.OfEpoch("links", linksEpoch); err != nil {
		return err
	}
	c.s.Longest = max(c.s.Longest, o.longest())
	if nothing && c.s.InFlight == nil {
		return c.finish(ctx)
	}
	if c.s.InFlight == nil {
		return &fault.Error{Class: fault.Conflict, Found: "no URL is in flight", Want: "a batch of \"mfrontier next\" first"}
	}
	if c.s.InFlight.Txn != o.Txn {
		return inFlight(c.st, c.s.InFlight)
	}
	if err := c.judgeHosts(ctx, o.Retries, byHost, outcomes); err != nil {
		return err
	}
	if c.gate == nil && !c.policy.late && len(c.s.Held) == 0 { // else waiting URLs are taken before finish
		if err := c.mergeQueues(ctx, c.fresh.rows+c.returning); err != nil {
			return err
		}
	}
	if err := c.applyOutcomes(ctx, outcomes); err != nil {
		return err
	}
	if err := c.policy.outcomesApplied(ctx, c); err != nil {
		return err
	}
	if err := c.admit(ctx); err != nil {
		return err
	}
	return c.finish(ctx)
}

// stageBatch is the part of a stage's batch that a change needs besides the rows.
type stageBatch interface {
	Begin(ctx context.Context) (*store.Tx, error)
	OfEpoch(file, epoch string) error
	Consume()
	Drop(reason string)
}

// change is one add or update of a frontier.
type change struct {
	f      *Frontier
	st     *store.Store
	b      stageBatch
	limits Limits
	dead   Dead
	gate   *gate // nil: there are no budgets
	tx     *store.Tx
	s      *state
	sorts  []*sorter
	fresh  *sorter               // arrivals, by hostKey
	deads  *runWriter            // dead hosts; nil: none
	parked [len(parking)]*sorter // URLs that are parked; nil: none
	events *sorter               // events of hosts, by hostKey and time
	queue  *sorter               // URLs with a virtual time, by key
	later  *sorter               // URLs that wait for a time
	held   *sorter               // URLs by the round that they are held for; nil: none
	added  uint64
	now    record.Time // the round's time; 0 for an add
	clock  record.Time // the time of the round or of the add
	entry  Entry       // buffer of arrive
	host   []byte
	row    []byte
	buf    []byte
	adds   bool // the change is a Raise, or an Add with rows that may come from an export

	byScore bool // the prioritizer is ByScore
	policy  *policy

	returning int      // URLs that wait again after their outcome, and with revisit others, too
	merges    *merging // merges of waiting URLs; nil: none has begun
}

func newChange(f *Frontier, b stageBatch, p *policy) *change {
	c := &change{f: f, st: f.st, b: b, policy: p}
	c.fresh, c.queue = c.sorter(largeSort), c.sorter(largeSort)
	c.events, c.later = c.sorter(smallSort), c.sorter(smallSort)
	return c
}

func (c *change) sorter(memory int64) *sorter {
	s := c.f.layout.sorter(memory)
	c.sorts = append(c.sorts, s)
	return s
}

func (c *change) close() {
	if c.merges != nil {
		c.merges.stop()
	}
	for _, s := range c.sorts {
		s.Close()
	}
}

// found gives a new URL to the policy.
func (c *change) found(u *record.URL) error {
	if trace.On(u.URL) {
		trace.Say("mfrontier", u.URL, "queued: priority %d%s", u.Priority, dueText(u.Due))
	}
	return c.policy.found(c, u)
}

// spool reads URLs to their end, which for the main input is verified and comes before the lock is taken, and gives
// them to out, with the priorities that they get.
func (c *change) spool(ctx context.Context, read func(*record.URL) error, p Prioritizer, out func(*record.URL) error) error {
	ranks, err := p.ranked(c.policy.priorities(), out)
	if err != nil {
		return err
	}
	defer ranks.close()
	err = eachRead(ctx, read, func(u *record.URL) error {
		switch {
		case !fits(u) || u.Due < 0:
			c.b.Drop(dropRange)
		case c.limits.deep(u.URL, u.Host, int(u.Depth)):
			c.b.Drop(dropDepth)
		default:
			return ranks.addURL(ctx, u)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return ranks.rankRest(ctx)
}

// arrive takes in a new URL.
func (c *change) arrive(u *record.URL) error {
	c.added++
	c.entry.URL = *u
	c.host = append(c.host[:0], u.Host...)
	a := arrival{priority: u.Priority, due: u.Due, number: c.added, host: c.host}
	c.entry.Visit, c.entry.VirtualTime = Visit{}, 0
	if c.adds {
		c.policy.importRow(&c.entry)
	}
	c.row = c.entry.Append(c.row[:0])
	a.row = c.row
	c.buf = a.append(c.buf[:0])
	if c.gate != nil && u.Due == 0 {
		return c.gate.arrive(u.Host, c.buf)
	}
	return c.fresh.addPayload(hostKey(u.Host), c.buf)
}

func (c *change) beginChange(ctx context.Context) error {
	tx, err := c.b.Begin(ctx)
	if err != nil {
		return err
	}
	c.tx = tx
	c.s, err = c.f.loadFor(tx.Base(), c.policy)
	return err
}

// readLinks reads the links to their verified end. Where neither the policy nor budgets need them, only their trailer is
// wanted: that they are of this round.
func (c *change) readLinks(ctx context.Context, o UpdateOptions) (epoch string, err error) {
	in, err := o.Links()
	if err != nil {
		return "", err
	}
	if skipper, ok := in.(interface{ Skip(context.Context) error }); ok && c.gate == nil && c.policy.links == noLinks {
		err = skipper.Skip(ctx)
	} else {
		err = eachRead(ctx, in.Read, func(row *record.Link) error {
			if c.gate != nil {
				if err := c.gate.link(row); err != nil {
					return err
				}
			}
			return c.policy.link(c, row)
		})
	}
	if err != nil {
		return "", err
	}
	return in.Trailer().Epoch, ofRound("links", in.Trailer(), o.Txn)
}

// tableList is a list of runs of a table.
func tableList(c *change, runs *[]run, role string) list {
	return list{runs, role + "/", role, c.s.layout.hostFan, newest}
}

// mergeQueues goes on with the merges of waiting URLs, beside what follows. The change writes about own URLs itself.
func (c *change) mergeQueues(ctx context.Context, own int) (err error) {
	c.merges, err = mergeBeside(ctx, c.st, c.tx, c.s, uint64(own), c.s.layout.step, c.s.queues()...)
	return err
}

// queues are the lists of waiting URLs: by time, held, parked, and each front queue.
func (s *state) queues() []list {
	fan := s.layout.queueFan
	lists := []list{{&s.Later, "later/", "later", fan, every}, {&s.Held, "held/", "held", fan, every}}
	for i := range s.Parked {
		lists = append(lists, list{&s.Parked[i], "parked/", "parked", fan, every})
	}
	for level := range s.Ready {
		lists = append(lists, list{&s.Ready[level], fmt.Sprintf("ready/%d-", level), "ready", fan, every})
	}
	return lists
}

// finish gives new URLs their virtual times, writes the new runs and the new state.
// It merges only older runs: runs that it writes cannot be read before the commit.
func (c *change) finish(ctx context.Context) error {
	s := c.s
	if c.merges == nil {
		if err := c.mergeQueues(ctx, c.fresh.rows+c.queue.rows+c.later.rows); err != nil {
			return err
		}
	}
	if c.now > s.DeadUntil {
		for _, r := range s.Dead {
			c.tx.Drop(r.Path)
		}
		s.Dead, s.DeadUntil = nil, 0
	}
	if err := mergeRuns(ctx, c.st, c.tx, s, 0, c.s.layout.step, tableList(c, &s.Dead, "dead")); err != nil {
		return err
	}
	hosts, err := c.hosts(ctx)
	if err != nil {
		return err
	}
	hostMerges, err := mergeBeside(ctx, c.st, c.tx, s, hosts.Rows, c.s.layout.step, tableList(c, &s.Hosts, "hosts"))
	if err != nil {
		return err
	}
	defer hostMerges.stop()
	if c.deads != nil {
		r, err := c.deads.finish()
		if err != nil {
			return err
		}
		s.Dead = append(s.Dead, r)
	}
	if err := c.policy.settle(ctx, c); err != nil {
		return err
	}
	q := newQueueWriter(c.tx)
	if err := c.queue.each(q.addPayload); err != nil {
		return err
	}
	copied, err := c.merges.endMerges(c.tx)
	if err != nil {
		return err
	}
	s.Rewritten += copied
	if _, err := hostMerges.endMerges(c.tx); err != nil {
		return err
	}
	if hosts.Rows > 0 {
		s.Hosts = append(s.Hosts, hosts)
	}
	if err := q.finish(s); err != nil {
		return err
	}
	if c.later.rows > 0 {
		r, err := writeRun(c.tx, c.later, "later/", "later")
		if err != nil {
			return err
		}
		s.Later = append(s.Later, r)
	}
	if err := s.addParked(c.tx, c.parked[:]); err != nil {
		return err
	}
	if err := c.writeHeld(); err != nil {
		return err
	}
	return s.save(c.tx)
}
