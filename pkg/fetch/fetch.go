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
//     each visit for a robots.txt gives one of role "robots", and each contact of a login one of role "login".
//   - A row is emitted after the bytes that it names are in the WARC file. Those of a login are in none.
//   - One connection to a host at a time (but for Options.HostConnections), kept for its next contact if that comes
//     within five seconds; in use and kept together, at most Options.Connections. From the end of a contact to the
//     start of the next with the same host lies at least what the row's
//     required_delay_us says; between contacts with one address, the address delay.
//   - Memory holds hosts, at most Options.BackQueues with work and 65,536 without, and not
//     URLs: rows, what an interrupted run had archived, and further hosts that ask to be
//     left alone are in temporary files. Replies that are encoded or wait for the writer,
//     windows of content decoders, parsed robots rules and the table of hosts with
//     known rules each have a bound of their own.
//
// # Where things are decided
//
//   - The next host: sched.go (takeHost). Hosts with several connections: several.go. Handing hosts out, and a turn: dispatch.go; its contacts: pages.go.
//   - The gap after a contact: pages.go (gap). When a batch ends before its time: patience.go.
//   - Addresses: names.go; which of them: reach.go. robots.txt: robots.go, robotsrequests.go. Logins: robotsrequests.go. What our own settings refuse: refusals.go, deny.go.
//   - Which version of HTTP a host is asked with: http1/http2.go.
//   - Cookies: package cookies, for http1, which sends and keeps them; what is asked again because of them: again.go; their file: jar.go.
//   - WARC files: archive.go, write.go. What an interrupted run left: recovery.go, savedrows.go.
//
// # What a fetch store holds
//
// WARC files, robots rules, contact times, cookies, and with Options.Dedup which payloads are
// archived: SPEC.md beside this file. formats/warc/SPEC.md says which records a round
// writes.
//
//   - Contact times never go back: politeness is a promise to others, who do not know of checkpoints.
//   - Robots rules are kept as text: another version, or another engine, reads them its own way.
//   - Cookies go back with a checkpoint: what a server knows of us then is as old as what we know of it.
//   - All are module rows, not a format of their own: a few thousand a round, read once, and mcat prints them.
package fetch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/politeness"
	"mercator/pkg/fetch/cookies"
	"mercator/pkg/folder/bodies"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
)

// Kind and Version of a fetch store.
const (
	Kind    = "fetch"
	Version = 1
)

// failsMax is how many contacts in a row may fail before a host is left alone
// for the rest of the batch.
const failsMax = 5

const hostFailed = "host failed five times in a row"

// Unrecorded begins what Options.Warn is told when no host is contacted for a while. All shards of a crawl say it at once.
const Unrecorded = "who was contacted last is not on record"

// Options say how a batch is fetched. Zero durations, Deadline aside, are no delay.
type Options struct {
	Store      *store.Store
	Protocols  map[string]Protocol // by scheme
	Canon      canon.Options       // of redirects, which are not rewritten, and of the keys of robots rows
	Resolver   Resolver            // for rows without a valid address; nil: they fail
	Method     string              // of requests for pages: "" is GET
	Robots     ParseRobots         // nil: robots.txt is not asked for
	KeepRobots time.Duration       // for how long one of a round before holds; 0: politeness.KeepRobots
	Txn        string
	Schema     *record.Schema // of the input, for columns that this version does not know
	Pace
	Bounds
	Access
	Archiving
	Hooks
}

// Pace is how fast hosts are contacted.
type Pace struct {
	ContactTime       time.Duration // the longest that one of the Protocols takes for a contact; 0: DefaultTimeout
	Connections       int           // at a time, at least 1
	Static            bool          // each host belongs to one of them, by its name (Mercator's assignment); else to whichever is free
	politeness.Policy               // from the end of a contact to the start of the next with the same host
	LongestWait       time.Duration // who asks for a longer one is parked; 0: politeness.LongestWait
	AddrDelay         time.Duration // between contacts with one address; 0: none, and as many at a time as there are hosts
}

// Bounds are those of a batch.
type Bounds struct {
	Deadline   time.Duration // after this long the rest is deferred; 0: never. It counts from when hosts may be contacted, see recovery.go
	Patience   bool          // the rest is deferred when only slow hosts hold up the batch
	BytesMax   int64         // bytes received after which the rest is deferred; 0: never
	BodyMax    int64         // most decoded bytes of a body that count for its length and digests
	BackQueues int           // open at a time, each of one host; further input waits. 0: 65,536, see scheduler
}

// Access says which hosts may be contacted, and as whom.
type Access struct {
	Guard     Guard        // nil: every address may be contacted
	Logins    Logins       // nil: none
	Cookies   *cookies.Jar // of the crawl, which the Protocols use; nil: none are kept
	Deny      *Deny        // nil: nothing is denied
	DenyEvery time.Duration
	RefusedOK bool  // goes on where settings refuse more URLs than a mistake in them is held for
	Others    int64 // URLs of the batch that other shards fetch: what is too many goes by the whole
}

