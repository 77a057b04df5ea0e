package frontier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/segment"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

func TestPlan(t *testing.T) {
	b := open(t, durable.NewCrashFS(), Params{})
	b.f.layout.sort = 1
	slow := newURL("slow.test", "first", 0)
	if err := b.add("seed", slow); err != nil {
		t.Fatal(err)
	}
	if _, err := b.next(1, NextOptions{N: 1, Txn: "r1"}); err != nil {
		t.Fatal(err)
	}
	f := fetchOf(slow, record.OutcomeFetched, 200, 1)
	f.DurationUS = 2_000_000
	var fresh []record.URL
	for i := range 10 {
		fresh = append(fresh, newURL("slow.test", fmt.Sprint(i), 0), newURL(fmt.Sprintf("h%d.test", i), "", 0))
	}
	if err := b.update("r1", 1, []record.Fetch{f}, fresh...); err != nil {
		t.Fatal(err)
	}
	p := Politeness{MinDelay: time.Second, DelayFactor: 3, MaxDelay: 5 * time.Second, AddrDelay: time.Second, Connections: 3, Duration: 100 * time.Millisecond}
	const now = record.Time(3600e6)
	plan, err := b.f.PlanNext(context.Background(), NextOptions{N: 100}, now, p)
	if err != nil {
		t.Fatal(err)
	}
	// Ten contacts of 2 s, nine gaps of 5 s (three times 2 s, cut).
	want := 10*2*time.Second + 9*5*time.Second
	about := func(d time.Duration) bool { return d > want/2 && d < 2*want } // one contact tells little of ten
	if plan.URLs != 20 || plan.Hosts != 11 || plan.Measured != 1 || plan.ByHost != want || !about(plan.Duration) || plan.Low > want || plan.High < want || plan.Slow[0].Host != "slow.test" || plan.Slow[0].URLs != 10 {
		t.Errorf("%+v", plan)
	}
	// The ten others stand before it and are asked for robots.txt, 0.1 s each over all
	// connections. A second later they are asked again, over the two that are left, until about 1.5 s.
	end := plan.Duration
	if plan.ByWork != (20*time.Second+20*100*time.Millisecond)/3 || (plan.Tail-(end-1500*time.Millisecond)).Abs() > 200*time.Millisecond {
		t.Errorf("%+v", plan)
	}
	if last, n := plan.Curve[len(plan.Curve)-1], At(plan.Curve, 3*time.Second); len(plan.Curve) != 20 || last != (Point{end, 20}) || At(plan.Curve, 0) != 0 || At(plan.Curve, end) != 20 || n < 10 || n > 12 {
		t.Errorf("%v", plan.Curve)
	}
	if again, err := b.f.PlanNext(context.Background(), NextOptions{N: 100}, now, p); err != nil || again.Duration != end {
		t.Error("planning changes something: ", again, err)
	}
	b.check()

	// Where the delay of addresses is the longer one, it holds a host up as well.
	far := p
	far.AddrDelay = 8 * time.Second
	want = 10*2*time.Second + 9*8*time.Second
	plan, err = b.f.PlanNext(context.Background(), NextOptions{N: 100}, now, far)
	if err != nil || plan.ByHost != want || plan.Slow[0].Took != want || !about(plan.Duration) || plan.Addresses != 1 || plan.ByAddr != 9*8*time.Second {
		t.Errorf("%+v %v", plan, err)
	}
	// Four fifths of a minute: five contacts and four gaps; were it not for the address, seven.
	plan, err = b.f.PlanNext(context.Background(), NextOptions{For: time.Minute, Politeness: far}, now, far)
	if err != nil || plan.Slow[0].Host != "slow.test" || plan.Slow[0].URLs != 5 {
		t.Errorf("%+v %v", plan, err)
	}

	// Records of one address wait for each other.
	i := 0
	plan, err = b.f.PlanRecords(context.Background(), func(u *record.URL) error {
		if i == len(fresh) {
			return io.EOF
		}
		*u = fresh[i]
		if u.Host == "slow.test" {
			u.Host = fmt.Sprintf("v%d.test", i)
		}
		u.Addr = "127.0.0.1,127.0.0.2"
		i++
		return nil
	}, now, p, nil)
	if err != nil || plan.Addresses != 1 || plan.ByAddr != 19*time.Second || plan.Duration < 19*time.Second {
		t.Errorf("%+v %v", plan, err)
	}
}

