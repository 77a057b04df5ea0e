package fetch_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/base/politeness"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/replay"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/robots"
)

// web is a protocol module for tests: replies by URL, and a log of contacts.
type web struct {
	mu      sync.Mutex
	replies map[string]string // raw HTTP; "" is a connection that fails
	log     []string
	delay   time.Duration
	onFetch func(url string)
}

func (w *web) Check(string) error { return nil }

func (w *web) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	w.mu.Lock()
	w.log = append(w.log, req.URL)
	raw, ok := w.replies[req.URL]
	w.mu.Unlock()
	if w.onFetch != nil {
		w.onFetch(req.URL)
	}
	time.Sleep(w.delay)
	if ok && raw == "" {
		return &fetch.Reply{Outcome: record.OutcomeConnect, Error: "connection refused"}
	}
	if !ok {
		raw = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
		if !strings.HasSuffix(req.URL, "/robots.txt") {
			raw = page("text of " + req.URL)
		}
	}
	return &fetch.Reply{Outcome: record.OutcomeFetched, Sent: []byte("GET " + req.URL + "\r\n\r\n"),
		Response: strings.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
}

func page(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=UTF-8\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func text(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// url makes a row; its host has an address of its own.
func url(s string) record.URL {
	host := strings.Split(s, "/")[2]
	fp := fingerprint.OfString(host)
	return record.URL{URL: s, Host: host, Key: fingerprint.URLKey(host, s),
		Addr: netip.AddrFrom4([4]byte{127, byte(fp), byte(fp >> 8), byte(fp >> 16)}).String()}
}

func stream(t testing.TB, txn string, rows []record.URL) stage.Input[record.URL] {
	t.Helper()
	return streamOf(t, &bytes.Buffer{}, txn, slices.Values(rows))
}

// streamOf writes rows to b, from where they are then read.
func streamOf(t testing.TB, b io.ReadWriter, txn string, rows iter.Seq[record.URL]) stage.Input[record.URL] {
	t.Helper()
	w, err := record.NewWriter[record.URL](b, record.WriterOptions{Txn: txn, Now: 1_000_000})
	must.OK(t, err)
	for row := range rows {
		must.OK(t, w.Write(&row))
	}
	n, hash, err := w.Finish()
	must.OK(t, err)
	counts := record.Stage{Name: "source", Out: n, OutHash: hash.String(), Made: []record.Count{{Reason: "due", N: n}}}
	_, err = w.Commit(record.Ledger{Stages: []record.Stage{counts}})
	must.OK(t, err)
	if f, ok := b.(*os.File); ok {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
	}
	r, err := record.NewReader[record.URL](b, record.ReaderOptions{Name: "in"})
	must.OK(t, err)
	return r
}

func newStore(t testing.TB) *store.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fetch")
	must.OK(t, fetch.CreateStore(dir, "", store.Options{}))
	return open(t, dir)
}

func open(t testing.TB, dir string) *store.Store {
	t.Helper()
	st, err := store.Open(dir, fetch.Kind, fetch.Version, store.Options{})
	must.OK(t, err)
	return st
}

func options(st *store.Store, w fetch.Protocol) fetch.Options {
	return fetch.Options{
		Store: st, Protocols: map[string]fetch.Protocol{"http": w}, Pace: fetch.Pace{Connections: 8}, Bounds: fetch.Bounds{BodyMax: 1 << 20},
		Robots:    func(b []byte) fetch.Rules { return robots.Parse(b).Group("mercator") },
		Archiving: fetch.Archiving{Codec: warc.Gzip, WARCSize: 1 << 30}, Hooks: fetch.Hooks{Now: time.Now}, Access: fetch.Access{DenyEvery: time.Millisecond},
	}
}

// names is a resolver that knows every name but expired.test.
type names struct{}

func (names) Resolve(_ context.Context, name string) ([]netip.Addr, time.Time, string) {
	if name == "expired.test" {
		return nil, time.Time{}, "nxdomain"
	}
	return []netip.Addr{netip.MustParseAddr("127.9.9.9")}, time.Now().Add(time.Hour), ""
}

// run fetches a batch and returns its rows. The rows of a store's first batch give the index that the store's archive gives.
func run(t testing.TB, opt fetch.Options, txn string, urls []record.URL) []record.Fetch {
	t.Helper()
	in := stream(t, txn, urls)
	opt.Txn, opt.Schema = txn, in.Schema()
	first := opt.Store.FS() == durable.OS && places(t, opt.Store).Records == 0
	rows := runBody(t, opt.Store, txn, in, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
		return fetch.Run(ctx, b, opt)
	})
	if first {
		sameIndex(t, opt.Store, rows)
	}
	return rows
}

