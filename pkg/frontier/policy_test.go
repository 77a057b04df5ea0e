package frontier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
	"mercator/pkg/folder/stage"
)

// While all front queues have URLs, each is drawn as the bias says.
func TestBias(t *testing.T) {
	const n, rounds = 1000, 6
	b := open(t, crashtest.New(), Params{Seed: 42, Priority: Priority{Queues: 4, Bias: 3}})
	var urls []record.URL
	for i := range n * rounds {
		for k := range uint8(4) {
			urls = append(urls, newURL(fmt.Sprintf("h%d.test", i%7), fmt.Sprintf("%d-%d", k, i), k))
		}
	}
	must.OK(t, b.add("seed", urls...))
	var drawn [4]float64
	for r := range rounds {
		txn := fmt.Sprintf("r%d", r)
		batch, err := b.next(1, NextOptions{N: n, Txn: txn})
		if err != nil || len(batch) != n {
			t.Fatal(len(batch), err)
		}
		for _, u := range batch {
			drawn[u.Priority]++
		}
		must.OK(t, b.update(txn, 1, fetchesOf(batch, record.OutcomeFetched, 200, 1)))
	}
	chi := 0.0
	for k, weight := range []float64{27, 9, 3, 1} {
		want := n * rounds * weight / 40
		chi += (drawn[k] - want) * (drawn[k] - want) / want
	}
	if chi > 16.27 { // 3 degrees of freedom: one seed in a thousand
		t.Errorf("drew %v: chi-square %.1f", drawn, chi)
	}
	b.check()
}

// A draw that only one queue can win gives that queue, however small its weight.
func TestChoose(t *testing.T) {
	p := &weighted{}
	for k := range 16 {
		p.weight = append(p.weight, 1/float64(uint64(1)<<(4*k)))
	}
	for k := range p.queues() {
		if got := p.choose(7, func(q int) bool { return q == k }); got != k {
			t.Errorf("drew %d, only %d is ready", got, k)
		}
	}
	if got := p.choose(7, func(int) bool { return false }); got != -1 {
		t.Errorf("drew %d of nothing", got)
	}
}

