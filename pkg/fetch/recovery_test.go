package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/crawl"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/shard"
	"mercator/pkg/folder/stage"
)

// try is run for a batch that may fail: it returns the rows of a good end.
func try(t testing.TB, ctx context.Context, opt fetch.Options, txn string, urls []record.URL) ([]record.Fetch, error) {
	t.Helper()
	in := stream(t, txn, urls)
	opt.Txn, opt.Schema = txn, in.Schema()
	out := &recordtest.Output{}
	spec := stage.Spec{Name: "mfetch", Verb: "fetch", Store: opt.Store, Txn: txn}
	_, err := stage.Run(ctx, spec, in, []stage.Output{out}, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
		return fetch.Run(ctx, b, opt)
	})
	if err != nil {
		return nil, err
	}
	return readAll(t, out), nil
}

func pages(hosts, each int) []record.URL {
	var urls []record.URL
	for i := range hosts * each {
		urls = append(urls, url(fmt.Sprintf("http://h%d.test/%d", i%hosts, i)))
	}
	return urls
}

// interrupted fetches half of a batch and stops as a killed process does: what was
// written stays, nothing is committed, and nothing says when it ended.
func interrupted(t testing.TB, opt fetch.Options, txn string, urls []record.URL) {
	t.Helper()
	stopped(t, opt, txn, urls)
	path := opt.Store.Path("BATCH")
	b, err := os.ReadFile(path)
	must.OK(t, err)
	number, _, _ := strings.Cut(string(b), " ")
	must.OK(t, os.WriteFile(path, []byte(strings.TrimSpace(number)+"\n"), 0o666))
}

// stopped runs a batch that is interrupted when half of its rows have come, and cleans up.
func stopped(t testing.TB, opt fetch.Options, txn string, urls []record.URL) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rows := 0
	opt.OnRow = func(*record.Fetch) {
		if rows++; rows == len(urls)/2 {
			cancel()
		}
	}
	if _, err := try(t, ctx, opt, txn, urls); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted run ended with %v", err)
	}
}

func warcs(t testing.TB, st *store.Store) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(st.Dir(), "*.warc.*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("WARC files %v, %v", list, err)
	}
	return list
}

// TestTailCutAnywhere cuts the uncommitted part of the WARC file at many places,
// and damages it there: the next run keeps whole contacts and makes the others again. A record without compression has
// a checksum of its block alone: there damage of a header can pass.
func TestTailCutAnywhere(t *testing.T) {
	for codec, damages := range map[warc.Codec][]bool{warc.Gzip: {false, true}, warc.None: {false}} {
		t.Run(string(codec), func(t *testing.T) { tailCutAnywhere(t, codec, damages) })
	}
}

func tailCutAnywhere(t *testing.T, codec warc.Codec, damages []bool) {
	st := newStore(t)
	opt := options(st, &web{})
	opt.Codec, opt.Digests = codec, codec == warc.None
	before := run(t, opt, "r1", pages(3, 2)) // a committed part before the tail
	committed, err := os.Stat(warcs(t, st)[0])
	must.OK(t, err)
	urls := pages(4, 6)
	interrupted(t, opt, "r2", urls)
	tail, err := os.Stat(warcs(t, st)[0])
	must.OK(t, err)
	if tail.Size() <= committed.Size() {
		t.Fatal("the interrupted run left nothing")
	}
	fewest, most := len(urls), 0
	for cut := committed.Size(); cut <= tail.Size(); cut += 1 + (tail.Size()-committed.Size())/24 {
		for _, damage := range damages {
			dir := filepath.Join(t.TempDir(), "fetch")
			must.OK(t, os.CopyFS(dir, os.DirFS(st.Dir())))
			file := filepath.Join(dir, filepath.Base(warcs(t, st)[0]))
			if damage {
				b, err := os.ReadFile(file)
				if err == nil && cut < int64(len(b)) {
					b[cut] ^= 0x10
				}
				if err = errors.Join(err, os.WriteFile(file, b, 0o644)); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Truncate(file, cut); err != nil {
				t.Fatal(err)
			}
			w := &web{}
			again := options(open(t, dir), w)
			again.Codec, again.Digests = opt.Codec, opt.Digests
			rows := run(t, again, "r2", urls)
			for u, o := range outcomes(t, rows, urls) {
				if o != record.OutcomeFetched {
					t.Errorf("cut at %d: %s: %s", cut, u, o)
				}
			}
			checkPlaces(t, again.Store, rows)
			sameIndex(t, again.Store, before, rows)
			if t.Failed() {
				t.Fatalf("cut at %d, damage %v", cut, damage)
			}
			fewest, most = min(fewest, len(w.log)), max(most, len(w.log))
		}
	}
	if fewest >= most || fewest > 2*len(urls)/3 {
		t.Errorf("%d to %d contacts made again, want fewer where less was cut", fewest, most)
	}
}

// checkPlaces reads back what the rows point to.
func checkPlaces(t testing.TB, st *store.Store, rows []record.Fetch) {
	t.Helper()
	for i := range rows {
		if rows[i].WARCLength == 0 {
			continue
		}
		f, err := st.OpenFile(rows[i].WARCFilename)
		must.OK(t, err)
		g, err := fetch.ReadGroup(f, rows[i].WARCFilename, rows[i].WARCOffset)
		f.Close()
		if err != nil || g.Row.URL != rows[i].URL {
			t.Errorf("%s: at its place stands %q, %v", rows[i].URL, g.Row.URL, err)
		}
	}
}

// groupsOf counts the contacts of a transaction in a WARC file.
func groupsOf(t testing.TB, file []byte, txn string) (n int) {
	t.Helper()
	r := warc.NewReader(bytes.NewReader(file), warc.ReaderOptions{Name: "file"})
	defer r.Close()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return n
		}
		must.OK(t, err)
		if rec.Type == warc.TypeMetadata {
			if out, ok, err := warc.ReadOutcome(rec); err != nil || ok && out.Round.Txn == txn {
				n++
			}
		}
	}
}

