package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/spectest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/base/setting"
)

const exampleText = `seeds = ["seeds.txt"]            # relative to the folder of this file
batch = 5000

[fetch]
contact = "you@example.org"

[politeness]
min_delay = "2s"
delay_factor = 5.5

[extract]
modules = ["page", "words=text/html:wc -w"]
duplicates = true
`

func settingVectors() []spectest.Vector {
	good := func(name, gives, text string) spectest.Vector {
		return spectest.Vector{Name: "good/" + name + ".toml", Bytes: []byte(text), Gives: gives}
	}
	bad := func(name, says, text string) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name + ".toml", Bytes: []byte(text), Class: fault.Usage, Says: says}
	}
	load := func(name, says string, do func(t testing.TB, path string) error) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Class: fault.Usage, Says: says, Case: func(t testing.TB) error {
			return do(t, filepath.Join(t.TempDir(), Name))
		}}
	}
	write := func(t testing.TB, path, text string) {
		must.OK(t, os.WriteFile(path, []byte(text), 0o666))
	}
	return []spectest.Vector{
		good("empty", "", ""),
		good("example", "seeds = [DIR/seeds.txt]\nbatch = [5000]\npoliteness.min_delay = [2s]\npoliteness.delay_factor = [5.5]\nfetch.contact = [you@example.org]\n"+
			"extract.duplicates = [true]\nextract.modules = [page words=text/html:wc -w]\n", exampleText),
		good("other-forms", "batch = [4096]\npoliteness.delay_factor = [5]\nextract.filter = [default]\nextract.modules = [page]\n",
			"\"batch\" = 0x1_000\r\npoliteness.delay_factor = 5\nextract = { filter = 'default', modules = [ '''page''', ] }"),

		load("R1-none", "no such file", func(_ testing.TB, path string) error { _, err := Load(path); return err }),
		load("R1-endless", "a longer file, want at most 1048576 bytes", func(testing.TB, string) error { _, err := Load("/dev/zero"); return err }),
		load("R1-large", "a longer file, want at most 1048576 bytes", func(t testing.TB, path string) error {
			write(t, path, strings.Repeat("#", maxFile+1))
			_, err := Load(path)
			return err
		}),
		bad("R2-two-equals", "line 3: unexpected character", "\n\nbatch = = 3\n"),
		bad("R2-no-quotes", "line 2: strings must be quoted", "[politeness]\nmin_delay = 1s\n"),
		bad("R2-open-text", "line 2: basic strings cannot", "[fetch]\ncontact = \"you\n"),
		bad("R2-not-utf8", "line 2: invalid UTF-8", "[fetch]\ncontact = \"\xff\"\n"),
		bad("R3-setting", `line 2: unknown key "politeness.min_dealy"`, "[politeness]\nmin_dealy = \"1s\"\n"),
		bad("R3-table", `line 1: unknown key "polite"`, "[polite]\nmin_delay = \"1s\"\n"),
		bad("R3-without-table", `line 1: unknown key "policy"`, "policy = \"fifo\"\n"),
		bad("R3-capitals", `line 2: unknown key "Batch"`, "\nBatch = 3\n"),
		bad("R3-capitals-of-a-table", `line 2: unknown key "URLs"`, "[sets]\n[URLs]\nmax_url = 3\n"),
		bad("R3-capitals-within", `line 1: unknown key "politeness.Min_delay"`, "politeness = { max_delay = '1m', Min_delay = '1s' }\n"),
		bad("R4-number-for-text", `line 2: another type of value for "politeness.min_delay", want text in quotes, such as "1s"`, "[politeness]\nmin_delay = 5\n"),
		bad("R4-text-for-number", `line 1: another type of value for "batch", want a whole number`, "batch = \"many\"\n"),
		bad("R4-text-for-rate", `line 2: another type of value for "frontier.bias", want a number`, "[frontier]\nbias = \"2\"\n"),
		bad("R4-text-for-list", `line 2: another type of value for "network.allow_net", want a list of texts, such as ["a", "b"]`, "[network]\nallow_net = \"10.0.0.0/8\"\n"),
		bad("R4-numbers-for-texts", `line 1: another type of value for "seeds", want a list of texts, such as ["a", "b"]`, "seeds = [1, 2]\n"),
		bad("R4-value-for-table", `line 1: another type of value for "politeness", want a table, [politeness]`, "politeness = \"1s\"\n"),
		bad("R4-number-for-duration", `line 2: another type of value for "frontier.min_interval", want text in quotes, such as "1s"`, "[frontier]\nmin_interval = 6\n"),
		bad("R5-setting", `line 2: "rounds" a second time, want each table and each key once`, "rounds = 3\nrounds = 3\n"),
		bad("R5-table", `line 3: "frontier" a second time, want each table and each key once`, "[frontier]\nqueues = 3\n[frontier]\n"),
		bad("R7-below", `line 2: politeness.min_delay -1s, want 0s or more`, "[politeness]\nmin_delay = \"-1s\"\n"),
		bad("R7-above", `line 3: fetch.connections 100001, want 1 to 100000`, "batch = 3\n[fetch]\nconnections = 100001\n"),
		bad("R7-negative", `line 2: frontier.seed -1, want 0 or more`, "[frontier]\nseed = -1\n"),
		bad("R7-number", `line 1: politeness.delay_factor NaN, want 0 to 1000000`, "politeness.delay_factor = nan\n"),
		bad("R7-duration", `line 2: fetch.timeout "20", want a duration of 1ms or more, such as 1m`, "[fetch]\ntimeout = \"20\"\n"),
		bad("R7-size", `line 2: memory.fetch "much", want a size of 1M or more, such as 128M`, "[memory]\nfetch = \"much\"\n"),
		bad("R7-word", `line 2: fetch.warc_codec "gz", want gzip, zstd or none`, "[fetch]\nwarc_codec = \"gz\"\n"),
		bad("R7-text", `line 2: fetch.contact "you", want `+ContactWanted, "[fetch]\ncontact = \"you\"\n"),
		bad("R7-member", `line 2: network.allow_net "10.0.0.1", want a network such as 127.0.0.0/8`, "[network]\nallow_net = [\"10.0.0.0/8\", \"10.0.0.1\"]\n"),
		load("R6-path", "seeds: no file", func(t testing.TB, path string) error {
			write(t, path, exampleText)
			c, err := Load(path)
			must.OK(t, err)
			return c.CheckPaths(filepath.Dir(path))
		}),
	}
}

