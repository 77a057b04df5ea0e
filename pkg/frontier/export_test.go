package frontier

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mercator/formats/record"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/must"
)

// exported are the URLs of a frontier, as "mfrontier export" writes them.
func (b *bench) exported() (urls []record.URL) {
	b.t.Helper()
	must.OK(b.t, b.f.EachExported(context.Background(), func(u *record.URL) error { urls = append(urls, *u); return nil }))
	return urls
}

// A frontier that is exported and added to a new one gives the same URLs with all their
// columns, and within a host (a worker) and front queue in the same order.
func TestExportAndAdd(t *testing.T) {
	for seed, p := range []Params{{Priority: Priority{Strict: true}}, {Seed: 3}, {Policy: dynamic}, {Policy: fifo, Fifo: Fifo{Workers: 3}}} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 4))
			b := open(t, crashtest.New(), p)
			serial := 0
			some := func(n int) (urls []record.URL) {
				for range n {
					u := newURL(fmt.Sprintf("h%d.test", rng.IntN(7)), fmt.Sprint(serial), uint8(rng.IntN(300)))
					serial++
					u.Score, u.Depth, u.Attempt, u.Via = rng.Float32(), uint16(rng.IntN(1<<16)), uint8(rng.IntN(2)), "http://via.test/"
					u.Discovered, u.Addr, u.AddrExpires, u.AddrError = record.Time(rng.Int64N(1<<50)), "192.0.2.1", record.Time(rng.Int64N(1<<50)), "timeout"
					u.ETag, u.LastModified, u.LastContentFP = `"e"`, "yesterday", rng.Uint64()
					if rng.IntN(3) == 0 {
						u.Due = record.Time(1 + rng.Int64N(1<<40))
					}
					if rng.IntN(5) == 0 {
						u.Key = rng.Uint64() // of a rule for keys
					}
					urls = append(urls, u)
				}
				return urls
			}
			must.OK(t, b.add("seed", some(50)...))
			for r := range 5 {
				txn := fmt.Sprintf("r%d", r)
				batch, err := b.next(1, NextOptions{N: 11, Txn: txn})
				must.OK(t, err)
				if r == 4 {
					break // it is in flight
				}
				var outcomes []record.Fetch
				for _, u := range batch {
					outcomes = append(outcomes, fetchOf(u, []string{record.OutcomeFetched, record.OutcomeTimeout}[rng.IntN(2)], 200, 1))
				}
				must.OK(t, b.update(txn, 1, outcomes, some(20)...))
			}
			want := b.exported()
			other := open(t, crashtest.New(), p)
			must.OK(t, other.add("all", want...))
			got := other.exported()
			model := model{p: p}
			for _, line := range []func(record.URL) string{
				func(u record.URL) string { return u.URL },
				// Those that wait for a time have it for their order.
				func(u record.URL) string {
					if u.Due > 0 {
						return fmt.Sprint(u.Due, u.Host)
					}
					return fmt.Sprint(u.Due, model.line(&u), model.level(&u))
				},
			} {
				by := func(x, y record.URL) int { return strings.Compare(line(x), line(y)) }
				x, y := slices.Clone(want), slices.Clone(got)
				slices.SortStableFunc(x, by)
				slices.SortStableFunc(y, by)
				if d := cmp.Diff(x, y, cmpopts.IgnoreUnexported(record.Extra{})); d != "" {
					t.Fatal(d)
				}
			}
			if c, n := b.counts(), other.counts(); n.Pending != c.Pending+c.InFlight || n.Discovered != n.Pending {
				t.Errorf("%+v, then %+v", c, n)
			}
			other.check()
		})
	}
}

// A batch that is in flight does not change the order in which a host's URLs are exported.
func TestExportOfABatch(t *testing.T) {
	for _, p := range []Params{{Priority: Priority{Strict: true}}, {Policy: dynamic}, {Policy: fifo, Fifo: Fifo{Workers: 2}}} {
		t.Run("policy "+p.Policy, func(t *testing.T) {
			b := open(t, crashtest.New(), p)
			var urls []record.URL
			for i := range 60 {
				urls = append(urls, newURL(fmt.Sprintf("h%d.test", i%7), fmt.Sprint(i), 0))
			}
			must.OK(t, b.add("seed", urls...))
			byHost := func() []record.URL {
				all := b.exported()
				slices.SortStableFunc(all, func(a, b record.URL) int { return strings.Compare(a.Host, b.Host) })
				return all
			}
			before := byHost()
			_, err := b.next(1, NextOptions{N: 30, Txn: "r1"})
			must.OK(t, err)
			if d := cmp.Diff(before, byHost(), cmpopts.IgnoreUnexported(record.Extra{})); d != "" {
				t.Errorf("%+v: %s", p, d)
			}
		})
	}
}

