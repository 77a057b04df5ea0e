package tell

import (
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/merge"
	"mercator/pkg/view/history"
)

// TestDistinct: a page counts once, also if its links do not follow one another.
func TestDistinct(t *testing.T) {
	s := merge.NewSorter(1<<20, "")
	defer s.Close()
	for _, key := range []uint64{7, 0, 7, 9, 0} {
		must.OK(t, s.Add(key, nil))
	}
	if n, err := distinct(s); n != 3 || err != nil {
		t.Errorf("%d, %v; want 3", n, err)
	}
}

// TestCheckable: what no server has, and what is broken in any case, is not counted among the URLs that were not checked.
func TestCheckable(t *testing.T) {
	for _, c := range []struct {
		url, rule string
		want      bool
	}{
		{"mailto:me@example.org", "scheme", false}, {"javascript:void(0)", "scheme", false}, {"//", "invalid", false}, {"http://a.test/21", "redirect-limit", false},
		{"HTTPS://a.test/", "scheme", true}, {"http://a.test/", "filter:scheme", true}, {"http://a.test/", "nofollow", true}, {"http://a.test/long", "too-long", true},
	} {
		t.Run(c.url+" "+c.rule, func(t *testing.T) {
			if got := checkable(&history.Refusal{URL: c.url, Rule: c.rule}); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// TestBrokenLinksAreCounted: that many links lead to few URLs is said; where each leads to another, nothing is.
func TestBrokenLinksAreCounted(t *testing.T) {
	for _, c := range []struct {
		name string
		sum  BrokenLinks
		want string
	}{
		{"one URL on each page", BrokenLinks{Links: 396, Targets: 3, Pages: 132}, "396 broken links to 3 URLs on 132 pages"},
		{"each another URL", BrokenLinks{Links: 2, Targets: 2, Pages: 1}, "2 broken links on 1 page"},
		{"a seed", BrokenLinks{Links: 1, Targets: 1, Seeds: 1}, "1 broken link among the seeds"},
		{"a seed and a link to it", BrokenLinks{Links: 2, Targets: 1, Pages: 1, Seeds: 1}, "2 broken links to 1 URL on 1 page, 1 of them among the seeds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.sum.String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
