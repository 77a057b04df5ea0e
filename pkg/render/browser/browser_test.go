package browser

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/render"
)

// chromium starts a browser, or skips the test but for make render.
func chromium(t *testing.T, o Options) *Browser {
	t.Helper()
	if os.Getenv("MERCATOR_RENDER") == "" {
		t.Skip("make render runs it: it needs Chromium")
	}
	b, err := Start(t.Context(), o)
	must.OK(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

var types = map[string]string{".js": "text/javascript", ".css": "text/css", ".json": "application/json"}

// site answers from pages, and keeps what was asked for.
type site struct {
	pages map[string]string
	asked []string
}

func (s *site) answer(q *render.Request) render.Answer {
	asked := q.Method + " " + q.Type + " " + q.URL
	if q.Away {
		asked += " away"
	}
	s.asked = append(s.asked, asked)
	body, ok := s.pages[q.URL]
	if !ok || q.Method != "GET" {
		return render.Answer{}
	}
	typ := types[path.Ext(q.URL)]
	if typ == "" {
		typ = "text/html; charset=utf-8"
	}
	return render.Answer{Status: 200, Header: http.Header{"Content-Type": {typ}, "X-Bad\n": {"\xff"}}, Body: []byte(body)}
}

func pageOf(s *site) render.Page {
	return render.Page{URL: "http://app.test/", Time: time.Unix(1_700_000_000, 0), Answer: s.answer, Wait: 5 * time.Second, Timeout: time.Minute, Requests: 50, Bytes: 1 << 20, Document: 1 << 20}
}

const (
	say  = `const say = s => { const p = document.createElement("p"); p.textContent = s; document.body.append(p) };`
	list = `const add = n => { for (let i = 0; i < 10; i++) { const a = document.createElement("a"); a.href = "/item" + (n * 10 + i); a.textContent = "item" + (n * 10 + i); a.style = "display: block; height: 200px"; document.body.append(a) } };`
)

// TestPages: what scripts of a page do, and what becomes of what it must not do.
func TestPages(t *testing.T) {
	b := chromium(t, Options{Memory: 1 << 30})
	for _, test := range []struct {
		name   string
		pages  map[string]string // by path; "" is the page
		change func(*render.Page)
		has    []string // in its document or text
		shows  []string // in its text
		lacks  []string
		asked  []string // among what it asks for
		cut    string
	}{
		{name: "fetch, modules, workers, frames", pages: map[string]string{
			"":         `<script type=module src=/m.js></script><iframe src=/frame></iframe>`,
			"m.js":     `import {x} from "./n.js"; const p = document.createElement("p"); p.textContent = "module " + await x(); document.body.append(p); new Worker("/w.js").onmessage = e => document.body.append(e.data)`,
			"n.js":     `export const x = () => fetch("/x.json").then(r => r.text())`,
			"x.json":   `"data"`,
			"w.js":     `fetch("/y.json").then(r => r.text()).then(t => postMessage("worker " + t))`,
			"y.json":   `2`,
			"frame":    `<script>fetch("/inframe.json")</script>`,
			"unlinked": ``,
		}, has: []string{`module "data"`, "worker 2"}, asked: []string{"GET Document http://app.test/frame", "GET XHR http://app.test/inframe.json"}},
		{name: "time and random numbers", pages: map[string]string{"": `<script>` + say + `say(new Date().toISOString().slice(0, 19)); setTimeout(() => say("late " + Math.floor(Date.now() / 1000)), 4000); say(Math.random() + " " + crypto.getRandomValues(new Uint32Array(1)))</script>`},
			has: []string{"2023-11-14T22:13:20", "late 1700000004", "0.2905539874918759"}},
		{name: "shadow roots and inner frames", pages: map[string]string{"": `<div id=d></div><iframe id=f></iframe><script>d.attachShadow({mode: "open"}).innerHTML = "<a href=/shadow>s</a>"; f.contentDocument.body.innerHTML = "<a href=/inner>i</a>"</script>`},
			has: []string{`href="/shadow"`, `href="/inner"`}},
		{name: "text of shadow roots and inner frames", pages: map[string]string{"": `<div id=d>slotted</div><div hidden id=h></div><iframe id=f></iframe><script>d.attachShadow({mode: "open"}).innerHTML = "<style>p { color: red }</style>bare<p>of the shadow<p hidden>unseen</p><slot></slot><span></span>";
				d.shadowRoot.querySelector("span").attachShadow({mode: "open"}).innerHTML = "<p>of the inner shadow"; h.attachShadow({mode: "open"}).innerHTML = "unseen<p>unseen"; f.contentDocument.body.innerHTML = "<p>of the frame"</script>`},
			shows: []string{"slotted", "bare", "of the shadow", "of the inner shadow", "of the frame"}, lacks: []string{"unseen", "color"}},
		{name: "elements with names of the document", pages: map[string]string{"": `<p>before<img name=body><img name=documentElement><img name=querySelectorAll><script>` + say + `</script>`}, has: []string{"<p>before"}, shows: []string{"before"}},
		{name: "posts, downloads, windows, other pages", pages: map[string]string{"": `<script>` + say + `fetch("/post", {method: "POST", body: "x"}).catch(() => say("no post")); open("/window"); const a = document.createElement("a"); a.href = "/download"; a.download = "d"; document.body.append(a); a.click();
				alert("x"); setTimeout(() => location.href = "/elsewhere", 100); setTimeout(() => say("still here"), 2000)</script>`},
			has: []string{"no post", "still here"}, lacks: []string{"/window"}, asked: []string{"POST XHR http://app.test/post", "GET Document http://app.test/elsewhere away"}},
		{name: "no service worker, no WebRTC, no files", pages: map[string]string{"": `<script>` + say + `say("sw " + ("serviceWorker" in navigator) + " rtc " + self.RTCPeerConnection); fetch("file:///etc/passwd").then(() => say("file"), () => say("no file"))</script>`},
			has: []string{"sw false rtc undefined", "no file"}},
		{name: "endless timers", pages: map[string]string{"": `<script>` + say + `setInterval(() => {}, 0); say("done")</script>`}, has: []string{"done"}},
		{name: "endless script", pages: map[string]string{"": `<p>before</p><script>for (;;);</script>`}, change: func(p *render.Page) { p.Timeout = time.Second }, has: []string{"before"}, cut: render.CutTime},
		{name: "endless promises", pages: map[string]string{"": `<p>before</p><script>(function f() { Promise.resolve().then(f) })()</script>`}, change: func(p *render.Page) { p.Timeout = time.Second }, has: []string{"before"}, cut: render.CutTime},
		{name: "too many requests", pages: map[string]string{"": `<p>before</p><script>setInterval(() => fetch("/x" + Math.random()).catch(() => {}), 1)</script>`}, has: []string{"before"}, cut: render.CutRequests},
		{name: "too many bytes", pages: map[string]string{"": `<p>before</p><script src=big.js></script>`, "big.js": strings.Repeat(" ", 2<<20)}, has: []string{"before"}, cut: render.CutBytes},
		{name: "a long document", pages: map[string]string{"": `<script>document.body.append("x".repeat(1e6)); document.body.append("END")</script>`}, change: func(p *render.Page) { p.Document = 1000 }, has: []string{"xxx"}, lacks: []string{"END"}},
		{name: "scrolling", pages: map[string]string{"": `<script>` + list + `let n = 0; add(n++); new IntersectionObserver(e => { if (e[0].isIntersecting && n < 9) { add(n++); document.body.append(end) } }).observe(document.body.appendChild(Object.assign(document.createElement("div"), {id: "end"})))</script>`},
			change: func(p *render.Page) { p.Scroll = 3 }, has: []string{"item29"}, lacks: []string{"item79"}},
		{name: "load more", pages: map[string]string{"": `<button id=b>Load more</button><button onclick="document.body.textContent = 'logged out'">Log out</button><script>` + list + `let n = 0; add(n++); b.onclick = () => { if (n < 4) add(n++) }</script>`},
			change: func(p *render.Page) { p.More = 10 }, has: []string{"item39"}, lacks: []string{"logged out"}},
		{name: "a picture", pages: map[string]string{"": `<p>hello`}, change: func(p *render.Page) { p.Screenshot = true }, has: []string{"PNG"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &site{pages: map[string]string{}}
			for name, text := range test.pages {
				if name == "" {
					text = "<body>" + text
				}
				s.pages["http://app.test/"+name] = text
			}
			p := pageOf(s)
			if test.change != nil {
				test.change(&p)
			}
			r, err := b.Load(t.Context(), p)
			must.OK(t, err)
			shows := r.HTML + r.Text + string(r.Screenshot[:min(4, len(r.Screenshot))])
			for _, in := range []struct {
				text  string
				words []string
				want  bool
			}{{shows, test.has, true}, {r.Text, test.shows, true}, {r.Text, test.lacks, false}} {
				for _, word := range in.words {
					if strings.Contains(in.text, word) != in.want {
						t.Errorf("%q in %.2000q: %v, want %v", word, in.text, !in.want, in.want)
					}
				}
			}
			for _, want := range test.asked {
				if !slices.Contains(s.asked, want) {
					t.Errorf("not asked for: %s\n%q", want, s.asked)
				}
			}
			if r.Cut != test.cut {
				t.Errorf("cut %q, want %q", r.Cut, test.cut)
			}
			again := *s
			again.asked = nil
			p.Answer = again.answer
			if test.cut == "" {
				if r2, err := b.Load(t.Context(), p); err != nil || r2.HTML != r.HTML || r2.Text != r.Text {
					t.Errorf("another time it gives %v %.2000q\nand not %.2000q", err, r2.HTML, r.HTML)
				}
			}
		})
	}
}

// TestNoNetwork: a page reaches no server of this machine, and no page sees what another has stored.
func TestNoNetwork(t *testing.T) {
	var contacts atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			contacts.Add(1)
			c.Close()
		}
	}()
	scan := fmt.Sprintf(`<body><link rel=preconnect href="http://%[1]s"><link rel=dns-prefetch href="http://%[1]s"><link rel=prefetch href="http://%[1]s/p"><script>%[2]s
		fetch("http://%[1]s/", {mode: "no-cors"}).then(() => say("reached"), () => say("refused"));
		new WebSocket("ws://%[1]s/").onerror = () => say("no socket"); new EventSource("http://%[1]s/e"); new Image().src = "http://%[1]s/i";
		say("cookie " + document.cookie + " stored " + localStorage.x); document.cookie = "c=1"; localStorage.x = 2</script>`, l.Addr(), say)
	b := chromium(t, Options{Memory: 1 << 30})
	for range 2 {
		r, err := b.Load(t.Context(), pageOf(&site{pages: map[string]string{"http://app.test/": scan}}))
		must.OK(t, err)
		for _, want := range []string{"refused", "no socket", "cookie stored undefined"} {
			if !strings.Contains(r.Text, want) {
				t.Errorf("no %q in %q", want, r.Text)
			}
		}
	}
	if n := contacts.Load(); n != 0 {
		t.Errorf("%d contacts with a server of this machine", n)
	}
}

