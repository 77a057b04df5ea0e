package resolve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
)

// TestCancelledWhileRowsGoOut: a batch fails if not all of its rows were read, also where those that were
// read have all gone out before it is seen that it is cancelled.
func TestCancelledWhileRowsGoOut(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		in, out := io.Pipe()
		go func() {
			w, _ := record.NewWriter[record.URL](out, record.WriterOptions{})
			for i := 0; ; i++ {
				if w.Write(&record.URL{URL: fmt.Sprintf("http://127.0.0.1/%d", i), Host: "127.0.0.1"}) != nil {
					return
				}
			}
		}()
		r, _ := instantResolver(t)
		opt := Options{Resolver: r, Now: r.cfg.Now, Memory: 16 << 20, Progress: func(int64) {
			if ctx.Err() == nil {
				cancel()
				time.Sleep(time.Millisecond) // the reader, which has another block, sees it first
			}
		}}
		st := open(t, newDNSStore(t))
		rows, err := record.NewReader[record.URL](in, record.ReaderOptions{})
		must.OK(t, err)
		_, err = stage.Run(t.Context(), stage.Spec{Name: "mresolve", Verb: "resolve", Store: st}, rows, []stage.Output{&recordtest.Output{}},
			func(_ context.Context, b *stage.Batch[record.URL, record.URL]) error {
				_, err := Resolve(ctx, st, b, opt)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want %v", err, context.Canceled)
				}
				return context.Canceled
			})
		in.CloseWithError(err)
		r.Close()
	}
}

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	st, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
	must.OK(t, err)
	return st
}

// steps is a server that answers one name after the other, a step apart, until late.test is asked for.
type steps struct {
	step time.Duration
	n    atomic.Int32
	late chan struct{}
}

func (s *steps) exchange(_ context.Context, q *query, _ time.Duration) ([]byte, error) {
	m := reply(q.wire, good)
	if bytes.Contains(bytes.ToLower(q.wire), []byte("\x04late")) {
		close(s.late)
	}
	select {
	case <-time.After(time.Duration(s.n.Add(1)) * s.step):
	case <-s.late:
	}
	return m, nil
}

func (*steps) close() {}

// TestNamesAreLookedForInTime: a name is looked for in files, and asked for, though answers of others keep coming.
func TestNamesAreLookedForInTime(t *testing.T) { synctest.Test(t, namesAreLookedForInTime) }

func namesAreLookedForInTime(t *testing.T) {
	r, _ := instantResolver(t)
	defer r.Close()
	dir := newDNSStore(t)
	if _, _, err := runBatch(t, dir, "r1", Options{Resolver: r, Now: r.cfg.Now}, "known.test"); err != nil {
		t.Fatal(err)
	}
	const names = 400
	s := &steps{step: groupWait / 4, late: make(chan struct{})}
	r.cfg.Timeout = time.Hour
	r.servers[0].main = inBackground(s)
	in, out := io.Pipe()
	go func() {
		w, _ := record.NewWriter[record.URL](out, record.WriterOptions{})
		put := func(name string) {
			if err := w.Write(&record.URL{URL: "http://" + name + "/", Host: name}); err != nil {
				t.Error(err)
			}
		}
		for i := range names {
			put(fmt.Sprintf("host%d.test", i))
		}
		w.Flush()
		time.Sleep(3 * groupWait)
		put("late.test")
		w.Flush()
		select {
		case <-s.late:
		case <-time.After(names * s.step / 2):
			t.Error("late.test is not asked for")
		}
		_, err := w.Commit(record.Ledger{})
		out.CloseWithError(err)
	}()
	rows, err := record.NewReader[record.URL](in, record.ReaderOptions{})
	must.OK(t, err)
	st := open(t, dir)
	if _, err := stage.Run(t.Context(), stage.Spec{Name: "mresolve", Verb: "resolve", Store: st}, rows, []stage.Output{&recordtest.Output{}},
		func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
			_, err := Resolve(ctx, st, b, Options{Resolver: r, Now: r.cfg.Now, Memory: 16 << 20})
			return err
		}); err != nil {
		t.Fatal(err)
	}
}