// TestAnothersTailIsCut: what a transaction left that is not run again goes.
func TestAnothersTailIsCut(t *testing.T) {
	st := newStore(t)
	w := &web{}
	opt := options(st, w)
	run(t, opt, "r1", pages(2, 2))
	interrupted(t, opt, "r2", pages(4, 6))
	w.log = nil
	urls := pages(4, 6)
	rows := run(t, opt, "r3", urls)
	outcomes(t, rows, urls)
	checkPlaces(t, st, rows)
	if len(w.log) < len(urls) {
		t.Errorf("%d contacts for %d URLs: another transaction's were taken", len(w.log), len(urls))
	}
	for _, name := range warcs(t, st) {
		b, err := os.ReadFile(name)
		must.OK(t, err)
		if got := groupsOf(t, b, "r2"); got != 0 {
			t.Errorf("%s still has %d contacts of r2", name, got)
		}
	}
}

// TestGapsOfAStoppedRun: the contact that an interrupt ends is in no row, and its host waits for its own gap all the same: not for the longest there is, nor
// for a shorter one that the next run may have.
func TestGapsOfAStoppedRun(t *testing.T) {
	for _, c := range []struct {
		name           string
		crawlDelay     string
		contact        time.Duration // how long it takes
		min, max, want time.Duration // of the next run
	}{
		{"the least gap", "", 50 * time.Millisecond, time.Second, 30 * time.Second, time.Second},
		{"a longer one from now on", "", 50 * time.Millisecond, 3 * time.Second, 30 * time.Second, 3 * time.Second},
		{"a slow host", "", 2 * time.Second, time.Second, 30 * time.Second, 20 * time.Second},
		{"a slow host, and other settings", "", 2 * time.Second, time.Second, 5 * time.Second, 20 * time.Second},
		{"a Crawl-delay", "20", 50 * time.Millisecond, time.Second, 30 * time.Second, 20 * time.Second},
		{"a long Crawl-delay", "40", 50 * time.Millisecond, time.Second, 30 * time.Second, 40 * time.Second},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			robots := map[string]string{}
			if c.crawlDelay != "" {
				robots["http://h0.test/robots.txt"] = text("User-agent: *\nCrawl-delay: " + c.crawlDelay + "\n")
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			opt := options(newStore(t), nil)
			opt.MinDelay, opt.MaxDelay, opt.DelayFactor = time.Second, 30*time.Second, 10
			opt.Protocols = map[string]fetch.Protocol{"http": &web{replies: robots, onFetch: func(u string) {
				if u == "http://h0.test/a" {
					time.Sleep(c.contact)
					cancel()
				}
			}}}
			urls := []record.URL{url("http://h0.test/a"), url("http://h0.test/b")}
			if _, err := try(t, ctx, opt, "r1", urls); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			end := time.Now()
			var again time.Time
			opt.MinDelay, opt.MaxDelay = c.min, c.max
			opt.Protocols = map[string]fetch.Protocol{"http": &web{replies: robots, onFetch: func(u string) {
				if again.IsZero() && u != "http://h0.test/robots.txt" {
					again = time.Now()
				}
			}}}
			run(t, opt, "r1", urls)
			if got := again.Sub(end); got < c.want || got > c.want+time.Second {
				t.Errorf("contacted again after %v, want %v", got, c.want)
			}
		})
	}
}