func runBody(t testing.TB, st *store.Store, txn string, in stage.Input[record.URL], body func(context.Context, *stage.Batch[record.URL, record.Fetch]) error) []record.Fetch {
	t.Helper()
	out := &recordtest.Output{}
	spec := stage.Spec{Name: "mfetch", Verb: "fetch", Store: st, Txn: txn}
	_, err := stage.Run(t.Context(), spec, in, []stage.Output{out}, body)
	must.OK(t, err)
	return readAll(t, out)
}

func readAll(t testing.TB, out *recordtest.Output) []record.Fetch {
	t.Helper()
	rows, _ := recordtest.Rows[record.Fetch](t, &out.Buffer)
	return rows
}

// outcomes maps the pages to their outcomes and fails where a URL has not exactly one row.
func outcomes(t testing.TB, rows []record.Fetch, urls []record.URL) map[string]string {
	t.Helper()
	got := map[string]string{}
	for i := range rows {
		if rows[i].Role != record.RolePage {
			continue
		}
		if _, twice := got[rows[i].URL]; twice {
			t.Errorf("%s has two rows", rows[i].URL)
		}
		got[rows[i].URL] = rows[i].Outcome
	}
	for i := range urls {
		if _, ok := got[urls[i].URL]; !ok {
			t.Errorf("%s has no row", urls[i].URL)
		}
	}
	return got
}

