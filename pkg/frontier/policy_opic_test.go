package frontier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"testing"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/shard"
	"mercator/pkg/folder/stage"
)

// web is a random graph in which few pages have most of the links, and a model of
// policy opic on it: the definition, in memory, one page at a time. A crawl begins at page 0.
type web struct {
	urls  []record.URL
	links [][]int

	known  []bool
	waits  []bool
	credit []uint64 // of those that were fetched too: nobody gives it away, unless they wait again
	again  bool     // pages are fetched again
	owner  []int    // shard of each page
	lambda []uint64 // of each shard
}

func newWeb(pages int, seed uint64) *web {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &web{links: make([][]int, pages), known: make([]bool, pages), waits: make([]bool, pages), credit: make([]uint64, pages), owner: make([]int, pages), lambda: make([]uint64, 1)}
	popular := func() int { return int(float64(pages) * math.Pow(rng.Float64(), 3)) }
	for i := range pages {
		w.urls = append(w.urls, newURL(fmt.Sprintf("h%d.test", i*i%97), fmt.Sprint(i), 0))
		for range int(1/(rng.Float64()+0.02)) - 1 { // none for one in two, up to 49
			w.links[i] = append(w.links[i], popular())
		}
		if i > 0 { // each is reached from the first
			j := rng.IntN(i)
			w.links[j] = append(w.links[j], i)
		}
	}
	w.known[0], w.waits[0], w.credit[0] = true, true, seedCredit
	return w
}

// most returns the waiting page of a shard with the highest credit, the first of several, and its credit.
func (w *web) most(shard int) (page int, credit uint64) {
	page = -1
	for i, waits := range w.waits {
		if waits && w.owner[i] == shard && (page < 0 || w.credit[i] > credit) {
			page, credit = i, w.credit[i]
		}
	}
	return page, credit
}

// fetch gives the credit of pages away, and then that of each lambda page that has most.
func (w *web) fetch(pages ...int) {
	had := map[int]uint64{}
	for _, i := range pages {
		had[i] = w.credit[i]
		w.waits[i], w.credit[i] = w.again, 0
	}
	for i, credit := range had {
		to := map[int]bool{}
		for _, j := range w.links[i] {
			to[j] = true
		}
		delete(to, i)
		w.lambda[w.owner[i]] += credit
		for j := range to {
			if !w.known[j] {
				w.known[j], w.waits[j] = true, true
			}
			part := (credit - credit/10) / uint64(len(to))
			w.credit[j] += part
			w.lambda[w.owner[i]] -= part
		}
	}
	for shard := range w.lambda {
		if next, most := w.most(shard); next < 0 || w.lambda[shard] <= most {
			continue
		}
		var all []int
		for j, known := range w.known {
			if known && w.owner[j] == shard {
				all = append(all, j)
			}
		}
		for _, j := range all {
			w.credit[j] += w.lambda[shard] / uint64(len(all))
		}
		w.lambda[shard] %= uint64(len(all))
	}
}

// crawl fetches the web by batches and calls fetched for each URL; it ends after most URLs.
// Its rounds have no names, since a store keeps the names of all rounds.
func (w *web) crawl(t *testing.T, p Params, size, most int, fetched func(i int), updated func(b *bench)) {
	b := open(t, crashtest.New(), p)
	b.f.layout = layoutDefault
	index := map[string]int{}
	for i, u := range w.urls {
		index[u.URL] = i
	}
	must.OK(t, b.add("seed", w.urls[0]))
	seen := map[int]bool{0: true}
	for n, r := 0, 0; n < most; r++ {
		batch, err := b.next(1, NextOptions{N: size})
		must.OK(t, err)
		if len(batch) == 0 {
			break
		}
		n += len(batch)
		var fresh []record.URL
		b.links = b.links[:0]
		for _, u := range batch {
			for _, j := range w.links[index[u.URL]] {
				b.links = append(b.links, linkOf(u, w.urls[j]))
				if !seen[j] {
					seen[j] = true
					fresh = append(fresh, w.urls[j])
				}
			}
		}
		// Links come in any order.
		rand.New(rand.NewPCG(uint64(r), 2)).Shuffle(len(b.links), func(i, j int) { b.links[i], b.links[j] = b.links[j], b.links[i] })
		must.OK(t, b.update("", 1, fetchesOf(batch, record.OutcomeFetched, 200, 1), fresh...))
		for _, u := range batch {
			fetched(index[u.URL])
		}
		if updated != nil {
			updated(b)
		}
	}
	b.check()
}

