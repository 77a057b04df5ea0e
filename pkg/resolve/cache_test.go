package resolve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/stage"
)

// memSink keeps the output in memory.
type memSink struct{ bytes.Buffer }

func (*memSink) Options() record.WriterOptions { return record.WriterOptions{} }
func (*memSink) Publish() error                { return nil }
func (*memSink) Abort()                        {}

func newDNSStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dns")
	if err := CreateStore(dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runBatch resolves hosts through the store in one batch.
func runBatch(t *testing.T, dir, txn string, opt Options, hosts ...string) ([]record.URL, Stats, error) {
	t.Helper()
	st, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return runOn(t, st, txn, opt, hosts...)
}

func runOn(t *testing.T, st *store.Store, txn string, opt Options, hosts ...string) ([]record.URL, Stats, error) {
	t.Helper()
	var in bytes.Buffer
	like := record.NewSchema(record.KindURL, record.Column{Name: "place"})
	w, err := record.NewWriter[record.URL](&in, record.WriterOptions{Txn: txn, Like: like})
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range hosts {
		u := fmt.Sprintf("http://%s/%d", h, i)
		place := like.Extra(func(string) uint64 { return uint64(i) })
		if err := w.Write(&record.URL{URL: u, Host: h, Key: fingerprint.URLKey(h, u), Extra: place}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(record.Ledger{}); err != nil {
		t.Fatal(err)
	}
	rows, err := record.NewReader[record.URL](&in, record.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if opt.Memory == 0 {
		opt.Memory = 16 << 20
	}
	var stats Stats
	var out memSink
	_, failed := stage.Run(t.Context(), stage.Spec{Name: "mresolve", Verb: "resolve", Store: st, Txn: txn}, rows, []stage.Output{&out},
		func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) (err error) {
			stats, err = Resolve(ctx, st, b, opt)
			return err
		})
	if failed != nil && out.Len() == 0 {
		return nil, stats, failed
	}
	r, err := record.NewReader[record.URL](&out, record.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []record.URL
	for {
		var row record.URL
		err := r.Read(&row)
		if err == io.EOF || failed != nil && err != nil {
			return got, stats, failed
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
	}
}

func TestABatchKeepsOrderAndFillsTheCache(t *testing.T) {
	var asked atomic.Int32
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		asked.Add(1)
		if strings.HasPrefix(q.Name, "no") {
			m.Rcode = dns.RcodeNameError
			return true
		}
		if strings.HasPrefix(q.Name, "slow") {
			time.Sleep(20 * time.Millisecond)
		}
		m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 600}, A: net.IPv4(127, 0, 0, byte(len(q.Name)))})
		return true
	})
	now := testNow
	clock := func() time.Time { return now }
	r, err := New(Config{Servers: []string{addr}, Family: "4", Timeout: patience, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Resolver: r, Now: clock}
	dir := newDNSStore(t)
	hosts := []string{"slow.test", "a.test:8080", "no.test", "a.test", "127.9.9.9:80", "slow.test"}
	check := func(rows []record.URL) {
		t.Helper()
		want := []string{"127.0.0.10 ", "127.0.0.7 ", " nxdomain", "127.0.0.7 ", "127.9.9.9 ", "127.0.0.10 "}
		for i, w := range want {
			if got := rows[i].Addr + " " + rows[i].AddrError; got != w || rows[i].Host != hosts[i] || rows[i].AddrExpires == 0 {
				t.Errorf("row %d: %s %q, want %s %q", i, rows[i].Host, got, hosts[i], w)
			}
		}
	}
	rows, stats, err := runBatch(t, dir, "r1", opt, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	check(rows)
	if n := asked.Load(); n != 3 || stats.Names != 4 || stats.Asked != 3 || stats.Failed != 1 {
		t.Errorf("%d questions, %+v", n, stats)
	}

	// The next batch is answered from the store, and adds to it.
	rows, stats, err = runBatch(t, dir, "r2", opt, append(hosts, "more.test")...)
	if err != nil {
		t.Fatal(err)
	}
	check(rows)
	if n := asked.Load(); n != 4 || stats.Cached != 4 {
		t.Errorf("%d questions, %+v", n, stats)
	}

	// What has expired is asked again, and leaves the file.
	now = now.Add(599 * time.Second)
	if _, stats, err = runBatch(t, dir, "r3", opt, "no.test", "more.test"); err != nil {
		t.Fatal(err)
	}
	if stats.Cached != 1 || asked.Load() != 5 {
		t.Errorf("%d questions, %+v", asked.Load(), stats)
	}
	now = now.Add(time.Hour)
	if _, _, err = runBatch(t, dir, "r4", opt, "last.test"); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rows := cached(t, st); len(rows) != 1 || !strings.HasPrefix(rows[0], "last.test ") {
		t.Errorf("the cache holds %v", rows)
	}
}

func TestManyNamesOverSeveralBlocks(t *testing.T) {
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 600}, A: net.IPv4(127, 0, 0, 1)})
		return true
	})
	r, err := New(Config{Servers: []string{addr}, InFlight: 32, Family: "4", Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Resolver: r, Now: time.Now}
	dir := newDNSStore(t)
	var hosts []string
	for i := range 8*blockRows + 500 {
		hosts = append(hosts, fmt.Sprintf("h%d.test", i%2000))
	}
	for round, wantAsked := range []uint64{2000, 0} {
		rows, stats, err := runBatch(t, dir, fmt.Sprintf("r%d", round), opt, hosts...)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != len(hosts) || stats.Asked != wantAsked || stats.Failed != 0 {
			t.Errorf("%d rows, %+v, want %d asked", len(rows), stats, wantAsked)
		}
	}
}

func TestReplayGivesTheSavedColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved.warc.gz")
	enc := warc.Encoder{Codec: warc.Gzip}
	var file []byte
	add := func(rec *warc.Record) {
		var err error
		if file, err = enc.Append(file, rec); err != nil {
			t.Fatal(err)
		}
	}
	expires := record.TimeOf(testNow.Add(time.Hour))
	for _, txn := range []string{"r1", "r2"} {
		add(warc.NewInfo("saved.warc.gz", testNow, warc.Round{Txn: txn}, nil))
		add(warc.NewHostname(testNow, warc.Hostname{Host: "a.test:8080", Addr: "127.0.0.2,127.0.0.1", Expires: expires}))
		if txn == "r2" {
			add(warc.NewHostname(testNow, warc.Hostname{Host: "b.test", Error: "servfail", Expires: expires}))
		}
	}
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
	replay, err := OpenReplay([]warc.Part{{Path: path, Length: -1}}, "r2", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	opt := Options{Replay: replay, Now: time.Now}
	rows, _, err := runBatch(t, newDNSStore(t), "r2", opt, "b.test", "a.test:8080", "b.test")
	if err != nil {
		t.Fatal(err)
	}
	if rows[1].Addr != "127.0.0.2,127.0.0.1" || rows[1].AddrExpires != expires || rows[0].AddrError != "servfail" || rows[2].Addr != "" {
		t.Errorf("%+v", rows)
	}
	if _, _, err := runBatch(t, newDNSStore(t), "r2", opt, "c.test"); !errors.Is(err, fault.Conflict) {
		t.Errorf("a host that was not saved: %v", err)
	}
	other, err := OpenReplay([]warc.Part{{Path: path, Length: -1}}, "r1", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, _, err := runBatch(t, newDNSStore(t), "r1", Options{Replay: other, Now: time.Now}, "b.test"); !errors.Is(err, fault.Conflict) {
		t.Errorf("a host of another round: %v", err)
	}
}

// TestOneAnswerForEachHost lets answers expire while a batch of two blocks runs.
func TestOneAnswerForEachHost(t *testing.T) {
	var asked atomic.Int32
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		asked.Add(1)
		m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(127, 0, 0, 1)})
		return true
	})
	var ticks atomic.Int64
	clock := func() time.Time { return testNow.Add(time.Duration(ticks.Add(1)) * time.Hour) }
	r, err := New(Config{Servers: []string{addr}, Family: "4", Timeout: patience, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	hosts := make([]string, blockRows+10)
	for i := range hosts {
		hosts[i] = "a.test"
	}
	rows, _, err := runBatch(t, newDNSStore(t), "r1", Options{Resolver: r, Now: clock}, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if rows[i].AddrExpires != rows[0].AddrExpires {
			t.Fatalf("row %d expires at %v, row 0 at %v", i, rows[i].AddrExpires.Go(), rows[0].AddrExpires.Go())
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
}

// An answer in the cache is for the family that was asked for.
func TestCachedFamilies(t *testing.T) {
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		h := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 600}
		switch {
		case q.Qtype == dns.TypeA:
			m.Answer = append(m.Answer, &dns.A{Hdr: h, A: net.IPv4(192, 0, 2, 1)})
		case q.Name == "both.test.":
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: h, AAAA: net.ParseIP("2001:db8::1")})
		}
		return true
	})
	want := map[string]string{
		"any": "192.0.2.1,2001:db8::1  192.0.2.1 ", "4": "192.0.2.1  192.0.2.1 ", "6": "2001:db8::1   no-address",
	}
	for _, order := range []string{"any 4 6", "6 any 4", "4 6 any", "4 6 4"} {
		dir := newDNSStore(t)
		for i, family := range strings.Fields(order) {
			r, err := New(Config{Servers: []string{addr}, Timeout: patience, Family: family, Now: func() time.Time { return testNow }})
			if err != nil {
				t.Fatal(err)
			}
			rows, _, err := runBatch(t, dir, fmt.Sprintf("r%d", i), Options{Resolver: r, Now: func() time.Time { return testNow }}, "both.test", "four.test")
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s %s %s %s", rows[0].Addr, rows[0].AddrError, rows[1].Addr, rows[1].AddrError)
			if got != want[family] {
				t.Errorf("order %s: family %s: %q, want %q", order, family, got, want[family])
			}
		}
	}
}

