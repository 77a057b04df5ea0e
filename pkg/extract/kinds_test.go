package extract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mercator/pkg/base/must"
)

// Links that stand where one looks second.
func TestOtherPlaces(t *testing.T) {
	const xhtml, rss, atom = "application/xhtml+xml", "application/rss+xml", "application/atom+xml"
	for _, tt := range []struct {
		name, mime, in string
		want           []string
	}{
		{"style of SVG", "", "<svg><style>@import '/a.css'; b{c:url(d.png) url(#no)}</style></svg>", []string{"css-import http://h/a.css", "css http://h/d/d.png"}},
		{"style of SVG in CDATA", "", "<svg><style><![CDATA[a{b:url(c.png)}]]></style></svg>", []string{"css http://h/d/c.png"}},
		{"style of SVG in two parts", "", "<svg><style>a{b:url(<![CDATA[c.png]]>)}</style></svg>", []string{"css http://h/d/c.png"}},
		{"style of SVG that is open", "", "<svg><style>a{b:url(c.png)}", []string{"css http://h/d/c.png"}},
		{"style and script of SVG are no text", "", "<a href=x><svg><style>.no{}</style><script>no()</script><text>yes</text></svg>T</a>", []string{`a http://h/d/x "yesT"`}},
		{"references of SVG", "", "<svg><use href=u.svg#a /><use xlink:href=#no /><image xlink:href=i.png /><a href=p>t</a><script href=s.js></script></svg>",
			[]string{"svg http://h/d/u.svg", "svg http://h/d/i.png", `svg-a http://h/d/p "t"`, "svg http://h/d/s.js"}},
		{"presentation attributes of SVG", "", `<svg><path fill="url(a.svg#b)" stroke='url(#no)' filter="url('c.svg#d')"/></svg><p fill="url(no)">`, []string{"css http://h/d/a.svg", "css http://h/d/c.svg"}},
		{"anchors of SVG that are empty, or open", "", "<svg><a href=p /><text>no</text></svg>no <svg><a href=q>yes</svg>no", []string{"svg-a http://h/d/p", `svg-a http://h/d/q "yes"`}},
		{"SVG file", "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg"><style>a{b:url(c.png)}</style><style/><a href="p"/><image href="i.png"/></svg>`,
			[]string{"css http://h/d/c.png", "svg-a http://h/d/p", "svg http://h/d/i.png"}},
		{"XHTML: elements that close themselves", xhtml, `<script src="s.js"/><style/><title/><iframe src="f"/><a href="x"/><a href="y">t</a>`,
			[]string{"script http://h/d/s.js", "iframe http://h/d/f", "a http://h/d/x", `a http://h/d/y "t"`}},
		{"XHTML: references in style", xhtml, `<style>a{b:url(c?d&amp;e)}</style><style><![CDATA[a{b:url(f?g&h)}]]></style>`, []string{"css http://h/d/c?d&e", "css http://h/d/f?g&h"}},
		{"XHTML: no form within a form is dropped, nor a cell", xhtml, `<form action="f"><form action="g"/></form><td background="b"/>`, []string{"form http://h/d/f", "form http://h/d/g", "background http://h/d/b"}},
		{"self-closed script of HTML", "", "<script src=s.js /><a href=no></script><a href=x>", []string{"script http://h/d/s.js", "a http://h/d/x"}},

		{"byte order mark in text", "", "<a href=x>\uFEFFa\uFEFFb &#xFEFF;</a>", []string{`a http://h/d/x "ab"`}},
		{"byte order mark in a title", rss, "<rss><item><title>\uFEFFt</title><link>/x</link></item></rss>", []string{`feed http://h/x "t"`}},
		{"srcdoc", "", `<base href=/b/><iframe srcdoc="<base href=/no/><meta name=robots content=nofollow><a href=x>t</a>&lt;img src=i>"></iframe><a href=y>`,
			[]string{"a http://h/b/y", `a http://h/b/x "t"`, "img http://h/b/i"}},
		{"srcdoc in srcdoc", "", `<iframe srcdoc="<iframe srcdoc='<a href=x>'>">`, []string{"a http://h/d/x"}},
		{"srcdoc in a template", "", `<template><iframe srcdoc="<a href=x>"></iframe></template>`, nil},
		{"formaction", "", `<form action=f><button formaction=a></button><input formaction=b><button formaction=no formmethod=post></button></form><form method=post><button formaction=no></button><button formaction=c formmethod=get></button></form><button formaction=d>`,
			[]string{"form http://h/d/f", "form http://h/d/a", "form http://h/d/b", "form http://h/d/c", "form http://h/d/d"}},
		{"longdesc", "", `<img src=i longdesc=l><iframe src=f longdesc=m></iframe>`, []string{"img http://h/d/i", "longdesc http://h/d/l", "iframe http://h/d/f", "longdesc http://h/d/m"}},
		{"JSON-LD", "", `<script type="application/ld+json; charset=utf-8">{"@context":"https://schema.org","@id":"/no","name":"no","url":"/a","contentUrl":"b","sameAs":["http:\/\/x.example/c" , "/d"],"image":{"url":"e"},"author":{"@id":"no"},"about":["/no"]}</script>`,
			[]string{"json-ld http://h/a", "json-ld http://h/d/b", "json-ld http://x.example/c", "json-ld http://h/d", "json-ld http://h/d/e"}},
		{"other scripts", "", `<script type="text/template"><a href=no></script><script type="application/json">{"url":"/no"}</script><script>x = "/no/no.html"</script>`, nil},

		{"content and description of RSS", rss, `<rss><channel><description>no &amp; no</description><item><link>/l</link><description>&lt;a href="a"&gt;t&lt;/a&gt;</description><content:encoded><![CDATA[<p><img src="/i"><a href=b rel=nofollow>u</a>]]></content:encoded></item></channel></rss>`,
			[]string{"feed http://h/l", `a http://h/d/a "t"`, "img http://h/i", `a http://h/d/b nofollow "u"`}},
		{"description of RSS that is not escaped", rss, `<rss><channel><item><description><a href="a">t</a><img src="i"/></description></item></channel></rss>`, []string{"a http://h/d/a", "img http://h/d/i"}},
		{"content of Atom", atom, `<feed xml:base="/b/"><entry><content type="html">&lt;a href="a"&gt;</content><summary type="xhtml"><div><a href="s">t</a><img src="i"/></div></summary><content>&lt;a href=no&gt;</content></entry></feed>`,
			[]string{"a http://h/b/a", "a http://h/b/s", "img http://h/b/i"}},
		{"image of a podcast", rss, `<rss><channel><itunes:image href="p.jpg"/><image><url>q.png</url></image></channel></rss>`, []string{"img http://h/d/p.jpg", "img http://h/d/q.png"}},
		{"OPML", "text/x-opml", `<opml version="2.0"><body><outline text="t" xmlUrl="/feed" htmlUrl="/page"><outline type="link" url="u"/></outline></body></opml>`,
			[]string{"opml http://h/feed", "opml http://h/page", "opml http://h/d/u"}},
		{"sitemap without loc", "text/xml", `<sitemapindex><sitemap> http://h/one.xml </sitemap><sitemap><loc>/two.xml</loc>no</sitemap><sitemap>no</sitemap></sitemapindex>`, []string{"sitemap http://h/one.xml", "sitemap http://h/two.xml"}},
		{"url without loc", "text/xml", `<urlset><url>http://h/one</url><url><loc>/two</loc></url></urlset>`, []string{"sitemap-url http://h/one", "sitemap-url http://h/two"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.mime == "" {
				tt.mime = "text/html"
			}
			doc := &Document{URL: "http://h/d/", MIME: tt.mime, Charset: "utf-8", Body: []byte(tt.in)}
			for _, engine := range []string{EngineFast, EngineXNet} {
				if diff := cmp.Diff(tt.want, found(t, doc, Options{HTMLEngine: engine})); diff != "" {
					t.Errorf("%s: -want +got\n%s", engine, diff)
				}
			}
		})
	}
}

// What scripts have is found if it is asked for.
func TestScriptGuesses(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string // of the script of a page; those in brackets are none in a file of its own
	}{
		{"absolute", `go("https://x.example/a?b=c"); go('//y.example/d'); go("http:\/\/z.example\/e")`, []string{"https://x.example/a?b=c", "http://y.example/d", "http://z.example/e"}},
		{"paths", `load("/a/b"); load('c.html?d=1'); load("../e/f.js"); load("/gg/")`, []string{"/a/b", "[c.html?d=1]", "../e/f.js", "/gg/"}},
		{"no paths", `x("text/html"); x("/"); x("a.b"); x("and/or"); x("/[a-z]/g"); x("%s.html"); x("hello world.html"); x("$.ajax"); x("</div>"); x("http://"); x("https://{host}/"); x("http://www.w3.org/2000/svg"); x("<a href='${x}'>")`, nil},
		{"parts", `x("/a/" + id + "/b.html"); y(base + "c.html"); z(` + "`/d/${id}.html`" + `); w("e.html")`, []string{"[e.html]"}},
		{"comments and regular expressions", "// 'no/a.html'\n/* 'no/b.html' */ x = /['\"]\\//.test(y); z('c.html'); a = b / 2; d('e.html')", []string{"[c.html]", "[e.html]"}},
		{"document.write", `document.write("<a href='/a'>t</a><img src=\"b.png\">"); document.write('<scr'+'ipt src="c.js"></scr'+'ipt>')`, []string{"/a", "b.png"}},
		{"escapes", `x("\x2fa\u002fb.html"); x('d\
.html')`, []string{"/a/b.html", "[d.html]"}},
		{"string that a line end cuts", "x('no.html\ny('a.html')", []string{"[a.html]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := (&Document{URL: "http://h/d/"}).URL
			page := &Document{URL: base, MIME: "text/html", Charset: "utf-8", Body: []byte("<script>" + strings.ReplaceAll(tt.in, "</", "<\\/") + "</script>")}
			file := &Document{URL: base, MIME: "application/javascript", Charset: "utf-8", Body: []byte(tt.in)}
			for _, doc := range []*Document{page, file} {
				var want, got []string
				for _, ref := range tt.want {
					bare := strings.Trim(ref, "[]")
					if bare == ref || doc == page {
						want = append(want, "script-guess "+resolvedRef(t, base, bare))
					}
				}
				for _, l := range found(t, doc, Options{Sources: DefaultSources | FromScripts}) {
					kind, _, _ := strings.Cut(l, ` "`)
					got = append(got, kind)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: -want +got\n%s", doc.MIME, diff)
				}
				if got := found(t, doc, Options{}); got != nil {
					t.Errorf("%s: %q by default", doc.MIME, got)
				}
			}
		})
	}
}

