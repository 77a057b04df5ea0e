package fetch_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/shard"
)

// hosts is a resolver of these names.
type hosts map[string]string

func (h hosts) Resolve(_ context.Context, name string) ([]netip.Addr, time.Time, string) {
	return []netip.Addr{netip.MustParseAddr(h[name])}, time.Now().Add(time.Hour), ""
}

// TestRobotsAtAnotherShard: robots.txt of hosts of two shards redirect to a host of a third. It is asked for by one shard at a time, while the owner
// of the host and of its address leaves both alone, and the gaps are kept over all shards.
func TestRobotsAtAnotherShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 3
		dir := t.TempDir()
		m, err := shard.New(count)
		must.OK(t, err)
		data, err := m.Encode()
		must.OK(t, err, os.WriteFile(shard.File(dir, 1), data, 0o666), store.CreateCurrent(durable.OS, dir, 1))
		resolver := hosts{}
		var addrs [count]string // one of each shard
		for i := 1; addrs[0] == "" || addrs[1] == "" || addrs[2] == ""; i++ {
			addr := fmt.Sprintf("127.0.0.%d", i)
			if n := m.OfAddress(addr); addrs[n] == "" {
				addrs[n] = addr
			}
		}
		for n := range count {
			must.OK(t, fetch.CreateStore(shard.Dir(dir, n)+"/fetch", "", store.Options{}))
			resolver[fmt.Sprintf("h%d.test", n)] = addrs[n]
		}
		resolver["beside.test"] = addrs[2]
		moved := "HTTP/1.1 301 Moved\r\nLocation: http://h2.test/robots.txt\r\nContent-Length: 0\r\n\r\n"
		replies := map[string]string{"http://h0.test/robots.txt": moved, "http://h1.test/robots.txt": moved, "http://h2.test/robots.txt": text("User-agent: *\nDisallow: /no")}
		pages := [count][]string{{"http://h0.test/", "http://h0.test/no"}, {"http://h1.test/"}, {"http://h2.test/0", "http://beside.test/"}}
		left := map[string]string{} // what became of each page
		var mu sync.Mutex           // guards left, and
		var at time.Time            // the last contact at the address of shard 2
		for round := 1; round <= 4; round++ {
			txn := fmt.Sprintf("r%d", round)
			current := store.Current{Map: 1, Checkpoint: uint64(round), Last: uint64(round), Txn: txn, Stores: map[string]uint64{}}
			var webs [count]*web
			var all sync.WaitGroup
			for n := range count {
				if n == 2 {
					pages[n] = append(pages[n], fmt.Sprintf("http://h2.test/%d", round))
				}
				var urls []record.URL
				for _, u := range pages[n] {
					row := url(u)
					row.Addr = resolver[row.Host]
					if left[u] == "" || left[u] == record.OutcomeDeferred {
						urls = append(urls, row)
					}
				}
				webs[n] = &web{replies: replies, delay: 50 * time.Millisecond, onFetch: func(u string) {
					mu.Lock()
					defer mu.Unlock()
					if host := strings.Split(u, "/")[2]; resolver[host] == addrs[2] {
						if gap := time.Since(at); gap < time.Second {
							t.Errorf("round %d: shard %d asked for %s %v after the last contact at the address", round, n, u, gap)
						}
						at = time.Now().Add(50 * time.Millisecond)
					}
				}}
				opt := options(open(t, shard.Dir(dir, n)+"/fetch"), webs[n])
				opt.Resolver, opt.MinDelay, opt.AddrDelay = resolver, time.Second, time.Second
				all.Go(func() {
					rows, _, err := attempt(t, opt, txn, urls)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					for u, outcome := range outcomes(t, rows, urls) {
						left[u] = outcome
					}
				})
			}
			all.Wait()
			for n := range count {
				st := open(t, shard.Dir(dir, n)+"/fetch")
				counts, err := st.Current()
				must.OK(t, err)
				current.Stores[st.NameInCrawl()] = counts.Generation
			}
			must.OK(t, store.WriteCurrent(durable.OS, dir, current))
			for n, w := range webs {
				asked := strings.Contains(strings.Join(w.log, " "), "//h2.test/") || strings.Contains(strings.Join(w.log, " "), "//beside.test/")
				if want := [...]int{2, 0, 1, 2}[round-1]; asked != (n == want) {
					t.Errorf("round %d, shard %d asked for %q", round, n, w.log)
				}
			}
		}
		for u, want := range map[string]string{"http://h0.test/": record.OutcomeFetched, "http://h0.test/no": record.OutcomeRobotsDenied, "http://h1.test/": record.OutcomeFetched} {
			if left[u] != want {
				t.Errorf("%s: %s, want %s", u, left[u], want)
			}
		}
		for u, outcome := range left {
			if outcome == record.OutcomeDeferred {
				t.Errorf("%s is put off still", u)
			}
		}
	})
}
