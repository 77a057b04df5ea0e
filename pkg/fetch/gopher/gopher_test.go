package gopher

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
)

// get fetches a URL from a server that is a function.
func get(t *testing.T, url string, serve func(c net.Conn, line string)) (reply *fetch.Reply, body, sent string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dial := func(_ context.Context, _, addr string) (net.Conn, error) {
			if addr != "127.0.0.1:70" {
				t.Errorf("connected to %s", addr)
			}
			client, own := net.Pipe()
			go func() {
				defer own.Close()
				sent, _ = bufio.NewReader(own).ReadString('\n')
				serve(own, sent)
			}()
			return client, nil
		}
		m := &Module{fetch.Limits{Dial: dial, BodyMax: 100_000, TempDir: t.TempDir(), Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}
		start := time.Now()
		reply = m.Fetch(context.Background(), &fetch.Request{URL: url, Host: "h.test", Addr: netip.MustParseAddr("127.0.0.1")})
		if d := time.Since(start); d > 2*time.Minute {
			t.Errorf("the contact took %v", d)
		}
		if reply.Err != nil {
			t.Errorf("an error of this machine: %v", reply.Err)
		}
		if reply.Response != nil {
			b, err := io.ReadAll(reply.Response)
			if err != nil {
				t.Error(err)
			}
			body = string(b)
			reply.Memory.Close()
		}
	})
	return reply, body, sent
}

func TestFetch(t *testing.T) {
	stall := func(c net.Conn, _ string) { io.Copy(io.Discard, c) }
	says := func(text string) func(net.Conn, string) {
		return func(c net.Conn, _ string) { io.WriteString(c, text) }
	}
	endless := func(text string) func(net.Conn, string) {
		return func(c net.Conn, _ string) {
			for {
				if _, err := io.WriteString(c, text); err != nil {
					return
				}
			}
		}
	}
	for _, c := range []struct {
		name, url, sent string
		serve           func(net.Conn, string)
		outcome, body   string
		media           string
		truncated       string
		status          int
	}{
		{"menu of the server", "gopher://h.test/", "\r\n", says("iHi\t\th\t70\r\n.\r\n"), record.OutcomeFetched, "iHi\t\th\t70\r\n", MenuType, "", 0},
		{"text with dots", "gopher://h.test/0/a%20b", "/a b\r\n", says("x\r\n..y\r\n.z\r\n.\r\nrest"), record.OutcomeFetched, "x\r\n.y\r\n.z\r\n", "text/plain", "", 0},
		{"text, and the server waits", "gopher://h.test/0x", "x\r\n", func(c net.Conn, s string) { io.WriteString(c, "x\n.\n"); stall(c, s) }, record.OutcomeFetched, "x\n", "text/plain", "", 0},
		{"text of a server that adds no dots", "gopher://h.test/0x", "x\r\n", says(".x\r\n..y\r\n.\r\n"), record.OutcomeFetched, ".x\r\n..y\r\n", "text/plain", "", 0},
		{"text without an end", "gopher://h.test/0x", "x\r\n", says("x\r\n."), record.OutcomeFetched, "x\r\n", "text/plain", "", 0},
		{"binary", "gopher://h.test/9x", "x\r\n", says(".\r\n..\x00"), record.OutcomeFetched, ".\r\n..\x00", "application/octet-stream", "", 0},
		{"HTML", "gopher://h.test/hx", "x\r\n", says("<p>"), record.OutcomeFetched, "<p>", "text/html", "", 0},
		{"picture", "gopher://h.test/gx", "x\r\n", says("GIF"), record.OutcomeFetched, "GIF", "image/gif", "", 0},
		{"search", "gopher://h.test/7/find%09two%20words", "/find\ttwo words\r\n", says("1a\tb\tc\t70\r\n.\r\n"), record.OutcomeFetched, "1a\tb\tc\t70\r\n", MenuType, "", 0},
		{"query is a part of the selector", "gopher://h.test/0/a?b", "/a?b\r\n", says("x"), record.OutcomeFetched, "x", "text/plain", "", 0},
		{"not found", "gopher://h.test/1/x", "/x\r\n", says("3no such\t\terror.host\t1\r\n.\r\n"), record.OutcomeFetched, "3no such\t\terror.host\t1\r\n", MenuType, "", 404},
		{"text that begins with 3", "gopher://h.test/0/x", "/x\r\n", says("3 apples\r\n"), record.OutcomeFetched, "3 apples\r\n", "text/plain", "", 0},
		{"silence", "gopher://h.test/0x", "x\r\n", stall, record.OutcomeTimeout, "", "", "", 0},
		{"empty", "gopher://h.test/0x", "x\r\n", says(""), record.OutcomeFetched, "", "text/plain", "", 0},
		{"stops", "gopher://h.test/9x", "x\r\n", func(c net.Conn, s string) { io.WriteString(c, "ab"); stall(c, s) }, record.OutcomeFetched, "ab", "application/octet-stream", "time", 0},
		{"endless text", "gopher://h.test/0x", "x\r\n", endless("..\r\n"), record.OutcomeFetched, strings.Repeat(".\r\n", 33334)[:100_000], "text/plain", "length", 0},
		{"endless line", "gopher://h.test/1x", "x\r\n", endless("1"), record.OutcomeFetched, strings.Repeat("1", 100_000), MenuType, "length", 0},
		{"NULs", "gopher://h.test/1x", "x\r\n", says("\x00\x00\r\n"), record.OutcomeFetched, "\x00\x00\r\n", MenuType, "", 0},
		{"line end in the selector", "gopher://h.test/0x%0D%0Ay", "", says("x"), record.OutcomeScheme, "", "", "", 0},
		{"NUL in the selector", "gopher://h.test/0x%00", "", says("x"), record.OutcomeScheme, "", "", "", 0},
		{"telnet", "gopher://h.test/8x", "", says("x"), record.OutcomeScheme, "", "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, body, sent := get(t, c.url, c.serve)
			if r.Outcome != c.outcome || body != c.body || r.Media != c.media || r.Truncated != c.truncated || r.Status != c.status || sent != c.sent {
				t.Errorf("outcome %q (%s), media %q, truncated %q, status %d, sent %q, body %.60q", r.Outcome, r.Error, r.Media, r.Truncated, r.Status, sent, body)
			}
			if err := new(Module).Check(c.url); (err != nil) != (c.outcome == record.OutcomeScheme) {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

// However the bytes are cut, the text is the same.
func FuzzDotReader(f *testing.F) {
	for _, s := range []string{"a\r\n..b\r\n.\r\nc", ".", ".\r", "..\n.x\n.\n", ".\r.\n", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		whole, err := io.ReadAll(&dotReader{in: bufio.NewReader(strings.NewReader(s))})
		must.OK(t, err)
		slow, err := io.ReadAll(iotest.OneByteReader(&dotReader{in: bufio.NewReader(iotest.OneByteReader(strings.NewReader(s)))}))
		if err != nil || string(slow) != string(whole) {
			t.Fatalf("%q and %q, %v", whole, slow, err)
		}
		if strings.Contains("\n"+string(whole)+"\n", "\n..\n") && !strings.Contains(s, "...") {
			t.Fatalf("%q of %q", whole, s)
		}
	})
}
