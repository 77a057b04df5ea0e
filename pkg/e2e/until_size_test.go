package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestUntilSize: a site of 8 MB that one round could fetch ends soon after the 2 MB that a person asked for, and goes on afterwards.
func TestUntilSize(t *testing.T) {
	t.Parallel()
	const pages, size = 40, 200 << 10
	listeners, port := listenOn(t, 1)
	var served atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			http.NotFound(w, r)
		case "/":
			w.Header().Set("Content-Type", "text/html")
			for n := range pages {
				fmt.Fprintf(w, "<img src=/%d.png>", n)
			}
		default:
			served.Add(1)
			noise := make([]byte, size)
			var seed [32]byte
			copy(seed[:], r.URL.Path)
			rand.NewChaCha8(seed).Read(noise)
			w.Header().Set("Content-Type", "image/png")
			w.Write(noise)
		}
	})}
	t.Cleanup(func() { server.Close() })
	go server.Serve(listeners[0])
	dir := filepath.Join(t.TempDir(), "crawl")
	site := []string{"site", fmt.Sprintf("http://127.0.0.1:%d/", port), "--into", dir, "--set", "network.allow_net=127.0.0.0/8", "--set", "politeness.min_delay=0s", "--set", "politeness.addr_delay=0s", "--set", "politeness.delay_factor=0"}
	if out := output(t, "mcrawl", append(site, "--until-size", "2M")...); !strings.Contains(out, "MB of WARC files\n") {
		t.Errorf("it does not say why it stopped:\n%s", out)
	}
	if n := served.Load(); n < 10 || n > 20 {
		t.Errorf("%d pictures of 200 KiB, want about 10", n)
	}
	output(t, "mcrawl", "run", dir)
	if n := served.Load(); n != pages {
		t.Errorf("%d pictures in the end, want %d", n, pages)
	}
}
