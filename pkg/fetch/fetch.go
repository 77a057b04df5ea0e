// Package fetch contacts servers: it takes a batch of URLs and makes of each
// exactly one row that says what became of it, with the bytes in WARC files.
//
// It is Mercator's fetching half (Heydon and Najork 1999, section 3.2): a
// thread (here a goroutine) per connection, hosts in a heap by the time of
// their next contact. Which URLs make a batch is the frontier's matter.
//
// # Invariants
//
//   - Each URL of the input gives one row of role "page", whatever happens;
//     each contact for a robots.txt gives one of role "robots".
//   - A row is emitted after the bytes that it names are in the WARC file.
//   - One connection to a host at a time, kept for its next contact if that comes
//     within five seconds; in use and kept together, at most Options.Connections. From the end of a contact to the
//     start of the next with the same host lies at least what the row's
//     required_delay_us says; between contacts with one address, the address delay.
//   - Memory holds hosts, at most Options.HostsMax with work and 65,536 without, and not
//     URLs: rows, what an interrupted run had archived, and further hosts that ask to be
//     left alone are in temporary files. Replies that are encoded or wait for the writer,
//     windows of content decoders, parsed robots rules and the names whose rules
//     are remembered each have a bound of their own.
//
// # What a fetch store holds
//
// WARC files, robots rules, contact times, and with Options.Dedup which payloads are
// archived: SPEC.md beside this file. formats/warc/SPEC.md says which records a round
// writes.
package fetch

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/canon"
	"mercator/pkg/fault"
	"mercator/pkg/localfault"
	"mercator/pkg/politeness"
	"mercator/pkg/stage"
)

// Kind and Version of a fetch store.
const (
	Kind    = "fetch"
	Version = "1.0"
)

// CreateStore makes an empty fetch store.
func CreateStore(dir string, opt store.Options) error {
	return store.Create(dir, Kind, Version, nil, opt)
}

// failsMax is how many contacts in a row may fail before a host is left alone
// for the rest of the batch.
const failsMax = 5

const hostFailed = "host failed five times in a row"

// Options say how a batch is fetched. Zero durations, Deadline aside, are no delay.
type Options struct {
	Store     *store.Store
	Protocols map[string]Protocol // by scheme
	Canon     canon.Options       // of redirects, which are not rewritten, and of the keys of robots rows
	Resolver  Resolver            // for rows without a valid address; nil: they fail
	Guard     Guard               // nil: every address may be contacted
	Method    string              // of requests for pages: "" is GET
	Robots    ParseRobots         // nil: robots.txt is not asked for

	Connections int           // at a time, at least 1
	Static      bool          // each host belongs to one of them, by its name (Mercator's assignment); else to whichever is free
	MinDelay    time.Duration // from the end of a contact to the start of the next with the same host
	DelayFactor float64       // or so many times the contact's duration,
	MaxDelay    time.Duration // at most this
	LongestWait time.Duration // who asks for a longer one is parked; 0: politeness.LongestWait
	AddrDelay   time.Duration // between contacts with one address; 0: none, and as many at a time as there are hosts
	Deadline    time.Duration // after this long the rest is deferred; 0: never
	Patience    bool          // the rest is deferred when only slow hosts hold up the batch
	BytesMax    int64         // after so many bytes received the rest is deferred; 0: never
	BodyMax     int64         // decoded bytes that count of a body
	HostsMax    int           // hosts with work in memory; further input waits. 0: 65,536

	Deny      *Deny // nil: nothing is denied
	DenyEvery time.Duration

	Codec    warc.Codec
	WARCSize int64        // a WARC file of this length is complete
	Dedup    bool         // archive a payload once, and then revisit records that refer to it
	Digests  bool         // of blocks too
	About    []warc.Field // of the warcinfo record
	Txn      string
	Schema   *record.Schema // of the input, for columns that this version does not know

	// RefusedOK goes on where settings refuse more URLs than a mistake in them is held for.
	RefusedOK bool

	Now   func() time.Time
	OnRow func(row *record.Fetch) // called for each row that is emitted, by one goroutine
	Warn  func(format string, args ...any)
}

