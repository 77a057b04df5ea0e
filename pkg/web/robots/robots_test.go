package robots

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/costtest"
	"mercator/pkg/base/must"
)

// conformance finds the folder of cases that others wrote.
func conformance(t *testing.T) string {
	dirs := []string{os.Getenv("CONFORMANCE_DIR")}
	for up := ".."; len(up) < 40; up += "/.." {
		dirs = append(dirs, filepath.Join(up, "shared/conformance"))
	}
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, "robots")); d != "" && err == nil {
			return d
		}
	}
	t.Skip("no folder shared/conformance above this one, and CONFORMANCE_DIR is not set")
	return ""
}

func TestConformance(t *testing.T) {
	f, err := os.Open(filepath.Join(conformance(t), "robots/cases.jsonl"))
	must.OK(t, err)
	defer f.Close()
	n := 0
	for lines := json.NewDecoder(f); lines.More(); n++ {
		var c struct {
			ID     string
			Robots []byte `json:"robots_base64"`
			Agent  string
			URL    string
			Allow  bool
		}
		must.OK(t, lines.Decode(&c))
		g := Parse(c.Robots).Group(c.Agent)
		if got := g.Allowed(c.URL); got != c.Allow {
			t.Errorf("%s: %q for %q: allowed %v of\n%s", c.ID, c.URL, c.Agent, got, c.Robots)
		}
		secondOpinion(t, c.ID, c.Robots, c.Agent, c.URL)
		text := g.text()
		if again := Parse(text).Group("any"); again.Allowed(c.URL) != c.Allow {
			t.Errorf("%s: the group written and read again differs:\n%s", c.ID, text)
		}
	}
	if n < 100 {
		t.Errorf("%d cases", n)
	}
}

// text is the group as a robots.txt for "*" that means the same.
func (g *Group) text() []byte {
	b := []byte("User-agent: *\n")
	for _, r := range g.rules {
		if r.allow {
			b = append(b, "Allow: "...)
		} else {
			b = append(b, "Disallow: "...)
		}
		b = append(append(b, r.pattern...), '\n')
	}
	if g.delay > 0 {
		b = append(strconv.AppendFloat(append(b, "Crawl-delay: "...), g.delay.Seconds(), 'f', -1, 64), '\n')
	}
	return b
}

// verdicts on files of one group, for any agent.
var verdicts = []struct {
	name, rules, path string
	allow             bool
}{
	{"empty", "", "/", true},
	{"empty disallow", "Disallow:", "/a", true},
	{"prefix", "Disallow: /a", "/ab", false},
	{"case counts", "Disallow: /a", "/A", true},
	{"query", "Disallow: /*?x=", "/p?x=1", false},
	{"longest wins", "Disallow: /a\nAllow: /a/b", "/a/b/c", true},
	{"allow on tie", "Disallow: /a\nAllow: /a", "/a", true},
	{"allow on tie, order", "Allow: /a*\nDisallow: /a/", "/a/", true},
	{"star", "Disallow: /*.gif", "/x/y.gif?z", false},
	{"star to end", "Disallow: /*.gif$", "/x/y.gif?z", true},
	{"star and end again", "Disallow: /*.gif$", "/x.gif.gif", false},
	{"two stars", "Disallow: /a*b*c$", "/a1b2bc", false},
	{"star is empty", "Disallow: /a*b", "/ab", false},
	{"only star", "Disallow: *", "/", false},
	{"only end", "Disallow: /$", "/", false},
	{"only end, longer", "Disallow: /$", "/a", true},
	{"dollar inside", "Disallow: /a$b", "/a$b", false},
	{"last piece before the end", "Disallow: /a*ab$", "/ab", true},
	{"unreserved", "Disallow: /%7euser/%61", "/~user/a", false},
	{"unreserved, beside a bare sign", "Disallow: /100%/%7euser", "/100%/~user", false},
	{"unreserved that makes another", "Disallow: /%4%31", "/A", true},
	{"hex case", "Disallow: /a%3cd", "/a%3Cd/x", false},
	{"an allow is taken as written", "Disallow: /\nAllow: /%7Euser", "/~user", false},
	{"reserved stays", "Disallow: /a%2fb", "/a/b", true},
	{"encoded star", "Disallow: /a%2Ab", "/axb", true},
	{"UTF-8", "Disallow: /ツ", "/%E3%83%84", false},
	{"robots.txt", "Disallow: /", "/robots.txt", true},
	{"comment", "Disallow: /a # not /\nDisallow:#x", "/b", true},
	{"absolute", "Disallow: /a", "http://h/a", false},
	{"no path", "Disallow: /", "http://h", false},
	{"query at once", "Disallow: /?q", "http://h?q", false},
	{"fragment", "Disallow: /a$", "http://h/a#b", false},
	{"URL in query", "Disallow: /http", "/x?u=http://h/http", true},
	{"bare CR", "Disallow: /a\rAllow: /a/b", "/a/b", true},
}

