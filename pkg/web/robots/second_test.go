package robots

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/temoto/robotstxt"
)

// differences are all the ways in which temoto's verdicts are known to differ from ours, each with the files that it can
// concern and an example. Where temoto's authors come to agree, the example fails, and its row goes.
var differences = []struct {
	name    string
	fits    func(body []byte, g *Group, agent, path string) bool
	example string
	path    string
	allow   bool // by us; temoto says the opposite
}{
	{"an error in one line drops the whole file", func(body []byte, _ *Group, _, _ string) bool {
		_, err := robotstxt.FromBytes(body)
		return err != nil
	}, "Allow: /x\nUser-agent: *\nDisallow: /", "/a", false},
	{"part of a byte order mark hides the first line", func(body []byte, _ *Group, _, _ string) bool {
		return bytes.HasPrefix(body, []byte("\xef")) && !bytes.HasPrefix(body, []byte("\xef\xbb\xbf"))
	}, "\xef\xbbUser-agent: *\nDisallow: /", "/a", false},
	{"/index.html does not allow its folder", has(`/index\.htm`), "User-agent: *\nDisallow: /\nAllow: /a/index.html", "/a/", true},
	{"of an Allow and a Disallow that both match, the first or the one of longer regular expression decides", func(_ []byte, g *Group, _, path string) bool {
		allow, disallow := false, false
		for _, r := range g.rules {
			if matches(r.pattern, path) {
				allow, disallow = allow || r.allow, disallow || !r.allow
			}
		}
		return allow && disallow
	}, "User-agent: *\nDisallow: /a\nAllow: /a", "/a", true},
	{"paths are compared as written, not percent-encoded", has(`%|[^\x00-\x7f]`), "User-agent: *\nDisallow: /ä", "/%C3%A4", false},
	{"a comment begins after white space only", has(`\S#`), "User-agent: *\nDisallow: /a#b", "/a", false},
	{"a pattern without a slash gets one, or begins anywhere", has(`(?i)allow:[^\S\r\n]*[^/\s]`), "User-agent: *\nDisallow: a", "/a", true},
	{"a pattern with a wildcard begins anywhere", has(`(?i)allow[^\r\n]*[*$]`), "User-agent: *\nDisallow: /a*b", "/x/ab", true},
	{"an agent is taken as written, by its beginning", func(body []byte, _ *Group, agent, _ string) bool {
		for _, m := range agentLines.FindAllSubmatch(body, -1) {
			if a := strings.ToLower(string(m[1])); a != "*" && (productToken(a) != a || a != agent && strings.HasPrefix(strings.ToLower(agent), a)) {
				return true
			}
		}
		return false
	}, "User-agent: merc\nDisallow: /", "/a", true},
	{"a misspelt key or a space for the colon does not count", has(`(?im)^[ \t]*(useragent|user agent|dissal|disalow|diasllow|disallaw|disallow[^:\s]|[a-z-]+[ \t]+[^:\s]+[ \t]*$)`), "User-agent: *\nDisalow: /", "/a", false},
}

var agentLines = regexp.MustCompile(`(?im)^[ \t]*user-?agent[ \t]*:[ \t]*(.*?)[ \t]*$`)

func has(pattern string) func([]byte, *Group, string, string) bool {
	re := regexp.MustCompile(pattern)
	return func(body []byte, _ *Group, _, _ string) bool { return re.Match(body) }
}

// secondOpinion fails if temoto's verdict is another than ours and none of the known differences can be why.
func secondOpinion(t *testing.T, name string, body []byte, agent, url string) (differs bool) {
	t.Helper()
	g := Parse(body).Group(agent)
	ours := g.Allowed(url)
	if parseTemoto(body, agent).Allowed(url) == ours {
		return false
	}
	for _, d := range differences {
		if d.fits(body, g, agent, pathOf(url)) {
			return true
		}
	}
	t.Errorf("%s: %q for %q: allowed %v, by temoto %v, want the same or a difference with a name; of\n%q", name, url, agent, ours, !ours, body)
	return true
}

func TestSecondOpinion(t *testing.T) {
	for _, d := range differences {
		t.Run(d.name, func(t *testing.T) {
			body := []byte(d.example)
			if got := Parse(body).Group("mercator").Allowed(d.path); got != d.allow {
				t.Errorf("allowed %v", got)
			}
			if !d.fits(body, Parse(body).Group("mercator"), "mercator", d.path) || !secondOpinion(t, d.name, body, "mercator", d.path) {
				t.Error("temoto agrees now, or the example does not show what it is for")
			}
		})
	}
	for _, c := range verdicts {
		t.Run(c.name, func(t *testing.T) { secondOpinion(t, c.name, []byte("User-agent: *\n"+c.rules), "x", c.path) })
	}
}
