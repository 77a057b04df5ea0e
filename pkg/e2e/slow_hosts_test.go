package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

// chainHost serves pages that each link to the next, and notes when it was asked.
type chainHost struct {
	pages int
	mu    sync.Mutex
	asked []time.Time
	whole chan struct{} // closed when the last page was asked for
}

func (c *chainHost) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c.mu.Lock()
	c.asked = append(c.asked, time.Now())
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

// slowHost answers as such hosts do that hold others up.
func slowHost(kind string, answered *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		robots := req.URL.Path == "/robots.txt"
		switch {
		case kind == "silent", kind == "robots" && robots:
			<-req.Context().Done()
		case robots:
			fmt.Fprint(w, "User-agent: *\nCrawl-delay: 20\n")
		default:
			answered.Add(1)
			w.Header().Set("Content-Type", "text/html")
			for i := range 40 {
				fmt.Fprintf(w, `<a href="/%d">%[1]d</a>`, i)
			}
		}
	})
}

// TestSlowHosts: slow hosts, silent ones and one with a robots.txt that hangs do not keep another from its end: its chain of pages is whole while
// they have much left. The long form asks for 95 % of what politeness allows, a page a second, and for less on a busy machine: it
// crawls the same chain beside nothing at the same time, and beside slow hosts, where rounds are shorter and more, three times the loss is allowed.
func TestSlowHosts(t *testing.T) {
	t.Parallel()
	chains := []int{12, 60} // of the long form
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
			if !long {
				beside := beginChain(t, 70+i, 6, c.kind, c.n)
				if whole, _ := beside.end(t); !whole {
					t.Errorf("the chain of %d pages beside %s is not whole\n%s", beside.good.pages, c.name, tail(beside.out.Bytes()))
				}
				if n := beside.answered.Load(); int(n) > 20*c.n {
					t.Errorf("%d slow hosts answered %d times before the chain was whole, want at most half of their pages", c.n, n)
				}
				return
			}
			measure := func(pages int) (whole bool, share, want float64) {
				want = 0.4
				beside := beginChain(t, 70+i, pages, c.kind, c.n)
				if c.n > 0 {
					whole, alone := beginChain(t, 80+i, pages, "", 0).end(t)
					if !whole {
						beside.end(t)
						return false, 0, want
					}
					want = max(want, 1/(1/0.95+3*(1/alone-1)))
				}
				whole, share = beside.end(t)
				return whole, share, want
			}
			for _, pages := range chains {
				whole, share, want := measure(pages)
				if whole && share < want { // once more: a disturbance of the machine does not come twice
					whole, share, want = measure(pages)
				}
				if !whole || share < want {
					t.Errorf("chain of %d pages beside %s: whole: %v, %.0f %% of what politeness allows, want %.0f %% or more", pages, c.name, whole, 100*share, 100*want)
				}
			}
		})
	}
}

// chainCrawl is a crawl of a chain of pages on one host beside slow hosts.
type chainCrawl struct {
	good     *chainHost
	slow     int
	answered *atomic.Int64 // replies of the slow hosts, without robots.txt
	cmd      *exec.Cmd
	out      bytes.Buffer
	stop     <-chan time.Time // to wait for the chain
}

// beginChain begins one beside slow hosts of a kind, on addresses in 127.0.SUBNET.
func beginChain(t *testing.T, subnet, pages int, kind string, slow int) *chainCrawl {
	t.Helper()
	c := &chainCrawl{good: &chainHost{pages: pages, whole: make(chan struct{})}, slow: slow, answered: new(atomic.Int64), stop: time.After(10*time.Duration(pages)*time.Second + 5*time.Minute)}
	seeds := []string{"http://" + listen(t, fmt.Sprintf("127.0.%d.1", subnet), c.good) + "/1"}
	for k := range slow {
		seeds = append(seeds, "http://"+listen(t, fmt.Sprintf("127.0.%d.%d", subnet, k+2), slowHost(kind, c.answered))+"/")
	}
	file := filepath.Join(t.TempDir(), "seeds.txt")
	must.OK(t, os.WriteFile(file, []byte(strings.Join(seeds, "\n")+"\n"), 0o666))
	politeness := "POLITENESS_FLAGS="
	if !long {
		politeness += "--min-delay 50ms --delay-factor 0 --addr-delay 0"
	}
	c.cmd = newCrawl(t, &web{seeds: file}).command(t, "mcrawl", politeness, "RESOLVE_FLAGS=", "FETCH_FLAGS=--allow-net 127.0.0.0/8")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	must.OK(t, c.cmd.Start())
	return c
}

// end waits for the chain. It reports whether all pages were asked for, and which share of the speed that politeness allows was reached.
func (c *chainCrawl) end(t *testing.T) (whole bool, share float64) {
	t.Helper()
	select {
	case <-c.good.whole:
	case <-c.stop:
	}
	syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // slow hosts would take long
	c.cmd.Wait()
	c.good.mu.Lock()
	defer c.good.mu.Unlock()
	asked, n := c.good.asked, len(c.good.asked)
	if n == 0 {
		t.Errorf("no request to the good host\n%s", tail(c.out.Bytes()))
		return false, 0
	}
	took := asked[n-1].Sub(asked[0]).Seconds()
	for i := range n - 1 {
		if gap := asked[i+1].Sub(asked[i]); gap > 1500*time.Millisecond {
			t.Logf("request %d, at %.1f s: %.1f s after the one before", i+1, asked[i+1].Sub(asked[0]).Seconds(), gap.Seconds())
		}
	}
	whole, share = n > c.good.pages, float64(n-1)/took
	t.Logf("chain of %d pages beside %d slow hosts: %d requests in %.1f s, %.0f %% of what politeness allows\n%s", c.good.pages, c.slow, n, took, 100*share, tail(c.out.Bytes()))
	return whole, share
}

// listen serves on an address of its own until the test ends, and returns it with its port.
func listen(t *testing.T, addr string, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", addr+":0")
	must.OK(t, err)
	s := &http.Server{Handler: h}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}
