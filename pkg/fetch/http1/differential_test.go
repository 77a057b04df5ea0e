package http1

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/web/httpmsg"
)

// anything is what bodies are parts of.
var anything = func() []byte {
	b := make([]byte, 101_000)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

// wellFormed writes a reply that RFC 9112 allows, to a request of that method, and
// says whether the connection ends it.
func wellFormed(rnd *rand.Rand, method string) (raw []byte, closes bool) {
	var b bytes.Buffer
	for range rnd.IntN(3) {
		fmt.Fprintf(&b, "HTTP/1.1 %d Wait\r\nLink: </%d>\r\n\r\n", 102+rnd.IntN(2), rnd.IntN(100))
	}
	minor := min(rnd.IntN(8), 1)
	status := []int{200, 200, 200, 203, 301, 304, 204, 404, 410, 429, 500, 503, 599}[rnd.IntN(13)]
	fmt.Fprintf(&b, "HTTP/1.%d %d %s\r\n", minor, status, []string{"", "OK", "Not as it was", "a  b"}[rnd.IntN(4)])
	line := func(name, value string) {
		if rnd.IntN(2) == 0 {
			name = strings.ToLower(name)
		}
		fmt.Fprintf(&b, "%s:%s%s%s\r\n", name, []string{"", " ", "\t ", "  "}[rnd.IntN(4)], value, []string{"", "", " ", "\t"}[rnd.IntN(4)])
	}
	for range rnd.IntN(6) {
		line([]string{"ETag", "Set-Cookie", "X-A", "Via", "Server", "Content-Type"}[rnd.IntN(6)], []string{"x", `"a, b"; c`, "a: b", "", "\xc3\xbc", "1,2, 3"}[rnd.IntN(6)])
	}
	switch rnd.IntN(4) {
	case 0:
		line("Connection", "close")
		closes = true
	case 1:
		line("Connection", "keep-alive")
	default:
		closes = minor == 0
	}
	body := anything[rnd.IntN(1000):][:[]int{0, 1, 100, 5000, 100_000}[rnd.IntN(5)]]
	none := method == "HEAD" || status == 204 || status == 304
	framing := rnd.IntN(3)
	if minor == 0 && framing == 1 {
		framing = 0
	}
	switch framing {
	case 0:
		if status != 204 {
			line("Content-Length", fmt.Sprint(len(body)))
		}
		b.WriteString("\r\n")
		if !none {
			b.Write(body)
		}
	case 1:
		if status != 204 && status != 304 {
			line("Transfer-Encoding", "chunked")
		}
		b.WriteString("\r\n")
		for rest := body; !none && len(rest) > 0; {
			n := 1 + rnd.IntN(min(len(rest), 9000))
			fmt.Fprintf(&b, []string{"%x", "%X", "%08x"}[rnd.IntN(3)]+"%s\r\n%s\r\n", n, []string{"", ";a", `;a="b"`}[rnd.IntN(3)], rest[:n])
			rest = rest[n:]
		}
		if !none {
			b.WriteString("0\r\n" + []string{"", "Expires: 0\r\n"}[rnd.IntN(2)] + "\r\n")
		}
	case 2:
		b.WriteString("\r\n")
		if !none {
			b.Write(body)
			closes = true
		}
	}
	return b.Bytes(), closes
}

// pipeTo returns a dialer to a server that answers a request with raw, in pieces.
func pipeTo(rnd *rand.Rand, raw []byte, closes bool) func(context.Context, string, string) (net.Conn, error) {
	cuts := make([]int, 0, 4)
	for range 3 {
		cuts = append(cuts, 1+rnd.IntN(len(raw)))
	}
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			readHead(far)
			rest := raw
			for _, n := range append(cuts, len(raw)) {
				n = min(n, len(rest))
				if n > 0 {
					far.Write(rest[:n])
				}
				rest = rest[n:]
			}
			if !closes {
				io.Copy(io.Discard, far)
			}
		}()
		return near, nil
	}
}

