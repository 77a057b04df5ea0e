package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/linkkind"
)

// web is an archive that grows by rounds, and a store.
type web struct {
	t     *testing.T
	dir   string
	st    *store.Store
	round int
	set   Settings
	links []record.Link // of the next batch
	found []record.Module
}

func newWeb(t *testing.T) *web {
	w := &web{t: t, dir: t.TempDir()}
	must.OK(t, os.Mkdir(w.dir+"/fetch", 0o777), CreateStore(w.dir+"/render", store.Options{}))
	var err error
	w.st, err = store.Open(w.dir+"/render", Kind, Version, store.Options{})
	must.OK(t, err)
	w.set = Settings{Pages: Auto, Archive: w.dir + "/fetch", MaxBody: 1 << 20, Attempts: 3, Browsers: 2, Finding: func(m *record.Module) error {
		w.found = append(w.found, *m)
		return nil
	}}
	w.set.Start = func(context.Context) (Browser, error) { return &fake{}, nil }
	return w
}

// fetch makes a round of replies, "URL STATUS TYPE" each with a body, and gives "KIND URL" of what comes out.
func (w *web) fetch(replies ...[2]string) (links []string, r Report) {
	w.t.Helper()
	w.round++
	name := fmt.Sprintf("%d.warc", w.round)
	f, err := os.Create(filepath.Join(w.dir, "fetch", name))
	must.OK(w.t, err)
	defer f.Close()
	out := warc.NewWriter(f, 0)
	var rows []record.Fetch
	for _, reply := range replies {
		row := record.Fetch{Role: record.RolePage, Outcome: record.OutcomeFetched, WARCFilename: name, FetchTime: record.TimeOf(time.Unix(int64(w.round), 0)), BodyLength: int64(len(reply[1]))}
		_, err := fmt.Sscan(reply[0], &row.URL, &row.Status, &row.MIME)
		must.OK(w.t, err)
		row.URL, row.Host, err = canon.URL(row.URL)
		must.OK(w.t, err)
		if row.Key = (canon.Options{}).URLKey(row.Host, row.URL); row.Status == 0 {
			row.Outcome = record.OutcomeTimeout
		} else {
			block := fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Type: %s\r\nSet-Cookie: a=b\r\nContent-Length: %d\r\n\r\n%s", row.Status, row.MIME, len(reply[1]), reply[1])
			rec := &warc.Record{Type: warc.TypeResponse, Date: row.FetchTime.Go(), TargetURI: row.URL, ContentType: warc.MediaResponse, Block: strings.NewReader(block), Length: int64(len(block))}
			row.WARCOffset, row.WARCLength, err = out.Write(rec, warc.Encoder{Codec: "none"})
			must.OK(w.t, err)
		}
		rows = append(rows, row)
	}
	must.OK(w.t, out.Flush())
	w.set.Outcomes = func() (stage.Input[record.Fetch], error) { return recordtest.In("", rows...), nil }
	w.found = nil
	in, to := recordtest.In("", w.links...), &recordtest.Output{}
	in.Of.Kind, in.Of.Now = record.KindLink, record.TimeOf(time.Unix(1, 0))
	spec := stage.Spec{Name: "mrender", Verb: Verb, Shape: stage.Gate, Store: w.st, Txn: fmt.Sprintf("r%d", w.round)}
	_, err = stage.Run(w.t.Context(), spec, in, []stage.Output{to}, func(ctx context.Context, b *stage.Batch[record.Link, record.Link]) (err error) {
		r, err = Batch(ctx, w.st, b, w.set)
		return err
	})
	must.OK(w.t, err)
	made, _ := recordtest.Rows[record.Link](w.t, to)
	for _, l := range made {
		links = append(links, l.LinkKind+" "+l.URL)
	}
	return links, r
}

