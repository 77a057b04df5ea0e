package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/replay"
	"mercator/pkg/folder/bodies"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
)

// TestFewHostsInMemory: with room for two hosts, redirected robots.txt files that
// need a third, and one connection, every batch ends.
func TestFewHostsInMemory(t *testing.T) {
	w := &web{replies: map[string]string{}}
	var urls []record.URL
	for i := range 60 {
		host := fmt.Sprintf("http://h%d.test", i%20)
		w.replies[host+"/robots.txt"] = fmt.Sprintf("HTTP/1.1 301 Moved\r\nLocation: http://h%d.test/rules.txt\r\nContent-Length: 0\r\n\r\n", (i+7)%20)
		w.replies[host+"/rules.txt"] = text("User-agent: *\nDisallow: /no\n")
		urls = append(urls, url(fmt.Sprintf("%s/%d", host, i)))
	}
	for _, connections := range []int{1, 3, 30} {
		for _, addrDelay := range []time.Duration{0, time.Millisecond} {
			opt := options(newStore(t), w)
			opt.BackQueues, opt.Connections, opt.AddrDelay = 2, connections, addrDelay
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			rows, err := try(t, ctx, opt, "r1", urls)
			cancel()
			if err != nil {
				t.Fatalf("%d connections, address delay %s: %v", connections, addrDelay, err)
			}
			outcomes(t, rows, urls)
		}
	}
}

// noise is a reply of n bytes that does not compress and costs no memory.
type noise struct {
	head string
	n    int64
	at   int64
}

// hiss is longer than the windows of compressors.
var hiss = func() []byte {
	b := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

func (r *noise) Read(p []byte) (int, error) {
	if r.at >= int64(len(r.head))+r.n {
		return 0, io.EOF
	}
	n := 0
	if r.at < int64(len(r.head)) {
		n = copy(p, r.head[r.at:])
	}
	p = p[:min(int64(len(p)), int64(len(r.head))+r.n-r.at)]
	for n < len(p) {
		n += copy(p[n:], hiss[(r.at+int64(n))%int64(len(hiss)):])
	}
	r.at += int64(n)
	return n, nil
}

func (r *noise) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += int64(len(r.head)) + r.n
	}
	r.at = offset
	return offset, nil
}

type noisyWeb struct{ size int64 }

func (noisyWeb) Check(string) error { return nil }

func (w noisyWeb) Fetch(_ context.Context, req *fetch.Request) *fetch.Reply {
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", w.size)
	return &fetch.Reply{Outcome: record.OutcomeFetched, Head: headOf(head), Sent: []byte("GET / HTTP/1.1\r\n\r\n"),
		Response: &noise{head: head, n: w.size}, Length: int64(len(head)) + w.size, Wire: w.size}
}

// headOf parses the head of a reply, as http1 does.
func headOf(reply string) *httpmsg.Head {
	h := new(httpmsg.Head)
	if err := h.Parse([]byte(reply[:strings.Index(reply, "\r\n\r\n")+4])); err != nil {
		panic(err)
	}
	return h
}

// codedWeb replies with the same to each request.
type codedWeb struct{ reply string }

func (codedWeb) Check(string) error { return nil }

func (w codedWeb) Fetch(context.Context, *fetch.Request) *fetch.Reply {
	return &fetch.Reply{Outcome: record.OutcomeFetched, Head: headOf(w.reply), Sent: []byte("GET / HTTP/1.1\r\n\r\n"),
		Response: strings.NewReader(w.reply), Length: int64(len(w.reply)), Wire: int64(len(w.reply))}
}

// leftSome fails if a round left none of its documents for the commands behind it: their memory would not be measured.
func leftSome(t *testing.T, st *store.Store) {
	t.Helper()
	info, err := os.Stat(filepath.Join(st.Dir(), bodies.File))
	if err == nil && info.Size() < 3<<20 {
		err = fmt.Errorf("%s: %d bytes", info.Name(), info.Size())
	}
	if err != nil {
		t.Errorf("no documents were left (is the disk of TMPDIR full?): %v", err)
	}
}

// peakHeap returns the most memory that heap and stacks took while f ran, in MiB.
func peakHeap(f func()) uint64 {
	runtime.GC()
	var peak uint64
	stop := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		var m runtime.MemStats
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse+m.StackInuse)
			}
		}
	})
	f()
	close(stop)
	sampling.Wait()
	return peak >> 20
}

// TestMemoryOfLargeReplies: what is encoded and waits for the writer is bounded,
// however many connections end at once.
func TestMemoryOfLargeReplies(t *testing.T) {
	peak := peakHeap(func() {
		_, st := inCrawl(t)
		opt := options(st, noisyWeb{1 << 20})
		opt.Connections, opt.Robots = 128, nil
		urls := pages(128, 1)
		outcomes(t, run(t, opt, "r1", urls), urls)
		leftSome(t, st)
		// One reply larger than all that is allowed goes alone.
		_, st = inCrawl(t)
		opt = options(st, noisyWeb{12 << 20})
		opt.Robots = nil
		urls = pages(2, 1)
		outcomes(t, run(t, opt, "r1", urls), urls)
	})
	if peak > 128 {
		t.Errorf("heap grew to %d MiB", peak)
	}
}