// TestBlocks: rows that come in batches of any size are in blocks once each, in order, and a
// block is bounded.
func TestBlocks(t *testing.T) {
	const rows = 12 * blockRows
	for _, size := range []int{1, blockBytes / 100} { // bytes of a row's text
		random := rand.New(rand.NewPCG(1, 2))
		var in bytes.Buffer
		w, err := record.NewWriter[record.URL](&in, record.WriterOptions{})
		must.OK(t, err)
		rows := min(rows, 3000<<10/size)
		left := 0 // of a batch of records
		for i := range rows {
			must.OK(t, w.Write(&record.URL{URL: strings.Repeat("u", size), Key: uint64(i)}))
			if left--; left < 0 {
				must.OK(t, w.Flush())
				left = 1 << random.IntN(13)
			}
		}
		_, err = w.Commit(record.Ledger{})
		must.OK(t, err)
		reader, err := record.NewReader[record.URL](&in, record.ReaderOptions{})
		must.OK(t, err)
		if _, err := stage.Run(t.Context(), stage.Spec{Name: "test", Shape: stage.Sink}, reader, nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
			r := &batch[record.URL]{b: b, blocks: make(chan *block)}
			r.use.name = func(row *record.URL) string { return fmt.Sprint(row.Key) }
			go r.read(ctx)
			n := 0
			for w := range r.blocks {
				if len(w.names) > blockRows || len(w.rows) > blockBytes+size+100 {
					t.Errorf("a block of %d rows, %d bytes", len(w.names), len(w.rows))
				}
				text := w.rows
				for _, name := range w.names {
					var row record.URL
					length, err := record.ParseRow(text, &row, b.Schema())
					if err != nil {
						return err
					}
					if row.Key != uint64(n) || name != fmt.Sprint(n) || len(row.URL) != size {
						t.Fatalf("row %d with name %s where %d was to come", row.Key, name, n)
					}
					text = text[length:]
					b.Consume()
					n++
				}
				if text != "" {
					t.Errorf("%d bytes behind the rows of a block", len(text))
				}
			}
			if n != rows {
				t.Errorf("%d rows, want %d", n, rows)
			}
			if r.ended != io.EOF {
				return r.ended
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAskingRunsAhead: while the first row waits for a name that is not answered, the names of
// all other blocks are asked for, as far as there is memory; rows come out as they would otherwise.
func TestAskingRunsAhead(t *testing.T) {
	const blocks = 8
	for name, memory := range map[string]int64{"with room": 64 << 20, "room for a block": tablePart * 400 << 10, "without room": 1 << 10} {
		t.Run(name, func(t *testing.T) {
			r, s := scripted(t, 64, "4")
			var hosts []string
			live := int32(0)
			for i := range blocks * blockRows {
				if i%(blockRows/2) == 0 {
					hosts = append(hosts, fmt.Sprintf("dead%d.test", i/blockRows)) // in two places each
				} else if hosts = append(hosts, fmt.Sprintf("live%d.test", i)); i%3 == 0 {
					hosts[i] = "dead0.test" // in all blocks
				} else {
					live++
				}
			}
			go func() {
				for t.Context().Err() == nil && s.answered.Load() < live && memory == 64<<20 {
					time.Sleep(time.Millisecond)
				}
				for len(r.late) == 0 {
					time.Sleep(time.Millisecond)
				}
				close(s.release)
			}()
			rows, stats, err := runBatch(t, newDNSStore(t), "r1", Options{Resolver: r, Now: r.cfg.Now, Memory: memory}, hosts...)
			must.OK(t, err)
			if len(rows) != len(hosts) {
				t.Fatalf("%d rows, want %d", len(rows), len(hosts))
			}
			for i := range rows {
				want := "127.0.0.1"
				if strings.HasPrefix(hosts[i], "dead") {
					want = StatusTimeout
				}
				if n, ok := rows[i].Extra.Number("place"); n != uint64(i) || !ok {
					t.Fatalf("row %d has the further column of row %d", i, n)
				}
				if u := fmt.Sprintf("http://%s/%d", hosts[i], i); rows[i].URL != u || rows[i].Addr+rows[i].AddrError != want {
					t.Fatalf("row %d: %+v, want %s %s", i, rows[i], u, want)
				}
			}
			if stats.LookupsS <= 0 { // the time is real
				t.Errorf("lookups took %v s", stats.LookupsS)
			}
			stats.LookupsS = 0
			if want := (Stats{Names: uint64(live) + blocks, Asked: uint64(live) + blocks, Failed: blocks, Silent: blocks, Special: uint64(live)}); memory == 64<<20 && stats != want {
				t.Errorf("%+v, want %+v", stats, want)
			}
		})
	}
}

// TestWarmMemory: of a store of more names than a batch's table holds, no more than the table is in memory, and
// a block of each file.
func TestWarmMemory(t *testing.T) {
	const names, memory = 100_000, 6 << 20 // the table is a sixth
	r, _ := instantResolver(t)
	defer r.Close()
	dir := newDNSStore(t)
	hosts := make([]string, names)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("%d.%s.test", i, strings.Repeat("x", 60))
	}
	st := open(t, dir)
	l := newLearnt(r)
	defer l.Close()
	for i, name := range hosts {
		n, _ := l.find(name)
		l.learn(n, &answer{addr: "127.0.0.1", expires: record.TimeOf(testNow.Add(time.Hour))})
		if i%(names/8) == 0 {
			must.OK(t, l.flush())
		}
	}
	keep(t, st, l, testNow)
	var urls []record.URL
	for _, name := range hosts {
		urls = append(urls, record.URL{URL: "http://" + name + "/", Host: name})
	}
	rows := recordtest.Reader[record.URL](t, recordtest.Stream(t, record.WriterOptions{}, urls...)) // whole, so that its writer is not measured
	urls = nil
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most, done int64
	opt := Options{Resolver: r, Now: r.cfg.Now, Memory: memory, Progress: func(n int64) {
		if done += n; done%(names/16) == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, int64(now.HeapAlloc)-int64(before.HeapAlloc))
		}
	}}
	var stats Stats
	if _, err := stage.Run(t.Context(), stage.Spec{Name: "mresolve", Verb: "resolve", Store: st}, rows, []stage.Output{&nowhere{}},
		func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) (err error) {
			stats, err = Resolve(ctx, st, b, opt)
			return err
		}); err != nil {
		t.Fatal(err)
	}
	if want := (Stats{Names: names, Cached: names}); stats != want {
		t.Errorf("%+v, want %+v", stats, want)
	}
	// Beside the table: rows that wait, blocks of the files, and what the streams pack and unpack with.
	if limit := int64(2*memory/tablePart + 10<<20); most > limit {
		t.Errorf("heap grew by %d bytes, want %d at most", most, limit)
	}
}

// nowhere is a sink that keeps nothing.
type nowhere struct{ recordtest.Output }

func (*nowhere) Write(p []byte) (int, error) { return len(p), nil }
