package frontier

import (
	"container/heap"
	"context"
	"io"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fault"
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
type simulation struct {
	free      int // connections
	addrDelay time.Duration
	urls      []uint32 // numbers in the batch, of one host after the other
	hosts     []simHost
	addrs     map[uint64]*time.Duration // when each may be contacted next
	open      simHost                   // the host that add adds to
	now       time.Duration
	heaps     [3][]int32 // of hosts: those that wait for a time, are due, are contacted
}

type simHost struct {
	duration, gap time.Duration
	next, end     int32 // in urls: what is left
	contacts      int32 // that these take
	robots        bool  // is to be asked for robots.txt before
	reserved      bool  // its address is kept for it
	at            time.Duration
	addr          *time.Duration // nil: none is known
}

const (
	simWaits = iota
	simDue
	simBusy
)

func newSimulation(connections int, addrDelay time.Duration, urls int) *simulation {
	return &simulation{free: connections, addrDelay: addrDelay, urls: make([]uint32, 0, urls), addrs: map[uint64]*time.Duration{}}
}

// add adds a URL of the open host: its number, and its address; 0: none.
func (s *simulation) add(number uint32, addr uint64) {
	s.urls = append(s.urls, number)
	s.address(addr)
}

// address is that of the open host, if it has none; 0: none is known.
func (s *simulation) address(addr uint64) {
	if addr != 0 && s.open.addr == nil {
		if s.addrs[addr] == nil {
			s.addrs[addr] = new(time.Duration)
		}
		s.open.addr = s.addrs[addr]
	}
}

// endHost ends the open host, whose URLs take so many contacts, 1 at least.
func (s *simulation) endHost(p pace, contacts int, robots bool) {
	h := s.open
	h.duration, h.gap, h.at, h.contacts, h.robots = p.contact, p.gap, p.wait, int32(contacts), robots
	if len(s.hosts) > 0 {
		h.next = s.hosts[len(s.hosts)-1].end
	}
	h.end = int32(len(s.urls))
	s.hosts = append(s.hosts, h)
	s.open = simHost{}
}

// simHeap is a heap of the simulation's hosts, by time or, if due, by their next URL.
type simHeap struct {
	s    *simulation
	kind int
}

func (h simHeap) Len() int { return len(h.s.heaps[h.kind]) }
func (h simHeap) Less(i, j int) bool {
	l := h.s.heaps[h.kind]
	a, b := &h.s.hosts[l[i]], &h.s.hosts[l[j]]
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

// first is the host that comes first in a heap, nil if it is empty.
func (s *simulation) first(kind int) *simHost {
	if len(s.heaps[kind]) == 0 {
		return nil
	}
	return &s.hosts[s.heaps[kind][0]]
}

// move takes the first host of a heap to another.
func (s *simulation) move(from, to int) { heap.Push(simHeap{s, to}, heap.Pop(simHeap{s, from})) }

// run tells when the batch is done, how long fewer than half of the connections were
// busy at its end, and how many URLs were done when.
func (s *simulation) run(ctx context.Context) (end, tail time.Duration, curve []Point, err error) {
	for i := range s.hosts {
		s.heaps[simWaits] = append(s.heaps[simWaits], int32(i))
	}
	heap.Init(simHeap{s, simWaits})
	c := newCurve(uint64(len(s.urls)))
	left, connections := len(s.hosts), s.free
	var t ticker
	for left > 0 {
		if err := t.err(ctx); err != nil {
			return 0, 0, nil, err
		}
		switch w, b := s.first(simWaits), s.first(simBusy); {
		case w != nil && w.at <= s.now:
			s.move(simWaits, simDue)
		case s.free > 0 && s.first(simDue) != nil:
			s.contact()
		case b != nil && (w == nil || b.at <= w.at || s.free == 0):
			s.now = b.at
			if 2*(connections-s.free) >= connections {
				tail = s.now // begins here, as it looks now
			}
			if s.ended(c) {
				left--
			}
		default:
			s.now = w.at
		}
	}
	return s.now, s.now - tail, c.points, nil
}

// contact begins a contact with the first host that is due, or lets it wait for its address.
func (s *simulation) contact() {
	h := s.first(simDue)
	if s.addrDelay > 0 && h.addr != nil && !h.reserved {
		start := max(*h.addr, s.now)
		*h.addr = start + h.duration + s.addrDelay
		if start > s.now {
			h.at, h.reserved = start, true
			s.move(simDue, simWaits)
			return
		}
	}
	h.at, h.reserved = s.now+h.duration, false
	s.free--
	s.move(simDue, simBusy)
}

// ended ends the contact that ends first, and reports whether its host has no URL left.
func (s *simulation) ended(c *curve) bool {
	h := s.first(simBusy)
	s.free++
	if h.robots {
		h.robots = false
	} else {
		// URLs that take no contact are done with the others, in even shares.
		done := max((h.end-h.next)/h.contacts, 1)
		for range done {
			c.done(s.now)
		}
		h.next, h.contacts = h.next+done, h.contacts-1
		if h.contacts == 0 {
			heap.Pop(simHeap{s, simBusy})
			return true
		}
	}
	h.at += h.gap
	s.move(simBusy, simWaits)
	return false
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

// Actual is what became of a batch, to be compared with its plan.
type Actual struct {
	URLs     uint64        `json:"urls"`        // that were contacted
	Duration time.Duration `json:"duration_ns"` // from the first contact's start to the last one's end, robots.txt included
	Curve    []Point       `json:"curve"`
}

// Measure tells how long the contacts of fetch records took. read gives them, io.EOF
// at the end.
func Measure(ctx context.Context, read func(*record.Fetch) error) (*Actual, error) {
	ends := newSorter(largeSort)
	defer ends.Close()
	out := &Actual{}
	var first, last record.Time
	var t ticker
	for {
		var row record.Fetch
		err := read(&row)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return nil, err
		}
		if row.Addr == "" || row.FetchTime <= 0 {
			continue // was not contacted
		}
		if first == 0 || row.FetchTime < first {
			first = row.FetchTime
		}
		end := row.FetchTime + record.Time(max(row.DurationUS, 0))
		last = max(last, end)
		if row.Role != record.RoleRobots {
			out.URLs++
			if err := ends.add(uint64(end), nil); err != nil {
				return nil, err
			}
		}
	}
	if out.URLs == 0 {
		return nil, &fault.Error{Class: fault.Usage, Found: "fetch records without a contact", Want: "those of a batch that was fetched"}
	}
	out.Duration = time.Duration(last-first) * time.Microsecond
	c := newCurve(out.URLs)
	rows, err := ends.sorted()
	for ; err == nil && !rows.done; err = rows.take() {
		c.done(time.Duration(record.Time(rows.key)-first) * time.Microsecond)
	}
	out.Curve = c.points
	return out, err
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
