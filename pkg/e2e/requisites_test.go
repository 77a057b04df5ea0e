package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPageParts: mcrawl site fetches the parts of its pages from the hosts where they are, what style sheets name and import included, and
// follows no link there: of a frame, of a page that an image leads to, of a sitemap.
func TestPageParts(t *testing.T) {
	t.Parallel()
	listeners, port := listenOn(t, 1, 2, 3) // the site, a host for its parts, and another
	at := func(n int, path string) string { return fmt.Sprintf("http://127.0.0.%d:%d%s", n, port, path) }
	pages := map[string]string{
		at(1, "/"): `<link rel=stylesheet href=CDN/main.css><link rel=apple-touch-icon href=CDN/touch.png><link rel=icon href=CDN/icon.png>
			<link rel=alternate href=CDN/alternate.html><link rel=prefetch href=CDN/prefetch.html><script src=CDN/app.js></script><style>@import "CDN/inner.css";</style>
			<img src=CDN/one.png srcset="CDN/two.png 2x"><div style="background: url(CDN/style.png)"></div><img src=CDN/private/no.png>
			<video src=CDN/film.mp4 poster=CDN/poster.jpg><track src=CDN/film.vtt></video><audio><source src=CDN/sound.mp3></audio>
			<object data=CDN/object.swf></object><embed src=CDN/embed.swf><iframe src=CDN/frame.html></iframe>
			<svg><image href=CDN/svg.png /><a href=CDN/svg.html>no</a></svg>
			<img src=/stored.png><img src=CDN/sign-in.png><a href=/out>out</a><a href=CDN/page.html>no</a><a href=/docs/>members</a>
			<img src=/picture><iframe data-src=/lazy></iframe><a href="/docs/?utm_source=mail">twin</a><a href="/docs/;jsessionid=0123456789ABCDEF0123">twin</a>`,
		at(1, "/picture"):      `<img src=CDN/of-picture.png><iframe src=CDN/of-picture.html></iframe>`, // pages, though found as parts
		at(1, "/lazy"):         `<link rel=stylesheet href=CDN/of-lazy.css>`,
		at(2, "/of-lazy.css"):  `@import "of-lazy-more.css"`,
		at(1, "/docs/"):        `<img src=CDN/docs.png><img src=/logo.png><a href=/>home</a>`,
		at(2, "/main.css"):     `@import "more.css"; @font-face { src: url(font.woff2) } body { background: url(main.png) }`,
		at(2, "/more.css"):     `@import "third.css"; body { background: url(more.png) }`,
		at(2, "/third.css"):    `body { background: url(no.png) }`,
		at(2, "/inner.css"):    `body { background: url(inner.png) }`,
		at(2, "/frame.html"):   `<img src=frame.png><link rel=stylesheet href=frame.css><a href=/no.html>no</a>`,
		at(2, "/robots.txt"):   "User-agent: *\nDisallow: /private/\nSitemap: CDN/sitemap.xml\n",
		at(3, "/sign-in.html"): `<img src=/no.png><a href=/no.html>no</a>`,
	}
	redirects := map[string]string{at(1, "/stored.png"): at(2, "/stored.png"), at(1, "/out"): at(2, "/out.html"), at(2, "/sign-in.png"): at(3, "/sign-in.html")}
	var mu sync.Mutex
	var got []string
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		url := "http://" + r.Host + r.URL.Path
		if r.URL.Path != "/robots.txt" {
			mu.Lock()
			got = append(got, strings.NewReplacer(at(1, ""), "site", at(2, ""), "cdn", at(3, ""), "other").Replace(url))
			mu.Unlock()
		}
		switch text, ok := pages[url]; {
		case redirects[url] != "":
			http.Redirect(w, r, redirects[url], http.StatusFound)
		case r.URL.Path == "/robots.txt" && !ok:
			http.NotFound(w, r)
		default:
			types := map[string]string{".css": "text/css", ".png": "image/png", ".txt": "text/plain"}
			w.Header().Set("Content-Type", "text/html")
			if known := types[filepath.Ext(r.URL.Path)]; known != "" {
				w.Header().Set("Content-Type", known)
			}
			fmt.Fprint(w, strings.ReplaceAll(text+url, "CDN", at(2, "")))
		}
	})}
	t.Cleanup(func() { server.Close() })
	for _, l := range listeners {
		go server.Serve(l)
	}
	site := []string{"site/", "site/docs/", "site/lazy", "site/logo.png", "site/out", "site/picture", "site/stored.png"}
	cdn := strings.Fields("main.css more.css third.css inner.css inner.png font.woff2 main.png more.png touch.png icon.png app.js one.png two.png style.png film.mp4 poster.jpg film.vtt " +
		"sound.mp3 object.swf embed.swf frame.html frame.png frame.css svg.png stored.png sign-in.png docs.png of-picture.png of-picture.html of-lazy.css of-lazy-more.css")
	for i, name := range cdn {
		cdn[i] = "cdn/" + name
	}
	for _, test := range []struct {
		name  string
		flags []string
		want  []string
	}{
		{"parts", []string{at(1, "/")}, slices.Concat(site, cdn, []string{"other/sign-in.html"})},
		{"no parts", []string{at(1, "/"), "--no-requisites"}, site},
		{"below a folder", []string{at(1, "/docs/"), "--prefix"}, []string{"site/docs/", "site/logo.png", "cdn/docs.png"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got = nil
			dir := filepath.Join(t.TempDir(), "crawl")
			fast := []string{"--into", dir, "--set", "network.allow_net=127.0.0.0/8", "--set", "politeness.min_delay=0s", "--set", "politeness.addr_delay=0s", "--set", "politeness.delay_factor=0"}
			output(t, "mcrawl", slices.Concat([]string{"site"}, test.flags, fast)...)
			slices.Sort(got)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("fetched (-want +got):\n%s", diff)
			}
			output(t, "mckpt", "verify", dir)
		})
	}
}
