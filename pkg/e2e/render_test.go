package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mercator/pkg/base/must"
)

// Scripts make some pages of this site: most are plain, and those below /app/ are one document, an application that asks an API on
// another host what there is on each. Its framework comes from the file that MERCATOR_VUE or MERCATOR_REACT names, and is a few lines without.
const (
	shellPage = `<!doctype html><title>app</title><div id=app>Loading</div><noscript>You need JavaScript.</noscript>SCRIPTS<script type=module src=/static/main.js></script>`
	mainJS    = `import {load} from "./api.js";
const page = await load(location.pathname);
(await import("./view.js")).show(page);
navigator.serviceWorker?.register("/static/worker.js");
new WebSocket("ws://127.0.0.1:9/").onerror = () => {};
fetch("/static/count", {method: "POST", body: "1"}).catch(() => {});
setInterval(() => {}, 1);`
	apiJS   = `export const load = path => fetch("API" + path + ".json").then(r => r.json());`
	plain   = `export const show = page => { document.getElementById("app").innerHTML = page.links.map(l => '<a href="' + l + '">' + l + '</a>').join(" ") + "<p>" + page.text + "</p>"; };`
	vueJS   = `export const show = page => Vue.createApp({data: () => page, render() { return [...this.links.map(l => Vue.h("a", {href: l}, l)), Vue.h("p", this.text)]; }}).mount("#app");`
	react   = `export const show = page => { const e = React.createElement; ReactDOM.createRoot(document.getElementById("app")).render(e("div", null, ...page.links.map(l => e("a", {href: l, key: l}, l)), e("p", null, page.text))); };`
	hostile = `<!doctype html><title>hostile</title><p id=p>hello</p><script>
for (let i = 0; i < 50; i++) open("/hostile/window" + i);
const a = document.createElement("a"); a.download = "x"; a.href = "/hostile/download"; document.body.append(a); a.click();
for (let i = 1; i < 20; i++) { fetch("http://127.0.0.1:" + i + "/").catch(() => {}); try { new WebSocket("ws://127.0.0.1:" + i); } catch {} }
fetch("file:///etc/passwd").then(r => r.text()).then(t => p.textContent = "LEAK " + t).catch(() => {});
alert("x"); setTimeout(() => location.href = "/hostile/elsewhere", 10);
setInterval(() => { p.append("."); }, 1); document.cookie = "a=b";
const b = document.createElement("a"); b.href = "/hostile/made"; b.textContent = "made"; document.body.append(b);
</script>`
)

// app is that site.
type app struct {
	base, api string
	routes    map[string][]string // pages below /app/, and which they lead to
	plain     int                 // number of plain pages
	vendor    []byte              // the framework
	view      string
	classic   bool // scripts without modules, which pywb cannot replay
	server    *http.Server

	mu  sync.Mutex
	got []string
}

