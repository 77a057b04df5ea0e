package fetch

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
	"mercator/pkg/folder/stage"
	"mercator/pkg/frontier"
)

// TestPolitenessOfACrawl crawls on a simulated clock: batches of a real frontier,
// by time, served by the scheduler, until so many contacts were made. No host and no address
// is early, by a witness of its own; and the connections are busy for 95 % of the time in which
// at least three hosts for each are due, whether their URLs are in the batch or still in the
// frontier: so the ends of batches count. MERCATOR_LONG takes 10^5 hosts and 10^7 contacts
// (22 minutes on two busy cores) instead of 2,000 and 25,000.
func TestPolitenessOfACrawl(t *testing.T) {
	c := crawl{hosts: 2000, contacts: 25_000, connections: 32, span: 2 * time.Minute}
	if os.Getenv("MERCATOR_LONG") != "" {
		c = crawl{hosts: 100_000, contacts: 10_000_000, connections: 256, span: 10 * time.Minute}
	}
	c.run(t)
	share := float64(c.busy) / float64(c.possible)
	t.Logf("%d contacts with %d hosts in %d rounds and %v; %v with enough hosts due, connections %.2f %% busy",
		c.made, c.hosts, c.rounds, time.Duration(c.now)*time.Microsecond, time.Duration(c.possible/micros(c.connections))*time.Microsecond, 100*share)
	if share < 0.95 || c.possible < c.now*micros(c.connections)/2 {
		t.Errorf("connections are %.1f %% busy in %.0f %% of the time, want 95 in half of it", 100*share, 100*float64(c.possible)/float64(c.now)/float64(c.connections))
	}
}

// crawl is a crawl of hosts that exist on a simulated clock only.
type crawl struct {
	hosts, contacts, connections int
	span                         time.Duration // of a batch

	rng    *rand.Rand
	list   []site
	urls   int // that the frontier was given
	made   int // contacts
	rounds int
	r      *runner
	s      *scheduler

	now            micros
	wakes          wakeHeap // when a host may be contacted again
	due            int      // hosts that have URLs and might be contacted now
	flying         flights
	busy, possible micros // of connections, while enough hosts are due
	addrs          []micros
}

// site is a host.
type site struct {
	name    string
	mean    float64 // mean duration of the host's contacts, µs
	asked   micros  // Crawl-delay
	pending int     // URLs that were not contacted yet
	next    micros  // from then on it may be
	busy    bool
	known   bool    // the host's robots.txt was fetched
	batch   []int32 // the host's URLs in the batch
}

// visit is what became of a URL, or of robots.txt: -1.
type visit struct {
	host, url      int32
	at, took, idle micros
}

type flights []flight

type flight struct {
	end   micros
	visit visit
	h     *host
}

func (f flights) Len() int           { return len(f) }
func (f flights) Less(i, j int) bool { return f[i].end < f[j].end }
func (f flights) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)        { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	x := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return x
}

type wake struct {
	at   micros
	host int32
}

type wakeHeap []wake

func (h wakeHeap) Len() int           { return len(h) }
func (h wakeHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h wakeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *wakeHeap) Push(x any)        { *h = append(*h, x.(wake)) }
func (h *wakeHeap) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

const began = micros(1_700_000_000_000_000) // of the simulated clock

