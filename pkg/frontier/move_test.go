package frontier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/shard"
)

// hostBucket gives a key in the bucket of a host.
func hostBucket(host string) uint64 { return fingerprint.URLKey(host, "http://"+host+"/") }

// sides are the frontiers of two shards.
type sides [2]*bench

// each runs rounds in a side, on the hosts that the map gives to it.
func (s sides) rounds(n, rounds, hosts int, m *shard.Map, rng *rand.Rand) {
	b := s[n]
	b.t.Helper()
	fail := func(err error) {
		if err != nil {
			b.t.Helper()
			b.t.Fatal(err)
		}
	}
	draw := func(txn string, most int) (urls []record.URL) {
		for i := 0; len(urls) < most; i++ {
			if host := fmt.Sprintf("h%d.test", rng.IntN(hosts)); m.Of(hostBucket(host)) == n {
				urls = append(urls, newURL(host, fmt.Sprintf("%s/%d", txn, i), uint8(rng.IntN(3))))
			}
		}
		return urls
	}
	fail(b.add("seed", draw("seed", 40)...))
	for r := range rounds {
		txn, now := fmt.Sprintf("r%d", r+1), record.Time(r+1)*1e9
		batch, err := b.next(now, NextOptions{N: 25, Txn: txn})
		fail(err)
		var outcomes []record.Fetch
		for _, u := range batch {
			kinds := []string{record.OutcomeFetched, record.OutcomeFetched, record.OutcomeTimeout, record.OutcomeDeferred, record.OutcomeDenied, record.OutcomeRobotsDenied}
			if len(u.Host)%2 == 0 { // of ten hosts every contact is well
				kinds = kinds[:1]
			}
			outcomes = append(outcomes, fetchOf(u, kinds[rng.IntN(len(kinds))], 200, now))
		}
		fail(b.updateDead(txn, Dead{After: 2, Delay: time.Hour, MaxDelay: time.Hour}, outcomes, draw(txn, 30)...))
	}
}

// ahead is how far behind the place that its frontier has reached each URL stands that has one. Those that are served before it
// are all at 0.
func (s sides) ahead(t *testing.T) map[string]uint64 {
	t.Helper()
	ahead := map[string]uint64{}
	for _, b := range s {
		st, _, err := b.f.current()
		must.OK(t, err)
		err = b.f.each(context.Background(), st, func(q queue, e *Entry) error {
			if level := levelOf(e.Key); q == queueReady {
				ahead[e.URL.URL] = max(virtualTimeOf(e.Key), st.V[level]) - st.V[level]
			}
			return nil
		})
		must.OK(t, err)
	}
	return ahead
}

// hostsOf are the hosts of all sides, without places, and the URLs of each that wait, in order of service.
func (s sides) hostsOf(t *testing.T) (hosts map[string]Host, waiting map[string][]string, sum Counts) {
	t.Helper()
	hosts, waiting = map[string]Host{}, map[string][]string{}
	outcomes := map[string]uint64{}
	for _, b := range s {
		b.check()
		err := b.f.EachHost(context.Background(), func(h *Host) error {
			if _, twice := hosts[h.Host]; twice {
				return fmt.Errorf("host %s in both", h.Host)
			}
			own := *h
			own.Last = nil
			hosts[h.Host] = own
			return nil
		})
		if err == nil {
			err = b.f.EachURL(context.Background(), func(u *record.URL) error {
				waiting[u.Host] = append(waiting[u.Host], fmt.Sprint(u.URL, u.Attempt, u.Due, u.Priority))
				return nil
			})
		}
		must.OK(t, err)
		c := b.counts()
		sum.Discovered, sum.Pending, sum.Finished, sum.Retried = sum.Discovered+c.Discovered, sum.Pending+c.Pending, sum.Finished+c.Finished, sum.Retried+c.Retried
		sum.Deferred, sum.Dead = sum.Deferred+c.Deferred, sum.Dead+c.Dead
		for _, o := range c.Outcomes {
			outcomes[o.Reason] += o.N
		}
	}
	for reason, n := range outcomes {
		sum.Outcomes = append(sum.Outcomes, record.Count{Reason: reason, N: n})
	}
	slices.SortFunc(sum.Outcomes, func(a, b record.Count) int { return strings.Compare(a.Reason, b.Reason) })
	return hosts, waiting, sum
}

// move moves buckets in both sides.
func (s sides) move(txn string, from, to *shard.Map) error {
	var base [2]*store.Manifest
	for n, b := range s {
		var err error
		if base[n], err = b.f.Store().Current(); err != nil {
			return err
		}
	}
	var ledgers []record.Ledger
	for n, b := range s {
		m := &shard.Move{Old: from, New: to, Shard: n, Txn: txn, Base: func(n int) (*store.Store, *store.Manifest, error) { return s[n].f.Store(), base[n], nil }}
		if err := b.f.Move(context.Background(), m, hostBucket); err != nil {
			return err
		}
		now, err := b.f.Store().Current()
		if err != nil {
			return err
		}
		ledgers = append(ledgers, now.Done[len(now.Done)-1].Ledger)
	}
	return shard.CheckMoved(ledgers)
}

