package sheet

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/formats/spectest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/config"
)

const exampleText = `# A slow server of ours, and an API that wants a header
sheet slow: host old.example.org
    politeness.min_delay 5s
    fetch.timeout        2m
sheet api: host www.example.org and path /api/
    fetch.headers "X-Client: archive"
sheet all: domain example.org example.net
    fetch.headers "X-Team: web"
    fetch.connect_timeout 5s
`

func vectors() []spectest.Vector {
	good := func(name, gives, text string) spectest.Vector {
		return spectest.Vector{Name: "good/" + name + ".txt", Bytes: []byte(text), Gives: gives}
	}
	bad := func(name, says, text string) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name + ".txt", Bytes: []byte(text), Class: fault.Usage, Says: says}
	}
	load := func(name, says string, do func(t testing.TB, dir string) error) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Class: fault.Usage, Says: says, Case: func(t testing.TB) error { return do(t, t.TempDir()) }}
	}
	const of = "sheet a: any\n"
	return []spectest.Vector{
		good("example", "slow: host old.example.org\n politeness.min_delay 5s\n fetch.timeout 2m\napi: host www.example.org and path /api/\n fetch.headers X-Client: archive\n"+
			"all: domain example.org example.net\n fetch.headers X-Team: web\n fetch.connect_timeout 5s\n", exampleText),
		good("hosts", "night: domain a.test\n politeness.window 22:00-06:00 Europe/Berlin\nours: host b.test c.test and not host d.test\n robots.policy ignore\n",
			"sheet night: domain a.test\n politeness.window \"22:00-06:00 Europe/Berlin\"\nsheet ours: host b.test c.test and not host d.test\n robots.policy ignore\n"),
		good("other-forms", "line-1: not (host a.test or regex (x|y))\n fetch.headers X-Quote: \"x\"\n", "\ufeffsheet : not (host a.test or regex \"(x|y)\") # why\r\n\n\tfetch.headers \"X-Quote: \\\"x\\\"\" # so\n"),

		load("R1-none", "no such file", func(_ testing.TB, dir string) error {
			_, err := Load(filepath.Join(dir, "none"), nil)
			return err
		}),
		load("R1-folder", "a folder", func(_ testing.TB, dir string) error { _, err := Load(dir, nil); return err }),
		bad("R1-no-sheet", "no sheet", "# nothing\n\n"),
		bad("R2-word", `line 1, column 1: "sheets", want "sheet NAME: CONDITION", or spaces before a setting`, "sheets a: any\n"),
		bad("R2-before", `line 1, column 2: "fetch.timeout" before the first sheet`, " fetch.timeout 1s\n"),
		bad("R2-no-colon", "line 1, column 6: no colon", "sheet a any\n"),
		bad("R2-two-values", `line 2, column 2: "fetch.headers" with 2 values, want one value, in quotes if it has spaces`, of+" fetch.headers X: y\n"),
		bad("R2-no-value", `line 2, column 2: "fetch.timeout" with 0 values`, of+" fetch.timeout # soon\n"),
		bad("R3-first", "line 2, column 1: sheet a without a setting", of+"sheet b: any\n fetch.timeout 1s\n"),
		bad("R3-last", "line 3: sheet b without a setting", of+" fetch.timeout 1s\nsheet b: any\n"),
		bad("R4-condition", `line 1, column 15: host "A.test", want "a.test", its canonical form`, "sheet a: host A.test\n fetch.timeout 1s\n"),
		bad("R4-exec", `line 1, column 14: "exec", want a test: any, host,`, "sheet a: not exec judge\n fetch.timeout 1s\n"),
		bad("R4-depth", `line 1, column 10: "depth"`, "sheet a: depth > 2\n fetch.timeout 1s\n"),
		bad("R5-unknown", `line 2: unknown setting "fetch.timout", want one that sheets may give: frontier.max_host_bytes,`, of+" fetch.timout 1s\n"),
		bad("R5-whole-crawl", "line 2: fetch.connections, a setting of the whole crawl, want one that sheets may give", of+" fetch.connections 3\n"),
		bad("R6-duration", `line 2: politeness.min_delay "5", want a duration of 0s or more, such as 1s`, of+" politeness.min_delay 5\n"),
		bad("R6-range", `line 3: fetch.timeout 0s, want 1ms or more`, of+" politeness.min_delay 5s\n fetch.timeout 0s\n"),
		bad("R6-number", `line 2: politeness.delay_factor "many", want a number of 0 to 1000000`, of+" politeness.delay_factor many\n"),
		bad("R6-direction", `line 2: fetch.headers with the character '\u202e'`, of+" fetch.headers \"X: \u202ey\"\n"),
		bad("R7-path", `line 2: politeness.min_delay in sheet a, whose condition has the test "path", want any, host, domain or registered-domain`, "sheet a: host a.test and path /x\n politeness.min_delay 5s\n"),
		bad("R7-not-named", `line 2: politeness.connections in sheet a, whose condition holds for hosts that it does not name, want the names or domains of hosts of your own`, "sheet a: host a.test or not domain b.test\n politeness.connections 2\n"),
		bad("R7-suffix", `line 2: politeness.connections in sheet a, whose condition holds for hosts that it does not name`, "sheet a: domain a.test co.uk\n politeness.connections 2\n"),
		bad("R6-window", `line 2: politeness.window "22:00-06:00 Mars", want times of day, such as 22:00-06:00`, of+" politeness.window \"22:00-06:00 Mars\"\n"),
		bad("R6-robots", `line 2: robots.policy "classic", want obey or ignore`, "sheet a: host a.test\n robots.policy classic\n"),
		bad("R7-robots-domain", `line 2: robots.policy in sheet a, whose condition holds for hosts that it does not name, want the names of hosts of your own, one by one`, "sheet a: domain a.test\n robots.policy ignore\n"),
		bad("R7-robots-any", `robots.policy in sheet a, whose condition holds for hosts that it does not name`, "sheet a: any\n robots.policy ignore\n"),
		bad("R7-robots-not", `robots.policy in sheet a, whose condition holds for hosts that it does not name`, "sheet a: not host a.test\n robots.policy ignore\n"),
		bad("R8-twice", `line 3, column 7: rule name "a", which line 1 of`, of+" fetch.timeout 1s\nsheet a: any\n fetch.timeout 2s\n"),
		bad("R4-star", `line 1, column 15: host "*.a.test", want a name without "*": "domain example.org" holds for all hosts below it`, "sheet a: host *.a.test\n fetch.timeout 1s\n"),
		bad("R4-star-domain", `domain "*.a.test", want a name without "*"`, "sheet a: domain *.a.test\n fetch.timeout 1s\n"),
		load("R10-sheets", "line 20001, column 6: one rule more, want at most 10000", func(testing.TB, string) error {
			_, err := parse("sheets.txt", strings.NewReader(strings.Repeat("sheet : any\n fetch.timeout 1s\n", 10_001)), nil)
			return err
		}),
		load("R9-lists", "lists that are too long, want at most 1048576 bytes in memory", func(t testing.TB, dir string) error {
			var list strings.Builder
			for i := range 50_000 {
				fmt.Fprintf(&list, "host-with-a-name-%05d.test\n", i)
			}
			path := filepath.Join(dir, "sheets.txt")
			for name, text := range map[string]string{"list.txt": list.String(), "sheets.txt": "sheet a: host @list.txt\n fetch.timeout 1s\n"} {
				must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
			}
			_, err := Load(path, nil)
			return err
		}),
	}
}

