package frontier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
)

// graph is a small web: the pages that each page links to.
type graph map[string][]string

func pageURL(page string) record.URL {
	host, path, _ := strings.Cut(page, "/")
	return newURL(host, path, 0)
}

// links are the link rows of a page.
func (g graph) links(page record.URL) (all []record.Link) {
	for _, to := range g[strings.TrimPrefix(page.URL, "http://")] {
		u := pageURL(to)
		all = append(all, record.Link{SrcURL: page.URL, SrcKey: page.Key, URL: u.URL, Key: u.Key, Host: u.Host, LinkKind: "a", Depth: page.Depth + 1})
	}
	return all
}

func (b *bench) walk(txn string, outcomes []record.Fetch, links []record.Link) error {
	return b.walkFrom(txn, links, UpdateOptions{
		Txn: txn, Retries: DefaultRetries,
		Outcomes: given(txn, outcomes),
	})
}

func (b *bench) walkFrom(txn string, links []record.Link, o UpdateOptions) error {
	spec := stage.Spec{Name: "mfrontier update", Verb: "update", Store: b.f.Store(), Txn: txn, Shape: stage.Sink}
	in := recordtest.In(txn, links...)
	_, err := stage.Run(context.Background(), spec, in, nil, func(ctx context.Context, s *stage.Batch[record.Link, record.URL]) error {
		return b.f.UpdateFromLinks(ctx, s, o)
	})
	return err
}

// round visits one batch of a graph and returns it.
func (b *bench) round(g graph, txn string, n int) []record.URL {
	b.t.Helper()
	batch, err := b.next(1, NextOptions{N: n, Txn: txn})
	must.OK(b.t, err)
	var links []record.Link
	for _, u := range batch { // of a page that two walkers visit the links come twice, as they do from mextract
		links = append(links, g.links(u)...)
	}
	must.OK(b.t, b.walk(txn, fetchesOf(batch, record.OutcomeFetched, 200, 1), links))
	return batch
}

// web has pages that link to many, to one (a redirect), to themselves, to none, a
// trap of two, and a page that nothing but a seed leads to.
var smallWeb = graph{
	"a.test/":  {"a.test/1", "a.test/2", "b.test/", "c.test/"},
	"a.test/1": {"a.test/"},
	"a.test/2": {"a.test/2", "b.test/"},
	"b.test/":  {"b.test/1", "b.test/2", "b.test/3"},
	"b.test/1": {"b.test/2"},
	"b.test/2": {"b.test/1"},
	"b.test/3": {},
	"c.test/":  {"a.test/", "b.test/1", "a.test/1"},
	"d.test/":  {"a.test/"},
}

// stationary is the frequency of visits in the long run, by power iteration.
func (g graph) stationary(restart float64) map[string]float64 {
	p := map[string]float64{}
	for page := range g {
		p[page] = 1 / float64(len(g))
	}
	for range 1000 {
		next := map[string]float64{}
		anew := 0.0
		for page, mass := range p {
			follow := mass * (1 - restart)
			if len(g[page]) == 0 {
				follow = 0
			}
			anew += mass - follow
			for _, to := range g[page] {
				next[to] += follow / float64(len(g[page]))
			}
		}
		for page := range g {
			next[page] += anew / float64(len(g))
		}
		p = next
	}
	return p
}

