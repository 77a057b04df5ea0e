package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch"
	"mercator/pkg/frontier"
)

// What is at an address.
const (
	live     = "live"
	refusing = "refusing" // a connection
	silent_  = "silent"   // no answer to a connection
	closing  = "closing"  // a connection before it says anything
	badCert  = "bad certificate"
	mute     = "mute"  // accepts connections and requests, and says nothing
	guarded  = "guard" // may not be contacted
)

// town is hosts with any mix of addresses, and a protocol module that contacts them. It fails the test where one is contacted that is guarded, or too
// early.
type town struct {
	t         *testing.T
	addrDelay time.Duration
	minDelay  time.Duration

	mu     sync.Mutex
	kinds  map[netip.Addr]string
	tries  []netip.Addr
	ended  map[netip.Addr]time.Time // of the last try at an address,
	stood  map[string]time.Time     // and of the last connection to a host that stood
	beside string                   // the address of a host that has a page in each batch too; "": none
}

func (*town) Check(string) error { return nil }

func (w *town) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	w.mu.Lock()
	kind := w.kinds[req.Addr]
	w.tries = append(w.tries, req.Addr)
	if end, ok := w.ended[req.Addr]; ok && time.Since(end) < w.addrDelay {
		w.t.Errorf("%s tried %v after the last time, want %v", req.Addr, time.Since(end), w.addrDelay)
	}
	if end, ok := w.stood[req.Host]; ok && time.Since(end) < w.minDelay {
		w.t.Errorf("%s contacted %v after the last time, want %v", req.Host, time.Since(end), w.minDelay)
	}
	w.mu.Unlock()
	limits := fetch.Limits{}
	reply := &fetch.Reply{}
	stood := true
	switch kind {
	case live:
		time.Sleep(50 * time.Millisecond)
		raw := page("x")
		if strings.HasSuffix(req.URL, "/robots.txt") {
			raw = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
		}
		reply = &fetch.Reply{Outcome: record.OutcomeFetched, Response: strings.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
	case refusing:
		stood = false
		reply = fetch.Failed(fetch.Unconnected(errors.New("connection refused")))
	case silent_:
		stood = false
		sleep(ctx, limits.ConnectTime(ctx))
		reply = fetch.Failed(fetch.Unconnected(context.DeadlineExceeded))
	case closing:
		reply.Outcome, reply.Error, reply.Unreached, reply.Sent = record.OutcomeDisconnect, "closed", true, []byte("GET")
	case badCert:
		reply.Outcome, reply.Error, reply.Unreached = record.OutcomeTLS, "expired", true
	case mute:
		sleep(ctx, fetch.DefaultTimeout)
		reply.Outcome, reply.Error, reply.Sent = record.OutcomeTimeout, "no reply", []byte("GET")
	default:
		w.t.Errorf("%s was contacted, which is %q", req.Addr, kind)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[req.Addr] = time.Now()
	if stood {
		w.stood[req.Host] = time.Now()
	}
	return reply
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (w *town) guard(a netip.Addr) (string, error) {
	if w.kinds[a] == guarded {
		return "guarded", nil
	}
	return "", nil
}

// newTown gives a host an address of each kind.
func newTown(t *testing.T, kinds []string) (w *town, addrs []string) {
	w = &town{t: t, addrDelay: 500 * time.Millisecond, minDelay: time.Second, kinds: map[netip.Addr]string{}, ended: map[netip.Addr]time.Time{}, stood: map[string]time.Time{}}
	for i, kind := range kinds {
		a := netip.AddrFrom4([4]byte{127, 0, 1, byte(i)})
		if i%3 == 2 {
			a = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i)})
		}
		w.kinds[a] = kind
		addrs = append(addrs, a.String())
	}
	return w, addrs
}

