package extract

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/web/canon"
)

// browser is a headless Chromium without scripting, driven through the pipe of its
// debugging protocol: messages of JSON, each with a NUL behind it.
type browser struct {
	t       *testing.T
	in      io.WriteCloser
	out     *bufio.Reader
	id      int
	session string
}

type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// startBrowser runs the program until the test ends. It resolves no name, and so
// contacts nothing but loopback.
func startBrowser(t *testing.T, program string) *browser {
	t.Helper()
	fromUs, toIt, err := os.Pipe()
	must.OK(t, err)
	fromIt, toUs, err := os.Pipe()
	must.OK(t, err)
	home := t.TempDir()
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--remote-debugging-pipe", "--user-data-dir="+home,
		"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--no-proxy-server", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic",
		"--blink-settings=imagesEnabled=false", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home)
	cmd.ExtraFiles = []*os.File{fromUs, toUs} // its descriptors 3 and 4
	must.OK(t, cmd.Start())
	fromUs.Close()
	toUs.Close()
	b := &browser{t: t, in: toIt, out: bufio.NewReader(fromIt)}
	patience := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		b.send("", "Browser.close", map[string]any{})
		toIt.Close()
		patience.Reset(10 * time.Second)
		cmd.Wait()
		patience.Stop()
		fromIt.Close()
	})
	var target struct{ TargetID, SessionID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	b.call(b.session, "Page.enable", nil, nil)
	b.call(b.session, "Page.setLifecycleEventsEnabled", map[string]any{"enabled": true}, nil)
	b.call(b.session, "Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	return b
}

func (b *browser) send(session, method string, params any) error {
	p, err := json.Marshal(params)
	if err != nil {
		return err
	}
	b.id++
	m, err := json.Marshal(message{ID: b.id, Method: method, Params: p, SessionID: session})
	if err != nil {
		return err
	}
	_, err = b.in.Write(append(m, 0))
	return err
}

func (b *browser) receive() message {
	b.t.Helper()
	line, err := b.out.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("browser: %v", err)
	}
	var m message
	if err := json.Unmarshal(line[:len(line)-1], &m); err != nil {
		b.t.Fatalf("browser: %v", err)
	}
	return m
}

// call waits for the answer, and passes over events.
func (b *browser) call(session, method string, params, result any) {
	b.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	if err := b.send(session, method, params); err != nil {
		b.t.Fatalf("browser: %s: %v", method, err)
	}
	for {
		m := b.receive()
		if m.ID != b.id {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("browser: %s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("browser: %s: %v", method, err)
			}
		}
		return
	}
}

// collect gives what a browser has of links: document.links and document.images,
// frames, scripts, and the other elements with a URL that it resolves; the candidates of
// srcset are cut as HTML's examples are written.
const collect = `(() => {
  const out = [];
  const add = (kind, e, attr, prop) => {
    const v = e.getAttribute(attr);
    if (v !== null && v.trim() !== '') out.push(kind + ' ' + (prop ? e[prop] : new URL(v, document.baseURI).href));
  };
  for (const e of document.links) out.push(e.localName + ' ' + e.href);
  for (const e of document.images) add('img', e, 'src', 'src');
  for (const e of document.scripts) if (e instanceof HTMLScriptElement) add('script', e, 'src', 'src');
  const all = (name, attr, kind) => {
    for (const e of document.getElementsByTagName(name))
      if (e.namespaceURI === 'http://www.w3.org/1999/xhtml') add(kind || name, e, attr, attr);
  };
  all('iframe', 'src'); all('frame', 'src'); all('embed', 'src'); all('object', 'data');
  all('video', 'src'); all('video', 'poster', 'poster'); all('audio', 'src'); all('source', 'src'); all('track', 'src');
  for (const name of ['blockquote', 'q', 'ins', 'del']) all(name, 'cite', 'cite');
  for (const e of document.getElementsByTagName('input')) if (e.type === 'image') add('img', e, 'src', 'src');
  for (const e of document.getElementsByTagName('link'))
    if (e instanceof HTMLLinkElement && !e.relList.contains('preconnect') && !e.relList.contains('dns-prefetch')) add('link', e, 'href', 'href');
  for (const e of document.querySelectorAll('img[srcset], source[srcset]'))
    for (const m of e.getAttribute('srcset').matchAll(/([^\s,]\S*[^\s,]|[^\s,])(\s+[\d.]+[xw])?\s*(,|$)/g))
      try { out.push('img ' + new URL(m[1], document.baseURI).href) } catch {}
  return JSON.stringify({links: out, charset: document.characterSet});
})()`