// instant is a server without sockets, whose answers each take their host's number from a
// count of all questions.
type instant struct{ asked atomic.Int32 }

func (s *instant) exchange(_ context.Context, q *query, _ time.Duration) ([]byte, error) {
	n := s.asked.Add(1)
	return reply(q.wire, func(m *dns.Msg) {
		m.Answer = append(m.Answer, a(m.Question[0].Name, fmt.Sprintf("127.%d.%d.%d", n>>16, n>>8&0xff, n&0xff), 3600))
	}), nil
}

func (*instant) close() {}

func instantResolver(t *testing.T) (*Resolver, *instant) {
	t.Helper()
	r, err := New(Config{Servers: []string{"127.0.0.1"}, Family: "4", Now: func() time.Time { return testNow }})
	if err != nil {
		t.Fatal(err)
	}
	s := &instant{}
	r.servers[0].main = inBackground(s)
	return r, s
}

// TestMoreHostsThanMemory: a batch of more hosts than its tables hold asks for each once and
// tells all its rows the same; the next one, whose store does not fit either, asks nobody.
func TestMoreHostsThanMemory(t *testing.T) {
	r, server := instantResolver(t)
	const distinct = 25_000
	hosts := make([]string, 2*distinct)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host%d.test", i%distinct)
	}
	opt := Options{Resolver: r, Now: r.cfg.Now, Memory: 1} // one chunk a table
	dir := newDNSStore(t)
	var first []record.URL
	for round := range 2 {
		rows, stats, err := runBatch(t, dir, fmt.Sprintf("r%d", round), opt, hosts...)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = rows
		}
		for i := range rows {
			if rows[i].Host != hosts[i] || rows[i].Addr == "" || rows[i].Addr != first[i%distinct].Addr {
				t.Fatalf("round %d, row %d: %s %q, want %s %q", round, i, rows[i].Host, rows[i].Addr, hosts[i], first[i%distinct].Addr)
			}
		}
		if stats.Failed != 0 || server.asked.Load() != distinct {
			t.Errorf("round %d: %+v, %d questions", round, stats, server.asked.Load())
		}
	}
	// Of a batch that is one block, only its names are taken from the store.
	for i, n := range []int{1, firstRows - 2, firstRows - 1, firstRows} {
		batch := append(slices.Clone(hosts[:n]), fmt.Sprintf("new%d.test", n))
		rows, stats, err := runBatch(t, dir, fmt.Sprintf("n%d", n), opt, batch...)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != n+1 || stats.Asked != 1 || server.asked.Load() != distinct+int32(i)+1 {
			t.Errorf("%d names: %d rows, %+v, %d questions", n, len(rows), stats, server.asked.Load())
		}
		for i := range rows[:n] {
			if rows[i].Addr != first[i].Addr {
				t.Fatalf("%d names, row %d: %q, want %q", n, i, rows[i].Addr, first[i].Addr)
			}
		}
	}
}

