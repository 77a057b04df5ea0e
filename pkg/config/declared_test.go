package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// group is a group of settings, and declared a layout of a file that has it, as File has the others.
type group struct {
	Patience time.Duration `key:"politeness.patience" default:"7m" range:"1s 1h" help:"How long it is waited for." note:"in vain"`
}

type declared struct {
	Politeness struct{ group }
}

// TestOneDeclaration: a field makes the flag, the setting, its check, its example and its line on the page.
func TestOneDeclaration(t *testing.T) {
	i := slices.IndexFunc(keysOf(reflect.TypeFor[declared](), Key{}), func(k Key) bool { return k.Name == "politeness.patience" })
	if i < 0 {
		t.Fatal("no setting")
	}
	k := keysOf(reflect.TypeFor[declared](), Key{})[i]
	if k.Flag != "patience" || !k.hasFlag() || k.Doc != "how long it is waited for; in vain" || k.Like != `"7m"` {
		t.Errorf("%+v", k)
	}
	if want := "- `politeness.patience` (duration; 1s–1h; default 7m): how long it is waited for; in vain\n"; k.row() != want {
		t.Errorf("the page has %q, want %q", k.row(), want)
	}
	var grammar struct {
		Verb struct{ group } `cmd:""`
	}
	app, err := kong.New(&grammar)
	must.OK(t, err)
	if _, err := app.Parse([]string{"verb"}); err != nil || grammar.Verb.Patience != 7*time.Minute {
		t.Errorf("without a flag %v, %v", grammar.Verb.Patience, err)
	}
	kctx, err := app.Parse([]string{"verb", "--" + k.Flag, "2h"})
	must.OK(t, err)
	for _, f := range kctx.Flags() {
		if f.Name != k.Flag {
			continue
		}
		if f.Tag.Get("key") != k.Name || f.Help != "How long it is waited for." {
			t.Errorf("the flag is of %q: %s", f.Tag.Get("key"), f.Help)
		}
		if err := Check("--"+f.Name, f.Tag, f.Target); err == nil || err.Error() != "--patience 2h, want 1s to 1h" {
			t.Errorf("the flag: %v", err)
		}
	}
	for text, want := range map[string]string{
		"2h":  "politeness.patience 2h, want 1s to 1h",
		"20":  `politeness.patience "20", want a duration of 1s to 1h, such as 7m`,
		"59m": "",
	} {
		t.Run(text, func(t *testing.T) {
			literal, err := k.literal(text)
			if want == "" && (err != nil || literal != `"59m"`) || want != "" && (!errors.Is(err, fault.Usage) || err.Error() != want) {
				t.Errorf("%s: %s, %v; want %q", text, literal, err, want)
			}
		})
	}
}

// TestDeclarations: no two settings have one name, each is in a table, and no default and no example is refused.
func TestDeclarations(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys() {
		t.Run(k.Name, func(t *testing.T) {
			if seen[k.Name] || k.tableIndex() < 0 {
				t.Errorf("there twice, or in no table")
			}
			seen[k.Name] = true
			k.setDefault(reflect.New(k.typ).Elem())
			v := k.parsed(strings.Trim(k.Like, `"`))
			if v == nil || k.decodeValue(v, reflect.New(k.typ).Elem()) != nil {
				t.Errorf("the example %s is none", k.Like)
			}
		})
	}
}

func TestParsePairs(t *testing.T) {
	for _, c := range []struct {
		name, args, value, err string
	}{
		{"a list", "network.allow_net=10.0.0.0/8 network.allow_net=127.0.0.0/8,::1/128", "10.0.0.0/8,127.0.0.0/8,::1/128", ""},
		{"members with commas", "extract.modules=page extract.modules=words=text/html,text/plain:wc", `["page", "words=text/html,text/plain:wc"]`, ""},
		{"TOML", `seeds=["a,b"] seeds=c`, `["a,b", "c"]`, ""},
		{"three", "seeds=a seeds=b seeds=c", "a,b,c", ""},
		{"one value", "fetch.timeout=1s fetch.timeout=2s", "", `fetch.timeout twice: "1s" and "2s", want one value`},
		{"the same", "batch=1 batch=1", "", `batch twice: "1" and "1", want one value`},
		{"taken back, and set", "seeds= seeds=a", "", `seeds twice: "" and "a", want one value`},
		{"unknown", "seed=a seed=b", "", `unknown key "seed"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			pairs, err := ParsePairs(strings.Fields(c.args))
			if c.err == "" {
				if err != nil || len(pairs) != 1 || pairs[0].Value != c.value {
					t.Errorf("%q, %v; want %q", pairs, err, c.value)
				}
			} else if !errors.Is(err, fault.Usage) || err.Error() != c.err {
				t.Errorf("error %v, want %s", err, c.err)
			}
		})
	}
	text := []byte("[fetch]\ntimeout = \"0s\"\n[sets]\nmode = \"often\"\n")
	if got, err := Set(text, "fetch.timeout", "1s"); err != nil || !strings.Contains(string(got), `timeout = "1s"`) {
		t.Errorf("one of two values that are refused is corrected: %s, %v", got, err)
	}
}
