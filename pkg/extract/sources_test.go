package extract

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/base/must"

	"github.com/google/go-cmp/cmp"
)

func gzipped(s string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(s))
	w.Close()
	return b.Bytes()
}

// onePage is a PDF file with one link annotation, of which readers must find the
// objects without a table.
const onePage = `%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/Annots[<</Type/Annot/Subtype/Link/A<</S/URI/URI(http://h/in-pdf)>>>> <</Subtype/Link/A<</S/URI/URI(rel)>>>>]>> endobj
trailer <</Root 1 0 R>>
%%EOF`

func officeFile(t *testing.T, name, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(name)
	must.OK(t, err)
	_, err = w.Write([]byte(text))
	must.OK(t, err)
	must.OK(t, z.Close())
	return b.String()
}

func TestSources(t *testing.T) {
	header := http.Header{"Link": {"</h>"}}
	docs := map[string]struct{ mime, body, link string }{
		"headers": {"image/png", "x", "link http://h/h"},
		"html":    {"text/html", "<a href=x>", "a http://h/x"},
		"css":     {"text/css", "a{b:url(x)}", "css http://h/x"},
		"sitemap": {"text/xml", "<urlset><loc>http://h/x</loc></urlset>", "sitemap-url http://h/x"},
		"feed":    {"text/xml", "<rss><link>http://h/x</link></rss>", "feed http://h/x"},
		"pdf":     {"application/pdf", onePage, "pdf http://h/in-pdf"},
		"office":  {"application/vnd.oasis.opendocument.text", officeFile(t, "content.xml", "<text:a xlink:href='../x.odt'>"), "office http://h/x.odt"},
		"ftp":     {"text/x-ftp-listing", "type=file; x", "listing http://h/x"},
		"gopher":  {"application/gopher-menu", "0x\t/x\th\t70\r\n", "menu gopher://h/0/x"},
		"text":    {"text/plain", "see http://h/x.", "text http://h/x"},
		"json":    {"application/json", `{"a":"http://h/x"}`, "json http://h/x"},
		"xml":     {"text/xml", "<a><b>http://h/x</b></a>", "xml http://h/x"},
		"script":  {"text/javascript", "load('http://h.example/x.js')", "script-guess http://h.example/x.js"},
	}
	for i, name := range sourceNames {
		t.Run(name, func(t *testing.T) {
			alone, err := ParseSources([]string{name})
			if err != nil || alone != 1<<i {
				t.Fatalf("%s: %b, %v", name, alone, err)
			}
			if name == "robots" {
				doc := &Document{URL: "http://h/robots.txt", Body: []byte("Sitemap: /x")}
				if with, without := Robots(doc, Options{Sources: alone}), Robots(doc, Options{Sources: AllSources &^ alone}); len(with.Links) != 1 || len(without.Links) != 0 {
					t.Errorf("robots: %v, %v", with.Links, without.Links)
				}
				return
			}
			d := docs[name]
			doc := &Document{URL: "http://h/", MIME: d.mime, Header: header, Body: []byte(d.body)}
			if got := found(t, doc, Options{Sources: alone}); len(got) == 0 || !strings.HasPrefix(got[0], d.link) {
				t.Errorf("%s alone: %q, want %s", name, got, d.link)
			}
			for _, l := range found(t, doc, Options{Sources: AllSources &^ alone}) {
				if strings.HasPrefix(l, d.link) {
					t.Errorf("all but %s: %s", name, l)
				}
			}
			byDefault := slices.ContainsFunc(found(t, doc, Options{}), func(l string) bool { return strings.HasPrefix(l, d.link) })
			if want := name != "text" && name != "json" && name != "xml" && name != "script"; byDefault != want {
				t.Errorf("%s by default: %v", name, byDefault)
			}
		})
	}
	if s, err := ParseSources([]string{"default", "text"}); err != nil || s != DefaultSources|FromText {
		t.Errorf("%b, %v", s, err)
	}
	if _, err := ParseSources([]string{"htm"}); err == nil {
		t.Error("an unknown source is accepted")
	}
}

