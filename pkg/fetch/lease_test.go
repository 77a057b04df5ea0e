package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/crawl"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/shard"
)

// machine is a file system with locks that hold for nobody, and which can be suspended: then its looks wait.
type machine struct {
	durable.FS
	mu     sync.Mutex
	asleep chan struct{} // nil: it runs
}

type unlocked struct{}

func (unlocked) Close() error { return nil }

func (m *machine) Lock(string, string) (io.Closer, error) { return unlocked{}, nil }

func (m *machine) wait() {
	m.mu.Lock()
	asleep := m.asleep
	m.mu.Unlock()
	if asleep != nil {
		<-asleep
	}
}

func (m *machine) Stat(name string) (fs.FileInfo, error) {
	m.wait()
	return m.FS.Stat(name)
}

func (m *machine) suspend() {
	m.mu.Lock()
	m.asleep = make(chan struct{})
	m.mu.Unlock()
}

func (m *machine) wake() {
	m.mu.Lock()
	close(m.asleep)
	m.asleep = nil
	m.mu.Unlock()
}

// shards makes a crawl of two, and returns a way to open the store of the first on a machine.
func shards(t *testing.T) (on func(*machine) *store.Store, closeRound func(txn string)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "crawl")
	_, err := crawl.Init(dir, nil, []byte("# none\n"), func(dir string) error {
		return fetch.CreateStore(filepath.Join(dir, "fetch"), "", store.Options{})
	}, crawl.Options{Shards: 2})
	must.OK(t, err)
	on = func(m *machine) *store.Store {
		m.FS = durable.OS
		st, err := store.Open(filepath.Join(shard.Dir(dir, 0), "fetch"), fetch.Kind, fetch.Version, store.Options{FS: m})
		must.OK(t, err)
		return st
	}
	return on, func(txn string) {
		m, err := on(&machine{}).Current()
		must.OK(t, err)
		cur, err := store.ReadCurrent(durable.OS, dir)
		cur.Last++
		cur.Checkpoint, cur.Txn, cur.Stores = cur.Last, txn, map[string]uint64{"shard/000/fetch": m.Generation}
		if err = errors.Join(err, store.WriteCurrent(durable.OS, dir, cur)); err != nil {
			t.Fatal(err)
		}
	}
}

// contacted are contacts that were begun, with their times.
type contacted struct {
	mu    sync.Mutex
	begun map[string][]time.Time // by host
	n     int
	last  time.Time
}

func (v *contacted) add(url string) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	host := strings.Split(url, "/")[2]
	if v.begun == nil {
		v.begun = map[string][]time.Time{}
	}
	v.begun[host] = append(v.begun[host], time.Now())
	v.last = time.Now()
	v.n++
	return v.n
}

// checkArchive reads what counts of the WARC files: each record is whole, and each row of rows has one
// outcome there.
func checkArchive(t *testing.T, st *store.Store, rows []record.Fetch) {
	t.Helper()
	checkPlaces(t, st, rows)
	have := map[string]int{}
	parts, err := fetch.Saved([]string{st.Dir()}, store.Options{})
	m, errStore := st.Current()
	if err = errors.Join(err, errStore); err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		data, err := os.ReadFile(p.Path)
		if err != nil || int64(len(data)) < p.Length {
			t.Fatalf("%s: %d bytes, want %d: %v", p.Path, len(data), p.Length, err)
		}
		chain := store.NewChain()
		_, _ = chain.Write(data[:p.Length])
		if e := m.File(strings.TrimSuffix(filepath.Base(p.Path), ".open")); e == nil || e.Sum != chain.Sum() {
			t.Errorf("%s: sum %s, want %+v", p.Path, chain.Sum(), e)
		}
		r := warc.NewReader(bytes.NewReader(data[:p.Length]), warc.ReaderOptions{Name: p.Path})
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			must.OK(t, err)
			if rec.Type == warc.TypeMetadata {
				out, ok, err := warc.ReadOutcome(rec)
				must.OK(t, err)
				if ok {
					have[out.Round.Txn+" "+out.Row.Role+" "+out.Row.URL]++
				}
			}
		}
		r.Close()
	}
	for _, row := range rows {
		key := rowTxn + " " + row.Role + " " + row.URL
		if have[key] != 1 {
			t.Errorf("%s: %d outcomes that count", key, have[key])
		}
		delete(have, key)
	}
	for key, n := range have {
		if strings.HasPrefix(key, rowTxn+" ") {
			t.Errorf("%s: %d outcomes, and no row", key, n)
		}
	}
}

const rowTxn = "r2" // of the batch that two processes make