func table() string {
	of := map[string][]string{}
	var alone strings.Builder
	for _, k := range config.SheetKeys() {
		if slices.ContainsFunc(config.Keys(), func(c config.Key) bool { return c.Name == k.Name }) {
			of[k.Sheet] = append(of[k.Sheet], "`"+k.Name+"`")
			continue
		}
		fmt.Fprintf(&alone, "- `%s` (%s): %s\n", k.Name, k.Sheet, k.Doc)
	}
	var b strings.Builder
	for _, sheet := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&b, "- %s: %s\n", sheet, strings.Join(of[sheet], ", "))
	}
	return b.String() + alone.String()
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	spectest.Check(t, spectest.Format{
		Vectors: vectors(),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			s, err := parse(name, bytes.NewReader(file), nil)
			if err != nil {
				return "", err
			}
			var b strings.Builder
			for _, sheet := range s.All {
				fmt.Fprintf(&b, "%s: %s\n", sheet.Name, strings.ReplaceAll(sheet.Condition, `"`, ""))
				for _, v := range sheet.Values {
					fmt.Fprintf(&b, " %s %s\n", v.Key.Name, v.Text)
				}
			}
			return b.String(), nil
		},
		Text:    true,
		Regions: map[string]string{"example": "    " + strings.ReplaceAll(strings.TrimSuffix(exampleText, "\n"), "\n", "\n    ") + "\n", "settings": table()},
	})
}

// What is refused is a fault of the file.
func FuzzParse(f *testing.F) {
	spectest.Seeds(f, vectors())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parse("sheets.txt", bytes.NewReader(b), nil)
		if err == nil {
			s.Apply(s.Of("http://a.test:8080/x?y", "a.test:8080"), &config.Fetch{})
		} else if e, ok := err.(*fault.Error); !ok || e.Class != fault.Usage || e.File == "" {
			t.Fatalf("%v is no fault of the file", err)
		}
	})
}
