package filter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/web/canon"
)

func candidate(t testing.TB, u string) *Candidate {
	t.Helper()
	c, host, err := canon.URL(u)
	must.OK(t, err)
	return &Candidate{URL: c, Host: host, Depth: 3, Kind: "a"}
}

// decide judges one URL.
func decide(t testing.TB, f *Filter, c *Candidate) Verdict {
	t.Helper()
	j := f.NewJudge()
	v := make([]Verdict, 1)
	must.OK(t, j.URLs(context.Background(), []Candidate{*c}, v), j.Close())
	return v[0]
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
		"path /a": true, "path /x /a/b/": true, "path /b": false, "path /a/b/a/File.HTML?q": true,
		"suffix q=1": true, "suffix x y 1": true, "suffix HTML": false,
		"regex \"/a/.*/a/\"": true, `regex ^https`: false, `regex "\?q=\d$"`: true,
		"extension html": true, "extension htm": false, "extension .html": true, "domain .example.co.uk": true,
		"kind a img": true, "kind img": false, "kind x-mine a": true, "kind css link": false, "requisite": false,
		"url-length > 10": true, "url-length < 10": false, "url-length = 49": true,
		"same-host": true, "not same-host": false,
		"path-depth = 4": true, "path-depth >= 5": false, "path-depth <=4": true,
		"repeated-segments = 1": true, "repeated-segments > 1": false, "repeated-parameters = 0": true, "repeated-menu": false,
		"linked-from ^gopher": true, // nothing is known of a page that links to it
		"depth > 2":           true, "depth > 3": false,
		"scheme https or port 8080": true, "scheme https and port 8080": false, "not scheme https and port 8080": true,
		"scheme https and any or any": true, "scheme https and (any or any)": false, "not (scheme https or port 80)": true, "not not any": true,
		"any # and not any": true,
	} {
		t.Run(cond, func(t *testing.T) {
			f, err := Parse("rules", strings.NewReader("deny x: "+cond))
			if err != nil {
				t.Errorf("%s: %v", cond, err)
				return
			}
			if allow := decide(t, f, candidate(t, u)).Allow; allow == want {
				t.Errorf("%s: matches %v", cond, !allow)
			}
		})
	}
	f, err := Parse("rules", strings.NewReader("deny x: port 443 and not query and not extension x"))
	must.OK(t, err)
	if decide(t, f, candidate(t, "https://h/.x/")).Allow {
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
	must.OK(t, err)
	for u, want := range map[string]string{
		"http://x.a.example/": "allow filter:docs", "http://b.example/": "deny filter:line-4", "http://c/": "deny filter:default",
	} {
		t.Run(u, func(t *testing.T) {
			v := decide(t, f, candidate(t, u))
			if got := map[bool]string{true: "allow ", false: "deny "}[v.Allow] + v.Reason(); got != want {
				t.Errorf("%s: %s, want %s", u, got, want)
			}
		})
	}
}

func TestMatchAll(t *testing.T) {
	f, err := Parse("rules", strings.NewReader("match all\nallow site: domain example\ndeny zip: extension zip\nallow short: url-length < 30\n"))
	must.OK(t, err)
	for u, want := range map[string]string{
		"http://a.example/": "", "http://a.test/": "filter:site", "http://example/a.zip": "filter:zip",
		"http://example/" + strings.Repeat("a", 30): "filter:short",
	} {
		t.Run(u, func(t *testing.T) {
			v := decide(t, f, candidate(t, u))
			if v.Allow != (want == "") || !v.Allow && v.Reason() != want {
				t.Errorf("%s: %v %s, want %q", u, v.Allow, v.Reason(), want)
			}
			traces, again, err := f.NewJudge().Explain(context.Background(), *candidate(t, u), false)
			if err != nil || again != v {
				t.Errorf("%s: explained as %v (%v)", u, again, err)
			}
			for _, r := range traces {
				if ok := r.Holds == r.Rule.Allow; ok == r.Decides {
					t.Errorf("%s: rule %s holds %v and decides %v", u, r.Rule.Name, r.Holds, r.Decides)
				}
			}
		})
	}
}

