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
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
	"mercator/pkg/folder/stage"
)

// pathJudge refuses what has a word in its URL, as a filter's rule of that name.
type pathJudge string

func (j pathJudge) Waiting(_ context.Context, urls []*record.URL, rules []string) error {
	for i, u := range urls {
		rules[i] = ""
		if strings.Contains(u.URL, string(j)) {
			rules[i] = string(j)
		}
	}
	return nil
}

// Of 10 hosts each has 20 wanted URLs behind 20 others: batches are full all the same, no unwanted URL goes out, each is
// told once, and the sums add up before and after each update, for every policy and kind of batch.
func TestRefusedAtNext(t *testing.T) {
	for _, p := range []Params{{}, {Policy: dynamic}, {Policy: fifo, Fifo: Fifo{Workers: 3}}, {Policy: opic}, {Policy: revisit}, {Priority: Priority{Queues: 1}}} {
		for _, o := range []NextOptions{{N: 30}, {N: 30, PerHost: 4}, {N: 30, PerDomain: 5}, {N: 30, For: 30 * time.Second, Politeness: politeness30}} {
			t.Run(fmt.Sprintf("%s-%d-%d-%v", p.Policy, o.PerHost, o.PerDomain, o.For), func(t *testing.T) {
				b := open(t, crashtest.New(), p)
				var urls []record.URL
				for n := range 40 {
					for host := range 10 {
						word := "private"
						if n >= 20 {
							word = "open"
						}
						urls = append(urls, newURL(fmt.Sprintf("h%d.d%d.test", host, host), fmt.Sprintf("%s/%d", word, n), 0))
					}
				}
				must.OK(t, b.add("seed", urls...))
				told := map[string]bool{}
				o.Judge = pathJudge("private")
				o.Refused = func(u *record.URL, rule string) error {
					if told[u.URL] || rule != "private" {
						t.Errorf("%s is told twice, or by rule %q", u.URL, rule)
					}
					told[u.URL] = true
					return nil
				}
				now := record.Time(1e12)
				for round, got := 0, 0; got < 200; round++ {
					o.Txn = fmt.Sprintf("r%d", round)
					batch, err := b.next(now, o)
					must.OK(t, err)
					want := min(o.N, 200-got)
					if p.Policy == fifo && o.PerHost+o.PerDomain > 0 { // it passes over as many as it takes, and then no further
						want = max(len(batch), 1)
					}
					if len(batch) != want {
						t.Fatalf("round %d: %d URLs, want %d", round, len(batch), want)
					}
					b.check()
					var outcomes []record.Fetch
					for _, u := range batch {
						if strings.Contains(u.URL, "private") {
							t.Fatalf("%s is in the batch", u.URL)
						}
						outcomes = append(outcomes, fetchOf(u, record.OutcomeRobotsDenied, 0, now))
					}
					must.OK(t, b.update(o.Txn, now, outcomes))
					b.check()
					got += len(batch)
					now += 3600e6
				}
				if len(told) != 200 {
					t.Errorf("%d URLs are told to be refused, want 200", len(told))
				}
				c := b.counts()
				if c.Finished != 400 || c.Pending != 0 || c.InFlight != 0 || len(c.Outcomes) != 2 || c.Outcomes[0] != (record.Count{Reason: "refused", N: 200}) {
					t.Errorf("%+v", c)
				}
			})
		}
	}
}

