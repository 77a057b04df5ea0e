package frontier

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fault"
	"mercator/pkg/politeness"
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

// Plan estimates how long a batch takes, by the mean speeds that its hosts had. It takes at least as long as
// the slowest host, the slowest address, and all contacts over the connections: the longest of these is the estimate.
type Plan struct {
	URLs      uint64
	Hosts     uint64
	Addresses uint64        // of the records; of hosts whose records carry none, those that they were last contacted at
	Measured  uint64        // hosts whose speed is on record
	Duration  time.Duration // the longest of ByHost, ByAddr and ByWork
	ByHost    time.Duration // the slowest host alone
	ByAddr    time.Duration // the slowest address alone
	ByWork    time.Duration // all contacts, shared evenly by the connections
	Tail      time.Duration // by how much the slowest host is longer than ByAddr and ByWork
	Slow      []PlanHost    // the slowest first, at most ten
}

// PlanHost is a host's part in a plan.
type PlanHost struct {
	Host     string
	URLs     uint64
	Measured bool          // its speed is on record
	Took     time.Duration // from the batch's begin to the end of its last contact
}

// slowHosts is how many hosts a plan names.
const slowHosts = 10

const (
	maxConnections = 100_000
	maxFactor      = 1_000_000 // bounds the gaps, so that they stay numbers
)

// PlanNext plans the batch that Next would take now, also while another one is in flight.
func (f *Frontier) PlanNext(ctx context.Context, o NextOptions, now record.Time, p Politeness) (*Plan, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return f.estimate(ctx, now, p, func(s *state, add func(*record.URL) error) error {
		nothing := func(*Entry) error { return nil }
		batch, err := pick(ctx, f.st, s, now, o, outlets{leave: nothing, wait: nothing, take: func(e *Entry, _ []byte) error { return add(&e.URL) }})
		if err == nil {
			batch.close()
		}
		return err
	})
}

// Plan plans a batch of url records that is begun at now (0: when no host has to wait any more), or
// what is left of one. read gives them, io.EOF at the end.
func (f *Frontier) Plan(ctx context.Context, read func(*record.URL) error, now record.Time, p Politeness) (*Plan, error) {
	return f.estimate(ctx, now, p, func(_ *state, add func(*record.URL) error) error {
		var t ticker
		for {
			var u record.URL
			err := read(&u)
			if err == io.EOF {
				return nil
			}
			if err == nil {
				err = t.err(ctx)
			}
			if err == nil {
				err = add(&u)
			}
			if err != nil {
				return err
			}
		}
	})
}

func (f *Frontier) estimate(ctx context.Context, now record.Time, p Politeness, each func(s *state, add func(*record.URL) error) error) (*Plan, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	pl := planner{p: p, now: now, hosts: f.layout.sorter(smallSort), addrs: f.layout.sorter(smallSort)}
	defer pl.hosts.Close()
	defer pl.addrs.Close()
	if err := each(s, pl.add); err != nil {
		return nil, err
	}
	return pl.plan(ctx, f.st, s.Hosts)
}

// Check refuses what mfetch refuses, too.
func (p Politeness) Check() error {
	wrong := func(found, want string) error { return &fault.Error{Class: fault.Usage, Found: found, Want: want} }
	if p.Duration > longest*time.Microsecond {
		return wrong(fmt.Sprintf("contacts of %v", p.Duration), fmt.Sprintf("at most %v", longest*time.Microsecond))
	}
	for _, d := range []time.Duration{p.MinDelay, p.MaxDelay, p.AddrDelay, p.Duration} {
		if d < 0 {
			return wrong(fmt.Sprintf("a delay of %v", d), "0s or more")
		}
	}
	switch {
	case !(p.DelayFactor >= 0 && p.DelayFactor <= maxFactor):
		return wrong(fmt.Sprintf("a gap of %v times a contact", p.DelayFactor), fmt.Sprintf("0 to %d", maxFactor))
	case p.Connections < 1 || p.Connections > maxConnections:
		return wrong(fmt.Sprintf("%d connections", p.Connections), fmt.Sprintf("1 to %d", maxConnections))
	}
	return nil
}

