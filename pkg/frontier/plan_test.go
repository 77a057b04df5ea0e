package frontier

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
)

func TestPlan(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	b.f.layout.sort = 1
	slow := newURL("slow.test", "first", 0)
	must.OK(t, b.add("seed", slow))
	_, err := b.next(1, NextOptions{N: 1, Txn: "r1"})
	must.OK(t, err)
	f := fetchOf(slow, record.OutcomeFetched, 200, 1)
	f.DurationUS = 2_000_000
	var fresh []record.URL
	for i := range 10 {
		fresh = append(fresh, newURL("slow.test", fmt.Sprint(i), 0), newURL(fmt.Sprintf("h%d.test", i), "", 0))
	}
	must.OK(t, b.update("r1", 1, []record.Fetch{f}, fresh...))
	p := Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second, DelayFactor: 3, MaxDelay: 5 * time.Second}}, AddrDelay: time.Second, Connections: 3, Duration: 100 * time.Millisecond}
	const now = record.Time(3600e6)
	plan, err := b.f.PlanNext(context.Background(), NextOptions{N: 100}, now, p)
	must.OK(t, err)
	// Ten contacts of 2 s, nine gaps of 5 s (three times 2 s, cut).
	want := 10*2*time.Second + 9*5*time.Second
	if plan.URLs != 20 || plan.Hosts != 11 || plan.Measured != 1 || plan.ByHost != want || plan.Duration != want || plan.Slow[0].Host != "slow.test" || plan.Slow[0].URLs != 10 || len(plan.Slow) != slowHosts {
		t.Errorf("%+v", plan)
	}
	// The ten others are asked for robots.txt first, 0.1 s each. slow.test alone has an address.
	if work := (20*time.Second + 20*100*time.Millisecond) / 3; plan.ByWork != work || plan.ByAddr != 9*time.Second || plan.Tail != want-9*time.Second {
		t.Errorf("%+v", plan)
	}
	end := plan.Duration
	if again, err := b.f.PlanNext(context.Background(), NextOptions{N: 100}, now, p); err != nil || again.Duration != end {
		t.Error("planning changes something: ", again, err)
	}
	b.check()

	// Its robots.txt does not hold for an hour any more: one contact and one gap more.
	old := p
	old.KeepRobots = time.Minute
	if plan, err = b.f.PlanNext(context.Background(), NextOptions{N: 100}, now, old); err != nil || plan.ByHost != want+7*time.Second {
		t.Errorf("%+v %v", plan, err)
	}

	// Where the delay of addresses is the longer one, it holds a host up as well.
	far := p
	far.AddrDelay = 8 * time.Second
	want = 10*2*time.Second + 9*8*time.Second
	plan, err = b.f.PlanNext(context.Background(), NextOptions{N: 100}, now, far)
	if err != nil || plan.ByHost != want || plan.Slow[0].Took != want || plan.Duration != want || plan.Addresses != 1 || plan.ByAddr != 9*8*time.Second {
		t.Errorf("%+v %v", plan, err)
	}
	// Four fifths of a minute: five contacts and four gaps; were it not for the address, seven.
	plan, err = b.f.PlanNext(context.Background(), NextOptions{For: time.Minute, Politeness: far}, now, far)
	if err != nil || plan.Slow[0].Host != "slow.test" || plan.Slow[0].URLs != 5 {
		t.Errorf("%+v %v", plan, err)
	}

	// Right after its last contact, which took 2 s, the host is left alone for the gap.
	one := true
	plan, err = b.f.Plan(context.Background(), func(u *record.URL) error {
		if !one {
			return io.EOF
		}
		*u, one = newURL("slow.test", "again", 0), false
		return nil
	}, 2_000_001, p)
	if err != nil || plan.Duration != 5*time.Second+2*time.Second {
		t.Errorf("%+v %v", plan, err)
	}

	// Records of one address wait for each other.
	i := 0
	plan, err = b.f.Plan(context.Background(), func(u *record.URL) error {
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
	}, now, p)
	if err != nil || plan.Addresses != 1 || plan.ByAddr != 19*time.Second || plan.Duration < 19*time.Second {
		t.Errorf("%+v %v", plan, err)
	}
}

