package resolve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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
	"mercator/formats/record/recordtest"
	"mercator/formats/run"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
)

func newDNSStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dns")
	must.OK(t, CreateStore(dir, store.Options{}))
	return dir
}

// runBatch resolves hosts through the store in one batch.
func runBatch(t *testing.T, dir, txn string, opt Options, hosts ...string) ([]record.URL, Stats, error) {
	t.Helper()
	st, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
	must.OK(t, err)
	return runOn(t, st, txn, opt, hosts...)
}

func runOn(t *testing.T, st *store.Store, txn string, opt Options, hosts ...string) ([]record.URL, Stats, error) {
	t.Helper()
	like := record.NewSchema(record.KindURL, record.Column{Name: "place"})
	var urls []record.URL
	for i, h := range hosts {
		u := fmt.Sprintf("http://%s/%d", h, i)
		place := like.Extra(func(string) uint64 { return uint64(i) })
		urls = append(urls, record.URL{URL: u, Host: h, Key: fingerprint.URLKey(h, u), Extra: place})
	}
	rows := recordtest.Reader[record.URL](t, recordtest.Stream(t, record.WriterOptions{Txn: txn, Like: like}, urls...))
	if opt.Memory == 0 {
		opt.Memory = 16 << 20
	}
	var stats Stats
	var out recordtest.Output
	_, failed := stage.Run(t.Context(), stage.Spec{Name: "mresolve", Verb: "resolve", Store: st, Txn: txn}, rows, []stage.Output{&out},
		func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) (err error) {
			stats, err = Resolve(ctx, st, b, opt)
			return err
		})
	if failed != nil && out.Len() == 0 {
		return nil, stats, failed
	}
	r := recordtest.Reader[record.URL](t, &out)
	var got []record.URL
	for {
		var row record.URL
		err := r.Read(&row)
		if err == io.EOF || failed != nil && err != nil {
			return got, stats, failed
		}
		must.OK(t, err)
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
	must.OK(t, err)
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
	must.OK(t, err)
	check(rows)
	if n := asked.Load(); n != 3 || stats.Names != 4 || stats.Asked != 3 || stats.Failed != 1 {
		t.Errorf("%d questions, %+v", n, stats)
	}

	// The next batch is answered from the store, and adds to it.
	rows, stats, err = runBatch(t, dir, "r2", opt, append(hosts, "more.test")...)
	must.OK(t, err)
	check(rows)
	if n := asked.Load(); n != 4 || stats.Cached != 4 {
		t.Errorf("%d questions, %+v", n, stats)
	}

	// What has expired is asked again, and leaves the file.
	now = now.Add(599 * time.Second)
	_, stats, err = runBatch(t, dir, "r3", opt, "no.test", "more.test")
	must.OK(t, err)
	if stats.Cached != 1 || asked.Load() != 5 {
		t.Errorf("%d questions, %+v", asked.Load(), stats)
	}
	now = now.Add(time.Hour)
	_, _, err = runBatch(t, dir, "r4", opt, "last.test")
	must.OK(t, err)
	st, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
	must.OK(t, err)
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
	must.OK(t, err)
	opt := Options{Resolver: r, Now: time.Now}
	dir := newDNSStore(t)
	var hosts []string
	for i := range 8*blockRows + 500 {
		hosts = append(hosts, fmt.Sprintf("h%d.test", i%2000))
	}
	for round, wantAsked := range []uint64{2000, 0} {
		rows, stats, err := runBatch(t, dir, fmt.Sprintf("r%d", round), opt, hosts...)
		must.OK(t, err)
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
		file, err = enc.Append(file, rec)
		must.OK(t, err)
	}
	expires := record.TimeOf(testNow.Add(time.Hour))
	for _, txn := range []string{"r1", "r2"} {
		add(warc.NewInfo("saved.warc.gz", testNow, warc.Round{Txn: txn}, nil))
		add(warc.NewHostname(testNow, warc.Hostname{Host: "a.test:8080", Addr: "127.0.0.2,127.0.0.1", Expires: expires}))
		if txn == "r2" {
			add(warc.NewHostname(testNow, warc.Hostname{Host: "b.test", Error: "servfail", Expires: expires}))
			add(warc.NewHostname(testNow, warc.Hostname{Host: "alone.test"}))                    // mfetch looked up its name itself
			add(warc.NewHostname(testNow, warc.Hostname{Host: "other.test", Addr: "127.0.0.3"})) // by another resolver
		}
	}
	must.OK(t, os.WriteFile(path, file, 0o666))
	replay, err := OpenReplay([]warc.Part{{Path: path, Length: -1}}, "r2", 1<<20)
	must.OK(t, err)
	defer replay.Close()
	opt := Options{Replay: replay, Now: time.Now}
	rows, _, err := runBatch(t, newDNSStore(t), "r2", opt, "b.test", "a.test:8080", "b.test", "alone.test", "other.test")
	must.OK(t, err)
	if rows[1].Addr != "127.0.0.2,127.0.0.1" || rows[1].AddrExpires != expires || rows[0].AddrError != "servfail" || rows[2].Addr != "" ||
		rows[3].Addr != "" || rows[3].AddrError != "" || rows[4].Addr != "127.0.0.3" || rows[4].AddrExpires != 0 {
		t.Errorf("%+v", rows)
	}
	if _, _, err := runBatch(t, newDNSStore(t), "r2", opt, "c.test"); !errors.Is(err, fault.Conflict) {
		t.Errorf("a host that was not saved: %v", err)
	}
	other, err := OpenReplay([]warc.Part{{Path: path, Length: -1}}, "r1", 1<<20)
	must.OK(t, err)
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
	must.OK(t, err)
	hosts := make([]string, blockRows+10)
	for i := range hosts {
		hosts[i] = "a.test"
	}
	rows, _, err := runBatch(t, newDNSStore(t), "r1", Options{Resolver: r, Now: clock}, hosts...)
	must.OK(t, err)
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
			must.OK(t, err)
			rows, _, err := runBatch(t, dir, fmt.Sprintf("r%d", i), Options{Resolver: r, Now: func() time.Time { return testNow }}, "both.test", "four.test")
			must.OK(t, err)
			got := fmt.Sprintf("%s %s %s %s", rows[0].Addr, rows[0].AddrError, rows[1].Addr, rows[1].AddrError)
			if got != want[family] {
				t.Errorf("order %s: family %s: %q, want %q", order, family, got, want[family])
			}
		}
	}
}

