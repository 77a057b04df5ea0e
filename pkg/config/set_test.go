package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

func TestSet(t *testing.T) {
	for _, c := range []struct{ name, text, key, value, want string }{
		{"a commented line", "# Seconds\n[fetch]\n# of one fetch\n#timeout = \"1m\"\n", "fetch.timeout", "20s", "# Seconds\n[fetch]\n# of one fetch\ntimeout = \"20s\"\n"},
		{"spaces in it, and a comment behind", "[fetch]\n  #  timeout = \"1m\" # mine\n", "fetch.timeout", "20s", "[fetch]\n  timeout = \"20s\" # mine\n"},
		{"of its own table", "#timeout = 1\n[sets]\n#timeout = \"1m\"\n[fetch]\n#timeout = \"1m\"\n", "fetch.timeout", "20s", "#timeout = 1\n[sets]\n#timeout = \"1m\"\n[fetch]\ntimeout = \"20s\"\n"},
		{"a comment that is prose", "[fetch]\n# timeout = how long\n", "fetch.timeout", "20s", "[fetch]\ntimeout = \"20s\"\n# timeout = how long\n"},
		{"a value", "batch = 0x10 # few\nrounds = 3\n", "batch", "500", "batch = 500 # few\nrounds = 3\n"},
		{"a value beats a comment", "#batch = 3\nbatch = 4\n", "batch", "5", "#batch = 3\nbatch = 5\n"},
		{"a key in quotes", "\"batch\" = 3", "batch", "5", "\"batch\" = 5\n"},
		{"a list of lines", "[network]\nallow_net = [ # ours\n  \"10.0.0.0/8\",\n]\ndeny = \"deny\"\n", "network.allow_net", "127.0.0.0/8, ::1/128", "[network]\nallow_net = [\"127.0.0.0/8\", \"::1/128\"]\ndeny = \"deny\"\n"},
		{"a list in TOML", "", "seeds", `["a,b.txt", 'c.txt']`, "seeds = [\"a,b.txt\", \"c.txt\"]\n"},
		{"an address in brackets", "[resolve]\n", "resolve.servers", "[::1]:53", "[resolve]\nservers = [\"[::1]:53\"]\n"},
		{"a header with a comma", "[fetch]\n", "fetch.headers", "Accept-Language: de, en", "[fetch]\nheaders = [\"Accept-Language: de, en\"]\n"},
		{"modules", "[extract]\n", "extract.modules", "page,tags", "[extract]\nmodules = [\"page\", \"tags\"]\n"},
		{"a module with types", "[extract]\n", "extract.modules", "words=text/html,text/plain:wc -w", "[extract]\nmodules = [\"words=text/html,text/plain:wc -w\"]\n"},
		{"a table's last line", "[fetch]\ntimeout = \"1m\"\n\n[sets]\n", "fetch.dedup", "true", "[fetch]\ntimeout = \"1m\"\ndedup = true\n\n[sets]\n"},
		{"no table", "batch = 3", "fetch.dedup", "true", "batch = 3\n\n[fetch]\ndedup = true\n"},
		{"no such line at the top", "# My crawl\n\n[fetch]\n", "batch", "3", "batch = 3\n# My crawl\n\n[fetch]\n"},
		{"dotted", "fetch.timeout = \"1m\"\nbatch = 3\n", "fetch.dedup", "true", "fetch.timeout = \"1m\"\nfetch.dedup = true\nbatch = 3\n"},
		{"CRLF", "[fetch]\r\n#timeout = \"1m\"\r\n\r\n", "fetch.dedup", "true", "[fetch]\r\ndedup = true\r\n#timeout = \"1m\"\r\n\r\n"},
		{"CRLF in place", "[fetch]\r\n#timeout = \"1m\"\r\n", "fetch.timeout", "1s", "[fetch]\r\ntimeout = \"1s\"\r\n"},
		{"a number without a fraction", "", "politeness.delay_factor", "5", "\n[politeness]\ndelay_factor = 5.0\n"},
		{"a text in quotes", "", "fetch.contact", `"me@example.org"`, "\n[fetch]\ncontact = \"me@example.org\"\n"},
		{"a text with quotes and a backslash", "", "frontier.prioritizer", `awk '{print "\t"}'`, "\n[frontier]\nprioritizer = \"awk '{print \\\"\\\\t\\\"}'\"\n"},
		{"taken back", "[fetch]\ntimeout = \"20s\" # mine\n", "fetch.timeout", "", "[fetch]\n#timeout = \"1m\" # mine\n"},
		{"taken back where there is none", "[fetch]\n", "fetch.timeout", "", "[fetch]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Set([]byte(c.text), c.key, c.value)
			if err != nil || string(got) != c.want {
				t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
			}
		})
	}
}

