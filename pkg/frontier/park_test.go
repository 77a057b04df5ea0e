package frontier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
)

// A frontier with parked work alone is at its end; what its server wants later comes
// back then, and the rest by Release, of one outcome, of one host, and of all.
func TestParked(t *testing.T) {
	const year = record.Time(365 * 24 * 3600e6)
	for _, p := range []Params{{}, {Policy: dynamic}, {Policy: fifo}, {Policy: opic}, {Policy: opic, Opic: Opic{Refetch: "0s"}}, {Policy: revisit}} {
		t.Run(p.Policy, func(t *testing.T) {
			b := open(t, crashtest.New(), p)
			kinds := []string{record.OutcomeAddress, record.OutcomeDenied, record.OutcomeParked, record.OutcomeFetched}
			var seeds []record.URL
			for i := range 12 {
				seeds = append(seeds, newURL(fmt.Sprintf("h%d.test", i/4), kinds[i%4], 0))
			}
			must.OK(t, b.add("seed", seeds...))
			round, now := 0, record.Time(1)
			serve := func(want int, kind func(u record.URL) string) (batch []record.URL) {
				t.Helper()
				round++
				txn := fmt.Sprint("r", round)
				batch, err := b.next(now, NextOptions{N: 100, Txn: txn})
				if err != nil || len(batch) != want {
					t.Fatalf("%d URLs, want %d: %v", len(batch), want, err)
				}
				var outcomes []record.Fetch
				for _, u := range batch {
					o := fetchOf(u, kind(u), 404, now)
					if o.Outcome == record.OutcomeParked {
						o.RetryAfter = year
					}
					outcomes = append(outcomes, o)
				}
				must.OK(t, b.update(txn, now, outcomes))
				b.check()
				return batch
			}
			put := func(want uint64, o ReleaseOptions) {
				t.Helper()
				if n, err := b.release(now, o); n != want || err != nil {
					t.Fatal(n, err)
				}
				b.check()
			}
			end := func(at record.Time, want bool) {
				t.Helper()
				if empty, err := b.f.Empty(at); empty != want || err != nil {
					t.Fatal(empty, err)
				}
			}
			fetched := func(record.URL) string { return record.OutcomeFetched }
			serve(12, func(u record.URL) string { return u.URL[strings.LastIndex(u.URL, "/")+1:] })
			end(now, true)
			if n := b.counts(); n.Pending != 9 || n.Finished != 3 {
				t.Fatal(n)
			}
			serve(0, nil)
			end(year-1, true)
			end(year, false)
			put(1, ReleaseOptions{Outcome: record.OutcomeDenied, Host: "h1.test"})
			end(now, false)
			if batch := serve(1, func(record.URL) string { return record.OutcomeDenied }); batch[0].Host != "h1.test" || batch[0].Attempt != 0 {
				t.Fatal(batch)
			}
			put(3, ReleaseOptions{Outcome: record.OutcomeDenied})
			serve(3, fetched)
			put(0, ReleaseOptions{Host: "h9.test"})
			end(now, true)
			now = year
			serve(3, fetched)
			put(3, ReleaseOptions{})
			serve(3, fetched)
			if n := b.counts(); n.Pending != 0 || n.Finished != 12 {
				t.Fatal(n)
			}
			if _, err := b.release(now, ReleaseOptions{Outcome: record.OutcomeFetched}); !errors.Is(err, fault.Usage) {
				t.Error(err)
			}
		})
	}
}

// A batch by time parks what else waits of a host that asked for years.
func TestParkedHostInABatchByTime(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	var seeds []record.URL
	for i := range 5 {
		seeds = append(seeds, newURL("slow.test", fmt.Sprint(i), 0), newURL("good.test", fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("seed", seeds...))
	batch, err := b.next(1, NextOptions{N: 2, Txn: "r1"})
	must.OK(t, err)
	var outcomes []record.Fetch
	for _, u := range batch {
		o := fetchOf(u, record.OutcomeFetched, 200, 1)
		if u.Host == "slow.test" {
			o.Status, o.RetryAfter = 503, never-1
		}
		outcomes = append(outcomes, o)
	}
	must.OK(t, b.update("r1", 1, outcomes))
	batch, err = b.next(60e6, NextOptions{For: time.Minute, Politeness: Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second}}, Connections: 9, Duration: time.Second}, Txn: "r2"})
	if err != nil || len(batch) != 4 || slices.ContainsFunc(batch, func(u record.URL) bool { return u.Host != "good.test" }) {
		t.Fatal(batch, err)
	}
	b.check()
	if all, host, err := b.f.Parked(); err != nil || len(all) != 1 || all[0].URLs != 5 || host != "slow.test" {
		t.Fatal(all, host, err)
	}
}