// rules is a filter of a text.
func rules(t *testing.T, text string) *filter.Filter {
	file := filepath.Join(t.TempDir(), "rules")
	must.OK(t, os.WriteFile(file, []byte(text), 0o666))
	f, err := filter.Load(file, filter.Options{})
	must.OK(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// fake is a browser that runs lines as scripts: "GET URL" fetches a script and runs it, "link URL" makes a link, "die" ends the browser, "POST URL"
// posts, and "go URL" leaves the page.
type fake struct{ dead bool }

func (f *fake) Peak() int64  { return 1 }
func (f *fake) Close() error { return nil }

func (f *fake) Load(_ context.Context, p Page) (r Result, err error) {
	if f.dead {
		return r, errors.New("used after its end")
	}
	var run func(method, url, typ string, away bool)
	run = func(method, url, typ string, away bool) {
		r.Requests++
		a := p.Answer(&Request{URL: url, Method: method, Type: typ, Away: away})
		r.Bytes += int64(len(a.Body))
		if len(a.Header["Set-Cookie"]) > 0 {
			err = errors.New("a cookie for the page")
		}
		for line := range strings.Lines(string(a.Body)) {
			verb, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch verb {
			case "GET", "POST":
				run(verb, arg, "Fetch", false)
			case "IMG":
				run("GET", arg, "Image", false)
			case "go":
				run("GET", arg, "Document", true)
			case "link":
				r.HTML += "<a href=" + arg + ">x</a>"
			case "die":
				f.dead, err = true, errors.New("it ended")
			}
		}
	}
	run("GET", p.URL, "Document", false)
	return r, err
}

func shell(lines ...string) string { return "<script>\n" + strings.Join(lines, "\n") + "\n</script>" }

const html = " 200 text/html"

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestParts: a page is rendered with what the archive has; what is missing goes out as links, and it is rendered again when that has come, of any round.
func TestParts(t *testing.T) {
	w := newWeb(t)
	w.fetch() // a round of nothing
	got, r := w.fetch([2]string{"http://a.test/old.json 200 application/json", "link /old"})
	same(t, "no page", got)
	got, r = w.fetch([2]string{"http://a.test/" + html, shell("GET http://a.test/old.json", "GET http://a.test/x.json", "IMG http://a.test/i.png", "POST http://a.test/post", "go http://a.test/next", "GET ftp://a.test/f")})
	same(t, "first", got, "requested http://a.test/i.png", "rendered http://a.test/next", "rendered http://a.test/old", "requested http://a.test/x.json")
	if r.Waiting != 1 || r.Answers[missing] != 2 || r.Answers[notGET] != 1 || r.Answers[otherPage] != 1 || r.Answers[unsupported] != 1 || r.Chosen[WhyShell] != 1 {
		t.Errorf("%+v", r)
	}
	got, r = w.fetch([2]string{"http://a.test/i.png 200 image/png", "x"}, [2]string{"http://a.test/x.json 0 -", ""})
	if same(t, "a picture, and a failure", got); r.Waiting != 1 || r.Rendered != 0 {
		t.Errorf("%+v", r)
	}
	got, r = w.fetch([2]string{"http://a.test/x.json 200 application/json", "link /x"})
	same(t, "again", got, "rendered http://a.test/next", "rendered http://a.test/old", "rendered http://a.test/x")
	if r.Waiting != 0 || r.Rendered != 1 {
		t.Errorf("%+v", r)
	}
}

// TestScriptsFirst: a page is not loaded before its missing scripts were tried.
func TestScriptsFirst(t *testing.T) {
	for _, status := range []string{"200", "404", "0"} {
		w := newWeb(t)
		page := shell("GET http://a.test/app.js") + "<script src=/app.js></script>"
		if got, r := w.fetch([2]string{"http://a.test/" + html, page}); r.Rendered != 0 || r.Waiting != 1 {
			t.Errorf("%s: %q %+v", status, got, r)
		}
		if got, r := w.fetch([2]string{"http://a.test/app.js " + status + " text/javascript", "link /x"}); r.Rendered != 1 || r.Waiting != 0 || (len(got) == 1) == (status == "0") {
			t.Errorf("%s: %q %+v", status, got, r)
		}
	}
}

// TestAttempts: an endless list is rendered so often and no more, and a browser that dies costs one attempt of its page alone.
func TestAttempts(t *testing.T) {
	w := newWeb(t)
	part := func(n int) [2]string {
		return [2]string{fmt.Sprintf("http://a.test/%d.json 200 application/json", n), fmt.Sprintf("link /item%d\nGET http://a.test/%d.json", n, n+1)}
	}
	_, r := w.fetch([2]string{"http://a.test/" + html, shell("GET http://a.test/0.json")}, [2]string{"http://b.test/" + html, shell("die")}, [2]string{"http://c.test/" + html, shell("link /ok")})
	if r.Rendered != 2 || r.Failed != 1 || r.Crashes != crashesOfPage || r.Gained != 1 {
		t.Errorf("%+v", r)
	}
	rendered := uint64(0)
	for n := range 5 {
		_, r := w.fetch(part(n))
		rendered += r.Rendered
	}
	if rendered != 2 {
		t.Errorf("rendered %d times more, want 2", rendered)
	}
}

// TestChoice: which pages are rendered, and why.
func TestChoice(t *testing.T) {
	words := strings.Repeat("words of a page ", 100)
	long := words + "<script>1</script>"
	links := "<a href=1>1</a><a href=2>2</a><a href=3>3</a><a href=4>4</a><a href=5>5</a><a href=6>6</a>"
	for _, test := range []struct {
		name, pages, rules string
		page               [2]string
		want               string
	}{
		{"shell", Auto, "", [2]string{"http://a.test/" + html, shell()}, WhyShell},
		{"no script", Auto, "", [2]string{"http://a.test/" + html, "<p>hello"}, ""},
		{"text", Auto, "", [2]string{"http://a.test/" + html, long}, ""},
		{"links", Auto, "", [2]string{"http://a.test/" + html, shell() + links}, ""},
		{"a wiki in one file, with what it says to browsers without scripts", Auto, "", [2]string{"http://a.test/" + html, "<p>is loading</p><noscript>" + words + links + "</noscript><script type=application/json>[{}]</script>" + shell()}, WhyShell},
		{"noscript that nobody closed", Auto, "", [2]string{"http://a.test/" + html, shell() + "<noscript>" + words + links}, WhyShell},
		{"noscript in a script and a comment", Auto, "", [2]string{"http://a.test/" + html, "<script>'<noscript>'</script><!--<noscript>-->" + words}, ""},
		{"noscript beside text", Auto, "", [2]string{"http://a.test/" + html, long + "<noscript><img src=pixel></noscript>"}, ""},
		{"UTF-16", Auto, "", [2]string{"http://a.test/" + html, "\xFE\xFF\x00" + strings.Join(strings.Split("<script src=a>", ""), "\x00")}, WhyShell},
		{"data alone", Auto, "", [2]string{"http://a.test/" + html, "<p>hello<script type=application/ld+json>{}</script>"}, ""},
		{"a stub that leads on", Auto, "", [2]string{"http://a.test/" + html, "<meta http-equiv=refresh content=0;url=/b>" + shell()}, ""},
		{"one that leads browsers without scripts on", Auto, "", [2]string{"http://a.test/" + html, "<noscript><meta http-equiv=refresh content=0;url=/b></noscript>" + shell()}, WhyShell},
		{"not found", Auto, "", [2]string{"http://a.test/ 404 text/html", shell()}, ""},
		{"no page", Auto, "", [2]string{"http://a.test/ 200 image/svg+xml", shell()}, ""},
		{"all", All, "", [2]string{"http://a.test/" + html, long}, WhyAll},
		{"a rule for documents", Auto, "", [2]string{"http://denied.test/" + html, shell()}, ""},
		{"rule", "", "allow x: path /app/\ndeny y: any", [2]string{"http://a.test/app/1" + html, long}, WhyRule},
		{"no rule", "", "allow x: path /app/", [2]string{"http://a.test/1" + html, shell()}, ""},
		{"denied", All, "deny x: host a.test", [2]string{"http://a.test/1" + html, shell()}, ""},
		{"no rule, auto", Auto, "deny x: host b.test", [2]string{"http://a.test/1" + html, shell()}, WhyShell},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWeb(t)
			if w.set.Pages = test.pages; test.rules != "" {
				w.set.Rules = rules(t, test.rules)
			}
			w.set.Filter = rules(t, "deny d: mime text/html and host denied.test")
			_, r := w.fetch(test.page)
			if n := r.Chosen[test.want]; test.want != "" && n != 1 || test.want == "" && len(r.Chosen) > 0 {
				t.Errorf("chosen %v, want %q", r.Chosen, test.want)
			}
			if len(w.found) > 0 && (w.found[0].Name != "why" || w.found[0].Value != test.want) {
				t.Errorf("found %v", w.found)
			}
		})
	}
	t.Run("links of noscript", func(t *testing.T) {
		for size, want := range map[int]uint64{10: 0, shellBytes: 1} {
			w := newWeb(t)
			for range shellLinks + 1 {
				w.links = append(w.links, record.Link{SrcKey: canon.Options{}.URLKey("a.test", "http://a.test/"), URL: "http://a.test/1", Host: "a.test", LinkKind: linkkind.A})
			}
			if _, r := w.fetch([2]string{"http://a.test/" + html, "<noscript>" + links + "</noscript>" + shell(strings.Repeat("/", size))}); r.Chosen[WhyShell] != want {
				t.Errorf("%d bytes of scripts: chosen %v, want %d", size, r.Chosen, want)
			}
		}
	})
	t.Run("hosts", func(t *testing.T) {
		w := newWeb(t)
		w.fetch([2]string{"http://a.test/1" + html, shell("link /x")}, [2]string{"http://a.test/2" + html, shell("link /y")},
			[2]string{"http://menu.test/1" + html, shell("link /x")}, [2]string{"http://menu.test/2" + html, shell("link /x")})
		if _, r := w.fetch([2]string{"http://a.test/3" + html, long}, [2]string{"http://b.test/3" + html, long}, [2]string{"http://menu.test/3" + html, long}); r.Chosen[WhyHost] != 1 {
			t.Errorf("chosen %v", r.Chosen)
		}
		for host, script := range map[string]string{"c.test": "", "d.test": "die"} {
			for n := range fruitless {
				w.fetch([2]string{fmt.Sprintf("http://%s/%d%s", host, n, html), shell(script)})
			}
			if _, r := w.fetch([2]string{"http://" + host + "/last" + html, shell(script)}); len(r.Chosen) > 0 {
				t.Errorf("%s, where nothing comes of it: %v", host, r.Chosen)
			}
		}
		var batch [][2]string
		for n := range 3 * fruitless {
			batch = append(batch, [2]string{fmt.Sprintf("http://e.test/%d%s", n, html), shell()})
		}
		if _, r := w.fetch(batch...); r.Chosen[WhyShell] != uint64(fruitless+w.set.Browsers-1) {
			t.Errorf("of a batch where nothing comes of %d pages: %v", len(batch), r.Chosen)
		}
	})
}

