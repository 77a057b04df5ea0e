package frontier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/web/canon"
)

// budgeted is an update of all that is in flight, all of it fetched.
func (b *bench) budgeted(txn string, by Budgets, batch, fresh []record.URL, links []record.Link) error {
	outcomes := fetchesOf(batch, record.OutcomeFetched, 200, 1)
	return b.updateFrom(txn, recordtest.In(txn, fresh...), UpdateOptions{Txn: txn, Retries: DefaultRetries, Budgets: by,
		Outcomes: given(txn, outcomes),
		Links:    given(txn, links),
	})
}

func linkTo(from, to record.URL) record.Link {
	return record.Link{SrcURL: from.URL, SrcKey: from.Key, URL: to.URL, Key: to.Key, Host: to.Host}
}

// A farm of hosts below one domain, which makes new ones and links them with each other
// as it likes, gets the base; a domain that others link to gets its due; and nothing is lost.
func TestSpamFarm(t *testing.T) {
	const base, friends, rounds, each = 4, 9, 30, 12
	by := Budgets{Base: base, Growth: 1.5}
	b := open(t, crashtest.New(), Params{})
	b.f.layout = layout{queueFan: 3, hostFan: 3, step: 1}
	seeds := []record.URL{newURL("h0.farm.test", "", 0)}
	for i := range friends {
		seeds = append(seeds, newURL(fmt.Sprintf("friend%d.test", i), "", 0))
	}
	must.OK(t, b.add("seed", seeds...))
	out := map[string]bool{}
	taken := func(batch []record.URL) map[string]int {
		n := map[string]int{}
		for _, u := range batch {
			if out[u.URL] {
				t.Fatalf("%s came out twice", u.URL)
			}
			out[u.URL] = true
			n[canon.RegisteredDomain(u.Host)]++
		}
		return n
	}
	all := len(seeds)
	for r := range rounds {
		txn := fmt.Sprintf("r%d", r)
		batch, err := b.next(1, NextOptions{N: 10_000, Txn: txn})
		must.OK(t, err)
		n := taken(batch)
		if r > 0 && n["farm.test"] > base {
			t.Fatalf("round %d: %d URLs of the farm, want at most %d", r, n["farm.test"], base)
		}
		// All hosts of a friend's domain are one domain, and its nofollow links are none.
		want := base + friends*3/2
		if r > 0 && n["good.test"] != want {
			t.Fatalf("round %d: %d URLs of good.test, want %d", r, n["good.test"], want)
		}
		var fresh []record.URL
		var links []record.Link
		for _, u := range batch {
			if canon.RegisteredDomain(u.Host) != "farm.test" {
				continue
			}
			for i := range each {
				v := newURL(fmt.Sprintf("h%d-%d-%d.farm.test", r, len(fresh), i), "", 0)
				fresh, links = append(fresh, v), append(links, linkTo(u, v), linkTo(v, u))
			}
		}
		for i, u := range seeds[1:] {
			u.Host = fmt.Sprintf("www%d.%s", r, u.Host)
			u.URL = "http://" + u.Host + "/"
			for k := range each {
				v := newURL(fmt.Sprintf("h%d.good.test", i), fmt.Sprintf("%d-%d", r, k), 0)
				fresh, links = append(fresh, v), append(links, linkTo(u, v))
				no := linkTo(u, seeds[0])
				no.Nofollow = true
				links = append(links, no)
			}
		}
		all += len(fresh)
		must.OK(t, b.budgeted(txn, by, batch, fresh, links))
		if r%7 == 0 {
			b.check()
		}
	}
	farm, found, err := b.f.Domain("x.farm.test")
	if err != nil || !found || farm.InDegree() != 0 || farm.Round <= rounds {
		t.Errorf("%+v, %v, %v", farm, found, err)
	}
	if good, _, err := b.f.Domain("good.test"); err != nil || good.InDegree() != friends {
		t.Errorf("%+v, %v", good, err)
	}
	held, err := b.f.Stat(t.Context(), StatOptions{})
	if err != nil || held.Held == 0 || held.Pending < held.Held {
		t.Fatal(held, err)
	}
	// When there is nothing else, no round is waited for; the budget holds all the same.
	for r := range 5 {
		txn := fmt.Sprintf("s%d", r)
		batch, err := b.next(1, NextOptions{N: 10_000, Txn: txn})
		must.OK(t, err)
		if n := taken(batch)["farm.test"]; n > base {
			t.Fatalf("%d URLs of the farm", n)
		}
		must.OK(t, b.budgeted(txn, by, batch, nil, nil))
	}
	b.check()
	// Without budgets all comes out in the end.
	for r := 0; ; r++ {
		txn := fmt.Sprintf("t%d", r)
		batch, err := b.next(1, NextOptions{N: 10_000, Txn: txn})
		must.OK(t, err)
		if len(batch) == 0 {
			break
		}
		taken(batch)
		must.OK(t, b.budgeted(txn, Budgets{}, batch, nil, nil))
	}
	b.check()
	if len(out) != all || b.counts().Finished != uint64(all) {
		t.Errorf("%d URLs came out, %d finished, want %d", len(out), b.counts().Finished, all)
	}
}

