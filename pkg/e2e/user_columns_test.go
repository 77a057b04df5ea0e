package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestUserColumns: user columns travel with their URL from a table of seeds to its outcomes: over retries, a
// parked URL that is released, a batch that a killed mfetch left, a replay, and mcrawl again. Links found on a page have none.
func TestUserColumns(t *testing.T) {
	t.Parallel()
	listeners, port := listenOn(t, 1, 9)
	var mu sync.Mutex
	asked := map[string]int{}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		n := asked[r.URL.Path]
		mu.Unlock()
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.URL.Path == "/again" && n == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<title>%s</title><a href=/found>found</a>", r.URL.Path)
		}
	})}
	t.Cleanup(func() { server.Close() })
	for _, l := range listeners {
		go server.Serve(l)
	}

	const pages = 30
	table := "x_id,url,x_note\n"
	var want []string
	add := func(id, url, note string) {
		table += fmt.Sprintf("%s,%s,\"%s\"\n", id, url, note)
		want = append(want, id+","+url)
	}
	for i := range pages {
		add(fmt.Sprint(i), fmt.Sprintf("http://127.0.0.1:%d/p/%d", port, i), "a, \nb")
	}
	add("again", fmt.Sprintf("http://127.0.0.1:%d/again", port), "")
	add("again", want[len(want)-1][len("again,"):], "") // its two outcomes; the set lets it through once
	add("parked", fmt.Sprintf("http://127.0.0.9:%d/parked", port), "")
	want = append(want, want[len(want)-1], fmt.Sprintf(",http://127.0.0.1:%d/found", port), fmt.Sprintf(",http://127.0.0.9:%d/found", port))
	slices.Sort(want)
	seeds := filepath.Join(t.TempDir(), "seeds.csv")
	if err := os.WriteFile(seeds, []byte(table), 0o666); err != nil {
		t.Fatal(err)
	}

	ids := func(dir string) []string {
		rows := output(t, "mcat", "--format", "csv", "--columns", "role,x_id,url", dir)
		page := regexp.MustCompile("(?m)^page,(.*)$")
		var list []string
		for _, m := range page.FindAllStringSubmatch(rows, -1) {
			list = append(list, m[1])
		}
		slices.Sort(list)
		return list
	}
	c := newCrawl(t, &web{seeds: seeds, dns: "127.0.0.1:9"}, "CONTACT=test@example.org", "UPDATE_FLAGS=--retry-delay 0s")
	mfetch := "timeout -s KILL 0.4 " + bin + "mfetch \"$@\" --min-delay 30ms\nkill -9 $$\n"
	narrow := "FETCH_FLAGS=--allow-net 127.0.0.0/29"
	if out, err := c.command(t, "mercator.mk", narrow, "BIN="+wrap(t, "mfetch", mfetch)).CombinedOutput(); err == nil {
		t.Fatalf("mfetch did not die\n%s", tail(out))
	}
	c.finish(t, "mercator.mk", narrow)
	saved := ids(c.dir)
	dir := c.replay(t)
	if have := ids(dir); !slices.Equal(have, saved) {
		t.Errorf("user columns of a replay: %s", diff(strings.Join(saved, "\n")+"\n", strings.Join(have, "\n")+"\n"))
	}
	output(t, "mfrontier", "release", c.dir)
	c.finish(t, "mercator.mk")

	if have := ids(c.dir); !slices.Equal(have, want) {
		t.Errorf("user columns of the outcomes: %s", diff(strings.Join(want, "\n")+"\n", strings.Join(have, "\n")+"\n"))
	}
	if notes := output(t, "mcat", c.dir); strings.Count(notes, `"x_note":"a, \u000ab"`) != pages {
		t.Error("not every page has its note")
	}
	kept := 0
	for i := range pages {
		if asked[fmt.Sprintf("/p/%d", i)] == 1 {
			kept++
		}
	}
	if kept < pages-3 {
		t.Errorf("%d of %d pages were asked for once: what mfetch had saved was not taken up", kept, pages)
	}
	output(t, "mcrawl", "again", c.dir, "--older", "0s")
	c.finish(t, "mercator.mk")
	want = append(want, slices.Compact(slices.Clone(want))...)
	slices.Sort(want)
	if have := ids(c.dir); !slices.Equal(have, want) {
		t.Errorf("user columns of URLs that were fetched again: %s", diff(strings.Join(want, "\n")+"\n", strings.Join(have, "\n")+"\n"))
	}
	output(t, "mfetch", "audit", c.dir)
	output(t, "mckpt", "verify", "--quiet", c.dir)
	if rounds := output(t, "mcat", "--format", "tsv", "--columns", "round", c.dir); !strings.HasPrefix(rounds, "round\nr1\n") {
		t.Errorf("the rounds of rows: %.80q", rounds)
	}
	if index := output(t, "mcat", "--format", "cdxj", c.dir); !slices.IsSorted(strings.Split(strings.TrimSpace(index), "\n")) || strings.Contains(index, ".open") {
		t.Errorf("CDXJ:\n%s", index)
	}
}