func TestAllowed(t *testing.T) {
	for _, c := range verdicts {
		t.Run(c.name, func(t *testing.T) {
			if got := Parse([]byte("User-agent: *\n" + c.rules)).Group("x").Allowed(c.path); got != c.allow {
				t.Errorf("%s: %q: %v", c.name, c.path, got)
			}
		})
	}
}

func TestGroups(t *testing.T) {
	const file = "\xef\xbb\xbfDisallow: /nobody\n" +
		"User-agent: a\nCrawl-delay: 2.5\nUser-agent: B/1.0 (x)\nDisallow: /ab\n\n" +
		"Sitemap: http://h/s.xml\n" +
		"user-agent: *\nDisallow: /all\nunknown: x\nCrawl-delay: 7\n" +
		"USER-AGENT: A\nDisallow: /more\nCrawl-delay: 4\nSITEMAP:http://h/t.xml\n" +
		"User-agent: none\n"
	r := Parse([]byte(file))
	for _, c := range []struct {
		agent, denied, allowed string
		delay                  time.Duration
	}{
		{"a", "/ab /more", "/all /nobody", 4 * time.Second},
		{"b", "/ab", "/all /more", 2500 * time.Millisecond},
		{"c", "/all", "/ab /nobody /more", 7 * time.Second},
		{"", "/all", "/ab", 7 * time.Second},
		{"none", "", "/all /ab /more", 0},
	} {
		t.Run(c.agent, func(t *testing.T) {
			g := r.Group(c.agent)
			for _, p := range strings.Fields(c.denied) {
				if g.Allowed(p) {
					t.Errorf("%s: %s allowed", c.agent, p)
				}
			}
			for _, p := range strings.Fields(c.allowed) {
				if !g.Allowed(p) {
					t.Errorf("%s: %s denied", c.agent, p)
				}
			}
			if g.CrawlDelay() != c.delay {
				t.Errorf("%s: delay %v, want %v", c.agent, g.CrawlDelay(), c.delay)
			}
			text := g.text()
			if again := Parse(text).Group("x").text(); !bytes.Equal(again, text) {
				t.Errorf("%s: %q, then %q", c.agent, text, again)
			}
		})
	}
}

func TestCrawlDelayValues(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1": time.Second, "0.5": time.Second / 2, "-1": 0, "x": 0, "NaN": 0, "": 0, "1e300": 365 * 24 * time.Hour, "Inf": 365 * 24 * time.Hour,
	} {
		t.Run(value, func(t *testing.T) {
			if got := Parse([]byte("User-agent: *\nCrawl-delay: " + value)).Group("x").CrawlDelay(); got != want {
				t.Errorf("%q: %v, want %v", value, got, want)
			}
		})
	}
}

// Beyond 500 KiB nothing counts, and the line at the edge does not count half.
func TestBodyLimit(t *testing.T) {
	head := "User-agent: *\nDisallow: /a\n"
	pad := strings.Repeat("#\n", (BodyMax-len(head))/2)
	edge := (head + pad)[:BodyMax-len("Disallow: /")-1] + "\nDisallow: /" + "b/c\nDisallow: /d\n"
	g := Parse([]byte(edge)).Group("x")
	for path, want := range map[string]bool{"/a": false, "/b/c": true, "/x": true, "/d": true} {
		t.Run(path, func(t *testing.T) {
			if g.Allowed(path) != want {
				t.Errorf("%s: %v", path, !want)
			}
		})
	}
}