// TestMemoryOfDecodedBodies: short replies that swell to a MiB each, on many
// connections at once, while the next command in the pipe is slow.
func TestMemoryOfDecodedBodies(t *testing.T) {
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, err := z.Write(make([]byte, 1<<20))
	must.OK(t, err)
	must.OK(t, z.Close())
	urls := pages(300, 1)
	_, st := inCrawl(t)
	opt := options(st, codedWeb{fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", gz.Len(), gz.Bytes())})
	opt.Connections, opt.Robots = len(urls), nil
	var slow sync.Once
	opt.OnRow = func(*record.Fetch) { slow.Do(func() { time.Sleep(time.Second) }) }
	peak := peakHeap(func() { outcomes(t, run(t, opt, "r1", urls), urls) })
	if peak > 128 {
		t.Errorf("heap grew to %d MiB", peak)
	}
}

// TestMemoryOfDecoders: short replies that demand long windows of their decoders,
// on many connections at once.
func TestMemoryOfDecoders(t *testing.T) {
	block := make([]byte, 96<<10) // that swells less than a bomb
	rand.NewChaCha8([32]byte{}).Read(block)
	text := bytes.Repeat(block, 192)
	var br, zs bytes.Buffer
	b := brotli.NewWriterOptions(&br, brotli.WriterOptions{Quality: 5, LGWin: 24})
	z, err := zstd.NewWriter(&zs, zstd.WithWindowSize(8<<20))
	must.OK(t, err)
	for _, w := range []io.WriteCloser{b, z} {
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		must.OK(t, w.Close())
	}
	coded := func(coding string, body *bytes.Buffer) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, body.Len(), body)
	}
	w := &web{replies: map[string]string{}}
	urls := pages(32, 1)
	for i := range urls {
		w.replies[urls[i].URL] = coded("br", &br)
		if i%2 == 0 {
			w.replies[urls[i].URL] = coded("zstd", &zs)
		}
	}
	opt := options(newStore(t), w)
	opt.Connections, opt.Robots, opt.BodyMax = len(urls), nil, int64(len(text))
	var rows []record.Fetch
	peak := peakHeap(func() { rows = run(t, opt, "r1", urls) })
	for i := range rows {
		if rows[i].BodyLength != int64(len(text)) {
			t.Errorf("%s: %d bytes decoded (%s %s)", rows[i].URL, rows[i].BodyLength, rows[i].Truncated, rows[i].Error)
		}
	}
	if peak > 160 { // 18 of them are this test's own
		t.Errorf("heap grew to %d MiB", peak)
	}
}

func TestDenyIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "deny")
		must.OK(t, os.WriteFile(path, nil, 0o644))
		var once sync.Once
		w := &web{delay: 2 * time.Millisecond, onFetch: func(u string) {
			if strings.HasSuffix(u, "stop.test/9") {
				once.Do(func() {
					if err := os.WriteFile(path, []byte("stop.test\n"), 0o644); err != nil {
						t.Error(err)
					}
				})
			}
		}}
		var urls []record.URL
		for i := range 200 {
			urls = append(urls, url(fmt.Sprintf("http://stop.test/%d", i)), url(fmt.Sprintf("http://go.test/%d", i)))
		}
		opt := options(newStore(t), w)
		opt.RefusedOK = true
		var err error
		opt.Deny, err = fetch.OpenDeny(path, canon.Options{})
		must.OK(t, err)
		n := map[string]int{}
		for u, o := range outcomes(t, run(t, opt, "r1", urls), urls) {
			n[strings.Split(u, "/")[2]+" "+o]++
		}
		if n["stop.test fetched"] < 10 || n["stop.test denied"] < 20 || n["go.test fetched"] != 200 {
			t.Errorf("outcomes %v, want the one host to be stopped in the middle", n)
		}
	})
}

// TestUnknownColumns: a batch with columns of a newer version goes through the
// spool as any other.
// TestHostOfAnotherServer: a row with a host by which politeness would be kept with another
// server than is contacted is no row.
func TestHostOfAnotherServer(t *testing.T) {
	for _, c := range []struct{ url, host string }{
		{"http://a.test/", "b.test"}, {"http://a.test/", ""}, {"http://a.test:80/", "a.test:80"}, {"http://A.test/", "A.test"}, {"http://u@a.test/", "u@a.test"},
		{"http://a.test\\@b.test/", "a.test\\@b.test"}, {"http://a.test#@b.test/", "a.test#@b.test"}, {"http://a.test?@b.test/", "a.test?@b.test"}, {"nonsense", ""}, {"", ""},
	} {
		t.Run(c.url+" "+c.host, func(t *testing.T) {
			w := &web{}
			_, err := try(t, t.Context(), options(newStore(t), w), "r1", []record.URL{{URL: c.url, Host: c.host, Addr: "127.0.0.1"}})
			if fault.ClassOf(err) != fault.Corrupt || len(w.log) > 0 {
				t.Errorf("%s of host %q: %v, contacted %q", c.url, c.host, err, w.log)
			}
		})
	}
}

