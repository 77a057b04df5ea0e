package resolve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

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

// scripted makes a resolver of n questions in flight whose server is a script.
func scripted(t *testing.T, n int, family string) (*Resolver, *script) {
	t.Helper()
	r, err := New(Config{Servers: []string{"127.0.0.1"}, InFlight: n, Timeout: time.Second, Family: family})
	if err != nil {
		t.Fatal(err)
	}
	s := &script{release: make(chan struct{}), never: os.ErrDeadlineExceeded}
	r.servers[0].main, r.servers[0].tcp = s, nil
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
		if stats, err = Names(t.Context(), r, "A", n, false, time.Now, input, io.Discard); err != nil {
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
	if len(r.slots) != 0 || len(r.late) != 0 {
		t.Errorf("%d slots and %d of the late are still held", len(r.slots), len(r.late))
	}
}

// TestLateLookup: a name is late when one of its questions is, and a lookup that fails in
// its only attempt is over, not late.
func TestLateLookup(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		r, s := scripted(t, 4, "any")
		r.cfg.Attempts = attempts
		close(s.release)
		var late atomic.Int32
		if a := r.lookup(t.Context(), "dead.test", func() { late.Add(1) }); a.Status != StatusTimeout {
			t.Errorf("%+v", a)
		}
		if n := late.Load(); n != int32(2*(attempts-1)) {
			t.Errorf("%d attempts: late was called %d times", attempts, n)
		}
		if a := r.lookup(t.Context(), "live.test", func() { t.Error("late") }); FormatAddrs(a.Addrs) != "127.0.0.1" {
			t.Errorf("%+v", a)
		}
	}
}

// TestCrew: each piece of work is done once, by less than twice as many goroutines as the
// crew has, of which no more than these have been replaced.
func TestCrew(t *testing.T) {
	const size, pieces = 4, 1000
	var under gauge
	var done atomic.Int32
	c := newCrew(size, func(i int, late func()) {
		under.add(1)
		if i%3 == 0 {
			late()
			late()
			time.Sleep(time.Microsecond)
		}
		under.add(-1)
		done.Add(1)
	})
	for i := range pieces {
		c.give(i)
	}
	close(c.work)
	c.running.Wait()
	if done.Load() != pieces || len(c.places) != 0 || len(c.replaced) != 0 {
		t.Errorf("%d pieces done, %d places taken, %d replaced", done.Load(), len(c.places), len(c.replaced))
	}
	if _, m := under.read(); m > 2*size {
		t.Errorf("%d goroutines at a time, want %d at most", m, 2*size)
	}
}

// TestIdleCrew: of those who have no work a few stay, and where there is work again, all take
// part in it.
func TestIdleCrew(t *testing.T) {
	const size = 3 * maxIdle
	var under gauge
	release := make(chan struct{})
	c := newCrew(size, func(int, func()) {
		under.add(1)
		<-release
		under.add(-1)
	})
	for range 2 {
		for i := range size {
			c.give(i)
		}
		for now := int32(0); now < size; now, _ = under.read() {
			time.Sleep(time.Millisecond)
		}
		for range size {
			release <- struct{}{}
		}
		for len(c.places) > maxIdle {
			time.Sleep(time.Millisecond)
		}
	}
	close(c.work)
	c.running.Wait()
}

// TestFewAskAgain: of the lines whose large results had no room, a few ask again where there is
// some, in the order of the input.
func TestFewAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLineWriter(io.Discard, true)
		w.next, w.size = 1, maxWaiting+1
		var again atomic.Int32
		for n := range uint64(100) {
			go func() {
				w.await(n + 1)
				again.Add(1)
			}()
		}
		synctest.Wait()
		if n := again.Load(); n != 1 {
			t.Errorf("%d ask again without room, want the next alone", n)
		}
		w.mu.Lock()
		w.size = maxWaiting
		w.mu.Unlock()
		w.room.Broadcast()
		synctest.Wait()
		if n := again.Load(); n != maxLarge {
			t.Errorf("%d ask again, want %d", n, maxLarge)
		}
		w.end()
	})
}

// TestEqualLinesAreAskedOnce: of equal questions one is in flight, however many lines ask it.
// Each line is a result of its own, with its own fields.
func TestEqualLinesAreAskedOnce(t *testing.T) {
	const n, lines = 8, 200
	r, s := scripted(t, n, "4")
	var in strings.Builder
	for i := range lines {
		fmt.Fprintf(&in, "{\"name\":\"%s.test\",\"i\":%d}\n", []string{"dead", "Dead", "DEAD"}[i%3], i)
	}
	input, more := io.Pipe()
	var out bytes.Buffer
	var stats NameStats
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		if stats, err = Names(t.Context(), r, "A", n, true, time.Now, input, &out); err != nil {
			t.Error(err)
		}
	})
	go func() { io.WriteString(more, in.String()); more.Close() }()
	for users := 0; users < 2*n; time.Sleep(time.Millisecond) { // each of whom is replaced: the name is late
		r.mu.Lock()
		if j := r.joint[rawQuestion{"dead.test.", dns.TypeA}]; j != nil {
			users = j.users
		}
		r.mu.Unlock()
	}
	close(s.release)
	wg.Wait()
	if stats != (NameStats{Names: lines, Failed: lines, Silent: lines}) {
		t.Errorf("%+v", stats)
	}
	if _, m := s.exchanges.read(); m != 1 {
		t.Errorf("%d questions at a time, want 1", m)
	}
	d := json.NewDecoder(&out)
	for i := range lines {
		var got struct {
			Name, Status string
			I            int
		}
		if err := d.Decode(&got); err != nil || got.I != i || got.Name != []string{"dead", "Dead", "DEAD"}[i%3]+".test" || got.Status != "TIMEOUT" {
			t.Fatalf("line %d: %+v, %v", i, got, err)
		}
	}
	if len(r.joint) != 0 {
		t.Errorf("%d questions are still in flight", len(r.joint))
	}
}

// TestResultsDoNotWait: what is known reaches the reader while another name has no answer.
func TestResultsDoNotWait(t *testing.T) {
	r, s := scripted(t, 2, "4")
	results, out := io.Pipe()
	go func() {
		_, err := Names(t.Context(), r, "A", 2, false, time.Now, strings.NewReader("dead.test\nlive.test\n"), out)
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
