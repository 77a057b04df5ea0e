package mextract

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
)

// hostile are documents made to cost memory, each longer than what is searched.
func hostile() []document {
	fill := func(head string, next func(i int) string) string {
		var b strings.Builder
		b.Grow(11<<20 + 4<<20)
		b.WriteString(head)
		for i := 0; b.Len() < 11<<20; i++ {
			b.WriteString(next(i))
		}
		return b.String()
	}
	repeat := func(s string) func(int) string { return func(int) string { return s } }
	return []document{
		{"text/html", "", fill("", func(i int) string { return fmt.Sprintf("<a href=/%d/%030d>%030d</a>", i, i, i) })},
		{"text/html", "", fill("", repeat("<a "+strings.Repeat("b ", maxTagAttributes)+">"))},
		{"text/html", "", fill("", repeat("<a href='/"+strings.Repeat("q", 2*maxTagAttributes)+"'>"))},
		{"text/html", "", smallTree()},
		{"text/html", "", smallTree()},
		{"text/html", "", "<table><i>" + strings.Repeat("<b c=d>x</b>", 9_500)},
		{"text/html", "windows-1252", fill("<table><i>", repeat("<b>\x80 &amp; </b><a href=x>"))},
		{"text/xml", "", "<feed xml:base='http://h/" + strings.Repeat("p", 2000) + "/'>" + fill("", func(i int) string { return fmt.Sprintf("<link href='%d'/>", i) })},
		{"text/xml", "", "<feed xml:base='http://h/" + strings.Repeat("p", 2000) + "/'>" + fill("", func(i int) string { return fmt.Sprintf("<link href='%d'/>", i) })[:1<<20]},
		{"application/gzip", "", gzipped("<urlset>", func(i int) string { return fmt.Sprintf("<loc>http://h/%d/%s</loc>", i, strings.Repeat("p", 2000)) })},
		{"application/gzip", "", gzipped("<urlset>", func(i int) string { return fmt.Sprintf("<loc>http://h/%d/%s</loc>", i, strings.Repeat("q", 2000)) })},
		{"text/html", "", "<p><font" + strings.Repeat(" a=b", 1000) + ">" + strings.Repeat("<p>x", 500_000)},
		{"text/html", "", "<title><x y=\"</title><p>" + strings.Repeat("<font>", 300) + strings.Repeat("<p>x", 500_000)},
		{"text/css", "windows-1252", fill("", func(i int) string { return fmt.Sprintf("a{b:url(/\x80\x80\x80%d)}", i) })},
		{"text/css", "windows-1252", fill("/*", repeat("\x80\x80\x80\x80"))},
		{"text/xml", "", fill("<urlset ", repeat("a "))},
		{"text/xml", "", fill("<urlset><!--", repeat("comment "))},
		{"application/pdf", "", fill("%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids["+strings.Repeat("3 0 R ", 1000)+"]>>endobj 3 0 obj<</Resources<</Font<</F 9 0 R>>>>/Contents ["+
			strings.Repeat("4 0 R ", 1000)+"]>>endobj 4 0 obj<</Filter/FlateDecode>>stream\n"+deflated("BT /F 9 Tf (aaaa aaaa) Tj ET ")+"\nendstream endobj trailer<</Root 1 0 R>>",
			func(i int) string { return fmt.Sprintf("%d 0 obj<<>>endobj ", 9+i) })},
		{"application/pdf", "", pdfPage("", strings.Repeat("/a", 2<<20), "")}, // one operator with very many values
		{"application/pdf", "", pdfPage("", strings.Repeat("[]", 2<<20), "")},
		{"application/pdf", "", manyFonts()},
		{"application/pdf", "", pdfPage("", strings.Repeat("BT /F 9 Tf (aaaa aaaa) Tj ET ", 1<<17), longStreams())},
		{"application/vnd.oasis.opendocument.text", "", zipped("content.xml", "<text:p>a <x "+strings.Repeat("a ", 2<<20)+"/>"+strings.Repeat("<text:p>words ", 1<<20))},
	}
}

