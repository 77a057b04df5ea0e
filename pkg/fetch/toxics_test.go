package fetch_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	chunks "github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/http1"
)

// toxicProxy forwards connections to a server, with what a toxic of Toxiproxy does to
// the replies. Only its toxics are used, since its proxy brings an API server with it.
type toxicProxy struct {
	toxic  toxics.Toxic
	server string
	well   *atomic.Bool // from then on nothing is done to replies
}

func (p *toxicProxy) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go p.forward(client.(*net.TCPConn))
	}
}

func (p *toxicProxy) forward(client *net.TCPConn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.(*net.TCPConn).CloseWrite()
	}()
	if p.well.Load() {
		_, _ = io.Copy(client, server)
		return
	}
	size := 0
	if b, ok := p.toxic.(toxics.BufferedToxic); ok {
		size = b.GetBufferSize()
	}
	in, out := make(chan *chunks.StreamChunk, size), make(chan *chunks.StreamChunk)
	stub := toxics.NewToxicStub(in, out)
	if s, ok := p.toxic.(toxics.StatefulToxic); ok {
		stub.State = s.NewState()
	}
	if _, ok := p.toxic.(*toxics.ResetToxic); ok {
		_ = client.SetLinger(0)
	}
	go func() {
		w := chunks.NewChanWriter(in)
		_, _ = io.Copy(w, server)
		w.Close()
	}()
	go func() {
		p.toxic.Pipe(stub)
		for range in { // what the server still says
		}
	}()
	if _, err := io.Copy(client, chunks.NewChanReader(out)); err != nil {
		server.Close()
		for range out {
		}
	}
}

// TestToxics: through real sockets and the faults of Toxiproxy, one kind a host, the
// ledger balances, what is called whole is whole, and the rest can be had when the
// network is well again.
func TestToxics(t *testing.T) {
	const perHost = 6
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, faultyBody(r.Host+r.URL.Path)) }))
	defer server.Close()
	var well atomic.Bool
	kinds := []struct {
		toxic toxics.Toxic
		harms bool // for certain
	}{
		{&toxics.NoopToxic{}, false},
		{&toxics.LatencyToxic{Latency: 60, Jitter: 30}, false},
		{&toxics.SlicerToxic{AverageSize: 50, SizeVariation: 20, Delay: 10}, false},
		{&toxics.BandwidthToxic{Rate: 50}, false},
		{&toxics.BandwidthToxic{Rate: 1}, true}, // 1 kB/s: 2 s a page
		{&toxics.SlowCloseToxic{Delay: 100}, false},
		{&toxics.ResetToxic{Timeout: 10}, true},
		{&toxics.TimeoutToxic{Timeout: 100}, true},
		{&toxics.LimitDataToxic{Bytes: 5000}, true},
	}
	var urls []record.URL
	var hosts []string
	for i, k := range kinds {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.OK(t, err)
		defer l.Close()
		go (&toxicProxy{k.toxic, server.Listener.Addr().String(), &well}).serve(l)
		hosts = append(hosts, fmt.Sprintf("h%d.test:%d", i, l.Addr().(*net.TCPAddr).Port))
		for n := range perHost {
			u := url(fmt.Sprintf("http://%s/%d", hosts[i], n))
			u.Addr = "127.0.0.1"
			urls = append(urls, u)
		}
	}
	client := &http1.Client{UserAgent: "mercator", Limits: fetch.Limits{TempDir: t.TempDir(), Timeout: 500 * time.Millisecond,
		Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}
	opt := options(newStore(t), client)
	opt.Robots, opt.Connections = nil, len(kinds)
	again, whole := faultyRound(t, opt, "r1", urls)
	for i, k := range kinds {
		if n := whole[hosts[i]]; k.harms && n == perHost {
			t.Errorf("%T: all pages came whole", k.toxic)
		} else {
			t.Logf("%T: %d of %d pages came whole", k.toxic, n, perHost)
		}
	}
	well.Store(true)
	client.Timeout = time.Minute
	if again, _ = faultyRound(t, opt, "r2", again); len(again) != 0 {
		t.Errorf("%d URLs did not come through a network that is well", len(again))
	}
}
