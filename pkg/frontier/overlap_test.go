package frontier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// flying is a batch that is out in the model.
type flying struct {
	txn  string
	urls []record.URL
}

// crawled is a crawl folder with nothing but a frontier, and what must be true of it.
type crawled struct {
	*model
	out    []flying // at most two, the older first
	open   string   // a round that has landed and is not closed
	rounds int      // names given
}

func (c *crawled) clone() *crawled {
	n := *c
	n.out = slices.Clone(c.out)
	m := *c.model
	m.order, m.state = slices.Clone(m.order), map[string]*modelURL{}
	for k, u := range c.state {
		u := *u
		m.state[k] = &u
	}
	n.model = &m
	return &n
}

// Batches side by side, with checkpoints, abandon, restore and losses of all that was
// not synced in between: no host is in both, each comes again after a restore as it was,
// and every URL gets one outcome.
func TestOverlapAgainstModel(t *testing.T) {
	ctx := context.Background()
	did := map[string]int{} // what all crawls came to together
	for _, size := range []int{3, 30} {
		for seed, p := range []Params{{Strict: true}, {Seed: 5}, {Policy: dynamic}, {Policy: fifo, Workers: 3}, {Policy: opic, Seed: 7},
			{Policy: revisit, Seed: 3, MinInterval: time.Minute, MaxInterval: time.Hour, GoneAfter: 2}} {
			t.Run(fmt.Sprintf("batch %d %+v", size, p), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(seed), uint64(size)))
				fs := durable.NewCrashFS()
				opt := store.Options{FS: fs}
				if _, err := store.InitCrawl("/crawl", nil, nil, func() error { return Create("/crawl/frontier", p, opt) }, opt); err != nil {
					t.Fatal(err)
				}
				b := open(t, fs, p)
				now := &crawled{model: &model{p: p, state: map[string]*modelURL{}, overlaps: true}}
				serial := 0
				some := func(n int) (urls []record.URL) {
					for range n {
						u := newURL(fmt.Sprintf("h%d.test", min(rng.IntN(20), rng.IntN(20))), fmt.Sprint(serial), uint8(rng.IntN(4)))
						serial++
						urls = append(urls, u)
					}
					return urls
				}
				crawl := func() *store.Crawl {
					c, err := store.OpenCrawl("/crawl", store.Options{FS: fs})
					if err != nil {
						t.Fatal(err)
					}
					return c
				}
				checkpoints := map[uint64]*crawled{}
				current := uint64(0)
				commit := func(txn string) {
					k, made, err := crawl().Commit(ctx, txn, time.Unix(0, 0), 0)
					if err != nil || !made {
						t.Fatal(txn, made, err)
					}
					now.open = ""
					current = k.Number
					checkpoints[current] = now.clone()
				}
				seeds := some(60)
				if err := b.add("seed", seeds...); err != nil {
					t.Fatal(err)
				}
				now.add(seeds...)
				commit("seed")
				at := record.Time(1_000_000)
				// next takes a batch beside those that are out; done says what came of it.
				next := func(size int) (done string) {
					at++
					now.rounds++
					txn := fmt.Sprint("r", now.rounds)
					free := map[string]bool{}
					for _, fl := range now.out {
						for _, u := range fl.urls {
							free[u.Host] = false
						}
					}
					others, passed := 0, 0
					for _, u := range now.state {
						if u.inFlight || u.final != "" || u.Due > at {
							continue
						} else if _, away := free[u.Host]; away {
							passed++
						} else {
							others++
						}
					}
					batch, err := b.next(at, NextOptions{N: size, Txn: txn, Overlap: true})
					switch {
					case len(now.out) == 2:
						if !errors.Is(err, fault.Conflict) {
							t.Fatal("a third batch: ", err)
						}
						now.rounds--
						return "third"
					case errors.Is(err, fault.No):
						if len(now.out) == 0 || others > 0 && passed < size {
							t.Fatal(others, passed, err)
						}
						now.rounds--
						return "none"
					case err != nil:
						t.Fatal(err)
					case len(batch) == 0:
						if len(now.out) > 0 || others > 0 {
							t.Fatal("an empty batch")
						}
						now.rounds--
						return "empty"
					}
					now.take(t, batch, size, at)
					now.out = append(now.out, flying{txn, batch})
					return fmt.Sprint("beside ", len(now.out)-1)
				}
				land := func() {
					fl := now.out[0]
					if len(now.out) > 1 {
						if err := b.update(now.out[1].txn, at, nil); !errors.Is(err, fault.Conflict) {
							t.Fatal("the second batch first: ", err)
						}
					}
					var outcomes []record.Fetch
					for _, u := range fl.urls {
						s := now.state[u.URL]
						s.inFlight = false
						switch rng.IntN(4) {
						case 0:
							s.retried, s.Due = true, 0
							outcomes = append(outcomes, fetchOf(u, record.OutcomeDeferred, 0, at))
						case 1:
							if outcomes = append(outcomes, fetchOf(u, record.OutcomeTimeout, 0, at)); u.Attempt == 2 {
								s.final = record.OutcomeTimeout
								continue
							}
							s.retried = true
							s.Attempt++
							s.Due = outcomeDue(t, &outcomes[len(outcomes)-1])
						case 2:
							s.final = record.OutcomeRobotsDenied
							outcomes = append(outcomes, fetchOf(u, record.OutcomeRobotsDenied, 0, at))
						default:
							s.final = record.OutcomeFetched
							outcomes = append(outcomes, fetchOf(u, record.OutcomeFetched, 200, at))
						}
					}
					var fresh []record.URL
					if serial < 200 {
						fresh = some(rng.IntN(6))
					}
					if err := b.update(fl.txn, at, outcomes, fresh...); err != nil {
						t.Fatal(err)
					}
					now.add(fresh...)
					now.out, now.open = now.out[1:], fl.txn
					if p.Policy != revisit {
						return
					}
					// What comes back, and when, is for the tests of that policy.
					batch := map[string]bool{}
					for _, u := range fl.urls {
						batch[u.URL] = true
					}
					if err := b.f.EachURL(ctx, func(u *record.URL) error {
						if batch[u.URL] {
							now.state[u.URL] = &modelURL{URL: *u, retried: true}
						}
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
				for step := 0; step < 40; step++ {
					switch op := rng.IntN(20); {
					case op < 9:
						did[next(size)]++
					case op < 14:
						if now.open != "" {
							commit(now.open)
						} else if len(now.out) > 0 {
							land()
						}
					case op < 17:
						for _, fl := range now.out {
							again, err := b.next(at+99, NextOptions{N: size, Txn: fl.txn, Overlap: rng.IntN(2) == 0})
							if d := cmp.Diff(fl.urls, again, cmpopts.IgnoreUnexported(record.Extra{})); d != "" || err != nil {
								t.Fatal("repeated: ", err, d)
							}
						}
					case op < 18:
						at += record.Time(time.Hour.Microseconds())
					case op < 19:
						if _, err := crawl().Abandon(ctx); err != nil {
							t.Fatal(err)
						}
						now = checkpoints[current].clone()
						did["abandon"]++
					default:
						if rng.IntN(2) == 0 {
							if _, _, err := crawl().GC(ctx, 3); now.open == "" && err != nil && len(now.out) == 0 {
								t.Fatal(err)
							}
							for n := range maps.Keys(checkpoints) {
								if _, err := crawl().Checkpoint(n); err != nil {
									delete(checkpoints, n)
								}
							}
							break
						}
						numbers := slices.Sorted(maps.Keys(checkpoints))
						current = numbers[rng.IntN(len(numbers))]
						if err := crawl().Restore(ctx, current); err != nil {
							t.Fatal(err)
						}
						now = checkpoints[current].clone()
						did[fmt.Sprint("restore with ", len(now.out))]++
					}
					fs = fs.AfterCrash(durable.LoseAll)
					b = open(t, fs, p)
					if step%8 == 0 {
						b.check()
					}
					st, err := b.f.Stat(ctx, StatOptions{})
					if err != nil {
						t.Fatal(err)
					}
					var got, want []string
					for _, fl := range st.Batches {
						got = append(got, fmt.Sprint(fl.Txn, " ", fl.URLs))
					}
					for _, fl := range now.out {
						want = append(want, fmt.Sprint(fl.txn, " ", len(fl.urls)))
					}
					if d := cmp.Diff(want, got); d != "" || int(st.Pending) != now.waiting() {
						t.Fatal(st.Pending, now.waiting(), d)
					}
				}
				for p.Policy != revisit && now.waiting() > 0 || len(now.out) > 0 || now.open != "" {
					at += record.Time(time.Hour.Microseconds())
					if next(100); now.open != "" {
						commit(now.open)
					} else {
						land()
					}
				}
				b.check()
				if c := b.counts(); int(c.Finished) != len(now.state)-now.waiting() || int(c.Pending) != now.waiting() {
					t.Fatal(c)
				}
			})
		}
	}
	for _, what := range []string{"third", "none", "beside 0", "beside 1", "abandon", "restore with 0", "restore with 1", "restore with 2"} {
		if did[what] == 0 {
			t.Errorf("never: %s (%v)", what, did)
		}
	}
}

