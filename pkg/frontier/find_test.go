package frontier

import (
	"context"
	"fmt"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/must"
)

// TestFind: a URL is found in each queue, with the URLs of its host that come before it.
func TestFind(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	var all []record.URL
	for i := range 3 {
		all = append(all, newURL("a.test", fmt.Sprint(i), 0), newURL("b.test", fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("seed", all...))
	for _, c := range []struct {
		name, host, path string
		found            bool
		want             Location
	}{
		{"the first", "a.test", "0", true, Location{State: InQueue}},
		{"the third of its host", "b.test", "2", true, Location{State: InQueue, Before: 2}},
		{"of another host", "c.test", "0", false, Location{}},
		{"another page", "a.test", "9", false, Location{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newURL(c.host, c.path, 0)
			got, found, err := b.f.Find(context.Background(), c.host, func(r *record.URL) bool { return r.URL == u.URL })
			if err != nil || found != c.found || found && (got.State != c.want.State || got.Before != c.want.Before || got.URL.URL != u.URL) {
				t.Errorf("%+v, %v, %v; want %+v, %v", got, found, err, c.want, c.found)
			}
		})
	}
}