func TestSetRefuses(t *testing.T) {
	for _, c := range []struct{ key, value, want, hint string }{
		{"fetch.timout", "1s", `unknown key "fetch.timout"`, `did you mean "fetch.timeout"?`},
		{"fetch.colour", "red", `unknown key "fetch.colour"`, "crawl.toml explains all settings"},
		{"frontier.x", "1", `unknown key "frontier.x"`, "crawl.toml explains all settings"},
		{"contact", "me@example.org", `unknown key "contact"`, `did you mean "fetch.contact"?`},
		{"fetch", "1s", `unknown key "fetch"`, ""},
		{"fetch.timeout", "20", `fetch.timeout "20", want a duration of 1ms or more, such as 1m`, ""},
		{"fetch.timeout", "-1s", `fetch.timeout -1s, want 1ms or more`, ""},
		{"round_time", "25h", `round_time 25h, want 0s to 24h`, ""},
		{"fetch.max_body", "10 megabytes", `fetch.max_body "10 megabytes", want a size of 1 or more, such as 10M`, ""},
		{"fetch.max_body", "1G", `fetch.max_body 1G, want at most an eighth of memory.fetch, 16777216 bytes`, ""},
		{"batch", "many", `batch "many", want a whole number of 1 or more`, ""},
		{"batch", "0", `batch 0, want 1 or more`, ""},
		{"batch", "2.5", `batch "2.5", want a whole number of 1 or more`, ""},
		{"fetch.connections", "100001", `fetch.connections 100001, want 1 to 100000`, ""},
		{"fetch.dedup", "yes", `fetch.dedup "yes", want true or false`, ""},
		{"politeness.delay_factor", "nan", `politeness.delay_factor NaN, want 0 to 1000000`, ""},
		{"politeness.delay_factor", "-1", `politeness.delay_factor -1, want 0 to 1000000`, ""},
		{"politeness.min_delay", "1m", `politeness.max_delay 30s, want at least politeness.min_delay 1m`, ""},
		{"schemes", "http,htps", `schemes "htps", want http, https, ftp, gopher, or another with its default port, such as gemini:1965`, ""},
		{"urls.key_rules", "session_ids", `urls.key_rules "session_ids", want session-ids, www, query-order, tracking, trailing-slash`, `did you mean "session-ids"?`},
		{"network.allow_net", "127.0.0.1", `network.allow_net "127.0.0.1", want a network such as 127.0.0.0/8`, ""},
		{"resolve.servers", "ns.example.org", `resolve.servers "ns.example.org", want an IP address, or ADDR:PORT`, ""},
		{"resolve.rate", "-3", `resolve.rate -3, want 0, or 0.001 to 1000000000`, ""},
		{"fetch.warc_codec", "gz", `fetch.warc_codec "gz", want gzip, zstd or none`, `did you mean "gzip"?`},
		{"fetch.warc_prefix", "docs-s007", `fetch.warc_prefix "docs-s007", want ` + kinds["prefix"].want, ""},
		{"fetch.warc_prefix", "JOURNAL-2026", `fetch.warc_prefix "JOURNAL-2026", want ` + kinds["prefix"].want, ""},
		{"fetch.proxy", "localhost:80", `fetch.proxy "localhost:80", want http://HOST:PORT or socks5://HOST:PORT`, ""},
		{"fetch.proxy", "http://anna:secret@127.0.0.1:80", `fetch.proxy with a name or a password, want http://HOST:PORT or socks5://HOST:PORT`, `they go into the file of fetch.login, which you alone may read, as a line "http://127.0.0.1:80 USER:PASSWORD"`},
		{"fetch.proxy", "socks5://anna:sec%ret@x@[::1]:80", `fetch.proxy with a name or a password, want http://HOST:PORT or socks5://HOST:PORT`, `they go into the file of fetch.login, which you alone may read, as a line "socks5://[::1]:80 USER:PASSWORD"`},
		{"push", "backup/crawl", `push "backup/crawl", want an absolute folder, HOST:PATH, or rclone:NAME:PATH`, ""},
		{"fetch.contact", "me (at home)", `fetch.contact "me (at home)", want ` + ContactWanted, ""},
		{"fetch.contact", "you", `fetch.contact "you", want ` + ContactWanted, ""},
		{"fetch.contact", "you@", `fetch.contact "you@", want ` + ContactWanted, ""},
		{"fetch.contact", "://x", `fetch.contact "://x", want ` + ContactWanted, ""},
		{"extract.from", "html,links", `extract.from "links", want default, all, headers, html, css, sitemap, feed, robots, pdf, office, ftp, gopher, text, json, xml or script`, ""},
		{"extract.modules", "Words", `extract.modules "Words", want NAME, NAME=TYPE,TYPE or NAME=TYPE,TYPE:COMMAND`, ""},
		{"sets.polynomial", "3", `sets.polynomial "3", want random, or 16 hexadecimal digits that "murlset stat" printed`, ""},
		{"frontier.policy", "opik", `frontier: unknown policy "opik"`, ""},
		{"frontier.tax", "0.5", `frontier: tax for policy priority, want none, or policy opic`, ""},
		{"memory.stages", "16M", `memory.stages 16M, want 32M or more`, ""},
		{"resolve.servers", "127.0.0.1:0", `resolve.servers "127.0.0.1:0", want an IP address, or ADDR:PORT`, ""},
		{"frontier.domain_growth", "2", `frontier.domain_growth: 2 without frontier.domain_budget, want a budget of URLs a domain, or 0`, ""},
		{"fetch.contact", "\xff", `fetch.contact "\xff", want UTF-8`, ""},
	} {
		t.Run(c.key+" "+c.value, func(t *testing.T) {
			_, err := Set(Preset(), c.key, c.value)
			if !errors.Is(err, fault.Usage) || err.Error() != c.want {
				t.Errorf("%s=%s: error %v, want %q", c.key, c.value, err, c.want)
			} else if hint := cmp.Or(fault.HintOf(err), fault.Suggest(err)); c.hint != "" && hint != c.hint {
				t.Errorf("%s=%s: hint %q, want %q", c.key, c.value, hint, c.hint)
			}
		})
	}
	for _, policy := range []string{"opic", "walk"} {
		_, err := SetAll(Preset(), []Pair{{"frontier.policy", policy}, {"focus.model", "mouse.model"}})
		if want := "focus.model: \"mouse.model\" with policy " + policy; !errors.Is(err, fault.Usage) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, c := range []struct {
		pairs []Pair
		want  string
	}{
		{[]Pair{{"frontier.policy", "fifo"}, {"focus.distill", "1"}}, "focus.distill: 1 with policy fifo and one front queue, want frontier.policy priority or revisit, with frontier.queues of 2 or more"},
		{[]Pair{{"frontier.policy", "revisit"}, {"focus.distill", "2"}}, "focus.distill: 2 with policy revisit and one front queue"},
		{[]Pair{{"frontier.queues", "1"}, {"focus.distill", "1"}}, "focus.distill: 1 with policy priority and one front queue"},
		{[]Pair{{"frontier.policy", "revisit"}, {"frontier.queues", "2"}, {"focus.distill", "2"}}, ""},
		{[]Pair{{"focus.distill", "1"}}, ""},
		{[]Pair{{"focus.patience", "1"}}, "focus.patience: 1 without focus.model, want a model (mfocus train), or 0"},
		{[]Pair{{"focus.patience", "1"}, {"focus.model", "mouse.model"}}, ""},
	} {
		t.Run(fmt.Sprint(c.pairs), func(t *testing.T) {
			if _, err := SetAll(Preset(), c.pairs); c.want == "" && err != nil || c.want != "" && (!errors.Is(err, fault.Usage) || !strings.HasPrefix(err.Error(), c.want)) {
				t.Errorf("%v: %v, want %q", c.pairs, err, c.want)
			}
		})
	}
	if _, err := Set([]byte("fetch = { dedup = true }\n"), "fetch.dedup", "false"); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "braces") {
		t.Errorf("a table in braces: %v", err)
	}
	if _, err := Set([]byte("bach = 3\n"), "batch", "3"); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a file that does not load: %v", err)
	}
}

