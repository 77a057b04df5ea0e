package urlset

import (
	"errors"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/web/canon"
)

func TestSeed(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.org/a":  "https://example.org/a",
		"http://example.org":     "http://example.org",
		" www.example.org/x?y#z": "https://www.example.org/x?y#z",
		"//example.org/a":        "https://example.org/a",
		"example.org:8443":       "https://example.org:8443",
		"localhost:8080/x":       "https://localhost:8080/x",
		"10.0.0.1/x":             "https://10.0.0.1/x",
		"mailto:me@example.org":  "",
		"me@example.org":         "",
		"javascript:a.b":         "",
		"seeds":                  "",
		"":                       "",
		"htps://example.org/":    "",
		"example.org:port/":      "",
	} {
		t.Run(text, func(t *testing.T) {
			url, assumed, err := Seed(text, canon.Options{})
			if url != want || assumed != (want != "" && want != text) || (want == "") != errors.Is(err, fault.Usage) {
				t.Errorf("%q: %q, %v, %v", text, url, assumed, err)
			}
		})
	}
}

func TestSeeds(t *testing.T) {
	var out strings.Builder
	var told []string
	list := &Seeds{W: &out, Assumed: func(line, url string) { told = append(told, line+" "+url) }}
	n, err := list.File(strings.NewReader("\ufeff# ours\n\nhttp://a.example/\r\nb.example/x"), "seeds.txt")
	if want := "# ours\n\nhttp://a.example/\nhttps://b.example/x\n"; err != nil || n != 2 || out.String() != want || strings.Join(told, ";") != "b.example/x https://b.example/x" {
		t.Errorf("%d, %v, %q, %q", n, err, out.String(), told)
	}
	for text, want := range map[string]string{
		"":         "seeds.txt: no URL, want seeds, one a line, such as https://www.example.org/",
		"# none\n": "seeds.txt: no URL, want seeds, one a line, such as https://www.example.org/",
		"PK\x03\x04" + strings.Repeat("\x00\xff", 500): `seeds.txt: line 1: "PK\x03\x04` + strings.Repeat(`\x00\xff`, 8) + `" is no URL to crawl, want one such as https://www.example.org/`,
		"\xfd7zXZ\x00\x00\x04":                         `seeds.txt: xz data, want text`,
		"http://a.example\nb":                          `seeds.txt: line 2: "b" is no URL to crawl, want one such as https://www.example.org/`,
		"http://a.example:70000/":                      `seeds.txt: line 1: "http://a.example:70000/" is no URL to crawl: a port above 65535, want one such as https://www.example.org/`,
		"\n" + strings.Repeat("a", maxSeed+1):          "seeds.txt: line 2: a longer line, want a URL, of at most 65536 bytes",
	} {
		t.Run(text[:min(len(text), 60)], func(t *testing.T) {
			if _, err := list.File(strings.NewReader(text), "seeds.txt"); !errors.Is(err, fault.Usage) || err.Error() != want {
				t.Errorf("%.20q: %v", text, err)
			}
		})
	}
}

// TestSeedRows: rows keep their columns, as JSON lines, and URLs without any stand among them.
func TestSeedRows(t *testing.T) {
	var out strings.Builder
	list := &Seeds{W: &out, Rows: true, Assumed: func(string, string) {}}
	for _, f := range []struct{ name, text string }{
		{"a.CSV", "x_id,url,priority\n7,\"a.example/x?a,b\",2\n"},
		{"b.tsv", "url\tx_note\nhttp://b.example/\ta\\nb\n"},
		{"c.jsonl", `{"url":"http://c.example/","x_id":12,"url_key":"0123456789abcdef"}`},
		{"d.txt", "# none\nhttp://d.example/\n"},
	} {
		t.Run(f.name, func(t *testing.T) {
			if n, err := list.File(strings.NewReader(f.text), f.name); err != nil || n != 1 {
				t.Errorf("%s: %d, %v", f.name, n, err)
			}
		})
	}
	want := `{"url":"https://a.example/x?a,b","priority":2,"x_id":"7"}
{"url":"http://b.example/","x_note":"a\u000ab"}
{"url":"http://c.example/","x_id":12}
{"url":"http://d.example/"}
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
	for text, want := range map[string]string{
		"":      "rows.csv: line 1: no line of column names",
		"url\n": "rows.csv: no URL, want a row for each seed",
		"url,via\nhttp://a.example/," + strings.Repeat("a", maxSeed): "rows.csv: line 2: a URL with columns of 65572 bytes, want at most 65536, as JSON",
		"url,id\nhttp://a.example/,1\n":                              `rows.csv: line 1: column "id" of url rows, want one of `,
		"url\nhttp://a.example/\nb\n":                                `rows.csv: line 3: "b" is no URL to crawl, want one such as https://www.example.org/`,
		"x_id\n7\n":                                                  `rows.csv: line 2: "" is no URL to crawl, want one such as https://www.example.org/`,
	} {
		t.Run(text[:min(len(text), 60)], func(t *testing.T) {
			_, err := list.File(strings.NewReader(text), "rows.csv")
			if !errors.Is(err, fault.Usage) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
			if strings.Contains(text, "id,") && fault.HintOf(err) == "" {
				t.Errorf("%v: no hint", err)
			}
		})
	}
}

// TestSeedHints: a URL that is too long is cut in its error, and the hint names the setting; so is rows on standard input explained.
func TestSeedHints(t *testing.T) {
	_, _, err := Seed("http://a.example/"+strings.Repeat("a", 5000), canon.Options{MaxURL: 1000})
	if err == nil || len(err.Error()) > 300 || !strings.Contains(fault.HintOf(err), "urls.max_url") {
		t.Errorf("%v; hint %q", err, fault.HintOf(err))
	}
	list := &Seeds{W: &strings.Builder{}}
	if _, err := list.File(strings.NewReader("url,x_id\nhttp://a.example/,7\n"), "-"); !strings.Contains(fault.HintOf(err), ".csv") {
		t.Errorf("%v; hint %q", err, fault.HintOf(err))
	}
}
