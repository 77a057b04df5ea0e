package filter

import (
	"io/fs"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

func shipped(t *testing.T) *Filter {
	t.Helper()
	f, err := Load("default", Options{})
	must.OK(t, err)
	return f
}

func TestShippedRulesDenyTraps(t *testing.T) {
	f := shipped(t)
	for u, want := range map[string]string{
		"http://h/a/b/a/b/a/b/a/b/":                                               "repeated-segments",
		"http://h/" + strings.Repeat("x/y/", 3) + "x":                             "repeated-segments",
		"http://h/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21":          "deep-path",
		"http://h/search?q=" + strings.Repeat("abcdefgh", 130):                    "long-url",
		"http://h/index.php?PHPSESSID=0123456789abcdef0123456789abcdef":           "session-id",
		"http://h/shop/view.jsp;jsessionid=1A530637289A03B07199A44E8D531427?id=7": "session-id",
		"http://h/view.jsp;jsessionid=0000A1b2C3d4E5f6G7h8I9j0:-1":                "session-id",
		"http://h/a.asp?ASPSESSIONIDQQBCRSSB=GHIJKLMNOPQRSTUVWXYZABCD":            "session-id",
		"http://h/shop/5?sid=0a1b2c3d4e5f6071":                                    "session-id",
		"http://h/a?x=1&osCsid=8a7f0ee2b3c5d4e6f7a8b9c0d1e2f3a4":                  "session-id",
		"http://h/a.cfm?CFID=1234567&CFTOKEN=87654321":                            "session-cfid",
		"http://h/(S(lit3py55t21z5v55vlm25s55))/orders.aspx":                      "session-path",
		"http://h/cal/2031/07":                                                    "calendar-path",
		"http://h/calendar/2031/07/04/":                                           "calendar-path",
		"http://h/events/month/2031-07/":                                          "calendar-path",
		"http://h/events/2031-07-04?x=1":                                          "calendar-path",
		"http://h/en/kalender/2031/7":                                             "calendar-path",
		"http://h/calendar.php?month=7&year=2031":                                 "calendar-query",
		"http://h/calendar.php?year=2031&view=x&month=12":                         "calendar-query",
		"http://h/index.php?option=com_jcal&cal_month=7&cal_year=2031":            "calendar-query",
		"http://h/events/?tribe-bar-date=2031-07-04":                              "calendar-date",
		"http://h/calendar?view=week&date=2031-07-04":                             "calendar-date",
		"http://h/Event-calendar.php?day=2031-07-04":                              "calendar-date",
		"http://h/local/?cal_date=2031-07":                                        "calendar-date",
		"http://h/a/b/c/a/b/c/":                                                   "repeated-segments",
		"http://h/about/news/about/news":                                          "repeated-segments",
		"http://h/x?a=1?a=1":                                                      "doubled-query",
		"http://h/x?a=1&a=1&a=1":                                                  "doubled-query",
		"http://h/x?a=1&b=2&a=1&b=2":                                              "doubled-query",
		"http://h/x?p=1?p=2?p=3":                                                  "doubled-query",
		"http://h/forum/?session=0123456789abcdef0123456789abcdef&t=1":            "session-id",
		"http://h/forum/index.php?s=0123456789abcdef0123456789abcdef":             "session-s",
		"http://h/0123456789abcdef0123456789ABCDEF/index.html":                    "session-folder",
		"http://h/app/sid/0123456789abcdef0123456789abcdef/x":                     "session-folder",
		"http://h/calendar/2031/week/5":                                           "calendar-path",
		"http://h/calendar/2031/may":                                              "calendar-path",
		"http://h/calendar/20310501":                                              "calendar-path",
		"http://h/calendar-2031-05.html":                                          "calendar-path",
		"http://h/events/2031/05/12/":                                             "calendar-path",
		"http://h/plan/2031-W05":                                                  "calendar-week",
		"http://h/plan?week=2031W05":                                              "calendar-week",
		"http://h/x?month=2031-05":                                                "calendar-month",
		"http://h/x?month=05%2F2031&view=list":                                    "calendar-month",
		"http://h/x?ym=203105":                                                    "calendar-month",
		"http://h/x?y=2031&m=5":                                                   "calendar-query",
		"http://h/x?year=2031&week=5":                                             "calendar-query",
		"http://h/x?dt=20310501":                                                  "calendar-date",
		"http://h/calendar?start=2031-05-12":                                      "calendar-date",
		"http://h/2024/05/post/?replytocom=77":                                    "reply-form",
		"http://h/w/index.php?title=X&action=edit":                                "edit-form",
		"http://h/w/index.php?title=X&veaction=edit&section=2":                    "edit-form",
		"http://h/wp-login.php?action=logout&_wpnonce=1a":                         "edit-form",
		"http://h/logout":                                                         "log-out",
		"http://h/Account/LogOff":                                                 "log-out",
		"http://h/users/sign_out?x":                                               "log-out",
		"http://h/logout.php":                                                     "log-out",
		"http://h/cart/add/17":                                                    "cart",
		"http://h/checkout/cart/add/uenc/a/":                                      "cart",
		"http://h/shop/?add-to-cart=17":                                           "cart",
		"http://h/debian/pool/?C=M;O=A":                                           "folder-order",
		"http://h/pub/?C=N&O=D":                                                   "folder-order",
	} {
		t.Run(u, func(t *testing.T) {
			if v := decide(t, f, candidate(t, u)); v.Allow || v.Rule.Name != want {
				t.Errorf("%s: %s, want filter:%s", u, v.Reason(), want)
			}
		})
	}
}

// Links without end, which nothing in their address tells.
func TestShippedRulesEndChains(t *testing.T) {
	f := shipped(t)
	c := candidate(t, "http://h/deep/101/")
	for depth, want := range map[uint16]string{100: "filter:default", 101: "filter:far-away"} {
		if c.Depth = depth; decide(t, f, c).Reason() != want {
			t.Errorf("depth %d: %s, want %s", depth, decide(t, f, c).Reason(), want)
		}
	}
}

// Addresses as ordinary sites have them are let through.
func TestShippedRulesAllowSites(t *testing.T) {
	f := shipped(t)
	for _, u := range []string{
		"http://h/", "https://www.example.co.uk/index.html?", "http://h:8080/a/b/c.cgi/path/info",
		"https://a.test/archive?year=2024&month=5&id=77", "https://a.test/news/event/2024-05-12", "https://a.test/2024/05/12", "https://a.test/report?y=2024",
		"https://a.test/static/app.0123456789abcdef0123456789abcdef.js", "https://a.test/static/0123456789abcdef0123456789abcdef/app.js", "https://a.test/0123456789abcdef0123456789abcdef/logo.png",
		"https://git.test/x/commit/?id=0123456789abcdef0123456789abcdef01234567", "https://git.test/x/commit/0123456789abcdef0123456789abcdef01234567", "https://a.test/0123456789abcdef0123456789abcdef01234567/x",
		"https://gallery.test/item/0123456789abcdef0123456789abcdef", "https://a.test/style.css?0123456789abcdef0123456789abcdef", "https://img.test/a.jpg?w=3&s=0123456789abcdef0123456789abcdef", "https://a.test/?s=160",
		"https://github.test/django/django/blob/main/django/conf/global_settings.py", "https://img.test/imgs/8/8/1/8/2/photo.jpg", "https://a.test/2012/12/12/", "https://maven.test/maven2/junit/junit/4.12/junit-4.12.jar",
		"https://a.test/x?url=http://b.test/y?a=1", "https://a.test/x?id[]=1&id[]=2", "https://a.test/x?tag=a&tag=b", "https://a.test/x?a&a", "https://a.test/p?id=3?utm_source=x",
		"https://docs.test/engine/reference/commandline/logout/", "https://a.test/blackout", "https://a.test/w/index.php?title=X&action=history", "https://a.test/do?what=edit", "https://shop.test/cart", "https://shop.test/cart/address", "https://a.test/address/add",
		"https://a.test/product/2031-w2-model", "https://a.test/form/w-2031", "https://a.test/x?m=5", "https://a.test/x?month=may", "https://a.test/x?dt=1", "https://a.test/schedule/2024", "https://a.test/events/2024/05/concert/tickets",
		"https://blog.test/2024/05/17/what-we-did/", "https://blog.test/2024/05/", "https://blog.test/archives/2019/12/31/", "https://news.test/2024/may/17/politics",
		"https://news.test/article/20240517/story-id-123456.html", "https://site.test/events/2024/05/17/summer-concert", "https://site.test/events/summer-concert-2024",
		"https://site.test/event/12345/", "https://site.test/calendar", "https://site.test/calendar/", "https://site.test/academic-calendar/2024-25", "https://site.test/calendar/2024",
		"https://site.test/agenda/2024", "https://site.test/local/2024/05", "https://site.test/calories/2024/05/12", "https://archive.test/details/1999/12/31",
		"https://shop.test/p/shoes?color=red&size=42&sort=price&page=3", "https://shop.test/item?id=8273&sid=12&ref=home", "https://shop.test/cart?session=1", "https://a.test/?s=query+words",
		"https://a.test/report?month=5", "https://a.test/stats?year=2024&monthly=1", "https://a.test/report?date=2024-05-17", "https://news.test/local/?date=2024-05-17", "https://a.test/medical/prevention?day=2024-05-17", "https://flights.test/?from=SFO&date=2024-05-17",
		"https://forum.test/viewtopic.php?f=12&t=34567&start=40", "https://forum.test/index.php?/topic/123-title/page/7/", "https://a.test/w/index.php?title=Session_ID&oldid=1234567890123456",
		"https://wiki.test/wiki/Session_(computer_science)", "https://en.wiki.test/wiki/Calendar_(disambiguation)", "https://a.test/S(24)/x",
		"https://code.test/group/project/-/blob/main/src/main/java/org/example/project/project/Main.java", "https://maps.test/tiles/0/0/0.png", "https://maps.test/tiles/3/3/3.png",
		"https://javadoc.test/api/java.base/java/util/concurrent/locks/AbstractQueuedSynchronizer.html", "https://git.test/tree/a/b/c/d/e/f/g/h/i/j/k/l/m.c",
		"https://cdn.test/img.jpg?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + strings.Repeat("A", 100) + "&X-Amz-Signature=" + strings.Repeat("0123456789abcdef", 20),
		"https://a.test/download?C=1&O=2", "https://a.test/q?C=N", "https://a.test/?jsessionid=", "https://a.test/doc?sid=ab12", "ftp://h/pub/1999/12/", "gopher://h/1/events/list",
	} {
		if v := decide(t, f, candidate(t, u)); !v.Allow {
			t.Errorf("%s: %s", u, v.Reason())
		}
	}
}

// Addresses of all documentation that is installed are let through, as a server would give them.
func TestShippedRulesAllowDocumentation(t *testing.T) {
	f := shipped(t)
	n := 0
	for _, root := range []string{"/usr/share/doc", filepath.Join(goroot(t), "src")} {
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") {
				return nil
			}
			u := (&url.URL{Scheme: "http", Host: "docs.test", Path: path}).String()
			if v := decide(t, f, candidate(t, u)); !v.Allow {
				t.Errorf("%s: %s", u, v.Reason())
			}
			n++
			return nil
		})
	}
	if n < 1000 {
		t.Errorf("%d files in Go's own source alone, want thousands", n)
	}
}

