package pipelines

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// chainHost serves pages of which each links to the next, and notes when it was asked.
type chainHost struct {
	pages  int
	mu     sync.Mutex
	asked  []time.Time
	waited []time.Duration // what stalled says at each of them
	whole  chan struct{}   // closed when the last page was asked for
}

func (c *chainHost) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c.mu.Lock()
	c.asked, c.waited = append(c.asked, time.Now()), append(c.waited, stalled())
	c.mu.Unlock()
	n := 0
	if _, err := fmt.Sscanf(req.URL.Path, "/%d", &n); err != nil {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<p>page %d", n)
	if n < c.pages {
		fmt.Fprintf(w, `<a href="/%d">next</a>`, n+1)
		return
	}
	close(c.whole)
}

// stalled is for how long, since the machine was started, some process waited for a processor; 0 where the kernel does not count that.
func stalled() time.Duration {
	b, _ := os.ReadFile("/proc/pressure/cpu")
	line, _, _ := strings.Cut(string(b), "\n")
	_, total, _ := strings.Cut(line, "total=")
	us, _ := strconv.ParseInt(total, 10, 64)
	return time.Duration(us) * time.Microsecond
}

// slowHost answers as such hosts do that hold others up.
func slowHost(kind string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		robots := req.URL.Path == "/robots.txt"
		switch {
		case kind == "silent", kind == "robots" && robots:
			<-req.Context().Done()
		case robots:
			fmt.Fprint(w, "User-agent: *\nCrawl-delay: 20\n")
		default:
			w.Header().Set("Content-Type", "text/html")
			for i := range 40 {
				fmt.Fprintf(w, `<a href="/%d">%[1]d</a>`, i)
			}
		}
	})
}

// TestSlowHosts: slow hosts, silent ones and one whose robots.txt hangs do not keep another from
// what politeness allows it: a page a second. The long form, which "make test-long" runs alone, takes off
// the time for which processes waited for a processor, as far as a page came later for it; it needs a machine that has little of that.
func TestSlowHosts(t *testing.T) {
	t.Parallel()
	chains, least := []int{6}, 0.4 // a machine that is busy with other tests has slow rounds
	if long {
		chains, least = []int{12, 60}, 0.95
	}
	for i, c := range []struct {
		name, kind string
		n          int
	}{
		{"nothing", "", 0},
		{"one host of Crawl-delay 20 and 40 links", "delay", 1},
		{"ten such hosts", "delay", 10},
		{"five hosts that never answer", "silent", 5},
		{"a host whose robots.txt hangs", "robots", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, pages := range chains {
				whole, share, busy := chainBeside(t, 70+i, pages, c.kind, c.n)
				if whole && share < least && busy > 0.2 {
					t.Skipf("processes waited for a processor %.0f %% of the time: this says nothing of a machine at rest", 100*busy)
				}
				if !whole || share < least {
					t.Errorf("chain of %d pages beside %s: whole: %v, %.0f %% of what politeness allows, want %.0f %% or more", pages, c.name, whole, 100*share, 100*least)
				}
			}
		})
	}
}

// chainBeside crawls a chain of pages on one host beside slow hosts of a kind, on addresses in 127.0.SUBNET. It says whether
// all pages were asked for, which part that was of the speed that politeness allows, and for which part of the time processes waited.
func chainBeside(t *testing.T, subnet, pages int, kind string, slow int) (whole bool, share, busy float64) {
	t.Helper()
	good := &chainHost{pages: pages, whole: make(chan struct{})}
	seeds := []string{"http://" + listen(t, fmt.Sprintf("127.0.%d.1", subnet), good) + "/1"}
	for k := range slow {
		seeds = append(seeds, "http://"+listen(t, fmt.Sprintf("127.0.%d.%d", subnet, k+2), slowHost(kind))+"/")
	}
	file := filepath.Join(t.TempDir(), "seeds.txt")
	if err := os.WriteFile(file, []byte(strings.Join(seeds, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Duration(pages)*time.Second+30*time.Second)
	defer stop()
	crawl := newCrawl(t, &web{seeds: file})
	cmd := crawl.command(t, "mcrawl", "POLITENESS_FLAGS=", "RESOLVE_FLAGS=", "FETCH_FLAGS=--allow-net 127.0.0.0/8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-good.whole:
	case <-ctx.Done():
	}
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // slow hosts would take long
	cmd.Wait()
	good.mu.Lock()
	n := len(good.asked)
	if n == 0 {
		t.Fatalf("no request to the good host\n%s", tail(out.Bytes()))
	}
	took, disturbed := 0.0, 0.0
	for i := range n - 1 {
		gap := good.asked[i+1].Sub(good.asked[i])
		took += gap.Seconds()
		if long && gap > time.Second {
			disturbed += min(gap-time.Second, good.waited[i+1]-good.waited[i]).Seconds()
		}
	}
	busy = (good.waited[n-1] - good.waited[0]).Seconds() / took
	took -= disturbed
	good.mu.Unlock()
	whole, share = n > pages, float64(n-1)/took
	for i := range n - 1 {
		if gap := good.asked[i+1].Sub(good.asked[i]); gap > 1500*time.Millisecond {
			t.Logf("request %d, at %.1f s: %.1f s after the one before", i+1, good.asked[i+1].Sub(good.asked[0]).Seconds(), gap.Seconds())
		}
	}
	t.Logf("chain of %d pages beside %d slow hosts: %d requests in %.1f s, without %.1f s for which processes waited (%.0f %% of all), %.0f %% of what politeness allows\n%s", pages, slow, n, took, disturbed, 100*busy, 100*share, tail(out.Bytes()))
	return whole, share, busy
}

// listen serves on an address of its own until the test ends, and returns it with its port.
func listen(t *testing.T, addr string, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", addr+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}