// links loads a page and returns its links as "kind URL", canonical, sorted, each
// once, and the encoding in which the browser read it.
func (b *browser) links(url string) (links []string, charset string) {
	b.t.Helper()
	var nav struct{ LoaderID, ErrorText string }
	b.call(b.session, "Page.navigate", map[string]any{"url": url}, &nav)
	if nav.ErrorText != "" {
		b.t.Fatalf("browser: %s: %s", url, nav.ErrorText)
	}
	for {
		var event struct{ LoaderID, Name string }
		m := b.receive()
		if m.Method != "Page.lifecycleEvent" {
			continue
		}
		must.OK(b.t, json.Unmarshal(m.Params, &event))
		if event.LoaderID == nav.LoaderID && event.Name == "DOMContentLoaded" {
			break
		}
	}
	var answer struct {
		Result           struct{ Value string }
		ExceptionDetails json.RawMessage
	}
	b.call(b.session, "Runtime.evaluate", map[string]any{"expression": collect, "returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("browser: %s: %s", url, answer.ExceptionDetails)
	}
	var page struct {
		Links   []string
		Charset string
	}
	must.OK(b.t, json.Unmarshal([]byte(answer.Result.Value), &page))
	for _, l := range page.Links {
		kind, u, _ := strings.Cut(l, " ")
		if u, _, err := likeABrowser.URL(u); err == nil {
			links = append(links, kind+" "+u)
		}
	}
	slices.Sort(links)
	return slices.Compact(links), page.Charset
}

var likeABrowser = canon.Options{MaxURL: 1 << 20}

// browserKinds are the kinds that collect gives.
var browserKinds = regexp.MustCompile(`^(a|area|img|script|iframe|frame|embed|object|video|poster|audio|source|track|cite|link)(-.*)?$`)

// ours is what Find gives, in the form of links.
func ours(doc *Document, engine string) []string {
	page := Find(doc, Options{Canon: likeABrowser, IgnoreNofollow: true, HTMLEngine: engine})
	var links []string
	for _, l := range page.Links {
		kind := browserKinds.FindStringSubmatch(l.Kind)
		if kind == nil {
			continue
		}
		if u, _, err := page.Base.Resolve(l.Ref); err == nil {
			links = append(links, kind[1]+" "+u)
		}
	}
	slices.Sort(links)
	return slices.Compact(links)
}

// difference lists what only one side has: "+" is ours.
func difference(ours, theirs []string) []string {
	var d []string
	for _, l := range ours {
		if !slices.Contains(theirs, l) {
			d = append(d, "+ "+l)
		}
	}
	for _, l := range theirs {
		if !slices.Contains(ours, l) {
			d = append(d, "- "+l)
		}
	}
	return d
}

// corpora are documentation packages of Debian, each of another generator, the
// smallest first: what it lacks is drawn from the others.
var corpora = []struct{ generator, dir string }{
	{"Texinfo (r-doc-html)", "/usr/share/R/doc/manual"},
	{"Sphinx (python3.11-doc)", "/usr/share/doc/python3.11/html"},
	{"DocBook (postgresql-doc-15)", "/usr/share/doc/postgresql-doc-15/html"},
	{"XSLT, in several encodings (apache2-doc)", "/usr/share/doc/apache2-doc/manual"},
	{"Doxygen (libjsoncpp-doc)", "/usr/share/doc/libjsoncpp-doc"},
	{"javadoc (junit4-doc)", "/usr/share/doc/junit4/api"},
	{"gtk-doc (libcairo2-doc)", "/usr/share/gtk-doc/html/cairo"},
}

const (
	pagesDrawn = 205 // of all corpora
	drawSeed   = 15
)

var htmlName = regexp.MustCompile(`\.html?$`)

// draw picks n pages of a folder, or all if there are fewer.
func draw(t *testing.T, r *rand.Rand, dir string, n int) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && htmlName.MatchString(path) {
			all = append(all, path)
		}
		return err
	})
	must.OK(t, err)
	if len(all) == 0 {
		t.Fatalf("%s: no pages", dir)
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// The links of pages are those that a browser without scripting has. "make
// browser" runs it; MERCATOR_CHROMIUM names the browser.
func TestSameLinksAsChromium(t *testing.T) {
	program := os.Getenv("MERCATOR_CHROMIUM")
	if program == "" {
		t.Skip(`needs Chromium and documentation packages: "make browser"`)
	}
	pages := map[string]nastyPage{}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", p.contentType)
		io.WriteString(w, p.body)
	}))
	defer site.Close()
	b := startBrowser(t, program)

	compare := func(t *testing.T, path string, p nastyPage) (links int) {
		b.t = t
		pages[path] = p
		theirs, charset := b.links(site.URL + path)
		media, params, err := mime.ParseMediaType(p.contentType)
		must.OK(t, err)
		doc := &Document{URL: site.URL + path, MIME: media, Charset: params["charset"], Body: []byte(p.body)}
		_, encoding := documentEncoding(doc, sortHTML)
		want := strings.ToLower(charset)
		if p.encoding != "" {
			want = p.encoding
		}
		if encoding != want {
			t.Errorf("%s: read as %s, by the browser as %s", path, encoding, charset)
		}
		for i, d := range p.differs {
			p.differs[i] = strings.ReplaceAll(d, "SITE", site.URL)
		}
		for _, engine := range []string{EngineFast, EngineXNet} {
			d := difference(ours(doc, engine), theirs)
			if slices.Equal(d, p.differs) {
				continue
			}
			if len(d) > 20 {
				d = append(d[:20], fmt.Sprintf("… %d in all", len(d)))
			}
			t.Errorf("%s by %s, which the browser reads as %s (+ ours alone, - the browser's alone):\n%s", path, engine, charset, strings.Join(d, "\n"))
		}
		return len(theirs)
	}
	r := rand.New(rand.NewPCG(drawSeed, drawSeed))
	drawn, links := 0, 0
	left := pagesDrawn
	for i, c := range corpora {
		t.Run(c.generator, func(t *testing.T) {
			began := time.Now()
			names := draw(t, r, c.dir, left/(len(corpora)-i))
			left -= len(names)
			for _, name := range names {
				body, err := os.ReadFile(name)
				must.OK(t, err)
				links += compare(t, name, nastyPage{contentType: "text/html", body: string(body)})
			}
			drawn += len(names)
			t.Logf("%d pages, %v", len(names), time.Since(began).Round(time.Millisecond))
		})
	}
	if drawn < 200 || links < 10*drawn {
		t.Errorf("%d pages with %d links drawn, want 200 and ten times as many", drawn, links)
	}
	for _, p := range nastyPages {
		t.Run(p.name, func(t *testing.T) { compare(t, "/"+strings.ReplaceAll(p.name, " ", "-"), p) })
	}
}
