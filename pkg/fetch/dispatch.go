package fetch

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"mercator/formats/record"
)

// dispatcher is how hosts come to workers, and what these do.
type dispatcher struct {
	wake    chan struct{}
	idle    chan *host // hands hosts to workers
	asleep  micros     // until then the dispatcher sleeps, unless it is woken
	workers map[*host]*worker
	visits  int  // turns so far
	brisk   bool // a host that is not slow was served
	// A host was served at once, and has no URLs left: what its links lead to waits for the next batch.
	quickDone bool
}

// stir wakes the dispatcher if it has something to do. r.mu is held.
func (r *runner) stir() {
	if len(r.s.ready) > 0 || len(r.s.times) > 0 && r.s.times[0].at < r.asleep || r.eof && len(r.s.hosts) == 0 {
		r.poke()
	}
}

func (d *dispatcher) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
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
			h, wait := r.s.takeHost(now)
			if h == nil {
				if r.breakOffSlow(now); r.reason != "" {
					h, wait = r.s.takeHost(now)
				}
			}
			if wait < 0 {
				wait = us(time.Hour)
			}
			r.asleep = now + wait
			done := r.eof && len(r.s.hosts) == 0
			if h == nil && r.reason == "" && len(r.s.times) > 0 {
				r.rests = now
			}
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
			r.mu.Lock()
			r.bound, r.rests = r.boundBy(r.now()), 0
			r.mu.Unlock()
		}
	}
}

// boundBy is for how long politeness was all that kept a connection free. r.mu is held.
func (r *runner) boundBy(now micros) micros {
	if r.rests == 0 {
		return r.bound
	}
	return r.bound + now - r.rests
}

// work serves hosts, one after the other: those that the dispatcher hands it, and
// after each the next that is due by then.
func (r *runner) work(ctx context.Context, tokens chan struct{}) {
	var w worker
	for h := range r.idle {
		for h != nil {
			w.renew(ctx)
			r.mu.Lock()
			w.began, r.workers[h] = r.now(), &w
			r.visits++
			r.mu.Unlock()
			t, err := r.serve(ctx, h, &w)
			if errors.Is(err, errBrokenOff) {
				t, err = r.breakOff(h, &w), nil
			}
			if err != nil {
				closeSession(t.session)
				r.mu.Lock()
				gap := max(h.polite.After(r.now()-w.began), h.crawlDelay, t.required)
				r.s.latest = max(r.s.latest, r.now()+gap)
				r.mu.Unlock()
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
	var unused []io.Closer
	r.mu.Lock()
	delete(r.workers, h)
	err := r.sp.unclaim(h)
	if t.made {
		unused = append(unused, r.conns.endContact(h, t.session, t.required))
		if h.serverGap = max(t.serverGap, h.crawlDelay); h.serverGap > 0 {
			r.s.applyServerGap(h, t.end, h.serverGap)
		}
		r.brisk = r.brisk || t.required <= r.s.slowGap
	} else {
		t.end = r.now()
		if t.missed {
			h.slot.next = t.end + r.s.addrDelay
		}
	}
	r.s.release(h, t.end, t.made, t.required)
	if r.s.hosts[h.name] != h.first() { // nothing more to be asked of it
		r.quickDone = r.quickDone || t.made && t.required <= r.s.slowGap && h.took <= us(firstPatience)
		for _, c := range h.all() {
			unused = append(unused, r.conns.takeResting(c))
		}
		r.robots.leave(h)
	}
	if len(r.s.hosts) < r.opt.BackQueues {
		r.room.Signal()
	}
	next, _ = r.s.takeHost(r.now())
	err = cmp.Or(err, r.s.contacts.err)
	r.stir()
	r.mu.Unlock()
	r.check(err)
	for _, c := range unused {
		closeSession(c)
	}
	return next
}

// turn is the result of a worker's turn with a host.
type turn struct {
	made      bool   // a contact was made
	missed    bool   // the address did not serve, and the visit goes on at another; unless made, no connection came about
	end       micros // end of the contact
	required  micros // gap to the next contact
	serverGap micros // gap that the server asked for, over any connection of the host
	session   io.Closer
}

// errShut says that the host's window has closed since its turn began.
var errShut = errors.New("outside of its window")

// halt is why a host is not contacted now.
type halt struct {
	why   string // "": the host may be contacted
	host  bool   // because of the host, and not of the run
	until micros // 0: it is not known

	ahead  bool // the next contact lies ahead
	parked bool // the host asked for more than the longest wait
}

// halted reports whether a host is left alone. runner.mu is held: what another host's
// worker learns of robots rules may put this one off.
func (r *runner) halted(h *host) halt {
	now := r.now()
	due := h.due(now)
	rest := halt{ahead: due > now}
	until := r.s.parked(h)
	switch {
	case until > 0 && h.deferred != "" && h.next > now:
		return halt{why: h.deferred, host: true, until: until, ahead: true, parked: true}
	case r.reason != "":
		rest.why = cmp.Or(h.deferred, r.reason)
	case h.deferred != "":
		rest.why, rest.host = h.deferred, true
	}
	// What ends at a deadline goes on with the next batch, with all hosts together.
	if (h.deferred != "" || r.reason == onlySlowLeft) && rest.ahead {
		rest.until = due
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
		var e *robotsRequest
		var again *led
		var err error
		r.mu.Lock()
		rest := r.halted(h)
		first := h == h.first()
		if first && len(h.robotsRequests) > 0 {
			e = h.robotsRequests[0]
		}
		if first && len(h.again) > 0 {
			again = h.again[0]
			row = again.row
		} else if e == nil && h.blocked == 0 {
			err = r.sp.claim(h)
		}
		next := h.pending()
		page := (next.n > 0 || again != nil) && h.blocked == 0
		if err == nil && again == nil && next.n > 0 {
			err = r.sp.peek(next, &row)
		}
		r.mu.Unlock()
		if err != nil {
			return turn{}, err
		}
		var t turn
		var settled bool
		switch {
		case e != nil && e.auth == nil:
			t, settled, err = r.serveLogin(ctx, h, e, &row, rest, w)
		case e != nil:
			t, settled, err = r.serveRobots(ctx, h, e, &row, rest, w)
		case page:
			t, settled, err = r.servePage(ctx, h, &row, again, rest, w)
		default:
			return turn{}, nil
		}
		if err == errUnnamed {
			r.name(r.named, h)
			return t, nil
		}
		if err == errShut {
			return t, nil
		}
		if err != nil || !settled {
			return t, err
		}
	}
}
