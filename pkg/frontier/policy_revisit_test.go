package frontier

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mercator/formats/record"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/must"
)

// comesBack makes o the outcome of a visit and reports whether another is to follow.
func (s *modelURL) comesBack(o *record.Fetch, rng *rand.Rand) bool {
	switch {
	case o.Outcome == record.OutcomeFetched && o.Status == 200:
		o.ContentFP, o.BodyLength, o.ETag, o.LastModified = 1+rng.Uint64N(3), 1, `"e"`, "Sat, 21 Nov 2026 00:00:00 GMT"
	case o.Outcome == record.OutcomeNotModified:
		o.ContentFP, o.ETag = s.LastContentFP, `"f"`
	case o.Outcome == record.OutcomeScheme:
		return false
	default:
		if s.gone++; s.gone >= 2 || s.visits == 0 {
			return false
		}
		s.retried, s.Attempt, s.Due = true, 0, -1
		return true
	}
	if rng.IntN(2) == 0 {
		o.FreshUntil = o.FetchTime + record.Time(rng.Int64N(200e6)) - 50e6
	}
	s.visits++
	s.gone, s.retried, s.Attempt, s.Due = 0, true, 0, -1
	s.ETag, s.LastModified, s.LastContentFP = o.ETag, o.LastModified, o.ContentFP
	return true
}

// readDue takes over when pages are to be visited again, if that is within bounds.
func (m *model) readDue(t *testing.T, b *bench, now record.Time) {
	t.Helper()
	s, _, err := b.f.current()
	must.OK(t, err)
	err = b.f.each(context.Background(), s, func(_ queue, e *Entry) error {
		u := m.state[e.URL.URL]
		if int(e.Visit.Visits) != u.visits || int(e.Visit.Gone) != u.gone && u.visits > 0 {
			t.Fatalf("%+v of %+v", e.Visit, u)
		}
		if u.Due < 0 {
			if u.Due = e.URL.Due; u.Due < now+1e6 || u.Due > now+20e6 {
				t.Fatalf("a visit %v µs after the last", u.Due-now)
			}
		}
		return nil
	})
	must.OK(t, err)
}

// scheduleOf is the schedule of parameters.
func scheduleOf(t *testing.T, r Revisit) *schedule {
	t.Helper()
	must.OK(t, r.complete())
	return newSchedule(r, Priority{})
}

// A page that has changed whenever it was visited, each time after long, is visited
// soon for once, until it is known whether it changes all the time.
func TestBlindVisits(t *testing.T) {
	p := scheduleOf(t, Revisit{MinInterval: "12h", MaxInterval: "2688h"})
	const hour = 3600e6
	long := uint64(2000 * hour) // what the schedule asks for
	var v Visit
	at, fp := record.Time(1), uint64(1)
	visit := func(wait uint64, changed bool, modified record.Time) uint64 {
		was := fp
		if at += record.Time(wait); changed {
			fp++
		}
		return p.probe(&v, p.learn(&v, &sighting{at: at, fp: fp, modified: modified}, was), long)
	}
	if got := visit(0, false, 0); got != p.min {
		t.Errorf("the second visit after %d h", got/hour)
	}
	blind := v
	for _, c := range []struct {
		what     string
		wait     uint64
		changed  bool
		modified record.Time
		shorter  bool
	}{
		{"changed after long", 300 * hour, true, 0, true},
		{"changed after long, when is told", 300 * hour, true, record.Time(290 * hour), false},
		{"changed soon", 12 * hour, true, 0, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			v, at, fp = blind, 1, 1
			got := visit(c.wait, c.changed, c.modified)
			if want := max(p.mean(v.Changes, v.ObservedUS), p.min); c.shorter && got != want || !c.shorter && got != long {
				t.Errorf("%s: the next visit after %d h", c.what, got/hour)
			}
		})
	}
	v, at, fp = blind, 1, 1
	for n := 1; visit(300*hour, true, 0) < long; n++ {
		if n > enough {
			t.Fatal("no end of short intervals")
		}
	}
}