// TestEnds: a browser that is killed, or takes too much memory or too many processes, is an error of its page, and leaves no process or folder.
func TestEnds(t *testing.T) {
	eats := `<script>const a = []; setInterval(() => { for (let i = 0; i < 20; i++) a.push(new Uint8Array(1 << 20).fill(i + 1)) }, 1)</script>`
	for _, test := range []struct {
		name   string
		bounds Options
		page   string
		kill   bool
		want   error
	}{
		{"killed", Options{}, `<script src=x.js></script>`, true, errGone},
		{"memory", Options{Memory: 400 << 20}, eats, false, errFat},
		{"processes", Options{Procs: 1}, eats, false, errMany},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := chromium(t, test.bounds)
			s := &site{pages: map[string]string{"http://app.test/": test.page}}
			p := pageOf(s)
			p.Wait = 10 * time.Minute
			p.Answer = func(q *render.Request) render.Answer {
				if test.kill && strings.HasSuffix(q.URL, "x.js") {
					b.kill()
				}
				return s.answer(q)
			}
			if _, err := b.Load(t.Context(), p); !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			b.Close()
			if _, n := usedBy(b.cmd.Process.Pid); n > 0 {
				t.Errorf("%d processes are left", n)
			}
			if _, err := os.Stat(b.dir); !os.IsNotExist(err) {
				t.Errorf("its folder is left: %v", err)
			}
		})
	}
}

