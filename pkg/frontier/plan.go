package frontier

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/politeness"
)

// Plan estimates how long a batch takes, by the mean speeds that its hosts had. It takes at least as long as
// the slowest host, the slowest address, and all contacts over the connections: the longest of these is the estimate.
type Plan struct {
	URLs      uint64
	Hosts     uint64
	Addresses uint64        // addresses of the records; for hosts without one there, the address of the last contact
	Measured  uint64        // hosts with a known speed
	Duration  time.Duration // the longest of ByHost, ByAddr and ByWork
	ByHost    time.Duration // the slowest host alone
	ByAddr    time.Duration // the slowest address alone
	ByWork    time.Duration // all contacts, shared evenly by the connections
	Tail      time.Duration // time that the slowest host takes beyond ByAddr and ByWork
	Slow      []PlanHost    // the slowest first, at most ten
}

// PlanHost is a host's part in a plan.
type PlanHost struct {
	Host     string
	Scheme   string // of its URLs that wait for a time, if it does not answer and they have one, as far as PlanRest looks
	URLs     uint64
	Measured bool          // the host's speed is known
	Took     time.Duration // time from the batch's begin to the end of the host's last contact
	Failures uint64        // contacts that failed since the last success
	Since    record.Time   // of the first of them
	Until    record.Time   // when it may be contacted again
}

// slowHosts is how many hosts a plan names.
const slowHosts = 10

// PlanNext plans the batch that Next would take now, also while another one is in flight.
func (f *Frontier) PlanNext(ctx context.Context, o NextOptions, now record.Time, p Politeness) (*Plan, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return f.estimate(ctx, now, p, func(s *state, add func(*record.URL) error) error {
		nothing := func(*Entry) error { return nil }
		batch, err := pick(ctx, f.st, s, now, o, outlets{leave: nothing, wait: nothing, refuse: func(*Entry, string) error { return nil }, take: func(e *Entry, _ []byte) error { return add(&e.URL) }})
		if err == nil {
			batch.close()
		}
		return err
	})
}

// Plan plans a batch of url records that begins at now (0: when no host has to wait any more), or
// the rest of one. read reads the records, io.EOF at the end.
func (f *Frontier) Plan(ctx context.Context, read func(*record.URL) error, now record.Time, p Politeness) (*Plan, error) {
	return f.estimate(ctx, now, p, func(_ *state, add func(*record.URL) error) error { return eachRead(ctx, read, add) })
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
	if err := each(s, pl.addURL); err != nil {
		return nil, err
	}
	return pl.plan(ctx, f.st, s.Hosts)
}

type planner struct {
	p     Politeness
	now   record.Time
	hosts *sorter // by host: whether the record carries an address, and the host's name
	addrs *sorter
	work  time.Duration // of all contacts
	buf   []byte
}

