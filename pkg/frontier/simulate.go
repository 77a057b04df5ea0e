package frontier

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"mercator/pkg/merge"
)

// MaxSimulated is the largest batch that is simulated, where there is all of Memory: its URLs and
// hosts are held in memory. Of a larger one a plan has bounds only. See Frontier.Simulated.
const MaxSimulated = 1 << 18

// Simulated is the largest batch that is simulated with the memory that there is.
func (f *Frontier) Simulated() uint64 { return uint64(f.layout.sort * MaxSimulated) }

// curvePoints is how many points a curve has at most.
const curvePoints = 200

// Point is how many URLs of a batch were done after a time.
type Point struct {
	At   time.Duration
	URLs uint64
}

// simulation is mfetch without a network: hosts wait for their times, and of those
// that are due the one whose next URL stands first in the batch gets a connection.
// Contacts take as long as their hosts took before, by chance: the batch lasts until its
// last host is done, and with many hosts one is always slower than it was.
// It takes some 100 bytes for each URL of another host.
type simulation struct {
	connections int
	rules       Politeness
	urls        []uint32 // numbers in the batch, of one host after the other
	hosts       []simHost
	open        simHost // the host that add adds to

	// Of one run.
	rng   *rand.Rand
	free  int // connections
	now   time.Duration
	state []simState
	slots []time.Duration      // from when each address may be contacted
	heaps [3]merge.Heap[int32] // of hosts: those that wait for a time, are due, are contacted
	parts []simPart            // of hosts, if they are asked for
}

type simHost struct {
	first    int32  // in urls; its last one stands before the first of the next host
	contacts int32  // that its URLs take, if had is 0
	addr     uint64 // what its address is hashed to; in a run its number, from 1; 0: none is known
	robots   bool   // is to be asked for robots.txt before
	known    uint8  // contacts that the speed is of, up to lately; 0: it is assumed
	contact  uint32 // its speed, in µs
	spread   uint32
	asked    uint32
	had      float32 // URLs that were settled before,
	without  float32 // and those of them that took no contact
	wait     time.Duration
}

func (h *simHost) speed() speed {
	of := func(us uint32) time.Duration { return time.Duration(us) * time.Microsecond }
	return speed{of(h.contact), of(h.spread), of(h.asked)}
}

// alike is how many contacts tell as much as one would, if none were like another: pages that are
// alike take alike, and the pages of a batch are others than those before. On a synthetic web, whose
// replies take as others with URLs of that length, means of batches stray so much further.
const alike = 1.6

// stray draws what the mean of so many contacts is in a batch, to what it was. That one is known from
// some contacts only, and so is how far these are from each other: hence Student's t in place of a
// normal deviate. It is log-normal, as contacts are, so that it is 1 on the mean.
func (h *simHost) stray(rng *rand.Rand, contacts int32) float64 {
	if h.spread == 0 || h.known == 0 {
		return 1
	}
	apart := float64(h.spread) / float64(h.contact) * math.Sqrt(alike/float64(h.known)+(alike-1)/float64(contacts))
	if freedom := int(h.known) + guessed - 1; freedom < 30 { // above, it is normal
		squares := 0.0
		for range freedom {
			x := rng.NormFloat64()
			squares += x * x
		}
		apart *= math.Sqrt(float64(freedom) / squares)
	}
	return stretch(min(apart, 1), rng.NormFloat64())
}

// unmet stands beside the URLs of a host that were settled without a contact: that there was none yet
// does not mean that there is none.
const unmet = 0.1

// draw draws how many contacts so many URLs of a host take, one at least: each one is settled without one as
// often as those before it, in this batch or earlier (Pólya's urn).
func (h *simHost) draw(rng *rand.Rand, urls int32) int32 {
	if h.had == 0 {
		return h.contacts
	}
	n, had, without := urls, float64(h.had)+unmet, float64(h.without)+unmet
	for range urls {
		if rng.Float64()*had < without {
			without++
			n--
		}
		had++
	}
	return max(n, 1)
}

// simState is how far a host has come.
type simState struct {
	next, left int32 // in urls, and contacts that are left
	robots     bool
	reserved   bool    // its address is kept for it
	factor     float32 // of its contacts' mean, to what it was
	at         time.Duration
	taken      time.Duration // by the contact that is under way
}

// simPart is when a host's first contact began, how long all of them took, and how many they are.
type simPart struct {
	began, worked time.Duration
	contacts      int32
}

const (
	simWaits = iota
	simDue
	simBusy
)