// The visits of 250 walkers match the stationary distribution. Walkers are
// independent, but the visits of one are not: they are counted in every 30th round
// only, after which (6/7)^30 = 1 % of the walks have not begun anew. So the counts
// are multinomial and chi-square applies: 26.1 is its 99.9 % quantile with 8 degrees
// of freedom. Of all visits the total variation distance is below 0.01.
func TestWalkFrequencies(t *testing.T) {
	const walkers, every, samples = 250, 20, 8
	b := open(t, crashtest.New(), Params{Policy: walk, Seed: 1, Walk: Walk{Walkers: walkers}})
	var seeds []record.URL
	for _, page := range []string{"a.test/", "d.test/"} {
		seeds = append(seeds, pageURL(page))
	}
	must.OK(t, b.add("seed", seeds...))
	sampled, all := map[string]float64{}, map[string]float64{}
	total := 0.0
	for round := range every * (samples + 1) {
		for _, u := range b.round(smallWeb, fmt.Sprintf("r%d", round), walkers) {
			page := strings.TrimPrefix(u.URL, "http://")
			if round >= every {
				all[page]++
				total++
				if round%every == every-1 {
					sampled[page]++
				}
			}
		}
	}
	b.check()
	chi, distance := 0.0, 0.0
	for page, p := range smallWeb.stationary(1.0 / 7) {
		want := p * walkers * samples
		chi += (sampled[page] - want) * (sampled[page] - want) / want
		distance += math.Abs(all[page]/total-p) / 2
		t.Logf("%-9s expected %.4f, visited %.4f", page, p, all[page]/total)
	}
	t.Logf("chi-square %.1f, total variation %.4f over %.0f visits", chi, distance, total)
	if chi > 26.1 || distance > 0.01 {
		t.Errorf("chi-square %.1f, total variation %.4f", chi, distance)
	}
	st, err := b.f.Stat(context.Background(), StatOptions{})
	must.OK(t, err)
	if st.Own.(*WalkStat).Starts != uint64(len(smallWeb)) || st.Own.(*WalkStat).Steps+st.Own.(*WalkStat).Restarts != st.Discovered || st.Pending != walkers {
		t.Errorf("%+v %+v", st.Own, st.Counts)
	}
}

func TestStartSetIsDrawnUniformly(t *testing.T) {
	// Restart 1: each visit is a draw. The set is added in parts, so that it stands in
	// several runs, and most of it is merged.
	const urls, parts, walkers, rounds = 300, 30, 1000, 30
	b := open(t, crashtest.New(), Params{Policy: walk, Seed: 4, Walk: Walk{Walkers: walkers, Restart: 1}})
	b.f.layout = layout{queueFan: 3, hostFan: 3, step: 7}
	for part := range parts {
		var add []record.URL
		for i := range urls / parts {
			add = append(add, newURL(fmt.Sprintf("h%d.test", i), fmt.Sprint(part), 0))
		}
		add = append(add, add[0]) // twice: dropped as seen
		must.OK(t, b.add(fmt.Sprintf("seed%d", part), add...), b.add(fmt.Sprintf("again%d", part), add...))
	}
	n := map[string]float64{}
	for round := range rounds + 1 {
		for _, u := range b.round(graph{}, fmt.Sprintf("r%d", round), walkers) {
			if round > 0 { // walks began when the set had its first URLs
				n[u.URL]++
			}
			if u.Depth != 0 || u.Via != "" {
				t.Fatal(u)
			}
		}
	}
	b.check()
	chi, want := 0.0, float64(walkers*rounds)/urls
	for _, k := range n {
		chi += (k - want) * (k - want) / want
	}
	chi += float64(urls-len(n)) * want
	if chi > 380 { // 99.9 % quantile of 299 degrees of freedom
		t.Errorf("chi-square %.0f over %d URLs", chi, len(n))
	}
}

func TestWalkRepeats(t *testing.T) {
	trace := func(seed uint64) string {
		b := open(t, crashtest.New(), Params{Policy: walk, Seed: seed, Walk: Walk{Walkers: 5}})
		must.OK(t, b.add("seed", pageURL("a.test/")))
		var all strings.Builder
		for round := range 20 {
			for _, u := range b.round(smallWeb, fmt.Sprintf("r%d", round), 3) {
				fmt.Fprintln(&all, u.URL, u.Via, u.Depth)
			}
		}
		return all.String()
	}
	if a, b := trace(7), trace(7); a != b {
		t.Errorf("one seed, two walks:\n%s\n%s", a, b)
	}
	if trace(7) == trace(8) {
		t.Error("two seeds, one walk")
	}
}

