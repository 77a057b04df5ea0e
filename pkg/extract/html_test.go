package extract

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mercator/pkg/base/costtest"
	"mercator/pkg/base/needs"
	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
)

// outcome is all that engines have to agree on.
type outcome struct {
	Base     string
	Nofollow bool
	Links    []string
}

func (f *finder) outcome() outcome {
	base, _, _ := f.page.Base.Resolve("")
	o := outcome{Base: base, Nofollow: f.page.Nofollow}
	for _, l := range f.found.links() {
		u, _, err := f.page.Base.Resolve(l.Ref)
		if err != nil {
			u = "! " + l.Ref
		}
		o.Links = append(o.Links, fmt.Sprintf("%s %s %v %q", l.Kind, u, l.Nofollow, l.Text))
	}
	return o
}

// differ compares the lexer with the tree. Declined: the lexer left the page to the
// tree. Beyond: the tree cannot be built.
func differ(f *finder, body []byte, charset string) (diff string, declined, beyond bool) {
	doc := &Document{URL: "http://h/d/", MIME: "text/html", Charset: charset, Body: body}
	f.beginDocument(doc, Options{})
	f.again(doc)
	if !f.flatHTML(doc) {
		return "", true, false
	}
	fast := f.outcome()
	f.again(doc)
	if !f.treeHTML(doc) {
		return "", false, true
	}
	return cmp.Diff(f.outcome(), fast), false, false
}

// oddPieces are what pages are made of to find where the engines differ: each tag that
// tree construction has a rule for, and each oddity of tokenization.
var oddPieces = func() []string {
	w := []string{
		"text", " ", "&amp;", "&copy", "&notit;", "&#x41;", "&#128;", "x\x00y", "\r\n", "<", "</", "</ x>", "<>", "</>", "<?pi>", "<!doctype html>", "<!x>", "<!-->", "<!--->",
		"<!-- <a href=no> -->", "<!-- x --!>", "<!--x--!-->", "<![CDATA[", "]]>", "<![CDATA[<a href=c>&amp;]]>",
		"<script>", "</script>", "<!--", "-->", "<script><!--<script>", "<style>", "</style>", "<style>a{b:url(s)}</style>", "<plaintext>", "</plaintext>",
		"<a href=1>", "<a href=2>", "<a href='3?a&amp;b&copy=c'>", "<a href=4 rel=nofollow>", "<a>", "<a name=x>", "<A HREF=\"5\"title=x / rel='a NOFOLLOW'>", "<a/href=6>", "<a href=7 href=8>", "<a =href=9 href>",
		"<img src=i alt=alt>", "<image src=i2>", "<img src=i/>", "<img srcset='a 1x, b 2x' data-src=x/y>", "<iframe src=f>", "</iframe>", "<base href=b/>", "<base target=x>",
		"<link rel=next href=l>", "<link rel='stylesheet x' href=m>", "<meta name=robots content=nofollow>", "<meta http-equiv=refresh content='1;url=r'>", "<meta property=og:image content=o>",
		"<form action=f1>", "<form action=f2 method=post>", "<form action=f3>", "<body background=bg>", "<body style='a:url(bs)'>", "<html style='a:url(hs)'>", "<head>", "<td background=td>", "<tr background=tr>", "<table background=tb>",
		"<frame src=fr>", "<frameset>", "<svg>", "<svg/>", "<math>", "<path d=x />", "<use xlink:href=u#x />", "<use href=#x>", "<a xlink:href=sa>", "<title>", "</title>", "<desc>", "<foreignObject>", "<mi>", "<svg href=sv>", "<math href=ma style='a:url(mb)'>", "<mo href=mc>", "<path data-src=la/z href=pp>", "<annotation-xml>",
		"<input type=image src=in>", "<input type=hidden data-src=a/b>", "<input>", "<object data=ob>", "<p style='background:url(p)'>", "<b style='background:url(p2)'>", "<td style='a:url(td2)'>", "<select style='a:url(sel)'>",
		"<noscript>", "<template>", "<blockquote cite=q>", "<q cite=q2>", "<audio src=au>", "<video src=v poster=po>", "<source src=so>", "<embed src=em>", "<area href=ar>",
		"<applet code=x archive='y,z' codebase=w>", "<custom-element>", "</custom-element>", "<font color=x>", "<br/>", "</br>",
	}
	for _, n := range markup.Names() {
		w = append(w, "<"+n+">", "</"+n+">")
	}
	return w
}()

