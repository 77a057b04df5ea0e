package fetch_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/web/canon"
)

// finger is the protocol module that README.md points to: finger://host/NAME (RFC 1288).
type finger struct{ fetch.Limits }

func (m *finger) Check(url string) error {
	if _, _, name := canon.Split(url); strings.Contains(name, "%") {
		return errors.New("finger: an escape in the name")
	}
	return nil
}

func (m *finger) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	ctx, cancel := m.Begin(ctx)
	defer cancel()
	conn, err := m.Connect(ctx, netip.AddrPortFrom(req.Addr, 79))
	if err != nil {
		return fetch.Failed(err)
	}
	defer conn.Close()
	_, _, name := canon.Split(req.URL)
	if _, err := conn.Write([]byte(name[1:] + "\r\n")); err != nil {
		return fetch.Failed(fetch.Classify(err, record.OutcomeDisconnect))
	}
	doc, err := m.Keep(conn)
	if err != nil {
		return fetch.Failed(err)
	}
	return doc.Reply("text/plain")
}

// TestConnectFails: a connection that does not come in time is one that failed, as one that is refused.
func TestConnectFails(t *testing.T) {
	l := fetch.Limits{ConnectTimeout: time.Millisecond, Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	for _, refused := range []bool{false, true} {
		l.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			if refused {
				return nil, syscall.ECONNREFUSED
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		_, err := l.Connect(t.Context(), netip.MustParseAddrPort("127.0.0.1:79"))
		if f, ok := errors.AsType[*fetch.Failure](err); !ok || f.Outcome != record.OutcomeConnect {
			t.Errorf("refused: %t: %#v, want connect-failed", refused, err)
		}
	}
}

// A module's documents are resource records, and a replay gives the same rows.
func TestModule(t *testing.T) {
	dial := func(_ context.Context, _, addr string) (net.Conn, error) {
		client, own := net.Pipe()
		go func() {
			defer own.Close()
			name, _ := bufio.NewReader(own).ReadString('\n')
			io.WriteString(own, addr+" knows "+name)
		}()
		return client, nil
	}
	schemes, err := canon.ParseSchemes([]string{"finger:79"})
	must.OK(t, err)
	st := newStore(t)
	opt := options(st, &web{})
	opt.Canon.Schemes = schemes
	opt.Protocols = map[string]fetch.Protocol{"finger": &finger{fetch.Limits{Dial: dial, Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}}
	urls := []record.URL{url("finger://h.test/anna"), url("finger://h.test/a%0Ab"), url("http://h.test/")}
	rows := run(t, opt, "r1", urls)
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		want := record.OutcomeScheme
		if row.URL == "finger://h.test/anna" {
			want = record.OutcomeFetched
			body := row.Addr + ":79 knows anna\r\n"
			if row.Status != 200 || row.MIME != "text/plain" || row.BodyLength != int64(len(body)) || row.ContentFP == 0 || row.WARCLength == 0 {
				t.Errorf("%+v", row)
			}
			if kind, block := recordAt(t, st, &row); kind != warc.TypeResource || block != body {
				t.Errorf("a %s record of %q", kind, block)
			}
		}
		if row.Outcome != want {
			t.Errorf("%s: outcome %q (%s), want %q", row.URL, row.Outcome, row.Error, want)
		}
	}
	sameAgain(t, st, urls, rows)
}

// recordAt reads the record that a row names.
func recordAt(t *testing.T, st *store.Store, row *record.Fetch) (kind, block string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(st.Dir(), row.WARCFilename+"*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	f, err := os.Open(files[0])
	must.OK(t, err)
	defer f.Close()
	rec, r, err := warc.OpenAt(f, row.WARCOffset, row.WARCLength, warc.ReaderOptions{})
	must.OK(t, err)
	defer r.Close()
	b, err := io.ReadAll(rec.Block)
	must.OK(t, err)
	return rec.Type, string(b)
}

// files is a server that speaks no HTTP: documents by URL.
type files struct {
	docs map[string]string
	log  []string
}

func (*files) Check(string) error { return nil }

func (f *files) Fetch(_ context.Context, req *fetch.Request) *fetch.Reply {
	f.log = append(f.log, req.URL)
	text, ok := f.docs[req.URL]
	switch {
	case !ok:
		return &fetch.Reply{Outcome: record.OutcomeFetched, Status: 404}
	case text == "":
		return &fetch.Reply{Outcome: record.OutcomeFetched, Status: 503}
	}
	return &fetch.Reply{Outcome: record.OutcomeFetched, Media: "application/octet-stream", Response: strings.NewReader(text), Length: int64(len(text))}
}

// TestRobotsOverFTP: RFC 9309 section 2.3 has ftp://…/robots.txt. It holds for its
// own scheme alone, also where the host's name is the same.
func TestRobotsOverFTP(t *testing.T) {
	w := &web{replies: map[string]string{"http://a.test/robots.txt": text("User-agent: *\nDisallow: /web\n")}}
	f := &files{docs: map[string]string{
		"ftp://a.test/robots.txt": "User-agent: *\nDisallow: /pub/secret\n", "ftp://a.test/pub/a": "a", "ftp://a.test/web": "w",
		"ftp://b.test/x": "x", "ftp://busy.test/robots.txt": "", "ftp://busy.test/x": "x",
	}}
	want := map[string]string{
		"ftp://a.test/pub/a":        record.OutcomeFetched,
		"ftp://a.test/pub/secret/x": record.OutcomeRobotsDenied,
		"ftp://a.test/web":          record.OutcomeFetched,
		"http://a.test/web":         record.OutcomeRobotsDenied,
		"http://a.test/pub/secret":  record.OutcomeFetched,
		"ftp://b.test/x":            record.OutcomeFetched,
		"ftp://busy.test/x":         record.OutcomeRobotsUnreachable,
	}
	var urls []record.URL
	for u := range want {
		urls = append(urls, url(u))
	}
	st := newStore(t)
	opt := options(st, w)
	opt.Protocols["ftp"], opt.Connections = f, 1
	rows := run(t, opt, "r1", urls)
	got := outcomes(t, rows, urls)
	for u, outcome := range want {
		if got[u] != outcome {
			t.Errorf("%s: %s, want %s", u, got[u], outcome)
		}
	}
	sameAgain(t, st, urls, rows)

	// The next round remembers.
	f.log = nil
	next := []record.URL{url("ftp://a.test/pub/secret/y"), url("ftp://b.test/y")}
	run(t, opt, "r2", next)
	if len(f.log) != 1 || f.log[0] != next[1].URL {
		t.Errorf("the next round contacted %q", f.log)
	}
}
