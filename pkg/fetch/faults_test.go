package fetch_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/http1"
	"mercator/pkg/folder/stage"
)

// faults are what a network does to the replies of one host, as fault-injecting
// proxies do it. This one is inside the process and on the test's clock, so that
// no load of the machine is taken for a fault.
type faults struct {
	latency time.Duration // before each reply
	rate    int           // bytes a second; 0: any
	slice   int           // bytes in one piece; 0: all
	cut     int           // a connection ends after less than so many bytes; 0: never
	reset   bool          // with a reset,
	stall   bool          // or in silence
}

// faulty is a network of faulty hosts, one an address.
type faulty struct {
	hosts map[string]*faults // by address and port
	rnd   map[string]*rand.Rand
	up    chan struct{} // closed when the network is repaired
}

func (f *faulty) dial(_ context.Context, _, addr string) (net.Conn, error) {
	near, far := net.Pipe()
	c := &faultyConn{Conn: near}
	e := *f.hosts[addr]
	select {
	case <-f.up:
		e = faults{}
	default:
	}
	left := 1 << 30
	if e.cut > 0 { // one connection at a time to a host
		left = f.rnd[addr].IntN(e.cut)
	}
	go func() {
		defer far.Close()
		in := bufio.NewReader(far)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			time.Sleep(e.latency)
			reply := page(faultyBody(req.Host + req.URL.Path))
			if req.URL.Path == "/robots.txt" {
				reply = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
			}
			for reply != "" {
				n := min(len(reply), left)
				if e.slice > 0 {
					n = min(n, e.slice)
				}
				if e.rate > 0 {
					time.Sleep(time.Duration(n) * time.Second / time.Duration(e.rate))
				}
				if n > 0 { // a write of nothing would be a read of nothing
					if _, err := io.WriteString(far, reply[:n]); err != nil {
						return
					}
				}
				reply, left = reply[n:], left-n
				if left > 0 {
					continue
				}
				if e.stall {
					_, _ = io.Copy(io.Discard, far) // until the client goes
				}
				c.reset.Store(e.reset)
				return
			}
		}
	}()
	return c, nil
}

type faultyConn struct {
	net.Conn
	reset atomic.Bool
}

func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == io.EOF && c.reset.Load() {
		err = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return n, err
}

func faultyBody(name string) string { return strings.Repeat("text of "+name+" ", 100) }

// TestFaultyNetwork: whatever the network does, the ledger balances, each URL has one
// row, what is called whole is whole, and what is not can be had when the network
// is well again.
func TestFaultyNetwork(t *testing.T) {
	const perHost = 30
	kinds := []struct {
		name string
		faults
		whole bool // all pages come through
	}{
		{"well", faults{}, true},
		{"far away", faults{latency: 2 * time.Second}, true},
		{"in slices", faults{slice: 7}, true},
		{"narrow", faults{rate: 1000, slice: 100}, true},
		{"too narrow", faults{rate: 50, slice: 10}, false},
		{"cut", faults{cut: 9000}, false},
		{"reset", faults{cut: 9000, reset: true}, false},
		{"stalled", faults{cut: 9000, stall: true}, false},
		{"all", faults{latency: time.Second, rate: 2000, slice: 99, cut: 9000, reset: true}, false},
	}
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{hosts: map[string]*faults{}, rnd: map[string]*rand.Rand{}, up: make(chan struct{})}
		var urls []record.URL
		for i := range kinds {
			addr := netip.AddrFrom4([4]byte{127, 0, 7, byte(1 + i)})
			f.hosts[addr.String()+":80"], f.rnd[addr.String()+":80"] = &kinds[i].faults, rand.New(rand.NewPCG(1, uint64(i)))
			for n := range perHost {
				u := url(fmt.Sprintf("http://h%d.test/%d", i, n))
				u.Addr = addr.String()
				urls = append(urls, u)
			}
		}
		opt := options(newStore(t), &http1.Client{UserAgent: "mercator", Limits: fetch.Limits{TempDir: t.TempDir(), Timeout: 10 * time.Second, Dial: f.dial,
			Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}})
		opt.MinDelay, opt.MaxDelay, opt.AddrDelay = 100*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
		again, whole := faultyRound(t, opt, "r1", urls)
		for i, k := range kinds {
			if n := whole[fmt.Sprintf("h%d.test", i)]; k.whole && n != perHost || !k.whole && n == perHost {
				t.Errorf("%s: %d of %d pages came whole", k.name, n, perHost)
			}
		}
		close(f.up)
		if again, _ = faultyRound(t, opt, "r2", again); len(again) != 0 {
			t.Errorf("%d URLs did not come through a network that is well", len(again))
		}
	})
}

// faultyRound fetches URLs with the body faultyBody. It returns those that did not
// come whole, and how many of each host did; the ledger balances, each URL has one row,
// what is called whole is whole, and a replay gives the same.
func faultyRound(t *testing.T, opt fetch.Options, txn string, urls []record.URL) (again []record.URL, whole map[string]int) {
	t.Helper()
	in := stream(t, txn, urls)
	opt.Txn, opt.Schema = txn, in.Schema()
	var out recordtest.Output
	done, err := stage.Run(t.Context(), stage.Spec{Name: "mfetch", Verb: "fetch", Store: opt.Store, Txn: txn}, in, []stage.Output{&out}, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
		return fetch.Run(ctx, b, opt)
	})
	must.OK(t, err)
	if err := done.Ledger.Balance(); err != nil {
		t.Error(err)
	}
	rows := readAll(t, &out)
	outcomes(t, rows, urls)
	sameRound(t, opt.Store, txn, urls, rows)
	byURL, whole := map[string]*record.Fetch{}, map[string]int{}
	for i := range rows {
		if rows[i].Role == record.RolePage {
			byURL[rows[i].URL] = &rows[i]
		}
	}
	for _, u := range urls {
		row := byURL[u.URL]
		if row.Outcome != record.OutcomeFetched || row.Truncated != "" {
			again = append(again, u)
			continue
		}
		whole[u.Host]++
		if want := faultyBody(strings.TrimPrefix(u.URL, "http://")); row.Status != 200 || row.BodyLength != int64(len(want)) || row.ContentFP != fingerprint.OfString(want) {
			t.Errorf("%s came as %+v", u.URL, row)
		}
	}
	return again, whole
}
