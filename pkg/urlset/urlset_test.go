package urlset_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
	"mercator/pkg/fpset"
	"mercator/pkg/urlset"
	"mercator/pkg/web/canon"
)

func newStore(t testing.TB) *store.Store {
	t.Helper()
	dir := t.TempDir() + "/urls"
	must.OK(t, urlset.Create(dir, fpset.CreateOptions{}, store.Options{}))
	st, err := store.Open(dir, urlset.Kind, urlset.Version, store.Options{})
	must.OK(t, err)
	return st
}

func link(url string, n int) record.Link {
	return record.Link{SrcURL: "http://src.test/", URL: url, Host: "a.test", Key: fingerprint.URLKey("a.test", url), Depth: uint16(n % 7), Score: 1 / float32(n+1), Discovered: record.Time(n + 1)}
}

// way is one of the ways in which a batch can be tested.
type way struct {
	online bool
	mem    int64
	cache  int

	together int
}

func (w way) shape() stage.Shape {
	if w.online {
		return stage.Filter
	}
	return stage.Gate
}

func (w way) spec(st *store.Store, verb, txn string) stage.Spec {
	return stage.Spec{Name: "murlset " + verb, Verb: verb, Store: st, Txn: txn, Shape: w.shape()}
}

func body[In record.Row](w way, st *store.Store, opt urlset.Options[In], stats *urlset.Stats) func(context.Context, *stage.Batch[In, record.URL]) error {
	opt.Memory, opt.Cache, opt.LookupBatch, opt.Progress = w.mem, w.cache, w.together, func(int64) {}
	return func(ctx context.Context, b *stage.Batch[In, record.URL]) (err error) {
		if w.online {
			*stats, err = urlset.Online(ctx, st, b, opt)
		} else {
			*stats, err = urlset.New(ctx, st, b, opt)
		}
		return err
	}
}

// unseen runs one batch of links through the URL-seen test.
func unseen(t *testing.T, st *store.Store, txn string, links []record.Link, w way) ([]record.URL, urlset.Stats, stage.Result) {
	t.Helper()
	in := recordtest.Reader[record.Link](t, recordtest.Stream(t, record.WriterOptions{}, links...))
	var out recordtest.Output
	var stats urlset.Stats
	res, err := stage.Run(context.Background(), w.spec(st, "new", txn), in, []stage.Output{&out}, body(w, st, urlset.Options[record.Link]{Convert: urlset.FromLink}, &stats))
	must.OK(t, err)
	return urlsOf(t, &out.Buffer), stats, res
}

// urlsOf decodes a whole stream with a ledger that balances.
func urlsOf(t *testing.T, out *bytes.Buffer) []record.URL {
	t.Helper()
	rows, end := recordtest.Rows[record.URL](t, out)
	if err := end.Ledger.Balance(); err != nil {
		t.Error(err)
	}
	return rows
}

// firsts are the url rows of the links with a URL that did not come before.
func firsts(links []record.Link) (want []record.URL) {
	known := map[string]bool{}
	for i := range links {
		if !known[links[i].URL] {
			known[links[i].URL] = true
			var u record.URL
			urlset.FromLink(&links[i], &u)
			want = append(want, u)
		}
	}
	return want
}

// TestUnseen cuts the same links into batches and tests them in ways chosen at
// random, each batch in another: the same rows go on, in order of arrival, first
// occurrence only.
func TestUnseen(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			links := make([]record.Link, 200+rnd.IntN(6000))
			for i := range links {
				links[i] = link(fmt.Sprintf("http://a.test/%d", rnd.IntN(1+len(links)/2)), i)
			}
			st := newStore(t)
			var got []record.URL
			for b, rest := 0, links; len(rest) > 0; b++ {
				part := rest[:min(len(rest), 1+rnd.IntN(len(links)/2))]
				rest = rest[len(part):]
				w := way{online: rnd.IntN(2) == 0, mem: []int64{0, 100_000, 64 << 20}[rnd.IntN(3)], cache: []int{0, 1, 50, urlset.CacheSize}[rnd.IntN(4)], together: []int{1, 7, urlset.LookupBatch}[rnd.IntN(3)]}
				rows, stats, res := unseen(t, st, fmt.Sprintf("r%d", b), part, w)
				got = append(got, rows...)
				if res.Stage.In != uint64(len(part)) || res.Stage.Passed != uint64(len(rows)) || stats.Fresh != uint64(len(rows)) ||
					stats.CacheHits+stats.CacheMisses != uint64(len(part)) {
					t.Errorf("batch %d, %+v: ledger %+v, stats %+v, %d rows", b, w, res.Stage, stats, len(rows))
				}
			}
			if want := firsts(links); !slices.Equal(got, want) {
				t.Errorf("%d rows, want %d, or other ones", len(got), len(want))
			}
		})
	}
}