// TestMove: hosts that go to another shard bring all that is known of them, in their order, and nothing is lost or there twice, whatever
// the policy; and go on there.
func TestMove(t *testing.T) {
	for _, p := range []Params{{Policy: dynamic}, {Policy: priority}, {Policy: fifo, Fifo: Fifo{Workers: 4}}, {Policy: "revisit", Priority: Priority{Queues: 2}, Revisit: Revisit{MinInterval: "1s", MaxInterval: "3s"}}} {
		t.Run(p.Policy, func(t *testing.T) {
			t.Parallel()
			old, err := shard.New(2)
			must.OK(t, err)
			rng := rand.New(rand.NewPCG(5, 18))
			const hosts = 40
			var s sides
			for n := range s {
				dir := fmt.Sprintf("/crawl/shard/%03d/frontier", n)
				fs := crashtest.New()
				must.OK(t, Create(dir, p, store.Options{FS: fs}))
				f, err := Open(dir, store.Options{FS: fs})
				must.OK(t, err)
				f.layout = layout{queueFan: 3, hostFan: 2, step: 3, sort: 0}
				s[n] = &bench{t: t, fs: fs, f: f}
				s.rounds(n, 3+4*n, hosts, old, rng)
			}
			was, waited, sum := s.hostsOf(t)
			stood := s.ahead(t)
			next := &shard.Map{Version: 2, Shards: 2, Owners: slices.Clone(old.Owners)}
			moved := 0
			for i := range hosts {
				if b := shard.Bucket(hostBucket(fmt.Sprintf("h%d.test", i))); i%3 == 0 {
					next.Owners[b] = 1 - next.Owners[b]
					moved++
				}
			}
			must.OK(t, s.move("move1", old, next))
			is, waits, after := s.hostsOf(t)
			if d := cmp.Diff(was, is); d != "" {
				t.Errorf("hosts: %s", d)
			}
			if d := cmp.Diff(waited, waits); d != "" {
				t.Errorf("URLs that wait: %s", d)
			}
			if d := cmp.Diff(sum, after); d != "" {
				t.Errorf("counts: %s", d)
			}
			if d := cmp.Diff(stood, s.ahead(t)); d != "" {
				t.Errorf("places behind that of the frontier: %s", d)
			}
			if c := s[0].counts(); c.MovedIn == 0 || c.MovedOut == 0 {
				t.Errorf("%d hosts moved, %+v", moved, c)
			}
			for n := range s {
				err := s[n].f.EachHost(context.Background(), func(h *Host) error {
					if next.Of(hostBucket(h.Host)) != n {
						return fmt.Errorf("%s in shard %d", h.Host, n)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
			// The same once more does nothing, and another one is refused.
			must.OK(t, s.move("move1", old, next))
			if err := s.move("move1", old, old); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"move1" has moved other buckets`) {
				t.Error(err)
			}
			// New URLs of a host come after those that it brought; what it brought comes in turn with the others.
			place := [2]uint64{}
			for n, b := range s {
				st, _, err := b.f.current()
				must.OK(t, err)
				place[n] = st.V[0]
				var fresh []record.URL
				for i := range hosts {
					if host := fmt.Sprintf("h%d.test", i); next.Of(hostBucket(host)) == n {
						fresh = append(fresh, newURL(host, "fresh", 0))
					}
				}
				must.OK(t, b.add("more", fresh...))
			}
			for _, b := range s {
				st, _, err := b.f.current()
				must.OK(t, err)
				done := map[string]bool{} // hosts and front queues that have given their new URL
				err = b.f.each(context.Background(), st, func(q queue, e *Entry) error {
					line := fmt.Sprint(e.URL.Host, levelOf(e.Key))
					if q == queueReady && done[line] && was[e.URL.Host].Fetched == was[e.URL.Host].Contacts { // else URLs of it have waited
						t.Errorf("%s comes after the newest URL of its host", e.URL.URL)
					}
					done[line] = done[line] || strings.HasSuffix(e.URL.URL, "/fresh")
					return nil
				})
				if err != nil || len(done) == 0 {
					t.Fatal(err)
				}
			}
			if place[0] == place[1] {
				t.Error("both frontiers have reached one place: the test shows little")
			}
			// Back again, it is as it was.
			third := &shard.Map{Version: 3, Shards: 2, Owners: old.Owners}
			must.OK(t, s.move("move2", next, third))
			back, _, _ := s.hostsOf(t)
			for host, h := range back {
				h.Discovered-- // fresh
				back[host] = h
			}
			if d := cmp.Diff(was, back, cmpopts.IgnoreMapEntries(func(host string, _ Host) bool { _, had := was[host]; return !had })); d != "" {
				t.Errorf("there and back: %s", d)
			}
		})
	}
}

// TestMoveRefused: a frontier with a state that disagrees with its hosts, and URLs with keys in another bucket than their host.
func TestMoveRefused(t *testing.T) {
	old, err := shard.New(2)
	must.OK(t, err)
	b := open(t, crashtest.New(), Params{Policy: "walk"})
	if err := b.f.CheckMove(); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "policy walk, want one that keeps its state by host") {
		t.Error(err)
	}
	b = open(t, crashtest.New(), Params{})
	must.OK(t, b.add("seed", newURL("h1.test", "a", 0)))
	_, err = b.next(1, NextOptions{N: 1, Txn: "r1"})
	must.OK(t, err)
	if err := b.f.CheckMove(); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "1 URL is in flight") {
		t.Error(err)
	}
	b = open(t, crashtest.New(), Params{})
	odd := newURL("h1.test", "a", 0)
	odd.Key = ^odd.Key
	must.OK(t, b.add("seed", odd))
	next := &shard.Map{Version: 2, Shards: 2, Owners: slices.Clone(old.Owners)}
	self := old.Of(hostBucket("h1.test"))
	next.Owners[shard.Bucket(hostBucket("h1.test"))] = 1 - self
	err = b.f.Move(context.Background(), &shard.Move{Old: old, New: next, Shard: self, Txn: "move1"}, hostBucket)
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "0 waiting URLs of hosts that count 1, want all URLs of a host in its bucket") {
		t.Error(err)
	}
}
