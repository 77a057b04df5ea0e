package cookies

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func keep(j *Jar, url string, fields ...string) {
	for _, f := range fields {
		j.Keep(TargetOf(url), f, now)
	}
}

// step sets cookies at a URL; or asks after a wait which are sent there.
type step struct {
	url  string
	set  []string
	wait time.Duration
	want string
}

func TestRules(t *testing.T) {
	sets := func(url string, fields ...string) step { return step{url: url, set: fields} }
	sent := func(url, want string) step { return step{url: url, want: want} }
	later := func(wait time.Duration, url, want string) step { return step{url: url, wait: wait, want: want} }
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"host only", []step{sets("http://a.ex.test/", "a=1"), sent("http://a.ex.test/x", "a=1"), sent("http://ex.test/", ""), sent("http://b.a.ex.test/", "")}},
		{"domain", []step{sets("http://ex.test/", "a=1; Domain=ex.test"), sent("http://www.ex.test/", "a=1"), sent("http://ex.test/", "a=1"), sent("http://notex.test/", "")}},
		{"domain from below", []step{sets("http://www.ex.test/", "a=1; domain=.EX.test"), sent("http://ex.test/", "a=1"), sent("http://b.ex.test/", "a=1")}},
		{"foreign domain", []step{sets("http://ex.test/", "a=1; Domain=other.test", "b=2; Domain=www.ex.test"), sent("http://other.test/", ""), sent("http://www.ex.test/", ""), sent("http://ex.test/", "")}},
		{"empty domain", []step{sets("http://ex.test/", "a=1; Domain=other.test; Domain="), sent("http://ex.test/", "a=1")}},
		{"public suffix", []step{sets("http://ex.co.uk/", "a=1; Domain=co.uk", "b=2; Domain=uk"), sent("http://ex.co.uk/", ""), sent("http://other.co.uk/", "")}},
		{"private suffix", []step{sets("http://anna.github.io/", "a=1; Domain=github.io"), sent("http://ben.github.io/", "")}},
		{"host that is a suffix", []step{sets("http://github.io/", "a=1; Domain=github.io"), sent("http://github.io/", "a=1"), sent("http://ben.github.io/", "")}},
		{"address", []step{sets("http://192.0.2.1/", "a=1; Domain=192.0.2.1", "b=2; Domain=2.1", "c=3"), sent("http://192.0.2.1:81/", "a=1; c=3"), sent("http://1.192.0.2.1/", "")}},
		{"IPv6", []step{sets("http://[2001:db8::1]/", "a=1"), sent("http://[2001:db8::1]:81/", "a=1"), sent("http://[2001:db8::2]/", "")}},
		{"default path", []step{sets("http://ex.test/d/page?q=/x", "a=1", "b=2; Path=x"), sent("http://ex.test/d/", "a=1; b=2"), sent("http://ex.test/d", "a=1; b=2"), sent("http://ex.test/", ""), sent("http://ex.test/dir", "")}},
		{"path", []step{sets("http://ex.test/", "a=1; Path=/d", "b=2; Path=/d/e/", "c=3"), sent("http://ex.test/d/e/f", "b=2; a=1; c=3"), sent("http://ex.test/d/e", "a=1; c=3"), sent("http://ex.test/dd", "c=3")}},
		{"secure", []step{sets("https://ex.test/", "a=1; Secure"), sets("http://ex.test/", "b=2; Secure"), sent("https://ex.test/", "a=1"), sent("http://ex.test/", "")}},
		{"secure is not replaced", []step{sets("https://ex.test/", "a=1; Secure; Domain=ex.test"), sets("http://www.ex.test/", "a=2", "a=3; Domain=ex.test"), sent("https://www.ex.test/", "a=1"), sets("https://ex.test/", "a=4; Domain=ex.test"), sent("http://ex.test/", "a=4")}},
		{"prefixes", []step{sets("https://ex.test/", "__Host-a=1; Secure; Path=/", "__Host-b=1; Secure", "__host-c=1; Secure; Path=/; Domain=ex.test", "__Secure-d=1", "__secure-e=1; Secure", "=__Host-f=1"), sent("https://ex.test/", "__Host-a=1; __secure-e=1")}},
		{"default path of a prefix", []step{sets("https://ex.test/d/", "__Host-a=1; Secure"), sent("https://ex.test/d/", "")}},
		{"age", []step{sets("http://ex.test/", "a=1; Max-Age=10", "b=2; Expires=Fri, 02 Jan 2026 03:04:15 GMT", "c=3; Max-Age=20; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "d=4; Max-Age=x"),
			sent("http://ex.test/", "a=1; b=2; c=3; d=4"), later(10*time.Second, "http://ex.test/", "c=3; d=4"), later(800*24*time.Hour, "http://ex.test/", "d=4")}},
		{"no age is longer than 400 days", []step{sets("http://ex.test/", "a=1; Max-Age=99999999999999999999", "b=2; Expires=Fri, 02 Jan 2099 03:04:15 GMT"), later(399*24*time.Hour, "http://ex.test/", "a=1; b=2"), later(401*24*time.Hour, "http://ex.test/", "")}},
		{"deleted", []step{sets("http://ex.test/", "a=1", "b=2", "c=3", "a=; Max-Age=0", "b=; Max-Age=-1", "c=; Expires=Thu, 01-Jan-70 00:00:01 GMT"), sent("http://ex.test/", "")}},
		{"replaced in its place", []step{sets("http://ex.test/", "a=1", "b=2", "a=3"), sent("http://ex.test/", "a=3; b=2")}},
		{"forms", []step{sets("http://ex.test/", " a = b c ", "nameless", `j={"x":[1,2]}`, "q=\"s\"", "u=\xc3\xbc", "eq=a=b", "=", "", ";Path=/", "tab=a\tb"), sent("http://ex.test/", "a=b c; nameless; j={\"x\":[1,2]}; q=\"s\"; u=\xc3\xbc; eq=a=b; tab=a\tb")}},
		{"control characters", []step{sets("http://ex.test/", "a=1\r\nX: y", "b=\x00", "c=3; Path=/\x07", "d=\x7f"), sent("http://ex.test/", "")}},
		{"too long", []step{sets("http://ex.test/", "a="+strings.Repeat("x", 4096), "b=2; Path=/"+strings.Repeat("x", 1100)), sent("http://ex.test/", "b=2")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := New()
			for _, s := range c.steps {
				if keep(j, s.url, s.set...); s.set != nil {
					continue
				}
				if got := j.Line(TargetOf(s.url), now.Add(s.wait)); got != s.want {
					t.Errorf("%s after %v: %q, want %q", s.url, s.wait, got, s.want)
				}
			}
		})
	}
}