// FIFO by worker: a worker's URLs come in order of arrival, whatever their hosts and
// priorities; workers take turns.
func TestFifo(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: fifo, Fifo: Fifo{Workers: 2}})
	var urls []record.URL
	for i := range 40 {
		urls = append(urls, newURL(fmt.Sprintf("h%d.test", i*i%11), fmt.Sprint(i), uint8(i)))
	}
	for _, part := range [][]record.URL{urls[:15], urls[15:]} {
		must.OK(t, b.add("", part...))
	}
	batch, err := b.next(1, NextOptions{N: 100})
	must.OK(t, err)
	var want, got [2][]string
	for _, u := range urls {
		w := hostKey(u.Host) % 2
		want[w] = append(want[w], u.URL)
	}
	for _, u := range batch {
		w := hostKey(u.Host) % 2
		got[w] = append(got[w], u.URL)
		if d := len(got[0]) - len(got[1]); (d > 1 && len(got[1]) < len(want[1])) || (d < -1 && len(got[0]) < len(want[0])) {
			t.Fatalf("%d of one worker, %d of the other", len(got[0]), len(got[1]))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(want[0]) == 0 || len(want[1]) == 0 {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCreateRefusals(t *testing.T) {
	opt := store.Options{FS: crashtest.New()}
	for _, p := range []Params{
		{Policy: "magic"}, {Priority: Priority{Queues: -1}}, {Priority: Priority{Queues: 17}}, {Priority: Priority{Bias: 0.5}}, {Priority: Priority{Bias: 1<<20 + 1}}, {Priority: Priority{Bias: 2, Strict: true}}, {Fifo: Fifo{Workers: 3}},
		{Policy: dynamic, Priority: Priority{Queues: 3}}, {Policy: dynamic, Seed: 1}, {Policy: fifo, Priority: Priority{Strict: true}}, {Policy: fifo, Fifo: Fifo{Workers: -1}}, {Opic: Opic{Tax: 0.1}}, {Policy: opic, Opic: Opic{Tax: 1.1}}, {Policy: opic, Opic: Opic{Tax: -1}}, {Policy: opic, Opic: Opic{Tax: 1e-9}}, {Policy: opic, Opic: Opic{Refetch: "-1s"}}, {Policy: opic, Opic: Opic{Refetch: "8761h"}}, {Policy: opic, Opic: Opic{Refetch: "often"}}, {Policy: opic, Fifo: Fifo{Workers: 1}}, {Policy: fifo, Seed: 1}, {Policy: fifo, Fifo: Fifo{Workers: 1<<12 + 1}},
	} {
		if err := Create("/frontier", p, opt); !errors.Is(err, fault.Usage) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	// What a manifest says must be what Create can have written.
	for _, params := range []map[string]string{
		{}, {"policy": "magic"}, {"policy": priority}, {"policy": dynamic, "queues": "3"}, {"policy": fifo, "workers": "x"}, {"policy": opic, "seed": "0"}, {"policy": opic, "tax": "0.10"}, {"policy": opic, "tax": "NaN", "seed": "0"},
		{"policy": priority, "queues": "3"}, {"policy": priority, "queues": "3", "bias": "NaN", "seed": "0"},
		{"policy": priority, "queues": "3", "bias": "2", "back_queues": "3C"}, {"policy": priority, "queues": "3", "bias": "2", "seed": "0"},
	} {
		if _, err := policyOf(&store.Manifest{Params: params}); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%v: %v", params, err)
		}
	}
	for _, p := range []Params{{}, {Seed: 1 << 63, Priority: Priority{Queues: 5, Bias: 1.5}}, {Priority: Priority{Strict: true}}, {Policy: dynamic}, {Policy: fifo}, {Policy: opic, Seed: 2, Opic: Opic{Tax: 0.25}}, {Policy: opic, Opic: Opic{Refetch: "never"}}, {Policy: opic, Opic: Opic{Refetch: "0s"}}} {
		text, err := p.Encode()
		must.OK(t, err)
		if got, _, err := decodeParams(&store.Manifest{Params: text}); err != nil || p.complete() != nil || *got != p {
			t.Errorf("%+v: %+v %v", p, got, err)
		}
	}
}

// The default of a parameter in help and crawl.toml is its value if nothing is given. A
// policy that has no use for the parameter refuses it by name.
func TestParameters(t *testing.T) {
	n := 0
	for i, own := range new(Params).all() {
		if err := own.complete(); err != nil {
			t.Errorf("%s: %v", nameOf(own), err)
		}
		for name, v := range fields(own) {
			n++
			shown := reflect.New(v.Type()).Elem()
			field, _ := reflect.TypeOf(own).Elem().FieldByNameFunc(func(f string) bool {
				field, _ := reflect.TypeOf(own).Elem().FieldByName(f)
				return field.Tag.Get("key") == "frontier."+name
			})
			if strings.ToLower(field.Name) != strings.ReplaceAll(name, "_", "") {
				t.Errorf("the setting %s is the flag of field %s", name, field.Name)
			}
			text := field.Tag.Get("placeholder")
			if d, err := time.ParseDuration(text); err == nil && v.Kind() == reflect.String {
				text = d.String()
			}
			if err := parse(text, shown); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			given := Params{Policy: nameOf(own)}
			of, err := given.own()
			must.OK(t, err)
			for same, to := range fields(of) {
				if same == name {
					to.Set(shown)
				}
			}
			got, err := given.Encode()
			want, _ := Params{Policy: nameOf(own)}.Encode()
			is, _ := shown.Interface().(float64)
			if of, _ := v.Interface().(float64); err != nil || of != 0 && math.Abs(is-of) > 1e-6 || of == 0 && !maps.Equal(got, want) {
				t.Errorf("%s is %v where nothing is given, and said to be %v: %v, %v", name, v, shown, got, err)
			}
			for _, other := range Policies() {
				p := Params{Policy: other.Name}
				for _, params := range p.all() {
					for same, to := range fields(params) {
						if same == name {
							if to.Set(shown); to.Kind() == reflect.Bool {
								to.SetBool(true)
							}
						}
					}
				}
				mine := slices.Contains(p.users(p.all()[i]), other.Name)
				if mine && other.Name != nameOf(own) { // has a use for it with several queues
					p.Queues = 2
				}
				_, err = p.Encode()
				if mine != (err == nil) || err != nil && !strings.Contains(err.Error(), name+" for policy "+other.Name+", want none, or policy "+nameOf(own)) {
					t.Errorf("%s for policy %s: %v", name, other.Name, err)
				}
			}
		}
	}
	if n < 11 {
		t.Errorf("%d parameters of policies", n)
	}
}

// To make a frontier again is no error, unless it is another.
func TestCreateAgain(t *testing.T) {
	opt := store.Options{FS: crashtest.New()}
	for range 2 {
		must.OK(t, Create("/frontier", Params{Priority: Priority{Queues: 5}}, opt))
	}
	if err := Create("/frontier", Params{Priority: Priority{Queues: 4}}, opt); !errors.Is(err, fault.Usage) {
		t.Errorf("created again with other queues: %v", err)
	}
}

// Hosts of one order are kept apart.
func TestHostsOfOneOrder(t *testing.T) {
	real := hostKey
	defer func() { hostKey = real }()
	hostKey = func(host string) uint64 { return real(host) % 3 }
	b := open(t, crashtest.New(), Params{})
	name := func(i int) string { return fmt.Sprintf("h%d.test", i) }
	const rounds = 24 // so that runs are merged
	for r := range rounds {
		txn := fmt.Sprintf("r%d", r)
		must.OK(t, b.add("", newURL(name(r%9), fmt.Sprint(r), 0), newURL(name((r+1)%9), fmt.Sprint(r), 0)))
		batch, err := b.next(record.Time(r+1), NextOptions{N: 1, Txn: txn})
		must.OK(t, err)
		must.OK(t, b.update(txn, record.Time(r+1), []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, record.Time(r+1))}))
		b.check()
	}
	var sum uint64
	for i := range 9 {
		h, found, err := b.f.Host(context.Background(), name(i))
		if err != nil || !found || h.Host.Host != name(i) || h.Discovered < 4 {
			t.Fatal(h, found, err)
		}
		sum += h.Discovered
	}
	if sum != 2*rounds {
		t.Errorf("%d URLs discovered by all hosts, want %d", sum, 2*rounds)
	}
	if _, found, err := b.f.Host(context.Background(), "nobody.test"); found || err != nil {
		t.Error(found, err)
	}
	hostKey = func(string) uint64 { return 7 }
	var urls []record.URL
	for i := range maxSame + 1 {
		urls = append(urls, newURL(name(100+i), "", 0))
	}
	if err := b.add("", urls...); !errors.Is(err, fault.Corrupt) {
		t.Errorf("%d hosts of one order: %v", len(urls), err)
	}
}

func TestPerDomain(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	var urls []record.URL
	for i := range 30 {
		urls = append(urls, newURL(fmt.Sprintf("h%d.farm.co.uk", i), "", 0))
	}
	urls = append(urls, newURL("other.co.uk", "", 0), newURL("other.co.uk", "2", 0))
	must.OK(t, b.add("", urls...))
	batch, err := b.next(1, NextOptions{N: 100, PerDomain: 5})
	must.OK(t, err)
	n := map[bool]int{}
	for _, u := range batch {
		n[u.Host == "other.co.uk"]++
	}
	if n[true] != 2 || n[false] != 5 {
		t.Errorf("%d of one domain, %d of the other, want 2 and 5", n[true], n[false])
	}
	b.check()
}

// A batch by time has of each host what it can give in that time.
func TestFor(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	slow, fast := newURL("slow.test", "first", 0), newURL("fast.test", "first", 0)
	parked := newURL("parked.test", "first", 0)
	must.OK(t, b.add("seed", slow, fast, parked))
	_, err := b.next(1, NextOptions{N: 3, Txn: "r1"})
	must.OK(t, err)
	s, f, p := fetchOf(slow, record.OutcomeFetched, 200, 1), fetchOf(fast, record.OutcomeFetched, 200, 1), fetchOf(parked, record.OutcomeFetched, 200, 1)
	s.DurationUS, f.DurationUS, p.RetryAfter = 2_000_000, 100_000, record.Time(3600e6)
	var fresh []record.URL
	for i := range 1000 {
		for _, h := range []string{"slow.test", "fast.test", "new.test", "parked.test"} {
			fresh = append(fresh, newURL(h, fmt.Sprint(i), uint8(i%3)))
		}
	}
	must.OK(t, b.update("r1", 1, []record.Fetch{s, f, p}, fresh...))
	polite := Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second, DelayFactor: 10, MaxDelay: 8 * time.Second}}, Connections: 10, Duration: 500 * time.Millisecond}
	o := NextOptions{For: time.Minute, Politeness: polite, Txn: "r2"}
	const now = record.Time(60e6) // nobody has to wait but parked.test
	plan, err := b.f.PlanNext(t.Context(), o, now, polite)
	must.OK(t, err)
	batch, err := b.next(now, o)
	must.OK(t, err)
	b.check()
	n := map[string]int{}
	for _, u := range batch {
		n[u.Host]++
	}
	// In four fifths of the time: 2 s and 8 s of gap; 0.1 s and 1 s; 0.5 s and 5 s, once for robots.txt.
	if want := fmt.Sprint(map[string]int{"slow.test": 5, "fast.test": 44, "new.test": 8}); fmt.Sprint(n) != want {
		t.Errorf("%v, want %v", n, want)
	}
	if plan.URLs != uint64(len(batch)) || plan.Duration > 50*time.Second || plan.Duration < 40*time.Second {
		t.Errorf("planned %d URLs, %v; batch of %d", plan.URLs, plan.Duration, len(batch))
	}
	must.OK(t, b.update("r2", 1, deferred(batch)))
	// A number bounds it too, if it is met first.
	for number, want := range map[int]int{1: 1, 20: 20, len(batch): len(batch), 3000: len(batch)} {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			txn := fmt.Sprint(number)
			few, err := b.next(now, NextOptions{N: number, For: time.Minute, Politeness: polite, Txn: txn})
			if err != nil || len(few) != want {
				t.Errorf("%d URLs, want %d: %v", len(few), want, err)
			}
			must.OK(t, b.update(txn, now, deferred(few)))
		})
	}
	// Few connections have less time than the hosts.
	o = NextOptions{For: 10 * time.Second, Politeness: polite, Txn: "r3"}
	o.Politeness.Connections, o.Politeness.MinDelay, o.Politeness.DelayFactor = 1, 0, 0
	batch, err = b.next(now, o)
	must.OK(t, err)
	var spent time.Duration
	for _, u := range batch {
		spent += map[string]time.Duration{"slow.test": 2 * time.Second, "fast.test": 100 * time.Millisecond, "new.test": 500 * time.Millisecond}[u.Host]
	}
	if spent < 9*time.Second || spent > 12*time.Second { // once for robots.txt
		t.Errorf("%v of contacts for one connection in 10 s", spent)
	}
	b.check()
}

