package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/merge"
)

// tried is a row of page u at a time: a status, "301 URL", or an outcome; content is its fingerprint.
func tried(u string, at record.Time, what string, content uint64) record.Fetch {
	r := record.Fetch{URL: u, Key: xxh3.HashString(u), Role: record.RolePage, FetchTime: at, Outcome: what, ContentFP: content, Via: "via"}
	if n, err := fmt.Sscan(what, &r.Status, &r.RedirectURL); n > 0 {
		_ = err // a status alone
		r.Outcome = record.OutcomeFetched
	}
	return r
}

// says is a row with an error.
func says(r record.Fetch, text string) record.Fetch { r.Error = text; return r }

func linkTo(page string, at record.Time, url, text string) record.Link {
	return record.Link{SrcURL: page, SrcKey: xxh3.HashString(page), URL: url, Key: xxh3.HashString(url), LinkKind: "a", Text: text, Discovered: at}
}

// brokenIn lists what is broken, as "failure url>redirects page text", and what is unchecked.
func brokenIn(t *testing.T, l Links, mem int64) (list []string, unchecked string) {
	t.Helper()
	l.Redirect = func(r *record.Fetch) (string, uint64, bool) {
		return r.RedirectURL, xxh3.HashString(r.RedirectURL), true
	}
	counts, err := l.Each(mem, func(b *Broken) error {
		list = append(list, strings.TrimSpace(fmt.Sprint(b.Failure, " ", strings.Join(append([]string{b.URL}, b.Redirects...), ">"), " ", b.Page, " ", b.Text)))
		return nil
	})
	must.OK(t, err)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		unchecked += fmt.Sprint(counts[name], " ", name, ";")
	}
	return list, unchecked
}

