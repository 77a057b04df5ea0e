package fetch_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/stage"
	"mercator/pkg/frontier"
	"mercator/pkg/simweb"
	"mercator/pkg/web/canon"
)

// TestPlanAgainstActual holds plans against what mfetch then does, on a virtual clock: hosts of a hard
// web that take 0.2 to 2 s for a reply, ask for a Crawl-delay, answer 429, and have no robots.txt at
// first. Two rounds in haste tell how fast they are; the next two take what was planned, to one part in ten,
// and all together to one in twenty. The delays grow from round to round: those before would else be on record,
// and make good for a plan that has them too short.
func TestPlanAgainstActual(t *testing.T) {
	politeness := func(least time.Duration, factor float64, most time.Duration) frontier.Politeness {
		return frontier.Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: least, DelayFactor: factor, MaxDelay: most}}, Connections: 5, Duration: time.Second / 2}
	}
	haste := politeness(time.Second/8, 0, time.Second/8)
	var all float64
	for seed := range uint64(3) {
		c := newPlanned(t, simweb.Config{Seed: seed, Hosts: 40, Pages: 100, Size: 256, Degree: 1, Hard: true})
		c.perHost, c.batch = 80, 1000
		c.add(t, c.names(seed))
		for round, p := range []frontier.Politeness{haste, haste, politeness(time.Second/2, 2, 3*time.Second), politeness(time.Second, 4, 6*time.Second)} {
			c.p = p
			plan, took := c.round(t, fmt.Sprint("r", round))
			ratio := float64(took) / float64(plan.Duration)
			t.Logf("seed %d, round %d: planned %v, actual %v: %.2f", seed, round, plan.Duration, took, ratio)
			if round < 2 {
				continue
			}
			if all += ratio; ratio < 0.9 || ratio > 1.1 {
				t.Errorf("seed %d, round %d takes %.2f of the time planned: %+v", seed, round, ratio, plan)
			}
			if plan.Hosts != 7 || plan.Measured != 7 {
				t.Errorf("%+v", plan)
			}
		}
	}
	if all /= 6; all < 0.95 || all > 1.05 {
		t.Errorf("the rounds take %.2f of the time planned", all)
	}
}

// planned is a crawl with planned batches.
type planned struct {
	p              frontier.Politeness
	f              *frontier.Frontier
	fetches        string // the store's folder
	web            *simweb.Web
	hard           *simweb.Hard
	clock          time.Time
	batch, perHost int
	met            map[string]bool
}

func newPlanned(t *testing.T, config simweb.Config) *planned {
	w, err := simweb.New(config)
	must.OK(t, err)
	dir := t.TempDir()
	c := &planned{fetches: filepath.Join(dir, "fetch"), web: w, hard: w.NewHard(), clock: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), met: map[string]bool{}}
	must.OK(t, fetch.CreateStore(c.fetches, "", store.Options{}), frontier.Create(filepath.Join(dir, "frontier"), frontier.Params{}, store.Options{}))
	c.f, err = frontier.Open(filepath.Join(dir, "frontier"), store.Options{})
	must.OK(t, err)
	return c
}

// names are URLs of some hosts, 80 for each of four rounds. They have names of any length, by which a slow
// host's reply takes its time; that there is no such page makes no difference.
func (c *planned) names(seed uint64) (rows []record.URL) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, host := range []string{"h0", "h2", "h6", "h9", "xn--bcher-kva.h5", "xn--bcher-kva.h15", "xn--bcher-kva.h25"} { // a fast one, a Crawl-delay, no robots.txt, 429, three slow ones
		for i := range 4 * 80 {
			rows = append(rows, c.meet([]string{fmt.Sprintf("http://%s%s/%s%d", host, simweb.Suffix, strings.Repeat("x", rng.IntN(30)), 1000+i)})...)
		}
	}
	return rows
}

