package fetch

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
)

// TestTable holds a table to a map: what is put under ids, some of them beside each other,
// in place of what was there, while it grows and leaves out what is stale.
func TestTable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	tb := table{dir: t.TempDir(), stale: func(v nums) bool { return v[0] < 0 }}
	defer tb.close()
	if v, err := tb.get(idOf("x")); v != (nums{}) || err != nil {
		t.Fatalf("in an empty table stands %v, %v", v, err)
	}
	model := map[id]nums{}
	text := func() id {
		n := rnd.IntN(6000)
		i := idOf(fmt.Sprint(n))
		if n < 50 { // where the file ends
			binary.BigEndian.PutUint64(i[:], 1<<64-1)
		}
		return i
	}
	for n := range int64(20_000) {
		i, v := text(), nums{rnd.Int64N(9) - 1, n, -n}
		if err := tb.put(i, v); err != nil {
			t.Fatal(err)
		}
		model[i] = v
		if i = text(); n%3 == 0 {
			got, err := tb.get(i)
			if want := model[i]; err != nil || got != want && (got != (nums{}) || want[0] >= 0) {
				t.Fatalf("after %d: %v, %v; want %v", n, got, err, want)
			}
		}
	}
	maps.DeleteFunc(model, func(_ id, v nums) bool { return v[0] < 0 })
	got := map[id]nums{}
	if err := tb.each(func(i id, v nums) error { got[i] = v; return nil }); err != nil || !maps.Equal(got, model) {
		t.Errorf("%d entries, %v; want %d", len(got), err, len(model))
	}
	if tb.bits <= leastBits {
		t.Error("the table did not grow")
	}
}

// interruptedStore makes a store in which a round of n contacts, pages and robots.txt in turn,
// was interrupted.
func interruptedStore(tb testing.TB, n int) *Options {
	tb.Helper()
	dir := tb.TempDir() + "/fetch"
	if err := CreateStore(dir, store.Options{}); err != nil {
		tb.Fatal(err)
	}
	st, err := store.Open(dir, Kind, Version, store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	opt := &Options{Store: st, Codec: warc.Gzip, WARCSize: 1 << 40, Txn: "r1", Now: time.Now}
	a, tx := openedArchive(tb, opt)
	for i := range n {
		row := record.Fetch{URL: fmt.Sprintf("http://h%d.test/%d", i%1000, i), Role: record.RolePage, Outcome: record.OutcomeTimeout, FetchTime: record.TimeOf(time.Now())}
		if i%2 == 1 {
			row.URL, row.Role = fmt.Sprintf("http://h%d.test/robots.txt", i), record.RoleRobots
		}
		g, err := encodeGroup(a.enc, a.round, &row, nil, nil)
		if err == nil {
			_, _, err = a.append(g.b)
		}
		if err != nil {
			tb.Fatal(err)
		}
		g.free()
	}
	if err := a.w.Flush(); err != nil {
		tb.Fatal(err)
	}
	a.close()
	tx.Abort()
	return opt
}

func openedArchive(tb testing.TB, opt *Options) (*archive, *store.Tx) {
	tb.Helper()
	tx, _, err := opt.Store.Begin(tb.Context(), "fetch", opt.Txn)
	if err != nil {
		tb.Fatal(err)
	}
	a, err := openArchive(opt.Store, tx, opt, warc.Round{Txn: opt.Txn, Epoch: tx.Epoch()})
	if err != nil {
		tb.Fatal(err)
	}
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