// TestHostsWaitAfterAnUncleanStop: nobody knows who was contacted last.
func TestHostsWaitAfterAnUncleanStop(t *testing.T) {
	const wait = 60 * time.Millisecond
	first := func(t *testing.T, opt fetch.Options, txn string, urls []record.URL) time.Duration {
		var once time.Duration
		start := time.Now()
		opt.Protocols = map[string]fetch.Protocol{"http": &web{onFetch: func(string) {
			if once == 0 {
				once = time.Since(start)
			}
		}}}
		opt.Connections = 1
		run(t, opt, txn, urls)
		return once
	}
	for _, same := range []bool{true, false} {
		inBubble(t, fmt.Sprint("same transaction ", same), func(t *testing.T) {
			opt := options(newStore(t), &web{})
			opt.MinDelay, opt.MaxDelay = time.Millisecond, time.Second
			interrupted(t, opt, "r1", pages(4, 6))
			txn := "r1"
			if !same {
				txn = "r2"
			}
			opt.MinDelay = wait
			if got := first(t, opt, txn, append(pages(4, 6), url("http://new.test/"))); got < wait {
				t.Errorf("first contact after %s, want %s", got, wait)
			}
			// A round that ended well is followed by no such wait.
			opt.MinDelay, opt.MaxDelay, opt.Robots = 20*time.Second, 20*time.Second, nil
			if got := first(t, opt, "r3", []record.URL{url("http://other.test/")}); got > 10*time.Second {
				t.Errorf("after a good end the first contact came after %s", got)
			}
		})
	}
	// A run that stops by itself knows when its gaps end: here a second after the last contact, of the 30 that nobody waits for.
	inBubble(t, "stopped", func(t *testing.T) {
		opt := options(newStore(t), &web{})
		opt.MinDelay, opt.MaxDelay, opt.DelayFactor = time.Second, 30*time.Second, 10
		opt.Warn = func(format string, args ...any) { t.Errorf(format, args...) }
		stopped(t, opt, "r1", pages(4, 6))
		if got := first(t, opt, "r1", append(pages(4, 6), url("http://new.test/"))); got < 900*time.Millisecond || got > 1100*time.Millisecond {
			t.Errorf("first contact after %s, want 1s", got)
		}
	})
	// The deadline counts from the end of the wait, and rows do not take it for the gap of their host.
	inBubble(t, "with a deadline", func(t *testing.T) {
		opt := options(newStore(t), &web{})
		opt.DelayFactor, opt.MaxDelay, opt.Deadline = 1, 30*time.Second, 3*time.Second
		said, held := "", time.Time{}
		opt.OnQueues = func(q fetch.BackQueues) {
			if !q.Held.IsZero() {
				held = q.Held
			}
		}
		opt.Warn = func(format string, args ...any) { said += fmt.Sprintf(format, args...) + "\n" }
		interrupted(t, opt, "r1", pages(4, 6))
		for _, row := range run(t, opt, "r1", append(pages(4, 6), url("http://new.test/"))) {
			if row.Outcome != record.OutcomeFetched || row.RequiredDelayUS > 1_000_000 {
				t.Errorf("%s: %s %s, gap %d µs", row.URL, row.Outcome, row.Error, row.RequiredDelayUS)
			}
		}
		if held.IsZero() {
			t.Error("it is not on record until when no host is contacted")
		}
		if want := fetch.Unrecorded + " (an interrupted run, or a crawl that was pulled): no host is contacted for 30s"; !strings.Contains(said, want) || strings.Contains(said, "the gap after") {
			t.Errorf("told %q, want %q", said, want)
		}
	})
	// Who is interrupted while he waits does not begin to wait anew, and who was interrupted after a contact does.
	inBubble(t, "interrupted again and again", func(t *testing.T) {
		opt := options(newStore(t), &web{})
		opt.MinDelay, opt.MaxDelay = 30*time.Second, 30*time.Second
		interrupted(t, opt, "r1", pages(4, 6))
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
			w := &web{}
			opt.Protocols = map[string]fetch.Protocol{"http": w}
			if _, err := try(t, ctx, opt, "r1", pages(4, 6)); err == nil || len(w.log) > 0 {
				t.Fatalf("%v, contacts %v", err, w.log)
			}
			cancel()
		}
		if got := first(t, opt, "r1", pages(4, 6)); got != 2*time.Second {
			t.Errorf("first contact after %s, want what is left of 30 s", got)
		}
	})
	inBubble(t, "a server's wish outlives the kill", func(t *testing.T) {
		st := newStore(t)
		busy := "HTTP/1.1 429 Too Many\r\nRetry-After: 600\r\nContent-Length: 0\r\n\r\n"
		w := &web{replies: map[string]string{"http://h0.test/0": busy}}
		opt := options(st, w)
		opt.Connections = 1
		urls := pages(2, 20)
		interrupted(t, opt, "r1", urls)
		w.log = nil
		got := outcomes(t, run(t, opt, "r1", urls), urls)
		for _, u := range w.log {
			if strings.HasPrefix(u, "http://h0.test/") {
				t.Errorf("%s contacted within the time of Retry-After", u)
			}
		}
		if got["http://h0.test/38"] != record.OutcomeDeferred {
			t.Errorf("a URL of that host: %s, want deferred", got["http://h0.test/38"])
		}
	})
}

