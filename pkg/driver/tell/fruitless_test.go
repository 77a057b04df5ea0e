package tell

import (
	"fmt"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/linkkind"
)

// TestOfUse: whether any page of a crawl is more than a way to another.
func TestOfUse(t *testing.T) {
	page := func(url string) record.Fetch {
		_, host, _ := canon.Split(url)
		return record.Fetch{URL: url, Host: host, Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, MIME: "text/html", BodyLength: 100}
	}
	with := func(row record.Fetch, change func(*record.Fetch)) record.Fetch { change(&row); return row }
	status := func(url string, n uint16) record.Fetch {
		return with(page(url), func(r *record.Fetch) { r.Status = n })
	}
	redirect := func(url, to string) record.Fetch {
		return with(status(url, 302), func(r *record.Fetch) { r.RedirectURL = to })
	}
	link := func(from, kind, to string) record.Link {
		_, host, _ := canon.Split(to)
		return record.Link{SrcURL: from, LinkKind: kind, URL: to, Host: host}
	}
	const a, b, c, out = "http://a.test/", "http://a.test/b", "http://a.test/c", "http://out.test/"
	for _, test := range []struct {
		name              string
		rows              []record.Fetch
		refused, followed []record.Link
		use               bool
		way               string // of the first URL
	}{
		{"a page", []record.Fetch{page(a)}, nil, nil, true, a},
		{"a page not modified", []record.Fetch{with(page(a), func(r *record.Fetch) { r.Outcome, r.Status, r.BodyLength = record.OutcomeNotModified, 304, 0 })}, nil, nil, true, a},
		{"no body", []record.Fetch{with(page(a), func(r *record.Fetch) { r.BodyLength = 0 })}, nil, nil, false, a},
		{"forbidden", []record.Fetch{status(a, 403)}, nil, nil, false, a},
		{"failed, then fetched", []record.Fetch{status(a, 503), page(a)}, nil, nil, true, a},
		{"fetched, then gone", []record.Fetch{page(a), status(a, 410)}, nil, nil, true, a},
		{"robots.txt is no page", []record.Fetch{with(page(a), func(r *record.Fetch) { r.Role = record.RoleRobots })}, nil, nil, false, ""},
		{"a page that was asked for again", []record.Fetch{redirect(a, a), with(page(a), func(r *record.Fetch) { r.Role = record.RoleAgain })}, nil, nil, true, a},
		{"a redirect out", []record.Fetch{redirect(a, out)}, nil, nil, false, a + " > " + out},
		{"a redirect to a page", []record.Fetch{redirect(a, b), page(b)}, nil, nil, true, a + " > " + b},
		{"a redirect to none", []record.Fetch{redirect(a, b), status(b, 404)}, nil, nil, false, a + " > " + b},
		{"redirects in a circle", []record.Fetch{redirect(a, b), redirect(b, a)}, nil, nil, false, a + " > " + b + " in a circle"},
		{"a refresh out", []record.Fetch{page(a)}, []record.Link{link(a, "refresh", out)}, nil, false, a + " > " + out},
		{"a refresh out, and a page", []record.Fetch{page(a), page(b)}, []record.Link{link(a, "refresh", out)}, []record.Link{link(a, "a", b)}, true, a + " > " + out},
		{"a refresh, then one out", []record.Fetch{page(a), page(b)}, []record.Link{link(b, "refresh", out)}, []record.Link{link(a, "refresh", b)}, false, a + " > " + b + " > " + out},
		{"pages that refresh each other", []record.Fetch{page(a), page(b)}, nil, []record.Link{link(a, "refresh", b), link(b, "refresh", a)}, true, a + " > " + b + " in a circle"},
		{"a circle with a redirect", []record.Fetch{page(a), redirect(b, a)}, nil, []record.Link{link(a, "refresh", b)}, false, a + " > " + b + " in a circle"},
		{"a frame", []record.Fetch{page(a)}, []record.Link{link(a, "frame", out)}, nil, false, a + " > " + out},
		{"a frame, and the same as a link", []record.Fetch{page(a)}, []record.Link{link(a, "frame", out), link(a, "a", out), link(a, "a", out)}, nil, false, a + " > " + out},
		{"a frame, and a page with text", []record.Fetch{page(a)}, []record.Link{link(a, "frame", out), link(a, "a", "http://more.test/")}, nil, true, a},
		{"frames of the site", []record.Fetch{page(a), page(b)}, []record.Link{link(a, "frame", out)}, []record.Link{link(a, "frame", b)}, true, a},
		{"an iframe alone", []record.Fetch{page(a)}, []record.Link{link(a, "iframe", out)}, []record.Link{link(a, "img", c)}, false, a + " > " + out},
		{"text and an iframe", []record.Fetch{with(page(a), func(r *record.Fetch) { r.Charset = "a film" })}, []record.Link{link(a, "iframe", out)}, nil, true, a},
		{"text and a frame", []record.Fetch{with(page(a), func(r *record.Fetch) { r.Charset = "no frames" })}, []record.Link{link(a, "frame", out)}, nil, false, a + " > " + out},
		{"a frame, and a picture of the site", []record.Fetch{page(a), with(page(c), func(r *record.Fetch) { r.MIME, r.Requisite = "image/png", 1|linkkind.Page })}, []record.Link{link(a, "iframe", out)}, []record.Link{link(a, "img", c)}, false, a + " > " + out},
		{"a large page with an iframe", []record.Fetch{with(page(a), func(r *record.Fetch) { r.BodyLength = frameMax + 1 })}, []record.Link{link(a, "iframe", out)}, nil, true, a},
		{"a canonical URL elsewhere", []record.Fetch{page(a)}, []record.Link{link(a, "link-canonical", out)}, nil, true, a},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := &visits{of: map[string]*visit{}}
			for i := range test.rows {
				v.addRow(&test.rows[i], false)
			}
			for i := range test.refused {
				v.addLink(&test.refused[i], false)
			}
			for i := range test.followed {
				v.addLink(&test.followed[i], true)
			}
			v.followFrames(func(r *record.Fetch) string { return r.Charset }) // the text, here
			use := false
			for _, is := range v.order {
				use = use || v.ofUse(is)
			}
			way := ""
			if len(v.order) > 0 {
				path, circle := v.follow(v.order[0])
				for i, is := range path {
					if way += is.url; i < len(path)-1 {
						way += " > "
					}
				}
				if last := path[len(path)-1]; circle {
					way += " in a circle"
				} else if last.to != "" {
					way += " > " + last.to
				}
			}
			if use != test.use || way != test.way {
				t.Errorf("of use %v, %q; want %v, %q", use, way, test.use, test.way)
			}
		})
	}
}

