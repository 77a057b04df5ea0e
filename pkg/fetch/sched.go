package fetch

import (
	"cmp"
	"container/heap"
	"io"
	"net/netip"
	"slices"
	"time"

	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/politeness"
	"mercator/pkg/base/trace"
)

// micros is an instant or a span in microseconds, the unit of the records, so
// that what the audit computes from them is exactly what the scheduler held to.
type micros = int64

const parkAfter = micros(politeness.LongestGap / time.Microsecond)

// party is the state that all connections of a host share.
type party struct {
	name   string
	polite *politeness.Rules
	pages

	fails    int    // contacts in a row that failed
	timeouts int    // contacts that were broken off: see patience
	deferred string // why the host's URLs are not tried; "" if they are
	rules    [len(withRobots)]*authority

	conns []*host // the host's connections; the first does all but the pages of the queue; nil: there is one
	gone  bool    // the host has no work any more, but heaps may still hold connections; with several connections

	crawlDelay micros
	floor      micros // the server asked for no contact before this time, over any connection; with several connections
	floored    micros // the gap that floor keeps
}

// pages holds the contacts of a host that are left to make in this batch.
type pages struct {
	queue          queue            // the host's URLs, in the spool
	dnsArchived    bool             // the host had a URL, and its DNS records are archived
	robotsRequests []*robotsRequest // robots contacts to make here, before any page
	blocked        int              // robots contacts elsewhere that its pages wait for
	again          []*led           // URLs to be asked again, before those of the queue
}

// host is a host (name and port) that has work in this batch, with its back queue. If it may have
// several connections (Options.HostConnections), there is a host for each of them.
type host struct {
	*party
	current queue // the URL of the queue that is being fetched; with several

	pace
	addressing
	resting
	dispatch
}

// pace is when a host may be contacted, and why.
type pace struct {
	last      micros // end of the last contact; 0: none in this run
	before    micros // end of the last contact of earlier runs; 0: not known
	took      micros // duration of the last contact
	serverGap micros // the gap after the last contact that the server asked for
	next      micros // no contact before this time
	required  micros // the gap that next keeps
	copied    micros // next as another shard keeps it; 0: none does
}

// addressing is where a host is contacted.
type addressing struct {
	addr         netip.Addr   // of the next contact; invalid until a worker found it
	localErrors  int          // contacts in a row that this machine could not make
	unrouted     []netip.Addr // addresses to which this machine has no route
	noRoute      string       // error of the last unrouted address
	lastMiss     miss         // the latest miss of the visit under way that may pass
	naming       bool         // the host waits while its name is being looked up
	resolved     []netip.Addr // addresses from the resolver
	nameError    string       // why there are no resolved addresses
	expires      micros       // until when resolved and nameError hold
	lastAddr     netip.Addr   // address last contacted
	lastAddrText string       // lastAddr as text
}

// resting is the connection of a host that waits for its next contact.
type resting struct {
	lastScheme   string    // of the last contact
	session      io.Closer // nil: none
	newer, older *host     // neighbours in sessions.ring
}

// dispatch is where the scheduler keeps a host.
type dispatch struct {
	slot       *slot // while busy: the address it was granted
	ownSlot    slot  // for this host alone
	workerLine *line // line of the assigned worker; nil: any worker serves the host
	holdsLine  bool  // the worker of workerLine is busy with this host
	state      hostState
	pos        int64 // while ready: its position among hosts that are due
}

// due is when the host may be contacted, as it stands at now: after its gap, and in its window.
func (h *host) due(now micros) micros {
	if h.polite.Window == nil {
		return h.next
	}
	t := max(h.next, now)
	if opens := h.polite.Window.Opens(time.UnixMicro(t)).UnixMicro(); opens > t {
		return opens
	}
	return h.next
}

// hostState says where a host waits.
type hostState uint8