// A page is not visited while it is to stay as it is, as far as what is known of it makes
// that likely; who breaks the promise is not believed again before keeping as many as are in doubt.
func TestPromises(t *testing.T) {
	p := scheduleOf(t, Revisit{MinInterval: "1h", MaxInterval: "1000h"})
	const hour = uint64(3600e6)
	var v Visit
	at, fp := record.Time(1), uint64(1)
	// visit comes after a time, and returns the hours until the next if the schedule asks for asked.
	visit := func(wait uint64, changed bool, modified record.Time, promise, asked uint64) uint64 {
		was := fp
		if at += record.Time(wait); changed {
			fp++
		}
		s := sighting{at: at, fp: fp, modified: modified}
		if promise > 0 {
			s.until = at + record.Time(promise)
		}
		p.learn(&v, &s, was)
		return p.promised(&v, asked) / hour
	}
	const year = 8766 * hour
	if got := visit(0, false, 0, 3*hour, hour); got != 3 {
		t.Errorf("the second visit after %d h, want 3: as long as it is to stay", got)
	}
	if got := visit(3*hour, false, 0, 3*hour, 7*hour); got != 7 {
		t.Errorf("a visit after %d h, want 7: a promise makes none earlier", got)
	}
	v, at, fp = Visit{}, 1, 1
	if got := visit(0, false, 0, year, hour); got != 4 {
		t.Errorf("the second visit of a page that is to stay for a year after %d h, want 4", got)
	}
	last := uint64(4)
	for range 4 {
		got := visit(last*hour, false, 0, year, hour)
		if got <= last || got > 6*last || v.Broken != 0 {
			t.Errorf("after %d h without a change the next visit after %d h", last, got)
		}
		last = got
	}
	kept := v
	for _, c := range []struct {
		what     string
		changed  bool
		wait     uint64
		modified uint64 // so long before the visit; 0: not told
		broken   bool
	}{
		{"a change while it was to stay", true, 10 * hour, 0, true},
		{"a change after that", true, 30 * hour, 0, false},
		{"a change after that, which was before", true, 30 * hour, 20 * hour, true},
		{"a change after that, told", true, 30 * hour, hour, false},
		{"no change", false, 10 * hour, 0, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			v = kept
			v.Until = v.Last + record.Time(20*hour)
			at, fp = v.Last, 1
			modified := record.Time(0)
			if c.modified > 0 {
				modified = at + record.Time(c.wait-c.modified)
			}
			got := visit(c.wait, c.changed, modified, 20*hour, hour)
			if broken := v.Broken > 0; broken != c.broken || broken != (got == 1) {
				t.Errorf("%s: broken %v, want %v; the next visit after %d h", c.what, broken, c.broken, got)
			}
		})
	}
	v = kept
	at, fp = v.Last, 1
	visit(hour, true, 0, year, hour)
	for n := range doubt {
		if got := visit(hour, false, 0, year, hour); (got == 1) != (n < doubt-1) {
			t.Errorf("after %d promises that were kept the next visit after %d h", n+1, got)
		}
	}
	for range 100 {
		visit(hour, true, 0, year, hour)
	}
	if v.Broken > math.MaxUint8-doubt && v.Broken != math.MaxUint8 {
		t.Errorf("broken %d times", v.Broken)
	}
}