// numbered names hosts.
func numbered(h int) string { return fmt.Sprintf("h%d.test", h) }

// contacted is a frontier of numbered hosts, each of which was asked once and took so many
// microseconds, and of fresh URLs.
func contacted(t *testing.T, p Params, took []int64, fresh []record.URL) *bench {
	t.Helper()
	b := open(t, crashtest.New(), p)
	var first []record.URL
	var outcomes []record.Fetch
	for h, us := range took {
		u := newURL(numbered(h), "first", 0)
		o := fetchOf(u, record.OutcomeFetched, 200, 1)
		o.DurationUS = us
		first, outcomes = append(first, u), append(outcomes, o)
	}
	must.OK(t, b.add("seed", first...))
	_, err := b.next(1, NextOptions{N: len(first), Txn: "r1"})
	must.OK(t, err)
	must.OK(t, b.update("r1", 1, outcomes, fresh...))
	return b
}

// played is how long a batch takes, one connection a host, and for how much of that at the end fewer than half of
// the connections are busy: each that is free takes, of the hosts that are due, the one with the first URL.
func played(batch []record.URL, p Politeness, speed func(host string) pace) (end, tail time.Duration) {
	type host struct {
		pace
		at time.Duration // from when it may be contacted
	}
	hosts := map[string]*host{}
	var rows []*host
	for _, u := range batch {
		if hosts[u.Host] == nil {
			hosts[u.Host] = &host{pace: speed(u.Host)}
		}
		rows = append(rows, hosts[u.Host])
	}
	free, done := make([]time.Duration, p.Connections), make([]time.Duration, p.Connections)
	for len(rows) > 0 {
		c := slices.Index(free, slices.Min(free))
		i := slices.IndexFunc(rows, func(h *host) bool { return h.at <= free[c] })
		if i < 0 { // nobody is due yet
			free[c] = slices.MinFunc(rows, func(g, h *host) int { return cmp.Compare(g.at, h.at) }).at
			continue
		}
		h := rows[i]
		rows = slices.Delete(rows, i, i+1)
		free[c] += h.contact
		done[c], h.at = free[c], free[c]+h.gap
	}
	slices.Sort(done)
	end = done[len(done)-1]
	return end, end - done[len(done)/2]
}

