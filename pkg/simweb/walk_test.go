package simweb

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"testing"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
	"mercator/pkg/frontier"
	"mercator/pkg/merge"
	"mercator/pkg/view/stats"
	"mercator/pkg/web/canon"
)

// linkKinds are the kinds of links that a walk follows, without redirects.
var linkKinds = map[element]string{elemA: "a", elemNofollow: "a", elemArea: "area", elemFrame: "frame"}

// graph is the part of a web that a walk can reach: pages by number, as they are found breadth first.
type graph struct {
	urls      []record.URL
	number    map[string]int
	resources []resource
	out       [][]int // distinct
	document  []bool
}

func (g *graph) meet(w *Web, r resource) int {
	url := string(w.appendURL(nil, r))
	n, known := g.number[url]
	if !known {
		n = len(g.urls)
		u := record.URL{URL: url}
		_, u.Host, _ = canon.Split(url)
		u.Key = fingerprint.URLKey(u.Host, url)
		g.number[url], g.urls, g.resources = n, append(g.urls, u), append(g.resources, r)
	}
	return n
}

func newGraph(w *Web) *graph {
	g := &graph{number: map[string]int{}}
	g.meet(w, resource{})
	for i := 0; i < len(g.urls); i++ {
		r := g.resources[i]
		var out []int
		for _, l := range w.linksOf(r) {
			if linkKinds[l.elem] != "" {
				out = append(out, g.meet(w, l.to))
			}
		}
		slices.Sort(out)
		g.out = append(g.out, slices.Compact(out))
		g.document = append(g.document, r.kind != kindNoName && r.kind != kindRedirect && !w.denied(r) && w.status(r) == 200)
	}
	return g
}

// pageRank is how often a walk is at each page in the long run.
func (g *graph) pageRank(restart float64) []float64 {
	rank := make([]float64, len(g.urls))
	for i := range rank {
		rank[i] = 1 / float64(len(rank))
	}
	for range 100 {
		next := make([]float64, len(rank))
		jumps := 0.0
		for i, out := range g.out {
			if len(out) == 0 {
				jumps += rank[i]
				continue
			}
			jumps += restart * rank[i]
			for _, j := range out {
				next[j] += (1 - restart) * rank[i] / float64(len(out))
			}
		}
		for i := range next {
			next[i] += jumps / float64(len(next))
		}
		rank = next
	}
	return rank
}

// walkInMemory lets walkers of policy walk make rounds on the web, and gives their visits and links to s. The first half
// of the rounds does not count.
func (g *graph) walkInMemory(t *testing.T, seed uint64, rounds int) *stats.Walks {
	t.Helper()
	ctx := context.Background()
	opt := store.Options{FS: crashtest.New()}
	must.OK(t, frontier.Create("/frontier", frontier.Params{Policy: "walk", Seed: seed}, opt))
	f, err := frontier.Open("/frontier", opt)
	must.OK(t, err)
	spec := func(verb, txn string, shape stage.Shape) stage.Spec {
		return stage.Spec{Name: "mfrontier " + verb, Verb: verb, Store: f.Store(), Txn: txn, Now: 1, Shape: shape}
	}
	done := func(_ any, err error) {
		t.Helper()
		must.OK(t, err)
	}
	done(stage.Run(ctx, spec("add", "seed", stage.Sink), recordtest.In("seed", g.urls[:1]...), nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return f.Add(ctx, b, frontier.AddOptions{})
	}))
	var visits [][]record.Fetch
	var links []record.Link
	for r := range rounds {
		txn := fmt.Sprintf("r%d", r)
		done(stage.Run(ctx, spec("next", txn, stage.Source), nil, nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
			return f.Next(ctx, b, frontier.NextOptions{N: 100, Txn: txn})
		}))
		var fetched []record.Fetch
		from := len(links)
		err := f.EachURL(ctx, func(u *record.URL) error {
			n := g.number[u.URL]
			o := record.Fetch{URL: u.URL, Key: u.Key, Host: u.Host, Via: u.Via, Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 404}
			if g.document[n] {
				o.Status = 200
			} else if len(g.out[n]) > 0 {
				o.Status = 302
			}
			fetched = append(fetched, o)
			for _, i := range g.out[n] {
				to := &g.urls[i]
				links = append(links, record.Link{SrcURL: u.URL, SrcKey: u.Key, URL: to.URL, Key: to.Key, Host: to.Host, LinkKind: "a"})
			}
			if len(fetched) == 100 { // those in flight come first
				return io.EOF
			}
			return nil
		})
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		visits = append(visits, fetched)
		done(stage.Run(ctx, spec("update", txn, stage.Sink), recordtest.In(txn, links[from:]...), nil, func(ctx context.Context, b *stage.Batch[record.Link, record.URL]) error {
			return f.UpdateFromLinks(ctx, b, frontier.UpdateOptions{Txn: txn, Retries: frontier.Retries{MaxAttempts: 1},
				Outcomes: func() (stage.Input[record.Fetch], error) {
					return recordtest.In(txn, fetched...), nil
				}})
		}))
	}
	st, err := f.Stat(ctx, frontier.StatOptions{})
	must.OK(t, err)
	s := stats.NewWalks(1.0/7, st.Own.(*frontier.WalkStat).Starts, 3<<20)
	for r, fetched := range visits {
		s.Round()
		for i := range fetched {
			must.OK(t, s.Visit(&fetched[i], 2*r >= rounds))
		}
	}
	for i := range links {
		must.OK(t, s.Link(&links[i]))
	}
	return s
}