// bytes is the memory that s holds: its table, and what is kept of its runs.
func (s *entries) bytes() int {
	n := len(s.mem.chunks)*chunkSize + cap(s.mem.index)*8
	for _, r := range s.runs {
		n += cap(r.blocks)*16 + cap(r.last) + cap(r.buf)
	}
	return n
}

// TestWarmMemory: of a store of more names than a batch's table holds, only an index is in
// memory; so it is with answers that the batch adds.
func TestWarmMemory(t *testing.T) {
	r, _ := instantResolver(t)
	dir := newDNSStore(t)
	st, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const names, memory = 30_000, 16 << 20
	known := newEntries(64 << 20)
	defer known.Close()
	e := entry{Addr: "127.0.0.1", Expires: testNow.Add(time.Hour), Family: "4"}
	name := func(i int) string { return fmt.Sprintf("%d.%s.test", i, strings.Repeat("x", 60)) }
	for i := range names {
		if err := known.put(fingerprint.OfString(name(i)), name(i), &e); err != nil {
			t.Fatal(err)
		}
	}
	tx, _, err := st.Begin(t.Context(), "serve", "")
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Abort()
	if err := commit(tx, known, func() (cacheFiles, error) { return openBase(st, tx) }, testNow); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(0, "", record.Ledger{}); err != nil {
		t.Fatal(err)
	}
	b := &batch[record.URL]{opt: Options{Resolver: r, Memory: memory}, now: testNow, asked: newEntries(memory / askedPart)}
	if b.files, err = openBase(st, nil); err != nil {
		t.Fatal(err)
	}
	defer b.files.Close()
	defer b.asked.Close()
	if err := b.load(nil, false); err != nil {
		t.Fatal(err)
	}
	defer b.stored.Close()
	for at := 0; at < names; at += blockRows {
		first := make([]lookup, min(blockRows, names-at))
		for i := range first {
			first[i] = lookup{key: fingerprint.OfString(name(at + i)), name: name(at + i)}
		}
		if err := b.recall(first); err != nil {
			t.Fatal(err)
		}
		for i := range first {
			if !first[i].known || first[i].entry.Addr != e.Addr {
				t.Fatalf("%s is not known: %+v", first[i].name, first[i])
			}
		}
		for i := range blockRows {
			other := name(names + at + i)
			b.answered = append(b.answered, &inquiry{key: fingerprint.OfString(other), name: other, entry: e})
		}
		if err := b.learn(); err != nil {
			t.Fatal(err)
		}
		// An index and a block; and a table of as much as it may take.
		if n := b.stored.bytes(); n > 64<<10 {
			t.Fatalf("%d bytes for the store after %d names", n, at)
		}
		if n := b.asked.bytes(); n > memory/askedPart+256<<10 {
			t.Fatalf("%d bytes for answers after %d names", n, at)
		}
	}
	if !b.stored.onDisk() || !b.asked.onDisk() {
		t.Error("all fits: too few names for this test")
	}
}

