package frontier

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/segment"
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
	s.visits++
	s.gone, s.retried, s.Attempt, s.Due = 0, true, 0, -1
	s.ETag, s.LastModified, s.LastContentFP = o.ETag, o.LastModified, o.ContentFP
	return true
}

// readDue takes over when pages are to be visited again, if that is within bounds.
func (m *model) readDue(t *testing.T, b *bench, now record.Time) {
	t.Helper()
	s, _, err := b.f.current()
	if err != nil {
		t.Fatal(err)
	}
	err = b.f.each(context.Background(), s, func(_ queue, e *segment.Entry) error {
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
	if err != nil {
		t.Fatal(err)
	}
}

// A page that has changed whenever it was visited, each time after long, is visited
// soon for once, until it is known whether it changes all the time.
func TestBlindVisits(t *testing.T) {
	p, err := newSchedule(&Params{Policy: revisit, MinInterval: 12 * time.Hour, MaxInterval: 2688 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	const hour = 3600e6
	long := uint64(2000 * hour) // what the schedule asks for
	var v segment.Visit
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
		v, at, fp = blind, 1, 1
		got := visit(c.wait, c.changed, c.modified)
		if want := max(p.mean(v.Changes, v.ObservedUS), p.min); c.shorter && got != want || !c.shorter && got != long {
			t.Errorf("%s: the next visit after %d h", c.what, got/hour)
		}
	}
	v, at, fp = blind, 1, 1
	for n := 1; visit(300*hour, true, 0) < long; n++ {
		if n > enough {
			t.Fatal("no end of short intervals")
		}
	}
}

// What a visit cannot tell, because a clock is wrong, does not count for long.
func TestWrongClocks(t *testing.T) {
	p, err := newSchedule(&Params{Policy: revisit, MinInterval: time.Hour, MaxInterval: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	const hour, now = 3600e6, 1000 * 3600e6
	for _, at := range []record.Time{math.MinInt64, -1, 0, now + 366*24*hour, math.MaxInt64} {
		if s := look(&record.Fetch{Outcome: record.OutcomeFetched, Status: 200, FetchTime: at}, now); s.at != now {
			t.Errorf("a contact at %d is taken to be at %d", at, s.at)
		}
	}
	v := segment.Visit{Visits: 3, Changes: 1, ObservedUS: 10 * hour, Last: now + 300*24*hour}
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
	v = segment.Visit{}
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
