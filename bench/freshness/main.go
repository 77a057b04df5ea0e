// Command freshness crawls a synthetic web with pages that change at known rates, under
// policy revisit and under a uniform schedule, with the same number of fetches. It prints
// the share of copies that matched their page, on average over time:
//
//	go run ./bench/freshness
//	go run ./bench/freshness -pages 2000 -every 48h -days 60
//	go run ./bench/freshness -silent
//	go run ./bench/freshness -queues 3
//	go run ./bench/freshness -shards 4
//
// With -queues a third crawl gives pages of priority 0, 1, … in turn front queues of their own, with the same number of fetches.
//
// With -shards both schedules have so many frontiers, each with its hosts and its part of each batch.
//
// The web is the one of "mweb serve --hard --changing", asked within the process, under a
// clock that jumps from round to round: months take seconds. The frontier is a real
// one, on a disk in memory. A copy is fresh from its fetch to the next change of its
// page; the first third of the days, in which the rates are learnt, does not count. The
// bound is what the best schedule would reach that knows all rates.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/shard"
	"mercator/pkg/folder/stage"
	"mercator/pkg/frontier"
	"mercator/pkg/simweb"
	"mercator/pkg/web/httpmsg"
)

func main() {
	var s setting
	flag.IntVar(&s.pages, "pages", 500, "pages of the web")
	flag.DurationVar(&s.every, "every", 336*time.Hour, "time in which there are as many fetches as pages")
	flag.DurationVar(&s.round, "round", 8*time.Hour, "time between two rounds")
	flag.IntVar(&s.days, "days", 150, "days of the crawl")
	flag.Uint64Var(&s.seed, "seed", 1, "of the web")
	flag.IntVar(&s.queues, "queues", 1, "priorities that pages have, in turn, and front queues of another crawl")
	flag.IntVar(&s.shards, "shards", 1, "frontiers that share the hosts")
	flag.BoolVar(&s.silent, "silent", false, "replies do not say how long they stay as they are")
	flag.Parse()
	if err := compare(os.Stdout, s); err != nil {
		fmt.Fprintln(os.Stderr, "freshness:", err)
		os.Exit(1)
	}
}

type setting struct {
	pages, days  int
	every, round time.Duration
	seed         uint64
	queues       int  // priorities; 0 and 1 are the same
	shards       int  // frontiers; 0 and 1 are the same
	silent       bool // replies do not say how long they stay
}

// compare runs both schedules and prints what came of them.
func compare(out io.Writer, s setting) error {
	uniform, err := crawl(s, frontier.Params{Policy: "revisit", Revisit: frontier.Revisit{MinInterval: s.every.String(), MaxInterval: s.every.String()}})
	if err != nil {
		return err
	}
	rates, err := crawl(s, frontier.Params{Policy: "revisit", Revisit: frontier.Revisit{MinInterval: s.round.String(), MaxInterval: (8 * s.every).String()}})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "uniform  %.4f fresh  %d fetches of %d pages\n", uniform.fresh, uniform.fetches, uniform.pages)
	fmt.Fprintf(out, "revisit  %.4f fresh  %d fetches of %d pages, %.4f expected by the frontier\n", rates.fresh, rates.fetches, rates.pages, rates.expected)
	if s.queues > 1 {
		ranked, err := crawl(s, frontier.Params{Policy: "revisit", Priority: frontier.Priority{Queues: s.queues}, Revisit: frontier.Revisit{MinInterval: s.round.String(), MaxInterval: (8 * s.every).String()}})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "queues   %.4f fresh  %d fetches of %d pages, %.4f expected by the frontier\n", ranked.fresh, ranked.fetches, ranked.pages, ranked.expected)
		for priority := range s.queues {
			fmt.Fprintf(out, "  of priority %d: %.4f fresh by %d fetches, beside %.4f by %d with one queue\n", priority,
				ranked.by[priority].fresh, ranked.by[priority].fetches, rates.by[priority].fresh, rates.by[priority].fetches)
		}
	}
	fmt.Fprintf(out, "ratio    %.3f\n", rates.fresh/uniform.fresh)
	best := bound(uniform.means, float64(uniform.fetches)*float64(day)/float64(uniform.counted))
	fmt.Fprintf(out, "bound    %.4f fresh, a ratio of %.3f: all rates known, as many fetches as uniform, none late\n", best, best/uniform.fresh)
	return nil
}

const day = 24 * time.Hour