// TestOtherServersAreAsked: a failure counts as long as the same servers would be asked, and an address for all.
func TestOtherServersAreAsked(t *testing.T) {
	of := func(here string) string {
		return serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
			if q.Name != here {
				m.Rcode = dns.RcodeNameError
			} else if q.Qtype == dns.TypeA {
				m.Answer = append(m.Answer, a(q.Name, "192.0.2.1", 600))
			}
			return true
		})
	}
	one, two := of("one.test."), of("two.test.")
	dir := newDNSStore(t)
	for i, step := range []struct {
		servers []string
		want    string // what is said of one.test and two.test
		asked   uint64
	}{
		{[]string{one}, "192.0.2.1 nxdomain", 2},
		{[]string{one}, "192.0.2.1 nxdomain", 0},
		{[]string{two}, "192.0.2.1 192.0.2.1", 1},
		{[]string{one}, "192.0.2.1 192.0.2.1", 0},
	} {
		r, err := New(Config{Servers: step.servers, Timeout: patience, Now: func() time.Time { return testNow }})
		must.OK(t, err)
		rows, stats, err := runBatch(t, dir, fmt.Sprintf("r%d", i), Options{Resolver: r, Now: func() time.Time { return testNow }}, "one.test", "two.test")
		must.OK(t, err)
		got := rows[0].Addr + rows[0].AddrError + " " + rows[1].Addr + rows[1].AddrError
		if got != step.want || stats.Asked != step.asked {
			t.Errorf("%d: %q, %d asked, want %q, %d", i, got, stats.Asked, step.want, step.asked)
		}
	}
}

// instant is a server without sockets: its answers each take their host's number from a
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
	must.OK(t, err)
	s := &instant{}
	r.servers[0].main = inBackground(s)
	return r, s
}