func newSimulation(p Politeness, urls int) *simulation {
	s := &simulation{connections: p.Connections, rules: p, urls: make([]uint32, 0, urls), hosts: make([]simHost, 0, urls)}
	s.heaps = [...]merge.Heap[int32]{simWaits: merge.NewHeap(s.sooner), simDue: merge.NewHeap(s.earlier), simBusy: merge.NewHeap(s.sooner)}
	return s
}

// add adds a URL of the open host: its number, and its address; 0: none.
func (s *simulation) add(number uint32, addr uint64) {
	s.urls = append(s.urls, number)
	s.address(addr)
}

// address is that of the open host, if it has none; 0: none is known.
func (s *simulation) address(addr uint64) {
	if s.open.addr == 0 && s.rules.AddrDelay > 0 {
		s.open.addr = addr
	}
}

// before is what the URLs were that a host had: so many were settled, some of them without a contact.
func (s *simulation) before(had, without uint64) {
	s.open.had, s.open.without = float32(had), float32(without)
}

// endHost ends the open host, whose URLs take so many contacts, 1 at least, unless before says what is
// likely; and whose speed is known from so many.
func (s *simulation) endHost(v speed, wait time.Duration, contacts int, robots bool, known uint64) {
	us := func(d time.Duration) uint32 { return uint32(min(d.Microseconds(), longest)) }
	h := &s.open
	h.contact, h.spread, h.asked = us(v.contact), us(v.spread), us(v.asked)
	h.wait, h.contacts, h.robots, h.known = wait, int32(contacts), robots, uint8(min(known, lately))
	s.hosts = append(s.hosts, *h)
	s.open = simHost{first: int32(len(s.urls))}
}

// end is where the URLs of a host end.
func (s *simulation) end(host int32) int32 {
	if int(host) == len(s.hosts)-1 {
		return int32(len(s.urls))
	}
	return s.hosts[host+1].first
}

// earlier compares two hosts by their next URLs.
func (s *simulation) earlier(i, j *int32) bool {
	return s.urls[s.state[*i].next] < s.urls[s.state[*j].next]
}

// sooner compares two hosts by time, then by their next URLs.
func (s *simulation) sooner(i, j *int32) bool {
	a, b := &s.state[*i], &s.state[*j]
	return a.at < b.at || a.at == b.at && s.urls[a.next] < s.urls[b.next]
}

// first is the host that comes first in a heap, -1 if it is empty.
func (s *simulation) first(kind int) int32 {
	if s.heaps[kind].Len() == 0 {
		return -1
	}
	return *s.heaps[kind].First()
}

// move takes the first host of a heap to another.
func (s *simulation) move(from, to int) { s.heaps[to].Push(s.heaps[from].Pop()) }

// Runs of a batch: fewer of a large one, and one where nothing is left to chance. They are tens less one: of nine
// draws the least and the most leave out a tenth on either side, on the mean.
const (
	mostRuns  = 39
	leastRuns = 9
)

func (s *simulation) runs() int {
	if !slices.ContainsFunc(s.hosts, func(h simHost) bool { return h.spread > 0 || h.had > 0 }) {
		return 1
	}
	return min(max((2*MaxSimulated/(len(s.urls)+1)+1)/10*10-1, leastRuns), mostRuns)
}

// forecast is what all runs say.
type forecast struct {
	low, high time.Duration // of those runs that a tenth lies below and above
	ran                     // the one in the middle
}

// ran is what one run says.
type ran struct {
	number int
	end    time.Duration // when the batch is done
	tail   time.Duration // how long fewer than half of the connections are busy before
	curve  []Point
}

// foresee runs the batch some times.
func (s *simulation) foresee(ctx context.Context) (f forecast, err error) {
	s.numberAddresses()
	all := make([]ran, s.runs())
	for i := range all {
		if all[i], err = s.run(ctx, i); err != nil {
			return f, err
		}
	}
	slices.SortFunc(all, func(a, b ran) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.number, b.number)) })
	out := len(all) / 10 // at either end
	return forecast{all[out].end, all[len(all)-1-out].end, all[len(all)/2]}, nil
}

