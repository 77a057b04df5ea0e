package frontier

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/segment"
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

// Plan predicts a batch.
type Plan struct {
	URLs      uint64
	Hosts     uint64
	Addresses uint64        // of the records; of hosts whose records carry none, those that they were last contacted at
	Measured  uint64        // hosts whose speed is on record
	Duration  time.Duration // of the batch: simulated, or the longest of the three ByHost, ByAddr and ByWork
	Low       time.Duration // one simulated batch in ten took less,
	High      time.Duration // and one in ten more; 0: it is not simulated
	ByHost    time.Duration // the slowest host alone
	ByAddr    time.Duration // the slowest address alone
	ByWork    time.Duration // all contacts, shared evenly by the connections
	// Tail is how long fewer than half of the connections are busy, at the end.
	Tail time.Duration
	Slow []PlanHost // the slowest first
	// Curve is simulated; nil for a batch of more URLs than Frontier.Simulated.
	Curve  []Point
	Actual *Actual // what became of the batch, if that was given
}

// PlanHost is a host's part in a plan.
type PlanHost struct {
	Host     string
	URLs     uint64
	Measured bool
	Took     time.Duration
}

// slowHosts is how many hosts a plan names.
const slowHosts = 10

// maxConnections bounds the times that a plan holds in memory, to see the tail.
const maxConnections = 100_000

// maxFactor bounds the gaps, so that they stay numbers.
const maxFactor = 1_000_000