// TestTakenOver: a machine is suspended in the middle of a batch that goes on with the file of the batch before, and its locks hold for
// nobody. Another machine makes the batch. When the first wakes, before or after the end of the second, or a batch later, it is told,
// contacts nobody more than it had begun to, and changes nothing that counts.
func TestTakenOver(t *testing.T) {
	const gap = 2 * time.Second
	for _, wakes := range []string{"while the second waits", "while the second fetches", "after the second", "a batch later", "never"} {
		inBubble(t, wakes, func(t *testing.T) {
			on, closeRound := shards(t)
			first, second := &machine{}, &machine{}
			slow, quick := on(first), on(second)
			urls := pages(6, 8)
			run(t, options(on(&machine{}), &web{}), "r1", pages(2, 2))
			closeRound("r1")
			time.Sleep(gap) // after it, by the delays of now

			inFlight := 4
			var early, late contacted // of the first and the second
			asleep := make(chan struct{})
			opt := options(slow, &web{onFetch: func(u string) {
				if early.add(u) == 20 {
					first.suspend()
					close(asleep)
				}
				first.wait()
			}})
			opt.Connections, opt.MinDelay, opt.MaxDelay, opt.ContactTime = inFlight, gap, gap, 20*time.Second
			ended := make(chan error, 1)
			go func() {
				_, err := try(t, t.Context(), opt, rowTxn, urls)
				ended <- err
			}()
			<-asleep
			time.Sleep(time.Second)
			suspended := time.Now()

			wake := func() error {
				first.wake()
				return <-ended
			}
			var told error
			opt = options(quick, &web{onFetch: func(u string) {
				if n := late.add(u); wakes == "while the second fetches" && n == 10 {
					go first.wake()
				}
			}})
			opt.Connections, opt.MinDelay, opt.MaxDelay, opt.ContactTime = inFlight, gap, gap, 20*time.Second
			var said []string
			opt.Warn = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
			if wakes == "while the second waits" {
				go func() {
					time.Sleep(5 * time.Second)
					told = wake()
				}()
			}
			rows, err := try(t, t.Context(), opt, rowTxn, urls)
			must.OK(t, err)
			if len(said) == 0 || !strings.HasPrefix(said[0], "waiting 23s: process ") || !strings.HasSuffix(said[0], " may still contact servers") {
				t.Errorf("it said %q", said)
			}
			checkArchive(t, quick, rows)
			closed := wakes == "a batch later" || wakes == "never"
			if closed {
				closeRound(rowTxn)
				run(t, options(on(&machine{}), &web{}), "r3", pages(2, 2))
				closeRound("r3")
				checkArchive(t, quick, rows)
			}
			switch wakes {
			case "while the second waits":
			case "while the second fetches":
				told = <-ended
			default:
				told = wake() // a test must not end before it
			}
			want := error(fault.Busy) // the batch is made: run again, it is repeated
			if strings.HasPrefix(wakes, "while") {
				want = fault.Superseded
			}
			if !errors.Is(told, want) {
				t.Errorf("the first was told %v", told)
			}
			if early.n > 20+inFlight || early.last.After(suspended) {
				t.Errorf("the first made %d contacts, the last %v after it was suspended", early.n, early.last.Sub(suspended))
			}
			if all := early.n + late.n; all > len(urls)+6+2*inFlight {
				t.Errorf("%d contacts for %d URLs", all, len(urls))
			}
			checkArchive(t, quick, rows)
			outcomes(t, rows, urls)
			for host, begun := range late.begun {
				if before := early.begun[host]; len(before) > 0 && begun[0].Sub(before[len(before)-1]) < gap {
					t.Errorf("%s: %v after the first's last contact", host, begun[0].Sub(before[len(before)-1]))
				}
			}
			if begun := late.begun["h0.test"]; len(begun) > 0 && begun[0].Sub(suspended) < 22*time.Second {
				t.Errorf("contacted after %v, want the lease and a contact's time", begun[0].Sub(suspended))
			}
			// What comes after goes on with the files, and leaves none that grows but the newest.
			st := on(&machine{})
			if !closed {
				closeRound(rowTxn)
			}
			rows4 := run(t, options(st, &web{}), "r4", pages(3, 3))
			checkPlaces(t, st, rows4)
			checkArchive(t, st, rows)
			closeRound("r4")
			if n, err := fetch.Seal(t.Context(), st); err != nil || n != 1 {
				t.Errorf("%d files sealed, want the newest: %v", n, err)
			}
			checkArchive(t, st, rows)
		})
	}
}

