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
	"mercator/formats/segment"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// What back queues promise, at every step: a queue holds one host and is refilled
// when it is empty, no host has two, the host that may be contacted earliest is next,
// none is early, and each URL comes out once, first in, first out within its host.
func TestBackQueues(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		most, connections, urls := 1+rng.IntN(12), 1+rng.IntN(5), 400
		var paces []pace
		for range 1 + rng.IntN(30) {
			paces = append(paces, pace{time.Duration(rng.IntN(50)), time.Duration(rng.IntN(500)), time.Duration(rng.IntN(2) * rng.IntN(1000))})
		}
		var put [][]int // of each host
		for range paces {
			put = append(put, nil)
		}
		n, got := 0, 0
		came := make([]time.Duration, len(paces)) // when the host's queue was filled
		var b *backQueues
		b = newBackQueues(most, connections, func() (drawn, bool, error) {
			if n == urls {
				return drawn{}, false, nil
			}
			h := min(rng.IntN(len(paces)), rng.IntN(len(paces)))
			put[h] = append(put[h], n)
			if b.byHost[uint64(h)] == nil {
				came[h] = b.now
			}
			row := fmt.Appendf(nil, "%d %d", h, n)
			n++
			return drawn{decision{host: uint64(h), pace: paces[h]}, row}, true, nil
		})
		free := make([]time.Duration, len(paces)) // when a host may be contacted
		var ends []time.Duration                  // of contacts
		before := time.Duration(0)
		for {
			d, more, err := b.next()
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				break
			}
			got++
			var h, number int
			fmt.Sscan(string(d.row), &h, &number)
			if put[h][0] != number {
				t.Fatalf("seed %d: URL %d of host %d, want %d", seed, number, h, put[h][0])
			}
			put[h] = put[h][1:]
			if b.now < before || b.now < free[h] || b.now < paces[h].wait {
				t.Fatalf("seed %d: host %d at %d, not before %d and %d; the clock stood at %d", seed, h, b.now, free[h], paces[h].wait, before)
			}
			before = b.now
			earliest := max(free[h], paces[h].wait, came[h])
			free[h] = b.now + paces[h].contact + paces[h].gap
			atWork := 1
			for _, end := range ends {
				if end > b.now {
					atWork++
				}
			}
			if atWork > connections {
				t.Fatalf("seed %d: %d contacts at a time", seed, atWork)
			}
			ends = append(ends, b.now+paces[h].contact)
			if len(b.byHost) != b.rest.Len()+b.busy.Len() || len(b.byHost) > most || !b.ended && len(b.byHost) < most {
				t.Fatalf("seed %d: %d hosts in %d and %d queues, want %d", seed, len(b.byHost), b.rest.Len(), b.busy.Len(), most)
			}
			if b.rest.Len() > 0 {
				if q := *b.rest.First(); q.at < earliest {
					t.Fatalf("seed %d: host %d could be contacted from %d on, host %d from %d", seed, q.host, q.at, h, earliest)
				}
			}
			empty := 0
			for host, q := range b.byHost {
				if q.first == nil {
					empty++
				}
				if q.first == nil && q.last != nil {
					t.Fatalf("seed %d: the queue of host %d keeps a URL that it gave away", seed, host)
				}
				for u := q.first; u != nil; u = u.next {
					var of, number uint64
					fmt.Sscan(string(u.row), &of, &number)
					if of != host || q.host != host {
						t.Fatalf("seed %d: a URL of host %d in the queue of host %d", seed, of, host)
					}
				}
			}
			if empty > b.busy.Len() {
				t.Fatalf("seed %d: %d empty queues, of %d hosts that are contacted", seed, empty, b.busy.Len())
			}
		}
		if got != urls || b.held != 0 {
			t.Fatalf("seed %d: %d of %d URLs, %d bytes held", seed, got, urls, b.held)
		}
	}
}

// A URL that no queue has room for waits, and comes out all the same.
func TestBackQueuesAreBounded(t *testing.T) {
	const n, size = 30, maxHeld / 8
	drawnSoFar := 0
	b := newBackQueues(5, 2, func() (drawn, bool, error) {
		if drawnSoFar == n {
			return drawn{}, false, nil
		}
		drawnSoFar++
		return drawn{decision{pace: pace{1, 10, 0}}, make([]byte, size)}, true, nil
	})
	for i := range n {
		if _, more, err := b.next(); err != nil || !more || drawnSoFar > i+9 || b.held > maxHeld {
			t.Fatal(i, more, err, drawnSoFar, b.held)
		}
	}
	drawnSoFar = 0
	b = newBackQueues(5, 2, func() (drawn, bool, error) {
		drawnSoFar++
		return drawn{row: []byte{0}}, true, nil
	})
	if _, more, err := b.next(); err != nil || !more || drawnSoFar > maxHeld/waitingBytes {
		t.Fatal(more, err, drawnSoFar)
	}
	r := resting{until: map[uint64]time.Duration{}}
	for i := range uint64(3 * maxResting) {
		if r.add(i, time.Hour+time.Duration(i), time.Duration(i)); len(r.until) > maxResting || r.until[i] == 0 {
			t.Fatalf("%d hosts are remembered, host %d until %d", len(r.until), i, r.until[i])
		}
	}
	for i := range uint64(maxResting) {
		r.add(i, 3*time.Hour+time.Duration(i), 2*time.Hour)
	}
	if len(r.until) > maxResting || r.until[maxResting-1] == 0 || r.until[2*maxResting] != 0 {
		t.Errorf("%d hosts are remembered, some of which have had their time", len(r.until))
	}
}