// The simulation against what can be told without it.
func TestSimulation(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name        string
		connections int
		addrDelay   time.Duration
		hosts       int
		urls        int // of each host
		addr        uint64
		robots      bool
		contacts    int // of each host; 0: one for each URL
		wait        time.Duration
		want        time.Duration
	}{
		{name: "one host", connections: 5, hosts: 1, urls: 10, want: 10*100*ms + 9*400*ms},
		{name: "robots.txt first", connections: 5, hosts: 1, urls: 10, robots: true, want: 11*100*ms + 10*400*ms},
		{name: "one connection", connections: 1, hosts: 10, urls: 3, want: 30 * 100 * ms},
		{name: "as many connections as hosts", connections: 10, hosts: 10, urls: 3, want: 3*100*ms + 2*400*ms},
		{name: "one address", connections: 10, addrDelay: 50 * ms, hosts: 10, urls: 1, addr: 9, want: 10*100*ms + 9*50*ms},
		{name: "a third of the URLs", connections: 5, hosts: 1, urls: 10, contacts: 3, want: 3*100*ms + 2*400*ms},
		{name: "left alone before", connections: 5, hosts: 2, urls: 2, wait: 700 * ms, want: 700*ms + 2*100*ms + 400*ms},
		{name: "no hosts", connections: 1},
	} {
		s := newSimulation(Politeness{MinDelay: 400 * ms, Connections: c.connections, AddrDelay: c.addrDelay}, c.hosts*c.urls)
		for h := range c.hosts {
			for i := range c.urls {
				s.add(uint32(i*c.hosts+h), c.addr)
			}
			s.endHost(speed{contact: 100 * ms}, c.wait, cmp.Or(c.contacts, c.urls), c.robots, 1)
		}
		f, err := s.foresee(t.Context())
		if err != nil || f.end != c.want || f.low != c.want || f.high != c.want || f.tail > f.end || len(f.curve) != c.hosts*c.urls {
			t.Errorf("%s: %+v, %v, want %v", c.name, f, err, c.want)
		}
	}
}

func TestMeasure(t *testing.T) {
	var all []record.Fetch
	for i := range 1000 {
		u := newURL("a.test", fmt.Sprint(i), 0)
		all = append(all, fetchOf(u, record.OutcomeFetched, 200, record.Time(5_000_000+i*10_000)))
	}
	all = append(all, record.Fetch{Role: record.RoleRobots, Addr: "127.0.0.1", FetchTime: 4_000_000, DurationUS: 7}, record.Fetch{Outcome: record.OutcomeDNS})
	all[7].DurationUS = 20_000_000
	i := 0
	read := func(row *record.Fetch) error {
		if i == len(all) {
			return io.EOF
		}
		*row = all[i]
		i++
		return nil
	}
	a, err := new(Frontier).Measure(context.Background(), read)
	if err != nil || a.URLs != 1000 || a.Duration != 21*time.Second+70*time.Millisecond || len(a.Curve) != curvePoints {
		t.Fatal(a, err)
	}
	if n := At(a.Curve, 6*time.Second); n < 495 || n > 505 {
		t.Errorf("%d done after 6 s, want about half", n)
	}
	all = all[1001:]
	i = 0
	if _, err := new(Frontier).Measure(context.Background(), read); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
}