// TestTwoAtOnce: two processes begin one batch, and their locks do not hold for each other. The one that came first
// stops within a second, so that few servers are asked twice.
func TestTwoAtOnce(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		on, _ := shards(t)
		var all contacted
		urls := pages(12, 4)
		both := func() ([]record.Fetch, error) {
			opt := options(on(&machine{}), &web{onFetch: func(u string) { all.add(u) }, delay: 100 * time.Millisecond})
			opt.Connections, opt.MinDelay, opt.MaxDelay = 4, 300*time.Millisecond, 300*time.Millisecond
			return try(t, t.Context(), opt, rowTxn, urls)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := both()
			ended <- err
		}()
		time.Sleep(time.Millisecond)
		rows, err := both()
		must.OK(t, err)
		if err := <-ended; !errors.Is(err, fault.Superseded) {
			t.Errorf("the first: %v", err)
		}
		outcomes(t, rows, urls)
		checkArchive(t, on(&machine{}), rows)
		if most := len(rows) + 60; all.n > most || all.n < len(rows) {
			t.Errorf("%d contacts for %d rows, want at most %d", all.n, len(rows), most)
		}
	})
}

// TestThreeAttempts: a second process takes a batch over while the first is at work, and ends too. A third makes the batch: what counts of
// the files of both has each page once.
func TestThreeAttempts(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		on, _ := shards(t)
		urls := pages(12, 4)
		attempt := func(ctx context.Context, onFetch func(string)) ([]record.Fetch, error) {
			opt := options(on(&machine{}), &web{onFetch: onFetch, delay: 100 * time.Millisecond})
			opt.Connections, opt.MinDelay, opt.MaxDelay = 4, 300*time.Millisecond, 300*time.Millisecond
			return try(t, ctx, opt, rowTxn, urls)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := attempt(t.Context(), func(string) {})
			ended <- err
		}()
		time.Sleep(time.Second / 2)
		ctx, cancel := context.WithCancel(t.Context())
		var second contacted
		if _, err := attempt(ctx, func(u string) {
			if second.add(u) == 10 {
				cancel()
			}
		}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, fault.Superseded) {
			t.Errorf("the first: %v", err)
		}
		rows, err := attempt(t.Context(), func(string) {})
		must.OK(t, err)
		outcomes(t, rows, urls)
		checkArchive(t, on(&machine{}), rows)
	})
}

// TestAfterTheDead: who takes over from a process that is known to have ended does not wait for it, and what that one had archived
// counts, also of full files. One of another machine may live: it is waited for. The one that waits can be taken over too.
func TestAfterTheDead(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		on, closeRound := shards(t)
		st := on(&machine{})
		urls := pages(4, 10)
		opt := options(st, &web{})
		opt.WARCSize = 4 << 10 // some files
		interrupted(t, opt, rowTxn, urls)
		list := warcs(t, st)
		if len(list) < 3 {
			t.Fatalf("files %v", list)
		}
		before := map[string][]byte{}
		for _, file := range list {
			b, err := os.ReadFile(file)
			must.OK(t, err)
			before[file] = b
		}
		// Somebody of another machine was there too, and may live.
		const far = `{"generation":2,"attempt":1,"host":"node9","boot":"another","pid":42,"time":"2026-01-02T03:04:05Z"}` + "\n"
		seal := fmt.Sprintf("mercator-store-attempt 1 %d %s\n%s", len(far), store.Sum([]byte(far)), far)
		must.OK(t, os.WriteFile(st.Path("ATTEMPT-000002.1"), []byte(seal), 0o666))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		w := &web{}
		opt.Protocols = map[string]fetch.Protocol{"http": w}
		if _, err := try(t, ctx, opt, rowTxn, urls); err == nil || len(w.log) > 0 {
			t.Fatalf("%v, contacts %v", err, w.log)
		}
		for file, b := range before {
			if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, b) {
				t.Errorf("%s was changed: %v", file, err)
			}
		}
		must.OK(t, os.Remove(st.Path("ATTEMPT-000002.1")))
		began := time.Now()
		opt.Warn = func(format string, args ...any) { t.Errorf(format, args...) }
		rows := run(t, opt, rowTxn, urls)
		if took := time.Since(began); took > time.Second || len(w.log) > len(urls)/2+8 {
			t.Errorf("%v, %d contacts", took, len(w.log))
		}
		outcomes(t, rows, urls)
		checkArchive(t, st, rows)
		opt.Warn = nil
		closeRound(rowTxn)
		run(t, opt, "r3", pages(2, 2))
		checkArchive(t, st, rows)
		if n, err := fetch.Seal(t.Context(), st); !errors.Is(err, fault.Conflict) || n > 0 {
			t.Errorf("%d files sealed while a round is open: %v", n, err)
		}
		closeRound("r3")
		if _, err := fetch.Seal(t.Context(), st); err != nil {
			t.Error(err)
		}
		for _, file := range warcs(t, st) {
			if strings.HasSuffix(file, ".open") {
				t.Errorf("%s has not got its name", file)
			}
		}
		checkArchive(t, st, rows)
	})
}