// A walk over synthetic webs tells which share of their documents sets of URLs hold, by number and by PageRank: the
// truth is within the error that is told in most cases, and never far off. A set of what is found first has the important
// pages, so that the two shares differ. MERCATOR_LONG takes more webs.
func TestWalkMeasuresSets(t *testing.T) {
	cases, within, webs := 0, 0, uint64(2)
	if os.Getenv("MERCATOR_LONG") != "" {
		webs = 20
	}
	for seed := uint64(201); seed <= 200+webs; seed++ {
		c := Default
		c.Seed, c.Hosts, c.Pages = seed, 20, 1500
		w := mustNew(t, c)
		g := newGraph(w)
		rank := g.pageRank(1.0 / 7)
		sets := []struct {
			name string
			has  func(n int) bool
		}{
			{"found first", func(n int) bool { return n < len(g.urls)/4 }},
			{"drawn", func(n int) bool { return mix(uint64(n))%10 < 3 }},
			{"every third host", func(n int) bool { return g.resources[n].host%3 == 1 }},
			{"all", func(int) bool { return true }},
			{"none", func(int) bool { return false }},
		}
		var names []string
		var sources []merge.Source
		for _, set := range sets {
			var keys []uint64
			for n := range g.urls {
				if set.has(n) {
					keys = append(keys, g.urls[n].Key)
				}
			}
			slices.Sort(keys)
			names, sources = append(names, set.name), append(sources, merge.Keys(keys))
		}
		s := g.walkInMemory(t, seed, 100)
		e, err := s.Estimate(names, sources)
		must.OK(t, err)
		must.OK(t, s.Close())
		for i, set := range sets {
			var quality, size, ranks, documents float64
			for n := range g.urls {
				if g.document[n] {
					documents++
					ranks += rank[n]
					if set.has(n) {
						size++
						quality += rank[n]
					}
				}
			}
			quality, size = quality/ranks, size/documents
			got := e.Sets[i]
			t.Logf("seed %d, %s: quality %.3f, estimated %.3f (%v to %v); size %.3f, estimated %.3f (%v to %v)", seed, set.name,
				quality, got.Quality.Share, got.Quality.Low, got.Quality.High, size, got.Size.Share, got.Size.Low, got.Size.High)
			for _, x := range []struct {
				want float64
				got  stats.Between
			}{{quality, got.Quality}, {size, got.Size}} {
				if math.Abs(x.want-x.got.Share) > 0.05 || x.want == math.Trunc(x.want) && x.got != (stats.Between{Share: x.want, Low: stats.Bound(x.want), High: stats.Bound(x.want)}) {
					t.Errorf("seed %d, %s: %+v, want %.4f", seed, set.name, x.got, x.want)
				}
				if x.want != math.Trunc(x.want) {
					cases++
					if float64(x.got.Low) <= x.want && x.want <= float64(x.got.High) {
						within++
					}
				}
			}
		}
	}
	if within < cases*2/3 {
		t.Errorf("the truth is within the error told in %d of %d cases", within, cases)
	}
	t.Logf("within the error told: %d of %d", within, cases)
}