// TestAnswersEnd: a page that was loaded, or failed, asks for nothing any more.
func TestAnswersEnd(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", kill), func(t *testing.T) {
			b := chromium(t, Options{})
			s := &site{pages: map[string]string{"http://app.test/": `<script>for (let i = 0; i < 400; i++) fetch("/x" + i).catch(() => {})</script>`}}
			p := pageOf(s)
			p.Requests, p.Timeout = 1000, 2*time.Second
			var loaded atomic.Bool
			var late atomic.Int32
			data := make([]byte, 8<<20)
			p.Answer = func(q *render.Request) render.Answer {
				if q.Type != "Document" {
					if kill {
						b.kill()
						<-b.pipe.gone
					}
					sha256.Sum256(data) // long enough for others to queue
				}
				if loaded.Load() {
					late.Add(1)
				}
				return s.answer(q)
			}
			if _, err := b.Load(t.Context(), p); (err != nil) != kill {
				t.Error(err)
			}
			loaded.Store(true)
			b.Close()
			if n := late.Load(); n > 0 {
				t.Errorf("%d answers to a page that is over", n)
			}
		})
	}
}

// TestKilled: what started a browser is killed: its processes end, and the next browser removes its folder.
func TestKilled(t *testing.T) {
	if os.Getenv("MERCATOR_RENDER_CHILD") != "" {
		b := chromium(t, Options{})
		fmt.Printf("\nbrowser %d %s\n", b.cmd.Process.Pid, b.dir)
		select {}
	}
	if os.Getenv("MERCATOR_RENDER") == "" {
		t.Skip("make render runs it: it needs Chromium")
	}
	t.Setenv("TMPDIR", t.TempDir()) // too long for Chromium's socket
	t.Setenv("MERCATOR_RENDER_CHILD", "1")
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	out, err := child.StdoutPipe()
	must.OK(t, err)
	must.OK(t, child.Start())
	var pid int
	var dir string
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "browser %d %s", &pid, &dir)
	}
	if _, n := usedBy(pid); n == 0 || pid == 0 {
		t.Fatalf("no browser runs: %d %q", pid, dir)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	for n := 1; n > 0; { // it would wait for ever for one that is left
		_, n = usedBy(pid)
	}
	chromium(t, Options{})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
}