// Archiving says how replies are kept.
type Archiving struct {
	Codec       warc.Codec
	WARCPrefix  string       // begins the names of new WARC files; "": warc.DefaultPrefix
	WARCSize    int64        // a WARC file of this length is complete
	Dedup       bool         // archive a payload once, and then revisit records that refer to it
	Digests     bool         // of blocks too
	About       []warc.Field // of the warcinfo record
	ContentHash string       // hash function of content_fp that the store was made with, or ""
}

// Hooks are called by a batch.
type Hooks struct {
	Now   func() time.Time
	OnRow func(row *record.Fetch) // called for each row that is emitted, by one goroutine
	// OnQueues is called each second, before what is left is deferred, and at the end, by one goroutine
	// at a time; may be nil.
	OnQueues func(BackQueues)
	Warn     func(format string, args ...any)
	Wait     func(text string) // gets what the batch waits for; nil: Warn does
}

// runner is one batch. What belongs together stands in a part, with its methods:
// writer (write.go), dispatcher (dispatch.go), lookups (names.go), settingsRefusals (refusals.go).
type runner struct {
	opt Options
	writer
	robots    *robotsCache
	led       ledTable
	decoders  *semaphore.Weighted // bytes of their windows
	weigh     *sync.Pool          // of scales
	refusals  *settingsRefusals
	cancel    context.CancelCauseFunc
	started   time.Time
	mark      func() error  // before the first contact: openBatch
	contacted bool          // openBatch was called
	pause     time.Duration // from the begin no host is contacted for so long, as any may have been just before
	lease     lease

	mu    sync.Mutex // guards all below
	room  sync.Cond  // hosts may be added
	s     *scheduler
	conns sessions
	sp    *spool
	dispatcher
	lookups
	eof    bool
	wire   int64
	bound  micros       // time in which a connection was free, and no host with URLs left might be contacted yet
	rests  micros       // since when this is so; 0: it is not
	urls   atomic.Int64 // of the batch that were read
	reason string       // why the rest is deferred
}