const (
	idle    hostState = iota // has no work, or waits for robots contacts elsewhere, or for its addresses
	waiting                  // in the time heap
	slow                     // in the time heap, and its own gap keeps it from the batch, not its turn
	ready                    // may be contacted now
	busy                     // with a worker
)

// work reports whether a worker could do anything for the host.
func (h *host) work() bool {
	if h.conns != nil {
		return h.workOfSeveral()
	}
	return !h.naming && (len(h.robotsRequests) > 0 || h.blocked == 0 && (h.queue.n > 0 || len(h.again) > 0))
}

// position orders hosts that are due: as their first URLs stand in the batch,
// robots contacts that others wait for before all, and what is asked again.
func (h *host) position() int64 {
	if len(h.robotsRequests) > 0 && h.robotsRequests[0].from != h || len(h.again) > 0 {
		return -1
	}
	return h.queue.head
}

// slot is one address, or a single host where addresses need no gap or where
// the address is not known yet.
type slot struct {
	addr  netip.Addr
	next  micros
	busy  bool
	hosts posHeap
	index int // in the ready heap; -1: not there
}

// alone returns a slot for this host and no address.
func (h *host) alone() *slot {
	h.ownSlot = slot{hosts: append(h.ownSlot.hosts[:0], h)}
	return &h.ownSlot
}

func (s *slot) pos() int64 { return s.hosts[0].pos }

// line holds the hosts assigned to one worker.
type line struct {
	busy  bool
	hosts posHeap // hosts due while the worker was busy
}

// scheduler decides which host is contacted when. It is a state machine without
// a clock and without locks: its caller passes the time and serialises.
//
// It is Mercator's (Heydon and Najork 1999, section 3.2): B back queues, each with the URLs of
// one host, refilled from the batch where one is empty, and a heap of them by the time of the
// next contact. Mercator had three times as many as threads. Here B is Options.BackQueues, and
// by default as large as memory allows: where each host is left alone for a second after a reply
// of 50 ms, three queues for each connection leave most connections idle.
//
//   - A host is with at most one worker.
//   - A host is granted only at or after host.next, an address at or after
//     slot.next, unless nothing is to be contacted (deferred, draining).
//   - The hosts that are due are granted in the batch order of their next URLs.
//   - A host with several connections is granted to as many workers at most, and each keeps its own gaps: several.go.
//   - With lines (Mercator's static assignment) a host name hashes to a line, and
//     at most one host of a line is granted at a time.
type scheduler struct {
	addrDelay micros
	lines     []line // nil: any worker serves any host
	policy    *politeness.Policy
	hosts     map[string]*host
	slots     map[netip.Addr]*slot
	times     timeHeap
	ready     slotHeap
	contacts  *idleHosts            // hosts without work in this batch
	addrs     map[netip.Addr]micros // addresses without work, from rounds before
	reaches   reaches
	holdFrom  micros // after an unclean stop: when this run began, as if all hosts had been contacted then
	holdGap   micros // the gap that each host keeps from holdFrom on
	latest    micros // when the last gap after a contact of this batch ends
	made      int64  // contacts of this batch
	before    micros // when the last contact of earlier batches ended; 0: not known
	draining  bool
	claims    *claims // nil: the crawl has no shards

	ahead   micros // clock skew against earlier rounds: the latest contact ended this long after this round began
	aheadOf string // the host of that contact

	longest micros // longest wait for a host: one that asks for more is parked
	slowGap micros // hosts that wait for more are slow
	lively  int    // hosts in state waiting
	busy    int    // hosts in state busy
	opened  int64  // hosts that had work so far; a host that ran out of work and got new work counts twice
	openMax int    // most hosts with work at the same time
}

func newScheduler(addrDelay micros) *scheduler {
	return &scheduler{
		addrDelay: addrDelay,
		policy:    &politeness.Policy{},
		longest:   us(politeness.LongestWait),
		hosts:     map[string]*host{},
		slots:     map[netip.Addr]*slot{},
		contacts:  newIdleHosts(),
		addrs:     map[netip.Addr]micros{},
		reaches:   reaches{},
	}
}