func TestContacts(t *testing.T) {
	const day = record.Time(24 * 3600e6)
	p := planner{now: 10 * day}
	for _, c := range []struct {
		host   Host
		pages  uint64
		robots bool
	}{
		{Host{}, 100, true},
		{Host{Contacts: 20, Finished: 20, LastContact: 9 * day}, 100, false},
		{Host{Contacts: 20, Finished: 20, LastContact: 9*day - 1}, 100, true},
		{Host{Contacts: 10, Finished: 50, Dead: 10, LastContact: 10 * day}, 25, false},
		{Host{Contacts: 1, Finished: 1000, LastContact: 10 * day}, 1, false},
		{Host{Contacts: 1, Finished: 10, Dead: 10, LastContact: 10 * day}, 100, false},
	} {
		if pages, robots := p.contacts(&c.host, 100); pages != c.pages || robots != c.robots {
			t.Errorf("%+v: %d pages, robots.txt %v, want %d, %v", c.host, pages, robots, c.pages, c.robots)
		}
	}
}

// TestSpeeds holds what the host table keeps of durations against mean and deviation
// of all of them, and against durations of another speed, which are forgotten.
func TestSpeeds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h Host
	var sum, squares float64
	for n := 1.0; n <= lately; n++ {
		d := 200_000 + rng.Float64()*1_800_000
		sum, squares = sum+d, squares+d*d
		absorb(&h, &Host{Contacts: 1, DurationUS: uint64(d), DelayUS: uint64(2 * d)})
		mean := sum / n
		spread := math.Sqrt(squares/n - mean*mean)
		if math.Abs(float64(h.DurationUS)-mean) > n || math.Abs(float64(h.SpreadUS)-spread) > n+4 || math.Abs(float64(h.DelayUS)-2*mean) > 2*n {
			t.Fatalf("after %v contacts %d ± %d, gap %d; want %.0f ± %.0f", n, h.DurationUS, h.SpreadUS, h.DelayUS, mean, spread)
		}
	}
	for range 10 * lately {
		absorb(&h, &Host{Contacts: 1, DurationUS: 10_000, DelayUS: 1_000_000})
	}
	if h.DurationUS > 10_100 || h.SpreadUS > 20_000 || h.DelayUS > 1_000_100 {
		t.Errorf("%d ± %d, gap %d, want 10000 and a gap of 1000000", h.DurationUS, h.SpreadUS, h.DelayUS)
	}
	h = Host{}
	for range 200 { // whatever a record says
		absorb(&h, &Host{Contacts: 1, DurationUS: math.MaxUint64, DelayUS: math.MaxUint64})
		absorb(&h, &Host{Contacts: 1})
	}
	if h.DurationUS > longest || h.SpreadUS > longest {
		t.Errorf("%d ± %d", h.DurationUS, h.SpreadUS)
	}
}

func TestPlanOfLongTimes(t *testing.T) {
	p := Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: math.MaxInt64, DelayFactor: 1e6, MaxDelay: math.MaxInt64}}, AddrDelay: math.MaxInt64, Connections: 1}
	h := Host{Contacts: 1, DurationUS: math.MaxUint64, SpreadUS: math.MaxUint64, DelayUS: math.MaxUint64}
	if took := p.pace(&h, 0).took(1 << 60); took != math.MaxInt64 {
		t.Errorf("%v alone", took)
	}
	if at := p.pace(&h, 0).latest(1<<60, time.Hour); at != 0 {
		t.Errorf("the first of very many contacts at %v", at)
	}
	h.ParkedUntil = math.MaxInt64
	if wait := p.pace(&h, 1).wait; wait < 100*365*24*time.Hour {
		t.Errorf("a host that is parked for good waits %v", wait)
	}
}

// A host is asked as often as its own gaps, or those on record, allow.
func TestPace(t *testing.T) {
	p := Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second, DelayFactor: 2, MaxDelay: 3 * time.Second}}, Connections: 1, Duration: time.Second / 4}
	for _, c := range []struct {
		host         Host
		contact, gap time.Duration
	}{
		{Host{}, time.Second / 4, time.Second},
		{Host{Contacts: 9, DurationUS: 1_000_000, DelayUS: 1_000_000}, time.Second, 2 * time.Second},
		{Host{Contacts: 9, DurationUS: 1_000_000, DelayUS: 4_000_000}, time.Second, 4 * time.Second},
		{Host{Contacts: 9, DurationUS: 9_000_000}, 9 * time.Second, 3 * time.Second},
	} {
		t.Run(fmt.Sprint(c.contact, " ", c.gap), func(t *testing.T) {
			if got := p.pace(&c.host, 0); got.contact != c.contact || got.gap != c.gap {
				t.Errorf("%+v: %+v, want %v and %v", c.host, got, c.contact, c.gap)
			}
		})
	}
}

