package fetch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
)

func seal(t testing.TB, st *store.Store, want int) {
	t.Helper()
	if n, err := fetch.Seal(t.Context(), st); err != nil || n != want {
		t.Fatalf("%d files sealed, %v; want %d", n, err, want)
	}
}

// TestSeal: files have their final names, what rows point to stays, and the next round begins a new file.
func TestSeal(t *testing.T) {
	st := newStore(t)
	opt := options(st, &web{})
	first := run(t, opt, "r1", pages(2, 2))
	seal(t, st, 1)
	seal(t, st, 0)
	for _, name := range warcs(t, st) {
		if strings.HasSuffix(name, ".open") {
			t.Errorf("%s is still open", name)
		}
	}
	checkPlaces(t, st, first)
	if run(t, opt, "r1", pages(2, 2)); len(warcs(t, st)) != 1 {
		t.Errorf("a repeated round wrote files: %v", warcs(t, st))
	}
	second := run(t, opt, "r2", pages(3, 2))
	if second[0].WARCFilename == first[0].WARCFilename {
		t.Errorf("round r2 wrote to %s, which was sealed", first[0].WARCFilename)
	}
	checkPlaces(t, st, append(first, second...))
	m, err := st.Current()
	must.OK(t, err)
	if e := m.File(first[0].WARCFilename); e.Growing {
		t.Errorf("%s grows still", e.Path)
	}
	seal(t, st, 1)
}

// TestSealRefusesAnInterruptedBatch: what a killed batch has written is taken up again.
func TestSealRefusesAnInterruptedBatch(t *testing.T) {
	st := newStore(t)
	w := &web{}
	opt := options(st, w)
	run(t, opt, "r1", pages(2, 2))
	urls := pages(4, 6)
	interrupted(t, opt, "r2", urls)
	if _, err := fetch.Seal(t.Context(), st); !errors.Is(err, fault.Conflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	w.log = nil
	outcomes(t, run(t, opt, "r2", urls), urls)
	if len(w.log) >= len(urls) {
		t.Errorf("%d contacts for %d URLs: what was saved is lost", len(w.log), len(urls))
	}
	seal(t, st, 1)
}

// TestSealAfterAbandon: what an abandoned batch left behind what any generation has is cut, and
// what only an older line of the crawl has stays.
func TestSealAfterAbandon(t *testing.T) {
	c, st := inCrawl(t)
	opt := options(st, &web{})
	now := func() (cur store.Current) {
		t.Helper()
		cur, err := store.ReadCurrent(durable.OS, c.Dir())
		must.OK(t, err)
		return cur
	}
	change := func(f func(*store.Current)) {
		t.Helper()
		cur := now()
		f(&cur)
		must.OK(t, store.WriteCurrent(durable.OS, c.Dir(), cur))
	}
	commit := func(txn string) (generation uint64, length int64) {
		t.Helper()
		m, err := st.Current()
		must.OK(t, err)
		change(func(cur *store.Current) {
			cur.Checkpoint, cur.Last, cur.Txn, cur.Stores = cur.Last+1, cur.Last+1, txn, map[string]uint64{"fetch": m.Generation}
		})
		return m.Generation, m.WithRole("warc")[0].Length
	}
	run(t, opt, "r1", pages(2, 2))
	if _, err := fetch.Seal(t.Context(), st); !errors.Is(err, fault.Conflict) {
		t.Fatalf("round r1 is open: got %v, want a conflict", err)
	}
	one, short := commit("r1")
	run(t, opt, "r2", pages(2, 4))
	_, long := commit("r2")
	if long <= short {
		t.Fatalf("%d bytes after %d", long, short)
	}
	interrupted(t, opt, "r3", pages(4, 6))
	file := warcs(t, st)[0]
	tail, err := os.ReadFile(file)
	if err != nil || int64(len(tail)) <= long {
		t.Fatalf("%d bytes, %v", len(tail), err)
	}
	if err := os.WriteFile(file, tail[:len(tail)-7], 0o644); err != nil { // a torn record
		t.Fatal(err)
	}
	change(func(cur *store.Current) { // back to r1
		cur.Epoch, cur.Checkpoint, cur.Txn, cur.Stores = 1, 1, "r1", map[string]uint64{"fetch": one}
	})
	seal(t, st, 1)
	if fi, err := os.Stat(strings.TrimSuffix(file, ".open")); err != nil || fi.Size() != long {
		t.Errorf("%v, %v; want a file of %d bytes, as checkpoint 2 has it", fi, err, long)
	}
	parts, err := fetch.Saved([]string{st.Dir()}, store.Options{})
	if err != nil || len(parts) != 1 || parts[0] != (warc.Part{Path: strings.TrimSuffix(file, ".open"), Length: short}) {
		t.Errorf("%v, %v: want the front that checkpoint 1 has", parts, err)
	}
	urls := pages(3, 3)
	rows := run(t, opt, "r2b", urls)
	outcomes(t, rows, urls)
	checkPlaces(t, st, rows)
}

// TestSealCrash stops the machine at each call of Seal that changes the file system.
func TestSealCrash(t *testing.T) {
	urls := pages(2, 3)
	dir := filepath.Join(t.TempDir(), "fetch")
	for n := 1; ; n++ {
		fsys := crashStore(t, dir)
		opt := options(openOn(t, fsys, dir), &web{})
		opt.Connections, opt.WARCSize = 1, 4<<10
		rows := run(t, opt, "r1", urls)
		fsys.CrashAt(n)
		_, err := fetch.Seal(t.Context(), opt.Store)
		crashed := fsys.Crashed()
		if !crashed && err != nil {
			t.Fatal(err)
		}
		for loss := crashtest.Loss(0); loss < 3; loss++ {
			after := fsys.AfterCrash(loss)
			st := openOn(t, after, dir)
			checkPlaces(t, st, rows)
			if _, err := fetch.Seal(t.Context(), st); err != nil {
				t.Fatalf("crash at call %d, loss %d: %v", n, loss, err)
			}
			seal(t, st, 0)
			checkPlaces(t, st, rows)
			opt.Store = st
			more := run(t, opt, "r2", urls)
			outcomes(t, more, urls)
			checkPlaces(t, st, append(rows[:len(rows):len(rows)], more...))
			if t.Failed() {
				t.Fatalf("crash at call %d, loss %d", n, loss)
			}
		}
		if !crashed {
			if n < 3 {
				t.Errorf("only %d calls", n)
			}
			return
		}
	}
}