// host returns the host of that name, made if need be.
func (s *scheduler) host(name string, now micros) *host {
	h := s.hosts[name]
	if h != nil {
		return h
	}
	h = newHost(name)
	h.polite = s.rules(name)
	s.opened++
	if c, known := s.contacts.takeContact(name, now); known {
		h.next, h.required, h.fails, h.timeouts = c.next, c.required, c.fails, c.timeouts
		if c.next <= now {
			h.required = 0
		}
		h.before, h.took, h.serverGap = c.ended, c.took, c.serverGap
		if c.addr.IsValid() {
			h.addrText(c.addr)
		}
		if c.copied {
			h.copied = c.next
		}
	}
	if s.holdFrom > 0 {
		h.last = s.holdFrom
		h.next = max(h.next, s.holdEnd()) // required stays: the frontier takes it for the host's pace
	}
	if h.fails >= failsMax {
		h.deferred = hostFailed
	}
	if len(s.lines) > 0 {
		h.workerLine = &s.lines[fingerprint.OfString(name)%uint64(len(s.lines))]
	}
	s.park(h, now)
	s.multiply(h)
	s.hosts[name] = h
	s.openMax = max(s.openMax, len(s.hosts))
	return h
}

// rules returns the politeness rules of a host.
func (s *scheduler) rules(name string) *politeness.Rules {
	if s.policy.Hosts == nil {
		return &s.policy.Rules
	}
	own := s.policy.Of(name)
	return &own
}

// BackQueues says how the back queues of a batch stand at an instant.
type BackQueues struct {
	Opened  int64     `json:"opened"` // since the batch began
	Most    int       `json:"most"`   // most open at the same time so far
	Open    int       `json:"open"`
	Busy    int       `json:"busy"`                  // open, with a contact under way
	Due     int       `json:"due"`                   // open, and may be contacted now
	Waiting int       `json:"waiting"`               // open, until the time of the next contact; the rest wait for their address or for another's robots.txt
	Next    time.Time `json:"next_contact,omitzero"` // the earliest next contact that a host waits for; zero: none

	Read     int64     `json:"read"`                  // URLs of the batch, so far
	Received int64     `json:"received_bytes"`        // from servers
	Bound    float64   `json:"bound_by_politeness_s"` // time in which a connection was free, but no host with URLs left might be contacted yet
	Names    float64   `json:"names_s"`               // sum of the times of name look-ups by mfetch itself
	Held     time.Time `json:"held_until,omitzero"`   // after an unclean stop no host is contacted before this time
	Longest  []Holding `json:"longest,omitempty"`     // the hosts that hold the batch up longest
}

// Holding is a host and what it has left in a batch.
type Holding struct {
	Host string  `json:"host"`
	Left int     `json:"left"`  // URLs
	Gap  float64 `json:"gap_s"` // between two contacts
	End  float64 `json:"end_s"` // until the last contact may begin
}

// longest is how many hosts BackQueues names.
const longest = 3

func (s *scheduler) backQueues(now micros) BackQueues {
	q := BackQueues{Opened: s.opened, Most: s.openMax, Open: len(s.hosts), Busy: s.busy}
	for _, h := range s.hosts {
		q.hold(s.holding(h, now, us(h.polite.MinDelay)))
		switch h.state {
		case ready:
			q.Due++
		case waiting, slow:
			q.Waiting++
			if next := time.UnixMicro(h.due(now)).UTC(); q.Waiting == 1 || next.Before(q.Next) {
				q.Next = next
			}
		}
	}
	return q
}

// holding says how long a host's URLs take at the gap that it has now.
func (s *scheduler) holding(h *host, now, minDelay micros) Holding {
	if h.queue.n == 0 || s.free(h) {
		return Holding{}
	}
	gap := s.bounded(max(h.required, h.crawlDelay, minDelay))
	end := max(h.due(now)-now, 0) + int64((h.queue.n-1)/h.open())*gap
	return Holding{Host: h.name, Left: h.queue.n, Gap: seconds(gap), End: seconds(end)}
}

