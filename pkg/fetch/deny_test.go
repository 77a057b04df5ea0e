package fetch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/web/canon"
)

// TestDenyLines: what an operator writes in haste stops what is meant, or is refused.
func TestDenyLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deny")
	write := func(text string) {
		t.Helper()
		must.OK(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for _, c := range []struct{ line, denied, free string }{
		{"example.org", "http://www.example.org:8080/x", "http://notexample.org/"},
		{" Example.ORG. ", "https://example.org/", ""},
		{"*.example.org", "http://www.example.org/", "http://example.com/"},
		{"\ufeffexample.org", "http://example.org/", ""},
		{"bücher.example", "http://xn--bcher-kva.example/", ""},
		{"example.org:8080", "http://example.org:8080/", "http://example.org:81/"},
		{"example.org:443", "https://example.org/", ""},
		{"::1", "http://[::1]:8080/", "http://[::2]/"},
		{"[::1]", "http://[::1]/", ""},
		{"127.1", "http://127.0.0.1/", ""},
		{"http://example.org/private", "http://example.org/private/x", "http://example.org/pub"},
		{"HTTP://Example.org:80/%7euser", "http://example.org/~user/x", "http://example.org/~other"},
		{"http://example.", "http://example.org/", "http://other.example/"},
		{"ftp://", "ftp://example.org/", "http://example.org/"},
		{"http://example.org", "http://example.org:8080/", ""},
		{"gemini://Example.org/", "gemini://example.org/a", ""},
	} {
		t.Run(c.line, func(t *testing.T) {
			write("# comment\n\n" + c.line + "\r\n")
			d, err := fetch.OpenDeny(path, canon.Options{})
			must.OK(t, err)
			check := func(url string) string { return d.Check(url, strings.Split(url, "/")[2]) }
			if check(c.denied) == "" {
				t.Errorf("%q does not stop %s", c.line, c.denied)
			}
			if c.free != "" && check(c.free) != "" {
				t.Errorf("%q stops %s", c.line, c.free)
			}
		})
	}
	for _, line := range []string{"example.org/private", "10.0.0.0/8", "a b", "www.*.org", "http://*.example.org/", "http://user@example.org/", "http://exa mple/", "*", ".", "[", "anna@example.org"} {
		write("first.test\n" + line + "\nlast.test\n")
		d, err := fetch.OpenDeny(path, canon.Options{})
		var f *fault.Error
		if !errors.As(err, &f) || f.Class != fault.Usage || f.Place != "line 2" {
			t.Errorf("%q: %v, want a usage error of line 2", line, err)
		}
		if d.Check("http://first.test/", "first.test") == "" || d.Check("http://last.test/", "last.test") == "" {
			t.Errorf("beside %q the other lines do not hold", line)
		}
	}
}