// TestRecoveredRulesAreKept: what an interrupted run learnt of robots rules serves
// the rounds after it, redirects included.
func TestRecoveredRulesAreKept(t *testing.T) {
	st := newStore(t)
	w := &web{replies: map[string]string{
		"http://h0.test/robots.txt": "HTTP/1.1 301 Moved\r\nLocation: http://h1.test/rules.txt\r\nContent-Length: 0\r\n\r\n",
		"http://h1.test/rules.txt":  text("User-agent: *\nDisallow: /no\n"),
		"http://h2.test/robots.txt": text("User-agent: *\nDisallow: /never\n"),
	}}
	opt := options(st, w)
	opt.Connections, opt.Resolver = 1, names{} // h1 may be asked for rules before its first row is read
	var urls []record.URL
	for i := range 4 { // host by host, so that three are done with when the run stops
		for j := range 8 {
			urls = append(urls, url(fmt.Sprintf("http://h%d.test/%d", i, j)))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opt.OnRow = func(row *record.Fetch) {
		if strings.HasPrefix(row.URL, "http://h3.test/") {
			cancel()
		}
	}
	if _, err := try(t, ctx, opt, "r1", urls); err == nil {
		t.Fatal("not interrupted")
	}
	opt.OnRow = nil
	outcomes(t, run(t, opt, "r1", urls), urls)
	w.log = nil
	next := []record.URL{url("http://h0.test/no/1"), url("http://h1.test/x"), url("http://h2.test/never"), url("http://h0.test/yes"), url("http://h3.test/x")}
	got := outcomes(t, run(t, opt, "r2", next), next)
	for _, u := range w.log {
		if strings.HasSuffix(u, "/robots.txt") || strings.HasSuffix(u, "/rules.txt") {
			t.Errorf("%s asked for again", u)
		}
	}
	if got["http://h0.test/no/1"] != record.OutcomeRobotsDenied || got["http://h2.test/never"] != record.OutcomeRobotsDenied || got["http://h0.test/yes"] != record.OutcomeFetched {
		t.Errorf("outcomes %v", got)
	}
}

// TestRecoveredFailureIsNotRepeated: where a redirect of robots.txt led to a host at which nobody listens,
// that is not asked again, though its addresses are to be looked up first.
func TestRecoveredFailureIsNotRepeated(t *testing.T) { synctest.Test(t, recoveredFailure) }

func recoveredFailure(t *testing.T) {
	w := &web{replies: map[string]string{
		"http://hop.test/robots.txt": "HTTP/1.1 301 Moved\r\nLocation: http://dead.test/rules.txt\r\nContent-Length: 0\r\n\r\n",
		"http://dead.test/rules.txt": "",
	}}
	opt := options(newStore(t), w)
	opt.Resolver, opt.MinDelay, opt.MaxDelay = names{}, time.Second, time.Second
	urls := []record.URL{url("http://hop.test/")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opt.OnRow = func(row *record.Fetch) {
		if row.Host == "dead.test" {
			cancel()
		}
	}
	if _, err := try(t, ctx, opt, "r1", urls); err == nil {
		t.Fatal("not interrupted")
	}
	opt.OnRow = nil
	w.log = nil
	rows := run(t, opt, "r1", urls)
	if got := outcomes(t, rows, urls); len(w.log) != 0 || got["http://hop.test/"] != record.OutcomeRobotsUnreachable {
		t.Errorf("contacts %v, outcomes %v, want none, and robots-unreachable", w.log, got)
	}
	if why := rows[len(rows)-1].Error; !strings.HasPrefix(why, "robots.txt: connect-failed: ") { // its own host may have the page
		t.Errorf("error %q", why)
	}
}

func TestCrawlDelayHoldsAfterAnUncleanStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		w := &web{replies: map[string]string{"http://slow.test/robots.txt": text("User-agent: *\nCrawl-delay: 1\n")}}
		opt := options(st, w)
		opt.Connections = 1
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		opt.OnRow = func(*record.Fetch) { cancel() } // after robots.txt
		if _, err := try(t, ctx, opt, "r1", []record.URL{url("http://slow.test/")}); err == nil {
			t.Fatal("not interrupted")
		}
		opt.OnRow = nil
		w.log = nil
		start := time.Now()
		run(t, opt, "r1", []record.URL{url("http://slow.test/")})
		if took := time.Since(start); took < time.Second {
			t.Errorf("the page was asked for after %s, want a second", took)
		}
		if len(w.log) != 1 {
			t.Errorf("contacts %v, want the page alone", w.log)
		}
	})
}

// inCrawl makes a crawl folder with a fetch store alone.
func inCrawl(t testing.TB) (*crawl.Crawl, *store.Store) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "crawl")
	c, err := crawl.Init(dir, nil, []byte("# none\n"), func(string) error {
		return fetch.CreateStore(filepath.Join(dir, "fetch"), "", store.Options{})
	}, crawl.Options{})
	must.OK(t, err)
	return c, open(t, filepath.Join(dir, "fetch"))
}