func TestRepeat(t *testing.T) {
	for _, w := range []way{{}, {online: true}} {
		testRepeat(t, w)
	}
}

func testRepeat(t *testing.T, w way) {
	st := newStore(t)
	links := []record.Link{link("http://a.test/1", 1), link("http://a.test/2", 2), link("http://a.test/1", 3)}
	first, _, _ := unseen(t, st, "r1", links, w)
	again, _, res := unseen(t, st, "r1", links, w)
	if len(first) != 2 || !slices.Equal(first, again) || !res.Repeated {
		t.Errorf("first %v, again %v, repeated %v", first, again, res.Repeated)
	}
	next, _, _ := unseen(t, st, "r2", links, w)
	if len(next) != 0 {
		t.Errorf("r2 let %v through again", next)
	}
}

// TestOnlineAtOnce: a row goes on while the input has not ended, and the set stays
// as it was until it has.
func TestOnlineAtOnce(t *testing.T) {
	st := newStore(t)
	in := &handed{rows: make(chan record.Link)}
	out := pipe{make(chan []byte)}
	w := way{online: true, cache: 10}
	var stats urlset.Stats
	done := make(chan error)
	go func() {
		_, err := stage.Run(context.Background(), w.spec(st, "new", "r1"), in, []stage.Output{out}, body(w, st, urlset.Options[record.Link]{Convert: urlset.FromLink}, &stats))
		done <- err
	}()
	<-out.writes // the schema
	for i := range 3 {
		in.rows <- link(fmt.Sprintf("http://a.test/%d", i), i)
		<-out.writes
	}
	m, err := st.Current()
	must.OK(t, err)
	if len(m.Files) != 0 {
		t.Errorf("the set has changed before the end: %v", m.Files)
	}
	close(in.rows)
	go func() {
		for range out.writes { // end of stream and trailer
		}
	}()
	if err := <-done; err != nil || stats.Fresh != 3 {
		t.Errorf("%d fresh rows, %v", stats.Fresh, err)
	}
	close(out.writes)
}

// pipe tells of each write, and waits until it is heard.
type pipe struct{ writes chan []byte }

func (p pipe) Write(b []byte) (int, error) { p.writes <- b; return len(b), nil }
func (pipe) Options() record.WriterOptions {
	return record.WriterOptions{Name: "pipe", FlushAfter: time.Millisecond}
}
func (pipe) Publish() error { return nil }
func (pipe) Abort()         {}

// handed gives the rows that it is handed.
type handed struct {
	rows chan record.Link
	sum  record.RowHasher[record.Link]
}

func (h *handed) Schema() *record.Schema { return &record.Schema{Kind: record.KindLink} }
func (h *handed) Trailer() record.Trailer {
	rows, hash := h.sum.Sum()
	return record.Trailer{Verified: true, Rows: rows, Hash: hash}
}
func (h *handed) Read(row *record.Link) error {
	l, ok := <-h.rows
	if !ok {
		return io.EOF
	}
	*row = l
	h.sum.Add(row)
	return nil
}

// TestMemory: the heap does not grow with the batch.
func TestMemory(t *testing.T) {
	const mem = 8 << 20
	st := newStore(t)
	b := &counted{n: 400_000}
	var most uint64
	spec := stage.Spec{Name: "murlset add", Verb: "add", Store: st, Shape: stage.Sink}
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
	must.OK(t, err)
	// The cache of popular URLs takes about 12 MiB on top, the runs that are merged a few.
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

// A set of another polynomial takes for one what is one by url_key, and no more.
func TestKeyOfRules(t *testing.T) {
	poly, err := fingerprint.NewPoly(0xd800000000000000)
	must.OK(t, err)
	form := canon.Options{KeyRules: canon.WWW | canon.TrailingSlash}
	key := func(url, from string) uint64 {
		u, host, k, err := form.Redirect(from, url)
		must.OK(t, err)
		return urlset.KeyOf(poly, form, &record.URL{URL: u, Host: host, Key: k})
	}
	const other = "http://other.test/"
	if a, b := key("http://www.a.test/x/", other), key("http://a.test/x", other); a != b || a != poly.URLKey("a.test", "http://a.test/x") {
		t.Errorf("keys %x and %x of one URL", a, b)
	}
	if a, b := key("http://www.a.test/x", "http://a.test/x"), key("http://www.a.test/x", other); a == b {
		t.Error("the target of a redirect has the key of the URL that it stands at")
	}
	if a, b := urlset.KeyOf(poly, form, &record.URL{URL: "http://www.a.test/", Host: "www.a.test"}), key("http://a.test/", other); a != b {
		t.Errorf("a row without url_key has %x, want %x", a, b)
	}
}

// TestUnknownColumns: what a row carries beside the columns that the format names comes out as it came in.
func TestUnknownColumns(t *testing.T) {
	in, err := os.ReadFile("../../formats/record/testdata/good/extra-column.arrows.zst")
	must.OK(t, err)
	r := recordtest.Reader[record.URL](t, bytes.NewReader(in))
	if len(r.Schema().ExtraColumns()) == 0 {
		t.Fatal("the vector has no unknown column")
	}
	var out recordtest.Output
	spec := stage.Spec{Name: "murlset new", Verb: "new", Store: newStore(t), Shape: stage.Gate}
	_, err = stage.Run(t.Context(), spec, r, []stage.Output{&out}, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		_, err := urlset.New(ctx, spec.Store, b, urlset.Options[record.URL]{Convert: urlset.FromURL, Like: r.Schema(), Memory: 1 << 20, Progress: func(int64) {}})
		return err
	})
	must.OK(t, err)
	if _, end := recordtest.Rows[record.URL](t, &out); end.Rows != 3 || end.Hash != r.Trailer().Hash {
		t.Errorf("%d rows with hash %v, want those of %v", end.Rows, end.Hash, r.Trailer().Hash)
	}
}

