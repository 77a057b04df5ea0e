package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// replay repeats a crawl from its records into a new folder.
func (c *crawl) replay(t *testing.T, vars ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "replay")
	cmd := exec.Command("make", append([]string{"-s", "-f", "replay.mk", "BIN=" + bin, "CRAWL=" + c.dir, "REPLAY=" + dir}, vars...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("replay: %v\n%s", err, tail(out))
	}
	return dir
}

// state returns what the stores of a crawl hold, as text.
func state(t *testing.T, dir string) string {
	t.Helper()
	return output(t, "mfrontier", "stat", dir+"/frontier") +
		output(t, "mfrontier", "export", "--text", dir+"/frontier") +
		output(t, "murlset", "dump", dir+"/urls") +
		output(t, "mfpset", "dump", dir+"/content")
}

// The files of a filter are taken along, also of one that names schemes that the crawl alone knows.
func TestReplayTakesFilter(t *testing.T) {
	t.Parallel()
	crawl, replay := t.TempDir(), filepath.Join(t.TempDir(), "replay")
	for name, text := range map[string]string{
		"crawl.toml": "schemes = [\"http\", \"gemini:1965\"]\n[extract]\nfilter = \"my.rules\"\n",
		"my.rules":   "deny a: scheme gemini and domain @names\n", "names": "a.test\n",
	} {
		must.OK(t, os.WriteFile(filepath.Join(crawl, name), []byte(text), 0o666))
	}
	output(t, "mckpt", "init", crawl, "--config", filepath.Join(crawl, "crawl.toml"))
	if out, err := exec.Command("make", "-s", "-f", "replay.mk", "BIN="+bin, "CRAWL="+crawl, "REPLAY="+replay, replay+"/CURRENT").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"CURRENT", "my.rules", "names"} {
		if _, err := os.Stat(filepath.Join(replay, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestReplay repeats crawls with all that makes repeating hard: URLs tried again,
// batches that were cut short, a command that was killed, rounds that were
// abandoned, undone and made again.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 8, 4, 40)
	for driver := range drivers {
		if !long && driver == "mercator.mk" {
			continue // TestGolden repeats a crawl by mercator.mk
		}
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			// Flags without a setting: for mercator.mk, and where mcrawl starts the commands.
			const update, fetch = "--retry-delay 0s", "--max-bytes 100K"
			vars := []string{"UPDATE_FLAGS=--max-attempts 2", "FETCH_FLAGS=--connections 8 --allow-net 127.0.0.0/8"}
			again := "UPDATE_FLAGS=" + update
			if driver == "mercator.mk" {
				vars[0] += " " + update
				vars[1] += " " + fetch
				again = vars[0] // as rounds/rN/flags has it
			}
			c := newCrawl(t, w, append(vars, "BATCH=40", "POLITENESS_FLAGS=--min-delay 0 --delay-factor 0 --addr-delay 0")...)
			commands := func(command, script string) string {
				if driver == "mercator.mk" {
					return "BIN=" + wrap(t, command, script)
				}
				mfetch, mfrontier := fmt.Sprintf("exec %smfetch \"$@\" %s\n", bin, fetch), fmt.Sprintf("[ \"$1\" != update ] || set -- \"$@\" %s\nexec %smfrontier \"$@\"\n", update, bin)
				return "BIN=" + wrap(t, "mfetch", mfetch, "mfrontier", mfrontier, command, script)
			}
			all := commands("none", "")
			if driver == "mercator.mk" {
				all = "BIN=" + bin
			}
			c.finish(t, driver, all, "ROUNDS=2")

			// Round 3 dies in mfetch, is taken up, dies in murlset, is abandoned.
			mfetch := "timeout -s KILL 0.1 " + bin + "mfetch \"$@\" --min-delay 100ms\nkill -9 $$\n"
			for _, stage := range []struct{ command, script string }{{"mfetch", mfetch}, {"murlset", "kill -9 $$\n"}} {
				if out, err := c.command(t, driver, "ROUNDS=3", commands(stage.command, stage.script)).CombinedOutput(); err == nil {
					t.Fatalf("%s did not die\n%s", stage.command, tail(out))
				}
			}
			output(t, "mckpt", "abandon", c.dir)
			c.finish(t, driver, all, "ROUNDS=4")
			output(t, "mckpt", "restore", c.dir, "4") // rounds 4 and 5 are made again
			// Round 4 dies in mfetch once more, and is taken up this time.
			if out, err := c.command(t, driver, "ROUNDS=4", commands("mfetch", mfetch)).CombinedOutput(); err == nil {
				t.Fatalf("mfetch did not die\n%s", tail(out))
			}
			c.finish(t, driver, all)

			want := state(t, c.dir)
			threads := []string{"3"}
			if long {
				threads = []string{"1", "2", "8"}
			}
			for _, threads := range threads {
				dir := c.replay(t, "THREADS="+threads, "ROUNDS=2", again)
				c.replay(t, "THREADS="+threads, "REPLAY="+dir, again) // the same command goes on
				if got := state(t, dir); got != want {
					t.Errorf("%s threads: the stores differ: %s", threads, diff(want, got))
				}
				output(t, "mckpt", "verify", "--quiet", dir)
			}

			// One saved row is changed: the round and the stage are named.
			round, links, text := 1, "", ""
			for text == "" { // what the second round found depends on what it fetched
				round++
				links = fmt.Sprintf("%s/rounds/r%d/links.arrows.zst", c.dir, round)
				text = output(t, "mcat", links)
			}
			changed := filepath.Join(t.TempDir(), "changed.json")
			must.OK(t, os.WriteFile(changed, []byte(strings.Replace(text, `"depth":`, `"depth":7`, 1)), 0o666))
			output(t, "mcat", "--from", "json", "--like", links, "-o", links+".new", changed)
			must.OK(t, os.Rename(links+".new", links))
			out, err := exec.Command("make", "-s", "-f", "replay.mk", "BIN="+bin, "CRAWL="+c.dir, "REPLAY="+filepath.Join(t.TempDir(), "replay"), fmt.Sprintf("ROUNDS=%d", round+1), again).CombinedOutput()
			if err == nil || !strings.Contains(string(out), fmt.Sprintf("replay.mk: round r%d, stage mextract:", round)) {
				t.Errorf("a changed row went unseen: %v\n%s", err, tail(out))
			}
		})
	}
}