// TestFilesOfShards: rows name an archive file alone, so no two shards of a crawl have files of one name.
func TestFilesOfShards(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "crawl")
	if _, err := crawl.Init(dir, nil, []byte("# none\n"), func(dir string) error {
		return fetch.CreateStore(filepath.Join(dir, "fetch"), "", store.Options{})
	}, crawl.Options{Shards: 2}); err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"crawl-s000-000002-1.warc.gz", "docs-20261130-s001-000002-1.warc.gz"} {
		st := open(t, filepath.Join(shard.Dir(dir, n), "fetch"))
		opt := options(st, &web{})
		opt.WARCPrefix = []string{"", "docs-20261130"}[n]
		rows := run(t, opt, "r1", pages(1, 1))
		if rows[0].WARCFilename != want {
			t.Errorf("shard %d: %s, want %s", n, rows[0].WARCFilename, want)
		}
		checkPlaces(t, st, rows)
	}
}

// TestPrefixChanges: a round begins a file where the prefix is another one, also after a kill. Files that are there keep their names. Numbers in a prefix
// are not taken for a generation: what a round that was given up has left goes.
func TestPrefixChanges(t *testing.T) {
	inBubble(t, "rounds", func(t *testing.T) {
		urls := pages(2, 6)
		opt := options(newStore(t), &web{replies: map[string]string{urls[0].URL: page("one"), urls[4].URL: page("one")}})
		opt.Dedup, opt.Connections = true, 1
		all := run(t, opt, "r1", urls[:2])
		opt.WARCPrefix = "docs-20261130"
		for _, row := range run(t, opt, "r2", urls[2:6]) {
			if row.WARCFilename != "docs-20261130-000003-1.warc.gz" {
				t.Errorf("%s is in %s", row.URL, row.WARCFilename)
			}
			if row.URL == urls[4].URL && original(t, opt.Store, &row, "one") != urls[0].URL {
				t.Errorf("%s does not refer to %s", urls[4].URL, urls[0].URL)
			}
			all = append(all, row)
		}
		opt.WARCPrefix = "a-000001-2"
		interrupted(t, opt, "r3", urls)
		opt.WARCPrefix = "b"
		rows := run(t, opt, "r3", urls)
		outcomes(t, rows, urls)
		checkPlaces(t, opt.Store, append(all, rows...))
		opt.WARCPrefix = "x-999999"
		interrupted(t, opt, "r4", urls)
		opt.WARCPrefix = "b"
		run(t, opt, "r5", urls[:1])
		files := strings.ReplaceAll(strings.Join(warcs(t, opt.Store), " "), opt.Store.Dir()+"/", "")
		if want := "a-000001-2-000004-1.warc.gz b-000004-3.warc.gz b-000005-3.warc.gz.open crawl-000002-1.warc.gz docs-20261130-000003-1.warc.gz"; files != want {
			t.Errorf("files %s, want %s", files, want)
		}
	})
}

// TestAddressesOfShards: a shard contacts the addresses on its rows, also expired ones: those that a resolver knows may be
// another shard's.
func TestAddressesOfShards(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "crawl")
	if _, err := crawl.Init(dir, nil, []byte("# none\n"), func(dir string) error {
		return fetch.CreateStore(filepath.Join(dir, "fetch"), "", store.Options{})
	}, crawl.Options{Shards: 2}); err != nil {
		t.Fatal(err)
	}
	opt := options(open(t, filepath.Join(shard.Dir(dir, 1), "fetch")), &web{})
	opt.Resolver = several{"127.0.0.7"}
	urls := pages(1, 2)
	for i := range urls {
		urls[i].Addr, urls[i].AddrExpires = "127.0.0.9", 1
	}
	for _, row := range run(t, opt, "r1", urls) {
		if row.Addr != "127.0.0.9" {
			t.Errorf("%s %s: contacted at %q", row.Role, row.URL, row.Addr)
		}
	}
}

// later hands out its last row when it may.
type later struct {
	stage.Input[record.URL]
	last string
	wait <-chan struct{}
}

func (l later) Read(row *record.URL) error {
	err := l.Input.Read(row)
	if row.URL == l.last {
		<-l.wait
	}
	return err
}

// TestRedirectComesBeforeTheHost: the archive has the addresses of a host that a
// redirect of another's robots.txt led to before the batch did.
func TestRedirectComesBeforeTheHost(t *testing.T) {
	met := make(chan struct{})
	w := &web{
		replies: map[string]string{"http://a.test/robots.txt": "HTTP/1.1 301 Moved\r\nLocation: http://b.test/rules.txt\r\nContent-Length: 0\r\n\r\n"},
		delay:   50 * time.Millisecond,
		onFetch: func(u string) {
			if u == "http://b.test/rules.txt" {
				close(met)
			}
		},
	}
	opt := options(newStore(t), w)
	opt.Txn, opt.Resolver = "r1", names{}
	urls := []record.URL{url("http://a.test/"), url("http://b.test/")}
	in := later{stream(t, "r1", urls), urls[1].URL, met}
	opt.Schema = in.Schema()
	runBody(t, opt.Store, "r1", in, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
		return fetch.Run(ctx, b, opt)
	})
	got := map[string]string{}
	f, err := os.Open(warcs(t, opt.Store)[0])
	must.OK(t, err)
	defer f.Close()
	r := warc.NewReader(f, warc.ReaderOptions{})
	for rec, err := r.Next(); err != io.EOF; rec, err = r.Next() {
		must.OK(t, err)
		if h, ok, err := warc.ReadHostname(rec); err != nil {
			t.Fatal(err)
		} else if ok {
			got[h.Host] = h.Addr
		}
	}
	for _, u := range urls {
		if got[u.Host] != u.Addr {
			t.Errorf("%s: addresses %q in the archive, want %q", u.Host, got[u.Host], u.Addr)
		}
	}
}

