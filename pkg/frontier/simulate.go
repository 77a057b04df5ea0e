package frontier

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// MaxSimulated is the largest batch that is simulated: its URLs and hosts are held
// in memory. Of a larger one a plan has bounds only.
const MaxSimulated = 1 << 18

// curvePoints is how many points a curve has at most.
const curvePoints = 200

// Point is how many URLs of a batch were done after a time.
type Point struct {
	At   time.Duration `json:"at_ns"`
	URLs uint64        `json:"urls"`
}

// simulation is mfetch without a network: hosts wait for their times, and of those
// that are due the one whose next URL stands first in the batch gets a connection.
// Contacts take as long as their hosts took before, by chance: the batch lasts until its
// last host is done, and with many hosts one is always slower than it was.
type simulation struct {
	connections int
	rules       Politeness
	urls        []uint32 // numbers in the batch, of one host after the other
	hosts       []simHost
	addrs       map[uint64]int32 // number of each address; nil once there are slots
	open        simHost          // the host that add adds to

	// Of one run.
	rng   *rand.Rand
	free  int // connections
	now   time.Duration
	state []simState
	slots []time.Duration // from when each address may be contacted
	heaps [3][]int32      // of hosts: those that wait for a time, are due, are contacted
}

type simHost struct {
	first, end int32 // in urls
	contacts   int32 // that these take
	addr       int32 // -1: none is known
	known      uint8 // contacts that the speed is of, up to lately; 0: it is assumed
	robots     bool  // is to be asked for robots.txt before
	speed
	wait time.Duration
}

// simState is how far a host has come.
type simState struct {
	next, left int32 // in urls, and contacts that are left
	robots     bool
	reserved   bool // its address is kept for it
	factor     float32
	at         time.Duration
	taken      time.Duration // by the contact that is under way,
	began      time.Duration // the first one,
	worked     time.Duration // and all
}

const (
	simWaits = iota
	simDue
	simBusy
)

func newSimulation(p Politeness, urls int) *simulation {
	return &simulation{connections: p.Connections, rules: p, urls: make([]uint32, 0, urls), hosts: make([]simHost, 0, urls), addrs: map[uint64]int32{}, open: simHost{addr: -1}}
}

// add adds a URL of the open host: its number, and its address; 0: none.
func (s *simulation) add(number uint32, addr uint64) {
	s.urls = append(s.urls, number)
	s.address(addr)
}

// address is that of the open host, if it has none; 0: none is known.
func (s *simulation) address(addr uint64) {
	if addr == 0 || s.open.addr >= 0 || s.rules.AddrDelay == 0 {
		return
	}
	n, ok := s.addrs[addr]
	if !ok {
		n = int32(len(s.addrs))
		s.addrs[addr] = n
	}
	s.open.addr = n
}

// endHost ends the open host, whose URLs take so many contacts, 1 at least, and whose
// speed is known from so many.
func (s *simulation) endHost(v speed, wait time.Duration, contacts int, robots bool, known uint64) {
	h := s.open
	h.speed, h.wait, h.contacts, h.robots, h.known = v, wait, int32(contacts), robots, uint8(min(known, lately))
	if len(s.hosts) > 0 {
		h.first = s.hosts[len(s.hosts)-1].end
	}
	h.end = int32(len(s.urls))
	s.hosts = append(s.hosts, h)
	s.open = simHost{addr: -1}
}

// simHeap is a heap of the simulation's hosts, by time or, if due, by their next URL.
type simHeap struct {
	s    *simulation
	kind int
}

func (h simHeap) Len() int { return len(h.s.heaps[h.kind]) }
func (h simHeap) Less(i, j int) bool {
	l := h.s.heaps[h.kind]
	a, b := &h.s.state[l[i]], &h.s.state[l[j]]
	if h.kind != simDue && a.at != b.at {
		return a.at < b.at
	}
	return h.s.urls[a.next] < h.s.urls[b.next]
}
func (h simHeap) Swap(i, j int) { l := h.s.heaps[h.kind]; l[i], l[j] = l[j], l[i] }
func (h simHeap) Push(x any)    { h.s.heaps[h.kind] = append(h.s.heaps[h.kind], x.(int32)) }
func (h simHeap) Pop() any {
	l := h.s.heaps[h.kind]
	x := l[len(l)-1]
	h.s.heaps[h.kind] = l[:len(l)-1]
	return x
}