// What net/http reads of a well-formed reply, this package reads too: status,
// header, body, and whether the connection stands.
func TestAgainstNetHTTP(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		method := []string{"GET", "GET", "GET", "HEAD"}[rnd.IntN(4)]
		raw, closes := wellFormed(rnd, method)
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d, %s: %s\nof %.600q", seed, method, fmt.Sprintf(format, args...), raw)
		}
		peer := &http.Transport{DialContext: pipeTo(rnd, raw, closes), DisableCompression: true}
		req, err := http.NewRequest(method, "http://h.test/", nil)
		must.OK(t, err)
		want, err := peer.RoundTrip(req)
		if err != nil {
			fail("net/http: %v", err)
		}
		wantBody, err := io.ReadAll(want.Body)
		if err != nil {
			fail("net/http: %v", err)
		}
		want.Body.Close()
		peer.CloseIdleConnections()

		client := &Client{Limits: fetch.Limits{Guard: allow, Timeout: time.Minute, Dial: pipeTo(rnd, raw, closes)}}
		var conn Conn
		x := client.do(context.Background(), &fetch.Request{Method: method, URL: "http://h.test/", Addr: loopback}, &conn)
		if x.Outcome != record.OutcomeFetched || x.Truncated != "" {
			fail("%q, truncated %q (%s)", x.Outcome, x.Truncated, x.Error)
		}
		if x.head.Status != want.StatusCode || x.head.Minor != want.ProtoMinor {
			fail("status %d of HTTP/1.%d, want %d of %s", x.head.Status, x.head.Minor, want.StatusCode, want.Proto)
		}
		header := http.Header{}
		for _, f := range x.head.Fields {
			header.Add(f.Name, f.Value)
		}
		for _, name := range []string{"Transfer-Encoding", "Connection"} { // net/http keeps those elsewhere
			header.Del(name)
			want.Header.Del(name)
		}
		if fmt.Sprint(header) != fmt.Sprint(want.Header) {
			fail("header %q, want %q", header, want.Header)
		}
		body, err := io.ReadAll(x.payload())
		if err != nil || !bytes.Equal(body, wantBody) {
			fail("%d bytes (%v), want %d", len(body), err, len(wantBody))
		}
		if conn.Open() == want.Close {
			fail("connection kept %v, by net/http %v", conn.Open(), !want.Close)
		}
		conn.Close()
		x.Close()
	}
}

// scripted is a connection on which a reply comes in pieces of so many bytes.
type scripted struct {
	net.Conn
	raw   []byte
	piece int
}

func (s *scripted) Read(b []byte) (int, error) {
	if len(s.raw) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), s.piece)], s.raw)
	s.raw = s.raw[n:]
	return n, nil
}
func (*scripted) Write(b []byte) (int, error)      { return len(b), nil }
func (*scripted) Close() error                     { return nil }
func (*scripted) SetDeadline(time.Time) error      { return nil }
func (*scripted) SetReadDeadline(time.Time) error  { return nil }
func (*scripted) SetWriteDeadline(time.Time) error { return nil }

// FuzzReply: whatever comes, in whatever pieces, has one outcome; what is kept is
// bounded, came over the wire, and reads from the archive as it was read here.
func FuzzReply(f *testing.F) {
	for seed := range uint64(20) {
		raw, _ := wellFormed(rand.New(rand.NewPCG(seed, 2)), "GET")
		f.Add(raw[:min(len(raw), 4096)], uint16(seed))
	}
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nICY 200\nContent-Length: 3, 3\n\nabcd"), uint16(1))
	f.Add([]byte("<p>"), uint16(2))
	f.Add([]byte("\r\nHTTP/1.1 200 OK\rX\r\nTransfer-Encoding: chunked\r\n\r\n00003 ;x\nabc\n0\nT: v\n\n"), uint16(3))
	f.Fuzz(func(t *testing.T, raw []byte, piece uint16) {
		const most = 4096
		do := func(piece int) (*exchange, []byte) {
			client := &Client{Limits: fetch.Limits{Guard: allow, BodyMax: most, Dial: func(context.Context, string, string) (net.Conn, error) {
				return &scripted{raw: raw, piece: piece}, nil
			}}}
			x := client.once(context.Background(), &fetch.Request{URL: "http://h.test/", Addr: loopback})
			var payload []byte
			if x.Response != nil {
				payload, _ = io.ReadAll(x.payload())
			}
			return x, payload
		}
		x, payload := do(1 + int(piece))
		defer x.Close()
		switch x.Outcome {
		case record.OutcomeProtocol, record.OutcomeDisconnect:
			if x.Response != nil || x.Error == "" {
				t.Errorf("%s (%q) with a response", x.Outcome, x.Error)
			}
		case record.OutcomeFetched:
			kept := make([]byte, x.Length)
			if _, err := x.stream.ReadAt(kept, 0); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			if len(kept) > x.head.Size+most || !bytes.Contains(raw, kept) || len(payload) > most {
				t.Errorf("%d bytes kept, %d of payload", len(kept), len(payload))
			}
			m, err := httpmsg.Open(bytes.NewReader(kept))
			if err != nil {
				t.Fatalf("the archived reply: %v", err)
			}
			again, err := io.ReadAll(m.Payload)
			if m.Head.Status != x.head.Status || !bytes.Equal(again, payload) || (err != nil) != (x.Truncated != "") && x.Truncated == "" {
				t.Errorf("the archive gives status %d and %q (%v), want %d and %q", m.Head.Status, again, err, x.head.Status, payload)
			}
		default:
			t.Errorf("outcome %q (%s)", x.Outcome, x.Error)
		}
		whole, other := do(len(raw) + 1)
		defer whole.Close()
		if whole.Outcome != x.Outcome || whole.Truncated != x.Truncated || !bytes.Equal(other, payload) || whole.head.Status != x.head.Status {
			t.Errorf("in pieces: %s %q %q; at once: %s %q %q", x.Outcome, x.Truncated, payload, whole.Outcome, whole.Truncated, other)
		}
	})
}