func seconds(d micros) float64 { return float64(d) / 1e6 }

// hold keeps a host, if it is one of those that take longest.
func (q *BackQueues) hold(h Holding) {
	longer := func(x, y Holding) int {
		return cmp.Or(cmp.Compare(y.End, x.End), cmp.Compare(y.Left, x.Left), cmp.Compare(x.Host, y.Host))
	}
	if at, _ := slices.BinarySearchFunc(q.Longest, h, longer); at < longest && h.Left > 0 {
		q.Longest = slices.Insert(q.Longest, at, h)
		q.Longest = q.Longest[:min(len(q.Longest), longest)]
	}
}

// widenGap makes a host wait for gap after its last contact, if that is longer.
func (s *scheduler) widenGap(h *host, gap micros) {
	for _, c := range h.conns { // the gap counts for all of them
		h.last = max(h.last, c.last)
	}
	if last := max(h.last, h.before); last > 0 {
		gap = min(gap, askedMax)
		h.next, h.required, h.serverGap = max(h.next, last+s.bounded(gap)), max(h.required, gap), max(h.serverGap, gap)
	}
}

// askedMax bounds what servers ask for: fifty years.
const askedMax = micros(50 * 365 * 24 * time.Hour / time.Microsecond)

// bounded is how long is waited after a contact where a server asks for gap.
func (s *scheduler) bounded(gap micros) micros { return min(gap, s.longest) }

// parked is until when a host asked to be left alone that asked for more than the longest wait; 0: it did not.
func (s *scheduler) parked(h *host) micros {
	if h.required <= s.longest {
		return 0
	}
	return h.next - s.longest + h.required
}

// applyCrawlDelay notes a Crawl-delay. It reports whether it is too early for a contact now.
func (s *scheduler) applyCrawlDelay(h *host, delay, now micros) bool {
	if delay >= us(robotsKeep) {
		// When the next contact may come, these rules are too old, and it would be for robots.txt again, and so on.
		delay = max(delay, s.longest+1)
	}
	if delay > h.crawlDelay {
		h.crawlDelay = delay
		s.widenGap(h.first(), delay)
		s.park(h.first(), now)
	}
	return !h.may(now)
}

// park defers a host that is not to be contacted for a long time (the frontier parks URLs, which is another thing).
func (s *scheduler) park(h *host, now micros) {
	due := h.due(now)
	if h.deferred != "" || due <= now {
		return
	}
	if until := s.parked(h); until > 0 {
		h.deferred = "host asks to be left alone until " + timeText(until)
	} else if due-now > parkAfter {
		h.deferred = "host is left alone until " + timeText(due)
		if due > h.next {
			h.deferred += ", outside of its window " + h.polite.Window.String()
		}
	}
}

func timeText(t micros) string { return time.UnixMicro(t).UTC().Format(time.RFC3339) }

// schedule puts a host that is not busy where it belongs.
func (s *scheduler) schedule(h *host, now micros) {
	if h.conns == nil {
		s.placeHost(h, now)
		return
	}
	for _, c := range h.conns {
		s.placeHost(c, now)
	}
	if h.done() {
		s.retireAll(h, now)
	}
}

func (s *scheduler) placeHost(h *host, now micros) {
	if h.state != idle {
		return // it is served in its turn, with what was added
	}
	if h.polite.Window != nil {
		s.park(h, now)
	}
	due := h.due(now)
	switch {
	case !h.work():
		h.state = idle
		if h.conns == nil && h.queue.n == 0 && h.blocked == 0 && !h.naming {
			s.retire(h, now)
		}
	case due > now && !s.free(h):
		if h.state = waiting; s.isSlow(h, now) {
			h.state = slow
		} else {
			s.lively++
		}
		if trace.OnHost(h.name) {
			trace.Say("mfetch", h.name, "waits %v for politeness, %d URLs in its queue", time.Duration(due-now)*time.Microsecond, h.queue.n)
		}
		heap.Push(&s.times, event{at: due, host: h})
	default:
		s.makeReady(h, now)
	}
}