// first is the host that comes first in a heap, -1 if it is empty.
func (s *simulation) first(kind int) int32 {
	if len(s.heaps[kind]) == 0 {
		return -1
	}
	return s.heaps[kind][0]
}

// move takes the first host of a heap to another.
func (s *simulation) move(from, to int) { heap.Push(simHeap{s, to}, heap.Pop(simHeap{s, from})) }

// Runs of a batch: few of a large one, and one where nothing is left to chance.
const (
	mostRuns  = 31
	leastRuns = 3
)

func (s *simulation) runs() int {
	if !slices.ContainsFunc(s.hosts, func(h simHost) bool { return h.spread > 0 }) {
		return 1
	}
	return min(max(2*MaxSimulated/(len(s.urls)+1), leastRuns), mostRuns) | 1
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
	if s.addrs != nil {
		s.slots, s.addrs = make([]time.Duration, len(s.addrs)), nil
	}
	all := make([]ran, s.runs())
	for i := range all {
		if all[i], err = s.run(ctx, i); err != nil {
			return f, err
		}
	}
	slices.SortFunc(all, func(a, b ran) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.number, b.number)) })
	return forecast{all[len(all)/10].end, all[len(all)-1-len(all)/10].end, all[len(all)/2]}, nil
}

// reset begins a run. Runs of one number are the same.
func (s *simulation) reset(run int) {
	s.rng, s.free, s.now = rand.New(rand.NewPCG(1, uint64(run))), s.connections, 0
	s.state = append(s.state[:0], make([]simState, len(s.hosts))...)
	clear(s.slots)
	for i := range s.hosts {
		h := &s.hosts[i]
		// What is known of the mean is by so many contacts as there were.
		factor := 1.0
		if h.spread > 0 && h.known > 0 {
			factor = max(1+s.rng.NormFloat64()*float64(h.spread)/float64(h.contact)/math.Sqrt(float64(h.known)), 0.25)
		}
		s.state[i] = simState{next: h.first, left: h.contacts, robots: h.robots, factor: float32(factor), at: h.wait, began: -1}
		s.heaps[simWaits] = append(s.heaps[simWaits], int32(i))
	}
	heap.Init(simHeap{s, simWaits})
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
		took = h.draw(s.rng, float64(x.factor))
	}
	if h.addr >= 0 && !x.reserved {
		slot := &s.slots[h.addr]
		start := max(*slot, s.now)
		*slot = later(later(start, took), s.rules.AddrDelay)
		if start > s.now {
			x.at, x.taken, x.reserved = start, took, true
			s.move(simDue, simWaits)
			return
		}
	}
	if x.began < 0 {
		x.began = s.now
	}
	x.at, x.reserved, x.taken, x.worked = later(s.now, took), false, took, later(x.worked, took)
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
		done := max((h.end-x.next)/x.left, 1)
		for range done {
			c.done(s.now)
		}
		x.next, x.left = x.next+done, x.left-1
		if x.left == 0 {
			heap.Pop(simHeap{s, simBusy})
			return true
		}
	}
	x.at = later(x.at, later(s.rules.delay(x.taken), h.asked))
	s.move(simBusy, simWaits)
	return false
}

// part is what became of a host in the last run, in the terms of what was measured.
func (s *simulation) part(i int) HostPart {
	h, x := &s.hosts[i], &s.state[i]
	n := uint64(h.contacts)
	if h.robots {
		n++
	}
	return hostPart(n, x.began, x.at, x.worked)
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

func newCurve(n uint64) *curve { return &curve{n: n} }

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