// numberAddresses numbers them from 1, once.
func (s *simulation) numberAddresses() {
	if s.slots != nil {
		return
	}
	var all []uint64
	for i := range s.hosts {
		if a := s.hosts[i].addr; a != 0 {
			all = append(all, a)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i := range s.hosts {
		if h := &s.hosts[i]; h.addr != 0 {
			n, _ := slices.BinarySearch(all, h.addr)
			h.addr = uint64(n) + 1
		}
	}
	s.slots = make([]time.Duration, len(all)+1)
}

// reset begins a run. Runs of one number are the same.
func (s *simulation) reset(run int) {
	s.rng, s.free, s.now = rand.New(rand.NewPCG(1, uint64(run))), s.connections, 0
	s.state = slices.Grow(s.state[:0], len(s.hosts))[:len(s.hosts)]
	clear(s.slots)
	clear(s.parts)
	for i := range s.hosts {
		h := &s.hosts[i]
		n := h.draw(s.rng, s.end(int32(i))-h.first)
		s.state[i] = simState{next: h.first, left: n, robots: h.robots, factor: float32(h.stray(s.rng, n)), at: h.wait}
	}
	for i := range s.hosts {
		s.heaps[simWaits].Push(int32(i))
	}
}

// run goes through the batch. Its state is that of the last run.
func (s *simulation) run(ctx context.Context, number int) (ran, error) {
	s.reset(number)
	c := newCurve(uint64(len(s.urls)))
	var tail time.Duration // begins here, as it looks now
	left := len(s.hosts)
	var t ticker
	for left > 0 {
		if err := t.err(ctx); err != nil {
			return ran{}, err
		}
		w, b := s.first(simWaits), s.first(simBusy)
		switch {
		case w >= 0 && s.state[w].at <= s.now:
			s.move(simWaits, simDue)
		case s.free > 0 && s.first(simDue) >= 0:
			s.contact()
		case b >= 0 && (w < 0 || s.state[b].at <= s.state[w].at || s.free == 0):
			s.now = s.state[b].at
			if 2*(s.connections-s.free) >= s.connections {
				tail = s.now
			}
			if s.ended(c) {
				left--
			}
		default:
			s.now = s.state[w].at
		}
	}
	return ran{number, s.now, s.now - tail, c.points}, nil
}

// contact begins a contact with the first host that is due, or lets it wait for its address.
func (s *simulation) contact() {
	i := s.first(simDue)
	h, x := &s.hosts[i], &s.state[i]
	took := x.taken // as it was foreseen, if its address was kept for it
	if !x.reserved {
		v := h.speed()
		took = v.draw(s.rng, float64(x.factor))
	}
	if h.addr > 0 && !x.reserved {
		slot := &s.slots[h.addr]
		start := max(*slot, s.now)
		*slot = later(later(start, took), s.rules.AddrDelay)
		if start > s.now {
			x.at, x.taken, x.reserved = start, took, true
			s.move(simDue, simWaits)
			return
		}
	}
	if s.parts != nil {
		part := &s.parts[i]
		if part.contacts++; part.contacts == 1 {
			part.began = s.now
		}
		part.worked = later(part.worked, took)
	}
	x.at, x.reserved, x.taken = later(s.now, took), false, took
	s.free--
	s.move(simDue, simBusy)
}

// ended ends the contact that ends first, and reports whether its host has no URL left.
func (s *simulation) ended(c *curve) bool {
	i := s.first(simBusy)
	h, x := &s.hosts[i], &s.state[i]
	s.free++
	if x.robots {
		x.robots = false
	} else {
		// URLs that take no contact are done with the others, in even shares.
		done := max((s.end(i)-x.next)/x.left, 1)
		for range done {
			c.done(s.now)
		}
		x.left--
		if x.left == 0 {
			s.heaps[simBusy].Pop()
			return true
		}
		x.next += done
	}
	x.at = later(x.at, later(s.rules.delay(x.taken), h.speed().asked))
	s.move(simBusy, simWaits)
	return false
}

// part is what became of a host in the last run, in the terms of what was measured.
func (s *simulation) part(i int) HostPart {
	p := &s.parts[i]
	return hostPart(uint64(p.contacts), p.began, s.state[i].at, p.worked)
}

// later is a sum of durations, none of them negative: the longest there is, if it is longer.
func later(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// curve keeps at most curvePoints of n events.
type curve struct {
	n, seen uint64
	points  []Point
}

func newCurve(n uint64) *curve { return &curve{n: n, points: []Point{}} }

// done is called with the time of each event, in order.
func (c *curve) done(at time.Duration) {
	c.seen++
	if k := c.seen * curvePoints / c.n; k > (c.seen-1)*curvePoints/c.n || c.seen == c.n {
		c.points = append(c.points, Point{at, c.seen})
	}
}

// At is how many URLs were done after a time, by a curve.
func At(points []Point, at time.Duration) uint64 {
	before := Point{}
	for _, p := range points {
		if p.At > at {
			if p.At == before.At {
				return before.URLs
			}
			return before.URLs + uint64(float64(p.URLs-before.URLs)*float64(at-before.At)/float64(p.At-before.At))
		}
		before = p
	}
	return before.URLs
}