// hostile files of 1 MB.
func hostile() map[string][]byte {
	fill := func(unit string) []byte {
		return []byte("User-agent: *\n" + strings.Repeat(unit, (1<<20)/len(unit)))
	}
	numbered := func(format string) []byte {
		b := []byte("User-agent: *\n")
		for i := 0; len(b) < 1<<20; i++ {
			b = fmt.Appendf(b, format, i*7919%100_003)
		}
		return b
	}
	return map[string][]byte{
		"distinct":  numbered("Allow:%d\n"),
		"encoded":   numbered("Disallow: /%%e3%%83%%84%%61%d\n"),
		"tilde":     fill("disallow:%7e\n"),
		"rules":     fill("Disallow: /abc\n"),
		"groups":    fill("User-agent: abc\nDisallow: /\n"),
		"agents":    fill("User-agent: abc\n"),
		"stars":     fill("Disallow: /*a*a*a*a*a*a*a*a*b\n"),
		"one line":  fill("*a"),
		"escapes":   fill("Disallow: /%e3%83%84%61%61%61\n"),
		"short":     fill("\n"),
		"returns":   fill("\r"),
		"colons":    fill(":\n"),
		"sitemaps":  fill("Sitemap: http://h/\n"),
		"no breaks": bytes.Repeat([]byte("Disallow: /"), 1<<20/11),
	}
}

func TestHostileFilesTakeLinearTime(t *testing.T) {
	path := "/" + strings.Repeat("a", 2000)
	for name, body := range hostile() {
		t.Run(name, func(t *testing.T) {
			costtest.Linear(t, len(body)/4, func(n int) func() {
				return func() { Parse(body[:n]).Group("abc").Allowed(path) }
			})
		})
	}
}

func TestEngines(t *testing.T) {
	const file = "User-agent: mercator\nDisallow: /a\nCrawl-delay: 3\nSitemap: http://h/s.xml\n"
	for _, name := range []string{"", EngineRFC9309, EngineTemoto} {
		parse, err := NewEngine(name)
		must.OK(t, err)
		p := parse([]byte(file), "mercator")
		if p.Allowed("http://h/a") || !p.Allowed("/b") || !p.Allowed("/robots.txt") || p.CrawlDelay() != 3*time.Second {
			t.Errorf("%q: %v %v %v", name, p.Allowed("/a"), p.Allowed("/b"), p.CrawlDelay())
		}
		if p := parse(nil, "mercator"); !p.Allowed("/") {
			t.Errorf("%q: an empty file denies", name)
		}
	}
	if _, err := NewEngine("x"); err == nil {
		t.Error("no error for engine x")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /a*b$\nAllow: /%7e\nCrawl-delay: 1\nSitemap: x"), "/a%zzb")
	f.Add([]byte("\xef\xbbuser-agent a\rdisallow:*"), "http://h?#")
	f.Fuzz(func(t *testing.T, body []byte, url string) {
		g := Parse(body).Group("mercator")
		text := g.text()
		again := Parse(text).Group("mercator")
		if len(text) < BodyMax && again.Allowed(url) != g.Allowed(url) {
			t.Errorf("allowed %v, but %v of %q", g.Allowed(url), again.Allowed(url), text)
		}
	})
}

// A file with many wildcards is not given to temoto, which would take seconds for each URL.
func TestTemotoBound(t *testing.T) {
	parse, err := NewEngine(EngineTemoto)
	must.OK(t, err)
	for _, c := range []struct {
		name, line string
		times      int
		given      bool
	}{
		{"few wildcards", "Disallow: /*.gif$\n", 100, true},
		{"many", "Disallow: /*.gif$\n", 200, false},
		{"many, lines end otherwise", "Disallow: /*.gif$\r", 200, false},
		{"ends alone", "Disallow: /private-folder$\n", 100, false},
		{"one long", "Disallow: /" + strings.Repeat("a*", 1100) + "\n", 1, false},
		{"many prefixes", "Disallow: /private\n", 20_000, true},
		{"long prefix", "Disallow: /" + strings.Repeat("a", 5000) + "\n", 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parse([]byte("User-agent: *\nDisallow: /x\n"+strings.Repeat(c.line, c.times)), "mercator")
			if _, given := p.(*temoto); given != c.given {
				t.Errorf("%T, want temoto: %v", p, c.given)
			}
			if p.Allowed("/x/y") || !p.Allowed("/y") {
				t.Error("other verdicts")
			}
		})
	}
}
