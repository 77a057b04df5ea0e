package fault

import (
	"errors"
	"strings"
	"testing"
)

func TestDidYouMean(t *testing.T) {
	known := []string{"timeout", "min-delay", "max-delay", "batch", "GET", "again", "add", "status"}
	for name, want := range map[string]string{
		"timout": "timeout", "tiemout": "timeout", "time": "timeout", "min_delay": "min-delay", "bacth": "batch",
		"get": "GET", "stauts": "status", "TIMEOUT": "timeout", "elephant": "", "": "", "x": "",
		strings.Repeat("timeout", 1<<20): "",
	} {
		t.Run(name[:min(len(name), 60)], func(t *testing.T) {
			if want != "" {
				want = `did you mean "` + want + `"?`
			}
			if got := DidYouMean(name, known); got != want {
				t.Errorf("%.20q: %q, want %q", name, got, want)
			}
		})
	}
	if got := DidYouMean("x", nil); got != "" {
		t.Errorf("of none: %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"fetch", "fecth", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}} {
		t.Run(c.a+" "+c.b, func(t *testing.T) {
			if got := Distance(c.a, c.b); got != c.want || Distance(c.b, c.a) != c.want {
				t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
			}
		})
	}
}

func TestSuggest(t *testing.T) {
	for text, want := range map[string]string{
		`no column "ulr", want one of addr, host, url, url_key`:                     "url",
		`f.rules: line 1, column 1: "alow", want allow, deny, default or timeout`:   "allow",
		`f.rules: line 1: "hots", want a test: host, domain, path`:                  "host",
		`column "hst" of url rows, want one of host, url`:                           "host",
		`--scheme: scheme: "htps", want https, ftp, gopher, or another with a port`: "https",
		`fetch.dedup: "ture", want true or false`:                                   "true",
		`URLs parked as "adress-refused", want address-refused, denied`:             "address-refused",
		`fetch.timeout: "20", want a duration of 1ms or more, such as "10s"`:        "",
		`"elephant", want one of host, url`:                                         "",
		`--min-delay: -1s, want 0 or more`:                                          "",
		`no such file`:                                                              "",
	} {
		t.Run(text, func(t *testing.T) {
			if want != "" {
				want = `did you mean "` + want + `"?`
			}
			if got := Suggest(errors.New(text)); got != want {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		})
	}
}
