package pipelines

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Whatever the sets are made of, a crawl finds what the oracle knows, and goes back
// to an earlier checkpoint and on from there.
func TestSetImplementations(t *testing.T) {
	t.Parallel()
	hosts := 1
	if long {
		hosts = 3
	}
	w := startWeb(t, 7, hosts, 20)
	for _, c := range []struct{ urls, content, mode string }{{"sorted", "bloom", "online"}, {"bloom", "sorted", "batch"}} {
		t.Run(c.urls+"/"+c.mode, func(t *testing.T) {
			t.Parallel()
			conf := filepath.Join(t.TempDir(), "my.toml")
			text := fmt.Sprintf("[sets]\nurls = %q\ncontent = %q\nmode = %q\nbloom_size = \"64K\"\n", c.urls, c.content, c.mode)
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
			output(t, "mckpt", "restore", crawl.dir, strconv.Itoa(len(crawl.outcomes(t))/2))
			crawl.finish(t, "mcrawl")
			crawl.check(t)
			output(t, "murlset", "check", crawl.dir+"/urls")
			output(t, "mfpset", "check", crawl.dir+"/content")
		})
	}
}