// What a reply says of its own freshness counts with the page, and with a redirect in its
// place; of a page that was cut only Last-Modified tells whether it has changed.
func TestWhatRepliesSay(t *testing.T) {
	const now, later = record.Time(1000), record.Time(2000)
	for _, c := range []struct {
		row  record.Fetch
		want record.Time
	}{
		{record.Fetch{Outcome: record.OutcomeFetched, Status: 200, ContentFP: 1, FetchTime: now, FreshUntil: later}, later},
		{record.Fetch{Outcome: record.OutcomeNotModified, Status: 304, FetchTime: now, FreshUntil: later}, later},
		{record.Fetch{Outcome: record.OutcomeFetched, Status: 301, RedirectURL: "http://b.test/", FetchTime: now, FreshUntil: later}, later},
		{record.Fetch{Outcome: record.OutcomeFetched, Status: 200, ContentFP: 1, FetchTime: now, FreshUntil: now}, 0},
		{record.Fetch{Outcome: record.OutcomeFetched, Status: 200, ContentFP: 1, FetchTime: now, FreshUntil: -later}, 0},
		{record.Fetch{Outcome: record.OutcomeFetched, Status: 404, FetchTime: now, FreshUntil: later}, 0},
		{record.Fetch{Outcome: record.OutcomeFetched, Status: 200, ContentFP: 1, Truncated: "time", FetchTime: now, FreshUntil: later}, 0},
	} {
		t.Run(fmt.Sprint(c.row.Status, " ", int64(c.row.FreshUntil), c.row.Truncated), func(t *testing.T) {
			s := sightingOf(&c.row, now)
			var back sighting
			back.decode(s.append(nil))
			if s.until != c.want || back != s {
				t.Errorf("%+v: stays until %d, want %d; %+v after it was kept", c.row, s.until, c.want, back)
			}
		})
	}

	const hour = record.Time(3600e6)
	known := Visit{Visits: 2, Changes: 1, ObservedUS: uint64(hour), Last: 500 * 365 * 24 * hour / 100}
	for modified, want := range map[string]uint64{
		"":                              uint64(hour),
		"Thu, 01 Jan 1970 00:00:01 GMT": uint64(2 * hour),
		"Sat, 01 Jan 2000 00:00:00 GMT": uint64(hour), // after the last visit: it has changed, or so it says
	} {
		t.Run(modified, func(t *testing.T) {
			b := open(t, crashtest.New(), Params{Policy: revisit})
			u := newURL("a.test", "", 0)
			must.OK(t, b.add("seed", u))
			s, _, err := b.f.current()
			must.OK(t, err)
			c := newChange(b.f, nil, s.policy)
			c.s = s
			p := s.policy.hooks.(*revisitPolicy)
			e := Entry{URL: u, Visit: known}
			p.rates()[p.kind(&Entry{URL: u, Visit: known})] = 1
			o := outcome{outcome: record.OutcomeFetched}
			p.judged(&record.Fetch{Outcome: record.OutcomeFetched, Status: 200, ContentFP: 9, Truncated: "time", LastModified: modified, FetchTime: known.Last + hour}, &o, known.Last+hour)
			_, err = p.ended(c, &e, &o)
			must.OK(t, err)
			if e.Visit.ObservedUS != want || e.Visit.Changes != known.Changes || e.URL.LastContentFP != u.LastContentFP {
				t.Errorf("Last-Modified %q of a page that was cut: %+v", modified, e.Visit)
			}
			c.close()
		})
	}
}

// What a visit cannot tell, because a clock is wrong, does not count for long.
// A page that is not found is visited again twice as long after each visit, until it is gone.
func TestGone(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: revisit, Revisit: Revisit{MinInterval: "1h", GoneAfter: 4}})
	must.OK(t, b.add("seed", newURL("a.test", "", 0)))
	const hour = record.Time(3600e6)
	now := hour
	for r, want := range []record.Time{hour, 2 * hour, 4 * hour, 8 * hour, 0} {
		batch, err := b.next(now, NextOptions{N: 1})
		if err != nil || len(batch) != 1 {
			t.Fatal(batch, err)
		}
		o := fetchOf(batch[0], record.OutcomeFetched, 404, now)
		if r == 0 {
			o.Status, o.ContentFP, o.BodyLength = 200, 1, 1
		}
		must.OK(t, b.update("", now, []record.Fetch{o}))
		due, empty, err := b.f.Due(now)
		if err != nil || empty != (want == 0) || !empty && due != now+want {
			t.Errorf("visit %d: due %d after %d, want %d; empty: %v, %v", r, due, now, want, empty, err)
		}
		now = due
	}
	b.check()
}

// What is known of a page with many changes is halved, changes and time alike: its rate stays.
func TestOldChangesCountHalf(t *testing.T) {
	p := scheduleOf(t, Revisit{})
	const day = 24 * 3600e6
	v := Visit{Visits: enough, Changes: enough - 1, ObservedUS: (enough - 1) * day, Last: 100 * day}
	mean := p.mean(v.Changes, v.ObservedUS)
	p.learn(&v, &sighting{at: 102 * day, modified: 101 * day, fp: 2}, 1)
	if after := p.mean(v.Changes, v.ObservedUS); v.Changes != enough/2 || after < mean*95/100 || after > mean*105/100 {
		t.Errorf("%d changes, a mean of %d, want %d, %d", v.Changes, after, enough/2, mean)
	}
}