// No time that is told of a batch is negative, or before another one, whatever its records say.
func TestMeasureOfLongTimes(t *testing.T) {
	for _, starts := range [][]record.Time{{1, math.MaxInt64, 5}, {1, 1 << 62, 1 << 61}, {5, 6, 7}} {
		want := times(uint64(slices.Max(starts)-starts[0]), time.Microsecond)
		a, err := new(Frontier).Measure(t.Context(), func(row *record.Fetch) error {
			if len(starts) == 0 {
				return io.EOF
			}
			*row = fetchOf(newURL("a.test", "", 0), record.OutcomeFetched, 200, starts[0])
			row.DurationUS, starts = math.MaxInt64, starts[1:]
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		c, err := a.compare()
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		if err := c.finish(nil); err != nil {
			t.Fatal(err)
		}
		host := a.Hosts[0].Actual
		if a.Duration < time.Hour || a.Duration < want || host.End != a.Duration || host.Gap < 0 || host.Contact != time.Hour {
			t.Errorf("%v, %+v", a.Duration, host)
		}
		for i, p := range a.Curve {
			if p.At < time.Hour || i > 0 && p.At < a.Curve[i-1].At {
				t.Errorf("%v", a.Curve)
			}
		}
	}
}

// A host is asked for robots.txt first if it was never contacted, or not for a day; and what part of its
// URLs needed a contact before does now.
func TestContacts(t *testing.T) {
	const day = record.Time(24 * 3600e6)
	p := planner{now: 10 * day}
	for _, c := range []struct {
		host   segment.Host
		pages  uint64
		robots bool
	}{
		{segment.Host{}, 100, true},
		{segment.Host{Contacts: 20, Finished: 20, LastContact: 9 * day}, 100, false},
		{segment.Host{Contacts: 20, Finished: 20, LastContact: 9*day - 1}, 100, true},
		{segment.Host{Contacts: 10, Finished: 50, Dead: 10, LastContact: 10 * day}, 25, false},
		{segment.Host{Contacts: 1, Finished: 1000, LastContact: 10 * day}, 1, false},
		{segment.Host{Contacts: 1, Finished: 10, Dead: 10, LastContact: 10 * day}, 100, false},
	} {
		if pages, robots := p.contacts(&c.host, 100); pages != c.pages || robots != c.robots {
			t.Errorf("%+v: %d pages, robots.txt %v, want %d, %v", c.host, pages, robots, c.pages, c.robots)
		}
	}
}

// TestSpeeds holds what the host table keeps of durations against mean and deviation
// of all of them, and against those of another speed, which are forgotten.
func TestSpeeds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h segment.Host
	var sum, squares float64
	for n := 1.0; n <= lately; n++ {
		d := 200_000 + rng.Float64()*1_800_000
		sum, squares = sum+d, squares+d*d
		absorb(&h, &segment.Host{Contacts: 1, DurationUS: uint64(d), DelayUS: uint64(2 * d)})
		mean := sum / n
		spread := math.Sqrt(squares/n - mean*mean)
		if math.Abs(float64(h.DurationUS)-mean) > n || math.Abs(float64(h.SpreadUS)-spread) > n+4 || math.Abs(float64(h.DelayUS)-2*mean) > 2*n {
			t.Fatalf("after %v contacts %d ± %d, gap %d; want %.0f ± %.0f", n, h.DurationUS, h.SpreadUS, h.DelayUS, mean, spread)
		}
	}
	for range 10 * lately {
		absorb(&h, &segment.Host{Contacts: 1, DurationUS: 10_000, DelayUS: 1_000_000})
	}
	if h.DurationUS > 10_100 || h.SpreadUS > 20_000 || h.DelayUS > 1_000_100 {
		t.Errorf("%d ± %d, gap %d, want 10000 and a gap of 1000000", h.DurationUS, h.SpreadUS, h.DelayUS)
	}
	h = segment.Host{}
	for range 200 { // whatever a record says
		absorb(&h, &segment.Host{Contacts: 1, DurationUS: math.MaxUint64, DelayUS: math.MaxUint64})
		absorb(&h, &segment.Host{Contacts: 1})
	}
	if h.DurationUS > longest || h.SpreadUS > longest {
		t.Errorf("%d ± %d", h.DurationUS, h.SpreadUS)
	}
}

// Durations by chance have the mean and deviation that were measured, and gaps the mean that their rules give.
func TestDraws(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := Politeness{MinDelay: time.Second, DelayFactor: 2, MaxDelay: 3 * time.Second}
	for _, v := range []speed{{contact: time.Second, spread: time.Second / 2}, {contact: 300 * time.Millisecond, spread: 400 * time.Millisecond}, {contact: time.Second}} {
		const n = 200_000
		var sum, squares, gaps float64
		for range n {
			d := v.draw(rng, 1)
			sum, squares, gaps = sum+d.Seconds(), squares+d.Seconds()*d.Seconds(), gaps+p.delay(d).Seconds()
		}
		mean := sum / n
		spread := math.Sqrt(max(squares/n-mean*mean, 0))
		if math.Abs(mean/v.contact.Seconds()-1) > 0.02 || math.Abs(spread-v.spread.Seconds()) > 0.05*v.contact.Seconds() || math.Abs(gaps/n/p.meanDelay(&v).Seconds()-1) > 0.02 {
			t.Errorf("%+v: %.3f s ± %.3f, gaps of %.3f s and not %v", v, mean, spread, gaps/n, p.meanDelay(&v))
		}
	}
	// What a host asked for is what its gaps were longer than that.
	h := segment.Host{Contacts: 9, DurationUS: 1_000_000, SpreadUS: 500_000, DelayUS: 4_000_000}
	if v, gap := p.speed(&h); gap != 4*time.Second || v.asked+p.meanDelay(&v) != gap {
		t.Errorf("%+v, gap %v", v, gap)
	}
	h.DelayUS = 1_000_000
	if v, gap := p.speed(&h); v.asked != 0 || gap != p.meanDelay(&v) {
		t.Errorf("%+v, gap %v", v, gap)
	}
}

// With many hosts of one speed the batch takes longer than each of them on the mean, since
// one of them has bad luck; and the more is known of them, the less it may miss.
func TestSimulationByChance(t *testing.T) {
	run := func(hosts int, known uint64) forecast {
		s := newSimulation(Politeness{MinDelay: time.Second, Connections: hosts}, 50*hosts)
		for h := range hosts {
			for i := range 50 {
				s.add(uint32(i*hosts+h), 0)
			}
			s.endHost(speed{contact: time.Second, spread: time.Second / 2}, 0, 50, false, known)
		}
		f, err := s.foresee(t.Context())
		if again, _ := s.foresee(t.Context()); err != nil || again.end != f.end || again.low != f.low || again.high != f.high {
			t.Error("two simulations of one batch differ: ", f, again, err)
		}
		var ends []time.Duration
		for i := range s.runs() {
			r, err := s.run(t.Context(), i)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, r.end)
		}
		slices.Sort(ends)
		if out := len(ends) / 10; f.low != ends[out] || f.high != ends[len(ends)-1-out] || f.end != ends[len(ends)/2] {
			t.Errorf("%v, %v, %v are not the tenths and the median of %v", f.low, f.end, f.high, ends)
		}
		if last := f.curve[len(f.curve)-1]; last != (Point{f.end, uint64(50 * hosts)}) || f.low >= f.end || f.end >= f.high {
			t.Errorf("%v to %v, the median %v, the curve ends with %v", f.low, f.high, f.end, last)
		}
		return f
	}
	const alone = 99 * time.Second // 50 contacts and 49 gaps; ± 3.5 s
	one, many, unknown := run(1, lately), run(40, lately), run(1, 4)
	if (one.end-alone).Abs() > 3*time.Second || many.end < alone+5*time.Second || many.end > alone+20*time.Second {
		t.Errorf("one host takes %v, the last of forty %v", one.end, many.end)
	}
	if unknown.high-unknown.low < 2*(one.high-one.low) {
		t.Errorf("known from 4 contacts %v to %v, from %d %v to %v", unknown.low, unknown.high, lately, one.low, one.high)
	}
}