func (s *scheduler) isSlow(h *host, now micros) bool {
	return h.required > s.slowGap || h.due(now)-now > s.slowGap
}

// onlySlow reports whether nothing is due, or will be soon, but hosts that are slow.
func (s *scheduler) onlySlow() bool {
	if s.lively > 0 {
		return false
	}
	for _, e := range s.times {
		if e.slot != nil && len(e.slot.hosts) > 0 {
			return false
		}
	}
	return true
}

// free reports whether the host's turn makes no contact, and so needs no waiting.
func (s *scheduler) free(h *host) bool {
	return s.draining || h.deferred != ""
}

func (s *scheduler) makeReady(h *host, now micros) {
	h.state, h.pos = ready, h.position()
	if s.addrDelay == 0 || !h.addr.IsValid() || h.conns != nil || s.free(h) {
		heap.Push(&s.ready, h.alone())
		return
	}
	a := s.slots[h.addr]
	if a == nil {
		a = &slot{addr: h.addr, index: -1, next: max(s.addrs[h.addr], s.holdAddr())}
		delete(s.addrs, h.addr)
		s.slots[h.addr] = a
		if a.next > now {
			a.busy = true
			heap.Push(&s.times, event{at: a.next, slot: a})
		}
	}
	heap.Push(&a.hosts, h)
	switch {
	case a.index >= 0:
		heap.Fix(&s.ready, a.index)
	case !a.busy:
		heap.Push(&s.ready, a)
	}
}

// holdEnd is when a host may be contacted first after an unclean stop.
func (s *scheduler) holdEnd() micros { return s.holdFrom + s.bounded(s.holdGap) }

// holdAddr is when an address may be contacted first.
func (s *scheduler) holdAddr() micros {
	if s.holdFrom == 0 {
		return 0
	}
	return s.holdFrom + s.addrDelay
}

// takeHost grants the next host. Without one it says how long to wait; a negative
// wait means until something changes.
func (s *scheduler) takeHost(now micros) (h *host, wait micros) {
	for len(s.times) > 0 && s.times[0].at <= now {
		e := heap.Pop(&s.times).(event)
		switch {
		case e.host != nil && e.host.gone:
		case e.host != nil && e.host.due(now) > now: // it was put off meanwhile
			if e.host.state == waiting && s.isSlow(e.host, now) {
				e.host.state = slow
				s.lively--
			}
			heap.Push(&s.times, event{at: e.host.due(now), host: e.host})
		case e.host != nil:
			if e.host.state == waiting {
				s.lively--
			}
			s.makeReady(e.host, now)
		case len(e.slot.hosts) > 0:
			e.slot.busy = false
			heap.Push(&s.ready, e.slot)
		default:
			delete(s.slots, e.slot.addr)
		}
	}
	for len(s.ready) > 0 {
		a := s.ready[0]
		h = heap.Pop(&a.hosts).(*host)
		if h.gone {
			heap.Remove(&s.ready, 0)
			continue
		}
		shut := h.polite.Window != nil && !s.free(h) && h.due(now) > now // while it stood here
		if !shut && (h.workerLine == nil || !h.workerLine.busy || s.free(h)) {
			heap.Remove(&s.ready, 0)
			h.state, h.slot = busy, a
			s.busy++
			a.busy = true
			if h.workerLine != nil && !s.free(h) {
				h.workerLine.busy, h.holdsLine = true, true
			}
			return h, 0
		}
		if len(a.hosts) > 0 {
			heap.Fix(&s.ready, 0)
		} else if heap.Remove(&s.ready, 0); a.addr.IsValid() {
			delete(s.slots, a.addr)
		}
		if shut {
			h.state = idle
			s.placeHost(h, now)
		} else {
			heap.Push(&h.workerLine.hosts, h)
		}
	}
	if len(s.times) == 0 {
		return nil, -1
	}
	return nil, s.times[0].at - now
}

