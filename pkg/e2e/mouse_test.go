package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

// focused is a line of mfocus urls.
type focused struct {
	URL       string  `json:"url"`
	Sense     string  `json:"sense"`
	Relevance float64 `json:"relevance"`
	FoundOn   string  `json:"found_on"`
	Status    string  `json:"status"`
}

// TestMouse is the example of Singh and Tyagi: the query "Mouse" has two senses. The crawl fetches pages, texts, PDF files and pictures
// of both, few others, and says of each result which sense it has. It ends by itself when nothing relevant comes any more. Killed on
// the way, it finds as many.
func TestMouse(t *testing.T) {
	t.Parallel()
	web := []string{"--topics", "8", "--size", "400", "--no-sitemaps"}
	w := startWeb(t, 2, 12, 500, web...)
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o666))
		return path
	}
	truth, seeds := map[string]string{}, map[string]string{}
	all := 0
	for line := range strings.Lines(output(t, "mweb", append([]string{"oracle", "--port", strconv.Itoa(w.port)}, w.flags...)...)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		all++
		if sense := f[3]; strings.HasPrefix(sense, "mouse.") {
			truth[f[0]] = sense
			if seeds[sense] == "" && strings.HasSuffix(f[0], ".html") {
				seeds[sense] = f[0]
			}
		}
	}
	dictionary := file("words.tsv", output(t, "mweb", append([]string{"topics"}, w.flags...)...))
	list := file("seeds.txt", seeds["mouse.rodent"]+"\n")
	command := func(crawl string) *exec.Cmd {
		args := []string{"focus", filepath.Join(dir, crawl), "Mouse", seeds["mouse.device"], "--seeds", list, "--dictionary", dictionary, "--contact", "test@example.org", "-q"}
		for _, s := range []string{"network.allow_net=127.0.0.0/8", "resolve.servers=" + w.dns, "politeness.min_delay=0s", "politeness.delay_factor=0",
			"politeness.addr_delay=0s", "politeness.max_delay=1ms", "frontier.max_attempts=1", "batch=15", "focus.patience=2"} {
			args = append(args, "--set", s)
		}
		return exec.Command(bin+"mcrawl", args...)
	}
	results := func(crawl string) (list []focused) {
		t.Helper()
		if out, err := command(crawl).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		output(t, "mckpt", "verify", filepath.Join(dir, crawl))
		for line := range strings.Lines(output(t, "mfocus", "urls", filepath.Join(dir, crawl), "--by", "url")) {
			var u focused
			must.OK(t, json.Unmarshal([]byte(line), &u))
			list = append(list, u)
		}
		return list
	}
	const relevant = 0.5
	of := func(list []focused) (lines []string) { // what is relevant, with its sense
		for _, u := range list {
			if u.Status == "fetched" && u.Relevance > relevant {
				lines = append(lines, u.URL+" "+u.Sense)
			}
		}
		return lines
	}

	rng := rand.New(rand.NewPCG(19, 1))
	killed := func(crawl string, times int) (hits int) {
		for range times {
			cmd := command(crawl)
			must.OK(t, cmd.Start())
			timer := time.AfterFunc(time.Duration(200+rng.IntN(1200))*time.Millisecond, func() { cmd.Process.Kill() })
			if err := cmd.Wait(); !timer.Stop() && err != nil {
				hits++
			}
			time.Sleep(50 * time.Millisecond) // what it started ends with it
		}
		return hits
	}
	if !long { // else the results of a crawl without kills are compared with those of one that is killed
		killed("once", 2)
	}
	once := results("once")
	found, right, tried, far := 0, 0, 0, 0
	good, kinds := map[string]bool{}, map[string]int{}
	for _, u := range once {
		good[u.URL] = u.Status == "fetched" && u.Relevance > relevant
	}
	for _, u := range once {
		if u.Status == "waiting" {
			continue
		}
		if tried++; good[u.URL] {
			found++
			if truth[u.URL] == u.Sense {
				right++
			}
			kinds[filepath.Ext(u.URL)]++
		} else if u.FoundOn != "" && !good[u.FoundOn] {
			far++ // a bridge, or a page that a bridge leads to
		}
	}
	t.Logf("%d of %d URLs fetched, %d found relevant of %d that are, %d with the right sense, %d others not on relevant pages; %v", tried, all, found, len(truth), right, far, kinds)
	if right < found*90/100 || right < len(truth)*80/100 || tried > all/2 || far > all/5 {
		t.Errorf("%d of %d URLs fetched, %d found relevant of %d that are, %d with the right sense, %d others not on relevant pages", tried, all, found, len(truth), right, far)
	}
	if kinds[".css"]+kinds[".js"] > 0 {
		t.Errorf("relevant style sheets and scripts: %v", kinds)
	}
	for _, ext := range []string{".html", ".txt", ".pdf", ".gif", ".jpg", ".doc"} {
		if kinds[ext] == 0 {
			t.Errorf("no %s", ext)
		}
	}

	if long {
		if hits := killed("killed", 6); hits == 0 {
			t.Error("nothing was killed")
		}
		// Servers answer in another order each time, so that the last pages before the end may be others.
		got, want := of(results("killed")), of(once)
		common := 0
		for _, line := range got {
			if slices.Contains(want, line) {
				common++
			}
		}
		if common < len(want)*94/100 || common < len(got)*94/100 {
			t.Errorf("after kills other results: %s", diff(strings.Join(got, "\n"), strings.Join(want, "\n")))
		}
		t.Logf("after kills %d results, %d of them also without", len(got), common)
	}

	// Without scores it is the same, and another query is refused.
	must.OK(t, os.RemoveAll(filepath.Join(dir, "once", "focus")))
	if got := results("once"); !slices.Equal(got, once) {
		t.Error("without crawl/focus the scores are others")
	}
	out, err := exec.Command(bin+"mcrawl", "focus", filepath.Join(dir, "once"), "rodent", "--seeds", list, "--dictionary", dictionary, "--contact", "test@example.org").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "other topics than those of this query") {
		t.Errorf("another query: %v\n%s", err, out)
	}
}