func TestEveryOutcome(t *testing.T) {
	expired := url("http://expired.test/")
	expired.Addr = "" // names says that it does not exist
	unresolved := url("http://nx.test/")
	unresolved.Addr, unresolved.AddrError = "", "nxdomain"
	refused := url("http://private.test/")
	refused.Addr = "10.0.0.1"
	deny := filepath.Join(t.TempDir(), "deny")
	must.OK(t, os.WriteFile(deny, []byte("# stop\ndenied.test\nhttp://a.test/secret\n"), 0o644))
	w := &web{replies: map[string]string{
		"http://a.test/robots.txt":    text("User-agent: *\nDisallow: /private\n"),
		"http://a.test/moved":         "HTTP/1.1 302 Found\r\nLocation: ../x#frag\r\nContent-Length: 0\r\n\r\n",
		"http://a.test/bad":           "this is not HTTP",
		"http://down.test/robots.txt": "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
		"http://dead.test/robots.txt": "",
		"http://hop.test/robots.txt":  "HTTP/1.1 301 Moved\r\nLocation: http://other.test/rules.txt\r\nContent-Length: 0\r\n\r\n",
		"http://other.test/rules.txt": text("User-agent: *\nDisallow: /no\n"),
		"http://loop.test/robots.txt": "HTTP/1.1 301 Moved\r\nLocation: /robots.txt\r\nContent-Length: 0\r\n\r\n",
	}}
	want := map[string]string{
		"http://a.test/":             record.OutcomeFetched,
		"http://a.test/moved":        record.OutcomeFetched,
		"http://a.test/bad":          record.OutcomeProtocol,
		"http://a.test/private/x":    record.OutcomeRobotsDenied,
		"http://a.test/secret/plans": record.OutcomeDenied,
		"http://down.test/":          record.OutcomeRobotsUnreachable,
		"http://dead.test/":          record.OutcomeRobotsUnreachable,
		"http://hop.test/no/1":       record.OutcomeRobotsDenied,
		"http://hop.test/yes":        record.OutcomeFetched,
		"http://loop.test/":          record.OutcomeFetched, // five redirects: as if there were none
		"http://sub.denied.test/":    record.OutcomeDenied,
		"http://a.test:25/":          record.OutcomePort,
		"gopher://a.test/":           record.OutcomeScheme,
	}
	urls := []record.URL{expired, unresolved, refused}
	for u := range want {
		urls = append(urls, url(u))
	}
	want[expired.URL], want[unresolved.URL], want[refused.URL] = record.OutcomeDNS, record.OutcomeDNS, record.OutcomeAddress
	st := newStore(t)
	opt := options(st, w)
	opt.Resolver = names{}
	opt.Guard = func(a netip.Addr) (string, error) {
		if a == netip.MustParseAddr("10.0.0.1") {
			return "private use", nil
		}
		return "", nil
	}
	var err error
	opt.Deny, err = fetch.OpenDeny(deny, canon.Options{})
	must.OK(t, err)
	rows := run(t, opt, "r1", urls)
	got := outcomes(t, rows, urls)
	for u, o := range want {
		if got[u] != o {
			t.Errorf("%s: %s, want %s", u, got[u], o)
		}
	}
	robotsRows := 0
	for _, row := range rows {
		if row.Role == record.RoleRobots {
			robotsRows++
		}
		if row.URL == "http://a.test/moved" && row.RedirectURL != "http://a.test/x" {
			t.Errorf("redirect to %q", row.RedirectURL)
		}
		if row.URL == "http://a.test/" {
			if row.ContentFP != fingerprint.OfString("text of http://a.test/") || row.MIME != "text/html" || row.Charset != "utf-8" || row.WARCLength == 0 {
				t.Errorf("row is %+v", row)
			}
		}
	}
	// a, down, dead, hop, other, and loop six times: once, and five redirects.
	if robotsRows != 11 {
		t.Errorf("%d robots rows, want 11", robotsRows)
	}
	if t.Failed() {
		return
	}

	// The next round knows the rules, and asks nobody for them again.
	w.log = nil
	run(t, opt, "r2", []record.URL{url("http://a.test/private/2"), url("http://a.test/2")})
	if len(w.log) != 1 || w.log[0] != "http://a.test/2" {
		t.Errorf("second round contacted %v, want the one page", w.log)
	}
}

// TestNotModified: a 304 to validators of ours is an outcome of its own, archived
// as a revisit, and comes back from the archive as it was.
func TestNotModified(t *testing.T) {
	const reply = "HTTP/1.1 304 Not Modified\r\nETag: \"new\"\r\nCache-Control: max-age=86400\r\n\r\n"
	w := &web{replies: map[string]string{"http://a.test/old": reply, "http://a.test/unasked": reply}}
	old, unasked, gone := url("http://a.test/old"), url("http://a.test/unasked"), url("http://a.test/changed")
	old.ETag, old.LastContentFP, gone.LastModified, gone.LastContentFP = `"e"`, 7, "Sat, 01 Jan 2000 00:00:00 GMT", 8
	urls := []record.URL{old, unasked, gone}
	opt := options(newStore(t), w)
	rows := run(t, opt, "r1", urls)
	got := outcomes(t, rows, urls)
	if got[old.URL] != record.OutcomeNotModified || got[unasked.URL] != record.OutcomeFetched || got[gone.URL] != record.OutcomeFetched {
		t.Fatalf("outcomes %v", got)
	}
	for _, row := range rows {
		if row.URL != old.URL {
			continue
		}
		if row.Status != 304 || row.ETag != `"new"` || row.FreshUntil != row.FetchTime+86400e6 || row.ContentFP != 7 || row.PayloadSHA1 != "" || row.BodyLength != 0 {
			t.Errorf("row %+v", row)
		}
		f, err := opt.Store.OpenFile(row.WARCFilename)
		must.OK(t, err)
		defer f.Close()
		rec, r, err := warc.OpenAt(f, row.WARCOffset, row.WARCLength, warc.ReaderOptions{})
		must.OK(t, err)
		defer r.Close()
		block, err := io.ReadAll(rec.Block)
		if err != nil || string(block) != reply || rec.Type != warc.TypeRevisit || rec.Get(warc.FieldProfile) != warc.ProfileNotModified || rec.Get(warc.FieldPayloadDigest) != "" {
			t.Errorf("archived as %+v: %q, %v", rec, block, err)
		}
	}
	sameAgain(t, opt.Store, urls, rows)
}