// Run fetches the batch b. It is the body of a stage.
func Run(ctx context.Context, b *stage.Batch[record.URL, record.Fetch], opt Options) (err error) {
	opt.BackQueues = cmp.Or(opt.BackQueues, 1<<16)
	opt.ContactTime = cmp.Or(opt.ContactTime, DefaultTimeout)
	opt.Now = steady(opt.Now)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &runner{
		opt: opt, cancel: cancel, started: opt.Now(), decoders: semaphore.NewWeighted(decodersMax),
		writer:     writer{b: b, onRow: opt.OnRow, out: make(chan *output, queued), replies: semaphore.NewWeighted(repliesMax)},
		dispatcher: dispatcher{wake: make(chan struct{}, 1), idle: make(chan *host), workers: map[*host]*worker{}},
		s:          newScheduler(us(opt.AddrDelay)), conns: sessions{max: opt.Connections},
	}
	r.s.policy = &opt.Policy
	r.s.slowGap = us(max(slowGap, 2*opt.MinDelay))
	r.room.L = &r.mu
	r.s.contacts.onDisk.dir = opt.Store.Dir()
	defer r.s.contacts.close()
	if opt.Static {
		r.s.lines = make([]line, opt.Connections)
	}
	contentHash, err := hashOf(opt.Store, b.Tx().Base(), opt.ContentHash)
	if err != nil {
		return err
	}
	r.weigh = scalesPools[contentHash]
	if r.sp, err = newSpool(opt.Store.Dir(), opt.Schema); err != nil {
		return err
	}
	defer r.sp.close()
	if r.refusals, err = newSettingsRefusals(opt.Store.Dir()); err != nil {
		return err
	}
	defer r.refusals.f.Close()
	r.count = r.refusals.countRow
	r.robots = newRobotsCache(opt.Robots, r.sp, &r.mu)
	r.robots.keep = opt.KeepRobots
	tx := b.Tx()
	if err := r.robots.load(opt.Store, tx.Base(), r.started); err != nil {
		return err
	}
	if err := r.loadCookies(tx.Base()); err != nil {
		return err
	}
	round := warc.Round{Txn: opt.Txn, Epoch: tx.Epoch(), Now: b.Now()}
	if tx.Fenced() {
		if err := r.awaitOthers(ctx, tx); err != nil {
			return err
		}
		r.lease.tx = tx
		if err := r.lease.renew(); err != nil {
			return err
		}
	}
	// Not before: earlier attempts may have written to their files until now.
	if r.archive, err = openArchive(opt.Store, tx, &opt, round); err != nil {
		return err
	}
	defer r.archive.close()
	now := r.now()
	r.s.longest = us(max(cmp.Or(opt.LongestWait, politeness.LongestWait), opt.Unknown(), opt.MaxDelay))
	if err := r.s.load(opt.Store, tx.Base(), now); err != nil {
		return err
	}
	if r.s.claims != nil {
		r.s.claims.round = opt.Txn
	}
	if r.s.ahead > 0 && opt.Warn != nil {
		opt.Warn("the clock jumped: the last contact with %s ended %v after now; what was contacted later than now waits for its gap from now on",
			clean(r.s.aheadOf), (time.Duration(r.s.ahead) * time.Microsecond).Round(time.Second))
	}
	if tx.InCrawl() && opt.Txn != "" { // else no commit deletes it
		sharing := 1
		if r.s.claims != nil {
			sharing = r.s.claims.owners.Shards
		}
		if r.bodies = bodies.Create(opt.Store.FS(), opt.Store.Dir(), sharing); r.bodies != nil {
			defer func() {
				if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
					r.bodies.Drop() // the archive needs the room
				}
				r.bodies.Close()
			}()
		}
	}
	if opt.Dedup {
		if r.payloads, err = openPayloads(opt.Store, tx); err != nil {
			return err
		}
		defer r.payloads.close()
	}
	ended, gap, err := r.uncleanGap(tx, now)
	if err != nil {
		return err
	}
	r.mark = sync.OnceValue(func() error { return r.openBatch(tx) })
	if ended > 0 {
		// Who was being contacted when the process ended is not recorded.
		r.s.holdFrom, r.s.holdGap = ended, gap
		if r.pause = max(time.Duration(ended+r.s.holdGap-now)*time.Microsecond, 0); r.pause >= 5*time.Second {
			r.warn(Unrecorded+" (an interrupted run, or a crawl that was pulled): no host is contacted for %v", r.pause.Round(time.Second))
		}
	}
	err = r.run(ctx)
	r.mu.Lock()
	r.tellQueues()
	r.mu.Unlock()
	if err != nil {
		r.stopped(tx)
		return err
	}
	// After an unclean stop nobody knows which contacts had begun. Where this batch had none to make, the next one, perhaps of another shard,
	// must not make one earlier than this one might have.
	if wait := max(r.s.holdEnd(), r.s.holdAddr()) - r.now(); wait > 0 && r.s.holdFrom > 0 {
		select {
		case <-time.After(time.Duration(wait) * time.Microsecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := r.archive.commit(ctx); err != nil {
		return err
	}
	if r.payloads != nil {
		if err := r.payloads.commit(ctx); err != nil {
			return err
		}
	}
	if err := r.robots.save(ctx, tx); err != nil {
		return err
	}
	if err := r.saveCookies(tx); err != nil {
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
	side.Go(func() {
		if r.lease.tx != nil {
			r.check(r.lease.keep(watching))
		} else {
			r.check(keepEpoch(watching, r.b.Tx()))
		}
	})
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
		err := r.settleRefusals(ctx)
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

// stopBatch defers what is left.
func (r *runner) stopBatch(reason string) {
	r.mu.Lock()
	r.endBatch(reason)
	r.mu.Unlock()
}

// endBatch is stopBatch with r.mu held.
func (r *runner) endBatch(reason string) {
	if r.reason == "" {
		r.tellQueues()
		r.reason = reason
		r.s.drain()
		r.room.Broadcast()
	}
	r.poke()
}

// tellQueues tells how the batch stands, if anybody asks. r.mu is held.
func (r *runner) tellQueues() {
	if r.opt.OnQueues == nil {
		return
	}
	now := r.now()
	q := r.s.backQueues(now)
	q.Read, q.Received, q.Bound, q.Names = r.urls.Load(), r.wire, seconds(r.boundBy(now)), seconds(r.namesTook)
	if now < r.s.holdEnd() && r.s.holdFrom > 0 {
		q.Held = time.UnixMicro(r.s.holdEnd()).UTC()
	}
	r.opt.OnQueues(q)
}

// watch keeps the deadline and reads the deny list again.
func (r *runner) watch(ctx context.Context) {
	var deadline, deny, look <-chan time.Time
	if r.opt.Deadline > 0 {
		t := time.NewTimer(r.pause + r.opt.Deadline)
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
	if r.opt.Wait == nil {
		r.opt.Wait = func(text string) { r.warn("%s", text) }
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	wait := announcer{since: r.now()}
	warned := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-deadline:
			r.stopBatch("deadline")
		case <-look:
			r.mu.Lock()
			r.breakOffSlow(r.now())
			r.mu.Unlock()
		case <-second.C:
			r.mu.Lock()
			r.endThin(r.now())
			text := wait.text(r, r.now())
			if r.reason == "" {
				r.tellQueues()
			}
			r.mu.Unlock()
			if text != "" {
				r.opt.Wait(text)
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
