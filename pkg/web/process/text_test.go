package process

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"

	"mercator/pkg/base/costtest"
	"mercator/pkg/base/must"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
)

// TestLongOffice: the last words of a long document are there; a small file that inflates to more is cut.
func TestLongOffice(t *testing.T) {
	last := "<w:p><w:t>the last words</w:t></w:p>"
	rng := rand.New(rand.NewPCG(1, 2))
	var long strings.Builder
	for long.Len() < maxInflated {
		fmt.Fprintf(&long, `<w:p w:rsidR="%016x" w:rsidRDefault="%016x"/>`, rng.Uint64(), rng.Uint64())
	}
	for name, c := range map[string]struct{ xml, want string }{
		"long":   {long.String() + last, "the last words"},
		"a bomb": {strings.Repeat(" ", maxInflated) + last, ""},
	} {
		doc := &Document{MIME: typeDOCX, Body: archive(t, "word/document.xml", c.xml)}
		if got, err := Text(doc, 0); got != c.want || err != nil {
			t.Errorf("%s, %d bytes: %q, %v, want %q", name, len(doc.Body), got, err, c.want)
		}
	}
}

// archive makes a zip file of names and contents in turn.
func archive(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err == nil {
			_, err = io.WriteString(w, files[i+1])
		}
		must.OK(t, err)
	}
	must.OK(t, z.Close())
	return b.Bytes()
}

const word = `<?xml version="1.0"?><w:document><w:body><w:p><w:pPr><w:pStyle w:val="Title"/></w:pPr><w:r><w:t>One</w:t></w:r><w:r><w:t xml:space="preserve"> &amp; two</w:t></w:r></w:p>
<w:p><w:r><w:instrText>PAGE</w:instrText></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p></w:body></w:document>`

const writer = `<office:document-content><office:styles><style:style style:name="x"/></office:styles><office:body><office:text><text:h>Head</text:h>
<text:p>one<text:s text:c="2"/>two <text:span>three</text:span><text:line-break/>four</text:p></office:text></office:body></office:document-content>`

const container = "<container><rootfiles><rootfile full-path='EPUB/p.opf'/></rootfiles></container>"

// book makes a book of three pages.
func book(t testing.TB, spine string) string {
	page := "<html xmlns='http://www.w3.org/1999/xhtml'><title>no</title><p>"
	return string(archive(t, "META-INF/container.xml", container, "META-INF/encryption.xml", "<enc:CipherReference URI='EPUB/secret.xhtml'/>", "EPUB/a%20b.xhtml", page+"no", "EPUB/a b.xhtml", page+"one<a href='x.xhtml'/><a href='http://h/x'/>",
		"EPUB/2.html", page+"two é", "EPUB/secret.xhtml", page+"no", "EPUB/p.png", "no", "EPUB/p.opf", "<manifest><item id='1' href='a%20b.xhtml' media-type='application/xhtml+xml'/><item id='2' href='../EPUB/2.html#x' media-type='application/xhtml+xml'/>"+
			"<item id='secret' href='secret.xhtml' media-type='application/xhtml+xml'/><item id='picture' href='p.png' media-type='image/png'/></manifest><spine>"+spine+"</spine>"))
}

func TestOfficeLinks(t *testing.T) {
	for mime, c := range map[string]struct{ body, want string }{
		typeDOCX: {string(archive(t, "word/_rels/document.xml.rels", `<Relationship Target="http://h/?a=1&amp;b" TargetMode="External"/><Relationship Target="styles.xml"/><Relationship TargetMode=External Target=/x />`)), "http://h/?a=1&b /x"},
		typePPTX: {string(archive(t, "ppt/slides/_rels/slide1.xml.rels", `<Relationship Target="x.pptx" TargetMode="External"></Relationship>`)), "x.pptx"},
		typeODT:  {string(archive(t, "content.xml", `<text:a xlink:href="../x.odt"/><text:a xlink:href="#part"/><draw:image xlink:href="Pictures/1.png"/><draw:a xlink:href="http://h/"/>`)), "x.odt http://h/"},
		typeEPUB: {book(t, "<itemref idref='1'/>"), "http://h/x"},
	} {
		t.Run(mime, func(t *testing.T) {
			var got []string
			if err := OfficeLinks(&Document{MIME: mime, Body: []byte(c.body)}, func(ref string) { got = append(got, ref) }); err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("%s: %q, %v, want %q", mime, got, err, c.want)
			}
		})
	}
}