// No sum of durations overflows, whatever flags and records say.
func TestPlanOfLongTimes(t *testing.T) {
	p := Politeness{MinDelay: math.MaxInt64, DelayFactor: 1e6, MaxDelay: math.MaxInt64, AddrDelay: math.MaxInt64, Connections: 1}
	h := segment.Host{Contacts: 1, DurationUS: math.MaxUint64, SpreadUS: math.MaxUint64, DelayUS: math.MaxUint64}
	v, _ := p.speed(&h)
	s := newSimulation(p, 9)
	for i := range 9 {
		s.add(uint32(i), 7)
	}
	s.endHost(v, 0, 9, true, 1)
	f, err := s.foresee(t.Context())
	if took := p.pace(&h, 0).took(1 << 60); err != nil || took != math.MaxInt64 || f.low < time.Duration(math.MaxInt64)/2 {
		t.Errorf("%v alone, %+v %v", took, f, err)
	}
	h.ParkedUntil = math.MaxInt64
	if wait := p.pace(&h, 1).wait; wait < 100*365*24*time.Hour {
		t.Errorf("a host that is parked for good waits %v", wait)
	}
}

// Hosts are held against their plans although some are in one of both alone.
func TestComparison(t *testing.T) {
	var rows []record.Fetch
	for _, host := range []string{"as-planned.test", "late.test", "elsewhere.test"} {
		for i := range 3 {
			f := fetchOf(newURL(host, fmt.Sprint(i), 0), record.OutcomeFetched, 200, record.Time(1_000_000*(1+3*i)))
			f.DurationUS = 1_000_000
			rows = append(rows, f)
		}
	}
	rows[5].FetchTime += 5_000_000
	a, err := new(Frontier).Measure(t.Context(), func(row *record.Fetch) error {
		if len(rows) == 0 {
			return io.EOF
		}
		*row, rows = rows[0], rows[1:]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	c, err := a.compare()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	hosts := []string{"as-planned.test", "late.test", "never.test"}
	slices.SortFunc(hosts, func(a, b string) int { return cmp.Compare(hostOrder(a), hostOrder(b)) })
	plan := HostPart{Contacts: 3, Contact: time.Second, Gap: 2 * time.Second, End: 7 * time.Second}
	for _, host := range hosts {
		if err := c.planned(hostOrder(host), host, plan, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.finish(nil); err != nil {
		t.Fatal(err)
	}
	late := plan
	late.End, late.Gap = 12*time.Second, 4500*time.Millisecond
	want := []Difference{{"elsewhere.test", HostPart{}, plan}, {"never.test", plan, HostPart{}}, {"late.test", plan, late}}
	if !slices.Equal(a.Hosts, want) {
		t.Errorf("%+v, want %+v", a.Hosts, want)
	}
}