// TestNoTempFile: where answers cannot be put aside a batch fails, whenever that is found
// out, and passes no row twice until then.
func TestNoTempFile(t *testing.T) {
	hosts := make([]string, 4*blockRows)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host%d.test", i)
	}
	dir := newDNSStore(t)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	for blocks := 3; blocks <= 4; blocks++ {
		for range 3 {
			r, _ := instantResolver(t)
			opt := Options{Resolver: r, Now: r.cfg.Now, Memory: 1} // one chunk a table
			rows, _, err := runBatch(t, dir, "r1", opt, hosts[:blocks*blockRows]...)
			if !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("%d blocks: %v", blocks, err)
			}
			for i := range rows {
				if rows[i].Host != hosts[i] {
					t.Fatalf("%d blocks: row %d is of %s", blocks, i, rows[i].Host)
				}
			}
		}
	}
}

// cached tells what a store's cache holds.
func cached(t testing.TB, st *store.Store) (rows []string) {
	t.Helper()
	files, err := openBase(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	m, err := files.merge()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.upTo(nil, func(c *cacheReader) error { rows = append(rows, c.row.Name+" "+c.row.Value); return nil }); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestCrashAtEveryCall stops the machine at every call of the file system while the cache is
// written: what is found then is the old one or the new one, and the batch can be repeated.
func TestCrashAtEveryCall(t *testing.T) {
	r, _ := instantResolver(t)
	opt := Options{Resolver: r, Now: r.cfg.Now}
	open := func(fsys durable.FS) (*store.Store, error) {
		return store.Open("/dns", StoreKind, StoreVersion, store.Options{FS: fsys})
	}
	batch := func(fsys durable.FS, txn string, hosts ...string) error {
		st, err := open(fsys)
		if err != nil {
			return err
		}
		_, _, err = runOn(t, st, txn, opt, hosts...)
		return err
	}
	found := func(fsys durable.FS) []string {
		st, err := open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		return cached(t, st)
	}
	base := durable.NewCrashFS()
	if err := CreateStore("/dns", store.Options{FS: base}); err != nil {
		t.Fatal(err)
	}
	if err := batch(base, "r1", "one.test", "two.test"); err != nil {
		t.Fatal(err)
	}
	before := found(base)
	whole := base.AfterCrash(durable.KeepAll)
	whole.CrashAt(0)
	if err := batch(whole, "r2", "two.test", "three.test"); err != nil {
		t.Fatal(err)
	}
	calls := whole.Calls()
	if len(before) != 2 || len(found(whole)) != 3 {
		t.Fatalf("before %v, after %v", before, found(whole))
	}
	for n := 1; n <= calls; n++ {
		trial := base.AfterCrash(durable.KeepAll)
		trial.CrashAt(n)
		crashed := batch(trial, "r2", "two.test", "three.test")
		for _, loss := range []durable.Loss{durable.LoseAll, durable.KeepAll, durable.Loss(1000 + n)} {
			fsys := trial.AfterCrash(loss)
			// The address of three.test is another in each trial.
			got := found(fsys)
			isNew := len(got) == 3 && strings.Contains(strings.Join(got, "\n"), "three.test {")
			if !isNew && (!slices.Equal(got, before) || crashed == nil) {
				t.Fatalf("call %d of %d, loss %d, error %v: the cache holds %v", n, calls, loss, crashed, got)
			}
			if err := batch(fsys, "r2", "two.test", "three.test"); err != nil || len(found(fsys)) != 3 {
				t.Fatalf("call %d of %d, loss %d: repeated: %v", n, calls, loss, err)
			}
		}
	}
}

// FuzzCacheFile reads any bytes, and any rows, as a cache file, and merges them with a new
// answer: that is a fault, or gives a cache that can be read and has the answer.
func FuzzCacheFile(f *testing.F) {
	stream := func(t testing.TB, text string) []byte {
		var rows []record.Module
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			rows = append(rows, record.Module{Key: fingerprint.OfString(name), Module: moduleName, Name: name, Value: value})
		}
		return cacheStream(t, rows...)
	}
	const valid = `two.test {"addr":"127.0.0.1,::1","expires":"2100-01-02T03:04:05Z"}`
	texts := []string{
		"", valid, valid + "\n" + valid, "\n\n", "two.test", "two.test {", " " + valid,
		"one.test {}\n" + valid, valid + "\none.test {}",
		`one.test {"addr":"x","expires":"2100-01-02T03:04:05Z"}`,
		`one.test {"expires":"0000-00-00T00:00:00Z"}`,
		`two.test {"expires":"9999-12-31T23:59:59.999999999Z","family":"4","error":"\u0000"}`,
	}
	for _, text := range texts {
		f.Add([]byte(text), true)
		f.Add(stream(f, text), false)
	}
	for _, v := range cacheVectors(f) {
		f.Add(v.Bytes, false)
	}
	whole := stream(f, valid)
	f.Add(whole[:len(whole)/2], false)
	f.Add(append(bytes.Clone(whole), whole...), false)
	whole[len(whole)/3] ^= 4
	f.Add(whole, false)
	r, err := New(Config{Servers: []string{"127.0.0.1:1"}, Now: func() time.Time { return testNow }})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, isText bool) {
		if isText {
			data = stream(t, string(data))
		}
		st := storeOf(t, data)
		check := func(err error) {
			if e := new(fault.Error); err != nil && (!errors.As(err, &e) || !strings.HasPrefix(e.File, "/dns/cache/")) {
				t.Fatalf("%v is no fault of the file", err)
			}
		}
		files, err := openBase(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		loaded, fresh := newEntries(1<<20), newEntries(1<<20)
		defer loaded.Close()
		check(files.load(r, testNow, nil, func(key uint64, name string, e *entry) error { return loaded.put(key, name, e) }))

		e := entry{Addr: "127.0.0.9", Expires: testNow.Add(time.Hour)}
		if err := fresh.put(fingerprint.OfString("two.test"), "two.test", &e); err != nil {
			t.Fatal(err)
		}
		err = changeStore(t, st, func(tx *store.Tx) error {
			return commit(tx, fresh, func() (cacheFiles, error) { return openBase(st, tx) }, testNow)
		})
		if check(err); err != nil {
			return
		}
		if got := strings.Join(cached(t, st), "\n"); strings.Count(got, `two.test {"addr":"127.0.0.9"`) != 1 {
			t.Fatalf("the cache holds %s", got)
		}
	})
}