// TestAbandon: the next round writes another WARC file, under a name never used,
// and still keeps away from whom the abandoned one had contacted.
// TestCraftedURLs: two URLs that somebody gave one FP64 are taken up apart.
func TestCraftedURLs(t *testing.T) {
	x := url("http://h0.test/" + strings.Repeat("a", 66))
	y := url("http://h0.test/caccacaccacacccacaccaaccaacccaaaaacccacacaaaccaacaacacaaacaaacaaca")
	if fingerprint.OfString(x.URL) != fingerprint.OfString(y.URL) {
		t.Fatal("the URLs do not collide")
	}
	w := &web{}
	opt := options(newStore(t), w)
	more := pages(1, 2)
	interrupted(t, opt, "r1", append([]record.URL{y, x}, more...)) // after robots.txt and y
	rows := run(t, opt, "r1", append([]record.URL{x, y}, more...))
	if n := strings.Count(strings.Join(w.log, "\n"), y.URL); n != 1 {
		t.Errorf("%d contacts for the page that was saved, in %v", n, w.log)
	}
	for _, row := range rows {
		if want := fingerprint.OfString("text of " + row.URL); row.Role == record.RolePage && row.ContentFP != want {
			t.Errorf("%s has the document %016x, want %016x", row.URL, row.ContentFP, want)
		}
	}
}

func TestAbandon(t *testing.T) {
	for _, committed := range []bool{true, false} {
		inBubble(t, fmt.Sprint("committed in the store ", committed), func(t *testing.T) {
			c, st := inCrawl(t)
			var last, first time.Time // contacts with one host
			opt := options(st, &web{onFetch: func(u string) {
				if strings.HasPrefix(u, "http://h0.test/") {
					last = time.Now()
				}
			}})
			opt.MinDelay, opt.MaxDelay, opt.Connections = 100*time.Millisecond, time.Second, 1
			urls := pages(3, 1)
			if committed {
				run(t, opt, "r1", urls)
			} else {
				interrupted(t, opt, "r1", urls)
			}
			before := warcs(t, st)
			_, err := c.Abandon(t.Context())
			must.OK(t, err)
			w := &web{onFetch: func(string) {
				if first.IsZero() {
					first = time.Now()
				}
			}}
			opt.Protocols = map[string]fetch.Protocol{"http": w}
			rows := run(t, opt, "r2", urls[:1])
			if len(w.log) != 2 { // robots and page: what the abandoned round learnt is gone
				t.Errorf("contacts %v, want two", w.log)
			}
			if gap := first.Sub(last); last.IsZero() || gap < opt.MinDelay {
				t.Errorf("first contact %s after the abandoned round's last, want %s", gap, opt.MinDelay)
			}
			for _, old := range before {
				if strings.HasPrefix(filepath.Base(old), rows[0].WARCFilename) {
					t.Errorf("%s was used again", rows[0].WARCFilename)
				}
			}
			checkPlaces(t, st, rows)
		})
	}
}

// TestVerify: the sums of a WARC file that grew over rounds are the sums of its bytes.
func TestVerify(t *testing.T) {
	c, st := inCrawl(t)
	big := page(strings.Repeat("a page that does not shrink much ", 1000))
	w := &web{replies: map[string]string{}}
	var urls []record.URL
	for i := range 40 {
		u := fmt.Sprintf("http://h.test/%d", i)
		w.replies[u] = big
		urls = append(urls, url(u))
	}
	opt := options(st, w)
	opt.Codec = warc.None // so that the file passes 1 MiB
	for i := range 4 {
		rows := run(t, opt, "", urls[10*i:10*i+10])
		checkPlaces(t, st, rows)
		verified, err := c.Verify(t.Context())
		if err != nil || len(verified.Problems) > 0 {
			t.Fatalf("after %d rounds: %v, %v", i+1, verified, err)
		}
	}
	files := warcs(t, st)
	b, err := os.ReadFile(files[0])
	if err != nil || len(files) != 1 || len(b) < 1<<20 {
		t.Fatalf("%d bytes in %v, %v; want one file of more than 1 MiB", len(b), files, err)
	}
	b[1000] ^= 1
	must.OK(t, os.WriteFile(files[0], b, 0o644))
	if verified, err := c.Verify(t.Context()); err != nil || len(verified.Problems) != 1 {
		t.Errorf("one bit flipped: %v, %v; want a problem", verified, err)
	}
}

