package markup

import (
	"bytes"
	"strings"
	"testing"
)

// tokens reads a whole document, and says how many tokens it has and how much text.
func tokens(t testing.TB, body string, xml, decode bool) (n, text int) {
	t.Helper()
	var r Reader
	if decode {
		r.Open(strings.NewReader(body), nil, xml, noWants)
	} else {
		r.Open(bytes.NewReader([]byte(body)), []byte(body), xml, noWants)
	}
	defer r.Close()
	r.Texts = true
	for {
		switch r.Next() {
		case TokenEnd:
			return n, text
		case TokenText, TokenRaw:
			text += len(r.Text)
		}
		n++
		if len(r.open) > mostOpen {
			t.Fatalf("%d open elements, want at most %d", len(r.open), mostOpen)
		}
		if decode && cap(r.b) > 2*MaxWindow {
			t.Fatalf("a window of %d bytes, want at most %d", cap(r.b), 2*MaxWindow)
		}
	}
}

// Hostile documents of a megabyte end: what is sought far away is sought once, and open elements are bounded. Were the time to grow with the square, this
// test would take hours.
func TestHostileDocuments(t *testing.T) {
	const size = 1 << 20
	for _, tt := range []struct{ name, head, part string }{
		{"open SVG", "<svg>", "<g>"},
		{"open SVG and end tags of none", "<svg>" + strings.Repeat("<g>", 300), "</x>"},
		{"HTML in SVG", "", "<svg><foreignObject><div>"},
		{"end tags in HTML in SVG", strings.Repeat("<svg><foreignObject><b><div>", 100), "</i></b>"},
		{"paragraphs in HTML in SVG", "<svg><desc>" + strings.Repeat("<b>", 300), "<p>"},
		{"MathML in SVG in MathML", "", "<math><annotation-xml><svg><title>"},
		{"templates", "", "<template><svg>"},
		{"sections of CDATA in SVG", "<svg>", "<![CDATA["},
		{"sections of CDATA that end", "<svg>", "<![CDATA[]]>"},
		{"comments in a script", "<script>", "<!--<script>"},
		{"end tags in a script", "<script>", "</scripts"},
		{"an end tag behind sections of CDATA", "<script>", "<![CDATA[]]>"},
		{"end tags in sections of CDATA", "<title>", "<![CDATA[</"},
		{"comments in a title", "<title>", "<!--"},
		{"plaintext", "<plaintext>", "&"},
		{"open tags", "", "<a b=\""},
	} {
		for _, how := range []struct {
			name        string
			xml, decode bool
		}{{"HTML", false, false}, {"XHTML", true, false}, {"decoded", false, true}} {
			t.Run(tt.name+" as "+how.name, func(t *testing.T) {
				tokens(t, tt.head+strings.Repeat(tt.part, size/len(tt.part)), how.xml, how.decode)
			})
		}
	}
}

// Wherever the window over a document ends, tokens are the same as of the whole.
func TestReaderWindows(t *testing.T) {
	const body = "<title>a &amp; b</title><svg><title/><style>x{}<![CDATA[y]]></style><text>c</text></svg><script><!--<script></script>--></script><p>d &eacute;<plaintext>e</plaintext>é"
	_, text := tokens(t, body, false, false)
	for pad := range 100 {
		padded := strings.Repeat(" ", 64<<10-len(body)+pad) + body
		_, got := tokens(t, padded, false, true)
		got -= len(padded) - len(body)
		if got != text {
			t.Fatalf("padded with %d: %d bytes of text, want %d", pad, got, text)
		}
	}
}

// Scripts end where browsers end them.
func TestScriptEnd(t *testing.T) {
	for _, tt := range []struct{ name, in, content string }{
		{"plain", "x</script>y", "x"},
		{"other case", "x</SCRIPT >y", "x"},
		{"longer name", "x</scripts></script>", "x</scripts>"},
		{"no end", "x</script", "x</script"},
		{"no slash", "x<0script></script>", "x<0script>"},
		{"comment", "<!-- x</script>y", "<!-- x"},
		{"script in a comment", "<!--<script>x</script>y--></script>z", "<!--<script>x</script>y-->"},
		{"script in a comment that goes on", "<!--<script>x</script>y</script>z", "<!--<script>x</script>y"},
		{"longer name in a comment", "<!--<scripts>x</script>y", "<!--<scripts>x"},
		{"comment that ends at once", "<!--><script>x</script>y", "<!--><script>x"},
		{"comment of three dashes", "<!---><script>x</script>y", "<!---><script>x"},
		{"comment that ends in the script", "<!--<script>--></script>y", "<!--<script>-->"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r Reader
			body := []byte("<script>" + tt.in)
			r.Open(bytes.NewReader(body), body, false, noWants)
			r.Next()
			if tok := r.Next(); tok != TokenRaw || string(r.Text) != tt.content {
				t.Errorf("token %d, %q, want %q", tok, r.Text, tt.content)
			}
		})
	}
}

// FuzzReader: no document makes the reader fail, and it gives no more text than there is.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"<svg><title/>", "<math><mi><p>", "<script><!--<script>", "<svg><style><![CDATA[x]]>", "<title>&amp;", "<svg><foreignObject><table><td></svg>"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, body string, xml bool) {
		n, text := tokens(t, body, xml, false)
		if m, again := tokens(t, body, xml, true); text > len(body) || again > len(body) || n > len(body)+1 || m > len(body)+1 {
			t.Fatalf("%d and %d tokens, %d and %d bytes of text of %d", n, m, text, again, len(body))
		}
	})
}

// TestRefresh: values as HTML reads them. What has no separator behind its number is none.
func TestRefresh(t *testing.T) {
	for v, want := range map[string]string{
		"5; url=x": "x", " 0,URL = 'a b' c": "a b", "1.5 x": "x", `0;"y`: "y", "3; url": "url", "5": "", "5;": "", "5 ; ": "",
		"": "none", "url=x": "none", "5url=x": "none", "-1; url=x": "none",
	} {
		t.Run(v, func(t *testing.T) {
			if ref, ok := Refresh(v); ok != (want != "none") || ok && ref != want {
				t.Errorf("%q: %q %v, want %s", v, ref, ok, want)
			}
		})
	}
}
