package frontier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

func (b *bench) updateDead(txn string, dead Dead, outcomes []record.Fetch, fresh ...record.URL) error {
	return b.updateFrom(txn, recordtest.In(txn, fresh...), UpdateOptions{
		Txn: txn, Retries: Retries{MaxAttempts: 200, Delay: 2 * time.Hour, MaxDelay: 2 * time.Hour}, Dead: dead,
		Outcomes: given(txn, outcomes),
	})
}

func TestRest(t *testing.T) {
	const hour = record.Time(3600e6)
	d := Dead{After: 3, Delay: time.Hour, MaxDelay: 3 * time.Hour}
	for _, c := range []struct {
		name        string
		h, before   Host
		ended, want record.Time
	}{
		{"alive", Host{Failures: 2, Contacts: 2, LastContact: hour}, Host{}, hour, 0},
		{"dead", Host{Failures: 3, Contacts: 3, LastContact: hour}, Host{Failures: 2, Contacts: 2}, hour, 2 * hour},
		{"not contacted", Host{Failures: 3, Contacts: 3, LastContact: hour, ParkedUntil: 7}, Host{Failures: 3, Contacts: 3}, 0, 7},
		{"dead again", Host{Failures: 4, Contacts: 9, LastContact: hour, ParkedUntil: 2 * hour}, Host{Failures: 3, Contacts: 8, LastContact: hour, ParkedUntil: 2 * hour}, 2 * hour, 4 * hour},
		{"the longest", Host{Failures: 5, Contacts: 9, LastContact: hour, ParkedUntil: 4 * hour}, Host{Failures: 4, Contacts: 8, LastContact: hour, ParkedUntil: 4 * hour}, 5 * hour, 8 * hour},
		{"asked for more", Host{Failures: 3, Contacts: 3, LastContact: hour, ParkedUntil: 9 * hour}, Host{}, hour, 9 * hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d.rest(&c.h, &c.before, c.ended); c.h.ParkedUntil != c.want {
				t.Errorf("%s: parked until %d, want %d", c.name, c.h.ParkedUntil, c.want)
			}
		})
	}
	b := open(t, crashtest.New(), Params{})
	if err := b.updateDead("r1", Dead{After: -1}, nil); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
}