// TestCacheFileOutOfOrder: a name twice, or before the one before it, is a fault, wherever
// it stands, and all before it is read.
func TestCacheFileOutOfOrder(t *testing.T) {
	var sorted []record.Module
	for i := range 4*2048 + 1 {
		name := fmt.Sprintf("h%d.test", i)
		sorted = append(sorted, record.Module{Key: fingerprint.OfString(name), Module: moduleName, Name: name, Value: `{"addr":"127.0.0.1","expires":"2100-01-02T03:04:05Z"}`})
	}
	slices.SortFunc(sorted, func(a, b record.Module) int { return compareRows(&a, &b) })
	for _, rows := range []int{1, 2047, 2048, 2049, 4 * 2048} {
		for _, back := range []int{0, 1} { // the last name again, or one before it
			list := append(slices.Clone(sorted[1:rows+1]), sorted[rows-back])
			read := 0
			m, err := cacheFiles{{name: "cache", in: io.NopCloser(bytes.NewReader(cacheStream(t, list...)))}}.merge()
			if err == nil {
				err = m.upTo(nil, func(*cacheReader) error { read++; return nil })
			}
			if !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "out of order") || read != rows {
				t.Errorf("%d rows in order, then one %d back: %d read, %v", rows, back, read, err)
			}
		}
	}
}

