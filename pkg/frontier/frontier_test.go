package frontier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
)

// given is an input of an update.
func given[T record.Row](txn string, rows []T) func() (stage.Input[T], error) {
	return func() (stage.Input[T], error) { return recordtest.In(txn, rows...), nil }
}

func newURL(host, path string, priority uint8) record.URL {
	u := "http://" + host + "/" + path
	return record.URL{URL: u, Host: host, Key: fingerprint.URLKey(host, u), Priority: priority}
}

// The names of policies.
const (
	priority = "priority"
	dynamic  = "dynamic"
	revisit  = "revisit"
	fifo     = "fifo"
	walk     = "walk"
	opic     = "opic"
)

// bench is a frontier store in memory and what a test does with it.
type bench struct {
	t     testing.TB
	fs    durable.FS
	f     *Frontier
	links []record.Link // of updates
}

func open(t testing.TB, fs durable.FS, p Params) *bench {
	t.Helper()
	opt := store.Options{FS: fs}
	must.OK(t, Create("/crawl/frontier", p, opt))
	f, err := Open("/crawl/frontier", opt)
	must.OK(t, err)
	f.layout = layout{queueFan: 3, hostFan: 2, step: 3, sort: 0} // merges that are under way nearly always
	return &bench{t: t, fs: fs, f: f}
}

// adding is the body of an add.
func (b *bench) adding(o AddOptions) func(context.Context, *stage.Batch[record.URL, record.URL]) error {
	return func(ctx context.Context, s *stage.Batch[record.URL, record.URL]) error { return b.f.Add(ctx, s, o) }
}

// add adds URLs, with the columns that the frontier exports.
func (b *bench) add(txn string, urls ...record.URL) error {
	columns, err := b.f.ExportColumns()
	if err != nil {
		return err
	}
	in := recordtest.In(txn, urls...)
	if columns != nil {
		in.Of = *columns
		in.Of.Txn = txn
	}
	spec := stage.Spec{Name: "mfrontier add", Verb: "add", Store: b.f.Store(), Txn: txn, Shape: stage.Sink}
	_, err = stage.Run(context.Background(), spec, in, nil, b.adding(AddOptions{Txn: txn}))
	return err
}

func (b *bench) next(now record.Time, o NextOptions) ([]record.URL, error) {
	var out recordtest.Output
	spec := stage.Spec{Name: "mfrontier next", Verb: "next", Store: b.f.Store(), Txn: o.Txn, Now: now, Shape: stage.Source}
	if o.Always {
		spec.Like = CreditColumns
	}
	_, err := stage.Run(context.Background(), spec, nil, []stage.Output{&out}, func(ctx context.Context, s *stage.Batch[record.URL, record.URL]) error {
		return b.f.Next(ctx, s, o)
	})
	if err != nil {
		return nil, err
	}
	batch, _ := recordtest.Rows[record.URL](b.t, &out)
	return batch, nil
}

func (b *bench) release(now record.Time, o ReleaseOptions) (n uint64, err error) {
	spec := stage.Spec{Name: "mfrontier release", Verb: "release", Store: b.f.Store(), Txn: o.Txn, Now: now, Shape: stage.Sink}
	_, err = stage.Run(context.Background(), spec, nil, nil, func(ctx context.Context, s *stage.Batch[record.URL, record.URL]) (err error) {
		n, err = b.f.Release(ctx, s, o)
		return err
	})
	return n, err
}

// raise gives URLs their priority and score, if those are higher.
func (b *bench) raise(txn string, urls ...record.URL) (record.Stage, error) {
	spec := stage.Spec{Name: "mfrontier raise", Verb: "raise", Store: b.f.Store(), Txn: txn, Shape: stage.Sink}
	done, err := stage.Run(context.Background(), spec, recordtest.In(txn, urls...), nil, func(ctx context.Context, s *stage.Batch[record.URL, record.URL]) error {
		_, err := b.f.Raise(ctx, s, txn)
		return err
	})
	return done.Stage, err
}

func (b *bench) update(txn string, now record.Time, outcomes []record.Fetch, fresh ...record.URL) error {
	return b.updateFrom(txn, &recordtest.Input[record.URL]{All: fresh, Of: record.Schema{Txn: txn, Now: now}}, UpdateOptions{
		Txn: txn, Retries: DefaultRetries,
		Outcomes: given(txn, outcomes),
		Links:    given(txn, b.links),
	})
}

func (b *bench) updateFrom(txn string, in *recordtest.Input[record.URL], o UpdateOptions) error {
	spec := stage.Spec{Name: "mfrontier update", Verb: "update", Store: b.f.Store(), Txn: txn, Shape: stage.Sink}
	_, err := stage.Run(context.Background(), spec, in, nil, func(ctx context.Context, s *stage.Batch[record.URL, record.URL]) error {
		return b.f.Update(ctx, s, o)
	})
	return err
}

func (b *bench) counts() Counts {
	b.t.Helper()
	st, err := b.f.Stat(context.Background(), StatOptions{})
	must.OK(b.t, err)
	return st.Counts
}

func (b *bench) check() {
	b.t.Helper()
	must.OK(b.t, b.f.Check(context.Background()))
}

// outcome of a URL at a time.
func fetchOf(u record.URL, kind string, status uint16, at record.Time) record.Fetch {
	return record.Fetch{
		URL: u.URL, Key: u.Key, Host: u.Host, Priority: u.Priority, Depth: u.Depth, Attempt: u.Attempt, Addr: "127.0.0.1",
		Role: record.RolePage, FetchTime: at, DurationUS: 1000, Outcome: kind, Status: status,
	}
}