func (c *crawl) run(t *testing.T) {
	c.rng = rand.New(rand.NewPCG(1, 1))
	c.addrs = make([]micros, c.hosts/2+1)
	for i := range c.hosts {
		// Log-normal around 0.2 s, at most 3 s: some hosts are ten times as slow as others.
		s := site{name: fmt.Sprintf("h%d.test", i), mean: math.Min(200_000*math.Exp(c.rng.NormFloat64()), 3_000_000)}
		if i%50 == 7 {
			s.asked = 5_000_000
		}
		c.list = append(c.list, s)
	}
	p := frontier.Politeness{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: time.Second, DelayFactor: 10, MaxDelay: 30 * time.Second}}, AddrDelay: time.Second / 2, Connections: c.connections, Duration: time.Second / 2}
	c.r = &runner{opt: Options{Pace: Pace{Policy: p.Policy, AddrDelay: p.AddrDelay}, Bounds: Bounds{BackQueues: 1 << 16}}}
	c.s = newScheduler(us(p.AddrDelay))
	c.s.policy = &c.r.opt.Policy
	dir := filepath.Join(t.TempDir(), "frontier")
	must.OK(t, frontier.Create(dir, frontier.Params{}, store.Options{}))
	f, err := frontier.Open(dir, store.Options{})
	must.OK(t, err)
	zipf := rand.NewZipf(c.rng, 1.1, 1, uint64(c.hosts-1))
	add := stage.Spec{Name: "mfrontier add", Verb: "add", Store: f.Store(), Shape: stage.Sink}
	_, err = stage.Run(t.Context(), add, c.fresh("", 3*c.hosts, zipf), nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return f.Add(ctx, b, frontier.AddOptions{})
	})
	must.OK(t, err)
	for c.made < c.contacts && !t.Failed() {
		c.rounds++
		txn := fmt.Sprint("r", c.rounds)
		var out recordtest.Output
		next := stage.Spec{Name: "mfrontier next", Verb: "next", Store: f.Store(), Txn: txn, Now: record.Time(began + c.now), Shape: stage.Source}
		_, err := stage.Run(t.Context(), next, nil, []stage.Output{&out}, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
			return f.Next(ctx, b, frontier.NextOptions{For: c.span, Politeness: p, Txn: txn})
		})
		must.OK(t, err)
		visits := c.serve(t, &out)
		in := c.fresh(txn, 2*len(visits), zipf)
		update := stage.Spec{Name: "mfrontier update", Verb: "update", Store: f.Store(), Txn: txn, Shape: stage.Sink}
		_, err = stage.Run(t.Context(), update, in, nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
			return f.Update(ctx, b, frontier.UpdateOptions{Txn: txn, Retries: frontier.DefaultRetries, Outcomes: func() (stage.Input[record.Fetch], error) {
				return &made[record.Fetch]{kind: record.KindFetch, txn: txn, n: len(visits), row: func(i int, row *record.Fetch) { c.outcome(&visits[i], row) }}, nil
			}})
		})
		must.OK(t, err)
	}
}

// url is a host's URL of that number.
func (c *crawl) url(host, number int32) string {
	return fmt.Sprintf("http://%s/%d", c.list[host].name, number)
}

// fresh are n new URLs: a third of them of few hosts, by Zipf's law, the others of all in turn.
func (c *crawl) fresh(txn string, n int, zipf *rand.Zipf) stage.Input[record.URL] {
	return &made[record.URL]{kind: record.KindURL, txn: txn, n: n, row: func(_ int, row *record.URL) {
		h := int32(c.urls % c.hosts)
		if c.urls%3 == 2 {
			h = int32(zipf.Uint64())
		}
		u := c.url(h, int32(c.urls))
		*row = record.URL{URL: u, Host: c.list[h].name, Key: fingerprint.URLKey(c.list[h].name, u), Priority: uint8(c.urls % 3)}
		c.urls++
		if c.list[h].pending++; c.list[h].pending == 1 && !c.list[h].busy && c.list[h].next <= c.now {
			c.due++
		}
	}}
}

func (c *crawl) outcome(v *visit, row *record.Fetch) {
	*row = record.Fetch{
		URL: c.url(v.host, v.url), Host: c.list[v.host].name, Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, Addr: c.addr(v.host).String(),
		FetchTime: record.Time(began + v.at), DurationUS: v.took, RequiredDelayUS: v.idle,
	}
	if v.url < 0 {
		row.URL, row.Role = "http://"+row.Host+"/robots.txt", record.RoleRobots
	}
}

