package fetch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch/cookies"
	"mercator/pkg/web/canon"
)

// BenchmarkCookies: what a contact costs besides where no cookie is set, with cookies of many other sites in the jar.
func BenchmarkCookies(b *testing.B) {
	jar := cookies.New()
	for i := range 10_000 {
		jar.Keep(cookies.TargetOf(fmt.Sprintf("http://s%d.test/", i)), "sid=1", time.Now())
	}
	r := &runner{opt: Options{Cookies: jar, Now: time.Now}}
	body := []byte("<!doctype html><html><head><meta charset=utf-8><title>t</title></head><body>" + strings.Repeat("<p><a href='/some/page'>text of a link</a> and more text", 400))
	row := &record.Fetch{URL: "http://www.none.test/x", Status: 200, MIME: "text/html", Outcome: record.OutcomeFetched}
	page := &record.URL{URL: row.URL}
	b.ReportAllocs()
	for b.Loop() {
		a := r.cookiesSent(row.URL)
		jar.Line(cookies.TargetOf(row.URL), time.Now())
		r.noteRedirect(page, row, a, reloadOf(row, "", body, canon.Options{}), 0)
	}
}