func TestWrongClocks(t *testing.T) {
	p := scheduleOf(t, Revisit{MinInterval: "1h", MaxInterval: "24h"})
	const hour, now = 3600e6, 1000 * 3600e6
	for _, at := range []record.Time{math.MinInt64, -1, 0, now + 366*24*hour, math.MaxInt64} {
		if s := sightingOf(&record.Fetch{Outcome: record.OutcomeFetched, Status: 200, FetchTime: at}, now); s.at != now {
			t.Errorf("a contact at %d is taken to be at %d", at, s.at)
		}
	}
	v := Visit{Visits: 3, Changes: 1, ObservedUS: 10 * hour, Last: now + 300*24*hour}
	ahead := v
	p.learn(&v, &sighting{at: now, fp: 2}, 1)
	if v.Changes != ahead.Changes || v.ObservedUS != ahead.ObservedUS || v.Last != now {
		t.Errorf("%+v after the clock went back, %+v before", v, ahead)
	}
	p.learn(&v, &sighting{at: now + hour, fp: 2}, 2)
	if v.ObservedUS != ahead.ObservedUS+hour {
		t.Errorf("%+v an hour later", v)
	}
	for _, modified := range []string{"Thu, 01 Jan 1970 00:00:00 GMT", "Wed, 31 Dec 1969 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "now", ""} {
		if got := serverTime(modified); got != 0 {
			t.Errorf("Last-Modified %q is %d", modified, got)
		}
	}
	v = Visit{}
	p.learn(&v, &sighting{at: now, fp: 1, modified: now + hour}, 0)
	if v.Changes != 0 || v.ObservedUS != 0 {
		t.Errorf("%+v of a page modified in the future", v)
	}
	for _, at := range []record.Time{math.MaxInt64, 1, math.MaxInt64} { // nothing overflows
		p.learn(&v, &sighting{at: at, fp: uint64(at), modified: 1}, 0)
		if most := slowest * p.max * (2*uint64(v.Changes) + 1) / 2; v.ObservedUS > most {
			t.Errorf("%+v, want at most %d observed", v, most)
		}
	}
}

func TestRate(t *testing.T) {
	for perDay, want := range map[float64]string{0: "0", 1.0 / 15: "0.0667", 5.5: "5.5", 10416.4: "10416", 8e6: "8000000"} {
		t.Run(fmt.Sprint(perDay), func(t *testing.T) {
			if got := rate(perDay); got != want {
				t.Errorf("%v a day is %q, want %q", perDay, got, want)
			}
		})
	}
}

// The pages of two shards that give a visit the same worth add up to what one frontier tells of all.
func TestPagesAdd(t *testing.T) {
	r := Revisit{}
	must.OK(t, r.complete())
	for _, queues := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d queues", queues), func(t *testing.T) {
			p := newSchedule(r, Priority{Queues: queues})
			of := func(room float64, counts func(kind int) uint64) *revisits {
				v := &revisits{PerDay: room, Multiplier: day}
				for kind := range queues * classes {
					v.Rates = append(v.Rates, counts(kind))
				}
				return v
			}
			odd := func(kind int) uint64 { return uint64(kind % 3 * kind) }
			few := func(kind int) uint64 { return uint64(kind / 40) }
			got := p.pages(of(3, odd))
			got.Add(p.pages(of(4, few)))
			got.Add(p.pages(of(0, func(int) uint64 { return 0 })))
			want := p.pages(of(7, func(kind int) uint64 { return odd(kind) + few(kind) }))
			if d := cmp.Diff(want, got, cmpopts.EquateApprox(1e-3, 0)); d != "" { // intervals are in whole seconds
				t.Errorf("%s", d)
			}
			if d := got.Fresh - want.Fresh; math.Abs(d) > 1e-9 {
				t.Errorf("%v more expected fresh than in one", d)
			}
		})
	}
}
