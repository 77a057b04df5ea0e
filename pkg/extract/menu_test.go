package extract

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
)

// pagesOf crawls a site that answers under any path with the same links, and returns how many pages it has for us; -1: more than most.
func pagesOf(t *testing.T, refs func(path string) []string, most int) int {
	t.Helper()
	rules, err := filter.Load("default", filter.Options{})
	must.OK(t, err)
	seen := map[string]bool{"http://h.test/": true}
	next := []record.Fetch{{URL: "http://h.test/"}}
	for len(next) > 0 && len(seen) <= most {
		b := &rowsInMemory{}
		for _, row := range next {
			_, _, path := canon.Split(row.URL)
			body := "<title>" + path + "</title>"
			for _, ref := range refs(path) {
				body += fmt.Sprintf("<a href=%q>x</a>", ref)
			}
			row.Host, row.Role, row.Outcome, row.Status, row.MIME = "h.test", record.RolePage, record.OutcomeFetched, 200, "text/html"
			row.Body, row.BodyLength = []byte(body), int64(len(body))
			b.rows = append(b.rows, row)
		}
		if _, err := Batch(context.Background(), b, Settings{Filter: rules}); err != nil {
			t.Fatal(err)
		}
		next = nil
		for _, l := range b.links {
			var kind, url, from string
			var depth uint16
			if _, err := fmt.Sscanf(l, "%s %s depth %d from %s", &kind, &url, &depth, &from); err != nil {
				t.Fatal(l, err)
			}
			if !seen[url] {
				seen[url] = true
				next = append(next, record.Fetch{URL: url, Depth: depth, Via: from})
			}
		}
	}
	if len(next) > 0 {
		return -1
	}
	return len(seen)
}

// Menus with relative links on pages that answer under any path come to an end.
func TestMenusEnd(t *testing.T) {
	words := strings.Fields("about products news contact team jobs press legal help blog shop events")
	menu := func(n int, form string) func(string) []string {
		return func(string) (refs []string) {
			for _, w := range words[:n] {
				refs = append(refs, strings.ReplaceAll(form, "W", w))
			}
			return refs
		}
	}
	const six = 1 + 6 + 36 + 6*5 // on /a/a/ only one name is repeated
	for _, c := range []struct {
		name string
		refs func(string) []string
		most int
	}{
		{"six folders", menu(6, "W/"), six},
		{"twelve folders", menu(12, "W/"), 1 + 12 + 144 + 12*11},
		{"with a dot", menu(6, "./W/"), six},
		{"pages in folders", menu(6, "W/list.html?x=1"), six},
		{"one", menu(1, "W/"), 4},
		{"two", menu(2, "W/"), 9},
		{"without the page's own", func(path string) (refs []string) {
			for _, w := range words[:6] {
				if !strings.HasSuffix(path, "/"+w+"/") {
					refs = append(refs, w+"/")
				}
			}
			return refs
		}, 1 + 6 + 6*5 + 6*5*5 + 6*5*4},
		{"from the path itself", func(path string) (refs []string) {
			for _, w := range words[:6] {
				refs = append(refs, path+w+"/")
			}
			return refs
		}, six},
		// Each page shows few of its names, so that a path is long before it repeats two. No rule for one name fits: pages of source code have it.
		{"four of twelve, others on each page", func(path string) (refs []string) {
			rng := rand.New(rand.NewPCG(fingerprint.OfString(path), 1))
			for _, i := range rng.Perm(len(words))[:4] {
				refs = append(refs, words[i]+"/")
			}
			return refs
		}, 8000},
		{"a query that grows", func(path string) []string {
			return []string{path + "?a=1", "?" + strings.TrimLeft(path, "/?") + "&a=1"}
		}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if n := pagesOf(t, c.refs, 2*c.most); n < 0 || n > c.most {
				t.Errorf("%d pages, want at most %d", n, c.most)
			}
		})
	}
}

// Pages with links below themselves that are no such menu keep them all.
func TestPagesBelow(t *testing.T) {
	for _, c := range []struct {
		name, page, refs string
		menu             bool
	}{
		{"listing", "http://h/pub/linux/", "kernel/ docs/ pub.txt", false},
		{"folder of its own name", "http://h/src/django/", "django/ docs/ tests/", false},
		{"folder of a name above", "http://h/org/apache/", "org/ x/", false},
		{"menu from the root", "http://h/a/b/", "/a/ /b/ /c/", false},
		{"menu of the same folder", "http://h/a/b/", "a b a.html b?x/y", false},
		{"menu above", "http://h/a/b/", "../a/ ../b/", false},
		{"the page itself", "http://h/a/b/", "/a/b/ /a/b/#x", false},
		{"menu", "http://h/a/b/", "c/ a/ x b/", true},
		{"menu, absolute", "http://h/a/b/", "http://h/a/b/b/ http://h/a/b/a/x", true},
		{"menu, deeper", "http://h/a/b/c/d.html?x=/y/", "a/ c/", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var body string
			for ref := range strings.FieldsSeq(c.refs) {
				body += fmt.Sprintf("<a href=%q>x</a>", ref)
			}
			var f finder
			f.find(&Document{URL: c.page, MIME: "text/html", Body: []byte(body)}, Options{})
			if got := f.repeatsMenu(c.page); got != c.menu {
				t.Errorf("%v", got)
			}
		})
	}
}

// rawRows is a batch of raw links.
type rawRows struct {
	rows    []record.Link
	passed  int
	dropped map[string]int
}

func (r *rawRows) Read(l *record.Link) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	*l, r.rows = r.rows[0], r.rows[1:]
	return nil
}

func (r *rawRows) Pass(*record.Link) error { r.passed++; return nil }
func (r *rawRows) Drop(reason string)      { r.dropped[reason]++ }

// Raw links know of the menu, too: resolved, they are those that the page gives without them.
func TestRawLinksOfMenus(t *testing.T) {
	rules, err := filter.Load("default", filter.Options{})
	must.OK(t, err)
	b := &rawSink{rowsInMemory: rowsInMemory{rows: []record.Fetch{{URL: "http://h/a/b/", Host: "h", Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, MIME: "text/html",
		Body: []byte("<a href=a/>1</a><a href=b/>2</a><a href=c/>3</a><a href=/d/>4</a><a href=e>5</a>")}}}}
	_, err = Batch(context.Background(), b, Settings{Raw: true})
	must.OK(t, err)
	raw := &rawRows{rows: b.kept, dropped: map[string]int{}}
	must.OK(t, Resolve(context.Background(), raw, canon.Options{}, rules, nil))
	if raw.passed != 2 || raw.dropped["filter:repeated-menu"] != 3 {
		t.Errorf("%d passed, %v", raw.passed, raw.dropped)
	}
}

// rawSink keeps the rows.
type rawSink struct {
	rowsInMemory
	kept []record.Link
}

func (s *rawSink) Make(_ string, row *record.Link) error {
	s.kept = append(s.kept, *row)
	return nil
}
