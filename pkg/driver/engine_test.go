package driver

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/command/mfetch"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/tell"
)

// TestRoom: memory.total and the limit of open files bound how many shards work at a time, and a task has what its commands may take.
func TestRoom(t *testing.T) {
	const M = 1 << 20
	files, known := mfetch.FilesLimit()
	for _, test := range []struct {
		name           string
		shards         int
		alone          bool
		total          config.Size
		connections    int
		one, all       config.Size
		fetch, extract int
		says           string
	}{
		{"a round is one task", 0, false, 0, 256, 128*M + 6*64*M, 128*M + 6*64*M, 1, 1, ""},
		{"a stage alone", 0, true, 0, 256, 128 * M, 128 * M, 1, 1, ""},
		{"all at a time", 8, false, 0, 256, 128 * M, 8 * 128 * M, 8, 2, ""},
		{"no more than 32", 99, false, 0, 256, 128 * M, 32 * 128 * M, 32, 2, ""},
		{"a task of many", 99, true, 0, 256, 128 * M, 128 * M, 32, 2, ""},
		{"room for two fetchers", 8, false, 300 * M, 256, 128 * M, 8 * 128 * M, 2, 2, ""},
		{"room for one", 8, false, 128 * M, 256, 128 * M, 8 * 128 * M, 1, 2, ""},
		{"files for two", 8, false, 0, int(min(files, 1e6)/2-64) * 2 / 3, 128 * M, 8 * 128 * M, 2, 2, "2 of 8 shards fetch at a time, by the limit of open files"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.says != "" && (!known || files > 1e6) {
				t.Skip("the limit of open files is no number of this test")
			}
			said := ""
			d := &Driver{plan: plan{crawl: "crawl", shards: test.shards}, opt: Options{Threads: 2, Warn: func(f string, a ...any) { said = fmt.Sprintf(f, a...) }}}
			conf := &config.Config{}
			conf.File.Memory.Fetch, conf.File.Memory.Stages, conf.File.Memory.Total = 128*M, 64*M, test.total
			conf.File.Fetch.Connections = test.connections
			if one, all := d.needs(conf, test.alone); one != test.one || all != test.all {
				t.Errorf("one task may take %d MiB, all %d; want %d, %d", one/M, all/M, test.one/M, test.all/M)
			}
			for _, s := range d.plan.ofShard(0).stages("r1", nil) {
				want, is := map[string]int{fetchStage: test.fetch, "extract": test.extract}[s.name]
				if got := d.room(conf, s); is && got != want {
					t.Errorf("%s: %d at a time, want %d", s.name, got, want)
				}
			}
			if !strings.HasPrefix(said, test.says) || test.says == "" && said != "" {
				t.Errorf("said %q, want %q", said, test.says)
			}
		})
	}
}

// TestOutage: an error of squeue is told once, and ends the run when it has lasted.
func TestOutage(t *testing.T) {
	a, b := errors.New("no connection"), errors.New("no such user")
	begun := time.Unix(0, 0)
	var o outage
	for _, c := range []struct {
		err       error
		after     time.Duration
		news, end bool
	}{
		{a, 0, true, false},
		{a, time.Minute, false, false},
		{b, 2 * time.Minute, true, false},
		{nil, 3 * time.Minute, false, false},
		{b, 4 * time.Minute, true, false},
		{a, 13 * time.Minute, true, false},
		{a, 14 * time.Minute, false, true},
	} {
		if news, end := o.noteResult(c.err, begun.Add(c.after)); news != c.news || end != c.end {
			t.Errorf("%v after %v: news %v, end %v; want %v, %v", c.err, c.after, news, end, c.news, c.end)
		}
	}
}

// TestLastWords: the error has the line of the log that says most; of a crash it has no traceback, and not the class of wrong usage.
func TestLastWords(t *testing.T) {
	trace := "\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:7 +0x1d\nexit status 2\n"
	for _, test := range []struct {
		name, log, found, hint string
		class                  fault.Class
	}{
		{"a panic", "mfetch: slow\npanic: runtime error: index out of range [3] with length 2" + trace, "panic: runtime error: index out of range [3] with length 2", "", ""},
		{"no memory", "fatal error: runtime: out of memory\n\nruntime stack:" + trace, "fatal error: runtime: out of memory", "", ""},
		{"many goroutines", "fatal error: all goroutines are asleep - deadlock!\n" + strings.Repeat(trace, 5000), "fatal error: all goroutines are asleep - deadlock!", "", ""},
		{"a signal", "SIGQUIT: quit\nPC=0x1 m=0 sigcode=0" + trace, "SIGQUIT: quit", "", ""},
		{"a try before crashed", "panic: once" + trace + "mcrawl: crawl: no such shard\nmcrawl: hint: look\n", "mcrawl: crawl: no such shard", "look", fault.Usage},
		{"wrong usage", "mcrawl: crawl: no such shard\n", "mcrawl: crawl: no such shard", "", fault.Usage},
		{"a command", "mfetch: f: broken\nmfetch: hint: mend it\nmcrawl: crawl: mfetch ended with exit code 2\n", "mfetch: f: broken", "mend it", fault.Usage},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			d := &Driver{Crawl: &tell.Crawl{Crawl: &crawl.Crawl{}}}
			file := (&tasks{}).log("r1", "fetch", "0")
			must.OK(t, os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(test.log), 0o666))
			err := d.taskError("r1", "fetch", failed{code: 2})
			if want := "round r1, stage fetch, shard 0: " + test.found; err.Error() != want || fault.ClassOf(err) != test.class || fault.HintOf(err) != cmp.Or(test.hint, "its log is "+file) {
				t.Errorf("%v (%s; %s), want %s (%s; %s)", err, fault.ClassOf(err), fault.HintOf(err), want, test.class, test.hint)
			}
		})
	}
}