// TestValidators: what the next round may ask with is what the last whole document
// had, and not what an error page, a redirect or a part of a document has.
func TestValidators(t *testing.T) {
	reply := func(status, head, body string) string {
		return "HTTP/1.1 " + status + "\r\n" + head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	const both, old, modified = "ETag: \"new\"\r\nLast-Modified: Sun, 02 Jan 2000 00:00:00 GMT\r\n", `"old"`, "Sat, 01 Jan 2000 00:00:00 GMT"
	w := &web{replies: map[string]string{}}
	want := map[string][2]string{}
	var urls []record.URL
	for name, c := range map[string]struct{ reply, etag, modified string }{
		"changed":   {reply("200 OK", both, "x"), `"new"`, "Sun, 02 Jan 2000 00:00:00 GMT"},
		"none":      {reply("200 OK", "", "x"), "", ""},
		"one":       {reply("200 OK", "ETag: \"new\"\r\n", "x"), `"new"`, ""},
		"cut":       {"HTTP/1.1 200 OK\r\n" + both + "Content-Length: 9\r\n\r\nx", "", ""},
		"damaged":   {reply("200 OK", both+"Content-Encoding: gzip\r\n", "\x1f\x8bxxxx"), "", ""},
		"same":      {"HTTP/1.1 304 Not Modified\r\nETag: \"new\"\r\n\r\n", `"new"`, modified},
		"plain":     {"HTTP/1.1 304 Not Modified\r\nETag: \"old\"\r\n\r\n", `"old-gzip"`, modified},
		"not found": {reply("404 Not Found", both, "x"), old, modified},
		"busy":      {reply("503 Busy", both, "x"), old, modified},
		"moved":     {reply("302 Found", both+"Location: /x\r\n", "x"), old, modified},
		"dead":      {"", old, modified},
	} {
		u := url("http://" + strings.ReplaceAll(name, " ", "-") + ".test/")
		u.ETag, u.LastModified, u.LastContentFP = old, modified, 7
		if name == "plain" {
			u.ETag = c.etag
		}
		w.replies[u.URL] = c.reply
		want[u.URL] = [2]string{c.etag, c.modified}
		urls = append(urls, u)
	}
	opt := options(newStore(t), w)
	rows := run(t, opt, "r1", urls)
	outcomes(t, rows, urls)
	for _, row := range rows {
		if row.Role == record.RolePage && want[row.URL] != [2]string{row.ETag, row.LastModified} {
			t.Errorf("%s: %q, %q; want %q", row.URL, row.ETag, row.LastModified, want[row.URL])
		}
	}
	sameAgain(t, opt.Store, urls, rows)
}

// forwarding is a web behind a proxy that finds addresses itself.
type forwarding struct{ *web }

func (f forwarding) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	r := f.web.Fetch(ctx, req)
	r.Forwarded = true
	return r
}

// TestForwarded: the archive names no address that nobody is known to have contacted.
func TestForwarded(t *testing.T) {
	for forwarded, w := range map[bool]fetch.Protocol{false: &web{}, true: forwarding{&web{}}} {
		st := newStore(t)
		urls := []record.URL{url("http://a.test/")}
		rows := run(t, options(st, w), "r1", urls)
		f, err := os.Open(warcs(t, st)[0])
		must.OK(t, err)
		defer f.Close()
		n := 0
		r := warc.NewReader(f, warc.ReaderOptions{})
		for rec, err := r.Next(); err != io.EOF; rec, err = r.Next() {
			must.OK(t, err)
			if rec.Get(warc.FieldIPAddress) != "" {
				n++
			}
		}
		if want := 4; forwarded && n != 0 || !forwarded && n != want { // robots.txt and a page
			t.Errorf("forwarded %v: %d records name an address", forwarded, n)
		}
		for _, row := range rows {
			if row.Addr == "" {
				t.Errorf("%s: the audit cannot see the contact", row.URL)
			}
		}
	}
}