// normal are the middles of 16 parts of the standard normal distribution.
var normal = func() (z [16]float64) {
	for i := range z {
		z[i] = math.Sqrt2 * math.Erfinv((2*float64(i)+1)/float64(len(z))-1)
	}
	return z
}()

// meanDelay is the mean of the gaps that mfetch leaves by its own rules after contacts of a mean duration and
// deviation, which are taken to be log-normal. The gap after the mean is another: the gaps have a least and a longest.
func (p *Politeness) meanDelay(contact, spread time.Duration) (mean time.Duration) {
	own := politeness.Rules{MinDelay: p.MinDelay, DelayFactor: p.DelayFactor, MaxDelay: p.MaxDelay}
	delay := func(d time.Duration) time.Duration {
		return time.Duration(own.After(d.Microseconds())) * time.Microsecond
	}
	if contact == 0 || spread == 0 {
		return delay(contact)
	}
	square := math.Log1p(math.Pow(float64(spread)/float64(contact), 2))
	for _, z := range normal {
		d := float64(contact) * math.Exp(z*math.Sqrt(square)-square/2)
		mean += delay(time.Duration(min(d, float64(longest*time.Microsecond)))) / time.Duration(len(normal))
	}
	return mean
}

// pace is how a host is served: how long a contact takes, the gap after it, and the
// time from the batch's begin to the first contact.
type pace struct{ contact, gap, wait time.Duration }

// pace is how a host is to be served in a batch that begins at now; 0: at any time.
func (p *Politeness) pace(h *Host, now record.Time) pace {
	out, spread := pace{contact: p.Duration}, time.Duration(0)
	if h.Contacts > 0 {
		out.contact = time.Duration(min(h.DurationUS, longest)) * time.Microsecond
		spread = time.Duration(min(h.SpreadUS, longest)) * time.Microsecond
	}
	out.gap = p.meanDelay(out.contact, spread)
	// Before, it may have been longer: Crawl-delay, Retry-After.
	out.gap = max(out.gap, min(time.Duration(min(h.DelayUS, longest))*time.Microsecond, politeness.LongestGap))
	if h.Addr != "" {
		out.gap = max(out.gap, p.AddrDelay) // its own contacts are with that address too
	}
	if now > 0 {
		until := h.ParkedUntil // as a server asked for, too (Retry-After)
		if h.Contacts > 0 {
			until = max(until, min(h.LastContact, now)+record.Time(out.gap.Microseconds()))
		}
		out.wait = times(uint64(max(until-now, 0)), time.Microsecond)
	}
	return out
}

// took is how long n contacts take, from the batch's begin.
func (p pace) took(n uint64) time.Duration {
	if n == 0 {
		return p.wait
	}
	return later(p.wait, later(times(n, p.contact), times(n-1, p.gap)))
}

// latest is when the first of n contacts with a host must begin, so that all have
// ended after a time.
func (p pace) latest(n int, end time.Duration) time.Duration {
	return max(end-times(uint64(n), later(p.contact, p.gap)), 0)
}

// times is n times d, or the longest duration there is.
func times(n uint64, d time.Duration) time.Duration {
	if d > 0 && n > uint64(math.MaxInt64/d) {
		return math.MaxInt64
	}
	return time.Duration(n) * d
}