// TestOfficeWork: what an archive repeats is no more work than its bytes, and what it inflates to is bounded over all its files.
func TestOfficeWork(t *testing.T) {
	text := func(mime string, body []byte, most int) {
		if s, err := Text(&Document{MIME: mime, Body: body}, 64<<20); err != nil || len(s) > most {
			t.Fatalf("%s: %d bytes of text, %v, want at most %d", mime, len(s), err, most)
		}
	}
	for name, make := range map[string]func(n int) func(){
		"slides": func(n int) func() {
			var files []string
			for i := range n {
				files = append(files, fmt.Sprintf("ppt/slides/slide%d.xml", i), "<a:t>a")
			}
			body := archive(t, files...)
			return func() { text(typePPTX, body, 2*n) }
		},
		"spine": func(n int) func() {
			body := []byte(book(t, strings.Repeat("<itemref idref='1'/>", 20*n)))
			return func() { text(typeEPUB, body, 3) }
		},
		"shared string": func(n int) func() {
			body := archive(t, "xl/sharedStrings.xml", "<si><t>a</t></si>"+strings.Repeat("<si/>", 10*n), "xl/worksheets/sheet1.xml", strings.Repeat("<c t='s'><v>0</v></c>", 10*n))
			return func() { text(typeXLSX, body, 20*n) }
		},
		"shared data": func(n int) func() {
			doc := &Document{MIME: typeDOCX, Body: sharing(t, n)}
			return func() { _, _ = Text(doc, 0) }
		},
	} {
		t.Run(name, func(t *testing.T) { costtest.Linear(t, 250, make) })
	}
	slides := make([]string, 0, 40)
	for i := range 20 {
		slides = append(slides, fmt.Sprintf("ppt/slides/slide%d.xml", i), "<a:t>"+strings.Repeat("a ", 1<<20))
	}
	text(typePPTX, archive(t, slides...), maxInflated)
}

// sharing makes an archive of n files that share their data, which is n empty blocks.
func sharing(t testing.TB, n int) []byte {
	data := strings.Repeat("\x00\x00\x00\xFF\xFF", n) + "\x01\x00\x00\xFF\xFF"
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range n {
		w, err := z.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("word/header%d.xml", i), Method: zip.Deflate, CompressedSize64: uint64(len(data))})
		must.OK(t, err)
		if i == 0 {
			_, err = io.WriteString(w, data)
			must.OK(t, err)
		}
	}
	must.OK(t, z.Close())
	entries := bytes.SplitAfter(b.Bytes(), []byte("PK\x01\x02"))
	for _, e := range entries[1:] {
		clear(e[38:42]) // all begin where the first does
	}
	return b.Bytes()
}