// Of each policy, what is exported and added to a new frontier is exported there as it was.
func TestExportAndAddOfEachPolicy(t *testing.T) {
	for _, policy := range Policies() {
		t.Run(policy.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			b := open(t, crashtest.New(), Params{Policy: policy.Name})
			var urls []record.URL
			for i := range 60 {
				u := newURL(fmt.Sprintf("h%d.test", i%7), fmt.Sprint(i), 0)
				u.Attempt, u.Depth = uint8(i%2), uint16(i%3)
				if i%4 == 0 {
					u.Due = record.Time(1 + i)
				}
				urls = append(urls, u)
			}
			must.OK(t, b.add("seed", urls...))
			for r := range 6 {
				txn, now := fmt.Sprintf("r%d", r), record.Time(r+1)*7200e6
				batch, err := b.next(now, NextOptions{N: 25, Txn: txn})
				must.OK(t, err)
				if r == 5 || policy.Name == walk {
					break // it is in flight
				}
				var outcomes []record.Fetch
				for i, u := range batch {
					o := fetchOf(u, []string{record.OutcomeFetched, record.OutcomeTimeout, record.OutcomeDeferred}[max(rng.IntN(6)-3, 0)], 200, now)
					o.ContentFP, o.BodyLength = 1+rng.Uint64N(2), 1
					if o.Outcome != record.OutcomeFetched {
						o.Status = 0
					} else if i%3 == 0 {
						o.FreshUntil = now + record.Time(rng.Int64N(20000e6))
					}
					outcomes = append(outcomes, o)
				}
				must.OK(t, b.update(txn, now, outcomes, newURL("fresh.test", fmt.Sprint(r), 0)))
			}
			other := open(t, crashtest.New(), Params{Policy: policy.Name})
			must.OK(t, other.add("all", b.exported()...))
			other.check()
			text := func(b *bench) (lines []string) {
				columns, err := b.f.ExportColumns()
				must.OK(t, err)
				x, err := record.NewText[record.URL](columns, nil)
				must.OK(t, err)
				for _, u := range b.exported() {
					lines = append(lines, string(x.AppendJSON(nil, &u, false)))
				}
				slices.Sort(lines)
				return lines
			}
			was, is := text(b), text(other)
			if d := cmp.Diff(was, is); d != "" {
				t.Error(d)
			}
			further := map[string]string{revisit: `"promised_until":"1970-`, opic: `"credit":`}[policy.Name]
			if !strings.Contains(strings.Join(was, "\n"), further) {
				t.Errorf("no row has %s", further)
			}
		})
	}
}

// A row that claims more of a page than visits can have told is taken for what they can.
func TestVisitsThatNobodyMade(t *testing.T) {
	p := scheduleOf(t, Revisit{})
	for _, n := range []uint64{0, 1, 1 << 31, 1 << 32, 1 << 63, math.MaxUint64} {
		v := p.visitOf(visitColumns.Extra(func(string) uint64 { return n }))
		if n == 0 && v != (Visit{}) || n > 0 && v.Visits == 0 || v.Changes >= enough || v.Gone >= p.gone || v.ObservedUS > p.mostObserved(v.Changes) {
			t.Errorf("%d: %+v", n, v)
		}
		if at := max(record.Time(n), 0); v.Last != at || v.Until != at { // no time is before 1970
			t.Errorf("%d: %+v, want times of %d", n, v, at)
		}
		p.class(&v)
		p.learn(&v, &sighting{at: 1, fp: 2}, 1)
		p.promised(&v, 1)
	}
	if v := p.visitOf(record.Extra{}); v != (Visit{}) {
		t.Errorf("%+v of a row without the columns", v)
	}
}
