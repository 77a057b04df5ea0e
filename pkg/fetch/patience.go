package fetch

import (
	"context"
	"errors"
	"math/bits"
	"time"
)

// A batch must not wait for its slowest host while others have nothing to do: what they
// found is in the next batch. So with Options.Patience it ends when
//
//   - a host was served at once and has no URLs left: what its links lead to is in the next batch,
//   - nothing is due or will be soon but hosts that are slow: their own gap is longer than
//     slowGap and twice Options.MinDelay, and
//   - each contact under way has lasted longer than the batch waits for that host.
//
// Such contacts are broken off. That is no attempt: their URLs come out as deferred, like all that is
// left. The batch waits firstPatience for a host, and twice as long each time it was in
// vain. In between, the host is put off for some putOff times as long, so that others lose about
// one part in putOff. The same is done, without an end of the batch, where such contacts hold all
// connections for crowdPatience, and others wait for one. A host that is slow is served in the end, and one that never
// answers meets its time-out. Hosts are put off to common times, so that one wait is for many.
//
// It also ends when it has become thin: when half of its hosts or more have no URLs left, and those that have some may be contacted less than half
// as often as hosts were in the batch until now, the time since the batch before included. A batch that lasted a sixth of
// its deadline and ten times the time between batches may end so, as a host that goes on loses that time.
const (
	slowGap       = 2 * time.Second
	firstPatience = time.Second
	crowdPatience = 10 * time.Second
	putOff        = 20
	timeoutsMax   = 12 // doublings: more than an hour

	thinPart    = 6  // of the deadline: before that a batch is not thin
	thinBetween = 10 // nor before so many times the time between batches
)

const (
	onlySlowLeft = "only slow hosts were left"
	fewLeft      = "few hosts were left"
	brokenOff    = "no whole reply while only slow hosts were left"
)

// errBrokenOff is the cause of a turn's context when the batch does not wait for it any more.
var errBrokenOff = errors.New(brokenOff)

// patience is how long a batch waits for a contact with h, when nothing else is to be done.
func (h *host) patience() micros { return us(firstPatience) << min(h.timeouts, timeoutsMax) }

// fitting is the number of doublings after which the patience lasts for a contact of that duration.
func fitting(duration micros) int {
	return min(bits.Len64(uint64(max(duration-1, 0)/us(firstPatience))), timeoutsMax)
}

// putOffUntil is when a host may be contacted again for which the batch waited so long in vain.
func putOffUntil(now, waited micros) micros {
	step := putOff * waited
	return (now + 2*step - 1) / step * step
}

// worker is the state of one goroutine that serves hosts.
type worker struct {
	req    Request
	addrs  int             // how many addresses of the host may be contacted
	ctx    context.Context // of contacts; ended with errBrokenOff
	cancel context.CancelCauseFunc
	began  micros // this turn

	begin  limited // of a document, where nobody else gathers it
	reload string  // where the document of the last contact leads by itself
}

func (w *worker) renew(ctx context.Context) {
	if w.ctx == nil || w.ctx.Err() != nil {
		w.ctx, w.cancel = context.WithCancelCause(ctx)
	}
}

// endThin ends the batch if it has become thin. r.mu is held.
func (r *runner) endThin(now micros) {
	if !r.opt.Patience || !r.eof || r.reason != "" || 2*len(r.s.hosts) > r.s.openMax {
		return
	}
	began, between := r.started.Add(r.pause).UnixMicro(), micros(0)
	if r.s.before > 0 {
		between = max(began-r.s.before, 0)
	}
	if now-began < max(us(r.opt.Deadline)/thinPart, thinBetween*between) {
		return
	}
	left := 0.0 // contacts that the hosts with URLs left allow, in a microsecond
	for _, h := range r.s.hosts {
		gap := r.s.bounded(max(h.required, h.crawlDelay, us(h.polite.MinDelay)))
		if gap == 0 {
			return // nothing holds it back
		}
		left += float64(h.open()) / float64(gap)
	}
	if 2*left*float64(now-began+between) < float64(r.s.made) {
		r.endBatch(fewLeft)
	}
}

// breakOffSlow ends the batch if only slow hosts hold it up, and breaks off what hangs. r.mu is held.
func (r *runner) breakOffSlow(now micros) {
	if !r.opt.Patience || !r.brisk || len(r.workers) < r.s.busy || r.reason == "" && r.naming > 0 {
		return // or a turn is about to begin, or names are looked up
	}
	minWait := micros(0)
	crowd := len(r.workers) == r.opt.Connections && len(r.s.hosts) > len(r.workers)
	switch {
	case crowd && r.reason == "" && (!r.eof || !r.s.onlySlow() || len(r.s.ready) > 0):
		minWait = us(crowdPatience)
	case r.reason == "" && (!r.eof || !r.s.onlySlow() || !r.quickDone) || len(r.s.ready) > 0:
		return
	}
	for h, w := range r.workers {
		if now-w.began < max(h.patience(), minWait) {
			return
		}
	}
	if r.reason == "" && minWait == 0 && len(r.s.hosts) > 0 {
		r.endBatch(onlySlowLeft)
	}
	for _, w := range r.workers {
		w.cancel(errBrokenOff)
	}
}

// breakOff puts off a host after its turn was broken off.
func (r *runner) breakOff(h *host, w *worker) turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := turn{made: true, end: r.now()}
	h.took = t.end - w.began
	if h.conns != nil && h.deferred == brokenOff { // with another connection
		return t
	}
	t.required = min(putOffUntil(t.end, max(h.patience(), t.end-w.began))-t.end, r.s.longest) // else it would count as parked
	t.serverGap = t.required
	h.timeouts = min(h.timeouts+1, timeoutsMax)
	h.deferred = brokenOff
	if w.addrs > 1 {
		r.s.reaches.skip(h.name, w.req.Addr, t.end)
	}
	return t
}

// putOffWith puts off a host because its robots.txt is at another host that was put off.
func (r *runner) putOffWith(h, other *host, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.deferred == "" {
		h.deferred = why
	}
	now := r.now()
	if due := other.due(now); h.state == idle && h.next < due {
		h.next, h.required = due, max(h.required, due-now)
	}
}