// TestVisitsAreBounded: of a crawl in which everything failed a part is looked at, and documents are found all the same.
func TestVisitsAreBounded(t *testing.T) {
	v := &visits{of: map[string]*visit{}}
	for i := range 3 * visitedMax {
		v.addRow(&record.Fetch{URL: fmt.Sprint("http://a.test/", i), Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 404}, false)
	}
	for i := range 3 * documentsMax {
		v.addRow(&record.Fetch{URL: fmt.Sprint("http://a.test/d", i), Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, BodyLength: 1}, false)
	}
	if len(v.of) != visitedMax+documentsMax || len(v.order) != len(v.of) || v.documents != 3*documentsMax {
		t.Errorf("%d, %d visits, %d documents", len(v.of), len(v.order), v.documents)
	}
}

// TestHappened: what is told of a URL that gave no page, and what to do next. A second run is not told the same.
func TestHappened(t *testing.T) {
	const a, front = "http://a.test/x", "http://a.test/"
	status := func(url string, n uint16, why string) record.Fetch {
		return record.Fetch{URL: url, Host: "a.test", Role: record.RolePage, Outcome: record.OutcomeFetched, Status: n, Error: why}
	}
	again := func(by, what string) string { return "again " + by + " " + what }
	for _, test := range []struct {
		name, login    string
		rows           []record.Fetch
		happened, hint string
	}{
		{"no Location", "", []record.Fetch{status(a, 302, "")}, "status 302 without a place to go to (Location)", `ask once more: again --status 302`},
		{"a Location that is none", "", []record.Fetch{status(a, 301, "head too odd; redirect: no host")}, "status 301, and nobody can go where it leads (Location): no host", `ask once more: again --status 301`},
		{"choices", "", []record.Fetch{status(a, 300, "")}, "status 300: the server has several pages to choose from, and names none (Location)", `ask once more: again --status 300`},
		{"not modified", "", []record.Fetch{status(a, 304, "")}, "status 304: not modified, though nobody asked for a change", `ask once more: again --status 304`},
		{"a proxy", "", []record.Fetch{status(a, 305, "")}, "status 305: a proxy is to be used", `ask once more: again --status 305`},
		{"forbidden", "", []record.Fetch{status(a, 403, "")}, "status 403", `ask once more: again --status 403`},
		{"forbidden twice", "", []record.Fetch{status(a, 403, ""), status(a, 403, "")}, "status 403", `it was asked for 2 times: have another URL fetched: mcrawl add c URL && mcrawl run c`},
		{"unavailable twice", "", []record.Fetch{status(a, 503, ""), status(a, 503, "")}, "status 503", `ask once more: again --status 503`},
		{"a name is asked for", "", []record.Fetch{status(a, 401, "")}, "status 401", `put a name and a password, as a line "http://a.test USER:PASSWORD", into c/login.txt, which nobody else may read (mfetch-fetch(1), Logins); then ask once more: mcrawl set c fetch.login=login.txt && again --status 401`},
		{"the name is not taken", "login.txt", []record.Fetch{status(a, 401, ""), status(a, 401, "")}, "status 401", `the server takes no name and password of login.txt: when that is mended, ask once more: again --status 401`},
		{"an authority of one's own", "", []record.Fetch{{URL: "https://a.test/", Role: record.RolePage, Outcome: record.OutcomeRobotsUnreachable, Error: "tls-failed: certificate of an unknown authority: x"}}, "robots-unreachable: tls-failed: certificate of an unknown authority: x",
			`put the certificate that you trust into c/ca.pem, then ask once more: mcrawl set c fetch.tls_ca=ca.pem && again --outcome robots-unreachable`},
		{"not found", "", []record.Fetch{status(a, 404, "")}, "status 404", `begin at the site's first page: mcrawl add c http://a.test/ && mcrawl run c`},
		{"not found, nor the first page", "", []record.Fetch{status(a, 404, ""), status(front, 404, "")}, "status 404", `the site's first page was asked for, too: have another URL fetched: mcrawl add c URL && mcrawl run c`},
		{"no first page", "", []record.Fetch{status(front, 404, "")}, "status 404", `ask once more: again --status 404`},
		{"no first page, twice", "", []record.Fetch{status(front, 404, ""), status(front, 404, "")}, "status 404", `it was asked for 2 times: have another URL fetched: mcrawl add c URL && mcrawl run c`},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := &visits{of: map[string]*visit{}}
			for i := range test.rows {
				v.addRow(&test.rows[i], false)
			}
			conf := &config.Config{}
			conf.File.Fetch.Login = test.login
			c := &Crawl{Crawl: crawl.Folder("c", crawl.Options{})}
			if got := v.order[0].happened(); got != test.happened {
				t.Errorf("%q, want %q", got, test.happened)
			}
			if got := c.sameAgain(v, conf, v.order[0], again); got != test.hint {
				t.Errorf("%s, want %s", got, test.hint)
			}
		})
	}
}