func TestUnknownColumns(t *testing.T) {
	b, err := os.ReadFile("../../formats/record/testdata/good/extra-column.arrows.zst")
	must.OK(t, err)
	in, err := record.NewReader[record.URL](bytes.NewReader(b), record.ReaderOptions{Name: "in"})
	must.OK(t, err)
	if len(in.Schema().ExtraColumns()) == 0 {
		t.Fatal("the vector has no unknown column")
	}
	opt := options(newStore(t), &web{})
	opt.Schema, opt.Resolver = in.Schema(), names{}
	rows := runBody(t, opt.Store, "", in, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
		return fetch.Run(ctx, b, opt)
	})
	got := map[string]string{}
	for i := range rows {
		if rows[i].Role == record.RolePage {
			got[rows[i].URL] = rows[i].Outcome
		}
	}
	want := map[string]string{"http://a.test/": record.OutcomeFetched, "http://a.test/é?q=1": record.OutcomeFetched, "https://b.test:8443/": record.OutcomeScheme}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestCodecs: the codec of the archive changes where a response stands and nothing
// else, and each is read back.
func TestCodecs(t *testing.T) {
	urls := pages(3, 5)
	var want []record.Fetch
	for _, codec := range []warc.Codec{warc.Gzip, warc.Zstd, warc.None} {
		opt := options(newStore(t), &web{})
		opt.Codec, opt.Connections = codec, 1
		clock := time.UnixMicro(1_000_000)
		opt.Now = func() time.Time { return clock }
		interrupted(t, opt, "r1", urls)
		rows := run(t, opt, "r1", urls)
		outcomes(t, rows, urls)
		checkPlaces(t, opt.Store, rows)
		saved, err := fetch.Saved([]string{opt.Store.Dir()}, store.Options{})
		must.OK(t, err)
		in := stream(t, "r1", urls)
		again := runBody(t, newStore(t), "r1", in, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
			return replay.Run(ctx, b, replay.Options{Files: saved, Txn: "r1", Schema: in.Schema()})
		})
		for i := range rows {
			if !bytes.Equal(record.AppendRow(nil, &rows[i]), record.AppendRow(nil, &again[i])) {
				t.Fatalf("%s: replay gave %+v, want %+v", codec, again[i], rows[i])
			}
			rows[i].WARCFilename, rows[i].WARCOffset, rows[i].WARCLength = "", 0, 0
		}
		if want == nil {
			want = rows
		}
		for i := range rows {
			if !bytes.Equal(record.AppendRow(nil, &rows[i]), record.AppendRow(nil, &want[i])) {
				t.Fatalf("%s: row %+v, want %+v", codec, rows[i], want[i])
			}
		}
	}
}

// TestHostileText: what a server writes into its head ends in columns of bounded
// length, valid and without control characters.
func TestHostileText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	w := &web{replies: map[string]string{}}
	var urls []record.URL
	for i := range 200 {
		junk := make([]byte, rnd.IntN(3000))
		for j := range junk {
			for junk[j] == 0 || junk[j] == '\n' || junk[j] == '\r' {
				junk[j] = byte(rnd.Uint32())
			}
		}
		name := []string{"ETag", "Last-Modified", "Content-Type", "Location", "Retry-After", "Content-Encoding", "Transfer-Encoding"}[i%7]
		u := fmt.Sprintf("http://h%d.test/%d", i%9, i)
		w.replies[u] = fmt.Sprintf("HTTP/1.1 302 Found\r\n%s: %s\r\n\r\nbody", name, junk)
		urls = append(urls, url(u))
	}
	rows := run(t, options(newStore(t), w), "r1", urls)
	outcomes(t, rows, urls)
	for i := range rows {
		for _, s := range []string{rows[i].ETag, rows[i].LastModified, rows[i].MIME, rows[i].Charset, rows[i].Error} {
			if len(s) > 1024 || strings.ToValidUTF8(s, "") != s || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }) {
				t.Errorf("%s: a column holds %d bytes beginning %.40q", rows[i].URL, len(s), s)
			}
		}
	}
}

// TestACutLineOfRobots: of a robots.txt that is longer than what is kept of it, the line
// that is cut allows nothing.
func TestACutLineOfRobots(t *testing.T) {
	const rules, last = "User-agent: *\nDisallow: /p\n", "Allow: /p"
	for _, max := range []int{500 << 10, 10 << 10} {
		pad := "#" + strings.Repeat("x", max-len(rules)-len(last)-2) + "\n"
		opt := options(newStore(t), &web{replies: map[string]string{"http://h.test/robots.txt": text(rules + pad + last + "ublic\n")}})
		opt.BodyMax = int64(max)
		if max == 500<<10 {
			opt.BodyMax *= 2
		}
		urls := []record.URL{url("http://h.test/private"), url("http://h.test/x")}
		got := outcomes(t, run(t, opt, "r1", urls), urls)
		if got["http://h.test/private"] != record.OutcomeRobotsDenied || got["http://h.test/x"] != record.OutcomeFetched {
			t.Errorf("%d bytes: %v", max, got)
		}
	}
}