// runner is one batch.
type runner struct {
	opt      Options
	b        *stage.Batch[record.URL, record.Fetch]
	cancel   context.CancelCauseFunc
	archive  *archive
	payloads *payloads // nil: each payload is archived
	robots   *robotsCache
	weight   *weight // of replies
	decoders *weight
	ours     *ours
	out      chan *output
	wake     chan struct{}
	idle     chan *host // hands hosts to workers
	started  time.Time
	mark     func() error // before the first contact: openBatch

	mu     sync.Mutex // guards all below
	room   sync.Cond  // hosts may be added
	s      *scheduler
	conns  sessions
	sp     *spool
	asleep micros // until then the dispatcher sleeps, unless it is woken
	eof    bool
	wire   int64
	reason string          // why the rest is deferred
	told   map[string]bool // what this machine lacks, of which a warning was given
	brisk  bool            // a host that is not slow was served
	turns  map[*host]*worker
	begun  int // turns so far

	unnamed []*host // whose addresses are to be looked up
	naming  int     // goroutines that do
	namers  sync.WaitGroup
	named   context.Context // ends when no host needs addresses any more
}

// output is a row on its way to the writer.
type output struct {
	group  *group // records; nil: they stand in the archive already
	row    *record.Fetch
	made   string // reason of a row that no URL became; "": it is a page
	weight int64
	whole  bool // its payload is one that others may refer to
}

// Run fetches the batch b. It is the body of a stage.
func Run(ctx context.Context, b *stage.Batch[record.URL, record.Fetch], opt Options) error {
	if opt.HostsMax == 0 {
		opt.HostsMax = 1 << 16
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &runner{
		opt: opt, b: b, cancel: cancel, started: opt.Now(),
		out: make(chan *output, queued), wake: make(chan struct{}, 1), idle: make(chan *host),
		weight: newWeight(repliesMax), decoders: newWeight(decodersMax), s: newScheduler(us(opt.AddrDelay)), conns: sessions{max: opt.Connections},
		told:  map[string]bool{},
		turns: map[*host]*worker{},
	}
	r.s.slowGap = us(max(slowGap, 2*opt.MinDelay))
	r.room.L = &r.mu
	r.s.contacts.far.dir = opt.Store.Dir()
	defer r.s.contacts.close()
	if opt.Static {
		r.s.lines = make([]line, opt.Connections)
	}
	var err error
	if r.sp, err = newSpool(opt.Store.Dir(), opt.Schema); err != nil {
		return err
	}
	defer r.sp.close()
	if r.ours, err = newOurs(opt.Store.Dir()); err != nil {
		return err
	}
	defer r.ours.f.Close()
	r.robots = newRobotsCache(opt.Robots, r.sp, &r.mu)
	tx := b.Tx()
	now := r.now()
	if err := r.robots.load(opt.Store, tx.Base(), r.started); err != nil {
		return err
	}
	r.s.longest = us(max(cmp.Or(opt.LongestWait, politeness.LongestWait), opt.MinDelay, opt.MaxDelay))
	if err := r.s.load(opt.Store, tx.Base(), now); err != nil {
		return err
	}
	if r.s.ahead > 0 && opt.Warn != nil {
		opt.Warn("the clock jumped: the last contact with %s ended %v after now; what was contacted later than now waits for its gap from now on",
			clean(r.s.aheadOf), (time.Duration(r.s.ahead) * time.Microsecond).Round(time.Second))
	}
	round := warc.Round{Txn: opt.Txn, Epoch: tx.Epoch(), Now: b.Now()}
	if r.archive, err = openArchive(opt.Store, tx, &opt, round); err != nil {
		return err
	}
	defer r.archive.close()
	if opt.Dedup {
		if r.payloads, err = openPayloads(opt.Store, tx); err != nil {
			return err
		}
		defer r.payloads.close()
	}
	unclean, err := r.unclean(tx)
	if err != nil {
		return err
	}
	r.mark = sync.OnceValue(func() error { return r.openBatch(tx) })
	if unclean {
		// Who was being contacted when the process ended is not recorded.
		r.s.holdFrom = now
		r.s.holdGap = us(opt.MinDelay)
		if opt.DelayFactor > 0 {
			r.s.holdGap = max(r.s.holdGap, us(opt.MaxDelay))
		}
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	if err := r.archive.commit(ctx); err != nil {
		return err
	}
	if r.payloads != nil {
		if err := r.payloads.commit(); err != nil {
			return err
		}
	}
	if err := r.robots.save(ctx, tx); err != nil {
		return err
	}
	return r.s.save(tx, r.now())
}

// run starts the goroutines and waits for them.
func (r *runner) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		r.room.Broadcast()
		r.mu.Unlock()
		r.weight.close()
		r.decoders.close()
	})
	defer stop()
	defer r.conns.closeAll() // when all workers have ended
	var side, workers, writer sync.WaitGroup
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	var unname context.CancelFunc
	r.named, unname = context.WithCancel(ctx)
	defer unname()
	writer.Go(func() { r.check(r.write(ctx)) })
	side.Go(func() { r.watch(watching) })
	reader := make(chan struct{})
	go func() {
		defer close(reader)
		r.check(r.input(ctx))
	}()
	r.dispatch(ctx, &workers)
	close(r.idle)
	workers.Wait()
	unname()
	r.namers.Wait()
	select {
	case <-reader:
		err := r.settleOurs(ctx)
		close(r.out)
		writer.Wait() // what was fetched is archived in any case
		r.check(err)
	case <-ctx.Done(): // it may wait for its input, which nobody will write
	}
	writer.Wait()
	unwatch()
	side.Wait()
	return context.Cause(ctx)
}

