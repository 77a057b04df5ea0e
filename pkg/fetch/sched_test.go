package fetch

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestNoHostAndNoAddressIsEarly runs the scheduler against a simulated clock:
// contacts of random length on many connections, and checks every start.
func TestNoHostAndNoAddressIsEarly(t *testing.T) {
	const dynamic, static = false, true
	took := map[bool]micros{}
	for _, c := range []struct {
		addrDelay micros
		assign    bool
	}{{0, dynamic}, {700, dynamic}, {0, static}, {700, static}} {
		addrDelay := c.addrDelay
		t.Run(fmt.Sprintf("address delay %d, static %v", addrDelay, c.assign), func(t *testing.T) {
			const hosts, perHost, connections = 300, 20, 40
			rnd := rand.New(rand.NewPCG(1, 2))
			s := newScheduler(addrDelay)
			if c.assign == static {
				s.lines = make([]line, connections)
			}
			lines := map[*line]*host{}
			addrOf := func(h *host) netip.Addr {
				return netip.AddrFrom4([4]byte{10, 0, 0, h.name[len(h.name)-1] - '0'})
			}
			pos := int64(0)
			for range perHost {
				for i := range hosts {
					h := s.host(fmt.Sprintf("h%d", i), 0)
					if h.queue.n == 0 {
						h.queue.head = pos
					}
					pos++
					h.queue.n++
					h.addr = addrOf(h)
					s.schedule(h, 0)
				}
			}
			type flight struct {
				end micros
				h   *host
			}
			var now micros
			var flying []flight
			hostEnd, addrEnd := map[string]micros{}, map[netip.Addr]micros{}
			gap := map[string]micros{}
			contacts := 0
			for len(s.hosts) > 0 {
				for len(flying) < connections {
					h, _ := s.takeHost(now)
					if h == nil {
						break
					}
					if end, ok := hostEnd[h.name]; ok && now-end < gap[h.name] {
						t.Fatalf("%s contacted %d after its end, want %d", h.name, now-end, gap[h.name])
					}
					if end, ok := addrEnd[addrOf(h)]; ok && addrDelay > 0 && now-end < addrDelay {
						t.Fatalf("address of %s contacted %d after its end, want %d", h.name, now-end, addrDelay)
					}
					if h.workerLine != nil {
						if other := lines[h.workerLine]; other != nil {
							t.Fatalf("%s and %s are with one worker", other.name, h.name)
						}
						lines[h.workerLine] = h
					}
					hostEnd[h.name] = 1 << 62 // busy
					if addrDelay > 0 {
						addrEnd[addrOf(h)] = 1 << 62
					}
					flying = append(flying, flight{now + 1 + rnd.Int64N(500), h})
				}
				// On to the next end, or the next due time.
				next := micros(1 << 61)
				for _, f := range flying {
					next = min(next, f.end)
				}
				if len(flying) < connections {
					if _, wait := s.takeHost(now); wait > 0 {
						next = min(next, now+wait)
					}
				}
				if next == 1<<61 {
					t.Fatalf("nothing flies, nothing is due, %d hosts left", len(s.hosts))
				}
				now = max(now, next)
				kept := flying[:0]
				for _, f := range flying {
					if f.end > now {
						kept = append(kept, f)
						continue
					}
					contacts++
					h := f.h
					h.queue.n--
					delete(lines, h.workerLine)
					hostEnd[h.name], addrEnd[addrOf(h)] = f.end, f.end
					gap[h.name] = rnd.Int64N(2000)
					s.release(h, f.end, true, gap[h.name])
				}
				flying = kept
			}
			if contacts != hosts*perHost {
				t.Errorf("%d contacts, want %d", contacts, hosts*perHost)
			}
			if addrDelay == 0 {
				took[c.assign] = now
			}
		})
	}
	if took[dynamic] >= took[static] {
		t.Errorf("work given to whoever is free took %d, by hash %d", took[dynamic], took[static])
	}
}

// TestALineGoesOnAfterADeferredHost: a host of which nothing is to be contacted any
// more does not keep back those that wait for the same worker.
func TestALineGoesOnAfterADeferredHost(t *testing.T) {
	s := newScheduler(0)
	s.lines = make([]line, 1)
	for i := range 3 {
		h := s.host(fmt.Sprint("h", i), 0)
		h.queue.n, h.queue.head = 1, int64(i)
		s.schedule(h, 0)
	}
	first, _ := s.takeHost(0)
	if h, _ := s.takeHost(0); h != nil {
		t.Fatalf("%s is granted beside %s", h.name, first.name)
	}
	s.hosts["h1"].deferred = "asked to"
	for h := first; h != nil; h, _ = s.takeHost(0) {
		h.queue.n = 0
		s.release(h, 0, false, 0)
	}
	if len(s.hosts) != 0 {
		t.Errorf("%d hosts are left behind", len(s.hosts))
	}
}

func TestHostsInOrderOfTheBatch(t *testing.T) {
	s := newScheduler(0)
	for i := range 5 {
		h := s.host(fmt.Sprint("h", 4-i), 0)
		h.queue.n, h.queue.head = 1, int64(i)
		s.schedule(h, 0)
	}
	for i := range 5 {
		if h, _ := s.takeHost(0); h == nil || h.queue.head != int64(i) {
			t.Fatalf("turn %d went to %v", i, h)
		}
	}
}

