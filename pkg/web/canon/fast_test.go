package canon

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// agree fails unless the fast path declines ref or gives what the parser gives. It
// reports whether it took ref.
func agree(t *testing.T, o Options, base *Base, ref string) bool {
	t.Helper()
	before := []byte("before")
	in := []byte(ref)
	fast, p, ok := o.appendFast(before, base, in)
	if string(in) != ref {
		t.Fatalf("%q became %q", ref, in)
	}
	if !ok {
		if string(fast) != "before" {
			t.Fatalf("%q: declined, and left %q", ref, fast)
		}
		return false
	}
	slow, q, err := o.appendParsed([]byte("before"), base, ref)
	if err != nil || !bytes.Equal(fast, slow) || p != q || p != PartsOf(string(slow[len(before):])) {
		t.Fatalf("%q on %v: fast %q %v, parser %q %v, %v", ref, base, fast, p, slow, q, err)
	}
	return true
}

// agreeOnBase fails unless a base that may not have been parsed resolves like one that was.
func agreeOnBase(t *testing.T, o Options, s string, base *Base, ref string) {
	t.Helper()
	u, err := o.parse(nil, s)
	if err != nil {
		t.Fatalf("%q is a base, but %v", s, err)
	}
	parsed := o.parsedBase(u)
	got, _, err := base.Resolve(ref)
	want, _, err2 := parsed.Resolve(ref)
	if got != want || ReasonOf(err) != ReasonOf(err2) || base.plain != parsed.plain || base.parts != parsed.parts || base.dir != parsed.dir || base.port != parsed.port {
		t.Fatalf("%q on %q: %q, %v; on the parsed base %q, %v", ref, s, got, err, want, err2)
	}
}

var (
	bases = []string{
		"http://h.test/", "https://www.example.org:8443/a/b/c;p?q=1&x", "http://h/%/%4%41?%4%31", "ftp://u:p@h/dir/",
		"gopher://h/1/x", "http://1.2.3.4:81//a//", "http://xn--bcher-kva.example/?", "mailto:x", "file:///etc/x", "http://h./%7E/.%2e/x",
	}
	refs = []string{
		"", "#", "#x", "?", "?q#x", "a/b.html#c", "../x.html", "../../../..", "./", ".", "..", ".?x", "..#x", "/", "//h/p", "//H:80", "//h?x", "//h#x", "///x",
		"http://Example.COM/a", "https://h:0443/", "https://h:443", "http://h:65536", "http://h:65535?", "http:x", "http:/x", "HTTP://h/", "http://h",
		"http://a-b.c--d.xn--e/", "http://ab--c/", "http://-a-.b-/", "http://a_b/", "http://1.2.3.4/", "http://a.0x1/", "http://a.1a/", "http://a./", "http://a..b/", "http://.a/",
		"http://u@h/", "http://h%41/", "http://[::1]/", "a:b", "1:b", ":b", "a b ", " a#b ", "a\tb", "a\\..\\b", "..\\a", "?a\\b", "?a'b\"<>", "a'\"<>`{}|^[]", "é?é",
		"\xff?\xff", "%7e%2f%c3%A9", "%2e", "%2E%2e/x", ".%2e", "a/%2e%2e/b", "%", "%4", "%zz", "?%7e%2e%", "?%2e", "/.//x", "//h/../x", "a//../b", "mailto:x", "javascript:void(0)", "data:,x", "gemini://h/", "tel:1",
	}
)

func FuzzFast(f *testing.F) {
	for _, r := range refs {
		f.Add(bases[1], r)
	}
	for _, b := range bases {
		f.Add(b, "../a/%7e?b#c")
	}
	f.Fuzz(func(t *testing.T, on, ref string) {
		o := Options{MaxURL: 100}
		agree(t, o, nil, ref)
		if base, err := o.Base(on); err == nil {
			agree(t, o, base, ref)
			agreeOnBase(t, o, on, base, ref)
		}
	})
}

// References made of what stands in references, more of them than a fuzzer finds in
// the time of a test.
func TestFastAgrees(t *testing.T) {
	tokens := append([]string{"/", "/", "..", ".", "a", "?", "#", "%", "%41", "%2f", "%2E", ":", "@", "://", "http://", "https:", "&", ";", "=", " ", "\t", "\\", "80", "xn--", "--", "-", "_", "'", "é", "\x80", "[", "]", "|", "^", "{", "~", "A.B", "x.html"}, refs...)
	rnd := rand.New(rand.NewPCG(1, 2))
	var on []*Base
	for _, s := range bases {
		b, err := Options{}.Base(s)
		must.OK(t, err)
		on = append(on, b)
	}
	taken := 0
	const n = 100_000
	for range n {
		var ref strings.Builder
		for range rnd.IntN(7) {
			ref.WriteString(tokens[rnd.IntN(len(tokens))])
		}
		i := rnd.IntN(len(on))
		if agree(t, Options{}, on[i], ref.String()) {
			taken++
		}
		if i%4 == 0 {
			agreeOnBase(t, Options{}, bases[i], on[i], ref.String())
		}
	}
	if taken < n/10 {
		t.Errorf("the fast path took %d of %d", taken, n)
	}
}

// What it is there for, it takes.
func TestFastTakes(t *testing.T) {
	base, err := Options{}.Base("https://docs.example.org:8443/3/library/os.html?v=1#top")
	must.OK(t, err)
	for ref, want := range map[string]string{
		"":                                "https://docs.example.org:8443/3/library/os.html?v=1",
		"#os.path":                        "https://docs.example.org:8443/3/library/os.html?v=1",
		"?q=a%20b":                        "https://docs.example.org:8443/3/library/os.html?q=a%20b",
		"sys.html#x":                      "https://docs.example.org:8443/3/library/sys.html",
		"./sys.html":                      "https://docs.example.org:8443/3/library/sys.html",
		"../../genindex.html":             "https://docs.example.org:8443/genindex.html",
		"/a/../b/":                        "https://docs.example.org:8443/b/",
		"//Other.example.org/p":           "https://other.example.org/p",
		"http://other.example.org:80":     "http://other.example.org/",
		"ftp://ftp.example.org:2121/?x#y": "ftp://ftp.example.org:2121/?x",
		" a b/%7euser/é ":                 "https://docs.example.org:8443/3/library/a%20b/~user/%C3%A9",
	} {
		t.Run(ref, func(t *testing.T) {
			got, _, ok := (&Options{}).appendFast(nil, base, []byte(ref))
			if !ok || string(got) != want {
				t.Errorf("%q: %q, %v, want %q", ref, got, ok, want)
			}
		})
	}
}

func TestAppendResolveAllocates(t *testing.T) {
	base, err := Options{}.Base("https://docs.example.org/3/library/os.html")
	must.OK(t, err)
	dst, ref := make([]byte, 0, 256), []byte("../howto/%7ex.html?a=b c#d")
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := base.AppendResolve(dst, ref); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for what, f := range map[string]func(){
		"Resolve":               func() { base.Resolve("../howto/x.html") },
		"a refused scheme":      func() { base.Resolve("javascript:void(0)") },
		"Precheck of a refused": func() { Options{}.Precheck("mailto:someone") },
	} {
		t.Run(what, func(t *testing.T) {
			if n := testing.AllocsPerRun(100, f); n > 1 {
				t.Errorf("%s: %v allocations", what, n)
			}
		})
	}
	if n := testing.AllocsPerRun(100, func() { Options{}.Base("https://docs.example.org/3/library/os.html") }); n > 2 {
		t.Errorf("Base: %v allocations", n)
	}
}
