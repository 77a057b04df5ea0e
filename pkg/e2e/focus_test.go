package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/simweb"
)

// mouseModel trains a model of the first two topics of a web with topics: the senses of "mouse".
func mouseModel(t *testing.T) (file string) {
	t.Helper()
	web, err := simweb.New(simweb.Config{Seed: 3, Hosts: 1, Pages: 10, Size: 512, Degree: 8, Port: 18080, Topics: 8})
	must.OK(t, err)
	type word struct {
		Word   string  `json:"word"`
		Weight float64 `json:"weight"`
	}
	var topics strings.Builder
	for n := 1; n <= 2; n++ {
		var words []word
		for i, w := range web.Vocabulary(n) {
			words = append(words, word{w, 1 / float64(1+i/4)})
		}
		line, err := json.Marshal(map[string]any{"topic": web.TopicName(n), "query": "mouse", "words": words})
		must.OK(t, err)
		fmt.Fprintf(&topics, "%s\n", line)
	}
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "topics.jsonl"), []byte(topics.String()), 0o666))
	file = filepath.Join(dir, "mouse.model")
	output(t, "mfocus", "train", "-o", file, "--topics", filepath.Join(dir, "topics.jsonl"))
	return file
}

// scores returns the scores of a crawl's fetched pages, as lines "URL score topic".
func scores(t *testing.T, files []string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(output(t, "mcat", append([]string{"--format", "tsv", "--columns", "url,score,topic,mime,status,duplicate,role"}, files...)...)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) == 7 && strings.HasPrefix(f[3], "text/html") && f[4] == "200" && f[5] == "false" && f[6] == "page" {
			lines = append(lines, strings.Join(f[:3], " ")+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// TestFocused: with focus.model every driver has the documents scored in the round: the same scores by make, by mcrawl and in shards. Links have the score of
// their page, and the frontier the queue of it. The crawl can be verified, and repeated from its records.
func TestFocused(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 3, 3, 30, "--topics", "8")
	conf := filepath.Join(t.TempDir(), "crawl.toml")
	model := mouseModel(t)
	err := os.WriteFile(conf, []byte(fmt.Sprintf("[frontier]\nqueues = 4\nstrict = true\nprioritizer = \"score\"\n[focus]\nmodel = %q\n", model)), 0o666)
	must.OK(t, err)
	opic := filepath.Join(t.TempDir(), "opic")
	output(t, "mckpt", "init", "--quiet", "--policy", "opic", opic)
	out, err := exec.Command(bin+"mfocus", "score", "--model", model, "--warc", opic+"/fetch", "--txn", "r1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a crawl whose policy uses scores for itself (opic, walk), want another policy") {
		t.Errorf("policy opic: %v\n%s", err, out)
	}
	var want string
	for _, driver := range []string{"mcrawl", "mercator.mk", "shards"} {
		if !long && driver != "mcrawl" {
			continue
		}
		c := newCrawl(t, w, "CONFIG="+conf, "BATCH=80")
		if driver == "shards" {
			output(t, "mckpt", "init", "--quiet", "--shards", "2", "--config", conf, c.dir)
			c.finish(t, "mcrawl")
			same := 0
			for line := range strings.Lines(scores(t, c.kept(t, "marked.arrows.zst"))) {
				url, _, _ := strings.Cut(line, " ") // another page may be the duplicate
				if strings.Contains(want, line) {
					same++
				} else if strings.Contains(want, url+" ") {
					t.Errorf("in a shard: %s", line)
				}
			}
			if same < strings.Count(want, "\n")/2 {
				t.Errorf("%d pages of the shards have the scores of those of one crawl:\n%s", same, want)
			}
			output(t, "mckpt", "verify", "--quiet", c.dir)
			continue
		}
		killed := wrap(t, "mfocus", "timeout -s KILL 0.01 "+bin+"mfocus \"$@\"\nkill -9 $$\n")
		if out, err := c.command(t, driver, "ROUNDS=1", "BIN="+killed).CombinedOutput(); err == nil {
			t.Fatalf("mfocus did not die\n%s", tail(out))
		}
		c.finish(t, driver) // goes on
		marked, err := filepath.Glob(c.dir + "/rounds/r*/marked.arrows.zst")
		must.OK(t, err)
		got := scores(t, marked)
		if want == "" {
			want = got
		}
		if n := strings.Count(got, " mouse.rodent\n") + strings.Count(got, " mouse.device\n"); got != want || n < 2 || n > strings.Count(got, "\n")/2 {
			t.Errorf("%s: %d relevant of\n%s", driver, n, diff(want, got))
		}
		learned, again := filepath.Join(c.dir, "modules", "focus", "HEAD"), filepath.Join(t.TempDir(), "again.arrows.zst")
		before, err := os.ReadFile(learned)
		must.OK(t, err)
		output(t, "mfocus", "score", "--quiet", "--model", model, c.dir, "-o", again)
		if after, err := os.ReadFile(learned); err != nil || string(after) != string(before) {
			t.Errorf("judging the crawl again teaches: %v", err)
		}
		judged := scores(t, []string{again})
		if urls := regexp.MustCompile(`(?m) .*`); urls.ReplaceAllString(judged, "") != urls.ReplaceAllString(got, "") || !strings.Contains(judged, " mouse.") {
			t.Errorf("judged again:\n%s", diff(got, judged))
		}
		output(t, "mckpt", "verify", c.dir)
		of := map[string]string{}
		for line := range strings.Lines(got) {
			f := strings.SplitN(line, " ", 3)
			of[f[0]] = f[1]
		}
		links, n := output(t, "mcat", "--format", "tsv", "--columns", "src_url,score,url,text", "--rows", "links", c.dir), 0
		queues := map[string]string{} // that a link to the URL leads to
		for line := range strings.Lines(links) {
			f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if f[0] == "src_url" {
				continue
			}
			score, err := strconv.ParseFloat(f[1], 32)
			must.OK(t, err)
			queues[f[2]] += fmt.Sprint(min(3, int(4*(1-score))))
			if of[f[0]] == "" { // a sitemap, or a page that has no score of its own
				continue
			}
			if n++; f[3] == "" && f[1] != of[f[0]] {
				t.Errorf("%s: score %s of a link without text, want %s", f[0], f[1], of[f[0]])
			}
			if before, err := strconv.ParseFloat(of[f[0]], 32); err != nil || strings.Contains(f[3], "mouse") && score < max(0.5, before-0.1) {
				t.Errorf("%s: score %s of a link with the text %s, on a page of %s", f[0], f[1], f[3], of[f[0]])
			}
		}
		if n < 30 {
			t.Errorf("%d links of pages", n)
		}
		for line := range strings.Lines(output(t, "mcat", append([]string{"--format", "tsv", "--columns", "url,priority,depth"}, marked...)...)) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if q := queues[f[0]]; q != "" && f[2] != "0" && !strings.Contains(q, f[1]) {
				t.Errorf("priority %s of %s: links to it are for the queues %s", f[1], f[0], q)
			}
		}
		if driver == "mcrawl" {
			before, _, _ := strings.Cut(got, " mouse.") // the crawl knows its model
			page, _, _ := strings.Cut(before[strings.LastIndexByte(before, '\n')+1:], " ")
			if shown := output(t, "mfocus", "explain", "--crawl", c.dir, page); !strings.Contains(shown, page+"\nscore "+of[page]) || !strings.Contains(shown, "mous ") {
				t.Errorf("explain: %s", shown)
			}
			found := filepath.Join(t.TempDir(), "passages.arrows.zst")
			output(t, "mfocus", "passages", "--model", model, "--least", "0.5", "-o", found, c.dir)
			if text := output(t, "mcat", "--format", "text", found); strings.Count(text, "mouse") < 2 {
				t.Errorf("passages: %s", tail([]byte(text)))
			}
			c.replay(t)
		}
	}
}

// TestRaised: a crawl that raises what hubs link to, after each round. A run that is killed between mfrontier raise and the
// checkpoint goes on, whatever focus.distill says then. A crawl that stopped for want of relevant pages fetches what is added.
// The crawl can be repeated from its records.
func TestRaised(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 3, 6, 60, "--topics", "8")
	conf := filepath.Join(t.TempDir(), "crawl.toml")
	err := os.WriteFile(conf, []byte(fmt.Sprintf("[frontier]\nqueues = 4\nstrict = true\nprioritizer = \"score\"\n[focus]\nmodel = %q\ndistill = 1\n", mouseModel(t))), 0o666)
	must.OK(t, err)
	c := newCrawl(t, w, "CONFIG="+conf, "BATCH=20")
	closed := func() []string { return strings.Fields(output(t, "mckpt", "rounds", "--closed", c.dir)) }
	c.finish(t, "mcrawl", "ROUNDS=1")
	if printed := output(t, "mcrawl", "run", "--print", c.dir); !strings.Contains(printed, "mfocus distill "+c.dir+" -o ") || !strings.Contains(printed, " --txn raise1 ") {
		t.Errorf("--print: %s", printed)
	}
	killed := wrap(t, "mfrontier", "[ $1 = raise ] || exec "+bin+"mfrontier \"$@\"\n"+bin+"mfrontier \"$@\" || exit\nkill -9 $PPID\n")
	for n, driver := range []string{"mcrawl", "mcrawl add", "mercator.mk"} {
		if out, err := c.command(t, "mcrawl", fmt.Sprintf("ROUNDS=%d", n+2), "BIN="+killed).CombinedOutput(); err == nil {
			t.Fatalf("mcrawl did not die\n%s", tail(out))
		}
		raise := fmt.Sprintf("raise%d", n+1)
		if slices.Contains(closed(), raise) {
			t.Fatalf("%s is closed: %q", raise, closed())
		}
		output(t, "mcrawl", "set", c.dir, "focus.distill=0")
		switch driver {
		case "mcrawl add":
			if said := output(t, "mcrawl", "add", c.dir, fmt.Sprintf("http://127.0.0.1:%d/more", w.port)); !strings.Contains(said, "1 into the queue") {
				t.Errorf("mcrawl add: %s", said)
			}
			output(t, "mcrawl", "run", c.dir, "--rounds", fmt.Sprint(n+2))
		case "mercator.mk":
			c.finish(t, driver, fmt.Sprintf("ROUNDS=%d", n+2))
		default:
			output(t, "mcrawl", "run", c.dir, "--rounds", fmt.Sprint(n+1)) // makes no round
			if !slices.Contains(closed(), raise) {
				t.Errorf("%s stays open: %q", raise, closed())
			}
			output(t, "mcrawl", "run", c.dir, "--rounds", fmt.Sprint(n+2))
		}
		if !slices.Contains(closed(), raise) {
			t.Errorf("%s: %q", driver, closed())
		}
	}
	c.finish(t, "mcrawl", "ROUNDS=5")
	output(t, "mckpt", "verify", "--quiet", c.dir)
	c.replay(t)

	output(t, "mcrawl", "set", c.dir, "focus.patience=1")
	run := func() string {
		t.Helper()
		out, err := exec.Command(bin+"mcrawl", "run", c.dir, "--rounds", "60").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, tail(out))
		}
		return string(out)
	}
	said := run()
	if !strings.Contains(said, "no relevant page in the last 1 rounds") || !strings.Contains(said, "focus.patience=0") {
		t.Fatal(said)
	}
	before := len(closed())
	output(t, "mcrawl", "add", c.dir, fmt.Sprintf("http://127.0.0.1:%d/other", w.port))
	if run(); len(closed()) < before+2 { // add and a round
		t.Errorf("%q", closed())
	}
}