func TestParseDate(t *testing.T) {
	for text, want := range map[string]string{
		"Sun, 06 Nov 1994 08:49:37 GMT":  "1994-11-06T08:49:37Z",
		"Sunday, 06-Nov-94 08:49:37 GMT": "1994-11-06T08:49:37Z",
		"Sun Nov  6 08:49:37 1994":       "1994-11-06T08:49:37Z",
		"Wed, 09-Jun-2021 1:2:3 GMT":     "2021-06-09T01:02:03Z",
		"06 november 24 23:59:59":        "2024-11-06T23:59:59Z",
		"31 Feb 2024 00:00:00":           "",
		"1 Jan 1600 00:00:00":            "",
		"1 Jan 2024 24:00:00":            "",
		"1 Jan 2024":                     "",
		"tomorrow":                       "",
		"":                               "",
		"00 Jan 2024 00:00:00":           "",
	} {
		t.Run(text, func(t *testing.T) {
			got := ""
			if at, ok := parseDate(text); ok {
				got = at.Format(time.RFC3339)
			}
			if got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		})
	}
}

// However many cookies servers set, a Jar stays within its bounds, and the sites that were asked last keep theirs.
func TestBounds(t *testing.T) {
	check := func(t *testing.T, j *Jar) {
		t.Helper()
		size := 0
		for e := j.order.Front(); e != nil; e = e.Next() {
			s := e.Value.(*site)
			bytes := cookieCost + len(s.name)
			for i := range s.list {
				bytes += s.list[i].cost()
			}
			if size += s.size; bytes != s.size || len(s.list) > siteMax || s.size > siteBytes+cookieCost+len(s.name) {
				t.Fatalf("%s has %d cookies of %d bytes, counted as %d", s.name, len(s.list), bytes, s.size)
			}
		}
		if size != j.size || size > jarMax || len(j.sites) != j.order.Len() {
			t.Fatalf("%d bytes of %d sites, counted as %d", size, len(j.sites), j.size)
		}
	}
	t.Run("host", func(t *testing.T) {
		j := New()
		for i := range 1000 {
			keep(j, "http://ex.test/", fmt.Sprintf("c%d=1", i))
		}
		check(t, j)
		line := j.Line(TargetOf("http://ex.test/"), now)
		if n := strings.Count(line, "="); n != domainMax || !strings.Contains(line, "c999=") {
			t.Errorf("%d cookies: %s", n, line)
		}
	})
	t.Run("site", func(t *testing.T) {
		j := New()
		keep(j, "http://ex.test/", "old=1")
		for host := range 100 {
			for i := range 20 {
				j.Keep(TargetOf(fmt.Sprintf("http://h%d.ex.test/", host)), fmt.Sprintf("c%d=%s", i, strings.Repeat("v", 100)), now.Add(time.Duration(host)*time.Second))
			}
		}
		check(t, j)
		if j.Line(TargetOf("http://h99.ex.test/"), now) == "" || j.Line(TargetOf("http://ex.test/"), now) != "" {
			t.Error("those set longest ago did not go first")
		}
	})
	t.Run("line", func(t *testing.T) {
		j := New()
		for i := range 50 {
			keep(j, "http://www.ex.test/", fmt.Sprintf("a%d=%s", i, strings.Repeat("v", 200)), fmt.Sprintf("b%d=%s; Domain=ex.test", i, strings.Repeat("v", 200)))
		}
		check(t, j)
		if n := len(j.Line(TargetOf("http://www.ex.test/"), now)); n > lineMax || n < lineMax/2 {
			t.Errorf("a line of %d bytes", n)
		}
	})
	t.Run("all", func(t *testing.T) {
		j := New()
		for site := range 2000 {
			for i := range 10 {
				keep(j, fmt.Sprintf("http://s%d.test/", site), fmt.Sprintf("c%d=%s", i, strings.Repeat("v", 1000)))
			}
			j.Line(TargetOf("http://s0.test/"), now)
		}
		check(t, j)
		if j.Line(TargetOf("http://s0.test/"), now) == "" || j.Line(TargetOf("http://s1.test/"), now) != "" {
			t.Error("the site that was asked longest ago did not go first")
		}
	})
}

