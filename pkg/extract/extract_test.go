package extract

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"mercator/pkg/base/costtest"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
)

// found lists a page's links as "kind url", with " nofollow" and ` "text"` where
// they have it.
func found(t testing.TB, doc *Document, opt Options) []string {
	t.Helper()
	page := Find(doc, opt)
	var out []string
	for _, l := range page.Links {
		u, _, err := page.Base.Resolve(l.Ref)
		if err != nil {
			u = "! " + err.Error()
		}
		s := l.Kind + " " + u
		if l.Nofollow {
			s += " nofollow"
		}
		if l.Text != "" {
			s += fmt.Sprintf(" %q", l.Text)
		}
		out = append(out, s)
	}
	return out
}

func TestHTML(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{"a", `<a href=x>  one <b>two</b>&amp;<script>no</script> <img alt=pic src=p></a><a>none</a>`, []string{`a http://h/d/x "one two& pic"`, `img http://h/d/p "pic"`}},
		{"alt", `<img src=p alt=" one  two "><img src=p><img src=p alt=three><area href=x alt=map><area href=x alt=map><input type=image src=i alt=go>`,
			[]string{`img http://h/d/p "one two"`, `img http://h/d/p "three"`, `area http://h/d/x "map"`, `img http://h/d/i "go"`}},
		{"a, empty is the page", `<a href="">`, []string{"a http://h/d/"}},
		{"a, fragment", `<a href="#top">t</a>`, []string{`a http://h/d/ "t"`}},
		{"a in a", `<a href=1>x<a href=2>y</a>z</a>`, []string{`a http://h/d/1 "x"`, `a http://h/d/2 "y"`}},
		{"a never closed", `<a href=1>x`, []string{`a http://h/d/1 "x"`}},
		{"rel", `<a rel="external NoFollow" href=x>`, []string{"a http://h/d/x nofollow"}},
		{"first attribute counts", `<a href=1 href=2>`, []string{"a http://h/d/1"}},
		{"entity", `<a href="?a=1&amp;b=2&copy=3">`, []string{"a http://h/d/?a=1&b=2&copy=3"}},
		{"area", `<area href=x rel=nofollow>`, []string{"area http://h/d/x nofollow"}},
		{"base counts for all", `<a href=x></a><base href=//b/c/><base href=//no/><link href=y>`, []string{"a http://b/c/x", "link http://b/c/y"}},
		{"base without href", `<base target=x><base href=/e/><a href=x>`, []string{"a http://h/e/x"}},
		{"link", `<link rel="alternate stylesheet" href=1><link rel=canonical href=2><link rel=alternate hreflang=de href=3><link rel=alternate href=4><link rel=prev href=5><link rel=preconnect href=//no><link rel="shortcut icon" href=6><link href=7>`,
			[]string{"link-stylesheet http://h/d/1", "link-canonical http://h/d/2", "link-hreflang http://h/d/3", "link-alternate http://h/d/4", "link-prev http://h/d/5", "link-icon http://h/d/6", "link http://h/d/7"}},
		{"img", `<img src=a srcset="b 1x, c,d 2x,, e(,f) 3x">`, []string{"img http://h/d/a", "img http://h/d/b", "img http://h/d/c,d", "img http://h/d/e(,f)"}},
		{"srcset: parentheses do not nest", `<img srcset="a ((x), b 2x">`, []string{"img http://h/d/a", "img http://h/d/b"}},
		{"srcset without descriptors", `<source srcset="a, b" src=c>`, []string{"source http://h/d/c", "img http://h/d/a", "img http://h/d/b"}},
		{"imagesrcset", `<link rel=preload imagesrcset="a 1x">`, []string{"img http://h/d/a"}},
		{"frames", `<frameset><frame src=a></frameset><a href=no>`, []string{"frame http://h/d/a"}},
		{"frame outside of a frameset", `<frame src=no><iframe src=b><a href=no></iframe>`, []string{"iframe http://h/d/b"}},
		{"plug-ins", `<embed src=a><object data=b></object>`, []string{"embed http://h/d/a", "object http://h/d/b"}},
		{"script", `<script src=a>"<a href=no>"</script>`, []string{"script http://h/d/a"}},
		{"media", `<video src=a poster=b><source src=c><track src=e></video><audio src=f>`, []string{"video http://h/d/a", "poster http://h/d/b", "source http://h/d/c", "track http://h/d/e", "audio http://h/d/f"}},
		{"form", `<form action=a><form action=inner></form><form method=POST action=no></form><form method=get action=b rel=nofollow></form><form action="">`, []string{"form http://h/d/a", "form http://h/d/b nofollow"}},
		{"input", `<input type=IMAGE src=a><input type=text src=no>`, []string{"img http://h/d/a"}},
		{"cite", `<blockquote cite=a><q cite=b></q><ins cite=c></ins><del cite=e></del>`, []string{"cite http://h/d/a", "cite http://h/d/b", "cite http://h/d/c", "cite http://h/d/e"}},
		{"background", `<body background=a><table background=b><td background=c>`, []string{"background http://h/d/a", "background http://h/d/b", "background http://h/d/c"}},
		{"refresh", `<meta http-equiv=Refresh content="5; URL='a b'"><meta http-equiv=refresh content=5><meta http-equiv=refresh content="0;c">`, []string{"refresh http://h/d/a%20b", "refresh http://h/d/c"}},
		{"open graph", `<meta property="og:image" content=a><meta name=og:url content=b><meta property="og:title" content=no>`, []string{"og http://h/d/a", "og http://h/d/b"}},
		{"style", `<style>p{background:url("a")}</style><p style="background:url(b)">`, []string{"css http://h/d/a", "css http://h/d/b"}},
		{"comments and raw text", `<!-- <a href=no> --><textarea><a href=no></textarea><title><a href=no></title>`, nil},
		{"noscript", `<noscript><img src=a></noscript>`, []string{"img http://h/d/a"}},
		{"twice", `<a href=x>1</a><a href=x>2</a><a href=x></a><a href=x>1</a><img src=x>`, []string{`a http://h/d/x "1"`, `a http://h/d/x "2"`, "img http://h/d/x"}},
		{"text second", `<a href=x><img src=i></a><a href=x>1</a>`, []string{"a http://h/d/x", "img http://h/d/i", `a http://h/d/x "1"`}},
		{"whitespace", "<a href=' \n x\ty '>", []string{"a http://h/d/xy"}},
		{"applet", `<applet code=A.class codebase=c archive="x.jar, y.jar"></applet><applet code=B.class>`, []string{"applet http://h/d/c/x.jar", "applet http://h/d/c/y.jar", "applet http://h/d/c/A.class", "applet http://h/d/B.class"}},
		{"svg", `<svg><a href=1>t</a><image xlink:href=2 /><use href="#x"/><use href="3#x" xlink:href=no /></svg><math href=no>`, []string{`svg-a http://h/d/1 "t"`, "svg http://h/d/2", "svg http://h/d/3"}},
		{"lazy frame", `<iframe data-src=/f src=about:blank></iframe><iframe data-lazy-src=/g></iframe>`, []string{"iframe http://h/f", "iframe http://h/g"}},
		{"lazy", `<img src=a data-src=/b data-srcset="c/1 1x, c/2 2x"><div data-bg=e.png data-lazy=true data-poster="a b/c">`, []string{"img http://h/d/a", "lazy http://h/b", "lazy http://h/d/c/1", "lazy http://h/d/c/2", "lazy http://h/d/e.png"}},
		{"meta", `<meta name=twitter:image content=a><meta name=msapplication-TileImage content=b><meta itemprop=thumbnailUrl content=c><meta name=description content=no>`, []string{"og http://h/d/a", "meta http://h/d/b", "meta http://h/d/c"}},
		{"template is inert", `<template><a href=no><img src=no></template><a href=x>`, []string{"a http://h/d/x"}},
		{"cell outside of a table", `<td background=no><table><td background=a>`, []string{"background http://h/d/a"}},
		{"image is img", `<image src=a>`, []string{"img http://h/d/a"}},
		{"words", `<a href=x><div>one</div><div>two<br>three</div>fo<b>ur</b></a>`, []string{`a http://h/d/x "one two three four"`}},
		{"text of elements that show none", `<a href=x>a<script>b</script><textarea>c</textarea><xmp>e</xmp>f</a>`, []string{`a http://h/d/x "a f"`}},
		{"nul and newlines", "<a href='x\r\ny\x00'>a\x00b\r\nc</a>", []string{`a http://h/d/xy%EF%BF%BD "ab c"`}},
		{"references", `<a href="?a&lt=1&lt;&notit;&notin;&#x26;&semi;&AMP">&notit;&fjlig;&#150;&#xD800;&#0;&CounterClockwiseContourIntegral;&CounterClockwiseContourIntegralx;</a>`,
			[]string{`a http://h/d/?a&lt=1%3C&notit;%E2%88%89&;& "¬it;fj–��∳&CounterClockwiseContourIntegralx;"`}},
		{"unclosed tag", `<a href=x>t</a><a href=no`, []string{`a http://h/d/x "t"`}},
		{"script in a comment in a script", `<script><!-- <script> </script> <a href=no> --></script><a href=x>`, []string{"a http://h/d/x"}},
		{"cdata", `<![CDATA[ <a href=no> ]]><a href=x><svg><![CDATA[<a href=no>&lt;]]></svg>`, []string{`a http://h/d/x "<a href=no><"`}},
		{"other schemes", `<a href="mailto:a@b"><a href="JavaScript:x()"><img src="data:image/gif,x">`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, engine := range []string{EngineFast, EngineXNet} {
				doc := &Document{URL: "http://h/d/", MIME: "text/html", Charset: "utf-8", Body: []byte(tt.in)}
				if diff := cmp.Diff(tt.want, found(t, doc, Options{HTMLEngine: engine})); diff != "" {
					t.Errorf("%s, %s: %s", tt.name, engine, diff)
				}
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	h := http.Header{}
	h.Add("Link", `<a>; rel="next"; title="x,<no>", <b>;rel=canonical;hreflang=de , <c>; rel="preconnect"`)
	h.Add("Link", `<d>; rel="alternate nofollow"; hreflang="en"`)
	h.Add("Refresh", "3;url=e")
	h.Add("X-Robots-Tag", "otherbot: nofollow")
	doc := &Document{URL: "http://h/", MIME: "application/pdf", Header: h, Body: []byte("%PDF")}
	want := []string{"link-next http://h/a \"x,<no>\"", "link-canonical http://h/b", "link-hreflang http://h/d nofollow", "refresh http://h/e"}
	if diff := cmp.Diff(want, found(t, doc, Options{})); diff != "" {
		t.Error(diff)
	}
}

// A page that says nofollow has no links, whatever the source, unless told otherwise.
func TestNofollow(t *testing.T) {
	const a = `<a href=x>`
	for _, tt := range []struct {
		body, header string
		follow       bool
	}{
		{`<meta name=ROBOTS content="noindex, NoFollow">` + a, "", false},
		{a + `<meta name=robots content=none>`, "", false},
		{`<meta name=robots content=noindex>` + a, "", true},
		{`<meta name=googlebot content=nofollow>` + a, "", true},
		{`<noscript><meta name=robots content=nofollow></noscript>` + a, "", false}, // without scripts it is markup
		{`<head><noscript><meta name=mercator content=none></noscript><body>` + a, "", false},
		{`<template><meta name=robots content=nofollow></template>` + a, "", true},
		{`<script>"<meta name=robots content=nofollow>"</script>` + a, "", true},
		{`<iframe srcdoc="<meta name=robots content=nofollow>"></iframe>` + a, "", true},
		{`<iframe srcdoc="<meta name=mercator content=nofollow>"></iframe>` + a, "", true},
		{`<iframe srcdoc="<meta name='robots, googlebot' content=nofollow>"></iframe>` + a, "", true},
		{a, "noindex, nofollow", false},
		{a, "otherbot: nofollow", true},
		{a, "unavailable_after: 25 Jun 2030 15:00:00 PST", true},
	} {
		t.Run(tt.body+tt.header, func(t *testing.T) {
			doc := &Document{URL: "http://h/", MIME: "text/html", Header: http.Header{"X-Robots-Tag": {tt.header}}, Body: []byte(tt.body)}
			page := Find(doc, Options{})
			if (len(page.Links) == 1) != tt.follow || (page.Refused[ReasonNofollow] == 1) == tt.follow {
				t.Errorf("%s, %s: links %v, refused %v", tt.body, tt.header, page.Links, page.Refused)
			}
			if page = Find(doc, Options{IgnoreNofollow: true}); len(page.Links) != 1 {
				t.Errorf("%s, ignored: %v", tt.body, page.Links)
			}
		})
	}
}

func TestCharsets(t *testing.T) {
	for _, tt := range []struct{ name, charset, body, want string }{
		{"header", "iso-8859-1", "<a href='/\xe9?\xe9'>\xe9", `a http://h/%C3%A9?%E9 "é"`},
		{"meta", "", "<meta charset=windows-1251><a href='?\xef'>\xef", `a http://h/?%EF "п"`},
		{"header before meta", "utf-8", "<meta charset=windows-1251><a href='?é'>é", `a http://h/?%C3%A9 "é"`},
		{"mark before header", "iso-8859-1", "\xef\xbb\xbf<a href='?é'>é", `a http://h/?%C3%A9 "é"`},
		{"UTF-16 sends UTF-8", "", "\xff\xfe<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00?\x00\xe9\x00>\x00", `a http://h/?%C3%A9`},
		{"none, valid UTF-8", "", "<!--" + strings.Repeat("x", 2000) + "--><a href='?é'>é", `a http://h/?%C3%A9 "é"`},
		{"none, not UTF-8", "", "<a href='?\xe9'>\xe9", `a http://h/?%E9 "é"`},
		{"unknown", "no-such", "<a href='?é'>", `a http://h/?%C3%A9`},
		{"lacking", "iso-8859-1", "<a href='?&#8364;&#1055;'>", `a http://h/?%80%26%231055%3B`},
		{"gbk", "gbk", "<a href='?\xc4\xe3'>", `a http://h/?%C4%E3`},
		{"shift_jis", "shift_jis", "<a href='?\x83\x65'>", `a http://h/?%83%65`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc := &Document{URL: "http://h/", MIME: "text/html", Charset: tt.charset, Body: []byte(tt.body)}
			want := strings.ReplaceAll(tt.want, "%65", "e") // canonical form decodes unreserved characters
			if got := found(t, doc, Options{}); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %v, want %v", tt.name, got, want)
			}
		})
	}
}