func TestDocuments(t *testing.T) {
	for _, mode := range []string{"match first", "match all"} {
		f, err := Parse("rules", strings.NewReader(mode+`
deny pictures: mime image/* Application/ZIP and not domain art.test
allow deep: mime */* and depth < 300
allow site: domain a.test art.test
`+map[string]string{"match first": "default deny", "match all": ""}[mode]))
		must.OK(t, err)
		for in, want := range map[string]string{
			"http://a.test/ ": "", "http://b.test/ ": "deny", "http://b.test/ text/html": "", "http://a.test/ image/png": "deny", "http://a.test/ application/zip": "deny",
			"http://art.test/ image/png": "", "http://a.test/ imagery/png": "",
		} {
			t.Run(mode+" "+in, func(t *testing.T) {
				u, mime, _ := strings.Cut(in, " ")
				c := candidate(t, u)
				j := f.NewJudge()
				var v Verdict
				if c.MIME = mime; mime == "" {
					v = decide(t, f, c)
				} else if v, err = j.Document(context.Background(), *c); err != nil {
					t.Fatal(err)
				}
				if v.Allow != (want == "") {
					t.Errorf("%s: %s: %v by %s", mode, in, v.Allow, v.Reason())
				}
			})
		}
	}
	f, err := Parse("rules", strings.NewReader("default deny"))
	must.OK(t, err)
	if v, err := f.NewJudge().Document(context.Background(), *candidate(t, "http://a/")); err != nil || !v.Allow || f.JudgesDocuments() {
		t.Errorf("the default judges documents: %v %v", v, err)
	}
}

func TestInclude(t *testing.T) {
	f, err := load(t, 0, "allow mine: suffix /cal/2024/05\ninclude sub/more without b\ninclude default without long-url deep-path\ndefault deny", map[string]string{
		"list": "x.test\n", "more": "", "loop": "include loop",
	})
	if err == nil || !strings.Contains(err.Error(), `line 2, column 9: "`) || f != nil {
		t.Errorf("a file that is not there: %v", err)
	}
	f, err = load(t, 0, "allow mine: suffix /cal/2024/05\ninclude more without b\ninclude default without long-url deep-path\ndeny rest: any", map[string]string{
		"list": "x.test\n", "more": "deny a: domain @list\ndeny b: any\ninclude third", "third": "deny c: suffix c",
	})
	must.OK(t, err)
	for u, want := range map[string]string{
		"http://x.test/cal/2024/05": "filter:mine", "http://x.test/": "filter:a", "http://h/c": "filter:c", "http://h/cal/2024/06": "filter:calendar-path",
		"http://h/" + strings.Repeat("1/", 2) + strings.Repeat("a", 1100): "filter:rest",
	} {
		t.Run(u, func(t *testing.T) {
			if v := decide(t, f, candidate(t, u)); v.Reason() != want {
				t.Errorf("%.60s: %s, want %s", u, v.Reason(), want)
			}
		})
	}
	for rules, want := range map[string]string{
		"include loop":               `column 9: "`,
		"include more":               `more: line 1, column 1: "default" in an included file, want allow, deny or include`,
		"deny a: any\ninclude twice": `twice: line 1, column 6: rule name "a", which line 1 of `,
		"include f1":                 "at most 8 files in one another",
		"deny a: any\ninclude empty": `line 2, column 9: "`,
		"include outer":              `outer: line 2, column 9: "`,
	} {
		t.Run(rules, func(t *testing.T) {
			files := map[string]string{"loop": "include loop", "more": "default deny", "twice": "deny a: any", "empty": "# no rule\n", "outer": "deny b: any\ninclude empty"}
			for i := range 9 {
				files[fmt.Sprintf("f%d", i+1)] = fmt.Sprintf("include f%d", i+2)
			}
			if _, err := load(t, 0, rules, files); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", rules, err, want)
			}
		})
	}
}

