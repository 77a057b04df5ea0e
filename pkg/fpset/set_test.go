package fpset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/merge"
)

// newStore makes an empty set on fsys (nil: the real file system).
func newStore(t *testing.T, fsys durable.FS) *store.Store {
	t.Helper()
	dir, opt := t.TempDir()+"/content", store.Options{FS: fsys}
	if fsys != nil {
		dir = "/crawl-less/content"
	}
	must.OK(t, Create(dir, CreateOptions{}, opt))
	st, err := store.Open(dir, Kind, Version, opt)
	must.OK(t, err)
	return st
}

// keysOf reads the whole set of st.
func keysOf(t testing.TB, st *store.Store) []uint64 {
	t.Helper()
	s, err := LoadCurrent(st, Options{})
	must.OK(t, err)
	defer s.Close()
	must.OK(t, s.Check(nil))
	all, err := s.All()
	must.OK(t, err)
	keys := []uint64{}
	for {
		b, err := all.Block()
		if err == io.EOF {
			return keys
		}
		must.OK(t, err)
		keys = append(keys, b...)
	}
}

// markAll marks keys in one change, some at a time, and returns the answers.
func markAll(st *store.Store, txn string, keys []uint64, micro int, mem int64, opt Options) ([]bool, error) {
	tx, done, err := st.Begin(context.Background(), "mark", txn)
	if err != nil || done != nil {
		return nil, errors.Join(err, fmt.Errorf("done %v", done))
	}
	defer tx.Abort()
	set, err := Load(st, tx.Base(), opt)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	m := NewMarker(set, mem, "")
	defer m.Close()
	seen := make([]bool, len(keys))
	for from := 0; from < len(keys); from += micro {
		to := min(from+micro, len(keys))
		if err := m.Mark(keys[from:to], seen[from:to]); err != nil {
			return nil, err
		}
	}
	if err := m.Commit(tx); err != nil {
		return nil, err
	}
	_, err = tx.Commit(uint64(len(keys)), "", record.Ledger{})
	return seen, err
}

// TestAnswers marks the same keys in rounds of different number, by different
// micro-batches and memory: the answers are the same as a map's.
func TestAnswers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	keys := make([]uint64, 20000)
	for i := range keys {
		keys[i] = rnd.Uint64N(12000) * 0x9e3779b97f4a7c15 // 0 is among them
	}
	known := map[uint64]bool{}
	want := make([]bool, len(keys))
	for i, k := range keys {
		want[i] = known[k]
		known[k] = true
	}
	all := slices.Sorted(maps.Keys(known))
	for _, c := range []struct {
		rounds, micro int
		mem           int64
	}{{1, 8192, 1 << 20}, {1, 8192, 0}, {1, 100, 0}, {3, 1000, 1 << 20}, {40, 8192, 0}, {40, 37, 1 << 20}} {
		t.Run(fmt.Sprintf("%d rounds by %d", c.rounds, c.micro), func(t *testing.T) {
			st := newStore(t, nil)
			var got []bool
			for r := range c.rounds {
				seen, err := markAll(st, "", keys[r*len(keys)/c.rounds:(r+1)*len(keys)/c.rounds], c.micro, c.mem, Options{})
				must.OK(t, err)
				got = append(got, seen...)
			}
			if !slices.Equal(got, want) {
				t.Error("other answers")
			}
			if !slices.Equal(keysOf(t, st), all) {
				t.Error("another set")
			}
			sum, err := Describe(st)
			must.OK(t, err)
			if sum.Count != uint64(len(all)) || len(sum.Runs) > maxRuns || sum.Batches != uint64(c.rounds) {
				t.Errorf("%d keys in %d runs after %d batches", sum.Count, len(sum.Runs), sum.Batches)
			}
		})
	}
}

// TestCrash stops a change that merges runs at every call of the file system: what
// reopens is the old set or the new one, and the change can be made again.
func TestCrash(t *testing.T) {
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) { testCrash(t, Options{Workers: workers}) })
	}
}