func (p *planner) addURL(u *record.URL) error {
	p.buf = append(p.buf[:0], 0)
	if addr, _, _ := strings.Cut(u.Addr, ","); addr != "" {
		p.buf[0] = 1
		if p.p.connections(p.p.Of(u.Host)) == 1 { // others keep no gaps of addresses
			if err := p.addrs.addPayload(hostKey(addr), nil); err != nil {
				return err
			}
		}
	}
	p.buf = append(p.buf, u.Host...)
	return p.hosts.addPayload(hostKey(u.Host), p.buf)
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
			if err := rows.takeRow(); err != nil {
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
	if had := h.Finished - min(h.Dead, h.Finished); h.Contacts < had {
		n = max(uint64(float64(n)*float64(h.Contacts)/float64(had)), 1)
	}
	return n, p.now-h.LastContact > record.Time(cmp.Or(p.p.KeepRobots, politeness.KeepRobots).Microseconds())
}

// plan adds up. A host's n contacts take n durations and n-1 gaps, one after the
// other, after what it has to be left alone.
func (p *planner) plan(ctx context.Context, fs files, hosts []run) (*Plan, error) {
	table := openTable(fs, hosts)
	defer table.close()
	out := &Plan{}
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
		if !carried && h.Addr != "" && p.p.connections(p.p.Of(h.Host)) == 1 {
			for range n {
				if err := p.addrs.addPayload(hostKey(h.Addr), nil); err != nil {
					return err
				}
			}
		}
		carried = false
		p.host(out, h, n)
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
	p.finishPlan(out)
	return out, nil
}

// host adds n URLs of a host to a plan.
func (p *planner) host(out *Plan, h *Host, n uint64) {
	pace := p.p.pace(h, p.now)
	contacts, robots := p.contacts(h, n)
	if robots {
		contacts++
	}
	p.work = later(p.work, times(contacts, pace.contact))
	out.URLs += n
	out.Hosts++
	if h.Contacts > 0 {
		out.Measured++
	}
	out.slow(PlanHost{Host: h.Host, URLs: n, Measured: h.Contacts > 0, Took: pace.took(contacts), Failures: h.Failures, Since: h.LastContact, Until: h.ParkedUntil})
}

// finishPlan is the longest of what takes time.
func (p *planner) finishPlan(out *Plan) {
	out.ByWork = p.work / time.Duration(p.p.Connections)
	if len(out.Slow) > 0 {
		out.ByHost = out.Slow[0].Took
	}
	out.Duration = max(out.ByHost, out.ByAddr, out.ByWork)
	out.Tail = out.Duration - max(out.ByAddr, out.ByWork)
}

// Bounds of what PlanRest reads.
const (
	restHosts  = 1 << 20
	restParked = 1 << 16
)

// PlanRest plans all that is left at now as if it were one batch, from the host table alone, without a look
// at URLs. So it is a lower bound: links that will be found, times for which failed URLs wait and addresses that hosts share
// are not in it, and parked URLs neither. nil: it would say nothing, under a policy that comes back to pages or walks, or the table is too
// large to read it each round.
func (f *Frontier) PlanRest(ctx context.Context, now record.Time, p Politeness) (*Plan, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	var parkedURLs uint64
	for _, runs := range s.Parked {
		parkedURLs += rowsOf(runs)
	}
	if s.policy.endless || rowsOf(s.Hosts) > restHosts || parkedURLs > restParked {
		return nil, nil
	}
	parked := map[string]uint64{}
	for _, runs := range s.Parked {
		err := eachEntry(ctx, f.st, runs, func(e *Entry) error {
			parked[e.URL.Host]++
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	pl := planner{p: p, now: now}
	out := &Plan{}
	err = eachNewest(ctx, f.st, s.Hosts, func(h *Host) error {
		if n := h.Discovered - h.Finished - parked[h.Host]; n > 0 {
			pl.host(out, h, n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	pl.finishPlan(out)
	return out, out.addSchemes(ctx, f.st, s.Later)
}

// addSchemes looks through the first URLs that wait for the schemes of hosts that do not answer.
func (p *Plan) addSchemes(ctx context.Context, fs files, later []run) error {
	schemes := map[string]string{}
	for _, h := range p.Slow {
		if h.Failures > 1 {
			schemes[h.Host] = ""
		}
	}
	if len(schemes) == 0 {
		return nil
	}
	m := newMerger(fs, later)
	defer m.close()
	several := map[string]bool{}
	var e Entry
	for n := 0; n < restParked; n++ {
		err := m.next(&e)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if was, silent := schemes[e.URL.Host]; silent {
			scheme, _, _ := strings.Cut(e.URL.URL, ":")
			schemes[e.URL.Host], several[e.URL.Host] = scheme, several[e.URL.Host] || was != "" && was != scheme
		}
	}
	for i := range p.Slow {
		if h := &p.Slow[i]; !several[h.Host] {
			h.Scheme = schemes[h.Host]
		}
	}
	return nil
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