func linkOf(from, to record.URL) record.Link {
	return record.Link{SrcURL: from.URL, SrcKey: from.Key, URL: to.URL, Key: to.Key, Host: to.Host, LinkKind: "a"}
}

// model is a frontier in memory: what every URL's state must be.
type model struct {
	p     Params
	state map[string]*modelURL
	order []string // of arrival
	hosts map[string]*modelHost
}

// modelHost is what the rule of outages needs of a host.
type modelHost struct {
	contacts, failures int         // failures are those in a row
	last               record.Time // end of the last contact, or of the first of the failures
	until              record.Time // when it may be contacted again
	before             record.Time // the same before the batch, unless it answers again
	tried              record.Time // end of the batch's last contact
}

// note takes a row's news of its host.
func (h *modelHost) note(o *record.Fetch) {
	h.until = max(h.until, o.RetryAfter)
	if o.Addr == "" {
		return
	}
	end := o.FetchTime + record.Time(o.DurationUS)
	h.contacts++
	h.tried = max(h.tried, end)
	answered := o.Outcome == record.OutcomeFetched || o.Outcome == record.OutcomeNotModified
	if answered || h.failures == 0 {
		h.last = max(h.last, end)
	}
	switch {
	case !answered:
		h.failures++
	case h.failures > 0:
		h.failures, h.until, h.before = 0, o.RetryAfter, 0
	}
}

// outage is until when a URL waits that failed to connect, or was put off after one; 0: its host has no outage.
func (h *modelHost) outage(kind string) record.Time {
	const minute = record.Time(60e6)
	silent := h.tried - h.last
	switch {
	case h.contacts == h.failures, h.failures == 0 && kind != record.OutcomeDNS, silent > 120*minute:
		return 0
	case h.before > h.tried && h.before <= h.tried+15*minute:
		return h.before
	}
	return h.tried + min(minute+max(silent, 0), 15*minute)
}

// judgeHosts puts off the URLs that have met an outage, and counts them. was are their states before they were judged one by one.
func (m *model) judgeHosts(outcomes []record.Fetch, was map[string]modelURL, now record.Time) (n int) {
	for _, h := range m.hosts {
		h.before, h.tried = h.until, now
	}
	for i := range outcomes {
		o := &outcomes[i]
		if m.hosts[o.Host] == nil {
			m.hosts[o.Host] = &modelHost{tried: now}
		}
		m.hosts[o.Host].note(o)
	}
	down := map[string]bool{}
	for _, o := range outcomes {
		connects := o.Outcome != record.OutcomeConnect && o.Outcome != record.OutcomeDNS && o.Outcome != record.OutcomeRobotsUnreachable
		if o.Role != record.RolePage || connects && o.Outcome != record.OutcomeDeferred {
			continue
		}
		down[o.Host] = down[o.Host] || !connects
		h, s := m.hosts[o.Host], m.state[o.URL]
		at := h.outage(o.Outcome)
		if at == 0 || !down[o.Host] {
			continue
		}
		n++
		h.until = max(h.until, at)
		due := at
		if connects || o.Attempt < 2 { // it has a time of its own
			due = max(due, s.Due)
		}
		*s = was[o.URL]
		s.Due, s.retried, s.inFlight, s.parked = due, true, false, ""
	}
	return n
}

type modelURL struct {
	record.URL
	inFlight bool
	retried  bool // was put off or tried again: FIFO no longer binds it
	final    string
	parked   string // by which outcome
	visits   int    // of policy revisit
	gone     int
}

func (m *model) add(urls ...record.URL) {
	for _, u := range urls {
		m.state[u.URL] = &modelURL{URL: u, retried: u.Due != 0}
		m.order = append(m.order, u.URL)
	}
}

// level is the front queue of a URL.
func (m *model) level(u *record.URL) uint8 {
	switch m.p.Policy {
	case fifo, dynamic, opic:
		return 0
	case revisit: // within a kind the queues are drawn
		rank := min(u.Priority, uint8(max(m.p.Queues, 1)-1))
		if m.state[u.URL].visits > 0 {
			return uint8(max(m.p.Queues, 1)) + rank
		}
		return rank
	}
	return min(u.Priority, 2)
}

// promote gives some URLs other priorities, by a raise or by an add of them.
func (m *model) promote(t *testing.T, b *bench, rng *rand.Rand) {
	t.Helper()
	adds := rng.IntN(2) == 0
	ranks := m.p.Policy == "" || m.p.Policy == revisit
	raises := m.p.Policy == "" || m.p.Queues > 1
	if len(m.order) == 0 || !adds && !raises {
		return
	}
	var rows []record.URL
	seen := map[string]bool{}
	higher := map[*modelURL]record.URL{}
	drops := map[string]uint64{}
	for range rng.IntN(8) {
		u := m.state[m.order[rng.IntN(len(m.order))]]
		if adds && u.final != "" { // would be fetched once more
			continue
		}
		row := newURL(u.Host, strings.TrimPrefix(u.URL.URL, "http://"+u.Host+"/"), uint8(rng.IntN(5)))
		row.Score = float32(rng.IntN(3))
		best, twice := higher[u]
		if !twice {
			best = row
		}
		best.Priority, best.Score = min(best.Priority, row.Priority), max(best.Score, row.Score)
		higher[u] = best
		rows = append(rows, row)
		switch {
		case seen[u.URL.URL]:
			drops[dropWaiting]++
		case u.final != "":
			drops[dropNotWaiting]++
		case u.parked != "":
			drops[dropParked]++
		}
		seen[u.URL.URL] = true
	}
	rows = append(rows, newURL("h0.test", "nowhere", 0))
	if drops[dropNotWaiting]++; adds {
		rows = rows[:len(rows)-1]
		delete(drops, dropNotWaiting)
	}
	raised := uint64(0)
	for u, best := range higher {
		switch {
		case u.final != "" || u.parked != "":
		case ranks && (best.Priority < u.Priority || best.Score > u.Score):
			raised++
			u.Priority, u.Score, u.retried = min(best.Priority, u.Priority), max(best.Score, u.Score), true
		default:
			drops[dropWaiting]++
		}
	}
	spec := stage.Spec{Name: "mfrontier add", Verb: "add", Store: b.f.Store(), Shape: stage.Sink}
	if adds {
		done, err := stage.Run(context.Background(), spec, recordtest.In("", rows...), nil, b.adding(AddOptions{}))
		if raised > 0 {
			drops[dropRaised] = raised
		}
		sameDrops(t, done.Stage, 0, drops, err)
		return
	}
	done, err := b.raise("", rows...)
	sameDrops(t, done, raised, drops, err)
}