// bound is the expected freshness of pages of known mean times between two changes (0:
// never) under the best schedule of so many visits a day: each page is visited at an
// interval at which one visit more would bring the same everywhere (Lagrange), or never.
func bound(means []time.Duration, perDay float64) (fresh float64) {
	low, high := 0.0, 1e6 // multiplier in days
	for range 60 {
		multiplier, visits := (low+high)/2, 0.0
		fresh = 0
		for _, mean := range means {
			m := mean.Hours() / 24
			if m == 0 {
				fresh++
			}
			if m <= multiplier {
				continue
			}
			// With z = interval/m, a visit more brings m * (1-(1+z)e^-z).
			a, b := 0.0, 64.0
			for range 60 {
				if z := (a + b) / 2; -math.Expm1(-z)-z*math.Exp(-z) < multiplier/m {
					a = z
				} else {
					b = z
				}
			}
			visits += 1 / (b * m)
			fresh += -math.Expm1(-b) / b
		}
		if visits > perDay {
			low = multiplier
		} else {
			high = multiplier
		}
	}
	return fresh / float64(len(means))
}

type result struct {
	pages, fetches  int
	fresh, expected float64
	means           []time.Duration // between two changes, of each page
	counted         time.Duration   // the time in which fetches and freshness count
	by              []share         // of each priority
}

// share has the figures of the pages of one priority.
type share struct {
	pages, fetches int
	fresh          float64
	time           time.Duration // of fresh copies
}

// copied is when a page was fetched, and how long the copy stays as the page is.
type copied struct {
	at, until time.Time
	priority  uint8
}

func crawl(s setting, p frontier.Params) (r result, err error) {
	web, err := simweb.New(simweb.Config{Seed: s.seed, Hosts: 20, Pages: s.pages, Size: 512, Degree: 8, Port: 18080, Hard: true, Changing: true})
	if err != nil {
		return r, err
	}
	owners, err := shard.New(max(s.shards, 1))
	if err != nil {
		return r, err
	}
	fs := make([]*frontier.Frontier, owners.Shards)
	for n := range fs {
		opt := store.Options{FS: crashtest.New()}
		if err := frontier.Create("/frontier", p, opt); err != nil {
			return r, err
		}
		if fs[n], err = frontier.Open("/frontier", opt); err != nil {
			return r, err
		}
	}
	r.by = make([]share, max(s.queues, 1))
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var urls []record.URL
	for _, v := range web.Oracle() {
		host, path, _ := strings.Cut(strings.TrimPrefix(v.URL, "http://"), "/")
		if c, ok := web.Change(host, "/"+path, begin); ok && v.Outcome == record.OutcomeFetched {
			r.means = append(r.means, c.Mean)
			priority := len(urls) % len(r.by)
			r.by[priority].pages++
			urls = append(urls, record.URL{URL: v.URL, Host: host, Key: fingerprint.URLKey(host, v.URL), Priority: uint8(priority)})
		}
	}
	r.pages = len(urls)
	for n, f := range fs {
		own := slices.DeleteFunc(slices.Clone(urls), func(u record.URL) bool { return owners.Of(u.Key) != n })
		err = run(f, "add", "seed", 0, own, nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
			return f.Add(ctx, b, frontier.AddOptions{})
		})
		if err != nil {
			return r, err
		}
	}
	end := begin.AddDate(0, 0, s.days)
	counts := begin.AddDate(0, 0, s.days/3)
	size := int(float64(r.pages)*float64(s.round)/float64(s.every)) + 1
	r.counted = end.Sub(counts)
	hard := web.NewHard()
	copies := make(map[string]copied, r.pages)
	var fresh time.Duration
	settle := func(c copied, now time.Time) { // c is of the past
		from, to := later(c.at, counts), c.until
		if to.After(now) {
			to = now
		}
		if to.After(from) {
			fresh += to.Sub(from)
			r.by[c.priority].time += to.Sub(from)
		}
	}
	visit := func(f *frontier.Frontier, txn string, now time.Time, size int) error {
		batch, err := next(f, txn, record.TimeOf(now), size)
		if err != nil || batch == nil {
			return err
		}
		outcomes := make([]record.Fetch, len(batch))
		for i, u := range batch {
			at := now.Add(time.Duration(i) * s.round / time.Duration(size))
			outcomes[i] = fetchPage(hard, &u, at, s.silent)
			host, path, _ := strings.Cut(strings.TrimPrefix(u.URL, "http://"), "/")
			c, _ := web.Change(host, "/"+path, at)
			settle(copies[u.URL], at)
			if c.Next.IsZero() {
				c.Next = end
			}
			copies[u.URL] = copied{at, c.Next, u.Priority}
			if at.After(counts) {
				r.by[u.Priority].fetches++
				r.fetches++
			}
		}
		return update(f, txn, outcomes)
	}
	for n, now := 0, begin; now.Before(end); n, now = n+1, now.Add(s.round) {
		for k, f := range fs {
			if part := size*(k+1)/len(fs) - size*k/len(fs); part > 0 {
				if err := visit(f, fmt.Sprintf("r%d", n), now, part); err != nil {
					return r, err
				}
			}
		}
	}
	for _, c := range copies {
		settle(c, end)
	}
	r.fresh = float64(fresh) / float64(r.counted) / float64(r.pages)
	for i := range r.by {
		r.by[i].fresh = float64(r.by[i].time) / float64(r.counted) / float64(r.by[i].pages)
	}
	var pages *frontier.Pages
	for _, f := range fs {
		st, err := f.Stat(context.Background(), frontier.StatOptions{})
		if err == nil {
			err = f.Check(context.Background())
		}
		if err != nil {
			return r, err
		}
		if own := st.Own.(*frontier.Pages); pages == nil {
			pages = own
		} else {
			pages.Add(own)
		}
	}
	r.expected = pages.Fresh
	return r, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fetchPage asks the web for a URL, as mfetch does.