// sane are the pieces that most pages are made of: pages of the odd ones alone are nearly
// all declined.
var sane = []string{
	"text ", "<b>bold</b>", "<p>", "</p>", "<p>one</p>", "<div>", "</div>", "<div><p>two</div>", "<ul><li>a<li>b</ul>", "<h1>head</h1>", "<span>s</span>", "<br>", "<img src=i9 alt=x>",
	"<a href=%d>text</a>", "<a href=%d><b>bold</b> more</a>", "<a href=%d><div>block</div>two</a>", "<a href=%d><img src=j%d alt=pic></a>", "<a href=%d>open", "</a>", "<a name=n%d>", "<a href=%d>",
	"<table><tr><td>", "</td><td>", "</td></tr>", "<tr><th>", "</table>", "<thead>", "</thead>", "<tbody>", "<caption>", "</caption>", "<button>", "</button>", "<select><option>x</select>",
	"<svg><path d='' /><title>t</title></svg>", "<svg><a href=%d>t</a></svg>", "<svg><a href=%d /><text>t</text></svg>", "<svg><a href=%d>t</svg>", "<svg><style>a{b:url(%d)}</style></svg>", "<math><mi>x</mi></math>", "<form action=f%d>", "</form>", "<noscript><img src=n%d></noscript>", "<script>x<y</script>",
	"<template><a href=%d></template>", "<li>", "<dd>", "<i>", "</i>", "<em>", "</em>", "<label>", "</label>", "<h2>", "</h2>", "<object>", "</object>",
}

func madePage(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(2) == 0 {
		b.WriteString("<!doctype html><html><head><title>t</title></head><body>")
	}
	for range 1 + r.IntN(25) {
		if r.IntN(6) == 0 {
			b.WriteString(oddPieces[r.IntN(len(oddPieces))])
			continue
		}
		s := sane[r.IntN(len(sane))]
		for strings.Contains(s, "%d") {
			s = strings.Replace(s, "%d", fmt.Sprint(r.IntN(8)), 1)
		}
		b.WriteString(s)
	}
	return b.String()
}

// Whatever a page is made of, the lexer finds what the tree finds, or declines.
func TestEnginesAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var f finder
	n, declines := 20_000, 0
	for range n {
		body := madePage(r)
		diff, declined, _ := differ(&f, []byte(body), "utf-8")
		if diff != "" {
			t.Fatalf("%q: -tree +lexer\n%s", body, diff)
		}
		if declined {
			declines++
		}
	}
	t.Logf("%d of %d pages declined", declines, n)
	if declines > n*3/4 {
		t.Errorf("%d of %d pages declined: too few are compared", declines, n)
	}
}