// TestNoBrowser: without Chromium there is an error with a hint.
func TestNoBrowser(t *testing.T) {
	for _, program := range []string{"/nowhere/chromium", "false"} {
		if _, err := Start(t.Context(), Options{Program: program}); err == nil {
			t.Fatalf("%s starts", program)
		}
	}
	if list, _ := os.ReadDir(os.TempDir()); slices.ContainsFunc(list, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), fmt.Sprintf("%s%d-", profiles, os.Getpid()))
	}) {
		t.Error("a folder is left")
	}
}

// BenchmarkLoad loads a page of an application of Vue, where MERCATOR_VUE names its file: "go test -bench Load -cpu 1,2 ./pkg/render/browser".
func BenchmarkLoad(b *testing.B) {
	vue, err := os.ReadFile(os.Getenv("MERCATOR_VUE"))
	if err != nil {
		b.Skip("MERCATOR_VUE: ", err)
	}
	pages := map[string]string{"http://app.test/": `<div id=app></div><script src=/vue.js></script><script>fetch("/x.json").then(r => r.json()).then(l =>
		Vue.createApp({render: () => l.map(n => Vue.h("a", {href: "/" + n}, "page " + n))}).mount("#app"))</script>`,
		"http://app.test/vue.js": string(vue), "http://app.test/x.json": "[" + strings.Repeat("1,", 99) + "1]"}
	var peak atomic.Int64
	b.RunParallel(func(next *testing.PB) {
		br, err := Start(context.Background(), Options{Memory: 1 << 30})
		if err != nil {
			b.Error(err)
			return
		}
		defer br.Close()
		for next.Next() {
			if r, err := br.Load(context.Background(), pageOf(&site{pages: pages})); err != nil || strings.Count(r.HTML, "<a ") != 100 {
				b.Error(err, r.Cut, len(r.HTML))
			}
		}
		peak.Store(max(peak.Load(), br.Peak()))
	})
	b.ReportMetric(float64(peak.Load()>>20), "MiB/browser")
}