func TestBroken(t *testing.T) {
	page := tried("p", 1, "200", 7)
	long := []record.Fetch{page}
	for i := range 25 {
		long = append(long, tried(fmt.Sprint("u", i), 2, fmt.Sprint("302 u", i+1), 0))
	}
	seed := tried("s", 1, "404", 0)
	seed.Via = ""
	start := tried("s", 1, "301 x", 0)
	start.Via = ""
	robots := tried("x", 2, "404", 0)
	robots.Role = record.RoleRobots
	again := tried("a", 2, "200", 0)
	again.Role = record.RoleAgain
	cut := func(how, status string) record.Fetch {
		r := tried("x", 2, status, 3)
		r.Truncated = how
		return r
	}
	one := []record.Link{linkTo("p", 1, "x", "t")}
	for _, tt := range []struct {
		name      string
		rows      []record.Fetch
		links     []record.Link
		accept    []uint16
		except    []string
		want      string // joined by commas
		unchecked string
	}{
		{name: "a status", rows: []record.Fetch{page, tried("x", 2, "404", 0)}, links: one, want: "404 x p t"},
		{name: "a server's error", rows: []record.Fetch{page, tried("x", 2, "503", 0)}, links: one, want: "503 x p t"},
		{name: "no host", rows: []record.Fetch{page, tried("x", 2, record.OutcomeDNS, 0)}, links: one, want: "dns-failed x p t"},
		{name: "a certificate", rows: []record.Fetch{page, tried("x", 2, record.OutcomeTLS, 0)}, links: one, want: "tls-failed x p t"},
		{name: "a status that is accepted", rows: []record.Fetch{page, tried("x", 2, "403", 0)}, links: one, accept: []uint16{403}},
		{name: "a class that is accepted", rows: []record.Fetch{page, tried("x", 2, "503", 0)}, links: one, accept: []uint16{5}},
		{name: "a document", rows: []record.Fetch{page, tried("x", 2, "200", 3)}, links: one},
		{name: "not modified", rows: []record.Fetch{page, tried("x", 2, "200", 3), tried("x", 3, record.OutcomeNotModified, 0)}, links: one},
		{name: "robots.txt forbids it", rows: []record.Fetch{page, tried("x", 2, record.OutcomeRobotsDenied, 0)}, links: one, unchecked: "1 robots-denied;"},
		{name: "no robots.txt, as there is no server", rows: []record.Fetch{page, says(tried("x", 2, record.OutcomeRobotsUnreachable, 0), "connect-failed: dial tcp: refused")}, links: one, want: "connect-failed x p t"},
		{name: "a robots.txt of status 503", rows: []record.Fetch{page, says(tried("x", 2, record.OutcomeRobotsUnreachable, 0), "status 503")}, links: one, unchecked: "1 robots-unreachable;"},
		{name: "a robots.txt of another host, which is down", rows: []record.Fetch{page, says(tried("x", 2, record.OutcomeRobotsUnreachable, 0), "robots.txt: connect-failed: dial tcp: refused")}, links: one, unchecked: "1 robots-unreachable;"},
		{name: "a server that is down, accepted", rows: []record.Fetch{page, says(tried("x", 2, record.OutcomeRobotsUnreachable, 0), "connect-failed: dial tcp: refused")}, links: one, except: []string{record.OutcomeConnect}},
		{name: "a reply without its end", rows: []record.Fetch{page, cut("disconnect", "200")}, links: one, want: "cut x p t"},
		{name: "a reply that nobody can decode", rows: []record.Fetch{page, cut("unspecified", "200")}, links: one, want: "cut x p t"},
		{name: "a reply without its end, accepted", rows: []record.Fetch{page, cut("disconnect", "200")}, links: one, except: []string{OutcomeCut}},
		{name: "a reply longer than the crawl takes", rows: []record.Fetch{page, cut("length", "200")}, links: one},
		{name: "a reply that takes longer", rows: []record.Fetch{page, cut("time", "200")}, links: one},
		{name: "an error without its end", rows: []record.Fetch{page, cut("disconnect", "404")}, links: one, want: "404 x p t"},
		{name: "a redirect to nowhere", rows: []record.Fetch{page, tried("x", 2, "301", 0)}, links: one, want: "redirect-url x p t"},
		{name: "a redirect to what is no URL", rows: []record.Fetch{page, says(tried("x", 2, "302", 0), "redirect: invalid: no host")}, links: one, want: "redirect-url x p t"},
		{name: "a redirect to what is too long", rows: []record.Fetch{page, says(tried("x", 2, "308", 0), "body: cut; redirect: too-long")}, links: one, want: "redirect-url x p t"},
		{name: "a redirect to a program", rows: []record.Fetch{page, says(tried("x", 2, "302", 0), "redirect: scheme: mailto")}, links: one},
		{name: "a scheme in other words", rows: []record.Fetch{page, says(tried("x", 2, "302", 0), "head: redirect: scheme: mailto; redirect: invalid: redirect: scheme: x")}, links: one, want: "redirect-url x p t"},
		{name: "a scheme of another sort", rows: []record.Fetch{page, says(tried("x", 2, "302", 0), "redirect: schemeless")}, links: one, want: "redirect-url x p t"},
		{name: "a program behind other words", rows: []record.Fetch{page, says(tried("x", 2, "302", 0), "body: cut; redirect: scheme: tel")}, links: one},
		{name: "a loop that is accepted", rows: []record.Fetch{page, tried("x", 2, "301 y", 0), tried("y", 3, "301 x", 0), tried("z", 2, record.OutcomeTimeout, 0)}, except: []string{FailureLoop},
			links: append(one[:1:1], linkTo("p", 1, "z", "u")), want: "timeout z p u"},
		{name: "a time-out that is accepted, and a chain to it", rows: []record.Fetch{page, tried("x", 2, "301 y", 0), tried("y", 3, record.OutcomeTimeout, 0)}, except: []string{record.OutcomeTimeout}, links: append(one[:1:1], linkTo("p", 1, "y", "u"))},
		{name: "nowhere that is accepted", rows: []record.Fetch{page, tried("x", 2, "301", 0)}, except: []string{FailureURL}, links: one},
		{name: "a chain to nowhere", rows: []record.Fetch{page, tried("x", 2, "301 y", 0), tried("y", 3, "302", 0)}, links: one, want: "redirect-url x>y p t"},
		{name: "choices", rows: []record.Fetch{page, tried("x", 2, "300", 0)}, links: one},
		{name: "put off, then parked", rows: []record.Fetch{page, tried("x", 2, record.OutcomeDeferred, 0), tried("x", 3, record.OutcomeParked, 0)}, links: one, unchecked: "1 parked;"},
		{name: "never tried", rows: []record.Fetch{page}, links: one},
		{name: "put off after a failure", rows: []record.Fetch{page, tried("x", 2, "404", 0), tried("x", 3, record.OutcomeDeferred, 0)}, links: one, want: "404 x p t"},
		{name: "a robots.txt of that name", rows: []record.Fetch{page, robots}, links: one},
		{name: "mended", rows: []record.Fetch{page, tried("x", 2, "404", 0), tried("x", 3, "200", 3)}, links: one},
		{name: "a chain", rows: []record.Fetch{page, tried("x", 2, "301 y", 0), tried("y", 3, "302 z", 0), tried("z", 4, "404", 0)}, links: one, want: "404 x>y>z p t"},
		{name: "a chain to a document", rows: []record.Fetch{page, tried("x", 2, "301 y", 0), tried("y", 3, "200", 5)}, links: one},
		{name: "a chain out of the crawl", rows: []record.Fetch{page, tried("x", 2, "301 y", 0)}, links: one},
		{name: "a loop", rows: []record.Fetch{page, tried("x", 2, "301 y", 0), tried("y", 3, "301 x", 0)}, links: one, want: "redirect-loop x>y>x p t"},
		{name: "a redirect to itself", rows: []record.Fetch{page, tried("x", 2, "301 x", 0)}, links: one, want: "redirect-loop x>x p t"},
		{name: "a redirect to itself that let in", rows: []record.Fetch{page, tried("a", 2, "301 a", 0), again}, links: []record.Link{linkTo("p", 1, "a", "t")}},
		{name: "redirects without an end", rows: long, links: []record.Link{linkTo("p", 1, "u0", "t"), linkTo("p", 1, "u6", "six")},
			want: "redirect-limit u0>" + strings.Join(names("u", 1, 22), ">") + " p t"},
		{name: "a link of a redirect", rows: []record.Fetch{tried("p", 1, "301 x", 0), tried("x", 2, "404", 0)}, links: []record.Link{{SrcKey: xxh3.HashString("p"), URL: "x", Key: xxh3.HashString("x"), LinkKind: "redirect"}}},
		{name: "a guess", rows: []record.Fetch{page, tried("x", 2, "404", 0)}, links: []record.Link{{SrcKey: xxh3.HashString("p"), URL: "x", Key: xxh3.HashString("x"), LinkKind: "script-guess", Discovered: 1}}},
		{name: "a seed", rows: []record.Fetch{seed}, want: "404 s"},
		{name: "a seed that is redirected", rows: []record.Fetch{start, robots, tried("x", 3, record.OutcomeTimeout, 0)}, want: "timeout s>x"},
		{name: "in the order in which they stand", rows: []record.Fetch{page, tried("x", 2, "404", 0), tried("b", 2, "404", 0)}, links: []record.Link{linkTo("p", 1, "x", "1"), linkTo("p", 1, "b", "2"), linkTo("p", 1, "x", "3")},
			want: "404 x p 1,404 b p 2,404 x p 3"},
		{name: "twice", rows: []record.Fetch{page, tried("p", 5, "200", 7), tried("x", 2, "404", 0)}, links: []record.Link{one[0], linkTo("p", 5, "x", "t")}, want: "404 x p t"},
		{name: "taken off the page", rows: []record.Fetch{page, tried("x", 2, "404", 0), tried("p", 5, "200", 8)}, links: one},
		{name: "off and on", rows: []record.Fetch{page, tried("x", 2, "404", 0), tried("p", 5, "200", 8), tried("p", 6, "200", 7)}, links: one, want: "404 x p t"},
		{name: "a page that has not changed", rows: []record.Fetch{page, tried("x", 2, "404", 0), tried("p", 5, record.OutcomeNotModified, 0)}, links: one, want: "404 x p t"},
		{name: "a page that fails now", rows: []record.Fetch{page, tried("x", 2, "404", 0), tried("p", 5, "503", 0)}, links: one, want: "404 x p t"},
		{name: "a page that is gone", rows: []record.Fetch{page, tried("x", 2, "404", 0), tried("p", 5, "410", 0)}, links: one},
		{name: "a page that came back", rows: []record.Fetch{page, tried("x", 2, "404", 0), tried("p", 5, "410", 0), tried("p", 6, "200", 7)}, links: one, want: "404 x p t"},
		{name: "a page that has moved", rows: []record.Fetch{page, tried("x", 2, "404", 0), tried("p", 5, "301 q", 0)}, links: one},
		{name: "a sitemap of a robots.txt", rows: []record.Fetch{tried("x", 2, "404", 0)}, links: []record.Link{linkTo("robots", 1, "x", "")}, want: "404 x robots"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := Links{Fetched: []string{write(t, nil, tt.rows...)}, Found: []string{write(t, nil, tt.links...)}, Accept: tt.accept, Except: tt.except}
			got, unchecked := brokenIn(t, l, 1<<20)
			if text := strings.Join(got, ","); text != tt.want || unchecked != tt.unchecked {
				t.Errorf("%q, %q unchecked, want %q, %q", text, unchecked, tt.want, tt.unchecked)
			}
		})
	}
}

