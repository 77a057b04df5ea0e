package stats

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/record"
)

// The last visit counts, but not modified leaves what was there; robots.txt and redirect hops are no URLs of the crawl; deferred and parked URLs were not tried.
func TestCompare(t *testing.T) {
	const n = 3000 // more than fits in memory
	page := func(i int, digest string) record.Fetch {
		r := row("a.example", i, start)
		r.PayloadSHA1 = digest
		return r
	}
	var here, there []record.Fetch
	for i := range n {
		here, there = append(here, page(i, "x")), append(there, page(i, "x"))
	}
	same := page(0, "")
	same.Outcome, same.Status = record.OutcomeNotModified, 304
	here = append(here, same) // as it was
	here = append(here, page(1, "y"))
	gone := page(2, "")
	gone.Status = 404
	here = append(here, gone)
	here, there = append(here, page(n, "x")), append(there, page(n+1, "x"))
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
	if err != nil {
		t.Fatal(err)
	}
	url := func(i int) string { return fmt.Sprintf("http://a.example/%d", i) }
	want := &Comparison{Appeared: 1, Went: 1, Changed: 1, Otherwise: 1, Same: n - 2, Examples: []Difference{
		{"appeared", url(n), "fetched 200", ""}, {"changed", url(1), "fetched 200", "fetched 200"},
		{"otherwise", url(2), "fetched 404", "fetched 200"}, {"went", url(n + 1), "", "fetched 200"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	other, err := Compare(0, each(there), each(nil))
	if err != nil || other.Appeared != n+1 || len(other.Examples) != MaxExamples || !slices.IsSortedFunc(other.Examples, func(a, b Difference) int { return strings.Compare(a.URL, b.URL) }) {
		t.Errorf("%+v, %v", other, err)
	}
}
