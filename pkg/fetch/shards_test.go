package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
)

// crowd is a protocol module of hosts that are fast, that hang, that ask to be left alone or that close connections. It
// fails the test where two contacts with a host, or at an address, come too close.
type crowd struct {
	t    *testing.T
	mu   sync.Mutex
	n    map[string]int // contacts, by host
	host map[string]time.Time
	addr map[netip.Addr]time.Time

	several map[string]int // connections that hosts may have
	open    map[string]int // contacts under way
}

const (
	crowdGap     = time.Second
	crowdAddrGap = 500 * time.Millisecond
)

func (*crowd) Check(string) error { return nil }

func (w *crowd) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	w.mu.Lock()
	w.n[req.Host]++
	n := w.n[req.Host]
	early := func(what string, end time.Time, gap time.Duration) {
		if !end.IsZero() && time.Since(end) < gap {
			w.t.Errorf("%s asked for %v after the last contact with %s, want %v", req.URL, time.Since(end), what, gap)
		}
	}
	w.open[req.Host]++
	named := w.several[req.Host] > 1
	if most := max(1, w.several[req.Host]); w.open[req.Host] > most {
		w.t.Errorf("%s is asked for while %d contacts with the host are under way", req.URL, most)
	}
	if !named {
		early("the host", w.host[req.Host], crowdGap)
		early("the address", w.addr[req.Addr], crowdAddrGap)
		busy := time.Now().Add(time.Hour)
		w.host[req.Host], w.addr[req.Addr] = busy, busy
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.open[req.Host]--; !named {
			w.host[req.Host], w.addr[req.Addr] = time.Now(), time.Now()
		}
	}()
	took, raw := 20*time.Millisecond, page("x")
	switch kind := req.Host[0]; {
	case strings.HasSuffix(req.URL, "/robots.txt"):
		raw = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
		if kind == 'a' {
			raw = text("User-agent: *\nCrawl-delay: 7\n")
		}
	case kind == 'h' && n%5 == 2: // it hangs, and then does not
		took = 90 * time.Second
	case kind == 'b' && n%3 == 2:
		raw = "HTTP/1.1 429 Busy\r\nRetry-After: 13\r\nContent-Length: 0\r\n\r\n"
	case kind == 'c' && n%2 == 0:
		return &fetch.Reply{Outcome: record.OutcomeDisconnect, Error: "closed", Unreached: true}
	}
	sleep(ctx, took)
	return &fetch.Reply{Outcome: record.OutcomeFetched, Sent: []byte("GET " + req.URL + "\r\n\r\n"), Response: strings.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
}

// TestPolitenessOverShards: hosts go from shard to shard with each round, and shards are killed and run again. No host and no address is contacted too
// early, and no row says that a longer gap was demanded than there was.
func TestPolitenessOverShards(t *testing.T) {
	for _, kills := range []bool{false, true} {
		for _, seed := range []uint64{1, 6, 7, 14} {
			for _, several := range []map[string]int{nil, {"f0.test": 3, "h1.test": 2, "a2.test": 4, "b3.test": 3, "c4.test": 2}} {
				inBubble(t, fmt.Sprintf("kills %v, seed %d, several connections %v", kills, seed, several != nil), func(t *testing.T) { overShards(t, kills, several, rand.New(rand.NewPCG(seed, 3))) })
			}
		}
	}
}

func overShards(t *testing.T, kills bool, several map[string]int, rnd *rand.Rand) {
	const count, rounds = 3, 12
	dir := t.TempDir()
	m, err := shard.New(count)
	must.OK(t, err)
	data, err := m.Encode()
	must.OK(t, err, os.WriteFile(shard.File(dir, 1), data, 0o666), store.CreateCurrent(durable.OS, dir, 1))
	for n := range count {
		must.OK(t, fetch.CreateStore(shard.Dir(dir, n)+"/fetch", "", store.Options{}))
	}
	addrs := map[string][]string{}
	for i, kind := range "fhabcfhabc" {
		for range 1 + rnd.IntN(4) {
			host := fmt.Sprintf("%c%d.test", kind, i)
			addrs[host] = append(addrs[host], fmt.Sprintf("127.0.%d.%d", rnd.IntN(3), 1+rnd.IntN(6))) // some are shared
		}
	}
	w := &crowd{t: t, several: several, open: map[string]int{}, n: map[string]int{}, host: map[string]time.Time{}, addr: map[netip.Addr]time.Time{}}
	var all []record.Fetch
	waiting := map[string]bool{}
	for round := range rounds {
		txn := fmt.Sprintf("r%d", round)
		var batches [count][]record.URL
		for _, host := range slices.Sorted(maps.Keys(addrs)) {
			for i := range 2 {
				waiting[fmt.Sprintf("http://%s/%d/%d", host, round, i)] = true
			}
		}
		for _, u := range slices.Sorted(maps.Keys(waiting)) {
			row := url(u)
			list := addrs[row.Host]
			to := m.OfAddress(exchange.ContactOf(txn, row.Host, list))
			row.Addr = strings.Join(slices.DeleteFunc(slices.Clone(list), func(a string) bool { return m.OfAddress(a) != to }), ",")
			batches[to] = append(batches[to], row)
		}
		current := store.Current{Map: 1, Checkpoint: uint64(round + 1), Last: uint64(round + 1), Txn: txn, Stores: map[string]uint64{}}
		var shards sync.WaitGroup
		var mu sync.Mutex
		for n := range count {
			killed := 0
			if kills {
				killed = rnd.IntN(3)
			}
			half := rnd.IntN(len(batches[n]) + 1)
			shards.Go(func() {
				opt := options(open(t, filepath.Join(shard.Dir(dir, n), "fetch")), w)
				opt.Hosts = overHosts(several)
				opt.MinDelay, opt.MaxDelay, opt.AddrDelay, opt.Patience, opt.ContactTime = crowdGap, crowdGap, crowdAddrGap, true, 2*time.Minute
				for range killed {
					ctx, kill := context.WithCancel(t.Context())
					cut, came := opt, 0
					cut.OnRow = func(*record.Fetch) {
						if came++; came > half {
							kill()
						}
					}
					rows, err := try(t, ctx, cut, txn, batches[n])
					kill()
					if err == nil { // it had ended before
						mu.Lock()
						all = append(all, rows...)
						mu.Unlock()
						return
					}
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
				rows, err := try(t, t.Context(), opt, txn, batches[n])
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, rows...)
			})
		}
		shards.Wait()
		for n := range count {
			st := open(t, filepath.Join(shard.Dir(dir, n), "fetch"))
			counts, err := st.Current()
			must.OK(t, err)
			current.Stores[st.NameInCrawl()] = counts.Generation
		}
		must.OK(t, store.WriteCurrent(durable.OS, dir, current))
		for _, row := range all {
			if row.Role == record.RolePage && row.Outcome != record.OutcomeDeferred {
				delete(waiting, row.URL)
			}
		}
		time.Sleep(time.Duration(rnd.IntN(30)) * time.Second)
	}
	a := fetch.NewAuditor(fetch.AuditOptions{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: crowdGap}, Hosts: overHosts(several)}, AddrDelay: crowdAddrGap, Memory: 8 << 20, Worst: 3})
	defer a.Close()
	for i := range all {
		must.OK(t, a.Add(&all[i]))
	}
	got, err := a.Report(t.Context())
	must.OK(t, err)
	if got.Err() != nil || got.Hosts.Names != 10 || got.Hosts.Gaps < 100 {
		t.Errorf("audit %+v: %v", got, got.Err())
	}
}