func newApp(t *testing.T, plainPages, routes int, framework string) *app {
	listeners, port := listenOn(t, 1, 2)
	a := &app{base: fmt.Sprintf("http://127.0.0.1:%d", port), api: fmt.Sprintf("http://127.0.0.2:%d/api", port), routes: map[string][]string{}, plain: plainPages, view: plain}
	if file := os.Getenv(framework); file != "" {
		var err error
		a.vendor, err = os.ReadFile(file)
		must.OK(t, err)
		a.view = map[string]string{"MERCATOR_VUE": vueJS, "MERCATOR_REACT": react}[framework]
	}
	a.classic = framework == "MERCATOR_VUE"
	for i := range routes { // a tree, and ways back
		path := "/app/" + strconv.Itoa(i)
		for _, to := range []int{2*i + 1, 2*i + 2, i / 2} {
			if to < routes {
				a.routes[path] = append(a.routes[path], "/app/"+strconv.Itoa(to))
			}
		}
	}
	a.server = &http.Server{Handler: a}
	t.Cleanup(func() { a.server.Close() })
	for _, l := range listeners {
		go a.server.Serve(l)
	}
	return a
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path := r.URL.Path; path != "/robots.txt" {
		a.mu.Lock()
		a.got = append(a.got, r.Method+" http://"+r.Host+path)
		a.mu.Unlock()
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	path, isAPI := strings.CutPrefix(r.URL.Path, "/api")
	links := a.routes[strings.TrimSuffix(path, ".json")]
	n, err := strconv.Atoi(strings.TrimPrefix(path, "/plain/"))
	script := map[string]string{"/static/main.js": mainJS, "/static/api.js": strings.ReplaceAll(apiJS, "API", a.api), "/static/view.js": a.view, "/static/vendor.js": string(a.vendor)}[path]
	switch {
	case isAPI && links != nil:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		fmt.Fprintf(w, `{"text": "This is %s.", "links": ["%s"]}`, path, strings.Join(links, `", "`))
	case script != "":
		w.Header().Set("Content-Type", "text/javascript")
		if a.classic {
			script = strings.ReplaceAll(script, "export const ", "window.") // pywb puts a script into a block
			if _, body, isMain := strings.Cut(script, `"./api.js";`); isMain {
				script = "(async () => {" + strings.Replace(body, `(await import("./view.js")).`, "", 1) + "})();"
			}
		}
		fmt.Fprint(w, script)
	case links != nil:
		vendor := ""
		if a.vendor != nil {
			vendor = "<script src=/static/vendor.js></script>"
		}
		shell := strings.Replace(shellPage, "SCRIPTS", vendor, 1)
		if a.classic {
			shell = strings.Replace(shell, "<script type=module", "<script src=/static/api.js></script><script src=/static/view.js></script><script", 1)
		}
		fmt.Fprint(w, shell)
	case path == "/hostile/":
		fmt.Fprint(w, hostile)
	case path == "/hostile/made":
		fmt.Fprint(w, "<p>made")
	case path == "/":
		fmt.Fprint(w, `<a href=/plain/0>plain</a><a href=/app/0>app</a><a href=/hostile/>hostile</a>`)
	case err == nil && n < a.plain:
		fmt.Fprintf(w, "<title>%d</title>%s<script src=/static/api.js></script>", n, strings.Repeat("Words that a reader sees. ", 50))
		for to := range 6 {
			if to += n*6 + 1; to < a.plain {
				fmt.Fprintf(w, "<a href=/plain/%d>%d</a>", to, to)
			}
		}
	default:
		http.NotFound(w, r)
	}
}

// want are the requests of a crawl that misses nothing.
func (a *app) want() (list []string) {
	for path := range a.routes {
		list = append(list, "GET "+a.base+path, "GET "+a.api+path+".json")
	}
	for n := range a.plain {
		list = append(list, fmt.Sprintf("GET %s/plain/%d", a.base, n))
	}
	for _, path := range []string{"/", "/static/main.js", "/static/api.js", "/static/view.js", "/hostile/", "/hostile/made", "/hostile/download", "/hostile/elsewhere"} {
		list = append(list, "GET "+a.base+path)
	}
	if a.vendor != nil {
		list = append(list, "GET "+a.base+"/static/vendor.js")
	}
	slices.Sort(list)
	return list
}

// browserTest skips a test that needs Chromium, but for make render.
func browserTest(t *testing.T) {
	if os.Getenv("MERCATOR_RENDER") == "" {
		t.Skip("make render runs it: it needs Chromium")
	}
}

// TestRenderedCrawl: a crawl of a site of which some pages are made by scripts fetches each route of the application and what its scripts ask for, once,
// and nothing else, also where it is killed; and it can be made again from its records.
func TestRenderedCrawl(t *testing.T) {
	browserTest(t)
	plainPages, routes, kills := 40, 6, 3
	if os.Getenv("MERCATOR_LONG") != "" {
		plainPages, routes, kills = 480, 20, 6
	}
	fast := []string{"--set", "network.allow_net=127.0.0.0/8", "--set", "politeness.min_delay=0s", "--set", "politeness.addr_delay=0s", "--set", "politeness.delay_factor=0", "--set", "frontier.max_attempts=1", "--set", "render.pages=auto"}
	for _, test := range []struct {
		framework string
		kills     int
	}{{"MERCATOR_VUE", 0}, {"MERCATOR_REACT", kills}} {
		t.Run(fmt.Sprintf("%d kills", test.kills), func(t *testing.T) {
			kills := test.kills
			a := newApp(t, plainPages, routes, test.framework)
			dir := filepath.Join(t.TempDir(), "crawl")
			args := slices.Concat([]string{"site", a.base + "/", "--into", dir}, fast)
			rng := rand.New(rand.NewSource(1))
			for range kills {
				cmd := exec.Command(filepath.Join(bin, "mcrawl"), args...)
				after := 1 + rng.Intn(15) // lines of the web's log
				a.mu.Lock()
				seen := len(a.got)
				a.mu.Unlock()
				must.OK(t, cmd.Start())
				done := make(chan struct{})
				go func() { _ = cmd.Wait(); close(done) }()
				for waits := true; waits; {
					select {
					case <-done:
						waits = false
					default:
						a.mu.Lock()
						waits = len(a.got) < seen+after
						a.mu.Unlock()
					}
				}
				_ = cmd.Process.Kill()
				<-done
			}
			output(t, "mcrawl", args...)
			a.mu.Lock()
			got := slices.Clone(a.got)
			a.mu.Unlock()
			slices.Sort(got)
			if kills > 0 { // what was in flight is fetched twice
				got = slices.Compact(got)
			}
			if diff := cmp.Diff(a.want(), got); diff != "" {
				t.Errorf("fetched (-want +got):\n%s", diff)
			}
			output(t, "mckpt", "verify", dir)
			t.Log(output(t, "mcrawl", "stats", dir)) // for bench/RESULTS.md
			if kills == 0 {
				cmd := exec.CommandContext(context.Background(), "make", "-f", "replay.mk", "CRAWL="+dir, "REPLAY="+dir+"-replay", "BIN="+bin+"/")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("replay.mk: %v\n%s", err, out)
				}
				a.replay(t, dir)
			}
		})
	}
}