// A page's links are walked alike, however often and with whatever texts the page has each.
func TestWalkTargetsOnce(t *testing.T) {
	trace := func(seed uint64, texts int) string {
		b := open(t, crashtest.New(), Params{Policy: walk, Seed: seed, Walk: Walk{Walkers: 5, Restart: 0.01}})
		must.OK(t, b.add("seed", pageURL("a.test/")))
		var all strings.Builder
		for round := range 20 {
			txn := fmt.Sprint("r", round)
			batch, err := b.next(1, NextOptions{N: 3, Txn: txn})
			must.OK(t, err)
			var links []record.Link
			for _, u := range batch {
				fmt.Fprintln(&all, u.URL, u.Via, u.Depth)
				for i, l := range smallWeb.links(u) {
					for n := range 1 + i*texts {
						l.Text = strings.Repeat("x", n)
						links = append(links, l)
					}
				}
			}
			must.OK(t, b.walk(txn, fetchesOf(batch, record.OutcomeFetched, 200, 1), links))
		}
		b.check()
		return all.String()
	}
	for seed := range uint64(5) {
		if once, often := trace(seed, 0), trace(seed, 3); once != often {
			t.Errorf("seed %d: a link of several texts leads elsewhere:\n%s\n%s", seed, once, often)
		}
	}
}

// standingAt names the visits that wait, with how many walkers each has.
func (b *bench) standingAt() map[string]int {
	b.t.Helper()
	n := map[string]int{}
	must.OK(b.t, b.f.EachURL(context.Background(), func(u *record.URL) error { n[visitOf(u)]++; return nil }))
	return n
}

// visit identifies the visit of an outcome.
type visit struct {
	url     string
	attempt uint8
}

func visitOf(u *record.URL) string {
	return fmt.Sprintf("%s from %q, %d links deep, attempt %d, due %d", u.URL, u.Via, u.Depth, u.Attempt, u.Due)
}