// What All gives makes the same Jar; a newer value stands, and what no server could have set does not come in.
func TestPut(t *testing.T) {
	j := New()
	keep(j, "https://www.ex.test/d/", "a=1", "b=2; Path=/; Domain=ex.test; Max-Age=60", "__Host-c=3; Secure; Path=/", "nameless")
	keep(j, "http://192.0.2.1/", "d=4")
	again := New()
	for _, c := range j.All(now) {
		again.Put(c, now)
	}
	for _, url := range []string{"https://www.ex.test/d/", "http://ex.test/", "http://192.0.2.1/"} {
		if got, want := again.Line(TargetOf(url), now), j.Line(TargetOf(url), now); got != want || want == "" {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	if again.Dirty() || !j.Dirty() {
		t.Error("Put counts as a change, or Keep does not")
	}
	c := Cookie{Domain: "ex.test", Path: "/", Name: "x", Value: "old", Set: now.Add(-time.Hour)}
	again = New()
	keep(again, "http://ex.test/", "x=new; Domain=ex.test")
	if !again.Put(c, now) {
		t.Error("an older one is not taken for known")
	}
	for _, bad := range []Cookie{
		{Domain: "co.uk", Path: "/", Name: "x", Set: now}, {Domain: "ex.test", Path: "x", Name: "y", Set: now}, {Domain: "ex.test", Path: "/", Name: "z", Value: "\n", Set: now},
		{Domain: "localhost", Path: "/", Name: "all below it", Set: now}, {Domain: "192.0.2.1", Path: "/", Name: "all below it", Set: now},
		{Domain: "ex.test", Path: "/", Name: "late", Set: now, Expires: now}, {Domain: "", Path: "/", Name: "w", Set: now},
	} {
		t.Run(bad.Domain+" "+bad.Name, func(t *testing.T) {
			if again.Put(bad, now) {
				t.Errorf("%+v is taken", bad)
			}
		})
	}
	if got := again.All(now); len(got) != 1 || got[0].Value != "new" {
		t.Errorf("%+v", got)
	}
}

func FuzzKeep(f *testing.F) {
	f.Add("a=1; Domain=ex.test; Path=/; Max-Age=7; Expires=Sun, 06 Nov 1994 08:49:37 GMT; Secure")
	f.Fuzz(func(t *testing.T, field string) {
		j := New()
		keep(j, "https://www.ex.test/d/", field)
		line := j.Line(TargetOf("https://www.ex.test/d/"), now)
		if strings.ContainsFunc(line, control) || len(line) > lineMax {
			t.Errorf("%q", line)
		}
		again := New()
		for _, c := range j.All(now) {
			again.Put(c, now)
		}
		if got := again.Line(TargetOf("https://www.ex.test/d/"), now); got != line {
			t.Errorf("%q, want %q", got, line)
		}
	})
}