// Of refused links those are broken that are no URLs, as long as their page has them. Whatever refused the others, a server may have them.
func TestBrokenRefused(t *testing.T) {
	page, page2, gone := tried("p", 1, "200", 7), tried("p", 5, "200", 8), tried("p", 5, "410", 0)
	refused := func(at record.Time, url, kind, why string) record.Link {
		l := linkTo("p", at, url, "")
		l.LinkKind, l.Extra = kind, linkRefused.Texts(func(string) string { return why })
		return l
	}
	bad := refused(1, "http://[::bad/", "a", "invalid")
	for _, tt := range []struct {
		name   string
		rows   []record.Fetch
		links  []record.Link
		except []string
		want   string // joined by commas
	}{
		{name: "no URL, behind what was asked for", rows: []record.Fetch{page, tried("x", 2, "404", 0)}, links: []record.Link{bad}, want: "404 x p t,invalid http://[::bad/ p"},
		{name: "accepted", rows: []record.Fetch{page}, links: []record.Link{bad}, except: []string{FailureInvalid}},
		{name: "of other reasons", rows: []record.Fetch{page}, links: []record.Link{refused(1, "htp://x/", "a", "scheme"), refused(1, "http://x/", "a", "filter:invalid"), refused(1, "y", "a", "too-long")}},
		{name: "a guess, and a redirect", rows: []record.Fetch{page}, links: []record.Link{refused(1, "//", "script-guess", "invalid"), refused(1, "//", "redirect", "invalid")}},
		{name: "once for each page", rows: []record.Fetch{page, tried("p", 5, "200", 7)}, links: []record.Link{bad, refused(5, bad.URL, "a", "invalid")}, want: "invalid http://[::bad/ p"},
		{name: "on a page that has changed", rows: []record.Fetch{page, page2}, links: []record.Link{bad}},
		{name: "on a page that is gone", rows: []record.Fetch{page, gone}, links: []record.Link{bad}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := Links{Fetched: []string{write(t, nil, tt.rows...)}, Found: []string{write(t, nil, linkTo("p", 1, "x", "t"))}, Refused: []string{write(t, linkRefused, tt.links...)}, Except: tt.except}
			if got, _ := brokenIn(t, l, 1<<20); strings.Join(got, ",") != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// Pages that are not searched, since others had their content, are counted where relative links lead elsewhere.
func TestBrokenCopies(t *testing.T) {
	html := func(url string, at record.Time, content uint64, duplicate bool) record.Fetch {
		r := tried(url, at, "200", content)
		r.MIME, r.Duplicate = "text/html", duplicate
		return r
	}
	first, unchanged := html("http://h/a/x", 1, 6, false), html("http://h/b/x", 5, 6, true)
	same := tried("http://h/b/x", 6, record.OutcomeNotModified, 0)
	picture := html("http://h/b/x", 2, 6, true)
	picture.MIME = "image/png"
	for _, tt := range []struct {
		name     string
		rows     []record.Fetch
		searched bool
		want     uint64
	}{
		{name: "in another folder", rows: []record.Fetch{first, html("http://h/b/x", 2, 6, true), html("http://h/c/x", 2, 6, true)}, want: 2},
		{name: "on another host", rows: []record.Fetch{first, html("https://h/a/x", 2, 6, true)}, want: 1},
		{name: "in its folder", rows: []record.Fetch{first, html("http://h/a/y", 2, 6, true), html("http://h/a/?b/", 2, 6, true)}},
		{name: "of an odd content", rows: []record.Fetch{html("http://h/a/x", 1, 7, false), html("http://h/b/x", 2, 7, true), html("http://h/a/y", 2, 7, true)}, want: 1},
		{name: "where the first has changed", rows: []record.Fetch{first, html("http://h/a/y", 2, 6, true), html("http://h/a/x", 5, 8, false)}, want: 1},
		{name: "searched", rows: []record.Fetch{first, html("http://h/b/x", 2, 6, true)}, searched: true},
		{name: "of what is no page", rows: []record.Fetch{first, picture}},
		{name: "of itself", rows: []record.Fetch{html("http://h/b/x", 1, 6, false), unchanged}},
		{name: "of itself, off and on", rows: []record.Fetch{html("http://h/b/x", 1, 6, false), html("http://h/b/x", 2, 8, false), unchanged}},
		{name: "not modified since", rows: []record.Fetch{first, unchanged, same}, want: 1},
		{name: "with a failure since", rows: []record.Fetch{first, unchanged, tried("http://h/b/x", 6, "503", 0), tried("http://h/b/x", 7, record.OutcomeTimeout, 0)}, want: 1},
		{name: "gone since", rows: []record.Fetch{first, unchanged, tried("http://h/b/x", 6, "404", 0)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := Links{Fetched: []string{write(t, nil, tt.rows...)}, Searched: tt.searched}
			_, err := l.Each(1<<20, func(*Broken) error { return nil })
			if must.OK(t, err); l.Copies != tt.want {
				t.Errorf("%d, want %d", l.Copies, tt.want)
			}
		})
	}
}

func names(prefix string, from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprint(prefix, i))
	}
	return list
}

// More than memory holds, and more keys than are kept: the same as for few.
func TestBrokenMany(t *testing.T) {
	const n = maxKeys + 1000
	rows := []record.Fetch{tried("p", 1, "200", 7)}
	var links []record.Link
	for i := range n {
		u := fmt.Sprint("http://h.example/", i)
		rows = append(rows, tried(u, 2, []string{"404", "200", "301 http://h.example/0"}[i%3], 9))
		links = append(links, linkTo("p", 1, u, ""))
	}
	got, _ := brokenIn(t, Links{Fetched: []string{write(t, nil, rows...)}, Found: []string{write(t, nil, links...)}}, 1<<20)
	if len(got) != (n+2)/3+n/3 || got[1] != "404 http://h.example/2>http://h.example/0 p" {
		t.Errorf("%d links, the second %q", len(got), got[1])
	}
}

// Each redirect ends where its chain does now, also if that was found later or in another file; loops have no end. By the rules of a crawl
// URLs are one that differ as they stand.
func TestFinals(t *testing.T) {
	robots := tried("robots", 1, "301 x", 0)
	robots.Role = record.RoleRobots
	files := []string{write(t, nil, tried("a", 1, "301 b?utm_source=x", 0), robots, tried("p", 1, "200", 7), tried("b", 2, "301 c", 0), tried("l", 2, "302 m", 0)),
		write(t, nil, tried("m", 3, "302 l", 0), tried("c", 3, "404", 0), tried("d", 3, "301 out", 0))}
	for _, tt := range []struct {
		name string
		to   Target
		want []string
	}{
		{"as they stand", nil, []string{"0 b?utm_source=x", "2 c", "6 out"}},
		{"by rules", func(r *record.Fetch) (string, uint64, bool) {
			url, _, _ := strings.Cut(r.RedirectURL, "?")
			return url, xxh3.HashString(url), url != "out"
		}, []string{"0 c", "2 c", "6 out"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			if err := Finals(files, 1<<20, tt.to, func(it *merge.Iter) error {
				return it.Each(func(row uint64, url []byte) error {
					got = append(got, fmt.Sprintf("%d %s", row, url))
					return nil
				})
			}); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
