package setup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

func TestSite(t *testing.T) {
	for _, test := range []struct {
		urls          []string
		scope         Scope
		folder, rules string
	}{
		{[]string{"https://www.Example.org/a"}, Hosts, "www.example.org", "allow site: host example.org www.example.org\n"},
		{[]string{"b.example.org:81", "http://[::1]:8080/x", "b.example.org:81/2"}, Hosts, "b.example.org_81", "allow site: host [::1]:8080 b.example.org:81 www.b.example.org:81\n"},
		{[]string{"http://[::1]:8080/x"}, Hosts, "__1_8080", "allow site: host [::1]:8080\n"},
		{[]string{"https://127.0.0.1/x", "http://localhost/", "www.co.uk/"}, Hosts, "127.0.0.1", "allow site: host 127.0.0.1 localhost www.co.uk\n"},
		{[]string{"a.b.example.co.uk"}, Domains, "a.b.example.co.uk", "allow site: domain example.co.uk\n"},
		{[]string{"www.example.org/docs/a?x=/y"}, Prefixes, "www.example.org",
			"allow site: prefix \"http://example.org/docs/\" \"http://www.example.org/docs/\" \"https://example.org/docs/\" \"https://www.example.org/docs/\"\n"},
		{[]string{"https://127.0.0.1:8443/docs"}, Prefixes, "127.0.0.1_8443", "allow site: prefix \"https://127.0.0.1:8443/\"\n"},
	} {
		t.Run(fmt.Sprint(test.scope, " ", test.folder), func(t *testing.T) {
			for _, parts := range []bool{false, true} {
				folder, rules, err := Site(test.urls, test.scope, parts)
				if strings.Contains(rules, "\n"+partsRule) != parts {
					t.Errorf("%q: parts %t\n%s", test.urls, parts, rules)
				}
				if _, list, _ := strings.Cut(rules, "include default\n"); err != nil || folder != test.folder || !parts && list != test.rules+"default deny\n" || !strings.HasPrefix(list, test.rules) {
					t.Errorf("%q: %s, %v\n%s", test.urls, folder, err, rules)
				}
			}
		})
	}
}

func TestOwnPrefix(t *testing.T) {
	made := time.Date(2026, 11, 30, 17, 9, 38, 120e6, time.FixedZone("", 3600))
	for folder, want := range map[string]string{
		"a/docs/":                      "docs",
		"www.example.org_81":           "www.example.org_81",
		".-Größe: \"x\"":               "Gr--e---x-",
		"JOURNAL":                      "crawl",
		"a..b":                         "crawl",
		"a/" + strings.Repeat("x", 99): strings.Repeat("x", 44),
	} {
		t.Run(folder, func(t *testing.T) {
			got, err := ownPrefix(folder, made)
			must.OK(t, err)
			if want += "-20261130T160938.120"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}