// Settings that hang together are judged when all are there, and one that is refused leaves none.
func TestSetAll(t *testing.T) {
	pairs, err := ParsePairs([]string{"frontier.tax=0.5", "frontier.policy = opic", "fetch.exec=gemini=./g.sh"})
	must.OK(t, err)
	text, err := SetAll(Preset(), pairs)
	must.OK(t, err)
	c, err := parse(Name, text)
	if err != nil || c.File.Frontier.Tax != 0.5 || c.File.Frontier.Policy != "opic" || len(c.set) != len(presetTables(t)) || !reflect.DeepEqual(c.File.Fetch.Exec, []string{"gemini=./g.sh"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := SetAll(Preset(), append(pairs, Pair{"batch", "no"})); !errors.Is(err, fault.Usage) {
		t.Errorf("one that is refused: %v", err)
	}
	pairs = append(pairs, Pair{"frontier.refetch", "24h"})
	if _, err := SetAll(Preset(), pairs); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "extract.duplicates: false with frontier.refetch, want true") {
		t.Errorf("pages that are fetched again and not searched: %v", err)
	}
	if _, err := SetAll(Preset(), append(pairs, Pair{"extract.duplicates", "true"})); err != nil {
		t.Error(err)
	}
	// What others say stands in the way of none.
	if _, err := Set([]byte("[frontier]\ntax = 0.5\n"), "batch", "3"); err != nil {
		t.Errorf("a setting beside parameters of another policy: %v", err)
	}
	// A byte order mark is no part of the first key, and stays.
	if text, err := Set([]byte("\ufeffbatch = 2\n"), "batch", "3"); err != nil || string(text) != "\ufeffbatch = 3\n" {
		t.Errorf("behind a byte order mark: %q, %v", text, err)
	}
	if _, err := ParsePairs([]string{"batch"}); !errors.Is(err, fault.Usage) {
		t.Errorf("no value: %v", err)
	}
}

func presetTables(t *testing.T) map[string]any {
	c, err := parse(Name, Preset())
	must.OK(t, err)
	return c.set
}

// Each line of the preset can be taken as it is, and taken back.
func TestPresetLines(t *testing.T) {
	for _, k := range Keys() {
		_, name := k.split()
		text, err := k.editText(Preset(), k.Like)
		must.OK(t, err)
		if want := bytes.Replace(Preset(), []byte("\n"+"#"+name+" = "+k.Like+"\n"), []byte("\n"+name+" = "+k.Like+"\n"), 1); !k.shownTwice() && !bytes.Equal(text, want) {
			t.Errorf("%s: another line was changed", k.Name)
		}
		if c, err := parse(Name, text); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		} else if v, _ := c.Setting(k.Name); v == nil {
			t.Errorf("%s is not set", k.Name)
		}
		if text, err = Set(text, k.Name, ""); err != nil || !bytes.Equal(text, Preset()) {
			t.Errorf("%s is not taken back, %v", k.Name, err)
		}
	}
}