func TestText(t *testing.T) {
	for _, c := range []struct{ name, mime, body, want string }{
		{"blocks", "text/html", "<title> A  title</title><style>no{}</style><body>one<p>two <b>three</b>\n four<br>five<script>no<p></script><ul><li>six<li>seven</ul>", "A title\none\ntwo three four\nfive\nsix\nseven"},
		{"cells", "text/html", "<table><tr><th>a</th><td>b<td>c</tr><tr><td>d</table>", "a\nb c\nd"},
		{"joined", "text/html", "w<i>or</i>d<!-- no -->s", "words"},
		{"pre", "text/html", "x<pre>a\n  b\n\n\n\nc</pre> y z", "x\na\nb\n\nc\ny z"},
		{"hidden", "text/html", "a<svg><title>no</title><svg>no</svg>no</svg><template><p>no</template><noscript>b<b>c</b></noscript>", "abc"},
		{"entities", "text/html", "a&nbsp;b&lt;c &eacute;", "a b<c é"},
		{"charset", "text/html", "<meta charset=windows-1252>\x93q\x94", "“q”"},
		{"void", "text/html", "<object/>x</object>", "x"},
		{"empty", "text/html", "", ""},
		{"control", "text/html", "a\x00\x1bb", "a b"},
		{"plain", "text/plain", "one  two\n\n\nthree\xff\n", "one two\n\nthree\uFFFD"},
		{"SVG", typeSVG, `<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x"><svg xmlns="http://www.w3.org/2000/svg"><title>A &amp; title</title><desc>One <b>two</b></desc><metadata>no</metadata><style>no{}</style><script>no</script><g id="no">no<title/><text x="1">three <tspan>four</tspan></text><text><title>tip</title><![CDATA[five <]]></text></g></svg>`, "A & title\nOne two\nthree four\ntip\nfive <"},
		{"SVG with HTML", typeSVG, "<svg><foreignObject><style>no</style><p>one</p><p>two</p></foreignObject><desc/><path d='no'/><text>three</text></svg>", "one\ntwo\nthree"},
		{"SVG of shapes", typeSVG, "<svg><path d='M0 0'/></svg>", ""},
		{"SVG that is cut", typeSVG, "<svg><title>one", "one"},
		{"no SVG", typeSVG, "\x89PNG\x00", ""},
		{"pptx", typePPTX, string(archive(t, "ppt/slides/slide10.xml", "<a:p><a:t>ten</a:t></a:p>", "ppt/slides/slide2.xml", "<a:p><a:r><a:t>t</a:t></a:r><a:r><a:t>wo</a:t><a:br/><a:t>more</a:t></a:r></a:p>",
			"ppt/slideLayouts/slideLayout1.xml", "<a:p><a:t>no</a:t></a:p>", "ppt/notesSlides/notesSlide1.xml", "<a:p><a:t>note</a:t></a:p>", "ppt/charts/chart1.xml", "<c:strCache><c:pt><c:v>East</c:v></c:pt></c:strCache><c:numCache><c:v>1</c:v></c:numCache>")), "two\nmore\nten\nnote\nEast"},
		{"xlsx", typeXLSX, string(archive(t, "xl/worksheets/sheet1.xml", `<x:row><x:c t="s"><x:v>1</x:v></x:c><c t='inlineStr'><is><t>in</t></is></c><c t="str"><f>A1</f><v>for&amp;mula</v></c></x:row><row><c><v>2019</v></c><c><v>0.30000000000000004</v></c><c><v>1234567890123456</v></c><c t="b"><v>1</v></c><c t="e"><v>#REF!</v></c><c t="s"><v>2</v></c><c t="s"><v>-1</v></c><c t="s"><v>0</v></c></row>`,
			"xl/sharedStrings.xml", "<si><t>zero</t></si><si><r><t>on</t></r><r><t>e</t></r><rPh><t>no</t></rPh></si>", "xl/workbook.xml", `<sheets><sheet name="A &lt; B"/></sheets>`, "xl/comments/comment1.xml", "<text><t>remark</t></text>")), "A < B\none in for&mula\n2019 0.3 1234567890123456 zero\nremark"},
		{"text box", typeDOCX, string(archive(t, "word/document2.xml", "<w:p><w:t>a</w:t><mc:AlternateContent><mc:Choice><w:p><w:t>box</w:t></w:p></mc:Choice><mc:Fallback><w:p><w:t>box</w:t></w:p></mc:Fallback></mc:AlternateContent><w:moveFrom><w:t>no</w:t></w:moveFrom></w:p>", "word/footer1.xml", "<w:t>co</w:t><w:noBreakHyphen/><w:ruby><w:rt><w:t>no</w:t></w:rt><w:rubyBase><w:t>op</w:t></w:rubyBase></w:ruby>", "word/header1.xml", "<w:t>head</w:t>")), "a\nbox\nhead\nco-op"},
		{"damaged part", typeDOCX, strings.Replace(string(archive(t, "word/document.xml", word, "word/header1.xml", "x")), "word/header1.xml\x00", "word/header1.xml\x99", 1), "One & two\na b\nc"},
		{"ods", typeODS, string(archive(t, "content.xml", "<table:table-row><table:table-cell><text:p>a</text:p></table:table-cell><table:table-cell><text:p>b</text:p></table:table-cell></table:table-row><table:table-row><text:p>c</text:p></table:table-row>")), "a b\nc"},
		{"odp template", odf + "presentation-template", string(archive(t, "content.xml", "<text:tracked-changes><text:p>no</text:p></text:tracked-changes><draw:page><text:p>a</text:p></draw:page>")), "a"},
		{"epub", typeEPUB, book(t, "<itemref idref='2'/><itemref idref='no'/><itemref idref='1'/><itemref idref='2'/><itemref idref='secret'/><itemref idref='picture'/>"), "two é\none"},
		{"epub whose package is a pattern", typeEPUB, string(archive(t, "META-INF/container.xml", "<rootfile full-path='*.opf'/>", "p.opf", "<item id='1' href='2.html' media-type='text/html'/><itemref idref='1'/>", "2.html", "no")), ""},
		{"docx", typeDOCX, string(archive(t, "x", "y", "word/document.xml", word, "word/footnotes.xml", "<w:p><w:t>note</w:t></w:p>")), "One & two\na b\nc\nnote"},
		{"UTF-16", typeDOCX, string(archive(t, "word/document.xml", "\xFF\xFE"+strings.Join(strings.Split("<w:t>one</w:t>", ""), "\x00")+"\x00")), "one"},
		{"remark and picture", typeODT, string(archive(t, "content.xml", "<text:p>a<office:annotation><dc:creator>no</dc:creator><text:p>b</text:p></office:annotation>c <draw:frame><svg:desc>no</svg:desc><draw:text-box><text:p>d</text:p></draw:text-box></draw:frame>e</text:p>")), "a\nb\nc\nd\ne"},
		{"odt", typeODT, string(archive(t, "content.xml", writer)), "Head\none two three\nfour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := &Document{MIME: c.mime, Body: []byte(c.body)}
			if c.name == "plain" {
				doc.Charset = "utf-8"
			}
			got, err := Text(doc, 0)
			if err != nil || got != c.want {
				t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
			}
			for max := 1; max < 30; max++ {
				if cutOff, err := Text(doc, max); err != nil || len(cutOff) > max {
					t.Errorf("%s: %d bytes, %v, want at most %d", c.name, len(cutOff), err, max)
				}
			}
		})
	}
	if _, err := Text(&Document{MIME: "image/png"}, 0); !errors.Is(err, ErrNoText) {
		t.Error(err)
	}
	for _, mime := range append(OfficeTypes(), typePDF) {
		if _, err := Text(&Document{MIME: mime, Body: []byte("nonsense")}, 0); err == nil {
			t.Errorf("%s: no error", mime)
		}
	}
}

