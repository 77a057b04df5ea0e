package stats

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/record"
	"mercator/pkg/base/must"
)

// The last document of each URL counts: what it lacks, titles that several have, and which are slow or large.
func TestPages(t *testing.T) {
	rows := func(row func(*record.Fetch) error) error {
		for i := range 300 {
			r := sized(i, "text/html")
			if err := row(&r); err != nil {
				return err
			}
		}
		gone, picture := sized(0, "text/html"), sized(1000, "image/png")
		gone.Status = 404
		if err := row(&gone); err != nil {
			return err
		}
		return row(&picture)
	}
	p, err := PagesOf(1<<20, rows, func(r *record.Fetch) (title, description, language string, ok bool) {
		n := 0
		_, _ = fmt.Sscanf(r.URL, "http://a.example/%d", &n)
		title = []string{"", "Home", "Home", fmt.Sprint(n)}[n%4]
		return title, "text", []string{"en", ""}[n%2], n != 299
	})
	must.OK(t, err)
	if p.Documents != 300 || p.HTML != 299 || p.Read != 298 || p.WithoutTitle.N != 74 || p.WithoutDescription.N != 0 || p.WithoutLanguage.N != 149 || len(p.WithoutLanguage.URLs) != TopWorst || p.SharedTitles != 150 {
		t.Errorf("%+v", p)
	}
	if len(p.Shared) != 1 || p.Shared[0].Title != "Home" || p.Shared[0].N != 150 || len(p.Shared[0].URLs) != maxShared {
		t.Errorf("%+v", p.Shared)
	}
	want := []Page{{"http://a.example/1000", "image/png", 2000, 1000}, {"http://a.example/299", "text/html", 598, 299}}
	if diff := cmp.Diff(want, p.Largest[:2]); diff != "" {
		t.Error(diff)
	}
	if len(p.Slowest) != TopWorst || !strings.HasSuffix(p.Slowest[99].URL, "/201") {
		t.Errorf("%+v", p.Slowest[99])
	}
}

// sized is a document of n microseconds and twice as many bytes.
func sized(n int, mime string) record.Fetch {
	return record.Fetch{URL: fmt.Sprintf("http://a.example/%d", n), Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, MIME: mime, BodyLength: 2 * int64(n), DurationUS: int64(n), ContentFP: 1}
}