func us(d time.Duration) micros { return d.Microseconds() }

func (r *runner) now() micros { return r.opt.Now().UnixMicro() }

// check ends the whole run on an error.
func (r *runner) check(err error) {
	if err != nil {
		r.cancel(err)
	}
}

// stir wakes the dispatcher if it has something to do. r.mu is held.
func (r *runner) stir() {
	if len(r.s.ready) > 0 || len(r.s.times) > 0 && r.s.times[0].at < r.asleep || r.eof && len(r.s.hosts) == 0 {
		r.poke()
	}
}

func (r *runner) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop defers what is left.
func (r *runner) stop(reason string) {
	r.mu.Lock()
	r.end(reason)
	r.mu.Unlock()
}

// end is stop with r.mu held.
func (r *runner) end(reason string) {
	if r.reason == "" {
		r.reason = reason
		r.s.drain()
		r.room.Broadcast()
	}
	r.poke()
}

// watch keeps the deadline and reads the deny list again.
func (r *runner) watch(ctx context.Context) {
	var deadline, deny, look <-chan time.Time
	if r.opt.Deadline > 0 {
		t := time.NewTimer(r.opt.Deadline)
		defer t.Stop()
		deadline = t.C
	}
	if r.opt.Deny != nil {
		t := time.NewTicker(max(r.opt.DenyEvery, time.Millisecond))
		defer t.Stop()
		deny = t.C
	}
	if r.opt.Patience {
		t := time.NewTicker(firstPatience / 20)
		defer t.Stop()
		look = t.C
	}
	var says <-chan time.Time
	if r.opt.Warn != nil {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		says = t.C
	}
	wait := announcer{since: r.now()}
	warned := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-deadline:
			r.stop("deadline")
		case <-look:
			r.mu.Lock()
			r.lose(r.now())
			r.mu.Unlock()
		case <-says:
			r.mu.Lock()
			text := wait.text(r, r.now())
			r.mu.Unlock()
			if text != "" {
				r.opt.Warn("%s", text)
			}
		case <-deny:
			text := ""
			if err := r.opt.Deny.Reload(); err != nil {
				if text = err.Error(); text != warned && r.opt.Warn != nil {
					r.opt.Warn("%s; %s", text, r.opt.Deny.held(err))
				}
			}
			warned = text
		}
	}
}