// TestFilter: what scripts ask for is judged as any link.
func TestFilter(t *testing.T) {
	w := newWeb(t)
	w.set.Filter = rules(t, "allow parts: requisite and host a.test\nallow site: host a.test\ndefault deny\n")
	got, r := w.fetch([2]string{"http://a.test/" + html, shell("GET http://a.test/x.json", "GET http://tracker.test/t.js", "link http://b.test/", "link /y")})
	same(t, "links", got, "requested http://a.test/x.json", "rendered http://a.test/y")
	if r.Answers[refused] != 1 || r.Answers[missing] != 1 {
		t.Errorf("%v", r.Answers)
	}
}

// TestPageInfo: the record of a page has the fields and the spelling of browsertrix-crawler.
func TestPageInfo(t *testing.T) {
	w := newWeb(t)
	w.fetch([2]string{"http://a.test/x.json 200 application/json;charset=utf-8", "1"})
	w.fetch([2]string{"http://a.test/" + html, shell("GET http://a.test/x.json", "GET http://a.test/y.json")})
	list, _ := filepath.Glob(w.dir + "/render/warc/*")
	if len(list) != 1 {
		t.Fatalf("files %q", list)
	}
	f, err := os.Open(list[0])
	must.OK(t, err)
	defer f.Close()
	in := warc.NewReader(f, warc.ReaderOptions{})
	for {
		rec, err := in.Next()
		must.OK(t, err)
		if rec.TargetURI != "urn:pageinfo:http://a.test/" {
			continue
		}
		var got struct {
			URL      string
			TS       time.Time
			TSStatus int
			URLs     map[string]map[string]any
		}
		must.OK(t, json.NewDecoder(rec.Block).Decode(&got))
		want := map[string]map[string]any{
			"http://a.test/":       {"status": 200.0, "mime": "text/html", "type": "document", "answer": answered},
			"http://a.test/x.json": {"status": 200.0, "mime": "application/json", "type": "fetch", "answer": answered},
			"http://a.test/y.json": {"status": 0.0, "type": "fetch", "answer": missing},
		}
		if got.URL != "http://a.test/" || !got.TS.Equal(time.Unix(2, 0)) || got.TSStatus != 200 || !reflect.DeepEqual(got.URLs, want) {
			t.Errorf("%+v, want the URLs %v", got, want)
		}
		return
	}
}