// PlanNext plans the batch that Next would take now, also while another one is in flight.
func (f *Frontier) PlanNext(ctx context.Context, o NextOptions, now record.Time, p Politeness) (*Plan, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	pl, err := f.newPlanner(p, now)
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
// to wait any more). read gives them, io.EOF at the end. actual, unless nil, is what
// became of the batch, and is told which hosts the plan missed by most.
func (f *Frontier) PlanRecords(ctx context.Context, read func(*record.URL) error, now record.Time, p Politeness, actual *Actual) (*Plan, error) {
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	pl, err := f.newPlanner(p, now)
	if err != nil {
		return nil, err
	}
	defer pl.close()
	pl.actual = actual
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
	p         Politeness
	now       record.Time
	actual    *Actual // nil: it is not known
	simulated uint64  // URLs, at most
	hosts     *sorter // number of the URL and its address, by host
	addrs     *sorter
	urls      uint64
	buf       []byte
}

func (f *Frontier) newPlanner(p Politeness, now record.Time) (*planner, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return &planner{p: p, now: now, simulated: f.Simulated(), hosts: f.layout.sorter(smallSort), addrs: f.layout.sorter(smallSort)}, nil
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

// speed is how a host was served before.
type speed struct {
	contact time.Duration // mean duration of a contact,
	spread  time.Duration // and its standard deviation
	asked   time.Duration // what the gap after it was longer than our own rules make it (Crawl-delay, Retry-After)
}

// delay is the gap that mfetch leaves after a contact of duration d, by its own rules.
func (p *Politeness) delay(d time.Duration) time.Duration {
	own := politeness.Rules{MinDelay: p.MinDelay, DelayFactor: p.DelayFactor, MaxDelay: p.MaxDelay}
	return time.Duration(own.After(d.Microseconds())) * time.Microsecond
}

// A contact's duration is taken to be log-normal: never below 0, and sometimes much above
// the mean. stretch is what the mean is multiplied by for a standard normal z, where the deviation
// is so many times the mean.
func stretch(deviation, z float64) float64 {
	square := math.Log1p(deviation * deviation)
	return math.Exp(z*math.Sqrt(square) - square/2)
}

func (v *speed) stretch(z float64) float64 {
	return stretch(float64(v.spread)/float64(v.contact), z)
}

// guessed contacts stand beside those on record, when it comes to how far these are from each other: of
// two that took as long nobody knows that all will. They are guessedSpread of the mean from it.
const (
	guessed       = 2
	guessedSpread = 0.5
)

// widen makes spread, the deviation of so many contacts from their own mean, that of a host with such contacts.
func (v *speed) widen(contacts uint64) {
	n, guess, own := float64(min(contacts, lately)), guessedSpread*float64(v.contact), float64(v.spread)
	if n > 0 {
		v.spread = time.Duration(math.Sqrt((guessed*guess*guess + n*own*own) / (guessed + n - 1)))
	}
}

// draw is the duration of a contact by chance, where the mean is so many times what it was.
func (v *speed) draw(rng *rand.Rand, factor float64) time.Duration {
	if v.spread == 0 {
		return v.contact
	}
	return time.Duration(min(float64(v.contact)*factor*v.stretch(rng.NormFloat64()), float64(longest*time.Microsecond))).Truncate(time.Microsecond)
}

// normal are the middles of 16 parts of the standard normal distribution.
var normal = func() (z [16]float64) {
	for i := range z {
		z[i] = math.Sqrt2 * math.Erfinv((2*float64(i)+1)/float64(len(z))-1)
	}
	return z
}()

// meanDelay is the mean of delay. That of the mean is another: the gaps have a least and a longest.
func (p *Politeness) meanDelay(v *speed) (mean time.Duration) {
	if v.spread == 0 {
		return p.delay(v.contact)
	}
	for _, z := range normal {
		mean += p.delay(time.Duration(min(float64(v.contact)*v.stretch(z), float64(longest*time.Microsecond)))) / time.Duration(len(normal))
	}
	return mean
}

// speed is how a host was served before, and the mean gap between two contacts.
func (p *Politeness) speed(h *segment.Host) (v speed, gap time.Duration) {
	v.contact = p.Duration
	if h.Contacts > 0 {
		v.contact = time.Duration(min(h.DurationUS, longest)) * time.Microsecond
		if h.DurationUS > 0 {
			v.spread = time.Duration(min(h.SpreadUS, longest)) * time.Microsecond
		}
	}
	gap = p.meanDelay(&v)
	if before := min(time.Duration(min(h.DelayUS, longest))*time.Microsecond, politeness.LongestGap); before > gap {
		v.asked = before - gap
		gap = before
	}
	return v, gap
}

// pace is how a host is to be served in a batch that begins at now; 0: at any time.
func (p *Politeness) pace(h *segment.Host, now record.Time) pace {
	v, gap := p.speed(h)
	out := pace{contact: v.contact, gap: gap}
	if h.Addr != "" {
		out.gap = max(out.gap, p.AddrDelay) // its own contacts are with that address too
	}
	if now > 0 {
		until := h.ParkedUntil // as a server asked for, too (Retry-After)
		if h.Contacts > 0 {
			until = max(until, h.LastContact+record.Time(out.gap.Microseconds()))
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

// times is n times d, or the longest duration there is.
func times(n uint64, d time.Duration) time.Duration {
	if d > 0 && n > uint64(math.MaxInt64/d) {
		return math.MaxInt64
	}
	return time.Duration(n) * d
}

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
	return n, p.now-h.LastContact > record.Time(politeness.KeepRobots.Microseconds())
}

// plan adds up, and simulates. A host's n contacts take n durations and n-1 delays,
// one after the other, after what it has to be left alone.
// So a batch takes at least as long as its slowest host, its slowest address, and the
// sum of all contacts over the connections.
func (p *planner) plan(ctx context.Context, fs files, hosts []run) (*Plan, error) {
	table := openTable[segment.Host](fs, hosts)
	defer table.close()
	out := &Plan{URLs: p.urls, Actual: p.actual}
	var sim *simulation
	if p.urls <= p.simulated {
		sim = newSimulation(p.p, int(p.urls))
	}
	var against *comparison
	if p.actual != nil {
		var err error
		if against, err = p.actual.compare(); err != nil {
			return nil, err
		}
		defer against.close()
	}
	var work time.Duration
	last := longestTimes{n: (p.p.Connections + 1) / 2}
	var same hostGroup
	var name []byte
	carried := false // a record of the host carries an address
	each := func(row []byte) {
		number, n := binary.Uvarint(row)
		addr := binary.BigEndian.Uint64(row[n:])
		carried = carried || addr != 0
		if name = append(name[:0], row[n+8:]...); sim != nil {
			sim.add(uint32(number), addr)
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
		if !carried && h.Addr != "" {
			for range n {
				if err := p.addrs.add(hostOrder(h.Addr), nil); err != nil {
					return err
				}
			}
		}
		carried = false
		if sim != nil {
			if h.Addr != "" {
				sim.address(hostOrder(h.Addr)) // where no record has one
			}
			v, _ := p.p.speed(h)
			v.widen(h.Contacts)
			if had := h.Finished - h.Dead; h.Contacts > 0 {
				sim.before(had, had-min(h.Contacts, had))
			}
			sim.endHost(v, pace.wait, int(contacts), robots, h.Contacts)
		}
		if robots {
			contacts++
		}
		took.Took = pace.took(contacts)
		if against != nil {
			if err := against.planned(k, h.Host, HostPart{Contacts: contacts, Contact: pace.contact, Gap: pace.gap, End: took.Took}, sim == nil); err != nil {
				return err
			}
		}
		work = later(work, times(contacts, pace.contact))
		out.Hosts++
		last.add(took.Took)
		out.slow(took)
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
	out.Tail = out.ByHost - last.shortest() // from there on there are too few hosts
	median := 0                             // of the runs
	if sim != nil {
		f, err := sim.foresee(ctx)
		if err != nil {
			return nil, err
		}
		out.Duration, out.Low, out.High, out.Tail, out.Curve = f.end, f.low, f.high, f.tail, f.curve
		median = f.number
	}
	if against == nil {
		return out, nil
	}
	if sim != nil { // once more, for what became of each host
		sim.parts = make([]simPart, len(sim.hosts))
		if _, err := sim.run(ctx, median); err != nil {
			return nil, err
		}
	}
	return out, against.finish(sim)
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

// longestTimes are the n longest of some times, at least: when there are twice as many, the others go.
type longestTimes struct {
	n   int
	all []time.Duration
}

func (l *longestTimes) add(d time.Duration) {
	if l.all = append(l.all, d); len(l.all) >= 2*l.n {
		l.cut()
	}
}

func (l *longestTimes) cut() {
	slices.SortFunc(l.all, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	l.all = l.all[:min(len(l.all), l.n)]
}

// shortest is the n-th longest; 0 if there are fewer.
func (l *longestTimes) shortest() time.Duration {
	if l.cut(); len(l.all) < l.n {
		return 0
	}
	return l.all[l.n-1]
}
