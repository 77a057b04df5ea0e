package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/base/release"
)

// digests returns what the files of a crawl hold, a line each.
func digests(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("../testdata/golden/digest.sh", dir)
	cmd.Env = append(os.Environ(), "BIN="+bin)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("digest.sh: %v", err)
	}
	return string(out)
}

// TestGolden reads, verifies and repeats crawls that were saved by earlier
// versions, so that no format changes unseen.
func TestGolden(t *testing.T) {
	t.Parallel()
	saved, err := filepath.Glob("../testdata/golden/v*")
	if err != nil || len(saved) == 0 {
		t.Fatalf("no golden crawls: %v", err)
	}
	for _, dir := range saved {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			pinned, err := os.ReadFile(filepath.Join(dir, "digests"))
			must.OK(t, err)
			c := &crawl{dir: filepath.Join(t.TempDir(), "crawl")} // commands lock what they read
			must.OK(t, os.CopyFS(c.dir, os.DirFS(filepath.Join(dir, "crawl"))))
			if got := digests(t, c.dir); got != string(pinned) {
				t.Errorf("the files hold something else:\n%s", diff(string(pinned), got))
			}

			var files []string
			kinds := map[string]int{}
			err = filepath.WalkDir(c.dir, func(path string, e fs.DirEntry, err error) error {
				name := e.Name()
				for _, kind := range []string{".arrows.zst", ".fps", ".run", ".warc.gz", "MANIFEST-"} {
					if strings.Contains(name, kind) {
						kinds[kind]++
						files = append(files, path)
					}
				}
				return err
			})
			if err != nil || len(kinds) != 5 {
				t.Fatalf("kinds of files found: %v, %v; want 5", kinds, err)
			}
			output(t, "mcat", append([]string{"--check"}, files...)...)
			output(t, "mckpt", "verify", "--quiet", c.dir)
			output(t, "mfrontier", "check", c.dir+"/frontier")

			replayed := c.replay(t, "THREADS=2", "POLITENESS_FLAGS=--for 0") // its rounds had no time
			var want strings.Builder                                         // all but the WARC files, which a replay does not write
			for line := range strings.Lines(string(pinned)) {
				if !strings.Contains(line, " fetch/") {
					want.WriteString(line)
				}
			}
			if got := digests(t, replayed); got != want.String() {
				t.Errorf("the replay differs:\n%s", diff(want.String(), got))
			}
			output(t, "mckpt", "verify", "--quiet", replayed)
		})
	}
}

// TestUpgrade continues the crawl that each release left (testdata/golden): what was known then stays, what is new comes to it, and the old
// checkpoint can be returned to.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	saved, err := filepath.Glob("../testdata/golden/v*")
	if err != nil || len(saved) == 0 {
		t.Fatalf("no golden crawls: %v", err)
	}
	w := startWeb(t, 9, 3, 24)
	for _, folder := range saved {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "crawl")
			must.OK(t, os.CopyFS(dir, os.DirFS(filepath.Join(folder, "crawl"))))
			known := func() (urls, batches int) {
				var s struct{ Known, Batches int }
				must.OK(t, json.Unmarshal([]byte(output(t, "mcrawl", "status", "--json", dir)), &s))
				return s.Known, s.Batches
			}
			output(t, "mckpt", "verify", "--quiet", dir)
			before, rounds := known()
			checkpoint := checkpointOf(t, dir)
			if out := output(t, "mcrawl", "stats", dir); !strings.Contains(out, "text/html") {
				t.Errorf("stats of the older crawl:\n%s", out)
			}
			output(t, "mcrawl", "set", dir, "resolve.servers="+w.dns, "network.allow_net=127.0.0.0/8", "politeness.min_delay=0s", "politeness.addr_delay=0s", "politeness.delay_factor=0")
			output(t, "mcrawl", "add", dir, "-f", w.seeds)
			output(t, "mcrawl", "run", dir, "--rounds", fmt.Sprint(rounds+2))
			if n, _ := known(); n <= before {
				t.Errorf("%d URLs known, and %d before", n, before)
			}
			output(t, "mckpt", "verify", "--quiet", dir)
			if out := output(t, "mcrawl", "export", dir, "-", "--cdxj"); !strings.Contains(out, fmt.Sprintf(":%d/", w.port)) {
				t.Errorf("nothing of the web of today was archived:\n%s", out)
			}
			output(t, "mckpt", "restore", "--quiet", dir, checkpoint)
			if n, _ := known(); n != before {
				t.Errorf("%d URLs known at the old checkpoint, want %d", n, before)
			}
			output(t, "mckpt", "verify", "--quiet", dir)
		})
	}
}

// Each command says the release.
func TestVersion(t *testing.T) {
	for _, name := range commands {
		t.Run(name, func(t *testing.T) {
			if out, err := exec.Command(bin+name, "--version").Output(); !strings.HasPrefix(string(out), name+" "+release.Version+" ") {
				t.Errorf("%q, %v, want the release %s", out, err, release.Version)
			}
		})
	}
}

// A round with the mark of another epoch is moved, and said to be.
func TestRenamedEpochIsTold(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "crawl")
	must.OK(t, os.CopyFS(dir, os.DirFS("../testdata/golden/v1/crawl")), os.Rename(dir+"/rounds/r6/epoch.0", dir+"/rounds/r6/epoch.9"))
	out, err := exec.Command(bin+"mckpt", "rounds", dir).CombinedOutput()
	if want := dir + "/rounds: files that do not count were moved to rounds/undone: round r6"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v\n%s\nwant %s", err, out, want)
	}
}
