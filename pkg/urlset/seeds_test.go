package urlset

import (
	"errors"
	"strings"
	"testing"

	"mercator/pkg/canon"
	"mercator/pkg/fault"
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
		url, assumed, err := Seed(text, canon.Options{})
		if url != want || assumed != (want != "" && want != text) || (want == "") != errors.Is(err, fault.Usage) {
			t.Errorf("%q: %q, %v, %v", text, url, assumed, err)
		}
	}
}

func TestSeeds(t *testing.T) {
	var out strings.Builder
	var told []string
	n, err := Seeds(&out, strings.NewReader("\ufeff# ours\n\nhttp://a.example/\r\nb.example/x"), "seeds.txt", canon.Options{}, func(line, url string) { told = append(told, line+" "+url) })
	if want := "# ours\n\nhttp://a.example/\nhttps://b.example/x\n"; err != nil || n != 2 || out.String() != want || strings.Join(told, ";") != "b.example/x https://b.example/x" {
		t.Errorf("%d, %v, %q, %q", n, err, out.String(), told)
	}
	for text, want := range map[string]string{
		"":                                    "seeds.txt: no URL, want seeds, one a line, such as https://www.example.org/",
		"# none\n":                            "seeds.txt: no URL, want seeds, one a line, such as https://www.example.org/",
		"http://a.example\nb":                 `seeds.txt: line 2: "b" is no URL to crawl, want one such as https://www.example.org/`,
		"\n" + strings.Repeat("a", maxSeed+1): "seeds.txt: line 2: a longer line, want a URL, of at most 65536 bytes",
	} {
		if _, err := Seeds(&out, strings.NewReader(text), "seeds.txt", canon.Options{}, nil); !errors.Is(err, fault.Usage) || err.Error() != want {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