func TestLinkHeader(t *testing.T) {
	for in, want := range map[string][]string{
		`<a>; rel="prev chapter"; title="Chapter \"1\", <x>; y"`:  {`link-prev http://h/d/a "Chapter \"1\", <x>; y"`},
		`<a>;rel=next,<b>;rel=prev`:                               {"link-next http://h/d/a", "link-prev http://h/d/b"},
		`<a,b;c>;rel=next`:                                        {"link-next http://h/d/a,b;c"},
		`<a>; title="x"; title*=UTF-8'de'n%c3%a4chstes%20Kapitel`: {`link http://h/d/a "nächstes Kapitel"`},
		`<a>; rel=canonical; anchor="http://h/other"`:             {"link http://h/d/a"},
		`<a>; rel=canonical; anchor="#part"`:                      {"link-canonical http://h/d/a"},
		`<a>; rel=next; rel=canonical`:                            {"link-next http://h/d/a"},
		`<a> ; REL = "NEXT" ; hreflang = en`:                      {"link-next http://h/d/a"},
		`<a>; rel="alternate"; hreflang=de; hreflang=en`:          {"link-hreflang http://h/d/a"},
		`<a>; rel="next nofollow"`:                                {"link-next http://h/d/a nofollow"},
		`<a>; rel=preconnect, <b>; rel="x`:                        {"link http://h/d/b"},
		`<a>; x="\`:                                               {"link http://h/d/a"},
		`, ,<a>,,`:                                                {"link http://h/d/a"},
		`<>; rel=next`:                                            {"link-next http://h/d/"},
		`a>; rel=next, <b`:                                        nil,
	} {
		t.Run(in, func(t *testing.T) {
			doc := &Document{URL: "http://h/d/", MIME: "image/png", Header: http.Header{"Link": {in}}, Body: []byte("x")}
			if diff := cmp.Diff(want, found(t, doc, Options{})); diff != "" {
				t.Errorf("%s: %s", in, diff)
			}
		})
	}
	// A base element does not count for headers, and a header not twice.
	doc := &Document{URL: "http://h/d/", MIME: "text/html", Body: []byte("<base href=/b/><a href=x>"), Header: http.Header{
		"Location": {"l"}, "Content-Location": {" c.en.html "}, "Refresh": {"0; r"}, "Link": {"<k>", "<k>"},
	}}
	want := []string{"location http://h/d/l", "content-location http://h/d/c.en.html", "link http://h/d/k", "refresh http://h/d/r", "a http://h/b/x"}
	if diff := cmp.Diff(want, found(t, doc, Options{})); diff != "" {
		t.Error(diff)
	}
}

func TestFeeds(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"sitemap extensions", `<s:urlset xmlns:s="x" xmlns:i="y" xmlns:v="z" xmlns:xhtml="h"><s:url><s:loc>/p</s:loc><i:image><i:loc>/i</i:loc></i:image>
			<v:video><v:thumbnail_loc>/t</v:thumbnail_loc><v:content_loc>/v</v:content_loc><v:player_loc allow_embed="yes">/w</v:player_loc></v:video>
			<n:news><n:publication><n:name>http://no/</n:name></n:publication></n:news><xhtml:link rel="alternate" hreflang="de" href="/de"/></s:url></s:urlset>`,
			[]string{"sitemap-url http://h/p", "img http://h/i", "img http://h/t", "video http://h/v", "video http://h/w", "link-hreflang http://h/de"}},
		{"rss 0.91", `<!DOCTYPE rss SYSTEM "http://no/rss-0.91.dtd"><rss version="0.91"><channel><title>no</title><link>/</link><image><url>/logo</url></image><item><title> Item  one </title><link>/1</link></item></channel></rss>`,
			[]string{"feed http://h/", "img http://h/logo", `feed http://h/1 "Item one"`}},
		{"rss 1.0", `<rdf:RDF xmlns:rdf="r" xmlns="x"><channel rdf:about="no"><link>/c</link></channel><item><link>/1</link><title>A</title></item><item><link>/2</link></item></rdf:RDF>`,
			[]string{"feed http://h/c", `feed http://h/1 "A"`, "feed http://h/2"}},
		{"rss 2.0", `<rss xmlns:media="m" xmlns:slash="s"><channel><item><title>A</title><link>/1</link><comments>/1#c</comments><slash:comments>3</slash:comments><source url="/s">x</source><media:content url="/m"/><media:thumbnail url="/t"/><enclosure url="/e" length="1"/><guid>http://h/1</guid></item></channel></rss>`,
			[]string{`feed http://h/1 "A"`, `feed http://h/1 "A"`, `feed http://h/s "A"`, `feed http://h/m "A"`, "img http://h/t", `feed http://h/e "A"`, `feed http://h/1 "A"`}},
		{"atom", `<feed xml:base="/a/"><link rel="self" href="f"/><link rel="next" href="g"/><logo>l</logo><entry xml:base="b/"><title type="html">T</title><link href="1"/><content src="2"/><link rel="edit" href="3"/></entry><entry><link rel="alternate" href="4"/></entry></feed>`,
			[]string{"link http://h/a/f", "link-next http://h/a/g", "img http://h/a/l", `feed http://h/a/b/1 "T"`, `feed http://h/a/b/2 "T"`, "link http://h/a/b/3", "feed http://h/a/4"}},
		{"control characters", "<rss><link>/\x01a</link><item><link>/b\xff</link></item></rss>", []string{"feed http://h/%20a", "feed http://h/b%EF%BF%BD"}},
		{"xhtml", `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body><a href="x">t</a></body></html>`, []string{`a http://h/x "t"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, found(t, &Document{URL: "http://h/", MIME: "application/xml", Body: []byte(tt.in)}, Options{})); diff != "" {
				t.Errorf("%s: %s", tt.name, diff)
			}
		})
	}
	for _, tt := range []struct{ charset, in string }{
		{"", "\xff\xfe" + utf16le("<rss><link>/é</link></rss>")},
		{"", utf16le("<?xml version='1.0'?><rss><link>/é</link></rss>")},
		{"utf-16le", utf16le("<rss><link>/é</link></rss>")},
		{"iso-8859-1", "<?xml version='1.0' encoding='koi8-r'?><rss><link>/\xe9</link></rss>"},
		{"", "<?xml version='1.0' encoding = 'iso-8859-1' ?><rss><link>/\xe9</link></rss>"},
		{"", "\xef\xbb\xbf<?xml version='1.0' encoding='koi8-r'?><rss><link>/é</link></rss>"},
		{"", "<rss><link>/é</link></rss>"},
	} {
		t.Run(fmt.Sprintf("%s %.9q", tt.charset, tt.in), func(t *testing.T) {
			doc := &Document{URL: "http://h/", MIME: "text/xml", Charset: tt.charset, Body: []byte(tt.in)}
			if got := found(t, doc, Options{}); len(got) != 1 || got[0] != "feed http://h/%C3%A9" {
				t.Errorf("%s %q: %q", tt.charset, tt.in, got)
			}
		})
	}
	// Ever deeper bases cost no more than maxBases.
	deep := "<feed>" + strings.Repeat("<x xml:base='a/'>", 10*maxBases) + "<link href=b />"
	page := Find(&Document{URL: "http://h/", MIME: "text/xml", Body: []byte(deep)}, Options{})
	if len(page.Links) != 1 || strings.Count(page.Links[0].Ref, "a/") != maxBases {
		t.Errorf("%+v", page.Links)
	}
}

func TestPlainText(t *testing.T) {
	for in, want := range map[string][]string{
		"See http://h/a, (https://h/b) and <http://h/c>.":             {"text http://h/a", "text https://h/b", "text http://h/c"},
		"http://h/x_(y) (http://h/z)) \"ftp://h/q\"!":                 {"text http://h/x_(y)", "text http://h/z", "text ftp://h/q"},
		"www.example.org/x. xwww.no.org awww. at www.":                {"text http://www.example.org/x"},
		"http://www.h/a www.b/":                                       {"text http://www.h/a", "text http://www.b/"},
		"://www.h/a www.b www.c http://h/d":                           {"text http://www.h/a", "text http://www.b/", "text http://www.c/", "text http://h/d"},
		"x://y mailto:a@b ://no http:// 9http://h/n":                  {"text http://h/n"},
		"«http://h/é»、http://h/日本。":                                   {"text http://h/%C3%A9", "text http://h/%E6%97%A5%E6%9C%AC"},
		"http://h/" + strings.Repeat("x", maxTextURL) + " http://h/y": {"text http://h/y"},
	} {
		t.Run(fmt.Sprintf("%.60s", in), func(t *testing.T) {
			got := found(t, &Document{URL: "http://h/", MIME: "text/plain", Charset: "utf-8", Body: []byte(in)}, Options{Sources: FromText})
			got = slices.DeleteFunc(got, func(l string) bool { return strings.Contains(l, "! scheme") })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%.100s: %s", in, diff)
			}
		})
	}
	latin1 := &Document{URL: "http://h/", MIME: "text/plain", Charset: "iso-8859-1", Body: []byte("http://h/\xe9")}
	if got := found(t, latin1, Options{Sources: FromText}); len(got) != 1 || got[0] != "text http://h/%C3%A9" {
		t.Errorf("%q", got)
	}
}

func TestJSON(t *testing.T) {
	for in, want := range map[string][]string{
		`{"a":"http://h/a","b":["https:\/\/h\/b",1,"x"],"http://no/":1}`:    {"json http://h/a", "json https://h/b"},
		`{"url":"rel","href" : "/abs","src":["i","j"],"other":"/no"}`:       {"json http://h/d/rel", "json http://h/abs", "json http://h/d/i"},
		`{"url":"http://h/\u00e9\ud83d\ude00"}`:                             {"json http://h/%C3%A9%F0%9F%98%80"},
		`{"url":"#x","url":"","url":"two words"}`:                           nil,
		"{\"a\":\"http://h/1\"}\n{\"a\":\"http://h/2\"}\n{\"a\":\"http://h": {"json http://h/1", "json http://h/2", "json http://h/"},
		`["\"http://no/\"", "\`:                                             nil,
		`["` + strings.Repeat("x", 2*maxTextURL) + `","http://h/x"]`:        {"json http://h/x"},
	} {
		t.Run(fmt.Sprintf("%.60s", in), func(t *testing.T) {
			if diff := cmp.Diff(want, found(t, &Document{URL: "http://h/d/", MIME: "application/ld+json", Body: []byte(in)}, Options{Sources: FromJSON})); diff != "" {
				t.Errorf("%.100s: %s", in, diff)
			}
		})
	}
}

// SVG is read as HTML by either engine, also where other XML is a source.
func TestSVGFile(t *testing.T) {
	in := `<svg xmlns="http://www.w3.org/2000/svg"><a href="http://h/x">t</a><style>a{b:c}</style></svg>`
	for _, engine := range []string{EngineFast, EngineXNet} {
		for _, from := range []Sources{DefaultSources, AllSources} {
			got := found(t, &Document{URL: "http://h/", MIME: "image/svg+xml", Body: []byte(in)}, Options{Sources: from, HTMLEngine: engine})
			if len(got) != 1 || got[0] != `svg-a http://h/x "t"` {
				t.Errorf("%s, %b: %q", engine, from, got)
			}
		}
	}
	if got := found(t, &Document{URL: "http://h/", MIME: "image/svg+xml", Body: []byte(in)}, Options{Sources: FromXML}); len(got) != 1 || got[0] != "xml http://h/x" {
		t.Errorf("as XML: %q", got)
	}
}

func TestOtherXML(t *testing.T) {
	in := `<x xmlns="http://no/ns" xmlns:l="http://no/link" s:schemaLocation="http://no/a http://no/b"><y l:href="/a"/><z id="http://h/b">text http://no/</z><w>http://h/c</w><v href="#no">no</v></x>`
	want := []string{"xml http://h/a", "xml http://h/b", "xml http://h/c"}
	if diff := cmp.Diff(want, found(t, &Document{URL: "http://h/", MIME: "application/docbook+xml", Body: []byte(in)}, Options{Sources: FromXML})); diff != "" {
		t.Error(diff)
	}
}

func TestMediaType(t *testing.T) {
	nosniff := http.Header{"X-Content-Type-Options": {"NoSniff"}}
	const page, png = "<!DOCTYPE html><p>", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	for _, tt := range []struct {
		mime, body string
		header     http.Header
		want       string
	}{
		{"", page, nil, "text/html"},
		{"*/*", page, nil, "text/html"},
		{"unknown/unknown", page, nosniff, "text/html"},
		{"", "just text", nil, "text/plain"},
		{"", "<?xml version='1.0'?><rss/>", nil, "application/rss+xml"},
		{"", `{"a":1}`, nil, "application/json"},
		{"application/octet-stream", page, nil, "text/html"},
		{"application/octet-stream", page, nosniff, "application/octet-stream"},
		{"application/octet-stream", png, nil, "image/png"},
		{"binary/octet-stream", png, nil, "image/png"},
		{"application/octet-stream", officeFile(t, "word/document.xml", strings.Repeat("x", 2*sniffLen)), nil, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
		{"application/zip", officeFile(t, "META-INF/container.xml", ""), nil, "application/epub+zip"},
		{"application/zip", officeFile(t, "photo.jpg", ""), nil, "application/zip"},
		{"application/zip", officeFile(t, "xl/workbook.xml", ""), nosniff, "application/zip"},
		{"text/plain", page, nil, "text/plain"},
		{"text/plain", png, nil, "image/png"},
		{"text/plain", "\x00\x01\x02", nil, "application/octet-stream"},
		{"text/plain", "\xff\xfea\x00", nil, "text/plain"},
		{"text/plain", png, nosniff, "text/plain"},
		{"text/html", " <!-- x --><?xml version='1.0'?>\n<rss version='2.0'>", nil, "text/xml"},
		{"text/html", "<feed>", nil, "text/xml"},
		{"text/html", "<feedback>", nil, "text/html"},
		{"text/html", "<!-- <rss> ", nil, "text/html"},
		{"text/html", "<rss>", nosniff, "text/html"},
		{"text/html", png, nil, "text/html"},
		{"text/xml", string(gzipped("<urlset/>")), nil, "application/gzip"},
		{"image/png", page, nil, "image/png"},
	} {
		t.Run(fmt.Sprintf("%s %.8q %d %s", tt.mime, tt.body, len(tt.header), tt.want), func(t *testing.T) {
			if got := MediaType(&Document{MIME: tt.mime, Body: []byte(tt.body), Header: tt.header}); got != tt.want {
				t.Errorf("%s %.20q: %s, want %s", tt.mime, tt.body, got, tt.want)
			}
		})
	}
	// A sitemap that is stored compressed, and called XML.
	doc := &Document{URL: "http://h/", MIME: "application/xml", Body: gzipped("<urlset><loc>http://h/a</loc></urlset>")}
	if got := found(t, doc, Options{}); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// What a sheet is read as.
func TestSheetEncodings(t *testing.T) {
	for _, tt := range []struct{ charset, body string }{
		{"", `a{b:url(é)}`},
		{"iso-8859-1", "a{b:url(\xe9)}"},
		{"", "@charset \"iso-8859-1\"; a{b:url(\xe9)}"},
		{"", "\xff\xfe" + utf16le("a{b:url(é)}")},
		{"koi8-r", "\xef\xbb\xbfa{b:url(é)}"},
	} {
		t.Run(tt.body, func(t *testing.T) {
			if got := found(t, &Document{URL: "http://h/", MIME: "text/css", Charset: tt.charset, Body: []byte(tt.body)}, Options{}); len(got) != 1 || got[0] != "css http://h/%C3%A9" {
				t.Errorf("%s %q: %q", tt.charset, tt.body, got)
			}
		})
	}
}

// A guess is the same each time, and takes a window of the document.
func TestDetect(t *testing.T) {
	text := "\xcf\xf0\xe8\xe2\xe5\xf2, \xea\xe0\xea \xe4\xe5\xeb\xe0? \xdd\xf2\xee \xf1\xf2\xf0\xe0\xed\xe8\xf6\xe0 \xed\xe0 \xf0\xf3\xf1\xf1\xea\xee\xec \xff\xe7\xfb\xea\xe5. "
	for _, b := range []string{text, strings.Repeat("<p>plain</p>", 10_000) + text, text + strings.Repeat(" ", 1<<20)} {
		for range 20 {
			if _, name := detect([]byte(b)); name != "windows-1251" {
				t.Fatalf("%.20q, %d bytes: %s", b, len(b), name)
			}
		}
	}
	for in, want := range map[string]string{"": "windows-1252", "caf\xe9": "windows-1252", "café": "utf-8", "\x1b$B$\"$\"\x1b(B": "iso-2022-jp"} {
		t.Run(in, func(t *testing.T) {
			if _, name := detect([]byte(in)); name != want {
				t.Errorf("%q: %s, want %s", in, name, want)
			}
		})
	}
}

// Modules are told the encoding in which links were read.
func TestModuleCharset(t *testing.T) {
	russian := strings.Repeat("\xcf\xf0\xe8\xe2\xe5\xf2 ", 9)
	for _, tt := range []struct{ mime, charset, body, want string }{
		{"text/html", "", russian, "windows-1251"},
		{"text/html", "martian", "<meta charset=koi8-r>" + russian, "koi8-r"},
		{"text/plain", "", "<meta charset=koi8-r>" + russian, "windows-1251"},
		{"text/plain", "koi8-r", russian, "koi8-r"},
		{"image/png", "", russian, ""},
	} {
		t.Run(tt.mime+" "+tt.charset, func(t *testing.T) {
			if got := ModuleCharset(&Document{MIME: tt.mime, Charset: tt.charset, Body: []byte(tt.body)}); got != tt.want {
				t.Errorf("%s %s: %q, want %q", tt.mime, tt.charset, got, tt.want)
			}
		})
	}
}

func FuzzJSON(f *testing.F) {
	fuzz(f, "application/json", `{"url":"\u00e9","a":["http://h/\ud83d\ude00"]}`, `"\`)
}

func FuzzPDF(f *testing.F) { fuzz(f, "application/pdf", onePage) }

func FuzzUntyped(f *testing.F) {
	fuzz(f, "", "<!DOCTYPE html><a href=x>", "\xff\xfe<\x00a\x00", "%PDF-1.4", "\x1f\x8b\x08", "{}", "\x1b$B$\"\x1b(B")
}

func FuzzHeader(f *testing.F) {
	f.Add(`<a>; rel="next"; title*=UTF-8''%c3, <b>`, `0;url="x"`)
	f.Fuzz(func(t *testing.T, link, refresh string) {
		doc := &Document{URL: "http://h/", Header: http.Header{"Link": {link}, "Refresh": {refresh}, "Location": {link}}, MIME: "image/png", Body: []byte("x")}
		page := Find(doc, Options{MaxLinks: 50})
		for _, l := range page.Links {
			if !strings.Contains(l.Ref, "://") || len(l.Text) > DefaultMaxText {
				t.Fatalf("%+v", l)
			}
		}
	})
}

// Every document has an encoding that is known, whatever it says, and a reference
// goes through it to a URL.
func FuzzEncoding(f *testing.F) {
	f.Add([]byte("<meta charset=koi8-r>\xc1"), "", "?é€Д😀")
	f.Add([]byte("<?xml encoding='big5'?>"), "iso-2022-jp", "x?\u3042#y")
	f.Fuzz(func(t *testing.T, body []byte, label, ref string) {
		enc, name := documentEncoding(&Document{Charset: label, Body: body}, sortHTML)
		if again, _ := lookup(name); enc == nil || again == nil {
			t.Fatalf("%q %q: %q", body, label, name)
		}
		fi := &finder{encoding: enc}
		out := fi.encodeQuery(validText(ref))
		if i := strings.IndexByte(out, '?'); i >= 0 && !isASCII(out[i:]) && enc != nil && !strings.Contains(out[:i], "#") {
			t.Fatalf("%q in %s: %q", ref, name, out)
		}
	})
}

func init() {
	for name, mime := range map[string]string{"text": "text/plain", "json": "application/json", "feed": "text/xml", "untyped": ""} {
		for _, piece := range []string{"://", "www.", "a://", "(((", "\"\\", "\"url\":\"", "<a xml:base='b'>", "<item><title>x", "<!--", "\xe9<"} {
			hostile[fmt.Sprintf("%s of %s", name, piece)] = func(n int) (string, string) {
				head := ""
				if name == "feed" {
					head = "<feed>"
				}
				return mime, head + strings.Repeat(piece, n)
			}
		}
	}
}

// TestLinksOfPDF: a URI without a scheme is what viewers take it for, and others are relative to the document's own base.
func TestLinksOfPDF(t *testing.T) {
	for _, c := range []struct{ name, base, uri, want string }{
		{"relative", "", "rel", "http://h/d/rel"},
		{"host", "", "www.example.org", "http://www.example.org/"},
		{"host and path", "", "Docs.Example.ORG/x?y", "http://docs.example.org/x?y"},
		{"host and port", "", "www.example.org:8080?a", "http://www.example.org:8080/?a"},
		{"one dot", "", "example.org/x", "http://h/d/example.org/x"},
		{"file", "", "report.v2.pdf", "http://h/d/report.v2.pdf"},
		{"folder above", "", "../www.example.org", "http://h/www.example.org"},
		{"mail", "", "www.a.b.org@example.org", "http://h/d/www.a.b.org@example.org"},
		{"base", "https://e.org/x/", "rel", "https://e.org/x/rel"},
		{"relative base", "sub/", "rel", "http://h/d/sub/rel"},
		{"bad base", "http://[", "rel", "http://h/d/rel"},
		{"base and host", "https://e.org/x/", "www.example.org/", "http://www.example.org/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := strings.Replace(strings.Replace(onePage, "http://h/in-pdf", c.uri, 1), "/Catalog", "/Catalog/URI<</Base("+c.base+")>>", 1)
			page := Find(&Document{URL: "http://h/d/a.pdf", MIME: "application/pdf", Body: []byte(body)}, Options{})
			if len(page.Links) == 0 {
				t.Fatal("no link")
			}
			if got, _, err := page.Base.Resolve(page.Links[0].Ref); got != c.want || err != nil {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// A PDF file that nobody can read is counted as what it is.
func TestUnreadablePDF(t *testing.T) {
	for name, test := range map[string]struct{ body, reason string }{
		"encrypted": {"%PDF-1.4 1 0 obj <</Filter/Secret>> endobj trailer <</Encrypt 1 0 R>>", ReasonEncrypted},
		"none":      {"<html>", ReasonUndecodable},
	} {
		t.Run(name, func(t *testing.T) {
			page := Find(&Document{URL: "http://h/", MIME: "application/pdf", Body: []byte(test.body)}, Options{})
			if len(page.Links) != 0 || len(page.Refused) != 1 || page.Refused[test.reason] != 1 {
				t.Errorf("%v, refused %v, want %s", page.Links, page.Refused, test.reason)
			}
		})
	}
}