// crawl runs batches until no URL is left, and returns how many, and the last row of each URL and what it was put off for before that. The order
// of addresses is another in each.
func (w *town) crawl(opt fetch.Options, urls []record.URL, addrs []string, rnd *rand.Rand, retries frontier.Retries) (batches int, last map[string]record.Fetch, deferred map[string]int) {
	last, deferred = map[string]record.Fetch{}, map[string]int{}
	due := map[string]time.Time{}
	for ; len(last) < len(urls); batches++ {
		if batches > 500 {
			w.t.Fatalf("the crawl does not end: %v deferred, %d URLs ended", deferred, len(last))
		}
		var batch []record.URL
		for _, u := range urls {
			if _, ended := last[u.URL]; !ended && !due[u.URL].After(time.Now()) {
				shuffled := slices.Clone(addrs)
				rnd.Shuffle(len(addrs), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				u.Addr = strings.Join(shuffled, ",")
				batch = append(batch, u)
			}
		}
		if len(batch) == 0 {
			time.Sleep(time.Second)
			batches--
			continue
		}
		if w.beside != "" {
			u := url(fmt.Sprintf("http://beside.test/%d", batches))
			u.Addr = w.beside
			batch = append(batch, u)
		}
		for _, row := range run(w.t, opt, fmt.Sprintf("r%d", batches), batch) {
			i := slices.IndexFunc(urls, func(u record.URL) bool { return u.URL == row.URL })
			switch {
			case row.Role != record.RolePage || i < 0:
			case row.Outcome == record.OutcomeDeferred || row.Outcome == record.OutcomeParked:
				deferred[row.URL]++
				if row.RetryAfter != 0 {
					due[row.URL] = row.RetryAfter.Go()
				}
			case retries.Final(&row):
				last[row.URL] = row
			default:
				urls[i].Attempt++
				due[row.URL] = time.Now().Add(retries.Delay << row.Attempt)
			}
		}
	}
	return batches, last, deferred
}

// TestAnyMixOfAddresses: whatever is at a host's addresses, in whatever order they come, a crawl ends: with the page, in the first attempt, if one
// of them is live, and else after the attempts that it may have, none of which is put off. Politeness holds.
func TestAnyMixOfAddresses(t *testing.T) {
	kinds := []string{refusing, silent_, closing, badCert, live, guarded, refusing, silent_}
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rnd.IntN(6)
		if seed%10 == 9 {
			n = 32
		}
		var mix []string
		for range n {
			mix = append(mix, kinds[rnd.IntN(len(kinds))])
		}
		obey := seed%2 == 0
		inBubble(t, fmt.Sprintf("%d: %s, robots %v", seed, strings.Join(mix, " "), obey), func(t *testing.T) {
			w, addrs := newTown(t, mix)
			opt := options(newStore(t), w)
			if opt.RefusedOK = true; !obey {
				opt.Robots = nil
			}
			opt.MinDelay, opt.MaxDelay, opt.AddrDelay, opt.Guard = w.minDelay, w.minDelay, w.addrDelay, w.guard
			retries := frontier.Retries{MaxAttempts: 1 + int(seed%3), Delay: time.Minute, MaxDelay: time.Hour}
			urls := []record.URL{url("http://h.test/0"), url("http://h.test/1")}
			allowed := slices.DeleteFunc(slices.Clone(mix), func(k string) bool { return k == guarded })
			if len(allowed) == 0 {
				got := outcomes(t, run(t, opt, "r0", []record.URL{{URL: urls[0].URL, Key: urls[0].Key, Host: urls[0].Host, Addr: strings.Join(addrs, ",")}}), urls[:1])
				if got[urls[0].URL] != record.OutcomeAddress {
					t.Errorf("%v, want %s", got, record.OutcomeAddress)
				}
				return
			}
			_, last, deferred := w.crawl(opt, urls, addrs, rnd, retries)
			if len(deferred) > 0 {
				t.Errorf("put off: %v", deferred)
			}
			for _, u := range urls {
				row := last[u.URL]
				attempts := int(row.Attempt) + 1
				onlyCerts := !slices.ContainsFunc(allowed, func(k string) bool { return k != badCert })
				switch {
				case slices.Contains(allowed, live):
					if row.Outcome != record.OutcomeFetched || attempts != 1 {
						t.Errorf("%s: %s in attempt %d", u.URL, row.Outcome, attempts)
					}
				case row.Outcome == record.OutcomeFetched, attempts != retries.MaxAttempts && !(onlyCerts && !obey):
					t.Errorf("%s: %s (%s) after %d attempts, want %d", u.URL, row.Outcome, row.Error, attempts, retries.MaxAttempts)
				}
			}
			if len(w.tries) > 2*retries.MaxAttempts*len(mix)+4 {
				t.Errorf("%d tries", len(w.tries))
			}
		})
	}
}