func opicOf(s *state) *opicPolicy { return s.policy.hooks.(*opicPolicy) }

// credits returns the credits of a frontier's URLs, by URL.
func (b *bench) credits() (map[string]uint64, credits) {
	b.t.Helper()
	s, _, err := b.f.current()
	must.OK(b.t, err)
	all := map[string]uint64{}
	err = b.f.each(context.Background(), s, func(q queue, e *Entry) error {
		all[e.URL.URL] += opicOf(s).creditOf(q, e)
		return nil
	})
	must.OK(b.t, err)
	return all, opicOf(s).credits
}

// One URL at a time, each that is served has most credit by the definition, and
// every URL has the credit that it has there, to the unit. MERCATOR_LONG takes a graph of 10^4
// pages: 10^4 rounds, each of which writes all that waits.
func TestOpicIsGreedy(t *testing.T) {
	pages := 400
	if os.Getenv("MERCATOR_LONG") != "" {
		pages = 10_000
		defer debug.SetGCPercent(debug.SetGCPercent(800)) // a small heap and much garbage
	}
	opicIsGreedy(t, pages, pages, "")
	opicIsGreedy(t, 150, 450, "0s")
}

func opicIsGreedy(t *testing.T, pages, fetches int, refetch string) {
	w := newWeb(pages, 1)
	w.again = refetch != ""
	n := 0
	w.crawl(t, Params{Policy: opic, Seed: 3, Opic: Opic{Refetch: refetch}}, 1, fetches, func(i int) {
		if _, most := w.most(0); !w.waits[i] || w.credit[i] != most {
			t.Fatalf("fetch %d is of a URL with credit %d, another has %d", n, w.credit[i], most)
		}
		n++
		w.fetch(i)
	}, func(b *bench) {
		if n%50 != 0 {
			return
		}
		got, k := b.credits()
		if want := w.credits(0); !maps.Equal(got, want) || k.Lambda != w.lambda[0] {
			t.Fatalf("after %d fetches: credits %v, lambda %d, want %v, %d", n, got, k.Lambda, want, w.lambda[0])
		}
	})
	if n != fetches {
		t.Errorf("%d fetches of %d pages, want %d", n, pages, fetches)
	}
	t.Logf("%d fetches of %d pages, each of a page of most credit", n, pages)
}

// credits are the credits of a shard's URLs that wait.
func (w *web) credits(shard int) map[string]uint64 {
	all := map[string]uint64{}
	for i, waits := range w.waits {
		if waits && w.owner[i] == shard {
			all[w.urls[i].URL] = w.credit[i]
		}
	}
	return all
}

// In two shards every URL has the credit that it has by the definition, with a lambda page for each shard, to the unit, also when hosts go
// from one to the other. Half of the pages are fetched by the shard that does not own them.
func TestOpicInShards(t *testing.T) {
	for _, refetch := range []string{"", "0s"} {
		opicInShards(t, refetch)
	}
}