func fetchPage(hard *simweb.Hard, u *record.URL, at time.Time, silent bool) record.Fetch {
	host, path, _ := strings.Cut(strings.TrimPrefix(u.URL, "http://"), "/")
	p, _ := hard.Respond(nil, &simweb.Request{Method: "GET", Host: host, Target: "/" + path, IfNoneMatch: u.ETag, IfModified: u.LastModified}, at)
	o := record.Fetch{URL: u.URL, Key: u.Key, Host: u.Host, Attempt: u.Attempt, Addr: "127.0.0.1", ETag: u.ETag, LastModified: u.LastModified, LastContentFP: u.LastContentFP,
		Role: record.RolePage, FetchTime: record.TimeOf(at), DurationUS: 1000, Outcome: record.OutcomeFetched, Status: uint16(p.Status)}
	switch p.Status {
	case 304:
		o.Outcome, o.ContentFP = record.OutcomeNotModified, u.LastContentFP
	case 200:
		o.ETag, o.LastModified, o.ContentFP, o.BodyLength = p.ETag, p.LastModified, fingerprint.Of(p.Body), int64(len(p.Body))
	}
	if p.Freshness != "" && !silent {
		var h httpmsg.Head
		if h.Parse([]byte("HTTP/1.1 200 OK\r\n"+p.Freshness+"\r\n")) == nil {
			o.FreshUntil = fetch.FreshUntil(&h, at, at.Add(time.Millisecond))
		}
	}
	return o
}

// rows is an input in memory.
type rows[T record.Row] struct {
	all []T
	txn string
	at  int
}

func (r *rows[T]) Schema() *record.Schema { return &record.Schema{Txn: r.txn} }
func (r *rows[T]) Trailer() record.Trailer {
	return record.Trailer{Verified: true, Rows: uint64(len(r.all)), Txn: r.txn}
}
func (r *rows[T]) Read(row *T) error {
	if r.at == len(r.all) {
		return io.EOF
	}
	*row = r.all[r.at]
	r.at++
	return nil
}

// memory is an output in memory.
type memory struct{ bytes.Buffer }

func (*memory) Options() record.WriterOptions { return record.WriterOptions{} }
func (*memory) Publish() error                { return nil }
func (*memory) Abort()                        {}

type body = func(context.Context, *stage.Batch[record.URL, record.URL]) error

func run(f *frontier.Frontier, verb, txn string, now record.Time, in []record.URL, out *memory, do body) error {
	spec := stage.Spec{Name: "mfrontier " + verb, Verb: verb, Store: f.Store(), Txn: txn, Now: now}
	if verb == "next" {
		spec.Shape = stage.Source
		_, err := stage.Run(context.Background(), spec, nil, []stage.Output{out}, do)
		return err
	}
	spec.Shape = stage.Sink
	_, err := stage.Run(context.Background(), spec, stage.Input[record.URL](&rows[record.URL]{all: in, txn: txn}), nil, do)
	return err
}

// next takes a batch; nil if nothing is due.
func next(f *frontier.Frontier, txn string, now record.Time, n int) (batch []record.URL, err error) {
	due, empty, err := f.Due(now)
	if err != nil || due > now {
		return nil, err
	}
	if empty {
		return nil, &fault.Error{Found: "an empty frontier", Want: "pages to visit"}
	}
	var out memory
	err = run(f, "next", txn, now, nil, &out, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return f.Next(ctx, b, frontier.NextOptions{N: n, Txn: txn})
	})
	if err != nil {
		return nil, err
	}
	r, err := record.NewReader[record.URL](&out, record.ReaderOptions{})
	for err == nil {
		var u record.URL
		if err = r.Read(&u); err == nil {
			batch = append(batch, u)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return batch, err
}

func update(f *frontier.Frontier, txn string, outcomes []record.Fetch) error {
	o := frontier.UpdateOptions{Txn: txn, Retries: frontier.DefaultRetries, Outcomes: func() (stage.Input[record.Fetch], error) {
		return &rows[record.Fetch]{all: outcomes, txn: txn}, nil
	}}
	return run(f, "update", txn, 0, nil, nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return f.Update(ctx, b, o)
	})
}