// Whatever becomes of visits, and however many are in a batch, each that was scheduled
// comes out exactly once, and each that has its final outcome is followed by exactly one:
// of a page that it links to, or of any that was found.
func TestWalkAgainstModel(t *testing.T) {
	kinds := []string{record.OutcomeFetched, record.OutcomeFetched, record.OutcomeFetched, record.OutcomeTimeout, record.OutcomeRobotsDenied, record.OutcomeDeferred, record.OutcomeAddress, record.OutcomeParked}
	for seed, size := range []int{1, 4, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 5))
			const walkers = 12
			b := open(t, crashtest.New(), Params{Policy: walk, Seed: uint64(seed), Walk: Walk{Walkers: walkers, Restart: 0.3}})
			b.f.layout = layout{queueFan: 3, hostFan: 3, step: 1}
			found := map[string]bool{}
			add := func(pages ...string) {
				var urls []record.URL
				for _, page := range pages {
					u := pageURL(page)
					u.Due, u.Depth, u.Attempt = 7, 7, 7 // say nothing of a visit
					urls = append(urls, u)
					found[u.URL] = true
				}
				must.OK(t, b.add("", urls...))
			}
			add("a.test/")
			waiting := b.standingAt()
			now := record.Time(1)
			visits := uint64(0)
			for round := range 150 {
				if round%50 == 10 {
					add("d.test/", fmt.Sprintf("e.test/%d", round))
				}
				var err error
				now, err = b.f.Wait(context.Background(), now+1000, 1, func(context.Context, record.Time) error { return nil })
				must.OK(t, err)
				batch, err := b.next(now, NextOptions{N: size})
				if err != nil || len(batch) == 0 || len(batch) > size {
					t.Fatal(len(batch), err)
				}
				var outcomes []record.Fetch
				var links []record.Link
				want := map[string]int{} // visits that go on waiting
				ended, next := 0, map[string]bool{}
				outcome := map[visit]string{} // where visits differ in their way alone, nobody can tell which outcome belongs to which visit
				for _, u := range batch {
					v := visitOf(&u)
					if waiting[v] == 0 || u.Due > now {
						t.Fatalf("round %d: %s comes out, but waits %d times", round, v, waiting[v])
					}
					waiting[v]--
					if outcome[visit{u.URL, u.Attempt}] == "" {
						outcome[visit{u.URL, u.Attempt}] = kinds[rng.IntN(len(kinds))]
					}
					o := fetchOf(u, outcome[visit{u.URL, u.Attempt}], 200, now)
					if o.Outcome == record.OutcomeParked {
						o.RetryAfter = never
					}
					outcomes = append(outcomes, o)
					again := u
					switch {
					case o.Outcome == record.OutcomeDeferred:
						again.Due = 0
						want[visitOf(&again)]++
						continue
					case o.Outcome == record.OutcomeTimeout && u.Attempt < 2:
						again.Attempt++
						again.Due = now + 1000 + 60e6<<u.Attempt
						want[visitOf(&again)]++
						continue
					case o.Outcome == record.OutcomeFetched:
						links = append(links, smallWeb.links(u)...)
						links = append(links, record.Link{SrcURL: u.URL, URL: u.URL + "?img", Host: u.Host, LinkKind: "img"})
					}
					ended++
				}
				for _, l := range links {
					if l.LinkKind == "a" {
						found[l.URL] = true
						next[l.SrcURL+" "+l.URL] = true
					}
				}
				links = append(links, record.Link{SrcURL: "http://a.test/robots.txt", URL: "http://a.test/never", Host: "a.test", LinkKind: "redirect"})
				rng.Shuffle(len(outcomes), func(i, j int) { outcomes[i], outcomes[j] = outcomes[j], outcomes[i] })
				rng.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
				must.OK(t, b.walk("", outcomes, links))
				visits += uint64(ended)
				for v, n := range waiting {
					want[v] += n
				}
				waiting = b.standingAt()
				for v, n := range want {
					if waiting[v] < n {
						t.Fatalf("round %d: %s waits %d times, want %d", round, v, waiting[v], n)
					}
				}
				fresh := 0
				must.OK(t, b.f.EachURL(context.Background(), func(u *record.URL) error {
					if v := visitOf(u); want[v] > 0 {
						want[v]--
						return nil
					}
					fresh++
					if !found[u.URL] || u.Via != "" && !next[u.Via+" "+u.URL] || u.Via == "" && u.Depth != 0 || u.Due != 0 {
						t.Errorf("round %d: a new visit of %s", round, visitOf(u))
					}
					return nil
				}))
				if fresh != ended {
					t.Fatalf("round %d: %d new visits for %d that ended", round, fresh, ended)
				}
				b.check()
			}
			st, err := b.f.Stat(context.Background(), StatOptions{})
			must.OK(t, err)
			if st.Finished != visits || st.Discovered != visits+walkers || st.Own.(*WalkStat).Starts != uint64(len(found)) {
				t.Errorf("%d visits of %d pages: %+v %+v", visits, len(found), st.Counts, st.Own)
			}
		})
	}
}