func TestCSS(t *testing.T) {
	for in, want := range map[string][]string{
		`a{b:url(x)} c{d:URL( "y" )}`:                     {"css http://h/x", "css http://h/y"},
		`@import "a.css"; @import url(b.css) print;`:      {"css-import http://h/a.css", "css-import http://h/b.css"},
		`/* url(no) */ a{b:url(x\29 y)}`:                  {"css http://h/x)y"},
		`a{b:url('x\'y')}`:                                {"css http://h/x'y"},
		`a{content:"url(no)"; b:curl(no); c:url(#f)}`:     nil,
		`a{b:url(a b) c:url(d)}`:                          {"css http://h/d"},
		`@font-face{src:url(a.woff2)format("w"),url(b)}`:  {"css http://h/a.woff2", "css http://h/b"},
		"a{b:\"bad\n; c:url(x)}":                          {"css http://h/x"},
		`a{b:url(data:image/png;base64,AAAA)} d{e:url(f)`: {"css http://h/f"},
		`@importx "no"; @import /* c */ "a"`:              {"css-import http://h/a"},
		`a{b:url(x`:                                       {"css http://h/x"},
		`\`:                                               nil,
		`a{b:image-set("a" type("image/avif") 1x, url(b) 2x); c:"no"} d{e:-webkit-image-set('c' 1x)} "no"`: {"css http://h/a", "css http://h/b", "css http://h/c"},
		`a{b:u\72 l(x)} @\69mport "y"; a{b:3url(no) #url(no) .c-url(no)}`:                                  {"css http://h/x", "css-import http://h/y"},
		`@namespace url(http://no/); @namespace x "http://no/"; a{b:url(x)}`:                               {"css http://h/x"},
		`@charset "utf-8"; @import url("x") layer(y) screen; @media print{a{b:URL(z)}}`:                    {"css-import http://h/x", "css http://h/z"},
		`a{b:url("\`: nil,
		"a{b:image-set('x\\\r\ny' 1x)} @import 'a\\\r\nb'; c{d:url('q\\41\r\nz')}": {"css http://h/xy", "css-import http://h/ab", "css http://h/qAz"},
	} {
		t.Run(fmt.Sprintf("%.60s", in), func(t *testing.T) {
			doc := &Document{URL: "http://h/", MIME: "text/css", Body: []byte(in)}
			if diff := cmp.Diff(want, found(t, doc, Options{})); diff != "" {
				t.Errorf("%s: %s", in, diff)
			}
		})
	}
}

func TestXML(t *testing.T) {
	zipped := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(s))
		w.Close()
		return b.String()
	}
	const sitemap = `<?xml version="1.0"?><urlset xmlns="x" xmlns:image="i"><url><loc> http://h/a?x&amp;y </loc><image:image><image:loc>http://h/i</image:loc></image:image><lastmod>2020</lastmod></url><url><loc><![CDATA[http://h/b]]></loc></url></urlset>`
	for _, tt := range []struct {
		url, mime, in string
		want          []string
	}{
		{"", "application/xml", sitemap, []string{"sitemap-url http://h/a?x&y", "img http://h/i", "sitemap-url http://h/b"}},
		{"", "application/x-gzip", zipped(sitemap), []string{"sitemap-url http://h/a?x&y", "img http://h/i", "sitemap-url http://h/b"}},
		{"", "application/octet-stream", zipped(sitemap), []string{"sitemap-url http://h/a?x&y", "img http://h/i", "sitemap-url http://h/b"}},
		{"", "text/xml", `<sitemapindex><sitemap><loc>/s1.xml</loc></sitemap></sitemapindex>`, []string{"sitemap http://h/s1.xml"}},
		{"http://h/sitemap.txt", "text/plain", "\xef\xbb\xbfhttp://h/a\r\n\nnot a url\nhttp://h/b", []string{"sitemap-url http://h/a", "sitemap-url http://h/b"}},
		{"http://h/sitemap.txt.gz", "application/gzip", zipped("http://h/a\n"), []string{"sitemap-url http://h/a"}},
		{"http://h/readme.txt", "text/plain", "http://h/a\n", nil},
		{"", "application/rss+xml", `<rss><channel><link>http://h/c</link><atom:link href="http://h/self"/><item><link>http://h/i</link><guid>urn:x</guid><guid>http://h/g</guid><guid isPermaLink="false">http://h/no</guid><enclosure url="http://h/e"/></item></channel></rss>`,
			[]string{"feed http://h/c", "feed http://h/self", "feed http://h/i", "feed http://h/g", "feed http://h/e"}},
		{"", "application/atom+xml", `<feed xmlns="a"><link href="/x"/><entry><link rel="edit" href="y"/><content src="z"/></entry></feed>`, []string{"feed http://h/x", "link http://h/y", "feed http://h/z"}},
		{"", "application/xml", `<other><loc>http://h/no</loc></other>`, nil},
		{"", "application/xml", `<urlset><url><loc>http://h/a</loc></url><url><loc>http://h/cut`, []string{"sitemap-url http://h/a"}},
		{"", "application/xml", "<?xml version='1.0' encoding='iso-8859-1'?><urlset><loc>http://h/\xe9</loc></urlset>", []string{"sitemap-url http://h/%C3%A9"}},
	} {
		t.Run(fmt.Sprintf("%s%s %.40s", tt.url, tt.mime, fmt.Sprint(tt.want)), func(t *testing.T) {
			doc := &Document{URL: "http://h/", MIME: tt.mime, Body: []byte(tt.in)}
			if tt.url != "" {
				doc.URL = tt.url
			}
			if diff := cmp.Diff(tt.want, found(t, doc, Options{})); diff != "" {
				t.Errorf("%s %s: %s", tt.mime, tt.in, diff)
			}
		})
	}
}

// A sheet that is read through a window gives what it gives as a whole, and a
// token that does not fit ends the search.
func TestSheetWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"url(%d)", " url( '%d' )", "curl(%d)", "@import '%d';", "@import /* %d", "*/", "\\", "'%d\\'", "\n", "a{b:url(x\\29 %d)}", strings.Repeat(" ", 500)}
	var b strings.Builder
	for i := 0; b.Len() < 3*markup.MaxToken; i++ {
		p := pieces[rng.IntN(len(pieces))]
		if strings.Contains(p, "%d") {
			p = fmt.Sprintf(p, i)
		}
		b.WriteString(p)
	}
	links := func(find func(c *sheet)) []Link {
		c := sheet{finder: new(finder)}
		c.beginDocument(&Document{URL: "http://h/"}, Options{MaxLinks: 1 << 20})
		find(&c)
		if c.page.Cut {
			t.Error("cut")
		}
		return c.found.links()
	}
	whole := links(func(c *sheet) { c.css([]byte(b.String())) })
	for _, size := range []int{0, b.Len(), b.Len() / 2} {
		windowed := links(func(c *sheet) { c.read(iotest.HalfReader(strings.NewReader(b.String())), size) })
		if diff := cmp.Diff(whole, windowed); diff != "" || len(whole) < 1000 {
			t.Fatalf("%d links: %.1000s", len(whole), diff)
		}
	}
	long := "a{b:url(x)} /*" + strings.Repeat(" ", 2*markup.MaxToken) + "*/ c{d:url(y)}"
	page := Find(&Document{URL: "http://h/", MIME: "text/css", Body: []byte(long)}, Options{})
	if len(page.Links) != 1 || !page.Cut {
		t.Errorf("%d links, cut %v; want the one before the long comment", len(page.Links), page.Cut)
	}
}

