package canon

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/costtest"
	"mercator/pkg/base/must"
)

func TestURL(t *testing.T) {
	tests := []struct{ in, want, host string }{
		{"http://example.com", "http://example.com/", "example.com"},
		{"HTTP://User:Pw@EXAMPLE.com:80/a#frag", "http://example.com/a", "example.com"},
		{"https://example.com:443/?", "https://example.com/?", "example.com"},
		{"http://example.com:8080/", "http://example.com:8080/", "example.com:8080"},
		{"http://example.com./", "http://example.com/", "example.com"},
		{"http://Bücher.example/ä?ö", "http://xn--bcher-kva.example/%C3%A4?%C3%B6", "xn--bcher-kva.example"},
		{"http://h/a/./b/../c/%2e%2E/d", "http://h/a/d", "h"},
		{"http://h/%7euser/%41%2f%c3%a9", "http://h/~user/A%2F%C3%A9", "h"},
		{"http://h/%2%45", "http://h/%2%45", "h"},
		{"http://h/%%34%31", "http://h/%%341", "h"},
		{"http://h/100%", "http://h/100%", "h"},
		{"http://h/caf\xe9", "http://h/caf%E9", "h"},
		{"http://h/a b\tc\n", "http://h/a%20bc", "h"},
		{"http:\\\\h\\a", "http://h/a", "h"},
		{"http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1"},
		{"http://[::1]:80/", "http://[::1]/", "[::1]"},
		{"http://[2001:DB8::0:1]:81/", "http://[2001:db8::1]:81/", "[2001:db8::1]:81"},
		{"ftp://h:21/x", "ftp://h/x", "h"},
		{"gopher://H:70/1/x", "gopher://h/1/x", "h"},
		{"http://h//a///b", "http://h//a///b", "h"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%.60s", tt.in), func(t *testing.T) {
			got, host, err := URL(tt.in)
			if err != nil || got != tt.want || host != tt.host {
				t.Errorf("URL(%q) = %q, %q, %v, want %q, %q", tt.in, got, host, err, tt.want, tt.host)
			}
		})
	}
}

func TestDetails(t *testing.T) {
	for in, want := range map[string]string{
		"bad":                "invalid: no scheme such as http:",
		"":                   "invalid: no scheme such as http:",
		"http://":            "invalid: no host",
		"http://u@/":         "invalid: no host behind the user name",
		"http://h:99999/":    "invalid: a port above 65535",
		"http://h:x/":        "invalid: a port that is no number",
		"http://a b/":        "invalid: a character in the host that no host has",
		"http://xn--a.test/": "invalid: a host that is no domain name",
		"http://1.2.3.4.5/":  "invalid: a bad IPv4 address",
		"http://1.2.3.256/":  "invalid: a bad IPv4 address",
		"http://[::1":        "invalid: an IPv6 address without ]",
		"http://[1::2::3]/":  "invalid: a bad IPv6 address",
		"http://a../":        "invalid: the host has an empty label",
		"mailto:a@b":         "scheme: mailto",
	} {
		t.Run(in, func(t *testing.T) {
			if _, _, err := URL(in); err == nil || err.Error() != want {
				t.Errorf("URL(%q): %v, want %s", in, err, want)
			}
		})
	}
}