// TestMoreHostsThanMemory: a batch of more hosts than its tables hold asks for each once and
// tells all its rows the same; the next one, with a store that does not fit either, asks nobody.
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
		must.OK(t, err)
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
	must.OK(t, err)
	defer files.Close()
	for _, row := range merged(t, files) {
		rows = append(rows, fmt.Sprintf("%s %s%s %s", row.Host, row.Addr, row.AddrError, row.AddrExpires.Go().Format(time.RFC3339)))
	}
	return rows
}

// merged gives the rows of files, merged.
func merged(t testing.TB, files cacheFiles) (rows []record.URL) {
	t.Helper()
	var out bytes.Buffer
	w := run.NewWriter(&out, KindAnswers)
	must.OK(t, cmp.Or(files.merge(w, 0), w.Close()))
	f, err := openFile(fileOf(out.Bytes()), int64(out.Len()), "merged")
	must.OK(t, err)
	scan := f.run.Scan(run.Start)
	for {
		key, payload, err := scan.Next()
		if err == io.EOF {
			return rows
		}
		var row record.URL
		must.OK(t, cmp.Or(err, f.parse(key, payload, &row)))
		rows = append(rows, row)
	}
}

// memFile is a file in memory.
type memFile struct{ *bytes.Reader }

func (memFile) Close() error { return nil }

func fileOf(b []byte) memFile { return memFile{bytes.NewReader(b)} }

// runOf makes a cache file of rows, as they stand.
func runOf(t testing.TB, rows ...record.URL) []byte {
	t.Helper()
	var out bytes.Buffer
	w := run.NewWriter(&out, KindAnswers)
	for i := range rows {
		must.OK(t, w.Add(rows[i].Key, record.AppendRow(nil, &rows[i])))
	}
	must.OK(t, w.Close())
	return out.Bytes()
}

func cacheRow(name, addr, failure string) record.URL {
	return record.URL{Key: fingerprint.OfString(name), Host: name, Addr: addr, AddrError: failure, AddrExpires: record.TimeOf(testNow.Add(time.Hour))}
}

// TestCacheFileRefused: a file with a row that is no answer, or that is cut or has a bit flipped, is
// refused by a batch's search and by a commit's merge, with the file's name.
func TestCacheFileRefused(t *testing.T) {
	good := cacheRow("one.test", "127.0.0.1,::1", "")
	with := func(change func(row *record.URL)) []byte {
		row := good
		change(&row)
		return runOf(t, row)
	}
	files := map[string][]byte{
		"want the FP64 of a name":       with(func(row *record.URL) { row.Host = "two.test" }),
		"key 0000000000000000":          with(func(row *record.URL) { row.Host, row.Key = "", 0 }),
		"family 5":                      with(func(row *record.URL) { row.Priority = 5 }),
		"in an answer of family 4":      with(func(row *record.URL) { row.Priority = 4 }),
		"in an answer of family 6":      with(func(row *record.URL) { row.Priority = 6 }),
		"want IP addresses":             with(func(row *record.URL) { row.Addr = "one" }),
		"want IP addresses with commas": with(func(row *record.URL) { row.Addr = "127.0.0.1,,127.0.0.2" }),
		`"fe80::1%eth0"`:                with(func(row *record.URL) { row.Addr = "fe80::1%eth0" }),
		`addresses "", error ""`:        with(func(row *record.URL) { row.Addr = "" }),
		`error "nxdomain"`:              with(func(row *record.URL) { row.AddrError = "nxdomain" }),
		"expiry 0":                      with(func(row *record.URL) { row.AddrExpires = 0 }),
		"out of order":                  runOf(t, good, good),
	}
	whole := runOf(t, cacheRow("three.test", "", StatusNXDomain), good)
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1 << (i % 8)
		files[fmt.Sprintf("cut at %d", i)], files[fmt.Sprintf("flipped at %d", i)] = whole[:i], flipped
	}
	for says, b := range files {
		t.Run(says, func(t *testing.T) {
			for _, how := range []string{"search", "merge"} {
				f, err := openFile(fileOf(b), int64(len(b)), "cache.run")
				table := newTable()
				n, _ := table.find(good.Host)
				m, _ := table.find("three.test")
				switch {
				case err != nil:
				case how == "merge":
					var out bytes.Buffer
					w := run.NewWriter(&out, KindAnswers)
					err = cmp.Or(cacheFiles{f}.merge(w, 0), w.Close())
					if err == nil && bytes.Equal(out.Bytes(), whole) {
						continue // it is the index that is damaged, which a merge does not need
					}
				case strings.HasPrefix(says, "want the FP64"), strings.HasPrefix(says, "key 0"): // it is not met
					continue
				default:
					_, err = f.search(table, table.sorted([]uint32{n, m}), func(uint32, *record.URL) bool { return says != "out of order" })
					if err == nil && says == "out of order" {
						continue // of two equal rows a search meets the first
					}
				}
				e := new(fault.Error)
				isCut := strings.HasPrefix(says, "cut") || strings.HasPrefix(says, "flipped")
				if !errors.As(err, &e) || e.File != "cache.run" || !isCut && (e.Class != fault.Corrupt || !strings.Contains(err.Error(), says)) {
					t.Errorf("%s: %s: %v", says, how, err)
				}
			}
		})
	}
}

