package extract

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/web/linkkind"
)

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	must.OK(t, err)
	must.OK(t, z.Close())
	return b.String()
}

func inUTF16(t *testing.T, text string, order unicode.Endianness, bom unicode.BOMPolicy) string {
	t.Helper()
	s, err := unicode.UTF16(order, bom).NewEncoder().String(text)
	must.OK(t, err)
	return s
}

// kindsAndRefs are the links that a page resolves to, with their kinds.
func kindsAndRefs(t *testing.T, p Page) (found []string) {
	t.Helper()
	for _, l := range p.Links {
		u, _, err := p.Base.Resolve(l.Ref)
		if err != nil {
			t.Errorf("%s: %v", l.Ref, err)
		}
		found = append(found, l.Kind+" "+u)
	}
	return found
}

// What robots.txt names as a sitemap is read as one, whatever its URL and its header say.
func TestNamedSitemaps(t *testing.T) {
	const (
		set   = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://h.test/p</loc></url></urlset>`
		decl  = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
		page  = "sitemap-url http://h.test/p"
		lines = "http://h.test/p\nhttp://h.test/q?a=1&b=2\n"
	)
	both := []string{page, "sitemap-url http://h.test/q?a=1&b=2"}
	one := []string{page}
	loc := func(s string) string { return `<urlset><url><loc>` + s + `</loc></url></urlset>` }
	forms := []struct {
		name, body string
		want       []string
	}{
		{"xml", decl + set, one},
		{"text", lines, both},
		{"text, returns", strings.ReplaceAll(lines, "\n", "\r"), both},
		{"text, mark", "\xef\xbb\xbf" + lines, both},
		{"text, without an end", "http://h.test/p", one},
		{"text, a table", "http://h.test/p\t0.8\tdaily\n", one},
		{"text, with breaks", "http://h.test/p<br>\n", one},
		{"text, behind a warning", "Warning: x() in /a/b.php on line 3\n" + lines, both},
		{"text, a comment", "# pages\n\n" + lines, both},
		{"text, hosts and paths", "www.h.test/p\n//h.test/q\n/r\nh.test/s\nno URL\na.b\n", []string{"sitemap-url http://www.h.test/p", "sitemap-url http://h.test/q", "sitemap-url http://h.test/r", "sitemap-url http://h.test/s"}},
		{"text, a long line", strings.Repeat("x", 1<<17) + "http://h.test/no\nhttp://h.test/p", one},
		{"zipped", zipped(t, decl+set), one},
		{"zipped twice", zipped(t, zipped(t, decl+set)), one},
		{"zipped text", zipped(t, lines), both},
		{"zipped, cut at its end", zipped(t, lines)[:40], both},
		{"zipped, and cut in a line", zipped(t, "http://h.test/p\nhttp://h.test/qrst")[:38], one},
		{"blank lines first", "\n\n  " + decl + set, one},
		{"mark and blank lines", "\xef\xbb\xbf\n" + decl + set, one},
		{"warnings first", "<br />\n<b>Warning</b>:  include(x) in <b>/a.php</b> on line <b>3</b><br />\n" + decl + set, one},
		{"no declaration", set, one},
		{"comment first", decl + "<!-- by a program > -->" + set, one},
		{"style sheet", decl + `<?xml-stylesheet type="text/xsl" href="/s.xsl"?>` + set, one},
		{"other namespace", strings.ReplaceAll(set, "www.sitemaps.org/schemas/sitemap/0.9", "www.google.com/schemas/sitemap/0.84"), one},
		{"prefixed", `<s:urlset xmlns:s="x"><s:url><s:loc>http://h.test/p</s:loc></s:url></s:urlset>`, one},
		{"prefixes that differ", `<urlset><s:url><s:loc>http://h.test/p</s:loc></s:url></urlset>`, one},
		{"no root", `<url><loc>http://h.test/p</loc></url><url><loc>http://h.test/q</loc></url>`, []string{page, "sitemap-url http://h.test/q"}},
		{"another root", decl + `<pages><url><loc>http://h.test/p</loc></url></pages>`, one},
		{"capitals", `<URLSET><URL><LOC>http://h.test/p</LOC></URL></URLSET>`, one},
		{"images", `<urlset><url><image:image><image:loc>/i.png</image:loc></image:image><loc>http://h.test/p</loc></url></urlset>`, []string{"img http://h.test/i.png", page}},
		{"sitemaps in a set", `<urlset><sitemap><loc>/s.xml</loc></sitemap><url><loc>/p</loc></url></urlset>`, []string{"sitemap http://h.test/s.xml", page}},
		{"pages in an index", `<sitemapindex><sitemap><loc>/s.xml</loc></sitemap><url><loc>/p</loc></url></sitemapindex>`, []string{"sitemap http://h.test/s.xml", page}},
		{"UTF-16 LE", inUTF16(t, decl+set, unicode.LittleEndian, unicode.UseBOM), one},
		{"UTF-16 BE", inUTF16(t, decl+set, unicode.BigEndian, unicode.UseBOM), one},
		{"UTF-16 without a mark", inUTF16(t, set, unicode.LittleEndian, unicode.IgnoreBOM), one},
		{"UTF-16 text", inUTF16(t, lines, unicode.BigEndian, unicode.IgnoreBOM), both},
		{"CDATA", loc(`<![CDATA[http://h.test/p?a=1&b=2]]>`), []string{"sitemap-url http://h.test/p?a=1&b=2"}},
		{"white space", loc("\n\t http://h.test/p \n"), one},
		{"a comment in it", loc("http://h.test/<!-- x -->p"), one},
		{"an ampersand", loc("http://h.test/p?a=1&amp;b=2"), []string{"sitemap-url http://h.test/p?a=1&b=2"}},
		{"an ampersand, bare", loc("http://h.test/p?a=1&copy=2"), []string{"sitemap-url http://h.test/p?a=1&copy=2"}},
		{"an ampersand, by number", loc("http://h.test/p?a=1&#38;b=2&#x26;c=3"), []string{"sitemap-url http://h.test/p?a=1&b=2&c=3"}},
		{"twice escaped", loc("http://h.test/p?a=1&amp;amp;b=2"), []string{"sitemap-url http://h.test/p?a=1&amp;b=2"}},
		{"relative", loc("/p"), one},
		{"a host", loc("h.test/p"), one},
		{"a host of the domain", loc("www.h.test:8080/p"), []string{"sitemap-url http://www.h.test:8080/p"}},
		{"an own entity", `<!DOCTYPE urlset [<!ENTITY e "http://h.test/x"> <!ENTITY f SYSTEM "file:///etc/passwd">]>` + `<urlset><url><loc>&e;/y</loc></url><url><loc>http://h.test/&f;</loc></url><url><loc>/p</loc></url></urlset>`, one},
		{"entities without end", `<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]><urlset><url><loc>http://h.test/&c;</loc></url><url><loc>/p</loc></url></urlset>`, one},
		{"RSS", `<rss version="2.0"><channel><item><link>http://h.test/p</link></item></channel></rss>`, []string{"feed http://h.test/p"}},
		{"Atom", `<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="/p"/></entry></feed>`, []string{"feed http://h.test/p"}},
		{"a page", "<!doctype html><a href=/p>x</a>", []string{"a http://h.test/p"}},
		{"a picture", "\x89PNG\r\n\x1a\n\x00\x00http://h.test/no\n", nil},
		{"nothing", " \n", nil},
	}
	types := []string{"text/plain", "text/html", "text/xml", "application/json", "application/gzip", "text/css", "application/xhtml+xml", "application/octet-stream", "", "x"}
	for _, c := range forms {
		for _, mime := range types {
			t.Run(c.name+" as "+mime, func(t *testing.T) {
				if c.name == "a page" && mime != "text/html" {
					t.Skip("a page has the type of one")
				}
				got := kindsAndRefs(t, Find(&Document{URL: "http://h.test/m/list.php?x", MIME: mime, Body: []byte(c.body), Sitemap: true}, Options{}))
				if !slices.Equal(got, c.want) {
					t.Errorf("got %q\nwant %q", got, c.want)
				}
			})
		}
	}
	// The charset of a header is often the charset of the server's pages.
	for _, charset := range []string{"utf-8", "iso-8859-1", "utf-16", "none"} {
		p := Find(&Document{URL: "http://h.test/m", MIME: "text/xml", Charset: charset, Body: []byte(decl + set), Sitemap: true}, Options{})
		if got := kindsAndRefs(t, p); !slices.Equal(got, one) {
			t.Errorf("charset %s: %q", charset, got)
		}
	}
}