func sameDrops(t *testing.T, got record.Stage, consumed uint64, want map[string]uint64, err error) {
	t.Helper()
	drops := map[string]uint64{}
	for _, d := range got.Drops {
		drops[d.Reason] = d.N
	}
	if d := cmp.Diff(want, drops); d != "" || got.Consumed != consumed || err != nil {
		t.Fatal(got.Consumed, consumed, d, err)
	}
}

// line names those that come out in the order in which they went in.
func (m *model) line(u *record.URL) string {
	switch {
	case m.p.Policy == fifo:
		return fmt.Sprint(hostKey(u.Host) % uint64(m.p.Workers))
	case m.p.Policy == opic:
		return u.URL
	}
	return u.Host
}

func (m *model) waiting() (n int) {
	for _, u := range m.state {
		if !u.inFlight && u.final == "" {
			n++
		}
	}
	return n
}

// parked compares what is parked with the frontier, and counts it.
func (m *model) parked(t *testing.T, b *bench) (n int) {
	t.Helper()
	want := map[string]uint64{}
	for _, u := range m.state {
		if u.final == "" && !u.inFlight && u.parked != "" {
			want[u.parked]++
			n++
		}
	}
	all, host, err := b.f.Parked()
	got := map[string]uint64{}
	for _, p := range all {
		got[p.Outcome] = p.URLs
	}
	if d := cmp.Diff(want, got); d != "" || err != nil || (host == "") != (n == 0) {
		t.Fatal(d, host, err)
	}
	return n
}

// take checks a batch against the model and puts it in flight.
func (m *model) take(t *testing.T, batch []record.URL, n int, now record.Time) {
	t.Helper()
	eligible := map[uint8]int{}
	total := 0
	for _, u := range m.state {
		if !u.inFlight && u.final == "" && u.Due <= now {
			eligible[m.level(&u.URL)]++
			total++
			u.parked = "" // whether or not the batch has room for it
		}
	}
	if len(batch) != min(n, total) {
		t.Fatalf("batch of %d, want %d of %d", len(batch), n, total)
	}
	level := uint8(0)
	for _, u := range batch {
		s := m.state[u.URL]
		if s == nil || s.inFlight || s.final != "" || s.Due > now {
			t.Fatalf("%s in a batch: %+v", u.URL, s)
		}
		if d := cmp.Diff(s.URL, u, cmpopts.IgnoreUnexported(record.Extra{})); d != "" {
			t.Fatal(d)
		}
		s.inFlight = true
		if !m.p.Strict || m.p.Policy == revisit {
			continue
		}
		l := m.level(&u)
		if l < level {
			t.Fatalf("%s of front queue %d after %d", u.URL, l, level)
		}
		for level = l; l > 0; l-- {
			if eligible[l-1] > 0 {
				t.Fatalf("%s of front queue %d while %d wait in %d", u.URL, level, eligible[l-1], l-1)
			}
		}
		eligible[level]--
	}
	// First in, first out within a line and front queue, as far as they were never tried.
	type line struct {
		name  string
		level uint8
	}
	left := map[line]bool{}
	for _, name := range m.order {
		u := m.state[name]
		if u.retried || u.final != "" {
			continue
		}
		k := line{m.line(&u.URL), m.level(&u.URL)}
		if u.inFlight && left[k] {
			t.Fatalf("%s overtook one of its host", name)
		}
		left[k] = left[k] || !u.inFlight
	}
}