// release takes a host back at time now. contacted: a contact with it ended at
// now, and required is the gap until the next one.
func (s *scheduler) release(h *host, now micros, contacted bool, required micros) {
	a := h.slot
	h.slot = nil
	h.state = idle
	s.busy--
	if l := h.workerLine; l != nil {
		l.busy = l.busy && !h.holdsLine
		h.holdsLine = false
		for served := l.busy; !served && len(l.hosts) > 0; {
			waited := heap.Pop(&l.hosts).(*host)
			if served = !waited.gone; served {
				s.makeReady(waited, now)
			}
		}
	}
	if contacted {
		s.made++
		required = min(required, askedMax)
		h.last, h.next, h.required, h.copied = now, now+s.bounded(required), required, 0
		s.waitForServerGap(h)
		s.latest = max(s.latest, h.next)
		s.park(h, now)
		a.next = now + s.addrDelay
	}
	if a.addr.IsValid() {
		switch {
		case a.next > now:
			heap.Push(&s.times, event{at: a.next, slot: a})
		case len(a.hosts) > 0:
			a.busy = false
			heap.Push(&s.ready, a)
		default:
			delete(s.slots, a.addr)
		}
	}
	s.schedule(h, now)
}

// retire forgets a host without work, except for what politeness must remember.
func (s *scheduler) retire(h *host, now micros) {
	delete(s.hosts, h.name)
	s.contacts.put(h.name, contact{next: h.next, required: h.required, fails: h.fails, timeouts: h.timeouts, copied: h.copied > 0 && h.copied == h.next,
		ended: max(h.last, h.before), took: h.took, serverGap: h.serverGap, addr: h.lastAddr}, now)
}

// drain makes everything due at once, because nothing is to be contacted any more.
func (s *scheduler) drain() {
	s.draining = true
	events := s.times
	s.times, s.lively = nil, 0
	for _, e := range events {
		if e.slot != nil {
			s.times = append(s.times, e)
			continue
		}
		s.makeReady(e.host, e.at)
	}
	heap.Init(&s.times)
	// Hosts need no addresses any more.
	for _, h := range s.hosts {
		for _, c := range h.all() {
			if c.naming {
				c.naming = false
				if c.state == idle && c.work() {
					s.makeReady(c, 0)
				}
			}
		}
	}
	// Hosts that wait for their worker or address are taken out of its queue.
	for i := range s.lines {
		for _, h := range s.lines[i].hosts {
			heap.Push(&s.ready, h.alone())
		}
		s.lines[i].hosts = nil
	}
	for _, a := range s.slots {
		if a.index < 0 && len(a.hosts) > 0 {
			for _, h := range a.hosts {
				heap.Push(&s.ready, h.alone())
			}
			a.hosts = nil
		}
	}
}

// event is the time at which a host or an address may be contacted.
type event struct {
	at   micros
	host *host
	slot *slot
}

type timeHeap []event

func (h timeHeap) Len() int           { return len(h) }
func (h timeHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timeHeap) Push(x any)        { *h = append(*h, x.(event)) }
func (h *timeHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}

type posHeap []*host

func (h posHeap) Len() int           { return len(h) }
func (h posHeap) Less(i, j int) bool { return h[i].pos < h[j].pos }
func (h posHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *posHeap) Push(x any)        { *h = append(*h, x.(*host)) }
func (h *posHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}

type slotHeap []*slot

func (h slotHeap) Len() int           { return len(h) }
func (h slotHeap) Less(i, j int) bool { return h[i].pos() < h[j].pos() }
func (h slotHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *slotHeap) Push(x any) {
	s := x.(*slot)
	s.index = len(*h)
	*h = append(*h, s)
}
func (h *slotHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	s.index = -1
	*h = old[:len(old)-1]
	return s
}