// The number of rules and of tests is bounded, and so is the time that they take to read.
func TestManyRules(t *testing.T) {
	var b strings.Builder
	for i := range maxRules + 1 {
		fmt.Fprintf(&b, "deny :any\n")
		if i == maxRules-1 {
			_, err := Parse("rules", strings.NewReader(b.String()))
			must.OK(t, err)
		}
	}
	if _, err := Parse("rules", strings.NewReader(b.String())); err == nil || !strings.Contains(err.Error(), "line 10001, column 5: one rule more, want at most 10000") {
		t.Error(err)
	}
	line := "deny : any" + strings.Repeat(" or any", maxTests)
	if _, err := Parse("rules", strings.NewReader(line)); err == nil || !strings.Contains(err.Error(), "one test more, want at most 100000") {
		t.Error(err)
	}
}

// Paths with very many segments take no more time than others of their length.
func TestRepeatedSegments(t *testing.T) {
	f, err := Parse("rules", strings.NewReader("deny x: repeated-segments > 99998"))
	must.OK(t, err)
	u := "http://h/" + strings.Repeat("a/", 100_000)
	if v := decide(t, f, &Candidate{URL: u, Host: "h"}); v.Allow {
		t.Error("100000 segments do not count")
	}
	if v := decide(t, f, &Candidate{URL: u[:len(u)-2], Host: "h"}); !v.Allow {
		t.Error("99999 segments count")
	}
}

func TestErrors(t *testing.T) {
	for in, want := range map[string]string{
		"permit x: any":                                    `line 1, column 1: "permit", want allow, deny, default`,
		"\ndeny x any":                                     "line 2, column 5: no colon",
		"deny x: ":                                         "line 1, column 9: the end of the line, want a test",
		"deny x: any any":                                  `column 13: "any", want any without an argument`,
		"deny x: foo bar":                                  `column 9: "foo", want a test: any, scheme, host`,
		"deny x: host":                                     "column 13: host without an argument",
		"deny x: (any":                                     "column 9: a parenthesis that does not close",
		"deny x: any)":                                     `column 12: ")" after`,
		"deny x: any and":                                  "column 16: the end of the line, want a test",
		"deny x: and any":                                  `column 9: "and", want a test`,
		"deny x: prefix http://a.test/ /blog/":             `column 31: prefix "/blog/", want the beginning of a URL, with its scheme`,
		"deny x: prefix a.test/":                           `prefix "a.test/", want the beginning of a URL, with its scheme`,
		`deny x: regex "^/blog/"`:                          `regex "^/blog/", want the beginning of a URL, with its scheme`,
		"deny x: path blog":                                `path "blog", want the beginning of a path, such as /blog/`,
		"deny x: path /%7Eme /a":                           `path "/%7Eme", want "/~me", its canonical form`,
		"deny x: regex (":                                  "regex without an argument",
		`deny x: regex "("`:                                "column 15: regex \"(\", want a regular expression (RE2): missing closing",
		`deny x: host "a`:                                  "column 14: a quote that does not end",
		"deny x: depth 3":                                  "want a comparison",
		"deny x: depth > -1":                               "want a comparison",
		"deny x: depth > 1 2":                              "want a comparison",
		"deny x: depth >":                                  "want a comparison",
		"deny default: any":                                `rule name "default"`,
		"deny x: port 99999":                               "up to 65535",
		"deny x: port 080":                                 "up to 65535",
		"deny x: host Example.com":                         `host "Example.com", want "example.com", its canonical form`,
		"deny x: domain Example.com":                       `domain "Example.com", want "example.com", its canonical form`,
		"deny x: host a.test bücher.test":                  `column 21: host "bücher.test", want "xn--bcher-kva.test"`,
		"deny x: domain a.test:8080":                       `domain "a.test:8080", want "a.test": a domain is meant on any port`,
		"deny x: host .a.test":                             `host ".a.test", want a host in canonical form`,
		"deny x: registered-domain www.a.test":             `column 27: registered-domain "www.a.test", want "a.test", under which it is registered`,
		"deny x: registered-domain a.test:80":              `want "a.test"`,
		"deny x: host a.test:080":                          `want "a.test:80"`,
		"deny x: host a.test:99999":                        "want a port from 1 to 65535",
		"deny x: host http://a.test/":                      "host",
		"deny x: host a.test/b":                            `want "a.test", its canonical form`,
		"deny x: url http://a.test":                        `want "http://a.test/", its canonical form`,
		"deny x: url a":                                    "no scheme",
		"deny x: scheme mailto":                            "want http",
		"deny x: any\nallow x: any":                        `line 2, column 7: rule name "x", which line 1 of rules has`,
		"default perhaps":                                  "want allow or deny",
		"default":                                          "want allow or deny",
		"default deny\ndefault deny":                       "line 2, column 1: a second default, want one",
		"match some":                                       "want first or all",
		"match all\ndefault deny":                          "default with match all",
		"timeout 0s":                                       "want a time",
		"timeout 2h":                                       "want a time",
		"include":                                          "include without a file",
		"include rules":                                    "rules",
		"include no.rules":                                 `column 9: "no.rules": no such file`,
		"include default with x":                           `column 17: "with"`,
		"include default without":                          `column 17: "without"`,
		"include default without x":                        `column 25: "x", want the name of a rule of default`,
		"include default\ndeny long-url: any":              `rule name "long-url", which line`,
		"deny x: domain @no.txt":                           "no.txt: no such file",
		"deny x: domain @":                                 "the name of a file",
		"deny x: mime text":                                "want a media type",
		"deny x: mime */html":                              "want a media type",
		`deny x: mime "text/html; charset=a"`:              "want a media type",
		"deny x: kind a imgg":                              `column 16: kind "imgg", want a kind: a, applet, `,
		"deny x: kind x-":                                  `kind "x-", want a kind`,
		"deny x: requisite img":                            "requisite without an argument",
		"deny x: mime text/html and kind a":                "kind beside mime",
		"deny x: exec a b":                                 "column 16: exec \"b\", want one command",
		"deny x: " + strings.Repeat("(", 1000):             "more than 100",
		"deny x: regex " + strings.Repeat("a", maxRegex+1): "at most 16384 bytes",
		strings.Repeat("x", MaxLine+1):                     "too long",
	} {
		t.Run(in, func(t *testing.T) {
			_, err := Parse("rules", strings.NewReader(in))
			var e *fault.Error
			if !errors.As(err, &e) || e.Class != fault.Usage || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, want %q", in, err, want)
			}
		})
	}
}