// FuzzCacheFile: of any row, a search and a merge tell the same, without a panic; what is taken is
// written again as it was.
func FuzzCacheFile(f *testing.F) {
	f.Add("one.test", "127.0.0.1", "", "", uint8(0), int64(1))
	f.Add("one.test", "::1", "", "alias.test", uint8(6), int64(1))
	f.Add("two.test", "", "nxdomain", "", uint8(4), int64(-1))
	f.Add("", "x", "y", "", uint8(7), int64(0))
	f.Fuzz(func(t *testing.T, name, addr, failure, cname string, family uint8, expires int64) {
		row := record.URL{Key: fingerprint.OfString(name), Host: name, Addr: addr, AddrError: failure, Via: cname, Priority: family, AddrExpires: record.Time(expires)}
		b := runOf(t, row)
		file, err := openFile(fileOf(b), int64(len(b)), "cache.run")
		must.OK(t, err)
		table := newTable()
		n, _ := table.find(name)
		var found *record.URL
		_, searched := file.search(table, table.sorted([]uint32{n}), func(_ uint32, row *record.URL) bool { found = row; return true })
		w := run.NewWriter(io.Discard, KindAnswers)
		if err := (cacheFiles{file}).merge(w, math.MinInt64); (err == nil) != (searched == nil) {
			t.Fatalf("searched: %v; merged: %v", searched, err)
		}
		if searched == nil {
			a := answer{found.Addr, found.AddrError, found.Via, found.AddrExpires}
			if got := appendAnswer(nil, found.Key, found.Host, &a, found.Priority, found.Via); !bytes.Equal(got, record.AppendRow(nil, &row)) {
				t.Errorf("%+v becomes %x", row, got)
			}
		}
	})
}