// Bodies count by host, whatever they are of, and URLs of a host that has sent enough are refused from then on; a higher limit, or another host,
// lets them through. A filter's reason comes first.
// TestHostBytesOfPoliciesThatFetchAgain: the bytes of a host would only grow, until all its pages were refused.
func TestHostBytesOfPoliciesThatFetchAgain(t *testing.T) {
	for _, policy := range []string{"walk", revisit} {
		t.Run(policy, func(t *testing.T) {
			b := open(t, crashtest.New(), Params{Policy: policy})
			must.OK(t, b.add("", newURL("a.test", "0", 0)))
			_, err := b.next(1e12, NextOptions{N: 1, Txn: "r1", HostBytes: func(string) uint64 { return 1 }})
			if want := "a limit of bytes per host for policy " + policy; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

func TestHostBytes(t *testing.T) {
	for _, o := range []NextOptions{{N: 2}, {N: 2, For: time.Minute, Politeness: politeness30}} {
		t.Run(o.For.String(), func(t *testing.T) {
			b := open(t, crashtest.New(), Params{})
			for _, host := range []string{"a.test", "b.test"} {
				for n := range 4 {
					must.OK(t, b.add("", newURL(host, fmt.Sprint(n), 0)))
				}
			}
			now := record.Time(1e12)
			most := map[string]uint64{"a.test": 100}
			var refused []string
			o.HostBytes = func(host string) uint64 { return most[host] }
			o.Refused = func(u *record.URL, reason string) error {
				refused = append(refused, reason+" "+strings.TrimPrefix(u.URL, "http://"))
				return nil
			}
			round := func(bytes int64, want string) {
				t.Helper()
				refused = nil
				o.Txn = fmt.Sprint("r", now)
				batch, err := b.next(now, o)
				must.OK(t, err)
				var rows []record.Fetch
				got := refused
				for _, u := range batch {
					got = append(got, strings.TrimPrefix(u.URL, "http://"))
					for _, role := range []string{record.RoleRobots, record.RolePage} {
						row := fetchOf(u, record.OutcomeFetched, 200, now)
						row.Role, row.BodyLength = role, bytes
						rows = append(rows, row)
					}
				}
				slices.Sort(got) // a host with less room comes later
				if text := strings.Join(got, ", "); text != want {
					t.Errorf("%s, want %s", text, want)
				}
				must.OK(t, b.update(o.Txn, now, rows))
				b.check()
				now += 3600e6
			}
			round(30, "a.test/0, b.test/0")
			round(30, "a.test/1, b.test/1") // 60 bytes so far, and 120 behind it
			round(1000, "b.test/2, b.test/3, host-bytes a.test/2, host-bytes a.test/3")
			if h, found, err := b.f.Host(context.Background(), "a.test"); err != nil || !found || h.Bytes != 120 || h.Finished != 4 {
				t.Errorf("%+v, %v", h, err)
			}
			must.OK(t, b.add("", newURL("a.test", "4", 0), newURL("a.test", "5", 0)))
			most["a.test"], o.N = 121, 1
			round(1, "a.test/4")
			o.Judge = pathJudge("5")
			round(1, "5 a.test/5")
		})
	}
}

// TestRoomOfAHost: a batch with a time takes what a host may still send, by the mean size of its replies, and one URL more.
func TestRoomOfAHost(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	for n := range 40 {
		must.OK(t, b.add("", newURL("a.test", fmt.Sprint(n), 0)))
	}
	o := NextOptions{N: 40, For: time.Minute, Politeness: politeness30, HostBytes: func(string) uint64 { return 250_000 }, Refused: func(*record.URL, string) error { return nil }}
	now, sent := record.Time(1e12), 0
	for i, want := range []int{3, 5, 4, 1, 0} { // each reply has 20 kB
		o.Txn = fmt.Sprint("r", i)
		batch, err := b.next(now, o)
		must.OK(t, err)
		if len(batch) != want {
			t.Errorf("batch %d has %d URLs, want %d", i, len(batch), want)
		}
		var rows []record.Fetch
		for _, u := range batch {
			row := fetchOf(u, record.OutcomeFetched, 200, now)
			row.BodyLength = 20_000
			rows = append(rows, row)
			sent += 20_000
		}
		must.OK(t, b.update(o.Txn, now, rows))
		now += 3600e6
	}
	if sent < 250_000 || sent > 270_000 {
		t.Errorf("%d bytes were sent", sent)
	}
}

var politeness30 = Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Millisecond, DelayFactor: 1, MaxDelay: time.Second}}, Connections: 100, Duration: time.Millisecond}

// A queue ends if all its URLs are refused: the batch is empty, and after the update so is the frontier.
func TestAllRefused(t *testing.T) {
	for _, dead := range []bool{false, true} {
		b := open(t, crashtest.New(), Params{})
		for host := range 3 {
			must.OK(t, b.add("", newURL(fmt.Sprintf("h%d.test", host), "private", 0)))
		}
		o := NextOptions{N: 2, Txn: "r1", Judge: pathJudge("private"), Refused: func(*record.URL, string) error { return nil }}
		if dead {
			o.For, o.Politeness = time.Minute, politeness30
		}
		batch, err := b.next(1e12, o)
		if err != nil || len(batch) != 0 {
			t.Fatalf("%d URLs, %v", len(batch), err)
		}
		if again, err := b.next(1e12, o); err != nil || len(again) != 0 {
			t.Fatalf("again: %d URLs, %v", len(again), err)
		}
		b.check()
		must.OK(t, b.update("r1", 1e12, nil))
		b.check()
		if empty, err := b.f.Empty(1e12); !empty || err != nil {
			t.Errorf("the frontier is not empty: %+v, %v", b.counts(), err)
		}
	}
}

// A judge or a file that fails leaves the frontier as it was.
func TestJudgeFails(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	must.OK(t, b.add("", newURL("h.test", "private", 0), newURL("h.test", "open", 0)))
	full := errors.New("the disk is full")
	_, err := b.next(1e12, NextOptions{N: 2, Txn: "r1", Judge: pathJudge("private"), Refused: func(*record.URL, string) error { return full }})
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
	if c := b.counts(); c.Pending != 2 || c.InFlight != 0 {
		t.Errorf("%+v", c)
	}
	b.check()
}

// A walker on a URL that is refused begins another walk, and goes on.
func TestWalkRefused(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: walk, Walk: Walk{Walkers: 20}})
	must.OK(t, b.add("seed", newURL("h.test", "private", 0), newURL("h.test", "open", 0)))
	refused, visited := 0, 0
	o := NextOptions{N: 100, Judge: pathJudge("private"), Refused: func(*record.URL, string) error { refused++; return nil }}
	for round := range 20 {
		o.Txn = fmt.Sprintf("r%d", round)
		batch, err := b.next(1e12, o)
		must.OK(t, err)
		b.check()
		outcomes := fetchesOf(batch, record.OutcomeRobotsDenied, 0, 1e12)
		visited += len(batch)
		must.OK(t, b.walk(o.Txn, outcomes, nil))
		b.check()
	}
	if refused+visited != 20*20 || refused < 100 || visited < 100 {
		t.Errorf("%d visits refused, %d made, want 400 in all and half of each", refused, visited)
	}
}

