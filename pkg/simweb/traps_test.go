package simweb

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/shard"
	"mercator/pkg/folder/stage"
	"mercator/pkg/frontier"
	"mercator/pkg/web/canon"
)

// spent counts the fetches of a crawl.
type spent struct {
	traps   int // on pages of traps
	entries int // fetches in traps that were the first of a trap's first page
	others  int // pages that are not of traps
}

// crawlInMemory makes n fetches on a web under a policy, in batches of size, each of as many parts as there are shards.
// Links come from what the pages are made of.
func crawlInMemory(t *testing.T, w *Web, p frontier.Params, n, size, shards int) (s spent) {
	t.Helper()
	ctx := context.Background()
	owners, err := shard.New(shards)
	must.OK(t, err)
	all := make([]*frontier.Frontier, shards)
	for i := range all {
		opt := store.Options{FS: crashtest.New()}
		must.OK(t, frontier.Create("/frontier", p, opt))
		all[i], err = frontier.Open("/frontier", opt)
		must.OK(t, err)
	}
	seen := map[string]resource{}
	fresh := make([][]record.URL, shards)
	meet := func(r resource) record.URL {
		u := record.URL{URL: string(w.appendURL(nil, r))}
		_, u.Host, _ = canon.Split(u.URL)
		u.Key = fingerprint.URLKey(u.Host, u.URL)
		if _, ok := seen[u.URL]; !ok {
			seen[u.URL] = r
			of := owners.Of(u.Key)
			fresh[of] = append(fresh[of], u)
		}
		return u
	}
	run := func(f *frontier.Frontier, verb, txn string, in stage.Input[record.URL], body func(context.Context, *stage.Batch[record.URL, record.URL]) error) {
		t.Helper()
		spec := stage.Spec{Name: "mfrontier " + verb, Verb: verb, Store: f.Store(), Txn: txn, Now: 1, Shape: map[bool]stage.Shape{true: stage.Source, false: stage.Sink}[verb == "next"]}
		if _, err := stage.Run(ctx, spec, in, nil, body); err != nil {
			t.Fatal(err)
		}
	}
	for b := range 3 {
		meet(resource{host: int32(b * blockSize)})
	}
	for i, f := range all {
		run(f, "add", "seed", recordtest.In("seed", fresh[i]...), func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
			return f.Add(ctx, b, frontier.AddOptions{})
		})
	}
	sitemaps := map[int32]bool{}
	entered, others := map[resource]bool{}, map[string]bool{}
	for done, round := 0, 0; done < n; round++ {
		txn := fmt.Sprintf("r%d", round)
		part := (min(size, n-done) + shards - 1) / shards
		fetched, links := make([][]record.Fetch, shards), make([][]record.Link, shards)
		var at, flying int // shard of the page; pages of that in flight
		take := func(u *record.URL) error {
			if len(fetched[at]) == flying { // those in flight come first
				return io.EOF
			}
			r := seen[u.URL]
			switch trap := (resource{host: r.host, kind: r.kind}); {
			case !w.trapped(u.URL):
				others[u.URL] = true
			case !entered[trap]:
				entered[trap] = true
				s.traps++
			default:
				s.traps++
			}
			fetched[at] = append(fetched[at], record.Fetch{URL: u.URL, Key: u.Key, Host: u.Host, Role: record.RolePage, Outcome: record.OutcomeFetched, Status: uint16(w.status(r)), Extra: u.Extra})
			if r.kind != kindNoName && w.hasSitemap(r.host) && !sitemaps[r.host] {
				sitemaps[r.host] = true
				meet(resource{host: r.host, kind: kindSitemap})
			}
			for _, l := range w.linksOf(r) {
				v := meet(l.to)
				links[at] = append(links[at], record.Link{SrcURL: u.URL, SrcKey: u.Key, URL: v.URL, Key: v.Key, Host: v.Host, Nofollow: l.elem == elemNofollow})
			}
			return nil
		}
		before := done
		for i, f := range all {
			run(f, "next", txn, nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
				return f.Next(ctx, b, frontier.NextOptions{N: part, Txn: txn, Always: shards > 1})
			})
			fresh[i] = fresh[i][:0]
		}
		for i, f := range all {
			each := f.EachURL
			if shards > 1 { // with their credit
				each = f.EachExported
			}
			st, err := f.Stat(ctx, frontier.StatOptions{})
			must.OK(t, err)
			at, flying = i, int(st.InFlight)
			if err := each(ctx, take); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			done += len(fetched[i])
		}
		if done == before {
			t.Fatalf("only %d URLs", done)
		}
		if shards > 1 {
			links = give(t, all, owners, txn, fetched, links)
		}
		for i, f := range all {
			run(f, "update", txn, recordtest.In(txn, fresh[i]...), func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
				return f.Update(ctx, b, frontier.UpdateOptions{Txn: txn, Retries: frontier.Retries{MaxAttempts: 1},
					Outcomes: func() (stage.Input[record.Fetch], error) {
						return recordtest.In(txn, fetched[i]...), nil
					},
					Links: func() (stage.Input[record.Link], error) {
						return recordtest.In(txn, links[i]...), nil
					}})
			})
		}
	}
	s.entries, s.others = len(entered), len(others)
	return s
}