// A batch by time has no tail: where hosts have more to do than there is time for,
// fewer than half of the connections are busy for a small part of it only, whatever
// the speeds of the hosts, and it does not take longer than it was to.
func TestForHasNoTail(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 9))
		var took []int64
		var fresh []record.URL
		for h := range 300 {
			took = append(took, 20_000+int64(2_000_000*math.Pow(rng.Float64(), 3))) // a few are slow
			for i := range 1 + rng.IntN(1+rng.IntN(60)) {
				fresh = append(fresh, newURL(numbered(h), fmt.Sprint(i), uint8(rng.IntN(3))))
			}
		}
		b := contacted(t, []Params{{}, {Policy: dynamic}}[seed%2], took, fresh)
		polite := Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second, DelayFactor: 10, MaxDelay: 30 * time.Second}}, Connections: 2 + rng.IntN(8)}
		const now, span = record.Time(3600e6), 2 * time.Minute
		batch, err := b.next(now, NextOptions{For: span, Politeness: polite, Txn: "r2"})
		must.OK(t, err)
		end, tail := played(batch, polite, func(host string) pace {
			var h int
			fmt.Sscanf(host, "h%d.test", &h)
			return polite.pace(&Host{Contacts: 1, DurationUS: uint64(took[h])}, 0)
		})
		if tail > span/10 || end > span*11/10 || end < span*9/10 {
			t.Errorf("seed %d, %d connections: %v, of which %v are the tail", seed, polite.Connections, end, tail)
		}
	}
}