func opicInShards(t *testing.T, refetch string) {
	w := newWeb(300, 4)
	w.again, w.lambda = refetch != "", make([]uint64, 2)
	index, seen := map[string]int{}, map[int]bool{0: true}
	m, err := shard.New(2)
	must.OK(t, err)
	own := func() {
		for i, u := range w.urls {
			index[u.URL], w.owner[i] = i, m.Of(u.Key)
		}
	}
	own()
	var s sides
	for n := range s {
		dir := fmt.Sprintf("/crawl/shard/%03d/frontier", n)
		fs := crashtest.New()
		must.OK(t, Create(dir, Params{Policy: opic, Seed: 3, Opic: Opic{Refetch: refetch}}, store.Options{FS: fs}))
		f, err := Open(dir, store.Options{FS: fs})
		must.OK(t, err)
		s[n] = &bench{t: t, fs: fs, f: f}
	}
	must.OK(t, s[w.owner[0]].add("seed", w.urls[0]))
	gifts, moved := 0, 0
	for r := range 60 {
		txn := fmt.Sprintf("r%d", r)
		var pages []int
		var outcomes, fetched [2][]record.Fetch // by owner, and by the shard that fetches
		var links, given [2][]record.Link
		var fresh [2][]record.URL
		for n, b := range s {
			batch, err := b.next(1, NextOptions{N: 5, Txn: txn, Always: true})
			must.OK(t, err)
			for k, u := range batch {
				i := index[u.URL]
				o, by := fetchOf(u, record.OutcomeFetched, 200, 1), (n+i)%2
				if o.Extra = u.Extra; (k+r)%4 == 0 && u.Attempt == 0 { // it is tried again, and keeps its credit
					o.Outcome = record.OutcomeDeferred
				} else {
					pages = append(pages, i)
					for _, j := range w.links[i] {
						links[by] = append(links[by], linkOf(u, w.urls[j]))
						if !seen[j] {
							seen[j] = true
							fresh[w.owner[j]] = append(fresh[w.owner[j]], w.urls[j])
						}
					}
				}
				outcomes[n], fetched[by] = append(outcomes[n], o), append(fetched[by], o)
			}
		}
		for n, b := range s {
			rand.New(rand.NewPCG(uint64(r), 2)).Shuffle(len(links[n]), func(i, j int) { links[n][i], links[n][j] = links[n][j], links[n][i] })
			for _, l := range b.give(txn, fetched[n], links[n]) {
				to := m.Of(l.Key)
				given[to] = append(given[to], l)
				gifts++
			}
		}
		w.fetch(pages...)
		var moves int64
		for n, b := range s {
			b.links = given[n]
			must.OK(t, b.update(txn, 1, outcomes[n], fresh[n]...))
			b.check()
			got, k := b.credits()
			if want := w.credits(n); !maps.Equal(got, want) || k.Lambda != w.lambda[n] {
				t.Fatalf("round %d, shard %d: credits %v, lambda %d, want %v, %d", r, n, got, k.Lambda, want, w.lambda[n])
			}
			moves += k.Moved
		}
		if moves != 0 {
			t.Fatalf("round %d: %d units have come out of nothing", r, moves)
		}
		if r%7 != 6 {
			continue
		}
		next := &shard.Map{Version: m.Version + 1, Shards: 2, Owners: slices.Clone(m.Owners)}
		for i, u := range w.urls {
			if i%5 == r%5 && w.known[i] {
				next.Owners[shard.Bucket(u.Key)] = r % 2
			}
		}
		must.OK(t, s.move(fmt.Sprintf("move%d", r), m, next))
		was := slices.Clone(w.owner)
		m = next
		own()
		for n, b := range s {
			b.check()
			got, k := b.credits()
			if want := w.credits(n); !maps.Equal(got, want) || k.Lambda != w.lambda[n] {
				t.Fatalf("after move %d, shard %d: credits %v, lambda %d, want %v, %d", r, n, got, k.Lambda, want, w.lambda[n])
			}
			moves += k.Moved
		}
		if moves != 0 {
			t.Fatalf("after move %d: %d units have come out of nothing", r, moves)
		}
		if !slices.Equal(was, w.owner) {
			moved++
		}
	}
	t.Logf("%d rows of gifts, %d moves", gifts, moved)
	if gifts < 500 || moved < 5 {
		t.Error("the test shows little")
	}
}

// give is what the pages of a shard give.
func (b *bench) give(txn string, outcomes []record.Fetch, links []record.Link) []record.Link {
	b.t.Helper()
	var out recordtest.Output
	spec := stage.Spec{Name: "mfrontier give", Txn: txn, Like: CreditColumns}
	in := &recordtest.Input[record.Link]{All: links, Of: record.Schema{Kind: record.KindLink, Txn: txn}}
	_, err := stage.Run(context.Background(), spec, in, []stage.Output{&out}, func(ctx context.Context, s *stage.Batch[record.Link, record.Link]) error {
		return b.f.Give(ctx, s, given(txn, outcomes))
	})
	must.OK(b.t, err)
	rows, _ := recordtest.Rows[record.Link](b.t, &out)
	return rows
}

// In batches the order of a crawl is near to the order of the definition.
func TestOpicInBatches(t *testing.T) {
	const pages, size = 10_000, 200
	w := newWeb(pages, 2)
	greedy := make([]float64, pages) // rank of each page
	for n := range pages {
		best, _ := w.most(0)
		greedy[best] = float64(n)
		w.fetch(best)
	}
	n, first := 0, 0
	var sum float64
	w.crawl(t, Params{Policy: opic}, size, pages, func(i int) {
		d := greedy[i] - float64(n)
		sum += d * d
		if n < pages/5 && greedy[i] < pages/5 {
			first++
		}
		n++
	}, nil)
	spearman := 1 - 6*sum/(pages*(float64(pages)*pages-1))
	share := float64(first) / (pages / 5)
	t.Logf("batches of %d: rank correlation %.3f, %.0f %% of the first fifth", size, spearman, 100*share)
	if n != pages || spearman < 0.9 || share < 0.8 {
		t.Errorf("%d pages, rank correlation %.3f, %.0f %% of the first fifth, want %d, 0.9, 80 %%", n, spearman, 100*share, pages)
	}
}

