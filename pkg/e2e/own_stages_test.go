package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// ownStage is this test as a program of the user's that is a stage of a crawl, the one that its first argument names. Its state is a file of the keys
// that it has seen.
func ownStage() int {
	if os.Getenv("MERCATOR_EVENT") != "rows" {
		return 0
	}
	file := filepath.Join(os.Getenv("MERCATOR_MODULE_DIR"), "keys")
	old, _ := os.ReadFile(file)
	seen, keys := map[string]bool{}, strings.Builder{}
	for key := range strings.Lines(string(old)) {
		seen[strings.TrimSpace(key)] = true
	}
	know := func(key string) (known bool) {
		if known = seen[key]; !known {
			seen[key] = true
			fmt.Fprintln(&keys, key)
		}
		return known
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var row struct {
			URL, Host, Truncated string
			Key                  string `json:"url_key"`
			Content              string `json:"content_fp"`
			Length               int64  `json:"body_length"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return 1
		}
		answer := "{}"
		switch os.Args[1] {
		case "seen":
			if know(row.Key) {
				answer = "null"
			}
		case "content":
			answer = fmt.Sprintf(`{"duplicate":%v}`, know(fmt.Sprint(row.Content, row.Length, row.Truncated != "")))
		case "resolve":
			answer = lookUp(os.Args[2], row.Host)
		case "links":
			answer = `{"score":0.5}`
			if strings.Contains(row.URL, "/p1") {
				answer = "null"
			}
		case "new":
			answer = fmt.Sprintf(`{"priority":%d}`, len(row.URL)%3)
		}
		fmt.Println(answer)
	}
	if err := os.WriteFile(file, append(old, keys.String()...), 0o666); err != nil {
		return 1
	}
	return 0
}

// lookUp is an answer by a DNS server.
func lookUp(server, host string) string {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addrs, err := r.LookupHost(context.Background(), host+".")
	if e := (*net.DNSError)(nil); errors.As(err, &e) && e.IsNotFound {
		return `{"addr_error":"nxdomain"}`
	} else if err != nil {
		return `{"addr_error":"servfail"}`
	}
	return fmt.Sprintf(`{"addr":%q}`, addrs[0])
}

// ownStages writes a crawl.toml with stages that this test is.
func ownStages(t *testing.T, w *web, more string, stages ...string) string {
	t.Helper()
	self, err := os.Executable()
	must.OK(t, err)
	text := more + "\n[stages]\n"
	for _, stage := range stages {
		text += fmt.Sprintf("%s = \"%s %s %s\"\n", stage, self, stage, w.dns)
	}
	file := filepath.Join(t.TempDir(), "own.toml")
	must.OK(t, os.WriteFile(file, []byte(text), 0o666))
	return file
}

// A crawl with programs for its sets, resolver and order finds what another one does, goes back to checkpoints, and is repeated from its records.
func TestOwnStages(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 61, 4, 12)
	ours := newCrawl(t, w)
	ours.finish(t, "mcrawl")
	toml := ownStages(t, w, "[frontier]\nqueues = 3\nstrict = true", "seen", "content", "resolve", "new")
	for driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := newCrawl(t, w, "CONFIG="+toml, "BATCH=20", "RESOLVE_FLAGS=")
			c.finish(t, driver)
			c.check(t)
			if got, want := duplicates(t, c.outcomes(t)), duplicates(t, ours.outcomes(t)); got != want || want == 0 {
				t.Errorf("%d duplicates, want %d", got, want)
			}
			if out, err := exec.Command(bin+"mckpt", "verify", c.dir).CombinedOutput(); err != nil || !strings.Contains(string(out), c.dir+"/urls: the state of a program (stages.seen): whether it knows the URLs of the frontier is not checked") {
				t.Errorf("mckpt verify: %v\n%s", err, out)
			}
			for line := range strings.Lines(output(t, "mcat", "--format", "tsv", "--columns", "url,priority,depth,role", c.dir+"/rounds/r2/marked.arrows.zst")) {
				if f := strings.Split(strings.TrimSpace(line), "\t"); f[3] == "page" && f[2] != "0" && f[1] != fmt.Sprint(len(f[0])%3) {
					t.Errorf("priority of %q", line)
				}
			}
			want := c.found(t)
			state := output(t, "mextract", "state", c.dir+"/urls")
			output(t, "mckpt", "restore", c.dir, "6")
			if before := output(t, "mextract", "state", c.dir+"/urls"); len(before) >= len(state) {
				t.Errorf("at checkpoint 6 the state has %d bytes, in the end %d", len(before), len(state))
			}
			c.finish(t, driver)
			c.check(t)
			if got := c.found(t); got != want {
				t.Errorf("after going back: %s", diff(want, got))
			}
			if driver != "mcrawl" {
				return
			}
			c.replay(t)
			// What cannot read the state says so.
			for _, line := range []string{"murlset stat D/urls", "mfpset dump D/content", "mcrawl again D -f S", "mresolve canon D/dns --txn x"} {
				words := strings.Fields(strings.NewReplacer("D", c.dir, "S", w.seeds).Replace(line))
				out, err := exec.Command(bin+words[0], words[1:]...).CombinedOutput()
				if err == nil || !strings.Contains(string(out), "a store of kind module") || !strings.Contains(string(out), ": mextract state "+c.dir) {
					t.Errorf("%s: %v\n%s", line, err, out)
				}
			}
			url := strings.Fields(want)[0]
			for url, says := range map[string]string{url: "done", url + "-none": "unknown"} { // and mcrawl again -f is refused
				out, _ := exec.Command(bin+"mcrawl", "explain", c.dir, url, "--json").CombinedOutput()
				if !strings.Contains(string(out), `"state":"`+says+`"`) && !strings.Contains(string(out), `"state": "`+says+`"`) || strings.Contains(string(out), "again") && !strings.Contains(string(out), "again "+c.dir+" --outcome ") {
					t.Errorf("mcrawl explain %s: %s", url, out)
				}
			}
			// A set is chosen when the crawl is made.
			if out, err := exec.Command(bin+"mcrawl", "set", c.dir, "stages.seen=").CombinedOutput(); err == nil || !strings.Contains(string(out), "stages.seen: a setting that counts when a crawl is made") {
				t.Errorf("mcrawl set stages.seen=: %v\n%s", err, out)
			}
			if out, err := exec.Command(bin+"mcrawl", "set", ours.dir, "stages.content=cat").CombinedOutput(); err == nil || !strings.Contains(string(out), "stages.content: a setting that counts when a crawl is made") {
				t.Errorf("mcrawl set stages.content=cat of a crawl without: %v\n%s", err, out)
			}
			// A copy that lost its programs gets them back.
			had := output(t, "mcrawl", "set", c.dir, "stages.seen")
			file := filepath.Join(c.dir, "crawl.toml")
			text, err := os.ReadFile(file)
			must.OK(t, err, os.WriteFile(file, []byte(regexp.MustCompile(`(?m)^seen = .*\n`).ReplaceAllString(string(text), "")), 0o666))
			if out, err := exec.Command("sh", "-c", "echo http://new.test/ | "+bin+"murlset new --text "+c.dir+"/urls --txn x").CombinedOutput(); err == nil || !strings.Contains(string(out), "set stages.seen to the program that the crawl was made with: mcrawl set "+c.dir+" stages.seen=COMMAND") {
				t.Errorf("without stages.seen: %v\n%s", err, out)
			}
			if out, err := exec.Command(bin+"mckpt", "init", c.dir).CombinedOutput(); err == nil || !strings.Contains(string(out), "kind module") {
				t.Errorf("mckpt init without stages.seen: %v\n%s", err, out)
			}
			output(t, "mcrawl", "set", c.dir, "stages.seen="+strings.TrimSpace(had))
			if out, err := exec.Command("sh", "-c", "echo http://new.test/ | "+bin+"murlset new --text "+ours.dir+"/urls --txn x --program cat").CombinedOutput(); err == nil || !strings.Contains(string(out), "that setting counts when the crawl is made") {
				t.Errorf("stages.seen of another crawl: %v\n%s", err, out)
			}
		})
	}
}

// A filter of links, with or without other stages: what it drops is counted, and not fetched.
func TestOwnLinkFilter(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 62, 2, 30)
	for driver := range drivers {
		c := newCrawl(t, w, "CONFIG="+ownStages(t, w, "", "links"))
		c.finish(t, driver)
		output(t, "mckpt", "verify", "--quiet", c.dir)
		found := c.found(t)
		kept := output(t, "mcat", "--trailer", c.dir+"/rounds/r1/links.arrows.zst")
		if strings.Contains(found, "/p1") || !strings.Contains(w.oracle(t), "/p1") || !strings.Contains(kept, `"drops":[{"reason":"filtered"`) {
			t.Errorf("%s: filtered links were fetched, or are none:\n%s\n%s", driver, found, kept)
		}
	}
}

func TestOwnStagesAreKilled(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(20, 29))
	w := startWeb(t, 2, 1, 1)
	toml := ownStages(t, w, "", "seen", "content", "new")
	done := 0
	for crawls := 0; done < 4 && crawls < 20; crawls++ {
		n, _ := killedCrawl(t, rng, "mcrawl", 4, 80, "CONFIG="+toml)
		done += n
	}
	if done < 4 {
		t.Errorf("%d kills", done)
	}
}

// Each shard has a state of its own. Buckets, which the state is not cut by, cannot move.
func TestOwnStagesOfShards(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 63, 4, 20)
	toml := ownStages(t, w, "", "seen", "content", "new")
	c := newCrawl(t, w, "CONFIG="+toml)
	output(t, "mckpt", "init", "--quiet", "--shards", "2", "--config", toml, c.dir)
	c.finish(t, "mcrawl")
	c.sharded(t)
	out, err := exec.Command(bin+"mcrawl", "move", c.dir, "0-4095", "--to", "1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "shard/000/urls: the state of a program (stages.seen)") {
		t.Errorf("mcrawl move: %v\n%s", err, out)
	}
}