func TestTitles(t *testing.T) {
	for mime, body := range map[string]string{
		typeDOCX: string(archive(t, "docProps/core.xml", "<cp:coreProperties><dc:title>The title</dc:title><dc:creator>no</dc:creator></cp:coreProperties>")),
		typeXLSX: string(archive(t, "package/services/metadata/core-properties/1.psmdcp", "<coreProperties><dc:title>The title</dc:title></coreProperties>")),
		typeEPUB: string(archive(t, "META-INF/container.xml", container, "EPUB/p.opf", "<metadata><dc:title>The title</dc:title><dc:title>Its second</dc:title></metadata>")),
		typeODT:  string(archive(t, "meta.xml", "<office:meta><dc:title>The title</dc:title></office:meta>")),
		typePDF:  "%PDF-1.4\ntrailer << /Info << /Title (The title) >> >>",
	} {
		t.Run(mime, func(t *testing.T) {
			if diff := cmp.Diff([]string{"title=The title"}, run(t, "page", &Document{MIME: mime, Body: []byte(body)})); diff != "" {
				t.Errorf("%s: %s", mime, diff)
			}
		})
	}
}

// Pieces of a long text join to the whole.
func TestTextModule(t *testing.T) {
	var want strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	body := want.String() + strings.Repeat("é", MaxValue)
	got := strings.ReplaceAll(strings.Join(run(t, "text", &Document{MIME: "text/plain", Charset: "utf-8", Body: []byte(body)}), "\n"), "text=", "")
	if strings.ReplaceAll(got, "\n", "") != strings.ReplaceAll(body, "\n", "") {
		t.Error("the pieces are not the text")
	}
}