func TestAgainstModel(t *testing.T) {
	kinds := []struct {
		kind   string
		status uint16
		final  bool
	}{
		{record.OutcomeFetched, 200, true}, {record.OutcomeFetched, 404, true}, {record.OutcomeFetched, 503, false}, {record.OutcomeNotModified, 304, true}, {record.OutcomeNotModified, 304, true},
		{record.OutcomeTimeout, 0, false}, {record.OutcomeDisconnect, 0, false}, {record.OutcomeRobotsDenied, 0, true},
		{record.OutcomeConnect, 0, false}, {record.OutcomeConnect, 0, false}, {record.OutcomeDNS, 0, false}, {record.OutcomeRobotsUnreachable, 0, false},
		{record.OutcomeDeferred, 0, false}, {record.OutcomeDeferred, 0, false},
		{record.OutcomeParked, 0, false}, {record.OutcomeDenied, 0, false}, {record.OutcomeAddress, 0, false},
	}
	policies := []Params{{Priority: Priority{Strict: true}}, {Seed: 5}, {Policy: dynamic}, {Policy: fifo, Fifo: Fifo{Workers: 3}}, {Policy: opic, Seed: 7},
		{Policy: revisit, Seed: 3, Revisit: Revisit{MinInterval: "1s", MaxInterval: "20s", GoneAfter: 2}},
		{Policy: revisit, Seed: 4, Priority: Priority{Queues: 3}, Revisit: Revisit{MinInterval: "1s", MaxInterval: "20s", GoneAfter: 2}}}
	for _, size := range []int{1, 7, 1 << 20} {
		for seed, p := range policies {
			if size == 1 && seed%3 > 0 && os.Getenv("MERCATOR_LONG") == "" {
				continue // a round for each URL takes the longest
			}
			t.Run(fmt.Sprintf("batch %d %+v", size, p), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(seed), uint64(size)))
				b := open(t, crashtest.New(), p)
				m := &model{p: p, state: map[string]*modelURL{}, hosts: map[string]*modelHost{}}
				serial, outages := 0, 0
				some := func(max int) (urls []record.URL) {
					for range rng.IntN(max + 1) {
						u := newURL(fmt.Sprintf("h%d.test", min(rng.IntN(8), rng.IntN(8))), fmt.Sprint(serial), uint8(rng.IntN(5)))
						if rng.IntN(6) == 0 {
							u.Due = record.Time(1 + rng.IntN(50_000_000))
						}
						serial++
						urls = append(urls, u)
					}
					return urls
				}
				now := record.Time(1_000_000)
				seedURLs := some(30)
				must.OK(t, b.add("seed", seedURLs...))
				m.add(seedURLs...)
				growing := 30 // more rounds than runs are left unmerged
				if size == 1 && os.Getenv("MERCATOR_LONG") == "" {
					growing = 10 // each URL has a round of its own behind these
				}
				for round := 0; m.waiting() > 0; round++ {
					txn := fmt.Sprintf("r%d", round)
					now += record.Time(rng.IntN(1_000_000))
					if rng.IntN(20) == 0 {
						now += 3 * 3600e6 // a host that is silent then is gone
					}
					var err error
					now, err = b.f.Wait(context.Background(), now, 1+round%3, func(context.Context, record.Time) error { return nil })
					must.OK(t, err)
					parked := m.parked(t, b)
					if empty, err := b.f.Empty(now); err != nil {
						t.Fatal(err)
					} else if empty {
						if parked != m.waiting() {
							t.Fatalf("%d URLs are parked, %d wait", parked, m.waiting())
						}
						if n, err := b.release(now, ReleaseOptions{}); err != nil || int(n) != parked {
							t.Fatal(n, err)
						}
						for _, u := range m.state {
							if u.final == "" {
								u.parked, u.Due = "", now
							}
						}
					}
					o := NextOptions{N: size, Txn: txn}
					batch, err := b.next(now, o)
					must.OK(t, err)
					if len(batch) == 0 {
						t.Fatal("an empty batch of a frontier that is not empty")
					}
					m.take(t, batch, size, now)
					again, err := b.next(now, o)
					must.OK(t, err)
					if d := cmp.Diff(batch, again, cmpopts.IgnoreUnexported(record.Extra{})); d != "" {
						t.Fatal("repeated: ", d)
					}
					rng.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
					var outcomes []record.Fetch
					was := map[string]modelURL{}
					for _, u := range batch {
						k := kinds[rng.IntN(len(kinds))]
						if p.Policy == revisit && round >= growing && rng.IntN(2) == 0 {
							k.kind, k.status, k.final = record.OutcomeScheme, 0, true // or it would never end
						}
						o := fetchOf(u, k.kind, k.status, now)
						if k.kind == record.OutcomeDNS || k.kind == record.OutcomeRobotsUnreachable {
							o.Addr, o.FetchTime, o.DurationUS = "", 0, 0
						}
						s := m.state[u.URL]
						was[u.URL] = *s
						s.inFlight, s.parked = false, ""
						switch {
						case slices.Contains(parking[:], k.kind) && !k.final:
							s.retried, s.parked, s.Due = true, k.kind, never
							if k.kind == record.OutcomeParked {
								s.Due = now + record.Time(rng.IntN(1e10))
								o.RetryAfter = s.Due
							}
						case k.kind == record.OutcomeDeferred:
							s.retried = true
							if rng.IntN(2) == 0 {
								o.RetryAfter = now + record.Time(rng.IntN(10_000_000))
							}
							s.Due = o.RetryAfter
						case (k.final || u.Attempt == 2) && p.Policy == revisit && s.comesBack(&o, rng):
						case k.final || u.Attempt == 2:
							s.final = k.kind
						default:
							s.retried = true
							s.Attempt++
							s.Due = now + record.Time(o.DurationUS) + record.Time(time.Minute.Microseconds())<<u.Attempt
						}
						outcomes = append(outcomes, o)
						if rng.IntN(3) == 0 {
							outcomes = append(outcomes, record.Fetch{URL: "http://" + u.Host + "/robots.txt", Host: u.Host, Role: record.RoleRobots, Addr: "127.0.0.1", FetchTime: now, Outcome: record.OutcomeFetched, Status: 404})
						}
						if rng.IntN(3) == 0 { // of any URL, with any outcome: no URL changes by it
							asked := m.state[m.order[rng.IntN(len(m.order))]].URL
							k := kinds[rng.IntN(len(kinds))]
							o := fetchOf(asked, k.kind, k.status, now)
							o.Role = record.RoleAgain
							outcomes = append(outcomes, o)
						}
					}
					var fresh []record.URL
					if round < growing {
						fresh = some(8)
					}
					b.links = b.links[:0]
					for _, u := range batch {
						for range rng.IntN(6) { // to URLs of any state, and to some that there are not
							b.links = append(b.links, linkOf(u, newURL(fmt.Sprintf("h%d.test", rng.IntN(8)), fmt.Sprint(rng.IntN(serial+3)), 0)))
						}
					}
					outages += m.judgeHosts(outcomes, was, now)
					must.OK(t, b.update(txn, now, outcomes, fresh...))
					m.add(fresh...)
					if p.Policy == revisit {
						m.readDue(t, b, now)
					}
					m.promote(t, b, rng)
					if round%16 == 0 {
						b.check()
					}
				}
				b.check()
				if batch, err := b.next(now, NextOptions{N: size, Txn: "last"}); err != nil || len(batch) != 0 {
					t.Fatal(batch, err)
				}
				c := b.counts()
				want := map[string]uint64{}
				for _, u := range m.state {
					want[u.final]++
				}
				got := map[string]uint64{}
				for _, o := range c.Outcomes {
					got[o.Reason] = o.N
				}
				if d := cmp.Diff(want, got); d != "" || c.Discovered != uint64(serial) || c.Finished != uint64(serial) {
					t.Fatal(d, c)
				}
				if empty, err := b.f.Empty(never - 1); err != nil || !empty {
					t.Fatal(empty, err)
				}
				if size == 7 && outages == 0 {
					t.Error("no URL has met an outage")
				}
			})
		}
	}
}

