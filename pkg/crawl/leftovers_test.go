package crawl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/must"
)

// TestCutFilesGo: what writers have left in the folders of rounds, and exports beside the crawl, when they were killed goes with the next tidying, and
// with the commit of the round. What a process writes that is alive stays, and so does what is another's.
func TestCutFilesGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "crawl")
	c, err := Init(dir, nil, []byte("# none\n"), func(dir string) error {
		return store.Create(filepath.Join(dir, "frontier"), "frontier", 1, nil, store.Options{})
	}, Options{})
	must.OK(t, err)
	dead := exec.Command(os.Args[0], "-test.run", "^$")
	must.OK(t, dead.Run())
	// The tag of this machine, as durable writes it.
	a, err := durable.Create(durable.OS, filepath.Join(t.TempDir(), "x"))
	must.OK(t, err)
	defer a.Abort()
	name := filepath.Base(a.File().(*os.File).Name())
	tag := strings.TrimSuffix(name[strings.LastIndex(name, "-")+1:], durable.TempSuffix)
	of := func(base string, pid int) string {
		return "." + base + "." + strconv.Itoa(pid) + "-1-" + tag + durable.TempSuffix
	}
	gone := dead.Process.Pid
	round, err := c.BeginRound("r1")
	must.OK(t, err)
	write := func(path string) string {
		t.Helper()
		must.OK(t, os.WriteFile(path, []byte("cut"), 0o666))
		return path
	}
	stays := []string{
		write(filepath.Join(round, of("links.arrows.zst", os.Getpid()))),
		write(filepath.Join(filepath.Dir(dir), of("another.wacz", gone))),
		write(filepath.Join(filepath.Dir(dir), of("crawler.wacz", gone))),
	}
	for _, with := range []struct {
		what string
		do   func() error
	}{{"tidying", func() error { _, err := c.TidyRounds(ctx); return err }}, {"a commit", func() error {
		s, err := store.Open(filepath.Join(dir, "frontier"), "frontier", 1, store.Options{})
		must.OK(t, err, changeWith(s, "add", "r1", record.Ledger{}))
		_, _, err = c.Commit(ctx, "r1", time.Unix(0, 0), 0)
		return err
	}}} {
		goes := []string{write(filepath.Join(round, of("links.arrows.zst", gone)))}
		if with.what == "tidying" {
			goes = append(goes, write(filepath.Join(filepath.Dir(dir), of("crawl.wacz", gone))), write(filepath.Join(filepath.Dir(dir), of("crawl-report.html", gone))))
		}
		must.OK(t, with.do())
		for _, path := range goes {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%s: %s is there", with.what, path)
			}
		}
		for _, path := range stays {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", with.what, err)
			}
		}
	}
}