// slowSimhash is the definition, word for word.
func slowSimhash(text string) uint64 {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	weights := make(map[string]int)
	for i := range words {
		if i+3 <= len(words) {
			weights[strings.Join(words[i:i+3], " ")]++
		}
	}
	if len(weights) == 0 && len(words) > 0 {
		weights[strings.Join(words, " ")] = 1
	}
	var h uint64
	for i := range 64 {
		sum := 0
		for feature, weight := range weights {
			if xxh3.HashString(feature)>>i&1 == 1 {
				sum += weight
			} else {
				sum -= weight
			}
		}
		if sum > 0 {
			h |= 1 << i
		}
	}
	return h
}

func TestSimhash(t *testing.T) {
	const fox = "The quick brown fox jumps over the lazy dog"
	for text, want := range map[string]uint64{
		"": 0, " ., ": 0,
		"a":                         xxh3.HashString("a"),
		"One, TWO!":                 xxh3.HashString("one two"),
		"one 2 dré":                 xxh3.HashString("one 2 dré"),
		fox:                         slowSimhash(fox),
		fox + " " + fox + " " + fox: slowSimhash(fox + " " + fox + " " + fox),
	} {
		t.Run(fmt.Sprintf("%.60s", text), func(t *testing.T) {
			if got := Simhash(text); got != want {
				t.Errorf("%q: %016x, want %016x", text, got, want)
			}
		})
	}
	// Pinned, so that fingerprints of different versions compare.
	if got := Simhash(fox); got != 0x5cc1c8efc0c9b905 {
		t.Errorf("%q: %016x", fox, got)
	}
	var page strings.Builder
	for i := range 600 {
		fmt.Fprintf(&page, "word%d of the page ", i*i%977)
	}
	near := bits.OnesCount64(Simhash(page.String()) ^ Simhash(strings.Replace(page.String(), "word9 of", "another of", 1)))
	far := bits.OnesCount64(Simhash(page.String()) ^ Simhash(strings.Repeat(fox+" ", 70)))
	if near > 3 || far < 15 {
		t.Errorf("a word changed: %d bits; another text: %d bits", near, far)
	}
}

func TestForms(t *testing.T) {
	many := strings.Repeat("<input name=x>", 300)
	long := strings.Repeat("<input name="+strings.Repeat("n", 500)+">", 150)
	for body, want := range map[string][]string{
		`<input name=out><form action="/s?a=1&amp;b" METHOD=Post enctype=multipart/form-data><input name=q><INPUT type=Hidden name=h value=v><input><select name=s><option name=no></select><textarea name=t><input name=no></textarea><button name=b></button><form action=no></form><input name=out>`: {
			`form={"action":"/s?a=1\u0026b","method":"post","enctype":"multipart/form-data","fields":[{"name":"q","type":"text"},{"name":"h","type":"hidden"},{"name":"s","type":"select"},{"name":"t","type":"textarea"},{"name":"b","type":"submit"}]}`},
		"<form><form method=put>": {`form={"action":"","method":"get","fields":[]}`},
	} {
		if diff := cmp.Diff(want, run(t, "forms", &Document{MIME: "text/html", Body: []byte(body)})); diff != "" {
			t.Error(diff)
		}
	}
	for _, body := range []string{many, long} {
		got := run(t, "forms", &Document{MIME: "text/html", Body: []byte("<form>" + body)})
		if len(got) != 1 || len(got[0]) > MaxValue+5 || !strings.HasSuffix(got[0], `"cut":true}`) {
			t.Errorf("%.80s… of %d bytes", got[0], len(got[0]))
		}
	}
}