// If every URL of a walk is refused, the walk goes on from the one start of a thousand that is not refused. It ends if there is none.
func TestWalkAllRefused(t *testing.T) {
	for _, wanted := range []int{-1, 0, 300, 999} {
		b := open(t, crashtest.New(), Params{Policy: walk, Walk: Walk{Walkers: 2}})
		b.f.layout.step = 7
		var urls []record.URL
		for n := range 1000 {
			word := "private"
			if n == wanted {
				word = "open"
			}
			urls = append(urls, newURL("h.test", fmt.Sprintf("%s/%d", word, n), 0))
		}
		for n := 0; n < len(urls); n += 250 {
			must.OK(t, b.add("", urls[n:n+250]...))
		}
		o := NextOptions{N: 100, Judge: pathJudge("private"), Refused: func(*record.URL, string) error { return nil }}
		visited := 0
		for round := range 3 {
			o.Txn = fmt.Sprintf("r%d", round)
			batch, err := b.next(1e12, o)
			b.check()
			if wanted < 0 {
				if !errors.Is(err, fault.No) || !strings.Contains(err.Error(), "refuses all 1000 URLs") || b.counts().InFlight != 0 {
					t.Errorf("%v, %+v", err, b.counts())
				}
				o.Judge = pathJudge("nothing") // another filter: the same round goes on
				if batch, err = b.next(1e12, o); err != nil || len(batch) != 2 {
					t.Error(batch, err)
				}
				break
			}
			must.OK(t, err)
			outcomes := fetchesOf(batch, record.OutcomeRobotsDenied, 0, 1e12)
			visited += len(batch)
			must.OK(t, b.walk(o.Txn, outcomes, nil))
			b.check()
		}
		if wanted >= 0 && visited == 0 {
			t.Errorf("no walk has begun at URL %d", wanted)
		}
	}
}

