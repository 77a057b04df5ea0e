package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A crawl's rules for URLs stand in crawl.toml, and all its commands go by them: URLs
// that are one by key_rules are fetched once, as they were found first; url_rules
// rewrite what is fetched. What a redirect leads to is fetched although it is one with
// the URL that it stands at.
func TestURLRules(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"/": `<a href="a?utm_source=1">1</a><a href="b?x=1&amp;y=2">2</a><a href="c;jsessionid=AAA">3</a><a href=dir>4</a><a href=e/>5</a><a href=f/>6</a>`,
		"/dir/": `<a href="/a?gclid=3&amp;utm_source=2">1</a><a href="/b?y=2&amp;x=1">2</a><a href="/c;jsessionid=BBB">3</a>
			<a href="sub">4</a><a href="/e">5</a><a href="/dir">6</a>`,
		"/dir/sub": `<a href="/dir/sub?phpsessid=1">1</a>`,
	}
	for _, c := range []struct{ rules, want string }{
		{`key_rules = ["session-ids", "tracking", "query-order", "trailing-slash"]`,
			"/ /a?utm_source=1 /b?x=1&y=2 /c;jsessionid=AAA /dir /dir/ /dir/sub /e/ /f /f/"},
		{`url_rules = ["session-ids", "tracking", "query-order", "trailing-slash"]`,
			"/ /a /b?x=1&y=2 /c /dir /dir/ /dir/sub /e /f"},
		{"", "/ /a?gclid=3&utm_source=2 /a?utm_source=1 /b?x=1&y=2 /b?y=2&x=1 /c;jsessionid=AAA /c;jsessionid=BBB /dir /dir/ /dir/sub /dir/sub?phpsessid=1 /e /e/ /f /f/"},
	} {
		t.Run(strings.Fields(c.rules + " none")[0], func(t *testing.T) {
			var mu sync.Mutex
			var got []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/robots.txt":
					http.NotFound(w, r)
					return
				case "/dir", "/f/": // the one gains a "/", the other loses it
					w.Header().Set("Location", map[string]string{"/dir": "/dir/", "/f/": "/f"}[r.URL.Path])
					w.WriteHeader(http.StatusMovedPermanently)
				default:
					w.Header().Set("Content-Type", "text/html")
					io.WriteString(w, "<p>"+r.RequestURI+pages[r.URL.Path])
				}
				mu.Lock()
				got = append(got, r.RequestURI)
				mu.Unlock()
			}))
			defer server.Close()
			dir := t.TempDir()
			toml, seeds, folder := filepath.Join(dir, "my.toml"), filepath.Join(dir, "seeds.txt"), filepath.Join(dir, "crawl")
			text := fmt.Sprintf("seeds = [%q]\n[urls]\n%s\n[politeness]\nmin_delay = \"1ms\"\naddr_delay = \"0s\"\ndelay_factor = 0\n[network]\nallow_net = [\"127.0.0.0/8\"]\n", seeds, c.rules)
			for name, text := range map[string]string{toml: text, seeds: server.URL + "\n"} {
				if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			output(t, "mcrawl", "new", folder, "--config", toml)
			output(t, "mcrawl", "run", folder)
			slices.Sort(got)
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("fetched %s\nwant    %s", s, c.want)
			}
			output(t, "mckpt", "verify", folder)
		})
	}
}