// TestDamagedStore: what a store holds is checked when it is read.
func TestDamagedStore(t *testing.T) {
	damage := func(t *testing.T, pattern string) *store.Store {
		st := newStore(t)
		opt := options(st, &web{replies: map[string]string{"http://h0.test/robots.txt": text("User-agent: *\nDisallow: /x\n")}})
		opt.MinDelay, opt.MaxDelay = 5*time.Millisecond, time.Second
		run(t, opt, "r1", pages(2, 1)[:1])
		list, err := filepath.Glob(filepath.Join(st.Dir(), pattern))
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %v, %v", pattern, list, err)
		}
		b, err := os.ReadFile(list[0])
		must.OK(t, err)
		b[len(b)/2] ^= 1
		must.OK(t, os.WriteFile(list[0], b, 0o644))
		return st
	}
	for _, pattern := range []string{"contacts-*", "robots-*", "*.warc.gz.open", "BATCH"} {
		t.Run(pattern, func(t *testing.T) {
			st := damage(t, pattern)
			if pattern == "BATCH" {
				must.OK(t, os.WriteFile(st.Path("BATCH"), []byte("x\n"), 0o644))
			}
			opt := options(st, &web{})
			_, err := try(t, t.Context(), opt, "r2", []record.URL{url("http://h9.test/")})
			if !errors.Is(err, fault.Corrupt) {
				t.Errorf("got %v, want it reported as corrupt", err)
			}
		})
	}
}

// crashStore makes a store on a file system that can crash. The spool is outside it.
func crashStore(t testing.TB, dir string) *crashtest.FS {
	t.Helper()
	fsys := crashtest.New()
	must.OK(t, durable.MkdirAll(fsys, filepath.Dir(dir)), fetch.CreateStore(dir, "", store.Options{FS: fsys}))
	if err := os.MkdirAll(dir, 0o777); err != nil { // for the spool
		t.Fatal(err)
	}
	return fsys
}

func openOn(t testing.TB, fsys durable.FS, dir string) *store.Store {
	t.Helper()
	st, err := store.Open(dir, fetch.Kind, fetch.Version, store.Options{FS: fsys})
	must.OK(t, err)
	return st
}

// TestCrashAtEveryCall stops the machine at each call of a round that changes the
// file system, in turn: the next run ends with one row for each URL.
func TestCrashAtEveryCall(t *testing.T) {
	urls := pages(2, 3)
	dir := filepath.Join(t.TempDir(), "fetch")
	w := &web{replies: map[string]string{urls[0].URL: page("one"), urls[1].URL: page("two"), urls[3].URL: page("one"), urls[4].URL: page("two")}}
	small := func(fsys durable.FS) fetch.Options {
		opt := options(openOn(t, fsys, dir), w)
		opt.Connections, opt.WARCSize, opt.Dedup = 1, 4<<10, true
		return opt
	}
	for n := 1; ; n++ {
		fsys := crashStore(t, dir)
		run(t, small(fsys), "r1", urls[:2])
		fsys.CrashAt(n)
		rows, err := try(t, t.Context(), small(fsys), "r2", urls)
		if !fsys.Crashed() {
			must.OK(t, err)
			outcomes(t, rows, urls)
			for i := range rows {
				for n, body := range map[int]string{3: "one", 4: "two"} { // of the round before
					if rows[i].URL == urls[n].URL && original(t, openOn(t, fsys, dir), &rows[i], body) != urls[n-3].URL {
						t.Errorf("%s does not refer to %s", urls[n].URL, urls[n-3].URL)
					}
				}
			}
			if n < 20 {
				t.Errorf("only %d calls", n)
			}
			return
		}
		for loss := crashtest.Loss(0); loss < 3; loss++ {
			after := fsys.AfterCrash(loss)
			rows, err := try(t, t.Context(), small(after), "r2", urls)
			if err != nil {
				t.Fatalf("crash at call %d, loss %d: %v", n, loss, err)
			}
			outcomes(t, rows, urls)
			checkPlaces(t, openOn(t, after, dir), rows)
			if t.Failed() {
				t.Fatalf("crash at call %d, loss %d", n, loss)
			}
		}
	}
}

// TestDiskFull: a full disk ends the run, publishes nothing, and the run after room
// was made goes on.
func TestDiskFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fetch")
	fsys := crashStore(t, dir)
	urls := pages(5, 20)
	w := &web{}
	opt := options(openOn(t, fsys, dir), w)
	run(t, opt, "r1", urls[:5])
	before, err := opt.Store.Current()
	must.OK(t, err)
	fsys.SetSpace(20 << 10)
	_, err = try(t, t.Context(), opt, "r2", urls)
	if !errors.Is(err, syscall.ENOSPC) || fault.ClassOf(err) != "" {
		t.Fatalf("got %v, want no space left, of no class of its own", err)
	}
	after, err := opt.Store.Current()
	if err != nil || after.Generation != before.Generation {
		t.Fatalf("generation %d, %v; want still %d", after.Generation, err, before.Generation)
	}
	fsys.SetSpace(-1)
	w.log = nil
	outcomes(t, run(t, opt, "r2", urls), urls)
	if len(w.log) >= len(urls) {
		t.Errorf("%d contacts: nothing of the first run was kept", len(w.log))
	}
}

