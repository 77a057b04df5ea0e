package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestIntranet runs each line of intranet.md. By the night, pages have changed and are gone.
func TestIntranet(t *testing.T) {
	t.Parallel()
	var night atomic.Bool
	serve := func(day, night map[string]string, at *atomic.Bool) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			pages := day
			if at.Load() {
				pages = night
			}
			text, ok := pages[r.URL.Path]
			switch {
			case !ok:
				http.NotFound(w, r)
				return
			case text == "redirect":
				http.Redirect(w, r, "/", http.StatusMovedPermanently)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprint(len(text))))
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
		}))
		t.Cleanup(s.Close)
		return s
	}
	const top = "<title>Intranet</title>" + `<a href=forms>f</a> <a href=old>o</a> <a href=moved>m</a> <a href=copy>c</a> <a href=news>n</a>`
	const forms = "<title>Forms</title><p>The holiday forms for everyone."
	intra := serve(map[string]string{"/": top, "/forms": forms, "/copy": forms, "/old": "<p>obsolete", "/moved": "<p>wanderer", "/news": "<p>yesterday's news"},
		map[string]string{"/": top + " <a href=fresh>x</a>", "/forms": forms, "/moved": "redirect", "/news": "<p>this is today's news", "/fresh": "<p>brandnew"}, &night)
	wiki := serve(map[string]string{"/": "<title>Wiki</title><p>wiki of all"}, map[string]string{"/": "<title>Wiki</title><p>wiki of all"}, &night)
	steps := pageSteps(t, "intranet.md")
	later := slices.IndexFunc(steps, func(s step) bool { return strings.Contains(s.command, "cat > nightly.sh") })
	if later < 0 {
		t.Fatal("the page has no nightly.sh")
	}
	dir := t.TempDir()
	run := func(steps ...step) string {
		t.Helper()
		return runSteps(t, steps, dir, polite(), "https://intra.example.org/", intra.URL+"/", "https://wiki.example.org/", wiki.URL+"/", "--older 12h", "--older 0s") // the night comes soon
	}
	shell := func(text string) string {
		t.Helper()
		return run(step{command: text + "\n"})
	}
	check := func(words string, most int, urls ...string) {
		t.Helper()
		cmd := exec.Command(bin+"msearch", "query", filepath.Join(dir, "crawl"), words)
		out, err := cmd.Output()
		if want := len(urls) == 0; cmd.ProcessState.ExitCode() == 6 != want || !want && err != nil {
			t.Fatalf("%s: %v\n%s", words, err, out)
		}
		for _, url := range urls {
			if !strings.Contains(string(out), " "+url+"\n") {
				t.Errorf("%s: %s, want %s", words, out, url)
			}
		}
		if n := strings.Count(string(out), "http://"); n > most {
			t.Errorf("%s: %d URLs\n%s", words, n, out)
		}
	}
	if said := run(steps[:later]...); !strings.Contains(said, "The *holiday* *forms* for everyone.") || !strings.Contains(said, "7 new, 0 changed") {
		t.Fatalf("the lines did not find the forms:\n%s", said)
	}
	check("holiday", 2, intra.URL+"/copy", "also "+intra.URL+"/forms")
	check("wiki", 1, wiki.URL+"/")
	check("obsolete", 1, intra.URL+"/old")
	check("yesterday wanderer", 0)
	check("wanderer", 1, intra.URL+"/moved")
	night.Store(true)
	if said := run(steps[later:]...); !strings.Contains(said, "1 new, 2 changed") || !strings.Contains(said, "5 documents of 5 URLs, 3 URLs gone") {
		t.Errorf("the lines of the night printed\n%s", said)
	}
	check("holiday", 1, intra.URL+"/forms")
	for _, gone := range []string{"obsolete", "wanderer", "yesterday"} {
		check(gone, 0)
	}
	check("today", 1, intra.URL+"/news")
	check("brandnew", 1, intra.URL+"/fresh")
	if said := shell("mckpt verify -q crawl; mckpt files crawl"); strings.Contains(said, "search.db") {
		t.Errorf("copies of the crawl have the index:\n%s", said)
	}
	// The crawl goes back to its first day: so does the index.
	if said := shell("mckpt restore crawl 2; msearch stat crawl; msearch update crawl"); !strings.Contains(said, "was made anew") {
		t.Error(said)
	}
	if said := shell("msearch stat crawl"); !strings.Contains(said, "up to date") {
		t.Error(said)
	}
	check("brandnew", 0)
	for _, text := range []string{"PRAGMA", ""} {
		if err := os.WriteFile(filepath.Join(dir, "crawl", "search.db"), []byte(strings.Repeat(text+" no database", 100)), 0o666); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command(bin+"msearch", "query", filepath.Join(dir, "crawl"), "word").CombinedOutput()
		if !strings.Contains(string(out), "no SQLite database") || !strings.Contains(string(out), "rm ") {
			t.Errorf("%s", out)
		}
	}
	shell("rm crawl/search.db*")
	if out, _ := exec.Command(bin+"msearch", "query", filepath.Join(dir, "crawl"), "word").CombinedOutput(); !strings.Contains(string(out), "no index yet") {
		t.Errorf("%s", out)
	}
}
