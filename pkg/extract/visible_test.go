package extract

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"mercator/pkg/base/must"
	"mercator/pkg/web/markup"
	"mercator/pkg/web/process"
)

// treeText is the text that a reader sees of x/net's tree, without white space.
func treeText(body string) string {
	root, err := html.ParseWithOptions(strings.NewReader(body), html.ParseOptionEnableScripting(false))
	if err != nil {
		return ""
	}
	var b strings.Builder
	var walk func(n *html.Node, svg bool)
	walk = func(n *html.Node, svg bool) { // svg: text here is not drawn
		switch n.Type {
		case html.TextNode:
			if !svg {
				b.WriteString(n.Data)
			}
			return
		case html.ElementNode:
			switch n.Namespace {
			case "":
				if slices.Contains([]string{"script", "style", "template", "iframe", "noembed", "noframes", "datalist"}, n.Data) {
					return
				}
			case "svg":
				switch n.Data {
				case "title", "desc", "metadata", "style", "script":
					return
				case "svg":
					svg = true
				case "text", "foreignObject":
					svg = false
				}
			case "math":
				if n.Data == "annotation" || n.Data == "annotation-xml" {
					return
				}
				svg = svg && n.Data != "math"
			}
		}
		for c := range n.ChildNodes() {
			walk(c, svg)
		}
	}
	walk(root, false)
	return solid(b.String())
}

// solid is a text without white space and control characters.
func solid(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r < ' ' || r == 0x7F || r == '\uFEFF' || r == '\uFFFD' {
			return -1
		}
		return r
	}, s)
}

func ourText(t testing.TB, body string) string {
	text, err := process.Text(&process.Document{MIME: "text/html", Charset: "utf-8", Body: []byte(body)}, 0)
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return solid(text)
}

// sorted are the characters of a text: a tree moves text out of tables.
func sorted(s string) string {
	r := []rune(s)
	slices.Sort(r)
	return string(r)
}

// treeCases are the documents of html5lib's tree construction cases that ship with x/net.
func treeCases(t *testing.T, each func(file, data string)) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/net").Output()
	must.OK(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "html/testdata/html5lib-tests/tree-construction/*.dat"))
	must.OK(t, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		must.OK(t, err)
		for part := range bytes.SplitSeq(append([]byte("\n"), b...), []byte("\n#data\n")) {
			data, rest, ok := bytes.Cut(part, []byte("\n#errors"))
			if ok && !bytes.Contains(rest, []byte("\n#document-fragment")) { // a part of a document has another's state
				each(filepath.Base(name), string(data))
			}
		}
	}
}

// withWords has a word behind each tag of a case.
func withWords(s string) string {
	var b strings.Builder
	for i, part := range strings.SplitAfter(s, ">") {
		fmt.Fprintf(&b, "%s w%d ", part, i)
	}
	return b.String()
}

// The text of html5lib's cases, as they are and with a word behind each tag, is that of x/net's tree. Two kinds differ: text that a tree
// moves out of a table stands where the page has it, and text beside a frameset, which no browser shows, is kept.
func TestVisibleText(t *testing.T) {
	cases, moved := 0, 0
	treeCases(t, func(file, data string) {
		for _, body := range []string{data, withWords(data)} {
			if strings.Contains(strings.ToLower(body), "<frameset") {
				continue
			}
			cases++
			switch got, want := ourText(t, body), treeText(body); {
			case got == want:
			case sorted(got) == sorted(want) && strings.Contains(strings.ToLower(body), "<table"):
				moved++
			default:
				t.Errorf("%s: %q\ngot  %q\nwant %q", file, body, got, want)
			}
		}
	})
	if cases < 2500 || moved > 200 {
		t.Errorf("%d cases, %d of them with text that moves, want 2,500 or more, and at most 200", cases, moved)
	}
	t.Logf("%d cases, %d of them with text that moves", cases, moved)
}

// textDiffers compares the text of a page with a tree's, unless the reader says that a tree may have SVG end elsewhere, or the page has
// what is read otherwise on purpose: framesets, lists of options.
func textDiffers(t testing.TB, body string) (got, want string, compared bool) {
	var r markup.Reader
	r.Open(strings.NewReader(body), nil, false, linkAttrs)
	for tok := r.Next(); tok != markup.TokenEnd; tok = r.Next() {
		if r.Unsure || r.Tag == markup.TagFrameset || r.Tag == markup.TagSelect || r.Tag == markup.TagDatalist {
			return "", "", false
		}
	}
	got, want = ourText(t, body), treeText(body)
	if sorted(got) == sorted(want) && strings.Contains(strings.ToLower(body), "<table") {
		got = want
	}
	return got, want, true
}

func TestVisibleTextOfMadePages(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := 0
	for range 10_000 {
		body := withWords(madePage(r))
		got, want, ok := textDiffers(t, body)
		if got != want {
			t.Fatalf("%q\ngot  %q\nwant %q", body, got, want)
		}
		if ok {
			n++
		}
	}
	if n < 5000 {
		t.Errorf("%d pages compared, want half of them", n)
	}
}

// FuzzVisibleText holds the text that is read without a tree against a tree's.
func FuzzVisibleText(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		f.Add(madePage(r))
	}
	for _, s := range oddPieces {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if !utf8.ValidString(body) || strings.ContainsRune(body, 0) || len(body) > 1000 {
			return // x/net's tokenizer has its own way with them
		}
		if got, want, _ := textDiffers(t, body); got != want {
			t.Fatalf("%q\ngot  %q\nwant %q", body, got, want)
		}
	})
}