// The mean of the gaps is the mean of gaps after random contacts with the same mean and deviation.
func TestMeanDelay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second, DelayFactor: 2, MaxDelay: 3 * time.Second}}}
	for _, c := range [][2]time.Duration{{time.Second, time.Second / 2}, {300 * time.Millisecond, 400 * time.Millisecond}, {time.Second, 0}} {
		const n = 200_000
		square := math.Log1p(math.Pow(c[1].Seconds()/c[0].Seconds(), 2))
		gaps := 0.0
		for range n {
			d := c[0].Seconds() * math.Exp(rng.NormFloat64()*math.Sqrt(square)-square/2)
			gaps += min(max(1, 2*d), 3)
		}
		if got := meanDelay(p.Rules, c[0], c[1]).Seconds(); math.Abs(gaps/n/got-1) > 0.02 {
			t.Errorf("%v: gaps of %.3f s and not %.3f", c, gaps/n, got)
		}
	}
}

// TestPaceOfHosts: hosts may have other delays than the rest.
func TestPaceOfHosts(t *testing.T) {
	p := Politeness{Connections: 3, Duration: time.Second, Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second}, Hosts: func(host string, r *politeness.Rules) {
		if host == "slow.test" {
			r.MinDelay = 9 * time.Second
		}
	}}}
	for host, want := range map[string]time.Duration{"slow.test": 3*time.Second + 2*9*time.Second, "other.test": 3*time.Second + 2*time.Second} {
		t.Run(host, func(t *testing.T) {
			h := p.pace(&Host{Host: host}, 0)
			if got := h.took(3); got != want {
				t.Errorf("three contacts take %v, want %v", got, want)
			}
		})
	}
}

// TestPlanRest: what is left altogether, by hosts alone; parked URLs are not waited for.
func TestPlanRest(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	var all []record.URL
	for i := range 20 {
		all = append(all, newURL("big.test", fmt.Sprint(i), 0))
	}
	all = append(all, newURL("small.test", "", 0), newURL("inside.test", "1", 0), newURL("inside.test", "2", 0))
	must.OK(t, b.add("seed", all...))
	p := Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second, DelayFactor: 10, MaxDelay: time.Minute}}, Connections: 2, Duration: 50 * time.Millisecond}
	rest := func(want time.Duration, urls, hosts uint64) {
		t.Helper()
		plan, err := b.f.PlanRest(context.Background(), 3600e6, p)
		if err != nil || plan.Duration != want || plan.URLs != urls || plan.Hosts != hosts || plan.Slow[0].Host != "big.test" {
			t.Errorf("%+v, %v; want %v for %d URLs on %d hosts", plan, err, want, urls, hosts)
		}
	}
	rest(21*50*time.Millisecond+20*time.Second, 23, 3) // robots.txt too
	batch, err := b.next(1, NextOptions{N: 100, Txn: "r1"})
	must.OK(t, err)
	rest(21*50*time.Millisecond+20*time.Second, 23, 3) // also while they are in flight
	var outcomes []record.Fetch
	for i, u := range batch {
		switch {
		case u.Host == "inside.test":
			outcomes = append(outcomes, fetchOf(u, record.OutcomeAddress, 0, 1))
		case u.Host == "big.test" && i%2 == 0:
			outcomes = append(outcomes, fetchOf(u, record.OutcomeDeferred, 0, 1))
		default:
			outcomes = append(outcomes, fetchOf(u, record.OutcomeRobotsDenied, 0, 1))
		}
	}
	must.OK(t, b.update("r1", 1, outcomes))
	st, err := b.f.Stat(context.Background(), StatOptions{})
	must.OK(t, err)
	left := st.Pending - 2
	rest(time.Duration(left)*time.Millisecond+time.Duration(left-1)*time.Second, left, 1) // as fast as it was

	endless := open(t, crashtest.New(), Params{Policy: revisit})
	if plan, err := endless.f.PlanRest(context.Background(), 1, p); plan != nil || err != nil {
		t.Errorf("a crawl without an end: %+v, %v", plan, err)
	}
}

