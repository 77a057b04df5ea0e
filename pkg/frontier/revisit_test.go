package frontier

import (
	"context"
	"math/rand/v2"
	"testing"

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
