package frontier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
)

// Runs of hosts without history need not be read, and a batch comes out the same.
func TestFresh(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	b.f.layout.hostFan = 4
	rng := rand.New(rand.NewPCG(3, 9))
	n, both := 0, 0
	fresh := func() (urls []record.URL) {
		for range 30 {
			n++
			urls = append(urls, newURL(fmt.Sprintf("h%d.test", rng.IntN(40)), fmt.Sprint(n), 0))
		}
		return urls
	}
	o := NextOptions{N: 20, For: time.Minute, Politeness: Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second, DelayFactor: 2, MaxDelay: time.Minute}}, Duration: time.Second, Connections: 3}}
	for round := range 12 {
		must.OK(t, b.add("", fresh()...))
		b.check()
		now := record.Time(1+round) * 30_000_000
		s, _, err := b.f.current()
		must.OK(t, err)
		var want []string
		for all := range 2 {
			var got []string
			p, err := pick(context.Background(), b.f.st, s, now, o, outlets{
				take:  func(e *Entry, _ []byte) error { got = append(got, e.URL.URL); return nil },
				leave: func(*Entry) error { return nil },
				wait:  func(*Entry) error { return nil },
			})
			must.OK(t, err)
			p.close()
			if all == 1 && !slices.Equal(got, want) {
				t.Fatalf("round %d: %v with all runs, %v with some of %+v", round, got, want, s.Hosts)
			}
			want = got
			if left := len(speeds(s.Hosts)); all == 0 && left > 0 && left < len(s.Hosts) {
				both++
			}
			for i := range s.Hosts {
				s.Hosts[i].Fresh = false
			}
		}
		if round%3 != 2 {
			continue
		}
		o := o
		o.Txn = fmt.Sprint("r", round)
		urls, err := b.next(now, o)
		must.OK(t, err)
		var outcomes []record.Fetch
		for _, u := range urls {
			f := fetchOf(u, record.OutcomeFetched, 200, now)
			f.DurationUS = rng.Int64N(5_000_000)
			outcomes = append(outcomes, f)
		}
		must.OK(t, b.update(o.Txn, now, outcomes, fresh()...))
	}
	if both == 0 {
		t.Error("no round had runs of both kinds")
	}

	tx, _, err := b.f.st.Begin(context.Background(), "add", "wrong")
	must.OK(t, err)
	defer tx.Abort()
	s, err := b.f.load(tx.Base())
	must.OK(t, err)
	for i := range s.Hosts {
		s.Hosts[i].Fresh = true
	}
	must.OK(t, s.save(tx))
	_, err = tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
	if err := b.f.Check(context.Background()); !errors.Is(err, fault.No) {
		t.Error(err)
	}
}