// Documents that would take all time or memory: every module of the house ends soon.
func TestHostileDocuments(t *testing.T) {
	const n = 8 << 20
	zeros := strings.Repeat("\x00", 64<<20)
	many := make([]string, 0, 4*maxParts)
	for i := range maxParts + 1 {
		many = append(many, fmt.Sprint(i), "")
	}
	fields := "<form>" + strings.Repeat("<input name=x>", 1_000_000/2)
	for name, doc := range map[string]Document{
		"bomb of zeros":    {MIME: typeDOCX, Body: archive(t, "word/document.xml", zeros)},
		"bomb of tags":     {MIME: typeDOCX, Body: archive(t, "word/document.xml", strings.Repeat("<w:p>", 20<<20/5))},
		"bomb of text":     {MIME: typeODT, Body: archive(t, "content.xml", "<text:p>"+strings.Repeat("<text:span>a ", 5<<20))},
		"many strings":     {MIME: typeXLSX, Body: archive(t, "xl/sharedStrings.xml", strings.Repeat("<si/>", 3<<20))},
		"a long string":    {MIME: typeXLSX, Body: archive(t, "xl/sharedStrings.xml", "<si><t>"+strings.Repeat("a ", 1<<20)+"</t></si>", "xl/worksheets/sheet1.xml", strings.Repeat("<c t='s'><v>0</v></c>", 1<<18))},
		"one tag":          {MIME: typeODT, Body: archive(t, "content.xml", "<text:p "+strings.Repeat("a='b' ", 10<<20/6))},
		"many parts":       {MIME: typeODT, Body: archive(t, many...)},
		"the bomb as meta": {MIME: typeODT, Body: archive(t, "meta.xml", "<dc:title>"+strings.Repeat("t", 32<<20))},
		"fields":           {MIME: "text/html", Body: []byte(fields)},
		"title":            {MIME: "text/html", Body: []byte("<title>" + strings.Repeat("t ", n/2))},
		"hidden":           {MIME: "text/html", Body: []byte(strings.Repeat("<svg>", n/5))},
		"attributes":       {MIME: "text/html", Body: []byte("<form " + strings.Repeat("a=b ", n/4))},
		"one word":         {MIME: typePlain, Body: []byte(strings.Repeat("a", n))},
		"pre":              {MIME: "text/html", Body: []byte("<pre>" + strings.Repeat(" \n", n/2))},
		"pdf":              {MIME: typePDF, Body: []byte("%PDF-1.1\n" + strings.Repeat("1 0 obj<</Pages 1 0 R/Kids[1 0 R", n/34))},
	} {
		t.Run(name, func(t *testing.T) {
			var all []Selected
			for _, m := range Builtin() {
				all = append(all, Selected{Module: m})
			}
			var findings []Finding
			var failed map[string]string
			took := costtest.Of(func() { findings, failed = NewRunner(all).Run(context.Background(), &doc) })
			t.Logf("%s: %v, %d findings, failed %v", name, took, len(findings), failed)
			if took > time.Minute {
				t.Errorf("%s: took %v", name, took)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("<title>x</title><pre>a\n b<svg>c"), "text/html")
	f.Add(archive(f, "word/document.xml", word), typeDOCX)
	f.Add(archive(f, "content.xml", writer), typeODT)
	f.Add(archive(f, "xl/sharedStrings.xml", "<si><t>a", "xl/worksheets/sheet1.xml", "<c t='s'><v>0</v>"), typeXLSX)
	f.Add([]byte(book(f, "<itemref idref='1'/>")), typeEPUB)
	f.Add([]byte("one\n\xff two"), typePlain)
	f.Fuzz(func(t *testing.T, body []byte, mime string) {
		doc := &Document{MIME: mime, Body: body}
		_, _ = Title(doc), OfficeLinks(doc, func(string) {})
		s, err := Text(doc, 500)
		if err != nil {
			return
		}
		if len(s) > 500 || mime != typePDF && strings.ContainsAny(s, "\x00\x1b\r") {
			t.Errorf("%q", s)
		}
		if Simhash(s) != slowSimhash(s) && len(s) < MaxKey {
			t.Errorf("simhash of %q", s)
		}
	})
}
