package filter

import (
	"context"
	"slices"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/must"
)

// Of URLs that wait, the kind of link is not known: one is refused only if links of every kind would be. Who was asked
// for by name is refused by a rule that denies it, and not by the default.
func TestWaiting(t *testing.T) {
	urls := []*record.URL{
		{URL: "http://a.test/x", Host: "a.test", Via: "http://a.test/"},
		{URL: "http://a.test/private", Host: "a.test", Via: "http://a.test/"},
		{URL: "http://b.test/x", Host: "b.test", Via: "http://a.test/"},
		{URL: "http://b.test/seed", Host: "b.test"},
		{URL: "http://a.test/private/seed", Host: "a.test"},
		{URL: "http://b.test/part", Host: "b.test", Via: "http://a.test/", Requisite: 1},
	}
	for rules, want := range map[string][]string{
		"deny p: contains /private\nallow site: host a.test and kind a\ndefault deny": {"", "filter:p", "filter:default", "", "filter:p", "filter:default"},
		"deny pictures: kind img\nallow rest: any":                                    {"", "", "", "", "", ""},
		"deny linked: kind a img area or not kind a img area":                         {"filter:linked", "filter:linked", "filter:linked", "filter:linked", "filter:linked", "filter:linked"},
		"match all\nallow p: contains /private\nallow a: kind a":                      {"filter:p", "", "filter:p", "", "", "filter:p"},
		"deny cross: not same-host":                                                   {"", "", "filter:cross", "", "", "filter:cross"},
		"deny p: contains /private\nallow parts: requisite\ndefault deny":             {"filter:default", "filter:p", "filter:default", "", "filter:p", ""},
		"default allow": {"", "", "", "", "", ""},
	} {
		t.Run(rules, func(t *testing.T) {
			f, err := Parse("rules", strings.NewReader(rules))
			must.OK(t, err)
			j := f.NewJudge()
			got := []string{"old", "old", "old", "old", "old", "old"}
			if err := j.Waiting(context.Background(), urls, got); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: %q, %v, want %q", rules, got, err, want)
			}
			j.Close()
		})
	}
}