// give divides the credit of the pages of all shards. What it returns is for the updates of the shards.
func give(t *testing.T, all []*frontier.Frontier, owners *shard.Map, txn string, fetched [][]record.Fetch, links [][]record.Link) [][]record.Link {
	t.Helper()
	given := make([][]record.Link, len(all))
	for i, f := range all {
		var out recordtest.Output
		in := &recordtest.Input[record.Link]{All: links[i], Of: record.Schema{Kind: record.KindLink, Txn: txn}}
		spec := stage.Spec{Name: "mfrontier give", Txn: txn, Like: frontier.CreditColumns}
		_, err := stage.Run(t.Context(), spec, in, []stage.Output{&out}, func(ctx context.Context, b *stage.Batch[record.Link, record.Link]) error {
			return f.Give(ctx, b, func() (stage.Input[record.Fetch], error) { return recordtest.In(txn, fetched[i]...), nil })
		})
		must.OK(t, err)
		rows, _ := recordtest.Rows[record.Link](t, &out)
		for _, l := range rows {
			given[owners.Of(l.Key)] = append(given[owners.Of(l.Key)], l)
		}
	}
	return given
}

// linksOf are the links that a crawl finds in a reply.
func (w *Web) linksOf(r resource) (to []link) {
	switch {
	case r.kind == kindNoName || w.denied(r):
	case r.kind == kindRedirect:
		target, _ := w.redirection(r)
		to = append(to, link{to: target})
	case r.kind == kindSitemap:
		for _, target := range w.appendSitemapTargets(nil, r) {
			to = append(to, link{to: target})
		}
	case w.status(r) == 200:
		to = w.appendLinks(nil, r)
	}
	return to
}

// An almanac's pages are what their URLs say, to the last; hosts beside have none.
func TestAlmanac(t *testing.T) {
	c := Default
	c.Traps = 3
	w := mustNew(t, c)
	for _, r := range []resource{{9, kindAlmanac, 0, 0}, {19, kindAlmanac, almanacPages - 1, 0}} {
		url := string(w.appendURL(nil, r))
		if got := w.resolve(r.host, string(w.appendTarget(nil, r))); got != r || !w.trapped(url) {
			t.Errorf("%s is %v, want %v", url, got, r)
		}
	}
	if n := len(w.appendLinks(nil, resource{9, kindAlmanac, 7, 0})); n != 1+almanacDays {
		t.Errorf("%d links", n)
	}
	if n := len(w.appendLinks(nil, resource{9, kindAlmanac, almanacPages - 1, 0})); n != 1 {
		t.Errorf("%d links of the last page", n)
	}
	for _, r := range []resource{{6, kindAlmanac, 0, 0}, {7, kindAlmanac, 0, 0}, {9, kindAlmanac, almanacPages, 0}} {
		if url := string(w.appendURL(nil, r)); w.trapped(url) || w.status(w.resolve(r.host, string(w.appendTarget(nil, r)))) != 404 {
			t.Errorf("%s is there", url)
		}
	}
	if w.trapped("http://example.org/almanac/1.html") || w.trapped("") {
		t.Error("a page of another web is of a trap of this one")
	}
}