// Equals come in an order that the seed draws.
func TestOpicTies(t *testing.T) {
	var urls []record.URL
	for i := range 300 {
		urls = append(urls, newURL(fmt.Sprintf("h%d.test", i), "", 0))
	}
	orders := map[string]bool{}
	for _, seed := range []uint64{0, 1, 1, 2} {
		b := open(t, crashtest.New(), Params{Policy: opic, Seed: seed})
		must.OK(t, b.add("", urls...))
		batch, err := b.next(1, NextOptions{N: 20})
		if err != nil || len(batch) != 20 {
			t.Fatal(batch, err)
		}
		orders[fmt.Sprint(batch)] = true
	}
	if len(orders) != 3 {
		t.Errorf("%d orders by three seeds", len(orders))
	}
}

// What a page's credit is divided by, and where it goes.
func TestOpicPayments(t *testing.T) {
	nofollow := func(l record.Link) record.Link { l.Nofollow = true; return l }
	page, a, b, gone := newURL("p.test", "", 0), newURL("a.test", "", 0), newURL("b.test", "", 0), newURL("gone.test", "", 0)
	later := newURL("later.test", "", 0)
	later.Due = 1e15
	part := func(n uint64) uint64 { return (seedCredit - seedCredit/10) / n }
	type want map[string]uint64
	for _, test := range []struct {
		name, outcome string
		links         []record.Link
		want          want // before the lambda page gives
	}{
		{"two", record.OutcomeFetched, []record.Link{linkOf(page, a), linkOf(page, b)}, want{a.URL: part(2), b.URL: part(2)}},
		{"repeated", record.OutcomeFetched, []record.Link{linkOf(page, a), linkOf(page, b), linkOf(page, a), linkOf(page, a)}, want{a.URL: part(2), b.URL: part(2)}},
		{"itself", record.OutcomeFetched, []record.Link{linkOf(page, a), linkOf(page, page)}, want{a.URL: part(1)}},
		{"nofollow", record.OutcomeFetched, []record.Link{nofollow(linkOf(page, a)), linkOf(page, b)}, want{b.URL: part(1)}},
		{"one that there is not", record.OutcomeFetched, []record.Link{linkOf(page, a), linkOf(page, gone), linkOf(page, b)}, want{a.URL: part(3), b.URL: part(3), gone.URL: part(3)}},
		{"none", record.OutcomeFetched, nil, want{}},
		{"those of another page", record.OutcomeFetched, []record.Link{linkOf(a, b)}, want{}},
		{"one that waits for a time", record.OutcomeFetched, []record.Link{linkOf(page, later)}, want{later.URL: part(1)}},
		{"not allowed", record.OutcomeRobotsDenied, nil, want{}},
		{"deferred", record.OutcomeDeferred, nil, want{page.URL: seedCredit}},
		{"to be tried again", record.OutcomeTimeout, nil, want{page.URL: seedCredit}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := open(t, crashtest.New(), Params{Policy: opic})
			must.OK(t, f.add("seed", page))
			_, err := f.next(1, NextOptions{N: 3, Txn: "r1"})
			must.OK(t, err)
			f.links = test.links
			must.OK(t, f.update("r1", 1, []record.Fetch{fetchOf(page, test.outcome, 0, 1)}, a, b, later))
			f.check()
			got, k := f.credits()
			kept := test.want[gone.URL]
			lambda, most := seedCredit-kept, uint64(0)
			for u, n := range test.want {
				if u != gone.URL {
					lambda -= n
					most = max(most, n)
				}
			}
			share := uint64(0)
			if lambda > most {
				const all = 4 // URLs; the page may be finished
				share, lambda = lambda/all, lambda%all
				kept += share * (all - uint64(len(got)))
			}
			for u, n := range got {
				if n != test.want[u]+share {
					t.Errorf("%s has %d, want %d", u, n, test.want[u]+share)
				}
			}
			if k.Lambda != lambda || k.Kept != kept || k.Total != seedCredit {
				t.Errorf("lambda has %d of %d, %d are kept, want %d of %d, %d", k.Lambda, k.Total, k.Kept, lambda, uint64(seedCredit), kept)
			}
			// What is added later has the same credit as others had, whatever the share is.
			must.OK(t, f.add("", gone))
			if got, _ = f.credits(); got[gone.URL] != seedCredit {
				t.Errorf("added with %d", got[gone.URL])
			}
			f.check()
		})
	}
}