// What bounds the tokens of XML does not mistake one kind for another.
func TestXMLTokens(t *testing.T) {
	const before, behind = "<urlset><loc>http://h/a</loc>", "<loc>http://h/b</loc></urlset>"
	for _, tt := range []struct {
		name, in string
		links    int
	}{
		{"text", strings.Repeat("x", maxTag+1), 2},
		{"text of tags", strings.Repeat("<i>x</i>", maxTag), 2},
		{"comment", "<!--" + strings.Repeat("<x ", maxTag) + "-->", 2},
		{"cdata", "<![CDATA[" + strings.Repeat("<x ", maxTag) + "]]>", 2},
		{"tag", "<i " + strings.Repeat("a ", maxTag/2) + ">", 1},
		{"tag behind text", "x<i " + strings.Repeat("a ", maxTag/2) + ">", 1},
		{"end tag", "</" + strings.Repeat("i", maxTag) + ">", 1},
		{"instruction", "<?" + strings.Repeat("i", maxTag) + "?>", 1},
		{"giant text", strings.Repeat("x", markup.MaxToken+1), 1},
		{"giant comment", "<!--" + strings.Repeat("x", markup.MaxToken+1) + "-->", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, declaration := range []string{"", "<?xml version='1.0' encoding='iso-8859-1'?>"} {
				page := Find(&Document{URL: "http://h/", MIME: "text/xml", Body: []byte(declaration + before + tt.in + behind)}, Options{})
				if len(page.Links) != tt.links || page.Cut != (tt.links == 1) {
					t.Errorf("%s %s: %d links, cut %v; want %d", tt.name, declaration, len(page.Links), page.Cut, tt.links)
				}
			}
		})
	}
}