// TestScores: a score comes out to the bit, whether rows wait in memory or on disk: the hash of rows is made of its bits.
func TestScores(t *testing.T) {
	scores := []float32{0, float32(math.Copysign(0, -1)), math.Float32frombits(0x7fc00001), math.Float32frombits(0xffc00000), float32(math.Inf(-1)), 1}
	links := make([]record.Link, 30_000)
	for i := range links {
		links[i] = link(fmt.Sprintf("http://a.test/%d", i), i)
		links[i].Score = scores[i%len(scores)]
	}
	for _, w := range []way{{mem: 64 << 20}, {}, {online: true}} {
		t.Run(fmt.Sprintf("online %v, memory %d", w.online, w.mem), func(t *testing.T) {
			rows, _, _ := unseen(t, newStore(t), "r1", links, w)
			for i := range rows {
				if got, want := math.Float32bits(rows[i].Score), math.Float32bits(links[i].Score); got != want {
					t.Fatalf("%+v, row %d: score %08x, want %08x", w, i, got, want)
				}
			}
			if len(rows) != len(links) {
				t.Errorf("%+v: %d rows, want %d", w, len(rows), len(links))
			}
		})
	}
}

// TestBestScore: of the links of a batch to one URL the first goes on, with the highest score and the page of that link, whatever the order of the
// others, the cache and the memory. A link without a score changes nothing.
func TestBestScore(t *testing.T) {
	at := func(page int) string { return fmt.Sprintf("http://src.test/%d", page) }
	tests := []struct {
		name   string
		scores []float32
		best   int
	}{
		{"one", []float32{0.5}, 0},
		{"none", []float32{0, 0, 0}, 0},
		{"rising", []float32{0.1, 0.2, 0.3}, 2},
		{"falling", []float32{0.3, 0.2, 0.1}, 0},
		{"equal", []float32{0.2, 0.4, 0.4}, 1},
		{"after none", []float32{0, 0.1, 0}, 1},
		{"below 0", []float32{-2, -1, -3}, 1},
		{"0 is none", []float32{-1, 0}, 0},
		{"not a number", []float32{0.1, float32(math.NaN()), 0.2}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			urls := 300 // more than the smallest cache has
			if tt.name == "rising" {
				urls = 9000 // and more than the set is asked for together
			}
			var links []record.Link
			var want []record.URL
			for n, score := range tt.scores {
				for k := range urls {
					l := link(fmt.Sprintf("http://a.test/%d", k), 7*n+n)
					l.Score, l.SrcURL = score, at(n)
					if links = append(links, l); n > 0 {
						continue
					}
					u := l.ToURL()
					u.Score, u.Via = tt.scores[tt.best], at(tt.best)
					want = append(want, u)
				}
			}
			for _, w := range []way{{mem: 64 << 20}, {mem: 64 << 20, cache: 1 << 16}, {cache: 100}, {}} {
				st := newStore(t)
				got, stats, _ := unseen(t, st, "r1", links, w)
				if !slices.EqualFunc(got, want, func(a, b record.URL) bool { return a == b }) {
					t.Errorf("%+v: %d rows, want %d; the first is %+v, want %+v", w, len(got), len(want), got[0], want[0])
				}
				if rows := uint64(len(links)); stats.CacheMisses+stats.CacheHits != rows || stats.Keys != uint64(urls) {
					t.Errorf("%+v: %+v", w, stats)
				}
				if got, _, _ := unseen(t, st, "r2", links, w); len(got) > 0 {
					t.Errorf("%+v: %d rows of the next batch", w, len(got))
				}
			}
		})
	}
}
