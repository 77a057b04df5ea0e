package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

func TestUnknownKeyNamesTheNearest(t *testing.T) {
	for _, c := range []struct{ text, want, hint string }{
		{"batch = 3\nbach = 4\n", `crawl.toml: line 2: unknown key "bach"`, `did you mean "batch"?`},
		{"policy = \"fifo\"\n", `crawl.toml: line 1: unknown key "policy"`, `did you mean "frontier.policy"?`},
		{"[politeness]\nmin_dealy = \"1s\"\n", `crawl.toml: line 2: unknown key "politeness.min_dealy"`, `did you mean "politeness.min_delay"?`},
		{"[fetch]\ncolour = 1\n", `crawl.toml: line 2: unknown key "fetch.colour"`, "crawl.toml explains all settings"},
		{"[URLs]\n", `crawl.toml: line 1: unknown key "URLs"`, `did you mean "urls"?`},
		{"[polite]\nmin_delay = \"1s\"\n", `crawl.toml: line 1: unknown key "polite"`, ""},
	} {
		t.Run(c.want, func(t *testing.T) {
			_, err := parse("crawl.toml", []byte(c.text))
			if !errors.Is(err, fault.Usage) || err.Error() != c.want {
				t.Errorf("%q: error %q, want %q", c.text, err, c.want)
			}
			if hint := fault.HintOf(err); c.hint != "" && hint != c.hint {
				t.Errorf("%q: hint %q, want %q", c.text, hint, c.hint)
			}
		})
	}
}

// A text that is no TOML gets the hint of what it lacks.
func TestHintOfSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"[politeness]\nmin_delay = 1s\n":    "put text in quotes",
		"[politeness]\nmin_delay = fast\n":  "put text in quotes", // the decoder speaks of a keyword
		"[politeness\nmin_delay = '1s'\n":   "a table stands in brackets",
		"seeds = [\"a\"\nbatch = 3\n":       "a list stands in brackets",
		"batch 3\n":                         "a setting is a key",
		"politeness = { min_delay = '1s'\n": "a setting is a key",
		"batch = 0x\n":                      "a setting is a key",
		"round_time = '1s\n":                "text ends in its line",
		"round_time = \"1s\n":               "text ends in its line",
	} {
		t.Run(fmt.Sprintf("%.60s", text), func(t *testing.T) {
			if _, err := parse("crawl.toml", []byte(text)); err == nil || !strings.HasPrefix(fault.HintOf(err), want) {
				t.Errorf("%q: %v, hint %q, want %q", text, err, fault.HintOf(err), want)
			}
		})
	}
}

func TestLookup(t *testing.T) {
	c, err := parse("/c/crawl.toml", []byte(`
batch = 500
[politeness]
delay_factor = 0.0
[network]
allow_net = ["127.0.0.0/8"]
deny = "deny.txt"
[memory]
stages = "32M"
`))
	must.OK(t, err)
	for _, k := range []struct {
		key  string
		want any
	}{
		{"batch", int64(500)},
		{"rounds", nil},
		{"politeness.delay_factor", 0.0},
		{"politeness.min_delay", nil},
		{"network.deny", "/c/deny.txt"},
		{"memory.stages", "32M"},
		{"no.key", nil},
	} {
		t.Run(k.key, func(t *testing.T) {
			got, found := c.Lookup(k.key)
			if found != (k.want != nil) || got != k.want {
				t.Errorf("%s: %v, %v; want %v", k.key, got, found, k.want)
			}
		})
	}
	if v, _ := c.Lookup("network.allow_net"); len(v.([]any)) != 1 {
		t.Errorf("allow-net: %v", v)
	}
}

func TestFindNeedsACrawlFolder(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "urls")
	must.OK(t, os.Mkdir(store, 0o777), os.WriteFile(filepath.Join(dir, Name), nil, 0o666))
	if got := Find([]string{store}); got != "" {
		t.Errorf("without CURRENT found %s", got)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "CURRENT"), nil, 0o666))
	if got, want := Find([]string{"-n", store}), filepath.Join(dir, Name); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	for _, of := range []string{"shard/007", "shard/007/urls", "shard/007/modules/tags"} {
		in := filepath.Join(dir, of)
		must.OK(t, os.MkdirAll(in, 0o777))
		if got, want := Find([]string{in}), filepath.Join(dir, Name); got != want {
			t.Errorf("%s: found %q, want %q", of, got, want)
		}
	}
}

// A crawl folder's rounds have a time, also where crawl.toml sets none; nothing else has.
func TestRoundTime(t *testing.T) {
	dir := t.TempDir()
	at := func(name, text string) any {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
		c, err := Load(filepath.Join(dir, name))
		must.OK(t, err)
		v, _ := c.Lookup("round_time")
		return v
	}
	if v := at(Name, ""); v != nil {
		t.Errorf("%v without a crawl", v)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "CURRENT"), nil, 0o666))
	if v := at(Name, ""); v != "30s" {
		t.Errorf("%v, want 30s", v)
	}
	if v := at(Name, `round_time = "0s"`); v != "0s" {
		t.Errorf("%v, want 0s", v)
	}
	if v := at("other.toml", ""); v != nil {
		t.Errorf("%v by --config", v)
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	for _, k := range Keys() {
		if k.Doc == "" {
			t.Errorf("%s has no description", k.Name)
		}
	}
}
