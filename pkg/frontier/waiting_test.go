package frontier

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// Changes that take URLs out of their queues merge, too: the files of each queue stay few, and every URL keeps its row.
func TestRaisesMerge(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	b.f.layout.step = 1 << 10 // a merge is done in one change: its pieces are files, too
	var urls []record.URL
	for i := range 40 {
		urls = append(urls, newURL(fmt.Sprintf("h%d.test", i%7), fmt.Sprint(i), 4))
	}
	must.OK(t, b.add("", urls...))
	most := 0
	raise := func(u *record.URL, priority uint8) {
		t.Helper()
		if u.Priority = priority; priority == 1 { // and one of before gets a score only: its queue loses a row, too
			u.Score++
		}
		if done, err := b.raise("", *u); err != nil || done.Consumed != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
		s, _, err := b.f.current()
		must.OK(t, err)
		for _, runs := range s.Ready {
			most = max(most, len(runs))
		}
	}
	for priority := uint8(3); priority > 0; priority-- {
		for i := range urls {
			raise(&urls[i], priority)
		}
	}
	for range 3 { // in their queue
		for i := range urls {
			raise(&urls[i], 1)
		}
	}
	if most > 12 { // two of each of three tiers and merges of the tiers, and 2 x fan
		t.Errorf("%d files in a queue", most)
	}
	b.check()
	got := b.exported()
	if len(got) != len(urls) {
		t.Fatalf("%d URLs, want %d", len(got), len(urls))
	}
	for _, u := range got {
		if u.Priority != 1 || u.Score != 4 {
			t.Errorf("%s: priority %d, score %v", u.URL, u.Priority, u.Score)
		}
	}
}

// NaN is above no score.
func TestBetter(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		is, other, want float32
		higher          bool
	}{{1, 2, 2, true}, {2, 1, 2, false}, {1, nan, 1, false}} {
		t.Run(fmt.Sprint(c.is, " ", c.other), func(t *testing.T) {
			u := record.URL{Score: c.is}
			if higher := better(&u, &record.URL{Score: c.other}); higher != c.higher || u.Score != c.want {
				t.Errorf("%v, %v: %v, %v", c.is, c.other, u.Score, higher)
			}
		})
	}
}

// More rates than there are classes are refused, as what is no state is.
func TestTooManyRates(t *testing.T) {
	b := open(t, crashtest.New(), Params{Policy: revisit})
	must.OK(t, b.add("", newURL("a.test", "", 0)))
	b.change(func(s *state) {
		p := s.policy.hooks.(*revisitPolicy)
		p.Rates = make([]uint64, len(p.worth)*classes+1)
		p.Rates[len(p.Rates)-1] = 1
	})
	if _, _, err := b.f.current(); !errors.Is(err, fault.Corrupt) || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "rates, want at most") {
		t.Error(err)
	}
}