func TestHostsTakeTurns(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	var urls []record.URL
	for i := range 1000 {
		urls = append(urls, newURL("big.test", fmt.Sprint(i), 0))
	}
	for h := range 9 {
		for i := range 10 {
			urls = append(urls, newURL(fmt.Sprintf("small%d.test", h), fmt.Sprint(i), 0))
		}
	}
	must.OK(t, b.add("", urls...))
	batch, err := b.next(1, NextOptions{N: 100})
	must.OK(t, err)
	n := map[string]int{}
	for _, u := range batch {
		n[u.Host]++
	}
	for host, k := range n {
		if k != 10 {
			t.Errorf("%d URLs of %s in a batch of 100 over 10 hosts, want 10", k, host)
		}
	}
}

func TestPerHost(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	var urls []record.URL
	for i := range 100 {
		urls = append(urls, newURL("big.test", fmt.Sprint(i), 0))
	}
	urls = append(urls, newURL("small.test", "a", 2))
	must.OK(t, b.add("", urls...))
	for round, want := range []int{4, 3, 3} { // none of big.test is passed over: the batch ends before it
		txn := fmt.Sprintf("r%d", round)
		batch, err := b.next(1, NextOptions{N: 20, PerHost: 3, Txn: txn})
		must.OK(t, err)
		if len(batch) != want || want == 4 && batch[3].Host != "small.test" || batch[0].URL != fmt.Sprintf("http://big.test/%d", 3*round) {
			t.Fatal(batch)
		}
		b.check()
		must.OK(t, b.update(txn, 1, fetchesOf(batch, record.OutcomeFetched, 200, 1)))
	}
	batch, err := b.next(1, NextOptions{N: 100, PerHost: 3, Txn: "last"})
	if err != nil || len(batch) != 3 {
		t.Fatal(batch, err)
	}
	must.OK(t, b.update("last", 1, deferred(batch)))
	for _, much := range []int{math.MaxInt, math.MaxInt/3*2 + 2} { // three times that is more than 2^64, or little more
		batch, err := b.next(1, NextOptions{N: 80, PerHost: much, PerDomain: much, Txn: fmt.Sprint(much)})
		if err != nil || len(batch) != 80 {
			t.Fatal(much, len(batch), err)
		}
		must.OK(t, b.update(fmt.Sprint(much), 1, deferred(batch)))
	}
}

// deferred returns fetch rows that defer every URL of a batch.
func deferred(batch []record.URL) []record.Fetch {
	return fetchesOf(batch, record.OutcomeDeferred, 0, 0)
}

// fetchesOf returns fetch rows of one outcome for every URL of a batch.
func fetchesOf(batch []record.URL, kind string, status uint16, at record.Time) (outcomes []record.Fetch) {
	for _, u := range batch {
		outcomes = append(outcomes, fetchOf(u, kind, status, at))
	}
	return outcomes
}

func TestDeferredKeepsItsPlace(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	var urls []record.URL
	for i := range 6 {
		urls = append(urls, newURL("a.test", fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("", urls...))
	batch, err := b.next(1, NextOptions{N: 3, Txn: "r1"})
	must.OK(t, err)
	outcomes := []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, 1), fetchOf(batch[1], record.OutcomeDeferred, 0, 0), fetchOf(batch[2], record.OutcomeDeferred, 0, 0)}
	must.OK(t, b.update("r1", 1, outcomes))
	batch, err = b.next(1, NextOptions{N: 3, Txn: "r2"})
	if err != nil || batch[0].URL != "http://a.test/1" || batch[1].URL != "http://a.test/2" || batch[2].URL != "http://a.test/3" {
		t.Fatal(batch, err)
	}
}

