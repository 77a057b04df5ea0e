package simweb

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

func changingWeb(t *testing.T) *Web {
	t.Helper()
	c := Default
	c.Hard, c.Changing = true, true
	w, err := New(c)
	must.OK(t, err)
	return w
}

// Changes come at the rates that are told, one after the other, and as far apart as in
// a Poisson process: the deviation of the gaps is their mean.
func TestChangesArePoisson(t *testing.T) {
	w := changingWeb(t)
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var n, sum, squares float64
	lives := map[time.Duration]int{}
	for page := range int32(400) {
		r := resource{kind: kindPage, n: page}
		c := w.change(r, begin)
		lives[c.Mean]++
		if c.Mean == 0 {
			if !c.Last.IsZero() || !c.Next.IsZero() {
				t.Fatal(c)
			}
			continue
		}
		for range 50 {
			before, after := w.change(r, c.Next.Add(-1)), w.change(r, c.Next)
			if !before.Last.Equal(c.Last) || !before.Next.Equal(c.Next) || !after.Last.Equal(c.Next) {
				t.Fatalf("%v, then %v, then %v", c, before, after)
			}
			gap := float64(after.Next.Sub(after.Last)) / float64(c.Mean)
			n, sum, squares = n+1, sum+gap, squares+gap*gap
			c = after
		}
	}
	mean := sum / n
	if deviation := math.Sqrt(squares/n - mean*mean); math.Abs(mean-1) > 0.03 || math.Abs(deviation-1) > 0.05 {
		t.Errorf("%v gaps of mean %.3f, deviation %.3f, want 1 and 1", n, mean, deviation)
	}
	for _, life := range Lives {
		if lives[life] < 25 {
			t.Errorf("%d of 400 pages have a mean life of %v", lives[life], life)
		}
	}
}

// A page's body and what is told of it change when it does, and only then.
func TestChangingPages(t *testing.T) {
	w := changingWeb(t)
	h := w.NewHard()
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	told := map[string]int{}
	for page := range int32(100) {
		target := string(w.appendTarget(nil, resource{kind: kindPage, n: page}))
		host := "h0" + Suffix
		get := func(at time.Time, q Request) Response {
			q.Method, q.Host, q.Target = "GET", host, target
			p, _ := h.Respond(nil, &q, at)
			return p
		}
		c, ok := w.Change(host, target, begin)
		if !ok {
			t.Fatal(target)
		}
		p := get(begin, Request{})
		if c.Next.IsZero() {
			if stays, said := statement(t, p.Freshness, begin); stays != 0 {
				t.Errorf("%s, which never changes, is to stay for %v", target, stays)
			} else if said {
				told["never"]++
			}
			continue
		}
		same, other := get(c.Next.Add(-1), Request{}), get(c.Next, Request{})
		if !bytes.Equal(p.Body, same.Body) || p.ETag != same.ETag || p.LastModified != same.LastModified {
			t.Fatalf("%s has changed before its time", target)
		}
		if bytes.Equal(p.Body, other.Body) {
			t.Fatalf("%s has not changed", target)
		}
		if p.ETag != "" {
			told["etag"]++
			if get(begin, Request{IfNoneMatch: p.ETag}).Status != 304 || get(c.Next, Request{IfNoneMatch: p.ETag}).Status != 200 {
				t.Errorf("%s: its entity tag is not what it is", target)
			}
		}
		if p.LastModified != "" {
			told["modified"]++
			if p.LastModified != c.Last.UTC().Format(http.TimeFormat) {
				t.Errorf("%s: modified %s, want %v", target, p.LastModified, c.Last)
			}
			if get(begin, Request{IfModified: p.LastModified}).Status != 304 || get(c.Next.Add(time.Second), Request{IfModified: p.LastModified}).Status != 200 {
				t.Errorf("%s: If-Modified-Since is not heard", target)
			}
		}
		stays, said := statement(t, p.Freshness, begin)
		switch _, _, until, lies, _ := w.tells(resource{kind: kindPage, n: page}); {
		case said != (until || lies):
			t.Errorf("%s: %q, want a statement: %v", target, p.Freshness, !said)
		case until:
			told["until"]++
			if stays > min(c.Next.Sub(begin), c.Mean) {
				t.Errorf("%s is to stay for %v, and changes after %v", target, stays, c.Next.Sub(begin))
			}
		case lies:
			told["falsely"]++
			if stays != falseAge {
				t.Errorf("%s is to stay for %v, want %v", target, stays, falseAge)
			}
		}
	}
	if told["etag"] < 30 || told["modified"] < 30 || told["until"] < 10 || told["falsely"] < 3 || told["never"] < 1 {
		t.Error(told)
	}
}

// statement is how long a page stays by its fields, and whether they say.
func statement(t *testing.T, fields string, now time.Time) (stays time.Duration, said bool) {
	if fields == "" {
		return 0, false
	}
	if age, ok := strings.CutPrefix(strings.TrimSpace(fields), "Cache-Control: max-age="); ok {
		n, err := strconv.Atoi(age)
		must.OK(t, err)
		return time.Duration(n) * time.Second, true
	}
	date, expires, ok := strings.Cut(strings.TrimSpace(fields), "\r\nExpires: ")
	at, err := http.ParseTime(expires)
	if !ok || err != nil || date != "Date: "+now.Format(http.TimeFormat) {
		t.Fatalf("%q at %v: %v", fields, now, err)
	}
	return at.Sub(now), true
}

// There is a first change and a last one, whatever the time.
func TestChangesAtEndsOfTime(t *testing.T) {
	w := changingWeb(t)
	for page := range int32(40) {
		r := resource{kind: kindPage, n: page}
		first, last := w.change(r, time.Unix(0, 0)), w.change(r, Ending)
		for _, year := range []int{-5000, 1, 1500, 1969} {
			if c := w.change(r, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)); c != first {
				t.Errorf("year %d: %v, want %v", year, c, first)
			}
		}
		for _, at := range []time.Time{time.Unix(0, math.MaxInt64), time.Unix(0, math.MaxInt64-1e12), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
			if c := w.change(r, at); c != last {
				t.Errorf("%v: %v, want %v", at, c, last)
			}
		}
	}
}