// overTwo speaks HTTP/2.
type overTwo struct{ *web }

func (w overTwo) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	reply := w.web.Fetch(ctx, req)
	reply.Protocol = "h2"
	return reply
}

// TestProtocolField: request and response records both name the protocol.
func TestProtocolField(t *testing.T) {
	st := newStore(t)
	run(t, options(st, overTwo{&web{}}), "r1", []record.URL{url("http://a.test/")})
	f, err := os.Open(warcs(t, st)[0])
	must.OK(t, err)
	defer f.Close()
	named := map[string]int{}
	r := warc.NewReader(f, warc.ReaderOptions{})
	for rec, err := r.Next(); err != io.EOF; rec, err = r.Next() {
		must.OK(t, err)
		if rec.Get(warc.FieldProtocol) == "h2" {
			named[rec.Type]++
		}
	}
	if got := fmt.Sprint(named); got != "map[request:2 response:2]" { // of robots.txt and a page
		t.Errorf("records that name the protocol: %s", got)
	}
}

// sameAgain replays the round r1 from its archive.
func sameAgain(t *testing.T, st *store.Store, urls []record.URL, rows []record.Fetch) {
	t.Helper()
	sameRound(t, st, "r1", urls, rows)
}

func sameRound(t *testing.T, st *store.Store, txn string, urls []record.URL, rows []record.Fetch) {
	t.Helper()
	saved, err := fetch.Saved([]string{st.Dir()}, store.Options{})
	must.OK(t, err)
	in := stream(t, txn, urls)
	again := runBody(t, newStore(t), txn, in, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
		return replay.Run(ctx, b, replay.Options{Files: saved, Txn: txn, Schema: in.Schema()})
	})
	if len(again) != len(rows) {
		t.Fatalf("replay gave %d rows, want %d", len(again), len(rows))
	}
	for i := range rows {
		if !bytes.Equal(record.AppendRow(nil, &rows[i]), record.AppendRow(nil, &again[i])) {
			t.Fatalf("replay gave %+v, want %+v", again[i], rows[i])
		}
	}
}

// TestHeadMethod: pages are asked for with the method, robots.txt is always got,
// and a length that promises a body is no lie.
func TestHeadMethod(t *testing.T) {
	methods := map[string]string{}
	w := protocolFunc(func(req *fetch.Request) *fetch.Reply {
		methods[req.URL] = req.Method
		raw := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 500\r\n\r\n"
		if req.Method != "HEAD" {
			raw = text("User-agent: *\nDisallow: /private\n")
		}
		return &fetch.Reply{Outcome: record.OutcomeFetched, Response: strings.NewReader(raw), Length: int64(len(raw)), NoBody: req.Method == "HEAD"}
	})
	opt := options(newStore(t), w)
	opt.Method = "HEAD"
	urls := []record.URL{url("http://a.test/page"), url("http://a.test/private")}
	rows := run(t, opt, "r1", urls)
	if got := outcomes(t, rows, urls); got[urls[0].URL] != record.OutcomeFetched || got[urls[1].URL] != record.OutcomeRobotsDenied {
		t.Errorf("outcomes %v", got)
	}
	if len(methods) != 2 || methods["http://a.test/robots.txt"] != "" || methods[urls[0].URL] != "HEAD" {
		t.Errorf("methods %q", methods)
	}
	for _, row := range rows {
		if row.URL == urls[0].URL && (row.Status != 200 || row.MIME != "text/html" || row.Truncated != "" || row.BodyLength != 0 || row.PayloadSHA1 != "" || row.WARCLength == 0) {
			t.Errorf("row %+v", row)
		}
	}
}

// protocolFunc is a protocol module that is a function, for one host at a time.
type protocolFunc func(*fetch.Request) *fetch.Reply

func (protocolFunc) Check(string) error { return nil }

func (f protocolFunc) Fetch(_ context.Context, req *fetch.Request) *fetch.Reply { return f(req) }