// TestRevisitFocused: a crawl of policy revisit that goes by scores keeps a page, once it has visited it, in the queue of the page's own relevance. focus.patience
// does not end it.
func TestRevisitFocused(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 3, 3, 30, "--topics", "8")
	conf := filepath.Join(t.TempDir(), "crawl.toml")
	err := os.WriteFile(conf, []byte(fmt.Sprintf("[frontier]\nqueues = 4\nprioritizer = \"score\"\nmin_interval = \"1s\"\nmax_interval = \"1s\"\n[focus]\nmodel = %q\npatience = 1\n", mouseModel(t))), 0o666)
	must.OK(t, err)
	c := newCrawl(t, w, "CONFIG="+conf, "BATCH=40", "POLICY=revisit")
	c.finish(t, "mcrawl", "ROUNDS=8")
	output(t, "mckpt", "verify", "--quiet", c.dir)
	rows := func(text string, each func(f []string)) {
		for line := range strings.Lines(text) {
			each(strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
	}
	found := map[string][2]string{} // score and priority of pages with text, as their round had them
	for _, marked := range c.outcomes(t) {
		rows(output(t, "mcat", "--format", "tsv", "--columns", "url,score,priority,role,status,duplicate,mime", marked), func(f []string) {
			if f[3] == "page" && f[4] == "200" && f[5] == "false" && f[6] == "text/html" {
				found[f[0]] = [2]string{f[1], f[2]}
			}
		})
	}
	if n := len(c.outcomes(t)); n < 8 {
		t.Errorf("%d rounds, want 8", n)
	}
	export := filepath.Join(t.TempDir(), "export.arrows.zst")
	output(t, "mfrontier", "export", c.dir+"/frontier", "-o", export)
	known, moved, relevant := 0, 0, 0
	rows(output(t, "mcat", "--format", "tsv", "--columns", "url,score,priority,visits,depth", export), func(f []string) {
		was, ok := found[f[0]]
		if !ok || f[3] == "0" {
			return
		}
		known++
		score, err := strconv.ParseFloat(f[1], 32)
		own := fmt.Sprint(min(3, int(4*(1-score))))
		if f[4] == "0" { // a seed
			own = "0"
		}
		if err != nil || f[1] != was[0] || f[2] != own {
			t.Errorf("%s waits with score %s and priority %s, want those of the page: %s, %s (%v)", f[0], f[1], f[2], was[0], own, err)
		}
		if f[2] != was[1] {
			moved++
		}
		if score > 0.5 {
			relevant++
		}
	})
	if known < 30 || moved == 0 || relevant == 0 || relevant == known {
		t.Errorf("%d known pages, %d of another priority than when they were fetched, %d relevant", known, moved, relevant)
	}
}

// TestFocusedPage runs each line of focus.md. WordNet is not there: the web has a dictionary of its own.
func TestFocusedPage(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 2, 3, 60, "--topics", "8", "--size", "400", "--no-sitemaps")
	dir := t.TempDir()
	for name, text := range map[string]string{"words.tsv": output(t, "mweb", append([]string{"topics"}, w.flags...)...), "seeds.txt": fmt.Sprintf("http://h0.mweb.test:%d/\n", w.port)} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	said := runSteps(t, pageSteps(t, "focus.md"), dir, polite("resolve.servers="+w.dns, "batch=20"), "focus mice Mouse", "focus mice Mouse --dictionary words.tsv",
		"words.db Mouse", "words.db Mouse --dictionary words.tsv")
	if !strings.Contains(said, "mouse.rodent") {
		t.Errorf("%s", said)
	}
}