// Whatever is linked, held, put off and switched on and off: every URL comes out once,
// and none of a domain beyond what it had budget for.
func TestBudgetsLoseNothing(t *testing.T) {
	for seed, p := range []Params{{Priority: Priority{Strict: true, Queues: 2}}, {Policy: dynamic}, {Policy: fifo, Fifo: Fifo{Workers: 3}}} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 3))
			b := open(t, crashtest.New(), p)
			b.f.layout = layout{queueFan: 3, hostFan: 3, step: 1}
			state := map[string]int{} // 1: in the frontier, 2: out
			some := func() (urls []record.URL) {
				for range rng.IntN(25) {
					u := newURL(fmt.Sprintf("h%d.d%d.test", rng.IntN(30), rng.IntN(4)), fmt.Sprint(len(state)), uint8(rng.IntN(3)))
					state[u.URL] = 1
					urls = append(urls, u)
				}
				return urls
			}
			must.OK(t, b.add("seed", append(some(), newURL("first.test", "", 0))...))
			state["http://first.test/"] = 1
			for r := 0; ; r++ {
				txn := fmt.Sprintf("r%d", r)
				now := 1 + record.Time(r)*1_000_000_000
				batch, err := b.next(now, NextOptions{N: 1 + rng.IntN(40), PerHost: rng.IntN(3), Txn: txn})
				must.OK(t, err)
				if len(batch) == 0 {
					break
				}
				var outcomes []record.Fetch
				for _, u := range batch {
					if state[u.URL] != 1 {
						t.Fatalf("%s came out when its state was %d", u.URL, state[u.URL])
					}
					o := fetchOf(u, record.OutcomeFetched, 200, now)
					if rng.IntN(4) == 0 {
						o.Outcome = record.OutcomeDeferred
					} else {
						state[u.URL] = 2
					}
					outcomes = append(outcomes, o)
				}
				var fresh []record.URL
				var links []record.Link
				if r < 25 {
					fresh = some()
					for _, u := range fresh {
						links = append(links, linkTo(batch[rng.IntN(len(batch))], u))
					}
				}
				by := Budgets{Base: uint64(rng.IntN(4)), Growth: float64(rng.IntN(3))}
				if by.Base == 0 {
					by.Growth = 0
				}
				o := UpdateOptions{Txn: txn, Retries: DefaultRetries, Budgets: by,
					Outcomes: given(txn, outcomes),
					Links:    given(txn, links),
				}
				must.OK(t, b.updateFrom(txn, recordtest.In(txn, fresh...), o))
				if r%9 == 0 {
					b.check()
				}
			}
			b.check()
			for url, s := range state {
				if s != 2 {
					t.Errorf("%s never came out", url)
				}
			}
			if empty, err := b.f.Empty(never - 1); err != nil || !empty {
				t.Error(empty, err)
			}
		})
	}
}

// A budget is given away round by round, no further ahead than rounds have been.
func TestBook(t *testing.T) {
	var d Domain
	got := map[uint64]int{}
	for range 100 {
		got[chargeBudget(&d, 20, 3)]++
	}
	for round := uint64(21); round < 40; round++ {
		if got[round] != 3 {
			t.Errorf("%d URLs for round %d, want 3", got[round], round)
		}
	}
	if got[40] != 100-19*3 || len(got) != 20 {
		t.Errorf("%d URLs for round 40, and %d rounds", got[40], len(got))
	}
	if r := chargeBudget(&d, 30, 3); r != 41 {
		t.Errorf("round %d, want 41", r)
	}
	if r := chargeBudget(&d, 100, 3); r != 101 || d.Used != 1 {
		t.Errorf("round %d, used %d", r, d.Used)
	}
}

// So many domains count, and more take no memory.
func TestInDegreeIsBounded(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	must.OK(t, b.add("seed", newURL("a.test", "", 0)))
	at := 0
	for r, n := range []int{1, 1, MaxSources - 2, 5} {
		txn := fmt.Sprintf("r%d", r)
		batch, err := b.next(1, NextOptions{N: 1, Txn: txn})
		must.OK(t, err)
		var links []record.Link
		for range n {
			at++
			for range 3 {
				links = append(links, linkTo(newURL(fmt.Sprintf("s%d.test", at), "", 0), newURL("a.test", "", 0)))
			}
		}
		next := newURL("a.test", fmt.Sprint(r), 0)
		must.OK(t, b.budgeted(txn, Budgets{Base: 1}, batch, []record.URL{next}, links))
		d, _, err := b.f.Domain("a.test")
		if err != nil || d.InDegree() != min(at, MaxSources) || len(d.Sources) >= MaxSources {
			t.Errorf("%d links: %d, %d listed, %v", at, d.InDegree(), len(d.Sources), err)
		}
		b.check()
	}
}

func TestBudgetRefusals(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	for name, o := range map[string]UpdateOptions{
		"no links": {Retries: DefaultRetries, Budgets: Budgets{Base: 1}},
		"negative": {Retries: DefaultRetries, Budgets: Budgets{Base: 1, Growth: -1}},
		"unused":   {Retries: DefaultRetries, Budgets: Budgets{Growth: 1}},
		"huge":     {Retries: DefaultRetries, Budgets: Budgets{Base: maxBudget + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := b.updateFrom("r1", recordtest.In[record.URL]("r1"), o); !errors.Is(err, fault.Usage) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// Whatever stands in a link file as the page that links: it is taken for what it can be.
func TestLinksOfAnything(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	must.OK(t, b.add("seed", newURL("a.test", "", 0)))
	batch, err := b.next(1, NextOptions{N: 1, Txn: "r1"})
	must.OK(t, err)
	var links []record.Link
	for _, src := range []string{"", "x", "http:", "http://", "://", "/", "http://[::1", "http://b.test:", "?://b.test", "http://b.test"} {
		links = append(links, linkTo(record.URL{URL: src}, batch[0]), record.Link{SrcURL: src})
	}
	must.OK(t, b.budgeted("r1", Budgets{Base: 1, Growth: 1}, batch, nil, links))
	b.check()
}