func TestRobots(t *testing.T) {
	page := Robots(&Document{URL: "http://h/robots.txt", Body: []byte("\xef\xbb\xbfSitemap: http://h/a\r\nUser-agent: *\rsitemap :/b # c\nDisallow: /sitemap: no\nSITEMAP:http://h/a\n")}, Options{})
	if len(page.Links) != 2 || page.Links[0].Ref != "http://h/a" || page.Links[1].Ref != "/b" || page.Links[1].Kind != linkkind.Sitemap {
		t.Errorf("%+v", page.Links)
	}
}

func TestBounds(t *testing.T) {
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, "<a href=%d>%s</a>", i, strings.Repeat("é ", 200))
	}
	page := Find(&Document{URL: "http://h/", MIME: "text/html", Charset: "utf-8", Body: []byte(b.String())}, Options{MaxLinks: 20, MaxText: 10})
	if len(page.Links) != 20 || page.Refused[ReasonTooMany] != 30 {
		t.Errorf("%d links, refused %v", len(page.Links), page.Refused)
	}
	if got := page.Links[0].Text; got != "é é é" {
		t.Errorf("text %q, want at most 10 bytes, whole characters, no space at the end", got)
	}
	// Texts of a link do not count as links, and are bounded, too.
	b.Reset()
	for i := range 50 {
		fmt.Fprintf(&b, "<a href=same>text %d</a>", i)
	}
	b.WriteString("<a href=other>")
	page = Find(&Document{URL: "http://h/", MIME: "text/html", Charset: "utf-8", Body: []byte(b.String())}, Options{MaxLinks: 2})
	if n := len(page.Links); n != 4 || page.Links[2].Text != "text 2" || page.Links[3].Ref != "other" || page.Refused[ReasonTooMany] != 0 {
		t.Errorf("%+v, refused %v", page.Links, page.Refused)
	}
	long := "<a href='/" + strings.Repeat("x", 5*canon.DefaultMaxURL) + "'><img src='data:" + strings.Repeat("x", 1<<20) + "'>"
	page = Find(&Document{URL: "http://h/", MIME: "text/html", Body: []byte(long)}, Options{})
	if len(page.Links) != 0 || page.Refused["too-long"] != 1 || page.Refused["scheme"] != 1 {
		t.Errorf("%d links, refused %v", len(page.Links), page.Refused)
	}
	// References that are longer than what they come from, by an xml:base or packing.
	b.Reset()
	fmt.Fprintf(&b, "<feed xml:base='http://h/%s/'>", strings.Repeat("p", 2000))
	for i := range 10_000 {
		fmt.Fprintf(&b, "<link href='%d'/>", i)
	}
	page = Find(&Document{URL: "http://h/", MIME: "text/xml", Body: []byte(b.String())}, Options{})
	if n := uint64(len(page.Links)); n < 4000 || n*2000 > maxReferences || n+page.Refused[ReasonTooMany] != 10_000 {
		t.Errorf("%d links of 2,000 bytes, refused %v", n, page.Refused)
	}
	// An attribute beyond all measure is passed over. Where the document has to be
	// decoded such a tag ends the search; what stood before it stays.
	for charset, links := range map[string]int{"utf-8": 2, "windows-1252": 1} {
		page = Find(&Document{URL: "http://h/", MIME: "text/html", Charset: charset, Body: []byte("<a href=x><img src='" + strings.Repeat("x", 2*markup.MaxWindow) + "\xe9'><a href=y>")}, Options{})
		if len(page.Links) != links || !page.Cut {
			t.Errorf("%s: %d links, cut %v", charset, len(page.Links), page.Cut)
		}
	}
	// So does a comment, text or attribute of XML.
	for _, open := range []string{"<!--", "<x>", "<loc>", "<x y='", "<!DOCTYPE ", "<![CDATA["} {
		before := "<urlset><url><loc>http://h/a</loc></url>"
		page = Find(&Document{URL: "http://h/", MIME: "text/xml", Body: []byte(before + open + strings.Repeat("x", 2*markup.MaxToken))}, Options{})
		if len(page.Links) != 1 || !page.Cut {
			t.Errorf("%s: %d links, cut %v", open, len(page.Links), page.Cut)
		}
	}
	// A bomb: a sitemap that unzips to 64 MB is read as far as the bound.
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	fmt.Fprint(w, "<urlset><loc>http://h/a</loc>")
	for range 64 {
		w.Write(bytes.Repeat([]byte(" "), 1<<20))
	}
	fmt.Fprint(w, "<loc>http://h/b</loc></urlset>")
	w.Close()
	page = Find(&Document{URL: "http://h/", MIME: "application/gzip", Body: z.Bytes()}, Options{MaxUnzipped: 1 << 20})
	if len(page.Links) != 1 {
		t.Errorf("%v", page.Links)
	}
}