// meet makes rows of the URLs that were not met before.
func (c *planned) meet(urls []string) (rows []record.URL) {
	for _, u := range urls {
		if !c.met[u] {
			c.met[u] = true
			_, host, _ := canon.Split(u)
			rows = append(rows, record.URL{URL: u, Host: host, Key: fingerprint.URLKey(host, u)})
		}
	}
	return rows
}

func (c *planned) add(t *testing.T, rows []record.URL) {
	_, err := stage.Run(t.Context(), stage.Spec{Name: "mfrontier add", Verb: "add", Store: c.f.Store(), Shape: stage.Sink}, stream(t, "", rows), nil,
		func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
			return c.f.Add(ctx, b, frontier.AddOptions{})
		})
	must.OK(t, err)
}

// Check and Fetch are those of a protocol module that the web answers.
func (*planned) Check(string) error { return nil }
func (c *planned) Fetch(_ context.Context, req *fetch.Request) *fetch.Reply {
	_, host, target := canon.Split(req.URL)
	p, delay := c.hard.Respond(nil, &simweb.Request{Method: "GET", Host: host, Target: target}, time.Now())
	time.Sleep(delay + time.Millisecond)
	raw := p.AppendHTTP(nil, false, false, false)
	return &fetch.Reply{Outcome: record.OutcomeFetched, Response: bytes.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
}

// round plans a batch, fetches it, and tells how long that took. The clock of the bubble counts the fetching alone: what the
// frontier keeps for the whole process must not be made in one.
func (c *planned) round(t *testing.T, txn string) (plan *frontier.Plan, took time.Duration) {
	var batch, fetched recordtest.Output
	next := stage.Spec{Name: "mfrontier next", Verb: "next", Store: c.f.Store(), Txn: txn, Now: record.TimeOf(c.clock), Shape: stage.Source}
	_, err := stage.Run(t.Context(), next, nil, []stage.Output{&batch}, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return c.f.Next(ctx, b, frontier.NextOptions{N: c.batch, PerHost: c.perHost, Txn: txn})
	})
	must.OK(t, err)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(c.clock))
		opt := options(open(t, c.fetches), c)
		opt.MinDelay, opt.DelayFactor, opt.MaxDelay, opt.Connections = c.p.MinDelay, c.p.DelayFactor, c.p.MaxDelay, c.p.Connections
		opt.Resolver, opt.Codec, opt.DenyEvery, opt.Txn = names{}, warc.None, time.Hour, txn
		in := recordtest.Reader[record.URL](t, bytes.NewReader(batch.Bytes()))
		opt.Schema = in.Schema()
		_, err := stage.Run(t.Context(), stage.Spec{Name: "mfetch", Verb: "fetch", Store: opt.Store, Txn: txn}, in, []stage.Output{&fetched}, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
			return fetch.Run(ctx, b, opt)
		})
		must.OK(t, err)
		time.Sleep(time.Second)
		c.clock = time.Now()
	})
	plan, err = c.f.Plan(t.Context(), recordtest.Reader[record.URL](t, bytes.NewReader(batch.Bytes())).Read, next.Now, c.p)
	must.OK(t, err)
	var row record.Fetch
	for in := recordtest.Reader[record.Fetch](t, bytes.NewReader(fetched.Bytes())); in.Read(&row) == nil; {
		took = max(took, (row.FetchTime + record.Time(row.DurationUS)).Go().Sub(next.Now.Go()))
	}
	update := stage.Spec{Name: "mfrontier update", Verb: "update", Store: c.f.Store(), Txn: txn, Shape: stage.Sink}
	_, err = stage.Run(t.Context(), update, stream(t, txn, nil), nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return c.f.Update(ctx, b, frontier.UpdateOptions{Txn: txn, Retries: frontier.DefaultRetries, Outcomes: func() (stage.Input[record.Fetch], error) {
			return recordtest.Reader[record.Fetch](t, bytes.NewReader(fetched.Bytes())), nil
		}})
	})
	must.OK(t, err)
	return plan, took
}
