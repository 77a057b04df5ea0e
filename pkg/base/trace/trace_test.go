package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// Which URLs and hosts are traced.
func TestOn(t *testing.T) {
	for _, c := range []struct {
		of, url   string
		on, waits bool // waits: of its host
	}{
		{"", "http://a.test/", true, true},
		{"a.test", "http://a.test/x?y#z", true, true},
		{"A.test", "http://a.test?y", true, true},
		{"a.test", "https://a.test:8443/", true, true},
		{"a.test:8443", "https://a.test:8443/", true, true},
		{"a.test:8443", "https://a.test/", false, false},
		{"a.test", "http://www.a.test/", false, false},
		{"a.test", "http://b.test/http://a.test/", false, false},
		{"[2001:db8::1]", "http://[2001:db8::1]:80/", true, true},
		{"[2001:db8::1]", "http://[2001:db8::1]/", true, true},
		{"http://a.test/x", "http://a.test/x", true, true},
		{"http://a.test/x", "http://a.test/y", false, true},
		{"b.test,http://a.test/x", "http://b.test/y", true, true},
	} {
		t.Run(c.of+" "+c.url, func(t *testing.T) {
			if Started() || On(c.url) || OnHost(hostOf(c.url)) {
				t.Error("it is traced before anything is")
			}
			var of []string
			if c.of != "" {
				of = strings.Split(c.of, ",")
			}
			must.OK(t, Start(filepath.Join(t.TempDir(), "log"), of))
			if on, waits := On(c.url), OnHost(hostOf(c.url)); on != c.on || waits != c.waits {
				t.Errorf("traced: %v, its host: %v; want %v, %v", on, waits, c.on, c.waits)
			}
			if err := End(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A line stays a line, whatever it quotes; lines of others in the file stay; and where nothing is traced, nothing is allocated.
func TestSay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	must.OK(t, os.WriteFile(file, []byte("before\n"), 0o600), Start(file, nil))
	Say("mfetch", "http://a.test/", "error=%s", "a\nb\tc"+strings.Repeat("x", 2*lineMax))
	Say("mfetch", "http://a.test/", "done")
	must.OK(t, End())
	text, err := os.ReadFile(file)
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) != 4 || lines[0] != "before" || len(lines[1]) != lineMax || !strings.Contains(lines[1], "\tmfetch\thttp://a.test/\terror=a b cx") || !strings.HasSuffix(lines[2], "\tdone") {
		t.Errorf("%v: %.300q", err, lines)
	}
	if n := testing.AllocsPerRun(100, func() {
		if On("http://a.test/") {
			Say("mfetch", "http://a.test/", "done")
		}
	}); n != 0 {
		t.Errorf("%v allocations where nothing is traced", n)
	}
	must.OK(t, Start(file, nil))
	now.Load().file.Close() // a disk that is gone
	Say("mfetch", "http://a.test/", "done")
	if End() == nil {
		t.Error("a line is missing, and nobody says so")
	}
}