// A dead host's URLs leave batches to others, come back, in their order where one batch
// has met them all, and none is lost.
func TestDeadHost(t *testing.T) {
	const sec = record.Time(1e6)
	b := open(t, crashtest.New(), Params{})
	dead := Dead{After: 2, Delay: time.Hour, MaxDelay: time.Hour}
	var urls []record.URL
	for i := range 6 {
		urls = append(urls, newURL("dead.test", fmt.Sprint(i), 0), newURL("alive.test", fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("seed", urls...))
	served := map[string][]string{}
	round := 0
	step := func(now record.Time, n int) []record.URL {
		t.Helper()
		round++
		txn := fmt.Sprintf("r%d", round)
		batch, err := b.next(now, NextOptions{N: n, Txn: txn})
		must.OK(t, err)
		var outcomes []record.Fetch
		for _, u := range batch {
			served[u.Host] = append(served[u.Host], u.URL)
			o := fetchOf(u, record.OutcomeFetched, 200, now)
			if u.Host == "dead.test" && now < 3600*sec {
				o = fetchOf(u, record.OutcomeConnect, 0, now)
			}
			outcomes = append(outcomes, o)
		}
		must.OK(t, b.updateDead(txn, dead, outcomes))
		b.check()
		return batch
	}
	step(sec, 4)
	if n := len(served["dead.test"]); n != 2 {
		t.Fatalf("%d URLs of the dead host, want 2", n)
	}
	for i := range 2 { // all that is left of alive.test, and nothing else
		if batch := step(sec*record.Time(2+i), 2); len(batch) != 2 || batch[0].Host != "alive.test" || batch[1].Host != "alive.test" {
			t.Fatal(batch)
		}
	}
	// Only the dead host has URLs: the crawl is not over.
	if empty, err := b.f.Empty(never - 1); empty || err != nil {
		t.Fatal(empty, err)
	}
	if due, empty, err := b.f.Due(3 * sec); err != nil || empty || due < 3600*sec {
		t.Fatal(due, empty, err)
	}
	// Later it is served again, in order.
	for now := 3602 * sec; len(served["dead.test"]) < 8; now += 3600 * sec {
		step(now, 10)
	}
	var want []string
	for i := range 6 {
		want = append(want, fmt.Sprintf("http://dead.test/%d", i))
	}
	want = append(want, want[0], want[1])
	if fmt.Sprint(served["dead.test"]) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", served["dead.test"], want)
	}
	if empty, err := b.f.Empty(never - 1); !empty || err != nil {
		t.Fatal(empty, err)
	}
}

// With hosts that die and rise at random every URL ends, and the ledger holds.
func TestDeadHostsAtRandom(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := open(t, crashtest.New(), Params{Seed: seed})
		dead := Dead{After: 1 + int(seed), Delay: time.Minute, MaxDelay: 10 * time.Minute}
		serial := 0
		some := func(n int) (urls []record.URL) {
			for range n {
				urls = append(urls, newURL(fmt.Sprintf("h%d.test", rng.IntN(12)), fmt.Sprint(serial), uint8(rng.IntN(4))))
				serial++
			}
			return urls
		}
		must.OK(t, b.add("seed", some(40)...))
		now := record.Time(1e6)
		for round := 0; ; round++ {
			if empty, err := b.f.Empty(never - 1); err != nil {
				t.Fatal(err)
			} else if empty {
				break
			}
			var err error
			now, err = b.f.Wait(context.Background(), now+record.Time(rng.IntN(20e6)), 1, func(context.Context, record.Time) error { return nil })
			must.OK(t, err)
			txn := fmt.Sprintf("r%d", round)
			o := NextOptions{N: 1 + rng.IntN(9), PerHost: rng.IntN(4), Txn: txn}
			batch, err := b.next(now, o)
			if err != nil || len(batch) == 0 {
				t.Fatal(len(batch), err)
			}
			var outcomes []record.Fetch
			for _, u := range batch {
				if h, _, err := b.f.Host(context.Background(), u.Host); err != nil {
					t.Fatal(err)
				} else if dead.dead(&h.Host) && h.ParkedUntil > now && len(batch) > 1 {
					t.Fatalf("round %d: %s is dead, in a batch of %d", round, u.Host, len(batch))
				}
				o := fetchOf(u, record.OutcomeFetched, 200, now)
				if round < 60 && (u.Host[1]+byte(round/15))%3 == 0 {
					o = fetchOf(u, record.OutcomeTimeout, 0, now)
				}
				outcomes = append(outcomes, o)
			}
			var fresh []record.URL
			if round < 50 {
				fresh = some(rng.IntN(6))
			}
			must.OK(t, b.updateDead(txn, dead, outcomes, fresh...))
			if round%8 == 0 {
				b.check()
			}
		}
		b.check()
		if c := b.counts(); c.Finished != uint64(serial) || c.Dead != 0 {
			t.Errorf("%d finished of %d, %d given up", c.Finished, serial, c.Dead)
		}
	}
}