// TestNoteLogin: a site of few pages is not told to log in because one of its links wants that.
func TestNoteLogin(t *testing.T) {
	for _, test := range []struct {
		name, rows string // each a path, or a path and where it redirects to; 401/ is a path with that status
		want       string // the URL that is told
	}{
		{"an open site with an account", "/ /about /account>/login /login", ""},
		{"one page with an account", "/ /account>/login /login", ""},
		{"the first URL asks", "/>/login /login /forgot", "/"},
		{"the first URL is the page to log in", "/login /forgot", "/login"},
		{"only the first page is open", "/ /a>/login /b>/login /login", "/a"},
		{"half asks for a name", "/ 401/x", "401/x"},
		{"one of some pages asks for a name", "/ /a /b 401/x", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, told := &visits{of: map[string]*visit{}}, ""
			for row := range strings.FieldsSeq(test.rows) {
				path, to, moved := strings.Cut(row, ">")
				r := &record.Fetch{URL: "http://a.test" + path, Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, BodyLength: 1, MIME: "text/html"}
				if moved {
					r.Status, r.RedirectURL = 302, "http://a.test"+to
				}
				if strings.HasPrefix(path, "401") {
					r.Status = 401
				}
				v.addRow(r, false)
			}
			c := &Crawl{Crawl: crawl.Folder("c", crawl.Options{})}
			c.warn = func(_ string, args ...any) { told = strings.TrimPrefix(fmt.Sprint(args[0]), "http://a.test") }
			if is := c.noteLogin(v, new(config.Config)); told != test.want || is != (told != "") {
				t.Errorf("%v, of %q, want %q", is, told, test.want)
			}
		})
	}
}

// TestNoteElsewhere: a crawl that runs no scripts says so of a single page without links.
func TestNoteElsewhere(t *testing.T) {
	for _, rendered := range []bool{false, true} {
		t.Run(fmt.Sprintf("rendered %v", rendered), func(t *testing.T) {
			var notes []string
			conf := new(config.Config)
			if rendered {
				conf.File.Render.Pages = "all"
			}
			c := &Crawl{Crawl: crawl.Folder("c", crawl.Options{})}
			c.warn = func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
			c.noteElsewhere(&visits{order: []*visit{{url: "http://a.test/", document: true, html: true}}, documents: 1}, conf)
			if n := len(notes); (n == 0) != rendered {
				t.Errorf("notes %q", notes)
			}
		})
	}
}
