// Package hostile holds the test of package fetch against servers that harm, lie
// or are broken: one batch asks them all, on a network and a clock of its own
// (testing/synctest), so that each outcome and each duration is exact.
package hostile

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/http1"
	"mercator/pkg/folder/stage"
	"mercator/pkg/view/derive"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/robots"
)

// heapMax bounds the memory of the whole batch, the servers' share included.
const heapMax = 160 << 20

func TestHostileServers(t *testing.T) {
	good, roots := issue(t, "*.test")
	stranger, _ := issue(t, "elsewhere.example")
	list := servers(good, stranger)
	if len(list) < 60 {
		t.Fatalf("%d servers", len(list))
	}
	var rows []record.Fetch
	st := newStore(t)
	wire := map[string]int64{}
	net := &network{servers: map[string]*server{}, good: good}
	peak := peakHeap(func() {
		synctest.Test(t, func(t *testing.T) {
			rows = batch(t, st, list, net, roots, wire)
			net.open.Wait() // all connections are closed
		})
	})
	t.Logf("%d servers; the heap grew to %d MiB", len(list), peak>>20)
	if peak > heapMax {
		t.Errorf("the heap grew to %d bytes", peak)
	}
	sameIndex(t, st, rows)
	byURL := map[string]*record.Fetch{}
	for i := range rows {
		if rows[i].Role == record.RolePage {
			byURL[rows[i].URL] = &rows[i]
		}
	}
	for i, s := range list {
		for page := range max(s.pages, 1) {
			u := pageURL(i, s, page)
			row := byURL[u]
			if row == nil {
				t.Errorf("%s: no row", s.name)
				continue
			}
			s.check(t, row)
			if most := int64(httpmsg.HeadMax)*9 + bodyMax + 1<<16; wire[u] > most {
				t.Errorf("%s: %d bytes were read, want at most %d", s.name, wire[u], most)
			}
			archived(t, st, s.name, row)
		}
		row := byURL[neighbour(i)]
		if row == nil || row.Outcome != record.OutcomeFetched || row.Truncated != "" || row.ContentFP != fingerprint.OfString(neighbourBody(i)) || row.DurationUS != 0 {
			t.Errorf("%s: its neighbour came out as %+v", s.name, row)
		}
	}
}

// sameIndex: whatever servers say, the rows give the index that the archive gives.
func sameIndex(t *testing.T, st *store.Store, rows []record.Fetch) {
	t.Helper()
	dirs := []string{st.Dir()}
	parts, err := fetch.Saved(dirs, store.Options{})
	must.OK(t, err)
	places, _, err := fetch.Places(dirs, store.Options{})
	must.OK(t, err)
	archive, fast := derive.NewIndex(1<<20, t.TempDir()), derive.NewIndex(1<<20, t.TempDir())
	defer archive.Close()
	defer fast.Close()
	for _, p := range parts {
		must.OK(t, archive.Part(t.Context(), p, nil))
	}
	from := &derive.Rows{Files: []string{recordtest.File(t, filepath.Join(t.TempDir(), "rows"), nil, rows...)}, Places: places}
	if all, err := fast.Rows(t.Context(), from, parts, nil, nil); !all || err != nil {
		t.Errorf("the rows are not those of the archive, which has %v: %v", places, err)
	}
	lines := func(x *derive.Index) (all []string) {
		must.OK(t, x.Lines(func(line []byte) error { all = append(all, string(line)); return nil }))
		return all
	}
	if diff := cmp.Diff(lines(archive), lines(fast)); diff != "" {
		t.Errorf("the index of rows differs (-archive +rows):\n%s", diff)
	}
}

// check compares a row with what was wanted.
func (s *server) check(t *testing.T, row *record.Fetch) {
	t.Helper()
	if row.Outcome != s.outcome || row.Truncated != s.truncated || !strings.Contains(row.Error, s.says) {
		t.Errorf("%s: outcome %q, truncated %q, error %q, want %q, %q, %q", s.name, row.Outcome, row.Truncated, row.Error, s.outcome, s.truncated, s.says)
	}
	if s.says == "" && s.outcome == record.OutcomeFetched && s.truncated != httpmsg.TruncatedUnspecified && s.truncated != httpmsg.TruncatedDisconnect && row.RedirectURL == "" && row.Status/100 != 3 && row.Error != "" {
		t.Errorf("%s: error %q, want none", s.name, row.Error)
	}
	if took := time.Duration(row.DurationUS) * time.Microsecond; took != s.took {
		t.Errorf("%s: took %v, want %v", s.name, took, s.took)
	}
	contacts := s.contacts
	switch {
	case contacts == 0:
		contacts = 2
	case contacts < 0:
		contacts = 0
	}
	if n := s.connections.Load(); n != contacts && s.outcome != record.OutcomeRobotsDenied {
		t.Errorf("%s: %d connections, want %d", s.name, n, contacts)
	}
	fp := uint64(0)
	if s.body != "" {
		fp = fingerprint.OfString(s.body)
	}
	switch {
	case row.BodyLength > bodyMax:
		t.Errorf("%s: %d bytes kept", s.name, row.BodyLength)
	case s.body != "…" && (row.BodyLength != int64(len(s.body)) || row.ContentFP != fp):
		t.Errorf("%s: %d bytes kept, want %.40q", s.name, row.BodyLength, s.body)
	}
	for _, text := range []string{row.ETag, row.LastModified, row.MIME, row.Charset, row.Error} {
		if len(text) > 1<<10 || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%s: a column holds %.80q", s.name, text)
		}
	}
}