// Nobody named it: a text without the word in its name is a text.
func TestTextThatNobodyNames(t *testing.T) {
	doc := Document{URL: "http://h.test/list.txt", MIME: "text/plain", Body: []byte("http://h.test/p\n")}
	if p := Find(&doc, Options{}); len(p.Links) != 0 {
		t.Errorf("%v", p.Links)
	}
}

// An entity of the document's own is refused by name, and not part of a URL.
func TestEntitiesAreRefused(t *testing.T) {
	p := Find(&Document{URL: "http://h.test/s.xml", MIME: "text/xml", Body: []byte(`<!DOCTYPE u [<!ENTITY e "x">]><urlset><url><loc>http://h.test/&e;</loc></url></urlset>`)}, Options{})
	if len(p.Links) != 0 || p.Refused[ReasonEntity] != 1 {
		t.Errorf("%v, %v", p.Links, p.Refused)
	}
}

// A sitemap that unpacks without end is read as far as it may be.
func TestSitemapUnpacked(t *testing.T) {
	body := zipped(t, "http://h.test/p\n"+strings.Repeat(" ", 1<<20)+"\nhttp://h.test/q\n")
	for limit, want := range map[int]int{1 << 10: 1, 2 << 20: 2} {
		p := Find(&Document{URL: "http://h.test/s", Body: []byte(body), Sitemap: true}, Options{MaxUnzipped: limit})
		if len(p.Links) != want {
			t.Errorf("%d bytes: %v", limit, p.Links)
		}
	}
}