// TestAddressesDieAndLive: a live address is contacted first as long as it lives. When it dies another is found in the same
// visit; a dead one that lives is found by a later attempt.
func TestAddressesDieAndLive(t *testing.T) {
	inBubble(t, "crawl", func(t *testing.T) {
		w, addrs := newTown(t, []string{refusing, silent_, live, closing, refusing})
		opt := options(newStore(t), w)
		opt.MinDelay, opt.MaxDelay, opt.AddrDelay = w.minDelay, w.minDelay, w.addrDelay
		fetchOne := func(n, tries int, outcome string) {
			t.Helper()
			w.tries = nil
			u := url(fmt.Sprintf("http://h.test/%d", n))
			slices.Reverse(addrs)
			u.Addr = strings.Join(addrs, ",")
			if got := outcomes(t, run(t, opt, fmt.Sprintf("r%d", n), []record.URL{u}), []record.URL{u}); got[u.URL] != outcome || len(w.tries) != tries {
				t.Errorf("page %d: %s after tries at %v, want %s after %d", n, got[u.URL], w.tries, outcome, tries)
			}
		}
		fetchOne(1, 3, record.OutcomeFetched) // 127.0.1.4, then fd00::2 for robots.txt and for the page
		fetchOne(2, 1, record.OutcomeFetched)
		w.kinds[netip.MustParseAddr("fd00::2")] = refusing
		fetchOne(3, 5, record.OutcomeConnect)
		w.kinds[netip.MustParseAddr("127.0.1.1")] = live
		fetchOne(4, 3, record.OutcomeFetched) // fd00::2, 127.0.1.0, 127.0.1.1
		fetchOne(5, 1, record.OutcomeFetched)
	})
}

// TestACutVisitGoesOn: a batch that ends in the middle of a visit tries one address at least, and the next goes on behind it: dead addresses are given
// up, and a live one is found, after so many batches at most as there are addresses.
func TestACutVisitGoesOn(t *testing.T) {
	for _, c := range []struct {
		name    string
		mix     []string
		outcome string
	}{
		{"silent", []string{silent_, silent_, silent_, silent_}, record.OutcomeRobotsUnreachable},
		{"refusing among them", []string{silent_, refusing, silent_, refusing, silent_}, record.OutcomeRobotsUnreachable},
		{"live among them", []string{silent_, silent_, silent_, live, silent_, silent_}, record.OutcomeFetched},
		{"closing", []string{closing, closing, closing}, record.OutcomeRobotsUnreachable},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			w, addrs := newTown(t, c.mix)
			opt := options(newStore(t), w)
			opt.MinDelay, opt.MaxDelay, opt.AddrDelay = w.minDelay, w.minDelay, w.addrDelay
			opt.Deadline = time.Second / 2
			retries := frontier.Retries{MaxAttempts: 2, Delay: time.Minute, MaxDelay: time.Hour}
			batches, last, _ := w.crawl(opt, []record.URL{url("http://h.test/")}, addrs, rand.New(rand.NewPCG(1, 2)), retries)
			if row := last["http://h.test/"]; row.Outcome != c.outcome || batches > 2*len(c.mix)+2 {
				t.Errorf("%s after %d batches, want %s after %d at most", row.Outcome, batches, c.outcome, 2*len(c.mix)+2)
			}
		})
	}
}

// TestPatienceFindsTheLiveAddress: a batch that is not patient with a silent address goes on at the next in the batch after it.
func TestPatienceFindsTheLiveAddress(t *testing.T) {
	for _, mix := range [][]string{{silent_, live}, {mute, silent_, live}, {silent_, silent_}, {mute, mute}, {refusing, silent_}} {
		inBubble(t, strings.Join(mix, ", "), func(t *testing.T) {
			w, addrs := newTown(t, mix)
			opt := options(newStore(t), w)
			opt.MinDelay, opt.MaxDelay, opt.AddrDelay, opt.Patience = w.minDelay, w.minDelay, w.addrDelay, true
			retries := frontier.Retries{MaxAttempts: 1, Delay: time.Minute, MaxDelay: time.Hour}
			w.beside = "127.0.2.1"
			w.kinds[netip.MustParseAddr(w.beside)] = live
			batches, last, deferred := w.crawl(opt, []record.URL{url("http://h.test/")}, addrs, rand.New(rand.NewPCG(1, 2)), retries)
			row := last["http://h.test/"]
			if want := slices.Contains(mix, live); want != (row.Outcome == record.OutcomeFetched) || batches > 16 {
				t.Errorf("%s after %d batches, put off %v", row.Outcome, batches, deferred)
			}
		})
	}
}