// addr is the address of a host; two share one.
func (c *crawl) addr(host int32) netip.Addr {
	n := host / 2
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// serve fetches a batch as mfetch would.
func (c *crawl) serve(t *testing.T, batch io.Reader) (visits []visit) {
	in, err := record.NewReader[record.URL](batch, record.ReaderOptions{Name: "batch"})
	must.OK(t, err)
	var row record.URL
	var waits, ended bool // row waits for room; there are no more
	number := map[*host]int32{}
	for pos := int64(0); ; {
		for !ended {
			if !waits {
				if err := in.Read(&row); err == io.EOF {
					ended = true
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if waits = c.s.hosts[row.Host] == nil && len(c.s.hosts) >= c.r.opt.BackQueues; waits {
				break
			}
			var host, url int32
			fmt.Sscanf(row.URL, "http://h%d.test/%d", &host, &url)
			h := c.s.host(c.list[host].name, c.now)
			if number[h] = host; h.queue.n == 0 {
				h.queue.head = pos
			}
			h.queue.n++
			h.addr = c.addr(host)
			// The place of a host's second URL is known when the first has gone.
			c.list[host].batch = append(c.list[host].batch, url, int32(pos))
			pos++
			c.s.schedule(h, c.now)
		}
		for len(c.flying) < c.connections {
			h, _ := c.s.takeHost(c.now)
			if h == nil {
				break
			}
			c.start(t, h, number[h])
		}
		if len(c.flying) == 0 && ended && len(c.s.hosts) == 0 {
			return visits
		}
		to := micros(math.MaxInt64)
		if len(c.flying) > 0 {
			to = c.flying[0].end
		}
		if len(c.flying) < c.connections {
			if h, wait := c.s.takeHost(c.now); h != nil {
				t.Fatal("a host is due and was not given before")
			} else if wait >= 0 {
				to = min(to, c.now+wait)
			}
		}
		if to == math.MaxInt64 {
			t.Fatalf("nothing flies, nothing is due, and %d hosts are left", len(c.s.hosts))
		}
		c.pass(to)
		for len(c.flying) > 0 && c.flying[0].end <= c.now {
			f := heap.Pop(&c.flying).(flight)
			visits = append(visits, f.visit)
			c.end(&f)
		}
	}
}

// start begins the host's next contact.
func (c *crawl) start(t *testing.T, h *host, host int32) {
	s := &c.list[host]
	if s.busy || c.now < s.next || c.now < c.addrs[host/2] {
		t.Fatalf("%s is contacted at %d: busy %v, from %d on, its address from %d on", h.name, c.now, s.busy, s.next, c.addrs[host/2])
	}
	h.crawlDelay = s.asked
	v := visit{host: host, url: -1, at: c.now, took: micros(s.mean * (0.5 + c.rng.Float64())), idle: h.required}
	if s.known {
		v.url = s.batch[0]
		s.batch = s.batch[2:]
		s.pending--
		if h.queue.n--; h.queue.n > 0 {
			h.queue.head = int64(s.batch[1])
		}
	}
	s.known, s.busy = true, true
	c.addrs[host/2] = math.MaxInt64
	c.due--
	c.made++
	heap.Push(&c.flying, flight{c.now + v.took, v, h})
}

// end ends a contact.
func (c *crawl) end(f *flight) {
	s := &c.list[f.visit.host]
	gap, _ := c.r.gap(f.h.polite, &record.Fetch{DurationUS: f.visit.took, Status: 200}, s.asked, 0)
	// By the rules, told again: ten times the contact, 1 s at least and 30 at most, and what was asked for.
	s.busy, s.next = false, c.now+max(min(max(10*f.visit.took, 1_000_000), 30_000_000), s.asked)
	c.addrs[f.visit.host/2] = c.now + 500_000
	heap.Push(&c.wakes, wake{s.next, f.visit.host})
	c.s.release(f.h, c.now, true, gap)
}

// pass lets the clock go on, and sums up how busy the connections are.
func (c *crawl) pass(to micros) {
	for c.now < to {
		until := to
		if len(c.wakes) > 0 {
			until = min(until, c.wakes[0].at)
		}
		if c.due >= 3*c.connections {
			c.possible += (until - c.now) * micros(c.connections)
			c.busy += (until - c.now) * micros(len(c.flying))
		}
		c.now = until
		for len(c.wakes) > 0 && c.wakes[0].at <= c.now {
			w := heap.Pop(&c.wakes).(wake)
			if s := &c.list[w.host]; s.pending > 0 && !s.busy && s.next == w.at {
				c.due++
			}
		}
	}
}

// made is a stage's input that is made as it is read.
type made[T record.Row] struct {
	kind record.Kind
	txn  string
	n, i int
	row  func(i int, row *T)
}

func (m *made[T]) Schema() *record.Schema { return &record.Schema{Kind: m.kind, Txn: m.txn} }
func (m *made[T]) Trailer() record.Trailer {
	return record.Trailer{Verified: true, Rows: uint64(m.n), Txn: m.txn}
}
func (m *made[T]) Read(row *T) error {
	if m.i == m.n {
		return io.EOF
	}
	m.row(m.i, row)
	m.i++
	return nil
}