// A batch by time ends in its time, and fills it, even if every contact takes a quarter
// longer than before: the four fifths that hosts get are for that. There are connections for all hosts.
func TestForLeavesRoom(t *testing.T) {
	polite := Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second, DelayFactor: 10, MaxDelay: 30 * time.Second}}, Connections: 50}
	const now, span = record.Time(3600e6), 10 * time.Minute
	measured := func(slower float64) *bench {
		var took []int64
		var fresh []record.URL
		for h := range 20 {
			took = append(took, int64(slower*float64(100_000+40_000*h)))
			for i := range 600 {
				fresh = append(fresh, newURL(numbered(h), fmt.Sprint(i), 0))
			}
		}
		return contacted(t, Params{}, took, fresh)
	}
	batch, err := measured(1).next(now, NextOptions{For: span, Politeness: polite, Txn: "r2"})
	must.OK(t, err)
	read := func(u *record.URL) error {
		if len(batch) == 0 {
			return io.EOF
		}
		*u, batch = batch[0], batch[1:]
		return nil
	}
	actual, err := measured(1.25).f.Plan(t.Context(), read, now, polite)
	must.OK(t, err)
	if actual.Duration > span || actual.Duration < span*97/100 {
		t.Errorf("%v, want no more than %v, and little less", actual.Duration, span)
	}
}