// hostile are documents that grow with n and have hurt parsers.
var hostile = map[string]func(n int) (mime, body string){
	"nested tags":       func(n int) (string, string) { return "text/html", strings.Repeat("<div>", n) },
	"nested a":          func(n int) (string, string) { return "text/html", strings.Repeat("<a href=x>", n) },
	"nested formatting": func(n int) (string, string) { return "text/html", strings.Repeat("<b><i><u><p>", n/4) },
	"attributes": func(n int) (string, string) {
		var b strings.Builder
		b.WriteString("<a ")
		for i := range n {
			fmt.Fprintf(&b, "a%d=1 ", i)
		}
		return "text/html", b.String() + "href=x>"
	},
	"declined, nested": func(n int) (string, string) { return "text/html", "<table><i>" + strings.Repeat("<div>", n) },
	"declined, formatting": func(n int) (string, string) {
		return "text/html", "<table><i>" + strings.Repeat("<font a=1><p>x</p>", n)
	},
	"declined, unknown": func(n int) (string, string) { return "text/html", "<table><i>" + strings.Repeat("<b></x>", n) },
	"declined, cells": func(n int) (string, string) {
		return "text/html", "<table><i>" + strings.Repeat("<td><object><b></b>", n)
	},
	"declined, attributes": func(n int) (string, string) { return "text/html", "<table><i><a " + strings.Repeat("b=1 ", n) },
	"unclosed everything": func(n int) (string, string) {
		return "text/html", strings.Repeat("<p><table><tr><td><a href=x><b><select><button><svg><ul><li><object><form><template>", n/10)
	},
	"foreign": func(n int) (string, string) {
		return "text/html", strings.Repeat("<svg><g>", n) + strings.Repeat("</a>", n)
	},
	"same attribute": func(n int) (string, string) { return "text/html", "<a " + strings.Repeat("href=x ", n) + ">" },
	"open comments":  func(n int) (string, string) { return "text/html", strings.Repeat("<!--", n) },
	"open tags":      func(n int) (string, string) { return "text/html", strings.Repeat("<a href='", n) },
	"open scripts":   func(n int) (string, string) { return "text/html", strings.Repeat("<script></scrip", n) },
	"less-thans":     func(n int) (string, string) { return "text/html", strings.Repeat("<", 4*n) },
	"ampersands":     func(n int) (string, string) { return "text/html", "<a href='" + strings.Repeat("&amp", n) + "'>" },
	"cdata":          func(n int) (string, string) { return "text/html", "<svg>" + strings.Repeat("<![CDATA[", n) },
	"anchor text":    func(n int) (string, string) { return "text/html", "<a href=x>" + strings.Repeat("x <b>", n) },
	"links":          func(n int) (string, string) { return "text/html", strings.Repeat("<a href=x></a>", n) },
	"text of www":    func(n int) (string, string) { return "text/plain", strings.Repeat("www.a ", n) },
	"text of ://": func(n int) (string, string) {
		return "text/plain", strings.Repeat("1://", n) + strings.Repeat("awww.", n)
	},
	"srcset":          func(n int) (string, string) { return "text/html", "<img srcset='" + strings.Repeat("a (,", n) + "'>" },
	"css urls":        func(n int) (string, string) { return "text/css", strings.Repeat("url(", n) },
	"css quotes":      func(n int) (string, string) { return "text/css", strings.Repeat("\"\n", 2*n) },
	"css comments":    func(n int) (string, string) { return "text/css", strings.Repeat("/*", 2*n) },
	"css spaces":      func(n int) (string, string) { return "text/css", strings.Repeat("url( a ", n) },
	"css backslashes": func(n int) (string, string) { return "text/css", "url(" + strings.Repeat("\\", 4*n) },
	"xml depth":       func(n int) (string, string) { return "text/xml", "<urlset>" + strings.Repeat("<loc>", n) },
	"xml entities":    func(n int) (string, string) { return "text/xml", "<urlset><loc>" + strings.Repeat("&amp;", n) },
	"xml doctype":     func(n int) (string, string) { return "text/xml", "<!DOCTYPE x " + strings.Repeat("<", 4*n) },
	"meta refresh": func(n int) (string, string) {
		return "text/html", "<meta http-equiv=refresh content='" + strings.Repeat("0", 4*n) + ";url=x'>"
	},
}