func TestUpdateRefusals(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	urls := []record.URL{newURL("a.test", "1", 0), newURL("a.test", "2", 0)}
	if err := b.update("r0", 1, nil); err != nil {
		t.Fatal("the round of an empty frontier: ", err)
	}
	if err := b.update("r00", 1, nil, urls...); !errors.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	must.OK(t, b.add("seed", urls...))
	_, err := b.next(1, NextOptions{N: 9, Txn: "r1"})
	must.OK(t, err)
	if _, err := b.next(1, NextOptions{N: 9, Txn: "r2"}); !errors.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	ok := fetchOf(urls[0], record.OutcomeFetched, 200, 1)
	ok2 := fetchOf(urls[1], record.OutcomeFetched, 200, 1)
	other := fetchOf(newURL("a.test", "3", 0), record.OutcomeFetched, 200, 1)
	collides := other // a URL of the same checksum
	collides.Key = ok.Key
	for name, outcomes := range map[string][]record.Fetch{
		"none": nil, "one missing": {ok}, "one twice": {ok, ok, ok2}, "one foreign": {ok, other}, "one more": {ok, ok2, other}, "checksum collides": {collides, ok2},
		"collides too": {collides, ok, ok2},
	} {
		t.Run(name, func(t *testing.T) {
			if err := b.update("r1", 1, outcomes); !errors.Is(err, fault.Conflict) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for name, in := range map[string]*recordtest.Input[record.Fetch]{
		"another round": recordtest.In("r7", ok, ok2),
		"no trailer":    {All: []record.Fetch{ok, ok2}, Of: record.Schema{Txn: "r1"}, Unverified: true},
	} {
		err := b.updateFrom("r1", recordtest.In[record.URL]("r1"), UpdateOptions{Txn: "r1", Retries: DefaultRetries, Outcomes: func() (stage.Input[record.Fetch], error) { return in, nil }})
		if !errors.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c := b.counts(); c.InFlight != 2 || c.Finished != 0 {
		t.Fatal(c)
	}
	must.OK(t, b.update("r1", 1, []record.Fetch{ok2, ok}))
	b.check()
}

// Two URLs of one checksum, and one URL twice, are told apart in flight.
func TestEqualChecksums(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	x, y := newURL("a.test", "x", 0), newURL("a.test", "y", 0)
	y.Key = x.Key
	if err := b.add("seed", x, y, x, y, x); err != nil { // one entry each
		t.Fatal(err)
	}
	batch, err := b.next(1, NextOptions{N: 1, Txn: "r0"})
	if err != nil || len(batch) != 1 || batch[0].URL != x.URL {
		t.Fatal(batch, err)
	}
	fx, fy := fetchOf(x, record.OutcomeFetched, 200, 1), fetchOf(y, record.OutcomeRobotsDenied, 0, 1)
	must.OK(t, b.update("r0", 1, []record.Fetch{fx}, x, y, x))
	batch, err = b.next(1, NextOptions{N: 9, Txn: "r1"})
	if err != nil || len(batch) != 4 {
		t.Fatal(batch, err)
	}
	must.OK(t, b.update("r1", 1, []record.Fetch{fy, fx, fx, fy}))
	want := []record.Count{{Reason: record.OutcomeFetched, N: 3}, {Reason: record.OutcomeRobotsDenied, N: 2}}
	if d := cmp.Diff(want, b.counts().Outcomes); d != "" {
		t.Fatal(d)
	}
	b.check()
}

// URLs of one checksum are made by thousands (pkg/base/fingerprint/SPEC.md): a batch of
// them is matched with its outcomes, whatever their order.
func TestManyEqualChecksums(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	var urls []record.URL
	var outcomes []record.Fetch
	for i := range 2 * maxAside {
		u := newURL("a.test", fmt.Sprint(i), 0)
		u.Key = 7
		urls = append(urls, u)
		outcomes = append(outcomes, fetchOf(u, record.OutcomeFetched, 200, 1))
	}
	must.OK(t, b.add("seed", urls...))
	if batch, err := b.next(1, NextOptions{N: len(urls), Txn: "r1"}); err != nil || len(batch) != len(urls) {
		t.Fatal(len(batch), err)
	}
	slices.Reverse(outcomes)
	must.OK(t, b.update("r1", 1, outcomes))
	b.check()
}

func TestHostState(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	a, c := newURL("a.test:8080", "1", 0), newURL("c.test", "1", 0)
	must.OK(t, b.add("seed", a, c))
	_, err := b.next(1, NextOptions{N: 9, Txn: "r1"})
	must.OK(t, err)
	f := fetchOf(a, record.OutcomeTimeout, 0, 100)
	f.DurationUS, f.RequiredDelayUS, f.RetryAfter = 8000, 70, 9_000_000
	g := fetchOf(c, record.OutcomeDNS, 0, 100)
	g.Addr, g.Error = "", "nxdomain"
	must.OK(t, b.update("r1", 1, []record.Fetch{f, g}))
	h, found, err := b.f.Host(context.Background(), "a.test:8080")
	if err != nil || !found {
		t.Fatal(found, err)
	}
	if h.Discovered-h.Finished != 1 || h.Contacts != 1 || h.Failures != 1 || h.DurationUS != 8000 || h.DelayUS != 70 || h.LastContact != 8100 || h.ParkedUntil != 9_000_000 || h.Retried != 1 {
		t.Errorf("%+v", h)
	}
	h, found, err = b.f.Host(context.Background(), "c.test")
	if err != nil || !found || h.Discovered != h.Finished || h.Contacts != 0 || h.Finished != 1 || h.Fetched != 0 {
		t.Errorf("%+v %v %v", h, found, err)
	}
	if _, found, err = b.f.Host(context.Background(), "b.test"); found || err != nil {
		t.Error(found, err)
	}
}

// TestASlowSpellPasses: a host that waits for no gap, as it gets one URL a batch, is not taken for slow for ever.
func TestASlowSpellPasses(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	const rounds = 8
	for i := range rounds {
		must.OK(t, b.add(fmt.Sprint("seed", i), newURL("a.test", fmt.Sprint(i), 0)))
	}
	var before uint64
	for i := range rounds {
		txn := fmt.Sprint("r", i)
		urls, err := b.next(1, NextOptions{N: 1, Txn: txn})
		must.OK(t, err)
		f := fetchOf(urls[0], record.OutcomeFetched, 200, record.Time(100+i))
		if i == 1 {
			f.RequiredDelayUS = 30_000_000
		}
		must.OK(t, b.update(txn, 1, []record.Fetch{f}))
		h, _, err := b.f.Host(context.Background(), "a.test")
		if err != nil || i == 1 && h.DelayUS != 30_000_000 || i > 1 && h.DelayUS >= before {
			t.Errorf("after round %d a gap of %d µs, before it %d; %v", i, h.DelayUS, before, err)
		}
		before = h.DelayUS
	}
	if before > 10_000_000 {
		t.Errorf("the gap is %d µs still", before)
	}
}

// TestLoweredPoliteness: the plan goes by the new pace after the first batch that was fetched at it; a Crawl-delay stays.
func TestLoweredPoliteness(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	var seeds []record.URL
	for i := range 80 {
		seeds = append(seeds, newURL([]string{"a.test", "slow.test"}[i%2], fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("seed", seeds...))
	for round, gap := range []uint64{10_000_000, 10_000_000, 10_000_000, 1_000_000} {
		txn := fmt.Sprint("r", round)
		urls, err := b.next(1, NextOptions{N: 20, Txn: txn})
		if err != nil || len(urls) != 20 {
			t.Fatal(len(urls), err)
		}
		var outcomes []record.Fetch
		for i, u := range urls {
			f := fetchOf(u, record.OutcomeFetched, 200, record.Time(1000*round+i+1))
			f.DurationUS, f.RequiredDelayUS = 1, int64(gap)
			if u.Host == "slow.test" {
				f.RequiredDelayUS = 10_000_000
			}
			outcomes = append(outcomes, f)
		}
		must.OK(t, b.update(txn, 1, outcomes))
		for host, want := range map[string]uint64{"a.test": gap, "slow.test": 10_000_000} {
			if h, _, err := b.f.Host(t.Context(), host); err != nil || h.DelayUS != want {
				t.Errorf("after round %d %s has a gap of %d µs, want %d; %v", round, host, h.DelayUS, want, err)
			}
		}
	}
}

func TestExportRestores(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	var urls []record.URL
	for i := range 50 {
		u := newURL(fmt.Sprintf("h%d.test", i%3), fmt.Sprint(i), uint8(i%4))
		u.Via, u.Depth, u.Score, u.Discovered, u.ETag, u.LastModified, u.LastContentFP = "http://via.test/", uint16(i), 0.5, record.Time(i), `"x"`, "now", uint64(i)
		u.Addr, u.AddrExpires, u.AddrError, u.Attempt = "127.0.0.1", 5, "servfail", 1
		if i%5 == 0 {
			u.Due = record.Time(i + 1)
		}
		urls = append(urls, u)
	}
	must.OK(t, b.add("seed", urls...))
	_, err := b.next(1, NextOptions{N: 9, Txn: "r1"})
	must.OK(t, err)
	export := func(b *bench) (out []record.URL) {
		must.OK(t, b.f.EachURL(context.Background(), func(u *record.URL) error { out = append(out, *u); return nil }))
		return out
	}
	all := export(b)
	c := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	must.OK(t, c.add("seed", all...))
	byURL := cmpopts.SortSlices(func(a, b record.URL) bool { return a.URL < b.URL })
	ignore := cmpopts.IgnoreUnexported(record.Extra{})
	if d := cmp.Diff(urls, all, byURL, ignore); d != "" {
		t.Fatal(d)
	}
	if d := cmp.Diff(all, export(c), byURL, ignore); d != "" {
		t.Fatal(d)
	}
}

func TestRunsAreMerged(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	b.f.layout = layoutDefault
	want := map[string][]string{}
	for i := range 100 {
		u := newURL(fmt.Sprintf("h%d.test", i%5), fmt.Sprint(i), 0)
		want[u.Host] = append(want[u.Host], u.URL)
		later := newURL("later.test", fmt.Sprint(i), 0)
		later.Due = record.Time(100 - i)
		must.OK(t, b.add("", u, later))
	}
	b.check()
	st, err := b.f.Stat(context.Background(), StatOptions{})
	must.OK(t, err)
	if most := 3 * (layoutDefault.queueFan + 4); st.Runs > most {
		t.Errorf("%d runs after 100 additions, want at most %d", st.Runs, most)
	}
	got := map[string][]string{}
	last := record.Time(0)
	err = b.f.EachURL(context.Background(), func(u *record.URL) error {
		if u.Due == 0 {
			got[u.Host] = append(got[u.Host], u.URL)
		} else if u.Due <= last {
			return fmt.Errorf("due %d after %d", u.Due, last)
		}
		last = u.Due
		return nil
	})
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

// What no row can hold is dropped and counted, not fatal to the round.
func TestOutOfRangeIsDropped(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	long, early := newURL("a.test", "1", 0), newURL("a.test", "2", 0)
	long.Via = strings.Repeat("x", maxString+1)
	early.Due = -1
	in := recordtest.In("seed", long, newURL("a.test", "3", 0), early)
	spec := stage.Spec{Name: "mfrontier add", Verb: "add", Store: b.f.Store(), Txn: "seed", Shape: stage.Sink}
	res, err := stage.Run(context.Background(), spec, in, nil, b.adding(AddOptions{}))
	must.OK(t, err)
	if d := cmp.Diff([]record.Count{{Reason: dropRange, N: 2}}, res.Stage.Drops); d != "" || res.Stage.Consumed != 1 {
		t.Error(d, res.Stage)
	}
	if c := b.counts(); c.Discovered != 1 {
		t.Error(c)
	}
}

// Outcomes that collide on purpose do not fill the memory.
func TestCollidingOutcomesAreBounded(t *testing.T) {
	s := newSorter(smallSort)
	defer s.Close()
	for i := range 3 * maxAside {
		o := outcome{url: fmt.Sprint(i)}
		must.OK(t, s.addPayload(7, o.append(nil)))
	}
	rows, err := s.sorted()
	must.OK(t, err)
	m := matcher{rows: rows}
	if _, err := m.match(&Entry{Key: 7, URL: record.URL{URL: "other"}}); !errors.Is(err, fault.Conflict) {
		t.Error(err)
	}
	if len(m.aside) > maxAside {
		t.Errorf("%d outcomes held, want at most %d", len(m.aside), maxAside)
	}
}

// What waits is told by how far off its time is, and what is in flight waits no more.
func TestStatTopAndDetail(t *testing.T) {
	const now, minute = record.Time(1e15), record.Time(60e6)
	b := open(t, crashtest.New(), Params{})
	var urls []record.URL
	for i, due := range []record.Time{0, 0, 0, now - 1, now, now + 1, now + minute, now + 90*minute, now + 48*60*minute} {
		u := newURL("a.test", fmt.Sprint(i), 0)
		u.Due, u.Depth = due, uint16(10*i)
		urls = append(urls, u)
	}
	must.OK(t, b.add("seed", append(urls, newURL("b.test", "", 0))...))
	_, err := b.next(1, NextOptions{N: 2, PerHost: 1})
	must.OK(t, err)
	st, err := b.f.Stat(context.Background(), StatOptions{Top: 1, Detail: true, Now: now})
	must.OK(t, err)
	if want := []TopHost{{"a.test", 8, 1, 9}}; !slices.Equal(st.Top, want) {
		t.Errorf("%+v, want %+v", st.Top, want)
	}
	if want := []DueCount{{"now", 2}, {"1m", 2}, {"1h", 0}, {"24h", 1}, {"later", 1}}; !slices.Equal(st.Detail.Due, want) {
		t.Errorf("%+v, want %+v", st.Detail.Due, want)
	}
	if d := st.Detail.Depth; d[0] != 2 || d[10] != 1 || d[15] != 7 {
		t.Errorf("by depth %v", d)
	}
}

func TestLimitsOfArguments(t *testing.T) {
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true}})
	ctx := context.Background()
	_, top := b.f.Stat(ctx, StatOptions{Top: MaxTop + 1})
	_, connections := b.f.PlanNext(ctx, NextOptions{N: 1}, 1, Politeness{Connections: maxConnections + 1})
	must.OK(t, b.add("seed", newURL("a.test", "", 0)))
	_, early := b.next(-1, NextOptions{N: 1, Txn: "r1"})
	_, earlier := b.f.Wait(ctx, 0, 1, nil)
	for name, err := range map[string]error{
		"top": top, "connections": connections, "before 1970": early, "1970": earlier,
		"queues":   Create("/x", Params{Priority: Priority{Queues: 17}}, store.Options{FS: b.fs}),
		"per host": NextOptions{N: MaxCapped + 1, PerHost: 1}.Check(),
	} {
		if !errors.Is(err, fault.Usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFewDueURLsWait: one URL that is due waits for others that soon are, so that a few do not make a round each; a URL that
// waits for no time is served at once.
func TestFewDueURLsWait(t *testing.T) {
	const second = record.Time(1e6)
	b := open(t, crashtest.New(), Params{})
	for i, due := range []record.Time{60, 61, 64, 65, 66, 66} {
		u := newURL("a.test", fmt.Sprint(i), 0)
		u.Due = due * second
		if err := b.add(fmt.Sprint("seed", i), u); err != nil { // a file each
			t.Fatal(err)
		}
	}
	wait := func(now record.Time, enough int) record.Time {
		t.Helper()
		var slept record.Time
		at, err := b.f.Wait(context.Background(), now, enough, func(_ context.Context, due record.Time) error {
			slept = due
			return nil
		})
		if err != nil || at != max(now, slept) {
			t.Fatalf("the round's time is %d after a wait until %d: %v", at, slept, err)
		}
		if again, err := b.f.Wait(context.Background(), at, enough, nil); err != nil || again != at {
			t.Fatalf("at %d it is %d: %v", at, again, err)
		}
		return at / second
	}
	for _, c := range []struct {
		now    record.Time
		enough int
		want   record.Time
	}{{1, 100, 65}, {1, 1, 60}, {1, 2, 61}, {1, 3, 64}, {62, 100, 65}, {62, 2, 62}, {65, 100, 65}, {70, 100, 70}} {
		t.Run(fmt.Sprint(c.now, " ", c.enough), func(t *testing.T) {
			if got := wait(c.now*second, c.enough); got != c.want {
				t.Errorf("at %d s, where %d URLs are enough, a round begins at %d s, want %d", c.now, c.enough, got, c.want)
			}
		})
	}
	must.OK(t, b.add("new", newURL("a.test", "new", 0)))
	if got := wait(62*second, 100); got != 62 {
		t.Errorf("with a new URL a round begins at %d s, want 62", got)
	}
}