func TestAHostThatFailsFiveTimesIsDeferred(t *testing.T) {
	w := &web{replies: map[string]string{}}
	var urls []record.URL
	for i := range 8 {
		u := fmt.Sprintf("http://dead.test/%d", i)
		w.replies[u] = ""
		urls = append(urls, url(u))
	}
	check := func(rows []record.Fetch) {
		t.Helper()
		n := map[string]int{}
		for _, o := range outcomes(t, rows, urls) {
			n[o]++
		}
		if n[record.OutcomeConnect] != 5 || n[record.OutcomeDeferred] != 3 {
			t.Errorf("outcomes %v, want five failures and three deferred", n)
		}
	}
	check(run(t, options(newStore(t), w), "r1", urls))
	inBubble(t, "those of an interrupted run count", func(t *testing.T) {
		w.delay = time.Second // so that each is written before the next
		opt := options(newStore(t), w)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := 0
		opt.OnRow = func(row *record.Fetch) {
			if row.Outcome == record.OutcomeConnect {
				if failed++; failed == 3 {
					cancel()
				}
			}
		}
		if _, err := try(t, ctx, opt, "r1", urls); err == nil {
			t.Fatal("not interrupted")
		}
		opt.OnRow = nil
		check(run(t, opt, "r1", urls))
	})
}

// inBubble runs a subtest under a clock that moves on only when all wait.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestDeadlineAndBytesDeferTheRest(t *testing.T) {
	var urls []record.URL
	for i := range 200 {
		urls = append(urls, url(fmt.Sprintf("http://h%d.test/%d", i%4, i)))
	}
	for name, set := range map[string]func(*fetch.Options){
		"deadline": func(o *fetch.Options) {
			o.Deadline, o.MinDelay, o.MaxDelay = 50*time.Millisecond, 5*time.Millisecond, time.Second
		},
		"bytes": func(o *fetch.Options) { o.BytesMax = 2000 },
	} {
		inBubble(t, name, func(t *testing.T) {
			opt := options(newStore(t), &web{})
			set(&opt)
			n := map[string]int{}
			for _, o := range outcomes(t, run(t, opt, "r1", urls), urls) {
				n[o]++
			}
			if n[record.OutcomeFetched] == 0 || n[record.OutcomeDeferred] == 0 || n[record.OutcomeFetched]+n[record.OutcomeDeferred] != len(urls) {
				t.Errorf("outcomes %v, want some fetched and the rest deferred", n)
			}
		})
	}
}

// TestAuditAgrees fetches with delays over several rounds, and has the audit
// look at the rows; then at rows in which one contact came early.
func TestAuditAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		opt := options(st, &web{delay: time.Millisecond})
		opt.MinDelay, opt.MaxDelay, opt.AddrDelay = 5*time.Millisecond, time.Second, 2*time.Millisecond
		var rows []record.Fetch
		for r := range 2 {
			var urls []record.URL
			for i := range 30 {
				u := url(fmt.Sprintf("http://h%d.test/%d/%d", i%5, r, i))
				u.Addr = fmt.Sprintf("127.0.0.%d", 1+i%5/2) // shared
				urls = append(urls, u)
			}
			rows = append(rows, run(t, opt, fmt.Sprint("r", r), urls)...)
		}
		audit := func(rows []record.Fetch) *fetch.Audit {
			a := fetch.NewAuditor(fetch.AuditOptions{Policy: politeness.Policy{Rules: politeness.Rules{MinDelay: opt.MinDelay}}, AddrDelay: opt.AddrDelay, Memory: 8 << 20, Worst: 3})
			defer a.Close()
			for i := range rows {
				must.OK(t, a.Add(&rows[i]))
			}
			got, err := a.Report(t.Context())
			must.OK(t, err)
			return got
		}
		if got := audit(rows); got.Err() != nil || got.Contacts != 65 || got.Hosts.Names != 5 || got.Addrs.Names != 3 {
			t.Errorf("audit %+v: %v", got, got.Err())
		}
		for i := range rows {
			if rows[i].Role == record.RolePage {
				rows[i].DurationUS += 4_000_000
				break
			}
		}
		if got := audit(rows); got.Hosts.Violations == 0 || got.Addrs.Violations == 0 || got.Err() == nil {
			t.Errorf("an overlap was not found: %+v", got)
		}
	})
}

