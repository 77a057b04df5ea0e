package resolve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"mercator/pkg/base/must"
	"mercator/pkg/fetch/localfault"
)

// exchanger is a transport that waits for a reply, as tests have them.
type exchanger interface {
	exchange(ctx context.Context, q *query, timeout time.Duration) ([]byte, error)
	close()
}

// background has an exchanger wait in a goroutine for each question.
type background struct {
	exchanger
	ctx context.Context
	end context.CancelFunc
}

func inBackground(e exchanger) *background {
	ctx, end := context.WithCancel(context.Background())
	return &background{e, ctx, end}
}

func (b *background) ask(q *question) {
	go func() { q.came(b.exchange(b.ctx, &q.query, q.timeout)) }()
}

func (b *background) close() {
	b.end()
	b.exchanger.close()
}

// gauge counts what is under way.
type gauge struct {
	mu        sync.Mutex
	now, most int32
}

func (g *gauge) add(n int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

func (g *gauge) read() (now, most int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now, g.most
}

// script is a transport without a network or a clock. Names that begin with "dead" get no
// answer: their first time is up at once, and all further ones when release is closed.
type script struct {
	release chan struct{}
	never   error // of dead names

	exchanges gauge
	answered  atomic.Int32
}

func (s *script) exchange(ctx context.Context, q *query, timeout time.Duration) ([]byte, error) {
	s.exchanges.add(1)
	defer s.exchanges.add(-1)
	m := new(dns.Msg)
	if err := m.Unpack(q.wire); err != nil {
		return nil, err
	}
	name := m.Question[0].Name
	if !strings.HasPrefix(strings.ToLower(name), "dead") {
		m.SetReply(m.Copy())
		if m.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: []byte{127, 0, 0, 1}}}
		}
		s.answered.Add(1)
		return m.Pack()
	}
	if timeout > time.Second {
		select {
		case <-s.release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, s.never
}

func (*script) close() {}

// scripted makes a resolver of n questions in flight, with a script as its server.
func scripted(t *testing.T, n int, family string) (*Resolver, *script) {
	t.Helper()
	r, err := New(Config{Servers: []string{"127.0.0.1"}, InFlight: n, Timeout: time.Second, Family: family})
	must.OK(t, err)
	s := &script{release: make(chan struct{}), never: os.ErrDeadlineExceeded}
	r.servers[0].main = inBackground(s)
	return r, s
}

// TestDeadNamesLetOthersPass: as many dead names as may be in flight hold up nobody, and of
// any number of them no more than twice as many are asked for at a time.
func TestDeadNamesLetOthersPass(t *testing.T) {
	const n, live = 8, 1000
	r, s := scripted(t, n, "4")
	var in strings.Builder
	for i := range live {
		if i < n {
			fmt.Fprintf(&in, "dead%d.test\n", i)
		}
		fmt.Fprintf(&in, "live%d.test\n", i)
	}
	input, more := io.Pipe()
	var stats NameStats
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		if stats, err = Names(t.Context(), r, "A", time.Now, input, io.Discard); err != nil {
			t.Error(err)
		}
	})
	io.WriteString(more, in.String())
	for s.answered.Load() < live { // before any dead name is given up
		time.Sleep(time.Millisecond)
	}
	io.WriteString(more, strings.NewReplacer("live", "dead-too", "dead", "dead-again").Replace(in.String())) // now there are too many
	more.Close()
	for now := int32(0); now < 2*n; now, _ = s.exchanges.read() {
		time.Sleep(time.Millisecond)
	}
	close(s.release)
	wg.Wait()
	if stats.Names != 2*(live+n) || stats.Silent != live+2*n {
		t.Errorf("%+v", stats)
	}
	if _, m := s.exchanges.read(); m != 2*n {
		t.Errorf("%d questions at a time, want %d", m, 2*n)
	}
	r.takeAll()
}

