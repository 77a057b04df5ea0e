package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"mercator/pkg/base/must"
)

// TestForeignSitemaps: sitemaps on hosts that the filter does not allow, which robots.txt of the crawl's hosts names, are read: an index, its
// part and a text, none with the name or type of a sitemap. So they are in a crawl of three shards, and when all its commands are killed at the
// first contact with each of these hosts.
func TestForeignSitemaps(t *testing.T) {
	t.Parallel()
	const sites = 3 // 127.0.0.1 to 3; their sitemaps are on 11 to 13
	listeners, port := listenOn(t, 1, 2, 3, 11, 12, 13)
	at := func(n int, path string) string { return fmt.Sprintf("http://127.0.0.%d:%d/%s", n, port, path) }
	var doomed atomic.Pointer[func(host string)] // what a contact with a host of sitemaps does
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.Host)
		n := 0
		fmt.Sscanf(host, "127.0.0.%d", &n)
		if kill := doomed.Load(); kill != nil && n > 10 && r.URL.Path != "/robots.txt" {
			(*kill)(host)
		}
		switch {
		case r.URL.Path == "/robots.txt" && n < 10:
			fmt.Fprintf(w, "Sitemap: %s\nSitemap: %s\n", at(10+n, "index"), at(11+n%sites, "list"))
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.URL.Path == "/index":
			w.Header().Set("Content-Type", "application/octet-stream")
			fmt.Fprintf(w, "<sitemapindex><sitemap><loc>%s</loc></sitemap></sitemapindex>", at(n, "part"))
		case r.URL.Path == "/part":
			w.Header().Set("Content-Type", "application/octet-stream")
			fmt.Fprintf(w, "<urlset><url><loc>%s</loc></url><url><loc>%s</loc></url></urlset>", at(n-10, "from-part"), at(n, "foreign"))
		case r.URL.Path == "/list":
			w.Header().Set("Content-Type", "application/octet-stream")
			for site := range sites {
				fmt.Fprintln(w, at(site+1, fmt.Sprintf("from-list-%d", n)))
			}
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<title>%s</title>", r.URL)
		}
	})
	server := &http.Server{Handler: serve}
	t.Cleanup(func() { server.Close() })
	for _, l := range listeners {
		go server.Serve(l)
	}
	dir := t.TempDir()
	seeds, rules, lines := filepath.Join(dir, "seeds.txt"), filepath.Join(dir, "scope.rules"), ""
	var want []string
	for n := 1; n <= sites; n++ {
		lines += at(n, "") + "\n"
		want = append(want, at(n, ""), at(n, "from-part"), at(10+n, "index"), at(10+n, "part"), at(10+n, "list"))
		for list := range sites {
			want = append(want, at(n, fmt.Sprintf("from-list-%d", 11+list)))
		}
	}
	for i := range want {
		want[i] += "\tfetched\t200"
	}
	for name, text := range map[string]string{seeds: lines, rules: "allow sites: regex \"^http://127[.]0[.]0[.][123]:\"\ndefault deny\n"} {
		must.OK(t, os.WriteFile(name, []byte(text), 0o666))
	}
	for _, shards := range []int{1, 3} {
		for _, kills := range []bool{false, true} {
			t.Run(fmt.Sprintf("shards %d kills %t", shards, kills), func(t *testing.T) {
				c := newCrawl(t, &web{seeds: seeds, dns: "127.0.0.1:9"}, "CONTACT=test@example.org", "EXTRACT_FLAGS=--filter "+rules)
				if shards > 1 {
					c.shards(t, shards)
				}
				killed := map[string]bool{}
				for {
					cmd := c.command(t, "mcrawl")
					cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
					contacts := make(chan string)
					ended := make(chan struct{})
					kill := func(host string) {
						select {
						case contacts <- host:
						case <-ended:
						}
					}
					if kills {
						doomed.Store(&kill)
					}
					var out strings.Builder
					cmd.Stdout, cmd.Stderr = &out, &out
					must.OK(t, cmd.Start())
					var err error
					go func() { err = cmd.Wait(); close(ended) }()
					again := false
					for running := true; running; {
						select {
						case host := <-contacts:
							if !killed[host] {
								killed[host], again = true, true
								syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
							}
						case <-ended:
							running = false
						}
					}
					doomed.Store(nil)
					if err == nil {
						break
					}
					if !again {
						t.Fatalf("%v\n%s", err, out.String())
					}
				}
				if kills && len(killed) != sites {
					t.Errorf("killed at contacts with %v", killed)
				}
				got := ""
				if shards > 1 {
					got = output(t, "mcat", append([]string{"--format", "tsv", "--columns", "url,outcome,status"}, c.kept(t, "marked.arrows.zst")...)...)
				} else {
					got = output(t, "mcat", append([]string{"--format", "tsv", "--columns", "url,outcome,status"}, c.outcomes(t)...)...)
				}
				var pages []string
				for line := range strings.Lines(got) {
					if line != "url\toutcome\tstatus\n" && !strings.Contains(line, "/robots.txt\t") && !strings.Contains(line, "\tdeferred\t") {
						pages = append(pages, strings.TrimSuffix(line, "\n"))
					}
				}
				if got, want := sorted(strings.Join(pages, "\n")), sorted(strings.Join(want, "\n")); got != want {
					t.Errorf("the crawl found other URLs:\n%s", diff(want, got))
				}
				output(t, "mckpt", "verify", "--quiet", c.dir)
			})
		}
	}
}