func testCrash(t *testing.T, opt Options) {
	rnd := rand.New(rand.NewPCG(3, 4))
	batch := func() []uint64 {
		keys := make([]uint64, 300)
		for i := range keys {
			keys[i] = rnd.Uint64()
		}
		return keys
	}
	base := crashtest.New()
	st := newStore(t, base)
	for range 8 {
		if _, err := markAll(st, "", batch(), 100, 0, opt); err != nil {
			t.Fatal(err)
		}
	}
	old := keysOf(t, st)
	fresh := batch()
	after := slices.Sorted(slices.Values(append(slices.Clone(old), fresh...)))
	reopen := func(fsys *crashtest.FS) *store.Store {
		st, err := store.Open("/crawl-less/content", Kind, Version, store.Options{FS: fsys})
		must.OK(t, err)
		return st
	}
	var merged, kept int
	for n := 1; ; n++ {
		fsys := base.AfterCrash(crashtest.KeepAll)
		fsys.CrashAt(n)
		_, err := markAll(reopen(fsys), "", fresh, 100, 0, opt)
		if !fsys.Crashed() {
			must.OK(t, err)
			if n < 10 {
				t.Fatalf("a change made only %d calls", n-1)
			}
			break
		}
		for loss := crashtest.Loss(0); loss < 4; loss++ {
			back := fsys.AfterCrash(loss)
			switch got := keysOf(t, reopen(back)); {
			case slices.Equal(got, old):
				kept++
			case slices.Equal(got, after):
				merged++
			default:
				t.Fatalf("crash at call %d, loss %d: %d keys, want %d or %d", n, loss, len(got), len(old), len(after))
			}
			if _, err := markAll(reopen(back), "", fresh, 100, 0, opt); err != nil {
				t.Fatalf("crash at call %d, loss %d: again: %v", n, loss, err)
			}
			if got := keysOf(t, reopen(back)); !slices.Equal(got, after) {
				t.Fatalf("crash at call %d, loss %d: again: %d keys, want %d", n, loss, len(got), len(after))
			}
		}
	}
	if kept == 0 || merged == 0 {
		t.Errorf("%d crashes left the old set, %d the new one: want both", kept, merged)
	}
}

func TestDamage(t *testing.T) {
	st := newStore(t, nil)
	_, err := markAll(st, "", []uint64{1, 2, 3}, 10, 0, Options{})
	must.OK(t, err)
	sum, err := Describe(st)
	must.OK(t, err)
	path := st.Path(sum.Runs[0].Path)
	b, err := durable.ReadFile(durable.OS, path, 1<<20)
	must.OK(t, err)
	for at := range b {
		c := slices.Clone(b)
		c[at] ^= 1
		must.OK(t, durable.WriteFile(durable.OS, path, c))
		s, err := LoadCurrent(st, Options{})
		if err == nil {
			err = s.Check(nil)
			s.Close()
		}
		if fault.ClassOf(err).ExitCode() != 3 {
			t.Fatalf("byte %d damaged: %v", at, err)
		}
	}
	must.OK(t, durable.WriteFile(durable.OS, path, b[:len(b)-1]))
	if _, err := LoadCurrent(st, Options{}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a run cut short: %v", err)
	}
}

func TestAddAgain(t *testing.T) {
	st := newStore(t, nil)
	input := func(keys ...uint64) []*Input {
		return []*Input{{Name: "x", Polynomial: 0x911498AE0E66BAD6, open: func() (merge.Source, error) { return merge.Keys(keys), nil }}}
	}
	ctx := context.Background()
	if n, err := Add(ctx, st, "r1", input(1, 2, 3), Options{}); n.Distinct != 3 || n.Fresh != 3 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := Add(ctx, st, "r1", input(1, 2, 3), Options{}); n.Distinct != 3 || n.Fresh != 0 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := Add(ctx, st, "r1", input(1, 2, 4), Options{}); !errors.Is(err, fault.Conflict) {
		t.Errorf("other keys under the same name: %v", err)
	}
	in := input(9)
	in[0].Polynomial = 5
	if _, err := Add(ctx, st, "", in, Options{}); !errors.Is(err, fault.WrongKind) {
		t.Errorf("another polynomial: %v", err)
	}
	if got := keysOf(t, st); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("the set is %v", got)
	}
}

func TestTable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	var tab table
	want := map[uint64]bool{}
	for range 50000 {
		k := rnd.Uint64N(20000) << 40
		if tab.has(k) != want[k] {
			t.Fatalf("has(%x) = %v", k, !want[k])
		}
		if !want[k] {
			tab.put(k)
			want[k] = true
		}
	}
	if tab.len() != len(want) {
		t.Errorf("%d keys, want %d", tab.len(), len(want))
	}
	if got := tab.drain(); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Error("drain gives other keys")
	}
	if tab.len() != 0 || tab.has(0) {
		t.Error("drain leaves keys behind")
	}
}
