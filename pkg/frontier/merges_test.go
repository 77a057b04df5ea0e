package frontier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"mercator/formats/record"
	runfile "mercator/formats/run"
	"mercator/formats/store"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

func TestFull(t *testing.T) {
	for _, c := range []struct {
		tiers    string
		sequence string // 0: none
		from, to int
	}{
		{"", "", 0, 0}, {"00", "00", 0, 0}, {"000", "000", 0, 3}, {"1000", "0000", 1, 4}, {"11100", "00000", 0, 3}, {"111000", "000000", 3, 6}, {"2110000", "0000000", 3, 7},
		{"1111", "3344", 0, 0}, {"1111", "0033", 0, 4}, {"111100", "334400", 0, 0}, {"1111100", "3344500", 0, 5},
	} {
		t.Run(c.tiers+" "+c.sequence, func(t *testing.T) {
			var runs []run
			for i, r := range c.tiers {
				runs = append(runs, run{Tier: int(r - '0'), Chain: uint64(c.sequence[i] - '0')})
			}
			if from, to := fullTier(runs, 3); from != c.from || to != c.to {
				t.Errorf("%q %q: %d to %d, want %d to %d", c.tiers, c.sequence, from, to, c.from, c.to)
			}
		})
	}
}

// A buffer is the rows of a block; many front queues have smaller ones.
func TestBuffer(t *testing.T) {
	for _, c := range []struct {
		p     Params
		bytes int
		rows  int
	}{{Params{}, 64 << 10, 8192}, {Params{Priority: Priority{Queues: 4}}, 64 << 10, 8192}, {Params{Priority: Priority{Queues: 16}}, 16 << 10, 8192}, {Params{Policy: dynamic, Buffer: 600}, 512 << 10, 600}} {
		t.Run(fmt.Sprint(c.p.Priority.Queues, " queues ", c.p.Policy), func(t *testing.T) {
			text, err := c.p.Encode()
			must.OK(t, err)
			p, err := policyOf(&store.Manifest{Params: text})
			must.OK(t, err)
			if bytes, rows := p.blocks(); bytes != c.bytes || rows != c.rows {
				t.Errorf("%+v: blocks of %d bytes and %d rows, want %d and %d", c.p, bytes, rows, c.bytes, c.rows)
			}
		})
	}
	b := open(t, crashtest.New(), Params{Buffer: 16})
	var urls []record.URL
	for i := range 50 {
		urls = append(urls, newURL("a.test", fmt.Sprint(i), 0))
	}
	must.OK(t, b.add("", urls...))
	s, _, err := b.f.current()
	must.OK(t, err)
	in, file, err := openRun(b.f.st, s.Ready[0][0].Path)
	must.OK(t, err)
	defer file.Close()
	scan := in.Scan(runfile.Start)
	blocks := map[uint64]int{}
	for at := scan.Position(); ; at = scan.Position() {
		if _, _, err := scan.Next(); err != nil {
			break
		}
		blocks[at.Offset]++
	}
	if len(blocks) != 4 || blocks[runfile.Start.Offset] != 16 {
		t.Error(blocks)
	}
}

// With less memory sorters spill sooner; too little is refused.
func TestMemory(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	for bytes, want := range map[int64]float64{Memory: 1, 2 * Memory: 1, LeastMemory: 0.2} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			if err := b.f.SetMemory(bytes); err != nil || b.f.layout.sort != want {
				t.Errorf("%d bytes: %v of the sorters, %v", bytes, b.f.layout.sort, err)
			}
		})
	}
	if err := b.f.SetMemory(LeastMemory - 1); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
}

// mergeDue makes three runs of 5,000 URLs, which are due for a merge, and begins a change.
func mergeDue(t *testing.T) (*bench, *state, *store.Tx, list) {
	t.Helper()
	b := open(t, crashtest.New(), Params{Policy: dynamic})
	for i := range 3 {
		var urls []record.URL
		for k := range 5000 {
			urls = append(urls, newURL(fmt.Sprintf("h%d.test", k%50), fmt.Sprint(i, k), 0))
		}
		must.OK(t, b.add("", urls...))
	}
	s, _, err := b.f.current()
	must.OK(t, err)
	tx, _, err := b.f.st.Begin(context.Background(), "add", "")
	must.OK(t, err)
	t.Cleanup(tx.Abort)
	return b, s, tx, list{&s.Ready[0], "ready/0-", "ready", 3, every}
}