// A page that is visited again and again, and is refused, is visited no more.
func TestRevisitRefused(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: revisit, Revisit: Revisit{MinInterval: "1s", MaxInterval: "2s"}})
	must.OK(t, b.add("seed", newURL("h.test", "private", 0), newURL("h.test", "open", 0)))
	now := record.Time(1e12)
	for round := range 4 {
		o := NextOptions{N: 2, Txn: fmt.Sprintf("r%d", round), Refused: func(*record.URL, string) error { return nil }}
		if round >= 2 {
			o.Judge = pathJudge("private")
		}
		batch, err := b.next(now, o)
		if want := 2 - round/2; err != nil || len(batch) != want {
			t.Fatalf("round %d: %d URLs, want %d, %v", round, len(batch), want, err)
		}
		b.check()
		must.OK(t, b.update(o.Txn, now, fetchesOf(batch, record.OutcomeFetched, 200, now)))
		b.check()
		now += 1e9
	}
	if c := b.counts(); c.Finished != 1 || c.Pending != 1 {
		t.Errorf("%+v", c)
	}
}

// URLs taken once more wait once: those that wait, are in flight or stand twice in the rows are dropped, a parked one is
// put back, and a finished one waits like a new one, without its failures, whatever the limits.
func TestAddAgain(t *testing.T) {
	for _, p := range []Params{{}, {Policy: dynamic}, {Policy: fifo}, {Policy: opic}, {Policy: revisit}} {
		t.Run(p.Policy, func(t *testing.T) {
			b := open(t, crashtest.New(), p)
			var urls []record.URL
			for n := range 8 {
				urls = append(urls, newURL(fmt.Sprintf("h%d.test", n), "x", 0))
			}
			must.OK(t, b.add("seed", urls...))
			batch, err := b.next(1e12, NextOptions{N: 5, Txn: "r1"})
			if err != nil || len(batch) != 5 {
				t.Fatal(len(batch), err)
			}
			var outcomes []record.Fetch
			for i, u := range batch {
				outcomes = append(outcomes, fetchOf(u, []string{record.OutcomeRobotsDenied, record.OutcomeAddress, record.OutcomeAddress, record.OutcomeTimeout, record.OutcomeTLS}[i], 0, 1e12))
			}
			must.OK(t, b.update("r1", 1e12, outcomes))
			flying, err := b.next(1e12, NextOptions{N: 1, Txn: "r2"})
			if err != nil || len(flying) != 1 {
				t.Fatal(len(flying), err)
			}
			rows := append(slices.Clone(batch[:2]), batch[3:]...) // one of the parked is not among them
			rows[0].Attempt, rows[0].Due = 2, 5e12
			rows = append(append(rows, flying[0], rows[0]), urls...)
			rows = slices.DeleteFunc(rows, func(u record.URL) bool { return u.URL == batch[2].URL })
			add := func(txn string) record.Stage {
				spec := stage.Spec{Name: "mfrontier add", Verb: "add", Store: b.f.Store(), Txn: txn, Shape: stage.Sink}
				o := AddOptions{Again: true, Limits: Limits{HostURLs: 1, Depth: 1}}
				if p.Policy == opic {
					o.Limits.HostURLs = 0
				}
				done, err := stage.Run(context.Background(), spec, recordtest.In(txn, slices.Clone(rows)...), nil, b.adding(o))
				must.OK(t, err)
				b.check()
				return done.Stage
			}
			first := add("")
			if first.Consumed != 2 || fmt.Sprint(first.Drops) != fmt.Sprintf("[{released 1} {waiting %d}]", len(rows)-3) {
				t.Errorf("first: consumed %d, dropped %v of %d", first.Consumed, first.Drops, len(rows))
			}
			if second := add(""); second.Consumed != 0 || fmt.Sprint(second.Drops) != fmt.Sprintf("[{waiting %d}]", len(rows)) {
				t.Errorf("second: consumed %d, dropped %v", second.Consumed, second.Drops)
			}
			if parked, _, err := b.f.Parked(); err != nil || len(parked) != 1 || parked[0].URLs != 1 {
				t.Errorf("parked %+v, %v", parked, err)
			}
			must.OK(t, b.update("r2", 1e12, []record.Fetch{fetchOf(flying[0], record.OutcomeRobotsDenied, 0, 1e12)}))
			waiting, err := b.next(2e12, NextOptions{N: 100, Txn: "r3"})
			seen := map[string]int{}
			for _, u := range waiting {
				seen[u.URL]++
				if u.URL == batch[0].URL && u.Attempt != 0 {
					t.Errorf("%d failures are left", u.Attempt)
				}
			}
			if err != nil || len(waiting) != 6 || seen[batch[2].URL] != 0 || len(seen) != 6 {
				t.Errorf("%d URLs wait: %v, %v", len(waiting), seen, err)
			}
			b.check()
		})
	}
	b := open(t, crashtest.New(), Params{Policy: walk})
	if err := b.f.CheckAdd(AddOptions{Again: true}); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
}

