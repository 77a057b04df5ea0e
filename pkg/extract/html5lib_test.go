package extract

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"mercator/pkg/base/must"
	"mercator/pkg/web/canon"
)

// encodingCases reads a file of html5lib's encoding tests: documents, and what a
// browser that knows no more of them reads them as.
func encodingCases(t *testing.T, name string) (cases [][2]string) {
	t.Helper()
	b, err := os.ReadFile(name)
	must.OK(t, err)
	for part := range bytes.SplitSeq(append([]byte("\n"), b...), []byte("\n#data\n")) {
		if data, encoding, ok := bytes.Cut(part, []byte("\n#encoding\n")); ok {
			cases = append(cases, [2]string{string(data), strings.TrimSpace(string(encoding))})
		}
	}
	return cases
}

// "make browser" runs it on the cases that html5lib ships; MERCATOR_HTML5LIB is
// their folder.
func TestHTML5LibEncodings(t *testing.T) {
	dir := os.Getenv("MERCATOR_HTML5LIB")
	if dir == "" {
		t.Skip(`needs html5lib's tests: "make browser"`)
	}
	n := 0
	for _, name := range []string{"tests1.dat", "tests2.dat", "test-yahoo-jp.dat"} {
		for i, c := range encodingCases(t, filepath.Join(dir, "encoding", name)) {
			n++
			if strings.Contains(c[0], `+ '2">')`) {
				continue // the meta element is written by a script
			}
			_, got := documentEncoding(&Document{Body: []byte(c[0])}, sortHTML)
			if _, want := lookup(c[1]); got != want || want == "" {
				t.Errorf("%s, case %d: %s, want %s (%s):\n%s", name, i+1, got, want, c[1], c[0][:min(len(c[0]), 500)])
			}
		}
	}
	if n < 80 {
		t.Errorf("%d cases, want 80 or more", n)
	}
}

// withLinks gives the start tags of a case the attributes that links come from, each
// with a reference of its own.
func withLinks(s string) string {
	n := 0
	return linkTag.ReplaceAllStringFunc(s, func(tag string) string {
		n++
		return fmt.Sprintf("%s href=h%d src=s%d", tag, n, n)
	})
}

// withImages has an image and a link behind each tag of a case, whatever the tags are.
func withImages(s string) string {
	var b strings.Builder
	for i, part := range strings.SplitAfter(s, ">") {
		fmt.Fprintf(&b, "%s<img src=s%d><a href=h%d>", part, i, i)
	}
	return b.String()
}

var linkTag = regexp.MustCompile(`(?i)<(a|area|img|image|iframe|frame|embed|script|base)\b`)

// treeLinks are the links of some elements in x/net's tree.
func treeLinks(t *testing.T, body string) []string {
	t.Helper()
	root, err := html.ParseWithOptions(strings.NewReader(body), html.ParseOptionEnableScripting(false))
	must.OK(t, err)
	base, _ := canon.Options{}.Base("http://h/d/")
	based := false
	type ref struct{ kind, ref string }
	var refs []ref
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		for _, a := range n.Attr {
			switch {
			case n.Type != html.ElementNode || n.Namespace != "" || a.Namespace != "":
			case n.Data == "base" && a.Key == "href" && !based:
				based = true
				if b, err := base.Base(a.Val); err == nil {
					base = b
				}
			case (n.Data == "a" || n.Data == "area") && a.Key == "href",
				slices.Contains([]string{"img", "iframe", "frame", "embed", "script"}, n.Data) && a.Key == "src" && strings.TrimSpace(a.Val) != "":
				refs = append(refs, ref{n.Data, a.Val})
			}
		}
		if n.Type == html.ElementNode && n.Data == "template" && n.Namespace == "" {
			return // its content is no part of the document
		}
		for c := range n.ChildNodes() {
			walk(c)
		}
	}
	walk(root)
	var links []string
	for _, r := range refs {
		if u, _, err := base.Resolve(r.ref); err == nil {
			links = append(links, r.kind+" "+u)
		}
	}
	slices.Sort(links)
	return slices.Compact(links)
}

// Both engines find the links of x/net's tree in the cases of html5lib that ship with
// it, as they are, and with links in their tags and behind them.
func TestTreeConstruction(t *testing.T) {
	cases, links := 0, 0
	treeCases(t, func(file, data string) {
		cases++
		for _, body := range []string{data, withLinks(data), withImages(data)} {
			want := treeLinks(t, body)
			links += len(want)
			for _, engine := range []string{EngineFast, EngineXNet} {
				page := Find(&Document{URL: "http://h/d/", MIME: "text/html", Charset: "utf-8", Body: []byte(body)}, Options{HTMLEngine: engine})
				var got []string
				for _, l := range page.Links {
					if u, _, err := page.Base.Resolve(l.Ref); err == nil && slices.Contains([]string{"a", "area", "img", "iframe", "frame", "embed", "script"}, l.Kind) {
						got = append(got, l.Kind+" "+u)
					}
				}
				slices.Sort(got)
				got = slices.Compact(got)
				if !slices.Equal(got, want) {
					t.Errorf("%s by %s: %q\ngot  %q\nwant %q", file, engine, body, got, want)
				}
			}
		}
	})
	if cases < 1500 || links < 5000 {
		t.Errorf("%d cases with %d links, want 1,500 with 5,000", cases, links)
	}
}