const killEnv = "MERCATOR_TEST_FETCH_STORE"

// killSize is how many URLs are fetched, from how many hosts, and how often the
// process is killed meanwhile.
func killSize() (urls, hosts, kills int) {
	if os.Getenv("MERCATOR_LONG") != "" {
		return 10_000, 100, 10
	}
	return 300, 20, 3
}

func killURLs() []record.URL {
	n, hosts, _ := killSize()
	var urls []record.URL
	for i := range n {
		urls = append(urls, url(fmt.Sprintf("http://h%d.test/%d", i%hosts, i)))
	}
	return urls
}

// TestKilled is run again by itself as the process that is killed: MERCATOR_LONG=1
// fetches 10,000 URLs and kills ten times.
func TestKilled(t *testing.T) {
	n, hosts, kills := killSize()
	if dir := os.Getenv(killEnv); dir != "" {
		log, err := os.OpenFile(dir+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		must.OK(t, err)
		w := &web{delay: 2 * time.Millisecond, onFetch: func(u string) { fmt.Fprintln(log, u) }}
		opt := options(open(t, dir), w)
		opt.WARCSize = 20 << 10
		run(t, opt, "r1", killURLs())
		return
	}
	st := newStore(t)
	lines := func() int {
		b, _ := os.ReadFile(st.Dir() + ".log") // not there before the first contact
		return bytes.Count(b, []byte("\n"))
	}
	for i := range kills {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), killEnv+"="+st.Dir())
		must.OK(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		var early error
		gone := false // it was faster than this loop, which is no fault
		for want := (n + hosts) * (i + 1) / (kills + 1); lines() < want && !gone; {
			select {
			case early = <-ended:
				gone = true
			case <-time.After(2 * time.Millisecond):
			}
		}
		if early != nil {
			t.Fatalf("the process failed before it was killed: %v", early)
		}
		if !gone {
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	w := &web{}
	opt := options(st, w)
	opt.WARCSize = 20 << 10
	urls := killURLs()
	rows := run(t, opt, "r1", urls)
	outcomes(t, rows, urls)
	log, err := os.ReadFile(st.Dir() + ".log")
	must.OK(t, err)
	asked := map[string]int{}
	for _, u := range append(strings.Fields(string(log)), w.log...) {
		asked[u]++
	}
	again := 0
	for _, n := range asked {
		again += n - 1
	}
	// In flight: with a connection, or on the way to the writer.
	if limit := kills * (opt.Connections + fetch.Unwritten); again > limit {
		t.Errorf("%d contacts made again, want at most those in flight at the kills (%d)", again, limit)
	}
	if len(w.log) >= len(urls) {
		t.Errorf("the last run made %d contacts: nothing was recovered", len(w.log))
	}

	// What the archive holds gives the same rows in the same order.
	files, err := filepath.Glob(filepath.Join(st.Dir(), "*.warc.gz*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("WARC files %v, %v; want several", files, err)
	}
	saved, err := fetch.Saved([]string{st.Dir()}, store.Options{})
	if err != nil || len(saved) != len(files) {
		t.Fatalf("WARC files %v, %v; want %d", saved, err, len(files))
	}
	in := stream(t, "r1", urls)
	again2 := runBody(t, newStore(t), "r1", in, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
		return replay.Run(ctx, b, replay.Options{Files: saved, Txn: "r1", Schema: in.Schema()})
	})
	if len(again2) != len(rows) {
		t.Fatalf("replay gave %d rows, want %d", len(again2), len(rows))
	}
	for i := range rows {
		if a, b := record.AppendRow(nil, &rows[i]), record.AppendRow(nil, &again2[i]); !bytes.Equal(a, b) {
			t.Fatalf("row %d: replay gave\n%+v\nwant\n%+v", i, again2[i], rows[i])
		}
	}
}
