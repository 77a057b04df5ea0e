package simweb

import (
	"bufio"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

// talk sends raw bytes to a fresh server and returns the connection.
func talk(t *testing.T, respond Responder, sent string) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	s := &Server{Respond: respond}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	conn, err := net.Dial("tcp", l.Addr().String())
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.WriteString(conn, sent)
	must.OK(t, err)
	return conn
}

// Requests sent at once are answered in order, however they are cut.
func TestServerPipelining(t *testing.T) {
	w := mustNew(t, small)
	targets := []string{"/", "/nothing", "/a/2.jpg", "/robots.txt"}
	var all string
	for range 20 {
		for _, target := range targets {
			all += "GET " + target + " HTTP/1.1\r\nHost: H0.mweb.test:18080\r\n\r\n"
		}
	}
	conn := talk(t, w.Calm(), all[:len(all)-7])
	in := bufio.NewReader(conn)
	for i := range 20 * len(targets) {
		if i == 20*len(targets)-1 {
			io.WriteString(conn, all[len(all)-7:])
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		want := w.Respond(nil, &Request{Method: "GET", Host: "h0.mweb.test", Target: targets[i%len(targets)]})
		if resp.StatusCode != want.Status || string(body) != string(want.Body) {
			t.Errorf("reply %d (%s): status %d, %d bytes", i, targets[i%len(targets)], resp.StatusCode, len(body))
		}
	}
}

func TestServerRefuses(t *testing.T) {
	w := mustNew(t, small)
	for _, c := range []struct{ name, sent, want string }{
		{"no version", "GET /\r\n\r\n", "HTTP/1.1 400 "},
		{"other protocol", "GET / SPDY/3\r\n\r\n", "HTTP/1.1 400 "},
		{"field without colon", "GET / HTTP/1.1\r\nHost\r\n\r\n", "HTTP/1.1 400 "},
		{"a body", "GET / HTTP/1.1\r\nHost: h0.mweb.test\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 400 "},
		{"a chunked body", "GET / HTTP/1.1\r\nHost: h0.mweb.test\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 400 "},
		{"an endless head", "GET / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 4000), "HTTP/1.1 431 "},
		{"another host", "GET / HTTP/1.0\r\nHost: example.org\r\n\r\n", "HTTP/1.1 421 "},
		{"a name without address", "GET / HTTP/1.0\r\nHost: nxdomain1.mweb.test\r\n\r\n", "HTTP/1.1 421 "},
		{"another method", "POST / HTTP/1.0\r\nHost: h0.mweb.test\r\n\r\n", "HTTP/1.1 405 "},
		{"absolute form", "GET http://h0.mweb.test:18080/ HTTP/1.0\r\nHost: proxy\r\n\r\n", "HTTP/1.1 200 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := talk(t, w.Calm(), c.sent)
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil || !strings.HasPrefix(line, c.want) {
				t.Errorf("got %q, %v, want %q", line, err, c.want)
			}
		})
	}
}

// Codings, HEAD, entity tags and HTTP/1.0 over one web, by net/http.
func TestServerFraming(t *testing.T) {
	w, client := startWeb(t, small)
	gzips, chunks := 0, 0
	for _, v := range w.Oracle() {
		if v.Status != 200 || v.r.kind != kindPage || v.r.host != 0 {
			continue
		}
		want := string(w.appendBody(nil, v.r, 0))
		do := func(method string, header ...string) (*http.Response, string) {
			req, err := http.NewRequest(method, v.URL, nil)
			must.OK(t, err)
			req.Header.Set("Accept-Encoding", "gzip")
			for i := 0; i < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			resp, err := client.Do(req)
			must.OK(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			must.OK(t, err)
			if resp.Header.Get("Content-Encoding") == "gzip" && method == "GET" {
				gzips++
				z, err := gzip.NewReader(strings.NewReader(string(body)))
				must.OK(t, err)
				body, err = io.ReadAll(z)
				must.OK(t, err)
			}
			if len(resp.TransferEncoding) > 0 {
				chunks++
			}
			return resp, string(body)
		}
		resp, body := do("GET")
		if body != want {
			t.Errorf("%s: other content", v.URL)
		}
		if _, body := do("HEAD"); body != "" {
			t.Errorf("%s: HEAD has a body", v.URL)
		}
		again, body := do("GET", "If-None-Match", resp.Header.Get("ETag"))
		if again.StatusCode != 304 || body != "" {
			t.Errorf("%s: status %d for its own entity tag", v.URL, again.StatusCode)
		}
		if _, body := do("GET", "Accept-Encoding", "identity"); body != want {
			t.Errorf("%s: other content without coding", v.URL)
		}
	}
	if gzips == 0 || chunks == 0 {
		t.Errorf("%d replies in gzip, %d in chunks, want some", gzips, chunks)
	}
}

// What Hard adds, one host after the other, under a clock of its own.
func TestHard(t *testing.T) {
	cfg := small
	cfg.Hard = true
	w := mustNew(t, cfg)
	h := w.NewHard()
	now := time.Unix(1_000_000, 0)
	get := func(host, target string) (Response, time.Duration) {
		return h.Respond(nil, &Request{Method: "GET", Host: host + Suffix, Target: target}, now)
	}
	if p, _ := get("h9", "/"); p.Status != 200 {
		t.Errorf("busy host: status %d at first, want 200", p.Status)
	}
	now = now.Add(50 * time.Millisecond)
	if p, _ := get("h9", "/"); p.Status != 429 || p.RetryAfter != 1 {
		t.Errorf("busy host: status %d, Retry-After %d, want 429 and 1", p.Status, p.RetryAfter)
	}
	now = now.Add(time.Second)
	if p, _ := get("h9", "/"); p.Status != 200 {
		t.Errorf("busy host: status %d after the wait, want 200", p.Status)
	}
	if _, delay := get("xn--bcher-kva.h5", "/"); delay < 200*time.Millisecond || delay > 2*time.Second {
		t.Errorf("slow host: %v", delay)
	}
	before, _ := get("h3", "/")
	now = now.Add(time.Second)
	if after, _ := get("h3", "/"); string(before.Body) == string(after.Body) || before.ETag == after.ETag {
		t.Error("the page has not changed after a second")
	}
	for i := range 4 {
		if p, _ := get("h6", "/robots.txt"); (p.Status == 503) != (i < 3) {
			t.Errorf("robots.txt at request %d: status %d", i+1, p.Status)
		}
	}
	if p, _ := get("h4", "/deep/123456/"); p.Status != 200 || !strings.Contains(string(p.Body), "deep/123457/") {
		t.Errorf("deep page: status %d, %s", p.Status, p.Body)
	}
	slow, delays := 0, 0
	for host := range int32(w.Hosts) {
		if w.NameDelay(string(w.appendHost(nil, resource{host: host}))+".") > 0 {
			slow++
		}
		if strings.Contains(w.robotsText(host), "Crawl-delay: 1\n") {
			delays++
		}
	}
	if slow == 0 || delays == 0 {
		t.Errorf("%d slow names and %d crawl delays, want some of both", slow, delays)
	}
}
