package frontier

import (
	"container/heap"
	"context"
	"encoding/binary"
	"io"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/segment"
	"mercator/pkg/fault"
)

// Politeness is what mfetch keeps between contacts, as its flags say.
type Politeness struct {
	MinDelay    time.Duration
	DelayFactor float64
	MaxDelay    time.Duration
	AddrDelay   time.Duration
	Connections int           // at least 1
	Duration    time.Duration // assumed of a contact with a host that was never contacted
}

// Plan predicts a batch.
type Plan struct {
	URLs      uint64        `json:"urls"`
	Hosts     uint64        `json:"hosts"`
	Addresses uint64        `json:"addresses"`   // among records that carry one
	Measured  uint64        `json:"measured"`    // hosts whose speed is on record
	Duration  time.Duration `json:"duration_ns"` // of the batch: simulated, or the longest of the three that follow
	ByHost    time.Duration `json:"by_host_ns"`  // the slowest host alone
	ByAddr    time.Duration `json:"by_addr_ns"`  // the slowest address alone
	ByWork    time.Duration `json:"by_work_ns"`  // all contacts, shared evenly by the connections
	// Tail is how long fewer than half of the connections are busy, at the end.
	Tail time.Duration `json:"tail_ns"`
	Slow []PlanHost    `json:"slow_hosts"` // the slowest first
	// Curve is simulated; nil for a batch of more than MaxSimulated URLs.
	Curve []Point `json:"curve,omitempty"`
}

// PlanHost is a host's part in a plan.
type PlanHost struct {
	Host     string        `json:"host"`
	URLs     uint64        `json:"urls"`
	Measured bool          `json:"measured"`
	Took     time.Duration `json:"took_ns"`
}

// slowHosts is how many hosts a plan names.
const slowHosts = 10

// maxConnections bounds the hosts that a plan holds in memory, to see the tail.
const maxConnections = 100_000

// PlanNext plans the batch that Next would take now.
func (f *Frontier) PlanNext(ctx context.Context, o NextOptions, now record.Time, p Politeness) (*Plan, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	pl, err := newPlanner(p, now)
	if err != nil {
		return nil, err
	}
	defer pl.close()
	nothing := func(*segment.Entry) error { return nil }
	batch, err := pick(ctx, f.st, s, now, o, outlets{leave: nothing, wait: nothing, take: func(e *segment.Entry, _ []byte) error { return pl.add(&e.URL) }})
	if err != nil {
		return nil, err
	}
	defer batch.close()
	return pl.plan(ctx, f.st, s.Hosts)
}