func resolvedRef(t *testing.T, base, ref string) string {
	t.Helper()
	b, err := Options{}.Canon.Base(base)
	must.OK(t, err)
	u, _, err := b.Resolve(ref)
	must.OK(t, err)
	return u
}

// Documents within documents are bounded, however deep they nest.
func TestInnerDocumentsAreBounded(t *testing.T) {
	body := "<a href=x>"
	for range 10 {
		body = `<iframe srcdoc="` + strings.NewReplacer("&", "&amp;", `"`, "&quot;").Replace(body) + `">`
	}
	if got := found(t, &Document{URL: "http://h/", MIME: "text/html", Charset: "utf-8", Body: []byte(body)}, Options{}); len(got) != 0 {
		t.Errorf("%q, want nothing of a document ten deep", got)
	}
	var b strings.Builder
	for range 1000 {
		b.WriteString(`<iframe srcdoc="<a href=x>"></iframe>`)
	}
	page := Find(&Document{URL: "http://h/", MIME: "text/html", Charset: "utf-8", Body: []byte(b.String())}, Options{})
	if len(page.Links) != 1 || page.Refused[ReasonRepeated] != 999 {
		t.Errorf("%d links, %v, want one, 999 times", len(page.Links), page.Refused)
	}
}

// FuzzScripts: no script makes the search fail, and it has no more guesses than strings.
func FuzzScripts(f *testing.F) {
	for _, s := range []string{`x("/a/b")`, `"?a=b"`, `x = '<a href="c">'`, "`/${d}`", "/['\"]/ 'e.html'", `{"url":["f","g"]}`, `"\u00`, `"\x4`, `"//"`, `"h://"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, doc := range []*Document{
			{URL: "http://h/", MIME: "text/javascript", Charset: "utf-8", Body: []byte(s)},
			{URL: "http://h/", MIME: "text/html", Charset: "utf-8", Body: []byte("<script type=application/ld+json>" + s)},
		} {
			if page := Find(doc, Options{Sources: AllSources}); len(page.Links) > len(s) {
				t.Fatalf("%d links in %q", len(page.Links), s)
			}
		}
	})
}
