package driver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/must"
	"mercator/pkg/config"
	"mercator/pkg/driver/setup"
	"mercator/pkg/driver/tell"
	"mercator/pkg/frontier"
)

// TestSiteGoesAway: a server that goes away in mid-crawl, and comes back after some rounds, loses no page, and costs none an attempt.
func TestSiteGoesAway(t *testing.T) {
	for _, shards := range []int{0, 2} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			const pages, served = 12, 4
			gone := make(chan struct{})
			var server *http.Server
			var n atomic.Int64
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Connection", "close")
				w.Header().Set("Content-Type", "text/html")
				for i := range pages {
					fmt.Fprintf(w, "<a href=/p%d>p</a>", i)
				}
				if n.Add(1) == served {
					_ = http.NewResponseController(w).Flush()
					_ = server.Close()
					close(gone)
				}
			})
			listen := func(addr string) string {
				l, err := net.Listen("tcp", addr)
				must.OK(t, err)
				server = &http.Server{Handler: handler}
				go func() { _ = server.Serve(l) }()
				return l.Addr().String()
			}
			addr := listen("127.0.0.1:0")
			dir := filepath.Join(t.TempDir(), "crawl")
			spec := setup.Spec{In: strings.NewReader(""), URLs: []string{"http://" + addr + "/p0"}, Shards: shards, Set: []config.Pair{
				{Key: "fetch.contact", Value: "test@example.org"}, {Key: "network.allow_net", Value: "127.0.0.0/8"}, {Key: "politeness.min_delay", Value: "0s"},
				{Key: "politeness.delay_factor", Value: "0"}, {Key: "politeness.addr_delay", Value: "0s"}, {Key: "frontier.retry_delay", Value: "50ms"}, {Key: "frontier.max_attempts", Value: "2"}}}
			if _, err := setup.Make(t.Context(), dir, spec, t.Logf); err != nil {
				t.Fatal(err)
			}
			checkpoint := func() uint64 {
				now, err := store.ReadCurrent(durable.OS, dir)
				if err != nil {
					t.Error(err)
				}
				return now.Checkpoint
			}
			var lock sync.Mutex // shards ask, and so does the status line
			before := uint64(0) // the checkpoint as the server went
			back := sync.OnceFunc(func() { listen(addr) })
			now := func() time.Time { // the driver asks in each round
				lock.Lock()
				defer lock.Unlock()
				select {
				case <-gone:
					if before == 0 {
						before = checkpoint()
					} else if checkpoint() >= before+4 { // a page that failed twice would be lost
						back()
					}
				default:
				}
				return time.Now()
			}
			d, err := Open(dir, Options{Now: now, Warn: t.Logf, Reporter: &tell.Reporter{Out: io.Discard, Err: io.Discard}})
			must.OK(t, err)
			must.OK(t, d.Run(t.Context()))
			_ = server.Close()
			all, err := frontier.OpenShards(dir)
			must.OK(t, err)
			st, err := all.Stat(t.Context(), frontier.StatOptions{})
			must.OK(t, err)
			if want := []record.Count{{Reason: record.OutcomeFetched, N: pages}}; fmt.Sprint(st.Outcomes) != fmt.Sprint(want) {
				t.Errorf("%v, want %v", st.Outcomes, want)
			}
		})
	}
}