// TestCommitsMergeFiles: however many batches commit, the store has few files, a batch writes
// little beside its own answers, and of each name the newest answer is found.
func TestCommitsMergeFiles(t *testing.T) {
	r, err := New(Config{Servers: []string{"127.0.0.1:1"}, Now: func() time.Time { return testNow }})
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(newDNSStore(t), StoreKind, StoreVersion, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const batches, names, perBatch = 30, 10_000, 1000
	random := rand.New(rand.NewPCG(1, 2))
	newest := map[string]entry{}
	now := testNow
	var learnt, written int64
	for batch := range batches {
		now = now.Add(time.Minute)
		fresh := newEntries(1 << 20)
		for range perBatch {
			n := uint64(random.IntN(names))
			name := fmt.Sprintf("%016x.test", n*0x9e3779b97f4a7c15)
			e := entry{Addr: fmt.Sprintf("127.0.%d.%d", batch, random.IntN(256)), Expires: now.Add(time.Duration(1+n%100) * time.Minute)}
			if err := fresh.put(fingerprint.OfString(name), name, &e); err != nil {
				t.Fatal(err)
			}
			newest[name] = e
		}
		learnt += fresh.size()
		tx, _, err := st.Begin(t.Context(), "serve", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := commit(tx, fresh, func() (cacheFiles, error) { return openBase(st, tx) }, now); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(0, "", record.Ledger{}); err != nil {
			t.Fatal(err)
		}
		fresh.Close()

		files, err := openBase(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		written += files[len(files)-1].length
		if len(files) > 4 {
			t.Fatalf("%d files after %d batches", len(files), batch+1)
		}
		if batch%4 != 3 {
			files.Close()
			continue
		}
		found := map[string]entry{}
		err = files.load(r, now, nil, func(_ uint64, name string, e *entry) error { found[name] = *e; return nil })
		files.Close()
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range newest {
			if got := found[name]; want.Expires.After(now) && got != want {
				t.Fatalf("batch %d: %s: %+v, want %+v", batch, name, got, want)
			}
		}
		for name, got := range found {
			if !got.Expires.After(now) {
				t.Fatalf("batch %d: %s has expired: %+v", batch, name, got)
			}
		}
	}
	if written > 3*learnt {
		t.Errorf("%d bytes learnt, and %d written", learnt, written)
	}
}

// TestSpecialPurposeAddresses are told of each answer, and names that have no others counted.
func TestSpecialPurposeAddresses(t *testing.T) {
	zone := map[string]string{
		"public.test.": "A 8.8.8.8", "private.test.": "A 10.0.0.1", "lo.test.": "AAAA ::1", "mapped.test.": "AAAA ::ffff:10.0.0.1", "both.test.": "A 10.0.0.1",
	}
	addr := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		if record := rr(t, q.Name+" 60 IN "+zone[q.Name]); record.Header().Rrtype == q.Qtype {
			m.Answer = append(m.Answer, record)
		}
		if q.Name == "both.test." && q.Qtype == dns.TypeAAAA {
			m.Answer = append(m.Answer, rr(t, q.Name+" 60 IN AAAA 2606:4700::1111"))
		}
		return true
	})
	r := resolver(t, addr)
	dir := newDNSStore(t)
	hosts := []string{"public.test", "private.test", "lo.test", "mapped.test", "both.test", "127.0.0.1"}
	for _, want := range []Stats{{Names: 6, Cached: 1, Asked: 5, Special: 3}, {Names: 6, Cached: 6}} {
		if _, stats, err := runBatch(t, dir, "", Options{Resolver: r, Now: r.cfg.Now}, hosts...); err != nil || stats != want {
			t.Errorf("%+v, %v; want %+v", stats, err, want)
		}
	}
	for name, want := range map[string]string{"public.test": "", "private.test": "private use", "lo.test": "loopback", "mapped.test": "private use"} {
		kind, _, _ := strings.Cut(zone[name+"."], " ")
		res := oneName(t, r, name, kind)
		if len(res.Data.Answers) != 1 || res.Data.Answers[0].Special != want {
			t.Errorf("%s: %+v, want %q", name, res.Data.Answers, want)
		}
	}
}

// TestDamagedCacheFile: a file that is cut anywhere, or has one bit flipped, is refused, by a
// batch's reading and by a commit's.
func TestDamagedCacheFile(t *testing.T) {
	r, err := New(Config{Servers: []string{"127.0.0.1:1"}, Now: func() time.Time { return testNow }})
	if err != nil {
		t.Fatal(err)
	}
	row := record.Module{Key: fingerprint.OfString("one.test"), Module: moduleName, Name: "one.test", Value: `{"addr":"127.0.0.1","expires":"2100-01-02T03:04:05Z"}`}
	whole := cacheStream(t, row)
	load := func(b []byte) error {
		files := cacheFiles{{name: "cache", in: io.NopCloser(bytes.NewReader(b))}}
		return files.load(r, testNow, nil, func(uint64, string, *entry) error { return nil })
	}
	merge := func(b []byte) error {
		m, err := cacheFiles{{name: "cache", in: io.NopCloser(bytes.NewReader(b))}}.merge()
		if err != nil {
			return err
		}
		return m.upTo(nil, func(*cacheReader) error { return nil })
	}
	if err := cmp.Or(load(whole), merge(whole)); err != nil {
		t.Fatal(err)
	}
	check := func(what string, at int, err error) {
		if e := new(fault.Error); !errors.As(err, &e) || e.File != "cache" || e.Class.ExitCode() != 3 {
			t.Fatalf("%s byte %d of %d: %v", what, at, len(whole), err)
		}
	}
	for i := range whole {
		check("cut at", i, load(whole[:i]))
		if i%3 == 0 {
			flipped := bytes.Clone(whole)
			flipped[i] ^= 1 << (i / 3 % 8)
			check("flipped at", i, merge(flipped))
		}
	}
}

// TestBlocks: rows that come in batches of any size are in blocks once each, in order, and a
// block is bounded.
func TestBlocks(t *testing.T) {
	const rows = 12 * blockRows
	random := rand.New(rand.NewPCG(1, 2))
	var in bytes.Buffer
	w, err := record.NewWriter[record.URL](&in, record.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	left := 0 // of a batch of records
	for i := range rows {
		if err := w.Write(&record.URL{URL: "u", Key: uint64(i)}); err != nil {
			t.Fatal(err)
		}
		if left--; left < 0 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			left = 1 << random.IntN(13)
		}
	}
	if _, err := w.Commit(record.Ledger{}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, blockBytes / 100} { // bytes of a row's text
		for _, large := range []bool{false, true} { // the store is
			takeBlocks(t, in.Bytes(), rows, size, large)
		}
	}
}

// takeBlocks has a stream of so many rows cut into blocks.
func takeBlocks(t *testing.T, in []byte, rows, size int, large bool) {
	t.Helper()
	reader, err := record.NewReader[record.URL](bytes.NewReader(in), record.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stage.Run(t.Context(), stage.Spec{Name: "test", Shape: stage.Sink}, reader, nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		r := &batch[record.URL]{b: b, chunks: make(chan chunk[record.URL]), spare: make(chan []record.URL, 1)}
		if large {
			r.files = cacheFiles{{length: 1 << 30}}
		}
		r.use.size = func(*record.URL) int { return size }
		go r.read(ctx)
		n := 0
		for {
			most, bytes := blockRows, blockBytes+size
			c := <-r.chunks
			if r.company(ctx, &c); large {
				most, bytes = firstRows+blockRows, firstBytes+blockBytes+size
			}
			if len(c.rows) > most || len(c.rows)*size > bytes || c.size != len(c.rows)*size {
				t.Errorf("a block of %d rows, %d bytes", len(c.rows), c.size)
			}
			for i := range c.rows {
				if c.rows[i].Key != uint64(n) {
					t.Fatalf("row %d where %d was to come", c.rows[i].Key, n)
				}
				b.Consume()
				n++
			}
			if c.err == io.EOF {
				break
			} else if c.err != nil {
				return c.err
			}
			select {
			case r.spare <- c.rows[:0]:
			default:
			}
		}
		if n != rows {
			t.Errorf("%d rows, want %d", n, rows)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
