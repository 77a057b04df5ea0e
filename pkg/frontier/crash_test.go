package frontier

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/must"
)

// contents is all that a user can see of a frontier.
func (b *bench) contents() string {
	b.t.Helper()
	st, err := b.f.Stat(context.Background(), StatOptions{Top: 100, Detail: true})
	must.OK(b.t, err)
	text, err := json.Marshal(st)
	must.OK(b.t, err)
	err = b.f.EachURL(context.Background(), func(u *record.URL) error {
		text = fmt.Appendf(text, "\n%s %d %d", u.URL, u.Attempt, u.Due)
		return nil
	})
	must.OK(b.t, err)
	return string(text)
}

// The machine stops at every call of an add, a next and an update: what is found
// afterwards is the state before or after it, and the same command again completes.
func TestCrashAtEveryCall(t *testing.T) {
	for _, p := range []Params{{}, {Policy: opic}, {Policy: opic, Opic: Opic{Refetch: "1s"}}} {
		t.Run(p.Policy+p.Refetch, func(t *testing.T) {
			t.Parallel()
			crashRounds(t, p)
		})
	}
}

func crashRounds(t *testing.T, p Params) {
	var seeds []record.URL
	for i := range 12 {
		seeds = append(seeds, newURL(fmt.Sprintf("h%d.test", i%6), fmt.Sprint(i), uint8(i%2)))
	}
	var batch []record.URL
	update := func(b *bench, txn string, batch []record.URL) error {
		var outcomes []record.Fetch
		for i, u := range batch {
			kind := []string{record.OutcomeFetched, record.OutcomeTimeout, record.OutcomeDeferred, record.OutcomeDenied}[i%4]
			status := uint16(0)
			if kind == record.OutcomeFetched {
				status = 200
			}
			outcomes = append(outcomes, fetchOf(u, kind, status, 1))
			b.links = append(b.links, linkOf(u, seeds[11]), linkOf(u, seeds[3]), linkOf(u, newURL("h9.test", "new "+txn, 2)))
		}
		return b.update(txn, 1, outcomes, newURL("h9.test", "new "+txn, 2))
	}
	steps := []crashStep{
		{"add", func(b *bench) error { return b.add("seed", seeds...) }},
		{"raise", func(b *bench) error {
			higher := slices.Clone(seeds[1:6])
			for i := range higher {
				higher[i].Priority = 0
			}
			_, err := b.raise("higher", higher...)
			return err
		}},
		{"next", func(b *bench) (err error) {
			batch, err = b.next(1, NextOptions{N: 4, PerHost: 2, Txn: "r1"})
			return err
		}},
		{"update", func(b *bench) error { return update(b, "r1", batch) }},
		{"release", func(b *bench) error {
			_, err := b.release(1e9, ReleaseOptions{Txn: "again"})
			return err
		}},
		{"next with due URLs", func(b *bench) (err error) {
			batch, err = b.next(1e9, NextOptions{N: 3, Txn: "r2"})
			return err
		}},
		{"update with budgets", func(b *bench) error {
			var fresh []record.URL
			for i := range 5 {
				fresh = append(fresh, newURL(fmt.Sprintf("h%d.farm.test", i), "", 0))
			}
			return b.budgeted("r2", Budgets{Base: 1, Growth: 1}, batch, fresh, []record.Link{linkTo(batch[0], fresh[0])})
		}},
	}
	if p.Policy == opic { // knows no budgets and no priorities
		steps = append(steps[:1], steps[2:len(steps)-1]...)
	}
	crashAtEveryCall(t, crashtest.New(), p, &batch, steps)
}

// So does an update during which two merges go on.
func TestCrashWhileMerging(t *testing.T) {
	fs, p := crashtest.New(), Params{Buffer: 16, Priority: Priority{Queues: 2}}
	b := open(t, fs, p)
	for i := range 3 {
		var urls []record.URL
		for k := range 20 {
			urls = append(urls, newURL(fmt.Sprintf("h%d.test", k), fmt.Sprint(i), uint8(k%2)))
		}
		must.OK(t, b.add("", urls...))
	}
	batch, err := b.next(1, NextOptions{N: 1, Txn: "r1"})
	must.OK(t, err)
	crashAtEveryCall(t, fs, p, &batch, []crashStep{{"update", func(b *bench) error {
		b.f.layout.step = 35 // rows, of which there are 29 and 30: a merge is done, and one goes on
		return b.update("r1", 1, []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, 1)}, newURL("h0.test", "new", 0))
	}}})
	b = open(t, fs, p)
	b.f.layout.step = 35
	must.OK(t, b.update("r1", 1, []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, 1)}, newURL("h0.test", "new", 0)))
	s, _, err := b.f.current()
	must.OK(t, err)
	if s.Rewritten != 35 || len(s.Ready[0]) != 2 || s.Ready[0][0].Chain == 0 || len(s.Ready[1]) != 4 || s.Ready[1][0].Chain == 0 {
		t.Errorf("%d rows copied, to %+v", s.Rewritten, s.Ready)
	}
}