// The parser takes a number with a sign for part of an address.
func TestSignedAddress(t *testing.T) {
	base, err := Options{}.Base("http://127.0.0.1/")
	must.OK(t, err)
	for _, host := range []string{"-0", "-1", "+0", "-0.", "-0:80", "u@-0", "1.-2.3", "0x-1", "0-5", "1.2.3.0+5", "%2D0", "%2b1", "\uff0d0", "\ufe630", "-0%2e", "-0\u3002"} {
		for _, ref := range []string{"http://" + host + "/", "http://" + host, "https:" + host + "?q", "//" + host + "/x", "\\\\" + host} {
			if u, _, err := base.Resolve(ref); ReasonOf(err) != ReasonInvalid {
				t.Errorf("%q: %q, %v", ref, u, err)
			}
		}
	}
	for ref, want := range map[string]string{
		"x-1": "http://127.0.0.1/x-1", "http:-0": "http://127.0.0.1/-0", "http:/a-b": "http://127.0.0.1/a-b", "?-1": "http://127.0.0.1/?-1", "http://0x7F.1/-0": "http://127.0.0.1/-0", "http://1.2.3.4%2e:81/": "http://1.2.3.4:81/",
		"//\uff11.2.3.\uff14\u3002": "http://1.2.3.4/", "//017700000001:8080/+1": "http://127.0.0.1:8080/+1", "//a-1/": "http://a-1/", "//-a.test/": "http://-a.test/",
	} {
		t.Run(ref, func(t *testing.T) {
			if u, _, err := base.Resolve(ref); u != want || err != nil {
				t.Errorf("%q: %q, %v, want %q", ref, u, err, want)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	long := strings.Repeat("a", DefaultMaxURL)
	tests := []struct {
		in   string
		want Reason
	}{
		{"", ReasonInvalid}, {"/a", ReasonInvalid}, {"http://", ReasonInvalid}, {"http://a b/", ReasonInvalid},
		{"http://./", ReasonInvalid}, {"http://a../", ReasonInvalid}, {"http://0x1../", ReasonInvalid},
		{"http://h:99999/", ReasonInvalid}, {"http://\xff/", ReasonInvalid},
		{"mailto:a@b", ReasonScheme}, {"JavaScript:x()", ReasonScheme}, {"file:///etc", ReasonScheme}, {"java\nscript:x", ReasonScheme},
		{"data:text/html," + strings.Repeat(long, 10), ReasonScheme},
		{"http://h/" + long, ReasonTooLong}, {"http://h/" + strings.Repeat(long, 5), ReasonTooLong},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%.40s, %d bytes", tt.in, len(tt.in)), func(t *testing.T) {
			_, _, err := URL(tt.in)
			var e *Error
			if !errors.As(err, &e) || ReasonOf(err) != tt.want {
				t.Errorf("URL(%.40q): %v, want %s", tt.in, err, tt.want)
			}
		})
	}
	if _, _, err := (Options{Schemes: mustSchemes(t, "http")}).URL("https://h/"); ReasonOf(err) != ReasonScheme {
		t.Errorf("https where http alone is accepted: %v", err)
	}
}

// The limit is on the canonical form: a URL of exactly that length passes, and a
// long fragment does not count.
func TestMaxURL(t *testing.T) {
	o := Options{MaxURL: 20}
	for in, ok := range map[string]bool{
		"http://h/" + strings.Repeat("a", 11):           true,
		"http://h/" + strings.Repeat("a", 12):           false,
		"http://h/#" + strings.Repeat("a", 1000):        true,
		"http://h/" + strings.Repeat("%61", 11):         true,
		"http://h/" + strings.Repeat("\u00e4", 4):       false,
		"http://h/" + strings.Repeat("a/../", 10) + "b": true,
	} {
		t.Run(in[:min(len(in), 60)], func(t *testing.T) {
			if _, _, err := o.URL(in); (err == nil) != ok {
				t.Errorf("%q: %v", in, err)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	const base = "http://a/b/c/d;p?q"
	for ref, want := range map[string]string{
		"": base, "g": "http://a/b/c/g", "/g": "http://a/g", "//G": "http://g/", "?y": "http://a/b/c/d;p?y",
		"#s": base, "../../../g": "http://a/g", "g;x=1/../y": "http://a/b/c/y", "http:g": "http://a/b/c/g",
		"https:g": "https://g/",
	} {
		t.Run(ref, func(t *testing.T) {
			if got, _, err := (Options{}).Resolve(base, ref); err != nil || got != want {
				t.Errorf("Resolve(%q) = %q, %v, want %q", ref, got, err, want)
			}
		})
	}
	b, err := Options{}.Base(base)
	must.OK(t, err)
	if _, err := b.Base("data:text/plain,x"); ReasonOf(err) != ReasonScheme {
		t.Errorf("a data URL as base: %v", err)
	}
	b, err = b.Base("//x/y/")
	must.OK(t, err)
	if got, _, _ := b.Resolve("z"); got != "http://x/y/z" {
		t.Errorf("after base: %q", got)
	}
}

// The keys are those that Python's surt 0.3.1 gives.
func TestCDXKey(t *testing.T) {
	const id = "9682993c8daa2c5497996114facdc805"
	for in, want := range map[string]string{
		"http://www.Example.com/A/B/?b=2&a=1":                         "com,example)/a/b?a=1&b=2",
		"http://example.com":                                          "com,example)/",
		"https://example.com:443/x":                                   "com,example)/x",
		"http://example.com:8080/x":                                   "com,example:8080)/x",
		"http://www.com/":                                             "com)/",
		"http://www12.x.com/":                                         "com,x)/",
		"http://www.www.x.com/":                                       "com,x,www)/",
		"http://wwwx.com/":                                            "com,wwwx)/",
		"http://localhost/":                                           "localhost)/",
		"http://127.0.0.1:8080/x":                                     "1,0,0,127:8080)/x",
		"http://[::1]:81/x":                                           "::1:81)/x",
		"ftp://ftp.example.com/pub/":                                  "com,example,ftp)/pub",
		"gopher://g.example.com/1/x":                                  "com,example,g)/1/x",
		"http://user:pw@example.com./":                                "com,example)/",
		"http://b\u00fccher.example/x":                                "example,xn--bcher-kva)/x",
		"http://example.com/%7Efoo/%E9":                               "com,example)/~foo/%e9",
		"http://example.com/%C3%A9/%41":                               "com,example)/%c3%a9/a",
		"http://example.com/a%2Fb c?c d":                              "com,example)/a/b%20c?c%20d",
		"http://example.com//a//b/":                                   "com,example)/a/b",
		"http://example.com/a?":                                       "com,example)/a",
		"http://example.com/a/?x":                                     "com,example)/a?x",
		"http://example.com/%25%32%35?q=%2541":                        "com,example)/%25?q=a",
		"http://example.com/a?q=%26&b=%3D":                            "com,example)/a?&b==&q=",
		"http://example.com/?B=1&a=A":                                 "com,example)/?a=a&b=1",
		"http://example.com/?a&&b":                                    "com,example)/?&a&b",
		"http://example.com/%23x?%23y":                                "com,example)/%23x?%23y",
		"http://example.com/a%0Ab":                                    "com,example)/a%0ab",
		"http://example.com/?%&%4":                                    "com,example)/?%25&%254",
		"http://example.com/a/%252e%252e/b":                           "com,example)/b",
		"http://example.com/%252e%252e/b":                             "com,example)/../b",
		"http://example.com/a?x=a+b":                                  "com,example)/a?x=a+b",
		"http://example.com/?sid=" + id + "&x=1":                      "com,example)/?x=1",
		"http://example.com/?x=1&SID=" + id:                           "com,example)/?&x=1",
		"http://example.com/?xsid=" + id:                              "com,example)/?x",
		"http://example.com/?PHPSESSID=" + id:                         "com,example)/",
		"http://example.com/?cfid=1&cftoken=2&x":                      "com,example)/?x",
		"http://example.com/a;jsessionid=" + id:                       "com,example)/a;jsessionid=" + id,
		"http://example.com/(S(4hqa0555fwsecu455xqckv45))/mileg.aspx": "com,example)/mileg.aspx",
		"http://example.com/(4hqa0555fwsecu455xqckv45)/mileg.aspx":    "com,example)/mileg.aspx",
		"dns:Example.com":                                             "dns:example.com",
		"urn:uuid:ABC-d":                                              "urn:uuid:abc-d",
		"urn:X-foo:Bar?x=1#f":                                         "urn:x-foo:bar?x=1",
		"urn:text:https://a.example/":                                 "urn:text:https://a.example",
		"metadata:foo":                                                "metadata:foo",
		"metadata://gnu.org/software/wget/warc/MANIFEST.txt":          "org,gnu)/software/wget/warc/manifest.txt",
		"mailto:Foo@Example.com":                                      "mailto:foo@example.com",
		"screenshot:http://a.example/":                                "screenshot:http://a.example",
		"file:///a/B c.png":                                           "file:/a/b%20c.png",
		"filedesc://x.arc.gz":                                         "filedesc://x.arc.gz",
		"rtsp://a.B/c":                                                "b,a)/c",
		"about:blank":                                                 "about:blank",
		"":                                                            "-",
		"urn:a b":                                                     "urn:a%20b",
	} {
		t.Run(in, func(t *testing.T) {
			if got := CDXKey(in); got != want {
				t.Errorf("%s: %s, want %s", in, got, want)
			}
		})
	}
	// Escapes of escapes, however many.
	if got := CDXKey("http://h/%" + strings.Repeat("25", 100_000) + "41"); got != "h)/a" {
		t.Errorf("%.100s", got)
	}
}

func TestSURTAndDomain(t *testing.T) {
	for in, want := range map[string]string{
		"http://www.example.com:8080/A?b": "http://(com,example,www,:8080)/A?b",
		"ftp://example.com/":              "ftp://(com,example,)/",
		"http://127.0.0.1:81/x":           "http://(127.0.0.1:81)/x",
		"http://[::1]:81/":                "http://([::1],:81)/",
	} {
		t.Run(in, func(t *testing.T) {
			if got := SURT(in); got != want {
				t.Errorf("SURT(%q) = %q, want %q", in, got, want)
			}
		})
	}
	for in, want := range map[string]string{
		"www.example.co.uk:8080": "example.co.uk", "x.anna.github.io": "anna.github.io", "github.io": "github.io", "example.com": "example.com", "localhost:81": "localhost",
		"co.uk": "co.uk", "10.0.0.1:80": "10.0.0.1", "[::1]:8080": "[::1]", "h1.mweb.test": "mweb.test",
	} {
		t.Run(in, func(t *testing.T) {
			if got := RegisteredDomain(in); got != want {
				t.Errorf("RegisteredDomain(%q) = %q, want %q", in, got, want)
			}
		})
	}
}

// Suffixes and domains are those that the public suffix list has, by section.
func TestDomains(t *testing.T) {
	for name, want := range map[string]Domains{
		"www.example.com": {"com", "example.com", "com", "example.com"}, "www.bbc.co.uk": {"co.uk", "bbc.co.uk", "co.uk", "bbc.co.uk"},
		"x.anna.github.io": {"io", "github.io", "github.io", "anna.github.io"}, "github.io": {"io", "github.io", "github.io", ""},
		"my.s3.amazonaws.com": {"com", "amazonaws.com", "s3.amazonaws.com", "my.s3.amazonaws.com"}, "a.amazonaws.com": {"com", "amazonaws.com", "com", "amazonaws.com"},
		"a.blogspot.co.uk": {"co.uk", "blogspot.co.uk", "co.uk", "blogspot.co.uk"}, "a.b.ck": {"b.ck", "a.b.ck", "b.ck", "a.b.ck"}, "www.ck": {"ck", "www.ck", "ck", "www.ck"},
		"h1.mweb.test": {"test", "mweb.test", "test", "mweb.test"}, "com": {"com", "", "com", ""}, "localhost": {"localhost", "", "localhost", ""},
		"10.0.0.1": {}, "[::1]": {}, "": {},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DomainsOf(name); got != want {
				t.Errorf("DomainsOf(%q) = %q, want %q", name, got, want)
			}
		})
	}
}

// The canonical form of a canonical URL is itself. Under any rules, a URL and its key form have
// the same key.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"http://h/%2%45", "http://a.b./%%34%31", "http://0x1../", "http://ä。/", "gopher://h\\%7e", "ftp://u@h:21//..//%2e", "http://h/\xff?%zz%4", "http://1%2e2/", "http://xn--a/",
		"http://www.www2.h.test/a/..;jsessionid=1//;x;jsessionid=2/?b=%&utm_x&%41&sid=%", "http://www.1.test/?cfid=1&cftoken=2&cfid", "http://h/.;jsessionid=/%2e;PHPSESSID/?&&"} {
		f.Add(s, uint8(AllRules), uint8(0))
		f.Add(s, uint8(0), uint8(AllRules))
	}
	f.Fuzz(func(t *testing.T, s string, urlRules, keyRules uint8) {
		o := Options{URLRules: Rules(urlRules) & AllRules, KeyRules: Rules(keyRules) & AllRules}
		u, host, err := o.URL(s)
		if err != nil {
			if ReasonOf(err) == "" {
				t.Fatalf("%q: untyped %v", s, err)
			}
			return
		}
		again, host2, err := o.URL(u)
		if err != nil || again != u || host2 != host {
			t.Fatalf("%q: canonical %q, canonical of that %q (%v), hosts %q %q", s, u, again, err, host, host2)
		}
		if len(u) > DefaultMaxURL || strings.ContainsFunc(u, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("%q: %q", s, u)
		}
		if _, h, _ := Split(u); h != host {
			t.Fatalf("%q: host %q, in the URL %q", s, host, h)
		}
		keyHost, keyURL := o.KeyForm(host, u)
		if twice, _ := o.KeyForm(keyHost, keyURL); twice != keyHost || o.URLKey(keyHost, keyURL) != o.URLKey(host, u) || o.Key([]byte(u), PartsOf(u)) != o.URLKey(host, u) {
			t.Fatalf("%q: its key is made of %q, whose key is another", u, keyURL)
		}
		o.URLRules, o.KeyRules = o.KeyRules, 0
		if form, h, err := o.URL(keyURL); form != keyURL || h != keyHost || err != nil {
			t.Fatalf("%q: %q is no canonical URL by the same rules: %q, %v", u, keyURL, form, err)
		}
	})
}

// conformance returns the path of a file of others' test cases, or "".
func conformance(name string) string {
	dirs := []string{os.Getenv("CONFORMANCE_DIR"), "../../../../shared/conformance", "../../../../../shared/conformance"}
	for _, d := range dirs {
		if p := filepath.Join(d, name); d != "" {
			if _, err := os.Stat(p); err == nil {
				return p
			}
		}
	}
	return ""
}

// TestWPT runs the web platform tests' URL cases. Their href, with what
// canonical form drops, must be what we make of their input.
func TestWPT(t *testing.T) {
	path := conformance("url/urltestdata.json")
	if path == "" {
		t.Skip("urltestdata.json of web-platform-tests not found; set CONFORMANCE_DIR")
	}
	data, err := os.ReadFile(path)
	must.OK(t, err)
	var raw []json.RawMessage
	must.OK(t, json.Unmarshal(data, &raw))
	n := 0
	o := Options{MaxURL: 1 << 20}
	used := make(map[string]bool)
	for _, r := range raw {
		var c struct {
			Input, Href, Protocol, Hostname, Port string
			Base                                  *string
			Failure                               bool
		}
		if json.Unmarshal(r, &c) != nil {
			continue // a comment between the cases
		}
		n++
		var base *Base
		var got string
		var err error
		if c.Base != nil {
			base, err = o.Base(*c.Base)
		}
		if err == nil {
			agree(t, o, base, c.Input)
			got, _, err = o.resolve(base, c.Input)
		}
		want := "" // refused
		if scheme := strings.TrimSuffix(c.Protocol, ":"); !c.Failure && (scheme == "http" || scheme == "https" || scheme == "ftp") {
			authority := strings.TrimSuffix(c.Hostname, ".")
			if c.Port != "" {
				authority += ":" + c.Port
			}
			href, _, _ := strings.Cut(c.Href, "#")
			_, after, _ := strings.Cut(href, "://")
			want = scheme + "://" + authority + normalizeEscapes(after[strings.IndexByte(after, '/'):])
		}
		if got == want && (err == nil) == (want != "") {
			continue
		}
		if exceptions[c.Input] == "" {
			t.Errorf("%q on %v: %q, %v, want %q", c.Input, c.Base, got, err, want)
		}
		used[c.Input] = true
	}
	for input, why := range exceptions {
		if !used[input] {
			t.Errorf("%q is no exception: %s", input, why)
		}
	}
	t.Logf("%d cases", n)
	if n < 400 {
		t.Errorf("%d cases looked at: is the file whole?", n)
	}
}

// exceptions names the inputs where we or the parser differ from the cases, and why.
var exceptions = map[string]string{
	"gopher:/example.com/": gopherSpecial,
	"gopher:example.com/":  gopherSpecial,
	"gopher://foo:70/":     gopherSpecial,
	"gopher://foo:443/":    gopherSpecial,

	"http://./":       noLabel,
	"http://../":      noLabel,
	"http://foo.09..": noLabel,

	"http://a.b.c.xn--pokxncvks":  badPunycode,
	"http://a.b.c.XN--pokxncvks":  badPunycode,
	"http://a.b.c.Xn--pokxncvks":  badPunycode,
	"http://10.0.0.xn--pokxncvks": badPunycode,
	"http://10.0.0.XN--pokxncvks": badPunycode,
	"http://10.0.0.xN--pokxncvks": badPunycode,
	"https://xn--/":               badPunycode,
}

const (
	gopherSpecial = "gopher URLs are crawled, and so they are special like http, as they were before the standard gave gopher up"

	noLabel     = "a host with an empty label, the trailing dot aside, cannot be in the DNS"
	badPunycode = "the label decodes to characters that IDNA forbids, so no registry can hold it; the parser's IDNA tables refuse it"
)

func mustSchemes(t *testing.T, list ...string) *Schemes {
	t.Helper()
	s, err := ParseSchemes(list)
	must.OK(t, err)
	return s
}

func TestSchemesOfOnesOwn(t *testing.T) {
	o := Options{Schemes: mustSchemes(t, "http", "gemini:1965")}
	for in, want := range map[string]string{
		"GEMINI://Example.ORG:1965/a/../b c#x": "gemini://example.org/b%20c",
		"gemini://example.org:7":               "gemini://example.org:7/",
		"ftp://example.org/":                   "",
	} {
		t.Run(in, func(t *testing.T) {
			got, _, err := o.URL(in)
			if got != want || (err != nil) != (want == "") {
				t.Errorf("%s: %q, %v; want %q", in, got, err, want)
			}
			if again, _, err := o.URL(got); want != "" && (again != got || err != nil) {
				t.Errorf("%s: the canonical form of %s is %s, %v", in, got, again, err)
			}
		})
	}
	if got, _, err := o.Resolve("gemini://h.test/a/b", "../c"); got != "gemini://h.test/c" || err != nil {
		t.Errorf("resolved: %s, %v", got, err)
	}
	for _, bad := range []string{"", "gemini", "gemini:0", "gemini:70000", "http:81", "file:1", "Gemini:1", "a b:1", "1:1"} {
		if _, err := ParseSchemes([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// What somebody writes to keep us busy costs little more than other references of its
// length, though IDNA and the parser take some of it for the square of the length.
func TestHostile(t *testing.T) {
	distinct := func(n int) string {
		var b strings.Builder
		for i := range n / 3 {
			b.WriteRune(rune(0x4e00 + i*7%0x5200))
		}
		return b.String()
	}
	base, err := Options{}.Base("http://h/a/b")
	must.OK(t, err)
	for name, ref := range map[string]func(n int) string{
		"a label of distinct letters":        func(n int) string { return "http://" + distinct(n) + "/" },
		"the same, hidden":                   func(n int) string { return "ht\ntp:/\t/" + distinct(n) + "/" },
		"the same, on the base's scheme":     func(n int) string { return "//" + distinct(n) + "/" },
		"many labels":                        func(n int) string { return "http://" + strings.Repeat("中文。", n/9) + "x/" },
		"escaped letters":                    func(n int) string { return "http://" + strings.Repeat("%D0%B0%D0%B1", n/13) + "/" },
		"soft hyphens":                       func(n int) string { return "http://a" + strings.Repeat("\u00ad", n/2) + "/" },
		"joiners":                            func(n int) string { return "http://" + strings.Repeat("क्\u200d", n/9) + "/" },
		"marks":                              func(n int) string { return "http://a" + strings.Repeat("\u0301\u0323", n/4) + "/" },
		"letters from right to left":         func(n int) string { return "http://" + strings.Repeat("ا", n/2) + "/" },
		"Punycode":                           func(n int) string { return "http://xn--" + strings.Repeat("9", n) + "/" },
		"an address":                         func(n int) string { return "http://[" + strings.Repeat("1:", n/2) + "]/" },
		"many @":                             func(n int) string { return "http://" + strings.Repeat("a@", n/2) + "h/" },
		"a password of what must be escaped": func(n int) string { return "http://" + strings.Repeat(":", n) + "@h/" },
		"segments that the parser must see":  func(n int) string { return strings.Repeat("a\\", n/2) },
		"dot segments":                       func(n int) string { return strings.Repeat("a/", n/4) + strings.Repeat("..\\", n/6) },
		"strays":                             func(n int) string { return strings.Repeat("%", n) },
		"another scheme":                     func(n int) string { return "x:" + strings.Repeat("a", n) },
	} {
		t.Run(name, func(t *testing.T) {
			costtest.Linear(t, 8000, func(n int) func() {
				ref := ref(n)
				return func() { base.Resolve(ref) }
			})
		})
	}
	// The limits refuse nothing that a host can be called.
	for _, u := range []string{"http://" + strings.Repeat("ü", 59) + ".test/", "http://" + strings.Repeat("a", 70) + ".test/", "http://" + strings.Repeat("u", 255) + "@h/"} {
		if _, _, err := URL(u); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}
