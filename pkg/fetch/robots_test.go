package fetch

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
)

func testCache(t testing.TB) *robotsCache {
	t.Helper()
	sp, err := newSpool(t.TempDir(), nil)
	must.OK(t, err)
	t.Cleanup(func() { sp.close() })
	return newRobotsCache(func(text []byte) Rules { return textRules(text) }, sp, &sync.Mutex{})
}

// textRules are rules that remember their text.
type textRules string

func (r textRules) Allowed(url string) bool { return !strings.Contains(url, string(r)) }
func (textRules) CrawlDelay() time.Duration { return 0 }

func TestRobotsCacheIsBounded(t *testing.T) {
	c := testCache(t)
	c.max = 4
	use := func(name, text string) *host {
		a, err := c.use(name)
		must.OK(t, err)
		if a.verdict == unknown {
			a.verdict = byRules
			must.OK(t, c.note(a, name, []byte(text)))
		}
		rules, err := c.rules(a)
		must.OK(t, err)
		if got := rules.(textRules); string(got) != text {
			t.Fatalf("%s: rules %q, want %q", name, got, text)
		}
		h := newHost(name)
		h.rules[0] = a
		return h
	}
	held := use("http://held.test", "held")
	for i := range 50 {
		h := use(fmt.Sprintf("http://h%d.test", i), fmt.Sprint("text ", i))
		if len(c.known) > c.max+1 {
			t.Fatalf("%d authorities known, want at most %d", len(c.known), c.max+1)
		}
		c.leave(h)
	}
	if c.known[held.rules[0].fp] != held.rules[0] {
		t.Error("an authority in use was forgotten")
	}
	if len(c.parsed) > c.max || len(c.parsed) != c.order.Len() {
		t.Errorf("%d parsed rules for %d authorities", len(c.parsed), len(c.known))
	}
	// The last used are still there, and the one used again outlives the others.
	c.leave(use("http://h47.test", "text 47"))
	c.leave(use("http://new1.test", "new"))
	c.leave(use("http://new2.test", "new"))
	if a, _ := c.use("http://h47.test"); a.verdict != byRules {
		t.Error("the authority that was used again is forgotten")
	}
	if a, _ := c.use("http://h48.test"); a.verdict != unknown {
		t.Error("the authority that was used longest ago is still there")
	}
}

// TestTwoNamesOneFingerprint: rules belong to the name, not to its fingerprint.
func TestTwoNamesOneFingerprint(t *testing.T) {
	c := testCache(t)
	a, err := c.use("http://a.test")
	must.OK(t, err)
	a.verdict = allowAll
	// As if another name had its fingerprint.
	must.OK(t, c.note(a, "http://other.test", nil))
	got, err := c.use("http://a.test")
	if err != nil || got == a || got.verdict != unknown {
		t.Errorf("got %+v, %v; want one of its own", got, err)
	}
}

func TestBackOff(t *testing.T) {
	own := &politeness.Rules{MinDelay: 100 * time.Millisecond, DelayFactor: 2, MaxDelay: 3 * time.Second}
	r := &runner{}
	second := micros(1_000_000)
	for _, c := range []struct {
		name   string
		row    record.Fetch
		asked  micros
		fails  int
		expect micros
	}{
		{"short", record.Fetch{Status: 200, DurationUS: 1000}, 0, 0, second / 10},
		{"by factor", record.Fetch{Status: 200, DurationUS: second}, 0, 0, 2 * second},
		{"at most", record.Fetch{Status: 200, DurationUS: 9 * second}, 0, 0, 3 * second},
		{"crawl-delay", record.Fetch{Status: 200, DurationUS: 9 * second}, 20 * second, 0, 20 * second},
		{"first 429", record.Fetch{Status: 429}, 0, 1, second},
		{"second 503", record.Fetch{Status: 503}, 0, 2, 2 * second},
		{"fourth 503", record.Fetch{Status: 503}, 0, 4, 8 * second},
		{"ten thousandth", record.Fetch{Status: 503}, 0, 10_000, second << 20},
		{"retry-after", record.Fetch{Status: 503, FetchTime: 5, DurationUS: 10, RetryAfter: record.Time(15 + 7*second)}, 0, 3, 7 * second},
		{"retry-after of a page", record.Fetch{Status: 200, RetryAfter: record.Time(70 * second)}, 0, 0, second / 10},
		{"500", record.Fetch{Status: 500}, 0, 0, second / 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := r.gap(own, &c.row, c.asked, c.fails); got != c.expect {
				t.Errorf("%s: gap %d, want %d", c.name, got, c.expect)
			}
		})
	}
}

// TestRobotsRow: what a contact for robots.txt means (RFC 9309 section 2.3.1).
func TestRobotsRow(t *testing.T) {
	for _, c := range []struct {
		row  record.Fetch
		want verdict
	}{
		{record.Fetch{Status: 200}, byRules},
		{record.Fetch{Status: 200, Truncated: "length"}, byRules}, // 500 KiB count
		{record.Fetch{Status: 200, Truncated: "disconnect"}, unreachable},
		{record.Fetch{Status: 200, Truncated: "time"}, unreachable},
		{record.Fetch{Status: 200, Truncated: "unspecified", Error: "content coding"}, unreachable},
		{record.Fetch{Status: 204}, byRules},
		{record.Fetch{Status: 302, RedirectURL: "http://b.test/"}, asking},
		{record.Fetch{Status: 302}, allowAll},
		{record.Fetch{Status: 304}, unreachable},
		{record.Fetch{Status: 401}, allowAll},
		{record.Fetch{Status: 404}, allowAll},
		{record.Fetch{Status: 404, Truncated: "disconnect"}, allowAll},
		{record.Fetch{Status: 429}, unreachable},
		{record.Fetch{Status: 500}, unreachable},
		{record.Fetch{Status: 999}, unreachable},
		{record.Fetch{Outcome: record.OutcomeTimeout}, unreachable},
	} {
		t.Run(fmt.Sprint(c.row.Status, " ", c.row.Truncated, c.row.RedirectURL), func(t *testing.T) {
			if c.row.Outcome == "" {
				c.row.Outcome = record.OutcomeFetched
			}
			if v, why, _ := robotsRow(&c.row); v != c.want || (why == "") != (v != unreachable) {
				t.Errorf("%+v: verdict %d (%s), want %d", c.row, v, why, c.want)
			}
		})
	}
}

// TestRetryAfter: both forms of the header, and what is neither.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": -1, "120": 2 * time.Minute, " 120 ": 2 * time.Minute, "0": 0, "-1": -1, "+1": -1, "1.5": -1, "soon": -1,
		"31622401": retryMax, "4294967296": retryMax, "99999999999999999999": retryMax,
		"Sat, 21 Nov 2026 10:01:00 GMT": time.Minute, "Sat, 21 Nov 2026 09:59:00 GMT": -1, "Fri, 31 Dec 9999 23:59:59 GMT": retryMax,
	} {
		t.Run(value, func(t *testing.T) {
			expect := record.Time(0)
			if want >= 0 {
				expect = record.TimeOf(now.Add(want))
			}
			if got := retryAfter(value, now); got != expect {
				t.Errorf("%q: %v, want %v", value, got.Go(), expect.Go())
			}
		})
	}
}