// Pages with very many links, and ones that repeat them, take bounded memory.
func TestOpicDistinct(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []target
	lowest := map[uint64]bool{}
	for range 5 * maxTargets {
		order := rng.Uint64N(3 * maxTargets)
		lowest[order] = true
		if all = append(all, target{order: order}); len(all) == 2*maxTargets {
			all, _ = distinct(all)
		}
	}
	all, _ = distinct(all)
	want := slices.Sorted(maps.Keys(lowest))[:maxTargets]
	if len(all) != maxTargets {
		t.Fatal(len(all))
	}
	for i := range all {
		if all[i].order != want[i] {
			t.Fatalf("target %d is %d, want %d", i, all[i].order, want[i])
		}
	}
}

// No host fills a batch while others wait; where none do, it does.
func TestOpicHostShare(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: opic})
	var urls []record.URL
	for i := range 150 {
		urls = append(urls, newURL("big.test", fmt.Sprint(i), 0))
	}
	for i := range 150 {
		urls = append(urls, newURL(fmt.Sprintf("h%d.test", i), "", 0))
	}
	must.OK(t, b.add("", urls...))
	for r, want := range []struct{ n, all, big int }{{40, 40, 10}, {40, 40, 10}, {100, 100, 25}, {300, 120, 105}} {
		txn := fmt.Sprintf("r%d", r)
		batch, err := b.next(1, NextOptions{N: want.n, Txn: txn})
		if err != nil || len(batch) != want.all {
			t.Fatal(len(batch), err)
		}
		big := 0
		for _, u := range batch {
			if u.Host == "big.test" {
				big++
			}
		}
		if big != want.big {
			t.Errorf("%d of one host in a batch of %d, want %d", big, want.n, want.big)
		}
		must.OK(t, b.update(txn, 1, fetchesOf(batch, record.OutcomeFetched, 200, 1)))
	}
	b.check()
	// The hosts of a batch are counted in memory, and so are the hosts of its candidates, where many are dead.
	s, _, err := b.f.current()
	must.OK(t, err)
	p, err := newPicker(t.Context(), b.f.st, s, 1)
	must.OK(t, err)
	defer p.close()
	for n, want := range map[int]bool{10: true, MaxCapped: true, MaxCapped + 1: false} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if r := p.reserve(NextOptions{N: 10}, n); (r != nil) != want {
				t.Errorf("%d candidates: reserve %v", n, r)
			}
		})
	}
}

// Credits that an order cannot tell apart are kept all the same.
func TestOpicBeyondOrder(t *testing.T) {
	p := &opicPolicy{tax: 1, seed: 5}
	last := uint64(math.MaxUint64)
	for _, credit := range []int64{math.MinInt64, leastCredit, -1, 0, 1, seedCredit, leastCredit + creditSteps - 1} {
		e := Entry{VirtualTime: uint64(credit), URL: newURL("a.test", "", 0)}
		order := p.order(&e)
		if order > last || levelOf(order) != 0 {
			t.Errorf("credit %d has order %x after %x", credit, order, last)
		}
		last = order
	}
	b := open(t, crashtest.New(), Params{Policy: opic})
	must.OK(t, b.add("seed", newURL("a.test", "", 0)))
	// As if 2^29 URLs had been added and fetched.
	rich := func(s *state) { opicOf(s).Total += 1 << 61; opicOf(s).Lambda += 1 << 61 }
	b.change(rich)
	var fresh []record.URL
	for i := range 5 {
		fresh = append(fresh, newURL("b.test", fmt.Sprint(i), 0))
	}
	for r := range 3 {
		txn := fmt.Sprintf("r%d", r)
		batch, err := b.next(1, NextOptions{N: 1, Txn: txn})
		if err != nil || len(batch) != 1 {
			t.Fatal(batch, err)
		}
		must.OK(t, b.update(txn, 1, []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, 1)}, fresh...))
		if fresh = nil; r == 1 {
			if err := b.add("", newURL("c.test", "", 0)); err != nil { // its credit is far below zero
				t.Fatal(err)
			}
		}
		b.check()
	}
}

