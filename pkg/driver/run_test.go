package driver

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/setup"
	"mercator/pkg/driver/tell"
	"mercator/pkg/view/stats"
)

// openFiles lists what this process has open.
func openFiles(t *testing.T) (names []string) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		needs.Skip(t, "needs /proc to count open files: ", err)
	}
	for _, e := range list {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // else it was of the listing
			names = append(names, name)
		}
	}
	return names
}

// TestRoundsLeaveNothing: in its fiftieth round a run has about as many files open, and as many goroutines, as in its fifth.
func TestRoundsLeaveNothing(t *testing.T) {
	const early, late, slack = 5, 50, 20 // of what a round left there would be 45
	openFiles(t)
	for _, shards := range []int{0, 2} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			type seen struct {
				files      []string
				goroutines int
				stacks     strings.Builder
			}
			in := map[int]*seen{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // a chain: a page a round
				var n int
				if _, err := fmt.Sscanf(r.URL.Path, "/p%d", &n); err != nil {
					http.NotFound(w, r)
					return
				}
				if n == early || n == late {
					in[n] = &seen{files: openFiles(t), goroutines: runtime.NumGoroutine()}
					_ = pprof.Lookup("goroutine").WriteTo(&in[n].stacks, 1)
				}
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprintf(w, "<title>%d</title><p>page %[1]d</p><a href=/p%d>on</a>", n, n+1)
			}))
			defer server.Close()
			dir := filepath.Join(t.TempDir(), "crawl")
			spec := setup.Spec{In: strings.NewReader(""), URLs: []string{server.URL + "/p1"}, Shards: shards}
			for _, setting := range []string{"fetch.contact=test@example.org", "network.allow_net=127.0.0.0/8", "politeness.min_delay=0s", "politeness.delay_factor=0", "politeness.addr_delay=0s"} {
				key, value, _ := strings.Cut(setting, "=")
				spec.Set = append(spec.Set, config.Pair{Key: key, Value: value})
			}
			_, err := setup.Make(t.Context(), dir, spec, t.Logf)
			must.OK(t, err)
			d, err := Open(dir, Options{Rounds: late, Now: time.Now, Warn: t.Logf, Reporter: &tell.Reporter{Out: io.Discard, Err: io.Discard, Silent: true, Quiet: true}})
			must.OK(t, err)
			must.OK(t, d.Run(t.Context()))
			server.Close() // ends the handlers
			if in[early] == nil || in[late] == nil {
				t.Fatalf("pages %d and %d were not both asked for", early, late)
			}
			if was, is := in[early].files, in[late].files; len(is) > len(was)+slack {
				t.Errorf("%d files are open, in round %d %d:\n%s", len(is), early, len(was), strings.Join(is, "\n"))
			}
			if was, is := in[early].goroutines, in[late].goroutines; is > was+slack {
				t.Errorf("%d goroutines, in round %d %d:\n%s", is, early, was, &in[late].stacks)
			}
			t.Logf("%d and %d files, %d and %d goroutines", len(in[early].files), len(in[late].files), in[early].goroutines, in[late].goroutines)
		})
	}
}

// A record that cannot be written is a warning, and leaves nothing behind.
func TestTimesNotWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rounds", "r1", crawl.TimesFile)
	must.OK(t, os.MkdirAll(file, 0o755))
	var said []string
	d := &Driver{opt: Options{Warn: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}}
	d.keepTimes(plan{crawl: dir}, "r1", "", []stats.Spent{{Command: "mfetch"}})
	left, err := os.ReadDir(filepath.Dir(file))
	if len(said) != 1 || !strings.Contains(said[0], file) || len(left) != 1 || err != nil {
		t.Errorf("%q, %v, %v", said, left, err)
	}
}