// Times that no delay could have made are not waited for.
func TestClockJumped(t *testing.T) {
	const day = record.Time(24 * 3600e6)
	b := open(t, crashtest.New(), Params{})
	must.OK(t, b.add("seed", newURL("a.test", "", 0), newURL("b.test", "", 0)))
	batch, err := b.next(day, NextOptions{N: 2, Txn: "r1"})
	must.OK(t, err)
	outcomes := fetchesOf(batch, record.OutcomeTimeout, 0, 365*day) // by a clock that is a year ahead
	must.OK(t, b.update("r1", day, outcomes))
	if due, err := b.f.Jumped(day); err != nil || due < 365*day {
		t.Fatal(due, err)
	}
	if due, err := b.f.Jumped(364*day + 1e9); due != 0 || err != nil { // less than the longest delay before it
		t.Fatal(due, err)
	}
	now, err := b.f.Wait(context.Background(), day, 1, func(context.Context, record.Time) error { return errors.New("waited") })
	must.OK(t, err)
	if batch, err = b.next(now, NextOptions{N: 2, Txn: "r2"}); len(batch) != 2 || err != nil {
		t.Fatal(batch, err)
	}
	p := Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second}}}
	if got := p.pace(&Host{Contacts: 1, LastContact: 365 * day}, day).wait; got != time.Second {
		t.Errorf("a host last contacted in a year waits %v", got)
	}
}

// TestClockSetBack: where the clock is set back between two rounds, a URL waits for what is left of its delay, by its own clock.
func TestClockSetBack(t *testing.T) {
	const day, second = record.Time(24 * 3600e6), record.Time(1e6)
	b := open(t, crashtest.New(), Params{})
	must.OK(t, b.add("seed", newURL("a.test", "", 0), newURL("b.test", "", 0), newURL("c.test", "", 0)))
	batch, err := b.next(3*day, NextOptions{N: 3, Txn: "r1"})
	must.OK(t, err)
	outcomes := fetchesOf(batch, record.OutcomeDeferred, 0, 3*day)
	for i := range outcomes {
		outcomes[i].RetryAfter = 3*day + record.Time(i+1)*20*second
	}
	must.OK(t, b.update("r1", 3*day, outcomes))
	if due, empty, err := b.f.Due(2*day + 1e8); due != 0 || empty || err != nil {
		t.Fatalf("due %d, %v, %v; want at once", due, empty, err)
	}
	for i, round := range []struct {
		now   record.Time
		urls  int
		empty bool // a batch without URLs, which notes the clock
	}{{2 * day, 0, true}, {2*day + 19*second, 0, false}, {2*day + 20*second, 1, false}, {2*day + 19*second, 0, false}, {2*day + 60*second, 2, false}} {
		txn := fmt.Sprint("again", i)
		if batch, err = b.next(round.now, NextOptions{N: 3, Txn: txn}); len(batch) != round.urls {
			t.Fatalf("%d at %d: %d URLs, want %d; %v", i, round.now, len(batch), round.urls, err)
		}
		if len(batch) > 0 || round.empty {
			must.OK(t, b.update(txn, round.now, fetchesOf(batch, record.OutcomeFetched, 200, round.now)))
		}
	}
	b.check()
}

// A row of what was asked again beside the batch is no outcome of a URL in flight, of whatever URL it is.
func TestAskedAgainIsNoOutcome(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	must.OK(t, b.add("seed", newURL("h.test", "a", 0)))
	batch, err := b.next(1, NextOptions{N: 9, Txn: "r1"})
	if err != nil || len(batch) != 1 {
		t.Fatal(batch, err)
	}
	again, other := fetchOf(batch[0], record.OutcomeFetched, 503, 1), fetchOf(newURL("h.test", "b", 0), record.OutcomeFetched, 200, 1)
	again.Role, other.Role = record.RoleAgain, record.RoleAgain
	must.OK(t, b.update("r1", 1, []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 302, 1), again, other}))
	b.check()
	if c := b.counts(); c.Finished != 1 || c.Pending != 0 || c.Retried != 0 {
		t.Errorf("%+v", c)
	}
}