func TestBackQueueCounts(t *testing.T) {
	p := &policy{name: priority, queues: 5}
	for text, want := range map[string]int{"": 0, "3C": 30, "3K": 15, "0": 0, "7": 7, "65536": 65536, "60000C": 65536} {
		if n, err := p.backQueues(text, 10); n != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", text, n, err, want)
		}
	}
	if n, err := p.backQueues("65536C", 1<<16); n != maxBackQueues || err != nil { // 2^32: 0 in 32 bits
		t.Error(n, err)
	}
	for _, text := range []string{"C", "-1", "65537", "3B", "x"} {
		if n, err := p.backQueues(text, 10); !errors.Is(err, fault.Usage) {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	if _, err := p.backQueues("3K", 0); !errors.Is(err, fault.Usage) {
		t.Error("back queues without connections: ", err)
	}
	p.name = dynamic
	if n, err := p.backQueues("", 10); n != 0 || err != nil {
		t.Error(n, err)
	}
	if _, err := p.backQueues("5", 10); !errors.Is(err, fault.Usage) {
		t.Error("back queues of another policy: ", err)
	}
}

// Back queues change the order of a batch, and not what is in it: so the shares of the
// front queues stay those of the bias, and a host's URLs of one priority their order. A slow host
// comes as often as its speed allows.
func TestBackQueuesOrderABatch(t *testing.T) {
	b := open(t, durable.NewCrashFS(), Params{Seed: 3})
	slow, fast := newURL("slow.test", "first", 0), newURL("fast.test", "first", 0)
	if err := b.add("seed", slow, fast); err != nil {
		t.Fatal(err)
	}
	if _, err := b.next(1, NextOptions{N: 2, Txn: "r1"}); err != nil {
		t.Fatal(err)
	}
	s, f := fetchOf(slow, record.OutcomeFetched, 200, 1), fetchOf(fast, record.OutcomeFetched, 200, 1)
	s.DurationUS, f.DurationUS = 3_000_000, 100_000
	var fresh []record.URL
	for i := range 400 {
		fresh = append(fresh, newURL([]string{"slow.test", "fast.test"}[i%2], fmt.Sprint(i), uint8(i/2%3)))
	}
	if err := b.update("r1", 1, []record.Fetch{s, f}, fresh...); err != nil {
		t.Fatal(err)
	}
	const now = record.Time(3600e6)
	var plain []string
	st, _, err := b.f.current()
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(*segment.Entry) error { return nil }
	p, err := pick(t.Context(), b.f.st, st, now, NextOptions{N: 300}, outlets{leave: nothing, wait: nothing, take: func(e *segment.Entry, _ []byte) error {
		plain = append(plain, e.URL.URL)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.close()
	o := NextOptions{N: 300, Politeness: Politeness{Connections: 2, DelayFactor: 1, MaxDelay: time.Minute}, BackQueues: "3C", Txn: "r2"}
	batch, err := b.next(now, o)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, url := range plain {
		set[url] = true
	}
	at := map[string]int{} // the last URL of a host and priority
	slowOnes := 0
	for i, u := range batch {
		if !set[u.URL] {
			t.Errorf("%s is in the batch with back queues alone", u.URL)
		}
		delete(set, u.URL)
		var n int
		fmt.Sscanf(u.URL[len("http://slow.test/"):], "%d", &n)
		k := fmt.Sprint(u.Host, u.Priority)
		if n < at[k] {
			t.Errorf("%s after %d", u.URL, at[k])
		}
		at[k] = n
		if u.Host == "slow.test" {
			slowOnes++
		}
		if i == 61 && slowOnes != 2 && slowOnes != 3 {
			t.Errorf("%d of the first 62 URLs are of a host that takes 30 times as long as the other", slowOnes)
		}
	}
	if len(set) > 0 {
		t.Errorf("%d URLs are missing", len(set))
	}
	b.check()
}

// Runs of hosts of which nothing is known need not be read, and a batch comes out the same.
func TestFresh(t *testing.T) {
	b := open(t, durable.NewCrashFS(), Params{})
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
	o := NextOptions{N: 20, BackQueues: "3C", Politeness: Politeness{MinDelay: time.Second, DelayFactor: 2, MaxDelay: time.Minute, Duration: time.Second, Connections: 3}}
	for round := range 12 {
		if err := b.add("", fresh()...); err != nil {
			t.Fatal(err)
		}
		b.check()
		now := record.Time(1+round) * 30_000_000
		s, _, err := b.f.current()
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for all := range 2 {
			var got []string
			p, err := pick(context.Background(), b.f.st, s, now, o, outlets{
				take:  func(e *segment.Entry, _ []byte) error { got = append(got, e.URL.URL); return nil },
				leave: func(*segment.Entry) error { return nil },
				wait:  func(*segment.Entry) error { return nil },
			})
			if err != nil {
				t.Fatal(err)
			}
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
		if err != nil {
			t.Fatal(err)
		}
		var outcomes []record.Fetch
		for _, u := range urls {
			f := fetchOf(u, record.OutcomeFetched, 200, now)
			f.DurationUS = rng.Int64N(5_000_000)
			outcomes = append(outcomes, f)
		}
		if err := b.update(o.Txn, now, outcomes, fresh()...); err != nil {
			t.Fatal(err)
		}
	}
	if both == 0 {
		t.Error("no round had runs of both kinds")
	}

	tx, _, err := b.f.st.Begin(context.Background(), "add", "wrong")
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Abort()
	s, err := b.f.load(tx.Base())
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Hosts {
		s.Hosts[i].Fresh = true
	}
	if err := s.save(tx); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(0, "", record.Ledger{}); err != nil {
		t.Fatal(err)
	}
	if err := b.f.Check(context.Background()); !errors.Is(err, fault.No) {
		t.Error(err)
	}
}
