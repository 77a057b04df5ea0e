package mfetch

import (
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch"
)

// TestEarlier: replies to an interrupted attempt at the batch are told apart from replies to this attempt.
func TestEarlier(t *testing.T) {
	now := time.Unix(1000, 0)
	totals := newTotals(func() time.Time { return now })
	for _, at := range []time.Duration{-time.Minute, -time.Second, time.Second} {
		totals.countRow(&record.Fetch{Role: record.RolePage, Outcome: record.OutcomeFetched, FetchTime: record.TimeOf(now.Add(at))})
	}
	totals.countRow(&record.Fetch{Role: record.RolePage, Outcome: record.OutcomeDeferred})
	_, line := totals.progress()
	if p := line.(fetch.Progress); p.Earlier != 2 || p.Replies() != 3 || p.Done != 4 {
		t.Errorf("%+v", p)
	}
}