// A dead host has no URLs in a batch while another has, even if these stand behind
// the places that a limit per host lets the batch look at.
func TestDeadHostStandsBefore(t *testing.T) {
	alive, gone := "a.test", "b.test"
	if hostKey(alive) > hostKey(gone) { // who comes first within a place
		alive, gone = gone, alive
	}
	b := open(t, crashtest.New(), Params{})
	var urls []record.URL
	for i := range 5 {
		urls = append(urls, newURL(alive, fmt.Sprint(i), 0), newURL(gone, fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("seed", urls...))
	batch, err := b.next(1e6, NextOptions{N: 3, Txn: "r1"})
	must.OK(t, err)
	var outcomes []record.Fetch
	for _, u := range batch {
		o := fetchOf(u, record.OutcomeFetched, 200, 1e6)
		if u.Host == gone {
			o = fetchOf(u, record.OutcomeConnect, 0, 1e6)
		}
		outcomes = append(outcomes, o)
	}
	must.OK(t, b.updateDead("r1", Dead{After: 1, Delay: time.Hour, MaxDelay: time.Hour}, outcomes))
	batch, err = b.next(2e6, NextOptions{N: 10, PerHost: 1, Txn: "r2"})
	if err != nil || len(batch) != 1 || batch[0].Host != alive {
		t.Errorf("%v %v, want one URL of %s", batch, err, alive)
	}
	b.check()
}

// A batch by time has no URLs of a dead host, even if it takes longer than the host is parked.
func TestDeadHostAndTime(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	var urls []record.URL
	for i := range 5 {
		urls = append(urls, newURL("alive.test", fmt.Sprint(i), 0), newURL("dead.test", fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("seed", urls...))
	batch, err := b.next(1e6, NextOptions{N: 2, Txn: "r1"})
	must.OK(t, err)
	var outcomes []record.Fetch
	for _, u := range batch {
		o := fetchOf(u, record.OutcomeFetched, 200, 1e6)
		if u.Host == "dead.test" {
			o = fetchOf(u, record.OutcomeConnect, 0, 1e6)
		}
		outcomes = append(outcomes, o)
	}
	must.OK(t, b.updateDead("r1", Dead{After: 1, Delay: time.Hour, MaxDelay: time.Hour}, outcomes))
	batch, err = b.next(2e6, NextOptions{For: 2 * time.Hour, Politeness: Politeness{Connections: 4, Duration: time.Second}, Txn: "r2"})
	if err != nil || len(batch) != 4 {
		t.Errorf("%d URLs, %v, want the 4 of alive.test", len(batch), err)
	}
	for _, u := range batch {
		if u.Host != "alive.test" {
			t.Errorf("%s is in the batch", u.URL)
		}
	}
	b.check()
}

// A dead host that answers after all is parked no more.
func TestDeadHostAnswers(t *testing.T) {
	const sec = record.Time(1e6)
	b := open(t, crashtest.New(), Params{})
	dead := Dead{After: 1, Delay: time.Hour, MaxDelay: time.Hour}
	round := 0
	step := func(now record.Time, host, outcome string, fresh ...record.URL) {
		t.Helper()
		round++
		txn := fmt.Sprintf("r%d", round)
		batch, err := b.next(now, NextOptions{N: 1, Txn: txn})
		if err != nil || len(batch) != 1 || batch[0].Host != host {
			t.Fatalf("round %d: %v %v, want one URL of %s", round, batch, err, host)
		}
		status := uint16(0)
		if outcome == record.OutcomeFetched {
			status = 200
		}
		must.OK(t, b.updateDead(txn, dead, []record.Fetch{fetchOf(batch[0], outcome, status, now)}, fresh...))
		b.check()
	}
	must.OK(t, b.add("seed", newURL("dead.test", "0", 0), newURL("dead.test", "1", 0)))
	step(sec, "dead.test", record.OutcomeConnect)
	// There is no other host.
	step(2*sec, "dead.test", record.OutcomeFetched, newURL("dead.test", "2", 0), newURL("alive.test", "0", 0), newURL("alive.test", "1", 0))
	batch, err := b.next(3*sec, NextOptions{N: 3, Txn: "r"})
	if err != nil || len(batch) != 3 {
		t.Errorf("%v %v, want three URLs, one of dead.test", batch, err)
	}
}

// A dead host costs a batch what the batch meets of it, and not the others their rest.
func TestDeadHostRewrites(t *testing.T) {
	const n, hosts = firstCandidates, 1000
	b := open(t, crashtest.New(), Params{})
	urls := []record.URL{newURL("dead.test", "first", 0)}
	for i := range 4 * n {
		urls = append(urls, newURL(fmt.Sprintf("h%d.big.test", i%hosts), fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("seed", urls[0]))
	batch, err := b.next(1e6, NextOptions{N: 1, Txn: "r1"})
	must.OK(t, err)
	for i := range 20 {
		urls = append(urls, newURL("dead.test", fmt.Sprint(i), 0))
	}
	dead := Dead{After: 1, Delay: time.Hour, MaxDelay: time.Hour}
	must.OK(t, b.updateDead("r1", dead, []record.Fetch{fetchOf(batch[0], record.OutcomeConnect, 0, 1e6)}, urls[1:]...))
	batch, err = b.next(2e6, NextOptions{N: n, Txn: "r2"})
	if err != nil || len(batch) != n {
		t.Fatal(len(batch), err)
	}
	st, err := b.f.Stat(t.Context(), StatOptions{})
	if err != nil || st.Rewritten > 100 {
		t.Errorf("%d URLs were written again, %v, want some of dead.test alone", st.Rewritten, err)
	}
	b.check()
	must.OK(t, b.updateDead("r2", dead, fetchesOf(batch, record.OutcomeFetched, 200, 2e6)))
	// Where a limit, and not the dead host, makes the batch small, more candidates end soon.
	batch, err = b.next(3e6, NextOptions{N: 2, PerDomain: 1, Txn: "r3"})
	if err != nil || len(batch) != 1 || batch[0].Host == "dead.test" {
		t.Errorf("%v %v, want one URL of big.test", batch, err)
	}
	b.check()
}
