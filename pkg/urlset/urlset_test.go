package urlset_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fingerprint"
	"mercator/pkg/fpset"
	"mercator/pkg/stage"
	"mercator/pkg/urlset"
)

// sink keeps a stage's output in memory.
type sink struct{ bytes.Buffer }

func (*sink) Options() record.WriterOptions { return record.WriterOptions{Name: "sink"} }
func (*sink) Publish() error                { return nil }
func (*sink) Abort()                        {}

func newStore(t testing.TB) *store.Store {
	t.Helper()
	dir := t.TempDir() + "/urls"
	if err := urlset.Create(dir, fpset.CreateOptions{}, store.Options{}); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(dir, urlset.Kind, urlset.Version, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func link(url string, n int) record.Link {
	return record.Link{SrcURL: "http://src.test/", URL: url, Host: "a.test", Key: fingerprint.URLKey("a.test", url), Depth: uint16(n % 7), Score: float32(n), Discovered: record.Time(n + 1)}
}

// stream encodes rows as a whole record stream.
func stream[T record.Row](t testing.TB, rows []T) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter[T](&b, record.WriterOptions{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	rowsOut, hash, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	l := record.Ledger{Stages: []record.Stage{{Name: "test", Out: rowsOut, OutHash: hash.String(), Made: []record.Count{{Reason: "test", N: rowsOut}}}}}
	if _, err := w.Commit(l); err != nil {
		t.Fatal(err)
	}
	return &b
}

// unseen runs one batch of links through the URL-seen test.
func unseen(t *testing.T, st *store.Store, txn string, links []record.Link, mem int64) ([]record.URL, urlset.Stats, stage.Result) {
	t.Helper()
	in, err := record.NewReader[record.Link](stream(t, links), record.ReaderOptions{Name: "links"})
	if err != nil {
		t.Fatal(err)
	}
	var out sink
	var stats urlset.Stats
	spec := stage.Spec{Name: "murlset new", Verb: "new", Store: st, Txn: txn, Spooled: true, LateLock: true}
	res, err := stage.Run(context.Background(), spec, in, []stage.Sink{&out}, func(ctx context.Context, b *stage.Batch[record.Link, record.URL]) (err error) {
		stats, err = urlset.New(ctx, st, b, urlset.Options[record.Link]{Convert: urlset.FromLink, Cache: urlset.CacheSize, Memory: mem, Progress: func(int64) {}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := record.NewReader[record.URL](&out, record.ReaderOptions{Name: "out"})
	if err != nil {
		t.Fatal(err)
	}
	var rows []record.URL
	for {
		var row record.URL
		if err := r.Read(&row); err != nil {
			break
		}
		rows = append(rows, row)
	}
	if err := r.Trailer().Ledger.Balance(); err != nil {
		t.Error(err)
	}
	return rows, stats, res
}

// TestUnseen cuts the same links into batches of different number and memory: the
// same rows go on, in order of arrival, first occurrence only.
func TestUnseen(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	links := make([]record.Link, 12000)
	for i := range links {
		links[i] = link(fmt.Sprintf("http://a.test/%d", rnd.IntN(5000)), i)
	}
	var want []record.URL
	known := map[string]bool{}
	for i := range links {
		if !known[links[i].URL] {
			known[links[i].URL] = true
			var u record.URL
			urlset.FromLink(&links[i], &u)
			want = append(want, u)
		}
	}
	for _, c := range []struct {
		batches int
		mem     int64
	}{{1, 64 << 20}, {1, 0}, {7, 0}, {30, 64 << 20}} {
		t.Run(fmt.Sprint(c.batches), func(t *testing.T) {
			st := newStore(t)
			var got []record.URL
			for b := range c.batches {
				part := links[b*len(links)/c.batches : (b+1)*len(links)/c.batches]
				rows, stats, res := unseen(t, st, fmt.Sprintf("r%d", b), part, c.mem)
				got = append(got, rows...)
				if res.Stage.In != uint64(len(part)) || res.Stage.Passed != uint64(len(rows)) || stats.Fresh != uint64(len(rows)) {
					t.Errorf("batch %d: books %+v, stats %+v, %d rows", b, res.Stage, stats, len(rows))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d rows, want %d, or other ones", len(got), len(want))
			}
		})
	}
}

func TestRepeat(t *testing.T) {
	st := newStore(t)
	links := []record.Link{link("http://a.test/1", 1), link("http://a.test/2", 2), link("http://a.test/1", 3)}
	first, _, _ := unseen(t, st, "r1", links, 0)
	again, _, res := unseen(t, st, "r1", links, 0)
	if len(first) != 2 || !slices.Equal(first, again) || !res.Repeated {
		t.Errorf("first %v, again %v, repeated %v", first, again, res.Repeated)
	}
	next, _, _ := unseen(t, st, "r2", links, 0)
	if len(next) != 0 {
		t.Errorf("r2 let %v through again", next)
	}
}

// TestMemory: the heap does not grow with the batch.
func TestMemory(t *testing.T) {
	const mem = 8 << 20
	st := newStore(t)
	b := &counted{n: 400_000}
	var most uint64
	spec := stage.Spec{Name: "murlset add", Verb: "add", Store: st, Spooled: true, LateLock: true, NoOutput: true}
	var calls int
	_, err := stage.Run(context.Background(), spec, b, nil, func(ctx context.Context, b *stage.Batch[record.Link, record.URL]) error {
		_, err := urlset.New(ctx, st, b, urlset.Options[record.Link]{Convert: urlset.FromLink, Cache: urlset.CacheSize, Quiet: true, Memory: mem, Progress: func(int64) {
			if calls++; calls%100_000 == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The cache of popular URLs takes about 12 MiB on top, the writer of the spool a few.
	if most > mem+24<<20 {
		t.Errorf("heap of %d MiB, want about %d", most>>20, (mem+12<<20)>>20)
	}
}

// counted makes n different links.
type counted struct {
	n, at int
	sum   record.RowHasher[record.Link]
}

func (c *counted) Schema() *record.Schema { return &record.Schema{Kind: record.KindLink} }
func (c *counted) Trailer() record.Trailer {
	rows, hash := c.sum.Sum()
	return record.Trailer{Verified: true, Rows: rows, Hash: hash}
}
func (c *counted) Read(row *record.Link) error {
	if c.at == c.n {
		return io.EOF
	}
	*row = link(fmt.Sprintf("http://a.test/%d", c.at), c.at)
	c.at++
	c.sum.Add(row)
	return nil
}