// TestHostConnectionsInPlans: a host that mfetch asks over several connections gets as many times as many URLs of a batch by time, which ends in that
// time, and no gaps of its address; one with a server that asked for a wait is as any other.
func TestHostConnectionsInPlans(t *testing.T) {
	polite := Politeness{AddrDelay: 2 * time.Second, Connections: 50, Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second}, Hosts: func(host string, r *politeness.Rules) {
		r.HostConnections = map[string]int{numbered(0): 8, numbered(1): 64}[host]
	}}}
	for _, c := range []struct {
		name  string
		host  Host
		over  uint64
		gap   time.Duration
		took  time.Duration // 41 contacts of 100 ms
		begin time.Duration // of the contacts, so that they end after a minute
	}{
		{"as any other", Host{Host: numbered(2), Contacts: 1, DurationUS: 100_000, Addr: "127.0.0.1"}, 0, 2 * time.Second, 41*100*time.Millisecond + 80*time.Second, 0},
		{"eight", Host{Host: numbered(0), Contacts: 1, DurationUS: 100_000, Addr: "127.0.0.1"}, 8, time.Second, 6*100*time.Millisecond + 5*time.Second, time.Minute - 6*1100*time.Millisecond},
		{"as many as there are", Host{Host: numbered(1), Contacts: 1, DurationUS: 100_000}, 50, time.Second, 100 * time.Millisecond, time.Minute - 1100*time.Millisecond},
		{"new", Host{Host: numbered(0)}, 8, time.Second, 5 * time.Second, time.Minute - 6*time.Second},
		{"asks for a wait", Host{Host: numbered(0), Contacts: 1, DurationUS: 100_000, DelayUS: 3_000_000, Addr: "127.0.0.1"}, 0, 3 * time.Second, 41*100*time.Millisecond + 120*time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := polite.pace(&c.host, 0)
			if got.over != c.over || got.gap != c.gap || got.took(41) != c.took || got.latest(41, time.Minute) != c.begin {
				t.Errorf("%+v: 41 contacts in %v, from %v on; want %d connections, a gap of %v, %v, %v", got, got.took(41), got.latest(41, time.Minute), c.over, c.gap, c.took, c.begin)
			}
		})
	}

	var fresh []record.URL
	for h := range 3 {
		for i := range 2000 {
			fresh = append(fresh, newURL(numbered(h), fmt.Sprint(i), 0))
		}
	}
	const now, span = record.Time(3600e6), 55 * time.Second // 40 contacts with their gaps in four fifths of it
	b := contacted(t, Params{}, []int64{100_000, 100_000, 100_000}, fresh)
	polite.AddrDelay = 0
	batch, err := b.next(now, NextOptions{For: span, Politeness: polite, Txn: "r2"})
	must.OK(t, err)
	n := map[string]int{}
	for _, u := range batch {
		n[u.Host]++
	}
	if n[numbered(0)] != 8*n[numbered(2)] || n[numbered(1)] < 1900 || n[numbered(2)] != 40 {
		t.Errorf("URLs of hosts: %v, want 320, 2000 and 40", n)
	}
	plan, err := b.f.Plan(t.Context(), func(u *record.URL) error {
		if len(batch) == 0 {
			return io.EOF
		}
		*u, batch = batch[0], batch[1:]
		return nil
	}, now, polite)
	if err != nil || plan.ByHost > span || plan.ByHost < span/2 {
		t.Errorf("plan %+v, %v, want at most %v", plan, err, span)
	}
}

// TestWindowsInBatches: a batch by time has no URL of a host with a closed window, and its URLs wait until it opens. If there is no other, it has one.
func TestWindowsInBatches(t *testing.T) {
	const hour = record.Time(3600e6)
	night, err := politeness.ParseWindow("22:00-06:00")
	must.OK(t, err)
	o := NextOptions{For: time.Minute, Politeness: Politeness{Connections: 9, Duration: time.Second, Policy: politeness.Policy{Hosts: func(host string, r *politeness.Rules) {
		if host == "night.test" {
			r.Window = night
		}
	}}}}
	b := open(t, crashtest.New(), Params{})
	var seeds []record.URL
	for i := range 5 {
		seeds = append(seeds, newURL("night.test", fmt.Sprint(i), 0), newURL("day.test", fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("seed", seeds...))
	for i, c := range []struct {
		at   record.Time
		want map[string]int
	}{
		{12 * hour, map[string]int{"day.test": 5}},
		{22 * hour, map[string]int{"night.test": 5}},
	} {
		o.Txn = fmt.Sprint("r", i)
		batch, err := b.next(c.at, o)
		must.OK(t, err)
		got := map[string]int{}
		for _, u := range batch {
			got[u.Host]++
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("at %v: %v, want %v", c.at.Go().UTC(), got, c.want)
		}
		must.OK(t, b.update(o.Txn, c.at, fetchesOf(batch, record.OutcomeFetched, 200, c.at)))
	}
	b.check()
	only := open(t, crashtest.New(), Params{})
	must.OK(t, only.add("seed", newURL("night.test", "1", 0), newURL("night.test", "2", 0), newURL("night.test", "3", 0)))
	batch, err := only.next(12*hour, o)
	if err != nil || len(batch) != 1 { // which mfetch puts off
		t.Fatal(batch, err)
	}
	must.OK(t, only.update(o.Txn, 12*hour, []record.Fetch{{URL: batch[0].URL, Key: batch[0].Key, Host: batch[0].Host, Outcome: record.OutcomeDeferred, FetchTime: 12 * hour, RetryAfter: 22 * hour}}))
	if empty, err := only.f.Empty(13 * hour); err != nil || empty {
		t.Errorf("empty %v, %v", empty, err)
	}
}
