package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// equals lists the documents that have the same fingerprint, those of one in a line. All but one of a line are marked
// duplicates, and no others.
func (c *crawl) equals(t *testing.T) string {
	t.Helper()
	urls, marked := map[string][]string{}, map[string]int{}
	for line := range strings.Lines(output(t, "mcat", "--format", "tsv", "--columns", "role,outcome,status,content_fp,duplicate,url", "--rows", "outcomes", c.dir)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[0] != "page" || f[1] != "fetched" || f[2] != "200" {
			continue
		}
		if urls[f[3]] = append(urls[f[3]], f[5]); f[4] == "true" {
			marked[f[3]]++
		}
	}
	var lines []string
	for fp, list := range urls {
		if marked[fp] != len(list)-1 {
			t.Errorf("%d of %d equal documents are marked: %s", marked[fp], len(list), list)
		}
		lines = append(lines, strings.Join(slices.Sorted(slices.Values(list)), " ")+"\n")
	}
	if long && len(marked) == 0 {
		t.Error("no document is a duplicate")
	}
	t.Logf("%d documents with %d fingerprints", len(slices.Concat(slices.Collect(maps.Values(urls))...)), len(urls))
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Whatever the sets are made of, a crawl finds what the oracle knows, and goes back
// to an earlier checkpoint and on from there.
func TestSetImplementations(t *testing.T) {
	t.Parallel()
	type made struct{ urls, content, mode, hash string }
	all := []made{{"sorted", "bloom", "online", "md5"}, {"bloom", "sorted", "batch", "sha256"}}
	hosts := 1
	if long {
		hosts, all = 8, append(all, made{"sorted", "sorted", "batch", "fp64"}) // the eighth host is a mirror
	}
	w := startWeb(t, 7, hosts, 20)
	var mu sync.Mutex
	contents := map[string]string{} // by function: the documents that are equal
	t.Cleanup(func() {
		for _, c := range all {
			if got, want := contents[c.hash], contents["md5"]; !t.Failed() && (got == "" || got != want) {
				t.Errorf("by %s other documents are equal than by md5: %s", c.hash, diff(want, got))
			}
		}
	})
	for _, c := range all {
		t.Run(c.urls+"/"+c.mode+"/"+c.hash, func(t *testing.T) {
			t.Parallel()
			conf := filepath.Join(t.TempDir(), "my.toml")
			text := fmt.Sprintf("[sets]\nurls = %q\ncontent = %q\nmode = %q\ncontent_hash = %q\nbloom_size = \"64K\"\n", c.urls, c.content, c.mode, c.hash)
			if err := os.WriteFile(conf, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			crawl := newCrawl(t, w, "CONFIG="+conf)
			crawl.finish(t, "mcrawl")
			crawl.check(t)
			for name, impl := range map[string]string{"murlset stat " + crawl.dir + "/urls": c.urls, "mfpset stat " + crawl.dir + "/content": c.content} {
				words := strings.Fields(name)
				if got := output(t, words[0], words[1:]...); !strings.Contains(got, fmt.Sprintf(`"impl": %q`, impl)) {
					t.Errorf("%s: %s", name, got)
				}
			}
			mu.Lock()
			contents[c.hash] = crawl.equals(t)
			mu.Unlock()
			output(t, "mckpt", "restore", crawl.dir, strconv.Itoa(len(crawl.outcomes(t))/2))
			crawl.finish(t, "mcrawl")
			crawl.check(t)
			output(t, "murlset", "check", crawl.dir+"/urls")
			output(t, "mfpset", "check", crawl.dir+"/content")
		})
	}
}