// A name of a kind covers those that are of it.
func TestKindsOfGroups(t *testing.T) {
	f, err := Parse("rules", strings.NewReader("allow css: kind css\nallow link: kind link\nallow parts: requisite\ndefault deny"))
	must.OK(t, err)
	for kind, want := range map[string]string{"css": "css", "css-import": "css", "link-stylesheet": "css", "link": "link", "link-icon": "link", "img": "default", "a": "default", "": "default"} {
		t.Run(kind, func(t *testing.T) {
			c := candidate(t, "http://h/")
			c.Kind = kind
			if got := decide(t, f, c).Name(); got != want {
				t.Errorf("%q: %s, want %s", kind, got, want)
			}
			if c.Requisite = true; want == "default" && decide(t, f, c).Name() != "parts" {
				t.Errorf("%q: a part is not taken", kind)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("deny a: not (host b or path-depth > 3) and regex \"x\"\ndefault deny")
	f.Add("allow : suffix \"a\\\"b\" # c\nmatch all\ntimeout 3s")
	f.Add("include default without calendar-path\ndeny x: mime text/html or port 80 8080 and domain .a.b and scheme ftp")
	f.Add("deny x: prefix a b c d e f g h http://i/ http://i/j http://h/a and url http://h/ and query")
	f.Fuzz(func(t *testing.T, rules string) {
		if strings.Contains(rules, "exec") || strings.Contains(rules, "@") || strings.Contains(strings.ReplaceAll(rules, "include default", ""), "include") {
			return // no programs and no files but those that are shipped
		}
		flt, err := Parse("rules", strings.NewReader(rules))
		if err != nil {
			var e *fault.Error
			if !errors.As(err, &e) || e.Class != fault.Usage {
				t.Fatalf("%v", err)
			}
			return
		}
		c := candidate(t, "http://h/a/b?c")
		j := flt.NewJudge()
		trace, v, err := j.Explain(context.Background(), *c, false)
		must.OK(t, err)
		if v != decide(t, flt, c) {
			t.Fatal("explain says something else")
		}
		if v.Rule != nil && (len(trace) == 0 || trace[len(trace)-1].Rule != v.Rule || !flt.All && v.Allow != v.Rule.Allow) {
			t.Fatal("the rule that decided is not explained")
		}
	})
}

func TestCountsOfRepetitions(t *testing.T) {
	for u, want := range map[string]string{
		"http://h/":                      "0 0",
		"http://h/a/b/c/":                "0 0",
		"http://h/a/b/a/b/a":             "3 0",
		"http://h/a//a///":               "1 0",
		"http://h/a?a=1&b=2&a=2":         "0 0",
		"http://h/a?a=1&b=2&a=1;a=1?a=1": "0 3",
		"http://h/?a&a&b&&&b":            "0 0",
	} {
		t.Run(u, func(t *testing.T) {
			segments, parameters, _ := strings.Cut(want, " ")
			f, err := Parse("rules", strings.NewReader("match all\nallow a: repeated-segments = "+segments+"\nallow b: repeated-parameters = "+parameters))
			must.OK(t, err)
			if v := decide(t, f, candidate(t, u)); !v.Allow {
				t.Errorf("%s: not %s: %s", u, want, v.Name())
			}
		})
	}
}

// What was asked for by name needs no rule that allows it, but one may deny it.
func TestNamedCandidates(t *testing.T) {
	for _, c := range []struct {
		rules        string
		named, other bool
	}{
		{"allow site: host h\ndefault deny", true, false},
		{"match all\nallow site: host h", true, false},
		{"deny other: host o\ndefault deny", false, false},
		{"match all\nallow site: host h\ndeny other: host o", false, false},
	} {
		t.Run(c.rules, func(t *testing.T) {
			f, err := Parse("rules", strings.NewReader(c.rules))
			must.OK(t, err)
			link := candidate(t, "http://o/s.xml")
			if got := decide(t, f, link).Allow; got != c.other {
				t.Errorf("%q: %v", c.rules, got)
			}
			if link.Named = true; decide(t, f, link).Allow != c.named {
				t.Errorf("%q: named %v", c.rules, !c.named)
			}
		})
	}
}

func TestNamedLinks(t *testing.T) {
	for _, c := range []struct {
		name string
		link record.Link
		want bool
	}{
		{"page", record.Link{SrcURL: "http://h/", Host: "h", LinkKind: "a"}, false},
		{"named by robots.txt", record.Link{SrcURL: "http://h/robots.txt", Host: "cdn", LinkKind: "sitemap", Sitemap: 1}, true},
		{"named by an index there", record.Link{SrcURL: "http://cdn/i", Host: "cdn", LinkKind: "sitemap", Sitemap: 2}, true},
		{"named by an index elsewhere", record.Link{SrcURL: "http://cdn/i", Host: "x", LinkKind: "sitemap", Sitemap: 2}, false},
		{"named by robots.txt of a host with a sitemap alone", record.Link{SrcURL: "http://cdn/robots.txt", Host: "cdn", LinkKind: "sitemap", Sitemap: 2}, false},
		{"redirect of a sitemap", record.Link{SrcURL: "http://h/s", Host: "cdn", LinkKind: "redirect", Sitemap: 1}, true},
		{"redirect of a page", record.Link{SrcURL: "http://h/s", Host: "cdn", LinkKind: "redirect"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Named(&c.link); got != c.want {
				t.Errorf("%s: %v", c.name, got)
			}
		})
	}
}