// input reads the batch to its end.
func (r *runner) input(ctx context.Context) error {
	read := r.read
	if r.archive.saved.n > 0 {
		read = r.resume
	}
	if err := read(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.eof = true
	r.mu.Unlock()
	r.poke()
	return nil
}

// next reads a row of the batch. Politeness goes by the column host, so that must be
// the host that is contacted.
func (r *runner) next(ctx context.Context, row *record.URL) error {
	if err := r.b.Read(row); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	scheme, host, _ := canon.Split(row.URL)
	_, port := canon.SplitPort(host)
	if host == "" || host != row.Host || strings.ContainsFunc(host, notOfHosts) || port != "" && port == canon.DefaultPort(scheme) {
		return &fault.Error{Class: fault.Corrupt, File: "input", Place: clean(row.URL), Found: "host " + strconv.Quote(clean(row.Host)), Want: "a canonical URL and its host",
			Hint: "mcat --from json, and commands that read text, bring URLs into canonical form"}
	}
	return nil
}

// notOfHosts says whether canonical hosts never have a character.
func notOfHosts(c rune) bool {
	return c <= ' ' || c >= 0x7f || c >= 'A' && c <= 'Z' || strings.ContainsRune(`?#@\`, c)
}

// read spools the input and makes hosts of it.
func (r *runner) read(ctx context.Context) error {
	var row record.URL
	for {
		err := r.next(ctx, &row)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.add(ctx, &row); err != nil {
			return err
		}
	}
}

// resume is read for a transaction of which an earlier run had archived a part.
// The rows of that part come first, in the order of the archive, so that a replay
// of the archive gives the same rows in the same order.
func (r *runner) resume(ctx context.Context) error {
	missing := noRows
	for {
		var row record.URL
		err := r.next(ctx, &row)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = r.match(&row, &missing)
		}
		if err != nil {
			return err
		}
	}
	redirected := recalled{names: map[string][]string{}}
	for n := range r.archive.saved.n {
		s, err := r.archive.saved.at(n)
		if err != nil {
			return err
		}
		if s.in == none {
			continue // the input does not hold it any more
		}
		g, text, err := r.archive.load(s)
		if err != nil {
			return err
		}
		r.remember(&g.Row)
		if g.Row.Role == record.RoleRobots {
			r.mu.Lock()
			err = r.robots.recall(&g.Row, text, &redirected)
			r.mu.Unlock()
			if err != nil {
				return err
			}
		}
		o := &output{row: &g.Row, made: g.Row.Role}
		if g.Row.Role == record.RolePage {
			var row record.URL
			r.mu.Lock()
			err := r.sp.readRow(s.in, &row)
			r.mu.Unlock()
			if err != nil {
				return err
			}
			page := Merge(&row, &g.Row)
			o = &output{row: &page, whole: r.payloads != nil && g.whole && identifiable(&page)}
		}
		if err := r.send(ctx, o); err != nil {
			return err
		}
	}
	for missing.n > 0 {
		var row record.URL
		r.mu.Lock()
		err := r.sp.peek(&missing, &row)
		if err == nil {
			err = r.sp.pop(&missing)
		}
		r.mu.Unlock()
		if err != nil {
			return err
		}
		if err := r.add(ctx, &row); err != nil {
			return err
		}
	}
	return nil
}

// match spools a row of the input for the contact that an earlier run saved of it, or else
// appends it to missing.
func (r *runner) match(row *record.URL, missing *queue) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, found, err := r.archive.saved.take(record.RolePage, row.URL, r.sp.end())
	if err != nil {
		return err
	}
	q := missing
	if found {
		alone := noRows
		q = &alone
	}
	return r.sp.push(q, row)
}

// remember holds to how a contact in an earlier run of the batch ended, and to what the
// server asked for.
func (r *runner) remember(row *record.Fetch) {
	if row.Addr == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	c, _ := r.s.contacts.take(row.Host, now)
	c.fails = failsAfter(row, c.fails)
	gap := r.gap(row, 0, c.fails)
	if next := ended(row) + gap; next > c.next {
		c.next, c.required = next, gap
	}
	r.s.contacts.put(row.Host, c, now)
}

// add puts a row into its host's queue.
func (r *runner) add(ctx context.Context, row *record.URL) error {
	r.mu.Lock()
	for r.s.hosts[row.Host] == nil && len(r.s.hosts) >= r.opt.HostsMax && ctx.Err() == nil {
		r.room.Wait()
	}
	if err := context.Cause(ctx); err != nil {
		r.mu.Unlock()
		return err
	}
	h := r.s.hosts[row.Host]
	fresh := h == nil || !h.named // a redirect of robots.txt may have led there first
	r.mu.Unlock()
	if fresh {
		g := &group{}
		var err error
		g.b, err = r.archive.enc.Append(nil, warc.NewHostname(r.opt.Now(), warc.Hostname{Host: row.Host, Addr: row.Addr, Expires: row.AddrExpires, Error: row.AddrError}))
		if err != nil {
			return err
		}
		if err := r.send(ctx, &output{group: g}); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if h = r.s.hosts[row.Host]; h == nil {
		h = r.s.host(strings.Clone(row.Host), now)
	}
	h.named = true
	if err := r.sp.push(&h.queue, row); err != nil {
		return err
	}
	r.s.schedule(h, now)
	r.stir()
	return nil
}

// dispatch gives hosts that are due to workers until all is done.
func (r *runner) dispatch(ctx context.Context, workers *sync.WaitGroup) {
	tokens := make(chan struct{}, r.opt.Connections)
	running := 0
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case tokens <- struct{}{}:
		case <-ctx.Done():
			return
		}
		for {
			r.mu.Lock()
			now := r.now()
			h, wait := r.s.take(now)
			if h == nil {
				if r.lose(now); r.reason != "" {
					h, wait = r.s.take(now)
				}
			}
			if wait < 0 {
				wait = us(time.Hour)
			}
			r.asleep = now + wait
			done := r.eof && len(r.s.hosts) == 0
			r.mu.Unlock()
			if h != nil {
				select {
				case r.idle <- h:
				default:
					if running < r.opt.Connections {
						running++
						workers.Go(func() { r.work(ctx, tokens) })
					}
					select {
					case r.idle <- h:
					case <-ctx.Done():
						return
					}
				}
				break
			}
			if done {
				return
			}
			timer.Reset(time.Duration(wait) * time.Microsecond)
			select {
			case <-r.wake:
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// work serves hosts, one after the other: those that the dispatcher hands it, and
// after each the next that is due by then.
func (r *runner) work(ctx context.Context, tokens chan struct{}) {
	var w worker
	for h := range r.idle {
		for h != nil {
			w.renew(ctx)
			r.mu.Lock()
			w.began, r.turns[h] = r.now(), &w
			r.begun++
			r.mu.Unlock()
			t, err := r.serve(ctx, h, &w)
			if errors.Is(err, errBrokenOff) {
				t, err = r.breakOff(h, &w), nil
			}
			if err != nil {
				closeSession(t.session)
				r.cancel(err)
				return
			}
			h = r.done(h, t)
		}
		<-tokens
	}
}

// done gives a host back after its turn, and takes the next that is due, or nil.
func (r *runner) done(h *host, t turn) (next *host) {
	var unused io.Closer
	r.mu.Lock()
	delete(r.turns, h)
	if t.made {
		unused = r.conns.end(h, t.session, t.required)
		r.brisk = r.brisk || t.required <= r.s.slowGap
	} else {
		t.end = r.now()
	}
	r.s.release(h, t.end, t.made, t.required)
	if r.s.hosts[h.name] != h { // nothing more to be asked of it
		if rested := r.conns.take(h); rested != nil {
			unused = rested
		}
		r.robots.leave(h)
	}
	if len(r.s.hosts) < r.opt.HostsMax {
		r.room.Signal()
	}
	next, _ = r.s.take(r.now())
	err := r.s.contacts.err
	r.stir()
	r.mu.Unlock()
	r.check(err)
	closeSession(unused)
	return next
}

// turn is what a worker did with a host.
type turn struct {
	made     bool   // a contact
	end      micros // of it
	required micros // the gap to the next
	session  io.Closer
}

// halt is why a host is not contacted now.
type halt struct {
	why   string // "": it may be
	host  bool   // because of the host, and not of the run
	until micros // 0: it is not known

	parked bool // it asked for more than the longest wait
}

// halted says whether a host is left alone. runner.mu is held: what another host's
// worker learns of robots rules may put this one off.
func (r *runner) halted(h *host) halt {
	var rest halt
	now := r.now()
	until := r.s.parked(h)
	switch {
	case until > 0 && h.deferred != "" && h.next > now:
		return halt{h.deferred, true, until, true}
	case r.reason != "":
		rest.why = cmp.Or(h.deferred, r.reason)
	case h.deferred != "":
		rest.why, rest.host = h.deferred, true
	}
	// What ends at a deadline goes on with the next batch, with all hosts together.
	if (h.deferred != "" || r.reason == onlySlowLeft) && h.next > now {
		rest.until = h.next
	}
	return rest
}

// serve makes the host's next contact, and settles what needs none before it.
func (r *runner) serve(ctx context.Context, h *host, w *worker) (turn, error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return turn{}, err
		}
		var row record.URL
		var e *errand
		var err error
		r.mu.Lock()
		rest := r.halted(h)
		if len(h.errands) > 0 {
			e = h.errands[0]
		}
		page := h.queue.n > 0 && h.blocked == 0
		if h.queue.n > 0 {
			err = r.sp.peek(&h.queue, &row)
		}
		r.mu.Unlock()
		if err != nil {
			return turn{}, err
		}
		var t turn
		var settled bool
		switch {
		case e != nil:
			t, settled, err = r.serveErrand(ctx, h, e, &row, rest, w)
		case page:
			t, settled, err = r.servePage(ctx, h, &row, rest, w)
		default:
			return turn{}, nil
		}
		if err == errUnnamed {
			r.name(r.named, h)
			return t, nil
		}
		if err != nil || !settled {
			return t, err
		}
	}
}

// pageRow carries over what the next round needs of a URL.
func pageRow(u *record.URL) record.Fetch {
	return record.Fetch{
		URL: u.URL, Key: u.Key, Host: u.Host, Priority: u.Priority, Score: u.Score, Depth: u.Depth, Attempt: u.Attempt,
		Via: u.Via, Discovered: u.Discovered, ETag: u.ETag, LastModified: u.LastModified, LastContentFP: u.LastContentFP,
		Role: record.RolePage, Extra: u.Extra,
	}
}

// Merge returns the row that a saved one gives in a batch that holds u: what
// became of the URL as it was saved, what the frontier says of it as it is in u.
func Merge(u *record.URL, saved *record.Fetch) record.Fetch {
	row, given := *saved, pageRow(u)
	row.URL, row.Key, row.Host, row.Priority, row.Score = given.URL, given.Key, given.Host, given.Priority, given.Score
	row.Depth, row.Attempt, row.Via, row.Discovered, row.LastContentFP, row.Extra = given.Depth, given.Attempt, given.Via, given.Discovered, given.LastContentFP, given.Extra
	return row
}

// addrText is addr as a row has it.
func (h *host) addrText(addr netip.Addr) string {
	if h.texted != addr {
		h.texted, h.text = addr, addr.String()
	}
	return h.text
}

// settle emits the row of a URL for which nothing is contacted, or puts it aside, and takes
// the URL off its host's queue.
func (r *runner) settle(ctx context.Context, h *host, row *record.URL, outcome, detail string, later micros, aside bool) error {
	page := pageRow(row)
	page.FetchTime = record.TimeOf(r.opt.Now())
	page.Outcome, page.Error = outcome, clean(detail)
	page.RetryAfter = record.Time(later)
	var err error
	if aside {
		err = r.hold(h, &page)
	} else {
		err = r.emit(ctx, &page, nil, "", 0)
	}
	if err != nil {
		return err
	}
	return r.pop(h)
}

func (r *runner) pop(h *host) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sp.pop(&h.queue)
}

// servePage deals with the first URL of a host. settled: there was no contact, go on.
func (r *runner) servePage(ctx context.Context, h *host, row *record.URL, rest halt, w *worker) (t turn, settled bool, err error) {
	settle := func(outcome, detail string) (turn, bool, error) {
		return turn{}, true, r.settle(ctx, h, row, outcome, detail, 0, false)
	}
	refuse := func(outcome, detail string) (turn, bool, error) {
		return turn{}, true, r.settle(ctx, h, row, outcome, detail, 0, true)
	}
	scheme, _, _ := canon.Split(row.URL)
	protocol := r.opt.Protocols[scheme]
	rule := r.opt.Deny.Check(row.URL, row.Host)
	switch {
	case rule != "":
		return refuse(record.OutcomeDenied, "denied by "+rule)
	case protocol == nil:
		return refuse(record.OutcomeScheme, scheme)
	case protocol.Check(row.URL) != nil:
		return settle(record.OutcomeScheme, protocol.Check(row.URL).Error())
	case portRefused(row.Host):
		return settle(record.OutcomePort, "port of "+row.Host)
	case rest.why == localfault.NoIPv6: // there may never be one: no crawl waits for it
		return refuse(record.OutcomeAddress, rest.why)
	case localfault.Is(rest.why):
		return refuse(record.OutcomeDeferred, rest.why)
	case rest.parked:
		return turn{}, true, r.settle(ctx, h, row, record.OutcomeParked, rest.why, rest.until, false)
	case rest.why != "":
		if why := r.unreachable(h, scheme); why != "" && !rest.host {
			return settle(record.OutcomeRobotsUnreachable, why) // which needs no contact
		}
		return turn{}, true, r.settle(ctx, h, row, record.OutcomeDeferred, rest.why, rest.until, false)
	}
	a, outcome, detail, err := r.address(ctx, h, row)
	if err != nil {
		return turn{}, false, err
	}
	switch outcome {
	case "":
	case record.OutcomeDeferred:
		r.leave(h, detail)
		return turn{}, true, nil
	case record.OutcomeAddress:
		return refuse(outcome, detail)
	default:
		return settle(outcome, detail)
	}
	if r.opt.Robots != nil && hasRobots(scheme) {
		auth, err := r.authority(h, scheme)
		if err != nil {
			return turn{}, false, err
		}
		switch v, why := r.verdict(auth); v {
		case unreachable:
			return settle(record.OutcomeRobotsUnreachable, why)
		case byRules:
			rules, err := r.robots.rules(auth)
			if err != nil {
				return turn{}, false, err
			}
			if !rules.Allowed(row.URL) {
				return settle(record.OutcomeRobotsDenied, "")
			}
			r.mu.Lock()
			early := r.s.ask(h, us(rules.CrawlDelay()), r.now())
			r.mu.Unlock()
			if early {
				return turn{}, false, nil
			}
		case unknown:
			r.mu.Lock()
			auth.verdict = asking
			h.blocked++
			name := scheme + "://" + h.name
			h.errands = append(h.errands, &errand{auth: auth, name: name, from: h, url: name + "/robots.txt", host: row.Host})
			r.mu.Unlock()
			return turn{}, true, nil
		}
	}
	if !r.granted(h, a) {
		return turn{}, false, nil
	}
	page := pageRow(row)
	w.req = Request{Method: r.opt.Method, URL: row.URL, Host: row.Host, Addr: a, ETag: row.ETag, LastModified: row.LastModified}
	if t, err = r.contact(ctx, h, protocol, w, &page, "", nil); err != nil {
		return t, false, err
	}
	if page.Outcome == record.OutcomeDeferred {
		return t, false, r.forgo(ctx, h, row, page.Error)
	}
	if page.Outcome == record.OutcomeConnect {
		h.dead++
	}
	return t, false, r.pop(h)
}

// granted says whether the host's turn is for this address. If not, the host
// waits for the turn of the right one.
func (r *runner) granted(h *host, a netip.Addr) bool {
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
	r.mu.Lock()
	session, surplus := r.conns.begin(h)
	row.RequiredDelayUS = h.required
	r.mu.Unlock()
	closeSession(surplus)
	if scheme, _, _ := strings.Cut(req.URL, ":"); scheme != h.spoke {
		closeSession(session) // another module's
		h.spoke, session = strings.Clone(scheme), nil
	}
	req.Session = session
	start := r.opt.Now()
	row.FetchTime, row.Addr = record.TimeOf(start), h.addrText(req.Addr)
	reply := p.Fetch(w.ctx, req)
	end := r.opt.Now()
	if w.ctx.Err() != nil {
		reply.Err = context.Cause(w.ctx) // an interrupted contact has no outcome
	}
	if reply.Err != nil {
		closeSession(reply.Session)
		reply.release()
		if text, ok := localfault.Of(reply.Err); ok {
			return r.lack(ctx, h, row, text, len(reply.Sent) > 0 || reply.Wire > 0, end)
		}
		return turn{}, reply.Err
	}
	h.lacks = 0
	t := turn{made: true, end: end.UnixMicro(), session: reply.Session}
	row.DurationUS = t.end - int64(row.FetchTime)
	weight := r.weight.acquire(replyWeight(reply.Length) + keptMax(reply, keep))
	var copied io.Writer
	if keep != nil {
		keep.Grow(int(min(reply.Length, int64(keep.max)))) // all that most need
		copied = keep
	}
	err := describe(row, reply, r.opt.BodyMax, end, copied, r.decoders, r.opt.Canon)
	if keep != nil { // most bodies need less than they might
		needed := min(weight, replyWeight(reply.Length)+int64(keep.Cap()))
		r.weight.release(weight - needed)
		weight = needed
	}
	if err != nil {
		reply.release()
		return t, err
	}
	r.mu.Lock()
	if h.fails = failsAfter(row, h.fails); h.fails >= failsMax && h.deferred == "" {
		h.deferred = hostFailed
	}
	t.required = r.gap(row, h.asked, h.fails)
	h.hung = min(h.hung, fitting(row.DurationUS))
	r.wire += reply.Wire
	over := r.opt.BytesMax > 0 && r.wire >= r.opt.BytesMax
	r.mu.Unlock()
	if over {
		r.stop("max-bytes")
	}
	return t, r.emit(ctx, row, reply, made, weight)
}

// ended is when a contact ended.
func ended(row *record.Fetch) micros { return int64(row.FetchTime) + row.DurationUS }

// gap is the delay that politeness demands after a contact with a host that asks
// for a Crawl-delay and has failed so many times in a row.
func (r *runner) gap(row *record.Fetch, asked micros, fails int) micros {
	own := politeness.Rules{MinDelay: r.opt.MinDelay, DelayFactor: r.opt.DelayFactor, MaxDelay: r.opt.MaxDelay}
	d := max(own.After(row.DurationUS), asked)
	switch {
	case row.RetryAfter != 0 && row.Status >= 400:
		d = max(d, micros(row.RetryAfter)-ended(row))
	case overloaded(row):
		d = max(d, backoffMin<<min(fails-1, 20))
	}
	return d
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

// overloaded says whether a server asks to be asked less.
func overloaded(row *record.Fetch) bool { return row.Status == 429 || row.Status == 503 }

// emit encodes the contact's records, frees the reply and sends the row on.
func (r *runner) emit(ctx context.Context, row *record.Fetch, reply *Reply, made string, weight int64) error {
	var first *payload
	digest, whole := [16]byte{}, false
	if r.payloads != nil && reply != nil && reply.Media == "" && identifiable(row) {
		digest, whole = payloadDigest(row)
	}
	if whole {
		known, found, err := r.payloads.find(digest)
		if err != nil {
			reply.release()
			return err
		}
		if found {
			first, whole = &known, false
		}
	}
	group, err := encodeGroup(r.archive.enc, r.archive.round, row, reply, first)
	if reply != nil {
		reply.release()
	}
	if err != nil {
		return err
	}
	return r.send(ctx, &output{group: group, row: row, made: made, weight: weight, whole: whole})
}

func (r *runner) send(ctx context.Context, o *output) error {
	if o.row != nil {
		r.ours.count(o.row)
	}
	select {
	case r.out <- o:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write appends groups to the archive in large writes and emits their rows once
// they are there.
func (r *runner) write(ctx context.Context) error {
	var pending []*output
	size := 0
	due := time.NewTimer(0) // when what is pending is written at the latest
	due.Stop()
	flush := func() error {
		due.Stop()
		if err := r.archive.w.Flush(); err != nil {
			return err
		}
		for i, o := range pending {
			pending[i] = nil
			r.weight.release(o.weight)
			if o.row == nil {
				continue
			}
			EnterCut(r.b, o.row)
			if r.opt.OnRow != nil {
				r.opt.OnRow(o.row)
			}
			var err error
			if o.whole { // others may refer to it from here on, since it is in the file
				if err = r.payloads.add(o.row); err != nil {
					return err
				}
			}
			if o.made != "" {
				err = r.b.Make(o.made, o.row)
			} else {
				err = r.b.Pass(o.row)
			}
			if err != nil {
				return err
			}
		}
		pending, size = pending[:0], 0
		return nil
	}
	for {
		var o *output
		var ok bool
		select {
		case o, ok = <-r.out:
		case <-due.C:
			if err := flush(); err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !ok {
			return flush()
		}
		if o.group != nil {
			name, offset, err := r.archive.append(o.group.b)
			if err != nil {
				return err
			}
			if o.row != nil && o.group.length > 0 {
				o.row.WARCFilename, o.row.WARCOffset, o.row.WARCLength = name, offset, o.group.length
			}
			size += len(o.group.b)
			o.group.free()
			o.group = nil
		}
		if len(pending) == 0 {
			due.Reset(pendingTime)
		}
		if pending = append(pending, o); size >= writeMax || len(pending) >= pendingMax {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// What may be lost by a kill, besides what is with a connection.
const (
	queued      = 32
	writeMax    = 1 << 20 // bytes that are gathered before they are written
	pendingMax  = 32      // rows
	pendingTime = 2 * time.Millisecond
)

// Unwritten is how many contacts may have ended and not be in the archive yet.
const Unwritten = queued + pendingMax

// authority returns what is known of the robots rules for a host and scheme.
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

// verdict is what holds for an authority now. Rules that are too old are asked
// for again.
func (r *runner) verdict(a *authority) (verdict, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if (a.verdict == allowAll || a.verdict == byRules) && r.now()-a.fetched > us(robotsKeep) {
		a.verdict = unknown
	}
	return a.verdict, a.why
}