// All URLs together have so much credit and no more, whatever the rows say that are added; what was there before stays.
func TestCreditIsBounded(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: opic})
	var urls []record.URL
	for i, credit := range []uint64{1 << 61, math.MaxUint64, 5} {
		u := newURL("a.test", fmt.Sprint(i), 0)
		u.Extra = CreditColumns.Extra(func(string) uint64 { return credit })
		urls = append(urls, u)
	}
	must.OK(t, b.add("", urls...))
	have, all := b.credits()
	if want := fmt.Sprint(map[string]uint64{urls[0].URL: 1 << 61, urls[1].URL: mostCredit - 1<<61, urls[2].URL: 0}); fmt.Sprint(have) != want || all.Total != mostCredit {
		t.Errorf("%v, %d in all, want %v", have, all.Total, want)
	}
	b.check()
}

func TestOpicNeedsLinks(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: opic})
	err := b.updateFrom("r1", recordtest.In[record.URL]("r1"), UpdateOptions{Txn: "r1", Retries: DefaultRetries, Outcomes: given[record.Fetch]("r1", nil)})
	if !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
}

// A frontier with credits that do not add up is refused by Check.
func TestOpicCheck(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: opic})
	must.OK(t, b.add("seed", newURL("a.test", "", 0)))
	b.change(func(s *state) { opicOf(s).Lambda++ })
	if err := b.f.Check(context.Background()); !errors.Is(err, fault.No) {
		t.Error(err)
	}
}

// change changes the state behind everybody's back.
func (b *bench) change(fn func(*state)) {
	b.t.Helper()
	spec := stage.Spec{Name: "test", Verb: "add", Store: b.f.Store(), Shape: stage.Sink}
	_, err := stage.Run(context.Background(), spec, recordtest.In[record.URL](""), nil, func(_ context.Context, sb *stage.Batch[record.URL, record.URL]) error {
		var end record.URL
		if err := sb.Read(&end); err != io.EOF {
			return err
		}
		tx, err := sb.Begin(context.Background())
		if err != nil {
			return err
		}
		s, err := b.f.load(tx.Base())
		if err != nil {
			return err
		}
		fn(s)
		return s.save(tx)
	})
	must.OK(b.t, err)
}

// With refetch a page that was found waits again, for so long at least; the credit of one that is gone, and what it is
// given then, goes to the lambda page, and so to the URLs that wait.
func TestOpicRefetch(t *testing.T) {
	const hour = 3600e6
	f := open(t, crashtest.New(), Params{Policy: opic, Opic: Opic{Refetch: "1h"}})
	page, gone := newURL("p.test", "", 0), newURL("gone.test", "", 0)
	must.OK(t, f.add("seed", page, gone))
	for r, now := range []record.Time{hour, 2*hour - 1, 2 * hour} {
		txn := fmt.Sprintf("r%d", r)
		batch, err := f.next(now, NextOptions{N: 3, Txn: txn})
		if r == 1 {
			if err == nil && len(batch) > 0 {
				t.Fatalf("%v before its time", batch)
			}
			continue
		}
		if want := 2 - r/2; err != nil || len(batch) != want {
			t.Fatalf("a batch of %v, %v, want %d URLs", batch, err, want)
		}
		var outcomes []record.Fetch
		for _, u := range batch {
			status := uint16(200)
			if u.URL == gone.URL {
				status = 404
			}
			outcomes = append(outcomes, fetchOf(u, record.OutcomeFetched, status, now))
		}
		f.links = []record.Link{linkOf(page, gone)}
		must.OK(t, f.update(txn, now, outcomes))
		f.check()
		got, k := f.credits()
		if len(got) != 1 || got[page.URL] != 2*seedCredit || k.Lambda != 0 || k.Kept != 0 {
			t.Errorf("round %d: %v, %+v, want all credit with %s", r, got, k, page.URL)
		}
	}
	s, _, err := f.f.current()
	must.OK(t, err)
	if n := s.Counts; n.Discovered != 2 || n.Pending != 1 || n.Finished != 1 || n.Visits != 2 {
		t.Errorf("%+v", n)
	}
}