// takeAll takes every slot and every place of the late, and waits for ever where a question has
// kept one: a question gives its place back after its answer.
func (r *Resolver) takeAll() {
	for _, places := range []chan struct{}{r.slots, r.late} {
		for range cap(places) {
			places <- struct{}{}
		}
	}
}

// TestLateNames: where all slots are taken by questions that are late, and as many again wait,
// none is forgotten; and a name that fails in its only attempt gives its slot back.
func TestLateNames(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		r, s := scripted(t, 4, "any")
		r.cfg.Attempts = attempts
		close(s.release)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if a := r.Lookup(t.Context(), fmt.Sprintf("dead%d.test", i)); a.Status != StatusTimeout {
					t.Errorf("%+v", a)
				}
				if a := r.Lookup(t.Context(), fmt.Sprintf("live%d.test", i%3)); FormatAddrs(a.Addrs) != "127.0.0.1" {
					t.Errorf("%+v", a)
				}
			})
		}
		all.Wait()
		if _, m := s.exchanges.read(); m > 2*4 {
			t.Errorf("%d questions at a time", m)
		}
		r.takeAll()
	}
}

// lineByLine gives a line for each call of Read, and closes end when all have been taken.
type lineByLine struct {
	lines []string
	end   chan bool
}

func (l *lineByLine) Read(p []byte) (n int, err error) {
	if len(l.lines) == 0 {
		close(l.end)
		return 0, io.EOF
	}
	n = copy(p, l.lines[0])
	l.lines = l.lines[1:]
	return n, nil
}

// TestEqualLinesAreAskedOnce: of equal questions one is in flight, however many lines ask it.
// Each line is a result of its own, with its own fields.
func TestEqualLinesAreAskedOnce(t *testing.T) {
	const n, lines = 8, 200
	r, s := scripted(t, n, "4")
	r.heard.Store(true) // so that nothing is asked to find out whether the server is there
	in := &lineByLine{end: make(chan bool)}
	for i := range lines {
		in.lines = append(in.lines, fmt.Sprintf("{\"name\":\"%s.test\",\"i\":%d}\n", []string{"dead", "Dead", "DEAD"}[i%3], i))
	}
	var out bytes.Buffer
	var stats NameStats
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		if stats, err = Names(t.Context(), r, "A", time.Now, in, &out); err != nil {
			t.Error(err)
		}
	})
	<-in.end // all wait for one reply
	close(s.release)
	wg.Wait()
	if stats != (NameStats{Names: lines, Failed: lines, Silent: lines}) {
		t.Errorf("%+v", stats)
	}
	if _, m := s.exchanges.read(); m != 1 {
		t.Errorf("%d questions at a time, want 1", m)
	}
	d := json.NewDecoder(&out)
	seen := map[int]bool{}
	for range lines {
		var got struct {
			Name, Status string
			I            int
		}
		err := d.Decode(&got)
		i := got.I
		if again := seen[i]; err != nil || again || got.Name != []string{"dead", "Dead", "DEAD"}[i%3]+".test" || got.Status != "TIMEOUT" {
			t.Fatalf("line %d: %+v, %v", i, got, err)
		}
		seen[i] = true
	}
	r.takeAll()
}

// TestResultsDoNotWait: what is known reaches the reader while another name has no answer.
func TestResultsDoNotWait(t *testing.T) {
	r, s := scripted(t, 2, "4")
	results, out := io.Pipe()
	go func() {
		_, err := Names(t.Context(), r, "A", time.Now, strings.NewReader("dead.test\nlive.test\n"), out)
		out.CloseWithError(err)
	}()
	lines := bufio.NewReader(results)
	for i, want := range []string{"live", "dead"} {
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, want) {
			t.Fatalf("%q, %v, want that of %s", line, err, want)
		}
		if i == 0 {
			close(s.release)
		}
	}
}

