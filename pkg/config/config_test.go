package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/fault"
)

func TestUnknownKeyNamesTheNearest(t *testing.T) {
	for _, c := range []struct{ text, want, hint string }{
		{"batch = 3\nbach = 4\n", `crawl.toml: line 2: unknown key "bach"`, `did you mean "batch"?`},
		{"policy = \"fifo\"\n", `crawl.toml: line 1: unknown key "policy"`, `did you mean "frontier.policy"?`},
		{"[politeness]\nmin_dealy = \"1s\"\n", `crawl.toml: line 2: unknown key "politeness.min_dealy"`, `did you mean "politeness.min_delay"?`},
		{"[polite]\nmin_delay = \"1s\"\n", `crawl.toml: line 1: unknown key "polite"`, ""},
	} {
		_, err := parse("crawl.toml", []byte(c.text))
		if !errors.Is(err, fault.Usage) || err.Error() != c.want {
			t.Errorf("%q: error %q, want %q", c.text, err, c.want)
		}
		if hint := fault.HintOf(err); c.hint != "" && hint != c.hint {
			t.Errorf("%q: hint %q, want %q", c.text, hint, c.hint)
		}
	}
}

func TestBadValuesNameTheLine(t *testing.T) {
	for _, text := range []string{"\n[fetch]\nconnections = \"many\"\n", "\n\nbatch = = 3\n"} {
		_, err := parse("crawl.toml", []byte(text))
		if !errors.Is(err, fault.Usage) || !strings.HasPrefix(err.Error(), "crawl.toml: line 3: ") {
			t.Errorf("%q: error %v, want one of line 3", text, err)
		}
	}
}

func TestAnotherTypeOfValue(t *testing.T) {
	for text, want := range map[string]string{
		"[politeness]\nmin_delay = 5\n":           `crawl.toml: line 2: another type of value for "politeness.min_delay", want text in quotes, such as "1s"`,
		"[frontier]\nqueues = 3\n[frontier]\n":    `crawl.toml: line 3: "frontier" a second time, want each table and each key once`,
		"rounds = 3\nrounds = 3\n":                `crawl.toml: line 2: "rounds" a second time, want each table and each key once`,
		"[extract]\nmodules = []\nmodules = []\n": `crawl.toml: line 3: "modules" a second time, want each table and each key once`,
		"batch = \"many\"\n":                      `crawl.toml: line 1: another type of value for "batch", want a whole number`,
		"[network]\nallow_net = \"10.0.0.0/8\"\n": `crawl.toml: line 2: another type of value for "network.allow_net", want a list of texts, such as ["a", "b"]`,
	} {
		if _, err := parse("crawl.toml", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestLookupGivesEachCommandItsPart(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		command, verb, flag string
		want                any
	}{
		{"mfrontier", "next", "number", int64(500)},
		{"mfrontier", "update", "number", nil},
		{"mfetch", "run", "delay-factor", 0.0},
		{"mfetch", "run", "min-delay", nil},
		{"mfetch", "", "deny", "/c/deny.txt"},
		{"murlset", "new", "memory", "32M"},
	} {
		got, found := c.Lookup(k.command, k.verb, k.flag)
		if found != (k.want != nil) || got != k.want {
			t.Errorf("%s %s --%s: %v, %v; want %v", k.command, k.verb, k.flag, got, found, k.want)
		}
	}
	if v, _ := c.Lookup("mfetch", "run", "allow-net"); len(v.([]any)) != 1 {
		t.Errorf("allow-net: %v", v)
	}
}

func TestFindNeedsACrawlFolder(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "urls")
	if err := os.Mkdir(store, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, Name), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := Find([]string{store}); got != "" {
		t.Errorf("without CURRENT found %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "CURRENT"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if got, want := Find([]string{"-n", store}), filepath.Join(dir, Name); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	for _, k := range Keys() {
		if k.Doc == "" {
			t.Errorf("%s has no description", k.Name)
		}
	}
}