// A URL that is fetched again counts once: its outcome is taken back when it waits again. So it takes no place of its host's from
// URLs that are found later. A row without an outcome, or with one that no URL has, is one of a new URL.
func TestAgainCountsOnce(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	was := record.NewSchema(record.KindURL, record.Column{Name: record.WasColumn, Text: true})
	urls := []record.URL{newURL("a.test", "1", 0), newURL("a.test", "2", 0), newURL("b.test", "1", 0)}
	must.OK(t, b.add("seed", urls...))
	now, round := record.Time(1e12), 0
	fetchAll := func(outcome string) {
		t.Helper()
		round++
		now += 1e9
		txn := fmt.Sprintf("r%d", round)
		batch, err := b.next(now, NextOptions{N: 100, Txn: txn})
		must.OK(t, err)
		must.OK(t, b.update(txn, now, fetchesOf(batch, outcome, 404, now)))
		b.check()
	}
	again := func(outcome string, urls ...record.URL) error {
		t.Helper()
		rows := recordtest.In("", slices.Clone(urls)...)
		rows.Of = *was
		for i := range rows.All {
			rows.All[i].Extra = was.Texts(func(string) string { return outcome })
		}
		_, err := stage.Run(context.Background(), stage.Spec{Name: "mfrontier add", Verb: "add", Store: b.f.Store(), Shape: stage.Sink}, rows, nil, b.adding(AddOptions{Again: true}))
		b.check()
		return err
	}
	want := func(discovered, pending uint64, outcomes string) {
		t.Helper()
		if c := b.counts(); c.Discovered != discovered || c.Pending != pending || fmt.Sprint(c.Outcomes) != outcomes {
			t.Errorf("discovered %d, pending %d, %v; want %d, %d, %s", c.Discovered, c.Pending, c.Outcomes, discovered, pending, outcomes)
		}
	}
	fetchAll(record.OutcomeFetched)
	want(3, 0, "[{fetched 3}]")
	for range 2 {
		must.OK(t, again(record.OutcomeFetched, urls[0], urls[2], urls[0]))
		want(3, 2, "[{fetched 1}]")
	}
	fetchAll(record.OutcomeRobotsDenied)
	want(3, 0, "[{fetched 1} {robots-denied 2}]")
	must.OK(t, again(record.OutcomeRobotsDenied, urls[0]))
	if h, _, err := b.f.Host(context.Background(), "a.test"); err != nil || h.Discovered != 2 || h.Finished != 1 || h.Fetched != 1 || h.Pending != 1 {
		t.Errorf("%+v, %v", h, err)
	}
	fetchAll(record.OutcomeFetched)
	want(3, 0, "[{fetched 2} {robots-denied 1}]")

	spec := stage.Spec{Name: "mfrontier add", Verb: "add", Store: b.f.Store(), Shape: stage.Sink}
	done, err := stage.Run(context.Background(), spec, recordtest.In("", newURL("a.test", "3", 0), newURL("a.test", "4", 0)), nil, b.adding(AddOptions{Limits: Limits{HostURLs: 3}}))
	if err != nil || done.Stage.Consumed != 1 {
		t.Errorf("%d more URLs of a host that has 2 of 3, %v", done.Stage.Consumed, err)
	}
	must.OK(t, again(record.OutcomeTLS, urls[1]))
	want(5, 2, "[{fetched 2} {robots-denied 1}]")
	if err := again(record.OutcomeFetched, newURL("c.test", "1", 0)); !errors.Is(err, fault.Conflict) {
		t.Errorf("an outcome of a host that has none: %v", err)
	}
	want(5, 2, "[{fetched 2} {robots-denied 1}]")
}