// TestTheHoldIsNoPace: after an unclean stop hosts wait, and are not taken for slow.
func TestTheHoldIsNoPace(t *testing.T) {
	const end, delay = 1000 + 30_000_000, 10_000_000
	s := newScheduler(0)
	s.holdFrom, s.holdGap = 1000, end-1000
	s.contacts.put("b", contact{next: 2000, required: 1500}, 1000)
	s.contacts.put("c", contact{next: end + 1, required: end + 1}, 1000)
	for name, want := range map[string]contact{"a": {next: end}, "b": {next: end, required: 1500}, "c": {next: end + 1, required: end + 1}} {
		t.Run(name, func(t *testing.T) {
			h := s.host(name, 1000)
			if h.next != want.next || h.required != want.required {
				t.Errorf("%s: next %d, required %d; want %d, %d", name, h.next, h.required, want.next, want.required)
			}
			if s.applyCrawlDelay(h, delay, 1000); h.next != want.next || h.required != max(want.required, delay) {
				t.Errorf("%s with a Crawl-delay: next %d, required %d; want %d, %d", name, h.next, h.required, want.next, max(want.required, delay))
			}
		})
	}
}

func TestContactTimesOutliveAHostsWork(t *testing.T) {
	s := newScheduler(0)
	h := s.host("a", 0)
	h.queue.n = 1
	s.schedule(h, 0)
	s.takeHost(0)
	h.queue.n = 0
	s.release(h, 100, true, 5000)
	if len(s.hosts) != 0 {
		t.Fatal("a host without work is still held")
	}
	h = s.host("a", 200)
	h.queue.n = 1
	s.schedule(h, 200)
	if got, wait := s.takeHost(200); got != nil || wait != 4900 {
		t.Fatalf("take = %v, wait %d; want none, 4900", got, wait)
	}
	if got, _ := s.takeHost(5100); got != h || got.required != 5000 {
		t.Fatalf("take = %v, want the host with its gap", got)
	}
}

// TestFailuresInMemory: of many hosts that fail once, the failures of few are remembered.
func TestFailuresInMemory(t *testing.T) {
	s := newScheduler(0)
	most := 0
	for i := range micros(5 * rememberedMax) {
		h := s.host(fmt.Sprint("h", i), i)
		h.queue.n = 1
		s.schedule(h, i)
		s.takeHost(i)
		h.queue.n, h.fails = 0, 1
		s.release(h, i, true, 1)
		most = max(most, len(s.contacts.inMemory))
	}
	if most > rememberedMax {
		t.Errorf("%d hosts without work in memory, want at most %d", most, rememberedMax)
	}
	if c, _ := s.contacts.takeContact(fmt.Sprint("h", 5*rememberedMax-1), 5*rememberedMax); c.fails != 1 {
		t.Error("the last failure is forgotten")
	}
}

func TestAHostThatAsksForLongIsParked(t *testing.T) {
	s := newScheduler(0)
	h := s.host("a", 0)
	h.queue.n = 2
	s.schedule(h, 0)
	s.takeHost(0)
	h.queue.n = 1
	s.release(h, 1, true, parkAfter+10)
	if got, _ := s.takeHost(2); got != h || got.deferred == "" {
		t.Fatalf("take = %v, want the host at once, to be deferred", got)
	}
}

func TestDrainFreesEverythingThatWaits(t *testing.T) {
	for _, lines := range []int{0, 1} {
		drainFrees(t, lines)
	}
}

func drainFrees(t *testing.T, lines int) {
	s := newScheduler(1000)
	s.lines = make([]line, lines)
	a := netip.MustParseAddr("10.0.0.1")
	for i := range 6 {
		h := s.host(fmt.Sprint("h", i), 0)
		h.queue.n, h.queue.head, h.addr = 1, int64(i), a
		if i%2 == 0 {
			h.next = 1 << 40 // but not parked: set after host()
		}
		s.schedule(h, 0)
	}
	flying, _ := s.takeHost(0)
	if h, _ := s.takeHost(0); h != nil {
		t.Fatalf("%s is granted beside %s", h.name, flying.name)
	}
	s.drain()
	n := 0
	for {
		h, _ := s.takeHost(0)
		if h == nil {
			break
		}
		n++
		h.queue.n = 0
		s.release(h, 0, false, 0)
	}
	flying.queue.n = 0
	s.release(flying, 5, true, 10)
	if n != 5 || len(s.hosts) != 0 {
		t.Errorf("%d hosts freed and %d left, want 5 and 0", n, len(s.hosts))
	}
	if !heapOK(s.times) {
		t.Error("times is no heap")
	}
}

func heapOK(h timeHeap) bool {
	c := append(timeHeap(nil), h...)
	last := micros(-1 << 62)
	for c.Len() > 0 {
		e := heap.Pop(&c).(event)
		if e.at < last {
			return false
		}
		last = e.at
	}
	return true
}