// replay shows pages of the application in Chromium from pywb, where MERCATOR_WAYBACK names that, when the site itself has ended.
// pywb breaks scripts that are modules (its issue 764).
func (a *app) replay(t *testing.T, dir string) {
	wayback := os.Getenv("MERCATOR_WAYBACK")
	if wayback == "" || !a.classic {
		return
	}
	a.server.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	at := l.Addr().String()
	l.Close()
	_, port, _ := strings.Cut(at, ":")
	config, err := os.OpenFile(filepath.Join(dir, "index", "config.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = config.WriteString("\nframed_replay: false\n") // a page is at the top
	}
	must.OK(t, err)
	config.Close()
	ctx, stop := context.WithCancel(t.Context())
	pywb := exec.CommandContext(ctx, wayback, "-b", "127.0.0.1", "-p", port, "-d", filepath.Join(dir, "index"))
	log, err := pywb.StderrPipe()
	if err == nil {
		err = pywb.Start()
	}
	must.OK(t, err)
	lines := bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), "Starting") {
	}
	ended := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, log); _ = pywb.Wait(); stop(); close(ended) }()
	defer func() { stop(); <-ended }()
	for ctx.Err() == nil { // it listens soon after
		if c, err := net.Dial("tcp", at); err == nil {
			c.Close()
			break
		}
		runtime.Gosched()
	}
	for _, path := range []string{"/app/0", "/app/5"} {
		out, err := exec.Command("chromium", "--headless", "--no-sandbox", "--user-data-dir="+t.TempDir(), "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--virtual-time-budget=60000",
			"--dump-dom", "http://"+at+"/crawl/"+a.base+path).Output()
		if want := "<p>This is " + path + ".json.</p>"; err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s from pywb: no %q, %v\n%.4000s", path, want, err, out)
		}
	}
}