// The same, on the documentation that is installed here, in part or with
// MERCATOR_LONG in full.
func TestEnginesAgreeOnDocumentation(t *testing.T) {
	var files []string
	filepath.WalkDir("/usr/share/doc", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && (strings.HasSuffix(path, ".html") || strings.HasSuffix(path, ".htm")) {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		needs.Skip(t, "no documentation is installed")
	}
	step := 1
	if os.Getenv("MERCATOR_LONG") == "" {
		step = 1 + len(files)/200
	}
	var f finder
	pages, declines, beyond, links := 0, 0, 0, 0
	for i := 0; i < len(files); i += step {
		body, err := os.ReadFile(files[i])
		if err != nil || len(body) > DefaultMaxBody {
			continue
		}
		diff, d, b := differ(&f, body, "")
		if diff != "" {
			t.Errorf("%s: -tree +lexer\n%s", files[i], diff)
		}
		pages++
		links += len(f.found.all)
		if d {
			declines++
			t.Logf("declined: %s", files[i])
		}
		if b {
			beyond++
		}
	}
	t.Logf("%d pages, %d links: %d left to the tree, %d beyond it", pages, links, declines, beyond)
}

// Wherever the window over a page ends that has to be decoded, the lexer finds what it
// finds in the page as a whole.
func TestHTMLWindow(t *testing.T) {
	const window = 64 << 10
	r := rand.New(rand.NewPCG(5, 6))
	var f finder
	find := func(body, charset string) (outcome, bool) {
		doc := &Document{URL: "http://h/d/", MIME: "text/html", Charset: charset, Body: []byte(body)}
		f.beginDocument(doc, Options{})
		f.again(doc)
		ok := f.flatHTML(doc)
		return f.outcome(), ok
	}
	for i := range 600 {
		page := madePage(r)
		if i%100 == 0 {
			page += "<plaintext>"
		}
		cut := r.IntN(len(page) + 1)
		rest := strings.Repeat(".", window-len("€")-cut) + page + " <a href=end>"
		cutOutcome, cutOK := find("\x80"+rest, "windows-1252")
		whole, ok := find("€"+rest, "utf-8")
		if ok != cutOK || ok && cmp.Diff(whole, cutOutcome) != "" {
			t.Fatalf("%q, cut at %d: declined %v, %v: -whole +cut\n%s", page, cut, !ok, !cutOK, cmp.Diff(whole, cutOutcome))
		}
	}
}

// FuzzEngines holds the lexer against the tree.
func FuzzEngines(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		f.Add([]byte(madePage(r)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var fi finder
		if diff, _, _ := differ(&fi, body, "utf-8"); diff != "" {
			t.Fatalf("%q: -tree +lexer\n%s", body, diff)
		}
	})
}

// Pages made to cost a tree much, as large as those that are left to one.
func TestCostlyTrees(t *testing.T) {
	fonts := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "<b %c>", 'a'+rune(i))
		}
		return b.String()
	}
	for name, made := range map[string]func(n int) string{
		"blocks within some formatting elements": func(n int) string { return "<p>" + fonts(50) + strings.Repeat("<p>x", n) },
		"blocks within more":                     func(n int) string { return "<p>" + fonts(70) + strings.Repeat("<p>x", n) },
		"blocks within many":                     func(n int) string { return "<p>" + fonts(90) + strings.Repeat("<p>x", n) },
		"behind what looks like a comment":       func(n int) string { return "<script><!--</script><p>" + fonts(90) + strings.Repeat("<p>x", n) },
		"behind what looks like a markup.Tag":    func(n int) string { return "<title><x y=\"</title><p>" + fonts(90) + strings.Repeat("<p>x", n) },
		"behind a script in a script": func(n int) string {
			return "<script><!--<script></script><!--</script>--><!--</script><p>" + fonts(90) + strings.Repeat("<p>x", n)
		},
		"behind SVG's CDATA": func(n int) string { return "<svg><![CDATA[><!--]]></svg><p>" + fonts(90) + strings.Repeat("<p>x", n) },
		"behind SVG left by a markup.Tag of HTML": func(n int) string {
			return "<svg><p><title><x y=\"</title><p>" + fonts(90) + strings.Repeat("<p>x", n)
		},
		"behind noscript in a select": func(n int) string {
			return "<select><noscript><!--</noscript></select><p>" + fonts(90) + strings.Repeat("<p>x", n)
		},
		"end tags that do not count": func(n int) string {
			return "<p>" + fonts(90) + "<object>" + strings.Repeat("</b>", 90) + "</object>" + strings.Repeat("<p>x", n)
		},
		"end tags that count for less": func(n int) string {
			return strings.Repeat("<i><div><div><div><div><div><div><div><div><div></i></div></div></div></div></div></div></div></div></div>", 5) + strings.Repeat("<p>x", n)
		},
		"attributes made again": func(n int) string {
			return "<p><b" + manyAttributes(100) + ">" + strings.Repeat("<p>x", n)
		},
		"attributes of a made again":    func(n int) string { return "<p><a" + manyAttributes(100) + ">" + strings.Repeat("<p>x", n) },
		"adoption":                      func(n int) string { return strings.Repeat("<b><p></b>", n) },
		"formatting elements left open": func(n int) string { return strings.Repeat("<p><i a=1></p>", n) },
		"markers left behind":           func(n int) string { return "<table><tr>" + strings.Repeat("<td><object><b></b></i></td>", n) },
		"moved out of a table":          func(n int) string { return "<table>" + strings.Repeat("<a href=x>y", n) },
		"text moved out of a table":     func(n int) string { return "<table>" + strings.Repeat("x<tr>", n) },
		"unknown end tags":              func(n int) string { return strings.Repeat("<x>", 100) + strings.Repeat("</y>", n) },
		"lists":                         func(n int) string { return strings.Repeat("<ul><li>", 50) + strings.Repeat("<li>", n) },
		"attributes":                    func(n int) string { return "<a " + strings.Repeat("b=1 ", n) + ">" },
	} {
		t.Run(name, func(t *testing.T) {
			var f finder
			low, high := 1, 1<<20
			doc := func(n int) *Document {
				return &Document{URL: "http://h/", MIME: "text/html", Charset: "utf-8", Body: []byte(made(n))}
			}
			for high-low > 1 { // the largest that is left to a tree
				if mid := (low + high) / 2; len(doc(mid).Body) <= maxTree {
					low = mid
				} else {
					high = mid
				}
			}
			d := doc(low)
			if len(d.Body) > maxTree {
				t.Fatalf("%s: %d bytes at least", name, len(d.Body))
			}
			f.beginDocument(d, Options{})
			f.again(d)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			built := false
			took := costtest.Of(func() { built = f.treeHTML(d) })
			runtime.ReadMemStats(&after)
			memory := after.TotalAlloc - before.TotalAlloc
			t.Logf("%s: %d bytes, built %v, %v, %d MB", name, len(d.Body), built, took, memory/1e6)
			if took > 10*time.Second || memory > 4e6 {
				t.Errorf("%s: %v and %d MB for %d bytes", name, took, memory/1e6, len(d.Body))
			}
		})
	}
}

// The open elements that are kept of SVG and MathML are bounded, whatever they are: each
// end tag is looked for among them.
func TestOpenForeignElements(t *testing.T) {
	for _, open := range []string{"<math><mi>", "<svg><g><title>", "<svg><g>"} {
		var f finder
		d := &Document{URL: "http://h/", MIME: "text/html", Charset: "utf-8", Body: []byte(strings.Repeat(open, 1000) + "<p><a href=x>")}
		f.again(d)
		f.flatHTML(d)
		if n := cap(f.html.flat.inside); n > mostOpen {
			t.Errorf("%s: room for %d open elements, want at most %d", open, n, mostOpen)
		}
		if len(f.found.all) != 1 || f.found.kinds[f.found.all[0].kind] != linkkind.A {
			t.Errorf("%s: %v, want the link of the a element behind", open, f.found.all)
		}
	}
	var f finder
	if diff, declined, _ := differ(&f, []byte("<svg>"+strings.Repeat("<path d=x />", 1000)+"</svg><a href=x>"), "utf-8"); declined || diff != "" {
		t.Errorf("elements that close themselves: declined %v, %s", declined, diff)
	}
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " a%d", i)
	}
	return b.String()
}