// archived: what the archive holds is what the row says.
func archived(t *testing.T, st *store.Store, name string, row *record.Fetch) {
	t.Helper()
	if (row.WARCLength > 0) != (row.Outcome == record.OutcomeFetched) {
		t.Errorf("%s: %s, and a response of %d bytes", name, row.Outcome, row.WARCLength)
		return
	}
	if row.WARCLength == 0 {
		return
	}
	f, err := st.OpenFile(row.WARCFilename)
	must.OK(t, err)
	defer f.Close()
	rec, r, err := warc.OpenAt(f, int64(row.WARCOffset), int64(row.WARCLength), warc.ReaderOptions{Name: row.WARCFilename})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer r.Close()
	m, err := httpmsg.Open(rec.Block)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	body := httpmsg.NewBody(&m.Head, m.Payload, row.BodyLength)
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil || int64(len(b)) != row.BodyLength || m.Head.Status != int(row.Status) {
		t.Errorf("%s: the archive gives status %d and %d bytes (%v), the row %d and %d", name, m.Head.Status, len(b), err, row.Status, row.BodyLength)
	}
	if len(b) > 0 && fingerprint.Of(b) != row.ContentFP {
		t.Errorf("%s: the archive gives another body", name)
	}
	if got := rec.Get(warc.FieldTruncated); got != "" && got != row.Truncated {
		t.Errorf("%s: archived as truncated by %q, the row says %q", name, got, row.Truncated)
	}
}

func pageURL(i int, s *server, page int) string {
	scheme := "http"
	if s.https {
		scheme = "https"
	}
	return fmt.Sprintf("%s://h%d.test/%d", scheme, i, page)
}

func neighbour(i int) string     { return fmt.Sprintf("http://n%d.test/", i) }
func neighbourBody(i int) string { return strings.Repeat(fmt.Sprintf("neighbour %d ", i), 100) }

// batch asks each server for its pages, and between them a good one.
func batch(t *testing.T, st *store.Store, list []*server, net *network, roots *x509.CertPool, wire map[string]int64) []record.Fetch {
	var urls []record.URL
	add := func(u string, at netip.Addr) {
		host := strings.Split(u, "/")[2]
		urls = append(urls, record.URL{URL: u, Host: host, Key: fingerprint.URLKey(host, u), Addr: at.String()})
	}
	for i, s := range list {
		at := netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)})
		port := uint16(80)
		if s.https {
			port = 443
		}
		net.servers[netip.AddrPortFrom(at, port).String()] = s
		for page := range max(s.pages, 1) {
			add(pageURL(i, s, page), at)
		}
		at = netip.AddrFrom4([4]byte{127, 2, byte(i >> 8), byte(i)})
		body := neighbourBody(i)
		net.servers[netip.AddrPortFrom(at, 80).String()] = &server{serve: keep(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", ok, len(body), body))}
		add(neighbour(i), at)
	}
	guard := addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	web := &metered{Protocol: &http1.Client{
		UserAgent: "test", TLS: &tls.Config{RootCAs: roots},
		Limits: fetch.Limits{Timeout: timeout, ConnectTimeout: connectTimeout, BodyMax: bodyMax, TempDir: st.Dir(), Guard: guard, Dial: net.dial},
	}, wire: wire}
	in := stream(t, urls)
	opt := fetch.Options{
		Store: st, Protocols: map[string]fetch.Protocol{"http": web, "https": web}, Resolver: private{},
		Access: fetch.Access{Guard: func(a netip.Addr) (string, error) {
			_, reason := guard.Allowed(a)
			return reason, nil
		}},
		Robots: func(b []byte) fetch.Rules { return robots.Parse(b).Group("mercator") },
		Pace:   fetch.Pace{Connections: 8}, Bounds: fetch.Bounds{BodyMax: bodyMax}, Archiving: fetch.Archiving{WARCSize: 1 << 30, Codec: warc.Gzip},
		Txn: "r1", Schema: in.Schema(), Hooks: fetch.Hooks{Now: time.Now},
	}
	var out recordtest.Output
	spec := stage.Spec{Name: "mfetch", Verb: "fetch", Store: st, Txn: "r1"}
	_, err := stage.Run(t.Context(), spec, in, []stage.Output{&out}, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
		return fetch.Run(ctx, b, opt)
	})
	must.OK(t, err)
	rows, _ := recordtest.Rows[record.Fetch](t, &out.Buffer)
	return rows
}

// metered notes how many bytes each contact read.
type metered struct {
	fetch.Protocol
	mu   sync.Mutex
	wire map[string]int64
}

func (m *metered) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	r := m.Protocol.Fetch(ctx, req)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wire[req.URL] = r.Wire
	return r
}

// private is a resolver for which every name is in a private network.
type private struct{}

func (private) Resolve(context.Context, string) ([]netip.Addr, time.Time, string) {
	return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, time.Now().Add(time.Hour), ""
}

func newStore(t *testing.T) *store.Store {
	dir := filepath.Join(t.TempDir(), "fetch")
	must.OK(t, fetch.CreateStore(dir, "", store.Options{}))
	st, err := store.Open(dir, fetch.Kind, fetch.Version, store.Options{})
	must.OK(t, err)
	return st
}

func stream(t *testing.T, rows []record.URL) stage.Input[record.URL] {
	return recordtest.Reader[record.URL](t, recordtest.Stream(t, record.WriterOptions{Txn: "r1", Now: 1_000_000}, rows...))
}

// issue makes a certificate that signs itself, good when the bubble's clock begins
// (2000-01-01).
func issue(t *testing.T, name string) (*tls.Config, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	from := time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: from, NotAfter: from.AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must.OK(t, err)
	certificate, err := x509.ParseCertificate(der)
	must.OK(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, roots
}

// peakHeap returns the most memory that the heap took while f ran.
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
				peak = max(peak, m.HeapInuse)
			}
		}
	})
	f()
	close(stop)
	sampling.Wait()
	return peak
}