// visits is what the frontier of a crawl knows of each page that it comes back to, and of
// the room that its rounds have for that.
func visits(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.arrows.zst")
	output(t, "mfrontier", "export", "--quiet", dir+"/frontier", "-o", file)
	return output(t, "mfrontier", "stat", "--json", dir+"/frontier") + output(t, "mcat", file)
}

// TestReplayOfRevisits repeats rounds in which pages change and say how long they stay,
// none of them with as many URLs as it could have had: that number counts too.
func TestReplayOfRevisits(t *testing.T) {
	t.Parallel() // it waits for pages to be due
	w := startWeb(t, 9, 2, 12, "--hard", "--changing")
	config := filepath.Join(t.TempDir(), "crawl.toml")
	must.OK(t, os.WriteFile(config, []byte("[frontier]\nmin_interval = \"1s\"\nmax_interval = \"24h\"\n"), 0o666))
	c := newCrawl(t, w, "POLICY=revisit", "BATCH=100", "CONFIG="+config)
	c.finish(t, "mcrawl", "ROUNDS=4")
	want := visits(t, c.dir)
	for _, part := range []string{`"room_a_day": 0,`, `"promised_until":"2`} {
		if strings.Contains(want, part) != (part[1] == 'p') {
			t.Errorf("%s in %s", part, want)
		}
	}
	dir := c.replay(t)
	if got := visits(t, dir); got != want {
		t.Errorf("repeated, the frontier differs: %s", diff(want, got))
	}
}
