package http1

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
	"mercator/pkg/fetch"
)

// TestCompressedPagesOfApache: a page that has not changed is answered with 304, by a server
// that compares before it compresses, and by Apache itself where it is installed.
func TestCompressedPagesOfApache(t *testing.T) {
	t.Run("the same behaviour", func(t *testing.T) {
		unchanged(t, serve(t, func(c net.Conn) {
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			coding, _, _ := strings.Cut(r.Header.Get("Accept-Encoding"), ",")
			for tag := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
				if strings.TrimSpace(tag) == `"1"` {
					fmt.Fprint(c, "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n")
					return
				}
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nETag: \"1-%s\"\r\nContent-Length: 0\r\n\r\n", coding)
		}))
	})
	t.Run("Apache", func(t *testing.T) { unchanged(t, apache(t)) })
}

func unchanged(t *testing.T, url string) {
	t.Helper()
	for _, coding := range []string{"gzip", "br"} {
		client := testClient(t)
		client.AcceptEncoding = coding
		get := func(etag string) (int, string) {
			x := client.once(context.Background(), &fetch.Request{URL: url, Addr: loopback, ETag: etag})
			defer x.Close()
			if x.Outcome != record.OutcomeFetched {
				t.Fatalf("%s: %s (%s)", coding, x.Outcome, x.Error)
			}
			return x.head.Status, x.head.Get("ETag")
		}
		status, etag := get("")
		if status != 200 || !strings.HasSuffix(etag, "-"+coding+`"`) {
			t.Fatalf("%s: status %d, ETag %s", coding, status, etag)
		}
		if status, _ := get(etag); status != 304 {
			t.Errorf("%s: status %d for its own ETag %s, want 304", coding, status, etag)
		}
	}
}

// apache starts a server and returns the URL of a page that it compresses.
func apache(t *testing.T) string {
	const program, modules = "/usr/sbin/apache2", "/usr/lib/apache2/modules/"
	if _, err := os.Stat(program); err != nil {
		needs.Skip(t, "Apache is not installed")
	}
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	addr := l.Addr().String()
	l.Close()
	var conf strings.Builder
	fmt.Fprintf(&conf, "ServerRoot %s\nServerName localhost\nListen %s\nPidFile pid\nErrorLog error.log\nMutex file:%s default\n", dir, addr, dir)
	for _, name := range []string{"mpm_event", "authz_core", "mime", "filter", "deflate", "brotli"} {
		fmt.Fprintf(&conf, "LoadModule %s_module %smod_%s.so\n", name, modules, name)
	}
	fmt.Fprintf(&conf, "TypesConfig /dev/null\nAddType text/html .html\nDocumentRoot %s\nSetOutputFilter BROTLI_COMPRESS;DEFLATE\n", dir)
	for name, text := range map[string]string{"httpd.conf": conf.String(), "a.html": "<p>" + strings.Repeat("hello world ", 500)} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	cmd := exec.Command(program, "-X", "-f", filepath.Join(dir, "httpd.conf"))
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for range 200 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return "http://" + addr + "/a.html"
		}
		time.Sleep(50 * time.Millisecond)
	}
	said, _ := os.ReadFile(filepath.Join(dir, "error.log"))
	t.Fatalf("Apache does not listen: %s", said)
	return ""
}