// smallTree is a page that is left to a tree, and makes it large.
func smallTree() string {
	var b strings.Builder
	b.WriteString("<title><x y=\"</title><select><div></select><p>")
	for i := range 70 {
		fmt.Fprintf(&b, "<b %c>", 'a'+rune(i))
	}
	return b.String() + strings.Repeat("<p>x", (1<<10-b.Len())/4)
}

// deflated is 16 MiB of a text, packed.
func deflated(text string) string { return packed(strings.Repeat(text, 16<<20/len(text))) }

func packed(text string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

// pdfPage is a file with one page that lists its content twice.
func pdfPage(fonts, content, more string) string {
	return "%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids[3 0 R]>>endobj 3 0 obj<</Resources<</Font<<" + fonts + ">>>>/Contents [4 0 R 4 0 R]>>endobj " +
		"4 0 obj<</Filter/FlateDecode>>stream\n" + packed(content) + "\nendstream endobj " + more + "trailer<</Root 1 0 R>>"
}

// manyFonts is a PDF file with fonts of the largest maps, all in use.
func manyFonts() string {
	var fonts, use, objects strings.Builder
	for i := range 60 {
		fmt.Fprintf(&fonts, "/F%d %d 0 R ", i, 100+i)
		fmt.Fprintf(&use, "/F%d 9 Tf q ", i)
		fmt.Fprintf(&objects, "%d 0 obj<</Subtype/Type0/ToUnicode 10 0 R>>endobj ", 100+i)
	}
	objects.WriteString("10 0 obj<<>>stream\n<0000> <ffff> <" + strings.Repeat("0041", 16) + "> endbfrange\nendstream endobj ")
	return pdfPage(fonts.String(), use.String(), objects.String())
}

// longStreams are object streams that inflate to 4 MiB each.
func longStreams() string {
	var b strings.Builder
	for i := range 6 {
		fmt.Fprintf(&b, "%d 0 obj<</Type/ObjStm/N 1/First 10/Filter/FlateDecode>>stream\n%s\nendstream endobj ", 100+i, packed(fmt.Sprintf("%d 0    <<>>%s", 200+i, strings.Repeat(" ", 4<<20))))
	}
	return b.String()
}

func gzipped(head string, next func(i int) string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, head)
	for i, n := 0, 0; n < 48<<20; i++ {
		m, _ := io.WriteString(z, next(i))
		n += m
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

func zipped(name, text string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(name)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		panic(err)
	}
	return b.String()
}

// maxTagAttributes is as many as a tag can have that is just short enough for the
// tokenizer.
const maxTagAttributes = 1<<20 - 100

// TestMemory holds the command to 64 MiB on documents made to cost memory, with
// all modules, on two threads, by records; MERCATOR_LONG=1 reads them straight from a WARC file, too.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	rows := filepath.Join(dir, "fetched.arrows.zst")
	must.OK(t, writeCrawl(dir, rows, hostile()))
	inputs := [][]string{{"--warc", dir, rows}}
	if os.Getenv("MERCATOR_LONG") != "" {
		inputs = append(inputs, []string{filepath.Join(dir, "a.warc.gz")})
	}
	for _, in := range inputs {
		stats := filepath.Join(dir, "stats.json")
		args := append(in, "-@", "2", "--stats", stats, "-o", filepath.Join(dir, "links"), "--modules", filepath.Join(dir, "found"))
		if out, err := exec.Command("mextract", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", in, err, out)
		}
		var got struct {
			Peak    int64 `json:"peak_rss_bytes"`
			Extract struct {
				Bytes int64 `json:"body_bytes"`
			} `json:"extract"`
		}
		clitest.JSON(t, stats, &got)
		t.Logf("%v: %d MiB at the peak for %d MiB searched", in[:1], got.Peak>>20, got.Extract.Bytes>>20)
		if got.Extract.Bytes < 7*8<<20 || got.Peak == 0 || got.Peak >= 64<<20 {
			t.Errorf("%v: %d bytes at the peak for %d bytes searched, want below 64 MiB", in[:1], got.Peak, got.Extract.Bytes)
		}
	}
}