// A walk begins, visits, and goes on by a link or anew; so does one with a start set that grows.
func TestWalkCrashAtEveryCall(t *testing.T) {
	var batch []record.URL
	crashAtEveryCall(t, crashtest.New(), Params{Policy: walk, Walk: Walk{Walkers: 6}}, &batch, []crashStep{
		{"add", func(b *bench) error { return b.add("seed", pageURL("a.test/"), pageURL("d.test/"), pageURL("a.test/")) }},
		{"next", func(b *bench) (err error) {
			batch, err = b.next(1, NextOptions{N: 4, Txn: "r1"})
			return err
		}},
		{"update", func(b *bench) error {
			var outcomes []record.Fetch
			var links []record.Link
			for i, u := range batch {
				kind := []string{record.OutcomeFetched, record.OutcomeTimeout, record.OutcomeDeferred, record.OutcomeFetched}[i%4]
				outcomes = append(outcomes, fetchOf(u, kind, 200, 1))
				if kind == record.OutcomeFetched {
					links = append(links, smallWeb.links(u)...)
				}
			}
			return b.walk("r1", outcomes, links)
		}},
		{"add more", func(b *bench) error { return b.add("more", pageURL("e.test/"), pageURL("d.test/")) }},
	})
}

// crashStep is a change that is stopped.
type crashStep struct {
	name string
	do   func(b *bench) error
}

// crashAtEveryCall stops each step at each of its calls, on a copy of fs; batch is what steps leave to later ones.
func crashAtEveryCall(t *testing.T, fs *crashtest.FS, p Params, batch *[]record.URL, steps []crashStep) {
	t.Helper()
	for _, step := range steps {
		before := open(t, fs, p).contents()
		whole := fs.AfterCrash(crashtest.KeepAll)
		b := open(t, whole, p)
		whole.CrashAt(0)
		if err := step.do(b); err != nil {
			t.Fatal(step.name, err)
		}
		calls := whole.Calls()
		after := b.contents()
		if before == after {
			t.Fatal(step.name, " changes nothing")
		}
		kept := *batch
		for n := 1; n <= calls; n++ {
			trial := fs.AfterCrash(crashtest.KeepAll)
			b := open(t, trial, p)
			trial.CrashAt(n)
			crashed := step.do(b)
			*batch = kept
			for _, loss := range []crashtest.Loss{crashtest.LoseAll, crashtest.KeepAll, crashtest.Loss(1000 + n)} {
				b := open(t, trial.AfterCrash(loss), p)
				switch got := b.contents(); {
				case got == after:
				case got == before && crashed == nil:
					t.Fatalf("%s: call %d of %d, loss %d: reported done, but lost", step.name, n, calls, loss)
				case got != before:
					t.Fatalf("%s: call %d of %d, loss %d: neither before nor after:\n%s", step.name, n, calls, loss, got)
				}
				b.check()
				if err := step.do(b); err != nil {
					t.Fatalf("%s: again after call %d of %d, loss %d: %v", step.name, n, calls, loss, err)
				}
				if got := b.contents(); got != after {
					t.Fatalf("%s: again after call %d of %d, loss %d:\n%s\nwant\n%s", step.name, n, calls, loss, got, after)
				}
				b.check()
			}
		}
		fs = whole
	}
}

// A full disk stops a change; with room again the same command completes.
func TestDiskFull(t *testing.T) {
	fs := crashtest.New()
	b := open(t, fs, Params{})
	var urls []record.URL
	for i := range 2000 {
		urls = append(urls, newURL("a.test", fmt.Sprint(i), 0))
	}
	for _, room := range []int64{0, 100, 3000} {
		fs.SetSpace(room)
		if err := b.add("seed", urls...); err == nil {
			t.Fatalf("added in %d bytes", room)
		}
		fs.SetSpace(-1)
		if c := b.counts(); c.Discovered != 0 {
			t.Fatal(c)
		}
	}
	must.OK(t, b.add("seed", urls...))
	b.check()
}