func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	must.OK(t, err)
	return strings.TrimSpace(string(out))
}

// Of a calendar the first page is fetched, so that it replays: what a page without a date links to. Its own links to further pages are refused.
func TestShippedRulesLeaveTheFirstMonth(t *testing.T) {
	f := shipped(t)
	for _, c := range []struct{ first, next string }{
		{"http://h/calendar/2031/05/", "http://h/calendar/2031/06/"},
		{"http://h/calendar/2031/may", "http://h/calendar/2031/jun"},
		{"http://h/calendar/2031/week/5", "http://h/calendar/2031/week/6"},
		{"http://h/calendar/20310531", "http://h/calendar/20310601"},
		{"http://h/plan/2031-W05", "http://h/plan/2031-W06"},
		{"http://h/x?month=2031-12", "http://h/x?month=2032-01"},
		{"http://h/x?month=05%2F2031", "http://h/x?month=06%2F2031"},
		{"http://h/x?year=2031&month=12", "http://h/x?year=2032&month=1"},
		{"http://h/x?y=2031&m=5", "http://h/x?y=2031&m=6"},
		{"http://h/x?dt=20310501", "http://h/x?dt=20310502"},
		{"http://h/calendar?date=2031-05-31", "http://h/calendar?date=2031-06-01"},
	} {
		t.Run(c.first, func(t *testing.T) {
			first, next := candidate(t, c.first), candidate(t, c.next)
			for _, from := range []string{"http://h/", "http://h/event/12345", "http://h/news/a-title?id=3"} {
				if first.Via = from; !decide(t, f, first).Allow {
					t.Errorf("linked from %s: %s", from, decide(t, f, first).Reason())
				}
			}
			if next.Via = first.URL; decide(t, f, next).Allow {
				t.Error("the next one is followed")
			}
		})
	}
}
