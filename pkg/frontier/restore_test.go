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
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/crawl"
)

// flying is a batch that is out in the model.
type flying struct {
	txn  string
	urls []record.URL
}

// crawled is a crawl folder with nothing but a frontier, and what must be true of it.
type crawled struct {
	*model
	out    *flying
	open   string // a round with an update that is not closed
	rounds int    // names given
}

func (c *crawled) clone() *crawled {
	n := *c
	m := *c.model
	m.order, m.state = slices.Clone(m.order), map[string]*modelURL{}
	for k, u := range c.state {
		u := *u
		m.state[k] = &u
	}
	n.model = &m
	return &n
}

// A crawl folder with checkpoints, abandon, restore, gc and losses of all that was not synced
// in between: a batch that is out comes again as it was, no other is given meanwhile, and every
// URL gets one outcome.
func TestRestoreAgainstModel(t *testing.T) {
	ctx := context.Background()
	did := map[string]int{} // what all crawls came to together
	for _, size := range []int{3, 30} {
		for seed, p := range []Params{{Priority: Priority{Strict: true}}, {Seed: 5}, {Policy: dynamic}, {Policy: fifo, Fifo: Fifo{Workers: 3}}, {Policy: opic, Seed: 7},
			{Policy: revisit, Seed: 3, Priority: Priority{Queues: 2}, Revisit: Revisit{MinInterval: "1m", MaxInterval: "1h", GoneAfter: 2}}} {
			t.Run(fmt.Sprintf("batch %d %+v", size, p), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(seed), uint64(size)))
				fs := crashtest.New()
				opt := store.Options{FS: fs}
				if _, err := crawl.Init("/crawl", nil, nil, func(string) error { return Create("/crawl/frontier", p, opt) }, crawl.Options{FS: fs}); err != nil {
					t.Fatal(err)
				}
				b := open(t, fs, p)
				now := &crawled{model: &model{p: p, state: map[string]*modelURL{}}}
				serial := 0
				some := func(n int) (urls []record.URL) {
					for range n {
						u := newURL(fmt.Sprintf("h%d.test", min(rng.IntN(20), rng.IntN(20))), fmt.Sprint(serial), uint8(rng.IntN(4)))
						serial++
						urls = append(urls, u)
					}
					return urls
				}
				crawl := func() *crawl.Crawl {
					c, err := crawl.Open("/crawl", crawl.Options{FS: fs})
					must.OK(t, err)
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
				must.OK(t, b.add("seed", seeds...))
				now.add(seeds...)
				commit("seed")
				at := record.Time(1_000_000)
				// next takes a batch where none is out; done says what came of it.
				next := func(size int) (done string) {
					at++
					txn := fmt.Sprint("r", now.rounds+1)
					due := 0
					for _, u := range now.state {
						if !u.inFlight && u.final == "" && u.Due <= at {
							due++
						}
					}
					batch, err := b.next(at, NextOptions{N: size, Txn: txn})
					switch {
					case now.out != nil || now.open != "":
						if !errors.Is(err, fault.Conflict) {
							t.Fatal("a second round: ", err)
						}
						return "refused"
					case err != nil:
						t.Fatal(err)
					case len(batch) == 0 && due > 0:
						t.Fatal("an empty batch")
					}
					if _, begun, err := b.f.Store().Lookup("next", txn); err != nil {
						t.Fatal(err)
					} else if !begun {
						return "nothing due"
					}
					now.take(t, batch, size, at)
					now.rounds++
					now.out = &flying{txn, batch}
					return "taken"
				}
				update := func() {
					fl := now.out
					var outcomes []record.Fetch
					for _, u := range fl.urls {
						s := now.state[u.URL]
						s.inFlight = false
						switch rng.IntN(5) {
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
							s.retried, s.Due = true, at+record.Time(time.Hour.Microseconds())
							outcomes = append(outcomes, fetchOf(u, record.OutcomeParked, 0, at))
							outcomes[len(outcomes)-1].RetryAfter = s.Due
						case 3:
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
					must.OK(t, b.update(fl.txn, at, outcomes, fresh...))
					now.add(fresh...)
					now.out, now.open = nil, fl.txn
					if p.Policy != revisit {
						return
					}
					// What comes back, and when, is for the tests of that policy.
					batch := map[string]bool{}
					for _, u := range fl.urls {
						batch[u.URL] = true
					}
					must.OK(t, b.f.EachURL(ctx, func(u *record.URL) error {
						if batch[u.URL] {
							now.state[u.URL] = &modelURL{URL: *u, retried: true}
						}
						return nil
					}))
				}
				for step := 0; step < 40; step++ {
					switch op := rng.IntN(20); {
					case op < 9:
						did[next(size)]++
					case op < 14:
						if now.open != "" {
							commit(now.open)
						} else if now.out != nil {
							update()
						}
					case op < 17:
						if fl := now.out; fl != nil {
							again, err := b.next(at+99, NextOptions{N: size, Txn: fl.txn})
							if d := cmp.Diff(fl.urls, again, cmpopts.IgnoreUnexported(record.Extra{})); d != "" || err != nil {
								t.Fatal("repeated: ", err, d)
							}
						}
					case op < 18:
						at += record.Time(time.Hour.Microseconds())
					case op < 19:
						_, err := crawl().Abandon(ctx)
						must.OK(t, err)
						now = checkpoints[current].clone()
						did["abandon"]++
					default:
						if rng.IntN(2) == 0 {
							if _, _, err := crawl().GC(ctx, 3); (err == nil) != (now.open == "" && now.out == nil) {
								t.Fatal(now.open, now.out, err)
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
						must.OK(t, crawl().Restore(ctx, current))
						now = checkpoints[current].clone()
						did["restore"]++
					}
					fs = fs.AfterCrash(crashtest.LoseAll)
					b = open(t, fs, p)
					if step%8 == 0 {
						b.check()
					}
					st, err := b.f.Stat(ctx, StatOptions{})
					must.OK(t, err)
					got, want := "", ""
					if fl := st.Batch; fl != nil {
						got = fmt.Sprint(fl.Txn, " ", fl.URLs)
					}
					if fl := now.out; fl != nil {
						want = fmt.Sprint(fl.txn, " ", len(fl.urls))
					}
					if got != want || int(st.Pending) != now.waiting() {
						t.Fatal(st.Pending, now.waiting(), got, want)
					}
				}
				for p.Policy != revisit && now.waiting() > 0 || now.out != nil || now.open != "" {
					at += record.Time(time.Hour.Microseconds())
					switch {
					case now.open != "":
						commit(now.open)
					case now.out != nil:
						update()
					default:
						next(100)
					}
				}
				b.check()
				if c := b.counts(); int(c.Finished) != len(now.state)-now.waiting() || int(c.Pending) != now.waiting() {
					t.Fatal(c)
				}
			})
		}
	}
	for _, what := range []string{"refused", "taken", "abandon", "restore"} {
		if did[what] == 0 {
			t.Errorf("never: %s (%v)", what, did)
		}
	}
}

// Outside a crawl folder the next name closes a round: none may while a batch is out.
func TestAddWhileABatchIsOut(t *testing.T) {
	for _, p := range []Params{{}, {Policy: walk, Walk: Walk{Walkers: 2}}} {
		b := open(t, crashtest.New(), p)
		must.OK(t, b.add("seed", pageURL("a.test/"), pageURL("d.test/")))
		batch, err := b.next(1, NextOptions{N: 1, Txn: "r1"})
		must.OK(t, err)
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
	fs := crashtest.New()
	opt := store.Options{FS: fs}
	c, err := crawl.Init("/crawl", nil, nil, func(string) error { return Create("/crawl/frontier", Params{}, opt) }, crawl.Options{FS: opt.FS})
	must.OK(t, err)
	b := open(t, fs, Params{})
	must.OK(t, b.add("seed", pageURL("a.test/"), pageURL("b.test/"), pageURL("c.test/")))
	for i, txn := range []string{"seed", "r1", "r2"} {
		if i > 0 {
			batch, err := b.next(1, NextOptions{N: 1, Txn: txn})
			must.OK(t, err)
			must.OK(t, b.update(txn, 1, []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, 1)}))
		}
		if _, _, err := c.Commit(ctx, txn, time.Unix(0, 0), 0); err != nil {
			t.Fatal(err)
		}
	}
	_, err = b.next(1, NextOptions{N: 1, Txn: "r3"})
	must.OK(t, err)
	must.OK(t, c.Restore(ctx, 2))
	m, err := b.f.Store().Current()
	must.OK(t, err)
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

// A raise is a round of its own, and a crawl goes back to what was before it and after it. So does what policy revisit counts.
func TestRaiseIsARound(t *testing.T) {
	ctx := context.Background()
	for _, p := range []Params{{Priority: Priority{Strict: true}}, {Policy: revisit, Priority: Priority{Queues: 3}}} {
		fs := crashtest.New()
		opt := store.Options{FS: fs}
		c, err := crawl.Init("/crawl", nil, nil, func(string) error { return Create("/crawl/frontier", p, opt) }, crawl.Options{FS: fs})
		must.OK(t, err)
		b := open(t, fs, p)
		old, other := newURL("a.test", "old", 2), newURL("a.test", "new", 2)
		if p.Policy == revisit {
			old.Extra = visitExtra(visitColumns, &Visit{Visits: 3, Changes: 1, ObservedUS: 3600e6, Last: 1})
		}
		higher := []record.URL{old, other}
		higher[0].Priority, higher[1].Priority = 1, 0
		states := map[uint64]string{}
		for txn, change := range []func(txn string) error{
			func(txn string) error { return b.add(txn, old, other) },
			func(txn string) error { _, err := b.raise(txn, higher...); return err },
			func(txn string) error { _, err := b.raise(txn, higher...); return err }, // none is raised
		} {
			name := fmt.Sprintf("t%d", txn)
			must.OK(t, change(name))
			b.check()
			k, made, err := c.Commit(ctx, name, time.Unix(0, 0), 0)
			if err != nil || !made {
				t.Fatal(made, err)
			}
			states[k.Number] = b.contents()
		}
		if states[1] == states[2] {
			t.Error("nothing was raised")
		}
		for _, n := range []uint64{1, 3, 2} {
			must.OK(t, c.Restore(ctx, n))
			b = open(t, fs, p)
			b.check()
			if got := b.contents(); got != states[n] {
				t.Errorf("checkpoint %d:\n%s\nwas\n%s", n, got, states[n])
			}
		}
	}
}

// outcomeDue is when a URL with this outcome is due again.
func outcomeDue(t *testing.T, o *record.Fetch) record.Time {
	t.Helper()
	_, due := DefaultRetries.judge(o, o.Attempt, o.FetchTime)
	return due
}
