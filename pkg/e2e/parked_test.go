package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
)

// listenOn listens on one port of several addresses 127.0.0.N, the first being 127.0.0.1. A port
// that is free there may be taken on another.
func listenOn(t *testing.T, numbers ...int) (listeners []net.Listener, port int) {
	t.Helper()
	var err error
	for range 100 {
		for _, n := range numbers {
			var l net.Listener
			if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", n, port)); err != nil {
				break
			}
			listeners, port = append(listeners, l), l.Addr().(*net.TCPAddr).Port
		}
		if err == nil {
			return listeners, port
		}
		for _, l := range listeners {
			l.Close()
		}
		listeners, port = nil, 0
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			needs.Skip(t, "all of 127.0.0.0/8 must be this machine, as on Linux: ", err)
		}
	}
	t.Fatalf("no port that is free on all of 127.0.0.%v: %v", numbers, err)
	return nil, 0
}

// TestParkedHosts: a host that asks for three years between two contacts, one that asks to come
// back in the year 9999, and an address that --allow-net does not name keep no crawl from its end.
// Their URLs are parked and told. Released, with the flag, they are fetched.
func TestParkedHosts(t *testing.T) {
	t.Parallel()
	listeners, port := listenOn(t, 1, 2, 3, 9)
	at := func(n int, path string) string { return fmt.Sprintf("http://127.0.0.%d:%d/%s", n, port, path) }
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.Host)
		switch {
		case r.URL.Path == "/robots.txt" && host == "127.0.0.2":
			fmt.Fprintln(w, "User-agent: *\nCrawl-delay: 99999999")
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case host == "127.0.0.3":
			w.Header().Set("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "text/html")
			if r.URL.Path == "/" {
				for _, link := range []string{at(1, "a"), at(1, "b"), at(2, "a"), at(2, "b"), at(3, "a"), at(3, "b"), at(9, "x")} {
					fmt.Fprintf(w, "<a href=%q>%[1]s</a>\n", link)
				}
			}
		}
	})
	server := &http.Server{Handler: serve}
	t.Cleanup(func() { server.Close() })
	for _, l := range listeners {
		go server.Serve(l)
	}
	seeds := filepath.Join(t.TempDir(), "seeds.txt")
	must.OK(t, os.WriteFile(seeds, []byte(at(1, "")+"\n"+at(2, "")+"\n"+at(3, "")+"\n"), 0o666))
	for driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			c := newCrawl(t, &web{seeds: seeds, dns: "127.0.0.1:9"}, "CONTACT=test@example.org", "UPDATE_FLAGS=")
			run := func(allow string, want ...string) {
				t.Helper()
				cmd := c.command(t, driver, "FETCH_FLAGS=--allow-net "+allow)
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				stuck := time.AfterFunc(2*time.Minute, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
				out, err := cmd.CombinedOutput()
				stuck.Stop()
				if err != nil {
					t.Fatalf("%v\n%s", err, tail(out))
				}
				for _, want := range want {
					if !strings.Contains(string(out), want) {
						t.Errorf("not told: %s\n%s", want, tail(out))
					}
				}
				output(t, "mckpt", "verify", "--quiet", c.dir)
				output(t, "mfrontier", "check", c.dir+"/frontier")
			}
			run("127.0.0.0/30", "URLs are parked (address-refused 1, parked ")
			if got := output(t, "mfrontier", "release", c.dir+"/frontier", "--outcome", "address-refused"); got != "1 URL put back\n" {
				t.Error(got)
			}
			var exit *exec.ExitError
			if err := exec.Command(bin+"mfrontier", "stat", "--empty", c.dir+"/frontier").Run(); !errors.As(err, &exit) || exit.ExitCode() != 6 {
				t.Errorf("what was released does not wait: %v", err)
			}
			run("127.0.0.0/8", "URLs are parked (parked ")
			if found := c.found(t); !strings.Contains(found, at(9, "x")+"\tfetched\t200") || !strings.Contains(found, at(1, "b")+"\tfetched\t200") {
				t.Error(found)
			}
		})
	}
}