// A merge beside a change ends with it, and its errors are the change's.
func TestMergeBeside(t *testing.T) {
	b, s, tx, l := mergeDue(t)
	m, err := mergeBeside(context.Background(), b.f.st, tx, s, 1, 14_000, l)
	must.OK(t, err)
	if n, err := m.endMerges(tx); n != 14_000 || err != nil || len(s.Ready[0]) < 2 || s.Ready[0][0].Rows != n {
		t.Error(n, err, s.Ready[0])
	}
	m.stop()

	b, s, tx, l = mergeDue(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("gone")
	cancel(gone)
	m, err = mergeBeside(ctx, b.f.st, tx, s, 1, 15_000, l)
	must.OK(t, err)
	if _, err := m.endMerges(tx); err != gone {
		t.Error(err)
	}
	m.stop()

	b, s, tx, l = mergeDue(t)
	path := b.f.st.Path(s.Ready[0][1].Path)
	file, err := b.fs.OpenFile(path, os.O_RDWR, 0)
	must.OK(t, err)
	_, err = file.WriteAt([]byte("damage"), 200)
	must.OK(t, err)
	m, err = mergeBeside(context.Background(), b.f.st, tx, s, 1, 15_000, l)
	must.OK(t, err)
	if _, err := m.endMerges(tx); !errors.Is(err, fault.Corrupt) {
		t.Error(err)
	}
	m.stop()
}

// holders counts the files that had each waiting URL, over a frontier's life.
type holders struct {
	files map[string]bool
	urls  map[string]int
}

func (h *holders) look(b *bench) {
	b.t.Helper()
	s, _, err := b.f.current()
	must.OK(b.t, err)
	for _, runs := range s.Ready {
		for _, r := range runs {
			if h.files[r.Path] {
				continue
			}
			h.files[r.Path] = true
			in, file, err := openRun(b.f.st, r.Path)
			must.OK(b.t, err)
			scan := in.Scan(runfile.Start)
			var e Entry
			for {
				key, payload, err := scan.Next()
				if err != nil {
					break
				}
				must.OK(b.t, e.Parse(key, payload))
				h.urls[e.URL.URL]++
			}
			file.Close()
		}
	}
}

// A host with very many URLs among others: none of its URLs is written again more than
// three times, and no update copies much more than it writes.
func TestRewritesAreFewAndSpread(t *testing.T) {
	for _, p := range []Params{{Policy: dynamic}, {Seed: 3, Priority: Priority{Queues: 2}}} {
		b := open(t, crashtest.New(), p)
		b.f.layout = layout{queueFan: 4, hostFan: 4, step: 1, sort: 1}
		const rounds, each, big = 200, 12, 600 // 200 < 4^4
		held := holders{map[string]bool{}, map[string]int{}}
		var urls []record.URL
		for i := range big {
			urls = append(urls, newURL("big.test", fmt.Sprint(i), 0))
		}
		must.OK(t, b.add("", urls...))
		var copied []uint64
		before := uint64(0)
		for r := range rounds {
			held.look(b)
			txn := fmt.Sprintf("r%d", r)
			batch, err := b.next(record.Time(r+1), NextOptions{N: 7, Txn: txn})
			must.OK(t, err)
			var fresh []record.URL
			for i := range each {
				fresh = append(fresh, newURL(fmt.Sprintf("h%d.test", (r*each+i*i)%300), fmt.Sprint(r, i), uint8(i%3)))
			}
			must.OK(t, b.update(txn, record.Time(r+1), fetchesOf(batch, record.OutcomeFetched, 200, record.Time(r+1)), fresh...))
			st, err := b.f.Stat(context.Background(), StatOptions{})
			must.OK(t, err)
			copied = append(copied, st.Rewritten-before)
			before = st.Rewritten
			if r%20 == 0 {
				b.check()
			}
		}
		most := 0
		for u, n := range held.urls {
			if most = max(most, n-1); n-1 > 3 {
				t.Errorf("%s was written again %d times", u, n-1)
			}
		}
		slices.Sort(copied)
		t.Logf("%+v: rewritten at most %d times, %d in all; rows copied by an update: median %d, most %d", p, most, before, copied[rounds/2], copied[rounds-1])
		if worst := copied[rounds-1]; worst > 3*each {
			t.Errorf("an update of %d URLs copied %d", each, worst)
		}
		if most < 2 {
			t.Error("nothing was merged twice")
		}
	}
}