func TestRobotsSitemaps(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain", "Sitemap: http://h.test/s.xml", "http://h.test/s.xml"},
		{"capitals", "SITEMAP:http://h.test/s.xml", "http://h.test/s.xml"},
		{"space before the colon", " sitemap : http://h.test/s.xml ", "http://h.test/s.xml"},
		{"no colon", "Sitemap http://h.test/s.xml", "http://h.test/s.xml"},
		{"hyphen", "Site-map: http://h.test/s.xml", "http://h.test/s.xml"},
		{"mark and returns", "\xef\xbb\xbfSitemap: http://h.test/s.xml\rSitemap: http://h.test/t.xml\r\n", "http://h.test/s.xml http://h.test/t.xml"},
		{"path", "Sitemap: /s.xml", "http://h.test/s.xml"},
		{"file", "Sitemap: s.xml", "http://h.test/s.xml"},
		{"file of a folder", "Sitemap: maps/s.xml", "http://h.test/maps/s.xml"},
		{"file like a registry's name", "Sitemap: map.zip", "http://h.test/map.zip"},
		{"host", "Sitemap: www.h.test/x.xml", "http://www.h.test/x.xml"},
		{"the host", "Sitemap: h.test/x.xml", "http://h.test/x.xml"},
		{"host and port", "Sitemap: h.test:8080/x.xml", "http://h.test:8080/x.xml"},
		{"another host", "Sitemap: maps.example.org/x.xml", "http://maps.example.org/x.xml"},
		{"another www", "Sitemap: www.other.test/x.xml", "http://www.other.test/x.xml"},
		{"no scheme", "Sitemap: //m.test/x.xml", "http://m.test/x.xml"},
		{"several", "Sitemap: http://h.test/a http://h.test/b,\thttp://h.test/c", "http://h.test/a http://h.test/b http://h.test/c"},
		{"several, commas", "Sitemap: http://h.test/a,http://h.test/b,c", "http://h.test/a http://h.test/b,c"},
		{"a space in it", "Sitemap: http://h.test/my map.xml", "http://h.test/my%20map.xml"},
		{"comment", "Sitemap: http://h.test/s.xml # ours", "http://h.test/s.xml"},
		{"brackets", "Sitemap: <http://h.test/s.xml>", "http://h.test/s.xml"},
		{"commented out", "# Sitemap: http://h.test/s.xml\nSitemaps are nice: x\nSitemap:\n", ""},
		{"in a group", "User-agent: other\nDisallow: /\nSitemap: http://h.test/s.xml", "http://h.test/s.xml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Robots(&Document{URL: "http://h.test/robots.txt", Body: []byte(c.text)}, Options{})
			var got []string
			for _, l := range p.Links {
				u, _, err := p.Base.Resolve(l.Ref)
				must.OK(t, err)
				got = append(got, u)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
		})
	}
}

// A robots.txt may have a crawl ask a bounded number of sitemaps of others.
func TestForeignSitemapsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range foreignMax + 50 {
		fmt.Fprintf(&b, "Sitemap: http://victim%d.test/s\nSitemap: http://h.test/%d\n", i, i)
	}
	p := Robots(&Document{URL: "http://h.test/robots.txt", Body: []byte(b.String())}, Options{})
	if len(p.Links) != 2*foreignMax+50 || p.Refused[ReasonTooMany] != 50 {
		t.Errorf("%d links, %v", len(p.Links), p.Refused)
	}
}

func TestSitemapLevels(t *testing.T) {
	robots := func(n uint8) *record.Fetch { return &record.Fetch{Role: record.RoleRobots, Sitemap: n} }
	page := func(n uint8) *record.Fetch { return &record.Fetch{Role: record.RolePage, Sitemap: n} }
	for _, c := range []struct {
		name string
		row  *record.Fetch
		kind string
		want uint8
	}{
		{"robots.txt of a host of the crawl", robots(0), linkkind.Sitemap, 1},
		{"robots.txt of a host that has a sitemap alone", robots(1), linkkind.Sitemap, 2},
		{"robots.txt of a host of the crawl, for a part", &record.Fetch{Role: record.RoleRobots, Requisite: 1 | linkkind.Page}, linkkind.Sitemap, 1},
		{"robots.txt of a host that has parts of pages alone", &record.Fetch{Role: record.RoleRobots, Requisite: 1}, linkkind.Sitemap, 2},
		{"index that robots.txt names", page(1), linkkind.Sitemap, 2},
		{"index that an index names", page(2), linkkind.Sitemap, 3},
		{"index that nobody names", page(0), linkkind.Sitemap, 2},
		{"redirect of a sitemap", page(1), linkkind.Redirect, 1},
		{"redirect of a page", page(0), linkkind.Redirect, 0},
		{"page that a sitemap names", page(1), linkkind.SitemapURL, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sitemapLevel(c.row, c.kind); got != c.want {
				t.Errorf("%s: level %d, want %d", c.name, got, c.want)
			}
		})
	}
}
