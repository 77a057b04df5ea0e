//go:build unix

package http1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"mercator/pkg/fetch"
)

const serverEnv = "MERCATOR_TEST_HTTP1_SERVER"

// TestMain runs the test binary again as the server of the benchmarks, so that they do not count the
// server's processor time. The server ends with its standard input.
func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	page := bytes.Repeat([]byte("<p>text</p>\n"), 10_800/12)
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: test\r\nDate: Sat, 01 Jan 2000 00:00:00 GMT\r\nContent-Type: text/html\r\nLast-Modified: Sat, 01 Jan 2000 00:00:00 GMT\r\nETag: \"1\"\r\nContent-Length: %d\r\n", len(page))
	fmt.Println(l.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			in := bufio.NewReader(c)
			for closes := false; !closes; {
				for {
					line, err := in.ReadSlice('\n')
					if err != nil {
						return
					}
					closes = closes || strings.EqualFold(string(line), "connection: close\r\n") || bytes.HasPrefix(line, []byte("GET /close"))
					if len(line) == 2 {
						break
					}
				}
				end := "\r\n"
				if closes {
					end = "Connection: close\r\n\r\n"
				}
				c.Write(append([]byte(head+end), page...))
			}
		}()
	}
}

// cpu is the processor time that this process has had.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRequest asks for pages of 10.8 KB: this package beside net/http, on kept
// connections and on one for each request. cpu-ns/op is the client's processor time.
func BenchmarkRequest(b *testing.B) {
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverEnv+"=1")
	in, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer server.Wait()
	defer in.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	addr := strings.TrimSpace(line)
	loopback := netip.MustParseAddrPort(addr).Addr()
	for _, path := range []string{"/kept", "/close"} {
		url := "http://" + addr + path
		b.Run("net/http"+path, func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer client.CloseIdleConnections()
			buf := make([]byte, 32<<10)
			measure(b, func() {
				reply, err := client.Get(url)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, reply.Body, buf); err != nil {
					b.Fatal(err)
				}
				reply.Body.Close()
			})
		})
		b.Run("http1"+path, func(b *testing.B) {
			client := &Client{UserAgent: "test", Limits: fetch.Limits{Guard: allow}}
			var conn Conn
			defer conn.Close()
			ctx := context.Background()
			measure(b, func() {
				x := client.do(ctx, &fetch.Request{URL: url, Addr: loopback}, &conn)
				if x.Response == nil || x.Truncated != "" {
					b.Fatal(x.Outcome, x.Error)
				}
				x.Close()
			})
		})
	}
}

func measure(b *testing.B, f func()) {
	b.ReportAllocs()
	before := cpu()
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}