// shownTwice: another table has a line like it.
func (k Key) shownTwice() bool {
	_, name := k.split()
	return bytes.Count(Preset(), []byte("\n#"+name+" = "+k.Like+"\n")) > 1
}

// What Set takes loads, with that value, and no other setting is another.
func FuzzSet(f *testing.F) {
	keys := Keys()
	for _, v := range settingVectors() {
		for i := range keys {
			f.Add(v.Bytes, uint8(i), strings.Trim(keys[i].Like, `"[]`))
		}
	}
	f.Add(Preset(), uint8(0), "a, b")
	f.Fuzz(func(t *testing.T, text []byte, key uint8, value string) {
		k := keys[int(key)%len(keys)]
		got, err := Set(text, k.Name, value)
		if err != nil {
			if !errors.Is(err, fault.Usage) {
				t.Fatal(err)
			}
			return
		}
		before, err := parse(Name, text)
		if err != nil {
			t.Fatalf("took a text that does not load: %v", err)
		}
		after, err := parse(Name, got)
		if err != nil {
			t.Fatalf("made %q: %v", got, err)
		}
		for _, other := range keys {
			was, wasSet := before.valueAt(other.Name)
			is, isSet := after.valueAt(other.Name)
			if other.Name == k.Name {
				if isSet != (value != "") {
					t.Fatalf("%s=%q: set %v in %q", k.Name, value, isSet, got)
				}
			} else if wasSet != isSet || fmt.Sprint(was) != fmt.Sprint(is) {
				t.Fatalf("%s was %v, and is %v in %q", other.Name, was, is, got)
			}
		}
		// What it prints of a value, it reads as that value.
		if value != "" {
			printed, err := Set(text, k.Name, after.Text(k))
			if err != nil {
				t.Fatalf("%s=%q: printed as %q: %v", k.Name, value, after.Text(k), err)
			}
			if same, _ := parse(Name, printed); fmt.Sprint(same.set) != fmt.Sprint(after.set) {
				t.Fatalf("%s=%q: printed as %q", k.Name, value, after.Text(k))
			}
		}
		again, err := Set(got, k.Name, value)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("a second time: %q, %v; want %q", again, err, got)
		}
	})
}