// PlanRecords plans a batch of url records that is begun at now (0: when no host has
// to wait any more). read gives them, io.EOF at the end.
func (f *Frontier) PlanRecords(ctx context.Context, read func(*record.URL) error, now record.Time, p Politeness) (*Plan, error) {
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	pl, err := newPlanner(p, now)
	if err != nil {
		return nil, err
	}
	defer pl.close()
	var t ticker
	for {
		var u record.URL
		err := read(&u)
		if err == io.EOF {
			return pl.plan(ctx, f.st, s.Hosts)
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err == nil {
			err = pl.add(&u)
		}
		if err != nil {
			return nil, err
		}
	}
}

type planner struct {
	p     Politeness
	now   record.Time
	hosts *sorter // number of the URL and its address, by host
	addrs *sorter
	urls  uint64
	buf   []byte
}

func newPlanner(p Politeness, now record.Time) (*planner, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return &planner{p: p, now: now, hosts: newSorter(smallSort), addrs: newSorter(smallSort)}, nil
}

func (p *Politeness) check() error {
	if p.Connections < 1 || p.Connections > maxConnections || p.MinDelay < 0 || p.DelayFactor < 0 || p.MaxDelay < 0 || p.AddrDelay < 0 || p.Duration < 0 {
		return &fault.Error{Class: fault.Usage, Found: "a negative delay, or connections out of range", Want: "1 to 100000 connections"}
	}
	return nil
}

func (p *planner) close() {
	p.hosts.Close()
	p.addrs.Close()
}

func (p *planner) add(u *record.URL) error {
	a := uint64(0)
	if addr, _, _ := strings.Cut(u.Addr, ","); addr != "" {
		a = hostOrder(addr)
		if err := p.addrs.add(a, nil); err != nil {
			return err
		}
	}
	p.buf = binary.AppendUvarint(p.buf[:0], p.urls)
	p.buf = binary.BigEndian.AppendUint64(p.buf, a)
	p.buf = append(p.buf, u.Host...)
	p.urls++
	return p.hosts.add(hostOrder(u.Host), p.buf)
}

// groups calls fn with each key of s and how many rows it has; each, which may be
// nil, is called with every row before.
func groups(ctx context.Context, s *sorter, each func(row []byte), fn func(key, n uint64) error) error {
	rows, err := s.sorted()
	if err != nil {
		return err
	}
	for !rows.done {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		k, n := rows.key, uint64(0)
		for !rows.done && rows.key == k {
			n++
			if each != nil {
				each(rows.row)
			}
			if err := rows.take(); err != nil {
				return err
			}
		}
		if err := fn(k, n); err != nil {
			return err
		}
	}
	return nil
}

// delay is the gap that mfetch leaves after a contact of duration d.
func (p *Politeness) delay(d time.Duration) time.Duration {
	own := max(p.MinDelay, time.Duration(p.DelayFactor*float64(d)))
	return min(own, max(p.MaxDelay, p.MinDelay))
}

// pace is how a host is to be served in a batch that begins at now; 0: at any time.
func (p *Politeness) pace(h *segment.Host, now record.Time) pace {
	out := pace{contact: p.Duration, gap: p.delay(p.Duration)}
	if h.Contacts > 0 {
		out.contact = time.Duration(h.DurationUS) * time.Microsecond
		// What the host asked for by robots.txt shows in the last gap.
		out.gap = max(p.delay(out.contact), min(time.Duration(h.DelayUS)*time.Microsecond, 5*time.Minute))
	}
	if now > 0 {
		until := h.ParkedUntil // as a server asked for, too (Retry-After)
		if h.Contacts > 0 {
			until = max(until, h.LastContact+record.Time(out.gap.Microseconds()))
		}
		out.wait = max(time.Duration(until-now)*time.Microsecond, 0)
	}
	return out
}

// robotsKeep is how long mfetch keeps robots rules.
const robotsKeep = record.Time(24 * time.Hour / time.Microsecond)

// contacts is how many contacts n URLs of a host take, and whether robots.txt is asked
// for before. Of the URLs that a host had, some may have been settled without one: what its
// robots.txt forbids, for instance. It is taken to go on like that; those that were given up
// do not count, since what kept them back (no robots.txt to be had, no address) may pass.
func (p *planner) contacts(h *segment.Host, n uint64) (pages uint64, robots bool) {
	if h.Contacts == 0 {
		return n, true
	}
	if had := h.Finished - h.Dead; h.Contacts < had {
		n = max(uint64(float64(n)*float64(h.Contacts)/float64(had)), 1)
	}
	return n, p.now-h.LastContact > robotsKeep
}

// plan adds up, and simulates. A host's n contacts take n durations and n-1 delays,
// one after the other, after what it has to be left alone.
// So a batch takes at least as long as its slowest host, its slowest address, and the
// sum of all contacts over the connections.
func (p *planner) plan(ctx context.Context, fs files, hosts []run) (*Plan, error) {
	table := openTable[segment.Host](fs, hosts)
	defer table.close()
	out := &Plan{URLs: p.urls}
	var sim *simulation
	if p.urls <= MaxSimulated {
		sim = newSimulation(p.p.Connections, p.p.AddrDelay, int(p.urls))
	}
	var work time.Duration
	var slow planHeap
	var same hostGroup
	var name []byte
	each := func(row []byte) {
		number, n := binary.Uvarint(row)
		if name = append(name[:0], row[n+8:]...); sim != nil {
			sim.add(uint32(number), binary.BigEndian.Uint64(row[n:]))
		}
	}
	err := groups(ctx, p.hosts, each, func(k, n uint64) error {
		var err error
		if same, err = table.find(k, same[:0]); err != nil {
			return err
		}
		h, err := same.host(name)
		if err != nil {
			return err
		}
		took := PlanHost{Host: h.Host, URLs: n, Measured: h.Contacts > 0}
		if took.Measured {
			out.Measured++
		}
		pace := p.p.pace(h, p.now)
		contacts, robots := p.contacts(h, n)
		if sim != nil {
			if h.Addr != "" {
				sim.address(hostOrder(h.Addr)) // where no record has one
			}
			sim.endHost(pace, int(contacts), robots)
		}
		if robots {
			contacts++
		}
		took.Took = pace.wait + time.Duration(contacts)*pace.contact + time.Duration(contacts-1)*pace.gap
		work += time.Duration(contacts) * pace.contact
		out.Hosts++
		heap.Push(&slow, took)
		if len(slow) > max(p.p.Connections, slowHosts) {
			heap.Pop(&slow)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = groups(ctx, p.addrs, nil, func(_, n uint64) error {
		out.Addresses++
		out.ByAddr = max(out.ByAddr, time.Duration(n-1)*p.p.AddrDelay)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.ByWork = work / time.Duration(p.p.Connections)
	for len(slow) > 0 {
		h := heap.Pop(&slow).(PlanHost) // the fastest that is left
		if len(slow)+1 == (p.p.Connections+1)/2 {
			out.Tail = -h.Took // from here on there are too few hosts
		}
		if len(slow) < slowHosts {
			out.Slow = append([]PlanHost{h}, out.Slow...)
		}
		out.ByHost = h.Took
	}
	if sim != nil {
		out.Duration, out.Tail, out.Curve, err = sim.run(ctx)
		return out, err
	}
	out.Duration = max(out.ByHost, out.ByAddr, out.ByWork)
	out.Tail = max(out.ByHost+out.Tail, 0)
	return out, nil
}

// planHeap holds hosts, the fastest first.
type planHeap []PlanHost

func (h planHeap) Len() int { return len(h) }
func (h planHeap) Less(i, j int) bool {
	return h[i].Took < h[j].Took || h[i].Took == h[j].Took && h[i].Host > h[j].Host
}
func (h planHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *planHeap) Push(x any)   { *h = append(*h, x.(PlanHost)) }
func (h *planHeap) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}