// TestSearch holds search against a map: names with the same FP64 too, since these can be made on purpose.
func TestSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		table, l := newTable(), newLearnt(nil)
		defer l.Close()
		var asked []uint32
		known := map[string]string{}
		for i := range random.IntN(300) {
			name := fmt.Sprintf("host%d.test", i)
			if n, _ := table.find(name); random.IntN(2) == 0 {
				asked = append(asked, n)
			}
			if n, _ := l.find(name); random.IntN(2) == 0 {
				known[name] = fmt.Sprintf("127.0.0.%d", i%256)
				l.learn(n, &answer{addr: known[name], expires: 1})
			}
		}
		if err := l.flush(); err != nil || len(l.runs) == 0 {
			continue
		}
		want := len(asked)
		left, err := l.runs[0].search(table, table.sorted(asked), func(n uint32, row *record.URL) bool {
			if row.Host != table.name(n) || row.Addr != known[row.Host] {
				t.Fatalf("%s: %+v, want %s", table.name(n), row, known[row.Host])
			}
			delete(known, row.Host)
			want--
			return true
		})
		if err != nil || len(left) != want {
			t.Fatalf("%d of %d names are left, %v", len(left), want, err)
		}
		for _, s := range left {
			if known[table.name(s.number)] != "" {
				t.Fatalf("%s was not found", table.name(s.number))
			}
		}
	}
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
		must.OK(t, err)
		return cached(t, st)
	}
	base := crashtest.New()
	must.OK(t, CreateStore("/dns", store.Options{FS: base}), batch(base, "r1", "one.test", "two.test"))
	before := found(base)
	whole := base.AfterCrash(crashtest.KeepAll)
	whole.CrashAt(0)
	must.OK(t, batch(whole, "r2", "two.test", "three.test"))
	calls := whole.Calls()
	if len(before) != 2 || len(found(whole)) != 3 {
		t.Fatalf("before %v, after %v", before, found(whole))
	}
	for n := 1; n <= calls; n++ {
		trial := base.AfterCrash(crashtest.KeepAll)
		trial.CrashAt(n)
		crashed := batch(trial, "r2", "two.test", "three.test")
		for _, loss := range []crashtest.Loss{crashtest.LoseAll, crashtest.KeepAll, crashtest.Loss(1000 + n)} {
			fsys := trial.AfterCrash(loss)
			// The address of three.test is another in each trial.
			got := found(fsys)
			isNew := len(got) == 3 && strings.Contains(strings.Join(got, "\n"), "three.test 127.")
			if !isNew && (!slices.Equal(got, before) || crashed == nil) {
				t.Fatalf("call %d of %d, loss %d, error %v: the cache holds %v", n, calls, loss, crashed, got)
			}
			if err := batch(fsys, "r2", "two.test", "three.test"); err != nil || len(found(fsys)) != 3 {
				t.Fatalf("call %d of %d, loss %d: repeated: %v", n, calls, loss, err)
			}
		}
	}
}

// keep commits what was learnt to a store.
func keep(t *testing.T, st *store.Store, l *learnt, now time.Time) {
	t.Helper()
	must.OK(t, l.flush())
	tx, _, err := st.Begin(t.Context(), "resolve", "")
	must.OK(t, err)
	must.OK(t, commit(tx, st, l, record.TimeOf(now)))
	_, err = tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
}

// TestCommitsMergeFiles: however many batches commit, the store has few files, a batch writes
// little beside its own answers, and of each name the newest answer is found.
func TestCommitsMergeFiles(t *testing.T) {
	st, err := store.Open(newDNSStore(t), StoreKind, StoreVersion, store.Options{})
	must.OK(t, err)
	const batches, names, perBatch = 30, 10_000, 1000
	random := rand.New(rand.NewPCG(1, 2))
	newest := map[string]answer{}
	now := testNow
	var learnt, written uint64
	for batch := range batches {
		now = now.Add(time.Minute)
		l := newLearnt(nil)
		for range perBatch {
			i := uint64(random.IntN(names))
			name := fmt.Sprintf("%016x.test", i*0x9e3779b97f4a7c15)
			a := answer{addr: fmt.Sprintf("127.0.%d.%d", batch, random.IntN(256)), expires: record.TimeOf(now.Add(time.Duration(1+i%100) * time.Minute))}
			if n, isNew := l.find(name); isNew {
				l.learn(n, &a)
				newest[name] = a
			}
		}
		learnt += uint64(len(l.fresh))
		keep(t, st, l, now)
		l.Close()
		files, err := openBase(st, nil)
		must.OK(t, err)
		written += files[len(files)-1].run.Rows()
		if len(files) > 4 {
			t.Fatalf("%d files after %d batches", len(files), batch+1)
		}
		found := map[string]record.URL{}
		for _, row := range merged(t, files) {
			found[row.Host] = row
		}
		files.Close()
		for name, want := range newest {
			if got := found[name]; want.expires > record.TimeOf(now) && (got.Addr != want.addr || got.AddrExpires != want.expires) {
				t.Fatalf("batch %d: %s: %+v, want %+v", batch, name, got, want)
			}
		}
	}
	if written > 4*learnt {
		t.Errorf("%d answers learnt, and %d written", learnt, written)
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
		t.Run(name, func(t *testing.T) {
			kind, _, _ := strings.Cut(zone[name+"."], " ")
			res := oneName(t, r, name, kind)
			if len(res.Data.Answers) != 1 || res.Data.Answers[0].Special != want {
				t.Errorf("%s: %+v, want %q", name, res.Data.Answers, want)
			}
		})
	}
}
