package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// watch serves the page to who has its token and asks for it by a loopback address or localhost, and to nobody else; Ctrl-C ends it.
func TestWatch(t *testing.T) {
	t.Parallel()
	crawl := filepath.Join(t.TempDir(), "crawl")
	bin := commands(t)
	if out, err := exec.Command(filepath.Join(bin, "mckpt"), "init", crawl).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(filepath.Join(bin, "mcrawl"), "watch", crawl, "--listen", "127.0.0.1:0", "--every", "1s", "--metrics", crawl+".prom")
	said, err := cmd.StderrPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	defer cmd.Process.Kill()
	line, _ := bufio.NewReader(said).ReadString('\n')
	address := regexp.MustCompile(`(http://127\.0\.0\.1:\d+/)(\?token=\w{20,}) `).FindStringSubmatch(line)
	if address == nil {
		t.Fatalf("it said %q, want its address", line)
	}
	page, token := address[1], address[2]
	known := func() bool {
		text, err := os.ReadFile(crawl + ".prom")
		return err == nil && bytes.Contains(text, fmt.Appendf(nil, "\nmercator_urls{crawl=%q,state=\"known\"} 0\n", crawl))
	}
	if !known() {
		t.Error("no file of metrics when the address is said")
	}
	must.OK(t, os.Remove(crawl+".prom"))
	for !known() { // it is written again
		if _, err := http.Get(page + token); err != nil {
			t.Fatal(err)
		}
	}
	if reply, err := http.Post(page+token, "text/plain", strings.NewReader("x")); err != nil || reply.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", reply, err)
	}
	away := func(is bool) func() error {
		from, to := crawl, crawl+".away"
		if !is {
			from, to = to, from
		}
		return func() error { return os.Rename(from, to) }
	}
	for _, c := range []struct {
		host, path string
		status     int
		want       string
		refresh    string
		before     func() error
	}{
		{"", token, 200, "nothing was fetched yet", "", nil},
		{"localhost:1", token, 200, `http-equiv="refresh" content="1"`, "", nil},
		{"LOCALHOST", token, 200, "nothing was fetched yet", "", nil},
		{"LocalHost.:80", token, 200, "nothing was fetched yet", "", nil},
		{"[::1]:8100", token, 200, "nothing was fetched yet", "", nil},
		{"[::1]", token, 200, "nothing was fetched yet", "", nil},
		{"127.9.9.9", token, 200, "nothing was fetched yet", "", nil},
		{"example.org:80", token, 403, "by its address", "", nil},
		{"localhost.example.org", token, 403, "by its address", "", nil},
		{"127.0.0.1.example.org:80", token, 403, "by its address", "", nil},
		{"192.0.2.1", token, 403, "by its address", "", nil},
		{"", "", 403, "with its token", "", nil},
		{"", "?token=", 403, "with its token", "", nil},
		{"", token + "A", 403, "with its token", "", nil},
		{"", "favicon.ico", 403, "with its token", "", nil},
		{"", "favicon.ico" + token, 404, "", "", nil},
		{"", token, 500, "crawl: ", "1", away(true)}, // it was made anew, and the error loads itself again
		{"", token, 200, "nothing was fetched yet", "", away(false)},
	} {
		if c.before != nil {
			must.OK(t, c.before())
		}
		req, err := http.NewRequest("GET", page+c.path, nil)
		must.OK(t, err)
		req.Host = c.host
		var reply *http.Response
		var body []byte
		for { // what changed before is seen when the page is made anew: see --every
			reply, err = http.DefaultClient.Do(req)
			must.OK(t, err)
			body, err = io.ReadAll(reply.Body)
			reply.Body.Close()
			if c.before == nil || reply.StatusCode == c.status {
				break
			}
		}
		if err != nil || reply.StatusCode != c.status || !strings.Contains(string(body), c.want) || reply.Header.Get("Refresh") != c.refresh {
			t.Errorf("%s%s: %d, want %d; refresh %q, want %q; %v, %.200s", c.host, c.path, reply.StatusCode, c.status, reply.Header.Get("Refresh"), c.refresh, err, body)
		}
	}
	must.OK(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}

	// No log gets the token: the page is refused, and the file of metrics is kept all the same.
	cmd = exec.Command(filepath.Join(bin, "mcrawl"), "watch", crawl)
	cmd.Env = append(os.Environ(), "MERCATOR_LOG=json")
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), `"hint":"env -u MERCATOR_LOG mcrawl watch `) {
		t.Errorf("%v: %s", err, out)
	}
	metrics := filepath.Join(t.TempDir(), "crawl.prom")
	cmd = exec.Command(filepath.Join(bin, "mcrawl"), "watch", crawl, "--metrics", metrics)
	cmd.Env = append(os.Environ(), "MERCATOR_LOG=json")
	if said, err = cmd.StderrPipe(); err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	line, _ = bufio.NewReader(said).ReadString('\n')
	if strings.Contains(line, "http://") || !strings.Contains(line, "no page is served") {
		t.Errorf("logged %q", line)
	}
	if text, err := os.ReadFile(metrics); err != nil || !strings.Contains(string(text), "mercator_") {
		t.Errorf("%v: %q", err, text)
	}
	cmd.Process.Kill()
	cmd.Wait()
}
