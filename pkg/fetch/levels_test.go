package fetch

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/must"
	"mercator/pkg/merge"
)

// TestLevels holds levels to a map: values by ids, some of which differ in their second half alone,
// with several values of an id, while what is stale is left out.
func TestLevels(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	l := levels{dir: t.TempDir(), kind: "test", keep: func(value []byte) bool { return value[0] != 'x' }}
	defer l.close()
	model := map[id][]string{} // oldest first
	text := func() id {
		n := rnd.IntN(3000)
		if n < 100 {
			return id{15: byte(n)}
		}
		return idOf(fmt.Sprint(n))
	}
	for round := range 60 {
		rows := &unsorted{Sorter: merge.NewSorter(0, l.dir)}
		for k := range 1 + rnd.IntN(300) {
			i, value := text(), fmt.Sprintf("%c%d.%d", "abx"[rnd.IntN(3)], round, k)
			must.OK(t, rows.addRow(i, func(b []byte) []byte { return append(b, value...) }))
			if value[0] != 'x' {
				model[i] = append(model[i], value)
			}
		}
		must.OK(t, rows.addRunTo(&l))
		if len(l.runs) > 8 {
			t.Fatalf("round %d: %d runs", round, len(l.runs))
		}
		for range 100 {
			i := text()
			var all []string
			must.OK(t, l.find(i, func(value []byte) bool { all = append(all, string(value)); return false }))
			slices.Sort(all)
			if want := slices.Sorted(slices.Values(model[i])); !slices.Equal(all, want) {
				t.Fatalf("round %d: %q, want %q", round, all, want)
			}
			var first string
			if err := l.find(i, func(value []byte) bool { first = string(value); return true }); err != nil || len(all) > 0 && first == "" {
				t.Fatalf("round %d: first is %q, %v", round, first, err)
			}
		}
	}
	n := 0
	must.OK(t, l.each(func([]byte) error { n++; return nil }))
	for _, all := range model {
		n -= len(all)
	}
	if n != 0 {
		t.Errorf("%d values too many", n)
	}
}

// interruptedStore makes a store in which a round of n contacts, pages and robots.txt in turn,
// was interrupted.
func interruptedStore(tb testing.TB, n int) *Options {
	tb.Helper()
	dir := tb.TempDir() + "/fetch"
	must.OK(tb, CreateStore(dir, "", store.Options{}))
	st, err := store.Open(dir, Kind, Version, store.Options{})
	must.OK(tb, err)
	opt := &Options{Store: st, Archiving: Archiving{Codec: warc.Gzip, WARCSize: 1 << 40}, Txn: "r1", Hooks: Hooks{Now: time.Now}}
	a, tx := openedArchive(tb, opt)
	for i := range n {
		row := record.Fetch{URL: fmt.Sprintf("http://h%d.test/%d", i%1000, i), Role: record.RolePage, Outcome: record.OutcomeTimeout, FetchTime: record.TimeOf(time.Now())}
		if i%2 == 1 {
			row.URL, row.Role = fmt.Sprintf("http://h%d.test/robots.txt", i), record.RoleRobots
		}
		g, err := encodeGroup(a.enc, a.round, &row, nil, nil)
		if err == nil {
			_, _, err = a.append(g)
		}
		must.OK(tb, err)
		g.free()
	}
	must.OK(tb, a.w.Flush())
	a.close()
	tx.Abort()
	return opt
}

func openedArchive(tb testing.TB, opt *Options) (*archive, *store.Tx) {
	tb.Helper()
	tx, _, err := opt.Store.Begin(tb.Context(), "fetch", opt.Txn)
	must.OK(tb, err)
	a, err := openArchive(opt.Store, tx, opt, warc.Round{Txn: opt.Txn, Epoch: tx.Epoch()})
	must.OK(tb, err)
	return a, tx
}

// TestMemoryOfSavedContacts: what is known of the contacts of an interrupted round is on disk.
func TestMemoryOfSavedContacts(t *testing.T) {
	const n = 20_000
	opt := interruptedStore(t, n)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	a, tx := openedArchive(t, opt)
	if grown := heap() - before; grown > 256<<10 {
		t.Errorf("%d KiB for %d contacts", grown>>10, n)
	}
	defer tx.Abort()
	defer a.close()
	if a.saved.n != n {
		t.Fatalf("%d contacts found again, want %d", a.saved.n, n)
	}
}