// In a day without delays a host has time for more contacts than 32 bits count.
func TestForWithoutDelays(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	var urls []record.URL
	for i := range 20 {
		urls = append(urls, newURL(fmt.Sprintf("h%d.test", i%2), fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("seed", urls...))
	for r, connections := range []int{1, maxConnections} {
		txn := fmt.Sprint(r)
		batch, err := b.next(1, NextOptions{For: 23 * time.Hour, Politeness: Politeness{Connections: connections}, Txn: txn})
		if err != nil || len(batch) != len(urls) {
			t.Fatalf("%d URLs, want %d: %v", len(batch), len(urls), err)
		}
		must.OK(t, b.update(txn, 1, deferred(batch)))
	}
}

// A batch by time is not empty while a URL is due, or the crawl would end.
func TestForIsNotEmpty(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	u, v := newURL("parked.test", "1", 0), newURL("parked.test", "2", 0)
	must.OK(t, b.add("seed", u, v))
	_, err := b.next(1, NextOptions{N: 1, Txn: "r1"})
	must.OK(t, err)
	o := fetchOf(u, record.OutcomeFetched, 200, 1)
	o.RetryAfter = 3600e6
	must.OK(t, b.update("r1", 1, []record.Fetch{o}))
	batch, err := b.next(1, NextOptions{For: time.Second, Politeness: Politeness{Connections: 1}, Txn: "r2"})
	if err != nil || len(batch) != 1 {
		t.Error(batch, err)
	}
	for _, bad := range []NextOptions{{For: -1}, {For: maxFor + 1, Politeness: Politeness{Connections: 1}}, {For: 1}} {
		t.Run(fmt.Sprint(bad.For), func(t *testing.T) {
			if err := bad.Check(); !errors.Is(err, fault.Usage) {
				t.Errorf("%+v: %v", bad, err)
			}
		})
	}
}

// New URLs beyond the limits are dropped, and nothing else.
func TestLimits(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	must.OK(t, b.add("seed", newURL("a.test", "seed", 0)))
	for round, want := range []uint64{1 + 3 + 2, 1 + 3 + 2 + 1} { // a.test is full after three, b.test after the second round
		txn := fmt.Sprintf("r%d", round)
		batch, err := b.next(1, NextOptions{N: 1, Txn: txn})
		must.OK(t, err)
		var fresh []record.URL
		for i := range 4 {
			u := newURL("a.test", fmt.Sprintf("%d-%d", round, i), 0)
			u.Depth = 2
			fresh = append(fresh, u)
			v := newURL("b.test", fmt.Sprintf("%d-%d", round, i), 0)
			v.Depth = uint16(i + 1)
			fresh = append(fresh, v)
		}
		var drops []record.Count
		in := &recordtest.Input[record.URL]{All: fresh, Of: record.Schema{Txn: txn, Now: 1}}
		spec := stage.Spec{Name: "mfrontier update", Verb: "update", Store: b.f.Store(), Txn: txn, Shape: stage.Sink}
		o := UpdateOptions{Txn: txn, Retries: DefaultRetries, Limits: Limits{Depth: 2, HostURLs: 4 - uint64(round)}, Outcomes: given(txn, []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, 1)})}
		res, err := stage.Run(context.Background(), spec, in, nil, func(ctx context.Context, s *stage.Batch[record.URL, record.URL]) error { return b.f.Update(ctx, s, o) })
		must.OK(t, err)
		drops = res.Stage.Drops
		if c := b.counts(); c.Discovered != want {
			t.Errorf("round %d: %d URLs, want %d; drops %v", round, c.Discovered, want, drops)
		}
		if fmt.Sprint(drops) != []string{"[{host-full 1} {too-deep 2}]", "[{host-full 5} {too-deep 2}]"}[round] {
			t.Errorf("round %d: drops %v", round, drops)
		}
		b.check()
	}
	err := b.updateFrom("r9", recordtest.In[record.URL]("r9"), UpdateOptions{Txn: "r9", Retries: DefaultRetries, Limits: Limits{Depth: -1}})
	if !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
}

// With several front queues policy revisit draws the kind by new_share, and then a queue of it by the bias; pages of lower
// priority are visited less often.
func TestRevisitByPriority(t *testing.T) {
	p := Params{Policy: revisit, Seed: 8, Priority: Priority{Queues: 2, Bias: 3}, Revisit: Revisit{NewShare: 0.25}}
	b := open(t, crashtest.New(), p)
	var urls []record.URL
	for i := range 2000 {
		u := newURL(fmt.Sprintf("h%d.test", i), "", uint8(i%2))
		if i%8 < 4 {
			u.Extra = visitExtra(visitColumns, &Visit{Visits: 3, Changes: 1, ObservedUS: 3600e6, Last: 1})
		}
		urls = append(urls, u)
	}
	must.OK(t, b.add("seed", urls...))
	b.check()
	batch, err := b.next(1e12, NextOptions{N: 600, Txn: "r1"})
	must.OK(t, err)
	s, _, err := b.f.current()
	must.OK(t, err)
	var drawn [4]float64
	for level, runs := range s.Ready {
		drawn[level] = 500 - float64(rowsOf(runs))
	}
	for level, want := range []float64{0.25 * 0.75, 0.25 * 0.25, 0.75 * 0.75, 0.75 * 0.25} {
		if got := drawn[level] / 600; len(batch) != 600 || math.Abs(got-want) > 0.06 {
			t.Errorf("front queue %d has %.3f of the batch of %d, want %.3f", level, got, len(batch), want)
		}
	}
	all := s.policy.hooks.(*revisitPolicy).intervals(1e10)
	for class := range classes {
		high, low := all[class], all[classes+class]
		if high > low || classMean(class) > 1e11 && classMean(class) < 1e12 && high == low {
			t.Errorf("pages that change in %.0f s: every %d s, and of lower priority every %d s", classMean(class)/1e6, high/1e6, low/1e6)
		}
	}
}