func TestWalkRefusals(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: walk, Walk: Walk{Walkers: 2}})
	if err := b.walk("r0", nil, nil); err != nil {
		t.Fatal("the round of an empty frontier: ", err)
	}
	seeds := []record.URL{pageURL("a.test/"), pageURL("b.test/")}
	must.OK(t, b.add("seed", seeds...))
	batch, err := b.next(1, NextOptions{N: 9, Txn: "r1"})
	if err != nil || len(batch) != 2 {
		t.Fatal(batch, err)
	}
	outcomes := fetchesOf(batch, record.OutcomeFetched, 200, 1)
	if err := b.update("r1", 1, outcomes, seeds...); !errors.Is(err, fault.Usage) {
		t.Error("new URLs: ", err)
	}
	if err := b.walk("r1", outcomes[:1], nil); !errors.Is(err, fault.Conflict) {
		t.Error("an outcome is missing: ", err)
	}
	deep := record.Link{SrcURL: batch[0].URL, URL: "http://deep.test/", Host: "deep.test", LinkKind: "a", Depth: 3}
	long := record.Link{SrcURL: batch[0].URL, URL: "http://long.test/" + strings.Repeat("x", 1<<16), Host: "long.test", LinkKind: "a"}
	fetches := given("r1", outcomes)
	for name, o := range map[string]UpdateOptions{
		"host limit":   {Limits: Limits{HostURLs: 5}},
		"prioritizer":  {Prioritizer: Prioritizer{Command: ByDepth}},
		"second links": {Links: given[record.Link]("", nil)},
		"depth":        {Limits: Limits{Depth: -1}},
		"budget":       {Budgets: Budgets{Base: 1}},
		"growth":       {Budgets: Budgets{Growth: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			o.Txn, o.Retries, o.Outcomes = "r1", DefaultRetries, fetches
			if err := b.walkFrom("r1", nil, o); !errors.Is(err, fault.Usage) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	must.OK(t, b.walkFrom("r1", []record.Link{deep, long}, UpdateOptions{Txn: "r1", Retries: DefaultRetries, Limits: Limits{Depth: 2}, Outcomes: fetches}))
	st, err := b.f.Stat(context.Background(), StatOptions{})
	if err != nil || st.Own.(*WalkStat).Starts != 2 || st.Own.(*WalkStat).Steps != 0 {
		t.Error(st.Own, err)
	}
	b.check()
}

// Two walks on one page are each as deep as their own way there was long, and the
// limit of depth ends the walk that is deeper.
func TestWalkDepth(t *testing.T) {
	const most = 5
	g := graph{"a.test/": {"a.test/"}}
	b := open(t, crashtest.New(), Params{Policy: walk, Walk: Walk{Walkers: 2, Restart: 1e-9}})
	must.OK(t, b.add("seed", pageURL("a.test/")))
	for round := range most + 1 {
		txn := fmt.Sprint("r", round)
		batch, err := b.next(1, NextOptions{N: min(round+1, 2), Txn: txn}) // in the first round one moves alone
		must.OK(t, err)
		var links []record.Link
		for _, u := range batch {
			links = append(links, g.links(u)...)
		}
		o := UpdateOptions{Txn: txn, Retries: DefaultRetries, Limits: Limits{Depth: most}, Outcomes: given(txn, fetchesOf(batch, record.OutcomeFetched, 200, 1))}
		must.OK(t, b.walkFrom(txn, links, o))
		var depths []int
		must.OK(t, b.f.EachURL(context.Background(), func(u *record.URL) error { depths = append(depths, int(u.Depth)); return nil }))
		slices.Sort(depths)
		want := []int{round, round + 1}
		if round == most {
			want = []int{0, most}
		}
		if !slices.Equal(depths, want) {
			t.Fatalf("round %d: %d links deep, want %d", round, depths, want)
		}
	}
	b.check()
}

// What is known of a page from before does not keep a walk from its links.
func TestWalkAsksForWholePages(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: walk, Walk: Walk{Walkers: 1}})
	u := pageURL("a.test/")
	u.ETag, u.LastModified, u.LastContentFP = `"1"`, "Thu, 01 Jan 2026 00:00:00 GMT", 7
	must.OK(t, b.add("seed", u))
	batch, err := b.next(1, NextOptions{N: 1, Txn: "r1"})
	if err != nil || len(batch) != 1 || batch[0].ETag != "" || batch[0].LastModified != "" || batch[0].LastContentFP != 0 {
		t.Error(batch, err)
	}
}
