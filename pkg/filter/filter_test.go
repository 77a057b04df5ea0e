package filter

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mercator/pkg/canon"
	"mercator/pkg/fault"
)

func candidate(t testing.TB, u string) *Candidate {
	t.Helper()
	c, host, err := canon.URL(u)
	if err != nil {
		t.Fatal(err)
	}
	return &Candidate{URL: c, Host: host, Depth: 3, Kind: "a"}
}

func TestTests(t *testing.T) {
	const u = "http://www.Example.co.uk:8080/a/b/a/File.HTML?q=1"
	for cond, want := range map[string]bool{
		"any": true, "not any": false, "query": true,
		"scheme http": true, "scheme https ftp": false, "scheme HTTP": true,
		"host www.example.co.uk:8080": true, "host www.example.co.uk": true, "host www.example.co.uk:81": false, "host example.co.uk": false,
		"domain example.co.uk": true, "domain ample.co.uk": false, "domain uk": true, "domain www.example.co.uk": true, "domain a.www.example.co.uk": false,
		"registered-domain example.co.uk": true, "registered-domain co.uk": false,
		"port 8080": true, "port 80": false,
		"prefix http://www.example.co.uk:8080/a": true, "prefix https:": false,
		"suffix q=1": true, "suffix x y 1": true, "suffix HTML": false,
		"regex \"/a/.*/a/\"": true, `regex ^https`: false, `regex "\?q=\d$"`: true,
		"extension html": true, "extension htm": false, "extension .html": true, "domain .example.co.uk": true,
		"kind a img": true, "kind img": false,
		"url-length > 10": true, "url-length < 10": false, "url-length = 49": true,
		"path-depth = 4": true, "path-depth >= 5": false, "path-depth <=4": true,
		"repeated-segments = 2": true, "repeated-segments > 2": false,
		"depth > 2": true, "depth > 3": false,
		"scheme https or port 8080": true, "scheme https and port 8080": false, "not scheme https and port 8080": true,
		"scheme https and any or any": true, "scheme https and (any or any)": false, "not (scheme https or port 80)": true, "not not any": true,
		"any # and not any": true,
	} {
		f, err := Parse("rules", strings.NewReader("deny x: "+cond))
		if err != nil {
			t.Errorf("%s: %v", cond, err)
			continue
		}
		if allow, _ := f.Decide(candidate(t, u)); allow == want {
			t.Errorf("%s: matches %v", cond, !allow)
		}
	}
	f, err := Parse("rules", strings.NewReader("deny x: port 443 and not query and not extension x"))
	if err != nil {
		t.Fatal(err)
	}
	if allow, _ := f.Decide(candidate(t, "https://h/.x/")); allow {
		t.Error("a default port does not count")
	}
}

func TestFirstMatchWins(t *testing.T) {
	f, err := Parse("rules", strings.NewReader(`
# comment
allow	docs: domain a.example
deny : domain example
default deny # of all others
`))
	if err != nil {
		t.Fatal(err)
	}
	for u, want := range map[string]string{
		"http://x.a.example/": "allow filter:docs", "http://b.example/": "deny filter:line-4", "http://c/": "deny filter:default",
	} {
		allow, rule := f.Decide(candidate(t, u))
		if got := map[bool]string{true: "allow ", false: "deny "}[allow] + Reason(rule); got != want {
			t.Errorf("%s: %s, want %s", u, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for in, want := range map[string]string{
		"permit x: any":                        `line 1: "permit", want allow, deny or default`,
		"\ndeny x any":                         "line 2: no colon",
		"deny x: ":                             "ends where a test should be",
		"deny x: any any":                      "any takes no argument",
		"deny x: foo bar":                      `"foo", which is not a test`,
		"deny x: host":                         "without an argument",
		"deny x: (any":                         "does not close",
		"deny x: any)":                         `")" after`,
		"deny x: any and":                      "ends where",
		"deny x: and any":                      `"and" where a test should be`,
		"deny x: regex (":                      "without an argument",
		`deny x: regex "("`:                    "missing closing",
		`deny x: host "a`:                      "quote that does not end",
		"deny x: depth 3":                      "want a comparison",
		"deny x: depth > -1":                   "want a comparison",
		"deny x: depth > 1 2":                  "want a comparison",
		"deny default: any":                    `rule name "default"`,
		"deny x: port 99999":                   "up to 65535",
		"deny x: host Example.com":             `host "Example.com", which no URL has: its canonical form is "example.com"`,
		"deny x: host a.test bücher.test":      `its canonical form is "xn--bcher-kva.test"`,
		"deny x: host a.test:080":              `its canonical form is "a.test:80"`,
		"deny x: host a.test:99999":            "want a port from 1 to 65535",
		"deny x: host http://a.test/":          "host",
		"deny x: host a.test/b":                `its canonical form is "a.test"`,
		"deny x: scheme mailto":                "want http",
		"deny x: any\nallow x: any":            "which line 1 has",
		"default perhaps":                      "want allow or deny",
		"default deny\ndefault deny":           "a second default",
		"deny x: " + strings.Repeat("(", 1000): "more than 100",
		strings.Repeat("x", MaxLine+1):         "too long",
	} {
		_, err := Parse("rules", strings.NewReader(in))
		var e *fault.Error
		if !errors.As(err, &e) || e.Class != fault.Usage || !strings.HasPrefix(err.Error(), "rules: line ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", in, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("deny a: not (host b or path-depth > 3) and regex \"x\"\ndefault deny")
	f.Add("allow : suffix \"a\\\"b\" # c")
	f.Fuzz(func(t *testing.T, rules string) {
		flt, err := Parse("rules", strings.NewReader(rules))
		if err != nil {
			return
		}
		c := candidate(t, "http://h/a/b?c")
		allow, rule := flt.Decide(c)
		if rule != nil && (rule.Allow != allow || !rule.Matches(c)) {
			t.Fatal("the rule that decided does not match")
		}
	})
}

// The cost of a rule file is that of its rules.
func BenchmarkDecide(b *testing.B) {
	var rules strings.Builder
	for i := range 100 {
		fmt.Fprintf(&rules, "deny r%d: domain d%d.example\n", i, i)
	}
	f, err := Parse("rules", strings.NewReader(rules.String()))
	if err != nil {
		b.Fatal(err)
	}
	c := candidate(b, "http://www.example.org/a/b/c.html")
	for b.Loop() {
		f.Decide(c)
	}
}