// Of the first 5,000 fetches on a web in which three of ten hosts have an almanac without end,
// policy opic spends at most a fifth of what fifo spends on traps. MERCATOR_LONG takes other webs, too. On some
// opic without refetch does worse: where more hosts are traps, and where nothing but traps is left. With refetch
// it keeps to a fifth wherever fifo goes into traps. Where fifo comes to little but their first pages,
// opic enters fewer: nothing tells a first page from the others that the root of its host links to.
// In four shards, each with batches of its own, it is as good with refetch, and without it better than fifo.
func TestOpicAvoidsTraps(t *testing.T) {
	type web struct {
		hosts, pages, traps int
		fetches, batch      int
		most                float64 // of what fifo spends, without refetch
		least               float64 // as well
	}
	webs := []web{
		{50, 3000, 3, 5000, 250, 0.2, 0},
		{10, 200, 3, 522, 25, 1, 0.5}, // "mcrawl new" warns of that
	}
	seeds := []uint64{101}
	if os.Getenv("MERCATOR_LONG") != "" {
		webs = append(webs, []web{
			{50, 3000, 3, 5000, 50, 0.2, 0},
			{50, 3000, 3, 5000, 1000, 0.2, 0},
			{50, 3000, 1, 5000, 250, 0.2, 0},
			{50, 3000, 5, 5000, 250, 0.25, 0},
			{50, 3000, 9, 5000, 250, 0.4, 0},
			{100, 5000, 3, 5000, 250, 0.2, 0},
			{100, 5000, 9, 5000, 250, 0.3, 0},
			{500, 3000, 3, 5000, 250, 0.4, 0},
			{50, 10000, 5, 5000, 250, 0.6, 0},
			{100, 20000, 5, 5000, 250, 1, 0},
			{100, 20000, 9, 5000, 250, 1, 0},
			{100, 20000, 5, 20000, 1000, 0.2, 0},
			{500, 50000, 3, 5000, 250, 1, 0},
			{200, 1000, 3, 5000, 250, 1, 0},
			{10, 1000, 3, 5000, 250, 1, 0},
		}...)
		seeds = append(seeds, 102, 103)
	}
	for i, x := range webs {
		for n, seed := range seeds {
			if i > 0 && n > 0 {
				break
			}
			c := Default
			c.Seed, c.Hosts, c.Pages, c.Traps = seed, x.hosts, x.pages, x.traps
			w := mustNew(t, c)
			fifo := crawlInMemory(t, w, frontier.Params{Policy: "fifo"}, x.fetches, x.batch, 1)
			once := crawlInMemory(t, w, frontier.Params{Policy: "opic"}, x.fetches, x.batch, 1)
			again := crawlInMemory(t, w, frontier.Params{Policy: "opic", Opic: frontier.Opic{Refetch: "0s"}}, x.fetches, x.batch, 1)
			of := func(s spent) float64 { return float64(s.traps) / float64(fifo.traps) }
			inShards := crawlInMemory(t, w, frontier.Params{Policy: "opic"}, x.fetches, x.batch, 4)
			againInShards := crawlInMemory(t, w, frontier.Params{Policy: "opic", Opic: frontier.Opic{Refetch: "0s"}}, x.fetches, x.batch, 4)
			t.Logf("in four shards: opic %d (%.2f), with refetch %d (%.2f); others %d, %d", inShards.traps, of(inShards), againInShards.traps, of(againInShards), inShards.others, againInShards.others)
			if x.most <= 0.2 && of(inShards) > 0.6 || fifo.entries <= fifo.traps/2 && of(againInShards) > 0.25 { // a shard that has only poor pages left takes these
				t.Errorf("in four shards opic spends %d on traps, with refetch %d, fifo %d, want at most 0.6 and 0.25 of that", inShards.traps, againInShards.traps, fifo.traps)
			}
			t.Logf("seed %d, %d hosts, %d pages, --traps %d: of %d fetches in batches of %d on traps: fifo %d (%d first pages), opic %d (%.2f), with refetch %d (%.2f, %d first pages); others %d, %d, %d",
				seed, x.hosts, x.pages, x.traps, x.fetches, x.batch, fifo.traps, fifo.entries, once.traps, of(once), again.traps, of(again), again.entries, fifo.others, once.others, again.others)
			if of(once) > x.most || of(once) < x.least {
				t.Errorf("opic spends %d on traps, fifo %d, want %v to %v of that", once.traps, fifo.traps, x.least, x.most)
			}
			switch {
			case fifo.entries > fifo.traps/2:
				if again.entries > fifo.entries/2 {
					t.Errorf("with refetch, opic enters %d traps, want at most half of fifo's %d", again.entries, fifo.entries)
				}
			case of(again) > 0.2:
				t.Errorf("with refetch, opic spends %d on traps, fifo %d, want at most a fifth of that", again.traps, fifo.traps)
			}
		}
	}
}

// trapped reports whether a URL of this web is a page of a trap: of a calendar, a shop
// that puts session ids into URLs, or what Config.Hard and Config.Traps add without end.
func (w *Web) trapped(url string) bool {
	name, target, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	host, ok := w.parseHost(name)
	if !ok {
		return false
	}
	switch w.resolve(host, "/"+target).kind {
	case kindCalendar, kindSession, kindDeep, kindAlmanac:
		return true
	}
	return false
}