// later is a sum of durations, none of them negative: the longest there is, if it is longer.
func later(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

type planner struct {
	p     Politeness
	now   record.Time
	hosts *sorter // by host: whether the record carries an address, and the host's name
	addrs *sorter
	urls  uint64
	buf   []byte
}

func (p *planner) add(u *record.URL) error {
	p.urls++
	p.buf = append(p.buf[:0], 0)
	if addr, _, _ := strings.Cut(u.Addr, ","); addr != "" {
		p.buf[0] = 1
		if err := p.addrs.add(hostKey(addr), nil); err != nil {
			return err
		}
	}
	p.buf = append(p.buf, u.Host...)
	return p.hosts.add(hostKey(u.Host), p.buf)
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

// contacts is how many contacts n URLs of a host take, and whether robots.txt is asked
// for before. Of the URLs that a host had, some may have been settled without one: what its
// robots.txt forbids, for instance. It is taken to go on like that; those that were given up
// do not count, since what kept them back (no robots.txt to be had, no address) may pass.
func (p *planner) contacts(h *Host, n uint64) (pages uint64, robots bool) {
	if h.Contacts == 0 {
		return n, true
	}
	if had := h.Finished - h.Dead; h.Contacts < had {
		n = max(uint64(float64(n)*float64(h.Contacts)/float64(had)), 1)
	}
	return n, p.now-h.LastContact > record.Time(politeness.KeepRobots.Microseconds())
}

// plan adds up. A host's n contacts take n durations and n-1 gaps, one after the
// other, after what it has to be left alone.
func (p *planner) plan(ctx context.Context, fs files, hosts []run) (*Plan, error) {
	table := openTable(fs, hosts)
	defer table.close()
	out := &Plan{URLs: p.urls}
	var work time.Duration
	var same hostGroup
	var name []byte
	carried := false // a record of the host carries an address
	each := func(row []byte) {
		carried = carried || row[0] == 1
		name = append(name[:0], row[1:]...)
	}
	err := groups(ctx, p.hosts, each, func(k, n uint64) error {
		var err error
		if same, err = find(table, k, same[:0]); err != nil {
			return err
		}
		h, err := same.host(name)
		if err != nil {
			return err
		}
		if !carried && h.Addr != "" {
			for range n {
				if err := p.addrs.add(hostKey(h.Addr), nil); err != nil {
					return err
				}
			}
		}
		carried = false
		pace := p.p.pace(h, p.now)
		contacts, robots := p.contacts(h, n)
		if robots {
			contacts++
		}
		work = later(work, times(contacts, pace.contact))
		out.Hosts++
		if h.Contacts > 0 {
			out.Measured++
		}
		out.slow(PlanHost{Host: h.Host, URLs: n, Measured: h.Contacts > 0, Took: pace.took(contacts)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = groups(ctx, p.addrs, nil, func(_, n uint64) error {
		out.Addresses++
		out.ByAddr = max(out.ByAddr, times(n-1, p.p.AddrDelay))
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.ByWork = work / time.Duration(p.p.Connections)
	if len(out.Slow) > 0 {
		out.ByHost = out.Slow[0].Took
	}
	out.Duration = max(out.ByHost, out.ByAddr, out.ByWork)
	out.Tail = out.Duration - max(out.ByAddr, out.ByWork)
	return out, nil
}

// slow keeps a host, if it is one of the slowest.
func (p *Plan) slow(h PlanHost) {
	slower := func(x, y PlanHost) int { return cmp.Or(cmp.Compare(y.Took, x.Took), cmp.Compare(x.Host, y.Host)) }
	at, _ := slices.BinarySearchFunc(p.Slow, h, slower)
	if at < slowHosts {
		p.Slow = slices.Insert(p.Slow, at, h)
		p.Slow = p.Slow[:min(len(p.Slow), slowHosts)]
	}
}

// MarshalJSON has the times in microseconds, as records have them.
func (p *Plan) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		URLs      uint64     `json:"urls"`
		Hosts     uint64     `json:"hosts"`
		Addresses uint64     `json:"addresses"`
		Measured  uint64     `json:"measured"`
		Duration  int64      `json:"duration_us"`
		ByHost    int64      `json:"by_host_us"`
		ByAddr    int64      `json:"by_addr_us"`
		ByWork    int64      `json:"by_work_us"`
		Tail      int64      `json:"tail_us"`
		Slow      []PlanHost `json:"slow_hosts"`
	}{p.URLs, p.Hosts, p.Addresses, p.Measured, p.Duration.Microseconds(), p.ByHost.Microseconds(), p.ByAddr.Microseconds(), p.ByWork.Microseconds(), p.Tail.Microseconds(), append([]PlanHost{}, p.Slow...)})
}

// MarshalJSON shows it as Plan's.
func (h PlanHost) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Host     string `json:"host"`
		URLs     uint64 `json:"urls"`
		Measured bool   `json:"measured"`
		Took     int64  `json:"took_us"`
	}{h.Host, h.URLs, h.Measured, h.Took.Microseconds()})
}