func TestLinearTime(t *testing.T) {
	for name, doc := range hostile {
		t.Run(name, func(t *testing.T) {
			costtest.Linear(t, 20_000, func(n int) func() {
				mime, body := doc(n)
				d := Document{URL: "http://h/", MIME: mime, Charset: "utf-8", Body: []byte(body)}
				if mime == "" {
					d.Charset = "" // that is to be found, too
				}
				return func() {
					d := d
					Find(&d, Options{Sources: AllSources})
				}
			})
		})
	}
}

// A million nested tags, and all of one kind of anything: see TestLinearTime for
// the time. Here they must neither fail nor hide the link behind them.
func TestDeep(t *testing.T) {
	body := strings.Repeat("<div>", 1_000_000) + "<a href=x>"
	if got := found(t, &Document{URL: "http://h/", MIME: "text/html", Body: []byte(body)}, Options{}); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func fuzz(f *testing.F, mime string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s), "utf-8")
		f.Add([]byte(s), "shift_jis")
	}
	f.Fuzz(func(t *testing.T, body []byte, charset string) {
		doc := &Document{URL: "http://h/sitemap", MIME: mime, Charset: charset, Body: body}
		page := Find(doc, Options{MaxLinks: 50, MaxUnzipped: 1 << 16, Sources: AllSources})
		if len(page.Links) > 50 {
			t.Fatalf("%d links", len(page.Links))
		}
		seen := make(map[Link]bool)
		for _, l := range page.Links {
			if len(l.Text) > DefaultMaxText || l.Kind == "" {
				t.Fatalf("%+v", l)
			}
			l.Text = ""
			if seen[l] {
				t.Fatalf("twice: %+v", l)
			}
			seen[l] = true
			if u, _, err := page.Base.Resolve(l.Ref); err == nil {
				if again, _, err := canon.URL(u); again != u || err != nil {
					t.Fatalf("%q is not canonical: %q, %v", u, again, err)
				}
			}
		}
	})
}

func FuzzHTML(f *testing.F) {
	fuzz(f, "text/html", `<base href=x><a href="y" rel=nofollow>z</a><img srcset="a 1x,b">`, `<meta http-equiv=refresh content="0;url='x'"><style>@import "x"</style>`, "<meta charset=gbk><a href=?\xc4\xe3>")
}

func FuzzCSS(f *testing.F) {
	fuzz(f, "text/css", `@import "a"; b{c:url( 'd\27 ' )}/* */`, `url(\`, `url(a b)"`)
}

func FuzzXML(f *testing.F) {
	fuzz(f, "text/xml", `<urlset><url><loc>http://h/</loc></url></urlset>`, `<rss><link>x</link><guid/></rss>`, `<feed><link href="x"/>`)
}

func FuzzText(f *testing.F) { fuzz(f, "text/plain", "http://h/\nhttp://g/\n") }
func FuzzGzip(f *testing.F) { fuzz(f, "application/gzip", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff") }