// TestMute: that no server answers is told while questions are still asked, once; and not of
// servers that answered before.
func TestMute(t *testing.T) {
	for _, heard := range []bool{false, true} {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		must.OK(t, err)
		defer pc.Close()
		told := make(chan struct{}, 2)
		r, err := New(Config{Servers: []string{pc.LocalAddr().String()}, Timeout: 5 * time.Millisecond, Attempts: 3, Mute: func() { told <- struct{}{} }})
		must.OK(t, err)
		r.heard.Store(heard)
		for range 2 {
			if a := r.Lookup(t.Context(), "host.test"); a.Status != StatusTimeout {
				t.Errorf("status %q, want %q", a.Status, StatusTimeout)
			}
		}
		r.Close()
		if want := map[bool]int{false: 1}[heard]; len(told) != want {
			t.Errorf("heard before: %v: told %d times, want %d", heard, len(told), want)
		}
	}
}

// TestProbe: whether servers answer at all is asked while a name still is, though that has the only
// slot; who wants to know when that is over waits for no more time-outs than one name has.
func TestProbe(t *testing.T) {
	var mu sync.Mutex
	var asked []uint16
	addr := rawServer(t, func(q []byte) [][]byte {
		m := new(dns.Msg)
		if err := m.Unpack(q); err == nil {
			mu.Lock()
			asked = append(asked, m.Question[0].Qtype)
			mu.Unlock()
		}
		return nil
	}, nil)
	r, err := New(Config{Servers: []string{addr}, InFlight: 1, Family: "4", Timeout: 10 * time.Millisecond, Attempts: 6})
	must.OK(t, err)
	defer r.Close()
	r.late <- struct{}{} // so that a name without an answer keeps its slot
	if a := r.Lookup(t.Context(), "host.test"); a.Status != StatusTimeout {
		t.Errorf("%+v", a)
	}
	mu.Lock()
	if at := slices.Index(asked, dns.TypeNS); at < 0 {
		t.Errorf("asked, by type: %v, want one for %d too", asked, dns.TypeNS)
	}
	mu.Unlock()
	if r.reachable(t.Context()) {
		t.Error("a server that answers nothing is taken for one")
	}
	names, probes := 0, 0
	for _, qtype := range asked {
		if qtype == dns.TypeNS {
			probes++
		} else {
			names++
		}
	}
	if names != 6 || probes != 6 {
		t.Errorf("%d attempts for the name, and %d for the root, want 6 of each", names, probes)
	}
}

// TestSocketsAreBounded: however many questions wait, there are so many sockets, which have room for all; a socket that has to serve alone and
// is full refuses the next, as what this machine could not do.
func TestSocketsAreBounded(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	defer pc.Close()
	r, err := New(Config{Servers: []string{pc.LocalAddr().String()}, Timeout: patience, Family: "4"})
	must.OK(t, err)
	defer r.Close()
	u := r.servers[0].main.(*udp)
	for range 20 * udpSockets {
		if _, err := u.pick(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(u.sockets); n != udpSockets || udpSockets*socketAsking < 2*maxInFlight {
		t.Errorf("%d sockets, want %d with room for %d questions", n, udpSockets, 2*maxInFlight)
	}
	for _, s := range u.sockets {
		s.mu.Lock()
		for id := range uint16(socketAsking) {
			s.waiting[id] = &waiting{question: &question{r: r}, timer: time.NewTimer(patience)}
		}
		s.mu.Unlock()
	}
	if a := r.Lookup(t.Context(), "host.test"); a.Status != localfault.NoFile {
		t.Errorf("%+v, want status %q", a, localfault.NoFile)
	}
	for _, s := range u.sockets {
		s.mu.Lock()
		clear(s.waiting)
		s.mu.Unlock()
	}
}

// TestCloseEndsAllWorkers, of which there are as many as there were processors at first: the
// runtime changes that with what the system grants.
func TestCloseEndsAllWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	r, _ := scripted(t, 1, "4")
	runtime.GOMAXPROCS(1)
	closed := make(chan bool)
	go func() { r.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("a worker waits on")
	}
}