// settings are the values that a file sets, in the order of File. DIR is its folder.
func settings(c *Config) (string, error) {
	var b strings.Builder
	for _, k := range Keys() {
		v, err := c.Setting(k.Name)
		if err != nil {
			return "", err
		}
		if v != nil {
			fmt.Fprintf(&b, "%s = %s\n", k.Name, strings.ReplaceAll(fmt.Sprint(v), filepath.Dir(c.Path), "DIR"))
		}
	}
	return b.String(), nil
}

// table is the page's list of settings.
func table() string {
	var b strings.Builder
	for _, k := range Keys() {
		b.WriteString(k.row())
	}
	return b.String()
}

var least = regexp.MustCompile(`(\S+) or more`)

// row is the setting's line on the page.
func (k Key) row() string {
	value := map[reflect.Kind]string{reflect.Slice: "list", reflect.Bool: "true/false", reflect.Int: "whole", reflect.Uint64: "whole"}[k.typ.Kind()]
	switch {
	case k.typ == reflect.TypeFor[time.Duration]():
		value = "duration"
	case k.typ == reflect.TypeFor[Size]():
		value = "size"
	case value == "" && k.typ.Kind() != reflect.String:
		value = "number"
	}
	doc, want := k.Doc, setting.Want(k.tag)
	untold := func(word string) bool { return !strings.Contains(doc, word) }
	parts := []string{value}
	if want != "" && (k.tag.Get("enum") == "" || slices.ContainsFunc(k.Choices(), untold)) {
		doc = strings.Replace(doc, ", "+want, "", 1)
		parts = append(parts, least.ReplaceAllString(strings.ReplaceAll(want, " to ", "–"), "≥$1"))
	}
	if d := k.tag.Get("default"); d != "" {
		parts = append(parts, "default "+d)
	}
	switch name := k.Name[strings.LastIndex(k.Name, ".")+1:]; {
	case !k.hasFlag():
		parts = append(parts, "no flag")
	case k.Flag != strings.ReplaceAll(name, "_", "-"):
		parts = append(parts, "`--"+k.Flag+"`")
	}
	value = strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "; ")
	if value != "" {
		value = " (" + value + ")"
	}
	return fmt.Sprintf("- `%s`%s: %s\n", k.Name, value, doc)
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	var example strings.Builder
	for line := range strings.Lines(exampleText) {
		example.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
	}
	spectest.Check(t, spectest.Format{
		Vectors: settingVectors(),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			c, err := parse(name, file)
			if err == nil {
				err = c.bad
			}
			if err != nil {
				return "", err
			}
			return settings(c)
		},
		Text:    true,
		Regions: map[string]string{"example": example.String(), "settings": table()},
	})
}

// What is refused is a fault of the file; what is taken has values for all that it sets.
func FuzzParse(f *testing.F) {
	spectest.Seeds(f, settingVectors())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parse("crawl.toml", b)
		if err == nil {
			_, err = settings(c)
			must.OK(t, err)
		} else if e, ok := err.(*fault.Error); !ok || e.Class != fault.Usage || e.File != "crawl.toml" {
			t.Fatalf("%v is no fault of the file", err)
		}
	})
}