// afterRobots begins a round with one page of h.test, stops it once the robots.txt is
// archived, and after a pause runs it with urls.
func afterRobots(t *testing.T, opt fetch.Options, w *web, pause time.Duration, urls []record.URL) map[string]string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.onFetch = func(url string) {
		if url == "http://h.test/" {
			time.Sleep(time.Second)
			cancel()
		}
	}
	if _, err := try(t, ctx, opt, "r1", []record.URL{url("http://h.test/")}); !errors.Is(err, context.Canceled) {
		t.Fatalf("not interrupted: %v", err)
	}
	time.Sleep(pause)
	w.onFetch, w.log = nil, nil
	return outcomes(t, run(t, opt, "r1", urls), urls)
}

// TestRecoveredRulesAreTheSame: a robots.txt is read again with what counted of it, however
// it came.
func TestRecoveredRulesAreTheSame(t *testing.T) {
	rules := "User-agent: *\nDisallow: /first\n" + strings.Repeat("# filler\n", 30_000) + "Disallow: /last\n"
	var crumbs, zipped strings.Builder
	for i := range rules {
		fmt.Fprintf(&crumbs, "1\r\n%c\r\n", rules[i])
	}
	z := gzip.NewWriter(&zipped)
	_, err := io.WriteString(z, rules)
	must.OK(t, err)
	must.OK(t, z.Close())
	urls := []record.URL{url("http://h.test/first"), url("http://h.test/last"), url("http://h.test/")}
	for name, c := range map[string]struct {
		reply   string
		bodyMax int64
		last    string
	}{
		"in chunks of one byte": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + crumbs.String() + "0\r\n\r\n", 1 << 20, record.OutcomeRobotsDenied},
		"longer than the bound": {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", zipped.Len(), zipped.String()), 5000, record.OutcomeFetched},
	} {
		inBubble(t, name, func(t *testing.T) {
			w := &web{replies: map[string]string{"http://h.test/robots.txt": c.reply}}
			opt := options(newStore(t), w)
			opt.BodyMax = c.bodyMax
			once := outcomes(t, run(t, opt, "r1", urls), urls)
			if once["http://h.test/last"] != c.last || once["http://h.test/first"] != record.OutcomeRobotsDenied {
				t.Fatalf("in one run: %v", once)
			}
			opt.Store = newStore(t)
			if got := afterRobots(t, opt, w, 0, urls); !maps.Equal(got, once) {
				t.Errorf("after a resume %v, in one run %v", got, once)
			}
		})
	}
}

// TestRecoveredRulesAge: what was learnt of robots rules a day before a batch is run again
// does not hold any more.
func TestRecoveredRulesAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &web{replies: map[string]string{"http://h.test/robots.txt": text("User-agent: *\nDisallow: /x\n")}}
		urls := []record.URL{url("http://h.test/x")}
		got := afterRobots(t, options(newStore(t), w), w, 25*time.Hour, urls)
		if len(w.log) != 1 || got["http://h.test/x"] != record.OutcomeRobotsDenied {
			t.Errorf("contacts %v, outcomes %v; want robots.txt asked for again", w.log, got)
		}
	})
}

// TestRecoveredDeadAddress: a batch that is run again, whenever it was interrupted, tries the addresses of a host anew, and
// fetches nothing twice.
func TestRecoveredDeadAddress(t *testing.T) {
	for _, until := range []int{1, 2, 3, 4} { // contacts: robots.txt at two dead addresses, then all at the third
		inBubble(t, fmt.Sprint(until), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := &clocked{answer: func(n int, req *fetch.Request) string {
				if n == until {
					time.Sleep(time.Second)
					cancel()
				}
				if strings.HasSuffix(req.URL, "/robots.txt") {
					return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
				}
				return page("x")
			}}
			opt := options(newStore(t), listening{w})
			urls := pages(1, 3)
			for i := range urls {
				urls[i].Addr = "127.0.0.8,127.0.0.9,127.0.0.1"
			}
			if _, err := try(t, ctx, opt, "r1", urls); !errors.Is(err, context.Canceled) {
				t.Fatalf("not interrupted: %v", err)
			}
			rows := run(t, opt, "r1", urls)
			for u, o := range outcomes(t, rows, urls) {
				if o != record.OutcomeFetched {
					t.Errorf("%s: %s", u, o)
				}
			}
			served := 0
			for _, req := range w.asked {
				if req.Addr.As4()[3] == 1 {
					served++
				}
			}
			if want := 4 + max(0, min(1, until-1)); len(rows) != 4 || served != want {
				t.Errorf("%d rows and %d contacts that were served, want 4 and %d", len(rows), served, want)
			}
		})
	}
}