// Outside a crawl folder the next name closes a round: none may while a batch is out.
func TestAddWhileABatchIsOut(t *testing.T) {
	for _, p := range []Params{{}, {Policy: walk, Walkers: 2}} {
		b := open(t, durable.NewCrashFS(), p)
		if err := b.add("seed", pageURL("a.test/"), pageURL("d.test/")); err != nil {
			t.Fatal(err)
		}
		batch, err := b.next(1, NextOptions{N: 1, Txn: "r1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.add("more", pageURL("b.test/")); !errors.Is(err, fault.Conflict) {
			t.Error(err)
		}
		for _, txn := range []string{"", "r1"} {
			if err := b.add(txn, pageURL("b.test/"+txn)); err != nil {
				t.Error(err)
			}
		}
		outcomes := []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, 1)}
		if p.Policy == walk {
			err = b.walk("r1", outcomes, nil)
		} else {
			err = b.update("r1", 1, outcomes)
		}
		if err != nil {
			t.Error(err)
		}
		if err := b.add("more", pageURL("c.test/")); err != nil {
			t.Error(err)
		}
		b.check()
	}
}

// TestCheckAfterRestore: the batches of rounds that were closed are gone, and are no damage
// where a crawl goes back to them.
func TestCheckAfterRestore(t *testing.T) {
	ctx := context.Background()
	fs := durable.NewCrashFS()
	opt := store.Options{FS: fs}
	c, err := store.InitCrawl("/crawl", nil, nil, func() error { return Create("/crawl/frontier", Params{}, opt) }, opt)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, fs, Params{})
	if err := b.add("seed", pageURL("a.test/"), pageURL("b.test/"), pageURL("c.test/")); err != nil {
		t.Fatal(err)
	}
	for i, txn := range []string{"seed", "r1", "r2"} {
		if i > 0 {
			batch, err := b.next(1, NextOptions{N: 1, Txn: txn})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.update(txn, 1, []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, 1)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := c.Commit(ctx, txn, time.Unix(0, 0), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.next(1, NextOptions{N: 1, Txn: "r3"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Restore(ctx, 2); err != nil {
		t.Fatal(err)
	}
	m, err := b.f.Store().Current()
	if err != nil {
		t.Fatal(err)
	}
	gone := 0
	for _, e := range m.Files {
		if _, err := fs.Stat(b.f.Store().Path(e.Path)); err != nil && e.Role == store.RoleOutput {
			gone++
		}
	}
	if gone == 0 {
		t.Error("the batch is there still")
	}
	if err := b.f.Check(ctx); err != nil {
		t.Error(err)
	}
}

// outcomeDue is when a URL with this outcome is due again.
func outcomeDue(t *testing.T, o *record.Fetch) record.Time {
	t.Helper()
	_, due := DefaultRetries.judge(o, o.Attempt, o.FetchTime)
	return due
}

// A batch beside another one with limits, by time, among parked hosts, and as a plan.
func TestOverlapKinds(t *testing.T) {
	const sec = record.Time(1e6)
	polite := Politeness{MinDelay: time.Second, MaxDelay: time.Minute, Connections: 4, Duration: time.Second}
	dead := Dead{After: 1, Delay: time.Hour, MaxDelay: time.Hour}
	setup := func(t *testing.T) *bench {
		b := open(t, durable.NewCrashFS(), Params{Policy: dynamic})
		var urls []record.URL
		for i := range 40 {
			urls = append(urls, newURL(fmt.Sprintf("h%d.test", i%4), fmt.Sprint(i), 0))
		}
		if err := b.add("seed", append(urls, newURL("dead.test", "1", 0), newURL("dead.test", "2", 0))...); err != nil {
			t.Fatal(err)
		}
		return b
	}
	hosts := func(batch []record.URL) map[string]int {
		n := map[string]int{}
		for _, u := range batch {
			n[u.Host]++
		}
		return n
	}
	for _, c := range []struct {
		name        string
		first, then NextOptions
		want        map[string]int
	}{
		{"per host", NextOptions{N: 2}, NextOptions{N: 20, PerHost: 2}, map[string]int{"h2.test": 2, "h3.test": 2, "dead.test": 2}},
		{"per domain", NextOptions{N: 2}, NextOptions{N: 20, PerDomain: 1}, map[string]int{"h2.test": 1, "h3.test": 1, "dead.test": 1}},
		{"by time", NextOptions{N: 3}, NextOptions{For: 8 * time.Second}, map[string]int{"h2.test": 2, "h3.test": 2}},
		{"not more than its size passed over", NextOptions{N: 4}, NextOptions{N: 4}, map[string]int{"h3.test": 1}},
		{"beside all hosts", NextOptions{N: 5}, NextOptions{N: 100}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := setup(t)
			c.first.Txn, c.then.Txn, c.then.Overlap, c.then.Politeness = "r1", "r2", true, polite
			first, err := b.next(sec, c.first)
			if err != nil || len(first) != c.first.N {
				t.Fatal(first, err)
			}
			planned := uint64(0)
			plan, err := b.f.PlanNext(context.Background(), c.then, sec, polite)
			if err == nil {
				planned = plan.URLs
			} else if !errors.Is(err, fault.No) {
				t.Fatal(err)
			}
			then, err := b.next(sec, c.then)
			if none := errors.Is(err, fault.No); none != (c.want == nil) || !none && err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, hosts(then), cmpopts.EquateEmpty()); d != "" || planned != uint64(len(then)) || (plan == nil) != (c.want == nil) {
				t.Fatal(planned, d)
			}
			if c.want != nil { // a third is refused, planned or taken
				c.then.Txn = "r3"
				_, err := b.next(sec, c.then)
				if _, plans := b.f.PlanNext(context.Background(), c.then, sec, polite); !errors.Is(err, fault.Conflict) || plans == nil || plans.Error() != err.Error() {
					t.Errorf("a third batch: %v, planned %v", err, plans)
				}
			}
			b.check()
		})
	}
	t.Run("a parked host waits", func(t *testing.T) {
		b := setup(t)
		batch, err := b.next(sec, NextOptions{N: 5, Txn: "r0"})
		if err != nil || hosts(batch)["dead.test"] != 1 {
			t.Fatal(batch, err)
		}
		var outcomes []record.Fetch
		for _, u := range batch {
			kind := record.OutcomeFetched
			if u.Host == "dead.test" {
				kind = record.OutcomeConnect
			}
			outcomes = append(outcomes, fetchOf(u, kind, 0, sec))
		}
		if err := b.updateDead("r0", dead, outcomes); err != nil {
			t.Fatal(err)
		}
		if _, err := b.next(sec, NextOptions{N: 4, Txn: "r1"}); err != nil {
			t.Fatal(err)
		}
		// It is the only other host; a plain batch would have its URL rather than none.
		if batch, err := b.next(sec, NextOptions{N: 100, Txn: "r2", Overlap: true}); !errors.Is(err, fault.No) {
			t.Fatal(batch, err)
		}
		if batch, err := b.next(8000*sec, NextOptions{N: 100, Txn: "r2", Overlap: true}); err != nil || hosts(batch)["dead.test"] != 2 || len(batch) != 2 {
			t.Fatal(batch, err)
		}
		b.check()
	})
}

// Both batches have names, and the set of hosts that are out is bounded.
func TestOverlapRefusals(t *testing.T) {
	b := open(t, durable.NewCrashFS(), Params{})
	var urls []record.URL
	for i := range 100 {
		urls = append(urls, newURL(fmt.Sprintf("h%d.test", i%50), fmt.Sprint(i), 0))
	}
	if err := b.add("seed", urls...); err != nil {
		t.Fatal(err)
	}
	if _, err := b.next(1, NextOptions{N: MaxCapped + 1, Txn: "r1", Overlap: true}); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
	if _, err := b.next(1, NextOptions{N: 100, Txn: "r1", Overlap: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.next(1, NextOptions{N: 1, Overlap: true}); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
	s, _, err := b.f.current()
	if err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{10, 49, 50, 1000} {
		var set hostSet
		err := set.add(context.Background(), b.f.st, s.InFlight, most)
		if (err == nil) != (most >= 50) || err != nil && !errors.Is(err, fault.Usage) || cap(set) > 4*min(most, 50) {
			t.Errorf("at most %d: %v, %d hosts in room for %d", most, err, len(set), cap(set))
		}
		if err == nil && (len(set) != 50 || !set.has("h7.test") || set.has("h50.test")) {
			t.Errorf("at most %d: %d hosts", most, len(set))
		}
	}
}

// An empty frontier opens no round of its own name with Overlap, or there would be no end to them.
func TestOverlapOfNothing(t *testing.T) {
	b := open(t, durable.NewCrashFS(), Params{})
	for _, txn := range []string{"r1", "r2"} {
		if batch, err := b.next(1, NextOptions{N: 1, Txn: txn, Overlap: true}); err != nil || len(batch) != 0 {
			t.Fatal(batch, err)
		}
		if _, found, err := b.f.Store().Ahead().Lookup("next", txn); found || err != nil {
			t.Fatal(found, err)
		}
	}
}

// Walkers whose visits are in the second batch stand still while those of the first
// move on.
func TestWalkBeside(t *testing.T) {
	b := open(t, durable.NewCrashFS(), Params{Policy: walk, Walkers: 12, Seed: 5})
	if err := b.add("seed", pageURL("a.test/"), pageURL("b.test/"), pageURL("c.test/"), pageURL("d.test/")); err != nil {
		t.Fatal(err)
	}
	var out []flying
	beside := 0
	for round := range 40 {
		batch, err := b.next(1, NextOptions{N: 3, Txn: fmt.Sprint("r", round), Overlap: true})
		if err == nil {
			out = append(out, flying{fmt.Sprint("r", round), batch})
		} else if !errors.Is(err, fault.No) && !errors.Is(err, fault.Conflict) {
			t.Fatal(err)
		}
		b.check()
		if err == nil && len(out) == 1 {
			continue
		}
		if len(out) == 2 {
			beside++
			for _, u := range out[1].urls {
				if slices.ContainsFunc(out[0].urls, func(v record.URL) bool { return v.Host == u.Host }) {
					t.Fatal(u.Host, " is in two batches")
				}
			}
		}
		var outcomes []record.Fetch
		var links []record.Link
		for _, u := range out[0].urls {
			outcomes = append(outcomes, fetchOf(u, record.OutcomeFetched, 200, 1))
			links = append(links, smallWeb.links(u)...)
		}
		if err := b.walk(out[0].txn, outcomes, links); err != nil {
			t.Fatal(err)
		}
		out = out[1:]
		b.check()
	}
	if beside < 10 {
		t.Errorf("%d batches beside others", beside)
	}
}
