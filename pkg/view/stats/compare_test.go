package stats

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/record"
	"mercator/pkg/base/must"
)

// The last visit counts, but not modified leaves what was there; robots.txt and redirect hops are no URLs of the crawl; deferred and parked URLs were not tried.
func TestCompare(t *testing.T) {
	const n = 3000 // more than fits in memory
	page := func(i int, digest string) record.Fetch {
		r := row("a.example", i, start)
		r.PayloadSHA1, r.ContentFP = digest, uint64(len(digest))
		return r
	}
	var here, there []record.Fetch
	for i := range n {
		here, there = append(here, page(i, "x")), append(there, page(i, "x"))
	}
	same := page(0, "")
	same.Outcome, same.Status = record.OutcomeNotModified, 304
	here = append(here, same) // as it was
	here = append(here, page(1, "yy"))
	packed := page(4, "z") // the same document, compressed in another way
	here = append(here, packed)
	gone := page(2, "")
	gone.Status = 404
	here = append(here, gone)
	here, there = append(here, page(n, "x")), append(there, page(n+1, "x"))
	late := page(5, "")
	late.Outcome, late.Status = record.OutcomeTimeout, 0
	again := page(5, "")
	again.Outcome, again.Status = record.OutcomeNotModified, 304
	here = append(here, late, again) // as it was
	transformed := page(6, "yyy")
	transformed.Status = 203
	here = append(here, transformed)
	failed := page(7, "")
	failed.Outcome, failed.Status = record.OutcomeTimeout, 0
	here = append(here, failed)
	robots := page(n+2, "x")
	robots.Role = record.RoleRobots
	here = append(here, robots)
	deferred, parked := page(3, ""), page(n+3, "") // no attempts
	deferred.Outcome, deferred.Status = record.OutcomeDeferred, 0
	parked.Outcome, parked.Status = record.OutcomeParked, 0
	here = append(here, deferred, parked)
	each := func(rows []record.Fetch) func(func(*record.Fetch) error) error {
		return func(row func(*record.Fetch) error) error {
			for i := range rows {
				if err := row(&rows[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	got, err := Compare(0, each(here), each(there))
	must.OK(t, err)
	url := func(i int) string { return fmt.Sprintf("http://a.example/%d", i) }
	want := &Comparison{New: 1, Changed: 2, Gone: 2, Failed: 1, Same: n - 4, Examples: []Difference{
		{"changed", url(1), "fetched 200", "fetched 200"}, {"changed", url(6), "fetched 203", "fetched 200"}, {"failed", url(7), "timeout", "fetched 200"},
		{"gone", url(2), "answered 404", "fetched 200"}, {"gone", url(n + 1), "", "fetched 200"}, {"new", url(n), "fetched 200", ""}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	other, err := Compare(0, each(there), each(nil))
	if err != nil || other.New != n+1 || len(other.Examples) != MaxExamples || !slices.IsSortedFunc(other.Examples, func(a, b Difference) int { return strings.Compare(a.URL, b.URL) }) {
		t.Errorf("%+v, %v", other, err)
	}
}

func TestMeaning(t *testing.T) {
	doc, gone, moved, broken := &record.Fetch{Outcome: record.OutcomeFetched, Status: 200}, &record.Fetch{Outcome: record.OutcomeFetched, Status: 404}, &record.Fetch{Outcome: record.OutcomeFetched, Status: 301}, &record.Fetch{Outcome: record.OutcomeTimeout}
	for _, tt := range []struct {
		name        string
		other       bool
		now, before *record.Fetch
		want        string
	}{
		{"a page that was not there", false, doc, nil, "new"}, {"an error that was not there", false, gone, nil, ""},
		{"a page again", false, doc, gone, "new"}, {"another content", true, doc, doc, "changed"}, {"another error page", true, gone, gone, ""},
		{"not found", false, gone, doc, "gone"}, {"moved", false, moved, doc, "gone"}, {"not in the crawl", false, nil, doc, "gone"}, {"an error not in the crawl", false, nil, gone, ""},
		{"a timeout", false, broken, doc, "failed"}, {"from error to error", false, broken, gone, ""}, {"the same", false, doc, doc, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Meaning(tt.other, tt.now, tt.before); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