// TestRows: rows that do not decode are refused.
func TestRows(t *testing.T) {
	for _, bad := range []string{``, `{"status":1000}`, `{"warc_record_offset":-1}`, `[]`} {
		if new(Part).Parse(1, []byte(bad)) == nil {
			t.Errorf("a part: %s is accepted", bad)
		}
	}
	for _, bad := range []string{``, `{}`, `{"host":"a"`, `{"host":"a","url":"http://a/"}`, `{"host":"a","url":"u","document":{},"missing":["x"]}`} {
		if new(Waiting).Parse(1, []byte(bad)) == nil {
			t.Errorf("a page: %s is accepted", bad)
		}
	}
}

// TestCORS: a page may read what the server lets it, and what is of its own domain.
func TestCORS(t *testing.T) {
	w := newWeb(t)
	for _, test := range []struct {
		origin, url string
		want        string
	}{{"http://www.a.test", "http://api.a.test/x", "http://www.a.test"}, {"http://b.test", "http://api.a.test/x", ""}} {
		var header http.Header
		w.set.Start = func(context.Context) (Browser, error) {
			return loader(func(p Page) {
				header = p.Answer(&Request{URL: test.url, Method: "GET", Type: "Fetch", Origin: test.origin}).Header
			}), nil
		}
		w.fetch([2]string{test.url + " 200 application/json", "1"}, [2]string{test.origin + "/" + html, shell()})
		if got := header.Get("Access-Control-Allow-Origin"); got != test.want || header == nil {
			t.Errorf("%s reads %s: %q, want %q", test.origin, test.url, got, test.want)
		}
	}
}

type loader func(Page)

func (l loader) Peak() int64  { return 0 }
func (l loader) Close() error { return nil }
func (l loader) Load(_ context.Context, p Page) (Result, error) {
	l(p)
	return Result{}, nil
}
